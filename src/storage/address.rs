//! Names of files and URLs, as text.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result, Shown};

/// Whether this is the name of something behind a URL, rather than of a file: `s3://bucket/name`.
///
/// A `file://` URL is the name of a file.
pub fn is_url(path: impl AsRef<Path>) -> bool {
    scheme(path.as_ref()).is_some_and(|scheme| !scheme.eq_ignore_ascii_case("file"))
}

/// A name as it may be shown: [`Shown`] as a path.
pub fn shown(path: &Path) -> PathBuf {
    Shown::of(path).into_path()
}

/// What one storage serves of a URL: its bucket or server, or its repository.
#[cfg(feature = "convert")]
pub(crate) fn root(url: &str) -> &str {
    let begin = url.find("://").map_or(0, |at| at + 3);
    // hf://datasets/OWNER/NAME
    let parts = if url[..begin].eq_ignore_ascii_case("hf://") { 3 } else { 1 };
    let end = url[begin..].match_indices('/').nth(parts - 1);
    &url[..end.map_or(url.len(), |(at, _)| begin + at)]
}

/// The scheme of a URL.
pub(super) fn scheme(path: &Path) -> Option<&str> {
    let (scheme, rest) = path.to_str()?.split_once(':')?;
    let is_letter = |c: char| c.is_ascii_alphanumeric();
    // A single letter is a drive.
    let is_one = scheme.len() > 1 && scheme.chars().all(is_letter) && rest.starts_with("//");
    is_one.then_some(scheme)
}

/// The file that a `file://` URL names.
pub(super) fn local_path(url: &str) -> Result<PathBuf> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let wrong = || {
        let message = format!("expected file:///PATH in UTF-8, found {url}");
        Error::new(ErrorKind::Invalid, message)
    };
    if !(host.is_empty() || host.eq_ignore_ascii_case("localhost")) || path.is_empty() {
        return Err(wrong());
    }
    let path = unescape(path).ok_or_else(wrong)?;
    // file:///C:/data is C:/data.
    let drive = cfg!(windows) && path.as_bytes().get(2) == Some(&b':');
    Ok(PathBuf::from(if drive { &path[1..] } else { &path }))
}

/// Undoes the escapes of a URL: `%41` is `A`. `None` if that is not UTF-8.
pub(super) fn unescape(escaped: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(all(test, feature = "convert"))]
mod tests {
    use super::*;

    #[test]
    fn what_one_storage_serves() {
        for (url, expected) in [
            ("s3://bucket/a/b", "s3://bucket"),
            ("https://host:80/a/b", "https://host:80"),
            ("hf://datasets/me/pets@v1/a/b", "hf://datasets/me/pets@v1"),
            ("HF://datasets/me/pets/a", "HF://datasets/me/pets"),
            ("hf://datasets/me", "hf://datasets/me"),
            ("gs://bucket", "gs://bucket"),
        ] {
            assert_eq!(root(url), expected);
        }
    }
}
