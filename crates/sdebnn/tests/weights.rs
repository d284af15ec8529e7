//! The law of the weights: KL divergences in closed form, estimators, partially stochastic networks.

mod common;

use common::{assert_close, assert_mean, diagonal, linear, model, moments, numbers, tensor, tiny};
use sdebnn::activation::Activation;
use sdebnn::brownian::{BrownianPath, DrawnPath};
use sdebnn::burn::module::Param;
use sdebnn::burn::tensor::{DType, Device, Tensor};
use sdebnn::config::{DriftConfig, Estimator, ModelConfig, Stochastic};
use sdebnn::controller::Controller;
use sdebnn::drift::TimeInput;
use sdebnn::likelihood::Target;
use sdebnn::method::Method;
use sdebnn::mlp::{Affine, Mlp};
use sdebnn::model::{Law, SdeBnn};
use sdebnn::random::Stream;
use sdebnn::weights::PosteriorForm;

const W0: [f64; 2] = [0.7, -0.4];

/// The tiny model at `W0` with a given `NN_φ`.
fn with_phi(config: &ModelConfig, phi: Mlp, device: &Device) -> SdeBnn {
    let mut model = model(config, device);
    model.w0 = Param::from_tensor(tensor(&W0, [2], device));
    model.phi = Some(phi);
    model
}

/// A network 2 → 3 → 2 (with time 3 → 3 → 2) that is not zero.
fn bent_phi(time_dependent: bool, device: &Device) -> Mlp {
    let inputs = 2 + usize::from(time_dependent);
    Mlp::init(&[inputs, 3, 2], Stream::root(3), device, DType::F64)
}

fn input(device: &Device) -> Tensor<2> {
    tensor(&[0.9, -0.3], [2, 1], device)
}

/// Weights at `T` and KL of every sample under the posterior.
fn weights_and_kl(model: &SdeBnn, paths: &[DrawnPath]) -> (Vec<f64>, Vec<f64>) {
    let solution = model.forward(input(&Device::flex()), Law::Posterior, paths).expect("a solve").solution;
    (numbers(solution.weights), numbers(solution.kl))
}

#[test]
fn kl_of_a_constant_drift_is_half_its_square_over_the_variance_rate() {
    let device = Device::flex();
    let (b, t1) = ([0.3, -1.1], 1.7);
    for method in Method::ALL {
        for controller in [Controller::Fixed, Controller::StepDoubling] {
            let mut config = tiny();
            (config.solver.method, config.solver.controller, config.solver.t1) = (method, controller, t1);
            (config.solver.atol, config.solver.rtol) = (0.05, 0.05);
            let model = with_phi(&config, linear(&[0.0; 4], &b, &device), &device);
            let (_, kl) = weights_and_kl(&model, &model.brownian(Stream::root(1), 3));
            let exact = 0.5 * (b[0] * b[0] + b[1] * b[1]) * t1 / (0.5 * 0.5);
            kl.iter().for_each(|&kl| assert_close(kl, exact, 1e-13, "KL"));
        }
    }
}

#[test]
fn kl_of_a_linear_drift_has_the_mean_of_its_closed_form() {
    // dw = c w dt + σ dB, c = a − 1: E w² = w0² e^{2ct} + σ² (e^{2ct} − 1)/(2c), KL = ½ a²/σ² ∫ Σ E w² dt.
    let device = Device::flex();
    let (a, sigma) = (1.6f64, 0.5f64);
    let mut config = tiny();
    config.solver.steps = 64;
    let model = with_phi(&config, linear(&diagonal(a, 2), &[0.0; 2], &device), &device);
    let (w, kl) = weights_and_kl(&model, &model.brownian(Stream::root(2), 4000));
    let c = a - 1.0;
    let growth = ((2.0 * c).exp() - 1.0) / (2.0 * c);
    let squares = (W0[0] * W0[0] + W0[1] * W0[1]) * growth + 2.0 * sigma * sigma * (growth - 1.0) / (2.0 * c);
    assert_mean(&kl, 0.5 * a * a / (sigma * sigma) * squares, 4.0, "KL");
    let first: Vec<f64> = w.iter().step_by(2).copied().collect();
    assert_mean(&first, W0[0] * c.exp(), 4.0, "mean of w(T)");
    let squares: Vec<f64> = first.iter().map(|w| (w - W0[0] * c.exp()).powi(2)).collect();
    assert_mean(&squares, sigma * sigma * growth, 4.0, "variance of w(T)");
}

