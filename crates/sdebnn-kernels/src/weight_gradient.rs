//! The gradient of a layer's weights: products of input and output gradient summed over pixels and examples.
#![expect(clippy::needless_range_loop, reason = "register tiles read best with their row and column as indices")]

use pulp::{Simd, WithSimd};

use crate::{
    contraction::WeightStrides,
    element::{Element, MOST_LANES},
    pairing::Pairing,
};

/// Most vectors of wide channels whose sums are kept in registers together.
const MOST_VECTORS: usize = 4;

/// Vectors of wide channels whose sums are kept in registers together, if `rest` are left and there are `rows` narrow channels.
#[inline(always)]
fn block_of_vectors(rest: usize, rows: usize) -> usize {
    match rest {
        _ if rows <= 3 => rest.min(MOST_VECTORS),
        1 | 3 => rest,
        _ if rest % 2 == 1 => 3,
        _ => 2,
    }
}

/// Narrow channels whose sums are kept in registers together, of `rest` left, with `C` vectors each: about equally many each
/// time. Twelve sums hide the latency of the multiply-add best; with three vectors, nine do better, because twelve leave
/// no register free beside their operands.
#[inline(always)]
fn block_of_rows<const C: usize>(rest: usize) -> usize {
    let most = if C <= 2 { 6 } else { 3 };
    rest.div_ceil(rest.div_ceil(most))
}

/// `dw[q, c, tap] = Σ_p Σ_lane x[p at tap, c] · dy[p, q]`: a product of matrices that is summed over pixels and examples.
///
/// Blocks of the wide image are transposed, so that vectors hold channels instead of examples. Sums then need no reduction
/// over lanes, and few enough of them remain to stay in cache.
pub(crate) struct WeightGradient<'a, E: Element, S: Simd> {
    pub(crate) pairing: &'a Pairing,
    pub(crate) channels: [usize; 2],
    pub(crate) input: &'a [E::Vector<S>],
    pub(crate) output_gradient: &'a [E::Vector<S>],
    pub(crate) strides: WeightStrides,
    /// [`scratch`] vectors.
    pub(crate) scratch: &'a mut [E::Vector<S>],
    /// Where the gradients of the weights are written.
    pub(crate) gradient: &'a mut [E],
}

/// Vectors of scratch a gradient needs for `channels` = (input, output): sums, then a transposed block.
pub(crate) fn scratch(pairing: &Pairing, channels: [usize; 2], lanes: usize) -> usize {
    let [rows, columns] = pairing.orient(channels);
    pairing.taps * rows * columns.div_ceil(lanes) + panel(pairing, lanes)
}

/// Vectors of a transposed block.
fn panel(pairing: &Pairing, lanes: usize) -> usize {
    pairing.block * lanes * MOST_VECTORS
}

impl<E: Element, S: Simd> WeightGradient<'_, E, S> {
    /// Runs the kernel with the target features of `simd`.
    pub(crate) fn run(self, simd: S) {
        let pairing = self.pairing;
        let lanes = E::lanes::<S>();
        let [rows, columns] = pairing.orient(self.channels);
        let [narrow, wide] = pairing.orient([self.input, self.output_gradient]);
        let [row_stride, column_stride] = pairing.orient([self.strides.input, self.strides.output]);
        assert_eq!(pairing.pixels[0] * rows, narrow.len(), "narrow image");
        assert_eq!(pairing.pixels[1] * columns, wide.len(), "wide image");
        let length = scratch(pairing, self.channels, lanes);
        let (sums, panel) = self.scratch[..length].split_at_mut(length - panel(pairing, lanes));
        // A dense layer on few pixels with whole vectors of columns.
        let in_place = pairing.taps == 1 && pairing.blocks() == 1 && column_stride == 1 && columns % lanes == 0;
        simd.vectorize(Products::<E, S> {
            simd,
            pairing,
            in_place,
            rows,
            columns,
            narrow: E::elements::<S>(narrow),
            wide,
            sums,
            panel,
            strides: [row_stride, column_stride, self.strides.tap],
            gradient: self.gradient,
        });
    }
}

struct Products<'a, E: Element, S: Simd> {
    simd: S,
    pairing: &'a Pairing,
    /// Whether each gradient is the sum of one product, which is written where it belongs.
    in_place: bool,
    /// Channels of the narrow image.
    rows: usize,
    /// Channels of the wide image.
    columns: usize,
    /// `[pixel][row][lane]`
    narrow: &'a [E],
    /// `[pixel][column]`
    wide: &'a [E::Vector<S>],
    /// `[block of columns][tap][row][column within the block]`
    sums: &'a mut [E::Vector<S>],
    /// A block of columns of a block of the wide image, `[pixel][lane][vector]`.
    panel: &'a mut [E::Vector<S>],
    /// Distances of rows, columns and taps in `gradient`.
    strides: [usize; 3],
    gradient: &'a mut [E],
}

impl<E: Element, S: Simd> WithSimd for Products<'_, E, S> {
    type Output = ();
    #[inline(always)]
    fn with_simd<T: Simd>(mut self, _: T) {
        let vectors = self.columns.div_ceil(E::lanes::<S>());
        if !self.in_place {
            self.sums.fill(E::splat(self.simd, E::ZERO));
        }
        for block in 0..self.pairing.blocks() {
            let mut first = 0;
            while first < vectors {
                let count = block_of_vectors(vectors - first, self.rows);
                match count {
                    1 => self.block::<1>(block, first),
                    2 => self.block::<2>(block, first),
                    3 => self.block::<3>(block, first),
                    _ => self.block::<MOST_VECTORS>(block, first),
                }
                first += count;
            }
        }
        if !self.in_place {
            self.scatter(vectors);
        }
    }
}

