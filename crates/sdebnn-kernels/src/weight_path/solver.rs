//! Whole solves of some samples: the public entry points.

use std::{ops::Range, sync::Mutex};

use rayon::prelude::*;

use super::{
    WeightPathProblem,
    backward::{Adjoint, Evaluation},
    columns::{BLOCK, Matrix},
    forward::{Call, Group},
    hidden::add,
    layout::{Layout, deal, groups},
    parameter_gradients::{add_first_layer, add_inner_layer, add_last_layer},
};
use crate::{
    buffer::Buffer,
    element::Element,
    error::{Error, check_length},
    solver::lock,
};

/// Bytes of output gradients that are held before they go into the gradients of `φ`.
const GRADIENT_MEMORY: usize = 32 << 20;

/// Columns that are transposed together: what is read for them stays in the first-level cache.
const TRANSPOSED: usize = 64;

/// Rows from which on the first layer is put in blocks: fewer are read as fast from where they are.
const PACKED: usize = 4;

/// What goes into a solve.
#[derive(Clone, Copy, Debug)]
pub struct WeightPathInputs<'a, E> {
    /// Number `S` of samples.
    pub samples: usize,
    /// `[M]`: the weights at the first time, for all samples.
    pub initial: &'a [E],
    /// The parameters `φ`.
    pub phi: &'a [E],
    /// `[step][increment][S][M]`: the Brownian increments, [`increments`](crate::Method::increments) a step: `ΔBᵢ` of the stages after the
    /// first if they have their own, then `ΔB`.
    pub noise: &'a [E],
}

/// What comes out of a solve.
#[derive(Debug)]
pub struct WeightPathOutputs<'a, E> {
    /// `[evaluation][S][M]`: the weights at each stage of each step.
    pub stages: &'a mut [E],
    /// `[S][M]`: the weights at the last time.
    pub end: &'a mut [E],
    /// `[S]`: the KL divergence.
    pub kl: &'a mut [E],
}

/// Gradients of a scalar with respect to what came out, in the layouts of [`WeightPathOutputs`].
#[derive(Clone, Copy, Debug)]
pub struct WeightPathOutputGradients<'a, E> {
    /// `[evaluation][S][M]`
    pub stages: &'a [E],
    /// `[S][M]`
    pub end: &'a [E],
    /// `[S]`
    pub kl: &'a [E],
}

/// Gradients with respect to what went in; overwritten.
#[derive(Debug)]
pub struct WeightPathGradients<'a, E> {
    /// `[M]`: of the initial weights, summed over the samples.
    pub initial: &'a mut [E],
    /// Of the parameters `φ`.
    pub phi: &'a mut [E],
}

/// The record of a forward pass, for one backward pass: hidden layers, apart from the weights themselves.
#[derive(Debug)]
pub struct WeightPathTape<E> {
    samples: usize,
    /// For each kept layer `[evaluation][S][width]`.
    activations: Vec<Buffer<E>>,
    /// The first layer's weights of the moving weights, in blocks; empty if they are read where they are.
    input: Buffer<E>,
    /// The weights of the last layer, transposed, in blocks.
    output: Buffer<E>,
}

/// Gradients of layers, for the products that give those of `φ`.
#[derive(Debug)]
struct LayerGradients<E> {
    samples: usize,
    /// `[evaluation][S][M]`, for as many evaluations as are treated together.
    output: Buffer<E>,
    /// For each hidden layer `[evaluation][S][size]`.
    hidden: Vec<Buffer<E>>,
}

/// Solves a [`WeightPathProblem`] on the threads of the current rayon pool.
///
/// The result does not depend on the number of threads, to the last bit. Memory is kept between calls.
#[derive(Debug)]
pub struct WeightPathSolver<E> {
    problem: WeightPathProblem,
    tapes: Mutex<Vec<WeightPathTape<E>>>,
    gradients: Mutex<Vec<LayerGradients<E>>>,
}

