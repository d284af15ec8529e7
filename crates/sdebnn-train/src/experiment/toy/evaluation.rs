use sdebnn::SolveError;
use sdebnn::burn::module::Module;
use sdebnn::burn::tensor::Device;
use sdebnn::model::{Law, SdeBnn};
use sdebnn::prediction::{value_nll, value_quantile};
use sdebnn::random::Stream;
use serde::{Deserialize, Serialize};

use super::column;
use super::data::{DataConfig, Points};
use crate::metrics::{coverage, quantile, rmse};

/// How good predictions are, on held-out points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Root mean squared error of the posterior mean.
    pub rmse: f64,
    /// Mean negative log predictive density.
    pub nll: f64,
    /// The share of targets inside their 95 % predictive interval, noise included.
    pub coverage95: f64,
    /// Root mean squared error to the noiseless curve inside the gap, where there is no data.
    pub rmse_gap: f64,
    /// The mean width of the posterior's 95 % band (without noise) where there is data.
    pub band_data: f64,
    /// The same inside the gap.
    pub band_gap: f64,
}

/// The outputs of many weight paths at some inputs.
pub(super) struct Predictions {
    /// For each input the outputs of all weight paths, sorted.
    sorted: Vec<Vec<f64>>,
}

impl Predictions {
    /// Runs `samples` weight paths of the law, drawn from `stream`, through the model.
    pub(super) fn draw(
        model: &SdeBnn,
        x: &[f64],
        law: Law,
        stream: Stream,
        samples: usize,
    ) -> Result<Self, SolveError> {
        let model = model.valid();
        let inputs = column(x.iter().copied(), &Device::flex());
        let mut sorted = vec![Vec::with_capacity(samples); x.len()];
        // A few paths at a time, so that the activations stay in the cache.
        for some in model.brownian(stream, samples).chunks(20) {
            let outputs = model.forward(inputs.clone(), law, some)?.outputs;
            let outputs = outputs.try_into_vec_as::<f64>().expect("numbers of a tensor on the CPU");
            for row in outputs.chunks_exact(x.len()) {
                for (values, &output) in sorted.iter_mut().zip(row) {
                    values.push(output);
                }
            }
        }
        for values in &mut sorted {
            values.sort_by(f64::total_cmp);
        }
        Ok(Self { sorted })
    }

    /// The mean over the weight paths at every input.
    pub(super) fn mean(&self) -> Vec<f64> {
        self.sorted.iter().map(|v| v.iter().sum::<f64>() / v.len() as f64).collect()
    }

    /// A quantile over the weight paths at every input.
    pub(super) fn quantiles(&self, q: f64) -> Vec<f64> {
        self.sorted.iter().map(|v| quantile(v, q)).collect()
    }
}

impl Fit {
    /// From predictions at the held-out points and at the figure's inputs.
    pub(super) fn new(
        data: &DataConfig,
        model: &SdeBnn,
        (test, at_test): (&Points, &Predictions),
        on_figure: &Predictions,
    ) -> Self {
        let likelihood = &model.config().likelihood;
        let scale = model.log_scale.as_ref().map_or(0.0, |s| s.val().into_scalar::<f64>().exp());
        let nll = at_test.sorted.iter().zip(&test.y).map(|(out, &y)| value_nll(out, y, likelihood, scale)).sum::<f64>();
        let interval = |out: &Vec<f64>| {
            let [low, high] = [0.025, 0.975].map(|q| value_quantile(out, q, likelihood, scale));
            (low, high)
        };
        let intervals: Vec<(f64, f64)> = at_test.sorted.iter().map(interval).collect();

        let x = data.figure_inputs();
        let mean_where = |keep: &dyn Fn(f64) -> bool, value: &dyn Fn(usize) -> f64| {
            let kept: Vec<usize> = (0..x.len()).filter(|&i| keep(x[i])).collect();
            kept.iter().map(|&i| value(i)).sum::<f64>() / kept.len() as f64
        };
        let (low, high, mean) = (on_figure.quantiles(0.025), on_figure.quantiles(0.975), on_figure.mean());
        let width = |i: usize| high[i] - low[i];
        Self {
            rmse: rmse(&at_test.mean(), &test.y),
            nll: nll / test.y.len() as f64,
            coverage95: coverage(&intervals, &test.y),
            rmse_gap: mean_where(&|x| data.in_gap(x), &|i| (mean[i] - data.curve(x[i])).powi(2)).sqrt(),
            band_data: mean_where(&|x| data.has_data(x), &width),
            band_gap: mean_where(&|x| data.in_gap(x), &width),
        }
    }
}
