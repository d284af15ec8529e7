//! What several test binaries share: numbers in and out of tensors, orders of convergence, sample statistics, a tiny model.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use sdebnn::activation::Activation;
use sdebnn::burn::module::Param;
use sdebnn::burn::tensor::{DType, Device, Tensor, TensorData};
use sdebnn::config::{DriftConfig, DynamicsConfig, HeadConfig, ModelConfig, WeightsConfig};
use sdebnn::controller::SolverConfig;
use sdebnn::drift::TimeInput;
use sdebnn::likelihood::Likelihood;
use sdebnn::mlp::{Affine, Mlp};
use sdebnn::model::SdeBnn;
use sdebnn::random::Stream;

/// A float64 tensor on a device.
pub fn tensor<const D: usize>(values: &[f64], shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), (device, DType::F64))
}

/// The numbers of a float64 tensor.
pub fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.try_into_vec_as::<f64>().expect("float64")
}

/// Uniform numbers in (0, 1), a function of the seed.
pub fn uniforms(seed: u64, len: usize) -> Vec<f64> {
    let mut values = vec![0.0; len];
    Stream::root(seed).fill_uniform(0, &mut values);
    values
}

/// Spans of Brownian paths: `(t0, t1, cells)`.
pub const SPANS: [(f64, f64, usize); 5] =
    [(0.0, 1.0, 20), (0.0, 1.0, 1), (0.3, 7.1, 13), (2.0, 2.5, 7), (0.1, 0.1 + 1e-3, 3)];

/// Times of a span `(t0, t1, cells)`: its ends, grid points, dyadic points of cells, and random ones.
pub fn times((t0, t1, cells): (f64, f64, usize), seed: u64) -> Vec<f64> {
    let mut times = vec![t0, t1];
    times.extend((1..cells).map(|i| t0 + (t1 - t0) * i as f64 / cells as f64));
    times.extend((1..64).map(|i| t0 + (t1 - t0) * f64::from(i) / 64.0));
    times.extend(uniforms(seed, 60).iter().map(|u| t0 + (t1 - t0) * u));
    times
}

/// Fails unless `found` is within `tolerance · max(1, |expected|)` of `expected`.
#[track_caller]
pub fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    let difference = (found - expected).abs();
    assert!(difference <= tolerance * expected.abs().max(1.0), "{what}: {found} instead of {expected}");
}

/// The root mean square.
pub fn rms(values: impl Iterator<Item = f64> + Clone) -> f64 {
    (values.clone().map(|v| v * v).sum::<f64>() / values.count() as f64).sqrt()
}

/// Mean and variance.
pub fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0))
}

/// Fails unless the mean of independent samples is within `sigmas` standard errors of `expected`.
#[track_caller]
pub fn assert_mean(samples: &[f64], expected: f64, sigmas: f64, what: &str) {
    let (mean, variance) = moments(samples);
    let error = (variance / samples.len() as f64).sqrt();
    assert!((mean - expected).abs() <= sigmas * error, "{what}: {mean} ± {error} instead of {expected}");
}

/// The Kolmogorov–Smirnov statistic `√n sup |F_n − Φ|`; its 0.999 quantile is 1.9495.
pub fn kolmogorov_smirnov(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let gap = |(i, x): (usize, &f64)| {
        let law = 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
        (law - i as f64 / n).max((i as f64 + 1.0) / n - law)
    };
    n.sqrt() * values.iter().enumerate().map(gap).fold(0.0, f64::max)
}

/// Fails unless a sample may come from the standard normal law.
#[track_caller]
pub fn assert_standard_normal(values: Vec<f64>, what: &str) {
    let statistic = kolmogorov_smirnov(values);
    assert!(statistic < 1.9495, "{what}: √n D = {statistic}");
}

/// The correlation coefficient.
pub fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let ((ma, va), (mb, vb)) = (moments(a), moments(b));
    let covariance = a.iter().zip(b).map(|(a, b)| (a - ma) * (b - mb)).sum::<f64>() / (a.len() as f64 - 1.0);
    covariance / (va * vb).sqrt()
}

/// The slope of `log error` against `log step` by least squares: the measured order of convergence.
pub fn measured_order(steps: &[usize], errors: &[f64]) -> f64 {
    let x: Vec<f64> = steps.iter().map(|&n| -(n as f64).ln()).collect();
    let y: Vec<f64> = errors.iter().map(|e| e.ln()).collect();
    correlation(&x, &y) * (moments(&y).1 / moments(&x).1).sqrt()
}

/// Fails unless the measured order of convergence is within 0.1 of `order`.
#[track_caller]
pub fn assert_order(steps: &[usize], errors: &[f64], order: f64, what: &str) {
    let found = measured_order(steps, errors);
    assert!((found - order).abs() <= 0.1, "{what}: order {found:.3} instead of {order}, errors {errors:?}");
}

/// A linear layer `x ↦ W x + b` as a network, for `NN_φ` or a head.
pub fn linear(weight: &[f64], bias: &[f64], device: &Device) -> Mlp {
    let (rows, columns) = (bias.len(), weight.len() / bias.len());
    Mlp {
        layers: vec![Affine {
            weight: Param::from_tensor(tensor(weight, [rows, columns], device)),
            bias: Param::from_tensor(tensor(bias, [rows], device)),
        }],
    }
}

/// `scale · I` of the given size, row by row.
pub fn diagonal(scale: f64, size: usize) -> Vec<f64> {
    (0..size * size).map(|i| if i % (size + 1) == 0 { scale } else { 0.0 }).collect()
}

/// SDE-BNN on one feature with the linear drift `h' = w₀ h + w₁` (P = 2), a linear `NN_φ`, `h(T)` itself as output.
pub fn tiny() -> ModelConfig {
    ModelConfig {
        augment: 0,
        dynamics: DynamicsConfig::FirstOrder {},
        drift: DriftConfig::Dense { hidden: vec![], activation: Activation::Identity, time: TimeInput::None },
        weights: WeightsConfig {
            sigma: 0.5,
            hidden: vec![],
            time_dependent: false,
            posterior: Default::default(),
            stochastic: Default::default(),
            estimator: Default::default(),
        },
        solver: SolverConfig { steps: 8, ..Default::default() },
        head: HeadConfig::First {},
        likelihood: Likelihood::SquaredError,
    }
}

/// A float64 model on one feature with one output.
pub fn model(config: &ModelConfig, device: &Device) -> SdeBnn {
    SdeBnn::new(config, &[1], 1, Stream::root(11), device, DType::F64).expect("a model")
}
