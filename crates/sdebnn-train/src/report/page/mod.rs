//! The report: one page with all figures and tables, and each of them as a file.

mod picture;

use std::path::{Path, PathBuf};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::figures::{self, Figure};
use super::run::{ReportedRun, RunState, find};
use super::section::Section;
use super::table::Table;
use super::tables;
use crate::error::Error;
use crate::run_directory::RunDirectory;

const STYLE: &str = include_str!("style.css");

/// What a report holds, in memory.
#[derive(Debug)]
pub struct Report {
    /// The page.
    pub page: PathBuf,
    /// The tables of the experiments' results.
    pub results: Vec<Table>,
    /// The runs.
    pub runs: Vec<ReportedRun>,
}

/// Reads all runs in some directories and writes `report.html`, `figures/` and `tables/` into `out`.
pub fn write(directories: &[PathBuf], out: &Path) -> Result<Report, Error> {
    let runs = find(directories)?;
    let root = RunDirectory::make(out)?;
    let (pictures, files) = (RunDirectory::make(&out.join("figures"))?, RunDirectory::make(&out.join("tables"))?);
    let sections = Section::of(&runs);
    let mut parts = Vec::new();
    let mut results = Vec::new();
    for section in &sections {
        let table = tables::results(section);
        parts.push((section, figures::draw(section, &pictures)?, table.clone()));
        results.extend(table);
    }
    let cost = tables::cost(&sections);
    for table in results.iter().chain([&cost]) {
        files.write(&format!("{}.csv", table.name), table.csv().as_bytes())?;
        files.write(&format!("{}.md", table.name), table.markdown().as_bytes())?;
    }
    for section in &sections {
        files.write(&format!("{}-metrics.csv", section.key), metrics(section).as_bytes())?;
    }
    root.write("report.html", page(&parts, &cost, &runs).into_string().as_bytes())?;
    Ok(Report { page: root.file("report.html"), results, runs })
}

/// Every number that was measured after every epoch of every run, as CSV.
fn metrics(section: &Section) -> String {
    let mut keys: Vec<&str> = Vec::new();
    for key in section.runs.iter().flat_map(|run| run.metrics.iter().flat_map(|row| row.keys())) {
        if !keys.contains(&key.as_str()) && !key.starts_with("final_") {
            keys.push(key);
        }
    }
    let mut text = format!("run,model,solver,seed,{}\n", keys.join(","));
    for run in &section.runs {
        for row in &run.metrics {
            let numbers: Vec<String> =
                keys.iter().map(|key| row.get(*key).map_or(String::new(), |v| v.to_string())).collect();
            let (model, solver, seed) = (run.model.key(), run.solver.key(), run.config.seed());
            text += &format!("{},{model},{solver},{seed},{}\n", run.name, numbers.join(","));
        }
    }
    text
}

type Part<'a> = (&'a Section<'a>, Vec<Figure>, Option<Table>);

fn page(parts: &[Part], cost: &Table, runs: &[ReportedRun]) -> Markup {
    let failed = runs.iter().filter(|run| matches!(run.state, RunState::Failed(_))).count();
    let unfinished = runs.iter().filter(|run| run.state == RunState::Unfinished).count();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "sdebnn: SDE-BNN and Nesterov-SDEBNN, reproduced" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "SDE-BNN and Nesterov-SDEBNN, reproduced" }
                    p {
                        "Continuous-depth Bayesian neural networks: " span.baseline { "SDE-BNN" } ", the baseline, and "
                        span.nesterov { "Nesterov-SDEBNN" } ", in these colours in every figure. "
                        (runs.len()) " runs. Solid lines: fixed steps; dashed lines: adaptive steps, unless a legend says otherwise. "
                        "NFE counts drift evaluations of a solve, half of what the paper counts, which adds those of the diffusion."
                    }
                    @if failed + unfinished > 0 {
                        p.warning { (failed) " of " (runs.len()) " runs failed, " (unfinished) " are unfinished; the list of runs says which and why." }
                    }
                    nav { @for (section, ..) in parts { a href={"#" (section.key)} { (section.title) } } a href="#costs" { "Cost" } a href="#runs" { "Runs" } }
                }
                main {
                    @for (section, figures, table) in parts { (experiment(section, figures, table.as_ref())) }
                    section id="costs" {
                        h2 { "Cost" }
                        p { "Measured on the machine that made the runs, with whatever else it was doing; memory is that of the process that ended the run. Arithmetic is that of the drift network; a fused multiply-add counts 2." }
                        (cost.html())
                    }
                    (list(runs))
                }
                footer { p { "Made by sdebnn " (env!("CARGO_PKG_VERSION")) " from run directories alone: " code { "sdebnn report" } "." } }
            }
        }
    }
}

fn experiment(section: &Section, figures: &[Figure], table: Option<&Table>) -> Markup {
    html! {
        section id=(section.key) {
            h2 { (section.title) }
            @if let Some(data) = section.stand_in {
                p.warning { "The data set was not there: " (data) " stand in for it, so these numbers are not comparable with the paper's." }
            }
            @match table {
                Some(table) => (table.html()),
                None => p { "No run is finished." },
            }
            @if section.groups.iter().any(|group| group.runs.len() == 1) {
                p.note { "Numbers without ± are of one seed." }
            }
            div.figures {
                @for figure in figures {
                    figure {
                        (PreEscaped(picture::inline(&figure.svg, &figure.name, &figure.title)))
                        figcaption { (figure.sentence) }
                    }
                }
            }
        }
    }
}

/// All runs with their state, version and configuration.
fn list(runs: &[ReportedRun]) -> Markup {
    html! {
        section id="runs" {
            h2 { "Runs" }
            @for run in runs {
                @let (title, data) = (run.config.paper().map(|paper| paper.title()), run.config.data_title());
                @let data = title.filter(|title| *title != data).map_or(data.into(), |title| format!("{title} on {data}"));
                @let version = run.last("version").and_then(|v| v.as_str()).unwrap_or("–");
                details {
                    summary {
                        span class={"model " (run.model.key())} { (run.model.title()) }
                        " " (run.solver.key()) ", seed " (run.config.seed()) ", " (data) ": "
                        @match &run.state {
                            RunState::Finished => span { "finished, version " (version) },
                            RunState::Unfinished => span.warning { "unfinished after " (run.metrics.len()) " of " (run.config.epochs()) " epochs" },
                            RunState::Failed(reason) => span.warning { "failed: " (reason) },
                        }
                    }
                    p { code { (run.name) } }
                    @if let Ok(text) = std::fs::read_to_string(run.path.join("config.toml")) { pre { (text) } }
                }
            }
        }
    }
}
