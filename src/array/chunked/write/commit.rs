//! From changes to a version: chunks are hashed, compared, compressed and written, then tables, then
//! the version. The order, and why a crash costs nothing, is in the FORMAT of
//! [`format::chunked`](crate::format::chunked).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use foldhash::fast::RandomState;
use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::array::chunked::read::ChunkedArray;
use crate::array::chunked::columns;
use crate::array::chunked::write::chunker::Cut;
use crate::array::chunked::files::Table;
use crate::array::chunked::info::VersionInfo;
use crate::array::chunked::write::store::{ArrayStore, now_after, too_many_files};
use crate::error::{Error, ErrorKind, Result};
use crate::format::blosc::{self, Codec, Params, Scratch, Shuffle};
use crate::format::bloscpack::Checksum;
use crate::format::chunked::segment::{self, Entry, HASH, Place};
use crate::format::chunked::superchunk::Content;
use crate::format::chunked::{Numbering, grid_of, names, parse_time};

/// So many bytes of changes are hashed and compressed at a time, while the files of those before are
/// written; more where there are many threads.
const BATCH: usize = 32 << 20;
const BATCH_OF_A_THREAD: usize = 4 << 20;

/// Bytes of a block, and the most splits that Blosc makes of one.
const BLOCK: usize = 128 << 10;
const MOST_SPLITS: usize = 16;

/// What a commit is to make of a version.
pub(crate) struct Proposal<'a> {
    pub(crate) base: &'a ChunkedArray,
    pub(crate) shape: Vec<usize>,
    pub(crate) attributes: Map<String, Value>,
    pub(crate) message: &'a str,
    pub(crate) changes: Changes<'a>,
}

/// Chunks that may be other than in the base, each once.
type Changes<'a> = Box<dyn Iterator<Item = Result<(Vec<u64>, New<'a>)>> + 'a>;

/// What becomes of a chunk.
pub(crate) enum New<'a> {
    /// The fill value.
    Fill,
    /// These bytes: the whole chunk, the fill value wherever it is beyond the array.
    Chunk(Cow<'a, [u8]>),
    /// This one of the chunks that an array is cut into.
    Cut(&'a Cut<'a>, usize),
}

impl New<'_> {
    fn len(&self) -> usize {
        match self {
            New::Fill => 0,
            New::Chunk(bytes) => bytes.len(),
            New::Cut(cut, _) => cut.chunk_len(),
        }
    }
}

type Digest = [u8; HASH];

/// The chunks of one column, on their way to files.
struct Writing<'a> {
    base: &'a ChunkedArray,
    column: usize,
    params: Params,
    content: Content,
    /// The most chunks in a file.
    superchunk: usize,
    /// Whether equal chunks of the base are used again.
    reuse: bool,
    /// For each slot of the base how many chunks are there; only if slots are written over.
    shared: Option<HashMap<(u32, u32), u32>>,
    /// Whether a superchunk may be written over: a file of ours that has no other name.
    own: HashMap<u32, bool>,
    /// The changes to the table, by chunk number.
    entries: BTreeMap<u64, Entry>,
    /// What was added, by hash, and how many bytes it takes.
    new: HashMap<Digest, (Place, u64), RandomState>,
    /// Chunks of the superchunk that is not full yet: each with what follows it in the file.
    pending: Vec<(u64, Vec<u8>)>,
    next: u64,
    /// Slots to be written over: the very last thing before the version.
    overwrites: Vec<(Place, Vec<u8>)>,
    chunks: i64,
    cbytes: i64,
    wrote: bool,
    /// What threads keep from one chunk to the next, one for each that has worked.
    workers: Mutex<Vec<Worker>>,
}

/// Memory that a chunk goes through.
#[derive(Default)]
struct Worker {
    scratch: Scratch,
    /// The chunk, put together from an array.
    chunk: Vec<u8>,
    /// A column of it.
    field: Vec<u8>,
    packed: Vec<u8>,
}

