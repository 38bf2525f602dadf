//! Offsets, keys, key hashes, filter, digests, checksums, lengths and the legacy index.
#![no_main]

use kiste::format::dataset::keys::Keys;
use kiste::format::dataset::legacy_index::Entries;
use kiste::format::dataset::{Digests, crc, filter, key_hashes, lengths, offsets};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let len = bytes.len() as u64;
    if let Ok(count) = offsets::count(len) {
        for i in 0..=count {
            let _ = offsets::pair(&bytes[(i * 8) as usize..], i * 8, len);
            offsets::entry(bytes, i as usize).unwrap();
        }
        let end = |i: u64| offsets::entry(bytes, i as usize).unwrap();
        let _ = offsets::check_ends(count, end(0), end(count), len);
    }
    if let Ok(keys) = Keys::parse(bytes) {
        assert!(keys.filter(|key| key.is_ok()).count() <= bytes.len());
    }
    if let Ok(entries) = Entries::parse(bytes) {
        assert!(entries.filter(|entry| entry.is_ok()).count() <= bytes.len());
    }
    if key_hashes::count(len).is_ok() {
        let hashes = &bytes[8..];
        for i in 0..hashes.len() / 8 {
            let hash = key_hashes::entry(hashes, i).unwrap();
            let first = key_hashes::search(hashes, hash).unwrap();
            assert!(first <= i && key_hashes::entry(hashes, first) == Some(hash));
        }
    }
    let header = &bytes[..bytes.len().min(filter::HEADER)];
    if let Ok(params) = filter::Params::parse(header, len) {
        let body = &bytes[filter::HEADER..];
        let mut bits = body.to_vec();
        let pair = filter::pair(b"key");
        params.contains(body, pair);
        params.insert(&mut bits, pair);
        assert!(params.contains(&bits, pair));
    }
    let header = &bytes[..bytes.len().min(crc::HEADER)];
    if let Ok(header) = crc::Header::parse(header, len) {
        assert_eq!(header.encode(), bytes[..crc::HEADER]);
        header.check_source(header.source()).unwrap();
        let entries = &bytes[crc::HEADER..];
        let _ = header.check_table(crc::checksum(entries));
        for i in 0..header.source().count {
            crc::entry(entries, i as usize).unwrap();
        }
    }
    let header = &bytes[..bytes.len().min(lengths::MAX_HEADER)];
    if let Ok(header) = lengths::Header::parse(header, len) {
        assert!(bytes.starts_with(&header.encode()) && header.file_len() == len);
        for column in 0..header.columns().len() {
            let range = header.range(column);
            let column = &bytes[range.start as usize..range.end as usize];
            for i in 0..header.source().count {
                lengths::entry(column, i as usize).unwrap();
            }
        }
    }
    if let Ok(digests) = Digests::parse(bytes) {
        let again = Digests::parse(digests.render().as_bytes()).unwrap();
        assert!(digests.iter().eq(again.iter()));
    }
});
