//! Which tables a report has.

use super::section::{Group, Section};
use super::spread::Spread;
use super::table::{Cell, Column, Table};
use crate::experiment::grid::{PaperExperiment, SolverName};
use crate::experiment::images::paper::{PaperResult, paper_result};
use crate::experiment::run::AnyExperiment;

/// What the runs of an experiment ended with, beside the paper's numbers.
pub fn results(section: &Section) -> Option<Table> {
    let groups: Vec<&Group> = section.groups.iter().filter(|group| group.finished).collect();
    type Row = fn(&Group, Option<PaperExperiment>) -> Vec<Cell>;
    let (columns, row): (_, Row) = match groups.first()?.config() {
        AnyExperiment::Toy(_) => (toy_columns(), toy_row),
        AnyExperiment::Images(_) => (image_columns(), image_row),
        AnyExperiment::Sequences(_) => (sequence_columns(), sequence_row),
    };
    let rows = groups.iter().map(|group| {
        let seeds = Spread::of(&[group.runs.len() as f64]);
        let mut cells = vec![Cell::Text(group.title())];
        cells.extend(row(group, section.paper));
        cells.extend([Cell::Number(seeds, 0), Cell::Text(group.budget())]);
        cells
    });
    let mut all = vec![Column::main("model", "")];
    all.extend(columns);
    all.extend([Column::more("seeds", "our seeds"), Column::more("budget", "our budget")]);
    Some(Table {
        name: format!("{}-results", section.key),
        title: format!("{}: mean ± standard deviation over seeds, on the test set", section.data()),
        columns: all,
        rows: rows.collect(),
    })
}

fn toy_columns() -> Vec<Column> {
    vec![
        Column::main("rmse", "RMSE"),
        Column::main("nll", "NLL"),
        Column::main("coverage95", "inside 95 %, %"),
        Column::main("band_data", "band, data"),
        Column::main("band_gap", "band, gap"),
        Column::main("nfe_drift", "NFE"),
    ]
}

fn toy_row(group: &Group, _: Option<PaperExperiment>) -> Vec<Cell> {
    let number = |key, factor, decimals| Cell::Number(group.last_times(key, factor), decimals);
    vec![
        number("rmse", 1.0, 4),
        number("nll", 1.0, 3),
        number("coverage95", 100.0, 1),
        number("band_data", 1.0, 3),
        number("band_gap", 1.0, 3),
        number("nfe_drift", 1.0, 1),
    ]
}

fn image_columns() -> Vec<Column> {
    vec![
        Column::main("accuracy", "accuracy, %"),
        Column::main("auc", "AUC, %"),
        Column::main("nll", "NLL"),
        Column::more("brier", "Brier score"),
        Column::main("ece", "ECE"),
        Column::main("nfe_drift", "NFE"),
        Column::more("paper_accuracy", "paper: accuracy, %"),
        Column::more("paper_auc", "AUC, %"),
        Column::more("paper_nll", "NLL"),
        Column::more("paper_nfe", "NFE / 2"),
    ]
}

fn image_row(group: &Group, paper: Option<PaperExperiment>) -> Vec<Cell> {
    let number = |key, factor, decimals| Cell::Number(group.last_times(key, factor), decimals);
    let mut row = vec![
        number("accuracy", 100.0, 2),
        number("auc", 100.0, 2),
        number("nll", 1.0, 4),
        number("brier", 1.0, 4),
        number("ece", 1.0, 4),
        number("nfe_drift", 1.0, 1),
    ];
    let found = paper.and_then(|paper| paper_result(paper, group.model, group.solver));
    row.extend(match found {
        Some(PaperResult { accuracy: (a, da), auc: (u, du), nll: (n, dn) }) => {
            [Cell::Paper(a, da, 2), Cell::Paper(u, du, 2), Cell::Paper(n, dn, 4)]
        }
        None => [Cell::Missing, Cell::Missing, Cell::Missing],
    });
    row.push(paper_nfe(group, paper));
    row
}

/// The paper counts drift and diffusion evaluations, twice as many as those of the drift alone.
fn paper_nfe(group: &Group, paper: Option<PaperExperiment>) -> Cell {
    let adaptive = group.solver == SolverName::Adaptive;
    let found = paper.filter(|_| adaptive).and_then(|paper| paper.paper_nfe(group.model));
    found.map_or(Cell::Missing, |nfe| Cell::Text(format!("about {:.0}", nfe / 2.0)))
}

fn sequence_columns() -> Vec<Column> {
    vec![
        Column::main("mse", "test MSE"),
        Column::main("no_change", "of no change"),
        Column::main("train_nfe_drift", "NFE, training"),
        Column::main("nfe_drift", "NFE, testing"),
        Column::more("nfe_drift_per_sequence", "NFE of a window"),
        Column::more("paper_nfe", "paper: NFE / 2"),
    ]
}

fn sequence_row(group: &Group, paper: Option<PaperExperiment>) -> Vec<Cell> {
    let number = |key, decimals| Cell::Number(group.last(key), decimals);
    let training = group.epochs("nfe_drift").pop().unwrap_or_default();
    vec![
        number("mse", 4),
        number("no_change", 4),
        Cell::Number(Spread::of(&training), 1),
        number("nfe_drift", 1),
        number("nfe_drift_per_sequence", 0),
        paper_nfe(group, paper),
    ]
}

/// What models cost, over all experiments.
pub fn cost(sections: &[Section]) -> Table {
    let mut rows = Vec::new();
    for section in sections {
        for group in section.groups.iter().filter(|group| group.finished) {
            let number = |key, factor, decimals| Cell::Number(group.last_times(key, factor), decimals);
            let solves = match group.config() {
                AnyExperiment::Sequences(config) => config.data.window as f64,
                AnyExperiment::Toy(_) | AnyExperiment::Images(_) => 1.0,
            };
            let prediction =
                |run: &&super::run::ReportedRun| 1e3 * solves * run.number("nfe_drift") * run.number("drift_gflop");
            let mflop: Vec<f64> = group.runs.iter().map(prediction).collect();
            rows.push(vec![
                Cell::Text(format!("{}: {}", section.title, group.title())),
                number("parameters", 1.0, 0),
                number("nfe_drift", solves, 1),
                number("drift_gflop", 1e3, 4),
                Cell::Number(Spread::of(&mflop), 3),
                number("prediction_ms", 1.0, 3),
                number("peak_memory_mib", 1.0, 0),
                number("seconds", 1.0 / 60.0, 1),
            ]);
        }
    }
    Table {
        name: "cost".into(),
        title: "The cost of a prediction: one example, one weight path".into(),
        columns: vec![
            Column::main("model", ""),
            Column::more("parameters", "parameters"),
            Column::main("evaluations", "drift evaluations"),
            Column::main("drift_mflop", "MFLOP each"),
            Column::main("prediction_mflop", "MFLOP in all"),
            Column::of_machine("prediction_ms", "milliseconds"),
            Column::of_machine("peak_memory_mib", "peak memory, MiB"),
            Column::of_machine("minutes", "training, minutes"),
        ],
        rows,
    }
}
