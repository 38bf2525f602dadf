//! Packed samples from the fields of a record.

use std::borrow::Cow;

use crate::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, numpy, sample::KEY};
use crate::value::NdArray;

/// The stored name of a field called `key`.
const OWN_KEY: &str = "_key";

/// The value of a field, borrowed where copying it would cost.
pub(crate) enum Field<'a> {
    Value(Value),
    Bytes(&'a [u8]),
    Array(NdArray<'a>),
    /// An array without dimensions, which becomes a NumPy scalar. But float64 becomes a plain
    /// float: it is a `float` for Python, which packs it as one.
    Scalar(NdArray<'a>),
    /// An array without dimensions, which becomes a NumPy scalar of its type, float64 included.
    Numpy(NdArray<'a>),
}

/// The fields of a sample and their names, in order.
pub(crate) type Fields<'a> = Vec<(Cow<'a, str>, Field<'a>)>;

/// Packs a sample, with the key first. A field called `key` becomes `_key`.
pub(crate) fn pack(key: &str, fields: &Fields<'_>) -> Result<Vec<u8>> {
    check_names(fields).map_err(|error| error.with_key(key))?;
    let size: usize = fields.iter().map(|(name, field)| name.len() + field.size() + 64).sum();
    let mut out = Vec::with_capacity(size + key.len() + 16);
    msgpack::write_map(fields.len() + 1, &mut out)?;
    msgpack::write_text(KEY, &mut out)?;
    msgpack::write_text(key, &mut out)?;
    for (name, field) in fields {
        msgpack::write_text(stored_name(name), &mut out)?;
        write_field(field, &mut out)?;
    }
    Ok(out)
}

/// The packed value of a field.
pub(crate) fn pack_field(field: &Field<'_>) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(field.size() + 16);
    write_field(field, &mut out)?;
    Ok(out)
}

/// Appends the packed value of a field.
pub(crate) fn write_field(field: &Field<'_>, out: &mut Vec<u8>) -> Result<()> {
    match field {
        Field::Value(value) => msgpack::encode(value, out)?,
        Field::Bytes(bytes) => msgpack::write_bin(bytes, out)?,
        Field::Array(array) => numpy::encode_array(array, out)?,
        Field::Scalar(array) => match float(array) {
            Some(float) => msgpack::encode(&float.into(), out)?,
            None => numpy::encode_scalar(array, out)?,
        },
        Field::Numpy(array) => numpy::encode_scalar(array, out)?,
    }
    Ok(())
}

/// The number, if it is a 64-bit float.
fn float(array: &NdArray<'_>) -> Option<f64> {
    array.to_ndarray::<f64>().ok()?.first().copied()
}

/// The key in this field: a string, bytes in UTF-8, or an integer.
pub(crate) fn key_from(fields: &Fields<'_>, name: &str) -> Result<String> {
    let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
    let Some((_, field)) = fields.iter().find(|(found, _)| found == name) else {
        return Err(invalid(format!("expected a field {name:?} for the key, found none")));
    };
    let text = match field {
        Field::Value(value) => key_text(value),
        Field::Bytes(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
        _ => None,
    };
    text.ok_or_else(|| {
        invalid(format!(
            "expected a string or an integer as the key in field {name:?}, found neither"
        ))
    })
}

/// The key that a value is: a string, bytes in UTF-8, or an integer.
pub(crate) fn key_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => text.as_str().map(str::to_owned),
        Value::Integer(number) => Some(number.to_string()),
        Value::Binary(bytes) => String::from_utf8(bytes.clone()).ok(),
        _ => None,
    }
}

impl Field<'_> {
    fn size(&self) -> usize {
        match self {
            Field::Value(_) => 0,
            Field::Bytes(bytes) => bytes.len(),
            Field::Array(array) | Field::Scalar(array) | Field::Numpy(array) => array.bytes().len(),
        }
    }
}

/// The name of a field in a sample.
pub(crate) fn stored_name(name: &str) -> &str {
    if name == KEY { OWN_KEY } else { name }
}

/// If two fields had the same name, one would be lost.
fn check_names(fields: &Fields<'_>) -> Result<()> {
    let mut names: Vec<&str> = fields.iter().map(|(name, _)| stored_name(name)).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            let message = format!("expected fields of different names, found {:?} twice", pair[0]);
            Err(Error::new(ErrorKind::Invalid, message))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NumPy's float64 is a subclass of Python's float, which its packer knows.
    #[test]
    fn numbers_of_numpy_are_packed_as_python_packs_them() {
        let native = NdArray::scalar(0.5f64);
        let big = NdArray::new(">f8".parse().unwrap(), [], 0.5f64.to_be_bytes().to_vec()).unwrap();
        let short = NdArray::scalar(0.5f32);
        let fields = [("n", native), ("b", big), ("s", short)];
        let fields = fields.map(|(name, array)| (name.into(), Field::Scalar(array)));
        let sample = msgpack::decode(&pack("k", &fields.into()).unwrap()).unwrap();
        assert_eq!((&sample["n"], &sample["b"]), (&Value::F64(0.5), &Value::F64(0.5)));
        assert!(sample["s"].is_map());
    }

    #[test]
    fn fields_keep_their_order() {
        let fields = vec![
            ("b".into(), Field::Bytes(b"xy")),
            ("key".into(), Field::Value("own".into())),
            ("a".into(), Field::Scalar(NdArray::scalar(7u8))),
        ];
        let sample = msgpack::decode(&pack("k", &fields).unwrap()).unwrap();
        let names: Vec<&str> =
            sample.as_map().unwrap().iter().filter_map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["key", "b", "_key", "a"]);
        assert_eq!((&sample["key"], &sample["_key"]), (&"k".into(), &"own".into()));
        assert_eq!(key_from(&fields, "b").unwrap(), "xy");
        assert!(key_from(&fields, "a").is_err() && key_from(&fields, "c").is_err());

        let twice = vec![
            ("key".into(), Field::Value(Value::Nil)),
            ("_key".into(), Field::Value(Value::Nil)),
        ];
        let error = pack("k", &twice).unwrap_err();
        let message = "key \"k\": expected fields of different names, found \"_key\" twice";
        assert_eq!(error.to_string(), message);
    }
}
