//! Whole solves at the shapes of the usual experiments, forward only and forward with backward, on all threads.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sdebnn_kernels::{Activation, Drift, Dynamics, Gradients, Inputs, Method, Problem, Residual, Solver, TimeInput};

fn solves(criterion: &mut Criterion) {
    let conv = |shape, width, blocks, activation| Drift::Conv { shape, width, blocks, activation };
    let dense = |sizes: &[usize], activation, time| Drift::Dense { sizes: sizes.to_vec(), activation, time };
    let cases = [
        ("toy", dense(&[3, 32, 32, 3], Activation::Swish, TimeInput::Squash), 20, 10, 50),
        ("walker2d, one of 64 calls", dense(&[24, 24, 24, 24], Activation::Tanh, TimeInput::None), 50, 1, 256),
        ("mnist", conv([3, 28, 28], 32, vec![1], Activation::Swish), 20, 1, 128),
        ("cifar10", conv([5, 32, 32], 64, vec![1, 1, 1], Activation::Mish), 20, 1, 128),
    ];
    for (name, drift, steps, samples, batch) in cases {
        let dynamics = Dynamics::Nesterov { residual: Residual::Skip, squash: Activation::Tanh };
        let grid = (0..=steps).map(|i| f64::from(i) / f64::from(steps)).collect();
        let problem = Problem::new(drift, dynamics, Method::Midpoint, grid).expect("a valid problem");
        let flops = problem.flops_per_evaluation() * problem.evaluations() * samples * batch;
        let wave = |count: usize, size: f32| (0..count).map(|i| size * (i as f32).sin()).collect::<Vec<f32>>();
        let weights = wave(problem.evaluations() * samples * problem.parameters(), 0.1);
        let state = wave(problem.components() * samples * batch * problem.features(), 1.0);
        let solver = Solver::<f32>::new(problem);
        let inputs = Inputs { samples, batch, weights: &weights, state: &state, xi: 1.0, time_scale: None };
        let (mut last, mut d_state, mut d_weights, mut d_xi) = (state.clone(), state.clone(), weights.clone(), 0.0);
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10);
        group.throughput(Throughput::Elements(flops as u64));
        group.bench_function("forward", |bencher| {
            bencher.iter(|| solver.forward(&inputs, &mut last).expect("matching lengths"));
        });
        group.throughput(Throughput::Elements(3 * flops as u64));
        group.bench_function("forward and backward", |bencher| {
            bencher.iter(|| {
                let tape = solver.record(&inputs, &mut last).expect("matching lengths");
                let gradients = Gradients { state: &mut d_state, weights: &mut d_weights, xi: &mut d_xi };
                solver.backward(&inputs, tape, &last, gradients).expect("matching lengths");
            });
        });
        group.finish();
    }
}

criterion_group!(benches, solves);
criterion_main!(benches);
