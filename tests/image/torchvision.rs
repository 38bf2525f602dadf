//! Compared with torchvision 0.29.2: `tests/data/torchvision-0.29.2`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use kiste::image::{
    Action, BoxFormat, Header, Interpolation, Padding, PaddingMode, Pipeline, Plan, Size, Worker,
};
use kiste::loader::{Boxes, Columns, Loader, Record};
use kiste::reader::ListReader;
use kiste::sampler::Sequential;
use kiste::sampler::rng::StableRng;
use serde_json::Value as Json;

use crate::support::golden_dir;

fn dir() -> PathBuf {
    golden_dir().parent().unwrap().join("torchvision-0.29.2")
}

fn manifest() -> Json {
    serde_json::from_slice(&fs::read(dir().join("manifest.json")).unwrap()).unwrap()
}

fn bytes_of(name: &str) -> Vec<u8> {
    fs::read(dir().join(name)).unwrap()
}

/// The pixels of a result of torchvision.
fn expected(name: &str) -> ([usize; 3], Vec<u8>) {
    let image = image::load_from_memory(&bytes_of(name)).unwrap().into_rgb8();
    ([image.height() as usize, image.width() as usize, 3], image.into_raw())
}

fn action(json: &Json) -> Action {
    let at = |at: usize| json[at].as_u64().unwrap() as u32;
    let number = |at: usize| json[at].as_f64().unwrap();
    let turned = |at: usize| match json[at].as_str().unwrap() {
        "bilinear" => Interpolation::Bilinear,
        _ => Interpolation::Nearest,
    };
    let factor = || number(1);
    match json[0].as_str().unwrap() {
        "crop" => {
            Action::Crop { top: at(1), left: at(2), size: Size { height: at(3), width: at(4) } }
        }
        "resize" => Action::Resize {
            size: Size { height: at(1), width: at(2) },
            interpolation: match json[3].as_str().unwrap() {
                "bilinear" => Interpolation::Bilinear,
                "bicubic" => Interpolation::Bicubic,
                "lanczos" => Interpolation::Lanczos,
                _ => Interpolation::Nearest,
            },
        },
        "hflip" => Action::HorizontalFlip,
        "vflip" => Action::VerticalFlip,
        "pad" => Action::Pad {
            padding: Padding { left: at(1), top: at(2), right: at(3), bottom: at(4) },
            fill: [at(5) as u8; 4],
            padding_mode: match json[6].as_str().unwrap() {
                "constant" => PaddingMode::Constant,
                "edge" => PaddingMode::Edge,
                "reflect" => PaddingMode::Reflect,
                _ => PaddingMode::Symmetric,
            },
        },
        "grayscale" => Action::Grayscale,
        "gaussian_blur" => Action::GaussianBlur { kernel_size: [at(1), at(2)], sigma: number(3) },
        "erase" => Action::Erase {
            top: at(1),
            left: at(2),
            size: Size { height: at(3), width: at(4) },
            value: [at(5) as u8; 4],
        },
        "rotate" => Action::Rotate {
            angle: number(1),
            interpolation: turned(2),
            expand: json[3].as_bool().unwrap(),
            fill: [at(4) as u8; 4],
        },
        "affine" => Action::Affine {
            angle: number(1),
            translate: [2, 3].map(|at| number(at) as i32),
            scale: number(4),
            shear: [number(5), number(6)],
            interpolation: turned(7),
            fill: [at(8) as u8; 4],
        },
        "brightness" => Action::Brightness(factor()),
        "contrast" => Action::Contrast(factor()),
        "saturation" => Action::Saturation(factor()),
        _ => Action::Hue(factor()),
    }
}

/// The largest difference, and how many values differ.
fn difference(a: &[u8], b: &[u8]) -> (u8, usize) {
    assert_eq!(a.len(), b.len());
    let each = || a.iter().zip(b).map(|(a, b)| a.abs_diff(*b));
    (each().max().unwrap_or_default(), each().filter(|&by| by > 0).count())
}

