use kiste::storage::Shown;
use std::path::{Path, PathBuf};

use kiste::repair::{Repair, WriteState};
use kiste::stat::{
    DatasetInfo, FieldArrays, FieldInfo, FileInfo, InPlaceFiles, LengthsInfo, SampleBytes,
};
use kiste::text::{self, escaped, units};
use serde::Serialize;

use crate::exit::{Exit, Outcome};
use crate::file;
use crate::listing::Listing;
use crate::output::Output;

/// Show samples, sizes, fields and files of a dataset
#[derive(Debug, clap::Args)]
#[command(aliases = ["count", "describe"], after_help = EXAMPLES)]
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

Fields, their types and arrays are taken from the first 100 samples. Behind a URL, info fetches
these samples and all of .offsets: 8 bytes for each sample of the dataset, and 4 more for each column of .lengths.";

#[derive(Serialize)]
struct Info {
    #[serde(flatten)]
    info: DatasetInfo,
    unfinished: Option<&'static str>,
    /// Files that a recipe reads and that lie outside its folder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outside: Vec<String>,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let input = file::open(&self.file, output)?;
        let unfinished = match &input.dataset {
            Some(_) => unfinished(&self.file)?,
            None => None,
        };
        let mut info = DatasetInfo::of_reader(&*input)?;
        if input.dataset.is_none() {
            info.file = kiste::storage::shown(&self.file);
        }
        let info = Info { info, unfinished, outside: input.view.outside() };
        match self.json {
            true => output.json(&info)?,
            false => info.print(output)?,
        }
        Ok(Exit::Yes)
    }
}

impl Info {
    fn print(&self, output: &Output) -> Outcome<()> {
        let Info { info, unfinished, outside } = self;
        let mut list = Listing::new(9, output);
        list.line("dataset", Shown::of(&info.file))?;
        list.line("samples", units::count(info.samples))?;
        let each = info.sample_bytes.as_ref().map(|SampleBytes { min, mean, max, .. }| {
            let mean = units::count(mean.round() as u64);
            let (min, max) = (units::count(*min), units::count(*max));
            format!(", a sample has {min} to {max}, on average {mean}")
        });
        let (about, by) = match info.estimated {
            true => ("about ", " (of the first samples)"),
            false => ("", ""),
        };
        let (bytes, each) = (units::count(info.bytes), each.unwrap_or_default());
        list.line("bytes", format!("{about}{bytes}{each}{by}"))?;
        if let Some(InPlaceFiles { format, files, bytes, .. }) = &info.in_place {
            let files = units::counted(*files as u64, "file");
            list.line("in place", format!("{files} of {format}, {}", units::bytes(*bytes)))?;
        }
        let types = |field: &FieldInfo| (field.name.clone(), field.types.join(" or "));
        list.lines("fields", columns(info.fields.iter().map(types).collect()))?;
        let arrays = |(name, arrays): (&String, &FieldArrays)| (name.clone(), described(arrays));
        list.lines("arrays", columns(info.arrays.iter().map(arrays).collect()))?;
        list.lines("outside", outside)?;
        if info.files.is_empty() {
            return list.finish();
        }
        let size = |file: &FileInfo| {
            let size = file.bytes.map_or_else(|| output.red("missing"), units::bytes);
            (Shown::of(&file.file).to_string(), format!("{size:>8}"))
        };
        list.lines("files", columns(info.files.iter().map(size).collect()))?;
        let yes_or = |there: bool, no: &'static str| if there { "yes" } else { no };
        if info.in_place.is_some() {
            list.line("digests", yes_or(info.digests, "no"))?;
            list.lines("lengths", columns(info.lengths.iter().map(lengths).collect()))?;
            return list.finish();
        }
        list.line("digests", yes_or(info.digests, "no: \"kiste index\" adds them"))?;
        list.line("lookup", yes_or(info.lookup, "no"))?;
        list.line("crc", yes_or(info.checksums, "no"))?;
        list.lines("lengths", columns(info.lengths.iter().map(lengths).collect()))?;
        if let Some(unfinished) = unfinished {
            list.line("beware", output.red(unfinished))?;
        }
        list.finish()
    }
}

/// A column of `.lengths`, and what its numbers are.
fn lengths(column: &LengthsInfo) -> (String, String) {
    let LengthsInfo { name, min, mean, max, total, .. } = column;
    let (min, max) = (units::count(u64::from(*min)), units::count(u64::from(*max)));
    let (mean, total) = (units::count(mean.round() as u64), units::count(*total));
    (name.clone(), format!("{min} to {max}, on average {mean}, {total} in all"))
}

/// Names and what belongs to them, below each other.
fn columns(rows: Vec<(String, String)>) -> Vec<String> {
    let rows: Vec<_> = rows.iter().map(|(name, text)| (escaped(name), text)).collect();
    let width = rows.iter().map(|(name, _)| text::width(name)).max().unwrap_or(0);
    rows.iter().map(|(name, about)| format!("{}  {about}", text::padded(name, width))).collect()
}

fn unfinished(data: &Path) -> Outcome<Option<&'static str>> {
    if kiste::storage::is_url(data) {
        return Ok(None);
    }
    Ok(match Repair::of(data).state()? {
        WriteState::Unfinished => {
            Some("an unfinished write: \"kiste repair\" finishes or undoes it")
        }
        WriteState::Leftover => Some("files of a killed writer: see \"kiste repair\""),
        WriteState::BeingWritten => Some("another program is writing to it"),
        WriteState::Foreign => {
            Some("its .partial is not of a writer of kiste: see \"kiste repair\"")
        }
        _ => None,
    })
}

/// Types, shapes and how many are packed: `<f4[3, 1 to 7], 90 plain, 10 packed 2.1 to 1`.
fn described(arrays: &FieldArrays) -> String {
    let axis = |&(min, max): &(usize, usize)| match min == max {
        true => min.to_string(),
        false => format!("{min} to {max}"),
    };
    let shape = |axes: &Vec<(usize, usize)>| {
        format!("[{}]", axes.iter().map(axis).collect::<Vec<_>>().join(", "))
    };
    let shapes: Vec<String> = arrays.shapes.values().map(shape).collect();
    let mut text = format!("{} {}", arrays.dtypes.join(" or "), shapes.join(" or "));
    let counts = [(arrays.plain, "plain"), (arrays.packed, "packed")];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!(", {} {what}", units::count(count));
    }
    if arrays.container_bytes > 0 {
        let ratio = arrays.packed_bytes as f64 / arrays.container_bytes as f64;
        text += &format!(" {ratio:.1} to 1");
    }
    text
}
