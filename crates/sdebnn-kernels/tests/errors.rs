//! What a caller can get wrong is an error that says so.

use sdebnn_kernels::{
    Activation, Drift, Dynamics, Error, Gradients, Inputs, Method, Problem, Residual, Solver, TimeInput,
};

fn dense(sizes: &[usize]) -> Drift {
    Drift::Dense { sizes: sizes.to_vec(), activation: Activation::Tanh, time: TimeInput::None }
}

fn conv(shape: [usize; 3], blocks: &[usize]) -> Drift {
    Drift::Conv { shape, width: 4, blocks: blocks.to_vec(), activation: Activation::Tanh }
}

fn problem(drift: Drift, dynamics: Dynamics, grid: &[f64]) -> Result<Problem, Error> {
    Problem::new(drift, dynamics, Method::Midpoint, grid.to_vec())
}

#[test]
fn impossible_problems() {
    let first = Dynamics::FirstOrder;
    let nesterov = |squash| Dynamics::Nesterov { residual: Residual::Skip, squash };
    let unit = [0.0, 1.0];
    let error = |drift, dynamics, grid: &[f64]| problem(drift, dynamics, grid).unwrap_err();
    assert!(matches!(error(dense(&[3]), first, &unit), Error::DenseSizes { .. }));
    assert!(matches!(error(dense(&[3, 0, 3]), first, &unit), Error::DenseSizes { .. }));
    assert_eq!(error(dense(&[3, 4]), first, &unit), Error::DriftSize { first: 3, last: 4 });
    assert!(matches!(error(conv([0, 4, 4], &[1]), first, &unit), Error::ConvSizes { .. }));
    assert!(matches!(error(conv([1, 4, 4], &[1, 0]), first, &unit), Error::ConvSizes { .. }));
    assert_eq!(error(conv([1, 6, 4], &[1, 1]), first, &unit), Error::OddImage { group: 1, height: 3, width: 2 });
    assert_eq!(error(dense(&[3, 3]), first, &[0.0]), Error::ShortGrid { points: 1 });
    assert_eq!(error(dense(&[3, 3]), first, &[0.0, 1.0, 1.0]), Error::GridOrder { index: 2, time: 1.0 });
    assert!(matches!(error(dense(&[3, 3]), first, &[0.0, f64::NAN]), Error::GridOrder { index: 1, .. }));
    assert_eq!(error(dense(&[3, 3]), nesterov(Activation::Tanh), &[-1.0, 1.0]), Error::NegativeTime { start: -1.0 });
    let squash = Activation::Identity;
    assert_eq!(error(dense(&[3, 3]), nesterov(squash), &unit), Error::UnboundedSquash { squash });
    assert!(problem(dense(&[3, 3]), nesterov(squash), &[0.1, 1.0]).is_ok());
}

#[test]
fn slices_of_the_wrong_length() {
    let problem = problem(dense(&[2, 3, 2]), Dynamics::FirstOrder, &[0.0, 1.0]).unwrap();
    let weights = vec![0.1; problem.evaluations() * problem.parameters()];
    let solver = Solver::<f64>::new(problem);
    let state = [1.0; 4];
    let inputs = Inputs { samples: 1, batch: 2, weights: &weights, state: &state, xi: 0.0, time_scale: None };
    let mut last = [0.0; 4];
    let wrong = |what, expected, actual| Err(Error::Length { what, expected, actual });
    assert_eq!(solver.forward(&Inputs { weights: &weights[1..], ..inputs }, &mut last), wrong("weights", 34, 33));
    assert_eq!(solver.forward(&Inputs { state: &state[1..], ..inputs }, &mut last), wrong("the initial state", 4, 3));
    let scaled = Inputs { time_scale: Some(&state), ..inputs };
    assert_eq!(solver.forward(&scaled, &mut last), wrong("the time scale", 2, 4));
    assert_eq!(solver.forward(&inputs, &mut last[1..]), wrong("the final state", 4, 3));
    assert_eq!(solver.forward(&Inputs { batch: 0, ..inputs }, &mut last), Err(Error::Empty { samples: 1, batch: 0 }));

    let (mut d_state, mut d_weights, mut d_xi) = ([0.0; 2], vec![0.0; weights.len()], 0.0);
    let tape = solver.record(&inputs, &mut last).unwrap();
    let fewer = Inputs { batch: 1, state: &state[..2], ..inputs };
    let gradients = Gradients { state: &mut d_state, weights: &mut d_weights, xi: &mut d_xi };
    let foreign = Err(Error::ForeignTape { recorded: (1, 2), requested: (1, 1) });
    assert_eq!(solver.backward(&fewer, tape, &state[..2], gradients), foreign);
}
