//! The norm of the back-propagated hidden state along a window.

use std::path::Path;

use sdebnn::SolveError;
use sdebnn::sequence::OdeRnn;

use super::task::{SequencesTask, frames};
use crate::error::Error;
use crate::run_directory::RunDirectory;
use crate::trainer::Split;

const FILE: &str = "gradient_norms.csv";

/// How strongly the loss at the end of a window depends on the hidden state at one of its frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradientNorm {
    /// The frame, from 0.
    pub frame: usize,
    /// The time `T − t` from the frame to the one that is predicted last, in frames, averaged over the windows.
    pub time_to_end: f64,
    /// `‖∂L/∂s‖₂` of the hidden state after the cell has seen the frame, averaged over the windows.
    pub norm: f64,
}

/// Those of the first windows of the test set, as many as are evaluated at a time, with the first weight path of evaluation.
pub(super) fn measure(task: &SequencesTask, model: &OdeRnn) -> Result<Vec<GradientNorm>, SolveError> {
    let windows = task.windows(Split::Test);
    let indices: Vec<usize> = (0..windows.len().min(task.config.evaluate.batch)).collect();
    let (frames, targets) = frames(windows, &indices, &model.block.w0.val().device());
    let path = &model.block.brownian(task.evaluation_noise(), 1)[0];
    let norms = model.gradient_norms(&frames, targets, path)?;
    let time_to_end = |frame: usize| {
        let times = indices.iter().map(|&w| windows.times(w)).map(|times| times[windows.frames()] - times[frame]);
        times.sum::<usize>() as f64 / indices.len() as f64
    };
    let row = |(frame, norm)| GradientNorm { frame, time_to_end: time_to_end(frame), norm };
    Ok(norms.into_iter().enumerate().map(row).collect())
}

/// Writes `gradient_norms.csv`.
pub(super) fn write(directory: &RunDirectory, rows: &[GradientNorm]) -> Result<(), Error> {
    let mut text = String::from("frame,time_to_end,gradient_norm\n");
    for GradientNorm { frame, time_to_end, norm } in rows {
        text += &format!("{frame},{time_to_end},{norm:e}\n");
    }
    directory.write(FILE, text.as_bytes())
}

/// Reads the `gradient_norms.csv` of a run.
pub fn read(run: &Path) -> Result<Vec<GradientNorm>, Error> {
    let path = run.join(FILE);
    let text =
        std::fs::read_to_string(&path).map_err(|error| Error::File { action: "read", path: path.clone(), error })?;
    let row = |line: &str| {
        let mut numbers = line.split(',');
        let mut next = || numbers.next()?.parse::<f64>().ok();
        Some(GradientNorm { frame: next()? as usize, time_to_end: next()?, norm: next()? })
    };
    let rows: Option<Vec<GradientNorm>> = text.lines().skip(1).map(row).collect();
    rows.ok_or_else(|| Error::NotARun { path, message: "is not a table of gradient norms".into() })
}
