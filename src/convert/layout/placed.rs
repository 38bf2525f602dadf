//! [`Placed`]: samples with what the names of folders say about them: values such as `label=cat`, and their split.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;

use crate::Value;
use crate::convert::carried::{RemarkLog, Remarks};
use crate::convert::input::{Emit, Input};
use crate::convert::kept_fields::KeptFields;
use crate::convert::reshape::pack;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::msgpack::{self, Cursor, sample};
use crate::format::sample_fields::{key_text, stored_name};

/// The field of the split.
const SPLIT: &str = "split";
/// The value of a folder that stands for none, as Hive writes it.
const NIL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Fields that names of folders make: those below a folder, of all files that are read.
#[derive(Debug, Clone, Default)]
pub(in crate::convert) struct PathValues {
    root: PathBuf,
    /// Names, and whether all of their values are integers.
    integers: BTreeMap<String, bool>,
    /// Fields that no sample has in the end.
    dropped: BTreeSet<String>,
}

impl PathValues {
    /// The fields of these files below a folder, without those that are dropped.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a path that has a name twice.
    pub(in crate::convert) fn of<'a>(
        root: &Path,
        paths: impl IntoIterator<Item = &'a PathBuf>,
        kept: &KeptFields,
    ) -> Result<PathValues> {
        let mut all = PathValues { root: root.to_path_buf(), ..PathValues::default() };
        if !kept.needs(SPLIT) {
            all.dropped.insert(SPLIT.to_owned());
        }
        for path in paths {
            let mut seen = BTreeSet::new();
            for (name, value) in all.values(path, path.is_dir()) {
                if !seen.insert(name.clone()) {
                    let message =
                        format!("expected folders of different names, found {name}= twice");
                    return Err(Error::new(ErrorKind::Invalid, message).at(path));
                }
                let is_integer = value.as_ref().is_none_or(|value| integer(value).is_some());
                if !kept.needs(&name) {
                    all.dropped.insert(name.clone());
                }
                *all.integers.entry(name).or_insert(true) &= is_integer;
            }
        }
        Ok(all)
    }

    /// The values of a file, or of a folder that is read as a whole; `None` for the value that stands for none.
    fn values(&self, path: &Path, is_folder: bool) -> Vec<(String, Option<String>)> {
        let Ok(below) = path.strip_prefix(&self.root) else { return Vec::new() };
        let below = if is_folder { Some(below) } else { below.parent() };
        let folders = below.into_iter().flat_map(Path::components);
        let named = |(name, value): (String, _)| (stored_name(&name).to_owned(), value);
        folders.filter_map(value_of).map(named).collect()
    }
}

/// An input whose samples get fields from the names of the folders of their file, and perhaps from their split. It has
/// the remarks about these folders.
pub(in crate::convert) struct Placed {
    input: Box<dyn Input>,
    values: PathValues,
    split: Option<String>,
    /// The text in front of each key.
    prefix: Option<String>,
    /// What was noted about the folders.
    remarks: RemarkLog,
}

/// A field that a place makes: its value, and that as text.
struct NewField {
    name: String,
    packed: Vec<u8>,
    text: Option<String>,
    is_kept: bool,
}

impl Placed {
    /// The input with values in the names of folders as fields; and with its split as a field, or another text, in
    /// front of each key.
    pub(in crate::convert) fn input(
        input: Box<dyn Input>,
        values: PathValues,
        split: Option<&str>,
        prefix: Option<&str>,
        remarks: RemarkLog,
    ) -> Box<dyn Input> {
        let prefix = prefix.or(split).map(str::to_owned);
        match values.integers.is_empty() && prefix.is_none() && remarks.is_empty() {
            true => input,
            false => {
                let split = split.map(str::to_owned);
                Box::new(Placed { input, values, split, prefix, remarks })
            }
        }
    }

