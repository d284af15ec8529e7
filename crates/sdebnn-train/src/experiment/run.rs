//! What experiments share that are trained, gone on with and evaluated in run directories.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use sdebnn::config::{DynamicsConfig, ModelConfig};
use sdebnn::random::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ModelName;
use super::images::ImageSet;
use super::sequences::SequenceSet;
use crate::checkpoint::CheckpointStore;
use crate::configuration;
use crate::error::Error;
use crate::run_directory::RunDirectory;
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

    /// The summary of a run of this configuration that is finished.
    fn finished(&self, out: &Path) -> Result<Option<Self::Summary>, Error> {
        let path = out.join("summary.json");
        if !path.exists() {
            return Ok(None);
        }
        RunDirectory::open(out, self)?;
        let text = std::fs::read(&path).map_err(|error| Error::File { action: "read", path: path.clone(), error })?;
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| Error::NotARun { path, message: format!("cannot be read: {error}") })
    }
}

/// The experiments that a configuration file may be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`ImagesConfig`](super::images::ImagesConfig).
    Images,
    /// [`SequencesConfig`](super::sequences::SequencesConfig).
    Sequences,
}

/// Which experiment a configuration is of: its `data.name` decides.
pub fn kind(name: &str, text: &str, overrides: &[String]) -> Result<Kind, Error> {
    let table = configuration::table(name, text, overrides)?;
    let set = table.get("data").and_then(|data| data.get("name")).map(|set| set.as_str().unwrap_or_default());
    match set {
        Some(set) if ImageSet::NAMES.contains(&set) => Ok(Kind::Images),
        Some(set) if SequenceSet::NAMES.contains(&set) => Ok(Kind::Sequences),
        _ => {
            let names: Vec<&str> = [&ImageSet::NAMES[..], &SequenceSet::NAMES].concat();
            let found = set.map_or("no data set".into(), |set| format!("unknown data set `{set}`"));
            let message = format!("`data.name`: {found}, expected one of {}", names.join(", "));
            Err(Error::Configuration { source_name: name.into(), message })
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
        let kind_of = |set: &str| kind("a.toml", &format!("[data]\nname = '{set}'\n"), &[]);
        for name in ImageSet::NAMES {
            assert_eq!(kind_of(name).unwrap(), Kind::Images);
            serde_json::from_value::<ImageSet>(name.into()).unwrap();
        }
        for name in SequenceSet::NAMES {
            assert_eq!(kind_of(name).unwrap(), Kind::Sequences);
            serde_json::from_value::<SequenceSet>(name.into()).unwrap();
        }
        let message = kind_of("imagenet").unwrap_err().to_string();
        assert!(message.contains("unknown data set `imagenet`, expected one of mnist, cifar10, digits, walker2d"));
        assert!(kind("a.toml", "seed = 1", &[]).unwrap_err().to_string().contains("no data set"));
        assert_eq!(kind("a.toml", "", &["data.name=walks".into()]).unwrap(), Kind::Sequences);
    }
}
