use kiste::storage::Shown;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use kiste::array::PackedReader;
use kiste::storage::ReplaceFile;
use kiste::text::units;

use super::{Job, at, check_finished, is_stdio, open};
use crate::exit::{Exit, Failure, Outcome};
use crate::interrupt;

/// Decompress a container
#[derive(Debug, clap::Args)]
#[command(visible_alias = "d", after_help = EXAMPLES)]
pub(super) struct Args {
    /// Container; - is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// File to write [default: IN without .blp]; - is standard output
    #[arg(value_name = "OUT")]
    output: Option<PathBuf>,
    /// Accept a container whose name does not end in .blp; requires OUT
    #[arg(long, short = 'e')]
    no_check_extension: bool,
    /// Write the array in the container as a .npy file
    #[arg(long)]
    npy: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste blpk decompress data.dat.blp
  kiste blpk d --npy array.npy.blp
  kiste blpk d photos.tar.blp - | tar x

OUT appears once every chunk has been verified. Standard output is verified chunk by chunk: damage
exits with 1, and nothing after it is written.";

impl Args {
    pub(super) fn run(self, job: &Job<'_>) -> Outcome<Exit> {
        let start = Instant::now();
        let target = self.target()?;
        let is_stdout = is_stdio(&target);
        match is_stdout {
            true => job.check_stdout()?,
            false => job.check_output(&self.input, &target)?,
        }
        check_finished(&self.input)?;
        let input = open(&self.input, "decompressing", job.output)?;
        let mut reader = PackedReader::new(input).map_err(at(&self.input))?;
        if self.npy {
            reader.array().map_err(|error| {
                at(&self.input)(error).hint("without --npy its bytes are written unchanged")
            })?;
        }
        let mut unpack = |out: &mut (dyn Write + Send)| {
            let copied = match self.npy {
                true => reader.copy_npy_to(out, job.threads()),
                false => reader.copy_to(out, job.threads()),
            };
            copied.map_err(|error| self.failed(error))
        };
        let copied = if is_stdout {
            let mut out = job.output.stdout();
            let copied = unpack(&mut out)?;
            out.flush()?;
            copied
        } else {
            interrupt::writing(&target);
            let mut out = ReplaceFile::create(&target)?;
            let copied = unpack(&mut out)?;
            out.finish()?;
            copied
        };
        let (from, to, time) = (Shown::of(&self.input), Shown::of(&target), start.elapsed());
        job.say(format_args!(
            "{from} -> {to}: {} bytes in {} ({})",
            units::count(copied),
            units::duration(time),
            units::byte_rate(copied, time)
        ));
        Ok(Exit::Yes)
    }

    fn target(&self) -> Outcome<PathBuf> {
        if let (true, None) = (self.no_check_extension, &self.output) {
            let failure = Failure::trouble("--no-check-extension needs the name of the output");
            return Err(failure.hint("give OUT, or - for standard output"));
        }
        if is_stdio(&self.input) {
            return Ok(self.output.clone().unwrap_or_else(|| PathBuf::from("-")));
        }
        let stem = check_extension(&self.input, self.no_check_extension)?;
        Ok(self.output.clone().unwrap_or(stem))
    }

    /// An error of the container, or of standard output, which has no name.
    fn failed(&self, error: kiste::Error) -> Failure {
        match error.get_ref().and_then(|source| source.downcast_ref::<io::Error>()) {
            Some(io) if error.path().is_none() => io
                .raw_os_error()
                .map_or_else(|| io.kind().into(), io::Error::from_raw_os_error)
                .into(),
            _ => at(&self.input)(error),
        }
    }
}

/// Refuses a container without the extension. Returns the name without it.
pub(super) fn check_extension(path: &Path, any: bool) -> Outcome<PathBuf> {
    let is_container = path.extension().is_some_and(|extension| extension == "blp");
    if any || is_container {
        return Ok(path.with_extension(""));
    }
    let message = format!("{}: expected a name that ends in .blp", Shown::of(&path));
    Err(Failure::trouble(message).hint("-e accepts any name"))
}
