//! Attempted steps of an adaptive solve, and the tape of those that were accepted.

use std::sync::Arc;

use super::{Inputs, Solver};
use crate::{
    carry::Companion,
    dynamics::factor,
    element::Element,
    error::{Error, check_length},
    tape::Tape,
};

/// An attempted step: what it is compared with, and where its and the other's result go.
#[derive(Debug)]
pub struct Attempted<'a, E> {
    /// What the step is compared with.
    pub companion: Companion,
    /// Receives the state at the end, in the layout of [`Inputs::state`].
    pub state: &'a mut [E],
    /// Receives the companion's.
    pub other: &'a mut [E],
}

impl<E: Element> Solver<E> {
    /// Attempts the step of a grid of one (with [`Companion::Euler`]) or its two steps (with [`Companion::FullStep`], whose
    /// evaluation's weights follow the others), for a method with two stages. With a budget in bytes, records what
    /// [`Solver::join`] makes a tape of.
    ///
    /// # Errors
    /// If a slice has the wrong length.
    pub fn attempt(
        &self,
        inputs: &Inputs<'_, E>,
        attempted: Attempted<'_, E>,
        record: Option<usize>,
    ) -> Result<Option<Tape<E>>, Error> {
        let Attempted { companion, state, other } = attempted;
        assert!(self.problem.method().stages() == 2, "an attempt needs a method with two stages");
        check_length("the companion's state", inputs.state.len(), other.len())?;
        let mut tape = record.map(|budget| self.tape(inputs, budget)).transpose()?;
        let with_full_step = (companion == Companion::FullStep).then(|| self.with_full_step());
        with_full_step.as_ref().unwrap_or(self).run_forward(inputs, state, tape.as_mut(), Some((companion, other)))?;
        // A backward pass asks for the weights of the grid's own evaluations alone.
        if let Some(tape) = &mut tape {
            tape.folded.truncate(self.times.len() * inputs.samples);
        }
        Ok(tape)
    }

    /// With the second evaluation of one step over the whole grid after the others.
    fn with_full_step(&self) -> Self {
        let Self { problem, settings, lanes, .. } = self;
        let (grid, node) = (problem.grid(), problem.method().node(1));
        let (start, end) = (grid[0], grid[grid.len() - 1]);
        let time = if node == 1.0 { end } else { start + node * (end - start) };
        let times: Vec<f64> = self.times.iter().copied().chain([time]).collect();
        let factors = times.iter().map(|&t| factor(problem.dynamics(), t)).collect();
        let pools = Arc::clone(&self.pools);
        Self { problem: problem.clone(), settings: *settings, times, factors, lanes: *lanes, pools }
    }

    /// The tape of a solve on this solver's grid from those of consecutive attempts that make it up.
    ///
    /// # Panics
    /// If the attempts do not have as many steps as the grid.
    #[must_use]
    pub fn join(&self, tapes: Vec<Tape<E>>) -> Tape<E> {
        let extents = tapes.first().map_or((0, 0), |tape| tape.extents);
        let mut joined = Tape { segments: Vec::new(), extents, folded: Vec::new() };
        for tape in tapes {
            assert_eq!(tape.extents, extents, "tapes of the same samples and examples");
            joined.segments.extend(tape.segments);
            joined.folded.extend(tape.folded);
        }
        let steps: usize = joined.segments.iter().map(|segment| segment.plan.steps).sum();
        assert_eq!(steps, self.problem.steps(), "steps of all tapes");
        joined
    }
}
