//! A kept selection: which samples of a source, evaluated once.

use std::borrow::Cow;
use std::ops::Range;

use twox_hash::XxHash3_64;

use crate::error::{Error, ErrorKind, Result, shown_text};
use crate::format::FormatError;
use crate::format::claimed::Claimed;

const MAGIC: &[u8; 8] = b"kistesel";
const VERSION: u32 = 1;
const HEADER: usize = 48;
/// In place of the length of a rule: there is none.
const NO_RULE: u32 = u32::MAX;
const CHECKSUM: usize = 8;

/// Which samples, in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Indices<'a> {
    /// Ranges, ascending, with samples between them that are not chosen.
    Runs(Vec<Range<u64>>),
    /// A bit for each sample of the source, in words of 64 bits, little-endian: the lowest bit is the first sample.
    Bits(Cow<'a, [u8]>),
    /// Indices in any order; one may be there more than once.
    List(Vec<u64>),
}

/// A selection as it is in a file.
///
/// ```
/// use kiste::format::recipe::KeptSelection;
///
/// let even = (0..1000).step_by(2).collect();
/// let kept = KeptSelection::of_list(1000, even, "data.msgpack, 1000 samples")?;
/// let bytes = kept.encode()?;
/// assert!(bytes.len() < 250); // a bit for each sample, and the header
/// assert_eq!(KeptSelection::parse(&bytes)?, kept);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSelection<'a> {
    /// The samples of the source.
    pub source_len: u64,
    /// The chosen samples.
    pub count: u64,
    /// A text that tells what was selected from.
    pub identity: String,
    /// The condition that was evaluated, if it was one.
    pub rule: Option<String>,
    /// The chosen samples.
    pub indices: Indices<'a>,
}

