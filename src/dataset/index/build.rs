//! Side files made from keys: hashes, filter and accelerator, on all cores; and digests.
//!
//! One way leads to these files, whether a dataset is written, appended to, converted from the
//! legacy index or repaired, so they cannot differ.

use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use super::super::staging::Staging;
use super::ahead::Hashed;
use super::by_hash::{EachPart, by_hash};
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::dataset::key_hashes::{self, Salt};
use crate::format::dataset::{Digests, SideFile, filter, keys, lookup};
use crate::format::md5::Md5;
use crate::storage::{Source, Storage};

/// Keys that are hashed at a time.
const BATCH: usize = 1 << 16;
/// Keys that one task hashes.
const TASK: usize = 1 << 10;
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

/// Stages the wanted files for the keys of a staged or finished `.keys` file, of which the first may be hashed
/// already.
pub(crate) fn build(
    staging: &Staging,
    keys_path: &Path,
    keys_file: &Source,
    wanted: Wanted,
    sync: bool,
    hash_many: HashMany,
    ahead: Hashed,
) -> Result<()> {
    let all = keys_file.read(0..keys_file.len())?;
    let (count, header) = keys::parse_header(&all).map_err(|e| Error::from(e).at(keys_path))?;
    let body = KeyList { path: keys_path, bytes: &all[header..], header: header as u64, count };
    // A key takes a byte at least: a larger number is a lie, and memory is asked for by it below.
    if count > body.bytes.len() as u64 {
        let there = format!("{} bytes for them", body.bytes.len());
        return Err(body.damaged(FormatError::new(0, format!("{count} keys"), there)));
    }
    let (hashes, filter) = hash_all(&body, wanted.filter, hash_many, ahead)?;
    let (filter, hashes) = rayon::join(
        || filter.map_or(Ok(()), |filter| filter.write(staging, sync)),
        || write_by_hash(staging, &body, hashes, wanted, sync, hash_many),
    );
    filter.and(hashes)
}

