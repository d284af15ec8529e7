//! Accuracy of the activations and their derivatives on vectors.

use sdebnn_kernels::{Activation, Element, InstructionSet, LayerKind, SingleLayer, TimeInput};

/// The activation at many points, through a layer with weight 1 and bias 0.
fn values<E: Element>(activation: Activation, points: &[f64], instructions: InstructionSet) -> Vec<f64> {
    let kind = LayerKind::Dense(TimeInput::None);
    let mut layer = SingleLayer::<E>::new(kind, [1, 1, points.len()], 1, activation, 1, instructions);
    let points: Vec<E> = points.iter().map(|&x| E::from_f64(x)).collect();
    layer.load(0.0, &[E::ONE, E::ZERO], &points, &points);
    layer.forward();
    layer.output().into_iter().map(E::to_f64).collect()
}

fn points() -> Vec<f64> {
    let near = (-2000..=2000).map(|i| f64::from(i) * 0.01);
    let tiny = (-60..=60).map(|i: i32| f64::from(i.signum()) * 10f64.powf(f64::from(i.abs()) / 10.0 - 6.0));
    near.chain(tiny).map(|x| f64::from(x as f32)).collect()
}

/// Largest relative error, among values that are not subnormal.
fn error<E: Element>(activation: Activation, instructions: InstructionSet) -> f64 {
    let points = points();
    let actual = values::<E>(activation, &points, instructions);
    let relative = |(&x, &actual): (&f64, &f64)| {
        let expected = activation.value(x);
        if expected == actual { 0.0 } else { (actual - expected).abs() / expected.abs().max(1e-30) }
    };
    points.iter().zip(&actual).map(relative).fold(0.0, f64::max)
}

#[test]
fn relative_errors_are_a_few_units_in_the_last_place() {
    for instructions in InstructionSet::ALL {
        for activation in Activation::ALL {
            let (single, double) = (error::<f32>(activation, instructions), error::<f64>(activation, instructions));
            assert!(single < 2e-6, "{activation:?} in single precision: {single}");
            assert!(double < 2e-14, "{activation:?} in double precision: {double}");
        }
    }
}

#[test]
fn extreme_arguments_are_finite_and_not_a_number_stays() {
    for instructions in InstructionSet::ALL {
        for activation in Activation::ALL {
            for value in values::<f32>(activation, &[-1e30, -1e4, 1e4, 1e30], instructions) {
                assert!(value.is_finite(), "{activation:?}");
            }
            let value = values::<f32>(activation, &[f64::NAN], instructions)[0];
            assert!(value.is_nan(), "{activation:?} hides a NaN");
        }
    }
}
