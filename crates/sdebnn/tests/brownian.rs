//! The law of the Brownian path, and that it is a function of (stream, interval).

mod common;

use common::{SPANS, assert_standard_normal, correlation, kolmogorov_smirnov, moments, times, uniforms};
use sdebnn::brownian::{BrownianPath, BrownianTree, PiecewiseLinear};
use sdebnn::controller::SolverConfig;
use sdebnn::random::Stream;

fn tree(seed: u64, dim: usize, (t0, t1, cells): (f64, f64, usize)) -> BrownianTree {
    BrownianTree::new(Stream::root(seed), dim, t0, t1, cells)
}

fn ask(path: &impl BrownianPath, from: f64, to: f64) -> Vec<f64> {
    let mut out = vec![f64::NAN; path.dim()];
    path.increment(from, to, &mut out);
    out
}

fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

#[test]
fn the_kolmogorov_smirnov_test_tells_a_wrong_scale_and_a_wrong_mean() {
    let mut normal = vec![0.0; 4000];
    Stream::root(1).fill_normal(0, &mut normal);
    assert!(kolmogorov_smirnov(normal.iter().map(|v| 1.2 * v).collect()) > 1.9495);
    assert!(kolmogorov_smirnov(normal.iter().map(|v| v + 0.1).collect()) > 1.9495);
    assert_standard_normal(normal, "normal numbers");
}

#[test]
fn increments_of_adjacent_intervals_add_bit_for_bit() {
    for (seed, span) in SPANS.into_iter().enumerate() {
        let (path, times) = (tree(seed as u64, 3, span), times(span, 40 + seed as u64));
        let pick: Vec<usize> = uniforms(90, 3 * 3000).iter().map(|u| (u * times.len() as f64) as usize).collect();
        for abc in pick.chunks_exact(3) {
            let [a, b, c] = [times[abc[0]], times[abc[1]], times[abc[2]]];
            assert_eq!(sum(&ask(&path, a, b), &ask(&path, b, c)), ask(&path, a, c), "{a} {b} {c} in {span:?}");
        }
    }
}

#[test]
fn answers_do_not_depend_on_what_was_asked_before_nor_on_the_thread() {
    for span in SPANS {
        let times = times(span, 5);
        let intervals: Vec<(f64, f64)> = times.windows(2).map(|w| (w[0], w[1])).collect();
        let path = tree(3, 2, span);
        let bits =
            |i: usize| ask(&path, intervals[i].0, intervals[i].1).iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let first: Vec<_> = (0..intervals.len()).map(bits).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (first, bits) = (&first, &bits);
                let order = Stream::root(thread).permutation(first.len());
                scope.spawn(move || order.iter().for_each(|&i| assert_eq!(bits(i), first[i], "interval {i}")));
            }
        });
        let again = tree(3, 2, span);
        let other = tree(4, 2, span);
        assert_eq!(ask(&again, span.0, span.1), ask(&path, span.0, span.1));
        assert_ne!(ask(&other, span.0, span.1), ask(&path, span.0, span.1));
    }
}

#[test]
fn steps_of_a_fixed_grid_are_the_sums_of_any_finer_intervals_bit_for_bit() {
    for (t0, t1, cells) in SPANS {
        let path = tree(8, 3, (t0, t1, cells));
        let grid = SolverConfig { t0, t1, steps: cells, ..Default::default() }.grid();
        let mut total = vec![0.0; 3];
        for (i, step) in grid.windows(2).enumerate() {
            let mut inner: Vec<f64> = uniforms(i as u64, 9).iter().map(|u| step[0] + (step[1] - step[0]) * u).collect();
            inner.extend(step);
            inner.sort_by(f64::total_cmp);
            let parts = inner.windows(2).fold(vec![0.0; 3], |s, w| sum(&s, &ask(&path, w[0], w[1])));
            assert_eq!(parts, ask(&path, step[0], step[1]), "step {i}");
            total = sum(&total, &parts);
        }
        assert_eq!(total, ask(&path, t0, t1));
    }
}

#[test]
fn every_step_of_every_fixed_grid_lies_on_the_path() {
    // `t0 + (t1 − t0)` may round past t1; the last step must not be asked beyond the path's end.
    for (i, u) in uniforms(77, 2000).chunks_exact(2).enumerate() {
        let solver = SolverConfig { t0: u[0], t1: u[0] + 3.0 * u[1], steps: 1 + i % 60, ..Default::default() };
        let path = BrownianTree::new(Stream::root(1), 1, solver.t0, solver.t1, solver.cells());
        let grid = solver.grid();
        assert_eq!((grid[0], grid[solver.steps]), (solver.t0, solver.t1));
        let steps = grid.windows(2).fold(vec![0.0], |s, w| sum(&s, &ask(&path, w[0], w[1])));
        assert_eq!(steps, ask(&path, solver.t0, solver.t1));
    }
}

#[test]
fn increments_backwards_are_negative_and_empty_ones_zero() {
    let path = tree(2, 2, SPANS[2]);
    let there = ask(&path, 0.7, 5.3);
    assert_eq!(ask(&path, 5.3, 0.7), there.iter().map(|v| -v).collect::<Vec<_>>());
    assert!([0.3, 1.234, 7.1].iter().all(|&t| ask(&path, t, t) == [0.0, 0.0]));
}

