//! Criterion benchmarks of the kernels: one layer (forward, input gradient, weight gradient), activations, whole solves.
