//! Which part a sample goes to by nothing but its key.

use sha2::{Digest as _, Sha256};

use super::parts::shares;
use crate::error::Result;

/// Deals samples out to parts by a digest of their keys.
///
/// A sample goes to the same part regardless of the other samples, their order, and how many are
/// added later; so the sizes of the parts are about what the ratios say, not exactly. If a ratio
/// grows and the one after it shrinks by as much, only samples between these two move. Another salt
/// gives other parts. The result is the same in every release.
///
/// ```
/// let parts = kiste::rearrange::ByKey::new(&[0.9, 0.1], "")?;
/// assert_eq!(parts.part("cat/0001.jpg"), parts.part("cat/0001.jpg"));
/// let second = (0..1000).filter(|n| parts.part(&n.to_string()) == 1).count();
/// assert!((60..140).contains(&second));
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ByKey {
    salt: String,
    /// Where each part but the last ends, of 2^53.
    ends: Vec<u64>,
}

impl ByKey {
    /// Parts in these ratios.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if a ratio is no positive number.
    pub fn new(ratios: &[f64], salt: impl Into<String>) -> Result<ByKey> {
        let shares = shares(ratios)?;
        let mut sum = 0.0;
        let mut end = |share: &f64| {
            sum += share;
            // The rounding error is less than one sample.
            (sum * (1u64 << 53) as f64) as u64
        };
        let mut ends: Vec<u64> = shares.iter().map(&mut end).collect();
        ends.pop();
        Ok(ByKey { salt: salt.into(), ends })
    }

    /// The part that the sample of this key goes to.
    pub fn part(&self, key: &str) -> usize {
        let mut digest = Sha256::new();
        // With its length, a salt and a key are not taken for another two.
        digest.update((self.salt.len() as u64).to_le_bytes());
        digest.update(&self.salt);
        digest.update(key);
        let digest = digest.finalize();
        let place =
            digest.iter().take(8).fold(0, |place, byte| place << 8 | u64::from(*byte)) >> 11;
        self.ends.partition_point(|end| *end <= place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(ratios: &[f64], salt: &str, keys: usize) -> Vec<usize> {
        let by_key = ByKey::new(ratios, salt).unwrap();
        (0..keys).map(|key| by_key.part(&format!("key {key}"))).collect()
    }

    #[test]
    fn sizes_are_about_as_the_ratios_say() {
        let found = parts(&[8.0, 1.0, 1.0], "", 20_000);
        for (part, expected) in [16_000usize, 2_000, 2_000].into_iter().enumerate() {
            let size = found.iter().filter(|p| **p == part).count();
            assert!(size.abs_diff(expected) < 200, "{part}: {size}");
        }
        assert!(ByKey::new(&[], "").is_err() && ByKey::new(&[1.0, -1.0], "").is_err());
    }

    #[test]
    fn only_those_between_two_parts_move() {
        let (before, after) =
            (parts(&[0.8, 0.1, 0.1], "", 5000), parts(&[0.7, 0.2, 0.1], "", 5000));
        for (before, after) in before.iter().zip(&after) {
            assert!(before == after || (*before, *after) == (0, 1));
        }
        assert_ne!(before, parts(&[0.8, 0.1, 0.1], "x", 5000));
    }

    #[test]
    fn a_key_means_the_same_for_ever() {
        assert_eq!(parts(&[0.5, 0.5], "", 16), FROZEN);
    }

    const FROZEN: [usize; 16] = [0, 1, 1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0];
}
