//! From a URL to the object that it names, and to how its name is shown: without what is secret.

use crate::error::{Error, ErrorKind, Result, is_signature};

/// The service behind a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// S3, and what speaks its dialect.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
    /// Any HTTP server.
    Http,
    /// The Hugging Face Hub.
    Hub,
}

impl Service {
    /// Whether there is nothing but reading.
    pub(super) fn is_read_only(self) -> bool {
        matches!(self, Service::Http | Service::Hub)
    }
}

/// A URL, taken apart. Its `Debug` shows nothing secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) service: Service,
    /// The prefix of all names as shown: `s3://bucket`, `https://host:8080`.
    pub(super) root: String,
    /// The name below the root, as it stands in the URL.
    pub(super) name: String,
    /// `user:password` in front of the host.
    pub(super) user: Option<String>,
    /// The part after the `?`, such as a signature. It is sent with every request.
    pub(super) query: Option<String>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.root, self.name)
    }
}

/// The schemes of URLs, and what speaks them. `file` is no service.
const SCHEMES: [(&str, Option<Service>); 13] = [
    ("s3", Some(Service::S3)),
    ("s3a", Some(Service::S3)),
    ("gs", Some(Service::Google)),
    ("az", Some(Service::Azure)),
    ("azure", Some(Service::Azure)),
    ("adl", Some(Service::Azure)),
    ("abfs", Some(Service::Azure)),
    ("abfss", Some(Service::Azure)),
    ("http", Some(Service::Http)),
    ("https", Some(Service::Http)),
    ("hf", Some(Service::Hub)),
    ("file", None),
    ("memory", None),
];

