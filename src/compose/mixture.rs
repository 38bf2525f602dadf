//! Samples drawn from sources by weight.

use std::collections::HashSet;

use super::concat::concat;
use super::made::Made;
use super::view::View;
use crate::error::{Error, ErrorKind, Result};
use crate::format::recipe::{self, MixtureRule, Phase};
use crate::sampler::{Mixture, MixtureSource, TokenWeight, exact_quotas, quotas_by_tokens};

pub use crate::sampler::Exhausted;

/// How sources are mixed: shares, seed, length of an epoch, caps.
///
/// ```
/// use kiste::compose::MixtureOptions;
///
/// // Three of web to one of code; after a million samples one to one.
/// let options = MixtureOptions::new([("web", 3.0), ("code", 1.0)])
///     .seed(7)
///     .phase(1_000_000, [("web", 1.0), ("code", 1.0)]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct MixtureOptions {
    pub(super) samples: Option<u64>,
    pub(super) seed: u64,
    pub(super) tokens: Option<String>,
    pub(super) max_passes: Vec<(String, u64)>,
    pub(super) exhausted: Exhausted,
    pub(super) phases: Vec<(u64, Vec<(String, f64)>)>,
}

impl MixtureOptions {
    /// With these weights from the first sample on; sources that are not named have none.
    pub fn new<S: Into<String>>(weights: impl IntoIterator<Item = (S, f64)>) -> MixtureOptions {
        let (samples, seed, max_passes) = (None, 0, Vec::new());
        let options = MixtureOptions {
            samples,
            seed,
            tokens: None,
            max_passes,
            exhausted: Exhausted::Error,
            phases: Vec::new(),
        };
        options.phase(0, weights)
    }

    /// Positions of an epoch. Default: as many as all sources have samples.
    #[must_use]
    pub fn samples(mut self, samples: u64) -> MixtureOptions {
        self.samples = Some(samples);
        self
    }

