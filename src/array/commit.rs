//! From changes to a version: chunks are hashed, compared, compressed and written, then tables, then
//! the version. The order, and why a crash costs nothing, is in the FORMAT of
//! [`format::chunked`](crate::format::chunked).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::array::chunked::ChunkedArray;
use crate::array::columns;
use crate::array::info::VersionInfo;
use crate::array::store::{ArrayStore, now_after, too_many_files};
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
}

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
    /// The changes to the table, by chunk number.
    entries: BTreeMap<u64, Entry>,
    /// What was added, by hash, and how many bytes it takes.
    new: HashMap<[u8; HASH], (Place, u64)>,
    /// Chunks of the superchunk that is not full yet: each with what follows it in the file.
    pending: Vec<(u64, Vec<u8>)>,
    next: u32,
    /// Slots to be written over: the very last thing before the version.
    overwrites: Vec<(Place, Vec<u8>)>,
    chunks: i64,
    cbytes: i64,
    wrote: bool,
}

/// A file that is to be written.
pub(crate) struct NewFile {
    pub(crate) dir: PathBuf,
    pub(crate) name: String,
    pub(crate) parts: Vec<Vec<u8>>,
}

/// A changed chunk of one column: its number now, its number in the base, and what it is.
struct Changed<'b> {
    number: u64,
    before: Option<u64>,
    /// `None` is fill.
    hashed: Option<([u8; HASH], Cow<'b, [u8]>)>,
}

impl ArrayStore {
    /// Commits changes. The lock is held, and the caller has seen that nothing was committed since.
    pub(crate) fn propose(&mut self, mut proposal: Proposal<'_>) -> Result<VersionInfo> {
        let mut made = Vec::new();
        let result = self.write_and_publish(&mut proposal, &mut made);
        if result.is_err() {
            // What no version names is in nobody's way; but it takes room.
            for path in made {
                let _ = self.files.storage.remove(&path);
            }
            self.take_what_is_there();
        }
        result
    }

    /// After an error: whether the version was committed is for the directory to say.
    pub(crate) fn take_what_is_there(&mut self) {
        if let Ok(newest) = self.newest.at(crate::array::chunked::At::Newest) {
            self.newest = newest;
        }
    }

    fn write_and_publish(
        &mut self,
        proposal: &mut Proposal<'_>,
        made: &mut Vec<PathBuf>,
    ) -> Result<VersionInfo> {
        let base = proposal.base;
        let old = &base.core.version;
        let newest = &self.newest.core.version;
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
            noted.next = u64::from(self.next_superchunk[column]);
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
            let _ = self.collect(&crate::array::gc::Keep::Newest(1), false);
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
                size += if let New::Chunk(bytes) = &new { bytes.len() } else { 0 };
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
        let number = self.next_superchunk[column];
        let dir = self.files.column_dir(&content.column);
        self.next_superchunk[column] = number.checked_add(1).ok_or_else(|| too_many_files(&dir))?;
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
        let number = self.next_segment;
        self.next_segment += 1;
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
    (scratch, buffer): &mut (Scratch, Vec<u8>),
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
    fn new(base: &'a ChunkedArray, column: usize, next: u32) -> Result<Writing<'a>> {
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
        let params = Params { codec, level, shuffle, typesize, blocksize: None };
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
            entries: BTreeMap::new(),
            new: HashMap::new(),
            pending: Vec::new(),
            next,
            overwrites: Vec::new(),
            chunks: 0,
            cbytes: 0,
            wrote: false,
        })
    }

    /// Takes changed chunks: those that are new become pending, all get their entries.
    fn add(&mut self, batch: &[(u64, Option<u64>, New<'_>)]) -> Result<()> {
        let base = self.base;
        let changed: Vec<Changed<'_>> = base.core.run(|| {
            batch
                .par_iter()
                .map(|(number, before, new)| self.look_at(*number, *before, new))
                .collect()
        });
        let before = changed.iter().map(|changed| self.before(changed.before));
        let before: Vec<Option<Place>> = before.collect::<Result<_>>()?;
        // What is as it was, and whole: a chunk that was damaged since is written anew.
        let same: Vec<bool> = base.core.run(|| {
            let pairs = changed.par_iter().zip(&before);
            pairs.map(|(changed, before)| self.is_held(changed, before.as_ref())).collect()
        });
        let mut fresh = Vec::new();
        for ((changed, before), same) in changed.into_iter().zip(before).zip(same) {
            match (&changed.hashed, before) {
                (None, None) => {}
                (None, Some(_)) => self.note(changed.number, before, None),
                _ if same => {}
                _ => fresh.push((changed, before)),
            }
        }
        let known = self.known(&fresh)?;
        let mut compress = Vec::new();
        let mut seen = HashSet::new();
        let mut later = Vec::new();
        for (changed, before) in fresh {
            let Some((hash, content)) = changed.hashed else { continue };
            if let Some(found) = self.new.get(&hash).or_else(|| known.get(&hash)) {
                self.note(changed.number, before, Some(*found));
            } else if !seen.insert(hash) {
                later.push((changed.number, before, hash));
            } else {
                compress.push((changed.number, before, hash, content));
            }
        }
        let (params, content_of) = (&self.params, &self.content);
        let compressed: Vec<_> = base
            .core
            .run(|| {
                compress
                    .into_par_iter()
                    .map_init(Default::default, |buffers, (number, before, hash, content)| {
                        let packed = pack(params, content_of, &content, buffers);
                        packed.map(|chunk| (number, before, hash, chunk))
                    })
                    .collect::<Result<_, _>>()
            })
            .map_err(|e| Error::new(ErrorKind::Unsupported, e.to_string()))?;
        for (number, before, hash, chunk) in compressed {
            let found = self.place(number, before, hash, chunk)?;
            self.new.insert(hash, found);
            self.note(number, before, Some(found));
        }
        for (number, before, hash) in later {
            let found = self.new.get(&hash).copied();
            self.note(number, before, found);
        }
        Ok(())
    }

