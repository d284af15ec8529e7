//! The fused engine against the reference, in float64, over random shapes: values and every gradient.

mod common;

use common::numbers;
use sdebnn::activation::Activation;
use sdebnn::burn::module::Param;
use sdebnn::burn::tensor::{DType, Device, Gradients, Int, Tensor, TensorData};
use sdebnn::config::{DriftConfig, DynamicsConfig, HeadConfig, ModelConfig, WeightsConfig};
use sdebnn::controller::SolverConfig;
use sdebnn::drift::TimeInput;
use sdebnn::dynamics::Residual;
use sdebnn::engine::Engine;
use sdebnn::likelihood::{Likelihood, Target};
use sdebnn::method::Method;
use sdebnn::mlp::Mlp;
use sdebnn::model::SdeBnn;
use sdebnn::random::Stream;
use sdebnn::sequence::{Frames, OdeRnn};
use sdebnn::weights::PosteriorForm;

const CASES: u64 = 30;
const TOLERANCE: f64 = 1e-10;

/// Choices drawn one after the other from a stream.
struct Dice {
    stream: Stream,
    drawn: u64,
}

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        let mut value = [0.0];
        self.drawn += 1;
        self.stream.fill_uniform(self.drawn, &mut value);
        (value[0] * n as f64) as usize
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn normals(&mut self, len: usize) -> Vec<f64> {
        let mut values = vec![0.0; len];
        self.drawn += 1;
        self.stream.fill_normal(self.drawn, &mut values);
        values
    }
}

/// A model of random shape, and the shape of its input.
fn random_model(dice: &mut Dice) -> (ModelConfig, Vec<usize>) {
    use Activation::{Mish, Relu, Silu, Softplus, Swish, Tanh};
    let activation = dice.of(&[Swish, Silu, Mish, Softplus, Tanh, Relu]);
    let (drift, input) = if dice.below(2) == 0 {
        let blocks = dice.of(&[&[1][..], &[2], &[1, 1]]).to_vec();
        let side = |dice: &mut Dice| (2 << (blocks.len() - 1)) * (1 + dice.below(3));
        let shape = vec![1 + dice.below(3), side(dice), side(dice)];
        (DriftConfig::Conv { width: 1 + dice.below(9), blocks, activation }, shape)
    } else {
        let hidden = (0..dice.below(3)).map(|_| 1 + dice.below(20)).collect();
        let time = dice.of(&[TimeInput::None, TimeInput::Concat, TimeInput::Squash]);
        (DriftConfig::Dense { hidden, activation, time }, vec![1 + dice.below(9)])
    };
    let config = ModelConfig {
        augment: dice.below(3),
        dynamics: match dice.below(4) {
            0 => DynamicsConfig::FirstOrder {},
            _ => DynamicsConfig::Nesterov {
                residual: dice.of(&[Residual::Skip, Residual::Direct, Residual::None]),
                squash: dice.of(&[Tanh, Activation::HardTanhHalf]),
                xi: 0.6,
                learn_xi: true,
            },
        },
        drift,
        weights: WeightsConfig {
            sigma: 0.3,
            hidden: dice.of(&[&[][..], &[5], &[1, 7, 1]]).to_vec(),
            time_dependent: dice.below(2) == 0,
            posterior: dice.of(&[PosteriorForm::Residual, PosteriorForm::Literal]),
            stochastic: Default::default(),
            estimator: Default::default(),
        },
        solver: SolverConfig {
            method: dice.of(&Method::ALL),
            steps: 1 + dice.below(5),
            t1: dice.of(&[0.5, 1.0, 1.7]),
            ..Default::default()
        },
        head: HeadConfig::Linear {},
        likelihood: Likelihood::Categorical,
    };
    (config, input)
}

fn with_engine(config: &ModelConfig, engine: Engine) -> ModelConfig {
    let mut config = config.clone();
    config.solver.engine = engine;
    config
}

/// `NN_φ` whose last layer is not zero, so that every gradient is exercised.
fn posterior(model: &SdeBnn, config: &ModelConfig, device: &Device) -> Mlp {
    let moving = model.drift().layout().len();
    let first = moving + usize::from(config.weights.time_dependent);
    let sizes: Vec<usize> = [first].iter().chain(&config.weights.hidden).chain(&[moving]).copied().collect();
    Mlp::init(&sizes, Stream::root(9), device, DType::F64)
}

fn gradient<const D: usize>(leaf: &Tensor<D>, gradients: &Gradients) -> Vec<f64> {
    leaf.grad(gradients).map_or_else(|| vec![0.0; leaf.shape().num_elements()], numbers)
}

fn gradients_of(mlp: &Mlp, gradients: &Gradients) -> Vec<f64> {
    let layer =
        |l: &sdebnn::mlp::Affine| [gradient(&l.weight.val(), gradients), gradient(&l.bias.val(), gradients)].concat();
    mlp.layers.iter().flat_map(layer).collect()
}

#[track_caller]
fn assert_close(what: &str, fused: &[f64], reference: &[f64]) {
    let scale = reference.iter().fold(1e-12, |m: f64, v| m.max(v.abs()));
    assert_eq!(fused.len(), reference.len(), "{what}");
    for (a, b) in fused.iter().zip(reference) {
        assert!((a - b).abs() <= TOLERANCE * scale, "{what}: {a} instead of {b}, where the largest is {scale}");
    }
}

