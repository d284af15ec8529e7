//! What can go wrong with data.

use std::path::PathBuf;

/// What is wrong in the contents of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset}: found {found}, expected {expected}")]
pub struct Flaw {
    /// Where, in bytes from the beginning of the (uncompressed) contents.
    pub offset: u64,
    /// What is there.
    pub found: String,
    /// What would be right.
    pub expected: String,
}

impl Flaw {
    pub(crate) fn new(offset: u64, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { offset, found: found.into(), expected: expected.into() }
    }
}

/// What can go wrong with data.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    /// A data set that is not where it was looked for.
    #[error(
        "no {title}: looked for {looked_for}; `sdebnn data fetch {name}` gets it, --data DIR or SDEBNN_DATA says where it is"
    )]
    Missing {
        /// The data set in words.
        title: &'static str,
        /// What it is called on the command line.
        name: &'static str,
        /// The files that would have been read.
        looked_for: String,
    },
    /// A file whose contents are not what its format says.
    #[error("{} {flaw}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// Sequences that cannot be split.
    #[error(
        "{found} sequences cannot be split into training, validation and test sequences: at least {expected} are needed; add \
         files, or set data.validation=0"
    )]
    TooFewSequences {
        /// How many there are.
        found: usize,
        /// How many there must be.
        expected: usize,
    },
    /// A sequence in which no window fits.
    #[error(
        "{name} is too short: {frames} frames, {kept} of them kept, where a window of {window} takes at least {}; set a smaller \
         data.window, or leave the file out", window + 1
    )]
    TooShort {
        /// The sequence.
        name: String,
        /// Its frames.
        frames: usize,
        /// Those that were not dropped.
        kept: usize,
        /// Input frames of a window.
        window: usize,
    },
    /// A folder without files of sequences.
    #[error("no files *.npy in {}; --data DIR or data.dir says where they are", folder.display())]
    NoSequences {
        /// The folder.
        folder: PathBuf,
    },
    /// A file that no address gave whole.
    #[error("cannot download {file}:{}", attempts.iter().map(|a| format!("\n  {a}")).collect::<String>())]
    Download {
        /// The file.
        file: String,
        /// What each address answered.
        attempts: Vec<String>,
    },
    /// An archive that is damaged, or has an entry that is not to be unpacked.
    #[error("{}: {entry}: found {found}, expected {expected}", archive.display())]
    Archive {
        /// The archive.
        archive: PathBuf,
        /// The entry, or "the archive".
        entry: String,
        /// What it is.
        found: String,
        /// What would be right.
        expected: String,
    },
}

impl Error {
    /// For `map_err` on what the system refuses.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { action, path, error }
    }

    /// For `map_err` on what a parser refuses.
    pub(crate) fn format(path: impl Into<PathBuf>) -> impl FnOnce(Flaw) -> Self {
        let path = path.into();
        move |flaw| Self::Format { path, flaw }
    }
}
