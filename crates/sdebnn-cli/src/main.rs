//! The command `sdebnn`.

mod arguments;
mod bench;
mod progress;

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser};
use sdebnn_train::experiment::toy::{self, ToyConfig, ToySummary};

use arguments::{Arguments, Command, Experiment, ReproduceArguments, Subject};
use bench::bench_step;
use progress::Progress;

/// Tensors come and go with every operation; glibc would hand their memory back to the system each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Reproduce { experiment: Experiment::Toy(arguments) } => reproduce_toy(&arguments),
        Command::Bench { subject: Subject::Step(arguments) } => bench_step(&arguments),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "sdebnn", &mut std::io::stdout());
            Ok(())
        }
    }
}

fn reproduce_toy(arguments: &ReproduceArguments) -> Result<()> {
    let config = ToyConfig::read(&arguments.settings())?;
    let summary = toy::run(&config, &arguments.out, &mut Progress::new(arguments.quiet || arguments.json))?;
    if arguments.json {
        println!("{}", serde_json::to_string(&summary)?);
    } else if !arguments.quiet {
        print_summary(&summary, arguments);
    }
    Ok(())
}

fn print_summary(summary: &ToySummary, arguments: &ReproduceArguments) {
    println!();
    println!("held-out points     RMSE     NLL  coverage 95 %  band: data    gap    NFE  seconds");
    for (name, m) in &summary.models {
        println!(
            "{name:<15} {:>8.4} {:>7.3} {:>14.1} {:>11.3} {:>6.3} {:>6.0} {:>8.1}",
            m.rmse,
            m.nll,
            100.0 * m.coverage95,
            m.band_data,
            m.band_gap,
            m.nfe_drift,
            m.seconds
        );
    }
    println!("The data's noise is {}. NFE counts the drift evaluations of a solve.", summary.noise);
    println!();
    for name in summary.models.keys() {
        println!("figure: {}", arguments.out.join(format!("{name}.png")).display());
    }
    println!("numbers: {}", arguments.out.join("summary.json").display());
}
