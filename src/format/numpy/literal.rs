//! Python literals: the part of `ast.literal_eval` that types and headers use.
//!
//! That is text, byte strings, whole numbers, `True`, `False` and `None`, lists, tuples and
//! dictionaries of these. JSON is read where it has the same syntax, because early bloscpack files
//! store types in it. Absent on purpose: everything in Python that is not a literal, and floats,
//! which no type has.

use crate::format::FormatError;

/// How deep lists, tuples and dictionaries may be nested: twice the limit of structured types,
/// as each of those is a list of tuples, and some for what is around them.
const MAX_DEPTH: usize = 72;

/// A literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Text, or a byte string that is UTF-8.
    Text(String),
    /// A list: `[1, 2]`.
    List(Vec<Literal>),
    /// A tuple: `(1, 2)`.
    Tuple(Vec<Literal>),
    /// A dictionary: `{'a': 1}`.
    Dict(Vec<(Literal, Literal)>),
}

impl Literal {
    /// Reads one literal and nothing else, with spaces around it.
    pub fn parse(text: &str) -> Result<Literal, FormatError> {
        let mut parser = Parser { text, at: 0 };
        let literal = parser.value(MAX_DEPTH)?;
        parser.space();
        match parser.rest().is_empty() {
            true => Ok(literal),
            false => Err(parser.refuse("the end of the literal")),
        }
    }

    /// Text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Literal::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of a list or tuple.
    pub fn as_items(&self) -> Option<&[Literal]> {
        match self {
            Literal::List(items) | Literal::Tuple(items) => Some(items),
            _ => None,
        }
    }

    /// A number that is a length.
    pub fn as_len(&self) -> Option<usize> {
        match self {
            Literal::Int(number) => usize::try_from(*number).ok(),
            _ => None,
        }
    }

    /// A short name for error messages.
    pub(in crate::format) fn noun(&self) -> String {
        match self {
            Literal::None => "None".to_owned(),
            Literal::Bool(value) => if *value { "True" } else { "False" }.to_owned(),
            Literal::Int(number) => format!("the number {number}"),
            Literal::Text(text) => format!("the text {:?}", shortened(text)),
            Literal::List(items) => format!("a list of {}", items.len()),
            Literal::Tuple(items) => format!("a tuple of {}", items.len()),
            Literal::Dict(items) => format!("a dictionary of {}", items.len()),
        }
    }
}

/// Text as Python's `repr` writes it: in single quotes if that needs fewer backslashes or as many.
pub(crate) fn text_repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                out.push_str(&match code {
                    0..=0xff => format!("\\x{code:02x}"),
                    0x100..=0xffff => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                });
            }
        }
    }
    out.push(quote);
    out
}

/// Whether Python prints a character as it is. Rust's `escape_debug` follows the same categories of
/// Unicode, except that it escapes combining marks at the beginning of a text: so another
/// character is put before.
fn is_printable(c: char) -> bool {
    matches!(c, '"' | '\'' | '\\') || {
        let mut buffer = [b'a', 0, 0, 0, 0];
        let len = 1 + c.encode_utf8(&mut buffer[1..]).len();
        std::str::from_utf8(&buffer[..len]).is_ok_and(|text| text.escape_debug().count() == 2)
    }
}

