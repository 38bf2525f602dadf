//! The table of the Bloscpack paper: how long do writing and reading an array take, and how large
//! is its file? Our side of `benches/paper.py`, which starts it and knows the others.
//!
//!     paper array IN.npy OUT.blp THREADS SETS RUNS CODEC LEVEL CHUNK CHECKSUM OFFSETS SYNC
//!     paper rest
//!
//! `array` prints one JSON object with bytes and milliseconds: the best of SETS means of RUNS runs
//! each, as in the paper. The array is in memory before, and a new one after. `rest` prints what
//! packing ten floats costs, and what a range of rows does.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use kiste::array::{ByteSize, PackOptions, PackedArray};
use kiste::format::bloscpack::Checksum;
use kiste::format::numpy::npy;
use kiste::value::NdArray;
use ndarray::{Array1, Array2};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["array", npy, out, threads, sets, runs, ref options @ ..] => {
            rayon::ThreadPoolBuilder::new().num_threads(threads.parse()?).build_global()?;
            let runs = Runs { sets: sets.parse()?, runs: runs.parse()? };
            array(Path::new(npy), Path::new(out), &runs, &pack_options(threads, options)?)
        }
        ["rest"] => rest(),
        _ => Err("see the first lines of benches/paper.rs".into()),
    }
}

fn pack_options(threads: &str, options: &[&str]) -> Result<PackOptions> {
    let [codec, level, chunk, checksum, offsets, sync] = *options else {
        return Err("expected codec, level, chunk size, checksum, offsets, sync".into());
    };
    let checksum = Checksum::from_name(checksum).ok_or("no such checksum")?;
    let mut options = PackOptions::default()
        .codec(codec.parse()?)
        .level(level.parse()?)
        .checksum(checksum)
        .offsets(offsets == "true")
        .durable(sync == "true")
        // If there are several threads, they belong to the pool, which is there already.
        .threads(usize::from(threads == "1"));
    if chunk != "auto" {
        options = options.chunk_size(chunk.parse::<ByteSize>()?.0);
    }
    Ok(options)
}

struct Runs {
    sets: u32,
    runs: u32,
}

impl Runs {
    /// Milliseconds of one run. Preparations are not counted.
    fn time<T>(
        &self,
        mut before: impl FnMut(),
        mut work: impl FnMut() -> kiste::Result<T>,
    ) -> Result<f64> {
        let mut best = f64::MAX;
        for _ in 0..self.sets {
            let mut sum = 0.0;
            for _ in 0..self.runs {
                before();
                let start = Instant::now();
                let done = black_box(work()?);
                sum += start.elapsed().as_secs_f64();
                drop(done);
            }
            best = best.min(sum / f64::from(self.runs));
        }
        Ok(1e3 * best)
    }
}

fn array(npy: &Path, out: &Path, runs: &Runs, options: &PackOptions) -> Result<()> {
    let file = fs::read(npy)?;
    let array = npy::decode(&file)?;
    let remove = || drop(fs::remove_file(out));
    let write = runs.time(remove, || options.write(out, &array))?;
    let read = runs.time(|| (), || PackedArray::open(out)?.read())?;
    if PackedArray::open(out)?.read()?.bytes() != array.bytes() {
        return Err("what was read is not what was written".into());
    }
    let bytes = out.metadata()?.len();
    println!("{{\"bytes\":{bytes},\"write\":{write},\"read\":{read}}}");
    Ok(())
}

/// A few floats in a sample, and rows of a large array.
fn rest() -> Result<()> {
    for len in [3, 10] {
        floats(len)?;
    }
    rows()
}

fn floats(len: usize) -> Result<()> {
    const CALLS: u32 = 20_000;
    let floats = Array1::from_shape_fn(len, |i| i as f64);
    let floats = NdArray::from_ndarray(&floats);
    let options = PackOptions::compact();
    let runs = Runs { sets: 5, runs: 1 };
    let mut packed = Vec::new();
    let pack = runs.time(
        || (),
        || {
            (0..CALLS).try_for_each(|_| {
                packed.clear();
                options.pack_into(black_box(&floats), &mut packed)
            })
        },
    )?;
    let mut out = vec![0; 8 * len];
    let read = runs.time(
        || (),
        || {
            (0..CALLS).try_for_each(|_| {
                PackedArray::from_bytes(black_box(&packed[..]))?.read_into(black_box(&mut out))
            })
        },
    )?;
    let micro = |ms: f64| 1e3 * ms / f64::from(CALLS);
    println!(
        "{len} floats: {} bytes, packed in {:.2} µs, read in {:.2} µs",
        packed.len(),
        micro(pack),
        micro(read)
    );
    Ok(())
}

/// A range of rows costs the blocks that it touches, regardless of the size of the array.
fn rows() -> Result<()> {
    for megabytes in [8, 80] {
        let rows = megabytes * 1_000_000 / 800;
        let array =
            Array2::from_shape_fn((rows, 100), |(i, j)| ((i * 100 + j) as f64 * 0.01).sin());
        let packed = PackOptions::default().pack(&NdArray::from_ndarray(&array))?;
        let packed = PackedArray::from_bytes(packed)?;
        let runs = Runs { sets: 5, runs: 20 };
        let middle = rows / 2;
        let ten = runs.time(|| (), || packed.rows(middle..middle + 10))?;
        let whole = Runs { sets: 3, runs: 1 }.time(|| (), || packed.read())?;
        println!("{megabytes} MB: 10 of {rows} rows in {:.0} µs, all in {whole:.1} ms", 1e3 * ten);
    }
    Ok(())
}
