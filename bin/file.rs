//! Files that are written whole or not at all.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::SystemTime;

use kiste::storage::{LocalStorage, Storage};

use crate::exit::{Failure, Outcome, quoted};

/// Writes a file beside, syncs it and gives it its name. An existing one is replaced only if
/// `force` is set.
pub(crate) fn write(path: &Path, bytes: &[u8], force: bool) -> Outcome<()> {
    write_with(path, force, |file| Ok(file.write_all(bytes)?))
}

/// The same, of what this writes.
pub(crate) fn write_with(
    path: &Path,
    force: bool,
    content: impl FnOnce(&mut Named) -> Outcome<()>,
) -> Outcome<()> {
    refuse_existing(path, force)?;
    let mut file = Named { new: NewFile::create(path)?, error: None };
    match content(&mut file) {
        Ok(()) => file.new.publish(),
        Err(failure) => Err(file.error.map_or(failure, |error| Failure::io(path, error))),
    }
}

/// Fails if there is a file that nobody said to replace.
pub(crate) fn refuse_existing(path: &Path, force: bool) -> Outcome<()> {
    if !force && path.symlink_metadata().is_ok() {
        let message = format!("{}: the file exists already", path.display());
        return Err(Failure::trouble(message).hint("--force replaces it"));
    }
    Ok(())
}

/// A file that remembers which of its errors came first: on the way up it is not told from one of
/// standard output.
pub(crate) struct Named {
    new: NewFile,
    error: Option<io::Error>,
}

impl Named {
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let again = io::Error::new(error.kind(), "the file cannot be written");
            if error.kind() != io::ErrorKind::Interrupted {
                self.error.get_or_insert(error);
            }
            again
        })
    }
}

impl Write for Named {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.new.file.write(bytes);
        self.note(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.new.file.flush();
        self.note(result)
    }
}

impl Seek for Named {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let result = self.new.file.seek(to);
        self.note(result)
    }
}

/// A file that gets its name when all of it is there; dropped before, nothing is left of it.
pub(crate) struct NewFile {
    path: PathBuf,
    beside: PathBuf,
    file: File,
}

impl NewFile {
    pub(crate) fn create(path: &Path) -> Outcome<NewFile> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        // A name that no other process takes, in another container or on another machine either.
        let random = RandomState::new().hash_one(std::process::id());
        name.push(format!(".{random:016x}.new"));
        let (path, beside) = (path.to_path_buf(), path.with_file_name(name));
        match File::create_new(&beside) {
            Ok(file) => Ok(NewFile { path, beside, file }),
            Err(error) => Err(Failure::io(&path, error)),
        }
    }

    /// Syncs it and gives it its name, whatever had it before.
    pub(crate) fn publish(self) -> Outcome<()> {
        let synced = self.file.sync_all().and_then(|()| fs::rename(&self.beside, &self.path));
        let parent = self.path.parent().unwrap_or(Path::new(""));
        synced.map_err(|error| Failure::io(&self.path, error))?;
        Ok(LocalStorage::positioned().sync_dir(parent)?)
    }
}

/// Errors have the file's name with them.
impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => io::Error::other(kiste::Error::io(&self.path, error)),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // Published, it is gone; what cannot be written can perhaps not be removed either.
        let _ = fs::remove_file(&self.beside);
    }
}

/// A directory for temporary files that nobody else can have, removed at the end.
pub(crate) struct ScratchDir(PathBuf);

impl ScratchDir {
    pub(crate) fn create() -> Outcome<ScratchDir> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("kiste-{}-{}", std::process::id(), since.as_nanos());
        let path = std::env::temp_dir().join(name);
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        // One that exists is an error, and so never that of somebody else.
        match builder.create(&path) {
            Ok(()) => Ok(ScratchDir(path)),
            Err(error) => Err(Failure::io(&path, error)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Opens a file for reading that is a regular one.
pub(crate) fn open_regular(path: &Path) -> Outcome<File> {
    kiste::convert::open_regular(path).map_err(|error| Failure::io(path, error))
}

/// What is in a regular file.
pub(crate) fn read(path: &Path) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = open_regular(path)?.read_to_end(&mut bytes);
    read.map_err(|error| Failure::io(path, error))?;
    Ok(bytes)
}

/// The text in a regular file.
pub(crate) fn read_to_string(path: &Path) -> Outcome<String> {
    io::read_to_string(open_regular(path)?).map_err(|error| Failure::io(path, error))
}

/// Fails if one of these is neither a file nor a folder. What is read by its name may be read more
/// than once, and in parts, which a pipe can only once and from its start; and who opens one waits
/// for its other end.
pub(crate) fn check_sources(paths: &[PathBuf]) -> Outcome<()> {
    let special =
        |path: &&PathBuf| path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir());
    match paths.iter().find(special) {
        Some(path) => open_regular(path)
            .map(drop)
            .map_err(|failure| failure.hint("- reads JSON lines from standard input")),
        None => Ok(()),
    }
}

/// Whether two names are those of one file.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Says what a user probably meant who names something that is no data file.
pub(crate) fn check_is_data(path: &Path) -> Outcome<()> {
    if path.is_dir() {
        return Err(Failure::trouble(format!(
            "{}: expected a data file, found a directory",
            path.display()
        )));
    }
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        open_regular(path)?;
    }
    let data = path.with_extension("");
    if kiste::format::dataset::SideFile::of(path).is_some() && data.is_file() {
        let message = format!("{}: expected a data file, found a side file", path.display());
        return Err(Failure::trouble(message).hint(format!("the data file is {}", data.display())));
    }
    Ok(())
}

/// As [`check_is_data`], for those who can do nothing with a write that was never finished.
pub(crate) fn check_is_finished(path: &Path) -> Outcome<()> {
    check_is_data(path)?;
    let mut partial = path.as_os_str().to_os_string();
    partial.push(".partial");
    if !path.exists() && Path::new(&partial).is_dir() {
        let message = format!("{}: this dataset was never finished", path.display());
        return Err(Failure::trouble(message).hint(format!("try: kiste repair {}", quoted(path))));
    }
    Ok(())
}

/// Set once, before any command runs.
static BY_CALLS: AtomicBool = AtomicBool::new(false);

/// Says whether datasets are read by calls, and not through memory maps.
pub(crate) fn read_by_calls(yes: bool) {
    BY_CALLS.store(yes, Relaxed);
}

/// How datasets are read.
pub(crate) fn storage() -> Arc<dyn Storage> {
    Arc::new(match BY_CALLS.load(Relaxed) {
        true => LocalStorage::positioned(),
        false => LocalStorage::mapped(),
    })
}

/// Opens a dataset.
pub(crate) fn open(path: &Path) -> Outcome<kiste::DatasetReader> {
    check_is_finished(path)?;
    Ok(kiste::DatasetReader::options().storage(storage()).open(path)?)
}
