//! The cost of a shuffled epoch, and whether its memory stays flat.
//!
//! `cargo bench --bench load [-- SAMPLES PAYLOAD_BYTES THREADS]`; without arguments 1M × 64 B and
//! 100k × 10 kB with two threads. 10 GB are `-- 100000 100000 2`. Batches of 256; the limit is
//! copying the payloads of the same batches out of a map, on one thread, without any format.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use kiste::loader::{Columns, Loader};
use kiste::sampler::{Sampler, Shuffle};
use kiste::storage::{LocalStorage, Storage as _};
use kiste::{DatasetReader, Writer};
use serde::Serialize;

mod memory;

use memory::Memory;

type Res<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Serialize)]
struct Sample<'a> {
    key: &'a str,
    label: u64,
    #[serde(with = "serde_bytes")]
    payload: &'a [u8],
}

fn main() -> Res<()> {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    match numbers[..] {
        [samples, bytes, threads] => measure(samples, bytes, threads),
        _ => [(1_000_000, 64), (100_000, 10_000)]
            .into_iter()
            .try_for_each(|(samples, bytes)| measure(samples, bytes, 2)),
    }
}

fn measure(samples: usize, bytes: usize, threads: usize) -> Res<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("data.msgpack");
    write(&path, samples, bytes)?;
    println!("{samples} samples with {bytes} bytes, {threads} threads");
    let limit = bare(&path, samples, bytes)?;
    println!("  limit, one thread: {:.2} M samples/s", limit / 1e6);
    let reader = Arc::new(DatasetReader::open(&path)?);
    for epoch in 0..3 {
        let memory = Memory::watch("RssAnon:");
        let start = Instant::now();
        let loader = Loader::options(reader.clone(), Shuffle::new(samples as u64, epoch))
            .batch_size(256)
            .threads(threads)
            .epochs(1)
            .columns(Columns::new().scalar::<i64>("label").bytes("payload"))?;
        let mut sum = 0;
        for batch in loader {
            sum += batch?.data.values::<i64>("label")?.iter().sum::<i64>();
        }
        assert_eq!(sum as usize, samples * (samples - 1) / 2);
        let rate = samples as f64 / start.elapsed().as_secs_f64();
        println!(
            "  epoch {epoch}: {:.2} M samples/s, {:.2} GB/s, {:.2} of the limit; \
             {:.1} MB of memory at most",
            rate / 1e6,
            rate * bytes as f64 / 1e9,
            rate / limit,
            memory.growth() as f64 / 1e6,
        );
    }
    Ok(())
}

fn write(path: &Path, samples: usize, bytes: usize) -> Res<()> {
    let noise: Vec<u8> = (0..bytes + samples).map(|i| (i.wrapping_mul(31) >> 3) as u8).collect();
    let mut writer = Writer::options().durable(false).digests(false).create(path)?;
    for i in 0..samples {
        let key = format!("n{:08}_{i}", i * 7919 % 1000);
        writer.write(&Sample { key: &key, label: i as u64, payload: &noise[i..i + bytes] })?;
    }
    writer.finish()?;
    Ok(())
}

/// Samples a second, without any format: the second of two passes.
fn bare(path: &Path, samples: usize, bytes: usize) -> Res<f64> {
    let map = LocalStorage::mapped().open(path)?;
    let map = map.mapped().unwrap_or_default();
    let order = Shuffle::new(samples as u64, 42).order(0)?;
    let indices: Vec<u64> = order.iter().collect();
    let mut batch = Vec::new();
    let mut rate = 0.0;
    for _ in 0..2 {
        let start = Instant::now();
        for indices in indices.chunks(256) {
            batch.clear();
            for index in indices {
                let at = *index as usize * (map.len() / samples);
                batch.extend_from_slice(&map[at..(at + bytes).min(map.len())]);
            }
            black_box(&batch);
        }
        rate = samples as f64 / start.elapsed().as_secs_f64();
    }
    Ok(rate)
}
