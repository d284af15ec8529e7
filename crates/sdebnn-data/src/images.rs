//! Labelled images in memory, as bytes.

use crate::order;
use crate::random::{Purpose, Source};

/// Labelled images of one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Colour channels.
    pub channels: usize,
    /// Rows of pixels.
    pub height: usize,
    /// Columns of pixels.
    pub width: usize,
    /// Number of classes; every label is below it.
    pub classes: usize,
    /// Image after image, each channel after channel, row after row.
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl Images {
    /// Images of the shape `[channels, height, width]`.
    ///
    /// # Panics
    ///
    /// If `pixels` does not hold an image for every label, or a label is not below `classes`.
    pub fn new([channels, height, width]: [usize; 3], classes: usize, pixels: Vec<u8>, labels: Vec<u8>) -> Self {
        assert_eq!(pixels.len(), labels.len() * channels * height * width, "pixels for every label");
        assert!(labels.iter().all(|&label| usize::from(label) < classes), "labels below the number of classes");
        Self { channels, height, width, classes, pixels, labels }
    }

    /// How many images there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// How many bytes one image has.
    pub fn image_len(&self) -> usize {
        self.channels * self.height * self.width
    }

    /// The bytes of one image, channel after channel.
    pub fn image(&self, index: usize) -> &[u8] {
        &self.pixels[index * self.image_len()..][..self.image_len()]
    }

    /// The class of one image.
    pub fn label(&self, index: usize) -> u8 {
        self.labels[index]
    }

    /// The classes of all images.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// Puts other images of the same shape behind these.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.pixels.append(&mut other.pixels);
        self.labels.append(&mut other.labels);
    }

    /// Keeps the first `len` images.
    pub fn truncate(&mut self, len: usize) {
        self.labels.truncate(len);
        self.pixels.truncate(self.labels.len() * self.image_len());
    }

    /// Training and validation images: `validation` of them, chosen by the seed (all, if there are fewer), are set apart;
    /// both parts keep the order of the whole.
    pub fn split(&self, seed: u64, validation: usize) -> (Self, Self) {
        let mut order = order::permutation(Source::new(seed, Purpose::Split, 0, 0), self.len());
        let (apart, rest) = order.split_at_mut(validation.min(self.len()));
        apart.sort_unstable();
        rest.sort_unstable();
        (self.select(rest), self.select(apart))
    }

    fn select(&self, indices: &[usize]) -> Self {
        let pixels = indices.iter().flat_map(|&i| self.image(i)).copied().collect();
        let labels = indices.iter().map(|&i| self.label(i)).collect();
        Self { pixels, labels, ..*self }
    }
}

/// What takes pixels, scaled to [0, 1], to about zero mean and unit deviation: `(pixel / 255 − mean) / std` by channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalisation {
    /// The mean of each channel.
    pub mean: Vec<f32>,
    /// The standard deviation of each channel.
    pub std: Vec<f32>,
}

impl Normalisation {
    /// The usual constants of MNIST.
    pub fn mnist() -> Self {
        Self { mean: vec![0.1307], std: vec![0.3081] }
    }

    /// The usual constants of CIFAR-10.
    pub fn cifar10() -> Self {
        Self { mean: vec![0.4914, 0.4822, 0.4465], std: vec![0.2470, 0.2435, 0.2616] }
    }

    /// The constants of the drawn digits, measured on 60,000 of them.
    pub fn digits() -> Self {
        Self { mean: vec![0.1269], std: vec![0.2712] }
    }
}

/// Images to train on and images to test on.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSets {
    /// To train on (and to split validation images from).
    pub train: Images,
    /// To test on.
    pub test: Images,
    /// The constants that both are normalised with.
    pub normalisation: Normalisation,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(n: u8) -> Images {
        Images::new([1, 1, 2], 256, (0..n).flat_map(|i| [i, i]).collect(), (0..n).collect())
    }

    #[test]
    fn a_split_shares_nothing_and_loses_nothing() {
        let (train, validation) = numbered(100).split(5, 30);
        assert_eq!((train.len(), validation.len()), (70, 30));
        let mut all: Vec<u8> = train.labels().iter().chain(validation.labels()).copied().collect();
        all.sort_unstable();
        assert_eq!(all, numbered(100).labels());
        assert!((0..70).all(|i| train.image(i) == [train.label(i); 2]));
        assert_ne!(numbered(100).split(6, 30).1, validation);
        assert_eq!(numbered(3).split(0, 9).0.len(), 0);
    }

    #[test]
    fn truncation_keeps_the_first() {
        let mut images = numbered(9);
        images.truncate(4);
        assert_eq!(images, numbered(4));
        images.truncate(100);
        assert_eq!(images, numbered(4));
    }
}
