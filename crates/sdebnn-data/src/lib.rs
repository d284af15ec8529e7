//! Data sets for continuous-depth Bayesian neural networks: strict readers of published files, drawn stand-ins, seeded
//! batches, and downloads.
//!
//! Whatever is random here is a pure function of a seed and of where it is used (see [`random`]), so that the same seed
//! gives the same data on any machine and with any number of threads. Nothing here prints.

pub mod augment;
pub mod batches;
pub mod cifar;
pub mod digits;
pub mod error;
pub mod fetch;
pub mod idx;
pub mod images;
pub mod npy;
pub mod order;
pub mod random;
pub mod sequences;
pub mod walker;
pub mod windows;

pub use error::{Error, Flaw};
pub use images::{ImageSets, Images, Normalisation};
pub use sequences::Sequence;
pub use windows::{WindowSets, Windows};
