//! Digests by their names in Python, in `hashlib` and `xxhash`.

use sha1::{Digest, Sha1};
use sha2::{Sha224, Sha256, Sha384, Sha512};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use twox_hash::{XxHash3_64, XxHash3_128, XxHash32, XxHash64};

use crate::format::hex;
use crate::format::md5::Md5;

/// The default seed of all variants of xxHash.
const SEED: u64 = 0;

/// A digest in hexadecimal digits, if its name is known.
pub(super) fn digest(name: &str, bytes: &[u8]) -> Option<String> {
    Some(match name {
        "blake2b" => blake2b_simd::blake2b(bytes).to_hex().to_string(),
        "blake2s" => blake2s_simd::blake2s(bytes).to_hex().to_string(),
        "md5" => hex(&Md5::of(bytes)),
        "sha1" => of::<Sha1>(bytes),
        "sha224" => of::<Sha224>(bytes),
        "sha256" => of::<Sha256>(bytes),
        "sha384" => of::<Sha384>(bytes),
        "sha512" => of::<Sha512>(bytes),
        "sha3_224" => of::<Sha3_224>(bytes),
        "sha3_256" => of::<Sha3_256>(bytes),
        "sha3_384" => of::<Sha3_384>(bytes),
        "sha3_512" => of::<Sha3_512>(bytes),
        // Numbers, with the most significant digit first.
        "xxh32" => format!("{:08x}", XxHash32::oneshot(SEED as u32, bytes)),
        "xxh64" => format!("{:016x}", XxHash64::oneshot(SEED, bytes)),
        "xxh3_64" => format!("{:016x}", XxHash3_64::oneshot(bytes)),
        // Two names of the same digest.
        "xxh128" | "xxh3_128" => format!("{:032x}", XxHash3_128::oneshot(bytes)),
        _ => return None,
    })
}

fn of<D: Digest>(bytes: &[u8]) -> String {
    hex(&D::digest(bytes))
}
