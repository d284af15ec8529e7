use sdebnn::random::Stream;
use serde::{Deserialize, Serialize};

/// Inputs at which the figure is drawn.
const FIGURE_POINTS: usize = 161;

/// The data set: `y = slope · x + amplitude · sin(frequency · x) + noise`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// Always the curve.
    pub name: CurveName,
    /// Points to train on.
    pub train_points: usize,
    /// Held-out points.
    pub test_points: usize,
    /// The slope of the curve.
    pub slope: f64,
    /// The height of its waves.
    pub amplitude: f64,
    /// The frequency of its waves.
    pub frequency: f64,
    /// Where inputs lie.
    pub range: [f64; 2],
    /// Where they don't.
    pub gap: [f64; 2],
    /// The standard deviation of the noise.
    pub noise: f64,
}

/// The name of the data set in configurations.
pub const CURVE: &str = "curve";

/// The one data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CurveName {
    /// [`CURVE`].
    Curve,
}

/// Inputs and targets.
#[derive(Clone, Debug)]
pub(crate) struct Points {
    pub x: Vec<f64>,
    pub y: Vec<f64>,
}

impl DataConfig {
    /// The curve without noise.
    pub(super) fn curve(&self, x: f64) -> f64 {
        self.slope * x + self.amplitude * (self.frequency * x).sin()
    }

    pub(super) fn points(&self, count: usize, stream: Stream) -> Points {
        let ([low, high], [from, to]) = (self.range, self.gap);
        let (mut x, mut noise) = (vec![0.0; count], vec![0.0; count]);
        stream.fill_uniform(0, &mut x);
        stream.fill_normal(1, &mut noise);
        for x in &mut x {
            *x = low + *x * (high - low - (to - from));
            *x += if *x < from { 0.0 } else { to - from };
        }
        let y = x.iter().zip(&noise).map(|(&x, &z)| self.curve(x) + self.noise * z).collect();
        Points { x, y }
    }

    pub(super) fn has_data(&self, x: f64) -> bool {
        self.range[0] <= x && x <= self.range[1] && !self.in_gap(x)
    }

    pub(super) fn in_gap(&self, x: f64) -> bool {
        self.gap[0] < x && x < self.gap[1]
    }

    /// The figure's inputs: the data's range and a tenth of it on either side.
    pub(super) fn figure_inputs(&self) -> Vec<f64> {
        let margin = 0.1 * (self.range[1] - self.range[0]);
        let (low, high) = (self.range[0] - margin, self.range[1] + margin);
        (0..FIGURE_POINTS).map(|i| low + (high - low) * i as f64 / (FIGURE_POINTS - 1) as f64).collect()
    }
}
