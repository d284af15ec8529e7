//! Adaptive solves: both engines, both controllers, what they keep and what they leave.

mod common;

use common::{assert_close, numbers};
use sdebnn::SolveError;
use sdebnn::activation::Activation;
use sdebnn::brownian::{BrownianPath, DrawnPath, PiecewiseLinear};
use sdebnn::burn::module::{Module, Param};
use sdebnn::burn::tensor::{DType, Device, Tensor, TensorData};
use sdebnn::config::{DriftConfig, DynamicsConfig, HeadConfig, ModelConfig, WeightsConfig};
use sdebnn::controller::{Controller, ErrorNorm, SolverConfig};
use sdebnn::drift::TimeInput;
use sdebnn::engine::Engine;
use sdebnn::likelihood::Likelihood;
use sdebnn::method::Method;
use sdebnn::mlp::Mlp;
use sdebnn::model::{Law, SdeBnn};
use sdebnn::random::Stream;
use sdebnn::solve::Solution;

const ADAPTIVE: [Controller; 2] = [Controller::StepDoubling, Controller::Embedded];
const SAMPLES: usize = 2;
const SHAPE: [usize; 3] = [1, 4, 4];
const BATCH: usize = 3;

fn config(controller: Controller, method: Method, dynamics: DynamicsConfig, drift: DriftConfig) -> ModelConfig {
    ModelConfig {
        augment: 1,
        dynamics,
        drift,
        weights: WeightsConfig {
            sigma: 0.4,
            hidden: vec![5],
            time_dependent: true,
            posterior: Default::default(),
            stochastic: Default::default(),
            estimator: Default::default(),
        },
        // A first step that is rejected, so that the path is asked for what is not kept.
        solver: SolverConfig {
            controller,
            method,
            initial_step: 0.5,
            atol: 5e-3,
            rtol: 5e-3,
            engine: Engine::Fused,
            ..Default::default()
        },
        head: HeadConfig::First {},
        likelihood: Likelihood::SquaredError,
    }
}

fn every_config() -> Vec<ModelConfig> {
    let conv = DriftConfig::Conv { width: 3, blocks: vec![1], activation: Activation::Swish };
    let dense = DriftConfig::Dense { hidden: vec![4], activation: Activation::Tanh, time: TimeInput::Squash };
    let mut all = Vec::new();
    for controller in ADAPTIVE {
        for method in [Method::Midpoint, Method::Heun, Method::Sra1] {
            for dynamics in [DynamicsConfig::FirstOrder {}, DynamicsConfig::nesterov()] {
                for drift in [&conv, &dense] {
                    all.push(config(controller, method, dynamics.clone(), drift.clone()));
                }
            }
        }
    }
    all
}

fn model(config: &ModelConfig, dtype: DType) -> SdeBnn {
    let device = Device::flex().autodiff();
    let shape: &[usize] = if matches!(config.drift, DriftConfig::Conv { .. }) { &SHAPE } else { &[16] };
    let mut model = SdeBnn::new(config, shape, 2, Stream::root(1), &device, dtype).expect("a model");
    let moving = model.drift().layout().len();
    model.phi = Some(Mlp::init(&[moving + 1, 5, moving], Stream::root(2), &device, dtype));
    model
}

fn input(model: &SdeBnn) -> Tensor<3> {
    let features = if matches!(model.config().drift, DriftConfig::Conv { .. }) { 32 } else { 17 };
    let mut values = vec![0.0; BATCH * features];
    Stream::root(3).fill_normal(0, &mut values);
    let w0 = model.w0.val();
    let x = Tensor::<3>::from_data(TensorData::new(values, [1, BATCH, features]), (&w0.device(), w0.dtype()));
    let x = x.repeat_dim(0, SAMPLES).detach();
    if w0.device().is_autodiff() { x.require_grad() } else { x }
}

fn solve<P: BrownianPath>(model: &SdeBnn, x: &Tensor<3>, paths: &[P]) -> Result<Solution, SolveError> {
    model.with_problem(Law::Posterior, |problem| problem.solve(&model.config().solver, x.clone(), paths))
}

/// The accepted grid, with the middles of doubled steps.
fn accepted_grid(solution: &Solution, solver: &SolverConfig) -> Vec<f64> {
    let mut grid = vec![solver.t0];
    for attempt in solution.attempts.iter().filter(|a| a.accepted) {
        let end = (attempt.t + attempt.dt).min(solver.t1);
        // As the solve has it: t + h, not the difference that the attempt reports, added again.
        let next = solution.attempts.iter().find(|a| a.t > attempt.t).map_or(solver.t1, |a| a.t);
        assert!((next - end).abs() < 1e-15);
        if solver.controller == Controller::StepDoubling {
            grid.push(0.5 * (attempt.t + next));
        }
        grid.push(next);
    }
    grid
}

