//! CIFAR-10 in its binary version: files of records, each a label and three planes of 32 × 32 bytes.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{Error, Flaw, ImageSets, Images, Normalisation};

/// Channels, rows and columns of an image.
pub const SHAPE: [usize; 3] = [3, 32, 32];
/// Number of classes.
pub const CLASSES: usize = 10;
/// The images in each published file.
pub const RECORDS: usize = 10_000;
/// The folder that the published archive unpacks to.
pub const FOLDER: &str = "cifar-10-batches-bin";
/// The files to train on.
pub const TRAIN: [&str; 5] =
    ["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"];
/// The file to test on.
pub const TEST: &str = "test_batch.bin";

const PIXELS: usize = SHAPE[0] * SHAPE[1] * SHAPE[2];
const RECORD: usize = 1 + PIXELS;

/// Reads a file of `records` images.
pub fn read_batch(reader: impl Read, records: usize) -> Result<Images, Flaw> {
    let mut bytes = Vec::new();
    let len = records * RECORD;
    let read = reader.take(len as u64 + 1).read_to_end(&mut bytes);
    let end = bytes.len() as u64;
    let expected = format!("{len} bytes, {records} records of {RECORD}");
    read.map_err(|error| Flaw::new(end, format!("unreadable contents ({error})"), &expected))?;
    if bytes.len() != len {
        let (at, found) = if bytes.len() < len { (end, "the end of the file") } else { (end - 1, "more bytes") };
        return Err(Flaw::new(at, found, expected));
    }
    let (mut pixels, mut labels) = (Vec::with_capacity(records * PIXELS), Vec::with_capacity(records));
    for (i, record) in bytes.chunks_exact(RECORD).enumerate() {
        if usize::from(record[0]) >= CLASSES {
            let found = format!("the label {} of image {i}", record[0]);
            return Err(Flaw::new((i * RECORD) as u64, found, "a label from 0 to 9"));
        }
        labels.push(record[0]);
        pixels.extend_from_slice(&record[1..]);
    }
    Ok(Images::new(SHAPE, CLASSES, pixels, labels))
}

/// Reads the six files of CIFAR-10 in `dir/cifar-10-batches-bin` or in `dir` itself.
pub fn load(dir: &Path) -> Result<ImageSets, Error> {
    load_records(dir, RECORDS)
}

fn load_records(dir: &Path, records: usize) -> Result<ImageSets, Error> {
    let read = |name: &str| {
        let path = file(dir, name)?;
        read_batch(File::open(&path).map_err(Error::file("read", &path))?, records).map_err(Error::format(path))
    };
    let mut train = read(TRAIN[0])?;
    for name in &TRAIN[1..] {
        train.append(read(name)?);
    }
    Ok(ImageSets { train, test: read(TEST)?, normalisation: Normalisation::cifar10() })
}

/// Where a file of CIFAR-10 lies.
pub(crate) fn file(dir: &Path, name: &str) -> Result<PathBuf, Error> {
    let places = [dir.join(FOLDER), dir.into()];
    places.iter().map(|place| place.join(name)).find(|path| path.is_file()).ok_or_else(|| Error::Missing {
        title: "CIFAR-10",
        name: "cifar10",
        looked_for: format!("{name} in {} and in {}", places[0].display(), places[1].display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(labels: &[u8]) -> Vec<u8> {
        labels
            .iter()
            .flat_map(|&l| std::iter::once(l).chain((0..PIXELS).map(move |i| (i / 1024) as u8 + 10 * l)))
            .collect()
    }

    #[test]
    fn six_files_are_read_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        for (i, name) in TRAIN.iter().chain(&[TEST]).enumerate() {
            std::fs::write(dir.path().join(name), records(&[i as u8, 9])).unwrap();
        }
        let sets = load_records(dir.path(), 2).unwrap();
        assert_eq!(sets.train.labels(), [0, 9, 1, 9, 2, 9, 3, 9, 4, 9]);
        assert_eq!(sets.test.labels(), [5, 9]);
        assert_eq!((sets.test.image(0)[1023], sets.test.image(0)[1024], sets.test.image(0)[3071]), (50, 51, 52));

        std::fs::write(dir.path().join(TRAIN[3]), records(&[1])).unwrap();
        let message = load_records(dir.path(), 2).unwrap_err().to_string();
        assert!(message.contains("data_batch_4.bin at byte 3073: found the end of the file"), "{message}");

        std::fs::remove_file(dir.path().join(TRAIN[3])).unwrap();
        let message = load_records(dir.path(), 2).unwrap_err().to_string();
        assert!(message.contains("data_batch_4.bin") && message.contains("sdebnn data fetch cifar10"), "{message}");
    }

    #[test]
    fn flaws_are_said_with_their_place() {
        let flaw = |bytes: &[u8]| read_batch(bytes, 2).unwrap_err().to_string();
        assert_eq!(
            flaw(&records(&[1, 2, 3])),
            "at byte 6146: found more bytes, expected 6146 bytes, 2 records of 3073"
        );
        assert_eq!(
            flaw(&records(&[1, 2])[..5000]),
            "at byte 5000: found the end of the file, expected 6146 bytes, 2 records of 3073"
        );
        assert_eq!(
            flaw(&records(&[1, 10])),
            "at byte 3073: found the label 10 of image 1, expected a label from 0 to 9"
        );
    }
}
