//! [`Entries`]: the files of an archive, one after the other.
//!
//! Archives that were concatenated are read one after the other, as Python's `tarfile` and GNU tar
//! with `--ignore-zeros` read them.

use super::ahead::{Ahead, Next, Records};
use super::{BLOCK, Header, padding, parse_header};
use crate::error::{Error, Result};
use crate::format::FormatError;

/// Where the bytes of an archive come from, in order.
pub(crate) trait ArchiveBytes {
    /// Bytes of a file.
    type Content: AsRef<[u8]>;

    /// Fills the start of the block with the next bytes, which are fewer at the end only. Returns how many
    /// there were.
    fn fill(&mut self, block: &mut [u8; BLOCK]) -> Result<usize>;

    /// The next bytes: this many, or fewer at the end. The number is not to be trusted.
    fn take(&mut self, size: u64) -> Result<Self::Content>;

    /// Skips up to this many bytes. Returns how many there were.
    fn pass(&mut self, size: u64) -> Result<u64>;
}

/// A file whose bytes come next in the archive.
pub(crate) struct Entry {
    /// Where its first header begins.
    pub(crate) start: u64,
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Our own records about it, whose names begin with `KISTE.`.
    pub(crate) records: Records,
}

/// How a file of archives ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With an end mark, and perhaps zeros after it.
    Marked,
    /// After a whole entry, without an end mark.
    Unmarked,
    /// With this many bytes that are no archive, from this position on.
    Foreign { position: u64, bytes: u64 },
}

/// The files of an archive in these bytes.
pub(crate) struct Entries<B> {
    bytes: B,
    position: u64,
    max_bytes: u64,
    /// The last of our own records about the whole archive, and where their entry begins; none if they
    /// are damaged.
    global: Option<(u64, Records)>,
    /// Whether the bytes may end without an end mark.
    open_end: bool,
    ending: Ending,
}

impl<B: ArchiveBytes> Entries<B> {
    /// The archive in these bytes, of which the first one is at `position`: there is the first header of an
    /// entry. Files of more than `max_bytes` are refused.
    pub(crate) fn new(bytes: B, position: u64, max_bytes: u64) -> Entries<B> {
        let ending = Ending::Marked;
        Entries { bytes, position, max_bytes, global: None, open_end: false, ending }
    }

    /// Lets the bytes end after a whole entry, without an end mark.
    pub(crate) fn open_end(mut self, open_end: bool) -> Self {
        self.open_end = open_end;
        self
    }

    /// The position of the next bytes of the file that [`next`](Self::next) returned.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Our own records about the whole archive and where their entry begins, if they came since this was
    /// called: without records if they are damaged, or if another archive begins there.
    pub(crate) fn take_global(&mut self) -> Option<(u64, Records)> {
        self.global.take()
    }

    /// How the bytes ended, once they have.
    pub(crate) fn ending(&self) -> Ending {
        self.ending
    }

    /// The next file; directories are skipped. Call [`read`](Self::read) or [`skip`](Self::skip)
    /// for its bytes before the next one. With the error comes a refused entry, which has been skipped.
    pub(crate) fn next(&mut self) -> Result<Option<(Entry, Option<Error>)>> {
        let mut ahead = Ahead::new(self.position);
        loop {
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            match ahead.header(header, self.position, self.max_bytes)? {
                Next::Entry(entry, flaw) => {
                    if flaw.is_some() {
                        self.skip(entry.size)?;
                    }
                    return Ok(Some((entry, flaw)));
                }
                Next::LongName(size) => {
                    let name = self.read(size)?;
                    ahead.long_name(name.as_ref());
                    continue;
                }
                Next::Pax(size) => {
                    let content = self.read(size)?;
                    ahead.pax(content.as_ref())?;
                    continue;
                }
                Next::GlobalPax(size) => {
                    let content = self.read(size)?;
                    ahead.global_pax(content.as_ref(), &mut self.global)?;
                }
                Next::Skip(size) => self.skip(size)?,
            }
            ahead = Ahead::new(self.position);
        }
    }

    /// The bytes of the file that [`next`](Self::next) returned.
    pub(crate) fn read(&mut self, size: u64) -> Result<B::Content> {
        let data = self.bytes.take(size)?;
        let read = data.as_ref().len() as u64;
        self.position += read;
        if read < size {
            return Err(self.truncated());
        }
        self.pass(padding(size) as u64)?;
        Ok(data)
    }

    /// Skips this many bytes, and the padding after them.
    pub(crate) fn skip(&mut self, size: u64) -> Result<()> {
        self.pass(size)?;
        self.pass(padding(size) as u64)
    }

