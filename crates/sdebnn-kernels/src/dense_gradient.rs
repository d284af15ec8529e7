//! The gradient of a dense layer's weights, with many registers.

use pulp::{Simd, WithSimd};

use crate::{element::Element, far_memory::Foreseen, lane_sums::EIGHT};

/// Most narrow channels whose sums are kept in registers together: with eight wide ones, 24 of 32 registers.
const MOST_ROWS: usize = 3;

/// Numbers that are asked for ahead while a block is computed.
const AHEAD: usize = 256;

/// `dw[row, column] = Σ_vector Σ_lane narrow[vector, row] · wide[vector, column]`: sums stay in the lanes of examples until the last vector,
/// and are then summed over the lanes eight at a time. Nothing is transposed, and a number that is loaded serves three or eight products.
pub(crate) struct DenseGradient<'a, 'b, E: Element, S: Simd> {
    pub(crate) simd: S,
    /// Channels of the (narrow, wide) image.
    pub(crate) channels: [usize; 2],
    /// `[vector][channel]`
    pub(crate) narrow: &'a [E::Vector<S>],
    pub(crate) wide: &'a [E::Vector<S>],
    /// Distances of rows and columns in `gradient`.
    pub(crate) strides: [usize; 2],
    /// What will be read next.
    pub(crate) ahead: &'a mut Foreseen<'b, E>,
    pub(crate) gradient: &'a mut [E],
}

/// Whether so many wide channels of vectors of so many bytes are summed this way.
pub(crate) fn pays(bytes: usize, columns: usize) -> bool {
    bytes == 64 && columns >= EIGHT
}

impl<E: Element, S: Simd> WithSimd for DenseGradient<'_, '_, E, S> {
    type Output = ();
    #[inline(always)]
    fn with_simd<T: Simd>(mut self, _: T) {
        let [rows, columns] = self.channels;
        for first in (0..columns).step_by(EIGHT) {
            // The last eight may have some of those before among them.
            let column = first.min(columns - EIGHT);
            let mut row = 0;
            while row < rows {
                let count = (rows - row).min(MOST_ROWS);
                match count {
                    1 => self.block::<1>(row, column),
                    2 => self.block::<2>(row, column),
                    _ => self.block::<MOST_ROWS>(row, column),
                }
                row += count;
            }
        }
    }
}

impl<E: Element, S: Simd> DenseGradient<'_, '_, E, S> {
    /// `R` rows of eight columns.
    #[inline(always)]
    fn block<const R: usize>(&mut self, row: usize, column: usize) {
        let (simd, [rows, columns]) = (self.simd, self.channels);
        self.ahead.ask(AHEAD);
        let mut sums = [[E::splat(simd, E::ZERO); EIGHT]; R];
        for (narrow, wide) in self.narrow.chunks_exact(rows).zip(self.wide.chunks_exact(columns)) {
            let (narrow, wide) = (&narrow[row..row + R], &wide[column..column + EIGHT]);
            for (c, &factor) in wide.iter().enumerate() {
                for (r, &number) in narrow.iter().enumerate() {
                    sums[r][c] = E::fma(simd, number, factor, sums[r][c]);
                }
            }
        }
        let [row_stride, column_stride] = self.strides;
        for (r, sums) in sums.iter().enumerate() {
            let totals = E::sum_eight(simd, sums);
            let to = &mut self.gradient[(row + r) * row_stride + column * column_stride..];
            if column_stride == 1 {
                to[..EIGHT].copy_from_slice(&totals);
            } else {
                to.iter_mut().step_by(column_stride).zip(totals).for_each(|(to, total)| *to = total);
            }
        }
    }
}
