//! The keys of one data file, in order.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::dataset::keys;

use super::open::OpenDataset;

/// They come from `.keys` where it is mapped or remote, and from the samples otherwise.
pub(crate) enum FileKeys<'a> {
    List(&'a OpenDataset, keys::Keys<'a>),
    Samples(&'a OpenDataset, Range<usize>),
    /// Opening `.keys` failed: reported once.
    Failed(Option<Error>),
}

impl<'a> FileKeys<'a> {
    pub(super) fn new(files: &'a OpenDataset) -> FileKeys<'a> {
        let list = match files.key_list() {
            Ok(Some(Cow::Borrowed(bytes))) => files.listed_keys(bytes),
            Ok(_) => return FileKeys::Samples(files, 0..files.len),
            Err(error) => Err(error),
        };
        match list {
            Ok(keys) => FileKeys::List(files, keys),
            Err(error) => FileKeys::Failed(Some(error)),
        }
    }
}

impl<'a> Iterator for FileKeys<'a> {
    type Item = Result<Cow<'a, str>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            FileKeys::List(files, keys) => {
                let key = keys.next()?;
                Some(key.map(Cow::Borrowed).map_err(|e| files.damaged_keys(e)))
            }
            FileKeys::Samples(files, range) => range.next().map(|index| files.key(index)),
            FileKeys::Failed(error) => error.take().map(Err),
        }
    }
}
