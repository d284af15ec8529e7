//! Predictions: averages over weight paths of probabilities, never of logits or log-probabilities.

use crate::likelihood::{HALF_LOG_TWO_PI, Likelihood};

/// `log (1/n Σ exp xᵢ)`, without overflow.
pub fn log_mean_exp(values: &[f64]) -> f64 {
    let top = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + (values.iter().map(|v| (v - top).exp()).sum::<f64>() / values.len() as f64).ln()
}

/// The predictive law of one example's class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassPrediction {
    /// The probability of each class, averaged over the weight paths.
    pub mean: Vec<f64>,
    /// The standard deviation of each class's probability over the weight paths.
    pub std: Vec<f64>,
    /// The entropy `H[mean]` of the averaged probabilities, in nats.
    pub entropy: f64,
    /// The mutual information `H[mean] − mean H` of class and weights: what more weight paths agree on is not in it.
    pub mutual_information: f64,
}

impl ClassPrediction {
    /// From one row of logits a weight path.
    ///
    /// # Panics
    /// If there is no row.
    pub fn from_logits(logits: &[Vec<f64>]) -> Self {
        let rows: Vec<Vec<f64>> = logits.iter().map(|row| softmax(row)).collect();
        let n = rows.len() as f64;
        let column = |k: usize| rows.iter().map(move |row| row[k]);
        let mean: Vec<f64> = (0..rows[0].len()).map(|k| column(k).sum::<f64>() / n).collect();
        let std = mean.iter().enumerate().map(|(k, m)| (column(k).map(|p| (p - m).powi(2)).sum::<f64>() / n).sqrt());
        let (std, total) = (std.collect(), entropy(&mean));
        let expected = rows.iter().map(|row| entropy(row)).sum::<f64>() / n;
        Self { mean, std, entropy: total, mutual_information: (total - expected).max(0.0) }
    }
}

/// The predictive law of one number: a mixture, over weight paths, of the likelihood around each path's output.
#[derive(Clone, Debug, PartialEq)]
pub struct ValuePrediction {
    /// The mean over the weight paths.
    pub mean: f64,
    /// The standard deviation over the weight paths: what the model does not know.
    pub std: f64,
    /// The standard deviation of a new observation, noise included.
    pub total_std: f64,
}

impl ValuePrediction {
    /// From one output a weight path, and the scale of the likelihood (0 for one without).
    pub fn new(outputs: &[f64], likelihood: &Likelihood, scale: f64) -> Self {
        let n = outputs.len() as f64;
        let mean = outputs.iter().sum::<f64>() / n;
        let variance = outputs.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        let noise = match likelihood {
            Likelihood::Laplace(_) => 2.0 * scale * scale,
            _ => scale * scale,
        };
        Self { mean, std: variance.sqrt(), total_std: (variance + noise).sqrt() }
    }
}

/// `−log (1/S Σ_s p(y | out_s))`, the negative log predictive density of one observed number.
pub fn value_nll(outputs: &[f64], y: f64, likelihood: &Likelihood, scale: f64) -> f64 {
    let densities: Vec<f64> = outputs
        .iter()
        .map(|out| match likelihood {
            Likelihood::Laplace(_) => -(y - out).abs() / scale - (2.0 * scale).ln(),
            _ => -0.5 * ((y - out) / scale).powi(2) - scale.ln() - HALF_LOG_TWO_PI,
        })
        .collect();
    -log_mean_exp(&densities)
}

/// The `q`-quantile of a new observation: of the mixture, over weight paths, of the likelihood around each path's output.
pub fn value_quantile(outputs: &[f64], q: f64, likelihood: &Likelihood, scale: f64) -> f64 {
    let below = |y: f64| {
        let part = |out: &f64| {
            let z = (y - out) / scale;
            match likelihood {
                Likelihood::Laplace(_) if z < 0.0 => 0.5 * z.exp(),
                Likelihood::Laplace(_) => 1.0 - 0.5 * (-z).exp(),
                _ => 0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2),
            }
        };
        outputs.iter().map(part).sum::<f64>() / outputs.len() as f64
    };
    // The quantile lies between those of the outermost paths, and those within 40 scales of their outputs for any q above e^-40.
    let (low, high) = outputs.iter().fold((f64::MAX, f64::MIN), |(low, high), &v| (low.min(v), high.max(v)));
    let (mut low, mut high) = (low - 40.0 * scale, high + 40.0 * scale);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        *if below(middle) < q { &mut low } else { &mut high } = middle;
    }
    0.5 * (low + high)
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logits.iter().map(|v| (v - top).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|w| w / sum).collect()
}

fn entropy(probabilities: &[f64]) -> f64 {
    -probabilities.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::Scale;

    #[test]
    fn two_paths_that_are_sure_of_different_classes_know_nothing_together() {
        let p = ClassPrediction::from_logits(&[vec![1000.0, 0.0], vec![0.0, 1000.0]]);
        assert_eq!(p.mean, [0.5, 0.5]);
        assert_eq!(p.std, [0.5, 0.5]);
        assert!((p.entropy - 2f64.ln()).abs() < 1e-15 && (p.mutual_information - 2f64.ln()).abs() < 1e-15);
    }

    #[test]
    fn paths_that_agree_carry_no_mutual_information() {
        let p = ClassPrediction::from_logits(&[vec![0.0, 3f64.ln()], vec![1.0, 1.0 + 3f64.ln()]]);
        assert!((p.mean[1] - 0.75).abs() < 1e-15 && p.std[1] < 1e-15 && p.mutual_information < 1e-15);
    }

    #[test]
    fn densities_are_averaged_not_their_logarithms() {
        let gaussian = Likelihood::Gaussian(Scale { scale: 1.0, learn: false });
        let nll = value_nll(&[0.0, 2.0], 0.0, &gaussian, 1.0);
        let density = (1.0 + (-2.0f64).exp()) / 2.0 / std::f64::consts::TAU.sqrt();
        assert!((nll + density.ln()).abs() < 1e-15);
        // Far from both, where a density by itself would underflow.
        assert!((value_nll(&[0.0, 0.0], 100.0, &gaussian, 1.0) - 5000.0 - HALF_LOG_TWO_PI).abs() < 1e-9);
        assert!((value_quantile(&[1.0, 1.0], 0.975, &gaussian, 2.0) - 1.0 - 2.0 * 1.959_963_984_540_054).abs() < 1e-12);
        let laplace = Likelihood::Laplace(Scale { scale: 1.0, learn: false });
        assert!((value_quantile(&[0.0], 0.75, &laplace, 1.0) - 2f64.ln()).abs() < 1e-12);
        assert!(value_quantile(&[-1.0, 1.0], 0.5, &laplace, 0.1).abs() < 1e-6);
        let p = ValuePrediction::new(&[0.0, 2.0], &gaussian, 1.0);
        assert_eq!((p.mean, p.std, p.total_std), (1.0, 1.0, 2f64.sqrt()));
    }
}
