use anyhow::{Context, Result};
use sdebnn::engine::Engine;
use sdebnn_train::bench::{StepBench, StepTimes, Workload};
use sdebnn_train::experiment::ModelName;

use crate::arguments::{EngineName, OneModel, StepArguments, WorkloadName};

/// `sdebnn bench step`.
pub fn bench_step(arguments: &StepArguments) -> Result<()> {
    if let Some(threads) = arguments.threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads as usize);
        pool.build_global().context("cannot start the threads")?;
    }
    let times = StepBench {
        workload: match arguments.workload {
            WorkloadName::Toy => Workload::Toy,
            WorkloadName::Mnist => Workload::Mnist,
            WorkloadName::Cifar10 => Workload::Cifar10,
            WorkloadName::Walker2d => Workload::Walker2d,
        },
        model: match arguments.model {
            OneModel::SdeBnn => ModelName::SdeBnn,
            OneModel::Nesterov => ModelName::Nesterov,
        },
        batch: arguments.batch,
        steps: arguments.steps as usize,
        engine: match arguments.engine {
            EngineName::Auto => Engine::Auto,
            EngineName::Reference => Engine::Reference,
            EngineName::Fused => Engine::Fused,
        },
    }
    .run()?;
    if arguments.json {
        println!("{}", serde_json::to_string(&times)?);
    } else {
        print_times(&times);
    }
    Ok(())
}

fn print_times(t: &StepTimes) {
    println!(
        "training step    {:>10.5} s median  {:>10.5} s minimum  of {}",
        t.train_step_s_median,
        t.train_step_s_min,
        t.samples.len()
    );
    println!("evaluation step  {:>10.5} s median  {:>10.5} s minimum", t.eval_step_s_median, t.eval_step_s_min);
    println!("batch {}, {} threads, peak memory {} MiB", t.batch, t.threads, t.peak_rss_mib);
    println!(
        "{:.1} GFLOP/s of the drift network, {:.0} % of the machine's {:.0}",
        t.gflops,
        100.0 * t.share_of_peak,
        t.peak_gflops
    );
    if t.others_cores > 0.15 {
        println!("other processes kept {:.2} cores busy: run again on an idle machine", t.others_cores);
    }
}