impl<'a> KeptSelection<'a> {
    /// A selection of indices in any order. Ascending ones become runs or bits, what takes less.
    pub fn of_list(
        source_len: u64,
        indices: Vec<u64>,
        identity: &str,
    ) -> Result<KeptSelection<'static>> {
        let count = indices.len() as u64;
        let is_ascending = indices.windows(2).all(|pair| pair[0] < pair[1]);
        let indices = match is_ascending && indices.last().is_none_or(|&last| last < source_len) {
            true => match runs_of(indices.iter().map(|&at| at..at + 1), bit_bytes(source_len)) {
                Some(runs) => Indices::Runs(runs),
                None => {
                    let mut bits = vec![0; bit_bytes(source_len)];
                    indices.iter().for_each(|&at| bits[(at / 8) as usize] |= 1 << (at % 8));
                    Indices::Bits(Cow::Owned(bits))
                }
            },
            false => Indices::List(indices),
        };
        let kept =
            KeptSelection { source_len, count, identity: identity.to_owned(), rule: None, indices };
        kept.check()?;
        Ok(kept)
    }

    /// A selection of bits, as [`Indices::Bits`] has them; they become runs if that takes less.
    pub fn of_bits(
        source_len: u64,
        bits: Cow<'a, [u8]>,
        identity: &str,
    ) -> Result<KeptSelection<'a>> {
        let mut kept = KeptSelection {
            source_len,
            count: ones(&bits),
            identity: identity.to_owned(),
            rule: None,
            indices: Indices::Bits(bits),
        };
        kept.check()?;
        let runs = match &kept.indices {
            Indices::Bits(bits) => runs_of(ranges_of(bits), bit_bytes(source_len)),
            _ => None,
        };
        if let Some(runs) = runs {
            kept.indices = Indices::Runs(runs);
        }
        Ok(kept)
    }

    /// The same, with the condition that was evaluated.
    pub fn with_rule(self, rule: impl Into<String>) -> KeptSelection<'a> {
        KeptSelection { rule: Some(rule.into()), ..self }
    }

    /// The chosen indices, in order.
    pub fn iter(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match &self.indices {
            Indices::Runs(runs) => Box::new(runs.iter().cloned().flatten()),
            Indices::List(list) => Box::new(list.iter().copied()),
            Indices::Bits(bits) => Box::new(ranges_of(bits).flatten()),
        }
    }

    /// The bytes of a file. Fails if the indices are not as they must be.
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.check()?;
        if shown_text(&self.identity) != self.identity {
            let message =
                "expected an identity without passwords and queries of URLs, found one with";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let rule = self.rule.as_deref();
        let len = |text: &str| match u32::try_from(text.len()) {
            Ok(len) if len < NO_RULE => Ok(len),
            _ => {
                Err(Error::new(ErrorKind::Limit, "expected a text of less than 4 GiB, found more"))
            }
        };
        let (identity_len, rule_len) = (len(&self.identity)?, rule.map_or(Ok(NO_RULE), len)?);
        let is_short = self.source_len <= 1 << 32;
        let (kind, entries) = match &self.indices {
            Indices::Runs(runs) => (0, runs.len()),
            Indices::Bits(bits) => (1, bits.len() / 8),
            Indices::List(list) => (if is_short { 2 } else { 3 }, list.len()),
        };
        let mut bytes = Vec::with_capacity(HEADER + 16 + entries * 16);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(u32::to_le_bytes(kind));
        for number in [self.source_len, self.count, entries as u64] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(identity_len.to_le_bytes());
        bytes.extend(rule_len.to_le_bytes());
        bytes.extend(self.identity.as_bytes());
        bytes.extend(rule.unwrap_or_default().as_bytes());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        match &self.indices {
            Indices::Runs(runs) => {
                for run in runs {
                    bytes.extend(run.start.to_le_bytes());
                    bytes.extend((run.end - run.start).to_le_bytes());
                }
            }
            Indices::Bits(bits) => bytes.extend(&bits[..]),
            Indices::List(list) if is_short => {
                list.iter().for_each(|&index| bytes.extend((index as u32).to_le_bytes()));
            }
            Indices::List(list) => list.iter().for_each(|index| bytes.extend(index.to_le_bytes())),
        }
        bytes.extend(XxHash3_64::oneshot(&bytes).to_le_bytes());
        Ok(bytes)
    }

    /// Reads a file. Bits stay where they are.
    ///
    /// The checksum, over all bytes, is XXH3, which is as fast as memory.
    pub fn parse(bytes: &'a [u8]) -> Result<KeptSelection<'a>, FormatError> {
        let found = |at: u64, expected: &str, found: String| FormatError::new(at, expected, found);
        let Some(header) = bytes.first_chunk::<HEADER>() else {
            let found_bytes = format!("{} bytes", bytes.len());
            return Err(found(0, "the header of a kept selection, 48 bytes", found_bytes));
        };
        if !header.starts_with(MAGIC) {
            return Err(found(0, "\"kistesel\", a kept selection", "another file".into()));
        }
        match u32_at(header, 8) {
            VERSION => {}
            other if other > VERSION => {
                let newer = format!("version {other}, which a newer kiste reads");
                return Err(found(8, "version 1 of kept selections", newer));
            }
            other => {
                return Err(found(8, "version 1 of kept selections", format!("version {other}")));
            }
        }
        let Some((body, checksum)) =
            bytes.split_last_chunk::<CHECKSUM>().filter(|(body, _)| body.len() >= HEADER)
        else {
            return Err(found(HEADER as u64, "a checksum", "the end".into()));
        };
        // Before anything else is believed.
        if XxHash3_64::oneshot(body) != u64::from_le_bytes(*checksum) {
            return Err(found(body.len() as u64, "the checksum of the file", "another one".into()));
        }
        parse_body(body, header)
    }

    /// Fails unless the indices are what the format requires.
    fn check(&self) -> Result<()> {
        let (len, result) = (
            self.source_len,
            match &self.indices {
                Indices::Runs(runs) => check_runs(runs, self.source_len),
                Indices::Bits(bits) => check_bits(bits, self.source_len),
                Indices::List(list) => check_list(list, self.source_len),
            },
        );
        let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
        let count = result.map_err(|(_, expected, found)| {
            invalid(format!("a selection of {len} samples: expected {expected}, found {found}"))
        })?;
        match count == self.count {
            true => Ok(()),
            false => Err(invalid(format!("expected {} chosen samples, found {count}", self.count))),
        }
    }
}

const RUN: usize = 16;

/// The bytes of a bit for each sample, in whole words.
fn bit_bytes(source_len: u64) -> usize {
    usize::try_from(source_len.div_ceil(64)).unwrap_or(usize::MAX).saturating_mul(8)
}

/// Ascending ranges as runs, if they take no more than these bytes.
fn runs_of(ranges: impl Iterator<Item = Range<u64>>, most: usize) -> Option<Vec<Range<u64>>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        if let Some(last) = runs.last_mut().filter(|last| last.end == range.start) {
            last.end = range.end;
            continue;
        }
        if (runs.len() + 1) * RUN > most {
            return None;
        }
        runs.push(range);
    }
    Some(runs)
}

/// The ranges of ones in each word.
fn ranges_of(bits: &[u8]) -> impl Iterator<Item = Range<u64>> + '_ {
    words(bits).zip(0..).flat_map(|(word, at)| {
        let (mut rest, base) = (word, at * 64);
        std::iter::from_fn(move || {
            let start = (rest != 0).then(|| rest.trailing_zeros())?;
            let len = (rest >> start).trailing_ones();
            // Ones up to the end of these; a shift by 64 would be none.
            let done = u64::MAX >> (64 - start - len);
            rest &= !done;
            Some(base + u64::from(start)..base + u64::from(start + len))
        })
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)))
}

