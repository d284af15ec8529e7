//! Times every kind of layer alone, on one thread: `cargo run --release --example layers`.

use std::time::Instant;

use sdebnn_kernels::{Activation, InstructionSet, LayerKind, SingleLayer, TimeInput, peak_flops_of_a_thread};

fn main() {
    let instructions = InstructionSet::Detect;
    println!("peak {:.1} GFLOP/s", 1e-9 * peak_flops_of_a_thread::<f32>(instructions));
    let same = LayerKind::Convolution { stride: 1, pad: 1 };
    let down = LayerKind::Convolution { stride: 2, pad: 1 };
    let trim = LayerKind::Convolution { stride: 1, pad: 0 };
    let up = LayerKind::TransposedConvolution;
    let dense = LayerKind::Dense(TimeInput::None);
    let layers = [
        ("conv 3-32 28x28", same, [3, 28, 28], 32),
        ("down 32-32 28x28", down, [32, 28, 28], 32),
        ("up 32-32 14x14", up, [32, 14, 14], 32),
        ("trim 32-3 30x30", trim, [32, 30, 30], 3),
        ("conv 5-64 32x32", same, [5, 32, 32], 64),
        ("down 64-64 32x32", down, [64, 32, 32], 64),
        ("up 64-64 16x16", up, [64, 16, 16], 64),
        ("trim 64-5 34x34", trim, [64, 34, 34], 5),
        ("conv 80-64 8x8", same, [80, 8, 8], 64),
        ("trim 64-80 10x10", trim, [64, 10, 10], 80),
        ("dense 24-24 x8", dense, [24, 1, 8], 24),
        ("dense 32-32 x7", dense, [32, 1, 7], 32),
        ("dense 3-32 x7", dense, [3, 1, 7], 32),
    ];
    for (name, kind, shape, channels) in layers {
        let mut layer = SingleLayer::<f32>::new(kind, shape, channels, Activation::Identity, 8, instructions);
        let wave = |count: usize| (0..count).map(|i| 0.1 * (i as f32).sin()).collect::<Vec<f32>>();
        let (inputs, outputs) = layer.features();
        layer.load(0.3, &wave(layer.parameters()), &wave(8 * inputs), &wave(8 * outputs));
        let flops = layer.flops() as f64;
        let runs = (1e7 / flops).ceil() as usize;
        let mut rate = |pass: fn(&mut SingleLayer<f32>)| {
            let mut best = f64::INFINITY;
            for _ in 0..200 {
                let start = Instant::now();
                (0..runs).for_each(|_| pass(&mut layer));
                best = best.min(start.elapsed().as_secs_f64() / runs as f64);
            }
            1e-9 * flops / best
        };
        let [forward, input, weights] =
            [rate(SingleLayer::forward), rate(SingleLayer::backward_to_input), rate(SingleLayer::backward_to_weights)];
        println!("{name:18} forward {forward:6.1}  input gradient {input:6.1}  weight gradient {weights:6.1} GFLOP/s");
    }
}
