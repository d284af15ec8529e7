//! 1D regression on a non-monotonic, noisy curve with a gap in its inputs.

mod config;
mod data;
mod evaluation;

pub use config::{EvaluateConfig, ToyConfig, TrainConfig};
pub(crate) use data::Points;
pub use data::{CURVE, CurveName, DataConfig};
pub use evaluation::Fit;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use sdebnn::burn::tensor::{DType, Device, Tensor, TensorData};
use sdebnn::likelihood::Target;
use sdebnn::model::{Law, SdeBnn};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ModelName;
use super::run::{Cost, Experiment, finish, with_dynamics};
use crate::error::Error;
use crate::optimiser::Adam;
use crate::parameters::Parameters;
use crate::report::toy_figure::{Band, ToyFigure};
use crate::run_directory::{METRICS, RunDirectory};
use crate::trainer::TrainObserver;
use config::Purpose;
use evaluation::Predictions;

/// The observer hears of about this many epochs: they are short.
const REPORTS: usize = 20;

/// The figure of a run: predictive prior and posterior.
pub const FIGURE: &str = "prediction";

/// `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToySummary {
    /// The version of this program.
    pub version: String,
    /// The seed.
    pub seed: u64,
    /// Epochs trained.
    pub epochs: u64,
    /// Learned numbers.
    pub parameters: usize,
    /// Weight paths of a prediction.
    pub samples: usize,
    /// The standard deviation of the data's noise, for scale.
    pub noise: f64,
    /// How good predictions are.
    #[serde(flatten)]
    pub fit: Fit,
    /// Drift evaluations of a solve.
    pub nfe_drift: f64,
    /// Points trained on.
    pub examples: usize,
    /// What it costs.
    #[serde(flatten)]
    pub cost: Cost,
}

impl Experiment for ToyConfig {
    type Summary = ToySummary;

    fn read(name: &str, text: &str, overrides: &[String]) -> Result<Self, Error> {
        Self::read_checked(name, text, overrides)
    }

    fn with_model(&self, name: ModelName) -> Self {
        Self { model: with_dynamics(&self.model, name), ..self.clone() }
    }

    /// Trains from the beginning: a run takes seconds, so nothing is kept of one that was stopped.
    fn train(
        &self,
        directory: &RunDirectory,
        _: Option<&Path>,
        stop: &AtomicBool,
        observer: &mut dyn TrainObserver,
    ) -> Result<Option<ToySummary>, Error> {
        let _lock = directory.lock()?;
        let test = self.data.points(self.data.test_points, self.stream(Purpose::TestData));
        let train = self.data.points(self.data.train_points, self.stream(Purpose::TrainData));
        let x = self.data.figure_inputs();
        let device = Device::flex().autodiff();
        let model = SdeBnn::new(&self.model, &[1], 1, self.stream(Purpose::Init), &device, DType::F32)
            .map_err(|e| Error::config("configuration", "model.", e))?;
        let draw = |model: &SdeBnn, x: &[f64], law: Law, purpose: Purpose, epoch: usize| {
            Predictions::draw(model, x, law, self.stream(purpose), self.evaluate.samples)
                .map_err(|error| Error::Solve { model: "prediction", epoch: epoch as u64, error })
        };
        let prior = draw(&model, &x, Law::Prior, Purpose::Prior, 0)?;

        let start = Instant::now();
        let Some((model, rows)) = fit(model, &train, self, start, stop, observer)? else { return Ok(None) };
        let seconds = start.elapsed().as_secs_f64();

        let epochs = self.train.epochs;
        let posterior = draw(&model, &x, Law::Posterior, Purpose::Posterior, epochs)?;
        let start = Instant::now();
        let at_test = draw(&model, &test.x, Law::Posterior, Purpose::Posterior, epochs)?;
        let prediction_ms = 1e3 * start.elapsed().as_secs_f64() / (test.x.len() * self.evaluate.samples) as f64;

        let band = |p: &Predictions| Band { mean: p.mean(), low: p.quantiles(0.025), high: p.quantiles(0.975) };
        let name = ModelName::of(&self.model.dynamics);
        ToyFigure { model: name, x: &x, data: &train, prior: band(&prior), posterior: band(&posterior) }
            .write(directory, FIGURE)?;
        directory.write_json_lines(METRICS, &rows)?;
        let summary = ToySummary {
            version: env!("CARGO_PKG_VERSION").into(),
            seed: self.seed,
            epochs: epochs as u64,
            parameters: Parameters::of(&model).0.len(),
            samples: self.evaluate.samples,
            noise: self.data.noise,
            fit: Fit::new(&self.data, &model, (&test, &at_test), &posterior),
            nfe_drift: rows.last().and_then(|row| row["nfe_drift"].as_f64()).unwrap_or(0.0),
            examples: train.x.len(),
            cost: Cost::new(&model, prediction_ms, seconds),
        };
        finish(directory, &summary)?;
        Ok(Some(summary))
    }
}

