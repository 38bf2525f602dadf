//! [`Fetch`]: downloads a file, and resumes after any interruption.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use ureq::Agent;
use ureq::http::{HeaderMap, Response, StatusCode, header};

use super::stale_files::{check_leftover, create_anew};
use crate::error::{Error, ErrorKind, Result};
use crate::note::{self, required};
use crate::regular;
use crate::storage::{Chance, LocalStorage, Lock, Storage, chance};

/// Bytes read and written at a time.
const CHUNK: usize = 256 << 10;
/// Bytes between two syncs of a download.
const SYNC: u64 = 64 << 20;
/// How often a server is tried that was never reached: most likely there is no network.
const TRIES: u32 = 3;
/// The longest wait that a server may ask for.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// Downloads one file over HTTP or HTTPS.
///
/// The bytes that have arrived are in `NAME.partial`, and what the server said about the file is
/// next to it in `NAME.partial.json`. A connection that is cut or stalls is resumed, by this call
/// or by a later one, as long as the server has the same file. The file gets its name when it is
/// complete, checked and on disk.
///
/// The server is not trusted: bytes beyond the announced size are refused, and so are bytes of
/// another range. An `https` address never leads to one without encryption.
///
/// ```no_run
/// use kiste::convert::Fetch;
///
/// let fetch = Fetch::new("https://example.org/train.tar").size(147_897_477_120);
/// fetch.to("train.tar".as_ref(), |_| Ok(()), |bytes| eprint!("\r{bytes}"))?;
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Fetch {
    url: String,
    size: Option<u64>,
    connect: Duration,
    stall: Duration,
    retries: u32,
    pause: Duration,
}

/// Facts about the bytes that have arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    url: String,
    /// An entity tag or a date, which differs for a later file at the same address.
    #[serde(deserialize_with = "required")]
    validator: Option<String>,
    /// Bytes of the whole file.
    #[serde(deserialize_with = "required")]
    total: Option<u64>,
    /// The bytes that are durable. The file may have more, but after a power failure they can be
    /// anything.
    synced: u64,
}

/// Why an attempt ended.
enum End {
    /// The file is complete.
    Complete,
    /// Another attempt may succeed, after this time if the server asked for it.
    Retry(Error, Option<Duration>),
    /// There was no connection.
    Unreachable(Error),
    /// Another attempt would fail too.
    Fail(Error),
}

impl Fetch {
    /// The file at this address.
    pub fn new(url: impl Into<String>) -> Fetch {
        let [connect, stall, pause] = [10, 30, 1].map(Duration::from_secs);
        Fetch { url: url.into(), size: None, connect, stall, retries: 8, pause }
    }

    /// The size in bytes. A file of another size is refused. Default: any.
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// How long to wait for an address and a connection. A server that was never reached is tried
    /// three times. Default: 10 seconds.
    pub fn connect(mut self, time: Duration) -> Self {
        self.connect = time;
        self
    }

    /// How long to wait for data before the connection is closed. Default: 30 seconds.
    pub fn stall(mut self, time: Duration) -> Self {
        self.stall = time;
        self
    }

    /// The number of retries without any progress. Default: 8.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// The wait before the first retry, which doubles with each further one. Default: 1 second.
    pub fn pause(mut self, time: Duration) -> Self {
        self.pause = time;
        self
    }

    /// Downloads the file, calls `check` with the path of the unfinished file, and gives it its
    /// name. `progress` is called with the number of bytes so far.
    ///
    /// A file that `check` refuses is removed.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if the file is there;
    /// [`Locked`](ErrorKind::Locked) if another program is downloading it;
    /// [`NotFound`](ErrorKind::NotFound) if the server says so; [`Damaged`](ErrorKind::Damaged) if
    /// it sends wrong bytes; [`Io`](ErrorKind::Io) if the network fails for too
    /// long; and those of `check`. They name the address.
    pub fn to(
        &self,
        path: &Path,
        check: impl FnOnce(&Path) -> Result<()>,
        mut progress: impl FnMut(u64),
    ) -> Result<()> {
        if path.symlink_metadata().is_ok() {
            return Err(Error::new(ErrorKind::AlreadyExists, "the file exists already").at(path));
        }
        let partial = with_suffix(path, ".partial");
        let mut file = Partial::open(&partial, &self.url)?;
        let completed = self.complete(&mut file, &mut progress);
        match completed.is_err() && file.len == 0 {
            // Nothing has arrived that could be resumed.
            true => file.remove()?,
            false if file.path.exists() => file.sync()?,
            false => {}
        }
        completed?;
        if let Err(error) = check(&partial) {
            file.remove()?;
            return Err(error);
        }
        fs::rename(&partial, path).map_err(|error| Error::io(path, error))?;
        remove(&file.note)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        LocalStorage::positioned().sync_dir(parent)
    }

