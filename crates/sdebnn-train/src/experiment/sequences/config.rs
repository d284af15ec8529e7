use std::path::{Path, PathBuf};

use sdebnn::ConfigError;
use sdebnn::config::{HeadConfig, ModelConfig};
use sdebnn::likelihood::Likelihood;
use sdebnn_data::windows::Preparation;
use sdebnn_data::{Sequence, npy, sequences, walker};
use serde::{Deserialize, Serialize};

use crate::configuration;
use crate::error::Error;
use crate::experiment::grid::PaperExperiment;
use crate::trainer::{EvaluateConfig, TrainConfig};

/// Next-frame prediction in sequences as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequencesConfig {
    /// Decides everything random.
    pub seed: u64,
    /// The sequences, and how they become windows.
    pub data: DataConfig,
    /// Training.
    pub train: TrainConfig,
    /// Evaluation.
    #[serde(default)]
    pub evaluate: EvaluateConfig,
    /// The recurrent state.
    #[serde(default)]
    pub recurrent: RecurrentConfig,
    /// The block across the gaps.
    pub model: ModelConfig,
}

/// The sets of sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SequenceSet {
    /// Recorded motion, 17 features.
    Walker2d,
    /// A folder of the user's own files `*.npy`, each `[length, features]`.
    Npy,
    /// Drawn motion, 17 features: in place of a download.
    Walks,
}

impl SequenceSet {
    /// The names in configurations.
    pub const NAMES: [&str; 3] = ["walker2d", "npy", "walks"];
}

/// The sequences, and how they become windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// Which.
    pub name: SequenceSet,
    /// The experiment of the paper for whose data set this one is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_in_for: Option<PaperExperiment>,
    /// Where they are; `--data` wins over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// The probability with which each frame is dropped.
    #[serde(default = "tenth")]
    pub drop: f64,
    /// Frames of a window; gaps are measured in windows.
    #[serde(default = "window")]
    pub window: usize,
    /// Frames from the beginning of a window to that of the next.
    #[serde(default = "stride")]
    pub stride: usize,
    /// The share of sequences set apart to choose the best checkpoint by.
    #[serde(default = "tenth")]
    pub validation: f64,
    /// The share of sequences to test on.
    #[serde(default = "test")]
    pub test: f64,
    /// How many sequences to use, or to draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// How many frames of each to use, or to draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<usize>,
}

fn tenth() -> f64 {
    0.1
}

fn window() -> usize {
    64
}

fn stride() -> usize {
    16
}

fn test() -> f64 {
    0.15
}

/// Walks that are drawn if nothing else is said, and their frames.
pub(in crate::experiment) const DRAWN: [usize; 2] = [60, 200];

impl DataConfig {
    /// How sequences become windows.
    pub(super) fn preparation(&self) -> Preparation {
        let Self { drop, window, stride, validation, test, .. } = *self;
        Preparation { drop, window, stride, validation, test }
    }

    /// Reads (or draws) the sequences.
    pub(super) fn load(&self, seed: u64, dir: Option<&Path>) -> Result<Vec<Sequence>, Error> {
        let dir = dir.or(self.dir.as_deref());
        let mut found = match self.name {
            SequenceSet::Walker2d => walker::load(dir.unwrap_or(Path::new("data")))?,
            SequenceSet::Npy => {
                let dir = dir.unwrap_or(Path::new("data"));
                let found = npy::load_folder(dir)?;
                if found.is_empty() {
                    return Err(sdebnn_data::Error::NoSequences { folder: dir.into() }.into());
                }
                found
            }
            SequenceSet::Walks => {
                sequences::walks(seed, self.limit.unwrap_or(DRAWN[0]), self.length.unwrap_or(DRAWN[1]))
            }
        };
        found.truncate(self.limit.unwrap_or(usize::MAX));
        found.iter_mut().for_each(|sequence| sequence.truncate(self.length.unwrap_or(usize::MAX)));
        Ok(found)
    }
}

/// The recurrent state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecurrentConfig {
    /// Its numbers; twice as many with momentum.
    pub hidden: usize,
}

impl Default for RecurrentConfig {
    fn default() -> Self {
        Self { hidden: 24 }
    }
}

impl SequencesConfig {
    pub(super) fn read_checked(name: &str, text: &str, overrides: &[String]) -> Result<Self, Error> {
        let config: Self = configuration::read(name, text, overrides)?;
        config.validate().map_err(|e| Error::config(name, "", e))?;
        config.model.validate().map_err(|e| Error::config(name, "model.", e))?;
        Ok(config)
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let check = ConfigError::unless;
        self.train.validate()?;
        self.evaluate.validate()?;
        let DataConfig { drop, window, stride, validation, test, limit, length, .. } = &self.data;
        check((0.0..1.0).contains(drop), "data.drop", drop, "a probability from 0 to below 1")?;
        check(*window > 0, "data.window", window, "at least 1")?;
        check(*stride > 0, "data.stride", stride, "at least 1")?;
        check((0.0..1.0).contains(validation), "data.validation", validation, "a share from 0 to below 1")?;
        check(
            *test > 0.0 && test + validation < 1.0,
            "data.test",
            test,
            "a share above 0 that leaves some to train on",
        )?;
        check(*limit != Some(0), "data.limit", limit, "at least 1")?;
        check(*length != Some(0), "data.length", length, "at least 1")?;
        check(self.recurrent.hidden > 0, "recurrent.hidden", &self.recurrent.hidden, "at least 1")?;
        let ModelConfig { augment, head, likelihood, .. } = &self.model;
        check(*augment == 0, "model.augment", augment, "0 for sequences")?;
        let first = matches!(head, HeadConfig::First {});
        check(first, "model.head", head, "kind = \"first\": sequences have a linear read-out of their own")?;
        let numbers = *likelihood != Likelihood::Categorical;
        check(numbers, "model.likelihood", likelihood, "a law of numbers, as kind = \"squared-error\"")
    }
}
