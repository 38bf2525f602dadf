//! [`MixtureSource`]: what is mixed, and how often it may come.

use std::fmt;
use std::sync::Arc;

use crate::sampler::Sampler;

/// A dataset of a [`Mixture`](super::Mixture).
#[derive(Clone)]
#[must_use = "a source does nothing until it is part of a `Mixture`"]
pub struct MixtureSource {
    pub(super) samples: u64,
    pub(super) quota: u64,
    pub(super) sampler: Option<Arc<dyn Sampler>>,
    pub(super) max_passes: Option<u64>,
    pub(super) exhausted: Exhausted,
}

/// What happens when a source has come as often as it may: [`MixtureSource::max_passes`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exhausted {
    /// The run ends where a sample of this source is missing. An epoch that would be longer is an
    /// error that names the source and the position.
    #[default]
    Error,
    /// From then on its share goes to the others, in proportion to their quotas. The run ends when no
    /// source is left.
    Others,
}

impl MixtureSource {
    /// This many samples, shuffled, with this share: quotas 3 and 1 are three quarters and one.
    pub fn new(samples: u64, quota: u64) -> MixtureSource {
        let exhausted = Exhausted::default();
        MixtureSource { samples, quota, sampler: None, max_passes: None, exhausted }
    }

    /// Another order than a [`Shuffle`](crate::sampler::Shuffle). Epoch `p` of the sampler is the pass `p` through
    /// this source.
    pub fn sampler(mut self, sampler: impl Sampler + 'static) -> MixtureSource {
        self.sampler = Some(Arc::new(sampler));
        self
    }

    /// How often each sample comes at most, in the whole run. Default: without limit, or as many
    /// [`epochs`](Sampler::epochs) as its sampler has.
    ///
    /// ```
    /// use kiste::sampler::{Exhausted, Mixture, MixtureSource, Sampler};
    ///
    /// let web = || MixtureSource::new(10_000, 1);
    /// let books = || MixtureSource::new(100, 1).max_passes(4);
    /// let mixture = Mixture::new(vec![web(), books()], 1000, 42)?;
    /// let error = mixture.order(0).err().unwrap();
    /// assert!(error.message().starts_with("source 1 is used up at position 788 of the run"), "{error}");
    ///
    /// // Its share goes to the others from there on.
    /// let books = books().exhausted(Exhausted::Others);
    /// let mixture = Mixture::new(vec![web(), books], 1000, 42)?;
    /// assert_eq!(mixture.counts(0, 0..1000)?, [600, 400]);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn max_passes(mut self, passes: u64) -> MixtureSource {
        self.max_passes = Some(passes);
        self
    }

    /// What happens when it has come as often as it may. Default: [`Exhausted::Error`].
    pub fn exhausted(mut self, exhausted: Exhausted) -> MixtureSource {
        self.exhausted = exhausted;
        self
    }
}

impl fmt::Debug for MixtureSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MixtureSource({} samples, quota {})", self.samples, self.quota)
    }
}