fn ones(bits: &[u8]) -> u64 {
    words(bits).map(|word| u64::from(word.count_ones())).sum()
}

/// What is behind the header, up to the checksum, which was right.
fn parse_body<'a>(
    bytes: &'a [u8],
    header: &[u8; HEADER],
) -> Result<KeptSelection<'a>, FormatError> {
    let number =
        |at: usize| u64::from(u32_at(header, at)) | u64::from(u32_at(header, at + 4)) << 32;
    let (kind, source_len, count) = (u32_at(header, 12), number(16), number(24));
    let (identity_len, rule_len) = (u32_at(header, 40), u32_at(header, 44));
    let mut at = HEADER;
    let mut text = |len: u32| {
        let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len));
        let Some(part) = end.and_then(|end| bytes.get(at..end)) else {
            return Err(FormatError::new(at as u64, format!("a text of {len} bytes"), "the end"));
        };
        let text = std::str::from_utf8(part).map_err(|error| {
            FormatError::new((at + error.valid_up_to()) as u64, "UTF-8", "other bytes")
        });
        at += part.len();
        text.map(str::to_owned)
    };
    let identity = text(identity_len)?;
    let rule = if rule_len == NO_RULE { None } else { Some(text(rule_len)?) };
    let start = at.next_multiple_of(8);
    if bytes.get(at..start).is_none_or(|padding| padding.iter().any(|&byte| byte != 0)) {
        return Err(FormatError::new(at as u64, "zeros up to a multiple of 8", "other bytes"));
    }
    let body = &bytes[start..];
    let each = match kind {
        0 => RUN,
        1 | 3 => 8,
        2 => 4,
        _ => return Err(FormatError::new(12, "a kind of selection from 0 to 3", kind.to_string())),
    };
    let entries =
        Claimed::new(number(32)).backed((body.len() as u64, each as u64), "entries", 32)?;
    if entries * each as u64 != body.len() as u64 {
        let expected = format!("the end after {entries} entries");
        let end = start as u64 + entries * each as u64;
        return Err(FormatError::new(end, expected, "more bytes"));
    }
    let indices = match kind {
        0 => {
            let mut numbers = words(body);
            let mut runs = Vec::with_capacity(entries as usize);
            while let (Some(start), Some(len)) = (numbers.next(), numbers.next()) {
                // An end beyond 64 bits is beyond the source, too.
                runs.push(start..start.saturating_add(len));
            }
            Indices::Runs(runs)
        }
        1 => Indices::Bits(Cow::Borrowed(body)),
        2 => Indices::List(body.chunks_exact(4).map(|index| u64::from(u32_at(index, 0))).collect()),
        _ => Indices::List(words(body).collect()),
    };
    let checked = match &indices {
        Indices::Runs(runs) => check_runs(runs, source_len),
        Indices::Bits(bits) => check_bits(bits, source_len),
        Indices::List(list) => check_list(list, source_len),
    };
    let chosen = checked.map_err(|(entry, expected, found)| {
        FormatError::new(start as u64 + entry * each as u64, expected, found)
    })?;
    if chosen != count {
        return Err(FormatError::new(24, format!("{chosen} chosen samples"), count.to_string()));
    }
    Ok(KeptSelection { source_len, count, identity, rule, indices })
}

/// How many are chosen; or the entry that is wrong, what was expected, and what was found.
type Chosen = Result<u64, (u64, String, String)>;

fn check_runs(runs: &[Range<u64>], source_len: u64) -> Chosen {
    let (mut count, mut least) = (0, 0);
    for (run, at) in runs.iter().zip(0..) {
        if run.start < least || run.end <= run.start || run.end > source_len {
            let expected = format!("a run of samples from {least} to {source_len}");
            return Err((at, expected, format!("{} to {}", run.start, run.end)));
        }
        count += run.end - run.start;
        // Runs that touch are one.
        least = run.end.saturating_add(1);
    }
    Ok(count)
}

fn check_bits(bits: &[u8], source_len: u64) -> Chosen {
    let needed = bit_bytes(source_len);
    if bits.len() != needed {
        return Err((0, format!("{needed} bytes of bits"), bits.len().to_string()));
    }
    let last = words(bits).last().unwrap_or_default();
    if source_len % 64 != 0 && last >> (source_len % 64) != 0 {
        let at = (needed / 8 - 1) as u64;
        return Err((at, format!("zeros from bit {source_len} on"), "another bit".into()));
    }
    Ok(ones(bits))
}

fn check_list(list: &[u64], source_len: u64) -> Chosen {
    match list.iter().position(|&index| index >= source_len) {
        Some(at) => Err((at as u64, format!("an index below {source_len}"), list[at].to_string())),
        None => Ok(list.len() as u64),
    }
}
