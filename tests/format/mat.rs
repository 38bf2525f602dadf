//! The MAT files of SciPy's own tests: what is read is what SciPy reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use kiste::format::__private::mat::{Array, Limits, MatFile, Sparse, Structs};
use kiste::value::{ByteOrder, DTypeKind, Element, NdArray};
use num_complex::Complex;
use serde_json::{Value as Json, json};

use crate::support::hex;

/// Files that are read otherwise than by SciPy, and why.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "bad_miutf8_array_name.mat",
    "the name of the variable is \"äray_name\", which SciPy refuses and we read",
)];

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/scipy-1.17.1")
}

fn manifest() -> BTreeMap<String, Json> {
    serde_json::from_slice(&fs::read(dir().join("manifest.json")).unwrap()).unwrap()
}

fn bytes_of(name: &str) -> Vec<u8> {
    fs::read(dir().join(name)).unwrap()
}

/// Numbers as the manifest has them: the low byte first, in C order.
fn numbers(array: &NdArray<'_>) -> Json {
    let dtype = array.dtype();
    let mut bytes = array.c_bytes().into_owned();
    if dtype.byte_order() == ByteOrder::Big
        || cfg!(target_endian = "big") && dtype.kind() == DTypeKind::Complex
    {
        let parts = if dtype.kind() == DTypeKind::Complex { 2 } else { 1 };
        bytes.chunks_exact_mut(dtype.item_size() / parts).for_each(<[u8]>::reverse);
    }
    let dtype = dtype.clone().with_byte_order(ByteOrder::Little);
    json!({"numbers": dtype.to_string(), "shape": array.shape(), "data": hex(&bytes)})
}

/// The whole matrix, unless it would be too large.
fn dense<T: Element>(sparse: &Sparse) -> Option<Json> {
    Some(numbers(&NdArray::from_ndarray(&sparse.to_dense::<T>().ok()?)))
}

/// Duplicates are renamed, as SciPy does, for which names are keys.
fn fields(structs: &Structs) -> Vec<String> {
    let fields = structs.fields().iter().enumerate();
    let renamed = fields.map(|(at, field)| {
        match structs.fields()[..at].iter().filter(|&other| other == field).count() {
            0 => field.clone(),
            before => format!("_{before}_{field}"),
        }
    });
    renamed.collect()
}

fn rendered(array: &Array) -> Json {
    match array {
        Array::Numbers(array) => numbers(array),
        Array::Chars(chars) => {
            json!({"chars": chars.rows().collect::<Vec<_>>(), "shape": chars.shape()})
        }
        Array::Cells(cells) => {
            json!({"cells": cells.iter().map(rendered).collect::<Vec<_>>(), "shape": cells.shape()})
        }
        Array::Structs(structs) => {
            let values = structs
                .iter()
                .map(|record| record.iter().map(|(_, value)| rendered(value)).collect::<Vec<_>>());
            let values: Vec<_> = values.collect();
            let mut json = json!({
                "struct": fields(structs), "shape": structs.shape(), "values": values
            });
            if let Some(class) = structs.class() {
                json["class"] = class.into();
            }
            json
        }
        Array::Sparse(sparse) => {
            let dense = match sparse.values().dtype().kind() {
                DTypeKind::Bool => dense::<bool>(sparse),
                DTypeKind::Complex => dense::<Complex<f64>>(sparse),
                _ => dense::<f64>(sparse),
            };
            json!({"sparse": dense, "stored": sparse.values().len()})
        }
        Array::Function(inner) => json!({"function": rendered(inner)}),
        Array::Opaque(_) => json!({"opaque": null}),
        other => panic!("{other:?}"),
    }
}

/// A file as the manifest has it, or the error.
fn read(bytes: &[u8]) -> Result<Json, String> {
    let limits = Limits { memory: 1 << 20 };
    let file = MatFile::with_limits(bytes, limits).map_err(|error| error.to_string())?;
    let mut variables = serde_json::Map::new();
    let mut globals = Vec::new();
    for variable in file.variables() {
        let name = match variable.name() {
            "" => "__function_workspace__",
            name => name,
        };
        let array = variable.read().map_err(|error| error.to_string())?;
        if !matches!(array, Array::Sparse(_)) {
            assert_eq!(variable.shape(), array.shape());
        }
        variables.insert(name.to_owned(), rendered(&array));
        globals.extend(variable.is_global().then(|| name.to_owned()));
    }
    Ok(json!({"variables": variables, "globals": globals}))
}

#[test]
fn reads_what_scipy_reads() {
    let mut other = Vec::new();
    for (name, expected) in manifest() {
        let same = match read(&bytes_of(&name)) {
            Err(_) => expected.get("error").is_some(),
            Ok(found) => {
                let level_4 = expected["globals"].is_null();
                found["variables"] == expected["variables"]
                    && (level_4 || found["globals"] == expected["globals"])
            }
        };
        if !same {
            other.push(name);
        }
    }
    assert_eq!(other, EXCEPTIONS.map(|(name, _)| name));
}

