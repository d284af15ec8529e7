//! The gradients of each kind of layer of `NN_φ`, as sums of outer products.

use rayon::prelude::*;

use super::{
    WeightPathProblem,
    hidden::add,
    layout::Layout,
    outer_products::{OuterProducts, Terms},
};
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

/// `Σ_k a[k][i] b[k][j]` as `[i][j]`, for rows of the given widths.
pub(super) fn contract<E: Element>(a: &[E], b: &[E], [width, columns]: [usize; 2]) -> Vec<E> {
    let mut sums = vec![E::ZERO; width * columns];
    InstructionSet::Detect.dispatch(OuterProducts {
        terms: &[Terms { coefficients: a, x: b, stride: columns }],
        width,
        columns: 0..columns,
        put: |at: usize, rows: &[&[E]]| {
            for (to, row) in sums.chunks_exact_mut(columns).zip(rows) {
                to[at..at + row.len()].copy_from_slice(row);
            }
        },
    });
    sums
}

/// Sets the gradient of the first layer: of its weights the sum of `terms`; for the biases there are those of what goes into the tanh,
/// `[evaluation][S][outputs]`.
pub(super) fn put_first_layer<E: Element>(
    problem: &WeightPathProblem,
    terms: &[Terms<'_, E>],
    gradients: &[E],
    samples: usize,
    phi: &mut [E],
) {
    let layout = &problem.layout;
    let (outputs, inputs, moving) = (layout.outputs(0), layout.inputs(0), layout.moving());
    put_sum(gradients, &mut phi[layout.biases(0)]);
    let width = piece(moving);
    let mut pieces: Vec<Vec<&mut [E]>> = (0..moving).step_by(width).map(|_| Vec::with_capacity(outputs)).collect();
    for (output, row) in phi[layout.weights(0)].chunks_exact_mut(inputs).enumerate() {
        let (time, row) = row.split_at_mut(layout.time_inputs());
        if let [time] = time {
            let column = gradients[output..].iter().step_by(outputs).enumerate();
            let at = |row: usize| problem.times[row / samples];
            *time = E::from_f64(column.map(|(row, gradient)| at(row) * gradient.to_f64()).sum());
        }
        pieces.iter_mut().zip(row.chunks_mut(width)).for_each(|(piece, row)| piece.push(row));
    }
    pieces.into_par_iter().enumerate().with_max_len(1).for_each(|(index, mut to)| {
        let start = index * width;
        InstructionSet::Detect.dispatch(OuterProducts {
            terms,
            width: outputs,
            columns: start..moving.min(start + width),
            put: |at: usize, rows: &[&[E]]| {
                for (to, row) in to.iter_mut().zip(rows) {
                    to[at..at + row.len()].copy_from_slice(row);
                }
            },
        });
    });
}

/// Sets the gradients of the last layer, `phi`, and of the initial weights, whose coefficients come last in `terms`.
pub(super) fn put_last_layer<E: Element>(layout: &Layout, terms: &[Terms<'_, E>], phi: &mut [E], initial: &mut [E]) {
    let (layer, moving) = (layout.hidden_layers(), layout.moving());
    let inputs = layout.inputs(layer);
    let width = piece(moving);
    let (weights, biases) = phi.split_at_mut(layout.weights(layer).len());
    let vectors = biases.par_chunks_mut(width).zip(initial.par_chunks_mut(width));
    let pieces = weights.par_chunks_mut(width * inputs).zip(vectors);
    pieces.enumerate().with_max_len(1).for_each(|(index, (weights, (biases, initial)))| {
        let start = index * width;
        InstructionSet::Detect.dispatch(OuterProducts {
            terms,
            width: inputs + 2,
            columns: start..start + biases.len(),
            put: |at: usize, rows: &[&[E]]| {
                let (of_weights, others) = rows.split_at(inputs);
                for (column, to) in weights[at * inputs..].chunks_exact_mut(inputs).take(rows[0].len()).enumerate() {
                    to.iter_mut().zip(of_weights).for_each(|(to, row)| *to = row[column]);
                }
                biases[at..at + others[0].len()].copy_from_slice(others[0]);
                initial[at..at + others[1].len()].copy_from_slice(others[1]);
            },
        });
    });
}

/// Sets the gradient of a layer between two hidden ones, given the activations it saw, `[row][inputs]`, and the gradients of its
/// outputs, `[row][outputs]`.
pub(super) fn put_inner_layer<E: Element>(
    layout: &Layout,
    layer: usize,
    activations: &[E],
    gradients: &[E],
    phi: &mut [E],
) {
    put_sum(gradients, &mut phi[layout.biases(layer)]);
    let sizes = [layout.outputs(layer), layout.inputs(layer)];
    phi[layout.weights(layer)].copy_from_slice(&contract(gradients, activations, sizes));
}

/// Sets `to` to the sum of rows.
fn put_sum<E: Element>(rows: &[E], to: &mut [E]) {
    to.fill(E::ZERO);
    rows.chunks_exact(to.len()).for_each(|row| add(row, to));
}
