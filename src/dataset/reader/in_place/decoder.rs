//! [`Decoder`]: a record of a shard as the key and the fields of its sample.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::Place;
#[cfg(feature = "parquet")]
use super::batches::Batches;
use crate::Value;
use crate::error::{Error, ErrorKind, Remedy, Result};
#[cfg(feature = "formats")]
use crate::format::FormatError;
use crate::format::in_place::{Index, Kind, Shard};
use crate::format::jsonl::keys::{KeyRule, Notation};
use crate::format::jsonl::lines;
use crate::format::key_pattern::KeyPattern;
use crate::format::mds::{self, Column, Encoding, sample_cells};
use crate::format::msgpack::sample::KEY;
use crate::format::sample_fields::{Field, Fields, key_from, stored_name};
#[cfg(feature = "formats")]
use crate::format::tfrecord::{self, FOOTER, HEADER, sample as example};
use crate::format::webdataset::meaning::{Note, SHARD};
use crate::format::webdataset::record as files;
use crate::storage::Source;

/// Default for the bytes of a sample, as of conversions.
const MAX_BYTES: u64 = 1 << 30;

/// Takes the key and the fields of a sample.
type Take<'t> = dyn FnMut(&str, Fields<'_>) -> Result<()> + 't;

pub(super) struct Decoder {
    kind: Decoding,
    keys: Keys,
    max_bytes: u64,
}

/// Where keys come from.
struct Keys {
    pattern: Option<KeyPattern>,
    field: Option<String>,
}

/// The formats, with what the frames of the index say.
enum Decoding {
    WebDataset(Vec<Option<Note>>),
    JsonLines {
        rule: KeyRule,
        plain: bool,
        numbered: Vec<bool>,
    },
    #[cfg(feature = "formats")]
    TfRecord(example::Rules),
    Mds(Vec<(Vec<Column>, bool)>),
    #[cfg(feature = "parquet")]
    Arrow(Batches),
}

impl Keys {
    /// Whether keys are made of other fields alone, so that one called `key` is none.
    fn replace(&self) -> bool {
        let is_new = |pattern: &KeyPattern| !pattern.has_key();
        self.field.as_deref().is_some_and(|name| name != KEY)
            || self.pattern.as_ref().is_some_and(is_new)
    }

    /// The field that is the key, if the source itself calls it `key`.
    fn own(&self) -> Option<&str> {
        self.field.as_deref().filter(|name| *name == KEY)
    }

    /// Whether a field that records call so is needed for the key.
    fn need(&self, name: &str) -> bool {
        let is_it = |field: &str| stored_name(field) == stored_name(name);
        self.field.as_deref().is_some_and(is_it)
            || self.pattern.iter().flat_map(KeyPattern::fields).any(is_it)
    }

    /// Makes the key of a sample that had this one, and leaves out the field that became it.
    fn apply(
        &self,
        old: &str,
        called: Option<&str>,
        mut fields: Fields<'_>,
        take: &mut Take<'_>,
    ) -> Result<()> {
        let replaced = self.field.as_deref().filter(|name| *name != KEY);
        if let Some(name) = replaced {
            let key = key_of(&fields, name)?;
            fields.retain(|(found, _)| stored_name(found) != stored_name(name));
            return take(&key, fields);
        }
        if self.own().is_some() {
            fields.retain(|(found, _)| stored_name(found) != stored_name(KEY));
        }
        let Some(pattern) = &self.pattern else { return take(old, fields) };
        let shard = || called.map(str::to_owned).ok_or_else(no_name);
        let key = pattern.key(old, shard, |name| key_of(&fields, name))?;
        take(&key, fields)
    }
}

/// The text of a field, by the name that samples have it under.
fn key_of(fields: &Fields<'_>, name: &str) -> Result<String> {
    let found = fields.iter().find(|(found, _)| stored_name(found) == stored_name(name));
    key_from(fields, found.map_or(name, |(found, _)| found))
}

