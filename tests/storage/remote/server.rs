//! An HTTP server of our own, which speaks enough of S3 and Google Cloud Storage as well: it counts, and
//! fails on demand.
//!
//! A thread for each connection, from the standard library alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What to do instead of answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// This status, and how many seconds to wait.
    Status(u16, Option<u64>),
    /// The right answer, but only these many bytes of it, and then the connection ends.
    Cut(usize),
    /// The right headers, and then nothing for a long time.
    Stall,
    /// Nothing: the connection ends.
    Hang,
    /// The whole object, whatever range was asked for.
    Whole,
    /// The right bytes of the object, whatever version was asked for.
    AnyVersion,
    /// Twice as many bytes as the headers announce.
    More,
    /// What was asked for is done, and then the connection ends without an answer.
    Lost,
    /// What was asked for is done after this many milliseconds.
    Late(u64),
    /// A `Content-Length` that is made up.
    Length(u64),
    /// A `Content-Range` of the right first byte, and a last byte and a size of the object that are made up.
    Range(u64, u64),
    /// The right bytes under another tag for each answer.
    Retagged,
    /// A body that has no end: the right headers without a length.
    Endless,
    /// A byte, and then one more each time that this many milliseconds have passed.
    Slow(u64),
    /// To another address, with this status.
    Redirect(u16, &'static str),
    /// These bytes in place of an answer.
    Raw(&'static [u8]),
    /// A refusal that repeats what was asked for: path, query and headers.
    Echo(u16),
}

/// A request, and what was sent for it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) status: u16,
    /// Bytes of the body of the answer.
    pub(crate) sent: u64,
    /// The body of the request.
    pub(crate) body: Arc<Vec<u8>>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// An object, and what belongs with it.
#[derive(Clone)]
pub(crate) struct Object {
    bytes: Arc<Vec<u8>>,
    tag: Option<String>,
    modified: &'static str,
    /// Headers that were given with it and are sent with it.
    metadata: Vec<String>,
}

/// An upload in parts that is not complete.
struct Upload {
    path: String,
    parts: BTreeMap<u64, Arc<Vec<u8>>>,
    metadata: Vec<String>,
}

type Faults = Box<dyn Fn(u64, &Request) -> Option<Fault> + Send + Sync>;

#[derive(Default)]
struct State {
    objects: Mutex<BTreeMap<String, Object>>,
    uploads: Mutex<BTreeMap<String, Upload>>,
    /// Bodies that are being read or answered, in bytes: how many, and the most at once.
    in_flight: Mutex<(usize, usize)>,
    /// Requests that are being answered: how many, and the most at once.
    answering: Mutex<(usize, usize)>,
    log: Mutex<Vec<Request>>,
    faults: Mutex<Option<Arc<Faults>>>,
    count: AtomicU64,
    versions: AtomicU64,
    gate: Mutex<Gate>,
    opened: Condvar,
    /// Milliseconds for each 64 KiB of a body.
    pause: AtomicU64,
    stop: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

/// Holds requests back until no more come: those that are answered together are a round.
#[derive(Default)]
struct Gate {
    is_used: bool,
    last: Option<Instant>,
    waiting: u64,
    rounds: u64,
}

/// For how long no other request comes before those that wait are answered.
const QUIET: Duration = Duration::from_millis(200);

pub(crate) struct Server {
    state: Arc<State>,
    address: String,
    listener: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(State::default());
        let shared = state.clone();
        let accept = move || {
            for stream in listener.incoming() {
                if shared.stop.load(SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                // Head and body are two writes: without this the second waits for an acknowledgement.
                let _ = stream.set_nodelay(true);
                let shared = shared.clone();
                shared.open.lock().unwrap().push(stream.try_clone().unwrap());
                thread::spawn(move || shared.serve(stream));
            }
        };
        Server { state, address, listener: Some(thread::spawn(accept)) }
    }

    /// `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Puts an object there, in place of another one.
    pub(crate) fn put(&self, path: &str, bytes: Vec<u8>) {
        let version = self.state.versions.fetch_add(1, SeqCst);
        let tag = Some(format!("\"v{version}\""));
        let modified = "Mon, 23 Nov 2026 00:00:00 GMT";
        let object = Object { bytes: Arc::new(bytes), tag, modified, metadata: Vec::new() };
        self.state.objects.lock().unwrap().insert(path.to_owned(), object);
    }

    /// The bytes of an object.
    pub(crate) fn get(&self, path: &str) -> Arc<Vec<u8>> {
        self.state.objects.lock().unwrap()[path].bytes.clone()
    }

    /// Changes the tags of all objects, and when they were changed.
    pub(crate) fn retag(&self, tag: Option<&str>, modified: &'static str) {
        for object in self.state.objects.lock().unwrap().values_mut() {
            object.tag = tag.map(str::to_owned);
            object.modified = modified;
        }
    }

    /// How many connections were opened.
    pub(crate) fn connections(&self) -> usize {
        self.state.open.lock().unwrap().len()
    }

    /// Takes this long to receive each 64 KiB of the bodies of requests.
    pub(crate) fn receive_slowly(&self, pause: Duration) {
        self.state.pause.store(pause.as_millis() as u64, SeqCst);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.state.objects.lock().unwrap().remove(path);
    }

    /// Puts a file and all files next to it whose names begin with its name into a folder.
    pub(crate) fn upload(&self, file: &Path, folder: &str) {
        let name = file.file_name().unwrap().to_str().unwrap();
        for entry in fs::read_dir(file.parent().unwrap()).unwrap() {
            let path = entry.unwrap().path();
            let found = path.file_name().unwrap().to_str().unwrap().to_owned();
            if found.starts_with(name) && path.is_file() {
                self.put(&format!("{folder}/{found}"), fs::read(&path).unwrap());
            }
        }
    }

    /// An object that is there.
    pub(crate) fn object(&self, path: &str) -> Option<Arc<Vec<u8>>> {
        self.state.objects.lock().unwrap().get(path).map(|object| object.bytes.clone())
    }

    /// An object with all that belongs with it, but its version.
    pub(crate) fn stored(&self, path: &str) -> Object {
        self.state.objects.lock().unwrap()[path].clone()
    }

    /// Puts that there, as a new version.
    pub(crate) fn store(&self, path: &str, object: Object) {
        self.state.insert(path, object.bytes.to_vec(), object.metadata);
    }

    /// The names of all objects.
    pub(crate) fn names(&self) -> Vec<String> {
        self.state.objects.lock().unwrap().keys().cloned().collect()
    }

    /// Uploads that were begun, and neither completed nor aborted.
    pub(crate) fn unfinished_uploads(&self) -> usize {
        self.state.uploads.lock().unwrap().len()
    }

    /// The most bytes of bodies of requests that were on their way together.
    pub(crate) fn most_in_flight(&self) -> usize {
        self.state.in_flight.lock().unwrap().1
    }

    /// The most requests that were being answered together, and forgets it.
    pub(crate) fn most_at_once(&self) -> usize {
        let mut answering = self.state.answering.lock().unwrap();
        let now = answering.0;
        std::mem::replace(&mut answering.1, now)
    }

    /// Forgets what belongs with objects, as some stores do.
    pub(crate) fn strip_metadata(&self) {
        self.state.objects.lock().unwrap().values_mut().for_each(|object| object.metadata.clear());
    }

    /// Decides by the number of a request, from 0 on, and by what it asks for.
    pub(crate) fn fail(
        &self,
        faults: impl Fn(u64, &Request) -> Option<Fault> + Send + Sync + 'static,
    ) {
        self.state.count.store(0, SeqCst);
        *self.state.faults.lock().unwrap() = Some(Arc::new(Box::new(faults)));
    }

    /// The requests since this was called last.
    pub(crate) fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut *self.state.log.lock().unwrap())
    }

    /// Bytes of bodies since requests were asked for last.
    pub(crate) fn sent(&self) -> u64 {
        self.requests().iter().map(|request| request.sent).sum()
    }

    /// How many requests `work` makes one after the other, where those that wait for the same answers
    /// count as one.
    pub(crate) fn rounds<T>(&self, work: impl FnOnce() -> T) -> (u64, T) {
        *self.state.gate() = Gate { is_used: true, ..Gate::default() };
        let result = work();
        let rounds = std::mem::take(&mut *self.state.gate()).rounds;
        (rounds, result)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.stop.store(true, SeqCst);
        let _ = TcpStream::connect(&self.address);
        for stream in self.state.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.listener.take().map(JoinHandle::join);
    }
}

