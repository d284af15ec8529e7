//! What a forward pass keeps for the backward pass.

use std::ops::Range;

use crate::{
    buffer::Buffer,
    element::Element,
    far_memory::Foreseen,
    network::{FoldedWeights, Network},
    problem::{Dynamics, Problem},
};

/// What is kept for one tile, and where.
///
/// Always: the state at every step and the drift of every evaluation, as far as the backward pass asks for it. The values of a hidden layer
/// before its activation are kept where the memory budget allows, and computed again where it does not. Computing layer `l` again needs
/// only the input of layer `l`, which the backward pass restores in any case, so the cost of dropping a layer is its own arithmetic. Layers
/// with the most arithmetic per number are kept first, those with next to none never.
///
/// The backward pass reads the tape from its end to its beginning: of every step, the last stage asks for the state, all drifts and its own
/// hidden layers, which lie together, and each stage before it for its hidden layers, which lie before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TapePlan {
    pub(crate) steps: usize,
    /// Elements of a state.
    state: usize,
    /// `[evaluation][hidden layer]`: elements kept, or none.
    kept: Vec<Vec<Option<usize>>>,
    /// Place of the state of each step.
    states: Vec<usize>,
    /// Places of the drift and of the hidden layers of each evaluation.
    evaluations: Vec<[Range<usize>; 2]>,
    /// Elements of a tile's tape.
    pub(crate) length: usize,
    /// Whether the tapes of all tiles are more than caches hold.
    pub(crate) far: bool,
}

/// Bytes of tapes that caches may hold until the backward pass reads them.
const NEAR: usize = 16 << 20;

/// Most bytes of an evaluation that are asked for while the one after it is computed.
const FORESEEN: usize = 128 << 10;

/// Floating-point operations a number that are no more work than to write the number and to read it again.
const CHEAP: f64 = 16.0;

impl TapePlan {
    /// Keeps as much as fits `budget` bytes for all of `tiles` tiles.
    pub(crate) fn new<E>(network: &Network, lanes: usize, problem: &Problem, tiles: usize, budget: usize) -> Self {
        let (steps, stages, evaluations) = (problem.steps(), problem.method().stages(), problem.evaluations());
        let budget = budget / tiles / size_of::<E>();
        let elements = network.state * lanes;
        let state = problem.components() * elements;
        let drift = |stage: usize| if asks_for_drift(problem, stage) { elements } else { 0 };
        let hidden = &network.layers[..network.layers.len() - 1];
        let always = state + (0..stages).map(drift).sum::<usize>();
        let mut remaining = budget.saturating_sub(steps * always);
        let mut kept = vec![vec![None; hidden.len()]; evaluations];
        let value = |index: &usize| hidden[*index].flops() as f64 / hidden[*index].outputs() as f64;
        let mut by_value: Vec<usize> = (0..hidden.len()).filter(|index| value(index) > CHEAP).collect();
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
        let mut length = 0;
        let mut place = |elements: usize| {
            length += elements;
            length - elements..length
        };
        let (mut states, mut places) = (Vec::with_capacity(steps), vec![[0..0, 0..0]; evaluations]);
        for step in 0..steps {
            let (first, last) = (step * stages, (step + 1) * stages - 1);
            let layers = |evaluation: usize| kept[evaluation].iter().flatten().sum::<usize>();
            (first..last).for_each(|evaluation| places[evaluation][1] = place(layers(evaluation)));
            states.push(place(state).start);
            (first..=last).for_each(|evaluation| places[evaluation][0] = place(drift(evaluation - first)));
            places[last][1] = place(layers(last));
        }
        Self { steps, state, kept, states, evaluations: places, length, far: tiles * length * size_of::<E>() > NEAR }
    }

    fn state_range(&self, step: usize) -> Range<usize> {
        self.states[step]..self.states[step] + self.state
    }

