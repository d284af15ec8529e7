//! A configuration that cannot be used is an error that names its key, before anything is solved.

mod common;

use common::tiny;
use sdebnn::ConfigError;
use sdebnn::activation::Activation;
use sdebnn::brownian::BrownianTree;
use sdebnn::burn::tensor::{DType, Device};
use sdebnn::config::{DriftConfig, DynamicsConfig, HeadConfig, ModelConfig, Stochastic};
use sdebnn::controller::{Controller, SolverConfig};
use sdebnn::drift::TimeInput;
use sdebnn::dynamics::Residual;
use sdebnn::likelihood::{Likelihood, Scale};
use sdebnn::model::SdeBnn;
use sdebnn::random::Stream;

fn build(config: &ModelConfig, input: &[usize], outputs: usize) -> Result<SdeBnn, ConfigError> {
    SdeBnn::new(config, input, outputs, Stream::root(0), &Device::flex(), DType::F64)
}

#[track_caller]
fn assert_refused(key: &str, input: &[usize], change: impl Fn(&mut ModelConfig)) -> ConfigError {
    let mut config = tiny();
    change(&mut config);
    let error = build(&config, input, 1).expect_err(key);
    assert_eq!(error.key, key);
    let message = error.to_string();
    assert!(message.contains(key) && message.contains(&error.found) && !error.expected.is_empty(), "{message}");
    error
}

fn nesterov(squash: Activation, xi: f64) -> DynamicsConfig {
    DynamicsConfig::Nesterov { residual: Residual::None, squash, xi, learn_xi: false }
}

fn conv(width: usize, blocks: &[usize]) -> DriftConfig {
    DriftConfig::Conv { width, blocks: blocks.to_vec(), activation: Activation::Swish }
}

#[test]
fn solver_settings_are_refused_by_name() {
    for (key, bad) in [("solver.t0", [-0.1, f64::NAN]), ("solver.t1", [0.0, f64::INFINITY])] {
        for value in bad {
            assert_refused(key, &[1], |c| if key == "solver.t0" { c.solver.t0 = value } else { c.solver.t1 = value });
        }
    }
    for steps in [0, usize::MAX] {
        assert_refused("solver.steps", &[1], |c| c.solver.steps = steps);
    }
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_refused("solver.atol", &[1], |c| c.solver.atol = value);
        assert_refused("solver.dt_min", &[1], |c| c.solver.dt_min = value);
    }
    for value in [-1.0, f64::NAN] {
        assert_refused("solver.rtol", &[1], |c| c.solver.rtol = value);
    }
    for value in [0.0, 1e-6, 1.5, f64::NAN] {
        assert_refused("solver.initial_step", &[1], |c| {
            (c.solver.controller, c.solver.initial_step) = (Controller::StepDoubling, value);
        });
    }
    assert_refused("solver.max_attempts", &[1], |c| c.solver.max_attempts = 0);
}

#[test]
fn a_fixed_grid_does_not_care_for_the_first_step_of_an_adaptive_one() {
    let solver = SolverConfig { t1: 0.01, ..Default::default() };
    assert_eq!(solver.validate(), Ok(()));
}

#[test]
fn a_path_for_any_valid_solver_can_be_built() {
    let solver =
        SolverConfig { controller: Controller::StepDoubling, dt_min: 1e-14, initial_step: 1e-14, ..Default::default() };
    assert_eq!(solver.validate(), Ok(()));
    BrownianTree::new(Stream::root(0), 1, solver.t0, solver.t1, solver.cells());
}

#[test]
fn weight_processes_are_refused_by_name() {
    for sigma in [0.0, -0.1, f64::NAN, f64::INFINITY] {
        assert_refused("weights.sigma", &[1], |c| c.weights.sigma = sigma);
    }
    assert_refused("weights.hidden", &[1], |c| c.weights.hidden = vec![3, 0]);
    let error = assert_refused("weights.stochastic.layers", &[1], |c| {
        c.weights.stochastic = Stochastic::Layers(vec![0, 1]);
    });
    assert!(error.expected.contains("below 1"), "{error}");
}

