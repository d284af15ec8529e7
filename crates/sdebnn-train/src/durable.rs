//! Files that are on the disk, whole, once written; before that, whatever had their name is still there.

use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;

/// Writes `path` by way of `temporary`, a path in the same directory, which is gone afterwards even if this fails.
pub(crate) fn write(path: &Path, temporary: &Path, contents: &[u8]) -> Result<()> {
    let attempt = || {
        let mut file = File::create(temporary)?;
        file.write_all(contents)?;
        file.sync_all()?;
        std::fs::rename(temporary, path)
    };
    attempt().inspect_err(|_| {
        // Half a file may be what filled the disk. That it cannot be removed is not the error to report.
        let _ = std::fs::remove_file(temporary);
    })?;
    sync_directory(path)
}

/// A rename survives a power cut only once the directory is on the disk too.
fn sync_directory(path: &Path) -> Result<()> {
    match path.parent() {
        // Only Unix opens directories as files.
        Some(directory) if cfg!(unix) => File::open(directory)?.sync_all(),
        _ => Ok(()),
    }
}