/// Output, KL, and gradients of their weighted sum for input, `w0` and `φ`.
fn outcome(model: &SdeBnn, x: &Tensor<3>, solution: &Solution) -> Vec<Vec<f64>> {
    let mut probe = vec![0.0; solution.output.shape().num_elements()];
    Stream::root(4).fill_normal(0, &mut probe);
    let shape = solution.output.dims();
    let w0 = model.w0.val();
    let probe = Tensor::<3>::from_data(TensorData::new(probe, shape), (&w0.device(), w0.dtype()));
    let value = (solution.output.clone() * probe).sum() + solution.kl.clone().sum().mul_scalar(0.1);
    let gradients = value.backward();
    let phi = model.phi.as_ref().expect("NN_φ").layers.iter();
    let phi = phi.flat_map(|layer| {
        let [weight, bias] = [
            numbers(layer.weight.val().grad(&gradients).expect("a gradient")),
            numbers(layer.bias.val().grad(&gradients).expect("a gradient")),
        ];
        weight.into_iter().chain(bias)
    });
    vec![
        numbers(solution.output.clone()),
        numbers(solution.weights.clone()),
        numbers(solution.kl.clone()),
        numbers(x.grad(&gradients).expect("a gradient")),
        numbers(w0.grad(&gradients).expect("a gradient")),
        phi.collect(),
    ]
}

#[test]
fn the_engines_take_the_same_steps_to_the_same_end() {
    for config in every_config() {
        let fused = model(&config, DType::F64);
        let reference = {
            let mut config = config.clone();
            config.solver.engine = Engine::Reference;
            model(&config, DType::F64)
        };
        // A smooth path: on a rough one, rounding errors of the steps grow from attempt to attempt.
        let smooth = |path: &DrawnPath| {
            let mut values = vec![0.0; path.dim()];
            for i in 1..=4 {
                let mut value = vec![0.0; path.dim()];
                path.increment(0.0, 0.25 * f64::from(i), &mut value);
                values.extend(value);
            }
            PiecewiseLinear::from_values(0.0, 1.0, path.dim(), values)
        };
        let paths: Vec<_> = fused.brownian(Stream::root(5), SAMPLES).iter().map(smooth).collect();
        let [found, expected] = [&fused, &reference].map(|model| {
            let x = input(model);
            let solution = solve(model, &x, &paths).expect("a solve");
            let grid: Vec<_> = solution.attempts.iter().map(|a| (a.t, a.dt, a.accepted)).collect();
            (outcome(model, &x, &solution), grid, solution.nfe)
        });
        assert_eq!(found.2, expected.2, "{config:?}");
        assert!(found.2.rejected > 0 && found.2.accepted > 2, "{:?}", found.2);
        for (a, b) in found.1.iter().zip(&expected.1) {
            assert_close(a.0, b.0, 1e-9, "where a step starts");
            assert_eq!(a.2, b.2);
        }
        for (found, expected) in found.0.iter().flatten().zip(expected.0.iter().flatten()) {
            assert_close(*found, *expected, 1e-8, &format!("{config:?}"));
        }
    }
}

#[test]
fn gradients_are_those_of_the_accepted_grid_bit_for_bit() {
    for config in every_config() {
        for dtype in [DType::F32, DType::F64] {
            let model = model(&config, dtype);
            let (x, paths) = (input(&model), model.brownian(Stream::root(6), SAMPLES));
            let solution = solve(&model, &x, &paths).expect("a solve");
            let grid = accepted_grid(&solution, &config.solver);
            let found = outcome(&model, &x, &solution);
            let replayed = model.with_problem(Law::Posterior, |problem| {
                problem.solve_on_grid(&config.solver, grid, x.clone(), &paths).expect("a solve")
            });
            assert_eq!(found, outcome(&model, &x, &replayed), "{config:?}");
        }
    }
}

