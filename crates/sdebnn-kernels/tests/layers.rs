//! Every kind of layer against its naive twin, on odd shapes: forward, input gradient, weight gradient.

mod naive;

use naive::{Image, Numbers, convolution, distance, dot, drift, transposed_convolution};
use sdebnn_kernels::{Activation, Drift, Element, InstructionSet, LayerKind, SingleLayer, TimeInput};

/// The layer for one example.
fn twin(kind: LayerKind, t: f64, shape: [usize; 3], channels: usize, x: &[f64], parameters: &[f64]) -> Vec<f64> {
    let image = Image { shape, data: x.to_vec() };
    match kind {
        LayerKind::Convolution { stride, pad } => {
            convolution(&image.with_time(t), parameters, channels, stride, pad).data
        }
        LayerKind::TransposedConvolution => transposed_convolution(&image.with_time(t), parameters, channels).data,
        LayerKind::Dense(time) => {
            let [inputs, _, columns] = shape;
            let layer = Drift::Dense { sizes: vec![inputs, channels], activation: Activation::Identity, time };
            let mut y = vec![0.0; channels * columns];
            for column in 0..columns {
                let x: Vec<f64> = (0..inputs).map(|c| x[c * columns + column]).collect();
                for (q, value) in drift(&layer, t, &x, parameters).into_iter().enumerate() {
                    y[q * columns + column] = value;
                }
            }
            y
        }
    }
}

fn check<E: Element>(
    kind: LayerKind,
    shape: [usize; 3],
    channels: usize,
    instructions: InstructionSet,
    examples: usize,
    tolerance: f64,
) {
    let examples = SingleLayer::<E>::capacity(instructions).min(examples);
    let mut layer = SingleLayer::<E>::new(kind, shape, channels, Activation::Identity, examples, instructions);
    let (inputs, outputs) = layer.features();
    let mut numbers = Numbers(17);
    let t = 0.3;
    let parameters = numbers.vector(layer.parameters(), 0.5);
    let x = numbers.vector(examples * inputs, 1.0);
    let dy = numbers.vector(examples * outputs, 1.0);
    let to = |v: &[f64]| v.iter().map(|&v| E::from_f64(v)).collect::<Vec<E>>();
    let from = |v: &[E]| v.iter().map(|v| v.to_f64()).collect::<Vec<f64>>();
    layer.load(t, &to(&parameters), &to(&x), &to(&dy));
    layer.forward();
    layer.backward_to_input();
    layer.backward_to_weights();

    let what = format!("{kind:?} {shape:?} {channels} {instructions:?}");
    let evaluate = |x: &[f64], parameters: &[f64]| -> Vec<f64> {
        x.chunks_exact(inputs).flat_map(|x| twin(kind, t, shape, channels, x, parameters)).collect()
    };
    let output = distance(&from(&layer.output()), &evaluate(&x, &parameters));
    assert!(output < tolerance, "{what}: output {output}");

    // The layer is affine in its input, so a difference is exact; gates make it smooth but not affine in its parameters.
    let mut dx = vec![0.0; x.len()];
    for (i, dx) in dx.iter_mut().enumerate() {
        let (example, mut moved) = (i / inputs, x.clone());
        let rows = example * inputs..(example + 1) * inputs;
        let dy = &dy[example * outputs..(example + 1) * outputs];
        moved[i] += 0.5;
        let above = dot(dy, &evaluate(&moved[rows.clone()], &parameters));
        moved[i] -= 1.0;
        *dx = above - dot(dy, &evaluate(&moved[rows], &parameters));
    }
    let input = distance(&from(&layer.input_gradient()), &dx);
    assert!(input < tolerance, "{what}: input gradient {input}");

    let (step, slack) = if kind == LayerKind::Dense(TimeInput::Squash) { (1e-4, 1e-7) } else { (0.5, 0.0) };
    let mut dw = vec![0.0; parameters.len()];
    for (i, dw) in dw.iter_mut().enumerate() {
        let mut moved = parameters.clone();
        moved[i] += step;
        let above = dot(&dy, &evaluate(&x, &moved));
        moved[i] -= 2.0 * step;
        *dw = (above - dot(&dy, &evaluate(&x, &moved))) / (2.0 * step);
    }
    let weights = distance(&from(layer.weight_gradient()), &dw);
    assert!(weights < tolerance + slack, "{what}: weight gradient {weights}");
}

fn check_all(kind: LayerKind, shape: [usize; 3], channels: usize) {
    check_examples(kind, shape, channels, 3);
}

/// At most `examples` of them: as many as a vector has.
fn check_examples(kind: LayerKind, shape: [usize; 3], channels: usize, examples: usize) {
    for instructions in InstructionSet::ALL {
        check::<f64>(kind, shape, channels, instructions, examples, 1e-12);
        check::<f32>(kind, shape, channels, instructions, examples, 2e-6);
    }
}

#[test]
fn whole_vectors_of_examples() {
    for channels in [3, 8, 16, 24, 25] {
        check_examples(LayerKind::Dense(TimeInput::None), [24, 1, 2], channels, usize::MAX);
        check_examples(LayerKind::Convolution { stride: 2, pad: 1 }, [3, 2, 4], channels, usize::MAX);
        check_examples(LayerKind::TransposedConvolution, [17, 1, 1], channels, usize::MAX);
    }
}

#[test]
fn convolutions() {
    for stride in [1, 2] {
        for shape in [[1, 2, 2], [3, 4, 6], [5, 6, 4], [17, 2, 4]] {
            for channels in [1, 2, 3, 4, 5, 7, 13, 33] {
                check_all(LayerKind::Convolution { stride, pad: 1 }, shape, channels);
            }
        }
    }
}

#[test]
fn convolutions_without_padding() {
    for shape in [[1, 3, 3], [2, 4, 6], [9, 4, 4]] {
        for channels in [1, 3, 5, 10] {
            check_all(LayerKind::Convolution { stride: 1, pad: 0 }, shape, channels);
        }
    }
}

#[test]
fn transposed_convolutions_from_a_single_pixel_on() {
    for shape in [[1, 1, 1], [3, 1, 1], [2, 3, 2], [9, 2, 3]] {
        for channels in [1, 2, 3, 6, 11] {
            check_all(LayerKind::TransposedConvolution, shape, channels);
        }
    }
}

#[test]
fn rows_of_more_pixels_than_are_computed_together() {
    for channels in [3, 9] {
        check_all(LayerKind::Convolution { stride: 1, pad: 1 }, [2, 2, 27], channels);
        check_all(LayerKind::Convolution { stride: 1, pad: 0 }, [2, 3, 28], channels);
        check_all(LayerKind::Convolution { stride: 2, pad: 1 }, [2, 4, 30], channels);
        check_all(LayerKind::Convolution { stride: 2, pad: 0 }, [2, 3, 5], channels);
        check_all(LayerKind::TransposedConvolution, [2, 2, 9], channels);
        check_all(LayerKind::TransposedConvolution, [2, 3, 10], channels);
    }
}

#[test]
fn dense_layers() {
    for time in [TimeInput::None, TimeInput::Concat, TimeInput::Squash] {
        for (shape, channels) in [([1, 1, 1], 1), ([3, 1, 7], 8), ([24, 1, 8], 24), ([35, 1, 3], 9), ([5, 1, 33], 40)] {
            check_all(LayerKind::Dense(time), shape, channels);
        }
    }
}
