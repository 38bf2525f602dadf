//! [`FieldSummary`]: what was seen of one field, and what is added to it by a value.

use std::collections::BTreeMap;
use std::mem::take;

use serde::ser::{Serialize, Serializer};

use super::arrays::{Data, type_text};
use super::classes::{Class, MAX_CLASS, read_whole};
use super::distinct::hash;
use super::{Arrays, Audio, Classes, Distinct, Histogram, Images, Numbers, Times};
use crate::format::msgpack::numpy::{self, Special, container_array, is_container};
use crate::format::msgpack::{Cursor, Kind, decode};
use crate::format::{FormatError, picture, sound};
use crate::rearrange::Scalar;
use crate::value::DType;

/// The most types and shapes of one field that are counted separately.
pub(super) const KINDS: usize = 10_000;
/// Whole numbers with at most this many values are classes, others are measurements.
const FEW_CLASSES: usize = 20;

/// What the samples have in one field.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[non_exhaustive]
pub struct FieldSummary {
    /// Its name; one that is no text, as it is printed.
    pub name: String,
    /// Samples that have it.
    pub present: u64,
    /// Samples in which it is null: nil, or "not a time" of NumPy.
    pub nulls: u64,
    /// How often which type: `int`, `str`, `image png`, `array <f4`, …
    pub types: BTreeMap<String, u64>,
    /// Bytes of a value as it is stored.
    pub bytes: Histogram,
    /// How many different values there are; `None` where there are bytes or arrays, which are not compared.
    pub distinct: Option<Distinct>,
    /// Extremes, mean, quantiles and histogram of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Numbers>,
    /// How points in time are spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
    /// How often each whole number, boolean or short string occurs; of keys, none.
    #[serde(skip_serializing_if = "Classes::is_empty")]
    pub classes: Classes,
    /// Characters of texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub characters: Option<Histogram>,
    /// Elements of lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elements: Option<Histogram>,
    /// Sizes and formats of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<Images>,
    /// Lengths, rates and formats of sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio: Option<Audio>,
    /// Types, shapes and elements of arrays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrays: Option<Arrays>,
}

impl FieldSummary {
    pub(super) fn new(name: String) -> FieldSummary {
        FieldSummary { name, distinct: Some(Distinct::default()), ..FieldSummary::default() }
    }

    /// Whether its values are classes, which can be listed, and not measurements or free text: there is
    /// more than one, and few, or text that most samples share with others.
    pub fn has_classes(&self) -> bool {
        let count = self.classes.len();
        let is_few = count <= FEW_CLASSES;
        let is_shared = self.numbers.is_none() && count as u64 * 2 <= self.present;
        count > 1 && (is_few || is_shared)
    }

    /// Whether no value comes twice: exactly, as far as they can be counted.
    pub fn is_unique(&self) -> bool {
        let distinct = self.distinct.as_ref().filter(|distinct| distinct.is_exact());
        self.present > 1 && distinct.is_some_and(|distinct| distinct.count() == self.present)
    }

    /// Whether all values are the same.
    pub fn is_constant(&self) -> bool {
        self.present > 1 && self.distinct.as_ref().is_some_and(|distinct| distinct.count() == 1)
    }

    /// Adds a packed value.
    pub(super) fn add(&mut self, packed: &[u8]) -> Result<(), FormatError> {
        self.present += 1;
        self.bytes.add(packed.len() as u64);
        let mut cursor = Cursor::new(packed);
        match cursor.peek()? {
            Kind::Nil => self.scalar("nil", Some(Scalar::Nothing), packed),
            Kind::Bool => self.scalar("bool", Some(Scalar::Truth(cursor.read_bool()?)), packed),
            Kind::Int => {
                self.scalar("int", Some(Scalar::Whole(read_whole(&mut cursor)?)), packed);
            }
            Kind::Float => {
                let kind = if packed.len() < size_of::<f64>() { "float32" } else { "float" };
                self.scalar(kind, Some(Scalar::Float(cursor.read_f64()?)), packed);
            }
            Kind::Str => {
                let Ok(text) = cursor.read_str() else {
                    self.scalar("str", None, packed);
                    return Ok(());
                };
                self.characters.get_or_insert_default().add(text.chars().count() as u64);
                self.class("str", Class::Text(text));
            }
            Kind::Bin => self.binary(cursor.read_bin()?),
            Kind::Map => match numpy::read(&mut cursor)? {
                Some(Special::Array(array)) => {
                    let bytes = array.bytes();
                    let shape = array.shape().to_vec();
                    self.array(array.dtype(), shape, bytes.len() as u64, Data::Plain(bytes));
                }
                Some(Special::Scalar(array)) => {
                    let kind = format!("scalar {}", array.dtype());
                    self.scalar(&kind, Scalar::of_numpy(&array), packed);
                }
                Some(Special::Complex(..)) => self.scalar("complex", None, packed),
                None => self.scalar("map", None, packed),
            },
            Kind::Array => {
                let len = u64::from(cursor.read_array_len()?);
                self.elements.get_or_insert_default().add(len);
                self.scalar("list", None, packed);
            }
            Kind::Ext => {
                let time = Scalar::of(&decode(packed)?);
                let kind = if time.is_some() { "timestamp" } else { "ext" };
                self.scalar(kind, time, packed);
            }
        }
        Ok(())
    }

