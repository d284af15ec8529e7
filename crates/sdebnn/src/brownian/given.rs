use super::BrownianPath;

/// A path given by its values on a uniform grid of `[t0, t1]`, linear in between.
///
/// Replays increments that were drawn elsewhere.
#[derive(Clone, Debug)]
pub struct PiecewiseLinear {
    t0: f64,
    t1: f64,
    dim: usize,
    values: Vec<f64>,
}

impl PiecewiseLinear {
    /// From the values at the `n + 1` grid points, row by row.
    ///
    /// # Panics
    /// If `values` does not hold at least two rows of `dim` numbers.
    pub fn from_values(t0: f64, t1: f64, dim: usize, values: Vec<f64>) -> Self {
        assert!(dim > 0 && values.len().is_multiple_of(dim) && values.len() >= 2 * dim);
        Self { t0, t1, dim, values }
    }

    /// From the `n` increments between the grid points, row by row.
    ///
    /// # Panics
    /// If `increments` does not hold at least one row of `dim` numbers.
    pub fn from_increments(t0: f64, t1: f64, dim: usize, increments: &[f64]) -> Self {
        let mut values = vec![0.0; dim + increments.len()];
        for (i, step) in increments.iter().enumerate() {
            values[i + dim] = values[i] + step;
        }
        Self::from_values(t0, t1, dim, values)
    }

    /// The grid point at or before `t`, and how far `t` lies in the cell behind it.
    fn locate(&self, t: f64) -> (usize, f64) {
        let cells = self.values.len() / self.dim - 1;
        let s = ((t - self.t0) / (self.t1 - self.t0)).clamp(0.0, 1.0) * cells as f64;
        let cell = (s.floor() as usize).min(cells - 1);
        (cell, s - cell as f64)
    }
}

impl BrownianPath for PiecewiseLinear {
    fn dim(&self) -> usize {
        self.dim
    }

    fn increment(&self, from: f64, to: f64, out: &mut [f64]) {
        let value = |(cell, part): (usize, f64), i: usize| {
            let left = self.values[cell * self.dim + i];
            left + part * (self.values[(cell + 1) * self.dim + i] - left)
        };
        let (from, to) = (self.locate(from), self.locate(to));
        for (i, out) in out.iter_mut().enumerate() {
            *out = value(to, i) - value(from, i);
        }
    }
}
