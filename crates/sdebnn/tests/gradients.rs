//! Gradients of the whole loss against central differences of its value, in float64, for every parameter of tiny models.

mod common;

use common::{assert_close, linear, model, numbers, tensor, tiny, uniforms};
use sdebnn::activation::Activation;
use sdebnn::brownian::BrownianPath;
use sdebnn::burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use sdebnn::burn::tensor::{DType, Device, Gradients, Int, Tensor, TensorData};
use sdebnn::config::{DriftConfig, DynamicsConfig, Estimator, HeadConfig, ModelConfig, Stochastic};
use sdebnn::drift::TimeInput;
use sdebnn::dynamics::Residual;
use sdebnn::likelihood::{Likelihood, Scale, Target};
use sdebnn::method::Method;
use sdebnn::model::SdeBnn;
use sdebnn::random::Stream;
use sdebnn::weights::PosteriorForm;

/// Adds `by` to parameter number `index`.
struct Nudge {
    index: usize,
    by: f64,
    seen: usize,
}

impl ModuleMapper for Nudge {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (shape, mut values) = (param.val().dims(), numbers(param.val()));
        let place = self.index.checked_sub(self.seen).filter(|i| *i < values.len());
        self.seen += values.len();
        let Some(place) = place else { return param };
        values[place] += self.by;
        Param::from_tensor(tensor(&values, shape, &param.val().device()))
    }
}

/// Adds a random number to every parameter, so that none is zero.
struct Scatter {
    seed: u64,
}

impl ModuleMapper for Scatter {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (shape, values) = (param.val().dims(), numbers(param.val()));
        self.seed += 1;
        let noise = uniforms(self.seed, values.len());
        let values: Vec<f64> = values.iter().zip(noise).map(|(v, u)| v + 0.8 * (u - 0.5)).collect();
        let learned = param.is_require_grad() || !param.val().device().is_autodiff();
        Param::from_tensor(tensor(&values, shape, &param.val().device())).set_require_grad(learned)
    }
}

/// The gradient of every parameter in order; `None` where there is none.
struct Collect<'a> {
    grads: &'a Gradients,
    found: Vec<Option<f64>>,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        match param.val().grad(self.grads) {
            Some(gradient) => self.found.extend(numbers(gradient).into_iter().map(Some)),
            None => self.found.extend(vec![None; param.val().shape().num_elements()]),
        }
    }
}

/// One feature, one augmented, 2 → 3 → 2 drift with time, `NN_φ` with a hidden layer and time, a linear head.
fn small() -> ModelConfig {
    let mut config = tiny();
    config.augment = 1;
    config.drift = DriftConfig::Dense { hidden: vec![3], activation: Activation::Swish, time: TimeInput::Concat };
    (config.weights.hidden, config.weights.time_dependent) = (vec![2], true);
    config.solver.steps = 5;
    config.head = HeadConfig::Linear {};
    config
}

fn nesterov(residual: Residual) -> DynamicsConfig {
    DynamicsConfig::Nesterov { residual, squash: Activation::Tanh, xi: 0.7, learn_xi: true }
}

/// The model, scattered, and its loss on three examples with two weight samples.
fn scattered(config: &ModelConfig, device: &Device) -> SdeBnn {
    let outputs = if config.likelihood == Likelihood::Categorical { 3 } else { 2 };
    let model = SdeBnn::new(config, &[1], outputs, Stream::root(1), device, DType::F64).expect("a model");
    model.map(&mut Scatter { seed: 100 })
}

fn loss(model: &SdeBnn, device: &Device) -> Tensor<1> {
    let x = tensor(&[0.9, -0.3, 0.2], [3, 1], device);
    let target = if model.config().likelihood == Likelihood::Categorical {
        let data = TensorData::new(vec![2i64, 0, 1], [3]);
        Target::Classes(Tensor::<1, Int>::from_data(data, (device, DType::I64)))
    } else {
        Target::Values(tensor(&[0.2, -1.0, 0.8, 0.1, -0.5, 1.3], [3, 2], device))
    };
    let paths = model.brownian(Stream::root(2), 2);
    model.loss(x, &target, 0.3, &paths).expect("a solve").total
}

