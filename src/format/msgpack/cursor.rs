//! A zero-copy walk over packed bytes.
//!
//! Everything that reads msgpack in this crate goes through [`Cursor`]. It trusts no length: every
//! payload is sliced with a check, and a container that claims more elements than there are bytes
//! left is refused at its header. Nothing recurses. Absent on purpose: any opinion on what the
//! bytes mean (that is `decode`, `sample` and `numpy`).

use super::MAX_DEPTH;
use crate::format::FormatError;

/// The kind of the next value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing, Python's `None`.
    Nil,
    /// True or false.
    Bool,
    /// An integer of any width and sign.
    Int,
    /// A float of 32 or 64 bits.
    Float,
    /// Text in UTF-8.
    Str,
    /// Bytes.
    Bin,
    /// A sequence of values.
    Array,
    /// A sequence of pairs of values.
    Map,
    /// Bytes with a type code, timestamps among them.
    Ext,
}

impl Kind {
    /// The kind with its article, as error messages want it.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Kind::Nil => "nil",
            Kind::Bool => "a boolean",
            Kind::Int => "an integer",
            Kind::Float => "a float",
            Kind::Str => "a string",
            Kind::Bin => "binary data",
            Kind::Array => "an array",
            Kind::Map => "a map",
            Kind::Ext => "an extension",
        }
    }
}

/// An integer as it was packed: all of `u64` and all of `i64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Int {
    /// Zero or more.
    Unsigned(u64),
    /// Less than zero.
    Negative(i64),
}

