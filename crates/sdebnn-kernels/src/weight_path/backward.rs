//! Gradients of a sample carried back along the grid.
//!
//! The weights are a sum: what the noise and the initial weights would be without the network, and a combination of the last layer's columns and its biases, whose
//! coefficients move as the weights do, driven by the last hidden layer. So their gradient enters only by its products with those columns, and that of the
//! last layer is made with the coefficients.

use pulp::{Simd, WithSimd};

use super::{
    WeightPathProblem,
    hidden::{add, add_combination, differentiate, fma},
    scheme::{Course, Return},
};
use crate::element::Element;

/// The way of one sample.
pub(super) struct GoBack<'a, E> {
    pub(super) problem: &'a WeightPathProblem,
    pub(super) phi: &'a [E],
    /// `[outputs][inputs + 1]`: products of the first layer with the last one and its biases.
    pub(super) coupling: &'a [E],
    /// For each hidden layer and evaluation.
    pub(super) activations: Vec<Vec<&'a [E]>>,
    /// For each evaluation, and the end: products of the last layer and its biases with the gradient of the weights.
    pub(super) products: Vec<&'a [E]>,
    /// What the KL divergence adds, if its gradient is not zero.
    pub(super) divergence: Option<Divergence<'a, E>>,
    /// For each evaluation, and the end: receives the coefficients of the last layer, its biases and the initial weights in the weights.
    pub(super) coefficients: Vec<&'a mut [E]>,
    /// For each hidden layer and evaluation, receives the gradient of what goes into the tanh.
    pub(super) hidden_gradients: Vec<Vec<&'a mut [E]>>,
    /// For each row of noise, receives the gradient of the first layer's products with it.
    pub(super) noise_gradients: Vec<&'a mut [E]>,
    /// Receives the gradient of the first layer's products with the initial weights.
    pub(super) initial_gradient: &'a mut [E],
}

/// What is needed for the gradient of the KL divergence, `∫ ½‖u‖² dt` with `σ u = NN + a w`.
pub(super) struct Divergence<'a, E> {
    /// Its gradient.
    pub(super) gradient: f64,
    /// `[inputs + 1][inputs + 1]`: products of the last layer and its biases with themselves.
    pub(super) gram: &'a [E],
    /// For each evaluation, their products with the weights; nothing if `a` is zero.
    pub(super) products: Vec<&'a [E]>,
    /// For each evaluation, receives the coefficients that `σ u` has in the gradients of what [`GoBack::coefficients`] lists.
    pub(super) coefficients: Vec<&'a mut [E]>,
}

impl<E: Element> WithSimd for GoBack<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        self.find_coefficients();
        let Self { problem, phi, coupling, activations, products, mut divergence, mut hidden_gradients, .. } = self;
        let (decay, last) = (problem.form.decay(), activations.len() - 1);
        let evaluations = problem.evaluations();
        let mut way = Return::new(products[evaluations].to_vec(), decay);
        let mut first_way = Return::new(vec![E::ZERO; self.initial_gradient.len()], decay);
        self.noise_gradients.iter_mut().for_each(|row| row.fill(E::ZERO));
        let [mut network, mut direct] = [Vec::new(), Vec::new()];
        for evaluation in (0..evaluations).rev() {
            let stage = problem.stage(evaluation);
            way.enter(&stage);
            network.clone_from(&way.slope);
            products[evaluation].clone_into(&mut direct);
            if let Some(divergence) = &mut divergence {
                let part = divergence.part(problem, stage.share, evaluation, activations[last][evaluation]);
                add(&part, &mut network);
                let shift = E::from_f64(problem.form.shift());
                direct.iter_mut().zip(part).for_each(|(direct, part)| *direct = fma(shift, part, *direct));
            }
            let layers: Vec<_> = activations.iter().map(|layer| layer[evaluation]).collect();
            let mut gradients: Vec<_> = hidden_gradients.iter_mut().filter_map(Vec::pop).collect();
            differentiate(&problem.layout, phi, &layers, &mut network, &mut gradients);
            add_combination(coupling, gradients[0], &mut direct);
            way.leave(&direct);
            first_way.enter(&stage);
            first_way.add_noise(&stage, self.noise_gradients[stage.noise]);
            first_way.leave(gradients[0]);
        }
        self.initial_gradient.copy_from_slice(&first_way.finish());
    }
}

impl<E: Element> GoBack<'_, E> {
    /// The coefficients of the last layer's columns, its biases and the initial weights in the weights of every evaluation.
    #[inline(always)]
    fn find_coefficients(&mut self) {
        let Self { problem, activations, coefficients, divergence, .. } = self;
        let last = &activations[activations.len() - 1];
        let width = coefficients[0].len();
        let mut start = vec![E::ZERO; width];
        start[width - 1] = E::ONE;
        let mut course = Course::new(start, problem.form.decay());
        let mut force = vec![E::ZERO; width];
        for (evaluation, hidden) in last.iter().enumerate() {
            let stage = problem.stage(evaluation);
            coefficients[evaluation].copy_from_slice(&course.current);
            force[..width - 1].copy_from_slice(hidden);
            if let Some(divergence) = divergence {
                let scale = E::from_f64(divergence.scale(problem, stage.share));
                let shift = E::from_f64(problem.form.shift());
                let to = divergence.coefficients[evaluation].iter_mut();
                for ((to, &current), &force) in to.zip(&course.current).zip(&force) {
                    *to = fma(shift, current, force);
                    *to *= scale;
                }
            }
            course.advance(&stage, &force, &[]);
        }
        coefficients[last.len()].copy_from_slice(&course.current);
    }
}

impl<E: Element> Divergence<'_, E> {
    /// The gradient of `½‖σ u‖²` at an evaluation that stands for `share` of time.
    #[inline(always)]
    fn scale(&self, problem: &WeightPathProblem, share: f64) -> f64 {
        self.gradient * share / (problem.sigma * problem.sigma)
    }

    /// The products of the last layer and its biases with the gradient of `σ u`.
    #[inline(always)]
    fn part(&self, problem: &WeightPathProblem, share: f64, evaluation: usize, hidden: &[E]) -> Vec<E> {
        let (scale, shift) = (E::from_f64(self.scale(problem, share)), E::from_f64(problem.form.shift()));
        let mut part = vec![E::ZERO; hidden.len()];
        add_combination(self.gram, hidden, &mut part);
        if let Some(products) = self.products.get(evaluation) {
            part.iter_mut().zip(*products).for_each(|(part, &product)| *part = fma(shift, product, *part));
        }
        part.iter_mut().for_each(|part| *part *= scale);
        part
    }
}
