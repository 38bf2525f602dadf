//! Containers and their metadata: by chunk, by row, as a stream, all the same.
#![no_main]

use std::io::Read;

use kiste::array::{PackedArray, PackedReader};
use kiste::format::bloscpack::{ArrayMetadata, Container, Undo};
use libfuzzer_sys::fuzz_target;

/// Larger containers are refused here: they only take time.
const LIMIT: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    if let Some(undo) = Undo::find(bytes) {
        let _ = undo.state(bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = ArrayMetadata::parse(text);
    }
    let Ok(container) = Container::parse(bytes) else { return };
    if let Some(metadata) = container.metadata() {
        let _ = metadata.value();
    }
    let total = container.chunks().map_while(Result::ok).map(|chunk| chunk.nbytes() as u64).sum();
    if LIMIT < total {
        return;
    }
    let Ok(whole) = container.to_vec() else { return };
    assert_eq!(container.nbytes().unwrap(), whole.len() as u64);
    for (i, chunk) in container.chunks().enumerate() {
        let start = container.places().unwrap()[i].start as usize;
        let chunk = chunk.unwrap().to_vec().unwrap();
        assert!(chunk == whole[start..start + chunk.len()]);
    }
    let mut streamed = Vec::new();
    if let Ok(mut reader) = PackedReader::new(bytes) {
        if reader.read_to_end(&mut streamed).is_ok() {
            assert!(streamed == whole);
        }
    }
    if let Ok(packed) = PackedArray::from_bytes(bytes) {
        let array = packed.read().unwrap();
        assert!(array.bytes() == whole);
        let rows = packed.shape().first().copied().unwrap_or(0).min(50);
        if let Ok(part) = packed.rows(0..rows) {
            let chosen: Vec<usize> = (0..rows).collect();
            assert!(packed.select(&chosen).unwrap() == part);
        }
    }
});
