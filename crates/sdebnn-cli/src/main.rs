//! The command `sdebnn`.

mod arguments;
mod bench;
mod data;
mod grid;
mod images;
mod progress;
mod sequences;
mod stop;
mod train;

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};
use sdebnn_train::experiment::images::ImageSet;
use sdebnn_train::experiment::toy::{self, ToyConfig, ToySummary};

use arguments::{Arguments, Command, Experiment, ReproduceArguments, Subject};
use bench::{bench_solve, bench_step};
use progress::Progress;

/// Tensors come and go with every operation; glibc would hand their memory back to the system each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // It has said all there is to say.
        Err(error) if error.is::<stop::Stopped>() => ExitCode::from(stop::EXIT_CODE),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Reproduce { experiment: Experiment::Toy(arguments) } => reproduce_toy(&arguments),
        Command::Reproduce { experiment: Experiment::Mnist(arguments) } => {
            images::reproduce(ImageSet::Mnist, "mnist", &arguments)
        }
        Command::Reproduce { experiment: Experiment::Cifar10(arguments) } => {
            images::reproduce(ImageSet::Cifar10, "cifar10", &arguments)
        }
        Command::Reproduce { experiment: Experiment::Walker2d(arguments) } => sequences::reproduce(&arguments),
        Command::Train(arguments) => train::train(&arguments),
        Command::Eval(arguments) => train::evaluate(&arguments),
        Command::Data { action } => data::run(&action),
        Command::Bench { subject: Subject::Step(arguments) } => bench_step(&arguments),
        Command::Bench { subject: Subject::Solve(arguments) } => bench_solve(&arguments),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "sdebnn", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}

fn reproduce_toy(arguments: &ReproduceArguments) -> Result<()> {
    let config = ToyConfig::read(&arguments.settings())?;
    let summary = toy::run(&config, &arguments.out, &mut Progress::new(arguments.quiet || arguments.json))?;
    if arguments.json {
        print(&(serde_json::to_string(&summary)? + "\n"))
    } else if arguments.quiet {
        Ok(())
    } else {
        print(&summary_text(&summary, arguments))
    }
}

fn summary_text(summary: &ToySummary, arguments: &ReproduceArguments) -> String {
    let mut text =
        String::from("\nheld-out points     RMSE     NLL  coverage 95 %  band: data    gap    NFE  seconds\n");
    for (name, m) in &summary.models {
        text += &format!(
            "{name:<15} {:>8.4} {:>7.3} {:>14.1} {:>11.3} {:>6.3} {:>6.0} {:>8.1}\n",
            m.rmse,
            m.nll,
            100.0 * m.coverage95,
            m.band_data,
            m.band_gap,
            m.nfe_drift,
            m.seconds
        );
    }
    text += &format!("The data's noise is {}. NFE counts the drift evaluations of a solve.\n\n", summary.noise);
    for name in summary.models.keys() {
        text += &format!("figure: {}\n", arguments.out.join(format!("{name}.png")).display());
    }
    text + &format!("numbers: {}\n", arguments.out.join("summary.json").display())
}

/// The threads that were asked for.
fn use_threads(threads: Option<u32>) -> Result<()> {
    let Some(threads) = threads else { return Ok(()) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads as usize);
    pool.build_global().context("cannot start the threads")
}

/// Where the data sets are, if anything says so.
fn data_directory(option: Option<&PathBuf>) -> Option<PathBuf> {
    option.cloned().or_else(|| std::env::var_os("SDEBNN_DATA").filter(|dir| !dir.is_empty()).map(PathBuf::from))
}

/// Prints; a reader that has gone away (`| head`) is no error.
fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
