//! Element-wise functions.

use burn::tensor::{Tensor, activation};
use serde::{Deserialize, Serialize};

/// `softplus(0.5)`, the fixed `β` of [`Activation::Swish`].
pub const SWISH_BETA: f64 = 0.974_076_984_180_106_7;

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
        match self {
            Self::Tanh => Some(1.0),
            Self::HardTanhHalf => Some(0.5),
            Self::Swish | Self::Silu | Self::Mish | Self::Softplus | Self::Relu | Self::Identity => None,
        }
    }

    /// The function of a positive number.
    pub(crate) fn of_positive(self, x: f64) -> f64 {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let softplus = |x: f64| x + (-x).exp().ln_1p();
        match self {
            Self::Swish => x * sigmoid(SWISH_BETA * x),
            Self::Silu => x * sigmoid(x),
            Self::Mish => x * softplus(x).tanh(),
            Self::Softplus => softplus(x),
            Self::Tanh => x.tanh(),
            Self::HardTanhHalf => x.min(0.5),
            Self::Relu | Self::Identity => x,
        }
    }
}