/// A file that is to be written.
pub(crate) struct NewFile {
    pub(crate) dir: PathBuf,
    pub(crate) name: String,
    pub(crate) parts: Vec<Vec<u8>>,
}

/// A chunk of one column that is not as it was: its number, where it was, and what it is now.
struct Changed {
    number: u64,
    before: Option<Place>,
    /// `None` is fill.
    hash: Option<Digest>,
    /// Where the base has a chunk of this hash.
    known: Option<Place>,
    /// The chunk as it will be stored; only from who found first that nobody has that hash.
    packed: Option<Vec<u8>>,
}

impl ArrayStore {
    /// Commits changes. The lock is held, and the caller has seen that nothing was committed since.
    pub(crate) fn propose(&mut self, mut proposal: Proposal<'_>) -> Result<VersionInfo> {
        let mut made = Vec::new();
        let result = self.write_and_publish(&mut proposal, &mut made);
        if result.is_err() {
            // What no version names does no harm; but it takes room.
            for path in made {
                let _ = self.files.remove_own(&[path], |_| ());
            }
            self.take_what_is_there();
        }
        result
    }

    /// After an error: whether the version was committed is for the directory to say.
    pub(crate) fn take_what_is_there(&mut self) {
        if let Ok(newest) = self.newest.at(crate::array::chunked::read::At::Newest) {
            self.newest = newest;
        }
    }

    fn write_and_publish(
        &mut self,
        proposal: &mut Proposal<'_>,
        made: &mut Vec<PathBuf>,
    ) -> Result<VersionInfo> {
        self.expect_own_dirs()?;
        let base = proposal.base;
        let old = &base.core.version;
        let newest = &self.newest.core.version;
        if newest.version >= names::MAX_NUMBER {
            let message = "more versions than there are numbers";
            let dir = self.files.path(names::VERSIONS);
            return Err(Error::new(ErrorKind::Limit, message).at(dir));
        }
        let shape: Vec<u64> = proposal.shape.iter().map(|n| *n as u64).collect();
        let grid = grid_of(&shape, &old.storage.chunkshape);
        let numbering = Numbering::of_grid(&grid, Some(&base.core.numbering));
        let numbering = numbering.map_err(|e| Error::new(ErrorKind::Limit, e.to_string()))?;
        let mut version = old.clone();
        version.parent = old.version;
        version.version = newest.version + 1;
        version.time = now_after(parse_time(&newest.time).unwrap_or(0));
        version.message = proposal.message.to_owned();
        version.attributes = std::mem::take(&mut proposal.attributes);
        version.shape = shape;
        version.extents = numbering.extents().to_vec();

        let mut columns = (0..base.core.columns.len())
            .map(|column| Writing::new(base, column, self.next_superchunk[column]))
            .collect::<Result<Vec<_>>>()?;
        self.write_chunks(proposal, &numbering, &mut columns, made)?;
        for (column, writing) in columns.iter_mut().enumerate() {
            writing.cut(&grid, &numbering)?;
            let segments = self.write_table(writing, &grid, &numbering, made)?;
            let noted = &mut version.columns[column];
            noted.segments = segments;
            noted.chunks = noted.chunks.saturating_add_signed(writing.chunks);
            noted.cbytes = noted.cbytes.saturating_add_signed(writing.cbytes);
            noted.next = self.next_superchunk[column];
        }
        version.next_segment = self.next_segment;
        self.sync_dir(&self.files.path(names::MANIFEST))?;
        for writing in &columns {
            self.overwrite(writing)?;
        }
        let info = VersionInfo::of(&version);
        // From here on the files may belong to a version, whatever the error says.
        made.clear();
        self.publish(version)?;
        if !self.newest.core.version.storage.versioned {
            self.files.forget_superchunks();
            // The version is committed; what is left over is removed by the next commit too.
            let _ = self.collect(&crate::array::chunked::write::gc::Keep::Newest(1), false);
        }
        Ok(info)
    }

