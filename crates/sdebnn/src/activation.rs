//! Element-wise functions.

use burn::tensor::{Tensor, activation};
use serde::{Deserialize, Serialize};

use crate::fused::Kernel;

/// `softplus(0.5)`, the fixed `β` of [`Activation::Swish`].
pub const SWISH_BETA: f64 = sdebnn_kernels::SWISH_SLOPE;

/// Element-wise functions: the activations of drift networks, and the squashing function `σ_f` of the dynamics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// `x · sigmoid(βx)` with `β = softplus(0.5)`, fixed.
    Swish,
    /// `x · sigmoid(x)`.
    Silu,
    /// `x · tanh(softplus(x))`.
    Mish,
    /// `log(1 + eˣ)`.
    Softplus,
    /// `tanh(x)`.
    Tanh,
    /// `max(x, 0)`.
    Relu,
    /// `x` clamped to `[−½, ½]`.
    HardTanhHalf,
    /// `x`.
    Identity,
}

impl Activation {
    /// Applies the function to every element.
    pub fn apply<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::Swish => activation::sigmoid(x.clone().mul_scalar(SWISH_BETA)) * x,
            Self::Silu => activation::sigmoid(x.clone()) * x,
            Self::Mish => activation::softplus(x.clone(), 1.0).tanh() * x,
            Self::Softplus => activation::softplus(x, 1.0),
            Self::Tanh => x.tanh(),
            Self::Relu => activation::relu(x),
            Self::HardTanhHalf => x.clamp(-0.5, 0.5),
            Self::Identity => x,
        }
    }

    /// The limit of the function at `+∞`, if it is finite.
    pub fn limit(self) -> Option<f64> {
        self.kernel().limit()
    }

    /// The function of one number.
    pub fn value(self, x: f64) -> f64 {
        self.kernel().value(x)
    }
}
