//! Splits that the sources have: which of them are read, and what that makes of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::conversion::Conversion;
use super::format::Format;
use super::kept_fields::KeptFields;
use super::layout::{Group, Layout};
use super::natural_order;
use super::source_patterns;
use crate::error::{Error, ErrorKind, Remedy, Result};

/// Stands in the name of an output for the name of a split.
const SPLIT: &str = "{split}";

/// Sources by their splits.
pub(super) struct Splits {
    /// One group without a split, or one for each.
    pub(super) groups: Vec<Group>,
    /// Whether all have the same paths, and the format knows the split of each sample.
    pub(super) are_inside: bool,
}

impl Splits {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().filter_map(|group| group.split.as_deref())
    }
}

impl Conversion {
    /// A conversion for each split of the sources, in natural order, if the name of the output has `{split}`: to the
    /// output with the name of the split in its place. Otherwise this conversion alone.
    ///
    /// Labels have the same numbers in all of them.
    ///
    /// ```
    /// use kiste::convert::{Conversion, Silent};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let words = dir.path().join("words");
    /// # std::fs::create_dir(&words)?;
    /// std::fs::write(words.join("train.jsonl"), "{\"key\": \"a\"}\n{\"key\": \"b\"}\n")?;
    /// std::fs::write(words.join("test.jsonl"), "{\"key\": \"c\"}\n")?;
    /// let conversion = Conversion::new([&words], dir.path().join("words-{split}.msgpack"));
    /// let samples: Vec<u64> = (conversion.each_split()?.iter())
    ///     .map(|split| Ok(split.run(&mut Silent)?.outputs[0].samples))
    ///     .collect::<kiste::Result<_>>()?;
    /// assert_eq!(samples, [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the sources have no splits, and the errors of opening them.
    pub fn each_split(&self) -> Result<Vec<Conversion>> {
        let Some(output) = self.output.to_str().filter(|name| name.contains(SPLIT)) else {
            return Ok(vec![self.clone()]);
        };
        let paths = source_patterns::expand(
            &self.sources,
            self.options.from,
            self.options.read.asks_for_images(),
        )?;
        let Layout { format, groups, .. } = Layout::of(&paths, self.options.from)?;
        let splits = self.splits_of(format, groups, &self.options.kept_fields())?;
        self.check_names(&splits)?;
        let asked = &self.options.read.splits;
        let mut names: Vec<&str> =
            splits.names().filter(|name| asked.is_empty() || is_one_of(asked, name)).collect();
        names.sort_by(|a, b| natural_order(a, b));
        if names.is_empty() {
            let message =
                format!("expected splits for {SPLIT} in the name of the output, found none");
            return Err(Error::new(ErrorKind::Invalid, message).at(&paths[0]));
        }
        // The second of them would read the first.
        let parent = self.output.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new(".")).canonicalize().ok();
        let is_inside = |source: &&PathBuf| {
            let source = source.canonicalize().ok().filter(|source| source.is_dir());
            source.zip(parent.as_ref()).is_some_and(|(source, parent)| parent.starts_with(source))
        };
        if let Some(source) = self.sources.iter().find(is_inside) {
            let message =
                format!("expected outputs outside of {}, which is read", source.display());
            return Err(Error::new(ErrorKind::Invalid, message).at(&self.output));
        }
        let each = names.into_iter().map(|name| {
            let mut one = self.clone();
            one.options.read.splits = vec![name.to_owned()];
            one.output = PathBuf::from(output.replace(SPLIT, name));
            one
        });
        Ok(each.collect())
    }

    /// Fails for an output of each split, which is the output of several conversions.
    pub(super) fn check_is_one(&self) -> Result<()> {
        match self.output.to_str().is_some_and(|name| name.contains(SPLIT)) {
            true => {
                let message = format!(
                    "{SPLIT} is the name of one split of several, which are converted one by one"
                );
                Err(Error::new(ErrorKind::Invalid, message)
                    .at(&self.output)
                    .advise("name one split, and its output"))
            }
            false => Ok(()),
        }
    }

    /// The splits of the sources: of their folders, or inside them.
    pub(super) fn splits_of(
        &self,
        format: Format,
        groups: Vec<Group>,
        kept: &KeptFields,
    ) -> Result<Splits> {
        let inside_of = |group: &Group| (format.def().splits)(&self.opening(&group.paths, kept));
        let inside = match &groups[..] {
            [group @ Group { split: None, .. }] => inside_of(group)?,
            _ => Vec::new(),
        };
        for group in groups.iter().filter(|group| group.prefix.is_some()) {
            if !inside_of(group)?.is_empty() {
                let message = "has splits, which are not mixed with other folders";
                return Err(Error::new(ErrorKind::Invalid, message)
                    .at(&group.paths[0])
                    .advise("convert the folders one by one"));
            }
        }
        if inside.is_empty() {
            return Ok(Splits { groups, are_inside: false });
        }
        let group =
            |split| Group { split: Some(split), paths: groups[0].paths.clone(), prefix: None };
        Ok(Splits { groups: inside.into_iter().map(group).collect(), are_inside: true })
    }

    /// The groups that are read.
    pub(super) fn chosen<'a>(&self, splits: &'a Splits) -> Result<Vec<&'a Group>> {
        self.check_names(splits)?;
        let (read, groups) = (&self.options.read, &splits.groups);
        let is_asked = |group: &&Group| match &group.split {
            Some(split) if !read.splits.is_empty() => is_one_of(&read.splits, split),
            _ => true,
        };
        let chosen: Vec<&Group> = groups.iter().filter(is_asked).collect();
        if chosen.len() < 2 || read.merge_splits || splits.names().next().is_none() {
            return Ok(chosen);
        }
        let names: Vec<String> = chosen.iter().filter_map(|group| group.split.clone()).collect();
        let message =
            format!("has {} splits, which are not mixed: {}", names.len(), names.join(", "));
        let remedy = Remedy::ChooseSplit { output: self.output.clone(), splits: names };
        Err(Error::new(ErrorKind::Invalid, message).at(&self.sources[0]).with_remedy(remedy))
    }

    /// Fails for names of splits that the sources do not have.
    fn check_names(&self, splits: &Splits) -> Result<()> {
        let read = &self.options.read;
        let names: Vec<&str> = splits.names().collect();
        let wrong = |option, message: String| {
            Err(Error::new(ErrorKind::Invalid, message).with_option(option))
        };
        if names.is_empty() {
            return match (read.splits.first(), read.merge_splits) {
                (Some(split), _) => {
                    wrong("splits", format!("asks for {split:?}, but the source has no splits"))
                }
                (None, true) => wrong("merge_splits", "is for sources that have splits".to_owned()),
                (None, false) => Ok(()),
            };
        }
        if let Some(split) = read.splits.iter().find(|split| !names.contains(&&***split)) {
            let message =
                format!("asks for {split:?}, but the source only has {}", names.join(", "));
            return wrong("splits", message);
        }
        let is_unsafe =
            |name: &&&str| name.contains(['/', '\\']) || [".", "..", ""].contains(*name);
        match names.iter().find(is_unsafe) {
            Some(name) => {
                let message =
                    format!("expected a split whose name can be part of a file's, found {name:?}");
                Err(Error::new(ErrorKind::Invalid, message).at(&self.sources[0]))
            }
            None => Ok(()),
        }
    }

    /// The names of the labels of all splits, where a format knows both: so that a label has one number in all.
    pub(super) fn labels_of(
        &self,
        format: Format,
        splits: &Splits,
        kept: &KeptFields,
    ) -> Result<Option<Vec<String>>> {
        if format != Format::Images || splits.groups.len() < 2 {
            return Ok(None);
        }
        let mut labels = BTreeSet::new();
        for group in &splits.groups {
            let mut opening = self.opening(&group.paths, kept);
            opening.split = group.split.as_deref().filter(|_| splits.are_inside);
            let samples = (format.def().open)(&mut opening)?;
            labels.extend(samples.label_names().unwrap_or_default().iter().cloned());
        }
        let mut labels: Vec<String> = labels.into_iter().collect();
        labels.sort_by(|a, b| natural_order(a, b));
        Ok(Some(labels))
    }
}

fn is_one_of(asked: &[String], split: &str) -> bool {
    asked.iter().any(|name| name == split)
}
