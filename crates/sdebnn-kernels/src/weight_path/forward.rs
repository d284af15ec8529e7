//! A group of samples carried along the grid.

use std::ops::Range;

use pulp::{Scalar, Simd, WithSimd};
use rayon::prelude::*;

use super::{
    WeightPathProblem,
    columns::{BLOCK, Dot, Matrix, Rows, RowsMut, combine, cut, dot, foresee, load, load_row, reduce, rows, store_row},
    hidden::{Activate, add},
};
use crate::{element::Element, instructions::InstructionSet};

/// Columns of a piece of work for a thread: with fewer, waking it takes longer than the work.
const PIECE: usize = 85 * BLOCK;

/// What all groups of a call share.
pub(super) struct Call<'a, E> {
    pub(super) problem: &'a WeightPathProblem,
    pub(super) phi: &'a [E],
    /// The columns of the first layer's weights that belong to moving weights.
    pub(super) input: Matrix<'a, E>,
    /// The weights of the last layer, transposed; no rows if there are no hidden layers.
    pub(super) output: Matrix<'a, E>,
}

/// What a group of samples writes.
pub(super) struct Group<'a, E> {
    /// For each evaluation, and the end, `[N][M]`.
    pub(super) weights: Vec<&'a mut [E]>,
    /// For each hidden layer and evaluation `[N][width]`.
    pub(super) activations: Vec<Vec<&'a mut [E]>>,
    /// `[N]`
    pub(super) kl: &'a mut [E],
}

impl<'a, E: Element> Call<'a, E> {
    /// What the products with the last hidden layer are added to: the biases, or, without hidden layers, all of the output.
    pub(super) fn output_base<'b, const N: usize>(&self, outputs: &'b [E], columns: Range<usize>) -> Rows<'b, E, N>
    where
        'a: 'b,
    {
        let layout = &self.problem.layout;
        match layout.hidden_layers() {
            0 => rows(outputs, columns),
            hidden => [&self.phi[layout.biases(hidden)][columns]; N],
        }
    }

    /// Carries `N` samples, in tiles of `W` vectors, from `initial` with the Brownian increments that `noise` has for each step, or for each evaluation if
    /// the method tells them apart.
    pub(super) fn forward<const N: usize, const W: usize>(&self, initial: &[E], noise: &[&[E]], group: Group<'_, E>) {
        let WeightPathProblem { layout, method, grid, sigma, times, .. } = self.problem;
        let Group { mut weights, activations, kl } = group;
        let moving = layout.moving();
        let mut activations: Vec<_> = activations.into_iter().map(Vec::into_iter).collect();
        for row in weights[0].chunks_exact_mut(moving) {
            row.copy_from_slice(initial);
        }
        let pieces: Vec<_> = pieces(moving).collect();
        let mut first = total(&pieces, |columns| {
            let x = rows::<E, N>(weights[0], columns.clone());
            InstructionSet::Detect.dispatch(Dot::<E, N, W> { matrix: self.input, x, at: columns.start })
        });
        let mut divergence = [0.0; N];
        let stages = method.stages();
        // Heun's method alone needs an earlier drift at the end of the step.
        let remembers = stages > 1 && method.weight(0) != 0.0;
        let mut remembered = vec![E::ZERO; if remembers { N * moving } else { 0 }];
        for (evaluation, &time) in times.iter().enumerate() {
            let activate = Activate::<E, N, W> {
                layout,
                phi: self.phi,
                time: E::from_f64(time),
                first,
                activations: activations.iter_mut().filter_map(Iterator::next).collect(),
            };
            let hidden = InstructionSet::Detect.dispatch(activate);
            let (step, stage) = (evaluation / stages, evaluation % stages);
            let length = grid[step + 1] - grid[step];
            let (past, next) = weights.split_at_mut(evaluation + 1);
            let (start, current) = (&*past[step * stages], &*past[evaluation]);
            let last = stage + 1 == stages;
            let progress = if last { 1.0 } else { method.node(stage + 1) };
            let weight = method.weight(stage);
            let noise = if method.increments() == 1 { noise[step] } else { noise[evaluation] };
            let input = if evaluation + 1 == times.len() { Matrix::EMPTY } else { self.input };
            let advance = |(columns, next, remember): (Range<usize>, RowsMut<'_, E, N>, Option<RowsMut<'_, E, N>>)| {
                let (start, remember) = match remember {
                    Some(remembered) if last => (remembered.map(|row| &*row), None),
                    remember => (rows(start, columns.clone()), remember),
                };
                InstructionSet::Detect.dispatch(Advance::<E, N, W> {
                    output: self.output,
                    hidden: if layout.hidden_layers() == 0 { &[] } else { &hidden },
                    base: self.output_base(&hidden, columns.clone()),
                    input,
                    start,
                    current: rows(current, columns.clone()),
                    noise: rows(noise, columns.clone()),
                    next,
                    remember,
                    at: columns.start,
                    decay: E::from_f64(self.problem.form.decay()),
                    shift: E::from_f64(self.problem.form.shift()),
                    drift: E::from_f64(length * if last { weight } else { progress }),
                    remembered_drift: E::from_f64(length * weight),
                    diffusion: E::from_f64(progress * sigma),
                    counts: weight != 0.0,
                })
            };
            let remember: Vec<_> = if remembers {
                cut(&mut remembered, PIECE).into_iter().map(Some).collect()
            } else {
                pieces.iter().map(|_| None).collect()
            };
            let next = cut::<E, N>(next[0], PIECE);
            let work: Vec<_> = pieces.iter().cloned().zip(next).zip(remember).map(|((a, b), c)| (a, b, c)).collect();
            let results = for_each_piece(work, advance);
            first = Vec::new();
            let scale = 0.5 * length * weight / (sigma * sigma);
            for (sums, squares) in results {
                accumulate(sums, &mut first);
                for (divergence, square) in divergence.iter_mut().zip(squares) {
                    *divergence += scale * square;
                }
            }
        }
        for (kl, divergence) in kl.iter_mut().zip(divergence) {
            *kl = E::from_f64(divergence);
        }
    }
}