#[test]
fn dynamics_are_refused_by_name() {
    for squash in [Activation::Softplus, Activation::Relu, Activation::Identity, Activation::Swish] {
        assert_refused("solver.t0", &[1], |c| c.dynamics = nesterov(squash, 1.0));
        let mut late = tiny();
        (late.dynamics, late.solver.t0) = (nesterov(squash, 1.0), 0.1);
        assert!(build(&late, &[1], 1).is_ok(), "{squash:?} is fine from t0 > 0");
    }
    for squash in [Activation::Tanh, Activation::HardTanhHalf] {
        let mut config = tiny();
        config.dynamics = nesterov(squash, 1.0);
        assert!(build(&config, &[1], 1).is_ok(), "{squash:?} has a limit");
    }
    assert_refused("dynamics.xi", &[1], |c| c.dynamics = nesterov(Activation::Tanh, f64::NAN));
    for damping in [-1.0, f64::INFINITY] {
        assert_refused("dynamics.damping", &[1], |c| c.dynamics = DynamicsConfig::HeavyBall { damping });
    }
}

#[test]
fn drift_networks_are_refused_by_name() {
    assert_refused("drift.hidden", &[1], |c| {
        c.drift = DriftConfig::Dense { hidden: vec![0], activation: Activation::Tanh, time: TimeInput::None };
    });
    assert_refused("drift.kind", &[1], |c| c.drift = conv(2, &[1]));
    assert_refused("drift.width", &[1, 4, 4], |c| c.drift = conv(0, &[1]));
    for blocks in [&[][..], &[1, 0]] {
        assert_refused("drift.blocks", &[1, 4, 4], |c| c.drift = conv(2, blocks));
    }
    for (sides, groups) in [([5, 4], 1), ([4, 7], 1), ([6, 8], 2), ([0, 4], 1), ([12, 12], 3)] {
        let error = assert_refused("drift.blocks", &[1, sides[0], sides[1]], |c| c.drift = conv(2, &vec![1; groups]));
        assert!(error.expected.contains(&format!("divisible by {}", 1 << groups)), "{error}");
    }
    let mut config = tiny();
    config.drift = conv(2, &[1, 1]);
    assert!(build(&config, &[1, 4, 8], 1).is_ok());
}

#[test]
fn heads_and_likelihoods_are_refused_by_name() {
    assert_refused("head.hidden", &[1], |c| c.head = HeadConfig::Mlp { hidden: 0 });
    let mut config = tiny();
    assert_eq!(build(&config, &[2], 3).expect_err("three outputs of two features").key, "head.kind");
    config.augment = 1;
    assert!(build(&config, &[2], 3).is_ok());
    for scale in [0.0, -1.0, f64::NAN] {
        let scale = Scale { scale, learn: true };
        assert_refused("likelihood.scale", &[1], |c| c.likelihood = Likelihood::Gaussian(scale));
        assert_refused("likelihood.scale", &[1], |c| c.likelihood = Likelihood::Laplace(scale));
    }
}

#[test]
fn a_configuration_survives_a_file_and_unknown_keys_do_not() {
    let one = Scale { scale: 1.0, learn: true };
    let laws = [Likelihood::Categorical, Likelihood::Gaussian(one), Likelihood::Laplace(one), Likelihood::SquaredError];
    for likelihood in laws {
        let config = ModelConfig { likelihood, ..tiny() };
        let text = serde_json::to_value(&config).expect("a value");
        assert_eq!(serde_json::from_value::<ModelConfig>(text.clone()).expect("a configuration"), config);
        for section in ["", "/dynamics", "/drift", "/weights", "/solver", "/head", "/likelihood"] {
            let mut text = text.clone();
            let table = text.pointer_mut(section).and_then(|v| v.as_object_mut()).expect("a table");
            table.insert("sgima".into(), 1.into());
            let error = serde_json::from_value::<ModelConfig>(text).expect_err(section).to_string();
            assert!(error.contains("sgima"), "{section}: {error}");
        }
    }
}
