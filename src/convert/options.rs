//! The options of a [`Conversion`](super::Conversion), as they are stored in a plan: what is not set is
//! left out.

use serde::{Deserialize, Serialize};

use super::bad::BadInput;
use super::format::Format;
use super::read_options::ReadOptions;
use super::split::{Split, is_default};

/// What happens to a sample whose key was there before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Duplicates {
    /// The conversion stops with an error.
    #[default]
    Refuse,
    /// The first one stays, later ones are skipped and counted.
    Skip,
}

/// What changes the samples or their files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Options {
    #[serde(skip_serializing_if = "is_default")]
    pub(super) from: Option<Format>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) to: Option<Format>,
    #[serde(flatten)]
    pub(super) read: ReadOptions,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) fields: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) drop: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) rename: Vec<(String, String)>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) key_field: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) key: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) limit: Option<u64>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) arrays: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) arrays_min: Option<usize>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) arrays_fields: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) bad: BadInput,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) duplicates: Duplicates,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) split: Split,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) shards: Option<usize>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) shard_size: Option<u64>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) append: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) overwrite: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) no_digests: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) lookup: Option<bool>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) checksums: bool,
}

/// What changes neither samples nor files, and so is no part of a plan.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct How {
    pub(super) resume: bool,
    pub(super) keep_cancelled: bool,
    pub(super) durable: bool,
    pub(super) mapped: bool,
    /// Bytes of a piece that is joined later.
    pub(super) piece_bytes: u64,
}

impl Default for How {
    fn default() -> How {
        How {
            resume: false,
            keep_cancelled: false,
            durable: true,
            mapped: true,
            piece_bytes: 256 << 20,
        }
    }
}
