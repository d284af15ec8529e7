use burn::tensor::Tensor;

use super::{Dynamics, Memory, State};

/// SDE-BNN: `dh = f_w(t, h) dt`.
#[derive(Clone, Copy, Debug)]
pub struct FirstOrder;

impl Dynamics for FirstOrder {
    fn start(&self, input: Tensor<3>) -> State {
        vec![input]
    }

    fn derivative(&self, _t: f64, state: &State, f: &dyn Fn(Tensor<3>) -> Tensor<3>, _memory: &mut Memory) -> State {
        vec![f(state[0].clone())]
    }

    fn output(&self, _t: f64, state: &State) -> Tensor<3> {
        state[0].clone()
    }

    fn kernel(&self) -> Option<(sdebnn_kernels::Dynamics, Option<Tensor<1>>)> {
        Some((sdebnn_kernels::Dynamics::FirstOrder, None))
    }
}
