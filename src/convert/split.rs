//! [`Split`]: samples distributed over several outputs.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, ErrorKind, Result};
use crate::format::hex;
use crate::rearrange::{ByKey, part_path};
use crate::regular;

/// The output of the samples that are in no list, where no ratios are given.
const REST: &str = "rest";

/// Which output each sample goes to.
///
/// The dataset `DST.msgpack` becomes `DST-NAME.msgpack` for each name, and `DST.csv` becomes `DST-NAME.csv`. A
/// digest of its key decides where a sample goes, so the rest of the input makes no difference.
///
/// ```
/// use kiste::convert::{Conversion, Split};
///
/// let split = Split::new().ratio("train", 0.9).ratio("val", 0.1);
/// let conversion = Conversion::new(["photos/"], "photos.msgpack").split(split);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[must_use]
pub struct Split {
    #[serde(skip_serializing_if = "is_default")]
    ratios: Vec<(String, f64)>,
    #[serde(skip_serializing_if = "is_default")]
    lists: Vec<(String, PathBuf)>,
    #[serde(skip_serializing_if = "is_default")]
    salt: String,
}

/// Whether a value is the default, and so left out of a plan.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Whether this may be in the name of a file.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "._-+".contains(c))
}

impl Split {
    /// One output, in the order of the input.
    pub fn new() -> Split {
        Split::default()
    }

    /// Adds an output that gets this share of the samples, relative to the other shares.
    pub fn ratio(mut self, name: impl Into<String>, share: f64) -> Self {
        self.ratios.push((name.into(), share));
        self
    }

    /// Adds an output of the samples whose keys are in this file, one per line. The others go where
    /// their ratio says, or to `rest`.
    pub fn list(mut self, name: impl Into<String>, keys: impl AsRef<Path>) -> Self {
        self.lists.push((name.into(), keys.as_ref().to_path_buf()));
        self
    }

    /// Another salt distributes samples differently. Default: empty.
    pub fn salt(mut self, salt: impl Into<String>) -> Self {
        self.salt = salt.into();
        self
    }

