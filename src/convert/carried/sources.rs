//! Contents of sources that samples do not carry.
//!
//! [`Format::leaves_out`](crate::convert::Format::leaves_out) is the table of each format. A row is refused by an error, or counted as a [`Remark`] that
//! the run reports at its end: nothing is left out or changed in silence. `docs/formats.md` prints
//! the table, and a test has an input for each row.
//!
//! Readers note remarks in a [`RemarkLog`], unit by unit, because units are read in parallel and a
//! conversion that resumes must not count one twice.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use LeftOut as L;

use super::super::monitor::counted_as;

/// Contents that a source may have and its samples do not carry, or carry as something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LeftOut {
    /// Bytes after the end of the data: in a tar after the end mark of the last archive, zeros aside.
    AfterEnd,
    /// An archive that ends after a whole file, but without its end mark.
    NoEndMark,
    /// Files that belong to no sample by their names.
    OutsideSamples,
    /// Links, devices and sparse files.
    SpecialFile,
    /// Archives in one file that kiste wrote with different fields, or only one of them.
    OtherShard,
    /// Fields of a protobuf message that is not known to have them.
    UnknownField,
    /// Values of a protobuf message that later ones of the same name replace.
    ReplacedValue,
    /// Records that are no `Example`.
    OtherRecord,
    /// Pictures of raw pixels whose mode PNG does not have.
    RawImage,
    /// Decimal numbers, whose digits become text.
    Decimal,
    /// Pickles, which are programs and never run. They can be dropped.
    Pickle,
    /// Columns in an encoding or of a type that is not known.
    OtherType,
    /// Files in the folder that the index of the dataset does not name.
    UnlistedFile,
    /// Files in an archive of arrays that are no arrays.
    OtherMember,
    /// Entries of a pickled dict that no sample has a part of.
    PickleEntry,
    /// Names of labels in fields beyond the one that a dataset keeps names for.
    LabelNames,
    /// Labels of -1, which `datasets` takes for no label.
    NoLabel,
    /// Time zones of points in time, which are in UTC.
    TimeZone,
    /// Times of day, which become durations since midnight.
    TimeOfDay,
    /// Types that extend others; the values have the type that is extended.
    ExtensionType,
    /// Entries of the metadata of a table or a column.
    Metadata,
    /// Indices that say which rows a dataset has, and in which order.
    Indices,
    /// Columns, or members of a JSON object, of one name.
    SameName,
    /// Values with text after the quote that closes them.
    TextAfterQuote,
    /// Values of tab-separated values with tabs and line ends in their quotes.
    LinesInQuotes,
    /// Values of several lines with text after the quote that closes them: one quote is text.
    JoinedRows,
    /// Rows with more or fewer values than there are columns.
    OtherLength,
    /// Text in another encoding than UTF-8, or than the one that was given.
    OtherEncoding,
    /// Names that begin with `$` and are not of the notation of JSON lines. They can be read as they are.
    ReservedName,
    /// Numbers that no type of 64 bits holds.
    LargeNumber,
    /// Values in the names of folders that all sources are in, such as `label=cat`.
    PathValue,
    /// Splits whose files were named together.
    MixedSplits,
    /// Files of a folder that are of no format that is read from it.
    OtherFile,
    /// Images without a byte: files that are named like images, and values in columns of images.
    EmptyFile,
    /// Files and values that should be images, but begin as none.
    NoImage,
    /// Images whose end is missing.
    CutImage,
    /// Folders of a label that has no images.
    EmptyLabel,
    /// Labels that are numbers themselves.
    NumberLabel,
    /// Labels that differ from others only in how accents are spelled.
    AlikeLabel,
    /// Names in an archive with backslashes in place of slashes.
    BackslashName,
}

/// The handling of contents that samples do not carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Handling {
    /// It is an error.
    Refused,
    /// It is counted, and reported as a [`Remark`].
    Remarked,
    /// It is an error, unless [bad input](super::super::BadInput) is left out: then it is counted.
    RemarkedIfSkipped,
}

