//! Downloads from a server that is well or badly behaved.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flate2::{Compression, write::GzEncoder};
use sdebnn_data::Error;
use sdebnn_data::fetch::catalogue::{DataSet, Entry, Remote};
use sdebnn_data::fetch::download::{Options, Progress, download};
use sdebnn_data::fetch::{fetch_entry, verify};
use sha2::{Digest, Sha256};

const PATIENCE: Options = Options { connect: Duration::from_millis(500), stall: Duration::from_millis(150), rounds: 1 };

/// The path and the beginning of the range that was asked for.
type Request = (String, Option<u64>);

/// Serves one file; the first part of the path says how.
struct Server {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    requests: Arc<Mutex<Vec<Request>>>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    fn new(file: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, ended, requests) = (listener.local_addr().unwrap(), Arc::default(), Arc::default());
        let mut server = Self { address, ended, requests, acceptor: None };
        let (ended, requests) = (server.ended.clone(), server.requests.clone());
        server.acceptor = Some(std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let (file, requests) = (file.clone(), requests.clone());
                // A client that hangs up is nothing to fail for.
                std::thread::spawn(move || answer(stream.unwrap(), &file, &requests).ok());
            }
        }));
        server
    }

    fn remote(&self, ways: &[&str], file: &[u8]) -> Remote {
        Remote {
            name: "file".into(),
            addresses: ways.iter().map(|way| format!("http://{}/{way}", self.address)).collect(),
            size: Some(file.len() as u64),
            sha256: Some(format!("{:x}", Sha256::digest(file))),
        }
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        self.acceptor.take().unwrap().join().unwrap();
    }
}

fn answer(mut stream: TcpStream, file: &[u8], requests: &Mutex<Vec<Request>>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().unwrap()?;
    let way = request.split(' ').nth(1).unwrap().trim_start_matches('/').to_owned();
    let mut from = None;
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if let Some(range) = line.strip_prefix("range: bytes=") {
            from = range.trim_end_matches('-').parse::<u64>().ok();
        }
        if line.is_empty() {
            break;
        }
    }
    requests.lock().unwrap().push((way.clone(), from));
    let start = from.unwrap_or(0) as usize;
    let (status, range) = match (from, way.as_str()) {
        (None, _) | (_, "ignores-ranges") => ("200 OK", String::new()),
        (_, "wrong-range") => ("206 Partial Content", format!("Content-Range: bytes 0-{0}/{0}\r\n", file.len())),
        (Some(from), way) if way == "refuses-ranges" || from >= file.len() as u64 => {
            ("416 Range Not Satisfiable", String::new())
        }
        _ => ("206 Partial Content", format!("Content-Range: bytes {start}-{}/{}\r\n", file.len() - 1, file.len())),
    };
    let body = if status.starts_with("206") && way != "wrong-range" { &file[start..] } else { file };
    let mut head = |status: &str, more: &str, len: usize| {
        write!(stream, "HTTP/1.1 {status}\r\n{more}Content-Length: {len}\r\nConnection: close\r\n\r\n")
    };
    match way.as_str() {
        "missing" => head("404 Not Found", "", 0),
        "redirects" => head("302 Found", "Location: /fine\r\n", 0),
        "circles" => head("302 Found", "Location: /circles\r\n", 0),
        _ if status.starts_with("416") => head(status, "", 0),
        "other-size" => head(status, "", 5).and_then(|()| stream.write_all(b"hello")),
        "endless" => {
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            (0..1000).try_for_each(|_| stream.write_all(&[7; 1000]))
        }
        "corrupts" => {
            let mut body = body.to_vec();
            body[1] ^= 1;
            head(status, &range, body.len()).and_then(|()| stream.write_all(&body))
        }
        "truncates" | "stalls" => {
            head(status, &range, body.len())?;
            stream.write_all(&body[..body.len() / 2])?;
            // A client that gives up closes the connection, which ends the wait.
            if way == "stalls" { stream.read(&mut [0]).map(drop) } else { Ok(()) }
        }
        "silent" => stream.read(&mut [0]).map(drop),
        _ => head(status, &range, body.len()).and_then(|()| stream.write_all(body)),
    }
}

struct Case {
    server: Server,
    dir: tempfile::TempDir,
    file: Vec<u8>,
}

