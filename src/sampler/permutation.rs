//! A keyed permutation of `0..n`: random access both ways, nothing in memory but the key.

use std::ops::Range;

use super::rng::StableRng;

/// Rounds of the network.
const ROUNDS: usize = 8;

/// Below this length, numbers pass the network several times. Tests show eight rounds to be too few
/// for up to 40 numbers; the rest is margin.
const FEW: u64 = 256;

/// Numbers that pass the network in parallel: each round depends on the one before, so the
/// processor has time for other numbers while it waits.
const LANES: usize = 8;

/// The purpose of a key, so that equal seeds do not give related orders.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Shuffle = 1,
    Blocks = 2,
    Window = 3,
    Mixture = 4,
    Rotation = 5,
}

/// A permutation of `0..len` that is chosen by a key.
///
/// Both directions take a constant time (about 20 ns; 100 ns below 256 numbers) and no memory:
/// `len` may be 2⁶⁴ − 1. It is a Feistel network of eight rounds (32 below 256 numbers) on a grid
/// of `rows × 2^bits` cells, which has the least `rows` for `len` cells and is about square; a
/// number that leaves `0..len` goes through the network again (*cycle walking*), which happens to
/// one in √`len`. Rounds *add*: with an exclusive or only even permutations could be reached. Good
/// for orders, **not for secrets**.
///
/// ```
/// let permutation = kiste::sampler::Permutation::new(10, 42);
/// let all: Vec<u64> = (0..10).map(|position| permutation.apply(position)).collect();
/// assert_eq!(all, [2, 3, 0, 8, 9, 1, 6, 5, 7, 4]);
/// assert_eq!(permutation.invert(all[3]), 3);
/// ```
#[derive(Debug, Clone)]
pub struct Permutation {
    key: Key,
    grid: Grid,
}

impl Permutation {
    /// The permutation of `0..len` with this key.
    pub fn new(len: u64, key: u64) -> Permutation {
        Permutation::keyed(len, Key::new(Purpose::Shuffle, key, 0))
    }

    pub(super) fn keyed(len: u64, key: Key) -> Permutation {
        Permutation { key, grid: Grid::new(len) }
    }

    /// How many numbers are permuted.
    #[expect(clippy::len_without_is_empty, reason = "a permutation is no container")]
    pub fn len(&self) -> u64 {
        self.grid.len
    }

    /// The image of a number.
    ///
    /// # Panics
    ///
    /// If the number is not below [`len`](Permutation::len).
    #[inline]
    pub fn apply(&self, number: u64) -> u64 {
        self.key.apply(&self.grid, 0, number)
    }

    /// Appends where these numbers go.
    pub(super) fn apply_range(&self, numbers: Range<u64>, out: &mut Vec<u64>) {
        let filled = out.len();
        out.extend(numbers);
        self.key.apply_all(&self.grid, 0, &mut out[filled..]);
    }

    /// The number with this image: `invert(apply(x)) == x`.
    ///
    /// # Panics
    ///
    /// If the number is not below [`len`](Permutation::len).
    #[inline]
    pub fn invert(&self, number: u64) -> u64 {
        self.key.invert(&self.grid, 0, number)
    }
}

/// The cells that are permuted: `rows` times `2^bits`. The first `len` of them count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    len: u64,
    rows: u64,
    bits: u32,
    /// How often a number goes through the network.
    passes: u64,
}

impl Grid {
    #[inline]
    pub(super) fn new(len: u64) -> Grid {
        // Half of the bits, at least one: columns in even number reach odd permutations, too.
        let bits = ((u64::BITS - len.leading_zeros()) / 2).max(1);
        // On a few cells a round cannot do much, and all the permutations are to be equally likely.
        let passes = if len < FEW { 4 } else { 1 };
        Grid { len, rows: (len.saturating_sub(1) >> bits) + 1, bits, passes }
    }
}

/// A word for each round.
#[derive(Debug, Clone)]
pub(super) struct Key([u64; ROUNDS]);

impl Key {
    pub(super) fn new(purpose: Purpose, seed: u64, epoch: u64) -> Key {
        let mut rng = StableRng::new(&[purpose as u64, seed, epoch]);
        Key(std::array::from_fn(|_| rng.next_u64()))
    }