    /// The state at the beginning of a step.
    pub(crate) fn state<'a, E>(&self, tape: &'a [E], step: usize) -> &'a [E] {
        &tape[self.state_range(step)]
    }

    /// The state at the beginning of a step, to be written.
    pub(crate) fn state_mut<'a, E>(&self, tape: &'a mut [E], step: usize) -> &'a mut [E] {
        &mut tape[self.state_range(step)]
    }

    /// Drift of an evaluation; nothing if nobody asks for it.
    pub(crate) fn drift<'a, E>(&self, tape: &'a [E], evaluation: usize) -> &'a [E] {
        &tape[self.evaluations[evaluation][0].clone()]
    }

    /// What the backward pass asks for at an evaluation and not after it, if it is neither near nor more than the caches hold.
    pub(crate) fn foresee<'a, E>(&self, tape: &'a [E], evaluation: usize) -> Foreseen<'a, E> {
        let stages = self.evaluations.len() / self.steps;
        let hidden = &self.evaluations[evaluation][1];
        let last = (evaluation + 1).is_multiple_of(stages);
        let start = if last { self.states[evaluation / stages] } else { hidden.start };
        let asked = &tape[start..hidden.end];
        Foreseen(if size_of_val(asked) <= FORESEEN { asked } else { &[] })
    }

    /// Drift and hidden layers of an evaluation.
    pub(crate) fn evaluation<'a, E>(&'a self, tape: &'a [E], evaluation: usize) -> (&'a [E], Slots<'a, &'a [E]>) {
        let [drift, hidden] = self.evaluations[evaluation].clone();
        (&tape[drift], Slots { kept: &self.kept[evaluation], far: self.far, rest: &tape[hidden] })
    }

    /// Drift and hidden layers of an evaluation, to be written.
    pub(crate) fn evaluation_mut<'a, E>(
        &'a self,
        tape: &'a mut [E],
        evaluation: usize,
    ) -> (&'a mut [E], Slots<'a, &'a mut [E]>) {
        let [drift, rest] =
            tape.get_disjoint_mut(self.evaluations[evaluation].clone()).expect("ranges that do not meet");
        (drift, Slots { kept: &self.kept[evaluation], far: self.far, rest })
    }
}

/// Whether the backward pass asks for the drift of a stage: that of first-order dynamics, only to find the next stage.
fn asks_for_drift(problem: &Problem, stage: usize) -> bool {
    problem.dynamics() != Dynamics::FirstOrder || stage + 1 < problem.method().stages()
}

/// The hidden layers of an evaluation, in order: what is kept of each, or nothing.
#[derive(Debug, Default)]
pub(crate) struct Slots<'a, R> {
    /// Elements of each, or none.
    kept: &'a [Option<usize>],
    /// Whether the tape is more than caches hold.
    pub(crate) far: bool,
    rest: R,
}

impl<R> Slots<'_, R> {
    /// Elements kept of the next layer; none if there are no more layers.
    fn elements(&mut self) -> Option<usize> {
        let (&first, others) = self.kept.split_first()?;
        self.kept = others;
        first
    }
}

impl<'a, E> Slots<'_, &'a [E]> {
    /// What is kept of a hidden layer.
    pub(crate) fn of_layer(&self, index: usize) -> Option<&'a [E]> {
        let elements = self.kept.get(index).copied().flatten()?;
        let start: usize = self.kept[..index].iter().flatten().sum();
        Some(&self.rest[start..start + elements])
    }
}

impl<'a, E> Slots<'_, &'a mut [E]> {
    /// What is kept of the next layer, to be written.
    pub(crate) fn next_layer(&mut self) -> Option<&'a mut [E]> {
        let elements = self.elements()?;
        self.rest.split_off_mut(..elements)
    }
}

/// The record of consecutive steps.
#[derive(Debug)]
pub(crate) struct Segment<E> {
    pub(crate) plan: TapePlan,
    /// `[sample][tile]`, as the plan says.
    pub(crate) memory: Buffer<E>,
}

impl<E> Segment<E> {
    /// The tape of a tile of a sample.
    pub(crate) fn of_tile(&self, task: usize) -> &[E] {
        &self.memory[task * self.plan.length..(task + 1) * self.plan.length]
    }
}

/// The record of a forward pass, for one backward pass.
#[derive(Debug)]
pub struct Tape<E> {
    /// In the order of time.
    pub(crate) segments: Vec<Segment<E>>,
    /// (samples, batch) of the recording.
    pub(crate) extents: (usize, usize),
    /// The weights of the recording, prepared for the backward pass as well.
    pub(crate) folded: FoldedWeights<E>,
}

impl<E: Element> Tape<E> {
    /// Memory held for activations, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.memory.len()).sum::<usize>() * size_of::<E>()
    }
}
