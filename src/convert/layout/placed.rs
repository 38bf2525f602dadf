//! [`Placed`]: samples with what the names of folders say about them: values such as `label=cat`, and their split.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;

use crate::Value;
use crate::convert::carried::{RemarkLog, Remarks};
use crate::convert::input::{Emit, Input};
use crate::convert::reshape::pack;
use crate::convert::sample_fields::stored_name;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, Cursor, sample};

/// The field of the split.
const SPLIT: &str = "split";
/// The value of a folder that stands for none, as Hive writes it.
const NIL: &str = "__HIVE_DEFAULT_PARTITION__";

/// An input whose samples get fields from the names of the folders of their file, and perhaps from their split. It has
/// the remarks about these folders.
pub(in crate::convert) struct Placed {
    input: Box<dyn Input>,
    /// Names that have only integers as values.
    integers: BTreeMap<String, bool>,
    split: Option<String>,
    /// The text in front of each key.
    prefix: Option<String>,
    /// What was noted about the folders.
    remarks: RemarkLog,
}

impl Placed {
    /// The input, which reads these files, with values in the names of folders as fields; and with its split as a
    /// field, or another text, in front of each key.
    pub(in crate::convert) fn input(
        input: Box<dyn Input>,
        paths: &[PathBuf],
        split: Option<&str>,
        prefix: Option<&str>,
        remarks: RemarkLog,
    ) -> Box<dyn Input> {
        let prefix = prefix.or(split).map(str::to_owned);
        let mut integers = BTreeMap::new();
        for (name, value) in paths.iter().flat_map(|path| values(path)) {
            let is_integer = value.as_ref().is_none_or(|value| integer(value).is_some());
            *integers.entry(name).or_insert(true) &= is_integer;
        }
        match integers.is_empty() && prefix.is_none() && remarks.is_empty() {
            true => input,
            false => {
                let split = split.map(str::to_owned);
                Box::new(Placed { input, integers, split, prefix, remarks })
            }
        }
    }

    /// The fields of samples of a file, packed.
    fn fields(&self, file: Option<&Path>) -> Result<Vec<(String, Vec<u8>)>> {
        let mut fields = Vec::new();
        for (name, value) in file.into_iter().flat_map(values) {
            let number = value.as_deref().and_then(integer);
            let number = number.filter(|_| self.integers.get(&name) == Some(&true));
            let value = match (value, number) {
                (None, _) => Value::Nil,
                (Some(_), Some(number)) => number.into(),
                (Some(text), None) => text.into(),
            };
            fields.push((stored_name(&name).to_owned(), msgpack::to_vec(&value)?));
        }
        if let Some(split) = &self.split {
            fields.push((SPLIT.to_owned(), msgpack::to_vec(&Value::from(&**split))?));
        }
        Ok(fields)
    }

    /// The sample with these fields.
    fn place(&self, packed: &[u8], new: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
        let key = msgpack::check_sample(packed)?;
        let placed_key = match &self.prefix {
            Some(prefix) => format!("{prefix}/{key}"),
            None => key.to_owned(),
        };
        let mut fields: Vec<(String, &[u8])> = Vec::new();
        for field in sample::fields(packed)? {
            let (name, value) = field?;
            let name = Cursor::new(name).read_str()?;
            if name == sample::KEY {
                continue;
            }
            match new.iter().find(|(placed, _)| placed == name) {
                // Written by programs that keep the column in the file.
                Some((_, same)) if same == value => continue,
                Some(_) => {
                    let message = format!(
                        "the field {name:?} differs from what the names of folders say of it"
                    );
                    return Err(Error::new(ErrorKind::Invalid, message).with_key(key));
                }
                None => fields.push((name.to_owned(), value)),
            }
        }
        fields.extend(new.iter().map(|(name, value)| (name.clone(), &value[..])));
        pack(&placed_key, &fields)
    }
}

/// The values in the names of the folders of a file, such as `label=cat`, as Hive and Spark lay tables out; `None` for
/// the value that stands for none.
fn values(path: &Path) -> Vec<(String, Option<String>)> {
    let folders = path.parent().into_iter().flat_map(Path::components);
    let names = folders.filter_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    names.filter_map(value).collect()
}

fn value(folder: &str) -> Option<(String, Option<String>)> {
    let (name, value) = folder.split_once('=')?;
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) || value.is_empty() {
        return None;
    }
    let text = percent_decode_str(value).decode_utf8().map_or(value.into(), |text| text);
    Some((name.to_owned(), (value != NIL).then(|| text.into_owned())))
}

/// The integer that a value is, if it is spelled as integers are.
fn integer(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}

impl Input for Placed {
    fn units(&self) -> usize {
        self.input.units()
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let fields = self.fields(self.input.path(unit))?;
        if fields.is_empty() && self.prefix.is_none() {
            return self.input.read(unit, emit);
        }
        self.input.read(unit, &mut |sample| {
            emit(sample.and_then(|sample| {
                self.place(&sample, &fields).map_err(|error| error.with_raw(sample))
            }))
        })
    }

    fn path(&self, unit: usize) -> Option<&Path> {
        self.input.path(unit)
    }

    fn bytes(&self, unit: usize) -> Option<u64> {
        self.input.bytes(unit)
    }

    fn identify(&self, add: &mut dyn FnMut(&[u8])) {
        self.prefix.iter().for_each(|prefix| add(prefix.as_bytes()));
        self.input.identify(add);
    }

    fn locate(&self, unit: usize, item: u64, error: Error) -> Error {
        self.input.locate(unit, item, error)
    }

    fn remarks(&self, unit: usize) -> Remarks {
        let mut remarks = self.remarks.take(unit);
        remarks.add(&self.input.remarks(unit));
        remarks
    }

    fn shard(&self, unit: usize) -> Option<&str> {
        self.input.shard(unit)
    }

    fn len_hint(&self) -> Option<u64> {
        self.input.len_hint()
    }

    fn label_names(&self) -> Option<&[String]> {
        self.input.label_names()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_have_a_value() {
        for (path, expected) in [
            ("t/label=cat/part-0.parquet", vec![("label", Some("cat"))]),
            ("/d/year=2024/month=01/x.csv", vec![("year", Some("2024")), ("month", Some("01"))]),
            ("a_b=%C3%BC%3D/x", vec![("a_b", Some("ü="))]),
            ("x=__HIVE_DEFAULT_PARTITION__/x", vec![("x", None)]),
            ("t/label=cat", vec![]),
            ("t/=cat/x", vec![]),
            ("t/label=/x", vec![]),
            ("a b=c/x", vec![]),
            ("t/cat/x=y.csv", vec![]),
        ] {
            let found = values(Path::new(path));
            let found: Vec<_> = found.iter().map(|(name, of)| (&**name, of.as_deref())).collect();
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn integers_are_spelled_in_one_way() {
        assert_eq!(
            (integer("-7"), integer("01"), integer("+1"), integer("")),
            (Some(-7), None, None, None)
        );
    }
}
