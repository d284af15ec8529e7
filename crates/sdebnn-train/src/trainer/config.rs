use sdebnn::ConfigError;
use serde::{Deserialize, Serialize};

use crate::schedule::Schedule;

/// Training, as it stands in a configuration file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Passes over the data.
    pub epochs: u64,
    /// Examples a step.
    pub batch: usize,
    /// Adam's learning rate.
    pub learning_rate: f64,
    /// How the learning rate changes.
    #[serde(default)]
    pub schedule: Schedule,
    /// The weight of the KL divergence in the loss.
    pub kl_coef: f64,
    /// Epochs over which that weight rises from 0.
    #[serde(default)]
    pub kl_warmup: f64,
    /// The norm to which larger gradients are scaled down; 0 for none.
    #[serde(default)]
    pub clip_norm: f64,
    /// The decay of the moving average of the parameters that evaluation uses; 0 for none.
    #[serde(default)]
    pub ema: f64,
    /// Weight paths a step.
    #[serde(default = "one")]
    pub samples: usize,
    /// Parts in which a batch is worked on, each with weight paths of its own, to save memory.
    #[serde(default = "one")]
    pub accumulate: usize,
    /// What becomes of a batch whose solve fails.
    #[serde(default)]
    pub failed_solve: FailedSolve,
    /// Steps between checkpoints; there is one after each epoch in any case.
    #[serde(default = "hundred")]
    pub checkpoint_every: u64,
}

/// What becomes of a batch whose solve fails: a number that is not finite, a step that would be too small, too many attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailedSolve {
    /// The run ends with the error. What its last checkpoint has is saved.
    #[default]
    Stop,
    /// The parameters stay as they are, and the batch is counted as `skipped` in the metrics.
    Skip,
}

/// Evaluation, as it stands in a configuration file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluateConfig {
    /// Weight paths after each epoch.
    pub samples: usize,
    /// Weight paths at the end of the run.
    pub final_samples: usize,
    /// Examples at a time.
    pub batch: usize,
}

impl Default for EvaluateConfig {
    fn default() -> Self {
        Self { samples: 1, final_samples: 10, batch: 128 }
    }
}

impl EvaluateConfig {
    /// Whether the configuration can be used.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = ConfigError::unless;
        let Self { samples, final_samples, batch } = self;
        check(*samples > 0, "evaluate.samples", samples, "at least 1")?;
        check(*final_samples > 0, "evaluate.final_samples", final_samples, "at least 1")?;
        check(*batch > 0, "evaluate.batch", batch, "at least 1")
    }
}

fn one() -> usize {
    1
}

fn hundred() -> u64 {
    100
}

impl TrainConfig {
    /// Whether the configuration can be used.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = ConfigError::unless;
        let not_negative = |v: f64| v.is_finite() && v >= 0.0;
        let positive = |v: f64| v.is_finite() && v > 0.0;
        check(self.epochs > 0, "train.epochs", &self.epochs, "at least 1")?;
        check(self.batch > 0, "train.batch", &self.batch, "at least 1")?;
        check(positive(self.learning_rate), "train.learning_rate", &self.learning_rate, "a positive number")?;
        check(not_negative(self.kl_coef), "train.kl_coef", &self.kl_coef, "a number of at least 0")?;
        check(not_negative(self.kl_warmup), "train.kl_warmup", &self.kl_warmup, "a number of epochs, at least 0")?;
        check(not_negative(self.clip_norm), "train.clip_norm", &self.clip_norm, "a number of at least 0")?;
        check((0.0..1.0).contains(&self.ema), "train.ema", &self.ema, "a number from 0 to below 1")?;
        check(self.samples > 0, "train.samples", &self.samples, "at least 1")?;
        check(
            (1..=self.batch).contains(&self.accumulate),
            "train.accumulate",
            &self.accumulate,
            "1 to `train.batch` parts",
        )?;
        check(self.checkpoint_every > 0, "train.checkpoint_every", &self.checkpoint_every, "at least 1")?;
        match &self.schedule {
            Schedule::Constant {} => Ok(()),
            Schedule::Cosine { end, .. } => {
                check((0.0..=1.0).contains(end), "train.schedule.end", end, "a share from 0 to 1")
            }
            Schedule::Table { rates } => check(
                rates.iter().all(|(_, rate)| positive(*rate)) && rates.is_sorted_by(|a, b| a.0 < b.0),
                "train.schedule.rates",
                rates,
                "pairs of an epoch and a positive learning rate, by epoch",
            ),
        }
    }
}
