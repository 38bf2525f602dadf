//! What is made: the formats of `--to`, beside their place until they are whole.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

#[cfg(not(feature = "parquet"))]
use super::from::without_parquet;
use super::room::Room;
use crate::exit::{Failure, Outcome};
use clap::ValueEnum;
#[cfg(feature = "parquet")]
use kiste::convert::{ArrowIpcWriter, ParquetWriter};
use kiste::convert::{
    CsvWriter, ImageFolderWriter, MdsWriter, NpzWriter, Parts, Place, ShardOptions, TfRecordWriter,
    WebDatasetWriter,
};
use kiste::format::{jsonl, msgpack};
use kiste::storage::{LocalStorage, Storage};
use kiste::{Error, ErrorKind};

/// What `--to` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum To {
    Dataset,
    Jsonl,
    Webdataset,
    Tfrecord,
    Mds,
    Npz,
    Images,
    Csv,
    Parquet,
    Arrow,
}

/// The field of the numbers whose names are in `NAME.labels`.
#[cfg(feature = "parquet")]
const LABEL: &str = "label";

impl To {
    /// What a file of this name is, which is a dataset if the name says nothing else.
    pub(super) fn guess(path: &Path) -> To {
        match &ending(path)[..] {
            "jsonl" | "ndjson" => To::Jsonl,
            "tar" => To::Webdataset,
            "tfrecord" | "tfrecords" => To::Tfrecord,
            "npz" => To::Npz,
            "csv" => To::Csv,
            "parquet" => To::Parquet,
            "arrow" | "feather" => To::Arrow,
            _ => To::Dataset,
        }
    }

    /// Fails if the name says something that cannot be made: it was not meant for a dataset.
    pub(super) fn check_name(path: &Path) -> Outcome<()> {
        let flaw = match &ending(path)[..] {
            "7z" | "bz2" | "gz" | "lz4" | "tbz" | "tbz2" | "tgz" | "txz" | "tzst" | "xz"
            | "zip" | "zst" => "nothing compressed can be made",
            "json" => "JSON can be made as JSON lines only, which end in .jsonl",
            "npy" => "a single array cannot be made, but npz can",
            "tsv" => "TSV cannot be made, but CSV can",
            "h5" | "hdf5" | "lmdb" | "mat" | "pickle" | "pkl" | "pt" | "safetensors" | "txt"
            | "xls" | "xlsx" => "the name says something that cannot be made",
            "mds" => "MDS is a folder, which --to mds makes",
            _ => return Ok(()),
        };
        Err(Failure::trouble(format!("{}: {flaw}", path.display())).hint(
            "names end in .msgpack (dataset), .jsonl, .tar (webdataset), .tfrecord, .npz, .csv, \
             .parquet or .arrow; --to images and --to mds make folders, and --to dataset a dataset \
             of this name",
        ))
    }

    /// Whether it has a place for the names of labels.
    pub(super) fn has_labels(self) -> bool {
        matches!(self, To::Dataset | To::Images | To::Parquet | To::Arrow)
    }
}

/// What the name ends in, in lower case.
fn ending(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}

/// Something new in a folder beside its place: it is moved there when it is whole, and removed if
/// it never is. Writers remove their own files before the room goes, so they stand in front of it.
pub(super) struct Export {
    to: To,
    path: PathBuf,
    force: bool,
    sink: Option<Sink>,
    room: Room,
}

enum Sink {
    Jsonl(BufWriter<File>, Vec<u8>),
    Webdataset(WebDatasetWriter),
    Tfrecord(TfRecordWriter),
    Mds(MdsWriter),
    Npz(NpzWriter),
    Images(ImageFolderWriter),
    Csv(CsvWriter),
    #[cfg(feature = "parquet")]
    Parquet(ParquetWriter),
    #[cfg(feature = "parquet")]
    Arrow(ArrowIpcWriter),
}

impl Export {
    /// Begins it, if there is nothing yet in its place, or something that may be replaced.
    /// The labels are those whose numbers are in the samples.
    pub(super) fn create(
        to: To,
        path: &Path,
        force: bool,
        labels: Option<&[String]>,
    ) -> Outcome<Export> {
        check_place(to, path, force)?;
        let (room, path) = (Room::begin(path)?, path.to_path_buf());
        let mut export = Export { to, path, force, sink: None, room };
        export.sink = Some(export.begin(labels)?);
        Ok(export)
    }

