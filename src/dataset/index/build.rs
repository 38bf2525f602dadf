//! Side files made from keys: hashes, filter and accelerator, on all cores.
//!
//! One way leads to these files, whether a dataset is written, appended to, converted from the
//! legacy index or repaired, so they cannot differ.

use std::ops::Range;
use std::path::Path;

use rayon::prelude::*;

use super::super::staging::Staging;
use super::by_hash::{EachPart, by_hash};
use super::collision::collision;
use super::digests::{self, Content};
use super::hash_ahead::Hashed;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::dataset::key_hashes::{self, Salt};
use crate::format::dataset::{SideFile, crc, filter, keys, lookup};
use crate::format::md5::Md5;
use crate::storage::{Sink, Source};

/// Keys that are hashed at a time.
const BATCH: usize = 1 << 16;
/// Keys that one task hashes.
const TASK: usize = 1 << 10;
/// Keys whose slots are written at a time: some two megabytes, in which the kernel takes them best.
const PLACED: usize = 290_000;
/// Hashes that are encoded at a time.
const ENCODED: usize = 1 << 13;

/// Hashes many keys under a salt; another one is injected by the test for collisions.
pub(crate) type HashMany = fn(&Salt, &[&[u8]], &mut [u64]);

/// The hash of the format.
pub(crate) fn hash_keys(salt: &Salt, keys: &[&[u8]], out: &mut [u64]) {
    key_hashes::hash_many(salt, keys, out);
}

/// Which of the files that follow from the keys to make.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) key_hashes: bool,
    pub(crate) filter: bool,
    pub(crate) lookup: bool,
}

/// How the files are made.
#[derive(Clone, Copy)]
pub(crate) struct Build<'a> {
    pub(crate) staging: &'a Staging,
    pub(crate) wanted: Wanted,
    pub(crate) sync: bool,
    pub(crate) hash_many: HashMany,
    /// Files to compute the MD5 of, in addition to the files that are made.
    pub(crate) digests: Option<&'a [Source]>,
}

/// The MD5s of what was made, if they were wanted.
#[derive(Default)]
pub(crate) struct Built {
    pub(crate) key_hashes: Option<[u8; 16]>,
    pub(crate) filter: Option<[u8; 16]>,
    /// The MD5s of the files named in [`Build::digests`].
    pub(crate) others: Vec<[u8; 16]>,
}

/// Stages the wanted files for the keys of a staged or finished `.keys` file. The first keys may be
/// hashed already.
pub(crate) fn build(
    build: Build<'_>,
    keys_path: &Path,
    keys_file: &Source,
    ahead: Hashed,
) -> Result<Built> {
    KeyList::read(keys_path, keys_file, |body| build_of(build, body, ahead))
}

fn build_of(build: Build<'_>, body: &KeyList<'_>, ahead: Hashed) -> Result<Built> {
    let Build { staging, wanted, sync, digests, .. } = build;
    let (Hashes { mut hashes, mut places }, filter) =
        hash_all(body, wanted.filter, build.hash_many, ahead)?;
    let by_hash = || -> Result<Built> {
        let mut key_hashes = || -> Result<(Option<Belongs>, Built)> {
            let salt = write_key_hashes(build, body, &mut hashes)?;
            digest_all(build, salt, &hashes)
        };
        let (slots, made) = if !wanted.lookup {
            (None, key_hashes()?)
        } else if places.len() as u64 == body.count {
            let (slots, made) = rayon::join(|| write_slots(staging, &places), key_hashes);
            (Some(slots?), made?)
        } else {
            // One after the other, as both together would take half as much memory again.
            let made = key_hashes()?;
            drop(hashes);
            body.for_batches(places.len(), |_, batch| {
                place_batch(&batch, &mut places);
                Ok(())
            })?;
            (Some(write_slots(staging, &places)?), made)
        };
        let (belongs, built) = made;
        if let (Some(slots), Some(belongs)) = (slots, belongs) {
            slots.finish(&belongs, sync)?;
        }
        Ok(built)
    };
    let filter = || filter.map(|filter| filter.write(staging, sync, digests.is_some())).transpose();
    let (filter, built) = rayon::join(filter, by_hash);
    Ok(Built { filter: filter?.flatten(), ..built? })
}

