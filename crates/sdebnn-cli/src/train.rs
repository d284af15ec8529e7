//! `sdebnn train` and `sdebnn eval`: what the experiments share. The data set of a configuration decides which it is of.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sdebnn_train::experiment::ModelName;
use sdebnn_train::experiment::run::{AnyExperiment, Experiment, FAILURE};
use sdebnn_train::run_directory::RunDirectory;
use sdebnn_train::trainer::Split;
use serde_json::Value;

use crate::arguments::{Common, EvalArguments, OneModel, SplitName, TrainArguments};
use crate::progress::TrainProgress;
use crate::stop::{self, Stopped};
use crate::{data_directory, images, print, sequences, toy, use_threads};

/// `sdebnn train`.
pub fn train(arguments: &TrainArguments) -> Result<()> {
    if arguments.child {
        stop::with_parent();
    }
    let path = &arguments.config;
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut settings = arguments.set.clone();
    settings.extend(arguments.limit_train.map(|n| format!("data.limit_train={n}")));
    settings.extend(arguments.limit_test.map(|n| format!("data.limit_test={n}")));
    match AnyExperiment::read(&path.display().to_string(), &text, &settings)? {
        AnyExperiment::Toy(config) => train_on(arguments, config, toy::summary_text),
        AnyExperiment::Images(config) => train_on(arguments, config, images::summary_text),
        AnyExperiment::Sequences(config) => train_on(arguments, config, sequences::summary_text),
    }
}

fn train_on<E: Experiment>(
    arguments: &TrainArguments,
    mut config: E,
    summary_text: impl FnOnce(&E::Summary) -> String,
) -> Result<()> {
    use_threads(arguments.common.threads)?;
    stop::flag()?;
    if let Some(model) = arguments.model {
        config = config.with_model(match model {
            OneModel::SdeBnn => ModelName::SdeBnn,
            OneModel::Nesterov => ModelName::Nesterov,
        });
    }
    let name = arguments.config.file_stem().map_or("run".into(), |stem| stem.to_string_lossy().into_owned());
    let out = arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(name));
    let directory = config.open(&out, arguments.resume)?;
    let summary = match run(&config, &directory, arguments.data.as_ref(), &arguments.common) {
        Err(error) => {
            // Another process's run is not ours to speak of. What went wrong first is what the user is told.
            if !matches!(error.downcast_ref(), Some(sdebnn_train::Error::RunInUse { .. })) {
                let _ = directory.write(FAILURE, format!("{error:#}\n").as_bytes());
            }
            return Err(error);
        }
        Ok(summary) => summary,
    };
    let Some(summary) = summary else {
        if !arguments.child {
            let resume = (!arguments.resume).then(|| "--resume".into());
            let command: Vec<String> = std::env::args().chain(resume).map(|word| quoted(&word)).collect();
            eprintln!("saved in {}; to go on:\n  {}", out.display(), command.join(" "));
        }
        return Err(Stopped.into());
    };
    report(&arguments.common, &serde_json::to_value(&summary)?, || {
        format!("{}\nnumbers: {}\n", summary_text(&summary), out.join("summary.json").display())
    })
}

/// A word of a command as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if word.chars().all(plain) && !word.is_empty() { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Trains in a directory, with progress.
fn run<E: Experiment>(
    config: &E,
    directory: &RunDirectory,
    data: Option<&PathBuf>,
    common: &Common,
) -> Result<Option<E::Summary>> {
    // What went wrong before may go well now.
    let failure = directory.file(FAILURE);
    if failure.exists() {
        std::fs::remove_file(&failure).with_context(|| format!("cannot remove {}", failure.display()))?;
    }
    let mut progress = TrainProgress::new(common.quiet || common.json, common.verbose);
    let data = data_directory(data);
    Ok(config.train(directory, data.as_deref(), stop::flag()?, &mut progress)?)
}

/// `sdebnn eval`.
pub fn evaluate(arguments: &EvalArguments) -> Result<()> {
    use_threads(arguments.common.threads)?;
    let split = match arguments.split {
        SplitName::Test => Split::Test,
        SplitName::Validation => Split::Validation,
    };
    let run = arguments.run.display();
    match (AnyExperiment::of_run(&arguments.run)?, arguments.forecast) {
        (AnyExperiment::Toy(_), _) => {
            bail!("{run} is a run of the toy experiment: its summary.json has its evaluation")
        }
        (AnyExperiment::Images(_), None) => images::evaluate(arguments, split),
        (AnyExperiment::Images(_), Some(_)) => bail!("{run} is a run on images: --forecast is for sequences"),
        (AnyExperiment::Sequences(_), None) => sequences::evaluate(arguments, split),
        (AnyExperiment::Sequences(_), Some(ahead)) => sequences::forecast(arguments, ahead as usize),
    }
}

/// Prints a result as one line of JSON, or for people, or not at all.
pub fn report(common: &Common, json: &Value, text: impl FnOnce() -> String) -> Result<()> {
    match common {
        Common { json: true, .. } => print(&format!("{json}\n")),
        Common { quiet: true, .. } => Ok(()),
        _ => print(&text()),
    }
}
