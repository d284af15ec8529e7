//! Orders of convergence, measured by the slope of log error against log step, against closed forms.

mod common;

use common::{assert_close, assert_mean, assert_order, measured_order, moments, numbers, rms, tensor};
use sdebnn::activation::Activation;
use sdebnn::brownian::{BrownianPath, BrownianTree, LevyTree, PiecewiseLinear};
use sdebnn::burn::tensor::{DType, Device};
use sdebnn::controller::SolverConfig;
use sdebnn::drift::{DenseNet, Drift, TimeInput};
use sdebnn::dynamics::{Dynamics, FirstOrder, HeavyBall, Nesterov, Residual};
use sdebnn::method::Method;
use sdebnn::mlp::Mlp;
use sdebnn::random::Stream;
use sdebnn::solve::{Problem, Solution};
use sdebnn::weights::{Partition, PosteriorForm, WeightProcess};

/// Methods that know of the path's increments alone.
const OF_INCREMENTS: [Method; 3] = [Method::Euler, Method::Midpoint, Method::Heun];

fn prior(sigma: f64) -> WeightProcess<'static> {
    WeightProcess { sigma, network: None, form: PosteriorForm::Residual, time_dependent: false, martingale: false }
}

/// `h' = w₀ h + w₁` on one feature with `w` under the Ornstein–Uhlenbeck prior on [0, T], one sample a path.
fn solve_under_prior<P: BrownianPath>(
    (method, steps, t1): (Method, usize, f64),
    paths: &[P],
    sigma: f64,
    (w0, h0): ([f64; 2], f64),
) -> Solution {
    let drift = DenseNet::new(&[1, 1], Activation::Identity, TimeInput::None);
    let partition = Partition::of_layers(drift.layout(), |_| true);
    let device = Device::flex();
    let problem = Problem {
        drift: &drift,
        dynamics: &FirstOrder,
        process: prior(sigma),
        partition: &partition,
        w0: tensor(&w0, [2], &device),
    };
    let solver = SolverConfig { method, steps, t1, ..Default::default() };
    let input = tensor(&vec![h0; paths.len()], [paths.len(), 1, 1], &device);
    problem.solve(&solver, input, paths).expect("a solve")
}

/// The activations at `T` of a network whose weights do not move.
fn solve_ode(
    dynamics: &dyn Dynamics,
    weights: &[f64],
    inputs: &[Vec<f64>],
    (method, steps, t0, t1): (Method, usize, f64, f64),
) -> Vec<f64> {
    let features = inputs[0].len();
    let drift = DenseNet::new(&[features, features], Activation::Identity, TimeInput::None);
    let partition = Partition::of_layers(drift.layout(), |_| false);
    let device = Device::flex();
    let w0 = tensor(weights, [weights.len()], &device);
    let problem = Problem { drift: &drift, dynamics, process: prior(1.0), partition: &partition, w0 };
    let solver = SolverConfig { method, steps, t0, t1, ..Default::default() };
    let path = BrownianTree::new(Stream::root(0), 0, t0, t1, steps);
    let input = tensor(&inputs.concat(), [1, inputs.len(), features], &device);
    numbers(problem.solve(&solver, input, &[path]).expect("a solve").output)
}

#[track_caller]
fn assert_ode_order(
    dynamics: &dyn Dynamics,
    (weights, inputs, exact): (&[f64], &[Vec<f64>], &[f64]),
    (method, t0, t1): (Method, f64, f64),
    order: f64,
) {
    let steps = [32, 64, 128, 256];
    let error = |&n: &usize| {
        let found = solve_ode(dynamics, weights, inputs, (method, n, t0, t1));
        rms(found.iter().zip(exact).map(|(a, b)| a - b))
    };
    let errors: Vec<f64> = steps.iter().map(error).collect();
    assert!(errors[3] < 0.02 / f64::from(1 << (2 * (order as i32 - 1))), "{method:?} does not converge: {errors:?}");
    assert_order(&steps, &errors, order, &format!("{dynamics:?} by {method:?}"));
}

/// The order for smooth fields.
fn smooth_order(method: Method) -> f64 {
    if method == Method::Euler { 1.0 } else { 2.0 }
}

