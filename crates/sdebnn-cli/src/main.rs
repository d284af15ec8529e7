//! The command `sdebnn`.

mod arguments;
mod bench;
mod data;
mod images;
mod progress;
mod report;
mod reproduce;
mod sequences;
mod stop;
mod toy;
mod train;

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command, Subject};
use bench::{bench_solve, bench_step};

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
        Command::Reproduce(arguments) => reproduce::reproduce(&arguments),
        Command::Report(arguments) => report::make(&arguments),
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

/// The threads that were asked for, or one for each core. This one is among them: handing every piece of parallel work to others,
/// and waiting for them, takes longer than many a piece.
fn use_threads(threads: Option<u32>) -> Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0) as usize).use_current_thread();
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
