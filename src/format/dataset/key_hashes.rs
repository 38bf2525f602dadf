//! `.key_hashes`: a salt, then 64 bits of salted BLAKE2s for each key, in sample order.
//!
//! A writer tries salts in order until no two keys of the dataset have the same hash. So within a
//! dataset a hash stands for one key; a key from elsewhere may still collide with it, so a
//! reader that finds an index by hash must compare the key.

use super::blake2s;
use crate::format::FormatError;

/// Bytes of the salt at the beginning of the file.
pub const SALT: u64 = 8;

/// Bytes of a hash.
pub const ENTRY: u64 = 8;

/// How many salts are tried before keys are considered equal.
pub const MAX_TRIES: u32 = 1000;

/// The salt that makes the hashes of a dataset's keys unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Salt(pub [u8; 8]);

impl Salt {
    /// The salt of try `t`, which counts from 0. Nearly every dataset uses try 0.
    ///
    /// ```
    /// use kiste::format::dataset::key_hashes::Salt;
    /// assert_eq!(Salt::of_try(0).0, *b"\x65\x2e\x53\x0e\xde\xe5\x89\x3b");
    /// ```
    pub fn of_try(t: u32) -> Salt {
        // The decimal digits in ASCII, as Python hashes `str(t)`.
        let (salt, _) = blake2s::one(&blake2s::UNSALTED, t.to_string().as_bytes());
        Salt(salt.to_be_bytes())
    }

    /// The salt at the beginning of a `.key_hashes` file.
    pub fn parse(bytes: &[u8]) -> Result<Salt, FormatError> {
        let salt = bytes.first_chunk().ok_or_else(|| {
            FormatError::new(0, "a salt of 8 bytes", format!("{} bytes", bytes.len()))
        })?;
        Ok(Salt(*salt))
    }
}

/// The hash of a key.
///
/// ```
/// use kiste::format::dataset::key_hashes::{self, Salt};
/// assert_eq!(key_hashes::hash(&Salt::of_try(0), b"k0"), 0x19784c6abda62607);
/// ```
pub fn hash(salt: &Salt, key: &[u8]) -> u64 {
    blake2s::one(&salt.0, key).0
}

/// Hashes many keys, several times faster than one by one.
///
/// Hashes keys until either slice ends.
///
/// ```
/// use kiste::format::dataset::key_hashes::{self, Salt};
/// let mut hashes = [0; 2];
/// key_hashes::hash_many(&Salt::of_try(0), &["k0", "k1"], &mut hashes);
/// assert_eq!(hashes, [0x19784c6abda62607, 0x0a4439ced84165f9]);
/// ```
pub fn hash_many<K: AsRef<[u8]>>(salt: &Salt, keys: &[K], out: &mut [u64]) {
    blake2s::each(&salt.0, keys, |i, (hash, _)| {
        if let Some(out) = out.get_mut(i) {
            *out = hash;
        }
    });
}

/// The number of hashes of a `.key_hashes` file of this size.
pub fn count(file_len: u64) -> Result<u64, FormatError> {
    if file_len < SALT || file_len % ENTRY != 0 {
        return Err(FormatError::new(
            file_len,
            "a salt and hashes of 8 bytes each",
            format!("{file_len} bytes"),
        ));
    }
    Ok((file_len - SALT) / ENTRY)
}

/// The bytes of this hash.
#[inline]
pub const fn encode(hash: u64) -> [u8; 8] {
    hash.to_be_bytes()
}

/// Hash `i` of these bytes, which begin behind the salt.
#[inline]
pub fn entry(hashes: &[u8], i: usize) -> Option<u64> {
    hashes.get(i.checked_mul(8)?..)?.first_chunk().copied().map(u64::from_be_bytes)
}

/// All hashes in these bytes, which begin behind the salt or at any multiple of 8 behind it.
#[inline]
pub(crate) fn entries(hashes: &[u8]) -> impl Iterator<Item = u64> {
    let whole = |hash: &[u8]| hash.first_chunk().copied().map_or(0, u64::from_be_bytes);
    hashes.chunks_exact(8).map(whole)
}

