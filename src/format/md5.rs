//! MD5, as `.md5` files have it (RFC 1321).
//!
//! Each of its 64 steps waits for the one before, so its speed is the number of instructions from
//! the result of one step to the next. Compilers make that more than there must be: they add the
//! constant of a step last, after the value that the step waited for. Here they cannot see that it
//! is a constant, and each step begins with the sum of everything known before. That takes 4.7
//! cycles a byte on an AMD EPYC of the fourth generation, where the assembly of the crate `md-5`
//! 0.10 takes 5.9 and its Rust 5.6.
//!
//! Waiting leaves most of a core idle: the blocks of a second digest fit in between. [`Md5::update_two`] takes 1.05
//! times as long for two files as for one.

use std::hint::black_box;

const BLOCK: usize = 64;

/// The state before the first block.
const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The number that each step adds: the digits of the sines of 1 to 64.
#[rustfmt::skip]
const ADDED: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// How far the steps of each round rotate.
const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The MD5 of bytes that come one after the other.
#[derive(Debug, Clone)]
pub struct Md5 {
    state: [u32; 4],
    len: u64,
    /// The start of a block that is not complete.
    rest: [u8; BLOCK],
}

impl Default for Md5 {
    fn default() -> Md5 {
        Md5::new()
    }
}

impl Md5 {
    /// A digest of no bytes so far.
    pub fn new() -> Md5 {
        Md5 { state: START, len: 0, rest: [0; BLOCK] }
    }

    /// The MD5 of these bytes.
    #[cfg(any(test, feature = "arrays"))]
    pub fn of(bytes: &[u8]) -> [u8; 16] {
        let mut md5 = Md5::new();
        md5.update(bytes);
        md5.finish()
    }

    /// Bytes of the block that is not complete.
    fn begun(&self) -> usize {
        (self.len % BLOCK as u64) as usize
    }

    /// Adds bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        let begun = self.begun();
        self.len = self.len.wrapping_add(bytes.len() as u64);
        if begun > 0 {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - begun));
            self.rest[begun..begun + now.len()].copy_from_slice(now);
            if begun + now.len() < BLOCK {
                return;
            }
            take(&mut self.state, &self.rest);
            bytes = later;
        }
        let (blocks, rest) = bytes.split_at(bytes.len() / BLOCK * BLOCK);
        take(&mut self.state, blocks);
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    /// Adds bytes to two digests, as many as both can take in little more than the time of one.
    pub fn update_two(one: &mut Md5, first: &[u8], two: &mut Md5, second: &[u8]) {
        let (first, second) = (one.complete(first), two.complete(second));
        let both = first.len().min(second.len()) / BLOCK * BLOCK;
        let (first, rest_of_first) = first.split_at(both);
        let (second, rest_of_second) = second.split_at(both);
        take_two(&mut one.state, &mut two.state, first, second);
        for (md5, rest) in [(one, rest_of_first), (two, rest_of_second)] {
            md5.len = md5.len.wrapping_add(both as u64);
            md5.update(rest);
        }
    }

    /// Adds as many of these bytes as complete the block that was begun, and returns the others.
    fn complete<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let missing = (BLOCK - self.begun()) % BLOCK;
        let (now, later) = bytes.split_at(bytes.len().min(missing));
        self.update(now);
        later
    }

    /// The MD5 of all bytes.
    pub fn finish(mut self) -> [u8; 16] {
        let bits = self.len.wrapping_mul(8).to_le_bytes();
        let begun = self.begun();
        // A one, zeros, and the length at the end of a block.
        let zeros = (2 * BLOCK - 9 - begun) % BLOCK;
        self.update(&[0x80]);
        self.update(&[0; BLOCK][..zeros]);
        self.update(&bits);
        let mut digest = [0; 16];
        for (four, word) in digest.chunks_exact_mut(4).zip(self.state) {
            four.copy_from_slice(&word.to_le_bytes());
        }
        digest
    }
}

