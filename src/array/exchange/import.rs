//! [`ArrayImport`]: chunked arrays of files of other formats.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{ArrayFormat, NpyRows, RowsProgress};
use crate::array::bcolz::Bcolz;
use crate::array::chunked::{ArrayOptions, NewArray, VersionInfo};
use crate::array::on_disk::expect_on_disk;
use crate::array::packed::PackedArray;
use crate::array::rows::Rows;
use crate::error::{Error, ErrorKind, Result};

/// Makes chunked arrays of `.npy`, `.npz` and `.blp` files and of bcolz directories.
///
/// An array appears once all of it is written, with one version. Attributes, fill value and the expected
/// number of rows of a bcolz array are kept.
///
/// ```
/// use kiste::array::{ArrayExport, ArrayFormat, ArrayImport, ArrayOptions, ChunkedArray};
/// use kiste::value::NdArray;
///
/// # let dir = tempfile::tempdir()?;
/// # let (npy, path) = (dir.path().join("numbers.npy"), dir.path().join("numbers"));
/// let numbers = ndarray::arr1(&[1, 2, 3]);
/// ArrayExport::new(ArrayFormat::Npy).write(&NdArray::from_ndarray(&numbers), &npy)?;
///
/// let made = ArrayImport::new(ArrayOptions::default()).run(&npy, &path, |_, _| Ok(()))?;
/// assert_eq!(made[0].version.shape, [3]);
/// assert_eq!(ChunkedArray::open(&path)?.get::<i32>(1)?.sum(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ArrayImport {
    options: ArrayOptions,
    format: Option<ArrayFormat>,
    member: Option<String>,
}

/// An array that an [`ArrayImport`] made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Its directory.
    pub path: PathBuf,
    /// Its version.
    pub version: VersionInfo,
}

impl ArrayImport {
    /// Makes arrays with these options.
    pub fn new(options: ArrayOptions) -> ArrayImport {
        ArrayImport { options, format: None, member: None }
    }

    /// Reads this format. Default: what the name of the file says.
    pub fn format(mut self, format: ArrayFormat) -> ArrayImport {
        self.format = Some(format);
        self
    }

    /// Imports only this array of an `.npz` file.
    pub fn member(mut self, name: impl Into<String>) -> ArrayImport {
        self.member = Some(name.into());
        self
    }

    /// Imports a file or directory as a new directory. `-` is standard input, in the format `.npy`.
    ///
    /// If an `.npz` file has several arrays, each becomes a directory in `to`. If `to` exists, they are
    /// added one by one, or else all of them appear in one step.
    ///
    /// `progress` hears of the rows that are read, as in [`RowsProgress`].
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if there is such an array;
    /// [`Unsupported`](ErrorKind::Unsupported) if the format is not known; errors of reading,
    /// writing and `progress`.
    pub fn run(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        progress: impl Fn(u64, u64) -> Result<()> + Send + Sync,
    ) -> Result<Vec<Imported>> {
        let job = Job { import: self, from: from.as_ref(), progress: &progress };
        let to = to.as_ref();
        expect_on_disk(job.from)?;
        self.options.expect_place(to)?;
        let format = self.format.or_else(|| ArrayFormat::of_input(job.from)).ok_or_else(|| {
            let message = "expected a .npy, .npz or .blp file, or a bcolz directory";
            Error::new(ErrorKind::Unsupported, message).at(job.from)
        })?;
        match format {
            ArrayFormat::Npy if job.from == Path::new("-") => {
                let rows = NpyRows::from_reader("standard input", std::io::stdin())?;
                job.array(to, &rows, Extras::default())
            }
            ArrayFormat::Npy => job.array(to, &NpyRows::open(job.from)?, Extras::default()),
            ArrayFormat::Blp => {
                let packed = PackedArray::open(job.from).map_err(|error| error.at(job.from))?;
                job.array(to, &packed, Extras::default())
            }
            ArrayFormat::Bcolz => {
                let bcolz = Bcolz::open(job.from).map_err(|error| error.at(job.from))?;
                job.array(to, &bcolz, Extras::of(&bcolz))
            }
            ArrayFormat::Npz => job.npz(to),
        }
    }
}

/// Hears of the rows that are read, and how many there are.
type Hear<'a> = &'a (dyn Fn(u64, u64) -> Result<()> + Send + Sync);

struct Job<'a> {
    import: &'a ArrayImport,
    from: &'a Path,
    progress: Hear<'a>,
}

