use kiste::storage::Shown;
use std::path::PathBuf;

use kiste::array::{
    ContainerArray, ContainerChunk, ContainerHeader, ContainerInfo, ContainerMetadata,
};
use kiste::text::units;

use super::{Job, at, open};
use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::listing::Listing;
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

impl Args {
    pub(super) fn run(self, job: &Job<'_>) -> Outcome<Exit> {
        let path = &self.file;
        // Something else, such as a pipe, cannot be mapped.
        if path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            let message = format!("{}: expected a regular file", Shown::of(&path));
            let hint = format!("save it first: cat {} > copy.blp", quoted(path));
            return Err(Failure::trouble(message).hint(hint));
        }
        let mut info = ContainerInfo::of(path).map_err(at(path))?;
        if self.verify {
            let input = open(path, "verifying", job.output)?;
            info.verify(input, job.threads()).map_err(at(path))?;
        }
        match self.json {
            true => job.output.json(&info)?,
            false => print(&info, job.output)?,
        }
        Ok(Exit::Yes)
    }
}

fn print(info: &ContainerInfo, output: &Output) -> Outcome<()> {
    let mut list = Listing::new(10, output);
    let mut line = |name: &str, text: String| list.line(name, text);
    line("container", Shown::of(&info.file).to_string())?;
    let nbytes = info.nbytes.map_or("unknown".to_owned(), units::count);
    let ratio = info.ratio.map_or(String::new(), |ratio| format!(", {ratio:.2} times smaller"));
    line("bytes", format!("{nbytes} in {}{ratio}", units::count(info.bytes)))?;
    line("chunks", chunks(&info.header))?;
    line("offsets", offsets(&info.header, &info.offsets))?;
    line("checksum", info.header.checksum.to_owned())?;
    line("format", format!("version {}", info.header.version))?;
    if let Some(ContainerArray { dtype, shape, order, .. }) = &info.array {
        let shape = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
        let shape = if shape.is_empty() { "no dimensions".to_owned() } else { shape };
        line("array", format!("{dtype}, {shape}, order {order}"))?;
    }
    if let (Some(text), Some(header)) = (&info.metadata_text, &info.metadata_header) {
        line("metadata", text.escape_debug().to_string().replace("\\\"", "\""))?;
        let ContainerMetadata { checksum, codec, level, size, max_size, stored_size, .. } = header;
        line(
            "",
            format!(
                "{size} bytes, {stored_size} stored (codec {codec}, level {level}), room for \
                 {max_size}, checksum {checksum}"
            ),
        )?;
    }
    if let Some(chunk) = &info.first_chunk {
        line("chunk 0", described(chunk))?;
    }
    let verified = match info.verified {
        true => output.green("good: every chunk decoded"),
        false => "no: --verify does it".to_owned(),
    };
    line("verified", verified)?;
    list.finish()
}

fn chunks(header: &ContainerHeader) -> String {
    let size = |size: Option<u32>| size.map_or("unknown".into(), |n| units::count(n.into()));
    let count = header.nchunks.map_or("an unknown number".into(), units::count);
    format!(
        "{count} of {} bytes, the last of {}; elements of {} bytes",
        size(header.chunk_size),
        size(header.last_chunk),
        header.typesize
    )
}

fn offsets(header: &ContainerHeader, offsets: &[Option<u64>]) -> String {
    if !header.offsets {
        return "none, so nothing can be appended".into();
    }
    let known = |offset: &Option<u64>| offset.map_or("unknown".into(), |at| at.to_string());
    let mut text = offsets.iter().take(SHOWN).map(known).collect::<Vec<_>>().join(" ");
    if offsets.len() > SHOWN {
        text.push_str(" ...");
    }
    format!("{text}; room for {} more", units::counted(header.max_app_chunks, "chunk"))
}

fn described(chunk: &ContainerChunk) -> String {
    let (nbytes, bytes) = (units::count(chunk.nbytes as u64), units::count(chunk.bytes as u64));
    if chunk.copied {
        return format!("{nbytes} bytes in {bytes}, copied");
    }
    let blocksize = units::count(chunk.blocksize as u64);
    let shuffle = match chunk.shuffle {
        "none" => "not shuffled".to_owned(),
        shuffle => format!("{shuffle}s shuffled"),
    };
    let streams = match chunk.splits {
        Some(splits) if splits > 1 => format!(", {splits} streams a block"),
        _ => String::new(),
    };
    format!(
        "{nbytes} bytes in {bytes}, {}, blocks of {blocksize}, elements of {}, {shuffle}{streams}",
        chunk.codec, chunk.typesize
    )
}
