//! Unpacking of archives that are not trusted.

use std::fs::File;
use std::io::{BufReader, Read, Seek, Write};
use std::path::{Component, Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use tar::EntryType;
use zip::ZipArchive;

use crate::Error;

/// What an archive may unpack to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of entries.
    pub entries: usize,
    /// Bytes of all files together.
    pub bytes: u64,
}

impl Default for Limits {
    /// Several times what any data set of the catalogue has.
    fn default() -> Self {
        Self { entries: 10_000, bytes: 2 << 30 }
    }
}

/// Unpacks an archive (`.tar.gz` or `.zip`) that has a folder of the name `folder`, and puts this folder into `dir` in
/// place of one that is there. All is unpacked aside and given to `check` first, so that nothing half-done is ever in `dir`.
///
/// Only files and folders below the archive's root are unpacked: absolute paths, `..`, links and all else is refused.
pub fn unpack(
    archive: &Path,
    dir: &Path,
    folder: &str,
    limits: Limits,
    check: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    let aside = tempfile::Builder::new().prefix(".unpack-").tempdir_in(dir).map_err(Error::file("make", dir))?;
    let fresh = aside.path().join("new");
    let mut unpacking = Unpacking { archive, root: &fresh, limits, left: limits };
    let file = File::open(archive).map_err(Error::file("read", archive))?;
    match archive.extension().and_then(|e| e.to_str()) {
        Some("zip") => unpacking.zip(file)?,
        _ => unpacking.tar_gz(file)?,
    }
    if !fresh.join(folder).is_dir() {
        return Err(unpacking.refuse(folder, "nothing of this name", "a folder"));
    }
    check(&fresh)?;
    let target = dir.join(folder);
    if target.exists() {
        std::fs::rename(&target, aside.path().join("old")).map_err(Error::file("replace", &target))?;
    }
    std::fs::rename(fresh.join(folder), &target).map_err(Error::file("write", &target))
}

/// An archive on its way to `root`.
struct Unpacking<'a> {
    archive: &'a Path,
    root: &'a Path,
    limits: Limits,
    left: Limits,
}

