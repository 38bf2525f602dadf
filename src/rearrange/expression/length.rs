//! [`LengthOf`]: a number of each sample, by which batches are planned.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::evaluate::{Sample, find};
use super::function::{Found, Function};
use super::node::{ExpressionError, Term};
use super::parse::Parser;
use crate::dataset::index::Measure;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, Cursor, Kind, RowRef, Value};
use crate::rearrange::Scalar;

/// The word for the bytes of a packed sample.
const BYTES: &str = "bytes";
/// The function for milliseconds.
const MS: &str = "ms";

/// How long a sample is: a column of `.lengths`, written like a term of a condition
/// ([`Expression`](super::Expression)).
///
/// | text | number |
/// | --- | --- |
/// | `len(tokens)` | items of a list, characters of text (Unicode code points), bytes, entries of a map, the length of the first axis of an array |
/// | `width(image)`, `height(image)` | pixels, as an image or an array is stored |
/// | `frames`, `meta.tokens`, `'a name'` | the field itself: a whole number; 3.0 is one |
/// | `ms(seconds)` | a number of seconds as milliseconds, rounded up |
/// | `bytes` | the packed sample; a field of this name needs quotes |
///
/// A number is 0 to 4,294,967,295. No value is changed to fit: anything else is an error, and so are a field that is
/// missing or null, and one that [refers](RowRef) to a row of an array, which is not in the sample.
///
/// ```
/// use kiste::index::Measure;
/// use kiste::rearrange::LengthOf;
///
/// let tokens = LengthOf::parse("len( tokens )")?;
/// assert_eq!(tokens.to_string(), "len(tokens)");
///
/// let sample = b"\x82\xa3key\xa1a\xa6tokens\x93\x07\x08\x09";
/// assert_eq!(tokens.of(sample)?, 3);
/// assert_eq!(LengthOf::parse("bytes")?.of(sample)?, 18);
/// let error = LengthOf::parse("len(text)")?.of(sample).unwrap_err();
/// assert_eq!(error.to_string(), "field \"text\": len(text): expected a field of this name, found none");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LengthOf(Length);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Length {
    /// Of the packed sample.
    Bytes,
    Of {
        term: Term,
        /// Whether seconds become milliseconds.
        ms: bool,
    },
}

impl LengthOf {
    /// The column that has this name, if it is one of these.
    ///
    /// ```
    /// let options = kiste::Writer::options().known_lengths(kiste::rearrange::LengthOf::measure);
    /// ```
    pub fn measure(name: &str) -> Option<Arc<dyn Measure>> {
        LengthOf::parse(name).ok().map(|column| Arc::new(column) as Arc<dyn Measure>)
    }

    /// Parses the text of a column.
    ///
    /// # Errors
    ///
    /// An error that says what was expected, what was found and at which character.
    pub fn parse(text: &str) -> Result<LengthOf, ExpressionError> {
        if text.trim() == BYTES {
            return Ok(LengthOf(Length::Bytes));
        }
        let (term, ms) = Parser::parse_term(text, MS)?;
        Ok(LengthOf(Length::Of { term, ms }))
    }
}

impl FromStr for LengthOf {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<LengthOf, ExpressionError> {
        LengthOf::parse(text)
    }
}

/// Text that [`parse`](LengthOf::parse) makes the same of: the name of the column.
impl fmt::Display for LengthOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Length::Bytes => f.write_str(BYTES),
            Length::Of { term, ms: true } => write!(f, "{MS}({})", term.path),
            Length::Of { term, ms: false }
                if term.function.is_none() && term.path.name == BYTES =>
            {
                write!(f, "'{BYTES}'")
            }
            Length::Of { term, ms: false } => term.fmt(f),
        }
    }
}

impl Measure for LengthOf {
    fn name(&self) -> String {
        self.to_string()
    }