impl<E: Element, S: Simd> Products<'_, E, S> {
    /// All products of a block of pixels with `C` vectors of columns from vector `first` on.
    #[inline(always)]
    fn block<const C: usize>(&mut self, block: usize, first: usize) {
        self.transpose::<C>(block, first);
        let sums = first * self.pairing.taps * self.rows;
        for tap in 0..self.pairing.taps {
            let pairs = self.pairing.pairs(block, tap);
            let mut row = 0;
            while row < self.rows && !pairs.is_empty() {
                let count = block_of_rows::<C>(self.rows - row);
                let place = if self.in_place {
                    row * self.strides[0] + first * E::lanes::<S>()
                } else {
                    sums + (tap * self.rows + row) * C
                };
                match count {
                    1 => self.product::<1, C>(pairs, row, place),
                    2 => self.product::<2, C>(pairs, row, place),
                    3 => self.product::<3, C>(pairs, row, place),
                    4 if C <= 2 => self.product::<4, C>(pairs, row, place),
                    5 if C <= 2 => self.product::<5, C>(pairs, row, place),
                    _ if C <= 2 => self.product::<6, C>(pairs, row, place),
                    _ => unreachable!("{count} rows of {C} vectors"),
                }
                row += count;
            }
        }
    }

    /// Copies `C` vectors of columns of a block of pixels, transposed.
    #[inline(always)]
    fn transpose<const C: usize>(&mut self, block: usize, first: usize) {
        let (simd, lanes) = (self.simd, E::lanes::<S>());
        let start = block * self.pairing.block;
        let end = (start + self.pairing.block).min(self.pairing.pixels[1]);
        let pixels = self.wide[start * self.columns..end * self.columns].chunks_exact(self.columns);
        for (pixel, to) in pixels.zip(self.panel.chunks_exact_mut(lanes * C)) {
            for c in 0..C {
                let from = &pixel[(first + c) * lanes..];
                if from.len() >= lanes {
                    E::transpose(simd, &from[..lanes], &mut to[c..], C);
                } else {
                    let mut padded = [E::splat(simd, E::ZERO); MOST_LANES];
                    padded[..from.len()].copy_from_slice(from);
                    E::transpose(simd, &padded[..lanes], &mut to[c..], C);
                }
            }
        }
    }

    /// `sums += Σ_pairs Σ_lane narrow[pixel, row] · wide[pixel', column]` for `R` rows and `C` vectors of columns.
    #[inline(always)]
    fn product<const R: usize, const C: usize>(&mut self, pairs: &[[u32; 2]], row: usize, place: usize) {
        let (simd, lanes) = (self.simd, E::lanes::<S>());
        let mut sums = [[E::splat(simd, E::ZERO); C]; R];
        for &[wide, narrow] in pairs {
            let y = wide as usize * lanes * C;
            let x = (narrow as usize * self.rows + row) * lanes;
            debug_assert!(y + lanes * C <= self.panel.len() && x + lanes * R <= self.narrow.len());
            for lane in 0..lanes {
                // SAFETY: pairs count pixels within a block, for which the panel has `lanes * C` vectors each.
                let factor = |c: usize| unsafe { *self.panel.get_unchecked(y + lane * C + c) };
                // SAFETY: pairs hold pixels of the narrow image, whose length `run` has compared.
                let number = |r: usize| unsafe { *self.narrow.get_unchecked(x + r * lanes + lane) };
                // Sixteen registers hold the sums, the fewer operands, and one of the others.
                if R < C {
                    let mut numbers = [sums[0][0]; R];
                    for r in 0..R {
                        numbers[r] = E::splat(simd, number(r));
                    }
                    for c in 0..C {
                        let factor = factor(c);
                        for r in 0..R {
                            sums[r][c] = E::fma(simd, numbers[r], factor, sums[r][c]);
                        }
                    }
                } else {
                    let mut factors = [sums[0][0]; C];
                    for c in 0..C {
                        factors[c] = factor(c);
                    }
                    for r in 0..R {
                        let number = E::splat(simd, number(r));
                        for c in 0..C {
                            sums[r][c] = E::fma(simd, number, factors[c], sums[r][c]);
                        }
                    }
                }
            }
        }
        if self.in_place {
            for (r, sums) in sums.iter().enumerate() {
                let to = &mut self.gradient[place + r * self.strides[0]..][..C * lanes];
                E::vectors_mut::<S>(to).copy_from_slice(sums);
            }
            return;
        }
        let totals = self.sums[place..place + R * C].as_chunks_mut::<C>().0;
        for (totals, sums) in totals.iter_mut().zip(&sums) {
            for (total, &sum) in totals.iter_mut().zip(sums) {
                *total = E::add(simd, *total, sum);
            }
        }
    }

    /// Copies the sums into the layout of the weights.
    #[inline(always)]
    fn scatter(&mut self, vectors: usize) {
        let lanes = E::lanes::<S>();
        let [row_stride, column_stride, tap_stride] = self.strides;
        let mut first = 0;
        while first < vectors {
            let count = block_of_vectors(vectors - first, self.rows);
            let columns = first * lanes..((first + count) * lanes).min(self.columns);
            let start = first * self.pairing.taps * self.rows;
            for tap in 0..self.pairing.taps {
                for row in 0..self.rows {
                    let from = E::elements::<S>(&self.sums[start + (tap * self.rows + row) * count..][..count]);
                    let to = &mut self.gradient[row * row_stride + tap * tap_stride + columns.start * column_stride..];
                    if column_stride == 1 {
                        to[..columns.len()].copy_from_slice(&from[..columns.len()]);
                    } else {
                        for (to, &sum) in to.iter_mut().step_by(column_stride).zip(&from[..columns.len()]) {
                            *to = sum;
                        }
                    }
                }
            }
            first += count;
        }
    }
}
