//! Winograd's minimal filtering along the rows of an image: neighbouring outputs share products.
//!
//! Three taps of a kernel's row make two neighbouring outputs by four products instead of six,
//!
//! ```text
//! y₀ = w₀ x₀ + w₁ x₁ + w₂ x₂ = p₀ + p₁ + p₂,    p₀ = w₀ (x₀ - x₂),    p₁ = ½ (w₀ + w₁ + w₂) (x₁ + x₂),
//! y₁ = w₀ x₁ + w₁ x₂ + w₂ x₃ = p₁ - p₂ - p₃,    p₃ = w₂ (x₁ - x₃),    p₂ = ½ (w₀ - w₁ + w₂) (x₂ - x₁),
//! ```
//!
//! with stride 2 by five,
//!
//! ```text
//! y₀ = w₀ x₀ + w₁ x₁ + w₂ x₂ = w₀ (x₀ - x₂) + w₁ x₁ + (w₀ + w₂) x₂
//! y₁ = w₀ x₂ + w₁ x₃ + w₂ x₄ = w₂ (x₄ - x₂) + w₁ x₃ + (w₀ + w₂) x₂,
//! ```
//!
//! and so do four neighbouring outputs of its transpose, where `w₂ x₀ + w₀ x₁` and `w₂ x₁ + w₀ x₂` share `(w₀ + w₂) x₁` and `w₁`
//! alone makes the other two. The sums and differences of inputs are taken where they are needed, by units of the machine that the
//! multiply-adds leave idle: nothing is stored but the outputs. That asks for more registers than AVX2 has.

mod tiles;

pub(crate) use tiles::Filtering;

use crate::{element::Element, geometry::Geometry};

/// Taps of a row of the kernel.
const TAPS: usize = 3;

/// What a row of the kernel becomes.
const WEIGHTS: usize = 4;

/// Pixels that are finished together, about: few enough to be in the nearest cache still.
const FINISHED_TOGETHER: usize = 12;

/// Bytes of the vectors of instruction sets with as many registers as this takes.
const VECTOR: usize = 64;

/// Which outputs share products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Stride 1.
    Same,
    /// The input gradient of that, with the taps in reverse.
    Reversed,
    /// Stride 2.
    Down,
    /// The transpose of that; the output between the centre and the pixel after it is the fourth.
    Up,
    /// The same with the pixel before it.
    UpBefore,
}

impl Kind {
    /// Most output channels whose sums are kept in registers together: with stride 1, those of two tiles.
    fn channels(self) -> usize {
        match self {
            Self::Same | Self::Reversed => 3,
            Self::Down => 8,
            Self::Up | Self::UpBefore => 4,
        }
    }

    /// What inputs are multiplied with.
    fn weights(self, [w0, w1, w2]: [f64; TAPS]) -> [f64; WEIGHTS] {
        match self {
            Self::Same => [w0, 0.5 * (w0 + w1 + w2), 0.5 * (w0 - w1 + w2), w2],
            Self::Reversed => [w2, 0.5 * (w0 + w1 + w2), 0.5 * (w0 - w1 + w2), w0],
            Self::Down => [w0, w1, w0 + w2, w2],
            Self::Up | Self::UpBefore => [w2, w0 + w2, w0, w1],
        }
    }
}

/// Neighbouring outputs of a row, by their columns: `None` outside of the image.
#[derive(Clone, Debug)]
struct Tile {
    inputs: Vec<Option<usize>>,
    outputs: Vec<Option<usize>>,
}

/// Some tiles of a row of the output.
#[derive(Clone, Debug)]
struct Part {
    row: usize,
    tiles: std::ops::Range<usize>,
    /// Their pixels, the second of each pair.
    pixels: Vec<(usize, usize)>,
}

