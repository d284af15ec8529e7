//! Brownian motion: what drives the weights.

mod given;
mod tree;

pub use given::PiecewiseLinear;
pub use tree::BrownianTree;

/// A path `B` that answers for its increment over any interval.
///
/// The answer is a function of the path and the interval alone: never of what was asked before.
pub trait BrownianPath: Send + Sync {
    /// The number of components.
    fn dim(&self) -> usize;

    /// Writes `B(to) − B(from)` to `out`, which has [`dim`](Self::dim) entries.
    fn increment(&self, from: f64, to: f64, out: &mut [f64]);
}
