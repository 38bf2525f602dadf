//! WebDataset: samples as files of one name in tar archives.
//!
//! Consecutive files of an archive with the same name up to the first dot after the last slash are
//! one sample; the rest of the name, in lower case, is the name of the field. This is the rule of
//! the Python package webdataset.

mod meaning;
mod read;
mod write;

pub use read::WebDatasetReader;
pub use write::WebDatasetWriter;

/// Whether the first part is like `__this__`.
fn is_meta(name: &str) -> bool {
    let first = name.split('/').next().unwrap_or_default();
    first.len() >= 4 && first.starts_with("__") && first.ends_with("__")
}

/// The type of a field, by the last part of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Text,
    Integer,
    Json,
    Npy,
    Bytes,
}

impl Content {
    fn of(name: &str) -> Content {
        match name.rsplit('.').next().unwrap_or_default() {
            "txt" | "text" | "transcript" => Content::Text,
            "cls" | "cls2" | "index" | "inx" | "id" => Content::Integer,
            "json" | "jsn" => Content::Json,
            "npy" => Content::Npy,
            _ => Content::Bytes,
        }
    }
}
