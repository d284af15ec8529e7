//! `sdebnn reproduce`: the runs of the paper's grid, models by solvers by seeds.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sdebnn_train::experiment::ModelName;
use sdebnn_train::experiment::grid::{Budget, SolverName};
use sdebnn_train::experiment::run::Experiment;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::arguments::{BudgetName, GridArguments, Models, Solvers};
use crate::stop::Stopped;
use crate::train::run;

/// One run of the grid with what came of it.
pub struct Cell<S> {
    pub model: ModelName,
    pub solver: SolverName,
    pub seed: u64,
    pub out: PathBuf,
    pub summary: S,
}

impl Models {
    /// Which they are.
    pub fn names(self) -> &'static [ModelName] {
        match self {
            Self::SdeBnn => &[ModelName::SdeBnn],
            Self::Nesterov => &[ModelName::Nesterov],
            Self::Both => &[ModelName::SdeBnn, ModelName::Nesterov],
        }
    }
}

impl GridArguments {
    /// How much to run.
    pub fn budget(&self) -> Budget {
        match self.budget {
            BudgetName::Smoke => Budget::Smoke,
            BudgetName::Quick => Budget::Quick,
            BudgetName::Paper => Budget::Paper,
        }
    }

    /// The directory for the runs of an experiment.
    pub fn directory(&self, experiment: &str) -> PathBuf {
        let name = || Path::new("runs").join(format!("{experiment}-{}", self.budget().key()));
        self.out.clone().unwrap_or_else(name)
    }

    /// Whether there is something to say while runs go on.
    pub fn speaks(&self) -> bool {
        !self.common.quiet && !self.common.json
    }
}

/// Makes all runs of a grid that are not there already.
pub fn reproduce<E: Experiment>(
    arguments: &GridArguments,
    out: &Path,
    config: impl Fn(ModelName, SolverName, u64) -> Result<E, sdebnn_train::Error>,
) -> Result<Vec<Cell<E::Summary>>> {
    let models = arguments.model.names();
    let solvers: &[SolverName] = match arguments.solver {
        Solvers::Fixed => &[SolverName::Fixed],
        Solvers::Adaptive => &[SolverName::Adaptive],
        Solvers::Both => &[SolverName::Fixed, SolverName::Adaptive],
    };
    let mut cells = Vec::new();
    for (&solver, &model, seed) in
        solvers.iter().flat_map(|s| models.iter().flat_map(move |m| (0..arguments.seeds).map(move |seed| (s, m, seed))))
    {
        let config = config(model, solver, seed)?;
        let out = out.join(format!("{}-{}-{seed}", model.key(), solver.key()));
        let summary = match config.finished(&out)? {
            Some(summary) => summary,
            None => {
                if arguments.speaks() {
                    eprintln!("{}, {} steps, seed {seed}", model.title(), solver.key());
                }
                let directory = config.open(&out, true)?;
                let Some(summary) = run(&config, &directory, arguments.data.as_ref(), &arguments.common)? else {
                    eprintln!("saved in {}; the same command goes on", out.display());
                    return Err(Stopped.into());
                };
                summary
            }
        };
        cells.push(Cell { model, solver, seed, out, summary });
    }
    Ok(cells)
}

impl<S: Serialize> Cell<S> {
    /// Its name in tables and legends.
    pub fn title(&self) -> String {
        format!("{}, {}, seed {}", self.model.title(), self.solver.key(), self.seed)
    }

    /// The run as JSON.
    pub fn json(&self) -> Value {
        json!({"model": self.model.key(), "solver": self.solver.key(), "seed": self.seed, "summary": self.summary})
    }

    /// The metrics of every epoch.
    pub fn metrics(&self) -> Result<Vec<Map<String, Value>>> {
        let path = self.out.join("metrics.jsonl");
        let cannot = || format!("cannot read {}", path.display());
        let text = std::fs::read_to_string(&path).with_context(cannot)?;
        text.lines().map(|line| serde_json::from_str(line).with_context(cannot)).collect()
    }
}

/// A metric after each epoch, the first epoch being 1.
pub fn by_epoch(metrics: &[Map<String, Value>], key: &str) -> Vec<(f64, f64)> {
    let value = |row: &Map<String, Value>| row.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
    metrics.iter().enumerate().map(|(i, row)| (i as f64 + 1.0, value(row))).collect()
}
