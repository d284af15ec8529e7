//! The path of the weights as one differentiable operation.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Shape, Tensor};
use sdebnn_kernels::{
    WeightPathGradients, WeightPathInputs, WeightPathOutputGradients, WeightPathOutputs, WeightPathProblem,
    WeightPathSolver, WeightPathTape,
};

use super::{FITS, REUSED, Real, Remembered, Remembers, contiguous, lock, numbers, tensor};
use crate::weights::{StageWeights, WeightPath};

impl Remembers<WeightPathSolver<Self>> for f32 {
    fn remembered() -> &'static Remembered<WeightPathSolver<Self>> {
        static SOLVERS: Remembered<WeightPathSolver<f32>> = Remembered::new();
        &SOLVERS
    }
}

impl Remembers<WeightPathSolver<Self>> for f64 {
    fn remembered() -> &'static Remembered<WeightPathSolver<Self>> {
        static SOLVERS: Remembered<WeightPathSolver<f64>> = Remembered::new();
        &SOLVERS
    }
}

/// Solves the weights from `w0` (`[M]`) with the parameters `phi` (flat) and the increments `noise` (`[steps, samples, M]`), which
/// are numbers of the same type.
pub(crate) fn weight_path(
    problem: WeightPathProblem,
    grid: Vec<f64>,
    w0: Tensor<1>,
    phi: Tensor<1>,
    noise: FlexTensor,
) -> WeightPath {
    let evaluations = problem.evaluations();
    let (w0, phi) = (w0.into_dispatch(), phi.into_dispatch());
    let packed = Tensor::<3>::from_dispatch(<Dispatch as WeightPathBackend>::weight_path(w0, phi, noise, problem));
    WeightPath {
        grid,
        end: packed.clone().narrow(0, evaluations, 1).squeeze_dim(0),
        kl: packed.clone().narrow(0, evaluations + 1, 1).narrow(2, 0, 1).reshape([-1]),
        martingale: None,
        stages: StageWeights::Stacked(packed),
    }
}

/// A backend that has the operation. A node of the graph has one output, so everything comes in one tensor `[evaluations + 2, samples, M]`:
/// the weights at every evaluation, those at the end, and a row that begins with the KL divergence.
#[backend_extension(Flex, Autodiff)]
pub trait WeightPathBackend: burn::backend::Backend {
    /// Solves the weights.
    fn weight_path(
        w0: FloatTensor<Self>,
        phi: FloatTensor<Self>,
        noise: FlexTensor,
        problem: WeightPathProblem,
    ) -> FloatTensor<Self>;
}

impl WeightPathBackend for Flex {
    fn weight_path(w0: FlexTensor, phi: FlexTensor, noise: FlexTensor, problem: WeightPathProblem) -> FlexTensor {
        match w0.dtype() {
            DType::F64 => Recording::<f64>::new(w0, phi, noise, problem).solve(),
            _ => Recording::<f32>::new(w0, phi, noise, problem).solve(),
        }
    }
}

impl<C: CheckpointStrategy> WeightPathBackend for Autodiff<Flex, C> {
    fn weight_path(
        w0: FloatTensor<Self>,
        phi: FloatTensor<Self>,
        noise: FlexTensor,
        problem: WeightPathProblem,
    ) -> FloatTensor<Self> {
        match w0.dtype() {
            DType::F64 => tracked::<f64, C>(w0, phi, noise, problem),
            _ => tracked::<f32, C>(w0, phi, noise, problem),
        }
    }
}

fn tracked<E: Real + Remembers<WeightPathSolver<E>>, C: CheckpointStrategy>(
    w0: FloatTensor<Autodiff<Flex, C>>,
    phi: FloatTensor<Autodiff<Flex, C>>,
    noise: FlexTensor,
    problem: WeightPathProblem,
) -> FloatTensor<Autodiff<Flex, C>> {
    let ((w0, w0_node), (phi, phi_node)) = (w0.into_parts(), phi.into_parts());
    let recording = Recording::<E>::new(w0, phi, noise, problem);
    match WeightPathBackward::<E>(PhantomData).prepare::<C>([w0_node, phi_node]).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => {
            let packed = recording.record();
            prepared.finish(recording, packed)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(recording.solve()),
    }
}

/// A call with its inputs, and what its forward pass left behind.
#[derive(Clone, Debug)]
struct Recording<E: Real> {
    solver: Arc<WeightPathSolver<E>>,
    w0: FlexTensor,
    phi: FlexTensor,
    noise: FlexTensor,
    packed: Arc<Mutex<Option<FlexTensor>>>,
    tape: Arc<Mutex<Option<WeightPathTape<E>>>>,
}

