use super::{BrownianPath, BrownianTree};
use crate::random::Stream;

/// How often a cell of the base grid is halved before the path is taken as a parabola.
const DEPTH: u32 = 30;

/// Brownian motion with its space–time Lévy area on `[t0, t1]`, as a pure function of (stream, interval).
///
/// Over an interval of length `h`, the increment `W ~ N(0, h)` and the area `H ~ N(0, h/12)` are independent; with
/// `∫ (B(r) − B(a)) dr = h (½W + H)` they are what methods of strong order 1.5 want to know of the path. Each cell of the base grid draws
/// both. Inside a cell they are bisected together. With `D = W₁ − ½W` for the half that comes first, and `H₁, H₂ ~ N(0, h/24)` the areas of
/// the halves, the integrals of the halves add up to that of the whole where
///
/// ```text
/// H = ½D + ½(H₁ + H₂),   D ~ N(0, h/4), H₁ and H₂ independent.
/// ```
///
/// Given `H`, by the rule for a Gaussian given a sum of which it is a part, `½D ~ N(¾H, h/64)`; the difference of `H₁` and `H₂` is
/// independent of both. So with standard normal `z` and `z'`,
///
/// ```text
/// W₁ = ½W + (3/2)H + ¼√h z,   W₂ = W − W₁,   H₁, H₂ = H − ½D ± √(h/48) z'.
/// ```
///
/// Below the last halving the path is what one expects of it given `W` and `H`, `B(a + xh) = B(a) + xW + 6x(1 − x)H`.
///
/// Increments are on the lattice of [`BrownianTree`] and add up bit for bit; those of whole cells are the same as there. Integrals add up
/// by Chen's relation to rounding: `∫ₐᶜ (B − B(a)) = ∫ₐᵇ (B − B(a)) + ∫ᵇᶜ (B − B(b)) + (c − b)(B(b) − B(a))`.
#[derive(Clone, Debug)]
pub struct LevyTree {
    base: BrownianTree,
    areas: Stream,
}

/// What is known of a path from the start of a cell: its increment, and the integral of that over time.
struct Prefix {
    increment: Vec<f64>,
    integral: Vec<f64>,
}

impl LevyTree {
    /// A path of `dim` components on `[t0, t1]` with a base grid of `cells` cells.
    ///
    /// # Panics
    /// If the interval is empty or not finite, or there are no cells or more than 2^32.
    pub fn new(stream: Stream, dim: usize, t0: f64, t1: f64, cells: usize) -> Self {
        Self { base: BrownianTree::new(stream, dim, t0, t1, cells), areas: stream.child(0) }
    }

    fn cell_area(&self, cell: usize, out: &mut [f64]) {
        let deviation = libm::sqrt((self.base.grid(cell + 1) - self.base.grid(cell)) / 12.0);
        self.areas.fill_normal(BrownianTree::node(cell, 0), out);
        out.iter_mut().for_each(|area| *area *= deviation);
    }

    /// From the start of a cell to a time in it.
    fn inside(&self, cell: usize, t: f64) -> Prefix {
        let dim = self.dim();
        let mut left = Prefix { increment: vec![0.0; dim], integral: vec![0.0; dim] };
        let (mut a, mut b) = (self.base.grid(cell), self.base.grid(cell + 1));
        if t == a {
            return left;
        }
        let [mut w, mut h, mut first, mut second] = [(); 4].map(|()| vec![0.0; dim]);
        self.base.cell_increment(cell, &mut w);
        self.cell_area(cell, &mut h);
        // Nodes are numbered as in a heap: the children of n are 2n and 2n + 1.
        let mut node = 1u64;
        for _ in 0..DEPTH {
            let (middle, length) = (0.5 * (a + b), b - a);
            if t == b || !(a < middle && middle < b) {
                break;
            }
            self.base.stream().fill_normal(BrownianTree::node(cell, node), &mut first);
            self.areas.fill_normal(BrownianTree::node(cell, node), &mut second);
            let (deviation, spread) = (0.25 * libm::sqrt(length), libm::sqrt(length / 48.0));
            let after = t >= middle;
            node = 2 * node + u64::from(after);
            for i in 0..dim {
                let w1 = self.base.snap(0.5 * w[i] + 1.5 * h[i] + deviation * first[i]);
                // From what was rounded to the lattice, so that the integrals of the halves add up.
                let mean = h[i] - 0.5 * (w1 - 0.5 * w[i]);
                if after {
                    let h1 = mean + spread * second[i];
                    left.integral[i] += (middle - a) * (left.increment[i] + 0.5 * w1 + h1);
                    left.increment[i] += w1;
                    (w[i], h[i]) = (w[i] - w1, mean - spread * second[i]);
                } else {
                    (w[i], h[i]) = (w1, mean + spread * second[i]);
                }
            }
            *if after { &mut a } else { &mut b } = middle;
            if t == middle {
                return left;
            }
        }
        let (length, x) = (t - a, (t - a) / (b - a));
        for i in 0..dim {
            let end = self.base.snap(left.increment[i] + x * (w[i] + 6.0 * (1.0 - x) * h[i]));
            left.integral[i] += length * (left.increment[i] + x * (0.5 * w[i] + (3.0 - 2.0 * x) * h[i]));
            left.increment[i] = end;
        }
        left
    }
}

impl BrownianPath for LevyTree {
    fn dim(&self) -> usize {
        self.base.dim()
    }

    fn increment(&self, from: f64, to: f64, out: &mut [f64]) {
        if to < from {
            self.increment(to, from, out);
            out.iter_mut().for_each(|v| *v = -*v);
            return;
        }
        let (first, last) = (self.base.cell_of(from), self.base.cell_of(to));
        self.base.cells_increment(first..last, out);
        let (head, tail) = (self.inside(first, from).increment, self.inside(last, to).increment);
        for ((out, head), tail) in out.iter_mut().zip(head).zip(tail) {
            *out += tail - head;
        }
    }

    fn increment_and_area(&self, from: f64, to: f64, increment: &mut [f64], area: &mut [f64]) {
        if to <= from {
            // The same path run backwards: its increment changes sign, its area does not.
            if to < from {
                self.increment_and_area(to, from, increment, area);
                increment.iter_mut().for_each(|w| *w = -*w);
            } else {
                increment.fill(0.0);
                area.fill(0.0);
            }
            return;
        }
        let (first, last) = (self.base.cell_of(from), self.base.cell_of(to));
        let (mut w, mut h) = (vec![0.0; self.dim()], vec![0.0; self.dim()]);
        // Until the end, `area` holds the integral, from the start of the first cell.
        increment.fill(0.0);
        area.fill(0.0);
        for cell in first..last {
            self.base.cell_increment(cell, &mut w);
            self.cell_area(cell, &mut h);
            let length = self.base.grid(cell + 1) - self.base.grid(cell);
            for i in 0..w.len() {
                area[i] += length * (increment[i] + 0.5 * w[i] + h[i]);
                increment[i] += w[i];
            }
        }
        let (head, tail) = (self.inside(first, from), self.inside(last, to));
        let (rest, length) = (to - self.base.grid(last), to - from);
        for i in 0..w.len() {
            let integral = area[i] + rest * increment[i] + tail.integral[i];
            increment[i] += tail.increment[i] - head.increment[i];
            area[i] = (integral - head.integral[i]) / length - head.increment[i] - 0.5 * increment[i];
        }
    }
}
