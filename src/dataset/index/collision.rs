//! Two keys with one hash: practically never there, but a writer has to know.
//!
//! Sorting all hashes to find two that are equal would take several times as long as looking for hashes that fall on
//! the same of a few million bits: those are few, and only they are sorted.

use crate::format::dataset::key_hashes;

/// Bits for each hash. With this many, one hash in 32 falls on a bit that is set.
const BITS: usize = 16;

/// The value of two equal hashes, if there are any: the smallest.
pub(super) fn collision(hashes: &[u64]) -> Option<u64> {
    let words = (hashes.len() * BITS).div_ceil(64).max(1);
    let bits = words as u128 * 64;
    let place = |hash: u64| {
        let bit = ((u128::from(hash) * bits) >> 64) as usize;
        (bit / 64, 1_u64 << (bit % 64))
    };
    let (mut once, mut twice) = (vec![0_u64; words], vec![0_u64; words]);
    for &hash in hashes {
        let (word, bit) = place(hash);
        twice[word] |= once[word] & bit;
        once[word] |= bit;
    }
    drop(once);
    let suspects = hashes.iter().copied().filter(|&hash| {
        let (word, bit) = place(hash);
        twice[word] & bit != 0
    });
    let mut suspects: Vec<u64> = suspects.collect();
    suspects.sort_unstable();
    key_hashes::duplicate(&suspects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dataset::golden;

    #[test]
    fn finds_the_smallest_of_what_is_there_twice() {
        assert_eq!(collision(&[]), None);
        assert_eq!(collision(&[0]), None);
        assert_eq!(collision(&[0, u64::MAX]), None);
        assert_eq!(collision(&[0, u64::MAX, 0]), Some(0));
        assert_eq!(collision(&[u64::MAX; 3]), Some(u64::MAX));
        assert_eq!(collision(&[9, 5, 7, 9, 7, 5, 7]), Some(5));
        let mut next = golden::random(11);
        for n in [2, 3, 100, if cfg!(miri) { 300 } else { 20_000 }] {
            // Spread, and close together, where all fall on a few bits.
            for spread in [u64::MAX, 0xf_ffff] {
                let mut hashes: Vec<u64> = (0..n).map(|i| (next() & spread) / n * n + i).collect();
                assert_eq!(collision(&hashes), None, "{n}");
                let (from, to) = ((next() % n) as usize, (next() % (n - 1)) as usize);
                let to = if to == from { n as usize - 1 } else { to };
                if from != to {
                    hashes[to] = hashes[from];
                    assert_eq!(collision(&hashes), Some(hashes[from]), "{n}");
                }
            }
        }
    }
}