#[test]
fn increments_are_normal_with_the_length_of_the_interval_as_variance() {
    let (t0, t1, cells) = SPANS[2];
    // One path over 4000 random intervals.
    let path = tree(21, 1, (t0, t1, cells));
    let mut times: Vec<f64> = uniforms(22, 3999).iter().map(|u| t0 + (t1 - t0) * u).collect();
    times.extend([t0, t1]);
    times.sort_by(f64::total_cmp);
    let scaled = times.windows(2).map(|w| ask(&path, w[0], w[1])[0] / (w[1] - w[0]).sqrt()).collect();
    assert_standard_normal(scaled, "intervals of a path");
    // One interval over 4000 components, and over the paths of 4000 samples: inside a cell, across cells, a whole cell, tiny.
    for (a, b) in [(0.31, 0.32), (0.41, 3.3), (t0, t0 + (t1 - t0) / 13.0), (t0, t1), (6.5, 6.5 + 1e-5)] {
        let scale = (b - a).sqrt().recip();
        let components = ask(&tree(23, 4000, (t0, t1, cells)), a, b);
        assert_standard_normal(components.iter().map(|v| scale * v).collect(), "components");
        let sample = |s| scale * ask(&BrownianTree::new(Stream::root(24).child(s), 1, t0, t1, cells), a, b)[0];
        assert_standard_normal((0..4000).map(sample).collect(), "samples");
    }
}

#[test]
fn values_between_known_ends_follow_the_brownian_bridge() {
    let span @ (t0, t1, _) = (0.3, 7.1, 4);
    let path = tree(31, 4000, span);
    for (a, m, b) in [(t0, 3.7, t1), (0.3, 0.9, 2.0), (2.1, 2.3, 2.35), (4.4, 4.40001, 6.9)] {
        let (left, whole) = (ask(&path, a, m), ask(&path, a, b));
        let (mean, deviation) = ((m - a) / (b - a), ((m - a) * (b - m) / (b - a)).sqrt());
        let z: Vec<f64> = left.iter().zip(&whole).map(|(l, w)| (l - mean * w) / deviation).collect();
        // Given the ends, the middle is independent of them: 4/√n is four standard errors.
        assert!(correlation(&z, &whole).abs() < 4.0 / 4000f64.sqrt());
        assert_standard_normal(z, "bridge");
    }
}

#[test]
fn a_hundred_thousand_tiny_intervals_have_the_variance_of_their_length_and_no_memory() {
    const N: usize = 100_000;
    let path = tree(41, 1, (0.0, 1.0, 7));
    let steps: Vec<f64> = (0..N).map(|i| ask(&path, i as f64 / N as f64, (i + 1) as f64 / N as f64)[0]).collect();
    assert_eq!(steps.iter().sum::<f64>(), ask(&path, 0.0, 1.0)[0]);
    let (mean, variance) = moments(&steps);
    // The variance of n normal numbers has relative standard error √(2/n); correlations have 1/√n.
    assert!((variance * N as f64 - 1.0).abs() < 4.0 * (2.0 / N as f64).sqrt(), "{variance}");
    assert!(mean.abs() < 4.0 * (variance / N as f64).sqrt());
    for lag in 1..=4 {
        let rho = correlation(&steps[lag..], &steps[..N - lag]);
        assert!(rho.abs() < 4.0 / (N as f64).sqrt(), "lag {lag}: {rho}");
    }
}

#[test]
fn components_and_samples_are_independent() {
    const N: usize = 4000;
    let limit = 4.0 / (N as f64).sqrt();
    let grid = |i: usize| i as f64 / N as f64;
    let path = tree(51, 3, (0.0, 1.0, 16));
    let columns: Vec<Vec<f64>> = (0..N).map(|i| ask(&path, grid(i), grid(i + 1))).collect();
    let component = |c: usize| columns.iter().map(|v| v[c]).collect::<Vec<_>>();
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        assert!(correlation(&component(a), &component(b)).abs() < limit);
    }
    let sample = |s: u64| {
        let path = BrownianTree::new(Stream::root(52).child(s), 1, 0.0, 1.0, 16);
        (0..N).map(|i| ask(&path, grid(i), grid(i + 1))[0]).collect::<Vec<_>>()
    };
    let samples: Vec<Vec<f64>> = (0..4).map(sample).collect();
    for a in 0..4 {
        for b in 0..a {
            assert!(correlation(&samples[a], &samples[b]).abs() < limit, "samples {a} and {b}");
        }
    }
}

#[test]
#[should_panic(expected = "was asked for t = 1.5")]
fn a_path_does_not_answer_beyond_its_end() {
    ask(&tree(0, 1, (0.0, 1.0, 4)), 0.5, 1.5);
}

#[test]
fn a_given_path_replays_its_increments_and_is_linear_between_them() {
    let (t0, t1, cells) = (0.3, 7.1, 16);
    let drawn = tree(61, 2, (t0, t1, cells));
    let grid = |i: f64| t0 + (t1 - t0) * i / cells as f64;
    let steps: Vec<f64> = (0..cells).flat_map(|i| ask(&drawn, grid(i as f64), grid(i as f64 + 1.0))).collect();
    let given = PiecewiseLinear::from_increments(t0, t1, 2, &steps);
    let close = |a: &[f64], b: &[f64]| assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-13), "{a:?} {b:?}");
    assert_eq!(given.dim(), 2);
    for i in 0..cells {
        for j in i + 1..=cells {
            let (a, b) = (grid(i as f64), grid(j as f64));
            close(&ask(&given, a, b), &ask(&drawn, a, b));
        }
        let quarter = ask(&given, grid(i as f64 + 0.5), grid(i as f64 + 0.75));
        close(&quarter, &[0.25 * steps[2 * i], 0.25 * steps[2 * i + 1]]);
    }
    let values = PiecewiseLinear::from_values(0.0, 1.0, 1, vec![5.0, 7.0, 4.0]);
    assert_eq!(ask(&values, 0.0, 1.0), [-1.0]);
    assert_eq!(ask(&values, 0.25, 0.75), [-0.5]);
}