/// A position in packed bytes, and the reads that move it on.
///
/// A read that fails leaves the cursor where it was.
///
/// ```
/// use kiste::format::msgpack::{Cursor, Kind};
///
/// // {"key": "k0", "v": 7}
/// let mut cursor = Cursor::new(b"\x82\xa3key\xa2k0\xa1v\x07");
/// assert_eq!(cursor.read_map_len()?, 2);
/// assert_eq!(cursor.read_str()?, "key");
/// assert_eq!(cursor.read_str()?, "k0");
/// cursor.skip()?;
/// assert_eq!(cursor.peek()?, Kind::Int);
/// let err = cursor.read_str().unwrap_err();
/// assert_eq!(err.to_string(), "byte 10: expected a string, found the integer 7");
/// assert_eq!(cursor.read_u64()?, 7);
/// assert!(cursor.is_at_end());
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    len: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the first of these bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes, len: bytes.len() }
    }

    /// A cursor at this position of these bytes, or at their end if there is no such position: to read
    /// again what was read.
    #[inline]
    pub fn at(bytes: &'a [u8], position: usize) -> Cursor<'a> {
        Cursor { rest: bytes.get(position..).unwrap_or_default(), len: bytes.len() }
    }

    /// How many bytes have been read.
    #[inline]
    pub fn position(&self) -> usize {
        self.len - self.rest.len()
    }

    /// The bytes that have not been read.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all bytes have been read.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Refuses bytes that have not been read.
    #[inline]
    pub fn expect_end(&self) -> Result<(), FormatError> {
        if self.is_at_end() { Ok(()) } else { Err(self.clone().trailing()) }
    }

    /// The kind of the next value. Only its first byte is looked at.
    #[inline]
    pub fn peek(&self) -> Result<Kind, FormatError> {
        self.rest
            .first()
            .and_then(|&tag| kind_of(tag))
            .ok_or_else(|| self.clone().refuse("a value"))
    }

    /// Reads the header of a map: how many pairs follow. There are at least twice as many bytes.
    #[inline]
    pub fn read_map_len(&mut self) -> Result<u32, FormatError> {
        let read = split_count(self.rest, 0x80, 0xde)
            .filter(|&(count, rest)| 2 * u64::from(count) <= rest.len() as u64);
        self.accept(read, "a map")
    }

    /// Reads the header of an array: how many values follow. There are at least as many bytes.
    #[inline]
    pub fn read_array_len(&mut self) -> Result<u32, FormatError> {
        let read = split_count(self.rest, 0x90, 0xdc)
            .filter(|&(count, rest)| u64::from(count) <= rest.len() as u64);
        self.accept(read, "an array")
    }

    /// Reads a string.
    #[inline(always)]
    pub fn read_str(&mut self) -> Result<&'a str, FormatError> {
        let mut after = self.clone();
        let bytes = after.read_str_bytes()?;
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                *self = after;
                Ok(text)
            }
            Err(flaw) => {
                let header = self.rest.len() - after.rest.len() - bytes.len();
                Err(not_utf8(self.position() + header, bytes, flaw))
            }
        }
    }

    /// Reads a string without looking at its encoding.
    #[inline(always)]
    pub fn read_str_bytes(&mut self) -> Result<&'a [u8], FormatError> {
        // The short form, which names of fields have, without a call.
        if let Some((tag @ 0xa0..=0xbf, rest)) = self.rest.split_first() {
            if let Some((text, rest)) = rest.split_at_checked(usize::from(tag & 0x1f)) {
                self.rest = rest;
                return Ok(text);
            }
        }
        self.read_with(split_str, "a string")
    }

    /// Passes over these packed bytes if they are next, and says whether they were.
    ///
    /// This is the fastest way through small samples that mostly have the same fields in the same order: headers and
    /// names are compared with one or two loads each. A sample that is different is read again, field by field:
    ///
    /// ```
    /// # use kiste::format::FormatError;
    /// use kiste::format::msgpack::{Cursor, field};
    ///
    /// /// The label of a sample. Most begin with `{"key": …, "label": …`.
    /// fn label(sample: &[u8]) -> Result<Option<u64>, FormatError> {
    ///     let mut cursor = Cursor::new(sample);
    ///     if cursor.skip_prefix(b"\x82\xa3key") {
    ///         cursor.skip()?;
    ///         if cursor.skip_prefix(b"\xa5label") {
    ///             return cursor.read_u64().map(Some);
    ///         }
    ///     }
    ///     field(sample, "label")?.map(|label| Cursor::new(label).read_u64()).transpose()
    /// }
    ///
    /// assert_eq!(label(b"\x82\xa3key\xa1a\xa5label\x07")?, Some(7));
    /// assert_eq!(label(b"\x82\xa5label\x07\xa3key\xa1a")?, Some(7));
    /// assert_eq!(label(b"\x81\xa3key\xa1a")?, None);
    /// # Ok::<(), FormatError>(())
    /// ```
    #[inline(always)]
    pub fn skip_prefix<const N: usize>(&mut self, packed: &[u8; N]) -> bool {
        match self.rest.split_first_chunk() {
            Some((first, rest)) if first == packed => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Reads binary data.
    #[inline(always)]
    pub fn read_bin(&mut self) -> Result<&'a [u8], FormatError> {
        // Lengths of one and two bytes, without a call.
        let quick = match *self.rest {
            [0xc4, len, ref rest @ ..] => rest.split_at_checked(usize::from(len)),
            [0xc5, a, b, ref rest @ ..] => rest.split_at_checked(u16::from_be_bytes([a, b]).into()),
            _ => None,
        };
        if let Some((bytes, rest)) = quick {
            self.rest = rest;
            return Ok(bytes);
        }
        self.read_with(split_bin, "binary data")
    }

    /// Reads binary data, or the bytes of a string.
    #[inline]
    pub fn read_bytes(&mut self) -> Result<&'a [u8], FormatError> {
        let read = split_bin(self.rest).or_else(|| split_str(self.rest));
        self.accept(read, "binary data or a string")
    }

    /// Reads a non-negative integer in any encoding.
    #[inline(always)]
    pub fn read_u64(&mut self) -> Result<u64, FormatError> {
        match self.rest.split_first() {
            Some((&tag @ 0..=0x7f, rest)) => {
                self.rest = rest;
                return Ok(u64::from(tag));
            }
            // One, two, four or eight bytes, where there are eight: without a call too.
            Some((&tag @ 0xcc..=0xcf, rest)) => {
                if let Some(&bytes) = rest.first_chunk() {
                    let size = 1 << (tag - 0xcc);
                    self.rest = &rest[size..];
                    return Ok(u64::from_be_bytes(bytes) >> (64 - 8 * size));
                }
            }
            _ => {}
        }
        self.read_with(split_u64, "an integer from 0 to 2^64-1")
    }

    /// Reads an integer below 2^63 in any encoding.
    #[inline]
    pub fn read_i64(&mut self) -> Result<i64, FormatError> {
        let read = match split_int(self.rest) {
            Some((Int::Unsigned(n), rest)) => i64::try_from(n).ok().map(|n| (n, rest)),
            Some((Int::Negative(n), rest)) => Some((n, rest)),
            None => None,
        };
        self.accept(read, "an integer from -2^63 to 2^63-1")
    }

    /// Reads an integer of any size.
    #[inline]
    pub(super) fn read_int(&mut self) -> Result<Int, FormatError> {
        let read = split_int(self.rest);
        self.accept(read, "an integer")
    }

    /// Reads a float of 64 bits, or one of 32 bits [widened](widen).
    #[inline]
    pub fn read_f64(&mut self) -> Result<f64, FormatError> {
        let read = split_f64(self.rest)
            .or_else(|| split_f32(self.rest).map(|(number, rest)| (widen(number), rest)));
        self.accept(read, "a float")
    }

    /// Reads a float of 32 bits. One of 64 bits is refused, as it would have to be rounded.
    #[inline]
    pub fn read_f32(&mut self) -> Result<f32, FormatError> {
        let read = split_f32(self.rest);
        self.accept(read, "a float of 32 bits")
    }

    /// Reads a boolean.
    #[inline]
    pub fn read_bool(&mut self) -> Result<bool, FormatError> {
        let read = match self.rest.split_first() {
            Some((0xc2, rest)) => Some((false, rest)),
            Some((0xc3, rest)) => Some((true, rest)),
            _ => None,
        };
        self.accept(read, "a boolean")
    }

    /// Reads nil.
    #[inline]
    pub fn read_nil(&mut self) -> Result<(), FormatError> {
        let read = match self.rest.split_first() {
            Some((0xc0, rest)) => Some(((), rest)),
            _ => None,
        };
        self.accept(read, "nil")
    }

    /// Reads an extension: its type code and its bytes.
    pub fn read_ext(&mut self) -> Result<(i8, &'a [u8]), FormatError> {
        let read = head(self.rest).ok().filter(|head| head.kind == Kind::Ext).and_then(|head| {
            let (_, rest) = self.rest.split_at_checked(head.size)?;
            let (payload, rest) = rest.split_at_checked(usize::try_from(head.payload).ok()?)?;
            let (&code, data) = payload.split_first()?;
            Some(((i8::from_be_bytes([code]), data), rest))
        });
        self.accept(read, "an extension")
    }

    /// Passes over one value with all that is in it. Lengths, nesting and the reserved byte are
    /// checked, the encoding of strings is not.
    #[inline(always)]
    pub fn skip(&mut self) -> Result<(), FormatError> {
        if let Some(rest) = plain_size(self.rest).and_then(|size| self.rest.get(size..)) {
            self.rest = rest;
            return Ok(());
        }
        *self = self.clone().after()?;
        Ok(())
    }

    /// Behind the next value.
    #[inline(never)]
    fn after(self) -> Result<Cursor<'a>, FormatError> {
        match head(self.rest) {
            Ok(head) if !head.is_container() && head.fits(self.rest.len()) => {
                Ok(Cursor { rest: &self.rest[head.len()..], len: self.len })
            }
            _ => self.walk(false),
        }
    }

    /// A read that is not inlined.
    #[inline(always)]
    fn read_with<T>(
        &mut self,
        read: impl FnOnce(&'a [u8]) -> Option<(T, &'a [u8])>,
        expected: &str,
    ) -> Result<T, FormatError> {
        match read(self.rest) {
            Some((value, rest)) => {
                self.rest = rest;
                Ok(value)
            }
            None => Err(self.clone().refuse(expected)),
        }
    }

    /// Passes over one value and returns its packed bytes.
    #[inline]
    pub fn skip_raw(&mut self) -> Result<&'a [u8], FormatError> {
        let before = self.rest;
        self.skip()?;
        Ok(&before[..before.len() - self.rest.len()])
    }

    /// The kind of the next value, its bytes without the values in it, and how many of these there
    /// are. Its payload need not be at hand. `None` if its first bytes are not, or make no sense.
    pub(super) fn announced(&self) -> Option<(Kind, u64, u64)> {
        let head = head(self.rest).ok()?;
        Some((head.kind, (head.size as u64).checked_add(head.payload)?, head.items))
    }

    /// Passes over one value with all that is in it, and returns where it ends. Takes the cursor by value, as all
    /// does here that is not inlined: one whose address is taken is kept in memory, and each step of a walk would
    /// wait for the one before to be stored.
    #[inline(never)]
    fn walk(self, utf8: bool) -> Result<Cursor<'a>, FormatError> {
        let mut at = self;
        // How many values are due in the innermost container, and in those around it.
        let mut due = 1;
        let mut outer = Outer::default();
        let mut depth = 0;
        loop {
            let Some(head) = head(at.rest).ok().filter(|head| head.fits(at.rest.len())) else {
                return Err(at.clone().refuse("a value"));
            };
            if head.is_container() {
                if depth == MAX_DEPTH {
                    return Err(at.clone().too_deep());
                }
                if depth > 0 {
                    outer.push(due - 1);
                }
                depth += 1;
                due = head.items;
            } else {
                due -= 1;
                if utf8 && head.kind == Kind::Str {
                    let text = &at.rest[head.size..head.len()];
                    if let Err(flaw) = std::str::from_utf8(text) {
                        return Err(not_utf8(at.position() + head.size, text, flaw));
                    }
                }
            }
            at.rest = &at.rest[head.len()..];
            while due == 0 {
                let Some(rest) = outer.pop() else {
                    return Ok(at);
                };
                depth -= 1;
                due = rest;
            }
        }
    }

    #[inline]
    fn accept<T>(&mut self, read: Option<(T, &'a [u8])>, expected: &str) -> Result<T, FormatError> {
        match read {
            Some((value, rest)) => {
                self.rest = rest;
                Ok(value)
            }
            None => Err(self.clone().refuse(expected)),
        }
    }

    /// Why the next value is not what was expected. Errors are rare, so the fast reads say only
    /// "no" and this looks at the value again.
    #[cold]
    #[inline(never)]
    fn refuse(self, expected: &str) -> FormatError {
        let position = self.position() as u64;
        let left = self.rest.len();
        let head = match head(self.rest) {
            Ok(head) => head,
            Err(Flaw::Reserved) => {
                return FormatError::new(position, expected, "the reserved byte c1");
            }
            Err(Flaw::End) if left == 0 => {
                return FormatError::new(position, expected, "end of input");
            }
            Err(Flaw::End) => {
                let found = format!("end of input after {}", bytes(left as u64));
                return FormatError::new(position, format!("{expected} with its length"), found);
            }
        };
        if !head.fits(left) {
            let noun = head.kind.noun();
            let expected = match head.kind {
                Kind::Array => format!("{noun} of {} values", head.items),
                Kind::Map => format!("{noun} of {} pairs", head.items / 2),
                _ => format!("{noun} of {}", bytes(head.payload)),
            };
            let found = match left - head.size {
                0 => "end of input".to_owned(),
                left => format!("end of input after {}", bytes(left as u64)),
            };
            return FormatError::new(position, expected, found);
        }
        FormatError::new(position, expected, self.describe(&head))
    }

    /// The next value in words. It is known to be whole.
    fn describe(&self, head: &Head) -> String {
        let mut at = self.clone();
        match head.kind {
            Kind::Nil => "nil".to_owned(),
            Kind::Bool => at.read_bool().map_or_else(|_| "a boolean".to_owned(), |b| b.to_string()),
            Kind::Int => match at.read_int() {
                Ok(Int::Unsigned(number)) => format!("the integer {number}"),
                Ok(Int::Negative(number)) => format!("the integer {number}"),
                Err(_) => "an integer".to_owned(),
            },
            Kind::Float => {
                at.read_f64().map_or_else(|_| "a float".to_owned(), |x| format!("the float {x:?}"))
            }
            Kind::Array => format!("an array of {} values", head.items),
            Kind::Map => format!("a map of {} pairs", head.items / 2),
            kind => kind.noun().to_owned(),
        }
    }

    #[cold]
    pub(super) fn too_deep(self) -> FormatError {
        let expected = format!("at most {MAX_DEPTH} nested containers");
        FormatError::new(self.position() as u64, expected, "one more")
    }

    #[cold]
    fn trailing(self) -> FormatError {
        let found = format!("{} more", bytes(self.rest.len() as u64));
        FormatError::new(self.position() as u64, "end of input", found)
    }
}

