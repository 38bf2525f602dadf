//! Images on their way: what changes, what stays, and what is refused.

use std::io::Cursor;
use std::sync::Arc;

use image::{ColorType, DynamicImage, ImageFormat};
use jpeg_encoder::{Encoder, SamplingFactor};
use kiste::convert::{Emit, ImageOptions, Images, StoredAs};
use kiste::{Error, ErrorKind};

use super::*;

/// A picture of this size, with different pixels everywhere.
fn picture(width: u32, height: u32) -> DynamicImage {
    let pixel = |x: u32, y: u32| image::Rgb([(x * 5) as u8, (y * 7) as u8, (x + y) as u8]);
    DynamicImage::ImageRgb8(image::RgbImage::from_fn(width, height, pixel))
}

fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// A JPEG with these segments of metadata.
fn jpeg(picture: &DynamicImage, segments: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, 95);
    encoder.set_sampling_factor(SamplingFactor::R_4_4_4);
    for (number, data) in segments {
        encoder.add_app_segment(*number, data).unwrap();
    }
    let (width, height) = (picture.width() as u16, picture.height() as u16);
    encoder.encode(&picture.to_rgb8(), width, height, jpeg_encoder::ColorType::Rgb).unwrap();
    bytes
}

/// EXIF that says how the picture lies.
fn exif(orientation: u8) -> Vec<u8> {
    let entry = [0x12, 0x01, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0];
    [&b"Exif\0\0II*\0\x08\0\0\0\x01\0"[..], &entry, &[0; 4]].concat()
}

fn sample(image: &[u8]) -> Vec<u8> {
    let fields = vec![
        ("key".into(), "k".into()),
        ("before".into(), 1.into()),
        ("image".into(), Value::Binary(image.to_vec())),
        ("after".into(), "text".into()),
    ];
    msgpack::to_vec(&Value::Map(fields)).unwrap()
}

/// An image after the change, between fields that must stay.
fn apply(options: &ImageOptions, image: &[u8]) -> Result<Vec<u8>> {
    let packed = options.apply(&sample(image))?.into_owned();
    let value = msgpack::decode(&packed).unwrap();
    let names: Vec<_> =
        value.as_map().unwrap().iter().filter_map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["key", "before", "image", "after"]);
    assert_eq!((&value["before"], &value["after"]), (&1.into(), &"text".into()));
    Ok(value["image"].as_slice().unwrap().to_vec())
}

fn to(format: StoredAs) -> ImageOptions {
    ImageOptions::new().format(format)
}

fn max(side: &str) -> ImageOptions {
    ImageOptions::new().resize(side.parse().unwrap())
}

fn decode(bytes: &[u8]) -> (ImageFormat, DynamicImage) {
    (image::guess_format(bytes).unwrap(), image::load_from_memory(bytes).unwrap())
}

/// The largest difference between two pictures of one size.
fn difference(a: &DynamicImage, b: &DynamicImage) -> u8 {
    let (a, b) = (a.to_rgba8(), b.to_rgba8());
    assert_eq!(a.dimensions(), b.dimensions());
    a.iter().zip(b.iter()).map(|(a, b)| a.abs_diff(*b)).max().unwrap()
}

#[test]
fn what_need_not_change_keeps_its_bytes() {
    for format in [ImageFormat::Jpeg, ImageFormat::Png, ImageFormat::Gif, ImageFormat::Tiff] {
        let bytes = encoded(&picture(40, 20), format);
        for options in [max("40"), max("short:20"), max("40x20"), ImageOptions::new().verify(true)]
        {
            let options = options.quality(10);
            assert_eq!(apply(&options, &bytes).unwrap(), bytes, "{format:?} {options:?}");
        }
    }
    let jpeg = encoded(&picture(40, 20), ImageFormat::Jpeg);
    assert_eq!(apply(&to(StoredAs::Jpeg).quality(10), &jpeg).unwrap(), jpeg);
    // Not even its place in memory is another one.
    let packed = sample(&jpeg);
    let same = max("100").apply(&packed).unwrap();
    assert!(matches!(same, std::borrow::Cow::Borrowed(_)));
}