    /// Where a number goes, in the permutation of this grid that the tweak chooses.
    #[inline]
    pub(super) fn apply(&self, grid: &Grid, tweak: u64, number: u64) -> u64 {
        super::check(number, grid.len);
        self.walk(grid, tweak, number)
    }

    /// Puts where it goes in the place of each number. They must be below the length of the grid.
    pub(super) fn apply_all(&self, grid: &Grid, tweak: u64, numbers: &mut [u64]) {
        let mut chunks = numbers.chunks_exact_mut(LANES);
        for chunk in &mut chunks {
            self.pass(grid, tweak, chunk);
            for number in chunk.iter_mut().filter(|number| **number >= grid.len) {
                *number = self.walk(grid, tweak, *number);
            }
        }
        for number in chunks.into_remainder() {
            *number = self.walk(grid, tweak, *number);
        }
    }

    /// Through the network until it is below the length.
    #[inline]
    fn walk(&self, grid: &Grid, tweak: u64, mut number: u64) -> u64 {
        let mask = (1 << grid.bits) - 1;
        loop {
            let mut cell = (number >> grid.bits, number & mask);
            for pass in 0..grid.passes {
                let tweak = tweak.wrapping_add(pass.rotate_left(32));
                for round in self.0.chunks_exact(2) {
                    cell = two_rounds(cell, grid, round[0] ^ tweak, round[1] ^ tweak);
                }
            }
            number = cell.0 << grid.bits | cell.1;
            if number < grid.len {
                return number;
            }
        }
    }

    /// Once through the network, side by side.
    #[inline]
    fn pass(&self, grid: &Grid, tweak: u64, numbers: &mut [u64]) {
        let mask = (1 << grid.bits) - 1;
        let mut cells = [(0, 0); LANES];
        for (cell, number) in cells.iter_mut().zip(&*numbers) {
            *cell = (number >> grid.bits, number & mask);
        }
        for pass in 0..grid.passes {
            let tweak = tweak.wrapping_add(pass.rotate_left(32));
            for round in self.0.chunks_exact(2) {
                for cell in &mut cells {
                    *cell = two_rounds(*cell, grid, round[0] ^ tweak, round[1] ^ tweak);
                }
            }
        }
        for (number, (row, column)) in numbers.iter_mut().zip(cells) {
            *number = row << grid.bits | column;
        }
    }

    /// The inverse of [`apply`](Key::apply).
    #[inline]
    pub(super) fn invert(&self, grid: &Grid, tweak: u64, mut number: u64) -> u64 {
        super::check(number, grid.len);
        let mask = (1 << grid.bits) - 1;
        loop {
            let (mut row, mut column) = (number >> grid.bits, number & mask);
            for pass in (0..grid.passes).rev() {
                let tweak = tweak.wrapping_add(pass.rotate_left(32));
                for round in self.0.chunks_exact(2).rev() {
                    let added = mix(row, round[1] ^ tweak) >> (64 - grid.bits);
                    column = column.wrapping_sub(added) & mask;
                    let added = scale(mix(column, round[0] ^ tweak), grid.rows);
                    row = add(row, grid.rows - added, grid.rows);
                }
            }
            number = row << grid.bits | column;
            if number < grid.len {
                return number;
            }
        }
    }
}

/// Two rounds: the column says how far the row moves, then the row how far the column does.
#[inline(always)]
fn two_rounds((row, column): (u64, u64), grid: &Grid, first: u64, second: u64) -> (u64, u64) {
    let row = add(row, scale(mix(column, first), grid.rows), grid.rows);
    let added = mix(row, second) >> (64 - grid.bits);
    (row, column.wrapping_add(added) & ((1 << grid.bits) - 1))
}

/// The round function: a keyed hash whose high bits are the good ones.
#[inline]
fn mix(half: u64, key: u64) -> u64 {
    let word = (half ^ key).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    (word ^ (word >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// A word as a number below `end`, by its high bits.
#[inline]
fn scale(word: u64, end: u64) -> u64 {
    ((u128::from(word) * u128::from(end)) >> 64) as u64
}

/// `a + b` modulo `end`, where `a < end` and `b <= end`.
#[inline]
fn add(a: u64, b: u64, end: u64) -> u64 {
    let sum = a + b;
    if sum >= end { sum - end } else { sum }
}