    /// Tries until the file is complete, or too many attempts have made no progress.
    fn complete(&self, file: &mut Partial, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let agent = self.agent();
        let (mut failures, mut most, mut reached) = (0, file.len, false);
        loop {
            let end = match self.attempt(&agent, file, reached, progress) {
                Ok(end) => end,
                Err(error) => End::Fail(error),
            };
            let (error, wait) = match end {
                End::Complete => return Ok(()),
                End::Fail(error) => return Err(error),
                End::Retry(error, wait) => {
                    reached = true;
                    (error, wait)
                }
                End::Unreachable(error) if !reached && failures + 1 >= TRIES => {
                    return Err(error.note("tried 3 times: is there a network?"));
                }
                End::Unreachable(error) => (error, None),
            };
            failures = if file.len > most { 0 } else { failures + 1 };
            most = most.max(file.len);
            if failures > self.retries {
                return Err(error);
            }
            let growing = self.pause.saturating_mul(1 << failures.min(6));
            thread::sleep(wait.unwrap_or(growing).min(MAX_WAIT));
        }
    }

    fn agent(&self) -> Agent {
        let secure = self.url.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("https:"));
        let config = Agent::config_builder()
            .https_only(secure)
            .http_status_as_error(false)
            .timeout_resolve(Some(self.connect))
            .timeout_connect(Some(self.connect))
            .timeout_recv_response(Some(self.stall))
            .timeout_per_read(Some(self.stall))
            .user_agent(concat!("kiste/", env!("CARGO_PKG_VERSION")))
            // Bytes are counted as they are in the file, so it must not be compressed on the way.
            .accept_encoding("identity")
            .build();
        config.into()
    }

    fn attempt(
        &self,
        agent: &Agent,
        file: &mut Partial,
        reached: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<End> {
        let mut request = agent.get(&self.url);
        if file.len > 0 {
            request = request.header(header::RANGE, format!("bytes={}-", file.len));
            if let Some(validator) = &file.known.validator {
                request = request.header(header::IF_RANGE, validator);
            }
        }
        let response = match request.call() {
            Ok(response) => response,
            Err(error) => return Ok(self.failed(&error, reached)),
        };
        match response.status() {
            StatusCode::OK => {
                let total = content_length(response.headers());
                file.restart(Known::of(&self.url, response.headers(), total))?;
            }
            StatusCode::PARTIAL_CONTENT => {
                if let Some(end) = self.check_range(file, &response)? {
                    return Ok(end);
                }
            }
            StatusCode::RANGE_NOT_SATISFIABLE if file.len > 0 => {
                let range = response.headers().get(header::CONTENT_RANGE);
                let total = range
                    .and_then(|range| range.to_str().ok()?.strip_prefix("bytes */")?.parse().ok());
                if total.or(file.known.total) == Some(file.len) {
                    return Ok(self.complete_at(file.len));
                }
                // It is shorter than what has arrived, so it is another file.
                file.restart(Known::default())?;
                let flaw = self.damaged("the file at the server has become shorter");
                return Ok(End::Retry(flaw, None));
            }
            status => return Ok(self.refused(status, response.headers())),
        }
        if let Some(total) = file.known.total {
            if let fail @ End::Fail(_) = self.complete_at(total) {
                return Ok(fail);
            }
        }
        let total = self.size.or(file.known.total);
        self.receive(&mut response.into_body().into_reader(), total, file, progress)
    }

    /// The end of a file of `total` bytes, if that is the required size.
    fn complete_at(&self, total: u64) -> End {
        match self.size {
            Some(size) if size != total => {
                let message = format!("expected a file of {size} bytes, the server has {total}");
                End::Fail(self.damaged(&message))
            }
            _ => End::Complete,
        }
    }

    /// Receives the body, but no more than `total` bytes.
    fn receive(
        &self,
        body: &mut dyn Read,
        total: Option<u64>,
        file: &mut Partial,
        progress: &mut dyn FnMut(u64),
    ) -> Result<End> {
        let mut buffer = vec![0; CHUNK];
        loop {
            progress(file.len);
            let read = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(self.failed(&error.into(), true)),
            };
            if total.is_some_and(|total| file.len + read as u64 > total) {
                let total = total.unwrap_or_default();
                let flaw = self.damaged(&format!("expected {total} bytes, the server sends more"));
                file.remove()?;
                return Ok(End::Fail(flaw));
            }
            file.write(&buffer[..read])?;
        }
        Ok(match total {
            Some(total) if file.len < total => {
                let message =
                    format!("expected {total} bytes, the connection ended after {}", file.len);
                End::Retry(self.damaged(&message), None)
            }
            _ => End::Complete,
        })
    }

    /// Checks that a partial response has the requested range of the same file.
    fn check_range<B>(&self, file: &mut Partial, response: &Response<B>) -> Result<Option<End>> {
        let headers = response.headers();
        let range = headers.get(header::CONTENT_RANGE).and_then(|range| range.to_str().ok());
        let range = range.and_then(parse_range);
        let Some((_, total)) = range.filter(|(start, _)| *start == file.len) else {
            let message =
                format!("expected the bytes from {} on, the server sends others", file.len);
            return Ok(Some(End::Fail(self.damaged(&message))));
        };
        let found = Known::of(&self.url, headers, total);
        let changed = |before: &Option<u64>, now: &Option<u64>| matches!((before, now), (Some(before), Some(now)) if before != now);
        let other = match (&file.known.validator, &found.validator) {
            (Some(before), Some(now)) => before != now,
            _ => false,
        };
        if other || changed(&file.known.total, &found.total) {
            file.restart(Known::default())?;
            let flaw = self.damaged("the file at the server has become another");
            return Ok(Some(End::Retry(flaw, None)));
        }
        if file.known.total.is_none() && total.is_some() {
            file.know(Known { total, ..file.known.clone() })?;
        }
        Ok(None)
    }

    /// A response without content.
    fn refused(&self, status: StatusCode, headers: &HeaderMap) -> End {
        let message = format!("the server answers {status}");
        let kind = match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        let error = self.error(kind, &message);
        let busy = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
        if !status.is_server_error() && !busy.contains(&status) {
            return End::Fail(error);
        }
        let seconds = headers.get(header::RETRY_AFTER).and_then(|wait| wait.to_str().ok());
        let seconds = seconds.and_then(|seconds| seconds.trim().parse().ok());
        End::Retry(error, seconds.map(Duration::from_secs))
    }

    /// A request that failed, before or during the response; `answered` if there was one before.
    fn failed(&self, error: &ureq::Error, answered: bool) -> End {
        let chance = chance(error, answered);
        let message = match error {
            ureq::Error::Timeout(_) if chance == Chance::Unreachable => {
                format!("no connection within {:?}", self.connect)
            }
            ureq::Error::Timeout(_) => format!("nothing came for {:?}", self.stall),
            error => error.to_string(),
        };
        let told = self.error(ErrorKind::Io, &message);
        match chance {
            Chance::Unreachable => End::Unreachable(told),
            Chance::Passing => End::Retry(told, None),
            Chance::Never => End::Fail(told),
        }
    }

    fn damaged(&self, message: &str) -> Error {
        self.error(ErrorKind::Damaged, message)
    }

    fn error(&self, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, format!("{}: {message}", self.url))
    }
}

