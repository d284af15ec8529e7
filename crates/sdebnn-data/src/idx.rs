//! MNIST in its publisher's format, IDX: a big-endian header, then one byte a pixel or a label.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use crate::{Error, Flaw, ImageSets, Images, Normalisation};

/// Rows and columns of an image.
pub const SIDE: usize = 28;
/// Number of digits.
pub const CLASSES: usize = 10;
/// More images than this are a damaged header (the largest relative of MNIST has 814,255).
const MOST: u32 = 1_000_000;

/// Reads images: their pixels, 28 × 28 bytes each.
pub fn read_images(reader: impl Read) -> Result<Vec<u8>, Flaw> {
    let mut contents = Contents { reader, offset: 0 };
    contents.magic(0x803, "0x00000803 (images: bytes in three dimensions)")?;
    let count = contents.count("images")?;
    for what in ["rows", "columns"] {
        let at = contents.offset;
        let side = contents.integer(what)?;
        if side as usize != SIDE {
            return Err(Flaw::new(at, format!("{side} {what}"), format!("{SIDE} {what}")));
        }
    }
    contents.rest(count * SIDE * SIDE)
}

/// Reads labels, each below 10.
pub fn read_labels(reader: impl Read) -> Result<Vec<u8>, Flaw> {
    let mut contents = Contents { reader, offset: 0 };
    contents.magic(0x801, "0x00000801 (labels: bytes in one dimension)")?;
    let count = contents.count("labels")?;
    let start = contents.offset;
    let labels = contents.rest(count)?;
    match labels.iter().position(|&label| usize::from(label) >= CLASSES) {
        None => Ok(labels),
        Some(at) => Err(Flaw::new(start + at as u64, format!("the label {}", labels[at]), "a label from 0 to 9")),
    }
}

/// Reads the four files of MNIST, plain or with `.gz`, in `dir/mnist` or in `dir` itself.
pub fn load(dir: &Path) -> Result<ImageSets, Error> {
    let sets = ["train", "t10k"].map(|part| {
        let images_file = file(dir, &format!("{part}-images-idx3-ubyte"))?;
        let labels_file = file(dir, &format!("{part}-labels-idx1-ubyte"))?;
        let pixels = read_images(open(&images_file)?).map_err(Error::format(&images_file))?;
        let labels = read_labels(open(&labels_file)?).map_err(Error::format(&labels_file))?;
        let count = pixels.len() / (SIDE * SIDE);
        if labels.len() != count {
            let flaw = Flaw::new(
                4,
                format!("{} labels", labels.len()),
                format!("{count}, one for each image of {}", images_file.display()),
            );
            return Err(Error::Format { path: labels_file, flaw });
        }
        Ok(Images::new([1, SIDE, SIDE], CLASSES, pixels, labels))
    });
    let [train, test] = sets;
    Ok(ImageSets { train: train?, test: test?, normalisation: Normalisation::mnist() })
}

/// Where a file of MNIST lies, by its name without `.gz`.
pub(crate) fn file(dir: &Path, name: &str) -> Result<PathBuf, Error> {
    let places = [dir.join("mnist"), dir.into()];
    let mut candidates = places.iter().flat_map(|place| [place.join(format!("{name}.gz")), place.join(name)]);
    candidates.find(|path| path.is_file()).ok_or_else(|| Error::Missing {
        title: "MNIST",
        name: "mnist",
        looked_for: format!("{name}.gz and {name} in {} and in {}", places[0].display(), places[1].display()),
    })
}

