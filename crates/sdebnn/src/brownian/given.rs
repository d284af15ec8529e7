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

    /// Component `i` at a place.
    fn value(&self, (cell, part): (usize, f64), i: usize) -> f64 {
        let left = self.values[cell * self.dim + i];
        left + part * (self.values[(cell + 1) * self.dim + i] - left)
    }

    /// The integral of component `i` from `t0` to a place, by the trapezoidal rule, which is exact for lines.
    fn integral(&self, (cell, part): (usize, f64), i: usize) -> f64 {
        let length = (self.t1 - self.t0) / (self.values.len() / self.dim - 1) as f64;
        let mean = |cell: usize, part: f64| 0.5 * (self.value((cell, 0.0), i) + self.value((cell, part), i));
        length * ((0..cell).map(|cell| mean(cell, 1.0)).sum::<f64>() + part * mean(cell, part))
    }
}

impl BrownianPath for PiecewiseLinear {
    fn dim(&self) -> usize {
        self.dim
    }

    fn increment(&self, from: f64, to: f64, out: &mut [f64]) {
        let (from, to) = (self.locate(from), self.locate(to));
        for (i, out) in out.iter_mut().enumerate() {
            *out = self.value(to, i) - self.value(from, i);
        }
    }

    fn increment_and_area(&self, from: f64, to: f64, increment: &mut [f64], area: &mut [f64]) {
        self.increment(from, to, increment);
        let (start, end) = (self.locate(from), self.locate(to));
        for (i, (area, increment)) in area.iter_mut().zip(increment).enumerate() {
            let mean = (self.integral(end, i) - self.integral(start, i)) / (to - from);
            *area = if to == from { 0.0 } else { mean - self.value(start, i) - 0.5 * *increment };
        }
    }
}