    /// Where the bytes come from.
    pub(crate) fn bytes(&self) -> &B {
        &self.bytes
    }

    /// The same, to read a file from it. Call [`skip_rest`](Self::skip_rest) then.
    #[cfg(feature = "datasets")]
    pub(crate) fn bytes_mut(&mut self) -> &mut B {
        &mut self.bytes
    }

    /// Skips what is left of a file of this many bytes, and the padding after them.
    #[cfg(feature = "datasets")]
    pub(crate) fn skip_rest(&mut self, size: u64, left: u64) -> Result<()> {
        self.position += size - left;
        self.pass(left)?;
        self.pass(padding(size) as u64)
    }

    fn pass(&mut self, size: u64) -> Result<()> {
        let passed = self.bytes.pass(size)?;
        self.position += passed;
        if passed < size { Err(self.truncated()) } else { Ok(()) }
    }

    /// The next header; after an end mark it is the first one of the next archive.
    fn header(&mut self) -> Result<Option<Header>> {
        let start = self.position;
        let mut block = [0; BLOCK];
        let read = self.block(&mut block)?;
        // A writer that was not closed leaves no end mark, or a part of it.
        if read < BLOCK && (start == 0 || block != [0; BLOCK]) {
            return Err(self.truncated());
        }
        if read < BLOCK && !self.open_end {
            let flaw = FormatError::new(start, "the end mark of a tar archive", "the end of file");
            return Err(flaw.into());
        }
        if read < BLOCK {
            self.ending = Ending::Unmarked;
            return Ok(None);
        }
        match parse_header(&block).map_err(|error| error.behind(start))? {
            Some(header) => Ok(Some(header)),
            None => self.next_archive(),
        }
    }

    /// The first header after an end mark, if another archive follows.
    fn next_archive(&mut self) -> Result<Option<Header>> {
        let mut block = [0; BLOCK];
        loop {
            let start = self.position;
            let read = self.block(&mut block)?;
            if read == BLOCK && block == [0; BLOCK] {
                continue;
            }
            if let (BLOCK, Ok(Some(header))) = (read, parse_header(&block)) {
                // Remarks on the previous archive do not apply to this one.
                self.global = Some((start, Records::new()));
                return Ok(Some(header));
            }
            if block[..read].iter().any(|&byte| byte != 0) {
                // To the end: a compressed file has its checksum there.
                self.position += self.bytes.pass(u64::MAX)?;
                self.ending = Ending::Foreign { position: start, bytes: self.position - start };
            }
            return Ok(None);
        }
    }

    /// Reads a block, or what is left, with zeros after it. Returns how many bytes there were.
    fn block(&mut self, block: &mut [u8; BLOCK]) -> Result<usize> {
        *block = [0; BLOCK];
        let len = self.bytes.fill(block)?;
        self.position += len as u64;
        Ok(len)
    }

    fn truncated(&self) -> Error {
        FormatError::new(self.position, "the rest of a tar archive", "the end of file").into()
    }
}

/// An archive in memory, whose files are not copied.
impl<'a> ArchiveBytes for &'a [u8] {
    type Content = &'a [u8];

    fn fill(&mut self, block: &mut [u8; BLOCK]) -> Result<usize> {
        let bytes = self.take(BLOCK as u64)?;
        block[..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn take(&mut self, size: u64) -> Result<&'a [u8]> {
        let len = usize::try_from(size).map_or(self.len(), |size| size.min(self.len()));
        let (taken, rest) = self.split_at(len);
        *self = rest;
        Ok(taken)
    }

    fn pass(&mut self, size: u64) -> Result<u64> {
        Ok(self.take(size)?.len() as u64)
    }
}

/// A file, or an entry that was refused and why.
#[cfg_attr(not(test), expect(dead_code, reason = "for archives that are read in place"))]
pub(crate) struct Found<'a> {
    pub(crate) entry: Entry,
    pub(crate) data: Result<&'a [u8]>,
}

