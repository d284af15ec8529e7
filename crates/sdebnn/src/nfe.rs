//! Function evaluations.

use serde::{Deserialize, Serialize};

/// The number of function evaluations of one solve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nfe {
    /// Evaluations of the drift, as the method counts them (an evaluation that two steps share counts for both).
    pub drift: usize,
    /// Evaluations of the diffusion that a solver which evaluates both would make. The noise is additive, so none is really
    /// made; the paper's figures are `drift + diffusion`.
    pub diffusion: usize,
    /// Attempted steps.
    pub attempts: usize,
    /// Accepted steps.
    pub accepted: usize,
    /// Rejected steps.
    pub rejected: usize,
}
