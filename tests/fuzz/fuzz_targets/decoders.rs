//! What other libraries write, without files: headers of tar, TFRecord examples, indexes and shards of
//! MDS, pickles, idx, footers of Parquet and Arrow. The first byte says which.
#![no_main]

use kiste::format::__private::mds::{Column, Encoding, Index, Shard};
use kiste::format::__private::pickle::{Object, Pickle};
use kiste::format::__private::tfrecord::{HEADER, encode, example, parse_header};
use kiste::format::__private::{idx, parquet, tar};
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

fn archive(bytes: &[u8]) {
    if let Some(block) = bytes.first_chunk() {
        let _ = tar::parse_header(block);
    }
    let _ = tar::pax_records(bytes);
}

fn record(bytes: &[u8]) {
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

fn shard(bytes: &[u8]) {
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

fn table(bytes: &[u8]) {
    let _ = (parquet::parse_page_header(bytes), parquet::check_footer(bytes));
    if let Some(tail) = bytes.last_chunk() {
        let _ = parquet::parse_tail(tail);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    match which % 8 {
        0 => archive(bytes),
        1 => record(bytes),
        2 => {
            if let Ok(index) = Index::parse(bytes) {
                assert_eq!(Index::parse(index.render().as_bytes()).unwrap(), index);
            }
        }
        3 => shard(bytes),
        4 => {
            if let Ok(pickle) = Pickle::parse(bytes) {
                look_at(pickle.root(), 6);
            }
        }
        5 => drop(idx::decode(bytes)),
        6 => table(bytes),
        _ => {
            if let Ok(text) = std::str::from_utf8(bytes) {
                let _ = Encoding::parse(text);
            }
        }
    }
});
