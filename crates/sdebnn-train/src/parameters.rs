//! The learned numbers of a model: one flat vector, with a name and a shape for every part.

use std::ops::Range;

use sdebnn::burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use sdebnn::burn::tensor::{DType, Gradients, Tensor, TensorData};

use crate::checkpoint::{self, Checkpoint};

/// Where a parameter lies in the flat vector.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The path of its fields in the model, as `head.layers.0.weight`.
    name: String,
    shape: Vec<usize>,
    range: Range<usize>,
}

/// The names, shapes and places of a model's parameters, in the order of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    places: Vec<Place>,
    len: usize,
}

impl Parameters {
    /// Those of a model, with their values.
    pub fn of(model: &impl Module) -> (Self, Vec<f32>) {
        let mut reader =
            Reader { path: Vec::new(), parameters: Self { places: Vec::new(), len: 0 }, values: Vec::new() };
        model.visit(&mut reader);
        (reader.parameters, reader.values)
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The model with other values.
    pub fn put<M: Module>(&self, values: &[f32], model: M) -> M {
        model.map(&mut Writer { places: self.places.iter(), values })
    }

    /// Adds the gradients of a loss, multiplied by `factor`, to `sums`.
    pub fn add_gradients(&self, model: &impl Module, gradients: Gradients, factor: f32, sums: &mut [f32]) {
        model.visit(&mut Collector { places: self.places.iter(), gradients, factor, sums });
    }

    /// Numbers for all parameters as named tensors.
    pub fn tensors(&self, prefix: &str, values: &[f32]) -> Vec<checkpoint::Tensor> {
        let tensor = |place: &Place| checkpoint::Tensor {
            name: format!("{prefix}{}", place.name),
            shape: place.shape.clone(),
            values: values[place.range.clone()].to_vec(),
        };
        self.places.iter().map(tensor).collect()
    }

    /// The numbers of all parameters in a checkpoint, or what it lacks.
    pub fn read(&self, prefix: &str, checkpoint: &Checkpoint) -> Result<Vec<f32>, String> {
        let mut values = Vec::with_capacity(self.len);
        for place in &self.places {
            let name = format!("{prefix}{}", place.name);
            let tensor = checkpoint.tensors.iter().find(|tensor| tensor.name == name);
            let tensor = tensor.ok_or_else(|| format!("has no tensor {name}"))?;
            if tensor.shape != place.shape {
                return Err(format!("has {name} of shape {:?}, not {:?}", tensor.shape, place.shape));
            }
            values.extend_from_slice(&tensor.values);
        }
        Ok(values)
    }
}

struct Reader {
    path: Vec<String>,
    parameters: Parameters,
    values: Vec<f32>,
}

impl ModuleVisitor for Reader {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let start = self.values.len();
        self.values.extend(numbers(param.val().detach()));
        let place =
            Place { name: self.path.join("."), shape: param.val().dims().to_vec(), range: start..self.values.len() };
        self.parameters.places.push(place);
        self.parameters.len = self.values.len();
    }
}

/// Visits the parameters in the order in which they were read.
struct Writer<'a> {
    places: std::slice::Iter<'a, Place>,
    values: &'a [f32],
}

/// A model of the same type has the same fields.
const SAME_MODEL: &str = "a model with the parameters that were read";

impl ModuleMapper for Writer<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let place = self.places.next().expect(SAME_MODEL);
        let values = self.values[place.range.clone()].to_vec();
        param.map(|tensor| {
            let data = TensorData::new(values, tensor.dims());
            let learned = tensor.is_require_grad();
            Tensor::from_data(data, (&tensor.device(), DType::F32)).set_require_grad(learned)
        })
    }
}

struct Collector<'a> {
    places: std::slice::Iter<'a, Place>,
    gradients: Gradients,
    factor: f32,
    sums: &'a mut [f32],
}

impl ModuleVisitor for Collector<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let place = self.places.next().expect(SAME_MODEL);
        if let Some(gradient) = param.val().grad_remove(&mut self.gradients) {
            let gradient = gradient.into_data();
            let gradient = gradient.as_slice::<f32>().expect(SINGLE);
            for (sum, gradient) in self.sums[place.range.clone()].iter_mut().zip(gradient) {
                *sum += self.factor * gradient;
            }
        }
    }
}

/// Models are trained in single precision.
const SINGLE: &str = "32-bit floating-point numbers";

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().expect(SINGLE)
}
