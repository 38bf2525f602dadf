//! Datasets of the Hugging Face Hub: `hf://datasets/OWNER/NAME@REVISION/FILE`.
//!
//! The hub says which commit it answers for, and leads on to other servers for large files. The first commit is
//! pinned: later requests name it, so all files of a dataset are of one commit, also during a push. The
//! token is sent to the hub alone.

use std::fmt;
use std::sync::OnceLock;

use http::header::{AUTHORIZATION, ETAG, HeaderName, IF_MATCH, LOCATION};
use http::uri::{Parts as UriParts, PathAndQuery};
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use ureq::Body;

use crate::error::{Error, ErrorKind, Result};

use super::options::RemoteOptions;
use super::url::{Address, no_server};

const ENDPOINT: &str = "https://huggingface.co";
/// The commit that an answer is of.
const COMMIT: HeaderName = HeaderName::from_static("x-repo-commit");
/// The digest of a file that another server has.
const LINKED_TAG: HeaderName = HeaderName::from_static("x-linked-etag");
/// Servers that an answer may come through.
const MOST_SERVERS: u32 = 6;

/// A repository of the hub, at one commit.
pub(super) struct Hub {
    /// `https://huggingface.co`, or what stands in for it.
    endpoint: String,
    /// `/datasets/OWNER/NAME/resolve/`.
    files: String,
    revision: String,
    token: Option<HeaderValue>,
    commit: OnceLock<String>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hub({}{}{})", self.endpoint, self.files, self.revision)
    }
}

impl Hub {
    /// The repository of an address, with the endpoint and the token of the options.
    pub(super) fn of(address: &Address, options: &RemoteOptions) -> Result<Hub> {
        let wrong = |message: String| Error::new(ErrorKind::Invalid, message);
        let repository = address.root.trim_start_matches("hf:/");
        let (repository, revision) = repository.split_once('@').unwrap_or((repository, "main"));
        let (mut endpoint, mut token) = (None, None);
        for (name, value) in &options.settings {
            match &name[..] {
                "hf_endpoint" => endpoint = Some(value.clone()),
                "hf_token" => token = Some(value.clone()),
                _ => return Err(wrong(format!("expected HF_ENDPOINT or HF_TOKEN, found {name}"))),
            }
        }
        let from_env = |name| {
            options
                .environment
                .then(|| std::env::var(name).ok())
                .flatten()
                .filter(|v| !v.is_empty())
        };
        let endpoint = endpoint.or_else(|| from_env("HF_ENDPOINT")).unwrap_or(ENDPOINT.to_owned());
        if let Some(message) = no_server("HF_ENDPOINT", &endpoint) {
            return Err(wrong(message));
        }
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let token = token.or_else(|| from_env("HF_TOKEN")).map(|token| {
            let header = HeaderValue::try_from(format!("Bearer {}", token.trim()));
            let mut header = header.map_err(|_| wrong("HF_TOKEN: expected a token".to_owned()))?;
            header.set_sensitive(true);
            Ok::<_, Error>(header)
        });
        Ok(Hub {
            endpoint,
            files: format!("{repository}/resolve/"),
            revision: revision.to_owned(),
            token: token.transpose()?,
            commit: OnceLock::new(),
        })
    }

    /// The URL that names of files follow.
    pub(super) fn base(&self) -> String {
        format!("{}{}{}", self.endpoint, self.files, self.revision)
    }

    /// Sends a request, and follows where the hub leads.
    pub(super) fn send(
        &self,
        uri: &Uri,
        mut headers: HeaderMap,
        run: impl Fn(Request<()>) -> Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, ureq::Error> {
        // The commit says which version it is, and other servers know other tags.
        headers.remove(IF_MATCH);
        let (mut to, mut tag) = (self.at_commit(uri), None);
        for _ in 0..MOST_SERVERS {
            let is_hub = self.is_hub(&to);
            let mut request = Request::builder().uri(&to).body(())?;
            *request.headers_mut() = headers.clone();
            if let Some(token) = self.token.as_ref().filter(|_| is_hub) {
                request.headers_mut().insert(AUTHORIZATION, token.clone());
            }
            let mut answer = run(request)?;
            let commit = answer.headers().get(COMMIT).and_then(|commit| commit.to_str().ok());
            if let Some(commit) = commit.filter(|commit| is_hub && is_commit(commit)) {
                // Other requests, sent together with this one, may have been told another.
                let pinned = self.commit.get_or_init(|| commit.to_owned());
                if pinned != commit {
                    to = self.at_commit(uri);
                    continue;
                }
            }
            if is_hub {
                tag = answer.headers().get(LINKED_TAG).cloned().or(tag);
            }
            if !answer.status().is_redirection() {
                if let Some(tag) = tag {
                    answer.headers_mut().insert(ETAG, tag);
                }
                return Ok(answer);
            }
            let location = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            to = location.and_then(|location| next(&to, location)).ok_or_else(|| {
                ureq::Error::BadUri("expected a redirect to https:// or http://".to_owned())
            })?;
        }
        Err(ureq::Error::TooManyRedirects)
    }

    /// The same file at the commit that is pinned.
    fn at_commit(&self, uri: &Uri) -> Uri {
        let Some(commit) = self.commit.get() else { return uri.clone() };
        let begin = format!("{}{}/", self.path(), self.revision);
        let file = uri.path_and_query().and_then(|path| path.as_str().strip_prefix(&begin));
        let there = file.and_then(|file| {
            let path = format!("{}{commit}/{file}", self.path());
            with_path(uri, &path)
        });
        there.unwrap_or_else(|| uri.clone())
    }

    /// The path of the files on the server: an endpoint may have a path of its own.
    fn path(&self) -> String {
        let path =
            self.endpoint.parse::<Uri>().map(|uri| uri.path().trim_end_matches('/').to_owned());
        format!("{}{}", path.unwrap_or_default(), self.files)
    }

    fn is_hub(&self, uri: &Uri) -> bool {
        self.endpoint
            .parse::<Uri>()
            .is_ok_and(|hub| hub.scheme() == uri.scheme() && hub.authority() == uri.authority())
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Where a redirect leads.
fn next(from: &Uri, location: &str) -> Option<Uri> {
    if location.starts_with('/') && !location.starts_with("//") {
        return with_path(from, location);
    }
    let uri: Uri = location.parse().ok()?;
    matches!(uri.scheme_str(), Some("https" | "http")).then_some(uri)
}

fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let mut parts: UriParts = uri.clone().into_parts();
    parts.path_and_query = Some(path.parse::<PathAndQuery>().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_on_or_nowhere() {
        let from: Uri = "https://hub.test/datasets/a/b/resolve/main/c".parse().unwrap();
        let to = |location| next(&from, location).map(|uri| uri.to_string());
        assert_eq!(to("/api/x?y=1").as_deref(), Some("https://hub.test/api/x?y=1"));
        assert_eq!(to("https://cdn.test/x?sig=1").as_deref(), Some("https://cdn.test/x?sig=1"));
        for wrong in ["//cdn.test/x", "x", "", "ftp://cdn.test/x", "https://", "file:///etc/passwd"]
        {
            assert_eq!(to(wrong), None, "{wrong}");
        }
    }
}
