//! Random numbers as a pure function of where they are used.
//!
//! There is no generator that advances: a [`Stream`] is a key, and every number is a function of the key, a 64-bit node and
//! a position. The same key gives the same bits in any order of calls, on any thread and on any machine (only IEEE basic
//! operations and the portable `libm` are involved).

mod keystream;

use std::sync::LazyLock;

use keystream::Keystream;

/// The block of a stream where the keys of its children lie: far behind any number that is drawn from it.
const CHILD_KEYS: u64 = 1 << 56;

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
        let mut source = Keystream::new(&self.key, index, CHILD_KEYS);
        let mut key = [0; 32];
        key.as_chunks_mut().0.iter_mut().for_each(|word| *word = source.next_word().to_le_bytes());
        Self { key }
    }

    fn source(&self, node: u64) -> Keystream {
        Keystream::new(&self.key, node, 0)
    }

    /// Fills `out` with uniform numbers in the open interval (0, 1).
    pub fn fill_uniform(&self, node: u64, out: &mut [f64]) {
        let mut source = self.source(node);
        for value in out {
            *value = open_unit(source.next_word());
        }
    }

    /// Fills `out` with standard normal numbers.
    pub fn fill_normal(&self, node: u64, out: &mut [f64]) {
        let (mut source, ziggurat) = (self.source(node), &*ZIGGURAT);
        let mut done = 0;
        while done < out.len() {
            match source.take_good(&mut out[done..], |word| ziggurat.inside(Ziggurat::choice(word))) {
                0 => {
                    out[done] = ziggurat.draw(&mut source);
                    done += 1;
                }
                count => done += count,
            }
        }
    }

    /// A permutation of `0..len` (Fisher–Yates), the order of one epoch.
    pub fn permutation(&self, len: usize) -> Vec<usize> {
        let mut source = self.source(0);
        let mut order: Vec<usize> = (0..len).collect();
        for i in (1..len).rev() {
            let j = (u128::from(source.next_word()) * (i as u128 + 1)) >> 64;
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

    /// What the low bits choose, the layer, and the high ones, the place in it from -1 to 1.
    #[inline(always)]
    fn choice(word: u64) -> (usize, f64) {
        // With the exponent of 2, 52 bits are a number from 2 to 4, of which the centre of a cell is half a unit in the last place away.
        let place = f64::from_bits(word >> 12 | 2f64.to_bits()) - 3.0 + f64::EPSILON;
        ((word % LAYERS as u64) as usize, place)
    }

    /// The number that a choice gives, and whether it is surely below the density.
    #[inline(always)]
    fn inside(&self, (layer, place): (usize, f64)) -> (f64, bool) {
        let x = place * self.ends[layer];
        (x, x.abs() < self.ends[layer + 1])
    }

    fn draw(&self, source: &mut Keystream) -> f64 {
        let choice = Self::choice(source.next_word());
        let (x, inside) = self.inside(choice);
        if inside { x } else { self.draw_outside(source, choice) }
    }

    /// What is drawn where a layer may reach beyond the density: out of line, as one number in eighty is.
    #[cold]
    #[inline(never)]
    fn draw_outside(&self, source: &mut Keystream, (layer, place): (usize, f64)) -> f64 {
        if layer == 0 {
            return Self::draw_tail(source).copysign(place);
        }
        let x = place * self.ends[layer];
        let [low, high] = [self.heights[layer], self.heights[layer + 1]];
        if low + (high - low) * open_unit(source.next_word()) < libm::exp(-0.5 * x * x) { x } else { self.draw(source) }
    }

    /// A number beyond [`TAIL`], by Marsaglia's method.
    fn draw_tail(source: &mut Keystream) -> f64 {
        loop {
            let beyond = -libm::log(open_unit(source.next_word())) / TAIL;
            let bound = -2.0 * libm::log(open_unit(source.next_word()));
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
