//! [`Reshape`]: which fields samples have, and what their key is.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::Source;
use super::kept_fields::KeptFields;
use super::loaded::PATH;
use super::masks;
use super::options::Options;
use crate::error::{Error, ErrorKind, Result};
use crate::format::key_pattern::KeyPattern;
use crate::format::msgpack::{self, Cursor, Kind, sample};

/// Fails for options that contradict each other, or would lose the key.
pub(super) fn check(options: &Options) -> Result<()> {
    let wrong =
        |option, message: &str| Err(Error::new(ErrorKind::Invalid, message).with_option(option));
    if !options.fields.is_empty() && !options.drop.is_empty() {
        return wrong("fields", "cannot be combined with fields that are dropped");
    }
    if options.key.is_some() && options.key_field.is_some() {
        return wrong("key", "cannot be combined with a field that becomes the key");
    }
    pattern(options)?;
    for (old, new) in &options.rename {
        if old.is_empty() || new.is_empty() {
            return wrong("rename", "expects two names");
        }
        if new == sample::KEY {
            return wrong("rename", "cannot make a field the key")
                .map_err(|error| error.with_remedy(crate::error::Remedy::KeyField));
        }
    }
    if options.read.masks.is_some() && !is_kept(options, masks::FIELD) {
        return wrong("masks", "cannot be combined with leaving out the field mask");
    }
    if let Some(name) = options.read.load.iter().find(|name| !is_kept(options, name)) {
        let message = format!("names {name:?}, which is the key or is left out");
        return Err(Error::new(ErrorKind::Invalid, message).with_option("load"));
    }
    let renamed = options.rename.iter().any(|(old, _)| old == sample::KEY);
    match renamed || options.drop.iter().any(|name| name == sample::KEY) {
        // A field that the source calls so is a field like others then.
        true if options.replaces_key() => Ok(()),
        true => {
            let message = "the key can be neither dropped nor renamed";
            Err(Error::new(ErrorKind::Invalid, message).with_remedy(crate::error::Remedy::KeyField))
        }
        false => Ok(()),
    }
}

/// Whether samples have this field in the end.
fn is_kept(options: &Options, name: &str) -> bool {
    name != sample::KEY && options.kept_fields().keeps(name)
}

impl Options {
    /// Whether keys are made of other fields alone, so that one called `key` is none.
    pub(super) fn replaces_key(&self) -> bool {
        let is_other = |name: &str| name != sample::KEY;
        let is_new = |pattern: KeyPattern| !pattern.has_key();
        self.key_field.as_deref().is_some_and(is_other)
            || pattern(self).ok().flatten().is_some_and(is_new)
    }

    /// The fields of samples that are kept, or that keys are made of.
    pub(super) fn kept_fields(&self) -> KeptFields {
        let stored = |name: &String| self.stored(name).to_owned();
        let set = |names: &[String]| names.iter().map(stored).collect();
        KeptFields::new(set(&self.fields), set(&self.drop), self.key_fields().into_iter().collect())
    }

    /// The fields that the key is made of.
    pub(super) fn key_fields(&self) -> Vec<String> {
        let pattern = pattern(self).ok().flatten();
        let in_pattern = pattern.iter().flat_map(KeyPattern::fields);
        let fields = in_pattern.chain(self.key_field.as_deref());
        fields.map(|name| stored_name(name).to_owned()).collect()
    }

    /// The name in samples of a field that the source calls so.
    fn stored<'a>(&self, name: &'a str) -> &'a str {
        if self.replaces_key() { stored_name(name) } else { name }
    }
}

fn pattern(options: &Options) -> Result<Option<KeyPattern>> {
    let pattern = options.key.as_deref().map(str::parse::<KeyPattern>).transpose();
    pattern.map_err(|error| error.with_option("key"))
}

/// A source whose samples are changed as the options say.
pub(super) struct Reshape {
    source: Box<dyn Source>,
    kept: KeptFields,
    renamed: HashMap<String, String>,
    key_field: Option<String>,
    pattern: Option<KeyPattern>,
    /// Fields that were loaded from files.
    loaded: Vec<String>,
    /// Whether nothing changes.
    is_idle: bool,
    /// Names of fields that were asked for and have not been seen.
    unseen: HashSet<String>,
    shared: Unseen,
}

