//! [`Scalar`]: a field that can be compared.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use half::f16;

use super::{STRIDE, at_sample};
use crate::error::{Error, ErrorKind, Result};
use crate::format::claimed::Claimed;
use crate::format::msgpack::Value;
use crate::format::msgpack::numpy::{Special, recognise};
use crate::format::msgpack::timestamp;
use crate::natural::natural_order;
use crate::reader::Reader;
use crate::value::time::format_moment;
use crate::value::{Element, NdArray, nanoseconds};

/// A value with an order: what samples are sorted and grouped by.
///
/// Numbers are compared by value, not by type: 1, 1.0 and a `numpy.uint8(1)` are equal.
/// Of different kinds, nothing comes before booleans, these before numbers, these before times, these
/// before text.
///
/// ```
/// use kiste::Value;
/// use kiste::rearrange::Scalar;
///
/// assert_eq!(Scalar::of(&Value::from(1)), Scalar::of(&Value::from(1.0)));
/// assert!(Scalar::of(&Value::from(10)) < Scalar::of(&Value::from("9")));
/// assert_eq!(Scalar::of(&Value::from(&b"bytes"[..])), None);
/// ```
#[derive(Debug, Clone)]
pub enum Scalar {
    /// `null`, or no such field.
    Nothing,
    /// True or false.
    Truth(bool),
    /// A whole number.
    Whole(i128),
    /// Any other number.
    Float(f64),
    /// A point in time, as nanoseconds since 1970 in UTC: a timestamp of msgpack or a `datetime64` of NumPy.
    Time(i128),
    /// Text.
    Text(String),
}

/// Kinds of [`Scalar`] that can be compared with each other. Prints itself as in "found a number".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScalarKind {
    /// True and false.
    Truth,
    /// Numbers, whole or not.
    Number,
    /// Points in time.
    Time,
    /// Text.
    Text,
}

impl fmt::Display for ScalarKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScalarKind::Truth => "true or false",
            ScalarKind::Number => "a number",
            ScalarKind::Time => "a time",
            ScalarKind::Text => "text",
        })
    }
}

impl Scalar {
    /// The scalar that a value is; `None` for bytes, lists, maps, arrays and the like.
    pub fn of(value: &Value) -> Option<Scalar> {
        match value {
            Value::Nil => Some(Scalar::Nothing),
            Value::Boolean(truth) => Some(Scalar::Truth(*truth)),
            Value::Integer(number) => {
                let number = number.as_i64().map(i128::from);
                number.or_else(|| value.as_u64().map(i128::from)).map(Scalar::Whole)
            }
            Value::F32(number) => Some(Scalar::number(f64::from(*number))),
            Value::F64(number) => Some(Scalar::number(*number)),
            Value::String(text) => text.as_str().map(|text| Scalar::Text(text.to_string())),
            Value::Map(_) => match recognise(value)? {
                Special::Scalar(array) => Scalar::of_numpy(&array),
                _ => None,
            },
            Value::Ext(timestamp::CODE, data) => {
                let (seconds, nanoseconds) = timestamp::from_ext(data)?;
                let whole = i128::from(seconds) * 1_000_000_000;
                Some(Scalar::Time(whole + i128::from(nanoseconds)))
            }
            Value::Binary(_) | Value::Array(_) | Value::Ext(..) => None,
        }
    }

    /// A number, whole if it is.
    pub fn number(number: f64) -> Scalar {
        // Beyond, a float has no digits behind the point, and 2¹²⁷ has no room.
        match number.fract() == 0.0 && number.abs() < 1e30 {
            true => Scalar::Whole(number as i128),
            false => Scalar::Float(number),
        }
    }

    /// The time that a `datetime64` is. "Not a time" is nothing.
    fn of_datetime(array: &NdArray<'_>) -> Option<Scalar> {
        match array.to_ndarray::<i64>().ok()?.first().copied()? {
            i64::MIN => Some(Scalar::Nothing),
            time => nanoseconds(time, array.dtype().time_unit()?).map(Scalar::Time),
        }
    }

