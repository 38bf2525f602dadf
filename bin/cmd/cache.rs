use std::io::Write;
use std::path::PathBuf;

use kiste::storage::{Cache, CacheUsage, Shown};
use kiste::text::units;
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::output::Output;

/// Show or empty the cache of remote files
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Directory of the cache [default: KISTE_CACHE]
    dir: Option<PathBuf>,
    /// Empty it
    #[arg(long)]
    clear: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  export KISTE_CACHE=/scratch/kiste KISTE_CACHE_SIZE=200G
  kiste bench s3://bucket/train.msgpack
  kiste cache
  kiste cache --clear

Set KISTE_CACHE, and every command keeps what it reads from URLs in this directory: at most KISTE_CACHE_SIZE (default: 10G), shared by all processes, verified before use. A file that is replaced at its URL is fetched again. --clear leaves files that a process is writing to.";

#[derive(Serialize)]
struct Usage {
    dir: Shown,
    bytes: u64,
    files: u64,
    objects: u64,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let variable = || std::env::var_os("KISTE_CACHE").filter(|dir| !dir.is_empty());
        let Some(dir) = self.dir.or_else(|| variable().map(PathBuf::from)) else {
            let failure = Failure::trouble("expected the directory of a cache, found none");
            return Err(failure.hint("name it, or set the environment variable KISTE_CACHE"));
        };
        let cache = Cache::open(&dir, u64::MAX)?;
        let before = cache.usage()?;
        let usage = if self.clear { cache.clear()? } else { before };
        let CacheUsage { bytes, files, objects, .. } = usage;
        if self.json {
            output.json(&Usage { dir: Shown::of(&dir), bytes, files, objects })?;
            return Ok(Exit::Yes);
        }
        let label = |text: &str| output.bold(format_args!("{text:<9}"));
        let mut out = output.stdout();
        writeln!(out, "{}{}", label("cache"), file::shown(&dir))?;
        if self.clear {
            let removed = units::bytes(before.bytes.saturating_sub(bytes));
            writeln!(out, "{}{removed}", label("removed"))?;
        }
        let in_files = format!("{} in {}", units::bytes(bytes), units::counted(files, "file"));
        let in_use = if self.clear && files > 0 { ", in use" } else { "" };
        writeln!(out, "{}{in_files}{in_use}", label("holds"))?;
        writeln!(out, "{}{}", label("objects"), units::count(objects))?;
        out.flush()?;
        Ok(Exit::Yes)
    }
}
