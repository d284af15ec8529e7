//! What a caller can get wrong.

/// Why a problem cannot be posed or a call cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The grid has fewer than two times.
    #[error("the time grid has {points} points, a solve needs at least 2")]
    ShortGrid {
        /// Number of times given.
        points: usize,
    },
    /// The grid does not increase, or has a time that is not finite.
    #[error("the time grid must increase: t[{index}] = {time} does not follow its predecessor")]
    GridOrder {
        /// Index of the offending time.
        index: usize,
        /// The offending time.
        time: f64,
    },
    /// `k(t) = t^(-3/2) e^(t/2)` is undefined for negative times.
    #[error("Nesterov dynamics are defined for t ≥ 0, the grid starts at {start}")]
    NegativeTime {
        /// First time of the grid.
        start: f64,
    },
    /// `s(k(0)) = s(∞)` does not exist.
    #[error("{squash:?} has no finite limit at infinity, so Nesterov dynamics with it must start at t > 0")]
    UnboundedSquash {
        /// The squashing function.
        squash: crate::Activation,
    },
    /// The network that drives the weights must have a hidden layer.
    #[error("the network of a weight path needs a hidden layer")]
    NoHiddenLayer,
    /// A dense network must have at least one layer, and positive sizes.
    #[error("a dense drift needs at least two sizes, all positive, got {sizes:?}")]
    DenseSizes {
        /// The sizes given.
        sizes: Vec<usize>,
    },
    /// A drift maps the state to its derivative.
    #[error("the drift must end in the size it starts from, got {first} and {last}")]
    DriftSize {
        /// Size of the state.
        first: usize,
        /// Size of the output.
        last: usize,
    },
    /// Channels, width, groups and the number of blocks in each must be positive.
    #[error("a convolutional drift needs positive channels, width and blocks, got {channels}, {width} and {blocks:?}")]
    ConvSizes {
        /// Channels of the state.
        channels: usize,
        /// Channels of the hidden layers.
        width: usize,
        /// Blocks of each group.
        blocks: Vec<usize>,
    },
    /// Every group halves the image and doubles it again.
    #[error("group {group} works on a {height}×{width} image; both sides must be even and positive")]
    OddImage {
        /// Index of the group.
        group: usize,
        /// Height of its images.
        height: usize,
        /// Width of its images.
        width: usize,
    },
    /// The weights need a diffusion: the KL divergence is measured in units of it.
    #[error("the diffusion of the weights must be positive and finite, got {sigma}")]
    Diffusion {
        /// The diffusion given.
        sigma: f64,
    },
    /// A slice has the wrong length.
    #[error("{what} must have {expected} numbers, got {actual}")]
    Length {
        /// Name of the slice.
        what: &'static str,
        /// Its length for this problem, number of samples and batch.
        expected: usize,
        /// The length given.
        actual: usize,
    },
    /// There must be at least one sample and one example.
    #[error("samples and batch must be positive, got {samples} and {batch}")]
    Empty {
        /// Number of weight samples.
        samples: usize,
        /// Number of examples.
        batch: usize,
    },
    /// The tape was recorded with other extents, or by a solver of another problem.
    #[error("the tape was recorded for {recorded:?} (samples, batch) of its own solver, this call has {requested:?}")]
    ForeignTape {
        /// Extents of the recording.
        recorded: (usize, usize),
        /// Extents of the call.
        requested: (usize, usize),
    },
}

/// An error unless a slice has the expected length.
pub(crate) fn check_length(what: &'static str, expected: usize, actual: usize) -> Result<(), Error> {
    if expected == actual { Ok(()) } else { Err(Error::Length { what, expected, actual }) }
}
