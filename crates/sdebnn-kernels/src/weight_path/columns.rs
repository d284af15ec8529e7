//! Products with matrices whose rows run along the moving weights.
//!
//! The first layer of `NN_φ` has such rows by nature, the last one after transposition. Both are a few rows of many columns, so
//! the lanes of a vector are *columns*; `N` samples share every vector of the matrix that is loaded.

use std::ops::Range;

use pulp::{Scalar, Simd, WithSimd};
use rayon::prelude::*;

use super::{hidden::add, layout::GROUP};
use crate::{
    element::{Element, MOST_LANES},
    far_memory::{NEAREST, prefetch},
    instructions::InstructionSet,
};

/// Columns multiplied together, whole vectors for all instruction sets: those of `N` rows stay in the first-level cache.
const BLOCK: usize = 384;

/// Tiles from the one that is computed to the one that is asked for.
const AHEAD: usize = 2;

/// One row for each of `N` samples.
pub(super) type Rows<'a, E, const N: usize> = [&'a [E]; N];

/// One row to be written for each of `N` samples.
pub(super) type RowsMut<'a, E, const N: usize> = [&'a mut [E]; N];

/// A matrix with rows along the moving weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<'a, E> {
    pub(super) elements: &'a [E],
    /// Distance between the starts of two rows.
    pub(super) stride: usize,
    pub(super) rows: usize,
    /// Whether zeros fill up the last vector of every row.
    pub(super) padded: bool,
}

impl<'a, E> Matrix<'a, E> {
    /// Rows that follow each other.
    pub(super) fn new(elements: &'a [E], stride: usize) -> Self {
        Self { elements, stride, rows: elements.len() / stride, padded: false }
    }

    /// Rows with zeros behind them, [`padded`] numbers each.
    pub(super) fn padded(elements: &'a [E], stride: usize) -> Self {
        Self { padded: true, ..Self::new(elements, stride) }
    }

    /// The columns from `at` on.
    #[inline(always)]
    pub(super) fn columns_from(&self, at: usize) -> Self {
        Self { elements: &self.elements[at.min(self.elements.len())..], ..*self }
    }

    #[inline(always)]
    fn row(&self, row: usize, columns: Range<usize>) -> &'a [E] {
        &self.elements[row * self.stride + columns.start..row * self.stride + columns.end]
    }
}

/// The distance of rows that start on cache lines: an odd number of vectors, so that the same columns of all rows never meet in one
/// set of a cache.
pub(super) fn padded(columns: usize) -> usize {
    (columns.div_ceil(MOST_LANES) | 1) * MOST_LANES
}

/// The columns `columns` of `N` rows that follow each other in `elements`.
pub(super) fn rows<E, const N: usize>(elements: &[E], columns: Range<usize>) -> Rows<'_, E, N> {
    let length = elements.len() / N;
    std::array::from_fn(|sample| &elements[sample * length..][columns.clone()])
}

/// `N` rows that follow each other in `elements`, cut into pieces of at most `width` columns.
pub(super) fn cut<E, const N: usize>(elements: &mut [E], width: usize) -> Vec<RowsMut<'_, E, N>> {
    let length = elements.len() / N;
    let mut rest = elements.chunks_exact_mut(length).collect::<Vec<_>>();
    let piece = |columns: usize| {
        std::array::from_fn(|sample| rest[sample].split_off_mut(..columns).expect("a piece is no longer than the row"))
    };
    let starts = (0..length).step_by(width);
    starts.map(|start| width.min(length - start)).map(piece).collect()
}

/// `V` vectors of a row, from column `at`.
///
/// Here and below, loops and not the methods of arrays: those take closures, which target features do not reach.
#[inline(always)]
pub(super) fn load_row<E: Element, S: Simd, const V: usize>(row: &[E], at: usize) -> [E::Vector<S>; V] {
    let row = &E::vectors::<S>(&row[at..at + V * E::lanes::<S>()])[..V];
    let mut values = [row[0]; V];
    for (value, &element) in values.iter_mut().zip(row) {
        *value = element;
    }
    values
}

/// Stores what [`load_row`] loads.
#[inline(always)]
pub(super) fn store_row<E: Element, S: Simd, const V: usize>(values: [E::Vector<S>; V], row: &mut [E], at: usize) {
    let row = E::vectors_mut::<S>(&mut row[at..at + V * E::lanes::<S>()]);
    for (to, value) in row.iter_mut().zip(values) {
        *to = value;
    }
}

/// Asks for what the rows have [`AHEAD`] tiles after column `at`. The rows of several samples are more streams than the machine
/// foresees.
#[inline(always)]
pub(super) fn foresee<E: Element, S: Simd, const N: usize, const V: usize>(rows: &[impl AsRef<[E]>; N], at: usize) {
    let length = V * E::lanes::<S>();
    if N > 1 {
        for row in rows {
            prefetch::<NEAREST, _>(row.as_ref(), at + AHEAD * length, length);
        }
    }
}

