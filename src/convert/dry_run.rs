//! Dry runs, and what is reported before a conversion: what happens to each field.
//!
//! The first samples are written to a temporary directory and read again, so the answer is what the
//! writer and the reader do, and not a second description of it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::Source;
use super::carried::{ChangedValues, Remark, Remarks};
use super::conversion::Conversion;
use super::export::Export;
use super::export_form::ExportForm;
use super::format::Format;
use super::monitor::{Monitor, Notice};
use super::reshape::pack;
use crate::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, Cursor, sample};
use crate::stat::type_name;
use crate::storage::ScratchDir;

/// Samples that are tried.
const TRIED: usize = 100;
/// Bytes of them, if there are several, without a dry run.
const TRIED_BYTES: usize = 16 << 20;
/// Fields that are refused before the trial ends: each takes a trial of all others.
const REFUSED: usize = 20;
/// Fields whose changes are reported unasked.
const REPORTED: usize = 10;

/// The effect of a conversion on the fields of the first samples.
#[derive(Debug)]
#[non_exhaustive]
pub struct DryRun {
    /// The fields in the order in which they first occur, the key among them.
    pub fields: Vec<TriedField>,
    /// Contents of the sources that these samples lack or have changed.
    pub remarks: Vec<Remark>,
    /// Further notes about the sources and the options.
    pub notices: Vec<Notice>,
    /// The error that would stop the conversion, if the output cannot hold a field.
    pub error: Option<Error>,
}

/// The effect of a conversion on a field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TriedField {
    /// Its name in the source, after renaming.
    pub name: String,
    /// Its types, in words: `int`, or `str or nil`.
    pub types: String,
    /// The field as a reader of the output finds it.
    pub becomes: FieldOutcome,
    /// Which values change into what, as [`Format::carries`] has it: `strings become bytes`; and what was
    /// left out or changed when they were read.
    pub changes: Vec<String>,
}

/// A field as a reader of the output finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldOutcome {
    /// This field.
    Field {
        /// Its name.
        name: String,
        /// Its types, in words.
        types: String,
        /// Whether all values are the same as before.
        is_same: bool,
        /// Whether it is the key, which is a field like others in this format.
        is_key: bool,
    },
    /// Nothing: the format has no place for it.
    Lost,
    /// The format refuses it, for this reason.
    Refused(String),
    /// Not tried, as too many other fields are refused.
    Untried,
}

/// `{"fields": […], "remarks": […]}`, without the error.
impl Serialize for DryRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("DryRun", 2)?;
        object.serialize_field("fields", &self.fields)?;
        object.serialize_field("remarks", &self.remarks)?;
        object.end()
    }
}

/// `{"becomes", "field", "new_types", "outcome", "reason", "types"}`, where the outcome is `same`,
/// `changed`, `lost`, `refused` or `untried`.
impl Serialize for TriedField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (outcome, becomes, reason) = match &self.becomes {
            FieldOutcome::Field { name, types, is_same: true, .. } => {
                ("same", Some((name, types)), None)
            }
            FieldOutcome::Field { name, types, .. } => ("changed", Some((name, types)), None),
            FieldOutcome::Lost => ("lost", None, None),
            FieldOutcome::Refused(reason) => ("refused", None, Some(reason)),
            FieldOutcome::Untried => ("untried", None, None),
        };
        let mut object = serializer.serialize_struct("TriedField", 6)?;
        object.serialize_field("becomes", &becomes.map(|(name, _)| name))?;
        object.serialize_field("field", &self.name)?;
        object.serialize_field("new_types", &becomes.map(|(_, types)| types))?;
        object.serialize_field("outcome", outcome)?;
        object.serialize_field("reason", &reason)?;
        object.serialize_field("types", &self.types)?;
        object.end()
    }
}

/// A field, and its value in each sample.
struct Field {
    name: String,
    values: Vec<Option<Value>>,
}

/// Fields as a reader has them, by their names.
struct After {
    fields: Vec<Field>,
    places: HashMap<String, usize>,
}

impl After {
    fn new(fields: Vec<Field>) -> After {
        let names = fields.iter().map(|field| field.name.clone());
        let places = names.zip(0..).collect();
        After { fields, places }
    }
}

