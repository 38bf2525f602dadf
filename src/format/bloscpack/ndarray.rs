//! Metadata of arrays: element type, shape and order.

use std::fmt::Write;

use crate::format::FormatError;
use crate::format::numpy::descr;
use crate::value::{DType, Order};

use super::metadata::{parse_json, write_json, write_string};

/// The metadata of an array.
///
/// ```
/// use kiste::format::bloscpack::ArrayMetadata;
/// use kiste::value::{DType, Order};
///
/// let array = ArrayMetadata { dtype: DType::of::<f32>(), shape: vec![2, 3], order: Order::C };
/// let text = array.to_json(&[]);
/// # #[cfg(target_endian = "little")]
/// assert_eq!(text, r#"{"dtype":"'<f4'","shape":[2,3],"order":"C","container":"numpy"}"#);
/// assert_eq!(ArrayMetadata::parse(&text)?, array);
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayMetadata {
    /// The type of the elements.
    pub dtype: DType,
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// How the elements follow each other.
    pub order: Order,
}

/// How the text ends for nearly all arrays.
const END: &str = "],\"order\":\"C\",\"container\":\"numpy\"}";

impl ArrayMetadata {
    /// Parses the text. Positions of errors are always 0.
    pub fn parse(text: &str) -> Result<ArrayMetadata, FormatError> {
        match parse_usual(text) {
            Some(array) => Ok(array),
            None => from_value(&parse_json(text, 0)?),
        }
    }

    /// The text, with more keys and their values behind the four of an array.
    pub fn to_json(&self, more: &[(String, serde_json::Value)]) -> String {
        let mut out = String::with_capacity(96);
        out.push_str("{\"dtype\":");
        write_string(&descr::repr(&self.dtype), &mut out);
        out.push_str(",\"shape\":[");
        for (i, len) in self.shape.iter().enumerate() {
            // A String takes everything.
            let _ = write!(out, "{}{len}", if i == 0 { "" } else { "," });
        }
        out.push_str(match self.order {
            Order::C => END,
            Order::F => "],\"order\":\"F\",\"container\":\"numpy\"}",
        });
        for (key, value) in more {
            out.pop();
            out.push(',');
            write_string(key, &mut out);
            out.push(':');
            write_json(value, &mut out);
            out.push('}');
        }
        out
    }

    /// Bytes of the array, unless that overflows.
    pub fn nbytes(&self) -> Option<u64> {
        let product = |product: u64, &len: &usize| product.checked_mul(len as u64);
        match self.shape.contains(&0) {
            true => Some(0),
            false => self.shape.iter().try_fold(self.dtype.item_size() as u64, product),
        }
    }
}

/// A fast path for the text that all writers produce for plain types in C order, without parsing
/// JSON: for an array of a few numbers that would be most of the work.
fn parse_usual(text: &str) -> Option<ArrayMetadata> {
    let rest = text.strip_prefix("{\"dtype\":\"'")?.strip_suffix(END)?;
    let (dtype, shape) = rest.split_once("'\",\"shape\":[")?;
    let dtype = descr::canonical(dtype).filter(|dtype| !dtype.has_objects())?;
    let is_number = |len: &str| {
        !len.is_empty()
            && len.bytes().all(|digit| digit.is_ascii_digit())
            && (len == "0" || !len.starts_with('0'))
    };
    let len = |len: &str| if is_number(len) { len.parse().ok() } else { None };
    let shape = match shape {
        "" => Vec::new(),
        _ => shape.split(',').map(len).collect::<Option<_>>()?,
    };
    Some(ArrayMetadata { dtype, shape, order: Order::C })
}

fn from_value(value: &serde_json::Value) -> Result<ArrayMetadata, FormatError> {
    let error = |expected: &str, found: Option<&serde_json::Value>| {
        let found = found.map_or("none".to_owned(), |value| {
            let mut text = String::new();
            write_json(value, &mut text);
            if text.len() > 60 { format!("{}…", &text[..60]) } else { text }
        });
        FormatError::new(0, expected, found)
    };
    let container = value.get("container");
    if container.and_then(|container| container.as_str()) != Some("numpy") {
        return Err(error("metadata of a NumPy array, \"container\" being \"numpy\"", container));
    }
    let dtype = match value.get("dtype") {
        Some(serde_json::Value::String(text)) => descr::parse(text),
        // As bloscpack wrote it up to 0.7.1; the same text is a literal of Python.
        Some(list @ serde_json::Value::Array(_)) => descr::parse(&list.to_string()),
        other => return Err(error("a type of elements in array metadata", other)),
    };
    let in_metadata = |error: FormatError| {
        FormatError::new(0, format!("{} in array metadata", error.expected), error.found)
    };
    let dtype = dtype.map_err(in_metadata)?;
    if dtype.has_objects() {
        return Err(error("an array without Python objects", value.get("dtype")));
    }
    let shape = value.get("shape").and_then(|shape| shape.as_array()).and_then(|shape| {
        shape.iter().map(|len| len.as_u64().and_then(|len| len.try_into().ok())).collect()
    });
    let shape = shape.ok_or_else(|| error("a shape in array metadata", value.get("shape")))?;
    let order = match value.get("order").and_then(|order| order.as_str()) {
        Some("C") => Order::C,
        Some("F") => Order::F,
        _ => return Err(error("order \"C\" or \"F\" in array metadata", value.get("order"))),
    };
    Ok(ArrayMetadata { dtype, shape, order })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn metadata_of_all_versions_is_read() {
        for (dtype, shape, order) in [
            ("<f8", vec![3], Order::C),
            ("|b1", vec![], Order::C),
            (">i2", vec![4, 0, 6], Order::F),
            ("[('\u{fc}', '<i4'), (\"it's\", '|S3', (2,))]", vec![1], Order::C),
        ] {
            let array = ArrayMetadata { dtype: dtype.parse().unwrap(), shape, order };
            let text = array.to_json(&[]);
            assert!(text.is_ascii());
            assert_eq!(ArrayMetadata::parse(&text).unwrap(), array);
            let spaced = text.replace(",\"order\"", " ,\n \"order\"");
            assert_eq!(ArrayMetadata::parse(&spaced).unwrap(), array);
            let more = array.to_json(&[("axes".into(), json!(["y", "x"]))]);
            assert!(more.ends_with("\"container\":\"numpy\",\"axes\":[\"y\",\"x\"]}"));
            assert_eq!(ArrayMetadata::parse(&more).unwrap(), array);
        }
    }

    #[test]
    fn the_short_way_reads_nothing_that_the_long_one_refuses() {
        let text = |shape: &str| {
            format!(
                "{{\"dtype\":\"'<f8'\",\"shape\":[{shape}],\"order\":\"C\",\"container\":\"numpy\"}}"
            )
        };
        for shape in ["01", "+1", "1,", ",1", "1.0", "-1", "18446744073709551616", "1]"] {
            assert!(ArrayMetadata::parse(&text(shape)).is_err(), "{shape}");
        }
        assert_eq!(ArrayMetadata::parse(&text("1 , 2")).unwrap().shape, [1, 2]);
    }

    #[test]
    fn what_is_more_than_can_be_is_not_counted() {
        let dtype = DType::of::<f64>();
        let of = |shape: &[usize]| {
            ArrayMetadata { dtype: dtype.clone(), shape: shape.into(), order: Order::C }.nbytes()
        };
        assert_eq!(of(&[]), Some(8));
        assert_eq!(of(&[usize::MAX, usize::MAX, 0]), Some(0));
        assert_eq!(of(&[1 << 31, 1 << 31]), None);
    }
}
