//! Random numbers as a pure function of where they are used.
//!
//! A [`Source`] is the counter-based generator ChaCha8. Its 256-bit key is four little-endian 64-bit words: the seed, the
//! [`Purpose`], and two indices of that purpose. Different places have different keys, so no source ever shares numbers
//! with another, and nothing depends on the order in which places are visited.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// What random numbers are for, and what the two indices count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// The order of an epoch: (epoch, 0).
    Order = 1,
    /// The split into training, validation and test examples: (0, 0).
    Split = 2,
    /// Crop and flip of an image: (epoch, index).
    Augmentation = 3,
    /// A drawn training digit: (index, 0).
    TrainDigit = 4,
    /// A drawn test digit: (index, 0).
    TestDigit = 5,
    /// The body that walks in synthetic motion: (0, 0).
    Body = 6,
    /// One walk of that body: (index, 0).
    Walk = 7,
    /// The frames of a sequence that are dropped: (index, 0).
    Drop = 8,
}

/// A sequence of random numbers that belongs to one place.
#[derive(Debug)]
pub struct Source(ChaCha8Rng);

impl Source {
    /// The source of a place.
    pub fn new(seed: u64, purpose: Purpose, first: u64, second: u64) -> Self {
        let mut key = [0; 32];
        for (bytes, word) in key.chunks_exact_mut(8).zip([seed, purpose as u64, first, second]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(key))
    }

    /// An integer in `0..bound`; 0 if `bound` is 0. Its bias is at most `bound / 2^64`.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.0.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A number in `[low, high)`, uniform on a grid of 2^53 places.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// Fills `out` with uniform bytes.
    pub fn fill_bytes(&mut self, out: &mut [u8]) {
        self.0.fill_bytes(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_changes_the_numbers_and_nothing_else_does() {
        let first = |seed, purpose, a, b| Source::new(seed, purpose, a, b).below(1 << 60);
        let here = first(1, Purpose::Order, 2, 3);
        assert_eq!(here, first(1, Purpose::Order, 2, 3));
        for other in [
            first(0, Purpose::Order, 2, 3),
            first(1, Purpose::Split, 2, 3),
            first(1, Purpose::Order, 0, 3),
            first(1, Purpose::Order, 2, 0),
        ] {
            assert_ne!(here, other);
        }
    }

    #[test]
    fn numbers_keep_to_their_bounds() {
        let mut source = Source::new(7, Purpose::Body, 0, 0);
        assert!((0..1000).all(|_| source.below(3) < 3));
        assert!((0..1000).all(|_| (-2.0..5.0).contains(&source.between(-2.0, 5.0))));
        assert_eq!(source.below(0), 0);
    }
}
