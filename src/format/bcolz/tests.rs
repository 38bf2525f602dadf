//! The parts of the format one by one. Files written by bcolz are compared in `tests/array/bcolz`.

use serde_json::{Map, Value, json};

use super::variant::Variant;
use super::*;
use crate::format::blosc::{Params, compress, decompress};
use crate::format::bloscpack::{Checksum, Encoder, Header};
use crate::value::{ByteOrder, DTypeKind};

fn storage(dtype: &str, dflt: &str) -> String {
    format!(
        "{{\"dtype\": \"{dtype}\", \"cparams\": {{\"clevel\": 5, \"shuffle\": 1, \"cname\": \"lz4\", \
         \"quantize\": 0}}, \"chunklen\": 8, \"expectedlen\": 9, \"dflt\": {dflt}}}\n"
    )
}

#[test]
fn default_values_go_there_and_back() {
    for (dtype, dflt, bytes) in [
        ("int8", "-2", vec![254]),
        (">i2", "-2", vec![255, 254]),
        ("uint16", "65535", vec![255, 255]),
        ("bool", "true", vec![1]),
        ("float32", "1.5", 1.5_f32.to_le_bytes().to_vec()),
        ("float64", "NaN", f64::NAN.to_le_bytes().to_vec()),
        (">f8", "-Infinity", f64::NEG_INFINITY.to_be_bytes().to_vec()),
        ("float64", "1e-05", 1e-5_f64.to_le_bytes().to_vec()),
        ("complex64", "0", vec![0; 8]),
        ("datetime64[s]", "0", vec![0; 8]),
        ("|S3", "\"ab\"", b"ab\0".to_vec()),
        (">U2", "\"\\u00e9\"", vec![0, 0, 0, 0xe9, 0, 0, 0, 0]),
        ("<U2", "\"NaN\"", vec![]),
        ("uint8", "256", vec![]),
        ("int8", "128", vec![]),
        ("int8", "null", vec![]),
    ] {
        let text = storage(dtype, dflt);
        let parsed = Storage::parse(text.as_bytes()).unwrap();
        assert_eq!(parsed.to_json(), text);
        let expected = (!bytes.is_empty()).then_some(bytes);
        assert_eq!(parsed.fill(), expected, "{dtype} {dflt}");
        if let Some(bytes) = expected {
            assert_eq!(dflt_of(&bytes, &parsed.dtype).unwrap(), parsed.dflt, "{dtype}");
        }
    }
    assert!(dflt_of(&[1; 8], &"complex64".parse().unwrap()).is_err());
    assert!(dflt_of(b"\xff", &"|S1".parse().unwrap()).is_err());
    assert!(dflt_of(b"abc", &"|S1".parse().unwrap()).is_err());
}

#[test]
fn structures_have_a_list_of_default_values() {
    let text = storage("[('a', '<i4'), ('b', '>f8')]", "[1, NaN]");
    let parsed = Storage::parse(text.as_bytes()).unwrap();
    assert_eq!(parsed.to_json(), text);
    let nan = f64::NAN.to_be_bytes();
    assert_eq!(parsed.fill().unwrap(), [&[1, 0, 0, 0], &nan[..]].concat());
}

#[test]
fn names_without_a_byte_order_are_little_endian() {
    for dtype in ["int32", "=i4", "i4"] {
        let parsed = Storage::parse(storage(dtype, "0").as_bytes()).unwrap();
        assert_eq!(parsed.dtype.byte_order(), ByteOrder::Little, "{dtype}");
        assert_eq!(parsed.to_json(), storage("int32", "0"));
    }
    let parsed = Storage::parse(storage(">i4", "0").as_bytes()).unwrap();
    assert_eq!(parsed.dtype.byte_order(), ByteOrder::Big);
    assert_eq!(parsed.to_json(), storage(">i4", "0"));
    let object = Storage::parse(storage("object", "0").as_bytes()).unwrap();
    assert_eq!(object.dtype.kind(), DTypeKind::Object);
}