/// The pieces of the moving weights, which do not depend on the number of threads.
pub(super) fn pieces(moving: usize) -> impl Iterator<Item = Range<usize>> {
    (0..moving).step_by(PIECE).map(move |start| start..moving.min(start + PIECE))
}

/// `N` rows cut into those pieces.
pub(super) fn cut_into_pieces<E, const N: usize>(elements: &mut [E]) -> Vec<RowsMut<'_, E, N>> {
    cut(elements, PIECE)
}

/// The results of all pieces, in order; a single one does not disturb other threads.
pub(super) fn for_each_piece<T: Send, R: Send>(pieces: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    if pieces.len() == 1 {
        return pieces.into_iter().map(work).collect();
    }
    pieces.into_par_iter().with_max_len(1).map(&work).collect()
}

/// The sum over all pieces, in their order.
fn total<E: Element>(pieces: &[Range<usize>], work: impl Fn(Range<usize>) -> Vec<E> + Sync) -> Vec<E> {
    let mut sum = Vec::new();
    for_each_piece(pieces.to_vec(), work).into_iter().for_each(|part| accumulate(part, &mut sum));
    sum
}

/// Adds to a sum, which starts empty.
pub(super) fn accumulate<E: Element>(part: Vec<E>, sum: &mut Vec<E>) {
    if sum.is_empty() {
        *sum = part;
    } else {
        add(&part, sum);
    }
}

