//! How fast are Blosc chunks written and read, compared with copying the same bytes?
//!
//! `cargo bench --features c-blosc --bench blosc [-- CODEC]`: chunks of 1 MiB of `f8` at level 5, on one thread; the
//! best of some rounds. `BLOSC_DATA` is `walk` (the default: sums of small steps), `ramp`, `zeros`,
//! `noise`, or the path of a file whose first mebibyte is taken.
//!
//! The C library is built for the oldest processor of the target. Python's packages choose AVX2 at
//! run time, which shows in the bit shuffle; `RUSTFLAGS="-C target-cpu=x86-64-v3"` makes up for it.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use kiste::format::__private::blosc as safe;
use kiste::format::blosc::{Codec, Params, Scratch, Shuffle};

const LEN: usize = 1 << 20;

type Done = Result<(), Box<dyn std::error::Error>>;

fn main() -> Done {
    let kind = std::env::var("BLOSC_DATA").unwrap_or_else(|_| "walk".into());
    let only: Option<Codec> = std::env::args().skip(1).find_map(|name| name.parse().ok());
    let bytes = data(&kind)?;
    let mut out = vec![0; LEN];
    let copy = rate(|| {
        black_box(&mut out).copy_from_slice(black_box(&bytes));
        Ok(())
    })?;
    println!("{kind}: GB/s; a copy: {copy:.1}");
    println!("codec    shuffle  ratio   write   read   safe Rust  half by range");
    for codec in Codec::ALL.into_iter().filter(|codec| only.is_none_or(|only| only == *codec)) {
        for shuffle in [Shuffle::None, Shuffle::Byte, Shuffle::Bit] {
            if codec.is_writable() {
                line(&Params { codec, shuffle, level: 5, typesize: 8, blocksize: None }, &bytes)?;
            }
        }
    }
    Ok(())
}

fn line(params: &Params, bytes: &[u8]) -> Done {
    let mut scratch = Scratch::default();
    let (mut chunk, mut out) = (Vec::new(), vec![0; LEN]);
    let write = rate(|| {
        chunk.clear();
        scratch.compress(params, black_box(bytes), &mut chunk)?;
        Ok(())
    })?;
    let read = rate(|| {
        scratch.decompress_into(black_box(&chunk), &mut out)?;
        Ok(())
    })?;
    let safe = rate(|| {
        safe::decompress_into(black_box(&chunk), &mut out, &mut scratch)?;
        Ok(())
    })?;
    // The middle half; in GB/s of what is asked for.
    let range = LEN / 4..LEN / 4 + LEN / 2;
    let part = rate(|| {
        let out = &mut out[..range.len()];
        scratch.decompress_range(black_box(&chunk), range.clone(), out)?;
        Ok(())
    })? / 2.0;
    let ratio = LEN as f64 / chunk.len() as f64;
    let (codec, shuffle) = (params.codec, format!("{:?}", params.shuffle));
    println!(
        "{:8} {shuffle:8} {ratio:5.1} {write:7.2} {read:7.2} {safe:7.2} {part:7.2}",
        codec.name()
    );
    Ok(())
}

/// Billions of the chunk's bytes a second, in the best of many rounds.
fn rate(mut round: impl FnMut() -> Done) -> Result<f64, Box<dyn std::error::Error>> {
    let mut best = Duration::MAX;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(400) {
        let round_start = Instant::now();
        round()?;
        best = best.min(round_start.elapsed());
    }
    Ok(LEN as f64 / best.as_secs_f64() / 1e9)
}

fn data(kind: &str) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut state = 1_u64;
    let mut random = move || {
        // SplitMix64: enough for noise.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    };
    let mut sum = 0.0;
    let count = LEN / 8;
    let numbers: Vec<f64> = match kind {
        "walk" => (0..count)
            .map(|_| {
                sum += (random() % 7) as f64 - 3.0;
                sum
            })
            .collect(),
        "ramp" => (0..count).map(|i| i as f64).collect(),
        "zeros" => vec![0.0; count],
        "noise" => (0..count).map(|_| f64::from_bits(random())).collect(),
        path => {
            let mut bytes = std::fs::read(path)?;
            bytes.resize(LEN, 0);
            return Ok(bytes);
        }
    };
    Ok(numbers.into_iter().flat_map(f64::to_le_bytes).collect())
}
