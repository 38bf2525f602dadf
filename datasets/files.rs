//! [`File`]: what a data set is read from.

use std::io::Read;
use std::path::Path;

use sha2::Digest as _;

use super::Options;
use crate::error::{Error, ErrorKind, Result};
use crate::format::hex;
use crate::format::md5::Md5;
use crate::regular::open_regular;

/// Bytes that are hashed at a time.
const CHUNK: usize = 1 << 20;

/// A file of a data set, as its authors hand it out.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// Its role; unique among files that are read together.
    pub role: &'static str,
    /// Where it is expected in the folder. A folder, if it has no digest.
    pub path: &'static str,
    /// Where it can be downloaded without registration.
    pub url: Option<&'static str>,
    /// Its MD5 in hexadecimal digits.
    pub md5: Option<&'static str>,
    /// Its SHA-256 in hexadecimal digits.
    pub sha256: Option<&'static str>,
    /// Its bytes, where that is known.
    pub size: Option<u64>,
    /// The splits that need it; none means all.
    pub splits: &'static [&'static str],
    /// With which options it is needed; by default always.
    pub when: Option<fn(&Options) -> bool>,
}

impl File {
    /// A file that is always needed.
    pub const fn new(role: &'static str, path: &'static str) -> File {
        let (url, md5, sha256, size) = (None, None, None, None);
        File { role, path, url, md5, sha256, size, splits: &[], when: None }
    }

    /// The same, with the address where it can be had.
    pub const fn url(mut self, url: &'static str) -> File {
        self.url = Some(url);
        self
    }

    /// The same, with its MD5.
    pub const fn md5(mut self, md5: &'static str) -> File {
        self.md5 = Some(md5);
        self
    }

    /// The same, with its SHA-256.
    pub const fn sha256(mut self, sha256: &'static str) -> File {
        self.sha256 = Some(sha256);
        self
    }

    /// The same, with its size in bytes.
    pub const fn size(mut self, size: u64) -> File {
        self.size = Some(size);
        self
    }

    /// The same, but needed only for these splits.
    pub const fn splits(mut self, splits: &'static [&'static str]) -> File {
        self.splits = splits;
        self
    }

    /// The same, but needed only with some options.
    pub const fn when(mut self, when: fn(&Options) -> bool) -> File {
        self.when = Some(when);
        self
    }

    /// Compares a file with its size and digests, if known; `progress` receives the number of bytes
    /// read. False if there is no digest to compare with.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) if it is another file.
    pub fn verify(&self, dir: &Path, progress: impl FnMut(u64)) -> Result<bool> {
        self.verify_at(&dir.join(self.path), progress)
    }

    /// Whether a part of it has arrived in a folder, with which [`fetch`](Self::fetch) continues.
    #[cfg(feature = "download")]
    pub fn is_partly_there(&self, dir: &Path) -> bool {
        let mut partial = dir.join(self.path).into_os_string();
        partial.push(".partial");
        Path::new(&partial).exists()
    }

    /// Fetches the file from its address into a folder, compares it with its digests, and only then
    /// gives it its name. An interrupted download is resumed by the next call.
    /// `progress` receives the number of bytes so far.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it has no address, and the errors of
    /// [`Fetch::to`](crate::convert::Fetch::to).
    #[cfg(feature = "download")]
    pub fn fetch(&self, dir: &Path, progress: impl FnMut(u64)) -> Result<()> {
        let Some(url) = self.url else {
            let message = format!("{} has no address to fetch it from", self.path);
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        let path = dir.join(self.path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| Error::io(parent, error))?;
        }
        let fetch = crate::convert::Fetch::new(url);
        let fetch = match self.size {
            Some(size) => fetch.size(size),
            None => fetch,
        };
        fetch.to(&path, |partial| self.verify_at(partial, |_| {}).map(|_| ()), progress)
    }

    fn verify_at(&self, path: &Path, mut progress: impl FnMut(u64)) -> Result<bool> {
        if self.md5.is_none() && self.sha256.is_none() {
            return Ok(false);
        }
        let at = |error| Error::io(path, error);
        let mut file = open_regular(path).map_err(at)?;
        let found = file.metadata().map_err(at)?.len();
        if let Some(size) = self.size.filter(|&size| size != found) {
            let message = format!("expected {size} bytes, found {found}");
            return Err(Error::new(ErrorKind::Damaged, message).at(path));
        }
        let (mut md5, mut sha256) = (Md5::new(), sha2::Sha256::new());
        let (mut buffer, mut done) = (vec![0; CHUNK], 0);
        loop {
            let read = match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(at(error)),
            };
            if self.md5.is_some() {
                md5.update(&buffer[..read]);
            }
            if self.sha256.is_some() {
                sha256.update(&buffer[..read]);
            }
            done += read as u64;
            progress(done);
        }
        let digests = [
            ("MD5", self.md5, hex(&md5.finish())),
            ("SHA-256", self.sha256, hex(&sha256.finalize())),
        ];
        for (name, expected, found) in digests {
            if let Some(expected) = expected.filter(|&expected| expected != found) {
                let message = format!("expected {name} {expected}, found {found}");
                return Err(Error::new(ErrorKind::Damaged, message).at(path));
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "abc").unwrap();
        let verify = |file: File| file.verify(dir.path(), |_| {});
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let good = File::new("all", "a").md5("900150983cd24fb0d6963f7d28e17f72");
        assert!(verify(good).unwrap() && verify(good.size(3).sha256(sha256)).unwrap());
        assert!(!verify(File::new("all", "a")).unwrap());
        for (bad, says) in [
            (good.size(4), "a: expected 4 bytes, found 3"),
            (good.md5("00"), "a: expected MD5 00, found 900150983cd24fb0d6963f7d28e17f72"),
            (good.sha256("00"), "a: expected SHA-256 00, found ba78"),
        ] {
            let error = verify(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged);
            assert!(error.to_string().contains(says), "{error}");
        }
        let gone = File::new("all", "b").md5("00");
        assert_eq!(verify(gone).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
