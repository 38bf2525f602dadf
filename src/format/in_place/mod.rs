#![doc = include_str!("FORMAT.md")]
//!
//! # The code
//!
//! [`Index`] is the text, [`Addresses`] finds the shard of an address. Nothing here opens a shard.

use std::fmt::Write;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::key_pattern::KeyPattern;
use crate::format::FormatError;

mod line;

/// The version that is written and read.
const VERSION: u64 = 1;
/// The value of `format`.
const FORMAT: &str = "kiste in place";
/// The most bytes of an index.
pub(crate) const MAX_BYTES: u64 = 1 << 26;
/// The most shards.
pub(crate) const MAX_SHARDS: usize = 1 << 18;
/// The most bytes of a name.
const MAX_NAME: usize = 4096;
/// What is hashed of each end of a shard.
pub(crate) const END: u64 = 4096;
/// What is in front of an entity tag, and the most bytes of one.
const TAG: &str = "etag:";
const MAX_TAG: usize = 256;

/// What is in front of the shards and behind them, as an index is written.
const SHARDS: &[u8] = b"\n\"shards\":[";
const END_OF_SHARDS: &[u8] = b"\n]}\n";
/// Shards that one thread parses in one go, and how many other threads do at most. An index of fewer needs none.
const AT_ONCE: usize = 1024;
const OTHER_THREADS: usize = 7;

/// The formats whose files are shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    WebDataset,
    Jsonl,
    TfRecord,
    Mds,
    Arrow,
}

impl Kind {
    /// Its name, which is that of the format in conversions.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::WebDataset => "webdataset",
            Kind::Jsonl => "jsonl",
            Kind::TfRecord => "tfrecord",
            Kind::Mds => "mds",
            Kind::Arrow => "arrow",
        }
    }
}

/// Options that change samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_field: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) texts: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) lists: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) plain: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_bytes: Option<u64>,
}

/// What records of a shard need and do not have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Frame {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) numbered: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) columns: Vec<(String, String, Option<u32>)>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) notation: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) schema: Option<String>,
}

/// A file that has samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shard {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) samples: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) from: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) called: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) frame: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) gaps: Vec<(u64, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) batches: Vec<(u64, u64, u64)>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Shard {
    /// The number of a sample's record in the file: with those that are no samples.
    pub(crate) fn record(&self, sample: u64) -> u64 {
        let gap = self.gaps.partition_point(|(first, _)| *first <= sample);
        match gap.checked_sub(1).and_then(|gap| self.gaps.get(gap)) {
            Some((first, record)) => record.saturating_add(sample - first),
            None => sample,
        }
    }

    /// How many addresses it takes.
    pub(crate) fn span(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Arrow => self.batches.last().map_or(0, |batch| batch.2),
            _ => self.bytes.saturating_sub(self.from),
        }
    }

    /// Fails if one of the rules about a shard is broken.
    fn check(&self, kind: Kind, frames: &[Frame]) -> Result<(), FormatError> {
        let wrong = |expected: String, found: String| Err(FormatError::new(0, expected, found));
        let name = &self.name;
        let is_name = !name.is_empty() && name.len() <= MAX_NAME;
        let has_control = match name.is_ascii() {
            true => name.bytes().any(|byte| byte.is_ascii_control()),
            false => name.chars().any(char::is_control),
        };
        if !is_name || has_control {
            return wrong(format!("a name of 1 to {MAX_NAME} bytes"), format!("{name:?}"));
        }
        let frame = self.frame.map_or(0, |frame| u64::from(frame) + 1);
        if frame > frames.len() as u64 {
            let expected = format!("a frame below {} for {name:?}", frames.len());
            return wrong(expected, (frame - 1).to_string());
        }
        if self.from > self.bytes {
            let expected = format!("samples of {name:?} within its {} bytes", self.bytes);
            return wrong(expected, self.from.to_string());
        }
        let span = self.span(kind);
        if self.samples > span {
            let expected = format!("at most {span} samples in {name:?}");
            return wrong(expected, self.samples.to_string());
        }
        self.check_gaps()?;
        self.check_batches(kind)
    }

    fn check_gaps(&self) -> Result<(), FormatError> {
        let mut last = (0, 0);
        for &(sample, record) in &self.gaps {
            if sample < last.0 || record < last.1 || record < sample {
                let expected = format!("numbers of records of {:?} in order", self.name);
                return Err(FormatError::new(0, expected, format!("{sample} and {record}")));
            }
            last = (sample, record);
        }
        Ok(())
    }

    fn check_batches(&self, kind: Kind) -> Result<(), FormatError> {
        if kind != Kind::Arrow {
            return Ok(());
        }
        let (mut at, mut last) = (0, 0);
        for &(position, bytes, rows) in &self.batches {
            let end = position.checked_add(bytes).filter(|end| *end <= self.bytes);
            let (Some(end), true, true) = (end, position >= at, rows > last) else {
                let expected = format!("batches of {:?} in order and within the file", self.name);
                let found = format!("{position}, {bytes} bytes, up to row {rows}");
                return Err(FormatError::new(0, expected, found));
            };
            (at, last) = (end, rows);
        }
        Ok(())
    }
}

