//! Training: the loop that experiments share. A run that is killed at any moment and resumed ends as if it never had been.

mod config;
mod state;
mod task;

pub use config::{EvaluateConfig, FailedSolve, TrainConfig};
pub use task::{Evaluation, MeanNfe, Split, Task};

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use sdebnn::burn::module::Module;
use sdebnn::random::Stream;
use serde_json::{Map, Value};

use crate::checkpoint::{Checkpoint, CheckpointStore};
use crate::error::Error;
use crate::optimiser::{average, norm};
use crate::parameters::Parameters;
use crate::run_directory::{METRICS, RunDirectory, metrics};
use crate::schedule::kl_factor;
use crate::tensorboard::EventFile;
use state::{State, Sums};

/// Who is told how a run goes on.
pub trait TrainObserver {
    /// Training starts at step `step` of `steps`, `per_epoch` an epoch.
    fn started(&mut self, step: u64, steps: u64, per_epoch: u64);
    /// A step was taken; `loss` is the mean of the epoch so far.
    fn step(&mut self, step: u64, loss: f64, nfe_drift: f64);
    /// An epoch is over: its line of `metrics.jsonl`.
    fn epoch(&mut self, epoch: u64, epochs: u64, metrics: &Map<String, Value>);
    /// Something that does not end the run.
    fn warning(&mut self, message: &str);
}

/// How a run is trained.
pub struct Trainer<'a, T: Task> {
    /// What is learned.
    pub task: &'a T,
    /// How.
    pub config: &'a TrainConfig,
    /// Decides the noise.
    pub noise: Stream,
    /// Weight paths for the evaluation after each epoch.
    pub samples: usize,
    /// Where the run is written.
    pub directory: &'a RunDirectory,
    /// Set from outside to end the run after the current step.
    pub stop: &'a AtomicBool,
}

/// How a run ended.
pub enum Outcome<M> {
    /// All epochs are done.
    Finished {
        /// The trained model, with averaged parameters if they were asked for.
        model: M,
        /// The test score after each epoch.
        curve: Vec<f64>,
        /// Seconds of training, evaluation included.
        seconds: f64,
    },
    /// Stopped from outside after this many steps; everything is saved.
    Interrupted {
        /// Steps done.
        step: u64,
        /// Of how many.
        steps: u64,
    },
}

/// The model of a checkpoint as evaluation uses it: with averaged parameters if there are any.
pub fn load_model<M: Module>(model: M, checkpoint: &Checkpoint) -> Result<M, String> {
    let (parameters, _) = Parameters::of(&model);
    let averaged = checkpoint.tensors.iter().any(|tensor| tensor.name.starts_with("ema."));
    Ok(parameters.put(&parameters.read(if averaged { "ema." } else { "model." }, checkpoint)?, model))
}

/// A run in progress.
struct Run {
    store: CheckpointStore,
    events: EventFile,
    rows: Vec<Map<String, Value>>,
    /// Seconds of the run before this process, and when this process took it up.
    before: f64,
    started: Instant,
}

impl Run {
    fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }
}

fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