#[cold]
fn no_name() -> Error {
    let message = "expected a name of the shard in the index, as keys have it, found none";
    Error::new(ErrorKind::Damaged, message)
}

/// JSON lines in UTF-8, of which some members are needed.
struct Lines<'a> {
    plain: bool,
    needs: &'a dyn Fn(&str) -> bool,
}

impl Notation for Lines<'_> {
    fn is_plain(&self) -> bool {
        self.plain
    }

    fn needs(&self, name: &str) -> bool {
        (self.needs)(name)
    }
}

impl Decoder {
    /// For the shards of an index.
    pub(super) fn of(index: &Index) -> Result<Decoder> {
        let options = &index.options;
        let pattern = options.key.as_deref().map(str::parse).transpose()?;
        let keys = Keys { pattern, field: options.key_field.clone() };
        let max_bytes = options.max_bytes.unwrap_or(MAX_BYTES);
        let frames = &index.frames;
        let kind = match index.kind {
            Kind::WebDataset => {
                let note = |text: &String| Note::of(&vec![(SHARD.to_owned(), text.clone())]);
                let notes = frames
                    .iter()
                    .map(|frame| Ok(frame.note.as_ref().map(note).transpose()?.flatten()));
                Decoding::WebDataset(notes.collect::<Result<_>>()?)
            }
            Kind::Jsonl => {
                let rule = match (keys.own(), keys.replace()) {
                    (Some(key), _) => KeyRule::Field(key.to_owned()),
                    (None, true) => KeyRule::Replaced,
                    (None, false) => KeyRule::Own,
                };
                let numbered = frames.iter().map(|frame| frame.numbered).collect();
                Decoding::JsonLines { rule, plain: options.plain, numbered }
            }
            #[cfg(feature = "formats")]
            Kind::TfRecord => {
                let (texts, lists) = (options.texts.clone(), options.lists.clone());
                Decoding::TfRecord(example::Rules { texts, lists })
            }
            Kind::Mds => {
                let column = |(name, encoding, size): &(String, String, Option<u32>)| {
                    let encoding = Encoding::parse(encoding).map_err(Error::from)?;
                    Ok(Column { name: name.clone(), encoding, size: *size })
                };
                let frame = |frame: &crate::format::in_place::Frame| {
                    let columns = frame.columns.iter().map(column).collect::<Result<Vec<_>>>()?;
                    mds::check_pickles(&columns, &|_| true, &|_| false)?;
                    Ok((columns, frame.notation))
                };
                Decoding::Mds(frames.iter().map(frame).collect::<Result<_>>()?)
            }
            #[cfg(feature = "parquet")]
            Kind::Arrow => Decoding::Arrow(Batches::of(frames, !keys.replace(), max_bytes)?),
            #[allow(unreachable_patterns, reason = "unless a feature is off")]
            kind => {
                let feature = if kind == Kind::Arrow { "parquet" } else { "formats" };
                let message = format!("{} is not in this build", kind.name());
                let error = Error::new(ErrorKind::Unsupported, message);
                return Err(error.with_remedy(Remedy::Feature(feature)));
            }
        };
        Ok(Decoder { kind, keys, max_bytes })
    }

    /// Whether keys are made of fields.
    pub(super) fn needs_fields(&self) -> bool {
        let in_pattern = self.keys.pattern.iter().flat_map(KeyPattern::fields).next();
        self.keys.field.is_some() || in_pattern.is_some()
    }

    /// The key of a sample without fields that had this one.
    pub(super) fn rename(&self, old: &str, shard: &Shard, take: &mut Take<'_>) -> Result<()> {
        self.keys.apply(old, shard.called.as_deref(), Vec::new(), take)
    }

    /// Whether addresses are bytes.
    pub(super) fn is_by_bytes(&self) -> bool {
        match self.kind {
            #[cfg(feature = "parquet")]
            Decoding::Arrow(_) => false,
            _ => true,
        }
    }

