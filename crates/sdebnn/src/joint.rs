//! The joint state of an adaptive solve, and its error norm.

use burn::tensor::Tensor;

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
    /// The root mean square of `(self − other)/max(1e-7, atol + rtol · max(|self|, |other|))` over every component of the joint state, at
    /// least 1e-7.
    pub fn distance(&self, other: &Self, atol: f64, rtol: f64) -> f64 {
        let (mut sum, mut count) = (0.0, 0);
        let mut add = |(squares, len): (f64, usize)| {
            sum += squares;
            count += len;
        };
        for (a, b) in self.activations.iter().zip(&other.activations) {
            add(scaled_squares(a, b, atol, rtol));
        }
        for (a, b) in self.weights.moving.iter().zip(&other.weights.moving) {
            add(scaled_squares(a, b, atol, rtol));
        }
        add(scaled_squares(&self.weights.kl, &other.weights.kl, atol, rtol));
        // `max` would turn a NaN into 1e-7.
        let error = (sum / count as f64).sqrt();
        if error < 1e-7 { 1e-7 } else { error }
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
