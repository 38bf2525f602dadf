#![doc = include_str!("FORMAT.md")]
//!
//! # In this module
//!
//! One submodule for each file; [`shards`] is the documented one. They turn bytes into values and back and check each file against
//! the specification above; rules about two files are checked by callers that have both. Absent on
//! purpose: opening, mapping, locking and publishing files, and the messages in the data file.

mod side_file;
#[doc(hidden)]
pub mod offsets;
#[doc(hidden)]
pub mod keys;
mod blake2s;
#[doc(hidden)]
pub mod key_hashes;
#[doc(hidden)]
pub mod filter;
pub(crate) mod digests;
#[doc(hidden)]
pub mod legacy_index;
pub(crate) mod lookup;
#[doc(hidden)]
pub mod crc;
#[doc(hidden)]
pub mod lengths;
pub mod shards;

#[doc(hidden)]
pub use digests::{Digest, Digests};
#[doc(hidden)]
pub use side_file::SideFile;

#[cfg(test)]
pub(crate) mod golden;

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that are in existing files. Changing one of these breaks every dataset out there.
    #[test]
    fn frozen() {
        assert_eq!(
            SideFile::ALL.map(SideFile::suffix),
            [
                ".offsets",
                ".keys",
                ".key_hashes",
                ".filter",
                ".md5",
                ".index",
                ".lookup",
                ".crc",
                ".lengths"
            ]
        );
        assert_eq!(
            SideFile::WRITTEN.map(SideFile::suffix),
            [".offsets", ".keys", ".key_hashes", ".filter", ".md5"]
        );
        assert_eq!(offsets::ENTRY, 8);
        assert_eq!((keys::MAX_COUNT, keys::MAX_HEADER), (0xffff_ffff, 5));
        assert_eq!((key_hashes::SALT, key_hashes::ENTRY, key_hashes::MAX_TRIES), (8, 8, 1000));
        assert_eq!(key_hashes::Salt::of_try(0).0, *b"\x65\x2e\x53\x0e\xde\xe5\x89\x3b");
        assert_eq!((filter::MAGIC, filter::HEADER), (*b"SIMPBLOO", 32));
        assert_eq!((lookup::MAGIC, lookup::VERSION), (*b"KISTELUP", 3));
        assert_eq!((lookup::HEADER, lookup::SLOT), (128, 4));
        assert_eq!((crc::MAGIC, crc::VERSION), (*b"KISTECRC", 1));
        assert_eq!((crc::HEADER, crc::ENTRY, crc::MAX_COUNT), (64, 4, 0xffff_ffff));
        assert_eq!((lengths::MAGIC, lengths::VERSION), (*b"KISTELEN", 1));
        assert_eq!((lengths::START, lengths::MAX_COLUMNS, lengths::MAX_NAME), (64, 64, 256));
        assert_eq!((lookup::EMPTY, lookup::MAX_COUNT), (0xffff_ffff, 0xffff_ffff));
    }
}
