//! What a solve counts, asks of the path, and says when it fails.

mod common;

use std::sync::Mutex;

use common::{assert_close, linear, model, numbers, tensor, tiny};
use sdebnn::activation::Activation;
use sdebnn::brownian::{BrownianPath, BrownianTree, DrawnPath};
use sdebnn::burn::module::Param;
use sdebnn::burn::tensor::{DType, Device, Tensor};
use sdebnn::config::{DynamicsConfig, ModelConfig, Stochastic};
use sdebnn::controller::{Attempt, Controller, SolverConfig};
use sdebnn::drift::{DenseNet, Drift, TimeInput};
use sdebnn::dynamics::{FirstOrder, Residual};
use sdebnn::engine::Engine;
use sdebnn::error::Component;
use sdebnn::method::Method;
use sdebnn::mlp::Mlp;
use sdebnn::model::{Law, SdeBnn};
use sdebnn::random::Stream;
use sdebnn::solve::{Problem, Solution};
use sdebnn::weights::{Partition, PosteriorForm, WeightProcess};
use sdebnn::{Error, SolveError};

const STAGES: [(Method, usize); 4] = [(Method::Euler, 1), (Method::Midpoint, 2), (Method::Heun, 2), (Method::Sra1, 2)];

fn adaptive() -> ModelConfig {
    let mut config = tiny();
    config.solver = SolverConfig {
        controller: Controller::StepDoubling,
        initial_step: 0.5,
        atol: 1e-2,
        rtol: 1e-2,
        ..Default::default()
    };
    config
}

fn run<P: BrownianPath>(model: &SdeBnn, paths: &[P]) -> Result<Solution, SolveError> {
    let x: Tensor<2> = tensor(&[0.9, -0.3], [2, 1], &Device::flex());
    model.forward(x, Law::Posterior, paths).map(|f| f.solution)
}

#[test]
fn a_fixed_grid_costs_the_stages_of_the_method_a_step() {
    for (method, stages) in STAGES {
        for steps in [1, 7, 20] {
            let mut config = tiny();
            (config.solver.method, config.solver.steps) = (method, steps);
            let model = model(&config, &Device::flex());
            let solution = run(&model, &model.brownian(Stream::root(1), 3)).expect("a solve");
            let nfe = solution.nfe;
            assert_eq!([nfe.drift, nfe.diffusion], [stages * steps; 2], "{method:?}");
            assert_eq!([nfe.attempts, nfe.accepted, nfe.rejected], [steps, steps, 0]);
            assert!(solution.attempts.is_empty());
        }
    }
}

#[test]
fn step_doubling_costs_three_steps_an_attempt() {
    let nesterov =
        DynamicsConfig::Nesterov { residual: Residual::Skip, squash: Activation::Tanh, xi: 1.0, learn_xi: false };
    for dynamics in [DynamicsConfig::FirstOrder {}, nesterov] {
        for (method, stages) in STAGES {
            let mut config = adaptive();
            (config.solver.method, config.dynamics) = (method, dynamics.clone());
            let model = model(&config, &Device::flex());
            let Solution { nfe, attempts, .. } = run(&model, &model.brownian(Stream::root(2), 2)).expect("a solve");
            assert!(nfe.rejected > 0 && nfe.accepted > 2, "{nfe:?}");
            assert_eq!(nfe.attempts, nfe.accepted + nfe.rejected);
            assert_eq!([nfe.drift, nfe.diffusion], [3 * stages * nfe.attempts; 2], "{method:?}");
            assert_eq!(attempts.len(), nfe.attempts);
            for a in &attempts {
                assert_eq!(a.accepted, a.error <= 1.0);
            }
        }
    }
}

/// A path that writes down what it is asked.
struct Recording {
    path: DrawnPath,
    asked: Mutex<Vec<(f64, f64, Vec<f64>)>>,
}

impl BrownianPath for Recording {
    fn dim(&self) -> usize {
        self.path.dim()
    }

    fn increment(&self, from: f64, to: f64, out: &mut [f64]) {
        self.path.increment(from, to, out);
        self.asked.lock().expect("no panic").push((from, to, out.to_vec()));
    }

    fn increment_and_area(&self, from: f64, to: f64, increment: &mut [f64], area: &mut [f64]) {
        self.path.increment_and_area(from, to, increment, area);
        self.asked.lock().expect("no panic").push((from, to, increment.to_vec()));
    }
}