/// Compares the gradients of all parameters but those in `skip`; returns how many had one.
#[track_caller]
fn assert_gradients(config: &ModelConfig, skip: std::ops::Range<usize>) -> usize {
    const EPS: f64 = 1e-5;
    let device = Device::flex().autodiff();
    let tracked = scattered(config, &device);
    let grads = loss(&tracked, &device).backward();
    let mut collect = Collect { grads: &grads, found: Vec::new() };
    tracked.visit(&mut collect);
    let plain = scattered(config, &Device::flex());
    let value = |index, by| {
        let nudged = plain.clone().map(&mut Nudge { index, by, seen: 0 });
        numbers(loss(&nudged, &Device::flex()))[0]
    };
    let mut count = 0;
    for (i, gradient) in collect.found.iter().enumerate().filter(|(i, _)| !skip.contains(i)) {
        let Some(gradient) = gradient else { continue };
        let by_differences = (value(i, EPS) - value(i, -EPS)) / (2.0 * EPS);
        assert_close(*gradient, by_differences, 1e-8, &format!("parameter {i} of {config:?}"));
        count += usize::from(by_differences != 0.0);
    }
    count
}

// P = 3 × 3 + 3 + 2 × 4 + 2 = 22; NN_φ has 2 × 23 + 2 + 22 × 2 + 22 = 114; the head 2 × 2 + 2 = 6.
const WEIGHTS: usize = 22;
const PHI: usize = 114;
const HEAD: usize = 6;

#[test]
fn first_order_and_heavy_ball_by_every_method() {
    for method in Method::ALL {
        for dynamics in [DynamicsConfig::FirstOrder {}, DynamicsConfig::HeavyBall { damping: 0.7 }] {
            let mut config = small();
            (config.solver.method, config.dynamics) = (method, dynamics);
            assert!(assert_gradients(&config, 0..0) >= WEIGHTS + PHI, "every weight and all of NN_φ matter");
        }
    }
}

#[test]
fn nesterov_with_every_residual_and_learned_xi() {
    for (residual, uses_xi) in [(Residual::Skip, 1), (Residual::Direct, 1), (Residual::None, 0)] {
        let mut config = small();
        config.dynamics = nesterov(residual);
        assert_eq!(assert_gradients(&config, 0..0), WEIGHTS + PHI + HEAD + uses_xi, "{residual:?}");
    }
}

#[test]
fn learned_scales_of_gaussian_and_laplace() {
    for learn in [true, false] {
        let scale = Scale { scale: 0.6, learn };
        for likelihood in [Likelihood::Gaussian(scale), Likelihood::Laplace(scale)] {
            let mut config = small();
            config.likelihood = likelihood;
            assert_eq!(assert_gradients(&config, 0..0), WEIGHTS + PHI + HEAD + usize::from(learn), "{likelihood:?}");
        }
    }
}

#[test]
fn categorical_likelihood_with_a_hidden_head() {
    let mut config = small();
    (config.likelihood, config.head) = (Likelihood::Categorical, HeadConfig::Mlp { hidden: 4 });
    assert!(assert_gradients(&config, 0..0) > WEIGHTS + PHI);
}

#[test]
fn literal_posterior() {
    let mut config = small();
    config.weights.posterior = PosteriorForm::Literal;
    assert_eq!(assert_gradients(&config, 0..0), WEIGHTS + PHI + HEAD);
}

#[test]
fn partially_stochastic_and_squashed_time() {
    let mut config = small();
    config.drift = DriftConfig::Dense { hidden: vec![2], activation: Activation::Mish, time: TimeInput::Squash };
    for stochastic in [Stochastic::Layers(vec![0]), Stochastic::Layers(vec![1]), Stochastic::None] {
        config.weights.stochastic = stochastic;
        // Both layers are 2 → 2 with a weight, a bias and a, c, d.
        assert!(assert_gradients(&config, 0..0) >= 2 * (4 + 4 * 2));
    }
}

#[test]
fn sticking_the_landing_for_all_that_is_not_detached() {
    let mut config = small();
    config.weights.estimator = Estimator::StickingTheLanding;
    let skip = WEIGHTS..WEIGHTS + PHI;
    assert_eq!(assert_gradients(&config, skip), WEIGHTS + HEAD);
}

