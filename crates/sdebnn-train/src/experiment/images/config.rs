use std::path::PathBuf;

use sdebnn::ConfigError;
use sdebnn::config::ModelConfig;
use sdebnn::likelihood::Likelihood;
use sdebnn_data::{ImageSets, cifar, digits, idx};
use serde::{Deserialize, Serialize};

use crate::configuration;
use crate::error::Error;
use crate::experiment::grid::PaperExperiment;
use crate::trainer::{EvaluateConfig, TrainConfig};

/// A classification of images as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImagesConfig {
    /// Decides everything random.
    pub seed: u64,
    /// The data set.
    pub data: DataConfig,
    /// Training.
    pub train: TrainConfig,
    /// Evaluation.
    #[serde(default)]
    pub evaluate: EvaluateConfig,
    /// The model.
    pub model: ModelConfig,
}

/// The data sets of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageSet {
    /// Handwritten digits, 1 × 28 × 28.
    Mnist,
    /// Photographs, 3 × 32 × 32.
    Cifar10,
    /// Drawn digits, 1 × 28 × 28: in place of a download.
    Digits,
}

impl ImageSet {
    /// The names in configurations.
    pub const NAMES: [&str; 3] = ["mnist", "cifar10", "digits"];
}

/// The data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// Which.
    pub name: ImageSet,
    /// The experiment of the paper for whose data set this one is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_in_for: Option<PaperExperiment>,
    /// Where it is; `--data` wins over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Training images set apart to choose the best checkpoint by.
    #[serde(default)]
    pub validation: usize,
    /// Whether training images are cropped and flipped.
    #[serde(default)]
    pub augmentation: bool,
    /// How many training images to use, or to draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_train: Option<usize>,
    /// How many test images to use, or to draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_test: Option<usize>,
}

/// Digits that are drawn if nothing else is said.
pub(in crate::experiment) const DRAWN: [usize; 2] = [6000, 1000];

impl DataConfig {
    /// Reads (or draws) the images.
    pub(super) fn load(&self, seed: u64, dir: Option<&std::path::Path>) -> Result<ImageSets, Error> {
        let dir = dir.or(self.dir.as_deref()).unwrap_or(std::path::Path::new("data"));
        let mut sets = match self.name {
            ImageSet::Mnist => idx::load(dir)?,
            ImageSet::Cifar10 => cifar::load(dir)?,
            ImageSet::Digits => {
                digits::draw(seed, self.limit_train.unwrap_or(DRAWN[0]), self.limit_test.unwrap_or(DRAWN[1]))
            }
        };
        sets.train.truncate(self.limit_train.unwrap_or(usize::MAX));
        sets.test.truncate(self.limit_test.unwrap_or(usize::MAX));
        Ok(sets)
    }
}

impl ImagesConfig {
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
        let DataConfig { limit_train, limit_test, .. } = &self.data;
        check(*limit_train != Some(0), "data.limit_train", limit_train, "at least 1")?;
        check(*limit_test != Some(0), "data.limit_test", limit_test, "at least 1")?;
        let classes = self.model.likelihood == Likelihood::Categorical;
        check(classes, "model.likelihood", &self.model.likelihood, "kind = \"categorical\" for a classification")
    }
}
