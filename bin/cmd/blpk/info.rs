use std::io::{self, Write};
use std::path::{Path, PathBuf};

use kiste::array::{PackedReader, append};
use kiste::format::bloscpack::{Container, Header, MetadataCodec, MetadataHeader};
use kiste::format::{blosc, numpy};
use kiste::storage::{LocalStorage, Storage};
use kiste::text::units;
use serde::Serialize;
use serde_json::Value;

use super::{Input, Job, at};
use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::output::Output;

/// The number of offsets shown in text.
const SHOWN: usize = 5;

/// Show header, metadata, array, first chunk and ratio of a container
#[derive(Debug, clap::Args)]
#[command(visible_alias = "i", after_help = EXAMPLES)]
pub(super) struct Args {
    /// Container
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Also decode every chunk and compare its checksum
    #[arg(long)]
    verify: bool,
}

const EXAMPLES: &str = "\
Examples:
  kiste blpk info data.dat.blp
  kiste blpk i --verify data.dat.blp
  kiste blpk info array.npy.blp --json | jq -c '.array.shape'

Without --verify, reads only the part before the first chunk, and that chunk's header.";

#[derive(Serialize)]
struct Info {
    file: PathBuf,
    /// Bytes of the file, and uncompressed if the header says.
    bytes: u64,
    nbytes: Option<u64>,
    ratio: Option<f64>,
    header: HeaderInfo,
    /// Of the existing chunks; null where one is unknown.
    offsets: Vec<Option<u64>>,
    metadata: Option<Value>,
    metadata_header: Option<MetadataInfo>,
    array: Option<ArrayInfo>,
    first_chunk: Option<ChunkInfo>,
    /// Whether every chunk was decoded and verified.
    verified: bool,
    #[serde(skip)]
    metadata_text: Option<String>,
}

#[derive(Serialize)]
struct HeaderInfo {
    version: u8,
    offsets: bool,
    metadata: bool,
    checksum: &'static str,
    typesize: u8,
    chunk_size: Option<u32>,
    last_chunk: Option<u32>,
    nchunks: Option<u64>,
    max_app_chunks: u64,
}

#[derive(Serialize)]
struct MetadataInfo {
    options: u8,
    checksum: &'static str,
    codec: &'static str,
    level: u8,
    size: u32,
    max_size: u32,
    stored_size: u32,
}

#[derive(Serialize)]
struct ArrayInfo {
    dtype: String,
    /// As NumPy writes it.
    descr: String,
    shape: Vec<usize>,
    order: &'static str,
}

#[derive(Serialize)]
struct ChunkInfo {
    at: usize,
    codec: &'static str,
    shuffle: &'static str,
    copied: bool,
    /// Into how many streams a block is split; absent where there are no blocks.
    splits: Option<usize>,
    typesize: usize,
    nbytes: usize,
    blocksize: usize,
    bytes: usize,
}

impl Args {
    pub(super) fn run(self, job: &Job<'_>) -> Outcome<Exit> {
        let mut info = Info::of(&self.file)?;
        if self.verify {
            let input = Input::open(&self.file, "verifying", job.output)?;
            let mut reader = PackedReader::new(input).map_err(at(&self.file))?;
            let found = reader.copy_to(&mut io::sink(), job.threads()).map_err(at(&self.file))?;
            (info.verified, info.nbytes) = (true, Some(found));
            info.ratio = Some(found as f64 / info.bytes as f64);
        }
        match self.json {
            true => job.output.json(&info)?,
            false => info.print(job.output)?,
        }
        Ok(Exit::Yes)
    }
}