/// The index of the first hash that is `wanted`, by linear search.
///
/// The bytes begin behind the salt, or at any multiple of 8 behind it. Bytes beyond the last
/// multiple of 8 are not looked at.
///
/// ```
/// use kiste::format::dataset::key_hashes;
/// let hashes = [key_hashes::encode(7), key_hashes::encode(5), key_hashes::encode(5)].concat();
/// assert_eq!(key_hashes::search(&hashes, 5), Some(1));
/// assert_eq!(key_hashes::search(&hashes, 6), None);
/// ```
pub fn search(hashes: &[u8], wanted: u64) -> Option<usize> {
    // Compared in file byte order, which saves swapping the bytes of each.
    let wanted = u64::from_le_bytes(encode(wanted));
    let is_wanted =
        |hash: &[u8]| hash.first_chunk().copied().map(u64::from_le_bytes) == Some(wanted);
    // Without an exit from the inner loop the compiler vectorises it.
    let blocks = hashes.chunks(BLOCK);
    let any = |block: &[u8]| block.chunks_exact(8).fold(false, |any, hash| any | is_wanted(hash));
    let (block, bytes) = blocks.enumerate().find(|(_, block)| any(block))?;
    let at = bytes.chunks_exact(8).position(is_wanted)?;
    Some(block * (BLOCK / 8) + at)
}

/// The bytes that [`search`] compares between two decisions.
const BLOCK: usize = 512;