/// Calls a method for `$size` samples, with tiles that fill the registers.
macro_rules! for_group {
    ($size:expr, $call:ident.$method:ident($($argument:expr),*)) => {
        match $size {
            1 => $call.$method::<1, 8>($($argument),*),
            2 => $call.$method::<2, 4>($($argument),*),
            3 => $call.$method::<3, 4>($($argument),*),
            4 => $call.$method::<4, 3>($($argument),*),
            _ => $call.$method::<5, 2>($($argument),*),
        }
    };
}

impl<E: Element> WeightPathSolver<E> {
    /// A solver of `problem`.
    #[must_use]
    pub fn new(problem: WeightPathProblem) -> Self {
        Self { problem, tapes: Mutex::default(), gradients: Mutex::default() }
    }

    /// The problem solved.
    #[must_use]
    pub fn problem(&self) -> &WeightPathProblem {
        &self.problem
    }

    /// Carries the weights to the last time.
    ///
    /// # Errors
    /// If a slice has the wrong length, or there are no samples.
    pub fn forward(&self, inputs: &WeightPathInputs<'_, E>, outputs: WeightPathOutputs<'_, E>) -> Result<(), Error> {
        let tape = self.record(inputs, outputs)?;
        lock(&self.tapes).push(tape);
        Ok(())
    }

    /// As [`WeightPathSolver::forward`], and returns what [`WeightPathSolver::backward`] needs.
    ///
    /// # Errors
    /// If a slice has the wrong length, or there are no samples.
    pub fn record(
        &self,
        inputs: &WeightPathInputs<'_, E>,
        outputs: WeightPathOutputs<'_, E>,
    ) -> Result<WeightPathTape<E>, Error> {
        let WeightPathInputs { samples, initial, phi, noise } = *inputs;
        let layout = &self.problem.layout;
        let row = samples * layout.moving();
        if samples == 0 {
            return Err(Error::Empty { samples, batch: 1 });
        }
        check_length("the initial weights", layout.moving(), initial.len())?;
        check_length("phi", layout.parameters(), phi.len())?;
        check_length("the noise", self.problem.steps() * self.problem.method.increments() * row, noise.len())?;
        check_length("the weights at the stages", self.problem.evaluations() * row, outputs.stages.len())?;
        check_length("the final weights", row, outputs.end.len())?;
        check_length("the KL divergence", samples, outputs.kl.len())?;
        let mut tape = self.tape(samples);
        pack_input(layout, phi, &mut tape.input);
        transpose_output(layout, phi, &mut tape.output);
        let groups = groups(samples);
        let mut activations: Vec<Vec<_>> = groups.iter().map(|_| Vec::new()).collect();
        for (layer, kept) in tape.activations.iter_mut().enumerate() {
            let dealt = deal(kept, &groups, samples, layout.width(layer));
            activations.iter_mut().zip(dealt).for_each(|(group, rows)| group.push(rows));
        }
        let weights = deal(outputs.stages, &groups, samples, layout.moving());
        let ends = deal(outputs.end, &groups, samples, layout.moving());
        let divergences = deal(outputs.kl, &groups, samples, 1);
        let call = self.call(phi, &tape.input, &tape.output);
        let outputs = weights.into_iter().zip(ends).zip(divergences).zip(activations);
        let work: Vec<_> = groups.iter().zip(outputs).collect();
        work.into_par_iter().with_max_len(1).for_each(|(group, (((mut weights, end), mut kl), activations))| {
            weights.extend(end);
            let noise: Vec<_> = noise.chunks_exact(row).map(|noise| &noise[columns(group, layout.moving())]).collect();
            let outputs = Group { weights, activations, kl: kl.swap_remove(0) };
            for_group!(group.len(), call.forward(initial, &noise, outputs));
        });
        Ok(tape)
    }

