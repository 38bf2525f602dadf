//! Samples that lie in files of other formats: [`Records`] takes the place of the data file.
//!
//! [`format::in_place`](crate::format::in_place) specifies the index. A shard is opened and compared when it is first
//! used. What a record becomes is decided by the decoders that conversions use, in the rooms of their formats.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::once::get_or_open;
use crate::dataset::names::names_index;
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::SideFile;
use crate::format::dataset::key_hashes::{self, Salt};
use crate::format::in_place::{self, Addresses, END, Index, MAX_BYTES, Shard};
use crate::format::msgpack;
use crate::format::sample_fields::{Field, pack, pack_field, stored_name, write_field};
use crate::reader::{FieldContent, Location};
use crate::storage::{
    self, Announced, Confined, Source, Storage, fetch_together, in_parallel, is_url,
};

mod decoder;
#[cfg(feature = "parquet")]
mod batches;
mod keys;

use decoder::Decoder;
pub(crate) use keys::KeyReader;

/// The samples of shards.
pub(crate) struct Records {
    /// The index.
    path: PathBuf,
    storage: Arc<dyn Storage>,
    folder: Confined,
    index: Index,
    addresses: Addresses,
    shards: Vec<OnceLock<Arc<Source>>>,
    decoder: Decoder,
    hashes: OnceLock<KeyHashes>,
    servers: Mutex<Vec<(String, Arc<dyn Storage>)>>,
}

/// Servers whose connections are kept.
const SERVERS: usize = 64;

/// The hashes that keys are compared with.
struct KeyHashes {
    salt: Salt,
    file: Source,
    /// All of a remote file, once many of them were needed.
    whole: OnceLock<Vec<u8>>,
}

impl KeyHashes {
    fn of(file: Source) -> Result<KeyHashes> {
        let salt = file.read(0..HASH)?;
        let salt = Salt(<[u8; 8]>::try_from(&*salt).unwrap_or_default());
        Ok(KeyHashes { salt, file, whole: OnceLock::new() })
    }

    /// Fetches the hashes of these samples, or all: a request for each would cost as much as one for the sample.
    fn fetch(&self, samples: &[(usize, Range<u64>)], in_order: bool) -> Result<()> {
        let KeyHashes { file, whole, .. } = self;
        if !file.is_remote() || whole.get().is_some() {
            return Ok(());
        }
        if samples.len() >= MANY && file.len() <= WHOLE_HASHES {
            let bytes = file.read(0..file.len())?.into_owned();
            whole.get_or_init(|| bytes);
            return Ok(());
        }
        let ranges: Vec<_> = samples.iter().map(|(index, _)| hash_at(*index)).collect();
        if in_order { file.fetch_in_order(&ranges) } else { file.fetch(&ranges) }
    }
}

/// The bytes of the hash of a sample's key.
fn hash_at(index: usize) -> Range<u64> {
    let at = (index as u64 + 1) * HASH;
    at..at + HASH
}

/// From how many samples fetched at once on remote hashes are fetched whole, and up to which size.
const MANY: usize = 16;
const WHOLE_HASHES: u64 = 64 << 20;

/// Shards that are opened at the same time.
const OPENED_AT_ONCE: usize = 16;

/// What can be done about files that are not as the index has them.
const REFRESH: &str = "index it again (kiste index --refresh)";

/// The same where a web server refuses a file.
const SIGNED_ALL: &str = "what follows ? in the URL of the index is sent for its files too, and has to be valid for all of them: \
                          a signature of S3 or Google Cloud Storage is for one object only, one of Azure or a CDN can be for a folder";
const NO_SIGNATURES: &str = "the index has no signatures of its files: put it next to them and open it by a URL that is signed for the \
                             folder, or index s3://, gs:// or az:// URLs, whose credentials are in the environment";

/// Bytes of `.key_hashes` before the first hash, and of each.
const HASH: u64 = 8;

/// Bytes of a shard.
type InShard<'s> = (&'s Source, Vec<Range<u64>>);

/// Where a sample lies.
pub(super) struct Place {
    pub(super) shard: usize,
    /// The number of the sample in its shard.
    pub(super) number: u64,
    /// Addresses from the beginning of the shard.
    pub(super) range: Range<u64>,
}

