//! Which figures a report has: every figure of the paper, and reliability diagrams.

use super::curve_figure::{Curve, CurveFigure, Level, Point};
use super::section::{Group, Section};
use super::sentences;
use crate::classification::ReliabilityBin;
use crate::error::Error;
use crate::experiment::grid::SolverName;
use crate::experiment::run::AnyExperiment;
use crate::experiment::sequences::gradient_norms;
use crate::experiment::toy;
use crate::run_directory::RunDirectory;

/// Bins with fewer examples are not in reliability diagrams.
const FEWEST: usize = 10;

/// A figure with a sentence that says what to see.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name in files.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The picture.
    pub svg: String,
    /// What to see, from the numbers.
    pub sentence: String,
}

/// Draws the figures of an experiment into a directory.
pub fn draw(section: &Section, directory: &RunDirectory) -> Result<Vec<Figure>, Error> {
    let Some(group) = section.groups.first() else { return Ok(Vec::new()) };
    match group.config() {
        AnyExperiment::Toy(_) => toy_figures(section, directory),
        AnyExperiment::Images(_) => image_figures(section, directory),
        AnyExperiment::Sequences(_) => sequence_figures(section, directory),
    }
}

/// The predictive prior and posterior of each model, as the run of the first seed drew them.
fn toy_figures(section: &Section, directory: &RunDirectory) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for group in section.groups.iter().filter(|group| group.finished) {
        let run = group.runs[0];
        let name = format!("{}-{}", section.key, group.model.key());
        let read = |kind: &str| {
            let path = run.path.join(format!("{}.{kind}", toy::FIGURE));
            std::fs::read(&path).map_err(|error| Error::File { action: "read", path, error })
        };
        let (svg, png) = (read("svg")?, read("png")?);
        directory.write(&format!("{name}.svg"), &svg)?;
        directory.write(&format!("{name}.png"), &png)?;
        figures.push(Figure {
            name,
            title: format!("{}: predictive prior and posterior", group.model.title()),
            svg: String::from_utf8_lossy(&svg).into_owned(),
            sentence: sentences::toy(group),
        });
    }
    Ok(figures)
}

/// Points of a metric by epoch, multiplied by a number.
fn by_epoch(group: &Group, key: &str, factor: f64) -> Vec<Point> {
    let point = |(i, numbers): (usize, Vec<f64>)| {
        let numbers: Vec<f64> = numbers.iter().map(|number| factor * number).collect();
        Point::of(i as f64 + 1.0, &numbers)
    };
    group.epochs(key).into_iter().enumerate().map(point).collect()
}

/// Dashed lines are of adaptive steps.
fn curve(group: &Group, points: Vec<Point>) -> Curve {
    let legend = match group.runs.len() {
        1 => group.title(),
        seeds => format!("{}: mean and range of {seeds} seeds", group.title()),
    };
    Curve { model: group.model, dashed: group.solver == SolverName::Adaptive, legend, points }
}

fn finish(figure: CurveFigure, sentence: String, name: String, directory: &RunDirectory) -> Result<Figure, Error> {
    let svg = figure.write(directory, &name)?;
    Ok(Figure { name, title: figure.title, svg, sentence })
}

fn image_figures(section: &Section, directory: &RunDirectory) -> Result<Vec<Figure>, Error> {
    let each = |points: &dyn Fn(&Group) -> Vec<Point>| section.groups.iter().map(|g| curve(g, points(g))).collect();
    let on = section.data();
    let accuracy = CurveFigure {
        title: format!("{on}: test accuracy"),
        x_label: "epoch",
        y_label: "test accuracy, %",
        log_y: false,
        curves: each(&|group| by_epoch(group, "test_accuracy", 100.0)),
        level: None,
    };
    let nfe = CurveFigure {
        title: format!("{on}: function evaluations in testing"),
        x_label: "epoch",
        y_label: "drift evaluations of a solve",
        log_y: false,
        curves: each(&|group| by_epoch(group, "test_nfe_drift", 1.0)),
        level: None,
    };
    let reliability = CurveFigure {
        title: format!("{on}: reliability"),
        x_label: "mean confidence of a bin, 10 examples or more",
        y_label: "accuracy of the bin",
        log_y: false,
        curves: each(&reliability),
        level: Some(Level::Diagonal("perfect calibration")),
    };
    let key = &section.key;
    Ok(vec![
        finish(accuracy, sentences::accuracy(section), format!("{key}-accuracy"), directory)?,
        finish(nfe, sentences::nfe(section, "test_nfe_drift"), format!("{key}-nfe"), directory)?,
        finish(reliability, sentences::reliability(section), format!("{key}-reliability"), directory)?,
    ])
}

