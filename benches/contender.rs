//! How fast is kiste compared with its peers? Our side of the harness's contract.
//!
//! One operation a process: `contender --op OP --src SRC --dir DIR [--count N] [--cap S]`; prints
//! one JSON object. SRC holds a generated workload (`meta.json`, `payload.bin`, `offsets.u64`,
//! `keys.txt`, `absent.txt`, `indices.u64`), DIR our dataset. Variants of the store, chosen with
//! `--store`: `plain` (default), `lookup` and `no-lookup` (with the accelerator, and without), `no-md5`. Workload D has arrays
//! of float32, which are packed as all peers pack them: LZ4, level 5, bytes shuffled.
#![expect(clippy::print_stdout, reason = "the result goes to standard output")]

use std::borrow::Cow;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use kiste::array::{PackOptions, PackedArray};
use kiste::format::blosc::{Codec, Shuffle as Filter};
use kiste::format::msgpack::Cursor;
use kiste::loader::{Columns, Loader};
use kiste::sampler::{Shuffle, State};
use kiste::value::NdArray;
use kiste::{DatasetReader, Writer};
use serde::Deserialize;

type Res<T> = Result<T, Box<dyn Error>>;

const OPS: &str = r#"["write","open_index","open_scan","open_key","scan_raw","scan_sum","scan","scan_serde","get_index","get_batch","get_key","absent","epoch","verify"]"#;