    /// Checks the names, which become parts of file names, and the shares. A conversion does so
    /// before it opens anything.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a name with other characters than letters, digits and
    /// `._-+`, and for a share that is not above 0.
    pub fn check(&self) -> Result<()> {
        let names =
            self.ratios.iter().map(|(name, _)| name).chain(self.lists.iter().map(|(n, _)| n));
        for name in names {
            if !is_name(name) {
                let message =
                    format!("expected a name of letters, digits and ._-+, found {name:?}");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        match self.ratios.iter().find(|(_, share)| !(*share > 0.0 && share.is_finite())) {
            Some((name, share)) => {
                let message = format!("expected a share above 0 for {name}, found {share}");
                Err(Error::new(ErrorKind::Invalid, message))
            }
            None => Ok(()),
        }
    }

    /// Whether there are several outputs.
    pub(super) fn is_split(&self) -> bool {
        !self.ratios.is_empty() || !self.lists.is_empty()
    }

    /// The names of the outputs, in the order of the targets of an [`Assignment`]: none, if nothing is split.
    fn names(&self) -> Vec<&str> {
        // Samples that no list names have to go somewhere, and are not dropped in silence.
        let rest = (self.is_split() && self.ratios.is_empty()).then_some(REST);
        let listed = self.lists.iter().map(|(name, _)| &**name);
        let mut names = Vec::new();
        for name in listed.chain(self.ratios.iter().map(|(name, _)| &**name)).chain(rest) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The outputs, in the order of the targets of an [`Assignment`]: DST itself, if nothing is split.
    pub(super) fn paths(&self, output: &Path) -> Vec<PathBuf> {
        match self.is_split() {
            true => self.names().into_iter().map(|name| part_path(output, name)).collect(),
            false => vec![output.to_path_buf()],
        }
    }

    /// The digests of the lists, for the plan: they must be the same at the end.
    pub(super) fn digests(&self) -> Result<BTreeMap<String, String>> {
        let mut digests = BTreeMap::new();
        for (name, path) in &self.lists {
            let bytes = regular::read(path).map_err(|error| Error::io(path, error))?;
            digests.insert(format!("{name}={}", path.display()), hex(&Sha256::digest(bytes)));
        }
        Ok(digests)
    }

    /// Reads the lists.
    pub(super) fn assignment(&self) -> Result<Assignment> {
        let names = self.names();
        let target = |name: &str| names.iter().position(|known| *known == name).unwrap_or(0);
        let mut assignment =
            Assignment { listed: HashMap::new(), others: Vec::new(), by_key: None };
        for (name, path) in &self.lists {
            let target = target(name);
            let text = regular::read_to_string(path).map_err(|error| Error::io(path, error))?;
            for key in text.lines().filter(|key| !key.is_empty()) {
                let known = assignment.listed.insert(key.to_owned(), (target, false));
                // A key that comes twice in one list means nothing else than once.
                if known.is_some_and(|(other, _)| other != target) {
                    let message = format!("the key {key:?} is in another list too");
                    return Err(Error::new(ErrorKind::Invalid, message).at(path));
                }
            }
        }
        let rest = [(REST.to_owned(), 1.0)];
        let shares = match self.ratios.is_empty() && self.is_split() {
            true => &rest,
            false => &self.ratios[..],
        };
        for (name, _) in shares {
            let target = target(name);
            if assignment.others.contains(&target) {
                let message = format!("has {name} twice");
                return Err(Error::new(ErrorKind::Invalid, message).with_option("split"));
            }
            assignment.others.push(target);
        }
        let ratios: Vec<f64> = shares.iter().map(|(_, share)| *share).collect();
        if !ratios.is_empty() {
            assignment.by_key = Some(ByKey::new(&ratios, &self.salt)?);
        }
        Ok(assignment)
    }
}

/// Which output gets which sample.
pub(super) struct Assignment {
    /// Keys in lists: where they go, and whether they were seen.
    listed: HashMap<String, (usize, bool)>,
    /// Where samples of other keys go.
    others: Vec<usize>,
    by_key: Option<ByKey>,
}

impl Assignment {
    /// Whether there are several targets, or one with a name of its own.
    pub(super) fn is_split(&self) -> bool {
        self.by_key.is_some()
    }

    /// The target of a sample.
    pub(super) fn of(&mut self, key: &str) -> usize {
        if let Some((target, seen)) = self.listed.get_mut(key) {
            *seen = true;
            return *target;
        }
        let other = self.by_key.as_ref().map(|by_key| by_key.part(key));
        other.and_then(|other| self.others.get(other)).copied().unwrap_or(0)
    }

    /// How many keys of the lists no sample has, and the first of them.
    pub(super) fn unused(&self) -> Option<(u64, &str)> {
        let unused = self.listed.iter().filter(|(_, (_, seen))| !seen).map(|(key, _)| &key[..]);
        let count = unused.clone().count() as u64;
        unused.min().map(|first| (count, first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_shares() {
        assert!(Split::new().ratio("train", 0.9).check().is_ok());
        for (name, share) in [("", 1.0), ("a/b", 1.0), ("a", 0.0), ("a", -1.0), ("a", f64::NAN)] {
            assert!(Split::new().ratio(name, share).check().is_err(), "{name} {share}");
        }
        assert!(Split::new().ratio("a", f64::INFINITY).check().is_err());
    }

    #[test]
    fn lists_come_before_ratios() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys.txt");
        std::fs::write(&path, "a\nb\n").unwrap();
        let split = Split::new().list("val", path);
        let mut assignment = split.assignment().unwrap();
        assert_eq!(split.paths(Path::new("x")), ["x-val", "x-rest"].map(PathBuf::from));
        assert_eq!(["a", "b", "c"].map(|key| assignment.of(key)), [0, 0, 1]);
        let split = split.ratio("train", 1.0).ratio("val", 1.0);
        let mut assignment = split.assignment().unwrap();
        assert_eq!(split.paths(Path::new("x")), ["x-val", "x-train"].map(PathBuf::from));
        assert!((0..99).all(|key| assignment.of(&key.to_string()) < 2));
        assert_eq!(Split::new().paths(Path::new("x")), [PathBuf::from("x")]);
    }
}
