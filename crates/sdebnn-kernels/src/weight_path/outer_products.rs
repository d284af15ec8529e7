//! Gradients of the parameters: sums of outer products over all evaluations and samples.

use pulp::{Scalar, Simd, WithSimd};

use super::columns::load_row;
use crate::element::Element;

/// Rows summed before the next tile of rows: the columns of a tile stay in the first-level cache.
const ROWS: usize = 192;

/// Vectors of a tile: with 4 coefficients, 12 sums, 3 vectors and a broadcast fill the registers of AVX2.
const VECTORS: usize = 3;

/// Numbers of a tile's row, at most: 3 vectors of AVX-512 in single precision.
const TILE: usize = 48;

/// `Σ_k coefficients[k][h] x[k][m]` for all `h` and some columns `m`.
pub(super) struct OuterProducts<'a, E, F> {
    /// `[k][h]`
    pub(super) coefficients: &'a [E],
    /// Number of coefficients `h`.
    pub(super) width: usize,
    /// `[k][…]`
    pub(super) x: &'a [E],
    /// Distance between the starts of two rows of `x`.
    pub(super) stride: usize,
    pub(super) columns: std::ops::Range<usize>,
    /// Called with `h`, a column counted from the first, and what is to be added from there on.
    pub(super) add: F,
}

impl<E: Element, F: FnMut(usize, usize, &[E])> WithSimd for OuterProducts<'_, E, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let lanes = E::lanes::<S>();
        let (mut at, end) = (self.columns.start, self.columns.end);
        while at + VECTORS * lanes <= end {
            self.columns::<S, VECTORS>(simd, at);
            at += VECTORS * lanes;
        }
        while at + lanes <= end {
            self.columns::<S, 1>(simd, at);
            at += lanes;
        }
        while at < end {
            self.columns::<Scalar, 1>(Scalar::new(), at);
            at += 1;
        }
    }
}

impl<E: Element, F: FnMut(usize, usize, &[E])> OuterProducts<'_, E, F> {
    #[inline(always)]
    fn columns<S: Simd, const V: usize>(&mut self, simd: S, at: usize) {
        let Self { coefficients, width, x, stride, .. } = *self;
        for (coefficients, x) in coefficients.chunks(ROWS * width).zip(x.chunks(ROWS * stride)) {
            let mut first = 0;
            while first < width {
                let taken = (width - first).min(4);
                match taken {
                    4 => self.tile::<S, V, 4>(simd, coefficients, x, first, at),
                    3 => self.tile::<S, V, 3>(simd, coefficients, x, first, at),
                    2 => self.tile::<S, V, 2>(simd, coefficients, x, first, at),
                    _ => self.tile::<S, V, 1>(simd, coefficients, x, first, at),
                }
                first += taken;
            }
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const V: usize, const R: usize>(
        &mut self,
        simd: S,
        coefficients: &[E],
        x: &[E],
        first: usize,
        at: usize,
    ) {
        let length = V * E::lanes::<S>();
        let mut sums = [[E::splat(simd, E::ZERO); V]; R];
        for (coefficients, x) in coefficients.chunks_exact(self.width).zip(x.chunks(self.stride)) {
            let x = load_row::<E, S, V>(x, at);
            for (sums, &coefficient) in sums.iter_mut().zip(&coefficients[first..first + R]) {
                let coefficient = E::splat(simd, coefficient);
                for (sum, &x) in sums.iter_mut().zip(&x) {
                    *sum = E::fma(simd, x, coefficient, *sum);
                }
            }
        }
        let mut values = [E::ZERO; TILE];
        for (offset, sums) in sums.iter().enumerate() {
            for (to, &sum) in E::vectors_mut::<S>(&mut values[..length]).iter_mut().zip(sums) {
                *to = sum;
            }
            (self.add)(first + offset, at - self.columns.start, &values[..length]);
        }
    }
}
