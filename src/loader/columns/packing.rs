//! Tokens of several samples in rows of one length.

use super::lists::{Limit, trim};
use super::unfit;
use crate::error::{Error, ErrorKind, Result};
use crate::value::Element;

/// How the samples of a batch are packed: see [`Columns::packed`](super::Columns::packed).
///
/// Samples come in their order. Each begins behind the one before, and one that does not fit into the rest of
/// the row is [split](Self::split), or begins the next row if samples stay [whole](Self::whole). The same batch
/// is always packed in the same way.
#[derive(Debug, Clone)]
#[must_use = "options do nothing until a column is made with them"]
pub struct Packed<T> {
    length: usize,
    splits: bool,
    cuts: bool,
    rows: Option<usize>,
    fill: T,
}

/// Where samples begin that were planned into rows: `planned` counts the samples of each row.
fn planned_starts(
    length: usize,
    samples: impl Iterator<Item = usize>,
    planned: &[u32],
) -> Result<Vec<usize>> {
    let (mut starts, mut samples) = (Vec::new(), samples);
    for (row, &count) in planned.iter().enumerate() {
        let start = row.checked_mul(length).ok_or_else(too_many)?;
        let mut used = 0;
        for len in samples.by_ref().take(count as usize) {
            if len > length - used {
                let expected = format!("samples of a row of {length}, as their lengths were known");
                return Err(unfit(expected, format!("{} tokens", used.saturating_add(len))));
            }
            starts.push(start + used);
            used += len;
        }
    }
    match samples.count() {
        0 => Ok(starts),
        more => Err(unfit("a row for each sample", format!("{more} without one"))),
    }
}

impl<T: Element> Packed<T> {
    /// Where samples begin that follow each other.
    fn starts(&self, samples: impl Iterator<Item = usize>) -> Result<Vec<usize>> {
        let mut end = 0usize;
        let start = |len: usize| {
            let start = match end % self.length {
                used if !self.splits && used + len > self.length => end + self.length - used,
                _ => end,
            };
            end = start.checked_add(len).ok_or_else(too_many)?;
            Ok(start)
        };
        samples.map(start).collect()
    }

    /// Rows of this many tokens. A sample that does not fit continues in the next row.
    pub fn split(length: usize) -> Packed<T> {
        Packed { length, splits: true, cuts: false, rows: None, fill: T::default() }
    }

    /// Rows of this many tokens. A sample that does not fit begins the next row; one that is longer than a
    /// row is an error, unless it is [cut](Self::cut).
    pub fn whole(length: usize) -> Packed<T> {
        Packed { splits: false, ..Packed::split(length) }
    }

    /// Takes the first tokens of a sample that is longer than a row, or, if samples are split, than the
    /// [rows](Self::rows) of a batch.
    pub fn cut(mut self) -> Packed<T> {
        self.cuts = true;
        self
    }

    /// Batches of exactly this many rows: rows of padding are added, and a batch that needs more is an
    /// error. A sample that no batch has room for is an error of its own, which
    /// [`OnError`](crate::loader::OnError) can skip.
    pub fn rows(mut self, rows: usize) -> Packed<T> {
        self.rows = Some(rows);
        self
    }

    /// The padding at the end of rows. Default: 0.
    pub fn fill(mut self, fill: T) -> Packed<T> {
        self.fill = fill;
        self
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn most(&self) -> Limit {
        let most = match self.splits {
            true => self.rows.map(|rows| rows.saturating_mul(self.length)),
            false => Some(self.length),
        };
        Limit::of(most, self.cuts, "tokens")
    }

    pub(super) fn check(&self) -> Result<()> {
        match self {
            Packed { length: 0, .. } => Err(unfit("rows of 1 token or more", 0)),
            Packed { rows: Some(0), .. } => Err(unfit("1 row or more", 0)),
            Packed { splits: true, cuts: true, rows: None, .. } => {
                Err(unfit("a number of rows for samples that are split and cut", "none"))
            }
            Packed { length, rows, .. } => {
                let all = rows.unwrap_or(1).checked_mul(*length);
                match all.filter(|all| i32::try_from(*all).is_ok()) {
                    Some(_) => Ok(()),
                    None => Err(too_many()),
                }
            }
        }
    }
}

/// Offsets of tokens are 32 bits wide, as attention wants them.
fn too_many() -> Error {
    let message = format!("expected up to {} packed tokens, found more", i32::MAX);
    Error::new(ErrorKind::Limit, message)
}

/// Rows of tokens, and what is where in them.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct PackedRows<'a, T> {
    /// Tokens of a row.
    pub length: usize,
    /// All rows, one after another.
    pub tokens: &'a [T],
    /// For each token its place in its piece of a sample, counted from 0; 0 for padding.
    pub positions: &'a [i32],
    /// For each token the sample of the batch that it is of, counted from 0; -1 for padding.
    pub documents: &'a [i32],
    /// Where each piece begins, in tokens of all rows, and the end of the last: what attention over sequences of
    /// different lengths takes. A piece ends with its row, and the padding of a row is a piece of its own.
    pub cu_seqlens: &'a [i32],
    /// The length of the longest piece.
    pub max_seqlen: usize,
}

