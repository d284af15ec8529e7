//! Sequences of feature vectors, and synthetic ones that move like a walker.

use libm::sin;
use rayon::prelude::*;

use crate::random::{Purpose, Source};
use crate::walker::FEATURES;

/// Feature vectors at successive times.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    name: String,
    features: usize,
    values: Vec<f64>,
}

impl Sequence {
    /// A sequence of steps with `features` numbers each, without a name.
    ///
    /// # Panics
    ///
    /// If `values` are not whole steps.
    pub fn new(features: usize, values: Vec<f64>) -> Self {
        assert!(features > 0 && values.len().is_multiple_of(features), "whole steps");
        Self { name: String::new(), features, values }
    }

    /// The same with a name, by which errors call it.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// What errors call it: the file it was read from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Keeps the first `len` steps.
    pub fn truncate(&mut self, len: usize) {
        self.values.truncate(len.saturating_mul(self.features));
    }

    /// How many numbers a step has.
    pub fn features(&self) -> usize {
        self.features
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.values.len() / self.features
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The features at one time.
    pub fn step(&self, time: usize) -> &[f64] {
        &self.values[time * self.features..][..self.features]
    }

    /// All steps, one after the other.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

/// Harmonics of the gait that move each feature.
const HARMONICS: usize = 3;

/// Synthetic motion of 17 features, for use where Walker2D is not at hand: a pure function of the seed and of each walk's
/// index.
///
/// One seed has one body: for each feature, how strongly and how late it follows the harmonics of the gait. A walk has its
/// own pace, vigour, beginning and slow sway, which all features share; so they are coupled, and the past of a walk tells
/// its future.
pub fn walks(seed: u64, count: usize, len: usize) -> Vec<Sequence> {
    const TURN: f64 = std::f64::consts::TAU;
    let mut source = Source::new(seed, Purpose::Body, 0, 0);
    let body: [[(f64, f64); HARMONICS]; FEATURES] = std::array::from_fn(|_| {
        std::array::from_fn(|k| (source.between(0.3, 1.0) / (k + 1) as f64, source.between(0.0, TURN)))
    });
    let walk = |index| {
        let mut source = Source::new(seed, Purpose::Walk, index, 0);
        let pace = TURN * source.between(0.025, 0.05);
        let vigour = source.between(0.7, 1.3);
        let beginning = source.between(0.0, TURN);
        let (sway, sway_pace, sway_beginning) =
            (source.between(0.1, 0.4), TURN * source.between(0.004, 0.01), source.between(0.0, TURN));
        let values = (0..len).flat_map(|t| {
            let swaying = sway * sin(sway_pace * t as f64 + sway_beginning);
            let phase = pace * t as f64 + beginning + swaying;
            body.iter().map(move |harmonics| {
                let gait =
                    harmonics.iter().enumerate().map(|(k, (size, late))| size * sin((k + 1) as f64 * phase - late));
                vigour * gait.sum::<f64>() + swaying
            })
        });
        Sequence::new(FEATURES, values.collect()).named(format!("walk {index}"))
    };
    (0..count as u64).into_par_iter().map(walk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_depends_only_on_seed_and_index() {
        let many = walks(3, 5, 40);
        assert_eq!(many[..2], walks(3, 2, 40));
        assert_ne!(many[0], many[1]);
        assert_ne!(many[0], walks(4, 1, 40)[0]);
        assert_eq!(many[0].values()[..17 * 10], *walks(3, 1, 10)[0].values());
    }

    #[test]
    fn motion_is_smooth_and_lively() {
        for walk in walks(1, 20, 500) {
            let jumps = (1..500).flat_map(|t| (0..17).map(move |j| (t, j)));
            assert!(jumps.clone().all(|(t, j)| (walk.step(t)[j] - walk.step(t - 1)[j]).abs() < 1.3));
            let path: f64 = jumps.map(|(t, j)| (walk.step(t)[j] - walk.step(t - 1)[j]).abs()).sum();
            assert!(path / (17.0 * 499.0) > 0.02);
        }
    }
}
