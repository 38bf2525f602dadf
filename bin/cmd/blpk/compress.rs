use kiste::storage::Shown;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use kiste::array::{PackOptions, read_metadata, read_npy_header};
use kiste::format::blosc::{Codec, Params, Shuffle};
use kiste::format::bloscpack::{ArrayMetadata, Checksum};
use kiste::format::numpy::npy;
use kiste::storage::{LocalStorage, ScratchDir};
use kiste::text::units;

use super::{Blosc, Job, at, codecs, is_stdio, open};
use crate::cmd::{given, parse_size};
use crate::exit::{Exit, Failure, Outcome};
use crate::interrupt;

/// Compress a file
#[derive(Debug, clap::Args)]
#[command(visible_alias = "c", after_help = EXAMPLES)]
pub(super) struct Args {
    /// File to compress; - is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Container to write [default: IN.blp]; - is standard output
    #[arg(value_name = "OUT")]
    output: Option<PathBuf>,
    /// IN is a .npy file: store type, shape and order of its array
    #[arg(long)]
    npy: bool,
    #[command(flatten)]
    blosc: Blosc,
    /// Codec
    #[arg(long, short, value_name = "CODEC", default_value_t = Params::default().codec)]
    #[arg(value_parser = codecs(), help_heading = "Blosc")]
    codec: Codec,
    #[command(flatten)]
    bloscpack: Bloscpack,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Bloscpack")]
struct Bloscpack {
    /// Uncompressed bytes of a chunk: 65536, 512K, 0.5G or max
    #[arg(long, short = 'z', value_name = "SIZE", default_value = "1M", allow_hyphen_values = true, value_parser = chunk_size)]
    chunk_size: usize,
    /// Checksum after each chunk: None, adler32, crc32, md5, sha1, sha224, sha256, sha384 or sha512
    #[arg(long, short = 'k', value_name = "CHECKSUM", default_value = "adler32")]
    checksum: Checksum,
    /// Do not write chunk offsets; nothing can be appended then
    #[arg(long, short = 'o')]
    no_offsets: bool,
    /// Store the JSON in FILE
    #[arg(long, short, value_name = "FILE", conflicts_with = "npy")]
    metadata: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  kiste blpk compress data.dat
  kiste blpk -n 4 -f c -c lz4 -l 5 -z 512K data.dat out.blp
  kiste blpk c --npy array.npy
  mysqldump shop | kiste blpk c -t 1 - shop.sql.blp";

impl Args {
    pub(super) fn run(self, job: &Job<'_>) -> Outcome<Exit> {
        let start = Instant::now();
        let target = self.target();
        let metadata = self.bloscpack.metadata.as_deref().map(read_metadata).transpose()?.flatten();
        if is_stdio(&target) {
            job.check_stdout()?;
            // The beginning of a container depends on its end.
            let dir = ScratchDir::create()?;
            let container = dir.path().join("container.blp");
            self.pack(job, &container, metadata.as_deref())?;
            let mut container = File::open(&container).map_err(|e| Failure::io(&container, e))?;
            let mut out = job.output.stdout();
            io::copy(&mut container, &mut out)?;
            out.flush()?;
            return Ok(Exit::Yes);
        }
        job.check_output(&self.input, &target)?;
        let raw = self.pack(job, &target, metadata.as_deref())?;
        let packed = target.metadata().map_err(|error| Failure::io(&target, error))?.len();
        let ratio = raw as f64 / packed.max(1) as f64;
        let (from, to, time) = (Shown::of(&self.input), Shown::of(&target), start.elapsed());
        job.say(format_args!(
            "{from} -> {to}: {} bytes in {} bytes, {ratio:.2} times smaller, in {} ({})",
            units::count(raw),
            units::count(packed),
            units::duration(time),
            units::byte_rate(raw, time)
        ));
        Ok(Exit::Yes)
    }

    fn target(&self) -> PathBuf {
        match &self.output {
            Some(path) => path.clone(),
            None if is_stdio(&self.input) => PathBuf::from("-"),
            None => {
                let mut name = self.input.clone().into_os_string();
                name.push(".blp");
                PathBuf::from(name)
            }
        }
    }

    /// Writes the container. Returns the number of bytes in it.
    fn pack(&self, job: &Job<'_>, target: &Path, metadata: Option<&str>) -> Outcome<u64> {
        if !is_stdio(target) {
            interrupt::writing(target);
        }
        let mut input = open(&self.input, "compressing", job.output)?;
        let storage = LocalStorage::mapped();
        let options = self.options(job);
        let packed = if self.npy {
            let header = read_npy_header(&mut input).map_err(at(&self.input))?;
            let npy::Header { dtype, shape, order } = header;
            let array = ArrayMetadata { dtype, shape, order };
            options.write_array_from(&storage, target, &mut input, &array)
        } else {
            let len = input.len();
            options.write_bytes_from(&storage, target, &mut input, len, metadata)
        };
        packed.map_err(at(target))
    }

    fn options(&self, job: &Job<'_>) -> PackOptions {
        let Bloscpack { chunk_size, checksum, no_offsets, .. } = self.bloscpack;
        let options = PackOptions::default()
            .codec(self.codec)
            .level(self.blosc.level)
            .shuffle(self.blosc.shuffle().unwrap_or(Shuffle::Byte))
            .chunk_size(chunk_size)
            .checksum(checksum)
            .offsets(!no_offsets)
            .threads(job.threads())
            .overwrite(job.common.force);
        given(options, self.blosc.typesize(), PackOptions::typesize)
    }
}

fn chunk_size(text: &str) -> Result<usize, String> {
    match parse_size(text) {
        Ok(0) => Err("expected at least one byte, found 0".into()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.message().into()),
    }
}
