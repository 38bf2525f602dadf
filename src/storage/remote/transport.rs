//! HTTP below `object_store`: one request at a time on the calling thread, with retries.
//!
//! Everything that can go wrong on the way is decided here, where the answer is in full view: what is
//! busy, what was cut short, what stalls, and how long the server asks to wait. So `object_store` sees
//! whole answers, and is configured never to retry.

use std::cell::Cell;
use std::fmt;
use std::future::{Future, ready};
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use object_store::ClientOptions;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest,
    HttpRequestBody, HttpResponse, HttpService,
};
use ureq::tls::{PemItem, RootCerts, TlsConfig};
use ureq::{Agent, SendBody};

use super::super::read_ahead::{self, LISTEN};
use super::super::{Chance, chance, unescape};
use super::answer::{Judged, Trouble, Wrong, again, failure, is_busy_inside, judged};
use super::buffers::Buffers;
use super::exchange::{self, Exchange};
use super::hub::Hub;
use super::options::RemoteOptions;
use super::queue;
use super::refusal::refusal_of;
use super::retry::{self, OF_PROCESS};
use crate::error::shown_text;

/// Counts the requests and answers of a storage.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) requests: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) wanted: AtomicU64,
    pub(super) cached: AtomicU64,
    pub(super) sent: AtomicU64,
}

/// Makes the clients of `object_store`.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub(super) options: RemoteOptions,
    pub(super) traffic: Arc<Traffic>,
    /// `user:password`, as it stands in the URL.
    pub(super) user: Option<String>,
    /// Whether to go where the server says. Object stores say so for a wrong region, which is an error.
    pub(super) follow: bool,
    /// Where it goes is the hub's to say.
    pub(super) hub: Option<Arc<Hub>>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let is_set = |key| options.get_config_value(&key).as_deref() == Some("true");
        let own = |key| {
            let given = options.get_config_value(&key)?;
            given.strip_suffix(" seconds").unwrap_or(&given).trim_end_matches('s').parse().ok()
        };
        // Shorter for services that give credentials where there are any, and are absent elsewhere.
        let connect = own(ClientConfigKey::ConnectTimeout)
            .map_or(self.options.timeout, |seconds| {
                Duration::from_secs(seconds).min(self.options.timeout)
            });
        let roots = match self.options.environment {
            true => roots_named().map_err(|message| object_store::Error::Generic {
                store: "HTTP",
                source: message.into(),
            })?,
            false => RootCerts::WebPki,
        };
        let tls = TlsConfig::builder()
            .disable_verification(is_set(ClientConfigKey::AllowInvalidCertificates))
            .root_certs(roots)
            .build();
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .https_only(!is_set(ClientConfigKey::AllowHttp))
            .tls_config(tls)
            .user_agent(concat!("kiste/", env!("CARGO_PKG_VERSION")))
            .max_idle_connections(256)
            .max_idle_connections_per_host(256)
            .timeout_resolve(Some(connect))
            .timeout_connect(Some(connect))
            // For each read, so that a large answer over a slow line takes its time and one that
            // stalls does not.
            .timeout_per_read(Some(self.options.timeout))
            .timeout_per_write(Some(self.options.timeout))
            .timeout_recv_response(Some(self.options.timeout));
        if !self.options.environment {
            config = config.proxy(None);
        }
        if !self.follow {
            config = config.max_redirects(0).max_redirects_will_error(false);
        }
        let authorization = self.user.as_deref().map(basic).transpose().map_err(|source| {
            object_store::Error::Generic { store: "HTTP", source: source.into() }
        })?;
        let transport = Transport(Arc::new(Lines {
            agent: config.build().new_agent(),
            follow: self.follow,
            hub: self.hub.clone(),
            options: self.options.clone(),
            traffic: self.traffic.clone(),
            authorization,
            answered: AtomicBool::new(false),
            buffers: Arc::default(),
        }));
        Ok(HttpClient::new(transport))
    }
}

