//! Attempted steps, and the tape of a solve that is made of them.

mod naive;

use naive::{Case, Numbers};
use sdebnn_kernels::{
    Activation, Attempted, Companion, Drift, Dynamics, Gradients, Inputs, Method, Problem, Residual, Solver, Tape,
    TimeInput,
};

fn cases() -> Vec<Case> {
    let grid = vec![0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0];
    let skip = Dynamics::Nesterov { residual: Residual::Skip, squash: Activation::Tanh };
    let dense = Drift::Dense { sizes: vec![3, 6, 3], activation: Activation::Tanh, time: TimeInput::Squash };
    let conv = Drift::Conv { shape: [2, 4, 4], width: 3, blocks: vec![1], activation: Activation::Swish };
    let mut cases = Vec::new();
    for method in [Method::Midpoint, Method::Heun, Method::Sra1] {
        for dynamics in [Dynamics::FirstOrder, skip] {
            let problem = |drift: &Drift| Problem::new(drift.clone(), dynamics, method, grid.clone()).unwrap();
            cases.push(Case::new(problem(&dense), 2, 19, true, 1));
            cases.push(Case::new(problem(&conv), 1, 9, false, 2));
        }
    }
    cases
}

fn inputs<'a>(case: &'a Case, weights: &'a [f64], state: &'a [f64]) -> Inputs<'a, f64> {
    let time_scale = case.time_scale.as_deref();
    Inputs { samples: case.samples, batch: case.batch, weights, state, xi: case.xi, time_scale }
}

/// Attempts `steps` steps of the grid at a time; the tapes, the state at the end, and that of every companion.
fn attempts(case: &Case, companion: Companion, budget: usize) -> (Vec<Tape<f64>>, Vec<f64>, Vec<Vec<f64>>) {
    let steps = if companion == Companion::FullStep { 2 } else { 1 };
    let solver = Solver::<f64>::new(case.problem.clone());
    let row = case.samples * case.problem.parameters();
    let (mut state, mut tapes, mut others) = (case.state.clone(), Vec::new(), Vec::new());
    for (index, weights) in case.weights.chunks(2 * steps * row).enumerate() {
        let grid = case.problem.grid()[index * steps..=(index + 1) * steps].to_vec();
        let extra = &weights[row * usize::from(companion == Companion::FullStep)..][..row];
        let mut weights = weights.to_vec();
        if companion == Companion::FullStep {
            weights.extend_from_slice(extra);
        }
        let (mut end, mut other) = (state.clone(), state.clone());
        let attempted = Attempted { companion, state: &mut end, other: &mut other };
        let attempt = solver.on_grid(grid).unwrap();
        tapes.push(attempt.attempt(&inputs(case, &weights, &state), attempted, Some(budget)).unwrap().unwrap());
        others.push(other);
        state = end;
    }
    (tapes, state, others)
}

#[test]
fn attempts_end_and_differentiate_as_one_solve_bit_for_bit() {
    for case in cases() {
        for companion in [Companion::Euler, Companion::FullStep] {
            for budget in [0, 10_000, 1 << 30] {
                let probe = Numbers(3).vector(case.state.len(), 1.0);
                let solver = Solver::<f64>::new(case.problem.clone());
                let whole = case.kernels(&solver, &probe);
                let (tapes, end, _) = attempts(&case, companion, budget);
                assert_eq!(end, whole.last, "{companion:?}");
                let (mut state, mut weights, mut xi) = (case.state.clone(), case.weights.clone(), 0.0);
                let gradients = Gradients { state: &mut state, weights: &mut weights, xi: &mut xi };
                let tape = solver.join(tapes);
                solver.backward(&inputs(&case, &case.weights, &case.state), tape, &probe, gradients).unwrap();
                assert_eq!((state, weights, xi), (whole.state, whole.weights, whole.xi), "{companion:?}");
            }
        }
    }
}

#[test]
fn companions_are_an_euler_step_and_a_full_step() {
    for case in cases() {
        let row = case.samples * case.problem.parameters();
        let solve = |method, grid: &[f64], weights: &[f64]| {
            let problem = Problem::new(case.problem.drift().clone(), case.problem.dynamics(), method, grid.to_vec());
            let mut end = case.state.clone();
            Solver::<f64>::new(problem.unwrap()).forward(&inputs(&case, weights, &case.state), &mut end).unwrap();
            end
        };
        let grid = case.problem.grid();
        let (_, _, others) = attempts(&case, Companion::Euler, 0);
        match case.problem.dynamics() {
            Dynamics::FirstOrder => assert_eq!(others[0], solve(Method::Euler, &grid[..2], &case.weights[..row])),
            // The momentum has ξ h inside its field, which a first evaluation of a solve does not.
            Dynamics::Nesterov { .. } => {
                let half = case.state.len() / 2;
                assert_eq!(others[0][..half], solve(Method::Euler, &grid[..2], &case.weights[..row])[..half]);
            }
        }
        // In `attempts`, the second evaluation of the full step has the weights of the grid's second.
        let (_, _, others) = attempts(&case, Companion::FullStep, 0);
        assert_eq!(others[0], solve(case.problem.method(), &[grid[0], grid[2]], &case.weights[..2 * row]));
    }
}

#[test]
fn the_euler_step_approaches_the_midpoint_step_of_skip_quadratically() {
    let case = &cases()[2];
    let row = case.samples * case.problem.parameters();
    assert!(matches!(case.problem.dynamics(), Dynamics::Nesterov { .. }) && case.problem.method() == Method::Midpoint);
    let difference = |length: f64| {
        let solver = Solver::<f64>::new(case.problem.clone()).on_grid(vec![0.3, 0.3 + length]).unwrap();
        let weights = case.weights[..row].repeat(2);
        let (mut state, mut other) = (case.state.clone(), case.state.clone());
        let attempted = Attempted { companion: Companion::Euler, state: &mut state, other: &mut other };
        solver.attempt(&inputs(case, &weights, &case.state), attempted, None).unwrap();
        state.iter().zip(&other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    };
    let ratio = difference(1e-3) / difference(5e-4);
    assert!((3.9..4.1).contains(&ratio), "{ratio}");
}
