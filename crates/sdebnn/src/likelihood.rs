//! `p(y | h(T))`, as negative log-likelihoods of network outputs.

use burn::tensor::{Int, Tensor, activation};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::ConfigError;

/// `½ log 2π`.
pub(crate) const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_8;

/// The scale of a Gaussian or Laplace law.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// The scale, or where learning starts.
    pub scale: f64,
    /// Whether it is learned with the rest.
    #[serde(default)]
    pub learn: bool,
}

/// The law of the targets given the network's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Likelihood {
    /// `−log softmax(out)[y]`.
    #[serde(deserialize_with = "no_keys")]
    Categorical,
    /// `½ ((y − out)/σ)² + log σ + ½ log 2π`, summed over the outputs.
    Gaussian(Scale),
    /// `|y − out|/b + log 2b`, summed over the outputs.
    Laplace(Scale),
    /// `(y − out)²`, averaged over the outputs.
    #[serde(deserialize_with = "no_keys")]
    SquaredError,
}

/// A law without settings: by itself, serde would let any key pass.
fn no_keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    Nothing::deserialize(deserializer).map(|Nothing {}| ())
}

/// What the network should have answered.
#[derive(Clone, Debug)]
pub enum Target {
    /// A class for every example.
    Classes(Tensor<1, Int>),
    /// A row of numbers for every example, `[batch, outputs]`.
    Values(Tensor<2>),
}

impl Likelihood {
    /// The scale, for the laws that have one.
    pub fn scale(&self) -> Option<Scale> {
        match self {
            Self::Gaussian(scale) | Self::Laplace(scale) => Some(*scale),
            Self::Categorical | Self::SquaredError => None,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let Some(Scale { scale, .. }) = self.scale() else { return Ok(()) };
        ConfigError::unless(scale.is_finite() && scale > 0.0, "likelihood.scale", &scale, "a positive number")
    }

    /// The mean negative log-likelihood over samples and batch, `[1]`, of outputs `[samples, batch, outputs]`. `log_scale` (`[1]`) is the
    /// logarithm of the scale, for the laws that have one.
    ///
    /// # Panics
    /// If the target is not of the law's kind, or a scale is missing.
    pub fn nll(&self, outputs: Tensor<3>, target: &Target, log_scale: Option<Tensor<1>>) -> Tensor<1> {
        let [samples, batch, _] = outputs.dims();
        match (self, target) {
            (Self::Categorical, Target::Classes(classes)) => {
                let index = classes.clone().reshape([1, batch, 1]).repeat_dim(0, samples);
                activation::log_softmax(outputs, 2).gather(2, index).mean().neg()
            }
            (Self::SquaredError, Target::Values(values)) => (outputs - values.clone().unsqueeze()).square().mean(),
            (Self::Gaussian(_) | Self::Laplace(_), Target::Values(values)) => {
                let log_scale = log_scale.expect("a law with a scale");
                let width = outputs.dims()[2] as f64;
                let z = (outputs - values.clone().unsqueeze()) * log_scale.clone().neg().exp().reshape([1, 1, 1]);
                let (cost, constant) = match self {
                    Self::Laplace(_) => (z.abs(), std::f64::consts::LN_2),
                    _ => (z.square().mul_scalar(0.5), HALF_LOG_TWO_PI),
                };
                (cost.mean() + log_scale + constant).mul_scalar(width)
            }
            _ => panic!("targets {target:?} do not fit the likelihood {self:?}"),
        }
    }
}
