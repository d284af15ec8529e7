//! Windows of sequences for next-frame prediction: split, dropped frames, gaps, normalisation.

use std::ops::Range;

use crate::random::{Purpose, Source};
use crate::{Error, Sequence, order};

/// How sequences become windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preparation {
    /// The probability with which each frame is dropped.
    pub drop: f64,
    /// Input frames of a window.
    pub window: usize,
    /// Kept frames from the beginning of a window to that of the next.
    pub stride: usize,
    /// The share of sequences that are set apart to choose the best parameters by.
    pub validation: f64,
    /// The share of sequences to test on.
    pub test: f64,
}

/// What takes each feature to zero mean and unit deviation: `(x − mean) / std`.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureScale {
    /// The mean of each feature.
    pub mean: Vec<f64>,
    /// The standard deviation of each feature; 1 for one that does not change.
    pub std: Vec<f64>,
}

/// The frames of one sequence, normalised, and which of them were kept.
#[derive(Clone, Debug, PartialEq)]
struct Recording {
    /// All frames, one after the other.
    frames: Vec<f32>,
    /// The times of those that were kept, in ascending order.
    kept: Vec<usize>,
}

/// Windows of sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct Windows {
    features: usize,
    frames: usize,
    recordings: Vec<Recording>,
    /// The recording of every window, and its first kept frame.
    places: Vec<(usize, usize)>,
}

/// Windows of sequences to train on, to choose by, and to test on; no sequence is in two of them.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowSets {
    /// To train on.
    pub train: Windows,
    /// To choose the best parameters by.
    pub validation: Windows,
    /// To test on.
    pub test: Windows,
    /// Measured on the frames kept of the training sequences alone.
    pub scale: FeatureScale,
}

impl WindowSets {
    /// Splits sequences, drops frames, and cuts windows: a pure function of its arguments.
    pub fn new(sequences: &[Sequence], seed: u64, how: &Preparation) -> Result<Self, Error> {
        let kept: Vec<Vec<usize>> = (0..sequences.len()).map(|i| kept(seed, i, sequences[i].len(), how.drop)).collect();
        for (sequence, kept) in sequences.iter().zip(&kept) {
            if kept.len() <= how.window {
                return Err(Error::TooShort {
                    name: sequence.name().into(),
                    frames: sequence.len(),
                    kept: kept.len(),
                    window: how.window,
                });
            }
        }
        let [train, validation, test] = split(seed, sequences.len(), how.validation, how.test)?;
        let frames = train.iter().flat_map(|&i| kept[i].iter().map(move |&time| sequences[i].step(time)));
        let scale = FeatureScale::fit(frames);
        let windows = |indices: &[usize]| {
            let recording =
                |&i: &usize| Recording { frames: scale.apply(sequences[i].values()), kept: kept[i].clone() };
            Windows::new(scale.mean.len(), how, indices.iter().map(recording).collect())
        };
        Ok(Self { train: windows(&train), validation: windows(&validation), test: windows(&test), scale })
    }
}

/// Training, validation and test sequences, each in ascending order. A share above 0 is at least one sequence.
fn split(seed: u64, count: usize, validation: f64, test: f64) -> Result<[Vec<usize>; 3], Error> {
    let part = |share: f64| if share > 0.0 { ((share * count as f64).round() as usize).max(1) } else { 0 };
    let (validation, test) = (part(validation), part(test));
    if validation + test >= count {
        return Err(Error::TooFewSequences { found: count, expected: validation + test + 1 });
    }
    let order = order::permutation(Source::new(seed, Purpose::Split, 0, 0), count);
    let sorted = |range: Range<usize>| {
        let mut part = order[range].to_vec();
        part.sort_unstable();
        part
    };
    Ok([sorted(validation + test..count), sorted(0..validation), sorted(validation..validation + test)])
}

/// The times that are not dropped.
fn kept(seed: u64, sequence: usize, len: usize, drop: f64) -> Vec<usize> {
    let mut source = Source::new(seed, Purpose::Drop, sequence as u64, 0);
    (0..len).filter(|_| source.between(0.0, 1.0) >= drop).collect()
}