impl Unpacking<'_> {
    fn tar_gz(&mut self, file: File) -> Result<(), Error> {
        // Headers count as well: a kilobyte for each entry is generous.
        let most = self.limits.bytes + 1024 * (self.limits.entries as u64 + 10);
        let damaged = |error: std::io::Error| self.damaged(error);
        let mut tar = tar::Archive::new(MultiGzDecoder::new(BufReader::new(file)).take(most));
        for entry in tar.entries().map_err(damaged)? {
            let mut entry = entry.map_err(|e| self.damaged(e))?;
            let name = entry.path().map_err(|e| self.damaged(e))?.into_owned();
            match entry.header().entry_type() {
                EntryType::Directory => self.folder(&name)?,
                EntryType::Regular => self.file(&name, &mut entry)?,
                other => return Err(self.refuse(&name.to_string_lossy(), format!("{other:?}"), "a file or a folder")),
            }
        }
        // The check sum is behind the last entry.
        std::io::copy(&mut tar.into_inner(), &mut std::io::sink()).map_err(|e| self.damaged(e))?;
        Ok(())
    }

    fn zip(&mut self, file: impl Read + Seek) -> Result<(), Error> {
        let mut zip = ZipArchive::new(file).map_err(|e| self.damaged(e))?;
        for index in 0..zip.len() {
            let mut entry = zip.by_index(index).map_err(|e| self.damaged(e))?;
            let name = PathBuf::from(entry.name().map_err(|e| self.damaged(e))?.into_owned());
            match (entry.is_dir(), entry.is_symlink()) {
                (true, _) => self.folder(&name)?,
                (_, true) => return Err(self.refuse(&name.to_string_lossy(), "a link", "a file or a folder")),
                _ => self.file(&name, &mut entry)?,
            }
        }
        Ok(())
    }

    fn folder(&mut self, name: &Path) -> Result<(), Error> {
        let path = self.enter(name)?;
        std::fs::create_dir_all(&path).map_err(Error::file("make", &path))
    }

    fn file(&mut self, name: &Path, contents: &mut dyn Read) -> Result<(), Error> {
        let path = self.enter(name)?;
        let folder = path.parent().unwrap_or(self.root);
        std::fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
        let mut file = File::create_new(&path).map_err(Error::file("write", &path))?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = contents.read(&mut buffer).map_err(|e| self.damaged(e))?;
            if read == 0 {
                return Ok(());
            }
            let Some(left) = self.left.bytes.checked_sub(read as u64) else {
                let expected = format!("at most {} bytes in all", self.limits.bytes);
                return Err(self.refuse(&name.to_string_lossy(), "more bytes", expected));
            };
            self.left.bytes = left;
            file.write_all(&buffer[..read]).map_err(Error::file("write", &path))?;
        }
    }

    /// Where an entry goes, if it may go anywhere.
    fn enter(&mut self, name: &Path) -> Result<PathBuf, Error> {
        let text = name.to_string_lossy();
        if !name.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(self.refuse(
                &text,
                "a path that leads elsewhere",
                "one without \"..\" that does not begin at the root",
            ));
        }
        let Some(left) = self.left.entries.checked_sub(1) else {
            return Err(self.refuse(&text, "one entry too many", format!("at most {}", self.limits.entries)));
        };
        self.left.entries = left;
        Ok(self.root.join(name))
    }

    fn refuse(&self, entry: &str, found: impl Into<String>, expected: impl Into<String>) -> Error {
        let (found, expected) = (found.into(), expected.into());
        Error::Archive { archive: self.archive.into(), entry: entry.into(), found, expected }
    }

    fn damaged(&self, error: impl std::fmt::Display) -> Error {
        self.refuse("the archive", format!("damage ({error})"), "an archive that can be read")
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use flate2::{Compression, write::GzEncoder};
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    const SMALL: Limits = Limits { entries: 4, bytes: 1000 };

    type Entry<'a> = (&'a str, EntryType, &'a [u8]);

    fn tar_gz(entries: &[Entry]) -> Vec<u8> {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, kind, contents) in entries {
            let mut header = tar::Header::new_gnu();
            // Not by `set_path`, which refuses what is to be tested.
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(contents.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            tar.append(&header, *contents).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    }

    fn zip(entries: &[Entry]) -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, kind, contents) in entries {
            match kind {
                EntryType::Directory => zip.add_directory(*name, SimpleFileOptions::default()).unwrap(),
                EntryType::Symlink => zip.add_symlink(*name, "/etc/passwd", SimpleFileOptions::default()).unwrap(),
                _ => {
                    zip.start_file(*name, SimpleFileOptions::default()).unwrap();
                    zip.write_all(contents).unwrap();
                }
            }
        }
        zip.finish().unwrap().into_inner()
    }

    /// Unpacks the bytes of an archive into a folder with an older `data`, and says what is in the folder then.
    fn unpacked(name: &str, archive: &[u8], check: bool) -> (Result<(), Error>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("data")).unwrap();
        std::fs::write(dir.path().join("data/old"), "").unwrap();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(name);
        std::fs::write(&path, archive).unwrap();
        let check = |place: &Path| {
            assert!(place.join("data").is_dir());
            if check { Ok(()) } else { Err(Error::Download { file: "refused".into(), attempts: vec![] }) }
        };
        let result = unpack(&path, dir.path(), "data", SMALL, check);
        let names = |path: &Path| -> Vec<String> {
            let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
            entries.map(|name| name.into_string().unwrap()).collect()
        };
        let mut found = names(&dir.path().join("data"));
        found.sort();
        assert_eq!(names(dir.path()), ["data"]);
        (result, found)
    }

    fn both(entries: &[Entry]) -> [(Result<(), Error>, Vec<String>); 2] {
        [unpacked("x.tar.gz", &tar_gz(entries), true), unpacked("x.zip", &zip(entries), true)]
    }

    #[test]
    fn folders_replace_older_ones() {
        for (result, found) in both(&[
            ("data/", EntryType::Directory, b""),
            ("data/a", EntryType::Regular, b"1"),
            ("./data/b", EntryType::Regular, b"22"),
        ]) {
            result.unwrap();
            assert_eq!(found, ["a", "b"]);
        }
    }

    #[test]
    fn what_leads_elsewhere_is_refused_and_nothing_is_changed() {
        let file = ("data/a", EntryType::Regular, &b"1"[..]);
        for (bad, part) in [
            (("../evil", EntryType::Regular, &b"1"[..]), "leads elsewhere"),
            (("data/../../evil", EntryType::Regular, b"1"), "leads elsewhere"),
            (("/tmp/sdebnn-evil", EntryType::Regular, b"1"), "leads elsewhere"),
            (("data/link", EntryType::Symlink, b""), "expected a file or a folder"),
            (("data/big", EntryType::Regular, &[0; 1001]), "at most 1000 bytes"),
        ] {
            for (result, found) in both(&[file, bad]) {
                let message = result.unwrap_err().to_string();
                assert!(message.contains(part) && message.contains(bad.0.trim_start_matches('/')), "{message}");
                assert_eq!(found, ["old"]);
            }
        }
        let hard_link = ("data/link", EntryType::Link, &b""[..]);
        assert!(unpacked("x.tar.gz", &tar_gz(&[file, hard_link]), true).0.is_err());
    }

    #[test]
    fn too_many_entries_are_refused() {
        let names = ["data/a", "data/b", "data/c", "data/d", "data/e"];
        for (result, _) in both(&names.map(|name| (name, EntryType::Regular, &b""[..]))) {
            assert!(result.unwrap_err().to_string().contains("at most 4"));
        }
    }

    #[test]
    fn damage_is_found() {
        let contents: Vec<u8> = (0..900u32).map(|i| (i * i % 251) as u8).collect();
        let entries = [("data/a", EntryType::Regular, &contents[..])];
        for (name, whole) in [("x.tar.gz", tar_gz(&entries)), ("x.zip", zip(&entries))] {
            for len in [0, 10, whole.len() / 2, whole.len() - 1] {
                let (result, found) = unpacked(name, &whole[..len], true);
                assert!(matches!(result, Err(Error::Archive { .. })), "{name} cut to {len}");
                assert_eq!(found, ["old"]);
            }
            let mut changed = whole.clone();
            changed[whole.len() / 2] ^= 0x10;
            assert!(unpacked(name, &changed, true).0.is_err(), "{name} changed");
        }
    }

    #[test]
    fn what_is_not_right_after_all_changes_nothing() {
        let archive = tar_gz(&[("data/a", EntryType::Regular, b"1")]);
        let (result, found) = unpacked("x.tar.gz", &archive, false);
        assert!(result.unwrap_err().to_string().contains("refused"));
        assert_eq!(found, ["old"]);
        let (result, _) = unpacked("x.tar.gz", &tar_gz(&[("other/a", EntryType::Regular, b"1")]), true);
        assert!(result.unwrap_err().to_string().contains("expected a folder"));
    }
}