fn plan_of(bytes: &[u8], actions: &Json) -> Plan {
    let none: Pipeline = "".parse().unwrap();
    let header = Header::read(bytes).unwrap();
    let mut plan = none.plan(&header, &mut StableRng::new(&[])).unwrap();
    plan.actions = actions.as_array().unwrap().iter().map(action).collect();
    for action in &plan.actions {
        match *action {
            Action::Crop { size, .. } | Action::Resize { size, .. } => plan.size = size,
            Action::Pad { padding, .. } => {
                plan.size.height += padding.top + padding.bottom;
                plan.size.width += padding.left + padding.right;
            }
            Action::Rotate { angle, expand: true, .. } => plan.size = expanded(angle, plan.size),
            _ => {}
        }
    }
    plan
}

/// The size of an image that grows until all of it is seen.
fn expanded(angle: f64, size: Size) -> Size {
    let pipeline: Pipeline = format!("rotate(({angle}, {angle}), expand=true)").parse().unwrap();
    let header = Header::new(size.width, size.height);
    pipeline.plan(&header, &mut StableRng::new(&[])).unwrap().size
}

/// Crops, flips, borders, turns, colours and the nearest pixel exactly; filters and blurs within one of 255.
#[test]
fn actions() {
    let photo = bytes_of("photo.png");
    let mut worker = Worker::<u8>::new("".parse().unwrap()).unwrap();
    let mut pixels = Vec::new();
    let mut far = Vec::new();
    for (name, actions) in manifest()["cases"].as_object().unwrap() {
        let plan = plan_of(&photo, actions);
        let shape = worker.carry_out(&photo, &plan, &mut pixels).unwrap();
        let (expected_shape, expected) = expected(&format!("made_{name}.png"));
        assert_eq!(shape, expected_shape, "{name}");
        let is_filtered = plan.actions.iter().any(|action| match action {
            Action::Resize { interpolation, .. } => *interpolation != Interpolation::Nearest,
            Action::GaussianBlur { .. } => true,
            _ => false,
        });
        let (most, count) = difference(&pixels, &expected);
        let allowed = match &name[..] {
            "all" => 3,
            _ => u8::from(is_filtered),
        };
        if most > allowed {
            far.push(format!("{name}: by {most} in {count} of {}", pixels.len()));
        }
    }
    assert!(far.is_empty(), "{far:#?}");
}

/// Formats without loss exactly; JPEG as far as decoders differ.
#[test]
fn decoding() {
    let mut worker = Worker::<u8>::new("".parse().unwrap()).unwrap();
    let (mut pixels, mut far) = (Vec::new(), Vec::new());
    for case in manifest()["decoded"].as_array().unwrap() {
        let name = case[0].as_str().unwrap();
        let rng = &mut StableRng::new(&[]);
        let shape = worker.run(&bytes_of(name), rng, &mut pixels).unwrap();
        let (expected_shape, expected) = expected(case[1].as_str().unwrap());
        assert_eq!(shape, expected_shape, "{name}");
        let (most, count) = difference(&pixels, &expected);
        let allowed = if name.ends_with(".jpg") { 4 } else { 0 };
        if most > allowed {
            far.push(format!("{name}: by {most} in {count} of {}", pixels.len()));
        }
    }
    assert!(far.is_empty(), "{far:#?}");
}

#[test]
fn rounding_of_sizes() {
    for case in manifest()["rounding"].as_array().unwrap() {
        let at = |at: usize| case[at].as_u64().unwrap() as u32;
        let pipeline: Pipeline = case[2].as_str().unwrap().parse().unwrap();
        let plan = pipeline.plan(&Header::new(at(1), at(0)), &mut StableRng::new(&[]));
        match case[3].as_array() {
            Some(size) => {
                let Size { height, width } = plan.unwrap().size;
                let found = [height, width].map(Json::from);
                assert_eq!(found, size[..], "{case}");
            }
            None => {
                let error = plan.unwrap_err().to_string();
                assert!(error.contains("keeps a pixel on its shorter side"), "{error}");
            }
        }
    }
}

