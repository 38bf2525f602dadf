//! Encodings and shards made by hand.

use std::collections::BTreeMap;

use super::*;
use crate::Value;
use crate::value::NdArray;

#[test]
fn encodings_by_their_names() {
    let names = [
        "bytes",
        "str",
        "int",
        "str_int",
        "str_float",
        "str_decimal",
        "json",
        "pil",
        "jpeg",
        "png",
        "list[pil]",
        "list[jpeg]",
        "list[png]",
        "jpeg_array",
        "jpegarray",
        "pkl",
        "uint8",
        "float16",
        "ndarray",
        "ndarray:int8",
        "ndarray:float64:2,3",
    ];
    for name in names {
        assert_eq!(Encoding::parse(name).unwrap().to_string(), name);
    }
    assert_eq!(Encoding::parse("ndarray:").unwrap(), Encoding::Array(None, None));
    assert_eq!(Encoding::parse("ndarray:float64:2,3").unwrap().size(), Some(48));
    for name in [
        "",
        "float",
        "ndarrays",
        "ndarray:x",
        "ndarray::2",
        "ndarray:int8:",
        "ndarray:int8:0",
        "ndarray:int8:-1",
        "ndarray:int8:4294967296,4294967296",
        "ndarray:int8:1:1",
    ] {
        assert!(Encoding::parse(name).is_err(), "{name:?}");
    }
}

#[test]
fn values_that_are_refused() {
    let table: &[(&str, &[u8])] = &[
        ("str", b"\xff"),
        ("int", &[0; 7]),
        ("uint16", &[0; 3]),
        ("str_int", b"1.0"),
        ("str_int", b"99999999999999999999"),
        ("str_float", b"x"),
        ("json", b"{"),
        ("ndarray", b""),
        ("ndarray", &[7, 4, 0]),
        ("ndarray", &[8]),
        ("ndarray", &[8, 4]),
        ("ndarray", &[8, 4, 2, 0]),
        // A shape beyond all memory.
        (
            "ndarray",
            &[
                8,
                2 << 2 | 3,
                255,
                255,
                255,
                255,
                255,
                255,
                255,
                255,
                255,
                255,
                255,
                255,
                255,
                255,
                255,
                255,
            ],
        ),
        ("ndarray:int8:2", &[0]),
        ("jpeg_array", &[1, 0, 0]),
        ("jpeg_array", &[255, 255, 255, 255, 0]),
        ("jpeg_array", &[1, 0, 0, 0, 2, 0, 0, 0, 0]),
        ("jpeg_array", &[0, 0, 0, 0, 0]),
        ("list[png]", &[0, 0, 0]),
        ("pkl", b"N."),
    ];
    for (name, bytes) in table {
        assert!(Encoding::parse(name).unwrap().decode(bytes).is_err(), "{name} {bytes:?}");
    }
    let list = Encoding::parse("list[png]").unwrap();
    let images = [0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7];
    assert_eq!(list.decode(&images), Ok(Decoded::List(vec![&[7], &[]])));
}

fn info() -> ShardInfo {
    let columns = [("a", "str"), ("b", "int"), ("c", "ndarray")];
    let column = |(name, encoding)| Column::new(name, Encoding::parse(encoding).unwrap());
    ShardInfo {
        columns: columns.map(column).into(),
        compression: None,
        hashes: vec![],
        raw: FileInfo { basename: "shard.00000.mds".into(), bytes: 8, hashes: BTreeMap::new() },
        zip: None,
        samples: 2,
        size_limit: None,
    }
}

#[test]
fn a_shard_there_and_back() {
    let info = info();
    let array = NdArray::new("<i2".parse().unwrap(), [300, 1], vec![7; 600]).unwrap();
    let values = |text: &str| {
        vec![
            Decoded::Value(text.into()),
            Decoded::Value(Value::from(-5)),
            Decoded::Array(array.clone()),
        ]
    };
    let samples: Vec<Vec<u8>> = ["", "text"]
        .iter()
        .map(|text| encode_sample(&info.columns, &values(text)).unwrap())
        .collect();
    let bytes = encode_shard(&info, &samples).unwrap();
    let shard = Shard::parse(&bytes, &info.columns).unwrap();
    assert_eq!((shard.len(), shard.columns(2)), (2, None));
    for (at, text) in ["", "text"].iter().enumerate() {
        let columns = shard.columns(at).unwrap().unwrap();
        let found = info.columns.iter().zip(columns);
        let found: Vec<_> =
            found.map(|(c, (bytes, _))| c.encoding.decode(bytes).unwrap()).collect();
        assert_eq!(found, values(text));
    }

    for end in 0..bytes.len() {
        assert!(Shard::parse(&bytes[..end], &info.columns).is_err(), "{end}");
    }
    // Headers and lengths are compared with the actual bytes.
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            let Ok(shard) = Shard::parse(&changed, &info.columns) else { continue };
            for index in 0..shard.len() {
                let Ok(columns) = shard.columns(index).unwrap() else { continue };
                for (column, (bytes, range)) in info.columns.iter().zip(columns) {
                    assert_eq!(bytes, &changed[range]);
                    let _ = column.encoding.decode(bytes);
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_its_column() {
    let encode = |name: &str, value: Decoded<'_>| {
        encode_sample(&[Column::new("a", Encoding::parse(name).unwrap())], &[value])
    };
    assert_eq!(encode("int", Decoded::Value(u64::MAX.into())), None);
    assert_eq!(encode("str", Decoded::Bytes(b"")), None);
    let array = |shape: &[usize], bytes: &'static [u8], dtype: &str| {
        Decoded::Array(NdArray::new(dtype.parse().unwrap(), shape, bytes).unwrap())
    };
    assert_eq!(encode("ndarray", array(&[], &[1], "u1")), None);
    assert_eq!(encode("ndarray", array(&[0], &[], "u1")), None);
    assert_eq!(encode("ndarray", array(&[1], &[1], "?")), None);
    assert_eq!(encode("ndarray", array(&[1], &[1, 2], ">i2")), None);
    assert_eq!(
        encode("ndarray", array(&[1], &[1, 2], "<i2")),
        Some(vec![4, 0, 0, 0, 17, 4, 1, 1, 2][..].to_vec()).map(|mut v| {
            v[0] = 5;
            v
        })
    );
    assert_eq!(encode_sample(&[], &[Decoded::Bytes(b"")]), None);
}

#[test]
fn an_index_there_and_back() {
    let index = Index { shards: vec![info(), ShardInfo { size_limit: Some(9), ..info() }] };
    let json = index.render();
    assert_eq!(Index::parse(json.as_bytes()), Ok(index));
    for (from, to) in [
        ("\"version\": 2}", "\"version\": 3}"),
        ("\"mds\"", "\"json\""),
        ("\"shard.00000.mds\"", "\"../shard.00000.mds\""),
        ("\"shard.00000.mds\"", "\"/etc/passwd\""),
        ("\"shard.00000.mds\"", "\"a\\\\b\""),
        ("\"shard.00000.mds\"", "\"\""),
        ("\"str\"", "\"string\""),
        ("\"a\", ", ""),
        ("null, 8", "8"),
        ("\"samples\": 2", "\"samples\": -2"),
    ] {
        let changed = json.replace(from, to);
        assert_ne!(changed, json);
        assert!(Index::parse(changed.as_bytes()).is_err(), "{from} {to}");
    }
    for end in 0..json.len() {
        assert!(Index::parse(&json.as_bytes()[..end]).is_err(), "{end}");
    }
}
