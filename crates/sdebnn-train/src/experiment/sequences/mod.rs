//! Next-frame prediction in sequences with gaps: Walker2D, the user's own recordings, and walks that are drawn.

mod config;
mod forecast;
pub mod gradient_norms;
pub mod paper;
mod task;

pub(super) use config::DRAWN;
pub use config::{DataConfig, RecurrentConfig, SequenceSet, SequencesConfig};
pub use forecast::{Band, Forecast, ForecastOptions, forecast};

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::ModelName;
use super::run::{Cost, Experiment, configuration_of, finish, last_model, with_dynamics};
use crate::error::Error;
use crate::parameters::Parameters;
use crate::run_directory::RunDirectory;
use crate::trainer::{MeanNfe, Outcome, Split, TrainObserver, Trainer};
use task::SequencesTask;

/// `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SequencesSummary {
    /// The version of this program.
    pub version: String,
    /// The seed.
    pub seed: u64,
    /// Epochs trained.
    pub epochs: u64,
    /// Learned numbers.
    pub parameters: usize,
    /// Weight paths over which predictions are averaged.
    pub samples: usize,
    /// The mean squared error on the test windows, of normalised features.
    pub mse: f64,
    /// The same of predicting that nothing changes.
    pub no_change: f64,
    /// Drift evaluations of a solve, which crosses one gap, on the test windows.
    pub nfe_drift: f64,
    /// Drift evaluations of a window: those of all its gaps.
    pub nfe_drift_per_sequence: f64,
    /// Windows trained on.
    pub examples: usize,
    /// What it costs.
    #[serde(flatten)]
    pub cost: Cost,
}

impl Experiment for SequencesConfig {
    type Summary = SequencesSummary;

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
    ) -> Result<Option<SequencesSummary>, Error> {
        let task = SequencesTask::load(self, data)?;
        let samples = self.evaluate.samples;
        let trainer = Trainer { task: &task, config: &self.train, noise: task.noise(), samples, directory, stop };
        let Outcome::Finished { model, seconds, .. } = trainer.run(observer)? else { return Ok(None) };
        let samples = self.evaluate.final_samples;
        let epochs = self.train.epochs;
        let failed = |error| Error::Solve { model: "test", epoch: epochs, error };
        let start = Instant::now();
        let Some((mse, nfe)) = task.predict(&model, Split::Test, samples, stop).map_err(failed)? else {
            return Ok(None);
        };
        let prediction_ms = 1e3 * start.elapsed().as_secs_f64() / (task.windows(Split::Test).len() * samples) as f64;
        gradient_norms::write(directory, &gradient_norms::measure(&task, &model).map_err(failed)?)?;
        let summary = SequencesSummary {
            version: env!("CARGO_PKG_VERSION").into(),
            seed: self.seed,
            epochs,
            parameters: Parameters::of(&model).0.len(),
            samples,
            mse,
            no_change: task.windows(Split::Test).no_change(),
            nfe_drift: nfe.nfe_drift,
            nfe_drift_per_sequence: nfe.nfe_drift * self.data.window as f64,
            examples: task.sets.train.len(),
            cost: Cost::new(&model.block, prediction_ms, seconds),
        };
        finish(directory, &summary)?;
        Ok(Some(summary))
    }
}

/// Whether Walker2D is not in a directory.
pub fn is_missing(dir: &Path) -> bool {
    matches!(sdebnn_data::walker::load(dir), Err(sdebnn_data::Error::Missing { .. }))
}

/// What a trained model does on one of the splits.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEvaluation {
    /// The number of windows.
    pub windows: usize,
    /// The mean squared error, of normalised features.
    pub mse: f64,
    /// The same of predicting that nothing changes.
    pub no_change: f64,
    /// Mean function evaluations of a solve, which crosses one gap.
    pub nfe: MeanNfe,
    /// Gaps of a window.
    pub gaps: usize,
    /// Weight paths over which predictions are averaged.
    pub samples: usize,
}

/// Evaluates the last checkpoint of a run, and writes `gradient_norms.csv` to a directory.
pub fn evaluate(
    run: &Path,
    settings: &[String],
    data: Option<&Path>,
    split: Split,
    samples: Option<usize>,
    directory: &RunDirectory,
) -> Result<RunEvaluation, Error> {
    let (name, text) = configuration_of(run)?;
    let config = SequencesConfig::read(&name, &text, settings)?;
    let task = SequencesTask::load(&config, data)?;
    let windows = task.windows(split);
    if windows.is_empty() {
        let message = "has no validation sequences: data.validation is 0".into();
        return Err(Error::NotARun { path: run.into(), message });
    }
    let model = last_model(run, &task)?;
    let samples = samples.unwrap_or(config.evaluate.final_samples);
    let failed = |error| Error::Solve { model: split.key(), epoch: config.train.epochs, error };
    let found = task.predict(&model, split, samples, &AtomicBool::new(false)).map_err(failed)?;
    let (mse, nfe) = found.expect("an evaluation that nothing stops");
    gradient_norms::write(directory, &gradient_norms::measure(&task, &model).map_err(failed)?)?;
    let (no_change, gaps) = (windows.no_change(), windows.frames());
    Ok(RunEvaluation { windows: windows.len(), mse, no_change, nfe, gaps, samples })
}
