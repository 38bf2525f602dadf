//! [`JoinReader`]: two readers joined by key.

use std::borrow::Cow;
use std::sync::Arc;

use super::identity::composed;
use super::lengths::{About, Choice, Chosen};
use super::packed_fields::{Name, PackedFields};
use super::{Location, Reader, out_of_range};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::sample::KEY;
use crate::format::msgpack::{Value, to_vec};
use crate::sampler::Lengths;

/// Keys that are looked up together.
const TOGETHER: usize = 1024;
/// Pairs whose fields are compared when readers are joined.
const COMPARED: usize = 100;
/// Stands for no sample on the right.
const NONE: usize = usize::MAX;

/// Which samples a [`JoinReader`] has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum How {
    /// The samples of the left reader whose keys the right one has as well.
    #[default]
    Inner,
    /// All samples of the left reader.
    Left,
}

/// How to treat the fields that both samples of a [`JoinReader`] have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Shared {
    /// They are an error.
    #[default]
    Refuse,
    /// The right one takes the place of the left one.
    Right,
    /// All fields of the right sample have this in front of their names, shared or not, so that
    /// names do not depend on the sample. A name that is taken even so is an error.
    Prefix(String),
}

/// How two readers are joined.
///
/// ```
/// use kiste::reader::{Join, Shared};
///
/// let captions = Join::left().fields(["caption"]).missing("caption", "");
/// let scores = Join::inner().shared(Shared::Prefix("score_".into()));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Join {
    how: How,
    shared: Shared,
    fields: Option<Vec<String>>,
    missing: Vec<(String, Value)>,
}

impl Join {
    /// With the samples whose keys both readers have.
    pub fn inner() -> Join {
        Join::default()
    }

    /// With all samples of the left reader.
    pub fn left() -> Join {
        Join { how: How::Left, ..Join::default() }
    }

    /// What happens to fields that both samples have. Default: they are an error.
    #[must_use]
    pub fn shared(mut self, shared: Shared) -> Join {
        self.shared = shared;
        self
    }

    /// The fields of the right sample that are taken, by the names they have there. Default: all but the key.
    #[must_use]
    pub fn fields<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Join {
        self.fields = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// For a left join: a field, by the name that it has in the right sample, and its value where there is no such sample,
    /// or it has no such field. Default: the joined sample lacks it, too.
    #[must_use]
    pub fn missing(mut self, field: impl Into<String>, value: impl Into<Value>) -> Join {
        let (field, value) = (field.into(), value.into());
        self.missing.retain(|(known, _)| *known != field);
        self.missing.push((field, value));
        self
    }

    /// Which samples there are.
    pub fn how(&self) -> How {
        self.how
    }

    /// What happens to fields that both samples have.
    pub fn shared_fields(&self) -> &Shared {
        &self.shared
    }

    /// The fields that are taken, if not all are.
    pub fn chosen_fields(&self) -> Option<&[String]> {
        self.fields.as_deref()
    }

    /// Values for missing fields.
    pub fn missing_values(&self) -> &[(String, Value)] {
        &self.missing
    }

    fn check(&self) -> Result<()> {
        let prefix = match &self.shared {
            Shared::Prefix(prefix) => prefix.as_str(),
            _ => "",
        };
        let names = self.fields.iter().flatten().chain(self.missing.iter().map(|(name, _)| name));
        for name in names {
            if name == KEY {
                return Err(invalid(format!(
                    "{KEY:?} is what samples are joined by, and no field to take"
                )));
            }
            if format!("{prefix}{name}") == KEY {
                return Err(invalid(format!("the prefix {prefix:?} makes a second {KEY:?}")));
            }
        }
        if self.how == How::Inner && !self.missing.is_empty() {
            let message = "values for missing fields are for a left join: an inner one leaves such samples out";
            return Err(invalid(message.to_owned()));
        }
        let chosen =
            |name: &str| self.fields.as_ref().is_none_or(|all| all.iter().any(|own| own == name));
        match self.missing.iter().find(|(name, _)| !chosen(name)) {
            Some((name, _)) => Err(invalid(format!(
                "field {name:?} has a value for where it is missing, but is not one of the fields to take"
            ))),
            None => Ok(()),
        }
    }

    fn takes(&self, name: &str) -> bool {
        name != KEY && self.fields.as_ref().is_none_or(|all| all.iter().any(|own| own == name))
    }

    /// The name of a field of the right sample.
    fn new_name<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match &self.shared {
            Shared::Prefix(prefix) => Cow::Owned(format!("{prefix}{name}")),
            _ => Cow::Borrowed(name),
        }
    }

