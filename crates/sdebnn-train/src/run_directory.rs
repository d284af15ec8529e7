//! Run directories: the files of one run. Every file is written whole or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Error;

/// A directory that holds one run.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Opens (or makes) a directory for the run with this resolved configuration, which is written to `config.toml`. A directory with a run
    /// of another configuration is refused.
    pub fn open(path: &Path, config: &impl Serialize) -> Result<Self, Error> {
        let directory = Self { path: path.into() };
        std::fs::create_dir_all(path).map_err(|error| Error::File { action: "make", path: path.into(), error })?;
        let text = toml::to_string(config)
            .map_err(|e| Error::Configuration { source_name: "config.toml".into(), message: e.to_string() })?;
        let file = directory.file("config.toml");
        match std::fs::read_to_string(&file) {
            Ok(found) if found != text => return Err(Error::OtherRun { path: path.into() }),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                directory.write("config.toml", text.as_bytes())?;
            }
            Err(error) => return Err(Error::File { action: "read", path: file, error }),
        }
        Ok(directory)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file: to a temporary name, to the disk, then under its own name.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<(), Error> {
        let path = self.file(name);
        let attempt = || -> std::io::Result<()> {
            let mut builder = tempfile::Builder::new();
            // Temporary files are private; these are to be as open as any other file.
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
            let mut file = builder.tempfile_in(&self.path)?;
            file.write_all(contents)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        attempt().map_err(|error| Error::File { action: "write", path: path.clone(), error })
    }

    /// Writes one JSON value a line.
    pub fn write_json_lines(&self, name: &str, rows: &[impl Serialize]) -> Result<(), Error> {
        let mut text = String::new();
        for row in rows {
            text += &self.json(name, row, false)?;
            text.push('\n');
        }
        self.write(name, text.as_bytes())
    }

    /// Writes a JSON value for people to read.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        self.write(name, (self.json(name, value, true)? + "\n").as_bytes())
    }

    fn json(&self, name: &str, value: &impl Serialize, pretty: bool) -> Result<String, Error> {
        let text = if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        text.map_err(|error| Error::File { action: "write", path: self.file(name), error: error.into() })
    }
}
