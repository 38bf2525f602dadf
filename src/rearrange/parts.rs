//! Which samples go to which part.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Scalar;
use crate::error::{Error, ErrorKind, Result};
use crate::sampler::rng::StableRng;

/// Mixed into the seed of this module, so that a split and a shuffle with one seed have
/// nothing to do with each other. Frozen.
const PURPOSE: u64 = 0x7061_7274_7321;

/// Deals samples out to parts at random, as many to each as the ratios say: which part each
/// sample goes to.
///
/// With classes (one a sample) each class is dealt out in these ratios, to within one sample a
/// part. The sizes of the parts are those without classes to within one sample a class at most.
/// The same for the same numbers in every release.
///
/// ```
/// let part = kiste::rearrange::parts(10, &[0.8, 0.2], None, 42)?;
/// assert_eq!(part.iter().filter(|part| **part == 1).count(), 2);
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if a ratio is no positive number.
pub fn parts(
    samples: usize,
    ratios: &[f64],
    classes: Option<&[Scalar]>,
    seed: u64,
) -> Result<Vec<usize>> {
    let shares = shares(ratios)?;
    let mut members: BTreeMap<Option<&Scalar>, Vec<usize>> = BTreeMap::new();
    for index in 0..samples {
        members.entry(classes.map(|classes| &classes[index])).or_default().push(index);
    }
    let mut part_of = vec![0; samples];
    let mut rng = StableRng::new(&[PURPOSE, seed]);
    let (mut ideal, mut given) = (vec![0.0; shares.len()], vec![0.0; shares.len()]);
    for mut members in members.into_values() {
        rng.shuffle(&mut members);
        let mut counts = Vec::with_capacity(shares.len());
        for (part, share) in shares.iter().enumerate() {
            let exact = share * members.len() as f64;
            // Add back what rounding took off a whole number.
            let count = (exact + 1e-9).floor();
            ideal[part] += exact;
            given[part] += count;
            counts.push(count as usize);
        }
        // The rest goes to the parts that are owed most, counting all classes before.
        let left = members.len() - counts.iter().sum::<usize>().min(members.len());
        let mut owed: Vec<usize> = (0..shares.len()).collect();
        owed.sort_by(|&a, &b| (ideal[b] - given[b]).total_cmp(&(ideal[a] - given[a])));
        for &part in owed.iter().take(left) {
            counts[part] += 1;
            given[part] += 1.0;
        }
        let parts = counts.iter().enumerate().flat_map(|(part, &n)| std::iter::repeat_n(part, n));
        for (index, part) in members.into_iter().zip(parts) {
            part_of[index] = part;
        }
    }
    Ok(part_of)
}

/// As [`parts`], but all samples of a group go to the same part: no patient is in the training
/// part and in the test part. Large groups first, each to the part that lacks most, so sizes are
/// as close to the ratios as the groups allow.
///
/// # Errors
///
/// As for [`parts`].
pub fn whole_groups(groups: &[Scalar], ratios: &[f64], seed: u64) -> Result<Vec<usize>> {
    let shares = shares(ratios)?;
    let mut members: BTreeMap<&Scalar, Vec<usize>> = BTreeMap::new();
    for (index, group) in groups.iter().enumerate() {
        members.entry(group).or_default().push(index);
    }
    let mut members: Vec<Vec<usize>> = members.into_values().collect();
    StableRng::new(&[PURPOSE, seed]).shuffle(&mut members);
    members.sort_by_key(|members| std::cmp::Reverse(members.len()));
    let mut lacks: Vec<f64> = shares.iter().map(|share| share * groups.len() as f64).collect();
    let mut part_of = vec![0; groups.len()];
    for members in members {
        // The first of those that lack most.
        let most = lacks.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let part = lacks.iter().position(|&lack| lack == most).unwrap_or(0);
        lacks[part] -= members.len() as f64;
        for index in members {
            part_of[index] = part;
        }
    }
    Ok(part_of)
}

