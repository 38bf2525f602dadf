//! Masks and boxes that move with their image, and plans and pipelines as text. The first byte says what the rest is.
#![no_main]

mod caught;

use std::sync::Arc;

use kiste::Value;
use kiste::image::{
    Action, Header, Interpolation, Mode, PaddingMode, Pipeline, PixelType, Plan, Worker,
};
use kiste::loader::{Boxes, Columns, Labels, Loader, Mask, OnError, Padded};
use kiste::reader::ListReader;
use kiste::sampler::Sequential;
use kiste::sampler::rng::StableRng;
use libfuzzer_sys::fuzz_target;

/// The most pixels of an image, and of what a plan makes of it.
const MAX_PIXELS: u64 = 1 << 14;

/// A grey picture, as PGM.
fn pgm(width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
    [format!("P5 {width} {height} 255\n").as_bytes(), pixels].concat()
}

fn pixels(width: u32, height: u32) -> Vec<u8> {
    (0..width * height).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Whether the values of an image stay as they are, so that a mask with the same ones moves as it does.
fn is_moved(plan: &Plan) -> bool {
    plan.actions.iter().all(|action| match action {
        Action::Crop { .. } | Action::HorizontalFlip | Action::VerticalFlip => true,
        Action::Resize { interpolation, .. } => *interpolation == Interpolation::Nearest,
        Action::Pad { fill, padding_mode, .. } => {
            *padding_mode != PaddingMode::Constant || fill[0] == 7
        }
        Action::Rotate { interpolation, fill, .. } | Action::Affine { interpolation, fill, .. } => {
            *interpolation == Interpolation::Nearest && fill[0] == 7
        }
        _ => false,
    })
}

fn is_small(plan: &Plan) -> bool {
    let mut sides = vec![plan.source, plan.size];
    sides.extend(plan.actions.iter().filter_map(|action| match action {
        Action::Crop { size, .. } | Action::Resize { size, .. } => Some(*size),
        _ => None,
    }));
    let border: u64 = plan
        .actions
        .iter()
        .map(|action| match action {
            Action::Pad { padding: of, .. } => {
                [of.left, of.top, of.right, of.bottom].map(u64::from).iter().sum()
            }
            // The sides of an image that grows.
            Action::Rotate { expand: true, .. } => 10,
            _ => 0,
        })
        .sum();
    border < 100
        && sides.iter().all(|size| u64::from(size.height) * u64::from(size.width) <= MAX_PIXELS / 4)
}

/// What a plan does to an image, a mask and boxes, of a text or at random.
fn carried_out(plan: &Plan, pipeline: &Pipeline) {
    let text = serde_json::to_string(plan).unwrap();
    let again: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    if !is_small(plan) {
        return;
    }
    let (width, height) = match plan.orientation {
        5..=8 => (plan.source.height, plan.source.width),
        _ => (plan.source.width, plan.source.height),
    };
    let mask = pixels(width, height);
    let moved = plan.move_mask(&mask, 7u8);
    let mut boxes =
        [[0.0, 0.0, 1e9, 1e9], [-1e300, f64::INFINITY, 3.5, f64::NAN], [1.0, 2.0, 3.0, 4.0]];
    if plan.move_boxes(&mut boxes).is_ok() {
        let within = |at: f64, end: u32| at.is_nan() || (0.0..=f64::from(end)).contains(&at);
        for [left, top, right, bottom] in boxes {
            assert!(within(left, plan.size.width) && within(right, plan.size.width), "{boxes:?}");
            assert!(within(top, plan.size.height) && within(bottom, plan.size.height), "{boxes:?}");
        }
    }
    let mut worker = Worker::<u8>::new(pipeline.clone()).unwrap();
    let mut out = Vec::new();
    let shape = worker.carry_out(&pgm(width, height, &mask), plan, &mut out);
    if plan.orientation != 1 {
        // The picture has none.
        assert!(shape.is_err());
        return;
    }
    match (&moved, &shape) {
        (Ok(moved), Ok([high, wide, _])) => {
            assert_eq!([*high, *wide], [plan.size.height as usize, plan.size.width as usize]);
            assert_eq!(moved.len(), out.len());
            if is_moved(plan) {
                assert_eq!(*moved, out);
            }
        }
        // A filter has a limit that a mask does not need.
        (Ok(_), Err(_)) => {}
        // Its size is wrong, which the image does not need.
        (Err(_), _) => {}
    }
}

/// A plan as JSON.
fn plan(bytes: &[u8]) {
    let Ok(plan) = serde_json::from_slice::<Plan>(bytes) else { return };
    let pipeline: Pipeline = format!("decode(gray, max_pixels={MAX_PIXELS})").parse().unwrap();
    let _ = plan.to_string();
    carried_out(&plan, &pipeline);
}

/// A pipeline as text, for an image of a size of the first two bytes.
fn pipeline(bytes: &[u8]) {
    let Some((&[width, height, seed], text)) = bytes.split_first_chunk() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Ok(pipeline) = text.parse::<Pipeline>() else { return };
    let json = serde_json::to_string(&pipeline).unwrap();
    assert_eq!(serde_json::from_str::<Pipeline>(&json).unwrap(), pipeline);
    // The picture is no JPEG, so it changes nothing, but not every build carries it out.
    let pipeline = pipeline.with_max_pixels(MAX_PIXELS).with_scaled_decoding(false);
    let (width, height) = (u32::from(width), u32::from(height));
    let Ok(plan) =
        pipeline.plan(&Header::new(width, height), &mut StableRng::new(&[u64::from(seed)]))
    else {
        return;
    };
    if let Some(size) = pipeline.size() {
        assert_eq!(size, plan.size);
    }
    let is_bytes = pipeline.output().0 == PixelType::U8 && pipeline.mode() == Mode::Gray;
    if is_bytes && pipeline.output().1 == Default::default() {
        carried_out(&plan, &pipeline);
    }
}

const PIPELINES: [&str; 4] = [
    "decode(gray, max_pixels=4096) | random_crop(8, padding=3, pad_if_needed=true) | hflip",
    "decode(gray, max_pixels=4096) | random_resized_crop((6, 9)) | vflip",
    "decode(gray, max_pixels=4096) | resize((7, 5), nearest)",
    "decode(gray, max_pixels=4096) | pad((2, 0, 1, 3)) | center_crop(10)",
];

/// A sample whose mask, boxes and labels are arbitrary: two parts of the input, each a value of msgpack or bytes.
fn sample(which: u8, bytes: &[u8]) {
    let Some((&[sizes, split], bytes)) = bytes.split_first_chunk() else { return };
    let (mask, boxes) = bytes.split_at(usize::from(split).min(bytes.len()));
    let value = |bytes: &[u8]| {
        kiste::format::msgpack::decode(bytes).unwrap_or_else(|_| Value::Binary(bytes.to_vec()))
    };
    let (width, height) = (1 + u32::from(sizes & 15), 1 + u32::from(sizes >> 4));
    let image = pgm(width, height, &pixels(width, height));
    let fields = [
        ("key", Value::from("a")),
        ("image", Value::Binary(image)),
        ("mask", value(mask)),
        ("boxes", value(boxes)),
        ("labels", value(&boxes[boxes.len() / 2..])),
    ];
    let fields = fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
    let Ok(reader) = ListReader::pack([Value::Map(fields)]) else { return };
    let reader = Arc::new(reader);
    let pipeline: Pipeline = PIPELINES[usize::from(which) % PIPELINES.len()].parse().unwrap();
    let images = || Columns::new().image::<u8>("image", pipeline.clone().with_seed(which.into()));
    let run = |columns: Columns| {
        let options = Loader::options(reader.clone(), Sequential::new(1)).epochs(1).threads(0);
        let batch = options.on_error(OnError::Skip).columns(columns).unwrap().next();
        batch.map(|batch| batch.unwrap()).filter(|batch| batch.failures.is_empty())
    };
    let size = pipeline.size().unwrap();
    let masked = if which & 64 == 0 {
        Mask::<u8>::of("image").fill(7)
    } else {
        Mask::<u8>::of("image").upright()
    };
    if let Some(batch) = run(images().mask("mask", masked)) {
        assert_eq!(
            batch.data.array::<u8>("mask").unwrap().shape(),
            [1, size.height as usize, size.width as usize]
        );
    }
    let _ = run(images().mask("mask", Mask::<half::f16>::of("image")));
    let _ = run(images().mask("mask", Mask::<i64>::of("image")));
    let boxes = Boxes::of("image");
    let boxes = if which & 32 == 0 {
        boxes.remove_empty()
    } else {
        boxes.padded(Padded::buckets([4, 64]).cut())
    };
    let columns = images()
        .boxes("boxes", boxes)
        .labels("labels", Labels::<i32>::of("boxes"))
        .kept("kept", "boxes");
    if let Some(batch) = run(columns) {
        let batch = batch.data;
        assert_eq!(batch.lengths("boxes").unwrap(), batch.lengths("labels").unwrap());
        assert_eq!(batch.lengths("boxes").unwrap(), batch.lengths("kept").unwrap());
        for one in batch.values::<f32>("boxes").unwrap().chunks(4) {
            let (wide, high) = (size.width as f32, size.height as f32);
            assert!((0.0..=wide).contains(&one[0]) && (0.0..=wide).contains(&one[2]), "{one:?}");
            assert!((0.0..=high).contains(&one[1]) && (0.0..=high).contains(&one[3]), "{one:?}");
        }
    }
}

fuzz_target!(init: caught::abort_if_uncaught(), |bytes: &[u8]| {
    match bytes.split_first() {
        None => {}
        Some((0..=63, bytes)) => plan(bytes),
        Some((64..=127, bytes)) => pipeline(bytes),
        Some((&which, bytes)) => sample(which & 127, bytes),
    }
});
