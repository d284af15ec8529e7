//! The experiments of the paper.

pub mod estimate;
pub mod grid;
pub mod images;
pub mod run;
pub mod sequences;
pub mod toy;

use sdebnn::config::DynamicsConfig;
use serde::{Deserialize, Serialize};

/// The two models that the paper compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelName {
    /// The baseline, first order.
    SdeBnn,
    /// Nesterov-SDEBNN.
    Nesterov,
}

impl ModelName {
    /// The model with these dynamics; `None` for those that the paper does not have.
    pub fn of(dynamics: &DynamicsConfig) -> Option<Self> {
        match dynamics {
            DynamicsConfig::FirstOrder {} => Some(Self::SdeBnn),
            DynamicsConfig::Nesterov { .. } => Some(Self::Nesterov),
            DynamicsConfig::HeavyBall { .. } => None,
        }
    }

    /// The name in configurations, files and commands.
    pub fn key(self) -> &'static str {
        match self {
            Self::SdeBnn => "sde-bnn",
            Self::Nesterov => "nesterov",
        }
    }

    /// The name in titles.
    pub fn title(self) -> &'static str {
        match self {
            Self::SdeBnn => "SDE-BNN",
            Self::Nesterov => "Nesterov-SDEBNN",
        }
    }
}
