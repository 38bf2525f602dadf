use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::ErrorKind;
use kiste::repair::{Leftover, Repair};
use kiste::stat::{DatasetInfo, FieldArrays, FieldInfo, FileInfo, SampleBytes};
use kiste::text::{escaped, units};
use serde::Serialize;

use crate::exit::{Exit, Outcome};
use crate::file;
use crate::output::Output;

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

Fields, their types and their arrays are those of the first 100 samples. Behind a URL, info fetches
these samples and all of .offsets: 8 bytes for each sample of the dataset.";

#[derive(Serialize)]
struct Info {
    #[serde(flatten)]
    info: DatasetInfo,
    unfinished: Option<&'static str>,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let info = DatasetInfo::of(&file::open(&self.file)?)?;
        let unfinished = match kiste::storage::is_url(&self.file) {
            true => None,
            false => unfinished(&self.file)?,
        };
        let info = Info { info, unfinished };
        match self.json {
            true => output.json(&info)?,
            false => info.print(output)?,
        }
        Ok(Exit::Yes)
    }
}

impl Info {
    fn print(&self, output: &Output) -> Outcome<()> {
        let mut out = output.stdout();
        let Info { info, unfinished } = self;
        let label = |text: &str| output.bold(format_args!("{text:<9}"));
        writeln!(out, "{}{}", label("dataset"), info.file.display())?;
        writeln!(out, "{}{}", label("samples"), units::count(info.samples))?;
        write!(out, "{}{}", label("bytes"), units::count(info.bytes))?;
        match &info.sample_bytes {
            Some(SampleBytes { min, mean, max, .. }) => {
                let mean = units::count(mean.round() as u64);
                let (min, max) = (units::count(*min), units::count(*max));
                writeln!(out, ", a sample has {min} to {max}, on average {mean}")?;
            }
            None => writeln!(out)?,
        }
        let mut list = |what: &str, rows: Vec<(String, String)>| -> Outcome<()> {
            let rows = rows.iter().map(|(name, text)| (escaped(name), text));
            let rows: Vec<_> = rows.collect();
            let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
            for (at, (name, text)) in rows.iter().enumerate() {
                let label = label(if at == 0 { what } else { "" });
                writeln!(out, "{label}{name:<width$}  {text}")?;
            }
            Ok(())
        };
        let types = |field: &FieldInfo| (field.name.clone(), field.types.join(" or "));
        list("fields", info.fields.iter().map(types).collect())?;
        let arrays = |(name, arrays): (&String, &FieldArrays)| (name.clone(), described(arrays));
        list("arrays", info.arrays.iter().map(arrays).collect())?;
        let size = |file: &FileInfo| {
            let size = file.bytes.map_or_else(|| output.red("missing"), units::bytes);
            (file.file.display().to_string(), format!("{size:>8}"))
        };
        list("files", info.files.iter().map(size).collect())?;
        let yes_or = |there: bool, no: &'static str| if there { "yes" } else { no };
        let digests = yes_or(info.digests, "no: \"kiste index\" adds them");
        writeln!(out, "{}{digests}", label("digests"))?;
        writeln!(out, "{}{}", label("lookup"), yes_or(info.lookup, "no"))?;
        writeln!(out, "{}{}", label("crc"), yes_or(info.checksums, "no"))?;
        if let Some(unfinished) = unfinished {
            writeln!(out, "{}{}", label("beware"), output.red(unfinished))?;
        }
        Ok(out.flush()?)
    }
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
