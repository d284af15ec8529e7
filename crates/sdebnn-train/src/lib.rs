//! Experiments with continuous-depth Bayesian neural networks: everything between a configuration and a figure.
//!
//! This crate writes files into run directories but prints nothing: what a run has to say while it goes on, it tells an
//! [`TrainObserver`](trainer::TrainObserver).

pub mod bench;
pub mod checkpoint;
pub mod classification;
pub mod configuration;
mod durable;
pub mod error;
pub mod experiment;
mod machine;
pub mod metrics;
pub mod optimiser;
pub mod parameters;
pub mod report;
pub mod run_directory;
pub mod schedule;
pub mod tensorboard;
pub mod trainer;

pub use error::Error;