fn main() -> Res<()> {
    let args = Args::parse(std::env::args().skip(1))?;
    if args.op == "describe" {
        println!(r#"{{"workloads": "ABCD", "ops": {OPS}, "variants": []}}"#);
        return Ok(());
    }
    let workload = Workload::open(&args.src)?;
    match run(&args, &workload)? {
        Some(done) => println!(
            r#"{{"op": "{}", "seconds": {}, "cpu": {}, "items": {}, "bytes": {}, "ok": {}, "complete": true{}}}"#,
            args.op, done.seconds, done.cpu, done.items, done.bytes, done.ok, done.extra
        ),
        None => println!(r#"{{"op": "{}", "skip": "n/a"}}"#, args.op),
    }
    Ok(())
}

struct Args {
    op: String,
    src: PathBuf,
    dir: PathBuf,
    store: String,
    count: usize,
    batch: usize,
    workers: usize,
    seed: u64,
}

impl Args {
    fn parse(mut words: impl Iterator<Item = String>) -> Res<Args> {
        let mut args = Args {
            op: String::new(),
            src: PathBuf::new(),
            dir: PathBuf::new(),
            store: "plain".into(),
            count: 10_000,
            batch: 256,
            workers: 2,
            seed: 7,
        };
        while let Some(name) = words.next() {
            let value = words.next().ok_or("an option lacks its value")?;
            match name.as_str() {
                "--op" => args.op = value,
                "--src" => args.src = value.into(),
                "--dir" => args.dir = value.into(),
                "--store" => args.store = value,
                "--count" => args.count = value.parse()?,
                "--batch" => args.batch = value.parse()?,
                "--workers" => args.workers = value.parse()?,
                "--seed" => args.seed = value.parse()?,
                _ => {}
            }
        }
        Ok(args)
    }
}

/// A generated workload; the label of sample i is i.
struct Workload {
    dir: PathBuf,
    payload: kiste::storage::Source,
    offsets: Vec<u64>,
    /// Of a sample, where the samples are arrays.
    shape: Option<Vec<usize>>,
}

#[derive(Deserialize)]
struct Meta {
    shape: Option<Vec<usize>>,
}

impl Workload {
    fn open(dir: &Path) -> Res<Workload> {
        use kiste::storage::{LocalStorage, Storage};
        let payload = LocalStorage::mapped().open(&dir.join("payload.bin"))?;
        let meta: Meta = serde_json::from_slice(&fs::read(dir.join("meta.json"))?)?;
        let offsets = words(&dir.join("offsets.u64"))?;
        Ok(Workload { dir: dir.into(), payload, offsets, shape: meta.shape })
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn payload(&self, i: usize) -> &[u8] {
        let bytes = self.payload.mapped().unwrap_or_default();
        &bytes[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }

    fn lines(&self, file: &str) -> Res<Vec<String>> {
        let text = fs::read_to_string(self.dir.join(file))?;
        Ok(text.lines().map(str::to_string).collect())
    }

    fn indices(&self, count: usize) -> Res<Vec<usize>> {
        let all = words(&self.dir.join("indices.u64"))?;
        Ok(all.into_iter().take(count).map(|i| i as usize).collect())
    }

    /// The check sum that a pass over these samples must give.
    fn check(&self, indices: impl Iterator<Item = usize>) -> f64 {
        let of = |i| match self.shape {
            Some(_) => touch_floats(i as u64, self.payload(i)),
            None => touch(i as u64, self.payload(i)),
        };
        indices.map(of).sum()
    }
}

/// Two shuffled epochs; the second is timed.
fn epoch(args: &Args, workload: &Workload, reader: DatasetReader) -> Res<Option<Done>> {
    let reader = Arc::new(reader);
    let samples = workload.len() as u64;
    let (mut first, mut done) = (0.0, None);
    for epoch in 0..2 {
        let clock = Clock::start();
        let columns = Columns::new().scalar::<i64>("label");
        let columns = match &workload.shape {
            Some(shape) => columns.array::<f32>("payload", shape),
            None => columns.bytes("payload"),
        };
        let loader = Loader::options(reader.clone(), Shuffle::new(samples, args.seed))
            .batch_size(args.batch as u64)
            .threads(args.workers)
            .resume(State::new(epoch, 0))
            .epochs(1)
            .columns(columns)?;
        let (mut items, mut bytes, mut labels, mut distance) = (0, 0, 0i64, 0u64);
        for batch in loader {
            let batch = batch?;
            for label in batch.data.values::<i64>("label")? {
                distance += label.abs_diff(items as i64);
                labels += label;
                items += 1;
            }
            bytes += match workload.shape {
                Some(_) => size_of_val(batch.data.values::<f32>("payload")?),
                None => batch.data.bytes("payload")?.0.len(),
            };
        }
        let expected = (samples * (samples - 1) / 2) as i64;
        let ok = items == workload.len() && labels == expected;
        if epoch == 0 {
            first = clock.0.elapsed().as_secs_f64();
            continue;
        }
        let displacement = distance as f64 / samples as f64 / (samples as f64 / 3.0);
        done = clock.stop(items, bytes, || ok)?.map(|done| {
            let extra = format!(r#", "first_seconds": {first}, "displacement": {displacement}"#);
            Done { extra, ..done }
        });
    }
    Ok(done)
}

fn words(path: &Path) -> Res<Vec<u64>> {
    let bytes = fs::read(path)?;
    let word = |w: &[u8]| w.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
    Ok(bytes.chunks_exact(8).map(word).collect())
}

/// Labels are below 2^53.
#[inline]
fn touch(label: u64, payload: &[u8]) -> f64 {
    (label as i64 + i64::from(payload[0]) + i64::from(payload[payload.len() - 1])) as f64
}

fn touch_floats(label: u64, payload: &[u8]) -> f64 {
    let float = |bytes: &[u8]| bytes.try_into().map(f32::from_le_bytes).unwrap_or_default();
    let (first, last) = (float(&payload[..4]), float(&payload[payload.len() - 4..]));
    label as f64 + f64::from(first) + f64::from(last)
}

/// Label and payload of a packed `{"key": …, "label": …, "payload": …}`.
#[inline(always)]
fn decode(raw: &[u8]) -> Res<(u64, &[u8])> {
    let mut cursor = Cursor::new(raw);
    if cursor.skip_prefix(b"\x83\xa3key") {
        cursor.skip()?;
        if cursor.skip_prefix(b"\xa5label") {
            let label = cursor.read_u64()?;
            if cursor.skip_prefix(b"\xa7payload") {
                return Ok((label, cursor.read_bin()?));
            }
        }
    }
    decode_any(raw)
}

/// The same in any order, and with other fields.
#[cold]
#[inline(never)]
fn decode_any(raw: &[u8]) -> Res<(u64, &[u8])> {
    let mut cursor = Cursor::new(raw);
    let (mut label, mut payload) = (None, None);
    for _ in 0..cursor.read_map_len()? {
        match cursor.read_str_bytes()? {
            b"label" => label = Some(cursor.read_u64()?),
            b"payload" => payload = Some(cursor.read_bin()?),
            _ => cursor.skip()?,
        }
    }
    Ok((label.ok_or("no label")?, payload.ok_or("no payload")?))
}

#[derive(Deserialize)]
struct Typed<'a> {
    label: u64,
    #[serde(borrow, with = "serde_bytes")]
    payload: &'a [u8],
}

#[derive(serde::Serialize)]
struct Sample<'a> {
    key: &'a str,
    label: u64,
    #[serde(with = "serde_bytes")]
    payload: &'a [u8],
}

/// The results of one pass over samples.
#[derive(Default)]
struct Pass {
    arrays: bool,
    /// An array, decompressed: used again for the next.
    array: Vec<f32>,
    sum: f64,
    items: usize,
    bytes: usize,
}

impl Pass {
    fn of(workload: &Workload) -> Pass {
        let array = vec![0.0; workload.shape.iter().flatten().product()];
        Pass { arrays: workload.shape.is_some(), array, ..Pass::default() }
    }

    /// Decodes a sample and touches its payload.
    #[inline(always)]
    fn take(&mut self, raw: &[u8]) -> Res<()> {
        let (label, payload) = decode(raw)?;
        if self.arrays {
            return self.take_array(label, payload);
        }
        self.items += 1;
        self.sum += touch(label, payload);
        self.bytes += payload.len();
        Ok(())
    }

    #[inline(never)]
    fn take_array(&mut self, label: u64, payload: &[u8]) -> Res<()> {
        PackedArray::from_bytes(Cow::Borrowed(payload))?.read_elements(&mut self.array)?;
        let (first, last) = (self.array[0], self.array[self.array.len() - 1]);
        self.items += 1;
        self.sum += label as f64 + f64::from(first) + f64::from(last);
        self.bytes += size_of_val(&self.array[..]);
        Ok(())
    }
}

/// All samples to a dataset, each written as it comes.
fn write(args: &Args, workload: &Workload, keys: &[String], path: &Path) -> Res<usize> {
    fs::create_dir_all(&args.dir)?;
    let mut writer = Writer::options()
        .durable(false)
        .digests(args.store != "no-md5")
        .lookup(match &*args.store {
            "lookup" => Some(true),
            "no-lookup" => Some(false),
            _ => None,
        })
        .create(path)?;
    let pack = PackOptions::compact().codec(Codec::Lz4).level(5).shuffle(Filter::Byte);
    let mut packed = Vec::new();
    for (i, key) in keys.iter().enumerate() {
        let mut payload = workload.payload(i);
        if let Some(shape) = &workload.shape {
            packed.clear();
            let array = NdArray::new("<f4".parse()?, shape.clone(), payload)?;
            pack.pack_into(&array, &mut packed)?;
            payload = &packed;
        }
        writer.write(&Sample { key, label: i as u64, payload })?;
    }
    Ok(writer.finish()?.samples as usize)
}

struct Done {
    seconds: f64,
    cpu: f64,
    items: usize,
    bytes: usize,
    ok: bool,
    extra: String,
}

struct Clock(Instant, f64);

impl Clock {
    fn start() -> Clock {
        // The time last: asking for the other takes some itself.
        let cpu = cpu_seconds();
        Clock(Instant::now(), cpu)
    }

    /// Stops, and only then asks whether the result is right.
    fn stop(&self, items: usize, bytes: usize, ok: impl FnOnce() -> bool) -> Res<Option<Done>> {
        let (seconds, cpu) = (self.0.elapsed().as_secs_f64(), cpu_seconds() - self.1);
        Ok(Some(Done { seconds, cpu, items, bytes, ok: ok(), extra: String::new() }))
    }
}

/// User and system time of all threads, from the kernel's accounting in nanoseconds where it has
/// it (threads that have ended are in the process's ticks only).
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn run(args: &Args, workload: &Workload) -> Res<Option<Done>> {
    let path = args.dir.join("data.msgpack");
    let open = || DatasetReader::open(&path);
    let mut pass = Pass::of(workload);
    match args.op.as_str() {
        "write" => {
            let keys = workload.lines("keys.txt")?;
            let clock = Clock::start();
            let samples = write(args, workload, &keys, &path)?;
            let bytes = workload.offsets[workload.len()] as usize;
            clock.stop(samples, bytes, || samples == workload.len())
        }
        "open_index" => {
            let clock = Clock::start();
            let reader = open()?;
            pass.take(&reader.get_raw(0)?)?;
            clock.stop(1, 0, || pass.sum == workload.check(0..1))
        }
        "open_scan" => {
            let clock = Clock::start();
            let reader = open()?;
            pass.take(&reader.iter_raw(..).next().ok_or("empty")??)?;
            clock.stop(1, 0, || pass.sum == workload.check(0..1))
        }
        "open_key" => {
            let index = workload.indices(1)?[0];
            let keys = workload.lines("keys.txt")?;
            let clock = Clock::start();
            let reader = open()?;
            pass.take(&reader.get_raw_by_key(&keys[index])?.ok_or("absent")?)?;
            clock.stop(1, 0, || pass.sum == workload.check(index..index + 1))
        }
        "scan_raw" => {
            let reader = open()?;
            let clock = Clock::start();
            let mut ends = 0;
            for raw in reader.iter_raw(..) {
                let raw = raw?;
                ends += u64::from(raw[0]) + u64::from(raw[raw.len() - 1]);
                pass.bytes += raw.len();
                pass.items += 1;
            }
            std::hint::black_box(ends);
            clock.stop(pass.items, pass.bytes, || pass.items == workload.len())
        }
        "scan_sum" => {
            let reader = open()?;
            let clock = Clock::start();
            let mut sum = 0u64;
            for raw in reader.iter_raw(..) {
                let raw = raw?;
                let words = raw.chunks_exact(8);
                sum += words.remainder().iter().map(|b| u64::from(*b)).sum::<u64>();
                for word in words {
                    let word = word.try_into().map(u64::from_le_bytes)?;
                    sum = sum.wrapping_add(word);
                }
                pass.bytes += raw.len();
                pass.items += 1;
            }
            std::hint::black_box(sum);
            clock.stop(pass.items, pass.bytes, || pass.items == workload.len())
        }
        "scan" => {
            let reader = open()?;
            let clock = Clock::start();
            for raw in reader.iter_raw(..) {
                pass.take(&raw?)?;
            }
            clock.stop(pass.items, pass.bytes, || pass.sum == workload.check(0..workload.len()))
        }
        "scan_serde" if workload.shape.is_none() => {
            let reader = open()?;
            let clock = Clock::start();
            for sample in reader.iter_as::<Typed<'_>>(..) {
                let Typed { label, payload } = sample?;
                pass.sum += touch(label, payload);
                pass.bytes += payload.len();
                pass.items += 1;
            }
            clock.stop(pass.items, pass.bytes, || pass.sum == workload.check(0..workload.len()))
        }
        "get_index" | "get_batch" => {
            let indices = workload.indices(args.count)?;
            let reader = open()?;
            std::hint::black_box(reader.get_raw(0)?[0]);
            let clock = Clock::start();
            for batch in indices.chunks(args.batch) {
                if args.op == "get_batch" {
                    for raw in reader.get_raw_many(batch)? {
                        pass.take(&raw)?;
                    }
                    continue;
                }
                for index in batch {
                    pass.take(&reader.get_raw(*index)?)?;
                }
            }
            clock.stop(pass.items, pass.bytes, || {
                pass.sum == workload.check(indices.iter().copied())
            })
        }
        // Not an operation of the harness: next to its "get_key".
        "get_key_batch" => {
            let indices = workload.indices(args.count)?;
            let keys = workload.lines("keys.txt")?;
            let reader = open()?;
            reader.prepare_keys()?;
            reader.find(&keys[0])?;
            let clock = Clock::start();
            for batch in indices.chunks(args.batch) {
                let batch: Vec<&String> = batch.iter().map(|index| &keys[*index]).collect();
                let found = reader.find_many(&batch)?;
                let found = found.into_iter().collect::<Option<Vec<usize>>>().ok_or("absent")?;
                for raw in reader.get_raw_many(&found)? {
                    pass.take(&raw)?;
                }
            }
            clock.stop(pass.items, pass.bytes, || {
                pass.sum == workload.check(indices.iter().copied())
            })
        }
        "get_key" => {
            let indices = workload.indices(args.count)?;
            let keys = workload.lines("keys.txt")?;
            let reader = open()?;
            // The contract opens the reader and makes one look-up before the clock starts.
            reader.prepare_keys()?;
            reader.find(&keys[0])?;
            let clock = Clock::start();
            for index in &indices {
                pass.take(&reader.get_raw_by_key(&keys[*index])?.ok_or("absent")?)?;
            }
            clock.stop(pass.items, pass.bytes, || {
                pass.sum == workload.check(indices.iter().copied())
            })
        }
        "absent" => {
            let absent = workload.lines("absent.txt")?;
            let reader = open()?;
            reader.prepare_keys()?;
            reader.contains_key("absent")?;
            let clock = Clock::start();
            let mut found = 0;
            for key in absent.iter().take(args.count) {
                found += usize::from(reader.contains_key(key)?);
            }
            clock.stop(absent.len().min(args.count), 0, || found == 0)
        }
        "epoch" => epoch(args, workload, open()?),
        "verify" => {
            let clock = Clock::start();
            let report = kiste::verify::verify(&path)?;
            let bytes = report.bytes as usize;
            clock.stop(report.samples as usize, bytes, || report.problems.is_empty())
        }
        _ => Ok(None),
    }
}