#[test]
fn rejected_steps_leave_the_path_alone_and_accepted_half_steps_add_up_to_it() {
    for (method, _) in STAGES {
        let mut config = adaptive();
        (config.solver.method, config.solver.atol, config.solver.rtol) = (method, 1e-3, 1e-3);
        // It asks for full and half steps one by one.
        config.solver.engine = Engine::Reference;
        let model = model(&config, &Device::flex());
        let path = model.brownian(Stream::root(3), 1).remove(0);
        let recording = [Recording { path: path.clone(), asked: Mutex::default() }];
        let Solution { attempts, nfe, .. } = run(&model, &recording).expect("a solve");
        assert!(nfe.rejected > 1, "{nfe:?}");
        let asked = recording[0].asked.lock().expect("no panic");
        assert_eq!(asked.len(), 3 * attempts.len());
        let (mut t, mut total) = (0.0, [0.0; 2]);
        for (attempt, [full, left, right]) in attempts.iter().zip(asked.as_chunks().0) {
            assert_eq!((attempt.t, full.0, left.0), (t, t, t), "an attempt starts where the last accepted one ended");
            assert_eq!((left.1, right.1), (right.0, full.1), "two halves of the full step");
            assert_close(left.1, 0.5 * (full.0 + full.1), 1e-15, "the middle");
            for k in 0..2 {
                assert_eq!(left.2[k] + right.2[k], full.2[k], "both solutions see the same path");
            }
            if attempt.accepted {
                t = full.1;
                total = [0, 1].map(|k| total[k] + left.2[k] + right.2[k]);
            }
        }
        let mut whole = [0.0; 2];
        path.increment(0.0, 1.0, &mut whole);
        assert_eq!((t, total), (1.0, whole));
    }
}

/// Nesterov "skip" on one number by hand: `f = a h + b`, tanh, ε and `h_temp` by the number of evaluations.
struct SkipByHand {
    evaluations: usize,
    cached: f64,
}

impl SkipByHand {
    const W: [f64; 2] = [1.4, 0.3];

    fn factor(t: f64) -> f64 {
        if t == 0.0 { 1.0 } else { (t.powf(-1.5) * (0.5 * t).exp()).tanh() }
    }

    fn field(&mut self, t: f64, [x, m]: [f64; 2]) -> [f64; 2] {
        let h = Self::factor(t) * x;
        let force = Self::W[0] * h + Self::W[1];
        self.evaluations += 1;
        // The count before this evaluation was even.
        if self.evaluations % 2 == 1 {
            self.cached = h;
            return [m.tanh(), -m - force.tanh()];
        }
        [m.tanh(), -m - (force + 0.8 * self.cached).tanh()]
    }

    fn step(&mut self, method: Method, t: f64, dt: f64, y: [f64; 2]) -> [f64; 2] {
        let plus = |c: f64, k: [f64; 2]| [y[0] + c * k[0], y[1] + c * k[1]];
        let first = self.field(t, y);
        match method {
            Method::Euler => plus(dt, first),
            Method::Midpoint => plus(dt, self.field(t + 0.5 * dt, plus(0.5 * dt, first))),
            Method::Heun => {
                let second = self.field(t + dt, plus(dt, first));
                plus(dt, [0, 1].map(|k| 0.5 * (first[k] + second[k])))
            }
            Method::Sra1 => {
                let second = self.field(t + 0.75 * dt, plus(0.75 * dt, first));
                plus(dt, [0, 1].map(|k| (first[k] + 2.0 * second[k]) / 3.0))
            }
        }
    }
}

#[test]
fn skip_counts_the_evaluations_of_full_and_half_steps_of_rejected_and_accepted_attempts() {
    let nesterov =
        DynamicsConfig::Nesterov { residual: Residual::Skip, squash: Activation::Tanh, xi: 0.8, learn_xi: false };
    for (method, _) in STAGES {
        let mut config = adaptive();
        (config.dynamics, config.weights.stochastic) = (nesterov.clone(), Stochastic::None);
        (config.solver.method, config.solver.initial_step) = (method, 1.0);
        let model = at(&config, SkipByHand::W, &[0.0; 4], &[0.0; 2]);
        let solution = run(&model, &model.brownian(Stream::root(9), 1)).expect("a solve");
        assert!(solution.nfe.rejected > 0, "{:?}", solution.nfe);
        let (mut hand, mut y) = (SkipByHand { evaluations: 0, cached: f64::NAN }, [0.9, 0.0]);
        for Attempt { t, dt, accepted, .. } in solution.attempts {
            hand.step(method, t, dt, y);
            let middle = hand.step(method, t, 0.5 * dt, y);
            let end = hand.step(method, t + 0.5 * dt, 0.5 * dt, middle);
            y = if accepted { end } else { y };
        }
        assert_eq!(hand.evaluations, solution.nfe.drift);
        let output = numbers(solution.output)[0];
        // The first of the two examples; the other one shares the steps.
        assert_close(output, SkipByHand::factor(1.0) * y[0], 1e-13, &format!("h(T) by {method:?}"));
    }
}

