//! The files to be indexed: which ones, of what format, and their names in the index.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::InPlace;
use super::old::{Old, Was};
#[cfg(feature = "parquet")]
use crate::convert::carried::RemarkLog;
use crate::convert::file_names::{self, KeyNames};
use crate::convert::format::Format;
#[cfg(feature = "parquet")]
use crate::convert::formats::arrow::folder::expand_folders;
use crate::convert::formats::mds::MdsReader;
use crate::convert::layout::{self, Layout};
use crate::convert::{source_file, source_patterns};
use crate::error::{Error, ErrorKind, Result};
use crate::format::in_place::{Frame, Kind};
use crate::storage::is_url;

/// The columns of an MDS shard, and its samples.
pub(super) type Columns = (Frame, u64);

/// A file to be indexed.
pub(super) struct File {
    pub(super) path: PathBuf,
    /// Its name in the index.
    pub(super) name: String,
    pub(super) called: Option<String>,
    /// The columns of an MDS shard, and its samples.
    pub(super) mds: Option<Columns>,
    /// The shard of an index that it may still be.
    pub(super) was: Option<Was>,
}

/// The kind and the files of these sources.
pub(super) fn find(sources: &[PathBuf], from: Option<Format>) -> Result<(Kind, Vec<PathBuf>)> {
    source_file::check_urls(sources)?;
    let paths = source_patterns::expand(sources, from, false)?;
    source_file::forget_versions(&paths);
    let Layout { format, groups, .. } = Layout::of(&paths, from)?;
    format.check_available()?;
    if let [first, second, ..] = &groups[..] {
        let name = |group: &layout::Group| group.split.clone().unwrap_or_default();
        let message = format!(
            "expected files of one split, found {:?} and {:?}: name the files of one",
            name(first),
            name(second)
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let kind = kind_of(format)?;
    let paths: Vec<PathBuf> = groups.into_iter().flat_map(|group| group.paths).collect();
    let paths = match kind {
        #[cfg(feature = "parquet")]
        Kind::Arrow => {
            expand_folders(file_names::files(paths)?, "arrow", false, &RemarkLog::default())?
        }
        Kind::Mds => paths,
        _ => file_names::files(paths)?,
    };
    if let Some(path) = paths.iter().find(|path| layout::has_values(path)) {
        let message = "the names of its folders have values, which are not read in place";
        return Err(Error::new(ErrorKind::Unsupported, message).at(path).advise(CONVERT));
    }
    Ok((kind, paths))
}

/// What can be done with files that cannot be read in place.
pub(super) const CONVERT: &str = "convert it instead: kiste convert";

fn kind_of(format: Format) -> Result<Kind> {
    Ok(match format {
        Format::Webdataset => Kind::WebDataset,
        Format::Jsonl => Kind::Jsonl,
        Format::Mds => Kind::Mds,
        _ => match format.name() {
            "tfrecord" => Kind::TfRecord,
            "arrow" => Kind::Arrow,
            name => {
                let message = format!(
                    "expected files of webdataset, jsonl, tfrecord, mds or arrow, found {name}, whose samples \
                     have no places of their own"
                );
                return Err(Error::new(ErrorKind::Unsupported, message).advise(CONVERT));
            }
        },
    })
}

/// The files of an index, with their names in it.
pub(super) fn files(
    kind: Kind,
    paths: Vec<PathBuf>,
    given: &InPlace,
    olds: &[Old],
) -> Result<Vec<File>> {
    let mut found: Vec<(PathBuf, Option<Columns>)> = Vec::new();
    let mut known: HashMap<String, Was> = HashMap::new();
    for (number, old) in olds.iter().enumerate() {
        for (at, path) in old.paths().enumerate() {
            known.entry(name_of(&path, &given.output)?).or_insert((number, at));
        }
    }
    // What `index.json` says in the folders of shards that are named themselves.
    let mut folders: HashMap<PathBuf, HashMap<PathBuf, Columns>> = HashMap::new();
    for path in paths {
        match kind {
            Kind::Mds if !names_mds_shard(&path) => {
                found.extend(mds_shards(&path)?.into_iter().map(|(path, at)| (path, Some(at))));
            }
            Kind::Mds => {
                let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
                let known = folders.entry(folder).or_insert_with_key(|folder| {
                    // Shards that have not changed do not need it.
                    mds_shards(folder).unwrap_or_default().into_iter().collect()
                });
                let columns = known.remove(&path);
                found.push((path, columns));
            }
            _ => found.push((path, None)),
        }
    }
    let in_keys = given.options.key.as_deref().is_some_and(|key| key.contains("{key.shard}"));
    let paths: Vec<&PathBuf> = found.iter().map(|(path, _)| path).collect();
    let called = KeyNames::of(&paths);
    let mut files = Vec::with_capacity(found.len());
    for (at, (path, mds)) in found.into_iter().enumerate() {
        let name = name_of(&path, &given.output)?;
        let was = known.get(&name).copied();
        let called = match was {
            Some((old, at)) => olds[old].index.shards[at].called.clone(),
            None if kind == Kind::WebDataset && !in_keys => None,
            None => Some(called.name(at, &path)?.to_owned()),
        };
        files.push(File { path, name, called, mds, was });
    }
    Ok(files)
}

fn names_mds_shard(path: &Path) -> bool {
    path.to_str().is_some_and(|name| name.ends_with(".mds"))
}

/// The shards of a folder that an `index.json` lists, with their columns.
fn mds_shards(path: &Path) -> Result<Vec<(PathBuf, Columns)>> {
    let reader = MdsReader::open(path)?;
    let mut shards = Vec::new();
    for (path, info) in reader.shard_files()? {
        let columns = info
            .columns
            .iter()
            .map(|column| (column.name.clone(), column.encoding.to_string(), column.size));
        let frame = Frame { columns: columns.collect(), ..Frame::default() };
        shards.push((path, (frame, info.samples)));
    }
    Ok(shards)
}

/// The name of a file in an index: relative to its folder, if it is below it.
fn name_of(path: &Path, output: &Path) -> Result<String> {
    let not_text = || {
        let message = "expected a name in UTF-8, as the index has it, found another";
        Error::new(ErrorKind::Invalid, message).at(path)
    };
    let text = path.to_str().ok_or_else(not_text)?;
    if is_url(path) || is_url(output) {
        let folder = output.to_str().and_then(|output| output.rsplit_once('/'));
        let below = folder.filter(|_| is_url(output)).and_then(|(folder, _)| {
            text.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'))
        });
        return match (below, is_url(path)) {
            (Some(below), _) => Ok(below.to_owned()),
            (None, true) if !is_url(output) => Ok(text.to_owned()),
            _ => {
                let message =
                    "expected a file next to the index or below its folder, as it is behind a URL";
                Err(Error::new(ErrorKind::Invalid, message).at(path))
            }
        };
    }
    let at = |path: &Path| std::path::absolute(path).map_err(|error| Error::io(path, error));
    let (file, folder) = (at(path)?, at(output)?);
    let folder = folder.parent().unwrap_or(Path::new("/"));
    match file.strip_prefix(folder) {
        Ok(below) => {
            let parts = below.iter().map(|part| part.to_str().ok_or_else(not_text));
            Ok(parts.collect::<Result<Vec<_>>>()?.join("/"))
        }
        Err(_) => file.to_str().map(str::to_owned).ok_or_else(not_text),
    }
}