impl Records {
    /// The samples of this index, if the file is one by its name.
    pub(super) fn of(
        storage: &Arc<dyn Storage>,
        path: &Path,
        file: &Source,
        confined: bool,
    ) -> Result<Option<Records>> {
        if !names_index(path) {
            return Ok(None);
        }
        let index = read_index(path, file)?;
        let decoder = Decoder::of(&index).map_err(|error| error.at(path))?;
        let addresses = Addresses::of(&index);
        let shards = index.shards.iter().map(|_| OnceLock::new()).collect();
        // From a server come no names of files elsewhere.
        let confined = confined || is_url(path);
        let folder = Confined::next_to(path).allow_outside(!confined || storage.allows_outside());
        let (path, storage) = (path.to_path_buf(), storage.clone());
        let (hashes, servers) = (OnceLock::new(), Mutex::default());
        Ok(Some(Records {
            path,
            storage,
            folder,
            index,
            addresses,
            shards,
            decoder,
            hashes,
            servers,
        }))
    }

    /// Addresses of all samples.
    pub(super) fn len(&self) -> u64 {
        self.addresses.len()
    }

    /// The format of the shards, how many there are, and their bytes.
    pub(super) fn files(&self) -> (&'static str, usize, u64) {
        let bytes =
            self.index.shards.iter().fold(0, |sum: u64, shard| sum.saturating_add(shard.bytes));
        (self.index.kind.name(), self.index.shards.len(), bytes)
    }

    /// How many shards there are.
    #[cfg(feature = "arrow")]
    pub(super) fn count(&self) -> usize {
        self.shards.len()
    }

    /// A whole shard, if it is open and mapped.
    #[cfg(feature = "arrow")]
    pub(super) fn map(&self, number: usize) -> Option<&[u8]> {
        self.shards.get(number)?.get()?.mapped()
    }

    /// How many samples the index counts.
    pub(super) fn samples(&self) -> u64 {
        self.index.samples
    }

    pub(super) fn is_remote(&self) -> bool {
        // Shards are all of one place, or nearly.
        self.index.shards.first().is_some_and(|shard| is_url(&shard.name)) || is_url(&self.path)
    }

    /// The place of a sample with these addresses.
    fn place(&self, index: usize, addresses: &Range<u64>) -> Result<Place> {
        let place = self.addresses.place(addresses);
        let sample = self.addresses.sample(index as u64);
        match (place, sample) {
            (Some((shard, range)), Some((of, number))) if shard == of => {
                Ok(Place { shard, number, range })
            }
            _ => {
                let message = format!(
                    "expected sample {index} in one shard of the index, found it at address {}",
                    addresses.start
                );
                let error = Error::new(ErrorKind::Damaged, message).with_index(index as u64);
                Err(error.at(SideFile::Offsets.path(&self.path)))
            }
        }
    }

    /// Where a shard is.
    pub(super) fn shard_path(&self, number: usize) -> PathBuf {
        let name = &self.index.shards[number].name;
        if is_url(name) { PathBuf::from(name) } else { self.folder.join(name) }
    }

    /// A shard, which is compared with the index when it is opened, or with its first bytes.
    fn shard(&self, number: usize) -> Result<&Arc<Source>> {
        get_or_open(&self.shards[number], || {
            let expected = &self.index.shards[number];
            let path = self.shard_path(number);
            let opened = self.open_shard(number, &path);
            let source = opened.map_err(|error| self.of_shard(number, error))?;
            let found = match &expected.id {
                _ if source.len() != expected.bytes => {
                    format!("{} bytes in place of {}", source.len(), expected.bytes)
                }
                Some(id) if has_id(&source, id)? == Some(false) => {
                    "other bytes at its ends".to_owned()
                }
                _ => return Ok(Arc::new(source)),
            };
            Err(changed(&path, &found))
        })
    }

    fn open_shard(&self, number: usize, path: &Path) -> Result<Source> {
        let Shard { name, bytes, id, .. } = &self.index.shards[number];
        self.folder.check_in(&*self.storage, name)?;
        let storage = match is_url(name) && !is_url(&self.path) {
            true => self.storage_of(name)?,
            false => self.storage.clone(),
        };
        let path = self.folder.resolve(&*self.storage, path)?;
        let opened = match id.as_deref().map(|id| (id, in_place::tag_of(id))) {
            Some((_, Some(tag))) => storage.open_version(&path, *bytes, &tag)?,
            // Both ends, which are compared, in one round.
            Some((_, None)) => {
                let ends = Announced { suffix: "", end: true };
                let mut opened = storage.open_together(&path, &[ends])?.unwrap_or_default();
                opened.pop().flatten().map(|file| Source::Positioned(Box::new(file)))
            }
            None => None,
        };
        opened.map_or_else(|| storage.open(&path), Ok)
    }