/// From the hidden layer of one evaluation to the products of the first layer at the next one, in one pass over some columns.
struct Advance<'a, E, const N: usize, const W: usize> {
    output: Matrix<'a, E>,
    hidden: &'a [E],
    base: Rows<'a, E, N>,
    input: Matrix<'a, E>,
    /// What the next weights are counted from.
    start: Rows<'a, E, N>,
    /// The weights of this evaluation.
    current: Rows<'a, E, N>,
    noise: Rows<'a, E, N>,
    next: RowsMut<'a, E, N>,
    /// Receives `start + remembered_drift · f`.
    remember: Option<RowsMut<'a, E, N>>,
    /// First column.
    at: usize,
    /// `f = NN + decay · w`
    decay: E,
    /// `σ u = NN + shift · w`
    shift: E,
    drift: E,
    remembered_drift: E,
    diffusion: E,
    /// Whether this evaluation enters the KL divergence.
    counts: bool,
}

impl<E: Element, const N: usize, const W: usize> WithSimd for Advance<'_, E, N, W> {
    /// Products of the first layer `[N][outputs]`, and `‖σ u‖²`.
    type Output = (Vec<E>, [f64; N]);

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) -> Self::Output {
        let (lanes, length) = (E::lanes::<S>(), self.next[0].len());
        let mut total = [0.0; N];
        let mut sums = vec![E::ZERO; self.input.rows * N * lanes];
        for start in (0..length).step_by(BLOCK) {
            let (mut at, end) = (start, length.min(start + BLOCK));
            let (output, input) = (self.output.block(self.at + start), self.input.block(self.at + start));
            let mut squares = [E::splat(simd, E::ZERO); N];
            let mut rest = [E::splat(Scalar::new(), E::ZERO); N];
            while at + W * lanes <= end {
                self.tile::<S, W>(simd, &output, start, at, &mut squares);
                at += W * lanes;
            }
            while at + lanes <= end {
                self.tile::<S, 1>(simd, &output, start, at, &mut squares);
                at += lanes;
            }
            while at < end {
                self.tile::<Scalar, 1>(Scalar::new(), &output, start, at, &mut rest);
                at += 1;
            }
            for ((total, square), rest) in total.iter_mut().zip(squares).zip(rest) {
                *total += E::sum(simd, square).to_f64() + E::sum(Scalar::new(), rest).to_f64();
            }
            let next = self.next.each_ref().map(|row| &row[start..end]);
            dot::<E, S, N, W>(simd, &input, &next, &mut sums);
        }
        (reduce::<E, S, N>(simd, &sums), total)
    }
}

impl<E: Element, const N: usize, const W: usize> Advance<'_, E, N, W> {
    #[inline(always)]
    fn tile<S: Simd, const V: usize>(
        &mut self,
        simd: S,
        output: &Matrix<'_, E>,
        start: usize,
        at: usize,
        squares: &mut [E::Vector<S>; N],
    ) {
        let splat = |value| E::splat(simd, value);
        for rows in [&self.start, &self.current, &self.noise] {
            foresee::<E, S, N, V>(rows, at);
        }
        foresee::<E, S, N, V>(&self.next, at);
        let base = load::<E, S, N, V>(&self.base, at);
        let network = combine::<E, S, N, V>(simd, output, self.hidden, at - start, base);
        for (sample, network) in network.into_iter().enumerate() {
            let start = load_row::<E, S, V>(self.start[sample], at);
            let current = load_row::<E, S, V>(self.current[sample], at);
            let noise = load_row::<E, S, V>(self.noise[sample], at);
            let (mut slope, mut next) = (network, start);
            for place in 0..V {
                if self.counts {
                    let u = E::fma(simd, splat(self.shift), current[place], network[place]);
                    squares[sample] = E::fma(simd, u, u, squares[sample]);
                }
                slope[place] = E::fma(simd, splat(self.decay), current[place], network[place]);
                let moved = E::fma(simd, splat(self.drift), slope[place], start[place]);
                next[place] = E::fma(simd, splat(self.diffusion), noise[place], moved);
            }
            store_row::<E, S, V>(next, self.next[sample], at);
            if let Some(rows) = &mut self.remember {
                let mut remember = start;
                for (remember, slope) in remember.iter_mut().zip(slope) {
                    *remember = E::fma(simd, splat(self.remembered_drift), slope, *remember);
                }
                store_row::<E, S, V>(remember, rows[sample], at);
            }
        }
    }
}