/// `sums[s] + Σ_h coefficients[h][s] matrix[h]` at the columns from `at` that `V` vectors hold.
#[inline(always)]
pub(super) fn combine<E: Element, S: Simd, const N: usize, const V: usize>(
    simd: S,
    matrix: &Matrix<'_, E>,
    coefficients: &[E],
    at: usize,
    mut sums: [[E::Vector<S>; V]; N],
) -> [[E::Vector<S>; V]; N] {
    for (row, coefficients) in coefficients.as_chunks::<N>().0.iter().enumerate() {
        let row = matrix.row(row, at..at + V * E::lanes::<S>());
        let row = load_row::<E, S, V>(row, 0);
        for (sums, &coefficient) in sums.iter_mut().zip(coefficients) {
            let coefficient = E::splat(simd, coefficient);
            for (sum, &element) in sums.iter_mut().zip(&row) {
                *sum = E::fma(simd, element, coefficient, *sum);
            }
        }
    }
    sums
}

/// Adds `matrix[h] · x[s]`, over the columns that `x` has, to the lanes of `sums[h][s]`.
#[inline(always)]
pub(super) fn dot<E: Element, S: Simd, const N: usize, const W: usize>(
    simd: S,
    matrix: &Matrix<'_, E>,
    x: &Rows<'_, E, N>,
    sums: &mut [E],
) {
    let length = x[0].len();
    let columns = 0..length;
    let whole = E::vectors_mut::<S>(sums);
    let mut row = 0;
    while row + W <= matrix.rows {
        let mut tile = [matrix.row(row, columns.clone()); W];
        for (index, tile) in tile.iter_mut().enumerate() {
            *tile = matrix.row(row + index, columns.clone());
        }
        dot_tile::<E, S, N, W>(simd, &tile, x, &mut whole[row * N..(row + W) * N]);
        row += W;
    }
    while row < matrix.rows {
        let tile = [matrix.row(row, columns.clone())];
        dot_tile::<E, S, N, 1>(simd, &tile, x, &mut whole[row * N..(row + 1) * N]);
        row += 1;
    }
    let lanes = E::lanes::<S>();
    let rest = length - length % lanes..length;
    if rest.is_empty() {
        return;
    }
    if !matrix.padded {
        for (row, sums) in sums.chunks_exact_mut(N * lanes).enumerate() {
            let row = &matrix.row(row, columns.clone())[rest.clone()];
            for (x, sums) in x.iter().zip(sums.chunks_exact_mut(lanes)) {
                multiply_add(row, &x[rest.clone()], sums);
            }
        }
        return;
    }
    // Zeros fill up the last vector of `x` as they do in the matrix.
    let mut tails = [[E::ZERO; MOST_LANES]; N];
    for (tail, x) in tails.iter_mut().zip(x) {
        tail[..rest.len()].copy_from_slice(&x[rest.clone()]);
    }
    for (row, sums) in E::vectors_mut::<S>(sums).chunks_exact_mut(N).enumerate() {
        let elements = load_row::<E, S, 1>(matrix.row(row, rest.start..rest.start + lanes), 0)[0];
        for (sum, tail) in sums.iter_mut().zip(&tails) {
            *sum = E::fma(simd, elements, E::vectors::<S>(tail)[0], *sum);
        }
    }
}

/// `to += a b`, element by element.
#[inline(always)]
fn multiply_add<E: Element>(a: &[E], b: &[E], to: &mut [E]) {
    let (a, b, to) = (E::vectors::<Scalar>(a), E::vectors::<Scalar>(b), E::vectors_mut::<Scalar>(to));
    for ((&a, &b), to) in a.iter().zip(b).zip(to) {
        *to = E::fma(Scalar::new(), a, b, *to);
    }
}

/// `R` rows. Each product has one sum, whatever the tile: its bits do not depend on what else is computed.
#[inline(always)]
fn dot_tile<E: Element, S: Simd, const N: usize, const R: usize>(
    simd: S,
    matrix: &Rows<'_, E, R>,
    x: &Rows<'_, E, N>,
    to: &mut [E::Vector<S>],
) {
    let length = E::vectors::<S>(matrix[0]).len();
    let (matrix, x) = (whole_vectors::<E, S, R>(matrix, length), whole_vectors::<E, S, N>(x, length));
    // Loops over indices: with iterators, the sums do not stay in registers.
    let mut sums = [[E::splat(simd, E::ZERO); N]; R];
    for at in 0..length {
        let mut elements = [sums[0][0]; R];
        for r in 0..R {
            elements[r] = matrix[r][at];
        }
        for n in 0..N {
            let x = x[n][at];
            for r in 0..R {
                sums[r][n] = E::fma(simd, elements[r], x, sums[r][n]);
            }
        }
    }
    for r in 0..R {
        for n in 0..N {
            to[r * N + n] = E::add(simd, to[r * N + n], sums[r][n]);
        }
    }
}

