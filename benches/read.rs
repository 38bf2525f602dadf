//! How close is reading to touching the same bytes of a map, and to a bare walk over msgpack?
//!
//! `cargo bench --bench read [-- SAMPLES PAYLOAD_BYTES]`; without arguments 1M × 64 B. All is in
//! the page cache. Every pass runs twice on one reader: first with the page faults, then without.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::hint::black_box;
use std::time::Instant;

use kiste::format::msgpack::Cursor;
use kiste::storage::{LocalStorage, Storage as _};
use kiste::{DatasetReader, Writer};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Sample<'a> {
    key: &'a str,
    label: u64,
    #[serde(borrow, with = "serde_bytes")]
    payload: &'a [u8],
}

type Done = Result<(), Box<dyn std::error::Error>>;

fn main() -> Done {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let (samples, bytes) = match numbers[..] {
        [samples, bytes] => (samples, bytes),
        _ => (1_000_000, 64),
    };
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("data.msgpack");
    let payload: Vec<u8> = (0..bytes + samples).map(|i| ((i * 31) >> 3) as u8).collect();
    let mut writer = Writer::options().durable(false).create(&path)?;
    for i in 0..samples {
        let key = format!("n{:08}_{i}", i * 7919 % 1000);
        writer.write(&Sample { key: &key, label: i as u64, payload: &payload[i..i + bytes] })?;
    }
    writer.finish()?;
    println!(
        "{samples} samples with {bytes} bytes; million samples a second, with page faults / without"
    );

    let indices: Vec<usize> = (0..samples).map(|i| i.wrapping_mul(0x9E37_79B1) % samples).collect();
    report("limit: touch both ends of each part of a map", samples, || {
        let map = LocalStorage::mapped().open(&path)?;
        let size = map.len() as usize / samples;
        Ok(move || {
            let map = map.mapped().unwrap_or_default();
            let ends = |part: &[u8]| u64::from(part[0]) + u64::from(part[part.len() - 1]);
            black_box(map.chunks_exact(size).map(ends).sum::<u64>());
            Ok(())
        })
    })?;
    let open = || Ok::<_, Box<dyn std::error::Error>>(DatasetReader::open(&path)?);
    report("scan raw", samples, || {
        let reader = open()?;
        Ok(move || {
            let mut sum = 0;
            for raw in reader.iter_raw(..) {
                let raw = raw?;
                sum += u64::from(raw[0]) + u64::from(raw[raw.len() - 1]);
            }
            black_box(sum);
            Ok(())
        })
    })?;
    report("scan with a cursor", samples, || {
        let reader = open()?;
        Ok(move || {
            let mut sum = 0;
            for raw in reader.iter_raw(..) {
                sum += walk(&raw?)?;
            }
            black_box(sum);
            Ok(())
        })
    })?;
    report("scan into a struct", samples, || {
        let reader = open()?;
        Ok(move || {
            let mut sum = 0;
            for sample in reader.iter_as::<Sample<'_>>(..) {
                sum += sample?.label;
            }
            black_box(sum);
            Ok(())
        })
    })?;
    report("scan into dynamic values", samples, || {
        let reader = open()?;
        Ok(move || {
            for sample in reader.iter(..) {
                black_box(sample?);
            }
            Ok(())
        })
    })?;
    report("random by index, with a cursor", samples, || {
        let (reader, indices) = (open()?, &indices);
        Ok(move || {
            let mut sum = 0;
            for index in indices {
                sum += walk(&reader.get_raw(*index)?)?;
            }
            black_box(sum);
            Ok(())
        })
    })
}

fn walk(raw: &[u8]) -> Result<u64, kiste::Error> {
    let mut cursor = Cursor::new(raw);
    let mut sum = 0;
    for _ in 0..cursor.read_map_len()? {
        match cursor.read_str_bytes()? {
            b"label" => sum += cursor.read_u64()?,
            b"payload" => sum += u64::from(cursor.read_bin()?[0]),
            _ => cursor.skip()?,
        }
    }
    Ok(sum)
}

fn report<P: FnMut() -> Done>(
    name: &str,
    samples: usize,
    prepare: impl FnOnce() -> Result<P, Box<dyn std::error::Error>>,
) -> Done {
    let mut pass = prepare()?;
    let mut rate = || -> Result<f64, Box<dyn std::error::Error>> {
        let start = Instant::now();
        pass()?;
        Ok(samples as f64 / start.elapsed().as_secs_f64() / 1e6)
    };
    let (first, second) = (rate()?, rate()?);
    println!("  {name}: {first:.1} / {second:.1}");
    Ok(())
}
