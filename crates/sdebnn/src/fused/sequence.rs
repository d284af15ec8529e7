//! A pass over sequences, cell and block, as one differentiable operation.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Shape, Tensor};
use sdebnn_kernels::{Problem, SequenceGradients, SequenceInputs, SequenceSolver, SequenceTape, Settings};

use super::{FITS, Real, Remembered, Remembers, contiguous, lock, numbers, tensor};

impl Remembers<SequenceSolver<Self>> for f32 {
    fn remembered() -> &'static Remembered<SequenceSolver<Self>> {
        static SOLVERS: Remembered<SequenceSolver<f32>> = Remembered::new();
        &SOLVERS
    }
}

impl Remembers<SequenceSolver<Self>> for f64 {
    fn remembered() -> &'static Remembered<SequenceSolver<Self>> {
        static SOLVERS: Remembered<SequenceSolver<f64>> = Remembered::new();
        &SOLVERS
    }
}

/// Everything about a call that is not a tensor.
#[derive(Clone, Debug)]
pub struct SequenceCall {
    /// The solve across a gap.
    pub problem: Problem,
    /// How it works.
    pub settings: Settings,
    /// Widths of the cell's hidden layers.
    pub hidden: Vec<usize>,
}

/// The tensors of a call.
pub(crate) struct SequenceTensors {
    /// Stage weights `[evaluations, 1, P]` (rows behind the evaluations are left alone).
    pub(crate) weights: Tensor<3>,
    /// The parameters of the cell, flat.
    pub(crate) cell: Tensor<1>,
    /// `[frames, batch, features]`.
    pub(crate) frames: Tensor<3>,
    /// `ξ`, `[1]`.
    pub(crate) xi: Tensor<1>,
    /// `[frames, batch]`, not differentiated.
    pub(crate) gaps: Tensor<2>,
}

/// The state after every gap, `[frames, components, batch, hidden]`.
pub(crate) fn sequence(call: SequenceCall, tensors: SequenceTensors) -> Tensor<4> {
    let SequenceTensors { weights, cell, frames, xi, gaps } = tensors;
    let [weights, frames] = [weights, frames].map(Tensor::into_dispatch);
    let [cell, xi] = [cell, xi].map(Tensor::into_dispatch);
    let gaps = gaps.into_dispatch();
    Tensor::from_dispatch(<Dispatch as SequenceBackend>::sequence(weights, cell, frames, xi, gaps, call))
}

/// A backend that has the operation.
#[backend_extension(Flex, Autodiff)]
pub trait SequenceBackend: burn::backend::Backend {
    /// The state after every gap.
    fn sequence(
        weights: FloatTensor<Self>,
        cell: FloatTensor<Self>,
        frames: FloatTensor<Self>,
        xi: FloatTensor<Self>,
        gaps: FloatTensor<Self>,
        call: SequenceCall,
    ) -> FloatTensor<Self>;
}

impl SequenceBackend for Flex {
    fn sequence(
        weights: FlexTensor,
        cell: FlexTensor,
        frames: FlexTensor,
        xi: FlexTensor,
        gaps: FlexTensor,
        call: SequenceCall,
    ) -> FlexTensor {
        let parents = [weights, cell, frames, xi];
        match parents[0].dtype() {
            DType::F64 => Recording::<f64>::new(parents, gaps, call).forward(),
            _ => Recording::<f32>::new(parents, gaps, call).forward(),
        }
    }
}

impl<C: CheckpointStrategy> SequenceBackend for Autodiff<Flex, C> {
    fn sequence(
        weights: FloatTensor<Self>,
        cell: FloatTensor<Self>,
        frames: FloatTensor<Self>,
        xi: FloatTensor<Self>,
        gaps: FloatTensor<Self>,
        call: SequenceCall,
    ) -> FloatTensor<Self> {
        let parents = [weights, cell, frames, xi];
        match parents[0].dtype() {
            DType::F64 => tracked::<f64, C>(parents, gaps, call),
            _ => tracked::<f32, C>(parents, gaps, call),
        }
    }
}

