//! The answer of a server that refuses: its status, and the code and message of an answer in XML, without
//! credentials of the request that it repeats.

use std::io::Read;

use base64::Engine as _;
use http::{StatusCode, header, request};

use super::super::unescape;
use crate::error::shown_text;

/// The most bytes of an error that are read to find its code.
const LONGEST: u64 = 16 << 10;
/// The most characters of its code or message.
const SHOWN: usize = 200;
/// Shorter values are no secrets, and may be part of any word.
const SHORTEST: usize = 3;

/// The credentials in a request.
struct Secrets(Vec<String>);

impl Secrets {
    fn of(request: &request::Parts) -> Secrets {
        let mut found = Vec::new();
        let query = request.uri.query().unwrap_or_default();
        for value in query.split('&').filter_map(|pair| pair.split_once('=')).map(|(_, v)| v) {
            found.extend(unescape(value));
            found.push(value.to_owned());
        }
        // In the name of an object `?` is a character like others, and a signature may follow it.
        let path = unescape(request.uri.path());
        for name in path.iter().filter_map(|path| path.split_once('?')) {
            found.extend(
                name.1
                    .split('&')
                    .filter_map(|pair| pair.split_once('='))
                    .map(|(_, v)| v.to_owned()),
            );
        }
        for name in [header::AUTHORIZATION.as_str(), "x-amz-security-token"] {
            let value = request.headers.get(name).and_then(|value| value.to_str().ok());
            let Some(value) = value else { continue };
            if let Some(encoded) = value.strip_prefix("Basic ") {
                let plain = base64::prelude::BASE64_STANDARD.decode(encoded).unwrap_or_default();
                let plain = String::from_utf8_lossy(&plain).into_owned();
                found.extend(plain.split_once(':').map(|(_, password)| password.to_owned()));
                found.push(plain);
            }
            // `AWS4-HMAC-SHA256 Credential=AKID/20261126/…, SignedHeaders=…, Signature=…`
            let words = value.split([' ', ',']).skip(usize::from(value.contains(' ')));
            let words = words.map(|word| {
                word.split_once('=').map_or(word, |(name, value)| {
                    // The sign is also the end of what base64 encodes.
                    if value.trim_matches('=').is_empty() { name } else { value }
                })
            });
            found.extend(words.map(str::to_owned));
        }
        found.retain(|secret| secret.len() >= SHORTEST);
        // One may be a part of another.
        found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Secrets(found)
    }

    fn hide(&self, text: &str) -> String {
        let text = shown_text(text).into_owned();
        self.0.iter().fold(text, |text, secret| text.replace(secret, "…"))
    }
}

/// The answer of a server that refuses a request. Not all of it, as it may repeat what was sent.
pub(super) fn refusal(request: &request::Parts, status: StatusCode, body: ureq::Body) -> String {
    refusal_of(request, status, &beginning(body))
}

/// The same, of the beginning of its answer.
pub(super) fn refusal_of(request: &request::Parts, status: StatusCode, text: &str) -> String {
    let secrets = Secrets::of(request);
    let parts = ["Code", "Message"].map(|name| element(text, name));
    let said = parts.into_iter().flatten().map(|part| {
        let shown = secrets.hide(part);
        shown.chars().filter(|c| !c.is_control()).take(SHOWN).collect::<String>()
    });
    let said: Vec<String> = said.collect();
    match said.is_empty() {
        true => format!("the server answers {status}"),
        false => format!("the server answers {status}: {}", said.join(": ")),
    }
}

/// The beginning of the body of a refusal. Unreadable parts are left out.
pub(super) fn beginning(body: ureq::Body) -> String {
    let mut text = Vec::new();
    let _ = body.into_reader().take(LONGEST).read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The content of the first element of this name in XML.
pub(super) fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(content, _)| content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_not_shown_when_it_is_repeated() {
        let request = http::Request::get("https://host/a?token=s3cret%2Fx&n=1&sig=abcdef")
            .header("authorization", "Basic bWU6aHVzaA==")
            .header("x-amz-security-token", "sessionsession")
            .body(());
        let (basic, ()) = request.unwrap().into_parts();
        let request = http::Request::get("https://host/a").header(
            "authorization",
            "AWS4-HMAC-SHA256 Credential=AKID/2026/s3, SignedHeaders=host, Signature=0123456789",
        );
        let (signed, ()) = request.body(()).unwrap().into_parts();
        let text = "<Error><Code>Denied</Code><Message>no s3cret/x, s3cret%2Fx, abcdef, me:hush, hush, \
                    bWU6aHVzaA==, sessionsession at https://u:pw@h/x?y</Message></Error>";
        let said = refusal_of(&basic, StatusCode::FORBIDDEN, text);
        for secret in ["s3cret", "abcdef", "hush", "bWU6", "session", "pw", "?y"] {
            assert!(!said.contains(secret), "{said}");
        }
        assert!(said.starts_with("the server answers 403 Forbidden: Denied: no …"), "{said}");
        assert!(said.ends_with("at https://h/x"), "{said}");
        let text =
            "<Code>SignatureDoesNotMatch</Code><Message>0123456789 by AKID/2026/s3</Message>";
        let said = refusal_of(&signed, StatusCode::FORBIDDEN, text);
        assert!(said.ends_with("SignatureDoesNotMatch: … by …"), "{said}");
        let long = format!("<Code>{}s3cret/x</Code>", "a".repeat(SHOWN - 2));
        let said = refusal_of(&basic, StatusCode::FORBIDDEN, &long);
        assert!(said.ends_with("aa…"), "{said}");
    }
}
