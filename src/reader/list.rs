//! [`ListReader`]: samples from memory.

use std::borrow::Cow;

use serde::Serialize;

use super::key_index::KeyIndex;
use super::labels::{LabelMap, Labels};
use super::{Reader, out_of_range};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, Value};

/// How to make a [`ListReader`].
#[derive(Debug, Clone)]
pub struct ListOptions {
    labels: Labels,
    numeric: bool,
}

impl Default for ListOptions {
    fn default() -> Self {
        ListOptions { labels: Labels::Sorted, numeric: true }
    }
}

impl ListOptions {
    /// Which labels there are. Default: all that occur, sorted.
    pub fn labels(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
    }

    /// Whether a `label` becomes its number, and is kept as `_label`. Default: yes.
    pub fn numeric_labels(mut self, numeric: bool) -> Self {
        self.numeric = numeric;
        self
    }

    /// Makes a reader of these samples, which must be maps. One without a `key` gets its index.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for what is no sample, and a label that is not among those
    /// given; [`DuplicateKey`](ErrorKind::DuplicateKey).
    pub fn build(self, samples: impl IntoIterator<Item = Value>) -> Result<ListReader> {
        let at = |index: usize| move |e: Error| e.with_index(index as u64);
        let mut maps = Vec::new();
        for (index, sample) in samples.into_iter().enumerate() {
            maps.push(fields(sample).map_err(at(index))?);
        }
        let occurring = maps.iter().filter_map(|fields| get(fields, "label"));
        let labels = LabelMap::new(&self.labels, occurring, self.numeric)?;
        let (mut keys, mut packed) = (Vec::new(), Vec::new());
        for (index, mut fields) in maps.into_iter().enumerate() {
            keys.push(take_key(&mut fields, index).map_err(at(index))?);
            if self.numeric {
                number_label(&mut fields, &labels).map_err(at(index))?;
            }
            let sample = msgpack::to_vec(&Value::Map(fields));
            packed.push(sample.map_err(|e| at(index)(e.into()))?);
        }
        let by_key = KeyIndex::build(keys.len(), |index| &keys[index])?;
        let is_numeric = self.numeric && !labels.labels().is_empty();
        Ok(ListReader { keys, packed, by_key, labels, is_numeric })
    }
}

/// Samples from memory.
///
/// They are packed when they come in. If they have a `label`, it is replaced by its number among
/// all labels, and kept as `_label`: see [`ListOptions`].
///
/// ```
/// use kiste::reader::{ListReader, Reader};
/// use std::collections::BTreeMap;
///
/// let animals = ListReader::pack([
///     BTreeMap::from([("key", "rex"), ("label", "dog")]),
///     BTreeMap::from([("key", "tom"), ("label", "cat")]),
/// ])?;
/// let rex = animals.get(0)?;
/// assert_eq!(rex["label"].as_u64(), Some(1));
/// assert_eq!(rex["_label"].as_str(), Some("dog"));
/// assert_eq!(animals.label_values(), ["cat".into(), "dog".into()]);
/// # Ok::<(), kiste::Error>(())
/// ```
pub struct ListReader {
    keys: Vec<String>,
    packed: Vec<Vec<u8>>,
    by_key: KeyIndex,
    labels: LabelMap,
    /// The labels of the samples are their numbers.
    is_numeric: bool,
}

impl ListReader {
    /// A reader of these samples. See [`ListOptions::build`].
    pub fn new(samples: impl IntoIterator<Item = Value>) -> Result<ListReader> {
        ListReader::options().build(samples)
    }

    /// A reader of samples of a type of yours.
    pub fn pack<T: Serialize>(samples: impl IntoIterator<Item = T>) -> Result<ListReader> {
        let value = |(index, sample): (usize, T)| {
            let packed = msgpack::pack(&sample).map_err(|e| e.with_index(index as u64))?;
            msgpack::decode(&packed)
                .map_err(|e| Error::new(ErrorKind::Invalid, e.to_string()).with_index(index as u64))
        };
        let samples: Vec<Value> =
            samples.into_iter().enumerate().map(value).collect::<Result<_>>()?;
        ListReader::new(samples)
    }

    /// The options, to be changed before [`build`](ListOptions::build).
    pub fn options() -> ListOptions {
        ListOptions::default()
    }

    /// All labels by their numbers.
    pub fn label_values(&self) -> &[Value] {
        self.labels.labels()
    }
}

impl Reader for ListReader {
    fn len(&self) -> usize {
        self.keys.len()
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        let key = self.keys.get(index).ok_or_else(|| out_of_range(index, self.len()))?;
        Ok(Cow::Borrowed(key))
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        Ok(self.by_key.find(|index| self.keys[index].as_str().cmp(key)))
    }

    fn may_repeat_keys(&self) -> bool {
        false
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        let packed = self.packed.get(index).ok_or_else(|| out_of_range(index, self.len()))?;
        Ok(Cow::Borrowed(packed))
    }

    fn labels(&self) -> Result<Option<Vec<String>>> {
        Ok(self.is_numeric.then(|| self.labels.names()))
    }
}

fn fields(sample: Value) -> Result<Vec<(Value, Value)>> {
    match sample {
        Value::Map(fields) => Ok(fields),
        other => {
            let message = format!("expected a sample, which is a map, found {other}");
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

/// Where a field is; of several with one name the last counts.
fn position(fields: &[(Value, Value)], name: &str) -> Option<usize> {
    fields.iter().rposition(|(field, _)| field.as_str() == Some(name))
}

fn get<'a>(fields: &'a [(Value, Value)], name: &str) -> Option<&'a Value> {
    position(fields, name).map(|at| &fields[at].1)
}

/// The key. A missing one is added.
fn take_key(fields: &mut Vec<(Value, Value)>, index: usize) -> Result<String> {
    match get(fields, "key") {
        Some(key) => key.as_str().map(str::to_string).ok_or_else(|| {
            let message = format!("expected a key, which is text, found {key}");
            Error::new(ErrorKind::Invalid, message)
        }),
        None => {
            let key = index.to_string();
            fields.push(("key".into(), key.as_str().into()));
            Ok(key)
        }
    }
}

fn number_label(fields: &mut Vec<(Value, Value)>, labels: &LabelMap) -> Result<()> {
    let Some(at) = position(fields, "label") else { return Ok(()) };
    let number = labels.number(&fields[at].1)?;
    let label = std::mem::replace(&mut fields[at].1, number.into());
    match position(fields, "_label") {
        Some(at) => fields[at].1 = label,
        None => fields.push(("_label".into(), label)),
    }
    Ok(())
}