#[test]
fn anchors_of_center_crop() {
    let pipeline: Pipeline = "center_crop(224)".parse().unwrap();
    for case in manifest()["anchors"].as_array().unwrap() {
        let numbers: Vec<u32> =
            case.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect();
        let [height, width, top, left, first_y, first_x] = numbers[..] else { panic!("{case}") };
        let plan = pipeline.plan(&Header::new(width, height), &mut StableRng::new(&[])).unwrap();
        let (mut at_y, mut at_x) = (0i64, 0i64);
        for action in &plan.actions {
            match action {
                Action::Pad { padding, .. } => {
                    (at_y, at_x) = (at_y + i64::from(padding.top), at_x + i64::from(padding.left));
                }
                Action::Crop { top, left, .. } => {
                    (at_y, at_x) = (at_y - i64::from(*top), at_x - i64::from(*left));
                }
                _ => panic!("{action:?}"),
            }
        }
        let found = [at_y.max(0), at_x.max(0), (-at_y).max(0), (-at_x).max(0)];
        assert_eq!(found, [top, left, first_y, first_x].map(i64::from), "{case}");
        assert_eq!(plan.size, Size::square(224));
    }
}

#[test]
fn what_is_drawn() {
    drawn("random_resized_crop(224)", "draws");
    drawn("random_erasing(1)", "erased");
}

/// Means within four standard errors of each other, and spreads within 3 %.
fn drawn(text: &str, cases: &str) {
    const DRAWS: u64 = 20_000;
    let pipeline: Pipeline = text.parse().unwrap();
    for case in manifest()[cases].as_array().unwrap() {
        let header =
            Header::new(case[1].as_u64().unwrap() as u32, case[0].as_u64().unwrap() as u32);
        let (mut sums, mut squares) = ([0.0; 4], [0.0; 4]);
        for draw in 0..DRAWS {
            let plan = pipeline.plan(&header, &mut StableRng::new(&[draw])).unwrap();
            let part = plan.actions.iter().find_map(|action| match action {
                Action::Crop { top, left, size } | Action::Erase { top, left, size, .. } => {
                    Some([*top, *left, size.height, size.width])
                }
                _ => None,
            });
            let part = part.unwrap_or([0, 0, header.height, header.width]).map(f64::from);
            for at in 0..4 {
                sums[at] += part[at];
                squares[at] += part[at] * part[at];
            }
        }
        for at in 0..4 {
            let (mean, spread) = (case[2][at].as_f64().unwrap(), case[3][at].as_f64().unwrap());
            let found = sums[at] / DRAWS as f64;
            let found_spread = (squares[at] / DRAWS as f64 - found * found).sqrt();
            let error = spread * (2.0 / DRAWS as f64).sqrt();
            assert!((found - mean).abs() < 4.0 * error, "{case} {at}: {found}");
            assert!((found_spread / spread - 1.0).abs() < 0.03, "{case} {at}: {found_spread}");
        }
    }
}