    fn look_at<'b>(&self, number: u64, before: Option<u64>, new: &'b New<'_>) -> Changed<'b> {
        let New::Chunk(bytes) = new else { return Changed { number, before, hashed: None } };
        let leaf = &self.base.core.columns[self.column].leaf;
        let item = self.base.core.dtype.item_size();
        let content = if leaf.size == item {
            Cow::Borrowed(&**bytes)
        } else {
            let mut field = vec![0; bytes.len() / item * leaf.size];
            columns::take_out(bytes, item, leaf.offset, leaf.size, &mut field);
            Cow::Owned(field)
        };
        let fill = &self.base.core.columns[self.column].fill;
        let is_fill = content.chunks_exact(fill.len()).all(|element| element == &fill[..]);
        let hashed = (!is_fill).then(|| (*blake3::hash(&content).as_bytes(), content));
        Changed { number, before, hashed }
    }

    fn before(&self, number: Option<u64>) -> Result<Option<Place>> {
        let Some(number) = number else { return Ok(None) };
        Ok(self.base.core.table(self.column)?.find(number))
    }

    /// Whether a chunk is stored in a place as it is now, and can be read there.
    fn is_held(&self, changed: &Changed<'_>, place: Option<&Place>) -> bool {
        let (Some((hash, content)), Some(place)) = (&changed.hashed, place) else { return false };
        if place.hash != *hash {
            return false;
        }
        let (files, version) = (&self.base.core.files, self.base.version());
        let file = files.superchunk(version, &self.content.column, place.superchunk);
        file.is_ok_and(|file| file.holds(place, content))
    }

    /// The places of these chunks in the base, of those that are there and whole: also what newer
    /// entries have replaced, for its superchunks are there as long as its segment is.
    fn known(
        &self,
        fresh: &[(Changed<'_>, Option<Place>)],
    ) -> Result<HashMap<[u8; HASH], (Place, u64)>> {
        if !self.reuse || fresh.is_empty() {
            return Ok(HashMap::new());
        }
        let hash_of = |changed: &Changed<'_>| changed.hashed.as_ref().map(|(hash, _)| *hash);
        let wanted = fresh.iter().filter_map(|(changed, _)| Some((hash_of(changed)?, changed)));
        let wanted: HashMap<[u8; HASH], &Changed<'_>> = wanted.collect();
        // Of a chunk that was damaged and written anew there are two.
        let mut places: HashMap<[u8; HASH], Vec<Place>> = HashMap::new();
        self.base.core.table(self.column)?.each_entry(|entry| {
            if let Some(place) = entry.place.filter(|place| wanted.contains_key(&place.hash)) {
                let places = places.entry(place.hash).or_default();
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        });
        let whole = |(hash, places): ([u8; HASH], Vec<Place>)| {
            let changed = wanted.get(&hash)?;
            let place = places.into_iter().find(|place| self.is_held(changed, Some(place)))?;
            Some((hash, (place, self.len_of(&place))))
        };
        Ok(self.base.core.run(|| places.into_par_iter().filter_map(whole).collect()))
    }

    /// Finds a place for a chunk: its own slot, if that may be written over, or a new one.
    fn place(
        &mut self,
        number: u64,
        before: Option<Place>,
        hash: [u8; HASH],
        chunk: Vec<u8>,
    ) -> Result<(Place, u64)> {
        let len = chunk.len() as u64;
        if let (Some(before), Some(shared)) = (before, &self.shared) {
            let alone = shared.get(&(before.superchunk, before.slot)) == Some(&1);
            let (slot_len, needed) = (self.len_of(&before), len - u64::from(self.content.room));
            if alone && needed <= slot_len {
                let place = Place { hash, ..before };
                self.overwrites.push((place, chunk));
                return Ok((place, slot_len));
            }
        }
        let slot = self.pending.len() % self.superchunk;
        let ahead = u32::try_from(self.pending.len() / self.superchunk).ok();
        let superchunk = ahead.and_then(|ahead| self.next.checked_add(ahead));
        let superchunk = superchunk.ok_or_else(|| {
            Error::new(ErrorKind::Limit, "more superchunks than there are numbers")
        })?;
        self.pending.push((number, chunk));
        Ok((Place { superchunk, slot: slot as u32, hash }, len))
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