    /// The name in the right sample of a field that is asked for, if it may come from there.
    fn old_name<'a>(&self, name: &'a str) -> Option<&'a str> {
        let old = match &self.shared {
            Shared::Prefix(prefix) => name.strip_prefix(&**prefix)?,
            _ => name,
        };
        self.takes(old).then_some(old)
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

/// The samples of a left reader, in its order, with the fields that a right one has for their keys.
///
/// Keys are compared when it is made, which reads every key of the left reader and looks them up in
/// batches; after that a pair takes two numbers. Fields are merged as packed bytes and not decoded. The key comes from
/// the left sample.
///
/// ```
/// use std::collections::BTreeMap;
/// use kiste::reader::{Join, ListReader, Reader, ReaderExt, Shared};
///
/// let images = ListReader::pack([BTreeMap::from([("key", "a"), ("image", "…"), ("by", "me")])])?;
/// let labels = ListReader::pack([BTreeMap::from([("key", "a"), ("kind", "cat"), ("by", "you")])])?;
/// let joined = images.join(labels, Join::inner().shared(Shared::Prefix("label_".into())))?;
/// let sample = joined.get_by_key("a")?.expect("both have it");
/// assert_eq!(sample["by"].as_str(), Some("me"));
/// assert_eq!(sample["label_by"].as_str(), Some("you"));
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct JoinReader<L, R> {
    left: L,
    right: R,
    join: Join,
    /// Packed values for missing fields, by their old names.
    missing: Vec<(String, Vec<u8>)>,
    /// The indices on the left, ascending; none where all samples are there.
    lefts: Arc<Vec<usize>>,
    /// The index on the right of each sample, or [`NONE`].
    rights: Vec<usize>,
    unmatched: usize,
}

impl<L: Reader, R: Reader> JoinReader<L, R> {
    /// Joins two readers by key. `progress` hears how many keys were looked up.
    ///
    /// # Errors
    ///
    /// [`DuplicateKey`](ErrorKind::DuplicateKey) for a key that the right reader has more than once;
    /// [`Invalid`](ErrorKind::Invalid) for fields that are in both, which are looked for in the first hundred pairs
    /// now and in all others when they are read, and for options that make no sense.
    pub fn new(
        left: L,
        right: R,
        join: Join,
        mut progress: impl FnMut(u64) -> Result<()>,
    ) -> Result<JoinReader<L, R>> {
        join.check()?;
        let pack = |(name, value): &(String, Value)| Ok((name.clone(), to_vec(value)?));
        let missing = join.missing.iter().map(pack).collect::<Result<_>>()?;
        let (mut lefts, mut rights, mut unmatched) = (Vec::new(), Vec::new(), 0);
        let may_repeat = right.may_repeat_keys();
        for start in (0..left.len()).step_by(TOGETHER) {
            progress(start as u64)?;
            let indices = start..left.len().min(start + TOGETHER);
            let keys: Vec<Cow<'_, str>> =
                indices.clone().map(|index| left.key(index)).collect::<Result<_>>()?;
            let asked: Vec<&str> = keys.iter().map(|key| &**key).collect();
            for ((index, key), found) in indices.zip(&asked).zip(right.find_keys(&asked)?) {
                if let (Some(first), true) = (found, may_repeat) {
                    expect_one(&right, key, first)?;
                }
                unmatched += usize::from(found.is_none());
                match (join.how, found) {
                    (How::Inner, None) => {}
                    (How::Inner, Some(other)) => {
                        lefts.push(index);
                        rights.push(other);
                    }
                    (How::Left, found) => rights.push(found.unwrap_or(NONE)),
                }
            }
        }
        let lefts = Arc::new(lefts);
        let joined = JoinReader { left, right, join, missing, lefts, rights, unmatched };
        joined.compare_names()?;
        Ok(joined)
    }

