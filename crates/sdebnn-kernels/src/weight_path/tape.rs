//! The record of a weight path, and the matrices it was made with.

use rayon::prelude::*;

use super::{WeightPathProblem, columns::padded};
use crate::{
    buffer::Buffer,
    element::Element,
    error::{Error, check_length},
};

/// Columns that are transposed together: what is read for them stays in the first-level cache.
const TRANSPOSED: usize = 64;

/// Rows that a thread transposes at a time.
const TRANSPOSED_ROWS: usize = 16;

/// The record of a forward pass, for one backward pass: hidden layers, apart from the weights themselves.
#[derive(Debug)]
pub struct WeightPathTape<E> {
    pub(super) samples: usize,
    /// For each hidden layer `[evaluation][S][width]`.
    pub(super) activations: Vec<Buffer<E>>,
    /// The first layer's weights of the moving weights.
    pub(super) input: Buffer<E>,
    /// The weights of the last layer, transposed, and its biases.
    pub(super) output: Buffer<E>,
    /// `[inputs + 1][outputs]`: the products of the two.
    pub(super) coupling: Vec<E>,
}

impl<E: Element> WeightPathTape<E> {
    /// An empty tape.
    pub(super) fn new(problem: &WeightPathProblem, samples: usize) -> Self {
        let layout = &problem.layout;
        let (stride, first, last) = (padded(layout.moving()), layout.outputs(0), layout.inputs(layout.hidden_layers()));
        Self {
            samples,
            activations: activations(problem, samples),
            input: Buffer::new(first * stride),
            output: Buffer::new((last + 1) * stride),
            coupling: vec![E::ZERO; (last + 1) * first],
        }
    }

    /// A tape to write on that has the matrices of this one.
    pub(super) fn continued(self, problem: &WeightPathProblem, samples: usize) -> Result<Self, Error> {
        let (layout, stride) = (&problem.layout, padded(problem.moving()));
        let (first, last) = (layout.outputs(0), layout.inputs(layout.hidden_layers()));
        check_length("the first layer of an earlier tape", first * stride, self.input.len())?;
        check_length("the last layer of an earlier tape", (last + 1) * stride, self.output.len())?;
        Ok(Self { samples, activations: activations(problem, samples), ..self })
    }

    /// The first layer's weights, and the last layer's, transposed, with its biases, in rows that start on cache lines. The zeros behind
    /// them were there before.
    pub(super) fn pack(&mut self, problem: &WeightPathProblem, phi: &[E]) {
        let (layout, stride) = (&problem.layout, padded(problem.moving()));
        let (moving, last) = (layout.moving(), layout.hidden_layers());
        let from = phi[layout.weights(0)].par_chunks_exact(layout.inputs(0));
        let pack_input = || {
            self.input.par_chunks_exact_mut(stride).zip(from).with_min_len(TRANSPOSED_ROWS).for_each(|(to, from)| {
                to[..moving].copy_from_slice(&from[layout.time_inputs()..]);
            });
        };
        let (weights, inputs) = (&phi[layout.weights(last)], layout.inputs(last));
        let transpose_output = || {
            let (to, biases) = self.output.split_at_mut(inputs * stride);
            biases[..moving].copy_from_slice(&phi[layout.biases(last)]);
            to.par_chunks_mut(TRANSPOSED_ROWS * stride).enumerate().for_each(|(index, to)| {
                for (part, from) in weights.chunks(inputs * TRANSPOSED).enumerate() {
                    for (row, to) in to.chunks_exact_mut(stride).enumerate() {
                        let from = from[index * TRANSPOSED_ROWS + row..].iter().step_by(inputs);
                        to[part * TRANSPOSED..].iter_mut().zip(from).for_each(|(to, &from)| *to = from);
                    }
                }
            });
        };
        rayon::join(pack_input, transpose_output);
    }
}

/// Memory for the hidden layers.
fn activations<E: Element>(problem: &WeightPathProblem, samples: usize) -> Vec<Buffer<E>> {
    let (layout, rows) = (&problem.layout, problem.evaluations() * samples);
    (0..layout.hidden_layers()).map(|layer| Buffer::new(rows * layout.width(layer))).collect()
}
