//! Sequences: a recurrent cell at every frame, a solve across every gap. A tile of sequences passes through all of them on one
//! thread.

use std::sync::Mutex;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::{
    activation::Activation,
    buffer::Buffer,
    carry::{Call, Carry, CarryBack, TileAdjoint, TileMemory, carry, carry_back},
    element::Element,
    elementwise::{Accumulate, Add, TimesSlope},
    error::{Error, check_length},
    layer::{Folded, Layer, TimeInput},
    network::{FoldedWeights, Network, StageWeights, Workspace},
    problem::Problem,
    settings::Settings,
    solver::{Inputs, Solver, lock, take},
    tape::{Slots, TapePlan},
    tiling::Tiling,
};

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

/// What all tiles of a call share.
struct Sequences<'a, E> {
    call: Call<'a, E>,
    cell: &'a Network,
    cell_weights: StageWeights<'a, E>,
    inputs: SequenceInputs<'a, E>,
    plan: &'a TapePlan,
    /// Where examples of a frame, and of a state, are found.
    frame_tiling: Tiling,
    state_tiling: Tiling,
    features: usize,
    components: usize,
}

/// Memory in which a tile of sequences is carried.
struct Scratch<E> {
    block: TileMemory<E>,
    cell: Workspace<E>,
    /// Input of the cell, `[group][state; frame]`.
    cell_input: Buffer<E>,
    /// Output of the cell, `[group][component][feature of the state]`.
    updated: Buffer<E>,
    /// A frame, or the gradient of a state, as vectors.
    loaded: Buffer<E>,
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
        let plan = self.solver.plan(self.settings().tape_budget / (frames * tiling.tiles), &prepared.network);
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

/// The rows of every tile in an array of many `[B][width]`, in order.
fn rows_of_tiles<'a, E>(tiling: &Tiling, width: usize, array: &'a mut [E]) -> Vec<Vec<&'a mut [E]>> {
    let mut tiles: Vec<Vec<_>> = (0..tiling.tiles).map(|_| Vec::new()).collect();
    for frame in array.chunks_exact_mut(tiling.batch * width) {
        for (tile, rows) in tiles.iter_mut().zip(frame.chunks_mut(tiling.groups * tiling.lanes * width)) {
            tile.push(rows);
        }
    }
    tiles
}

impl<E: Element> Sequences<'_, E> {
    fn rows_of_tiles<'a>(&self, states: &'a mut [E]) -> Vec<Vec<&'a mut [E]>> {
        rows_of_tiles(&self.state_tiling, self.call.problem.features(), states)
    }

    /// The rows of a tile in array `index` of many `[B][width]`.
    fn rows<'a>(&self, tile: usize, width: usize, array: &'a [E], index: usize) -> &'a [E] {
        let examples = self.state_tiling.examples(tile);
        let start = index * self.inputs.batch;
        &array[(start + examples.start) * width..(start + examples.end) * width]
    }

    fn load_gap(&self, tile: usize, frame: usize, scale: &mut [E]) {
        let gaps = &self.inputs.gaps[frame * self.inputs.batch..(frame + 1) * self.inputs.batch];
        self.state_tiling.load_scale(tile, Some(gaps), scale);
    }

    /// The input of the cell, `[group][state; frame]`, from a state (`[component][group][feature]`) and the rows of a frame.
    fn load_cell<S: Simd>(&self, tile: usize, frame: usize, state: &[E], loaded: &mut [E], input: &mut [E]) {
        let observed = self.rows(tile, self.features, self.inputs.frames, frame);
        let loaded = &mut loaded[..self.frame_tiling.elements()];
        self.frame_tiling.load(tile, observed, loaded);
        let lanes = E::lanes::<S>();
        let width = self.cell.state / self.state_tiling.groups * lanes;
        let frames = loaded.chunks_exact(self.features * lanes);
        for (group, (to, frame)) in input.chunks_exact_mut(width + self.features * lanes).zip(frames).enumerate() {
            let (to_state, to_frame) = to.split_at_mut(width);
            to_frame.copy_from_slice(frame);
            self.gather(state, group, to_state);
        }
    }

    /// The components of one group, together.
    fn gather(&self, state: &[E], group: usize, to: &mut [E]) {
        let part = to.len() / self.components;
        let components = state.chunks_exact(state.len() / self.components);
        for (to, component) in to.chunks_exact_mut(part).zip(components) {
            to.copy_from_slice(&component[group * part..(group + 1) * part]);
        }
    }

    /// The opposite of [`Sequences::gather`].
    fn scatter(&self, from: &[E], group: usize, state: &mut [E]) {
        let part = from.len() / self.components;
        let components = state.chunks_exact_mut(state.len() / self.components);
        for (from, component) in from.chunks_exact(part).zip(components) {
            component[group * part..(group + 1) * part].copy_from_slice(from);
        }
    }
}

/// A tile through all frames.
struct Forward<'a, E: Element> {
    sequences: &'a Sequences<'a, E>,
    tile: usize,
    memory: &'a mut Scratch<E>,
    /// The tape of every frame, if one is recorded.
    tape: Option<std::slice::ChunksExactMut<'a, E>>,
    /// Where the states go, by frame, then component.
    rows: Vec<&'a mut [E]>,
}

impl<E: Element> WithSimd for Forward<'_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        forward(simd, self);
    }
}

