//! A zip archive that is anything: no panic, and no entry longer than it may be.
#![no_main]

use kiste::reader::{Reader, ZipReader};
use kiste::storage::MemoryStorage;
use libfuzzer_sys::fuzz_target;

/// Deflate makes much of little; there is nothing to be learned from more.
const MAX_BYTES: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let storage = MemoryStorage::new();
    storage.put("x.zip", bytes);
    for pattern in ["{LABEL}/**", "**"] {
        let options = ZipReader::options().max_bytes(MAX_BYTES);
        let Ok(reader) = options.open_zip_in(&storage, "x.zip", [pattern]) else { continue };
        for index in 0..reader.len() {
            let _ = reader.locate(index);
            if let Ok(raw) = reader.get_raw(index) {
                // With its key, label and names of fields.
                assert!(raw.len() as u64 <= MAX_BYTES + 2 * bytes.len() as u64 + 100);
                assert!(reader.key(index).is_ok());
            }
        }
    }
});
