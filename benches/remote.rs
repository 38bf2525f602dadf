//! How fast is a dataset behind a URL when each answer takes 30 ms to begin? Compared with the same dataset on a
//! local disk, and a client that fetches the bytes and does nothing else.
//!
//!     cargo bench --bench remote --features remote
//!
//! measures datasets of 400 MB, whose epochs take half a second: what is left of them is the start, before the
//! first answer, and the end, after the last. `epochs [MEGABYTES]` measures only those, of 1600 MB by default, and
//! `in-place [MEGABYTES]` only epochs of samples that lie in tar archives of 40 MB, of 400 MB by default.
//!
//! `serve DIR [MILLISECONDS]` only runs the server, a process of its own. To S3, folders are buckets. Below `/busy/`
//! every 20th answer is 503. `benches/everyone --latency` measures other libraries, against a server of its own.
//!
//! Times depend on what else the machine does; how full the connections are does less. So the server counts
//! how many requests it has at each moment, and for how long they were fewer than there are connections.
#![expect(clippy::print_stdout, reason = "the result goes to standard output")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kiste::convert::{Conversion, Format, InPlace, Silent};
use kiste::loader::Loader;
use kiste::sampler::{BlockShuffle, Sampler, Sequential};
use kiste::storage::{RemoteOptions, RemoteStorage, RemoteTraffic};
use kiste::{DatasetReader, Reader, Writer};

type Res<T> = Result<T, Box<dyn Error + Send + Sync>>;

const LATENCY: u64 = 30;
const CONNECTIONS: usize = 16;
const BATCH: u64 = 256;

fn main() -> Res<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let Some("serve") = args.first().map(String::as_str) {
        let dir = args.get(1).ok_or("expected: serve DIR [MILLISECONDS]")?;
        let latency = args.get(2).map_or(Ok(LATENCY), |text| text.parse())?;
        return serve(Path::new(dir), Duration::from_millis(latency));
    }
    let only = |what: &str| args.first().is_some_and(|arg| arg == what);
    let (only_epochs, only_in_place) = (only("epochs"), only("in-place"));
    let megabytes = match (only_epochs, args.get(1)) {
        (_, Some(text)) => text.parse()?,
        (true, None) => 1600,
        (false, _) => 400,
    };
    let dir = tempfile::tempdir()?;
    for (name, bytes) in [("10 kB", 10_000), ("110 kB", 110_000)] {
        let count = megabytes * 1_000_000 / bytes;
        let path = dir.path().join(format!("{bytes}.msgpack"));
        make(&path, bytes as usize, count)?;
        let server = Server::start(dir.path())?;
        println!("{count} samples of {name}, {LATENCY} ms, {CONNECTIONS} connections");
        let data = Data { server, path, count };
        if only_in_place {
            data.in_place(dir.path())?;
            fs::remove_file(data.path)?;
            continue;
        }
        if !only_epochs {
            data.look_up()?;
        }
        let at_once = data.epochs()?;
        if !only_epochs {
            data.trouble(at_once)?;
            data.cache(at_once)?;
            data.in_place(dir.path())?;
        }
        fs::remove_file(data.path)?;
    }
    Ok(())
}

/// The fastest of several.
struct Run {
    time: Duration,
    fetched: u64,
    /// What the server reports about it.
    pipe: String,
}

impl Default for Run {
    fn default() -> Run {
        Run { time: Duration::MAX, fetched: 0, pipe: String::new() }
    }
}

impl Run {
    fn measure(&mut self, server: &Server, run: impl FnOnce() -> Res<(Duration, u64)>) -> Res<()> {
        server.pipe()?;
        let (time, fetched) = run()?;
        let pipe = server.pipe()?;
        if time < self.time {
            *self = Run { time, fetched, pipe };
        }
        Ok(())
    }
}

/// A dataset, on a disk and behind a URL.
struct Data {
    server: Server,
    path: PathBuf,
    count: u64,
}

/// A dataset of samples that do not compress, with a `.lookup`.
fn make(path: &Path, bytes: usize, count: u64) -> Res<()> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut writer = Writer::options().durable(false).digests(false).lookup(true).create(path)?;
    let mut value = vec![0; bytes];
    for index in 0..count {
        for word in value.chunks_exact_mut(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(index | 1);
            word.copy_from_slice(&state.to_le_bytes());
        }
        let key = key(index);
        let fields = [("key", key.as_str().into()), ("image", kiste::Value::Binary(value.clone()))];
        let fields = fields.map(|(name, value)| (name.into(), value)).to_vec();
        let sample = kiste::format::msgpack::to_vec(&kiste::Value::Map(fields))?;
        writer.write_raw(&key, &sample)?;
    }
    writer.finish()?;
    Ok(())
}

