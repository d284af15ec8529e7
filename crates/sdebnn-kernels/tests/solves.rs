//! Whole solves against the naive twin, and their gradients against finite differences.

mod naive;

use naive::{Case, Numbers, distance, dot, uniform_grid};
use sdebnn_kernels::{
    Activation, Drift, Dynamics, InstructionSet, Method, Problem, Residual, Settings, Solver, TimeInput,
};

const METHODS: [Method; 4] = [Method::Euler, Method::Midpoint, Method::Heun, Method::Sra1];

fn dynamics() -> Vec<Dynamics> {
    let nesterov = |residual, squash| Dynamics::Nesterov { residual, squash };
    vec![
        Dynamics::FirstOrder,
        nesterov(Residual::Skip, Activation::Tanh),
        nesterov(Residual::Direct, Activation::Tanh),
        nesterov(Residual::None, Activation::Tanh),
        nesterov(Residual::Skip, Activation::HardTanhHalf),
    ]
}

fn conv(shape: [usize; 3], width: usize, blocks: &[usize], activation: Activation) -> Drift {
    Drift::Conv { shape, width, blocks: blocks.to_vec(), activation }
}

fn dense(sizes: &[usize], activation: Activation, time: TimeInput) -> Drift {
    Drift::Dense { sizes: sizes.to_vec(), activation, time }
}

/// Values to 1e-11 and directional derivatives of state, weights and ξ to 1e-7 (what central differences can show).
fn check(case: &Case, what: &str) {
    let mut numbers = Numbers(99);
    let probe = numbers.vector(case.state.len(), 1.0);
    let solver = Solver::<f64>::new(case.problem.clone());
    let outcome = case.kernels(&solver, &probe);
    let expected = case.naive();
    assert!(distance(&outcome.last, &expected) < 1e-11, "{what}: {}", distance(&outcome.last, &expected));

    let step = 1e-5;
    let slope = |moved: &dyn Fn(f64) -> Case| {
        (dot(&probe, &moved(step).naive()) - dot(&probe, &moved(-step).naive())) / (2.0 * step)
    };
    let close = |expected: f64, actual: f64, part: &str| {
        let size = expected.abs().max(1.0);
        assert!((expected - actual).abs() < 2e-7 * size, "{what}, {part}: {expected} {actual}");
    };
    let direction = numbers.vector(case.state.len(), 1.0);
    let moved = |by: f64| {
        let mut case = case.clone();
        case.state.iter_mut().zip(&direction).for_each(|(x, d)| *x += by * d);
        case
    };
    close(slope(&moved), dot(&direction, &outcome.state), "state");
    let direction = numbers.vector(case.weights.len(), 1.0);
    let moved = |by: f64| {
        let mut case = case.clone();
        case.weights.iter_mut().zip(&direction).for_each(|(x, d)| *x += by * d);
        case
    };
    close(slope(&moved), dot(&direction, &outcome.weights), "weights");
    let moved = |by: f64| Case { xi: case.xi + by, ..case.clone() };
    close(slope(&moved), outcome.xi, "xi");
}

#[test]
fn dense_solves_of_all_dynamics_methods_and_time_inputs() {
    for dynamics in dynamics() {
        for method in METHODS {
            for time in [TimeInput::None, TimeInput::Concat, TimeInput::Squash] {
                let drift = dense(&[3, 5, 4, 3], Activation::Swish, time);
                let problem = Problem::new(drift, dynamics, method, vec![0.0, 0.2, 0.3, 0.75, 1.0]).unwrap();
                check(&Case::new(problem, 2, 5, true, 1), &format!("{dynamics:?} {method:?} {time:?}"));
            }
        }
    }
}

#[test]
fn convolutional_solves_of_all_dynamics_and_methods() {
    for dynamics in dynamics() {
        for method in METHODS {
            let drift = conv([2, 4, 6], 5, &[1], Activation::Swish);
            let problem = Problem::new(drift, dynamics, method, vec![0.0, 0.3, 1.0]).unwrap();
            check(&Case::new(problem, 2, 5, true, 2), &format!("{dynamics:?} {method:?}"));
        }
    }
}

#[test]
fn every_smooth_activation() {
    for activation in Activation::ALL {
        let dynamics = Dynamics::Nesterov { residual: Residual::Skip, squash: activation };
        let drift = dense(&[3, 7, 3], activation, TimeInput::Concat);
        let problem = Problem::new(drift, dynamics, Method::Heun, vec![0.5, 0.6, 0.9]).unwrap();
        check(&Case::new(problem, 1, 3, false, 3), &format!("{activation:?}"));
        let drift = conv([1, 4, 4], 3, &[1], activation);
        let problem = Problem::new(drift, Dynamics::FirstOrder, Method::Midpoint, vec![0.0, 0.4, 0.9]).unwrap();
        check(&Case::new(problem, 1, 2, false, 3), &format!("{activation:?}"));
    }
}