    /// Adds what was seen in the blocks that follow. What takes longest goes on threads of its own.
    pub(super) fn merge(&mut self, mut blocks: Vec<FieldSummary>) {
        let classes: Vec<Classes> =
            blocks.iter_mut().map(|block| take(&mut block.classes)).collect();
        let distinct: Option<Vec<Distinct>> =
            blocks.iter_mut().map(|block| block.distinct.take()).collect();
        let mine = (&mut self.classes, &mut self.distinct);
        rayon::join(
            || classes.into_iter().for_each(|theirs| mine.0.merge(theirs)),
            || match (mine.1, distinct) {
                (Some(mine), Some(distinct)) => {
                    distinct.into_iter().for_each(|theirs| mine.merge(theirs));
                }
                (mine, _) => *mine = None,
            },
        );
        blocks.into_iter().for_each(|block| self.merge_rest(block));
    }

    fn merge_rest(&mut self, other: FieldSummary) {
        self.present += other.present;
        self.nulls += other.nulls;
        self.bytes.merge(&other.bytes);
        merge_counts(&mut self.types, other.types);
        add(&mut self.numbers, other.numbers, Numbers::merge);
        add(&mut self.times, other.times, Times::merge);
        add(&mut self.characters, other.characters, |mine, theirs| mine.merge(&theirs));
        add(&mut self.elements, other.elements, |mine, theirs| mine.merge(&theirs));
        add(&mut self.images, other.images, Images::merge);
        add(&mut self.audio, other.audio, Audio::merge);
        add(&mut self.arrays, other.arrays, Arrays::merge);
    }

    /// A value that may be a class. The same one may be stored in several ways.
    fn class(&mut self, kind: &str, class: Class<'_>) {
        let hash = class.hash();
        self.different(kind, hash);
        match class {
            Class::Text(text) if text.len() > MAX_CLASS => self.classes.other(),
            // No two samples have the same.
            _ if self.name == "key" => self.classes.other(),
            _ => self.classes.add(hash, class),
        }
    }

    /// A value that is compared with others.
    fn different(&mut self, kind: &str, hash: u64) {
        count(&mut self.types, kind);
        if let Some(distinct) = &mut self.distinct {
            distinct.add(hash);
        }
    }

    /// A value of a type that is compared with others, and counted as a number, a time or a class if it is one.
    fn scalar(&mut self, kind: &str, value: Option<Scalar>, packed: &[u8]) {
        if let Some(Scalar::Whole(number)) = value {
            self.numbers.get_or_insert_default().add(number as f64);
        }
        if let Some(class) = value.as_ref().and_then(Class::of) {
            return self.class(kind, class);
        }
        self.different(kind, hash(packed));
        match value {
            Some(Scalar::Nothing) => self.nulls += 1,
            Some(Scalar::Time(time)) => {
                self.times.get_or_insert_default().add(time);
                self.classes.other();
            }
            Some(Scalar::Float(number)) => {
                self.numbers.get_or_insert_default().add(number);
                self.classes.other();
            }
            _ => self.classes.other(),
        }
    }

    fn binary(&mut self, bytes: &[u8]) {
        self.classes.other();
        self.distinct = None;
        if is_container(bytes) {
            // Damage is for `verify` to tell.
            match container_array(bytes) {
                Ok(Some(array)) => {
                    let nbytes = array.nbytes().unwrap_or(0);
                    self.array(&array.dtype, array.shape, nbytes, Data::Packed(bytes.len() as u64));
                }
                _ => count(&mut self.types, "bytes blpk"),
            }
        } else if let Some(format) = picture::format(bytes) {
            count(&mut self.types, &format!("image {format}"));
            self.images.get_or_insert_default().add(format, bytes);
        } else if let Some(sound) = sound::sound(bytes) {
            count(&mut self.types, &format!("audio {}", sound.format));
            self.audio.get_or_insert_default().add(&sound);
        } else {
            count(&mut self.types, "bytes");
        }
    }

    fn array(&mut self, dtype: &DType, shape: Vec<usize>, nbytes: u64, data: Data<'_>) {
        self.classes.other();
        self.distinct = None;
        let packed = if matches!(data, Data::Packed(_)) { ", packed" } else { "" };
        let kind = format!("array {}, {}-d{packed}", type_text(dtype), shape.len());
        count(&mut self.types, &kind);
        self.arrays.get_or_insert_default().add(dtype, shape, nbytes, data);
    }
}

/// Adds what is there to what there may be.
fn add<T: Default>(mine: &mut Option<T>, theirs: Option<T>, merge: fn(&mut T, T)) {
    if let Some(theirs) = theirs {
        merge(mine.get_or_insert_default(), theirs);
    }
}

pub(super) fn as_pairs<K: Serialize, S: Serializer>(
    counts: &BTreeMap<K, u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(counts)
}

/// Counts one of a kind, at most [`KINDS`] of them separately.
pub(super) fn count(counts: &mut BTreeMap<String, u64>, kind: &str) {
    match counts.get_mut(kind) {
        Some(count) => *count += 1,
        None => add_counts(counts, kind.to_owned(), 1, KINDS),
    }
}

/// Adds a count, at most this many kinds separately.
pub(super) fn add_counts<K: Ord>(counts: &mut BTreeMap<K, u64>, kind: K, count: u64, most: usize) {
    if let Some(known) = counts.get_mut(&kind) {
        *known += count;
    } else if counts.len() < most {
        counts.insert(kind, count);
    }
}

pub(super) fn merge_counts<K: Ord>(counts: &mut BTreeMap<K, u64>, more: BTreeMap<K, u64>) {
    for (kind, count) in more {
        add_counts(counts, kind, count, KINDS);
    }
}
