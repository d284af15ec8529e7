//! Gradients of a group of samples carried back along the grid.

use std::ops::Range;

use pulp::{Scalar, Simd, WithSimd};

use super::{
    WeightPathProblem,
    columns::{BLOCK, Matrix, Rows, RowsMut, combine, dot, foresee, load, load_row, reduce, rows, store_row},
    forward::{Call, accumulate, cut_into_pieces, for_each_piece, pieces},
    hidden::{Differentiate, transpose},
};
use crate::{element::Element, instructions::InstructionSet};

/// Where a group of `N` samples is on its way back.
///
/// With `k` the drifts and `w` the weights of the stages: a step's end has the gradient `λ`, its last drift `q = b Δt λ`. The
/// gradient of `k` gives that of its `w`, say `p`; then `λ ← λ + p`, and an earlier drift has `q = b Δt λ_old + c Δt p`.
pub(super) struct Adjoint<E> {
    /// `[N][M]`: `λ`.
    pub(super) weights: Vec<E>,
    /// `[N][M]`: `p` without the part that comes through the network.
    pub(super) direct: Vec<E>,
    /// `[outputs][N]`: gradients of the first layer's outputs, which give the other part.
    pub(super) first: Vec<E>,
}

/// What a group of samples reads and writes at one evaluation.
pub(super) struct Evaluation<'a, E> {
    pub(super) index: usize,
    /// `[N][M]`: the weights.
    pub(super) weights: &'a [E],
    /// `[N][M]`: their gradient, apart from that of what follows from them.
    pub(super) weights_gradient: &'a [E],
    /// `[N]`: the gradient of the KL divergence.
    pub(super) kl_gradient: &'a [E],
    /// For each layer that is kept `[N][width]`.
    pub(super) activations: Vec<&'a [E]>,
    /// `[N][M]`: receives the gradient of the network's output.
    pub(super) output_gradient: &'a mut [E],
    /// For each hidden layer `[N][size]`: receives the gradient of what goes into the tanh.
    pub(super) hidden_gradients: Vec<&'a mut [E]>,
}

impl<E: Element> Call<'_, E> {
    /// Takes `adjoint` back across one evaluation.
    pub(super) fn back<const N: usize, const W: usize>(&self, adjoint: &mut Adjoint<E>, evaluation: Evaluation<'_, E>) {
        let WeightPathProblem { layout, method, grid, sigma, form, .. } = self.problem;
        let stages = method.stages();
        let (step, stage) = (evaluation.index / stages, evaluation.index % stages);
        let length = grid[step + 1] - grid[step];
        let from_end = length * method.weight(stage);
        let from_stage = if stage + 1 == stages { from_end } else { length * method.node(stage + 1) };
        let kl: [E; N] =
            std::array::from_fn(|s| E::from_f64(evaluation.kl_gradient[s].to_f64() * from_end / (sigma * sigma)));
        let counts = kl.iter().any(|&kl| kl != E::ZERO);
        let kept = evaluation.activations[evaluation.activations.len() - 1];
        let hidden = if counts && layout.hidden_layers() > 0 { transpose::<E, N>(kept) } else { Vec::new() };
        let retreat = |(columns, [weights, direct, output_gradient]): (Range<usize>, [RowsMut<'_, E, N>; 3])| {
            InstructionSet::Detect.dispatch(Retreat::<E, N, W> {
                input: self.input,
                first: &adjoint.first,
                output: self.output,
                // Without the row of ones.
                hidden: &hidden[..hidden.len().min(self.output.rows * N)],
                base: self.output_base(kept, columns.clone()),
                current: rows(evaluation.weights, columns.clone()),
                current_gradient: rows(evaluation.weights_gradient, columns.clone()),
                weights,
                direct,
                output_gradient,
                at: columns.start,
                decay: E::from_f64(form.decay()),
                shift: E::from_f64(form.shift()),
                from_end: E::from_f64(from_end),
                from_stage: E::from_f64(from_stage),
                kl,
                counts,
            })
        };
        let (weights, direct) = (cut_into_pieces(&mut adjoint.weights), cut_into_pieces(&mut adjoint.direct));
        let output_gradient = cut_into_pieces(evaluation.output_gradient);
        let work = pieces(layout.moving()).zip(weights).zip(direct).zip(output_gradient);
        let work = work.map(|(((columns, a), b), c)| (columns, [a, b, c])).collect();
        let mut gradient = Vec::new();
        for_each_piece(work, retreat).into_iter().for_each(|part| accumulate(part, &mut gradient));
        let mut hidden_gradients = evaluation.hidden_gradients;
        InstructionSet::Detect.dispatch(Differentiate {
            layout,
            phi: self.phi,
            activations: evaluation.activations,
            gradient,
            gradients: hidden_gradients.iter_mut().map(|row| &mut **row).collect(),
        });
        let first = hidden_gradients.into_iter().next().unwrap_or(evaluation.output_gradient);
        adjoint.first = transpose::<E, N>(first);
    }

    /// The gradient of the initial weights, `λ + p`, given that of the first evaluation.
    pub(super) fn finish<const N: usize, const W: usize>(&self, adjoint: &mut Adjoint<E>) {
        let Adjoint { weights, direct, first } = adjoint;
        let work = pieces(self.problem.layout.moving()).zip(cut_into_pieces::<E, N>(weights)).collect();
        for_each_piece(work, |(columns, weights): (Range<usize>, RowsMut<'_, E, N>)| {
            let (at, direct) = (columns.start, rows(direct, columns));
            InstructionSet::Detect.dispatch(Finish::<E, N, W> { input: self.input, first, weights, direct, at });
        });
    }
}

