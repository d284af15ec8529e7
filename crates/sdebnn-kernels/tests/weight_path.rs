//! Weight paths against plain loops, finite differences, other precisions and numbers of threads.

#[path = "naive/weight_path.rs"]
mod naive;

use naive::Naive;
use sdebnn_kernels::{
    Element, Error, Method, PosteriorForm, WeightPathGradients, WeightPathInputs, WeightPathOutputGradients,
    WeightPathOutputs, WeightPathProblem, WeightPathSolver,
};

const METHODS: [Method; 4] = [Method::Euler, Method::Midpoint, Method::Heun, Method::Sra1];
const FORMS: [PosteriorForm; 2] = [PosteriorForm::Residual, PosteriorForm::Literal];

/// Numbers in `[-size, size]` without a pattern.
fn numbers(count: usize, size: f64, seed: usize) -> Vec<f64> {
    let mut state = seed as u64 * 0x9E37_79B9 + 12345;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        size * ((state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0)
    };
    (0..count).map(|_| next()).collect()
}

/// A problem with its inputs and the gradients of its outputs.
#[derive(Clone)]
struct Case {
    naive: Naive,
    samples: usize,
    initial: Vec<f64>,
    noise: Vec<f64>,
    d_stages: Vec<f64>,
    d_end: Vec<f64>,
    d_kl: Vec<f64>,
}

#[derive(Debug, PartialEq)]
struct Results {
    stages: Vec<f64>,
    end: Vec<f64>,
    kl: Vec<f64>,
    d_initial: Vec<f64>,
    d_phi: Vec<f64>,
}

fn case(
    moving: usize,
    hidden: &[usize],
    time_dependent: bool,
    form: PosteriorForm,
    method: Method,
    samples: usize,
) -> Case {
    let grid = vec![0.1, 0.25, 0.6, 0.7, 1.0];
    let hidden = hidden.to_vec();
    let mut naive =
        Naive { hidden, moving, time_dependent, form, sigma: 0.3, method, grid: grid.clone(), phi: Vec::new() };
    naive.phi = numbers(naive.parameters(), 1.5 / (moving as f64).sqrt(), 1);
    let (steps, row) = (grid.len() - 1, samples * moving);
    Case {
        samples,
        initial: numbers(moving, 1.0, 2),
        noise: numbers(steps * method.increments() * row, 0.5, 3),
        d_stages: numbers(steps * method.stages() * row, 1.0, 4),
        d_end: numbers(row, 1.0, 5),
        d_kl: numbers(samples, 0.3, 6),
        naive,
    }
}

impl Case {
    fn problem(&self) -> WeightPathProblem {
        let Naive { hidden, moving, time_dependent, form, sigma, method, grid, .. } = &self.naive;
        WeightPathProblem::new(*moving, hidden, *time_dependent, *form, *sigma, *method, grid.clone()).expect("valid")
    }

    fn solve<E: Element>(&self) -> Results {
        let round = |numbers: &[f64]| numbers.iter().map(|&number| E::from_f64(number)).collect::<Vec<E>>();
        let (initial, phi, noise) = (round(&self.initial), round(&self.naive.phi), round(&self.noise));
        let (mut stages, mut end, mut kl) = (round(&self.d_stages), round(&self.d_end), round(&self.d_kl));
        let (d_stages, d_end, d_kl) = (stages.clone(), end.clone(), kl.clone());
        let solver = WeightPathSolver::<E>::new(self.problem());
        let inputs =
            WeightPathInputs { samples: self.samples, initial: &initial, seen: None, phi: &phi, noise: &noise };
        let (mut d_initial, mut d_phi) = (round(&self.initial), round(&self.naive.phi));
        // Twice, so that the second pass works in used memory.
        for _ in 0..2 {
            let outputs = WeightPathOutputs { stages: &mut stages, end: &mut end, kl: &mut kl, seen: None };
            let tape = solver.record(&inputs, outputs).expect("matching lengths");
            let output_gradients = WeightPathOutputGradients { stages: &d_stages, end: &d_end, kl: &d_kl };
            let gradients = WeightPathGradients { initial: &mut d_initial, phi: &mut d_phi };
            solver.backward(&inputs, &stages, tape, &output_gradients, gradients).expect("matching lengths");
        }
        let exact = |numbers: Vec<E>| numbers.into_iter().map(E::to_f64).collect::<Vec<_>>();
        Results {
            stages: exact(stages),
            end: exact(end),
            kl: exact(kl),
            d_initial: exact(d_initial),
            d_phi: exact(d_phi),
        }
    }

