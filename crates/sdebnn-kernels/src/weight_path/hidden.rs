//! The hidden layers of `NN_φ`, small enough to leave the other threads alone.

use pulp::{Scalar, Simd, WithSimd};

use super::{
    columns::{Matrix, Rows, dot, reduce, rows},
    layout::Layout,
};
use crate::{
    activation::{self, Activation, Function, WithFunction},
    element::Element,
};

/// The hidden layers of `N` samples, from the products of the first layer with the weights.
pub(super) struct Activate<'a, E, const N: usize, const W: usize> {
    pub(super) layout: &'a Layout,
    pub(super) phi: &'a [E],
    pub(super) time: E,
    /// `[N][outputs]` of the first layer, without bias and time.
    pub(super) first: Vec<E>,
    /// For each layer that is kept `[N][width]`: receives the activations, with no hidden layer the outputs.
    pub(super) activations: Vec<&'a mut [E]>,
}

impl<E: Element, const N: usize, const W: usize> WithSimd for Activate<'_, E, N, W> {
    /// The last hidden layer as `[size][N]`; without hidden layers, the outputs of the network as `[N][M]`.
    type Output = Vec<E>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<E> {
        let Self { layout, phi, time, first: mut values, activations } = self;
        let biases = &phi[layout.biases(0)];
        for values in values.chunks_exact_mut(biases.len()) {
            add(biases, values);
            if layout.time_inputs() == 1 {
                let weights = phi[layout.weights(0)].iter().step_by(layout.inputs(0));
                for (value, &weight) in values.iter_mut().zip(weights) {
                    *value = fma(weight, time, *value);
                }
            }
        }
        if layout.hidden_layers() == 0 {
            activations.into_iter().for_each(|to| to.copy_from_slice(&values));
            return values;
        }
        for (layer, to) in activations.into_iter().enumerate() {
            if layer > 0 {
                let (matrix, biases) = (layout.inner_matrix(phi, layer), &phi[layout.biases(layer)]);
                let mut sums = vec![E::ZERO; matrix.rows * N * E::lanes::<S>()];
                dot::<E, S, N, W>(simd, &matrix, &rows(&values, 0..matrix.stride), &mut sums);
                values = reduce::<E, S, N>(simd, &sums);
                values.chunks_exact_mut(biases.len()).for_each(|values| add(biases, values));
            }
            let body = values.len() - values.len() % E::lanes::<S>();
            let (whole, rest) = values.split_at_mut(body);
            activation::dispatch::<E, _>(Activation::Tanh, InPlace::<E, S>(simd, whole));
            activation::dispatch::<E, _>(Activation::Tanh, InPlace::<E, Scalar>(Scalar::new(), rest));
            let size = layout.outputs(layer);
            for (values, to) in values.chunks_exact(size).zip(to.chunks_exact_mut(layout.width(layer))) {
                to[..size].copy_from_slice(values);
                to[size..].fill(E::ONE);
            }
        }
        transpose::<E, N>(&values)
    }
}

/// The gradients of the hidden layers of `N` samples, from those of the last one's activations.
pub(super) struct Differentiate<'a, E> {
    pub(super) layout: &'a Layout,
    pub(super) phi: &'a [E],
    /// For each layer that is kept `[N][width]`.
    pub(super) activations: Vec<&'a [E]>,
    /// `[N][size]` of the last hidden layer.
    pub(super) gradient: Vec<E>,
    /// For each hidden layer `[N][size]`: receives the gradients of what goes into the tanh.
    pub(super) gradients: Vec<&'a mut [E]>,
}

impl<E: Element> WithSimd for Differentiate<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { layout, phi, activations, mut gradient, gradients } = self;
        for (layer, to) in gradients.into_iter().enumerate().rev() {
            let size = layout.outputs(layer);
            let samples = activations[layer].chunks_exact(layout.width(layer)).zip(gradient.chunks_exact(size));
            for ((values, gradient), to) in samples.zip(to.chunks_exact_mut(size)) {
                for ((&value, &gradient), to) in values.iter().zip(gradient).zip(to) {
                    // (1 - a²) g
                    *to = fma(value, negative_product(value, gradient), gradient);
                }
            }
            if layer > 0 {
                let matrix = layout.inner_matrix(phi, layer);
                let mut earlier = vec![E::ZERO; to.len() / size * matrix.stride];
                for (to, gradients) in earlier.chunks_exact_mut(matrix.stride).zip(to.chunks_exact(size)) {
                    for (row, &gradient) in matrix.elements.chunks_exact(matrix.stride).zip(gradients) {
                        for (to, &weight) in to.iter_mut().zip(row) {
                            *to = fma(weight, gradient, *to);
                        }
                    }
                }
                gradient = earlier;
            }
        }
    }
}

impl Layout {
    /// The weights of a layer between two hidden ones.
    fn inner_matrix<'a, E>(&self, phi: &'a [E], layer: usize) -> Matrix<'a, E> {
        Matrix {
            elements: &phi[self.weights(layer)],
            stride: self.inputs(layer),
            rows: self.outputs(layer),
            blocks: false,
        }
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

/// `[N][size]` as `[size][N]`.
pub(super) fn transpose<E: Element, const N: usize>(values: &[E]) -> Vec<E> {
    let rows: Rows<'_, E, N> = rows(values, 0..values.len() / N);
    let mut transposed = vec![E::ZERO; values.len()];
    for (index, to) in transposed.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        *to = rows.map(|row| row[index]);
    }
    transposed
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
fn fma<E: Element>(a: E, b: E, c: E) -> E {
    E::sum(Scalar::new(), E::fma(Scalar::new(), scalar(a), scalar(b), scalar(c)))
}

/// `-a b`
#[inline(always)]
fn negative_product<E: Element>(a: E, b: E) -> E {
    let product = E::mul(Scalar::new(), scalar(a), scalar(b));
    E::sum(Scalar::new(), E::sub(Scalar::new(), scalar(E::ZERO), product))
}
