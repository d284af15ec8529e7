//! How good predicted class probabilities are, accumulated over the batches of a test set.

use serde::{Deserialize, Serialize};

/// The bins of [`Classification::ece`] and [`Classification::reliability`].
pub const BINS: usize = 15;

/// What a probability of 0 counts as in [`Classification::nll`]: the smallest positive `f32`, 2⁻¹⁴⁹. No other
/// probability is changed by it.
const FLOOR: f64 = f32::from_bits(1) as f64;

/// Sums over examples, each added in turn: how a test set is split into batches does not change a bit of the results.
///
/// An example counts as the class of the largest probability, the first of equal ones. All results are NaN without
/// examples. An example with a NaN among its probabilities counts as wrong, and makes the sums it enters NaN.
#[derive(Clone, Debug)]
pub struct Classification {
    classes: usize,
    nll: f64,
    brier: f64,
    bins: [Sums; BINS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: usize,
    correct: usize,
    confidence: f64,
}

/// The examples whose confidence, the largest probability, lies in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityBin {
    /// How many there are.
    pub count: usize,
    /// Their mean confidence; NaN if there are none.
    pub confidence: f64,
    /// The share of them that is right; NaN if there are none.
    pub accuracy: f64,
}

impl Classification {
    /// No examples yet, of this many classes.
    pub fn new(classes: usize) -> Self {
        Self { classes, nll: 0.0, brier: 0.0, bins: Default::default() }
    }

    /// Adds examples: their probabilities, row-major `[examples, classes]` and averaged over samples, and their classes.
    ///
    /// # Panics
    ///
    /// If there are not `classes` probabilities for each label, or a label is not below `classes`.
    pub fn add(&mut self, probabilities: &[f32], labels: &[usize]) {
        assert_eq!(probabilities.len(), labels.len() * self.classes, "probabilities of {} examples", labels.len());
        for (probabilities, &label) in probabilities.chunks_exact(self.classes).zip(labels) {
            // Not `max`, which would drop NaN.
            let p = f64::from(probabilities[label]);
            self.nll -= if p < FLOOR { FLOOR } else { p }.ln();
            self.brier += brier(probabilities, label);

            let (predicted, confidence) = largest(probabilities);
            let bin = &mut self.bins[bin_of(confidence)];
            bin.count += 1;
            bin.correct += usize::from(predicted == label && !confidence.is_nan());
            bin.confidence += f64::from(confidence);
        }
    }

    /// How many examples were added.
    pub fn count(&self) -> usize {
        self.bins.iter().map(|bin| bin.count).sum()
    }

    /// The share of examples that are right.
    pub fn accuracy(&self) -> f64 {
        self.mean(self.bins.iter().map(|bin| bin.correct).sum::<usize>() as f64)
    }

    /// The mean of −ln p(label). A p of 0 counts as 2⁻¹⁴⁹, the smallest positive `f32`: 103.28, large but finite.
    pub fn nll(&self) -> f64 {
        self.mean(self.nll)
    }

    /// The mean of `Σ_c (p_c − 1[c = label])²`, from 0 to 2.
    pub fn brier(&self) -> f64 {
        self.mean(self.brier)
    }

    /// The expected calibration error of Guo et al. (2017): the mean over examples of the distance between confidence and
    /// accuracy of their bin.
    pub fn ece(&self) -> f64 {
        // count · |mean confidence − mean accuracy| without the division; 0 for an empty bin.
        self.mean(self.bins.iter().map(|bin| (bin.confidence - bin.correct as f64).abs()).sum())
    }

    /// Confidence against accuracy in bins of equal width over (0, 1], each without its left end and with its right: the
    /// bin `b` of `n` is (b/n, (b + 1)/n].
    pub fn reliability(&self) -> [ReliabilityBin; BINS] {
        self.bins.map(|Sums { count, correct, confidence }| ReliabilityBin {
            count,
            confidence: confidence / count as f64,
            accuracy: correct as f64 / count as f64,
        })
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.count() as f64
    }
}

fn brier(probabilities: &[f32], label: usize) -> f64 {
    let truth = |class| if class == label { 1.0 } else { 0.0 };
    probabilities.iter().enumerate().map(|(class, &p)| (f64::from(p) - truth(class)).powi(2)).sum()
}

/// The class of the largest probability, and that probability; NaN if any is.
fn largest(probabilities: &[f32]) -> (usize, f32) {
    let classes = probabilities.iter().copied().enumerate();
    classes.fold((0, 0.0), |best, next| if next.1 > best.1 || next.1.is_nan() { next } else { best })
}

/// Edges are rounded to `f32` as confidences are: 0.2 is at the end of its bin, not past it. The last bin takes what
/// rounding put above 1, and NaN.
pub(crate) fn bin_of(confidence: f32) -> usize {
    (0..BINS - 1).find(|bin| confidence <= (bin + 1) as f32 / BINS as f32).unwrap_or(BINS - 1)
}