/// Loss, KL, and gradients of the input, `w0`, `φ`, `ξ` and the head.
fn run(
    config: &ModelConfig,
    input: &[usize],
    batch: usize,
    samples: usize,
    x: &[f64],
) -> Vec<(&'static str, Vec<f64>)> {
    let device = Device::flex().autodiff();
    let mut model = SdeBnn::new(config, input, 4, Stream::root(3), &device, DType::F64).expect("a model");
    model.phi = Some(posterior(&model, config, &device));
    let x = Tensor::<2>::from_data(TensorData::new(x.to_vec(), [batch, x.len() / batch]), (&device, DType::F64))
        .require_grad();
    let classes: Vec<i64> = (0..batch as i64).map(|i| i % 4).collect();
    let target = Target::Classes(Tensor::<1, Int>::from_data(TensorData::new(classes, [batch]), (&device, DType::I64)));
    let paths = model.brownian(Stream::root(4), samples);
    let loss = model.loss(x.clone(), &target, 1e-2, &paths).expect("a solve");
    let gradients = loss.total.backward();
    vec![
        ("loss", numbers(loss.total)),
        ("KL", numbers(loss.kl)),
        ("gradient of the input", gradient(&x, &gradients)),
        ("gradient of w0", gradient(&model.w0.val(), &gradients)),
        ("gradient of ξ", gradient(&model.xi.val(), &gradients)),
        ("gradient of φ", gradients_of(model.phi.as_ref().expect("NN_φ"), &gradients)),
        ("gradient of the head", gradients_of(model.head.as_ref().expect("a head"), &gradients)),
    ]
}

#[test]
fn models_of_random_shape_agree_with_the_reference() {
    for case in 0..CASES {
        let mut dice = Dice { stream: Stream::root(case), drawn: 0 };
        let (config, input) = random_model(&mut dice);
        let (batch, samples) = (dice.of(&[1, 2, 9, 17]), 1 + dice.below(3));
        let x = dice.normals(batch * input.iter().product::<usize>());
        let [fused, reference] = [Engine::Fused, Engine::Reference]
            .map(|engine| run(&with_engine(&config, engine), &input, batch, samples, &x));
        for ((what, fused), (_, reference)) in fused.iter().zip(&reference) {
            assert_close(&format!("case {case}, {what}, {config:?}, batch {batch}"), fused, reference);
        }
    }
}

/// Loss and gradients of a small sequence model.
fn run_sequence(config: &ModelConfig, nudge: f64) -> (f64, Vec<f64>, Vec<f64>) {
    let (batch, features, frames, hidden) = (3, 2, 4, 5);
    let device = Device::flex().autodiff();
    let mut model = OdeRnn::new(config, features, hidden, Stream::root(1), &device, DType::F64).expect("a model");
    model.block.phi = Some(posterior(&model.block, config, &device));
    let w0 = model.block.w0.val().detach();
    let step = Tensor::full(w0.shape(), nudge, (&w0.device(), DType::F64));
    model.block.w0 = Param::from_tensor((w0 + step).detach());
    let mut dice = Dice { stream: Stream::root(2), drawn: 0 };
    let mut rows = |width: usize| {
        Tensor::<2>::from_data(TensorData::new(dice.normals(batch * width), [batch, width]), (&device, DType::F64))
    };
    let inputs: Vec<_> = (0..frames).map(|_| rows(features)).collect();
    let targets = Tensor::stack((0..frames).map(|_| rows(features)).collect(), 0);
    let gaps = (0..frames)
        .map(|i| {
            let gaps = vec![1.0 / 64.0, 0.3, 0.1 * f64::from(i)];
            Tensor::<1>::from_data(TensorData::new(gaps, [batch]), (&device, DType::F64))
        })
        .collect();
    let path = &model.block.brownian(Stream::root(5), 1)[0];
    let loss = model.loss(&Frames { inputs, gaps }, targets, 1e-3, path).expect("a solve");
    let gradients = loss.total.backward();
    let w0 = gradient(&model.block.w0.val(), &gradients);
    let all = [gradients_of(&model.cell, &gradients), gradients_of(&model.readout, &gradients), w0.clone()].concat();
    (loss.total.into_scalar(), all, w0)
}

#[test]
fn sequences_agree_with_the_reference_and_with_finite_differences() {
    for (case, dynamics) in [
        DynamicsConfig::FirstOrder {},
        DynamicsConfig::Nesterov { residual: Residual::Skip, squash: Activation::Tanh, xi: 1.0, learn_xi: false },
    ]
    .into_iter()
    .enumerate()
    {
        let (mut config, _) = random_model(&mut Dice { stream: Stream::root(0), drawn: 0 });
        config.augment = 0;
        config.dynamics = dynamics;
        config.drift = DriftConfig::Dense { hidden: vec![4, 6], activation: Activation::Tanh, time: TimeInput::None };
        config.head = HeadConfig::First {};
        config.likelihood = Likelihood::SquaredError;
        let [fused, reference] =
            [Engine::Fused, Engine::Reference].map(|engine| run_sequence(&with_engine(&config, engine), 0.0));
        assert!((fused.0 - reference.0).abs() <= TOLERANCE * reference.0.abs(), "case {case}");
        assert_close(&format!("gradients of case {case}"), &fused.1, &reference.1);
        let step = 1e-6;
        let [up, down] = [step, -step].map(|nudge| run_sequence(&with_engine(&config, Engine::Fused), nudge).0);
        let (slope, expected) = ((up - down) / (2.0 * step), fused.2.iter().sum::<f64>());
        assert!((slope - expected).abs() <= 1e-6 * expected.abs().max(1e-3), "case {case}: {slope} {expected}");
    }
}
