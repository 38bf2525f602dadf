//! A part of an image has the pixels that it has in the whole, also where a decoder makes no others.

use std::fs;
use std::path::Path;

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use kiste::image::{Header, Pipeline, Worker};
use kiste::sampler::rng::StableRng;

use crate::support::one_in;

/// Waves of different lengths, and noise: neighbours differ, and no two blocks are equal.
fn values(width: u16, height: u16, channels: usize) -> Vec<u8> {
    let mut noise = 1u32;
    let mut out = Vec::new();
    for y in 0..u32::from(height) {
        for x in 0..u32::from(width) {
            for channel in 0..channels as u32 {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let wave = (x * (7 + 4 * channel)) ^ (y * (11 - 2 * channel));
                out.push((wave / 2) as u8 ^ (noise >> 26) as u8);
            }
        }
    }
    out
}

pub(super) struct Kind {
    pub(super) name: String,
    color: ColorType,
    channels: usize,
    sampling: SamplingFactor,
    is_progressive: bool,
    pub(super) restart: u16,
}

impl Kind {
    /// Whether it has the colours and the subsampling of most photographs.
    pub(super) fn is_usual(&self) -> bool {
        use SamplingFactor::{F_1_1, F_1_2, F_2_1, F_2_2, F_4_1};
        self.channels != 4 && matches!(self.sampling, F_1_1 | F_1_2 | F_2_1 | F_2_2 | F_4_1)
    }

    pub(super) fn encode(&self, width: u16, height: u16) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out, 85);
        encoder.set_sampling_factor(self.sampling);
        encoder.set_progressive(self.is_progressive);
        encoder.set_restart_interval(self.restart);
        let values = values(width, height, self.channels);
        encoder.encode(&values, width, height, self.color).unwrap();
        out
    }
}

/// Of all colours and subsamplings.
pub(super) fn kinds() -> Vec<Kind> {
    use SamplingFactor::{F_1_1, F_1_2, F_1_4, F_2_1, F_2_2, F_2_4, F_4_1, F_4_2};
    let mut kinds = Vec::new();
    for (color, channels) in [
        (ColorType::Rgb, 3),
        (ColorType::Luma, 1),
        (ColorType::Cmyk, 4),
        (ColorType::CmykAsYcck, 4),
    ] {
        for sampling in [F_1_1, F_2_1, F_1_2, F_2_2, F_4_1, F_1_4, F_2_4, F_4_2] {
            // Others are a matter of colours alone.
            if channels != 3 && !matches!(sampling, F_1_1 | F_2_2) {
                continue;
            }
            for (is_progressive, restart) in [(false, 0), (false, 3), (true, 0)] {
                let name = format!("{color:?} {sampling:?} {is_progressive} {restart}");
                kinds.push(Kind { name, color, channels, sampling, is_progressive, restart });
            }
        }
    }
    kinds
}

pub(super) fn run(text: &str, bytes: &[u8], seed: u64) -> Result<([usize; 3], Vec<u8>), String> {
    let mut out = Vec::new();
    let mut worker = Worker::<u8>::new(text.parse().unwrap()).unwrap();
    let shape = worker.run(bytes, &mut StableRng::new(&[seed]), &mut out);
    Ok((shape.map_err(|error| error.to_string())?, out))
}

#[test]
fn of_every_kind_of_jpeg() {
    let (mut parts, mut refused) = (0, Vec::new());
    for kind in kinds() {
        for (width, height) in [(83, 61), (64, 48), (17, 40), (9, 7), (1, 1)] {
            let jpeg = kind.encode(width, height);
            for mode in ["rgb", "gray", "rgba"] {
                let whole = match run(&format!("decode({mode})"), &jpeg, 0) {
                    Ok((_, whole)) => whole,
                    // Its encoder writes unusual subsamplings so.
                    Err(error) if error.contains("scans of their own") => continue,
                    // The decoder in Rust does not know all of them.
                    Err(_) => {
                        refused.push(kind.name.clone());
                        continue;
                    }
                };
                for (high, wide) in [(1, 1), (5, 3), (16, 16), (40, 8), (8, 40), (33, 50), (48, 64)]
                {
                    if high > height || wide > width {
                        continue;
                    }
                    let text = format!("decode({mode}) | random_crop(({high}, {wide}))");
                    let pipeline: Pipeline = text.parse().unwrap();
                    for seed in 0..4 / one_in(2) as u64 {
                        let rng = &mut StableRng::new(&[seed]);
                        let plan = pipeline.plan(&Header::read(&jpeg).unwrap(), rng).unwrap();
                        let (shape, found) = run(&text, &jpeg, seed).unwrap();
                        assert_eq!(shape[..2], [usize::from(high), usize::from(wide)]);
                        let expected = cut(&whole, width.into(), shape, &plan.to_string());
                        assert!(found == expected, "{} {width} × {height}: {plan}", kind.name);
                        parts += 1;
                    }
                }
            }
        }
    }
    refused.dedup();
    assert!(refused.len() < 10, "{refused:?}");
    assert!(parts > 2_500, "{parts}");
}

