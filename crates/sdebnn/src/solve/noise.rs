//! The Brownian increments of all samples along a grid.

use burn::backend::flex::FlexTensor;
use burn::tensor::{DType, ElementConversion, Tensor, TensorData};
use rayon::prelude::*;

use super::Problem;
use crate::brownian::BrownianPath;
use crate::fused::{self, Real};
use crate::method::Tableau;

impl Problem<'_> {
    /// A step's rows of noise of all samples, `[increments, samples, moving]`.
    pub(super) fn noise<P: BrownianPath>(&self, tableau: &Tableau, paths: &[P], (from, to): (f64, f64)) -> Tensor<3> {
        let grid = [from, to];
        let numbers = self.noise_numbers(tableau, paths, &grid);
        let data = TensorData::new(numbers, self.noise_shape(tableau, paths, &grid));
        Tensor::from_data(data, (&self.w0.device(), self.w0.dtype()))
    }

    /// The rows of noise of all samples over every interval of a grid, for the kernels.
    pub(super) fn kernel_noise<P: BrownianPath>(&self, tableau: &Tableau, paths: &[P], grid: &[f64]) -> FlexTensor {
        let shape = self.noise_shape(tableau, paths, grid);
        match self.w0.dtype() {
            DType::F32 => fused::noise::<f32>(shape, |numbers| self.write_noise(tableau, paths, grid, numbers)),
            _ => fused::noise::<f64>(shape, |numbers| self.write_noise(tableau, paths, grid, numbers)),
        }
    }

    /// The rows of noise of all samples over every interval of a grid are `[steps · increments, samples, moving]`.
    pub(super) fn noise_shape<P: BrownianPath>(&self, tableau: &Tableau, paths: &[P], grid: &[f64]) -> [usize; 3] {
        [(grid.len() - 1) * tableau.increments(), paths.len(), self.partition.moving()]
    }

    /// The rows of noise over every interval of a grid.
    pub(super) fn noise_numbers<P: BrownianPath>(&self, tableau: &Tableau, paths: &[P], grid: &[f64]) -> Vec<f64> {
        let mut numbers = vec![0.0; self.noise_shape(tableau, paths, grid).iter().product()];
        self.write_noise(tableau, paths, grid, &mut numbers);
        numbers
    }

    /// Sets `numbers` to the rows of noise over every interval of a grid.
    fn write_noise<P: BrownianPath, E: Real>(&self, tableau: &Tableau, paths: &[P], grid: &[f64], numbers: &mut [E]) {
        let (rows, samples, moving) = (tableau.increments(), paths.len(), self.partition.moving());
        let areas = if tableau.asks_for_areas() { moving } else { 0 };
        let scratch = || (vec![0.0; moving], vec![0.0; areas]);
        let steps = numbers.par_chunks_exact_mut((rows * samples * moving).max(1)).enumerate().with_max_len(1);
        steps.for_each_init(scratch, |(increment, area), (step, numbers)| {
            for (sample, path) in paths.iter().enumerate() {
                if tableau.asks_for_areas() {
                    path.increment_and_area(grid[step], grid[step + 1], increment, area);
                } else {
                    path.increment(grid[step], grid[step + 1], increment);
                }
                for (row, numbers) in numbers.chunks_exact_mut(samples * moving).enumerate() {
                    let numbers = numbers[sample * moving..][..moving].iter_mut().zip(&*increment);
                    // The row of a stage comes before it, and the last is that of the step's end.
                    match tableau.areas.get(row + 1) {
                        Some(part) if tableau.asks_for_areas() => {
                            numbers.zip(&*area).for_each(|((number, w), h)| *number = (w + part * h).elem());
                        }
                        _ => numbers.for_each(|(number, w)| *number = w.elem()),
                    }
                }
            }
        });
    }
}
