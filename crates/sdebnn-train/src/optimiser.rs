//! Adam over flat vectors: one pass over the numbers, on all threads, the same bits on any number of them.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f32 = 1e-8;

/// Numbers that a thread works on at a time; also the parts in which a norm is summed, so that it depends on them alone.
const CHUNK: usize = 1 << 14;

/// Adam: `p ← p − η m̂ / (√v̂ + ε)` with `m ← β₁ m + (1 − β₁) g`, `v ← β₂ v + (1 − β₂) g²`, `m̂ = m / (1 − β₁ᵗ)`,
/// `v̂ = v / (1 − β₂ᵗ)`, and β₁ = 0.9, β₂ = 0.999, ε = 1e-8.
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    /// Steps taken, `t`.
    pub steps: u64,
    /// `m`.
    pub first: Vec<f32>,
    /// `v`.
    pub second: Vec<f32>,
}

impl Adam {
    /// For `len` parameters.
    pub fn new(len: usize) -> Self {
        Self { steps: 0, first: vec![0.0; len], second: vec![0.0; len] }
    }

    /// Takes a step with the learning rate `rate` and the gradients multiplied by `factor`.
    pub fn step(&mut self, rate: f64, factor: f32, gradients: &[f32], parameters: &mut [f32]) {
        self.steps += 1;
        let power = self.steps.min(i32::MAX as u64) as i32;
        // η m̂ / (√v̂ + ε) = (η / c₁) m / (√v / √c₂ + ε)
        let rate = (rate / (1.0 - BETA1.powi(power))) as f32;
        let root = (1.0 / (1.0 - BETA2.powi(power)).sqrt()) as f32;
        let arch = Arch::new();
        let moments = self.first.par_chunks_mut(CHUNK).zip(self.second.par_chunks_mut(CHUNK));
        let numbers = parameters.par_chunks_mut(CHUNK).zip(gradients.par_chunks(CHUNK));
        moments.zip(numbers).for_each(|((first, second), (parameters, gradients))| {
            arch.dispatch(Update { rate, root, factor, gradients, first, second, parameters });
        });
    }
}

/// A step on some of the numbers, in as wide vectors as the machine has.
struct Update<'a> {
    /// `η / c₁`
    rate: f32,
    /// `1 / √c₂`
    root: f32,
    factor: f32,
    gradients: &'a [f32],
    first: &'a mut [f32],
    second: &'a mut [f32],
    parameters: &'a mut [f32],
}

impl WithSimd for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { rate, root, factor, gradients, first, second, parameters } = self;
        let [beta1, rest1, beta2, rest2] = [BETA1 as f32, (1.0 - BETA1) as f32, BETA2 as f32, (1.0 - BETA2) as f32];
        for (((m, v), p), g) in first.iter_mut().zip(second).zip(parameters).zip(gradients) {
            let g = factor * g;
            *m = beta1 * *m + rest1 * g;
            *v = beta2 * *v + rest2 * g * g;
            *p -= rate * *m / (v.sqrt() * root + EPSILON);
        }
    }
}

/// `‖g‖₂`; not finite if any of the numbers is not.
pub fn norm(numbers: &[f32]) -> f64 {
    let parts: Vec<f64> =
        numbers.par_chunks(CHUNK).map(|part| part.iter().map(|g| f64::from(*g) * f64::from(*g)).sum()).collect();
    parts.iter().sum::<f64>().sqrt()
}

/// `average ← decay · average + (1 − decay) · numbers`.
pub fn average(decay: f64, numbers: &[f32], average: &mut [f32]) {
    let (decay, rest) = (decay as f32, (1.0 - decay) as f32);
    average.par_chunks_mut(CHUNK).zip(numbers.par_chunks(CHUNK)).for_each(|(average, numbers)| {
        for (a, n) in average.iter_mut().zip(numbers) {
            *a = decay * *a + rest * n;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_steps_by_hand() {
        let mut adam = Adam::new(1);
        let mut p = [1.0];
        adam.step(0.1, 1.0, &[2.0], &mut p);
        // m̂ = 2, v̂ = 4: the first step has the length of the rate.
        assert!((p[0] - 0.9).abs() < 1e-6);
        adam.step(0.1, 0.5, &[-2.0], &mut p);
        // m = 0.9 · 0.2 − 0.1 = 0.08, v = 0.999 · 0.004 + 0.001 = 0.004996.
        let (m, v) = (0.08 / (1.0 - 0.81), 0.004_996 / (1.0 - 0.998_001));
        assert!((f64::from(p[0]) - (0.9 - 0.1 * m / f64::sqrt(v))).abs() < 1e-6);
    }

    #[test]
    fn the_minimum_of_a_bowl_is_found() {
        let mut adam = Adam::new(2);
        let mut p = vec![3.0, -2.0];
        for _ in 0..2000 {
            let gradients: Vec<f32> = p.iter().zip([1.0, 20.0]).map(|(p, c)| c * (p - 1.0)).collect();
            adam.step(0.01, 1.0, &gradients, &mut p);
        }
        assert!(p.iter().all(|p| (p - 1.0).abs() < 1e-3), "{p:?}");
    }

    #[test]
    fn norms_and_averages() {
        assert_eq!(norm(&[3.0, 4.0]), 5.0);
        assert!(norm(&[1.0, f32::NAN]).is_nan());
        let mut a = [1.0, 2.0];
        average(0.75, &[5.0, -2.0], &mut a);
        assert_eq!(a, [2.0, 1.0]);
    }
}