fn key(index: u64) -> String {
    format!("sample-{index:08}")
}

impl Data {
    fn url(&self) -> Res<String> {
        let name = self.path.file_name().and_then(|name| name.to_str()).ok_or("no name")?;
        Ok(format!("{}/{name}", self.server.url))
    }

    fn look_up(&self) -> Res<()> {
        let (url, count) = (self.url()?, self.count);
        let first = median(5, || {
            let reader = open(RemoteOptions::default(), &url)?.0;
            reader.get_by_key(&key(count / 2))?.ok_or("no such key")?;
            Ok(())
        })?;
        println!("  open, first key     {:8.1} ms", first.as_secs_f64() * 1e3);

        let keys: Vec<String> = (0..1000).map(|i| key(i * 7_919 % count)).collect();
        let many = median(3, || {
            let reader = open(RemoteOptions::default(), &url)?.0;
            let found: Option<Vec<usize>> = reader.find_many(&keys)?.into_iter().collect();
            let found = found.ok_or("no such key")?;
            reader.prefetch(&found);
            found.iter().try_for_each(|&index| reader.get_raw(index).map(drop))?;
            Ok(())
        })?;
        println!("  1,000 random keys   {:8.1} ms", many.as_secs_f64() * 1e3);

        let many = median(3, || {
            let reader = open(RemoteOptions::default(), &url)?.0;
            let chosen: Vec<usize> = (0..1000).map(|i| (i * 7_919 % count) as usize).collect();
            reader.prefetch(&chosen);
            chosen.iter().try_for_each(|&index| reader.get_raw(index).map(drop))?;
            Ok(())
        })?;
        println!("  1,000 random samples{:8.1} ms", many.as_secs_f64() * 1e3);
        Ok(())
    }

    /// How long an epoch takes behind the URL.
    /// Also again, with what the reader knows and has allocated.
    fn epochs(&self) -> Res<Duration> {
        let local = DatasetReader::open(&self.path)?;
        let (disk, bytes) = best(3, |seed| epoch(&local, self.count, seed))?;
        show("epoch, local disk", disk, bytes, "");
        let url = self.url()?;
        self.epochs_of(&url, &[(url.clone(), local.data_len())], Some(disk), bytes)
    }

    /// The same samples in tar archives next to the dataset, read in place.
    fn in_place(&self, dir: &Path) -> Res<()> {
        let name = self.path.file_stem().and_then(|name| name.to_str()).ok_or("no name")?;
        let conversion = Conversion::new([&self.path], dir.join(format!("{name}.tar")));
        conversion.to(Format::Webdataset).shard_size(40_000_000).run(&mut Silent)?;
        let mut archives: Vec<PathBuf> =
            fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        archives.retain(|path| path.extension().is_some_and(|ending| ending == "tar"));
        archives.sort();
        let mut files = Vec::new();
        for path in &archives {
            let name = path.file_name().and_then(|name| name.to_str()).ok_or("no name")?;
            files.push((format!("{}/{name}", self.server.url), fs::metadata(path)?.len()));
        }
        let index = format!("{name}.inplace.json");
        let begin = Instant::now();
        let urls = files.iter().map(|(url, _)| url);
        InPlace::new(urls, dir.join(&index)).run(&mut Silent)?;
        let bytes = files.iter().map(|(_, len)| len).sum();
        show("indexing archives", begin.elapsed(), bytes, &format!("{} archives", files.len()));
        self.epochs_of(&format!("{}/{index}", self.server.url), &files, None, bytes)?;
        archives.iter().try_for_each(fs::remove_file)?;
        Ok(())
    }

