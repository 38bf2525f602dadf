//! What other libraries write: headers and records of anything, and files that are anything.
#![no_main]

use std::fs;
use std::path::PathBuf;

use kiste::convert::{
    ArrowIpc, Csv, ImageFolder, ImageOptions, Input, JsonLinesFile, Npz, Parquet, Resize,
    TfRecords, WebDataset,
};
use kiste::format::mds::{Column, Encoding, Index, Shard};
use kiste::format::pickle::{Object, Pickle};
use kiste::format::tfrecord::{HEADER, encode, example, parse_header};
use kiste::format::{idx, msgpack, tar};
use libfuzzer_sys::fuzz_target;

/// An object in itself has no end, so this looks only so far.
fn look_at(object: Object<'_, '_>, depth: usize) {
    let _ = (object.as_int(), object.as_float(), object.as_name(), object.get("data"));
    if let Some(array) = object.as_array() {
        assert_eq!(array.bytes().len(), array.len() * array.dtype().item_size());
    }
    if depth > 0 {
        object.items().into_iter().flatten().take(4).for_each(|item| look_at(item, depth - 1));
    }
}

/// No file, line, row, record, page or batch may have more bytes.
const LIMIT: u64 = 1 << 22;

/// These bytes as a file.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("kiste-fuzz-inputs-{}", std::process::id()));
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

/// Whatever is a file, read as one of these.
fn read_file(which: u8, bytes: &[u8]) {
    let name = ["x.parquet", "x.arrow", "x.csv", "x.npz", "x.jsonl", "x.tfrecord", "x.tar", "x.tsv"];
    let path = file(name[usize::from(which)], bytes);
    let names = [path.to_str().unwrap()];
    match which {
        0 => drain_if(Parquet::open(names).map(|table| table.max_bytes(LIMIT))),
        1 => drain_if(ArrowIpc::open(names).map(|table| table.max_bytes(LIMIT))),
        2 => {
            let table = Csv::open(names).unwrap().max_bytes(LIMIT);
            drain(&table);
            drain_if(table.guess_types());
        }
        3 => drain_if(Npz::rows_within(&path, LIMIT)),
        4 => drain(&JsonLinesFile::open(&path).unwrap().max_bytes(64).unit_bytes(100)),
        5 => drain(&TfRecords::open(names).unwrap().max_bytes(LIMIT)),
        6 => drain(&WebDataset::open(names).unwrap().max_bytes(LIMIT)),
        _ => drain_if(ImageFolder::options().root("/nonexistent").list(&path)),
    }
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

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    match which % 15 {
        0 => {
            if let Some(block) = bytes.first_chunk() {
                let _ = tar::parse_header(block);
            }
            let _ = tar::pax_records(bytes);
        }
        1 => {
            if let Some(header) = bytes.first_chunk::<HEADER>() {
                let _ = parse_header(header);
            }
            if let Ok(features) = example::decode(bytes) {
                let again = example::encode(&features);
                // Compared as text, as NaN is not itself.
                let features = format!("{features:?}");
                assert_eq!(format!("{:?}", example::decode(&again).unwrap()), features);
                encode(&again, &mut Vec::new());
            }
        }
        2 => {
            if let Ok(index) = Index::parse(bytes) {
                assert_eq!(Index::parse(index.render().as_bytes()).unwrap(), index);
            }
        }
        3 => {
            let names = ["str", "ndarray", "jpeg_array", "list[png]", "json", "int", "ndarray:int8"];
            let columns = names.map(|name| Column::new(name, Encoding::parse(name).unwrap()));
            for columns in [&columns[..], &columns[1..2], &columns[2..4]] {
                let Ok(shard) = Shard::parse(bytes, columns) else { continue };
                for at in 0..shard.len() {
                    let Some(Ok(found)) = shard.columns(at) else { continue };
                    for (column, (bytes, _)) in columns.iter().zip(found) {
                        let _ = column.encoding.decode(bytes);
                    }
                }
            }
        }
        4 => {
            if let Ok(pickle) = Pickle::parse(bytes) {
                look_at(pickle.root(), 6);
            }
        }
        5 => {
            let _ = idx::decode(bytes);
        }
        6 => change_image(bytes),
        which => read_file(which - 7, bytes),
    }
});
