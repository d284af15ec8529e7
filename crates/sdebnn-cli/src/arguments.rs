use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Continuous-depth Bayesian neural networks: SDE-BNN and Nesterov-SDEBNN.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:
  sdebnn reproduce toy                          the paper's 1D regression, both models
  sdebnn reproduce all --budget smoke           every experiment in small, and the report
  sdebnn train configs/digits.toml              a classifier of drawn digits, no download
  sdebnn data fetch mnist                       a data set, checked
  sdebnn reproduce mnist --budget quick         the paper's MNIST in a form for two cores
  sdebnn train configs/walks.toml               motion that is drawn; --set data.name=npy for your own
  sdebnn completions bash > sdebnn.bash         completions for your shell"
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run experiments of the paper and make the report.
    ///
    /// Plans the runs (models by solvers by seeds), shows how long they will take, makes those that are not finished, each in a process of its
    /// own, and writes report.html, figures/ and tables/ beside them. Stopped or killed, the same command goes on where it was. A run that
    /// fails is shown as failed; the others go on.
    #[command(after_help = REPRODUCE_HELP)]
    Reproduce(ReproduceArguments),
    /// Make the report from run directories alone.
    ///
    /// Finds all runs in the directories and below them. Writes report.html (one file, no network), figures/ (SVG and PNG) and tables/ (CSV and
    /// Markdown).
    #[command(after_help = "Examples:
  sdebnn report runs/all-quick
  sdebnn report runs/mnist-quick runs/cifar10-quick --out report")]
    Report(ReportArguments),
    /// Train a model as a configuration file says: on images, on sequences, on the toy curve.
    ///
    /// The run directory holds config.toml (every key), metrics.jsonl (a line an epoch), an event file for TensorBoard,
    /// checkpoints/ (safetensors) and, at the end, summary.json. A run that was stopped, or killed, goes on exactly where
    /// it was with --resume.
    #[command(after_help = "Examples:
  sdebnn train configs/digits.toml
  sdebnn train configs/mnist-quick.toml --data data --out runs/mnist
  sdebnn train configs/mnist-quick.toml --data data --out runs/mnist --resume
  sdebnn train configs/mnist.toml --model sde-bnn --set train.epochs=3 --limit-train 5000
  sdebnn train configs/walks.toml
  sdebnn train configs/walks.toml --set data.name=npy --data my-recordings --out runs/mine

Your own sequences are files *.npy in a folder, each an array [length, features] of floating-point numbers.

Ctrl-C finishes the step, saves, and prints the command that goes on.")]
    Train(TrainArguments),
    /// Evaluate a trained run: accuracy, NLL, Brier score, calibration; of sequences, the error, and forecasts.
    #[command(after_help = "Examples:
  sdebnn eval runs/digits
  sdebnn eval runs/mnist --samples 32 --json
  sdebnn eval runs/digits --split validation
  sdebnn eval runs/walks --forecast 32 --samples 50")]
    Eval(EvalArguments),
    /// Get and check data sets.
    #[command(after_help = "Examples:
  sdebnn data list
  sdebnn data fetch mnist --data data
  sdebnn data verify cifar10

