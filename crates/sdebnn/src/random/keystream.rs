//! The words of the cipher ChaCha8, as many blocks at once as a vector has lanes.

use std::hint::cold_path;

use pulp::{Arch, Simd, WithSimd};
use sdebnn_kernels::Element;

/// 64-bit words of a block, and the 32-bit words that the cipher has.
const BLOCK: usize = 8;
const HALVES: usize = 2 * BLOCK;

/// Most blocks that are made at once: the lanes of AVX-512.
const MOST: usize = 16;

/// "expand 32-byte k".
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// The words of one key and node from some block on.
#[derive(Clone, Debug)]
pub(super) struct Keystream {
    key: [u32; 8],
    node: u64,
    /// The block after those that are here.
    next: u64,
    /// The words that are here, in order.
    words: [u64; MOST * BLOCK],
    /// How many there are, and how many of them were taken.
    made: usize,
    taken: usize,
}

impl Keystream {
    pub(super) fn new(key: &[u8; 32], node: u64, first: u64) -> Self {
        let words = key.as_chunks().0;
        let key = std::array::from_fn(|i| u32::from_le_bytes(words[i]));
        Self { key, node, next: first, words: [0; MOST * BLOCK], made: 0, taken: 0 }
    }

    /// The words that are here and were not taken: some, in any case.
    #[inline(always)]
    fn here(&mut self) -> &[u64] {
        if self.taken == self.made {
            self.make_blocks();
        }
        &self.words[self.taken..self.made]
    }

    #[cold]
    fn make_blocks(&mut self) {
        let Self { key, node, next, words, .. } = self;
        let blocks = Arch::new().dispatch(Blocks { key, node: *node, first: *next, words });
        self.next = self.next.wrapping_add(blocks as u64);
        (self.made, self.taken) = (blocks * BLOCK, 0);
    }

    #[inline(always)]
    pub(super) fn next_word(&mut self) -> u64 {
        let word = self.here()[0];
        self.taken += 1;
        word
    }

    /// Takes words and sets `numbers` to those that they give, up to the first one that is not good, whose word is left. Returns how many
    /// are good; there may be fewer than asked for.
    #[inline(always)]
    pub(super) fn take_good(&mut self, numbers: &mut [f64], number: impl Fn(u64) -> (f64, bool)) -> usize {
        let mut count = 0;
        for (to, &word) in numbers.iter_mut().zip(self.here()) {
            let good;
            (*to, good) = number(word);
            if !good {
                cold_path();
                break;
            }
            count += 1;
        }
        self.taken += count;
        count
    }
}

/// As many blocks from `first` on as a vector has lanes.
struct Blocks<'a> {
    key: &'a [u32; 8],
    node: u64,
    first: u64,
    words: &'a mut [u64; MOST * BLOCK],
}

impl WithSimd for Blocks<'_> {
    /// How many there are.
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        let lanes = S::U32_LANES;
        let [mut low, mut high] = [[0; MOST]; 2];
        for block in 0..MOST {
            let count = self.first.wrapping_add(block as u64);
            (low[block], high[block]) = (count as u32, (count >> 32) as u32);
        }
        let [k0, k1, k2, k3, k4, k5, k6, k7] = *self.key;
        let [n0, n1] = [self.node as u32, (self.node >> 32) as u32];
        let words =
            [CONSTANTS[0], CONSTANTS[1], CONSTANTS[2], CONSTANTS[3], k0, k1, k2, k3, k4, k5, k6, k7, 0, 0, n0, n1];
        // Loops and not the methods of arrays: those take closures, which target features do not reach.
        let mut start = [simd.splat_u32s(0); HALVES];
        for (to, word) in start.iter_mut().zip(words) {
            *to = simd.splat_u32s(word);
        }
        start[12] = S::as_simd_u32s(&low[..lanes]).0[0];
        start[13] = S::as_simd_u32s(&high[..lanes]).0[0];
        let mut x = start;
        for _ in 0..4 {
            quarter_round(simd, &mut x, [0, 4, 8, 12]);
            quarter_round(simd, &mut x, [1, 5, 9, 13]);
            quarter_round(simd, &mut x, [2, 6, 10, 14]);
            quarter_round(simd, &mut x, [3, 7, 11, 15]);
            quarter_round(simd, &mut x, [0, 5, 10, 15]);
            quarter_round(simd, &mut x, [1, 6, 11, 12]);
            quarter_round(simd, &mut x, [2, 7, 8, 13]);
            quarter_round(simd, &mut x, [3, 4, 9, 14]);
        }
        let mut mixed = [simd.splat_f32s(0.0); HALVES];
        for (to, (x, start)) in mixed.iter_mut().zip(x.into_iter().zip(start)) {
            *to = simd.transmute_f32s_u32s(simd.add_u32s(x, start));
        }
        // A vector has one word of every block; the blocks are wanted one after the other.
        let words = S::as_mut_simd_f32s(bytemuck::cast_slice_mut(self.words)).0;
        for (part, mixed) in mixed.chunks_exact(lanes).enumerate() {
            f32::transpose(simd, mixed, &mut words[part..], [1, HALVES / lanes]);
        }
        if cfg!(target_endian = "big") {
            self.words.iter_mut().for_each(|word| *word = word.rotate_right(32));
        }
        lanes
    }
}

