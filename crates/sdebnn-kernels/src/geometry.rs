//! Which input pixel meets which output pixel under which tap of a kernel.

use std::collections::HashMap;

/// One meeting of an input pixel and an output pixel under a tap of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Pixel of the input image.
    pub(crate) input: usize,
    /// Pixel of the output image.
    pub(crate) output: usize,
    /// Index of the tap in the kernel, row-major.
    pub(crate) tap: usize,
}

/// Output pixels that see the same taps at the same relative positions: interior, edges, corners, and for strided
/// relations each parity. Nothing is padded; a border pixel simply belongs to a class with fewer taps.
#[derive(Clone, Debug)]
pub(crate) struct PixelClass {
    /// `(tap, input pixel relative to the anchor)`
    pub(crate) taps: Vec<(usize, isize)>,
    /// The same taps in runs.
    pub(crate) runs: Vec<Run>,
    /// `(anchor: input pixel of the first tap, output pixel)`
    pub(crate) pixels: Vec<(usize, usize)>,
}

/// Consecutive taps that see consecutive input pixels: one long row of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first tap.
    pub(crate) tap: usize,
    /// Input pixel of the first tap, relative to the anchor.
    pub(crate) offset: isize,
    /// Number of taps.
    pub(crate) length: usize,
}

/// `taps` of a class in runs.
fn runs(taps: &[(usize, isize)]) -> Vec<Run> {
    let follow = |a: &(usize, isize), b: &(usize, isize)| a.0 + 1 == b.0 && a.1 + 1 == b.1;
    taps.chunk_by(follow).map(|run| Run { tap: run[0].0, offset: run[0].1, length: run.len() }).collect()
}

/// A linear relation between two images, shared by all channels.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    /// Pixels of the input image.
    pub(crate) inputs: usize,
    /// Pixels of the output image.
    pub(crate) outputs: usize,
    /// Taps of the kernel.
    pub(crate) taps: usize,
    /// Every meeting, ordered by output pixel and tap.
    pub(crate) links: Vec<Link>,
    /// The output pixels by class.
    pub(crate) classes: Vec<PixelClass>,
}

/// Side of the square kernels of all convolutions.
const KERNEL: usize = 3;

/// Most taps of any relation.
pub(crate) const MOST_TAPS: usize = KERNEL * KERNEL;

impl Geometry {
    /// `output(y, x) = Σ input(stride·y + ky - pad, stride·x + kx - pad) · w(ky, kx)` on an `height × width` image.
    pub(crate) fn convolution(height: usize, width: usize, stride: usize, pad: usize) -> Self {
        let extent = |n: usize| (n + 2 * pad - KERNEL) / stride + 1;
        let (out_height, out_width) = (extent(height), extent(width));
        let mut links = Vec::new();
        for y in 0..out_height {
            for x in 0..out_width {
                for ky in 0..KERNEL {
                    for kx in 0..KERNEL {
                        let (iy, ix) = (stride * y + ky, stride * x + kx);
                        if (pad..height + pad).contains(&iy) && (pad..width + pad).contains(&ix) {
                            links.push(Link {
                                input: (iy - pad) * width + ix - pad,
                                output: y * out_width + x,
                                tap: ky * KERNEL + kx,
                            });
                        }
                    }
                }
            }
        }
        Self::new(height * width, out_height * out_width, KERNEL * KERNEL, links)
    }

    /// `output(2y + ky, 2x + kx) += input(y, x) · w(ky, kx)`; the output has `2n + 2` pixels a side (output padding 1).
    pub(crate) fn transposed_convolution(height: usize, width: usize) -> Self {
        let (out_height, out_width) = (2 * height + 2, 2 * width + 2);
        let mut links = Vec::new();
        for y in 0..height {
            for x in 0..width {
                for ky in 0..KERNEL {
                    for kx in 0..KERNEL {
                        links.push(Link {
                            input: y * width + x,
                            output: (2 * y + ky) * out_width + 2 * x + kx,
                            tap: ky * KERNEL + kx,
                        });
                    }
                }
            }
        }
        Self::new(height * width, out_height * out_width, KERNEL * KERNEL, links)
    }