The directory is --data, or SDEBNN_DATA, or ./data.")]
    Data {
        #[command(subcommand)]
        action: DataAction,
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

const REPRODUCE_HELP: &str = "Examples:
  sdebnn reproduce toy --out runs/toy
  sdebnn reproduce all --budget smoke                     minutes; needs no data sets
  sdebnn reproduce mnist --budget quick --data data --seeds 3
  sdebnn reproduce walker2d --solver both --dry-run
  sdebnn reproduce toy --model nesterov --seed 7 --set train.epochs=200 --out runs/toy-7
  sdebnn reproduce toy --json | jq '.[].summary.rmse'

Budgets: smoke, to see that it works (drawn digits and walks stand in for data sets that are missing); quick, for two cores, as
configs/*-quick.toml say; paper, as configs/{mnist,cifar10,walker2d}.toml say: days on two cores. The toy experiment is the paper's
in both. The keys for --set are those of the configurations; a run's config.toml lists them all.";

#[derive(Clone, Copy, ValueEnum)]
pub enum ExperimentName {
    /// 1D regression on a noisy curve with a gap: predictive prior and posterior.
    Toy,
    /// Handwritten digits.
    Mnist,
    /// Photographs.
    Cifar10,
    /// Recorded motion: the next frame.
    Walker2d,
    /// All of them.
    All,
}

#[derive(Args)]
pub struct ReproduceArguments {
    /// The experiment.
    #[arg(value_enum)]
    pub experiment: ExperimentName,
    /// How much to run.
    #[arg(long, value_enum, default_value_t = BudgetName::Quick)]
    pub budget: BudgetName,
    /// How steps are chosen: equal steps, or step doubling at the tolerance of the paper (default: fixed for the quick budget, both for others).
    #[arg(long, value_enum)]
    pub solver: Option<Solvers>,
    /// The models to train.
    #[arg(long, value_enum, default_value_t = Models::Both)]
    pub model: Models,
    /// How many seeds.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// The first of them.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..1 << 32))]
    pub seed: u64,
    /// Where the data sets are (default: SDEBNN_DATA, or ./data).
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The directory for the runs and the report (default: runs/EXPERIMENT-BUDGET).
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How many runs to make at the same time; they share the threads.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: u32,
    /// Print the plan and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Set a key of the configurations (may be repeated).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Args)]
pub struct ReportArguments {
    /// Directories with runs in them or below them.
    #[arg(value_name = "DIR", required = true)]
    pub directories: Vec<PathBuf>,
    /// Where the report goes (default: the first directory).
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the runs as one line of JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum BudgetName {
    Smoke,
    Quick,
    Paper,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Solvers {
    Fixed,
    Adaptive,
    Both,
}

#[derive(Args)]
pub struct Common {
    /// Threads (default: all cores). Results do not depend on them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Option<u32>,
    /// Print nothing but errors.
    #[arg(long, short, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print a line a step.
    #[arg(long, short)]
    pub verbose: bool,
    /// Print the result as one line of JSON and nothing else.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct TrainArguments {
    /// The configuration file.
    #[arg(value_name = "CONFIG.toml")]
    pub config: PathBuf,
    /// The model, in place of the configuration's.
    #[arg(long, value_enum)]
    pub model: Option<OneModel>,
    /// Set a key of the configuration (may be repeated).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Where the data sets are (default: SDEBNN_DATA, the configuration's data.dir, or ./data).
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The directory for the run (default: runs/NAME-OF-THE-CONFIGURATION).
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with the run that is in the directory.
    #[arg(long)]
    pub resume: bool,
    /// Run as a child: stop when a byte comes from the standard input, end when it closes.
    #[arg(long, hide = true)]
    pub child: bool,
    /// Images: use only the first N to train on.
    #[arg(long, value_name = "N")]
    pub limit_train: Option<usize>,
    /// Images: use only the first N to test on.
    #[arg(long, value_name = "N")]
    pub limit_test: Option<usize>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Args)]
pub struct EvalArguments {
    /// The directory of the run.
    pub run: PathBuf,
    /// Weight paths to average over (default: the configuration's).
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
    pub samples: Option<u32>,
    /// Which examples.
    #[arg(long, value_enum, default_value_t = SplitName::Test)]
    pub split: SplitName,
    /// Set a key of the run's configuration for this evaluation, such as model.solver.controller=embedded (may be repeated).
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Sequences: predict K frames beyond a test window, with bands, as forecast.csv, .svg and .png.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub forecast: Option<u32>,
    /// The test window of a forecast, from 0.
    #[arg(long, value_name = "I", default_value_t = 0, requires = "forecast")]
    pub window: usize,
    /// Sequences: where gradient norms or a forecast are written (default: the run).
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Where the data sets are (default: SDEBNN_DATA, the configuration's data.dir, or ./data).
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum SplitName {
    Test,
    Validation,
}

#[derive(Subcommand)]
pub enum DataAction {
    /// Download a data set, check it, and unpack it. A download that was cut off goes on where it was.
    Fetch(DataArguments),
    /// Read all of a data set and compare it with what was published.
    Verify(DataArguments),
    /// Show which data sets are there.
    List {
        /// Where to look (default: SDEBNN_DATA, or ./data).
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Print one line of JSON a data set.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub struct DataArguments {
    /// The data set.
    #[arg(value_enum)]
    pub set: DataName,
    /// Where to put or look for it (default: SDEBNN_DATA, or ./data).
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Print nothing but errors.
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum DataName {
    Mnist,
    Cifar10,
    Walker2d,
}

#[derive(Subcommand)]
pub enum Subject {
    /// Time whole training steps (forward, backward, Adam) and evaluation steps on random data of the paper's shapes.
    #[command(after_help = "Examples:
  sdebnn bench step --workload mnist --model nesterov
  sdebnn bench step --workload cifar10 --model sde-bnn --batch 32 --steps 2
  sdebnn bench step --workload toy --model sde-bnn --steps 50 --json")]
    Step(StepArguments),
    /// Solve in every way (methods, fixed and adaptive steps) and compare with a very fine solve on the same Brownian path.
    ///
    /// Writes work-precision.csv, and for each model its error over drift evaluations and over seconds as SVG and PNG.
    #[command(after_help = "Examples:
  sdebnn bench solve --workload toy
  sdebnn bench solve --workload mnist --batch 8 --paths 2 --out runs/solve-mnist")]
    Solve(SolveArguments),
}

#[derive(Args)]
pub struct SolveArguments {
    /// The shapes. Of walker2d, one gap.
    #[arg(long, value_enum)]
    pub workload: WorkloadName,
    /// The models.
    #[arg(long, value_enum, default_value_t = Models::Both)]
    pub model: Models,
    /// Examples.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub batch: u32,
    /// Weight paths over which errors and costs are averaged.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub paths: u32,
    /// Where the figures and the CSV go (default: runs/solve-WORKLOAD).
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
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
    /// Steps of the solver (default: the paper's).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub solver_steps: Option<u32>,
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

#[derive(Clone, Copy, ValueEnum)]
pub enum Models {
    SdeBnn,
    Nesterov,
    Both,
}