#[test]
fn several_groups_and_blocks_down_to_a_single_pixel() {
    let shapes = [([2, 8, 8], vec![1, 1, 1]), ([1, 4, 8], vec![2, 1]), ([3, 2, 2], vec![1]), ([1, 2, 2], vec![3])];
    for (shape, blocks) in shapes {
        for dynamics in [dynamics()[0], dynamics()[1]] {
            let drift = conv(shape, 6, &blocks, Activation::Mish);
            let problem = Problem::new(drift, dynamics, Method::Midpoint, uniform_grid(2)).unwrap();
            check(&Case::new(problem, 1, 3, false, 4), &format!("{shape:?} {blocks:?}"));
        }
    }
}

fn variety() -> Vec<Case> {
    let skip = Dynamics::Nesterov { residual: Residual::Skip, squash: Activation::Tanh };
    let problem = |drift, steps| Problem::new(drift, skip, Method::Midpoint, uniform_grid(steps)).unwrap();
    vec![
        Case::new(problem(conv([3, 8, 8], 7, &[1], Activation::Swish), 3), 2, 19, false, 5),
        Case::new(problem(conv([5, 8, 8], 8, &[1, 1], Activation::Mish), 2), 1, 9, true, 6),
        Case::new(problem(dense(&[6, 9, 6], Activation::Tanh, TimeInput::None), 5), 1, 131, true, 7),
        Case::new(problem(dense(&[3, 32, 32, 3], Activation::Swish, TimeInput::Squash), 4), 3, 50, false, 8),
    ]
}

fn settings(tape_budget: usize, instructions: InstructionSet) -> Settings {
    Settings { tape_budget, instructions, ..Settings::default() }
}

#[test]
fn single_precision_and_all_instructions_agree_with_double() {
    for case in variety() {
        let probe = Numbers(7).vector(case.state.len(), 1.0);
        let exact = case.kernels(&Solver::<f64>::new(case.problem.clone()), &probe);
        assert!(distance(&exact.last, &case.naive()) < 1e-11);
        let outcomes = InstructionSet::ALL.map(|instructions| {
            let settings = settings(1 << 30, instructions);
            [
                (1e-12, case.kernels(&Solver::<f64>::with_settings(case.problem.clone(), settings), &probe)),
                (1e-5, case.kernels(&Solver::<f32>::with_settings(case.problem.clone(), settings), &probe)),
            ]
        });
        for (tolerance, outcome) in outcomes.into_iter().flatten() {
            assert!(distance(&outcome.last, &exact.last) < tolerance);
            assert!(distance(&outcome.state, &exact.state) < tolerance);
            assert!(distance(&outcome.weights, &exact.weights) < tolerance);
            assert!((outcome.xi - exact.xi).abs() < 10.0 * tolerance * exact.xi.abs().max(1.0));
        }
    }
}

#[test]
fn the_tape_budget_changes_no_bit() {
    for case in variety() {
        let probe = Numbers(8).vector(case.state.len(), 1.0);
        let run = |budget| {
            let settings = settings(budget, InstructionSet::Detect);
            case.kernels(&Solver::<f32>::with_settings(case.problem.clone(), settings), &probe)
        };
        let all = run(usize::MAX);
        for budget in [0, 100_000, 500_000] {
            assert_eq!(all, run(budget));
        }
    }
}

#[test]
fn the_gradient_budget_changes_no_bit() {
    for case in variety() {
        let probe = Numbers(8).vector(case.state.len(), 1.0);
        let run = |gradient_budget| {
            let settings = Settings { gradient_budget, ..Settings::default() };
            case.kernels(&Solver::<f32>::with_settings(case.problem.clone(), settings), &probe)
        };
        let all = run(usize::MAX);
        for budget in [0, 50_000, 1_000_000] {
            assert_eq!(all, run(budget));
        }
    }
}

#[test]
fn batches_of_one_and_of_many_tiles() {
    for batch in [1, 131] {
        let problem =
            Problem::new(conv([1, 2, 2], 3, &[1], Activation::Silu), dynamics()[1], Method::Midpoint, uniform_grid(2));
        check(&Case::new(problem.unwrap(), 1, batch, true, 10), &format!("batch {batch}"));
        let drift = dense(&[4, 6, 4], Activation::Softplus, TimeInput::Squash);
        let problem = Problem::new(drift, dynamics()[2], Method::Heun, uniform_grid(2));
        check(&Case::new(problem.unwrap(), 2, batch, true, 11), &format!("batch {batch}"));
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for case in variety() {
        let probe = Numbers(9).vector(case.state.len(), 1.0);
        let solver = Solver::<f32>::new(case.problem.clone());
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| case.kernels(&solver, &probe))
        };
        let one = run(1);
        assert_eq!(one, run(2));
        assert_eq!(one, run(7));
    }
}
