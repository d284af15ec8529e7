//! The weights of the drift network as a stochastic process over depth.

mod partition;
mod path;
mod process;

pub use partition::Partition;
pub use path::{StageWeights, WeightPath};
pub use process::{PosteriorForm, WeightProcess};
pub(crate) use process::{WeightSlope, WeightStep, combine};
