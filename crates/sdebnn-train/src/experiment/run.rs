//! What experiments share that are trained, gone on with and evaluated in run directories.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use sdebnn::config::{DynamicsConfig, ModelConfig};
use sdebnn::model::SdeBnn;
use sdebnn::random::Stream;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ModelName;
use super::grid::PaperExperiment;
use super::images::{ImageSet, ImagesConfig};
use super::sequences::{SequenceSet, SequencesConfig};
use super::toy::{self, ToyConfig};
use crate::checkpoint::CheckpointStore;
use crate::configuration;
use crate::error::Error;
use crate::machine::peak_rss_mib;
use crate::run_directory::{METRICS, RunDirectory, metrics};
use crate::trainer::{Task, TrainObserver, load_model};

/// An experiment as its configuration says.
pub trait Experiment: Serialize + DeserializeOwned + PartialEq {
    /// What `summary.json` holds.
    type Summary: Serialize + DeserializeOwned;

    /// Reads a configuration file, with keys replaced.
    fn read(name: &str, text: &str, overrides: &[String]) -> Result<Self, Error>;

    /// The same with the dynamics of another model.
    fn with_model(&self, name: ModelName) -> Self;

    /// Trains in a directory (from its last checkpoint, if it has one) and evaluates, with data from `data` or from where the
    /// configuration says. `None` if `stop` became true meanwhile; then everything is saved.
    fn train(
        &self,
        directory: &RunDirectory,
        data: Option<&Path>,
        stop: &AtomicBool,
        observer: &mut dyn TrainObserver,
    ) -> Result<Option<Self::Summary>, Error>;

    /// A run of this configuration in a directory. A run that is there already is an error, unless it is to be gone on with.
    fn open(&self, out: &Path, resume: bool) -> Result<RunDirectory, Error> {
        let directory = RunDirectory::open(out, self)?;
        if !resume && directory.file("checkpoints").exists() {
            return Err(Error::RunExists { path: out.into() });
        }
        Ok(directory)
    }

    /// Whether a run of this configuration is finished in a directory. A run of another is an error.
    fn is_finished(&self, out: &Path) -> Result<bool, Error> {
        if !out.join("config.toml").exists() {
            return Ok(false);
        }
        RunDirectory::open(out, self)?;
        Ok(out.join(SUMMARY).exists())
    }
}

/// The file that says that a run is finished, and how it ended.
pub const SUMMARY: &str = "summary.json";

/// The file that says why a run ended before its end.
pub const FAILURE: &str = "failure.txt";

/// What a trained model costs. All but the arithmetic depends on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// 1e9 floating-point operations of one drift evaluation for one example and weight path.
    pub drift_gflop: f64,
    /// Milliseconds of the prediction for one example along one weight path, when the test set is predicted.
    pub prediction_ms: f64,
    /// Peak resident memory of the process that ended the run.
    pub peak_memory_mib: u64,
    /// Seconds of training, the evaluations after each epoch included.
    pub seconds: f64,
}

impl Cost {
    /// Of the block of a model; memory is that of this process so far.
    pub(super) fn new(block: &SdeBnn, prediction_ms: f64, seconds: f64) -> Self {
        Self {
            drift_gflop: 1e-9 * block.flops_per_evaluation(),
            prediction_ms,
            peak_memory_mib: peak_rss_mib(),
            seconds,
        }
    }
}

/// Ends a run: writes `summary.json`, and the same numbers as `final_…` into the last line of `metrics.jsonl`, so that it has all
/// that is known of the run.
pub(super) fn finish(directory: &RunDirectory, summary: &impl Serialize) -> Result<(), Error> {
    let mut rows = metrics(directory.path())?;
    let numbers = serde_json::to_value(summary).ok().and_then(|numbers| match numbers {
        Value::Object(numbers) => Some(numbers),
        _ => None,
    });
    if let (Some(row), Some(numbers)) = (rows.last_mut(), numbers) {
        row.extend(numbers.into_iter().map(|(key, value)| (format!("final_{key}"), value)));
    }
    directory.write_json_lines(METRICS, &rows)?;
    directory.write_json(SUMMARY, summary)
}

/// The configuration of any experiment.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "there are few")]
pub enum AnyExperiment {
    /// 1D regression.
    Toy(ToyConfig),
    /// Classification of images.
    Images(ImagesConfig),
    /// Prediction of sequences.
    Sequences(SequencesConfig),
}

impl AnyExperiment {
    /// Reads a configuration file, with keys replaced. Its `data.name` decides which experiment it is of.
    pub fn read(name: &str, text: &str, overrides: &[String]) -> Result<Self, Error> {
        let table = configuration::table(name, text, overrides)?;
        let set = table.get("data").and_then(|data| data.get("name")).map(|set| set.as_str().unwrap_or_default());
        match set {
            Some(toy::CURVE) => ToyConfig::read(name, text, overrides).map(Self::Toy),
            Some(set) if ImageSet::NAMES.contains(&set) => ImagesConfig::read(name, text, overrides).map(Self::Images),
            Some(set) if SequenceSet::NAMES.contains(&set) => {
                SequencesConfig::read(name, text, overrides).map(Self::Sequences)
            }
            _ => {
                let names: Vec<&str> = [&[toy::CURVE][..], &ImageSet::NAMES, &SequenceSet::NAMES].concat();
                let found = set.map_or("no data set".into(), |set| format!("unknown data set `{set}`"));
                let message = format!("`data.name`: {found}, expected one of {}", names.join(", "));
                Err(Error::Configuration { source_name: name.into(), message })
            }
        }
    }

    /// The configuration of a run.
    pub fn of_run(run: &Path) -> Result<Self, Error> {
        let (name, text) = configuration_of(run)?;
        Self::read(&name, &text, &[])
    }

