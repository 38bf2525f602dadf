//! From a proposal to a version: chunks are hashed, compared, compressed and written, then tables.
//! The order, and why a crash costs nothing, is in the FORMAT of
//! [`format::chunked`](crate::format::chunked). The one exception is in `in_place`.

use std::path::PathBuf;

use crate::array::chunked::at::now_after;
use crate::array::chunked::version::OpenVersion;
use crate::array::chunked::write::column::{Change, ColumnWriter};
use crate::array::chunked::write::directory::{Directory, NewFile};
use crate::array::chunked::write::numbers::Numbers;
use crate::array::chunked::write::proposal::{Changes, Proposal};
use crate::array::chunked::write::renumbering::Renumbering;
use crate::array::chunked::write::table::write_table;
use crate::error::{Error, ErrorKind, Result};
use crate::format::chunked::{Version, names, parse_time};

/// Bytes of changes that are hashed and compressed at a time, while the files of the batch before are
/// written; more where there are many threads.
const BATCH: usize = 32 << 20;
const BATCH_PER_THREAD: usize = 4 << 20;

/// Writes everything that a version needs but its own file, and returns the version. `made` gets the
/// files that no version needs if this fails.
///
/// The caller holds the lock, has seen that the newest version is still this, and publishes.
pub(super) fn write_version(
    directory: &Directory,
    numbers: &mut Numbers,
    newest: &Version,
    proposal: Proposal<'_>,
    made: &mut Vec<PathBuf>,
) -> Result<Version> {
    let Proposal { base, message, shape, attributes, changes } = proposal;
    if newest.version >= names::MAX_NUMBER {
        let message = "more versions than there are numbers";
        let dir = directory.files.path(names::VERSIONS);
        return Err(Error::new(ErrorKind::Limit, message).at(dir));
    }
    let shape: Vec<u64> = shape.iter().map(|n| *n as u64).collect();
    let renumbering = Renumbering::of(base, &shape)?;
    match changes.is_some() || !renumbering.is_same() || renumbering.shrinks() {
        true => directory.expect_own_dirs(base)?,
        // Only the version's file is written.
        false => directory.expect_own_meta()?,
    }
    let mut version = base.version.clone();
    version.parent = base.version.version;
    version.version = newest.version + 1;
    // A clock that was set back must not make times of versions go back: they are searched.
    version.time = now_after(parse_time(&newest.time).unwrap_or(0));
    version.message = message.to_owned();
    version.attributes = attributes;
    version.shape = shape;
    version.extents = renumbering.extents();
    let both = !renumbering.is_same() && renumbering.shrinks();
    version.renumbered = both.then_some(version.version);

    let mut columns = (0..base.columns.len())
        .map(|column| ColumnWriter::new(base, column, numbers.next_superchunk(column)))
        .collect::<Result<Vec<_>>>()?;
    if let Some(changes) = changes {
        write_chunks(directory, numbers, base, changes, &renumbering, &mut columns, made)?;
    }
    for (column, noted) in columns.iter_mut().zip(&mut version.columns) {
        column.drop_outside(&renumbering)?;
        noted.segments = write_table(directory, numbers, column, &renumbering, made)?;
        // Saturating, as a damaged version may record any numbers, and these are for people.
        noted.chunks = noted.chunks.saturating_add_signed(column.added_chunks());
        noted.cbytes = match column.added_bytes() {
            Some(added) => noted.cbytes.saturating_add_signed(added),
            None => column.bytes_of(&directory.files.table(base.version.version, &noted.segments)?),
        };
    }
    numbers.record(&mut version);
    // New files last before anything is overwritten, and before a version names them.
    let mut pairs = version.columns.iter().zip(&base.version.columns);
    if pairs.any(|(new, old)| new.segments != old.segments) {
        directory.sync_dir(&directory.files.path(names::MANIFEST))?;
    }
    columns.iter().try_for_each(|column| column.overwrite(directory.is_durable()))?;
    Ok(version)
}

fn write_chunks(
    directory: &Directory,
    numbers: &mut Numbers,
    base: &OpenVersion,
    mut changes: Changes<'_>,
    renumbering: &Renumbering<'_>,
    columns: &mut [ColumnWriter<'_>],
    made: &mut Vec<PathBuf>,
) -> Result<()> {
    let batch_bytes = BATCH.max(BATCH_PER_THREAD * base.run(rayon::current_num_threads));
    let mut batch: Vec<Change<'_>> = Vec::new();
    let mut size = 0;
    let mut ready: Vec<NewFile> = Vec::new();
    loop {
        let next = changes.next().transpose()?;
        let done = next.is_none();
        if let Some((at, new)) = next {
            size += new.len();
            batch.push((renumbering.new_number(&at), renumbering.old_number(&at), new));
        }
        if size >= batch_bytes || done {
            while_written(directory, &ready, made, || {
                columns.iter_mut().try_for_each(|column| column.add(&batch))
            })?;
            ready.clear();
            for column in columns.iter_mut() {
                ready.extend(column.full_superchunks(numbers, done)?);
            }
            batch.clear();
            size = 0;
        }
        if done {
            break;
        }
    }
    directory.write_files(&ready, made)?;
    for column in columns.iter().filter(|column| column.has_files()) {
        directory.sync_dir(&column.dir())?;
    }
    Ok(())
}

/// Runs `work` while files are written, so that the processors do not wait for the disk.
fn while_written(
    directory: &Directory,
    files: &[NewFile],
    made: &mut Vec<PathBuf>,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    if files.is_empty() {
        return work();
    }
    std::thread::scope(|scope| {
        let written = scope.spawn(|| directory.write_files(files, made));
        let done = work();
        let written = written.join().unwrap_or_else(|e| std::panic::resume_unwind(e));
        written.and(done)
    })
}