/// A posterior on the tiny network, whose solves may be continued from any time.
struct Posterior {
    drift: DenseNet,
    partition: Partition,
    phi: Mlp,
    path: BrownianTree,
}

impl Posterior {
    fn new(device: &Device) -> Self {
        let drift = DenseNet::new(&[1, 1], Activation::Identity, TimeInput::None);
        let partition = Partition::of_layers(drift.layout(), |_| true);
        let phi = Mlp::init(&[3, 4, 2], Stream::root(4), device, DType::F64);
        Self { drift, partition, phi, path: BrownianTree::new(Stream::root(5), 2, 0.0, 1.0, 2) }
    }

    fn solve(&self, solver: &SolverConfig, w0: Tensor<1>, h0: Tensor<3>) -> Solution {
        let process = WeightProcess {
            sigma: 0.5,
            network: Some(&self.phi),
            form: PosteriorForm::Residual,
            time_dependent: true,
            martingale: false,
        };
        Problem { drift: &self.drift, dynamics: &FirstOrder, process, partition: &self.partition, w0 }
            .solve(solver, h0, std::slice::from_ref(&self.path))
            .expect("a solve")
    }

    /// `h(T) + KL` by the two half steps of every accepted attempt.
    fn replay(&self, attempts: &[Attempt], y: [f64; 3]) -> f64 {
        let device = Device::flex();
        let starts: Vec<f64> = attempts.iter().filter(|a| a.accepted).map(|a| a.t).chain([1.0]).collect();
        let (mut w, mut h, mut kl) = (tensor(&y[..2], [2], &device), tensor(&y[2..], [1, 1, 1], &device), 0.0);
        for ends in starts.windows(2) {
            let solver = SolverConfig { t0: ends[0], t1: ends[1], steps: 2, ..Default::default() };
            let solution = self.solve(&solver, w, h);
            (w, h) = (solution.weights.reshape([2]), solution.output);
            kl += numbers(solution.kl)[0];
        }
        numbers(h)[0] + kl
    }
}

#[test]
fn an_adaptive_solve_is_its_accepted_half_steps_and_has_their_gradient() {
    let device = Device::flex().autodiff();
    let y = [0.7, -0.4, 0.9];
    let leaf = tensor(&y, [1, 3], &device).require_grad();
    let (w0, h0) = (leaf.clone().narrow(1, 0, 2).reshape([2]), leaf.clone().narrow(1, 2, 1).reshape([1, 1, 1]));
    let Solution { output, kl, nfe, attempts, .. } = Posterior::new(&device).solve(&adaptive().solver, w0, h0);
    assert!(nfe.rejected > 0 && nfe.accepted > 2, "{nfe:?}");
    let objective = output.reshape([1]) + kl;
    let gradient = numbers(leaf.grad(&objective.backward()).expect("a gradient"));
    let plain = Posterior::new(&Device::flex());
    assert_close(numbers(objective)[0], plain.replay(&attempts, y), 1e-13, "replay");
    for k in 0..3 {
        let nudged = |by: f64| {
            let mut y = y;
            y[k] += by;
            plain.replay(&attempts, y)
        };
        assert_close(gradient[k], (nudged(1e-5) - nudged(-1e-5)) / 2e-5, 1e-8, "gradient of the steps taken");
    }
}

/// The tiny model at a point, with a linear `NN_φ`.
fn at(config: &ModelConfig, w0: [f64; 2], weight: &[f64], bias: &[f64]) -> SdeBnn {
    let device = Device::flex();
    let mut model = model(config, &device);
    model.w0 = Param::from_tensor(tensor(&w0, [2], &device));
    model.phi = model.phi.map(|_| linear(weight, bias, &device));
    model
}

#[track_caller]
fn assert_not_finite(model: &SdeBnn, t: f64, component: Component) {
    let error = run(model, &model.brownian(Stream::root(6), 1)).expect_err("an overflow");
    assert_eq!(error, SolveError::NotFinite { t, component });
    let message = Error::from(error).to_string();
    assert!(message.contains(&format!("t = {t}")) && message.contains(&component.to_string()), "{message}");
}