    fn write_chunks(
        &mut self,
        proposal: &mut Proposal<'_>,
        numbering: &Numbering,
        columns: &mut [Writing<'_>],
        made: &mut Vec<PathBuf>,
    ) -> Result<()> {
        let base = proposal.base;
        let old_grid: Vec<u64> = base.core.grid.counts().iter().map(|n| *n as u64).collect();
        let batch_bytes = BATCH.max(BATCH_OF_A_THREAD * base.core.run(rayon::current_num_threads));
        let mut batch = Vec::new();
        let mut size = 0;
        let mut ready: Vec<NewFile> = Vec::new();
        loop {
            let next = proposal.changes.next().transpose()?;
            let done = next.is_none();
            if let Some((at, new)) = next {
                let inside = at.iter().zip(&old_grid).all(|(i, n)| i < n);
                let before = inside.then(|| base.core.numbering.number(&at));
                size += new.len();
                batch.push((numbering.number(&at), before, new));
            }
            if size >= batch_bytes || done {
                self.while_written(&ready, || {
                    columns.iter_mut().try_for_each(|writing| writing.add(&batch))
                })?;
                ready.clear();
                for (column, writing) in columns.iter_mut().enumerate() {
                    ready.extend(self.superchunks(column, writing, done)?);
                }
                made.extend(ready.iter().map(|file| file.dir.join(&file.name)));
                batch.clear();
                size = 0;
            }
            if done {
                break;
            }
        }
        self.write_files(&ready)?;
        for writing in columns.iter().filter(|writing| writing.wrote) {
            self.sync_dir(&self.files.column_dir(&writing.content.column))?;
        }
        Ok(())
    }

    /// Does this while files are written: the disk is waited for where others have work.
    fn while_written(&self, files: &[NewFile], work: impl FnOnce() -> Result<()>) -> Result<()> {
        if files.is_empty() {
            return work();
        }
        std::thread::scope(|scope| {
            let written = scope.spawn(|| self.write_files(files));
            let done = work();
            let written = written.join().unwrap_or_else(|e| std::panic::resume_unwind(e));
            written.and(done)
        })
    }

    pub(crate) fn write_files(&self, files: &[NewFile]) -> Result<()> {
        files.iter().try_for_each(|file| {
            let parts: Vec<&[u8]> = file.parts.iter().map(|part| &part[..]).collect();
            self.write_file(&file.dir, &file.name, &parts)
        })
    }

    /// The superchunks that are full, and at the end the one that is not.
    fn superchunks(
        &mut self,
        column: usize,
        writing: &mut Writing<'_>,
        all: bool,
    ) -> Result<Vec<NewFile>> {
        let mut files = Vec::new();
        let pending = &mut writing.pending;
        while pending.len() >= writing.superchunk || (all && !pending.is_empty()) {
            let count = pending.len().min(writing.superchunk);
            let chunks = pending.drain(..count).collect();
            files.push(self.superchunk(column, &writing.content, chunks)?.1);
            writing.wrote = true;
        }
        writing.next = self.next_superchunk[column];
        Ok(files)
    }

    /// A superchunk of these chunks, each with what follows it, and its number.
    pub(crate) fn superchunk(
        &mut self,
        column: usize,
        content: &Content,
        chunks: Vec<(u64, Vec<u8>)>,
    ) -> Result<(u32, NewFile)> {
        let dir = self.files.column_dir(&content.column);
        let number = u32::try_from(self.next_superchunk[column]);
        let number = number.map_err(|_| too_many_files(&dir))?;
        self.next_superchunk[column] += 1;
        let numbers: Vec<u64> = chunks.iter().map(|(number, _)| *number).collect();
        let tail = content.slot_len(0) as usize;
        let lens: Vec<usize> = chunks.iter().map(|(_, chunk)| chunk.len() - tail).collect();
        let mut parts = vec![content.head(&numbers, &lens)?];
        parts.extend(chunks.into_iter().map(|(_, chunk)| chunk));
        Ok((number, NewFile { dir, name: names::superchunk(number), parts }))
    }

    /// Writes the changes to a table as a segment, merged with those before as the format has it.
    fn write_table(
        &mut self,
        writing: &Writing<'_>,
        grid: &[u64],
        numbering: &Numbering,
        made: &mut Vec<PathBuf>,
    ) -> Result<Vec<(u64, u64)>> {
        let core = &writing.base.core;
        let mut segments = core.version.columns[writing.column].segments.clone();
        let table = core.table(writing.column)?;
        let new: Vec<Entry> = writing.entries.values().copied().collect();
        let entries = if *numbering != core.numbering {
            segments.clear();
            let renumbered = renumber(table.stored(), &core.numbering, grid, numbering);
            segment::merge(renumbered, new, true)
        } else if new.is_empty() {
            return Ok(segments);
        } else {
            let mut merged = new.clone();
            while let Some((_, older)) = segments.last() {
                if !segment::is_merged(*older, merged.len() as u64) {
                    break;
                }
                segments.pop();
                merged = table.merged(segments.len(), &new, segments.is_empty());
            }
            if segments.is_empty() {
                merged.retain(|entry| entry.place.is_some());
            }
            merged
        };
        if entries.is_empty() {
            return Ok(segments);
        }
        let number = self.take_segment_number()?;
        made.push(self.files.segment_path(number));
        let dir = self.files.path(names::MANIFEST);
        self.write_file(&dir, &names::numbered(number), &[&segment::encode(&entries)])?;
        segments.push((number, entries.len() as u64));
        Ok(segments)
    }

    /// Writes chunks over those that were in their slots.
    fn overwrite(&self, writing: &Writing<'_>) -> Result<()> {
        let mut files: BTreeMap<u32, Vec<&(Place, Vec<u8>)>> = BTreeMap::new();
        for overwrite in &writing.overwrites {
            files.entry(overwrite.0.superchunk).or_default().push(overwrite);
        }
        for (number, chunks) in files {
            let column = &writing.content.column;
            let file = self.files.superchunk(writing.base.version(), column, number)?;
            let at = |e| Error::io(&file.path, e);
            let mut sink = self.files.storage.reopen(&file.path).map_err(at)?;
            for (place, chunk) in chunks {
                let slot = file.layout.slot(place.slot)?;
                let mut bytes = chunk.clone();
                bytes.resize((slot.end - slot.start) as usize, 0);
                sink.write_at(&bytes, slot.start).map_err(at)?;
            }
            if self.options.durable {
                sink.sync().map_err(at)?;
            }
        }
        Ok(())
    }
}

/// A chunk compressed, with what follows it in a file.
fn pack(
    params: &Params,
    content: &Content,
    bytes: &[u8],
    scratch: &mut Scratch,
    buffer: &mut Vec<u8>,
) -> std::result::Result<Vec<u8>, blosc::EncodeError> {
    // The compressor asks for as much room as the chunk has; what is kept is of the right size. A
    // chunk that is stored as it is has that anyway.
    let mut packed = Vec::new();
    if params.level == 0 {
        packed.reserve_exact(content.slot_len(bytes.len() + blosc::HEADER) as usize);
        scratch.compress(params, bytes, &mut packed)?;
    } else {
        buffer.clear();
        scratch.compress(params, bytes, buffer)?;
        packed.reserve_exact(content.slot_len(buffer.len()) as usize);
        packed.extend_from_slice(buffer);
    }
    let tail = content.tail(&packed);
    packed.extend_from_slice(&tail);
    Ok(packed)
}

/// The entries of a table under the numbers of another numbering, without those outside the grid.
fn renumber(stored: Vec<Entry>, old: &Numbering, grid: &[u64], new: &Numbering) -> Vec<Entry> {
    let renumber = |entry: Entry| {
        let at = old.coordinates(entry.chunk);
        let inside = at.iter().zip(grid).all(|(i, n)| i < n);
        inside.then(|| Entry { chunk: new.number(&at), ..entry })
    };
    let mut entries: Vec<Entry> = stored.into_iter().filter_map(renumber).collect();
    entries.sort_unstable_by_key(|entry| entry.chunk);
    entries
}

impl<'a> Writing<'a> {
    fn new(base: &'a ChunkedArray, column: usize, next: u64) -> Result<Writing<'a>> {
        let core = &base.core;
        let storage = &core.version.storage;
        let content = content_of(base, column)?;
        let unsupported = |what: String| Error::new(ErrorKind::Unsupported, what);
        let cname = &storage.cparams.cname;
        let codec: Codec = cname.parse().map_err(|_| unsupported(format!("codec {cname:?}")))?;
        let shuffle = match storage.cparams.shuffle {
            0 => Shuffle::None,
            1 => Shuffle::Byte,
            2 => Shuffle::Bit,
            other => return Err(unsupported(format!("shuffle {other}"))),
        };
        let (level, typesize) = (storage.cparams.clevel, usize::from(content.typesize));
        let blocksize = block_size(codec, level, typesize);
        let params = Params { codec, level, shuffle, typesize, blocksize };
        let roomy = !storage.versioned && storage.room > 0;
        let shared = match roomy {
            true => {
                let mut shared = HashMap::new();
                for place in core.table(column)?.stored().iter().filter_map(|entry| entry.place) {
                    *shared.entry((place.superchunk, place.slot)).or_insert(0) += 1;
                }
                Some(shared)
            }
            false => None,
        };
        Ok(Writing {
            base,
            column,
            params,
            content,
            superchunk: storage.superchunk as usize,
            reuse: !roomy,
            shared,
            own: HashMap::new(),
            entries: BTreeMap::new(),
            new: HashMap::default(),
            pending: Vec::new(),
            next,
            overwrites: Vec::new(),
            chunks: 0,
            cbytes: 0,
            wrote: false,
            workers: Mutex::default(),
        })
    }

    /// Takes changed chunks: those that are new become pending, all get their entries.
    fn add(&mut self, batch: &[(u64, Option<u64>, New<'_>)]) -> Result<()> {
        let base = self.base;
        let table = base.core.table(self.column)?;
        let seen = Mutex::default();
        let look_at = |(number, before, new): &(u64, Option<u64>, New<'_>)| {
            let before = before.and_then(|before| table.find(before));
            self.look_at(*number, before, new, table, &seen).transpose()
        };
        let changed: std::result::Result<Vec<Changed>, _> =
            base.core.run(|| batch.par_iter().filter_map(look_at).collect());
        let mut changed = changed.map_err(|e| Error::new(ErrorKind::Unsupported, e.to_string()))?;
        let packed = changed.iter_mut().filter_map(|one| Some((one.hash?, one.packed.take()?)));
        let mut packed: HashMap<Digest, Vec<u8>, RandomState> = packed.collect();
        // In the order of the changes, whichever thread was first: the files are always the same.
        for Changed { number, before, hash, known, .. } in changed {
            let Some(hash) = hash else {
                self.note(number, before, None);
                continue;
            };
            let found = match (self.new.get(&hash), known) {
                (Some(found), _) => *found,
                (None, Some(place)) => (place, self.len_of(&place)),
                (None, None) => {
                    let chunk = packed.remove(&hash).expect("who saw the hash first packed it");
                    self.place(number, before, hash, chunk)?
                }
            };
            self.new.insert(hash, found);
            self.note(number, before, Some(found));
        }
        Ok(())
    }

    /// What has become of a chunk; `None` if it is as it was. It is hashed and compressed in one go,
    /// while it is in the cache.
    fn look_at(
        &self,
        number: u64,
        before: Option<Place>,
        new: &New<'_>,
        table: &Table,
        seen: &Mutex<HashSet<Digest, RandomState>>,
    ) -> std::result::Result<Option<Changed>, blosc::EncodeError> {
        let workers = || self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = workers().pop();
        let mut worker = kept.unwrap_or_default();
        let Worker { scratch, chunk, field, packed } = &mut worker;
        let content = self.content(new, chunk, field).filter(|content| !self.is_fill(content));
        let hash = content.map(|content| *blake3::hash(content).as_bytes());
        let changed = match (content, hash) {
            (Some(content), Some(digest)) if !self.is_held(before, digest, content) => {
                let whole = |place: &Place| self.is_whole(place, content);
                // What an earlier batch has found a place for is not looked for again.
                let placed = self.new.contains_key(&digest);
                let search = self.reuse && !placed;
                let known = search.then(|| table.with_hash(&digest, whole)).flatten();
                let first = known.is_none()
                    && !placed
                    && seen.lock().unwrap_or_else(PoisonError::into_inner).insert(digest);
                let pack = || pack(&self.params, &self.content, content, scratch, packed);
                let packed = first.then(pack).transpose()?;
                Some(Changed { number, before, hash, known, packed })
            }
            (None, _) if before.is_some() => {
                Some(Changed { number, before, hash, known: None, packed: None })
            }
            _ => None,
        };
        workers().push(worker);
        Ok(changed)
    }

    /// Whether a chunk is stored where it was as it is now, and can be read there: one that was
    /// damaged since is written anew.
    fn is_held(&self, before: Option<Place>, digest: Digest, content: &[u8]) -> bool {
        before.is_some_and(|place| place.hash == digest && self.is_whole(&place, content))
    }

    /// Whether this content can be read from where it is said to be stored.
    fn is_whole(&self, place: &Place, content: &[u8]) -> bool {
        let (files, version) = (&self.base.core.files, self.base.version());
        let file = files.superchunk(version, &self.content.column, place.superchunk);
        file.is_ok_and(|file| file.holds(place, content))
    }

    /// The column's part of a chunk; `None` is fill.
    fn content<'b>(
        &self,
        new: &'b New<'_>,
        chunk: &'b mut Vec<u8>,
        field: &'b mut Vec<u8>,
    ) -> Option<&'b [u8]> {
        let bytes = match new {
            New::Fill => return None,
            New::Chunk(bytes) => bytes,
            New::Cut(cut, cell) => cut.chunk(*cell, chunk),
        };
        let leaf = &self.base.core.columns[self.column].leaf;
        let item = self.base.core.dtype.item_size();
        if leaf.size == item {
            return Some(bytes);
        }
        field.resize(bytes.len() / item * leaf.size, 0);
        columns::take_out(bytes, item, leaf.offset, leaf.size, field);
        Some(field)
    }

    fn is_fill(&self, content: &[u8]) -> bool {
        let fill = &self.base.core.columns[self.column].fill;
        content.chunks_exact(fill.len()).all(|element| element == &fill[..])
    }

    /// Finds a place for a chunk: its own slot, if that may be written over, or a new one.
    fn place(
        &mut self,
        number: u64,
        before: Option<Place>,
        hash: Digest,
        chunk: Vec<u8>,
    ) -> Result<(Place, u64)> {
        let len = chunk.len() as u64;
        if let (Some(before), Some(shared)) = (before, &self.shared) {
            let alone = shared.get(&(before.superchunk, before.slot)) == Some(&1);
            let (slot_len, needed) = (self.len_of(&before), len - u64::from(self.content.room));
            if alone && needed <= slot_len && self.is_own(before.superchunk) {
                let place = Place { hash, ..before };
                self.overwrites.push((place, chunk));
                return Ok((place, slot_len));
            }
        }
        let slot = self.pending.len() % self.superchunk;
        let ahead = (self.pending.len() / self.superchunk) as u64;
        let superchunk = u32::try_from(self.next.saturating_add(ahead))
            .map_err(|_| too_many_files(&self.base.core.files.column_dir(&self.content.column)))?;
        self.pending.push((number, chunk));
        Ok((Place { superchunk, slot: slot as u32, hash }, len))
    }

    /// Whether a superchunk of the base is a file that may be written over: it is no link, and has no
    /// other name, as a copy of the array by hard links would give it.
    fn is_own(&mut self, number: u32) -> bool {
        let files = &self.base.core.files;
        let path = files.superchunk_path(&self.content.column, number);
        *self.own.entry(number).or_insert_with(|| {
            let found = files.storage.lstat(&path).ok().flatten();
            found.is_some_and(|stat| stat.is_file() && stat.links <= 1)
        })
    }

    /// Notes where a chunk is now.
    fn note(&mut self, number: u64, before: Option<Place>, now: Option<(Place, u64)>) {
        if let Some(place) = before {
            self.chunks -= 1;
            self.cbytes -= self.len_of(&place) as i64;
        }
        if let Some((_, len)) = now {
            self.chunks += 1;
            self.cbytes += len as i64;
        }
        let place = now.map(|(place, _)| place);
        self.entries.insert(number, Entry { chunk: number, place });
    }

    /// What a chunk of the base takes; 0 where that cannot be found out, as of a damaged file: the
    /// sum is for people, and a commit is a way to replace what is damaged.
    fn len_of(&self, place: &Place) -> u64 {
        let (files, version) = (&self.base.core.files, self.base.version());
        let file = files.superchunk(version, &self.content.column, place.superchunk);
        file.ok().and_then(|file| file.slot_len(place.slot)).unwrap_or(0)
    }

    /// Chunks that the new grid does not have become fill, lest they come back when it grows.
    fn cut(&mut self, grid: &[u64], numbering: &Numbering) -> Result<()> {
        let core = &self.base.core;
        if core.grid.counts().iter().zip(grid).all(|(old, new)| *old as u64 <= *new) {
            return Ok(());
        }
        for entry in core.table(self.column)?.stored() {
            if !core.numbering.is_within(entry.chunk, grid) {
                self.note(entry.chunk, entry.place, None);
                if *numbering != core.numbering {
                    // The table is written anew, without it.
                    self.entries.remove(&entry.chunk);
                }
            }
        }
        Ok(())
    }
}

/// The size of blocks, where Blosc makes them larger than is good for who reads a row of a chunk: all
/// blocks that it touches are decompressed. (Where Blosc splits blocks, it multiplies the size that
/// it is told by that of the elements.) Above level 6 and with the slower codecs it is compression
/// that counts, and larger blocks compress a few percent better.
fn block_size(codec: Codec, level: u8, typesize: usize) -> Option<usize> {
    let fast = matches!(codec, Codec::BloscLz | Codec::Lz4) && (1..=6).contains(&level);
    (fast && typesize <= MOST_SPLITS).then(|| BLOCK / typesize)
}

/// What the superchunks of a column hold.
pub(crate) fn content_of(array: &ChunkedArray, column: usize) -> Result<Content> {
    let core = &array.core;
    let storage = &core.version.storage;
    let leaf = &core.columns[column].leaf;
    let checksum = Checksum::from_name(&storage.checksum).ok_or_else(|| {
        let message = format!("expected a checksum of bloscpack, found {:?}", storage.checksum);
        Error::new(ErrorKind::Unsupported, message)
    })?;
    Ok(Content {
        dtype: leaf.dtype.to_string(),
        chunk_shape: storage.chunkshape.clone(),
        column: leaf.path.clone(),
        // The version was checked: a chunk has fewer than 2^31 bytes.
        chunk_bytes: (core.chunk_len() * leaf.size) as u32,
        typesize: leaf.typesize,
        checksum: if storage.cparams.clevel == 0 { Checksum::None } else { checksum },
        room: storage.room,
    })
}