impl<E: Real + Remembers<WeightPathSolver<E>>> Recording<E> {
    fn new(w0: FlexTensor, phi: FlexTensor, noise: FlexTensor, problem: WeightPathProblem) -> Self {
        let solver = E::remembered().get(|s| *s.problem() == problem, || WeightPathSolver::new(problem.clone()));
        let [w0, phi, noise] = [w0, phi, noise].map(contiguous);
        Self { solver, w0, phi, noise, packed: Arc::default(), tape: Arc::default() }
    }

    /// Numbers in a row of the packed result, and rows of evaluations.
    fn extents(&self) -> (usize, usize) {
        (self.noise.shape()[1] * self.noise.shape()[2], self.solver.problem().evaluations())
    }

    fn solve(&self) -> FlexTensor {
        REUSED.tensor(self.shape(), |packed| {
            self.write(packed, |inputs, outputs| self.solver.forward(inputs, outputs).expect(FITS));
        })
    }

    fn record(&self) -> FlexTensor {
        let packed = REUSED.tensor(self.shape(), |packed| {
            *lock(&self.tape) =
                Some(self.write(packed, |inputs, outputs| self.solver.record(inputs, outputs).expect(FITS)));
        });
        *lock(&self.packed) = Some(packed.clone());
        packed
    }

    /// The shape of the packed result.
    fn shape(&self) -> Shape {
        let [_, samples, moving] = [0, 1, 2].map(|d| self.noise.shape()[d]);
        Shape::new([self.solver.problem().evaluations() + 2, samples, moving])
    }

    fn inputs(&self) -> WeightPathInputs<'_, E> {
        WeightPathInputs {
            samples: self.noise.shape()[1],
            initial: numbers(&self.w0),
            seen: None,
            phi: numbers(&self.phi),
            noise: numbers(&self.noise),
        }
    }

    /// Sets all numbers of the packed result.
    fn write<T>(
        &self,
        packed: &mut [E],
        solve: impl FnOnce(&WeightPathInputs<'_, E>, WeightPathOutputs<'_, E>) -> T,
    ) -> T {
        let [_, samples, moving] = [0, 1, 2].map(|d| self.noise.shape()[d]);
        let (row, evaluations) = self.extents();
        let (stages, rest) = packed.split_at_mut(evaluations * row);
        let (end, last) = rest.split_at_mut(row);
        let mut kl = vec![E::default(); samples];
        let solved = solve(&self.inputs(), WeightPathOutputs { stages, end, kl: &mut kl, seen: None });
        last.fill(E::default());
        for (place, kl) in last.chunks_exact_mut(moving).zip(kl) {
            place[0] = kl;
        }
        solved
    }
}

/// The vector–Jacobian product of the discrete solve.
#[derive(Debug)]
struct WeightPathBackward<E>(PhantomData<E>);

impl<E: Real + Remembers<WeightPathSolver<E>>> Backward<Flex, 2> for WeightPathBackward<E> {
    type State = Recording<E>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [w0_node, phi_node] = ops.parents;
        let gradient = contiguous(grads.consume::<Flex>(&ops.node));
        let recording = ops.state;
        let (Some(tape), Some(packed)) = (lock(&recording.tape).take(), lock(&recording.packed).take()) else {
            panic!("a tape that no backward pass has used");
        };
        let (row, evaluations) = recording.extents();
        let (stages, rest) = numbers::<E>(&gradient).split_at(evaluations * row);
        let (end, last) = rest.split_at(row);
        let moving = recording.noise.shape()[2];
        let kl: Vec<E> = last.chunks_exact(moving).map(|place| place[0]).collect();
        let mut initial = vec![E::default(); moving];
        let mut phi = vec![E::default(); recording.phi.shape().num_elements()];
        recording
            .solver
            .backward(
                &recording.inputs(),
                &numbers::<E>(&packed)[..evaluations * row],
                tape,
                &WeightPathOutputGradients { stages, end, kl: &kl },
                WeightPathGradients { initial: &mut initial, phi: &mut phi },
            )
            .expect(FITS);
        if let Some(node) = w0_node {
            grads.register::<Flex>(node.id, tensor(initial, recording.w0.shape()));
        }
        if let Some(node) = phi_node {
            grads.register::<Flex>(node.id, tensor(phi, recording.phi.shape()));
        }
    }
}