/// Checks that these bytes are exactly one well-formed message.
///
/// Nothing follows it, nothing is missing, the reserved byte `c1` does not occur, every string is
/// UTF-8, and at most [`MAX_DEPTH`] containers are nested. Forms that Python's packer does
/// not write, such as 32-bit floats or needlessly long headers, are well-formed all the same.
///
/// ```
/// use kiste::format::msgpack::check;
///
/// assert!(check(b"\x92\x01\xa1x").is_ok());
/// let err = check(b"\x92\x01").unwrap_err();
/// assert_eq!(err.to_string(), "byte 0: expected an array of 2 values, found end of input after 1 byte");
/// ```
pub fn check(bytes: &[u8]) -> Result<(), FormatError> {
    let mut cursor = Cursor::new(bytes);
    cursor = cursor.walk(true)?;
    cursor.expect_end()
}

/// A 32-bit float as the 64-bit float of the same value. A NaN keeps its sign and payload, and a
/// signalling one is not made quiet, as the conversion of some processors would.
pub fn widen(number: f32) -> f64 {
    if !number.is_nan() {
        return f64::from(number);
    }
    let bits = u64::from(number.to_bits());
    f64::from_bits((bits >> 31) << 63 | 0x7ff << 52 | (bits & 0x7f_ffff) << 29)
}

