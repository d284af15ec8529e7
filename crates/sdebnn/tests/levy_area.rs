//! The joint law of increment and space–time Lévy area, and that both are functions of (stream, interval).

mod common;

use common::{SPANS, assert_standard_normal, correlation, times, uniforms};
use sdebnn::brownian::{BrownianPath, BrownianTree, LevyTree, PiecewiseLinear};
use sdebnn::random::Stream;

/// Samples of a law, and four standard errors of a correlation that is zero.
const N: usize = 4000;
const LIMIT: f64 = 4.0 / 63.245;

fn tree(seed: u64, dim: usize, (t0, t1, cells): (f64, f64, usize)) -> LevyTree {
    LevyTree::new(Stream::root(seed), dim, t0, t1, cells)
}

fn ask(path: &impl BrownianPath, from: f64, to: f64) -> (Vec<f64>, Vec<f64>) {
    let (mut w, mut h) = (vec![f64::NAN; path.dim()], vec![f64::NAN; path.dim()]);
    path.increment_and_area(from, to, &mut w, &mut h);
    (w, h)
}

#[test]
fn increments_add_bit_for_bit_and_integrals_by_chens_relation() {
    for (seed, span) in SPANS.into_iter().enumerate() {
        let (path, times) = (tree(seed as u64, 3, span), times(span, 40 + seed as u64));
        let pick: Vec<usize> = uniforms(90, 3 * 2000).iter().map(|u| (u * times.len() as f64) as usize).collect();
        for abc in pick.chunks_exact(3) {
            let mut ends = [times[abc[0]], times[abc[1]], times[abc[2]]];
            ends.sort_by(f64::total_cmp);
            let [a, b, c] = ends;
            let ((w1, h1), (w2, h2), (w, h)) = (ask(&path, a, b), ask(&path, b, c), ask(&path, a, c));
            for i in 0..3 {
                assert_eq!(w1[i] + w2[i], w[i], "{a} {b} {c} in {span:?}");
                let integral = |length: f64, w: f64, h: f64| length * (0.5 * w + h);
                let sum = integral(b - a, w1[i], h1[i]) + integral(c - b, w2[i], h2[i]) + (c - b) * w1[i];
                // Rounding relative to a path that starts with the span.
                let scale = (span.1 - span.0).powf(1.5);
                assert!((sum - integral(c - a, w[i], h[i])).abs() <= 1e-14 * scale, "{a} {b} {c} in {span:?}");
            }
        }
    }
}

#[test]
fn answers_do_not_depend_on_what_was_asked_before_nor_on_the_thread() {
    for span in SPANS {
        let times = times(span, 5);
        let intervals: Vec<(f64, f64)> = times.windows(2).map(|w| (w[0], w[1])).collect();
        let path = tree(3, 2, span);
        let bits = |i: usize| {
            let (w, h) = ask(&path, intervals[i].0, intervals[i].1);
            w.iter().chain(&h).map(|v| v.to_bits()).collect::<Vec<_>>()
        };
        let first: Vec<_> = (0..intervals.len()).map(bits).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (first, bits) = (&first, &bits);
                let order = Stream::root(thread).permutation(first.len());
                scope.spawn(move || order.iter().for_each(|&i| assert_eq!(bits(i), first[i], "interval {i}")));
            }
        });
        assert_ne!(ask(&tree(4, 2, span), span.0, span.1), ask(&path, span.0, span.1));
    }
}

#[test]
fn the_increment_alone_is_the_same_as_with_its_area_and_on_cells_that_of_the_brownian_tree() {
    for span @ (t0, t1, cells) in SPANS {
        let (path, plain) = (tree(6, 2, span), BrownianTree::new(Stream::root(6), 2, t0, t1, cells));
        let increment = |path: &dyn BrownianPath, a, b| {
            let mut out = vec![f64::NAN; 2];
            path.increment(a, b, &mut out);
            out
        };
        for ends in times(span, 7).windows(2) {
            assert_eq!(increment(&path, ends[0], ends[1]), ask(&path, ends[0], ends[1]).0);
        }
        let grid = |i: usize| if i == cells { t1 } else { t0 + (t1 - t0) * i as f64 / cells as f64 };
        for i in 0..cells {
            assert_eq!(increment(&path, grid(i), grid(i + 1)), increment(&plain, grid(i), grid(i + 1)));
        }
    }
}

#[test]
fn backwards_the_increment_changes_sign_and_the_area_does_not() {
    let path = tree(2, 2, SPANS[2]);
    let (w, h) = ask(&path, 0.7, 5.3);
    assert_eq!(ask(&path, 5.3, 0.7), (w.iter().map(|v| -v).collect(), h));
    assert_eq!(ask(&path, 1.234, 1.234), (vec![0.0; 2], vec![0.0; 2]));
}