/// The certificates that servers are checked against: from the file that the environment names, or
/// Mozilla's.
fn roots_named() -> Result<RootCerts, String> {
    let named = ["AWS_CA_BUNDLE", "SSL_CERT_FILE"].into_iter().find_map(|name| {
        let path = std::env::var_os(name).filter(|path| !path.is_empty())?;
        Some((name, path))
    });
    let Some((name, path)) = named else { return Ok(RootCerts::WebPki) };
    let wrong = |found: &dyn fmt::Display| {
        format!("{name}: expected the path of a file of certificates (PEM), found {found}")
    };
    let pem = std::fs::read(path).map_err(|error| wrong(&error))?;
    let mut certificates = Vec::new();
    for item in ureq::tls::parse_pem(&pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(wrong(&error)),
        }
    }
    match certificates.is_empty() {
        true => Err(wrong(&"none in it")),
        false => Ok(RootCerts::new_with_certs(&certificates)),
    }
}

/// The header for `user:password` as it stands in a URL.
fn basic(user: &str) -> Result<HeaderValue, &'static str> {
    let plain = unescape(user).ok_or("expected user and password in UTF-8 in the URL")?;
    let plain = if plain.contains(':') { plain } else { plain + ":" };
    let encoded = base64::prelude::BASE64_STANDARD.encode(plain);
    let mut value = HeaderValue::try_from(format!("Basic {encoded}"))
        .map_err(|_| "expected a user and a password in the URL")?;
    value.set_sensitive(true);
    Ok(value)
}

/// Sends requests over connections that stay open, from as many threads as ask.
struct Transport(Arc<Lines>);

struct Lines {
    agent: Agent,
    /// Whether it goes where servers lead on to.
    follow: bool,
    hub: Option<Arc<Hub>>,
    options: RemoteOptions,
    traffic: Arc<Traffic>,
    authorization: Option<HeaderValue>,
    /// Whether any server has answered.
    answered: AtomicBool,
    buffers: Arc<Buffers>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transport")
    }
}

/// Tries to reach a server that has not answered before.
const FIRST_TRIES: u32 = 4;

impl HttpService for Transport {
    // The expansion by `async_trait` of `async fn call(&self, …)`.
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(ready(self.exchange(request)))
    }
}

impl Transport {
    /// Sends a request on this thread; one that may have to leave at any moment sends it on another.
    fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let exchange = exchange_of(&request);
        if let Some(exchange) = &exchange {
            exchange.note(|outcome| outcome.sent = true);
        }
        let (mut parts, body) = request.into_parts();
        // `object_store` ends uploads without a condition. This one need not be signed.
        let ends_upload = parts.method == Method::POST && has_query(&parts.uri, "uploadId=");
        if ends_upload && exchange.as_ref().is_some_and(|exchange| exchange.creates) {
            parts.headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        if let Some(authorization) = &self.0.authorization {
            parts.headers.entry(header::AUTHORIZATION).or_insert(authorization.clone());
        }
        let body = pollster::block_on(body_of(body))?;
        let lines = self.0.clone();
        let may_leave = lines.options.can_stop() || read_ahead::stop().is_some();
        // How a write ended has to be known.
        if !may_leave || parts.method != Method::GET || queue::is_worker() {
            return lines.exchange(&parts, &body, exchange.as_deref());
        }
        let (context, noted) = (read_ahead::context(), exchange.clone());
        let send = move || context.run(|| lines.exchange(&parts, &body, noted.as_deref()));
        let trouble = match on_another_thread(send, || self.0.is_stopped()) {
            Ok(sent) => return sent,
            Err(Left::Stopped) => return Err(cancelled(exchange.as_deref())),
            Err(Left::Failed(message)) => message,
        };
        let (message, kind) = (trouble, HttpErrorKind::Unknown);
        Err(failed(Trouble { message, kind, unreachable: false }, exchange.as_deref()))
    }
}

