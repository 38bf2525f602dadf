//! Directories as the document of Blaze has them: superchunks, and fewer keys in the JSON.

use kiste::ErrorKind;
use kiste::format::__private::bcolz::HEADER_BYTES;
use kiste::format::blosc::{Params, compress};
use kiste::format::bloscpack::Checksum;
use kiste::storage::MemoryStorage;

use super::array_in;

/// Thousand numbers in chunks of 128, in superchunks of three, each with another header.
fn blaze() -> (MemoryStorage, Vec<u8>) {
    let numbers: Vec<u8> = (0..1000_u32).flat_map(u32::to_le_bytes).collect();
    let params = Params { typesize: 4, ..Params::default() };
    let chunks: Vec<Vec<u8>> = numbers
        .chunks(128 * 4)
        .map(|bytes| {
            let mut chunk = Vec::new();
            compress(&params, bytes, &mut chunk).unwrap();
            chunk
        })
        .collect();
    let storage = MemoryStorage::new();
    // No header of its own for the two chunks of the last one: bloscpack 0.1.
    let mut last = HEADER_BYTES.to_vec();
    last[8] = 2;
    last.extend(chunks[6..].concat());
    let blaze = |chunks: &[Vec<u8>], metadata: &[u8], checksum: Checksum| {
        let mut file = b"blpk\x02\0\0\x04".to_vec();
        (file[5], file[6]) = (if metadata.is_empty() { 0 } else { 2 }, checksum.id());
        file.extend([512_i32, 512].map(i32::to_le_bytes).as_flattened());
        file.extend([3_i64, metadata.len() as i64].map(i64::to_le_bytes).as_flattened());
        file.extend(metadata);
        for chunk in chunks {
            file.extend(chunk);
            file.extend(checksum.digest(chunk).as_slice());
        }
        file
    };
    storage.put("a/data/__1__.bin", blaze(&chunks[..3], b"{}", Checksum::Crc32));
    storage.put("a/data/__2__.bin", blaze(&chunks[3..6], b"", Checksum::None));
    storage.put("a/data/__3__.bin", last);
    storage.put("a/meta/sizes", "{\"shape\": [1000], \"nbytes\": 4000, \"cbytes\": 1}");
    storage.put(
        "a/meta/storage",
        "{\"dtype\": \"uint32\", \"cparams\": {\"shuffle\": true, \"clevel\": 5}, \
         \"chunklen\": 128, \"dflt\": 0, \"expectedlen\": 1000}",
    );
    storage.put("a/meta/attributes", "{\"scale\": \"Celsius\"}");
    (storage, numbers)
}

#[test]
fn superchunks_are_read() {
    let (storage, numbers) = blaze();
    let array = array_in(&storage).unwrap();
    assert_eq!(array.read().unwrap().bytes(), numbers);
    assert_eq!(array.rows(380..390).unwrap().bytes(), &numbers[1520..1560]);
    assert_eq!(
        array.select(&[999, 1]).unwrap().bytes(),
        [&numbers[3996..], &numbers[4..8]].concat()
    );
    assert_eq!(array.attrs()["scale"], "Celsius");
    let info = array.info().unwrap();
    let files = ["1", "2", "3"].map(|n| storage.get(format!("a/data/__{n}__.bin")).unwrap().len());
    assert_eq!((info.chunks, info.cbytes), (8, files.iter().sum::<usize>() as u64));
}

#[test]
fn what_is_wrong_with_a_superchunk_is_an_error() {
    let (storage, _) = blaze();
    let first = storage.get("a/data/__1__.bin").unwrap();
    let mut changed = first.clone();
    let end = changed.len() - 6;
    changed[end] ^= 1;
    storage.put("a/data/__1__.bin", changed);
    let error = array_in(&storage).unwrap().read().unwrap_err();
    assert!(error.to_string().contains("a chunk that agrees with its crc32"), "{error}");
    storage.put("a/data/__1__.bin", [&b"blpk\x09"[..], &first[5..]].concat());
    let error = array_in(&storage).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("version 9 that no document describes"), "{error}");
    let (storage, _) = blaze();
    kiste::storage::Storage::remove(&storage, "a/data/__3__.bin".as_ref()).unwrap();
    let error = array_in(&storage).unwrap_err();
    assert_eq!(error.to_string(), "a/data/__3__.bin: expected 8 chunks, found 6 before it");
}
