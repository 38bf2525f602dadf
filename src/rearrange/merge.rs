//! [`Merge`]: several datasets into one.

use crate::error::Shown;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use super::{FEW, MergedLabels, copy_one, interleave, keys};
use crate::dataset::{DatasetReader, Writer, labels_path};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::reader::{Reader, at_reader, name_of, out_of_range};

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
    pub fn plan<'a, R: Reader>(&self, inputs: &'a [R]) -> Result<MergePlan<'a>> {
        let inputs: Vec<&dyn Reader> = inputs.iter().map(|input| input as &dyn Reader).collect();
        let lens: Vec<usize> = inputs.iter().map(|input| input.len()).collect();
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
        let labels = self.merged_labels(&inputs)?;
        Ok(MergePlan { inputs, order, labels, skip_duplicates: self.skip_duplicates })
    }

    /// The labels of all datasets together.
    fn merged_labels(&self, inputs: &[&dyn Reader]) -> Result<Labels> {
        if self.labels == MergeLabels::Drop {
            return Ok(Labels::None);
        }
        let found: Vec<Option<Vec<String>>> =
            inputs.iter().map(|input| input.labels()).collect::<Result<_>>()?;
        if self.labels == MergeLabels::Remap {
            let mut merged = MergedLabels::new();
            for (input, labels) in inputs.iter().zip(&found) {
                // Without names, no sample may have a label.
                let added = merged.add(labels.as_deref().unwrap_or_default());
                added.map_err(|error| match DatasetReader::of(*input) {
                    Some(dataset) => error.at(labels_path(dataset.path())),
                    None => at_reader(*input, error),
                })?;
            }
            return Ok(Labels::Renumbered(merged));
        }
        let first = found.first().cloned().flatten();
        match found.iter().position(|labels| *labels != first) {
            None => Ok(first.map_or(Labels::None, Labels::Same)),
            Some(at) => {
                let (one, other) = (Names::of(inputs, 0), Names::of(inputs, at));
                let message = difference(&one, first.as_deref(), &other, found[at].as_deref());
                Err(Error::new(ErrorKind::Invalid, message).with_remedy(Remedy::MergeLabels))
            }
        }
    }
}

/// Datasets that can be merged: see [`Merge::plan`].
pub struct MergePlan<'a> {
    inputs: Vec<&'a dyn Reader>,
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
            let (reader, index) = (self.inputs[input], next[input]);
            next[input] += 1;
            let copied = match &self.labels {
                Labels::Renumbered(labels) => labels.copy_one(input, reader, index, writer),
                _ => copy_one(reader, index, writer),
            };
            match copied {
                Err(error) if error.kind() != ErrorKind::DuplicateKey => return Err(error),
                Err(_) if self.skip_duplicates => skipped += 1,
                Err(_) => return Err(twice(&self.inputs, input, index, &next)?),
                Ok(()) => {}
            }
            if seen % FEW == 0 {
                progress(seen as u64)?;
            }
        }
        Ok(skipped)
    }

    /// Where each sample comes from, as the number of its input and the index there, in the order in which
    /// [`write`](Self::write) writes them, without writing any. Returns also how many were skipped because their keys
    /// come before. `progress` hears how many keys were read so far.
    ///
    /// The numbers of labels are not looked at: where [`renumbers`](Self::renumbers) is true, these samples are not
    /// what would be written.
    ///
    /// # Errors
    ///
    /// Those of the readers and of `progress`, and [`DuplicateKey`](ErrorKind::DuplicateKey) as for
    /// [`write`](Self::write).
    pub fn places(
        self,
        mut progress: impl FnMut(u64) -> Result<()>,
    ) -> Result<(Vec<(usize, usize)>, u64)> {
        let mut next = vec![0; self.inputs.len()];
        let mut places: Vec<(usize, usize)> = Vec::new();
        let mut keys: Vec<_> = self.inputs.iter().map(|input| keys(*input)).collect();
        let hasher = RandomState::new();
        let mut hashes: Vec<(u64, usize)> = Vec::new();
        for (seen, input) in self.order.enumerate() {
            let place = (input, next[input]);
            next[input] += 1;
            let key = keys[input].next().ok_or_else(|| out_of_range(place.1, place.1))??;
            hashes.push((hasher.hash_one(&*key), seen));
            places.push(place);
            if seen % FEW == 0 {
                progress(seen as u64)?;
            }
        }
        // Keys are compared only where their hashes are the same.
        hashes.sort_unstable();
        let mut later = HashSet::new();
        for same in hashes.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
            let mut keys = HashSet::new();
            for &(_, at) in same {
                let (input, index) = places[at];
                if !keys.insert(self.inputs[input].key(index)?) {
                    later.insert(at);
                }
            }
        }
        drop(hashes);
        if let (Some(&first), false) = (later.iter().min(), self.skip_duplicates) {
            let (input, index) = places[first];
            let mut next = vec![0; self.inputs.len()];
            places[..=first].iter().for_each(|(input, _)| next[*input] += 1);
            return Err(twice(&self.inputs, input, index, &next)?);
        }
        let skipped = later.len() as u64;
        if skipped > 0 {
            let mut at = 0..;
            places.retain(|_| at.next().is_some_and(|at| !later.contains(&at)));
        }
        Ok((places, skipped))
    }

    /// Whether [`write`](Self::write) changes numbers of labels, so that samples are not the bytes they are in their
    /// inputs.
    pub fn renumbers(&self) -> bool {
        matches!(&self.labels, Labels::Renumbered(labels) if labels.changes())
    }
}

