//! Whole solves of some samples: the public entry points.

use std::{ops::Range, sync::Mutex};

use rayon::prelude::*;

use super::{
    WeightPathProblem,
    backward::{Divergence, GoBack},
    columns::{Matrix, PIECE, Products, cut, for_each_piece, multiply, padded, pieces, rows},
    forward::{Columns, Follow},
    layout::{deal, groups},
    outer_products::Terms,
    parameter_gradients::{contract, put_first_layer, put_inner_layer, put_last_layer},
    tape::WeightPathTape,
};
use crate::{
    buffer::Buffer,
    element::Element,
    error::{Error, check_length},
    instructions::InstructionSet,
    solver::lock,
};

/// What goes into a solve.
#[derive(Clone, Copy, Debug)]
pub struct WeightPathInputs<'a, E> {
    /// Number `S` of samples.
    pub samples: usize,
    /// `[M]`: the weights at the first time, for all samples, or `[S][M]`, for each.
    pub initial: &'a [E],
    /// `[S][seen]`: what the network sees of them, if they are where another solve ended, to go on with the same bits.
    pub seen: Option<&'a [E]>,
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
    /// `[S][seen]`: what the network sees of the weights at the last time, if that is asked for.
    pub seen: Option<&'a mut [E]>,
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

/// Solves a [`WeightPathProblem`] on the threads of the current rayon pool.
///
/// The result does not depend on the number of threads, to the last bit. Memory is kept between calls.
#[derive(Debug)]
pub struct WeightPathSolver<E> {
    problem: WeightPathProblem,
    tapes: Mutex<Vec<WeightPathTape<E>>>,
}

impl<E: Element> WeightPathSolver<E> {
    /// A solver of `problem`.
    #[must_use]
    pub fn new(problem: WeightPathProblem) -> Self {
        Self { problem, tapes: Mutex::default() }
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
        self.record_with(inputs, outputs, None)
    }

    /// As [`WeightPathSolver::record`], with what an earlier recording prepared of the same network with the same `φ`: its matrices
    /// and their products. A short grid would spend most of its time on them.
    ///
    /// # Errors
    /// If a slice has the wrong length, there are no samples, or the earlier network has other sizes.
    pub fn record_with(
        &self,
        inputs: &WeightPathInputs<'_, E>,
        outputs: WeightPathOutputs<'_, E>,
        earlier: Option<WeightPathTape<E>>,
    ) -> Result<WeightPathTape<E>, Error> {
        let WeightPathInputs { samples, initial, seen, phi, noise } = *inputs;
        let layout = &self.problem.layout;
        let row = samples * layout.moving();
        if samples == 0 {
            return Err(Error::Empty { samples, batch: 1 });
        }
        self.check(inputs)?;
        check_length("the weights at the stages", self.problem.evaluations() * row, outputs.stages.len())?;
        check_length("the final weights", row, outputs.end.len())?;
        check_length("the KL divergence", samples, outputs.kl.len())?;
        if let Some(seen) = &outputs.seen {
            check_length("what is seen of the final weights", samples * self.problem.seen(), seen.len())?;
        }
        let prepared = earlier.is_some();
        let mut tape = match earlier {
            Some(earlier) => earlier.continued(&self.problem, samples)?,
            None => self.tape(samples),
        };
        if !prepared {
            tape.pack(&self.problem, phi);
        }
        let (moving, hidden) = (layout.moving(), layout.outputs(0));
        let [input, output] = [&tape.input, &tape.output].map(|rows| Matrix::padded(rows, padded(moving)));
        let [noise_rows, initial_rows] = [noise, initial].map(|rows| Matrix::new(rows, moving));
        let mut of_noise = vec![E::ZERO; noise_rows.rows * hidden];
        let mut products = vec![Products { rows: noise_rows, to: &mut of_noise }];
        if !prepared {
            products.push(Products { rows: output, to: &mut tape.coupling });
        }
        let mut of_initial = seen.map_or_else(|| vec![E::ZERO; initial_rows.rows * hidden], <[E]>::to_vec);
        if seen.is_none() {
            products.push(Products { rows: initial_rows, to: &mut of_initial });
        }
        multiply(input, moving, products);
        let mut of_end = vec![E::ZERO; samples * hidden];
        let activations = deal_layers(&mut tape.activations, samples, |layer| layout.width(layer));
        let work = activations.into_par_iter().zip(of_end.par_chunks_exact_mut(hidden));
        work.enumerate().for_each(|(sample, (activations, end))| {
            InstructionSet::Detect.dispatch(Follow {
                problem: &self.problem,
                phi,
                coupling: &tape.coupling,
                initial: &of_initial[sample * hidden % of_initial.len()..][..hidden],
                noise: of_noise.chunks_exact(hidden).skip(sample).step_by(samples).collect(),
                activations,
                end,
            });
        });
        if let Some(seen) = outputs.seen {
            seen.copy_from_slice(&of_end);
        }
        let groups = groups(samples);
        let weights = deal(outputs.stages, &groups, samples, moving);
        let ends = deal(outputs.end, &groups, samples, moving);
        let divergences = deal(outputs.kl, &groups, samples, 1);
        let last = &tape.activations[layout.hidden_layers() - 1];
        let work: Vec<_> = groups.into_iter().zip(weights).zip(ends).zip(divergences).collect();
        work.into_par_iter().with_max_len(1).for_each(|(((group, mut weights), end), mut kl)| {
            for (sample, row) in group.clone().zip(weights[0].chunks_exact_mut(moving)) {
                row.copy_from_slice(&initial[sample * moving % initial.len()..][..moving]);
            }
            weights.extend(end);
            let noise = noise.chunks_exact(row).map(|noise| &noise[columns(&group, moving)]).collect();
            let hidden: Vec<_> =
                last.chunks_exact(samples * output.rows).map(|r| &r[columns(&group, output.rows)]).collect();
            let kl = kl.swap_remove(0);
            match group.len() {
                1 => self.carry::<1, 8>(output, &hidden, noise, weights, kl),
                2 => self.carry::<2, 4>(output, &hidden, noise, weights, kl),
                3 => self.carry::<3, 4>(output, &hidden, noise, weights, kl),
                4 => self.carry::<4, 3>(output, &hidden, noise, weights, kl),
                _ => self.carry::<5, 2>(output, &hidden, noise, weights, kl),
            }
        });
        Ok(tape)
    }

