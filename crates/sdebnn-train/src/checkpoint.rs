//! Checkpoints: named tensors and text in safetensors files that show any damage.
//!
//! The header of a file has one metadata entry, `sdebnn`: a JSON object of `sha256`, the digest of the file without
//! these 64 digits, and `metadata`, the text of the checkpoint. One entry, because safetensors writes several in an
//! order that differs from run to run, and equal checkpoints are to be equal files.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Error, durable};

/// How many periodic checkpoints a store keeps: the last, and one should the last be damaged.
const KEPT: usize = 2;

const BEST: &str = "best.safetensors";

const ENTRY: &str = "sdebnn";

/// What every file has between the length of its header and the digits of its digest.
const HEAD: &[u8] = br#"{"__metadata__":{"sdebnn":"{\"sha256\":\""#;
const DIGITS: std::ops::Range<usize> = 8 + HEAD.len()..8 + HEAD.len() + 64;

#[derive(Serialize, Deserialize)]
struct Entry {
    // First, so that its place in the file is known.
    sha256: String,
    metadata: BTreeMap<String, String>,
}

/// A named tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name, distinct within a checkpoint.
    pub name: String,
    /// Its shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// Its values in row-major order.
    pub values: Vec<f32>,
}

/// Everything needed to go on from some step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// The tensors; in order of their names once read from a file.
    pub tensors: Vec<Tensor>,
    /// Text: the step, the epoch, the state of the trainer.
    pub metadata: BTreeMap<String, String>,
}

impl Checkpoint {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Damaged> {
        let bytes = std::fs::read(path).map_err(|error| format!("cannot be read: {error}"));
        bytes.and_then(|bytes| Self::decode(&bytes)).map_err(|reason| Damaged { path: path.into(), reason })
    }

    fn encode(&self) -> Result<Vec<u8>, String> {
        let values: Vec<Vec<u8>> =
            self.tensors.iter().map(|t| t.values.iter().flat_map(|v| v.to_le_bytes()).collect()).collect();
        let mut tensors = BTreeMap::new();
        for (tensor, values) in self.tensors.iter().zip(&values) {
            let view = TensorView::new(Dtype::F32, tensor.shape.clone(), values)
                .map_err(|error| format!("{}: {error}", tensor.name))?;
            if tensor.name == "__metadata__" || tensors.insert(&tensor.name, view).is_some() {
                return Err(format!("two tensors have the name {}, or the format reserves it", tensor.name));
            }
        }
        let entry = Entry { sha256: "0".repeat(64), metadata: self.metadata.clone() };
        let entry = serde_json::to_string(&entry).map_err(|error| error.to_string())?;
        let mut bytes = safetensors::serialize(tensors, Some(HashMap::from([(ENTRY.into(), entry)])))
            .map_err(|error| error.to_string())?;
        let digest = digest(&bytes);
        bytes[DIGITS].copy_from_slice(digest.as_bytes());
        Ok(bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        if bytes.is_empty() {
            return Err("is empty".into());
        }
        if bytes.get(8..DIGITS.start) != Some(HEAD) || bytes.len() < DIGITS.end {
            return Err("is no checkpoint of sdebnn, or its first bytes are damaged".into());
        }
        if &bytes[DIGITS] != digest(bytes).as_bytes() {
            return Err("is damaged or cut off: its SHA-256 is not the one it was written with".into());
        }
        Self::parse(bytes).map_err(|error| format!("is no checkpoint of sdebnn: {error}"))
    }

    fn parse(bytes: &[u8]) -> Result<Self, SafeTensorError> {
        let (_, header) = SafeTensors::read_metadata(bytes)?;
        let entry = header.metadata().as_ref().and_then(|entries| entries.get(ENTRY));
        let entry: Entry = serde_json::from_str(entry.map_or("", String::as_str))?;
        let mut tensors = Vec::new();
        for (name, view) in SafeTensors::deserialize(bytes)?.iter() {
            if view.dtype() != Dtype::F32 {
                return Err(SafeTensorError::TensorInvalidInfo);
            }
            let values = view.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            tensors.push(Tensor { name: name.into(), shape: view.shape().into(), values });
        }
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { tensors, metadata: entry.metadata })
    }
}

