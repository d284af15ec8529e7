//! Brownian motion: what drives the weights.

mod drawn;
mod given;
mod levy_tree;
mod tree;

pub use drawn::DrawnPath;
pub use given::PiecewiseLinear;
pub use levy_tree::LevyTree;
pub use tree::BrownianTree;

/// A path `B` that answers for its increment over any interval.
///
/// The answer is a function of the path and the interval alone: never of what was asked before.
pub trait BrownianPath: Send + Sync {
    /// The number of components.
    fn dim(&self) -> usize;

    /// Writes `B(to) − B(from)` to `out`, which has [`dim`](Self::dim) entries.
    fn increment(&self, from: f64, to: f64, out: &mut [f64]);

    /// Writes the same to `increment`, and the space–time Lévy area `H = (1/h) ∫ (B(r) − B(from)) dr − ½ (B(to) − B(from))`, with
    /// `h = to − from`, to `area`.
    ///
    /// # Panics
    /// If the path does not know it, as a [`BrownianTree`] does not. Only methods of strong order 1.5 ask for it.
    fn increment_and_area(&self, from: f64, to: f64, increment: &mut [f64], area: &mut [f64]) {
        let _ = (increment, area);
        panic!("the space–time Lévy area over [{from}, {to}] of a path that does not know it");
    }
}
