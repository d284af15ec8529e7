//! What can go wrong in an experiment.

use std::path::PathBuf;

use sdebnn::{ConfigError, SolveError};

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
        epoch: usize,
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