/// What is seen of a filter's result after crops and flips has the pixels that it has in the whole result, though only what
/// they need is decoded and filtered.
#[test]
fn of_images_that_are_resized() {
    let (mut parts, mut tried) = (0, 0);
    for kind in kinds().iter().filter(|kind| kind.restart == 0) {
        let jpeg = kind.encode(83, 61);
        for filter in ["bilinear", "bicubic", "lanczos"] {
            for size in ["(90, 40)", "(30, 130)", "(20, 26)", "(61, 82)", "(7, 5)"] {
                let before = "decode(rgb) | random_resized_crop(40, scale=(0.9, 1)) | hflip";
                for start in ["", "center_crop((50, 60)) | vflip(1)", before] {
                    tried += 1;
                    if tried % one_in(2) != 0 {
                        continue;
                    }
                    let resized = [start, &format!("resize({size}, interpolation={filter})")];
                    let resized = resized.join(if start.is_empty() { "" } else { " | " });
                    let Ok(whole) = run(&resized, &jpeg, 1) else { continue };
                    let ([height, width, _], pixels) = whole;
                    let (high, wide) = (height - height / 3, width - width / 4);
                    let text = format!("{resized} | center_crop(({high}, {wide})) | hflip(1)");
                    let (shape, found) = run(&text, &jpeg, 1).unwrap();
                    let middle = |have: usize, want: usize| {
                        ((have - want) as f64 / 2.0).round_ties_even() as usize
                    };
                    let (top, left) = (middle(height, high), middle(width, wide));
                    let plan = format!("crop(top={top}, left={left})");
                    let expected = cut(&pixels, width, shape, &plan);
                    let expected: Vec<u8> = expected
                        .chunks(wide * 3)
                        .flat_map(|row| row.chunks(3).rev().flatten().copied())
                        .collect();
                    assert!(found == expected, "{} {text}", kind.name);
                    // The same where more is done to it, and by the type that is written at once.
                    let (_, later) = run(&format!("{text} | vflip(1) | pad(1)"), &jpeg, 1).unwrap();
                    let row = 3 * (wide + 2);
                    let inner = later.chunks(row).skip(1).take(high).rev();
                    assert!(inner.flat_map(|row| &row[3..row.len() - 3]).eq(&expected), "{text}");
                    let mut floats = Vec::new();
                    let mut worker =
                        Worker::<f32>::new(format!("{text} | to(f32)").parse().unwrap()).unwrap();
                    worker.run(&jpeg, &mut StableRng::new(&[1]), &mut floats).unwrap();
                    let scaled = expected.iter().map(|&v| f32::from(v) * (1.0f64 / 255.0) as f32);
                    assert!(floats.into_iter().eq(scaled), "{text}");
                    parts += 1;
                }
            }
        }
    }
    assert!(parts > 150, "{parts}");
}

/// The part of the whole image that a plan, as text, names.
pub(super) fn cut(
    whole: &[u8],
    width: usize,
    [high, wide, channels]: [usize; 3],
    plan: &str,
) -> Vec<u8> {
    let number = |name: &str| -> usize {
        let Some((_, rest)) = plan.split_once(name) else { return 0 };
        rest[..rest.find([',', ')']).unwrap()].parse().unwrap()
    };
    let (top, left) = (number("top="), number("left="));
    let rows = whole.chunks_exact(width * channels).skip(top).take(high);
    rows.flat_map(|row| row[left * channels..(left + wide) * channels].to_vec()).collect()
}

