//! [`MergedLabels`]: numeric labels of several datasets, in one numbering.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use super::{Scalar, put};
use crate::dataset::Writer;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::numpy::{self, Special, recognise};
use crate::format::msgpack::{self, Cursor, Value, sample};
use crate::reader::Reader;
use crate::value::{Casting, NdArray};

/// The field whose numbers `.labels` names.
const LABEL: &str = "label";

/// One numbering for the labels of several datasets, made by name: the labels of the first keep
/// their numbers, and names that only later ones have are appended in the order in which they come.
///
/// ```
/// use kiste::Value;
/// use kiste::format::msgpack::{decode, to_vec};
/// use kiste::rearrange::MergedLabels;
///
/// let mut merged = MergedLabels::new();
/// merged.add(&["cat", "dog"])?;
/// merged.add(&["dog", "emu"])?;
/// assert_eq!(merged.names(), ["cat", "dog", "emu"]);
///
/// let sample = Value::Map(vec![("key".into(), "a".into()), ("label".into(), 0.into())]);
/// let packed = to_vec(&sample)?;
/// assert_eq!(decode(&merged.renumber(1, &packed)?)?["label"], 1.into());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergedLabels {
    names: Vec<String>,
    /// The number of each name.
    known: HashMap<String, usize>,
    /// For each dataset the new number of each label.
    numbers: Vec<Vec<usize>>,
}

impl MergedLabels {
    /// The numbering of no dataset.
    pub fn new() -> MergedLabels {
        MergedLabels::default()
    }