impl State {
    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap()
    }

    fn pass_gate(&self) {
        let mut gate = self.gate();
        if !gate.is_used {
            return;
        }
        gate.last = Some(Instant::now());
        gate.waiting += 1;
        let round = gate.rounds;
        while gate.is_used && gate.rounds == round {
            gate = self.opened.wait_timeout(gate, QUIET / 4).unwrap().0;
            if gate.rounds == round && gate.last.is_some_and(|last| last.elapsed() >= QUIET) {
                gate.rounds += 1;
                gate.waiting = 0;
                self.opened.notify_all();
            }
        }
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while !self.stop.load(SeqCst) {
            let pause = Duration::from_millis(self.pause.load(SeqCst));
            let Some(mut request) = read_request(&mut reader, pause) else { return };
            let number = self.count.fetch_add(1, SeqCst);
            let faults = self.faults.lock().unwrap().clone();
            let fault = faults.and_then(|faults| faults(number, &request));
            self.pass_gate();
            let body = request.body.len();
            {
                let mut in_flight = self.in_flight.lock().unwrap();
                in_flight.0 += body;
                in_flight.1 = in_flight.1.max(in_flight.0);
            }
            {
                let mut answering = self.answering.lock().unwrap();
                answering.0 += 1;
                answering.1 = answering.1.max(answering.0);
            }
            if let Some(Fault::Late(millis)) = fault {
                thread::sleep(Duration::from_millis(millis));
            }
            let goes_on = match (request.method.as_str(), fault) {
                (_, Some(Fault::Raw(bytes))) => {
                    self.log.lock().unwrap().push(request.clone());
                    let _ = stream.write_all(bytes);
                    false
                }
                ("GET", _)
                | (_, Some(Fault::Status(..) | Fault::Hang | Fault::Stall | Fault::Echo(_))) => {
                    self.answer(&mut stream, &mut request, fault)
                }
                _ => self.change(&mut stream, &mut request, fault),
            };
            self.in_flight.lock().unwrap().0 -= body;
            self.answering.lock().unwrap().0 -= 1;
            if !goes_on {
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
        }
    }

    /// Does what changes objects, as S3 does it. Whether the connection goes on.
    fn change(&self, stream: &mut TcpStream, request: &mut Request, fault: Option<Fault>) -> bool {
        let (status, tag, body) = self.changed(request);
        request.status = status;
        let mut logged = request.clone();
        if fault == Some(Fault::Lost) {
            logged.status = 0;
        }
        self.log.lock().unwrap().push(logged);
        if fault == Some(Fault::Lost) {
            return false;
        }
        let generation = tag.as_deref().and_then(generation);
        let mut tag = tag.map_or(String::new(), |tag| format!("ETag: {tag}\r\n"));
        tag.extend(generation.map(|number| format!("x-goog-generation: {number}\r\n")));
        let length = body.len();
        let head = format!("HTTP/1.1 {status} Status\r\nContent-Length: {length}\r\n{tag}\r\n");
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).is_ok()
    }

    fn changed(&self, request: &Request) -> (u16, Option<String>, String) {
        let value = |name: &str| {
            let mut pairs =
                request.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
        };
        let code = |code: &str| format!("<Error><Code>{code}</Code></Error>");
        let path = &request.path;
        let metadata = request.headers.iter().filter(|(name, _)| {
            name.starts_with("x-amz-meta-") || name.starts_with("x-goog-meta-")
        });
        let metadata: Vec<String> =
            metadata.map(|(name, value)| format!("{name}: {value}")).collect();
        let mut uploads = self.uploads.lock().unwrap();
        match (request.method.as_str(), value("uploadId"), value("partNumber")) {
            ("POST", None, _) if value("uploads").is_some() => {
                let id = format!("upload-{}", self.versions.fetch_add(1, SeqCst));
                let upload = Upload { path: path.clone(), parts: BTreeMap::new(), metadata };
                uploads.insert(id.clone(), upload);
                let (bucket, key) = path[1..].split_once('/').unwrap();
                let body = format!(
                    "<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{key}</Key>\
                     <UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                );
                (200, None, body)
            }
            ("PUT", Some(id), Some(number)) => match uploads.get_mut(&id) {
                Some(upload) if upload.path == *path => {
                    upload.parts.insert(number.parse().unwrap(), request.body.clone());
                    (200, Some(format!("\"part-{number}\"")), String::new())
                }
                _ => (404, None, code("NoSuchUpload")),
            },
            ("POST", Some(id), None) => {
                if !uploads.contains_key(&id) {
                    return (404, None, code("NoSuchUpload"));
                }
                if self.objects.lock().unwrap().contains_key(path)
                    && request.header("if-none-match").is_some()
                {
                    return (412, None, code("PreconditionFailed"));
                }
                let upload = uploads.remove(&id).unwrap();
                let numbers: Vec<u64> = upload.parts.keys().copied().collect();
                assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
                let parts: Vec<_> = upload.parts.into_values().collect();
                let is_small = |part: &Arc<Vec<u8>>| part.len() < 5 << 20;
                assert!(!parts.iter().rev().skip(1).any(is_small), "a part is too small");
                let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
                let tag = self.insert(path, bytes, upload.metadata);
                let body = format!(
                    "<CompleteMultipartUploadResult><ETag>{}</ETag></CompleteMultipartUploadResult>",
                    tag.replace('"', "&quot;")
                );
                (200, Some(tag), body)
            }
            ("DELETE", Some(id), _) => match uploads.remove(&id) {
                Some(_) => (204, None, String::new()),
                None => (404, None, code("NoSuchUpload")),
            },
            ("PUT", None, None) => {
                let found = self.objects.lock().unwrap().get(path).cloned();
                let absent = request.header("if-none-match").is_some();
                let same = request.header("if-match").map(str::to_owned);
                let found_tag = found.as_ref().and_then(|object| object.tag.clone());
                // Google's number of a version, or 0 for none.
                let number = request.header("x-goog-if-generation-match");
                let found_number = found_tag.as_deref().and_then(generation).unwrap_or(0);
                let is_other = number.is_some_and(|number| number != found_number.to_string());
                if (absent && found.is_some()) || (same.is_some() && same != found_tag) || is_other
                {
                    return (412, None, code("PreconditionFailed"));
                }
                let tag = self.insert(path, request.body.to_vec(), metadata);
                (200, Some(tag), String::new())
            }
            ("DELETE", None, _) => {
                self.objects.lock().unwrap().remove(path);
                (204, None, String::new())
            }
            _ => (405, None, code("MethodNotAllowed")),
        }
    }

    fn insert(&self, path: &str, bytes: Vec<u8>, metadata: Vec<String>) -> String {
        let tag = format!("\"v{}\"", self.versions.fetch_add(1, SeqCst));
        let modified = "Mon, 23 Nov 2026 00:00:00 GMT";
        let object = Object { bytes: Arc::new(bytes), tag: Some(tag.clone()), modified, metadata };
        self.objects.lock().unwrap().insert(path.to_owned(), object);
        tag
    }

    /// Whether the connection goes on.
    fn answer(&self, stream: &mut TcpStream, request: &mut Request, fault: Option<Fault>) -> bool {
        let object = self.objects.lock().unwrap().get(&request.path).cloned();
        let mut headers = Vec::new();
        let mut body = Vec::new();
        let range = request.header("range").map(str::to_owned);
        match (&object, fault) {
            (_, Some(Fault::Status(status, wait))) => {
                request.status = status;
                headers.extend(wait.map(|wait| format!("Retry-After: {wait}")));
                let code = "<Error><Code>SlowDown</Code><Message>Please reduce your rate</Message></Error>";
                body.extend_from_slice(code.as_bytes());
            }
            (_, Some(Fault::Redirect(status, to))) => {
                request.status = status;
                headers.push(format!("Location: {to}"));
            }
            (_, Some(Fault::Echo(status))) => {
                request.status = status;
                let asked = format!("{}?{} {:?}", request.path, request.query, request.headers);
                let code = format!("<Error><Code>No</Code><Message>{asked}</Message></Error>");
                body.extend_from_slice(code.as_bytes());
            }
            (_, Some(Fault::Hang)) => {
                request.status = 0;
                self.log.lock().unwrap().push(request.clone());
                return false;
            }
            (None, _) => {
                request.status = 404;
                body.extend_from_slice(b"<Error><Code>NoSuchKey</Code></Error>");
            }
            (Some(object), _) => {
                let asked = request.header("if-match").filter(|_| fault != Some(Fault::AnyVersion));
                let tag = match fault {
                    Some(Fault::Retagged) => {
                        Some(format!("\"r{}\"", self.versions.fetch_add(1, SeqCst)))
                    }
                    _ => object.tag.clone(),
                };
                headers.extend(tag.iter().map(|tag| format!("ETag: {tag}")));
                let number = object.tag.as_deref().and_then(generation);
                headers.extend(number.map(|number| format!("x-goog-generation: {number}")));
                headers.push(format!("Last-Modified: {}", object.modified));
                headers.extend(object.metadata.iter().cloned());
                let len = object.bytes.len() as u64;
                let range = range.filter(|_| fault != Some(Fault::Whole));
                let found = range.map(|range| resolve(&range, len));
                if fault != Some(Fault::Retagged)
                    && asked.is_some_and(|tag| Some(tag) != object.tag.as_deref())
                {
                    request.status = 412;
                } else {
                    match found {
                        None => {
                            request.status = 200;
                            body.extend_from_slice(&object.bytes);
                        }
                        Some(None) => {
                            request.status = 416;
                            // As S3, and as a plain server: the size is in the body or in the header.
                            if request.header("authorization").is_some() {
                                let size = format!("<ActualObjectSize>{len}</ActualObjectSize>");
                                body.extend_from_slice(format!("<Error>{size}</Error>").as_bytes());
                            } else {
                                headers.push(format!("Content-Range: bytes */{len}"));
                            }
                        }
                        Some(Some(range)) => {
                            request.status = 206;
                            let (first, last) = (range.start, range.end - 1);
                            let (last, len) = match fault {
                                Some(Fault::Range(last, len)) => (last, len),
                                _ => (last, len),
                            };
                            headers.push(format!("Content-Range: bytes {first}-{last}/{len}"));
                            let bytes = &object.bytes[range.start as usize..range.end as usize];
                            body.extend_from_slice(bytes);
                        }
                    }
                }
            }
        }
        let length = match fault {
            Some(Fault::Length(length)) => length,
            _ => body.len() as u64,
        };
        match fault {
            Some(Fault::Cut(kept)) => body.truncate(kept),
            Some(Fault::Stall) => body.clear(),
            Some(Fault::More) => body.extend_from_within(..),
            _ => {}
        }
        request.sent = body.len() as u64;
        self.log.lock().unwrap().push(request.clone());
        let status = request.status;
        let mut head = format!("HTTP/1.1 {status} Status\r\n");
        if fault != Some(Fault::Endless) {
            head += &format!("Content-Length: {length}\r\n");
        }
        headers.iter().for_each(|header| head += &format!("{header}\r\n"));
        head += "\r\n";
        if let Some(Fault::Slow(millis)) = fault {
            let pause = Duration::from_millis(millis);
            let _ = stream.write_all(head.as_bytes());
            for byte in body.chunks(1) {
                thread::sleep(pause);
                if self.stop.load(SeqCst) || stream.write_all(byte).is_err() {
                    return false;
                }
            }
            return true;
        }
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        if fault == Some(Fault::Endless) {
            let more = [7; 64 << 10];
            loop {
                if self.stop.load(SeqCst) || stream.write_all(&more).is_err() {
                    return false;
                }
            }
        }
        if fault == Some(Fault::Stall) {
            // Until the client gives up.
            let _ = stream.read(&mut [0]);
            return false;
        }
        sent.is_ok() && body.len() as u64 == length
    }
}

