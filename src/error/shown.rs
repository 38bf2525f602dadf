//! [`Shown`]: paths and text on their way to people, without what opens a door.
//!
//! A URL may hold a password, a token or a signature. All that is printed goes through here: errors,
//! messages and JSON of the command. Text without URLs is unchanged.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// A path or URL as it may be shown: of a URL without user, password, query and fragment.
///
/// In the names of objects in a store `?` is a character like others, so they stay, unless what follows
/// is a signature. `container@account` of Azure is no user.
///
/// ```
/// use kiste::storage::Shown;
///
/// let url = "https://me:secret@host/a.msgpack?signature=1";
/// assert_eq!(Shown::of(url).to_string(), "https://host/a.msgpack");
/// assert_eq!(Shown::of("a?b@c").to_string(), "a?b@c");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shown(PathBuf);

impl Shown {
    /// This path or URL.
    pub fn of(path: &(impl AsRef<Path> + ?Sized)) -> Shown {
        let path = path.as_ref();
        match path.to_str().and_then(shown_url) {
            Some(url) => Shown(PathBuf::from(url)),
            None => Shown(path.to_path_buf()),
        }
    }

    /// As a path to show; it may not open the file.
    pub fn into_path(self) -> PathBuf {
        self.0
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// For `serialize_with`: a path as it may be shown.
pub(crate) fn serialize_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    Shown::of(path).serialize(serializer)
}

/// The same of a path that may be absent.
pub(crate) fn serialize_maybe<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    path.as_ref().map(Shown::of).serialize(serializer)
}

/// The same of some paths.
pub(crate) fn serialize_paths<S: Serializer>(
    paths: &[PathBuf],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(Shown::of))
}

/// The text to show for a text with URLs in it.
pub fn shown_text(text: &str) -> Cow<'_, str> {
    if !text.contains(":/") {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut rest, mut changed) = (String::with_capacity(text.len()), text, false);
    while let Some(at) = rest.find(":/") {
        let before = rest[..at].trim_end_matches(|c: char| c.is_ascii_alphanumeric());
        let start = before.len();
        // The command's colours are characters that Unicode keeps free.
        let is_end = |c: char| {
            c.is_whitespace()
                || c.is_control()
                || matches!(c, '"' | '\'' | '`' | '>' | '<' | '\u{fdd0}'..='\u{fdef}')
        };
        let end = rest[at..].find(is_end).map_or(rest.len(), |end| at + end);
        // A closing parenthesis or the end of a clause is not part of the URL.
        let url = rest[start..end].trim_end_matches([')', ']', '}', ',', ';', ':', '.']);
        shown.push_str(&rest[..start]);
        match shown_url(url) {
            Some(url) => {
                changed = true;
                shown.push_str(&url);
            }
            None => shown.push_str(url),
        }
        rest = &rest[start + url.len()..];
    }
    shown.push_str(rest);
    if changed { Cow::Owned(shown) } else { Cow::Borrowed(text) }
}

/// The names of signatures in queries, and of what goes along with them.
const SIGNATURES: [&str; 19] = [
    "sig",
    "signature",
    "token",
    "access_token",
    "expires",
    "policy",
    "key-pair-id",
    "awsaccesskeyid",
    "googleaccessid",
    "sv",
    "se",
    "st",
    "sp",
    "sr",
    "spr",
    "sip",
    "skoid",
    "ske",
    "skt",
];

/// Whether a part `NAME=VALUE` of a query signs it, or says for how long that is valid.
pub(crate) fn is_signature(part: &str) -> bool {
    let name = part.split('=').next().unwrap_or_default().to_ascii_lowercase();
    let starts = ["x-amz-", "x-goog-", "x-oss-"];
    starts.iter().any(|start| name.starts_with(start)) || SIGNATURES.contains(&&*name)
}

