//! Reads samples from a folder of MDS shards.

use std::collections::HashSet;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::MAX_SHARD;
use super::digest::digest;
use crate::convert::carried::{LeftOut, RemarkLog, Remarks};
use crate::convert::compressed::{self, Zstd};
use crate::convert::file_names::KeyNames;
use crate::convert::formats::image_bytes::flaw;
use crate::convert::input::{Emit, Input};
use crate::convert::source_file::{self, open_once};
use crate::error::{Error, ErrorKind, Result};
use crate::format::mds::{self, Column, Fact, FileInfo, Index, Shard, ShardInfo};
use crate::format::sample_fields::{key_from, pack, stored_name};
use crate::storage::{self, Confined, Source};

/// The supported compressions, for errors.
const COMPRESSIONS: &str = match (cfg!(feature = "parquet"), cfg!(feature = "formats")) {
    (true, true) => "br, bz2, gz, snappy or zstd",
    (true, false) => "br, gz, snappy or zstd",
    (false, true) => "bz2, gz, snappy or zstd",
    (false, false) => "gz, snappy or zstd",
};
/// The file that lists the shards.
pub(super) const INDEX: &str = "index.json";
/// The most bytes of an index: enough for some hundred thousand shards.
const MAX_INDEX: u64 = 256 << 20;

/// Reads a folder that the `MDSWriter` of MosaicML Streaming wrote; each shard is a unit.
///
/// The columns are the fields. NumPy numbers and arrays stay what they are, except that float64
/// becomes a plain float, as Python packs it. Images, and lists of them, are the bytes of files: those
/// of `pil`, which are raw pixels, become PNG of the same pixels. The pixels of a mode that PNG does not
/// have stay as they are, and `str_decimal` becomes a string; both are [counted](Input::remarks).
/// Pickles are never run: a data set with a column of them is refused unless the column is
/// [left out](Self::without). A key is the name of the shard without its ending, a slash and the
/// number of the sample in it; or a [column](Self::key).
///
/// If both exist, the uncompressed shard is preferred to the compressed one, and behind a URL the
/// compressed one. Compression by `gz`,
/// `snappy` and `zstd` is read, `bz2` with the feature `formats`, and `br` with the feature
/// `parquet`, which brings Brotli along. Sizes and all digests that Streaming knows are compared
/// with the index.
///
/// ```no_run
/// use kiste::convert::{InOrder, MdsReader};
///
/// let source = InOrder::new(MdsReader::open("c4/train")?);
/// # Ok::<(), kiste::Error>(())
/// ```
#[doc(alias = "Mds")]
#[must_use]
#[derive(Debug, Clone)]
pub struct MdsReader {
    root: Confined,
    /// The paths of the shards, for errors: of the uncompressed ones, or behind a URL of the compressed ones.
    paths: Vec<PathBuf>,
    shards: Vec<ShardInfo>,
    names: KeyNames,
    without: Vec<String>,
    /// Columns that are nil, as they are dropped afterwards.
    unread: Vec<String>,
    key: Option<String>,
    max_bytes: u64,
    remarks: RemarkLog,
}

impl MdsReader {
    /// Reads `index.json` in this folder, which may be named itself. No shard is opened yet.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) if there is no index, and [`Damaged`](ErrorKind::Damaged)
    /// if it is none.
    pub fn open(root: impl AsRef<Path>) -> Result<MdsReader> {
        let root = match root.as_ref() {
            index if index.ends_with(INDEX) && !index.is_dir() => {
                index.parent().unwrap_or(Path::new(""))
            }
            root => root,
        };
        let root = root.to_path_buf();
        let path = Confined::to(&root).join(INDEX);
        let json = read_index(&path)?;
        let index = Index::parse(&json).map_err(|error| Error::from(error).at(&path))?;
        let is_remote = storage::is_url(&root);
        let root = Confined::to(root).named_in(&path);
        let path_of = |shard: &ShardInfo| {
            let first = shard.zip.as_ref().filter(|_| is_remote).unwrap_or(&shard.raw);
            root.join(&first.basename)
        };
        let paths: Vec<PathBuf> = index.shards.iter().map(path_of).collect();
        source_file::forget_versions(&paths);
        let shards = index.shards;
        let names: Vec<&str> = shards.iter().map(|shard| &*shard.raw.basename).collect();
        let names = KeyNames::of(&names);
        let (without, unread) = (Vec::new(), Vec::new());
        let (key, max_bytes, remarks) = (None, MAX_SHARD, RemarkLog::default());
        for name in unlisted(root.folder(), &shards) {
            let place = || root.join(&name).display().to_string();
            remarks.note(0, LeftOut::UnlistedFile, None, 1, place);
        }
        Ok(MdsReader { root, paths, shards, names, without, unread, key, max_bytes, remarks })
    }

