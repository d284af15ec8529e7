//! Classification of images: MNIST, CIFAR-10, and digits that are drawn.

mod config;
pub mod paper;
mod task;

pub use config::{DataConfig, EvaluateConfig, ImageSet, ImagesConfig};

use std::path::Path;
use std::sync::atomic::AtomicBool;

use sdebnn::model::SdeBnn;
use serde::{Deserialize, Serialize};

use crate::checkpoint::CheckpointStore;
use crate::classification::{Classification, auc_of_curve};
use crate::error::Error;
use crate::parameters::Parameters;
use crate::run_directory::RunDirectory;
use crate::trainer::{MeanNfe, Outcome, Split, Task, TrainObserver, Trainer, load_model};
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
    /// Seconds of training, the evaluations after each epoch included.
    pub seconds: f64,
}

/// A run of this configuration in a directory. A run that is there already is an error, unless it is to be gone on with.
pub fn open(config: &ImagesConfig, out: &Path, resume: bool) -> Result<RunDirectory, Error> {
    let directory = RunDirectory::open(out, config)?;
    if !resume && directory.file("checkpoints").exists() {
        return Err(Error::RunExists { path: out.into() });
    }
    Ok(directory)
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

/// The summary of a run of this configuration that is finished.
pub fn finished(config: &ImagesConfig, out: &Path) -> Result<Option<ImagesSummary>, Error> {
    let path = out.join("summary.json");
    if !path.exists() {
        return Ok(None);
    }
    RunDirectory::open(out, config)?;
    let text = std::fs::read(&path).map_err(|error| Error::File { action: "read", path: path.clone(), error })?;
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|error| Error::NotARun { path, message: format!("cannot be read: {error}") })
}

/// Trains in a directory (from its last checkpoint, if it has one) and evaluates. `None` if `stop` became true meanwhile;
/// then everything is saved.
pub fn train(
    config: &ImagesConfig,
    directory: &RunDirectory,
    data: Option<&Path>,
    stop: &AtomicBool,
    observer: &mut dyn TrainObserver,
) -> Result<Option<ImagesSummary>, Error> {
    let task = ImagesTask::load(config, data)?;
    let samples = config.evaluate.samples;
    let trainer = Trainer { task: &task, config: &config.train, noise: task.noise(), samples, directory, stop };
    let Outcome::Finished { model, curve, seconds } = trainer.run(observer)? else { return Ok(None) };
    let samples = config.evaluate.final_samples;
    let epoch = config.train.epochs;
    let found = task.classify(&model, Split::Test, samples, stop);
    let found = found.map_err(|error| Error::Solve { model: "test", epoch, error })?;
    let Some((sums, nfe)) = found else { return Ok(None) };
    let summary = ImagesSummary {
        version: env!("CARGO_PKG_VERSION").into(),
        seed: config.seed,
        epochs: epoch,
        parameters: Parameters::of(&model).0.len(),
        samples,
        accuracy: sums.accuracy(),
        nll: sums.nll(),
        brier: sums.brier(),
        ece: sums.ece(),
        auc: auc_of_curve(&curve),
        nfe_drift: nfe.nfe_drift,
        seconds,
    };
    directory.write_json("summary.json", &summary)?;
    Ok(Some(summary))
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
pub fn evaluate(run: &Path, data: Option<&Path>, split: Split, samples: Option<usize>) -> Result<RunEvaluation, Error> {
    let path = run.join("config.toml");
    let text =
        std::fs::read_to_string(&path).map_err(|error| Error::File { action: "read", path: path.clone(), error })?;
    let config = ImagesConfig::read(&path.display().to_string(), &text, &[])?;
    let lacking = |message: String| Error::NotARun { path: run.into(), message };
    if split == Split::Validation && config.data.validation == 0 {
        return Err(lacking("has no validation images: data.validation is 0".into()));
    }
    let checkpoints = run.join("checkpoints");
    if !checkpoints.is_dir() {
        return Err(lacking("has no checkpoints; train it first".into()));
    }
    let (checkpoint, _) =
        CheckpointStore::new(&checkpoints)?.load_last()?.ok_or_else(|| lacking("has no checkpoint yet".into()))?;
    let task = ImagesTask::load(&config, data)?;
    let model: SdeBnn = load_model(task.model()?, &checkpoint).map_err(lacking)?;
    let samples = samples.unwrap_or(config.evaluate.final_samples);
    let found = task.classify(&model, split, samples, &AtomicBool::new(false));
    let found = found.map_err(|error| Error::Solve { model: split.key(), epoch: config.train.epochs, error })?;
    let (classification, nfe) = found.expect("an evaluation that nothing stops");
    Ok(RunEvaluation { values: values(&classification), classification, nfe, samples })
}