/// The SHA-256 of a file without the digits of its digest, in hexadecimal.
fn digest(bytes: &[u8]) -> String {
    let hash = Sha256::new().chain_update(&bytes[..DIGITS.start]).chain_update(&bytes[DIGITS.end..]).finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A checkpoint that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, to be read after its name.
    pub reason: String,
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {}", self.path.display(), self.reason)
    }
}

/// A directory of checkpoints: the last two periodic ones, `step-00000123.safetensors`, and `best.safetensors`. One
/// process may write to it at a time.
#[derive(Clone, Debug)]
pub struct CheckpointStore {
    directory: PathBuf,
}

impl CheckpointStore {
    /// Opens (or makes) a directory, and removes from it what a killed process left half written.
    pub fn new(directory: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(directory)
            .map_err(|error| Error::CheckpointUnwritable { path: directory.into(), error })?;
        let store = Self { directory: directory.into() };
        for name in store.names()? {
            if name.strip_suffix(".tmp").is_some_and(|name| name == BEST || step_of(name).is_some()) {
                store.remove(&name)?;
            }
        }
        Ok(store)
    }

    /// Saves a periodic checkpoint. Then removes all others but the regular one before it: also those of later steps, which are
    /// damaged ones that the run fell back from, and those of interruptions, which a run without them does not have.
    pub fn save(&self, checkpoint: &Checkpoint, step: u64, regular: impl Fn(u64) -> bool) -> Result<(), Error> {
        self.write(checkpoint, &step_name(step))?;
        let steps = self.steps()?;
        let before = steps.iter().copied().filter(|s| *s < step && regular(*s)).rev().take(KEPT - 1);
        let kept: Vec<u64> = before.chain([step]).collect();
        steps.iter().filter(|s| !kept.contains(s)).try_for_each(|s| self.remove(&step_name(*s)))
    }

    /// Saves the best checkpoint so far in place of the one before.
    ///
    /// For exact resumption it comes before the periodic checkpoint of the same step, else a run killed between the two
    /// goes on without it; and what the next best has to beat is in the metadata of the periodic ones, as a run that
    /// goes on from an earlier step is to save it again.
    pub fn save_best(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        self.write(checkpoint, BEST)
    }

    /// The newest periodic checkpoint that can be used, with the newer ones that cannot; `None` if there are none at all.
    pub fn load_last(&self) -> Result<Option<(Checkpoint, Vec<Damaged>)>, Error> {
        let mut damaged = Vec::new();
        for step in self.steps()?.into_iter().rev() {
            match Checkpoint::read(&self.directory.join(step_name(step))) {
                Ok(checkpoint) => return Ok(Some((checkpoint, damaged))),
                Err(found) => damaged.push(found),
            }
        }
        if damaged.is_empty() { Ok(None) } else { Err(Error::CheckpointsDamaged { damaged }) }
    }

    /// The best checkpoint, if one was saved.
    pub fn load_best(&self) -> Result<Option<Checkpoint>, Error> {
        if !self.names()?.iter().any(|name| name == BEST) {
            return Ok(None);
        }
        let best = Checkpoint::read(&self.directory.join(BEST));
        best.map(Some).map_err(|damaged| Error::CheckpointsDamaged { damaged: vec![damaged] })
    }

    fn write(&self, checkpoint: &Checkpoint, name: &str) -> Result<(), Error> {
        let path = self.directory.join(name);
        let bytes = checkpoint.encode().map_err(|message| Error::CheckpointContent { path: path.clone(), message })?;
        durable::write(&path, &self.directory.join(format!("{name}.tmp")), &bytes)
            .map_err(|error| Error::CheckpointUnwritable { path, error })
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.directory.join(name);
        std::fs::remove_file(&path).map_err(|error| Error::File { action: "remove", path, error })
    }