    /// Refuses compressed shards with more bytes than this once they are decompressed, which
    /// happens in memory. Default: 4 GiB, the most that the format allows.
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes.min(MAX_SHARD);
        self
    }

    /// Where the shards would be if none were compressed.
    pub(in crate::convert) fn shard_paths(&self) -> impl Iterator<Item = PathBuf> {
        self.shards.iter().map(|shard| self.root.join(&shard.raw.basename))
    }

    /// The shards that are not compressed, and what is known of them.
    pub(in crate::convert) fn shard_files(&self) -> Result<Vec<(PathBuf, &ShardInfo)>> {
        let mut files = Vec::with_capacity(self.shards.len());
        for info in &self.shards {
            let at = |error: Error| error.at(self.root.join(&info.raw.basename));
            let path = self.root.path(&info.raw.basename).map_err(at)?;
            if info.zip.is_some() && !storage::is_url(&path) && !path.exists() {
                let message = "expected the shard as it is, found it compressed: its samples have no places of their own";
                let error = at(Error::new(ErrorKind::Unsupported, message));
                return Err(error.advise("convert it instead: kiste convert"));
            }
            files.push((path, info));
        }
        Ok(files)
    }

    /// The name of the shards in keys, if there are several data sets.
    pub(in crate::convert) fn called(mut self, names: KeyNames) -> MdsReader {
        self.names = names;
        self
    }

    /// Whether shards may be links out of the folder. Default: no.
    pub fn allow_outside(mut self, yes: bool) -> Self {
        self.root = self.root.allow_outside(yes);
        self
    }

    /// Leaves these columns out.
    pub fn without<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.without = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Takes keys from this column, of strings or integers.
    pub fn key(mut self, column: impl Into<String>) -> Self {
        self.key = Some(column.into());
        self
    }

    /// Does not decode columns that the conversion drops anyway: they are nil.
    pub(in crate::convert) fn unless_dropped(mut self, drops: impl Fn(&str) -> bool) -> Self {
        let columns = self.shards.iter().flat_map(|shard| &shard.columns);
        let names = columns.map(|column| &column.name).filter(|name| drops(stored_name(name)));
        let mut names: Vec<String> = names.cloned().collect();
        names.sort_unstable();
        names.dedup();
        self.unread = names;
        self
    }

    fn is_unread(&self, column: &Column) -> bool {
        self.unread.contains(&column.name)
    }

    fn keeps(&self, column: &Column) -> bool {
        !self.without.contains(&column.name)
    }

    fn pack(&self, unit: &Unit<'_>, index: usize) -> Result<Vec<u8>> {
        let cells = unit.shard.columns(index).unwrap_or_else(|| Ok(Vec::new()))?;
        let Unit { info, notation, number, .. } = *unit;
        let (keeps, unread) = (|c: &Column| self.keeps(c), |c: &Column| self.is_unread(c));
        let note = |column: &Column, fact: Fact<'_>| {
            let (kind, count) = match fact {
                Fact::Image(image) => match flaw(image) {
                    Some(flaw) => (flaw, 1),
                    None => return,
                },
                Fact::Decimal => (LeftOut::Decimal, 1),
                Fact::RawImages(count) => (LeftOut::RawImage, count),
            };
            let place = || format!("{}, sample {index}", self.paths[number].display());
            self.remarks.note(number, kind, Some(&column.name), count, place);
        };
        let fields = mds::fields(&info.columns, cells, notation, &keeps, &unread, &note)?;
        let key = match &self.key {
            Some(name) => key_from(&fields, name)?,
            None => mds::numbered_key(self.names.name(number, &self.paths[number])?, index),
        };
        pack(&key, &fields)
    }

    /// The bytes of a shard, checked against the index.
    fn bytes(&self, info: &ShardInfo) -> Result<Bytes> {
        let path = self.root.join(&info.raw.basename);
        let raw = || self.open_file(&info.raw);
        let unzipped = |zip| self.unzipped(info, zip).map(Bytes::Memory);
        let raw = match &info.zip {
            None => raw(),
            // Over a network the fewer bytes come first.
            Some(zip) if storage::is_url(self.root.folder()) => match unzipped(zip) {
                Err(error) if error.is_absent_or_denied() => raw(),
                unzipped => unzipped,
            },
            Some(zip) => match raw() {
                Err(error) if error.kind() == ErrorKind::NotFound => unzipped(zip),
                raw => raw,
            },
        }?;
        check(&raw.get()?, &info.raw).map_err(|error| error.at(&path))?;
        Ok(raw)
    }

    /// Opens a file. Behind a URL it will be read into memory, so the index must have its size.
    fn open_file(&self, info: &FileInfo) -> Result<Bytes> {
        let path = &self.root.join(&info.basename);
        let real = self.root.path(&info.basename).map_err(|error| error.at(path))?;
        let source = source_file::open_source(&real).map_err(|error| error.shown_at(path))?;
        if source.is_remote() {
            if info.bytes > self.max_bytes {
                return Err(self.too_large(info.bytes).at(path));
            }
            check_len(source.len(), info).map_err(|error| error.at(path))?;
        }
        Ok(Bytes::File(source))
    }

    fn too_large(&self, found: u64) -> Error {
        let max = self.max_bytes;
        let message = format!("expected a shard of at most {max} bytes, found {found}");
        Error::above_limit("max_bytes", message)
    }

    fn unzipped(&self, info: &ShardInfo, zip: &FileInfo) -> Result<Vec<u8>> {
        let path = self.root.join(&zip.basename);
        let at = |error: Error| error.at(&path);
        if info.raw.bytes > self.max_bytes {
            return Err(at(self.too_large(info.raw.bytes)));
        }
        let source = self.open_file(zip)?;
        let packed = source.get()?;
        check(&packed, zip).map_err(at)?;
        let name = info.compression.as_deref().unwrap_or_default();
        let mut bytes = Vec::new();
        // One more byte shows that there are too many.
        let limit = info.raw.bytes + 1;
        let read = match name.split(':').next().unwrap_or_default() {
            "gz" => flate2::bufread::MultiGzDecoder::new(&packed[..])
                .take(limit)
                .read_to_end(&mut bytes),
            "zstd" => Zstd::new(BufReader::new(&packed[..])).take(limit).read_to_end(&mut bytes),
            "snappy" => {
                let len = snap::raw::decompress_len(&packed).ok();
                // The best that one byte can do is to copy 64.
                let fits =
                    len.is_some_and(|len| len as u64 == info.raw.bytes && len / 64 <= packed.len());
                let decoded = fits.then(|| snap::raw::Decoder::new().decompress_vec(&packed).ok());
                let message = format!("expected {} bytes compressed by Snappy", info.raw.bytes);
                bytes =
                    decoded.flatten().ok_or_else(|| at(Error::new(ErrorKind::Damaged, message)))?;
                Ok(bytes.len())
            }
            #[cfg(feature = "formats")]
            "bz2" => ::bzip2::bufread::MultiBzDecoder::new(&packed[..])
                .take(limit)
                .read_to_end(&mut bytes),
            #[cfg(feature = "parquet")]
            "br" => brotli_decompressor::Decompressor::new(&packed[..], 1 << 16)
                .take(limit)
                .read_to_end(&mut bytes),
            other => {
                let message = format!("expected compression by {COMPRESSIONS}, found {other:?}");
                return Err(at(Error::new(ErrorKind::Unsupported, message)));
            }
        };
        read.map_err(|error| compressed::blame(&path, error))?;
        Ok(bytes)
    }
}

