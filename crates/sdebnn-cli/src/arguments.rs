use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Continuous-depth Bayesian neural networks: SDE-BNN and Nesterov-SDEBNN.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:
  sdebnn reproduce toy                          the paper's 1D regression, both models
  sdebnn completions bash > sdebnn.bash         completions for your shell"
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run an experiment of the paper.
    #[command(after_help = "Examples:
  sdebnn reproduce toy --out runs/toy
  sdebnn reproduce toy --model nesterov --seed 7 --out runs/toy-7
  sdebnn reproduce toy --set train.epochs=200 --set model.solver.steps=10")]
    Reproduce {
        #[command(subcommand)]
        experiment: Experiment,
    },
    /// Measure the speed of this program.
    #[command(after_help = "Examples:
  sdebnn bench step --workload mnist --model nesterov
  sdebnn bench step --workload toy --model sde-bnn --steps 50 --json")]
    Bench {
        #[command(subcommand)]
        subject: Subject,
    },
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

#[derive(Subcommand)]
pub enum Experiment {
    /// 1D regression on a noisy curve with a gap in its inputs: predictive prior and posterior.
    ///
    /// Writes config.toml, metrics.jsonl, summary.json and, for each model, its figure as SVG and PNG.
    #[command(after_help = "Examples:
  sdebnn reproduce toy --out runs/toy
  sdebnn reproduce toy --model nesterov --seed 7 --out runs/toy-7
  sdebnn reproduce toy --set train.epochs=200 --set model.solver.steps=10
  sdebnn reproduce toy --json | jq .models.nesterov.rmse

The keys for --set are those of configs/toy.toml; a run's config.toml lists them all.")]
    Toy(ReproduceArguments),
}

#[derive(Subcommand)]
pub enum Subject {
    /// Time whole training steps (forward, backward, Adam) and evaluation steps on random data of the paper's shapes.
    #[command(after_help = "Examples:
  sdebnn bench step --workload mnist --model nesterov
  sdebnn bench step --workload cifar10 --model sde-bnn --batch 32 --steps 2
  sdebnn bench step --workload toy --model sde-bnn --steps 50 --json")]
    Step(StepArguments),
}

#[derive(Args)]
pub struct StepArguments {
    /// The shapes.
    #[arg(long, value_enum)]
    pub workload: WorkloadName,
    /// The model.
    #[arg(long, value_enum)]
    pub model: OneModel,
    /// Examples a step (default: the paper's).
    #[arg(long, value_name = "N")]
    pub batch: Option<usize>,
    /// Timed training steps, and evaluation steps.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: u32,
    /// Threads (default: all cores).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Option<u32>,
    /// What carries the activations.
    #[arg(long, value_enum, default_value_t = EngineName::Auto)]
    pub engine: EngineName,
    /// Print the measurements as one line of JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum WorkloadName {
    Toy,
    Mnist,
    Cifar10,
    Walker2d,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum OneModel {
    SdeBnn,
    Nesterov,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum EngineName {
    Auto,
    Reference,
    Fused,
}

#[derive(Args)]
pub struct ReproduceArguments {
    /// The models to train.
    #[arg(long, value_enum, default_value_t = Models::Both)]
    model: Models,
    /// The seed that decides everything random.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The directory for the results.
    #[arg(long, value_name = "DIR", default_value = "runs/toy")]
    pub out: PathBuf,
    /// Set a key of the configuration (may be repeated).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print nothing but errors.
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the summary as one line of JSON and nothing else.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Models {
    SdeBnn,
    Nesterov,
    Both,
}

impl ReproduceArguments {
    /// What the options set in the configuration, `--set` first, so that the others win.
    pub fn settings(&self) -> Vec<String> {
        let mut settings = self.set.clone();
        settings.extend(self.seed.map(|seed| format!("seed={seed}")));
        settings.extend(match self.model {
            Models::SdeBnn => Some("models=['sde-bnn']".into()),
            Models::Nesterov => Some("models=['nesterov']".into()),
            Models::Both => None,
        });
        settings
    }
}
