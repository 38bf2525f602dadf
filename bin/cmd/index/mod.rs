//! `index`: side files of a dataset, and datasets of samples in place.

mod in_place;

use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::format::dataset::SideFile;
use kiste::index::{IndexOptions, Indexed};
use kiste::rearrange::LengthOf;
use kiste::storage::Shown;
use kiste::text::units;
use serde::Serialize;

use crate::cmd::verify::lengths_options;
use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::output::Output;
use crate::rearrange::Lookup;
use crate::{file, interrupt};

/// Make missing side files from the data, or a dataset of samples in place
///
/// The data file alone is enough; the index of datadings before 3.1 is used where there is one. The files are
/// the ones that were written with the dataset, byte for byte. An existing .lookup stays if it fits. Data that
/// contradicts its digests, checksums, offsets or keys is refused, as these are the only evidence of what is
/// damaged or lost. For a dataset at a URL only a missing .lookup is made, and only with --lookup.
///
/// With -o the files are of another format, and stay as they are: the index says where their samples lie. Indexes of
/// parts of the files become one.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data files; with -o files, folders, patterns, URLs or indexes
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Rebuild all side files, existing ones too; with -o replace an index of this name
    #[arg(long, short)]
    force: bool,
    /// With --force: take the data as it is, and replace the digests, checksums, offsets and keys that
    /// contradict it
    #[arg(long, requires = "force")]
    trust_data: bool,
    #[command(flatten)]
    lookup: Lookup,
    /// Also make .crc, a checksum of each sample, so that verify can name the damaged ones
    #[arg(long)]
    crc: bool,
    /// Also make .lengths with this column, a number of each sample by which batches are planned: len(FIELD) of lists,
    /// text, bytes and arrays, width(FIELD) and height(FIELD) of images, ms(FIELD) of seconds, FIELD itself, or bytes,
    /// the size of the packed sample. Columns that are there stay; --force makes this one again. Can be repeated
    #[arg(long, value_name = "COLUMN")]
    lengths: Vec<LengthOf>,
    /// Do not make .md5, which takes a pass over the data
    #[arg(long)]
    no_md5: bool,
    /// Print one line of JSON for each dataset
    #[arg(long, alias = "json")]
    jsonl: bool,
    #[command(flatten)]
    in_place: in_place::Options,
}

const EXAMPLES: &str = "\
Examples:
  kiste index train.msgpack
  kiste index --lookup s3://bucket/train.msgpack
  kiste index --crc train.msgpack
  kiste index --lengths 'len(tokens)' train.shards.json
  kiste index 'laion-{00000..41455}.tar' -o laion.inplace.json
  kiste index --refresh laion.inplace.json
  kiste index part-1.inplace.json part-2.inplace.json -o whole.inplace.json
  kiste cat --raw a.msgpack b.msgpack > both.msgpack && kiste index both.msgpack";

#[derive(Serialize)]
struct Made<'a> {
    file: Shown,
    #[serde(flatten)]
    indexed: &'a Indexed,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        if self.in_place.are_asked() {
            return self.make_in_place(output);
        }
        if self.in_place.skips_bad() {
            return Err(Failure::trouble("expected -o or --refresh with --skip-bad"));
        }
        let mut out = output.stdout();
        let exit = output.for_each(&self.files, |path| {
            let indexed = self.index(path, output)?;
            tell(path, &indexed, output);
            if self.jsonl {
                let made = Made { file: Shown::of(path), indexed: &indexed };
                out.json_line(&serde_json::to_vec(&made)?)?;
            }
            Ok(Exit::Yes)
        })?;
        out.flush()?;
        Ok(exit)
    }

    /// An index of samples in place, and its lengths: an index that is made again loses those it had.
    fn make_in_place(self, output: &Output) -> Outcome<Exit> {
        let Args { files, force, jsonl, lengths, in_place, .. } = self;
        let index = in_place.index(&files).map(Path::to_path_buf);
        let has_lengths = |index: &PathBuf| SideFile::Lengths.path(index).exists();
        let had = index.as_deref().map(lengths_options);
        let had = had.filter(|_| index.as_ref().is_some_and(has_lengths));
        let exit = in_place.run(&files, (force, jsonl), output)?;
        let Some(index) = index else { return Ok(exit) };
        if !lengths.is_empty() {
            let progress =
                output.progress_bytes(format!("measuring {}", file::shown(&index)), None);
            interrupt::writing(&index);
            let options = IndexOptions::default().lengths(lengths);
            let indexed = options.build_with(&index, &|done, of| progress.reaches_of(done, of))?;
            drop(progress);
            tell(&index, &indexed, output);
        } else if let Some(options) = had.filter(|_| !has_lengths(&index)) {
            output.warn(format_args!(
                "{}: its lengths are gone, as they were of the samples before: {options} makes them again",
                file::shown(&index)
            ));
        }
        Ok(exit)
    }

    fn index(&self, path: &Path, output: &Output) -> Outcome<Indexed> {
        file::check_is_no_recipe(path)?;
        if path.is_dir() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let index = path.with_file_name(format!("{name}.inplace.json"));
            let message = format!("{}: expected a data file, found a directory", file::shown(path));
            let hint = format!(
                "\"kiste index {} -o {}\" makes a dataset of the files in it, which stay where they are",
                quoted(path),
                quoted(&index)
            );
            return Err(Failure::trouble(message).hint(hint));
        }
        // Each of many files is checked when it is opened.
        let are_many = !self.lengths.is_empty() && kiste::dataset::names_shards(path);
        if !kiste::storage::is_url(path) && !are_many {
            file::check_is_finished(path)?;
        }
        let progress = output.progress_bytes(format!("indexing {}", file::shown(path)), None);
        interrupt::writing(path);
        let options = IndexOptions::default().force(self.force).trust_data(self.trust_data);
        let options = options.lookup(self.lookup.asked());
        let options = options.checksums(self.crc).digests(!self.no_md5);
        let options = options.lengths(self.lengths.iter().cloned());
        let options = options.known_lengths(LengthOf::measure);
        Ok(options.build_with(path, &|done, of| progress.reaches_of(done, of))?)
    }
}

fn tell(path: &Path, indexed: &Indexed, output: &Output) {
    let samples = units::counted(indexed.samples, "sample");
    let path = file::shown(path);
    if !indexed.dropped_lengths.is_empty() {
        output.warn(format_args!(
            "{path}: .lengths was outdated, and these columns of it are not made again: {}",
            indexed.dropped_lengths.join(", ")
        ));
    }
    if indexed.made.is_empty() {
        output.note(format_args!("{path}: {samples}, nothing was missing"));
        return;
    }
    let suffix = |file: &PathBuf| {
        let extension = file.extension().unwrap_or_default();
        format!(".{}", extension.to_string_lossy())
    };
    // Of many files once each.
    let mut made: Vec<String> = Vec::new();
    for suffix in indexed.made.iter().map(suffix) {
        if !made.contains(&suffix) {
            made.push(suffix);
        }
    }
    output.note(format_args!("{path}: {samples}, made {}", made.join(" ")));
}
