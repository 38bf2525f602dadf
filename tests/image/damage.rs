//! Damaged, hostile and odd images: an error or pixels, never a panic, and no memory before the size is known.

use kiste::ErrorKind;
use kiste::image::{Header, Pipeline, Worker};
use kiste::sampler::rng::StableRng;

use super::png;

fn run(text: &str, bytes: &[u8]) -> kiste::Result<[usize; 3]> {
    let pipeline: Pipeline = text.parse().unwrap();
    let mut worker = Worker::<u8>::new(pipeline).unwrap();
    worker.run(bytes, &mut StableRng::new(&[1]), &mut Vec::new())
}

fn jpeg(width: u16, height: u16, is_progressive: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut out, 90);
    encoder.set_progressive(is_progressive);
    let pixels: Vec<u8> =
        (0..u32::from(width) * u32::from(height) * 3).map(|at| (at * at / 7) as u8).collect();
    encoder.encode(&pixels, width, height, jpeg_encoder::ColorType::Rgb).unwrap();
    out
}

/// A JPEG of this size by its header.
fn resized_header(mut bytes: Vec<u8>, width: u16, height: u16) -> Vec<u8> {
    let frame = bytes.windows(2).position(|pair| matches!(pair, [0xff, 0xc0 | 0xc2])).unwrap();
    bytes[frame + 5..frame + 7].copy_from_slice(&height.to_be_bytes());
    bytes[frame + 7..frame + 9].copy_from_slice(&width.to_be_bytes());
    bytes
}