    /// Carries `N` samples, in tiles of `W` vectors, given the last hidden layer and ones `[N][inputs + 1]` of every evaluation.
    fn carry<const N: usize, const W: usize>(
        &self,
        output: Matrix<'_, E>,
        hidden: &[&[E]],
        noise: Vec<&[E]>,
        weights: Vec<&mut [E]>,
        kl: &mut [E],
    ) {
        let mut coefficients = Vec::with_capacity(hidden.len() * output.rows * N);
        for hidden in hidden {
            let hidden: [&[E]; N] = rows(hidden, 0..output.rows);
            (0..output.rows).for_each(|row| coefficients.extend(hidden.map(|values| values[row])));
        }
        let mut work: Vec<_> = pieces(self.problem.moving()).map(|columns| (columns, Vec::new())).collect();
        for weights in weights {
            work.iter_mut().zip(cut::<E, N>(weights, PIECE)).for_each(|((_, piece), weights)| piece.push(weights));
        }
        let parts = for_each_piece(work, |(columns, weights)| {
            InstructionSet::Detect.dispatch(Columns::<E, N, W> {
                problem: &self.problem,
                output: output.columns_from(columns.start),
                hidden: &coefficients,
                noise: noise.iter().map(|noise| rows(noise, columns.clone())).collect(),
                weights,
            })
        });
        for (sample, kl) in kl.iter_mut().enumerate() {
            *kl = E::from_f64(parts.iter().map(|part| part[sample]).sum());
        }
    }

