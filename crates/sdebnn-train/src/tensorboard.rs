//! Event files for TensorBoard: records with checksums, each a protobuf `Event` of scalars.
//!
//! For exact resumption all events of a step are to be appended, and [`EventFile::sync`] called, before the checkpoint
//! of that step is saved; and wall times have to come from the caller.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::{Error, durable};

const PREFIX: &str = "events.out.tfevents.";
/// Where others write the host, which would tell two equal runs apart.
const SUFFIX: &str = ".sdebnn";

/// The bytes of an event's wall time, which comes first.
const WALL_TIME: usize = 9;
/// What follows the wall time in the first event of a file: `file_version`.
const VERSION: &[u8] = b"\x1a\x0dbrain.Event:2";

/// An event file, open for more events.
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    file: File,
    /// The bytes of whole records.
    length: u64,
}

impl EventFile {
    /// The event file in a directory of a run, if it has one.
    pub fn find(directory: &Path) -> Result<Option<PathBuf>, Error> {
        let failed = |error| Error::File { action: "list", path: directory.into(), error };
        let mut found = None;
        for entry in std::fs::read_dir(directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX)) {
                found = found.max(Some(path));
            }
        }
        Ok(found)
    }

    /// Makes the event file of a run that starts at this time, in seconds since 1970.
    pub fn create(directory: &Path, start_time: f64) -> Result<Self, Error> {
        let path = directory.join(format!("{PREFIX}{:010}{SUFFIX}", start_time as u64));
        let first = record(&[&wall_time(start_time), VERSION].concat());
        // TensorBoard would read a temporary file with "tfevents" in its name.
        durable::write(&path, &directory.join("events.tmp"), &first).map_err(|error| Error::File {
            action: "write",
            path: path.clone(),
            error,
        })?;
        Self::resume(&path, None)
    }

    /// Opens an event file to go on after `last_step`, or from the start of the run. Cuts off what follows the events
    /// up to that step: those of later steps, and a record half written.
    pub fn resume(path: &Path, last_step: Option<u64>) -> Result<Self, Error> {
        let failed = |action| move |error| Error::File { action, path: path.into(), error };
        let bytes = std::fs::read(path).map_err(failed("read"))?;
        let (_, mut rest) = split_record(&bytes)
            .filter(|(event, _)| event.get(WALL_TIME..) == Some(VERSION))
            .ok_or_else(|| Error::NotAnEventFile { path: path.into() })?;
        while let Some((event, after)) = split_record(rest)
            && step_of(event).is_some_and(|step| Some(step) <= last_step)
        {
            rest = after;
        }
        let length = (bytes.len() - rest.len()) as u64;
        let file = OpenOptions::new().append(true).open(path).map_err(failed("write"))?;
        file.set_len(length).map_err(failed("write"))?;
        Ok(Self { path: path.into(), file, length })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends scalars of a step, which readers see at once. A record that cannot be written whole is taken back.
    pub fn append(&mut self, wall_time: f64, step: u64, scalars: &[(&str, f32)]) -> Result<(), Error> {
        let record = record(&event(wall_time, step, scalars));
        self.file.write_all(&record).map_err(|error| {
            // What cannot be taken back is cut off by the next `resume`.
            let _ = self.file.set_len(self.length);
            Error::File { action: "write", path: self.path.clone(), error }
        })?;
        self.length += record.len() as u64;
        Ok(())
    }

    /// Waits until all events are on the disk.
    pub fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|error| Error::File { action: "write", path: self.path.clone(), error })
    }
}

/// `Event { wall_time = 1, step = 2, summary = 5 { value = 1 { tag = 1, simple_value = 2 } … } }`.
fn event(time: f64, step: u64, scalars: &[(&str, f32)]) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, value) in scalars {
        let mut scalar = field(0x0a, tag.as_bytes());
        scalar.push(0x15);
        scalar.extend(value.to_le_bytes());
        summary.extend(field(0x0a, &scalar));
    }
    [wall_time(time), vec![0x10], varint(step), field(0x2a, &summary)].concat()
}

fn wall_time(time: f64) -> Vec<u8> {
    [&[0x09], &time.to_le_bytes()[..]].concat()
}

fn field(key: u8, contents: &[u8]) -> Vec<u8> {
    [&[key], &*varint(contents.len() as u64), contents].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// The step of an event written by [`event`].
fn step_of(event: &[u8]) -> Option<u64> {
    let (&0x10, bytes) = event.get(WALL_TIME..)?.split_first()? else { return None };
    let length = bytes.iter().take(10).position(|byte| byte & 0x80 == 0)? + 1;
    Some(bytes[..length].iter().rev().fold(0, |step, byte| step << 7 | u64::from(byte & 0x7f)))
}

/// The frame of TFRecord: the length and the data, each with its checksum.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked_crc(&length), data, &masked_crc(data)].concat()
}

