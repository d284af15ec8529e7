//! `sdebnn train`, `sdebnn eval` and `sdebnn reproduce mnist|cifar10`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sdebnn_train::experiment::ModelName;
use sdebnn_train::experiment::images::paper::{self, Budget, PaperResult, SolverName};
use sdebnn_train::experiment::images::{self, ImageSet, ImagesConfig, ImagesSummary, RunEvaluation};
use sdebnn_train::report::curve_figure::CurveFigure;
use sdebnn_train::run_directory::RunDirectory;
use sdebnn_train::trainer::Split;
use serde_json::{Map, Value, json};

use crate::arguments::{
    BudgetName, Common, EvalArguments, ImagesArguments, Models, OneModel, Solvers, SplitName, TrainArguments,
};
use crate::progress::TrainProgress;
use crate::stop::{self, Stopped};
use crate::{data_directory, print, use_threads};

/// `sdebnn train`.
pub fn train(arguments: &TrainArguments) -> Result<()> {
    use_threads(arguments.common.threads)?;
    stop::flag()?;
    let path = &arguments.config;
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut settings = arguments.set.clone();
    settings.extend(arguments.limit_train.map(|n| format!("data.limit_train={n}")));
    settings.extend(arguments.limit_test.map(|n| format!("data.limit_test={n}")));
    let mut config = ImagesConfig::read(&path.display().to_string(), &text, &settings)?;
    if let Some(model) = arguments.model {
        config = config.with_model(name_of(model));
    }
    let name = path.file_stem().map_or("run".into(), |stem| stem.to_string_lossy().into_owned());
    let out = arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(name));
    let directory = images::open(&config, &out, arguments.resume)?;
    let summary = run(&config, &directory, arguments.data.as_ref(), &arguments.common)?;
    let Some(summary) = summary else {
        let mut command: Vec<String> = std::env::args().collect();
        if !arguments.resume {
            command.push("--resume".into());
        }
        eprintln!(
            "saved in {}; to go on:\n  {}",
            out.display(),
            command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
        );
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

fn run(
    config: &ImagesConfig,
    directory: &RunDirectory,
    data: Option<&PathBuf>,
    common: &Common,
) -> Result<Option<ImagesSummary>> {
    let mut progress = TrainProgress::new(common.quiet || common.json, common.verbose);
    let data = data_directory(data);
    Ok(images::train(config, directory, data.as_deref(), stop::flag()?, &mut progress)?)
}

fn report(common: &Common, json: &Value, text: impl FnOnce() -> String) -> Result<()> {
    match common {
        Common { json: true, .. } => print(&format!("{json}\n")),
        Common { quiet: true, .. } => Ok(()),
        _ => print(&text()),
    }
}

fn summary_text(s: &ImagesSummary) -> String {
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

/// `sdebnn eval`.
pub fn evaluate(arguments: &EvalArguments) -> Result<()> {
    use_threads(arguments.common.threads)?;
    let (split, images_of) = match arguments.split {
        SplitName::Test => (Split::Test, "test images"),
        SplitName::Validation => (Split::Validation, "validation images"),
    };
    let data = data_directory(arguments.data.as_ref());
    let samples = arguments.samples.map(|s| s as usize);
    let found = images::evaluate(&arguments.run, data.as_deref(), split, samples)?;
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

fn name_of(model: OneModel) -> ModelName {
    match model {
        OneModel::SdeBnn => ModelName::SdeBnn,
        OneModel::Nesterov => ModelName::Nesterov,
    }
}

/// One run of a grid with what came of it.
struct Cell {
    model: ModelName,
    solver: SolverName,
    seed: u64,
    out: PathBuf,
    summary: ImagesSummary,
}

/// `sdebnn reproduce mnist|cifar10`.
pub fn reproduce(set: ImageSet, name: &str, arguments: &ImagesArguments) -> Result<()> {
    use_threads(arguments.common.threads)?;
    let (budget, budget_name) = match arguments.budget {
        BudgetName::Smoke => (Budget::Smoke, "smoke"),
        BudgetName::Quick => (Budget::Quick, "quick"),
        BudgetName::Paper => (Budget::Paper, "paper"),
    };
    let out = arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(format!("{name}-{budget_name}")));
    let models: &[ModelName] = match arguments.model {
        Models::SdeBnn => &[ModelName::SdeBnn],
        Models::Nesterov => &[ModelName::Nesterov],
        Models::Both => &[ModelName::SdeBnn, ModelName::Nesterov],
    };
    let solvers: &[SolverName] = match arguments.solver {
        Solvers::Fixed => &[SolverName::Fixed],
        Solvers::Adaptive => &[SolverName::Adaptive],
        Solvers::Both => &[SolverName::Fixed, SolverName::Adaptive],
    };
    let dir = data_directory(arguments.data.as_ref()).unwrap_or_else(|| "data".into());
    let stands_in = budget == Budget::Smoke && images::is_missing(set, &dir);
    if stands_in && !arguments.common.quiet && !arguments.common.json {
        eprintln!("{name} is not in {}: drawn digits stand in for it", dir.display());
    }
    let mut cells = Vec::new();
    for (&solver, &model, seed) in
        solvers.iter().flat_map(|s| models.iter().flat_map(move |m| (0..arguments.seeds).map(move |seed| (s, m, seed))))
    {
        let mut config = paper::config(set, budget, model, solver, seed, &arguments.set)?;
        if stands_in {
            config = paper::with_digits(&config);
        }
        let out = out.join(format!("{}-{}-{seed}", model.key(), solver.key()));
        let summary = match images::finished(&config, &out)? {
            Some(summary) => summary,
            None => {
                if !arguments.common.quiet && !arguments.common.json {
                    eprintln!("{}, {} steps, seed {seed}", model.title(), solver.key());
                }
                let directory = images::open(&config, &out, true)?;
                let Some(summary) = run(&config, &directory, arguments.data.as_ref(), &arguments.common)? else {
                    eprintln!("saved in {}; the same command goes on", out.display());
                    return Err(Stopped.into());
                };
                summary
            }
        };
        cells.push(Cell { model, solver, seed, out, summary });
    }
    let set = if stands_in { ImageSet::Digits } else { set };
    let root = RunDirectory::at(&out);
    figure(set, &cells)?.write(&root, "accuracy")?;
    let table = table(set, budget_name, &cells);
    root.write("table.md", table.as_bytes())?;
    let json: Vec<Value> = cells
        .iter()
        .map(|c| json!({"model": c.model.key(), "solver": c.solver.key(), "seed": c.seed, "summary": c.summary}))
        .collect();
    report(&arguments.common, &Value::Array(json), || {
        format!("\n{table}\nfigure: {}\n", out.join("accuracy.png").display())
    })
}

fn figure(set: ImageSet, cells: &[Cell]) -> Result<CurveFigure<'static>> {
    let mut curves = Vec::new();
    for cell in cells {
        let path = cell.out.join("metrics.jsonl");
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let row = |line: &str| -> Result<f64> {
            let row: Value = serde_json::from_str(line).with_context(|| format!("cannot read {}", path.display()))?;
            Ok(100.0 * row["test_accuracy"].as_f64().unwrap_or(f64::NAN))
        };
        let values: Result<Vec<f64>> = text.lines().map(row).collect();
        curves.push((
            cell.model,
            format!("{}, {}, seed {}", cell.model.title(), cell.solver.key(), cell.seed),
            values?,
        ));
    }
    let title = match set {
        ImageSet::Mnist => "MNIST: test accuracy by epoch",
        ImageSet::Cifar10 => "CIFAR-10: test accuracy by epoch",
        ImageSet::Digits => "Drawn digits: test accuracy by epoch",
    };
    Ok(CurveFigure { title, y_label: "test accuracy, per cent", curves })
}

/// Our numbers and the paper's, as Markdown.
fn table(set: ImageSet, budget: &str, cells: &[Cell]) -> String {
    let mut text = format!(
        "| {budget} budget | epochs | accuracy % | AUC % | NLL | Brier | ECE | NFE (drift) | minutes | paper: accuracy % | AUC % | NLL |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    for Cell { model, solver, seed, summary: s, .. } in cells {
        text += &format!(
            "| {}, {}, seed {seed} | {} | {:.2} | {:.2} | {:.4} | {:.4} | {:.4} | {:.0} | {:.1} |",
            model.title(),
            solver.key(),
            s.epochs,
            100.0 * s.accuracy,
            100.0 * s.auc,
            s.nll,
            s.brier,
            s.ece,
            s.nfe_drift,
            s.seconds / 60.0
        );
        text += &match paper::paper_result(set, *model, *solver) {
            Some(PaperResult { accuracy: (a, da), auc: (u, du), nll: (n, dn) }) => {
                format!(" {a:.2} ± {da:.2} | {u:.2} ± {du:.2} | {n:.4} ± {dn:.4} |\n")
            }
            None => " – | – | – |\n".into(),
        };
    }
    text
}
