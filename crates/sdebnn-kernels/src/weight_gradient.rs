//! The gradient of a layer's weights: products of input and output gradient summed over pixels and examples.
#![expect(clippy::needless_range_loop, reason = "register tiles read best with their row and column as indices")]

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::{contraction::WeightStrides, element::Element, geometry::Geometry};

/// Pixels whose products are summed in registers before the sums go to memory. A block of [`ROWS`] channels of them is
/// copied together (24 KiB in single precision on AVX2) and stays in the nearest cache while all taps and all channels of
/// the other image pass; in place, pixels a power of two apart would evict each other.
const BLOCK: usize = 24;

/// Channels of the resident image treated together.
const ROWS: usize = 32;

/// Rows and columns of products summed in registers.
const TILE: [usize; 2] = [4, 3];

/// The meetings of two images, cut into blocks of pixels of the image that stays in cache: the *resident* one, which has more
/// channels (or fewer pixels). The other one *passes*.
#[derive(Clone, Debug)]
pub(crate) struct Pairing {
    /// Whether the layer's output (not its input) is resident.
    output_resides: bool,
    /// Taps of the kernel.
    taps: usize,
    /// Pixels of the (resident, passing) image.
    pixels: [usize; 2],
    /// Pixels of a block.
    block: usize,
    /// `(resident pixel within the block, passing pixel)`, by block, then tap.
    pairs: Vec<[u32; 2]>,
    /// End of each (block, tap) in `pairs`.
    ends: Vec<usize>,
}

impl Pairing {
    /// Pairs the images of a layer with `channels` = (input, output).
    pub(crate) fn new(geometry: &Geometry, channels: [usize; 2]) -> Self {
        let [inputs, outputs] = channels;
        let output_resides = outputs > inputs || (outputs == inputs && geometry.outputs <= geometry.inputs);
        let mut pixels = [geometry.inputs, geometry.outputs];
        if output_resides {
            pixels.reverse();
        }
        let blocks = pixels[0].div_ceil(BLOCK).max(1);
        let block = pixels[0].div_ceil(blocks).max(1);
        let mut lists = vec![Vec::new(); blocks * geometry.taps];
        for link in &geometry.links {
            let pair = if output_resides { [link.output, link.input] } else { [link.input, link.output] };
            let list = &mut lists[pair[0] / block * geometry.taps + link.tap];
            list.push([(pair[0] % block) as u32, pair[1] as u32]);
        }
        let mut pairs = Vec::with_capacity(geometry.links.len());
        let mut ends = Vec::with_capacity(lists.len());
        for list in lists {
            pairs.extend(list);
            ends.push(pairs.len());
        }
        Self { output_resides, taps: geometry.taps, pixels, block, pairs, ends }
    }

    /// Vectors of scratch the gradient needs for `channels` = (input, output): sums, then copies of a block of both images.
    pub(crate) fn scratch(&self, channels: [usize; 2]) -> usize {
        let [columns, rows] = self.orient(channels);
        self.taps * rows.div_ceil(TILE[0]) * columns.div_ceil(TILE[1]) * TILE[0] * TILE[1]
            + self.block * (ROWS + TILE[1])
    }

    /// (input, output) as (passing, resident).
    fn orient<T>(&self, [input, output]: [T; 2]) -> [T; 2] {
        if self.output_resides { [input, output] } else { [output, input] }
    }
}

/// `dw[q, c, tap] = Σ_p Σ_lane x[p at tap, c] · dy[p, q]`.
pub(crate) struct WeightGradient<'a, E: Element, S: Simd> {
    pub(crate) pairing: &'a Pairing,
    pub(crate) channels: [usize; 2],
    pub(crate) input: &'a [E::Vector<S>],
    pub(crate) output_gradient: &'a [E::Vector<S>],
    pub(crate) strides: WeightStrides,
    /// [`Pairing::scratch`] vectors.
    pub(crate) scratch: &'a mut [E::Vector<S>],
    /// Where the gradients of the weights are written.
    pub(crate) gradient: &'a mut [E],
}

