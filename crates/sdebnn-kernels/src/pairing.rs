//! Which pixels of two images are multiplied for a weight gradient, and in which order.

use std::collections::BTreeMap;

use crate::geometry::{Geometry, Link};

/// Pixels of the wide image treated together: transposed, a few channels of them stay in the nearest cache while all taps
/// and all channels of the narrow image pass.
const BLOCK: usize = 24;

/// Channels of the narrow image below which neighbouring taps may be taken together: so few alone would not occupy the multiply-adds.
const FEW: usize = 6;

/// Taps of a row of a kernel.
const ROW: usize = 3;

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
    /// Rank of each tap in the order in which neighbouring pixels of the narrow image are met.
    pub(crate) ranks: Vec<usize>,
    /// Most neighbouring taps of a sweep.
    pub(crate) longest: usize,
    /// All meetings, block by block.
    pub(crate) sweeps: Vec<Vec<Sweep>>,
}

/// Pixels that meet under the same neighbouring taps.
#[derive(Clone, Debug)]
pub(crate) struct Sweep {
    /// Rank of the tap under which a wide pixel meets a narrow one.
    pub(crate) first: usize,
    /// Taps: it meets the narrow pixel after that one under the tap of the next rank, and so on.
    pub(crate) taps: usize,
    /// `(wide pixel within the block, first narrow pixel)`
    pub(crate) pairs: Vec<[u32; 2]>,
}

/// Two pixels that are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Meeting {
    wide: usize,
    kernel_row: usize,
    narrow: usize,
    tap: usize,
}

impl Meeting {
    /// Whether `other` is that of the next narrow pixel with the same wide one, under the same row of the kernel.
    fn precedes(&self, other: &Self) -> bool {
        (self.wide, self.kernel_row, self.narrow + 1) == (other.wide, other.kernel_row, other.narrow)
    }
}

impl Pairing {
    /// Pairs the images of a layer with `channels` = (input, output). If there are registers for the sums of several taps, which
    /// `many_registers` says, few channels take neighbouring taps together.
    pub(crate) fn new(geometry: &Geometry, channels: [usize; 2], many_registers: bool) -> Self {
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
        let meeting = |link: &Link| {
            let [narrow, wide] = if output_is_wide { [link.input, link.output] } else { [link.output, link.input] };
            Meeting { wide, kernel_row: link.tap / ROW, narrow, tap: link.tap }
        };
        let mut meetings: Vec<_> = geometry.links.iter().map(meeting).collect();
        meetings.sort_unstable();
        let descending = meetings.windows(2).any(|pair| pair[0].precedes(&pair[1]) && pair[1].tap + 1 == pair[0].tap);
        let ranks: Vec<usize> =
            (0..geometry.taps).map(|tap| if descending { geometry.taps - 1 - tap } else { tap }).collect();
        let joined = many_registers && inputs.min(outputs) < FEW;
        let runs = meetings.chunk_by(|a, b| joined && a.precedes(b) && ranks[b.tap] == ranks[a.tap] + 1);
        let mut by_taps = vec![BTreeMap::<_, Vec<_>>::new(); blocks];
        for run in runs {
            let Meeting { wide, narrow, tap, .. } = run[0];
            let pairs = by_taps[wide / block].entry((ranks[tap], run.len())).or_default();
            pairs.push([(wide % block) as u32, narrow as u32]);
        }
        let longest = by_taps.iter().flat_map(BTreeMap::keys).map(|&(_, taps)| taps).max().unwrap_or(1);
        let sweep = |((first, taps), pairs)| Sweep { first, taps, pairs };
        let sweeps = by_taps.into_iter().map(|by_taps| by_taps.into_iter().map(sweep).collect()).collect();
        Self { output_is_wide, taps: geometry.taps, pixels, block, ranks, longest, sweeps }
    }

    /// (input, output) as (narrow, wide).
    pub(crate) fn orient<T>(&self, [input, output]: [T; 2]) -> [T; 2] {
        if self.output_is_wide { [input, output] } else { [output, input] }
    }
}