/// The sums that `.lookup` has, and the digests that are wanted.
fn digest_all(build: Build<'_>, salt: Salt, hashes: &[u64]) -> Result<(Option<Belongs>, Built)> {
    if !build.wanted.lookup && build.digests.is_none() {
        return Ok((None, Built::default()));
    }
    let files = build.digests.unwrap_or_default().iter().map(Content::File);
    let contents: Vec<_> = files.chain([Content::Hashes(salt, hashes)]).collect();
    let mut others = digests::of_all(&contents)?;
    let key_hashes = others.pop();
    let belongs = key_hashes.map(|md5| Belongs::of(salt, hashes, md5));
    Ok((belongs, Built { key_hashes, others, ..Built::default() }))
}

/// Writes `.key_hashes` with the first salt that makes all hashes different, and returns it.
/// `hashes` are the hashes under the very first salt.
fn write_key_hashes(build: Build<'_>, body: &KeyList<'_>, hashes: &mut [u64]) -> Result<Salt> {
    let Build { staging, wanted, sync, hash_many, .. } = build;
    let mut salt = Salt::of_try(0);
    let mut tries = 0;
    loop {
        // Written before they are known to be good: they practically always are.
        if wanted.key_hashes {
            write_hashes(staging, &salt, hashes, sync)?;
        }
        let Some(collision) = collision(hashes) else {
            return Ok(salt);
        };
        body.refuse_duplicate(&salt, collision, hash_many)?;
        tries += 1;
        if tries == key_hashes::MAX_TRIES {
            let message = format!("key hashes still collide after {tries} salts");
            return Err(Error::new(ErrorKind::Limit, message).at(body.path));
        }
        if wanted.key_hashes {
            staging.discard(SideFile::KeyHashes)?;
        }
        salt = Salt::of_try(tries);
        body.for_batches(0, |first, batch| {
            hash_batch(&salt, &batch, &mut hashes[first..first + batch.len()], hash_many);
            Ok(())
        })?;
    }
}

/// A filter whose last keys are still to be put in.
struct Filter {
    params: filter::Params,
    bits: Vec<u8>,
    left: Vec<filter::Pair>,
}

impl Filter {
    fn insert_left(&mut self) {
        self.left.iter().for_each(|pair| self.params.insert(&mut self.bits, *pair));
    }

    /// Returns its MD5, if that is wanted.
    fn write(mut self, staging: &Staging, sync: bool, digest: bool) -> Result<Option<[u8; 16]>> {
        self.insert_left();
        let mut sink = staging.create(SideFile::Filter)?;
        let header = self.params.header();
        sink.append(&header)?;
        sink.append(&self.bits)?;
        if sync {
            sink.sync()?;
        }
        Ok(digest.then(|| {
            let mut md5 = Md5::new();
            md5.update(&header);
            md5.update(&self.bits);
            md5.finish()
        }))
    }
}

/// The hashes of all keys.
struct Hashes {
    /// Under the first salt.
    hashes: Vec<u64>,
    /// For `.lookup`: the hashes of the first keys.
    places: Vec<u64>,
}

/// Hashes all keys and fills the filter: while one core sets the bits of one batch, the others hash
/// the next.
fn hash_all(
    body: &KeyList<'_>,
    with_filter: bool,
    hash_many: HashMany,
    ahead: Hashed,
) -> Result<(Hashes, Option<Filter>)> {
    let salt = Salt::of_try(0);
    let Hashed { mut hashes, places, pairs } = ahead;
    let done = hashes.len();
    hashes.resize(body.count as usize, 0);
    let params = filter::Params::for_len(body.count);
    let bits = vec![0; if with_filter { params.body_len() as usize } else { 0 }];
    let mut filter = Filter { params, bits, left: if with_filter { pairs } else { Vec::new() } };
    if done > 0 && done as u64 == body.count {
        // All were hashed as they were written: the list has nothing to add.
        return Ok((Hashes { hashes, places }, with_filter.then_some(filter)));
    }
    let mut next = Vec::new();
    body.for_batches(done, |first, batch| {
        let target = &mut hashes[first..first + batch.len()];
        rayon::join(
            || filter.insert_left(),
            || {
                hash_batch(&salt, &batch, target, hash_many);
                if with_filter {
                    next.resize(batch.len(), (0, 0));
                    let tasks = batch.par_chunks(TASK).zip(next.par_chunks_mut(TASK));
                    tasks.for_each(|(keys, out)| filter::pair_many(keys, out));
                }
            },
        );
        std::mem::swap(&mut filter.left, &mut next);
        Ok(())
    })?;
    Ok((Hashes { hashes, places }, with_filter.then_some(filter)))
}

