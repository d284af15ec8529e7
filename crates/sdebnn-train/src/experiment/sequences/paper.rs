//! The paper's experiment on Walker2D: what is run, and what the paper found.

use super::config::{SequenceSet, SequencesConfig};
use crate::error::Error;
use crate::experiment::grid::{Budget, Cell, PaperExperiment};
use crate::experiment::run::Experiment;

/// The tolerance of adaptive steps.
const TOLERANCE: f64 = 5e-3;

/// The configuration of one run of the paper's grid, with keys replaced.
pub(in crate::experiment) fn config(budget: Budget, cell: Cell, settings: &[String]) -> Result<SequencesConfig, Error> {
    let (name, text) = match budget {
        Budget::Paper => ("configs/walker2d.toml", include_str!("../../../../../configs/walker2d.toml")),
        _ => ("configs/walker2d-quick.toml", include_str!("../../../../../configs/walker2d-quick.toml")),
    };
    let mut all = Vec::new();
    if budget == Budget::Smoke {
        let small = [
            "data.limit=12",
            "data.length=120",
            "train.epochs=2",
            "train.schedule.warmup=0",
            "evaluate.final_samples=2",
            "model.solver.steps=4",
        ];
        all.extend(small.map(String::from));
    }
    all.extend(cell.solver.settings(TOLERANCE));
    all.extend_from_slice(settings);
    Ok(SequencesConfig::read(name, text, &all)?.with_model(cell.model))
}

/// The same experiment on drawn walks, for when the data set is not there.
pub(in crate::experiment) fn with_walks(config: &SequencesConfig) -> SequencesConfig {
    let mut config = config.clone();
    config.data.name = SequenceSet::Walks;
    config.data.stands_in_for = Some(PaperExperiment::Walker2d);
    config
}