#[test]
fn files_with_fewer_keys_are_read() {
    // The example in the document of Blaze.
    let text = br#"{"dtype": "float64", "cparams": {"shuffle": true, "clevel": 5},
     "chunklen": 16384, "dflt": 0.0, "expectedlen": 10000000}"#;
    let parsed = Storage::parse(text).unwrap();
    let cparams = CParams { clevel: 5, shuffle: 1, cname: "blosclz".into(), quantize: 0 };
    assert_eq!((parsed.cparams, parsed.chunklen), (cparams, 16384));
    assert!(Storage::parse(br#"{"dtype": "i4", "chunklen": 1}"#).is_ok());
}

#[test]
fn what_is_no_file_of_bcolz_is_refused() {
    for text in ["", "{}", "[]", "{\"shape\": 5}", "{\"shape\": [], \"nbytes\": 0, \"cbytes\": 0}"]
    {
        assert!(Sizes::parse(text.as_bytes()).is_err(), "{text}");
    }
    for shape in ["[-1]", "[1.0]", "[\"1\"]", "[18446744073709551616]", "[[1]]", "[true]"] {
        let text = format!("{{\"shape\": {shape}, \"nbytes\": 0, \"cbytes\": 0}}");
        assert!(Sizes::parse(text.as_bytes()).is_err(), "{text}");
    }
    for text in
        ["{\"dtype\": 5, \"chunklen\": 1}", "{\"dtype\": \"i4\"}", "\u{fffd}", "{\"a\": \"NaN"]
    {
        assert!(Storage::parse(text.as_bytes()).is_err(), "{text}");
    }
    assert!(Sizes::parse(b"{\"shape\": [\xff]}").is_err());
    assert!(Storage::parse("[".repeat(100_000).as_bytes()).is_err());
}

#[test]
fn names_of_columns_stay_in_their_table() {
    for name in ["", ".", "..", "a/b", "/etc", "a\\b", "C:", "a\0", "__attrs__", "__rootdirs__"] {
        let text = names_to_json(&[name]);
        assert!(parse_names(text.as_bytes()).is_err(), "{name:?}");
    }
    for bad in ["{}", "{\"names\": []}", "{\"names\": [1]}", "{\"names\": [\"a\", \"a\"]}"] {
        assert!(parse_names(bad.as_bytes()).is_err(), "{bad}");
    }
    let names = ["a", "größe", "a b", "..."];
    assert_eq!(parse_names(names_to_json(&names).as_bytes()).unwrap(), names);
}

#[test]
fn attributes_may_be_missing() {
    assert_eq!(parse_attrs(b"").unwrap(), Map::new());
    assert_eq!(parse_attrs(b"\n").unwrap(), Map::new());
    let attrs = parse_attrs(b"{\"s\": \"gr\\u00fcn\", \"x\": NaN}\n").unwrap();
    assert_eq!(Value::Object(attrs), json!({"s": "grün", "x": "NaN"}));
    assert!(parse_attrs(b"[]").is_err());
    let attrs = json!({"l": [1, 2, {"a": null}], "temp": 22.5});
    let text = attrs_to_json(attrs.as_object().unwrap());
    assert_eq!(text, "{\"l\": [1, 2, {\"a\": null}], \"temp\": 22.5}\n");
}

#[test]
fn layouts_that_cannot_be_are_refused() {
    for (rows, chunklen, row) in [
        (1, 0, 1),
        (1, 1, 0),
        (u64::MAX, 1, 2),
        (1 << 62, 1, 8),
        (1 << 32, 1 << 31, 1),
        (1, 1, 1 << 31),
    ] {
        assert!(Layout::new(rows, chunklen, row).is_err(), "{rows} {chunklen} {row}");
    }
    // A chunk that never gets full may be of any length.
    let layout = Layout::new(10, u64::MAX, 8).unwrap();
    assert_eq!((layout.chunks(), layout.rows_of(0), layout.nbytes_of(0)), (1, 0..10, 80));
    assert_eq!(layout.rows_of(1), 10..10);
    assert_eq!(Layout::new(0, 5, 8).unwrap().chunks(), 0);
}

#[test]
fn only_the_last_chunk_may_hold_more() {
    let layout = Layout::new(25, 10, 4).unwrap();
    assert!(layout.check(0, 40).is_ok());
    assert!(layout.check(0, 44).is_err() && layout.check(0, 36).is_err());
    for (nbytes, fits) in
        [(20, true), (24, true), (40, true), (44, false), (22, false), (16, false)]
    {
        assert_eq!(layout.check(2, nbytes).is_ok(), fits, "{nbytes}");
    }
}

#[test]
fn chunks_are_as_long_as_bcolz_makes_them() {
    // `bcolz.utils.calc_chunksize` of this many MiB.
    for (bytes, chunk_size) in [
        (0_u64, 16 << 10),
        (104, 16 << 10),
        (105, 32 << 10),
        (1048, 32 << 10),
        (1049, 64 << 10),
        (10_485, 64 << 10),
        (10_486, 128 << 10),
        (104_857, 128 << 10),
        (104_858, 256 << 10),
        ((10 << 20) - 1, 256 << 10),
        (10 << 20, 512 << 10),
        (100 << 20, 1 << 20),
        (1000 << 20, 2 << 20),
        (10_000 << 20, 4 << 20),
        (u64::MAX, 4 << 20),
    ] {
        assert_eq!(chunklen_for(bytes, 1), chunk_size, "{bytes}");
    }
}

/// A header of 32 bytes: the bytes from 4 on, chunk size, last chunk, and two numbers.
fn long_header(bytes: [u8; 4], sizes: [i32; 2], numbers: [i64; 2]) -> Vec<u8> {
    let mut head = b"blpk".to_vec();
    head.extend(bytes);
    head.extend(sizes.map(i32::to_le_bytes).as_flattened());
    head.extend(numbers.map(i64::to_le_bytes).as_flattened());
    head
}

/// Chunks of these lengths, and the bytes in them.
fn chunks(lens: &[usize]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let contents: Vec<Vec<u8>> = lens.iter().zip(1..).map(|(&len, byte)| vec![byte; len]).collect();
    let chunk = |content: &Vec<u8>| {
        let mut chunk = Vec::new();
        compress(&Params::default(), content, &mut chunk).unwrap();
        chunk
    };
    (contents.iter().map(chunk).collect(), contents)
}

#[track_caller]
fn assert_holds(file: &[u8], variant: Variant, contents: &[Vec<u8>]) {
    assert_eq!(recognise(&file[..file.len().min(32)], file.len() as u64), variant);
    assert!(variant.is_readable());
    let superchunk = Superchunk::parse(file).unwrap();
    assert_eq!((superchunk.variant(), superchunk.len()), (variant, contents.len()));
    for (index, content) in contents.iter().enumerate() {
        let chunk = superchunk.chunk(file, index).unwrap();
        assert_eq!(decompress(chunk, content.len()).unwrap(), *content);
    }
    assert!(superchunk.chunk(file, contents.len()).is_err());
    // Damage is an error or goes unnoticed where nothing vouches for the bytes, and never worse.
    for at in 0..file.len() {
        assert!(Superchunk::parse(&file[..at]).map_or(true, |cut| cut.len() < contents.len()));
        for flip in [1, 0x80, 0xff] {
            let mut changed = file.to_vec();
            changed[at] ^= flip;
            if let Ok(found) = Superchunk::parse(&changed) {
                (0..found.len()).for_each(|index| drop(found.chunk(&changed, index)));
            }
        }
    }
}

#[test]
fn carray_superchunks_are_read_with_and_without_offsets() {
    let (chunks, contents) = chunks(&[1000, 1000, 10]);
    let size: usize = chunks.iter().map(Vec::len).sum();
    let mut plain = long_header([2, 0, 0, 0], [1000, 0], [(32 + size) as i64, 3]);
    plain.extend(chunks.concat());
    assert_holds(&plain, Variant::Carray { checksums: false, indexes: false }, &contents);

    // With five spare bytes behind each chunk, over which only the offsets lead.
    let spare: Vec<Vec<u8>> = chunks.iter().map(|chunk| [&chunk[..], &[0; 5]].concat()).collect();
    let len = 32 + 24 + size + 15;
    let mut indexed = long_header([2, 0, 1, 0], [1000, 0], [len as i64, 3]);
    let mut at = 56;
    for chunk in &spare {
        indexed.extend((at as i64).to_le_bytes());
        at += chunk.len();
    }
    indexed.extend(spare.concat());
    assert_holds(&indexed, Variant::Carray { checksums: false, indexes: true }, &contents);

    let mut checksums = plain.clone();
    checksums[5] = 1;
    let error = Superchunk::parse(&checksums).unwrap_err();
    assert_eq!(
        error.to_string(),
        "byte 0: expected a superchunk of a known kind, found a superchunk of the \
         carray proposal, with the size of the file and checksums of an unknown kind"
    );
}

#[test]
fn blaze_superchunks_are_read_with_metadata_offsets_and_digests() {
    let (chunks, contents) = chunks(&[1000, 1000, 10]);
    let metadata = br#"{"dtype": "uint8", "shape": [2010], "others": []}"#;
    for checksum in [Checksum::None, Checksum::Adler32, Checksum::Sha256] {
        for offsets in [None, Some(true), Some(false)] {
            let options = 2 | u8::from(offsets.is_some());
            let numbers = [3, metadata.len() as i64];
            let mut file = long_header([2, options, checksum.id(), 1], [1000, 10], numbers);
            file.extend(metadata);
            let mut at = file.len() + 24;
            for chunk in chunks.iter().filter(|_| offsets.is_some()) {
                // Unfilled entries are -1.
                let offset = if offsets == Some(true) { at as i64 } else { -1 };
                file.extend(offset.to_le_bytes());
                at += chunk.len() + checksum.size();
            }
            for chunk in &chunks {
                file.extend(chunk);
                file.extend(checksum.digest(chunk).as_slice());
            }
            let meta_size = metadata.len() as u32;
            let variant = Variant::Blaze { offsets: offsets.is_some(), checksum, meta_size };
            assert_holds(&file, variant, &contents);
            let superchunk = Superchunk::parse(&file).unwrap();
            assert_eq!(&file[superchunk.metadata().unwrap()], metadata);
            if checksum != Checksum::None {
                let at = superchunk.chunks()[1].end - 1;
                file[at] ^= 1;
                assert!(superchunk.chunk(&file, 1).is_err());
            }
        }
    }
}

#[test]
fn containers_of_every_version_are_read() {
    let (chunks, contents) = chunks(&[1000, 1000, 10]);
    let mut old = b"blpk\x01\0\0\0\x03\0\0\0\0\0\0\0".to_vec();
    old.extend(chunks.concat());
    assert_holds(&old, Variant::V1 { nchunks: Some(3) }, &contents);

    let single = [&HEADER_BYTES[..], &chunks[2]].concat();
    assert_holds(&single, Variant::ChunkFile, &contents[2..]);
    assert_holds(&chunks[1], Variant::BareChunk, &contents[1..2]);

    // The RFC has the header of bloscpack 0.2: no metadata, and eight bytes reserved.
    let mut rfc = long_header([2, 1, 1, 1], [1000, 10], [3, 0]);
    let mut at = 32 + 24;
    for chunk in &chunks {
        rfc.extend((at as i64).to_le_bytes());
        at += chunk.len() + 4;
    }
    for chunk in &chunks {
        rfc.extend(chunk);
        rfc.extend(Checksum::Adler32.digest(chunk).as_slice());
    }
    assert_holds(&rfc, Variant::V2, &contents);

    let header = Header {
        chunk_size: Some(1000),
        last_chunk: Some(10),
        nchunks: Some(3),
        offsets: true,
        ..Header::default()
    };
    let mut new = Vec::new();
    let mut encoder = Encoder::start(header, b"", &mut new).unwrap();
    for chunk in &chunks {
        new.extend(chunk);
        new.extend(encoder.push(chunk).unwrap().as_slice());
    }
    encoder.finish().unwrap().patch(&mut new);
    assert_holds(&new, Variant::V3, &contents);
}

#[test]
fn each_header_that_is_not_read_has_a_sentence() {
    let unknown = long_header([4, 0, 0, 8], [1000, 10], [1, 0]);
    let odd = long_header([2, 4, 0, 8], [1000, 10], [1, 0]);
    for (head, sentence) in [
        (&unknown[..], "a blpk header of version 4 that no document describes"),
        (&odd, "a blpk header of version 2 that no document describes"),
        (
            b"blpk\x01\x07\0\0\x01\0\0\0\0\0\0\0",
            "a blpk header of version 1 that no document describes",
        ),
        (b"blpk\x03", "a blpk header that is cut short"),
        (b"blpk", "a blpk header that is cut short"),
        (b"", "neither the magic blpk nor a Blosc chunk"),
        (b"XXXX\x01\0\0\0\x01\0\0\0\0\0\0\0", "neither the magic blpk nor a Blosc chunk"),
    ] {
        let variant = recognise(head, head.len() as u64);
        assert_eq!(variant.to_string(), sentence);
        assert!(!variant.is_readable());
        assert!(Superchunk::parse(head).unwrap_err().to_string().ends_with(sentence));
    }
    let file = [&b"blpk\x01\0\0\0\x02\0\0\0\0\0\0\0"[..], &chunks(&[10]).0[0]].concat();
    assert_eq!(
        chunk_in(&file).unwrap_err().to_string(),
        "byte 8: expected the header of a data file of bcolz: blpk, version 1, one chunk, found a \
         header of bloscpack version 1 with 2 chunks"
    );
}

#[test]
fn no_count_or_offset_is_believed() {
    let (chunks, _) = chunks(&[1000]);
    for count in [2, 1 << 40, i64::MAX] {
        let mut file = long_header([2, 3, 0, 1], [1000, 1000], [count, 2]);
        file.extend(b"{}");
        file.extend([0xff; 8]);
        file.extend(&chunks[0]);
        assert!(Superchunk::parse(&file).is_err(), "{count}");
    }
    for offset in [0, 41, 1 << 40, -2, i64::MIN] {
        let mut file = long_header([2, 3, 0, 1], [1000, 1000], [1, 2]);
        file.extend(b"{}");
        file.extend(i64::to_le_bytes(offset));
        file.extend(&chunks[0]);
        assert!(Superchunk::parse(&file).is_err(), "{offset}");
    }
}
