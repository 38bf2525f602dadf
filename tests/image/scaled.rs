//! `decode(scaled=true)`: a JPEG that is made much smaller is decoded to fewer pixels.

use kiste::ErrorKind;
use kiste::image::{Pipeline, Worker};

const TEXT: &str = "decode(scaled=true) | resize(32) | center_crop(32)";

#[test]
fn it_stands_in_the_text() {
    let pipeline: Pipeline = TEXT.parse().unwrap();
    assert!(pipeline.is_scaled());
    assert_eq!(pipeline.to_string(), TEXT);
    assert_eq!(pipeline.clone().with_scaled_decoding(false).to_string(), &TEXT[22..]);
    assert_eq!(serde_json::to_string(&pipeline).unwrap(), format!("{TEXT:?}"));
    let error = "decode(scaled=2)".parse::<Pipeline>().unwrap_err().to_string();
    assert!(error.contains("expected one of false, true as scaled"), "{error}");
}

/// So that a pipeline makes the same pixels wherever it can be carried out.
#[test]
fn a_build_without_libjpeg_turbo_refuses_it() {
    let worker = Worker::<u8>::new(TEXT.parse().unwrap());
    if cfg!(feature = "turbo") {
        worker.unwrap();
        return;
    }
    let error = worker.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("feature turbo"), "{error}");
    let columns = kiste::loader::Columns::new().image::<u8>("image", TEXT.parse().unwrap());
    let reader = kiste::reader::ListReader::new([]).unwrap();
    let order = kiste::sampler::Sequential::new(0);
    let options = kiste::loader::Loader::options(std::sync::Arc::new(reader), order);
    let error = options.columns(columns).unwrap_err().to_string();
    assert!(error.contains("feature turbo"), "{error}");
}

#[cfg(feature = "turbo")]
mod pixels {
    use super::super::parts::{cut, kinds, run, turned};
    use super::super::png;

    fn both(text: &str, bytes: &[u8], seed: u64) -> ([usize; 3], Vec<u8>, Vec<u8>) {
        let (shape, exact) = run(text, bytes, seed).unwrap();
        let of = match text.strip_prefix("decode(") {
            Some(rest) => format!("decode(scaled=true, mode={rest}"),
            None if text.is_empty() => "decode(scaled=true)".to_owned(),
            None => format!("decode(scaled=true) | {text}"),
        };
        let (scaled_shape, scaled) = run(&of, bytes, seed).unwrap();
        assert_eq!(shape, scaled_shape);
        (shape, exact, scaled)
    }

    /// Mean and maximum of the differences.
    fn difference(a: &[u8], b: &[u8]) -> (f64, u8) {
        let each = || a.iter().zip(b).map(|(a, b)| a.abs_diff(*b));
        (each().map(f64::from).sum::<f64>() / a.len() as f64, each().max().unwrap())
    }

    /// Shapes with sharp edges, on waves.
    fn picture(width: usize, height: usize) -> Vec<u8> {
        let pixel = |at: usize| {
            let (x, y) = ((at % width) as f64, (at / width) as f64);
            let wave = |a: f64, b: f64| (a * x + b * y).sin();
            let inside =
                (x - 0.6 * width as f64).hypot(y - 0.4 * height as f64) < 0.2 * width as f64;
            let stripe = (at % width) / 23 % 3 == 0 && inside;
            let base = if inside { 60.0 } else { 120.0 } + if stripe { 90.0 } else { 0.0 };
            [wave(0.05, 0.02), wave(0.01, 0.07), wave(0.3, 0.2)].map(|w| (base + 35.0 * w) as u8)
        };
        (0..width * height).flat_map(pixel).collect()
    }

    /// What docs/images.md says of the error, for halves, quarters and eighths, whole images and parts.
    #[test]
    fn the_error_is_small() {
        let values = picture(512, 384);
        for orientation in 1..=8 {
            let jpeg = turned(orientation, &values, 512, 384);
            for text in [
                "resize((96, 100))",
                "resize(60)",
                "resize((40, 44))",
                "decode(gray) | resize((96, 100))",
                "resize(150) | center_crop(128)",
                "hflip(1) | resize((190, 170), bicubic)",
                "random_resized_crop(64, scale=(0.3, 0.8)) | hflip",
                "random_crop((301, 333)) | vflip(1) | resize((33, 40))",
            ] {
                for seed in 0..4 {
                    let (_, exact, scaled) = both(text, &jpeg, seed);
                    let (mean, most) = difference(&exact, &scaled);
                    assert!(mean < 3.0 && most <= 40, "{orientation} {text}: {mean:.2} {most}");
                    assert!(mean > 0.0, "{orientation} {text}: the same pixels");
                }
            }
        }
    }