    /// The number or the time that a scalar of NumPy is.
    pub(crate) fn of_numpy(array: &NdArray<'_>) -> Option<Scalar> {
        use crate::value::DTypeKind::{Bool, DateTime, Float, Int, UInt};
        // The type has been looked at before it is asked for.
        fn only<T: Element>(array: &NdArray<'_>) -> Option<T> {
            array.to_ndarray().ok()?.first().copied()
        }
        match (array.dtype().kind(), array.dtype().item_size()) {
            (DateTime, _) => Scalar::of_datetime(array),
            (Bool, _) => only(array).map(Scalar::Truth),
            (Int, 1) => only::<i8>(array).map(|number| Scalar::Whole(number.into())),
            (Int, 2) => only::<i16>(array).map(|number| Scalar::Whole(number.into())),
            (Int, 4) => only::<i32>(array).map(|number| Scalar::Whole(number.into())),
            (Int, 8) => only::<i64>(array).map(|number| Scalar::Whole(number.into())),
            (UInt, 1) => only::<u8>(array).map(|number| Scalar::Whole(number.into())),
            (UInt, 2) => only::<u16>(array).map(|number| Scalar::Whole(number.into())),
            (UInt, 4) => only::<u32>(array).map(|number| Scalar::Whole(number.into())),
            (UInt, 8) => only::<u64>(array).map(|number| Scalar::Whole(number.into())),
            (Float, 2) => only::<f16>(array).map(|number| Scalar::number(number.into())),
            (Float, 4) => only::<f32>(array).map(|number| Scalar::number(number.into())),
            (Float, 8) => only(array).map(Scalar::number),
            _ => None,
        }
    }

    /// As [`Ord`], but text in [natural order](natural_order): `a2` before `a10`.
    pub fn natural_cmp(&self, other: &Scalar) -> Ordering {
        match (self, other) {
            (Scalar::Text(a), Scalar::Text(b)) => natural_order(a, b).then_with(|| a.cmp(b)),
            _ => self.cmp(other),
        }
    }

    /// Of which kind it is; nothing is of none.
    pub fn kind(&self) -> Option<ScalarKind> {
        match self {
            Scalar::Nothing => None,
            Scalar::Truth(_) => Some(ScalarKind::Truth),
            Scalar::Whole(_) | Scalar::Float(_) => Some(ScalarKind::Number),
            Scalar::Time(_) => Some(ScalarKind::Time),
            Scalar::Text(_) => Some(ScalarKind::Text),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Scalar::Nothing => 0,
            Scalar::Truth(_) => 1,
            Scalar::Whole(_) | Scalar::Float(_) => 2,
            Scalar::Time(_) => 3,
            Scalar::Text(_) => 4,
        }
    }
}

/// A field of each sample, to sort or group by. `key` is a field like any other. `progress` hears how
/// many samples were read so far; an error of it is returned.
///
/// ```
/// use kiste::reader::ListReader;
/// use kiste::rearrange::{Scalar, scalars};
///
/// let letters = ["a", "b"].map(|key| std::collections::BTreeMap::from([("key", key)]));
/// let keys = scalars(&ListReader::pack(letters)?, "key", |_| Ok(()))?;
/// assert_eq!(keys, [Scalar::Text("a".into()), Scalar::Text("b".into())]);
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// # Errors
///
/// The errors of the reader and of `progress`; [`Invalid`](ErrorKind::Invalid) for a sample without the
/// field, or where it is no scalar.
pub fn scalars(
    reader: &dyn Reader,
    field: &str,
    mut progress: impl FnMut(u64) -> Result<()>,
) -> Result<Vec<Scalar>> {
    let mut scalars = Claimed::new(reader.len() as u64).room()?;
    for index in 0..reader.len() {
        let wrong = |message| at_sample(reader, index, Error::new(ErrorKind::Invalid, message));
        scalars.push(if field == "key" {
            Scalar::Text(reader.key(index)?.into_owned())
        } else {
            let value = reader.field(index, field)?;
            let value = value.ok_or_else(|| wrong(format!("there is no field {field:?}")))?;
            Scalar::of(&value).ok_or_else(|| {
                let message = "neither a number nor text nor a time nor true or false";
                wrong(format!("field {field:?} is {message}"))
            })?
        });
        if index % STRIDE == 0 {
            progress(index as u64)?;
        }
    }
    Ok(scalars)
}

