//! Whole solves of a batch: the public entry points.

mod attempts;

pub use attempts::Attempted;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use rayon::prelude::*;

use crate::{
    buffer::Buffer,
    carry::{Attempt, Call, Carry, CarryBack, Companion, TileAdjoint, TileMemory},
    dynamics::factor,
    element::Element,
    error::{Error, check_length},
    network::{FoldedWeights, Network},
    problem::Problem,
    settings::Settings,
    tape::{Segment, Tape, TapePlan},
    tiling::Tiling,
};

/// What goes into a solve of `samples` weight samples on a batch of `batch` examples.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, E> {
    /// Number `S` of weight samples.
    pub samples: usize,
    /// Number `B` of examples.
    pub batch: usize,
    /// `[evaluation][S][P]`: the parameters at every drift evaluation.
    pub weights: &'a [E],
    /// `[component][S][B][F]`: the state at the first time.
    pub state: &'a [E],
    /// `ξ`, the strength of the residual term.
    pub xi: E,
    /// `[B]`: factors on the vector field of each example.
    pub time_scale: Option<&'a [E]>,
}

/// Gradients of a solve.
#[derive(Debug)]
pub struct Gradients<'a, E> {
    /// `[component][S][B][F]`: of the initial state.
    pub state: &'a mut [E],
    /// `[evaluation][S][P]`: of the weights.
    pub weights: &'a mut [E],
    /// Of `ξ`.
    pub xi: &'a mut E,
}

/// Fewest tiles a wave may have: they are what threads share.
const SMALLEST_WAVE: usize = 8;

/// Evaluations whose weights a thread prepares at a time, at least: fewer are not worth waking one.
const FOLDED_TOGETHER: usize = 8;

/// Solves a [`Problem`] for batches of examples, on the threads of the current rayon pool.
///
/// The result does not depend on the number of threads, to the last bit. Memory is kept between calls.
#[derive(Debug)]
pub struct Solver<E> {
    problem: Problem,
    settings: Settings,
    times: Vec<f64>,
    factors: Vec<f64>,
    lanes: usize,
    pools: Arc<Pools<E>>,
}

/// Memory that calls have finished with. It does not depend on the grid.
#[derive(Debug)]
struct Pools<E> {
    prepared: Mutex<HashMap<usize, Arc<Prepared<E>>>>,
    tapes: Mutex<Vec<Buffer<E>>>,
    partial: Mutex<Vec<Buffer<E>>>,
}

/// A network for one size of tile, with memory that tiles have finished with.
#[derive(Debug)]
pub(crate) struct Prepared<E> {
    pub(crate) network: Network,
    idle: Mutex<Vec<TileMemory<E>>>,
    /// Memory for the weights of a call.
    pub(crate) folded: Mutex<Vec<FoldedWeights<E>>>,
}

/// A panic elsewhere cannot leave pooled memory in a state that matters: it is overwritten before it is read.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of a given length, from the pool if it has any: fresh memory costs a page fault every 4 KiB.
pub(crate) fn take<E: Element>(pool: &Mutex<Vec<Buffer<E>>>, length: usize) -> Buffer<E> {
    let mut pool = lock(pool);
    let found = pool.iter().position(|memory| memory.len() == length);
    let pooled = found.map(|index| pool.swap_remove(index));
    drop(pool);
    pooled.unwrap_or_else(|| Buffer::new(length))
}

/// Ranges of at most `most` steps, each of one of the segments (with its index), in order.
fn pieces<E>(segments: &[Segment<E>], most: usize) -> Vec<(usize, std::ops::Range<usize>)> {
    let of_segment = |(index, segment): (usize, &Segment<E>)| {
        let steps = segment.plan.steps;
        (0..steps).step_by(most).map(move |start| (index, start..(start + most).min(steps))).collect::<Vec<_>>()
    };
    segments.iter().enumerate().flat_map(of_segment).collect()
}

impl<E: Element> Solver<E> {
    /// A solver with default settings.
    #[must_use]
    pub fn new(problem: Problem) -> Self {
        Self::with_settings(problem, Settings::default())
    }