    /// Adds the labels of the next dataset; none, if its samples have none.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if two of them have one name: by name they would become
    /// one.
    pub fn add<S: AsRef<str>>(&mut self, labels: &[S]) -> Result<()> {
        let mut own: HashMap<&str, usize> = HashMap::new();
        for (number, name) in labels.iter().map(AsRef::as_ref).enumerate() {
            if let Some(first) = own.insert(name, number) {
                let message = format!(
                    "expected labels of different names, found {name:?} as {first} and {number}"
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        let mut numbers = Vec::with_capacity(labels.len());
        for name in labels.iter().map(AsRef::as_ref) {
            let number = match self.known.get(name) {
                Some(number) => *number,
                None => {
                    self.known.insert(name.to_owned(), self.names.len());
                    self.names.push(name.to_owned());
                    self.names.len() - 1
                }
            };
            numbers.push(number);
        }
        self.numbers.push(numbers);
        Ok(())
    }

    /// The names of all labels, in the order of their numbers, from 0.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether a number of any dataset becomes another one.
    pub(super) fn changes(&self) -> bool {
        self.numbers.iter().any(|numbers| numbers.iter().enumerate().any(|(old, new)| old != *new))
    }

    /// A packed sample of a dataset, counted from 0, with the new number in the field `label`. A
    /// sample without a label, or whose label is nil, has none afterwards either. All other bytes
    /// stay as they are.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a label that is no number of a label of this dataset, and
    /// for a NumPy scalar whose type has no room for the new number.
    pub fn renumber<'a>(&self, dataset: usize, packed: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let numbers = self.numbers.get(dataset).map_or(&[][..], Vec::as_slice);
        if numbers.iter().enumerate().all(|(old, new)| old == *new) {
            check(packed, numbers.len())?;
            return Ok(Cow::Borrowed(packed));
        }
        let mut out = Vec::with_capacity(packed.len() + 8);
        let mut passed = 0;
        for field in sample::fields(packed)? {
            let (name, value) = field?;
            if !is_label(name) {
                continue;
            }
            let decoded = msgpack::decode(value)?;
            let Some(number) = number_of(&decoded, numbers.len())? else { continue };
            let at = value.as_ptr() as usize - packed.as_ptr() as usize;
            out.extend_from_slice(&packed[passed..at]);
            write(&decoded, numbers[number], &mut out)?;
            passed = at + value.len();
        }
        out.extend_from_slice(&packed[passed..]);
        Ok(Cow::Owned(out))
    }

    /// Writes a sample of a dataset with the new number: [`copy_one`](super::copy_one) for merged
    /// labels.
    ///
    /// # Errors
    ///
    /// The errors of [`copy_one`](super::copy_one) and of [`renumber`](Self::renumber).
    pub fn copy_one(
        &self,
        dataset: usize,
        reader: &dyn Reader,
        index: usize,
        writer: &mut Writer,
    ) -> Result<()> {
        let key = reader.key(index)?;
        let packed = reader.get_raw(index)?;
        let located = |error: Error| reader.locate(index).describe(error.with_key(&*key));
        let renumbered = self.renumber(dataset, &packed).map_err(located)?;
        put(reader, index, &key, &renumbered, writer)
    }
}

fn is_label(name: &[u8]) -> bool {
    Cursor::new(name).read_str().is_ok_and(|name| name == LABEL)
}

/// Fails if a label is no number below this.
fn check(packed: &[u8], labels: usize) -> Result<()> {
    match sample::field(packed, LABEL)? {
        Some(value) => number_of(&msgpack::decode(value)?, labels).map(drop),
        None => Ok(()),
    }
}

/// The number that a label is, if it is not nil.
fn number_of(value: &Value, labels: usize) -> Result<Option<usize>> {
    let invalid = |found: &dyn fmt::Display| {
        let message = match labels {
            0 => format!("expected no label, as none has a name, found {found}"),
            _ => format!("expected the number of a label, below {labels}, found {found}"),
        };
        Error::new(ErrorKind::Invalid, message).with_field(LABEL)
    };
    match Scalar::of(value) {
        Some(Scalar::Nothing) => Ok(None),
        Some(Scalar::Whole(number)) if !matches!(value, Value::F32(_) | Value::F64(_)) => {
            let known = usize::try_from(number).ok().filter(|number| *number < labels);
            known.map(Some).ok_or_else(|| invalid(&number))
        }
        Some(Scalar::Text(text)) => Err(invalid(&format_args!("{text:?}"))),
        Some(other) => Err(invalid(&other)),
        None => Err(invalid(&"another value")),
    }
}

/// Writes a number as a value of the kind that it was.
fn write(old: &Value, number: usize, out: &mut Vec<u8>) -> Result<()> {
    let Some(Special::Scalar(scalar)) = recognise(old) else {
        return Ok(msgpack::encode(&(number as u64).into(), out)?);
    };
    let dtype = scalar.dtype();
    let new = NdArray::scalar(number as u64).astype(dtype, Casting::Unsafe);
    match new.ok().filter(|new| Scalar::of_numpy(new) == Some(Scalar::Whole(number as i128))) {
        Some(new) => Ok(numpy::encode_scalar(&new, out)?),
        None => {
            let message = format!("expected a type with room for label {number}, found {dtype}");
            Err(Error::new(ErrorKind::Invalid, message).with_field(LABEL))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(datasets: &[&[&str]]) -> Result<MergedLabels> {
        let mut merged = MergedLabels::new();
        datasets.iter().try_for_each(|labels| merged.add(labels))?;
        Ok(merged)
    }

    fn sample(label: Option<Value>) -> Vec<u8> {
        let mut fields = vec![("key".into(), "a".into())];
        fields.extend(label.map(|label| ("label".into(), label)));
        fields.push(("n".into(), 7.into()));
        msgpack::to_vec(&Value::Map(fields)).unwrap()
    }

    #[test]
    fn numbers_follow_the_names() {
        let labels = merged(&[&["cat", "dog"], &["dog", "emu", "cat"], &[]]).unwrap();
        assert_eq!(labels.names(), ["cat", "dog", "emu"]);
        for (dataset, old, new) in [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2), (1, 2, 0)] {
            let old = sample(Some(old.into()));
            assert_eq!(*labels.renumber(dataset, &old).unwrap(), *sample(Some(new.into())));
        }
        for none in [sample(None), sample(Some(Value::Nil))] {
            for dataset in 0..3 {
                assert_eq!(*labels.renumber(dataset, &none).unwrap(), *none);
            }
        }
        let error = labels.renumber(2, &sample(Some(0.into()))).unwrap_err();
        assert!(error.message().contains("expected no label, as none has a name"), "{error}");
    }

    #[test]
    fn numbers_of_numpy_keep_their_type() {
        let labels = merged(&[&["cat", "dog"], &["dog"]]).unwrap();
        let scalar = |number: u8| Special::Scalar(NdArray::scalar(number)).to_value();
        let old = sample(Some(scalar(0)));
        assert_eq!(*labels.renumber(1, &old).unwrap(), *sample(Some(scalar(1))));
        let mut labels = MergedLabels::new();
        labels.add(&(0..300).map(|number| number.to_string()).collect::<Vec<_>>()).unwrap();
        labels.add(&["299"]).unwrap();
        let error = labels.renumber(1, &old).unwrap_err();
        assert!(error.message().contains("room for label 299"), "{error}");
    }

    #[test]
    fn what_is_no_label_number_is_refused() {
        let labels = merged(&[&["cat", "dog"], &["dog", "cat"]]).unwrap();
        let list = Value::Array(vec![0.into()]);
        for wrong in [2.into(), (-1).into(), Value::F64(1.0), "cat".into(), true.into(), list] {
            for dataset in 0..2 {
                let error = labels.renumber(dataset, &sample(Some(wrong.clone()))).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid, "{wrong}");
                assert_eq!(error.field(), Some("label"), "{wrong}");
            }
        }
        let error = merged(&[&["crane"], &["crane", "dog", "crane"]]).unwrap_err();
        let says = "found \"crane\" as 0 and 2";
        assert!(error.to_string().ends_with(says), "{error}");
    }
}
