//! `--split` and `--shuffle`: samples dealt out to several datasets, and in which order.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use kiste::rearrange::ByKey;
use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};

use super::plan;
use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::{file, units};

/// The samples that are in no list, where nothing else is said.
const REST: &str = "rest";

/// Which dataset a sample goes to, and in which order they are there.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Splitting")]
pub(super) struct Splitting {
    /// Make several datasets in these ratios, such as train=0.9,val=0.1: DST-train.EXT and so on. A
    /// digest of its key decides where a sample goes, so it is the same however many there are
    #[arg(long, value_name = "NAME=RATIO,...", value_delimiter = ',', value_parser = share)]
    split: Vec<(String, f64)>,
    /// The samples whose keys are in this file, one a line, go to DST-NAME; the others as --split
    /// says, or to DST-rest. May be given several times
    #[arg(long, value_name = "NAME=FILE", value_parser = list)]
    split_list: Vec<(String, PathBuf)>,
    /// Another text deals out otherwise
    #[arg(long, value_name = "TEXT", requires = "split", default_value = "")]
    split_salt: String,
    /// Write the samples in random order; needs room for all of them twice meanwhile
    #[arg(long)]
    pub(super) shuffle: bool,
    /// With --shuffle: another seed is another order
    #[arg(long, value_name = "S", requires = "shuffle", default_value_t = 0)]
    pub(super) seed: u64,
}

fn share(text: &str) -> Result<(String, f64), String> {
    let pair = text.split_once('=').and_then(|(name, share)| Some((name, share.parse().ok()?)));
    match pair {
        Some((name, share)) if is_name(name) && share > 0.0 && f64::is_finite(share) => {
            Ok((name.to_owned(), share))
        }
        _ => Err("expected NAME=RATIO such as train=0.9".to_owned()),
    }
}

fn list(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if is_name(name) && !path.is_empty() => {
            Ok((name.to_owned(), PathBuf::from(path)))
        }
        _ => Err("expected NAME=FILE such as val=val-keys.txt".to_owned()),
    }
}

/// Whether this may be in the name of a file.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "._-+".contains(c))
}

impl Splitting {
    /// Whether there are several datasets.
    pub(super) fn is_split(&self) -> bool {
        !self.split.is_empty() || !self.split_list.is_empty()
    }

    /// Whether samples can only be brought to their places when all of them are there.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_split() || self.shuffle
    }

    /// The digests of the lists, for the plan: they must be the same at the end.
    pub(super) fn digests(&self) -> Outcome<Json> {
        let mut digests = Map::new();
        for (name, path) in &self.split_list {
            let bytes = file::read(path)?;
            let digest = plan::hex(&Sha256::digest(bytes));
            digests.insert(format!("{name}={}", path.display()), digest.into());
        }
        Ok(digests.into())
    }

    /// Reads the lists.
    pub(super) fn deal(&self) -> Outcome<Deal> {
        let mut deal =
            Deal { names: Vec::new(), listed: HashMap::new(), others: Vec::new(), by_key: None };
        for (name, path) in &self.split_list {
            let target = deal.target(name);
            let text = file::read_to_string(path)?;
            for key in text.lines().filter(|key| !key.is_empty()) {
                let known = deal.listed.insert(key.to_owned(), (target, false));
                if known.is_some_and(|(other, _)| other != target) {
                    let path = path.display();
                    let message = format!("{path}: the key {key:?} is in another list too");
                    return Err(Failure::trouble(message));
                }
            }
        }
        let rest = [(REST.to_owned(), 1.0)];
        let shares = if self.split.is_empty() && self.is_split() { &rest } else { &self.split[..] };
        for (name, _) in shares {
            let target = deal.target(name);
            if deal.others.contains(&target) {
                return Err(Failure::trouble(format!("--split: {name} is there twice")));
            }
            deal.others.push(target);
        }
        let ratios: Vec<f64> = shares.iter().map(|(_, share)| *share).collect();
        if !ratios.is_empty() {
            deal.by_key = Some(ByKey::new(&ratios, &self.split_salt)?);
        }
        Ok(deal)
    }
}

/// Who gets which sample.
pub(super) struct Deal {
    names: Vec<String>,
    /// Keys in lists: where they go, and whether they were seen.
    listed: HashMap<String, (usize, bool)>,
    /// The targets of those that are in none.
    others: Vec<usize>,
    by_key: Option<ByKey>,
}

impl Deal {
    /// The number of a name.
    fn target(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }

    /// The data files of all targets: DST itself, if that is the only one.
    pub(super) fn paths(&self, dataset: &Path) -> Vec<PathBuf> {
        match self.by_key {
            Some(_) => self.names.iter().map(|name| named(dataset, name)).collect(),
            None => vec![dataset.to_path_buf()],
        }
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

    /// Says how many keys of the lists are none of any sample.
    pub(super) fn tell_unseen(&self, output: &Output) {
        let unseen = self.listed.iter().filter(|(_, (_, seen))| !seen).map(|(key, _)| key);
        let (count, first) = (unseen.clone().count() as u64, unseen.min());
        if let Some(first) = first {
            let keys = units::counted(count, "key");
            output.warn(format_args!("--split-list: no samples for {keys}, such as {first:?}"));
        }
    }
}

/// `dir/ROOT-NAME.EXT` for `dir/ROOT.EXT`.
fn named(dataset: &Path, name: &str) -> PathBuf {
    let mut file = dataset.file_stem().unwrap_or_default().to_os_string();
    file.push(format!("-{name}"));
    if let Some(extension) = dataset.extension() {
        file.push(".");
        file.push(extension);
    }
    dataset.with_file_name(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_shares() {
        assert_eq!(share("train=0.9"), Ok(("train".to_owned(), 0.9)));
        for wrong in ["train", "=1", "a/b=1", "train=-1", "train=0", "train=nan", "train=inf"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        assert!(list("val=a=b").is_ok() && list("val=").is_err());
        assert_eq!(named(Path::new("a/b.msgpack"), "val"), Path::new("a/b-val.msgpack"));
    }

    #[test]
    fn lists_come_before_ratios() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys.txt");
        std::fs::write(&path, "a\nb\n").unwrap();
        let mut splitting =
            Splitting { split_list: vec![("val".into(), path)], ..Splitting::default() };
        let mut deal = splitting.deal().unwrap();
        assert_eq!(deal.paths(Path::new("x")), ["x-val", "x-rest"].map(PathBuf::from));
        assert_eq!(["a", "b", "c"].map(|key| deal.of(key)), [0, 0, 1]);
        splitting.split = vec![("train".into(), 1.0)];
        assert_eq!(
            splitting.deal().unwrap().paths(Path::new("x")),
            ["x-val", "x-train"].map(PathBuf::from)
        );
    }
}
