//! [`FieldSummary`]: what was seen of one field, and what is added to it by a value.

use std::collections::BTreeMap;

use foldhash::HashMap;
use serde::ser::{Serialize, Serializer};

use super::{Histogram, Numbers};
use crate::format::FormatError;
use crate::format::msgpack::numpy::{self, Special, container_array, is_container};
use crate::format::msgpack::{Cursor, Kind};
use crate::format::picture;
use crate::rearrange::Scalar;
use crate::value::{self, DType};

/// The most values of one field that are counted separately, unless more are asked for.
pub(super) const CLASSES: usize = 10_000;
/// The most types, shapes and image sizes of one field that are counted separately.
const KINDS: usize = 10_000;
/// Whole numbers with at most this many values are classes, others are measurements.
const FEW_CLASSES: usize = 20;
/// A text of more bytes is no name of a class.
const MAX_CLASS: usize = 256;

/// Statistics of one field of the samples.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[non_exhaustive]
pub struct FieldSummary {
    /// Its name; one that is no text, as it is printed.
    pub name: String,
    /// Samples that have it.
    pub present: u64,
    /// How often which type: `int`, `str`, `image png`, `array <f4`, …
    pub types: BTreeMap<String, u64>,
    /// Bytes of a value as it is stored.
    pub bytes: Histogram,
    /// Extremes, mean and histogram of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Numbers>,
    /// How often each whole number, boolean or short string occurs, if there are not too
    /// many.
    #[serde(skip_serializing_if = "Classes::is_empty")]
    pub classes: Classes,
    /// Sizes and formats of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<Images>,
    /// Types and shapes of arrays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrays: Option<Arrays>,
}

/// How often each value of a field occurs, where it is a class and not a measurement: a whole
/// number, a boolean, a text that is not too long.
#[derive(Debug, Clone, Default)]
pub struct Classes {
    counts: HashMap<Scalar, u64>,
    /// There were too many, or values that are no classes.
    given_up: bool,
}

/// Statistics of the images of a field, from their headers.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Images {
    /// How often which format: `jpeg`, `png`, …
    pub formats: BTreeMap<String, u64>,
    /// Pixels of a row.
    pub width: Histogram,
    /// Rows.
    pub height: Histogram,
    /// How often each width and height occurs; at most 10,000 are counted separately.
    #[serde(serialize_with = "as_pairs")]
    pub sizes: BTreeMap<(usize, usize), u64>,
    /// Images whose header does not say how large they are.
    pub damaged: u64,
}

/// Statistics of the arrays of a field.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Arrays {
    /// How often which type of element.
    pub dtypes: BTreeMap<String, u64>,
    /// How often each shape occurs; at most 10,000 are counted separately.
    #[serde(serialize_with = "as_pairs")]
    pub shapes: BTreeMap<Vec<usize>, u64>,
    /// Arrays stored as msgpack-numpy does.
    pub plain: u64,
    /// Arrays stored in bloscpack containers.
    pub packed: u64,
    /// Bytes of all of them in memory.
    pub bytes: u64,
    /// Bytes of the packed ones in memory.
    pub packed_bytes: u64,
    /// Bytes of the containers of the packed ones.
    pub container_bytes: u64,
}

fn as_pairs<K: Serialize, S: Serializer>(
    counts: &BTreeMap<K, u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(counts)
}

impl FieldSummary {
    pub(super) fn new(name: String) -> FieldSummary {
        FieldSummary { name, ..FieldSummary::default() }
    }

    /// Whether its values are classes, which can be listed, and not measurements or free text: there is
    /// more than one, and few, or text that most samples share with others.
    pub fn has_classes(&self) -> bool {
        let count = self.classes.len();
        let is_few = count <= FEW_CLASSES;
        let is_shared = self.numbers.is_none() && count as u64 * 2 <= self.present;
        self.name != "key" && count > 1 && (is_few || is_shared)
    }

