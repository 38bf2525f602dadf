//! `kiste blpk`: the command of bloscpack, with `.npy` as input and output.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use kiste::ErrorKind;
use kiste::format::blosc::{Codec, Shuffle};
use kiste::storage::LocalStorage;

use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::output::Output;
use crate::progress::Progress;
use kiste::convert::is_same;

mod append;
mod compress;
mod decompress;
mod info;
mod json;

/// Compress files and arrays to bloscpack containers (.blp), and decompress them
///
/// The containers are those of the program blpk, and so are the options, their defaults and the
/// names of output files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "\
Examples:
  kiste blpk compress data.dat                  # makes data.dat.blp
  kiste blpk decompress data.dat.blp            # makes data.dat
  kiste blpk c -c zstd -l 3 --npy array.npy     # an array, with type and shape
  kiste blpk info array.npy.blp --json | jq .ratio
  tar c photos | kiste blpk c - photos.tar.blp";

#[derive(Debug, Subcommand)]
enum Command {
    Compress(compress::Args),
    Decompress(decompress::Args),
    Append(append::Args),
    Info(info::Args),
}

/// Options of every command.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Replace files that exist
    #[arg(long, short, global = true)]
    force: bool,
    /// Use N threads, 1 to 256 [default: one per core]
    #[arg(
        long,
        short,
        global = true,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=256)
    )]
    nthreads: Option<u16>,
    /// Report on standard error what is done, sizes and times
    #[arg(long, short, global = true)]
    verbose: bool,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let job = Job { common: self.common, output };
        match self.command {
            Command::Compress(args) => args.run(&job),
            Command::Decompress(args) => args.run(&job),
            Command::Append(args) => args.run(&job),
            Command::Info(args) => args.run(&job),
        }
    }
}

/// What all commands share.
struct Job<'a> {
    common: Common,
    output: &'a Output,
}

impl Job<'_> {
    /// How many threads to use; 0 for all cores.
    fn threads(&self) -> usize {
        self.common.nthreads.map_or(0, usize::from)
    }

    fn say(&self, text: impl std::fmt::Display) {
        if self.common.verbose {
            self.output.note(text);
        }
    }

    /// Refuses an output that cannot be written, before any work is done.
    fn check_output(&self, input: &Path, path: &Path) -> Outcome<()> {
        let shown = path.display();
        let Ok(found) = path.metadata() else { return Ok(()) };
        if !found.is_file() {
            let message = format!("{shown}: expected a regular file to replace, or nothing");
            return Err(Failure::trouble(message).hint("- is standard output"));
        }
        if is_same(input, path) {
            return Err(Failure::trouble(format!("{shown}: both the input and the output")));
        }
        if !self.common.force {
            let message = format!("{shown}: the file exists already");
            return Err(Failure::trouble(message).hint("--force replaces it"));
        }
        Ok(())
    }

    /// Refuses to write binary data to a terminal.
    fn check_stdout(&self) -> Outcome<()> {
        match self.output.is_terminal() {
            true => {
                let failure =
                    Failure::trouble("expected a file or a pipe for binary data, found a terminal");
                Err(failure.hint("name an output file, or redirect it"))
            }
            false => Ok(()),
        }
    }
}

/// How chunks are compressed.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Blosc")]
struct Blosc {
    /// Bytes of an element, 1 to 255 [default: 8, or from the .npy file or the container]
    #[arg(
        long,
        short,
        value_name = "BYTES",
        value_parser = clap::value_parser!(u8).range(1..)
    )]
    typesize: Option<u8>,
    /// Compression level, from 0 (copy) to 9
    #[arg(
        long = "clevel",
        visible_alias = "level",
        short = 'l',
        value_name = "LEVEL",
        default_value_t = 7,
        value_parser = clap::value_parser!(u8).range(0..=9)
    )]
    level: u8,
    /// Do not shuffle the bytes of elements
    #[arg(long, short = 's')]
    no_shuffle: bool,
    /// Shuffle bits instead of bytes
    #[arg(long, conflicts_with = "no_shuffle")]
    bitshuffle: bool,
}

impl Blosc {
    fn shuffle(&self) -> Option<Shuffle> {
        match (self.no_shuffle, self.bitshuffle) {
            (true, _) => Some(Shuffle::None),
            (_, true) => Some(Shuffle::Bit),
            _ => None,
        }
    }
}

/// The codecs that bloscpack writes.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum CodecName {
    Blosclz,
    Lz4,
    Lz4hc,
    Zlib,
    Zstd,
}

impl From<CodecName> for Codec {
    fn from(name: CodecName) -> Codec {
        match name {
            CodecName::Blosclz => Codec::BloscLz,
            CodecName::Lz4 => Codec::Lz4,
            CodecName::Lz4hc => Codec::Lz4hc,
            CodecName::Zlib => Codec::Zlib,
            CodecName::Zstd => Codec::Zstd,
        }
    }
}

/// A file, pipe or standard input that is read once. Its errors name it, and it moves the progress
/// bar.
struct Input {
    from: Box<dyn Read + Send>,
    path: PathBuf,
    /// Bytes of a regular file.
    len: Option<u64>,
    position: u64,
    progress: Progress,
}

impl Input {
    fn open(path: &Path, doing: &str, output: &Output) -> Outcome<Input> {
        let (from, len): (Box<dyn Read + Send>, _) = if is_stdio(path) {
            (Box::new(io::stdin()), None)
        } else {
            let at = |error| Failure::io(path, error);
            let file = File::open(path).map_err(at)?;
            let metadata = file.metadata().map_err(at)?;
            if metadata.is_dir() {
                let message = format!("{}: expected a file, found a directory", path.display());
                return Err(Failure::trouble(message));
            }
            // Some files that claim to be empty are not, such as those in /proc.
            let len = Some(metadata.len()).filter(|len| metadata.is_file() && *len > 0);
            (Box::new(BufReader::with_capacity(64 << 10, file)), len)
        };
        let progress = output.progress_bytes(format!("{doing} {}", path.display()), len);
        Ok(Input { from, path: path.to_path_buf(), len, position: 0, progress })
    }

    /// The error of reading, which includes the name.
    fn failed(&self, error: io::Error) -> Failure {
        match error.downcast::<kiste::Error>() {
            Ok(named) => at(&self.path)(named),
            Err(error) => Failure::io(&self.path, error),
        }
    }
}

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let name = |error: io::Error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => io::Error::other(kiste::Error::io(&self.path, error)),
        };
        let found = self.from.read(buf).map_err(name)?;
        self.position += found as u64;
        self.progress.reaches(self.position).map_err(io::Error::other)?;
        Ok(found)
    }
}

/// Whether this is standard input or output.
fn is_stdio(path: &Path) -> bool {
    path == Path::new("-")
}

/// A failure on a container, and what to do about it.
fn at(path: &Path) -> impl Fn(kiste::Error) -> Failure + '_ {
    move |error| {
        let kind = error.kind();
        let failure = Failure::from(error.at(path)).without_hint();
        let name = quoted(path);
        match kind {
            ErrorKind::AlreadyExists => failure.hint("--force replaces it"),
            ErrorKind::Locked => failure.hint("wait until the other program is done"),
            ErrorKind::Interrupted => failure.hint(format!(
                "appending an empty file restores the container: kiste blpk append {name} /dev/null"
            )),
            _ => failure,
        }
    }
}

/// Refuses a container with an interrupted append. Pipes cannot be checked.
fn check_finished(path: &Path) -> Outcome<()> {
    match path.is_file() {
        true => kiste::array::append::check(&LocalStorage::mapped(), path).map_err(at(path)),
        false => Ok(()),
    }
}
