//! The recurrent model: gradients against central differences in float64, gradients of the hidden state, forecasts.

mod common;

use common::{assert_close, numbers, tensor, tiny, uniforms};
use sdebnn::activation::Activation;
use sdebnn::burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use sdebnn::burn::tensor::{DType, Device, Gradients, Tensor};
use sdebnn::config::{DriftConfig, DynamicsConfig, Estimator, ModelConfig};
use sdebnn::controller::Controller;
use sdebnn::drift::TimeInput;
use sdebnn::engine::Engine;
use sdebnn::mlp::Mlp;
use sdebnn::model::{Law, SdeBnn};
use sdebnn::random::Stream;
use sdebnn::sequence::{Cell, Frames, OdeRnn};

const BATCH: usize = 2;
const FEATURES: usize = 2;
const HIDDEN: usize = 3;

fn config(dynamics: DynamicsConfig, controller: Controller) -> ModelConfig {
    let mut config = tiny();
    config.dynamics = dynamics;
    config.drift = DriftConfig::Dense { hidden: vec![1], activation: Activation::Tanh, time: TimeInput::None };
    config.weights.hidden = vec![1];
    config.solver.controller = controller;
    config.solver.steps = 3;
    // So loose that every step is accepted and the next one is longer by the same factor, whatever the state: a nudge of a parameter
    // does not change the steps, which are constants for gradients.
    (config.solver.atol, config.solver.rtol, config.solver.initial_step) = (10.0, 0.0, 0.2);
    config
}

/// Three frames a sequence, gaps that differ, and what comes after each gap.
fn sequences(features: usize, device: &Device) -> (Frames, Tensor<3>) {
    let rows = |seed| tensor(&uniforms(seed, BATCH * features), [BATCH, features], device);
    let frames = Frames {
        inputs: (0..3).map(rows).collect(),
        gaps: [[0.3, 0.8], [0.5, 0.1], [0.4, 0.4]].map(|gap| tensor(&gap, [BATCH], device)).to_vec(),
    };
    (frames, Tensor::stack((10..13).map(rows).collect(), 0))
}

/// Adds a random number to every parameter, so that none is zero, and `by` to number `index`.
struct Move {
    index: usize,
    by: f64,
    seen: usize,
}

impl ModuleMapper for Move {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (shape, mut values) = (param.val().dims(), numbers(param.val()));
        let noise = uniforms(1000 + self.seen as u64, values.len());
        for (i, (value, u)) in values.iter_mut().zip(noise).enumerate() {
            *value += 0.8 * (u - 0.5) + if self.seen + i == self.index { self.by } else { 0.0 };
        }
        self.seen += values.len();
        Param::from_tensor(tensor(&values, shape, &param.val().device()))
    }
}

/// The gradient of every parameter in order; zero where the loss does not depend on it.
struct Collect<'a> {
    gradients: &'a Gradients,
    found: Vec<f64>,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let none = || vec![0.0; param.val().shape().num_elements()];
        self.found.extend(param.val().grad(self.gradients).map_or_else(none, numbers));
    }
}

#[test]
fn gradients_of_every_parameter_are_those_of_the_discrete_solve() {
    for (case, mut config) in [
        config(DynamicsConfig::FirstOrder {}, Controller::Fixed),
        config(DynamicsConfig::nesterov(), Controller::Fixed),
        config(DynamicsConfig::FirstOrder {}, Controller::StepDoubling),
        config(DynamicsConfig::nesterov(), Controller::StepDoubling),
    ]
    .into_iter()
    .enumerate()
    {
        config.solver.engine = Engine::Reference;
        let loss = |index, by, device: &Device| {
            let model = OdeRnn::new(&config, FEATURES, HIDDEN, Stream::root(1), device, DType::F64).expect("a model");
            let moved = model.map(&mut Move { index, by, seen: 0 });
            let path = &moved.block.brownian(Stream::root(2), 1)[0];
            let (frames, targets) = sequences(FEATURES, device);
            (moved.loss(&frames, targets, 0.3, path).expect("a solve"), moved)
        };
        let (found, moved) = loss(usize::MAX, 0.0, &Device::flex().autodiff());
        assert_eq!(found.solves, 3, "case {case}");
        let gradients = found.total.backward();
        let mut collect = Collect { gradients: &gradients, found: Vec::new() };
        moved.visit(&mut collect);
        for (index, gradient) in collect.found.into_iter().enumerate() {
            let [up, down] = [1e-5, -1e-5].map(|by| loss(index, by, &Device::flex()).0.total.into_scalar::<f64>());
            assert_close(gradient, (up - down) / 2e-5, 1e-7, &format!("case {case}, parameter {index}"));
        }
    }
}

/// A cell that adds the frame to the state: the derivative by a state is that by its frame.
#[derive(Module, Debug)]
struct Sum {
    factor: Param<Tensor<1>>,
}

impl Cell for Sum {
    fn update(&self, state: Tensor<2>, frame: Tensor<2>) -> Tensor<2> {
        state + frame * self.factor.val().unsqueeze()
    }
}