/// A dataset in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) kind: Kind,
    pub(crate) options: Options,
    pub(crate) frames: Vec<Frame>,
    pub(crate) shards: Vec<Shard>,
    pub(crate) samples: u64,
}

/// The text as it is parsed.
#[derive(Deserialize)]
struct Text {
    format: Option<String>,
    version: Option<u64>,
    kind: Kind,
    samples: u64,
    #[serde(default)]
    options: Options,
    #[serde(default)]
    frames: Vec<Frame>,
    #[serde(deserialize_with = "few_shards")]
    shards: Vec<Shard>,
    #[serde(skip)]
    are_checked: bool,
}

/// No more shards than allowed, even if more follow.
fn few_shards<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Shard>, D::Error> {
    struct Elements;
    impl<'de> Visitor<'de> for Elements {
        type Value = Vec<Shard>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list of shards")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Shard>, A::Error> {
            let mut shards = Vec::new();
            while let Some(shard) = list.next_element()? {
                if shards.len() >= MAX_SHARDS {
                    return Err(A::Error::custom(format!("more than {MAX_SHARDS} shards")));
                }
                shards.push(shard);
            }
            Ok(shards)
        }
    }
    deserializer.deserialize_seq(Elements)
}

/// A large index as it is written, with a line for each shard: the lines are parsed at the same time, and the shards
/// checked. `None` if it is small or anything about it is different.
fn by_lines(text: &[u8]) -> Option<Text> {
    let head = memchr::memmem::find(text, SHARDS)? + SHARDS.len();
    let lines = text[head..].strip_suffix(END_OF_SHARDS)?.strip_prefix(b"\n")?;
    let ends = memchr::memchr_iter(b'\n', lines).chain([lines.len()]);
    let mut begin = 0;
    let lines = ends.map(|end| &lines[std::mem::replace(&mut begin, end + 1)..end]);
    let lines: Vec<&[u8]> = lines.take(MAX_SHARDS + 1).collect();
    if !(AT_ONCE..=MAX_SHARDS).contains(&lines.len()) {
        return None;
    }
    let mut rest = text[..head].to_vec();
    rest.extend(END_OF_SHARDS);
    let rest: Text = serde_json::from_slice(&rest).ok()?;
    let last = lines.len() - 1;
    let shard = |at: usize, line: &[u8]| {
        let line = if at < last { line.strip_suffix(b",")? } else { line };
        let shard = line::shard(line).or_else(|| serde_json::from_slice(line).ok())?;
        shard.check(rest.kind, &rest.frames).is_ok().then_some(shard)
    };
    let mut shards: Vec<Option<Shard>> = vec![None; lines.len()];
    let parts = lines.chunks(AT_ONCE).zip(shards.chunks_mut(AT_ONCE)).enumerate();
    let parts = Mutex::new(parts);
    let work = || loop {
        let next = parts.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some((part, (lines, shards))) = next else { return };
        for (at, (line, to)) in (part * AT_ONCE..).zip(lines.iter().zip(shards)) {
            *to = shard(at, line);
        }
    };
    // Threads of its own: those of rayon are gone in a forked process, which would wait for them.
    thread::scope(|scope| {
        let others = thread::available_parallelism().map_or(0, |cores| cores.get() - 1);
        for _ in 0..others.min(OTHER_THREADS) {
            // Without another thread this one does it all.
            _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let shards = shards.into_iter().collect::<Option<_>>()?;
    Some(Text { shards, are_checked: true, ..rest })
}

/// Only what says which version it is: a newer one may differ in all else.
#[derive(Deserialize)]
struct Head {
    format: Option<String>,
    version: Option<u64>,
}

impl Index {
    /// Parses an index.
    pub(crate) fn parse(text: &[u8]) -> Result<Index, FormatError> {
        let json = |error: serde_json::Error| {
            FormatError::new(0, "an index of a dataset in place", format!("other JSON: {error}"))
        };
        // Once, as it may be large. What cannot be parsed may be of another version.
        let parsed = match by_lines(text) {
            Some(parsed) => Ok(parsed),
            None => serde_json::from_slice(text),
        };
        let head = match &parsed {
            Ok(text) => Head { format: text.format.clone(), version: text.version },
            Err(_) => serde_json::from_slice(text).map_err(json)?,
        };
        let wrong = |expected: String, found: String| FormatError::new(0, expected, found);
        if head.format.as_deref() != Some(FORMAT) {
            let found = head.format.map_or("none".to_owned(), |format| format!("{format:?}"));
            return Err(wrong(format!("the format {FORMAT:?}"), found));
        }
        if head.version != Some(VERSION) {
            let found = head.version.map_or("none".to_owned(), |version| version.to_string());
            return Err(wrong(format!("version {VERSION}"), found));
        }
        let Text { kind, samples, options, frames, shards, are_checked, .. } =
            parsed.map_err(json)?;
        let index = Index { kind, options, frames, shards, samples };
        if !are_checked {
            index.check_shards()?;
        }
        index.check_all_but_shards()?;
        Ok(index)
    }

    /// Fails if one of the rules is broken.
    pub(crate) fn check(&self) -> Result<(), FormatError> {
        self.check_shards()?;
        self.check_all_but_shards()
    }

    fn check_shards(&self) -> Result<(), FormatError> {
        self.shards.iter().try_for_each(|shard| shard.check(self.kind, &self.frames))
    }

    fn check_all_but_shards(&self) -> Result<(), FormatError> {
        let wrong = |expected: String, found: String| Err(FormatError::new(0, expected, found));
        if let Some(pattern) = &self.options.key {
            if let Err(error) = pattern.parse::<KeyPattern>() {
                return wrong("a pattern of keys".into(), format!("{pattern:?}: {error}"));
            }
        }
        let (mut samples, mut addresses) = (0u64, 0u64);
        for shard in &self.shards {
            let span = shard.span(self.kind);
            let sums = samples.checked_add(shard.samples).zip(addresses.checked_add(span));
            let Some(sums) = sums else {
                let found = format!("more, up to {:?}", shard.name);
                return wrong("fewer than 2^64 bytes".into(), found);
            };
            (samples, addresses) = sums;
        }
        match samples == self.samples {
            true => Ok(()),
            false => {
                let expected = format!("{} samples in the shards, as it says", self.samples);
                wrong(expected, samples.to_string())
            }
        }
    }

    /// The text: the same bytes for the same index, a line for each shard.
    pub(crate) fn render(&self) -> String {
        let json = |value: &dyn erased::Json| value.text();
        let mut text = String::new();
        // A String takes everything.
        let _ = write!(
            text,
            "{{\"format\":\"{FORMAT}\",\"version\":{VERSION},\"kind\":{},\"samples\":{},\n\
             \"options\":{},\n\"frames\":[",
            json(&self.kind),
            self.samples,
            json(&self.options)
        );
        for (at, frame) in self.frames.iter().enumerate() {
            let _ = write!(text, "{}\n{}", if at == 0 { "" } else { "," }, json(frame));
        }
        text += "],\n\"shards\":[";
        debug_assert!(text.as_bytes().ends_with(SHARDS));
        for (at, shard) in self.shards.iter().enumerate() {
            let _ = write!(text, "{}\n{}", if at == 0 { "" } else { "," }, json(shard));
        }
        text += "\n]}\n";
        text
    }
}

/// JSON of values that have no floats and no maps of other keys than text, so that it cannot fail.
mod erased {
    pub(super) trait Json {
        fn text(&self) -> String;
    }

    impl<T: serde::Serialize> Json for T {
        fn text(&self) -> String {
            serde_json::to_string(self).unwrap_or_default()
        }
    }
}

/// Which addresses shards have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// Where each shard begins, and the sum of all.
    begins: Vec<u64>,
    /// The first sample of each shard, and the number of all.
    firsts: Vec<u64>,
}

impl Addresses {
    /// Of an index that was checked.
    pub(crate) fn of(index: &Index) -> Addresses {
        let mut addresses = Addresses { begins: vec![0], firsts: vec![0] };
        for shard in &index.shards {
            let last = addresses.begins.len() - 1;
            addresses.begins.push(addresses.begins[last].saturating_add(shard.span(index.kind)));
            addresses.firsts.push(addresses.firsts[last].saturating_add(shard.samples));
        }
        addresses
    }

    /// The sum of all shards.
    pub(crate) fn len(&self) -> u64 {
        self.begins[self.begins.len() - 1]
    }

    /// The shard of these addresses, of which the first counts, and the addresses from its beginning.
    pub(crate) fn place(&self, addresses: &Range<u64>) -> Option<(usize, Range<u64>)> {
        let shard =
            self.begins.partition_point(|begin| *begin <= addresses.start).checked_sub(1)?;
        let (begin, end) = (self.begins[shard], *self.begins.get(shard + 1)?);
        Some((shard, addresses.start - begin..addresses.end.min(end).saturating_sub(begin)))
    }

    /// The samples of a shard.
    #[cfg(feature = "convert")]
    pub(crate) fn samples(&self, shard: usize) -> Range<usize> {
        let at = |shard: usize| self.firsts.get(shard).map_or(usize::MAX, |first| *first as usize);
        at(shard)..at(shard + 1)
    }

    /// The shard of a sample, and its number there.
    pub(crate) fn sample(&self, index: u64) -> Option<(usize, u64)> {
        let shard = self.firsts.partition_point(|first| *first <= index).checked_sub(1)?;
        self.firsts.get(shard + 1)?;
        Some((shard, index - self.firsts[shard]))
    }
}

/// The id of an object with this strong entity tag, which is in quotes.
pub(crate) fn tag_id(tag: &str) -> Option<String> {
    let tag = tag.strip_prefix('"')?.strip_suffix('"')?;
    is_tag(tag).then(|| format!("{TAG}{tag}"))
}

/// The entity tag that an id is, in quotes.
pub(crate) fn tag_of(id: &str) -> Option<String> {
    let tag = id.strip_prefix(TAG).filter(|tag| is_tag(tag))?;
    Some(format!("\"{tag}\""))
}

/// Whether this may be a part of a header: an index may come from anyone.
fn is_tag(tag: &str) -> bool {
    tag.len() <= MAX_TAG && tag.bytes().all(|byte| matches!(byte, b'!' | b'#'..=b'~'))
}

/// The id by the ends of a file: what tells it from another one of the same length.
pub(crate) fn content_id(head: &[u8], tail: &[u8], len: u64) -> String {
    let bytes = [head, tail, &len.to_le_bytes()].concat();
    format!("xxh3:{:016x}", twox_hash::XxHash3_64::oneshot(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let shard = |name: &str, bytes, samples, from| Shard {
            name: name.to_owned(),
            bytes,
            samples,
            from,
            ..Shard::default()
        };
        Index {
            kind: Kind::WebDataset,
            options: Options { key: Some("{key.shard}/{key}".into()), ..Options::default() },
            frames: vec![Frame { note: Some("{}".into()), ..Frame::default() }],
            shards: vec![
                shard("a.tar", 1000, 2, 0),
                Shard { frame: Some(0), called: Some("b".into()), ..shard("x/b.tar", 600, 0, 600) },
                Shard { id: Some("xxh3:0".into()), ..shard("https://h/c.tar", 500, 3, 100) },
            ],
            samples: 5,
        }
    }

    #[test]
    fn the_text_is_the_index() {
        let index = index();
        let text = index.render();
        assert_eq!(Index::parse(text.as_bytes()).unwrap(), index, "{text}");
        // Members of later versions are passed over.
        let more = text.replacen("\"kind\"", "\"more\":[{}],\"kind\"", 1);
        assert_eq!(Index::parse(more.as_bytes()).unwrap(), index);
    }

    #[test]
    fn broken_rules_are_told() {
        let text = index().render();
        for (from, to, says) in [
            ("kiste in place", "other", "expected the format"),
            ("\"version\":1", "\"version\":2", "expected version 1, found 2"),
            (
                "\"samples\":5",
                "\"samples\":6",
                "expected 6 samples in the shards, as it says, found 5",
            ),
            ("\"samples\":3", "\"samples\":401", "at most 400 samples in \"https://h/c.tar\""),
            ("\"from\":100", "\"from\":501", "within its 500 bytes"),
            ("\"frame\":0", "\"frame\":1", "a frame below 1"),
            ("\"bytes\":1000", "\"bytes\":18446744073709551615", "fewer than 2^64 bytes"),
            ("{key.shard}/{key}", "{key", "a pattern of keys"),
            ("\"x/b.tar\"", "\"\"", "a name of 1 to"),
            ("\"kind\":\"webdataset\"", "\"kind\":\"zip\"", "other JSON"),
            ("\"shards\"", "\"shard\"", "other JSON"),
        ] {
            assert!(text.contains(from), "{from}");
            let error = Index::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err();
            assert!(error.to_string().contains(says), "{to}: {error}");
        }
        for end in 0..text.len() - 2 {
            assert!(Index::parse(&text.as_bytes()[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn tags_are_ids() {
        for tag in ["\"\"", "\"abc-12\"", "\"0x8D/+\""] {
            assert_eq!(tag_id(tag).and_then(|id| tag_of(&id)).as_deref(), Some(tag));
        }
        let long = format!("\"{}\"", "a".repeat(MAX_TAG + 1));
        for tag in ["", "\"", "abc", "W/\"abc\"", "\"a b\"", "\"a\"b\"", "\"é\"", &long] {
            assert_eq!(tag_id(tag), None, "{tag}");
        }
        for id in ["xxh3:0123456789abcdef", "etag:a\r\nHost: b", "etag:\"", "tag:a", ""] {
            assert_eq!(tag_of(id), None, "{id:?}");
        }
    }

    #[test]
    fn addresses_lead_to_shards() {
        let addresses = Addresses::of(&index());
        assert_eq!(addresses.len(), 1400);
        // The second shard is empty.
        assert_eq!(addresses.place(&(0..512)), Some((0, 0..512)));
        assert_eq!(addresses.place(&(999..1200)), Some((0, 999..1000)));
        assert_eq!(addresses.place(&(1000..1200)), Some((2, 0..200)));
        assert_eq!(addresses.place(&(1399..1400)), Some((2, 399..400)));
        assert_eq!(addresses.place(&(1400..1401)), None);
        let samples: Vec<_> = (0..6).map(|index| addresses.sample(index)).collect();
        let expected = [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)].map(Some);
        assert_eq!(samples[..5], expected);
        assert_eq!(samples[5], None);
    }
}