    /// `output(i) = input(i) · w`: every pixel alone, as in a dense layer whose "pixels" are groups of examples.
    pub(crate) fn pointwise(pixels: usize) -> Self {
        let links = (0..pixels).map(|pixel| Link { input: pixel, output: pixel, tap: 0 }).collect();
        Self::new(pixels, pixels, 1, links)
    }

    /// The class of every output pixel.
    pub(crate) fn class_of_pixels(&self) -> Vec<usize> {
        let mut of_pixels = vec![0; self.outputs];
        for (index, class) in self.classes.iter().enumerate() {
            class.pixels.iter().for_each(|&(_, pixel)| of_pixels[pixel] = index);
        }
        of_pixels
    }

    /// The same meetings read from output to input: the relation of the input gradient. Taps count backwards, so that later
    /// ones see later pixels again.
    pub(crate) fn transposed(&self) -> Self {
        let swap = |link: &Link| Link { input: link.output, output: link.input, tap: self.taps - 1 - link.tap };
        Self::new(self.outputs, self.inputs, self.taps, self.links.iter().map(swap).collect())
    }

    fn new(inputs: usize, outputs: usize, taps: usize, mut links: Vec<Link>) -> Self {
        links.sort_by_key(|link| (link.output, link.tap));
        let classes = classify(outputs, &links);
        Self { inputs, outputs, taps, links, classes }
    }
}

/// Groups the output pixels by what they see. `links` are ordered by output pixel.
fn classify(outputs: usize, links: &[Link]) -> Vec<PixelClass> {
    let mut classes: Vec<PixelClass> = Vec::new();
    let mut known: HashMap<Vec<(usize, isize)>, usize> = HashMap::new();
    let mut rest = links;
    for output in 0..outputs {
        let seen = rest.partition_point(|link| link.output == output);
        let (mine, others) = rest.split_at(seen);
        rest = others;
        let anchor = mine.first().map_or(0, |link| link.input);
        let taps: Vec<_> = mine.iter().map(|link| (link.tap, link.input as isize - anchor as isize)).collect();
        let class = *known.entry(taps.clone()).or_insert_with(|| {
            classes.push(PixelClass { runs: runs(&taps), taps, pixels: Vec::new() });
            classes.len() - 1
        });
        classes[class].pixels.push((anchor, output));
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_output_pixel_is_in_exactly_one_class() {
        let shapes = [
            Geometry::convolution(6, 4, 1, 1),
            Geometry::convolution(6, 4, 2, 1),
            Geometry::convolution(5, 3, 1, 0),
            Geometry::transposed_convolution(3, 1),
            Geometry::pointwise(7),
        ];
        for geometry in shapes.iter().flat_map(|g| [g.clone(), g.transposed()]) {
            let mut seen: Vec<_> = geometry.classes.iter().flat_map(|c| &c.pixels).map(|p| p.1).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..geometry.outputs).collect::<Vec<_>>());
            let meetings: usize = geometry.classes.iter().map(|c| c.taps.len() * c.pixels.len()).sum();
            assert_eq!(meetings, geometry.links.len());
        }
    }

    #[test]
    fn an_interior_pixel_sees_nine_taps_and_a_corner_four() {
        let geometry = Geometry::convolution(5, 5, 1, 1);
        let mut sizes: Vec<_> = geometry.classes.iter().map(|c| (c.taps.len(), c.pixels.len())).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [(4, 1), (4, 1), (4, 1), (4, 1), (6, 3), (6, 3), (6, 3), (6, 3), (9, 9)]);
    }

    #[test]
    fn rows_of_a_kernel_are_runs_forward_and_backward() {
        let geometry = Geometry::convolution(5, 5, 1, 1);
        for geometry in [geometry.transposed(), geometry] {
            let interior = geometry.classes.iter().find(|c| c.taps.len() == 9).expect("an interior");
            assert_eq!(interior.runs.iter().map(|run| run.length).collect::<Vec<_>>(), [3, 3, 3]);
        }
    }

    #[test]
    fn the_last_row_of_a_transposed_convolution_sees_nothing() {
        let geometry = Geometry::transposed_convolution(2, 2);
        assert_eq!(geometry.outputs, 36);
        assert!(geometry.classes.iter().any(|c| c.taps.is_empty() && c.pixels.iter().any(|p| p.1 == 35)));
    }
}