#[test]
fn weights_and_activations_converge_pathwise_with_strong_order_one() {
    // Additive noise: Euler–Maruyama has strong order 1. Methods that know nothing of the path inside a step but its increment cannot
    // have more: midpoint and Heun leave σ ∫ (½Δt − s) dB in every step.
    const FINE: usize = 4096;
    let (sigma, t1, w0, h0) = (0.8, 1.0, [0.7, -0.4], 0.9);
    let dt = t1 / FINE as f64;
    let (mut paths, mut exact_w, mut exact_h) = (Vec::new(), Vec::new(), Vec::new());
    for sample in 0..300 {
        let tree = BrownianTree::new(Stream::root(5).child(sample), 2, 0.0, t1, FINE);
        let (mut b, mut w, mut db) = ([0.0; 2], w0, [0.0; 2]);
        let mut values = vec![0.0; 2];
        // h(T) = e^{I(T)} (h0 + ∫ e^{−I} w₁ ds), I = ∫ w₀ ds = w₀(0) − w₀(t) + σ B(t).
        let (mut integral, mut before) = (0.0, w[1]);
        let mut growth = 0.0f64;
        for i in 0..FINE {
            tree.increment(i as f64 * dt, (i + 1) as f64 * dt, &mut db);
            for k in 0..2 {
                b[k] += db[k];
                w[k] = (-dt).exp() * w[k] + sigma * (-0.5 * dt).exp() * db[k];
            }
            values.extend(b);
            growth = w0[0] - w[0] + sigma * b[0];
            let now = (-growth).exp() * w[1];
            integral += 0.5 * dt * (before + now);
            before = now;
        }
        exact_w.extend(w);
        exact_h.push(growth.exp() * (h0 + integral));
        paths.push(PiecewiseLinear::from_values(0.0, t1, 2, values));
    }
    let steps = [8, 16, 32, 64];
    for method in OF_INCREMENTS {
        let (mut errors_w, mut errors_h) = (Vec::new(), Vec::new());
        for n in steps {
            let solution = solve_under_prior((method, n, t1), &paths, sigma, (w0, h0));
            errors_w.push(rms(numbers(solution.weights).iter().zip(&exact_w).map(|(a, b)| a - b)));
            errors_h.push(rms(numbers(solution.output).iter().zip(&exact_h).map(|(a, b)| a - b)));
        }
        assert_order(&steps, &errors_w, 1.0, &format!("weights by {method:?}"));
        assert_order(&steps, &errors_h, 1.0, &format!("activations by {method:?}"));
        // The constants: the local error is σ ∫ (Δt − s) dB with Euler (variance Δt³/3), σ ∫ (½Δt − s) dB with the others (Δt³/12).
        if method != Method::Euler {
            let variance = sigma * sigma / 12.0 * (1.0 - (-2.0 * t1).exp()) / 2.0;
            let ratio = errors_w[3] * 64.0 / variance.sqrt();
            assert!((ratio - 1.0).abs() < 0.1, "{method:?}: {ratio} of the predicted error");
        }
    }
}

#[test]
fn areas_lift_weights_and_activations_to_the_order_of_smooth_fields_where_the_noise_enters_linearly() {
    // The drift is linear in the weights, so SRA1 leaves σ ∫ ½ (Δt − s)² dB in every step: order 2.
    const FINE: usize = 2048;
    let (sigma, t1, w0, h0) = (0.8, 1.0, [0.7, -0.4], 0.9);
    let dt = t1 / FINE as f64;
    let (mut paths, mut exact_w, mut exact_h) = (Vec::new(), Vec::new(), Vec::new());
    for sample in 0..200 {
        let tree = LevyTree::new(Stream::root(15).child(sample), 2, 0.0, t1, FINE);
        let (mut w, mut b, mut db, mut area) = (w0, 0.0, [0.0; 2], [0.0; 2]);
        // As for the other methods, with what the areas know of the integrals inside a step.
        let (mut integral, mut growth, mut before) = (0.0, 0.0f64, w[1]);
        for i in 0..FINE {
            tree.increment_and_area(i as f64 * dt, (i + 1) as f64 * dt, &mut db, &mut area);
            for k in 0..2 {
                w[k] = (-dt).exp() * w[k] + sigma * ((1.0 - (-dt).exp()) / dt * db[k] - dt * area[k]);
            }
            b += db[0];
            let middle = -0.5 * growth;
            growth = w0[0] - w[0] + sigma * b;
            let now = (-growth).exp() * w[1];
            integral += dt * (0.5 * (before + now) + (middle - 0.5 * growth).exp() * sigma * area[1]);
            before = now;
        }
        exact_w.extend(w);
        exact_h.push(growth.exp() * (h0 + integral));
        paths.push(tree);
    }
    let steps = [8, 16, 32, 64];
    let (mut errors_w, mut errors_h) = (Vec::new(), Vec::new());
    for n in steps {
        let solution = solve_under_prior((Method::Sra1, n, t1), &paths, sigma, (w0, h0));
        errors_w.push(rms(numbers(solution.weights).iter().zip(&exact_w).map(|(a, b)| a - b)));
        errors_h.push(rms(numbers(solution.output).iter().zip(&exact_h).map(|(a, b)| a - b)));
    }
    assert_order(&steps, &errors_w, 2.0, "weights by SRA1");
    assert_order(&steps, &errors_h, 2.0, "activations by SRA1");
}

