//! Labels that were probably meant as something else.

use std::collections::{BTreeSet, HashMap};

use unicode_normalization::UnicodeNormalization;

use super::read::ImageFolderReader;
use crate::convert::carried::LeftOut;

impl ImageFolderReader {
    /// Notes labels that may have been meant as something else.
    pub(super) fn note_labels(&self) {
        let labels = self.labels.as_deref().unwrap_or_default();
        if let Some((count, at, label)) = renumbered(labels).filter(|_| !self.text_labels) {
            let place = || format!("{label:?} is {at}");
            self.remarks.note(0, LeftOut::NumberLabel, None, count, place);
        }
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

/// Labels that differ from others only in how accents are spelled: as characters of their own (NFD), as in names of files
/// on macOS, or not (NFC).
#[derive(Default)]
pub(super) struct Spellings {
    /// Each spelling of a label that has several, and the one that stands for all of them: NFC.
    same: HashMap<String, String>,
}

impl Spellings {
    /// The spellings of these labels.
    pub(super) fn of<'a>(labels: impl IntoIterator<Item = &'a str>) -> Spellings {
        let mut known: HashMap<String, BTreeSet<&str>> = HashMap::new();
        for label in labels.into_iter().filter(|label| !label.is_ascii()) {
            known.entry(label.nfc().collect()).or_default().insert(label);
        }
        let several = known.into_iter().filter(|(_, spellings)| spellings.len() > 1);
        let each = several.flat_map(|(nfc, spellings)| {
            spellings.into_iter().map(move |spelling| (spelling.to_owned(), nfc.clone()))
        });
        Spellings { same: each.collect() }
    }

    /// The spelling that stands for this one.
    pub(super) fn chosen<'a>(&'a self, label: &'a str) -> &'a str {
        self.same.get(label).map_or(label, String::as_str)
    }

    /// Spellings that are replaced: how many, and the first of them with the other one.
    pub(super) fn replaced(&self) -> Option<(u64, String, String)> {
        let others = self.same.iter().filter(|(label, nfc)| label != nfc);
        let count = others.clone().count() as u64;
        let (label, nfc) = others.min()?;
        Some((count, label.escape_default().to_string(), nfc.escape_default().to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(labels: &[&str]) -> Vec<String> {
        labels.iter().map(|label| (*label).to_owned()).collect()
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
        let labels = ["caf\u{e9}", "cafe\u{301}", "cafe", "x", "u\u{308}"];
        let spellings = Spellings::of(labels);
        let found = spellings.replaced().unwrap();
        assert_eq!(found, (1, "cafe\\u{301}".to_owned(), "caf\\u{e9}".to_owned()));
        let chosen = labels.map(|label| spellings.chosen(label));
        assert_eq!(chosen, ["caf\u{e9}", "caf\u{e9}", "cafe", "x", "u\u{308}"]);
        assert!(Spellings::of(["caf\u{e9}", "cafe", "ü"]).replaced().is_none());
    }
}
