//! [`Arrays`]: the arrays of a field.

use std::collections::BTreeMap;

use half::f16;

use super::field::{KINDS, add_counts, as_pairs, merge_counts};
use crate::value::{ByteOrder, DType, DTypeKind};

/// The arrays of a field.
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
    /// The elements of the plain ones that are numbers. Packed ones are not unpacked.
    pub elements: Elements,
}

/// Extremes and mean of the numbers in arrays.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Elements {
    /// How many there are, without those that are infinite or not a number.
    pub count: u64,
    /// The smallest; 0 of none.
    pub min: f64,
    /// The largest; 0 of none.
    pub max: f64,
    /// Their sum.
    pub sum: f64,
    /// How many are not a number.
    pub nan: u64,
    /// How many are infinite.
    pub infinite: u64,
}

impl Arrays {
    /// An array of these bytes in memory, or of a container of this length.
    pub(super) fn add(&mut self, dtype: &DType, shape: Vec<usize>, nbytes: u64, data: Data<'_>) {
        add_counts(&mut self.dtypes, type_text(dtype), 1, KINDS);
        add_counts(&mut self.shapes, shape, 1, KINDS);
        self.bytes += nbytes;
        match data {
            Data::Plain(bytes) => {
                self.plain += 1;
                self.elements.add(dtype, bytes);
            }
            Data::Packed(len) => {
                self.packed += 1;
                self.packed_bytes += nbytes;
                self.container_bytes += len;
            }
        }
    }

    pub(super) fn merge(&mut self, other: Arrays) {
        merge_counts(&mut self.dtypes, other.dtypes);
        for (shape, count) in other.shapes {
            add_counts(&mut self.shapes, shape, count, KINDS);
        }
        self.plain += other.plain;
        self.packed += other.packed;
        self.bytes += other.bytes;
        self.packed_bytes += other.packed_bytes;
        self.container_bytes += other.container_bytes;
        self.elements.merge(&other.elements);
    }
}

/// What an array is stored as.
#[derive(Clone, Copy)]
pub(super) enum Data<'a> {
    Plain(&'a [u8]),
    /// A container of this many bytes.
    Packed(u64),
}

/// The type of elements as it is counted: all structures are one.
pub(super) fn type_text(dtype: &DType) -> String {
    match dtype.kind() {
        DTypeKind::Struct | DTypeKind::Void => "structured".to_owned(),
        _ => dtype.to_string(),
    }
}

/// The number that the bytes of an element are: true is 1. `None` of what is none.
pub(super) fn number(dtype: &DType, item: &[u8]) -> Option<f64> {
    of_kind(dtype.kind(), dtype.byte_order() == ByteOrder::Big, item)
}

#[inline]
fn of_kind(kind: DTypeKind, big: bool, item: &[u8]) -> Option<f64> {
    use DTypeKind::{Bool, Float, Int, UInt};
    macro_rules! read {
        ($type:ty) => {{
            let item: [u8; size_of::<$type>()] = item.try_into().ok()?;
            if big { <$type>::from_be_bytes(item) } else { <$type>::from_le_bytes(item) }
        }};
    }
    Some(match (kind, item.len()) {
        (Bool, 1) => f64::from(u8::from(item[0] != 0)),
        (UInt, 1) => item[0].into(),
        (UInt, 2) => read!(u16).into(),
        (UInt, 4) => read!(u32).into(),
        (UInt, 8) => read!(u64) as f64,
        (Int, 1) => read!(i8).into(),
        (Int, 2) => read!(i16).into(),
        (Int, 4) => read!(i32).into(),
        (Int, 8) => read!(i64) as f64,
        (Float, 2) => read!(f16).into(),
        (Float, 4) => read!(f32).into(),
        (Float, 8) => read!(f64),
        _ => return None,
    })
}

impl Elements {
    fn add(&mut self, dtype: &DType, bytes: &[u8]) {
        let size = dtype.item_size();
        // A loop for each type, which the compiler can unroll.
        macro_rules! all {
            ($($kind:ident $size:literal),*) => {
                match (dtype.kind(), size, dtype.byte_order()) {
                    (DTypeKind::UInt, 1, _) => self.add_all(bytes.iter().map(|&byte| byte.into())),
                    $((DTypeKind::$kind, $size, ByteOrder::Little) => {
                        let items = bytes.chunks_exact($size);
                        self.add_all(items.filter_map(|item| of_kind(DTypeKind::$kind, false, item)));
                    })*
                    (DTypeKind::Int | DTypeKind::UInt | DTypeKind::Float, 1.., _) => {
                        self.add_all(bytes.chunks_exact(size).filter_map(|item| number(dtype, item)));
                    }
                    _ => {}
                }
            };
        }
        all!(UInt 2, UInt 4, UInt 8, Int 2, Int 4, Int 8, Float 4, Float 8);
    }

    fn add_all(&mut self, numbers: impl Iterator<Item = f64>) {
        let (mut min, mut max, mut sum, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0);
        let (mut nan, mut infinite) = (0, 0);
        for number in numbers {
            if number.is_finite() {
                min = min.min(number);
                max = max.max(number);
                sum += number;
                count += 1;
            } else if number.is_nan() {
                nan += 1;
            } else {
                infinite += 1;
            }
        }
        if count == 0 {
            (min, max) = (0.0, 0.0);
        }
        self.merge(&Elements { count, min, max, sum, nan, infinite });
    }

    fn merge(&mut self, other: &Elements) {
        if other.count > 0 {
            let first = self.count == 0;
            self.min = if first { other.min } else { self.min.min(other.min) };
            self.max = if first { other.max } else { self.max.max(other.max) };
        }
        self.count += other.count;
        self.sum += other.sum;
        self.nan += other.nan;
        self.infinite += other.infinite;
    }

    /// Their mean, `None` of none.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}
