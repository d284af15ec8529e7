//! `sdebnn report`: the page from run directories alone.

use anyhow::Result;
use sdebnn_train::report::page;
use sdebnn_train::report::run::{ReportedRun, RunState};
use sdebnn_train::report::table::Table;
use serde_json::{Map, Value, json};

use crate::arguments::ReportArguments;
use crate::print;

/// `sdebnn report`.
pub fn make(arguments: &ReportArguments) -> Result<()> {
    let out = arguments.out.as_ref().unwrap_or(&arguments.directories[0]);
    let found = page::write(&arguments.directories, out)?;
    if arguments.json {
        let runs: Vec<Value> = found.runs.iter().map(run_json).collect();
        return print(&format!("{}\n", json!({"page": found.page.display().to_string(), "runs": runs})));
    }
    print(&format!("{}report: {}\n", results_text(&found.results), found.page.display()))
}

/// The results of all experiments for a terminal.
pub fn results_text(tables: &[Table]) -> String {
    tables.iter().map(|table| format!("{}\n{}\n", table.title, table.terminal())).collect()
}

/// A run and what came of it.
pub fn run_json(run: &ReportedRun) -> Value {
    let summary: Map<String, Value> = run
        .metrics
        .last()
        .into_iter()
        .flat_map(|row| {
            row.iter().filter_map(|(key, value)| Some((key.strip_prefix("final_")?.to_string(), value.clone())))
        })
        .collect();
    let (state, reason) = match &run.state {
        RunState::Finished => ("finished", None),
        RunState::Unfinished => ("unfinished", None),
        RunState::Failed(reason) => ("failed", Some(reason)),
    };
    json!({
        "experiment": run.config.paper().map(|paper| paper.key()), "data": run.config.data_title(),
        "model": run.model.key(), "solver": run.solver.key(), "seed": run.config.seed(),
        "directory": run.path.display().to_string(), "state": state, "reason": reason, "summary": summary,
    })
}
