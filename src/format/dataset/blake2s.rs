//! BLAKE2s-256 (RFC 7693) of one key, and of many at once: what key hashes and filter both build on.
//!
//! Keys are short, so most are one block, and a block is a chain of dependent steps. Only hashing several keys in
//! parallel, one per SIMD lane, keeps the processor busy: loops over lanes, which the compiler turns into vectors, and
//! wider ones for processors with AVX2. The crate `blake2s_simd` leaves less to the compiler, but makes a job of each key,
//! which costs half as much again: on x86-64 it takes 1.3 to 1.7 times as long. On ARM it has no vectors.

const BLOCK: usize = 64;
/// How many keys are hashed together.
const LANES: usize = 8;
/// The most blocks of a key that is hashed with others: they wait for each other.
const BLOCKS: usize = 16;

/// A word of each key.
type Lanes = [u32; LANES];

/// No salt, which is the same as one of zeros.
pub(super) const UNSALTED: [u8; 8] = [0; 8];

/// The first 16 bytes of the digest of a key.
pub(super) fn one(salt: &[u8; 8], key: &[u8]) -> (u64, u64) {
    let mut state = start(salt);
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

    halves(state)
}

/// Calls `put` with each index and the first 16 bytes of the digest of the key there.
#[inline]
pub(super) fn each<K: AsRef<[u8]>>(
    salt: &[u8; 8],
    keys: &[K],
    mut put: impl FnMut(usize, (u64, u64)),
) {
    for (group, keys) in keys.chunks(LANES).enumerate() {
        let longest = keys.iter().map(|key| key.as_ref().len()).max().unwrap_or_default();
        if keys.len() < 3 || longest > BLOCKS * BLOCK {
            let hashes = keys.iter().map(|key| one(salt, key.as_ref()));
            hashes.enumerate().for_each(|(i, hash)| put(group * LANES + i, hash));
        } else {
            let state = together(salt, keys, longest.div_ceil(BLOCK).max(1));
            (0..keys.len()).for_each(|lane| {
                put(group * LANES + lane, halves(state.map(|words| words[lane])));
            });
        }
    }
}

/// The states of these keys; `blocks` is how many blocks the longest has.
fn together<K: AsRef<[u8]>>(salt: &[u8; 8], keys: &[K], blocks: usize) -> [Lanes; 8] {
    let mut state = start(salt).map(|word| [word; LANES]);
    for from in (0..blocks).map(|block| block * BLOCK) {
        let (mut words, mut done, mut last) = ([[0; LANES]; 16], [0; LANES], [0; LANES]);
        let before = state;
        for (lane, key) in keys.iter().enumerate().take(LANES) {
            let rest = key.as_ref().get(from..).unwrap_or_default();
            let block = &rest[..rest.len().min(BLOCK)];
            let (whole, end) = block.split_at(block.len() & !3);
            for (bytes, word) in whole.chunks_exact(4).zip(&mut words) {
                word[lane] = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
            if !end.is_empty() {
                let little = |sum, byte: &u8| sum << 8 | u32::from(*byte);
                words[whole.len() / 4][lane] = end.iter().rev().fold(0, little);
            }
            // At most `BLOCKS` times `BLOCK`.
            done[lane] = (from + block.len()) as u32;
            last[lane] = if rest.len() <= BLOCK { u32::MAX } else { 0 };
        }
        compress_lanes(&mut state, &words, &done, &last);
        // Lanes that ended earlier stay as they were.
        for (lane, _) in
            keys.iter().enumerate().filter(|(_, key)| from > 0 && key.as_ref().len() <= from)
        {
            state.iter_mut().zip(&before).for_each(|(words, before)| words[lane] = before[lane]);
        }
    }
    state
}

/// The first half of a digest, as two numbers with the first byte as the highest.
#[inline]
fn halves(state: [u32; 8]) -> (u64, u64) {
    let two =
        |at: usize| u64::from(state[at].swap_bytes()) << 32 | u64::from(state[at + 1].swap_bytes());
    (two(0), two(2))
}

/// The state before the first block.
fn start(salt: &[u8; 8]) -> [u32; 8] {
    let mut state = START;
    // 32 bytes of digest, no key, one leaf at one level.
    state[0] ^= 0x0101_0020;
    let [a, b, c, d, e, f, g, h] = *salt;
    state[4] ^= u32::from_le_bytes([a, b, c, d]);
    state[5] ^= u32::from_le_bytes([e, f, g, h]);
    state
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

/// Adds a block; `done` counts the bytes up to its end.
fn compress(state: &mut [u32; 8], block: &[u8; BLOCK], done: u64, is_last: bool) {
    let words: [u32; 16] = std::array::from_fn(|i| {
        u32::from_le_bytes([block[4 * i], block[4 * i + 1], block[4 * i + 2], block[4 * i + 3]])
    });
    let done = [done as u32, (done >> 32) as u32];
    *state = mixed(*state, |i| words[i], done, if is_last { u32::MAX } else { 0 });
}

/// Adds a block to each lane; `done` counts its bytes up to there, and `last` is [`u32::MAX`] where it is the last one.
fn compress_lanes(state: &mut [Lanes; 8], words: &[Lanes; 16], done: &Lanes, last: &Lanes) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "calls a function that needs certain instructions")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: this processor has them.
        unsafe { compress_by_avx2(state, words, done, last) };
        return;
    }
    compress_each(state, words, done, last);
}

