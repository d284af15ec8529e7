//! Every kind of layer on one tile and one thread: forward, input gradient, weight gradient. Throughput is in floating-point
//! operations; compare with the machine's peak, printed first.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sdebnn_kernels::{Activation, InstructionSet, LayerKind, SingleLayer, TimeInput, peak_flops_of_a_thread};

fn layers(criterion: &mut Criterion) {
    let instructions = InstructionSet::Detect;
    println!("peak: {:.1} Gelem/s", 1e-9 * peak_flops_of_a_thread::<f32>(instructions));
    let same = LayerKind::Convolution { stride: 1, pad: 1 };
    let down = LayerKind::Convolution { stride: 2, pad: 1 };
    let trim = LayerKind::Convolution { stride: 1, pad: 0 };
    let up = LayerKind::TransposedConvolution;
    let dense = LayerKind::Dense(TimeInput::None);
    let cases = [
        ("convolution 3-32 28x28", same, [3, 28, 28], 32),
        ("strided convolution 32-32 28x28", down, [32, 28, 28], 32),
        ("transposed convolution 32-32 14x14", up, [32, 14, 14], 32),
        ("unpadded convolution 32-3 30x30", trim, [32, 30, 30], 3),
        ("convolution 80-64 8x8", same, [80, 8, 8], 64),
        ("strided convolution 64-64 32x32", down, [64, 32, 32], 64),
        ("transposed convolution 64-64 16x16", up, [64, 16, 16], 64),
        ("unpadded convolution 64-5 34x34", trim, [64, 34, 34], 5),
        ("dense 24-24, 16 vectors", dense, [24, 1, 16], 24),
        ("dense 32-32, 7 vectors", dense, [32, 1, 7], 32),
    ];
    let examples = SingleLayer::<f32>::capacity(instructions);
    for (name, kind, shape, channels) in cases {
        let mut layer = SingleLayer::<f32>::new(kind, shape, channels, Activation::Identity, examples, instructions);
        let wave = |count: usize| (0..count).map(|i| 0.1 * (i as f32).sin()).collect::<Vec<f32>>();
        let (inputs, outputs) = layer.features();
        layer.load(0.3, &wave(layer.parameters()), &wave(examples * inputs), &wave(examples * outputs));
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(layer.flops() as u64));
        group.bench_function("forward", |bencher| bencher.iter(|| layer.forward()));
        group.bench_function("input gradient", |bencher| bencher.iter(|| layer.backward_to_input()));
        group.bench_function("weight gradient", |bencher| bencher.iter(|| layer.backward_to_weights()));
        group.finish();
    }
}

criterion_group!(benches, layers);
criterion_main!(benches);
