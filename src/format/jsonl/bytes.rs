//! Binary data for display: what they are, as far as their first bytes say, and how long.

use super::write::put;
use crate::format::hex;
use crate::text::units;

/// Bytes that are shown as digits, if they are no text.
const FEW: usize = 16;

/// Formats that people have in datasets, by their first bytes.
const KNOWN: [(&[u8], &str); 16] = [
    (b"\x1f\x8b\x08", "gzip"),
    (b"PK\x03\x04", "zip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"fLaC", "flac"),
    (b"OggS", "ogg"),
    (b"ID3", "mp3"),
    (b"\x1a\x45\xdf\xa3", "matroska"),
    (b"%PDF-", "pdf"),
    (b"\x93NUMPY", "npy"),
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"PAR1", "parquet"),
    (b"ARROW1\0\0", "arrow"),
    (b"glTF", "gltf"),
    (b"\0asm", "wasm"),
    (b"SQLite format 3\0", "sqlite"),
];

pub(super) fn short_bytes(data: &[u8], max: usize, out: &mut Vec<u8>) {
    let count = || units::counted(data.len() as u64, "byte");
    let is_text = || data.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t' | b'\r'));
    if let Some(what) = image(data).or_else(|| known(data).map(str::to_owned)) {
        put(out, format_args!("<{what}, {}>", units::bytes(data.len() as u64)));
    } else if data.len() > max {
        put(out, format_args!("<{}>", count()));
    } else if is_text() {
        put(out, format_args!("b\"{}\"", data.escape_ascii()));
    } else if data.len() <= FEW {
        put(out, format_args!("<{} {}>", count(), hex(data)));
    } else {
        put(out, format_args!("<{} {}…>", count(), hex(&data[..FEW])));
    }
}

/// An encoded image and its size: `jpeg 500 x 375`.
#[cfg(feature = "stat")]
fn image(data: &[u8]) -> Option<String> {
    use crate::format::picture;

    let format = picture::format(data)?;
    let size = picture::size(data).map(|(width, height)| format!(" {width} x {height}"));
    Some(format.to_owned() + &size.unwrap_or_default())
}

/// Without the feature `stat` images are bytes like others.
#[cfg(not(feature = "stat"))]
fn image(_: &[u8]) -> Option<String> {
    None
}

fn known(data: &[u8]) -> Option<&'static str> {
    match data {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => return Some("wav"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'A', b'V', b'I', b' ', ..] => return Some("avi"),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => return Some("mp4"),
        _ => {}
    }
    KNOWN.iter().find(|(magic, _)| data.starts_with(magic)).map(|(_, name)| *name)
}