/// The area under a curve of test accuracies, one an epoch, over its length: by trapezoids, the mean of
/// `(a_i + a_{i+1}) / 2`. A single point is its own area; without points it is NaN.
pub fn auc_of_curve(accuracies: &[f64]) -> f64 {
    match accuracies {
        [] => f64::NAN,
        [only] => *only,
        _ => accuracies.windows(2).map(|a| (a[0] + a[1]) / 2.0).sum::<f64>() / (accuracies.len() - 1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(classes: usize, probabilities: &[f32], labels: &[usize]) -> Classification {
        let mut all = Classification::new(classes);
        all.add(probabilities, labels);
        all
    }

    #[test]
    fn a_case_by_hand() {
        let all = of(2, &[0.75, 0.25, 0.25, 0.75, 0.5, 0.5, 0.5, 0.5], &[0, 0, 0, 1]);
        assert_eq!(all.count(), 4);
        assert_eq!(all.accuracy(), 0.5); // A tie is the first class.
        let nll = -(0.75f64.ln() + 0.25f64.ln() + 2.0 * 0.5f64.ln()) / 4.0;
        assert!((all.nll() - nll).abs() < 1e-15);
        assert_eq!(all.brier(), (2.0 * 0.0625 + 2.0 * 0.5625 + 0.5 + 0.5) / 4.0);
        // Two bins of two examples, each half right: (2 · |0.75 − 0.5| + 2 · |0.5 − 0.5|) / 4.
        assert_eq!(all.ece(), 0.125);
    }

    #[test]
    fn bins_are_closed_on_the_right() {
        let above = |x: f32| f32::from_bits(x.to_bits() + 1);
        assert_eq!([0.0, f32::MIN_POSITIVE, 1.0 / 15.0].map(bin_of), [0; 3]);
        assert_eq!(bin_of(above(1.0 / 15.0)), 1);
        assert_eq!([bin_of(0.2), bin_of(above(0.2))], [2, 3]);
        assert_eq!([14.0 / 15.0, above(14.0 / 15.0), 1.0, above(1.0)].map(bin_of), [13, 14, 14, 14]);
    }

    #[test]
    fn full_confidence_is_counted_and_empty_bins_are_not() {
        let all = of(3, &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0], &[0, 1, 2, 0]);
        assert_eq!(all.accuracy(), 0.75);
        assert_eq!(all.ece(), 0.25);
        assert_eq!(all.brier(), 0.5);
        let bins = all.reliability();
        assert_eq!(bins[14], ReliabilityBin { count: 4, confidence: 1.0, accuracy: 0.75 });
        assert!(bins[..14].iter().all(|bin| bin.count == 0 && bin.confidence.is_nan() && bin.accuracy.is_nan()));
    }

    #[test]
    fn one_class_is_always_right() {
        let all = of(1, &[1.0, 1.0], &[0, 0]);
        assert_eq!([all.accuracy(), all.nll(), all.brier(), all.ece()], [1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn an_impossible_label_costs_much_but_not_everything() {
        let all = of(2, &[1.0, 0.0], &[1]);
        assert!((all.nll() - 149.0 * 2f64.ln()).abs() < 1e-12);
        assert_eq!([all.accuracy(), all.brier(), all.ece()], [0.0, 2.0, 1.0]);
        // The smallest positive probability is as bad, not worse.
        assert_eq!(of(2, &[1.0, f32::from_bits(1)], &[1]).nll(), all.nll());
    }

    #[test]
    fn nan_is_not_hidden() {
        for probabilities in [[f32::NAN, 0.5], [0.5, f32::NAN], [f32::NAN; 2]] {
            for label in [0, 1] {
                let all = of(2, &probabilities, &[label]);
                assert_eq!(all.accuracy(), 0.0);
                assert!(all.brier().is_nan() && all.ece().is_nan());
                assert_eq!(all.nll().is_nan(), probabilities[label].is_nan());
            }
        }
    }

    #[test]
    fn without_examples_nothing_is_known() {
        let none = Classification::new(10);
        assert!([none.accuracy(), none.nll(), none.brier(), none.ece()].iter().all(|x| x.is_nan()));
    }

    #[test]
    fn batches_do_not_matter() {
        let (n, classes) = (1000, 7);
        let weights: Vec<f32> = (0..n * classes).map(|i| ((i * 7919 + 13) % 1009) as f32 + 1.0).collect();
        let probabilities: Vec<f32> = weights
            .chunks(classes)
            .flat_map(|row| row.iter().map(|w| w / row.iter().sum::<f32>()).collect::<Vec<_>>())
            .collect();
        let labels: Vec<usize> = (0..n).map(|i| i * 31 % classes).collect();
        let bits = |c: Classification| [c.accuracy(), c.nll(), c.brier(), c.ece()].map(f64::to_bits);
        let whole = bits(of(classes, &probabilities, &labels));
        for batch in [1, 3, 64, 999] {
            let mut all = Classification::new(classes);
            for (p, y) in probabilities.chunks(batch * classes).zip(labels.chunks(batch)) {
                all.add(p, y);
            }
            assert_eq!(bits(all), whole, "batches of {batch}");
        }
    }

    #[test]
    #[should_panic = "probabilities of 2 examples"]
    fn rows_without_a_label_are_refused() {
        Classification::new(2).add(&[0.5; 6], &[0, 1]);
    }

    #[test]
    fn areas_under_curves() {
        assert_eq!(auc_of_curve(&[0.5]), 0.5);
        assert_eq!(auc_of_curve(&[0.0, 1.0]), 0.5);
        assert_eq!(auc_of_curve(&[0.5, 0.75, 0.75, 0.25]), (0.625 + 0.75 + 0.5) / 3.0);
        assert_eq!(auc_of_curve(&[0.25; 9]), 0.25);
        assert!(auc_of_curve(&[]).is_nan());
    }
}