    /// The bytes that a sample is read from.
    pub(super) fn bytes(&self, shard: &Shard, place: &Place) -> Range<u64> {
        match &self.kind {
            #[cfg(feature = "parquet")]
            Decoding::Arrow(_) => Batches::bytes(shard, place.range.start),
            _ => shard.from + place.range.start..shard.from + place.range.end,
        }
    }

    /// The sample as it is packed where that is more than its key and its fields: members of JSON keep their places.
    pub(super) fn packed(
        &self,
        source: &Source,
        shard: &Shard,
        place: &Place,
    ) -> Result<Option<Vec<u8>>> {
        let Decoding::JsonLines { rule, plain, numbered } = &self.kind else { return Ok(None) };
        if self.keys.pattern.is_some() || self.keys.field.is_some() {
            return Ok(None);
        }
        let bytes = self.read(source, &self.bytes(shard, place))?;
        let (line, numbered) = (self.line_of(&bytes)?, is_numbered(numbered, shard));
        let notation = Lines { plain: *plain, needs: &|_| true };
        let number = || {
            Ok(lines::numbered_key(
                shard.called.as_deref().ok_or_else(no_name)?,
                shard.record(place.number),
            ))
        };
        rule.pack(line, &notation, || Ok(numbered), number).map(Some)
    }

    /// Calls `take` once on the key and the fields of a sample.
    pub(super) fn decode(
        &self,
        source: &Arc<Source>,
        shard: &Shard,
        place: &Place,
        needs: &dyn Fn(&str) -> bool,
        take: &mut Take<'_>,
    ) -> Result<()> {
        let needs = |name: &str| needs(name) || self.keys.need(name);
        let called = || shard.called.as_deref().ok_or_else(no_name);
        let mut done = |key: &str, fields: Fields<'_>| {
            self.keys.apply(key, shard.called.as_deref(), fields, &mut *take)
        };
        #[cfg(feature = "parquet")]
        if let Decoding::Arrow(batches) = &self.kind {
            let row = (place.shard, place.range.start);
            return batches.decode(source, shard, row, self.keys.own(), &needs, &mut done);
        }
        let range = self.bytes(shard, place);
        let bytes = self.read(source, &range)?;
        let bytes = &*bytes;
        let frame = shard.frame.map(|frame| frame as usize);
        match &self.kind {
            Decoding::WebDataset(notes) => {
                let note = frame.and_then(|frame| notes.get(frame)?.as_ref());
                let group = files::sample(bytes, range.start, self.max_bytes, note)?;
                let key = files::key(&group.name, note);
                let fields = files::fields(&group.files, note, true, &needs);
                let fields = fields.map_err(|(_, error)| error.with_key(&key[..]))?;
                done(&key, fields)
            }
            Decoding::JsonLines { rule, plain, numbered } => {
                let line = self.line_of(bytes)?;
                let notation = Lines { plain: *plain, needs: &needs };
                let numbered = is_numbered(numbered, shard);
                let number = || Ok(lines::numbered_key(called()?, shard.record(place.number)));
                let value = rule.value(line, &notation, || Ok(numbered), number)?;
                let (key, fields) = members(value)?;
                done(&key, fields)
            }
            #[cfg(feature = "formats")]
            Decoding::TfRecord(rules) => {
                let record = record(bytes, self.max_bytes)?;
                let (fields, _, _) =
                    rules.fields(record, &|name| needs(name) || self.keys.own() == Some(name))?;
                let key = match self.keys.own() {
                    Some(name) => key_from(&fields, name)?,
                    None => example::numbered_key(called()?, shard.record(place.number)),
                };
                done(&key, fields)
            }
            Decoding::Mds(frames) => {
                let frame = frame.and_then(|frame| frames.get(frame));
                let (columns, notation) = frame.ok_or_else(|| {
                    Error::new(
                        ErrorKind::Damaged,
                        "expected columns of the shard in the index, found none",
                    )
                })?;
                let (cells, _) = sample_cells(columns, bytes).map_err(Error::from)?;
                let own = |column: &Column| self.keys.own() == Some(&column.name);
                let unread = |column: &Column| !needs(&column.name) && !own(column);
                let fields =
                    mds::fields(columns, cells, *notation, &|_| true, &unread, &|_, _| ())?;
                let key = match self.keys.own() {
                    Some(name) => key_from(&fields, name)?,
                    None => {
                        let number = usize::try_from(shard.record(place.number));
                        mds::numbered_key(called()?, number.unwrap_or(usize::MAX))
                    }
                };
                done(&key, fields)
            }
            #[cfg(feature = "parquet")]
            Decoding::Arrow(_) => Ok(()),
        }
    }

    /// The line that these bytes begin with.
    fn line_of<'b>(&self, bytes: &'b [u8]) -> Result<&'b [u8]> {
        let end = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
        let line = lines::trimmed(&bytes[..end]);
        match line.len() as u64 <= self.max_bytes {
            true => Ok(line),
            false => {
                let message = format!("expected at most {} bytes, found more", self.max_bytes);
                Err(Error::above_limit("max_bytes", message))
            }
        }
    }

    /// The bytes of a record and what follows it, up to the next one.
    fn read<'s>(&self, source: &'s Source, range: &Range<u64>) -> Result<Cow<'s, [u8]>> {
        // A range is as trustworthy as the file that it is from: reading it without a map takes memory.
        let most = self.max_bytes.saturating_add(MAX_SPARE);
        if range.end - range.start > most && source.mapped().is_none() {
            let found = range.end - range.start;
            let message =
                format!("expected a sample of at most {} bytes, found {found}", self.max_bytes);
            return Err(Error::above_limit("max_bytes", message));
        }
        source.read(range.clone())
    }
}