pub(super) fn hash_batch(salt: &Salt, batch: &[&[u8]], out: &mut [u64], hash_many: HashMany) {
    let tasks = batch.par_chunks(TASK).zip(out.par_chunks_mut(TASK));
    tasks.for_each(|(keys, out)| hash_many(salt, keys, out));
}

/// Appends the `.lookup` hashes of these keys.
pub(super) fn place_batch(keys: &[&[u8]], places: &mut Vec<u64>) {
    let first = places.len();
    places.resize(first + keys.len(), 0);
    let tasks = keys.par_chunks(TASK).zip(places[first..].par_chunks_mut(TASK));
    tasks.for_each(|(keys, out)| {
        out.iter_mut().zip(keys).for_each(|(out, key)| *out = lookup::hash(key));
    });
}

fn write_hashes(staging: &Staging, salt: &Salt, hashes: &[u64], sync: bool) -> Result<()> {
    let mut sink = staging.create(SideFile::KeyHashes)?;
    sink.append(&salt.0)?;
    let mut bytes = Vec::new();
    for part in hashes.chunks(1 << 15) {
        bytes.clear();
        part.iter().for_each(|hash| bytes.extend_from_slice(&key_hashes::encode(*hash)));
        sink.append(&bytes)?;
    }
    if sync {
        sink.sync()?;
    }
    Ok(())
}

/// The identity of `.key_hashes`, as its `.lookup` notes it.
pub(super) struct Belongs {
    source: lookup::Source,
    sums: lookup::Sums,
}

impl Belongs {
    pub(super) fn to(salt: Salt, hashes: &[u64]) -> Result<Belongs> {
        let md5 = digests::of_all(&[Content::Hashes(salt, hashes)])?;
        Ok(Belongs::of(salt, hashes, md5[0]))
    }

    /// The same where the MD5 is known.
    fn of(salt: Salt, hashes: &[u64], md5: [u8; 16]) -> Belongs {
        let mut sum = crc::checksum(&salt.0);
        let mut bytes = Vec::with_capacity(8 * ENCODED);
        for hashes in hashes.chunks(ENCODED) {
            bytes.clear();
            hashes.iter().for_each(|hash| bytes.extend_from_slice(&key_hashes::encode(*hash)));
            sum = crc::extend(sum, &bytes);
        }
        let source = lookup::Source {
            count: hashes.len() as u64,
            salt,
            first: hashes.first().copied().unwrap_or_default(),
            last: hashes.last().copied().unwrap_or_default(),
        };
        Belongs { source, sums: lookup::Sums { md5, crc: sum } }
    }

    fn header(&self, shape: lookup::Shape, checksum: u32) -> Result<lookup::Header> {
        Ok(lookup::Header::new(shape, self.source, self.sums, checksum)?)
    }
}

/// The content of `.lookup` for these keys, which have these hashes in `.key_hashes`.
pub(crate) fn lookup_file(salt: Salt, hashes: &[u64], keys: &[&[u8]]) -> Result<Vec<u8>> {
    let mut places = Vec::new();
    place_batch(keys, &mut places);
    lookup_content(&Belongs::to(salt, hashes)?, &places)
}

/// The same for keys with these hashes of its own.
pub(super) fn lookup_content(belongs: &Belongs, places: &[u64]) -> Result<Vec<u8>> {
    let mut bytes = vec![0; lookup::HEADER];
    let (shape, checksum) = place(places, |slots| {
        bytes.extend_from_slice(slots);
        Ok(())
    })?;
    bytes[..lookup::HEADER].copy_from_slice(&belongs.header(shape, checksum)?.encode());
    Ok(bytes)
}

/// A staged `.lookup` without its header.
pub(super) struct Slots {
    sink: Box<dyn Sink>,
    shape: lookup::Shape,
    checksum: u32,
}

pub(super) fn write_slots(staging: &Staging, places: &[u64]) -> Result<Slots> {
    let mut sink = staging.create(SideFile::Lookup)?;
    sink.append(&[0; lookup::HEADER])?;
    let (shape, checksum) = place(places, |slots| sink.append(slots))?;
    Ok(Slots { sink, shape, checksum })
}

impl Slots {
    pub(super) fn finish(mut self, belongs: &Belongs, sync: bool) -> Result<()> {
        let header = belongs.header(self.shape, self.checksum)?;
        self.sink.write_at(&header.encode(), 0)?;
        if sync { self.sink.sync() } else { Ok(()) }
    }
}