    /// Fails if fields of the first pairs are in both.
    fn compare_names(&self) -> Result<()> {
        let pairs = (0..self.rights.len()).filter(|&index| self.rights[index] != NONE);
        let pairs: Vec<usize> = pairs.take(COMPARED).collect();
        self.prefetch(&pairs);
        pairs.into_iter().try_for_each(|index| self.get_raw(index).map(drop))
    }

    /// The indices of a sample in the left and in the right reader, which may have none.
    pub fn pair(&self, index: usize) -> Result<(usize, Option<usize>)> {
        let right = *self.rights.get(index).ok_or_else(|| out_of_range(index, self.len()))?;
        let left = match self.join.how {
            How::Inner => self.lefts[index],
            How::Left => index,
        };
        Ok((left, Some(right).filter(|&right| right != NONE)))
    }

    /// How many samples of the left reader have a key that the right one lacks.
    pub fn unmatched(&self) -> usize {
        self.unmatched
    }

    fn position(&self, left: usize) -> Option<usize> {
        match self.join.how {
            How::Inner => self.lefts.binary_search(&left).ok(),
            How::Left => Some(left),
        }
    }

    fn merged(&self, index: usize, left_raw: &[u8], right_raw: Option<&[u8]>) -> Result<Vec<u8>> {
        let (left, right) = self.pair(index)?;
        let mut merged =
            PackedFields::parse(left_raw).map_err(|e| self.left.locate(left).damaged(e))?;
        let own: Vec<String> = match self.join.shared {
            Shared::Right => Vec::new(),
            _ => merged.0.iter().filter_map(|(name, _)| name.text().map(str::to_owned)).collect(),
        };
        let taken = |name: &str| -> Result<()> {
            if !own.iter().any(|own| own == name) {
                return Ok(());
            }
            let message = match self.join.shared {
                Shared::Prefix(_) => format!(
                    "expected a prefix that makes new names, found a field {name:?} in both"
                ),
                _ => format!(
                    "expected fields that one of the two has, found {name:?} in both: a prefix tells them apart"
                ),
            };
            Err(self.left.locate(left).describe(invalid(message)))
        };
        let added = match (right_raw, right) {
            (Some(raw), Some(right)) => {
                PackedFields::parse(raw).map_err(|e| self.right.locate(right).damaged(e))?
            }
            _ => PackedFields(Vec::new()),
        };
        let absent = self.missing.iter().filter(|(name, _)| !added.has(name));
        let absent: Vec<_> = absent.collect();
        for (name, value) in added.0 {
            match &name {
                Name::Text(text) if self.join.takes(text) => {
                    let new = self.join.new_name(text).into_owned();
                    if new == KEY {
                        return Err(invalid(format!(
                            "field {text:?} with its prefix is a second {KEY:?}"
                        )));
                    }
                    taken(&new)?;
                    merged.set(Name::Text(Cow::Owned(new)), value);
                }
                // What has no text for a name comes with all fields alone.
                Name::Packed(_) if self.join.fields.is_none() => merged.set(name, value),
                _ => {}
            }
        }
        for (name, value) in absent {
            let new = self.join.new_name(name);
            if self.join.shared == Shared::Right && merged.has(&new) {
                continue;
            }
            taken(&new)?;
            merged.set(Name::Text(new), Cow::Borrowed(value));
        }
        merged.pack()
    }
}

/// Fails if the reader has this key more than once.
fn expect_one(reader: &impl Reader, key: &str, first: usize) -> Result<()> {
    let all = reader.find_all(key)?;
    let Some(second) = all.into_iter().find(|&index| index != first) else { return Ok(()) };
    let (first, second) = (reader.locate(first), reader.locate(second));
    let message =
        format!("expected each key once on the right, found it twice: {first} and {second}");
    Err(Error::new(ErrorKind::DuplicateKey, message).with_key(key))
}