/// The first value that occurs twice among these sorted hashes: a collision, which needs another
/// salt, or a duplicate key.
pub fn duplicate(sorted: &[u64]) -> Option<u64> {
    sorted.windows(2).find(|two| two[0] == two[1]).map(|two| two[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dataset::golden;
    use blake2::Blake2sMac;
    use blake2::digest::FixedOutput;
    use blake2::digest::Update;
    use blake2::digest::consts::U32;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Golden {
        salts: Vec<GoldenSalt>,
        keys: Vec<GoldenKey>,
    }

    #[derive(Deserialize)]
    struct GoldenSalt {
        r#try: u32,
        salt: String,
    }

    #[derive(Deserialize)]
    struct GoldenKey {
        key: String,
        try0: String,
        try1: String,
        try7: String,
        nosalt: String,
    }

    /// The hash as the other BLAKE2s has it.
    fn oracle(salt: &Salt, key: &[u8]) -> u64 {
        let mut mac = Blake2sMac::<U32>::new_with_salt_and_personal(None, &salt.0, &[]).unwrap();
        mac.update(key);
        u64::from_be_bytes(*mac.finalize_fixed().first_chunk().unwrap())
    }

    fn many(salt: &Salt, keys: &[impl AsRef<[u8]>]) -> Vec<u64> {
        let mut hashes = vec![0; keys.len()];
        hash_many(salt, keys, &mut hashes);
        hashes
    }

    #[test]
    fn golden_salts() {
        let golden: Golden = golden::json("hashes.json");
        assert_eq!(golden.salts.len(), 30);
        for salt in &golden.salts {
            let ours = u64::from_be_bytes(Salt::of_try(salt.r#try).0);
            assert_eq!(ours, golden::hex_u64(&salt.salt));
        }
    }

    #[test]
    fn golden_hashes() {
        let golden: Golden = golden::json("hashes.json");
        assert_eq!(golden.keys.len(), 16);
        let keys: Vec<&str> = golden.keys.iter().map(|key| &*key.key).collect();
        let salts = [Salt::of_try(0), Salt::of_try(1), Salt::of_try(7), Salt([0; 8])];
        for (t, salt) in salts.iter().enumerate() {
            for (key, hash_of_many) in golden.keys.iter().zip(many(salt, &keys)) {
                let wanted = [&key.try0, &key.try1, &key.try7, &key.nosalt][t];
                assert_eq!(hash(salt, key.key.as_bytes()), golden::hex_u64(wanted));
                assert_eq!(hash_of_many, golden::hex_u64(wanted));
                assert_eq!(oracle(salt, key.key.as_bytes()), golden::hex_u64(wanted));
            }
        }
    }

    #[test]
    fn golden_files_are_made_again() {
        for set in golden::datasets() {
            let file = set.file(".key_hashes");
            let salt = Salt::parse(&file).unwrap();
            assert_eq!(u64::from_be_bytes(salt.0), golden::hex_u64(&set.salt));
            let hashes = many(&salt, &set.keys);
            let mut made = salt.0.to_vec();
            made.extend(hashes.iter().copied().flat_map(encode));
            assert_eq!(made, file, "{}", set.path);
            assert_eq!(count(file.len() as u64), Ok(set.keys.len() as u64));
            assert_eq!(set.hashes.len(), hashes.len());
            for (i, (&hash, golden)) in hashes.iter().zip(&set.hashes).enumerate() {
                assert_eq!(hash, golden::hex_u64(golden));
                assert_eq!(entry(&file[8..], i), Some(hash));
                assert_eq!(search(&file[8..], hash), Some(i));
            }
            assert_eq!(entry(&file[8..], hashes.len()), None);
            let mut sorted = hashes.clone();
            sorted.sort_unstable();
            assert_eq!(duplicate(&sorted), None);
        }
    }

    #[test]
    fn one_and_many_and_the_oracle_agree_at_every_length_and_number() {
        let text: Vec<u8> = (0..300u32).map(|i| (i * 7) as u8).collect();
        let keys: Vec<&[u8]> = (0..300).map(|len| &text[..len]).collect();
        for t in [0, 7, 999] {
            let salt = Salt::of_try(t);
            let hashes = many(&salt, &keys);
            for (key, &one_of_many) in keys.iter().zip(&hashes) {
                assert_eq!(one_of_many, hash(&salt, key));
                assert_eq!(one_of_many, oracle(&salt, key));
            }
            for n in 0..40 {
                assert_eq!(many(&salt, &keys[100..100 + n]), hashes[100..100 + n]);
            }
        }
        let mut few = [1; 3];
        hash_many(&Salt::of_try(0), &keys[..20], &mut few);
        assert_eq!(few[..], many(&Salt::of_try(0), &keys[..3]));
    }

    #[test]
    fn search_finds_the_first_at_every_place() {
        let mut next = golden::random(1);
        let mut hashes: Vec<u64> = (0..300).map(|_| next()).collect();
        hashes.extend([0, u64::MAX, 1 << 63, 1, hashes[70]]);
        let bytes: Vec<u8> = hashes.iter().copied().flat_map(encode).collect();
        for (i, &hash) in hashes.iter().enumerate() {
            let first = if i == 304 { 70 } else { i };
            assert_eq!(search(&bytes, hash), Some(first));
            assert_eq!(search(&bytes[..8 * i], hash), (first < i).then_some(first));
            // Half a hash at the end is none.
            assert_eq!(search(&bytes[..8 * i + 7], hash), (first < i).then_some(first));
            assert_eq!(search(&bytes, hash ^ 1 << 40), None);
        }
        assert_eq!(search(&[], 0), None);
        // No hash lies between these two.
        assert_eq!(search(&[0; 20], 0), Some(0));
        assert_eq!(search(&[&[1; 12][..], &[0; 8], &[1; 12]].concat(), 0), None);
    }

    #[test]
    fn sizes_and_salts_that_no_file_can_have() {
        for len in (0..64).chain([u64::MAX, u64::MAX - 7]) {
            assert_eq!(count(len).is_ok(), len >= 8 && len % 8 == 0, "{len}");
        }
        assert!(Salt::parse(&[0; 7]).is_err());
        assert_eq!(Salt::parse(&[1; 9]), Ok(Salt([1; 8])));
        assert_eq!(entry(&[0; 64], usize::MAX), None);
    }

    #[test]
    fn duplicates_are_seen() {
        assert_eq!(duplicate(&[]), None);
        assert_eq!(duplicate(&[1, 2, 3]), None);
        assert_eq!(duplicate(&[1, 2, 3, 3]), Some(3));
    }
}
