//! The choice of an engine.

use burn::backend::DispatchDevice;
use burn::tensor::{DType, Device};
use serde::{Deserialize, Serialize};

/// Which implementation carries the activations along a weight path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// The fused one where it can, the reference elsewhere.
    #[default]
    Auto,
    /// Plain tensor operations with autodiff, on any device.
    Reference,
    /// Kernels that run tiles of examples through all steps, on the CPU.
    Fused,
}

impl Engine {
    /// Whether tensors of this device and type are to go to the kernels, if the network and its dynamics have any.
    pub(crate) fn allows_kernels(self, device: &Device, dtype: DType) -> bool {
        self != Self::Reference
            && matches!(dtype, DType::F32 | DType::F64)
            && matches!(device.clone().inner().as_dispatch(), DispatchDevice::Flex(_))
    }
}