/// Names of fields that were asked for and have not been seen by the end of the last batch.
#[derive(Debug, Clone, Default)]
pub(super) struct Unseen(Arc<Mutex<Vec<String>>>);

impl Unseen {
    pub(super) fn get(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, names: Vec<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Keeps those that are still unseen, in their order.
    fn retain(&self, unseen: &HashSet<String>) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|name| unseen.contains(name));
    }
}

/// Fails for a field that no sample has: its name was misspelt.
pub(super) fn check_unseen(unseen: &[String]) -> Result<()> {
    match unseen.first() {
        Some(name) => {
            Err(Error::new(ErrorKind::Invalid, format!("no sample has a field {name:?}")))
        }
        None => Ok(()),
    }
}

impl Reshape {
    pub(super) fn new(source: Box<dyn Source>, options: &Options) -> Result<Reshape> {
        let pattern = pattern(options)?;
        let renamed = options.rename.iter().map(|(old, _)| old);
        let in_key = pattern.iter().flat_map(KeyPattern::fields).map(str::to_owned);
        let loaded = options.read.load.iter();
        // The key is always there.
        let fields = options.fields.iter().filter(|name| *name != sample::KEY);
        let named = fields.chain(&options.drop).chain(renamed).chain(loaded);
        let named = named.map(|name| options.stored(name).to_owned());
        let mut asked: Vec<String> = named.chain(in_key).collect();
        let (unseen, shared) = (asked.iter().cloned().collect::<HashSet<_>>(), Unseen::default());
        asked.dedup();
        shared.set(asked);
        let is_idle = options.fields.is_empty()
            && options.drop.is_empty()
            && options.rename.is_empty()
            && options.key_field.is_none()
            && options.key.is_none()
            && options.read.load.is_empty();
        // Of two new names the first counts.
        let renamed = options.rename.iter().rev();
        let renamed = renamed.map(|(old, new)| (options.stored(old).to_owned(), new.clone()));
        let (renamed, kept) = (renamed.collect(), options.kept_fields());
        let key_field = options.key_field.clone();
        let loaded = options.read.load.clone();
        Ok(Reshape { source, kept, renamed, key_field, pattern, loaded, is_idle, unseen, shared })
    }

    /// Looks at what has not been seen.
    pub(super) fn unseen(&self) -> Unseen {
        self.shared.clone()
    }

    /// Whether the field is the content of a file by now, whose path is in another field.
    fn is_loaded(&self, name: &str) -> bool {
        self.loaded.iter().any(|loaded| loaded == name)
    }

    fn change(&mut self, packed: &[u8]) -> Result<Vec<u8>> {
        let old_key = msgpack::check_sample(packed)?;
        let invalid = |message: String| Error::new(ErrorKind::Invalid, message).with_key(old_key);
        let own = self.key_field.as_deref().map(stored_name);
        // A field called "key" in the source may have become the key already.
        let is_key = own.is_none() || self.key_field.as_deref() == Some(sample::KEY);
        let mut key = is_key.then(|| old_key.to_owned());
        let mut kept: Vec<(String, &[u8])> = Vec::new();
        let mut names = HashSet::new();
        for field in sample::fields(packed)? {
            let (name, value) = field?;
            let name = Cursor::new(name).read_str()?;
            let path_of = name.strip_prefix(PATH).filter(|name| self.is_loaded(name));
            if let Some(name) = path_of {
                if own == Some(name) {
                    let found = key_of(value)?;
                    let message =
                        || invalid(format!("the field {name:?} is neither text nor an integer"));
                    key = Some(found.ok_or_else(message)?);
                }
                continue;
            }
            self.unseen.remove(name);
            if own == Some(name) && !self.is_loaded(name) {
                let found = key_of(value)?;
                let message =
                    || invalid(format!("the field {name:?} is neither text nor an integer"));
                key = Some(found.ok_or_else(message)?);
            } else if name != sample::KEY && self.kept.keeps(name) {
                let name = self.renamed.get(name).map_or(name, String::as_str);
                if !names.insert(name.to_owned()) {
                    return Err(invalid(format!("two fields would be named {name:?}")));
                }
                kept.push((name.to_owned(), value));
            }
        }
        if let Some(pattern) = &self.pattern {
            let shard = || {
                let message = || invalid("it is from no shard".to_owned());
                self.source.shard().map(str::to_owned).ok_or_else(message)
            };
            let field = |name: &str| {
                let name = stored_name(name);
                let value = match self.is_loaded(name) {
                    true => sample::field(packed, &format!("{PATH}{name}"))?,
                    false => sample::field(packed, name)?,
                };
                let missing = || invalid(format!("there is no field {name:?} for the key"));
                let message =
                    || invalid(format!("the field {name:?} is neither text nor an integer"));
                key_of(value.ok_or_else(missing)?)?.ok_or_else(message)
            };
            key = Some(pattern.key(old_key, shard, field)?);
        }
        let key = key.ok_or_else(|| {
            let name = self.key_field.as_deref().unwrap_or_default();
            let others = names_of(packed).unwrap_or_default();
            invalid(format!("there is no field {name:?} to be the key{others}"))
        })?;
        pack(&key, &kept)
    }
}

