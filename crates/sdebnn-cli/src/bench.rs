use anyhow::Result;
use sdebnn::engine::Engine;
use sdebnn_train::bench::{StepBench, StepTimes, Workload};
use sdebnn_train::experiment::ModelName;

use crate::arguments::{EngineName, OneModel, StepArguments, WorkloadName};
use crate::{print, use_threads};

/// `sdebnn bench step`.
pub fn bench_step(arguments: &StepArguments) -> Result<()> {
    use_threads(arguments.threads)?;
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
        solver_steps: arguments.solver_steps.map(|n| n as usize),
        engine: match arguments.engine {
            EngineName::Auto => Engine::Auto,
            EngineName::Reference => Engine::Reference,
            EngineName::Fused => Engine::Fused,
        },
    }
    .run()?;
    print(&if arguments.json { serde_json::to_string(&times)? + "\n" } else { times_text(&times) })
}

fn times_text(t: &StepTimes) -> String {
    let mut text = format!(
        "training step    {:>10.5} s median  {:>10.5} s minimum  of {}\n\
         evaluation step  {:>10.5} s median  {:>10.5} s minimum\n\
         batch {}, {} threads, peak memory {} MiB\n\
         {:.1} GFLOP/s of the drift network, {:.0} % of the machine's {:.0}\n",
        t.train_step_s_median,
        t.train_step_s_min,
        t.samples.len(),
        t.eval_step_s_median,
        t.eval_step_s_min,
        t.batch,
        t.threads,
        t.peak_rss_mib,
        t.gflops,
        100.0 * t.share_of_peak,
        t.peak_gflops
    );
    if t.others_cores > 0.15 {
        text += &format!("other processes kept {:.2} cores busy: run again on an idle machine\n", t.others_cores);
    }
    text
}