impl LeftOut {
    /// One of them, several, and what became of them.
    fn words(self) -> [&'static str; 3] {
        match self {
            L::AfterEnd => {
                ["byte after the end of the data", "bytes after the end of the data", "left out"]
            }
            L::NoEndMark => [
                "archive without an end mark",
                "archives without an end mark",
                "read to the end of the file",
            ],
            L::OutsideSamples => {
                ["file that belongs to no sample", "files that belong to no sample", "left out"]
            }
            L::SpecialFile => {
                ["link, device or sparse file", "links, devices and sparse files", "refused"]
            }
            L::UnknownField => ["unknown protobuf field", "unknown protobuf fields", "left out"],
            L::ReplacedValue => [
                "value that a later one of its name replaces",
                "values that later ones of their names replace",
                "left out",
            ],
            L::OtherRecord => [
                "record that is no Example",
                "records that are no Example or SequenceExample",
                "refused",
            ],
            L::RawImage => [
                "picture of raw pixels in another mode",
                "pictures of raw pixels in other modes than `1`, `L`, `LA`, `RGB`, `RGBA`, `I;16`",
                "kept as they are",
            ],
            L::Decimal => ["decimal number", "decimal numbers", "made text"],
            L::Pickle => ["pickle", "pickles that `--drop` does not leave out", "refused"],
            L::OtherType => ["value of another type", "values of other types", "refused"],
            L::UnlistedFile => [
                "file that the dataset does not name",
                "files that the dataset does not name",
                "left out",
            ],
            L::OtherMember => ["file that is no array", "files that are no arrays", "left out"],
            L::PickleEntry => ["entry of a pickle", "entries of a pickle", "left out"],
            L::LabelNames => [
                "list of the names of other labels",
                "lists of the names of other labels",
                "left out",
            ],
            L::NoLabel => ["label of -1", "labels of -1", "made nil"],
            L::TimeZone => ["time zone of a time", "time zones of times", "left out"],
            L::TimeOfDay => ["time of day", "times of day", "made durations"],
            L::ExtensionType => [
                "value of an extension type",
                "values of extension types",
                "made values of the type below",
            ],
            L::Metadata => ["entry of metadata", "entries of metadata", "left out"],
            L::Indices => [
                "file of the indices of rows",
                "indices that say which rows the dataset has",
                "refused",
            ],
            L::SameName => ["name that comes twice", "names that come twice", "refused"],
            L::OtherLength => [
                "row with more or fewer values than columns",
                "rows with more or fewer values than columns",
                "refused",
            ],
            L::OtherEncoding => [
                "text in another encoding",
                "text in another encoding than `--encoding` says",
                "refused",
            ],
            L::ReservedName => [
                "name with `$` that the notation lacks",
                "names with `$` that the notation lacks",
                "refused",
            ],
            L::LargeNumber => {
                ["number beyond 64 bits", "numbers beyond the range of 64 bits", "refused"]
            }
            L::PathValue => [
                "folder with a value that all sources are in",
                "folders with a value that all sources are in",
                "left out",
            ],
            L::MixedSplits => ["split", "splits named together", "read as one dataset"],
            L::OtherFile => ["file of another kind", "files of other kinds", "left out"],
            L::TextAfterQuote
            | L::LinesInQuotes
            | L::JoinedRows
            | L::EmptyFile
            | L::NoImage
            | L::CutImage
            | L::EmptyLabel
            | L::NumberLabel
            | L::AlikeLabel
            | L::BackslashName => self.words_of_suspects(),
            L::OtherShard => [
                "archive whose fields are noted differently",
                "archives in one file whose fields are noted differently",
                "refused",
            ],
        }
    }
}

impl LeftOut {
    /// The same of what may have been meant otherwise.
    fn words_of_suspects(self) -> [&'static str; 3] {
        match self {
            L::TextAfterQuote => [
                "value with text after its closing quote",
                "values with text after their closing quotes",
                "read without the quotes",
            ],
            L::LinesInQuotes => [
                "value with a tab and a line end in its quotes",
                "values with tabs and line ends in their quotes",
                "read as one value each",
            ],
            L::JoinedRows => [
                "row that a quote joins to the next",
                "rows that a quote joins, with text after the one that closes the value",
                "refused",
            ],
            L::EmptyFile => ["empty image", "empty images", "kept"],
            L::NoImage => {
                ["image that does not begin as one", "images that do not begin as such", "kept"]
            }
            L::CutImage => ["image that is cut off", "images that are cut off", "kept"],
            L::EmptyLabel => ["folder without images", "folders without images", "read as labels"],
            L::NumberLabel => [
                "label that is another number",
                "labels that are numbers",
                "replaced by their places in order",
            ],
            L::AlikeLabel => [
                "label that looks like another one",
                "labels that differ from others only in how accents are spelled",
                "read as the same label",
            ],
            _ => [
                "name with backslashes in an archive",
                "names with backslashes in an archive",
                "read as paths",
            ],
        }
    }

    /// Their fate in a report that counts them, such as `left out`.
    pub fn done(self) -> &'static str {
        self.words()[2]
    }
}

impl fmt::Display for LeftOut {
    /// Several of them, such as `bytes after the end of the data`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words()[1])
    }
}

/// Counts, by kind and field, the contents that a conversion left out or changed while it read.
///
/// Prints as in `512 bytes after the end of the data left out, first: a.tar, byte 10240`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Remark {
    /// What it is.
    pub kind: LeftOut,
    /// The field that it is about, if it is about one.
    pub field: Option<String>,
    /// How many there were.
    pub count: u64,
    /// Where the first of them is: the file, and the place or the name in it.
    pub first: String,
}

impl Remark {
    /// The change, without the place and the field.
    pub(crate) fn what(&self) -> String {
        let [one, many, done] = self.kind.words();
        format!("{} {done}", counted_as(self.count, one, many))
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = &self.field {
            write!(f, "field {field:?}: ")?;
        }
        write!(f, "{}, first: {}", self.what(), self.first)
    }
}