impl Conversion {
    /// The effect of a conversion on the fields of the first samples. Writes nothing but temporary files.
    ///
    /// # Errors
    ///
    /// The errors of [`plan`](Self::plan), of the first samples, and errors of the output as a whole.
    pub fn dry_run(&self) -> Result<DryRun> {
        self.check()?;
        let opened = self.open()?;
        let notices = opened.notices;
        let (mut source, _) = self.shaped(opened.samples.into_source())?;
        let format = self.output_format();
        let mut batch = source.next_batch()?;
        let remarks = all_remarks(&*source);
        batch.truncate(TRIED);
        let samples = batch.into_iter().collect::<Result<Vec<_>>>()?;
        let before = fields(&samples)?;
        let (after, refused, changes) = match format {
            Format::Dataset => (fields(&samples)?, Vec::new(), Vec::new()),
            _ => trial(format, samples, &*source)?,
        };
        let changes_of = |name: &str| {
            let read = remarks.iter().filter(|remark| remark.field.as_deref() == Some(name));
            let own = changes.iter().filter(|changed| changed.field == name);
            let own = own.map(|changed| format!("{} become {}", changed.kind, changed.became));
            read.map(Remark::what).chain(own).collect::<Vec<String>>()
        };
        let is_remarked =
            |name: &str| remarks.iter().any(|remark| remark.field.as_deref() == Some(name));
        let after = After::new(after);
        let reasons: HashMap<&str, &str> =
            refused.iter().map(|refused| (&refused.field[..], refused.error.message())).collect();
        let becomes = |field: &Field| {
            if let Some(reason) = reasons.get(&field.name[..]) {
                return FieldOutcome::Refused((*reason).to_owned());
            }
            match field.found_in(&after, format) {
                None if reasons.len() >= REFUSED => FieldOutcome::Untried,
                None => FieldOutcome::Lost,
                Some(found) => FieldOutcome::Field {
                    name: found.name.clone(),
                    types: found.types(),
                    is_same: field.values == found.values && !is_remarked(&field.name),
                    is_key: field.name != found.name && found.name == OWN_KEY,
                },
            }
        };
        let tried = before.iter().map(|field| TriedField {
            name: field.name.clone(),
            types: field.types(),
            becomes: becomes(field),
            changes: changes_of(&field.name),
        });
        let fields = tried.collect();
        let error = refused.into_iter().next().map(|refused| refused.error);
        Ok(DryRun { fields, remarks, notices, error })
    }
}

/// The remarks so far.
fn all_remarks(source: &dyn Source) -> Vec<Remark> {
    let mut all = Remarks::default();
    source.remarks().into_iter().for_each(|remarks| all.add(remarks));
    all.list()
}

/// The name of the key where it is a field like others: a reader has a key of its own.
const OWN_KEY: &str = "_key";

/// A field that the format has no place for.
struct Refused {
    field: String,
    /// The error that would stop a conversion.
    error: Error,
}

/// The fields that come back, those that had to be left out for that, and which values change.
fn trial(
    format: Format,
    mut samples: Vec<Vec<u8>>,
    source: &dyn Source,
) -> Result<(Vec<Field>, Vec<Refused>, Vec<ChangedValues>)> {
    let mut refused: Vec<Refused> = Vec::new();
    loop {
        let error = match back_and_forth(format, &samples, source.label_names(), Some(source)) {
            Ok((back, changes)) => return Ok((fields(&back)?, refused, changes)),
            Err(error) => error,
        };
        let field = error.field().filter(|name| *name != sample::KEY);
        let known = field.filter(|name| has_field(&samples, name));
        let Some(field) = known.map(str::to_owned) else {
            // The error is about all samples, so nothing is known of the other fields.
            return Err(refused.into_iter().next().map_or(error, |refused| refused.error));
        };
        for sample in &mut samples {
            *sample = without(sample, &field)?;
        }
        refused.push(Refused { field, error });
        if refused.len() == REFUSED {
            return Ok((Vec::new(), refused, Vec::new()));
        }
    }
}

fn has_field(samples: &[Vec<u8>], name: &str) -> bool {
    samples.iter().any(|packed| matches!(sample::field(packed, name), Ok(Some(_))))
}

/// A sample without a field.
fn without(packed: &[u8], left_out: &str) -> Result<Vec<u8>> {
    let key = msgpack::check_sample(packed)?;
    let mut kept = Vec::new();
    for field in sample::fields(packed)? {
        let (name, value) = field?;
        let name = Cursor::new(name).read_str()?;
        if name != sample::KEY && name != left_out {
            kept.push((name.to_owned(), value));
        }
    }
    pack(key, &kept)
}

