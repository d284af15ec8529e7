//! Downloads that are whole or not there: a file has its own name only after its size and digest were checked.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use ureq::Agent;
use ureq::http::{Response, StatusCode, header};

use super::catalogue::Remote;
use super::sha256;
use crate::Error;

/// The largest file that is accepted from where no size was published.
const MOST_BYTES: u64 = 1 << 30;

/// How patient a download is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long a connection may take.
    pub connect: Duration,
    /// How long a server may be silent.
    pub stall: Duration,
    /// How often all addresses are tried; what one left unfinished, the next goes on with.
    pub rounds: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { connect: Duration::from_secs(15), stall: Duration::from_secs(30), rounds: 3 }
    }
}

/// How far a download is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file.
    pub file: &'a str,
    /// Bytes that are there.
    pub done: u64,
    /// All its bytes, if anybody says how many.
    pub total: Option<u64>,
}

/// Why an attempt failed.
enum Failure {
    /// The address did not give what it should: another one may.
    Remote(String),
    /// This machine cannot take it: no other address would help.
    Local(Error),
}

/// Downloads a file to `target`. Until it is whole it is called `target.part`, which a later download goes on with.
pub fn download(
    file: &Remote,
    target: &Path,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .user_agent("sdebnn")
        .timeout_resolve(Some(options.connect))
        .timeout_connect(Some(options.connect))
        .timeout_per_read(Some(options.stall))
        .timeout_per_write(Some(options.stall));
    let agent = Agent::new_with_config(config.build());
    let mut attempts = Vec::new();
    for address in std::iter::repeat_n(&file.addresses, options.rounds as usize).flatten() {
        match attempt(&agent, file, address, target, progress) {
            Ok(()) => return Ok(()),
            Err(Failure::Local(error)) => return Err(error),
            Err(Failure::Remote(message)) => attempts.push(format!("{address}: {message}")),
        }
    }
    Err(Error::Download { file: file.name.clone(), attempts })
}

fn attempt(
    agent: &Agent,
    file: &Remote,
    address: &str,
    target: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Failure> {
    let path = target.with_added_extension("part");
    let local = |action| {
        let path = path.clone();
        move |error| Failure::Local(Error::File { action, path, error })
    };
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut part = opened.map_err(local("write"))?;
    // Two downloads must not write to the same part.
    part.try_lock().map_err(|error| local("lock")(error.into()))?;

    let mut done = part.seek(SeekFrom::End(0)).map_err(local("read"))?;
    if file.size != Some(done) {
        if file.size.is_some_and(|size| done > size) {
            done = restart(&mut part).map_err(local("write"))?;
        }
        let mut response = request(agent, address, done)?;
        // A range that the server does not have says that the part is not of this file.
        let no_range = response.status() == StatusCode::RANGE_NOT_SATISFIABLE
            || response.status() == StatusCode::PARTIAL_CONTENT && !starts_at(&response, done);
        if done > 0 && no_range {
            response = request(agent, address, 0)?;
        }
        let start = match response.status() {
            StatusCode::OK => 0,
            StatusCode::PARTIAL_CONTENT if starts_at(&response, done) => done,
            status => return Err(Failure::Remote(format!("the server answered {status}"))),
        };
        let total = response.body().content_length().map(|rest| start + rest);
        if let (Some(size), Some(total)) = (file.size, total)
            && size != total
        {
            return Err(Failure::Remote(format!("has {total} bytes, expected {size}")));
        }
        if start < done {
            done = restart(&mut part).map_err(local("write"))?;
        }
        let most = file.size.unwrap_or(MOST_BYTES);
        let mut body = response.into_body().into_with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; 1 << 16];
        loop {
            progress(Progress { file: &file.name, done, total: file.size.or(total) });
            let stopped = |e| Failure::Remote(format!("stopped after {done} bytes: {e}"));
            let read = body.read(&mut buffer).map_err(stopped)?;
            if read == 0 {
                break;
            }
            done += read as u64;
            if done > most {
                restart(&mut part).map_err(local("write"))?;
                return Err(Failure::Remote(format!("has more than {most} bytes")));
            }
            part.write_all(&buffer[..read]).map_err(local("write"))?;
        }
        if let Some(total) = file.size.or(total)
            && done < total
        {
            return Err(Failure::Remote(format!("stopped after {done} of {total} bytes")));
        }
    }

    if let Some(right) = &file.sha256 {
        part.rewind().map_err(local("read"))?;
        let found = sha256(&part, &path).map_err(Failure::Local)?;
        if found != *right {
            restart(&mut part).map_err(local("write"))?;
            return Err(Failure::Remote(format!("has the SHA-256 digest {found}, expected {right}")));
        }
    }
    part.sync_all().map_err(local("write"))?;
    std::fs::rename(&path, target).map_err(local("rename"))
}

fn request(agent: &Agent, address: &str, from: u64) -> Result<Response<ureq::Body>, Failure> {
    let mut request = agent.get(address);
    if from > 0 {
        request = request.header(header::RANGE, format!("bytes={from}-"));
    }
    request.call().map_err(|error| Failure::Remote(error.to_string()))
}

/// Whether a partial answer is the part that was asked for.
fn starts_at(response: &Response<ureq::Body>, from: u64) -> bool {
    let range = response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {from}-")))
}

/// Forgets what is in a part.
fn restart(part: &mut File) -> std::io::Result<u64> {
    part.set_len(0)?;
    part.rewind()?;
    Ok(0)
}