/// Passes the slots of `.lookup` on, in order, and returns what they are like and their CRC-32C.
fn place(places: &[u64], mut put: impl FnMut(&[u8]) -> Result<()>) -> Result<(lookup::Shape, u32)> {
    let mut placer = lookup::Placer::new(places.len() as u64)?;
    let (mut taken, mut bytes, mut checksum) = (Vec::new(), Vec::new(), crc::checksum(&[]));
    let mut put = |slots: &mut Vec<u32>| {
        bytes.clear();
        slots.drain(..).for_each(|slot| bytes.extend_from_slice(&lookup::encode(slot)));
        checksum = crc::extend(checksum, &bytes);
        put(&bytes)
    };
    let scan = |samples: Range<usize>, part: &mut EachPart<'_>| {
        part(samples.start, &places[samples]);
        Ok(())
    };
    let mut pushed = 0;
    by_hash(places.len(), scan, |hash, index| {
        placer.push(hash, index)?;
        pushed += 1;
        if pushed % PLACED == 0 {
            placer.take(&mut taken);
            put(&mut taken)?;
        }
        Ok(())
    })?;
    let (shape, mut rest) = placer.finish()?;
    put(&mut rest)?;
    Ok((shape, checksum))
}

/// The keys of a `.keys` file, after its header.
pub(super) struct KeyList<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    header: u64,
    count: u64,
}

impl KeyList<'_> {
    /// Calls `with` on the list in this file.
    pub(super) fn read<T>(
        path: &Path,
        file: &Source,
        with: impl FnOnce(&KeyList<'_>) -> Result<T>,
    ) -> Result<T> {
        let all = file.read(0..file.len())?;
        let (count, header) = keys::parse_header(&all).map_err(|e| Error::from(e).at(path))?;
        let list = KeyList { path, bytes: &all[header..], header: header as u64, count };
        // A key takes a byte at least: a larger number is a lie, and memory is asked for by it.
        list.expect(count.min(list.bytes.len() as u64))?;
        with(&list)
    }

    /// Refuses a list of another number of keys.
    pub(super) fn expect(&self, count: u64) -> Result<()> {
        match self.count == count {
            true => Ok(()),
            false => {
                let there = format!("{} in {} bytes", self.count, self.bytes.len());
                Err(self.damaged(FormatError::new(0, format!("{count} keys"), there)))
            }
        }
    }

    /// Calls `with` on the keys from one on, batch by batch, with the index of each batch's first key.
    pub(super) fn for_batches<'s>(
        &'s self,
        from: usize,
        mut with: impl FnMut(usize, Vec<&'s [u8]>) -> Result<()>,
    ) -> Result<()> {
        let mut keys = keys::Keys::part(self.bytes, self.header, self.count);
        for passed in 0..from {
            match keys.next() {
                Some(key) => drop(key.map_err(|e| self.damaged(e))?),
                None => return Err(self.short(passed)),
            }
        }
        let mut first = from;
        let count = self.count as usize;
        while first < count {
            let size = BATCH.min(count - first);
            let mut batch = Vec::with_capacity(size);
            for _ in 0..size {
                match keys.next() {
                    Some(key) => batch.push(key.map_err(|e| self.damaged(e))?.as_bytes()),
                    None => return Err(self.short(first + batch.len())),
                }
            }
            with(first, batch)?;
            first += size;
        }
        let end = self.header + self.bytes.len() as u64;
        if keys.position() != end {
            let (expected, found) = (format!("the end after {count} keys"), "more bytes");
            return Err(self.damaged(FormatError::new(keys.position(), expected, found)));
        }
        Ok(())
    }

    /// Tells two equal keys from two keys with equal hashes.
    fn refuse_duplicate(&self, salt: &Salt, wanted: u64, hash_many: HashMany) -> Result<()> {
        let mut seen: Vec<&[u8]> = Vec::new();
        self.for_batches(0, |first, batch| {
            let mut hashes = vec![0; batch.len()];
            hash_batch(salt, &batch, &mut hashes, hash_many);
            for (i, _) in hashes.iter().enumerate().filter(|(_, hash)| **hash == wanted) {
                if seen.contains(&batch[i]) {
                    return Err(Error::new(ErrorKind::DuplicateKey, "the key occurs twice")
                        .at(self.path)
                        .with_index((first + i) as u64)
                        .with_key(String::from_utf8_lossy(batch[i])));
                }
                seen.push(batch[i]);
            }
            Ok(())
        })
    }

    fn damaged(&self, error: FormatError) -> Error {
        Error::from(error).at(self.path)
    }

    fn short(&self, found: usize) -> Error {
        let message = format!("expected {} keys, found {found}", self.count);
        Error::new(ErrorKind::Damaged, message).at(self.path)
    }
}
