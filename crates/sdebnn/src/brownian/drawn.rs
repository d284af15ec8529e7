use super::{BrownianPath, BrownianTree, LevyTree};
use crate::controller::SolverConfig;
use crate::random::Stream;

/// A seeded path that knows as much of itself as a solver asks for.
#[derive(Clone, Debug)]
pub enum DrawnPath {
    /// Increments.
    Increments(BrownianTree),
    /// Increments and space–time Lévy areas.
    Areas(LevyTree),
}

impl DrawnPath {
    /// The path of `dim` components that suits a solve.
    ///
    /// # Panics
    /// If the solver's settings are not valid.
    pub fn new(stream: Stream, dim: usize, solver: &SolverConfig) -> Self {
        let (t0, t1, cells) = (solver.t0, solver.t1, solver.cells());
        if solver.method.tableau().asks_for_areas() {
            Self::Areas(LevyTree::new(stream, dim, t0, t1, cells))
        } else {
            Self::Increments(BrownianTree::new(stream, dim, t0, t1, cells))
        }
    }
}

impl BrownianPath for DrawnPath {
    fn dim(&self) -> usize {
        match self {
            Self::Increments(path) => path.dim(),
            Self::Areas(path) => path.dim(),
        }
    }

    fn increment(&self, from: f64, to: f64, out: &mut [f64]) {
        match self {
            Self::Increments(path) => path.increment(from, to, out),
            Self::Areas(path) => path.increment(from, to, out),
        }
    }

    fn increment_and_area(&self, from: f64, to: f64, increment: &mut [f64], area: &mut [f64]) {
        match self {
            Self::Increments(path) => path.increment_and_area(from, to, increment, area),
            Self::Areas(path) => path.increment_and_area(from, to, increment, area),
        }
    }
}