/// Takes whole blocks into the state. Here are plain loops over numbers: what adaptors of iterators do between two
/// elements is not always compiled into their caller.
fn take(state: &mut [u32; 4], mut blocks: &[u8]) {
    let added: &[u32; 64] = black_box(&ADDED);
    while let Some((block, rest)) = blocks.split_first_chunk() {
        let words = words_of(block);
        let before = *state;
        let known = |at: usize, word: usize| words[word % 16].wrapping_add(added[at]);
        round(state, 0, |i| known(i, i), mix_0);
        round(state, 1, |i| known(16 + i, 5 * i + 1), mix_1);
        round(state, 2, |i| known(32 + i, 3 * i + 5), mix_2);
        round(state, 3, |i| known(48 + i, 7 * i), mix_3);
        add(state, before);
        blocks = rest;
    }
}

/// Takes whole blocks into two states, as many into each: a step of one, then the same step of the other. A loop over
/// an array of states would say the same, but the compiler makes vectors of it, in which a step takes longer.
fn take_two(one: &mut [u32; 4], two: &mut [u32; 4], mut first: &[u8], mut second: &[u8]) {
    let added: &[u32; 64] = black_box(&ADDED);
    while let (Some((x, rest_of_first)), Some((y, rest_of_second))) =
        (first.split_first_chunk(), second.split_first_chunk())
    {
        let (x, y) = (words_of(x), words_of(y));
        let before = (*one, *two);
        let known = |at: usize, word: usize| {
            (x[word % 16].wrapping_add(added[at]), y[word % 16].wrapping_add(added[at]))
        };
        round_of_two(one, two, 0, |i| known(i, i), mix_0);
        round_of_two(one, two, 1, |i| known(16 + i, 5 * i + 1), mix_1);
        round_of_two(one, two, 2, |i| known(32 + i, 3 * i + 5), mix_2);
        round_of_two(one, two, 3, |i| known(48 + i, 7 * i), mix_3);
        add(one, before.0);
        add(two, before.1);
        (first, second) = (rest_of_first, rest_of_second);
    }
}

#[inline(always)]
fn words_of(block: &[u8; BLOCK]) -> [u32; 16] {
    let byte = |word: usize, at: usize| block[4 * word + at];
    let word = |i| u32::from_le_bytes([byte(i, 0), byte(i, 1), byte(i, 2), byte(i, 3)]);
    #[rustfmt::skip]
    let words = [
        word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7),
        word(8), word(9), word(10), word(11), word(12), word(13), word(14), word(15),
    ];
    words
}

#[inline(always)]
fn add(state: &mut [u32; 4], [a, b, c, d]: [u32; 4]) {
    state[0] = state[0].wrapping_add(a);
    state[1] = state[1].wrapping_add(b);
    state[2] = state[2].wrapping_add(c);
    state[3] = state[3].wrapping_add(d);
}

// The terms that the steps of each round add to `x`. `b` is the result of the step before and comes
// latest of all.

#[inline(always)]
fn mix_0(x: u32, b: u32, c: u32, d: u32) -> u32 {
    x.wrapping_add(((c ^ d) & b) ^ d)
}

/// No bit is in both terms, so their sum is what RFC 1321 writes with "or": the first can be added early.
#[inline(always)]
fn mix_1(x: u32, b: u32, c: u32, d: u32) -> u32 {
    x.wrapping_add(!d & c).wrapping_add(d & b)
}

#[inline(always)]
fn mix_2(x: u32, b: u32, c: u32, d: u32) -> u32 {
    x.wrapping_add((c ^ d) ^ b)
}

#[inline(always)]
fn mix_3(x: u32, b: u32, c: u32, d: u32) -> u32 {
    x.wrapping_add((!d | b) ^ c)
}

