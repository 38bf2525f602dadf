//! [`Merge`]: several datasets into one.

use crate::error::Shown;
use std::path::Path;

use super::{FEW, MergedLabels, copy_one, interleave};
use crate::dataset::{DatasetReader, Writer, labels_path};
use crate::error::{Error, ErrorKind, Remedy, Result};

/// How several datasets become one.
///
/// ```
/// use std::collections::BTreeMap;
/// use kiste::rearrange::Merge;
/// use kiste::{DatasetReader, Writer};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = |name: &str| dir.path().join(name);
/// for name in ["day.msgpack", "night.msgpack"] {
///     let mut writer = Writer::create(path(name))?;
///     writer.write(&BTreeMap::from([("key", name)]))?;
///     writer.finish()?;
/// }
/// let inputs = [DatasetReader::open(path("day.msgpack"))?, DatasetReader::open(path("night.msgpack"))?];
/// let mut writer = Writer::create(path("both.msgpack"))?;
/// Merge::default().plan(&inputs)?.write(&mut writer, |_| Ok(()))?;
/// assert_eq!(writer.finish()?.samples, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Merge {
    order: MergeOrder,
    labels: MergeLabels,
    skip_duplicates: bool,
}

/// From which dataset the next sample is taken. Samples of one dataset stay in their order.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum MergeOrder {
    /// One dataset after the other.
    #[default]
    Concat,
    /// Every interleaving is as likely as any other.
    Random {
        /// Another seed is another interleaving.
        seed: u64,
    },
    /// A dataset is drawn by these weights for each sample; those that are exhausted are left out.
    Weighted {
        /// One for each dataset.
        weights: Vec<f64>,
        /// Another seed is another interleaving.
        seed: u64,
    },
}

/// How the names of the numeric labels in the field `label` are merged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeLabels {
    /// All datasets must have the same names, or none.
    #[default]
    Same,
    /// The numbers change to positions in one list of all names; see [`MergedLabels`].
    Remap,
    /// The numbers stay, and there are no names.
    Drop,
}

impl Merge {
    /// From which dataset the next sample is taken. Default: one after the other.
    pub fn order(mut self, order: MergeOrder) -> Merge {
        self.order = order;
        self
    }

    /// How the names of labels are merged. Default: they must be the same.
    pub fn labels(mut self, labels: MergeLabels) -> Merge {
        self.labels = labels;
        self
    }

    /// Whether a sample is skipped whose key was there before. Default: no, it is an error.
    pub fn skip_duplicates(mut self, skip: bool) -> Merge {
        self.skip_duplicates = skip;
        self
    }

    /// Compares the labels of the datasets, and draws their order.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the names of labels differ, or two labels of one dataset have
    /// one name, or for weights that make no sense.
    pub fn plan<'a>(&self, inputs: &'a [DatasetReader]) -> Result<MergePlan<'a>> {
        let lens: Vec<usize> = inputs.iter().map(DatasetReader::len).collect();
        let order: Box<dyn Iterator<Item = usize> + Send> = match &self.order {
            MergeOrder::Concat => {
                let inputs = lens.into_iter().enumerate();
                Box::new(inputs.flat_map(|(input, len)| std::iter::repeat_n(input, len)))
            }
            MergeOrder::Random { seed } => Box::new(interleave(&lens, None, *seed)?),
            MergeOrder::Weighted { weights, seed } => {
                Box::new(interleave(&lens, Some(weights), *seed)?)
            }
        };
        let labels = self.merged_labels(inputs)?;
        Ok(MergePlan { inputs, order, labels, skip_duplicates: self.skip_duplicates })
    }

    /// The labels of all datasets together.
    fn merged_labels(&self, inputs: &[DatasetReader]) -> Result<Labels> {
        if self.labels == MergeLabels::Drop {
            return Ok(Labels::None);
        }
        let found: Vec<Option<Vec<String>>> =
            inputs.iter().map(DatasetReader::labels).collect::<Result<_>>()?;
        if self.labels == MergeLabels::Remap {
            let mut merged = MergedLabels::new();
            for (input, labels) in inputs.iter().zip(&found) {
                // Without names, no sample may have a label.
                let added = merged.add(labels.as_deref().unwrap_or_default());
                added.map_err(|error| error.at(labels_path(input.path())))?;
            }
            return Ok(Labels::Renumbered(merged));
        }
        let first = found.first().cloned().flatten();
        match found.iter().position(|labels| *labels != first) {
            None => Ok(first.map_or(Labels::None, Labels::Same)),
            Some(at) => {
                let (one, other) = (inputs[0].path(), inputs[at].path());
                let message = difference(one, first.as_deref(), other, found[at].as_deref());
                Err(Error::new(ErrorKind::Invalid, message).with_remedy(Remedy::MergeLabels))
            }
        }
    }
}

