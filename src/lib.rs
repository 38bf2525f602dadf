//! Keyed ML sample datasets, fully compatible with the *datadings* format.

pub mod error;
pub mod storage;
pub mod format;

pub use error::{Error, ErrorKind, Result};
pub use rmpv::Value;