/// Sixteen steps. `known` is what a step adds that needs no step before it.
#[inline(always)]
fn round(
    state: &mut [u32; 4],
    number: usize,
    known: impl Fn(usize) -> u32,
    mix: impl Fn(u32, u32, u32, u32) -> u32,
) {
    let [mut a, mut b, mut c, mut d] = *state;
    let turns = TURNS[number];
    let step = |turn: u32, at, a: u32, b: u32, c, d| {
        mix(a.wrapping_add(known(at)), b, c, d).rotate_left(turn).wrapping_add(b)
    };
    let mut at = 0;
    while at < 16 {
        a = step(turns[0], at, a, b, c, d);
        d = step(turns[1], at + 1, d, a, b, c);
        c = step(turns[2], at + 2, c, d, a, b);
        b = step(turns[3], at + 3, b, c, d, a);
        at += 4;
    }
    *state = [a, b, c, d];
}

/// The same of two states.
#[inline(always)]
fn round_of_two(
    one: &mut [u32; 4],
    two: &mut [u32; 4],
    number: usize,
    known: impl Fn(usize) -> (u32, u32),
    mix: impl Fn(u32, u32, u32, u32) -> u32,
) {
    let [mut a, mut b, mut c, mut d] = *one;
    let [mut e, mut f, mut g, mut h] = *two;
    let turns = TURNS[number];
    let step = |turn: u32, known: u32, a: u32, b: u32, c, d| {
        mix(a.wrapping_add(known), b, c, d).rotate_left(turn).wrapping_add(b)
    };
    let mut at = 0;
    while at < 16 {
        let (x, y) = known(at);
        a = step(turns[0], x, a, b, c, d);
        e = step(turns[0], y, e, f, g, h);
        let (x, y) = known(at + 1);
        d = step(turns[1], x, d, a, b, c);
        h = step(turns[1], y, h, e, f, g);
        let (x, y) = known(at + 2);
        c = step(turns[2], x, c, d, a, b);
        g = step(turns[2], y, g, h, e, f);
        let (x, y) = known(at + 3);
        b = step(turns[3], x, b, c, d, a);
        f = step(turns[3], y, f, g, h, e);
        at += 4;
    }
    *one = [a, b, c, d];
    *two = [e, f, g, h];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::hex;

    /// The test suite of RFC 1321.
    #[test]
    fn digests_are_those_of_the_standard() {
        for (text, digest) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                "d174ab98d277d9f5a5611c2c9f419d9f",
            ),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(hex(&Md5::of(text.as_bytes())), digest, "{text:?}");
        }
    }

    #[test]
    fn digests_are_those_of_another_implementation_however_bytes_come() {
        use md5::Digest as _;

        let bytes: Vec<u8> =
            (0..1000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 9) as u8).collect();
        for len in (0..300).chain([511, 512, 513, 1000]) {
            let expected: [u8; 16] = md5::Md5::digest(&bytes[..len]).into();
            for piece in [1, 7, 63, 64, 65, 129, 1000] {
                let mut md5 = Md5::new();
                bytes[..len].chunks(piece).for_each(|part| md5.update(part));
                assert_eq!(md5.finish(), expected, "{len} bytes, {piece} at a time");
            }
        }
    }

    #[test]
    fn two_digests_at_once_are_those_of_one_after_the_other() {
        let bytes: Vec<u8> =
            (0..2000u32).map(|i| (i.wrapping_mul(747_796_405) >> 7) as u8).collect();
        let sizes = [0, 1, 63, 64, 65, 128, 200, 1000];
        for begun in [(0, 0), (1, 0), (63, 64), (70, 130)] {
            for first in sizes {
                for second in sizes {
                    let (x, y) = (&bytes[..begun.0 + first], &bytes[500..500 + begun.1 + second]);
                    let (mut one, mut two) = (Md5::new(), Md5::new());
                    one.update(&x[..begun.0]);
                    two.update(&y[..begun.1]);
                    Md5::update_two(&mut one, &x[begun.0..], &mut two, &y[begun.1..]);
                    let found = (one.finish(), two.finish());
                    assert_eq!(found, (Md5::of(x), Md5::of(y)), "{begun:?}, {first}, {second}");
                }
            }
        }
    }
}
