//! The joint state of an adaptive solve, and its error norm.

use burn::tensor::Tensor;

use crate::controller::ErrorNorm;
use crate::dynamics::State;
use crate::error::Component;

/// The state of the weights.
#[derive(Clone)]
pub(crate) struct Weights {
    /// The moving weights, `None` if none moves.
    pub moving: Option<Tensor<2>>,
    pub kl: Tensor<1>,
    pub martingale: Option<Tensor<1>>,
}

/// The joint state.
#[derive(Clone)]
pub(crate) struct Joint {
    pub weights: Weights,
    pub activations: State,
}

impl Joint {
    /// How far another state is from this one, in units of the tolerance.
    pub fn distance(&self, other: &Self, atol: f64, rtol: f64) -> Distance {
        let mut found = Distance::default();
        for (a, b) in self.activations.iter().zip(&other.activations) {
            found.activations.add(scaled_squares(a, b, atol, rtol));
        }
        for (a, b) in self.weights.moving.iter().zip(&other.weights.moving) {
            found.weights.add(scaled_squares(a, b, atol, rtol));
        }
        found.kl.add(scaled_squares(&self.weights.kl, &other.weights.kl, atol, rtol));
        found
    }

    /// The first component that is not finite.
    pub fn not_finite(&self) -> Option<Component> {
        if !self.weights.moving.iter().all(is_finite) {
            Some(Component::Weights)
        } else if !is_finite(&self.weights.kl) {
            Some(Component::Kl)
        } else if !self.activations.iter().all(is_finite) {
            Some(Component::Activations)
        } else {
            None
        }
    }
}

/// A sum of squares, and of how many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Squares {
    sum: f64,
    count: usize,
}

impl Squares {
    pub fn add(&mut self, (sum, count): (f64, usize)) {
        self.sum += sum;
        self.count += count;
    }

    fn root_mean(self) -> f64 {
        if self.count == 0 { 0.0 } else { (self.sum / self.count as f64).sqrt() }
    }
}

/// The squares of `(a − b)/max(1e-7, atol + rtol · max(|a|, |b|))` over the components of a joint state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Distance {
    pub activations: Squares,
    pub weights: Squares,
    pub kl: Squares,
}

impl Distance {
    /// As one number, at least 1e-7.
    pub fn norm(self, norm: ErrorNorm) -> f64 {
        let parts = [self.activations, self.weights, self.kl];
        let error = match norm {
            ErrorNorm::Rms => {
                let mut all = Squares::default();
                parts.iter().for_each(|part| all.add((part.sum, part.count)));
                all.root_mean()
            }
            // `max` would drop a NaN.
            ErrorNorm::Worst => parts.iter().map(|part| part.root_mean()).fold(0.0, |a, b| if b <= a { a } else { b }),
        };
        if error < 1e-7 { 1e-7 } else { error }
    }
}

/// `Σ ((a − b)/max(1e-7, atol + rtol · max(|a|, |b|)))²` and the number of elements.
fn scaled_squares<const D: usize>(a: &Tensor<D>, b: &Tensor<D>, atol: f64, rtol: f64) -> (f64, usize) {
    let (a, b) = (a.clone().detach(), b.clone().detach());
    let len = a.shape().num_elements();
    let tolerance = a.clone().abs().max_pair(b.clone().abs()).mul_scalar(rtol).add_scalar(atol).clamp_min(1e-7);
    (((a - b) / tolerance).square().sum().into_scalar::<f64>(), len)
}

pub(crate) fn is_finite<const D: usize>(x: &Tensor<D>) -> bool {
    x.clone().detach().is_finite().all().into_scalar::<bool>()
}
