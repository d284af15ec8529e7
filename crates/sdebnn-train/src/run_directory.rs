//! Run directories: the files of one run. Every file is written whole or not at all.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Error, durable};

/// The file of metrics.
pub(crate) const METRICS: &str = "metrics.jsonl";

/// The lines of a run's `metrics.jsonl`, one an epoch; none before the first is over.
pub fn metrics(run: &Path) -> Result<Vec<Map<String, Value>>, Error> {
    let path = run.join(METRICS);
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        result => result.map_err(|error| Error::File { action: "read", path: path.clone(), error })?,
    };
    let rows: Result<_, _> = text.lines().map(serde_json::from_str).collect();
    rows.map_err(|error| Error::NotARun { path, message: format!("cannot be read: {error}") })
}

/// A directory that holds one run.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Opens (or makes) a directory for the run with this resolved configuration, which is written to `config.toml`. A directory with a run
    /// of another configuration is refused.
    pub fn open(path: &Path, config: &(impl Serialize + DeserializeOwned + PartialEq)) -> Result<Self, Error> {
        let directory = Self::make(path)?;
        let text = toml::to_string(config)
            .map_err(|e| Error::Configuration { source_name: "config.toml".into(), message: e.to_string() })?;
        let file = directory.file("config.toml");
        match std::fs::read_to_string(&file) {
            // Read, not compared as text: a key that has come since then has its default there.
            Ok(found) if same(&found, config) => {}
            Ok(_) => return Err(Error::OtherRun { path: path.into() }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                directory.write("config.toml", text.as_bytes())?;
            }
            Err(error) => return Err(Error::File { action: "read", path: file, error }),
        }
        Ok(directory)
    }

    /// A directory for files that belong to several runs.
    pub fn at(path: &Path) -> Self {
        Self { path: path.into() }
    }

    /// Such a directory, made if it is not there.
    pub fn make(path: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(path).map_err(|error| Error::File { action: "make", path: path.into(), error })?;
        Ok(Self::at(path))
    }

    /// Keeps other processes from writing to the run until the file is closed, be it by `kill -9`.
    pub fn lock(&self) -> Result<File, Error> {
        let path = self.file("lock");
        let failed = |error| Error::File { action: "write", path: path.clone(), error };
        let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(Error::RunInUse { path: self.path.clone() }),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
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
        durable::write(&path, &self.file(&format!("{name}.tmp")), contents).map_err(|error| Error::File {
            action: "write",
            path,
            error,
        })
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

fn same<T: DeserializeOwned + PartialEq>(text: &str, config: &T) -> bool {
    toml::from_str::<T>(text).is_ok_and(|found| found == *config)
}
