//! Which pixels of two images are multiplied for a weight gradient, and in which order.

use crate::geometry::Geometry;

/// Pixels of the wide image treated together: transposed, a few channels of them stay in the nearest cache while all taps
/// and all channels of the narrow image pass.
const BLOCK: usize = 24;

/// The meetings of two images, cut into blocks of pixels of the *wide* one, which has more channels (or fewer pixels): its
/// channels become the lanes of vectors. Numbers of the *narrow* one are broadcast.
#[derive(Clone, Debug)]
pub(crate) struct Pairing {
    /// Whether the layer's output (not its input) is the wide image.
    output_is_wide: bool,
    /// Taps of the kernel.
    pub(crate) taps: usize,
    /// Pixels of the (narrow, wide) image.
    pub(crate) pixels: [usize; 2],
    /// Pixels of a block.
    pub(crate) block: usize,
    /// `(wide pixel within the block, narrow pixel)`, by block, then tap.
    pairs: Vec<[u32; 2]>,
    /// End of each (block, tap) in `pairs`.
    ends: Vec<usize>,
}

impl Pairing {
    /// Pairs the images of a layer with `channels` = (input, output).
    pub(crate) fn new(geometry: &Geometry, channels: [usize; 2]) -> Self {
        let [inputs, outputs] = channels;
        // Weights of a dense layer lie together by input: its gradient is written in vectors if the inputs are wide.
        let fewer_outputs = geometry.taps > 1 && geometry.outputs <= geometry.inputs;
        let output_is_wide = outputs > inputs || (outputs == inputs && fewer_outputs);
        let mut pixels = [geometry.inputs, geometry.outputs];
        if !output_is_wide {
            pixels.reverse();
        }
        let blocks = pixels[1].div_ceil(BLOCK).max(1);
        let block = pixels[1].div_ceil(blocks).max(1);
        let mut lists = vec![Vec::new(); blocks * geometry.taps];
        for link in &geometry.links {
            let [narrow, wide] = if output_is_wide { [link.input, link.output] } else { [link.output, link.input] };
            lists[wide / block * geometry.taps + link.tap].push([(wide % block) as u32, narrow as u32]);
        }
        let mut pairs = Vec::with_capacity(geometry.links.len());
        let mut ends = Vec::with_capacity(lists.len());
        for list in lists {
            pairs.extend(list);
            ends.push(pairs.len());
        }
        Self { output_is_wide, taps: geometry.taps, pixels, block, pairs, ends }
    }

    /// Blocks of pixels.
    pub(crate) fn blocks(&self) -> usize {
        self.ends.len() / self.taps
    }

    /// `(wide pixel within the block, narrow pixel)` of all meetings of a block under one tap.
    pub(crate) fn pairs(&self, block: usize, tap: usize) -> &[[u32; 2]] {
        let index = block * self.taps + tap;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.pairs[start..self.ends[index]]
    }

    /// (input, output) as (narrow, wide).
    pub(crate) fn orient<T>(&self, [input, output]: [T; 2]) -> [T; 2] {
        if self.output_is_wide { [input, output] } else { [output, input] }
    }
}
