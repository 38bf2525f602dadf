use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::format::dataset::SideFile;
use kiste::repair::{Leftover, Repair};
use kiste::stat::{self, FieldSummary, stat};
use kiste::storage::Storage;
use kiste::{DatasetReader, ErrorKind, Reader, ReaderExt};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::exit::{Exit, Outcome};
use crate::output::Output;
use crate::printable::escaped;
use crate::{file, units};

/// Samples that are decoded to learn of the fields.
const LOOKED_AT: usize = 100;
/// The most types of one field that are counted separately.
const TYPES: usize = 6;

/// Say what a dataset is: samples, sizes, fields, files
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste info train.msgpack
  kiste info train.msgpack --json | jq .samples

Fields, their types and their arrays are those of the first 100 samples.";

#[derive(serde::Serialize)]
struct Info {
    file: PathBuf,
    samples: u64,
    bytes: u64,
    /// Absent where there are no samples.
    sample_bytes: Option<SampleBytes>,
    fields: Fields,
    /// By field, of the samples that were looked at.
    arrays: BTreeMap<String, Arrays>,
    files: Vec<File>,
    digests: bool,
    lookup: bool,
    checksums: bool,
    unfinished: Option<&'static str>,
}

#[derive(serde::Serialize)]
struct SampleBytes {
    min: u64,
    mean: f64,
    max: u64,
}

#[derive(serde::Serialize)]
struct File {
    file: PathBuf,
    bytes: Option<u64>,
    present: bool,
}

/// Names and types, in the order of the samples; as JSON an object.
struct Fields(Vec<(String, Vec<String>)>);

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, types) in &self.0 {
            map.serialize_entry(name, types)?;
        }
        map.end()
    }
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.file)?;
        let (fields, arrays) = look(&reader)?;
        let (storage, path) = file::locate(&self.file)?;
        let files = files(&*storage, &path)?;
        let has =
            |side: SideFile| files.iter().any(|file| file.present && file.file == side.path(&path));
        let info = Info {
            samples: reader.len() as u64,
            bytes: reader.data_len(),
            sample_bytes: sample_bytes(&reader)?,
            fields,
            arrays,
            digests: has(SideFile::Md5),
            lookup: has(SideFile::Lookup),
            checksums: has(SideFile::Crc),
            unfinished: match kiste::storage::is_url(&self.file) {
                true => None,
                false => unfinished(&path)?,
            },
            files,
            file: path,
        };
        if self.json {
            output.json(&info)?
        } else {
            info.print(output)?
        }
        Ok(Exit::Yes)
    }
}

impl Info {
    fn print(&self, output: &Output) -> Outcome<()> {
        let mut out = output.stdout();
        let path = self.file.display();
        let label = |text: &str| output.bold(format_args!("{text:<9}"));
        writeln!(out, "{}{path}", label("dataset"))?;
        writeln!(out, "{}{}", label("samples"), units::count(self.samples))?;
        write!(out, "{}{}", label("bytes"), units::count(self.bytes))?;
        match &self.sample_bytes {
            Some(SampleBytes { min, mean, max }) => {
                let mean = units::count(mean.round() as u64);
                let (min, max) = (units::count(*min), units::count(*max));
                writeln!(out, ", a sample has {min} to {max}, on average {mean}")?;
            }
            None => writeln!(out)?,
        }
        let names: Vec<_> = self.fields.0.iter().map(|(name, _)| escaped(name)).collect();
        let width = names.iter().map(|name| name.chars().count()).max();
        for (at, (name, (_, types))) in names.iter().zip(&self.fields.0).enumerate() {
            let (label, width) = (label(if at == 0 { "fields" } else { "" }), width.unwrap_or(0));
            writeln!(out, "{label}{name:<width$}  {}", types.join(" or "))?;
        }
        let names: Vec<_> = self.arrays.keys().map(|name| escaped(name)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        for (at, (name, arrays)) in names.iter().zip(self.arrays.values()).enumerate() {
            let label = label(if at == 0 { "arrays" } else { "" });
            writeln!(out, "{label}{name:<width$}  {arrays}")?;
        }
        let name = |file: &File| escaped(&file.file.display().to_string()).into_owned();
        let names: Vec<String> = self.files.iter().map(name).collect();
        let width = names.iter().map(|name| name.chars().count()).max();
        for (at, (name, file)) in names.iter().zip(&self.files).enumerate() {
            let size = file.bytes.map_or_else(|| output.red("missing"), units::bytes);
            let (label, width) = (label(if at == 0 { "files" } else { "" }), width.unwrap_or(0));
            writeln!(out, "{label}{name:<width$}  {size:>8}")?;
        }
        let yes_or = |there: bool, no: &'static str| if there { "yes" } else { no };
        let digests = yes_or(self.digests, "no: \"kiste index\" adds them");
        writeln!(out, "{}{digests}", label("digests"))?;
        writeln!(out, "{}{}", label("lookup"), yes_or(self.lookup, "no"))?;
        writeln!(out, "{}{}", label("crc"), yes_or(self.checksums, "no"))?;
        if let Some(unfinished) = self.unfinished {
            writeln!(out, "{}{}", label("beware"), output.red(unfinished))?;
        }
        Ok(out.flush()?)
    }
}

fn sample_bytes(reader: &DatasetReader) -> Outcome<Option<SampleBytes>> {
    let (mut min, mut max) = (u64::MAX, 0);
    for index in 0..reader.len() {
        let range = reader.byte_range(index)?;
        let bytes = range.end - range.start;
        (min, max) = (min.min(bytes), max.max(bytes));
    }
    let mean = reader.data_len() as f64 / reader.len().max(1) as f64;
    Ok((!reader.is_empty()).then_some(SampleBytes { min, mean, max }))
}

/// The data file, the side files that every dataset has, and others that are there.
fn files(storage: &dyn Storage, data: &Path) -> Outcome<Vec<File>> {
    let side =
        SideFile::ALL.into_iter().map(|file| (file.path(data), SideFile::WRITTEN.contains(&file)));
    let labels = (kiste::dataset::labels_path(data), false);
    let report = (kiste::repair::report_path(data), false);
    let mut files = Vec::new();
    let all = [(data.to_path_buf(), true)].into_iter().chain(side).chain([labels, report]);
    for (file, expected) in all {
        let bytes = storage.stat(&file)?.map(|stat| stat.len);
        if expected || bytes.is_some() {
            files.push(File { file, bytes, present: bytes.is_some() });
        }
    }
    Ok(files)
}

fn unfinished(data: &Path) -> Outcome<Option<&'static str>> {
    match Repair::of(data).leftover() {
        Ok(None) => Ok(None),
        Ok(Some(Leftover::Committed | Leftover::Samples { .. })) => {
            Ok(Some("an unfinished write: \"kiste repair\" finishes or undoes it"))
        }
        Ok(Some(_)) => Ok(Some("something left by a writer that died: see \"kiste repair\"")),
        Err(e) if e.kind() == ErrorKind::Locked => Ok(Some("another program is writing to it")),
        Err(e) if e.kind() == ErrorKind::Foreign => {
            Ok(Some("its .partial is not of a writer of kiste: see \"kiste repair\""))
        }
        Err(e) => Err(e.into()),
    }
}