impl<T: Task> Trainer<'_, T> {
    /// Trains from the last checkpoint of the directory, or from the beginning.
    pub fn run(&self, observer: &mut dyn TrainObserver) -> Result<Outcome<T::Model>, Error> {
        let _lock = self.directory.lock()?;
        let mut model = self.task.model()?;
        let (parameters, values) = Parameters::of(&model);
        let store = CheckpointStore::new(&self.directory.file("checkpoints"))?;
        let ema = self.config.ema > 0.0;
        let mut state = match store.load_last()? {
            None => State::new(values, ema),
            Some((checkpoint, damaged)) => {
                for damaged in damaged {
                    observer.warning(&format!("{damaged}; the checkpoint before it is used"));
                }
                State::from_checkpoint(&checkpoint, &parameters, ema)
                    .map_err(|message| Error::NotARun { path: self.directory.file("checkpoints"), message })?
            }
        };
        let mut run = self.open(store, &state)?;
        let (per_epoch, steps) = (self.task.steps_per_epoch(), self.steps());
        observer.started(state.step, steps, per_epoch);
        let mut batches = self.task.batches(state.step);
        let mut gradients = vec![0.0; parameters.len()];
        model = self.task.remember(parameters.put(&state.values, model), state.first_step);
        loop {
            let due = state.step.is_multiple_of(per_epoch) && state.curve.len() < self.epoch(&state) as usize;
            if due && self.end_of_epoch(&mut state, &mut run, &parameters, &model, observer)?.is_none() {
                return self.interrupted(&state, &run, &parameters);
            }
            if state.step == steps {
                break;
            }
            if self.stop.load(Ordering::Relaxed) {
                return self.interrupted(&state, &run, &parameters);
            }
            let batch = batches.next().expect("batches without end");
            match self.step(batch, &mut state, &parameters, &model, &mut gradients) {
                Err(error @ Error::Solve { .. }) if self.config.failed_solve == FailedSolve::Skip => {
                    observer.warning(&format!("{error}; the batch is skipped"));
                    state.skipped += 1;
                    state.step += 1;
                }
                result => {
                    result?;
                    model = self.task.remember(parameters.put(&state.values, model), state.first_step);
                }
            }
            observer.step(state.step, state.sums.loss / state.sums.steps, state.sums.nfe.nfe_drift / state.sums.steps);
            if state.step.is_multiple_of(self.config.checkpoint_every) && !state.step.is_multiple_of(per_epoch) {
                self.save(&state, &run, &parameters)?;
            }
        }
        let model = parameters.put(state.evaluated(), model);
        Ok(Outcome::Finished { model, seconds: run.seconds(), curve: state.curve })
    }

    /// Steps of the run.
    pub fn steps(&self) -> u64 {
        self.config.epochs * self.task.steps_per_epoch()
    }

    /// Epochs finished.
    fn epoch(&self, state: &State) -> u64 {
        state.step / self.task.steps_per_epoch()
    }

    /// Takes back what metrics and events have of epochs that the checkpoint does not know.
    fn open(&self, store: CheckpointStore, state: &State) -> Result<Run, Error> {
        let path = self.directory.file(METRICS);
        let mut rows = metrics(self.directory.path())?;
        if rows.len() < state.curve.len() {
            let message = format!("has {} epochs, but the checkpoint {}", rows.len(), state.curve.len());
            return Err(Error::NotARun { path, message });
        }
        rows.truncate(state.curve.len());
        self.directory.write_json_lines(METRICS, &rows)?;
        let events = match EventFile::find(self.directory.path())? {
            Some(path) => EventFile::resume(&path, (!rows.is_empty()).then_some(self.epoch_step(rows.len())))?,
            None => EventFile::create(self.directory.path(), unix_time())?,
        };
        let before = rows.last().and_then(|row| row["seconds"].as_f64()).unwrap_or(0.0);
        Ok(Run { store, events, rows, before, started: Instant::now() })
    }

    fn epoch_step(&self, epoch: usize) -> u64 {
        epoch as u64 * self.task.steps_per_epoch()
    }

    fn save(&self, state: &State, run: &Run, parameters: &Parameters) -> Result<(), Error> {
        let regular = |step: u64| {
            step.is_multiple_of(self.config.checkpoint_every) || step.is_multiple_of(self.task.steps_per_epoch())
        };
        run.store.save(&state.checkpoint(parameters), state.step, regular)
    }

    fn interrupted(&self, state: &State, run: &Run, parameters: &Parameters) -> Result<Outcome<T::Model>, Error> {
        self.save(state, run, parameters)?;
        Ok(Outcome::Interrupted { step: state.step, steps: self.steps() })
    }

    fn rate(&self, step: u64) -> f64 {
        self.config.schedule.rate(self.config.learning_rate, step, self.steps(), self.task.steps_per_epoch())
    }

    fn kl_coef(&self, step: u64) -> f64 {
        self.config.kl_coef * kl_factor(self.config.kl_warmup, step, self.task.steps_per_epoch())
    }

    fn step(
        &self,
        batch: T::Batch,
        state: &mut State,
        parameters: &Parameters,
        model: &T::Model,
        gradients: &mut [f32],
    ) -> Result<(), Error> {
        let (step, epoch) = (state.step, self.epoch(state) + 1);
        let noise = self.noise.child(step);
        let kl_coef = self.kl_coef(step);
        let mut now = Sums { steps: 1.0, ..Default::default() };
        gradients.fill(0.0);
        for (part, (share, batch)) in self.task.cut(batch, self.config.accumulate).into_iter().enumerate() {
            let loss = self.task.loss(model, &batch, kl_coef, noise.child(part as u64));
            let loss = loss.map_err(|error| Error::Solve { model: "training", epoch, error })?;
            now.loss += share * loss.total.clone().into_scalar::<f64>();
            now.nll += share * loss.nll.into_scalar::<f64>();
            now.kl += share * loss.kl.into_scalar::<f64>();
            now.nfe.add(share, &loss.nfe, loss.solves);
            state.first_step = loss.first_step;
            if !now.loss.is_finite() {
                return Err(Error::NotFinite { what: "loss", step, epoch });
            }
            parameters.add_gradients(model, loss.total.backward(), share as f32, gradients);
        }
        now.gradient_norm = norm(gradients);
        if !now.gradient_norm.is_finite() {
            return Err(Error::NotFinite { what: "gradient", step, epoch });
        }
        let clip = self.config.clip_norm;
        let factor = if clip > 0.0 && now.gradient_norm > clip { (clip / now.gradient_norm) as f32 } else { 1.0 };
        state.adam.step(self.rate(step), factor, gradients, &mut state.values);
        if let Some(ema) = &mut state.ema {
            // Early on, an average over the steps so far, so that the initial values do not linger.
            average(self.config.ema.min((step + 1) as f64 / (step + 10) as f64), &state.values, ema);
        }
        let sums = state.sums.numbers();
        let now = now.numbers();
        state.sums = Sums::from_numbers(std::array::from_fn(|i| sums[i] + now[i]));
        state.step += 1;
        Ok(())
    }

    /// Evaluates and writes what is known of the epoch; `None` if the run is to stop.
    fn end_of_epoch(
        &self,
        state: &mut State,
        run: &mut Run,
        parameters: &Parameters,
        model: &T::Model,
        observer: &mut dyn TrainObserver,
    ) -> Result<Option<()>, Error> {
        let epoch = self.epoch(state);
        if state.sums.steps == 0.0 {
            return Err(Error::AllSkipped { epoch });
        }
        let model = self.task.remember(parameters.put(state.evaluated(), model.clone()), None);
        let evaluate = |split: Split| {
            let found = self.task.evaluate(&model, split, self.samples, self.stop);
            found.map_err(|error| Error::Solve { model: split.key(), epoch, error })
        };
        let Some(test) = evaluate(Split::Test)? else { return Ok(None) };
        let validation = match self.task.has_validation() {
            true => match evaluate(Split::Validation)? {
                None => return Ok(None),
                found => found,
            },
            false => None,
        };
        state.curve.push(test.score);

        let Sums { steps, loss, nll, kl, gradient_norm, nfe } = state.sums;
        let mut values = vec![
            ("loss".into(), loss / steps),
            ("nll".into(), nll / steps),
            ("kl".into(), kl / steps),
            ("kl_coef".into(), self.kl_coef(state.step - 1)),
            ("learning_rate".into(), self.rate(state.step - 1)),
            ("gradient_norm".into(), gradient_norm / steps),
            ("skipped".into(), state.skipped as f64),
        ];
        values.extend(nfe.values().map(|(key, sum)| (key.into(), sum / steps)));
        let evaluations = [(Split::Test, Some(&test)), (Split::Validation, validation.as_ref())];
        for (split, found) in evaluations.into_iter().filter_map(|(split, found)| Some((split, found?))) {
            let found = found.values.iter().copied().chain(found.nfe.values());
            values.extend(found.map(|(key, value)| (format!("{}_{key}", split.key()), value)));
        }
        if self.task.solves() > 1 {
            let mut add = |key: &str, nfe_drift: f64| values.push((key.into(), nfe_drift * self.task.solves() as f64));
            add("nfe_drift_per_sequence", nfe.nfe_drift / steps);
            add("test_nfe_drift_per_sequence", test.nfe.nfe_drift);
        }
        values.extend(self.task.curve_values(&state.curve).into_iter().map(|(key, value)| (key.into(), value)));
        let mut row = Map::from_iter([("epoch".into(), epoch.into()), ("step".into(), state.step.into())]);
        row.extend(values.iter().map(|(key, value)| (key.clone(), Value::from(*value))));
        row.insert("seconds".into(), run.seconds().into());
        observer.epoch(epoch, self.config.epochs, &row);
        run.rows.push(row);
        // The checkpoint comes last: what it knows, all other files have.
        self.directory.write_json_lines(METRICS, &run.rows)?;
        let scalars: Vec<(&str, f32)> = values.iter().map(|(key, value)| (key.as_str(), *value as f32)).collect();
        run.events.append(unix_time(), state.step, &scalars)?;
        run.events.sync()?;
        (state.sums, state.skipped) = (Sums::default(), 0);
        let score = validation.map_or(test.score, |v| v.score);
        if score > state.best {
            state.best = score;
            run.store.save_best(&state.checkpoint(parameters))?;
        }
        self.save(state, run, parameters)?;
        Ok(Some(()))
    }
}
