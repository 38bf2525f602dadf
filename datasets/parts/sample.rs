//! [`Sample`]: fields in their order.

use crate::Value;
use crate::error::Result;
use crate::format::sample_fields::{Field, Fields, pack};
use crate::value::NdArray;

/// A sample while it gets its fields, which stay in the order in which they come.
pub struct Sample<'a> {
    key: String,
    fields: Fields<'a>,
}

impl<'a> Sample<'a> {
    /// A sample that has a key and nothing else.
    pub fn new(key: impl Into<String>) -> Sample<'a> {
        Sample { key: key.into(), fields: Vec::new() }
    }

    /// With bytes, such as an image.
    pub fn bytes(mut self, name: &'static str, bytes: &'a [u8]) -> Sample<'a> {
        self.fields.push((name.into(), Field::Bytes(bytes)));
        self
    }

    /// Adds a number, a string, or any other msgpack value. Arrays within are made by
    /// [`Special::to_value`](crate::format::msgpack::numpy::Special::to_value).
    pub fn value(mut self, name: &'static str, value: impl Into<Value>) -> Sample<'a> {
        self.fields.push((name.into(), Field::Value(value.into())));
        self
    }

    /// With an array as msgpack-numpy has them.
    pub fn array(mut self, name: &'static str, array: NdArray<'a>) -> Sample<'a> {
        self.fields.push((name.into(), Field::Array(array)));
        self
    }

    /// The sample as it is written.
    pub fn pack(&self) -> Result<Vec<u8>> {
        pack(&self.key, &self.fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stay_in_their_order() {
        let sample = Sample::new("a.png").bytes("image", b"...").value("label", 7);
        let expected = b"\x83\xa3key\xa5a.png\xa5image\xc4\x03...\xa5label\x07";
        assert_eq!(sample.pack().unwrap(), expected);
    }
}