/// The strong orders of activations, weights and KL divergence by a method, against a very fine solve by it on the same paths, of a problem
/// that is linear in nothing: `f = tanh(w₀ h + w₁) w₂ + w₃` and a posterior by a tanh network.
fn strong_orders(dynamics: &dyn Dynamics, method: Method) -> [f64; 3] {
    const FINE: usize = 4096;
    let device = Device::flex();
    let drift = DenseNet::new(&[1, 1, 1], Activation::Tanh, TimeInput::None);
    let partition = Partition::of_layers(drift.layout(), |_| true);
    let network = Mlp::init(&[4, 6, 4], Stream::root(17), &device, DType::F64);
    let process = WeightProcess { network: Some(&network), ..prior(2.0) };
    let w0 = tensor(&[1.5, -0.4, 1.2, 0.3], [4], &device);
    let problem = Problem { drift: &drift, dynamics, process, partition: &partition, w0 };
    let paths: Vec<LevyTree> = (0..200).map(|s| LevyTree::new(Stream::root(18).child(s), 4, 0.0, 1.0, FINE)).collect();
    let solve = |steps| {
        let solver = SolverConfig { method, steps, ..Default::default() };
        let input = tensor(&vec![0.9; paths.len()], [paths.len(), 1, 1], &device);
        let Solution { output, weights, kl, .. } = problem.solve(&solver, input, &paths).expect("a solve");
        [numbers(output), numbers(weights), numbers(kl)]
    };
    let exact = solve(FINE);
    let steps = [16, 32, 64, 128];
    let errors = steps.map(|n| {
        let found = solve(n);
        [0, 1, 2].map(|k| rms(found[k].iter().zip(&exact[k]).map(|(a, b)| a - b)))
    });
    [0, 1, 2].map(|k| measured_order(&steps, &errors.map(|e| e[k])))
}

fn nesterov(residual: Residual) -> Nesterov {
    Nesterov { residual, squash: Activation::Tanh, xi: tensor(&[1.0], [1], &Device::flex()) }
}

#[test]
fn areas_give_strong_order_three_halves_where_increments_give_one() {
    for dynamics in [&FirstOrder as &dyn Dynamics, &nesterov(Residual::Direct), &nesterov(Residual::None)] {
        for order in strong_orders(dynamics, Method::Sra1) {
            assert!((1.4..2.1).contains(&order), "{dynamics:?} by SRA1: order {order}");
        }
    }
    for order in strong_orders(&FirstOrder, Method::Midpoint) {
        assert!((0.85..1.2).contains(&order), "by midpoint: order {order}");
    }
}

#[test]
fn the_residual_skip_holds_activations_at_order_one_whatever_is_known_of_the_path() {
    let [activations, weights, kl] = strong_orders(&nesterov(Residual::Skip), Method::Sra1);
    assert!((0.85..1.2).contains(&activations), "activations: order {activations}");
    assert!(weights > 1.4 && kl > 1.4, "weights and KL divergence do not see it: {weights} {kl}");
}

