//! Fields of a sample from the `Example` or `SequenceExample` in a record.
//!
//! What a message says stays with it: names are sorted, because messages have no order, and
//! [`Rules`] say what it cannot.

use crate::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::numpy::Special;
use crate::format::sample_fields::{Field, Fields};
use crate::format::tfrecord::example::{Feature, Record};
use crate::value::{Element, NdArray};

/// What the values of features are, which messages do not say.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    /// Features whose byte strings are UTF-8 and become strings.
    pub(crate) texts: Vec<String>,
    /// Features that stay lists and arrays even if they have one value.
    pub(crate) lists: Vec<String>,
}

impl Rules {
    /// The fields of a record, sorted by name, with nil for those that are not needed; how many fields of
    /// its messages were passed over as unknown; and how many values a later one of their name replaced.
    pub(crate) fn fields<'a>(
        &self,
        record: &'a [u8],
        needs: &dyn Fn(&str) -> bool,
    ) -> Result<(Fields<'a>, u64, u64)> {
        let Record { features, lists, unknown, replaced } = decode(record)?;
        let mut fields: Fields<'_> = Vec::with_capacity(features.len());
        for (name, feature) in features {
            let value = match needs(name) {
                true => self.field(name, feature)?,
                false => DROPPED,
            };
            fields.push((name.into(), value));
        }
        for (name, steps) in lists {
            let value = match needs(name) {
                true => self.steps(name, steps)?,
                false => DROPPED,
            };
            fields.push((name.into(), value));
        }
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok((fields, unknown, replaced))
    }

    /// The steps of a feature list.
    fn steps<'a>(&self, name: &str, steps: Vec<Feature<'a>>) -> Result<Field<'a>> {
        let stays = self.lists.iter().any(|known| known == name);
        if let Some(numbers) = numbers(&steps).filter(|_| !stays) {
            return Ok(Field::Array(numbers));
        }
        let single = !stays && steps.iter().all(|step| len(step) == Some(1));
        let value = |step| Ok(value_of(self.value(name, step, single)?));
        steps.into_iter().map(value).collect::<Result<_>>().map(Value::Array).map(Field::Value)
    }

    fn field<'a>(&self, name: &str, feature: Feature<'a>) -> Result<Field<'a>> {
        let single = !self.lists.iter().any(|known| known == name);
        self.value(name, feature, single)
    }

    /// A feature: if it has one value and `single` says so, that value.
    fn value<'a>(&self, name: &str, feature: Feature<'a>, single: bool) -> Result<Field<'a>> {
        let is_text = self.texts.iter().any(|known| known == name);
        let value = |bytes: &[u8]| match is_text {
            true => std::str::from_utf8(bytes).map(Value::from).map_err(|_| {
                let message = format!("feature {name:?}: expected UTF-8, found other bytes");
                Error::new(ErrorKind::Damaged, message)
            }),
            false => Ok(Value::from(bytes)),
        };
        Ok(match feature {
            Feature::Empty => Field::Value(Value::Nil),
            Feature::Bytes(strings) => match &strings[..] {
                [one] if single && !is_text => Field::Bytes(one),
                [one] if single => Field::Value(value(one)?),
                all => {
                    let values: Result<_> = all.iter().map(|bytes| value(bytes)).collect();
                    Field::Value(Value::Array(values?))
                }
            },
            Feature::Floats(floats) => match floats[..] {
                // As a NumPy scalar, which keeps the 32 bits.
                [one] if single => Field::Scalar(NdArray::scalar(one)),
                _ => Field::Array(array(&floats)),
            },
            Feature::Ints(ints) => match ints[..] {
                [one] if single => Field::Value(Value::from(one)),
                _ => Field::Array(array(&ints)),
            },
        })
    }
}

/// A field that is not needed.
const DROPPED: Field<'static> = Field::Value(Value::Nil);

/// The key of a record that has none of its own.
pub(crate) fn numbered_key(stem: &str, number: u64) -> String {
    format!("{stem}/{number:012}")
}

