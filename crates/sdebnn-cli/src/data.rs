//! `sdebnn data`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use sdebnn_data::Error;
use sdebnn_data::fetch::catalogue::DataSet;
use sdebnn_data::fetch::download::{Options, Progress};
use sdebnn_data::fetch::{Contents, fetch, list, verify};

use crate::arguments::{DataAction, DataArguments, DataName};
use crate::{data_directory, print};

/// `sdebnn data`.
pub fn run(action: &DataAction) -> Result<()> {
    match action {
        DataAction::Fetch(arguments) => {
            let (dir, set) = place(arguments);
            let mut bars = Bars { quiet: arguments.quiet, file: String::new(), bar: ProgressBar::hidden() };
            let contents = fetch(&dir, set, &Options::default(), &mut |progress| bars.show(&progress))?;
            bars.bar.finish_and_clear();
            if arguments.quiet { Ok(()) } else { print(&text(&dir, &contents)) }
        }
        DataAction::Verify(arguments) => {
            let (dir, set) = place(arguments);
            let contents = verify(&dir, set)?;
            if !contents.complete {
                bail!("{}is incomplete; `sdebnn data fetch {}` gets it whole", text(&dir, &contents), set.name());
            }
            if arguments.quiet { Ok(()) } else { print(&text(&dir, &contents)) }
        }
        DataAction::List { data, json } => {
            let dir = directory(data.as_ref());
            let mut lines = String::new();
            for (set, found) in list(&dir) {
                lines += &match (&found, json) {
                    (Ok(contents), false) => text(&dir, contents),
                    (Err(Error::Missing { .. }), false) => format!("{:<9} not in {}\n", set.name(), dir.display()),
                    (Err(error), false) => format!("{:<9} {error}\n", set.name()),
                    (found, true) => line(set, found.as_ref().ok()) + "\n",
                };
            }
            print(&lines)
        }
    }
}

fn directory(option: Option<&PathBuf>) -> PathBuf {
    data_directory(option).unwrap_or_else(|| "data".into())
}

fn place(arguments: &DataArguments) -> (PathBuf, DataSet) {
    let set = match arguments.set {
        DataName::Mnist => DataSet::Mnist,
        DataName::Cifar10 => DataSet::Cifar10,
        DataName::Walker2d => DataSet::Walker2d,
    };
    (directory(arguments.data.as_ref()), set)
}

fn text(dir: &Path, contents: &Contents) -> String {
    let counts: Vec<String> = contents.counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    let state = match (contents.complete, contents.original) {
        (false, _) => "incomplete",
        (true, Some(true)) => "complete, as published",
        (true, Some(false)) => "complete; its bytes are not those published",
        (true, None) => "complete; there is no published digest to compare with",
    };
    format!("{:<9} {} in {}: {state}\n", contents.set.name(), counts.join(", "), dir.display())
}

fn line(set: DataSet, contents: Option<&Contents>) -> String {
    let counts =
        contents.map(|c| serde_json::Map::from_iter(c.counts.iter().map(|(k, v)| (k.to_string(), (*v).into()))));
    serde_json::json!({
        "name": set.name(),
        "complete": contents.is_some_and(|c| c.complete),
        "as_published": contents.and_then(|c| c.original),
        "counts": counts,
    })
    .to_string()
}

/// A bar a file on a terminal, a line a file elsewhere.
struct Bars {
    quiet: bool,
    file: String,
    bar: ProgressBar,
}

impl Bars {
    fn show(&mut self, progress: &Progress) {
        if self.quiet {
            return;
        }
        if self.file != progress.file {
            self.file = progress.file.to_string();
            self.bar.finish_and_clear();
            let template = "{prefix} {wide_bar} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";
            let style = ProgressStyle::with_template(template).expect("a valid template");
            self.bar = ProgressBar::new(progress.total.unwrap_or(0)).with_style(style).with_prefix(self.file.clone());
            if self.bar.is_hidden() {
                eprintln!("downloading {}", self.file);
            }
        }
        self.bar.set_position(progress.done);
    }
}
