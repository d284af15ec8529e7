//! Runs on sequences: what is said of them, and forecasts.

use anyhow::Result;
use sdebnn_train::experiment::sequences::{self, ForecastOptions, RunEvaluation, SequencesSummary};
use sdebnn_train::run_directory::RunDirectory;
use sdebnn_train::trainer::Split;
use serde_json::json;

use crate::arguments::EvalArguments;
use crate::data_directory;
use crate::train::report;

/// What is said of a finished run.
pub fn summary_text(s: &SequencesSummary) -> String {
    format!(
        "\ntest MSE {:.4}   of no change {:.4}   NFE {:.0} a gap, {:.0} a window\n\
         {} epochs in {:.0} s, {} parameters, {} weight paths\n",
        s.mse, s.no_change, s.nfe_drift, s.nfe_drift_per_sequence, s.epochs, s.cost.seconds, s.parameters, s.samples
    )
}

/// Where `sdebnn eval` writes: the run, if nothing else is said.
fn directory(arguments: &EvalArguments) -> Result<RunDirectory> {
    let path = arguments.out.as_ref().unwrap_or(&arguments.run);
    Ok(RunDirectory::make(path)?)
}

/// `sdebnn eval` of a run on sequences.
pub fn evaluate(arguments: &EvalArguments, split: Split) -> Result<()> {
    let directory = directory(arguments)?;
    let data = data_directory(arguments.data.as_ref());
    let samples = arguments.samples.map(|s| s as usize);
    let found = sequences::evaluate(&arguments.run, &arguments.set, data.as_deref(), split, samples, &directory)?;
    let RunEvaluation { windows, mse, no_change, nfe, gaps, samples } = found;
    let per_sequence = nfe.nfe_drift * gaps as f64;
    let json = json!({
        "split": split.key(), "count": windows, "mse": mse, "no_change": no_change, "nfe_drift": nfe.nfe_drift,
        "nfe_drift_per_sequence": per_sequence, "samples": samples,
    });
    report(&arguments.common, &json, || {
        format!(
            "{windows} {} windows, {samples} weight paths, NFE {:.0} a gap, {per_sequence:.0} a window\n  mse       {mse:.4}\n  \
             no change {no_change:.4}\ngradient norms: {}\n",
            split.key(),
            nfe.nfe_drift,
            directory.file("gradient_norms.csv").display()
        )
    })
}

/// `sdebnn eval --forecast`.
pub fn forecast(arguments: &EvalArguments, ahead: usize) -> Result<()> {
    let directory = directory(arguments)?;
    let data = data_directory(arguments.data.as_ref());
    let samples = arguments.samples.map(|s| s as usize);
    let options = ForecastOptions { ahead, window: arguments.window, samples };
    let found = sequences::forecast(&arguments.run, &arguments.set, data.as_deref(), options)?;
    found.write(&directory)?;
    let file = |name: &str| directory.file(name).display().to_string();
    let json = json!({
        "window": arguments.window, "first": found.first, "ahead": ahead, "known": found.truth.len(),
        "samples": found.samples, "csv": file("forecast.csv"), "figure": file("forecast.png"),
    });
    report(&arguments.common, &json, || {
        format!(
            "{ahead} frames after test window {}, {} weight paths; the truth is known of {}\nnumbers: {}\nfigure: {}\n",
            arguments.window,
            found.samples,
            found.truth.len(),
            file("forecast.csv"),
            file("forecast.png")
        )
    })
}
