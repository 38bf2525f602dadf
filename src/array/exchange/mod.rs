//! Arrays exchanged with other programs: `.npy`, `.npz`, `.blp` and the directories of bcolz.
//!
//! [`ArrayImport`] makes chunked arrays of such files, [`ArrayExport`] writes any [`Rows`] as one.
//! Elements pass a few rows at a time, so they may be larger than memory.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::array::rows::Rows;
use crate::error::{Error, ErrorKind, Result};

mod export;
mod import;
mod npy;
mod progress;
#[cfg(feature = "zip")]
mod zip_sink;

pub use export::ArrayExport;
pub use import::{ArrayImport, Imported};
pub use npy::{NpyRows, read_npy_header, write_npy};
pub use progress::RowsProgress;
#[cfg(feature = "zip")]
pub(crate) use zip_sink::ZipSink;

/// A format in which arrays are exchanged.
///
/// ```
/// use kiste::array::ArrayFormat;
///
/// assert_eq!(ArrayFormat::of_path("weights.npz"), Some(ArrayFormat::Npz));
/// assert_eq!("blp".parse::<ArrayFormat>()?, ArrayFormat::Blp);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArrayFormat {
    /// One array of NumPy.
    Npy,
    /// Several arrays of NumPy, in a zip archive. Needs the feature `zip`.
    Npz,
    /// A container of bloscpack.
    Blp,
    /// A directory of bcolz.
    Bcolz,
}

impl ArrayFormat {
    /// All of them.
    pub const ALL: [ArrayFormat; 4] =
        [ArrayFormat::Npy, ArrayFormat::Npz, ArrayFormat::Blp, ArrayFormat::Bcolz];

    /// Its name, which is the ending of its files.
    pub fn name(self) -> &'static str {
        match self {
            ArrayFormat::Npy => "npy",
            ArrayFormat::Npz => "npz",
            ArrayFormat::Blp => "blp",
            ArrayFormat::Bcolz => "bcolz",
        }
    }

    /// The format that the name of a file implies.
    pub fn of_path(path: impl AsRef<Path>) -> Option<ArrayFormat> {
        path.as_ref().extension()?.to_str()?.parse().ok()
    }

    /// The format of an existing file or directory, by its name, or by the files in the directory.
    pub fn of_input(path: impl AsRef<Path>) -> Option<ArrayFormat> {
        let path = path.as_ref();
        let is_bcolz =
            || ["__rootdirs__", "meta/storage"].iter().any(|name| path.join(name).exists());
        ArrayFormat::of_path(path).or_else(|| is_bcolz().then_some(ArrayFormat::Bcolz))
    }
}

impl fmt::Display for ArrayFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ArrayFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<ArrayFormat> {
        let found = ArrayFormat::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| {
            let message = format!("expected npy, npz, blp or bcolz, found {name:?}");
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

/// Without the feature `zip` there is no `.npz`.
#[cfg(not(feature = "zip"))]
fn no_npz(path: &Path) -> Error {
    let error = Error::new(ErrorKind::Unsupported, "this build of kiste has no .npz");
    error.at(path).with_remedy(crate::error::Remedy::Feature("zip"))
}

/// Fails if there is something of this name.
fn refuse_existing(path: &Path, message: &str) -> Result<()> {
    match path.symlink_metadata() {
        Ok(_) => Err(Error::new(ErrorKind::AlreadyExists, message).at(path)),
        Err(_) => Ok(()),
    }
}

/// Calls `each` with all elements in C order, a few rows at a time.
fn each_piece(rows: &dyn Rows, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    if rows.shape().is_empty() {
        return each(rows.read_rows(0..1)?.bytes());
    }
    crate::array::Pieces::of(rows, PIECE)?.try_for_each(|piece| each(piece?.bytes()))
}

/// Bytes in memory at a time: enough chunks for all cores.
const PIECE: usize = 16 << 20;
