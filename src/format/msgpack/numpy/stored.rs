//! Where the arrays of a packed sample are, and in which of the two forms each is stored: as the
//! map that msgpack-numpy writes, or as a container of [bloscpack](crate::format::bloscpack).
//!
//! A container is recognised by the magic at the start of the binary data; nothing else in a sample
//! marks it. Absent on purpose: turning one form into the other, which takes
//! the decisions of [`ArrayPolicy`](crate::array::ArrayPolicy).

use std::ops::Range;

use super::{Special, read};
use crate::format::FormatError;
use crate::format::blosc::Scratch;
use crate::format::bloscpack::{ArrayMetadata, Container, header};
use crate::format::msgpack::cursor::{Cursor, Kind};
use crate::value::NdArray;

/// Whether binary data are a container of bloscpack, by their first bytes.
///
/// ```
/// use kiste::format::msgpack::numpy::is_container;
///
/// assert!(is_container(b"blpk\x03 and so on"));
/// assert!(!is_container(b"\x89PNG"));
/// ```
#[inline]
pub fn is_container(bytes: &[u8]) -> bool {
    bytes.starts_with(&header::MAGIC)
}

/// The array that a container describes, or `None` if it holds something else. Nothing is
/// decompressed.
pub(crate) fn container_array(bytes: &[u8]) -> Result<Option<ArrayMetadata>, FormatError> {
    Container::parse(bytes)?.array_if_any()
}

/// The array of a container, decompressed.
pub(crate) fn unpack(bytes: &[u8]) -> Result<NdArray<'static>, FormatError> {
    let container = Container::parse(bytes)?;
    let ArrayMetadata { dtype, shape, order } = container.array()?;
    let data = container.to_vec()?;
    NdArray::with_order(dtype, shape, order, data)
        .map_err(|error| FormatError::new(0, "an array in the container", error.to_string()))
}

/// An array in a packed sample.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored<'a> {
    /// The name of the field of the sample in which it is, at any depth; empty if that is no
    /// text.
    pub field: &'a [u8],
    /// Its bytes in the sample, from the header of the map or of the binary data on.
    pub range: Range<usize>,
    /// How it is stored.
    pub form: Form<'a>,
}

/// The two ways to store an array in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form<'a> {
    /// A map that says that it is an array; these are its packed bytes.
    Plain(&'a [u8]),
    /// A container; these are its bytes, without the header of the binary data.
    Container(&'a [u8]),
}

impl Stored<'_> {
    /// The name of the field, as text.
    pub fn field_name(&self) -> String {
        String::from_utf8_lossy(self.field).into_owned()
    }

    /// Decodes the array, and everything else that a container holds, only to see whether it can be
    /// done. Positions of errors are those in the sample.
    pub fn check(&self) -> Result<(), FormatError> {
        match self.form {
            // A map that lacks an entry is a map like others, to Python too.
            Form::Plain(packed) => read(&mut Cursor::new(packed)).map(drop),
            Form::Container(bytes) => check_container(bytes),
        }
        .map_err(|error| self.locate(error))
    }

    /// An error in the array, at its place in the sample.
    pub fn locate(&self, error: FormatError) -> FormatError {
        let start = match self.form {
            Form::Plain(_) => self.range.start,
            Form::Container(bytes) => self.range.end - bytes.len(),
        };
        error.behind(start as u64)
    }
}

fn check_container(bytes: &[u8]) -> Result<(), FormatError> {
    let container = Container::parse(bytes)?;
    container.array_if_any()?;
    let (mut scratch, mut buffer) = (Scratch::default(), Vec::new());
    for chunk in container.chunks() {
        let chunk = chunk?;
        buffer.resize(chunk.nbytes(), 0);
        chunk.read_into(&mut buffer, &mut scratch)?;
    }
    Ok(())
}