    /// What an error of opening or reading a shard means.
    fn of_shard(&self, number: usize, error: Error) -> Error {
        let path = self.shard_path(number);
        let has_tag = |id: &String| in_place::tag_of(id).is_some();
        match error.kind() {
            ErrorKind::NotFound => {
                let message = "the index names this file, which is not there any more";
                Error::new(ErrorKind::NotFound, message).at(&path).with_source(error)
            }
            ErrorKind::Replaced if self.index.shards[number].id.as_ref().is_some_and(has_tag) => {
                changed(&path, "another entity tag")
            }
            _ if error.is_absent_or_denied() && is_web(&path) => {
                error.advise(if is_url(&self.path) { SIGNED_ALL } else { NO_SIGNATURES })
            }
            _ => error,
        }
    }

    /// The same of an error in the middle of other work, if it is one of reading the shard.
    fn if_of_shard(&self, number: usize, error: Error) -> Error {
        let is_of_it = |path: &Path| is_url(path) && path == self.shard_path(number);
        match error.path().is_some_and(is_of_it) {
            true => self.of_shard(number, error),
            false => error,
        }
    }

    /// Where a URL leads: one storage for all shards of a server, which share its connections.
    fn storage_of(&self, url: &str) -> Result<Arc<dyn Storage>> {
        let root = storage::root(url);
        let mut known = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, storage)) = known.iter().find(|(known, _)| known == root) {
            return Ok(storage.clone());
        }
        let (storage, _) = storage::of(url)?;
        if known.len() >= SERVERS {
            known.remove(0);
        }
        known.push((root.to_owned(), storage.clone()));
        Ok(storage)
    }

    /// Calls `with` on the key and the fields of a sample. Fields that `needs` does not want are nil, or absent.
    fn decode<T>(
        &self,
        index: usize,
        addresses: &Range<u64>,
        needs: &dyn Fn(&str) -> bool,
        with: impl FnOnce(&str, Vec<(Cow<'_, str>, Field<'_>)>) -> Result<T>,
    ) -> Result<T> {
        let place = self.place(index, addresses)?;
        self.decode_at(index, &place, needs, with)
    }

    fn decode_at<T>(
        &self,
        index: usize,
        place: &Place,
        needs: &dyn Fn(&str) -> bool,
        with: impl FnOnce(&str, Vec<(Cow<'_, str>, Field<'_>)>) -> Result<T>,
    ) -> Result<T> {
        let source = self.shard(place.shard)?;
        let shard = &self.index.shards[place.shard];
        let locate = |error: Error| self.at(place).describe(error);
        let mut with = Some(with);
        let mut out = None;
        let mut take = |key: &str, fields: Vec<(Cow<'_, str>, Field<'_>)>| {
            self.check_key(index, key)?;
            if let Some(with) = with.take() {
                out = Some(with(key, fields)?);
            }
            Ok(())
        };
        let decoded = self.decoder.decode(source, shard, place, needs, &mut take);
        decoded.map_err(|error| locate(self.if_of_shard(place.shard, error)))?;
        out.ok_or_else(|| locate(Error::new(ErrorKind::Damaged, "expected a sample, found none")))
    }

    /// The packed sample.
    pub(super) fn sample(&self, index: usize, addresses: &Range<u64>) -> Result<Vec<u8>> {
        let place = self.place(index, addresses)?;
        let (source, shard) = (self.shard(place.shard)?, &self.index.shards[place.shard]);
        let locate = |error: Error| self.at(&place).describe(error);
        let packed = self.decoder.packed(source, shard, &place);
        match packed.map_err(|error| locate(self.if_of_shard(place.shard, error)))? {
            Some(packed) => {
                let key = msgpack::key(&packed).map_err(|error| locate(error.into()))?;
                self.check_key(index, key.unwrap_or_default()).map_err(locate)?;
                Ok(packed)
            }
            None => self.decode_at(index, &place, &|_| true, |key, fields| pack(key, &fields)),
        }
    }

    /// The key of a sample.
    pub(super) fn key(&self, index: usize, addresses: &Range<u64>) -> Result<String> {
        self.decode(index, addresses, &|_| false, |key, _| Ok(key.to_owned()))
    }

    /// One field, packed.
    pub(super) fn field(
        &self,
        index: usize,
        addresses: &Range<u64>,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        if name == msgpack::sample::KEY {
            let key = self.key(index, addresses)?;
            let mut packed = Vec::with_capacity(key.len() + 5);
            msgpack::write_text(&key, &mut packed)?;
            return Ok(Some(packed));
        }
        let needs = |wanted: &str| stored_name(wanted) == name;
        self.decode(index, addresses, &needs, |_, fields| {
            let found = fields.iter().find(|(found, _)| stored_name(found) == name);
            found.map(|(_, field)| pack_field(field)).transpose()
        })
    }

    /// Calls `take` on the key and the fields of these names, or on all where there are none.
    pub(super) fn read_fields(
        &self,
        index: usize,
        addresses: &Range<u64>,
        names: &[&str],
        take: &mut dyn FnMut(&str, FieldContent<'_>) -> Result<()>,
    ) -> Result<()> {
        let has_key = names.is_empty() || names.contains(&msgpack::sample::KEY);
        let needs = |wanted: &str| names.is_empty() || names.contains(&stored_name(wanted));
        self.decode(index, addresses, &needs, |key, fields| {
            let mut packed = Vec::new();
            if has_key {
                msgpack::write_text(key, &mut packed)?;
                take(msgpack::sample::KEY, FieldContent::Packed(&packed))?;
            }
            for (name, field) in fields.iter().filter(|(name, _)| needs(name)) {
                if let Field::Bytes(bytes) = field {
                    take(stored_name(name), FieldContent::Bytes(bytes))?;
                    continue;
                }
                packed.clear();
                write_field(field, &mut packed)?;
                take(stored_name(name), FieldContent::Packed(&packed))?;
            }
            Ok(())
        })
    }

    /// Fails unless this is the key that the sample had when it was indexed.
    fn check_key(&self, index: usize, key: &str) -> Result<()> {
        let KeyHashes { salt, file, whole } = self.hashes()?;
        let at = hash_at(index);
        let known = whole.get().and_then(|whole| whole.get(at.start as usize..at.end as usize));
        let expected = known.map_or_else(|| file.read(at), |known| Ok(Cow::Borrowed(known)))?;
        let expected = <[u8; 8]>::try_from(&*expected).map(u64::from_be_bytes);
        match expected.ok() == Some(key_hashes::hash(salt, key.as_bytes())) {
            true => Ok(()),
            false => {
                let message = format!(
                    "the file has changed since it was indexed: found the key {key:?}, which has another hash"
                );
                Err(Error::new(ErrorKind::Replaced, message).advise(REFRESH))
            }
        }
    }

    fn hashes(&self) -> Result<&KeyHashes> {
        get_or_open(&self.hashes, || {
            let path = SideFile::KeyHashes.path(&self.path);
            let file = self.storage.open_if_exists(&path)?.ok_or_else(|| {
                let message = "expected the hashes of keys, which each sample in place is compared with, found no file";
                Error::new(ErrorKind::NotFound, message).at(&path).advise(REFRESH)
            })?;
            KeyHashes::of(file)
        })
    }

    /// With the hashes of keys, which were opened with the index. Bad ones are opened again when they are needed, which
    /// says so.
    pub(super) fn with_hashes(self, file: Source) -> Records {
        match KeyHashes::of(file) {
            Ok(hashes) => Records { hashes: hashes.into(), ..self },
            Err(_) => self,
        }
    }

    fn at(&self, place: &Place) -> Location {
        let shard = &self.index.shards[place.shard];
        let bytes = (self.decoder.is_by_bytes())
            .then(|| place.range.start + shard.from..place.range.end + shard.from);
        let mut at = Location::new(place.number);
        (at.path, at.range) = (Some(self.shard_path(place.shard)), bytes);
        at
    }

    /// Where a sample comes from.
    pub(super) fn locate(&self, index: usize, addresses: &Range<u64>) -> Location {
        match self.place(index, addresses) {
            Ok(place) => self.at(&place),
            Err(_) => Location::new(index as u64),
        }
    }

    /// The bytes of these samples, by shard.
    fn ranges(&self, samples: &[(usize, Range<u64>)]) -> Result<Vec<InShard<'_>>> {
        let mut places = Vec::with_capacity(samples.len());
        for (index, addresses) in samples {
            places.push(self.place(*index, addresses)?);
        }
        places.sort_by_key(|place| (place.shard, place.range.start));
        let mut wanted: Vec<(usize, Vec<Range<u64>>)> = Vec::new();
        for place in places {
            let bytes = self.decoder.bytes(&self.index.shards[place.shard], &place);
            match wanted.last_mut() {
                Some((shard, ranges)) if *shard == place.shard => {
                    if ranges.last() != Some(&bytes) {
                        ranges.push(bytes);
                    }
                }
                _ => wanted.push((place.shard, vec![bytes])),
            }
        }
        // Each may be a round trip.
        let new: Vec<usize> = wanted.iter().map(|(shard, _)| *shard).collect();
        let new: Vec<usize> =
            new.into_iter().filter(|&at| self.shards[at].get().is_none()).collect();
        if self.is_remote() && new.len() > 1 {
            let opened = in_parallel(&new, OPENED_AT_ONCE, |&shard| self.shard(shard).map(drop));
            opened.into_iter().collect::<Result<()>>()?;
        }
        wanted.into_iter().map(|(shard, ranges)| Ok((&**self.shard(shard)?, ranges))).collect()
    }

    /// Fetches these samples, where they are remote.
    pub(super) fn fetch(&self, samples: &[(usize, Range<u64>)], in_order: bool) -> Result<()> {
        if !samples.is_empty() {
            self.hashes()?.fetch(samples, in_order)?;
        }
        fetch_together(&self.ranges(samples)?, in_order).map_err(|error| {
            let mut shards = samples.iter().filter_map(|(_, at)| Some(self.addresses.place(at)?.0));
            match shards.find(|shard| error.path() == Some(&*self.shard_path(*shard))) {
                Some(shard) => self.if_of_shard(shard, error),
                None => error,
            }
        })
    }

    /// Announces that these samples will be read soon.
    pub(super) fn will_need(&self, samples: &[(usize, Range<u64>)]) {
        let Ok(wanted) = self.ranges(samples) else { return };
        for (source, ranges) in wanted {
            ranges.into_iter().for_each(|range| source.will_need(range));
        }
    }
}

