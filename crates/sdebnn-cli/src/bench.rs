use std::path::Path;

use anyhow::Result;
use sdebnn::engine::Engine;
use sdebnn_train::bench::{SolveBench, StepBench, StepTimes, Workload};
use sdebnn_train::experiment::ModelName;
use sdebnn_train::report::work_precision_figure;
use sdebnn_train::run_directory::RunDirectory;

use crate::arguments::{Common, EngineName, OneModel, SolveArguments, StepArguments, WorkloadName};
use crate::{print, use_threads};

/// `sdebnn bench step`.
pub fn bench_step(arguments: &StepArguments) -> Result<()> {
    use_threads(arguments.threads)?;
    let times = StepBench {
        workload: workload(arguments.workload),
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

fn workload(name: WorkloadName) -> Workload {
    match name {
        WorkloadName::Toy => Workload::Toy,
        WorkloadName::Mnist => Workload::Mnist,
        WorkloadName::Cifar10 => Workload::Cifar10,
        WorkloadName::Walker2d => Workload::Walker2d,
    }
}

/// `sdebnn bench solve`.
pub fn bench_solve(arguments: &SolveArguments) -> Result<()> {
    use_threads(arguments.common.threads)?;
    let workload = workload(arguments.workload);
    let name = serde_json::to_value(workload)?.as_str().unwrap_or_default().to_owned();
    let out = arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(format!("solve-{name}")));
    let directory = RunDirectory::make(&out)?;
    let speaks = !arguments.common.quiet && !arguments.common.json;
    let (batch, paths) = (arguments.batch as usize, arguments.paths as usize);
    let mut csv = String::from("model,method,controller,setting,drift_evaluations,seconds,error\n");
    let mut all = Vec::new();
    for &model in arguments.model.names() {
        if speaks {
            eprintln!("{}: method, controller, steps or tolerance, drift evaluations, seconds, error", model.title());
        }
        let points = SolveBench { workload, model, batch, paths }.run(|p| {
            if speaks {
                eprintln!(
                    "  {:<9} {:<13} {:>7}  {:>7.1}  {:>9.5}  {:.2e}",
                    p.method.key(),
                    p.controller.key(),
                    p.setting,
                    p.evaluations,
                    p.seconds,
                    p.error
                );
            }
        })?;
        for p in &points {
            let (method, controller) = (p.method.key(), p.controller.key());
            csv += &format!(
                "{},{method},{controller},{},{},{},{}\n",
                model.key(),
                p.setting,
                p.evaluations,
                p.seconds,
                p.error
            );
        }
        let title = format!("{}, {name}: error and work of a solve", model.title());
        work_precision_figure::write(&title, &points, &directory, &format!("work-precision-{}", model.key()))?;
        all.extend(points);
    }
    directory.write("work-precision.csv", csv.as_bytes())?;
    match &arguments.common {
        Common { json: true, .. } => print(&(serde_json::to_string(&all)? + "\n")),
        Common { quiet: true, .. } => Ok(()),
        _ => print(&format!("numbers: {}\n", directory.file("work-precision.csv").display())),
    }
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