    /// Given the gradients of a scalar with respect to what came out, those with respect to what went in: of the discrete solve.
    /// `inputs` must be those of the recording, and `stages` what it wrote.
    ///
    /// # Errors
    /// If a slice has the wrong length.
    pub fn backward(
        &self,
        inputs: &WeightPathInputs<'_, E>,
        stages: &[E],
        tape: WeightPathTape<E>,
        output_gradients: &WeightPathOutputGradients<'_, E>,
        gradients: WeightPathGradients<'_, E>,
    ) -> Result<(), Error> {
        let (problem, layout, samples) = (&self.problem, &self.problem.layout, tape.samples);
        let WeightPathInputs { initial, phi, noise, .. } = *inputs;
        let (moving, evaluations, stride) = (layout.moving(), problem.evaluations(), padded(layout.moving()));
        let row = samples * moving;
        check_length("the samples", samples, inputs.samples)?;
        self.check(inputs)?;
        check_length("the weights at the stages", evaluations * row, stages.len())?;
        check_length("the gradient of the stages", evaluations * row, output_gradients.stages.len())?;
        check_length("the gradient of the final weights", row, output_gradients.end.len())?;
        check_length("the gradient of the KL divergence", samples, output_gradients.kl.len())?;
        check_length("the gradient of the initial weights", moving, gradients.initial.len())?;
        check_length("the gradient of phi", layout.parameters(), gradients.phi.len())?;

        let output = Matrix::padded(&tape.output, stride);
        let (first, inputs, width) = (layout.outputs(0), output.rows, output.rows + 1);
        let counts = output_gradients.kl.iter().any(|&kl| kl != E::ZERO);
        let shifted = counts && problem.form.shift() != 0.0;
        let numbers = |wanted: bool, rows: usize, width: usize| vec![E::ZERO; if wanted { rows * width } else { 0 }];
        let all = evaluations * samples;
        let mut products = numbers(true, all + samples, inputs);
        let (mut gram, mut of_weights) = (numbers(counts, inputs, inputs), numbers(shifted, all, inputs));
        let (of_stages, of_end) = products.split_at_mut(all * inputs);
        let mut wanted = vec![
            Products { rows: Matrix::new(output_gradients.stages, moving), to: of_stages },
            Products { rows: Matrix::new(output_gradients.end, moving), to: of_end },
        ];
        if counts {
            wanted.push(Products { rows: output, to: &mut gram });
        }
        if shifted {
            wanted.push(Products { rows: Matrix::new(stages, moving), to: &mut of_weights });
        }
        multiply(output, moving, wanted);

        let mut coefficients = numbers(true, all + samples, width);
        let mut divergence_coefficients = numbers(counts, all, width);
        let mut noise_gradients = numbers(true, noise.len() / moving, first);
        let mut initial_gradients = numbers(true, samples, first);
        let mut hidden_gradients: Vec<_> =
            (0..layout.hidden_layers()).map(|layer| Buffer::new(all * layout.outputs(layer))).collect();
        let coupling = transpose(&tape.coupling, first);
        let each: Vec<_> = (0..samples).map(|sample| sample..sample + 1).collect();
        let of_samples = deal_layers(&mut hidden_gradients, samples, |layer| layout.outputs(layer))
            .into_iter()
            .zip(deal(&mut coefficients, &each, samples, width))
            .zip(deal(&mut divergence_coefficients, &each, samples, width))
            .zip(deal(&mut noise_gradients, &each, samples, first))
            .zip(initial_gradients.chunks_exact_mut(first))
            .collect::<Vec<_>>();
        of_samples.into_par_iter().enumerate().for_each(
            |(sample, ((((hidden_gradients, coefficients), of_divergence), noise_gradients), initial_gradient))| {
                let kept = tape.activations.iter().enumerate();
                let divergence = counts.then(|| Divergence {
                    gradient: output_gradients.kl[sample].to_f64(),
                    gram: &gram,
                    products: of_sample(&of_weights, inputs, sample, samples),
                    coefficients: of_divergence,
                });
                InstructionSet::Detect.dispatch(GoBack {
                    problem,
                    phi,
                    coupling: &coupling,
                    activations: kept
                        .map(|(layer, kept)| of_sample(kept, layout.width(layer), sample, samples))
                        .collect(),
                    products: of_sample(&products, inputs, sample, samples),
                    divergence,
                    coefficients,
                    hidden_gradients,
                    noise_gradients,
                    initial_gradient,
                });
            },
        );

        // What the first layer's gradients and the coefficients have in common.
        let common = contract(&hidden_gradients[0], &coefficients[..all * width], [first, width]);
        let transposed = transpose(&common, width);
        let mut initial_coefficients = initial_gradients;
        if initial.len() == moving {
            let sum = |output: usize| {
                let mut sum = E::ZERO;
                initial_coefficients[output..].iter().step_by(first).for_each(|&gradient| sum += gradient);
                sum
            };
            initial_coefficients = (0..first).map(sum).collect();
        }
        let (of_stages, of_end) = coefficients.split_at(all * width);
        let first_terms = [
            Terms { coefficients: &noise_gradients, x: noise, stride: moving },
            Terms { coefficients: &initial_coefficients, x: initial, stride: moving },
            Terms { coefficients: &transposed[..inputs * first], x: &tape.output, stride },
        ];
        let mut last_terms = vec![
            Terms { coefficients: of_stages, x: output_gradients.stages, stride: moving },
            Terms { coefficients: of_end, x: output_gradients.end, stride: moving },
            Terms { coefficients: &common, x: &tape.input, stride },
        ];
        let last = layout.hidden_layers();
        let of_network = if counts {
            contract(&tape.activations[last - 1], &divergence_coefficients, [inputs, width])
        } else {
            Vec::new()
        };
        last_terms.push(Terms { coefficients: &of_network, x: &tape.output, stride });
        if shifted {
            let shift = E::from_f64(problem.form.shift());
            divergence_coefficients.iter_mut().for_each(|coefficient| *coefficient *= shift);
            last_terms.push(Terms { coefficients: &divergence_coefficients, x: stages, stride: moving });
        }
        let (before, of_last) = gradients.phi.split_at_mut(layout.weights(last).start);
        rayon::join(
            || put_first_layer(problem, &first_terms, &hidden_gradients[0], samples, before),
            || put_last_layer(layout, &last_terms, of_last, gradients.initial),
        );
        for (layer, gradient) in hidden_gradients.iter().enumerate().skip(1) {
            put_inner_layer(layout, layer, &tape.activations[layer - 1], gradient, gradients.phi);
        }
        lock(&self.tapes).push(tape);
        Ok(())
    }

