//! [`ReadOptions`]: how a conversion reads its sources.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::split::is_default;
use crate::error::{Error, ErrorKind};

/// How sources are read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ReadOptions {
    #[serde(skip_serializing_if = "is_default")]
    pub(super) texts: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) guess_types: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) delimiter: Option<char>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) plain_quotes: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) plain_json: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) max_bytes: Option<u64>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) pattern: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) include: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) exclude: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) root: Option<PathBuf>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) allow_outside: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) header: Option<bool>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) labels: Option<PathBuf>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) text_labels: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) resize: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) upscale: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) image_format: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) quality: Option<u8>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) subsampling: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) verify_images: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) image_fields: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) max_pixels: Option<u64>,
}

impl ReadOptions {
    /// An option for images or lists that was given.
    pub(super) fn folder_option(&self) -> Option<&'static str> {
        match () {
            () if !self.pattern.is_empty() => Some("pattern"),
            () if !self.include.is_empty() => Some("include"),
            () if !self.exclude.is_empty() => Some("exclude"),
            () if self.labels.is_some() => Some("labels"),
            () if self.text_labels => Some("text_labels"),
            () => self.list_option(),
        }
    }

    /// Whether an option was given that only images have.
    pub(super) fn asks_for_images(&self) -> bool {
        self.list_option().is_none() && self.folder_option().is_some()
    }

    /// An option that only lists have, and that was given.
    pub(super) fn list_option(&self) -> Option<&'static str> {
        match () {
            () if self.root.is_some() => Some("root"),
            () if self.header.is_some() => Some("header"),
            () => None,
        }
    }
}

/// An option was given that is for other formats.
pub(super) fn misplaced(option: &'static str, formats: &str, format: &str) -> Error {
    let message = format!("is for {formats}, but this is {format}");
    Error::new(ErrorKind::Invalid, message).with_option(option)
}
