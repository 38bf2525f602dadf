//! Tables of Arrow: Parquet files and Arrow IPC, as pyarrow and Hugging Face `datasets` write them.
//!
//! For reading, `folder` finds files, `form` decides what the columns of a schema become, `lacks` what
//! fields do not carry of them, and `rows` makes samples of batches of rows. For writing, `kinds` finds the types of fields, `columns` collects the values
//! of one field, and `table` makes batches of them. [`ParquetReader`], [`ArrowIpcReader`] and their
//! writers connect these with files.
//!
//! Written files carry, in addition to the features of Hugging Face, a note in the metadata of the
//! schema, so that reading gives back the same samples: it tells NumPy numbers from plain ones, and
//! arrays of a shape from lists.
//!
//! The bytes are decoded by the Arrow crates, which trust some lengths that they should not. So
//! these are checked first (`limits`), and a panic is an error like any other.
//!
//! Absent on purpose: unions, runs, intervals and encrypted files, which are refused. Nothing is
//! ever fetched: an image that a row has only the path of is read if it is below the folder of the
//! table, and an error otherwise.

mod folder;
mod form;
mod lacks;
mod limits;
mod rows;
mod kinds;
mod columns;
mod table;
mod parquet_read;
mod parquet_write;
mod ipc_read;
mod ipc_write;

use std::path::Path;

use arrow_schema::ArrowError;

pub use ipc_read::ArrowIpcReader;
pub use ipc_write::ArrowIpcWriter;
pub use parquet_read::ParquetReader;
pub use parquet_write::ParquetWriter;

use crate::error::{Error, ErrorKind, Result};
use crate::guard;

/// The key of the note about the forms of columns, in the metadata of a schema.
const NOTE: &str = "kiste";
/// Where Hugging Face `datasets` keeps its features.
const FEATURES: &str = "huggingface";

/// Runs a third-party decoder on untrusted bytes. What it worked on must not be used again if it
/// panics.
fn guarded<T, E: Into<Flaw>>(path: &Path, run: impl FnOnce() -> Result<T, E>) -> Result<T> {
    match guard::guarded(run) {
        Some(result) => result.map_err(|flaw| flaw.into().at(path)),
        None => {
            let message = "its parts contradict each other, and the decoder gave up";
            Err(Error::new(ErrorKind::Damaged, message).at(path))
        }
    }
}

/// The error of a decoder.
struct Flaw {
    unsupported: bool,
    message: String,
}

impl Flaw {
    fn at(self, path: &Path) -> Error {
        let kind = if self.unsupported { ErrorKind::Unsupported } else { ErrorKind::Damaged };
        Error::new(kind, self.message).at(path)
    }
}

impl From<ArrowError> for Flaw {
    fn from(error: ArrowError) -> Flaw {
        let unsupported = matches!(error, ArrowError::NotYetImplemented(_));
        Flaw { unsupported, message: error.to_string() }
    }
}

impl From<::parquet::errors::ParquetError> for Flaw {
    fn from(error: ::parquet::errors::ParquetError) -> Flaw {
        let unsupported = matches!(error, ::parquet::errors::ParquetError::NYI(_));
        Flaw { unsupported, message: error.to_string() }
    }
}