    /// Epochs of a dataset next to a client that fetches its files.
    fn epochs_of(
        &self,
        url: &str,
        files: &[(String, u64)],
        disk: Option<Duration>,
        bytes: u64,
    ) -> Res<Duration> {
        let count = self.count;
        let mut raw = Run::default();
        // With a reader that was opened just now, and with one that has been used.
        let [mut first, mut next, mut in_order] = [(); 3].map(|()| Run::default());
        // In turn, as the machine is not always as fast.
        for seed in 0..3 {
            raw.measure(&self.server, || Ok((fetch_raw(files)?, bytes)))?;
            let (reader, storage) = open(RemoteOptions::default(), url)?;
            let mut before = storage.traffic();
            let shuffled = |seed| Some(BlockShuffle::new(count, 128, 16, seed));
            let runs = [
                (&mut first, shuffled(seed)),
                (&mut next, shuffled(seed + 3)),
                (&mut in_order, None),
            ];
            for (run, order) in runs {
                run.measure(&self.server, || {
                    let (time, _) = match order {
                        Some(order) => epoch_of(&reader, Arc::new(order?))?,
                        None => epoch_of(&reader, Arc::new(Sequential::new(count)))?,
                    };
                    let after = storage.traffic();
                    let fetched = after.bytes - before.bytes;
                    before = after;
                    Ok((time, fetched))
                })?;
            }
        }
        show("raw client", raw.time, bytes, &raw.pipe);
        for (name, run) in [
            ("epoch, URL, first", &first),
            ("epoch, URL, next", &next),
            ("in order, URL", &in_order),
        ] {
            let of = |time: Duration| time.as_secs_f64() / run.time.as_secs_f64();
            let (raw, more) = (of(raw.time), run.fetched as f64 / bytes as f64);
            let disk = disk.map_or(String::new(), |disk| format!(" {:.2} of local;", of(disk)));
            let Run { pipe, .. } = run;
            let note = format!("{raw:.2} of raw;{disk} {more:.3} of the bytes; {pipe}");
            show(name, run.time, bytes, &note);
        }
        Ok(first.time)
    }

    /// With some refusals.
    fn trouble(&self, at_once: Duration) -> Res<()> {
        let url = self.url()?;
        let busy = url.replacen(&self.server.url, &format!("{}/busy", self.server.url), 1);
        let run = |seed| epoch(&open(RemoteOptions::default(), &busy)?.0, self.count, seed);
        let (time, bytes) = best(3, run)?;
        let note = format!("{:+.0} %", (time.as_secs_f64() / at_once.as_secs_f64() - 1.0) * 100.0);
        show("epoch, 5 % of 503", time, bytes, &note);
        Ok(())
    }

    fn cache(&self, at_once: Duration) -> Res<()> {
        let (url, len) = (self.url()?, fs::metadata(&self.path)?.len());
        for share in [10, 100] {
            let cache = tempfile::tempdir()?;
            let limit = if share == 10 { len / 10 } else { len / 20 * 21 };
            let (mut times, mut bytes) = (Vec::new(), 0);
            let mut traffic = RemoteTraffic::default();
            for seed in 0..4 {
                let options = RemoteOptions::default().cache(cache.path(), limit);
                let (reader, storage) = open(options, &url)?;
                let (time, read) = epoch(&reader, self.count, seed)?;
                times.push(time);
                (bytes, traffic) = (read, storage.traffic());
            }
            show(&format!("cache of {share} %, first"), times[0], bytes, "");
            let next = times[1..].iter().min().copied().unwrap_or_default();
            let cached = traffic.cached as f64 / bytes as f64 * 100.0;
            let than = (next.as_secs_f64() / at_once.as_secs_f64() - 1.0) * 100.0;
            let note = format!("{cached:.0} % from the cache, {than:+.0} % of the time without");
            show("  next epochs", next, bytes, &note);
        }
        Ok(())
    }
}

fn open(options: RemoteOptions, url: &str) -> Res<(DatasetReader, RemoteStorage)> {
    let (storage, path) = RemoteStorage::open(url, options.connections(CONNECTIONS))?;
    let reader = DatasetReader::options().storage(Arc::new(storage.clone())).open(path)?;
    Ok((reader, storage))
}

fn show(what: &str, time: Duration, bytes: u64, note: &str) {
    let rate = bytes as f64 / time.as_secs_f64() / 1e6;
    println!("  {what:<22} {:8.1} ms {rate:8.0} MB/s  {note}", time.as_secs_f64() * 1e3);
}