    /// What the draws depend on. Default: 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> MixtureOptions {
        self.seed = seed;
        self
    }

    /// Weights are shares of tokens, or of what this column of [lengths](crate::Reader::lengths) counts: a source whose
    /// samples are twice as long comes half as often. Shares are rounded to a ten-thousandth of all samples, and hold for
    /// whole passes. Default: shares of samples.
    #[must_use]
    pub fn tokens(mut self, column: impl Into<String>) -> MixtureOptions {
        self.tokens = Some(column.into());
        self
    }

    /// Other weights from this position of the whole run on, which is counted through all epochs. Positions must ascend.
    #[must_use]
    pub fn phase<S: Into<String>>(
        mut self,
        from: u64,
        weights: impl IntoIterator<Item = (S, f64)>,
    ) -> MixtureOptions {
        let weights = weights.into_iter().map(|(name, weight)| (name.into(), weight)).collect();
        self.phases.push((from, weights));
        self
    }

    /// How often all samples of a source are seen at most. What then happens, [`exhausted`](Self::exhausted) says.
    #[must_use]
    pub fn max_passes(mut self, source: impl Into<String>, passes: u64) -> MixtureOptions {
        self.max_passes.push((source.into(), passes));
        self
    }

    /// What happens where a source has no passes left. Default: an error.
    #[must_use]
    pub fn exhausted(mut self, exhausted: Exhausted) -> MixtureOptions {
        self.exhausted = exhausted;
        self
    }

    /// From which positions on which weights hold.
    pub fn phases(&self) -> &[(u64, Vec<(String, f64)>)] {
        &self.phases
    }

    /// As a recipe has them.
    pub(super) fn rule(&self, sources: &[(String, View)]) -> MixtureRule {
        let phase = |(from, weights): &(u64, Vec<(String, f64)>)| Phase {
            from: *from,
            weights: weights.clone(),
        };
        MixtureRule {
            samples: self.samples,
            seed: self.seed,
            sources: sources.iter().map(|(name, _)| name.clone()).collect(),
            tokens: self.tokens.clone(),
            max_passes: self.max_passes.clone(),
            exhausted: match self.exhausted {
                Exhausted::Others => recipe::Exhausted::Others,
                _ => recipe::Exhausted::Error,
            },
            phases: self.phases.iter().map(phase).collect(),
        }
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

pub(super) fn mixture(sources: Vec<(String, View)>, options: MixtureOptions) -> Result<View> {
    let mut seen = HashSet::new();
    if let Some((name, _)) = sources.iter().find(|(name, _)| !seen.insert(name.as_str())) {
        return Err(invalid(format!("expected sources of different names, found {name:?} twice")));
    }
    let named = options.phases.iter().flat_map(|(_, weights)| weights.iter().map(|(name, _)| name));
    let mut named = named.chain(options.max_passes.iter().map(|(name, _)| name));
    if let Some(name) = named.find(|name| !seen.contains(name.as_str())) {
        return Err(invalid(format!("expected the name of a source, found {name:?}")));
    }
    let views: Vec<View> = sources.iter().map(|(_, view)| view.clone()).collect();
    let reader = concat(&views)?;
    let sampler = sampler_of(&sources, &options, reader.len() as u64)?;
    View::new(reader, Made::Mixture { sources, options, sampler })
}

/// The samples of a round where weights are shares of tokens.
const ROUND: u64 = 10_000;

/// The sum of a column of lengths.
fn sum_of((name, source): &(String, View), column: &str) -> Result<u64> {
    let reader = source.reader();
    let lengths = reader.lengths(column)?.ok_or_else(|| {
        let message = format!("expected lengths {column:?} of the source {name:?}, found none");
        invalid(message).advise("kiste index --lengths makes them")
    })?;
    let (mut sum, mut found) = (0u64, Vec::new());
    let samples = reader.len() as u64;
    for start in (0..samples).step_by(1 << 16) {
        let part: Vec<u64> = (start..samples.min(start + (1 << 16))).collect();
        found.clear();
        lengths.gather(&part, &mut found)?;
        sum = found.iter().fold(sum, |sum, length| sum.saturating_add(u64::from(*length)));
    }
    Ok(sum)
}

fn sampler_of(sources: &[(String, View)], options: &MixtureOptions, all: u64) -> Result<Mixture> {
    let column = options.tokens.as_deref();
    let tokens = column.map(|column| sources.iter().map(|it| sum_of(it, column)).collect());
    let tokens: Option<Vec<u64>> = tokens.transpose()?;
    let quotas = |weights: &[(String, f64)]| -> Result<Vec<u64>> {
        let is_empty =
            |name: &str| sources.iter().any(|(own, view)| own == name && view.reader().is_empty());
        if let Some((name, _)) =
            weights.iter().find(|(name, weight)| *weight > 0.0 && is_empty(name))
        {
            return Err(invalid(format!("source {name:?} has a weight, but no samples")));
        }
        let weight = |(name, _): &(String, View)| {
            weights.iter().find(|(own, _)| own == name).map_or(0.0, |(_, weight)| *weight)
        };
        if let Some(tokens) = &tokens {
            let of = |(source, tokens): (&(String, View), &u64)| {
                let samples = source.1.reader().len() as u64;
                TokenWeight { weight: weight(source), samples, tokens: *tokens }
            };
            let weights: Vec<TokenWeight> = sources.iter().zip(tokens).map(of).collect();
            return quotas_by_tokens(&weights, ROUND);
        }
        exact_quotas(&sources.iter().map(weight).collect::<Vec<f64>>()).map_err(|error| match error.kind() {
            ErrorKind::Limit => {
                let message = format!(
                    "expected weights in a proportion of small whole numbers, as 3 to 1 or 0.7 to 0.3, found {weights:?}"
                );
                Error::new(ErrorKind::Limit, message)
            }
            _ => error,
        })
    };
    let Some(((from, first), later)) = options.phases.split_first() else {
        return Err(invalid("expected weights, found none".to_owned()));
    };
    if *from != 0 {
        return Err(invalid(format!("expected the first phase at 0, found it at {from}")));
    }
    let own = sources.iter().zip(quotas(first)?).map(|((name, view), quota)| {
        let source = MixtureSource::new(view.reader().len() as u64, quota);
        match options.max_passes.iter().find(|(own, _)| own == name) {
            Some((_, passes)) => source.max_passes(*passes).exhausted(options.exhausted),
            None => source,
        }
    });
    let len = options.samples.unwrap_or(all);
    let mut mixture = Mixture::new(own.collect(), len, options.seed)?;
    for (from, weights) in later {
        mixture = mixture.phase(*from, &quotas(weights)?)?;
    }
    Ok(mixture)
}
