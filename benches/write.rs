//! How close is writing to what one MD5 core and the page cache allow, and how much memory does it
//! take?
//!
//! `cargo bench --bench write [-- SAMPLES PAYLOAD_BYTES]`; without arguments 1M × 64 B,
//! 100k × 10 kB and 10k × 110 kB. Prints seconds, and each as a ratio to the limit of the same run.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use kiste::Writer;
use kiste::format::__private::md5::Md5;

mod memory;

use memory::Memory;

#[derive(serde::Serialize)]
struct Sample<'a> {
    key: &'a str,
    label: u64,
    #[serde(with = "serde_bytes")]
    payload: &'a [u8],
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    match numbers[..] {
        [samples, bytes] => measure(samples, bytes),
        _ => [(1_000_000, 64), (100_000, 10_000), (10_000, 110_000)]
            .into_iter()
            .try_for_each(|(samples, bytes)| measure(samples, bytes)),
    }
}

fn measure(samples: usize, bytes: usize) -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    println!("{samples} samples with {bytes} bytes");
    // A sliding window over noise: no two payloads are equal, and none has to be made.
    let mut state = 1u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    })
    .take(bytes + samples)
    .collect();
    let total = samples * (bytes + 40);

    let md5 = seconds(|| {
        let mut md5 = Md5::new();
        (0..total.div_ceil(noise.len())).for_each(|_| md5.update(&noise));
        black_box(md5.finish());
        Ok(())
    })? * total as f64
        / (total.div_ceil(noise.len()) * noise.len()) as f64;
    let file = seconds(|| {
        let mut file = File::create(dir.path().join("plain"))?;
        let mut left = total;
        while left > 0 {
            let part = &noise[..left.min(noise.len()).min(256 << 10)];
            file.write_all(part)?;
            left -= part.len();
        }
        Ok(())
    })?;
    std::fs::remove_file(dir.path().join("plain"))?;
    println!("  limits: MD5 on one core {md5:.3} s, writing the bytes {file:.3} s");

    let keys: Vec<String> = (0..samples).map(|i| format!("n{:08}_{i}", i * 7919 % 1000)).collect();
    let kinds = [
        ("with .md5", true, false, md5),
        ("with .md5 and .crc", true, true, md5),
        ("without .md5", false, false, file),
        ("with .crc alone", false, true, file),
    ];
    for (name, digests, checksums, limit) in kinds {
        let path = dir.path().join("data.msgpack");
        let memory = Memory::watch("RssAnon:");
        let time = seconds(|| {
            let options = Writer::options().durable(false).digests(digests);
            let mut writer = options.checksums(checksums).create(&path)?;
            for (i, key) in keys.iter().enumerate() {
                writer.write(&Sample { key, label: i as u64, payload: &noise[i..i + bytes] })?;
            }
            writer.finish()?;
            Ok(())
        })?;
        let memory = memory.growth() as f64 / samples as f64;
        println!(
            "  {name}: {time:.3} s, {:.2} M samples/s, {:.0} MB/s, {:.2} of the limit; \
             at most {memory:.1} bytes of memory a sample",
            samples as f64 / time / 1e6,
            total as f64 / time / 1e6,
            limit / time,
        );
        for entry in std::fs::read_dir(dir.path())? {
            std::fs::remove_file(entry?.path())?;
        }
    }
    Ok(())
}

fn seconds(
    work: impl FnOnce() -> Result<(), Box<dyn std::error::Error>>,
) -> Result<f64, Box<dyn std::error::Error>> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}
