//! Times whole solves at the shapes of the usual experiments:
//! `cargo run --release --example speed [workload…]` with workloads `mnist`, `cifar10`, `walker2d`, `toy`.

use std::time::Instant;

use sdebnn_kernels::{
    Activation, Drift, Dynamics, Gradients, Inputs, Method, Problem, Residual, Settings, Solver, TimeInput,
};

struct Workload {
    name: &'static str,
    drift: Drift,
    steps: usize,
    samples: usize,
    batch: usize,
    /// Calls in a training step.
    calls: usize,
}

fn workloads() -> [Workload; 4] {
    let conv = |shape, width, blocks, activation| Drift::Conv { shape, width, blocks, activation };
    let dense = |sizes: &[usize], activation, time| Drift::Dense { sizes: sizes.to_vec(), activation, time };
    let mnist = conv([3, 28, 28], 32, vec![1], Activation::Swish);
    let cifar10 = conv([5, 32, 32], 64, vec![1, 1, 1], Activation::Mish);
    let walker2d = dense(&[24, 24, 24, 24], Activation::Tanh, TimeInput::None);
    let toy = dense(&[3, 32, 32, 3], Activation::Swish, TimeInput::Squash);
    [
        Workload { name: "mnist", drift: mnist, steps: 20, samples: 1, batch: 128, calls: 1 },
        Workload { name: "cifar10", drift: cifar10, steps: 20, samples: 1, batch: 128, calls: 1 },
        Workload { name: "walker2d", drift: walker2d, steps: 50, samples: 1, batch: 256, calls: 64 },
        Workload { name: "toy", drift: toy, steps: 20, samples: 10, batch: 50, calls: 1 },
    ]
}

fn main() -> Result<(), sdebnn_kernels::Error> {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let megabytes = std::env::var("TAPE_MIB").ok().and_then(|text| text.parse().ok()).unwrap_or(512usize);
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let instructions = sdebnn_kernels::InstructionSet::Detect;
    println!("peak: {:.1} GFLOP/s", 1e-9 * sdebnn_kernels::peak_flops::<f32>(instructions));
    for workload in workloads() {
        if chosen.is_empty() || chosen.iter().any(|name| name == workload.name) {
            run(&workload, megabytes << 20, rounds)?;
        }
    }
    Ok(())
}

fn run(workload: &Workload, tape_budget: usize, rounds: usize) -> Result<(), sdebnn_kernels::Error> {
    let Workload { name, drift, steps, samples, batch, calls } = workload;
    let dynamics = Dynamics::Nesterov { residual: Residual::Skip, squash: Activation::Tanh };
    let grid = (0..=*steps).map(|i| i as f64 / *steps as f64).collect();
    let problem = Problem::new(drift.clone(), dynamics, Method::Midpoint, grid)?;
    let evaluations = problem.evaluations();
    let flops = (problem.flops_per_evaluation() * samples * batch * evaluations * calls) as f64;
    let wave = |count: usize, size: f32| (0..count).map(|i| size * (i as f32 * 0.7).sin()).collect::<Vec<f32>>();
    let weights = wave(evaluations * samples * problem.parameters(), 0.1);
    let state = wave(problem.components() * samples * batch * problem.features(), 1.0);
    let settings = Settings { tape_budget, ..Settings::default() };
    let solver = Solver::<f32>::with_settings(problem, settings);
    let inputs =
        Inputs { samples: *samples, batch: *batch, weights: &weights, state: &state, xi: 1.0, time_scale: None };
    let mut last = state.clone();
    let (mut d_state, mut d_weights, mut d_xi) = (state.clone(), weights.clone(), 0.0);
    let [mut forward, mut record, mut backward] = [f64::INFINITY; 3];
    let mut tape_bytes = 0;
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..*calls {
            solver.forward(&inputs, &mut last)?;
        }
        forward = forward.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        let tapes = (0..*calls).map(|_| solver.record(&inputs, &mut last)).collect::<Result<Vec<_>, _>>()?;
        record = record.min(start.elapsed().as_secs_f64());
        tape_bytes = tapes.iter().map(|tape| tape.bytes()).sum::<usize>();
        let start = Instant::now();
        for tape in tapes {
            let gradients = Gradients { state: &mut d_state, weights: &mut d_weights, xi: &mut d_xi };
            solver.backward(&inputs, tape, &last, gradients)?;
        }
        backward = backward.min(start.elapsed().as_secs_f64());
    }
    let both = record + backward;
    println!(
        "{name}: forward {:.2} ms, record {:.2} ms, backward {:.2} ms; per evaluation forward {:.3} ms, both {:.3} ms; \
         forward {:.1} GFLOP/s, both {:.1} GFLOP/s (3 x forward); tape {} MiB; {} threads",
        1e3 * forward,
        1e3 * record,
        1e3 * backward,
        1e3 * forward / (evaluations * calls) as f64,
        1e3 * both / (evaluations * calls) as f64,
        1e-9 * flops / forward,
        3e-9 * flops / both,
        tape_bytes >> 20,
        rayon::current_num_threads(),
    );
    Ok(())
}