fn read_index(path: &Path) -> Result<Vec<u8>> {
    let at = |error| Error::io(path, error);
    let mut json = Vec::new();
    let file = open_once(path).map_err(at)?;
    file.take(MAX_INDEX + 1).read_to_end(&mut json).map_err(at)?;
    if json.len() as u64 > MAX_INDEX {
        let message = format!("expected an index of at most {MAX_INDEX} bytes, found more");
        return Err(Error::new(ErrorKind::Limit, message).at(path));
    }
    Ok(json)
}

/// A shard that is being read.
struct Unit<'a> {
    /// The number of the shard.
    number: usize,
    info: &'a ShardInfo,
    shard: Shard<'a>,
    /// Whether its JSON is in our notation.
    notation: bool,
}

/// The bytes of a shard, in memory or on disk.
enum Bytes {
    File(Source),
    Memory(Vec<u8>),
}

impl Bytes {
    fn get(&self) -> Result<std::borrow::Cow<'_, [u8]>> {
        match self {
            Bytes::File(source) => source.read(0..source.len()),
            Bytes::Memory(bytes) => Ok((&bytes[..]).into()),
        }
    }
}

fn damaged(expected: String, found: String) -> Error {
    Error::new(ErrorKind::Damaged, format!("expected {expected}, found {found}"))
}

fn check_len(bytes: u64, info: &FileInfo) -> Result<()> {
    match bytes == info.bytes {
        true => Ok(()),
        false => Err(damaged(format!("{} bytes", info.bytes), bytes.to_string())),
    }
}

