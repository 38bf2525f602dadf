//! The content of a dataset: how large its samples are, which fields they have and of which types, what is missing,
//! how values are spread, how large images, arrays and texts are, how long sound is; and how two datasets differ.
//!
//! Every sample is looked at, on all cores, and nothing is decompressed or decoded but the headers
//! of images, sound and packed arrays. Memory grows with the fields, not with the samples.

mod arrays;
mod bench;
mod classes;
mod compare;
mod distinct;
mod field;
mod histogram;
mod info;
mod media;
mod numbers;
mod report;
mod splits;
mod stages;
mod times;

use rayon::prelude::*;

pub use arrays::{Arrays, Elements};
pub use bench::{ReadBench, ReadMode, ReadPass};
pub use classes::Classes;
pub use compare::{StatComparison, StatDifference};
pub use distinct::Distinct;
pub use field::FieldSummary;
pub use histogram::{Bar, Histogram, PERCENTILES};
pub use info::{
    DatasetInfo, FieldArrays, FieldInfo, FileInfo, InPlaceFiles, LengthsInfo, SampleBytes,
};
pub use media::{Audio, Images};
pub use numbers::{NumberBar, Numbers};
#[doc(hidden)]
pub use report::picture;
pub use report::{SamplePage, StatReport, StatSection, StatText};
pub use splits::Splits;
pub use stages::LoaderStages;
pub use times::{TimeBar, Times};

use crate::error::Result;
use crate::format::FormatError;
use crate::format::jsonl;
use crate::format::msgpack::sample::fields;
use crate::format::msgpack::{Cursor, decode};
use crate::reader::{Reader, no_field};
use classes::Class;
use splits::{CLASS_FIELDS, Examples};

/// Samples that one thread looks at in one go. Their sums do not depend on threads, as
/// sums of floats would.
const BLOCK: usize = 4096;
/// Such blocks between two reports of progress.
const BLOCKS: usize = 16;
/// The most fields that are counted separately; samples whose fields are named after data have
/// more.
const FIELDS: usize = 1000;
/// The most different values of all fields that are kept.
const CLASSES: usize = 1_000_000;
/// The most hashes of values of all fields that are kept.
const HASHES: usize = 1 << 22;
/// The field whose numbers `.labels` names.
const LABEL: &str = "label";

/// What to look at.
#[derive(Debug, Clone, Default)]
pub struct StatOptions {
    fields: Option<Vec<String>>,
    by: Option<String>,
}

/// The statistics. As JSON they are an object of the same names.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Samples.
    pub samples: u64,
    /// Bytes of a sample.
    pub bytes: Histogram,
    /// Its fields, in the order in which they first occur.
    pub fields: Vec<FieldSummary>,
    /// Fields beyond the first 1,000, which were not looked at.
    pub more_fields: bool,
    /// How often each label occurs in each split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub splits: Option<Splits>,
    #[serde(skip)]
    examples: Examples,
    /// Whether some sample has the field that labels are counted by.
    #[serde(skip)]
    has_split: bool,
}

impl StatOptions {
    /// Look at these fields alone.
    pub fn fields<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.fields = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Count labels by the values of this field, instead of by `split`.
    pub fn by(mut self, field: impl Into<String>) -> Self {
        self.by = Some(field.into());
        self
    }

    /// Looks at all samples. `progress` hears how many were seen so far.
    ///
    /// # Errors
    ///
    /// The errors of the reader; [`Damaged`](crate::ErrorKind::Damaged) for a sample that is no map of fields;
    /// [`Invalid`](crate::ErrorKind::Invalid) if a field was asked for that no sample has.
    pub fn stat(&self, reader: &dyn Reader, mut progress: impl FnMut(u64)) -> Result<Summary> {
        let mut summary = Summary::default();
        let starts: Vec<usize> = (0..reader.len()).step_by(BLOCK).collect();
        for starts in starts.chunks(BLOCKS) {
            let block = |&start: &usize| self.block(reader, start);
            summary.merge(starts.par_iter().map(block).collect::<Result<_>>()?);
            progress(summary.samples);
        }
        let absent = |name: &&String| summary.field(name).is_none();
        let absent = self.fields.iter().flatten().find(absent);
        if let Some(name) = absent.or(self.by.as_ref().filter(|_| !summary.has_split)) {
            if !reader.is_empty() {
                return Err(no_field(reader, name));
            }
        }
        Ok(summary)
    }

