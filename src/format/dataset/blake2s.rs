//! BLAKE2s-256 (RFC 7693) of one key, and of many at once: what key hashes and filter both build on.
//!
//! Keys are short, so each is one block, and a block is a chain of dependent steps. Only hashing
//! several keys in parallel, one per SIMD lane, keeps the processor busy: that is what the crate `blake2s_simd` does.
//! One key takes as long there as here, but before the first it asks what the processor can do: in a virtual machine
//! each such question goes to the host, and all of them take some 40 µs, as long as opening the files of a dataset.

use blake2s_simd::Params;
use blake2s_simd::many::{self, HashManyJob};

/// How many keys are hashed together. A multiple of all degrees that the SIMD code knows (4, 8),
/// small enough for the first level of the cache.
const BATCH: usize = 16;

const BLOCK: usize = 64;

/// No salt, which is the same as one of zeros.
pub(super) const UNSALTED: [u8; 8] = [0; 8];

/// The first 16 bytes of the digest of a key.
pub(super) fn one(salt: &[u8; 8], key: &[u8]) -> (u64, u64) {
    let mut state = START;
    // 32 bytes of digest, no key, one leaf at one level.
    state[0] ^= 0x0101_0020;
    let [a, b, c, d, e, f, g, h] = *salt;
    state[4] ^= u32::from_le_bytes([a, b, c, d]);
    state[5] ^= u32::from_le_bytes([e, f, g, h]);

    let mut rest = key;
    let mut done = 0;
    while let Some((block, more)) = rest.split_first_chunk().filter(|(_, more)| !more.is_empty()) {
        done += BLOCK as u64;
        compress(&mut state, block, done, false);
        rest = more;
    }
    let mut last = [0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    compress(&mut state, &last, done + rest.len() as u64, true);

    let word =
        |at: usize| u64::from(state[at].swap_bytes()) << 32 | u64::from(state[at + 1].swap_bytes());
    (word(0), word(2))
}

/// Calls `put` with each index and the first 16 bytes of the digest of the key there.
#[inline]
pub(super) fn each<K: AsRef<[u8]>>(
    salt: &[u8; 8],
    keys: &[K],
    mut put: impl FnMut(usize, (u64, u64)),
) {
    let params = params(salt);
    // Made where they stay: an array of them would be moved.
    let mut jobs = Vec::with_capacity(BATCH.min(keys.len()));
    for (batch, keys) in keys.chunks(BATCH).enumerate() {
        jobs.clear();
        jobs.extend(keys.iter().map(|key| HashManyJob::new(&params, key.as_ref())));
        many::hash_many(&mut jobs);
        for (i, job) in jobs.iter().enumerate() {
            put(batch * BATCH + i, halves(job.to_hash().as_array()));
        }
    }
}

fn params(salt: &[u8; 8]) -> Params {
    let mut params = Params::new();
    params.salt(salt);
    params
}

#[inline]
fn halves(digest: &[u8; 32]) -> (u64, u64) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = *digest;
    (u64::from_be_bytes([a, b, c, d, e, f, g, h]), u64::from_be_bytes([i, j, k, l, m, n, o, p]))
}

/// The state before the parameters are mixed in.
const START: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The order in which each round takes the words of a block.
const ORDERS: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

/// Adds a block, with which so many bytes are done.
fn compress(state: &mut [u32; 8], block: &[u8; BLOCK], done: u64, is_last: bool) {
    let words: [u32; 16] = std::array::from_fn(|i| {
        u32::from_le_bytes([block[4 * i], block[4 * i + 1], block[4 * i + 2], block[4 * i + 3]])
    });
    let mut v = [0; 16];
    v[..8].copy_from_slice(state);
    v[8..].copy_from_slice(&START);
    v[12] ^= done as u32;
    v[13] ^= (done >> 32) as u32;
    v[14] ^= if is_last { u32::MAX } else { 0 };
    round::<0>(&mut v, &words);
    round::<1>(&mut v, &words);
    round::<2>(&mut v, &words);
    round::<3>(&mut v, &words);
    round::<4>(&mut v, &words);
    round::<5>(&mut v, &words);
    round::<6>(&mut v, &words);
    round::<7>(&mut v, &words);
    round::<8>(&mut v, &words);
    round::<9>(&mut v, &words);
    for (i, word) in state.iter_mut().enumerate() {
        *word ^= v[i] ^ v[i + 8];
    }
}

#[inline(always)]
fn round<const ROUND: usize>(v: &mut [u32; 16], words: &[u32; 16]) {
    let word = |i: usize| words[const { ORDERS[ROUND] }[i]];
    mix(v, [0, 4, 8, 12], word(0), word(1));
    mix(v, [1, 5, 9, 13], word(2), word(3));
    mix(v, [2, 6, 10, 14], word(4), word(5));
    mix(v, [3, 7, 11, 15], word(6), word(7));
    mix(v, [0, 5, 10, 15], word(8), word(9));
    mix(v, [1, 6, 11, 12], word(10), word(11));
    mix(v, [2, 7, 8, 13], word(12), word(13));
    mix(v, [3, 4, 9, 14], word(14), word(15));
}

#[inline(always)]
fn mix(v: &mut [u32; 16], [a, b, c, d]: [usize; 4], x: u32, y: u32) {
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(x);
    v[d] = (v[d] ^ v[a]).rotate_right(16);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(12);
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(y);
    v[d] = (v[d] ^ v[a]).rotate_right(8);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(7);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dataset::golden;

    #[test]
    fn one_key_is_hashed_as_many_are() {
        let mut next = golden::random(9);
        let lengths =
            if cfg!(miri) { vec![0, 1, 63, 64, 65, 128, 129] } else { (0..300).collect() };
        for len in lengths {
            let key: Vec<u8> = (0..len).map(|_| next() as u8).collect();
            for salt in [UNSALTED, next().to_be_bytes()] {
                assert_eq!(one(&salt, &key), halves(params(&salt).hash(&key).as_array()), "{len}");
                each(&salt, &[&key], |_, hash| assert_eq!(hash, one(&salt, &key), "{len}"));
            }
        }
    }
}
