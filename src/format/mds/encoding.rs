//! The encoding of the bytes in a column.

use std::fmt;

use crate::Value;
use crate::format::FormatError;
use crate::format::bloscpack::metadata::write_string;
use crate::format::jsonl;
use crate::format::png::{self, Colours};
use crate::value::{ByteOrder, DType, DTypeKind, NdArray};

/// The codes and names of array types.
const TYPES: [(u8, &str, DTypeKind, usize); 11] = [
    (8, "uint8", DTypeKind::UInt, 1),
    (9, "int8", DTypeKind::Int, 1),
    (16, "uint16", DTypeKind::UInt, 2),
    (17, "int16", DTypeKind::Int, 2),
    (18, "float16", DTypeKind::Float, 2),
    (32, "uint32", DTypeKind::UInt, 4),
    (33, "int32", DTypeKind::Int, 4),
    (34, "float32", DTypeKind::Float, 4),
    (64, "uint64", DTypeKind::UInt, 8),
    (65, "int64", DTypeKind::Int, 8),
    (66, "float64", DTypeKind::Float, 8),
];

/// Arrays have fewer axes than this.
const MAX_AXES: usize = 64;

/// The encoding of the bytes in a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encoding {
    /// `bytes`: themselves.
    Bytes,
    /// `str`: UTF-8.
    Text,
    /// `int`: eight bytes.
    Int,
    /// `uint8` to `float64`: one number of NumPy.
    Scalar(DType),
    /// `ndarray`, `ndarray:TYPE` or `ndarray:TYPE:SHAPE`: what is not given here is in front of the
    /// elements.
    Array(Option<DType>, Option<Vec<usize>>),
    /// `str_int`: an integer in digits.
    TextInt,
    /// `str_float`: a float in digits.
    TextFloat,
    /// `str_decimal`: a decimal number in digits, which stays a string.
    TextDecimal,
    /// `json`: UTF-8.
    Json,
    /// `pil`: a picture of raw pixels; `jpeg`, `png`: the files.
    Image(&'static str),
    /// `list[pil]`, `list[jpeg]`, `list[png]`: four bytes of no meaning, the number of images,
    /// their lengths (four bytes each), the images.
    Images(&'static str),
    /// `jpeg_array`, `jpegarray`: as such a list, without the first four bytes.
    ImageArray(&'static str),
    /// `pkl`: a pickle, which is never run.
    Pickle,
}

/// A value as it was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded<'a> {
    /// Bytes, images among them.
    Bytes(&'a [u8]),
    /// Any JSON value.
    Value(Value),
    /// A number of NumPy.
    Scalar(NdArray<'a>),
    /// An array of NumPy.
    Array(NdArray<'a>),
    /// The images of a list.
    List(Vec<&'a [u8]>),
}

impl Encoding {
    /// The encoding of this name.
    pub fn parse(name: &str) -> Result<Encoding, FormatError> {
        let refuse = || FormatError::new(0, "an encoding of MDS", json_string(name));
        if let Some(options) = name.strip_prefix("ndarray") {
            let Some(options) = options.strip_prefix(':') else {
                return if options.is_empty() {
                    Ok(Encoding::Array(None, None))
                } else {
                    Err(refuse())
                };
            };
            let (dtype, shape) = match options.split_once(':') {
                Some((dtype, shape)) => (dtype, Some(shape)),
                None => (options, None),
            };
            if dtype.is_empty() && shape.is_none() {
                return Ok(Encoding::Array(None, None));
            }
            let dtype = scalar_type(dtype).ok_or_else(refuse)?;
            let parse = |axis: &str| axis.parse().ok().filter(|&len: &usize| len > 0);
            let shape: Option<Vec<usize>> = match shape {
                Some(shape) => {
                    Some(shape.split(',').map(parse).collect::<Option<_>>().ok_or_else(refuse)?)
                }
                None => None,
            };
            let encoding = Encoding::Array(Some(dtype), shape);
            // A shape that no file can hold has no size either.
            return match &encoding {
                Encoding::Array(_, Some(_)) if encoding.size().is_none() => Err(refuse()),
                _ => Ok(encoding),
            };
        }
        Ok(match name {
            "bytes" => Encoding::Bytes,
            "str" => Encoding::Text,
            "int" => Encoding::Int,
            "str_int" => Encoding::TextInt,
            "str_float" => Encoding::TextFloat,
            "str_decimal" => Encoding::TextDecimal,
            "json" => Encoding::Json,
            "pil" => Encoding::Image("pil"),
            "jpeg" => Encoding::Image("jpeg"),
            "png" => Encoding::Image("png"),
            "list[pil]" => Encoding::Images("list[pil]"),
            "list[jpeg]" => Encoding::Images("list[jpeg]"),
            "list[png]" => Encoding::Images("list[png]"),
            "jpeg_array" => Encoding::ImageArray("jpeg_array"),
            "jpegarray" => Encoding::ImageArray("jpegarray"),
            "pkl" => Encoding::Pickle,
            name => Encoding::Scalar(scalar_type(name).ok_or_else(refuse)?),
        })
    }

    /// The fixed size of a value in bytes, if there is one.
    pub fn size(&self) -> Option<u32> {
        match self {
            Encoding::Int => Some(8),
            Encoding::Scalar(dtype) => u32::try_from(dtype.item_size()).ok(),
            Encoding::Array(Some(dtype), Some(shape)) => {
                let mut lens = shape.iter();
                let size = lens.try_fold(dtype.item_size(), |size, &len| size.checked_mul(len));
                size.and_then(|size| u32::try_from(size).ok())
            }
            _ => None,
        }
    }

    /// Reads a value. Positions in errors are within its bytes.
    pub fn decode<'a>(&self, bytes: &'a [u8]) -> Result<Decoded<'a>, FormatError> {
        self.decode_as(bytes, false)
    }

    /// The same, where JSON may be in the [notation](jsonl) of JSON lines.
    pub(crate) fn decode_as<'a>(
        &self,
        bytes: &'a [u8],
        notation: bool,
    ) -> Result<Decoded<'a>, FormatError> {
        let refuse =
            |expected: &str| FormatError::new(0, expected, format!("{} other bytes", bytes.len()));
        let digits = || std::str::from_utf8(bytes).map_err(|_| refuse("UTF-8"));
        Ok(match self {
            Encoding::Bytes | Encoding::Image(_) => Decoded::Bytes(bytes),
            Encoding::Text | Encoding::TextDecimal => Decoded::Value(digits()?.into()),
            Encoding::Int => {
                let number = bytes.try_into().map(i64::from_le_bytes);
                Decoded::Value(number.map_err(|_| refuse("eight bytes"))?.into())
            }
            Encoding::TextInt => {
                let digits = digits()?.trim();
                let signed = digits.parse::<i64>().map(Value::from);
                let number = signed.or_else(|_| digits.parse::<u64>().map(Value::from));
                Decoded::Value(number.map_err(|_| refuse("an integer of 64 bits in digits"))?)
            }
            Encoding::TextFloat => {
                let number = digits()?.trim().parse::<f64>();
                Decoded::Value(number.map_err(|_| refuse("a float in digits"))?.into())
            }
            Encoding::Json if notation => Decoded::Value(jsonl::parse(bytes)?),
            Encoding::Json => Decoded::Value(jsonl::parse_plain(bytes)?),
            Encoding::Scalar(dtype) => {
                let array = NdArray::new(dtype.clone(), [], bytes);
                Decoded::Scalar(array.map_err(|_| refuse("one number"))?)
            }
            Encoding::Array(dtype, shape) => Decoded::Array(array(dtype, shape, bytes)?),
            Encoding::Images(_) => {
                Decoded::List(list(bytes.get(4..).ok_or_else(|| refuse("a list"))?, 4)?)
            }
            Encoding::ImageArray(_) => Decoded::List(list(bytes, 0)?),
            Encoding::Pickle => {
                return Err(FormatError::new(0, "data", "a pickle, which is never run"));
            }
        })
    }
}

/// A picture of `pil`: width, height and length of the mode in four bytes each, mode, pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawImage<'a> {
    /// Width and height.
    pub(crate) size: (u32, u32),
    /// Pillow's name for the type of its pixels, such as `RGB`.
    pub(crate) mode: &'a str,
    pub(crate) pixels: &'a [u8],
}

