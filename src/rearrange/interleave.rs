//! From which input the next sample is taken.

use crate::error::{Error, ErrorKind, Result};
use crate::sampler::rng::StableRng;

/// Mixed into the seed of this module. Frozen.
const PURPOSE: u64 = 0x6d65_7267_6521;

/// For each sample of a merged dataset the input it comes from, the samples of each input staying
/// in their order.
///
/// Without weights every interleaving is as likely as any other: an input is drawn by how many
/// samples it has left. With weights it is drawn by these; one that is exhausted is left out from
/// then on. The same for the same numbers in every release.
///
/// ```
/// let order: Vec<usize> = kiste::rearrange::interleave(&[2, 1], None, 42)?.collect();
/// assert_eq!(order.iter().filter(|input| **input == 0).count(), 2);
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if there is not one positive weight for each input.
pub fn interleave(
    lens: &[usize],
    weights: Option<&[f64]>,
    seed: u64,
) -> Result<impl Iterator<Item = usize> + use<>> {
    if let Some(weights) = weights {
        let sum: f64 = weights.iter().sum();
        if weights.len() != lens.len() || !weights.iter().all(|&w| w > 0.0) || !sum.is_finite() {
            let message = format!("weights {weights:?}, expected {} positive numbers", lens.len());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    }
    let weights = weights.map(<[f64]>::to_vec);
    let mut left: Vec<u64> = lens.iter().map(|&len| len as u64).collect();
    let mut rng = StableRng::new(&[PURPOSE, seed]);
    Ok(std::iter::from_fn(move || {
        if left.iter().all(|&left| left == 0) {
            return None;
        }
        let input = match &weights {
            None => by_count(&left, &mut rng),
            Some(weights) => by_weight(&left, weights, &mut rng),
        };
        left[input] -= 1;
        Some(input)
    }))
}

fn by_count(left: &[u64], rng: &mut StableRng) -> usize {
    let mut drawn = rng.below(left.iter().sum());
    let input = left.iter().position(|&left| match drawn.checked_sub(left) {
        Some(rest) => {
            drawn = rest;
            false
        }
        None => true,
    });
    input.expect("a number below the sum")
}

fn by_weight(left: &[u64], weights: &[f64], rng: &mut StableRng) -> usize {
    let open = || (0..left.len()).filter(|&input| left[input] > 0);
    let sum: f64 = open().map(|input| weights[input]).sum();
    let mut drawn = rng.random() * sum;
    let input = open().find(|&input| {
        drawn -= weights[input];
        drawn < 0.0
    });
    // Rounding may leave a rest: it belongs to the last one.
    input.or_else(|| open().next_back()).expect("one that is not exhausted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_comes_once() {
        for weights in [None, Some(&[1.0, 5.0, 0.1][..])] {
            let order: Vec<usize> = interleave(&[10, 0, 200], weights, 3).unwrap().collect();
            assert_eq!(order.len(), 210);
            assert_eq!(order.iter().filter(|input| **input == 0).count(), 10);
        }
        assert_eq!(interleave(&[], None, 0).unwrap().count(), 0);
        assert!(interleave(&[1, 1], Some(&[1.0]), 0).is_err());
        assert!(interleave(&[1, 1], Some(&[1.0, 0.0]), 0).is_err());
    }

    #[test]
    fn weights_are_shares() {
        let order = interleave(&[100_000, 100_000], Some(&[3.0, 1.0]), 5).unwrap();
        let first = order.take(10_000).filter(|input| *input == 0).count();
        assert!(first.abs_diff(7_500) < 150, "{first}");
    }

    #[test]
    fn a_seed_means_the_same_for_ever() {
        let order: Vec<usize> = interleave(&[6, 6], None, 42).unwrap().collect();
        assert_eq!(order, FROZEN);
        let order: Vec<usize> = interleave(&[6, 6], Some(&[2.0, 1.0]), 42).unwrap().collect();
        assert_eq!(order, FROZEN_WEIGHTED);
    }

    const FROZEN: [usize; 12] = [1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1];
    const FROZEN_WEIGHTED: [usize; 12] = [1, 0, 0, 0, 0, 1, 0, 1, 1, 0, 1, 1];
}
