//! Activations along a weight path as one differentiable operation.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, ElementConversion, Tensor};
use sdebnn_kernels::{Inputs, Problem, Settings, Solver, Tape};

use super::{FITS, REUSED, Real, Remembered, Remembers, contiguous, lock, numbers, tensor};
use crate::dynamics::State;

impl Remembers<Solver<Self>> for f32 {
    fn remembered() -> &'static Remembered<Solver<Self>> {
        static SOLVERS: Remembered<Solver<f32>> = Remembered::new();
        &SOLVERS
    }
}

impl Remembers<Solver<Self>> for f64 {
    fn remembered() -> &'static Remembered<Solver<Self>> {
        static SOLVERS: Remembered<Solver<f64>> = Remembered::new();
        &SOLVERS
    }
}

/// Everything about a call that is not differentiated.
#[derive(Clone, Debug)]
pub struct Call {
    solve: Solve,
    time_scale: Option<Vec<f64>>,
}

#[derive(Clone, Debug)]
enum Solve {
    /// A solve to make.
    New(Problem, Settings),
    /// One that was made before.
    Recorded(Recorded),
}

/// A forward pass that was made before: its solver, its result, and its tape if it has one.
#[derive(Clone, Debug)]
pub(crate) struct Recorded(Arc<dyn Any + Send + Sync>);

/// What a forward pass found, and its tape if it has one.
type Made<E> = (Vec<E>, Option<Tape<E>>);

impl Recorded {
    pub(crate) fn new<E: Real>(solver: Solver<E>, state: Vec<E>, tape: Option<Tape<E>>) -> Self {
        Self(Arc::new((Arc::new(solver), Mutex::new(Some((state, tape))))))
    }

    fn take<E: Real>(self) -> (Arc<Solver<E>>, Option<Made<E>>) {
        let made = self.0.downcast::<(Arc<Solver<E>>, Mutex<Option<Made<E>>>)>();
        let made = made.expect("a recording of the same type of number");
        (Arc::clone(&made.0), lock(&made.1).take())
    }
}

/// Carries a state along stage weights `[evaluations, samples, P]` (rows behind the evaluations are left alone).
pub(crate) fn carry(
    problem: Problem,
    settings: Settings,
    state: State,
    weights: Tensor<3>,
    xi: Tensor<1>,
    time_scale: Option<&Tensor<1>>,
) -> State {
    run(Solve::New(problem, settings), state, weights, xi, time_scale)
}

/// As [`carry`], where the forward pass was made before, with the same numbers.
pub(crate) fn carry_recorded(
    recorded: Recorded,
    state: State,
    weights: Tensor<3>,
    xi: Tensor<1>,
    time_scale: Option<&Tensor<1>>,
) -> State {
    run(Solve::Recorded(recorded), state, weights, xi, time_scale)
}

fn run(solve: Solve, state: State, weights: Tensor<3>, xi: Tensor<1>, time_scale: Option<&Tensor<1>>) -> State {
    let time_scale = time_scale.map(|scale| scale.clone().try_into_vec_as().expect("numbers of a tensor on the CPU"));
    let call = Call { solve, time_scale };
    let packed = Tensor::stack::<4>(state, 0);
    let (packed, weights, xi) = (packed.into_dispatch(), weights.into_dispatch(), xi.into_dispatch());
    let end = Tensor::<4>::from_dispatch(<Dispatch as CarryBackend>::carry(packed, weights, xi, call));
    end.iter_dim(0).map(|component| component.squeeze_dim(0)).collect()
}

/// A backend that has the operation.
#[backend_extension(Flex, Autodiff)]
pub trait CarryBackend: burn::backend::Backend {
    /// See [`carry`].
    fn carry(
        state: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        xi: FloatTensor<Self>,
        call: Call,
    ) -> FloatTensor<Self>;
}

impl CarryBackend for Flex {
    fn carry(state: FlexTensor, weights: FlexTensor, xi: FlexTensor, call: Call) -> FlexTensor {
        match state.dtype() {
            DType::F64 => Recording::<f64>::new(state, weights, xi, call).forward(),
            _ => Recording::<f32>::new(state, weights, xi, call).forward(),
        }
    }
}

impl<C: CheckpointStrategy> CarryBackend for Autodiff<Flex, C> {
    fn carry(
        state: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        xi: FloatTensor<Self>,
        call: Call,
    ) -> FloatTensor<Self> {
        match state.dtype() {
            DType::F64 => tracked::<f64, C>(state, weights, xi, call),
            _ => tracked::<f32, C>(state, weights, xi, call),
        }
    }
}