/// The data of the first record and what follows it; `None` without a whole record.
fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    if *crc != masked_crc(length) {
        return None;
    }
    let (data, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    (*crc == masked_crc(data)).then_some((data, rest))
}

/// TFRecord masks checksums, lest data that hold checksums have weak ones.
fn masked_crc(data: &[u8]) -> [u8; 4] {
    crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// CRC-32C (Castagnoli).
fn crc32c(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(path: &Path) -> Vec<Option<u64>> {
        let bytes = std::fs::read(path).unwrap();
        let (mut rest, mut steps) = (&bytes[..], Vec::new());
        while let Some((event, after)) = split_record(rest) {
            steps.push(step_of(event));
            rest = after;
        }
        assert!(rest.is_empty());
        steps
    }

    /// A file of the steps 1, 2, 2, 300.
    fn file(directory: &Path) -> EventFile {
        let mut file = EventFile::create(directory, 1_700_000_000.5).unwrap();
        for step in [1, 2, 2, 300] {
            file.append(1_700_000_001.0, step, &[("loss/train", step as f32), ("accuracy", 0.5)]).unwrap();
        }
        file.sync().unwrap();
        file
    }

    #[test]
    fn crc32c_of_rfc_3720() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn events_and_records_are_those_of_tensorboard() {
        // From `Event.SerializeToString` and `RecordWriter` of TensorBoard 2.21.
        let expected = "2600000000000000734fe30009000000000000f83f10ac022a180a0b0a046c6f7373150000803e0a090a02c2b5150000c07f2ea1b447";
        let bytes = record(&event(1.5, 300, &[("loss", 0.25), ("µ", f32::NAN)]));
        assert_eq!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
    }

    #[test]
    fn steps_are_read_back() {
        for step in [0, 1, 127, 128, 300, u64::from(u32::MAX), i64::MAX as u64] {
            assert_eq!(step_of(&event(0.0, step, &[])), Some(step));
        }
        assert_eq!(step_of(&[]), None);
        assert_eq!(step_of(&[0x10; 10]), None);
        assert_eq!(step_of(&[0xff; 30]), None);
    }

    #[test]
    fn the_file_is_found_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(EventFile::find(directory.path()).unwrap(), None);
        let file = file(directory.path());
        assert_eq!(file.path(), directory.path().join("events.out.tfevents.1700000000.sdebnn"));
        assert_eq!(EventFile::find(directory.path()).unwrap().as_deref(), Some(file.path()));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn later_steps_are_cut_off() {
        for (last_step, kept) in [
            (None, vec![None]),
            (Some(0), vec![None]),
            (Some(1), vec![None, Some(1)]),
            (Some(2), vec![None, Some(1), Some(2), Some(2)]),
            (Some(1000), vec![None, Some(1), Some(2), Some(2), Some(300)]),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = file(directory.path()).path;
            let mut file = EventFile::resume(&path, last_step).unwrap();
            assert_eq!(steps(&path), kept);
            file.append(3.0, 2000, &[("loss", 1.0)]).unwrap();
            assert_eq!(steps(&path), [kept, vec![Some(2000)]].concat());
        }
    }

    #[test]
    fn a_run_killed_at_any_byte_resumes_to_the_same_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(directory.path()).path;
        let whole = std::fs::read(&path).unwrap();
        let first = whole.len() - split_record(&whole).unwrap().1.len();
        for length in first..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let mut file = EventFile::resume(&path, Some(300)).unwrap();
            let kept = steps(&path).len() - 1;
            for step in &[1, 2, 2, 300][kept..] {
                file.append(1_700_000_001.0, *step, &[("loss/train", *step as f32), ("accuracy", 0.5)]).unwrap();
            }
            assert!(std::fs::read(&path).unwrap() == whole, "cut to {length} bytes");
        }
    }

    #[test]
    fn other_files_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes");
        for contents in [&b""[..], b"something else altogether", &record(&event(1.0, 1, &[]))] {
            std::fs::write(&path, contents).unwrap();
            let message = EventFile::resume(&path, None).unwrap_err().to_string();
            assert!(message.contains("notes is not an event file"), "{message}");
            assert_eq!(std::fs::read(&path).unwrap(), contents);
        }
        let missing = EventFile::resume(&directory.path().join("none"), None).unwrap_err().to_string();
        assert!(missing.contains("cannot read"), "{missing}");
        let below = EventFile::create(&path, 1.0).unwrap_err().to_string();
        assert!(below.contains("events.out.tfevents.0000000001.sdebnn"), "{below}");
    }
}
