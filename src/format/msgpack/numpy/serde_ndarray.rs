//! Arrays as fields of structs, for `#[serde(with = "kiste::serde_ndarray")]`.
//!
//! A field may be an `ndarray::Array` of any [`Element`] and any number of dimensions, an `Option`
//! or a `Vec` of them, or [one in the other](ArrayField). It is packed as msgpack-numpy packs
//! arrays, so Python finds a `numpy.ndarray`. An [`NdArray`] is such a field without the attribute,
//! of any type, and with `#[serde(borrow)]` borrows its elements from the sample.
//!
//! ```
//! use kiste::{DatasetReader, Writer};
//! use ndarray::{Array1, Array2, array};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, PartialEq, Debug)]
//! struct Sample {
//!     key: String,
//!     #[serde(with = "kiste::serde_ndarray")]
//!     points: Array2<f32>,
//!     #[serde(with = "kiste::serde_ndarray", default)]
//!     weights: Option<Array1<f64>>,
//! }
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("points.msgpack");
//! let sample = Sample { key: "a".into(), points: array![[0.5, 1.0]], weights: None };
//! let mut writer = Writer::create(&path)?;
//! writer.write(&sample)?;
//! writer.finish()?;
//! assert_eq!(DatasetReader::open(&path)?.get_as::<Sample>(0)?, sample);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reading takes every form that Python takes, and either byte order. The element type must be that
//! of the field: nothing is rounded silently.

use std::borrow::Cow;
use std::fmt;

use ndarray::{Array, ArrayBase, Data, Dimension};
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};

use super::wire::{Content, Entries, Flaw, MAX_WRAPPING, array_of_bytes, complex_array};
use super::{LEVELS, Special, kind_of, to_packed};
use crate::format::numpy::literal::Literal;
use crate::value::{Element, NdArray};

/// Called by `#[serde(with = "kiste::serde_ndarray")]` to write a field.
pub fn serialize<A: ArrayField, S: Serializer>(
    array: &A,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    array.serialize_field(serializer)
}

/// Called by `#[serde(with = "kiste::serde_ndarray")]` to read a field.
pub fn deserialize<'de, A: ArrayFieldOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<A, D::Error> {
    A::deserialize_field(deserializer)
}

/// A field that is arrays, and can be written.
pub trait ArrayField {
    /// Writes the field.
    fn serialize_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
}

/// A field that is arrays, and can be read.
pub trait ArrayFieldOwned: Sized {
    /// Reads the field.
    fn deserialize_field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

impl<T: Element, S: Data<Elem = T>, D: Dimension> ArrayField for ArrayBase<S, D> {
    fn serialize_field<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        NdArray::from_ndarray(self).serialize(serializer)
    }
}

impl<T: Element, D: Dimension> ArrayFieldOwned for Array<T, D> {
    fn deserialize_field<'de, Z: Deserializer<'de>>(deserializer: Z) -> Result<Self, Z::Error> {
        let array = NdArray::deserialize(deserializer)?;
        let axes = array.shape().len();
        let array = array.to_ndarray::<T>().map_err(de::Error::custom)?;
        array.into_dimensionality().map_err(|_| {
            let expected = D::NDIM.map_or_else(|| "other".to_owned(), |axes| axes.to_string());
            de::Error::custom(format!("expected an array of {expected} dimensions, found {axes}"))
        })
    }
}

impl<A: ArrayField> ArrayField for Option<A> {
    fn serialize_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(array) => serializer.serialize_some(&Field(array)),
            None => serializer.serialize_none(),
        }
    }
}

impl<A: ArrayFieldOwned> ArrayFieldOwned for Option<A> {
    fn deserialize_field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<FieldOwned<A>>::deserialize(deserializer)?.map(|field| field.0))
    }
}

impl<A: ArrayField> ArrayField for Vec<A> {
    fn serialize_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Field))
    }
}

impl<A: ArrayFieldOwned> ArrayFieldOwned for Vec<A> {
    fn deserialize_field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Vec::<FieldOwned<A>>::deserialize(deserializer)?;
        Ok(fields.into_iter().map(|field| field.0).collect())
    }
}

struct Field<'a, A>(&'a A);

impl<A: ArrayField> Serialize for Field<'_, A> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_field(serializer)
    }
}

struct FieldOwned<A>(A);

impl<'de, A: ArrayFieldOwned> Deserialize<'de> for FieldOwned<A> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        A::deserialize_field(deserializer).map(FieldOwned)
    }
}

/// As msgpack-numpy packs arrays: a map with binary keys, so for formats that can have those.
impl Serialize for NdArray<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry(&Bytes(b"nd"), &true)?;
        map.serialize_entry(&Bytes(b"type"), &Packed(&to_packed(self.dtype())))?;
        map.serialize_entry(&Bytes(b"kind"), &Bytes(kind_of(self.dtype())))?;
        map.serialize_entry(&Bytes(b"shape"), self.shape())?;
        map.serialize_entry(&Bytes(b"data"), &Bytes(&self.c_bytes()))?;
        map.end()
    }
}

/// Borrows its elements where they can be borrowed, and else owns them.
impl<'de: 'a, 'a> Deserialize<'de> for NdArray<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ArrayVisitor(MAX_WRAPPING))
    }
}

impl NdArray<'static> {
    /// An array that owns its elements, for fields of types that borrow nothing, as in
    /// [`LoaderOptions::typed`](crate::loader::LoaderOptions::typed).
    ///
    /// ```
    /// use kiste::reader::{ListReader, ReaderExt};
    /// use kiste::value::NdArray;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Image {
    ///     key: String,
    ///     #[serde(deserialize_with = "NdArray::deserialize_owned")]
    ///     pixels: NdArray<'static>,
    /// }
    ///
    /// let pixels = NdArray::from_ndarray(&ndarray::arr1(&[1u8, 2, 3])).into_owned();
    /// let images = ListReader::pack([Image { key: "a".into(), pixels }])?;
    /// let image: Image = images.get_as(0)?;
    /// drop(images);
    /// assert_eq!(image.pixels.shape(), [3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deserialize_owned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        NdArray::deserialize(deserializer).map(NdArray::into_owned)
    }
}

struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

struct Packed<'a>(&'a Literal);

impl Serialize for Packed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Literal::Text(text) => serializer.serialize_str(text),
            Literal::Int(number) => serializer.serialize_i64(*number),
            literal => {
                let items = literal.as_items().unwrap_or_default();
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(&Packed(item)))?;
                list.end()
            }
        }
    }
}

/// Reads an array, whose data may be an array itself, nested at most this deep.
struct ArrayVisitor(usize);

fn refuse<E: de::Error>(Flaw { expected, found }: Flaw) -> E {
    E::custom(format!("expected {expected}, found {found}"))
}

impl<'de> Visitor<'de> for ArrayVisitor {
    type Value = NdArray<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of NumPy")
    }

    fn visit_borrowed_bytes<E: de::Error>(self, bytes: &'de [u8]) -> Result<NdArray<'de>, E> {
        array_of_bytes(bytes.into()).map_err(refuse)
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<NdArray<'de>, E> {
        self.visit_byte_buf(bytes.to_vec())
    }

    fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<NdArray<'de>, E> {
        array_of_bytes(bytes.into()).map_err(refuse)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<NdArray<'de>, M::Error> {
        let mut entries = Entries::default();
        while let Some(Name(name)) = map.next_key()? {
            match &*name {
                b"nd" => entries.nd = Some(map.next_value_seed(IsTrue)?),
                b"complex" => {
                    map.next_value::<IgnoredAny>()?;
                    entries.complex = true;
                }
                b"type" => entries.dtype = Some(map.next_value_seed(LiteralSeed(LEVELS))?),
                b"kind" => {
                    let kind = map.next_value_seed(ContentSeed(0))?;
                    entries.is_object = matches!(&kind, Content::Bytes(kind) if **kind == *b"O");
                }
                b"shape" => entries.shape = Some(map.next_value_seed(LiteralSeed(1))?),
                b"data" => entries.data = Some(map.next_value_seed(ContentSeed(self.0))?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        match entries.special().map_err(refuse)? {
            Some(Special::Array(array) | Special::Scalar(array)) => Ok(array),
            Some(Special::Complex(re, im)) => Ok(complex_array(re, im)),
            None => Err(de::Error::custom("expected an array of NumPy, found another map")),
        }
    }
}

/// The name of an entry: binary, as only such names are special. Others are empty.
struct Name(Vec<u8>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Other scalars do not matter, but are no errors. Python has no other keys.
        Ok(match deserializer.deserialize_any(ContentSeed(0))? {
            Content::Bytes(name) => Name(name.into_owned()),
            Content::Text(_) | Content::Number(_) => Name(Vec::new()),
        })
    }
}

/// Reads whether a value is `true`.
struct IsTrue;

impl<'de> DeserializeSeed<'de> for IsTrue {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for IsTrue {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or something else")
    }

    fn visit_bool<E>(self, value: bool) -> Result<bool, E> {
        Ok(value)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }
}

/// Reads text, numbers, and lists of these, as deep as this.
struct LiteralSeed(usize);

impl<'de> DeserializeSeed<'de> for LiteralSeed {
    type Value = Literal;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Literal, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for LiteralSeed {
    type Value = Literal;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a type or a shape")
    }

    fn visit_unit<E>(self) -> Result<Literal, E> {
        Ok(Literal::None)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Literal, E> {
        Ok(Literal::Int(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Literal, E> {
        let number = i64::try_from(number);
        number.map(Literal::Int).map_err(|_| E::custom("expected a length, found a larger number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Literal, E> {
        Ok(Literal::Text(text.to_owned()))
    }

    fn visit_bytes<E>(self, text: &[u8]) -> Result<Literal, E> {
        Ok(Literal::Text(String::from_utf8_lossy(text).into_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Literal, A::Error> {
        let Some(levels) = self.0.checked_sub(1) else {
            return Err(de::Error::custom("expected a type or a shape, found deeper lists"));
        };
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(LiteralSeed(levels))? {
            items.push(item);
        }
        Ok(Literal::List(items))
    }
}

/// Reads data: bytes, text or a number, or another array that has them.
struct ContentSeed(usize);

impl<'de> DeserializeSeed<'de> for ContentSeed {
    type Value = Content<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ContentSeed {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("binary data")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content<'de>, E> {
        Ok(Content::Number(f64::from(u8::from(value))))
    }

    fn visit_unit<E>(self) -> Result<Content<'de>, E> {
        Ok(Content::Text("".into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Content<'de>, E> {
        Ok(Content::Number(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Content<'de>, E> {
        Ok(Content::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Content<'de>, E> {
        Ok(Content::Number(number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Content<'de>, E> {
        Ok(Content::Text(text.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Content<'de>, E> {
        Ok(Content::Text(text.to_owned().into()))
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Content<'de>, E> {
        Ok(Content::Bytes(bytes.into()))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Content<'de>, E> {
        Ok(Content::Bytes(bytes.to_vec().into()))
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Content<'de>, E> {
        Ok(Content::Bytes(bytes.into()))
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Content<'de>, M::Error> {
        let Some(levels) = self.0.checked_sub(1) else {
            return Err(de::Error::custom("expected binary data, found a map"));
        };
        let array = ArrayVisitor(levels).visit_map(map)?;
        Ok(Content::Bytes(Cow::Owned(array.into_bytes().into_owned())))
    }
}
