//! [`build`]: one batch of the samples of a range.

use std::borrow::Cow;
use std::ops::Range;

use arrow_array::{RecordBatch, RecordBatchOptions};

use super::columns::Columns;
use super::{Shared, of_sample};
use crate::dataset::DatasetReader;
use crate::error::{Error, ErrorKind, Result};
use crate::format::arrow::columns::{Appending, Column, NullMeanings};
use crate::format::arrow::views::FindMap;
use crate::format::msgpack::sample::{self, KEY};
use crate::format::msgpack::{Cursor, Kind};
use crate::reader::{FieldContent, Reader};

/// A batch ends once its columns have this many bytes.
const MOST_BYTES: usize = 64 << 20;
/// Remote samples that are fetched together, and about how many bytes of them.
const TOGETHER: usize = 256;
const BYTES_TOGETHER: u64 = 8 << 20;

/// A batch, and the first sample that has no place in it.
pub(super) struct Built {
    pub(super) batch: RecordBatch,
    pub(super) end: usize,
}

/// Makes a batch of these samples, or of the first of them.
pub(super) fn build(shared: &Shared, range: Range<usize>) -> Result<Built> {
    let mut rows = Rows::of(&shared.columns);
    let end = fill(shared, &mut rows, range)?;
    Ok(Built { batch: rows.finish()?, end })
}

fn fill(shared: &Shared, rows: &mut Rows<'_>, range: Range<usize>) -> Result<usize> {
    let reader = &*shared.reader;
    let in_maps = |bytes: &[u8]| shared.maps.find(bytes);
    if let Some(dataset) = DatasetReader::of(reader).filter(|_| !reader.is_remote()) {
        for (index, raw) in range.clone().zip(dataset.iter_raw(range.clone())) {
            let raw = raw?;
            rows.begin();
            rows.add(&raw, &in_maps).map_err(|error| of_sample(reader, index, error))?;
            if rows.is_full() {
                dataset.release(range.start..index + 1);
                return Ok(index + 1);
            }
        }
        dataset.release(range.clone());
        return Ok(range.end);
    }
    let names = if shared.columns.are_chosen { shared.columns.names() } else { Vec::new() };
    let together = match reader.sample_bytes() {
        Some(bytes) => (BYTES_TOGETHER / bytes.max(1)).clamp(1, TOGETHER as u64) as usize,
        None => TOGETHER,
    };
    let mut fetched = range.start;
    for index in range.clone() {
        if reader.is_remote() && index == fetched {
            fetched = (index + together).min(range.end);
            reader.prefetch(&(index..fetched).collect::<Vec<_>>());
        }
        rows.begin();
        let located = |error: Error| of_sample(reader, index, error);
        let is_made = reader.read_fields(index, &names, &mut |name, content| {
            rows.add_content(name, content, &in_maps)
        });
        if is_made.map_err(located)? {
            rows.end().map_err(located)?;
        } else if let Some(raw) = whole(shared, index)? {
            rows.add(&raw, &in_maps).map_err(located)?;
        } else {
            for name in &names {
                if let Some(packed) = reader.field_raw(index, name)? {
                    rows.add_content(name, FieldContent::Packed(&packed), &in_maps)
                        .map_err(located)?;
                }
            }
            rows.end().map_err(located)?;
        }
        if rows.is_full() {
            return Ok(index + 1);
        }
    }
    Ok(range.end)
}

/// The packed sample, if it is there as it is, or is needed as a whole. Readers that put samples together copy what is
/// in them, and make a field alone without that.
fn whole(shared: &Shared, index: usize) -> Result<Option<Cow<'_, [u8]>>> {
    let is_leaf = DatasetReader::any(&*shared.reader).is_some();
    match is_leaf || !shared.columns.are_chosen {
        true => shared.reader.get_raw(index).map(Some),
        false => Ok(None),
    }
}

/// Columns of rows so far.
struct Rows<'a> {
    columns: &'a Columns,
    values: Vec<Column>,
    /// The last row that each column has a value of.
    seen: Vec<usize>,
    /// Rows, with the one that is being added.
    rows: usize,
    /// The column of the next field, most likely.
    next: usize,
    /// Rows after which the size is looked at again.
    check: usize,
    /// Where the values of a plain sample are.
    places: Vec<usize>,
}

