//! A plain transcription of the equations in double precision, one number at a time: the twin of the kernels.
#![allow(dead_code, reason = "each test binary uses its part")]

use sdebnn_kernels::{Drift, Dynamics, Element, Gradients, Inputs, Method, Problem, Residual, Solver, TimeInput};

/// SplitMix64: numbers for tests.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub fn vector(&mut self, length: usize, size: f64) -> Vec<f64> {
        (0..length).map(|_| size * self.next()).collect()
    }
}

/// An image `[channel][row][column]`.
#[derive(Clone)]
pub struct Image {
    pub shape: [usize; 3],
    pub data: Vec<f64>,
}

impl Image {
    pub fn at(&self, c: usize, y: isize, x: isize) -> f64 {
        let [_, h, w] = self.shape;
        if y < 0 || x < 0 || y as usize >= h || x as usize >= w {
            return 0.0;
        }
        self.data[(c * h + y as usize) * w + x as usize]
    }

    /// The image with a channel of `t` in front.
    pub fn with_time(&self, t: f64) -> Self {
        let [c, h, w] = self.shape;
        let mut data = vec![t; h * w];
        data.extend(&self.data);
        Self { shape: [c + 1, h, w], data }
    }
}

/// Convolution with weights `[out][in][3][3]`, then biases.
pub fn convolution(x: &Image, parameters: &[f64], outputs: usize, stride: usize, pad: usize) -> Image {
    let [inputs, h, w] = x.shape;
    let (oh, ow) = ((h + 2 * pad - 3) / stride + 1, (w + 2 * pad - 3) / stride + 1);
    let mut data = Vec::new();
    for q in 0..outputs {
        for oy in 0..oh {
            for ox in 0..ow {
                let mut sum = parameters[outputs * inputs * 9 + q];
                for c in 0..inputs {
                    for (tap, w) in parameters[(q * inputs + c) * 9..][..9].iter().enumerate() {
                        let y = (stride * oy + tap / 3) as isize - pad as isize;
                        let x_ = (stride * ox + tap % 3) as isize - pad as isize;
                        sum += w * x.at(c, y, x_);
                    }
                }
                data.push(sum);
            }
        }
    }
    Image { shape: [outputs, oh, ow], data }
}

/// Transposed convolution (stride 2, output padding 1) with weights `[in][out][3][3]`, then biases.
pub fn transposed_convolution(x: &Image, parameters: &[f64], outputs: usize) -> Image {
    let [inputs, h, w] = x.shape;
    let (oh, ow) = (2 * h + 2, 2 * w + 2);
    let biases = &parameters[inputs * outputs * 9..][..outputs];
    let mut data: Vec<f64> = biases.iter().flat_map(|&b| vec![b; oh * ow]).collect();
    for c in 0..inputs {
        for y in 0..h {
            for x_ in 0..w {
                for q in 0..outputs {
                    for tap in 0..9 {
                        let to = (q * oh + 2 * y + tap / 3) * ow + 2 * x_ + tap % 3;
                        data[to] += x.at(c, y as isize, x_ as isize) * parameters[(c * outputs + q) * 9 + tap];
                    }
                }
            }
        }
    }
    Image { shape: [outputs, oh, ow], data }
}

