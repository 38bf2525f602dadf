//! WebDataset: samples as files of one name in [tar](super::tar) archives.
//!
//! | module | content |
//! | --- | --- |
//! | [`record`] | the files of a sample, and their fields |
//! | [`meaning`] | what the files were, as kiste notes it in archives that it writes |
//!
//! Absent on purpose: where samples begin in an archive, and shards of several archives.

pub(crate) mod meaning;
pub(crate) mod record;