/// A URL as it may be shown, if it is one and that differs.
fn shown_url(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once(":/")?;
    let is_scheme = scheme.len() > 1 && scheme.bytes().all(|b| b.is_ascii_alphanumeric());
    if !is_scheme {
        return None;
    }
    let (slashes, rest) = match rest.strip_prefix('/') {
        Some(rest) => ("//", rest),
        None => ("/", rest),
    };
    let (names_may_ask, names_account) = match &*scheme.to_ascii_lowercase() {
        // Of a repository `@` begins the revision.
        "file" | "hf" => return None,
        "s3" | "s3a" | "gs" => (true, false),
        "az" | "azure" | "adl" | "abfs" | "abfss" => (true, true),
        // Joining paths may have left one slash of two.
        "http" | "https" => (false, false),
        _ if slashes == "/" => return None,
        _ => (false, false),
    };
    let rest_shown = without_user(rest, names_account);
    let at = rest_shown.find(['?', '#']);
    let name = match at.map(|at| rest_shown.split_at(at)) {
        Some((_, query)) if names_may_ask && !query[1..].split(['&', '?']).any(is_signature) => {
            rest_shown
        }
        Some((name, _)) => name,
        None => rest_shown,
    };
    (name.len() != rest.len()).then(|| format!("{scheme}:{slashes}{name}"))
}

/// The rest after `user:password@`. A password may hold any character, escaped or not.
fn without_user(rest: &str, names_account: bool) -> &str {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match rest[..end].rsplit_once('@') {
        Some((user, host)) if !names_account || user.contains(':') => &rest[end - host.len()..],
        Some(_) => rest,
        // No host ends like this: what follows the colon is the beginning of a password.
        None => match rest[..end].rsplit_once(':') {
            Some((user, port)) if !is_port(port) && !port.ends_with(']') => {
                rest.rfind('@').map_or(user, |at| &rest[at + 1..])
            }
            _ => rest,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_a_door_is_not_shown() {
        for (url, shown) in [
            ("https://me:pw@host/a.msgpack?sig=1", "https://host/a.msgpack"),
            ("https://me:pw@host:8080/a#token=1", "https://host:8080/a"),
            ("HTTP://pw@[::1]:80/a", "HTTP://[::1]:80/a"),
            ("https://host?sig=1", "https://host"),
            ("https:/me:pw@host/a", "https:/host/a"),
            ("https://me:p/w@host/a", "https://host/a"),
            ("https://me:p?w#@host/a?b", "https://host/a"),
            ("https://me:pw@host/a.msgpack?sig=1.partial", "https://host/a.msgpack"),
            // A part that another crate took for a whole URL.
            ("https://me:pw", "https://me"),
            ("s3://me:pw@bucket/a?b", "s3://bucket/a?b"),
            ("s3://bucket/a?x=1&X-Amz-Signature=1", "s3://bucket/a"),
            ("az://container/a?sv=1&sig=2", "az://container/a"),
            (
                "abfss://me:pw@account.dfs.core.windows.net/a",
                "abfss://account.dfs.core.windows.net/a",
            ),
            ("ftp://me:pw@host/a?x", "ftp://host/a"),
        ] {
            assert_eq!(Shown::of(url).to_string(), shown);
            assert_eq!(serde_json::to_value(Shown::of(url)).unwrap(), *shown);
            let (text, clean) = (format!("no {url}: a (b)"), format!("no {shown}: a (b)"));
            if !url.contains("p?w") {
                assert_eq!(shown_text(&text), clean);
                assert_eq!(shown_text(&format!("({url:?})")), format!("({shown:?})"));
            }
        }
    }

    #[test]
    fn all_else_stays_as_it_is() {
        for path in [
            "a?b@c",
            "https://host:80/a/b.msgpack",
            "https://[::1]/a",
            "s3://bucket/a?b#c",
            "gs://bucket/a@b",
            "abfss://container@account.dfs.core.windows.net/a",
            "file:///a?b@c:d",
            "C:/me:pw@host",
            "/a/b:c@d?e",
            "",
        ] {
            assert_eq!(Shown::of(path).to_string(), path);
            let text = format!("expected {path}, found http://h/x: 12:30:00, a:b/c");
            assert!(matches!(shown_text(&text), Cow::Borrowed(same) if same == text));
        }
        assert_eq!(shown_text("ä://ü@ö?é"), "ä://ü@ö?é");
        assert_eq!(
            shown_text("see https://u@h?q) and s3://b/k?sig=1."),
            "see https://h) and s3://b/k."
        );
    }
}