#[test]
fn norms_of_the_backpropagated_state_are_those_of_finite_differences() {
    for controller in [Controller::Fixed, Controller::StepDoubling] {
        let config = config(DynamicsConfig::FirstOrder {}, controller);
        let device = Device::flex().autodiff();
        let block = SdeBnn::new(&config, &[HIDDEN], HIDDEN, Stream::root(3), &device, DType::F64).expect("a block");
        let cell = Sum { factor: Param::from_tensor(tensor(&[1.0], [1], &device)) };
        let readout = Mlp::init(&[HIDDEN, HIDDEN], Stream::root(4), &device, DType::F64);
        let model = OdeRnn::with_parts(cell, block, readout);
        let path = &model.block.brownian(Stream::root(5), 1)[0];
        let (frames, targets) = sequences(HIDDEN, &device);
        let found = model.gradient_norms(&frames, targets.clone(), path).expect("a solve");

        let losses = |frame: usize, nudge: &[f64]| -> Vec<f64> {
            let mut frames = frames.clone();
            frames.inputs[frame] = frames.inputs[frame].clone() + tensor(nudge, [BATCH, HIDDEN], &device);
            let predictions = model.forward(&frames, Law::Posterior, path).expect("a solve").predictions;
            let errors = (predictions - targets.clone()).narrow(0, 2, 1).square();
            numbers(errors).chunks(HIDDEN).map(|errors| errors.iter().sum::<f64>() / HIDDEN as f64).collect()
        };
        for (frame, found) in found.into_iter().enumerate() {
            let mut squares = [0.0; BATCH];
            for feature in 0..HIDDEN {
                let nudge = |by: f64| (0..BATCH * HIDDEN).map(move |i| if i % HIDDEN == feature { by } else { 0.0 });
                let [up, down] = [1e-5, -1e-5].map(|by| losses(frame, &nudge(by).collect::<Vec<_>>()));
                for (square, (up, down)) in squares.iter_mut().zip(up.iter().zip(down)) {
                    *square += ((up - down) / 2e-5).powi(2);
                }
            }
            let expected = squares.iter().map(|s| s.sqrt()).sum::<f64>() / BATCH as f64;
            assert!(expected > 1e-3, "a loss that depends on frame {frame}");
            assert_close(found, expected, 1e-8, &format!("frame {frame}"));
        }
    }
}

#[test]
fn a_forecast_takes_predictions_for_frames() {
    for controller in [Controller::Fixed, Controller::StepDoubling] {
        let device = Device::flex();
        let config = config(DynamicsConfig::nesterov(), controller);
        let model = OdeRnn::new(&config, FEATURES, HIDDEN, Stream::root(1), &device, DType::F64).expect("a model");
        let path = &model.block.brownian(Stream::root(2), 1)[0];
        let (mut frames, _) = sequences(FEATURES, &device);
        let forecast = model.forecast(&frames, 3, path).expect("a solve");
        assert_eq!(forecast.dims(), [3, BATCH, FEATURES]);
        for ahead in 0..3 {
            let forward = model.forward(&frames, Law::Posterior, path).expect("a solve").predictions;
            let last = forward.narrow(0, 2 + ahead, 1);
            let (found, expected) = (numbers(forecast.clone().narrow(0, ahead, 1)), numbers(last.clone()));
            for (found, expected) in found.into_iter().zip(expected) {
                assert_close(found, expected, 1e-12, &format!("frame {ahead} ahead"));
            }
            frames.inputs.push(last.squeeze_dim(0));
            frames.gaps.push(frames.gaps[2].clone());
        }
    }
}

#[test]
fn the_kl_divergence_counts_once_and_evaluations_for_every_gap() {
    let device = Device::flex();
    for (controller, estimator) in [
        (Controller::Fixed, Estimator::Plain),
        (Controller::StepDoubling, Estimator::Plain),
        (Controller::Fixed, Estimator::StickingTheLanding),
    ] {
        let mut config = config(DynamicsConfig::FirstOrder {}, controller);
        config.weights.estimator = estimator;
        let model = OdeRnn::new(&config, FEATURES, HIDDEN, Stream::root(1), &device, DType::F64).expect("a model");
        let model = model.map(&mut Move { index: usize::MAX, by: 0.0, seen: 0 });
        let paths = model.block.brownian(Stream::root(2), 1);
        let (frames, targets) = sequences(FEATURES, &device);
        let loss = model.loss(&frames, targets, 1.0, &paths[0]).expect("a solve");
        let once = model.block.forward(Tensor::zeros([1, HIDDEN], (&device, DType::F64)), Law::Posterior, &paths);
        let once = once.expect("a solve").solution;
        let expected = once.kl.into_scalar::<f64>() + once.martingale.map_or(0.0, |m| m.into_scalar::<f64>());
        assert!(expected.abs() > 1e-3, "a posterior that is not the prior");
        assert_close(loss.kl.into_scalar(), expected, 1e-12, &format!("{controller:?}, {estimator:?}"));
        assert_eq!((loss.nfe.drift, loss.nfe.accepted), (3 * once.nfe.drift, 3 * once.nfe.accepted));
    }
}