/// Why work on another thread has no result.
#[derive(Debug, PartialEq, Eq)]
enum Left {
    Stopped,
    Failed(String),
}

/// Does this on another thread, and leaves it there once this one may go.
fn on_another_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    is_stopped: impl Fn() -> bool,
) -> Result<T, Left> {
    let (done, result) = sync_channel(1);
    let work = move || {
        // The caller may have left.
        let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
    };
    let thread = thread::Builder::new().name("kiste-read".to_owned()).spawn(work);
    thread.map_err(|error| Left::Failed(format!("starting a thread that reads: {error}")))?;
    loop {
        match result.recv_timeout(LISTEN) {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(panic)) => {
                let said = panic.downcast_ref::<&str>().copied();
                let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                let said = shown_text(said.unwrap_or("without a message"));
                return Err(Left::Failed(format!("the request panicked: {said}")));
            }
            Err(RecvTimeoutError::Timeout) if !is_stopped() => {}
            Err(RecvTimeoutError::Timeout) => return Err(Left::Stopped),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Left::Failed("the thread that reads has ended".to_owned()));
            }
        }
    }
}

/// When bytes last went one way or the other.
struct Flow(Cell<Instant>);

impl Flow {
    fn note(&self) {
        self.0.set(Instant::now());
    }
}

/// A body on its way.
struct Sending<'a> {
    rest: &'a [u8],
    flow: &'a Flow,
}

impl Read for Sending<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // The part that was read before has been sent.
        self.flow.note();
        self.rest.read(buf)
    }
}

/// The body of an answer, which ends where it is no longer wanted.
struct Receiving<'a, R, S> {
    body: R,
    flow: &'a Flow,
    stopped: S,
    since: Instant,
    received: u64,
    /// For how long it may come slowly.
    patience: Duration,
}

/// The fewest bytes of an answer a second, once it takes longer than one is patient: with one byte now
/// and then a server could keep us for ever.
const SLOWEST: u64 = 1 << 10;

impl<R: Read, S: Fn() -> bool> Read for Receiving<'_, R, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if (self.stopped)() {
            return Ok(0);
        }
        let read = self.body.read(buf)?;
        self.flow.note();
        self.received += read as u64;
        let spent = self.since.elapsed();
        if spent > self.patience && self.received / SLOWEST < spent.as_secs().max(1) && read > 0 {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, TOO_SLOW));
        }
        Ok(read)
    }
}

const TOO_SLOW: &str = "fewer than 1024 bytes a second came";

/// Reads into a buffer until it is full or the body ends: how many bytes came, and whether there are more.
/// Nothing is cleared before, as `Read::read_to_end` does.
fn fill(body: &mut impl Read, buffer: &mut [u8]) -> (usize, io::Result<bool>) {
    let (mut filled, mut more) = (0, [0]);
    loop {
        let is_full = filled == buffer.len();
        // A connection is free for the next request once its body was read to the end.
        let rest = if is_full { &mut more[..] } else { &mut buffer[filled..] };
        match body.read(rest) {
            Ok(0) => return (filled, Ok(false)),
            Ok(_) if is_full => return (filled, Ok(true)),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Err(error)),
        }
    }
}

impl Lines {
    fn is_stopped(&self) -> bool {
        self.options.is_stopped() || read_ahead::is_stopped()
    }

