//! Getting published data sets, and checking those that are there.

pub mod catalogue;
pub mod download;
pub mod unpack;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::{Error, ImageSets, cifar, idx, walker};
use catalogue::{DataSet, Entry};
use download::{Options, Progress};

/// What is there of a data set. All of it could be read: whatever cannot is an error instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The data set.
    pub set: DataSet,
    /// What there is and how many of it.
    pub counts: Vec<(&'static str, usize)>,
    /// Whether these are the published counts.
    pub complete: bool,
    /// Whether the contents are byte for byte the published ones; `None` where no digest was published.
    pub original: Option<bool>,
}

/// Gets a data set into `dir`, unless it is there and complete.
pub fn fetch(
    dir: &Path,
    set: DataSet,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Contents, Error> {
    match verify(dir, set) {
        Ok(contents) if contents.complete => Ok(contents),
        _ => fetch_entry(dir, &set.entry(), options, progress),
    }
}

/// Gets what an entry of the catalogue says into `dir`, in place of what is there.
pub fn fetch_entry(
    dir: &Path,
    entry: &Entry,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Contents, Error> {
    for file in &entry.files {
        let target = dir.join(&file.name);
        let folder = target.parent().unwrap_or(dir);
        std::fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
        // Files with a digest that are there from an interrupted fetch need not come again.
        let sum = file.sha256.as_deref().filter(|_| target.is_file());
        if sum.is_none() || sum != Some(&sha256(open(&target)?, &target)?) {
            download::download(file, &target, options, progress)?;
        }
        let Some(unpacked) = entry.unpacks_to else { continue };
        let check = |place: &Path| verify(place, entry.set).map(drop);
        let result = unpack::unpack(&target, dir, unpacked, unpack::Limits::default(), check);
        // What cannot be unpacked is of no use; a disk that is full may be less so next time.
        if !matches!(result, Err(Error::File { .. })) {
            std::fs::remove_file(&target).map_err(Error::file("remove", &target))?;
        }
        result?;
    }
    verify(dir, entry.set)
}

/// Reads all of a data set in `dir` with the strict readers, and compares it with what was published.
pub fn verify(dir: &Path, set: DataSet) -> Result<Contents, Error> {
    let images = |sets: ImageSets| vec![("training images", sets.train.len()), ("test images", sets.test.len())];
    let counts = match set {
        DataSet::Mnist => images(idx::load(dir)?),
        DataSet::Cifar10 => images(cifar::load(dir)?),
        DataSet::Walker2d => vec![("sequences", walker::load(dir)?.len())],
    };
    let sums = set.content_sums();
    let mut original = (!sums.is_empty()).then_some(true);
    for (name, sum) in sums {
        let path = locate(dir, set, name)?;
        original = original.map(|so_far| so_far && content_sum(&path).is_ok_and(|found| found == *sum));
    }
    Ok(Contents { set, complete: counts.iter().map(|(_, n)| *n).eq(set.published_counts()), counts, original })
}

/// What is there of each data set; [`Error::Missing`] for those that are not.
pub fn list(dir: &Path) -> Vec<(DataSet, Result<Contents, Error>)> {
    DataSet::ALL.map(|set| (set, verify(dir, set))).into()
}

/// Where a file with a published digest lies (Walker2D has none), by its name without `.gz`.
fn locate(dir: &Path, set: DataSet, name: &str) -> Result<PathBuf, Error> {
    match set {
        DataSet::Mnist => idx::file(dir, name),
        DataSet::Cifar10 | DataSet::Walker2d => cifar::file(dir, name),
    }
}

fn content_sum(path: &Path) -> Result<String, Error> {
    sha256(idx::open(path)?, path)
}

fn open(path: &Path) -> Result<File, Error> {
    File::open(path).map_err(Error::file("read", path))
}

/// The SHA-256 digest of what a reader of the file has, in hexadecimal digits.
fn sha256(mut reader: impl Read, path: &Path) -> Result<String, Error> {
    let mut digest = Sha256::new();
    std::io::copy(&mut reader, &mut digest).map_err(Error::file("read", path))?;
    Ok(format!("{:x}", digest.finalize()))
}
