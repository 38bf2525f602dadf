//! [`Quotes`]: what the quotes of a row say about it.
//!
//! The csv crate reads any bytes as a table. A quote that was meant as a character of the text opens a
//! value, which then extends to the next quote, wherever that is: rows are joined without a warning.

/// An oddity in the quotes of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Quotes {
    /// A value is in quotes that are never closed.
    pub(super) is_open: bool,
    /// Text follows the quote that closes a value.
    pub(super) text_after: bool,
    /// Such a value has a line end in it.
    pub(super) joins: bool,
    /// A value in quotes has the delimiter and a line end in it.
    pub(super) spans: bool,
}

/// Where a byte is.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Begin,
    Plain,
    Quoted,
    /// After a quote that ends the value, or is the first of two.
    Closed,
}

impl Quotes {
    /// Looks at the bytes of a row. A quote counts only at the start of a value; two quotes inside one
    /// do not end it.
    pub(super) fn of(row: &[u8], delimiter: u8) -> Quotes {
        let mut found = Quotes::default();
        if !row.contains(&b'"') {
            return found;
        }
        let (mut at, mut delimiters, mut lines) = (At::Begin, false, false);
        for &byte in row {
            let is_end = matches!(byte, b'\n' | b'\r');
            at = match (at, byte) {
                (At::Begin, b'"') => {
                    (delimiters, lines) = (false, false);
                    At::Quoted
                }
                (At::Quoted, b'"') => At::Closed,
                (At::Closed, b'"') => At::Quoted,
                (At::Quoted, _) => {
                    delimiters |= byte == delimiter;
                    lines |= is_end;
                    found.spans |= delimiters && lines;
                    At::Quoted
                }
                _ if is_end || byte == delimiter => At::Begin,
                (At::Closed, _) => {
                    found.text_after = true;
                    found.joins |= lines;
                    At::Plain
                }
                _ => At::Plain,
            };
        }
        found.is_open = at == At::Quoted;
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_that_are_never_closed() {
        let is_open = |row: &[u8], delimiter| Quotes::of(row, delimiter).is_open;
        for open in ["\"", "1,\"x", "1,\"x\n2,y\n", "\"a\"\"", "\"a\"\"b,", "a,\"\"\"", "\n\"a"] {
            assert!(is_open(open.as_bytes(), b','), "{open:?}");
        }
        for closed in
            ["", "1,x", "\"a\"", "\"a\"\"\"", "5\" disk", "1,\"x\ny\"\n", "\"a\"b\"", "\"\""]
        {
            assert!(!is_open(closed.as_bytes(), b','), "{closed:?}");
        }
        assert!(is_open(b"1\t\"x", b'\t') && !is_open(b"1\t\"x", b','));
    }

    #[test]
    fn quotes_that_were_meant_as_text() {
        let fine = Quotes::default();
        let after = Quotes { text_after: true, ..fine };
        let spans = Quotes { spans: true, ..fine };
        for (row, expected) in [
            ("a\t5\" disk\n", fine),
            ("\"a \"\"b\"\" c\"\td\n", fine),
            ("\"a\nb\"\tc\n", fine),
            ("\"a\tb\"\t\"c\nd\"\n", fine),
            ("\"Hello\" he said\t0\n", after),
            ("\"a\tb\nc\"\td\n", spans),
            ("\"a\nb\"c\td\n", Quotes { joins: true, ..after }),
            ("\"a\t1\nThird \"b\"\t0\n", Quotes { joins: true, spans: true, ..after }),
        ] {
            assert_eq!(Quotes::of(row.as_bytes(), b'\t'), expected, "{row:?}");
        }
    }
}