/// `f_w(h, t)` for one example.
pub fn drift(drift: &Drift, t: f64, h: &[f64], w: &[f64]) -> Vec<f64> {
    match drift {
        Drift::Dense { sizes, activation, time } => {
            let (mut y, mut w) = (h.to_vec(), w);
            for (layer, ends) in sizes.windows(2).enumerate() {
                if *time == TimeInput::Concat {
                    y.insert(0, t);
                }
                let (inputs, outputs) = (y.len(), ends[1]);
                let (matrix, rest) = w.split_at(inputs * outputs);
                let (b, rest) = rest.split_at(outputs);
                let mut z: Vec<f64> = (0..outputs)
                    .map(|q| (0..inputs).map(|c| matrix[q * inputs + c] * y[c]).sum::<f64>() + b[q])
                    .collect();
                w = rest;
                if *time == TimeInput::Squash {
                    let (a, rest) = rest.split_at(outputs);
                    let (c, rest) = rest.split_at(outputs);
                    let (d, rest) = rest.split_at(outputs);
                    w = rest;
                    for q in 0..outputs {
                        z[q] = z[q] / (1.0 + (-a[q] * t - c[q]).exp()) + d[q] * t;
                    }
                }
                let last = layer + 2 == sizes.len();
                y = z.into_iter().map(|z| if last { z } else { activation.value(z) }).collect();
            }
            y
        }
        Drift::Conv { shape, width, blocks, activation } => {
            let mut y = Image { shape: *shape, data: h.to_vec() };
            let mut w = w;
            let mut layer = |y: &Image, outputs: usize, kind: Option<(usize, usize)>, act: bool| {
                let y = y.with_time(t);
                let (own, rest) = w.split_at(y.shape[0] * outputs * 9 + outputs);
                w = rest;
                let mut z = match kind {
                    Some((stride, pad)) => convolution(&y, own, outputs, stride, pad),
                    None => transposed_convolution(&y, own, outputs),
                };
                if act {
                    z.data.iter_mut().for_each(|z| *z = activation.value(*z));
                }
                z
            };
            for (group, &count) in blocks.iter().enumerate() {
                let channels = y.shape[0];
                let more = group + 1 < blocks.len();
                for block in 0..count {
                    y = layer(&y, *width, Some((1, 1)), true);
                    y = layer(&y, *width, Some((2, 1)), true);
                    y = layer(&y, *width, None, true);
                    y = layer(&y, channels, Some((1, 0)), more || block + 1 < count);
                }
                if more {
                    y = layer(&y, 4 * channels, Some((2, 1)), false);
                }
            }
            y.data
        }
    }
}

/// `s(k(t))`
pub fn factor(dynamics: Dynamics, t: f64) -> f64 {
    match dynamics {
        Dynamics::FirstOrder => 1.0,
        Dynamics::Nesterov { squash, .. } => {
            let k = if t <= 0.0 { 1e300 } else { t.powf(-1.5) * (0.5 * t).exp() };
            squash.value(k)
        }
    }
}

/// The solve of one example; `weights(n)` are the parameters of evaluation `n`.
pub fn solve<'a>(
    problem: &Problem,
    state: &[Vec<f64>],
    xi: f64,
    scale: f64,
    weights: impl Fn(usize) -> &'a [f64],
) -> Vec<Vec<f64>> {
    let mut y = state.to_vec();
    let (mut n, mut h_temp) = (0, y[0].clone());
    let mut field = |t: f64, y: &[Vec<f64>]| -> Vec<Vec<f64>> {
        let factor = factor(problem.dynamics(), t);
        let h: Vec<f64> = y[0].iter().map(|x| factor * x).collect();
        let f = drift(problem.drift(), t, &h, weights(n));
        n += 1;
        let Dynamics::Nesterov { residual, squash } = problem.dynamics() else {
            return vec![f.iter().map(|f| scale * f).collect()];
        };
        let inject = residual == Residual::Skip && n % 2 == 0;
        if residual == Residual::Skip && !inject {
            h_temp = h.clone();
        }
        let dm = (0..h.len()).map(|i| {
            let argument = f[i] + if inject { xi * h_temp[i] } else { 0.0 };
            let outside = if residual == Residual::Direct { xi * h[i] } else { 0.0 };
            scale * (-y[1][i] - squash.value(argument) - outside)
        });
        let dm = dm.collect();
        vec![y[1].iter().map(|&m| scale * squash.value(m)).collect(), dm]
    };
    let axpy = |y: &[Vec<f64>], a: f64, k: &[Vec<f64>]| -> Vec<Vec<f64>> {
        y.iter().zip(k).map(|(y, k)| y.iter().zip(k).map(|(y, k)| y + a * k).collect()).collect()
    };
    for ends in problem.grid().windows(2) {
        let (t, dt) = (ends[0], ends[1] - ends[0]);
        let k0 = field(t, &y);
        y = match problem.method() {
            Method::Euler => axpy(&y, dt, &k0),
            Method::Midpoint => axpy(&y, dt, &field(t + 0.5 * dt, &axpy(&y, 0.5 * dt, &k0))),
            Method::Heun => {
                let k1 = field(ends[1], &axpy(&y, dt, &k0));
                axpy(&axpy(&y, 0.5 * dt, &k0), 0.5 * dt, &k1)
            }
            Method::Sra1 => {
                let k1 = field(t + 0.75 * dt, &axpy(&y, 0.75 * dt, &k0));
                axpy(&axpy(&y, dt / 3.0, &k0), 2.0 * dt / 3.0, &k1)
            }
        };
    }
    y
}

