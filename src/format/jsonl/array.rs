//! [`Elements`]: the elements of a JSON array as lines, without reading all of it.
//!
//! Absent on purpose: whether an element is JSON, which its line says when it is parsed.

/// Makes lines of an array, one for each element, from any pieces of the text. Text that does not begin with `[` stays
/// as it is.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    state: State,
    /// Brackets that are open in the element.
    depth: usize,
    /// Whether the element has begun.
    has_value: bool,
    /// Elements before it.
    before: u64,
    /// The start, until it is known what it is.
    held: Vec<u8>,
}

/// Bytes at the start that show whether it is an array.
pub(crate) const MAX_HELD: usize = 1 << 16;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing but white space was seen, and perhaps a byte order mark.
    #[default]
    Start,
    /// It is no array.
    Lines,
    Between,
    /// In a string, perhaps after a backslash.
    Text {
        escaped: bool,
    },
    End,
}

/// What the first bytes of a text show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Too few to tell.
    Open,
    /// An array, whose elements begin here.
    Array(usize),
    Lines,
}

/// Whether a text is an array: of objects, or empty. Lines may begin with a bracket too.
fn start_of(text: &[u8]) -> Start {
    let is_space = |byte: u8| byte.is_ascii_whitespace() || b"\xef\xbb\xbf".contains(&byte);
    let mut bytes = text.iter().enumerate().filter(|(_, byte)| !is_space(**byte));
    match (bytes.next(), bytes.next()) {
        (None, _) | (Some((_, b'[')), None) => Start::Open,
        (Some((at, b'[')), Some((_, b'{' | b']'))) => Start::Array(at + 1),
        _ => Start::Lines,
    }
}

/// Whether a text begins like an array of objects.
pub(crate) fn begins(head: &[u8]) -> bool {
    matches!(start_of(head), Start::Array(_))
}

impl Elements {
    /// Whether the text is an array.
    pub(crate) fn is_array(&self) -> bool {
        !matches!(self.state, State::Start | State::Lines)
    }

    /// Adds the lines of the next piece of the text to `out`.
    ///
    /// # Errors
    ///
    /// What was expected, and what was found, if it is no array.
    pub(crate) fn push(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let joined;
        let mut text = text;
        if self.state == State::Start {
            self.held.extend_from_slice(text);
            match start_of(&self.held) {
                Start::Open if self.held.len() <= MAX_HELD => return Ok(()),
                Start::Open | Start::Lines => self.state = State::Lines,
                Start::Array(at) => {
                    self.held.drain(..at);
                    self.state = State::Between;
                }
            }
            joined = std::mem::take(&mut self.held);
            text = &joined;
        }
        if self.state == State::Lines {
            out.extend_from_slice(text);
            return Ok(());
        }
        text.iter().try_for_each(|byte| self.next(*byte, out))
    }

    /// The end of the text.
    ///
    /// # Errors
    ///
    /// The same, if it ends within an array.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        out.append(&mut self.held);
        match self.state {
            State::Start | State::Lines | State::End => Ok(()),
            _ => Err(self.wrong("the end of the array", "the end of file")),
        }
    }

    fn wrong(&self, expected: &str, found: &str) -> String {
        format!("element {}: expected {expected}, found {found}", self.before + 1)
    }

    fn next(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), String> {
        match (self.state, byte) {
            (State::End, byte) if byte.is_ascii_whitespace() => return Ok(()),
            (State::End, _) => {
                return Err("expected nothing after the array, found more".to_owned());
            }
            (State::Text { .. }, b'\n' | b'\r') => {
                return Err(self.wrong("the end of a string", "a line end"));
            }
            (State::Text { escaped: true }, _) => self.state = State::Text { escaped: false },
            (State::Text { .. }, b'\\') => self.state = State::Text { escaped: true },
            (State::Text { .. }, b'"') => self.state = State::Between,
            (State::Text { .. }, _) => {}
            (_, b'\n' | b'\r') => {
                out.push(b' ');
                return Ok(());
            }
            (_, b',' | b']') if self.depth == 0 => {
                let is_empty = byte == b']' && self.before == 0;
                if !self.has_value && !is_empty {
                    return Err(
                        self.wrong("a value", if byte == b',' { "a comma" } else { "a bracket" })
                    );
                }
                if byte == b']' {
                    self.state = State::End;
                }
                if self.has_value {
                    out.push(b'\n');
                }
                self.before += 1;
                self.has_value = false;
                return Ok(());
            }
            (_, b'"') => self.state = State::Text { escaped: false },
            (_, b'{' | b'[') => self.depth += 1,
            (_, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.has_value |= !byte.is_ascii_whitespace();
        out.push(byte);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a text that comes in pieces of this many bytes.
    fn lines(text: &[u8], bytes: usize) -> Result<String, String> {
        let (mut elements, mut out) = (Elements::default(), Vec::new());
        for piece in text.chunks(bytes) {
            elements.push(piece, &mut out)?;
        }
        elements.finish(&mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn elements_are_lines_however_the_text_is_cut() {
        for (text, expected) in [
            (r#"[{"a":1},{"b":[1,2]}]"#, "{\"a\":1}\n{\"b\":[1,2]}\n"),
            ("\u{feff} [\n {\"a\":\n 1} ,\r\n 2\n]\n", "  {\"a\":  1} \n   2 \n"),
            (
                r#"[{"a":"],["}, "\"]\\", {"]":"}"}]"#,
                "{\"a\":\"],[\"}\n \"\\\"]\\\\\"\n {\"]\":\"}\"}\n",
            ),
            ("[]", ""),
            (" [ ] ", " "),
            ("[1,2]\n{}\n", "[1,2]\n{}\n"),
            ("[", "["),
            ("{\"a\":1}\n[2]\n", "{\"a\":1}\n[2]\n"),
            ("", ""),
            (" \n", " \n"),
        ] {
            for bytes in 1..=text.len().max(1) {
                assert_eq!(
                    lines(text.as_bytes(), bytes).as_deref(),
                    Ok(expected),
                    "{text} {bytes}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_array_is_an_error() {
        for (text, says) in [
            ("[{},,2]", "element 2: expected a value, found a comma"),
            ("[{},]", "element 2: expected a value, found a bracket"),
            ("[{}", "element 1: expected the end of the array, found the end of file"),
            ("[{\"a\":1}, {", "element 2: expected the end of the array"),
            ("[{\"a\n\"}]", "element 1: expected the end of a string, found a line end"),
            ("[{}] 2", "expected nothing after the array, found more"),
        ] {
            for bytes in 1..=text.len() {
                let found = lines(text.as_bytes(), bytes).unwrap_err();
                assert!(found.starts_with(says), "{text} {bytes}: {found}");
            }
        }
    }
}