/// The content of a record, or an error if it is something else.
fn decode(record: &[u8]) -> Result<Record<'_>> {
    let other = |found: &dyn std::fmt::Display| {
        let expected = "expected a tf.train.Example or SequenceExample";
        // Leaving such records out, which is the usual hint, would lose all of them.
        Error::new(ErrorKind::Unsupported, format!("{expected}, found {found}"))
            .advise("records of other messages are not read: write them as one of these first")
    };
    let found =
        Record::decode(record).map_err(|flaw| other(&format_args!("other data: {flaw}")))?;
    let is_empty = found.features.is_empty() && found.lists.is_empty();
    match is_empty && found.unknown > 0 {
        true => Err(other(&"a message of other fields")),
        false => Ok(found),
    }
}

/// How many values a feature has.
fn len(feature: &Feature<'_>) -> Option<usize> {
    match feature {
        Feature::Empty => None,
        Feature::Bytes(strings) => Some(strings.len()),
        Feature::Floats(floats) => Some(floats.len()),
        Feature::Ints(ints) => Some(ints.len()),
    }
}

/// The numbers of steps that have one each, all of one type.
fn numbers(steps: &[Feature<'_>]) -> Option<NdArray<'static>> {
    let floats = || {
        steps.iter().map(|step| match step {
            Feature::Floats(floats) if floats.len() == 1 => Some(floats[0]),
            _ => None,
        })
    };
    let ints = || {
        steps.iter().map(|step| match step {
            Feature::Ints(ints) if ints.len() == 1 => Some(ints[0]),
            _ => None,
        })
    };
    match steps.first()? {
        Feature::Floats(_) => Some(array(&floats().collect::<Option<Vec<f32>>>()?)),
        Feature::Ints(_) => Some(array(&ints().collect::<Option<Vec<i64>>>()?)),
        _ => None,
    }
}

/// A field within a list.
fn value_of(field: Field<'_>) -> Value {
    match field {
        Field::Value(value) => value,
        Field::Bytes(bytes) => bytes.into(),
        Field::Array(array) => Special::Array(array).to_value(),
        Field::Scalar(number) | Field::Numpy(number) => Special::Scalar(number).to_value(),
    }
}

fn array<T: Element>(numbers: &[T]) -> NdArray<'static> {
    NdArray::from_ndarray(&ndarray::aview1(numbers)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tfrecord::example::encode;

    #[test]
    fn fields_follow_the_rules() {
        let record = encode(&[
            ("text", Feature::Bytes(vec![b"a cat"])),
            ("bytes", Feature::Bytes(vec![b"\xff"])),
            ("list", Feature::Ints(vec![7])),
            ("int", Feature::Ints(vec![7])),
        ]);
        let rules = Rules { texts: vec!["text".to_owned()], lists: vec!["list".to_owned()] };
        let (fields, unknown, replaced) = rules.fields(&record, &|_| true).unwrap();
        assert_eq!((unknown, replaced), (0, 0));
        let fields: Vec<_> =
            fields.into_iter().map(|(name, field)| (name, value_of(field))).collect();
        let names: Vec<&str> = fields.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["bytes", "int", "list", "text"]);
        assert_eq!(fields[0].1, Value::Binary(vec![0xff]));
        assert_eq!((&fields[1].1, &fields[3].1), (&7.into(), &"a cat".into()));
        assert!(fields[2].1.is_map(), "an array");

        let rules = Rules { texts: vec!["bytes".to_owned()], ..Rules::default() };
        let error = rules.fields(&record, &|_| true).err().unwrap();
        assert_eq!(error.message(), "feature \"bytes\": expected UTF-8, found other bytes");
        // Nothing is wrong with what is not needed.
        let (fields, ..) = rules.fields(&record, &|name| name == "int").unwrap();
        assert!(matches!(fields[0].1, Field::Value(Value::Nil)));
        assert_eq!(fields.len(), 4);
        assert_eq!(numbered_key("train", 7), "train/000000000007");
    }
}
