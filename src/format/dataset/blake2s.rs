//! BLAKE2s-256 of one key, and of many at once: what key hashes and filter both build on.
//!
//! Keys are short, so each is one block, and a block is a chain of dependent steps. Only hashing
//! several keys in parallel, one per SIMD lane, keeps the processor busy.

use blake2s_simd::Params;
use blake2s_simd::many::{self, HashManyJob};

/// How many keys are hashed together. A multiple of all degrees that the SIMD code knows (4, 8),
/// small enough for the stack.
const BATCH: usize = 16;

/// The parameters of a hash with this salt. No salt and a salt of zeros are the same.
pub(super) fn params(salt: &[u8; 8]) -> Params {
    let mut params = Params::new();
    params.salt(salt);
    params
}

/// The first 16 bytes of the digest of a key.
#[inline]
pub(super) fn one(params: &Params, key: &[u8]) -> (u64, u64) {
    halves(params.hash(key).as_array())
}

/// Calls `put` with each index and the first 16 bytes of the digest of the key there.
#[inline]
pub(super) fn each<K: AsRef<[u8]>>(
    params: &Params,
    keys: &[K],
    mut put: impl FnMut(usize, (u64, u64)),
) {
    for (batch, keys) in keys.chunks(BATCH).enumerate() {
        // Jobs beyond the keys stand for nothing and are not run.
        let mut jobs: [HashManyJob; BATCH] = std::array::from_fn(|i| {
            HashManyJob::new(params, keys.get(i).map_or(&[], AsRef::as_ref))
        });
        many::hash_many(jobs.iter_mut().take(keys.len()));
        for (i, job) in jobs.iter().take(keys.len()).enumerate() {
            put(batch * BATCH + i, halves(job.to_hash().as_array()));
        }
    }
}

#[inline]
fn halves(digest: &[u8; 32]) -> (u64, u64) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = *digest;
    (u64::from_be_bytes([a, b, c, d, e, f, g, h]), u64::from_be_bytes([i, j, k, l, m, n, o, p]))
}
