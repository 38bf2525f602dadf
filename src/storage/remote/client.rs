//! One object store, asked for ranges of objects.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::multipart::MultipartStore;
use object_store::path::Path as Name;
use object_store::{
    ClientOptions, Extensions, GetOptions, GetRange, ObjectMeta, ObjectStore, PutMode, PutResult,
    RetryConfig, UpdateVersion,
};

use crate::error::{Error, ErrorKind, Result, shown_text};

use super::super::{in_parallel, unescape};
use super::exchange::{Exchange, Outcome};
use super::transport::Connector;
use super::url::{Address, Service, no_server};

/// The store of errors whose text is ours alone.
pub(super) const OURS: &str = "";

/// Talks to one bucket, container or server.
pub(super) struct Client {
    pub(super) store: Box<dyn ObjectStore>,
    /// The same, where uploads in parts are known by ids.
    pub(super) multipart: Option<Box<dyn MultipartStore>>,
    pub(super) service: Service,
    /// Where its requests go, if the environment or the settings say so.
    endpoint: String,
    pub(super) connections: usize,
    /// Threads that help others with what they fetch.
    helpers: AtomicUsize,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({:?})", self.service)
    }
}

/// Which version of an object it is: every answer must be of the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Pin {
    pub(super) size: u64,
    tag: Option<String>,
    version: Option<String>,
    modified: i64,
    /// The write that made it.
    pub(super) write: Option<u64>,
}

impl Pin {
    fn of(meta: &ObjectMeta, write: Option<u64>) -> Pin {
        Pin {
            size: meta.size,
            tag: meta.e_tag.clone(),
            version: meta.version.clone(),
            modified: meta.last_modified.timestamp(),
            write,
        }
    }

    /// A version that was seen before.
    pub(super) fn of_version(size: u64, tag: &str) -> Pin {
        Pin { size, tag: Some(tag.to_owned()), version: None, modified: 0, write: None }
    }

    fn empty(tag: Option<String>, write: Option<u64>) -> Pin {
        Pin { size: 0, tag, version: None, modified: 0, write }
    }

    /// The pin of an object that was put just now; `None` if the server does not identify it.
    pub(super) fn put(size: u64, put: PutResult) -> Option<Pin> {
        let tag = Some(put.e_tag?);
        Some(Pin { size, tag, version: put.version, modified: 0, write: None })
    }

    /// Identifies this version. The reader and the writer of an object get the same identity.
    pub(super) fn identity(&self) -> (u64, Option<&str>, i64) {
        let modified = if self.tag.is_some() { 0 } else { self.modified };
        (self.size, self.tag.as_deref(), modified)
    }

    /// The precondition of a put: this version is still there.
    pub(super) fn update(&self) -> PutMode {
        PutMode::Update(UpdateVersion { e_tag: self.tag.clone(), version: self.version.clone() })
    }

    /// The tag if it is strong: a weak tag says nothing about bytes.
    pub(super) fn strong(&self) -> Option<&str> {
        self.tag.as_deref().filter(|tag| !tag.starts_with("W/"))
    }

    /// Distinguishes versions of the same name for good, if the server reports a version or a
    /// strong tag; time and size would not.
    pub(super) fn lasting_identity(&self) -> Option<String> {
        let version = self.version.as_deref();
        let (tag, version) = match (self.strong(), version) {
            (None, None) => return None,
            (tag, version) => (tag.unwrap_or_default(), version.unwrap_or_default()),
        };
        Some(format!("{} {tag} {version}", self.size))
    }

    fn is_same(&self, other: &Pin) -> bool {
        let by_tag = || Some(self.tag.as_ref()? == other.tag.as_ref()?);
        self.size == other.size && by_tag().unwrap_or(self.modified == other.modified)
    }
}

/// Some bytes of an object.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) at: u64,
    pub(super) bytes: Bytes,
    pub(super) pin: Pin,
}

/// Which bytes.
#[derive(Debug, Clone)]
pub(super) enum Part {
    /// The first bytes, at most this many.
    Head(u64),
    /// The last bytes, at most this many.
    Tail(u64),
    /// These bytes, all of which must exist.
    Range(Range<u64>),
}

