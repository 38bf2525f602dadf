//! From weights to quotas.

use super::round::{MAX_ROUND, gcd, reduced};
use crate::error::{Error, ErrorKind, Result};

/// All whole numbers up to here are numbers of 64 bits with a fraction, too.
const MAX_EXACT: u64 = 1 << 53;

/// Whole quotas that sum up to `sum` and are as close to these weights as whole numbers can be:
/// the largest remainders are rounded up, of equal ones the first.
///
/// ```
/// assert_eq!(kiste::sampler::quotas(&[0.5, 0.25, 0.25], 10)?, [5, 3, 2]);
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if a weight is negative or no number, all are 0, or a positive
/// weight is so small that its quota would be 0; [`Limit`](ErrorKind::Limit) if the sum is more
/// than 2⁵³, where weights are no longer told apart.
pub fn quotas(weights: &[f64], sum: u64) -> Result<Vec<u64>> {
    let total = total(weights)?;
    if sum > MAX_EXACT {
        let message = format!("expected quotas with a sum of at most {MAX_EXACT}, found {sum}");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    let exact = |weight: &f64| weight / total * sum as f64;
    let mut quotas: Vec<u64> = weights.iter().map(|weight| exact(weight) as u64).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| exact(&weights[b]).fract().total_cmp(&exact(&weights[a]).fract()));
    let given: u64 = quotas.iter().sum();
    for &source in order.iter().cycle().take(sum.saturating_sub(given) as usize) {
        quotas[source] += 1;
    }
    match weights.iter().zip(&quotas).position(|(&weight, &quota)| weight > 0.0 && quota == 0) {
        None => Ok(quotas),
        Some(source) => {
            let message = format!("weight {} is nothing of {sum}: ask for more", weights[source]);
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

/// The sum of weights, if they make sense.
fn total(weights: &[f64]) -> Result<f64> {
    let total: f64 = weights.iter().sum();
    let good = |weight: &f64| weight.is_finite() && *weight >= 0.0;
    if !weights.iter().all(good) || !total.is_finite() || total <= 0.0 {
        let message = format!("weights {weights:?}, expected positive numbers");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(total)
}

/// The smallest whole quotas that are exactly in the proportion of these weights.
///
/// Each weight is a whole number, or the fraction of two whole numbers that is written like it: 0.7 is
/// seven tenths, although no number of 64 bits is that exactly, and `1.0 / 3.0` is a third.
///
/// ```
/// use kiste::sampler::{exact_quotas, quotas};
///
/// assert_eq!(exact_quotas(&[3.0, 1.0])?, [3, 1]);
/// assert_eq!(exact_quotas(&[0.1, 0.2, 0.7])?, [1, 2, 7]);
/// assert_eq!(exact_quotas(&[1.0 / 3.0, 2.0 / 3.0])?, [1, 2]);
/// // These have no small proportion, so they are rounded or refused:
/// let roots = [2f64.sqrt(), 1.0];
/// assert!(exact_quotas(&roots).is_err());
/// assert_eq!(quotas(&roots, 1000)?, [586, 414]);
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if a weight is negative or no number, or if all are 0;
/// [`Limit`](ErrorKind::Limit) if a weight has no denominator up to 2²⁰, or if quotas would sum up to
/// more than a round can have, which is 2²⁰ too.
pub fn exact_quotas(weights: &[f64]) -> Result<Vec<u64>> {
    total(weights)?;
    let refused = |message: String| {
        Error::new(ErrorKind::Limit, message)
            .advise("`quotas(weights, sum)` takes the closest ones with a sum of your choice")
    };
    let mut fractions = Vec::with_capacity(weights.len());
    for &weight in weights {
        fractions.push(fraction(weight).ok_or_else(|| {
            refused(format!(
                "expected fractions with a denominator up to {MAX_ROUND}, found {weight}"
            ))
        })?);
    }
    let lcm = |all: u64, &(_, below): &(u64, u64)| (all / gcd(all, below)).checked_mul(below);
    let common = fractions.iter().try_fold(1, lcm);
    let whole = common.and_then(|common| {
        fractions.iter().map(|&(above, below)| above.checked_mul(common / below)).collect()
    });
    let whole: Vec<u64> = whole.ok_or_else(|| {
        refused(format!("expected weights in a proportion of small numbers, found {weights:?}"))
    })?;
    reduced(&whole).map(|(quotas, _)| quotas).map_err(|error| refused(error.message().to_owned()))
}

/// The fraction with the smallest denominator, up to [`MAX_ROUND`], to which this number is the
/// closest of its type.
fn fraction(number: f64) -> Option<(u64, u64)> {
    if number == 0.0 {
        return Some((0, 1));
    }
    // The number is `above / below` exactly. Below 2⁻⁶⁰, no fraction is close.
    let bits = number.to_bits();
    let exponent = i32::try_from(bits >> 52).ok()? - 1075;
    let mantissa = u128::from((bits & (MAX_EXACT / 2 - 1)) | (MAX_EXACT / 2));
    let (mut above, mut below) = match exponent {
        0..=11 => (mantissa << exponent, 1),
        -112..=-1 => (mantissa, 1u128 << -exponent),
        _ => return None,
    };
    // Its continued fraction: a fraction this close is one of the convergents.
    let (mut last, mut next) = ((0u128, 1u128), (1u128, 0u128));
    while below > 0 {
        let whole = above / below;
        (last, next) = (next, (whole * next.0 + last.0, whole * next.1 + last.1));
        if next.1 > u128::from(MAX_ROUND) {
            return None;
        }
        let found = (u64::try_from(next.0).ok()?, next.1 as u64);
        if found.0 as f64 / found.1 as f64 == number {
            return Some(found);
        }
        (above, below) = (below, above % below);
    }
    None
}

/// A source whose weight is a share of tokens, and its total numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenWeight {
    /// The share of all tokens that is to come from this source, in any unit.
    pub weight: f64,
    /// Samples of the source.
    pub samples: u64,
    /// Tokens of all of them.
    pub tokens: u64,
}

/// Quotas of samples, with a sum of `sum`, from shares of *tokens*: a source whose samples are twice as long on
/// average comes half as often.
///
/// ```
/// use kiste::sampler::{TokenWeight, quotas_by_tokens};
///
/// let books = TokenWeight { weight: 0.5, samples: 1_000, tokens: 3_000_000 };
/// let posts = TokenWeight { weight: 0.5, samples: 40_000, tokens: 40_000_000 };
/// // As many tokens of both: three posts for each book.
/// assert_eq!(quotas_by_tokens(&[books, posts], 4)?, [1, 3]);
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// How exact it is: a quota is less than 1 from what the weights and the means say, so a share of
/// samples is off by less than `1 / sum`. Shares of tokens are as exact over whole passes, for which
/// the means hold. Over a shorter stretch they also depend on which samples came.
///
/// # Errors
///
/// As [`quotas`]; and [`Invalid`](ErrorKind::Invalid) if a source with a weight has no samples or
/// no tokens.
pub fn quotas_by_tokens(sources: &[TokenWeight], sum: u64) -> Result<Vec<u64>> {
    let weights: Vec<f64> = sources.iter().map(|source| source.weight).collect();
    total(&weights)?;
    let empty =
        |source: &TokenWeight| source.weight > 0.0 && (source.samples == 0 || source.tokens == 0);
    if let Some(number) = sources.iter().position(empty) {
        let TokenWeight { weight, samples, tokens } = sources[number];
        let message = format!(
            "source {number} has a weight of {weight}, but {tokens} tokens in {samples} samples"
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let by_samples = |source: &TokenWeight| match source.weight > 0.0 {
        true => source.weight * (source.samples as f64 / source.tokens as f64),
        false => 0.0,
    };
    quotas(&sources.iter().map(by_samples).collect::<Vec<_>>(), sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_are_written_as_fractions_are_exact() {
        let mut rng = crate::sampler::rng::StableRng::new(&[16]);
        for _ in 0..2000 {
            let unit = [1.0, 3.0, 7.0, 10.0, 100.0, 1000.0, 256.0][rng.below(7) as usize];
            let wanted: Vec<u64> = (0..1 + rng.below(5)).map(|_| rng.below(999)).collect();
            let weights: Vec<f64> = wanted.iter().map(|&quota| quota as f64 / unit).collect();
            match reduced(&wanted) {
                Ok((quotas, _)) => assert_eq!(exact_quotas(&weights).unwrap(), quotas),
                Err(_) => assert!(exact_quotas(&weights).is_err()),
            }
        }
        let most = (MAX_ROUND - 1) as f64;
        assert_eq!(exact_quotas(&[1.0, 0.0, most]).unwrap(), [1, 0, MAX_ROUND - 1]);
        assert_eq!(exact_quotas(&[1.0 / most, 1.0]).unwrap(), [1, MAX_ROUND - 1]);
        assert_eq!(exact_quotas(&[2.5e12, 1e12]).unwrap(), [5, 2]);
        assert_eq!(exact_quotas(&[0.0, 2f64.powi(63)]).unwrap(), [0, 1]);
    }

    #[test]
    fn weights_that_cannot_be_exact_are_refused() {
        for bad in [&[][..], &[-1.0, 2.0], &[f64::NAN], &[f64::INFINITY, 1.0], &[0.0, -0.0]] {
            assert_eq!(exact_quotas(bad).unwrap_err().kind(), ErrorKind::Invalid, "{bad:?}");
            let sources: Vec<TokenWeight> =
                bad.iter().map(|&weight| TokenWeight { weight, samples: 1, tokens: 1 }).collect();
            assert_eq!(quotas_by_tokens(&sources, 9).unwrap_err().kind(), ErrorKind::Invalid);
        }
        let above = MAX_ROUND as f64;
        let primes = [999_983.0, 999_979.0, 999_961.0, 999_959.0].map(|prime| 1.0 / prime);
        for bad in [
            &[1.0, above][..],
            &[1.0 / above, 1.0],
            &[1.0, 1e-9],
            &[f64::MIN_POSITIVE / 8.0, f64::MAX / 8.0],
            &[1e300, 2e300],
            &[std::f64::consts::PI, 1.0],
            &primes,
        ] {
            let error = exact_quotas(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Limit, "{bad:?}");
            assert!(error.remedy().is_some());
        }
        assert!(quotas(&[1.0, 1.0], u64::MAX).is_err());
        assert_eq!(quotas(&[1.0, 1.0], MAX_EXACT).unwrap(), [MAX_EXACT / 2; 2]);
    }

    #[test]
    fn quotas_by_tokens_are_off_by_less_than_one() {
        let mut rng = crate::sampler::rng::StableRng::new(&[17]);
        for _ in 0..500 {
            let mut source = |_| TokenWeight {
                weight: 0.1 + rng.random(),
                samples: 1 + rng.below(1 << 40),
                tokens: (1 << 40) + rng.below(1 << 42),
            };
            let sources: Vec<TokenWeight> = (0..4).map(&mut source).collect();
            let exact = |s: &TokenWeight| s.weight * s.samples as f64 / s.tokens as f64;
            let all: f64 = sources.iter().map(exact).sum();
            let Ok(quotas) = quotas_by_tokens(&sources, MAX_ROUND) else { continue };
            assert_eq!(quotas.iter().sum::<u64>(), MAX_ROUND);
            for (source, quota) in sources.iter().zip(quotas) {
                assert!((quota as f64 - exact(source) / all * MAX_ROUND as f64).abs() < 1.0);
            }
        }
        let none = |samples, tokens| {
            let some = TokenWeight { weight: 1.0, samples: 5, tokens: 50 };
            quotas_by_tokens(&[some, TokenWeight { weight: 1.0, samples, tokens }], 10)
        };
        assert!(none(0, 5).is_err() && none(5, 0).is_err() && none(1, 10).is_ok());
        let unused = TokenWeight { weight: 0.0, samples: 0, tokens: 0 };
        let used = TokenWeight { weight: 1e-300, samples: u64::MAX, tokens: u64::MAX };
        assert_eq!(quotas_by_tokens(&[unused, used], 10).unwrap(), [0, 10]);
    }
}