/// A JPEG with this EXIF orientation.
pub(super) fn turned(orientation: u8, values: &[u8], width: u16, height: u16) -> Vec<u8> {
    let mut jpeg = Vec::new();
    let mut encoder = Encoder::new(&mut jpeg, 90);
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    let exif = [&b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"[..]];
    let exif = [exif.concat(), vec![orientation, 0, 0, 0, 0, 0, 0]].concat();
    encoder.add_app_segment(1, &exif).unwrap();
    encoder.encode(values, width, height, ColorType::Rgb).unwrap();
    jpeg
}

/// Turned and flipped before and after the part is taken.
#[test]
fn of_images_that_are_turned() {
    for orientation in 1..=8 {
        let jpeg = turned(orientation, &values(70, 50, 3), 70, 50);
        assert_eq!(Header::read(&jpeg).unwrap().orientation, orientation);
        let (shape, whole) = run("", &jpeg, 0).unwrap();
        let width = shape[1];
        for seed in 0..8 {
            let text = "random_crop((20, 30))";
            let pipeline: Pipeline = text.parse().unwrap();
            let header = Header::read(&jpeg).unwrap();
            let plan = pipeline.plan(&header, &mut StableRng::new(&[seed])).unwrap();
            let (shape, found) = run(text, &jpeg, seed).unwrap();
            assert!(found == cut(&whole, width, shape, &plan.to_string()), "{orientation}: {plan}");
            // Flipped first, so that the part is counted from the other end.
            let (_, flipped) = run("hflip(1) | vflip(1)", &jpeg, 0).unwrap();
            let text = "hflip(1) | vflip(1) | random_crop((20, 30))";
            let pipeline: Pipeline = text.parse().unwrap();
            let plan = pipeline.plan(&header, &mut StableRng::new(&[seed])).unwrap();
            let (shape, found) = run(text, &jpeg, seed).unwrap();
            assert!(
                found == cut(&flipped, width, shape, &plan.to_string()),
                "{orientation}: {plan}"
            );
        }
    }
}

/// Pixels of another decoder, as far as decoders may differ.
#[test]
fn close_to_those_of_another_decoder() {
    for kind in kinds() {
        // In several scans, which the other decoder mistakes.
        if matches!(kind.sampling, SamplingFactor::F_4_1) && !kind.is_progressive {
            continue;
        }
        let jpeg = kind.encode(83, 61);
        let Ok((_, found)) = run("", &jpeg, 0) else { continue };
        let mut decoder =
            zune_jpeg::JpegDecoder::new(zune_jpeg::zune_core::bytestream::ZCursor::new(&jpeg));
        let options = decoder
            .options()
            .jpeg_set_out_colorspace(zune_jpeg::zune_core::colorspace::ColorSpace::RGB);
        decoder.set_options(options);
        let other = decoder.decode().unwrap();
        let far = found.iter().zip(&other).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        assert!(far <= 6, "{}: {far}", kind.name);
    }
}

/// What the decoder in Rust would make other pixels of is refused; libjpeg-turbo reads the scans.
#[test]
fn of_what_a_decoder_mistakes() {
    let read = |name: &str| {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/libjpeg-turbo-2.1.5");
        fs::read(dir.join(name).with_extension("jpg")).unwrap()
    };
    for (name, whole) in [
        ("each_4x1", "whole_4x1"),
        ("each_1x1", "whole_1x1"),
        ("each_2x2", "whole_2x2"),
        ("each_1x1_restarts", "whole_1x1"),
        ("pairs_2x1", "whole_2x1"),
    ] {
        let expected = run("", &read(whole), 0).unwrap();
        let found = run("", &read(name), 0);
        if cfg!(feature = "turbo") {
            assert!(found.unwrap() == expected, "{name}");
        } else {
            let error = found.unwrap_err();
            assert!(error.contains("its colours are in scans of their own"), "{name}: {error}");
        }
    }
    // The first colour has half of the columns of the others, which nothing here reads.
    let error = run("", &read("first_1x1"), 0).unwrap_err();
    assert!(error.contains("its first colour is not sampled most"), "{error}");
}