    /// Places are right to a small part of a pixel: a ramp stays the same ramp.
    #[test]
    fn a_ramp_is_where_it_was() {
        let ramp = |at: usize| [(at % 509 / 2) as u8, (at / 509 / 2) as u8, 128];
        let values: Vec<u8> = (0..509 * 387).flat_map(ramp).collect();
        for orientation in 1..=8 {
            let jpeg = turned(orientation, &values, 509, 387);
            for text in [
                "random_resized_crop(50)",
                "resize((45, 77)) | vflip(1)",
                "random_crop((211, 307)) | resize((50, 60))",
            ] {
                for seed in 0..6 {
                    let (_, exact, scaled) = both(text, &jpeg, seed);
                    let (mean, most) = difference(&exact, &scaled);
                    assert!(mean < 0.5 && most <= 4, "{orientation} {text}: {mean:.2} {most}");
                }
            }
        }
    }

    /// What is cropped of a result has the pixels of the whole one, as without it.
    #[test]
    fn a_part_has_the_pixels_of_the_whole() {
        let mut parts = 0;
        for kind in kinds().iter().filter(|kind| kind.is_usual()) {
            let jpeg = kind.encode(239, 177);
            for (height, width) in [(80, 100), (44, 50), (22, 29), (61, 27)] {
                for start in ["", "vflip(1) | ", "center_crop((170, 231)) | "] {
                    let text = format!("decode(scaled=true) | {start}resize(({height}, {width}))");
                    let (_, whole) = run(&text, &jpeg, 0).unwrap();
                    let exact = text.replace("scaled=true", "rgb");
                    assert!(run(&exact, &jpeg, 0).unwrap().1 != whole, "{} {text}", kind.name);
                    for (high, wide) in [(5, 7), (20, 3), (19, 26)] {
                        let text = format!("{text} | random_crop(({high}, {wide}))");
                        let plan = text.parse::<kiste::image::Pipeline>().unwrap();
                        let header = kiste::image::Header::read(&jpeg).unwrap();
                        let mut rng = kiste::sampler::rng::StableRng::new(&[3]);
                        let plan = plan.plan(&header, &mut rng).unwrap().to_string();
                        let crop = plan.rsplit(" | ").next().unwrap();
                        let (shape, found) = run(&text, &jpeg, 3).unwrap();
                        assert!(found == cut(&whole, width, shape, crop), "{} {text}", kind.name);
                        parts += 1;
                    }
                }
            }
        }
        assert!(parts > 200, "{parts}");
    }

    /// Where less than half of the sides is left out, and where nothing is filtered.
    #[test]
    fn otherwise_nothing_changes() {
        let jpeg = turned(6, &picture(130, 90), 130, 90);
        for text in [
            "",
            "resize((46, 64))",
            "resize((20, 66))",
            "resize((40, 40), nearest)",
            "center_crop(50) | resize(26)",
            "pad(3) | resize(20)",
        ] {
            let (_, exact, scaled) = both(text, &jpeg, 0);
            assert!(exact == scaled, "{text}");
        }
        let (_, exact, scaled) = both("resize(10)", &png(100, 80), 0);
        assert!(exact == scaled, "no JPEG");
        for kind in kinds().iter().filter(|kind| !kind.is_usual()) {
            let jpeg = kind.encode(83, 61);
            if run("", &jpeg, 0).is_ok() {
                let (_, exact, scaled) = both("resize(10)", &jpeg, 0);
                assert!(exact == scaled, "{}", kind.name);
            }
        }
        let jpeg = kinds()[0].encode(83, 61);
        let cut_short = &jpeg[..jpeg.len() / 2];
        let error = run("decode(scaled=true) | resize(10)", cut_short, 0).unwrap_err();
        assert_eq!(error, run("resize(10)", cut_short, 0).unwrap_err());
    }
}
