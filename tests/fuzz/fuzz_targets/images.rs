//! Images through the pipelines of a loader. The first byte says which pipeline, or how long the text of one is that
//! follows; the rest is the image.
#![no_main]

mod caught;

use std::sync::LazyLock;

use kiste::image::{Header, Pipeline, Pixel, PixelType, Worker};
use kiste::sampler::rng::StableRng;
use libfuzzer_sys::fuzz_target;

const PIPELINES: [&str; 8] = [
    "decode(max_pixels=65536)",
    "decode(gray, max_pixels=65536) | random_resized_crop(7) | hflip",
    "decode(rgba, max_pixels=65536) | resize(9) | center_crop((5, 12))",
    "decode(max_pixels=65536) | random_resized_crop((3, 8), scale=(0.01, 1)) | color_jitter(0.4, 0.4, 0.4, 0.5)",
    "decode(max_pixels=65536) | random_crop(8, padding=3, pad_if_needed=true, padding_mode=edge) | vflip",
    "decode(max_pixels=65536) | pad((1, 2, 3, 4), padding_mode=reflect) | hflip | resize((4, 4), bicubic)",
    "decode(max_pixels=65536) | pad(5, padding_mode=symmetric) | resize((4, 40), nearest) | to(u8, chw)",
    "decode(max_pixels=65536) | hflip(1) | resize(8, lanczos, max_size=20) | to(u8, chw)",
];

/// A picture of noise, as PPM.
static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let noise = (0..64 * 64 * 3u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 | 3);
    b"P6 64 64 255 ".iter().copied().chain(noise).collect()
});

/// The most pixels of an image, and of what a plan makes of it.
const MAX_PIXELS: u64 = 1 << 16;

/// The pipeline that the first bytes say, and the image after them.
fn split(bytes: &[u8]) -> Option<(Pipeline, &[u8])> {
    let (&which, bytes) = bytes.split_first()?;
    if which < 128 {
        let pipeline = PIPELINES[usize::from(which) % PIPELINES.len()].parse().unwrap();
        return Some((pipeline, bytes));
    }
    let (text, bytes) = bytes.split_at(usize::from(which - 128).min(bytes.len()));
    let pipeline: Pipeline = std::str::from_utf8(text).ok()?.parse().ok()?;
    // One that is read prints as one that is the same.
    assert_eq!(pipeline.to_string().parse::<Pipeline>().unwrap(), pipeline);
    let is_scaled = pipeline.is_scaled() && cfg!(feature = "turbo");
    Some((pipeline.with_max_pixels(MAX_PIXELS).with_scaled_decoding(is_scaled), bytes))
}

fn check<T: Pixel + PartialEq>(pipeline: &Pipeline, bytes: &[u8]) {
    let header = Header::read(bytes);
    let mut out = Vec::new();
    let mut worker = Worker::<T>::new(pipeline.clone()).unwrap();
    let mut rng = StableRng::new(&[bytes.len() as u64]);
    let outcome = worker.run(bytes, &mut rng.clone(), &mut out);
    // One that has just made another picture of noise makes the same of this one.
    let (mut used, mut after) = (Worker::<T>::new(pipeline.clone()).unwrap(), Vec::new());
    let _ = used.run(&NOISE, &mut rng.clone(), &mut after);
    let again = used.run(bytes, &mut rng.clone(), &mut after);
    let kind = |error: kiste::Error| error.kind();
    assert_eq!(
        again.map_err(kind),
        outcome.as_ref().map(|shape| *shape).map_err(|error| error.kind())
    );
    let Ok(shape) = outcome else { return };
    assert!(after == out);
    assert_eq!(out.len(), shape.iter().product::<usize>());
    // The header told the same, and a plan that was made before leads to the same pixels.
    let plan = pipeline.plan(&header.unwrap(), &mut rng).unwrap();
    assert_eq!(
        out.len(),
        (plan.size.height * plan.size.width) as usize * pipeline.mode().channels()
    );
    assert!(pipeline.shape().is_none_or(|known| known == shape));
    let mut again = Vec::new();
    worker.carry_out(bytes, &plan, &mut again).unwrap();
    assert!(out == again);
}

fuzz_target!(init: caught::abort_if_uncaught(), |bytes: &[u8]| {
    let Some((pipeline, bytes)) = split(bytes) else { return };
    match pipeline.output().0 {
        PixelType::F32 => check::<f32>(&pipeline, bytes),
        PixelType::F16 => check::<half::f16>(&pipeline, bytes),
        PixelType::Bf16 => check::<u16>(&pipeline, bytes),
        _ => check::<u8>(&pipeline, bytes),
    }
});
