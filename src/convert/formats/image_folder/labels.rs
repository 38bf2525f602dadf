//! Labels that were probably meant as something else.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;

use super::read::ImageFolderReader;
use crate::convert::carried::LeftOut;
use crate::storage;

/// The names of the parts of a data set.
const SPLITS: [&str; 10] = [
    "dev",
    "eval",
    "test",
    "testing",
    "train",
    "training",
    "trainval",
    "val",
    "valid",
    "validation",
];

impl ImageFolderReader {
    /// Notes labels that may have been meant as something else.
    pub(super) fn note_labels(&self) {
        let labels = self.labels.as_deref().unwrap_or_default();
        if let Some((count, at, label)) = renumbered(labels).filter(|_| !self.text_labels) {
            let place = || format!("{label:?} is {at}");
            self.remarks.note(0, LeftOut::NumberLabel, None, count, place);
        }
        if let Some((count, label, other)) = lookalikes(labels) {
            let place = || format!("\"{label}\" next to \"{other}\"");
            self.remarks.note(0, LeftOut::AlikeLabel, None, count, place);
        }
    }

    /// Notes labels that are folders of the parts of a data set.
    pub(super) fn note_splits(&self) {
        let labels = self.labels.as_deref().unwrap_or_default();
        if !are_splits(labels.iter().map(String::as_str)) {
            return;
        }
        let deeper = self.files.iter().map(|file| file.path()).find(|path| folders_of(path) > 1);
        let place = || {
            let first = storage::shown(&self.place.path().join(&labels[0])).display().to_string();
            match deeper.and_then(|path| path.rsplit_once('/')) {
                Some((folder, _)) => format!("{first}; {folder:?} is no label"),
                None => first,
            }
        };
        self.remarks.note(0, LeftOut::SplitLabel, None, labels.len() as u64, place);
    }

    /// Notes folders that have numbers like others, though no image is below them.
    pub(super) fn note_empty(&self, folders: &[String]) {
        let labels = self.labels.as_deref().unwrap_or_default();
        let Some(first) = folders.first() else { return };
        let place = || {
            let number = labels.iter().position(|label| label == first).unwrap_or_default();
            format!("{} is label {number}", self.place.path().join(first).display())
        };
        self.remarks.note(0, LeftOut::EmptyLabel, None, folders.len() as u64, place);
    }
}

/// In how many folders a file is.
fn folders_of(path: &str) -> usize {
    path.matches('/').count()
}

/// Whether all of these are names of the parts of a data set.
pub(super) fn are_splits<'a>(labels: impl IntoIterator<Item = &'a str>) -> bool {
    let mut labels = labels.into_iter().peekable();
    let is_split = |label: &str| SPLITS.contains(&&*label.to_lowercase());
    labels.peek().is_some() && labels.all(is_split)
}

/// Labels that are numbers, all of them, and get other numbers: how many, and the place in order and the
/// name of the first.
pub(super) fn renumbered(labels: &[String]) -> Option<(u64, usize, &str)> {
    let is_integer =
        |label: &str| label.parse::<i64>().is_ok_and(|number| number.to_string() == label);
    let is_number = |label: &String| match label.split_once('.') {
        Some((whole, rest)) => is_integer(whole) && rest.bytes().all(|byte| byte.is_ascii_digit()),
        None => is_integer(label),
    };
    if !labels.iter().all(is_number) {
        return None;
    }
    let mut others = labels.iter().enumerate().filter(|(at, label)| at.to_string() != **label);
    let count = others.clone().count() as u64;
    others.next().map(|(at, label)| (count, at, &**label))
}

/// Labels that look like others: how many, and the first of them with the other one. Accents can be
/// characters of their own (NFD), as in names of files on macOS, or not (NFC).
pub(super) fn lookalikes(labels: &[String]) -> Option<(u64, String, String)> {
    let mut known: HashMap<String, &str> = HashMap::new();
    let (mut count, mut first) = (0, None);
    for label in labels.iter().filter(|label| !label.is_ascii()) {
        if let Some(other) = known.insert(label.nfc().collect(), label) {
            count += 1;
            first.get_or_insert((label.escape_default(), other.escape_default()));
        }
    }
    first.map(|(label, other)| (count, label.to_string(), other.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(labels: &[&str]) -> Vec<String> {
        labels.iter().map(|label| (*label).to_owned()).collect()
    }

    #[test]
    fn splits_are_known_by_their_names() {
        for (labels, expected) in [
            (&["train", "val"][..], true),
            (&["Test"], true),
            // Vehicles.
            (&["plane", "train"], false),
            (&[], false),
        ] {
            assert_eq!(are_splits(labels.iter().copied()), expected, "{labels:?}");
        }
    }

    #[test]
    fn numbers_that_get_other_numbers() {
        assert_eq!(renumbered(&owned(&["3", "10"])), Some((2, 0, "3")));
        assert_eq!(renumbered(&owned(&["0", "1", "5"])), Some((1, 2, "5")));
        assert_eq!(renumbered(&owned(&["0", "0.5"])), Some((1, 1, "0.5")));
        for fine in [&["0", "1", "2"][..], &["1", "cat"], &["01", "02"], &[]] {
            assert_eq!(renumbered(&owned(fine)), None, "{fine:?}");
        }
    }

    #[test]
    fn two_spellings_of_one_label() {
        let found = lookalikes(&owned(&["caf\u{e9}", "cafe\u{301}", "cafe", "x"])).unwrap();
        assert_eq!(found, (1, "cafe\\u{301}".to_owned(), "caf\\u{e9}".to_owned()));
        assert_eq!(lookalikes(&owned(&["caf\u{e9}", "cafe", "ü"])), None);
    }
}
