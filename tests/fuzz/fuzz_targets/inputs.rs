//! What other libraries write, as files that are anything. The first byte says what they are.
#![no_main]

mod caught;

use std::fs;
use std::path::{Path, PathBuf};

use kiste::convert::{
    ArrowIpcReader, CifarLabels, CifarReader, CsvReader, Format, ImageFolderReader, ImageOptions, Input,
    JsonLinesReader, MdsReader, MnistReader, NpzReader, ParquetReader, Resize, StoredAs,
    ChromaSubsampling, TfRecordReader, WebDatasetReader,
};
use kiste::format::msgpack;
use libfuzzer_sys::fuzz_target;

/// No file, line, row, record, page or batch may have more bytes.
const LIMIT: u64 = 1 << 22;

/// These bytes as a file, in memory where the system has such a thing.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let dir = root.join(format!("kiste-fuzz-inputs-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// Reads all; what is handed on as a sample must be one.
fn drain(input: &dyn Input) {
    for unit in 0..input.units() {
        let _ = input.read(unit, &mut |sample| {
            if let Ok(sample) = sample {
                msgpack::check_sample(&sample).unwrap();
            }
            Ok(())
        });
    }
}

fn drain_if(input: kiste::Result<impl Input>) {
    if let Ok(input) = input {
        drain(&input);
    }
}

/// Reads the bytes as a file of one of these formats.
fn read_file(which: u8, bytes: &[u8]) {
    let name =
        ["x.parquet", "x.arrow", "x.csv", "x.npz", "x.jsonl", "x.tfrecord", "x.tar", "x.tsv"];
    let path = file(name[usize::from(which)], bytes);
    match which {
        0 => drain_if(ParquetReader::open(&path).map(|table| table.max_bytes(LIMIT))),
        1 => drain_if(ArrowIpcReader::open(&path).map(|table| table.max_bytes(LIMIT))),
        2 => {
            let table = CsvReader::open(&path).unwrap().max_bytes(LIMIT);
            drain(&table);
            drain_if(table.guess_types());
        }
        3 => drain_if(NpzReader::options().max_bytes(LIMIT).open(&path)),
        4 => drain(&JsonLinesReader::open(&path).unwrap().max_bytes(64).unit_bytes(100)),
        5 => drain(&TfRecordReader::open(&path).unwrap().max_bytes(LIMIT)),
        6 => drain(&WebDatasetReader::open(&path).unwrap().max_bytes(LIMIT)),
        _ => drain_if(ImageFolderReader::options().root("/nonexistent").list(&path)),
    }
}

/// A folder of two images, of which this file says something.
fn read_folder(name: &str, bytes: &[u8]) {
    let path = file(name, bytes);
    let root = path.parent().unwrap().join("folder");
    fs::create_dir_all(root.join("cat")).unwrap();
    for other in ["metadata.csv", "metadata.jsonl"] {
        let _ = fs::remove_file(root.join(other));
    }
    fs::rename(path, root.join(name)).unwrap();
    for image in ["a.png", "cat/b.png"] {
        fs::write(root.join(image), b"\x89PNG\r\n\x1a\n").unwrap();
    }
    drain_if(ImageFolderReader::open(&root));
}

/// A directory of MDS: the index up to the first zero, then the shard.
fn read_mds(bytes: &[u8]) {
    let (index, shard) = match bytes.iter().position(|&b| b == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &b""[..]),
    };
    let index = file("index.json", index);
    file("shard.00000.mds", shard);
    drain_if(MdsReader::open(index.parent().unwrap()).map(|mds| mds.max_bytes(LIMIT)));
}

/// How images are to be changed, as it is typed in.
fn read_options(text: &str) {
    let _ = (text.parse::<Resize>(), text.parse::<StoredAs>(), text.parse::<ChromaSubsampling>());
}

/// An image that is anything, which may be small only.
fn change_image(bytes: &[u8]) {
    let mut sample = Vec::new();
    msgpack::write_map(2, &mut sample).unwrap();
    for text in ["key", "a", "image"] {
        msgpack::write_text(text, &mut sample).unwrap();
    }
    msgpack::write_bin(bytes, &mut sample).unwrap();
    let options = ImageOptions::new().max_pixels(1 << 16);
    for options in [options.clone().verify(true), options.resize(Resize::Max(16))] {
        if let Ok(changed) = options.apply(&sample) {
            msgpack::check_sample(&changed).unwrap();
        }
    }
}

fuzz_target!(init: caught::abort_if_uncaught(), |bytes: &[u8]| {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    match which % 17 {
        0 => change_image(bytes),
        which @ 1..=8 => read_file(which - 1, bytes),
        9 => read_folder("metadata.csv", bytes),
        10 => read_folder("metadata.jsonl", bytes),
        11 => read_mds(bytes),
        12 => drain_if(MnistReader::options().max_bytes(LIMIT).open(file("images", bytes))),
        13 => drain_if(CifarReader::open(file("batch", bytes), CifarLabels::Ten)),
        14 => drain_if(CifarReader::open(file("train", bytes), CifarLabels::Hundred)),
        15 => read_options(&String::from_utf8_lossy(bytes)),
        _ => drop(Format::of_input(file("x.gz", bytes))),
    }
});
