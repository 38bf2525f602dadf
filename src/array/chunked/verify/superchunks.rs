//! Checks superchunks: chunks are compared with the hashes in tables, the rest with checksums.

use std::path::Path;

use crate::array::chunked::options::Check;
use crate::array::chunked::superchunk::SuperchunkFile;
use crate::array::chunked::verify::{Problem, described};
use crate::array::chunked::version::OpenVersion;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::blosc::Scratch;
use crate::format::chunked::segment::Place;
use crate::format::chunked::superchunk::{Content, recorded_chunks};
use crate::storage::Storage;

/// A chunk, its coordinates, and the versions that have it there.
pub(super) type Owner = (Place, Vec<u64>, Vec<u64>);

/// The header of a superchunk, about its slots.
pub(super) struct Slots {
    /// The bytes of each, where that can be told.
    pub(super) lens: Vec<Option<u64>>,
    /// The number of the chunk of each, as it was written; empty where that is not recorded.
    pub(super) chunks: Vec<u64>,
}

impl Slots {
    /// The slots of a file, opened for this; `None` if it cannot be read.
    pub(super) fn of(storage: &dyn Storage, path: &Path) -> Option<Slots> {
        let source = storage.open(path).ok()?;
        let file = SuperchunkFile::open(source, path.to_path_buf()).ok()?;
        let lens = (0..file.layout.slots()).map(|slot| file.slot_len(slot)).collect();
        let head = SuperchunkFile::head(&file.source).ok()?;
        let chunks = recorded_chunks(&head)
            .filter(|chunks| chunks.len() as u64 == u64::from(file.layout.slots()));
        Some(Slots { lens, chunks: chunks.unwrap_or_default() })
    }
}

/// Everything in a superchunk: chunks that tables name are compared with their hashes, the rest
/// with checksums.
pub(super) fn check_superchunk(
    core: &OpenVersion,
    content: &Content,
    number: u32,
    slots: &[Owner],
) -> Vec<Problem> {
    let path = core.files.superchunk_path(&content.column, number);
    let mut problems = Vec::new();
    let mut versions: Vec<u64> = slots.iter().flat_map(|(.., v)| v.iter().copied()).collect();
    versions.sort_unstable();
    versions.dedup();
    let mut note = |error: &Error, chunk: Option<&Vec<u64>>, versions: &[u64]| {
        let message = described(error);
        let chunk = chunk.map(|at| (content.column.clone(), at.clone()));
        let (file, versions) = (path.clone(), versions.to_vec());
        problems.push(Problem { file, chunk, versions, message });
    };
    let opened = core.files.storage.open(&path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::new(ErrorKind::Damaged, "the file is missing"),
        _ => e,
    });
    let file = match opened.and_then(|source| SuperchunkFile::open(source, path.clone())) {
        Ok(file) => file,
        Err(e) => {
            // None of its chunks can be read, and each gets a line.
            note(&e, None, &versions);
            slots.iter().for_each(|(_, at, versions)| note(&e, Some(at), versions));
            return problems;
        }
    };
    let head = SuperchunkFile::head(&file.source);
    let head = head.and_then(|head| Ok(file.layout.check_head(content, &head)?));
    if let Err(e) = head {
        note(&e, None, &versions);
    }
    let mut scratch = Scratch::default();
    for (place, at, versions) in slots {
        let done = if file.layout.chunk_bytes() != content.chunk_bytes {
            let found = format!("{} bytes", file.layout.chunk_bytes());
            let expected = format!("chunks of {} bytes", content.chunk_bytes);
            Err(FormatError::new(8, expected, found).into())
        } else {
            file.read(place, Check::Hashes, &mut scratch).map(drop)
        };
        if let Err(e) = done {
            note(&e, Some(at), versions);
        }
    }
    for slot in 0..file.layout.slots() {
        let check = || -> Result<()> {
            let range = file.layout.slot(slot)?;
            let start = range.start;
            let bytes = file.source.read(range)?;
            let moved = |e: FormatError| e.behind(start);
            file.layout.check_slot(slot, &bytes).map_err(moved)?;
            match file.block_digests().and_then(|digests| digests.of(slot)) {
                Some(digests) => {
                    Ok(file.layout.check_blocks(slot, &bytes, digests).map_err(moved)?)
                }
                None => Ok(()),
            }
        };
        if let Err(e) = check() {
            let owner = slots.iter().find(|(place, ..)| place.slot == slot);
            match owner {
                Some((_, at, versions)) => note(&e, Some(at), versions),
                None => note(&e, None, &[]),
            }
        }
    }
    problems
}
