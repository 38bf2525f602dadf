//! Labels and their numbers.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::Value;
use crate::natural::{digits, natural_order, split};
use crate::regular;

/// Which labels there are, and so which number each one has.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Labels {
    /// All labels that occur, in [natural order](natural_order), numbers before text.
    #[default]
    Sorted,
    /// These, in this order. Of two alike the last one counts. None at all means
    /// [`Sorted`](Labels::Sorted).
    Given(Vec<Value>),
    /// The lines of a text file, without the spaces around them.
    File(PathBuf),
}

impl Labels {
    /// These labels, in this order.
    pub fn given<T: Into<Value>>(labels: impl IntoIterator<Item = T>) -> Labels {
        Labels::Given(labels.into_iter().map(Into::into).collect())
    }

    /// The labels of a text file, one a line.
    pub fn file(path: impl AsRef<Path>) -> Labels {
        Labels::File(path.as_ref().to_path_buf())
    }
}

/// A label as Python compares them: `1`, `1.0` and `true` are one.
#[derive(PartialEq, Eq, Hash)]
enum Name {
    Nil,
    Integer(i128),
    Float(u64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Name {
    fn of(label: &Value) -> Result<Name> {
        Ok(match label {
            Value::Nil => Name::Nil,
            Value::Boolean(bit) => Name::Integer(i128::from(*bit)),
            Value::Integer(n) => match n.as_i64() {
                Some(n) => Name::Integer(i128::from(n)),
                None => Name::Integer(i128::from(n.as_u64().unwrap_or_default())),
            },
            Value::F32(x) => Name::of_float(f64::from(*x)),
            Value::F64(x) => Name::of_float(*x),
            Value::String(text) => match text.as_str() {
                Some(text) => Name::Text(text.to_string()),
                None => Name::Bytes(text.as_bytes().to_vec()),
            },
            Value::Binary(bytes) => Name::Bytes(bytes.clone()),
            other => {
                let message = format!("expected a label of text or a number, found {other}");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        })
    }

    fn of_float(x: f64) -> Name {
        let is_exact = x.fract() == 0.0 && x.abs() < 2f64.powi(64);
        if is_exact { Name::Integer(x as i128) } else { Name::Float(x.to_bits()) }
    }
}

/// Labels with their numbers.
#[derive(Default)]
pub(crate) struct LabelMap {
    labels: Vec<Value>,
    numbers: HashMap<Name, usize>,
}

impl LabelMap {
    /// The labels asked for, or those that occur. Where they must be numbered, "no label" has to
    /// be given.
    pub(crate) fn new<'a>(
        asked: &Labels,
        occurring: impl Iterator<Item = &'a Value>,
        numeric: bool,
    ) -> Result<LabelMap> {
        let labels = match asked {
            Labels::Given(labels) if !labels.is_empty() => labels.clone(),
            Labels::File(path) => {
                let text = regular::read_to_string(path).map_err(|e| Error::io(path, e))?;
                text.lines().map(|line| line.trim().into()).collect()
            }
            _ => sorted(occurring, numeric)?,
        };
        let mut numbers = HashMap::new();
        for (number, label) in labels.iter().enumerate() {
            if let Some(text) = python_str(label) {
                numbers.insert(Name::Text(text), number);
            }
        }
        for (number, label) in labels.iter().enumerate() {
            numbers.insert(Name::of(label)?, number);
        }
        Ok(LabelMap { labels, numbers })
    }

    /// All labels by their numbers.
    pub(crate) fn labels(&self) -> &[Value] {
        &self.labels
    }

    /// The labels as text.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |label: &Value| python_str(label).unwrap_or_else(|| label.to_string());
        self.labels.iter().map(name).collect()
    }

    /// The number of a label.
    pub(crate) fn number(&self, label: &Value) -> Result<usize> {
        self.numbers.get(&Name::of(label)?).copied().ok_or_else(|| {
            let message = format!("the label {label} is not one of the given labels");
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

/// Each label once, in natural order.
fn sorted<'a>(labels: impl Iterator<Item = &'a Value>, numeric: bool) -> Result<Vec<Value>> {
    let mut distinct: HashMap<Name, Value> = HashMap::new();
    for label in labels {
        match label {
            Value::Nil if numeric => {
                let message = "a sample has no label: the labels must be given, nil among them";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            Value::Nil => {}
            _ => drop(distinct.entry(Name::of(label)?).or_insert_with(|| label.clone())),
        }
    }
    let mut labels: Vec<Value> = distinct.into_values().collect();
    labels.sort_by(compare);
    Ok(labels)
}

/// Numbers by value and, like names that begin with a number, before text.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (text(a), text(b)) {
        (Some(a), Some(b)) => natural_order(a, b),
        (None, None) => float(a).total_cmp(&float(b)).then_with(|| exact(a).cmp(&exact(b))),
        (None, Some(b)) => number_and_text(float(a), b),
        (Some(a), None) => number_and_text(float(b), a).reverse(),
    }
}

fn number_and_text(number: f64, name: &str) -> Ordering {
    let (text, leading, _) = split(name);
    // Nothing at all comes before all numbers, a number before the same one as text.
    if name.is_empty() {
        return Ordering::Greater;
    }
    if !text.is_empty() {
        return Ordering::Less;
    }
    let value = digits(leading).fold(0.0, |value, digit| value * 10.0 + f64::from(digit));
    number.total_cmp(&value).then(Ordering::Less)
}

fn text(label: &Value) -> Option<&str> {
    label.as_str()
}

fn float(label: &Value) -> f64 {
    match label {
        Value::Boolean(bit) => f64::from(u8::from(*bit)),
        other => other.as_f64().unwrap_or(f64::INFINITY),
    }
}

fn exact(label: &Value) -> Option<i128> {
    match Name::of(label) {
        Ok(Name::Integer(n)) => Some(n),
        _ => None,
    }
}

/// The text that Python's `str` makes of a label, for simple types.
fn python_str(label: &Value) -> Option<String> {
    match label {
        Value::Nil => Some("None".to_string()),
        Value::Boolean(bit) => Some(if *bit { "True" } else { "False" }.to_string()),
        Value::Integer(n) => Some(n.to_string()),
        Value::String(text) => text.as_str().map(str::to_string),
        _ => None,
    }
}
