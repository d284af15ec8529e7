//! Batches that are prepared on another thread while the last one is used.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::augment::{Augmentation, fill_batch};
use crate::{Images, Normalisation, order};

/// Batches that are ready before they are asked for.
const PREFETCH: usize = 2;

/// Which batches a run has. They are a pure function of this and of the images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The seed of order and augmentation.
    pub seed: u64,
    /// Images in a batch; the last one of an epoch has what is left.
    pub batch_size: usize,
    /// The number of epochs, which are counted from 0.
    pub epochs: u64,
    /// Whether each epoch has its own order, or that of the images.
    pub shuffle: bool,
    /// Whether images are cropped and flipped.
    pub augment: bool,
}

/// A place among the batches of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The batch of this epoch, from 0.
    pub batch: usize,
}

/// Images that are used together.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Where it is in the run.
    pub position: Position,
    /// Which images it has.
    pub indices: Vec<usize>,
    /// Their normalised pixels: `[len, channels, height, width]`.
    pub pixels: Vec<f32>,
    /// Their classes.
    pub labels: Vec<u8>,
}

/// The batches of a run from some position on.
#[derive(Debug)]
pub struct Batches {
    /// `None` once there are no more.
    worker: Option<(Receiver<Batch>, JoinHandle<()>)>,
}

impl Batches {
    /// Starts to prepare the batches from `first` on, up to the end of the last epoch.
    ///
    /// # Panics
    ///
    /// If the plan has a batch size of 0.
    pub fn start(images: Arc<Images>, normalisation: Normalisation, plan: Plan, first: Position) -> Self {
        assert!(plan.batch_size > 0, "a batch size of at least 1");
        let (sender, receiver) = sync_channel(PREFETCH);
        let worker = std::thread::spawn(move || prepare(&images, &normalisation, plan, first, &sender));
        Self { worker: Some((receiver, worker)) }
    }
}

fn prepare(images: &Images, normalisation: &Normalisation, plan: Plan, first: Position, sender: &SyncSender<Batch>) {
    for epoch in first.epoch..plan.epochs {
        let order = match plan.shuffle {
            true => order::of_epoch(plan.seed, epoch, images.len()),
            false => (0..images.len()).collect(),
        };
        let skipped = if epoch == first.epoch { first.batch } else { 0 };
        for (batch, indices) in order.chunks(plan.batch_size).enumerate().skip(skipped) {
            let augmentation = plan.augment.then_some(Augmentation { seed: plan.seed, epoch });
            let (mut pixels, mut labels) = (vec![0.0; indices.len() * images.image_len()], Vec::new());
            fill_batch(images, indices, normalisation, augmentation, &mut pixels, &mut labels);
            let batch = Batch { position: Position { epoch, batch }, indices: indices.into(), pixels, labels };
            // Nobody listens any more when the iterator was dropped.
            if sender.send(batch).is_err() {
                return;
            }
        }
    }
}

impl Iterator for Batches {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let (receiver, _) = self.worker.as_ref()?;
        if let Ok(batch) = receiver.recv() {
            return Some(batch);
        }
        // A worker that panicked must not look like the end of the run.
        if let Some((_, worker)) = self.worker.take()
            && let Err(panic) = worker.join()
        {
            std::panic::resume_unwind(panic);
        }
        None
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        if let Some((receiver, worker)) = self.worker.take() {
            // Without a receiver the worker's next batch cannot be sent, which ends it.
            drop(receiver);
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { seed: 5, batch_size: 4, epochs: 3, shuffle: true, augment: true };

    fn images() -> Arc<Images> {
        Arc::new(Images::new([1, 2, 2], 256, (0..40).collect(), (0..10).collect()))
    }

    fn batches(plan: Plan, epoch: u64, batch: usize) -> Batches {
        let normalisation = Normalisation { mean: vec![0.0], std: vec![1.0] };
        Batches::start(images(), normalisation, plan, Position { epoch, batch })
    }

    #[test]
    fn every_epoch_visits_every_image_once() {
        let all: Vec<Batch> = batches(PLAN, 0, 0).collect();
        assert_eq!(all.iter().map(|b| b.labels.len()).collect::<Vec<_>>(), [4, 4, 2, 4, 4, 2, 4, 4, 2]);
        for epoch in all.chunks(3) {
            let mut seen: Vec<u8> = epoch.iter().flat_map(|b| b.labels.clone()).collect();
            seen.sort_unstable();
            assert_eq!(seen, images().labels());
        }
        assert_ne!(all[0].labels, all[3].labels);
    }

    #[test]
    fn a_run_goes_on_exactly_from_any_position() {
        let all: Vec<Batch> = batches(PLAN, 0, 0).collect();
        for (i, batch) in all.iter().enumerate() {
            let Position { epoch, batch } = batch.position;
            assert_eq!(batches(PLAN, epoch, batch).collect::<Vec<_>>(), all[i..]);
        }
        // The position after the last batch of an epoch is the beginning of the next one.
        assert_eq!(batches(PLAN, 0, 3).collect::<Vec<_>>(), all[3..]);
        assert_eq!(batches(PLAN, 3, 0).next(), None);
    }

    #[test]
    fn the_order_of_the_images_can_be_kept() {
        let plan = Plan { shuffle: false, augment: false, epochs: 1, ..PLAN };
        let seen: Vec<f32> = batches(plan, 0, 0).flat_map(|b| b.pixels).map(|x| (x * 255.0).round()).collect();
        assert_eq!(seen, (0..40).map(|i| i as f32).collect::<Vec<_>>());
    }

    #[test]
    fn dropping_ends_the_worker() {
        let images = images();
        let plan = Plan { epochs: u64::MAX, ..PLAN };
        let normalisation = Normalisation { mean: vec![0.0], std: vec![1.0] };
        let mut batches = Batches::start(images.clone(), normalisation, plan, Position::default());
        assert!(batches.next().is_some());
        drop(batches);
        assert_eq!(Arc::strong_count(&images), 1);
    }

    #[test]
    #[should_panic(expected = "a mean for each channel")]
    fn a_panic_of_the_worker_is_not_the_end_of_the_run() {
        let normalisation = Normalisation { mean: vec![], std: vec![] };
        Batches::start(images(), normalisation, PLAN, Position::default()).for_each(drop);
    }
}