#[test]
fn gradients_pass_finite_differences_on_the_replayed_grid() {
    for config in every_config() {
        let model = model(&config, DType::F64);
        let (x, paths) = (input(&model), model.brownian(Stream::root(7), SAMPLES));
        let solution = solve(&model, &x, &paths).expect("a solve");
        let grid = accepted_grid(&solution, &config.solver);
        let gradient = outcome(&model, &x, &solution).swap_remove(4);
        let w0 = numbers(model.w0.val());
        let mut direction = vec![0.0; w0.len()];
        Stream::root(8).fill_normal(0, &mut direction);
        let value = |step: f64| {
            let mut moved = model.clone();
            let values: Vec<f64> = w0.iter().zip(&direction).map(|(w, d)| w + step * d).collect();
            moved.w0 = Param::from_tensor(common::tensor(&values, [values.len()], &model.w0.val().device()));
            let solution = moved.with_problem(Law::Posterior, |problem| {
                problem.solve_on_grid(&config.solver, grid.clone(), x.clone(), &paths).expect("a solve")
            });
            let mut probe = vec![0.0; solution.output.shape().num_elements()];
            Stream::root(4).fill_normal(0, &mut probe);
            let output: f64 = numbers(solution.output).iter().zip(&probe).map(|(a, b)| a * b).sum();
            output + 0.1 * numbers(solution.kl).iter().sum::<f64>()
        };
        let step = 1e-5;
        let slope = (value(step) - value(-step)) / (2.0 * step);
        let expected: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
        assert_close(slope, expected, 1e-6, &format!("{config:?}"));
    }
}

#[test]
fn rejected_steps_do_not_change_the_path() {
    for config in every_config() {
        let model = model(&config, DType::F64);
        let (x, paths) = (input(&model), model.brownian(Stream::root(9), SAMPLES));
        let solution = solve(&model, &x, &paths).expect("a solve");
        assert!(solution.nfe.rejected > 0);
        let grid = accepted_grid(&solution, &config.solver);
        for path in &paths {
            let mut whole = vec![0.0; path.dim()];
            path.increment(0.0, 1.0, &mut whole);
            let mut sum = vec![0.0; path.dim()];
            for ends in grid.windows(2) {
                let mut part = vec![0.0; path.dim()];
                path.increment(ends[0], ends[1], &mut part);
                sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
            assert_eq!(sum, whole);
        }
    }
}

#[test]
fn the_embedded_controller_needs_at_most_half_the_evaluations() {
    for config in every_config() {
        if (config.solver.controller, config.solver.method) != (Controller::StepDoubling, Method::Midpoint) {
            continue;
        }
        let evaluations = |controller| {
            let mut config = config.clone();
            config.solver.controller = controller;
            config.solver.initial_step = 0.05;
            let model = model(&config, DType::F64);
            let x = input(&model);
            let solve =
                |seed| solve(&model, &x, &model.brownian(Stream::root(seed), SAMPLES)).expect("a solve").nfe.drift;
            (20..30).map(solve).sum::<usize>()
        };
        let [doubling, embedded] = ADAPTIVE.map(evaluations);
        assert!(2 * embedded <= doubling, "{embedded} against {doubling}: {config:?}");
    }
}

#[test]
fn the_worst_norm_does_not_depend_on_how_many_weights_dilute_an_error() {
    // The root mean square over everything cannot exceed the largest of its parts.
    for config in every_config() {
        let attempts = |norm| {
            let mut config = config.clone();
            config.solver.norm = norm;
            let model = model(&config, DType::F64);
            let x = input(&model);
            solve(&model, &x, &model.brownian(Stream::root(10), SAMPLES)).expect("a solve").attempts
        };
        let (rms, worst) = (attempts(ErrorNorm::Rms), attempts(ErrorNorm::Worst));
        assert!(rms[0].error < worst[0].error, "{} {}", rms[0].error, worst[0].error);
    }
}

/// Bytes of this process in memory.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split(' ').nth(1)?.parse::<usize>().ok()? * 4096)
}

#[test]
fn thousands_of_attempts_end_in_an_outcome_and_leave_no_memory_behind() {
    for controller in ADAPTIVE {
        let drift = DriftConfig::Conv { width: 3, blocks: vec![1], activation: Activation::Swish };
        let mut config = config(controller, Method::Midpoint, DynamicsConfig::nesterov(), drift);
        (config.solver.atol, config.solver.rtol, config.solver.dt_min) = (1e-7, 1e-7, 1e-12);
        (config.solver.initial_step, config.solver.max_attempts) = (1e-5, 3000);
        let model = model(&config, DType::F32).valid();
        let x = input(&model);
        let paths = model.brownian(Stream::root(11), SAMPLES);
        let before = resident();
        match solve(&model, &x, &paths) {
            Err(SolveError::TooManySteps { attempts: 3000, t }) => assert!(t > 0.0 && t < 1.0),
            other => panic!("{:?}", other.map(|solution| solution.nfe)),
        }
        if let (Some(before), Some(after)) = (before, resident()) {
            assert!(after < before + (64 << 20), "{controller:?}: {before} bytes before, {after} after");
        }
    }
}