    /// A solver with given settings.
    #[must_use]
    pub fn with_settings(problem: Problem, settings: Settings) -> Self {
        let times = problem.evaluation_times();
        Self {
            factors: times.iter().map(|&t| factor(problem.dynamics(), t)).collect(),
            times,
            lanes: settings.instructions.lanes::<E>(),
            problem,
            settings,
            pools: Arc::new(Pools { prepared: Mutex::default(), tapes: Mutex::default(), partial: Mutex::default() }),
        }
    }

    /// The same with another grid. Both share their memory.
    ///
    /// # Errors
    /// If there can be no solve on the grid.
    pub fn on_grid(&self, grid: Vec<f64>) -> Result<Self, Error> {
        let problem = self.problem.on_grid(grid)?;
        Ok(Self { pools: Arc::clone(&self.pools), ..Self::with_settings(problem, self.settings) })
    }

    /// The problem solved.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// How it works.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Carries the state to the last time: `state` (in the layout of [`Inputs::state`]) receives the result.
    ///
    /// # Errors
    /// If a slice has the wrong length.
    pub fn forward(&self, inputs: &Inputs<'_, E>, state: &mut [E]) -> Result<(), Error> {
        self.run_forward(inputs, state, None, None)
    }

    /// As [`Solver::forward`], and records what [`Solver::backward`] needs.
    ///
    /// # Errors
    /// If a slice has the wrong length.
    pub fn record(&self, inputs: &Inputs<'_, E>, state: &mut [E]) -> Result<Tape<E>, Error> {
        let mut tape = self.tape(inputs, self.settings.tape_budget)?;
        self.run_forward(inputs, state, Some(&mut tape), None)?;
        Ok(tape)
    }

    /// Memory of a tape that is not needed, for the next one.
    pub fn discard(&self, tape: Tape<E>) {
        lock(&self.pools.tapes).extend(tape.segments.into_iter().map(|segment| segment.memory));
    }

    /// An empty tape of at most about `budget` bytes.
    fn tape(&self, inputs: &Inputs<'_, E>, budget: usize) -> Result<Tape<E>, Error> {
        self.check_extents(inputs)?;
        let tiling = self.tiling(inputs);
        let tiles = inputs.samples * tiling.tiles;
        let plan = self.plan(budget, tiles, &self.prepare(&tiling).network);
        let memory = take(&self.pools.tapes, plan.length * tiles);
        let extents = (inputs.samples, inputs.batch);
        Ok(Tape { segments: vec![Segment { plan, memory }], extents, folded: Vec::new() })
    }

    /// Given the gradient of a scalar with respect to the final state, its gradients with respect to initial state, weights
    /// and `ξ`: those of the discrete solve. `inputs` must be those of the recording.
    ///
    /// # Errors
    /// If a slice has the wrong length, or the tape was recorded for another number of samples or examples.
    pub fn backward(
        &self,
        inputs: &Inputs<'_, E>,
        mut tape: Tape<E>,
        final_gradient: &[E],
        gradients: Gradients<'_, E>,
    ) -> Result<(), Error> {
        self.check(inputs)?;
        let state = self.problem.components() * inputs.samples * inputs.batch * self.problem.features();
        check_length("the gradient of the final state", state, final_gradient.len())?;
        check_length("the gradient of the initial state", state, gradients.state.len())?;
        check_length("the gradient of the weights", inputs.weights.len(), gradients.weights.len())?;
        let requested = (inputs.samples, inputs.batch);
        let tiles = inputs.samples * self.tiling(inputs).tiles;
        let fits = |segment: &Segment<E>| segment.memory.len() == tiles * segment.plan.length;
        let steps: usize = tape.segments.iter().map(|segment| segment.plan.steps).sum();
        if tape.extents != requested || steps != self.problem.steps() || !tape.segments.iter().all(fits) {
            return Err(Error::ForeignTape { recorded: tape.extents, requested });
        }
        self.run_backward(inputs, &tape, final_gradient, gradients);
        lock(&self.prepare(&self.tiling(inputs)).folded).push(std::mem::take(&mut tape.folded));
        self.discard(tape);
        Ok(())
    }

    fn check_extents(&self, inputs: &Inputs<'_, E>) -> Result<(), Error> {
        let Inputs { samples, batch, .. } = *inputs;
        if samples == 0 || batch == 0 { Err(Error::Empty { samples, batch }) } else { Ok(()) }
    }

