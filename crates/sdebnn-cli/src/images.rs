//! Runs on images: what is said of them, and `sdebnn reproduce mnist|cifar10`.

use anyhow::Result;
use sdebnn_train::experiment::grid::Budget;
use sdebnn_train::experiment::images::paper::{self, PaperResult};
use sdebnn_train::experiment::images::{self, ImageSet, ImagesSummary, RunEvaluation};
use sdebnn_train::report::curve_figure::{Curve, CurveFigure};
use sdebnn_train::run_directory::RunDirectory;
use sdebnn_train::trainer::Split;
use serde_json::{Map, Value, json};

use crate::arguments::{EvalArguments, GridArguments};
use crate::grid::{self, Cell, by_epoch};
use crate::train::report;
use crate::{data_directory, use_threads};

/// What is said of a finished run.
pub fn summary_text(s: &ImagesSummary) -> String {
    format!(
        "\naccuracy {:.2} %   NLL {:.4}   Brier {:.4}   ECE {:.4}   AUC {:.2} %   NFE {:.0}\n\
         {} epochs in {:.0} s, {} parameters, {} weight paths\n",
        100.0 * s.accuracy,
        s.nll,
        s.brier,
        s.ece,
        100.0 * s.auc,
        s.nfe_drift,
        s.epochs,
        s.seconds,
        s.parameters,
        s.samples
    )
}

/// `sdebnn eval` of a run on images.
pub fn evaluate(arguments: &EvalArguments, split: Split) -> Result<()> {
    let images_of = match split {
        Split::Test => "test images",
        Split::Validation => "validation images",
    };
    let data = data_directory(arguments.data.as_ref());
    let samples = arguments.samples.map(|s| s as usize);
    let found = images::evaluate(&arguments.run, &arguments.set, data.as_deref(), split, samples)?;
    let RunEvaluation { classification, values, nfe, samples } = &found;
    let bins: Vec<Value> = classification
        .reliability()
        .iter()
        .map(|bin| json!({"count": bin.count, "confidence": bin.confidence, "accuracy": bin.accuracy}))
        .collect();
    let mut json =
        Map::from_iter([("split".into(), split.key().into()), ("count".into(), classification.count().into())]);
    json.extend(values.iter().map(|(key, value)| (key.to_string(), Value::from(*value))));
    json.extend([("nfe_drift".into(), nfe.nfe_drift.into()), ("samples".into(), (*samples).into())]);
    json.insert("reliability".into(), bins.into());
    report(&arguments.common, &Value::Object(json), || {
        let mut text =
            format!("{} {images_of}, {samples} weight paths, NFE {:.0}\n", classification.count(), nfe.nfe_drift);
        for (key, value) in values {
            text += &format!("  {key:<9} {value:.4}\n");
        }
        text += "\nconfidence   images   mean confidence   accuracy\n";
        for (i, bin) in classification.reliability().iter().enumerate().filter(|(_, bin)| bin.count > 0) {
            let edge = |i: usize| i as f64 / classification.reliability().len() as f64;
            text += &format!(
                "{:.2} to {:.2} {:>8} {:>17.3} {:>10.3}\n",
                edge(i),
                edge(i + 1),
                bin.count,
                bin.confidence,
                bin.accuracy
            );
        }
        text
    })
}

/// `sdebnn reproduce mnist|cifar10`.
pub fn reproduce(set: ImageSet, name: &str, arguments: &GridArguments) -> Result<()> {
    use_threads(arguments.common.threads)?;
    let (budget, out) = (arguments.budget(), arguments.directory(name));
    let dir = data_directory(arguments.data.as_ref()).unwrap_or_else(|| "data".into());
    let stands_in = budget == Budget::Smoke && images::is_missing(set, &dir);
    if stands_in && arguments.speaks() {
        eprintln!("{name} is not in {}: drawn digits stand in for it", dir.display());
    }
    let cells = grid::reproduce(arguments, &out, |model, solver, seed| {
        let config = paper::config(set, budget, model, solver, seed, &arguments.set)?;
        Ok(if stands_in { paper::with_digits(&config) } else { config })
    })?;
    let set = if stands_in { ImageSet::Digits } else { set };
    let root = RunDirectory::at(&out);
    figure(set, &cells)?.write(&root, "accuracy")?;
    let table = table(set, budget.key(), &cells);
    root.write("table.md", table.as_bytes())?;
    let json = cells.iter().map(Cell::json).collect();
    report(&arguments.common, &Value::Array(json), || {
        format!("\n{table}\nfigure: {}\n", out.join("accuracy.png").display())
    })
}

fn figure(set: ImageSet, cells: &[Cell<ImagesSummary>]) -> Result<CurveFigure<'static>> {
    let curve = |cell: &Cell<ImagesSummary>| -> Result<Curve> {
        let accuracy = by_epoch(&cell.metrics()?, "test_accuracy");
        let points = accuracy.into_iter().map(|(epoch, accuracy)| (epoch, 100.0 * accuracy)).collect();
        Ok(Curve { model: cell.model, dashed: false, legend: cell.title(), points })
    };
    let title = match set {
        ImageSet::Mnist => "MNIST: test accuracy by epoch",
        ImageSet::Cifar10 => "CIFAR-10: test accuracy by epoch",
        ImageSet::Digits => "Drawn digits: test accuracy by epoch",
    };
    let curves = cells.iter().map(curve).collect::<Result<_>>()?;
    let (x_label, y_label) = ("epoch", "test accuracy, per cent");
    Ok(CurveFigure { title, x_label, y_label, log_y: false, curves, level: None })
}

/// Our numbers and the paper's, as Markdown.
fn table(set: ImageSet, budget: &str, cells: &[Cell<ImagesSummary>]) -> String {
    let mut text = format!(
        "| {budget} budget | epochs | accuracy % | AUC % | NLL | Brier | ECE | NFE (drift) | minutes | paper: accuracy % | AUC % | NLL |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    for cell in cells {
        let s = &cell.summary;
        text += &format!(
            "| {} | {} | {:.2} | {:.2} | {:.4} | {:.4} | {:.4} | {:.0} | {:.1} |",
            cell.title(),
            s.epochs,
            100.0 * s.accuracy,
            100.0 * s.auc,
            s.nll,
            s.brier,
            s.ece,
            s.nfe_drift,
            s.seconds / 60.0
        );
        text += &match paper::paper_result(set, cell.model, cell.solver) {
            Some(PaperResult { accuracy: (a, da), auc: (u, du), nll: (n, dn) }) => {
                format!(" {a:.2} ± {da:.2} | {u:.2} ± {du:.2} | {n:.4} ± {dn:.4} |\n")
            }
            None => " – | – | – |\n".into(),
        };
    }
    text
}