impl<'a> Rows<'a> {
    fn of(columns: &'a Columns) -> Rows<'a> {
        let of = columns.entries.iter().map(|entry| Column::of(&entry.of, columns.target));
        let values: Vec<Column> = of.collect();
        let seen = vec![0; values.len()];
        let places = vec![0; values.len()];
        Rows { columns, values, seen, rows: 0, next: 0, check: 1, places }
    }

    fn begin(&mut self) {
        self.rows += 1;
        self.next = 0;
    }

    /// Adds a packed sample.
    #[inline]
    fn add(&mut self, raw: &[u8], map: &FindMap<'_>) -> Result<()> {
        let target = self.columns.target;
        let mut to = Appending { target, map, null: NullMeanings::default() };
        if self.find_places(raw).is_some() {
            for at in 0..self.places.len() {
                match self.places[at] {
                    0 => {}
                    place => self.append(at, &mut Cursor::at(raw, place), &mut to)?,
                }
            }
            return self.end();
        }
        let mut cursor = Cursor::new(raw);
        for _ in 0..cursor.read_map_len()? {
            if cursor.peek()? != Kind::Str {
                if !self.columns.are_chosen {
                    let message = "expected fields whose names are strings, found another";
                    return Err(Error::new(ErrorKind::Invalid, message));
                }
                cursor.skip()?;
                cursor.skip()?;
                continue;
            }
            let name = cursor.read_str_bytes()?;
            match self.columns.position(name, self.next) {
                Some(at) => self.append(at, &mut cursor, &mut to)?,
                None if self.columns.are_chosen => cursor.skip()?,
                None => return Err(self.unknown(&String::from_utf8_lossy(name))),
            }
        }
        cursor.expect_end()?;
        self.end()
    }

    /// Finds the values of a sample, in few steps. `None` for samples that need more, or are wrong.
    #[inline]
    fn find_places(&mut self, raw: &[u8]) -> Option<()> {
        let (columns, places) = (self.columns, &mut self.places);
        places.fill(0);
        let mut next = 0;
        sample::plain_fields(raw, |name, value| {
            let Some(at) = columns.position(name, next) else {
                // An error, unless it is left out.
                return columns.are_chosen.then_some(());
            };
            // A field that comes twice is an error.
            next = at + 1;
            (std::mem::replace(&mut places[at], value) == 0).then_some(())
        })
    }

    #[inline]
    fn append(&mut self, at: usize, cursor: &mut Cursor<'_>, to: &mut Appending<'_>) -> Result<()> {
        self.see(at)?;
        let entry = &self.columns.entries[at];
        match self.values[at].append_if_fits(cursor, &entry.of, to)? {
            Ok(()) => Ok(()),
            Err(expected) => Err(self.unfit(at, &expected)),
        }
    }

    /// Adds the value of one field.
    fn add_content(
        &mut self,
        name: &str,
        content: FieldContent<'_>,
        map: &FindMap<'_>,
    ) -> Result<()> {
        let Some(at) = self.columns.position(name.as_bytes(), self.next) else {
            return if self.columns.are_chosen { Ok(()) } else { Err(self.unknown(name)) };
        };
        let target = self.columns.target;
        let mut to = Appending { target, map, null: NullMeanings::default() };
        match content {
            FieldContent::Packed(packed) => self.append(at, &mut Cursor::new(packed), &mut to),
            FieldContent::Bytes(bytes) => {
                self.see(at)?;
                let of = &self.columns.entries[at].of;
                match self.values[at].append_bytes(bytes, &to)? {
                    true => Ok(()),
                    false => Err(self.unfit(at, &format!("{of}, found bytes"))),
                }
            }
        }
    }

    #[inline]
    fn see(&mut self, at: usize) -> Result<()> {
        if self.seen[at] == self.rows {
            let error = Error::new(ErrorKind::Invalid, "the field occurs twice");
            return Err(error.with_field(&self.columns.entries[at].name));
        }
        self.seen[at] = self.rows;
        self.next = at + 1;
        Ok(())
    }

    /// Ends a row: fields that it does not have are null.
    #[inline]
    fn end(&mut self) -> Result<()> {
        for (at, seen) in self.seen.iter().enumerate() {
            if *seen != self.rows {
                if self.columns.entries[at].name == KEY {
                    let message = "expected a sample with a \"key\", found one without";
                    return Err(Error::new(ErrorKind::Damaged, message));
                }
                self.values[at].append_nothing();
            }
        }
        Ok(())
    }

    #[cold]
    fn unknown(&self, name: &str) -> Error {
        let looked_at = self.columns.looked_at;
        let message = format!(
            "expected the fields of the {looked_at} samples that the columns were found from, found another; \
             the columns of all samples have it, and fields can be had by their names"
        );
        Error::new(ErrorKind::Invalid, message).with_field(name)
    }

    #[cold]
    fn unfit(&self, at: usize, expected: &str) -> Error {
        let looked_at = self.columns.looked_at;
        let message = format!(
            "expected {expected}; the column was found from {looked_at} samples: from all of them another type may be \
             found, and other fields can be had by their names"
        );
        Error::new(ErrorKind::Invalid, message).with_field(&self.columns.entries[at].name)
    }

    /// Whether the batch is large enough. Looked at seldom, while rows are small.
    #[inline]
    fn is_full(&mut self) -> bool {
        if self.rows < self.check {
            return false;
        }
        let bytes: usize = self.values.iter().map(Column::size).sum();
        let row = bytes / self.rows.max(1) + 1;
        let left = MOST_BYTES.saturating_sub(bytes) / row / 4;
        self.check = self.rows + left.clamp(1, 4096);
        bytes >= MOST_BYTES
    }

    fn finish(self) -> Result<RecordBatch> {
        let schema = self.columns.schema.clone();
        let made = self.values.into_iter().zip(schema.fields());
        let arrays =
            made.map(|(column, field)| column.finish(field.data_type(), self.columns.target));
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = arrays
            .collect::<Result<Vec<_>, _>>()
            .and_then(|arrays| RecordBatch::try_new_with_options(schema.clone(), arrays, &options));
        batch.map_err(|error| {
            Error::new(ErrorKind::Limit, format!("the columns cannot be made: {error}"))
        })
    }
}