/// Names of fields that an error lists.
const NAMED: usize = 20;

/// Which fields there are besides the key, if there are any.
fn names_of(packed: &[u8]) -> Result<String> {
    let mut names = Vec::new();
    for field in sample::fields(packed)? {
        let name = Cursor::new(field?.0).read_str()?;
        if name != sample::KEY && !name.starts_with(PATH) {
            names.push(name);
        }
    }
    let more = if names.len() > NAMED { " and more" } else { "" };
    names.truncate(NAMED);
    Ok(match names.is_empty() {
        true => ": there is no field but the key".to_owned(),
        false => format!(", only {}{more}", names.join(", ")),
    })
}

/// The new name for a field that is called like the key.
fn stored_name(name: &str) -> &str {
    if name == sample::KEY { "_key" } else { name }
}

fn key_of(value: &[u8]) -> Result<Option<String>> {
    let mut cursor = Cursor::new(value);
    Ok(match cursor.peek()? {
        Kind::Str => Some(cursor.read_str()?.to_owned()),
        Kind::Bin => String::from_utf8(cursor.read_bin()?.to_vec()).ok(),
        Kind::Int => match cursor.clone().read_i64() {
            Ok(number) => Some(number.to_string()),
            Err(_) => Some(cursor.read_u64()?.to_string()),
        },
        _ => None,
    })
}

/// A sample of a key and packed values.
pub(super) fn pack<N, V>(key: &str, fields: &[(N, V)]) -> Result<Vec<u8>>
where
    N: AsRef<str>,
    V: AsRef<[u8]>,
{
    let sizes = fields.iter().map(|(name, value)| name.as_ref().len() + value.as_ref().len() + 5);
    let size: usize = sizes.sum();
    let mut out = Vec::with_capacity(size + key.len() + 16);
    msgpack::write_map(fields.len() + 1, &mut out)?;
    msgpack::write_text(sample::KEY, &mut out)?;
    msgpack::write_text(key, &mut out)?;
    for (name, value) in fields {
        msgpack::write_text(name.as_ref(), &mut out)?;
        out.extend_from_slice(value.as_ref());
    }
    Ok(out)
}

impl Source for Reshape {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        let batch = self.source.next_batch()?;
        if self.is_idle {
            return Ok(batch);
        }
        let mut changed = Vec::with_capacity(batch.len());
        for (item, sample) in batch.into_iter().enumerate() {
            let sample = sample.and_then(|sample| {
                let changed = self.change(&sample);
                changed.map_err(|error| error.with_raw(sample))
            });
            changed.push(sample.map_err(|error| match error.path() {
                Some(_) => error,
                None => self.source.locate(item, error),
            }));
        }
        if self.unseen.len() < self.shared.len() {
            self.shared.retain(&self.unseen);
        }
        Ok(changed)
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&*self.source)
    }
}
