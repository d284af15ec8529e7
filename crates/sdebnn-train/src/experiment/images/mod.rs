//! Classification of images: MNIST, CIFAR-10, and digits that are drawn.

mod config;
pub mod paper;
mod task;

pub(super) use config::DRAWN;
pub use config::{DataConfig, ImageSet, ImagesConfig};

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::ModelName;
use super::run::{Cost, Experiment, configuration_of, finish, last_model, with_dynamics};
use crate::classification::{Classification, ReliabilityBin, auc_of_curve};
use crate::error::Error;
use crate::parameters::Parameters;
use crate::run_directory::RunDirectory;
use crate::trainer::{MeanNfe, Outcome, Split, TrainObserver, Trainer};
use task::{ImagesTask, values};

/// `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImagesSummary {
    /// The version of this program.
    pub version: String,
    /// The seed.
    pub seed: u64,
    /// Epochs trained.
    pub epochs: u64,
    /// Learned numbers.
    pub parameters: usize,
    /// Weight paths over which probabilities are averaged.
    pub samples: usize,
    /// The share of test images whose class is the most probable one.
    pub accuracy: f64,
    /// The mean negative logarithm of the probability of the right class.
    pub nll: f64,
    /// The mean squared distance of the probabilities from the right answer.
    pub brier: f64,
    /// The expected calibration error, 15 bins.
    pub ece: f64,
    /// The area under the curve of test accuracy by epoch, by its length.
    pub auc: f64,
    /// Drift evaluations of a solve on the test set.
    pub nfe_drift: f64,
    /// Images trained on.
    pub examples: usize,
    /// Confidence against accuracy, the bins that are not empty.
    pub reliability: Vec<ReliabilityBin>,
    /// What it costs.
    #[serde(flatten)]
    pub cost: Cost,
}

/// Whether a data set is not in a directory.
pub fn is_missing(set: ImageSet, dir: &Path) -> bool {
    let found = match set {
        ImageSet::Mnist => sdebnn_data::idx::load(dir),
        ImageSet::Cifar10 => sdebnn_data::cifar::load(dir),
        ImageSet::Digits => return false,
    };
    matches!(found, Err(sdebnn_data::Error::Missing { .. }))
}

impl Experiment for ImagesConfig {
    type Summary = ImagesSummary;

    fn read(name: &str, text: &str, overrides: &[String]) -> Result<Self, Error> {
        Self::read_checked(name, text, overrides)
    }

    fn with_model(&self, name: ModelName) -> Self {
        Self { model: with_dynamics(&self.model, name), ..self.clone() }
    }

    fn train(
        &self,
        directory: &RunDirectory,
        data: Option<&Path>,
        stop: &AtomicBool,
        observer: &mut dyn TrainObserver,
    ) -> Result<Option<ImagesSummary>, Error> {
        let task = ImagesTask::load(self, data)?;
        let samples = self.evaluate.samples;
        let trainer = Trainer { task: &task, config: &self.train, noise: task.noise(), samples, directory, stop };
        let Outcome::Finished { model, curve, seconds } = trainer.run(observer)? else { return Ok(None) };
        let samples = self.evaluate.final_samples;
        let epoch = self.train.epochs;
        let start = Instant::now();
        let found = task.classify(&model, Split::Test, samples, stop);
        let found = found.map_err(|error| Error::Solve { model: "test", epoch, error })?;
        let Some((sums, nfe)) = found else { return Ok(None) };
        let prediction_ms = 1e3 * start.elapsed().as_secs_f64() / (sums.count() * samples) as f64;
        let summary = ImagesSummary {
            version: env!("CARGO_PKG_VERSION").into(),
            seed: self.seed,
            epochs: epoch,
            parameters: Parameters::of(&model).0.len(),
            samples,
            accuracy: sums.accuracy(),
            nll: sums.nll(),
            brier: sums.brier(),
            ece: sums.ece(),
            auc: auc_of_curve(&curve),
            nfe_drift: nfe.nfe_drift,
            examples: task.examples(),
            reliability: sums.reliability().into_iter().filter(|bin| bin.count > 0).collect(),
            cost: Cost::new(&model, prediction_ms, seconds),
        };
        finish(directory, &summary)?;
        Ok(Some(summary))
    }
}

/// What a trained model does on one of the splits.
#[derive(Debug)]
pub struct RunEvaluation {
    /// All that is known of the predicted probabilities.
    pub classification: Classification,
    /// The metrics by name.
    pub values: Vec<(&'static str, f64)>,
    /// Mean function evaluations of a solve.
    pub nfe: MeanNfe,
    /// Weight paths over which probabilities are averaged.
    pub samples: usize,
}

/// Evaluates the last checkpoint of a run.
pub fn evaluate(
    run: &Path,
    settings: &[String],
    data: Option<&Path>,
    split: Split,
    samples: Option<usize>,
) -> Result<RunEvaluation, Error> {
    let (name, text) = configuration_of(run)?;
    let config = ImagesConfig::read(&name, &text, settings)?;
    if split == Split::Validation && config.data.validation == 0 {
        let message = "has no validation images: data.validation is 0".into();
        return Err(Error::NotARun { path: run.into(), message });
    }
    let task = ImagesTask::load(&config, data)?;
    let model = last_model(run, &task)?;
    let samples = samples.unwrap_or(config.evaluate.final_samples);
    let found = task.classify(&model, split, samples, &AtomicBool::new(false));
    let found = found.map_err(|error| Error::Solve { model: split.key(), epoch: config.train.epochs, error })?;
    let (classification, nfe) = found.expect("an evaluation that nothing stops");
    Ok(RunEvaluation { values: values(&classification), classification, nfe, samples })
}