fn forward<E: Element, S: Simd>(simd: S, work: Forward<'_, E>) {
    let Forward { sequences, tile, memory, mut tape, mut rows } = work;
    let Scratch { block, cell, cell_input, updated, loaded } = memory;
    let groups = sequences.state_tiling.groups;
    for (frame, rows) in rows.chunks_exact_mut(sequences.components).enumerate() {
        sequences.load_cell::<S>(tile, frame, &block.state, loaded, cell_input);
        sequences.cell.forward(simd, sequences.cell_weights, cell_input, cell, Slots::default(), updated);
        for (group, updated) in updated.chunks_exact(updated.len() / groups).enumerate() {
            sequences.scatter(updated, group, &mut block.state);
        }
        sequences.load_gap(tile, frame, &mut block.scale);
        let mut slot = tape.as_mut().and_then(Iterator::next).map(|slot| slot.split_at_mut(sequences.plan.length));
        let solve = slot.as_mut().map(|(solve, _)| (sequences.plan, &mut **solve));
        carry(simd, Carry { call: &sequences.call, sample: 0, memory: block, tape: solve, first: None });
        if let Some((_, end)) = slot {
            end.copy_from_slice(&block.state);
        }
        for (from, rows) in block.state.chunks_exact(block.state.len() / sequences.components).zip(rows) {
            sequences.state_tiling.store(tile, from, rows);
        }
    }
}

/// What a tile adds to the gradients.
struct TileGradients<E> {
    weights: Vec<E>,
    cell: Vec<E>,
    xi: f64,
}

/// A tile back through all frames.
struct Backward<'a, E: Element> {
    sequences: &'a Sequences<'a, E>,
    tile: usize,
    memory: &'a mut Scratch<E>,
    /// The tape of every frame.
    tape: std::slice::ChunksExact<'a, E>,
    state_gradients: &'a [E],
    frame_gradients: Vec<&'a mut [E]>,
    sums: &'a mut TileGradients<E>,
}

impl<E: Element> WithSimd for Backward<'_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        backward(simd, self);
    }
}

fn backward<E: Element, S: Simd>(simd: S, work: Backward<'_, E>) {
    let Backward { sequences, tile, memory, tape, state_gradients, frame_gradients, sums } = work;
    let Scratch { block, cell, cell_input, loaded, .. } = memory;
    let (groups, lanes) = (sequences.state_tiling.groups, E::lanes::<S>());
    let (components, elements) = (sequences.components, sequences.state_tiling.elements());
    let width = sequences.cell.state / groups * lanes;
    let mut adjoint = TileAdjoint::new(components, elements);
    let mut weight_row = vec![E::ZERO; sequences.call.network.parameters];
    let mut cell_gradient = vec![E::ZERO; sequences.cell.parameters];
    let start = vec![E::ZERO; components * elements];
    let mut weight_gradients: Vec<_> = sums.weights.chunks_exact_mut(sequences.call.network.parameters).collect();
    let tapes: Vec<_> = tape.map(|slot| slot.split_at(sequences.plan.length)).collect();
    for (frame, rows) in frame_gradients.into_iter().enumerate().rev() {
        for (component, to) in adjoint.state.chunks_exact_mut(elements).enumerate() {
            let index = frame * components + component;
            let rows = sequences.rows(tile, sequences.call.problem.features(), state_gradients, index);
            let loaded = &mut loaded[..elements];
            sequences.state_tiling.load(tile, rows, loaded);
            Accumulate { to, factor: 1.0, direction: loaded }.run(simd);
        }
        sequences.load_gap(tile, frame, &mut block.scale);
        let (tape, _) = tapes[frame];
        let back = CarryBack {
            call: &sequences.call,
            sample: 0,
            steps: 0..sequences.call.problem.steps(),
            before: 0,
            memory: block,
            plan: sequences.plan,
            tape,
            adjoint: &mut adjoint,
            weight_gradient: &mut weight_gradients,
            row: Some(&mut weight_row),
        };
        carry_back(simd, back);

        // The solve started at the value of the cell's last activation.
        let value = sequences.plan.state(tape, 0);
        TimesSlope { activation: CELL, value, gradient: &mut adjoint.state }.run(simd);
        for (group, to) in cell.gradients[0][..groups * width].chunks_exact_mut(width).enumerate() {
            sequences.gather(&adjoint.state, group, to);
        }
        let before = frame.checked_sub(1).map_or(&start[..], |before| tapes[before].1);
        sequences.load_cell::<S>(tile, frame, before, loaded, cell_input);
        sequences.cell.backward(simd, sequences.cell_weights, cell_input, cell, Slots::default(), &mut cell_gradient);
        Add { to: &mut sums.cell, from: &cell_gradient }.run(simd);
        let input = width + sequences.features * lanes;
        let loaded = &mut loaded[..sequences.frame_tiling.elements()];
        let observed = loaded.chunks_exact_mut(sequences.features * lanes);
        for (group, (from, observed)) in cell.gradients[0].chunks_exact(input).zip(observed).enumerate() {
            let (state, frame) = from.split_at(width);
            sequences.scatter(state, group, &mut adjoint.state);
            observed.copy_from_slice(frame);
        }
        sequences.frame_tiling.store(tile, loaded, rows);
    }
    sums.xi = adjoint.xi;
}