    /// Sample `sample` of `[…][S][M]`.
    fn sample(&self, array: &[f64], sample: usize) -> Vec<Vec<f64>> {
        array.chunks(self.naive.moving).skip(sample).step_by(self.samples).map(<[f64]>::to_vec).collect()
    }

    fn solve_naively(&self) -> Results {
        let moving = self.naive.moving;
        let mut results = Results {
            stages: vec![0.0; self.d_stages.len()],
            end: Vec::new(),
            kl: Vec::new(),
            d_initial: vec![0.0; moving],
            d_phi: vec![0.0; self.naive.phi.len()],
        };
        for sample in 0..self.samples {
            let path = self.naive.solve(&self.initial, &self.sample(&self.noise, sample));
            for (to, from) in results.stages.chunks_mut(moving).skip(sample).step_by(self.samples).zip(&path.stages) {
                to.copy_from_slice(from);
            }
            let (d_stages, d_end) = (self.sample(&self.d_stages, sample), self.sample(&self.d_end, sample).remove(0));
            let d_initial = self.naive.gradient(&path, &d_stages, &d_end, self.d_kl[sample], &mut results.d_phi);
            results.d_initial.iter_mut().zip(d_initial).for_each(|(to, from)| *to += from);
            results.end.extend(path.end);
            results.kl.push(path.kl);
        }
        results
    }

    /// The scalar whose gradients these are.
    fn scalar(&self) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let Results { stages, end, kl, .. } = self.solve_naively();
        dot(&stages, &self.d_stages) + dot(&end, &self.d_end) + dot(&kl, &self.d_kl)
    }
}

/// Compares relative to the largest number.
fn assert_close(actual: &Results, expected: &Results, tolerance: f64, what: &str) {
    let pairs = [
        ("stages", &actual.stages, &expected.stages),
        ("end", &actual.end, &expected.end),
        ("KL", &actual.kl, &expected.kl),
        ("gradient of the initial weights", &actual.d_initial, &expected.d_initial),
        ("gradient of phi", &actual.d_phi, &expected.d_phi),
    ];
    for (name, actual, expected) in pairs {
        assert_eq!(actual.len(), expected.len(), "{name} of {what}");
        let scale = expected.iter().fold(1e-3_f64, |scale, number| scale.max(number.abs()));
        for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
            let error = (actual - expected).abs() / scale;
            assert!(error <= tolerance, "{name}[{index}] of {what}: {actual} instead of {expected}");
        }
    }
}

fn for_all_cases(check: impl Fn(&Case, &str)) {
    for method in METHODS {
        for form in FORMS {
            for time_dependent in [false, true] {
                for hidden in [&[5][..], &[1, 6, 1], &[2, 4, 2]] {
                    for samples in [1, 3] {
                        let what = format!("{method:?} {form:?} {time_dependent} {hidden:?} {samples}");
                        check(&case(13, hidden, time_dependent, form, method, samples), &what);
                    }
                }
            }
        }
    }
}

#[test]
fn agrees_with_plain_loops() {
    for_all_cases(|case, what| assert_close(&case.solve::<f64>(), &case.solve_naively(), 1e-12, what));
}

#[test]
fn single_precision_agrees_with_double() {
    for_all_cases(|case, what| assert_close(&case.solve::<f32>(), &case.solve::<f64>(), 1e-5, what));
}

/// All sizes of groups, tiles of many rows and vectors, more than one piece of columns, and gradients of
/// `φ` in more than one go.
#[test]
fn agrees_with_plain_loops_at_other_sizes() {
    let shapes: [(usize, &[usize], usize); 7] = [
        (77, &[37], 10),
        (77, &[9, 17], 8),
        (203, &[11], 7),
        (1, &[3], 2),
        (1411, &[32], 4),
        (33_001, &[2, 4, 2], 1),
        (120_000, &[2], 5),
    ];
    for (moving, hidden, samples) in shapes {
        let case = case(moving, hidden, true, PosteriorForm::Literal, Method::Heun, samples);
        assert_close(&case.solve::<f64>(), &case.solve_naively(), 1e-12, &format!("{moving} {hidden:?} {samples}"));
    }
}