impl<L: Reader, R: Reader> Reader for JoinReader<L, R> {
    fn len(&self) -> usize {
        self.rights.len()
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.left.key(self.pair(index)?.0)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        // All samples with one key are joined, or none is.
        Ok(self.left.find(key)?.and_then(|left| self.position(left)))
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        let (left, right) = self.pair(index)?;
        let left_raw = self.left.get_raw(left)?;
        let right_raw = right.map(|right| self.right.get_raw(right)).transpose()?;
        self.merged(index, &left_raw, right_raw.as_deref()).map(Cow::Owned)
    }

    fn find_all(&self, key: &str) -> Result<Vec<usize>> {
        let all = self.left.find_all(key)?;
        Ok(all.into_iter().filter_map(|left| self.position(left)).collect())
    }

    fn find_keys(&self, keys: &[&str]) -> Result<Vec<Option<usize>>> {
        let found = self.left.find_keys(keys)?;
        Ok(found.into_iter().map(|left| left.and_then(|left| self.position(left))).collect())
    }

    fn contains_key(&self, key: &str) -> Result<bool> {
        match self.join.how {
            How::Left => self.left.contains_key(key),
            How::Inner => Ok(self.left.contains_key(key)? && self.right.contains_key(key)?),
        }
    }

    fn may_repeat_keys(&self) -> bool {
        self.left.may_repeat_keys()
    }

    /// A field of one of the two samples, the only one that is looked at if it has the field.
    fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        let (left, right) = self.pair(index)?;
        let Some(old) = self.join.old_name(name).filter(|_| name != KEY) else {
            return self.left.field_raw(left, name);
        };
        if let Some(right) = right {
            if let Some(field) = self.right.field_raw(right, old)? {
                return Ok(Some(field));
            }
        }
        if let Some(field) = self.left.field_raw(left, name)? {
            return Ok(Some(field));
        }
        let missing = self.missing.iter().find(|(known, _)| known == old);
        Ok(missing.map(|(_, value)| Cow::Borrowed(value.as_slice())))
    }

    /// The labels of the left reader, or of the right one if the field that they name comes from there.
    fn labels(&self) -> Result<Option<Vec<String>>> {
        let (left, right) = (
            self.left.labels()?,
            match self.join.old_name("label") {
                Some("label") => self.right.labels()?,
                _ => None,
            },
        );
        match (left, right) {
            (labels, None) | (None, labels) => Ok(labels),
            (left, right) => Ok(left.filter(|left| right.as_ref() == Some(left))),
        }
    }

    /// Those of the left reader, for fields that cannot come from the right one.
    fn lengths(&self, column: &str) -> Result<Option<Arc<dyn Lengths>>> {
        let about = About::of(column);
        let may_be_replaced = match self.join.shared {
            Shared::Right => {
                !about.is_field(|_| true) || about.is_field(|name| self.join.takes(name))
            }
            Shared::Refuse | Shared::Prefix(_) => about == About::Sample,
        };
        if may_be_replaced {
            return Ok(None);
        }
        let left = self.left.lengths(column)?;
        Ok(left.map(|left| match self.join.how {
            How::Inner => Arc::new(Chosen::new(left, Choice::Indices(self.lefts.clone()))),
            How::Left => left,
        }))
    }

    fn identity(&self) -> Result<String> {
        let Join { how, shared, fields, missing } = &self.join;
        let options = format!("{how:?} {shared:?} {fields:?} {missing:?}");
        let of = [self.left.identity(), self.right.identity(), Ok(options)];
        composed("join", of, [self.len()])
    }

    /// Where the left sample comes from.
    fn locate(&self, index: usize) -> Location {
        match self.pair(index) {
            Ok((left, _)) => self.left.locate(left),
            Err(_) => Location::new(index as u64),
        }
    }

    fn is_remote(&self) -> bool {
        self.left.is_remote() || self.right.is_remote()
    }

    fn prefetch(&self, indices: &[usize]) {
        let pairs = indices.iter().filter_map(|&index| self.pair(index).ok());
        let (left, right): (Vec<_>, Vec<_>) = pairs.unzip();
        self.left.prefetch(&left);
        self.right.prefetch(&right.into_iter().flatten().collect::<Vec<_>>());
    }
}
