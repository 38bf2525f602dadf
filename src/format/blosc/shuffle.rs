//! Shuffles: bytes or bits of equal weight brought together, so that a codec finds runs.
//!
//! Both are transpositions of a block. Seen as a table with a row for each element, the byte
//! shuffle writes the table column by column, a column being the bytes of one weight. The bit
//! shuffle does the same with bits: first all lowest bits of the first bytes, eight elements to a
//! byte. Bytes beyond the last whole element stay where they are.
//!
//! The bit shuffle of Blosc 1 leaves a block alone unless the number of its elements is a multiple
//! of eight. Blosc2 changed that rule for its own chunks; a reader that applies the new rule to
//! version-2 chunks returns wrong bytes without an error.
//!
//! Everything here works on tiles of a few rows, written such that the compiler makes vector
//! instructions of them.

/// Elements in a tile of the byte shuffle.
const TILE: usize = 64;

/// Undoes the byte shuffle of a block.
pub(super) fn unshuffle(typesize: usize, from: &[u8], to: &mut [u8]) {
    let whole = from.len() / typesize * typesize;
    let (to, tail) = to.split_at_mut(whole);
    tail.copy_from_slice(&from[whole..]);
    let from = &from[..whole];
    match typesize {
        0 | 1 => to.copy_from_slice(from),
        2 => join::<2>(from, to),
        4 => join::<4>(from, to),
        8 => join_words(from, to),
        16 => join::<16>(from, to),
        _ => join_any(typesize, from, to),
    }
}

/// Shuffles the bytes of a block.
pub(super) fn shuffle(typesize: usize, from: &[u8], to: &mut [u8]) {
    let count = from.len() / typesize;
    let whole = count * typesize;
    to[whole..].copy_from_slice(&from[whole..]);
    for start in (0..count).step_by(TILE) {
        let tile = start..count.min(start + TILE);
        let rows = &from[tile.start * typesize..tile.end * typesize];
        for column in 0..typesize {
            let to = &mut to[column * count..][tile.clone()];
            for (to, row) in to.iter_mut().zip(rows.chunks_exact(typesize)) {
                *to = row[column];
            }
        }
    }
}

/// Elements of a size that the compiler knows.
fn join<const T: usize>(from: &[u8], to: &mut [u8]) {
    let count = to.len() / T;
    let columns: [&[u8]; T] = std::array::from_fn(|column| &from[column * count..][..count]);
    for (row, to) in to.chunks_exact_mut(T).enumerate() {
        for (to, column) in to.iter_mut().zip(columns) {
            *to = column[row];
        }
    }
}

/// Elements of eight bytes.
fn join_words(from: &[u8], to: &mut [u8]) {
    let count = to.len() / 8;
    let columns: [&[u8]; 8] = std::array::from_fn(|column| &from[column * count..][..count]);
    for (tile, to) in to.chunks_mut(8 * WIDTH).enumerate() {
        let width = to.len() / 8;
        let mut rows = columns.map(|column| load(&column[tile * WIDTH..][..width]));
        transpose_bytes(&mut rows);
        for (row, to) in to.chunks_exact_mut(8).enumerate() {
            to.copy_from_slice(&rows[row % 8][row / 8].to_le_bytes());
        }
    }
}

/// Elements of any size.
fn join_any(typesize: usize, from: &[u8], to: &mut [u8]) {
    let count = to.len() / typesize;
    for (tile, to) in to.chunks_mut(TILE * typesize).enumerate() {
        for column in 0..typesize {
            let bytes = &from[column * count + tile * TILE..];
            for (to, byte) in to[column..].iter_mut().step_by(typesize).zip(bytes) {
                *to = *byte;
            }
        }
    }
}

/// Undoes the bit shuffle of a block, as a shuffle of bits within bytes and one of bytes.
pub(super) fn unshuffle_bits(typesize: usize, from: &[u8], to: &mut [u8]) {
    let count = from.len() / typesize;
    if count % 8 != 0 || count == 0 {
        return to.copy_from_slice(from);
    }
    let whole = count * typesize;
    let (to, tail) = to.split_at_mut(whole);
    tail.copy_from_slice(&from[whole..]);
    let groups = count / 8;
    for start in (0..groups).step_by(WIDTH) {
        let width = (groups - start).min(WIDTH);
        let to = &mut to[start * 8 * typesize..][..width * 8 * typesize];
        // Eight bytes of each element at a time; fewer are padded.
        for first in (0..typesize).step_by(8) {
            let bytes = (typesize - first).min(8);
            let mut elements = [[[0; LANES]; 8]; 8];
            for byte in 0..bytes {
                let mut planes = std::array::from_fn(|bit| {
                    load(&from[((first + byte) * 8 + bit) * groups + start..][..width])
                });
                transpose_bits(&mut planes);
                for (element, plane) in elements.iter_mut().zip(planes) {
                    element[byte] = plane;
                }
            }
            for (element, rows) in elements.iter_mut().enumerate() {
                transpose_bytes(rows);
                let to = &mut to[element * typesize + first..];
                for (group, row) in rows.iter().enumerate() {
                    for (lane, word) in row.iter().enumerate() {
                        // The last tile has fewer groups.
                        let at = (lane * 8 + group) * 8 * typesize;
                        if let Some(to) = to.get_mut(at..at + bytes) {
                            store(&word.to_le_bytes(), to);
                        }
                    }
                }
            }
        }
    }
}