/// How many values are due in the containers around one, the outermost first. Only deep ones need an allocation, so an
/// array of NumPy, which is a map with a list, does not.
#[derive(Default)]
struct Outer {
    near: [u64; 8],
    deep: Vec<u64>,
    len: usize,
}

impl Outer {
    fn push(&mut self, due: u64) {
        match self.near.get_mut(self.len) {
            Some(near) => *near = due,
            None => self.deep.push(due),
        }
        self.len += 1;
    }

    fn pop(&mut self) -> Option<u64> {
        self.len = self.len.checked_sub(1)?;
        self.near.get(self.len).copied().or_else(|| self.deep.pop())
    }
}

/// The header of a value: what follows it, as claimed by it.
struct Head {
    kind: Kind,
    /// Bytes of the header itself.
    size: usize,
    /// Bytes that follow. None for a container.
    payload: u64,
    /// Values that follow. None unless it is a container.
    items: u64,
}

impl Head {
    /// Whether this many bytes, header included, can hold what the header claims.
    #[inline]
    fn fits(&self, bytes: usize) -> bool {
        // One of the two is 0, and a value is at least a byte.
        self.payload + self.items <= (bytes - self.size) as u64
    }

    #[inline]
    fn is_container(&self) -> bool {
        matches!(self.kind, Kind::Array | Kind::Map)
    }