impl Info {
    fn of(path: &Path) -> Outcome<Info> {
        let failed = |error: kiste::format::FormatError| at(path)(error.into());
        let storage = LocalStorage::mapped();
        // Something else, such as a pipe, cannot be mapped.
        if path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            let message = format!("{}: expected a regular file", path.display());
            let hint = format!("save it first: cat {} > copy.blp", quoted(path));
            return Err(Failure::trouble(message).hint(hint));
        }
        append::check(&storage, path).map_err(at(path))?;
        let source = storage.open(path)?;
        let container = Container::parse(source.mapped().unwrap_or_default()).map_err(failed)?;
        let header = container.header();
        let section = container.metadata();
        let text = section.map(|section| section.text()).transpose().map_err(failed)?;
        let value = section.map(|section| section.value()).transpose().map_err(failed)?;
        let is_array = value.as_ref().and_then(|value| value.get("container"));
        let array = match is_array.is_some_and(|container| container == "numpy") {
            true => Some(container.array().map_err(failed)?),
            false => None,
        };
        let (bytes, nbytes) = (source.len(), header.nbytes());
        let first = container.chunks().next().transpose().map_err(failed)?;
        let chunks = header.nchunks.unwrap_or(0).try_into().unwrap_or(usize::MAX);
        Ok(Info {
            file: path.to_path_buf(),
            bytes,
            nbytes,
            ratio: nbytes.map(|nbytes| nbytes as f64 / bytes as f64),
            header: HeaderInfo::of(header),
            offsets: container.offsets().iter().take(chunks).collect(),
            metadata: value,
            metadata_header: section.map(|section| MetadataInfo::of(section.header())),
            array: array.map(|array| ArrayInfo {
                dtype: numpy::descr::name(&array.dtype),
                descr: numpy::descr::repr(&array.dtype),
                shape: array.shape,
                order: match array.order {
                    kiste::value::Order::C => "C",
                    kiste::value::Order::F => "F",
                },
            }),
            first_chunk: first.map(|chunk| ChunkInfo::of(chunk.at(), chunk.header())),
            verified: false,
            metadata_text: text.map(|text| text.into_owned()),
        })
    }

    fn print(&self, output: &Output) -> Outcome<()> {
        let mut out = output.stdout();
        let label = |text: &str| output.bold(format_args!("{text:<10}"));
        let mut line = |name: &str, text: String| writeln!(out, "{}{text}", label(name));
        line("container", self.file.display().to_string())?;
        let nbytes = self.nbytes.map_or("unknown".to_owned(), units::count);
        let ratio = self.ratio.map_or(String::new(), |ratio| format!(", {ratio:.2} times smaller"));
        line("bytes", format!("{nbytes} in {}{ratio}", units::count(self.bytes)))?;
        line("chunks", self.header.chunks())?;
        line("offsets", self.header.offsets(&self.offsets))?;
        line("checksum", self.header.checksum.to_owned())?;
        line("format", format!("version {}", self.header.version))?;
        if let Some(ArrayInfo { dtype, shape, order, .. }) = &self.array {
            let shape = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
            let shape = if shape.is_empty() { "no dimensions".to_owned() } else { shape };
            line("array", format!("{dtype}, {shape}, order {order}"))?;
        }
        if let (Some(text), Some(header)) = (&self.metadata_text, &self.metadata_header) {
            line("metadata", text.escape_debug().to_string().replace("\\\"", "\""))?;
            let MetadataInfo { checksum, codec, level, size, max_size, stored_size, .. } = header;
            line(
                "",
                format!(
                    "{size} bytes, {stored_size} stored (codec {codec}, level {level}), room for \
                     {max_size}, checksum {checksum}"
                ),
            )?;
        }
        if let Some(chunk) = &self.first_chunk {
            line("chunk 0", chunk.to_string())?;
        }
        let verified = match self.verified {
            true => output.green("good: every chunk decoded"),
            false => "no: --verify does it".to_owned(),
        };
        line("verified", verified)?;
        Ok(out.flush()?)
    }
}

impl HeaderInfo {
    fn of(header: &Header) -> HeaderInfo {
        HeaderInfo {
            version: header.version,
            offsets: header.offsets,
            metadata: header.metadata,
            checksum: header.checksum.name(),
            typesize: header.typesize,
            chunk_size: header.chunk_size,
            last_chunk: header.last_chunk,
            nchunks: header.nchunks,
            max_app_chunks: header.max_app_chunks,
        }
    }

    fn chunks(&self) -> String {
        let size = |size: Option<u32>| size.map_or("unknown".into(), |n| units::count(n.into()));
        let count = self.nchunks.map_or("an unknown number".into(), units::count);
        format!(
            "{count} of {} bytes, the last of {}; elements of {} bytes",
            size(self.chunk_size),
            size(self.last_chunk),
            self.typesize
        )
    }

    fn offsets(&self, offsets: &[Option<u64>]) -> String {
        if !self.offsets {
            return "none, so nothing can be appended".into();
        }
        let known = |offset: &Option<u64>| offset.map_or("unknown".into(), |at| at.to_string());
        let mut text = offsets.iter().take(SHOWN).map(known).collect::<Vec<_>>().join(" ");
        if offsets.len() > SHOWN {
            text.push_str(" ...");
        }
        format!("{text}; room for {} more", units::counted(self.max_app_chunks, "chunk"))
    }
}

impl MetadataInfo {
    fn of(header: &MetadataHeader) -> MetadataInfo {
        MetadataInfo {
            options: header.options,
            checksum: header.checksum.name(),
            codec: match header.codec {
                MetadataCodec::None => "None",
                MetadataCodec::Zlib => "zlib",
            },
            level: header.level,
            size: header.size,
            max_size: header.max_size,
            stored_size: header.stored_size,
        }
    }
}

impl ChunkInfo {
    fn of(at: usize, header: &blosc::Header) -> ChunkInfo {
        let copied = header.is_memcpyed();
        ChunkInfo {
            at,
            codec: header.codec().name(),
            shuffle: match header.shuffle() {
                blosc::Shuffle::None => "none",
                blosc::Shuffle::Byte => "byte",
                blosc::Shuffle::Bit => "bit",
            },
            copied,
            splits: (!copied && header.blocks() > 0).then(|| header.splits(0)),
            typesize: header.typesize(),
            nbytes: header.nbytes(),
            blocksize: header.blocksize(),
            bytes: header.chunk_len(),
        }
    }
}

impl std::fmt::Display for ChunkInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (nbytes, bytes) = (units::count(self.nbytes as u64), units::count(self.bytes as u64));
        write!(f, "{nbytes} bytes in {bytes}, ")?;
        if self.copied {
            return f.write_str("copied");
        }
        let blocksize = units::count(self.blocksize as u64);
        write!(f, "{}, blocks of {blocksize}, elements of {}", self.codec, self.typesize)?;
        match self.shuffle {
            "none" => f.write_str(", not shuffled")?,
            shuffle => write!(f, ", {shuffle}s shuffled")?,
        }
        match self.splits {
            Some(splits) if splits > 1 => write!(f, ", {splits} streams a block"),
            _ => Ok(()),
        }
    }
}
