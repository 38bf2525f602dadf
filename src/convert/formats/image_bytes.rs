//! Recognises images by their bytes: in a file, in an archive, or in a column of a table.
//!
//! Absent on purpose: decoding, which is for `Images`. Only first and last bytes are looked at, which
//! costs nothing next to reading them.

use crate::convert::carried::LeftOut;

/// The magic bytes of images, their position, and the endings of such files.
const MAGIC: [(&[u8], usize, &[&str]); 12] = [
    (b"\xff\xd8\xff", 0, &["jpg", "jpeg"]),
    (b"\x89PNG\r\n\x1a\n", 0, &["png"]),
    (b"GIF8", 0, &["gif"]),
    (b"WEBP", 8, &["webp"]),
    (b"II*\0", 0, &["tif", "tiff"]),
    (b"MM\0*", 0, &["tif", "tiff"]),
    (b"ftypavif", 4, &["avif"]),
    (b"\xff\x0a", 0, &["jxl"]),
    (b"\0\0\0\x0cJXL ", 0, &["jxl"]),
    (b"\0\0\0\x0cjP  ", 0, &["jp2"]),
    (b"BM", 0, &["bmp"]),
    (b"P", 0, &["ppm", "pgm"]),
];

/// How other files begin that hold images: containers of AVIF and its relatives, code streams of JPEG
/// 2000, large TIFF.
const OTHERS: [(&[u8], usize); 4] =
    [(b"ftyp", 4), (b"\xff\x4f\xff\x51", 0), (b"II+\0", 0), (b"MM\0+", 0)];

/// The extensions of files with such bytes.
pub(super) fn endings(image: &[u8]) -> Option<&'static [&'static str]> {
    let has = |magic: &[u8], at: usize| image.get(at..).is_some_and(|rest| rest.starts_with(magic));
    let is_pnm = matches!(image, [b'P', b'1'..=b'7', b' ' | b'\n' | b'\r' | b'\t' | b'#', ..]);
    let known = MAGIC.iter().find(|(magic, at, _)| has(magic, *at) && (*magic != b"P" || is_pnm));
    known.map(|(_, _, endings)| *endings)
}

/// Why these bytes are hardly an image, if they are not: of a download that failed, or of a copy that was cut
/// short.
pub(super) fn flaw(image: &[u8]) -> Option<LeftOut> {
    let begins =
        |(magic, at): &(&[u8], usize)| image.get(*at..).is_some_and(|rest| rest.starts_with(magic));
    match endings(image) {
        _ if image.is_empty() => Some(LeftOut::EmptyFile),
        Some(endings) => is_cut(image, endings[0]).then_some(LeftOut::CutImage),
        None if OTHERS.iter().any(begins) => None,
        None => Some(LeftOut::NoImage),
    }
}

/// Whether the end of an image of this kind is missing.
fn is_cut(image: &[u8], kind: &str) -> bool {
    let has = |end: &[u8], from: usize| {
        image.ends_with(end) || image[from..].windows(end.len()).any(|bytes| bytes == end)
    };
    match kind {
        "jpg" => scan_of(image).is_none_or(|scan| !has(b"\xff\xd9", scan)),
        "png" => !has(b"IEND\xae\x42\x60\x82", 0),
        "webp" => match image.get(4..).and_then(<[u8]>::first_chunk) {
            Some(size) => (image.len() as u64) < 8 + u64::from(u32::from_le_bytes(*size)),
            None => true,
        },
        _ => false,
    }
}

/// Where the pixels of a JPEG begin. A thumbnail before them has an end of its own.
fn scan_of(image: &[u8]) -> Option<usize> {
    let mut at = 2;
    loop {
        match image.get(at..)? {
            [0xff, 0xda, ..] => return Some(at),
            // Marks without content, and bytes between marks.
            [0xff, 0xff, ..] => at += 1,
            [0xff, 0x01 | 0xd0..=0xd8, ..] => at += 2,
            [0xff, _, high, low, ..] => at += 2 + usize::from(u16::from_be_bytes([*high, *low])),
            [_, _, _, _, ..] => at += 1,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_and_ends_as_an_image_is_one() {
        let jpeg = b"\xff\xd8\xff\xe1\0\x08th\xff\xd9mb\xff\xda\0\x02pixels";
        let whole = [&jpeg[..], b"\xff\xd9"].concat();
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\0IEND\xae\x42\x60\x82";
        let webp = b"RIFF\x06\0\0\0WEBPVP";
        let fine: [&[u8]; 9] = [
            &whole,
            &[&whole[..], b"what a camera adds"].concat(),
            png,
            webp,
            b"GIF89a",
            b"\0\0\0\x20ftypmif1",
            b"\xff\x4f\xff\x51",
            b"P6\n1 1\n",
            b"BM",
        ];
        for image in fine {
            assert_eq!(flaw(image), None, "{image:?}");
        }
        assert_eq!(flaw(b""), Some(LeftOut::EmptyFile));
        for text in
            [&b"<!DOCTYPE html>"[..], b"{\"error\": 404}", b"\0\0\0\0", b"version https://git-lfs"]
        {
            assert_eq!(flaw(text), Some(LeftOut::NoImage), "{text:?}");
        }
        for (image, shortest) in [(&whole[..], 4), (png, 8), (webp, 12)] {
            for end in shortest..image.len() {
                assert_eq!(flaw(&image[..end]), Some(LeftOut::CutImage), "{:?}", &image[..end]);
            }
        }
    }
}