/// The error about a sample whose key was there before.
fn twice(inputs: &[&dyn Reader], input: usize, index: usize, next: &[usize]) -> Result<Error> {
    let place = |reader: &dyn Reader, index: usize| match reader.name() {
        Some(name) => format!("{}: sample {index}", Shown::of(&name)),
        None => reader.locate(index).to_string(),
    };
    let reader = inputs[input];
    let key = reader.key(index)?;
    // Where it was written from: another input, or the same one under another name.
    let mut others = inputs.iter().enumerate().filter(|(other, _)| *other != input);
    let first = others.find_map(|(other, reader)| {
        let index = reader.find(&key).ok().flatten()?;
        (index < next[other]).then_some((*reader, index))
    });
    let second = place(reader, index);
    let Some((other, at)) = first else {
        let message = format!("comes twice: {second} and {second}");
        return Ok(Error::new(ErrorKind::DuplicateKey, message).with_key(key));
    };
    let is_same = other.get_raw(at)? == reader.get_raw(index)?;
    let (verb, remedy) = match is_same {
        true => ("comes twice", Remedy::SkipDuplicates),
        false => ("belongs to two different samples", Remedy::ShardInKey),
    };
    let message = format!("{verb}: {} and {second}", place(other, at));
    Ok(Error::new(ErrorKind::DuplicateKey, message).with_key(key).with_remedy(remedy))
}

/// What has the names of labels, in messages.
enum Names {
    /// A file that a dataset has or lacks.
    File(String),
    /// A reader of other kind.
    Reader(String),
}

impl Names {
    fn of(inputs: &[&dyn Reader], input: usize) -> Names {
        if let Some(dataset) = DatasetReader::of(inputs[input]) {
            return Names::File(Shown::of(&labels_path(dataset.path())).to_string());
        }
        Names::Reader(match name_of(inputs[input]) {
            Some(name) => Shown::of(&name).to_string(),
            None => format!("input {input}"),
        })
    }

    fn name(&self) -> &str {
        match self {
            Names::File(name) | Names::Reader(name) => name,
        }
    }

    fn are_there(&self) -> String {
        match self {
            Names::File(name) => format!("{name} exists"),
            Names::Reader(name) => format!("{name} has names of labels"),
        }
    }

    fn are_not(&self) -> String {
        match self {
            Names::File(name) => format!("{name} does not"),
            Names::Reader(name) => format!("{name} has none"),
        }
    }
}