/// From the gradient of one evaluation's first layer to that of the last hidden layer one evaluation earlier, in one pass over
/// some columns. The network's outputs are computed again: that costs less than keeping them.
struct Retreat<'a, E, const N: usize, const W: usize> {
    input: Matrix<'a, E>,
    first: &'a [E],
    output: Matrix<'a, E>,
    hidden: &'a [E],
    base: Rows<'a, E, N>,
    current: Rows<'a, E, N>,
    current_gradient: Rows<'a, E, N>,
    weights: RowsMut<'a, E, N>,
    direct: RowsMut<'a, E, N>,
    output_gradient: RowsMut<'a, E, N>,
    /// First column.
    at: usize,
    /// `f = NN + decay · w`
    decay: E,
    /// `σ u = NN + shift · w`
    shift: E,
    /// `q = from_end · λ + from_stage · p`
    from_end: E,
    from_stage: E,
    /// The gradient of `½‖σ u‖²`.
    kl: [E; N],
    /// Whether any of them is not zero.
    counts: bool,
}

impl<E: Element, const N: usize, const W: usize> WithSimd for Retreat<'_, E, N, W> {
    /// The gradient of the last hidden layer, `[N][size]`.
    type Output = Vec<E>;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) -> Vec<E> {
        let (lanes, length) = (E::lanes::<S>(), self.weights[0].len());
        let mut sums = vec![E::ZERO; self.output.rows * N * lanes];
        for start in (0..length).step_by(BLOCK) {
            let (mut at, end) = (start, length.min(start + BLOCK));
            let (output, input) = (self.output.block(self.at + start), self.input.block(self.at + start));
            while at + W * lanes <= end {
                self.tile::<S, W>(simd, &input, &output, start, at);
                at += W * lanes;
            }
            while at + lanes <= end {
                self.tile::<S, 1>(simd, &input, &output, start, at);
                at += lanes;
            }
            while at < end {
                self.tile::<Scalar, 1>(Scalar::new(), &input, &output, start, at);
                at += 1;
            }
            let gradient = self.output_gradient.each_ref().map(|row| &row[start..end]);
            dot::<E, S, N, W>(simd, &output, &gradient, &mut sums);
        }
        reduce::<E, S, N>(simd, &sums)
    }
}