#[test]
fn increment_and_area_are_normal_and_independent_with_variances_h_and_a_twelfth_of_it() {
    let (t0, t1, cells) = SPANS[2];
    // Inside a cell, across cells, a whole cell, everything, tiny, and from the middle of a cell to that of another.
    let cell = (t1 - t0) / 13.0;
    let middle = t0 + 1.5 * cell;
    for (a, b) in [(0.31, 0.32), (0.41, 3.3), (t0, t0 + cell), (t0, t1), (6.5, 6.5 + 1e-5), (middle, middle + cell)] {
        let (w, h) = ask(&tree(23, N, (t0, t1, cells)), a, b);
        let length = (b - a).sqrt();
        assert_standard_normal(w.iter().map(|v| v / length).collect(), "increments");
        assert_standard_normal(h.iter().map(|v| v * 12f64.sqrt() / length).collect(), "areas");
        assert!(correlation(&w, &h).abs() < LIMIT, "[{a}, {b}]: {}", correlation(&w, &h));
    }
    // One path over as many random intervals.
    let path = tree(21, 1, (t0, t1, cells));
    let mut times: Vec<f64> = uniforms(22, N - 1).iter().map(|u| t0 + (t1 - t0) * u).collect();
    times.extend([t0, t1]);
    times.sort_by(f64::total_cmp);
    let scaled = times.windows(2).map(|w| ask(&path, w[0], w[1]).1[0] * (12.0 / (w[1] - w[0])).sqrt()).collect();
    assert_standard_normal(scaled, "areas of a path");
}

#[test]
fn disjoint_intervals_and_components_are_independent() {
    let span = (0.3, 7.1, 4);
    let path = tree(31, N, span);
    for (a, b, c, d) in [(0.3, 2.0, 2.0, 3.7), (0.3, 0.9, 0.9, 2.0), (2.1, 2.3, 2.3, 2.35), (1.1, 1.2, 5.0, 7.1)] {
        let ((w1, h1), (w2, h2)) = (ask(&path, a, b), ask(&path, c, d));
        for (x, y) in [(&w1, &w2), (&w1, &h2), (&h1, &w2), (&h1, &h2)] {
            assert!(correlation(x, y).abs() < LIMIT, "[{a}, {b}] and [{c}, {d}]: {}", correlation(x, y));
        }
    }
    let path = tree(51, 2, (0.0, 1.0, 16));
    let grid = |i: usize| i as f64 / N as f64;
    let columns: Vec<Vec<f64>> = (0..N).map(|i| ask(&path, grid(i), grid(i + 1)).1).collect();
    let component = |c: usize| columns.iter().map(|v| v[c]).collect::<Vec<_>>();
    assert!(correlation(&component(0), &component(1)).abs() < LIMIT);
    assert!(correlation(&component(0)[1..], &component(0)[..N - 1]).abs() < LIMIT);
}

#[test]
fn the_area_is_that_of_the_path_which_the_increments_trace() {
    // The increments on a fine grid know the integral up to areas of its cells: √(1/12) · 1/4096 here.
    let path = tree(61, 3, (0.0, 1.0, 5));
    for (a, b) in [(0.0, 1.0), (0.125, 0.875), (0.2421875, 0.50390625)] {
        let steps = ((b - a) * 4096.0) as usize;
        let time = |i: usize| a + i as f64 / 4096.0;
        let increments: Vec<f64> = (0..steps).flat_map(|i| ask(&path, time(i), time(i + 1)).0).collect();
        let traced = PiecewiseLinear::from_increments(a, b, 3, &increments);
        let ((_, h), (_, expected)) = (ask(&path, a, b), ask(&traced, a, b));
        for (h, expected) in h.iter().zip(&expected) {
            assert!((h - expected).abs() < 5.0 / 12f64.sqrt() / 4096.0 / (b - a).sqrt(), "[{a}, {b}]: {h} {expected}");
        }
    }
}

#[test]
fn the_area_of_a_given_path_is_that_of_its_lines() {
    // 5, 7, 4 at 0, ½, 1: the mean of B − B(0) is ½(1 + ½) and the increment −1.
    let path = PiecewiseLinear::from_values(0.0, 1.0, 1, vec![5.0, 7.0, 4.0]);
    assert_eq!(ask(&path, 0.0, 1.0), (vec![-1.0], vec![1.25]));
    assert_eq!(ask(&path, 0.5, 0.75), (vec![-1.5], vec![0.0]));
    assert_eq!(ask(&path, 0.3, 0.3), (vec![0.0], vec![0.0]));
}

#[test]
#[should_panic(expected = "of a path that does not know it")]
fn a_tree_of_increments_does_not_make_up_an_area() {
    ask(&BrownianTree::new(Stream::root(0), 1, 0.0, 1.0, 4), 0.0, 0.5);
}
