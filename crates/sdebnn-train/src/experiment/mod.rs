//! The experiments of the paper.

pub mod grid;
pub mod images;
pub mod run;
pub mod sequences;
pub mod toy;

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

/// One line of `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EpochMetrics {
    /// The model.
    pub model: ModelName,
    /// The epoch, from 1.
    pub epoch: usize,
    /// The mean loss over the epoch's batches.
    pub loss: f64,
    /// Its negative log-likelihood.
    pub nll: f64,
    /// The KL divergence.
    pub kl: f64,
    /// Drift evaluations of a solve.
    pub nfe_drift: f64,
    /// Seconds since training started.
    pub seconds: f64,
}

/// Who is told how a run goes on.
pub trait Observer {
    /// Training of a model starts.
    fn started(&mut self, model: ModelName, epochs: usize);
    /// An epoch is over.
    fn epoch(&mut self, metrics: &EpochMetrics);
    /// A model is trained; it will be evaluated now.
    fn trained(&mut self, model: ModelName);
}