/// Bit for bit.
#[test]
fn scaling_and_normalizing() {
    let ramp = image::RgbImage::from_fn(256, 1, |x, _| image::Rgb([x as u8; 3]));
    let mut png = std::io::Cursor::new(Vec::new());
    ramp.write_to(&mut png, image::ImageFormat::Png).unwrap();
    let manifest = manifest();
    let bits = |name: &str| -> Vec<u32> {
        manifest[name].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
    };
    for (text, expected) in [
        ("decode(gray) | to(f32, chw)", bits("scaled")),
        ("to(f32, chw) | normalize(imagenet)", bits("normalized")),
    ] {
        let mut out = Vec::new();
        let mut worker = Worker::<f32>::new(text.parse().unwrap()).unwrap();
        worker.run(png.get_ref(), &mut StableRng::new(&[]), &mut out).unwrap();
        assert_eq!(out.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn no_file_is_forgotten() {
    let manifest = manifest();
    let mut known: BTreeSet<String> =
        ["photo.png", "annotations.json", "generate.py", "manifest.json", "README.md"]
            .map(String::from)
            .into();
    let annotated = annotations();
    known.extend(annotated.as_object().unwrap().keys().map(|name| format!("mask_{name}.png")));
    let cases = manifest["cases"].as_object().unwrap().keys();
    known.extend(cases.map(|name| format!("made_{name}.png")));
    for case in manifest["decoded"].as_array().unwrap() {
        known.extend([0, 1].map(|at| case[at].as_str().unwrap().to_owned()));
    }
    let names = fs::read_dir(dir()).unwrap().map(|entry| entry.unwrap().file_name());
    let found: BTreeSet<String> = names.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(found, known);
}

/// The numbers of a palette as they are stored.
fn palette(name: &str) -> Vec<u8> {
    let decoder = png::Decoder::new(std::io::Cursor::new(bytes_of(name)));
    let mut reader = decoder.read_info().unwrap();
    assert_eq!(reader.info().bit_depth, png::BitDepth::Eight);
    let mut out = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut out).unwrap();
    out
}

fn annotations() -> Json {
    serde_json::from_slice(&fs::read(dir().join("annotations.json")).unwrap()).unwrap()
}

/// Exactly, as nothing is computed.
#[test]
fn masks() {
    let (photo, mask) = (bytes_of("photo.png"), palette("palette.png"));
    let cases = manifest()["cases"].clone();
    for name in annotations().as_object().unwrap().keys() {
        let plan = plan_of(&photo, &cases[name]);
        let expected = image::load_from_memory(&bytes_of(&format!("mask_{name}.png"))).unwrap();
        let fill = plan.actions.iter().find_map(|action| match action {
            Action::Pad { fill, .. }
            | Action::Rotate { fill, .. }
            | Action::Affine { fill, .. } => Some(fill[0]),
            _ => None,
        });
        let fill = fill.unwrap_or_default();
        let found = plan.move_mask(&mask, fill).unwrap();
        assert_eq!(found, expected.into_luma8().into_raw(), "{name}");
    }
}

#[test]
fn boxes() {
    let photo = bytes_of("photo.png");
    let cases = manifest()["cases"].clone();
    let mut count = 0;
    for (name, formats) in annotations().as_object().unwrap() {
        let plan = plan_of(&photo, &cases[name]);
        for (format, found) in formats.as_object().unwrap() {
            let format: BoxFormat = serde_json::from_value(Json::from(format.as_str())).unwrap();
            let of = |json: &Json| serde_json::from_value::<Vec<[f64; 4]>>(json.clone()).unwrap();
            let mut boxes: Vec<[f64; 4]> =
                of(&found[0]).into_iter().map(|one| format.to_xyxy(one)).collect();
            plan.move_boxes(&mut boxes).unwrap();
            for (ours, theirs) in boxes.into_iter().zip(of(&found[1])) {
                let ours = format.of_xyxy(ours);
                // Theirs are in single precision.
                let is_near = ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() < 1e-4);
                assert!(is_near, "{name} {format:?}: {ours:?} {theirs:?}");
                count += 1;
            }
        }
        if formats.as_object().unwrap().is_empty() {
            let error = plan.move_boxes(&mut [[0.0; 4]]).unwrap_err().to_string();
            assert!(error.contains("expected padding_mode=constant"), "{error}");
        }
    }
    assert!(count > 200, "{count}");
}

/// A pipeline with a seed whose plan for the first sample is this one, except for colours: crops are drawn until they are
/// those of the plan.
fn pipeline_of(plan: &Plan) -> Option<Pipeline> {
    let step = |action: &Action| match *action {
        Action::Crop { size: Size { height, width }, .. } => {
            Some(format!("random_crop(({height}, {width}))"))
        }
        Action::Resize { size: Size { height, width }, interpolation } => {
            Some(format!("resize(({height}, {width}), {interpolation})"))
        }
        Action::HorizontalFlip => Some("hflip(1)".to_owned()),
        Action::VerticalFlip => Some("vflip(1)".to_owned()),
        Action::Pad { padding: Padding { left, top, right, bottom }, .. } => {
            Some(format!("pad(({left}, {top}, {right}, {bottom}))"))
        }
        Action::Rotate { angle, interpolation, expand, .. } => {
            Some(format!("rotate(({angle}, {angle}), {interpolation}, {expand})"))
        }
        _ => None,
    };
    let steps: Vec<String> = plan.actions.iter().filter_map(step).collect();
    let pipeline: Pipeline = steps.join(" | ").parse().unwrap();
    let places = |plan: &Plan| -> Vec<Option<(u32, u32)>> {
        let place = |action: &Action| match *action {
            Action::Crop { top, left, .. } => Some((top, left)),
            _ => None,
        };
        plan.actions.iter().filter(|action| step(action).is_some()).map(place).collect()
    };
    let wanted = places(plan);
    let header = Header::new(plan.source.width, plan.source.height);
    (0..20_000).map(|seed| pipeline.clone().with_seed(seed)).find(|pipeline| {
        let mut rng = Record::rng_at(pipeline.seed(), 0, 0);
        places(&pipeline.plan(&header, &mut rng).unwrap()) == wanted
    })
}

/// Which boxes are removed, and the others bit for bit, as a loader has them.
#[test]
fn boxes_that_are_kept() {
    let photo = bytes_of("photo.png");
    let cases = manifest()["cases"].clone();
    let (mut count, mut removed) = (0, 0);
    for (name, formats) in annotations().as_object().unwrap() {
        let formats = formats.as_object().unwrap();
        let plan = plan_of(&photo, &cases[name]);
        let count_of = |is: fn(&Action) -> bool| plan.actions.iter().filter(|one| is(one)).count();
        // Two crops in a row take too long to find, and so do shifts.
        if formats.is_empty()
            || count_of(|action| matches!(action, Action::Crop { .. })) > 1
            || count_of(|action| matches!(action, Action::Affine { .. })) > 0
        {
            continue;
        }
        let pipeline = pipeline_of(&plan).expect(name);
        // The columns of a loader have one size.
        let pipeline: Pipeline = match pipeline.size() {
            Some(_) => pipeline,
            None => continue,
        };
        for (format, found) in formats {
            let of = |json: &Json| serde_json::from_value::<Vec<[f64; 4]>>(json.clone()).unwrap();
            let boxes = of(&found[0]);
            let sample = kiste::Value::Map(vec![
                ("key".into(), "a".into()),
                ("image".into(), crate::loader::bin(&photo)),
                ("boxes".into(), super::annotations::list(&boxes)),
            ]);
            let reader = std::sync::Arc::new(ListReader::pack([sample]).unwrap());
            let format: BoxFormat = serde_json::from_value(Json::from(format.as_str())).unwrap();
            // There 12.35 + 0.65 is above 13 in single precision, so a box at the edge is removed as one beyond it.
            if name == "rotate_square" && format == BoxFormat::Cxcywh {
                continue;
            }
            let all = || Boxes::of("image").field("boxes").format(format);
            let columns = Columns::new()
                .image::<u8>("image", pipeline.clone())
                .boxes("all", all())
                .boxes("left", all().remove_empty())
                .boxes("below", all().remove_below(1.0, 1.0))
                .kept("kept", "left")
                .kept("same", "below");
            let options = Loader::options(reader, Sequential::new(1)).threads(0);
            let batch = options.columns(columns).unwrap().next().unwrap().unwrap().data;
            let kept: Vec<i64> = serde_json::from_value(found[2].clone()).unwrap();
            assert_eq!(batch.values::<i64>("kept").unwrap(), kept, "{name} {format:?}");
            assert_eq!(batch.values::<i64>("same").unwrap(), kept, "{name} {format:?}");
            removed += boxes.len() - kept.len();
            count += 1;
            if format == BoxFormat::Xyxy {
                let theirs = of(&found[1]);
                let theirs: Vec<f32> = theirs.as_flattened().iter().map(|&n| n as f32).collect();
                assert_eq!(batch.values::<f32>("all").unwrap(), theirs, "{name}");
            }
        }
    }
    assert!(count >= 30 && removed > 30, "{count} {removed}");
}