    /// Given the gradients of a scalar with respect to what came out, those with respect to what went in: of the discrete solve.
    /// `phi` must be that of the recording, and `stages` what it wrote.
    ///
    /// # Errors
    /// If a slice has the wrong length.
    pub fn backward(
        &self,
        phi: &[E],
        stages: &[E],
        tape: WeightPathTape<E>,
        output_gradients: &WeightPathOutputGradients<'_, E>,
        gradients: WeightPathGradients<'_, E>,
    ) -> Result<(), Error> {
        let (layout, samples) = (&self.problem.layout, tape.samples);
        let (moving, evaluations) = (layout.moving(), self.problem.evaluations());
        let row = samples * moving;
        check_length("phi", layout.parameters(), phi.len())?;
        check_length("the weights at the stages", evaluations * row, stages.len())?;
        check_length("the gradient of the stages", evaluations * row, output_gradients.stages.len())?;
        check_length("the gradient of the final weights", row, output_gradients.end.len())?;
        check_length("the gradient of the KL divergence", samples, output_gradients.kl.len())?;
        check_length("the gradient of the initial weights", moving, gradients.initial.len())?;
        check_length("the gradient of phi", layout.parameters(), gradients.phi.len())?;
        let groups = groups(samples);
        let call = self.call(phi, &tape.input, &tape.output);
        let mut adjoints: Vec<_> = groups
            .iter()
            .map(|group| Adjoint {
                weights: vec![E::ZERO; group.len() * moving],
                direct: output_gradients.end[columns(group, moving)].to_vec(),
                first: Vec::new(),
            })
            .collect();
        let mut layers = self.layer_gradients(samples);
        let window = layers.output.len() / row;
        gradients.phi.fill(E::ZERO);
        for end in (1..=evaluations).rev().step_by(window) {
            let range = end.saturating_sub(window)..end;
            let outputs = deal(&mut layers.output[..range.len() * row], &groups, samples, moving);
            let mut hidden: Vec<Vec<_>> = groups.iter().map(|_| Vec::new()).collect();
            for (layer, buffer) in layers.hidden.iter_mut().enumerate() {
                let size = layout.outputs(layer);
                let dealt = deal(&mut buffer[columns(&range, samples * size)], &groups, samples, size);
                hidden.iter_mut().zip(dealt).for_each(|(group, rows)| group.push(rows));
            }
            let work: Vec<_> = groups.iter().zip(&mut adjoints).zip(outputs).zip(hidden).collect();
            work.into_par_iter().with_max_len(1).for_each(|(((group, adjoint), mut outputs), mut hidden)| {
                for index in range.clone().rev() {
                    let rows = index * samples + group.start..index * samples + group.end;
                    let place = columns(&rows, moving);
                    let kept = tape.activations.iter().enumerate();
                    let activations = kept.map(|(layer, kept)| &kept[columns(&rows, layout.width(layer))]).collect();
                    let evaluation = Evaluation {
                        index,
                        weights: &stages[place.clone()],
                        weights_gradient: &output_gradients.stages[place],
                        kl_gradient: &output_gradients.kl[group.clone()],
                        activations,
                        output_gradient: outputs.pop().expect("one for each evaluation"),
                        hidden_gradients: hidden.iter_mut().filter_map(Vec::pop).collect(),
                    };
                    for_group!(group.len(), call.back(adjoint, evaluation));
                }
                if range.start == 0 {
                    for_group!(group.len(), call.finish(adjoint));
                }
            });
            let rows = range.start * samples..range.end * samples;
            let first = layers
                .hidden
                .first()
                .map_or(&layers.output[..rows.len() * moving], |first| &first[columns(&rows, layout.outputs(0))]);
            let weights = &stages[columns(&rows, moving)];
            let add_first = |phi: &mut [E]| add_first_layer(&self.problem, weights, first, rows.start, samples, phi);
            match layout.hidden_layers() {
                0 => add_first(gradients.phi),
                last => {
                    let (before, of_last) = gradients.phi.split_at_mut(layout.weights(last).start);
                    let activations = &tape.activations[last - 1][columns(&rows, layout.width(last - 1))];
                    let add_last = || add_last_layer(layout, activations, &layers.output, of_last);
                    rayon::join(|| add_first(before), add_last);
                }
            }
        }
        for (layer, gradient) in layers.hidden.iter().enumerate().skip(1) {
            add_inner_layer(layout, layer, &tape.activations[layer - 1], gradient, gradients.phi);
        }
        gradients.initial.fill(E::ZERO);
        for adjoint in adjoints {
            adjoint.weights.chunks_exact(moving).for_each(|weights| add(weights, gradients.initial));
        }
        lock(&self.tapes).push(tape);
        lock(&self.gradients).push(layers);
        Ok(())
    }