impl Address {
    /// Takes a URL apart.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it has no host or bucket, or names no object. The message
    /// shows no password and no signature.
    pub(super) fn parse(url: &str) -> Result<Address> {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let scheme = scheme.to_ascii_lowercase();
        let service = SCHEMES.iter().find(|(name, _)| *name == scheme).and_then(|(_, s)| *s);
        let Some(service) = service else {
            let message = format!(
                "expected a URL that begins with s3://, gs://, az://, abfss://, hf://, http:// or https://, found {scheme}://"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        if service == Service::Hub {
            let (root, name) = split_hub(rest)?;
            return Ok(Address { service, root, name, user: None, query: None });
        }
        // Names in buckets may hold these; in the URL of a web server they have a meaning.
        let (rest, query) = match service {
            Service::Http => {
                let rest = rest.split('#').next().unwrap_or_default();
                match rest.split_once('?') {
                    Some((rest, query)) => (rest, Some(query.to_owned())),
                    None => (rest, None),
                }
            }
            _ => (rest, None),
        };
        let (host, name) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = match (service, host.rsplit_once('@')) {
            // For Azure it is the container: abfss://container@account.dfs.core.windows.net
            (Service::Azure, _) | (_, None) => (None, host),
            (_, Some((user, host))) => (Some(user.to_owned()), host),
        };
        let root = format!("{scheme}://{host}");
        let name = name.trim_matches('/');
        if host.is_empty() || name.is_empty() {
            let message =
                format!("expected SCHEME://HOST/NAME or SCHEME://BUCKET/NAME, found {root}/{name}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Address { service, root, name: name.to_owned(), user, query })
    }

    /// The name as it is shown.
    pub(super) fn shown(&self) -> String {
        format!("{}/{}", self.root, self.name)
    }

    /// The query without what signs it or says for how long that is valid: what else is in it may choose
    /// what is at the URL.
    pub(super) fn unsigned_query(&self) -> String {
        let parts = self.query.as_deref().unwrap_or_default().split('&');
        parts.filter(|part| !is_signature(part)).collect::<Vec<_>>().join("&")
    }

    /// The URL for the builders of `object_store`: the root, with the query that goes along.
    pub(super) fn base(&self) -> String {
        match &self.query {
            Some(query) => format!("{}/?{query}", self.root),
            None => self.root.clone(),
        }
    }
}

/// Why the setting of this name is no URL of a server, if it is none. Stores take any text, and panic when they send a
/// request there.
pub(super) fn no_server(name: &str, text: &str) -> Option<String> {
    let is_http = text.starts_with("https://") || text.starts_with("http://");
    let has_host = |uri: http::Uri| uri.host().is_some_and(|host| !host.is_empty());
    if is_http && text.parse().is_ok_and(has_host) {
        return None;
    }
    // Without user, password and query, wherever they stand in it.
    let shown = text.rsplit('@').next().unwrap_or_default().split('?').next().unwrap_or_default();
    Some(format!("{name}: expected https://HOST or http://HOST, found {shown:?}"))
}

/// The repository and the file of `hf://` and this: `datasets/OWNER/NAME@REVISION`, and the name.
fn split_hub(rest: &str) -> Result<(String, String)> {
    let wrong = |message: String| Err(Error::new(ErrorKind::Invalid, message));
    let mut parts = rest.splitn(4, '/');
    let [kind, owner, name] = [(); 3].map(|()| parts.next().unwrap_or_default());
    let file = parts.next().unwrap_or_default().trim_matches('/');
    if kind == "buckets" {
        let message =
            "hf://buckets/ is read by its S3 gateway: s3://BUCKET/NAME with AWS_ENDPOINT_URL set";
        return wrong(message.to_owned());
    }
    let (bare, revision) = name.split_once('@').unwrap_or((name, "main"));
    let is_name = |text: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !text.is_empty() && text.bytes().all(known) && !text.trim_matches('.').is_empty()
    };
    let is_revision = is_name(&revision.replace("%2F", "-").replace("%2f", "-"));
    if kind != "datasets" || !is_name(owner) || !is_name(bare) || !is_revision || file.is_empty() {
        return wrong(format!(
            "expected hf://datasets/OWNER/NAME/FILE or hf://datasets/OWNER/NAME@REVISION/FILE, found hf://{rest}"
        ));
    }
    Ok((format!("hf://{kind}/{owner}/{name}"), file.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::shown_text;

    #[test]
    fn urls_are_taken_apart() {
        let cases = [
            ("s3://bucket/a/b.msgpack", Service::S3, "s3://bucket", "a/b.msgpack"),
            ("S3A://bucket/a b?c#d", Service::S3, "s3a://bucket", "a b?c#d"),
            ("gs://bucket/x", Service::Google, "gs://bucket", "x"),
            ("az://container/x", Service::Azure, "az://container", "x"),
            (
                "abfss://container@account.dfs.core.windows.net/d/x",
                Service::Azure,
                "abfss://container@account.dfs.core.windows.net",
                "d/x",
            ),
            ("http://host:80/x", Service::Http, "http://host:80", "x"),
            ("https://[::1]/d/x#there", Service::Http, "https://[::1]", "d/x"),
        ];
        for (url, service, root, name) in cases {
            let address = Address::parse(url).unwrap();
            assert_eq!((address.service, &*address.root, &*address.name), (service, root, name));
            assert_eq!((address.user, address.query), (None, None), "{url}");
        }
    }

    #[test]
    fn secrets_are_kept_apart_and_never_shown() {
        let address = Address::parse("https://me:p%40ss@host/a.msgpack?sig=abc&x=1").unwrap();
        assert_eq!(address.user.as_deref(), Some("me:p%40ss"));
        assert_eq!(address.query.as_deref(), Some("sig=abc&x=1"));
        assert_eq!(address.shown(), "https://host/a.msgpack");
        assert_eq!(format!("{address:?}"), "https://host/a.msgpack");
        let message = "GET http://me:pw@host:9/b?X-Amz-Signature=12 in 1s (see https://u@h?q)";
        assert_eq!(shown_text(message), "GET http://host:9/b in 1s (see https://h)");
    }

    #[test]
    fn signatures_do_not_tell_objects_apart() {
        let query = |url: &str| Address::parse(url).unwrap().unsigned_query();
        assert_eq!(query("https://h/x?file=a&X-Amz-Signature=12&Expires=9&n=1"), "file=a&n=1");
        assert_eq!(query("https://h/x?sv=1&sig=abc"), "");
        assert_eq!(query("https://h/x"), "");
    }

    #[test]
    fn what_names_nothing_is_refused_without_its_secrets() {
        for url in
            ["ftp://host/x", "memory://a/b", "s3://bucket", "https:///x", "https://u:pw@h?s=1"]
        {
            let error = Address::parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            assert!(!error.to_string().contains("pw"), "{error}");
            assert!(!error.to_string().contains("s=1"), "{error}");
        }
    }

    #[test]
    fn repositories_and_files() {
        let found = |rest: &str| split_hub(rest).unwrap();
        let both = |root: &str, file: &str| (root.to_owned(), file.to_owned());
        assert_eq!(
            found("datasets/me/pets/a/b c.msgpack"),
            both("hf://datasets/me/pets", "a/b c.msgpack")
        );
        assert_eq!(found("datasets/me/p.1@v1.0/x"), both("hf://datasets/me/p.1@v1.0", "x"));
        assert_eq!(
            found("datasets/me/p@refs%2Fpr%2F1/x"),
            both("hf://datasets/me/p@refs%2Fpr%2F1", "x")
        );
        for wrong in [
            "datasets/me/pets",
            "datasets/me",
            "me/pets/x",
            "models/me/pets/x",
            "datasets/me/pets@/x",
            "datasets/../pets/x",
            "datasets/m e/pets/x",
            "datasets/me/pets@a?b/x",
            "",
            "datasets/me/pets@../x",
        ] {
            assert_eq!(split_hub(wrong).unwrap_err().kind(), ErrorKind::Invalid, "{wrong}");
        }
        assert!(split_hub("buckets/me/x").unwrap_err().message().contains("S3 gateway"));
    }
}