/// Rounds of the cipher mix four of its sixteen words at a time.
#[inline(always)]
fn quarter_round<S: Simd>(simd: S, x: &mut [S::u32s; HALVES], [a, b, c, d]: [usize; 4]) {
    for (to, from, mixed, bits) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        x[to] = simd.add_u32s(x[to], x[from]);
        let sum = simd.xor_u32s(x[mixed], x[to]);
        let left = simd.wrapping_dyn_shl_u32s(sum, simd.splat_u32s(bits));
        x[mixed] = simd.or_u32s(left, simd.wrapping_dyn_shr_u32s(sum, simd.splat_u32s(32 - bits)));
    }
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha8Rng;
    use chacha20::rand_core::{Rng, SeedableRng};
    use pulp::Scalar;

    use super::*;

    #[test]
    fn the_words_are_those_of_another_implementation() {
        let key = std::array::from_fn(|i| 7 * i as u8 + 1);
        for (node, first) in [(0, 0), (5 << 32 | 9, 0), (u64::MAX, 1 << 56), (1, u64::from(u32::MAX) - 3)] {
            let mut other = ChaCha8Rng::from_seed(key);
            other.set_stream(node);
            other.set_word_pos(u128::from(first) * 2 * BLOCK as u128);
            let mut words = Keystream::new(&key, node, first);
            let mut scalar = words.clone();
            for place in 0..3 * MOST * BLOCK {
                if place.is_multiple_of(BLOCK) {
                    let Keystream { key, node, words, .. } = &mut scalar;
                    let first = first + (place / BLOCK) as u64;
                    assert_eq!(Scalar::new().vectorize(Blocks { key, node: *node, first, words }), 1);
                }
                let expected = other.next_u64();
                assert_eq!(words.next_word(), expected, "word {place} of node {node}");
                assert_eq!(scalar.words[place % BLOCK], expected, "word {place} of node {node}, one block at a time");
            }
        }
    }

    #[test]
    fn words_are_taken_up_to_one_that_gives_no_good_number() {
        let mut words = Keystream::new(&[3; 32], 0, 0);
        let mut others = words.clone();
        let expected: Vec<u64> = (0..4 * MOST * BLOCK).map(|_| others.next_word()).collect();
        for bad in [0, 5, 3 * MOST * BLOCK + 1] {
            let mut words = words.clone();
            let (mut numbers, mut done) = (vec![0.0; expected.len()], 0);
            while done < bad {
                done += words.take_good(&mut numbers[done..], |word| (word as f64, word != expected[bad]));
            }
            assert_eq!(words.take_good(&mut numbers[done..], |word| (word as f64, word != expected[bad])), 0);
            assert_eq!(words.next_word(), expected[bad]);
            assert!(numbers[..bad].iter().zip(&expected).all(|(&number, &word)| number == word as f64));
        }
        assert_eq!(words.take_good(&mut [0.0; 3], |_| (1.0, true)), 3, "no more than asked for");
    }
}
