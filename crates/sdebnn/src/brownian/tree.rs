use super::BrownianPath;
use crate::random::Stream;

/// How often a cell of the base grid is halved before the path is taken as linear.
const DEPTH: u32 = 30;
/// Values are multiples of 2^-44 of the path's standard deviation over its whole span.
const LATTICE_BITS: i32 = 44;

/// Brownian motion on `[t0, t1]` as a pure function of (stream, interval).
///
/// The interval is cut into `cells` equal cells, whose increments are drawn directly: a fixed grid of as many steps costs one
/// normal number a step and component. Inside a cell, values come from the Brownian bridge,
/// `B(m) | B(a), B(b) ~ N((B(a) + B(b))/2, (b − a)/4)` at the midpoint `m`, by halving the cell down to the time that is asked for
/// (an iteration: no recursion, nothing is remembered).
///
/// All values lie on a lattice of spacing `2^-44 √(t1 − t0)` (rounded to a power of two), on which sums of doubles are exact. So
/// `B(a,b) + B(b,c) = B(a,c)` holds bit for bit, for any a, b, c.
#[derive(Clone, Debug)]
pub struct BrownianTree {
    stream: Stream,
    dim: usize,
    t0: f64,
    t1: f64,
    cells: usize,
    lattice: f64,
}

impl BrownianTree {
    /// A path of `dim` components on `[t0, t1]` with a base grid of `cells` cells.
    ///
    /// # Panics
    /// If the interval is empty or not finite, or there are no cells or more than 2^32.
    pub fn new(stream: Stream, dim: usize, t0: f64, t1: f64, cells: usize) -> Self {
        assert!(t0.is_finite() && t1.is_finite() && t0 < t1, "an empty interval: [{t0}, {t1}]");
        assert!(cells > 0 && (cells as u64) <= 1 << 32, "{cells} cells");
        let scale = libm::log2(t1 - t0) / 2.0;
        Self { stream, dim, t0, t1, cells, lattice: libm::exp2(f64::from(scale.round() as i32 - LATTICE_BITS)) }
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Where the numbers of a cell (node 0), or of a node of the tree inside it, are in a stream.
    pub(super) fn node(cell: usize, node: u64) -> u64 {
        (cell as u64) << 32 | node
    }

    /// Grid point `i`, by the formula of a fixed grid, so that its steps fall on cells exactly; the last is `t1`, to which the formula
    /// may only round.
    pub(super) fn grid(&self, i: usize) -> f64 {
        if i == self.cells { self.t1 } else { self.t0 + (self.t1 - self.t0) * i as f64 / self.cells as f64 }
    }

    /// The cell with `grid(cell) <= t < grid(cell + 1)`; `t1` belongs to the last.
    pub(super) fn cell_of(&self, t: f64) -> usize {
        assert!(t >= self.t0 && t <= self.t1, "the path on [{}, {}] was asked for t = {t}", self.t0, self.t1);
        let guess = (t - self.t0) / (self.t1 - self.t0) * self.cells as f64;
        let mut cell = (guess as usize).min(self.cells - 1);
        while self.grid(cell) > t {
            cell -= 1;
        }
        while cell + 1 < self.cells && self.grid(cell + 1) <= t {
            cell += 1;
        }
        cell
    }

    /// The nearest point of the lattice: doubles near `1.5 · 2^52` lattice spacings are spaced by just that, so the addition rounds.
    pub(super) fn snap(&self, value: f64) -> f64 {
        let anchor = 1.5 * (1u64 << 52) as f64 * self.lattice;
        (value + anchor) - anchor
    }

    /// The increment over `cells`.
    pub(super) fn cells_increment(&self, mut cells: std::ops::Range<usize>, out: &mut [f64]) {
        match cells.next() {
            Some(cell) => self.cell_increment(cell, out),
            None => out.fill(0.0),
        }
        let mut noise = vec![0.0; if cells.is_empty() { 0 } else { self.dim }];
        for cell in cells {
            self.cell_increment(cell, &mut noise);
            for (out, noise) in out.iter_mut().zip(&noise) {
                *out += noise;
            }
        }
    }

    pub(super) fn cell_increment(&self, cell: usize, out: &mut [f64]) {
        let deviation = libm::sqrt(self.grid(cell + 1) - self.grid(cell));
        self.stream.fill_normal(Self::node(cell, 0), out);
        for value in out {
            *value = self.snap(deviation * *value);
        }
    }

    /// Adds `sign · (B(t) − B(start of the cell))` to `out`.
    fn add_inside(&self, cell: usize, t: f64, sign: f64, out: &mut [f64]) {
        let (mut a, mut b) = (self.grid(cell), self.grid(cell + 1));
        if t == a {
            return;
        }
        let [mut left, mut right, mut noise] = [(); 3].map(|()| vec![0.0; self.dim]);
        self.cell_increment(cell, &mut right);
        // Nodes are numbered as in a heap: the children of n are 2n and 2n + 1.
        let mut node = 1u64;
        for _ in 0..DEPTH {
            let middle = 0.5 * (a + b);
            if t == b || !(a < middle && middle < b) {
                break;
            }
            let deviation = 0.5 * libm::sqrt(b - a);
            self.stream.fill_normal(Self::node(cell, node), &mut noise);
            let after = t >= middle;
            node = 2 * node + u64::from(after);
            for ((left, right), z) in left.iter_mut().zip(&mut right).zip(&noise) {
                let value = self.snap(0.5 * (*left + *right) + deviation * z);
                *if after { left } else { right } = value;
            }
            if t == middle {
                (a, b) = (middle, middle);
                break;
            }
            *if after { &mut a } else { &mut b } = middle;
        }
        let part = if b > a { (t - a) / (b - a) } else { 0.0 };
        for ((out, left), right) in out.iter_mut().zip(&left).zip(&right) {
            *out += sign * self.snap(left + part * (right - left));
        }
    }
}

impl BrownianPath for BrownianTree {
    fn dim(&self) -> usize {
        self.dim
    }

    fn increment(&self, from: f64, to: f64, out: &mut [f64]) {
        if to < from {
            self.increment(to, from, out);
            out.iter_mut().for_each(|v| *v = -*v);
            return;
        }
        let (first, last) = (self.cell_of(from), self.cell_of(to));
        self.cells_increment(first..last, out);
        self.add_inside(last, to, 1.0, out);
        self.add_inside(first, from, -1.0, out);
    }
}
