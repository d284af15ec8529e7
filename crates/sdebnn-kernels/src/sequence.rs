//! Sequences: a recurrent cell at every frame, a solve across every gap. The public entry points.

mod tile;

use std::sync::Mutex;

use rayon::prelude::*;

use crate::{
    activation::Activation,
    buffer::Buffer,
    carry::TileMemory,
    element::Element,
    error::{Error, check_length},
    layer::{Folded, Layer, TimeInput},
    network::{FoldedWeights, Network, StageWeights, Workspace},
    problem::Problem,
    settings::Settings,
    solver::{Inputs, Solver, lock, take},
    tape::TapePlan,
    tiling::Tiling,
};
use tile::{Backward, Forward, Scratch, Sequences, TileGradients, rows_of_tiles};

/// The activation of the cell.
const CELL: Activation = Activation::Tanh;

/// What goes into a pass over a batch of sequences.
#[derive(Clone, Copy, Debug)]
pub struct SequenceInputs<'a, E> {
    /// Number `B` of sequences.
    pub batch: usize,
    /// `[evaluation][P]`: the parameters at every drift evaluation, the same across every gap.
    pub weights: &'a [E],
    /// The parameters of the cell layer by layer: weights `[output][input]`, then biases.
    pub cell: &'a [E],
    /// `[frame][B][feature]`: what is observed.
    pub frames: &'a [E],
    /// `[frame][B]`: the factor on the vector field across the gap after each frame.
    pub gaps: &'a [E],
    /// `ξ`, the strength of the residual term.
    pub xi: E,
}

/// Gradients of a pass over sequences.
#[derive(Debug)]
pub struct SequenceGradients<'a, E> {
    /// `[evaluation][P]`: of the weights.
    pub weights: &'a mut [E],
    /// Of the parameters of the cell.
    pub cell: &'a mut [E],
    /// `[frame][B][feature]`: of the frames.
    pub frames: &'a mut [E],
    /// Of `ξ`.
    pub xi: &'a mut E,
}

/// Carries states through sequences of frames with gaps.
///
/// ```text
/// s ← tanh(A₂ tanh(A₁ [s; frame] + c₁) + c₂)           at every frame
/// s ← the state at the end of the solve that starts at s  across every gap
/// ```
///
/// The state `s` has all components of a [`Problem`] with a dense network, one after the other, and starts at 0. The result does
/// not depend on the number of threads.
#[derive(Debug)]
pub struct SequenceSolver<E> {
    solver: Solver<E>,
    features: usize,
    /// Layers of the cell: sizes from input to output.
    cell: Vec<usize>,
    tapes: Mutex<Vec<Buffer<E>>>,
}

/// The record of a pass over sequences, for one backward pass.
#[derive(Debug)]
pub struct SequenceTape<E> {
    plan: TapePlan,
    /// `[tile][frame]`: a solve, then the state at its end.
    memory: Buffer<E>,
    folded: FoldedWeights<E>,
    /// (frames, batch) of the recording.
    extents: (usize, usize),
}

impl<E: Element> SequenceSolver<E> {
    /// A solver for frames of `features` numbers, with a cell that has hidden layers of the widths `hidden`.
    ///
    /// # Panics
    /// If the drift of the problem is not a dense network.
    #[must_use]
    pub fn new(problem: Problem, features: usize, hidden: &[usize], settings: Settings) -> Self {
        assert!(matches!(problem.drift(), crate::Drift::Dense { .. }), "sequences need a dense network");
        let width = problem.components() * problem.features();
        let cell = [&[width + features], hidden, &[width]].concat();
        Self { solver: Solver::with_settings(problem, settings), features, cell, tapes: Mutex::default() }
    }

