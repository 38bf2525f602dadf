//! `PackedWriter` and `PackedReader`: bytes that come and go in pieces.

use std::io::{Cursor, Read, Seek, Write};

use kiste::array::{PackOptions, PackedReader, PackedWriter};
use kiste::format::bloscpack::{Checksum, Container, Header};

use super::{golden, sample, sha256};

/// Gives a few bytes at a time, as a pipe does.
struct Pipe<'a>(&'a [u8]);

impl Read for Pipe<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let len = out.len().min(13);
        self.0.read(&mut out[..len])
    }
}

fn read(bytes: &[u8]) -> kiste::Result<Vec<u8>> {
    let mut out = Vec::new();
    let io = |error: std::io::Error| error.downcast::<kiste::Error>().unwrap();
    PackedReader::new(Pipe(bytes))?.read_to_end(&mut out).map_err(io)?;
    Ok(out)
}

#[test]
fn files_of_bloscpack_come_through_a_pipe() {
    for folder in ["bytes", "append", "meta", "nd"] {
        for (name, bytes, entry) in golden(folder) {
            let data = read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
            let whole = Container::parse(&bytes).unwrap().to_vec().unwrap();
            assert!(data == whole, "{name}");
            let metadata = PackedReader::new(&bytes[..]).unwrap().metadata().cloned();
            if name != "nan" {
                assert_eq!(metadata.as_ref(), entry.get("metadata"), "{name}");
            }
        }
    }
}

#[test]
fn what_the_container_refuses_a_pipe_refuses() {
    for (name, bytes, entry) in golden("corrupt") {
        if entry["kind"] == "ndarray" {
            continue;
        }
        match (read(&bytes), &entry["expect"]["ok"]) {
            (Ok(data), ok) => {
                assert_ne!(*ok, false, "{name}");
                if let Some(digest) = entry["expect"]["sha256_if_ok"].as_str() {
                    assert_eq!(sha256(&data), digest, "{name}");
                }
            }
            (Err(error), ok) => assert_ne!(*ok, true, "{name}: {error}"),
        }
    }
}

#[test]
fn what_is_written_in_pieces_is_read() {
    let metadata = serde_json::json!({"from": "a pipe"});
    for len in [0, 1, 99, 100, 101, 200, 1234] {
        for (offsets, room) in [(false, 0), (true, 13), (true, 40)] {
            let options = PackOptions::default().chunk_size(100).offsets(offsets);
            let options = options.max_app_chunks(room).checksum(Checksum::Crc32);
            let to = Cursor::new(b"before".to_vec());
            let mut to = to;
            to.seek(std::io::SeekFrom::End(0)).unwrap();
            let mut writer = PackedWriter::new(to, &options, Some(&metadata)).unwrap();
            for piece in sample(len, 0).chunks(37) {
                writer.write_all(piece).unwrap();
                writer.flush().unwrap();
            }
            let file = writer.finish().unwrap().into_inner();
            let bytes = &file[6..];
            assert_eq!(read(bytes).unwrap(), sample(len, 0));
            let container = Container::parse(bytes).unwrap();
            assert_eq!(container.to_vec().unwrap(), sample(len, 0));
            assert_eq!(container.header().slots(), room);
            assert_eq!(container.nbytes().unwrap(), len as u64);
            assert_eq!(container.metadata().unwrap().value().unwrap(), metadata);
        }
    }
}

#[test]
fn more_chunks_than_offsets_are_an_error() {
    let options = PackOptions::default().chunk_size(10).max_app_chunks(2);
    let mut writer = PackedWriter::new(Cursor::new(Vec::new()), &options, None).unwrap();
    writer.write_all(&[0; 20]).unwrap();
    let more = writer.write_all(&[0; 11]);
    assert!(more.unwrap_err().to_string().contains("at most 2 chunks"));
}

/// An unfinished container never passes for a shorter one, wherever it was cut off, except where it
/// ends with a whole chunk: that is what a stream looks like.
#[test]
fn unfinished_containers() {
    let options = PackOptions::default().chunk_size(100).checksum(Checksum::Adler32);
    let mut writer = PackedWriter::new(Cursor::new(Vec::new()), &options, None).unwrap();
    writer.write_all(&sample(500, 0)).unwrap();
    let mut file = writer.finish().unwrap().into_inner();
    let ends: Vec<usize> =
        Container::parse(&file).unwrap().chunks().map(|chunk| chunk.unwrap().end()).collect();
    let stream =
        Header { nchunks: None, last_chunk: None, ..*Container::parse(&file).unwrap().header() };
    file[..32].copy_from_slice(&stream.encode());
    for len in 33..file.len() {
        let found = read(&file[..len]);
        match ends.iter().position(|&end| end == len) {
            Some(i) => assert_eq!(found.unwrap(), sample((i + 1) * 100, 0)),
            None => assert!(found.is_err(), "{len}"),
        }
    }
    let mut reader = PackedReader::new(&file[..100]).unwrap();
    assert!(reader.read_to_end(&mut Vec::new()).is_err());
    assert!(reader.read_to_end(&mut Vec::new()).is_err(), "the error stays");
}

/// Also where a length of 32 bits and a digest behind it is none.
#[test]
fn no_length_in_the_metadata_is_believed() {
    for (name, file, _) in golden("meta") {
        for at in (32..64).step_by(4) {
            let mut file = file.clone();
            file[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            let (found, whole) = (read(&file), Container::parse(&file).and_then(|c| c.to_vec()));
            assert!(found.is_err() || found.ok() == whole.ok(), "{name} {at}");
        }
    }
}

/// Memory follows what arrives.
#[test]
fn a_promise_of_gigabytes_allocates_nothing() {
    let mut file =
        Header { chunk_size: Some(2_000_000_000), ..Header::default() }.encode().to_vec();
    file.extend([2, 1, 0x12, 1]);
    for number in [2_000_000_000u32, 2_000_000_000 / 3, 2_000_000_016] {
        file.extend(number.to_le_bytes());
    }
    assert!(read(&file).is_err());
}