/// Fields and arrays of the first samples.
fn look(reader: &DatasetReader) -> Outcome<(Fields, BTreeMap<String, Arrays>)> {
    let first = reader.range(..reader.len().min(LOOKED_AT));
    if first.is_remote() {
        first.prefetch(&(0..first.len()).collect::<Vec<_>>());
    }
    let mut fields = stat(&first)?.fields;
    let arrays = fields.iter_mut().filter_map(|field| {
        let arrays = Arrays::of(field.arrays.take()?);
        Some((field.name.clone(), arrays))
    });
    let arrays = arrays.collect();
    let types = |field: FieldSummary| {
        let mut types: Vec<String> = field.types.into_keys().collect();
        if types.len() > TYPES {
            types.truncate(TYPES);
            types.push("more".to_owned());
        }
        (field.name, types)
    };
    Ok((Fields(fields.into_iter().map(types).collect()), arrays))
}

/// What is printed about the arrays of one field.
#[derive(Debug, serde::Serialize)]
struct Arrays {
    plain: u64,
    packed: u64,
    dtypes: Vec<String>,
    /// The shortest and the longest of each axis, for each number of axes.
    shapes: BTreeMap<usize, Vec<(usize, usize)>>,
    /// Bytes of the packed ones, and of their containers.
    packed_bytes: u64,
    container_bytes: u64,
}

impl Arrays {
    fn of(found: stat::Arrays) -> Arrays {
        let mut shapes = BTreeMap::<usize, Vec<(usize, usize)>>::new();
        for shape in found.shapes.keys() {
            let new = || shape.iter().map(|&len| (len, len)).collect();
            let ranges = shapes.entry(shape.len()).or_insert_with(new);
            for (range, &len) in ranges.iter_mut().zip(shape) {
                *range = (range.0.min(len), range.1.max(len));
            }
        }
        Arrays {
            plain: found.plain,
            packed: found.packed,
            dtypes: found.dtypes.into_keys().take(TYPES).collect(),
            shapes,
            packed_bytes: found.packed_bytes,
            container_bytes: found.container_bytes,
        }
    }
}

impl fmt::Display for Arrays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.dtypes.join(" or "))?;
        for (at, ranges) in self.shapes.values().enumerate() {
            let axis = |&(min, max): &(usize, usize)| match min == max {
                true => min.to_string(),
                false => format!("{min} to {max}"),
            };
            let axes: Vec<String> = ranges.iter().map(axis).collect();
            write!(f, "{}[{}]", if at == 0 { "" } else { " or " }, axes.join(", "))?;
        }
        match (self.plain, self.packed) {
            (plain, 0) => write!(f, ", {} plain", units::count(plain))?,
            (0, packed) => write!(f, ", {} packed", units::count(packed))?,
            (plain, packed) => {
                write!(f, ", {} plain, {} packed", units::count(plain), units::count(packed))?;
            }
        }
        if self.container_bytes > 0 {
            let ratio = self.packed_bytes as f64 / self.container_bytes as f64;
            write!(f, " {ratio:.1} to 1")?;
        }
        Ok(())
    }
}
