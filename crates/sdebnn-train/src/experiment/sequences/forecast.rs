use std::path::Path;

use sdebnn::burn::module::Module;
use sdebnn::burn::tensor::{DType, Tensor};
use sdebnn_data::windows::FeatureScale;

use super::config::SequencesConfig;
use super::task::{SequencesTask, frames};
use crate::error::Error;
use crate::experiment::run::{Experiment, configuration_of, last_model};
use crate::metrics::quantile;
use crate::report::forecast_figure;
use crate::run_directory::RunDirectory;
use crate::trainer::Split;

/// What to forecast.
#[derive(Clone, Copy, Debug)]
pub struct ForecastOptions {
    /// Frames beyond the window.
    pub ahead: usize,
    /// The window of the test set, from 0.
    pub window: usize,
    /// Weight paths; by default those of the configuration's last evaluation.
    pub samples: Option<usize>,
}

/// A forecast of one feature at one time, in the feature's own unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// The mean over the weight paths.
    pub mean: f64,
    /// Their 5 % quantile.
    pub low: f64,
    /// Their 95 % quantile.
    pub high: f64,
}

/// How a sequence goes on after a window. Every list has a row a time and, in it, a number a feature, in the feature's own unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// The times of the window's frames.
    pub observed_times: Vec<usize>,
    /// The window's frames.
    pub observed: Vec<Vec<f64>>,
    /// The first time that is forecast; one frame follows the other.
    pub first: usize,
    /// What the sequence was, as far as it is known.
    pub truth: Vec<Vec<f64>>,
    /// What was forecast.
    pub bands: Vec<Vec<Band>>,
    /// Weight paths behind the bands.
    pub samples: usize,
}

/// Forecasts from a window of the test set with the last checkpoint of a run.
pub fn forecast(
    run: &Path,
    settings: &[String],
    data: Option<&Path>,
    options: ForecastOptions,
) -> Result<Forecast, Error> {
    let (name, text) = configuration_of(run)?;
    let config = SequencesConfig::read(&name, &text, settings)?;
    let task = SequencesTask::load(&config, data)?;
    let windows = task.windows(Split::Test);
    let ForecastOptions { ahead, window, .. } = options;
    if window >= windows.len() {
        let found = sdebnn::ConfigError {
            key: "--window".into(),
            found: window.to_string(),
            expected: format!("a window of the test set, 0 to {}", windows.len() - 1),
        };
        return Err(Error::config("options", "", found));
    }
    let model = last_model(run, &task)?.valid();
    let device = model.block.w0.val().device();
    let (mut frames, _) = frames(windows, &[window], &device);
    let one_frame = Tensor::full([1], 1.0 / windows.frames() as f64, (&device, DType::F32));
    *frames.gaps.last_mut().expect("a window of at least one frame") = one_frame;
    let samples = options.samples.unwrap_or(config.evaluate.final_samples);
    let mut paths: Vec<Vec<f32>> = Vec::with_capacity(samples);
    for path in model.block.brownian(task.evaluation_noise(), samples) {
        let found = model.forecast(&frames, ahead, &path);
        let found = found.map_err(|error| Error::Solve { model: "forecast", epoch: config.train.epochs, error })?;
        paths.push(found.into_data().try_into_vec().expect("32-bit floating-point numbers"));
    }
    let scale = &task.sets.scale;
    let features = windows.features();
    let row = |frame: &[f32]| unscaled(scale, frame);
    let observed_times = windows.times(window)[..windows.frames()].to_vec();
    let first = observed_times[observed_times.len() - 1] + 1;
    let band = |step: usize, feature: usize| {
        let value = |path: &Vec<f32>| scale.undo(feature, f64::from(path[step * features + feature]));
        let mut values: Vec<f64> = paths.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / samples as f64;
        Band { mean, low: quantile(&values, 0.05), high: quantile(&values, 0.95) }
    };
    Ok(Forecast {
        observed: windows.window(window).take(windows.frames()).map(row).collect(),
        observed_times,
        first,
        truth: (first..first + ahead).map_while(|time| windows.at(window, time)).map(row).collect(),
        bands: (0..ahead).map(|step| (0..features).map(|feature| band(step, feature)).collect()).collect(),
        samples,
    })
}

/// A normalised frame in the features' own units.
fn unscaled(scale: &FeatureScale, frame: &[f32]) -> Vec<f64> {
    frame.iter().enumerate().map(|(feature, value)| scale.undo(feature, f64::from(*value))).collect()
}

impl Forecast {
    /// Writes `forecast.csv`, `forecast.svg` and `forecast.png`.
    pub fn write(&self, directory: &RunDirectory) -> Result<(), Error> {
        let mut text = String::from("time,feature,observed,truth,mean,low,high\n");
        for (time, frame) in self.observed_times.iter().zip(&self.observed) {
            for (feature, value) in frame.iter().enumerate() {
                text += &format!("{time},{feature},{value},,,,\n");
            }
        }
        for (step, bands) in self.bands.iter().enumerate() {
            for (feature, Band { mean, low, high }) in bands.iter().enumerate() {
                let truth = self.truth.get(step).map_or(String::new(), |frame| frame[feature].to_string());
                text += &format!("{},{feature},,{truth},{mean},{low},{high}\n", self.first + step);
            }
        }
        directory.write("forecast.csv", text.as_bytes())?;
        forecast_figure::write(self, directory)
    }
}