impl<E: Element, S: Simd> WeightGradient<'_, E, S> {
    /// Runs the kernel with the target features of `simd`.
    pub(crate) fn run(self, simd: S) {
        let pairing = self.pairing;
        let [columns, rows] = pairing.orient(self.channels);
        let [passing, resident] = pairing.orient([self.input, self.output_gradient]);
        let [column_stride, row_stride] = pairing.orient([self.strides.input, self.strides.output]);
        assert_eq!(pairing.pixels[0] * rows, resident.len(), "resident image");
        assert_eq!(pairing.pixels[1] * columns, passing.len(), "passing image");
        let copies = pairing.block * (ROWS + TILE[1]);
        let (sums, copies) = self.scratch.split_at_mut(pairing.scratch(self.channels) - copies);
        let (resident_copy, passing_copy) = copies.split_at_mut(pairing.block * ROWS);
        let mut products =
            Products::<E, S> { simd, pairing, rows, columns, resident, passing, sums, resident_copy, passing_copy };
        products.all_blocks();
        let strides = [row_stride, column_stride, self.strides.tap];
        simd.vectorize(LaneSums { products: &products, strides, gradient: self.gradient });
    }
}

/// `sums[tap, row, column] = Σ_pairs resident[pixel, row] · passing[pixel', column]`, lane by lane.
struct Products<'a, E: Element, S: Simd> {
    simd: S,
    pairing: &'a Pairing,
    rows: usize,
    columns: usize,
    resident: &'a [E::Vector<S>],
    passing: &'a [E::Vector<S>],
    /// `[tap][tile of columns][tile of rows][row][column]`
    sums: &'a mut [E::Vector<S>],
    /// `[tile of rows][pixel][row]`
    resident_copy: &'a mut [E::Vector<S>],
    /// `[pair][column]`
    passing_copy: &'a mut [E::Vector<S>],
}

impl<E: Element, S: Simd> Products<'_, E, S> {
    fn all_blocks(&mut self) {
        let (simd, pairing) = (self.simd, self.pairing);
        self.sums.fill(E::splat(simd, E::ZERO));
        let mut start = 0;
        for (block, ends) in pairing.ends.chunks_exact(pairing.taps).enumerate() {
            let first_pixel = block * pairing.block;
            let pixels = first_pixel..(first_pixel + pairing.block).min(pairing.pixels[0]);
            for first_row in (0..self.rows).step_by(ROWS) {
                let rows = first_row..(first_row + ROWS).min(self.rows);
                self.copy_resident(pixels.clone(), rows.clone());
                let mut from = start;
                for (tap, &to) in ends.iter().enumerate() {
                    if from < to {
                        simd.vectorize(Tap {
                            products: self,
                            tap,
                            pairs: &pairing.pairs[from..to],
                            rows: rows.clone(),
                        });
                    }
                    from = to;
                }
            }
            start = ends[pairing.taps - 1];
        }
    }

    fn copy_resident(&mut self, pixels: Range<usize>, rows: Range<usize>) {
        for (index, pixel) in pixels.enumerate() {
            let row = &self.resident[pixel * self.rows..(pixel + 1) * self.rows][rows.clone()];
            for (tile, from) in row.chunks(TILE[0]).enumerate() {
                let to = (tile * self.pairing.block + index) * TILE[0];
                self.resident_copy[to..to + from.len()].copy_from_slice(from);
            }
        }
    }

    /// Place of the sums of a tile of rows and columns.
    fn tile(&self, tap: usize, row: usize, column: usize) -> usize {
        let [rows, columns] = [self.rows.div_ceil(TILE[0]), self.columns.div_ceil(TILE[1])];
        ((tap * columns + column / TILE[1]) * rows + row / TILE[0]) * TILE[0] * TILE[1]
    }
}

/// All products under one tap of a block of pixels with some rows.
struct Tap<'a, 'b, E: Element, S: Simd> {
    products: &'a mut Products<'b, E, S>,
    tap: usize,
    pairs: &'a [[u32; 2]],
    rows: Range<usize>,
}

impl<E: Element, S: Simd> WithSimd for Tap<'_, '_, E, S> {
    type Output = ();
    #[inline(always)]
    fn with_simd<T: Simd>(mut self, _: T) {
        let columns = self.products.columns;
        for column in (0..columns).step_by(TILE[1]) {
            match columns - column {
                1 => self.columns::<1>(column),
                2 => self.columns::<2>(column),
                _ => self.columns::<3>(column),
            }
        }
    }
}

impl<E: Element, S: Simd> Tap<'_, '_, E, S> {
    #[inline(always)]
    fn columns<const C: usize>(&mut self, column: usize) {
        let products = &mut *self.products;
        for (&[_, pixel], to) in self.pairs.iter().zip(products.passing_copy.chunks_exact_mut(C)) {
            let from = pixel as usize * products.columns + column;
            to.copy_from_slice(&products.passing[from..from + C]);
        }
        for row in self.rows.clone().step_by(TILE[0]) {
            match self.rows.end - row {
                1 => self.product::<1, C>(row, column),
                2 => self.product::<2, C>(row, column),
                3 => self.product::<3, C>(row, column),
                _ => self.product::<4, C>(row, column),
            }
        }
    }