fn tracked<E: Real + Remembers<Solver<E>>, C: CheckpointStrategy>(
    state: FloatTensor<Autodiff<Flex, C>>,
    weights: FloatTensor<Autodiff<Flex, C>>,
    xi: FloatTensor<Autodiff<Flex, C>>,
    call: Call,
) -> FloatTensor<Autodiff<Flex, C>> {
    let (state, state_node) = state.into_parts();
    let (weights, weights_node) = weights.into_parts();
    let (xi, xi_node) = xi.into_parts();
    let recording = Recording::<E>::new(state, weights, xi, call);
    let backward = CarryBackward::<E>(PhantomData);
    match backward.prepare::<C>([state_node, weights_node, xi_node]).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => {
            let result = recording.record();
            prepared.finish(recording, result)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(recording.forward()),
    }
}

/// A call with its inputs, and the tape of its forward pass.
#[derive(Clone, Debug)]
struct Recording<E: Real> {
    solver: Arc<Solver<E>>,
    state: FlexTensor,
    weights: FlexTensor,
    xi: FlexTensor,
    time_scale: Option<Vec<E>>,
    /// What a forward pass that was made before has found.
    made: Arc<Mutex<Option<Made<E>>>>,
    tape: Arc<Mutex<Option<Tape<E>>>>,
}

impl<E: Real + Remembers<Solver<E>>> Recording<E> {
    fn new(state: FlexTensor, weights: FlexTensor, xi: FlexTensor, call: Call) -> Self {
        let time_scale = call.time_scale.map(|scale| scale.into_iter().map(|v| v.elem::<E>()).collect());
        let (solver, made) = match call.solve {
            Solve::New(problem, settings) => {
                let fits = |s: &Solver<E>| *s.problem() == problem && *s.settings() == settings;
                (E::remembered().get(fits, || Solver::with_settings(problem.clone(), settings)), None)
            }
            Solve::Recorded(recorded) => recorded.take(),
        };
        let [state, weights, xi] = [state, weights, xi].map(contiguous);
        Self { solver, state, weights, xi, time_scale, made: Arc::new(Mutex::new(made)), tape: Arc::default() }
    }

    /// How many of the weights are those of drift evaluations.
    fn weights_used(&self) -> usize {
        let problem = self.solver.problem();
        problem.evaluations() * self.state.shape()[1] * problem.parameters()
    }

    fn inputs(&self) -> Inputs<'_, E> {
        let shape = self.state.shape();
        Inputs {
            samples: shape[1],
            batch: shape[2],
            weights: &numbers(&self.weights)[..self.weights_used()],
            state: numbers(&self.state),
            xi: numbers::<E>(&self.xi)[0],
            time_scale: self.time_scale.as_deref(),
        }
    }

    fn forward(&self) -> FlexTensor {
        if let Some((result, _)) = lock(&self.made).take() {
            return tensor(result, self.state.shape());
        }
        let mut result = vec![E::default(); self.state.shape().num_elements()];
        self.solver.forward(&self.inputs(), &mut result).expect(FITS);
        tensor(result, self.state.shape())
    }

    fn record(&self) -> FlexTensor {
        if let Some((result, tape)) = lock(&self.made).take() {
            *lock(&self.tape) = tape;
            return tensor(result, self.state.shape());
        }
        let mut result = vec![E::default(); self.state.shape().num_elements()];
        let tape = self.solver.record(&self.inputs(), &mut result).expect(FITS);
        *lock(&self.tape) = Some(tape);
        tensor(result, self.state.shape())
    }
}

/// The vector–Jacobian product of the discrete solve.
#[derive(Debug)]
struct CarryBackward<E>(PhantomData<E>);

impl<E: Real + Remembers<Solver<E>>> Backward<Flex, 3> for CarryBackward<E> {
    type State = Recording<E>;

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [state_node, weights_node, xi_node] = ops.parents;
        let gradient = contiguous(grads.consume::<Flex>(&ops.node));
        let recording = ops.state;
        let tape = lock(&recording.tape).take().expect("a tape that no backward pass has used");
        let (shape, weights_shape) = (recording.state.shape(), recording.weights.shape());
        let mut state = vec![E::default(); shape.num_elements()];
        let mut xi = [E::default()];
        let weights = REUSED.tensor(weights_shape, |weights| {
            let (used, others) = weights.split_at_mut(recording.weights_used());
            others.fill(E::default());
            let gradients = sdebnn_kernels::Gradients { state: &mut state, weights: used, xi: &mut xi[0] };
            recording.solver.backward(&recording.inputs(), tape, numbers(&gradient), gradients).expect(FITS);
        });
        if let Some(node) = state_node {
            grads.register::<Flex>(node.id, tensor(state, shape));
        }
        if let Some(node) = weights_node {
            grads.register::<Flex>(node.id, weights);
        }
        if let Some(node) = xi_node {
            grads.register::<Flex>(node.id, tensor(xi.to_vec(), recording.xi.shape()));
        }
    }
}