/// Everything a call takes, owned, in double precision.
#[derive(Clone)]
pub struct Case {
    pub problem: Problem,
    pub samples: usize,
    pub batch: usize,
    pub weights: Vec<f64>,
    pub state: Vec<f64>,
    pub xi: f64,
    pub time_scale: Option<Vec<f64>>,
}

impl Case {
    /// Random inputs for a problem, with weights of the size of a fresh network.
    pub fn new(problem: Problem, samples: usize, batch: usize, scaled: bool, seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let weights = numbers.vector(problem.evaluations() * samples * problem.parameters(), 0.4);
        let state = numbers.vector(problem.components() * samples * batch * problem.features(), 1.0);
        let time_scale = scaled.then(|| (0..batch).map(|_| 1.0 + 0.5 * numbers.next()).collect());
        Self { problem, samples, batch, weights, state, xi: 0.7, time_scale }
    }

    /// The final state by the naive twin.
    pub fn naive(&self) -> Vec<f64> {
        let (p, f) = (self.problem.parameters(), self.problem.features());
        let mut result = vec![0.0; self.state.len()];
        for sample in 0..self.samples {
            for example in 0..self.batch {
                let place = |c: usize| ((c * self.samples + sample) * self.batch + example) * f;
                let components = 0..self.problem.components();
                let state: Vec<_> = components.map(|c| self.state[place(c)..place(c) + f].to_vec()).collect();
                let scale = self.time_scale.as_ref().map_or(1.0, |s| s[example]);
                let weights = |n: usize| &self.weights[(n * self.samples + sample) * p..][..p];
                for (c, y) in solve(&self.problem, &state, self.xi, scale, weights).iter().enumerate() {
                    result[place(c)..place(c) + f].copy_from_slice(y);
                }
            }
        }
        result
    }

    /// Final state and gradients (state, weights, ξ) of `Σ probe · final state` by the kernels.
    pub fn kernels<E: Element>(&self, solver: &Solver<E>, probe: &[f64]) -> Outcome {
        let to = |v: &[f64]| v.iter().map(|&x| E::from_f64(x)).collect::<Vec<E>>();
        let from = |v: &[E]| v.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
        let (weights, state, probe) = (to(&self.weights), to(&self.state), to(probe));
        let time_scale = self.time_scale.as_deref().map(to);
        let inputs = Inputs {
            samples: self.samples,
            batch: self.batch,
            weights: &weights,
            state: &state,
            xi: E::from_f64(self.xi),
            time_scale: time_scale.as_deref(),
        };
        let mut last = vec![E::ZERO; state.len()];
        solver.forward(&inputs, &mut last).unwrap();
        let mut recorded = vec![E::ZERO; state.len()];
        let tape = solver.record(&inputs, &mut recorded).unwrap();
        assert_eq!(last, recorded, "recording changes nothing");
        let (mut d_state, mut d_weights, mut d_xi) = (state.clone(), weights.clone(), E::ONE);
        let gradients = Gradients { state: &mut d_state, weights: &mut d_weights, xi: &mut d_xi };
        solver.backward(&inputs, tape, &probe, gradients).unwrap();
        Outcome { last: from(&last), state: from(&d_state), weights: from(&d_weights), xi: d_xi.to_f64() }
    }
}

/// Results of a solve.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub last: Vec<f64>,
    pub state: Vec<f64>,
    pub weights: Vec<f64>,
    pub xi: f64,
}

/// `max |a - b| / max |b|`
pub fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let size = b.iter().fold(1e-300, |m: f64, x| m.max(x.abs()));
    a.iter().zip(b).map(|(a, b)| if (a - b).is_nan() { f64::INFINITY } else { (a - b).abs() }).fold(0.0, f64::max)
        / size
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub fn uniform_grid(steps: usize) -> Vec<f64> {
    (0..=steps).map(|i| i as f64 / steps as f64).collect()
}
