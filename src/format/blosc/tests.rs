//! The golden files of bloscpack, everything against everything, and damage.

use std::fs;
use std::path::PathBuf;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::*;

fn golden_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/bloscpack-0.16.0")
}

fn golden(name: &str) -> Vec<u8> {
    fs::read(golden_dir().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
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

/// The content of a chunk by the default decoder, which must agree with safe Rust.
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
    let least = if cfg!(feature = "c-blosc") { 500 } else { 150 };
    assert!(read > 700 && written > least, "{read} read, {written} written");
}

#[test]
fn golden_snappy_chunks_are_read() {
    for entry in fs::read_dir(golden_dir().join("chunks_snappy")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let json: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let mut whole = Vec::new();
        for name in json["chunks"].as_array().unwrap() {
            let chunk = golden(&format!("chunks_snappy/{}", name.as_str().unwrap()));
            assert_eq!(Header::parse(&chunk).unwrap().codec(), Codec::Snappy);
            whole.extend(content(&chunk).unwrap());
        }
        assert_eq!(sha256(&whole), json["sha256"], "{}", path.display());
    }
}

#[test]
fn golden_damage_is_found() {
    let mut refused = 0;
    for entry in manifest() {
        let name = entry["file"].as_str().unwrap();
        if !name.starts_with("corrupt/blosc_") && name != "corrupt/memcpyed_wrong_len.blp" {
            continue;
        }
        let file = golden(name);
        let size = u32::from_le_bytes(*file[8..].first_chunk().unwrap()) as usize;
        let last = u32::from_le_bytes(*file[12..].first_chunk().unwrap()) as usize;
        let chunks = chunks(&file);
        let sound = chunks.iter().enumerate().all(|(index, chunk)| {
            let len = if index + 1 == chunks.len() { last } else { size };
            content(chunk).is_ok_and(|content| content.len() == len)
        });
        assert!(!sound, "{name}");
        refused += 1;
    }
    assert_eq!(refused, 23);
}

#[test]
fn frozen_header() {
    let bytes: Vec<u8> = [5; 24].to_vec();
    let mut chunk = Vec::new();
    let params = Params { codec: Codec::Lz4, ..Params::default() };
    assert_eq!(compress(&params, &bytes, &mut chunk).unwrap(), 40);
    let head = [2, 1, 0x33, 8, 24, 0, 0, 0, 24, 0, 0, 0, 40, 0, 0, 0];
    assert_eq!(chunk, [&head[..], &bytes].concat());
    let header = Header::parse(&chunk).unwrap();
    assert!(header.is_memcpyed());
    assert_eq!(header.shuffle(), Shuffle::None); // despite the flags
    assert_eq!((header.typesize(), header.blocks(), header.block(0)), (8, 1, 0..24));
    assert_eq!(MAX_CHUNK, 2_147_483_631);
    assert_eq!(MAX_BLOCK, 715_827_542);
}

#[test]
fn what_is_wrong_with_a_header_is_said() {
    let head = [2, 1, 0x33, 8, 24, 0, 0, 0, 24, 0, 0, 0, 40, 0, 0, 0];
    let cases: [(usize, u8, u64, &str); 13] = [
        (0, 1, 0, "byte 0: expected version 2 of the Blosc format, found version 1"),
        (
            0,
            5,
            0,
            "byte 0: expected version 2 of the Blosc format, found version 5, which is Blosc2",
        ),
        (1, 2, 1, "byte 1: expected version 1 of the codec, found 2"),
        (2, 0x3b, 2, "byte 2: expected flags of Blosc 1, found 0x3b"),
        (2, 0x37, 2, "shuffle by both bytes and bits"),
        (2, 0xb3, 2, "expected a codec of Blosc, a number from 0 to 4, found number 5"),
        (3, 0, 3, "byte 3: expected elements of at least one byte, found 0"),
        (7, 0x80, 4, "byte 4: expected at most 2147483631 bytes in a chunk"),
        (8, 0, 8, "byte 8: expected blocks of 1 to 24 bytes, found 0"),
        (8, 25, 8, "byte 8: expected blocks of 1 to 24 bytes, found 25"),
        (12, 39, 12, "byte 12: expected a chunk of 40 bytes, header and copied bytes, found 39"),
        (12, 41, 12, "byte 12: expected a chunk of 40 bytes, header and copied bytes, found 41"),
        (2, 0x31, 12, ""),
    ];
    assert!(Header::parse(&head).is_ok());
    for (at, byte, position, message) in cases {
        let mut head = head;
        head[at] = byte;
        let result = Header::parse(&head);
        if message.is_empty() {
            // Compressed, such a chunk is possible: 20 bytes before the block, 20 in it.
            assert!(result.is_ok());
            continue;
        }
        let error = result.unwrap_err();
        assert_eq!(error.position, position, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    let error = Header::parse(&head[..15]).unwrap_err();
    assert_eq!(error.to_string(), "byte 0: expected a Blosc header of 16 bytes, found 15 bytes");
}

/// Numbers without a pattern, the same every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 29)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Bytes: some compress, some do not, and some repeat from afar.
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = Vec::with_capacity(len);
        while bytes.len() < len {
            let count = 1 + self.below(len / 3 + 2);
            match self.below(4) {
                0 => bytes.extend((0..count).map(|_| self.next() as u8)),
                1 => bytes.extend((0..count as u32).flat_map(|i| (i / 3).to_le_bytes())),
                2 => bytes.extend(vec![self.next() as u8; count]),
                _ => {
                    let from = self.below(bytes.len() + 1);
                    let part = bytes[from..].iter().take(count).copied().collect::<Vec<_>>();
                    bytes.extend(part);
                }
            }
        }
        bytes.truncate(len);
        bytes
    }
}

/// Every way to compress, each with bytes of this length.
fn all_chunks(lens: &[usize], typesizes: &[usize], mut check: impl FnMut(&Params, &[u8], &[u8])) {
    let mut random = Random(1);
    for &len in lens {
        for &typesize in typesizes {
            for shuffle in [Shuffle::None, Shuffle::Byte, Shuffle::Bit] {
                let bytes = random.bytes(len);
                for codec in Codec::ALL.into_iter().filter(|codec| codec.is_writable()) {
                    let level = random.below(10) as u8;
                    let blocksize = [None, Some(1 + random.below(5000))][random.below(2)];
                    let params = Params { codec, level, shuffle, typesize, blocksize };
                    let mut chunk = Vec::new();
                    compress(&params, &bytes, &mut chunk).unwrap();
                    check(&params, &bytes, &chunk);
                    if safe::writes(codec) {
                        chunk.clear();
                        let scratch = &mut Scratch::default();
                        safe::compress(&params, &bytes, &mut chunk, scratch).unwrap();
                        check(&params, &bytes, &chunk);
                    }
                }
            }
        }
    }
}

const LENS: [usize; 9] = [0, 1, 7, 127, 128, 1000, 1024, 4097, 20_001];
const TYPESIZES: [usize; 9] = [1, 2, 3, 5, 8, 12, 16, 17, 255];

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn what_is_written_is_read() {
    let check = |params: &Params, bytes: &[u8], chunk: &[u8]| {
        assert!(chunk.len() <= bytes.len() + HEADER, "{params:?}");
        assert!(content(chunk).unwrap() == bytes, "{params:?}, {} bytes", bytes.len());
    };
    all_chunks(&LENS, &TYPESIZES, check);
    // Large enough for several blocks of the size that the library chooses.
    all_chunks(&[150_000], &[4], check);
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn both_writers_cut_chunks_into_the_same_blocks() {
    let bytes = vec![0; 300_000];
    let mut scratch = Scratch::default();
    for (codec, level) in [(Codec::Lz4, 0), (Codec::Lz4, 4), (Codec::Zlib, 1), (Codec::Zlib, 9)] {
        for len in [100, 1000, 31_999, 32_768, 70_001, 300_000] {
            for typesize in [1, 3, 8, 16, 17, 200] {
                let params = Params { codec, level, typesize, ..Params::default() };
                let (mut ours, mut theirs) = (Vec::new(), Vec::new());
                safe::compress(&params, &bytes[..len], &mut ours, &mut scratch).unwrap();
                scratch.compress(&params, &bytes[..len], &mut theirs).unwrap();
                assert_eq!(ours[..12], theirs[..12], "{params:?}, {len} bytes");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn a_range_is_a_slice_of_the_whole() {
    let mut random = Random(2);
    let mut scratch = Scratch::default();
    all_chunks(&LENS[2..], &[1, 3, 16], |params, bytes, chunk| {
        for _ in 0..6 {
            let start = random.below(bytes.len() + 1);
            let range = start..start + random.below(bytes.len() - start + 1);
            let mut out = vec![0xAA; range.len()];
            scratch.decompress_range(chunk, range.clone(), &mut out).unwrap();
            assert!(out == bytes[range.clone()], "{params:?}, {range:?} of {}", bytes.len());
        }
        let beyond = bytes.len()..bytes.len() + 1;
        let error = scratch.decompress_range(chunk, beyond, &mut [0]).unwrap_err();
        assert_eq!(error.position, 4);
    });
}

#[test]
fn a_range_needs_no_other_blocks() {
    let bytes = Random(3).bytes(10_000);
    let params = Params { blocksize: Some(1000), ..Params::default() };
    let mut chunk = Vec::new();
    compress(&params, &bytes, &mut chunk).unwrap();
    // The position of the last block becomes nonsense.
    chunk[HEADER + 4 * 9..][..4].copy_from_slice(&[0xFF; 4]);
    assert!(decompress(&chunk, 10_000).is_err());
    let mut out = [0; 5000];
    decompress_range(&chunk, 2500..7500, &mut out).unwrap();
    assert!(out == bytes[2500..7500]);
    let error = decompress_range(&chunk, 8500..9500, &mut out[..1000]).unwrap_err();
    assert_eq!(error.position, (HEADER + 4 * 9) as u64);
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn damage_is_an_error_or_other_bytes_but_never_a_panic() {
    let mut random = Random(4);
    let mut scratch = Scratch::default();
    all_chunks(&[600], &[4], |params, bytes, chunk| {
        let mut out = vec![0; bytes.len()];
        let mut damaged = chunk.to_vec();
        for at in 0..chunk.len() {
            let short = scratch.decompress_into(&chunk[..at], &mut out);
            assert!(short.is_err(), "{params:?} cut at {at}");
            for byte in [chunk[at] ^ (1 << random.below(8)), 0xFF] {
                damaged[at] = byte;
                let result = scratch.decompress_into(&damaged, &mut out);
                let safe = safe::decompress_into(&damaged, &mut out, &mut scratch);
                for header in [result, safe].into_iter().flatten() {
                    assert_eq!(header.nbytes(), out.len());
                }
                let range = 5..out.len() / 2;
                let len = range.len();
                if let Ok(header) = scratch.decompress_range(&damaged, range, &mut out[..len]) {
                    assert!(header.nbytes() >= len);
                }
            }
            damaged[at] = chunk[at];
        }
    });
}

/// A chunk of one block that is one stream.
fn chunk_of(codec: Codec, nbytes: usize, stream: &[u8]) -> Vec<u8> {
    let flags = header::NOT_SPLIT | codec.format() << header::CODEC_SHIFT;
    let len = HEADER + 8 + stream.len();
    let mut chunk = header::to_bytes(flags, 1, nbytes, nbytes, len).to_vec();
    chunk.extend_from_slice(&20_u32.to_le_bytes());
    chunk.extend_from_slice(&(stream.len() as u32).to_le_bytes());
    chunk.extend_from_slice(stream);
    chunk
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn a_blosclz_match_that_wraps_is_refused() {
    // c-blosc issue 405: after these bytes the length is an i32 below zero.
    let mut stream = vec![0, b'x', 0xE0];
    stream.resize(stream.len() + 8_421_505, 255);
    stream.extend_from_slice(&[0, 0, 0, b'y']);
    for nbytes in [4096, 9_000_000] {
        let chunk = chunk_of(Codec::BloscLz, nbytes, &stream);
        validate(&chunk).unwrap_err();
        let mut out = vec![0; nbytes];
        decompress_into(&chunk, &mut out).unwrap_err();
        decompress_range(&chunk, 1..100, &mut out[..99]).unwrap_err();
    }
}

#[test]
fn a_blosclz_stream_ends_in_a_literal() {
    let stream = [0, b'x', 0x40, 0, 1, b'y', b'z'];
    let mut out = [0; 7];
    assert_eq!(blosclz::decompress(&stream, &mut out), Some(()));
    assert_eq!(&out, b"xxxxxyz");
    for end in 0..stream.len() {
        assert_eq!(blosclz::decompress(&stream[..end], &mut out), None);
    }
    assert_eq!(blosclz::decompress(&stream, &mut out[..6]), None);
    assert_eq!(blosclz::decompress(&stream, &mut [0; 8]), None);
    // Before the start; one near and one far.
    assert_eq!(blosclz::decompress(&[0, b'x', 0x40, 1, 0, b'y'], &mut [0; 6]), None);
    assert_eq!(blosclz::decompress(&[0, b'x', 0x5F, 255, 0, 0, 0, b'y'], &mut [0; 6]), None);
}

#[test]
fn a_zstd_frame_is_not_believed_about_its_window() {
    // 2^41 bytes by its descriptor; then one raw block that is the last.
    let stream = [0x28, 0xB5, 0x2F, 0xFD, 0, 0xF8, 9, 0, 0, b'x'];
    let mut out = [0; 200];
    let mut scratch = Scratch::default();
    let chunk = chunk_of(Codec::Zstd, out.len(), &stream);
    safe::decompress_into(&chunk, &mut out, &mut scratch).unwrap_err();
    // A length of its own of 2^60.
    let stream = [0x28, 0xB5, 0x2F, 0xFD, 0xE0, 0, 0, 0, 0, 0, 0, 0, 16, 9, 0, 0, b'x'];
    let chunk = chunk_of(Codec::Zstd, out.len(), &stream);
    safe::decompress_into(&chunk, &mut out, &mut scratch).unwrap_err();
}

#[test]
fn a_chunk_is_as_long_as_its_caller_allows() {
    let mut chunk = Vec::new();
    compress(&Params::default(), &[0; 5000], &mut chunk).unwrap();
    let error = decompress(&chunk, 4999).unwrap_err();
    let expected = "byte 4: expected a chunk of at most 4999 bytes, found 5000";
    assert_eq!(error.to_string(), expected);
    for len in [0, 4999, 5001] {
        let error = decompress_into(&chunk, &mut vec![0; len]).unwrap_err();
        let expected = format!("byte 4: expected a chunk of {len} bytes, found 5000");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn parameters_are_checked() {
    let good = Params { codec: Codec::Lz4, ..Params::default() };
    let cases = [
        (Params { level: 10, ..good.clone() }, "expected a level of 0 to 9, found 10"),
        (Params { typesize: 0, ..good.clone() }, "expected elements of 1 to 255 bytes, found 0"),
        (
            Params { typesize: 256, ..good.clone() },
            "expected elements of 1 to 255 bytes, found 256",
        ),
        (
            Params { blocksize: Some(0), ..good.clone() },
            "expected blocks of 1 to 715827542 bytes, found 0",
        ),
        (
            Params { codec: Codec::Snappy, ..good.clone() },
            "expected a codec that can be written, found snappy, which is only read",
        ),
    ];
    for (params, message) in cases {
        let mut out = b"before".to_vec();
        let error = compress(&params, &[0; 500], &mut out).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(out, b"before");
    }
    assert_eq!(good.check(MAX_CHUNK), Ok(()));
    assert_eq!(good.check(MAX_CHUNK + 1), Err(EncodeError::Length(MAX_CHUNK + 1)));
}

#[test]
fn codecs_have_the_names_of_python() {
    for codec in Codec::ALL {
        assert_eq!(codec.to_string().parse(), Ok(codec));
    }
    let error = "zip".parse::<Codec>().unwrap_err().to_string();
    let names = "blosclz, lz4, lz4hc, snappy, zlib, zstd";
    assert_eq!(error, format!("expected a codec of Blosc ({names}), found \"zip\""));
}

#[test]
fn shuffles_are_transpositions() {
    let mut random = Random(5);
    for typesize in [1, 2, 3, 4, 7, 8, 16, 20] {
        for len in [0, 1, 64, 128, 500, 640, 1024, 1032, 5000] {
            let bytes = random.bytes(len);
            let count = len / typesize;
            let (mut to, mut back) = (vec![0; len], vec![0; len]);
            shuffle::shuffle(typesize, &bytes, &mut to);
            for (i, byte) in bytes[..count * typesize].iter().enumerate() {
                assert_eq!(to[i % typesize * count + i / typesize], *byte);
            }
            shuffle::unshuffle(typesize, &to, &mut back);
            assert!(back == bytes, "{typesize}, {len}");

            shuffle::shuffle_bits(typesize, &bytes, &mut to);
            let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (at % 8) & 1;
            if count % 8 == 0 {
                let weights = typesize * 8;
                for at in 0..count * weights {
                    let shuffled = bit(&to, at % weights * count + at / weights);
                    assert_eq!(shuffled, bit(&bytes, at), "{typesize}, {len}, bit {at}");
                }
            } else {
                assert!(to == bytes);
            }
            shuffle::unshuffle_bits(typesize, &to, &mut back);
            assert!(back == bytes, "{typesize}, {len}");
        }
    }
}

/// Bytes that compress, of `len` in blocks that differ.
fn wavy(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 900) as u8 ^ (i * 7 % 13) as u8).collect()
}

/// The result equals compressing all of it, whatever has changed.
#[test]
fn blocks_that_did_not_change_are_copied() {
    for codec in Codec::ALL.into_iter().filter(|codec| codec.is_writable()) {
        for (typesize, level) in [(1, 5), (4, 5), (8, 1), (100, 5), (4, 0)] {
            let blocksize = Some(2000 / typesize.min(4));
            let params = Params { codec, level, typesize, blocksize, ..Params::default() };
            let old = wavy(40_000);
            let (mut before, mut scratch) = (Vec::new(), Scratch::default());
            compress(&params, &old, &mut before).unwrap();
            for changed in [0..0, 5..6, 17_000..19_000, 39_999..40_000, 0..20_000, 0..40_000] {
                let mut new = old.clone();
                new[changed.clone()].iter_mut().for_each(|byte| *byte ^= 0x55);
                let (mut expected, mut found) = (Vec::new(), vec![1, 2, 3]);
                compress(&params, &new, &mut expected).unwrap();
                let len = scratch.compress_changed(&params, &before, &new, &mut found).unwrap();
                assert!(found[3..] == expected, "{params:?} {changed:?}");
                assert_eq!((len, &found[..3]), (expected.len(), &[1, 2, 3][..]));
                // Where it is known what changed; it may be less.
                for known in [changed.clone(), changed.start / 2..changed.end] {
                    found.truncate(3);
                    scratch.compress_changed_in(&params, &before, &new, known, &mut found).unwrap();
                    assert!(found[3..] == expected, "{params:?} {changed:?}");
                }
            }
        }
    }
}

/// Random bytes in one place do not make the whole chunk a copy.
#[test]
fn a_block_that_does_not_compress_any_more() {
    let params =
        Params { codec: Codec::Lz4, typesize: 4, blocksize: Some(8192), ..Params::default() };
    let old = wavy(1 << 20);
    let (mut before, mut found) = (Vec::new(), Vec::new());
    compress(&params, &old, &mut before).unwrap();
    let mut new = old;
    let mut random = 1_u64;
    for byte in &mut new[100_000..300_000] {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *byte = (random >> 56) as u8;
    }
    Scratch::default().compress_changed(&params, &before, &new, &mut found).unwrap();
    assert!(decompress(&found, new.len()).unwrap() == new);
    assert!(!Header::parse(&found).unwrap().is_memcpyed());
}

/// The earlier chunk may be damaged, be of other bytes, or be no chunk: the result is right.
#[test]
fn nothing_is_believed_of_the_chunk_before() {
    let params =
        Params { codec: Codec::Lz4, typesize: 4, blocksize: Some(500), ..Params::default() };
    let (old, mut before) = (wavy(8000), Vec::new());
    compress(&params, &old, &mut before).unwrap();
    let mut new = old;
    new[3000] ^= 1;
    let mut scratch = Scratch::default();
    let mut check = |before: &[u8]| {
        let mut found = Vec::new();
        scratch.compress_changed(&params, before, &new, &mut found).unwrap();
        assert!(decompress(&found, new.len()).unwrap() == new);
    };
    for bit in (0..before.len() * 8).step_by(if cfg!(miri) { 997 } else { 3 }) {
        let mut damaged = before.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        check(&damaged);
    }
    (0..before.len()).step_by(41).for_each(|len| check(&before[..len]));
    let mut other = Vec::new();
    compress(&params, &wavy(9000)[1000..], &mut other).unwrap();
    check(&other);
}
