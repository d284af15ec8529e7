//! Function evaluations.

use serde::{Deserialize, Serialize};

/// The number of function evaluations of one solve, or of several together.
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

impl std::ops::Add for Nfe {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            drift: self.drift + other.drift,
            diffusion: self.diffusion + other.diffusion,
            attempts: self.attempts + other.attempts,
            accepted: self.accepted + other.accepted,
            rejected: self.rejected + other.rejected,
        }
    }
}