    /// The fields of samples of a file.
    fn fields(&self, file: Option<&Path>) -> Result<Vec<NewField>> {
        let mut fields = Vec::new();
        for (name, text) in file.into_iter().flat_map(|file| self.values.values(file, false)) {
            let number = text.as_deref().and_then(integer);
            let number = number.filter(|_| self.values.integers.get(&name) == Some(&true));
            let value = match (&text, number) {
                (None, _) => Value::Nil,
                (Some(_), Some(number)) => number.into(),
                (Some(text), None) => Value::from(&**text),
            };
            let (packed, is_kept) =
                (msgpack::to_vec(&value)?, !self.values.dropped.contains(&name));
            fields.push(NewField { name, packed, text, is_kept });
        }
        if let Some(split) = &self.split {
            let packed = msgpack::to_vec(&Value::from(&**split))?;
            let text = Some(split.clone());
            let is_kept = !self.values.dropped.contains(SPLIT);
            fields.push(NewField { name: SPLIT.to_owned(), packed, text, is_kept });
        }
        Ok(fields)
    }

    /// The sample with these fields.
    fn place(&self, packed: &[u8], new: &[NewField]) -> Result<Vec<u8>> {
        let key = msgpack::check_sample(packed)?;
        let placed_key = match &self.prefix {
            Some(prefix) => format!("{prefix}/{key}"),
            None => key.to_owned(),
        };
        let mut fields: Vec<(String, &[u8])> = Vec::new();
        let mut known = Vec::new();
        for field in sample::fields(packed)? {
            let (name, value) = field?;
            let name = Cursor::new(name).read_str()?;
            if name == sample::KEY {
                continue;
            }
            if let Some(at) = new.iter().position(|field| field.name == name) {
                // Written by programs that keep the column in the file, perhaps as text.
                let field = &new[at];
                let is_same = value == field.packed
                    || (field.text.is_some() && text_of(value)? == field.text);
                if field.is_kept && !is_same {
                    let message = format!(
                        "expected {:?} as its folder or split says, found another value",
                        field.text.as_deref().unwrap_or("nil")
                    );
                    let error = Error::new(ErrorKind::Invalid, message).with_key(key);
                    let remedy = Remedy::DropField(name.to_owned());
                    return Err(error.with_field(name).with_remedy(remedy));
                }
                known.push(at);
            }
            fields.push((name.to_owned(), value));
        }
        let added = new.iter().enumerate().filter(|(at, _)| !known.contains(at));
        fields.extend(added.map(|(_, field)| (field.name.clone(), &field.packed[..])));
        pack(&placed_key, &fields)
    }
}

/// A packed string or integer as text.
fn text_of(packed: &[u8]) -> Result<Option<String>> {
    Ok(key_text(&msgpack::decode(packed)?))
}

/// Whether a part of a path has a value.
pub(super) fn has_value(part: Component<'_>) -> bool {
    value_of(part).is_some()
}

fn value_of(part: Component<'_>) -> Option<(String, Option<String>)> {
    match part {
        Component::Normal(name) => value(name.to_str()?),
        _ => None,
    }
}

/// The value in the name of a folder such as `label=cat`, as Hive and Spark lay tables out; `None` for the value that
/// stands for none.
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
        for (name, is_integer) in &self.values.integers {
            add(name.as_bytes());
            add(&[u8::from(*is_integer)]);
        }
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
            ("d/year=2024/month=01/x.csv", vec![("year", Some("2024")), ("month", Some("01"))]),
            ("a_b=%C3%BC%3D/x", vec![("a_b", Some("ü="))]),
            ("x=__HIVE_DEFAULT_PARTITION__/x", vec![("x", None)]),
            ("t/label=cat", vec![]),
            ("t/=cat/x", vec![]),
            ("t/label=/x", vec![]),
            ("a b=c/x", vec![]),
            ("t/cat/x=y.csv", vec![]),
        ] {
            let found = PathValues::default().values(Path::new(path), false);
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
