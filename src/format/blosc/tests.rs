//! The golden files of bloscpack, everything against everything, and damage.

use std::fs;
use std::path::PathBuf;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::*;

fn golden(name: &str) -> Vec<u8> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/bloscpack-0.16.0");
    fs::read(dir.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn manifest() -> Vec<Json> {
    let mut manifest: Json = serde_json::from_slice(&golden("manifest.json")).unwrap();
    let Json::Array(entries) = manifest["entries"].take() else { panic!("no list") };
    entries
}

/// The first chunk of a container stands behind its header, metadata and offsets.
fn first_chunk(file: &[u8]) -> usize {
    let number = |at: usize| i64::from_le_bytes(*file[at..].first_chunk().unwrap());
    let checksums = [0, 4, 4, 16, 20, 28, 32, 48, 64];
    let mut at = 32;
    if file[5] & 2 != 0 {
        let room = u32::from_le_bytes(*file[at + 16..].first_chunk().unwrap());
        at += 32 + room as usize + checksums[usize::from(file[at + 9])];
    }
    if file[5] & 1 != 0 {
        at += 8 * (number(16) + number(24)) as usize;
    }
    at
}

/// The chunks of a container up to one that has no header.
fn chunks(file: &[u8]) -> Vec<&[u8]> {
    let checksums = [0, 4, 4, 16, 20, 28, 32, 48, 64];
    let mut at = first_chunk(file);
    let count = u64::from_le_bytes(*file[16..].first_chunk().unwrap());
    let mut chunks = Vec::new();
    for _ in 0..count {
        let len = Header::parse(&file[at..]).map_or(file.len() - at, |header| header.chunk_len());
        chunks.push(&file[at..file.len().min(at + len)]);
        at = file.len().min(at + len + checksums[usize::from(file[6])]);
    }
    chunks
}

/// The content of a chunk by whichever decoder is taken, which must be what safe Rust reads.
fn content(chunk: &[u8]) -> Result<Vec<u8>, FormatError> {
    let content = decompress(chunk, MAX_CHUNK)?;
    let mut other = vec![0xAA; content.len()];
    safe::decompress_into(chunk, &mut other, &mut Scratch::default())?;
    assert!(other == content, "the decoders differ");
    Ok(content)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn params(name: &str, json: &Json) -> Option<Params> {
    Some(Params {
        codec: json["cname"].as_str()?.parse().unwrap(),
        level: json["clevel"].as_u64()? as u8,
        shuffle: match json["shuffle"].as_u64()? {
            0 => Shuffle::None,
            1 => Shuffle::Byte,
            _ => Shuffle::Bit,
        },
        typesize: json["typesize"].as_u64()? as usize,
        // The manifest does not say so, but the generator does.
        blocksize: name.ends_with("_blk.blp").then_some(512),
    })
}

#[test]
fn golden_chunks_are_read_and_written_again() {
    let (mut read, mut written) = (0, 0);
    for entry in manifest() {
        let name = entry["file"].as_str().unwrap();
        let is_here = ["bytes/", "nd/", "append/"].iter().any(|dir| name.starts_with(dir));
        if !is_here || entry["expect"]["ok"] != true {
            continue;
        }
        let file = golden(name);
        let mut whole = Vec::new();
        for chunk in chunks(&file) {
            let content = content(chunk).unwrap_or_else(|error| panic!("{name}: {error}"));
            whole.extend_from_slice(&content);
            read += 1;
            let params = params(name, &entry["written_with"]);
            if let Some(params) = params.filter(|params| params.codec.is_writable()) {
                let mut again = Vec::new();
                compress(&params, &content, &mut again).unwrap();
                assert_eq!(decompress(&again, content.len()).unwrap(), content, "{name}");
                if cfg!(feature = "c-blosc") {
                    assert!(again == chunk, "{name}: other bytes than python-blosc writes");
                }
                written += 1;
            }
        }
        let stored = &entry["expect"]["sha256_stored_order"];
        let expected = if stored.is_null() { &entry["expect"]["sha256"] } else { stored };
        assert_eq!(sha256(&whole), *expected, "{name}");
    }
    assert!(read > 700 && written > 300, "{read} read, {written} written");
}