fn column(values: impl Iterator<Item = f64>, device: &Device) -> Tensor<2> {
    let values: Vec<f64> = values.collect();
    let len = values.len();
    Tensor::from_data(TensorData::new(values, [len, 1]), (device, DType::F32))
}

/// Means over the batches of an epoch.
#[derive(Default)]
struct Means {
    loss: f64,
    nll: f64,
    kl: f64,
    nfe_drift: f64,
}

/// Minimises the negative ELBO. Returns the model with the metrics of every epoch; `None` if it was stopped.
#[allow(clippy::type_complexity, reason = "a pair, or nothing")]
fn fit(
    mut model: SdeBnn,
    data: &Points,
    config: &ToyConfig,
    start: Instant,
    stop: &AtomicBool,
    observer: &mut dyn TrainObserver,
) -> Result<Option<(SdeBnn, Vec<Map<String, Value>>)>, Error> {
    let TrainConfig { epochs, batch, learning_rate, kl_coef, samples } = config.train;
    let device = Device::flex().autodiff();
    let (parameters, mut values) = Parameters::of(&model);
    let mut adam = Adam::new(values.len());
    let per_epoch = data.x.len().div_ceil(batch) as u64;
    let mut rows = Vec::new();
    observer.started(0, epochs as u64 * per_epoch, per_epoch);
    for epoch in 1..=epochs {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let order = config.stream(Purpose::Order).child(epoch as u64).permutation(data.x.len());
        let mut means = Means::default();
        for (step, indices) in order.chunks(batch).enumerate() {
            let noise = config.stream(Purpose::TrainNoise).child(epoch as u64).child(step as u64);
            let x = column(indices.iter().map(|&i| data.x[i]), &device);
            let y = Target::Values(column(indices.iter().map(|&i| data.y[i]), &device));
            let loss = model.loss(x, &y, kl_coef, &model.brownian(noise, samples)).map_err(|error| Error::Solve {
                model: "training",
                epoch: epoch as u64,
                error,
            })?;
            let share = indices.len() as f64 / data.x.len() as f64;
            means.loss += share * loss.total.clone().into_scalar::<f64>();
            means.nll += share * loss.nll.into_scalar::<f64>();
            means.kl += share * loss.kl.into_scalar::<f64>();
            means.nfe_drift += share * loss.nfe.drift as f64;
            let mut gradients = vec![0.0; values.len()];
            parameters.add_gradients(&model, loss.total.backward(), 1.0, &mut gradients);
            adam.step(learning_rate, 1.0, &gradients, &mut values);
            model = parameters.put(&values, model);
        }
        let Means { loss, nll, kl, nfe_drift } = means;
        observer.step(epoch as u64 * per_epoch, loss, nfe_drift);
        let row = json!({
            "epoch": epoch, "loss": loss, "nll": nll, "kl": kl, "nfe_drift": nfe_drift,
            "seconds": start.elapsed().as_secs_f64(),
        });
        let Value::Object(row) = row else { unreachable!("an object") };
        if epoch.is_multiple_of(epochs.div_ceil(REPORTS)) || epoch == epochs {
            observer.epoch(epoch as u64, epochs as u64, &row);
        }
        rows.push(row);
    }
    Ok(Some((model, rows)))
}
