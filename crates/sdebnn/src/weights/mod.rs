//! The weights of the drift network as a stochastic process over depth.

mod partition;
mod process;

pub use partition::Partition;
pub use process::{PosteriorForm, WeightPath, WeightProcess};
pub(crate) use process::{WeightSlope, WeightStep, combine};
