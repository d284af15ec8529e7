//! Random numbers as a pure function of where they are used.
//!
//! There is no generator that advances: a [`Stream`] is a key, and every number is a function of the key, a 64-bit node and
//! a position. The same key gives the same bits in any order of calls, on any thread and on any machine (only IEEE basic
//! operations and the portable `libm` are involved).

use std::sync::LazyLock;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// Where in a stream the keys of its children lie: far behind any number that is drawn from it.
const CHILD_KEYS: u128 = 1 << 60;

/// A key of the counter-based generator ChaCha8.
///
/// Streams form a tree: `Stream::root(seed).child(purpose).child(epoch).child(sample)` is independent of all its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    key: [u8; 32],
}

impl Stream {
    /// The stream that one seed decides.
    pub fn root(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self { key }.child(0)
    }

    /// The `index`-th child, independent of this stream and of the other children.
    pub fn child(&self, index: u64) -> Self {
        let mut source = self.source(index);
        source.set_word_pos(CHILD_KEYS);
        let mut key = [0; 32];
        source.fill_bytes(&mut key);
        Self { key }
    }

    fn source(&self, node: u64) -> ChaCha8Rng {
        let mut source = ChaCha8Rng::from_seed(self.key);
        source.set_stream(node);
        source
    }

    /// Fills `out` with uniform numbers in the open interval (0, 1).
    pub fn fill_uniform(&self, node: u64, out: &mut [f64]) {
        let mut source = self.source(node);
        for value in out {
            *value = open_unit(source.next_u64());
        }
    }

    /// Fills `out` with standard normal numbers.
    pub fn fill_normal(&self, node: u64, out: &mut [f64]) {
        let (mut source, ziggurat) = (self.source(node), &*ZIGGURAT);
        for value in out {
            *value = ziggurat.draw(&mut source);
        }
    }

    /// A permutation of `0..len` (Fisher–Yates), the order of one epoch.
    pub fn permutation(&self, len: usize) -> Vec<usize> {
        let mut source = self.source(0);
        let mut order: Vec<usize> = (0..len).collect();
        for i in (1..len).rev() {
            let j = (u128::from(source.next_u64()) * (i as u128 + 1)) >> 64;
            order.swap(i, j as usize);
        }
        order
    }
}

/// The centre of one of 2^52 equal cells of (0, 1), so that neither end is ever drawn.
fn open_unit(bits: u64) -> f64 {
    const CELL: f64 = 1.0 / (1u64 << 52) as f64;
    // 52 bits are a signed number too, which converts in one instruction.
    ((bits >> 12) as i64 as f64 + 0.5) * CELL
}

/// Layers of the ziggurat, where its tail begins, and the area of each layer.
const LAYERS: usize = 256;
const TAIL: f64 = 3.654_152_885_361_009;
const AREA: f64 = 0.004_928_673_233_974_658;

static ZIGGURAT: LazyLock<Ziggurat> = LazyLock::new(Ziggurat::new);

/// Marsaglia and Tsang's ziggurat for the standard normal law: layers of equal area cover the density `exp(−x²/2)`.
struct Ziggurat {
    /// The right ends of the layers, from the widest; the first is the width of a box with the area of base and tail together.
    ends: [f64; LAYERS + 1],
    /// The density at the ends.
    heights: [f64; LAYERS + 1],
}

impl Ziggurat {
    fn new() -> Self {
        let density = |x: f64| libm::exp(-0.5 * x * x);
        let mut ends = [0.0; LAYERS + 1];
        ends[0] = AREA / density(TAIL);
        ends[1] = TAIL;
        for i in 2..LAYERS {
            ends[i] = libm::sqrt(-2.0 * libm::log(AREA / ends[i - 1] + density(ends[i - 1])));
        }
        Self { ends, heights: ends.map(density) }
    }

    #[inline(always)]
    fn draw(&self, source: &mut ChaCha8Rng) -> f64 {
        // The low bits choose the layer, the high ones the place in it.
        let bits = source.next_u64();
        let layer = (bits & (LAYERS as u64 - 1)) as usize;
        let place = 2.0 * open_unit(bits) - 1.0;
        let x = place * self.ends[layer];
        if x.abs() < self.ends[layer + 1] { x } else { self.draw_outside(source, layer, place) }
    }

    /// What is drawn where a layer may reach beyond the density: out of line, as one number in eighty is.
    #[cold]
    #[inline(never)]
    fn draw_outside(&self, source: &mut ChaCha8Rng, layer: usize, place: f64) -> f64 {
        if layer == 0 {
            return Self::draw_tail(source).copysign(place);
        }
        let x = place * self.ends[layer];
        let [low, high] = [self.heights[layer], self.heights[layer + 1]];
        if low + (high - low) * open_unit(source.next_u64()) < libm::exp(-0.5 * x * x) { x } else { self.draw(source) }
    }

    /// A number beyond [`TAIL`], by Marsaglia's method.
    fn draw_tail(source: &mut ChaCha8Rng) -> f64 {
        loop {
            let beyond = -libm::log(open_unit(source.next_u64())) / TAIL;
            let bound = -2.0 * libm::log(open_unit(source.next_u64()));
            if bound > beyond * beyond {
                return TAIL + beyond;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_of_the_ziggurat_have_equal_area_and_end_at_the_top() {
        let z = &*ZIGGURAT;
        for i in 1..LAYERS {
            assert!((z.ends[i] * (z.heights[i + 1] - z.heights[i]) - AREA).abs() < 1e-12, "{i}");
        }
        assert!((z.ends[0] * z.heights[1] - AREA).abs() < 1e-15 && z.heights[LAYERS] == 1.0);
    }

    #[test]
    fn normal_numbers_have_the_normal_law_far_into_the_tails() {
        let mut values = vec![0.0; 4_000_000];
        Stream::root(5).fill_normal(0, &mut values);
        let n = values.len() as f64;
        for k in 1..=4 {
            let expected = libm::erf(f64::from(k) / 2f64.sqrt());
            let inside = values.iter().filter(|v| v.abs() < f64::from(k)).count() as f64 / n;
            let error = (expected * (1.0 - expected) / n).sqrt();
            assert!((inside - expected).abs() < 4.0 * error, "{k}: {inside} {expected}");
        }
        for power in 1..=4 {
            let moment = values.iter().map(|v| v.powi(power)).sum::<f64>() / n;
            let expected = [0.0, 1.0, 0.0, 3.0][power as usize - 1];
            assert!((moment - expected).abs() < 0.025, "{power}: {moment}");
        }
        assert!(values.iter().any(|v| *v > TAIL) && values.iter().any(|v| *v < -TAIL));
    }

    #[test]
    fn streams_do_not_depend_on_the_order_or_length_of_draws() {
        let stream = Stream::root(7).child(3);
        let mut long = [0.0; 40];
        let mut short = [0.0; 5];
        stream.fill_normal(9, &mut long);
        stream.fill_normal(8, &mut [0.0; 3]);
        stream.fill_normal(9, &mut short);
        assert_eq!(long[..5], short);
        assert_ne!(stream.child(0), stream.child(1));
        assert_ne!(Stream::root(7), Stream::root(8));
    }

    #[test]
    fn permutations_hold_every_index_once() {
        let mut order = Stream::root(1).permutation(1000);
        assert_ne!(order[..5], [0, 1, 2, 3, 4]);
        order.sort_unstable();
        assert!(order.iter().copied().eq(0..1000));
    }
}