    fn block(&self, reader: &dyn Reader, start: usize) -> Result<Summary> {
        let mut summary = Summary::default();
        for index in start..reader.len().min(start + BLOCK) {
            let raw = reader.get_raw(index)?;
            let added = self.add(&mut summary, index, &raw);
            added.map_err(|error| reader.locate(index).damaged(error))?;
        }
        Ok(summary)
    }

    fn add(&self, summary: &mut Summary, index: usize, raw: &[u8]) -> Result<(), FormatError> {
        summary.samples += 1;
        summary.bytes.add(raw.len() as u64);
        let by = self.by.as_deref().unwrap_or("split");
        let (mut label, mut split) = (None, None);
        for (at, field) in fields(raw)?.enumerate() {
            let (name, value) = field?;
            let name = Name::of(name);
            let is_class = CLASS_FIELDS.iter().find(|known| name.is(known));
            if name.is(by) {
                split = Some(value);
            } else if let (Some(class), None) = (is_class, label) {
                label = Some((*class, value));
            }
            let wanted = self.fields.as_ref().is_none_or(|names| names.iter().any(|n| name.is(n)));
            if !wanted {
                continue;
            }
            let start = value.as_ptr() as usize - raw.as_ptr() as usize;
            if let Some(field) = summary.field_at(at, name)? {
                field.add(value).map_err(|error| error.behind(start as u64))?;
            }
        }
        summary.has_split |= split.is_some();
        let Some((of, label)) = label else { return Ok(()) };
        let Some(label) = Class::read(label)? else { return Ok(()) };
        let is_asked = self.fields.as_ref().is_none_or(|names| names.iter().any(|n| n == of));
        if let Some(split) = split.filter(|_| is_asked).map(Class::read).transpose()?.flatten() {
            let splits = summary.splits.get_or_insert_with(|| Splits::new(of, by));
            if splits.of == of {
                splits.add(label, split);
            }
        }
        summary.examples.add(of, label, index);
        Ok(())
    }
}

/// The packed name of a field. Only the bytes needed to compare it are read.
#[derive(Clone, Copy)]
struct Name<'a> {
    packed: &'a [u8],
    text: Option<&'a str>,
}