/// A convolution, or a transposed one, tile by tile.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    kind: Kind,
    /// For every row of the output, the rows of the kernel that it sees and those of the input they meet.
    rows: Vec<Vec<(usize, usize)>>,
    tiles: Vec<Tile>,
    parts: Vec<Part>,
    /// Columns of input and output.
    widths: [usize; 2],
    /// The class of every output pixel.
    classes: Vec<usize>,
    /// The same relation with only those pixels that are not in a tile.
    rest: Geometry,
}

/// Blocks of about equally many of `outputs` channels, at most `most`, larger ones first.
fn blocks(outputs: usize, most: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let count = outputs.div_ceil(most);
    let (size, larger) = (outputs / count, outputs % count);
    (0..count).map(move |block| {
        let start = block * size + block.min(larger);
        start..start + size + usize::from(block < larger)
    })
}

impl Filter {
    /// `y(i) = Σ_k w(k) x(i + k - pad)` along both axes, which `geometry` is the relation of, and its input gradient.
    pub(crate) fn same([height, width]: [usize; 2], pad: usize, geometry: [&Geometry; 2]) -> [Self; 2] {
        let extent = |n: usize| n + 2 * pad - (TAPS - 1);
        let (input, output) = ([height, width], [extent(height), extent(width)]);
        let filter = |kind, geometry, from: [usize; 2], to: [usize; 2], pad: usize| {
            let tile = |first: usize| Tile {
                inputs: (0..4).map(|k| (first + k).checked_sub(pad).filter(|&x| x < from[1])).collect(),
                outputs: (first..first + 2).map(|x| Some(x).filter(|&x| x < to[1])).collect(),
            };
            let meets = |row: usize, k: usize| (row + k).checked_sub(pad);
            let tiles = (0..to[1]).step_by(2).map(tile).collect();
            Self::new(kind, geometry, from, to, meets, tiles)
        };
        [
            filter(Kind::Same, geometry[0], input, output, pad),
            filter(Kind::Reversed, geometry[1], output, input, TAPS - 1 - pad),
        ]
    }

    /// `y(i) = Σ_k w(k) x(2i + k - 1)` along both axes, and its input gradient.
    pub(crate) fn down(input: [usize; 2], geometry: [&Geometry; 2]) -> [Self; 2] {
        let output = input.map(|n| n.div_ceil(2));
        [
            Self::of_stride_2(geometry[0], input, output, 1),
            Self::transposed(Kind::UpBefore, geometry[1], output, input, 1),
        ]
    }

    /// `y(2i + k) += w(k) x(i)` along both axes, with one more output at the end, and its input gradient.
    pub(crate) fn up(input: [usize; 2], geometry: [&Geometry; 2]) -> [Self; 2] {
        let output = input.map(|n| 2 * n + 2);
        [Self::transposed(Kind::Up, geometry[0], input, output, 0), Self::of_stride_2(geometry[1], output, input, 0)]
    }

    fn of_stride_2(geometry: &Geometry, from: [usize; 2], to: [usize; 2], pad: usize) -> Self {
        let tile = |first: usize| Tile {
            inputs: (0..5).map(|k| (2 * first + k).checked_sub(pad).filter(|&x| x < from[1])).collect(),
            outputs: (first..first + 2).map(|x| Some(x).filter(|&x| x < to[1])).collect(),
        };
        let tiles = (0..to[1]).step_by(2).map(tile).collect();
        Self::new(Kind::Down, geometry, from, to, |row, k| (2 * row + k).checked_sub(pad), tiles)
    }

