//! Tables of Arrow: Parquet files and Arrow IPC, as pyarrow and Hugging Face `datasets` write them.
//!
//! `form` says what the columns of a schema become, `rows` makes samples of a batch of them.
//! In the other direction `kinds` finds out what fields are, `table` makes batches of samples, and
//! `columns` the columns of these.
//! [`ParquetReader`], [`ArrowIpcReader`] and their writers join these with files.
//!
//! What is written carries, beside the features of Hugging Face, a note of its own in the metadata of
//! the schema, so that what is read again is what was there: whether a number was one of NumPy or of
//! msgpack, a list or an array, and of which shape.
//!
//! The bytes are decoded by the crates of Arrow, which trust some lengths that they should not.
//! So these are compared with limits first (`limits`), and what panics all the same is an error.
//!
//! Absent on purpose: unions, runs, intervals and encrypted files, which are refused. Nothing is
//! ever fetched: a row that only names the file of its image keeps that name.

mod form;
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

use crate::convert::guard;
use crate::error::{Error, ErrorKind, Result};

/// Where the note about the forms of columns is in the metadata of a schema.
const NOTE: &str = "kiste";
/// Where Hugging Face `datasets` keeps its features.
const FEATURES: &str = "huggingface";

/// Runs a decoder that is not ours on bytes that nobody vouches for.
///
/// What it was at work on must not be used again after a panic.
fn guarded<T, E: Into<Flaw>>(path: &Path, run: impl FnOnce() -> Result<T, E>) -> Result<T> {
    match guard::guarded(run) {
        Some(result) => result.map_err(|flaw| flaw.into().at(path)),
        None => {
            let message = "its parts contradict each other, and the decoder gave up";
            Err(Error::new(ErrorKind::Damaged, message).at(path))
        }
    }
}

/// What a decoder says of a file.
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