/// Datasets that can be merged: see [`Merge::plan`].
pub struct MergePlan<'a> {
    inputs: &'a [DatasetReader],
    order: Box<dyn Iterator<Item = usize> + Send>,
    labels: Labels,
    skip_duplicates: bool,
}

/// The labels of the new dataset.
enum Labels {
    None,
    /// Those of all inputs.
    Same(Vec<String>),
    Renumbered(MergedLabels),
}

impl MergePlan<'_> {
    /// The names that the labels of the new dataset have, in the order of their numbers, from 0.
    pub fn labels(&self) -> Option<&[String]> {
        match &self.labels {
            Labels::None => None,
            Labels::Same(names) => Some(names),
            Labels::Renumbered(labels) => Some(labels.names()),
        }
    }

    /// Writes all samples as the bytes they are, and sets the names of the labels. `progress` hears how
    /// many were read so far; an error of it ends the merge. Returns how many were skipped because their
    /// keys were there before.
    ///
    /// # Errors
    ///
    /// The errors of [`copy_one`] and of `progress`; [`DuplicateKey`](ErrorKind::DuplicateKey) for a key that
    /// comes twice, unless these are skipped, and [`Invalid`](ErrorKind::Invalid) for a label that is
    /// not the number of a name.
    pub fn write(
        self,
        writer: &mut Writer,
        mut progress: impl FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        writer.set_labels(self.labels())?;
        let mut next = vec![0; self.inputs.len()];
        let mut skipped = 0;
        for (seen, input) in self.order.enumerate() {
            let (reader, index) = (&self.inputs[input], next[input]);
            next[input] += 1;
            let copied = match &self.labels {
                Labels::Renumbered(labels) => labels.copy_one(input, reader, index, writer),
                _ => copy_one(reader, index, writer),
            };
            match copied {
                Err(error) if error.kind() != ErrorKind::DuplicateKey => return Err(error),
                Err(_) if self.skip_duplicates => skipped += 1,
                Err(_) => return Err(twice(self.inputs, input, index, &next)?),
                Ok(()) => {}
            }
            if seen % FEW == 0 {
                progress(seen as u64)?;
            }
        }
        Ok(skipped)
    }
}

/// The error about a sample whose key was written before.
fn twice(inputs: &[DatasetReader], input: usize, index: usize, next: &[usize]) -> Result<Error> {
    let place = |reader: &DatasetReader, index: usize| {
        format!("{}: sample {index}", Shown::of(&reader.path()))
    };
    let reader = &inputs[input];
    let key = reader.key(index)?;
    // Where it was written from: another input, or the same one under another name.
    let mut others = inputs.iter().enumerate().filter(|(other, _)| *other != input);
    let first = others.find_map(|(other, reader)| {
        let index = reader.find(&key).ok().flatten()?;
        (index < next[other]).then_some((reader, index))
    });
    let second = place(reader, index);
    let Some((other, at)) = first else {
        let message = format!("key {key:?} comes twice: {second} and {second}");
        return Ok(Error::new(ErrorKind::DuplicateKey, message));
    };
    let is_same = other.get_raw(at)? == reader.get_raw(index)?;
    let (verb, remedy) = match is_same {
        true => ("comes twice", Remedy::SkipDuplicates),
        false => ("belongs to two different samples", Remedy::ShardInKey),
    };
    let message = format!("key {key:?} {verb}: {} and {second}", place(other, at));
    Ok(Error::new(ErrorKind::DuplicateKey, message).with_remedy(remedy))
}

/// How the labels of two datasets differ.
fn difference(a: &Path, names: Option<&[String]>, b: &Path, others: Option<&[String]>) -> String {
    let (file, other) = (labels_path(a), labels_path(b));
    let (file, other) = (Shown::of(&file), Shown::of(&other));
    let meaning = "so a number does not mean the same";
    match (names, others) {
        (Some(names), Some(others)) => {
            let at = names.iter().zip(others).position(|(a, b)| a != b);
            let at = at.unwrap_or(names.len().min(others.len()));
            let name =
                |names: &[String]| names.get(at).map_or("none".to_owned(), |n| format!("{n:?}"));
            let (name, another) = (name(names), name(others));
            format!("label {at} is {name} in {file}, but {another} in {other}, {meaning}")
        }
        (Some(_), _) => format!("{file} exists, but {other} does not, {meaning}"),
        _ => format!("{other} exists, but {file} does not, {meaning}"),
    }
}
