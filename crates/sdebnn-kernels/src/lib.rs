//! Carry batches of activations along a given path of neural-network weights, forward and backward, on the CPU.
//!
//! The weights of a drift network `f_w` follow a path that is known before any example is seen. A [`Problem`] says what
//! is to be solved: the network ([`Drift`]), how it moves the state ([`Dynamics`]), the [`Method`] and the time grid. A
//! [`Solver`] carries the states of a batch from the first to the last time of the grid, given the weights at every drift
//! evaluation, and carries gradients back: exact ones, of the discrete solve.
//!
//! ```
//! use sdebnn_kernels::{Activation, Drift, Dynamics, Gradients, Inputs, Method, Problem, Solver, TimeInput};
//!
//! let drift = Drift::Dense { sizes: vec![2, 8, 2], activation: Activation::Tanh, time: TimeInput::Concat };
//! let problem = Problem::new(drift, Dynamics::FirstOrder, Method::Midpoint, vec![0.0, 0.5, 1.0])?;
//! let weights = vec![0.1_f32; problem.evaluations() * problem.parameters()];
//! let solver = Solver::<f32>::new(problem);
//! let inputs = Inputs { samples: 1, batch: 2, weights: &weights, state: &[1.0, 0.0, 0.0, 1.0], xi: 0.0, time_scale: None };
//!
//! let mut state = [0.0; 4];
//! let tape = solver.record(&inputs, &mut state)?;
//! let (mut d_state, mut d_weights, mut d_xi) = ([0.0; 4], vec![0.0; weights.len()], 0.0);
//! let gradients = Gradients { state: &mut d_state, weights: &mut d_weights, xi: &mut d_xi };
//! solver.backward(&inputs, tape, &[1.0; 4], gradients)?;
//! # Ok::<(), sdebnn_kernels::Error>(())
//! ```
//!
//! # Layouts
//!
//! All arrays are flat slices, last index fastest.
//!
//! - State `[component][sample][example][feature]`: component 0 is `h` or `x`, component 1 is `m`; features of images are
//!   `[channel][row][column]`. The factor `s(k(T))` of the Nesterov output is left to the caller.
//! - Weights `[evaluation][sample][parameter]`: evaluations in the order of [`Problem::evaluation_times`]. Parameters layer by
//!   layer: the weights, then the biases. Convolutions `[output][1 + input][3][3]`, transposed convolutions
//!   `[1 + input][output][3][3]` (input 0 is the time), dense layers `[output][input]` or `[output][1 + input]`; a squash layer
//!   has `a`, `c` and `d` after the biases.
//!
//! # How it works
//!
//! - The lanes of a vector are *examples*. A tile of examples runs through all evaluations on one thread; every channel count
//!   works without padding, and a weight is one broadcast.
//! - Output pixels are grouped into classes that see the same taps. Borders need no padding, and the time channel, which is
//!   constant, becomes one bias per class.
//! - One kernel, a contraction over taps and channels, serves convolutions, transposed convolutions, dense layers and their
//!   input gradients. With AVX-512, convolutions share products between neighbouring outputs of a row instead.
//! - A weight gradient sums over examples too. Blocks of one image are transposed for it, so that vectors hold channels; with AVX-512, few
//!   channels take the taps of a kernel's row together, and the sums of dense layers stay in the lanes of examples, to be added up at the end.
//! - A [`Tape`] keeps states and drifts, and as many hidden layers as its budget allows; the others are computed again.
//! - Tiles are cut by example, never by thread, and their weight gradients are summed in tile order: results do not depend on
//!   the number of threads.
//! - One binary serves all machines: AVX-512, AVX2, NEON or plain instructions are chosen at run time.

mod activation;
mod buffer;
mod carry;
mod class_sums;
mod contraction;
mod dense_gradient;
mod dynamics;
mod element;
mod elementary;
mod elementwise;
mod error;
#[cfg(target_arch = "x86_64")]
mod exp2_table;
mod far_memory;
mod filter;
mod finish;
mod geometry;
mod instructions;
mod lane_sums;
mod layer;
mod network;
mod pairing;
mod peak;
mod problem;
mod sequence;
mod settings;
mod single_layer;
mod solver;
mod squash;
mod tape;
mod tiling;
mod transpose;
mod weight_gradient;
mod weight_path;

pub use activation::{Activation, SWISH_SLOPE};
pub use carry::Companion;
pub use element::Element;
pub use error::Error;
pub use instructions::InstructionSet;
pub use layer::TimeInput;
pub use peak::{peak_flops, peak_flops_of_a_thread};
pub use problem::{Drift, Dynamics, Method, Problem, Residual};
pub use sequence::{SequenceGradients, SequenceInputs, SequenceSolver, SequenceTape};
pub use settings::Settings;
pub use single_layer::{LayerKind, SingleLayer};
pub use solver::{Attempted, Gradients, Inputs, Solver};
pub use tape::Tape;
pub use weight_path::{
    PosteriorForm, WeightPathGradients, WeightPathInputs, WeightPathOutputGradients, WeightPathOutputs,
    WeightPathProblem, WeightPathSolver, WeightPathTape,
};
