//! `index`: side files of a dataset, and datasets of samples in place.

mod in_place;

use std::io::Write;
use std::path::{Path, PathBuf};

use kiste::index::{IndexOptions, Indexed};
use kiste::storage::Shown;
use kiste::text::units;
use serde::Serialize;

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
            return self.in_place.run(&self.files, (self.force, self.jsonl), output);
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
        if !kiste::storage::is_url(path) {
            file::check_is_finished(path)?;
        }
        let progress = output.progress_bytes(format!("indexing {}", file::shown(path)), None);
        interrupt::writing(path);
        let options = IndexOptions::default().force(self.force).trust_data(self.trust_data);
        let options = options.lookup(self.lookup.asked());
        let options = options.checksums(self.crc).digests(!self.no_md5);
        Ok(options.build_with(path, &|done, of| progress.reaches_of(done, of))?)
    }
}

fn tell(path: &Path, indexed: &Indexed, output: &Output) {
    let samples = units::counted(indexed.samples, "sample");
    let path = file::shown(path);
    if indexed.made.is_empty() {
        output.note(format_args!("{path}: {samples}, nothing was missing"));
        return;
    }
    let suffix = |file: &PathBuf| {
        let extension = file.extension().unwrap_or_default();
        format!(".{}", extension.to_string_lossy())
    };
    let made: Vec<String> = indexed.made.iter().map(suffix).collect();
    output.note(format_args!("{path}: {samples}, made {}", made.join(" ")));
}
