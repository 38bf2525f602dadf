use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Component, Path, PathBuf};

use kiste::ErrorKind;
use kiste::array::bcolz::Bcolz;
use kiste::array::{ArrayStore, Keep, PackedArray, Pieces, Rows};
use kiste::format::numpy::npy;
use kiste::storage::{LocalStorage, Storage};
use kiste::value::{DType, NdArray, Order};
use zip::ZipArchive;

use super::create::Layout;
use super::export::Format;
use super::target::{Explained, committed};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Output;

/// Make an array of a .npy, .npz or .blp file, or of a directory of bcolz
///
/// Elements are read and written piece by piece, so there may be more than memory holds; only those
/// in Fortran order are taken in one. NAME is there when all of it is. Of several arrays in an .npz
/// file each becomes NAME/MEMBER.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// File or directory to read
    src: PathBuf,
    /// Directory of the array to make
    name: PathBuf,
    /// Format, if the name of SRC does not say it
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    #[arg(help = "Format: npy, npz, blp or bcolz; if not said, the name of SRC says it")]
    from: Option<Format>,
    /// Only this array of an .npz file
    #[arg(long, value_name = "NAME")]
    member: Option<String>,
    #[command(flatten)]
    layout: Layout,
}

const EXAMPLES: &str = "\
Examples:
  kiste array import x.npy x
  kiste array import all.npz arrays/
  kiste array import all.npz x --member x --codec zstd --level 9
  kiste array import old.bcolz x --chunks 1000";

/// Bytes of a piece, which is a commit: fewer would be more files, more would be more memory.
const PIECE: usize = 64 << 20;

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let Some(format) = self.from.or_else(|| self.guess()) else {
            let message = format!("{}: neither .npy, .npz, .blp nor bcolz", self.src.display());
            return Err(Failure::trouble(message).hint("say what it is with --from"));
        };
        if self.member.is_some() && format != Format::Npz {
            return Err(Failure::trouble("--member is for .npz files"));
        }
        let _progress = output.progress(format!("importing {}", self.src.display()), None);
        match format {
            Format::Npy => {
                let source = LocalStorage::mapped().open(&self.src);
                let source = source.map_err(|error| Failure::io(&self.src, error))?;
                let bytes = source.read(0..source.len()).map_err(|e| Failure::io(&self.src, e))?;
                self.rows(&decode_npy(&self.src, &bytes)?, output)?;
            }
            Format::Blp => {
                self.rows(&PackedArray::open(&self.src).explained(&self.src)?, output)?
            }
            Format::Bcolz => self.rows(&Bcolz::open(&self.src).explained(&self.src)?, output)?,
            Format::Npz => self.npz(output)?,
        }
        Ok(Exit::Yes)
    }

    fn guess(&self) -> Option<Format> {
        let bcolz = ["__rootdirs__", "meta/storage"];
        let bcolz = bcolz.iter().any(|name| self.src.join(name).exists());
        Format::of(&self.src).or(bcolz.then_some(Format::Bcolz))
    }

    fn rows(&self, rows: &dyn Rows, output: &Output) -> Outcome<()> {
        let mut making = self.begin(&self.name, rows.dtype(), rows.shape())?;
        if rows.shape().is_empty() {
            let message = "expected an array with axes, found one without";
            return Err(Failure::trouble(format_args!("{}: {message}", self.src.display())));
        }
        for piece in Pieces::of(rows, PIECE).explained(&self.src)? {
            making.append(&piece.explained(&self.src)?)?;
        }
        making.finish(output)
    }

    fn npz(&self, output: &Output) -> Outcome<()> {
        let wrong =
            |e: zip::result::ZipError| Failure::no(format_args!("{}: {e}", self.src.display()));
        let file = File::open(&self.src).map_err(|error| Failure::io(&self.src, error))?;
        let mut archive = ZipArchive::new(BufReader::new(file)).map_err(wrong)?;
        let names: Vec<String> = archive.file_names().map(str::to_owned).collect();
        let short = |name: &str| name.strip_suffix(".npy").unwrap_or(name).to_owned();
        let wanted = |name: &&String| self.member.as_ref().is_none_or(|m| *m == short(name));
        let chosen: Vec<&String> = names.iter().filter(wanted).collect();
        if chosen.is_empty() {
            let message = match &self.member {
                Some(member) => format!("there is no array {member:?}"),
                None => "there are no arrays".to_owned(),
            };
            let names: Vec<String> = names.iter().map(|name| short(name)).collect();
            let failure = Failure::no(format_args!("{}: {message}", self.src.display()));
            return Err(failure.hint(format!("its arrays: {}", names.join(", "))));
        }
        let several = self.member.is_none() && chosen.len() > 1;
        for name in chosen {
            let to = match several {
                true => self.name.join(member_path(&self.src, &short(name))?),
                false => self.name.clone(),
            };
            let member = archive.by_name(name).map_err(wrong)?;
            let what = self.src.join(name);
            self.stream(&what, &to, member, output)?;
        }
        Ok(())
    }

    /// A .npy file that can only be read from its beginning to its end.
    fn stream(&self, what: &Path, to: &Path, mut from: impl Read, output: &Output) -> Outcome<()> {
        let header = read_header(what, &mut from)?;
        let shape = &header.shape;
        let item = header.dtype.item_size();
        let row = shape.iter().skip(1).try_fold(item, |n, len| n.checked_mul(*len));
        let total = row.and_then(|row| row.checked_mul(*shape.first().unwrap_or(&1)));
        let (Some(row), Some(total)) = (row, total) else {
            return Err(Failure::no(format_args!("{}: no array is so large", what.display())));
        };
        if header.dtype.has_objects() {
            let message = "the array holds Python objects as a pickle, which is never executed";
            return Err(Failure::trouble(format_args!("{}: {message}", what.display())));
        }
        let mut making = self.begin(to, &header.dtype, shape)?;
        if header.order == Order::F || shape.is_empty() {
            let bytes = read_some(what, &mut from, total)?;
            let array = NdArray::with_order(header.dtype, &shape[..], header.order, bytes)?;
            return match shape.is_empty() {
                true => Err(Failure::trouble(format_args!(
                    "{}: expected an array with axes, found one without",
                    what.display()
                ))),
                false => making.append(&array).and_then(|()| making.finish(output)),
            };
        }
        let step = (PIECE / row.max(1)).max(1);
        let mut left = shape[0];
        while left > 0 {
            let count = step.min(left);
            let bytes = read_some(what, &mut from, count * row)?;
            let shape = [&[count], &shape[1..]].concat();
            making.append(&NdArray::new(header.dtype.clone(), shape, bytes)?)?;
            left -= count;
        }
        // Reading the end compares the checksum of the archive.
        if from.read(&mut [0]).map_err(|error| unreadable(what, &error))? != 0 {
            return Err(Failure::no(format_args!(
                "{}: there is more than the array",
                what.display()
            )));
        }
        making.finish(output)
    }

    fn begin<'a>(&self, to: &'a Path, dtype: &DType, shape: &[usize]) -> Outcome<Making<'a>> {
        if to.symlink_metadata().is_ok() {
            let message = format!("{}: there is something of this name already", to.display());
            return Err(Failure::trouble(message));
        }
        let message = format!("import of {}", self.src.display());
        let mut name = to.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.new", std::process::id()));
        let beside = to.with_file_name(name);
        let mut making = Making { to, beside, store: None, message };
        let empty: Vec<usize> = [0].into_iter().chain(shape.iter().skip(1).copied()).collect();
        let rows = shape.first().map_or(0, |len| *len as u64);
        let options = self.layout.options().expected_len(rows);
        let store = options.create(&making.beside, dtype.clone(), &empty);
        making.store = Some(store.map_err(|error| match error.kind() {
            ErrorKind::Io => Failure::from(error),
            _ => Failure::trouble(format_args!("{}: {}", to.display(), error.message())),
        })?);
        Ok(making)
    }
}

