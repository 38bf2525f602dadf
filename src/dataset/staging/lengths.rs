//! `.lengths`: as it grows, one row of numbers a sample, and as it is at last, column by column.

use crate::error::Result;
use crate::format::dataset::crc;
use crate::format::dataset::lengths::{Column, ENTRY, Header};
use crate::storage::{Sink, Storage};

use super::Spool;

/// Samples whose numbers are taken apart in one go.
const ROWS: u64 = 1 << 16;

/// Numbers of samples as they come, in the place of the file that is made of them.
pub(crate) struct LengthsSpool {
    spool: Spool,
    names: Vec<String>,
}

impl LengthsSpool {
    /// Of columns with these names.
    pub(crate) fn new(spool: Spool, names: Vec<String>) -> LengthsSpool {
        LengthsSpool { spool, names }
    }

    /// A number for each column.
    #[inline]
    pub(crate) fn push(&mut self, row: &[u32]) -> Result<()> {
        self.spool.push(|out| row.iter().for_each(|number| out.extend(number.to_le_bytes())))
    }

    /// Makes the file, of this data. `reopened` opens it again, empty.
    pub(crate) fn finish(
        mut self,
        storage: &dyn Storage,
        source: crc::Source,
        sync: bool,
        reopened: impl FnOnce() -> Result<Box<dyn Sink>>,
    ) -> Result<()> {
        self.spool.flush()?;
        let rows = storage.open(&self.spool.path)?;
        let row = ENTRY * self.names.len() as u64;
        let mut file = LengthsWriter::new(reopened()?, source, self.names)?;
        let mut numbers = Vec::new();
        for at in (0..rows.len()).step_by((ROWS * row) as usize) {
            let part = rows.read(at..rows.len().min(at + ROWS * row))?;
            for column in 0..file.columns.len() {
                let own = ENTRY as usize * column..ENTRY as usize * (column + 1);
                numbers.clear();
                let each = part.chunks_exact(row as usize);
                each.for_each(|row| numbers.extend_from_slice(&row[own.clone()]));
                file.put(column, at / row, &numbers)?;
            }
        }
        file.finish(sync)
    }
}

/// A `.lengths` that is written, each of its columns from the first number on.
pub(crate) struct LengthsWriter {
    sink: Box<dyn Sink>,
    /// Where columns are depends on their names alone.
    header: Header,
    columns: Vec<Column>,
}

impl LengthsWriter {
    pub(crate) fn new(
        mut sink: Box<dyn Sink>,
        source: crc::Source,
        names: impl IntoIterator<Item = String>,
    ) -> Result<LengthsWriter> {
        let column = |name| Column { name, checksum: crc::checksum(&[]) };
        let columns: Vec<Column> = names.into_iter().map(column).collect();
        let header = Header::new(source, columns.clone())?;
        sink.set_len(header.file_len())?;
        Ok(LengthsWriter { sink, header, columns })
    }

    /// Writes the numbers of a column from this sample on, behind the numbers of the samples before.
    pub(crate) fn put(&mut self, column: usize, first: u64, numbers: &[u8]) -> Result<()> {
        let checksum = &mut self.columns[column].checksum;
        *checksum = crc::extend(*checksum, numbers);
        self.sink.write_at(numbers, self.header.range(column).start + first * ENTRY)
    }

    pub(crate) fn finish(mut self, sync: bool) -> Result<()> {
        for (number, column) in self.columns.iter_mut().enumerate() {
            let zeros = self.header.padded(number).end - self.header.range(number).end;
            column.checksum = crc::extend(column.checksum, &[0; 8][..zeros as usize]);
        }
        let header = Header::new(*self.header.source(), self.columns)?;
        self.sink.write_at(&header.encode(), 0)?;
        if sync { self.sink.sync() } else { Ok(()) }
    }
}
