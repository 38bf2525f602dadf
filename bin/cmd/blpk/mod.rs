//! `kiste blpk`: the command of bloscpack, with `.npy` as input and output.

use kiste::storage::Shown;
use std::path::Path;

use clap::Subcommand;
use clap::builder::TypedValueParser;
use kiste::ErrorKind;
use kiste::array::NamedInput;
use kiste::dataset::is_same;
use kiste::format::blosc::{Codec, Shuffle};
use kiste::storage::LocalStorage;

use crate::cmd::named;
use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::output::Output;

mod append;
mod compress;
mod decompress;
mod info;

/// Compress files and arrays to bloscpack containers (.blp), and decompress them
///
/// The containers are the same as the program blpk makes, and so are the options, their defaults
/// and the names of output files.
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
    #[arg(long, short, global = true, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    nthreads: Option<u16>,
    /// Report steps, sizes and times on standard error
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

/// State shared by all commands.
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
        let shown = Shown::of(&path);
        if kiste::storage::is_url(path) {
            let message = format!("{shown}: expected a path on a disk, found a URL");
            return Err(
                Failure::trouble(message).hint("write it to a disk, and copy it from there")
            );
        }
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
    #[arg(long, short, value_name = "BYTES", value_parser = clap::value_parser!(u8).range(1..))]
    typesize: Option<u8>,
    /// Compression level, from 0 (copy) to 9
    #[arg(long = "clevel", visible_alias = "level", short = 'l', value_name = "LEVEL")]
    #[arg(default_value_t = 7, value_parser = clap::value_parser!(u8).range(0..=9))]
    level: u8,
    /// Do not shuffle the bytes of elements
    #[arg(long, short = 's')]
    no_shuffle: bool,
    /// Shuffle bits instead of bytes
    #[arg(long, conflicts_with = "no_shuffle")]
    bitshuffle: bool,
}

impl Blosc {
    fn typesize(&self) -> Option<usize> {
        self.typesize.map(usize::from)
    }

    fn shuffle(&self) -> Option<Shuffle> {
        match (self.no_shuffle, self.bitshuffle) {
            (true, _) => Some(Shuffle::None),
            (_, true) => Some(Shuffle::Bit),
            _ => None,
        }
    }
}

/// The codecs that bloscpack writes.
fn codecs() -> impl TypedValueParser<Value = Codec> {
    named::<Codec>(["blosclz", "lz4", "lz4hc", "zlib", "zstd"])
}

/// Opens a file, a pipe or standard input, and shows how far it is read.
fn open(path: &Path, doing: &str, output: &Output) -> Outcome<NamedInput> {
    let input = NamedInput::open(path)?;
    let progress = output.progress_bytes(format!("{doing} {}", Shown::of(&path)), input.len());
    Ok(input.progress(move |position| progress.reaches(position)))
}

/// Whether this is standard input or output.
fn is_stdio(path: &Path) -> bool {
    path == Path::new("-")
}

/// A failure on a container, and what to do about it.
fn at(path: &Path) -> impl Fn(kiste::Error) -> Failure + '_ {
    move |error| {
        if kiste::storage::is_url(path) {
            return error.into();
        }
        let kind = error.kind();
        let failure = Failure::from(error.at(path));
        if kind == ErrorKind::Unsupported {
            return failure;
        }
        let failure = failure.without_hint();
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
