//! How the drift network moves the activations.

mod first_order;
mod heavy_ball;
mod nesterov;

pub use first_order::FirstOrder;
pub use heavy_ball::HeavyBall;
pub use nesterov::{Nesterov, Residual};

use burn::tensor::Tensor;

/// The state that a dynamics carries: one tensor `[samples, batch, features]` a component.
pub type State = Vec<Tensor<3>>;

/// What a field that is tied to its solver remembers between drift evaluations of one solve.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The number n of drift evaluations made so far in this solve, rejected steps included.
    pub evaluations: usize,
    /// The cached activations `h_temp` of the residual "skip".
    pub cached: Option<Tensor<3>>,
}

/// A differential equation for the activations, driven by a drift network.
pub trait Dynamics: std::fmt::Debug + Send + Sync {
    /// The state at `t0` for an augmented input.
    fn start(&self, input: Tensor<3>) -> State;

    /// The state's derivative at `t`; `f` is the drift network `h ↦ f_w(t, h)`.
    fn derivative(&self, t: f64, state: &State, f: &dyn Fn(Tensor<3>) -> Tensor<3>, memory: &mut Memory) -> State;

    /// The activations `h(t)` of a state.
    fn output(&self, t: f64, state: &State) -> Tensor<3>;

    /// The same dynamics in the kernels, and `ξ` (`[1]`), if they have it.
    fn kernel(&self) -> Option<(sdebnn_kernels::Dynamics, Option<Tensor<1>>)> {
        None
    }
}
