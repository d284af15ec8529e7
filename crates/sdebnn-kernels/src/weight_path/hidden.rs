//! The hidden layers of `NN_φ`, small enough to leave the other threads alone.

use pulp::{Scalar, Simd};

use super::{
    columns::{Matrix, dot, reduce},
    layout::Layout,
};
use crate::{
    activation::{self, Activation, Function, WithFunction},
    element::Element,
};

/// The hidden layers of a sample at `time`, from the products of the first layer with the weights, in `values`, which is used up.
/// `activations` receives each layer, with a 1 after the last.
#[inline(always)]
pub(super) fn activate<E: Element, S: Simd>(
    simd: S,
    layout: &Layout,
    phi: &[E],
    time: E,
    values: &mut Vec<E>,
    activations: &mut [&mut [E]],
) {
    add(&phi[layout.biases(0)], values);
    if layout.time_inputs() == 1 {
        let weights = phi[layout.weights(0)].iter().step_by(layout.inputs(0));
        for (value, &weight) in values.iter_mut().zip(weights) {
            *value = fma(weight, time, *value);
        }
    }
    for (layer, to) in activations.iter_mut().enumerate() {
        if layer > 0 {
            let matrix = layout.inner_matrix(phi, layer);
            let mut sums = vec![E::ZERO; matrix.rows * E::lanes::<S>()];
            dot::<E, S, 1, 8>(simd, &matrix, &[&*values], &mut sums);
            *values = reduce::<E, S, 1>(simd, &sums);
            add(&phi[layout.biases(layer)], values);
        }
        let body = values.len() - values.len() % E::lanes::<S>();
        let (whole, rest) = values.split_at_mut(body);
        activation::dispatch::<E, _>(Activation::Tanh, InPlace::<E, S>(simd, whole));
        activation::dispatch::<E, _>(Activation::Tanh, InPlace::<E, Scalar>(Scalar::new(), rest));
        let (to, one) = to.split_at_mut(values.len());
        to.copy_from_slice(values);
        one.fill(E::ONE);
    }
}

/// The gradients of what goes into the tanh of each hidden layer of a sample, from that of the last one's activations, in `gradient`,
/// which is used up.
#[inline(always)]
pub(super) fn differentiate<E: Element>(
    layout: &Layout,
    phi: &[E],
    activations: &[&[E]],
    gradient: &mut Vec<E>,
    gradients: &mut [&mut [E]],
) {
    for (layer, to) in gradients.iter_mut().enumerate().rev() {
        for ((&value, &gradient), to) in activations[layer].iter().zip(&*gradient).zip(to.iter_mut()) {
            // (1 - a²) g
            *to = fma(value, negative_product(value, gradient), gradient);
        }
        if layer > 0 {
            let matrix = layout.inner_matrix(phi, layer);
            *gradient = vec![E::ZERO; matrix.stride];
            add_combination(matrix.elements, to, gradient);
        }
    }
}

impl Layout {
    /// The weights of a layer between two hidden ones.
    fn inner_matrix<'a, E>(&self, phi: &'a [E], layer: usize) -> Matrix<'a, E> {
        Matrix::new(&phi[self.weights(layer)], self.inputs(layer))
    }
}

struct InPlace<'a, E: Element, S: Simd>(S, &'a mut [E]);

impl<E: Element, S: Simd> WithFunction<E> for InPlace<'_, E, S> {
    type Output = ();
    #[inline(always)]
    fn with_function<F: Function<E>>(self, function: F) {
        for value in E::vectors_mut::<S>(self.1) {
            *value = function.value(self.0, *value);
        }
    }
}

/// Numbers of a row that are summed in registers.
const SUMMED: usize = 32;

/// `to += Σ_k coefficients[k] rows[k]`, with rows as long as `to`.
#[inline(always)]
pub(super) fn add_combination<E: Element>(rows: &[E], coefficients: &[E], to: &mut [E]) {
    let stride = to.len();
    let (whole, rest) = to.as_chunks_mut::<SUMMED>();
    let first = SUMMED * whole.len();
    for (index, to) in whole.iter_mut().enumerate() {
        let mut sums = *to;
        for (row, &coefficient) in rows.chunks_exact(stride).zip(coefficients) {
            let row = &row[SUMMED * index..SUMMED * (index + 1)];
            for (sum, &element) in sums.iter_mut().zip(row) {
                *sum = fma(element, coefficient, *sum);
            }
        }
        *to = sums;
    }
    for (row, &coefficient) in rows.chunks_exact(stride).zip(coefficients) {
        for (to, &element) in rest.iter_mut().zip(&row[first..]) {
            *to = fma(element, coefficient, *to);
        }
    }
}

/// `to += from`
pub(super) fn add<E: Element>(from: &[E], to: &mut [E]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

#[inline(always)]
fn scalar<E: Element>(value: E) -> E::Vector<Scalar> {
    E::splat(Scalar::new(), value)
}

/// `a b + c`
#[inline(always)]
pub(super) fn fma<E: Element>(a: E, b: E, c: E) -> E {
    E::sum(Scalar::new(), E::fma(Scalar::new(), scalar(a), scalar(b), scalar(c)))
}

/// `-a b`
#[inline(always)]
fn negative_product<E: Element>(a: E, b: E) -> E {
    let product = E::mul(Scalar::new(), scalar(a), scalar(b));
    E::sum(Scalar::new(), E::sub(Scalar::new(), scalar(E::ZERO), product))
}