/// Writes `.key_hashes` and `.lookup`, with the first salt that makes all hashes different. `hashes` are those of the
/// first salt of all.
fn write_by_hash(
    staging: &Staging,
    body: &KeyList<'_>,
    mut hashes: Vec<u64>,
    wanted: Wanted,
    sync: bool,
    hash_many: HashMany,
) -> Result<()> {
    let mut salt = Salt::of_try(0);
    let mut tries = 0;
    loop {
        // Written before they are known to be good: the test for collisions sorts them in place,
        // which spares eight bytes a key, and practically never finds one.
        if wanted.key_hashes {
            write_hashes(staging, &salt, &hashes, sync)?;
        }
        let collision = match wanted.lookup {
            true => write_lookup(staging, salt, &hashes, sync)?,
            false => collision(&mut hashes),
        };
        let Some(collision) = collision else { return Ok(()) };
        body.refuse_duplicate(&salt, collision, hash_many)?;
        tries += 1;
        if tries == key_hashes::MAX_TRIES {
            let message = format!("key hashes still collide after {tries} salts");
            return Err(Error::new(ErrorKind::Limit, message).at(body.path));
        }
        for (made, file) in
            [(wanted.key_hashes, SideFile::KeyHashes), (wanted.lookup, SideFile::Lookup)]
        {
            if made {
                staging.discard(file)?;
            }
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

    fn write(mut self, staging: &Staging, sync: bool) -> Result<()> {
        self.insert_left();
        let mut sink = staging.create(SideFile::Filter)?;
        sink.append(&self.params.header())?;
        sink.append(&self.bits)?;
        if sync { sink.sync() } else { Ok(()) }
    }
}

/// Hashes all keys under the first salt, and fills the filter meanwhile: while one core sets the
/// bits of one batch, the others hash the next.
fn hash_all(
    body: &KeyList<'_>,
    with_filter: bool,
    hash_many: HashMany,
    ahead: Hashed,
) -> Result<(Vec<u64>, Option<Filter>)> {
    let salt = Salt::of_try(0);
    let Hashed { mut hashes, pairs } = ahead;
    let done = hashes.len();
    hashes.resize(body.count as usize, 0);
    let params = filter::Params::for_len(body.count);
    let bits = vec![0; if with_filter { params.body_len() as usize } else { 0 }];
    let mut filter = Filter { params, bits, left: if with_filter { pairs } else { Vec::new() } };
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
    Ok((hashes, with_filter.then_some(filter)))
}

fn hash_batch(salt: &Salt, batch: &[&[u8]], out: &mut [u64], hash_many: HashMany) {
    let tasks = batch.par_chunks(TASK).zip(out.par_chunks_mut(TASK));
    tasks.for_each(|(keys, out)| hash_many(salt, keys, out));
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

/// The value of two equal hashes, if there are any. Sorts them.
fn collision(hashes: &mut [u64]) -> Option<u64> {
    hashes.par_sort_unstable();
    key_hashes::duplicate(hashes)
}

/// The content of `.lookup` for these hashes.
pub(crate) fn lookup_file(salt: Salt, hashes: &[u64]) -> Result<Vec<u8>> {
    let mut bytes = vec![0; lookup::HEADER];
    let (header, _) = place(salt, hashes, |slots| {
        bytes.extend_from_slice(slots);
        Ok(())
    })?;
    bytes[..lookup::HEADER].copy_from_slice(&header.encode());
    Ok(bytes)
}

/// Writes `.lookup`. Returns a hash that occurs twice, if one does.
pub(super) fn write_lookup(
    staging: &Staging,
    salt: Salt,
    hashes: &[u64],
    sync: bool,
) -> Result<Option<u64>> {
    let mut sink = staging.create(SideFile::Lookup)?;
    sink.append(&[0; lookup::HEADER])?;
    let (header, twice) = place(salt, hashes, |slots| sink.append(slots))?;
    sink.write_at(&header.encode(), 0)?;
    if sync {
        sink.sync()?;
    }
    Ok(twice)
}

/// Passes the slots of `.lookup` on, in order, and returns what goes before them; and a hash that occurs twice, if
/// one does.
fn place(
    salt: Salt,
    hashes: &[u64],
    mut put: impl FnMut(&[u8]) -> Result<()> + Send,
) -> Result<(lookup::Header, Option<u64>)> {
    let encoded = |part: &mut EachPart<'_>| {
        let mut bytes = Vec::new();
        for (i, hashes) in hashes.chunks(ENCODED).enumerate() {
            bytes.clear();
            hashes.iter().for_each(|hash| bytes.extend_from_slice(&key_hashes::encode(*hash)));
            part(i * ENCODED, &bytes);
        }
        Ok(())
    };
    let slots = || -> Result<(lookup::Shape, Option<u64>)> {
        let mut placer = lookup::Placer::new(hashes.len() as u64)?;
        let (mut taken, mut bytes) = (Vec::new(), Vec::new());
        let mut put = |slots: &mut Vec<u32>| {
            bytes.clear();
            slots.drain(..).for_each(|slot| bytes.extend_from_slice(&lookup::encode(slot)));
            put(&bytes)
        };
        let (mut last, mut twice) = (None, None);
        by_hash(hashes.len(), encoded, |sorted| {
            for &(hash, index) in sorted {
                // The first, as the search without `.lookup` finds.
                if last.replace(hash) == Some(hash) && twice.is_none() {
                    twice = Some(hash);
                }
                placer.push(hash, index)?;
            }
            placer.take(&mut taken);
            put(&mut taken)
        })?;
        let (shape, mut rest) = placer.finish()?;
        put(&mut rest)?;
        Ok((shape, twice))
    };
    let digest = || {
        let mut digest = lookup::SourceDigest::new();
        digest.update(&salt.0);
        encoded(&mut |_, bytes| {
            digest.update(bytes);
        })
        .map(|()| digest.finish())
    };
    let (placed, digest) = rayon::join(slots, digest);
    let ((shape, twice), digest) = (placed?, digest?);
    let source = lookup::Source {
        count: hashes.len() as u64,
        salt,
        first: hashes.first().copied().unwrap_or_default(),
        last: hashes.last().copied().unwrap_or_default(),
    };
    Ok((lookup::Header::new(shape, source, digest)?, twice))
}

/// The keys of a `.keys` file, after its header.
struct KeyList<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    header: u64,
    count: u64,
}

impl KeyList<'_> {
    /// Calls `with` on the keys from one on, batch by batch, with the index of each batch's first key.
    fn for_batches<'s>(
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
                    return Err(Error::new(ErrorKind::DuplicateKey, "the key is there twice")
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

/// The MD5 of a file, or of its first `len` bytes and then of all.
pub(crate) fn digest(storage: &Arc<dyn Storage>, path: &Path) -> Result<[u8; 16]> {
    let source = storage.open(path)?;
    let mut md5 = Md5::new();
    digest_into(&mut md5, &source, 0..source.len())?;
    Ok(md5.finish())
}

pub(crate) fn digest_into(
    md5: &mut Md5,
    source: &Source,
    range: std::ops::Range<u64>,
) -> Result<()> {
    let fed = source.scan::<()>(range, 1 << 20, |part, _| {
        md5.update(part);
        None
    });
    fed.map(drop)
}

pub(crate) fn read_digests(storage: &Arc<dyn Storage>, path: &Path) -> Result<Digests> {
    let file = storage.open(path)?;
    let text = file.read(0..file.len())?;
    Digests::parse(&text).map_err(|e| Error::from(e).at(path))
}
