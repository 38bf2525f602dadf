//! Files that may be compressed, which their first bytes tell and not their names.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

use super::source_file::{open_regular, size_of};
use crate::error::{Error, ErrorKind, Result};

/// Bytes read from the disk at a time.
const BUFFER: usize = 1 << 17;
/// The same where only the start of a file is looked at.
const START: usize = 1 << 13;

/// The supported compressions, for errors.
const READ: &str = if cfg!(feature = "formats") {
    "no compression, bzip2, gzip or Zstandard"
} else {
    "no compression, gzip or Zstandard"
};

/// A compression, by the first bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    Bzip2,
    Gzip,
    Lz4,
    Xz,
    Zstd,
}

impl Compression {
    fn of(head: &[u8]) -> Option<Compression> {
        match head {
            // With the magic number of a block or of the end, as a text may begin with the same
            // letters.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..] => {
                Some(Compression::Bzip2)
            }
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            [0x04, 0x22, 0x4d, 0x18, ..] => Some(Compression::Lz4),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Compression::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Some(Compression::Zstd)
            }
            _ => None,
        }
    }
}

/// Bytes that are needed to recognise compression.
const HEAD: u64 = 10;

/// Opens a file, and decompresses it if it is bzip2, gzip or Zstandard.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read + Send>> {
    open_with(path, BUFFER)
}

/// The same, reading this many bytes at a time.
fn open_with(path: &Path, at_once: usize) -> Result<Box<dyn Read + Send>> {
    let file = open_regular(path).map_err(|error| Error::io(path, error))?;
    decompressed(path, BufReader::with_capacity(at_once, file))
}

fn decompressed(
    path: &Path,
    mut file: BufReader<impl Read + Send + 'static>,
) -> Result<Box<dyn Read + Send>> {
    let at = |error| Error::io(path, error);
    let unread = |name: &str| {
        let message = format!("expected {READ}, found {name}");
        Err(Error::new(ErrorKind::Unsupported, message).at(path))
    };
    Ok(match Compression::of(file.fill_buf().map_err(at)?) {
        #[cfg(feature = "formats")]
        Some(Compression::Bzip2) => Box::new(::bzip2::bufread::MultiBzDecoder::new(file)),
        #[cfg(not(feature = "formats"))]
        Some(Compression::Bzip2) => return unread("bzip2"),
        Some(Compression::Gzip) => Box::new(MultiGzDecoder::new(file)),
        Some(Compression::Lz4) => return unread("LZ4 frames"),
        Some(Compression::Xz) => return unread("xz"),
        Some(Compression::Zstd) => Box::new(Zstd::new(file)),
        None => Box::new(file),
    })
}

/// The bytes of a stream, decompressed if they are compressed. Nothing is read before it is asked for.
pub(super) fn piped(name: &Path, input: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    let (name, opened) = (name.to_path_buf(), Box::new(io::empty()));
    Box::new(Piped { name, input: Some(input), opened })
}

struct Piped<R> {
    name: PathBuf,
    /// The stream, until its first bytes are read.
    input: Option<R>,
    opened: Box<dyn Read + Send>,
}

impl<R: Read + Send + 'static> Read for Piped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(mut input) = self.input.take() {
            let mut head = Vec::new();
            // A pipe may have a few bytes now, and the next ones much later.
            while (head.len() as u64) < HEAD && may_begin(&head) {
                let mut rest = [0; HEAD as usize];
                match input.read(&mut rest[head.len()..]) {
                    Ok(0) => break,
                    Ok(read) => {
                        let start = head.len();
                        head.extend_from_slice(&rest[start..start + read]);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            let input = BufReader::with_capacity(BUFFER, io::Cursor::new(head).chain(input));
            self.opened = decompressed(&self.name, input).map_err(io::Error::other)?;
        }
        self.opened.read(buffer)
    }
}

/// Whether a file that begins like this may be compressed.
fn may_begin(head: &[u8]) -> bool {
    matches!(head, [] | [b'B' | 0x1f | 0x04 | 0xfd | 0x28 | 0x50..=0x5f, ..])
}

