//! Lines of a file: their ends, those without content, and keys by their numbers.

/// The line without its end.
pub(crate) fn trimmed(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|end| !matches!(end, b'\n' | b'\r'));
    &line[..end.map_or(0, |last| last + 1)]
}

/// Whether nothing is on the line, so that it is no sample.
pub(crate) fn is_empty(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    line.iter().all(u8::is_ascii_whitespace)
}

/// The key of a line that has none of its own.
pub(crate) fn numbered_key(stem: &str, number: u64) -> String {
    format!("{stem}/{number:09}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_lines() {
        for (line, expected) in
            [("a", "a"), ("a \r\n", "a "), ("\ra\n", "\ra"), ("\r\n", ""), ("", "")]
        {
            assert_eq!(trimmed(line.as_bytes()), expected.as_bytes(), "{line:?}");
        }
        assert!(is_empty(b"") && is_empty(b" \t\r\n") && is_empty(b"\xef\xbb\xbf\n"));
        assert!(!is_empty(b"0") && !is_empty(b" {"));
        assert_eq!(numbered_key("words.en", 7), "words.en/000000007");
    }
}