    /// Bytes of header and payload. Only for one that fits, or else it may be no `usize`.
    #[inline]
    fn len(&self) -> usize {
        self.size + self.payload as usize
    }
}

enum Flaw {
    End,
    Reserved,
}

#[inline]
fn head(bytes: &[u8]) -> Result<Head, Flaw> {
    let (&tag, rest) = bytes.split_first().ok_or(Flaw::End)?;
    let form = FORMS[usize::from(tag)];
    let kind = form.kind.ok_or(Flaw::Reserved)?;
    let number = match form.width {
        0 => Some(0),
        1 => split(rest).map(|(n, _)| u64::from(u8::from_be_bytes(n))),
        2 => split(rest).map(|(n, _)| u64::from(u16::from_be_bytes(n))),
        _ => split(rest).map(|(n, _)| u64::from(u32::from_be_bytes(n))),
    };
    let count = number.ok_or(Flaw::End)? + u64::from(form.fixed);
    let (payload, items) = match kind {
        Kind::Array => (0, count),
        Kind::Map => (0, 2 * count),
        _ => (count, 0),
    };
    Ok(Head { kind, size: 1 + usize::from(form.width), payload, items })
}

#[inline]
fn kind_of(tag: u8) -> Option<Kind> {
    FORMS[usize::from(tag)].kind
}

/// The meaning of a first byte.
#[derive(Clone, Copy)]
struct Form {
    /// None for the reserved byte.
    kind: Option<Kind>,
    /// Bytes of the length that comes next.
    width: u8,
    /// The content: values or pairs of a container, else bytes. A length is added to it.
    fixed: u8,
}