/// An array that has its name when it is complete, and is gone if it is not.
struct Making<'a> {
    to: &'a Path,
    beside: PathBuf,
    store: Option<ArrayStore>,
    message: String,
}

impl Making<'_> {
    fn append(&mut self, rows: &NdArray<'_>) -> Outcome<()> {
        let Some(store) = &mut self.store else { return Ok(()) };
        store.append(rows, &self.message).explained(self.to)?;
        Ok(())
    }

    /// Leaves one version, of however many pieces it was made.
    fn finish(mut self, output: &Output) -> Outcome<()> {
        let Some(mut store) = self.store.take() else { return Ok(()) };
        store.gc(&Keep::Newest(1)).explained(self.to)?;
        let version = store.array().version_info();
        drop(store);
        fs::rename(&self.beside, self.to).map_err(|error| Failure::io(self.to, error))?;
        let parent = self.to.parent().filter(|dir| !dir.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let synced = LocalStorage::mapped().sync_dir(parent);
        synced.map_err(|error| Failure::io(parent, error))?;
        committed(output, self.to, &version);
        Ok(())
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.store = None;
        // Gone already if all went well; else the error that is told is another one.
        let _ = fs::remove_dir_all(&self.beside);
    }
}

/// Where an array of an archive goes: never out of the directory that was named.
fn member_path<'a>(src: &Path, name: &'a str) -> Outcome<&'a Path> {
    let path = Path::new(name);
    let mut parts = path.components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Ok(path),
        _ => {
            let message = format!("{}: {name:?} is no name for a directory", src.display());
            Err(Failure::trouble(message).hint("take it alone, with --member"))
        }
    }
}

/// A whole file, or standard input.
pub(super) fn read_all(path: &Path) -> Outcome<Vec<u8>> {
    let bytes = match path == Path::new("-") {
        true => {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        }
        false => fs::read(path),
    };
    bytes.map_err(|error| Failure::io(path, error))
}

/// The array of a .npy file.
pub(super) fn decode_npy<'a>(path: &Path, bytes: &'a [u8]) -> Outcome<NdArray<'a>> {
    npy::decode(bytes).map_err(|error| Failure::no(format_args!("{}: {error}", path.display())))
}

fn read_header(what: &Path, from: &mut impl Read) -> Outcome<npy::Header> {
    // Version 1 has its length in two bytes, all others in four.
    let mut bytes = read_some(what, from, 10)?;
    if bytes[6] > 1 {
        bytes.extend(read_some(what, from, 2)?);
    }
    let len = match bytes[8..] {
        [a, b] => usize::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
        _ => 0,
    };
    if bytes.starts_with(npy::MAGIC) {
        bytes.extend(read_some(what, from, len)?);
    }
    let header = npy::decode_header(&bytes);
    let header = header.map_err(|e| Failure::no(format_args!("{}: {e}", what.display())))?;
    Ok(header.0)
}

/// So many bytes, for which memory is taken as they come.
fn read_some(what: &Path, from: &mut impl Read, len: usize) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = from.take(len as u64).read_to_end(&mut bytes);
    match read.map_err(|error| unreadable(what, &error))? {
        found if found == len => Ok(bytes),
        found => Err(Failure::no(format_args!(
            "{}: expected {len} bytes, found {found}",
            what.display()
        ))),
    }
}

fn unreadable(what: &Path, error: &std::io::Error) -> Failure {
    Failure::no(format_args!("{}: {error}", what.display()))
}
