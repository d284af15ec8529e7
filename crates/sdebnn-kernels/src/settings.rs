//! How a solver works.

use crate::instructions::InstructionSet;

/// How a [`Solver`](crate::Solver) works, as opposed to what it computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes a tape may take. The states and drifts of all steps are kept in any case; hidden layers are kept as far as the
    /// budget reaches and computed again otherwise, with the same results to the last bit. Default: 704 MiB.
    pub tape_budget: usize,
    /// Bytes of weight gradients that tiles may hold before they are summed. A tile's gradients are as large as the weights of
    /// all its evaluations, so tiles work through the steps in segments, and through the batch in waves of at least eight
    /// tiles; both lengths follow from this number and not from the number of threads. No influence on results. Default:
    /// 32 MiB.
    pub gradient_budget: usize,
    /// Which vector instructions to use.
    pub instructions: InstructionSet,
}

impl Default for Settings {
    fn default() -> Self {
        Self { tape_budget: 704 << 20, gradient_budget: 32 << 20, instructions: InstructionSet::Detect }
    }
}
