use std::path::PathBuf;

use kiste::array::ArrayOptions;
use kiste::format::blosc::{Codec, Shuffle};
use kiste::format::bloscpack::Checksum;
use kiste::text::parse_shape;
use kiste::value::{DType, NdArray};

use super::target::{committed, explain};
use crate::cmd::given;
use crate::exit::{Exit, Outcome};
use crate::file;
use crate::output::Output;

/// Create an array full of the fill value
///
/// The type is written as in NumPy: '<f4', 'int64', '|S10', or with fields "[('id', '<i8'), ('xy',
/// '<f4', (2,))]". Use a first axis of length 0 for arrays that will grow by appends.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the array; must not exist, or be empty
    name: PathBuf,
    /// Type of the elements
    #[arg(long, value_name = "TYPE")]
    dtype: DType,
    /// Length of each axis, such as 0,128
    #[arg(long, value_name = "N,N", value_parser = parse_shape)]
    shape: std::vec::Vec<usize>,
    /// Value of elements that were never written [default: 0]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    fill: Option<String>,
    /// Expected final length of the first axis, to choose the chunk size
    #[arg(long, value_name = "N")]
    expected_len: Option<u64>,
    /// Keep only the newest version: uses less space, but a crash during a commit can lose chunks
    ///
    /// With --room, chunks are overwritten in place: a crash or power failure can lose every chunk
    /// that is being written, and no one may read until the commit is done. "verify" lists the lost
    /// chunks.
    #[arg(long)]
    unversioned: bool,
    /// Spare bytes after each chunk, so that it can grow in place
    #[arg(long, value_name = "BYTES", requires = "unversioned")]
    room: Option<u32>,
    #[command(flatten)]
    layout: Layout,
}

const EXAMPLES: &str = "\
Examples:
  kiste array create embeddings --dtype '<f4' --shape 0,128
  kiste array create grid --dtype '<f8' --shape 10000,10000 --chunks 500,500 --fill nan
  kiste array create table --dtype \"[('id','<i8'),('name','|S16')]\" --shape 0 --codec zstd";

/// How an array is divided into chunks and compressed.
#[derive(Debug, clap::Args)]
pub(super) struct Layout {
    /// Elements of a chunk along each axis [default: whole rows of 64 KiB to 1 MiB]
    #[arg(long, value_name = "N,N", value_parser = parse_shape)]
    chunks: Option<std::vec::Vec<usize>>,
    /// Codec: blosclz, lz4, lz4hc, zlib or zstd [default: lz4]
    #[arg(long, value_name = "CODEC")]
    codec: Option<Codec>,
    /// Compression level, 0 (none) to 9 [default: 5]
    #[arg(long, value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..=9))]
    level: Option<u8>,
    /// Shuffle elements first: none, byte or bit [default: byte]
    #[arg(long, value_name = "HOW", value_parser = parse_shuffle)]
    shuffle: Option<Shuffle>,
    /// Maximum number of chunks in a file [default: 32 MiB worth]
    #[arg(long, value_name = "N")]
    superchunk: Option<u32>,
    /// Checksum of compressed chunks: crc32, adler32, sha256 or another of bloscpack [default: crc32]
    #[arg(long, value_name = "NAME")]
    checksum: Option<Checksum>,
}

impl Layout {
    pub(super) fn options(&self) -> ArrayOptions {
        let options = ArrayOptions::default();
        let options = given(options, self.chunks.clone(), ArrayOptions::chunk_shape);
        let options = given(options, self.codec, ArrayOptions::codec);
        let options = given(options, self.level, ArrayOptions::level);
        let options = given(options, self.shuffle, ArrayOptions::shuffle);
        let options = given(options, self.superchunk, ArrayOptions::superchunk);
        given(options, self.checksum, ArrayOptions::checksum)
    }
}

fn parse_shuffle(text: &str) -> Result<Shuffle, String> {
    let known = Shuffle::ALL.into_iter().find(|shuffle| shuffle.name() == text);
    known.ok_or_else(|| match text.contains("truncate") {
        // The filter of proposals for bcolz and Blaze.
        true => "expected none, byte or bit: values are stored as they are, round them before"
            .to_owned(),
        false => "expected none, byte or bit".to_owned(),
    })
}

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        file::check_is_name(&self.name)?;
        let mut options = self.layout.options();
        if let Some(fill) = &self.fill {
            options = options.fill_bytes(NdArray::parse(&self.dtype, fill)?.bytes());
        }
        let options = given(options, self.expected_len, ArrayOptions::expected_len);
        let options = options.versioned(!self.unversioned).room(self.room.unwrap_or(0));
        let version = options.create_in(&self.name, self.dtype, &self.shape);
        let version = version.map_err(|error| match self.name.exists() {
            true => explain(&self.name, error),
            false => error.into(),
        })?;
        committed(output, &self.name, &version);
        Ok(Exit::Yes)
    }
}