/// Shuffles the bits of a block.
pub(super) fn shuffle_bits(typesize: usize, from: &[u8], to: &mut [u8]) {
    let count = from.len() / typesize;
    if count % 8 != 0 || count == 0 {
        return to.copy_from_slice(from);
    }
    let whole = count * typesize;
    to[whole..].copy_from_slice(&from[whole..]);
    let groups = count / 8;
    for start in (0..groups).step_by(8) {
        let width = (groups - start).min(8);
        let from = &from[start * 8 * typesize..][..width * 8 * typesize];
        for byte in 0..typesize {
            let mut rows = std::array::from_fn(|element| {
                let mut word = [0; 8];
                let bytes = from[element * typesize + byte..].iter().step_by(8 * typesize);
                for (to, value) in word.iter_mut().zip(bytes) {
                    *to = *value;
                }
                [u64::from_le_bytes(word)]
            });
            transpose_bits(&mut rows);
            for (bit, [plane]) in rows.into_iter().enumerate() {
                let to = &mut to[(byte * 8 + bit) * groups + start..][..width];
                to.copy_from_slice(&plane.to_le_bytes()[..width]);
            }
        }
    }
}

/// Words that go through the same steps side by side: what SSE2 and NEON have registers for.
const LANES: usize = 2;

/// Bytes of a column that are taken at a time.
const WIDTH: usize = 8 * LANES;

/// Up to [`WIDTH`] bytes, and zeros.
#[inline]
fn load(bytes: &[u8]) -> [u64; LANES] {
    let mut padded = [0; WIDTH];
    match <&[u8; WIDTH]>::try_from(bytes) {
        Ok(bytes) => padded = *bytes,
        Err(_) => padded[..bytes.len()].copy_from_slice(bytes),
    }
    std::array::from_fn(|lane| {
        let mut word = [0; 8];
        word.copy_from_slice(&padded[lane * 8..][..8]);
        u64::from_le_bytes(word)
    })
}

/// The first bytes of a word; the usual numbers of them are copied without a loop.
#[inline]
fn store(word: &[u8; 8], to: &mut [u8]) {
    match to.len() {
        8 => to.copy_from_slice(word),
        4 => to.copy_from_slice(&word[..4]),
        len => to.copy_from_slice(&word[..len]),
    }
}

/// Transposes eight rows of eight bytes, in each lane.
#[inline]
fn transpose_bytes<const L: usize>(rows: &mut [[u64; L]; 8]) {
    swap::<4, L>(rows, 32, 0x0000_0000_FFFF_FFFF);
    swap::<2, L>(rows, 16, 0x0000_FFFF_0000_FFFF);
    swap::<1, L>(rows, 8, 0x00FF_00FF_00FF_00FF);
}

/// Transposes eight tables of eight by eight bits in each lane; each of their rows is one byte.
#[inline]
fn transpose_bits<const L: usize>(rows: &mut [[u64; L]; 8]) {
    swap::<4, L>(rows, 4, 0x0F0F_0F0F_0F0F_0F0F);
    swap::<2, L>(rows, 2, 0x3333_3333_3333_3333);
    swap::<1, L>(rows, 1, 0x5555_5555_5555_5555);
}

/// Swaps the upper parts of each row with the lower parts of the row `D` below it.
#[inline]
fn swap<const D: usize, const L: usize>(rows: &mut [[u64; L]; 8], shift: u32, low: u64) {
    for row in (0..8).filter(|row| row & D == 0) {
        let (above, below) = rows.split_at_mut(row + D);
        for (above, below) in above[row].iter_mut().zip(&mut below[0]) {
            let other = ((*above >> shift) ^ *below) & low;
            *above ^= other << shift;
            *below ^= other;
        }
    }
}
