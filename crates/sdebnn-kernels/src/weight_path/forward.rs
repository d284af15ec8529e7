//! Samples carried along the grid: first what the network sees of them, then all their columns.

use pulp::{Scalar, Simd, WithSimd};

use super::{
    WeightPathProblem,
    columns::{Matrix, Rows, RowsMut, combine, foresee, load_row, store_row},
    hidden::{activate, add_combination},
    scheme::{Course, Stage},
};
use crate::element::Element;

/// Columns that go along the grid together, whole tiles for all instruction sets: what is read of the matrix at every evaluation stays
/// in the first-level cache.
const CHUNK: usize = 128;

/// The hidden layers of a sample at every evaluation.
///
/// The first layer's products with the weights move as the weights do, driven by its products with the last layer and with the noise.
pub(super) struct Follow<'a, E> {
    pub(super) problem: &'a WeightPathProblem,
    pub(super) phi: &'a [E],
    /// `[inputs + 1][outputs]`: products of the first layer with the last one and its biases.
    pub(super) coupling: &'a [E],
    /// Products of the first layer with the initial weights.
    pub(super) initial: &'a [E],
    /// Products of the first layer with each row of noise.
    pub(super) noise: Vec<&'a [E]>,
    /// For each hidden layer and evaluation, receives the activations.
    pub(super) activations: Vec<Vec<&'a mut [E]>>,
    /// Receives the products of the first layer with the weights at the last time.
    pub(super) end: &'a mut [E],
}

impl<E: Element> WithSimd for Follow<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { problem, phi, coupling, initial, noise, activations, end } = self;
        let mut activations: Vec<_> = activations.into_iter().map(Vec::into_iter).collect();
        let mut course = Course::new(initial.to_vec(), problem.form.decay());
        let [mut force, mut values] = [vec![E::ZERO; initial.len()], Vec::new()];
        for (evaluation, &time) in problem.times.iter().enumerate() {
            let mut layers: Vec<_> = activations.iter_mut().filter_map(Iterator::next).collect();
            values.clone_from(&course.current);
            activate(simd, &problem.layout, phi, E::from_f64(time), &mut values, &mut layers);
            let stage = problem.stage(evaluation);
            force.fill(E::ZERO);
            add_combination(coupling, layers[layers.len() - 1], &mut force);
            course.advance(&stage, &force, noise[stage.noise]);
        }
        end.copy_from_slice(&course.current);
    }
}

/// Carries some columns of `N` samples, in tiles of `W` vectors.
pub(super) struct Columns<'a, E, const N: usize, const W: usize> {
    pub(super) problem: &'a WeightPathProblem,
    /// The last layer and its biases, transposed, from the first of the columns on.
    pub(super) output: Matrix<'a, E>,
    /// `[evaluation][rows of output][N]`: the last hidden layer, and ones.
    pub(super) hidden: &'a [E],
    /// Every row of noise.
    pub(super) noise: Vec<Rows<'a, E, N>>,
    /// The weights of each evaluation, the first of which are there, and the end.
    pub(super) weights: Vec<RowsMut<'a, E, N>>,
}

