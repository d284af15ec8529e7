//! Carry batches of activations along a given path of neural-network weights, forward and backward, on the CPU.

mod activation;
mod buffer;
mod carry;
mod contraction;
mod dynamics;
mod element;
mod elementary;
mod elementwise;
mod error;
mod geometry;
mod instructions;
mod layer;
mod network;
mod peak;
mod problem;
mod single_layer;
mod solver;
mod tape;
mod tiling;
mod weight_gradient;

pub use activation::{Activation, SWISH_SLOPE};
pub use element::Element;
pub use error::Error;
pub use instructions::InstructionSet;
pub use layer::TimeInput;
pub use peak::{peak_flops, peak_flops_of_a_thread};
pub use problem::{Drift, Dynamics, Method, Problem, Residual};
pub use single_layer::{LayerKind, SingleLayer};
pub use solver::{Gradients, Inputs, Settings, Solver};
pub use tape::Tape;
