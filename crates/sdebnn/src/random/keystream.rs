//! The words of the cipher ChaCha8, as many blocks at once as a vector has lanes.

use std::hint::cold_path;

use pulp::{Arch, Simd, WithSimd};

/// 64-bit words of a block.
pub(super) const BLOCK: usize = 8;

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
    /// `[word][block]`, of the blocks that are here.
    words: [[u64; MOST]; BLOCK],
    blocks: usize,
    /// Words that were taken from them.
    taken: usize,
}

impl Keystream {
    pub(super) fn new(key: &[u8; 32], node: u64, first: u64) -> Self {
        let words = key.as_chunks().0;
        let key = std::array::from_fn(|i| u32::from_le_bytes(words[i]));
        Self { key, node, next: first, words: [[0; MOST]; BLOCK], blocks: 0, taken: 0 }
    }

    /// Makes more blocks if all words were taken.
    #[inline(always)]
    fn refill(&mut self) {
        if self.taken == self.blocks * BLOCK {
            self.make_blocks();
        }
    }

    #[cold]
    fn make_blocks(&mut self) {
        let Self { key, node, next, words, .. } = self;
        self.blocks = Arch::new().dispatch(Blocks { key, node: *node, first: *next, words });
        self.next = self.next.wrapping_add(self.blocks as u64);
        self.taken = 0;
    }

    #[inline(always)]
    pub(super) fn next_word(&mut self) -> u64 {
        self.refill();
        let word = self.words[self.taken % BLOCK][self.taken / BLOCK % MOST];
        self.taken += 1;
        word
    }

    /// Sets `numbers` to those of the words of a block, if none of them was taken and each gives a number that is good.
    #[inline(always)]
    pub(super) fn take_block(&mut self, numbers: &mut [f64; BLOCK], number: impl Fn(u64) -> (f64, bool)) -> bool {
        if !self.taken.is_multiple_of(BLOCK) {
            return false;
        }
        self.refill();
        let block = self.taken / BLOCK % MOST;
        let mut all = true;
        for (to, words) in numbers.iter_mut().zip(&self.words) {
            let good;
            (*to, good) = number(words[block]);
            all &= good;
        }
        if !all {
            // A jump, and not a sum: the next block need not wait for this one.
            cold_path();
            return false;
        }
        self.taken += BLOCK;
        true
    }
}

/// As many blocks from `first` on as a vector has lanes.
struct Blocks<'a> {
    key: &'a [u32; 8],
    node: u64,
    first: u64,
    /// `[word][block]`
    words: &'a mut [[u64; MOST]; BLOCK],
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
        let mut start = [simd.splat_u32s(0); 2 * BLOCK];
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
        for (word, to) in self.words.iter_mut().enumerate() {
            S::as_mut_simd_u32s(&mut low[..lanes]).0[0] = simd.add_u32s(x[2 * word], start[2 * word]);
            S::as_mut_simd_u32s(&mut high[..lanes]).0[0] = simd.add_u32s(x[2 * word + 1], start[2 * word + 1]);
            for block in 0..MOST {
                to[block] = u64::from(low[block]) | u64::from(high[block]) << 32;
            }
        }
        lanes
    }
}

/// Rounds of the cipher mix four of its sixteen words at a time.
#[inline(always)]
fn quarter_round<S: Simd>(simd: S, x: &mut [S::u32s; 2 * BLOCK], [a, b, c, d]: [usize; 4]) {
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
                assert_eq!(
                    scalar.words[place % BLOCK][0],
                    expected,
                    "word {place} of node {node}, one block at a time"
                );
            }
        }
    }

    #[test]
    fn a_block_is_taken_whole_or_not_at_all() {
        let mut words = Keystream::new(&[3; 32], 0, 0);
        let mut others = words.clone();
        let mut numbers = [0.0; BLOCK];
        let mut block = others.clone();
        let last = (0..BLOCK).map(|_| block.next_word()).last().expect("eight words");
        assert!(!words.take_block(&mut numbers, |word| (1.0, word != last)));
        assert!(words.take_block(&mut numbers, |word| (word as f64, true)));
        assert_eq!(numbers, std::array::from_fn(|_| others.next_word() as f64));
        assert_eq!(words.next_word(), others.next_word());
        assert!(!words.take_block(&mut numbers, |_| (1.0, true)), "a word of this block is gone");
    }
}
