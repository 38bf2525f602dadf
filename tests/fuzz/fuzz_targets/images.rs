//! Images through the pipelines of a loader. The first byte says which pipeline; the rest is the image, and also
//! the text of a pipeline.
#![no_main]

use std::sync::LazyLock;

use kiste::image::{Header, Pipeline, Worker};
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

/// A pipeline that is read prints as one that is the same.
fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(pipeline) = text.parse::<Pipeline>() {
        assert_eq!(pipeline.to_string().parse::<Pipeline>().unwrap(), pipeline);
        let _ = pipeline.plan(&Header::new(50, 40), &mut StableRng::new(&[1]));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    text(bytes);
    let pipeline: Pipeline = PIPELINES[usize::from(which) % PIPELINES.len()].parse().unwrap();
    let header = Header::read(bytes);
    let mut out = Vec::new();
    let mut worker = Worker::<u8>::new(pipeline.clone()).unwrap();
    let mut rng = StableRng::new(&[u64::from(which)]);
    let outcome = worker.run(bytes, &mut rng.clone(), &mut out);
    // One that has just made another picture of noise makes the same of this one.
    let (mut used, mut after) = (Worker::<u8>::new(pipeline.clone()).unwrap(), Vec::new());
    used.run(&NOISE, &mut rng.clone(), &mut after).unwrap();
    let again = used.run(bytes, &mut rng.clone(), &mut after);
    let kind = |error: kiste::Error| error.kind();
    assert_eq!(again.map_err(kind), outcome.as_ref().map(|shape| *shape).map_err(|error| error.kind()));
    let Ok(shape) = outcome else { return };
    assert_eq!(after, out);
    assert_eq!(out.len(), shape.iter().product::<usize>());
    // The header told the same, and a plan that was made before leads to the same pixels.
    let plan = pipeline.plan(&header.unwrap(), &mut rng).unwrap();
    assert_eq!(out.len(), (plan.size.height * plan.size.width) as usize * pipeline.mode().channels());
    let mut again = Vec::new();
    worker.carry_out(bytes, &plan, &mut again).unwrap();
    assert_eq!(out, again);
});
