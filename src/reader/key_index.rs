//! Indices by key, for readers that have all keys in memory: a sorted list of indices.

use std::cmp::Ordering;

use crate::error::{Error, ErrorKind, Result};

/// The indices of all samples, sorted by their keys. The keys stay where they are.
pub(super) struct KeyIndex(Vec<usize>);

impl KeyIndex {
    /// Sorts the indices of the `len` keys; two of the same are an error at the second.
    pub(super) fn build<'a>(len: usize, key: impl Fn(usize) -> &'a str) -> Result<KeyIndex> {
        let mut order: Vec<usize> = (0..len).collect();
        order.sort_by(|&a, &b| key(a).cmp(key(b)));
        let twice =
            order.windows(2).filter(|pair| key(pair[0]) == key(pair[1])).min_by_key(|p| p[1]);
        match twice {
            Some(&[first, second]) => {
                let message = format!("sample {first} has this key already");
                let error = Error::new(ErrorKind::DuplicateKey, message);
                Err(error.with_index(second as u64).with_key(key(second)))
            }
            _ => Ok(KeyIndex(order)),
        }
    }

    /// The index of the key that compares equal.
    pub(super) fn find(&self, compare: impl Fn(usize) -> Ordering) -> Option<usize> {
        self.0.binary_search_by(|&index| compare(index)).ok().map(|at| self.0[at])
    }
}