    /// Sends a request, and again where that may help.
    fn exchange(
        &self,
        parts: &http::request::Parts,
        body: &Bytes,
        exchange: Option<&Exchange>,
    ) -> Result<HttpResponse, HttpError> {
        let started = Instant::now();
        // For how long nothing went either way: a large part over a slow line takes its time.
        let mut silence = Duration::ZERO;
        let mut tries = 0;
        loop {
            if self.is_stopped() {
                return Err(cancelled(exchange));
            }
            tries += 1;
            self.traffic.requests.fetch_add(1, Relaxed);
            let flow = Flow(Cell::new(Instant::now()));
            let (trouble, asked) = match self.attempt(parts, body, exchange, &flow) {
                // It may have been left unread.
                // How a write ended has to be known.
                Ok(_) if parts.method == http::Method::GET && self.is_stopped() => {
                    continue;
                }
                Ok(answer) => {
                    OF_PROCESS.give_back();
                    self.answered.store(true, Relaxed);
                    return Ok(answer);
                }
                Err(Wrong::Again(trouble, asked)) => (trouble, asked),
                Err(Wrong::Failed(trouble)) => return Err(failed(trouble, exchange)),
            };
            let wait = retry::wait(tries, asked);
            silence += flow.0.get().elapsed() + wait;
            // Credentials come from a service that is there at once or not at all. An address at which no
            // server was ever found is more often mistyped than down.
            let never = tries >= FIRST_TRIES && !self.answered.load(Relaxed);
            let hopeless = trouble.unreachable && (exchange.is_none() || never);
            let late = silence > self.options.patience;
            if hopeless || late || tries > self.options.retries || !OF_PROCESS.take() {
                let spent = started.elapsed().as_secs_f32();
                let message = match tries {
                    1 => trouble.message,
                    _ => {
                        format!("{}; gave up after {tries} tries in {spent:.1} s", trouble.message)
                    }
                };
                return Err(failed(Trouble { message, ..trouble }, exchange));
            }
            self.traffic.retries.fetch_add(1, Relaxed);
            if let Some(exchange) = exchange {
                exchange.note(|outcome| outcome.again = true);
            }
            let until = Instant::now() + wait;
            queue::aside(|| {
                while !self.is_stopped() && Instant::now() < until {
                    thread::sleep(LISTEN.min(until.saturating_duration_since(Instant::now())));
                }
            });
        }
    }