#[test]
fn the_literal_posterior_with_twice_the_prior_drift_is_the_prior() {
    let device = Device::flex();
    for method in Method::ALL {
        let mut config = tiny();
        config.weights.posterior = PosteriorForm::Literal;
        config.solver.method = method;
        let model = with_phi(&config, linear(&diagonal(-2.0, 2), &[0.0; 2], &device), &device);
        let paths = model.brownian(Stream::root(3), 4);
        let (w, kl) = weights_and_kl(&model, &paths);
        let prior = model.forward(input(&device), Law::Prior, &paths).expect("a solve").solution;
        assert_eq!(kl, [0.0; 4]);
        w.iter().zip(numbers(prior.weights)).for_each(|(w, p)| assert_close(*w, p, 1e-14, "w(T)"));
    }
}

#[test]
fn the_literal_posterior_with_no_network_grows_and_pays_for_it() {
    // f_q = −f_p = w and u = 2w/σ: without noise w = w0 e^t, KL = 2‖w0‖²/σ² (e^{2T} − 1)/2.
    let device = Device::flex();
    let mut config = tiny();
    (config.weights.posterior, config.weights.sigma, config.solver.steps) = (PosteriorForm::Literal, 1e-9, 2000);
    let model = with_phi(&config, linear(&[0.0; 4], &[0.0; 2], &device), &device);
    let (w, kl) = weights_and_kl(&model, &model.brownian(Stream::root(4), 1));
    assert_close(w[0], W0[0] * 1f64.exp(), 1e-6, "w(T)");
    let exact = (W0[0] * W0[0] + W0[1] * W0[1]) * (2f64.exp() - 1.0);
    assert_close(kl[0] * 1e-18, exact, 1e-6, "KL");
}

#[test]
fn the_network_sees_the_time_as_its_first_input() {
    // NN_φ(w, t) = (t, 0): KL = ½ ∫ t² dt/σ² = T³/(6σ²), exact for Heun up to the trapezoidal rule T Δt²/12 and midpoint T Δt²/24.
    let device = Device::flex();
    let mut config = tiny();
    (config.weights.time_dependent, config.solver.steps) = (true, 10);
    for (method, defect) in [(Method::Midpoint, -1.0 / 24.0), (Method::Heun, 1.0 / 12.0)] {
        config.solver.method = method;
        let phi = linear(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0], &[0.0; 2], &device);
        let model = with_phi(&config, phi, &device);
        let (_, kl) = weights_and_kl(&model, &model.brownian(Stream::root(4), 1));
        // The rule's defect for ½t² is −Δt²/24 or +Δt²/12 times its second derivative 1.
        assert_close(kl[0], (1.0 / 6.0 + 0.01 * defect) / 0.25, 1e-13, "KL");
    }
}

/// The loss's KL term and the gradients of its parameters.
fn kl_gradients(model: &SdeBnn, samples: usize, seed: u64, device: &Device) -> (f64, Vec<f64>) {
    let paths = model.brownian(Stream::root(seed), samples);
    let target = Target::Values(tensor(&[0.0, 0.0], [2, 1], device));
    let kl = model.loss(input(device), &target, 1.0, &paths).expect("a solve").kl;
    let grads = kl.backward();
    let phi = model.phi.as_ref().expect("NN_φ");
    let mut found = numbers(model.w0.val().grad(&grads).expect("w0"));
    for layer in &phi.layers {
        found.extend(numbers(layer.weight.val().grad(&grads).expect("weight")));
        found.extend(numbers(layer.bias.val().grad(&grads).expect("bias")));
    }
    (numbers(kl)[0], found)
}

#[test]
fn sticking_the_landing_has_no_variance_where_posterior_and_prior_agree() {
    let device = Device::flex().autodiff();
    for method in Method::ALL {
        for form in [PosteriorForm::Residual, PosteriorForm::Literal] {
            let mut config = tiny();
            (config.weights.estimator, config.weights.posterior) = (Estimator::StickingTheLanding, form);
            config.solver.method = method;
            let phi = match form {
                PosteriorForm::Residual => bent_phi(false, &device).zero_last(),
                PosteriorForm::Literal => linear(&diagonal(-2.0, 2), &[0.0; 2], &device),
            };
            let model = with_phi(&config, phi, &device);
            for seed in 0..5 {
                let (kl, gradients) = kl_gradients(&model, 2, seed, &device);
                assert_eq!(kl, 0.0);
                assert!(gradients.iter().all(|&g| g == 0.0), "{form:?} by {method:?}, seed {seed}: {gradients:?}");
            }
        }
    }
}

