//! Every golden case, in float64, through both engines: values to 1e-9, gradients to 1e-8, adaptive cases with exactly the recorded attempts.
//!
//! `SDEBNN_FIXTURES=DIR` runs the cases of another directory.

use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};
use sdebnn::activation::Activation;
use sdebnn::brownian::PiecewiseLinear;
use sdebnn::burn::module::Param;
use sdebnn::burn::tensor::{DType, Device, Gradients, Int, Tensor, TensorData};
use sdebnn::config::{DriftConfig, DynamicsConfig, HeadConfig, ModelConfig, WeightsConfig};
use sdebnn::controller::{Controller, SolverConfig};
use sdebnn::engine::Engine;
use sdebnn::likelihood::{Likelihood, Scale, Target};
use sdebnn::mlp::{Affine, Mlp};
use sdebnn::model::{Law, SdeBnn};
use sdebnn::random::Stream;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const VALUE: f64 = 1e-9;
const GRADIENT: f64 = 1e-8;

fn directory() -> PathBuf {
    std::env::var_os("SDEBNN_FIXTURES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"), PathBuf::from)
}

#[test]
fn golden() {
    let directory = directory();
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)
        .unwrap_or_else(|e| panic!("{}: {e}", directory.display()))
        .map(|entry| entry.expect("a readable directory").path())
        .filter(|path| path.extension().is_some_and(|e| e == "safetensors"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no *.safetensors in {}", directory.display());
    let mut failures = Vec::new();
    for file in &files {
        let case = Case::read(file);
        // An adaptive solve by Euler has no kernels.
        let without = case.meta.adaptive && case.meta.method == "euler";
        let engines = if without { &[Engine::Reference][..] } else { &[Engine::Reference, Engine::Fused] };
        for &engine in engines {
            let problems = case.run(engine);
            println!("{} {} {engine:?}", if problems.is_empty() { "ok    " } else { "FAILED" }, case.meta.name);
            failures.extend(problems.into_iter().map(|p| format!("{} {engine:?}: {p}", case.meta.name)));
        }
    }
    assert!(failures.is_empty(), "{} differences in {} cases:\n{}", failures.len(), files.len(), failures.join("\n"));
}

/// The settings of a case, in the generator's words.
#[derive(Deserialize)]
struct Meta {
    name: String,
    kind: String,
    residual: String,
    xi: f64,
    sf: String,
    sigma: f64,
    phi_time: bool,
    method: String,
    #[serde(rename = "T")]
    t1: f64,
    #[serde(default)]
    steps: usize,
    adaptive: bool,
    #[serde(default)]
    dt0: f64,
    #[serde(default)]
    atol: f64,
    #[serde(default)]
    rtol: f64,
    aug: usize,
    kl_coef: f64,
    noise_std: f64,
    head: String,
    head_hidden: usize,
    n_out: usize,
    loss: String,
    fw: Vec<usize>,
    net: String,
    act: String,
    #[serde(default)]
    hidden: usize,
    #[serde(default)]
    blocks: Vec<usize>,
    #[serde(default)]
    sizes: Vec<usize>,
    #[serde(default)]
    time: String,
    nfe_f: usize,
}

struct Case {
    meta: Meta,
    bytes: Vec<u8>,
}

/// A name in a configuration, as the value that it stands for.
fn named<T: DeserializeOwned>(name: &str) -> T {
    let name = if name == "hardtanh_half" { "hard-tanh-half" } else { name };
    serde_json::from_value(Value::from(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

impl Case {
    fn read(file: &Path) -> Self {
        let bytes = std::fs::read(file).expect("a readable case");
        let (_, header) = SafeTensors::read_metadata(&bytes).expect("a safetensors file");
        let meta = &header.metadata().as_ref().expect("metadata")["meta"];
        let meta = serde_json::from_str(meta).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        Self { meta, bytes }
    }

    /// A tensor's shape and numbers.
    fn get(&self, key: &str) -> Option<(Vec<usize>, Vec<f64>)> {
        let tensors = SafeTensors::deserialize(&self.bytes).expect("a safetensors file");
        let view = tensors.tensor(key).ok()?;
        let words = view.data().chunks_exact(8).map(|b| <[u8; 8]>::try_from(b).expect("8 bytes"));
        let values = match view.dtype() {
            Dtype::F64 => words.map(f64::from_le_bytes).collect(),
            Dtype::I64 => words.map(|b| i64::from_le_bytes(b) as f64).collect(),
            other => panic!("{key} is {other:?}"),
        };
        Some((view.shape().to_vec(), values))
    }

    fn numbers(&self, key: &str) -> Vec<f64> {
        self.get(key).unwrap_or_else(|| panic!("{key} is missing")).1
    }

    fn tensor<const D: usize>(&self, key: &str, device: &Device) -> Tensor<D> {
        let (shape, values) = self.get(key).unwrap_or_else(|| panic!("{key} is missing"));
        Tensor::from_data(TensorData::new(values, shape), (device, DType::F64))
    }

    fn mlp(&self, prefix: &str, device: &Device) -> Mlp {
        let keys = (0..).map(|i| (format!("{prefix}.{}", 2 * i), format!("{prefix}.{}", 2 * i + 1)));
        let layers = keys.take_while(|(weight, _)| self.get(weight).is_some()).map(|(weight, bias)| Affine {
            weight: Param::from_tensor(self.tensor(&weight, device)),
            bias: Param::from_tensor(self.tensor(&bias, device)),
        });
        Mlp { layers: layers.collect() }
    }

    fn config(&self, engine: Engine) -> ModelConfig {
        let m = &self.meta;
        ModelConfig {
            augment: m.aug,
            dynamics: match m.kind.as_str() {
                "sdebnn" => DynamicsConfig::FirstOrder {},
                "nesterov" => DynamicsConfig::Nesterov {
                    residual: named(&m.residual),
                    squash: named(&m.sf),
                    xi: m.xi,
                    learn_xi: true,
                },
                other => panic!("dynamics {other}"),
            },
            drift: match m.net.as_str() {
                "conv" => DriftConfig::Conv { width: m.hidden, blocks: m.blocks.clone(), activation: named(&m.act) },
                "mlp" => DriftConfig::Dense {
                    hidden: m.sizes[1..m.sizes.len() - 1].to_vec(),
                    activation: named(&m.act),
                    time: named(&m.time),
                },
                other => panic!("drift {other}"),
            },
            weights: WeightsConfig {
                sigma: m.sigma,
                hidden: m.fw.clone(),
                time_dependent: m.phi_time,
                posterior: Default::default(),
                stochastic: Default::default(),
                estimator: Default::default(),
            },
            solver: if m.adaptive {
                SolverConfig {
                    controller: Controller::StepDoubling,
                    engine,
                    method: named(&m.method),
                    t1: m.t1,
                    atol: m.atol,
                    rtol: m.rtol,
                    initial_step: m.dt0,
                    ..Default::default()
                }
            } else {
                SolverConfig { engine, method: named(&m.method), t1: m.t1, steps: m.steps, ..Default::default() }
            },
            head: match m.head.as_str() {
                "none" => HeadConfig::First {},
                "linear" => HeadConfig::Linear {},
                "mlp" => HeadConfig::Mlp { hidden: m.head_hidden },
                other => panic!("head {other}"),
            },
            likelihood: match m.loss.as_str() {
                "xent" => Likelihood::Categorical,
                "gauss" => Likelihood::Gaussian(Scale { scale: m.noise_std, learn: false }),
                "mse" => Likelihood::SquaredError,
                other => panic!("loss {other}"),
            },
        }
    }

    fn model(&self, engine: Engine, device: &Device) -> SdeBnn {
        let (shape, _) = self.get("x").expect("x");
        let config = self.config(engine);
        let mut model = SdeBnn::new(&config, &shape[1..], self.meta.n_out, Stream::root(0), device, DType::F64)
            .unwrap_or_else(|e| panic!("{}: {e}", self.meta.name));
        model.w0 = Param::from_tensor(self.tensor("w0", device));
        model.phi = Some(self.mlp("phi", device));
        if self.meta.head != "none" {
            model.head = Some(self.mlp("proj", device));
        }
        model
    }

    fn path(&self) -> PiecewiseLinear {
        let dim = self.numbers("w0").len();
        if self.meta.adaptive {
            return PiecewiseLinear::from_values(0.0, self.meta.t1, dim, self.numbers("W_grid"));
        }
        PiecewiseLinear::from_increments(0.0, self.meta.t1, dim, &self.numbers("dW"))
    }

    /// What differs.
    fn run(&self, engine: Engine) -> Vec<String> {
        let device = Device::flex().autodiff();
        let model = self.model(engine, &device);
        let (shape, _) = self.get("x").expect("x");
        let (batch, width) = (shape[0], shape[1..].iter().product::<usize>());
        let x = Tensor::<1>::from_data(TensorData::new(self.numbers("x"), [batch * width]), (&device, DType::F64))
            .reshape([batch, width])
            .detach()
            .require_grad();
        let target = match self.meta.loss.as_str() {
            "xent" => {
                let classes: Vec<i64> = self.numbers("target").iter().map(|&v| v as i64).collect();
                Target::Classes(Tensor::<1, Int>::from_data(TensorData::new(classes, [batch]), (&device, DType::I64)))
            }
            _ => Target::Values(self.tensor("target", &device)),
        };
        let mut check = Check { case: self, problems: Vec::new() };

        let path = [self.path()];
        let forward = model.forward(x.clone(), Law::Posterior, &path).expect("a solve");
        let loss = model.loss(x.clone(), &target, self.meta.kl_coef, &path).expect("a solve");
        check.close("hT", numbers(forward.solution.output.clone()), VALUE);
        check.close("wT", numbers(forward.solution.weights.clone()), VALUE);
        check.close("kl", numbers(forward.solution.kl.clone()), VALUE);
        check.close("out", numbers(forward.outputs), VALUE);
        check.close("nll", numbers(loss.nll.clone()), VALUE);
        check.close("loss", numbers(loss.total.clone()), VALUE);
        check.equal("drift evaluations", forward.solution.nfe.drift, self.meta.nfe_f);
        if self.meta.adaptive {
            let attempts = &forward.solution.attempts;
            let flat: Vec<f64> =
                attempts.iter().flat_map(|a| [a.t, a.dt, a.error, f64::from(u8::from(a.accepted))]).collect();
            check.equal("attempts", attempts.len(), self.numbers("steps").len() / 4);
            // The error is a small difference of close numbers.
            check.close("steps", flat, 1e-7);
        }

        let input = Tensor::cat(vec![x.clone(), x.zeros_like().repeat_dim(1, self.meta.aug + 1)], 1);
        let input = input.narrow(1, 0, width + self.meta.aug * width / shape[1]);
        let w0 = model.w0.val().unsqueeze::<2>();
        check.close("probe.net", numbers(model.drift().eval(0.3, input.unsqueeze(), w0.clone())), VALUE);
        let phi = model.phi.as_ref().expect("NN_φ");
        let phi_input = if self.meta.phi_time {
            Tensor::cat(vec![Tensor::full([1, 1], 0.3, (&device, DType::F64)), w0], 1)
        } else {
            w0
        };
        check.close("probe.phi", numbers(phi.forward(phi_input, Activation::Tanh)), VALUE);

        let grads = loss.total.backward();
        check.gradient("grad.x", &x, &grads);
        check.gradient("grad.w0", &model.w0.val(), &grads);
        check.gradient("grad.xi", &model.xi.val(), &grads);
        check.gradients_of_mlp("phi", phi, &grads);
        if let Some(head) = &model.head {
            check.gradients_of_mlp("proj", head, &grads);
        }
        check.problems
    }
}

struct Check<'a> {
    case: &'a Case,
    problems: Vec<String>,
}

impl Check<'_> {
    /// The largest difference, relative to the largest expected number.
    fn close(&mut self, key: &str, found: Vec<f64>, tolerance: f64) {
        let expected = self.case.numbers(key);
        self.equal(&format!("length of {key}"), found.len(), expected.len());
        let scale = expected.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        let difference = found.iter().zip(&expected).fold(0.0, |m: f64, (a, b)| {
            let d = (a - b).abs();
            if d.is_nan() { f64::INFINITY } else { m.max(d) }
        });
        if difference > tolerance * scale {
            self.problems.push(format!("{key} differs by {difference:e} where the largest number is {scale:e}"));
        }
    }

    fn equal(&mut self, what: &str, found: usize, expected: usize) {
        if found != expected {
            self.problems.push(format!("{what}: {found} instead of {expected}"));
        }
    }

    /// A leaf without a gradient was not used: its gradient is zero.
    fn gradient<const D: usize>(&mut self, key: &str, leaf: &Tensor<D>, grads: &Gradients) {
        let found = leaf.grad(grads).map_or_else(|| vec![0.0; leaf.shape().num_elements()], numbers);
        self.close(key, found, GRADIENT);
    }

    fn gradients_of_mlp(&mut self, prefix: &str, mlp: &Mlp, grads: &Gradients) {
        for (i, layer) in mlp.layers.iter().enumerate() {
            self.gradient(&format!("grad.{prefix}.{}", 2 * i), &layer.weight.val(), grads);
            self.gradient(&format!("grad.{prefix}.{}", 2 * i + 1), &layer.bias.val(), grads);
        }
    }
}

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.try_into_vec_as::<f64>().expect("float64")
}