    fn check(&self, inputs: &Inputs<'_, E>) -> Result<(), Error> {
        self.check_extents(inputs)?;
        let (Inputs { samples, batch, .. }, evaluations) = (*inputs, self.times.len());
        check_length("weights", evaluations * samples * self.problem.parameters(), inputs.weights.len())?;
        let state = self.problem.components() * samples * batch * self.problem.features();
        check_length("the initial state", state, inputs.state.len())?;
        inputs.time_scale.map_or(Ok(()), |scale| check_length("the time scale", batch, scale.len()))
    }

    /// What to keep of the solves of so many tiles with a budget in bytes.
    pub(crate) fn plan(&self, budget: usize, tiles: usize, network: &Network) -> TapePlan {
        TapePlan::new::<E>(network, self.lanes, &self.problem, tiles, budget)
    }

    pub(crate) fn tiling(&self, inputs: &Inputs<'_, E>) -> Tiling {
        Tiling::new(self.problem.drift(), inputs.batch, self.lanes)
    }

    pub(crate) fn prepare(&self, tiling: &Tiling) -> Arc<Prepared<E>> {
        let mut prepared = lock(&self.pools.prepared);
        let entry = prepared.entry(tiling.groups).or_insert_with(|| {
            let network = Network::new(self.problem.drift(), tiling.groups, self.lanes * size_of::<E>());
            Arc::new(Prepared { network, idle: Default::default(), folded: Mutex::default() })
        });
        Arc::clone(entry)
    }

    /// Runs `work` with memory for a tile.
    fn with_memory(
        &self,
        prepared: &Prepared<E>,
        tiling: &Tiling,
        backward: bool,
        work: impl FnOnce(&mut TileMemory<E>),
    ) {
        let pooled = {
            let mut idle = lock(&prepared.idle);
            let fits = idle.iter().position(|memory| memory.serves(backward));
            // One that is too small makes room for what takes its place.
            fits.map(|place| idle.swap_remove(place)).or_else(|| idle.pop().and(None))
        };
        let mut memory = pooled.unwrap_or_else(|| {
            let components = self.problem.components();
            TileMemory::new(&prepared.network, self.lanes, tiling.groups, components, backward)
        });
        work(&mut memory);
        lock(&prepared.idle).push(memory);
    }

    /// The weights of a call with time folded in; for the backward pass as well if asked for.
    pub(crate) fn fold(&self, inputs: &Inputs<'_, E>, prepared: &Prepared<E>, backward: bool) -> FoldedWeights<E> {
        let (samples, times, network) = (inputs.samples, &self.times, &prepared.network);
        let mut folded = lock(&prepared.folded).pop().unwrap_or_default();
        folded.resize_with(times.len() * samples, Vec::new);
        let rows = inputs.weights.par_chunks_exact(network.parameters).zip(&mut folded).enumerate();
        rows.with_min_len(FOLDED_TOGETHER).for_each(|(place, (row, folded))| {
            network.fold(times[place / samples], row, backward, folded);
        });
        folded
    }