    fn attempt(
        &self,
        parts: &http::request::Parts,
        body: &Bytes,
        exchange: Option<&Exchange>,
        flow: &Flow,
    ) -> Result<HttpResponse, Wrong> {
        let mut request = http::Request::builder().method(&parts.method).uri(&parts.uri);
        if let Some(headers) = request.headers_mut() {
            *headers = parts.headers.clone();
            // Ranges are of the bytes that are stored.
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            if !body.is_empty() {
                headers.insert(header::CONTENT_LENGTH, body.len().into());
            }
        }
        let mut sending = Sending { rest: body, flow };
        let sent = match (parts.method == Method::GET && body.is_empty(), request.body(())) {
            (_, Err(error)) => Err(ureq::Error::Http(error)),
            (true, Ok(request)) if self.hub.is_some() => self.ask_hub(request),
            (true, Ok(request)) => self.agent.run(request),
            (false, Ok(request)) if body.is_empty() => {
                self.agent.run(request.map(|()| body.as_ref()))
            }
            (false, Ok(request)) => {
                self.agent.run(request.map(|()| SendBody::from_reader(&mut sending)))
            }
        };
        self.traffic.sent.fetch_add(body.len() as u64, Relaxed);
        match sent {
            Ok(answer) => self.receive(parts, answer, exchange, flow),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Asks the hub, and the servers that it leads on to.
    fn ask_hub(
        &self,
        request: http::Request<()>,
    ) -> Result<http::Response<ureq::Body>, ureq::Error> {
        let Some(hub) = &self.hub else { return self.agent.run(request) };
        let (parts, ()) = request.into_parts();
        let servers = Cell::new(0);
        hub.send(&parts.uri, parts.headers, |request| {
            // The first is counted already.
            self.traffic.requests.fetch_add(servers.replace(1), Relaxed);
            self.agent.run(request)
        })
    }

    /// Reads an answer to its end, and no further than it may go.
    fn receive(
        &self,
        request: &http::request::Parts,
        answer: http::Response<ureq::Body>,
        exchange: Option<&Exchange>,
        flow: &Flow,
    ) -> Result<HttpResponse, Wrong> {
        let (parts, body) = answer.into_parts();
        let bytes = match judged(request, &parts, body, exchange) {
            Judged::Whole => Bytes::new(),
            Judged::Wrong(wrong) => return Err(wrong),
            Judged::Body { body, expected, limit } => {
                self.read(request, parts.status, body, (expected, limit), flow)?
            }
        };
        Ok(HttpResponse::from_parts(parts, bytes.into()))
    }

    /// Reads a body, of which so many bytes are expected, and at most the second number may come. Nothing, if this
    /// is to be stopped.
    fn read(
        &self,
        request: &http::request::Parts,
        status: StatusCode,
        body: ureq::Body,
        (expected, limit): (Option<u64>, u64),
        flow: &Flow,
    ) -> Result<Bytes, Wrong> {
        // Never more than was asked for: a length that the server made up costs no memory.
        let room = expected.unwrap_or(limit).min(limit) as usize;
        let Some(mut buffer) = self.buffers.take(room) else {
            return Err(failure(
                HttpErrorKind::Unknown,
                format!("not enough memory for {room} bytes"),
            ));
        };
        let stopped = || self.is_stopped();
        let (since, received, patience) = (Instant::now(), 0, self.options.patience);
        let body = body.into_reader();
        let mut reader = Receiving { body, flow, stopped, since, received, patience };
        let (filled, received) = fill(&mut reader, &mut buffer[..room]);
        if self.is_stopped() {
            return Ok(Bytes::new());
        }
        self.traffic.bytes.fetch_add(filled as u64, Relaxed);
        let cut = |message| Err(again(HttpErrorKind::Interrupted, message));
        // If an answer has another length than it says, a part is missing or too much.
        let has_more = matches!(received, Ok(true));
        match received {
            Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
                Err(failure(HttpErrorKind::Timeout, TOO_SLOW.to_owned()))
            }
            Err(error) => cut(format!("{} after {filled} bytes", self.words(&error))),
            Ok(_) if has_more && room as u64 == limit => {
                let message = format!("expected at most {limit} bytes, found more");
                Err(failure(HttpErrorKind::Decode, message))
            }
            Ok(_) if has_more => cut(format!("expected {room} bytes, found more")),
            Ok(_) if expected.is_some_and(|expected| filled as u64 != expected) => cut(format!(
                "expected {} bytes, found {filled}: the answer was cut short",
                expected.unwrap_or_default(),
            )),
            // S3 begins its answer to the end of an upload before it knows how that ends.
            Ok(_) if request.method == Method::POST && is_busy_inside(&buffer[..filled]) => {
                let text = String::from_utf8_lossy(&buffer[..filled]);
                Err(again(HttpErrorKind::Request, refusal_of(request, status, &text)))
            }
            Ok(_) => Ok(self.buffers.lend(buffer, filled)),
        }
    }

    /// There is no answer.
    fn broken(&self, error: ureq::Error) -> Wrong {
        use ureq::Error::{Io, RequireHttpsOnly, Timeout};
        let chance = chance(&error, self.answered.load(Relaxed));
        let unreachable = chance == Chance::Unreachable;
        let message = match &error {
            Timeout(_) if unreachable => format!("no connection within {:?}", self.options.timeout),
            Timeout(_) => self.stalled(),
            RequireHttpsOnly(_) if self.follow || self.hub.is_some() => {
                "expected https:// all the way, found a redirect to http://, where anyone on \
                 the way can read and change the data"
                    .to_owned()
            }
            RequireHttpsOnly(_) => {
                "expected an https:// endpoint, found http://: allow it by the environment \
                 variable AWS_ALLOW_HTTP=true (AZURE_ALLOW_HTTP, GOOGLE_ALLOW_HTTP)"
                    .to_owned()
            }
            Io(error) => self.words(error),
            error => shown_text(&error.to_string()).into_owned(),
        };
        let kind = match &error {
            _ if unreachable => HttpErrorKind::Connect,
            Timeout(_) => HttpErrorKind::Timeout,
            _ => HttpErrorKind::Request,
        };
        let trouble = Trouble { message, kind, unreachable };
        match chance {
            Chance::Unreachable | Chance::Passing => Wrong::Again(trouble, None),
            Chance::Never => Wrong::Failed(trouble),
        }
    }

    fn words(&self, error: &io::Error) -> String {
        let timeout = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
        match (error.kind(), timeout) {
            (io::ErrorKind::TimedOut, _) | (_, Some(ureq::Error::Timeout(_))) => self.stalled(),
            _ => shown_text(&error.to_string()).into_owned(),
        }
    }

    fn stalled(&self) -> String {
        format!("nothing came for {:?}", self.options.timeout)
    }
}

fn failed(trouble: Trouble, exchange: Option<&Exchange>) -> HttpError {
    if let Some(exchange) = exchange {
        exchange.note(|outcome| outcome.trouble = Some(trouble.message.clone()));
    }
    HttpError::new(trouble.kind, trouble)
}

fn cancelled(exchange: Option<&Exchange>) -> HttpError {
    if let Some(exchange) = exchange {
        exchange.note(|outcome| outcome.cancelled = true);
    }
    let message = "the request was cancelled".to_owned();
    let trouble = Trouble { message, kind: HttpErrorKind::Unknown, unreachable: false };
    HttpError::new(trouble.kind, trouble)
}

/// The exchange that a request is part of; none of requests for credentials.
fn exchange_of(request: &HttpRequest) -> Option<Arc<Exchange>> {
    let passed_on = request.extensions().get::<Arc<Exchange>>().cloned();
    let (method, uri) = (request.method(), request.uri());
    let of_object = *method == Method::DELETE
        || ["uploadId=", "comp=block", "comp=batch"].iter().any(|name| has_query(uri, name));
    passed_on.or_else(|| exchange::current().filter(|_| of_object))
}

fn has_query(uri: &http::Uri, name: &str) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| pair.starts_with(name)))
}

