use std::path::PathBuf;

use kiste::array::ArrayOptions;
use kiste::format::blosc::{Codec, Shuffle};
use kiste::value::DType;

use super::element;
use super::target::{Explained, committed, parse_shape};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Output;

/// Create an array, full of the fill value
///
/// The type is spelled as NumPy does: '<f4', 'int64', '|S10', or with fields
/// "[('id', '<i8'), ('xy', '<f4', (2,))]". A first axis of length 0 is for arrays that are appended
/// to.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the array, which must not exist or be empty
    name: PathBuf,
    /// Type of the elements
    #[arg(long, value_name = "TYPE")]
    dtype: DType,
    /// Length of each axis, such as 0,128
    #[arg(long, value_name = "N,N", value_parser = parse_shape)]
    shape: std::vec::Vec<usize>,
    /// Value of elements that nobody wrote [default: 0]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    fill: Option<String>,
    #[command(flatten)]
    layout: Layout,
}

const EXAMPLES: &str = "\
Examples:
  kiste array create embeddings --dtype '<f4' --shape 0,128
  kiste array create grid --dtype '<f8' --shape 10000,10000 --chunks 500,500 --fill nan
  kiste array create table --dtype \"[('id','<i8'),('name','|S16')]\" --shape 0 --codec zstd";

/// How an array is cut into chunks and compressed.
#[derive(Debug, clap::Args)]
pub(super) struct Layout {
    /// Elements of a chunk along each axis [default: whole rows of 64 KiB to 1 MiB]
    #[arg(long, value_name = "N,N", value_parser = parse_shape)]
    chunks: Option<std::vec::Vec<usize>>,
    /// What compresses chunks: blosclz, lz4, lz4hc, zlib or zstd [default: lz4]
    #[arg(long, value_name = "CODEC")]
    codec: Option<Codec>,
    /// How hard to compress, 0 (not at all) to 9 [default: 5]
    #[arg(long, value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..=9))]
    level: Option<u8>,
    /// What is done to elements before: none, byte or bit [default: byte]
    #[arg(long, value_name = "HOW", value_parser = parse_shuffle)]
    shuffle: Option<Shuffle>,
}

impl Layout {
    pub(super) fn options(&self) -> ArrayOptions {
        let mut options = ArrayOptions::default();
        if let Some(chunks) = &self.chunks {
            options = options.chunk_shape(chunks.clone());
        }
        if let Some(codec) = self.codec {
            options = options.codec(codec);
        }
        if let Some(level) = self.level {
            options = options.level(level);
        }
        match self.shuffle {
            Some(shuffle) => options.shuffle(shuffle),
            None => options,
        }
    }
}

fn parse_shuffle(text: &str) -> Result<Shuffle, String> {
    match text {
        "none" => Ok(Shuffle::None),
        "byte" => Ok(Shuffle::Byte),
        "bit" => Ok(Shuffle::Bit),
        _ => Err("expected none, byte or bit".to_owned()),
    }
}

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let mut options = self.layout.options();
        if let Some(fill) = &self.fill {
            options =
                options.fill_bytes(element::parse(&self.dtype, fill).map_err(Failure::trouble)?);
        }
        let store = options.create(&self.name, self.dtype, &self.shape).explained(&self.name)?;
        committed(output, &self.name, &store.array().version_info());
        Ok(Exit::Yes)
    }
}