    /// The steps of the periodic checkpoints, ascending.
    fn steps(&self) -> Result<Vec<u64>, Error> {
        let mut steps: Vec<u64> = self.names()?.iter().filter_map(|name| step_of(name)).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    /// The names of the files; ours are all text.
    fn names(&self) -> Result<Vec<String>, Error> {
        let entries = std::fs::read_dir(&self.directory).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        let entries = entries.map_err(|error| Error::File { action: "list", path: self.directory.clone(), error })?;
        Ok(entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }
}

fn step_name(step: u64) -> String {
    format!("step-{step:08}.safetensors")
}

/// The step of a periodic checkpoint; `None` for any other name.
fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse().ok()?;
    (step_name(step) == name).then_some(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(step: u64) -> Checkpoint {
        let tensor = |name: &str, shape: &[usize], values: &[f32]| Tensor {
            name: name.into(),
            shape: shape.into(),
            values: values.into(),
        };
        let text = |key: &str, value: String| (key.into(), value);
        Checkpoint {
            tensors: vec![
                tensor("empty", &[0, 3], &[]),
                tensor("scalar", &[], &[f32::MIN_POSITIVE / 2.0]),
                tensor("weights \"µ\"", &[2, 2], &[1.5, -0.0, f32::INFINITY, step as f32]),
            ],
            metadata: BTreeMap::from([
                text("step", step.to_string()),
                text("epoch", "2".into()),
                text("trainer", r#"{"best":0.5,"name":"a\"b\n"}"#.into()),
            ]),
        }
    }

    fn store() -> (tempfile::TempDir, CheckpointStore) {
        let directory = tempfile::tempdir().unwrap();
        let store = CheckpointStore::new(directory.path()).unwrap();
        (directory, store)
    }

    fn names(directory: &tempfile::TempDir) -> Vec<String> {
        let entries = std::fs::read_dir(directory.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let (_directory, store) = store();
        assert!(store.load_last().unwrap().is_none());
        assert!(store.load_best().unwrap().is_none());
        store.save(&checkpoint(7), 7, |_| true).unwrap();
        store.save_best(&checkpoint(5)).unwrap();
        assert_eq!(store.load_last().unwrap(), Some((checkpoint(7), vec![])));
        assert_eq!(store.load_best().unwrap(), Some(checkpoint(5)));
    }

    #[test]
    fn bits_survive_even_those_of_nan() {
        let bits = [0x7fc0_1234u32, 0xffa0_0001, 0x8000_0000, 1];
        let values = bits.map(f32::from_bits).to_vec();
        let tensors = vec![Tensor { name: "x".into(), shape: vec![4], values }];
        let bytes = Checkpoint { tensors, ..Default::default() }.encode().unwrap();
        let values = Checkpoint::decode(&bytes).unwrap().tensors.remove(0).values;
        assert_eq!(values.iter().map(|v| v.to_bits()).collect::<Vec<_>>(), bits);
    }

    #[test]
    fn equal_checkpoints_are_equal_files() {
        let mut reversed = checkpoint(3);
        reversed.tensors.reverse();
        let bytes = checkpoint(3).encode().unwrap();
        assert_eq!(bytes, reversed.encode().unwrap());
        assert_eq!(bytes, Checkpoint::decode(&bytes).unwrap().encode().unwrap());
        // Those of another process too: a fixed digest, so that a change of the format does not go unseen.
        assert_eq!(&bytes[DIGITS], b"77e9bbfd23e682ceaa44d0f09d70dc20abcc393b0e7bf11ea376bd439f755b98");
    }

    #[test]
    fn any_flipped_bit_is_found() {
        let bytes = checkpoint(3).encode().unwrap();
        for (at, bit) in (0..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            assert!(Checkpoint::decode(&flipped).is_err(), "bit {bit} of byte {at}");
        }
    }

    #[test]
    fn any_other_length_is_found() {
        let mut bytes = checkpoint(3).encode().unwrap();
        for length in 0..bytes.len() {
            assert!(Checkpoint::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        bytes.push(0);
        assert!(Checkpoint::decode(&bytes).is_err());
    }

    #[test]
    fn only_the_last_two_and_the_best_are_kept() {
        let (directory, store) = store();
        std::fs::write(directory.path().join("step-1.safetensors"), "not ours").unwrap();
        store.save_best(&checkpoint(1)).unwrap();
        for step in [1, 2, 100_000_000, 100_000_001] {
            store.save(&checkpoint(step), step, |_| true).unwrap();
        }
        let kept =
            ["best.safetensors", "step-1.safetensors", "step-100000000.safetensors", "step-100000001.safetensors"];
        assert_eq!(names(&directory), kept);
        assert_eq!(store.load_last().unwrap(), Some((checkpoint(100_000_001), vec![])));
    }

    #[test]
    fn a_damaged_checkpoint_is_named_and_the_one_before_used() {
        let (directory, store) = store();
        for step in [10, 20] {
            store.save(&checkpoint(step), step, |_| true).unwrap();
        }
        let last = directory.path().join("step-00000020.safetensors");
        std::fs::write(&last, "").unwrap();
        let (found, damaged) = store.load_last().unwrap().unwrap();
        assert_eq!(found, checkpoint(10));
        assert_eq!(damaged, [Damaged { path: last, reason: "is empty".into() }]);
        // It neither counts as one of two nor outlives the next save.
        store.save(&checkpoint(15), 15, |_| true).unwrap();
        assert_eq!(names(&directory), ["step-00000010.safetensors", "step-00000015.safetensors"]);
    }

    #[test]
    fn each_is_named_if_all_are_damaged() {
        let (directory, store) = store();
        for step in [10, 20] {
            store.save(&checkpoint(step), step, |_| true).unwrap();
            let path = directory.path().join(step_name(step));
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        }
        let message = store.load_last().unwrap_err().to_string();
        assert!(message.contains("step-00000010.safetensors is damaged or cut off"), "{message}");
        assert!(message.contains("step-00000020.safetensors is damaged or cut off"), "{message}");
        std::fs::write(directory.path().join(BEST), "other").unwrap();
        let message = store.load_best().unwrap_err().to_string();
        assert!(message.contains("best.safetensors is no checkpoint"), "{message}");
    }

    #[test]
    fn a_directory_that_cannot_be_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let directory = file.path().join("checkpoints");
        let message = CheckpointStore::new(&directory).unwrap_err().to_string();
        assert!(message.contains(directory.to_str().unwrap()), "{message}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_leaves_the_checkpoints_before() {
        let (directory, store) = store();
        for step in [1, 2] {
            store.save(&checkpoint(step), step, |_| true).unwrap();
        }
        std::os::unix::fs::symlink("/dev/full", directory.path().join("step-00000003.safetensors.tmp")).unwrap();
        let message = store.save(&checkpoint(3), 3, |_| true).unwrap_err().to_string();
        assert!(message.contains("step-00000003.safetensors: No space left"), "{message}");
        assert!(message.contains("free space"), "{message}");
        assert_eq!(names(&directory), ["step-00000001.safetensors", "step-00000002.safetensors"]);
        assert_eq!(store.load_last().unwrap(), Some((checkpoint(2), vec![])));
    }

    #[test]
    fn only_our_left_overs_are_removed() {
        let (directory, store) = store();
        store.save(&checkpoint(1), 1, |_| true).unwrap();
        for name in ["best.safetensors.tmp", "step-00000002.safetensors.tmp", "notes.tmp", "step-2.safetensors.tmp"] {
            std::fs::write(directory.path().join(name), "half").unwrap();
        }
        let store = CheckpointStore::new(directory.path()).unwrap();
        assert_eq!(names(&directory), ["notes.tmp", "step-00000001.safetensors", "step-2.safetensors.tmp"]);
        assert_eq!(store.load_last().unwrap(), Some((checkpoint(1), vec![])));
    }

    #[test]
    fn what_the_format_cannot_hold_is_refused() {
        let tensor = |name: &str, shape: &[usize]| Tensor { name: name.into(), shape: shape.into(), values: vec![1.0] };
        let (directory, store) = store();
        for tensors in [
            vec![tensor("twice", &[1]), tensor("twice", &[1])],
            vec![tensor("long", &[2])],
            vec![tensor("__metadata__", &[])],
        ] {
            let name = tensors[0].name.clone();
            let message =
                store.save(&Checkpoint { tensors, ..Default::default() }, 1, |_| true).unwrap_err().to_string();
            assert!(message.contains(&name), "{message}");
        }
        assert!(names(&directory).is_empty());
    }
}