#[inline(always)]
fn whole_vectors<'a, E: Element, S: Simd, const N: usize>(
    rows: &Rows<'a, E, N>,
    length: usize,
) -> [&'a [E::Vector<S>]; N] {
    let mut vectors = [&E::vectors::<S>(rows[0])[..length]; N];
    for (vectors, row) in vectors.iter_mut().zip(rows) {
        *vectors = &E::vectors::<S>(row)[..length];
    }
    vectors
}

/// The sums over the lanes of `sums[h][s]`, as `[s][h]`.
#[inline(always)]
pub(super) fn reduce<E: Element, S: Simd, const N: usize>(simd: S, sums: &[E]) -> Vec<E> {
    let sums = E::vectors::<S>(sums);
    let rows = sums.len() / N;
    let mut totals = vec![E::ZERO; sums.len()];
    for (row, sums) in sums.chunks_exact(N).enumerate() {
        for (sample, &sum) in sums.iter().enumerate() {
            totals[sample * rows + row] = E::sum(simd, sum);
        }
    }
    totals
}

/// `matrix[h] · x[s]` as `[s][h]`, in tiles of `W` rows of the matrix, or `WIDE` where there are registers enough.
struct Dot<'a, E, const N: usize, const W: usize, const WIDE: usize> {
    matrix: Matrix<'a, E>,
    x: Rows<'a, E, N>,
}

impl<E: Element, const N: usize, const W: usize, const WIDE: usize> WithSimd for Dot<'_, E, N, W, WIDE> {
    type Output = Vec<E>;
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<E> {
        let mut sums = vec![E::ZERO; self.matrix.rows * N * E::lanes::<S>()];
        for start in (0..self.x[0].len()).step_by(BLOCK) {
            let (matrix, mut x) = (self.matrix.columns_from(start), self.x);
            for row in &mut x {
                *row = &row[start..row.len().min(start + BLOCK)];
            }
            if S::REGISTER_COUNT >= 32 {
                dot::<E, S, N, WIDE>(simd, &matrix, &x, &mut sums);
            } else {
                dot::<E, S, N, W>(simd, &matrix, &x, &mut sums);
            }
        }
        reduce::<E, S, N>(simd, &sums)
    }
}

/// Rows that are multiplied with a matrix, and where the products `[row][matrix row]` go.
pub(super) struct Products<'a, E> {
    pub(super) rows: Matrix<'a, E>,
    pub(super) to: &'a mut [E],
}

/// The products of a matrix with rows of `columns` numbers.
pub(super) fn multiply<E: Element>(matrix: Matrix<'_, E>, columns: usize, products: Vec<Products<'_, E>>) {
    let together = |Products { rows, to }| {
        let to: &mut [E] = to;
        let groups = to.chunks_mut(GROUP * matrix.rows).enumerate();
        groups.map(move |(group, to)| (rows, group * GROUP, to)).collect::<Vec<_>>()
    };
    let work: Vec<_> = products.into_iter().flat_map(together).collect();
    work.into_par_iter().for_each(|(rows, first, to)| {
        let sums = for_each_piece(pieces(columns).collect(), |columns: Range<usize>| {
            let matrix = matrix.columns_from(columns.start);
            match to.len() / matrix.rows {
                1 => dot_rows::<E, 1, 8, 16>(matrix, rows, first, columns),
                2 => dot_rows::<E, 2, 4, 8>(matrix, rows, first, columns),
                3 => dot_rows::<E, 3, 4, 6>(matrix, rows, first, columns),
                4 => dot_rows::<E, 4, 3, 5>(matrix, rows, first, columns),
                _ => dot_rows::<E, 5, 2, 4>(matrix, rows, first, columns),
            }
        });
        to.fill(E::ZERO);
        sums.iter().for_each(|sums| add(sums, to));
    });
}

/// The products of a matrix with `N` rows from row `first` on, over some columns.
fn dot_rows<E: Element, const N: usize, const W: usize, const WIDE: usize>(
    matrix: Matrix<'_, E>,
    rows: Matrix<'_, E>,
    first: usize,
    columns: Range<usize>,
) -> Vec<E> {
    let x = std::array::from_fn(|row| rows.row(first + row, columns.clone()));
    InstructionSet::Detect.dispatch(Dot::<E, N, W, WIDE> { matrix, x })
}

/// Columns of a piece of work for a thread: with fewer, waking it takes longer than the work.
pub(super) const PIECE: usize = 85 * BLOCK;

/// The pieces of the moving weights, which do not depend on the number of threads.
pub(super) fn pieces(moving: usize) -> impl Iterator<Item = Range<usize>> {
    (0..moving).step_by(PIECE).map(move |start| start..moving.min(start + PIECE))
}

/// The results of all pieces, in order; a single one does not disturb other threads.
pub(super) fn for_each_piece<T: Send, R: Send>(pieces: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    if pieces.len() == 1 {
        return pieces.into_iter().map(work).collect();
    }
    pieces.into_par_iter().with_max_len(1).map(&work).collect()
}