/// Every file of the directory is in the manifest, and the reverse.
#[test]
fn none_is_forgotten() {
    let names = fs::read_dir(dir()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    let files: BTreeSet<String> = names.filter(|name| name.ends_with(".mat")).collect();
    assert_eq!(files, manifest().into_keys().collect());
    assert_eq!(files.len(), 110);
}

#[test]
fn what_is_refused() {
    let told = |(name, _)| Some(format!("{name}: {}", read(&bytes_of(name)).err()?));
    let names = manifest();
    let told: Vec<String> =
        names.iter().map(|(name, file)| (name.as_str(), file)).filter_map(told).collect();
    let expected = [
        "bad_miuint32.mat: byte 160: expected a length of 0 to 2^31 - 1, found -2147483647",
        "corrupted_zlib_checksum.mat: byte 136: expected zlib data, found corrupt deflate stream",
        "corrupted_zlib_data.mat: byte 230: expected 26840 bytes compressed, found more of them",
        "debigged_m4.mat: byte 22: expected the numbers of an array, of 3221225472 bytes, \
         found 1002 bytes",
        "malformed1.mat: byte 128: expected a variable, of at most 2072 bytes, found 658840 bytes",
        "testhdf5_7.4_GLNX86.mat: byte 124: expected a MAT file of level 4 or 5, \
         found version 7.3, which is an HDF5 file",
    ];
    assert_eq!(told, expected);
}

/// What a converter does with such files.
#[test]
fn getting_at_values() {
    let get = |file: &str, name: &str| MatFile::parse(&bytes_of(file)).unwrap().get(name).unwrap();

    let nested = get("teststructnest_6.1_SOL2.mat", "teststructnest");
    assert_eq!(nested.field("one").unwrap().number::<u8>(), Ok(1));
    let three = nested.field("two").unwrap().field("three").unwrap();
    assert_eq!(three.text().unwrap(), "number 3");

    let records = get("teststructarr_7.4_GLNX86.mat", "teststructarr");
    assert_eq!(records.record(1).unwrap().at(0).unwrap().text().unwrap(), "number 1");
    assert_eq!(records.record(0).unwrap().field("two").unwrap().vector::<f32>().unwrap(), [2.0]);
    assert_eq!(
        records.field("two").unwrap_err().to_string(),
        "expected one record with a field \"two\", \
         found records with the fields [\"one\", \"two\"] of 1 x 2"
    );

    let cells = get("testcell_6.5.1_GLNX86.mat", "testcell");
    assert_eq!(cells.cell(3).unwrap().vector::<i64>().unwrap(), [1, 2, 3]);
    assert_eq!(cells.cells().unwrap().len(), 4);
    assert!(cells.strings().is_err());
    let strings = get("big_endian.mat", "strings");
    assert_eq!(strings.strings().unwrap(), ["hello", "world"]);
    let wrapped = get("testscalarcell_7.4_GLNX86.mat", "testscalarcell");
    assert_eq!(wrapped.unwrapped().number::<f64>(), Ok(1.0));

    let lines = get("teststringarray_4.2c_SOL2.mat", "teststringarray");
    assert_eq!(lines.strings().unwrap(), ["one  ", "two  ", "three"]);

    let sparse = get("testsparse_4.2c_SOL2.mat", "testsparse");
    let dense = sparse.numbers::<u16>().unwrap();
    assert_eq!(
        dense.iter().copied().collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0]
    );

    let error = sparse.field("x").unwrap_err().to_string();
    assert_eq!(error, "expected records, found a sparse matrix of 3 x 5");
    let file = bytes_of("some_functions.mat");
    let error = MatFile::parse(&file).unwrap().get("d").unwrap_err().to_string();
    assert!(error.starts_with("byte 0: expected a variable \"d\", found [\"a\", \"b\""), "{error}");
}

/// Files of every kind: both levels, both byte orders, compressed and not, each class.
const SMALL: [&str; 12] = [
    "logical_sparse.mat",
    "testbool_8_WIN64.mat",
    "testcellnest_6.1_SOL2.mat",
    "testcomplex_4.2c_SOL2.mat",
    "testfunc_7.4_GLNX86.mat",
    "testmulti_4.2c_SOL2.mat",
    "testobject_7.1_GLNX86.mat",
    "testsparsecomplex_4.2c_SOL2.mat",
    "testsparsecomplex_6.1_SOL2.mat",
    "teststring_7.4_GLNX86.mat",
    "teststructarr_6.5.1_GLNX86.mat",
    "testunicode_7.1_GLNX86.mat",
];

#[test]
fn truncated_anywhere() {
    for name in SMALL {
        let whole = bytes_of(name);
        let all = read(&whole).unwrap();
        let all = all["variables"].as_object().unwrap();
        let mut refused = 0;
        for len in 0..whole.len() {
            // What is left are the variables before, and nothing else.
            match read(&whole[..len]) {
                Err(_) => refused += 1,
                Ok(some) => {
                    for (name, value) in some["variables"].as_object().unwrap() {
                        assert_eq!(Some(value), all.get(name), "{name} {len}");
                    }
                }
            }
        }
        // All but the lengths at which a variable ends, give or take the padding.
        assert!(refused >= whole.len() - 2 * 8 - 1, "{name} {refused}");
    }
}

#[test]
fn any_bit_flipped() {
    for name in SMALL {
        let whole = bytes_of(name);
        let right = read(&whole).unwrap();
        let compressed = whole.get(128) == Some(&15);
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            // Without a checksum all that can be asked is that it ends well.
            let Ok(found) = read(&bytes) else {
                continue;
            };
            if compressed {
                assert_eq!(found["variables"], right["variables"], "{name} bit {bit}");
            }
        }
    }
}
