//! [`Fingerprint`]: which orders a checkpoint belongs to.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::rng::stable_hash;
use crate::error::{Error, ErrorKind, Result};

/// The parameters that determine the orders of a sampler, in short: its name, its length, its seed,
/// and a hash of its other parameters. A [`State`](super::State) carries it, so that a run is not
/// resumed in another order.
///
/// A sampler of yours says what its orders depend on; without that, only its length is compared:
///
/// ```
/// use std::sync::Arc;
/// use kiste::sampler::{Fingerprint, Order, Sampler, Sequential};
///
/// /// Every `step`th sample.
/// struct Strided { samples: u64, step: u64 }
///
/// # struct Every { order: Arc<dyn Order>, step: u64, len: u64 }
/// # impl Order for Every {
/// #     fn len(&self) -> u64 { self.len }
/// #     fn index_at(&self, position: u64) -> u64 { self.order.index_at(position * self.step) }
/// # }
/// impl Sampler for Strided {
///     fn len(&self) -> u64 { self.samples.div_ceil(self.step) }
///     fn bound(&self) -> u64 { self.samples }
///     fn order(&self, epoch: u64) -> kiste::Result<Arc<dyn Order>> {
///         // …
/// #       let order = Sequential::new(self.samples).order(epoch)?;
/// #       Ok(Arc::new(Every { order, step: self.step, len: self.len() }))
///     }
///     fn fingerprint(&self) -> Fingerprint {
///         Fingerprint::new("strided", self.len()).with(self.samples).with(self.step)
///     }
/// }
///
/// let two = Strided { samples: 10, step: 2 };
/// assert!(two.fingerprint().check(&two.fingerprint()).is_ok());
/// // As long, and another order:
/// assert!(Strided { samples: 9, step: 2 }.fingerprint().check(&two.fingerprint()).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    sampler: Name,
    len: u64,
    seed: Option<u64>,
    /// The hash of all other parameters.
    hash: u64,
}

impl Fingerprint {
    /// A sampler of this name, whose epochs have `len` positions. The name is short and lower
    /// case; it is cut off after 23 bytes. An empty one stands for any sampler.
    pub fn new(sampler: &str, len: u64) -> Fingerprint {
        Fingerprint { sampler: Name::new(sampler), len, seed: None, hash: 0 }
    }

    /// With this seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Fingerprint {
        self.seed = Some(seed);
        self
    }

    /// With another number that the orders depend on.
    #[must_use]
    pub fn with(mut self, number: u64) -> Fingerprint {
        self.hash = stable_hash(&[self.hash, number]);
        self
    }

    /// With a sampler that this one is made of, whose seed is its own unless it has one.
    #[must_use]
    pub fn of(mut self, inner: Fingerprint) -> Fingerprint {
        self.seed = self.seed.or(inner.seed);
        let name = inner
            .sampler
            .0
            .chunks(8)
            .map(|part| part.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
        let seed = [u64::from(inner.seed.is_some()), inner.seed.unwrap_or_default()];
        name.chain([inner.len, inner.hash]).chain(seed).fold(self, Fingerprint::with)
    }

    /// Compares the fingerprint of the sampler in use with a checkpoint's. If either has no name,
    /// only the lengths are compared.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid), with all that differs.
    pub fn check(&self, checkpoint: &Fingerprint) -> Result<()> {
        let mut differs = Vec::new();
        let named = !self.sampler.is_empty() && !checkpoint.sampler.is_empty();
        if named && self.sampler != checkpoint.sampler {
            let (found, expected) = (self.sampler.text(), checkpoint.sampler.text());
            differs.push(format!("expected the sampler {expected}, found {found}"));
        }
        if self.len != checkpoint.len {
            let (found, expected) = (self.len, checkpoint.len);
            differs.push(format!("expected {expected} positions an epoch, found {found}"));
        }
        if named && self.seed != checkpoint.seed {
            let text = |seed: Option<u64>| seed.map_or("none".to_owned(), |seed| seed.to_string());
            let (found, expected) = (text(self.seed), text(checkpoint.seed));
            differs.push(format!("expected the seed {expected}, found {found}"));
        }
        // The others are hashed along, so that they tell nothing once one of these differs.
        if differs.is_empty() && named && self.hash != checkpoint.hash {
            differs
                .push("expected other parameters of the sampler, such as its samples".to_owned());
        }
        if differs.is_empty() {
            return Ok(());
        }
        Err(other_order(&differs.join("; ")))
    }
}

/// The error of a checkpoint that does not belong to an order.
pub(super) fn other_order(differs: &str) -> Error {
    let message = format!("the checkpoint is of another order: {differs}");
    Error::new(ErrorKind::Invalid, message).advise(
        "resume with the sampler and the samples that the checkpoint was made with; or take its \
         epoch and position alone, after which some samples come twice and others never",
    )
}

/// A short text without memory of its own, so that a checkpoint can be copied.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Name([u8; 23]);

impl Name {
    fn new(text: &str) -> Name {
        let mut name = [0; 23];
        let end = (0..=name.len().min(text.len())).rev().find(|&end| text.is_char_boundary(end));
        let text = &text.as_bytes()[..end.unwrap_or(0)];
        name[..text.len()].copy_from_slice(text);
        Name(name)
    }

    fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    fn text(&self) -> &str {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.text(), f)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a sampler")
            }

            fn visit_str<E>(self, text: &str) -> Result<Name, E> {
                Ok(Name::new(text))
            }
        }
        from.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!(Name::new("").text(), "");
        assert_eq!(Name::new("datadings-shuffle").text(), "datadings-shuffle");
        assert_eq!(Name::new(&"ä".repeat(20)).text(), "ä".repeat(11));
        assert_eq!(Name::new(&"a".repeat(30)).text(), "a".repeat(23));
    }

    #[test]
    fn nested_samplers_are_told_apart() {
        let inner = |seed: u64, block: u64| Fingerprint::new("block", 10).seed(seed).with(block);
        let outer = |inner| Fingerprint::new("repeat", 30).of(inner).with(3);
        let first = outer(inner(1, 2));
        assert!(first.check(&outer(inner(1, 2))).is_ok());
        assert!(first.check(&outer(inner(2, 2))).unwrap_err().message().contains("seed 2"));
        assert!(first.check(&outer(inner(1, 3))).unwrap_err().message().contains("parameters"));
        let other = Fingerprint::new("shuffle", 10).seed(1).with(2);
        assert!(first.check(&outer(other)).is_err());
    }
}