    fn begin(&self, labels: Option<&[String]>) -> Outcome<Sink> {
        let inner = self.room.dir().join(self.path.file_name().unwrap_or_default());
        Ok(match self.to {
            To::Dataset | To::Jsonl => {
                let file = File::create_new(&inner).map_err(|error| Failure::io(&inner, error))?;
                Sink::Jsonl(BufWriter::new(file), Vec::new())
            }
            To::Webdataset => {
                let prefix = self.room.dir().join(prefix(&self.path));
                Sink::Webdataset(WebDatasetWriter::create(prefix, ShardOptions::default())?)
            }
            To::Tfrecord => Sink::Tfrecord(TfRecordWriter::create(inner)?),
            To::Mds => Sink::Mds(MdsWriter::create(inner, MdsWriter::SIZE_LIMIT)?),
            To::Npz => Sink::Npz(NpzWriter::create(inner)),
            To::Images => Sink::Images(ImageFolderWriter::create(inner, labels)?),
            To::Csv => Sink::Csv(CsvWriter::create(inner, b',')?),
            #[cfg(feature = "parquet")]
            To::Parquet => {
                Sink::Parquet(ParquetWriter::create(inner)?.labels(LABEL, labels.unwrap_or(&[])))
            }
            #[cfg(feature = "parquet")]
            To::Arrow => {
                Sink::Arrow(ArrowIpcWriter::create(inner)?.labels(LABEL, labels.unwrap_or(&[])))
            }
            #[cfg(not(feature = "parquet"))]
            To::Parquet => return Err(without_parquet("parquet")),
            #[cfg(not(feature = "parquet"))]
            To::Arrow => return Err(without_parquet("arrow")),
        })
    }

    /// Adds a packed sample. Its error has the key and, where it is known, the field.
    pub(super) fn write(&mut self, packed: &[u8]) -> kiste::Result<()> {
        match &mut self.sink {
            None => Ok(()),
            Some(Sink::Webdataset(writer)) => writer.write_packed(packed),
            Some(Sink::Tfrecord(writer)) => writer.write_packed(packed),
            Some(Sink::Mds(writer)) => writer.write_packed(packed),
            Some(Sink::Npz(writer)) => writer.write_packed(packed),
            Some(Sink::Images(writer)) => writer.write_packed(packed),
            Some(Sink::Csv(writer)) => writer.write_packed(packed),
            #[cfg(feature = "parquet")]
            Some(Sink::Parquet(writer)) => writer.write_packed(packed),
            #[cfg(feature = "parquet")]
            Some(Sink::Arrow(writer)) => writer.write_packed(packed),
            Some(Sink::Jsonl(file, line)) => {
                let key = msgpack::check_sample(packed)?;
                line.clear();
                jsonl::write(&msgpack::decode(packed)?, line).map_err(|error| {
                    Error::new(ErrorKind::Invalid, error.to_string()).with_key(key)
                })?;
                line.push(b'\n');
                file.write_all(line).map_err(|error| Error::io(&self.path, error))
            }
        }
    }

    /// Moves what was made to its place; the names of all files, or of the folder. All of it is on
    /// the disk before anything has its name, and `publishing` hears what gets which.
    pub(super) fn finish(
        self,
        publishing: impl FnMut(&Path, &Path) -> Outcome<()>,
    ) -> Outcome<Vec<PathBuf>> {
        let (to, path, force) = (self.to, self.path.clone(), self.force);
        let room = self.end()?;
        room.sync()?;
        // Meanwhile something may have come there that nobody said to replace.
        check_place(to, &path, force)?;
        publish(&room, &path, publishing)
    }

    /// The same of what is looked at and then thrown away: it need not last.
    pub(super) fn finish_trial(self) -> Outcome<Vec<PathBuf>> {
        let path = self.path.clone();
        publish(&self.end()?, &path, |_, _| Ok(()))
    }

    fn end(mut self) -> Outcome<Room> {
        match self.sink.take() {
            None => {}
            Some(Sink::Webdataset(writer)) => drop(writer.finish()?),
            Some(Sink::Tfrecord(writer)) => writer.finish()?,
            Some(Sink::Mds(writer)) => writer.finish()?,
            Some(Sink::Npz(writer)) => writer.finish()?,
            Some(Sink::Images(writer)) => writer.finish()?,
            Some(Sink::Csv(writer)) => writer.finish()?,
            #[cfg(feature = "parquet")]
            Some(Sink::Parquet(writer)) => writer.finish()?,
            #[cfg(feature = "parquet")]
            Some(Sink::Arrow(writer)) => writer.finish()?,
            Some(Sink::Jsonl(file, _)) => {
                let file = file.into_inner().map_err(std::io::IntoInnerError::into_error);
                let synced = file.and_then(|file| file.sync_all());
                synced.map_err(|error| Failure::io(&self.path, error))?;
            }
        }
        Ok(self.room)
    }
}

