use kiste::storage::Shown;
use std::path::PathBuf;

use kiste::array::{ArrayAbout, VersionInfo};
use kiste::text::{self, units};

use super::target::{Explained, Moment};
use crate::exit::{Exit, Outcome};
use crate::listing::Listing;
use crate::output::Output;

/// Show type, shape, chunks, compression, versions and attributes of an array
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the array
    name: PathBuf,
    #[command(flatten)]
    moment: Moment,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste array info x
  kiste array info x --at -1
  kiste array info x --json | jq .shape";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let about = self.moment.open(&self.name)?.about().explained(&self.name)?;
        match self.json {
            true => output.json(&about.to_json())?,
            false => print(&about, output)?,
        }
        Ok(Exit::Yes)
    }
}

fn print(about: &ArrayAbout, output: &Output) -> Outcome<()> {
    let info = &about.info;
    let mut list = Listing::new(11, output);
    let mut line = |label: &str, text: String| list.line(label, text);
    let VersionInfo { number, parent, time, message, .. } = &info.version;
    line("array", Shown::of(&info.path).to_string())?;
    let of = units::counted(about.versions, "version");
    let from = if *parent == 0 { String::new() } else { format!(", made from {parent}") };
    let message = message.escape_debug();
    line("version", format!("{number} of {time}{from}: {message} ({of})"))?;
    line("type", info.dtype.to_string())?;
    line("shape", text::shape(&info.shape))?;
    let (chunk, grid) = (text::shape(&info.chunk_shape), text::shape(&info.grid));
    let (stored, all) = (units::count(about.stored_chunks()), units::count(about.all_chunks()));
    let each = units::bytes(about.chunk_bytes());
    let chunks = format!("{chunk} in C order, {each}, a grid of {grid}, {stored} of {all} stored");
    line("chunks", chunks)?;
    line("fill", about.fill.to_string())?;
    let ratio = match info.cbytes {
        0 => String::new(),
        cbytes => format!(" (ratio {:.2})", info.nbytes as f64 / cbytes as f64),
    };
    let (nbytes, cbytes) = (units::count(info.nbytes), units::count(info.cbytes));
    line("bytes", format!("{nbytes}, compressed {cbytes}{ratio}"))?;
    let (codec, level, _) = &info.compression;
    let shuffle = about.shuffle();
    line("codec", format!("{codec}, level {level}, shuffle {shuffle}, {}", info.checksum))?;
    let (most, room) = (units::counted(info.superchunk.into(), "chunk"), info.room);
    let room = if room == 0 { String::new() } else { format!(", {room} spare bytes after each") };
    line("files", format!("at most {most} in one{room}"))?;
    let (files, disk) = (units::counted(about.files, "file"), units::bytes(about.disk_bytes));
    let versioned = if info.versioned { "" } else { ", not versioned" };
    line("on disk", format!("{files}, {disk}, all versions{versioned}"))?;
    for (path, stored, bytes) in info.columns.iter().filter(|(path, ..)| !path.is_empty()) {
        let stored = units::counted(*stored, "chunk");
        line("column", format!("{path}: {stored}, {}", units::bytes(*bytes)))?;
    }
    for (name, value) in &info.attributes {
        line("attribute", format!("{} = {value}", name.escape_debug()))?;
    }
    list.finish()
}