    fn of(&self, sample: &[u8]) -> Result<u32> {
        match &self.0 {
            Length::Bytes => fitting(sample.len() as i128).ok_or_else(|| {
                let message = format!("{self}: expected {WHOLE}, found {}", sample.len());
                Error::new(ErrorKind::Invalid, message)
            }),
            Length::Of { term, ms } => measure(term, *ms, sample).map_err(|why| match why {
                Why::Error(error) => error,
                Why::Other { expected, found } => {
                    let message = format!("{self}: expected {expected}, found {found}");
                    Error::new(ErrorKind::Invalid, message).with_field(term.path.name.as_str())
                }
            }),
        }
    }
}

const WHOLE: &str = "a whole number from 0 to 4294967295";
const SECONDS: &str = "a number of seconds from 0 to 4294967.295";

/// Why there is no number.
enum Why {
    Error(Error),
    Other { expected: &'static str, found: String },
}

impl From<Error> for Why {
    fn from(error: Error) -> Why {
        Why::Error(error)
    }
}

fn measure(term: &Term, ms: bool, sample: &[u8]) -> Result<u32, Why> {
    let expected = if ms { SECONDS } else { WHOLE };
    let other = |expected, found: String| Why::Other { expected, found };
    let mut packed = Packed { sample, fields: Vec::new() };
    if let Some(field) = packed.raw(&term.path.name)? {
        if RowRef::decode(field).map_err(Error::from)?.is_some() {
            return Err(other(expected, "a reference to a row of an array".to_owned()));
        }
        // A list need not be decoded.
        if term.function == Some(Function::Len) {
            let mut cursor = Cursor::new(field);
            if cursor.peek().map_err(Error::from)? == Kind::Array {
                return Ok(cursor.read_array_len().map_err(Error::from)?);
            }
        }
    }
    let Some(value) = find(&term.path, &mut packed)? else {
        return Err(other("a field of this name", "none".to_owned()));
    };
    let scalar = match term.function {
        Some(function) => Some(function.of(&term.path, &value)?),
        None => Scalar::of(&value),
    };
    let number = match (&scalar, ms) {
        (Some(Scalar::Whole(number)), false) => fitting(*number),
        (Some(Scalar::Whole(seconds)), true) => seconds.checked_mul(1000).and_then(fitting),
        (Some(Scalar::Float(seconds)), true) if *seconds >= 0.0 => {
            // A whole number of milliseconds stays one: 16.1 × 1000 is more than 16,100 in binary.
            let nearest = (seconds * 1000.0).round();
            let ms = if nearest / 1000.0 == *seconds { nearest } else { (seconds * 1000.0).ceil() };
            // Every u32 is a float of 64 bits.
            (ms <= f64::from(u32::MAX)).then_some(ms as u32)
        }
        _ => None,
    };
    number.ok_or_else(|| {
        let found = match &scalar {
            Some(Scalar::Whole(number)) => number.to_string(),
            Some(Scalar::Float(number)) => number.to_string(),
            Some(Scalar::Nothing) => "null".to_owned(),
            _ => Found(&value).to_string(),
        };
        other(expected, found)
    })
}

fn fitting(number: i128) -> Option<u32> {
    u32::try_from(number).ok()
}

/// A packed sample, and the fields of it that were decoded.
struct Packed<'a, 'e> {
    sample: &'a [u8],
    fields: Vec<(&'e str, Option<Value>)>,
}

impl<'a> Packed<'a, '_> {
    fn raw(&self, name: &str) -> Result<Option<&'a [u8]>> {
        Ok(msgpack::field(self.sample, name)?)
    }
}

impl<'e> Sample<'e> for Packed<'_, 'e> {
    fn field(&mut self, name: &'e str) -> Result<Option<&Value>> {
        let known = self.fields.iter().position(|(own, _)| *own == name);
        let at = match known {
            Some(at) => at,
            None => {
                let value = self.raw(name)?.map(msgpack::decode).transpose()?;
                self.fields.push((name, value));
                self.fields.len() - 1
            }
        };
        Ok(self.fields[at].1.as_ref())
    }
}
