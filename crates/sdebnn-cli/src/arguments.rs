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
