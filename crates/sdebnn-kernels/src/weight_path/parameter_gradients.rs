//! The gradients of each kind of layer of `NN_φ`, from those of its outputs at many evaluations and samples.

use rayon::prelude::*;

use super::{WeightPathProblem, hidden::add, layout::Layout, outer_products::OuterProducts};
use crate::{element::Element, instructions::InstructionSet};

/// Columns that a thread computes together, at most.
const LARGEST_PIECE: usize = 4096;

/// Pieces there should be if columns suffice.
const PIECES: usize = 8;

/// The pieces have whole tiles for all instruction sets.
const WHOLE_TILES: usize = 64;

fn piece(moving: usize) -> usize {
    moving.div_ceil(PIECES).next_multiple_of(WHOLE_TILES).min(LARGEST_PIECE)
}

/// Adds the gradient of the first layer, given those of its outputs, `[row][outputs]`, and the weights it saw, `[row][M]`. The
/// first row has index `first_row` in `[evaluation][S]`.
pub(super) fn add_first_layer<E: Element>(
    problem: &WeightPathProblem,
    weights: &[E],
    gradients: &[E],
    first_row: usize,
    samples: usize,
    phi: &mut [E],
) {
    let layout = &problem.layout;
    let (outputs, inputs, moving) = (layout.outputs(0), layout.inputs(0), layout.moving());
    gradients.chunks_exact(outputs).for_each(|row| add(row, &mut phi[layout.biases(0)]));
    let width = piece(moving);
    let mut pieces: Vec<Vec<&mut [E]>> = (0..moving).step_by(width).map(|_| Vec::with_capacity(outputs)).collect();
    for (output, row) in phi[layout.weights(0)].chunks_exact_mut(inputs).enumerate() {
        let (time, row) = row.split_at_mut(layout.time_inputs());
        if let [time] = time {
            let column = gradients[output..].iter().step_by(outputs).enumerate();
            let at = |row| problem.times[(first_row + row) / samples];
            *time += E::from_f64(column.map(|(row, gradient)| at(row) * gradient.to_f64()).sum());
        }
        pieces.iter_mut().zip(row.chunks_mut(width)).for_each(|(piece, row)| piece.push(row));
    }
    pieces.into_par_iter().enumerate().with_max_len(1).for_each(|(index, mut rows)| {
        let start = index * width;
        InstructionSet::Detect.dispatch(OuterProducts {
            coefficients: gradients,
            width: outputs,
            x: weights,
            stride: moving,
            columns: start..moving.min(start + width),
            add: |row: usize, at: usize, values: &[E]| add(values, &mut rows[row][at..]),
        });
    });
}

/// Adds the gradient of the last layer to that layer's part of `phi`, given the activations it saw, `[row][inputs + 1]`, and the
/// gradients of its outputs, `[row][M]`.
pub(super) fn add_last_layer<E: Element>(layout: &Layout, activations: &[E], gradients: &[E], phi: &mut [E]) {
    let (layer, moving) = (layout.hidden_layers(), layout.moving());
    let inputs = layout.inputs(layer);
    let width = piece(moving);
    let (weights, biases) = phi.split_at_mut(layout.weights(layer).len());
    let pieces = weights.par_chunks_mut(width * inputs).zip(biases.par_chunks_mut(width));
    pieces.enumerate().with_max_len(1).for_each(|(index, (weights, biases))| {
        let start = index * width;
        InstructionSet::Detect.dispatch(OuterProducts {
            coefficients: activations,
            width: inputs + 1,
            x: gradients,
            stride: moving,
            columns: start..start + biases.len(),
            add: |input: usize, at: usize, values: &[E]| {
                if input == inputs {
                    return add(values, &mut biases[at..]);
                }
                for (to, &value) in weights[at * inputs + input..].iter_mut().step_by(inputs).zip(values) {
                    *to += value;
                }
            },
        });
    });
}

/// Adds the gradient of a layer between two hidden ones, given the activations it saw, `[row][inputs]`, and the gradients of its
/// outputs, `[row][outputs]`.
pub(super) fn add_inner_layer<E: Element>(
    layout: &Layout,
    layer: usize,
    activations: &[E],
    gradients: &[E],
    phi: &mut [E],
) {
    let (inputs, outputs) = (layout.inputs(layer), layout.outputs(layer));
    gradients.chunks_exact(outputs).for_each(|row| add(row, &mut phi[layout.biases(layer)]));
    let weights = &mut phi[layout.weights(layer)];
    InstructionSet::Detect.dispatch(OuterProducts {
        coefficients: gradients,
        width: outputs,
        x: activations,
        stride: inputs,
        columns: 0..inputs,
        add: |output: usize, at: usize, values: &[E]| add(values, &mut weights[output * inputs + at..]),
    });
}
