//! Images through a pipeline, for benches/pixels.py.
//!
//! `pixels draw DIR PIPELINE` prints, for each image in DIR by name, its plan as a line of JSON, and writes the
//! result as `NAME.raw`. `pixels time DIR PIPELINE` prints images per second on one thread, and how often memory
//! was allocated for each once warm. `pixels decode DIR` prints the same of decoders alone.

#![allow(clippy::print_stdout, reason = "a program")]
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use kiste::image::{Header, Pipeline, Pixel, PixelType, Worker};
use kiste::sampler::rng::StableRng;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;

struct Counting;

static ALLOCATED: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes every call on to the allocator of the system.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(1, Relaxed);
        BYTES.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["draw", dir, text] => draw(Path::new(dir), text.parse()?),
        ["time", dir, text] => {
            let pipeline: Pipeline = text.parse()?;
            match pipeline.output().0 {
                PixelType::F32 => time::<f32>(Path::new(dir), pipeline),
                _ => time::<u8>(Path::new(dir), pipeline),
            }
        }
        ["decode", dir] => decode(Path::new(dir)),
        _ => Err("expected draw DIR PIPELINE, time DIR PIPELINE or decode DIR".into()),
    }
}

fn images(dir: &Path) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "jpg"));
    paths.sort();
    paths.into_iter().map(|path| Ok((path.clone(), std::fs::read(path)?))).collect()
}

fn draw(dir: &Path, pipeline: Pipeline) -> Outcome {
    let mut worker = Worker::<u8>::new(pipeline)?;
    let mut out = Vec::new();
    for (number, (path, bytes)) in images(dir)?.into_iter().enumerate() {
        let mut rng = StableRng::new(&[number as u64]);
        let plan = worker.pipeline().plan(&Header::read(&bytes)?, &mut rng)?;
        worker.carry_out(&bytes, &plan, &mut out)?;
        println!("{}", serde_json::to_string(&plan)?);
        std::fs::write(path.with_extension("raw"), &out)?;
    }
    Ok(())
}

fn time<T: Pixel>(dir: &Path, pipeline: Pipeline) -> Outcome {
    let images = images(dir)?;
    let mut worker = Worker::<T>::new(pipeline)?;
    let mut out = Vec::new();
    report(images.len(), |number| {
        let mut rng = StableRng::new(&[number as u64]);
        Ok(worker.run(&images[number].1, &mut rng, &mut out).map(|_| ())?)
    })
}

fn decode(dir: &Path) -> Outcome {
    let images = images(dir)?;
    let mut out = vec![0; 1 << 24];
    report(images.len(), |number| {
        let mut decoder = JpegDecoder::new(ZCursor::new(&images[number].1));
        Ok(decoder.decode_into(&mut out).map_err(|error| format!("{error:?}"))?)
    })
}

/// Three passes over all images; the best counts, because others use the machine as well.
fn report(images: usize, mut one: impl FnMut(usize) -> Outcome) -> Outcome {
    let (mut best, mut allocated, mut bytes) = (f64::MAX, 0, 0);
    for _ in 0..3 {
        (allocated, bytes) = (ALLOCATED.load(Relaxed), BYTES.load(Relaxed));
        let start = Instant::now();
        (0..images).try_for_each(&mut one)?;
        best = best.min(start.elapsed().as_secs_f64());
        (allocated, bytes) = (ALLOCATED.load(Relaxed) - allocated, BYTES.load(Relaxed) - bytes);
    }
    let each = |of: u64| of as f64 / images as f64;
    println!(
        "{:.0} images/s, {:.1} allocations of {:.1} KiB for each",
        images as f64 / best,
        each(allocated),
        each(bytes) / 1024.0
    );
    Ok(())
}