    #[inline(always)]
    fn product<const R: usize, const C: usize>(&mut self, row: usize, column: usize) {
        let products = &mut *self.products;
        let simd = products.simd;
        let block = products.pairing.block * TILE[0];
        let resident = &products.resident_copy[(row - self.rows.start) / TILE[0] * block..][..block];
        let passing = &products.passing_copy[..self.pairs.len() * C];
        let mut sums = [[E::splat(simd, E::ZERO); C]; R];
        for (&[pixel, _], y) in self.pairs.iter().zip(passing.as_chunks::<C>().0) {
            let at = pixel as usize * TILE[0];
            debug_assert!(at + R <= resident.len());
            for r in 0..R {
                // SAFETY: pairs count pixels within a block, and a tile of rows has `TILE[0]` vectors for each.
                let x = unsafe { *resident.get_unchecked(at + r) };
                for c in 0..C {
                    sums[r][c] = E::fma(simd, x, y[c], sums[r][c]);
                }
            }
        }
        let tile = products.tile(self.tap, row, column);
        let totals = &mut products.sums[tile..tile + TILE[0] * TILE[1]];
        for (totals, sums) in totals.chunks_exact_mut(TILE[1]).zip(&sums) {
            for (total, &sum) in totals.iter_mut().zip(sums) {
                *total = E::add(simd, *total, sum);
            }
        }
    }
}

/// Sums over the lanes, into the layout of the weights.
struct LaneSums<'a, 'b, E: Element, S: Simd> {
    products: &'a Products<'b, E, S>,
    /// Distances of rows, columns and taps.
    strides: [usize; 3],
    gradient: &'a mut [E],
}

impl<E: Element, S: Simd> WithSimd for LaneSums<'_, '_, E, S> {
    type Output = ();
    #[inline(always)]
    fn with_simd<T: Simd>(self, _: T) {
        let Self { products, strides: [row_stride, column_stride, tap_stride], gradient } = self;
        for tap in 0..products.pairing.taps {
            for column in (0..products.columns).step_by(TILE[1]) {
                for row in (0..products.rows).step_by(TILE[0]) {
                    let tile = &products.sums[products.tile(tap, row, column)..][..TILE[0] * TILE[1]];
                    let rows = (row..products.rows).zip(tile.chunks_exact(TILE[1]));
                    for (row, sums) in rows {
                        for (column, &sum) in (column..products.columns).zip(sums) {
                            let place = row * row_stride + column * column_stride + tap * tap_stride;
                            gradient[place] = E::sum(products.simd, sum);
                        }
                    }
                }
            }
        }
    }
}

/// Channels whose sums over pixels are kept in registers together.
const CHANNELS: usize = 8;

/// `sums[class, q] = Σ_{p in class} Σ_lane dy[p, q]`: what biases and time inputs are multiplied with.
pub(crate) struct ClassSums<'a, E: Element, S: Simd> {
    pub(crate) simd: S,
    pub(crate) geometry: &'a Geometry,
    pub(crate) channels: usize,
    pub(crate) output_gradient: &'a [E::Vector<S>],
    /// `[class][channel]`
    pub(crate) sums: &'a mut [E],
}

impl<E: Element, S: Simd> WithSimd for ClassSums<'_, E, S> {
    type Output = ();
    #[inline(always)]
    fn with_simd<T: Simd>(self, _: T) {
        let Self { simd, geometry, channels, output_gradient, sums } = self;
        for (class, sums) in geometry.classes.iter().zip(sums.chunks_exact_mut(channels)) {
            let mut first = 0;
            while first < channels {
                let count = (channels - first).min(CHANNELS);
                let mut totals = [E::splat(simd, E::ZERO); CHANNELS];
                for &(_, pixel) in &class.pixels {
                    let row = &output_gradient[pixel * channels + first..][..count];
                    for (total, &value) in totals.iter_mut().zip(row) {
                        *total = E::add(simd, *total, value);
                    }
                }
                for (sum, &total) in sums[first..first + count].iter_mut().zip(&totals) {
                    *sum = E::sum(simd, total);
                }
                first += count;
            }
        }
    }
}