impl FeatureScale {
    /// The mean and the deviation of some frames.
    fn fit<'a>(frames: impl Iterator<Item = &'a [f64]> + Clone) -> Self {
        let count = frames.clone().count() as f64;
        let features = frames.clone().next().map_or(0, <[f64]>::len);
        let mean_of = |value: &dyn Fn(usize, &[f64]) -> f64| -> Vec<f64> {
            (0..features).map(|j| frames.clone().map(|frame| value(j, frame)).sum::<f64>() / count).collect()
        };
        let mean = mean_of(&|j, frame| frame[j]);
        let variance = mean_of(&|j, frame| (frame[j] - mean[j]).powi(2));
        // The mean of equal numbers is rounded, so their deviation from it may be a little more than 0.
        let std = |(variance, mean): (f64, &f64)| match variance.sqrt() {
            std if std > 1e-9 * mean.abs() => std,
            _ => 1.0,
        };
        Self { std: variance.into_iter().zip(&mean).map(std).collect(), mean }
    }

    fn apply(&self, values: &[f64]) -> Vec<f32> {
        let features = self.mean.len();
        let scaled = |(i, x): (usize, &f64)| ((x - self.mean[i % features]) / self.std[i % features]) as f32;
        values.iter().enumerate().map(scaled).collect()
    }

    /// The number that a normalised value of a feature stands for.
    pub fn undo(&self, feature: usize, value: f64) -> f64 {
        self.mean[feature] + self.std[feature] * value
    }
}

impl Windows {
    fn new(features: usize, how: &Preparation, recordings: Vec<Recording>) -> Self {
        // The frame after the last gap is predicted too, so a window of n frames takes n + 1.
        let starts = |recording: &Recording| (0..recording.kept.len() - how.window).step_by(how.stride);
        let places = recordings.iter().enumerate().flat_map(|(r, recording)| starts(recording).map(move |s| (r, s)));
        Self { features, frames: how.window, places: places.collect(), recordings }
    }

    /// How many windows there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many numbers a frame has.
    pub fn features(&self) -> usize {
        self.features
    }

    /// Input frames of a window.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// The times of a window's frames, and of the one that comes after them.
    pub fn times(&self, window: usize) -> &[usize] {
        let (recording, start) = self.places[window];
        &self.recordings[recording].kept[start..=start + self.frames]
    }

    /// The normalised frame of a window's recording at some time, dropped or not; `None` after its end.
    pub fn at(&self, window: usize, time: usize) -> Option<&[f32]> {
        let frames = &self.recordings[self.places[window].0].frames;
        frames.get(time * self.features..(time + 1) * self.features)
    }

    /// The frames of a window and the one that comes after them.
    pub fn window(&self, window: usize) -> impl Iterator<Item = &[f32]> {
        let frame = move |&time: &usize| self.at(window, time).expect("a time of the recording");
        self.times(window).iter().map(frame)
    }

    /// The gap after each frame of a window, in units of a window's frames.
    pub fn gaps(&self, window: usize) -> impl Iterator<Item = f32> {
        self.times(window).windows(2).map(|pair| ((pair[1] - pair[0]) as f64 / self.frames as f64) as f32)
    }