fn read_request(reader: &mut impl BufRead, pause: Duration) -> Option<Request> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // Google has all of a name in one part of the path.
    let path = match path.contains("%2F") {
        true => percent_decoded(path),
        false => path.to_owned(),
    };
    let query = query.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length: &String| length.parse().unwrap());
    let mut body = vec![0; length];
    for part in body.chunks_mut(64 << 10) {
        reader.read_exact(part).ok()?;
        thread::sleep(pause);
    }
    let body = Arc::new(body);
    Some(Request { method, path, query, headers, status: 0, sent: 0, body })
}

fn percent_decoded(path: &str) -> String {
    let mut parts = path.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + &char::from(u8::from_str_radix(&part[..2], 16).unwrap()).to_string() + &part[2..]
    })
}

/// The number that Google has for the version of this tag.
fn generation(tag: &str) -> Option<u64> {
    let number: u64 = tag.strip_prefix("\"v")?.strip_suffix('"')?.parse().ok()?;
    Some(number + 1)
}

/// The bytes that a range asks for, if there are any.
fn resolve(range: &str, len: u64) -> Option<Range<u64>> {
    let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let range = match (first, last) {
        ("", last) => len.saturating_sub(last.parse().unwrap())..len,
        (first, "") => first.parse().unwrap()..len,
        (first, last) => first.parse().unwrap()..len.min(last.parse::<u64>().unwrap() + 1),
    };
    (range.start < range.end).then_some(range)
}

/// Every object that was asked for.
pub(crate) fn asked(requests: &[Request]) -> BTreeSet<&str> {
    requests.iter().map(|request| request.path.as_str()).collect()
}