/// Reports fields of the first samples that come back under another name, in another order, or not at
/// all. Values that change are counted by the writer.
pub(super) fn report_changes(
    format: Format,
    path: &Path,
    first: &[Result<Vec<u8>>],
    labels: Option<&[String]>,
    monitor: &mut dyn Monitor,
) -> Result<()> {
    let (mut samples, mut bytes) = (Vec::new(), 0);
    for sample in first.iter().flatten().take(TRIED) {
        bytes += sample.len();
        if bytes > TRIED_BYTES && !samples.is_empty() {
            break;
        }
        samples.push(sample.clone());
    }
    // A sample that cannot be written is reported when its turn comes, with its place.
    let Ok((back, _)) = back_and_forth(format, &samples, labels, None) else { return Ok(()) };
    let (before, after) = (fields(&samples)?, After::new(fields(&back)?));
    let mut changes = Vec::new();
    for field in &before {
        let name = &field.name;
        match field.found_in(&after, format) {
            Some(found) if found.name == OWN_KEY => {
                monitor.notice(Notice::KeyBecomesField(path.to_path_buf()));
            }
            None => changes.push(format!("field {name:?} is lost")),
            Some(found) => changes.extend(field.change(found)),
        }
    }
    let order = |fields: &[Field]| -> Vec<String> {
        let names = fields.iter().map(|field| field.name.clone());
        names.filter(|name| !name.ends_with("key")).collect()
    };
    let (old, new) = (order(&before), order(&after.fields));
    let mut sorted = old.clone();
    sorted.sort();
    if old != new && sorted == new {
        changes.push("fields are sorted by name".to_owned());
    }
    let more = changes.len() > REPORTED;
    for change in changes.into_iter().take(REPORTED) {
        monitor.notice(Notice::FieldChanges { path: path.to_path_buf(), change });
    }
    if more {
        monitor.notice(Notice::MoreFieldsChange);
    }
    Ok(())
}

/// The samples as a reader finds them in what the writer wrote, and which values it changed.
fn back_and_forth(
    format: Format,
    samples: &[Vec<u8>],
    labels: Option<&[String]>,
    source: Option<&dyn Source>,
) -> Result<(Vec<Vec<u8>>, Vec<ChangedValues>)> {
    let scratch = ScratchDir::create()?;
    let form = ExportForm::of(format);
    let mut export = Export::create(form, &scratch.path().join("trial"), false, labels)?;
    for (item, sample) in samples.iter().enumerate() {
        export.writer().write_packed(sample).map_err(|error| match source {
            Some(source) => source.locate(item, error),
            None => error,
        })?;
    }
    if samples.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "expected samples to try, found none"));
    }
    let changes = export.writer().changes();
    let files = export.finish_trial()?;
    let read_as = if format == Format::Dataset { Format::Jsonl } else { format };
    Ok((read(files, read_as)?, changes))
}

fn read(files: Vec<PathBuf>, format: Format) -> Result<Vec<Vec<u8>>> {
    let conversion = Conversion::new(files, "").from(format).guess_types(format == Format::Csv);
    let mut source = conversion.open()?.samples.into_source();
    let mut samples = Vec::new();
    loop {
        let batch = source.next_batch()?;
        if batch.is_empty() {
            return Ok(samples);
        }
        samples.extend(batch.into_iter().collect::<Result<Vec<_>>>()?);
    }
}

/// All fields of these samples, in the order in which they first come.
fn fields(samples: &[Vec<u8>]) -> Result<Vec<Field>> {
    let mut fields: Vec<Field> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (index, packed) in samples.iter().enumerate() {
        let Value::Map(pairs) = msgpack::decode(packed)? else { continue };
        for (name, value) in pairs {
            let name = name.as_str().unwrap_or_default().to_owned();
            let at = *places.entry(name).or_insert_with_key(|name| {
                fields.push(Field { name: name.clone(), values: vec![None; samples.len()] });
                fields.len() - 1
            });
            fields[at].values[index] = Some(value);
        }
    }
    Ok(fields)
}

impl Field {
    fn types(&self) -> String {
        let mut types: Vec<String> = Vec::new();
        for found in self.values.iter().flatten().map(type_of) {
            if !types.contains(&found) {
                types.push(found);
            }
        }
        types.join(" or ")
    }

    /// The field that this one became: perhaps with a suffix; and where the key is a field among
    /// others, readers call it differently.
    fn found_in<'a>(&self, after: &'a After, format: Format) -> Option<&'a Field> {
        let name = match &self.name[..] {
            sample::KEY if format.def().key_field => OWN_KEY,
            name => name,
        };
        let suffixes = format.def().suffixes.iter();
        let places = suffixes.filter_map(|suffix| after.places.get(&format!("{name}{suffix}")));
        places.min().map(|at| &after.fields[*at])
    }

    /// Its new name, if it has one.
    fn change(&self, other: &Field) -> Option<String> {
        let (name, now) = (&self.name, &other.name);
        (now != name).then(|| format!("field {name:?} is named {now:?}"))
    }
}

/// The type of a value, as statistics call it.
fn type_of(value: &Value) -> String {
    let packed = msgpack::to_vec(value).ok();
    packed.and_then(|packed| type_name(&packed).ok()).unwrap_or_else(|| "damaged".to_owned())
}
