//! What does a look-up by key cost: the first one, the next ones, and the table they lead to?
//!
//! `cargo bench --bench keys [-- KEYS …]`; without arguments 1 and 10 million. Each line is one
//! opened reader; a look-up's time includes the page faults of a file that is in the page cache.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::path::Path;
use std::time::{Duration, Instant};

use kiste::index::IndexOptions;
use kiste::{DatasetReader, Result, Writer};

fn main() -> Result<()> {
    let mut counts: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    if counts.is_empty() {
        counts = vec![1_000_000, 10_000_000];
    }
    for count in counts {
        let dir = tempfile::tempdir().map_err(|e| kiste::Error::io("temporary directory", e))?;
        let path = dir.path().join("keys.msgpack");
        println!("{count} keys");
        let (_, time) = timed(|| write(&path, count))?;
        println!("  written in {time:.2?}");
        for name in ["without .lookup", "with .lookup"] {
            println!("  {name}");
            measure(&path, count)?;
            let (_, time) =
                timed(|| IndexOptions::default().lookup(true).durable(false).build(&path))?;
            println!("  (.lookup made in {time:.2?})");
        }
    }
    Ok(())
}

fn key(i: usize) -> String {
    format!("n{:08}_{i}", i.wrapping_mul(7919) % 1000)
}

fn write(path: &Path, count: usize) -> Result<()> {
    let mut writer = Writer::options().durable(false).lookup(false).create(path)?;
    let mut packed = Vec::new();
    for i in 0..count {
        let key = key(i);
        packed.clear();
        packed.extend_from_slice(b"\x81\xa3key");
        packed.push(0xa0 | key.len() as u8); // below 32 bytes
        packed.extend_from_slice(key.as_bytes());
        writer.write_raw(&key, &packed)?;
    }
    writer.finish().map(drop)
}

fn measure(path: &Path, count: usize) -> Result<()> {
    // Spread over the dataset, the first one in its middle: what a search finds on average.
    let keys: Vec<String> =
        (1..=10_000).map(|i| key((i * 50_021 * count / 100_003) % count)).collect();
    let first = key(count / 2);
    let reader = DatasetReader::open(path)?;
    let (reader, opened) = (reader, timed(|| DatasetReader::open(path))?.1);
    let (_, first) = timed(|| reader.find(&first))?;
    println!("    open {opened:.1?}, then the first key {first:.1?}");
    let mut slowest = Duration::ZERO;
    let (_, all) = timed(|| {
        for key in &keys {
            let (found, time) = timed(|| reader.find(key))?;
            slowest = slowest.max(time);
            assert!(found.is_some());
        }
        Ok(())
    })?;
    println!("    then 10,000 keys in {all:.1?}, the slowest {slowest:.1?}");

    let reader = DatasetReader::open(path)?;
    let (_, prepared) = timed(|| reader.prepare_keys())?;
    let (_, all) = timed(|| keys.iter().try_for_each(|key| reader.find(key).map(drop)))?;
    let absent: Vec<String> = (count..count + 10_000).map(key).collect();
    let (_, none) = timed(|| absent.iter().try_for_each(|key| reader.contains_key(key).map(drop)))?;
    let (_, many) =
        timed(|| keys.chunks(256).try_for_each(|part| reader.find_many(part).map(drop)))?;
    println!(
        "    prepared in {prepared:.1?}: then {:.0?} a key, {:.0?} in batches of 256, {:.0?} an absent one",
        all / 10_000,
        many / 10_000,
        none / 10_000
    );
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let start = Instant::now();
    let value = work()?;
    Ok((value, start.elapsed()))
}
