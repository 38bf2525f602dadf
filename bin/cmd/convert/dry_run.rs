//! `--dry-run`: what becomes of each field. The first samples are written to a temporary folder and
//! read again, so what is said is what the writer and the reader do, and not a second list of it.

use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::Value;
use kiste::convert::Source;
use kiste::format::msgpack;

use super::from::{From, Reading};
use super::to::{Export, To};
use crate::cmd::info::type_of;
use crate::exit::{Exit, Failure, Outcome};
use crate::file::ScratchDir;
use crate::output::Output;

/// Samples that are tried.
const TRIED: usize = 100;

/// A field, and its value in each sample.
struct Field {
    name: String,
    values: Vec<Option<Value>>,
}

/// Prints what becomes of the fields of the first samples.
pub(super) fn dry_run(to: To, source: &mut dyn Source, output: &Output) -> Outcome<Exit> {
    let mut batch = source.next_batch()?;
    batch.truncate(TRIED);
    let samples = batch.into_iter().collect::<kiste::Result<Vec<_>>>()?;
    let before = fields(&samples)?;
    let after = match to {
        To::Dataset => fields(&samples)?,
        _ => fields(&back_and_forth(to, &samples, source)?)?,
    };
    let mut out = output.stdout();
    writeln!(out, "{}", output.bold("field\ttype\tbecomes\tnote"))?;
    for field in &before {
        let (name, types) = (&field.name, field.types());
        match after.iter().find(|found| field.is_in(found, to)) {
            None => writeln!(out, "{name}\t{types}\t-\tlost")?,
            Some(found) => {
                writeln!(out, "{name}\t{types}\t{}\t{}", found.types(), field.note(found))?;
            }
        }
    }
    Ok(Exit::Yes)
}

/// The samples as a reader has them of what the writer wrote.
fn back_and_forth(to: To, samples: &[Vec<u8>], source: &dyn Source) -> Outcome<Vec<Vec<u8>>> {
    let scratch = ScratchDir::create()?;
    let mut export =
        Export::create(to, &scratch.path().join("trial"), false, source.label_names())?;
    for (item, sample) in samples.iter().enumerate() {
        export.write(sample).map_err(|error| source.locate(item, error))?;
    }
    if samples.is_empty() {
        return Err(Failure::trouble("expected samples to try, found none"));
    }
    let made: Vec<PathBuf> = export.finish()?;
    let from = match to {
        To::Dataset | To::Jsonl => From::Jsonl,
        To::Webdataset => From::Webdataset,
        To::Tfrecord => From::Tfrecord,
        To::Mds => From::Mds,
        To::Npz => From::Npz,
        To::Images => From::Images,
        To::Csv => From::Csv,
    };
    read(&made, from)
}

fn read(made: &[impl AsRef<Path>], from: From) -> Outcome<Vec<Vec<u8>>> {
    let made: Vec<PathBuf> = made.iter().map(|path| path.as_ref().to_path_buf()).collect();
    let mut source = Reading::of(from).open(&made)?.source;
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
    for (index, packed) in samples.iter().enumerate() {
        let Value::Map(pairs) = msgpack::decode(packed)? else { continue };
        for (name, value) in pairs {
            let name = name.as_str().unwrap_or_default().to_owned();
            let at = fields.iter().position(|field| field.name == name).unwrap_or(fields.len());
            if at == fields.len() {
                fields.push(Field { name, values: vec![None; samples.len()] });
            }
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

    /// Whether this has become the other: with an ending in WebDataset; and where the key is a
    /// field among others, readers have their own key beside it.
    fn is_in(&self, other: &Field, to: To) -> bool {
        let ending = other.name.strip_prefix(&self.name);
        match (to, &self.name[..]) {
            (To::Tfrecord | To::Mds | To::Npz | To::Csv, "key") => other.name == "_key",
            (To::Webdataset, _) => ending.is_some_and(|ending| {
                ["", ".txt", ".cls", ".npy", ".json", ".bin"].contains(&ending)
            }),
            _ => other.name == self.name,
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
