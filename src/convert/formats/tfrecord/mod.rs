//! TFRecord files of `tf.train.Example`s.

mod read;
mod write;

pub use read::TfRecords;
pub use write::TfRecordWriter;