/// The same with wider registers: the same operations, so the same results.
///
/// # Safety
///
/// The processor must have AVX2. (A function that says so without `unsafe` needs Rust 1.86.)
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[expect(unsafe_code, reason = "see its safety section")]
unsafe fn compress_by_avx2(
    state: &mut [Lanes; 8],
    words: &[Lanes; 16],
    done: &Lanes,
    last: &Lanes,
) {
    compress_each(state, words, done, last);
}

/// One loop, all of whose rounds the compiler does in vectors: with vectors as values it did not (a seventh of the speed).
#[inline(always)]
fn compress_each(state: &mut [Lanes; 8], words: &[Lanes; 16], done: &Lanes, last: &Lanes) {
    for lane in 0..LANES {
        let old = std::array::from_fn(|i| state[i][lane]);
        let new = mixed(old, |i| words[i][lane], [done[lane], 0], last[lane]);
        for (word, new) in state.iter_mut().zip(new) {
            word[lane] = new;
        }
    }
}

/// The state after a block of these words.
#[inline(always)]
fn mixed(
    state: [u32; 8],
    words: impl Fn(usize) -> u32 + Copy,
    done: [u32; 2],
    last: u32,
) -> [u32; 8] {
    let mut v = [0; 16];
    v[..8].copy_from_slice(&state);
    v[8..].copy_from_slice(&START);
    v[12] ^= done[0];
    v[13] ^= done[1];
    v[14] ^= last;
    round::<0>(&mut v, words);
    round::<1>(&mut v, words);
    round::<2>(&mut v, words);
    round::<3>(&mut v, words);
    round::<4>(&mut v, words);
    round::<5>(&mut v, words);
    round::<6>(&mut v, words);
    round::<7>(&mut v, words);
    round::<8>(&mut v, words);
    round::<9>(&mut v, words);
    std::array::from_fn(|i| state[i] ^ v[i] ^ v[i + 8])
}

#[inline(always)]
fn round<const ROUND: usize>(v: &mut [u32; 16], words: impl Fn(usize) -> u32) {
    let word = |i: usize| words(const { ORDERS[ROUND] }[i]);
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

    fn by_crate(salt: &[u8; 8], key: &[u8]) -> (u64, u64) {
        let digest = blake2s_simd::Params::new().salt(salt).hash(key);
        let half =
            |at: usize| digest.as_bytes()[at..at + 8].try_into().map(u64::from_be_bytes).unwrap();
        (half(0), half(8))
    }

    #[test]
    fn one_key_is_hashed_as_by_another_library() {
        let mut next = golden::random(9);
        let lengths =
            if cfg!(miri) { vec![0, 1, 63, 64, 65, 128, 129] } else { (0..300).collect() };
        for len in lengths {
            let key: Vec<u8> = (0..len).map(|_| next() as u8).collect();
            for salt in [UNSALTED, next().to_be_bytes()] {
                assert_eq!(one(&salt, &key), by_crate(&salt, &key), "{len}");
            }
        }
    }

    #[test]
    fn many_keys_are_hashed_as_one_by_one() {
        let mut next = golden::random(10);
        for round in 0..if cfg!(miri) { 6 } else { 300 } {
            // Equal lengths, random lengths, and some that are too long to wait for.
            let most = [17, 64, 65, 200, 1024, 1025, 3000][round % 7];
            let mut keys = Vec::new();
            for _ in 0..next() % 40 {
                let len = if round % 2 == 0 { most } else { next() as usize % (most + 1) };
                keys.push((0..len).map(|_| next() as u8).collect::<Vec<u8>>());
            }
            let salt = if round % 3 == 0 { UNSALTED } else { next().to_be_bytes() };
            let mut hashes = Vec::new();
            each(&salt, &keys, |i, hash| {
                assert_eq!(i, hashes.len());
                hashes.push(hash);
            });
            let expected: Vec<_> = keys.iter().map(|key| one(&salt, key)).collect();
            assert_eq!(hashes, expected);
            let by_crate: Vec<_> = keys.iter().map(|key| by_crate(&salt, key)).collect();
            assert_eq!(hashes, by_crate);
        }
    }

    #[test]
    fn keys_that_end_with_a_block_are_hashed_beside_others() {
        let mut next = golden::random(12);
        let lengths = [0, 1, 63, 64, 65, 128, 1023, 1024, 1025, 0, 64];
        let keys = lengths.map(|len| (0..len).map(|_| next() as u8).collect::<Vec<u8>>());
        for keys in [&keys[..8], &keys[..], &keys[2..7], &keys[3..4], &keys[8..]] {
            let mut count = 0;
            each(&UNSALTED, keys, |i, hash| {
                assert_eq!(hash, by_crate(&UNSALTED, &keys[i]), "{}", keys[i].len());
                count += 1;
            });
            assert_eq!(count, keys.len());
        }
    }

    /// Where there is no AVX2 they are the same.
    #[test]
    fn narrow_and_wide_vectors_give_the_same() {
        let mut next = golden::random(11);
        let mut lanes = || std::array::from_fn(|_| next() as u32);
        for _ in 0..if cfg!(miri) { 1 } else { 50 } {
            let (mut narrow, words) =
                (std::array::from_fn(|_| lanes()), std::array::from_fn(|_| lanes()));
            let (done, last) = (lanes(), lanes());
            let mut wide = narrow;
            compress_lanes(&mut wide, &words, &done, &last);
            compress_each(&mut narrow, &words, &done, &last);
            assert_eq!(narrow, wide);
        }
    }
}