impl<'a> RawImage<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<RawImage<'a>> {
        let number = |bytes: &'a [u8]| {
            let (number, rest) = bytes.split_first_chunk()?;
            Some((u32::from_le_bytes(*number), rest))
        };
        let (width, rest) = number(bytes)?;
        let (height, rest) = number(rest)?;
        let (len, rest) = number(rest)?;
        let (mode, pixels) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        Some(RawImage { size: (width, height), mode: std::str::from_utf8(mode).ok()?, pixels })
    }

    /// The same pixels as a PNG, if it has a place for this mode.
    pub(crate) fn to_png(self) -> Option<Vec<u8>> {
        let (colours, bits) = match self.mode {
            "1" => (Colours::Gray, 1),
            "L" => (Colours::Gray, 8),
            "LA" => (Colours::GrayAlpha, 8),
            "RGB" => (Colours::Rgb, 8),
            "RGBA" => (Colours::Rgba, 8),
            "I;16" => {
                // Pillow stores the lower byte first, and PNG the higher one.
                let pixels = self.pixels.chunks_exact(2).flat_map(|two| [two[1], two[0]]);
                let is_whole = self.pixels.len() % 2 == 0;
                let pixels: Vec<u8> = pixels.collect();
                return png::encode(self.size, Colours::Gray, 16, &pixels).filter(|_| is_whole);
            }
            "I;16B" => (Colours::Gray, 16),
            _ => return None,
        };
        png::encode(self.size, colours, bits, self.pixels)
    }
}

