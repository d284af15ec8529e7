//! What a forward pass keeps for the backward pass.

use std::ops::Range;

use crate::{buffer::Buffer, element::Element, network::Network};

/// What is kept for one tile, and where.
///
/// Always: the state at every step and the drift of every evaluation. The values of a hidden layer before its activation are
/// kept where the memory budget allows, and computed again where it does not. Computing layer `l` again needs only the input
/// of layer `l`, which the backward pass restores in any case, so the cost of dropping a layer is its own arithmetic. Layers with
/// the most arithmetic per number are kept first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TapePlan {
    steps: usize,
    /// Elements of a state.
    state: usize,
    /// Elements of a drift.
    drift: usize,
    /// `[evaluation][hidden layer]`: elements kept, or none.
    kept: Vec<Vec<Option<usize>>>,
    /// Place of each evaluation.
    starts: Vec<usize>,
    /// Elements of a tile's tape.
    pub(crate) length: usize,
}

impl TapePlan {
    /// Keeps as much as fits `budget` elements for each tile.
    pub(crate) fn new(
        network: &Network,
        lanes: usize,
        components: usize,
        steps: usize,
        evaluations: usize,
        budget: usize,
    ) -> Self {
        let drift = network.state * lanes;
        let state = components * drift;
        let hidden = &network.layers[..network.layers.len() - 1];
        let mut remaining = budget.saturating_sub(steps * state + evaluations * drift);
        let mut kept = vec![vec![None; hidden.len()]; evaluations];
        let mut by_value: Vec<usize> = (0..hidden.len()).collect();
        let value = |index: &usize| hidden[*index].flops() as f64 / hidden[*index].outputs() as f64;
        by_value.sort_by(|a, b| value(b).total_cmp(&value(a)));
        for index in by_value {
            let elements = hidden[index].outputs() * lanes;
            for evaluation in kept.iter_mut().rev() {
                if elements <= remaining {
                    evaluation[index] = Some(elements);
                    remaining -= elements;
                }
            }
        }
        let mut length = steps * state;
        let starts = kept
            .iter()
            .map(|layers| {
                let start = length;
                length += drift + layers.iter().flatten().sum::<usize>();
                start
            })
            .collect();
        Self { steps, state, drift, kept, starts, length }
    }

    fn state_range(&self, step: usize) -> Range<usize> {
        debug_assert!(step < self.steps);
        step * self.state..(step + 1) * self.state
    }

    /// The state at the beginning of a step.
    pub(crate) fn state<'a, E>(&self, tape: &'a [E], step: usize) -> &'a [E] {
        &tape[self.state_range(step)]
    }

    /// The state at the beginning of a step, to be written.
    pub(crate) fn state_mut<'a, E>(&self, tape: &'a mut [E], step: usize) -> &'a mut [E] {
        &mut tape[self.state_range(step)]
    }

    /// Drift of an evaluation.
    pub(crate) fn drift<'a, E>(&self, tape: &'a [E], evaluation: usize) -> &'a [E] {
        &tape[self.starts[evaluation]..][..self.drift]
    }

    /// Drift and hidden layers of an evaluation.
    pub(crate) fn evaluation<'a, E>(&self, tape: &'a [E], evaluation: usize) -> (&'a [E], Vec<Option<&'a [E]>>) {
        let (drift, mut rest) = tape[self.starts[evaluation]..].split_at(self.drift);
        let mut take = |elements: usize| {
            let (slot, others) = rest.split_at(elements);
            rest = others;
            slot
        };
        (drift, self.kept[evaluation].iter().map(|kept| kept.map(&mut take)).collect())
    }

    /// Drift and hidden layers of an evaluation, to be written.
    pub(crate) fn evaluation_mut<'a, E>(
        &self,
        tape: &'a mut [E],
        evaluation: usize,
    ) -> (&'a mut [E], Vec<Option<&'a mut [E]>>) {
        let (drift, mut rest) = tape[self.starts[evaluation]..].split_at_mut(self.drift);
        let mut take = |elements: usize| {
            let (slot, others) = std::mem::take(&mut rest).split_at_mut(elements);
            rest = others;
            slot
        };
        (drift, self.kept[evaluation].iter().map(|kept| kept.map(&mut take)).collect())
    }
}

/// The record of a forward pass, for one backward pass.
#[derive(Debug)]
pub struct Tape<E> {
    pub(crate) plan: TapePlan,
    pub(crate) memory: Buffer<E>,
    /// (samples, batch) of the recording.
    pub(crate) extents: (usize, usize),
}

impl<E: Element> Tape<E> {
    /// Memory held, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.memory.len() * size_of::<E>()
    }
}