impl Known {
    fn of(url: &str, headers: &HeaderMap, total: Option<u64>) -> Known {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        // A weak tag does not guarantee the same bytes.
        let tag = text(header::ETAG).filter(|tag| !tag.starts_with("W/"));
        let validator = tag.or_else(|| text(header::LAST_MODIFIED)).map(str::to_owned);
        Known { url: url.to_owned(), validator, total, synced: 0 }
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// The first byte and the size of the whole file of `bytes FIRST-LAST/TOTAL`.
fn parse_range(range: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let total = match total.trim() {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    (first <= last && total.is_none_or(|total| last < total)).then_some((first, total))
}

/// The unfinished file, and what is known about it.
struct Partial {
    path: PathBuf,
    note: PathBuf,
    file: File,
    len: u64,
    known: Known,
    _lock: Lock,
}

impl Partial {
    /// Opens the file of an earlier download, if it is of the same address, or a new one.
    fn open(path: &Path, url: &str) -> Result<Partial> {
        let at = |error| Error::io(path, error);
        check_leftover(path).map_err(at)?;
        let Some(lock) = LocalStorage::positioned().lock(path)? else {
            let message = "another program is fetching this file";
            return Err(Error::new(ErrorKind::Locked, message).at(path));
        };
        let file = OpenOptions::new().write(true).open(path).map_err(at)?;
        let len = file.metadata().map_err(at)?.len();
        let note = with_suffix(path, ".json");
        // A note that cannot be read is ignored.
        let known = regular::read(&note).ok().and_then(|json| note::parsed(&json).ok());
        let known = known.filter(|known: &Known| known.url == url).unwrap_or_default();
        let len = len.min(known.synced);
        file.set_len(len).map_err(at)?;
        let mut partial = Partial { path: path.to_path_buf(), note, file, len, known, _lock: lock };
        partial.file.seek(SeekFrom::End(0)).map_err(at)?;
        Ok(partial)
    }

    /// Discards what has arrived.
    fn restart(&mut self, known: Known) -> Result<()> {
        let at = |error| Error::io(&self.path, error);
        self.file.set_len(0).map_err(at)?;
        self.file.seek(SeekFrom::Start(0)).map_err(at)?;
        self.len = 0;
        self.know(known)
    }

    fn know(&mut self, known: Known) -> Result<()> {
        let json = note::sealed(&serde_json::to_string(&known).unwrap_or_default());
        let written = create_anew(&self.note).and_then(|mut note| note.write_all(json.as_bytes()));
        written.map_err(|error| Error::io(&self.note, error))?;
        self.known = known;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| Error::io(&self.path, error))?;
        self.len += bytes.len() as u64;
        if self.len - self.known.synced >= SYNC { self.sync() } else { Ok(()) }
    }

    /// Makes what has arrived durable, and notes how much it is.
    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io(&self.path, error))?;
        self.know(Known { synced: self.len, ..self.known.clone() })
    }

    fn remove(&mut self) -> Result<()> {
        remove(&self.path)?;
        remove(&self.note)
    }
}

fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
