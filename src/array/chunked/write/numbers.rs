//! The numbers of new files. A number is never used twice, not even the number of a removed file.

use std::path::Path;

use rayon::prelude::*;

use crate::array::chunked::files::Files;
use crate::array::chunked::write::directory::NewFile;
use crate::error::{Error, ErrorKind, Result};
use crate::format::chunked::superchunk::Content;
use crate::format::chunked::{Column, Version, names};

/// The next numbers that no file has. They may be one more than a file may have.
pub(super) struct Numbers {
    segment: u64,
    /// One for each column.
    superchunks: Vec<u64>,
}

impl Numbers {
    /// The numbers after the newest version's and after all existing files: a writer may have been
    /// killed before it could record its own.
    pub(super) fn after(files: &Files, newest: &Version) -> Result<Numbers> {
        let dir = files.path(names::MANIFEST);
        let segments = files.numbers_in(&dir, names::number_of, names::is_beyond)?;
        let segment = newest.next_segment.max(segments.into_iter().max().unwrap_or(0) + 1);
        let next = |column: &Column| -> Result<u64> {
            let dir = files.column_dir(&column.path);
            let (number_of, is_beyond) = (names::superchunk_number_of, names::is_superchunk_beyond);
            let numbers = files.numbers_in(&dir, number_of, is_beyond)?;
            Ok(column.next.max(u64::from(numbers.into_iter().max().unwrap_or(0)) + 1))
        };
        let superchunks = newest.columns.iter().map(next).collect::<Result<_>>()?;
        Ok(Numbers { segment, superchunks })
    }

    /// The number of a new segment.
    pub(super) fn take_segment(&mut self, files: &Files) -> Result<u64> {
        let number = self.segment;
        if number > names::MAX_NUMBER {
            let message = "more segments than there are numbers";
            return Err(Error::new(ErrorKind::Limit, message).at(files.path(names::MANIFEST)));
        }
        self.segment = number + 1;
        Ok(number)
    }

    /// The number that the next superchunk of a column gets.
    pub(super) fn next_superchunk(&self, column: usize) -> u64 {
        self.superchunks[column]
    }

    /// A superchunk of these chunks, each with what follows it, and its number. Works on the threads that it
    /// is called on.
    pub(super) fn superchunk(
        &mut self,
        files: &Files,
        column: usize,
        content: &Content,
        chunks: Vec<(u64, Vec<u8>)>,
    ) -> Result<(u32, NewFile)> {
        let dir = files.column_dir(&content.column);
        let number = u32::try_from(self.superchunks[column]);
        let number = number.map_err(|_| too_many_superchunks(&dir))?;
        self.superchunks[column] += 1;
        let numbers: Vec<u64> = chunks.iter().map(|(number, _)| *number).collect();
        let tail = content.slot_len(0) as usize;
        let digests =
            |(_, chunk): &(u64, Vec<u8>)| content.block_digests(&chunk[..chunk.len() - tail]);
        let blocks: Vec<Vec<u8>> = match content.takes_block_digests() {
            true => chunks.par_iter().map(digests).collect(),
            false => Vec::new(),
        };
        let lens: Vec<usize> = chunks.iter().map(|(_, chunk)| chunk.len() - tail).collect();
        let mut parts = vec![content.head_with(&numbers, &lens, &blocks)?];
        parts.extend(chunks.into_iter().map(|(_, chunk)| chunk));
        Ok((number, NewFile { dir, name: names::superchunk(number), parts }))
    }

    /// Records the next numbers in a version.
    pub(super) fn record(&self, version: &mut Version) {
        version.next_segment = self.segment;
        for (column, next) in version.columns.iter_mut().zip(&self.superchunks) {
            column.next = *next;
        }
    }
}

pub(super) fn too_many_superchunks(dir: &Path) -> Error {
    Error::new(ErrorKind::Limit, "more superchunks than there are numbers").at(dir)
}
