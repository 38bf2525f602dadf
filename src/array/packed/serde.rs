//! Packed arrays as fields of structs, read from either form and written as a container.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::format::bloscpack::Checksum;
use crate::value::NdArray;

use super::array::PackedArray;
use super::pack::PackOptions;

/// As the bytes of the container, which are binary data in a sample.
impl Serialize for PackedArray<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.bytes())
    }
}

/// Borrows the container where it can be borrowed, and decodes nothing. A plain array becomes a
/// container that is not compressed: a copy, but the same methods work.
impl<'de: 'a, 'a> Deserialize<'de> for PackedArray<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PackedVisitor)
    }
}

impl PackedArray<'static> {
    /// An array that owns its bytes, for fields of types that borrow nothing, as in
    /// [`LoaderOptions::typed`](crate::loader::LoaderOptions::typed).
    ///
    /// ```
    /// use kiste::array::PackedArray;
    /// use kiste::reader::{ListReader, ReaderExt};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Image {
    ///     key: String,
    ///     #[serde(deserialize_with = "PackedArray::deserialize_owned")]
    ///     pixels: PackedArray<'static>,
    /// }
    ///
    /// # use kiste::array::PackOptions;
    /// # use kiste::value::NdArray;
    /// # let array = NdArray::from_ndarray(&ndarray::arr1(&[1u8, 2, 3])).into_owned();
    /// # let pixels = PackedArray::from_bytes(PackOptions::compact().pack(&array)?)?;
    /// let images = ListReader::pack([Image { key: "a".into(), pixels }])?;
    /// let image: Image = images.get_as(0)?;
    /// drop(images);
    /// assert_eq!(image.pixels.shape(), [3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deserialize_owned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OwnedVisitor)
    }
}

struct PackedVisitor;

impl<'de> Visitor<'de> for PackedVisitor {
    type Value = PackedArray<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array in a container, or an array of NumPy")
    }

    fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<PackedArray<'de>, E> {
        PackedArray::from_bytes(bytes).map_err(Error::custom)
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<PackedArray<'de>, E> {
        self.visit_byte_buf(bytes.to_vec())
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<PackedArray<'de>, E> {
        PackedArray::from_bytes(bytes).map_err(Error::custom)
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<PackedArray<'de>, M::Error> {
        of_plain(map)
    }
}

/// The same, owning its bytes.
struct OwnedVisitor;

impl<'de> Visitor<'de> for OwnedVisitor {
    type Value = PackedArray<'static>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PackedVisitor.expecting(f)
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<PackedArray<'static>, E> {
        self.visit_byte_buf(bytes.to_vec())
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<PackedArray<'static>, E> {
        PackedArray::from_bytes(bytes).map_err(Error::custom)
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<PackedArray<'static>, M::Error> {
        of_plain(map)
    }
}

/// A plain array as a container that is not compressed.
fn of_plain<'de, M: MapAccess<'de>>(map: M) -> Result<PackedArray<'static>, M::Error> {
    let array = NdArray::deserialize(MapAccessDeserializer::new(map))?;
    let options = PackOptions::compact().level(0).checksum(Checksum::None).threads(1);
    let packed = options.pack(&array).map_err(Error::custom)?;
    PackedArray::from_bytes(packed).map_err(Error::custom)
}