impl Client {
    pub(super) fn new(address: &Address, connector: Connector) -> object_store::Result<Client> {
        let connections = connector.options.connections;
        let settings = connector.options.settings.clone();
        let environment = connector.options.environment;
        // Requests are sent again below: in `Transport`.
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let hub = connector.hub.clone();
        let url = hub.as_ref().map_or_else(|| address.base(), |hub| hub.base());
        let mut endpoint = String::new();
        let mut goes_to = |value: Option<String>| {
            endpoint.push('\n');
            endpoint.push_str(&value.unwrap_or_default());
        };
        let server = |name: &str, value: Option<String>| match value
            .as_deref()
            .and_then(|value| no_server(name, value))
        {
            Some(message) => {
                Err(object_store::Error::Generic { store: OURS, source: message.into() })
            }
            None => Ok(value),
        };
        // The builders have these methods, but no trait in common.
        macro_rules! configured {
            ($Builder:ty) => {{
                let mut builder = match environment {
                    true => <$Builder>::from_env(),
                    false => <$Builder>::new(),
                };
                for (name, value) in settings {
                    builder = builder.with_config(name.parse()?, value);
                }
                builder.with_url(url)
            }};
        }
        // Who asks by https:// is not led on to a server that anyone on the way may be.
        let is_plain = url.starts_with("http://");
        let mut multipart: Option<Box<dyn MultipartStore>> = None;
        let store: Box<dyn ObjectStore> = match address.service {
            Service::S3 => {
                let builder = configured!(AmazonS3Builder)
                    // Not every store that speaks the dialect knows those.
                    .with_disable_bulk_delete(true);
                let given = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
                goes_to(server("AWS_ENDPOINT_URL", given)?);
                let store = builder.with_retry(retry).with_http_connector(connector).build()?;
                multipart = Some(Box::new(store.clone()));
                Box::new(store)
            }
            Service::Google => {
                let builder = configured!(GoogleCloudStorageBuilder);
                let given = builder.get_config_value(&GoogleConfigKey::BaseUrl);
                goes_to(server("GOOGLE_BASE_URL", given)?);
                let store = builder.with_retry(retry).with_http_connector(connector).build()?;
                multipart = Some(Box::new(store.clone()));
                Box::new(store)
            }
            Service::Azure => {
                let builder = configured!(MicrosoftAzureBuilder);
                goes_to(builder.get_config_value(&AzureConfigKey::AccountName));
                let given = builder.get_config_value(&AzureConfigKey::Endpoint);
                goes_to(server("AZURE_STORAGE_ENDPOINT", given)?);
                Box::new(builder.with_retry(retry).with_http_connector(connector).build()?)
            }
            Service::Http | Service::Hub => Box::new(
                HttpBuilder::new()
                    .with_url(url)
                    .with_client_options(ClientOptions::new().with_allow_http(is_plain))
                    .with_retry(retry)
                    .with_http_connector(connector)
                    .build()?,
            ),
        };
        if let Some(hub) = hub {
            endpoint = hub.base();
        }
        let (service, helpers) = (address.service, AtomicUsize::new(0));
        Ok(Client { store, multipart, service, endpoint, connections, helpers })
    }

    /// Where its requests go, if the environment says so: the same name elsewhere is another object.
    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The name of an object in the store.
    pub(super) fn name(service: Service, name: &str) -> Result<Name> {
        let decoded = match service {
            Service::Http => unescape(name),
            _ => Some(name.to_owned()),
        };
        let parsed = decoded.and_then(|name| Name::parse(name).ok());
        parsed.ok_or_else(|| {
            let message =
                "expected a name of parts between single slashes, none of them \".\" or \"..\"";
            Error::new(ErrorKind::Invalid, message)
        })
    }

