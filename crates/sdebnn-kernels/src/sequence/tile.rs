//! One tile of sequences through all frames and gaps, on one thread: forward, and back.

use pulp::{Simd, WithSimd};

use super::{CELL, SequenceInputs};
use crate::{
    buffer::Buffer,
    carry::{Call, Carry, CarryBack, TileAdjoint, TileMemory, carry, carry_back},
    element::Element,
    elementwise::{Accumulate, Add, TimesSlope},
    far_memory::Foreseen,
    network::{Network, StageWeights, Workspace},
    tape::{Slots, TapePlan},
    tiling::Tiling,
};

/// What all tiles of a call share.
pub(super) struct Sequences<'a, E> {
    pub(super) call: Call<'a, E>,
    pub(super) cell: &'a Network,
    pub(super) cell_weights: StageWeights<'a, E>,
    pub(super) inputs: SequenceInputs<'a, E>,
    pub(super) plan: &'a TapePlan,
    /// Where examples of a frame, and of a state, are found.
    pub(super) frame_tiling: Tiling,
    pub(super) state_tiling: Tiling,
    pub(super) features: usize,
    pub(super) components: usize,
}

/// Memory in which a tile of sequences is carried.
pub(super) struct Scratch<E> {
    pub(super) block: TileMemory<E>,
    pub(super) cell: Workspace<E>,
    /// Input of the cell, `[group][state; frame]`.
    pub(super) cell_input: Buffer<E>,
    /// Output of the cell, `[group][component][feature of the state]`.
    pub(super) updated: Buffer<E>,
    /// A frame, or the gradient of a state, as vectors.
    pub(super) loaded: Buffer<E>,
}

/// The rows of every tile in an array of many `[B][width]`, in order.
pub(super) fn rows_of_tiles<'a, E>(tiling: &Tiling, width: usize, array: &'a mut [E]) -> Vec<Vec<&'a mut [E]>> {
    let mut tiles: Vec<Vec<_>> = (0..tiling.tiles).map(|_| Vec::new()).collect();
    for frame in array.chunks_exact_mut(tiling.batch * width) {
        for (tile, rows) in tiles.iter_mut().zip(frame.chunks_mut(tiling.groups * tiling.lanes * width)) {
            tile.push(rows);
        }
    }
    tiles
}

impl<E: Element> Sequences<'_, E> {
    pub(super) fn rows_of_tiles<'a>(&self, states: &'a mut [E]) -> Vec<Vec<&'a mut [E]>> {
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
pub(super) struct Forward<'a, E: Element> {
    pub(super) sequences: &'a Sequences<'a, E>,
    pub(super) tile: usize,
    pub(super) memory: &'a mut Scratch<E>,
    /// The tape of every frame, if one is recorded.
    pub(super) tape: Option<std::slice::ChunksExactMut<'a, E>>,
    /// Where the states go, by frame, then component.
    pub(super) rows: Vec<&'a mut [E]>,
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
pub(super) struct TileGradients<E> {
    pub(super) weights: Vec<E>,
    pub(super) cell: Vec<E>,
    pub(super) xi: f64,
}

/// A tile back through all frames.
pub(super) struct Backward<'a, E: Element> {
    pub(super) sequences: &'a Sequences<'a, E>,
    pub(super) tile: usize,
    pub(super) memory: &'a mut Scratch<E>,
    /// The tape of every frame.
    pub(super) tape: std::slice::ChunksExact<'a, E>,
    pub(super) state_gradients: &'a [E],
    pub(super) frame_gradients: Vec<&'a mut [E]>,
    pub(super) sums: &'a mut TileGradients<E>,
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
        sequences.cell.backward(
            simd,
            sequences.cell_weights,
            cell_input,
            cell,
            Slots::default(),
            &mut Foreseen(&[]),
            &mut cell_gradient,
        );
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