/// An array, with type and shape in front of it unless they are known.
fn array<'a>(
    dtype: &Option<DType>,
    shape: &Option<Vec<usize>>,
    bytes: &'a [u8],
) -> Result<NdArray<'a>, FormatError> {
    let mut rest = bytes;
    let position = |rest: &[u8]| (bytes.len() - rest.len()) as u64;
    let mut take = |len: usize| {
        let (head, tail) = rest.split_at_checked(len).ok_or_else(|| {
            FormatError::new(position(rest), "type and shape of an array", "the end of it")
        })?;
        rest = tail;
        Ok::<_, FormatError>(head)
    };
    let dtype = match dtype {
        Some(dtype) => dtype.clone(),
        None => {
            let code = take(1)?[0];
            let known = TYPES.iter().find(|(known, ..)| *known == code);
            let dtype = known.and_then(|(_, _, kind, size)| little(*kind, *size));
            dtype.ok_or_else(|| FormatError::new(0, "the code of a type", code.to_string()))?
        }
    };
    let shape = match shape {
        Some(shape) => shape.clone(),
        None => {
            let code = take(1)?[0];
            let (axes, width) = (usize::from(code >> 2), 1 << (code & 3));
            let lens = take(axes * width)?.chunks_exact(width);
            let len = |bytes: &[u8]| {
                let mut number = [0; 8];
                number[..bytes.len()].copy_from_slice(bytes);
                usize::try_from(u64::from_le_bytes(number)).unwrap_or(usize::MAX)
            };
            lens.map(len).collect()
        }
    };
    let start = position(rest);
    let expected = format!("the elements of {dtype} {shape:?}");
    let found = format!("{} bytes", rest.len());
    NdArray::new(dtype, shape, rest).map_err(|_| FormatError::new(start, expected, found))
}

