//! What can go wrong in an experiment.

use std::path::PathBuf;

use sdebnn::{ConfigError, SolveError};

use crate::checkpoint::Damaged;

/// What can go wrong in an experiment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A configuration that cannot be read or used.
    #[error("{source_name}: {message}")]
    Configuration {
        /// The file, or the option of the command line.
        source_name: String,
        /// What is wrong: the key, what was found, what would be right.
        message: String,
    },
    /// A file or directory that cannot be used.
    #[error("cannot {action} {}: {error}", path.display())]
    File {
        /// What was tried: "read", "write".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A directory that holds another run.
    #[error(
        "{} holds a run with another configuration (see its config.toml); choose another --out or remove it", path.display()
    )]
    OtherRun {
        /// The directory.
        path: PathBuf,
    },
    /// A directory that holds a run of this configuration already.
    #[error("{} holds a run of this configuration; --resume goes on with it", path.display())]
    RunExists {
        /// The directory.
        path: PathBuf,
    },
    /// A directory in which another process is at work.
    #[error("another process is at work in {}; wait for it or stop it", path.display())]
    RunInUse {
        /// The directory.
        path: PathBuf,
    },
    /// A run that was never begun, or not finished as far as it was asked for.
    #[error("{} {message}", path.display())]
    NotARun {
        /// The directory.
        path: PathBuf,
        /// What is missing.
        message: String,
    },
    /// An epoch without a step.
    #[error(
        "the solve of every batch of epoch {epoch} failed; raise `model.solver.atol` and `rtol`, or lower `train.learning_rate`"
    )]
    AllSkipped {
        /// The epoch.
        epoch: u64,
    },
    /// A data set that cannot be used.
    #[error(transparent)]
    Data(#[from] sdebnn_data::Error),
    /// Training that left the numbers.
    #[error(
        "the {what} is not finite at step {step} (epoch {epoch}); the last checkpoint is kept. Try a lower \
         train.learning_rate, train.clip_norm=1, or a lower train.kl_coef, in another --out"
    )]
    NotFinite {
        /// "loss" or "gradient".
        what: &'static str,
        /// The step, from 0.
        step: u64,
        /// The epoch, from 1.
        epoch: u64,
    },
    /// A checkpoint that cannot be written to the disk.
    #[error(
        "cannot write the checkpoint {}: {error}; free space there or make the directory writable, then resume: the \
         checkpoints before it are untouched", path.display()
    )]
    CheckpointUnwritable {
        /// The checkpoint.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A checkpoint that the file format cannot hold.
    #[error("cannot store the checkpoint {}: {message}", path.display())]
    CheckpointContent {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Checkpoints of which none can be used.
    #[error(
        "no usable checkpoint: {}; restore one from a copy, or remove them to start anew",
        damaged.iter().map(Damaged::to_string).collect::<Vec<_>>().join("; ")
    )]
    CheckpointsDamaged {
        /// Each of them.
        damaged: Vec<Damaged>,
    },
    /// A file that is not an event file of ours.
    #[error("{} is not an event file, or its first record is damaged; remove it and resume", path.display())]
    NotAnEventFile {
        /// The file.
        path: PathBuf,
    },
    /// A figure that cannot be drawn.
    #[error("cannot draw the figure {name}: {message}")]
    Figure {
        /// The figure.
        name: String,
        /// What the plotting library said.
        message: String,
    },
    /// A solve that failed during an experiment.
    #[error("{model}, epoch {epoch}: {error}")]
    Solve {
        /// The model.
        model: &'static str,
        /// The epoch, from 1; 0 before training.
        epoch: u64,
        /// What failed.
        error: SolveError,
    },
}

impl Error {
    /// A key of the section `section` that cannot be used.
    pub(crate) fn config(source_name: &str, section: &str, error: ConfigError) -> Self {
        let error = ConfigError { key: format!("{section}{}", error.key), ..error };
        Self::Configuration { source_name: source_name.into(), message: error.to_string() }
    }
}
