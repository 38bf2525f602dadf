//! Exchange with the real bloscpack, for `tests/compat/python_bloscpack.py`, which says where.

use std::fs;
use std::path::{Path, PathBuf};

use kiste::array::{AppendOptions, PackOptions, PackedArray};
use kiste::format::blosc::{Codec, Shuffle};
use kiste::format::bloscpack::{Checksum, Container};
use kiste::storage::LocalStorage;
use kiste::value::{DType, NdArray};
use serde_json::{Value as Json, json};

use super::{sample, sha256};

const DTYPES: [&str; 9] = [
    "'|b1'",
    "'<i2'",
    "'>i4'",
    "'<f8'",
    "'<c16'",
    "'|S5'",
    "'<U3'",
    "'<M8[ns]'",
    "[('a', '<i4'), ('b', '<f8', (2,)), ('\u{fc}', '|S3')]",
];

fn folder() -> PathBuf {
    PathBuf::from(std::env::var("KISTE_EXCHANGE").expect("the script names the folder"))
}

fn entries(list: &Path) -> Vec<Json> {
    serde_json::from_slice(&fs::read(list).unwrap()).unwrap()
}

#[test]
#[ignore = "run by tests/compat/python_bloscpack.py"]
fn write_for_python() {
    let mut list = Vec::new();
    for dtype in DTYPES {
        let dtype: DType = dtype.parse().unwrap();
        for codec in Codec::ALL.into_iter().filter(|codec| codec.is_writable()) {
            for shuffle in [Shuffle::None, Shuffle::Byte, Shuffle::Bit] {
                for (i, checksum) in Checksum::ALL.into_iter().enumerate() {
                    for len in [0, 1, 10, 1003] {
                        let shape = if len == 1003 { vec![17, 59] } else { vec![len] };
                        let mut bytes = sample(len * dtype.item_size(), i);
                        // Truth values are 0 and 1, and texts are below the last character.
                        if dtype.item_size() == 1 || dtype.to_string().starts_with("<U") {
                            bytes.iter_mut().enumerate().for_each(|(i, byte)| {
                                *byte =
                                    if dtype.item_size() == 1 || i % 4 == 0 { *byte & 1 } else { 0 }
                            });
                        }
                        let array = NdArray::new(dtype.clone(), shape, bytes).unwrap();
                        let compact = (i + len) % 2 == 0;
                        let options =
                            if compact { PackOptions::compact() } else { PackOptions::default() };
                        let options = options.codec(codec).shuffle(shuffle).checksum(checksum);
                        let packed = options.chunk_size(1000).pack(&array).unwrap();
                        let name = format!("{}.blp", list.len());
                        fs::write(folder().join("ours").join(&name), &packed).unwrap();
                        list.push(json!({
                            "name": name, "dtype": dtype.to_string(), "shape": array.shape(),
                            "sha256": sha256(array.bytes()),
                        }));
                    }
                }
            }
        }
    }
    let text = serde_json::to_vec(&list).unwrap();
    fs::write(folder().join("ours.json"), text).unwrap();
    for (i, len) in [40, 1000, 2100, 2500].into_iter().enumerate() {
        let options = PackOptions::default().chunk_size(1000).max_app_chunks(100);
        let packed = options.pack_bytes(&sample(len, i), Some(&json!({"i": i}))).unwrap();
        fs::write(folder().join(format!("ours/bytes{i}.blp")), packed).unwrap();
    }
}

#[test]
#[ignore = "run by tests/compat/python_bloscpack.py"]
fn read_from_python() {
    let list = entries(&folder().join("theirs.json"));
    for entry in &list {
        let name = entry["name"].as_str().unwrap();
        let bytes = fs::read(folder().join("theirs").join(name)).unwrap();
        let data = match entry.get("dtype") {
            Some(dtype) => {
                let packed = PackedArray::from_bytes(bytes).unwrap();
                assert_eq!(packed.dtype().to_string(), *dtype, "{name}");
                assert_eq!(json!(packed.shape()), entry["shape"], "{name}");
                packed.read().unwrap().bytes().to_vec()
            }
            None => Container::parse(&bytes).unwrap().to_vec().unwrap(),
        };
        assert_eq!(sha256(&data), entry["sha256"], "{name}");
    }
    assert!(list.len() > 100);
}

#[test]
#[ignore = "run by tests/compat/python_bloscpack.py"]
fn append_to_python() {
    for entry in entries(&folder().join("theirs.json")) {
        if let Some(size) = entry.get("append") {
            let path = folder().join("theirs").join(entry["name"].as_str().unwrap());
            let more = vec![7; size.as_u64().unwrap() as usize];
            let options = AppendOptions::default();
            options.append_bytes(&LocalStorage::mapped(), &path, &more).unwrap();
        }
    }
}