/// The arrays of a packed sample, at any depth, in the order of the bytes.
///
/// A map that says that it is an array, a scalar or a complex number is not searched: there Python
/// expects plain data. Neither are the keys of maps.
///
/// ```
/// use kiste::format::msgpack::numpy::{Form, arrays_in, encode_array};
/// use kiste::value::NdArray;
///
/// let mut sample = b"\x82\xa3key\xa1a\xa1v\x91".to_vec(); // {"key": "a", "v": [...]}
/// let start = sample.len();
/// encode_array(&NdArray::from_ndarray(&ndarray::aview1(&[1u8, 2, 3])), &mut sample)?;
/// let found: Vec<_> = arrays_in(&sample)?.collect::<Result<_, _>>()?;
/// assert_eq!((found[0].field, found[0].range.clone()), (&b"v"[..], start..sample.len()));
/// assert_eq!(found[0].form, Form::Plain(&sample[start..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn arrays_in(sample: &[u8]) -> Result<Arrays<'_>, FormatError> {
    // Lengths and depth are in order from here on.
    let mut whole = Cursor::new(sample);
    whole.skip()?;
    whole.expect_end()?;
    let mut cursor = Cursor::new(sample);
    let left = cursor.read_map_len()?;
    Ok(Arrays { cursor, open: vec![Open { left, is_map: true }], field: b"" })
}

/// The iterator of [`arrays_in`]. After an error it ends.
#[derive(Debug, Clone)]
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct Arrays<'a> {
    cursor: Cursor<'a>,
    open: Vec<Open>,
    field: &'a [u8],
}

/// A container of msgpack that is being walked through.
#[derive(Debug, Clone)]
struct Open {
    left: u32,
    is_map: bool,
}

impl<'a> Iterator for Arrays<'a> {
    type Item = Result<Stored<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.find();
        if found.is_err() {
            self.open.clear();
        }
        found.transpose()
    }
}

impl<'a> Arrays<'a> {
    fn find(&mut self) -> Result<Option<Stored<'a>>, FormatError> {
        while let Some(is_map) = self.enter_next() {
            if is_map {
                let name = self.cursor.skip_raw()?;
                if self.open.len() == 1 {
                    self.field = Cursor::new(name).read_str_bytes().unwrap_or_default();
                }
            }
            let start = self.cursor.position();
            if let Some(form) = self.value()? {
                let range = start..self.cursor.position();
                return Ok(Some(Stored { field: self.field, range, form }));
            }
        }
        Ok(None)
    }

    /// Takes one from what is due in the innermost container, leaving those that are done with.
    fn enter_next(&mut self) -> Option<bool> {
        loop {
            let open = self.open.last_mut()?;
            if let Some(left) = open.left.checked_sub(1) {
                open.left = left;
                return Some(open.is_map);
            }
            self.open.pop();
        }
    }

    /// Reads one value, or the header of a container.
    fn value(&mut self) -> Result<Option<Form<'a>>, FormatError> {
        match self.cursor.peek()? {
            Kind::Bin => {
                let bytes = self.cursor.read_bin()?;
                return Ok(is_container(bytes).then_some(Form::Container(bytes)));
            }
            Kind::Map => match says_array(self.cursor.clone())? {
                Some(is_array) => {
                    let packed = self.cursor.skip_raw()?;
                    return Ok(is_array.then_some(Form::Plain(packed)));
                }
                None => {
                    let left = self.cursor.read_map_len()?;
                    self.open.push(Open { left, is_map: true });
                }
            },
            Kind::Array => {
                let left = self.cursor.read_array_len()?;
                self.open.push(Open { left, is_map: false });
            }
            _ => self.cursor.skip()?,
        }
        Ok(None)
    }
}

/// Whether a map says that it is an array; `None` if it is a map like others.
fn says_array(mut map: Cursor<'_>) -> Result<Option<bool>, FormatError> {
    let (mut nd, mut complex) = (None, false);
    for _ in 0..map.read_map_len()? {
        let name = map.skip_raw()?;
        match Cursor::new(name).read_bin() {
            Ok(b"nd") => nd = Some(map.clone().read_bool() == Ok(true)),
            Ok(b"complex") => complex = true,
            _ => {}
        }
        map.skip()?;
    }
    Ok(nd.or(complex.then_some(false)))
}

/// The array of a plain form if it is packed just as msgpack-numpy packs it: then writing it again
/// gives the same bytes.
pub(crate) fn canonical_array(packed: &[u8]) -> Option<NdArray<'_>> {
    let mut cursor = Cursor::new(packed);
    let Ok(Some(Special::Array(array))) = read(&mut cursor) else { return None };
    let mut head = Vec::new();
    let same = super::wire::encode_head(&array, &mut head).is_ok()
        && cursor.is_at_end()
        && packed.starts_with(&head)
        && packed.len() == head.len() + array.bytes().len();
    same.then_some(array)
}