/// The bins of all seeds together.
fn reliability(group: &Group) -> Vec<Point> {
    let mut bins: Vec<(usize, ReliabilityBin)> = Vec::new();
    for run in &group.runs {
        let found = run.last("reliability").cloned().unwrap_or_default();
        for new in serde_json::from_value::<Vec<ReliabilityBin>>(found).unwrap_or_default() {
            let index = crate::classification::bin_of(new.confidence as f32);
            match bins.iter_mut().find(|(i, _)| *i == index) {
                None => bins.push((index, new)),
                Some((_, bin)) => {
                    let count = bin.count + new.count;
                    let mean = |a: f64, b: f64| (a * bin.count as f64 + b * new.count as f64) / count as f64;
                    let (confidence, accuracy) =
                        (mean(bin.confidence, new.confidence), mean(bin.accuracy, new.accuracy));
                    *bin = ReliabilityBin { count, confidence, accuracy };
                }
            }
        }
    }
    bins.sort_by_key(|(index, _)| *index);
    // A few examples say little of a bin.
    bins.iter()
        .filter(|(_, bin)| bin.count >= FEWEST)
        .map(|(_, bin)| Point::of(bin.confidence, &[bin.accuracy]))
        .collect()
}

fn sequence_figures(section: &Section, directory: &RunDirectory) -> Result<Vec<Figure>, Error> {
    let on = section.data();
    let key = &section.key;
    let no_change = section.groups.iter().map(|group| group.last("no_change").mean).find(|value| value.is_finite());
    let mut figures = Vec::new();
    for solver in [SolverName::Fixed, SolverName::Adaptive] {
        let groups: Vec<&Group> = section.groups.iter().filter(|group| group.solver == solver).collect();
        if groups.is_empty() {
            continue;
        }
        let loss = CurveFigure {
            title: format!("{on}: test loss, {} steps", solver.key()),
            x_label: "epoch",
            y_label: "mean squared error",
            log_y: true,
            curves: groups.iter().map(|group| curve(group, by_epoch(group, "test_mse", 1.0))).collect(),
            level: no_change.map(|value| Level::Value("predicting no change", value)),
        };
        let name = format!("{key}-test-loss-{}", solver.key());
        figures.push(finish(loss, sentences::test_loss(section, solver), name, directory)?);
    }
    // Fixed steps have the same number of evaluations in every epoch: where there are others, those are shown.
    let any_adaptive = section.groups.iter().any(|group| group.solver == SolverName::Adaptive);
    let shown = |group: &&Group| !any_adaptive || group.solver == SolverName::Adaptive;
    let (mut nfe, mut norms) = (Vec::new(), Vec::new());
    for group in section.groups.iter().filter(shown) {
        for (key, what) in [("test_nfe_drift", "testing"), ("nfe_drift", "training")] {
            let of = curve(group, by_epoch(group, key, 1.0));
            nfe.push(Curve { dashed: what == "training", legend: format!("{}, {what}", of.legend), ..of });
        }
    }
    for group in section.groups.iter().filter(|group| group.finished) {
        norms.push(curve(group, gradient_points(group)?));
    }
    let nfe = CurveFigure {
        title: format!("{on}: function evaluations"),
        x_label: "epoch",
        y_label: "drift evaluations of a gap",
        log_y: false,
        curves: nfe,
        level: None,
    };
    figures.push(finish(nfe, sentences::nfe(section, "test_nfe_drift"), format!("{key}-nfe"), directory)?);
    if !norms.is_empty() {
        let sentence = sentences::gradient_norms(&norms);
        let norms = CurveFigure {
            title: format!("{on}: gradient of the hidden state"),
            x_label: "T − t, frames",
            y_label: "log10 of the gradient's L2 norm",
            // A logarithmic axis of the plotting library ends at 1e-10.
            log_y: false,
            curves: norms,
            level: None,
        };
        figures.push(finish(norms, sentence, format!("{key}-gradient-norms"), directory)?);
    }
    Ok(figures)
}

/// The logarithm of the gradient's norm by `T − t`.
fn gradient_points(group: &Group) -> Result<Vec<Point>, Error> {
    let runs = group.runs.iter().map(|run| gradient_norms::read(&run.path)).collect::<Result<Vec<_>, _>>()?;
    let frames = runs.iter().map(Vec::len).min().unwrap_or(0);
    let point = |frame: usize| {
        let norms: Vec<f64> = runs.iter().map(|rows| rows[frame].norm.log10()).collect();
        let times: f64 = runs.iter().map(|rows| rows[frame].time_to_end).sum();
        Point::of(times / runs.len() as f64, &norms)
    };
    // Far from the end a gradient may be too small for 32 bits: 0, which has no logarithm.
    Ok((0..frames).map(point).filter(|point| point.mean.is_finite()).collect())
}
