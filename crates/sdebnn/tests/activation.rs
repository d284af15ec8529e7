//! Activations against their formulas, derivatives against finite differences, also where exponentials overflow.

mod common;

use common::{assert_close, numbers, tensor};
use sdebnn::activation::{Activation, SWISH_BETA};
use sdebnn::burn::tensor::{DType, Device, Tensor, TensorData};

const ALL: [Activation; 8] = [
    Activation::Swish,
    Activation::Silu,
    Activation::Mish,
    Activation::Softplus,
    Activation::Tanh,
    Activation::Relu,
    Activation::HardTanhHalf,
    Activation::Identity,
];

/// Away from the kinks at 0 and ±½.
const POINTS: [f64; 22] = [
    -1e4, -800.0, -100.0, -45.0, -20.5, -7.0, -2.0, -0.9, -0.3, -1e-3, -1e-4, 1e-4, 1e-3, 0.3, 0.9, 2.0, 7.0, 20.5,
    45.0, 100.0, 800.0, 1e4,
];

fn formula(activation: Activation, x: f64) -> f64 {
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    let sigmoid = |x: f64| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) };
    match activation {
        Activation::Swish => x * sigmoid(0.5f64.exp().ln_1p() * x),
        Activation::Silu => x * sigmoid(x),
        Activation::Mish => x * softplus(x).tanh(),
        Activation::Softplus => softplus(x),
        Activation::Tanh => x.tanh(),
        Activation::Relu => x.max(0.0),
        Activation::HardTanhHalf => x.clamp(-0.5, 0.5),
        Activation::Identity => x,
    }
}

#[test]
fn activations_follow_their_formulas() {
    assert_close(SWISH_BETA, 0.5f64.exp().ln_1p(), 1e-15, "softplus(0.5)");
    for activation in ALL {
        let found = numbers(activation.apply(tensor(&POINTS, [22], &Device::flex())));
        for (x, y) in POINTS.into_iter().zip(found) {
            // Burn's softplus is the identity beyond 20: off by e^-20 = 2e-9 at most.
            assert_close(y, formula(activation, x), 1e-10, &format!("{activation:?} of {x}"));
        }
    }
    assert_close(formula(Activation::Mish, 1.0), 0.865_098_388_267_310_3, 1e-15, "mish(1), by hand");
    assert_close(formula(Activation::Silu, 1.0), 0.731_058_578_630_004_9, 1e-15, "silu(1), by hand");
}

#[test]
fn derivatives_are_those_of_the_formulas() {
    let device = Device::flex().autodiff();
    for activation in ALL {
        let x = tensor(&POINTS, [22], &device).require_grad();
        let found = numbers(x.grad(&activation.apply(x.clone()).sum().backward()).expect("a gradient"));
        for (x, slope) in POINTS.into_iter().zip(found) {
            let eps = 1e-5 * x.abs().clamp(1.0, 10.0);
            let by_differences = (formula(activation, x + eps) - formula(activation, x - eps)) / (2.0 * eps);
            let by_differences = match activation {
                // Across the kink.
                Activation::Relu => f64::from(u8::from(x > 0.0)),
                _ => by_differences,
            };
            assert_close(slope, by_differences, 1e-8, &format!("{activation:?}' at {x}"));
        }
    }
}

#[test]
fn values_and_derivatives_stay_finite_in_single_precision() {
    let device = Device::flex().autodiff();
    let points = [-3e38f32, -1e5, -200.0, -89.0, 0.0, 89.0, 200.0, 1e5, 1e38];
    for activation in ALL {
        let data = TensorData::new(points.to_vec(), [points.len()]);
        let x = Tensor::<1>::from_data(data, (&device, DType::F32)).require_grad();
        let y = activation.apply(x.clone());
        let slopes =
            x.grad(&y.clone().sum().backward()).expect("a gradient").try_into_vec_as::<f32>().expect("float32");
        for (i, y) in y.try_into_vec_as::<f32>().expect("float32").into_iter().enumerate() {
            assert!(
                y.is_finite() && slopes[i].is_finite(),
                "{activation:?} at {}: {y}, slope {}",
                points[i],
                slopes[i]
            );
        }
    }
}

#[test]
fn limits_are_those_of_large_numbers() {
    for activation in ALL {
        let bounded = formula(activation, 1e6) < 1e3;
        assert_eq!(activation.limit(), bounded.then(|| formula(activation, 1e6)), "{activation:?}");
    }
}