#[test]
fn sticking_the_landing_has_the_expectation_of_the_plain_estimator() {
    let device = Device::flex();
    for (form, time_dependent) in [(PosteriorForm::Residual, true), (PosteriorForm::Literal, false)] {
        let mut config = tiny();
        config.weights.estimator = Estimator::StickingTheLanding;
        (config.weights.posterior, config.weights.time_dependent) = (form, time_dependent);
        let model = with_phi(&config, bent_phi(time_dependent, &device), &device);
        let paths = model.brownian(Stream::root(7), 4000);
        let solution = model.forward(input(&device), Law::Posterior, &paths).expect("a solve").solution;
        let martingale = numbers(solution.martingale.expect("a martingale"));
        assert_mean(&martingale, 0.0, 4.0, "∫ u·dB");
        // Itô's isometry: E (∫ u·dB)² = E ∫ ‖u‖² dt = 2 KL; the left end of steps of 1/8 and the midpoint differ by some per cent.
        let kl = moments(&numbers(solution.kl)).0;
        assert!((moments(&martingale).1 / (2.0 * kl) - 1.0).abs() < 0.2, "{} {kl}", moments(&martingale).1);
    }
}

#[test]
fn gradients_of_both_estimators_have_the_same_expectation() {
    let device = Device::flex().autodiff();
    let gradients = |estimator, seed| {
        let mut config = tiny();
        (config.weights.estimator, config.solver.steps) = (estimator, 6);
        kl_gradients(&with_phi(&config, bent_phi(false, &device), &device), 32, seed, &device).1
    };
    let differences: Vec<Vec<f64>> = (0..60)
        .map(|seed| {
            let plain = gradients(Estimator::Plain, seed);
            let landing = gradients(Estimator::StickingTheLanding, seed);
            plain.iter().zip(landing).map(|(a, b)| a - b).collect()
        })
        .collect();
    for k in 0..differences[0].len() {
        let column: Vec<f64> = differences.iter().map(|d| d[k]).collect();
        assert!(moments(&column).1 > 0.0, "gradient {k} does not see the martingale");
        assert_mean(&column, 0.0, 4.5, &format!("difference of gradient {k}"));
    }
}

#[test]
fn samples_solved_together_are_the_samples_solved_alone() {
    let device = Device::flex();
    let mut config = tiny();
    config.weights.time_dependent = true;
    config.drift = DriftConfig::Dense { hidden: vec![3], activation: Activation::Swish, time: TimeInput::Squash };
    let mut model = model(&config, &device);
    let weights = model.w0.val().dims()[0];
    model.phi = Some(Mlp::init(&[weights + 1, 4, weights], Stream::root(3), &device, DType::F64));
    let paths = model.brownian(Stream::root(8), 5);
    let together = model.forward(input(&device), Law::Posterior, &paths).expect("a solve");
    let (outputs, w) = (numbers(together.outputs), numbers(together.solution.weights));
    let kl = numbers(together.solution.kl);
    for (s, path) in paths.iter().enumerate() {
        let alone = model.forward(input(&device), Law::Posterior, std::slice::from_ref(path)).expect("a solve");
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).for_each(|(a, b)| assert_close(*a, *b, 1e-12, "sample"));
        close(&outputs[2 * s..2 * s + 2], &numbers(alone.outputs));
        close(&w[weights * s..weights * (s + 1)], &numbers(alone.solution.weights));
        close(&kl[s..s + 1], &numbers(alone.solution.kl));
    }
    assert!(kl.windows(2).all(|k| k[0] != k[1]), "the samples differ: {kl:?}");
}

fn two_layers(stochastic: Stochastic) -> ModelConfig {
    let mut config = tiny();
    config.drift = DriftConfig::Dense { hidden: vec![3], activation: Activation::Tanh, time: TimeInput::None };
    (config.weights.stochastic, config.weights.hidden) = (stochastic, vec![2]);
    config
}

#[test]
fn in_a_partially_stochastic_network_only_the_chosen_layers_move_and_all_learn() {
    let device = Device::flex().autodiff();
    // 1 → 3 → 1: layer 0 has 3 + 3 weights, layer 1 has 3 + 1.
    for (layer, moves) in [(0, 0..6), (1, 6..10)] {
        let mut model = model(&two_layers(Stochastic::Layers(vec![layer])), &device);
        let phi = Mlp::init(&[moves.len(), 2, moves.len()], Stream::root(5), &device, DType::F64);
        model.phi = Some(phi.clone());
        let paths = model.brownian(Stream::root(9), 1);
        assert_eq!(paths[0].dim(), moves.len());
        let w0 = numbers(model.w0.val());
        let forward = model.forward(input(&device), Law::Posterior, &paths).expect("a solve");
        let w1 = numbers(forward.solution.weights);
        for i in 0..10 {
            assert_eq!(w1[i].to_bits() != w0[i].to_bits(), moves.contains(&i), "weight {i} with layer {layer}");
        }
        let grads = forward.outputs.sum().backward();
        let of_w0 = numbers(model.w0.val().grad(&grads).expect("w0"));
        assert!(of_w0.iter().all(|&g| g != 0.0 && g.is_finite()), "{of_w0:?}");
        for Affine { weight, .. } in &phi.layers {
            assert!(numbers(weight.val().grad(&grads).expect("NN_φ")).iter().all(|&g| g != 0.0));
        }
    }
}