/// The contents of a file, decompressed if its name ends in `.gz`.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read>, Error> {
    let file = BufReader::new(File::open(path).map_err(Error::file("read", path))?);
    Ok(if path.extension().is_some_and(|e| e == "gz") { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
}

/// A file that is read from its beginning to its end.
struct Contents<R> {
    reader: R,
    offset: u64,
}

impl<R: Read> Contents<R> {
    fn magic(&mut self, right: u32, expected: &str) -> Result<(), Flaw> {
        let found = self.integer("a magic number")?;
        let flaw = || Flaw::new(0, format!("the magic number {found:#010x}"), expected);
        if found == right { Ok(()) } else { Err(flaw()) }
    }

    fn count(&mut self, what: &str) -> Result<usize, Flaw> {
        let at = self.offset;
        match self.integer(what)? {
            count @ 1..=MOST => Ok(count as usize),
            count => Err(Flaw::new(at, format!("{count} {what}"), format!("from 1 to {MOST}"))),
        }
    }

    fn integer(&mut self, what: &str) -> Result<u32, Flaw> {
        let mut bytes = [0; 4];
        let read = self.reader.read_exact(&mut bytes);
        read.map_err(|e| Flaw::new(self.offset, unreadable(&e), format!("{what} (four bytes of the header)")))?;
        self.offset += 4;
        Ok(u32::from_be_bytes(bytes))
    }

    /// The rest of the file, exactly `len` bytes. Never holds more than one byte beyond them, whatever the file expands to.
    fn rest(&mut self, len: usize) -> Result<Vec<u8>, Flaw> {
        let mut bytes = Vec::new();
        let read = self.reader.by_ref().take(len as u64 + 1).read_to_end(&mut bytes);
        let end = self.offset + bytes.len() as u64;
        let expected = format!("{len} bytes after the header of {}", self.offset);
        match read {
            Err(error) => Err(Flaw::new(end, unreadable(&error), expected)),
            Ok(found) if found < len => Err(Flaw::new(end, "the end of the file", expected)),
            Ok(found) if found > len => Err(Flaw::new(end - 1, "more bytes", expected)),
            Ok(_) => Ok(bytes),
        }
    }
}

fn unreadable(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "the end of the file".into(),
        _ => format!("unreadable contents ({error})"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn idx(magic: u32, sizes: &[u32], data: &[u8]) -> Vec<u8> {
        let header = std::iter::once(&magic).chain(sizes).flat_map(|n| n.to_be_bytes());
        header.chain(data.iter().copied()).collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn images(n: u32) -> Vec<u8> {
        let pixels: Vec<u8> = (0..n * 784).map(|i| (i % 251) as u8).collect();
        idx(0x803, &[n, 28, 28], &pixels)
    }

    /// Writes the four files, lets `change` spoil them, and reads them.
    fn load_changed(change: impl FnOnce(&Path)) -> Result<ImageSets, Error> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("mnist")).unwrap();
        for part in ["train", "t10k"] {
            let path = |what: &str| dir.path().join(format!("mnist/{part}-{what}-ubyte"));
            std::fs::write(path("images-idx3"), images(3)).unwrap();
            std::fs::write(path("labels-idx1").with_extension("gz"), gzip(&idx(0x801, &[3], &[7, 0, 9]))).unwrap();
        }
        change(&dir.path().join("mnist"));
        load(dir.path())
    }

    #[test]
    fn plain_and_compressed_files_are_read() {
        let sets = load_changed(|_| {}).unwrap();
        assert_eq!((sets.train.len(), sets.test.labels()), (3, &[7, 0, 9][..]));
        assert_eq!(sets.train.image(1), &images(3)[16 + 784..][..784]);
    }

    #[test]
    fn flaws_are_said_with_their_place() {
        let flaw = |result: Result<Vec<u8>, Flaw>| result.unwrap_err().to_string();
        assert_eq!(
            flaw(read_images(&idx(0x801, &[1], &[1])[..])),
            "at byte 0: found the magic number 0x00000801, expected 0x00000803 (images: bytes in three dimensions)"
        );
        assert_eq!(
            flaw(read_images(&idx(0x803, &[1, 28, 27], &[])[..])),
            "at byte 12: found 27 columns, expected 28 columns"
        );
        assert_eq!(
            flaw(read_images(&idx(0x803, &[u32::MAX, 28, 28], &[])[..])),
            "at byte 4: found 4294967295 images, expected from 1 to 1000000"
        );
        assert_eq!(
            flaw(read_images(&images(2)[..1000])),
            "at byte 1000: found the end of the file, expected 1568 bytes after the header of 16"
        );
        assert_eq!(
            flaw(read_labels(&idx(0x801, &[2], &[1, 2, 3])[..])),
            "at byte 10: found more bytes, expected 2 bytes after the header of 8"
        );
        assert_eq!(
            flaw(read_labels(&idx(0x801, &[3], &[1, 10, 3])[..])),
            "at byte 9: found the label 10, expected a label from 0 to 9"
        );
        assert_eq!(
            flaw(read_labels(&[0, 0, 8][..])),
            "at byte 0: found the end of the file, expected a magic number (four bytes of the header)"
        );
    }

    #[test]
    fn what_does_not_fit_together_names_both_files() {
        let error = load_changed(|dir| {
            std::fs::write(dir.join("train-labels-idx1-ubyte.gz"), gzip(&idx(0x801, &[2], &[1, 2]))).unwrap();
        });
        let message = error.unwrap_err().to_string();
        assert!(message.contains("train-labels-idx1-ubyte.gz at byte 4: found 2 labels, expected 3"), "{message}");
        assert!(message.contains("train-images-idx3-ubyte"), "{message}");
    }

    #[test]
    fn missing_files_say_how_to_get_them() {
        let error = load_changed(|dir| std::fs::remove_file(dir.join("t10k-labels-idx1-ubyte.gz")).unwrap());
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains("t10k-labels-idx1-ubyte.gz") && message.contains("sdebnn data fetch mnist"),
            "{message}"
        );
    }

    #[test]
    fn damaged_compression_is_refused_wherever_it_is() {
        let whole = gzip(&images(1));
        assert!(read_images(MultiGzDecoder::new(&whole[..])).is_ok());
        for len in 0..whole.len() {
            assert!(read_images(MultiGzDecoder::new(&whole[..len])).is_err(), "cut to {len}");
        }
        // The check sum and the length lie in the last eight bytes.
        for at in whole.len() - 8..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(read_images(MultiGzDecoder::new(&damaged[..])).is_err(), "changed at {at}");
        }
        let trailing = [whole, vec![1, 2, 3]].concat();
        assert!(read_images(MultiGzDecoder::new(&trailing[..])).is_err());
    }

    #[test]
    fn a_decompression_bomb_is_left_alone() {
        let bomb = gzip(&[idx(0x801, &[1], &[1]), vec![0; 50_000_000]].concat());
        let flaw = read_labels(MultiGzDecoder::new(&bomb[..])).unwrap_err();
        assert_eq!((flaw.offset, flaw.found.as_str()), (9, "more bytes"));
    }
}