    /// A tape to write on, from the pool if it has one: fresh memory costs a page fault every 4 KiB.
    fn tape(&self, samples: usize) -> WeightPathTape<E> {
        let mut pool = lock(&self.tapes);
        if let Some(index) = pool.iter().position(|tape| tape.samples == samples) {
            return pool.swap_remove(index);
        }
        let layout = &self.problem.layout;
        let rows = self.problem.evaluations() * samples;
        let activations = (0..layout.kept_layers()).map(|layer| Buffer::new(rows * layout.width(layer))).collect();
        let whole = layout.moving().next_multiple_of(BLOCK);
        let input = Buffer::new(if layout.outputs(0) < PACKED { 0 } else { layout.outputs(0) * whole });
        WeightPathTape { samples, activations, input, output: Buffer::new(output_rows(layout) * whole) }
    }

    fn call<'a>(&'a self, phi: &'a [E], input: &'a [E], output: &'a [E]) -> Call<'a, E> {
        let layout = &self.problem.layout;
        let rows = layout.outputs(0);
        let input = if rows < PACKED {
            let elements = &phi[layout.weights(0)][layout.time_inputs()..];
            Matrix { elements, stride: layout.inputs(0), rows, blocks: false }
        } else {
            Matrix::blocks(input, rows)
        };
        Call { problem: &self.problem, phi, input, output: Matrix::blocks(output, output_rows(layout)) }
    }

    fn layer_gradients(&self, samples: usize) -> LayerGradients<E> {
        let layout = &self.problem.layout;
        let (evaluations, row) = (self.problem.evaluations(), samples * layout.moving());
        let length = (GRADIENT_MEMORY / size_of::<E>() / row).clamp(1, evaluations) * row;
        let mut pool = lock(&self.gradients);
        if let Some(index) = pool.iter().position(|gradients| gradients.samples == samples) {
            return pool.swap_remove(index);
        }
        let size = |layer| evaluations * samples * layout.outputs(layer);
        let hidden = (0..layout.hidden_layers()).map(|layer| Buffer::new(size(layer))).collect();
        LayerGradients { samples, output: Buffer::new(length), hidden }
    }
}

/// The elements of some rows.
fn columns(rows: &Range<usize>, width: usize) -> Range<usize> {
    rows.start * width..rows.end * width
}

/// Rows of the transposed last layer.
fn output_rows(layout: &Layout) -> usize {
    if layout.hidden_layers() == 0 { 0 } else { layout.inputs(layout.hidden_layers()) }
}

/// The first layer's weights of the moving weights, block after block.
fn pack_input<E: Element>(layout: &Layout, phi: &[E], to: &mut [E]) {
    let from = &phi[layout.weights(0)];
    for (block, to) in to.chunks_exact_mut(layout.outputs(0) * BLOCK).enumerate() {
        for (from, to) in from.chunks_exact(layout.inputs(0)).zip(to.chunks_exact_mut(BLOCK)) {
            let from = &from[layout.time_inputs() + block * BLOCK..];
            to.iter_mut().zip(from).for_each(|(to, &from)| *to = from);
        }
    }
}

/// The last layer's weights, transposed, block after block.
fn transpose_output<E: Element>(layout: &Layout, phi: &[E], to: &mut [E]) {
    let rows = output_rows(layout);
    let from = &phi[layout.weights(layout.hidden_layers())];
    let block = (rows * BLOCK).max(1);
    for (to, from) in to.chunks_exact_mut(block).zip(from.chunks(block)) {
        for (part, from) in from.chunks(rows * TRANSPOSED).enumerate() {
            for (row, to) in to.chunks_exact_mut(BLOCK).enumerate() {
                let (to, from) = (&mut to[part * TRANSPOSED..], from[row..].iter().step_by(rows));
                to.iter_mut().zip(from).for_each(|(to, &from)| *to = from);
            }
        }
    }
}
