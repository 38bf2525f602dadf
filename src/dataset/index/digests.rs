//! MD5 digests: of files, two at a time, and what `.md5` says.
//!
//! Each step of MD5 waits for the one before, so a core that makes two digests needs little more time than for one.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::dataset::Digests;
use crate::format::dataset::key_hashes::{self, Salt};
use crate::format::md5::Md5;
use crate::storage::{Source, Storage};

/// Bytes read from each file at a time: few enough to stay in the caches of a core.
const PART: u64 = 128 << 10;

/// Content to compute a digest of.
pub(super) enum Content<'a> {
    File(&'a Source),
    /// The content of `.key_hashes`.
    Hashes(Salt, &'a [u64]),
}

impl Content<'_> {
    /// The next bytes from here on; none at the end.
    fn read(&self, at: u64) -> Result<Cow<'_, [u8]>> {
        match *self {
            Content::File(file) => file.read(at..file.len().min(at.saturating_add(PART))),
            Content::Hashes(salt, _) if at == 0 => Ok(Cow::Owned(salt.0.to_vec())),
            Content::Hashes(_, hashes) => {
                let first = ((at - key_hashes::SALT) / key_hashes::ENTRY) as usize;
                let some = hashes[first..].iter().take((PART / key_hashes::ENTRY) as usize);
                Ok(Cow::Owned(some.flat_map(|hash| key_hashes::encode(*hash)).collect()))
            }
        }
    }
}

/// One of two digests that are made at a time.
struct Lane<'a> {
    /// The place in the results, and what is read.
    work: Option<(usize, &'a Content<'a>)>,
    at: u64,
    md5: Md5,
}

impl<'a> Lane<'a> {
    /// The next bytes of what it reads, or of what comes after it. None if there is no more.
    fn next(
        &mut self,
        queue: &mut impl Iterator<Item = (usize, &'a Content<'a>)>,
        done: &mut [[u8; 16]],
    ) -> Result<Cow<'a, [u8]>> {
        while let Some((place, content)) = self.work {
            let bytes = content.read(self.at)?;
            if !bytes.is_empty() {
                self.at += bytes.len() as u64;
                return Ok(bytes);
            }
            done[place] = std::mem::take(&mut self.md5).finish();
            (self.work, self.at) = (queue.next(), 0);
        }
        Ok(Cow::Borrowed(&[]))
    }
}

/// The MD5 of each of these.
pub(super) fn of_all<'a>(contents: &'a [Content<'a>]) -> Result<Vec<[u8; 16]>> {
    let mut done = vec![[0; 16]; contents.len()];
    let mut queue = contents.iter().enumerate();
    let mut lane = || Lane { work: queue.next(), at: 0, md5: Md5::new() };
    let (mut one, mut two) = (lane(), lane());
    loop {
        let first = one.next(&mut queue, &mut done)?;
        let second = two.next(&mut queue, &mut done)?;
        if first.is_empty() && second.is_empty() {
            return Ok(done);
        }
        Md5::update_two(&mut one.md5, &first, &mut two.md5, &second);
    }
}

/// The MD5 of a file.
pub(crate) fn digest(storage: &Arc<dyn Storage>, path: &Path) -> Result<[u8; 16]> {
    let source = storage.open(path)?;
    let mut md5 = Md5::new();
    digest_into(&mut md5, &source, 0..source.len())?;
    Ok(md5.finish())
}

pub(crate) fn digest_into(md5: &mut Md5, source: &Source, range: Range<u64>) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::MemoryStorage;

    #[test]
    fn digests_of_any_number_of_files_are_those_of_their_bytes() {
        let part = PART as usize;
        let sizes = [0, 3 * part + 7, 1, part, 64, 2 * part - 1, 0];
        let storage = MemoryStorage::new();
        let contents: Vec<Vec<u8>> =
            sizes.iter().map(|&n| (0..n).map(|i| (i * 7 + n) as u8).collect()).collect();
        for (i, bytes) in contents.iter().enumerate() {
            let mut sink = storage.create(Path::new(&i.to_string())).unwrap();
            sink.append(bytes).unwrap();
        }
        let open = |i: usize| storage.open(Path::new(&i.to_string())).unwrap();
        let files: Vec<Source> = (0..sizes.len()).map(open).collect();
        for n in 0..=files.len() {
            let found = of_all(&files[..n].iter().map(Content::File).collect::<Vec<_>>()).unwrap();
            let expected: Vec<_> = contents[..n].iter().map(|bytes| Md5::of(bytes)).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn key_hashes_are_digested_as_in_their_file() {
        let salt = Salt::of_try(0);
        for n in [0, 1, PART / 8 - 1, PART / 8, PART / 8 + 1, PART / 2] {
            let hashes: Vec<u64> = (0..n).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            let file: Vec<u8> =
                salt.0.into_iter().chain(hashes.iter().flat_map(|h| h.to_be_bytes())).collect();
            let found = of_all(&[Content::Hashes(salt, &hashes)]).unwrap();
            assert_eq!(found, [Md5::of(&file)], "{n}");
        }
    }
}
