use sdebnn::ConfigError;
use sdebnn::config::{DynamicsConfig, ModelConfig};
use sdebnn::likelihood::Likelihood;
use sdebnn::random::Stream;
use serde::{Deserialize, Serialize};

use super::data::DataConfig;
use crate::configuration;
use crate::error::Error;
use crate::experiment::ModelName;

/// The experiment as the paper has it.
const CONFIG: &str = include_str!("../../../../../configs/toy.toml");

/// What each random stream of the experiment is for.
pub(super) enum Purpose {
    TrainData,
    TestData,
    Init,
    Order,
    TrainNoise,
    Posterior,
    Prior,
}

/// The experiment as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToyConfig {
    /// Decides everything random.
    pub seed: u64,
    /// The models to train.
    pub models: Vec<ModelName>,
    /// The data set.
    pub data: DataConfig,
    /// Training.
    pub train: TrainConfig,
    /// Evaluation.
    pub evaluate: EvaluateConfig,
    /// The Nesterov model; the baseline differs in `model.dynamics` alone.
    pub model: ModelConfig,
}

/// Training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Passes over the data.
    pub epochs: usize,
    /// Points a step.
    pub batch: usize,
    /// The learning rate of Adam.
    pub learning_rate: f64,
    /// The weight of the KL divergence in the loss.
    pub kl_coef: f64,
    /// Weight paths a step.
    pub samples: usize,
}

/// Evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluateConfig {
    /// Weight paths for predictions.
    pub samples: usize,
}

impl ToyConfig {
    /// The paper's experiment with keys replaced.
    pub fn read(overrides: &[String]) -> Result<Self, Error> {
        let config: Self = configuration::read("configs/toy.toml", CONFIG, overrides)?;
        config.validate().map_err(|e| Error::config("configuration", "", e))?;
        config.model.validate().map_err(|e| Error::config("configuration", "model.", e))?;
        Ok(config)
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let check = |ok: bool, key: &str, found: &dyn std::fmt::Debug, expected: &str| match ok {
            true => Ok(()),
            false => Err(ConfigError { key: key.into(), found: format!("{found:?}"), expected: expected.into() }),
        };
        let DataConfig { slope, amplitude, frequency, range, gap, noise, train_points, test_points } = &self.data;
        let TrainConfig { epochs, batch, learning_rate, kl_coef, samples } = &self.train;
        let ordered = |v: &[f64; 2]| v[0].is_finite() && v[1].is_finite() && v[0] < v[1];
        check(!self.models.is_empty(), "models", &self.models, "at least one of \"sde-bnn\" and \"nesterov\"")?;
        check(*train_points > 0, "data.train_points", train_points, "at least 1")?;
        check(*test_points > 0, "data.test_points", test_points, "at least 1")?;
        check(slope.is_finite(), "data.slope", slope, "a finite number")?;
        check(amplitude.is_finite(), "data.amplitude", amplitude, "a finite number")?;
        check(frequency.is_finite(), "data.frequency", frequency, "a finite number")?;
        check(ordered(range), "data.range", range, "two numbers, the lower first")?;
        let inside = ordered(gap) && range[0] < gap[0] && gap[1] < range[1];
        check(inside, "data.gap", gap, "two numbers inside `data.range`, the lower first")?;
        check(noise.is_finite() && *noise > 0.0, "data.noise", noise, "a positive number")?;
        check(*epochs > 0, "train.epochs", epochs, "at least 1")?;
        check(*batch > 0, "train.batch", batch, "at least 1")?;
        let positive = learning_rate.is_finite() && *learning_rate > 0.0;
        check(positive, "train.learning_rate", learning_rate, "a positive number")?;
        check(kl_coef.is_finite() && *kl_coef >= 0.0, "train.kl_coef", kl_coef, "a number of at least 0")?;
        check(*samples > 0, "train.samples", samples, "at least 1")?;
        check(self.evaluate.samples > 1, "evaluate.samples", &self.evaluate.samples, "at least 2")?;
        let nesterov = matches!(self.model.dynamics, DynamicsConfig::Nesterov { .. });
        check(
            nesterov,
            "model.dynamics",
            &self.model.dynamics,
            "kind = \"nesterov\"; \"sde-bnn\" is chosen by `models`",
        )?;
        let values = matches!(self.model.likelihood, Likelihood::Gaussian(_) | Likelihood::Laplace(_));
        check(values, "model.likelihood", &self.model.likelihood, "\"gaussian\" or \"laplace\" for a regression")
    }

    pub(super) fn model(&self, name: ModelName) -> ModelConfig {
        match name {
            ModelName::Nesterov => self.model.clone(),
            ModelName::SdeBnn => ModelConfig { dynamics: DynamicsConfig::FirstOrder {}, ..self.model.clone() },
        }
    }

    pub(super) fn stream(&self, purpose: Purpose) -> Stream {
        Stream::root(self.seed).child(purpose as u64)
    }
}
