//! The note of a part: how far it is, and what it has made once it is finished.
//!
//! Each has the digest of the plan that it belongs to, so that one of another conversion is refused, and a
//! [checksum](crate::note) of its own. A note that has fields which are not known here is of a later version,
//! and refused too.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::convert::bad_input::Tally;
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::shards::ShardEntry;
use crate::note::{self, required};
use crate::storage::{FileId, random};

/// The content of the note of a part.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartNote {
    /// The digest of the plan.
    pub(super) plan: String,
    /// How far the part is; null if nothing was noted yet.
    pub(super) state: Json,
    /// The run of the part that notes it: no two notes of two runs are alike, as a store may tell them apart
    /// by nothing but their bytes. Earlier versions noted none on a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<String>,
    /// The result of the part, once it is finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) finished: Option<Json>,
}

impl PartNote {
    /// With a number of its own.
    pub(super) fn new(plan: &str, state: Json, finished: Option<Json>) -> PartNote {
        let run = Some(format!("{:016x}", random()));
        PartNote { plan: plan.to_owned(), state, run, finished }
    }

    pub(super) fn render(&self) -> String {
        note::sealed(&render(self))
    }
}

/// The result of a part.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::convert) struct Done {
    pub(in crate::convert) samples: u64,
    pub(in crate::convert) bytes: u64,
    pub(in crate::convert) tally: Tally,
    /// The CRC-32 of its samples, where an earlier version wrote them to one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::convert) crc32: Option<u32>,
    /// Its pieces; none of a part that an earlier version wrote to one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::convert) shards: Option<Vec<Made>>,
}

/// A piece that is complete: a shard, or what is joined later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::convert) struct Made {
    pub(in crate::convert) name: String,
    pub(in crate::convert) samples: u64,
    pub(in crate::convert) bytes: u64,
    #[serde(deserialize_with = "required")]
    pub(in crate::convert) md5: Option<String>,
    #[serde(deserialize_with = "required")]
    pub(in crate::convert) keys: Option<(String, String)>,
    /// Identifies its data file.
    pub(in crate::convert) id: FileId,
    /// The CRC-32 of its samples, where they are joined later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::convert) crc32: Option<u32>,
}

impl Made {
    /// Its line in the manifest.
    pub(in crate::convert) fn entry(&self) -> Result<ShardEntry> {
        let mut entry = ShardEntry::new(&self.name, self.samples, self.bytes);
        entry.keys = self.keys.clone();
        entry.md5 = self.md5()?;
        Ok(entry)
    }

    pub(in crate::convert) fn md5(&self) -> Result<Option<[u8; 16]>> {
        let Some(digits) = &self.md5 else { return Ok(None) };
        let md5 = u128::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 32);
        let md5 = md5.ok_or_else(|| {
            let message = format!("expected an MD5, found {digits:?}");
            Error::new(ErrorKind::Damaged, message)
        })?;
        Ok(Some(md5.to_be_bytes()))
    }
}

/// The content of a note, which is `what`.
pub(super) fn parse<T: DeserializeOwned>(text: &[u8], path: &Path, what: &str) -> Result<T> {
    note::parsed(text).map_err(|found| damaged(path, what, found))
}

/// The same of a part of a note.
pub(super) fn typed<T: DeserializeOwned>(state: Json, path: &Path, what: &str) -> Result<T> {
    serde_json::from_value(state).map_err(|error| damaged(path, what, error.to_string()))
}

pub(super) fn damaged(path: &Path, what: &str, found: String) -> Error {
    let error = Error::new(ErrorKind::Damaged, format!("not {what}: {found}")).at(path);
    error.advise("nothing was touched: restore the file, or make these parts again elsewhere")
}

pub(super) fn render(value: &impl Serialize) -> String {
    // Maps with string keys, and finite floats: JSON has all of it.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    format!("{text}\n")
}