    /// The model.
    pub fn model(&self) -> &ModelConfig {
        match self {
            Self::Toy(config) => &config.model,
            Self::Images(config) => &config.model,
            Self::Sequences(config) => &config.model,
        }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        match self {
            Self::Toy(config) => config.seed,
            Self::Images(config) => config.seed,
            Self::Sequences(config) => config.seed,
        }
    }

    /// The epochs to train.
    pub fn epochs(&self) -> u64 {
        match self {
            Self::Toy(config) => config.train.epochs as u64,
            Self::Images(config) => config.train.epochs,
            Self::Sequences(config) => config.train.epochs,
        }
    }

    /// The same with another seed and the dynamics of another model: equal for runs that differ in these alone.
    pub fn with(&self, seed: u64, model: ModelName) -> Self {
        match self {
            Self::Toy(config) => Self::Toy(ToyConfig { seed, ..config.with_model(model) }),
            Self::Images(config) => Self::Images(ImagesConfig { seed, ..config.with_model(model) }),
            Self::Sequences(config) => Self::Sequences(SequencesConfig { seed, ..config.with_model(model) }),
        }
    }

    /// The experiment of the paper that this is a run of, be it on drawn data in place of its own.
    pub fn paper(&self) -> Option<PaperExperiment> {
        match self {
            Self::Toy(_) => Some(PaperExperiment::Toy),
            Self::Images(config) => match config.data.name {
                ImageSet::Mnist => Some(PaperExperiment::Mnist),
                ImageSet::Cifar10 => Some(PaperExperiment::Cifar10),
                ImageSet::Digits => config.data.stands_in_for,
            },
            Self::Sequences(config) => match config.data.name {
                SequenceSet::Walker2d => Some(PaperExperiment::Walker2d),
                SequenceSet::Npy | SequenceSet::Walks => config.data.stands_in_for,
            },
        }
    }

    /// What the data is called.
    pub fn data_title(&self) -> &'static str {
        match self {
            Self::Toy(_) => "a drawn curve",
            Self::Images(config) => match config.data.name {
                ImageSet::Mnist => "MNIST",
                ImageSet::Cifar10 => "CIFAR-10",
                ImageSet::Digits => "drawn digits",
            },
            Self::Sequences(config) => match config.data.name {
                SequenceSet::Walker2d => "Walker2D",
                SequenceSet::Npy => "recorded sequences",
                SequenceSet::Walks => "drawn walks",
            },
        }
    }

    /// A run of this configuration in a directory, new or to be gone on with.
    pub fn open(&self, out: &Path) -> Result<RunDirectory, Error> {
        match self {
            Self::Toy(config) => config.open(out, true),
            Self::Images(config) => config.open(out, true),
            Self::Sequences(config) => config.open(out, true),
        }
    }

    /// Whether a run of this configuration is finished in a directory. A run of another is an error.
    pub fn is_finished(&self, out: &Path) -> Result<bool, Error> {
        match self {
            Self::Toy(config) => config.is_finished(out),
            Self::Images(config) => config.is_finished(out),
            Self::Sequences(config) => config.is_finished(out),
        }
    }
}

/// The text of a run's configuration, with the name of its file.
pub fn configuration_of(run: &Path) -> Result<(String, String), Error> {
    let path = run.join("config.toml");
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok((path.display().to_string(), text)),
        Err(error) => Err(Error::File { action: "read", path, error }),
    }
}

/// The model of a run's last checkpoint.
pub(super) fn last_model<T: Task>(run: &Path, task: &T) -> Result<T::Model, Error> {
    let lacking = |message: String| Error::NotARun { path: run.into(), message };
    let checkpoints = run.join("checkpoints");
    if !checkpoints.is_dir() {
        return Err(lacking("has no checkpoints; train it first".into()));
    }
    let (checkpoint, _) =
        CheckpointStore::new(&checkpoints)?.load_last()?.ok_or_else(|| lacking("has no checkpoint yet".into()))?;
    load_model(task.model()?, &checkpoint).map_err(lacking)
}

/// A model's configuration with the dynamics of another.
pub(super) fn with_dynamics(model: &ModelConfig, name: ModelName) -> ModelConfig {
    let dynamics = match (name, &model.dynamics) {
        (ModelName::SdeBnn, _) => DynamicsConfig::FirstOrder {},
        (ModelName::Nesterov, found @ DynamicsConfig::Nesterov { .. }) => found.clone(),
        (ModelName::Nesterov, _) => DynamicsConfig::nesterov(),
    };
    ModelConfig { dynamics, ..model.clone() }
}

/// What each random stream of a run is for.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Init,
    TrainNoise,
    EvaluationNoise,
}

impl Purpose {
    /// The stream of a run with this seed.
    pub(super) fn stream(self, seed: u64) -> Stream {
        Stream::root(seed).child(self as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_set_decides_the_experiment() {
        let read = |text: &str, set: &str| AnyExperiment::read("a.toml", text, &[format!("data.name={set}")]);
        let images = include_str!("../../../../configs/digits.toml");
        for name in ImageSet::NAMES {
            assert!(matches!(read(images, name), Ok(AnyExperiment::Images(_))));
        }
        let sequences = include_str!("../../../../configs/walks.toml");
        for name in SequenceSet::NAMES {
            assert!(matches!(read(sequences, name), Ok(AnyExperiment::Sequences(_))));
        }
        let message = read(images, "imagenet").unwrap_err().to_string();
        assert!(
            message.contains("unknown data set `imagenet`, expected one of curve, mnist, cifar10, digits, walker2d")
        );
        assert!(AnyExperiment::read("a.toml", "seed = 1", &[]).unwrap_err().to_string().contains("no data set"));
    }
}