/// Up to `len` bytes from the start of a file, decompressed if they are compressed.
pub(super) fn head(path: &Path, len: usize) -> io::Result<Vec<u8>> {
    if let Ok(head) = first_bytes(path, len) {
        return Ok(head);
    }
    // A file that cannot be decompressed is reported by its reader.
    let mut head = Vec::new();
    open_regular(path)?.take(len as u64).read_to_end(&mut head).map(|_| head)
}

fn first_bytes(path: &Path, len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Behind a URL, these are there once it is open.
    let read = open_with(path, START)?.take(len as u64).read_to_end(&mut bytes);
    read.map_err(|error| blame(path, error))?;
    Ok(bytes)
}

/// The same from this position on, which must be 0 in a compressed file.
#[cfg(feature = "formats")]
pub(super) fn open_at(path: &Path, position: u64) -> Result<Box<dyn Read + Send>> {
    use std::io::{Seek, SeekFrom};

    if position == 0 {
        return open(path);
    }
    let at = |error| Error::io(path, error);
    let mut file = open_regular(path).map_err(at)?;
    file.seek(SeekFrom::Start(position)).map_err(at)?;
    Ok(Box::new(BufReader::with_capacity(BUFFER, file)))
}

/// Whether this is a regular file that is not compressed.
pub(super) fn is_plain(path: &Path) -> Result<bool> {
    Ok(plain_head(path, 0)?.is_some())
}

/// Up to `len` bytes from the start of a regular file that is not compressed, and no fewer than show that. `None` for
/// others.
pub(super) fn plain_head(path: &Path, len: u64) -> Result<Option<Vec<u8>>> {
    let at = |error| Error::io(path, error);
    if size_of(path).map_err(at)?.is_none() {
        return Ok(None);
    }
    let mut head = Vec::new();
    open_regular(path).map_err(at)?.take(HEAD.max(len)).read_to_end(&mut head).map_err(at)?;
    Ok(Compression::of(&head).is_none().then_some(head))
}

/// The error of reading from an opened file: bytes that do not decompress are damage to the file.
pub(crate) fn blame(path: &Path, error: io::Error) -> Error {
    let error = match error.downcast::<Error>() {
        Ok(error) => return error.at(path),
        Err(error) => error,
    };
    let kind = match error.kind() {
        io::ErrorKind::InvalidData
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::Other => ErrorKind::Damaged,
        _ => return Error::io(path, error),
    };
    Error::new(kind, error.to_string()).at(path)
}

/// Any number of consecutive Zstandard frames, as `cat` and parallel compressors make them.
pub(super) struct Zstd<R> {
    input: R,
    decoder: FrameDecoder,
    /// Whether the decoder is inside a frame.
    open: bool,
}

impl<R: BufRead> Zstd<R> {
    pub(crate) fn new(input: R) -> Zstd<R> {
        Zstd { input, decoder: FrameDecoder::new(), open: false }
    }

    /// Starts the next frame; false at the end of the input.
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

#[cfg(all(test, feature = "formats"))]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn bzip2(bytes: &[u8]) -> Vec<u8> {
        let mut out = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn any_number_of_streams_of_bzip2() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x");
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let mut out = Vec::new();
            let read = open(&path).unwrap().read_to_end(&mut out);
            read.map(|_| out).map_err(|error| blame(&path, error).kind())
        };
        let whole = [bzip2(b"one, "), bzip2(b""), bzip2(b"two")].concat();
        assert_eq!(read(&whole).unwrap(), b"one, two");
        assert!(!is_plain(&path).unwrap());
        assert_eq!(read(&bzip2(b"")).unwrap(), b"");
        assert_eq!(read(&whole[..whole.len() - 1]), Err(ErrorKind::Damaged));
        assert_eq!(read(&[&whole[..], b"more"].concat()), Err(ErrorKind::Damaged));
        // With only the letters it is a text.
        assert_eq!(read(b"BZh9,a\n").unwrap(), b"BZh9,a\n");
        assert!(is_plain(&path).unwrap());
    }
}
