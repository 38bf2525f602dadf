use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kiste::array::bcolz::BcolzOptions;
use kiste::array::{At, ChunkedArray, PackOptions};
use kiste::convert::ZipSink;
use kiste::format::bloscpack::ArrayMetadata;
use kiste::storage::LocalStorage;
use kiste::value::{DTypeKind as Kind, NdArray, Order};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::chosen::{Chosen, Conversion, Elements, write_npy};
use super::target::{Explained, Target, open, parse_at};
use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::interrupt;
use crate::output::Output;

/// Write an array, or a part of it, as .npy, .npz, .blp or a bcolz directory
///
/// Selections of integers and slices are read and written piece by piece, so they may be larger
/// than memory. All formats hold the same elements; only bcolz also keeps attributes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Array, or a part of it: 'x[:100]'
    #[arg(value_name = "NAME[...]", value_parser = Target::parse)]
    target: Target,
    /// File to write; a directory for bcolz
    dst: PathBuf,
    /// Format: npy, npz, blp or bcolz [default: from the name of DST]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    to: Option<Format>,
    /// Version: a number, -1 for the one before the newest, or a time in UTC
    #[arg(long, value_name = "V", value_parser = parse_at, allow_hyphen_values = true)]
    at: Option<At>,
    #[command(flatten)]
    conversion: Conversion,
    /// Name of the array in an .npz file
    #[arg(long, value_name = "NAME", default_value = "arr_0")]
    member: String,
    /// Replace the file DST if it exists
    #[arg(long, short)]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste array export x x.npy
  kiste array export 'x[:100]' part.npz --member x
  kiste array export x x.blp --at -1
  kiste array export x old/x --to bcolz";

/// Formats for exchanging arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Npy,
    Npz,
    Blp,
    Bcolz,
}

impl Format {
    /// The format that the name of a file implies.
    pub(super) fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "npy" => Some(Format::Npy),
            "npz" => Some(Format::Npz),
            "blp" => Some(Format::Blp),
            "bcolz" => Some(Format::Bcolz),
            _ => None,
        }
    }
}

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let Some(format) = self.to.or_else(|| Format::of(&self.dst)) else {
            let message = format!(
                "{}: expected a name ending in .npy, .npz, .blp or .bcolz",
                self.dst.display()
            );
            return Err(Failure::trouble(message).hint("give the format with --to"));
        };
        let array = open(&self.target.path, self.at.unwrap_or_default())?;
        let mut chosen = Chosen::of(&array, &self.target, &self.conversion)?;
        let name = &*self.target.path;
        interrupt::writing(&self.dst);
        let doing = format!("writing {}", self.dst.display());
        if let Chosen::Window(window) = &mut chosen {
            window.watch(&doing, output);
        }
        match format {
            Format::Npy => {
                file::write_with(&self.dst, self.force, |out| {
                    let mut out = BufWriter::new(out);
                    write_npy(&chosen, name, &mut out)?;
                    Ok(out.flush()?)
                })?;
            }
            Format::Npz => {
                file::write_with(&self.dst, self.force, |out| self.write_npz(&chosen, out))?;
            }
            Format::Blp => {
                file::refuse_existing(&self.dst, self.force)?;
                self.write_blp(&chosen)?;
            }
            Format::Bcolz => {
                let options = BcolzOptions::default().attrs(array.attrs().clone());
                let options = self.fill_of(&array, options)?;
                options.write(&self.dst, chosen.rows()).explained(&self.dst)?;
            }
        }
        Ok(Exit::Yes)
    }

    /// One member, stored uncompressed, as `numpy.savez` does.
    fn write_npz(&self, chosen: &Chosen, out: &mut file::Named) -> Outcome<()> {
        let zip_error = |e: zip::result::ZipError| {
            Failure::trouble(format_args!("{}: {e}", self.dst.display()))
        };
        let mut out = ZipSink::new(out);
        let mut zip = ZipWriter::new(&mut out);
        let stored = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored)
            .large_file(true);
        zip.start_file(format!("{}.npy", self.member), stored).map_err(zip_error)?;
        write_npy(chosen, &self.target.path, &mut zip)?;
        zip.finish().map_err(zip_error)?;
        out.finish().map_err(|error| Failure::io(&self.dst, error))
    }

    fn write_blp(&self, chosen: &Chosen) -> Outcome<()> {
        let rows = chosen.rows();
        let (dtype, shape) = (rows.dtype().clone(), rows.shape().to_vec());
        let array = ArrayMetadata { dtype, shape, order: Order::C };
        let mut elements = Elements::of(chosen).explained(&self.target.path)?;
        let storage = LocalStorage::positioned();
        let options = PackOptions::default().overwrite(self.force);
        let done = options.write_array_from(&storage, &self.dst, &mut elements, &array);
        done.explained(&self.dst)?;
        Ok(())
    }

    /// The options with the fill value, if bcolz supports one of this type.
    fn fill_of(&self, array: &ChunkedArray, options: BcolzOptions) -> Outcome<BcolzOptions> {
        let dtype = array.dtype();
        if dtype.has_objects() || matches!(dtype.kind(), Kind::Complex | Kind::TimeDelta) {
            return Ok(options);
        }
        let fill = NdArray::new(dtype.clone(), [], array.fill_bytes())?;
        let (to, casting) = self.conversion.of(dtype);
        match fill.astype(&to, casting) {
            Ok(fill) => Ok(options.fill(fill.bytes().to_vec())),
            // The fill value may be out of range even if no element is.
            Err(_) => Ok(options),
        }
    }
}
