use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::array::{ArrayInfo, At, VersionInfo};
use kiste::text::units;
use kiste::value::NdArray;
use serde_json::{Value, json};

use super::target::{Explained, open, shown};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Output;

/// Show type, shape, chunks, compression, versions and attributes of an array
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the array
    name: PathBuf,
    /// Version: a number, -1 for the one before the newest, or a time in UTC
    #[arg(long, value_name = "V", allow_hyphen_values = true)]
    at: Option<At>,
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
        let array = open(&self.name, self.at.unwrap_or_default())?;
        let info = array.info();
        let versions = array.versions().explained(&self.name)?.len();
        let (files, disk) = on_disk(&self.name)?;
        let fill = NdArray::new(info.dtype.clone(), [], info.fill.clone())?;
        let fill = fill.to_json()?;
        if self.json {
            output.json(&to_json(&info, fill, versions, files, disk))?;
        } else {
            print(&info, &fill, versions, (files, disk), output)?;
        }
        Ok(Exit::Yes)
    }
}

/// The bytes of a chunk before compression, all fields of it.
fn chunk_bytes(info: &ArrayInfo) -> u64 {
    let elements = info.chunk_shape.iter().map(|len| *len as u64).product::<u64>();
    elements * info.dtype.item_size() as u64
}

fn shuffle_name(info: &ArrayInfo) -> &'static str {
    ["none", "byte", "bit"].get(usize::from(info.compression.2)).copied().unwrap_or("unknown")
}

fn to_json(info: &ArrayInfo, fill: Value, versions: usize, files: u64, disk: u64) -> Value {
    let (codec, level, _) = &info.compression;
    let column = |(path, chunks, bytes): &(String, u64, u64)| json!({"column": path, "chunks": chunks, "cbytes": bytes});
    json!({
        "array": info.path,
        "version": info.version.number,
        "parent": info.version.parent,
        "time": info.version.time,
        "message": info.version.message,
        "versions": versions,
        "dtype": info.dtype.to_string(),
        "shape": info.shape,
        "chunk_shape": info.chunk_shape,
        "grid": info.grid,
        "fill": fill,
        "nbytes": info.nbytes,
        "cbytes": info.cbytes,
        "codec": codec,
        "level": level,
        "shuffle": shuffle_name(info),
        "checksum": info.checksum,
        "chunk_bytes": chunk_bytes(info),
        "order": "C",
        "superchunk": info.superchunk,
        "room": info.room,
        "expected_len": info.expected_len,
        "versioned": info.versioned,
        "columns": info.columns.iter().map(column).collect::<Vec<_>>(),
        "files": files,
        "disk_bytes": disk,
        "attributes": info.attributes,
    })
}

fn print(
    info: &ArrayInfo,
    fill: &Value,
    versions: usize,
    (files, disk): (u64, u64),
    output: &Output,
) -> Outcome<()> {
    let mut out = output.stdout();
    let label = |text: &str| output.bold(format_args!("{text:<11}"));
    let VersionInfo { number, parent, time, message, .. } = &info.version;
    writeln!(out, "{}{}", label("array"), info.path.display())?;
    let of = units::counted(versions as u64, "version");
    let from = if *parent == 0 { String::new() } else { format!(", made from {parent}") };
    let message = message.escape_debug();
    writeln!(out, "{}{number} of {time}{from}: {message} ({of})", label("version"))?;
    writeln!(out, "{}{}", label("type"), info.dtype)?;
    writeln!(out, "{}{}", label("shape"), shown(&info.shape))?;
    let cells: u64 = info.grid.iter().fold(1, |n, len| n.saturating_mul(*len as u64));
    let (chunk, grid) = (shown(&info.chunk_shape), shown(&info.grid));
    let stored: u64 = info.columns.iter().map(|(_, stored, _)| stored).sum();
    let all = cells.saturating_mul(info.columns.len() as u64);
    let of = format!("{} of {} stored", units::count(stored), units::count(all));
    let each = units::bytes(chunk_bytes(info));
    writeln!(out, "{}{chunk} in C order, {each}, a grid of {grid}, {of}", label("chunks"))?;
    writeln!(out, "{}{fill}", label("fill"))?;
    write!(out, "{}{}", label("bytes"), units::count(info.nbytes))?;
    write!(out, ", compressed {}", units::count(info.cbytes))?;
    match info.cbytes {
        0 => writeln!(out)?,
        cbytes => writeln!(out, " (ratio {:.2})", info.nbytes as f64 / cbytes as f64)?,
    }
    let (codec, level, _) = &info.compression;
    let (shuffle, checksum) = (shuffle_name(info), &info.checksum);
    writeln!(out, "{}{codec}, level {level}, shuffle {shuffle}, {checksum}", label("codec"))?;
    let (most, room) = (units::counted(info.superchunk.into(), "chunk"), info.room);
    let room = if room == 0 { String::new() } else { format!(", {room} spare bytes after each") };
    writeln!(out, "{}at most {most} in one{room}", label("files"))?;
    let all = units::counted(files, "file");
    let versioned = if info.versioned { "" } else { ", not versioned" };
    writeln!(out, "{}{all}, {}, all versions{versioned}", label("on disk"), units::bytes(disk))?;
    for (path, stored, bytes) in info.columns.iter().filter(|(path, ..)| !path.is_empty()) {
        let stored = units::counted(*stored, "chunk");
        writeln!(out, "{}{path}: {stored}, {}", label("column"), units::bytes(*bytes))?;
    }
    for (name, value) in &info.attributes {
        writeln!(out, "{}{} = {value}", label("attribute"), name.escape_debug())?;
    }
    Ok(out.flush()?)
}

/// The number of files in a directory, and their bytes.
fn on_disk(dir: &Path) -> Outcome<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        let at = |error| Failure::io(&dir, error);
        for entry in std::fs::read_dir(&dir).map_err(at)? {
            let entry = entry.map_err(at)?;
            // Links are not followed; a file that has disappeared was a temporary one of a writer.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                dirs.push(entry.path());
            } else {
                files += 1;
                bytes += metadata.len();
            }
        }
    }
    Ok((files, bytes))
}
