//! `.crc` as it grows, one entry a sample.

use crate::error::Result;
use crate::format::dataset::digests::Digest;
use crate::format::dataset::{crc, offsets};

use super::Spool;

/// Samples whose entries are gathered before their own checksums are computed.
const BLOCK: usize = 512;

/// `.crc` as it grows: nothing of it is held but the entries of a block.
pub(crate) struct ChecksumSpool {
    spool: Spool,
    /// The data so far, with the checksum of the offsets.
    source: crc::Source,
    table: u32,
    entries: Vec<u8>,
    ends: Vec<u8>,
}

impl ChecksumSpool {
    pub(crate) fn new(mut spool: Spool) -> Result<ChecksumSpool> {
        spool.push(|out| out.extend_from_slice(&[0; crc::HEADER]))?;
        let offsets = crc::checksum(&offsets::encode(0));
        Ok(ChecksumSpool {
            spool,
            source: crc::Source { count: 0, data_len: 0, md5: None, offsets },
            table: crc::checksum(&[]),
            entries: Vec::with_capacity(BLOCK * crc::ENTRY as usize),
            ends: Vec::with_capacity(BLOCK * offsets::ENTRY as usize),
        })
    }

    /// A sample with this checksum ends here.
    #[inline]
    pub(crate) fn push(&mut self, checksum: u32, end: u64) -> Result<()> {
        self.entries.extend_from_slice(&crc::encode(checksum));
        self.ends.extend_from_slice(&offsets::encode(end));
        self.source.count += 1;
        self.source.data_len = end;
        if self.source.count % BLOCK as u64 == 0 { self.pass_on() } else { Ok(()) }
    }

    fn pass_on(&mut self) -> Result<()> {
        self.table = crc::extend(self.table, &self.entries);
        self.source.offsets = crc::extend(self.source.offsets, &self.ends);
        self.spool.push(|out| out.extend_from_slice(&self.entries))?;
        self.entries.clear();
        self.ends.clear();
        Ok(())
    }

    /// Completes the file: of data with this MD5, if that is known.
    pub(crate) fn finish(mut self, md5: Option<Digest>, sync: bool) -> Result<()> {
        self.pass_on()?;
        let header = crc::Header::new(crc::Source { md5, ..self.source }, self.table);
        self.spool.patch(&header.encode(), 0)?;
        self.spool.finish(sync)
    }
}