    /// Adds a packed value.
    pub(super) fn add(&mut self, packed: &[u8]) -> Result<(), FormatError> {
        self.present += 1;
        self.bytes.add(packed.len() as u64);
        let mut cursor = Cursor::new(packed);
        match cursor.peek()? {
            Kind::Nil => self.count("nil"),
            Kind::Bool => self.scalar("bool", Some(Scalar::Truth(cursor.read_bool()?))),
            Kind::Int => {
                let signed = cursor.clone().read_i64().map(i128::from);
                let number = signed.or_else(|_| cursor.read_u64().map(i128::from))?;
                self.scalar("int", Some(Scalar::Whole(number)));
            }
            Kind::Float => {
                let single = cursor.clone().read_f32().is_ok();
                let kind = if single { "float32" } else { "float" };
                self.scalar(kind, Some(Scalar::Float(cursor.read_f64()?)));
            }
            Kind::Str => {
                let text = cursor.read_str().ok().filter(|text| text.len() <= MAX_CLASS);
                self.scalar("str", text.map(|text| Scalar::Text(text.to_owned())));
            }
            Kind::Bin => self.binary(cursor.read_bin()?),
            Kind::Map => match numpy::read(&mut cursor)? {
                Some(Special::Array(array)) => {
                    let nbytes = array.bytes().len() as u64;
                    self.array(array.dtype(), array.shape().to_vec(), nbytes, None);
                }
                Some(Special::Scalar(array)) => {
                    self.scalar(&format!("scalar {}", array.dtype()), Scalar::of_numpy(&array));
                }
                Some(Special::Complex(..)) => self.scalar("complex", None),
                None => self.scalar("map", None),
            },
            Kind::Array => self.scalar("list", None),
            Kind::Ext => self.scalar("ext", None),
        }
        Ok(())
    }

    /// Adds the counts of the other; at most `classes` are counted separately.
    pub(super) fn merge(&mut self, other: FieldSummary, classes: usize) {
        self.present += other.present;
        self.bytes.merge(&other.bytes);
        add_counts(&mut self.types, other.types);
        self.classes.merge(other.classes, classes);
        if let Some(theirs) = other.numbers {
            self.numbers.get_or_insert_default().merge(theirs);
        }
        if let Some(theirs) = other.images {
            let mine = self.images.get_or_insert_default();
            add_counts(&mut mine.formats, theirs.formats);
            add_counts(&mut mine.sizes, theirs.sizes);
            mine.width.merge(&theirs.width);
            mine.height.merge(&theirs.height);
            mine.damaged += theirs.damaged;
        }
        if let Some(theirs) = other.arrays {
            let mine = self.arrays.get_or_insert_default();
            add_counts(&mut mine.dtypes, theirs.dtypes);
            add_counts(&mut mine.shapes, theirs.shapes);
            mine.plain += theirs.plain;
            mine.packed += theirs.packed;
            mine.bytes += theirs.bytes;
            mine.packed_bytes += theirs.packed_bytes;
            mine.container_bytes += theirs.container_bytes;
        }
    }

    fn count(&mut self, kind: &str) {
        count(&mut self.types, kind);
    }

    /// A value of a type, and as a number or class if it is one.
    fn scalar(&mut self, kind: &str, value: Option<Scalar>) {
        self.count(kind);
        let number = match value {
            Some(Scalar::Whole(number)) => Some(number as f64),
            Some(Scalar::Float(number)) => Some(number),
            _ => None,
        };
        if let Some(number) = number {
            self.numbers.get_or_insert_default().add(number);
        }
        match value {
            None | Some(Scalar::Float(_)) => self.classes.give_up(),
            Some(class) => self.classes.add(class, 1, CLASSES),
        }
    }

    fn binary(&mut self, bytes: &[u8]) {
        self.classes.give_up();
        if is_container(bytes) {
            // Damage is for `verify` to tell.
            match container_array(bytes) {
                Ok(Some(array)) => {
                    let nbytes = array.nbytes().unwrap_or(0);
                    self.array(&array.dtype, array.shape, nbytes, Some(bytes.len() as u64));
                }
                _ => self.count("bytes blpk"),
            }
            return;
        }
        let Some(format) = picture::format(bytes) else { return self.count("bytes") };
        self.count(&format!("image {format}"));
        self.images.get_or_insert_default().add(format, picture::size(bytes));
    }