    /// Some bytes of an object, which must be of this version if one is given.
    pub(super) fn get(
        &self,
        name: &Name,
        part: Part,
        pin: Option<&Pin>,
        shown: &Path,
    ) -> Result<Fetched> {
        let range = match part {
            Part::Head(len) => GetRange::Bounded(0..len),
            // Azure has no such ranges.
            Part::Tail(len) if self.service == Service::Azure => {
                let size = self.get(name, Part::Head(1), pin, shown)?.pin.size;
                GetRange::Bounded(size.saturating_sub(len)..size.max(1))
            }
            Part::Tail(len) => GetRange::Suffix(len),
            Part::Range(ref range) => GetRange::Bounded(range.clone()),
        };
        let exchange = Arc::new(Exchange::default());
        let mut extensions = Extensions::new();
        extensions.insert(exchange.clone());
        let options = GetOptions {
            range: Some(range),
            if_match: pin.and_then(Pin::strong).map(str::to_owned),
            extensions,
            ..GetOptions::default()
        };
        let answer = pollster::block_on(async {
            let answer = self.store.get_opts(name, options).await?;
            let (at, meta) = (answer.range.start, answer.meta.clone());
            Ok((at, meta, answer.bytes().await?))
        });
        let outcome = exchange.outcome();
        let piece = match (answer, outcome.empty.clone()) {
            (Ok((at, meta, bytes)), _) => Fetched { at, bytes, pin: Pin::of(&meta, outcome.write) },
            (Err(_), Some(tag)) => {
                Fetched { at: 0, bytes: Bytes::new(), pin: Pin::empty(tag, outcome.write) }
            }
            (Err(error), None) => return Err(self.refused(error, outcome).at(shown)),
        };
        match pin {
            Some(pin) if !pin.is_same(&piece.pin) => Err(replaced().at(shown)),
            _ => Ok(piece),
        }
    }

    /// The meaning of an error of `object_store`. Its own words are left out where there are ours:
    /// it prints URLs with everything that is in them.
    pub(super) fn refused(&self, error: object_store::Error, outcome: Outcome) -> Error {
        use object_store::Error as E;
        let trouble = outcome.trouble;
        let said =
            || trouble.clone().unwrap_or_else(|| shown_text(&error.to_string()).into_owned());
        match &error {
            _ if outcome.cancelled => Error::new(ErrorKind::Cancelled, "the request was cancelled"),
            _ if outcome.whole => {
                let message = "expected the bytes that were asked for, found the whole object: the server \
                               ignores range requests";
                Error::new(ErrorKind::Unsupported, message)
                    .advise("use a server that answers range requests, as all object stores do")
            }
            E::NotFound { .. } => Error::new(ErrorKind::NotFound, "there is no such object"),
            E::Precondition { .. } => replaced(),
            E::PermissionDenied { .. } | E::Unauthenticated { .. } if outcome.sent => {
                denied(said()).advise(self.advice())
            }
            _ if !outcome.sent && !self.service.is_read_only() => {
                let message = format!("there are no credentials that work: {}", said());
                Error::new(ErrorKind::Io, message).advise(self.advice())
            }
            _ => Error::new(ErrorKind::Io, said()),
        }
    }

    /// Advice for a refused access.
    fn advice(&self) -> &'static str {
        match self.service {
            Service::S3 => {
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to credentials with access to it, or \
                 AWS_SKIP_SIGNATURE=true if access is public"
            }
            Service::Google => {
                "set GOOGLE_APPLICATION_CREDENTIALS to credentials with access to it, or \
                 GOOGLE_SKIP_SIGNATURE=true if access is public"
            }
            Service::Azure => {
                "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY to credentials with access \
                 to it, or AZURE_SKIP_SIGNATURE=true if access is public"
            }
            Service::Hub => {
                "set HF_TOKEN to a token that may read it; the hub also answers so where there is no such repository"
            }
            Service::Http => {
                "put user and password into the URL, in front of its host: USER:PASSWORD@HOST"
            }
        }
    }

    /// Calls `work` with each of these on this thread and others. All callers together have no more
    /// others than there are connections.
    pub(super) fn each<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> R + Sync,
    ) -> Vec<R> {
        let most = items.len().saturating_sub(1);
        let mut helpers = 0;
        let _ = self.helpers.fetch_update(Relaxed, Relaxed, |busy| {
            helpers = most.min((self.connections - 1).saturating_sub(busy));
            Some(busy + helpers)
        });
        let done = in_parallel(items, helpers + 1, work);
        self.helpers.fetch_sub(helpers, Relaxed);
        done
    }
}

/// Another version has taken the place of the object.
fn replaced() -> Error {
    let message = "the object was replaced while it was open: open the dataset again";
    Error::new(ErrorKind::Replaced, message)
}

/// The server knows the object, or will not say.
fn denied(message: String) -> Error {
    let source = std::io::Error::new(std::io::ErrorKind::PermissionDenied, message.clone());
    Error::new(ErrorKind::Io, message).with_source(source)
}