/// Compares a file with its size and digests in the index.
fn check(bytes: &[u8], info: &FileInfo) -> Result<()> {
    check_len(bytes.len() as u64, info)?;
    for (name, expected) in &info.hashes {
        match digest(name, bytes) {
            Some(found) if !found.eq_ignore_ascii_case(expected) => {
                return Err(damaged(format!("the {name} digest {expected}"), found));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The files of a folder that are named as shards, but are not in its index. Behind a URL nothing is
/// listed.
fn unlisted(root: &Path, shards: &[ShardInfo]) -> Vec<String> {
    let folder = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let listed: HashSet<&str> = shards
        .iter()
        .flat_map(|shard| [Some(&shard.raw), shard.zip.as_ref()])
        .flatten()
        .map(|file| &file.basename[..])
        .collect();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_shard = |name: &String| name.ends_with(".mds") || name.contains(".mds.");
    let mut names: Vec<String> =
        names.filter(|name| is_shard(name) && !listed.contains(&name[..])).collect();
    names.sort_unstable();
    names
}

impl Input for MdsReader {
    fn units(&self) -> usize {
        self.shards.len()
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let (info, path) = (&self.shards[unit], &self.paths[unit]);
        let (keeps, unread) = (|c: &Column| self.keeps(c), |c: &Column| self.is_unread(c));
        mds::check_pickles(&info.columns, &keeps, &unread).map_err(|error| error.at(path))?;
        let bytes = self.bytes(info)?;
        let bytes = bytes.get()?;
        let shard = Shard::parse(&bytes, &info.columns).map_err(|e| Error::from(e).at(path))?;
        if shard.len() as u64 != info.samples {
            let message = format!("expected {} samples, found {}", info.samples, shard.len());
            return Err(Error::new(ErrorKind::Damaged, message).at(path));
        }
        let unit = Unit { number: unit, info, notation: shard.has_notation(), shard };
        for index in 0..unit.shard.len() {
            let packed = self.pack(&unit, index);
            emit(packed.map_err(|error| error.at(path).with_index(index as u64)))?;
        }
        Ok(())
    }

    fn path(&self, unit: usize) -> Option<&Path> {
        self.paths.get(unit).map(PathBuf::as_path)
    }

    fn shard(&self, unit: usize) -> Option<&str> {
        self.names.get(unit)
    }

    fn bytes(&self, unit: usize) -> Option<u64> {
        self.shards.get(unit).map(|shard| shard.raw.bytes)
    }

    fn remarks(&self, unit: usize) -> Remarks {
        self.remarks.take(unit)
    }

    fn len_hint(&self) -> Option<u64> {
        self.shards.iter().try_fold(0u64, |sum, shard| sum.checked_add(shard.samples))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Value;
    use crate::convert::Conversion;
    use crate::convert::Silent;
    use crate::dataset::DatasetReader;
    use crate::error::Remedy;
    use crate::format::mds::{Encoding, encode_shard};

    /// A folder with one sample: the integer 7 and a pickle.
    fn with_pickle(root: &Path) {
        let column = |name: &str, encoding| Column::new(name, Encoding::parse(encoding).unwrap());
        let mut info = ShardInfo {
            columns: vec![column("n", "int"), column("p", "pkl")],
            compression: None,
            hashes: Vec::new(),
            raw: FileInfo {
                basename: "shard.00000.mds".to_owned(),
                bytes: 0,
                hashes: std::collections::BTreeMap::new(),
            },
            zip: None,
            samples: 1,
            size_limit: None,
        };
        let sample = [&2u32.to_le_bytes()[..], &7u64.to_le_bytes(), b"N."].concat();
        let shard = encode_shard(&info, &[sample]).unwrap();
        info.raw.bytes = shard.len() as u64;
        fs::create_dir(root).unwrap();
        fs::write(root.join("shard.00000.mds"), shard).unwrap();
        fs::write(root.join("index.json"), Index { shards: vec![info] }.render()).unwrap();
    }

    /// Dropping the column did not help, as the pickle was refused first.
    #[test]
    fn a_column_of_pickles_can_be_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let (mds, out) = (dir.path().join("mds"), dir.path().join("out.msgpack"));
        with_pickle(&mds);
        let conversion = || Conversion::new([&mds], &out).overwrite(true);
        for kept in [conversion(), conversion().drop_fields(["n"]), conversion().fields(["p"])] {
            let error = kept.run(&mut Silent).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert_eq!(error.remedy(), Some(&Remedy::DropField("p".to_owned())));
        }
        for dropped in [conversion().drop_fields(["p"]), conversion().fields(["n"])] {
            dropped.run(&mut Silent).unwrap();
            let sample = DatasetReader::open(&out).unwrap().get(0).unwrap();
            assert_eq!(sample["n"], Value::from(7));
            assert_eq!(sample.as_map().unwrap().len(), 2, "the key and the integer");
        }
        let error = conversion().drop_fields(["q", "p"]).run(&mut Silent).unwrap_err();
        assert!(error.to_string().contains("no sample has a field \"q\""), "{error}");
    }
}