#[test]
fn sticking_the_landing_detaches_the_network_in_the_martingale_alone() {
    // h' = w₀ h + w₁, NN_φ(w) = A w + c by Euler–Maruyama by hand, with a frozen copy of φ in ∫ u·dB.
    const SIGMA: f64 = 0.5;
    let (w0, h0, y, kl_coef) = ([0.7, -0.4], 0.9, 0.3, 0.2);
    let phi = [0.3, -0.8, 0.5, 0.2, -0.1, 0.6];
    let mut config = tiny();
    (config.weights.estimator, config.solver.method) = (Estimator::StickingTheLanding, Method::Euler);
    let device = Device::flex().autodiff();
    let mut model = model(&config, &device);
    model.w0 = Param::from_tensor(tensor(&w0, [2], &device));
    model.phi = Some(linear(&phi[..4], &phi[4..], &device));
    let paths = model.brownian(Stream::root(3), 1);
    let target = Target::Values(tensor(&[y], [1, 1], &device));
    let total = model.loss(tensor(&[h0], [1, 1], &device), &target, kl_coef, &paths).expect("a solve").total;

    let by_hand = |moving: [f64; 6]| {
        let network = |p: &[f64; 6], w: [f64; 2]| [0, 1].map(|k| p[2 * k] * w[0] + p[2 * k + 1] * w[1] + p[4 + k]);
        let (mut w, mut h, mut kl, mut db) = (w0, h0, 0.0, [0.0; 2]);
        for i in 0..8 {
            paths[0].increment(f64::from(i) / 8.0, f64::from(i + 1) / 8.0, &mut db);
            let (nn, frozen) = (network(&moving, w), network(&phi, w));
            kl += 0.5 * (nn[0] * nn[0] + nn[1] * nn[1]) / (SIGMA * SIGMA) / 8.0;
            kl += (frozen[0] * db[0] + frozen[1] * db[1]) / SIGMA;
            h += (w[0] * h + w[1]) / 8.0;
            w = [0, 1].map(|k| w[k] + (nn[k] - w[k]) / 8.0 + SIGMA * db[k]);
        }
        (h - y).powi(2) + kl_coef * kl
    };
    assert_close(numbers(total.clone())[0], by_hand(phi), 1e-13, "loss");
    let grads = total.backward();
    let layer = &model.phi.as_ref().expect("NN_φ").layers[0];
    let mut found = numbers(layer.weight.val().grad(&grads).expect("A"));
    found.extend(numbers(layer.bias.val().grad(&grads).expect("c")));
    for k in 0..6 {
        let nudged = |by: f64| {
            let mut moving = phi;
            moving[k] += by;
            by_hand(moving)
        };
        assert_close(found[k], (nudged(1e-5) - nudged(-1e-5)) / 2e-5, 1e-8, &format!("φ {k}"));
    }
}

/// Runs this test in other processes, since the number of threads is decided once a process.
#[test]
fn loss_and_gradients_have_the_same_bits_on_any_number_of_threads() {
    const NAME: &str = "loss_and_gradients_have_the_same_bits_on_any_number_of_threads";
    if std::env::var_os("SDEBNN_TEST_CHILD").is_some() {
        println!("fingerprint {:016x}", fingerprint_of_an_image_model());
        return;
    }
    let fingerprint = |threads: &str| {
        let output = std::process::Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", NAME, "--nocapture"])
            .envs([("SDEBNN_TEST_CHILD", "1"), ("RAYON_NUM_THREADS", threads)])
            .output()
            .expect("a process");
        let text = String::from_utf8(output.stdout).expect("text");
        let at = text.find("fingerprint ").unwrap_or_else(|| panic!("{text}"));
        text[at..at + 28].to_owned()
    };
    let one = fingerprint("1");
    assert_eq!((&fingerprint("2"), &fingerprint("4")), (&one, &one));
}

/// FNV-1a of the bits of loss and gradients, in single precision and at a size where threads are used.
fn fingerprint_of_an_image_model() -> u64 {
    let device = Device::flex().autodiff();
    let mut config = small();
    config.drift = DriftConfig::Conv { width: 16, blocks: vec![1], activation: Activation::Swish };
    (config.dynamics, config.head) = (nesterov(Residual::Skip), HeadConfig::Mlp { hidden: 256 });
    (config.likelihood, config.solver.steps) = (Likelihood::Categorical, 2);
    let model = SdeBnn::new(&config, &[1, 16, 16], 10, Stream::root(1), &device, DType::F32).expect("a model");
    let pixels: Vec<f32> = uniforms(5, 32 * 256).iter().map(|&u| u as f32).collect();
    let x = Tensor::from_data(TensorData::new(pixels, [32, 256]), (&device, DType::F32));
    let classes: Vec<i64> = (0..32).map(|i| i % 10).collect();
    let target = Target::Classes(Tensor::from_data(TensorData::new(classes, [32]), (&device, DType::I64)));
    let paths = model.brownian(Stream::root(2), 2);
    let total = model.loss(x, &target, 0.1, &paths).expect("a solve").total;
    let grads = total.backward();
    let mut collect = Collect { grads: &grads, found: Vec::new() };
    model.visit(&mut collect);
    assert!(collect.found.iter().flatten().filter(|g| **g != 0.0).count() > 100_000);
    let bits = numbers(total).into_iter().map(Some).chain(collect.found).map(|g| g.map_or(0, f64::to_bits));
    bits.fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ b).wrapping_mul(0x0100_0000_01b3))
}