#[test]
fn sizes_and_formats() {
    use ImageFormat::{Bmp, Gif, Jpeg, Png, Pnm, Tiff, WebP};
    let large = picture(64, 32);
    for format in [Jpeg, Png, Gif, WebP, Tiff, Bmp, Pnm] {
        let bytes = encoded(&large, format);
        let kept = if matches!(format, Jpeg | WebP) { format } else { Png };
        let table = [
            (max("16"), kept, (16, 8)),
            (max("short:16"), kept, (32, 16)),
            (max("10x30"), kept, (10, 30)),
            (max("128").upscale(true), kept, (128, 64)),
            (max("16").format(StoredAs::Jpeg), Jpeg, (16, 8)),
            (max("16").format(StoredAs::Webp), WebP, (16, 8)),
            (to(StoredAs::Png), Png, (64, 32)),
        ];
        for (options, expected, size) in table {
            let (found, picture) = decode(&apply(&options, &bytes).unwrap());
            assert_eq!((found, (picture.width(), picture.height())), (expected, size));
        }
    }
    // Without loss there is none; resizing is what others do.
    let png = encoded(&large, Png);
    let (_, webp) = decode(&apply(&to(StoredAs::Webp), &png).unwrap());
    assert_eq!(difference(&webp, &large), 0);
    let (_, small) = decode(&apply(&max("32"), &png).unwrap());
    let other = large.resize(32, 16, image::imageops::FilterType::Lanczos3);
    assert!(difference(&small, &other) <= 2);
    // Better quality is more bytes, and so is more colour.
    let size = |options: ImageOptions| apply(&options, &png).unwrap().len();
    let jpeg = || to(StoredAs::Jpeg);
    assert!(size(jpeg().quality(30)) < size(jpeg()));
    assert!(size(jpeg()) < size(jpeg().subsampling("4:2:2".parse().unwrap())));
    assert!(
        size(jpeg().subsampling("4:2:2".parse().unwrap()))
            < size(jpeg().subsampling("4:4:4".parse().unwrap()))
    );
}

#[test]
fn colours_become_what_the_format_has() {
    let large = picture(8, 8);
    let pictures = [
        DynamicImage::ImageLuma8(large.to_luma8()),
        DynamicImage::ImageLumaA8(large.to_luma_alpha8()),
        DynamicImage::ImageRgba8(large.to_rgba8()),
        DynamicImage::ImageLuma16(large.to_luma16()),
        DynamicImage::ImageLumaA16(large.to_luma_alpha16()),
        DynamicImage::ImageRgb16(large.to_rgb16()),
        DynamicImage::ImageRgba16(large.to_rgba16()),
    ];
    use ColorType::{L8, Rgb8, Rgba8};
    // WebP has no grey: what decodes it makes RGB.
    let expected = [(L8, Rgb8), (L8, Rgba8), (Rgb8, Rgba8), (L8, Rgb8), (L8, Rgba8), (Rgb8, Rgb8)];
    for (picture, (jpeg, webp)) in pictures.iter().zip(expected.into_iter().chain([(Rgb8, Rgba8)]))
    {
        let bytes = encoded(picture, ImageFormat::Png);
        let color = |options| decode(&apply(&options, &bytes).unwrap()).1.color();
        assert_eq!(color(to(StoredAs::Jpeg)), jpeg, "{:?}", picture.color());
        assert_eq!(color(to(StoredAs::Webp)), webp, "{:?}", picture.color());
        // PNG has all of them.
        assert_eq!(color(max("4")), picture.color());
    }
    // What is transparent is white in JPEG, and half transparent black is grey.
    let mut clear = image::RgbaImage::new(16, 8);
    clear.pixels_mut().skip(8 * 8).for_each(|pixel| pixel.0[3] = 128);
    let bytes = encoded(&DynamicImage::ImageRgba8(clear), ImageFormat::Png);
    let (_, jpeg) = decode(&apply(&to(StoredAs::Jpeg), &bytes).unwrap());
    let values = jpeg.to_luma8();
    assert!(values.get_pixel(0, 0).0[0] > 250 && values.get_pixel(0, 7).0[0].abs_diff(127) < 5);
}

