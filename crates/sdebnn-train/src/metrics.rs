//! The numbers that reports show, each computed here and nowhere else.

/// `√(mean (prediction − target)²)`.
pub fn rmse(predictions: &[f64], targets: &[f64]) -> f64 {
    let squares = predictions.iter().zip(targets).map(|(p, t)| (p - t).powi(2));
    (squares.sum::<f64>() / targets.len() as f64).sqrt()
}

/// The share of targets inside their interval, ends included.
pub fn coverage(intervals: &[(f64, f64)], targets: &[f64]) -> f64 {
    let inside = intervals.iter().zip(targets).filter(|((low, high), t)| low <= t && *t <= high);
    inside.count() as f64 / targets.len() as f64
}

/// The `q`-quantile of sorted numbers, linear between neighbours.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let (low, part) = (position.floor() as usize, position.fract());
    sorted[low] + part * (sorted[(low + 1).min(sorted.len() - 1)] - sorted[low])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rmse_of_hand_made_errors() {
        assert_eq!(rmse(&[1.0, 2.0], &[4.0, 6.0]), 12.5f64.sqrt());
    }

    #[test]
    fn coverage_counts_the_ends() {
        assert_eq!(coverage(&[(0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0)], &[0.0, 1.0, 1.1, -0.1]), 0.5);
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        let sorted = [1.0, 2.0, 4.0];
        assert_eq!([0.0, 0.25, 0.5, 0.75, 1.0].map(|q| quantile(&sorted, q)), [1.0, 1.5, 2.0, 3.0, 4.0]);
        assert_eq!(quantile(&[3.0], 0.975), 3.0);
    }
}
