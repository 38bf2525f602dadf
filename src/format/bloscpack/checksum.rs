//! The nine checksums: their numbers in headers, their sizes, and their digests.

use std::fmt;
use std::str::FromStr;

use sha1::Sha1;
use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};

use crate::error::{Error, ErrorKind, Result};
use crate::format::hex;
use crate::format::md5::Md5;

/// Which checksum follows each chunk, or the metadata.
///
/// They detect accidents, not attacks: the digest is stored next to the data.
///
/// ```
/// use kiste::format::bloscpack::Checksum;
///
/// assert_eq!(Checksum::from_name("crc32"), Some(Checksum::Crc32));
/// assert_eq!(Checksum::Crc32.digest(b"123456789").as_slice(), [0x26, 0x39, 0xf4, 0xcb]);
/// assert_eq!(Checksum::None.size(), 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Checksum {
    /// No digest at all.
    None,
    /// Adler-32 as in zlib: the default of bloscpack.
    #[default]
    Adler32,
    /// CRC-32 as in zlib.
    Crc32,
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// The bytes of a digest, at most [`Checksum::MAX_SIZE`] of them.
#[derive(Clone, Copy)]
pub struct Digest {
    bytes: [u8; Checksum::MAX_SIZE],
    len: u8,
}

impl Checksum {
    /// All of them, in the order of their numbers.
    pub const ALL: [Checksum; 9] = [
        Checksum::None,
        Checksum::Adler32,
        Checksum::Crc32,
        Checksum::Md5,
        Checksum::Sha1,
        Checksum::Sha224,
        Checksum::Sha256,
        Checksum::Sha384,
        Checksum::Sha512,
    ];

    /// The size of the longest digest.
    pub const MAX_SIZE: usize = 64;

    /// The checksum of this number.
    pub fn from_id(id: u8) -> Option<Checksum> {
        Checksum::ALL.get(usize::from(id)).copied()
    }

    /// Its number in a header.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The checksum that bloscpack knows by this name.
    pub fn from_name(name: &str) -> Option<Checksum> {
        Checksum::ALL.into_iter().find(|checksum| checksum.name() == name)
    }

    /// Its name in bloscpack.
    pub const fn name(self) -> &'static str {
        match self {
            Checksum::None => "None",
            Checksum::Adler32 => "adler32",
            Checksum::Crc32 => "crc32",
            Checksum::Md5 => "md5",
            Checksum::Sha1 => "sha1",
            Checksum::Sha224 => "sha224",
            Checksum::Sha256 => "sha256",
            Checksum::Sha384 => "sha384",
            Checksum::Sha512 => "sha512",
        }
    }

    /// Bytes of its digest.
    pub const fn size(self) -> usize {
        match self {
            Checksum::None => 0,
            Checksum::Adler32 | Checksum::Crc32 => 4,
            Checksum::Md5 => 16,
            Checksum::Sha1 => 20,
            Checksum::Sha224 => 28,
            Checksum::Sha256 => 32,
            Checksum::Sha384 => 48,
            Checksum::Sha512 => 64,
        }
    }

    /// The digest of these bytes, as it is stored: the two short ones are little-endian numbers.
    pub fn digest(self, bytes: &[u8]) -> Digest {
        match self {
            Checksum::None => Digest::new(&[]),
            Checksum::Adler32 => Digest::new(&simd_adler32::adler32(&bytes).to_le_bytes()),
            Checksum::Crc32 => Digest::new(&crc32fast::hash(bytes).to_le_bytes()),
            Checksum::Md5 => Digest::new(&Md5::of(bytes)),
            Checksum::Sha1 => Digest::new(&Sha1::digest(bytes)),
            Checksum::Sha224 => Digest::new(&Sha224::digest(bytes)),
            Checksum::Sha256 => Digest::new(&Sha256::digest(bytes)),
            Checksum::Sha384 => Digest::new(&Sha384::digest(bytes)),
            Checksum::Sha512 => Digest::new(&Sha512::digest(bytes)),
        }
    }
}

/// A name as [`name`](Checksum::name) spells it; capital letters make no difference.
impl FromStr for Checksum {
    type Err = Error;

    fn from_str(name: &str) -> Result<Checksum> {
        let is_it = |checksum: &Checksum| checksum.name().eq_ignore_ascii_case(name);
        Checksum::ALL.into_iter().find(is_it).ok_or_else(|| {
            let names = Checksum::ALL.map(Checksum::name).join(", ");
            let message = format!("expected a checksum of bloscpack ({names}), found {name:?}");
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Digest {
    fn new(digest: &[u8]) -> Digest {
        let mut bytes = [0; Checksum::MAX_SIZE];
        bytes[..digest.len()].copy_from_slice(digest);
        Digest { bytes, len: digest.len() as u8 }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Digest) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Digest {}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(self.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_sizes_belong_together() {
        for (id, checksum) in Checksum::ALL.into_iter().enumerate() {
            assert_eq!(Checksum::from_id(id as u8), Some(checksum));
            assert_eq!(usize::from(checksum.id()), id);
            assert_eq!(Checksum::from_name(checksum.name()), Some(checksum));
            assert_eq!(checksum.digest(b"abc").as_slice().len(), checksum.size());
        }
        assert_eq!((Checksum::from_id(9), Checksum::from_name("Adler32")), (None, None));
    }

    #[test]
    fn digests_of_abc_are_those_of_the_standards() {
        for (checksum, expected) in [
            (Checksum::None, ""),
            (Checksum::Adler32, "27014d02"),
            (Checksum::Crc32, "c2412435"),
            (Checksum::Md5, "900150983cd24fb0d6963f7d28e17f72"),
            (Checksum::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (Checksum::Sha224, "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
        ] {
            assert_eq!(hex(checksum.digest(b"abc").as_slice()), expected, "{checksum}");
        }
        assert!(hex(Checksum::Sha256.digest(b"abc").as_slice()).starts_with("ba7816bf8f01cfea"));
        assert!(hex(Checksum::Sha384.digest(b"abc").as_slice()).starts_with("cb00753f45a35e8b"));
        assert!(hex(Checksum::Sha512.digest(b"abc").as_slice()).starts_with("ddaf35a193617aba"));
        // The checksum of no bytes is 1, not 0: the start value of zlib.
        assert_eq!(Checksum::Adler32.digest(b"").as_slice(), [1, 0, 0, 0]);
    }
}