impl<E: Element, const N: usize, const W: usize> Retreat<'_, E, N, W> {
    #[inline(always)]
    fn tile<S: Simd, const V: usize>(
        &mut self,
        simd: S,
        input: &Matrix<'_, E>,
        output: &Matrix<'_, E>,
        start: usize,
        at: usize,
    ) {
        let splat = |value| E::splat(simd, value);
        for rows in [&self.weights, &self.direct, &self.output_gradient] {
            foresee::<E, S, N, V>(rows, at);
        }
        foresee::<E, S, N, V>(&self.current_gradient, at);
        if self.counts {
            foresee::<E, S, N, V>(&self.current, at);
        }
        let direct = load::<E, S, N, V>(&self.direct, at);
        let stage = combine::<E, S, N, V>(simd, input, self.first, at - start, direct);
        for (sample, stage) in stage.into_iter().enumerate() {
            let mut weights = load_row::<E, S, V>(self.weights[sample], at);
            let mut direct = load_row::<E, S, V>(self.current_gradient[sample], at);
            let mut drift = stage;
            for place in 0..V {
                let from_stage = E::mul(simd, splat(self.from_stage), stage[place]);
                drift[place] = E::fma(simd, splat(self.from_end), weights[place], from_stage);
                weights[place] = E::add(simd, weights[place], stage[place]);
                direct[place] = E::fma(simd, splat(self.decay), drift[place], direct[place]);
            }
            store_row::<E, S, V>(weights, self.weights[sample], at);
            store_row::<E, S, V>(drift, self.output_gradient[sample], at);
            store_row::<E, S, V>(direct, self.direct[sample], at);
        }
        if self.counts {
            self.add_kl::<S, V>(simd, output, start, at);
        }
    }

    /// What the KL divergence adds to the gradients.
    #[inline(always)]
    fn add_kl<S: Simd, const V: usize>(&mut self, simd: S, output: &Matrix<'_, E>, start: usize, at: usize) {
        let base = load::<E, S, N, V>(&self.base, at);
        let network = combine::<E, S, N, V>(simd, output, self.hidden, at - start, base);
        for (sample, network) in network.into_iter().enumerate() {
            let current = load_row::<E, S, V>(self.current[sample], at);
            let mut drift = load_row::<E, S, V>(self.output_gradient[sample], at);
            let mut direct = load_row::<E, S, V>(self.direct[sample], at);
            let (shift, kl) = (E::splat(simd, self.shift), E::splat(simd, self.kl[sample]));
            for place in 0..V {
                let u = E::mul(simd, kl, E::fma(simd, shift, current[place], network[place]));
                drift[place] = E::add(simd, drift[place], u);
                direct[place] = E::fma(simd, shift, u, direct[place]);
            }
            store_row::<E, S, V>(drift, self.output_gradient[sample], at);
            store_row::<E, S, V>(direct, self.direct[sample], at);
        }
    }
}

/// `λ + p` in some columns.
struct Finish<'a, E, const N: usize, const W: usize> {
    input: Matrix<'a, E>,
    first: &'a [E],
    weights: RowsMut<'a, E, N>,
    direct: Rows<'a, E, N>,
    at: usize,
}

impl<E: Element, const N: usize, const W: usize> WithSimd for Finish<'_, E, N, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (lanes, length) = (E::lanes::<S>(), self.weights[0].len());
        for start in (0..length).step_by(BLOCK) {
            let (mut at, end) = (start, length.min(start + BLOCK));
            let input = self.input.block(self.at + start);
            while at + W * lanes <= end {
                self.tile::<S, W>(simd, &input, start, at);
                at += W * lanes;
            }
            while at < end {
                self.tile::<Scalar, 1>(Scalar::new(), &input, start, at);
                at += 1;
            }
        }
    }
}

impl<E: Element, const N: usize, const W: usize> Finish<'_, E, N, W> {
    #[inline(always)]
    fn tile<S: Simd, const V: usize>(&mut self, simd: S, input: &Matrix<'_, E>, start: usize, at: usize) {
        let direct = load::<E, S, N, V>(&self.direct, at);
        let stage = combine::<E, S, N, V>(simd, input, self.first, at - start, direct);
        for (row, mut stage) in self.weights.iter_mut().zip(stage) {
            for (stage, weight) in stage.iter_mut().zip(load_row::<E, S, V>(row, at)) {
                *stage = E::add(simd, *stage, weight);
            }
            store_row::<E, S, V>(stage, row, at);
        }
    }
}