/// The beginning of a text that may be long.
pub(in crate::format) fn shortened(text: &str) -> &str {
    text.char_indices().nth(40).map_or(text, |(end, _)| &text[..end])
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']).len();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.space();
        let eaten = self.rest().starts_with(token);
        self.at += if eaten { token.len() } else { 0 };
        eaten
    }

    #[cold]
    fn refuse(&self, expected: &str) -> FormatError {
        let found = match shortened(self.rest()) {
            "" => "the end of the text".to_owned(),
            rest => format!("{rest:?}"),
        };
        FormatError::new(self.at as u64, expected, found)
    }

    /// Reads a value with at most this many nested containers, which bounds the recursion.
    fn value(&mut self, levels: usize) -> Result<Literal, FormatError> {
        self.space();
        let Some(first) = self.rest().chars().next() else {
            return Err(self.refuse("a literal"));
        };
        if matches!(first, '[' | '(' | '{') {
            let deeper = levels.checked_sub(1);
            let levels =
                deeper.ok_or_else(|| self.refuse(&format!("at most {MAX_DEPTH} brackets")))?;
            self.at += 1;
            return match first {
                '[' => Ok(Literal::List(self.items("]", levels)?.0)),
                '(' => match self.items(")", levels)? {
                    // Parentheses around one value are only parentheses.
                    (mut items, false) if items.len() == 1 => Ok(items.remove(0)),
                    (items, _) => Ok(Literal::Tuple(items)),
                },
                _ => self.dict(levels),
            };
        }
        if let Some(text) = self.string()? {
            // Neighbours are one text.
            let mut text = text;
            loop {
                self.space();
                match self.string()? {
                    Some(more) => text.push_str(&more),
                    None => return Ok(Literal::Text(text)),
                }
            }
        }
        for (word, literal) in [
            ("None", Literal::None),
            ("True", Literal::Bool(true)),
            ("False", Literal::Bool(false)),
        ] {
            if self.eat(word) {
                return Ok(literal);
            }
        }
        self.int()
    }

    /// Reads elements up to the closing bracket, and says whether a comma came last.
    fn items(&mut self, close: &str, levels: usize) -> Result<(Vec<Literal>, bool), FormatError> {
        let (mut items, mut comma) = (Vec::new(), false);
        loop {
            if self.eat(close) {
                return Ok((items, comma));
            }
            if !comma && !items.is_empty() {
                return Err(self.refuse(&format!("`,` or `{close}`")));
            }
            items.push(self.value(levels)?);
            comma = self.eat(",");
        }
    }

    fn dict(&mut self, levels: usize) -> Result<Literal, FormatError> {
        let (mut entries, mut comma) = (Vec::new(), true);
        loop {
            if self.eat("}") {
                return Ok(Literal::Dict(entries));
            }
            if !comma {
                return Err(self.refuse("`,` or `}`"));
            }
            let key = self.value(levels)?;
            if !self.eat(":") {
                return Err(self.refuse("`:`"));
            }
            entries.push((key, self.value(levels)?));
            comma = self.eat(",");
        }
    }

    fn int(&mut self) -> Result<Literal, FormatError> {
        let rest = self.rest();
        let unsigned = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
        let len = rest.len() - unsigned.len() + digits;
        // An `L` followed long numbers in Python 2, which wrote some of the files.
        let parsed = rest[..len].parse().ok().filter(|_| digits > 0);
        let number = parsed.ok_or_else(|| self.refuse("a literal"))?;
        self.at += len;
        self.at += usize::from(self.rest().starts_with('L'));
        Ok(Literal::Int(number))
    }

    /// Reads one string, if there is one.
    fn string(&mut self) -> Result<Option<String>, FormatError> {
        let rest = self.rest();
        let prefix = usize::from(rest.starts_with(['u', 'U', 'b', 'B']));
        let Some(quote) = rest[prefix..].chars().next().filter(|c| matches!(c, '\'' | '"')) else {
            return Ok(None);
        };
        let start = self.at;
        self.at += prefix + 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.rest().chars().next().filter(|&c| c != '\n') else {
                self.at = start;
                return Err(self.refuse("a string with its closing quote"));
            };
            self.at += c.len_utf8();
            match c {
                '\\' => self.escape(&mut text)?,
                c if c == quote => return Ok(Some(text)),
                c => text.push(c),
            }
        }
    }

    /// Reads what follows a backslash.
    fn escape(&mut self, text: &mut String) -> Result<(), FormatError> {
        let Some(c) = self.rest().chars().next() else {
            return Err(self.refuse("what the backslash escapes"));
        };
        let (radix, digits) = match c {
            'x' => (16, 2),
            'u' => (16, 4),
            'U' => (16, 8),
            '0'..='7' => {
                let octal = self.rest().bytes().take_while(|byte| (b'0'..=b'7').contains(byte));
                (8, octal.take(3).count())
            }
            c => {
                self.at += c.len_utf8();
                match c {
                    '\\' | '\'' | '"' => text.push(c),
                    'n' => text.push('\n'),
                    'r' => text.push('\r'),
                    't' => text.push('\t'),
                    'a' => text.push('\x07'),
                    'b' => text.push('\x08'),
                    'f' => text.push('\x0c'),
                    'v' => text.push('\x0b'),
                    '\n' => {}
                    // Python leaves alone what it does not know.
                    c => text.extend(['\\', c]),
                }
                return Ok(());
            }
        };
        let start = self.at + usize::from(radix == 16);
        let code = self.text.get(start..start + digits).filter(|hex| !hex.starts_with('+'));
        let code = code.and_then(|digits| u32::from_str_radix(digits, radix).ok());
        let Some(c) = code.and_then(char::from_u32) else {
            return Err(self.refuse("the number of a character"));
        };
        self.at = start + digits;
        text.push(c);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_a_literal() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::numpy::literal::Literal;

        let tuple = Literal::parse("('<f8', (2,))")?;
        let shape = Literal::Tuple(vec![Literal::Int(2)]);
        assert_eq!(tuple, Literal::Tuple(vec![Literal::Text("<f8".into()), shape]));
        Ok(())
    }

    #[test]
    fn quotes_text() {
        use crate::format::numpy::literal::text_repr;

        assert_eq!(text_repr("<f8"), "'<f8'");
        assert_eq!(text_repr("it's"), r#""it's""#);
        assert_eq!(text_repr("é\t\u{200b}"), r"'é\t\u200b'");
    }
}