#[test]
fn exif_says_how_a_picture_lies() {
    let upright = picture(32, 16);
    for orientation in 1..=8 {
        // As a camera stores it: turned so that the orientation turns it back.
        let stored = match orientation {
            1 => upright.clone(),
            2 => upright.fliph(),
            3 => upright.rotate180(),
            4 => upright.flipv(),
            5 => upright.fliph().rotate270(),
            6 => upright.rotate270(),
            7 => upright.fliph().rotate90(),
            _ => upright.rotate90(),
        };
        let bytes = jpeg(&stored, &[(1, &exif(orientation))]);
        let (_, same) = decode(&apply(&to(StoredAs::Png), &bytes).unwrap());
        assert!(difference(&same, &upright) < 40, "{orientation}");
        let (_, small) = decode(&apply(&max("16x4"), &bytes).unwrap());
        let other = upright.resize_exact(16, 4, image::imageops::FilterType::Lanczos3);
        assert!(difference(&small, &other) < 40, "{orientation}");
        // A size that it has upright is no reason to change it.
        assert_eq!(apply(&max("32x16"), &bytes).unwrap(), bytes, "{orientation}");
    }
}

/// A colour profile as far as anything looks at it here.
fn profile(space: &[u8; 4]) -> Vec<u8> {
    let mut profile = vec![0; 200];
    profile[..4].copy_from_slice(&200u32.to_be_bytes());
    profile[16..20].copy_from_slice(space);
    profile[36..40].copy_from_slice(b"acsp");
    profile
}

#[test]
fn colour_profiles_stay_where_they_mean_the_same() {
    let kept = |space: &[u8; 4], options: ImageOptions| {
        let segment = [b"ICC_PROFILE\0\x01\x01", &profile(space)[..]].concat();
        let bytes = apply(&options, &jpeg(&picture(16, 16), &[(2, &segment)])).unwrap();
        let mut decoder = image::ImageReader::new(Cursor::new(&bytes))
            .with_guessed_format()
            .unwrap()
            .into_decoder();
        image::ImageDecoder::icc_profile(decoder.as_mut().unwrap()).unwrap()
    };
    for format in [StoredAs::Jpeg, StoredAs::Png, StoredAs::Webp] {
        let found = kept(b"RGB ", max("8").format(format));
        assert_eq!(found.as_deref(), Some(&profile(b"RGB ")[..]), "{format:?}");
        assert_eq!(kept(b"CMYK", max("8").format(format)), None);
    }
}

#[test]
fn cmyk_becomes_rgb() {
    // No ink at all is white, and black ink is black.
    for (ink, expected) in [([0, 0, 0, 0], 255u8), ([0, 0, 0, 255], 0)] {
        let mut bytes = Vec::new();
        let pixels: Vec<u8> = ink.iter().copied().cycle().take(16 * 16 * 4).collect();
        Encoder::new(&mut bytes, 95)
            .encode(&pixels, 16, 16, jpeg_encoder::ColorType::Cmyk)
            .unwrap();
        let (_, small) = decode(&apply(&max("8"), &bytes).unwrap());
        assert_eq!(small.color(), ColorType::Rgb8);
        let value = small.to_rgb8().get_pixel(4, 4).0[1];
        assert!(value.abs_diff(expected) < 5, "{ink:?} is {value}");
    }
}

#[test]
fn fields_are_known_by_their_bytes_or_named() {
    let bytes = encoded(&picture(40, 20), ImageFormat::Png);
    let map = |fields: Vec<(&str, Value)>| {
        let named = fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
        msgpack::to_vec(&Value::Map(named)).unwrap()
    };
    let (png, none) = (Value::Binary(bytes.clone()), Value::Binary(b"BM no picture".to_vec()));
    let packed = map(vec![
        ("key", "k".into()),
        ("a", png.clone()),
        ("b", png.clone()),
        ("c", none.clone()),
        ("d", "P5 text".into()),
        ("e", Value::Binary(b"P5 neither".to_vec())),
    ]);
    let all = msgpack::decode(&max("8").apply(&packed).unwrap()).unwrap();
    assert!(all["a"] == all["b"] && all["a"] != png && all["c"] == none);
    let one = msgpack::decode(&max("8").fields(["b"]).apply(&packed).unwrap()).unwrap();
    assert!(one["a"] == png && one["b"] == all["b"]);
    for (field, says) in [("c", "field \"c\""), ("d", "expected bytes of an image, found none")] {
        let error = max("8").fields([field]).apply(&packed).unwrap_err();
        assert!(error.to_string().contains(says) && error.key() == Some("k"), "{error}");
    }
}

