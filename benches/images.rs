//! Is an epoch of JPEG images bound by the decoder alone?
//!
//! `cargo bench --bench images [-- IMAGES THREADS]`; without arguments 2000 and two threads. Images
//! of 224 × 224, and of 500 × 375 with about 110 kB, as photographs on the web mostly are. The
//! limit is a plain loop over the same encoded images in memory, on as many threads, each with one
//! buffer of its own. Besides the same epoch without decoding. Rates are the best of three rounds
//! that alternate.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use jpeg_encoder::{ColorType, Encoder};
use kiste::loader::{Columns, Loader, LoaderOptions};
use kiste::sampler::{Sampler, Shuffle, rng::StableRng};
use kiste::{DatasetReader, ErrorKind, Writer};
use serde::Serialize;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;

type Res<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Serialize)]
struct Sample<'a> {
    key: &'a str,
    label: usize,
    #[serde(with = "serde_bytes")]
    image: &'a [u8],
}

/// Images that differ; a dataset has them again and again.
const DIFFERENT: usize = 50;
const BATCH: usize = 64;

fn main() -> Res<()> {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let (images, threads) = match numbers[..] {
        [images, threads] => (images, threads),
        _ => (2000, 2),
    };
    measure(images, threads, 224, 224)?;
    measure(images, threads, 500, 375)
}

fn measure(images: usize, threads: usize, width: usize, height: usize) -> Res<()> {
    let different: Vec<Vec<u8>> =
        (0..DIFFERENT).map(|seed| encode(seed as u64, width, height)).collect::<Res<_>>()?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("images.msgpack");
    write(&path, images, &different)?;
    let reader = Arc::new(DatasetReader::open(&path)?);
    let kilobytes = different.iter().map(Vec::len).sum::<usize>() / DIFFERENT / 1000;
    println!("{images} images of {width} × {height}, {kilobytes} kB each, {threads} threads");
    let (mut limit, mut decoded, mut packed) = (0f64, 0f64, 0f64);
    for epoch in 0..3 {
        let options = || {
            let shuffle = Shuffle::new(images as u64, epoch);
            let options = Loader::options(reader.clone(), shuffle).batch_size(BATCH as u64);
            options.threads(threads).epochs(1)
        };
        let order: Vec<u64> = Shuffle::new(images as u64, epoch).order(0)?.iter().collect();
        let rate = |start: Instant| images as f64 / start.elapsed().as_secs_f64();
        let start = Instant::now();
        plain(&order, threads, &different, width * height * 3);
        limit = limit.max(rate(start));
        let start = Instant::now();
        decode(options(), images, width, height)?;
        decoded = decoded.max(rate(start));
        let start = Instant::now();
        pass_on(options())?;
        packed = packed.max(rate(start));
    }
    println!("  decoded in a plain loop: {limit:.0} images/s");
    println!("  decoded by the loader:   {decoded:.0} images/s, {:.3} of it", decoded / limit);
    println!(
        "  passed on packed:        {packed:.0} images/s, {:.0} times as many",
        packed / limit
    );
    Ok(())
}

/// Something like a photograph: large shapes, and fine grain all over.
fn encode(seed: u64, width: usize, height: usize) -> Res<Vec<u8>> {
    let mut rng = StableRng::new(&[seed]);
    let waves: [[f64; 2]; 9] =
        std::array::from_fn(|_| [0; 2].map(|_| rng.below(1000) as f64 / 8000.0));
    let mut pixels = Vec::with_capacity(width * height * 3);
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y as f64, x as f64))) {
        let grain = rng.below(44) as f64;
        for color in waves.chunks(3) {
            let shapes: f64 = color.iter().map(|[a, b]| (a * x + b * y).sin()).sum();
            pixels.push((105.0 + 30.0 * shapes + grain) as u8);
        }
    }
    let mut jpeg = Vec::new();
    Encoder::new(&mut jpeg, 90).encode(&pixels, width as u16, height as u16, ColorType::Rgb)?;
    Ok(jpeg)
}

fn write(path: &Path, images: usize, different: &[Vec<u8>]) -> Res<()> {
    let mut writer = Writer::options().durable(false).digests(false).create(path)?;
    for i in 0..images {
        let (key, image) = (format!("{i:06}.jpg"), &different[i % DIFFERENT]);
        writer.write(&Sample { key: &key, label: i, image })?;
    }
    writer.finish()?;
    Ok(())
}

/// Decodes into pixels.
fn decode_jpeg(image: &[u8], pixels: &mut [u8]) -> kiste::Result<()> {
    let decoded = JpegDecoder::new(ZCursor::new(image)).decode_into(pixels);
    decoded.map_err(|e| kiste::Error::new(ErrorKind::Damaged, format!("no JPEG: {e:?}")))
}

fn plain(order: &[u64], threads: usize, different: &[Vec<u8>], size: usize) {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut pixels = vec![0; size];
        while let Some(index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            decode_jpeg(&different[*index as usize % DIFFERENT], &mut pixels)
                .expect("what was encoded can be decoded");
            black_box(&pixels);
        }
    };
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
}

fn decode(options: LoaderOptions, images: usize, width: usize, height: usize) -> Res<()> {
    let columns = Columns::new().scalar::<i64>("label");
    let columns = columns.row::<u8>("pixels", &[height, width, 3], |record, row| {
        decode_jpeg(record.bytes("image")?, row)
    });
    let mut sum = 0;
    for batch in options.columns(columns)? {
        let batch = batch?;
        sum += batch.data.values::<i64>("label")?.iter().sum::<i64>();
        black_box(batch.data.array::<u8>("pixels")?);
    }
    assert_eq!(sum as usize, images * (images - 1) / 2);
    Ok(())
}

fn pass_on(options: LoaderOptions) -> Res<()> {
    for batch in options.raw()? {
        black_box(batch?.data);
    }
    Ok(())
}