#[test]
fn moving_layers_that_do_not_touch_keep_their_places() {
    // 1 → 2 → 2 → 1: layers of 4, 6 and 3 weights, of which the first and the last move.
    let device = Device::flex();
    let mut config = two_layers(Stochastic::Layers(vec![0, 2]));
    config.drift = DriftConfig::Dense { hidden: vec![2, 2], activation: Activation::Tanh, time: TimeInput::None };
    config.solver.method = Method::Euler;
    let model = model(&config, &device);
    let paths = model.brownian(Stream::root(13), 1);
    assert_eq!(paths[0].dim(), 7);
    let found = numbers(model.forward(input(&device), Law::Prior, &paths).expect("a solve").solution.weights);
    let (mut w, mut db) = (numbers(model.w0.val()), [0.0; 7]);
    for i in 0..8 {
        paths[0].increment(f64::from(i) / 8.0, f64::from(i + 1) / 8.0, &mut db);
        (0..4).chain(10..13).zip(db).for_each(|(k, db)| w[k] += -w[k] / 8.0 + 0.5 * db);
    }
    found.iter().zip(w).for_each(|(a, b)| assert_close(*a, b, 1e-14, "w(T)"));
}

#[test]
fn all_layers_listed_is_all_weights_and_no_layer_listed_is_none() {
    let device = Device::flex();
    let run = |stochastic| {
        let model = model(&two_layers(stochastic), &device);
        let paths = model.brownian(Stream::root(9), 2);
        numbers(model.forward(input(&device), Law::Posterior, &paths).expect("a solve").outputs)
    };
    assert_eq!(run(Stochastic::Layers(vec![1, 0])), run(Stochastic::All));
    assert_eq!(run(Stochastic::Layers(vec![])), run(Stochastic::None));
    assert_ne!(run(Stochastic::None), run(Stochastic::All));
}

#[test]
fn weights_that_do_not_move_stay_and_cost_nothing() {
    let device = Device::flex();
    for estimator in [Estimator::Plain, Estimator::StickingTheLanding] {
        let mut config = two_layers(Stochastic::None);
        config.weights.estimator = estimator;
        let model = model(&config, &device);
        assert!(model.phi.is_none());
        let paths = model.brownian(Stream::root(9), 2);
        let target = Target::Values(tensor(&[0.0, 0.0], [2, 1], &device));
        let loss = model.loss(input(&device), &target, 5.0, &paths).expect("a solve");
        assert_eq!((numbers(loss.kl)[0], numbers(loss.total)), (0.0, numbers(loss.nll)));
        let solution = model.forward(input(&device), Law::Posterior, &paths).expect("a solve").solution;
        assert_eq!(numbers(solution.weights), numbers(model.w0.val()).repeat(2));
    }
}

#[test]
fn a_fresh_model_is_its_prior() {
    let device = Device::flex();
    let mut config = two_layers(Stochastic::All);
    config.weights.time_dependent = true;
    let model = model(&config, &device);
    let paths = model.brownian(Stream::root(10), 3);
    let posterior = model.forward(input(&device), Law::Posterior, &paths).expect("a solve");
    let prior = model.forward(input(&device), Law::Prior, &paths).expect("a solve");
    assert_eq!(numbers(posterior.solution.kl), [0.0; 3]);
    assert_eq!(numbers(posterior.outputs), numbers(prior.outputs));
    assert_eq!(numbers(posterior.solution.weights), numbers(prior.solution.weights));
}

#[test]
fn the_prior_forgets_the_network_and_follows_euler_maruyama_by_hand() {
    let device = Device::flex();
    let mut config = tiny();
    config.solver.method = Method::Euler;
    let model = with_phi(&config, linear(&[5.0, -3.0, 2.0, 1.0], &[4.0, -9.0], &device), &device);
    let paths = model.brownian(Stream::root(12), 1);
    let forward = model.forward(tensor(&[0.9], [1, 1], &device), Law::Prior, &paths).expect("a solve");
    let (mut w, mut h, mut db) = (W0, 0.9, [0.0; 2]);
    for i in 0..8 {
        paths[0].increment(f64::from(i) / 8.0, f64::from(i + 1) / 8.0, &mut db);
        h += (w[0] * h + w[1]) / 8.0;
        w = [0, 1].map(|k| w[k] - w[k] / 8.0 + 0.5 * db[k]);
    }
    numbers(forward.solution.weights).iter().zip(w).for_each(|(a, b)| assert_close(*a, b, 1e-14, "w(T)"));
    assert_close(numbers(forward.outputs)[0], h, 1e-14, "h(T)");
    assert_eq!(numbers(forward.solution.kl), [0.0]);
}