#[test]
fn gradients_agree_with_finite_differences() {
    const STEP: f64 = 1e-5;
    for_all_cases(|case, what| {
        let Results { d_initial, d_phi, .. } = case.solve::<f64>();
        let check = |gradient: &[f64], index: usize, change: &dyn Fn(&mut Case) -> &mut f64| {
            let at = |shift: f64| {
                let mut moved = case.clone();
                *change(&mut moved) += shift;
                moved.scalar()
            };
            let expected = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            let scale = gradient.iter().fold(1.0_f64, |scale, number| scale.max(number.abs()));
            let error = (gradient[index] - expected).abs() / scale;
            assert!(error < 1e-6, "{what}, {index}: {} instead of {expected}", gradient[index]);
        };
        for index in (0..d_initial.len()).step_by(4) {
            check(&d_initial, index, &|case| &mut case.initial[index]);
        }
        for index in (0..d_phi.len()).step_by(7) {
            check(&d_phi, index, &|case| &mut case.naive.phi[index]);
        }
    });
}

#[test]
fn does_not_depend_on_the_number_of_threads() {
    let shapes: [(usize, &[usize], usize); 3] = [(1411, &[32], 10), (70_011, &[2, 4, 2], 1), (33_000, &[3], 3)];
    for (moving, hidden, samples) in shapes {
        let case = case(moving, hidden, true, PosteriorForm::Residual, Method::Midpoint, samples);
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            pool.install(|| case.solve::<f32>())
        };
        let single = with(1);
        assert_eq!(single, with(2));
        assert_eq!(single, with(7));
    }
}

/// A solve in two halves, each sample from its own weights, has the bits of the whole one.
#[test]
fn goes_on_where_another_solve_ended() {
    for method in METHODS {
        let (moving, samples, hidden) = (77, 3, &[9, 4]);
        let case = case(moving, hidden, true, PosteriorForm::Residual, method, samples);
        let whole = case.solve::<f64>();
        let grid = &case.naive.grid;
        let (mut initial, mut seen, mut stages) = (case.initial.repeat(samples), None, Vec::new());
        for (grid, noise) in [&grid[..3], &grid[2..]].into_iter().zip(case.noise.chunks(case.noise.len() / 2)) {
            let new = |grid| WeightPathProblem::new(moving, hidden, true, case.naive.form, 0.3, method, grid);
            let problem = new(grid.to_vec()).expect("valid");
            let mut part = vec![0.0; problem.evaluations() * samples * moving];
            let (mut end, mut kl, mut sees) =
                (initial.clone(), vec![0.0; samples], vec![0.0; samples * problem.seen()]);
            let (phi, start) = (&case.naive.phi, initial.clone());
            let inputs = WeightPathInputs { samples, initial: &start, seen: seen.as_deref(), phi, noise };
            let outputs = WeightPathOutputs { stages: &mut part, end: &mut end, kl: &mut kl, seen: Some(&mut sees) };
            WeightPathSolver::new(problem).forward(&inputs, outputs).expect("matching lengths");
            stages.extend(part);
            (initial, seen) = (end, Some(sees));
        }
        assert_eq!(stages, whole.stages, "{method:?}");
        assert_eq!(initial, whole.end, "{method:?}");
    }
}

#[test]
fn refuses_what_makes_no_sense() {
    let new = |moving, hidden: &[usize], sigma, grid: &[f64]| {
        WeightPathProblem::new(moving, hidden, false, PosteriorForm::Residual, sigma, Method::Euler, grid.to_vec())
    };
    assert_eq!(new(2, &[], 0.1, &[0.0, 1.0]), Err(Error::NoHiddenLayer));
    assert_eq!(new(0, &[3], 0.1, &[0.0, 1.0]), Err(Error::DenseSizes { sizes: vec![0, 3, 0] }));
    assert_eq!(new(2, &[0], 0.1, &[0.0, 1.0]), Err(Error::DenseSizes { sizes: vec![2, 0, 2] }));
    assert_eq!(new(2, &[3], 0.0, &[0.0, 1.0]), Err(Error::Diffusion { sigma: 0.0 }));
    assert_eq!(new(2, &[3], 0.1, &[0.0]), Err(Error::ShortGrid { points: 1 }));
    assert_eq!(new(2, &[3], 0.1, &[0.0, 0.0]), Err(Error::GridOrder { index: 1, time: 0.0 }));
    let solver = WeightPathSolver::<f64>::new(new(2, &[3], 0.1, &[0.0, 1.0]).expect("valid"));
    let inputs = WeightPathInputs { samples: 1, initial: &[0.0], seen: None, phi: &[0.0; 17], noise: &[0.0; 2] };
    let outputs = WeightPathOutputs { stages: &mut [0.0; 2], end: &mut [0.0; 2], kl: &mut [0.0], seen: None };
    let expected = Error::Length { what: "the initial weights", expected: 2, actual: 1 };
    assert_eq!(solver.forward(&inputs, outputs), Err(expected));
}
