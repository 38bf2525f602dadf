//! Names, versions, segments and superchunks of a chunked array, with the hashes made right.
#![no_main]

use kiste::format::chunked::segment::Segment;
use kiste::format::chunked::superchunk::{START, Superchunk};
use kiste::format::chunked::{Version, format_of, names, parse_time};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let hash = blake3::hash(bytes);
    let hashed = [bytes, hash.as_bytes()].concat();
    if let Ok(segment) = Segment::parse(&hashed) {
        assert!(segment.len() <= bytes.len());
        for entry in segment.iter() {
            assert_eq!(segment.find(entry.chunk), Some(entry));
        }
    }
    let lines = [bytes, b"\n", hash.to_hex().as_bytes(), b"\n"].concat();
    let _ = format_of(&lines);
    if let Ok(version) = Version::parse(&lines) {
        let again = Version::parse(&version.encode().unwrap()).unwrap();
        assert_eq!(again, version);
        version.numbering().unwrap();
    }
    if let Ok(len) = Superchunk::head_len(&bytes[..bytes.len().min(START)]) {
        let superchunk = Superchunk::parse(bytes, bytes.len() as u64);
        assert!(superchunk.is_err() || len <= bytes.len() as u64);
        if let Ok(superchunk) = superchunk {
            for slot in 0..superchunk.slots() {
                let Ok(range) = superchunk.slot(slot) else { continue };
                let slot_bytes = &bytes[range.start as usize..range.end as usize];
                let _ = superchunk.chunk(slot, slot_bytes);
                let _ = superchunk.check_slot(slot, slot_bytes);
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = parse_time(text);
        if let Some(number) = names::number_of(text) {
            assert_eq!(names::numbered(number), text);
        }
        assert!(!names::field(text).contains(['/', '.', '\\']));
    }
});