    fn check(&self, inputs: &WeightPathInputs<'_, E>) -> Result<(), Error> {
        let WeightPathInputs { samples, initial, seen, phi, noise } = *inputs;
        let moving = self.problem.moving();
        let initial_rows = if initial.len() == samples * moving { samples } else { 1 };
        check_length("the initial weights", initial_rows * moving, initial.len())?;
        if let Some(seen) = seen {
            check_length("what is seen of the initial weights", samples * self.problem.seen(), seen.len())?;
        }
        check_length("phi", self.problem.parameters(), phi.len())?;
        let rows = self.problem.steps() * self.problem.method.increments() * samples;
        check_length("the noise", rows * moving, noise.len())
    }

    /// A tape to write on, from the pool if it has one: fresh memory costs a page fault every 4 KiB.
    fn tape(&self, samples: usize) -> WeightPathTape<E> {
        let mut pool = lock(&self.tapes);
        if let Some(index) = pool.iter().position(|tape| tape.samples == samples) {
            return pool.swap_remove(index);
        }
        WeightPathTape::new(&self.problem, samples)
    }
}

/// The elements of some rows.
fn columns(rows: &Range<usize>, width: usize) -> Range<usize> {
    rows.start * width..rows.end * width
}

/// The rows of a sample in `[…][S][width]`.
fn of_sample<E>(rows: &[E], width: usize, sample: usize, samples: usize) -> Vec<&[E]> {
    rows.chunks_exact(width).skip(sample).step_by(samples).collect()
}

/// For each layer `[evaluation][S][width]` as, for each sample, layer and evaluation, its row.
fn deal_layers<E: Element>(
    layers: &mut [Buffer<E>],
    samples: usize,
    width: impl Fn(usize) -> usize,
) -> Vec<Vec<Vec<&mut [E]>>> {
    let each: Vec<_> = (0..samples).map(|sample| sample..sample + 1).collect();
    let mut dealt: Vec<Vec<_>> = each.iter().map(|_| Vec::new()).collect();
    for (layer, rows) in layers.iter_mut().enumerate() {
        let rows = deal(rows, &each, samples, width(layer));
        dealt.iter_mut().zip(rows).for_each(|(sample, rows)| sample.push(rows));
    }
    dealt
}

/// `[…][width]` as `[width][…]`.
fn transpose<E: Element>(rows: &[E], width: usize) -> Vec<E> {
    (0..width).flat_map(|column| rows[column..].iter().step_by(width).copied()).collect()
}
