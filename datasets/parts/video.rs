//! The frames of a video, from the command `ffmpeg` or from a folder of images.
//!
//! Absent on purpose: a decoder. There is no good one without C for the codecs that old archives
//! are in, so frames need an installed `ffmpeg`, or are decoded beforehand.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use super::{Image, Limits, decode_rgb};
use crate::convert::natural_order;
use crate::error::{Error, ErrorKind, Result};
use crate::regular;
use crate::storage::ScratchDir;

/// The most bytes that are kept of a decoder's complaints.
const MAX_COMPLAINTS: u64 = 1 << 16;

/// Takes one frame. Its error ends the video.
pub(crate) type EachFrame<'a> = dyn FnMut(Image) -> Result<()> + 'a;

/// Frames that lie in a folder as images, in natural order of their names.
pub(crate) fn frames_in(folder: &Path, limits: Limits, each: &mut EachFrame<'_>) -> Result<()> {
    let io = |error| Error::io(folder, error);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .map_err(io)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()
        .map_err(io)?;
    paths.sort_by(|one, other| natural_order(&one.to_string_lossy(), &other.to_string_lossy()));
    if paths.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "expected frames, found none").at(folder));
    }
    for path in paths {
        let io = |error| Error::io(&path, error);
        let found = path.metadata().map_err(io)?.len();
        limits.check_bytes(found).map_err(|error| error.at(&path))?;
        let bytes = regular::read(&path).map_err(io)?;
        each(decode_rgb(&bytes, limits).map_err(|error| error.at(&path))?)?;
    }
    Ok(())
}

/// The frames of a video that `ffmpeg` decodes: all of them, and none twice.
///
/// # Errors
///
/// [`Unsupported`](ErrorKind::Unsupported) if there is no such command;
/// [`Damaged`](ErrorKind::Damaged) if it has anything to complain about, as frames could be missing
/// then, or finds no frame.
pub(crate) fn frames_of(video: &[u8], limits: Limits, each: &mut EachFrame<'_>) -> Result<()> {
    let file = TemporaryFile::new(video)?;
    // An output of images would repeat and leave out frames, to keep time.
    let arguments = ["-fps_mode", "passthrough", "-f", "image2pipe", "-c:v", "ppm", "pipe:1"];
    let mut child = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-i"])
        .arg(&file.path)
        .args(["-map", "0:v:0"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| not_run(&error))?;
    let (Some(frames), Some(mut complaints)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(Error::new(ErrorKind::Io, "the output of ffmpeg cannot be read"));
    };
    // Its output has to be read, or it waits.
    let listener = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = complaints.by_ref().take(MAX_COMPLAINTS).read_to_end(&mut text);
        let _ = io::copy(&mut complaints, &mut io::sink());
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut frames = BufReader::with_capacity(1 << 20, frames);
    let mut count = 0u64;
    let result = all_frames(&mut frames, limits, &mut |frame| {
        count += 1;
        each(frame)
    });
    // If the reader stopped early, ffmpeg fails to write and ends.
    drop(frames);
    let status = child.wait().map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
    let complaints = listener.join().unwrap_or_default();
    result?;
    match complaints.lines().find(|line| !line.trim().is_empty()) {
        None if status.success() && count > 0 => Ok(()),
        None if status.success() => {
            Err(Error::new(ErrorKind::Damaged, "expected frames, found none"))
        }
        line => {
            let says = line.map_or(status.to_string(), str::to_owned);
            Err(Error::new(ErrorKind::Damaged, format!("ffmpeg cannot decode it: {says}")))
        }
    }
}

fn not_run(error: &io::Error) -> Error {
    let message =
        format!("videos are decoded by ffmpeg (5.1 or later), which cannot be run: {error}");
    Error::new(ErrorKind::Unsupported, message)
}

/// Portable pixmaps, one after the other.
fn all_frames(input: &mut impl BufRead, limits: Limits, each: &mut EachFrame<'_>) -> Result<()> {
    let broken = |error: io::Error| Error::new(ErrorKind::Io, format!("from ffmpeg: {error}"));
    let unknown = || Error::new(ErrorKind::Damaged, "expected a pixmap from ffmpeg, found none");
    while !input.fill_buf().map_err(broken)?.is_empty() {
        let mut header = Vec::new();
        for _ in 0..3 {
            input.by_ref().take(64).read_until(b'\n', &mut header).map_err(broken)?;
        }
        let header = String::from_utf8(header).map_err(|_| unknown())?;
        let words: Vec<&str> = header.split_ascii_whitespace().collect();
        let ["P6", width, height, "255"] = words[..] else { return Err(unknown()) };
        let (Ok(width), Ok(height)) = (width.parse::<u32>(), height.parse::<u32>()) else {
            return Err(unknown());
        };
        limits.check_pixels(width, height)?;
        let mut pixels = Vec::new();
        let size = (u64::from(width) * u64::from(height)).saturating_mul(3);
        input.by_ref().take(size).read_to_end(&mut pixels).map_err(broken)?;
        each(Image::new(width, height, 3, pixels)?)?;
    }
    Ok(())
}

/// A file that is gone when this is dropped: a video may be read from end to start. No other user can read it.
struct TemporaryFile {
    path: PathBuf,
    _dir: ScratchDir,
}

impl TemporaryFile {
    fn new(bytes: &[u8]) -> Result<TemporaryFile> {
        let dir = ScratchDir::create()?;
        let path = dir.path().join("video");
        fs::write(&path, bytes).map_err(|error| Error::io(&path, error))?;
        Ok(TemporaryFile { path, _dir: dir })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(bytes: &[u8]) -> Result<Vec<(u32, u32, Vec<u8>)>> {
        let mut found = Vec::new();
        let mut input = bytes;
        all_frames(&mut input, Limits::default(), &mut |frame| {
            found.push((frame.width, frame.height, frame.pixels));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn pixmaps_in_a_row() {
        let two = b"P6\n1 2\n255\nabcdefP6\n1 1\n255\nxyz";
        let expected = [(1, 2, b"abcdef".to_vec()), (1, 1, b"xyz".to_vec())];
        assert_eq!(frames(two).unwrap(), expected);
        assert!(frames(b"").unwrap().is_empty());
        for len in [1, 5, 10, 14, 20, 29] {
            assert!(frames(&two[..len]).is_err(), "{len}");
        }
        let large = frames(b"P6\n99999 99999\n255\n").unwrap_err();
        assert_eq!(large.kind(), ErrorKind::Limit);
        assert!(frames(b"P5\n1 1\n255\nabc").is_err());
    }

    #[test]
    fn temporary_files_are_gone_afterwards() {
        let file = TemporaryFile::new(b"abc").unwrap();
        let path = file.path.clone();
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        drop(file);
        assert!(!path.exists());
    }
}
