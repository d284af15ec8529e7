//! How long a training step takes, and what precision costs, on random data of the paper's shapes.

mod solve;
mod workload;

pub use solve::{SolveBench, SolvePoint};
pub use workload::Workload;

use std::time::{Duration, Instant};

use sdebnn::SolveError;
use sdebnn::engine::Engine;
use serde::Serialize;

use crate::error::Error;
use crate::experiment::ModelName;
use crate::machine;
use workload::Trainer;

/// How long steps are taken before they are timed, at least.
const WARM_UP: Duration = Duration::from_millis(500);

/// What to time.
#[derive(Clone, Debug)]
pub struct StepBench {
    /// The shapes.
    pub workload: Workload,
    /// The model.
    pub model: ModelName,
    /// Examples a step; `None` is the paper's.
    pub batch: Option<usize>,
    /// Timed training steps, and evaluation steps.
    pub steps: usize,
    /// Steps of the solver; the paper's if `None`.
    pub solver_steps: Option<usize>,
    /// What carries the activations.
    pub engine: Engine,
}

/// What was measured. The keys are those of common PyTorch step timings, and more.
#[derive(Clone, Debug, Serialize)]
pub struct StepTimes {
    /// The workload.
    pub workload: Workload,
    /// The model.
    pub model: ModelName,
    /// The engine.
    pub variant: Engine,
    /// Examples a step.
    pub batch: usize,
    /// Median seconds of a training step: forward, backward, Adam.
    pub train_step_s_median: f64,
    /// Fastest training step.
    pub train_step_s_min: f64,
    /// Median seconds of the same forward pass without gradients.
    pub eval_step_s_median: f64,
    /// Fastest evaluation step.
    pub eval_step_s_min: f64,
    /// Peak resident memory of this process.
    pub peak_rss_mib: u64,
    /// The loss of the first step.
    pub first_loss: f64,
    /// The loss of the second step.
    pub second_loss: f64,
    /// Always false: every frame of a sequence is run.
    pub scaled: bool,
    /// Cores that other processes kept busy meanwhile.
    pub others_cores: f64,
    /// Threads.
    pub threads: usize,
    /// Arithmetic of the drift network in a training step, per median second (the backward pass counts twice the forward pass).
    pub gflops: f64,
    /// The machine's fused multiply-add peak, measured just before, all threads.
    pub peak_gflops: f64,
    /// `gflops / peak_gflops`.
    pub share_of_peak: f64,
    /// Seconds of every timed training step.
    pub samples: Vec<f64>,
}

impl StepBench {
    /// Runs the benchmark.
    pub fn run(&self) -> Result<StepTimes, Error> {
        let solve = |error: SolveError| Error::Solve { model: self.model.key(), epoch: 0, error };
        let peak_gflops = sdebnn_kernels::peak_flops::<f32>(sdebnn_kernels::InstructionSet::Detect) * 1e-9;
        let mut trainer = Trainer::new(self)?;
        // The first steps fill the caches and the allocator, and the system takes its time to give each thread a core.
        let (mut losses, start) = (Vec::new(), Instant::now());
        while losses.len() < 2 || start.elapsed() < WARM_UP {
            losses.push(trainer.train_step().map_err(solve)?);
        }
        let (clock, other) = (Instant::now(), machine::others_cpu_seconds());
        let mut samples = Vec::new();
        for _ in 0..self.steps {
            let start = Instant::now();
            trainer.train_step().map_err(solve)?;
            samples.push(start.elapsed().as_secs_f64());
        }
        let others = (machine::others_cpu_seconds() - other) / clock.elapsed().as_secs_f64();
        trainer.eval_step().map_err(solve)?;
        let mut evaluations = Vec::new();
        for _ in 0..self.steps {
            let start = Instant::now();
            trainer.eval_step().map_err(solve)?;
            evaluations.push(start.elapsed().as_secs_f64());
        }
        let median = median(&samples);
        let gflops = 3e-9 * trainer.forward_flops() / median;
        Ok(StepTimes {
            workload: self.workload,
            model: self.model,
            variant: self.engine,
            batch: trainer.batch(),
            train_step_s_median: median,
            train_step_s_min: samples.iter().copied().fold(f64::INFINITY, f64::min),
            eval_step_s_median: self::median(&evaluations),
            eval_step_s_min: evaluations.iter().copied().fold(f64::INFINITY, f64::min),
            peak_rss_mib: machine::peak_rss_mib(),
            first_loss: losses[0],
            second_loss: losses[1],
            scaled: false,
            others_cores: others.max(0.0),
            threads: rayon::current_num_threads(),
            gflops,
            peak_gflops,
            share_of_peak: gflops / peak_gflops,
            samples,
        })
    }
}

/// Floating-point operations a second of one thread that does nothing else, measured in a moment.
pub fn peak_flops_of_a_thread() -> f64 {
    sdebnn_kernels::peak_flops_of_a_thread::<f32>(sdebnn_kernels::InstructionSet::Detect)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    crate::metrics::quantile(&sorted, 0.5)
}