/// A PNG of this size by its header, whose checksum fits.
fn png_header(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = png(3, 3);
    bytes[16..20].copy_from_slice(&width.to_be_bytes());
    bytes[20..24].copy_from_slice(&height.to_be_bytes());
    let checksum = crc32(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(!0, step)
}

/// Files of which decoders leave out pixels without an error show none of the image before them.
#[test]
fn nothing_is_seen_of_the_image_before() {
    let whole = jpeg(64, 64, false);
    let scan = whole.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap();
    let header = scan + 2 + usize::from(u16::from_be_bytes([whole[scan + 2], whole[scan + 3]]));
    let quarter = &whole[..header + (whole.len() - header) / 4];
    let mut images = vec![
        // A comment in the middle, and the end.
        [quarter, &[0xff, 0xfe, 0, 2, 0xff, 0xd9]].concat(),
        // The scan begins a second time.
        [quarter, &whole[scan..header], &[0xff, 0xd9]].concat(),
    ];
    // A GIF with a palette of two colours, all of whose pixels have the colour 100.
    let mut gif = b"GIF89a\x40\0\x40\0\x80\0\0\x0a\x14\x1e\x28\x32\x3c".to_vec();
    gif.extend_from_slice(b",\0\0\0\0\x40\0\x40\0\0\x07");
    let rows = (0..64).flat_map(|_| std::iter::once(128).chain([100; 64]));
    let codes: Vec<u8> = rows.chain([129]).collect();
    for block in codes.chunks(255) {
        gif.push(block.len() as u8);
        gif.extend_from_slice(block);
    }
    gif.extend_from_slice(b"\0;");
    images.push(gif);
    let noise: Vec<u8> = (0..64 * 64 * 3u32).map(|at| ((at * at) >> 3) as u8 | 3).collect();
    let noise = image::DynamicImage::from(image::RgbImage::from_raw(64, 64, noise).unwrap());
    let mut before = Vec::new();
    for noise in [noise.clone(), noise.to_rgba8().into()] {
        let mut encoded = std::io::Cursor::new(Vec::new());
        noise.write_to(&mut encoded, image::ImageFormat::Png).unwrap();
        before.push(encoded.into_inner());
    }
    for (at, image) in images.iter().enumerate() {
        let fresh = || Worker::<u8>::new("center_crop(64)".parse().unwrap()).unwrap();
        let (mut rng, mut alone, mut after) = (StableRng::new(&[1]), Vec::new(), Vec::new());
        let outcome = fresh().run(image, &mut rng, &mut alone).map_err(|error| error.kind());
        let mut used = fresh();
        for noise in &before {
            used.run(noise, &mut rng, &mut after).unwrap();
        }
        let again = used.run(image, &mut rng, &mut after).map_err(|error| error.kind());
        assert_eq!(again, outcome, "{at}");
        assert!(outcome.is_err() || after == alone, "{at}");
    }
}

/// A filter holds the new rows with all old columns.
#[test]
fn a_wide_image_is_not_more_in_between_than_it_may_be() {
    let wide = png_header(1_000_000, 1);
    let error = run("decode(max_pixels=1000000) | resize((224, 224))", &wide).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}

#[test]
fn what_is_no_image() {
    let svg = b"<?xml version=\"1.0\"?><svg></svg>";
    let table: [(&[u8], ErrorKind, &str); 6] = [
        (b"", ErrorKind::Invalid, "expected an image, found no bytes"),
        (&[0; 99], ErrorKind::Invalid, "expected an image, found only zeros"),
        (
            b"<!DOCTYPE html>",
            ErrorKind::Invalid,
            "expected an image, found a web page or other markup",
        ),
        (svg, ErrorKind::Unsupported, "expected an image of pixels, found SVG"),
        (b"hello, world", ErrorKind::Invalid, "expected an image, found other bytes"),
        (
            b"\0\0\0\x18ftypheic\0\0\0\0",
            ErrorKind::Unsupported,
            "expected an image of a format that can be decoded, found HEIF",
        ),
    ];
    for (bytes, kind, expected) in table {
        let error = run("center_crop(4)", bytes).unwrap_err();
        assert_eq!((error.kind(), error.message()), (kind, expected));
        assert_eq!(Header::read(bytes).unwrap_err().message(), expected);
    }
}

/// Before anything is allocated: these would take up to 12 GB.
#[test]
fn bombs() {
    for bytes in [
        resized_header(jpeg(16, 16, false), 65_535, 65_535),
        resized_header(jpeg(16, 16, true), 65_535, 65_535),
        png_header(60_000, 60_000),
        png_header(0x7fff_ffff, 1),
    ] {
        let error = run("center_crop(4)", &bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    }
    let bytes = png(50, 40);
    assert!(run("decode(max_pixels=2000) | center_crop(4)", &bytes).is_ok());
    let error = run("decode(max_pixels=1999) | center_crop(4)", &bytes).unwrap_err();
    assert_eq!(error.message(), "expected at most 1999 pixels, found 50 × 40");
}

/// Whatever is cut off, it is an error: decoders that fill the rest with grey would change the data in silence.
#[test]
fn cut_short() {
    for bytes in [jpeg(40, 30, false), jpeg(40, 30, true), png(20, 15)] {
        // A JPEG without the last bytes of its end marker, too.
        for len in (0..bytes.len()).step_by(7).chain([bytes.len() - 1, bytes.len() - 2]) {
            let error = run("center_crop(4)", &bytes[..len]);
            // The last twelve bytes of a PNG hold no pixels.
            if len + 12 < bytes.len() || bytes[0] == 0xff {
                assert!(error.is_err(), "{len} of {}", bytes.len());
            }
        }
        assert_eq!(run("center_crop(4)", &bytes).unwrap(), [4, 4, 3]);
    }
}

/// Each byte changed, in every format: an error of a kind that says so, or pixels.
#[test]
fn flipped_bytes() {
    let picture = image::load_from_memory(&png(13, 11)).unwrap();
    let mut images = vec![jpeg(13, 11, false), jpeg(13, 11, true)];
    for format in [
        image::ImageFormat::Png,
        image::ImageFormat::Gif,
        image::ImageFormat::WebP,
        image::ImageFormat::Tiff,
        image::ImageFormat::Bmp,
        image::ImageFormat::Pnm,
    ] {
        let mut out = std::io::Cursor::new(Vec::new());
        picture.write_to(&mut out, format).unwrap();
        images.push(out.into_inner());
    }
    let pipeline: Pipeline = "decode(max_pixels=100000) | random_resized_crop(4)".parse().unwrap();
    let mut worker = Worker::<u8>::new(pipeline).unwrap();
    let mut pixels = Vec::new();
    for image in images {
        let whole = worker.run(&image, &mut StableRng::new(&[1]), &mut pixels).unwrap();
        assert_eq!(whole, [4, 4, 3]);
        for at in (0..image.len()).step_by(1 + image.len() / 400) {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = image.clone();
                bytes[at] ^= flip;
                if let Err(error) = worker.run(&bytes, &mut StableRng::new(&[1]), &mut pixels) {
                    use ErrorKind::{Damaged, Invalid, Limit, Unsupported};
                    let kind = error.kind();
                    assert!(matches!(kind, Damaged | Invalid | Limit | Unsupported), "{error}");
                }
            }
        }
        // The worker is as good as new.
        assert_eq!(worker.run(&image, &mut StableRng::new(&[1]), &mut pixels).unwrap(), whole);
    }
}

/// A JPEG called PNG is a JPEG: the bytes decide.
#[test]
fn smallest_and_oddest() {
    for (text, bytes, shape) in [
        ("random_resized_crop(4)", png(1, 1), [4, 4, 3]),
        ("center_crop(4)", png(1, 1), [4, 4, 3]),
        ("resize(3)", png(1, 300), [900, 3, 3]),
        ("decode(gray)", jpeg(1, 1, false), [1, 1, 1]),
        ("decode(rgba)", jpeg(17, 3, true), [3, 17, 4]),
        ("pad(2, padding_mode=edge)", png(1, 2), [6, 5, 3]),
    ] {
        assert_eq!(run(text, &bytes).unwrap(), shape, "{text}");
    }
}

/// 16 bits become 8, to the nearest; grey and opacity become what is asked for.
#[test]
fn kinds_of_pixels() {
    let encode = |image: image::DynamicImage| {
        let mut out = std::io::Cursor::new(Vec::new());
        image.write_to(&mut out, image::ImageFormat::Png).unwrap();
        out.into_inner()
    };
    let pixels_of = |mode: &str, bytes: &[u8]| {
        let mut worker = Worker::<u8>::new(format!("decode({mode})").parse().unwrap()).unwrap();
        let mut pixels = Vec::new();
        worker.run(bytes, &mut StableRng::new(&[]), &mut pixels).unwrap();
        pixels
    };
    let deep =
        image::ImageBuffer::from_fn(3, 1, |x, _| image::Luma([[0u16, 128, 65_535][x as usize]]));
    let deep = encode(image::DynamicImage::ImageLuma16(deep));
    assert_eq!(pixels_of("gray", &deep), [0, 0, 255]);
    assert_eq!(pixels_of("rgb", &deep), [0, 0, 0, 0, 0, 0, 255, 255, 255]);
    let deep = image::ImageBuffer::from_fn(1, 1, |_, _| image::Rgba([129u16, 257, 65_535, 32_768]));
    let deep = encode(image::DynamicImage::ImageRgba16(deep));
    assert_eq!(pixels_of("rgba", &deep), [1, 1, 255, 128]);
    assert_eq!(pixels_of("rgb", &deep), [1, 1, 255]);
    let clear = image::ImageBuffer::from_fn(1, 1, |_, _| image::LumaA([100u8, 7]));
    let clear = encode(image::DynamicImage::ImageLumaA8(clear));
    assert_eq!(pixels_of("rgb", &clear), [100, 100, 100]);
    assert_eq!(pixels_of("rgba", &clear), [100, 100, 100, 7]);
    assert_eq!(pixels_of("gray", &clear), [100]);
    let red = encode(image::DynamicImage::ImageRgb8(image::RgbImage::from_pixel(
        1,
        1,
        image::Rgb([255, 0, 0]),
    )));
    assert_eq!(pixels_of("gray", &red), [76]);
}
