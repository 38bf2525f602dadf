use kiste::storage::Shown;
use std::path::PathBuf;
use std::time::Instant;

use kiste::array::{AppendOptions, read_metadata};
use kiste::dataset::is_same;
use kiste::format::blosc::Codec;
use kiste::format::numpy::npy;
use kiste::storage::LocalStorage;
use kiste::text::units;

use super::decompress::check_extension;
use super::{Blosc, Job, at, codecs, open};
use crate::cmd::given;
use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::interrupt;

/// Append a file to a container
///
/// A crash at any moment loses nothing: the next append detects it and restores the end.
/// Simultaneous appends exclude each other. All of NEW is compressed in memory.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "a", after_help = EXAMPLES)]
pub(super) struct Args {
    /// Container to append to
    #[arg(value_name = "ORIGINAL")]
    original: PathBuf,
    /// File to append; - is standard input
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Accept a container whose name does not end in .blp
    #[arg(long, short = 'e')]
    no_check_extension: bool,
    /// NEW is a .npy file: append its rows to the array in the container
    #[arg(long)]
    npy: bool,
    /// Replace the metadata by the JSON in FILE; it may be up to ten times as long as the original
    #[arg(long, short, value_name = "FILE", conflicts_with = "npy")]
    metadata: Option<PathBuf>,
    #[command(flatten)]
    blosc: Blosc,
    /// Codec [default: as in the last chunk]
    #[arg(long, short, value_name = "CODEC", help_heading = "Blosc", value_parser = codecs())]
    codec: Option<Codec>,
}

const EXAMPLES: &str = "\
Examples:
  kiste blpk append data.dat.blp more.dat
  kiste blpk a --npy table.npy.blp rows.npy
  date | kiste blpk a log.blp -

Codec, shuffle and element size default to the container's.";

impl Args {
    pub(super) fn run(self, job: &Job<'_>) -> Outcome<Exit> {
        let start = Instant::now();
        check_extension(&self.original, self.no_check_extension)?;
        if is_same(&self.original, &self.new) {
            let message = format!("{}: both the container and the file", Shown::of(&self.new));
            return Err(Failure::trouble(message));
        }
        let size = || self.original.metadata().map(|metadata| metadata.len());
        let io = |error| Failure::io(&self.original, error);
        let before = size().map_err(io)?;
        let new = open(&self.new, "appending", job.output)?.into_bytes()?;
        let bytes = &*new.get()?;
        let options = self.options(job)?;
        interrupt::ends_with(format!(
            "{}: interrupted; appending an empty file restores it: kiste blpk append {} /dev/null",
            Shown::of(&self.original),
            quoted(&self.original)
        ));
        let storage = LocalStorage::mapped();
        if self.npy {
            let rows = npy::decode(bytes).map_err(|error| at(&self.new)(error.into()))?;
            options.append_in(&storage, &self.original, &rows).map_err(at(&self.original))?;
        } else {
            options.append_bytes(&storage, &self.original, bytes).map_err(at(&self.original))?;
        }
        let after = size().map_err(io)?;
        job.say(format_args!(
            "{}: {} bytes more, {} in all, {} before, in {}",
            Shown::of(&self.original),
            units::count(bytes.len() as u64),
            units::count(after),
            units::count(before),
            units::duration(start.elapsed())
        ));
        Ok(Exit::Yes)
    }

    fn options(&self, job: &Job<'_>) -> Outcome<AppendOptions> {
        let metadata = self.metadata.as_deref().map(read_metadata).transpose()?.flatten();
        let options = AppendOptions::default().level(self.blosc.level).threads(job.threads());
        let options = given(options, self.codec, AppendOptions::codec);
        let options = given(options, self.blosc.shuffle(), AppendOptions::shuffle);
        let options = given(options, self.blosc.typesize(), AppendOptions::typesize);
        Ok(given(options, metadata, AppendOptions::metadata))
    }
}
