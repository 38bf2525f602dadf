//! Samples in place next to converted ones: indexing, keys, shuffled epochs; and opening an index of very many samples.
//!
//! `cargo bench --bench in_place [-- MEGABYTES]`: the size of each of ten tar archives, by default 20. Bytes of samples of
//! 10 kB and 110 kB, with a label.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiste::convert::{Conversion, Format, InPlace, Silent};
use kiste::loader::{Columns, Loader};
use kiste::sampler::{Sampler, Shuffle};
use kiste::{DatasetReader, Writer};
use serde::Serialize;

type Res<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Serialize)]
struct Sample<'a> {
    key: &'a str,
    cls: u64,
    #[serde(with = "serde_bytes")]
    bin: &'a [u8],
}

/// Pairs of epochs; the median of their ratios counts.
const ROUNDS: u64 = 11;

fn main() -> Res<()> {
    let megabytes = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let dir = tempfile::tempdir()?;
    for bytes in [10_000, 110_000] {
        archives(dir.path(), bytes, megabytes.unwrap_or(20) * 1_000_000)?;
    }
    many(dir.path())
}

fn archives(dir: &Path, bytes: usize, shard: usize) -> Res<()> {
    let source = dir.join(format!("s{bytes}.msgpack"));
    let noise: Vec<u8> = (0..bytes * 2).map(|i| (i.wrapping_mul(31) >> 3) as u8).collect();
    let samples = 10 * shard / bytes;
    let mut writer = Writer::options().durable(false).digests(false).create(&source)?;
    for i in 0..samples {
        let at = i * 7 % bytes;
        let key = format!("{i:08}");
        writer.write(&Sample { key: &key, cls: i as u64 % 1000, bin: &noise[at..at + bytes] })?;
    }
    writer.finish()?;
    let tar = dir.join(format!("t{bytes}.tar"));
    let conversion =
        Conversion::new([&source], &tar).to(Format::Webdataset).shard_size(shard as u64);
    conversion.run(&mut Silent)?;
    let mut shards: Vec<PathBuf> =
        fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    shards.retain(|path| path.to_string_lossy().contains(&format!("t{bytes}-")));
    shards.sort();
    let start = Instant::now();
    let mut all = 0;
    for path in &shards {
        all += fs::read(path)?.len();
    }
    let read = start.elapsed();
    let index = dir.join(format!("t{bytes}.inplace.json"));
    let start = Instant::now();
    InPlace::new(&shards, &index).overwrite(true).run(&mut Silent)?;
    let indexed = start.elapsed();
    println!(
        "{samples} samples of {bytes} bytes in {} archives of {} MB",
        shards.len(),
        all / 1_000_000
    );
    println!("  indexing: {:.1} ms, reading the bytes: {:.1} ms", ms(indexed), ms(read));
    let (place, converted) = (DatasetReader::open(&index)?, DatasetReader::open(&source)?);
    let order = Shuffle::new(samples as u64, 1).order(0)?;
    let some: Vec<String> = order
        .iter()
        .take(5_000)
        .map(|i| Ok(converted.key(i as usize)?.into_owned()))
        .collect::<kiste::Result<_>>()?;
    for (name, reader) in [("in place", &place), ("converted", &converted)] {
        let start = Instant::now();
        for key in &some {
            reader.get_raw_by_key(key)?.ok_or("a key is missing")?;
        }
        let each = start.elapsed().as_secs_f64() / some.len() as f64;
        println!("  by key, {name}: {:.2} µs", each * 1e6);
    }
    let epoch = |reader: &DatasetReader, round: u64| -> Res<Duration> {
        let columns = Columns::new().bytes("bin").scalar::<i64>("cls");
        let sampler: Arc<dyn Sampler> = Arc::new(Shuffle::new(samples as u64, round));
        let start = Instant::now();
        let options =
            Loader::options(Arc::new(reader.clone()), sampler).batch_size(128).threads(2).epochs(1);
        let mut seen = 0;
        for batch in options.columns(columns)? {
            seen += batch?.indices.len();
        }
        assert_eq!(seen, samples);
        Ok(start.elapsed())
    };
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (one, other) = (epoch(&converted, round)?, epoch(&place, round)?);
        ratios.push(one.as_secs_f64() / other.as_secs_f64());
        rates.push(samples as f64 / other.as_secs_f64());
    }
    println!(
        "  shuffled epochs, in place to converted: {:.2}, {:.0} samples/s",
        median(ratios),
        median(rates)
    );
    Ok(())
}

/// An index of 41,456 shards and 100 million samples, whose side files are sparse.
fn many(dir: &Path) -> Res<()> {
    const SHARDS: u64 = 41_456;
    const EACH: u64 = 2_413;
    let name = dir.join("many.inplace.json");
    let mut text = format!(
        "{{\"format\":\"kiste in place\",\"version\":1,\"kind\":\"webdataset\",\"samples\":{},\n\"options\":{{}},\n\"frames\":[],\n\"shards\":[",
        SHARDS * EACH
    );
    for shard in 0..SHARDS {
        let comma = if shard == 0 { "" } else { "," };
        text += &format!(
            "{comma}\n{{\"name\":\"laion-{shard:05}.tar\",\"bytes\":104857600,\"samples\":{EACH},\"id\":\"xxh3:{shard:016x}\"}}"
        );
    }
    text += "\n]}\n";
    fs::write(&name, &text)?;
    let offsets = fs::File::create(dir.join("many.inplace.json.offsets"))?;
    offsets.set_len(SHARDS * EACH * 8)?;
    fs::OpenOptions::new()
        .append(true)
        .open(dir.join("many.inplace.json.offsets"))?
        .write_all(&(SHARDS * 104_857_600).to_be_bytes())?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let reader = DatasetReader::open(&name)?;
        times.push(ms(start.elapsed()));
        assert_eq!(reader.len() as u64, SHARDS * EACH);
    }
    println!(
        "opening {} samples in {SHARDS} shards, an index of {} kB: {:.2} ms",
        SHARDS * EACH,
        text.len() / 1000,
        median(times)
    );
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