#[test]
fn mean_and_variance_of_the_weights_converge_with_the_weak_order() {
    // The scheme is linear: no noise gives its mean, and unit increments in one step at a time give its variance, without sampling.
    let (sigma, t1, w0) = (0.8, 1.5f64, [0.7, -0.4]);
    let exact_variance = sigma * sigma * (1.0 - (-2.0 * t1).exp()) / 2.0;
    let steps = [16, 32, 64, 128];
    for method in OF_INCREMENTS {
        let (mut means, mut variances) = (Vec::new(), Vec::new());
        for n in steps {
            let kick = |step: usize| {
                let increments: Vec<f64> = (0..n).flat_map(|i| [f64::from(u8::from(i == step)), 0.0]).collect();
                PiecewiseLinear::from_increments(0.0, t1, 2, &increments)
            };
            let paths: Vec<PiecewiseLinear> = (0..=n).map(kick).collect();
            let w = numbers(solve_under_prior((method, n, t1), &paths, sigma, (w0, 0.0)).weights);
            let mean = w[2 * n];
            means.push((mean - w0[0] * (-t1).exp()).abs());
            let variance: f64 = (0..n).map(|i| (w[2 * i] - mean).powi(2) * t1 / n as f64).sum();
            variances.push((variance - exact_variance).abs());
        }
        assert_order(&steps, &means, smooth_order(method), &format!("mean by {method:?}"));
        assert_order(&steps, &variances, smooth_order(method), &format!("variance by {method:?}"));
    }
}

#[test]
fn sampled_weights_have_mean_and_variance_of_the_ornstein_uhlenbeck_process() {
    let (sigma, t1, w0) = (0.8, 1.5f64, [0.7, -0.4]);
    let paths: Vec<BrownianTree> =
        (0..20_000).map(|s| BrownianTree::new(Stream::root(6).child(s), 2, 0.0, t1, 32)).collect();
    let w = numbers(solve_under_prior((Method::Midpoint, 32, t1), &paths, sigma, (w0, 0.0)).weights);
    let variance = sigma * sigma * (1.0 - (-2.0 * t1).exp()) / 2.0;
    for (k, start) in w0.iter().enumerate() {
        let component: Vec<f64> = w.iter().skip(k).step_by(2).copied().collect();
        assert_mean(&component, start * (-t1).exp(), 4.0, "mean of w(T)");
        let centre = moments(&component).0;
        let squares: Vec<f64> = component.iter().map(|v| (v - centre).powi(2)).collect();
        assert_mean(&squares, variance, 4.0, "variance of w(T)");
    }
}

#[test]
fn a_linear_neural_ode_converges_to_its_matrix_exponential() {
    // h' = W (h − c), W = [[a, −b], [b, a]]: h(T) = c + e^{aT} R(bT) (h0 − c).
    let (a, b, c, t1) = (-0.5, 2.0, [0.3, -0.2], 1.3f64);
    let weights = [a, -b, b, a, -a * c[0] + b * c[1], -b * c[0] - a * c[1]];
    let inputs = [vec![1.0, 0.0], vec![-0.4, 0.8]];
    let (cos, sin, growth) = ((b * t1).cos(), (b * t1).sin(), (a * t1).exp());
    let exact: Vec<f64> = inputs
        .iter()
        .flat_map(|h| {
            let d = [h[0] - c[0], h[1] - c[1]];
            [c[0] + growth * (cos * d[0] - sin * d[1]), c[1] + growth * (sin * d[0] + cos * d[1])]
        })
        .collect();
    for method in Method::ALL {
        assert_ode_order(&FirstOrder, (&weights, &inputs, &exact), (method, 0.0, t1), smooth_order(method));
    }
}

#[test]
fn heavy_ball_momentum_converges_to_the_damped_oscillator() {
    // h'' = −γ h' − ω² h, at rest at first: h = e^{−γt/2} (cos Ωt + γ/(2Ω) sin Ωt) h0, Ω² = ω² − γ²/4.
    let (gamma, omega, t1) = (0.7, 2.5, 1.6);
    let ring: f64 = (omega * omega - gamma * gamma / 4.0f64).sqrt();
    let factor = (-gamma * t1 / 2.0).exp() * ((ring * t1).cos() + gamma / (2.0 * ring) * (ring * t1).sin());
    let inputs = [vec![1.0], vec![-0.6]];
    let exact = [factor, -0.6 * factor];
    for method in Method::ALL {
        let dynamics = HeavyBall { damping: gamma };
        let problem = (&[-omega * omega, 0.0][..], &inputs[..], &exact[..]);
        assert_ode_order(&dynamics, problem, (method, 0.0, t1), smooth_order(method));
    }
}