#[test]
fn what_is_cut_short_is_damaged() {
    use ImageFormat::{Jpeg, Png, WebP};
    let large = picture(40, 20);
    let progressive = {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 90);
        encoder.set_progressive(true);
        encoder.set_restart_interval(4);
        encoder.encode(&large.to_rgb8(), 40, 20, jpeg_encoder::ColorType::Rgb).unwrap();
        bytes
    };
    let images = [encoded(&large, Jpeg), progressive, encoded(&large, Png), encoded(&large, WebP)];
    for bytes in images {
        for options in [ImageOptions::new().verify(true), max("8")] {
            apply(&options, &bytes).unwrap();
            // Before that there is nothing to know it by, and the last bytes of PNG hold nothing.
            let end = bytes.len() - if bytes[0] == 0x89 { 12 } else { 1 };
            for len in 20..end {
                let error = apply(&options, &bytes[..len]).expect_err("it is not whole");
                let kinds = [ErrorKind::Damaged, ErrorKind::Unsupported];
                assert!(kinds.contains(&error.kind()), "{len} {error:?}");
                let text = error.to_string();
                assert!(text.starts_with("key \"k\": field \"image\": "), "{text}");
            }
        }
    }
}

#[test]
fn turned_bits_are_an_error_or_a_picture() {
    let options = max("8").max_pixels(1 << 20);
    for format in [ImageFormat::Jpeg, ImageFormat::Png, ImageFormat::Gif, ImageFormat::Tiff] {
        let whole = encoded(&picture(24, 12), format);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            if let Ok(found) = apply(&options, &bytes) {
                assert!(found == bytes || image::load_from_memory(&found).is_ok());
            }
        }
    }
}

#[test]
fn bombs_are_refused_before_they_go_off() {
    // A PNG of few bytes that says it has 2.5 thousand million pixels.
    let mut bytes = encoded(&picture(8, 8), ImageFormat::Png);
    for at in [16, 20] {
        bytes[at..at + 4].copy_from_slice(&50_000u32.to_be_bytes());
    }
    let crc = crc32(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&crc.to_be_bytes());
    let error = apply(&ImageOptions::new().verify(true), &bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("at most 200000000 pixels, found 50000 × 50000"), "{error}");
    // One that is asked for.
    let small = encoded(&picture(8, 8), ImageFormat::Png);
    let error = apply(&max("50000x50000"), &small).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(apply(&max("4").max_pixels(63), &small).is_err());
    apply(&max("4").max_pixels(64), &small).unwrap();
    // Sides that the format does not have.
    let wide = encoded(&DynamicImage::new_luma8(20_000, 1), ImageFormat::Png);
    let error = apply(&to(StoredAs::Webp), &wide).unwrap_err();
    assert!(error.to_string().contains("WebP has sides of at most 16383 pixels"), "{error}");
}

fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    }) ^ !0
}

/// Units of images; the second ends with an error.
struct Pictures(Vec<Vec<Vec<u8>>>);

impl Input for Pictures {
    fn units(&self) -> usize {
        self.0.len()
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        self.0[unit].iter().try_for_each(|sample| emit(Ok(sample.clone())))?;
        match unit {
            1 => Err(Error::new(ErrorKind::Damaged, "the end is missing")),
            _ => Ok(()),
        }
    }
}

#[test]
fn samples_keep_their_order_on_all_cores() {
    let of = |n: u32| sample(&encoded(&picture(9 + n % 7, 9), ImageFormat::Png));
    let input = Pictures(vec![(0..300).map(of).collect(), vec![of(1), of(2)], vec![of(3)]]);
    let options = max("5");
    let change = |sample: &Vec<u8>| options.apply(sample).unwrap().into_owned();
    let expected: Vec<Vec<u8>> = input.0.iter().flatten().map(change).collect();
    let input = Arc::new(Images::new(input, options.clone()));
    for threads in [1, 3] {
        let mut source = InOrder::with_threads(input.clone(), threads);
        let (mut found, mut errors) = (Vec::new(), Vec::new());
        loop {
            let batch = source.next_batch().unwrap();
            if batch.is_empty() {
                break;
            }
            for sample in batch {
                match sample {
                    Ok(sample) => found.push(sample),
                    Err(error) => errors.push((found.len(), error.to_string())),
                }
            }
        }
        assert!(found == expected, "{threads} threads");
        assert_eq!(errors, [(302, "the end is missing".to_owned())]);
    }
}