impl Job<'_> {
    /// Makes an array of these rows, under a temporary name until it is complete.
    fn array(&self, to: &Path, rows: &dyn Rows, extras: Extras) -> Result<Vec<Imported>> {
        let new = NewArray::create(&self.import.options, to)?;
        let version = self.make(new.path(), rows, extras).map_err(|error| new.shown(error))?;
        new.publish()?;
        Ok(vec![Imported { path: to.to_path_buf(), version }])
    }

    /// Makes an array in this directory.
    fn make(&self, at: &Path, rows: &dyn Rows, extras: Extras) -> Result<VersionInfo> {
        let rows = RowsProgress::new(rows, self.progress);
        let message = format!("import of {}", self.from.display());
        let mut options = self.import.options.clone();
        if let Some(fill) = extras.fill {
            options = options.fill_bytes(fill);
        }
        if let (None, Some(rows)) = (options.expected_len, extras.expected_len) {
            options = options.expected_len(rows);
        }
        let store = options.create_from(at, &rows, extras.attributes, &message)?;
        Ok(store.array().version_info())
    }

    #[cfg(feature = "zip")]
    fn npz(&self, to: &Path) -> Result<Vec<Imported>> {
        use crate::error::Remedy;
        use zip::ZipArchive;

        let wrong = |error: zip::result::ZipError| {
            Error::new(ErrorKind::Damaged, error.to_string()).at(self.from)
        };
        let file = std::fs::File::open(self.from).map_err(|error| Error::io(self.from, error))?;
        let mut archive = ZipArchive::new(std::io::BufReader::new(file)).map_err(wrong)?;
        let names: Vec<String> = archive.file_names().map(str::to_owned).collect();
        let short = |name: &str| name.strip_suffix(".npy").unwrap_or(name).to_owned();
        let member = self.import.member.as_ref();
        let wanted = |name: &&String| member.is_none_or(|member| *member == short(name));
        let chosen: Vec<&String> = names.iter().filter(wanted).collect();
        if chosen.is_empty() {
            let message = match member {
                Some(member) => format!("there is no array {member:?}"),
                None => "there are no arrays".to_owned(),
            };
            let names = names.iter().map(|name| short(name)).collect();
            let error = Error::new(ErrorKind::NotFound, message).at(self.from);
            return Err(error.with_remedy(Remedy::NameArray(names)));
        }
        let several = member.is_none() && chosen.len() > 1;
        let is_new = to.symlink_metadata().is_err();
        // A directory that is there may hold arrays of others, so only a new one can appear in one step.
        let together =
            (several && is_new).then(|| NewArray::create(&self.import.options, to)).transpose()?;
        let mut made = Vec::new();
        for name in chosen {
            let member = short(name);
            let path = match several {
                true => to.join(member_dir(self.from, &member)?),
                false => to.to_path_buf(),
            };
            let rows = archive.by_name(name).map_err(wrong)?;
            let rows = NpyRows::from_reader(self.from.join(name), rows)?;
            match &together {
                None => made.extend(self.array(&path, &rows, Extras::default())?),
                Some(dir) => {
                    let version = self.make(&dir.path().join(member), &rows, Extras::default());
                    let version = version.map_err(|error| dir.shown(error))?;
                    made.push(Imported { path, version });
                }
            }
        }
        together.map_or(Ok(()), NewArray::publish)?;
        Ok(made)
    }

    #[cfg(not(feature = "zip"))]
    fn npz(&self, _to: &Path) -> Result<Vec<Imported>> {
        Err(super::no_npz(self.from))
    }
}

/// The parts of an array besides its elements.
#[derive(Default)]
struct Extras {
    attributes: Map<String, Value>,
    fill: Option<Vec<u8>>,
    /// How many rows were expected.
    expected_len: Option<u64>,
}

impl Extras {
    /// The extras of a bcolz directory. The columns of a table have a fill value each, and
    /// attributes of their own, which have no counterpart here; if they expect different numbers of
    /// rows, the largest counts.
    fn of(bcolz: &Bcolz) -> Extras {
        let attributes = bcolz.attrs().clone();
        let fill = match bcolz {
            Bcolz::Array(array) => array.fill(),
            Bcolz::Table(_) => None,
        };
        let fill = fill.filter(|fill| fill.len() == bcolz.dtype().item_size());
        Extras { attributes, fill, expected_len: bcolz.expected_len() }
    }
}

/// Where an array of an archive goes: never outside of the given directory.
#[cfg(feature = "zip")]
fn member_dir<'a>(from: &Path, name: &'a str) -> Result<&'a Path> {
    use std::path::Component;

    let path = Path::new(name);
    let mut parts = path.components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Ok(path),
        _ => {
            let message = format!("{name:?} is not a directory name");
            Err(Error::new(ErrorKind::Invalid, message).at(from))
        }
    }
}
