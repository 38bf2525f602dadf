//! [`FieldsReader`]: the samples of another reader with some of their fields, or under other names.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use super::identity::composed;
use super::lengths::About;
use super::packed_fields::{Name, PackedFields};
use super::{Location, Reader, no_field};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::sample::KEY;
use crate::sampler::Lengths;

/// What a field holds, as [`Reader::read_fields`] hands it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldContent<'a> {
    /// A value in msgpack.
    Packed(&'a [u8]),
    /// The bytes of a binary value, which are in no msgpack.
    Bytes(&'a [u8]),
}

impl FieldContent<'_> {
    /// Its bytes, as they are.
    pub fn len(&self) -> usize {
        match self {
            FieldContent::Packed(bytes) | FieldContent::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Which fields samples have, under which names: those to keep or to leave out first, then other names.
///
/// ```
/// use kiste::reader::FieldNames;
///
/// let names = FieldNames::keep(["image", "label"])?.rename("label", "class")?;
/// assert_eq!(names.old_name("class"), Some("label"));
/// assert_eq!((names.old_name("label"), names.old_name("caption")), (None, None));
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldNames {
    chosen: Chosen,
    /// Old and new names.
    renamed: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Chosen {
    All,
    Only(Vec<String>),
    Without(Vec<String>),
}

impl FieldNames {
    /// All fields, under their own names.
    pub fn all() -> FieldNames {
        FieldNames { chosen: Chosen::All, renamed: Vec::new() }
    }

    /// These fields only, and the key.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a name that comes twice.
    pub fn keep<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Result<FieldNames> {
        Ok(FieldNames { chosen: Chosen::Only(distinct(names)?), renamed: Vec::new() })
    }

    /// All fields but these.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a name that comes twice, and for the key.
    pub fn without<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Result<FieldNames> {
        let names = distinct(names)?;
        if names.iter().any(|name| name == KEY) {
            return Err(invalid(format!("every sample has a {KEY:?}, which cannot be left out")));
        }
        Ok(FieldNames { chosen: Chosen::Without(names), renamed: Vec::new() })
    }

    /// Another name for a field. The field keeps its place.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for the key, for a field that is left out, and if two fields would have one
    /// name.
    pub fn rename(mut self, old: impl Into<String>, new: impl Into<String>) -> Result<FieldNames> {
        let (old, new) = (old.into(), new.into());
        if old == KEY || new == KEY {
            return Err(invalid(format!("{KEY:?} is the key of a sample and has no other name")));
        }
        if !self.takes(&old) {
            return Err(invalid(format!("field {old:?} is renamed and left out")));
        }
        if let Some((before, _)) = self.renamed.iter().find(|(a, b)| *a == old || *b == new) {
            return Err(invalid(format!(
                "fields {before:?} and {old:?} are renamed to {new:?}, or one of them twice"
            )));
        }
        self.renamed.push((old, new));
        Ok(self)
    }

    /// The fields to keep, if only some are kept.
    pub fn kept(&self) -> Option<&[String]> {
        match &self.chosen {
            Chosen::Only(names) => Some(names),
            _ => None,
        }
    }

    /// The fields to leave out.
    pub fn left_out(&self) -> &[String] {
        match &self.chosen {
            Chosen::Without(names) => names,
            _ => &[],
        }
    }

    /// Old and new names, in the order in which they were given.
    pub fn renamed(&self) -> &[(String, String)] {
        &self.renamed
    }

    /// All names that samples are expected to have.
    pub fn expected(&self) -> impl Iterator<Item = &str> {
        let kept = self.kept().unwrap_or_default().iter();
        let renamed = self.renamed.iter().map(|(old, _)| old);
        kept.chain(self.left_out()).chain(renamed).map(String::as_str).filter(|&name| name != KEY)
    }

    /// What is kept or left out, and what gets other names, as steps of their own, where there is anything to do.
    pub(crate) fn parts(self) -> (Option<FieldNames>, Option<FieldNames>) {
        let FieldNames { chosen, renamed } = self;
        let renames = !renamed.is_empty();
        let renamed = FieldNames { chosen: Chosen::All, renamed };
        let does_nothing = match &chosen {
            Chosen::All => true,
            Chosen::Only(_) => false,
            Chosen::Without(names) => names.is_empty(),
        };
        let chosen = FieldNames { chosen, renamed: Vec::new() };
        ((!does_nothing).then_some(chosen), renames.then_some(renamed))
    }

    fn takes(&self, name: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|own| own == name);
        match &self.chosen {
            Chosen::All => true,
            Chosen::Only(names) => name == KEY || is_in(names),
            Chosen::Without(names) => !is_in(names),
        }
    }

    /// The name that a field has now; `None` if it is left out.
    pub fn new_name<'a>(&'a self, old: &'a str) -> Option<&'a str> {
        let renamed = self.renamed.iter().find(|(from, _)| from == old);
        self.takes(old).then(|| renamed.map_or(old, |(_, new)| new))
    }

    /// The name that the field of this name had before; `None` if there cannot be such a field. (A field that
    /// samples have under a name that another field is given is an error when it is read.)
    pub fn old_name<'a>(&'a self, new: &'a str) -> Option<&'a str> {
        if let Some((old, _)) = self.renamed.iter().find(|(_, to)| to == new) {
            return Some(old);
        }
        self.new_name(new).filter(|&name| name == new)
    }
}

/// Whether a sample has this field; true if there is no sample. `progress` hears how many were looked at.
pub(crate) fn has_field(
    reader: &dyn Reader,
    name: &str,
    mut progress: impl FnMut(u64) -> Result<()>,
) -> Result<bool> {
    for index in 0..reader.len() {
        if reader.field_raw(index, name)?.is_some() {
            return Ok(true);
        }
        if index % 1024 == 1023 {
            progress(index as u64 + 1)?;
        }
    }
    Ok(reader.is_empty())
}

fn distinct<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Result<Vec<String>> {
    let names: Vec<String> = names.into_iter().map(Into::into).collect();
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        Some(name) => Err(invalid(format!("expected each field once, found {name:?} twice"))),
        None => Ok(names),
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

/// The samples of another reader with some of their fields, or under other names. Fields stay packed.
///
/// ```
/// use std::collections::BTreeMap;
/// use kiste::reader::{FieldNames, FieldsReader, ListReader, Reader};
///
/// let photos = ListReader::pack([BTreeMap::from([("key", "a"), ("by", "me"), ("text", "…")])])?;
/// let names = FieldNames::without(["text"])?.rename("by", "author")?;
/// let photos = FieldsReader::new(photos, names);
/// let photo = photos.get(0)?;
/// assert_eq!(photo.as_map().map(Vec::len), Some(2));
/// assert_eq!(photo["author"].as_str(), Some("me"));
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct FieldsReader<R> {
    reader: R,
    names: FieldNames,
}

impl<R: Reader> FieldsReader<R> {
    /// The samples of this reader with these fields.
    pub fn new(reader: R, names: FieldNames) -> FieldsReader<R> {
        FieldsReader { reader, names }
    }

    /// The names of the fields.
    pub fn names(&self) -> &FieldNames {
        &self.names
    }

    /// Fails for a field that no sample has: most likely a typing error. Looks for each until one has it.
    /// `progress` hears how many samples were looked at.
    pub fn check(&self, mut progress: impl FnMut(u64) -> Result<()>) -> Result<()> {
        for name in self.names.expected() {
            if !has_field(&self.reader, name, &mut progress)? {
                return Err(no_field(&self.reader, name));
            }
        }
        Ok(())
    }

    fn changed(&self, index: usize, raw: &[u8]) -> Result<Vec<u8>> {
        let fields = PackedFields::parse(raw).map_err(|e| self.reader.locate(index).damaged(e))?;
        for (old, new) in self.names.renamed() {
            // A field of the new name that gets another name itself makes room.
            if self.names.new_name(new) == Some(new) && fields.has(new) && fields.has(old) {
                let message =
                    format!("field {old:?} is renamed to {new:?}, which is there already");
                return Err(self.reader.locate(index).describe(invalid(message)));
            }
        }
        let mut changed = PackedFields(Vec::with_capacity(fields.0.len()));
        for (name, value) in fields.0 {
            let Some(text) = name.text() else {
                // What has no text for a name is kept with all fields alone.
                if self.names.kept().is_none() {
                    changed.0.push((name, value));
                }
                continue;
            };
            match self.names.new_name(text) {
                None => {}
                Some(new) if new == text => changed.0.push((name, value)),
                Some(new) => changed.0.push((Name::Text(Cow::Owned(new.to_owned())), value)),
            }
        }
        changed.pack()
    }
}

impl<R: Reader> Reader for FieldsReader<R> {
    fn len(&self) -> usize {
        self.reader.len()
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.reader.key(index)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        self.reader.find(key)
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        let raw = self.reader.get_raw(index)?;
        self.changed(index, &raw).map(Cow::Owned)
    }

    fn get_raw_many(&self, indices: &[usize]) -> Result<Vec<Cow<'_, [u8]>>> {
        let all = self.reader.get_raw_many(indices)?.into_iter().zip(indices);
        all.map(|(raw, &index)| self.changed(index, &raw).map(Cow::Owned)).collect()
    }

    fn find_all(&self, key: &str) -> Result<Vec<usize>> {
        self.reader.find_all(key)
    }

    fn find_keys(&self, keys: &[&str]) -> Result<Vec<Option<usize>>> {
        self.reader.find_keys(keys)
    }

    fn contains_key(&self, key: &str) -> Result<bool> {
        self.reader.contains_key(key)
    }

    fn may_repeat_keys(&self) -> bool {
        self.reader.may_repeat_keys()
    }

    fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        let Some(old) = self.names.old_name(name) else { return Ok(None) };
        let field = self.reader.field_raw(index, old)?;
        if field.is_none() && old != name && self.names.new_name(name) == Some(name) {
            // This sample may have a field of this name itself.
            return self.reader.field_raw(index, name);
        }
        Ok(field)
    }

    /// The names of labels, unless the field that has their numbers is left out.
    fn labels(&self) -> Result<Option<Vec<String>>> {
        match self.names.old_name(LABEL) {
            Some(LABEL) => self.reader.labels(),
            _ => Ok(None),
        }
    }

    /// Those of a field that is there under its own name. The packed sample is another one.
    fn lengths(&self, column: &str) -> Result<Option<Arc<dyn Lengths>>> {
        let is_there = |name: &str| self.names.old_name(name) == Some(name);
        match About::of(column).is_field(is_there) {
            true => self.reader.lengths(column),
            false => Ok(None),
        }
    }

    fn identity(&self) -> Result<String> {
        let names = |how: &str, names: &[String]| {
            names.iter().map(|name| Ok(format!("{how} {name}"))).collect::<Vec<_>>()
        };
        let renamed = self.names.renamed.iter().map(|(old, new)| Ok(format!("{old} {new}")));
        let kept = self.names.kept().map(|kept| names("keep", kept)).unwrap_or_default();
        let of = [self.reader.identity()].into_iter().chain(kept);
        let of = of.chain(names("drop", self.names.left_out())).chain(renamed);
        composed("fields", of, [])
    }

    fn locate(&self, index: usize) -> Location {
        self.reader.locate(index)
    }

    fn is_remote(&self) -> bool {
        self.reader.is_remote()
    }

    fn sample_bytes(&self) -> Option<u64> {
        self.reader.sample_bytes()
    }

    fn prefetch(&self, indices: &[usize]) {
        self.reader.prefetch(indices);
    }
}

/// The field whose numbers `.labels` names.
const LABEL: &str = "label";
