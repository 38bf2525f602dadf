//! Tables that are shipped compressed: names, labels.

use std::io::Read;

use flate2::read::GzDecoder;

/// The text that was compressed with gzip when this crate was built.
///
/// # Panics
///
/// If that is not what the bytes are. A test of each table reads it.
pub fn text(gzip: &[u8]) -> String {
    let mut text = String::new();
    let read = GzDecoder::new(gzip).read_to_string(&mut text);
    read.expect("a table in datasets/data is text compressed with gzip");
    text
}

/// The lines of such a text.
pub fn lines(gzip: &[u8]) -> Vec<String> {
    text(gzip).lines().map(str::to_owned).collect()
}