/// How the labels of two datasets differ.
fn difference(a: &Names, names: Option<&[String]>, b: &Names, others: Option<&[String]>) -> String {
    let meaning = "so a number does not mean the same";
    match (names, others) {
        (Some(names), Some(others)) => {
            let at = names.iter().zip(others).position(|(a, b)| a != b);
            let at = at.unwrap_or(names.len().min(others.len()));
            let name =
                |names: &[String]| names.get(at).map_or("none".to_owned(), |n| format!("{n:?}"));
            let (name, another) = (name(names), name(others));
            let (file, other) = (a.name(), b.name());
            format!("label {at} is {name} in {file}, but {another} in {other}, {meaning}")
        }
        (Some(_), _) => format!("{}, but {}, {meaning}", a.are_there(), b.are_not()),
        _ => format!("{}, but {}, {meaning}", b.are_there(), a.are_not()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::reader::{ListReader, ReaderExt};

    fn of(keys: &[&str]) -> ListReader {
        ListReader::pack(keys.iter().map(|key| BTreeMap::from([("key", *key)]))).unwrap()
    }

    fn write(plan: MergePlan<'_>) -> Result<(Vec<String>, u64)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("merged");
        let mut writer = Writer::options().durable(false).create(&path)?;
        let skipped = match plan.write(&mut writer, |_| Ok(())) {
            Ok(skipped) => skipped,
            Err(error) => {
                writer.abort()?;
                return Err(error);
            }
        };
        writer.finish()?;
        let made = DatasetReader::open(&path)?;
        let keys = made.keys().map(|key| Ok(key?.into_owned()));
        Ok((keys.collect::<Result<_>>()?, skipped))
    }

    #[test]
    fn places_are_those_that_are_written() {
        let inputs = [of(&["a", "b", "c", "d"]), of(&["e", "c"]), of(&["f", "a", "g", "h", "e"])];
        let weights = vec![1.0, 3.0, 2.0];
        for order in [
            MergeOrder::Concat,
            MergeOrder::Random { seed: 7 },
            MergeOrder::Weighted { weights, seed: 7 },
        ] {
            let merge = Merge::default().order(order).skip_duplicates(true);
            let (places, skipped) = merge.plan(&inputs).unwrap().places(|_| Ok(())).unwrap();
            let key = |&(input, at): &(usize, usize)| inputs[input].key(at).unwrap().into_owned();
            let keys: Vec<String> = places.iter().map(key).collect();
            assert_eq!((keys, skipped), write(merge.plan(&inputs).unwrap()).unwrap());
            assert_eq!(skipped, 3);
            let merge = merge.skip_duplicates(false);
            let said = merge.plan(&inputs).unwrap().places(|_| Ok(())).unwrap_err();
            let expected = write(merge.plan(&inputs).unwrap()).unwrap_err();
            assert_eq!(said.to_string(), expected.to_string());
            assert_eq!((said.kind(), said.key()), (ErrorKind::DuplicateKey, expected.key()));
        }
        let parts = [(&inputs[0]).range(..2), (&inputs[0]).range(2..)];
        let (places, _) = Merge::default().plan(&parts).unwrap().places(|_| Ok(())).unwrap();
        assert_eq!(places, [(0, 0), (0, 1), (1, 0), (1, 1)]);
    }

    #[test]
    fn labels_of_readers_without_a_file_are_compared() {
        struct Labelled(ListReader, Option<Vec<String>>);
        impl Reader for Labelled {
            fn len(&self) -> usize {
                self.0.len()
            }
            fn key(&self, index: usize) -> Result<std::borrow::Cow<'_, str>> {
                self.0.key(index)
            }
            fn find(&self, key: &str) -> Result<Option<usize>> {
                self.0.find(key)
            }
            fn get_raw(&self, index: usize) -> Result<std::borrow::Cow<'_, [u8]>> {
                self.0.get_raw(index)
            }
            fn labels(&self) -> Result<Option<Vec<String>>> {
                Ok(self.1.clone())
            }
        }
        let labelled = |key, names: Option<&[&str]>| {
            Labelled(of(&[key]), names.map(|names| names.iter().map(|&n| n.to_owned()).collect()))
        };
        let inputs = [labelled("a", Some(&["cat"])), labelled("b", None)];
        let error = Merge::default().plan(&inputs).map(drop).unwrap_err();
        let says = "input 0 has names of labels, but input 1 has none, so a number";
        assert!(error.to_string().contains(says), "{error}");
        let inputs = [labelled("a", Some(&["cat"])), labelled("b", Some(&["dog"]))];
        let remap = Merge::default().labels(MergeLabels::Remap);
        assert!(remap.plan(&inputs).unwrap().renumbers());
        assert!(!remap.plan(&inputs[..1]).unwrap().renumbers());
    }
}
