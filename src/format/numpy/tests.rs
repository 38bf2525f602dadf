//! The golden files of NumPy, and damage.

use std::path::PathBuf;

use super::descr::{canonical, from_literal, name, parse, repr, to_literal};
use super::literal::{Literal, text_repr};
use super::npy;
use crate::value::{DType, DTypeKind, Field, MAX_NESTING, NdArray, Order};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/numpy-2.4.6")
}

fn table(name: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read(folder().join("types.json")).unwrap();
    let tables: serde_json::Value = serde_json::from_slice(&text).unwrap();
    tables[name].as_array().unwrap().clone()
}

/// The golden files by name, all but the one with a pickle in it.
fn files() -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let npy = entries.filter(|path| path.extension().is_some_and(|suffix| suffix == "npy"));
    let name = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let files = npy.map(|path| (name(&path), std::fs::read(path).unwrap()));
    let files: Vec<_> = files.filter(|(name, _)| name != "objects").collect();
    assert!(files.len() > 20);
    files
}

#[test]
fn plain_types_are_spelled_as_numpy_spells_them() {
    let table = table("plain");
    assert!(table.len() > 35);
    for row in table {
        let (text, repr_text) = (row[0].as_str().unwrap(), row[1].as_str().unwrap());
        let dtype = canonical(text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(dtype.to_string(), text);
        assert_eq!(repr(&dtype), repr_text);
        assert_eq!(dtype.item_size() as u64, row[2].as_u64().unwrap(), "{text}");
        if cfg!(target_endian = "little") {
            assert_eq!(name(&dtype), row[3].as_str().unwrap());
            assert_eq!(parse(row[3].as_str().unwrap()).unwrap(), dtype);
        }
        assert_eq!(parse(text).unwrap(), dtype);
        assert_eq!(parse(repr_text).unwrap(), dtype);
        assert_eq!(from_literal(&to_literal(&dtype)).unwrap(), dtype);
    }
}

#[test]
fn structured_types_are_spelled_as_numpy_spells_them() {
    for row in table("structured") {
        let text = row[1].as_str().unwrap();
        let dtype = parse(text).unwrap();
        assert_eq!(repr(&dtype), text);
        assert_eq!(dtype.to_string(), text);
        assert_eq!(dtype.item_size() as u64, row[2].as_u64().unwrap(), "{text}");
        assert_eq!(format!("|V{}", dtype.item_size()), row[0].as_str().unwrap());
        assert_eq!(from_literal(&to_literal(&dtype)).unwrap(), dtype);
        assert_eq!(canonical(text), None);
    }
}

#[test]
fn every_spelling_is_understood_as_numpy_does() {
    for row in table("spellings") {
        let (text, expected) = (row[0].as_str().unwrap(), row[1].as_str().unwrap());
        let dtype = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        if cfg!(target_endian = "little") {
            assert_eq!(repr(&dtype), expected, "{text}");
        }
    }
}

#[test]
fn what_is_no_type_is_refused() {
    let deep = format!("{}'<i4'{}", "[('a', ".repeat(34), ")]".repeat(34));
    let bottomless = "[".repeat(100_000);
    let table = [
        ("", "byte 0: expected a type of NumPy, found \"\""),
        ("foo", "byte 0: expected a type of NumPy, found \"foo\""),
        ("<i3", "byte 0: expected a type of NumPy, found \"<i3\""),
        ("<M8[]", "byte 0: expected a type of NumPy, found \"<M8[]\""),
        ("<M8[0s]", "byte 0: expected a type of NumPy, found \"<M8[0s]\""),
        ("<f4[s]", "byte 0: expected a type of NumPy, found \"<f4[s]\""),
        (
            "<U4611686018427387904",
            "byte 0: expected a type of NumPy, found \"<U4611686018427387904\"",
        ),
        ("é", "byte 0: expected a type of NumPy, found \"é\""),
        ("'<f4", "byte 0: expected a string with its closing quote, found \"'<f4\""),
        ("{}", "byte 0: expected a type of NumPy, found a dictionary of 0"),
        (
            "[5]",
            "byte 0: expected a field: its name, its type and perhaps a shape, found the number 5",
        ),
        (
            "[('a', '<i4', -1)]",
            "byte 0: expected a field: its name, its type and perhaps a shape, found a tuple of 3",
        ),
        (
            "[('a', '<i4'), ('a', '<i4')]",
            "byte 0: expected a type of NumPy, found expected fields of different names, found \"a\" twice",
        ),
        ("[('a', '<i4')", "byte 13: expected `,` or `]`, found the end of the text"),
        (
            &bottomless,
            "byte 72: expected at most 72 brackets, found \"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"",
        ),
        (&deep, "byte 0: expected a type of NumPy, found types nested too deep"),
    ];
    for (text, message) in table {
        assert_eq!(parse(text).unwrap_err().to_string(), message);
    }
}

/// A size in bytes whose number of bits overflows.
#[cfg(target_pointer_width = "64")]
#[test]
fn types_of_any_size_have_a_name() {
    let dtype = parse("h,666666666666666666O,half").unwrap();
    assert!(dtype.item_size() > usize::MAX / 8);
    let again = parse(&name(&dtype)).unwrap();
    assert_eq!(again.item_size(), dtype.item_size());
}

#[test]
fn types_are_as_deep_as_is_allowed_and_no_deeper() {
    let mut dtype = DType::of::<u8>();
    for _ in 0..MAX_NESTING {
        dtype = DType::structure([Field::new("a", dtype)]).unwrap();
    }
    assert_eq!(parse(&dtype.to_string()).unwrap(), dtype);
    assert!(DType::structure([Field::new("a", dtype)]).is_err());
}

#[test]
fn early_files_have_types_as_json() {
    let dtype = parse(r#"[["a","<i4"],["b","<f8",2],["n",[["x","|u1",[2,3]]]]]"#).unwrap();
    assert_eq!(repr(&dtype), "[('a', '<i4'), ('b', '<f8', (2,)), ('n', [('x', '|u1', (2, 3))])]");
    // A field without a name is called after its place, unless it is padding.
    let dtype = parse("[('', '<i4'), ('', '|V3'), ('', '<f8')]").unwrap();
    assert_eq!(repr(&dtype), "[('f0', '<i4'), ('', '|V3'), ('f2', '<f8')]");
    assert_eq!(dtype.fields()[1].dtype().kind(), DTypeKind::Void);
}

#[test]
fn literals_are_those_of_python() {
    let text = |text: &str| Literal::Text(text.to_owned());
    let table = [
        (" None ", Literal::None),
        ("True", Literal::Bool(true)),
        ("-12", Literal::Int(-12)),
        ("12L", Literal::Int(12)),
        ("()", Literal::Tuple(vec![])),
        ("(1)", Literal::Int(1)),
        ("(1,)", Literal::Tuple(vec![Literal::Int(1)])),
        (
            "[1, (2,3,),]",
            Literal::List(vec![
                Literal::Int(1),
                Literal::Tuple(vec![Literal::Int(2), Literal::Int(3)]),
            ]),
        ),
        ("{'a': 1, }", Literal::Dict(vec![(text("a"), Literal::Int(1))])),
        (r#"'a' "b""#, text("ab")),
        (r#"u'é\'\"\\'"#, text("é'\"\\")),
        (r"b'\x41\102\0\n'", text("AB\0\n")),
        (r"'\u5b57\U0001f600\q'", text("字😀\\q")),
    ];
    for (input, literal) in table {
        assert_eq!(Literal::parse(input).unwrap(), literal, "{input}");
    }
    for input in [
        "",
        "(",
        "(,)",
        "[,]",
        "[1 2]",
        "{1}",
        "{1:}",
        "'",
        "'a\nb'",
        r"'\x4'",
        r"'\ud800'",
        r"'\x+1'",
        r"'\U00110000'",
        "nan",
        "1.5",
        "1 2",
        "99999999999999999999",
        "-",
        "f()",
        "{**{}}",
        "\u{a0}1",
    ] {
        assert!(Literal::parse(input).is_err(), "{input}");
    }
    for c in (0..=u32::from(char::MAX)).step_by(7).filter_map(char::from_u32) {
        let written = format!("a{c}");
        assert_eq!(Literal::parse(&text_repr(&written)).unwrap(), text(&written));
    }
}

#[test]
fn npy_files_are_read_and_written_byte_for_byte() {
    for (name, file) in files() {
        let array = npy::decode(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(npy::encode(&array).unwrap() == file, "{name}");
        let (header, start) = npy::decode_header(&file).unwrap();
        assert_eq!((&header.dtype, &header.shape[..]), (array.dtype(), array.shape()));
        assert_eq!(npy::encode_header(&header), file[..start], "{name}");
        assert_eq!(start % 64, 0);
    }
}

#[test]
fn npy_files_have_the_right_values() {
    let read = |name: &str| {
        let file = std::fs::read(folder().join(format!("{name}.npy"))).unwrap();
        npy::decode(&file).unwrap().into_owned()
    };
    let numbers = ndarray::array![[0, 1, 2], [3, 4, 5]].into_dyn();
    assert_eq!(read("c").to_ndarray::<i32>().unwrap(), numbers);
    assert_eq!(read("fortran").order(), Order::F);
    assert_eq!(read("fortran").to_ndarray::<i32>().unwrap(), numbers);
    assert_eq!(read("fortran"), read("c"));
    assert_eq!(read("big").to_ndarray::<f64>().unwrap(), numbers.mapv(f64::from));
    let strings: Result<Vec<_>, _> = read("text").strings().unwrap().collect();
    assert_eq!(strings.unwrap(), ["é", "字", ""]);
    let bytes: Vec<Vec<u8>> = read("bytes").byte_strings().unwrap().map(<[u8]>::to_vec).collect();
    assert_eq!(bytes, [&b"a"[..], b"b\0c"]);
    assert_eq!(read("dates").to_ndarray::<i64>().unwrap().as_slice().unwrap(), [18262, i64::MIN]);
    assert_eq!(read("scalar").shape(), [0usize; 0]);
    let field = read("nested").field("n").unwrap().field("y").unwrap().field("z").unwrap();
    assert_eq!(field.shape(), [3, 1, 2]);
}

#[test]
fn pickles_are_refused() {
    let file = std::fs::read(folder().join("objects.npy")).unwrap();
    let error = npy::decode(&file).unwrap_err();
    assert_eq!(error.to_string(), "byte 128: expected elements, found Python objects as a pickle");
    assert!(npy::encode(&NdArray::opaque([2], &b"pickle"[..])).is_err());
}

#[test]
fn damaged_npy_files_are_errors_or_other_arrays() {
    for (name, file) in files() {
        if file.len() > 2000 {
            continue;
        }
        let whole = npy::decode(&file).unwrap();
        for len in 0..file.len() {
            assert!(npy::decode(&file[..len]).is_err(), "{name}: cut to {len}");
        }
        let mut longer = file.clone();
        longer.push(0);
        // The header can claim any number of elements without bytes, but no more bytes than there
        // are.
        assert!(npy::decode(&longer).is_err(), "{name}");
        let mut damaged = file.clone();
        for at in 0..file.len() {
            for flip in [1, 2, 8, 0x20, 0x80] {
                damaged[at] ^= flip;
                if let Ok(array) = npy::decode(&damaged) {
                    let again = npy::encode(&array).unwrap();
                    assert_eq!(npy::decode(&again).unwrap(), array);
                }
                damaged[at] ^= flip;
            }
        }
        assert_eq!(npy::decode(&damaged).unwrap(), whole);
    }
}

#[test]
fn only_the_spelling_of_numpy_is_canonical() {
    assert_eq!(canonical("<f4").map(|dtype| dtype.to_string()), Some("<f4".to_owned()));
    assert_eq!(canonical("=f4"), None);
    assert_eq!(canonical("<i1"), None);
}