fn median(runs: usize, mut work: impl FnMut() -> Res<()>) -> Res<Duration> {
    let mut times = Vec::new();
    for _ in 0..runs {
        let begin = Instant::now();
        work()?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    Ok(times[runs / 2])
}

fn best(runs: u64, mut work: impl FnMut(u64) -> Res<(Duration, u64)>) -> Res<(Duration, u64)> {
    let mut best = (Duration::MAX, 0);
    for seed in 0..runs {
        best = best.min(work(seed)?);
    }
    Ok(best)
}

/// A block-shuffled epoch that touches all bytes.
fn epoch(reader: &DatasetReader, count: u64, seed: u64) -> Res<(Duration, u64)> {
    epoch_of(reader, Arc::new(BlockShuffle::new(count, 128, 16, seed)?))
}

fn epoch_of(reader: &DatasetReader, sampler: Arc<dyn Sampler>) -> Res<(Duration, u64)> {
    let begin = Instant::now();
    let options = Loader::options(Arc::new(reader.clone()), sampler);
    let loader = options.batch_size(BATCH).epochs(1).threads(2).raw()?;
    let (mut bytes, mut sum) = (0, 0_u64);
    for batch in loader {
        for raw in batch?.data {
            bytes += raw.len() as u64;
            sum = sum.wrapping_add(raw.iter().step_by(64).map(|&byte| u64::from(byte)).sum());
        }
    }
    std::hint::black_box(sum);
    Ok((begin.elapsed(), bytes))
}

/// All bytes of some objects, 4 MiB at a time over as many connections, in order.
fn fetch_raw(files: &[(String, u64)]) -> Res<Duration> {
    const PART: u64 = 4 << 20;
    let of_file = |(url, len): &(String, u64)| {
        let (url, len) = (url.clone(), *len);
        let parts = (0..len).step_by(PART as usize);
        parts.map(move |start| (url.clone(), start, len.min(start + PART))).collect::<Vec<_>>()
    };
    let parts: Vec<(String, u64, u64)> = files.iter().flat_map(of_file).collect();
    let agent = ureq::Agent::config_builder().max_idle_connections_per_host(64).build().new_agent();
    let next = AtomicU64::new(0);
    let begin = Instant::now();
    let work = || -> Res<()> {
        loop {
            let part = parts.get(next.fetch_add(1, Relaxed) as usize);
            let Some((url, start, end)) = part else { return Ok(()) };
            let range = format!("bytes={start}-{}", end - 1);
            let answer = agent.get(url).header("Range", range).call()?;
            let mut bytes = Vec::with_capacity(PART as usize);
            answer.into_body().into_reader().read_to_end(&mut bytes)?;
            let sum: u64 = bytes.iter().step_by(64).map(|&byte| u64::from(byte)).sum();
            std::hint::black_box(sum);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok(begin.elapsed())
}

/// The server, in a process of its own.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(dir: &Path) -> Res<Server> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").arg(dir).arg(LATENCY.to_string());
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let mut url = String::new();
        BufReader::new(process.stdout.take().ok_or("no output")?).read_line(&mut url)?;
        Ok(Server { process, url: url.trim().to_owned() })
    }

    /// The server's report about the requests since the last report.
    fn pipe(&self) -> Res<String> {
        let mut answer = ureq::get(format!("{}{PIPE}", self.url)).call()?;
        Ok(answer.body_mut().read_to_string()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where the server says how many requests it had at a time.
const PIPE: &str = "/-/pipe";

/// Requests that are being answered, over time.
#[derive(Default)]
struct Pipe {
    now: usize,
    count: u64,
    since: Option<Instant>,
    /// For how long each number of them was being answered.
    times: Vec<Duration>,
    /// How much of that was before all connections were in use, and since they were last.
    before: Option<Duration>,
    after: Duration,
}

impl Pipe {
    fn change(&mut self, now: usize) {
        let at = Instant::now();
        if let Some(since) = self.since.filter(|_| self.count > 0) {
            self.times.resize(self.times.len().max(self.now + 1), Duration::ZERO);
            self.times[self.now] += at - since;
            match self.now < CONNECTIONS {
                true => self.after += at - since,
                false => {
                    self.before.get_or_insert(self.after);
                    self.after = Duration::ZERO;
                }
            }
        }
        self.count += u64::from(now > self.now);
        (self.now, self.since) = (now, Some(at));
    }

    /// Between the first request and the end of the last answer.
    fn report(&mut self) -> String {
        let Pipe { now, count, times, before, after, .. } = std::mem::take(self);
        self.now = now;
        let seconds = |time: &Duration| time.as_secs_f64();
        let all: f64 = times.iter().map(seconds).sum();
        let area: f64 = times.iter().enumerate().map(|(n, time)| n as f64 * seconds(time)).sum();
        let full: f64 = times.iter().skip(CONNECTIONS - 1).map(seconds).sum();
        let mean = area / all.max(f64::MIN_POSITIVE);
        let [start, end] = [before.unwrap_or_default(), after].map(|time| seconds(&time) * 1e3);
        let (rest, all) = ((all - full) * 1e3, all * 1e3);
        format!(
            "{mean:.1} of {count} requests at a time, {rest:.0} of {all:.0} ms not full, {start:.0} of \
             them at the start, {end:.0} at the end"
        )
    }
}

fn serve(dir: &Path, latency: Duration) -> Res<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("http://{}", listener.local_addr()?);
    let requests = Arc::new(AtomicU64::new(0));
    let pipe = Arc::new(Mutex::new(Pipe::default()));
    for stream in listener.incoming() {
        let (stream, dir, requests) = (stream?, dir.to_path_buf(), requests.clone());
        let pipe = pipe.clone();
        // An error means that the client went away.
        thread::spawn(move || drop(answer_all(stream, &dir, latency, &requests, &pipe)));
    }
    Ok(())
}

/// The files of a bucket, as S3 lists them.
fn list(bucket: &Path, query: &str) -> Res<String> {
    let argument = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name));
    let prefix = argument("prefix=").unwrap_or_default().replace("%2F", "/");
    let (mut text, mut dirs) = (String::new(), vec![bucket.to_path_buf()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir)? {
            let (path, metadata) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
            let key = path.strip_prefix(bucket)?.to_string_lossy().into_owned();
            match metadata.is_dir() {
                true => dirs.push(path),
                false if key.starts_with(&prefix) => {
                    let len = metadata.len();
                    text += &format!(
                        "<Contents><Key>{key}</Key><Size>{len}</Size><ETag>&quot;{len}&quot;</ETag>\
                         <LastModified>2026-11-23T00:00:00.000Z</LastModified></Contents>"
                    );
                }
                false => {}
            }
        }
    }
    Ok(format!("<ListBucketResult><IsTruncated>false</IsTruncated>{text}</ListBucketResult>"))
}

fn answer_all(
    mut stream: TcpStream,
    dir: &Path,
    latency: Duration,
    requests: &AtomicU64,
    pipe: &Mutex<Pipe>,
) -> Res<()> {
    let count = |change: isize| {
        let mut pipe = pipe.lock().map_err(|_| "a thread panicked")?;
        let now = pipe.now.saturating_add_signed(change);
        pipe.change(now);
        Ok::<_, &str>(())
    };
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut part = vec![0; 256 << 10];
    loop {
        let (mut line, mut range) = (String::new(), None);
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let is_head = line.starts_with("HEAD");
        let target = line.split(' ').nth(1).unwrap_or("/");
        let (target, query) = target.split_once('?').unwrap_or((target, ""));
        let (target, query) = (target.trim_start_matches('/').to_owned(), query.to_owned());
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("range") {
                range = Some(value.trim().trim_start_matches("bytes=").to_owned());
            }
        }
        if target == PIPE.trim_start_matches('/') {
            let text = pipe.lock().map_err(|_| "a thread panicked")?.report();
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())?;
            continue;
        }
        count(1)?;
        thread::sleep(latency);
        let busy = target.strip_prefix("busy/");
        if busy.is_some() && requests.fetch_add(1, Relaxed) % 20 == 19 {
            stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")?;
            count(-1)?;
            continue;
        }
        if query.contains("list-type=2") {
            let text = list(&dir.join(target.trim_end_matches('/')), &query)?;
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\r\n",
                text.len()
            );
            stream.write_all((head + &text).as_bytes())?;
            count(-1)?;
            continue;
        }
        let path: PathBuf = dir.join(busy.unwrap_or(&target));
        let Ok(mut file) = File::open(&path) else {
            stream.write_all(b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n")?;
            count(-1)?;
            continue;
        };
        let len = file.metadata()?.len();
        let (status, start, end) = match range.as_deref().and_then(|range| range.split_once('-')) {
            None => ("200 OK", 0, len),
            Some(("", last)) => ("206 Part", len.saturating_sub(last.parse()?), len),
            Some((first, "")) => ("206 Part", first.parse()?, len),
            Some((first, last)) => ("206 Part", first.parse()?, len.min(last.parse::<u64>()? + 1)),
        };
        let mut head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"{len}\"\r\nAccept-Ranges: bytes\r\n\
             Last-Modified: Mon, 23 Nov 2026 00:00:00 GMT\r\n",
            end - start
        );
        if status.starts_with("206") {
            head += &format!("Content-Range: bytes {start}-{}/{len}\r\n", end - 1);
        }
        stream.write_all((head + "\r\n").as_bytes())?;
        file.seek(SeekFrom::Start(start))?;
        let mut left = if is_head { 0 } else { end - start };
        while left > 0 {
            let take = left.min(part.len() as u64) as usize;
            file.read_exact(&mut part[..take])?;
            stream.write_all(&part[..take])?;
            left -= take as u64;
        }
        count(-1)?;
    }
}
