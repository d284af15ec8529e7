//! Runs on sequences: what is said of them, forecasts, and `sdebnn reproduce walker2d`.

use anyhow::Result;
use sdebnn_train::experiment::grid::{Budget, SolverName};
use sdebnn_train::experiment::sequences::{
    self, ForecastOptions, RunEvaluation, SequencesSummary, gradient_norms, paper,
};
use sdebnn_train::report::curve_figure::{Curve, CurveFigure};
use sdebnn_train::run_directory::RunDirectory;
use sdebnn_train::trainer::Split;
use serde_json::{Value, json};

use crate::arguments::{EvalArguments, GridArguments};
use crate::grid::{self, Cell, by_epoch};
use crate::train::report;
use crate::{data_directory, use_threads};

/// What is said of a finished run.
pub fn summary_text(s: &SequencesSummary) -> String {
    format!(
        "\ntest MSE {:.4}   of no change {:.4}   NFE {:.0} a gap, {:.0} a window\n\
         {} epochs in {:.0} s, {} parameters, {} weight paths\n",
        s.mse, s.no_change, s.nfe_drift, s.nfe_drift_per_sequence, s.epochs, s.seconds, s.parameters, s.samples
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

/// `sdebnn reproduce walker2d`.
pub fn reproduce(arguments: &GridArguments) -> Result<()> {
    use_threads(arguments.common.threads)?;
    let (budget, out) = (arguments.budget(), arguments.directory("walker2d"));
    let dir = data_directory(arguments.data.as_ref()).unwrap_or_else(|| "data".into());
    let stands_in = budget == Budget::Smoke && sequences::is_missing(&dir);
    if stands_in && arguments.speaks() {
        eprintln!("walker2d is not in {}: drawn walks stand in for it", dir.display());
    }
    let cells = grid::reproduce(arguments, &out, |model, solver, seed| {
        let config = paper::config(budget, model, solver, seed, &arguments.set)?;
        Ok(if stands_in { paper::with_walks(&config) } else { config })
    })?;
    let root = RunDirectory::at(&out);
    let set = if stands_in { "Drawn walks" } else { "Walker2D" };
    figures(set, &cells, &root)?;
    root.write("metrics.csv", metrics(&cells)?.as_bytes())?;
    let table = table(budget.key(), &cells);
    root.write("table.md", table.as_bytes())?;
    let json = cells.iter().map(Cell::json).collect();
    report(&arguments.common, &Value::Array(json), || {
        let figures =
            ["test_loss.png", "nfe.png", "gradient_norms.png"].map(|name| out.join(name).display().to_string());
        format!("\n{table}\nfigures: {}\n", figures.join(", "))
    })
}

/// Test loss by epoch, function evaluations by epoch, and the gradients of the hidden state by the time to the end.
fn figures(set: &str, cells: &[Cell<SequencesSummary>], root: &RunDirectory) -> Result<()> {
    // Fixed steps have the same number of evaluations in every epoch: where there are others, those are shown.
    let any_adaptive = cells.iter().any(|cell| cell.solver == SolverName::Adaptive);
    let (mut losses, mut nfe, mut norms) = (Vec::new(), Vec::new(), Vec::new());
    for cell in cells {
        let (metrics, adaptive) = (cell.metrics()?, cell.solver == SolverName::Adaptive);
        let curve = |dashed, legend, points| Curve { model: cell.model, dashed, legend, points };
        losses.push(curve(adaptive, cell.title(), by_epoch(&metrics, "test_mse")));
        if adaptive == any_adaptive {
            nfe.push(curve(false, format!("{}, test", cell.title()), by_epoch(&metrics, "test_nfe_drift")));
            nfe.push(curve(true, format!("{}, training", cell.title()), by_epoch(&metrics, "nfe_drift")));
        }
        // Far from the end a gradient may be too small for 32 bits: 0, which has no logarithm.
        let rows = gradient_norms::read(&cell.out)?.into_iter().filter(|row| row.norm > 0.0);
        let points = rows.map(|row| (row.time_to_end, row.norm.log10())).collect();
        norms.push(curve(adaptive, cell.title(), points));
    }
    let no_change = cells.first().map(|cell| ("predicting no change", cell.summary.no_change));
    CurveFigure {
        title: &format!("{set}: test loss by epoch"),
        x_label: "epoch",
        y_label: "mean squared error",
        log_y: true,
        curves: losses,
        level: no_change,
    }
    .write(root, "test_loss")?;
    CurveFigure {
        title: &format!("{set}: function evaluations by epoch"),
        x_label: "epoch",
        y_label: "drift evaluations a gap",
        log_y: false,
        curves: nfe,
        level: None,
    }
    .write(root, "nfe")?;
    CurveFigure {
        title: &format!("{set}: gradient of the last frame's loss"),
        x_label: "T − t, frames",
        y_label: "log10 of the state's gradient norm",
        // A logarithmic axis of the plotting library ends at 1e-10.
        log_y: false,
        curves: norms,
        level: None,
    }
    .write(root, "gradient_norms")?;
    Ok(())
}

/// The metrics of all runs as CSV.
fn metrics(cells: &[Cell<SequencesSummary>]) -> Result<String> {
    let keys = ["loss", "kl", "test_mse", "validation_mse", "nfe_drift", "test_nfe_drift", "seconds"];
    let mut text = format!("model,solver,seed,epoch,{}\n", keys.join(","));
    for cell in cells {
        for row in cell.metrics()? {
            let number = |key: &&str| row.get(*key).map_or(String::new(), Value::to_string);
            let numbers: Vec<String> = keys.iter().map(number).collect();
            let (model, solver, epoch) = (cell.model.key(), cell.solver.key(), number(&"epoch"));
            text += &format!("{model},{solver},{},{epoch},{}\n", cell.seed, numbers.join(","));
        }
    }
    Ok(text)
}

/// Our numbers and the paper's, as Markdown.
fn table(budget: &str, cells: &[Cell<SequencesSummary>]) -> String {
    let mut text = format!(
        "| {budget} budget | epochs | test MSE | of no change | NFE a gap (drift) | NFE a window | minutes | paper: NFE (drift + diffusion) |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for cell in cells {
        let s = &cell.summary;
        let nfe = paper::paper_nfe(cell.model, cell.solver).map_or("–".into(), |nfe| format!("about {nfe}"));
        text += &format!(
            "| {} | {} | {:.4} | {:.4} | {:.1} | {:.0} | {:.1} | {nfe} |\n",
            cell.title(),
            s.epochs,
            s.mse,
            s.no_change,
            s.nfe_drift,
            s.nfe_drift_per_sequence,
            s.seconds / 60.0
        );
    }
    text
}
