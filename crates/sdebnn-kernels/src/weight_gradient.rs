//! The gradient of a layer's weights: products of input and output gradient summed over pixels and examples.
#![expect(clippy::needless_range_loop, reason = "register tiles read best with their row and column as indices")]

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use pulp::x86::V4;
use pulp::{Simd, WithSimd};

#[cfg(target_arch = "x86_64")]
use crate::instructions::same;
use crate::{
    contraction::WeightStrides,
    dense_gradient::{DenseGradient, pays},
    element::{Element, MOST_LANES},
    far_memory::Foreseen,
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

/// Narrow channels whose sums are kept in registers together, of `rest` left, with `C` vectors of `bytes` bytes each: about equally
/// many each time. Twelve sums hide the latency of the multiply-add best in sixteen registers; with three vectors, nine do better,
/// because twelve leave no register free beside their operands, and with one, eight, which share it. Instruction sets with vectors of
/// 64 bytes have registers for eighteen.
#[inline(always)]
fn block_of_rows<const C: usize>(rest: usize, bytes: usize) -> usize {
    let most = match C {
        1 => 8,
        2 if bytes == 64 => 9,
        2 => 6,
        _ => 3,
    };
    rest.div_ceil(rest.div_ceil(most))
}

/// `dw[q, c, tap] = Σ_p Σ_lane x[p at tap, c] · dy[p, q]`: a product of matrices that is summed over pixels and examples.
///
/// Blocks of the wide image are transposed, so that vectors hold channels instead of examples. Sums then need no reduction
/// over lanes, and few enough of them remain to stay in cache. Where it pays, a dense layer is left to [`DenseGradient`].
pub(crate) struct WeightGradient<'a, 'b, E: Element, S: Simd> {
    pub(crate) pairing: &'a Pairing,
    pub(crate) channels: [usize; 2],
    pub(crate) input: &'a [E::Vector<S>],
    pub(crate) output_gradient: &'a [E::Vector<S>],
    pub(crate) strides: WeightStrides,
    /// [`scratch`] vectors.
    pub(crate) scratch: &'a mut [E::Vector<S>],
    /// What will be read next.
    pub(crate) ahead: &'a mut Foreseen<'b, E>,
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

impl<E: Element, S: Simd> WeightGradient<'_, '_, E, S> {
    /// Runs the kernel with the target features of `simd`.
    pub(crate) fn run(self, simd: S) {
        let pairing = self.pairing;
        let lanes = E::lanes::<S>();
        let [rows, columns] = pairing.orient(self.channels);
        let [narrow, wide] = pairing.orient([self.input, self.output_gradient]);
        let [row_stride, column_stride] = pairing.orient([self.strides.input, self.strides.output]);
        assert_eq!(pairing.pixels[0] * rows, narrow.len(), "narrow image");
        assert_eq!(pairing.pixels[1] * columns, wide.len(), "wide image");
        if pairing.taps == 1 && pays(size_of::<E::Vector<S>>(), columns) {
            let (strides, gradient) = ([row_stride, column_stride], self.gradient);
            return simd.vectorize(DenseGradient::<E, S> {
                simd,
                channels: [rows, columns],
                narrow,
                wide,
                strides,
                ahead: self.ahead,
                gradient,
            });
        }
        let length = scratch(pairing, self.channels, lanes);
        let (sums, panel) = self.scratch[..length].split_at_mut(length - panel(pairing, lanes));
        let mut products = Products {
            pairing,
            rows,
            columns: 0..columns,
            wide_channels: columns,
            narrow: E::elements::<S>(narrow),
            wide: E::elements::<S>(wide),
            sums: E::elements_mut::<S>(sums),
            panel: E::elements_mut::<S>(panel),
            strides: [row_stride, column_stride, self.strides.tap],
            gradient: self.gradient,
        };
        // A rest of columns that fits half a vector is done with vectors of that length, if there are any.
        #[cfg(target_arch = "x86_64")]
        if let Some(v4) = same::<S, V4>(simd)
            && (1..=lanes / 2).contains(&(columns % lanes))
        {
            products.columns = columns - columns % lanes..columns;
            Simd::vectorize(*v4, ProductsBy::<E, _, 2>(*v4, &mut products));
            products.columns = 0..products.columns.start;
        }
        if !products.columns.is_empty() {
            simd.vectorize(ProductsBy::<E, S, 1>(simd, &mut products));
        }
    }
}

struct Products<'a, E> {
    pairing: &'a Pairing,
    /// Channels of the narrow image.
    rows: usize,
    /// Those channels of the wide image whose products are asked for.
    columns: Range<usize>,
    /// All of them.
    wide_channels: usize,
    /// `[pixel][row][example]`
    narrow: &'a [E],
    /// `[pixel][channel][example]`
    wide: &'a [E],
    /// `[block of columns][rank of the tap][row][column within the block]`
    sums: &'a mut [E],
    /// A block of columns of a block of the wide image, `[pixel][example][column within the block]`.
    panel: &'a mut [E],
    /// Distances of rows, columns and taps in `gradient`.
    strides: [usize; 3],
    gradient: &'a mut [E],
}

/// The products by vectors of `S`, of which the examples of a channel fill `K`.
struct ProductsBy<'a, 'b, E, S, const K: usize>(S, &'a mut Products<'b, E>);

impl<E: Element, S: Simd, const K: usize> WithSimd for ProductsBy<'_, '_, E, S, K> {
    type Output = ();
    #[inline(always)]
    fn with_simd<T: Simd>(self, _: T) {
        let Self(simd, products) = self;
        products.all::<S, K>(simd);
    }
}

impl<E: Element> Products<'_, E> {
    /// Whether each gradient is the sum of one product, which is written where it belongs: in a dense layer on few pixels with whole
    /// vectors of columns.
    #[inline(always)]
    fn in_place<S: Simd>(&self) -> bool {
        let pairing = self.pairing;
        let whole = self.columns.len().is_multiple_of(E::lanes::<S>());
        pairing.taps == 1 && pairing.sweeps.len() == 1 && self.strides[1] == 1 && whole
    }

    #[inline(always)]
    fn all<S: Simd, const K: usize>(&mut self, simd: S) {
        let vectors = self.columns.len().div_ceil(E::lanes::<S>());
        let in_place = self.in_place::<S>();
        if !in_place {
            self.sums.fill(E::ZERO);
        }
        for block in 0..self.pairing.sweeps.len() {
            let mut first = 0;
            while first < vectors {
                let count = block_of_vectors(vectors - first, self.pairing.longest * self.rows);
                match count {
                    1 => self.block::<S, K, 1>(simd, block, first),
                    2 => self.block::<S, K, 2>(simd, block, first),
                    3 => self.block::<S, K, 3>(simd, block, first),
                    _ => self.block::<S, K, MOST_VECTORS>(simd, block, first),
                }
                first += count;
            }
        }
        if !in_place {
            self.scatter::<S>(vectors);
        }
    }

    /// All products of a block of pixels with `C` vectors of columns from vector `first` on.
    #[inline(always)]
    fn block<S: Simd, const K: usize, const C: usize>(&mut self, simd: S, block: usize, first: usize) {
        self.transpose::<S, K, C>(simd, block, first);
        let (lanes, bytes) = (E::lanes::<S>(), size_of::<E::Vector<S>>());
        let (pairing, in_place) = (self.pairing, self.in_place::<S>());
        let sums = first * self.pairing.taps * self.rows;
        for sweep in &pairing.sweeps[block] {
            // Rows of neighbouring pixels follow each other.
            let (pairs, rows) = (&sweep.pairs, sweep.taps * self.rows);
            let mut row = 0;
            while row < rows {
                let count = block_of_rows::<C>(rows - row, bytes);
                let place = if in_place {
                    row * self.strides[0] + self.columns.start + first * lanes
                } else {
                    (sums + (sweep.first * self.rows + row) * C) * lanes
                };
                match count {
                    1 => self.product::<S, K, 1, C>(simd, pairs, row, place),
                    2 => self.product::<S, K, 2, C>(simd, pairs, row, place),
                    3 => self.product::<S, K, 3, C>(simd, pairs, row, place),
                    4 if C <= 2 => self.product::<S, K, 4, C>(simd, pairs, row, place),
                    5 if C <= 2 => self.product::<S, K, 5, C>(simd, pairs, row, place),
                    6 if C <= 2 => self.product::<S, K, 6, C>(simd, pairs, row, place),
                    7 if C == 1 || C == 2 && bytes == 64 => self.product::<S, K, 7, C>(simd, pairs, row, place),
                    8 if C == 1 || C == 2 && bytes == 64 => self.product::<S, K, 8, C>(simd, pairs, row, place),
                    9 if C == 2 && bytes == 64 => self.product::<S, K, 9, C>(simd, pairs, row, place),
                    _ => unreachable!("{count} rows of {C} vectors"),
                }
                row += count;
            }
        }
    }

    /// Copies `C` vectors of columns of a block of pixels, transposed.
    #[inline(always)]
    fn transpose<S: Simd, const K: usize, const C: usize>(&mut self, simd: S, block: usize, first: usize) {
        let (lanes, examples) = (E::lanes::<S>(), K * E::lanes::<S>());
        let start = block * self.pairing.block;
        let end = (start + self.pairing.block).min(self.pairing.pixels[1]);
        let pixel = self.wide_channels * examples;
        let pixels = self.wide[start * pixel..end * pixel].chunks_exact(pixel);
        for (pixel, to) in pixels.zip(self.panel.chunks_exact_mut(examples * C * lanes)) {
            let to = E::vectors_mut::<S>(to);
            for c in 0..C {
                let from = E::vectors::<S>(&pixel[(self.columns.start + (first + c) * lanes) * examples..]);
                for part in 0..K {
                    let to = &mut to[part * lanes * C + c..];
                    if from.len() >= lanes * K {
                        E::transpose(simd, &from[part..], to, [K, C]);
                    } else {
                        let mut padded = [E::splat(simd, E::ZERO); MOST_LANES];
                        let rows = from[part..].iter().step_by(K);
                        padded.iter_mut().zip(rows).for_each(|(to, &from)| *to = from);
                        E::transpose(simd, &padded[..lanes], to, [1, C]);
                    }
                }
            }
        }
    }

    /// `sums += Σ_pairs Σ_example narrow[pixel, row] · wide[pixel', column]` for `R` rows and `C` vectors of columns.
    #[inline(always)]
    fn product<S: Simd, const K: usize, const R: usize, const C: usize>(
        &mut self,
        simd: S,
        pairs: &[[u32; 2]],
        row: usize,
        place: usize,
    ) {
        let (lanes, examples) = (E::lanes::<S>(), K * E::lanes::<S>());
        let panel = E::vectors::<S>(self.panel);
        let mut sums = [[E::splat(simd, E::ZERO); C]; R];
        for &[wide, narrow] in pairs {
            let y = wide as usize * examples * C;
            let x = (narrow as usize * self.rows + row) * examples;
            debug_assert!(y + examples * C <= panel.len() && x + examples * R <= self.narrow.len());
            for example in 0..examples {
                // SAFETY: pairs count pixels within a block, for which the panel has `examples * C` vectors each.
                let factor = |c: usize| unsafe { *panel.get_unchecked(y + example * C + c) };
                // SAFETY: pairs hold pixels of the narrow image, after which come those of a sweep's other taps; `run` has compared its length.
                let number = |r: usize| unsafe { *self.narrow.get_unchecked(x + r * examples + example) };
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
        if self.in_place::<S>() {
            for (r, sums) in sums.iter().enumerate() {
                let to = &mut self.gradient[place + r * self.strides[0]..][..C * lanes];
                E::vectors_mut::<S>(to).copy_from_slice(sums);
            }
            return;
        }
        let totals = E::vectors_mut::<S>(&mut self.sums[place..place + R * C * lanes]).as_chunks_mut::<C>().0;
        for (totals, sums) in totals.iter_mut().zip(&sums) {
            for (total, &sum) in totals.iter_mut().zip(sums) {
                *total = E::add(simd, *total, sum);
            }
        }
    }

    /// Copies the sums into the layout of the weights.
    #[inline(always)]
    fn scatter<S: Simd>(&mut self, vectors: usize) {
        let lanes = E::lanes::<S>();
        let [row_stride, column_stride, tap_stride] = self.strides;
        let mut first = 0;
        while first < vectors {
            let count = block_of_vectors(vectors - first, self.pairing.longest * self.rows);
            let columns = (self.columns.start + first * lanes)
                ..(self.columns.start + (first + count) * lanes).min(self.columns.end);
            let start = first * self.pairing.taps * self.rows;
            for tap in 0..self.pairing.taps {
                let first_row = self.pairing.ranks[tap] * self.rows;
                for row in 0..self.rows {
                    let from = &self.sums[(start + (first_row + row) * count) * lanes..][..columns.len()];
                    let to = &mut self.gradient[row * row_stride + tap * tap_stride + columns.start * column_stride..];
                    if column_stride == 1 {
                        to[..columns.len()].copy_from_slice(from);
                    } else {
                        for (to, &sum) in to.iter_mut().step_by(column_stride).zip(from) {
                            *to = sum;
                        }
                    }
                }
            }
            first += count;
        }
    }
}
