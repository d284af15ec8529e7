//! The kernels as differentiable tensor operations on the CPU.

mod carry;
mod search;
mod sequence;
mod weight_path;

pub(crate) use carry::{carry, carry_recorded};
pub(crate) use search::{Found, Search};
pub(crate) use sequence::{SequenceCall, SequenceTensors, sequence};
pub(crate) use weight_path::weight_path;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::backend::TensorMetadata;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Element, Shape, TensorData};
use bytemuck::Pod;
use sdebnn_kernels::{Drift, Dynamics, Method, Problem};

/// What the kernels refuse was checked when the tensors were made.
const FITS: &str = "tensors of the problem's shape";

/// How much of a kind is remembered.
const REMEMBERED: usize = 4;

/// A number that both Burn and the kernels compute with.
pub(crate) trait Real: Element + Pod + sdebnn_kernels::Element {}
impl Real for f32 {}
impl Real for f64 {}

/// The last solvers or problems of a kind: what is expensive to make anew, and holds nothing that could be seen in a result.
struct Remembered<S>(Mutex<Vec<Arc<S>>>);

/// A number with solvers of the kind `S`.
trait Remembers<S: 'static> {
    fn remembered() -> &'static Remembered<S>;
}

impl<S> Remembered<S> {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// The remembered one that fits, or a new one.
    fn get(&self, fits: impl Fn(&S) -> bool, new: impl FnOnce() -> S) -> Arc<S> {
        let mut kept = lock(&self.0);
        let found = kept.iter().position(|one| fits(one));
        let one = found.map_or_else(|| Arc::new(new()), |place| kept.remove(place));
        kept.insert(0, one.clone());
        kept.truncate(REMEMBERED);
        one
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic elsewhere leaves behind is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The problem of these parts. Its making goes over every pixel of an image, so the last ones are remembered.
pub(crate) fn problem(drift: Drift, dynamics: Dynamics, method: Method, grid: Vec<f64>) -> Problem {
    static PROBLEMS: Remembered<Problem> = Remembered::new();
    let fits = |p: &Problem| (p.drift(), p.dynamics(), p.method(), p.grid()) == (&drift, dynamics, method, &grid[..]);
    let new = || Problem::new(drift.clone(), dynamics, method, grid.clone());
    let problem = PROBLEMS.get(fits, || new().expect("a network and a grid that were checked when they were made"));
    Problem::clone(&problem)
}

/// The last large tensors of solves. What nobody holds any more is written again: fresh memory has to be filled with zeros, by
/// one thread.
struct Reused(Mutex<Vec<FlexTensor>>);

static REUSED: Reused = Reused(Mutex::new(Vec::new()));

impl Reused {
    /// A tensor whose numbers `write` sets, all of them: before that, they are anything.
    fn tensor<E: Real>(&self, shape: Shape, write: impl FnOnce(&mut [E])) -> FlexTensor {
        let fits = |t: &FlexTensor| t.is_unique() && t.dtype() == E::dtype() && t.shape() == shape;
        let found = {
            let mut tensors = lock(&self.0);
            let found = tensors.iter().position(fits).map(|place| tensors.remove(place));
            if found.is_none() {
                // Other shapes are asked for now: with adaptive steps, others every time.
                tensors.retain(|t| !t.is_unique());
            }
            found
        };
        let mut tensor = found.unwrap_or_else(|| FlexTensor::zeros(shape, E::dtype()));
        write(tensor.storage_mut());
        let mut tensors = lock(&self.0);
        tensors.insert(0, tensor.clone());
        tensors.truncate(REMEMBERED);
        tensor
    }
}

/// Brownian increments `[steps, samples, M]` for [`weight_path`], all of which `write` sets.
pub(crate) fn noise<E: Real>(shape: [usize; 3], write: impl FnOnce(&mut [E])) -> FlexTensor {
    REUSED.tensor(Shape::new(shape), write)
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
    crate::method::Method => Method { Euler, Midpoint, Heun, Sra1 }
    crate::weights::PosteriorForm => PosteriorForm { Residual, Literal }
}