static FORMS: [Form; 256] = {
    let mut forms = [form(0); 256];
    let mut tag = 255;
    while tag > 0 {
        forms[tag as usize] = form(tag);
        tag -= 1;
    }
    forms
};

/// In [`SIZES`]: more than a first byte says, or nothing.
const LONG: usize = 255;

/// How many bytes follow a first byte, where it alone says it of a value that is no container.
static SIZES: [u8; 256] = {
    let mut sizes = [LONG as u8; 256];
    let mut tag = 0;
    while tag < 256 {
        let form = form(tag as u8);
        if form.width == 0 && !matches!(form.kind, None | Some(Kind::Array | Kind::Map)) {
            sizes[tag] = form.fixed;
        }
        tag += 1;
    }
    sizes
};

/// The bytes of a value that is no container, even if there are fewer. `None` for containers and extensions with a
/// length, and where not all of a length is there.
#[inline(always)]
pub(super) fn plain_size(bytes: &[u8]) -> Option<usize> {
    let (&tag, rest) = bytes.split_first()?;
    let size = usize::from(SIZES[usize::from(tag)]);
    match (tag, rest) {
        _ if size != LONG => Some(1 + size),
        (0xc4 | 0xd9, [len, ..]) => Some(2 + usize::from(*len)),
        (0xc5 | 0xda, [a, b, ..]) => Some(3 + usize::from(u16::from_be_bytes([*a, *b]))),
        (0xc6 | 0xdb, [a, b, c, d, ..]) => {
            usize::try_from(u32::from_be_bytes([*a, *b, *c, *d])).ok()?.checked_add(5)
        }
        _ => None,
    }
}

/// The table of the msgpack specification.
const fn form(tag: u8) -> Form {
    let (kind, width, fixed) = match tag {
        0x00..=0x7f | 0xe0..=0xff => (Kind::Int, 0, 0),
        0x80..=0x8f => (Kind::Map, 0, tag & 0x0f),
        0x90..=0x9f => (Kind::Array, 0, tag & 0x0f),
        0xa0..=0xbf => (Kind::Str, 0, tag & 0x1f),
        0xc0 => (Kind::Nil, 0, 0),
        0xc1 => {
            return Form { kind: None, width: 0, fixed: 0 };
        }
        0xc2 | 0xc3 => (Kind::Bool, 0, 0),
        0xc4 => (Kind::Bin, 1, 0),
        0xc5 => (Kind::Bin, 2, 0),
        0xc6 => (Kind::Bin, 4, 0),
        // The type code of an extension counts as one of its bytes.
        0xc7 => (Kind::Ext, 1, 1),
        0xc8 => (Kind::Ext, 2, 1),
        0xc9 => (Kind::Ext, 4, 1),
        0xca => (Kind::Float, 0, 4),
        0xcb => (Kind::Float, 0, 8),
        0xcc | 0xd0 => (Kind::Int, 0, 1),
        0xcd | 0xd1 => (Kind::Int, 0, 2),
        0xce | 0xd2 => (Kind::Int, 0, 4),
        0xcf | 0xd3 => (Kind::Int, 0, 8),
        0xd4 => (Kind::Ext, 0, 2),
        0xd5 => (Kind::Ext, 0, 3),
        0xd6 => (Kind::Ext, 0, 5),
        0xd7 => (Kind::Ext, 0, 9),
        0xd8 => (Kind::Ext, 0, 17),
        0xd9 => (Kind::Str, 1, 0),
        0xda => (Kind::Str, 2, 0),
        0xdb => (Kind::Str, 4, 0),
        0xdc => (Kind::Array, 2, 0),
        0xdd => (Kind::Array, 4, 0),
        0xde => (Kind::Map, 2, 0),
        0xdf => (Kind::Map, 4, 0),
    };
    Form { kind: Some(kind), width, fixed }
}

#[inline]
fn split<const N: usize>(bytes: &[u8]) -> Option<([u8; N], &[u8])> {
    bytes.split_first_chunk::<N>().map(|(chunk, rest)| (*chunk, rest))
}

