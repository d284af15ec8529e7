//! Runs as a report finds them on the disk.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::Error;
use crate::experiment::ModelName;
use crate::experiment::grid::SolverName;
use crate::experiment::run::{AnyExperiment, FAILURE, SUMMARY};
use crate::run_directory::metrics;

/// How far a run has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// To its end.
    Finished,
    /// Not to its end; it may be gone on with.
    Unfinished,
    /// It ended with this error.
    Failed(String),
}

/// A run directory.
#[derive(Clone, Debug)]
pub struct ReportedRun {
    /// Where it is.
    pub path: PathBuf,
    /// What it is called in the report: where it is, below the directory that was asked for.
    pub name: String,
    /// Its configuration.
    pub config: AnyExperiment,
    /// The model.
    pub model: ModelName,
    /// How its steps are chosen.
    pub solver: SolverName,
    /// How far it has come.
    pub state: RunState,
    /// A line an epoch; the last of a finished run has its `final_…` numbers too.
    pub metrics: Vec<Map<String, Value>>,
}

impl ReportedRun {
    /// Reads a run directory.
    fn read(path: &Path, name: String) -> Result<Self, Error> {
        let config = AnyExperiment::of_run(path)?;
        let Some(model) = ModelName::of(&config.model().dynamics) else {
            let message = "has heavy-ball dynamics: the report compares SDE-BNN with Nesterov-SDEBNN".into();
            return Err(Error::NotARun { path: path.into(), message });
        };
        let state = match std::fs::read_to_string(path.join(FAILURE)) {
            _ if path.join(SUMMARY).exists() => RunState::Finished,
            Ok(reason) => RunState::Failed(reason.trim().into()),
            Err(_) => RunState::Unfinished,
        };
        let solver = SolverName::of(config.model().solver.controller);
        Ok(Self { path: path.into(), name, config, model, solver, state, metrics: metrics(path)? })
    }

    /// A metric after each epoch; NaN where it was not measured.
    pub fn curve(&self, key: &str) -> Vec<f64> {
        self.metrics.iter().map(|row| row.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN)).collect()
    }

    /// What the run ended with.
    pub fn last(&self, key: &str) -> Option<&Value> {
        self.metrics.last()?.get(&format!("final_{key}"))
    }

    /// A number that the run ended with; NaN if it has none.
    pub fn number(&self, key: &str) -> f64 {
        self.last(key).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }
}

/// All runs in some directories and below them, by path. A directory with a `config.toml` is a run.
pub fn find(directories: &[PathBuf]) -> Result<Vec<ReportedRun>, Error> {
    let mut runs: Vec<ReportedRun> = Vec::new();
    for root in directories {
        let before = runs.len();
        let mut left = vec![root.clone()];
        while let Some(path) = left.pop() {
            if path.join("config.toml").is_file() {
                let below = path.strip_prefix(root).unwrap_or(&path);
                let name =
                    if below.as_os_str().is_empty() { path.file_name().map(Path::new).unwrap_or(&path) } else { below };
                runs.push(ReportedRun::read(&path, name.display().to_string())?);
                continue;
            }
            let failed = |error| Error::File { action: "read", path: path.clone(), error };
            for entry in std::fs::read_dir(&path).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                if entry.file_type().map_err(failed)?.is_dir() {
                    left.push(entry.path());
                }
            }
        }
        if runs.len() == before {
            let message = "holds no run: there is no config.toml in it or below it".into();
            return Err(Error::NotARun { path: root.clone(), message });
        }
    }
    runs.sort_by(|a, b| a.path.cmp(&b.path));
    runs.dedup_by(|a, b| a.path == b.path);
    Ok(runs)
}
