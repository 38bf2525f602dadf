//! Some samples of a dataset, drawn at random.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::Scalar;
use crate::error::{Error, ErrorKind, Result};
use crate::sampler::{Order, Sampler, Shuffle};

/// How many samples: a number, or a share of all.
///
/// ```
/// use kiste::rearrange::Amount;
///
/// assert_eq!("1000".parse::<Amount>()?, Amount::Samples(1000));
/// assert_eq!("10%".parse::<Amount>()?.of(50), 5);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// This many, or all if there are fewer.
    Samples(u64),
    /// This share of all, from 0 to 1.
    Share(f64),
}

impl Amount {
    /// How many of this many samples.
    pub fn of(self, samples: u64) -> u64 {
        match self {
            Amount::Samples(amount) => amount.min(samples),
            Amount::Share(share) => ((share * samples as f64).round() as u64).min(samples),
        }
    }
}

impl FromStr for Amount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Amount> {
        if let Ok(samples) = text.parse() {
            return Ok(Amount::Samples(samples));
        }
        let share = match text.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
            None => text.parse(),
        };
        let message = match share {
            Ok(share) if (0.0..=1.0).contains(&share) => return Ok(Amount::Share(share)),
            Ok(share) => format!("expected a share from 0 to 1, found {share}"),
            Err(_) => "expected a number such as 1000, or a share such as 0.1 or 10%".to_owned(),
        };
        Err(Error::new(ErrorKind::Invalid, message))
    }
}

/// The indices of some samples, in the order in which a [`Shuffle`] with this seed has them in epoch 0: a
/// larger draw with the same seed begins with the smaller one. Without a seed they are the first ones.
///
/// With classes (one a sample) each class has the same share of the draw as of all samples, as closely as
/// whole numbers allow.
///
/// ```
/// use kiste::rearrange::{Amount, draw};
///
/// let some = draw(100, Amount::Share(0.1), None, Some(42))?;
/// assert_eq!(draw(100, Amount::Samples(20), None, Some(42))?[..10], some);
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if there is not one class for each sample.
pub fn draw(
    samples: usize,
    amount: Amount,
    classes: Option<&[Scalar]>,
    seed: Option<u64>,
) -> Result<Vec<usize>> {
    let amount = amount.of(samples as u64);
    let order;
    let candidates: Box<dyn Iterator<Item = usize>> = match seed {
        Some(seed) => {
            order = Shuffle::new(samples as u64, seed).order(0)?;
            let order: &dyn Order = &*order;
            Box::new(order.iter().map(|index| index as usize))
        }
        None => Box::new(0..samples),
    };
    let Some(classes) = classes else {
        return Ok(candidates.take(amount as usize).collect());
    };
    if classes.len() != samples {
        let message = format!("expected {samples} classes, found {}", classes.len());
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let mut left = quotas(classes, amount);
    let take = |index: &usize| match left.get_mut(&classes[*index]) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    };
    Ok(candidates.filter(take).collect())
}

/// How many of each class, so that there are `amount` of all: the largest remainders are rounded
/// up, of equal ones the first.
fn quotas(classes: &[Scalar], amount: u64) -> BTreeMap<&Scalar, u64> {
    let mut counts: BTreeMap<&Scalar, u64> = BTreeMap::new();
    for class in classes {
        *counts.entry(class).or_default() += 1;
    }
    let of = classes.len().max(1) as u128;
    let exact = |count: u64| u128::from(count) * u128::from(amount);
    let mut remainders: Vec<(u128, &Scalar)> =
        counts.iter().map(|(class, count)| (exact(*count) % of, *class)).collect();
    remainders.sort_by_key(|(remainder, _)| std::cmp::Reverse(*remainder));
    for count in counts.values_mut() {
        *count = (exact(*count) / of) as u64;
    }
    let missing = amount.saturating_sub(counts.values().sum()) as usize;
    for (_, class) in remainders.into_iter().take(missing) {
        if let Some(count) = counts.get_mut(class) {
            *count += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_numbers_or_shares() {
        let amount = |text: &str| text.parse::<Amount>().ok();
        assert_eq!(amount("10"), Some(Amount::Samples(10)));
        assert_eq!(amount("1"), Some(Amount::Samples(1)));
        assert_eq!(amount("1.0"), Some(Amount::Share(1.0)));
        assert_eq!(amount("2.5%"), Some(Amount::Share(0.025)));
        for wrong in ["", "-1", "1.5", "101%", "x", "NaN"] {
            assert_eq!(amount(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn quotas_add_up() {
        let classes: Vec<Scalar> = (0..100).map(|i| Scalar::Whole(i % 7)).collect();
        for amount in 0..=100 {
            assert_eq!(quotas(&classes, amount).values().sum::<u64>(), amount);
            let drawn = draw(100, Amount::Samples(amount), Some(&classes), Some(1)).unwrap();
            assert_eq!(drawn.len() as u64, amount);
        }
        assert!(quotas(&[], 0).is_empty());
        assert!(draw(3, Amount::Samples(1), Some(&classes), None).is_err());
    }
}