    /// `y(2i + k - pad) += w(k) x(i)`.
    fn transposed(kind: Kind, geometry: &Geometry, from: [usize; 2], to: [usize; 2], pad: usize) -> Self {
        let tile = |centre: usize| {
            let input = |k: usize| (centre + k).checked_sub(1).filter(|&x| x < from[1]);
            let output = |k: usize| (2 * centre + k).checked_sub(pad).filter(|&x| x < to[1]);
            let other = if kind == Kind::Up { output(3) } else { (2 * centre).checked_sub(1 + pad) };
            Tile { inputs: (0..3).map(input).collect(), outputs: vec![output(0), output(2), output(1), other] }
        };
        let centres = if kind == Kind::Up { 0..from[1] } else { 1..from[1] + 1 };
        let meets = |row: usize, k: usize| {
            let twice = (row + pad).checked_sub(k)?;
            twice.is_multiple_of(2).then_some(twice / 2)
        };
        Self::new(kind, geometry, from, to, meets, centres.step_by(2).map(tile).collect())
    }

    /// The rows of an output see those rows of the input that `meets` finds for them and each row of the kernel.
    fn new(
        kind: Kind,
        geometry: &Geometry,
        from: [usize; 2],
        to: [usize; 2],
        meets: impl Fn(usize, usize) -> Option<usize>,
        tiles: Vec<Tile>,
    ) -> Self {
        assert_eq!([geometry.inputs, geometry.outputs], [from, to].map(|[height, width]| height * width), "images");
        // Of a relation that is read backwards, rows count from the end.
        let seen = |row: usize| {
            let meeting = |k: usize| {
                let input = meets(row, k).filter(|&input| input < from[0])?;
                Some((if kind == Kind::Reversed { TAPS - 1 - k } else { k }, input))
            };
            (0..TAPS).filter_map(meeting).collect()
        };
        let per_part = FINISHED_TOGETHER / tiles.first().map_or(1, |tile| tile.outputs.len());
        let mut parts = Vec::new();
        let mut covered = vec![false; geometry.outputs];
        for row in 0..to[0] {
            for start in (0..tiles.len()).step_by(per_part) {
                let range = start..tiles.len().min(start + per_part);
                let columns = tiles[range.clone()].iter().flat_map(|tile| tile.outputs.iter().flatten());
                let pixels: Vec<_> = columns.map(|column| (0, row * to[1] + column)).collect();
                pixels.iter().for_each(|&(_, pixel)| covered[pixel] = true);
                parts.push(Part { row, tiles: range, pixels });
            }
        }
        let mut rest = geometry.clone();
        for class in &mut rest.classes {
            class.pixels.retain(|&(_, pixel)| !covered[pixel]);
        }
        let classes = geometry.class_of_pixels();
        Self { kind, rows: (0..to[0]).map(seen).collect(), tiles, parts, widths: [from[1], to[1]], classes, rest }
    }

    /// Whether it pays with vectors of so many bytes.
    pub(crate) fn pays(bytes: usize) -> bool {
        bytes == VECTOR
    }

    /// Whether some pixels are left to the definition.
    pub(crate) fn has_rest(&self) -> bool {
        self.rest.classes.iter().any(|class| !class.pixels.is_empty())
    }

    /// The weights in the order of use, `[block of output channels][ky][input][weight][output within the block]`, from
    /// `weight(output, input, tap)`.
    pub(crate) fn pack<E: Element>(
        &self,
        [inputs, outputs]: [usize; 2],
        weight: impl Fn(usize, usize, usize) -> E,
        packed: &mut Vec<E>,
    ) {
        packed.clear();
        packed.resize(outputs * inputs * TAPS * WEIGHTS, E::ZERO);
        let mut rest = &mut packed[..];
        for block in blocks(outputs, self.kind.channels()) {
            for ky in 0..TAPS {
                for input in 0..inputs {
                    let to = rest.split_off_mut(..WEIGHTS * block.len()).expect("as many as there are");
                    for (q, output) in block.clone().enumerate() {
                        let row = [0, 1, 2].map(|kx| weight(output, input, ky * TAPS + kx).to_f64());
                        let to = to[q..].iter_mut().step_by(block.len());
                        to.zip(self.kind.weights(row)).for_each(|(to, weight)| *to = E::from_f64(weight));
                    }
                }
            }
        }
    }
}
