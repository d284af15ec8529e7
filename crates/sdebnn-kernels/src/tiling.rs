//! Cutting a batch into tiles whose lanes are examples.

use crate::{element::Element, problem::Drift};

/// Vectors of examples a tile of a dense problem has at most: enough to pay for writing a tile's weight gradients, few enough
/// for its activations to stay close and for threads to share a batch.
const DENSE_GROUPS: usize = 8;

/// How the examples of a batch are spread over tiles, vectors and lanes. Depends on the batch and the vector length only, never
/// on the number of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// Examples of a batch.
    pub(crate) batch: usize,
    /// Examples of a vector.
    pub(crate) lanes: usize,
    /// Vectors of examples a tile.
    pub(crate) groups: usize,
    /// Tiles of a batch.
    pub(crate) tiles: usize,
    /// Channels and pixels of the state.
    shape: [usize; 2],
}

impl Tiling {
    /// Tiles for `batch` examples.
    pub(crate) fn new(drift: &Drift, batch: usize, lanes: usize) -> Self {
        match drift {
            Drift::Conv { shape: [channels, height, width], .. } => {
                Self::with_shape([*channels, height * width], 1, batch, lanes)
            }
            Drift::Dense { sizes, .. } => Self::with_shape([sizes[0], 1], DENSE_GROUPS, batch, lanes),
        }
    }

    /// Tiles of at most `most` vectors for examples of `shape` = channels and pixels.
    pub(crate) fn with_shape(shape: [usize; 2], most: usize, batch: usize, lanes: usize) -> Self {
        let vectors = batch.div_ceil(lanes);
        let tiles = vectors.div_ceil(most);
        let groups = vectors.div_ceil(tiles);
        Self { batch, lanes, groups, tiles: vectors.div_ceil(groups), shape }
    }

    /// Elements of one component of a tile's state.
    pub(crate) fn elements(&self) -> usize {
        self.groups * self.shape[0] * self.shape[1] * self.lanes
    }

    /// Examples of tile `tile`.
    pub(crate) fn examples(&self, tile: usize) -> std::ops::Range<usize> {
        let per_tile = self.groups * self.lanes;
        tile * per_tile..((tile + 1) * per_tile).min(self.batch)
    }

    /// Visits `(place in a tile's component, place in its rows of a [batch][channel][pixel] array)` of every number.
    fn places(&self, tile: usize, mut visit: impl FnMut(usize, usize)) {
        let [channels, pixels] = self.shape;
        for example in 0..self.examples(tile).len() {
            let (group, lane) = (example / self.lanes, example % self.lanes);
            for channel in 0..channels {
                for pixel in 0..pixels {
                    let vector = (group * pixels + pixel) * channels + channel;
                    visit(vector * self.lanes + lane, (example * channels + channel) * pixels + pixel);
                }
            }
        }
    }

    /// Copies the rows of a tile into vectors; lanes without an example become zero.
    pub(crate) fn load<E: Element>(&self, tile: usize, rows: &[E], to: &mut [E]) {
        to.fill(E::ZERO);
        self.places(tile, |vector, row| to[vector] = rows[row]);
    }

    /// Copies vectors into the rows of a tile.
    pub(crate) fn store<E: Element>(&self, tile: usize, from: &[E], rows: &mut [E]) {
        self.places(tile, |vector, row| rows[row] = from[vector]);
    }

    /// One factor for each example of the tile, 1 where none is given, 0 in lanes without an example.
    pub(crate) fn load_scale<E: Element>(&self, tile: usize, scale: Option<&[E]>, to: &mut [E]) {
        for (offset, to) in to.iter_mut().enumerate() {
            let example = tile * self.groups * self.lanes + offset;
            *to = match scale {
                _ if example >= self.batch => E::ZERO,
                Some(scale) => scale[example],
                None => E::ONE,
            };
        }
    }
}
