//! TFRecord files of `tf.train.Example`s.

mod read;
mod write;

pub use read::TfRecordReader;
pub use write::TfRecordWriter;
