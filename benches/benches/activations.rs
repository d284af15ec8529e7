//! Every activation fused into a dense layer: the difference to `Identity` is the cost of the activation.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sdebnn_kernels::{Activation, InstructionSet, LayerKind, SingleLayer, TimeInput};

fn activations(criterion: &mut Criterion) {
    let instructions = InstructionSet::Detect;
    let examples = SingleLayer::<f32>::capacity(instructions);
    let (kind, shape) = (LayerKind::Dense(TimeInput::None), [32, 1, 16]);
    let mut group = criterion.benchmark_group("activation");
    group.throughput(Throughput::Elements((shape[0] * shape[2] * examples) as u64));
    for activation in Activation::ALL {
        let mut layer = SingleLayer::<f32>::new(kind, shape, shape[0], activation, examples, instructions);
        let (inputs, outputs) = layer.features();
        let wave = |count: usize| (0..count).map(|i| (i as f32).sin()).collect::<Vec<f32>>();
        layer.load(0.0, &wave(layer.parameters()), &wave(examples * inputs), &wave(examples * outputs));
        group.bench_function(format!("{activation:?} after a dense layer 32-32"), |bencher| {
            bencher.iter(|| layer.forward());
        });
    }
    group.finish();
}

criterion_group!(benches, activations);
criterion_main!(benches);
