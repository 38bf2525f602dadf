//! `--dry-run`, and what is said before the work: what becomes of each field. The first samples are
//! written to a temporary folder and read again, so what is said is what the writer and the reader
//! do, and not a second list of it.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::Value;
use kiste::convert::Source;
use kiste::format::msgpack::{self, Cursor, sample};

use super::fields::pack;
use super::from::{From, Reading};
use super::to::{Export, To};
use crate::cmd::info::type_of;
use crate::exit::{Exit, Failure, Outcome};
use crate::file::ScratchDir;
use crate::output::Output;

/// Samples that are tried.
const TRIED: usize = 100;
/// Bytes of them, if they are more than one, where nobody asked for a trial.
const TRIED_BYTES: usize = 16 << 20;
/// Fields that are tried again without those that were refused.
const REFUSED: usize = 20;
/// Fields of which something is said unasked.
const TOLD: usize = 10;

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

/// Prints what becomes of the fields of the first samples.
pub(super) fn dry_run(to: To, source: &mut dyn Source, output: &Output) -> Outcome<Exit> {
    let mut batch = source.next_batch()?;
    batch.truncate(TRIED);
    let samples = batch.into_iter().collect::<kiste::Result<Vec<_>>>()?;
    let before = fields(&samples)?;
    let (after, refused) = match to {
        To::Dataset => (fields(&samples)?, Vec::new()),
        _ => trial(to, samples, source)?,
    };
    let after = After::new(after);
    let reasons: HashMap<&str, &str> =
        refused.iter().map(|refused| (&refused.field[..], &refused.reason[..])).collect();
    let mut out = output.stdout();
    out.row(&["field", "type", "becomes", "note"].map(|name| output.bold(name)))?;
    for field in &before {
        let (name, types) = (&field.name, field.types());
        if let Some(reason) = reasons.get(&name[..]) {
            let note = format!("cannot be carried: {reason}");
            out.row(&[name, &types, "-", &note])?;
            continue;
        }
        match field.found_in(&after, to) {
            None if reasons.len() >= REFUSED => out.row(&[name, &types, "-", "not tried"])?,
            None => out.row(&[name, &types, "-", "is lost"])?,
            Some(found) => out.row(&[name, &types, &found.types(), &field.note(found)])?,
        }
    }
    out.flush()?;
    match refused.into_iter().next() {
        Some(refused) => Err(refused.failure),
        None => Ok(Exit::Yes),
    }
}

/// A field that the format has no place for.
struct Refused {
    field: String,
    reason: String,
    /// What a conversion would stop with.
    failure: Failure,
}

/// The fields that come back, and those that had to be left out for that.
fn trial(
    to: To,
    mut samples: Vec<Vec<u8>>,
    source: &dyn Source,
) -> Outcome<(Vec<Field>, Vec<Refused>)> {
    let mut refused: Vec<Refused> = Vec::new();
    loop {
        let failure = match back_and_forth(to, &samples, source.label_names(), Some(source)) {
            Ok(back) => return Ok((fields(&back)?, refused)),
            Err(failure) => failure,
        };
        let Some((field, reason)) = blamed(&failure, &fields(&samples)?) else {
            // Of the others nothing is known then.
            return Err(refused.into_iter().next().map_or(failure, |refused| refused.failure));
        };
        for sample in &mut samples {
            *sample = without(sample, &field)?;
        }
        refused.push(Refused { field, reason, failure });
        // Each of them takes a trial of all the others.
        if refused.len() == REFUSED {
            return Ok((Vec::new(), refused));
        }
    }
}

/// The field that a failure names, and what is wrong with it.
fn blamed(failure: &Failure, fields: &[Field]) -> Option<(String, String)> {
    let Failure::Told { message, .. } = failure else { return None };
    // Only where it is named, and not for each of many fields through a long message.
    let (_, named) = message.split_once("field \"")?;
    fields.iter().filter(|field| field.name != sample::KEY).find_map(|field| {
        let name = format!("{:?}: ", field.name);
        let reason = named.strip_prefix(&name[1..])?;
        Some((field.name.clone(), reason.to_owned()))
    })
}