    /// The problem solved across every gap.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        self.solver.problem()
    }

    /// How it works.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        self.solver.settings()
    }

    /// Numbers of a frame.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Widths of the cell's hidden layers.
    #[must_use]
    pub fn hidden(&self) -> &[usize] {
        &self.cell[1..self.cell.len() - 1]
    }

    /// Carries the state through all frames: `states` (`[frame][component][B][F]`) receives the state after every gap.
    ///
    /// # Errors
    /// If a slice has the wrong length.
    pub fn forward(&self, inputs: &SequenceInputs<'_, E>, states: &mut [E]) -> Result<(), Error> {
        let frames = self.check(inputs, "the states", states.len())?;
        let tape = self.run_forward(inputs, frames, states, false);
        self.recycle(&inputs.of_a_gap(), tape);
        Ok(())
    }

    /// As [`SequenceSolver::forward`], and records what [`SequenceSolver::backward`] needs.
    ///
    /// # Errors
    /// If a slice has the wrong length.
    pub fn record(&self, inputs: &SequenceInputs<'_, E>, states: &mut [E]) -> Result<SequenceTape<E>, Error> {
        let frames = self.check(inputs, "the states", states.len())?;
        Ok(self.run_forward(inputs, frames, states, true))
    }

    /// Given the gradients of a scalar with respect to the states after every gap, its gradients with respect to weights, cell,
    /// frames and `ξ`. `inputs` must be those of the recording.
    ///
    /// # Errors
    /// If a slice has the wrong length, or the tape was recorded for another number of frames or sequences.
    pub fn backward(
        &self,
        inputs: &SequenceInputs<'_, E>,
        tape: SequenceTape<E>,
        state_gradients: &[E],
        gradients: SequenceGradients<'_, E>,
    ) -> Result<(), Error> {
        let frames = self.check(inputs, "the gradients of the states", state_gradients.len())?;
        check_length("the gradient of the weights", inputs.weights.len(), gradients.weights.len())?;
        check_length("the gradient of the cell", inputs.cell.len(), gradients.cell.len())?;
        check_length("the gradient of the frames", inputs.frames.len(), gradients.frames.len())?;
        if tape.extents != (frames, inputs.batch) {
            return Err(Error::ForeignTape { recorded: tape.extents, requested: (frames, inputs.batch) });
        }
        self.run_backward(inputs, frames, &tape, state_gradients, gradients);
        self.recycle(&inputs.of_a_gap(), tape);
        Ok(())
    }

    /// Checks all lengths and returns the number of frames.
    fn check(&self, inputs: &SequenceInputs<'_, E>, what: &'static str, states: usize) -> Result<usize, Error> {
        let problem = self.solver.problem();
        if inputs.batch == 0 {
            return Err(Error::Empty { samples: 1, batch: 0 });
        }
        let frames = inputs.gaps.len() / inputs.batch;
        check_length("gaps", frames * inputs.batch, inputs.gaps.len())?;
        check_length("frames", frames * inputs.batch * self.features, inputs.frames.len())?;
        check_length("weights", problem.evaluations() * problem.parameters(), inputs.weights.len())?;
        check_length("the cell", self.cell.windows(2).map(|ends| (ends[0] + 1) * ends[1]).sum(), inputs.cell.len())?;
        check_length(what, frames * problem.components() * inputs.batch * problem.features(), states)?;
        Ok(frames)
    }

    fn cell(&self, groups: usize) -> Network {
        let layer = |ends: &[usize]| Layer::dense(groups, [ends[0], ends[1]], TimeInput::None, CELL);
        Network::from_layers(self.cell.windows(2).map(layer).collect(), groups * self.cell[self.cell.len() - 1], None)
    }

    /// Memory of a tape goes back to where the next call finds it.
    fn recycle(&self, inputs: &Inputs<'_, E>, tape: SequenceTape<E>) {
        if !tape.memory.is_empty() {
            lock(&self.tapes).push(tape.memory);
        }
        lock(&self.solver.prepare(&self.solver.tiling(inputs)).folded).push(tape.folded);
    }

    /// Runs `work` with what tiles share, and memory for a tile.
    fn with_sequences<R>(
        &self,
        inputs: &SequenceInputs<'_, E>,
        plan: &TapePlan,
        folded: &FoldedWeights<E>,
        work: impl FnOnce(&Sequences<'_, E>, &(dyn Fn(bool) -> Scratch<E> + Sync)) -> R,
    ) -> R {
        let gap = inputs.of_a_gap();
        let state_tiling = self.solver.tiling(&gap);
        let prepared = self.solver.prepare(&state_tiling);
        let (groups, lanes) = (state_tiling.groups, state_tiling.lanes);
        let cell = self.cell(groups);
        let mut folded_cell: Vec<Folded<E>> = Vec::new();
        cell.fold(0.0, inputs.cell, true, &mut folded_cell);
        let components = self.solver.problem().components();
        let sequences = Sequences {
            call: self.solver.call(&gap, &prepared.network, folded),
            cell_weights: StageWeights { t: 0.0, parameters: inputs.cell, folded: &folded_cell },
            cell: &cell,
            inputs: *inputs,
            plan,
            frame_tiling: Tiling::with_shape([self.features, 1], groups, inputs.batch, lanes),
            state_tiling,
            features: self.features,
            components,
        };
        let scratch = |backward: bool| Scratch {
            block: TileMemory::new(&prepared.network, lanes, groups, components, backward),
            cell: Workspace::new(&cell, lanes, backward),
            cell_input: Buffer::new(groups * self.cell[0] * lanes),
            updated: Buffer::new(cell.state * lanes),
            loaded: Buffer::new(groups * lanes * self.features.max(self.solver.problem().features())),
        };
        work(&sequences, &scratch)
    }

    fn run_forward(
        &self,
        inputs: &SequenceInputs<'_, E>,
        frames: usize,
        states: &mut [E],
        record: bool,
    ) -> SequenceTape<E> {
        let gap = inputs.of_a_gap();
        let tiling = self.solver.tiling(&gap);
        let prepared = self.solver.prepare(&tiling);
        let plan = self.solver.plan(self.settings().tape_budget, frames * tiling.tiles, &prepared.network);
        let folded = self.solver.fold(&gap, &prepared, record);
        let per_frame = plan.length + self.solver.problem().components() * tiling.elements();
        let memory = if record { take(&self.tapes, frames * tiling.tiles * per_frame) } else { Buffer::new(0) };
        let mut tape = SequenceTape { plan, memory, folded, extents: (frames, inputs.batch) };
        self.with_sequences(inputs, &tape.plan, &tape.folded, |sequences, scratch| {
            let rows = sequences.rows_of_tiles(states);
            let tapes: Vec<Option<&mut [E]>> = if record {
                tape.memory.chunks_exact_mut(frames * per_frame).map(Some).collect()
            } else {
                rows.iter().map(|_| None).collect()
            };
            rows.into_par_iter().zip(tapes).enumerate().with_max_len(1).for_each(|(tile, (rows, tape))| {
                let (memory, tape) = (&mut scratch(false), tape.map(|tape| tape.chunks_exact_mut(per_frame)));
                self.solver.settings().instructions.dispatch(Forward { sequences, tile, memory, tape, rows });
            });
        });
        tape
    }

    fn run_backward(
        &self,
        inputs: &SequenceInputs<'_, E>,
        frames: usize,
        tape: &SequenceTape<E>,
        state_gradients: &[E],
        gradients: SequenceGradients<'_, E>,
    ) {
        self.with_sequences(inputs, &tape.plan, &tape.folded, |sequences, scratch| {
            let tiles = sequences.state_tiling.tiles;
            let frame_gradients = rows_of_tiles(&sequences.frame_tiling, self.features, gradients.frames);
            let tapes = tape.memory.chunks_exact(tape.memory.len() / tiles);
            let tasks: Vec<_> = frame_gradients.into_iter().zip(tapes).collect();
            let sums: Vec<TileGradients<E>> = tasks
                .into_par_iter()
                .enumerate()
                .with_max_len(1)
                .map(|(tile, (frame_gradients, tape))| {
                    let mut sums = TileGradients {
                        weights: vec![E::ZERO; inputs.weights.len()],
                        cell: vec![E::ZERO; inputs.cell.len()],
                        xi: 0.0,
                    };
                    let (memory, tape) = (&mut scratch(true), tape.chunks_exact(tape.len() / frames));
                    let work =
                        Backward { sequences, tile, memory, tape, state_gradients, frame_gradients, sums: &mut sums };
                    self.solver.settings().instructions.dispatch(work);
                    sums
                })
                .collect();
            gradients.weights.fill(E::ZERO);
            gradients.cell.fill(E::ZERO);
            let mut xi = 0.0;
            for sums in sums {
                gradients.weights.iter_mut().zip(&sums.weights).for_each(|(to, &from)| *to += from);
                gradients.cell.iter_mut().zip(&sums.cell).for_each(|(to, &from)| *to += from);
                xi += sums.xi;
            }
            *gradients.xi = E::from_f64(xi);
        });
    }
}

impl<'a, E: Element> SequenceInputs<'a, E> {
    /// The solve across one gap, as far as all gaps have it in common.
    fn of_a_gap(&self) -> Inputs<'a, E> {
        Inputs { samples: 1, batch: self.batch, weights: self.weights, state: &[], xi: self.xi, time_scale: None }
    }
}
