//! 1D regression on a non-monotonic, noisy curve with a gap in its inputs.

mod config;
mod data;
mod evaluation;

pub use config::{EvaluateConfig, ToyConfig, TrainConfig};
pub use data::DataConfig;
pub(crate) use data::Points;
pub use evaluation::ModelSummary;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use sdebnn::burn::tensor::{DType, Device, Tensor, TensorData};
use sdebnn::likelihood::Target;
use sdebnn::model::{Law, SdeBnn};
use serde::Serialize;

use super::{EpochMetrics, ModelName, Observer};
use crate::error::Error;
use crate::optimiser::Adam;
use crate::parameters::Parameters;
use crate::report::toy_figure::{Band, ToyFigure};
use crate::run_directory::RunDirectory;
use config::Purpose;
use evaluation::Predictions;

/// `summary.json`.
#[derive(Clone, Debug, Serialize)]
pub struct ToySummary {
    /// The version of this program.
    pub version: &'static str,
    /// The seed.
    pub seed: u64,
    /// The standard deviation of the data's noise, for scale.
    pub noise: f64,
    /// The results by model.
    pub models: BTreeMap<&'static str, ModelSummary>,
}

/// Trains and evaluates the configured models and writes the run directory.
pub fn run(config: &ToyConfig, out: &Path, observer: &mut dyn Observer) -> Result<ToySummary, Error> {
    let directory = RunDirectory::open(out, config)?;
    let test = config.data.points(config.data.test_points, config.stream(Purpose::TestData));
    let train = config.data.points(config.data.train_points, config.stream(Purpose::TrainData));
    let x = config.data.figure_inputs();
    let (mut rows, mut models) = (Vec::new(), BTreeMap::new());
    for &name in &config.models {
        let device = Device::flex().autodiff();
        let model = SdeBnn::new(&config.model(name), &[1], 1, config.stream(Purpose::Init), &device, DType::F32)
            .map_err(|e| Error::config("configuration", "model.", e))?;
        let draw = |model: &SdeBnn, x: &[f64], law: Law, purpose: Purpose, epoch: usize| {
            Predictions::draw(model, x, law, config.stream(purpose), config.evaluate.samples)
                .map_err(|error| Error::Solve { model: name.key(), epoch: epoch as u64, error })
        };
        let prior = draw(&model, &x, Law::Prior, Purpose::Prior, 0)?;

        observer.started(name, config.train.epochs);
        let start = Instant::now();
        let model = fit(model, name, &train, config, |mut row| {
            row.seconds = start.elapsed().as_secs_f64();
            observer.epoch(&row);
            rows.push(row);
        })?;
        let seconds = start.elapsed().as_secs_f64();
        observer.trained(name);

        let posterior = draw(&model, &x, Law::Posterior, Purpose::Posterior, config.train.epochs)?;
        let at_test = draw(&model, &test.x, Law::Posterior, Purpose::Posterior, config.train.epochs)?;
        let nfe_drift = rows.last().map_or(0.0, |row: &EpochMetrics| row.nfe_drift);
        let summary = ModelSummary::new(&config.data, &model, (&test, &at_test), &posterior);
        models.insert(name.key(), ModelSummary { nfe_drift, seconds, ..summary });

        let band = |p: &Predictions| Band { mean: p.mean(), low: p.quantiles(0.025), high: p.quantiles(0.975) };
        let figure =
            ToyFigure { title: name.title(), x: &x, data: &train, prior: band(&prior), posterior: band(&posterior) };
        figure.write(&directory, name.key())?;
    }
    directory.write_json_lines("metrics.jsonl", &rows)?;
    let summary =
        ToySummary { version: env!("CARGO_PKG_VERSION"), seed: config.seed, noise: config.data.noise, models };
    directory.write_json("summary.json", &summary)?;
    Ok(summary)
}

fn column(values: impl Iterator<Item = f64>, device: &Device) -> Tensor<2> {
    let values: Vec<f64> = values.collect();
    let len = values.len();
    Tensor::from_data(TensorData::new(values, [len, 1]), (device, DType::F32))
}

/// Minimises the negative ELBO; `report` hears of every epoch.
fn fit(
    mut model: SdeBnn,
    name: ModelName,
    data: &Points,
    config: &ToyConfig,
    mut report: impl FnMut(EpochMetrics),
) -> Result<SdeBnn, Error> {
    let TrainConfig { epochs, batch, learning_rate, kl_coef, samples } = config.train;
    let device = Device::flex().autodiff();
    let (parameters, mut values) = Parameters::of(&model);
    let mut adam = Adam::new(values.len());
    for epoch in 1..=epochs {
        let order = config.stream(Purpose::Order).child(epoch as u64).permutation(data.x.len());
        let mut row = EpochMetrics { model: name, epoch, loss: 0.0, nll: 0.0, kl: 0.0, nfe_drift: 0.0, seconds: 0.0 };
        for (step, indices) in order.chunks(batch).enumerate() {
            let noise = config.stream(Purpose::TrainNoise).child(epoch as u64).child(step as u64);
            let x = column(indices.iter().map(|&i| data.x[i]), &device);
            let y = Target::Values(column(indices.iter().map(|&i| data.y[i]), &device));
            let loss = model.loss(x, &y, kl_coef, &model.brownian(noise, samples)).map_err(|error| Error::Solve {
                model: name.key(),
                epoch: epoch as u64,
                error,
            })?;
            let share = indices.len() as f64 / data.x.len() as f64;
            row.loss += share * loss.total.clone().into_scalar::<f64>();
            row.nll += share * loss.nll.into_scalar::<f64>();
            row.kl += share * loss.kl.into_scalar::<f64>();
            row.nfe_drift += share * loss.nfe.drift as f64;
            let mut gradients = vec![0.0; values.len()];
            parameters.add_gradients(&model, loss.total.backward(), 1.0, &mut gradients);
            adam.step(learning_rate, 1.0, &gradients, &mut values);
            model = parameters.put(&values, model);
        }
        report(row);
    }
    Ok(model)
}
