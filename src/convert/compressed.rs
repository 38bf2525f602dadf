//! Files that may be compressed, by what is in them and not by their names.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

use crate::error::{Error, ErrorKind, Result};

/// What is read from the disk at once.
const BUFFER: usize = 1 << 17;

/// Compression that is known by its first bytes but not read.
const UNREAD: [(&[u8], &str); 3] =
    [(b"BZh", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"\x04\x22\x4d\x18", "LZ4 frames")];

/// Opens a file: what comes out is decompressed, if it is gzip or Zstandard.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read + Send>> {
    let at = |error| Error::io(path, error);
    let mut file = BufReader::with_capacity(BUFFER, File::open(path).map_err(at)?);
    let head = file.fill_buf().map_err(at)?;
    if let Some((_, name)) = UNREAD.iter().find(|(magic, _)| head.starts_with(magic)) {
        let message = format!("expected no compression, gzip or Zstandard, found {name}");
        return Err(Error::new(ErrorKind::Unsupported, message).at(path));
    }
    Ok(match head {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            Box::new(Zstd::new(file))
        }
        _ => Box::new(file),
    })
}

/// The same from a place on, which is the front unless the file is plain.
pub(super) fn open_at(path: &Path, position: u64) -> Result<Box<dyn Read + Send>> {
    if position == 0 {
        return open(path);
    }
    let at = |error| Error::io(path, error);
    let mut file = File::open(path).map_err(at)?;
    file.seek(SeekFrom::Start(position)).map_err(at)?;
    Ok(Box::new(BufReader::with_capacity(BUFFER, file)))
}

/// Whether what is in a regular file is what `open` gives of it.
pub(super) fn is_plain(path: &Path) -> Result<bool> {
    let at = |error| Error::io(path, error);
    if !path.metadata().map_err(at)?.is_file() {
        return Ok(false);
    }
    let mut head = Vec::new();
    File::open(path).map_err(at)?.take(6).read_to_end(&mut head).map_err(at)?;
    let known = matches!(
        head[..],
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]
    );
    Ok(!known && !UNREAD.iter().any(|(magic, _)| head.starts_with(magic)))
}

/// An error while reading what `open` gave: bytes that do not decompress are the fault of the file.
pub(crate) fn blame(path: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::InvalidData
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::Other => ErrorKind::Damaged,
        _ => return Error::io(path, error),
    };
    Error::new(kind, error.to_string()).at(path)
}

/// Any number of Zstandard frames, as `zstd` and `cat` put them behind one another.
pub(super) struct Zstd<R> {
    input: R,
    decoder: FrameDecoder,
    /// Whether the decoder is within a frame.
    open: bool,
}

impl<R: BufRead> Zstd<R> {
    pub(crate) fn new(input: R) -> Zstd<R> {
        Zstd { input, decoder: FrameDecoder::new(), open: false }
    }

    /// Begins the next frame; false at the end of the input.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.input) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let mut skipped = self.input.by_ref().take(length);
                    if io::copy(&mut skipped, &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(invalid(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.open {
                if !self.next_frame()? {
                    return Ok(0);
                }
                self.open = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let strategy = ruzstd::decoding::BlockDecodingStrategy::UptoBytes(buffer.len());
                self.decoder.decode_blocks(&mut self.input, strategy).map_err(invalid)?;
            }
            match self.decoder.read(buffer)? {
                0 => self.open = false,
                read => return Ok(read),
            }
        }
    }
}

fn invalid(error: FrameDecoderError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not Zstandard: {error}"))
}
