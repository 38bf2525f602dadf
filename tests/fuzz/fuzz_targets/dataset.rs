//! A whole dataset of which one file is anything: no panic, and no wrong answer about keys.
#![no_main]

use std::path::Path;
use std::sync::{Arc, LazyLock};

use kiste::index::IndexOptions;
use kiste::repair::Repair;
use kiste::storage::MemoryStorage;
use kiste::verify::Verify;
use kiste::{DatasetReader, Writer};
use libfuzzer_sys::fuzz_target;

const DATA: &str = "x";

static FILES: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let storage = MemoryStorage::new();
    let options = Writer::options().storage(Arc::new(storage.clone())).lookup(true);
    let mut writer = options.create(DATA).unwrap();
    for i in 0..5u8 {
        let key = format!("k{i}");
        writer
            .write_raw(&key, &[b"\x82\xa3key\xa2", key.as_bytes(), b"\xa1v", &[i]].concat())
            .unwrap();
    }
    writer.finish().unwrap();
    let name = |path: &Path| path.to_str().unwrap().to_string();
    storage.names().iter().map(|path| (name(path), storage.get(path).unwrap())).collect()
});

fuzz_target!(|input: (u8, u8, u8, &[u8])| {
    let (which, missing, at, bytes) = input;
    let storage = MemoryStorage::new();
    let fuzzed = usize::from(which) % FILES.len();
    for (i, (name, content)) in FILES.iter().enumerate() {
        if i == fuzzed {
            // In place of the file, or from some byte of it on.
            let keep = usize::from(at).min(content.len());
            storage.put(name, [&content[..keep], bytes].concat());
        } else if missing >> (i % 8) & 1 == 0 || name == DATA {
            storage.put(name, content.clone());
        }
    }
    // Without digests and keys nothing knows of samples that the offsets hide.
    let right = ![DATA, "x.offsets"].contains(&FILES[fuzzed].0.as_str());
    let shared = Arc::new(storage.clone());
    if let Ok(reader) = DatasetReader::options().storage(shared.clone()).open(DATA) {
        for _ in 0..2 {
            for i in 0..reader.len().min(100) {
                let _ = (reader.get(i), reader.key(i), reader.field(i, "v"));
            }
            for i in 0..5 {
                let key = format!("k{i}");
                let (found, there) = (reader.find(&key), reader.contains_key(&key));
                assert!(!right || found.is_err() || found.unwrap() == Some(i));
                assert!(!right || there.is_err() || there.unwrap());
            }
            let absent = reader.find("absent");
            assert!(!right || absent.is_err() || absent.unwrap().is_none());
            let _ = reader.keys().take(100).count();
            let _ = reader.prepare_keys();
        }
    }
    let _ = Verify::of(DATA).deep(true).storage(shared.clone()).run();
    let _ = Repair::of(DATA).storage(shared.clone()).salvage("saved");
    let _ = IndexOptions::default().storage(shared).build(DATA);
});
