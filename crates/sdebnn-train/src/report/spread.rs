//! A number over seeds.

/// The mean over seeds and, of two or more, the sample standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many numbers there are.
    pub count: usize,
    /// `x̄ = Σ x / n`.
    pub mean: f64,
    /// `√(Σ (x − x̄)² / (n − 1))`; `None` of a single number.
    pub std: Option<f64>,
}

impl Spread {
    /// Of some numbers.
    pub fn of(numbers: &[f64]) -> Self {
        let count = numbers.len();
        let mean = numbers.iter().sum::<f64>() / count as f64;
        let squares = || numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        Self { count, mean, std: (count > 1).then(|| (squares() / (count - 1) as f64).sqrt()) }
    }

    /// `mean ± std` with this many decimals.
    pub fn text(&self, decimals: usize) -> String {
        match self {
            Self { mean, .. } if mean.is_nan() => "–".into(),
            Self { mean, std: Some(std), .. } => format!("{mean:.decimals$} ± {std:.decimals$}"),
            Self { mean, std: None, .. } => format!("{mean:.decimals$}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_by_hand() {
        assert_eq!(Spread::of(&[3.0]), Spread { count: 1, mean: 3.0, std: None });
        assert_eq!(Spread::of(&[1.0, 3.0]), Spread { count: 2, mean: 2.0, std: Some(2f64.sqrt()) });
        assert_eq!(Spread::of(&[1.0, 3.0]).text(2), "2.00 ± 1.41");
        assert_eq!(Spread::of(&[0.25]).text(1), "0.2");
        assert_eq!(Spread::of(&[]).text(1), "–");
    }
}
