//! The gate of a squash layer, folded into its parameters, and out of their gradients.
//!
//! `(W y + b) g + d t = (g W) y + (g b + d t)` with `g = sigmoid(a t + c)`, for each output. The vectors lie in the order
//! `b, a, c, d`.

use pulp::{Scalar, Simd, WithSimd};

use crate::{activation::sigmoid, element::Element};

/// `g W` and `g b + d t`.
pub(crate) struct Squash<'a, E> {
    pub(crate) t: E,
    /// `W`, `[output][input]`
    pub(crate) weights: &'a [E],
    /// `b, a, c, d`
    pub(crate) vectors: &'a [E],
    /// Receives `g`.
    pub(crate) gates: &'a mut [E],
    /// Receives `g W`.
    pub(crate) squashed: &'a mut [E],
    /// Receives `g b + d t`.
    pub(crate) bias: &'a mut [E],
}

impl<E: Element> WithSimd for Squash<'_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let outputs = self.gates.len();
        let mut at = 0;
        while at + E::lanes::<S>() <= outputs {
            self.gates::<S>(simd, at);
            at += E::lanes::<S>();
        }
        (at..outputs).for_each(|at| self.gates::<Scalar>(Scalar::new(), at));
        let inputs = self.weights.len() / outputs;
        let rows = self.weights.chunks_exact(inputs).zip(self.squashed.chunks_exact_mut(inputs));
        let whole = inputs - inputs % E::lanes::<S>();
        for ((from, to), &gate) in rows.zip(&*self.gates) {
            let ((from, last), (to, last_to)) = (from.split_at(whole), to.split_at_mut(whole));
            scale::<E, S>(simd, from, gate, to);
            scale::<E, Scalar>(Scalar::new(), last, gate, last_to);
        }
    }
}

impl<E: Element> Squash<'_, E> {
    /// The gates and biases that a vector holds, from output `at` on.
    #[inline(always)]
    fn gates<S: Simd>(&mut self, simd: S, at: usize) {
        let outputs = self.gates.len();
        let part = |part: usize| vector::<E, S>(self.vectors, part * outputs + at);
        let (&b, &a, &c, &d) = (part(0), part(1), part(2), part(3));
        let t = E::splat(simd, self.t);
        let gate = sigmoid::<E, S>(simd, E::fma(simd, a, t, c), 1.0);
        *vector_mut::<E, S>(self.gates, at) = gate;
        *vector_mut::<E, S>(self.bias, at) = E::fma(simd, b, gate, E::mul(simd, d, t));
    }
}

/// The gradients of `W, b, a, c, d` from those of `g W` and `g b + d t`.
pub(crate) struct Unsquash<'a, E> {
    pub(crate) t: E,
    /// `W`
    pub(crate) weights: &'a [E],
    /// `b`
    pub(crate) biases: &'a [E],
    /// `g`
    pub(crate) gates: &'a [E],
    /// The gradient of `g b + d t`.
    pub(crate) bias_gradient: &'a [E],
    /// The gradient of `g W`, which becomes that of `W`.
    pub(crate) weight_gradient: &'a mut [E],
    /// Receives the gradients of `b, a, c, d`.
    pub(crate) vector_gradients: &'a mut [E],
}

impl<E: Element> WithSimd for Unsquash<'_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (outputs, lanes) = (self.gates.len(), E::lanes::<S>());
        let inputs = self.weights.len() / outputs;
        for output in 0..outputs {
            let row = output * inputs..(output + 1) * inputs;
            let (weights, gradient) = (&self.weights[row.clone()], &mut self.weight_gradient[row]);
            let whole = inputs - inputs % lanes;
            let (body, rest) = gradient.split_at_mut(whole);
            let gate = self.gates[output];
            let products = &mut self.vector_gradients[outputs + output];
            *products = E::sum(simd, dot_and_scale::<E, S>(simd, &weights[..whole], body, gate));
            let scalar = Scalar::new();
            *products += E::sum(scalar, dot_and_scale::<E, Scalar>(scalar, &weights[whole..], rest, gate));
        }
        let mut at = 0;
        while at + lanes <= outputs {
            self.vectors::<S>(simd, at);
            at += lanes;
        }
        (at..outputs).for_each(|at| self.vectors::<Scalar>(Scalar::new(), at));
    }
}

impl<E: Element> Unsquash<'_, E> {
    /// The gradients of `b, a, c, d` that a vector holds, from output `at` on. In place of that of `a`, there are the products of
    /// `W` with the gradient of `g W`.
    #[inline(always)]
    fn vectors<S: Simd>(&mut self, simd: S, at: usize) {
        let outputs = self.gates.len();
        let (gate, bias, total) = (
            *vector::<E, S>(self.gates, at),
            *vector::<E, S>(self.biases, at),
            *vector::<E, S>(self.bias_gradient, at),
        );
        let products = vector_mut::<E, S>(self.vector_gradients, outputs + at);
        let gate_gradient = E::fma(simd, total, bias, *products);
        let slope = E::mul(simd, gate, E::sub(simd, E::splat(simd, E::ONE), gate));
        let (t, argument) = (E::splat(simd, self.t), E::mul(simd, gate_gradient, slope));
        let gradients = [E::mul(simd, gate, total), E::mul(simd, t, argument), argument, E::mul(simd, t, total)];
        for (part, gradient) in gradients.into_iter().enumerate() {
            *vector_mut::<E, S>(self.vector_gradients, part * outputs + at) = gradient;
        }
    }
}

/// `to = gate · from`
#[inline(always)]
fn scale<E: Element, S: Simd>(simd: S, from: &[E], gate: E, to: &mut [E]) {
    let gate = E::splat(simd, gate);
    for (to, &from) in E::vectors_mut::<S>(to).iter_mut().zip(E::vectors::<S>(from)) {
        *to = E::mul(simd, gate, from);
    }
}

/// `gradient · weights`, lane by lane; then `gradient ← gate · gradient`.
#[inline(always)]
fn dot_and_scale<E: Element, S: Simd>(simd: S, weights: &[E], gradient: &mut [E], gate: E) -> E::Vector<S> {
    let gate = E::splat(simd, gate);
    let mut sums = E::splat(simd, E::ZERO);
    for (gradient, &weight) in E::vectors_mut::<S>(gradient).iter_mut().zip(E::vectors::<S>(weights)) {
        sums = E::fma(simd, *gradient, weight, sums);
        *gradient = E::mul(simd, gate, *gradient);
    }
    sums
}

/// The vector that begins at element `at`.
#[inline(always)]
fn vector<E: Element, S: Simd>(elements: &[E], at: usize) -> &E::Vector<S> {
    &E::vectors::<S>(&elements[at..at + E::lanes::<S>()])[0]
}

/// As [`vector`], to be written.
#[inline(always)]
fn vector_mut<E: Element, S: Simd>(elements: &mut [E], at: usize) -> &mut E::Vector<S> {
    &mut E::vectors_mut::<S>(&mut elements[at..at + E::lanes::<S>()])[0]
}