impl Case {
    fn new() -> Self {
        let file: Vec<u8> = (0..300_000u32).map(|i| (i * 7 % 253) as u8).collect();
        Self { server: Server::new(file.clone()), dir: tempfile::tempdir().unwrap(), file }
    }

    fn target(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    fn part(&self) -> PathBuf {
        self.dir.path().join("file.part")
    }

    fn download(&self, ways: &[&str]) -> Result<(), Error> {
        let remote = self.server.remote(ways, &self.file);
        download(&remote, &self.target(), &PATIENCE, &mut |_| {})
    }

    fn assert_whole(&self) {
        assert!(std::fs::read(self.target()).unwrap() == self.file);
        assert!(!self.part().exists());
    }

    /// The message of a download that has to fail and leave nothing under the final name.
    fn failure(&self, ways: &[&str]) -> String {
        let message = self.download(ways).unwrap_err().to_string();
        assert!(!self.target().exists());
        message
    }
}

#[test]
fn a_file_comes_whole_and_says_how_far_it_is() {
    let case = Case::new();
    let mut seen = Vec::new();
    let mut progress = |progress: Progress| {
        assert_eq!((progress.file, progress.total), ("file", Some(300_000)));
        seen.push(progress.done);
    };
    download(&case.server.remote(&["fine"], &case.file), &case.target(), &PATIENCE, &mut progress).unwrap();
    case.assert_whole();
    assert!(seen.is_sorted() && seen[0] == 0 && seen[seen.len() - 1] == 300_000);
}

#[test]
fn redirects_are_followed_but_not_for_ever() {
    let case = Case::new();
    assert!(case.failure(&["circles"]).contains("redirect"));
    case.download(&["redirects"]).unwrap();
    case.assert_whole();
}

#[test]
fn a_part_is_gone_on_with() {
    let case = Case::new();
    std::fs::write(case.part(), &case.file[..100_000]).unwrap();
    case.download(&["redirects"]).unwrap();
    case.assert_whole();
    assert_eq!(case.server.requests(), [("redirects".into(), Some(100_000)), ("fine".into(), Some(100_000))]);
}

#[test]
fn the_next_address_goes_on_where_one_stopped() {
    let case = Case::new();
    case.download(&["truncates", "missing", "other-size", "fine"]).unwrap();
    case.assert_whole();
    assert_eq!(case.server.requests().pop(), Some(("fine".into(), Some(150_000))));
}

#[test]
fn a_whole_part_needs_no_server() {
    let case = Case::new();
    std::fs::write(case.part(), &case.file).unwrap();
    case.download(&["missing"]).unwrap();
    case.assert_whole();
    assert!(case.server.requests().is_empty());
}

#[test]
fn servers_without_ranges_begin_again() {
    for way in ["ignores-ranges", "refuses-ranges", "wrong-range"] {
        let case = Case::new();
        std::fs::write(case.part(), &case.file[..100_000]).unwrap();
        case.download(&[way]).unwrap();
        case.assert_whole();
    }
}

#[test]
fn wrong_bytes_are_found_and_forgotten() {
    let case = Case::new();
    let message = case.failure(&["corrupts"]);
    assert!(message.contains("SHA-256") && message.contains("/corrupts"), "{message}");
    assert_eq!(std::fs::metadata(case.part()).unwrap().len(), 0);
    // So they are in a part of unknown origin.
    for wrong in [vec![1; 100_000], vec![1; 300_000], vec![1; 400_000]] {
        std::fs::write(case.part(), wrong).unwrap();
        case.download(&["fine", "fine"]).unwrap();
        case.assert_whole();
        std::fs::remove_file(case.target()).unwrap();
    }
}

#[test]
fn a_server_that_stalls_is_left() {
    let case = Case::new();
    let begun = Instant::now();
    let message = case.failure(&["stalls", "silent"]);
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert!(message.contains("stopped after 150000 bytes: timeout") && message.lines().count() == 3, "{message}");
    case.download(&["fine"]).unwrap();
    case.assert_whole();
}

#[test]
fn what_is_wrong_is_said_for_every_address() {
    let case = Case::new();
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let mut remote = case.server.remote(&["missing", "other-size", "endless", "truncates"], &case.file);
    remote.addresses.push(format!("http://{nobody}/closed"));
    let message = download(&remote, &case.target(), &PATIENCE, &mut |_| {}).unwrap_err().to_string();
    for part in [
        "/missing: the server answered 404",
        "/other-size: has 5 bytes, expected 300000",
        "/endless: has more than 300000 bytes",
        "/truncates: stopped after 150000 bytes",
        "/closed: ",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!case.target().exists());
}

#[test]
fn two_downloads_do_not_share_a_part() {
    let case = Case::new();
    let other = std::fs::File::create(case.part()).unwrap();
    other.lock().unwrap();
    assert!(case.failure(&["fine"]).contains("cannot lock"));
}

#[test]
fn size_and_digest_need_not_be_known() {
    let case = Case::new();
    let remote = Remote { size: None, sha256: None, ..case.server.remote(&["truncates", "fine"], &case.file) };
    download(&remote, &case.target(), &PATIENCE, &mut |_| {}).unwrap();
    case.assert_whole();
    // The part is whole, but nobody knows: there is nothing left to ask for, so it comes again.
    std::fs::rename(case.target(), case.part()).unwrap();
    download(&remote, &case.target(), &PATIENCE, &mut |_| {}).unwrap();
    case.assert_whole();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_data_set_of_files_is_fetched_and_read() {
    let images = gzip(&[&0x803u32.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28], &[9; 784]].concat());
    let labels = gzip(&[0, 0, 8, 1, 0, 0, 0, 1, 3]);
    let servers = [Server::new(images.clone()), Server::new(labels.clone())];
    let file = |part: &str, what: &str| {
        let (server, contents) = if what == "images-idx3" { (&servers[0], &images) } else { (&servers[1], &labels) };
        Remote { name: format!("mnist/{part}-{what}-ubyte.gz"), ..server.remote(&["fine"], contents) }
    };
    let files = ["train", "t10k"].iter().flat_map(|part| ["images-idx3", "labels-idx1"].map(|what| file(part, what)));
    let entry = Entry { set: DataSet::Mnist, files: files.collect(), unpacks_to: None };
    let dir = tempfile::tempdir().unwrap();
    let contents = fetch_entry(dir.path(), &entry, &PATIENCE, &mut |_| {}).unwrap();
    assert_eq!(contents.counts, [("training images", 1), ("test images", 1)]);
    assert_eq!((contents.complete, contents.original), (false, Some(false)));
    // Again: all is there.
    fetch_entry(dir.path(), &entry, &PATIENCE, &mut |_| {}).unwrap();
    assert!(servers.iter().all(|server| server.requests().len() == 2));
}

fn walker_zip(number: f64) -> Vec<u8> {
    let header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 17), }\n";
    let mut array = [&b"\x93NUMPY\x01\0"[..], &(header.len() as u16).to_le_bytes(), header].concat();
    array.extend([number; 17].map(f64::to_le_bytes).concat());
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("walker/rollout_000.npy", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(&array).unwrap();
    zip.finish().unwrap().into_inner()
}

fn fetch_walker(dir: &Path, zip: Vec<u8>) -> Result<(), Error> {
    let server = Server::new(zip.clone());
    let remote = Remote { name: "walker.zip".into(), size: None, sha256: None, ..server.remote(&["fine"], &zip) };
    let entry = Entry { set: DataSet::Walker2d, files: vec![remote], unpacks_to: Some("walker") };
    let contents = fetch_entry(dir, &entry, &PATIENCE, &mut |_| {})?;
    assert_eq!((contents.counts, contents.original), (vec![("sequences", 1)], None));
    Ok(())
}

#[test]
fn an_archive_is_unpacked_only_if_it_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let names = || -> Vec<_> { std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect() };
    let message = fetch_walker(dir.path(), walker_zip(f64::NAN)).unwrap_err().to_string();
    assert!(message.contains("rollout_000.npy") && message.contains("found NaN"), "{message}");
    assert!(fetch_walker(dir.path(), b"no archive".to_vec()).is_err());
    assert!(names().is_empty());
    assert!(matches!(verify(dir.path(), DataSet::Walker2d), Err(Error::Missing { .. })));
    fetch_walker(dir.path(), walker_zip(1.0)).unwrap();
    assert_eq!(names(), ["walker"]);
}