    fn array(&mut self, dtype: &DType, shape: Vec<usize>, nbytes: u64, container: Option<u64>) {
        self.classes.give_up();
        let name = match dtype.kind() {
            value::DTypeKind::Struct | value::DTypeKind::Void => "structured".to_owned(),
            _ => dtype.to_string(),
        };
        let packed = if container.is_some() { ", packed" } else { "" };
        self.count(&format!("array {name}, {}-d{packed}", shape.len()));
        let arrays = self.arrays.get_or_insert_default();
        add_counts(&mut arrays.dtypes, BTreeMap::from([(name, 1)]));
        add_counts(&mut arrays.shapes, BTreeMap::from([(shape, 1)]));
        arrays.bytes += nbytes;
        match container {
            None => arrays.plain += 1,
            Some(container) => {
                arrays.packed += 1;
                arrays.packed_bytes += nbytes;
                arrays.container_bytes += container;
            }
        }
    }
}

impl Images {
    fn add(&mut self, format: &str, size: Option<(usize, usize)>) {
        count(&mut self.formats, format);
        match size {
            Some((width, height)) => {
                self.width.add(width as u64);
                self.height.add(height as u64);
                add_counts(&mut self.sizes, BTreeMap::from([((width, height), 1)]));
            }
            None => self.damaged += 1,
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.formats.values().sum()
    }
}

impl Classes {
    fn add(&mut self, class: Scalar, count: u64, most: usize) {
        if self.given_up {
            return;
        }
        *self.counts.entry(class).or_default() += count;
        if self.counts.len() > most {
            self.give_up();
        }
    }

    fn merge(&mut self, other: Classes, most: usize) {
        if other.given_up {
            self.give_up();
        }
        other.counts.into_iter().for_each(|(class, count)| self.add(class, count, most));
    }

    fn give_up(&mut self) {
        *self = Classes { counts: HashMap::default(), given_up: true };
    }

    /// How many there are; 0 as well if the field has values that are none, or too many of them.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// All classes in [natural order](Scalar::natural_cmp) and how many samples have them.
    pub fn sorted(&self) -> Vec<(&Scalar, u64)> {
        let mut classes: Vec<_> = self.counts.iter().map(|(class, &n)| (class, n)).collect();
        classes.sort_by(|a, b| a.0.natural_cmp(b.0));
        classes
    }
}

/// As a list of pairs in natural order.
impl Serialize for Classes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.sorted().into_iter().map(|(class, count)| {
            let class = match class {
                Scalar::Nothing => serde_json::Value::Null,
                Scalar::Truth(truth) => (*truth).into(),
                Scalar::Whole(number) => match (i64::try_from(*number), u64::try_from(*number)) {
                    (Ok(number), _) => number.into(),
                    (_, Ok(number)) => number.into(),
                    _ => (*number as f64).into(),
                },
                Scalar::Float(number) => (*number).into(),
                Scalar::Time(time) => Scalar::Time(*time).to_string().into(),
                Scalar::Text(text) => text.clone().into(),
            };
            (class, count)
        }))
    }
}

fn count(counts: &mut BTreeMap<String, u64>, kind: &str) {
    match counts.get_mut(kind) {
        Some(count) => *count += 1,
        None => add_counts(counts, BTreeMap::from([(kind.to_owned(), 1)])),
    }
}

/// Adds counts, at most [`KINDS`] of them separately.
fn add_counts<K: Ord>(counts: &mut BTreeMap<K, u64>, more: BTreeMap<K, u64>) {
    for (kind, count) in more {
        if let Some(known) = counts.get_mut(&kind) {
            *known += count;
        } else if counts.len() < KINDS {
            counts.insert(kind, count);
        }
    }
}