fn tracked<E: Real + Remembers<SequenceSolver<E>>, C: CheckpointStrategy>(
    parents: [FloatTensor<Autodiff<Flex, C>>; 4],
    gaps: FloatTensor<Autodiff<Flex, C>>,
    call: SequenceCall,
) -> FloatTensor<Autodiff<Flex, C>> {
    let [(weights, n0), (cell, n1), (frames, n2), (xi, n3)] = parents.map(|parent| parent.into_parts());
    let recording = Recording::<E>::new([weights, cell, frames, xi], gaps.into_parts().0, call);
    match SequenceBackward::<E>(PhantomData).prepare::<C>([n0, n1, n2, n3]).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => {
            let states = recording.record();
            prepared.finish(recording, states)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(recording.forward()),
    }
}

/// A call with its inputs, and the tape of its forward pass.
#[derive(Clone, Debug)]
struct Recording<E: Real> {
    solver: Arc<SequenceSolver<E>>,
    /// Weights, cell, frames, `ξ`.
    parents: [FlexTensor; 4],
    gaps: FlexTensor,
    tape: Arc<Mutex<Option<SequenceTape<E>>>>,
}

impl<E: Real + Remembers<SequenceSolver<E>>> Recording<E> {
    fn new(parents: [FlexTensor; 4], gaps: FlexTensor, call: SequenceCall) -> Self {
        let SequenceCall { problem, settings, hidden } = call;
        let features = parents[2].shape()[2];
        let fits = |s: &SequenceSolver<E>| {
            *s.problem() == problem && *s.settings() == settings && s.features() == features && s.hidden() == hidden
        };
        let new = || SequenceSolver::new(problem.clone(), features, &hidden, settings);
        let solver = E::remembered().get(fits, new);
        Self { solver, parents: parents.map(contiguous), gaps: contiguous(gaps), tape: Arc::default() }
    }

    /// How many of the weights are those of drift evaluations.
    fn weights_used(&self) -> usize {
        self.solver.problem().evaluations() * self.solver.problem().parameters()
    }

    fn inputs(&self) -> SequenceInputs<'_, E> {
        let [weights, cell, frames, xi] = self.parents.each_ref().map(numbers::<E>);
        SequenceInputs {
            batch: self.gaps.shape()[1],
            weights: &weights[..self.weights_used()],
            cell,
            frames,
            gaps: numbers(&self.gaps),
            xi: xi[0],
        }
    }

    fn shape(&self) -> Shape {
        let ([frames, batch], problem) = (self.gaps.shape().dims(), self.solver.problem());
        Shape::new([frames, problem.components(), batch, problem.features()])
    }

    fn forward(&self) -> FlexTensor {
        let mut states = vec![E::default(); self.shape().num_elements()];
        self.solver.forward(&self.inputs(), &mut states).expect(FITS);
        tensor(states, self.shape())
    }

    fn record(&self) -> FlexTensor {
        let mut states = vec![E::default(); self.shape().num_elements()];
        let tape = self.solver.record(&self.inputs(), &mut states).expect(FITS);
        *lock(&self.tape) = Some(tape);
        tensor(states, self.shape())
    }
}

/// The vector–Jacobian product of the whole pass.
#[derive(Debug)]
struct SequenceBackward<E>(PhantomData<E>);

impl<E: Real + Remembers<SequenceSolver<E>>> Backward<Flex, 4> for SequenceBackward<E> {
    type State = Recording<E>;

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = contiguous(grads.consume::<Flex>(&ops.node));
        let recording = ops.state;
        let tape = lock(&recording.tape).take().expect("a tape that no backward pass has used");
        let shapes = recording.parents.each_ref().map(TensorMetadata::shape);
        let [mut weights, mut cell, mut frames, mut xi] =
            shapes.each_ref().map(|shape| vec![E::default(); shape.num_elements()]);
        let gradients = SequenceGradients {
            weights: &mut weights[..recording.weights_used()],
            cell: &mut cell,
            frames: &mut frames,
            xi: &mut xi[0],
        };
        recording.solver.backward(&recording.inputs(), tape, numbers(&gradient), gradients).expect(FITS);
        for ((node, values), shape) in ops.parents.into_iter().zip([weights, cell, frames, xi]).zip(shapes) {
            if let Some(node) = node {
                grads.register::<Flex>(node.id, tensor(values, shape));
            }
        }
    }
}