impl<E: Element, const N: usize, const W: usize> WithSimd for Columns<'_, E, N, W> {
    /// These columns' part of the KL divergence.
    type Output = [f64; N];

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) -> [f64; N] {
        let (lanes, length) = (E::lanes::<S>(), self.weights[0][0].len());
        let (problem, evaluations) = (self.problem, self.problem.evaluations());
        let (stages, coefficients) = (problem.method.stages(), self.hidden.len() / evaluations);
        let mut remembered = [[E::ZERO; CHUNK]; N];
        let mut divergence = [0.0; N];
        for start in (0..length).step_by(CHUNK) {
            let end = length.min(start + CHUNK);
            let output = self.output.columns_from(start);
            for (evaluation, hidden) in self.hidden.chunks_exact(coefficients).enumerate() {
                let stage = problem.stage(evaluation);
                let (past, next) = self.weights.split_at_mut(evaluation + 1);
                let mut advance = Advance::<E, N> {
                    output,
                    hidden,
                    start: &past[evaluation / stages * stages],
                    current: &past[evaluation],
                    noise: &self.noise[stage.noise],
                    next: &mut next[0],
                    remembered: &mut remembered,
                    first: start,
                    decay: E::from_f64(problem.form.decay()),
                    shift: E::from_f64(problem.form.shift()),
                    stage,
                };
                let mut squares = [E::splat(simd, E::ZERO); N];
                let mut rest = [E::splat(Scalar::new(), E::ZERO); N];
                let mut at = start;
                while at + W * lanes <= end {
                    advance.tile::<S, W>(simd, at, &mut squares);
                    at += W * lanes;
                }
                while at + lanes <= end {
                    advance.tile::<S, 1>(simd, at, &mut squares);
                    at += lanes;
                }
                while at < end {
                    advance.tile::<Scalar, 1>(Scalar::new(), at, &mut rest);
                    at += 1;
                }
                let scale = 0.5 * stage.share / (problem.sigma * problem.sigma);
                for ((divergence, square), rest) in divergence.iter_mut().zip(squares).zip(rest) {
                    *divergence += scale * (E::sum(simd, square).to_f64() + E::sum(Scalar::new(), rest).to_f64());
                }
            }
        }
        divergence
    }
}

/// From one evaluation to the next.
struct Advance<'a, 'b, E, const N: usize> {
    output: Matrix<'a, E>,
    hidden: &'a [E],
    /// The weights at the start of the step.
    start: &'a RowsMut<'b, E, N>,
    /// The weights of this evaluation.
    current: &'a RowsMut<'b, E, N>,
    noise: &'a Rows<'b, E, N>,
    next: &'a mut RowsMut<'b, E, N>,
    /// The start with the share of an earlier stage.
    remembered: &'a mut [[E; CHUNK]; N],
    /// First column of the output and of what is remembered.
    first: usize,
    /// `f = NN + decay · w`
    decay: E,
    /// `σ u = NN + shift · w`
    shift: E,
    stage: Stage,
}

impl<E: Element, const N: usize> Advance<'_, '_, E, N> {
    #[inline(always)]
    fn tile<S: Simd, const V: usize>(&mut self, simd: S, at: usize, squares: &mut [E::Vector<S>; N]) {
        let Self { output, hidden, start, current, noise, next, remembered, first, decay, shift, stage } = self;
        let splat = |value: f64| E::splat(simd, E::from_f64(value));
        let (decay, shift, place) = (E::splat(simd, *decay), E::splat(simd, *shift), at - *first);
        let (drift, share, diffusion) = (splat(stage.drift), splat(stage.share), splat(stage.diffusion));
        foresee::<E, S, N, V>(noise, at);
        foresee::<E, S, N, V>(next, at);
        let zeros = [[splat(0.0); V]; N];
        let network = combine::<E, S, N, V>(simd, output, hidden, place, zeros);
        for (sample, network) in network.into_iter().enumerate() {
            let start = load_row::<E, S, V>(start[sample], at);
            let current = load_row::<E, S, V>(current[sample], at);
            let noise = load_row::<E, S, V>(noise[sample], at);
            let (mut slope, mut end) = (network, start);
            if stage.remembers && stage.last {
                end = load_row::<E, S, V>(&remembered[sample], place);
            }
            for v in 0..V {
                if stage.share != 0.0 {
                    let u = E::fma(simd, shift, current[v], network[v]);
                    squares[sample] = E::fma(simd, u, u, squares[sample]);
                }
                slope[v] = E::fma(simd, decay, current[v], network[v]);
                end[v] = E::fma(simd, diffusion, noise[v], E::fma(simd, drift, slope[v], end[v]));
            }
            store_row::<E, S, V>(end, next[sample], at);
            if stage.remembers && !stage.last {
                for v in 0..V {
                    slope[v] = E::fma(simd, share, slope[v], start[v]);
                }
                store_row::<E, S, V>(slope, &mut remembered[sample], place);
            }
        }
    }
}