/// The body of a request, which is whole in memory.
async fn body_of(body: HttpRequestBody) -> Result<Bytes, HttpError> {
    Ok(body.collect().await?.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_fills_a_buffer_and_no_more() {
        let mut buffer = [9; 4];
        assert!(matches!(fill(&mut &b"abc"[..], &mut buffer), (3, Ok(false))));
        assert_eq!(buffer, *b"abc\x09");
        assert!(matches!(fill(&mut &b"defg"[..], &mut buffer), (4, Ok(false))));
        assert!(matches!(fill(&mut &b"hijkl"[..], &mut buffer), (4, Ok(true))));
        assert_eq!(buffer, *b"hijk");
        assert!(matches!(fill(&mut &b""[..], &mut []), (0, Ok(false))));
    }

    #[test]
    fn work_elsewhere_returns_stops_or_says_what_happened() {
        assert_eq!(on_another_thread(|| 7, || false), Ok(7));
        let left = on_another_thread(|| -> u8 { panic!("index {}", 9) }, || false);
        assert_eq!(left, Err(Left::Failed("the request panicked: index 9".to_owned())));
        let panics = || -> u8 { panic!("no such URL: https://me:pw@host/name?sig=secret") };
        let Err(Left::Failed(said)) = on_another_thread(panics, || false) else { panic!() };
        assert!(said.contains("no such URL") && !said.contains("pw") && !said.contains("secret"));
        let (_wake, wait) = sync_channel::<()>(0);
        assert_eq!(on_another_thread(move || wait.recv(), || true), Err(Left::Stopped));
    }

    #[test]
    fn users_of_urls() {
        assert_eq!(unescape("a%20b%C3%A9").as_deref(), Some("a bé"));
        assert_eq!(unescape("%4"), None);
        assert_eq!(unescape("%ff"), None);
        assert_eq!(basic("me:p%40ss").unwrap(), "Basic bWU6cEBzcw==");
        assert!(basic("me:pw").unwrap().is_sensitive());
    }
}