impl<'a> Name<'a> {
    fn of(packed: &'a [u8]) -> Name<'a> {
        Name { packed, text: Cursor::new(packed).read_str().ok() }
    }

    fn is(&self, name: &str) -> bool {
        self.text == Some(name)
    }

    /// As it is printed.
    fn to_text(self) -> Result<String, FormatError> {
        if let Some(text) = self.text {
            return Ok(text.to_owned());
        }
        let mut text = Vec::new();
        jsonl::write_short(&decode(self.packed)?, 32, &mut text);
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Summary {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&FieldSummary> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The field of this name, which most likely is the `at`-th as in the sample before.
    fn field_at(
        &mut self,
        at: usize,
        name: Name<'_>,
    ) -> Result<Option<&mut FieldSummary>, FormatError> {
        if self.fields.get(at).is_some_and(|field| name.is(&field.name)) {
            return Ok(self.fields.get_mut(at));
        }
        let text = name.to_text()?;
        let known = self.fields.iter().position(|field| field.name == text);
        let at = match known {
            Some(at) => at,
            None if self.fields.len() >= FIELDS => {
                self.more_fields = true;
                return Ok(None);
            }
            None => {
                self.fields.push(FieldSummary::new(text));
                self.fields.len() - 1
            }
        };
        Ok(self.fields.get_mut(at))
    }

    /// Adds what was seen in the blocks that follow.
    fn merge(&mut self, blocks: Vec<Summary>) {
        let mut parts: Vec<Vec<FieldSummary>> = Vec::new();
        parts.resize_with(self.fields.len(), Vec::new);
        for other in blocks {
            self.samples += other.samples;
            self.bytes.merge(&other.bytes);
            self.more_fields |= other.more_fields;
            for field in other.fields {
                match self.fields.iter().position(|known| known.name == field.name) {
                    Some(at) => parts[at].push(field),
                    None if self.fields.len() >= FIELDS => self.more_fields = true,
                    None => {
                        self.fields.push(FieldSummary::new(field.name.clone()));
                        parts.push(vec![field]);
                    }
                }
            }
            if let Some(other) = other.splits {
                match &mut self.splits {
                    Some(splits) => splits.merge(other),
                    None => self.splits = Some(other),
                }
            }
            self.examples.merge(other.examples);
            self.has_split |= other.has_split;
        }
        self.fields.par_iter_mut().zip(parts).for_each(|(field, parts)| field.merge(parts));
        self.shrink();
    }

    /// Keeps memory bounded for any number of fields: the field that takes most gives up half.
    fn shrink(&mut self) {
        while self.fields.iter().map(|field| field.classes.kept()).sum::<usize>() > CLASSES {
            let largest = self.fields.iter_mut().max_by_key(|field| field.classes.kept());
            largest.into_iter().for_each(|field| field.classes.halve());
        }
        let hashes = |field: &FieldSummary| field.distinct.as_ref().map_or(0, Distinct::len);
        while self.fields.iter().map(hashes).sum::<usize>() > HASHES {
            let largest = self.fields.iter_mut().max_by_key(|field| hashes(field));
            largest.and_then(|field| field.distinct.as_mut()).into_iter().for_each(Distinct::halve);
        }
    }
}

/// Looks at all samples of a reader.
///
/// ```
/// use kiste::reader::ListReader;
/// use kiste::{Value, stat::stat};
///
/// let sample = |key: &str, label: u8| {
///     Value::Map(vec![("key".into(), key.into()), ("label".into(), label.into())])
/// };
/// let reader = ListReader::pack(vec![sample("a", 0), sample("b", 1), sample("c", 1)])?;
///
/// let summary = stat(&reader)?;
/// let label = summary.field("label").unwrap();
/// assert_eq!(label.types["int"], 3);
/// let classes: Vec<u64> = label.classes.sorted().into_iter().map(|(_, count)| count).collect();
/// assert_eq!(classes, [1, 2]);
/// # Ok::<(), kiste::Error>(())
/// ```
pub fn stat(reader: &dyn Reader) -> Result<Summary> {
    StatOptions::default().stat(reader, |_| {})
}

/// The type of a packed value, as it is called in [`FieldSummary::types`].
pub fn type_name(packed: &[u8]) -> Result<String, FormatError> {
    let mut field = FieldSummary::new(String::new());
    field.add(packed)?;
    Ok(field.types.into_keys().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::Value;
    use crate::error::ErrorKind;
    use crate::format::msgpack::numpy::Special;
    use crate::format::msgpack::to_vec;
    use crate::reader::ListReader;
    use crate::value::NdArray;

    fn map(fields: &[(&str, Value)]) -> Value {
        Value::Map(fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
    }

    /// Samples beyond a few blocks, with fields that come late and values of several types.
    fn many() -> Vec<Value> {
        let sample = |number: usize| {
            let mut fields = vec![("key", Value::from(format!("k{number:05}")))];
            fields.push(("class", Value::from(number % 7)));
            fields.push(("long", Value::from(number)));
            if number % 2 == 0 {
                fields.push(("even", Value::from("yes")));
            }
            if number > 2000 {
                let half = if number % 3 == 0 { Value::from(0.5) } else { Value::F32(1.5) };
                fields.push(("late", half));
            }
            map(&fields)
        };
        (0..BLOCK * (BLOCKS / 16) + 77).map(sample).collect()
    }

    #[test]
    fn counts_are_those_of_the_samples() {
        let samples = many();
        let len = samples.len() as u64;
        let sizes: Histogram =
            samples.iter().map(|sample| to_vec(sample).unwrap().len() as u64).collect();
        let mut seen = Vec::new();
        let reader = ListReader::pack(samples).unwrap();
        let found = StatOptions::default().stat(&reader, |samples| seen.push(samples)).unwrap();
        assert_eq!((found.samples, seen.last()), (len, Some(&len)));
        assert_eq!(found.bytes, sizes);
        let names: Vec<&str> = found.fields.iter().map(|field| &field.name[..]).collect();
        assert_eq!(names, ["key", "class", "long", "even", "late"]);
        let class = found.field("class").unwrap();
        assert_eq!(class.classes.sorted().iter().map(|class| class.1).sum::<u64>(), len);
        assert_eq!(class.classes.len(), 7);
        let even = found.field("even").unwrap();
        assert_eq!((even.present, even.classes.len()), (len.div_ceil(2), 1));
        let late = found.field("late").unwrap();
        assert_eq!(late.types["float"] + late.types["float32"], len - 2001);
        let numbers = late.numbers.clone().unwrap();
        assert_eq!((numbers.min, numbers.max), (0.5, 1.5));
        assert!(late.classes.is_empty(), "measurements are no classes");
    }

    #[test]
    fn fields_that_no_sample_has_are_refused() {
        let reader = ListReader::pack(many()).unwrap();
        let asked = StatOptions::default().fields(["even"]).stat(&reader, |_| {}).unwrap();
        assert!(asked.field("even").is_some() && asked.field("key").is_none());
        for options in [StatOptions::default().fields(["m"]), StatOptions::default().by("m")] {
            let error = options.stat(&reader, |_| {}).unwrap_err();
            assert_eq!(error.to_string(), "no sample has a field \"m\"");
        }
    }

    #[test]
    fn values_have_the_type_that_they_are_stored_as() {
        let array = NdArray::new("<f4".parse().unwrap(), [2, 1], vec![0; 8]).unwrap();
        let scalar = Special::scalar("<i2".parse().unwrap(), vec![7, 0]).unwrap().to_value();
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x05\0\0\0\x04\x08\0\0\0\0";
        for (value, expected) in [
            (Value::Nil, "nil"),
            (true.into(), "bool"),
            (Value::from(u64::MAX), "int"),
            (Value::F32(0.5), "float32"),
            ("a".into(), "str"),
            (Value::Binary(b"BM and so on, which is no bitmap".to_vec()), "bytes"),
            (Value::Binary(png.to_vec()), "image png"),
            (Value::Array(vec![]), "list"),
            (map(&[]), "map"),
            (Value::Ext(5, vec![1]), "ext"),
            (Special::Array(array).to_value(), "array <f4, 2-d"),
            (scalar, "scalar <i2"),
        ] {
            assert_eq!(type_name(&to_vec(&value).unwrap()).unwrap(), expected);
        }
    }

    /// A reader whose second sample lacks its last byte.
    struct Cut(ListReader);

    impl Reader for Cut {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn key(&self, index: usize) -> Result<Cow<'_, str>> {
            self.0.key(index)
        }

        fn find(&self, key: &str) -> Result<Option<usize>> {
            self.0.find(key)
        }

        fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
            let raw = self.0.get_raw(index)?.into_owned();
            let len = raw.len() - usize::from(index == 1);
            Ok(Cow::Owned(raw[..len].to_vec()))
        }
    }

    #[test]
    fn damage_says_where() {
        let sample = |key: &str| map(&[("key", key.into())]);
        let reader = Cut(ListReader::pack(["a", "b"].map(sample)).unwrap());
        let error = stat(&reader).unwrap_err();
        assert_eq!((error.kind(), error.index()), (ErrorKind::Damaged, Some(1)));
    }
}