/// The number of things, their lengths, and the things.
fn list(bytes: &[u8], position: u64) -> Result<Vec<&[u8]>, FormatError> {
    let refuse =
        || FormatError::new(position, "a list of images", format!("{} bytes", bytes.len()));
    let number = |bytes: &[u8; 4]| usize::try_from(u32::from_le_bytes(*bytes)).ok();
    let (count, rest) = bytes.split_first_chunk().ok_or_else(refuse)?;
    let lens = number(count).and_then(|count| rest.split_at_checked(count.checked_mul(4)?));
    let (lens, mut rest) = lens.ok_or_else(refuse)?;
    let mut items = Vec::with_capacity(lens.len() / 4);
    for len in lens.chunks_exact(4) {
        let len = number(&[len[0], len[1], len[2], len[3]]);
        let (item, tail) = len.and_then(|len| rest.split_at_checked(len)).ok_or_else(refuse)?;
        items.push(item);
        rest = tail;
    }
    if rest.is_empty() { Ok(items) } else { Err(refuse()) }
}

/// The bytes before the elements of an array whose type and shape are not known: `None` for an
/// array that MDS cannot hold: another type, no axes or no elements.
pub(super) fn array_head(array: &NdArray<'_>) -> Option<Vec<u8>> {
    let (kind, size, shape) = (array.dtype().kind(), array.dtype().item_size(), array.shape());
    let (code, ..) = TYPES.iter().find(|(_, _, k, s)| (*k, *s) == (kind, size))?;
    let largest = *shape.iter().max()? as u64;
    if shape.len() >= MAX_AXES || shape.contains(&0) {
        return None;
    }
    let width: u8 = match largest {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        0x1_0000..=0xffff_ffff => 2,
        _ => 3,
    };
    let mut head = vec![*code, (shape.len() as u8) << 2 | width];
    for &len in shape {
        head.extend_from_slice(&(len as u64).to_le_bytes()[..1 << width]);
    }
    Some(head)
}

/// The encoding of a number of NumPy of this type, if there is one.
pub(crate) fn scalar(dtype: &DType) -> Option<Encoding> {
    let is_known =
        TYPES.iter().any(|(_, _, kind, size)| little(*kind, *size).as_ref() == Some(dtype));
    is_known.then(|| Encoding::Scalar(dtype.clone()))
}

fn scalar_type(name: &str) -> Option<DType> {
    let (_, _, kind, size) = TYPES.iter().find(|(_, known, ..)| *known == name)?;
    little(*kind, *size)
}

fn little(kind: DTypeKind, size: usize) -> Option<DType> {
    DType::new(kind, size, ByteOrder::Little)
}

fn name_of(dtype: &DType) -> &'static str {
    let found = (dtype.kind(), dtype.item_size());
    let known = TYPES.iter().find(|(_, _, kind, size)| (*kind, *size) == found);
    known.map_or("float64", |(_, name, ..)| name)
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Encoding::Bytes => "bytes",
            Encoding::Text => "str",
            Encoding::Int => "int",
            Encoding::TextInt => "str_int",
            Encoding::TextFloat => "str_float",
            Encoding::TextDecimal => "str_decimal",
            Encoding::Json => "json",
            Encoding::Image(name) | Encoding::Images(name) | Encoding::ImageArray(name) => name,
            Encoding::Pickle => "pkl",
            Encoding::Scalar(dtype) => name_of(dtype),
            Encoding::Array(dtype, shape) => {
                f.write_str("ndarray")?;
                let Some(dtype) = dtype else { return Ok(()) };
                write!(f, ":{}", name_of(dtype))?;
                for (at, len) in shape.iter().flatten().enumerate() {
                    write!(f, "{}{len}", if at == 0 { ':' } else { ',' })?;
                }
                return Ok(());
            }
        })
    }
}

/// A string as Python's `json` writes it, in ASCII.
pub(super) fn json_string(text: &str) -> String {
    let mut out = String::new();
    write_string(text, &mut out);
    out
}
