//! [`NameLabels`]: numbers of labels become their names.

use std::path::Path;

use super::changed::Change;
use super::reshape::pack;
use crate::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::numpy::{self, Special};
use crate::format::msgpack::{self, Cursor, Kind, sample};
use crate::value::{Casting, NdArray};

/// A number, or the numbers of the boxes in an image.
pub(super) const FIELDS: [&str; 2] = ["label", "labels"];

/// The names of labels, in the order of their numbers, and the fields that have these: the first of them that a sample
/// has.
pub(super) struct NameLabels {
    pub(super) names: Vec<String>,
    pub(super) fields: &'static [&'static str],
}

impl Change for NameLabels {
    type Place = ();

    fn place(&self, _file: Option<&Path>) {}

    fn change(&self, (): &(), packed: Vec<u8>) -> Result<Vec<u8>> {
        self.name(&packed).map_err(|error| error.with_raw(packed))
    }

    fn keeps_label_names(&self) -> bool {
        false
    }
}

impl NameLabels {
    fn name(&self, packed: &[u8]) -> Result<Vec<u8>> {
        let key = msgpack::check_sample(packed)?;
        let own =
            self.fields.iter().find(|name| matches!(sample::field(packed, name), Ok(Some(_))));
        let mut fields: Vec<(&str, Vec<u8>)> = Vec::new();
        for field in sample::fields(packed)? {
            let (name, value) = field?;
            let name = Cursor::new(name).read_str()?;
            if name == sample::KEY {
                continue;
            }
            let value = match own == Some(&name) {
                true => {
                    let named = self.named(&mut Cursor::new(value));
                    named.map_err(|error| error.with_key(key).with_field(name))?
                }
                false => value.to_vec(),
            };
            fields.push((name, value));
        }
        pack(key, &fields)
    }

    /// The packed name of a number, or the names of several. Nil stays.
    fn named(&self, value: &mut Cursor<'_>) -> Result<Vec<u8>> {
        let invalid = || {
            let message = "expected the number of a label, found another value";
            Error::new(ErrorKind::Invalid, message)
        };
        let named = match value.peek()? {
            Kind::Nil => Value::Nil,
            Kind::Int => self.name_of(value.read_i64()?)?,
            Kind::Array => {
                let len = value.read_array_len()?;
                let mut names = Vec::new();
                for _ in 0..len {
                    match value.peek()? {
                        Kind::Int => names.push(self.name_of(value.read_i64()?)?),
                        _ => return Err(invalid()),
                    }
                }
                Value::Array(names)
            }
            Kind::Map => match numpy::read(value)? {
                Some(Special::Scalar(number)) => {
                    let numbers = integers(&number).ok_or_else(invalid)?;
                    self.name_of(*numbers.first().ok_or_else(invalid)?)?
                }
                Some(Special::Array(array)) if array.shape().len() == 1 => {
                    let numbers = integers(&array).ok_or_else(invalid)?;
                    let names = numbers.into_iter().map(|number| self.name_of(number));
                    Value::Array(names.collect::<Result<_>>()?)
                }
                _ => return Err(invalid()),
            },
            _ => return Err(invalid()),
        };
        msgpack::to_vec(&named).map_err(Error::from)
    }

    fn name_of(&self, number: i64) -> Result<Value> {
        let name = usize::try_from(number).ok().and_then(|number| self.names.get(number));
        name.map(|name| name.as_str().into()).ok_or_else(|| {
            let message = format!("expected a label below {}, found {number}", self.names.len());
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

/// The elements of an array of integers.
fn integers(array: &NdArray<'_>) -> Option<Vec<i64>> {
    let wide = array.astype(&"<i8".parse().ok()?, Casting::Safe).ok()?;
    Some(wide.to_ndarray::<i64>().ok()?.iter().copied().collect())
}