/// `s(k(T)) x(T)` of `x' = tanh m`, `m' = −m − pull(h)`, `h = tanh(t^{−3/2} e^{t/2}) x`, by the classical Runge–Kutta method.
fn nesterov_by_runge_kutta(x0: f64, t0: f64, t1: f64, pull: &dyn Fn(f64) -> f64) -> f64 {
    const STEPS: usize = 4000;
    let factor = |t: f64| (t.powf(-1.5) * (0.5 * t).exp()).tanh();
    let field = |t: f64, [x, m]: [f64; 2]| [m.tanh(), -m - pull(factor(t) * x)];
    let plus = |y: [f64; 2], c: f64, k: [f64; 2]| [y[0] + c * k[0], y[1] + c * k[1]];
    let dt = (t1 - t0) / STEPS as f64;
    let mut y = [x0, 0.0];
    for i in 0..STEPS {
        let t = t0 + i as f64 * dt;
        let a = field(t, y);
        let b = field(t + 0.5 * dt, plus(y, 0.5 * dt, a));
        let c = field(t + 0.5 * dt, plus(y, 0.5 * dt, b));
        let d = field(t + dt, plus(y, dt, c));
        y = [0, 1].map(|k| y[k] + dt / 6.0 * (a[k] + 2.0 * b[k] + 2.0 * c[k] + d[k]));
    }
    factor(t1) * y[0]
}

const NESTEROV: (f64, f64, f64) = (1.4, 0.3, 0.8);

#[track_caller]
fn assert_nesterov_order(residual: Residual, method: Method, order: f64, pull: &dyn Fn(f64) -> f64) {
    let (a, b, xi) = NESTEROV;
    let (t0, t1) = (0.4, 1.9);
    let inputs = [vec![0.9], vec![-1.3], vec![0.2]];
    let exact: Vec<f64> = inputs.iter().map(|x| nesterov_by_runge_kutta(x[0], t0, t1, pull)).collect();
    let dynamics = Nesterov { residual, squash: Activation::Tanh, xi: tensor(&[xi], [1], &Device::flex()) };
    assert_ode_order(&dynamics, (&[a, b], &inputs, &exact), (method, t0, t1), order);
}

#[test]
fn nesterov_without_and_with_direct_residual_keeps_the_order_of_the_method() {
    let (a, b, xi) = NESTEROV;
    for method in Method::ALL {
        assert_nesterov_order(Residual::None, method, smooth_order(method), &|h| (a * h + b).tanh());
        assert_nesterov_order(Residual::Direct, method, smooth_order(method), &|h| (a * h + b).tanh() + xi * h);
    }
}

#[test]
fn nesterov_skip_by_midpoint_drops_to_order_one_and_converges_to_epsilon_always_one() {
    let (a, b, xi) = NESTEROV;
    assert_nesterov_order(Residual::Skip, Method::Midpoint, 1.0, &|h| (a * h + b + xi * h).tanh());
}

#[test]
fn nesterov_skip_by_heun_and_euler_converges_to_the_mean_of_epsilon_zero_and_one() {
    let (a, b, xi) = NESTEROV;
    let mean = |h: f64| 0.5 * ((a * h + b).tanh() + (a * h + b + xi * h).tanh());
    assert_nesterov_order(Residual::Skip, Method::Heun, 1.0, &mean);
    assert_nesterov_order(Residual::Skip, Method::Euler, 1.0, &mean);
}

#[test]
fn nesterov_skip_by_sra1_converges_with_order_one_to_two_thirds_of_epsilon_one() {
    let (a, b, xi) = NESTEROV;
    let mixture = |h: f64| ((a * h + b).tanh() + 2.0 * (a * h + b + xi * h).tanh()) / 3.0;
    assert_nesterov_order(Residual::Skip, Method::Sra1, 1.0, &mixture);
}

#[test]
fn nesterov_starts_at_zero_from_the_limit_of_its_squashing_function() {
    let xi = tensor(&[1.0], [1], &Device::flex());
    let factor = |squash, t| Nesterov { residual: Residual::None, squash, xi: xi.clone() }.factor(t);
    assert_eq!((factor(Activation::Tanh, 0.0), factor(Activation::HardTanhHalf, 0.0)), (1.0, 0.5));
    assert!(factor(Activation::Softplus, 0.0).is_nan());
    for t in [1e-3, 0.2, 0.9, 2.5f64] {
        let k = t.powf(-1.5) * (t / 2.0).exp();
        assert_close(factor(Activation::Tanh, t), k.tanh(), 1e-15, "tanh");
        assert_close(factor(Activation::HardTanhHalf, t), k.min(0.5), 1e-15, "hard tanh");
        assert_close(factor(Activation::Softplus, t), k + (-k).exp().ln_1p(), 1e-15, "softplus");
        assert_close(factor(Activation::Silu, t), k / (1.0 + (-k).exp()), 1e-15, "silu");
    }
}
