use sdebnn::ConfigError;
use sdebnn::config::ModelConfig;
use sdebnn::likelihood::Likelihood;
use sdebnn::random::Stream;
use serde::{Deserialize, Serialize};

use super::data::DataConfig;
use crate::configuration;
use crate::error::Error;
use crate::experiment::ModelName;
use crate::experiment::grid::Budget;
use crate::experiment::run::Experiment;

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
    /// The data set.
    pub data: DataConfig,
    /// Training.
    pub train: TrainConfig,
    /// Evaluation.
    pub evaluate: EvaluateConfig,
    /// The model.
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
    /// The paper's experiment with keys replaced. It takes so little time that it is always run whole, but for a smoke test.
    pub(in crate::experiment) fn of_paper(
        budget: Budget,
        model: ModelName,
        overrides: &[String],
    ) -> Result<Self, Error> {
        let mut all = Vec::new();
        if budget == Budget::Smoke {
            all.extend(["train.epochs=100", "evaluate.samples=50"].map(String::from));
        }
        all.extend_from_slice(overrides);
        Ok(Self::read("configs/toy.toml", CONFIG, &all)?.with_model(model))
    }

    pub(super) fn read_checked(name: &str, text: &str, overrides: &[String]) -> Result<Self, Error> {
        let config: Self = configuration::read(name, text, overrides)?;
        config.validate().map_err(|e| Error::config(name, "", e))?;
        config.model.validate().map_err(|e| Error::config(name, "model.", e))?;
        Ok(config)
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let check = ConfigError::unless;
        let DataConfig { name: _, slope, amplitude, frequency, range, gap, noise, train_points, test_points } =
            &self.data;
        let TrainConfig { epochs, batch, learning_rate, kl_coef, samples } = &self.train;
        let ordered = |v: &[f64; 2]| v[0].is_finite() && v[1].is_finite() && v[0] < v[1];
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
        let values = matches!(self.model.likelihood, Likelihood::Gaussian(_) | Likelihood::Laplace(_));
        check(values, "model.likelihood", &self.model.likelihood, "\"gaussian\" or \"laplace\" for a regression")
    }

    pub(super) fn stream(&self, purpose: Purpose) -> Stream {
        Stream::root(self.seed).child(purpose as u64)
    }
}