/// A sample without a field.
fn without(packed: &[u8], left_out: &str) -> kiste::Result<Vec<u8>> {
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

/// Says what becomes of fields of the first samples that do not come back as they are.
pub(super) fn tell_losses(
    to: To,
    path: &Path,
    first: &[kiste::Result<Vec<u8>>],
    labels: Option<&[String]>,
    output: &Output,
) -> Outcome<()> {
    let (mut samples, mut bytes) = (Vec::new(), 0);
    for sample in first.iter().flatten().take(TRIED) {
        bytes += sample.len();
        if bytes > TRIED_BYTES && !samples.is_empty() {
            break;
        }
        samples.push(sample.clone());
    }
    // What cannot be written at all is told when its turn comes, with its place.
    let Ok(back) = back_and_forth(to, &samples, labels, None) else { return Ok(()) };
    let (before, after) = (fields(&samples)?, After::new(fields(&back)?));
    let mut losses = Vec::new();
    for field in &before {
        let name = &field.name;
        match field.found_in(&after, to) {
            None => losses.push(format!("field {name:?} is lost")),
            Some(found) => losses.extend(field.loss(found)),
        }
    }
    let order = |fields: &[Field]| -> Vec<String> {
        fields
            .iter()
            .map(|field| field.name.clone())
            .filter(|name| !name.ends_with("key"))
            .collect()
    };
    let (old, new) = (order(&before), order(&after.fields));
    let mut sorted = old.clone();
    sorted.sort();
    if old != new && sorted == new {
        losses.push("fields are sorted by name".to_owned());
    }
    for loss in losses.iter().take(TOLD) {
        output.note(format_args!("{}: {loss}", path.display()));
    }
    if losses.len() > TOLD {
        output.hint("--dry-run says what becomes of the other fields");
    }
    Ok(())
}

/// The samples as a reader has them of what the writer wrote.
fn back_and_forth(
    to: To,
    samples: &[Vec<u8>],
    labels: Option<&[String]>,
    source: Option<&dyn Source>,
) -> Outcome<Vec<Vec<u8>>> {
    let scratch = ScratchDir::create()?;
    let mut export = Export::create(to, &scratch.path().join("trial"), false, labels)?;
    for (item, sample) in samples.iter().enumerate() {
        export.write(sample).map_err(|error| match source {
            Some(source) => source.locate(item, error),
            None => error,
        })?;
    }
    if samples.is_empty() {
        return Err(Failure::trouble("expected samples to try, found none"));
    }
    let made: Vec<PathBuf> = export.finish_trial()?;
    let from = match to {
        To::Dataset | To::Jsonl => From::Jsonl,
        To::Webdataset => From::Webdataset,
        To::Tfrecord => From::Tfrecord,
        To::Mds => From::Mds,
        To::Npz => From::Npz,
        To::Images => From::Images,
        To::Csv => From::Csv,
        To::Parquet => From::Parquet,
        To::Arrow => From::Arrow,
    };
    read(&made, from)
}

fn read(made: &[impl AsRef<Path>], from: From) -> Outcome<Vec<Vec<u8>>> {
    let made: Vec<PathBuf> = made.iter().map(|path| path.as_ref().to_path_buf()).collect();
    let mut source = Reading::of(from).open(&made, None)?.samples.source();
    let mut samples = Vec::new();
    loop {
        let batch = source.next_batch()?;
        if batch.is_empty() {
            return Ok(samples);
        }
        samples.extend(batch.into_iter().collect::<kiste::Result<Vec<_>>>()?);
    }
}

/// All fields of these samples, in the order in which they first come.
fn fields(samples: &[Vec<u8>]) -> kiste::Result<Vec<Field>> {
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

    /// What has become of this: with an ending in WebDataset; and where the key is a field among
    /// others, readers have their own key beside it.
    fn found_in<'a>(&self, after: &'a After, to: To) -> Option<&'a Field> {
        let endings: &[&str] = match to {
            To::Webdataset => &["", ".txt", ".cls", ".npy", ".json", ".bin"],
            _ => &[""],
        };
        let name = match (to, &self.name[..]) {
            (To::Tfrecord | To::Mds | To::Npz | To::Csv, "key") => "_key",
            (_, name) => name,
        };
        let places = endings.iter().filter_map(|end| after.places.get(&format!("{name}{end}")));
        places.min().map(|at| &after.fields[*at])
    }

    /// What is not as it was, if anything.
    fn loss(&self, other: &Field) -> Option<String> {
        let (name, now) = (&self.name, &other.name);
        if now == "_key" {
            let message = "the key is a field \"key\": --key-field key makes it the key again";
            return Some(message.to_owned());
        }
        let (before, after) = (self.types(), other.types());
        let renamed = match now == name {
            true => String::new(),
            false => format!(" is named {now:?}"),
        };
        let changed = match (before == after, self.values == other.values) {
            (true, true) => String::new(),
            (true, false) => " has other values".to_owned(),
            (false, _) => format!(": {before} becomes {after}"),
        };
        let both = if renamed.is_empty() || changed.is_empty() { "" } else { "," };
        match renamed.is_empty() && changed.is_empty() {
            true => None,
            false => Some(format!("field {name:?}{renamed}{both}{changed}")),
        }
    }

    fn note(&self, other: &Field) -> String {
        let values = if self.values == other.values { "as it is" } else { "changed" };
        match self.name == other.name {
            true => values.to_owned(),
            false if other.name == "_key" => "the key again with --key-field key".to_owned(),
            false => format!("{values}, named {}", other.name),
        }
    }
}
