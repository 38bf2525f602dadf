//! Tables of Arrow that are anything: Parquet where the file begins as one does, or else Arrow IPC.
//! No matter what the decoders make of it, everything that is emitted as a sample must be one.
#![no_main]

mod caught;

use std::fs;
use std::path::PathBuf;

use kiste::convert::{ArrowIpcReader, Input, ParquetReader};
use kiste::format::__private::parquet;
use kiste::format::msgpack;
use libfuzzer_sys::fuzz_target;

/// No page or batch may have more bytes.
const LIMIT: u64 = 1 << 22;

/// These bytes as a file.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("kiste-fuzz-parquet-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn drain(input: &dyn Input) {
    let _ = (input.len_hint(), input.label_names());
    for unit in 0..input.units() {
        let _ = input.bytes(unit);
        let _ = input.read(unit, &mut |sample| {
            if let Ok(sample) = sample {
                msgpack::check_sample(&sample).unwrap();
            }
            Ok(())
        });
    }
}

fuzz_target!(init: caught::abort_if_uncaught(), |bytes: &[u8]| {
    let _ = parquet::parse_page_header(bytes);
    if bytes.starts_with(&parquet::MAGIC) {
        let path = file("x.parquet", bytes);
        if let Ok(table) = ParquetReader::open(&path) {
            drain(&table.max_bytes(LIMIT));
        }
    } else {
        let _ = parquet::check_footer(bytes);
        let path = file("x.arrow", bytes);
        if let Ok(table) = ArrowIpcReader::open(&path) {
            drain(&table.max_bytes(LIMIT));
        }
    }
});
