//! The weight path in plain loops, straight from its equations, with reverse-mode gradients step by step.

use sdebnn_kernels::{Method, PosteriorForm};

/// The problem and its parameters.
#[derive(Clone)]
pub struct Naive {
    pub hidden: Vec<usize>,
    pub moving: usize,
    pub time_dependent: bool,
    pub form: PosteriorForm,
    pub sigma: f64,
    pub method: Method,
    pub grid: Vec<f64>,
    pub phi: Vec<f64>,
}

/// Stages, end and KL divergence of one sample.
pub struct Path {
    pub stages: Vec<Vec<f64>>,
    pub end: Vec<f64>,
    pub kl: f64,
}

/// Nodes and weights of the method.
fn tableau(method: Method) -> (Vec<f64>, Vec<f64>) {
    match method {
        Method::Euler => (vec![0.0], vec![1.0]),
        Method::Midpoint => (vec![0.0, 0.5], vec![0.0, 1.0]),
        Method::Heun => (vec![0.0, 1.0], vec![0.5, 0.5]),
        Method::Sra1 => (vec![0.0, 0.75], vec![1.0 / 3.0, 2.0 / 3.0]),
    }
}

fn zip(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()
}

impl Naive {
    fn sizes(&self) -> Vec<usize> {
        let inputs = self.moving + usize::from(self.time_dependent);
        [&[inputs], &self.hidden[..], &[self.moving]].concat()
    }

    pub fn parameters(&self) -> usize {
        self.sizes().windows(2).map(|ends| (ends[0] + 1) * ends[1]).sum()
    }

    /// The input of every layer, then the output.
    fn network(&self, t: f64, w: &[f64]) -> Vec<Vec<f64>> {
        let mut layers = vec![if self.time_dependent { [&[t], w].concat() } else { w.to_vec() }];
        let sizes = self.sizes();
        let mut phi = &self.phi[..];
        for (layer, ends) in sizes.windows(2).enumerate() {
            let (weights, rest) = phi.split_at(ends[0] * ends[1]);
            let (biases, rest) = rest.split_at(ends[1]);
            phi = rest;
            let dot = |row: &[f64]| row.iter().zip(&layers[layer]).map(|(a, b)| a * b).sum::<f64>();
            let output = weights.chunks(ends[0]).zip(biases).map(|(row, bias)| dot(row) + bias);
            let hidden = layer + 2 < sizes.len();
            let output = output.map(|z| if hidden { z.tanh() } else { z }).collect();
            layers.push(output);
        }
        layers
    }

    /// The gradient of `w` for that of the output; adds that of `φ`.
    fn network_back(&self, layers: &[Vec<f64>], mut gradient: Vec<f64>, d_phi: &mut [f64]) -> Vec<f64> {
        let sizes = self.sizes();
        let mut end = self.phi.len();
        for layer in (0..sizes.len() - 1).rev() {
            let (inputs, outputs) = (sizes[layer], sizes[layer + 1]);
            if layer + 2 < sizes.len() {
                gradient = zip(&gradient, &layers[layer + 1], |g, a| g * (1.0 - a * a));
            }
            let start = end - (inputs + 1) * outputs;
            let mut earlier = vec![0.0; inputs];
            for output in 0..outputs {
                for input in 0..inputs {
                    let place = start + output * inputs + input;
                    d_phi[place] += gradient[output] * layers[layer][input];
                    earlier[input] += gradient[output] * self.phi[place];
                }
                d_phi[start + inputs * outputs + output] += gradient[output];
            }
            (gradient, end) = (earlier, start);
        }
        gradient[usize::from(self.time_dependent)..].to_vec()
    }

    fn drift(&self, network: &[f64], w: &[f64]) -> Vec<f64> {
        match self.form {
            PosteriorForm::Residual => zip(network, w, |n, w| n - w),
            PosteriorForm::Literal => zip(network, w, |n, w| n + w),
        }
    }

    fn u(&self, network: &[f64], w: &[f64]) -> Vec<f64> {
        match self.form {
            PosteriorForm::Residual => network.iter().map(|n| n / self.sigma).collect(),
            PosteriorForm::Literal => zip(network, w, |n, w| (n + 2.0 * w) / self.sigma),
        }
    }

    /// One sample, `noise` being `[step][increment][M]`.
    pub fn solve(&self, initial: &[f64], noise: &[Vec<f64>]) -> Path {
        let (nodes, weights) = tableau(self.method);
        let mut path = Path { stages: Vec::new(), end: initial.to_vec(), kl: 0.0 };
        for (ends, noise) in self.grid.windows(2).zip(noise.chunks(self.method.increments())) {
            let (y, dt) = (path.end.clone(), ends[1] - ends[0]);
            let mut slopes: Vec<Vec<f64>> = Vec::new();
            path.end = zip(&y, &noise[noise.len() - 1], |y, noise| y + self.sigma * noise);
            for (&c, &b) in nodes.iter().zip(&weights) {
                // The first stage's node is 0, so the second is the first that is moved by noise.
                let mut w = zip(&y, &noise[0], |y, noise| y + c * self.sigma * noise);
                if let Some(slope) = slopes.last() {
                    w = zip(&w, slope, |w, slope| w + c * dt * slope);
                }
                let network = self.network(ends[0] + c * dt, &w).pop().expect("an output");
                let slope = self.drift(&network, &w);
                path.end = zip(&path.end, &slope, |end, slope| end + b * dt * slope);
                path.kl += b * dt * 0.5 * self.u(&network, &w).iter().map(|u| u * u).sum::<f64>();
                slopes.push(slope);
                path.stages.push(w);
            }
        }
        path
    }

    /// The gradients of the initial weights and (added) of `φ` for those of the stages, the end and the KL divergence.
    pub fn gradient(&self, path: &Path, stages: &[Vec<f64>], end: &[f64], kl: f64, d_phi: &mut [f64]) -> Vec<f64> {
        let (nodes, weights) = tableau(self.method);
        let mut d_y = end.to_vec();
        for (step, ends) in self.grid.windows(2).enumerate().rev() {
            let (d_end, dt) = (d_y.clone(), ends[1] - ends[0]);
            let mut d_slopes: Vec<Vec<f64>> =
                weights.iter().map(|b| d_end.iter().map(|end| b * dt * end).collect()).collect();
            for stage in (0..nodes.len()).rev() {
                let index = step * nodes.len() + stage;
                let w = &path.stages[index];
                let layers = self.network(ends[0] + nodes[stage] * dt, w);
                let output = layers.last().expect("an output");
                let d_u: Vec<f64> = self.u(output, w).iter().map(|u| kl * weights[stage] * dt * u).collect();
                let d_network = zip(&d_slopes[stage], &d_u, |slope, u| slope + u / self.sigma);
                let mut d_w = self.network_back(&layers, d_network, d_phi);
                for (m, d_w) in d_w.iter_mut().enumerate() {
                    *d_w += stages[index][m]
                        + match self.form {
                            PosteriorForm::Residual => -d_slopes[stage][m],
                            PosteriorForm::Literal => d_slopes[stage][m] + 2.0 / self.sigma * d_u[m],
                        };
                }
                if stage > 0 {
                    d_slopes[stage - 1] = zip(&d_slopes[stage - 1], &d_w, |s, w| s + nodes[stage] * dt * w);
                }
                d_y = zip(&d_y, &d_w, |y, w| y + w);
            }
        }
        d_y
    }
}