fn changed(path: &Path, found: &str) -> Error {
    let message = format!("the file has changed since it was indexed: found {found}");
    Error::new(ErrorKind::Replaced, message).at(path).advise(REFRESH)
}

/// Whether a web server has it, which knows no credentials but those in the URL.
fn is_web(path: &Path) -> bool {
    let text = path.to_str().unwrap_or_default();
    ["http:", "https:"].iter().any(|scheme| text.starts_with(scheme))
}

/// The index in this file.
pub(crate) fn read_index(path: &Path, file: &Source) -> Result<Index> {
    if file.len() > MAX_BYTES {
        let message =
            format!("expected an index of at most {MAX_BYTES} bytes, found {}", file.len());
        return Err(Error::new(ErrorKind::Limit, message).at(path));
    }
    let text = file.read(0..file.len())?;
    Index::parse(&text).map_err(|error| Error::from(error).at(path))
}

/// What tells a file from another one of its length: an entity tag, which costs no request, or its ends.
pub(crate) fn id_of(source: &Source) -> Result<String> {
    match source.tag().and_then(in_place::tag_id) {
        Some(id) => Ok(id),
        None => content_id(source),
    }
}

/// Whether a file has this id; `None` if that cannot be told, as files on a disk have no entity tags.
pub(crate) fn has_id(source: &Source, id: &str) -> Result<Option<bool>> {
    match in_place::tag_of(id) {
        Some(_) if !source.is_remote() => Ok(None),
        Some(tag) => Ok(Some(source.tag() == Some(&*tag))),
        None => Ok(Some(content_id(source)? == id)),
    }
}

fn content_id(source: &Source) -> Result<String> {
    let len = source.len();
    let head = source.read(0..len.min(END))?;
    let tail = source.read(len.saturating_sub(END)..len)?;
    Ok(in_place::content_id(&head, &tail, len))
}