/// Characters of a place: names in an archive can be as long as a file.
const PLACE: usize = 500;
/// Fields whose remarks are counted one by one: a sample can have any number of them.
const FIELDS: usize = 1 << 10;

/// Remarks, at most one for each kind and field.
///
/// ```
/// use kiste::convert::{LeftOut, Remarks};
///
/// let mut remarks = Remarks::default();
/// remarks.note(LeftOut::AfterEnd, None, 512, || "a.tar, byte 10240".to_owned());
/// remarks.note(LeftOut::AfterEnd, None, 100, || "b.tar, byte 20480".to_owned());
/// let all = remarks.list();
/// assert_eq!((all[0].count, &all[0].first[..]), (612, "a.tar, byte 10240"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remarks(BTreeMap<(LeftOut, Option<String>), (u64, String)>);

impl Remarks {
    /// None at all.
    pub(crate) const NONE: &'static Remarks = &Remarks(BTreeMap::new());

    /// Counts so many more of a kind. `place` is asked for the first of them.
    pub fn note(
        &mut self,
        kind: LeftOut,
        field: Option<&str>,
        count: u64,
        place: impl FnOnce() -> String,
    ) {
        if count == 0 {
            return;
        }
        let mut key = (kind, field.map(str::to_owned));
        if self.0.len() >= FIELDS && !self.0.contains_key(&key) && self.fields() >= FIELDS {
            key.1 = None;
        }
        let known = self.0.entry(key).or_insert_with(|| (0, shortened(place())));
        known.0 = known.0.saturating_add(count);
    }

    /// How many fields have remarks of their own.
    fn fields(&self) -> usize {
        self.0.keys().filter(|(_, field)| field.is_some()).count()
    }

    /// Adds what was noted later.
    pub fn add(&mut self, later: &Remarks) {
        for ((kind, field), (count, first)) in &later.0 {
            self.note(*kind, field.as_deref(), *count, || first.clone());
        }
    }

    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in the order of kinds and fields.
    pub fn list(&self) -> Vec<Remark> {
        let remarks = self.0.iter().map(|((kind, field), (count, first))| Remark {
            kind: *kind,
            field: field.clone(),
            count: *count,
            first: first.clone(),
        });
        remarks.collect()
    }
}

/// A place that is not too long to print.
fn shortened(mut place: String) -> String {
    if let Some((end, _)) = place.char_indices().nth(PLACE) {
        place.truncate(end);
        place.push('…');
    }
    place
}

impl Serialize for Remarks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.list().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Remarks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Remarks, D::Error> {
        let mut remarks = Remarks::default();
        for Remark { kind, field, count, first } in Vec::<Remark>::deserialize(deserializer)? {
            remarks.note(kind, field.as_deref(), count, || first);
        }
        Ok(remarks)
    }
}

/// Remarks of the units of an input, noted on any thread while they are read. What is known when the
/// input is opened belongs to its first unit. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct RemarkLog(Arc<Mutex<BTreeMap<usize, Remarks>>>);

impl RemarkLog {
    /// Counts so many more of a kind in a unit. `place` is asked for the first of them.
    pub(crate) fn note(
        &self,
        unit: usize,
        kind: LeftOut,
        field: Option<&str>,
        count: u64,
        place: impl FnOnce() -> String,
    ) {
        if count > 0 {
            let mut units = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            units.entry(unit).or_default().note(kind, field, count, place);
        }
    }

    /// Whether nothing is noted that was not taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes what was noted of a unit since it was last asked.
    pub(crate) fn take(&self, unit: usize) -> Remarks {
        let mut units = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        units.remove(&unit).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_bounded_and_come_back() {
        let mut remarks = Remarks::default();
        for field in 0..2 * FIELDS {
            let field = field.to_string();
            remarks.note(LeftOut::AfterEnd, Some(&field), 1, || "here".to_owned());
        }
        assert_eq!(remarks.0.len(), FIELDS + 1);
        assert_eq!(remarks.list()[0].count, FIELDS as u64, "those without a place of their own");
        let json = serde_json::to_string(&remarks).unwrap();
        assert_eq!(serde_json::from_str::<Remarks>(&json).unwrap(), remarks);
    }

    #[test]
    fn each_unit_is_asked_once() {
        let log = RemarkLog::default();
        log.note(3, LeftOut::AfterEnd, None, 2, || "a".to_owned());
        log.note(4, LeftOut::AfterEnd, None, 5, || "b".to_owned());
        log.clone().note(3, LeftOut::AfterEnd, None, 1, || "c".to_owned());
        let taken = log.take(3).list();
        assert_eq!(taken[0].to_string(), "3 bytes after the end of the data left out, first: a");
        assert!(log.take(3).is_empty() && !log.take(4).is_empty());
    }
}
