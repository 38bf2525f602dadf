//! The decoders of the Arrow crates, whose panics are errors.

use arrow_schema::ArrowError;

use crate::error::{Error, ErrorKind, Result};
use crate::guard;

/// Runs a third-party decoder on untrusted bytes. What it worked on must not be used again if it
/// panics.
pub(crate) fn guarded<T, E: Into<Flaw>>(run: impl FnOnce() -> Result<T, E>) -> Result<T> {
    match guard::guarded(run) {
        Some(result) => result.map_err(|flaw| flaw.into().into_error()),
        None => {
            let message = "its parts contradict each other, and the decoder gave up";
            Err(Error::new(ErrorKind::Damaged, message))
        }
    }
}

/// The error of a decoder.
pub(crate) struct Flaw {
    unsupported: bool,
    message: String,
}

impl Flaw {
    fn into_error(self) -> Error {
        let kind = if self.unsupported { ErrorKind::Unsupported } else { ErrorKind::Damaged };
        Error::new(kind, self.message)
    }
}

impl From<ArrowError> for Flaw {
    fn from(error: ArrowError) -> Flaw {
        let unsupported = matches!(error, ArrowError::NotYetImplemented(_));
        Flaw { unsupported, message: error.to_string() }
    }
}

#[cfg(feature = "parquet")]
impl From<::parquet::errors::ParquetError> for Flaw {
    fn from(error: ::parquet::errors::ParquetError) -> Flaw {
        let unsupported = matches!(error, ::parquet::errors::ParquetError::NYI(_));
        Flaw { unsupported, message: error.to_string() }
    }
}