impl<'a> Entries<&'a [u8]> {
    /// The next file and its bytes; directories are skipped. The inner error is about this entry alone.
    #[cfg_attr(not(test), expect(dead_code, reason = "for archives that are read in place"))]
    pub(crate) fn next_file(&mut self) -> Result<Option<Found<'a>>> {
        let Some((entry, flaw)) = self.next()? else { return Ok(None) };
        let data = match flaw {
            Some(flaw) => Err(flaw),
            None => Ok(self.read(entry.size)?),
        };
        Ok(Some(Found { entry, data }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::format::tar::{file_header_with, global_header};

    fn put(out: &mut Vec<u8>, name: &str, records: &[(&str, &str)], data: &[u8]) {
        out.extend(file_header_with(name, data.len() as u64, records).unwrap());
        out.extend(data);
        out.resize(out.len() + padding(data.len() as u64), 0);
    }

    /// The header of an entry of another kind.
    fn header(name: &str, size: u64, kind: u8) -> Vec<u8> {
        let mut block = file_header_with(name, size, &[]).unwrap();
        block[156] = kind;
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }

    type Files = Vec<(u64, String, std::result::Result<Vec<u8>, String>)>;

    fn files(entries: &mut Entries<&[u8]>) -> Result<Files> {
        let mut found = Vec::new();
        while let Some(Found { entry, data }) = entries.next_file()? {
            let data = data.map(<[u8]>::to_vec).map_err(|error| error.message().to_owned());
            found.push((entry.start, entry.name, data));
        }
        Ok(found)
    }

    #[test]
    fn files_and_what_is_refused() {
        let long = "n".repeat(120);
        let mut archive = global_header(&[("KISTE.webdataset", "{}")]);
        put(&mut archive, "a.txt", &[("KISTE.field", "[]"), ("other", "x")], b"one");
        archive.extend(header("folder/", 0, b'5'));
        let link = archive.len() as u64;
        archive.extend(header("b.txt", 0, b'2'));
        let big = archive.len() as u64;
        put(&mut archive, "c.txt", &[], &[7; 600]);
        let outside = archive.len() as u64;
        put(&mut archive, "../d.txt", &[], b"");
        let named = archive.len() as u64;
        archive.extend(header("././@LongLink", 121, b'L'));
        archive.extend(long.as_bytes());
        archive.resize(archive.len() + BLOCK - 120, 0);
        put(&mut archive, "n", &[], b"two");

        let mut entries = Entries::new(&archive[..], 0, 512).open_end(true);
        let first = entries.next_file().unwrap().unwrap();
        assert_eq!((first.entry.start, first.data.unwrap()), (2 * BLOCK as u64, &b"one"[..]));
        assert_eq!(first.entry.records, [("KISTE.field".to_owned(), "[]".to_owned())]);
        let global = (0, vec![("KISTE.webdataset".to_owned(), "{}".to_owned())]);
        assert_eq!(entries.take_global(), Some(global));
        let refused = |name: &str, at: u64, message: &str| {
            (at, name.to_owned(), Err(format!("entry {name:?} at byte {at}: {message}")))
        };
        let expected = [
            refused("b.txt", link, "expected files and directories, found a link"),
            refused("c.txt", big, "expected at most 512 bytes, found 600"),
            refused("../d.txt", outside, "expected a relative name without \"..\", found another"),
            (named, long, Ok(b"two".to_vec())),
        ];
        assert_eq!(files(&mut entries).unwrap(), expected);
        assert_eq!((entries.take_global(), entries.ending()), (None, Ending::Unmarked));
    }

    #[test]
    fn ends_of_archives() {
        let mut archive = Vec::new();
        put(&mut archive, "a", &[], b"one");
        let first = archive.len();
        archive.resize(first + 3 * BLOCK, 0);
        put(&mut archive, "b", &[], &[7; 600]);
        let second = archive.len();
        archive.resize(second + 2 * BLOCK, 0);
        archive.extend(b"no archive");

        let mut entries = Entries::new(&archive[..], 100, 1 << 20);
        assert_eq!(entries.next_file().unwrap().unwrap().entry.start, 100);
        assert_eq!(entries.take_global(), None);
        assert_eq!(entries.next_file().unwrap().unwrap().data.unwrap(), [7; 600]);
        let begin = 100 + first as u64 + 3 * BLOCK as u64;
        assert_eq!(entries.take_global(), Some((begin, Vec::new())));
        assert!(entries.next_file().unwrap().is_none());
        let position = 100 + (second + 2 * BLOCK) as u64;
        assert_eq!(entries.ending(), Ending::Foreign { position, bytes: 10 });

        for len in 0..second {
            let read = |open_end| {
                let mut entries = Entries::new(&archive[..len], 0, 1 << 20).open_end(open_end);
                files(&mut entries)
            };
            // After an end mark, a part of a header is no archive.
            let no_more = first + 4 * BLOCK;
            let is_marked = (first + BLOCK..no_more).contains(&len);
            let is_whole = (first..no_more).contains(&len);
            assert_eq!(read(false).is_ok(), is_marked, "{len}");
            assert_eq!(read(true).is_ok(), is_whole, "{len}");
            if let Err(error) = read(true) {
                assert_eq!(error.kind(), ErrorKind::Damaged);
                let message = format!("byte {len}: expected the rest of a tar archive");
                assert!(error.message().starts_with(&message), "{error}");
            }
        }
    }
}