impl Ord for Scalar {
    fn cmp(&self, other: &Scalar) -> Ordering {
        match (self, other) {
            (Scalar::Truth(a), Scalar::Truth(b)) => a.cmp(b),
            (Scalar::Whole(a), Scalar::Whole(b)) => a.cmp(b),
            (Scalar::Float(a), Scalar::Float(b)) => a.total_cmp(b),
            // Never equal: a float that is whole is a whole number.
            (Scalar::Whole(a), Scalar::Float(b)) => (*a as f64).total_cmp(b).then(Ordering::Less),
            (Scalar::Float(a), Scalar::Whole(b)) => {
                a.total_cmp(&(*b as f64)).then(Ordering::Greater)
            }
            (Scalar::Time(a), Scalar::Time(b)) => a.cmp(b),
            (Scalar::Text(a), Scalar::Text(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Scalar) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Scalar) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Scalar::Nothing => {}
            Scalar::Truth(truth) => truth.hash(state),
            Scalar::Whole(number) => number.hash(state),
            Scalar::Float(number) => number.to_bits().hash(state),
            Scalar::Time(time) => time.hash(state),
            Scalar::Text(text) => text.hash(state),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Nothing => f.write_str("null"),
            Scalar::Truth(truth) => truth.fmt(f),
            Scalar::Whole(number) => number.fmt(f),
            Scalar::Float(number) => number.fmt(f),
            Scalar::Time(time) => f.write_str(&format_moment(*time)),
            Scalar::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numpy(dtype: &str, data: &[u8]) -> Option<Scalar> {
        Scalar::of(&Special::scalar(dtype.parse().ok()?, data)?.to_value())
    }

    #[test]
    fn numbers_of_numpy_are_numbers() {
        assert_eq!(numpy("<i8", &(-3i64).to_le_bytes()), Some(Scalar::Whole(-3)));
        assert_eq!(numpy(">i2", &(-3i16).to_be_bytes()), Some(Scalar::Whole(-3)));
        assert_eq!(numpy("|u1", &[200]), Some(Scalar::Whole(200)));
        assert_eq!(numpy("<f4", &0.5f32.to_le_bytes()), Some(Scalar::Float(0.5)));
        assert_eq!(numpy(">f2", &[0x38, 0]), Some(Scalar::Float(0.5)));
        assert_eq!(numpy("|b1", &[1]), Some(Scalar::Truth(true)));
    }

    #[test]
    fn times_of_numpy_and_msgpack_are_times() {
        let second = 1_000_000_000;
        let one = 1i64.to_le_bytes();
        assert_eq!(numpy("<M8[s]", &one), Some(Scalar::Time(second)));
        assert_eq!(numpy("<M8[D]", &one), Some(Scalar::Time(86_400 * second)));
        assert_eq!(numpy("<M8[Y]", &one), Some(Scalar::Time(365 * 86_400 * second)));
        assert_eq!(numpy("<M8[ps]", &(-1i64).to_le_bytes()), Some(Scalar::Time(-1)));
        assert_eq!(numpy(">M8[25us]", &1i64.to_be_bytes()), Some(Scalar::Time(25_000)));
        assert!(matches!(numpy("<M8[Y]", &i64::MAX.to_le_bytes()), Some(Scalar::Time(_))));
        assert_eq!(numpy("<M8[s]", &i64::MIN.to_le_bytes()), Some(Scalar::Nothing));
        assert_eq!((numpy("<M8", &one), numpy("<m8[s]", &one)), (None, None));
        let packed = |seconds, nanoseconds| {
            Scalar::of(&Value::Ext(-1, timestamp::to_ext(seconds, nanoseconds).unwrap()))
        };
        assert_eq!(packed(2, 5), Some(Scalar::Time(2 * second + 5)));
        assert_eq!(packed(-2, 5).unwrap().to_string(), "1969-12-31T23:59:58.000000005Z");
        assert_eq!(Scalar::of(&Value::Ext(-1, vec![1])), None);
    }

    #[test]
    fn the_order_is_total() {
        let sorted = [
            Scalar::Nothing,
            Scalar::Truth(false),
            Scalar::Truth(true),
            Scalar::Float(-1.5),
            Scalar::Whole(-1),
            Scalar::number(0.0),
            Scalar::Float(0.5),
            Scalar::Whole(1),
            Scalar::Float(f64::INFINITY),
            Scalar::Time(-1),
            Scalar::Time(0),
            Scalar::Text("10".into()),
            Scalar::Text("9".into()),
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(a.cmp(b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
        assert_eq!(sorted[11].natural_cmp(&sorted[12]), Ordering::Greater);
    }
}