#[inline]
fn len8(bytes: &[u8]) -> Option<(usize, &[u8])> {
    split(bytes).map(|(len, rest)| (usize::from(u8::from_be_bytes(len)), rest))
}

#[inline]
fn len16(bytes: &[u8]) -> Option<(usize, &[u8])> {
    split(bytes).map(|(len, rest)| (usize::from(u16::from_be_bytes(len)), rest))
}

#[inline]
fn len32(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (len, rest) = split(bytes)?;
    Some((usize::try_from(u32::from_be_bytes(len)).ok()?, rest))
}

#[inline]
fn split_str(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (len, rest) = match tag {
        0xa0..=0xbf => (usize::from(tag & 0x1f), rest),
        0xd9 => len8(rest)?,
        0xda => len16(rest)?,
        0xdb => len32(rest)?,
        _ => return None,
    };
    rest.split_at_checked(len)
}

#[inline]
fn split_bin(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (len, rest) = match tag {
        0xc4 => len8(rest)?,
        0xc5 => len16(rest)?,
        0xc6 => len32(rest)?,
        _ => return None,
    };
    rest.split_at_checked(len)
}

/// The count of a container whose short form is `fixed` and whose long forms start at `long`.
#[inline]
fn split_count(bytes: &[u8], fixed: u8, long: u8) -> Option<(u32, &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    if tag & 0xf0 == fixed {
        Some((u32::from(tag & 0x0f), rest))
    } else if tag == long {
        split(rest).map(|(count, rest)| (u32::from(u16::from_be_bytes(count)), rest))
    } else if tag == long + 1 {
        split(rest).map(|(count, rest)| (u32::from_be_bytes(count), rest))
    } else {
        None
    }
}

#[inline]
fn split_int(bytes: &[u8]) -> Option<(Int, &[u8])> {
    let unsigned = |number: u64| Int::Unsigned(number);
    let signed = |number: i64| match u64::try_from(number) {
        Ok(number) => Int::Unsigned(number),
        Err(_) => Int::Negative(number),
    };
    let (&tag, rest) = bytes.split_first()?;
    match tag {
        0x00..=0x7f => Some((unsigned(u64::from(tag)), rest)),
        0xe0..=0xff => Some((signed(i64::from(i8::from_be_bytes([tag]))), rest)),
        0xcc => split(rest).map(|(n, rest)| (unsigned(u8::from_be_bytes(n).into()), rest)),
        0xcd => split(rest).map(|(n, rest)| (unsigned(u16::from_be_bytes(n).into()), rest)),
        0xce => split(rest).map(|(n, rest)| (unsigned(u32::from_be_bytes(n).into()), rest)),
        0xcf => split(rest).map(|(n, rest)| (unsigned(u64::from_be_bytes(n)), rest)),
        0xd0 => split(rest).map(|(n, rest)| (signed(i8::from_be_bytes(n).into()), rest)),
        0xd1 => split(rest).map(|(n, rest)| (signed(i16::from_be_bytes(n).into()), rest)),
        0xd2 => split(rest).map(|(n, rest)| (signed(i32::from_be_bytes(n).into()), rest)),
        0xd3 => split(rest).map(|(n, rest)| (signed(i64::from_be_bytes(n)), rest)),
        _ => None,
    }
}

fn split_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    match split_int(bytes) {
        Some((Int::Unsigned(number), rest)) => Some((number, rest)),
        _ => None,
    }
}

#[inline]
fn split_f32(bytes: &[u8]) -> Option<(f32, &[u8])> {
    let rest = bytes.strip_prefix(&[0xca])?;
    split(rest).map(|(bits, rest)| (f32::from_be_bytes(bits), rest))
}

#[inline]
fn split_f64(bytes: &[u8]) -> Option<(f64, &[u8])> {
    let rest = bytes.strip_prefix(&[0xcb])?;
    split(rest).map(|(bits, rest)| (f64::from_be_bytes(bits), rest))
}

#[cold]
fn not_utf8(start: usize, bytes: &[u8], flaw: std::str::Utf8Error) -> FormatError {
    let good = flaw.valid_up_to();
    let found = bytes.get(good).map_or_else(String::new, |byte| format!("the byte {byte:02x}"));
    FormatError::new((start + good) as u64, "UTF-8", found)
}

fn bytes(count: u64) -> String {
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}