#[test]
fn an_overflow_is_an_error_that_names_the_step_and_the_component() {
    let zero = [0.0; 4];
    let mut config = tiny();
    config.solver.method = Method::Euler;
    // h ← (1 + 1e200/8) h overflows in the second step.
    config.weights.stochastic = Stochastic::None;
    assert_not_finite(&at(&config, [1e200, 0.0], &zero, &[0.0; 2]), 0.25, Component::Activations);
    // The weight ← (1e200/8) weight overflows in the second step; σ is large to keep the first step of the KL finite.
    config.weights.stochastic = Stochastic::All;
    config.weights.sigma = 1e60;
    let growing = [1e200, 0.0, 0.0, 0.0];
    assert_not_finite(&at(&config, [1.0, 0.0], &growing, &[0.0; 2]), 0.25, Component::Weights);
    // ... and with two steps, only the end of the last one is not finite.
    config.solver.steps = 2;
    assert_not_finite(&at(&config, [1.0, 0.0], &growing, &[0.0; 2]), 1.0, Component::Weights);
    // ½‖u‖² is infinite in the first step, where weights and activations are not.
    config.solver.steps = 8;
    config.weights.sigma = 0.5;
    assert_not_finite(&at(&config, [0.0, 0.0], &zero, &[1e160, 0.0]), 0.125, Component::Kl);
    // A weight that is not a number from the start.
    assert_not_finite(&at(&config, [f64::NAN, 0.0], &zero, &[0.0; 2]), 0.125, Component::Weights);
}

#[test]
fn an_overflow_of_an_adaptive_solve_is_an_error_that_names_the_component() {
    let zero = [0.0; 4];
    let mut config = adaptive();
    config.weights.stochastic = Stochastic::None;
    assert_not_finite(&at(&config, [1e200, 0.0], &zero, &[0.0; 2]), 0.5, Component::Activations);
    config.weights.stochastic = Stochastic::All;
    assert_not_finite(&at(&config, [0.0, 0.0], &zero, &[1e160, 0.0]), 0.5, Component::Kl);
    assert_not_finite(&at(&config, [f64::INFINITY, 0.0], &zero, &[0.0; 2]), 0.5, Component::Weights);
}

#[test]
fn a_smallest_step_that_is_still_rejected_is_an_error_and_not_silence() {
    let mut config = adaptive();
    (config.solver.dt_min, config.solver.atol, config.solver.rtol) = (0.05, 1e-6, 0.0);
    let model = at(&config, [0.7, -0.4], &[0.0; 4], &[0.0; 2]);
    let error = run(&model, &model.brownian(Stream::root(7), 1)).expect_err("too tight");
    let SolveError::StepTooSmall { t, dt_min, error } = error else { panic!("{error}") };
    assert!((t, dt_min) == (0.0, 0.05) && error > 1.0, "{t} {dt_min} {error}");
}

#[test]
fn a_solve_that_uses_up_its_attempts_says_how_far_it_came() {
    let mut config = adaptive();
    config.solver.max_attempts = usize::MAX;
    let whole = at(&config, [0.7, -0.4], &[0.0; 4], &[0.0; 2]);
    let attempts = run(&whole, &whole.brownian(Stream::root(7), 1)).expect("a solve").attempts;
    let last = attempts.len() - 1;
    for allowed in [1, last] {
        config.solver.max_attempts = allowed;
        let model = at(&config, [0.7, -0.4], &[0.0; 4], &[0.0; 2]);
        let error = run(&model, &model.brownian(Stream::root(7), 1)).expect_err("too few attempts");
        assert_eq!(error, SolveError::TooManySteps { t: attempts[allowed].t, attempts: allowed });
    }
    config.solver.max_attempts = last + 1;
    let model = at(&config, [0.7, -0.4], &[0.0; 4], &[0.0; 2]);
    assert!(run(&model, &model.brownian(Stream::root(7), 1)).is_ok());
}

#[test]
fn a_lower_tolerance_takes_more_steps_and_comes_closer() {
    // h' = w₀ h + w₁ without noise: h(1) = (h0 + w₁/w₀) e^{w₀} − w₁/w₀.
    let (w, h0) = ([1.5f64, -0.4], 0.9);
    let exact = (h0 + w[1] / w[0]) * w[0].exp() - w[1] / w[0];
    let solve = |tolerance: f64| {
        let mut config = adaptive();
        config.weights.stochastic = Stochastic::None;
        (config.solver.atol, config.solver.rtol) = (tolerance, tolerance);
        let model = at(&config, w, &[0.0; 4], &[0.0; 2]);
        let solution = run(&model, &model.brownian(Stream::root(8), 1)).expect("a solve");
        (solution.nfe.accepted, (numbers(solution.output)[0] - exact).abs())
    };
    let (coarse, fine) = (solve(1e-3), solve(1e-6));
    assert!(fine.0 > 5 * coarse.0 && fine.1 < 0.05 * coarse.1, "{coarse:?} {fine:?}");
    assert!(coarse.1 < 0.02 && fine.1 < 2e-4, "{coarse:?} {fine:?}");
}