    pub(crate) fn call<'a>(
        &'a self,
        inputs: &Inputs<'a, E>,
        network: &'a Network,
        folded: &'a FoldedWeights<E>,
    ) -> Call<'a, E> {
        let (weights, samples, xi) = (inputs.weights, inputs.samples, inputs.xi.to_f64());
        let (problem, times, factors) = (&self.problem, &self.times, &self.factors);
        Call { problem, network, times, factors, weights, folded, samples, xi }
    }

    /// The rows of tile `tile` of sample `sample` in each component of a state.
    fn rows<'a>(
        &self,
        inputs: &Inputs<'_, E>,
        tiling: &Tiling,
        sample: usize,
        tile: usize,
        state: &'a [E],
    ) -> Vec<&'a [E]> {
        let features = self.problem.features();
        let examples = tiling.examples(tile);
        let component = |index: usize| {
            let first = (index * inputs.samples + sample) * inputs.batch;
            &state[(first + examples.start) * features..(first + examples.end) * features]
        };
        (0..self.problem.components()).map(component).collect()
    }

    /// The rows of every tile in each component of a state, by sample, then tile.
    fn all_rows_mut<'a>(&self, inputs: &Inputs<'_, E>, tiling: &Tiling, state: &'a mut [E]) -> Vec<Vec<&'a mut [E]>> {
        let features = self.problem.features();
        let mut tiles: Vec<Vec<_>> = (0..inputs.samples * tiling.tiles).map(|_| Vec::new()).collect();
        for component in state.chunks_exact_mut(inputs.samples * inputs.batch * features) {
            let rows = component
                .chunks_exact_mut(inputs.batch * features)
                .flat_map(|sample| sample.chunks_mut(tiling.groups * tiling.lanes * features));
            for (tile, rows) in tiles.iter_mut().zip(rows) {
                tile.push(rows);
            }
        }
        tiles
    }

    fn run_forward(
        &self,
        inputs: &Inputs<'_, E>,
        state: &mut [E],
        mut tape: Option<&mut Tape<E>>,
        other: Option<(Companion, &mut [E])>,
    ) -> Result<(), Error> {
        self.check(inputs)?;
        check_length("the final state", inputs.state.len(), state.len())?;
        let tiling = self.tiling(inputs);
        let prepared = self.prepare(&tiling);
        let folded = self.fold(inputs, &prepared, tape.is_some());
        let call = self.call(inputs, &prepared.network, &folded);
        let elements = tiling.elements();
        let outputs = self.all_rows_mut(inputs, &tiling, state);
        let (plan, tapes): (_, Vec<_>) = match tape.as_mut().and_then(|tape| tape.segments.last_mut()) {
            Some(Segment { plan, memory }) => (Some(&*plan), memory.chunks_exact_mut(plan.length).map(Some).collect()),
            None => (None, outputs.iter().map(|_| None).collect()),
        };
        let (companion, others): (_, Vec<_>) = match other {
            Some((companion, other)) => {
                (Some(companion), self.all_rows_mut(inputs, &tiling, other).into_iter().map(Some).collect())
            }
            None => (None, outputs.iter().map(|_| None).collect()),
        };
        let work = outputs.into_par_iter().zip(tapes).zip(others).enumerate().with_max_len(1);
        work.for_each(|(task, ((outputs, tape), others))| {
            let (sample, tile) = (task / tiling.tiles, task % tiling.tiles);
            self.with_memory(&prepared, &tiling, false, |memory| {
                let rows = self.rows(inputs, &tiling, sample, tile, inputs.state);
                for (rows, to) in rows.into_iter().zip(memory.state.chunks_exact_mut(elements)) {
                    tiling.load(tile, rows, to);
                }
                tiling.load_scale(tile, inputs.time_scale, &mut memory.scale);
                let mut other = Buffer::new(others.as_ref().map_or(0, |_| memory.state.len()));
                let carry = Carry { call: &call, sample, memory, tape: plan.zip(tape), first: None };
                match companion {
                    Some(companion) => {
                        self.settings.instructions.dispatch(Attempt { carry, companion, other: &mut other });
                    }
                    None => self.settings.instructions.dispatch(carry),
                }
                let results = memory.state.chunks_exact(elements).chain(other.chunks_exact(elements));
                for (from, rows) in results.zip(outputs.into_iter().chain(others.into_iter().flatten())) {
                    tiling.store(tile, from, rows);
                }
            });
        });
        match tape {
            Some(tape) => tape.folded = folded,
            None => lock(&prepared.folded).push(folded),
        }
        Ok(())
    }

    fn run_backward(&self, inputs: &Inputs<'_, E>, tape: &Tape<E>, final_gradient: &[E], gradients: Gradients<'_, E>) {
        let tiling = self.tiling(inputs);
        let prepared = self.prepare(&tiling);
        let call = self.call(inputs, &prepared.network, &tape.folded);
        let elements = tiling.elements();
        let (steps, stages) = (self.problem.steps(), self.problem.method().stages());
        let parameters = prepared.network.parameters;
        let per_step = stages * parameters;
        let affordable = (self.settings.gradient_budget / size_of::<E>() / per_step).max(1);
        let tiles = inputs.samples * tiling.tiles;
        let wave = affordable.clamp(SMALLEST_WAVE.min(tiles), tiles);
        let segment = (affordable / wave).clamp(1, steps);
        // The only tile of a sample writes where the gradients go.
        let alone = tiling.tiles == 1;
        let mut partial_memory = take(&self.pools.partial, if alone { 0 } else { wave * segment * per_step });

        if !alone {
            gradients.weights.fill(E::ZERO);
        }
        let mut xi = 0.0;
        let mut outputs = self.all_rows_mut(inputs, &tiling, gradients.state);
        for (index, outputs) in outputs.chunks_mut(wave).enumerate() {
            let first_tile = index * wave;
            let mut adjoints: Vec<_> = (first_tile..first_tile + outputs.len())
                .map(|task| {
                    let mut adjoint = TileAdjoint::new(self.problem.components(), elements);
                    let (sample, tile) = (task / tiling.tiles, task % tiling.tiles);
                    let rows = self.rows(inputs, &tiling, sample, tile, final_gradient);
                    for (rows, to) in rows.into_iter().zip(adjoint.state.chunks_exact_mut(elements)) {
                        tiling.load(tile, rows, to);
                    }
                    adjoint
                })
                .collect();
            for (recorded, range) in pieces(&tape.segments, segment).into_iter().rev() {
                let before = tape.segments[..recorded].iter().map(|segment| segment.plan.steps).sum();
                let recorded = &tape.segments[recorded];
                let evaluations = (before + range.start) * stages..(before + range.end) * stages;
                let row = inputs.samples * parameters;
                let to = &mut gradients.weights[evaluations.start * row..evaluations.end * row];
                let length = range.len() * per_step;
                let rows: Vec<Vec<&mut [E]>> = if alone {
                    let mut samples: Vec<_> = outputs.iter().map(|_| Vec::with_capacity(evaluations.len())).collect();
                    for to in to.chunks_exact_mut(row) {
                        let of_samples = to.chunks_exact_mut(parameters).skip(first_tile);
                        samples.iter_mut().zip(of_samples).for_each(|(rows, row)| rows.push(row));
                    }
                    samples
                } else {
                    let partial = &mut partial_memory[..outputs.len() * length];
                    partial.chunks_exact_mut(length).map(|rows| rows.chunks_exact_mut(parameters).collect()).collect()
                };
                let work = adjoints.par_iter_mut().zip(rows).enumerate();
                work.with_max_len(1).for_each(|(offset, (adjoint, mut weight_gradient))| {
                    let task = first_tile + offset;
                    let (sample, tile) = (task / tiling.tiles, task % tiling.tiles);
                    self.with_memory(&prepared, &tiling, true, |memory| {
                        tiling.load_scale(tile, inputs.time_scale, &mut memory.scale);
                        self.settings.instructions.dispatch(CarryBack {
                            call: &call,
                            sample,
                            steps: range.clone(),
                            before,
                            memory,
                            plan: &recorded.plan,
                            tape: recorded.of_tile(task),
                            adjoint,
                            weight_gradient: &mut weight_gradient,
                            row: None,
                        });
                    });
                });
                if alone {
                    continue;
                }
                let partial = &partial_memory[..outputs.len() * length];
                to.par_chunks_exact_mut(parameters).enumerate().for_each(|(place, to)| {
                    let (evaluation, sample) = (place / inputs.samples, place % inputs.samples);
                    for (offset, partial) in partial.chunks_exact(length).enumerate() {
                        if (first_tile + offset) / tiling.tiles == sample {
                            let from = &partial[evaluation * parameters..(evaluation + 1) * parameters];
                            for (to, &from) in to.iter_mut().zip(from) {
                                *to += from;
                            }
                        }
                    }
                });
            }
            for (offset, (adjoint, rows)) in adjoints.iter().zip(outputs).enumerate() {
                let tile = (first_tile + offset) % tiling.tiles;
                for (from, rows) in adjoint.state.chunks_exact(elements).zip(rows) {
                    tiling.store(tile, from, rows);
                }
                xi += adjoint.xi;
            }
        }
        *gradients.xi = E::from_f64(xi);
        lock(&self.pools.partial).push(partial_memory);
    }
}
