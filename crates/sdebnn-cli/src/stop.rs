//! Ctrl-C and SIGTERM.

use std::io::Read;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// What a shell expects of a program that Ctrl-C has ended.
pub const EXIT_CODE: u8 = 130;

/// A run that was stopped after saving everything.
#[derive(Debug)]
pub struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("stopped")
    }
}

impl std::error::Error for Stopped {}

/// What a parent writes to a child that is to stop.
pub const PLEASE: u8 = b's';

static STOP: AtomicBool = AtomicBool::new(false);

/// Makes this process stop when its parent says so, and end with its parent, be that by `kill -9`.
pub fn with_parent() {
    std::thread::spawn(|| {
        for byte in std::io::stdin().lock().bytes() {
            match byte {
                Ok(PLEASE) => STOP.store(true, Ordering::Relaxed),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        std::process::exit(i32::from(EXIT_CODE));
    });
}

/// Becomes true when the user, or the system, asks the program to end. A second time ends it at once.
pub fn flag() -> Result<&'static AtomicBool> {
    static LISTENING: OnceLock<()> = OnceLock::new();
    if LISTENING.set(()).is_ok() {
        ctrlc::set_handler(|| {
            // Not by STOP, which a parent may have set just before.
            static ASKED: AtomicBool = AtomicBool::new(false);
            if ASKED.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(EXIT_CODE));
            }
            STOP.store(true, Ordering::Relaxed);
            eprintln!("\nstopping after this step; once more to stop at once");
        })
        .context("cannot listen for Ctrl-C")?;
    }
    Ok(&STOP)
}
