//! Gradients of the parameters: sums of outer products over all evaluations and samples.

use std::ops::Range;

use pulp::{Scalar, Simd, WithSimd};

use crate::{
    element::Element,
    far_memory::{NEAREST, prefetch},
};

/// Rows summed before the next tile of rows: the columns of a tile stay in the first-level cache.
const ROWS: usize = 64;

/// Vectors of a tile: with 3 coefficients, 12 sums, the coefficients and a vector fill the registers of AVX2.
const VECTORS: usize = 4;

/// Coefficients of a tile, and where there are twice the registers.
const COEFFICIENTS: usize = 3;
const WIDE: usize = 6;

/// Coefficients from which on the next rows are asked for during the arithmetic: with fewer, it is over too soon.
const FORESEEN: usize = 8;

/// Rows of numbers, each with its coefficients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a, E> {
    /// `[k][h]`
    pub(super) coefficients: &'a [E],
    /// `[k][…]`
    pub(super) x: &'a [E],
    /// Distance between the starts of two rows of `x`.
    pub(super) stride: usize,
}

/// `Σ_k coefficients[k][h] x[k][m]` for all `h` and some columns `m`, of all terms together.
pub(super) struct OuterProducts<'a, E, F> {
    pub(super) terms: &'a [Terms<'a, E>],
    /// Number of coefficients `h`.
    pub(super) width: usize,
    pub(super) columns: Range<usize>,
    /// Called with a column counted from the first, and for each `h` the sums from there on, `[h][…]`.
    pub(super) put: F,
}

impl<E: Element, F: FnMut(usize, &[&[E]])> WithSimd for OuterProducts<'_, E, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let length = self.columns.len();
        if length >= VECTORS * E::lanes::<S>() {
            self.sweep::<S, VECTORS>(simd);
        } else if length >= E::lanes::<S>() {
            self.sweep::<S, 1>(simd);
        } else {
            self.sweep::<Scalar, 1>(Scalar::new());
        }
    }
}

impl<E: Element, F: FnMut(usize, &[&[E]])> OuterProducts<'_, E, F> {
    /// All columns in tiles of `V` vectors. The last tile begins early enough to be whole, and what it has again is left out.
    #[inline(always)]
    fn sweep<S: Simd, const V: usize>(&mut self, simd: S) {
        let (length, Range { start, end }) = (V * E::lanes::<S>(), self.columns.clone());
        let mut totals = vec![E::ZERO; self.width * length];
        for column in (start..end).step_by(length) {
            let at = column.min(end - length);
            totals.fill(E::ZERO);
            for terms in self.terms {
                self.columns::<S, V>(simd, terms, at, &mut totals);
            }
            let rows: Vec<_> = totals.chunks_exact(length).map(|row| &row[column - at..]).collect();
            (self.put)(column - start, &rows);
        }
    }

    /// Adds to `totals` at the columns from `at` on. Meanwhile, what comes next is asked for: its rows are too far apart for the
    /// machine to foresee.
    #[inline(always)]
    fn columns<S: Simd, const V: usize>(&self, simd: S, terms: &Terms<'_, E>, at: usize, totals: &mut [E]) {
        let (Terms { coefficients, x, stride }, width) = (*terms, self.width);
        let length = V * E::lanes::<S>();
        let together = if S::REGISTER_COUNT >= 32 { WIDE } else { COEFFICIENTS };
        let blocks = coefficients.chunks(ROWS * width).zip(x.chunks(ROWS * stride));
        for (block, (coefficients, x_rows)) in blocks.enumerate() {
            let next = (block + 1) * ROWS * stride;
            let next = if next < x.len() { next + at } else { at + length };
            for (tile, totals) in totals.chunks_mut(together * length).enumerate() {
                let first = together * tile;
                if width >= FORESEEN {
                    for row in first * ROWS / width..(first + together).min(width) * ROWS / width {
                        // One more, because rows do not begin with cache lines.
                        prefetch::<NEAREST, _>(x, next + row * stride, length + 1);
                    }
                }
                let rows = (coefficients, x_rows, stride);
                match totals.len() / length {
                    6 => self.tile::<S, V, 6>(simd, rows, first, at, totals),
                    5 => self.tile::<S, V, 5>(simd, rows, first, at, totals),
                    4 => self.tile::<S, V, 4>(simd, rows, first, at, totals),
                    3 => self.tile::<S, V, 3>(simd, rows, first, at, totals),
                    2 => self.tile::<S, V, 2>(simd, rows, first, at, totals),
                    _ => self.tile::<S, V, 1>(simd, rows, first, at, totals),
                }
            }
        }
    }

    /// Adds the products of these rows with the coefficients from `first` on.
    #[inline(always)]
    fn tile<S: Simd, const V: usize, const R: usize>(
        &self,
        simd: S,
        (coefficients, x, stride): (&[E], &[E], usize),
        first: usize,
        at: usize,
        totals: &mut [E],
    ) {
        let mut sums = [[E::splat(simd, E::ZERO); V]; R];
        // The last row may end with its numbers, and not with its stride.
        for (coefficients, x) in coefficients.chunks_exact(self.width).zip(x.chunks(stride)) {
            let x = &E::vectors::<S>(&x[at..at + V * E::lanes::<S>()])[..V];
            let mut factors = [E::splat(simd, E::ZERO); R];
            for (factor, &coefficient) in factors.iter_mut().zip(&coefficients[first..first + R]) {
                *factor = E::splat(simd, coefficient);
            }
            for place in 0..V {
                let x = x[place];
                for row in 0..R {
                    sums[row][place] = E::fma(simd, x, factors[row], sums[row][place]);
                }
            }
        }
        for (totals, sums) in E::vectors_mut::<S>(totals).chunks_exact_mut(V).zip(sums) {
            for (total, sum) in totals.iter_mut().zip(sums) {
                *total = E::add(simd, *total, sum);
            }
        }
    }
}