    /// The mean squared error of predicting that nothing changes: every frame again after its gap.
    pub fn no_change(&self) -> f64 {
        let squares = (0..self.len())
            .flat_map(|w| self.window(w).zip(self.window(w).skip(1)))
            .flat_map(|(now, next)| now.iter().zip(next).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)));
        squares.sum::<f64>() / (self.len() * self.frames * self.features) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOW: Preparation = Preparation { drop: 0.0, window: 2, stride: 2, validation: 0.2, test: 0.2 };

    /// Sequence `i` has the values `100 i + t` and a constant.
    fn ramps(count: usize, len: usize) -> Vec<Sequence> {
        let value = |i: usize, t: usize| [(100 * i + t) as f64, 0.1];
        (0..count)
            .map(|i| Sequence::new(2, (0..len).flat_map(|t| value(i, t)).collect()).named(format!("ramp {i}")))
            .collect()
    }

    fn owners(windows: &Windows, scale: &FeatureScale) -> Vec<usize> {
        let owner = |w| (scale.undo(0, f64::from(windows.window(w).next().unwrap()[0])).round() / 100.0) as usize;
        (0..windows.len()).map(owner).collect()
    }

    #[test]
    fn a_split_is_by_sequence_seeded_and_loses_nothing() {
        let sets = |seed| WindowSets::new(&ramps(10, 20), seed, &HOW).unwrap();
        let WindowSets { train, validation, test, scale } = sets(3);
        let mut parts = [train, validation, test].map(|windows| owners(&windows, &scale));
        parts.iter_mut().for_each(Vec::dedup);
        assert_eq!(parts.each_ref().map(Vec::len), [6, 2, 2]);
        let mut all = parts.concat();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        assert_eq!(sets(3), sets(3));
        assert_ne!(sets(3).test, sets(4).test);
    }

    #[test]
    fn shares_are_rounded_but_never_to_nothing() {
        let counts = |n, validation, test| split(0, n, validation, test).map(|parts| parts.map(|part| part.len()));
        assert_eq!(counts(400, 0.1, 0.15).unwrap(), [300, 40, 60]);
        assert_eq!(counts(3, 0.1, 0.15).unwrap(), [1, 1, 1]);
        assert_eq!(counts(2, 0.0, 0.15).unwrap(), [1, 0, 1]);
        let message = counts(2, 0.1, 0.15).unwrap_err().to_string();
        assert!(message.contains("2 sequences") && message.contains("at least 3"), "{message}");
    }

    #[test]
    fn windows_overlap_by_what_the_stride_leaves() {
        let sets = WindowSets::new(&ramps(3, 8), 0, &HOW).unwrap();
        let times: Vec<&[usize]> = (0..sets.test.len()).map(|w| sets.test.times(w)).collect();
        assert_eq!(times, [[0, 1, 2], [2, 3, 4], [4, 5, 6]]);
        assert_eq!(sets.test.gaps(0).collect::<Vec<_>>(), [0.5, 0.5]);
    }

    #[test]
    fn dropped_frames_leave_gaps_and_are_a_tenth() {
        let how = Preparation { drop: 0.1, window: 4, stride: 1, ..HOW };
        let sets = WindowSets::new(&ramps(5, 2000), 7, &how).unwrap();
        for windows in [&sets.train, &sets.validation, &sets.test] {
            for w in [0, 1, windows.len() - 1] {
                let times = windows.times(w);
                let gaps: Vec<f32> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f32 / 4.0).collect();
                assert_eq!(windows.gaps(w).collect::<Vec<_>>(), gaps);
                let frames: Vec<f32> = windows.window(w).map(|frame| frame[0]).collect();
                let now: Vec<f32> = times.iter().map(|&t| windows.at(w, t).unwrap()[0]).collect();
                assert_eq!(frames, now);
            }
        }
        let counts = sets.train.recordings.iter().map(|recording| recording.kept.len());
        let kept = counts.sum::<usize>() as f64 / (2000 * sets.train.recordings.len()) as f64;
        assert!((kept - 0.9).abs() < 0.02, "{kept}");
        assert_ne!(sets.train.recordings[0].kept, sets.train.recordings[1].kept);
        assert_ne!(
            WindowSets::new(&ramps(5, 2000), 8, &how).unwrap().train.recordings[0].kept,
            sets.train.recordings[0].kept
        );
    }

    #[test]
    fn the_scale_is_that_of_the_training_sequences_and_spares_constants() {
        let sequences = ramps(3, 5);
        let sets = WindowSets::new(&sequences, 1, &HOW).unwrap();
        let [train, ..] = split(1, 3, 0.2, 0.2).unwrap();
        // The values 100 i + 0, 1, 2, 3, 4: the mean is at 2, the variance is 2.
        assert_eq!(sets.scale.mean[0], 100.0 * train[0] as f64 + 2.0);
        assert!((sets.scale.std[0] - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(sets.scale.std[1], 1.0);
        let first = sets.train.window(0).next().unwrap();
        assert!((f64::from(first[0]) + 2f64.sqrt()).abs() < 1e-6 && first[1].abs() < 1e-9, "{first:?}");
        assert!((sets.scale.undo(0, f64::from(first[0])) - 100.0 * train[0] as f64).abs() < 1e-4);
    }

    #[test]
    fn predicting_no_change_has_a_loss() {
        let sets = WindowSets::new(&ramps(3, 5), 1, &HOW).unwrap();
        // Every step changes one of two features by 1/√2.
        assert!((sets.train.no_change() - 0.25).abs() < 1e-6);
    }

    #[test]
    fn a_sequence_that_is_too_short_is_named() {
        let mut sequences = ramps(4, 9);
        sequences[2] = Sequence::new(2, vec![0.0; 4]).named("b.npy");
        let message = WindowSets::new(&sequences, 0, &HOW).unwrap_err().to_string();
        for part in ["b.npy", "2 frames", "at least 3", "data.window"] {
            assert!(message.contains(part), "{message}");
        }
    }
}
