use burn::tensor::Tensor;

use super::{Dynamics, Memory, State};

/// Heavy-ball momentum: `dh = m dt`, `dm = [ −γ m + f_w(t, h) ] dt`, `m(t0) = 0`.
#[derive(Clone, Copy, Debug)]
pub struct HeavyBall {
    /// The damping `γ`.
    pub damping: f64,
}

impl Dynamics for HeavyBall {
    fn start(&self, input: Tensor<3>) -> State {
        let rest = input.zeros_like();
        vec![input, rest]
    }

    fn derivative(&self, _t: f64, state: &State, f: &dyn Fn(Tensor<3>) -> Tensor<3>, _memory: &mut Memory) -> State {
        let [h, m] = [0, 1].map(|i| state[i].clone());
        vec![m.clone(), f(h) - m.mul_scalar(self.damping)]
    }

    fn output(&self, _t: f64, state: &State) -> Tensor<3> {
        state[0].clone()
    }
}
