//! The fused engine as one differentiable tensor operation.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Element, ElementConversion, Shape, Tensor, TensorData};
use bytemuck::Pod;
use sdebnn_kernels::{Inputs, Problem, Solver, Tape};

use crate::dynamics::State;

/// How many solvers are remembered.
const REMEMBERED: usize = 4;

/// Solvers of the last problems. They hold memory that is expensive to ask the system for anew, and nothing that could be seen in a result.
type Remembered<E> = Mutex<Vec<Arc<Solver<E>>>>;
static SINGLE: Remembered<f32> = Mutex::new(Vec::new());
static DOUBLE: Remembered<f64> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic elsewhere leaves behind is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The solver of a problem, the remembered one if there is one.
fn solver<E: Real>(problem: &Problem) -> Arc<Solver<E>> {
    let mut remembered = lock(E::remembered());
    let found = remembered.iter().position(|solver| solver.problem() == problem);
    let solver = found.map_or_else(|| Arc::new(Solver::new(problem.clone())), |place| remembered.remove(place));
    remembered.insert(0, solver.clone());
    remembered.truncate(REMEMBERED);
    solver
}

/// A number that both Burn and the kernels compute with.
trait Real: Element + Pod + sdebnn_kernels::Element {
    fn remembered() -> &'static Remembered<Self>;
}

impl Real for f32 {
    fn remembered() -> &'static Remembered<Self> {
        &SINGLE
    }
}

impl Real for f64 {
    fn remembered() -> &'static Remembered<Self> {
        &DOUBLE
    }
}

/// Everything about a call that is not differentiated.
#[derive(Clone, Debug)]
pub struct Call {
    problem: Problem,
    time_scale: Option<Vec<f64>>,
}

/// Carries a state along stage weights `[evaluations, samples, P]` (rows behind the evaluations are left alone).
pub(crate) fn carry(
    problem: Problem,
    state: State,
    weights: Tensor<3>,
    xi: Tensor<1>,
    time_scale: Option<&Tensor<1>>,
) -> State {
    let time_scale = time_scale.map(|scale| scale.clone().try_into_vec_as().expect("numbers of a tensor on the CPU"));
    let call = Call { problem, time_scale };
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

fn tracked<E: Real, C: CheckpointStrategy>(
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
    tape: Arc<Mutex<Option<Tape<E>>>>,
}

/// What the kernels refuse was checked when the tensors were made.
const FITS: &str = "tensors of the problem's shape";

impl<E: Real> Recording<E> {
    fn new(state: FlexTensor, weights: FlexTensor, xi: FlexTensor, call: Call) -> Self {
        let time_scale = call.time_scale.map(|scale| scale.into_iter().map(|v| v.elem::<E>()).collect());
        let solver = solver(&call.problem);
        let [state, weights, xi] = [state, weights, xi].map(contiguous);
        Self { solver, state, weights, xi, time_scale, tape: Arc::default() }
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
        let mut result = vec![E::default(); self.state.shape().num_elements()];
        self.solver.forward(&self.inputs(), &mut result).expect(FITS);
        tensor(result, self.state.shape())
    }

    fn record(&self) -> FlexTensor {
        let mut result = vec![E::default(); self.state.shape().num_elements()];
        let tape = self.solver.record(&self.inputs(), &mut result).expect(FITS);
        *lock(&self.tape) = Some(tape);
        tensor(result, self.state.shape())
    }
}

/// The vector–Jacobian product of the discrete solve.
#[derive(Debug)]
struct CarryBackward<E>(PhantomData<E>);

impl<E: Real> Backward<Flex, 3> for CarryBackward<E> {
    type State = Recording<E>;

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [state_node, weights_node, xi_node] = ops.parents;
        let gradient = contiguous(grads.consume::<Flex>(&ops.node));
        let recording = ops.state;
        let tape = lock(&recording.tape).take().expect("a tape that no backward pass has used");
        let (shape, weights_shape) = (recording.state.shape(), recording.weights.shape());
        let mut state = vec![E::default(); shape.num_elements()];
        let mut weights = vec![E::default(); weights_shape.num_elements()];
        let mut xi = [E::default()];
        let used = &mut weights[..recording.weights_used()];
        let gradients = sdebnn_kernels::Gradients { state: &mut state, weights: used, xi: &mut xi[0] };
        recording.solver.backward(&recording.inputs(), tape, numbers(&gradient), gradients).expect(FITS);
        if let Some(node) = state_node {
            grads.register::<Flex>(node.id, tensor(state, shape));
        }
        if let Some(node) = weights_node {
            grads.register::<Flex>(node.id, tensor(weights, weights_shape));
        }
        if let Some(node) = xi_node {
            grads.register::<Flex>(node.id, tensor(xi.to_vec(), recording.xi.shape()));
        }
    }
}

fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() }
}

fn numbers<E: Real>(tensor: &FlexTensor) -> &[E] {
    tensor.as_slice::<E>().expect("a contiguous tensor of this type")
}

fn tensor<E: Real>(values: Vec<E>, shape: Shape) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}

/// The kernels' word for the same thing.
pub(crate) trait Kernel {
    type Word;
    fn kernel(self) -> Self::Word;
}

/// Enums whose variants have the same names on both sides.
macro_rules! same_words {
    ($($ours:ty => $theirs:ident { $($variant:ident),* })*) => {$(
        impl Kernel for $ours {
            type Word = sdebnn_kernels::$theirs;
            fn kernel(self) -> Self::Word {
                match self {
                    $(Self::$variant => sdebnn_kernels::$theirs::$variant),*
                }
            }
        }
    )*};
}

same_words! {
    crate::activation::Activation => Activation { Swish, Silu, Mish, Softplus, Tanh, Relu, HardTanhHalf, Identity }
    crate::drift::TimeInput => TimeInput { None, Concat, Squash }
    crate::dynamics::Residual => Residual { Skip, Direct, None }
    crate::method::Method => Method { Euler, Midpoint, Heun }
}