/// The ranges between these positions; a new part begins at each.
///
/// ```
/// assert_eq!(kiste::rearrange::cut_at(10, &[7, 9])?, [0..7, 7..9, 9..10]);
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) unless they ascend, from 1 to less than there are samples.
pub fn cut_at(samples: usize, positions: &[usize]) -> Result<Vec<Range<usize>>> {
    let mut start = 0;
    let mut parts = Vec::new();
    for &end in positions.iter().chain([&samples]) {
        if end <= start || (end == samples && parts.len() < positions.len()) {
            let wrong = positions.get(parts.len()).copied().unwrap_or(start);
            let message = format!(
                "position {wrong}: expected ascending positions from 1 to {}, as there are {samples} \
                 samples",
                samples.saturating_sub(1),
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        parts.push(start..end);
        start = end;
    }
    Ok(parts)
}

/// The samples of each class, in order, by the order of the classes.
///
/// ```
/// use kiste::rearrange::{Scalar, by_class};
///
/// let classes = ["b", "a", "b"].map(|name| Scalar::Text(name.into()));
/// let parts: Vec<Vec<usize>> = by_class(classes).into_values().collect();
/// assert_eq!(parts, [vec![1], vec![0, 2]]);
/// ```
pub fn by_class(classes: impl IntoIterator<Item = Scalar>) -> BTreeMap<Scalar, Vec<usize>> {
    let mut members: BTreeMap<Scalar, Vec<usize>> = BTreeMap::new();
    for (index, class) in classes.into_iter().enumerate() {
        members.entry(class).or_default().push(index);
    }
    members
}

pub(super) fn shares(ratios: &[f64]) -> Result<Vec<f64>> {
    let sum: f64 = ratios.iter().sum();
    if ratios.is_empty() || !ratios.iter().all(|&r| r > 0.0) || !sum.is_finite() {
        let message = format!("ratios {ratios:?}, expected positive numbers");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(ratios.iter().map(|ratio| ratio / sum).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(part_of: &[usize], parts: usize) -> Vec<usize> {
        (0..parts).map(|part| part_of.iter().filter(|p| **p == part).count()).collect()
    }

    #[test]
    fn sizes_are_as_the_ratios_say() {
        for samples in 0..200 {
            let part_of = parts(samples, &[8.0, 1.0, 1.0], None, 1).unwrap();
            for (size, share) in sizes(&part_of, 3).into_iter().zip([0.8, 0.1, 0.1]) {
                assert!((size as f64 - share * samples as f64).abs() < 1.0, "{samples}");
            }
        }
        assert_eq!(sizes(&parts(100, &[0.8, 0.1, 0.1], None, 7).unwrap(), 3), [80, 10, 10]);
    }

    #[test]
    fn each_class_is_dealt_out_in_these_ratios() {
        let classes: Vec<Scalar> = (0..1000).map(|i| Scalar::Whole(i * i % 23)).collect();
        let ratios = [0.7, 0.2, 0.1];
        let part_of = parts(1000, &ratios, Some(&classes), 3).unwrap();
        for class in &classes {
            let of_class: Vec<usize> =
                (0..1000).filter(|&i| classes[i] == *class).map(|i| part_of[i]).collect();
            for (size, ratio) in sizes(&of_class, 3).into_iter().zip(ratios) {
                assert!((size as f64 - ratio * of_class.len() as f64).abs() <= 1.0 + 1e-9);
            }
        }
        for (size, ratio) in sizes(&part_of, 3).into_iter().zip(ratios) {
            assert!((size as f64 - ratio * 1000.0).abs() <= 2.0, "{size}");
        }
    }

    #[test]
    fn groups_stay_whole() {
        let groups: Vec<Scalar> = (0..500).map(|i| Scalar::Whole(i % 37)).collect();
        let part_of = whole_groups(&groups, &[0.5, 0.5], 9).unwrap();
        for i in 37..500 {
            assert_eq!(part_of[i], part_of[i - 37]);
        }
        assert!(sizes(&part_of, 2)[0].abs_diff(250) < 15);
    }

    #[test]
    fn a_seed_means_the_same_for_ever() {
        assert_eq!(parts(12, &[0.5, 0.5], None, 42).unwrap(), FROZEN);
    }

    const FROZEN: [usize; 12] = [1, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1];
}
