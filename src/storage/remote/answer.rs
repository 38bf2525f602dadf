//! What an answer is, by its head: the bytes that were asked for, an error, or none that can be believed.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use http::StatusCode;
use http::header;
use object_store::client::HttpErrorKind;

use super::exchange::{Exchange, Outcome};
use super::refusal::{beginning, element, refusal};

/// The longest answer to a request without a range: a token, or a list of them.
const LONGEST_ANSWER: u64 = 1 << 20;

/// The header [`WRITE`](super::exchange::WRITE), of each service.
const WRITE_HEADERS: [&str; 3] =
    ["x-amz-meta-kistewrite", "x-goog-meta-kistewrite", "x-ms-meta-kistewrite"];

/// Why a try had no answer.
pub(super) enum Wrong {
    /// Another try may help: why, and how long the server asks to wait.
    Again(Trouble, Option<Duration>),
    Failed(Trouble),
}

/// The cause of a failure, in words that reveal no secret.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) message: String,
    pub(super) kind: HttpErrorKind,
    /// No server answers at the other end.
    pub(super) unreachable: bool,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Trouble {}

/// What the head of an answer says.
pub(super) enum Judged {
    /// All that is of use: an error that the caller understands, or an empty object.
    Whole,
    /// No answer.
    Wrong(Wrong),
    /// The body has the answer: this many bytes, if it says so, and at most `limit`.
    Body { body: ureq::Body, expected: Option<u64>, limit: u64 },
}

pub(super) fn again(kind: HttpErrorKind, message: String) -> Wrong {
    Wrong::Again(Trouble { message, kind, unreachable: false }, None)
}

pub(super) fn failure(kind: HttpErrorKind, message: String) -> Wrong {
    Wrong::Failed(Trouble { message, kind, unreachable: false })
}

/// Looks at the head of an answer, and at the body where that says why there is none.
pub(super) fn judged(
    request: &http::request::Parts,
    answer: &http::response::Parts,
    body: ureq::Body,
    exchange: Option<&Exchange>,
) -> Judged {
    let (status, note) = (answer.status, |noted: &dyn Fn(&mut Outcome)| {
        if let Some(exchange) = exchange {
            exchange.note(noted);
        }
    });
    let text = |name| answer.headers.get(name).and_then(|value| value.to_str().ok());
    if is_busy(status) {
        let wait = text(header::RETRY_AFTER).and_then(|wait| wait.trim().parse().ok());
        let (message, kind) = (refusal(request, status, body), HttpErrorKind::Request);
        let trouble = Trouble { message, kind, unreachable: false };
        return Judged::Wrong(Wrong::Again(trouble, wait.map(Duration::from_secs)));
    }
    let found = WRITE_HEADERS.into_iter().find_map(|name| answer.headers.get(name)?.to_str().ok());
    let write = found.and_then(|write| u64::from_str_radix(write.trim(), 16).ok());
    note(&|outcome| outcome.write = write);
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.trim().parse().ok());
    let named = text(header::CONTENT_RANGE).map(content_range_len);
    let range = request.headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    let limit = match (range, status) {
        (Some(_), StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::OK) => {
            // The header is optional: S3 may give the size in the body alone. The body of any other
            // answer is not read: it may be as large as the object.
            let is_empty = match status {
                StatusCode::OK => length == Some(0),
                _ => {
                    text(header::CONTENT_RANGE) == Some("bytes */0")
                        || element(&beginning(body), "ActualObjectSize") == Some("0")
                }
            };
            let tag = text(header::ETAG);
            note(&|outcome| match is_empty {
                true => outcome.empty = Some(tag.map(str::to_owned)),
                false => outcome.whole = status == StatusCode::OK,
            });
            return Judged::Whole;
        }
        (Some(_), StatusCode::PARTIAL_CONTENT) if named == Some(None) => {
            // `object_store` counts with what it says.
            let message = "expected the range that was asked for, found none".to_owned();
            return Judged::Wrong(failure(HttpErrorKind::Decode, message));
        }
        (Some(range), StatusCode::PARTIAL_CONTENT) => range_len(range),
        _ if status.is_success() => Some(LONGEST_ANSWER),
        _ => {
            let message = refusal(request, status, body);
            // If two write at once, one of them should try again, as the other may fail.
            if status == StatusCode::CONFLICT && message.contains("ConditionalRequestConflict") {
                return Judged::Wrong(again(HttpErrorKind::Request, message));
            }
            note(&|outcome| outcome.trouble = Some(message.clone()));
            return Judged::Whole;
        }
    };
    let named = named.flatten();
    if let (StatusCode::PARTIAL_CONTENT, Some(named), Some(length)) = (status, named, length) {
        // No answer that was cut short, which may come whole the next time.
        if named != length {
            let message = format!("the server sends {length} bytes as a range of {named}");
            return Judged::Wrong(failure(HttpErrorKind::Decode, message));
        }
    }
    Judged::Body { body, expected: named.or(length), limit: limit.unwrap_or(LONGEST_ANSWER) }
}

/// An answer that began well, and says in its body that the server may answer later.
pub(super) fn is_busy_inside(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    text.contains("<Error>")
        && ["InternalError", "SlowDown", "ServiceUnavailable"]
            .iter()
            .any(|code| text.contains(code))
}

/// The server may answer later.
fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504)
}

/// How many bytes a range asks for: `bytes=FIRST-LAST` or `bytes=-LEN`.
fn range_len(range: &str) -> Option<u64> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let last: u64 = last.parse().ok()?;
    match first.is_empty() {
        true => Some(last),
        false => last.checked_sub(first.parse().ok()?)?.checked_add(1),
    }
}

/// How many bytes an answer holds: `bytes FIRST-LAST/TOTAL`.
fn content_range_len(range: &str) -> Option<u64> {
    let (range, _) = range.trim().strip_prefix("bytes ")?.split_once('/')?;
    // The end of it is a number as well.
    let (_, last) = range.split_once('-')?;
    last.parse::<u64>().ok()?.checked_add(1)?;
    range_len(&format!("bytes={range}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_ranges() {
        assert_eq!(range_len("bytes=0-0"), Some(1));
        assert_eq!(range_len("bytes=5-104"), Some(100));
        assert_eq!(range_len("bytes=-7"), Some(7));
        assert_eq!(range_len("bytes=9-5"), None);
        assert_eq!(range_len("bytes=0-18446744073709551615"), None);
        assert_eq!(content_range_len("bytes 5-104/1000"), Some(100));
        assert_eq!(content_range_len("bytes */0"), None);
        assert_eq!(content_range_len("bytes 5-18446744073709551615/9"), None);
    }
}
