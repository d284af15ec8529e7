//! Likelihoods against numbers computed by hand.

mod common;

use common::{assert_close, numbers, tensor};
use sdebnn::burn::tensor::{DType, Device, Int, Tensor, TensorData};
use sdebnn::likelihood::{Likelihood, Scale, Target};
use sdebnn::prediction::{ClassPrediction, log_mean_exp, value_nll};

const TWO: Scale = Scale { scale: 2.0, learn: true };

fn classes(values: &[i64], device: &Device) -> Target {
    let data = TensorData::new(values.to_vec(), [values.len()]);
    Target::Classes(Tensor::<1, Int>::from_data(data, (device, DType::I64)))
}

/// The NLL of one sample of one example with two outputs `(1, 2)` for the target `(0, 4)` at scale 2, and the gradients of outputs and
/// `log scale`.
fn nll(likelihood: Likelihood) -> (f64, Vec<f64>, Option<f64>) {
    let device = Device::flex().autodiff();
    let outputs = tensor(&[1.0, 2.0], [1, 1, 2], &device).require_grad();
    let log_scale = likelihood.scale().map(|s| tensor(&[s.scale.ln()], [1], &device).require_grad());
    let target = Target::Values(tensor(&[0.0, 4.0], [1, 2], &device));
    let nll = likelihood.nll(outputs.clone(), &target, log_scale.clone());
    let grads = nll.backward();
    let of_scale = log_scale.map(|s| numbers(s.grad(&grads).expect("a gradient"))[0]);
    (numbers(nll)[0], numbers(outputs.grad(&grads).expect("a gradient")), of_scale)
}

#[test]
fn gaussian() {
    let (nll, outputs, scale) = nll(Likelihood::Gaussian(TWO));
    // ½ (¼ + 1) + 2 (log 2 + ½ log 2π)
    assert_close(nll, 3.849_171_427_529_236, 1e-14, "NLL");
    assert_close(outputs[0], 0.25, 1e-14, "(out − y)/σ²");
    assert_close(outputs[1], -0.5, 1e-14, "(out − y)/σ²");
    assert_close(scale.expect("a scale"), 2.0 - 1.25, 1e-14, "outputs − Σ z²");
}

#[test]
fn laplace() {
    let (nll, outputs, scale) = nll(Likelihood::Laplace(TWO));
    // (1 + 2)/2 + 2 log 4
    assert_close(nll, 4.272_588_722_239_781, 1e-14, "NLL");
    assert_eq!(outputs, [0.5, -0.5]);
    assert_close(scale.expect("a scale"), 2.0 - 1.5, 1e-14, "outputs − Σ |z|");
}

#[test]
fn squared_error() {
    let (nll, outputs, scale) = nll(Likelihood::SquaredError);
    assert_eq!((nll, outputs, scale), (2.5, vec![1.0, -2.0], None));
}

#[test]
fn categorical() {
    let device = Device::flex().autodiff();
    let nll = |logits: &[f64], shape, targets: &[i64]| {
        let outputs = tensor(logits, shape, &device).require_grad();
        let nll = Likelihood::Categorical.nll(outputs.clone(), &classes(targets, &device), None);
        let gradient = numbers(outputs.grad(&nll.backward()).expect("a gradient"));
        (numbers(nll)[0], gradient)
    };
    // log(1 + e⁻¹ + e⁻²) for class 2, two more for class 0.
    let (first, gradient) = nll(&[1.0, 2.0, 3.0], [1, 1, 3], &[2]);
    assert_close(first, 0.407_605_964_444_380_1, 1e-14, "NLL");
    let softmax = [0.090_030_573_170_380_46, 0.244_728_471_054_797_64, 0.665_240_955_774_821_9 - 1.0];
    gradient.iter().zip(softmax).for_each(|(a, b)| assert_close(*a, b, 1e-14, "softmax − one-hot"));
    assert_close(nll(&[1.0, 2.0, 3.0], [1, 1, 3], &[0]).0, 2.407_605_964_444_38, 1e-14, "NLL");
    // The mean over two samples of two examples: each example keeps its class in every sample.
    let logits = [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0];
    let mean = (3.0 * 0.407_605_964_444_380_1 + 0.0 + 3f64.ln() + 1.0) / 4.0;
    assert_close(nll(&logits, [2, 2, 3], &[2, 1]).0, mean, 1e-14, "mean NLL");
    // Without overflow.
    let (large, gradient) = nll(&[1e4, 0.0], [1, 1, 2], &[1]);
    assert_eq!((large, gradient), (1e4, vec![1.0, -1.0]));
}

#[test]
fn the_mean_runs_over_samples_and_batch_and_the_sum_over_outputs() {
    let device = Device::flex();
    // Residuals 1, 2 | 3, 4 and 5, 6 | 7, 8 for two samples of two examples: Σ r² = 204, Σ |r| = 36.
    let outputs = || tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [2, 2, 2], &device);
    let target = Target::Values(tensor(&[0.0; 4], [2, 2], &device));
    let log_scale = || Some(tensor(&[0.0], [1], &device));
    let nll = |l: Likelihood| numbers(l.nll(outputs(), &target, log_scale()))[0];
    let one = Scale { scale: 1.0, learn: false };
    assert_close(nll(Likelihood::Gaussian(one)), 0.5 * 204.0 / 4.0 + std::f64::consts::TAU.ln(), 1e-14, "Gaussian");
    assert_close(nll(Likelihood::Laplace(one)), 36.0 / 4.0 + 2.0 * 2f64.ln(), 1e-14, "Laplace");
    assert_close(nll(Likelihood::SquaredError), 204.0 / 8.0, 1e-14, "squared error");
}

#[test]
#[should_panic(expected = "do not fit the likelihood")]
fn classes_do_not_fit_a_gaussian() {
    let device = Device::flex();
    let outputs = tensor(&[0.0], [1, 1, 1], &device);
    Likelihood::Gaussian(TWO).nll(outputs, &classes(&[0], &device), Some(tensor(&[0.0], [1], &device)));
}

#[test]
fn predictive_densities_of_one_path_are_the_likelihood() {
    // (y − out)/scale = 1.5: ½ 2.25 + log 2 + ½ log 2π, and 1.5 + log 4.
    assert_close(value_nll(&[1.0], 4.0, &Likelihood::Gaussian(TWO), 2.0), 2.737_085_713_764_618, 1e-14, "Gaussian");
    assert_close(value_nll(&[1.0], 4.0, &Likelihood::Laplace(TWO), 2.0), 2.886_294_361_119_891, 1e-14, "Laplace");
    assert_eq!(log_mean_exp(&[f64::NEG_INFINITY; 2]), f64::NEG_INFINITY);
    assert_close(log_mean_exp(&[1000.0, 1000.0 + 3f64.ln()]), 1000.0 + 2f64.ln(), 1e-14, "log mean exp");
}

#[test]
fn class_probabilities_of_paths_are_averaged() {
    // Probabilities (¼, ¾) and (½, ½): mean (3/8, 5/8), deviation 1/8.
    let p = ClassPrediction::from_logits(&[vec![0.0, 3f64.ln()], vec![7.0, 7.0]]);
    let entropy = |p: f64| -p * p.ln() - (1.0 - p) * (1.0 - p).ln();
    assert_close(p.mean[0], 0.375, 1e-15, "mean");
    assert_close(p.std[1], 0.125, 1e-15, "deviation");
    assert_close(p.entropy, entropy(0.375), 1e-15, "entropy");
    let information = entropy(0.375) - 0.5 * (entropy(0.25) + entropy(0.5));
    assert_close(p.mutual_information, information, 1e-15, "mutual information");
}