impl<T> PackedRows<'_, T> {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.tokens.len() / self.length.max(1)
    }
}

/// The positions of samples in packed rows.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    positions: Vec<i32>,
    documents: Vec<i32>,
    cu_seqlens: Vec<i32>,
    max: usize,
}

impl Pieces {
    pub(super) fn rows<'a, T>(&'a self, length: usize, tokens: &'a [T]) -> PackedRows<'a, T> {
        PackedRows {
            length,
            tokens,
            positions: &self.positions,
            documents: &self.documents,
            cu_seqlens: &self.cu_seqlens,
            max_seqlen: self.max,
        }
    }

    /// Gives back memory that a larger batch left.
    pub(super) fn trim(&mut self) {
        trim(&mut self.positions);
        trim(&mut self.documents);
        trim(&mut self.cu_seqlens);
    }

    pub(super) fn bytes(&self) -> usize {
        4 * (self.positions.len() + self.documents.len() + self.cu_seqlens.len())
    }

    /// Packs samples that stand back to back, with these offsets. Where whole samples were planned into rows, `planned`
    /// counts the samples of each row.
    pub(super) fn pack<T: Element>(
        &mut self,
        packed: &Packed<T>,
        offsets: &[u64],
        planned: &[u32],
        data: &mut Vec<T>,
    ) -> Result<()> {
        let length = packed.length;
        let samples = || offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize);
        let starts = match planned {
            [_, ..] if !packed.splits => planned_starts(length, samples(), planned)?,
            _ => packed.starts(samples())?,
        };
        let end = starts.last().zip(samples().next_back()).map_or(0, |(start, len)| start + len);
        let planned = if packed.splits { 0 } else { planned.len() };
        let needed = end.div_ceil(length).max(planned);
        if let Some(rows) = packed.rows.filter(|rows| needed > *rows) {
            return Err(unfit(format!("samples for up to {rows} rows of {length}"), needed));
        }
        let all = packed.rows.unwrap_or(needed).checked_mul(length);
        let Some(all) = all.filter(|all| i32::try_from(*all).is_ok()) else {
            return Err(too_many());
        };
        let Pieces { positions, documents, cu_seqlens, max } = self;
        positions.clear();
        documents.clear();
        cu_seqlens.clear();
        *max = 0;
        let mut begin = |start: usize, end: usize, document: Option<usize>| {
            cu_seqlens.push(start as i32);
            *max = (end - start).max(*max);
            let counted = document.is_some();
            positions.extend((0..(end - start) as i32).map(|at| if counted { at } else { 0 }));
            documents.resize(end, document.map_or(-1, |document| document as i32));
        };
        // Up to the end of the row at most.
        let mut cut = |mut start: usize, end: usize, document: Option<usize>| {
            while start < end {
                let stop = (start + length - start % length).min(end);
                begin(start, stop, document);
                start = stop;
            }
        };
        let mut end = 0;
        for (document, (len, &start)) in samples().zip(&starts).enumerate() {
            cut(end, start, None);
            cut(start, start + len, Some(document));
            end = start + len;
        }
        cut(end, all, None);
        cu_seqlens.push(all as i32);
        // The last sample first, so that none is overwritten before it has moved.
        data.resize(all, packed.fill);
        for (sample, &to) in starts.iter().enumerate().rev() {
            let (start, end) = (offsets[sample] as usize, offsets[sample + 1] as usize);
            if start == to {
                // Padding only adds up: those before it stay, too.
                break;
            }
            data.copy_within(start..end, to);
        }
        for (token, document) in data.iter_mut().zip(documents.iter()) {
            if *document < 0 {
                *token = packed.fill;
            }
        }
        Ok(())
    }
}