fn is_numbered(frames: &[bool], shard: &Shard) -> bool {
    let frame = shard.frame.and_then(|frame| frames.get(frame as usize));
    frame.is_some_and(|numbered| *numbered)
}

/// What may be between two samples besides them.
const MAX_SPARE: u64 = 1 << 20;

/// The key of a sample and its other members.
fn members(value: Value) -> Result<(String, Fields<'static>)> {
    let not_sample = || {
        let message = "not a sample: expected a map with the key \"key\", found another value";
        Error::new(ErrorKind::Damaged, message)
    };
    let Value::Map(members) = value else { return Err(not_sample()) };
    let mut key = None;
    let mut fields: Fields<'static> = Vec::with_capacity(members.len());
    for (name, value) in members {
        let name = name.as_str().ok_or_else(not_sample)?.to_owned();
        if name == KEY {
            key = value.as_str().map(str::to_owned);
        } else {
            fields.push((name.into(), Field::Value(value)));
        }
    }
    Ok((key.ok_or_else(not_sample)?, fields))
}

/// The data of the record that these bytes begin with.
#[cfg(feature = "formats")]
fn record(bytes: &[u8], max_bytes: u64) -> Result<&[u8]> {
    let cut = |found: usize| {
        let error = FormatError::new(0, "a whole record", format!("{found} bytes"));
        Error::from(error)
    };
    let header = bytes.first_chunk::<HEADER>().ok_or_else(|| cut(bytes.len()))?;
    let length = tfrecord::parse_header(header).map_err(Error::from)?;
    if length > max_bytes {
        let message = format!("expected a record of at most {max_bytes} bytes, found {length}");
        return Err(Error::above_limit("max_bytes", message));
    }
    let end = usize::try_from(length).ok().and_then(|length| length.checked_add(HEADER));
    let data = end.and_then(|end| bytes.get(HEADER..end)).ok_or_else(|| cut(bytes.len()))?;
    let footer = bytes.get(HEADER + data.len()..).and_then(|rest| rest.first_chunk::<FOOTER>());
    let footer = footer.ok_or_else(|| cut(bytes.len()))?;
    tfrecord::check_data(data, *footer).map_err(Error::from)?;
    Ok(data)
}