fn publish(
    room: &Room,
    path: &Path,
    mut publishing: impl FnMut(&Path, &Path) -> Outcome<()>,
) -> Outcome<Vec<PathBuf>> {
    let names = room.made()?;
    let pairs: Vec<(PathBuf, PathBuf)> =
        names.iter().map(|name| (room.dir().join(name), path.with_file_name(name))).collect();
    for (from, to) in &pairs {
        publishing(from, to)?;
    }
    for (from, to) in &pairs {
        fs::rename(from, to).map_err(|error| Failure::io(to, error))?;
    }
    let parent = path.parent().unwrap_or(Path::new(""));
    LocalStorage::mapped().sync_dir(parent)?;
    Ok(pairs.into_iter().map(|(_, to)| to).collect())
}

/// What the names of shards begin with.
fn prefix(path: &Path) -> PathBuf {
    let plain = if ending(path) == "tar" { path.file_stem() } else { None };
    PathBuf::from(plain.or(path.file_name()).unwrap_or_default())
}

/// Fails if something is there that must stay, before anything is read.
pub(super) fn check_place(to: To, path: &Path, force: bool) -> Outcome<()> {
    let exists = |path: &Path| Failure::trouble(format!("{}: exists already", path.display()));
    match to {
        To::Webdataset => match shards(path)?.first() {
            Some(shard) => {
                let hint = "remove the old shards first: new ones may be fewer";
                Err(exists(shard).hint(hint))
            }
            None => Ok(()),
        },
        _ if path.symlink_metadata().is_err() => Ok(()),
        To::Mds | To::Images => {
            Err(exists(path).hint("remove the old folder first, or name another"))
        }
        _ if path.is_dir() => {
            let path = path.display();
            Err(Failure::trouble(format!("{path}: expected a file to make, found a directory")))
        }
        _ if force => Ok(()),
        _ => Err(exists(path).hint("--force replaces it")),
    }
}

/// The shards that are there.
fn shards(path: &Path) -> Outcome<Vec<PathBuf>> {
    let prefix = format!("{}-", prefix(path).display());
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let mut shards = Vec::new();
    for entry in fs::read_dir(parent).map_err(|error| Failure::io(parent, error))? {
        let name = entry.map_err(|error| Failure::io(parent, error))?.file_name();
        let name = name.to_string_lossy();
        let number = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".tar"));
        if number.is_some_and(|n| n.len() >= 6 && n.bytes().all(|b| b.is_ascii_digit())) {
            shards.push(path.with_file_name(&*name));
        }
    }
    Ok(shards)
}

/// Prepares the place of an export of parts that was begun before: what was published of it is
/// removed, if it was not all. True if it was all, so nothing is left to do.
pub(super) fn clear_place(to: To, path: &Path, parts: &Parts) -> Outcome<bool> {
    Room::clear(path)?;
    let made: Vec<PathBuf> =
        parts.made()?.into_iter().map(|name| path.with_file_name(name)).collect();
    let is_made = |path: &PathBuf| Ok(parts.place(path)? == Place::Made);
    let all: kiste::Result<Vec<bool>> = made.iter().map(is_made).collect();
    if !made.is_empty() && all?.into_iter().all(|made| made) {
        return Ok(true);
    }
    let there = match to {
        To::Webdataset => shards(path)?,
        _ => vec![path.to_path_buf()],
    };
    for path in there {
        let removed = match parts.place(&path)? {
            Place::Free | Place::Before => Ok(()),
            Place::Made if path.is_dir() => fs::remove_dir_all(&path),
            Place::Made => fs::remove_file(&path),
            Place::Foreign => return Err(foreign(&path)),
        };
        removed.map_err(|error| Failure::io(&path, error))?;
    }
    Ok(false)
}

/// Something came to the place of what is made of parts since that was begun.
pub(super) fn foreign(path: &Path) -> Failure {
    let message = "what is there now was put there since the parts began to be joined";
    Failure::trouble(format!("{}: {message}", path.display()))
        .hint("remove it or rename it, then join the parts again")
}
