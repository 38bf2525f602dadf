//! The notation against the golden files, and lines that must be refused.

use super::{parse, parse_plain, write, write_python, write_short};
use crate::Value;
use crate::format::msgpack::numpy::Special;
use crate::format::msgpack::sample::field;
use crate::format::msgpack::tests::{Random, golden, widened};
use crate::format::msgpack::{MAX_DEPTH, decode, to_vec};
use crate::value::NdArray;

fn line(value: &Value) -> String {
    let mut out = Vec::new();
    write(value, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn short(value: &Value, max: usize) -> String {
    let mut out = Vec::new();
    write_short(value, max, &mut out);
    String::from_utf8(out).unwrap()
}

fn nested_lists(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

fn nested_maps(depth: usize) -> String {
    r#"{"$map":[[0,"#.repeat(depth - 1) + r#"{"$map":[]}"# + &"]]}".repeat(depth - 1)
}

#[test]
fn golden_samples_survive() {
    let survive = |packed: &[u8]| {
        let value = decode(packed).unwrap();
        let line = line(&value);
        assert!(!line.contains(|c: char| c.is_control()));
        let parsed = to_vec(&parse(line.as_bytes()).unwrap()).unwrap();
        assert_eq!(parsed, to_vec(&widened(value)).unwrap(), "{line}");
        parsed == packed
    };
    let mut differ = Vec::new();
    for sample in golden() {
        let same = survive(&sample.raw);
        if sample.dataset != "rawwire" {
            assert!(same, "{}", sample.key);
        } else if !survive(field(&sample.raw, "v").unwrap().unwrap()) {
            differ.push(sample.key);
        }
    }
    // Floats of 32 bits come back with 64; headers that were longer than need be come back short.
    let expected = [
        "f32 1.5",
        "f32 0.1",
        "f32 nan",
        "u8 5",
        "u16 5",
        "u32 5",
        "u64 5",
        "i8 5",
        "i16 5",
        "i32 5",
        "i64 5",
        "i8 -1",
        "i64 -1",
        "str8 a",
        "str16 a",
        "str32 a",
        "bin16",
        "bin32",
        "arr16",
        "arr32",
        "arr16 empty",
        "map16",
        "map32",
        "map32 empty",
        "ext8 len 1",
        "ext16 len 1",
        "ext32 len 1",
        "ts32 as ext8",
    ];
    assert_eq!(differ, expected);
}

#[test]
fn golden_arrays_scalars_and_complex_read_as_in_the_manifest() {
    let count =
        |text: &str| ["\"$nd\"", "\"$np\"", "\"$c\"", "\"$ts\""].map(|s| text.matches(s).count());
    let mut total = [0; 4];
    let mut differ = Vec::new();
    for sample in golden() {
        let Some(expected) = &sample.value else {
            continue;
        };
        if sample.dataset == "objects" && expected.contains("$object_array") {
            // A pickle on the wire: it stays the map it is, and the notation cannot make one.
            let rendered = line(&decode(&sample.raw).unwrap());
            assert!(rendered.contains(r#"{"$map":[[{"$bin":"bmQ="},true]"#));
            assert!(parse(expected.as_bytes()).is_err());
            continue;
        }
        let rendered = line(&decode(&sample.raw).unwrap());
        if rendered == line(&parse(expected.as_bytes()).unwrap()) {
            assert_eq!(count(&rendered), count(expected), "{}", sample.key);
            for (total, count) in total.iter_mut().zip(count(&rendered)) {
                *total += count;
            }
        } else {
            differ.push(sample.key);
        }
    }
    assert!(total.iter().all(|&count| count > 5), "{total:?}");
    let expected = [
        // NumPy gives names to fields that have none when it reads them.
        "struct aligned (padding fields)",
        "void V3 (unstructured)",
        // A map around the map of an array: msgpack-numpy resolves it from the inside out.
        "masked (mask is dropped, data is a nested nd map)",
        // Not what msgpack-numpy writes, so we leave it a map.
        "nd other order",
        "nd no kind",
        "nd extra key",
        "nd type as bin",
        "nd type =i4 native",
        "nd type name float32",
        "nd data longer than shape",
        "np scalar nd=0",
        "complex data as bin",
        "complex any value",
        // Python keeps the last.
        "duplicate map keys: last wins",
    ];
    assert_eq!(differ, expected);
}

#[test]
fn random_values_survive() {
    let mut random = Random(2);
    for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
        let value = random.value(4);
        let line = line(&value);
        let parsed = parse(line.as_bytes()).unwrap();
        assert_eq!(to_vec(&parsed).unwrap(), to_vec(&value).unwrap(), "{line}");
        // Any JSON reader can read it.
        assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line}");
        short(&value, random.below(40) as usize);
    }
}

#[test]
fn values_are_written_like_this() {
    let table: [(&[u8], &str); 21] = [
        (b"\xc0", "null"),
        (b"\x82\xa1b\x01\xa1a\x02", r#"{"b":1,"a":2}"#),
        (b"\x80", "{}"),
        (b"\x81\x01\x02", r#"{"$map":[[1,2]]}"#),
        (b"\x82\xa1a\x01\xa1a\x02", r#"{"$map":[["a",1],["a",2]]}"#),
        (b"\x81\xa2$a\x01", r#"{"$map":[["$a",1]]}"#),
        (
            b"\x82\xa1a\x80\x81\xc4\0\x90\x90",
            r#"{"$map":[["a",{}],[{"$map":[[{"$bin":""},[]]]},[]]]}"#,
        ),
        (b"\xa1$", r#""$""#),
        (b"\xcb\x3f\xf0\0\0\0\0\0\0", "1.0"),
        (b"\xcb\x80\0\0\0\0\0\0\0", "-0.0"),
        (b"\xca\x3d\xcc\xcc\xcd", "0.10000000149011612"),
        (b"\xcb\x43\x41\xc3\x79\x37\xe0\x80\0", "1e16"),
        (b"\xcb\0\0\0\0\0\0\0\x01", "5e-324"),
        (b"\xca\x7f\xc0\0\x01", r#"{"$f":"7ff8000020000000"}"#),
        (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"),
        (b"\xd3\x80\0\0\0\0\0\0\0", "-9223372036854775808"),
        (b"\xd4\x05a", r#"{"$ext":[5,"YQ=="]}"#),
        (b"\xd6\xff\0\0\0\x01", r#"{"$ts":[1,0]}"#),
        // Eight bytes where four would do, and too many nanoseconds: no canonical timestamp.
        (b"\xd7\xff\0\0\0\0\0\0\0\x01", r#"{"$ext":[-1,"AAAAAAAAAAE="]}"#),
        (b"\xd7\xff\xee\x6b\x28\0\0\0\0\0", r#"{"$ext":[-1,"7msoAAAAAAA="]}"#),
        (b"\xadq\"b\\n\nz\0\xc2\x9b\xe2\x80\xa8", r#""q\"b\\n\nz\u0000\u009b\u2028""#),
    ];
    for (packed, json) in table {
        let value = decode(packed).unwrap();
        assert_eq!(line(&value), json);
        let back = to_vec(&parse(json.as_bytes()).unwrap()).unwrap();
        assert_eq!(back, to_vec(&widened(value)).unwrap(), "{json}");
    }
}

#[test]
fn both_notations_are_read() {
    let packed = |json: &str| to_vec(&parse(json.as_bytes()).unwrap()).unwrap();
    assert_eq!(packed(r#"{"$map":[["key","k0"],["v",0]]}"#), packed(r#"{"key":"k0","v":0}"#));
    assert_eq!(packed(r#"{"$f":"3ff0000000000000"}"#), packed("1.0"));
    assert_eq!(packed(" [1e0 ,\t1E+0,10.0e-1]\r\n"), packed("[1.0,1.0,1.0]"));
    assert_eq!(packed(r#""\u00e9\ud83d\ude00\/\b\f""#), packed("\"é😀/\\u0008\\u000C\""));
    assert_eq!(
        packed(r#"{"$nd":{"data":"AQI=","shape":[2],"dtype":"|u1"}}"#),
        b"\x85\xc4\x02nd\xc3\xc4\x04type\xa3|u1\xc4\x04kind\xc4\0\xc4\x05shape\x91\x02\xc4\x04data\xc4\x02\x01\x02"
    );
    assert_eq!(packed(r#"{"$c":["3ff0000000000000","4000000000000000"]}"#)[17..], *b"\xa6(1+2j)");
}

#[test]
fn what_is_wrong_with_a_line() {
    let table = [
        ("", "byte 0: expected a JSON value, found end of line"),
        ("  \n", "byte 3: expected a JSON value, found end of line"),
        ("[1,]", "byte 3: expected a JSON value, found \"]\""),
        ("[1 2]", "byte 3: expected \",\" or \"]\", found \"2\""),
        ("[1}", "byte 2: expected \",\" or \"]\", found \"}\""),
        ("[", "byte 1: expected a JSON value, found end of line"),
        ("{\"a\":1", "byte 6: expected \",\" or \"}\", found end of line"),
        ("{\"a\" 1}", "byte 5: expected \":\", found \"1\""),
        ("{a:1}", "byte 1: expected a name in quotes, found \"a\""),
        ("{\"a\":1,}", "byte 7: expected a name in quotes, found \"}\""),
        ("{} {}", "byte 3: expected end of line, found \"{\""),
        ("nul", "byte 0: expected a JSON value, found \"n\""),
        ("Nan", "byte 0: expected a JSON value, found \"N\""),
        ("-Inf", "byte 0: expected a JSON value, found \"-\""),
        ("infinity", "byte 0: expected a JSON value, found \"i\""),
        ("é", "byte 0: expected a JSON value, found \"é\""),
        ("01", "byte 1: expected end of line, found \"1\""),
        ("1.", "byte 2: expected a digit, found end of line"),
        (".5", "byte 0: expected a JSON value, found \".\""),
        ("-", "byte 1: expected a digit, found end of line"),
        ("1e", "byte 2: expected a digit, found end of line"),
        ("+1", "byte 0: expected a JSON value, found \"+\""),
        (
            "18446744073709551616",
            "byte 0: expected an integer from -2^63 to 2^64-1, found 18446744073709551616",
        ),
        (
            "-9223372036854775809",
            "byte 0: expected an integer from -2^63 to 2^64-1, found -9223372036854775809",
        ),
        ("[1e999]", "byte 1: expected a float of 64 bits, found 1e999"),
        ("\"a", "byte 2: expected a closing quote, found end of line"),
        ("\"a\nb\"", "byte 2: expected an escape for a control character, found \"\\n\""),
        ("\"\\x\"", "byte 1: expected an escape of JSON, found another after the backslash"),
        ("\"\\é\"", "byte 1: expected an escape of JSON, found another after the backslash"),
        ("\"\\", "byte 1: expected an escape of JSON, found another after the backslash"),
        ("\"\\u12\"", "byte 1: expected \"\\u\" and four hexadecimal digits, found something else"),
        (
            "\"\\u+123\"",
            "byte 1: expected \"\\u\" and four hexadecimal digits, found something else",
        ),
        (
            "\"\\u00é0\"",
            "byte 1: expected \"\\u\" and four hexadecimal digits, found something else",
        ),
        ("\"\\ud800\"", "byte 1: expected a character, found half of a surrogate pair"),
        ("\"\\ud800\\u0041\"", "byte 1: expected a character, found half of a surrogate pair"),
        ("\"\\udc00\"", "byte 1: expected a character, found half of a surrogate pair"),
        ("[{\"a\":1,\"b\":2,\"a\":3}]", "byte 1: expected distinct names, found \"a\" twice"),
        (
            "{\"$x\":1}",
            "byte 0: expected a name of the notation for values that JSON lacks ($map $f $bin $nd $np $c \
             $ext $ts), found \"$x\"",
        ),
        (
            "{\"$object_array\":{\"shape\":[]}}",
            "byte 0: expected a name of the notation for values that JSON lacks ($map $f $bin $nd $np $c \
             $ext $ts), found \"$object_array\"",
        ),
        (
            "{\"$bin\":\"\",\"a\":1}",
            "byte 0: expected a name beginning with \"$\" to be the only one of its object, found others next to it",
        ),
        ("{\"$bin\":\"YQ\"}", "byte 0: expected base64 under \"$bin\", found something else"),
        ("{\"$bin\":5}", "byte 0: expected base64 under \"$bin\", found something else"),
        (
            "{\"$f\":\"+ff0000000000000\"}",
            "byte 0: expected 16 hexadecimal digits under \"$f\", found something else",
        ),
        ("{\"$map\":[[1]]}", "byte 0: expected pairs under \"$map\", found something else"),
        ("{\"$map\":{}}", "byte 0: expected pairs under \"$map\", found something else"),
        (
            "{\"$ext\":[128,\"\"]}",
            "byte 0: expected a code from -128 to 127 and base64 under \"$ext\", found something else",
        ),
        (
            "{\"$ts\":[0,1000000000]}",
            "byte 0: expected seconds and nanoseconds below 1000000000 under \"$ts\", found something else",
        ),
        (
            "{\"$c\":[\"0\",\"0\"]}",
            "byte 0: expected twice 16 hexadecimal digits under \"$c\", found something else",
        ),
        (
            "{\"$np\":{\"dtype\":\"<f4\",\"data\":\"\"}}",
            "byte 0: expected dtype and data, with as much data as the dtype calls for under \"$np\", found something else",
        ),
    ];
    for (line, message) in table {
        assert_eq!(parse(line.as_bytes()).unwrap_err().to_string(), message, "{line}");
    }
    for line in [
        r#"{"$nd":{"dtype":"|u1","shape":[2],"data":"AQ=="}}"#,
        r#"{"$nd":{"dtype":"|u1","shape":[-1],"data":"AQ=="}}"#,
        r#"{"$nd":{"dtype":"|O","shape":[],"data":""}}"#,
        r#"{"$nd":{"dtype":"|u1","shape":[1]}}"#,
        r#"{"$nd":{"dtype":"|u1","shape":[1],"data":"AQ==","kind":""}}"#,
        r#"{"$nd":[]}"#,
    ] {
        let err = parse(line.as_bytes()).unwrap_err();
        assert!(err.expected.starts_with("dtype, shape and data"), "{line}: {err}");
    }
    let err = parse(b"[\"\xff\"]").unwrap_err();
    assert_eq!(err.to_string(), "byte 2: expected UTF-8, found a byte that is not");
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn as_deep_as_msgpack_and_no_deeper() {
    for json in [nested_lists(MAX_DEPTH), nested_maps(MAX_DEPTH)] {
        let value = parse(json.as_bytes()).unwrap();
        assert_eq!(line(&value), json.replace(r#"{"$map":[]}"#, "{}"));
        assert_eq!(decode(&to_vec(&value).unwrap()).unwrap(), value);
        short(&value, 80);
    }
    // The deepest value in the deepest map is written with yet more brackets.
    for inner in [r#"{"$ext":[5,""]}"#, r#"{"$bin":""}"#, "1"] {
        let json = nested_maps(MAX_DEPTH)
            .replace(r#"{"$map":[]}"#, &format!("{{\"$map\":[[0,{inner}]]}}"));
        assert_eq!(line(&parse(json.as_bytes()).unwrap()), json);
    }
    for json in [
        nested_lists(MAX_DEPTH + 1),
        nested_maps(MAX_DEPTH + 1),
        nested_lists(MAX_DEPTH).replace("[]", "[{}]"),
        nested_lists(MAX_DEPTH)
            .replace("[]", r#"{"$c":["3ff0000000000000","4000000000000000"]}"#)
            .replacen('[', "[[", 1)
            + "]",
        "[".repeat(10_000_000),
        r#"{"a":"#.repeat(1_000_000),
        r#"{"$map":[["#.repeat(1_000_000),
    ] {
        let err = parse(json.as_bytes()).unwrap_err();
        assert!(err.expected.contains("1024 nested containers"), "{err}");
    }
    let deep = Value::Array(vec![parse(nested_lists(MAX_DEPTH).as_bytes()).unwrap()]);
    let mut out = b"before".to_vec();
    assert!(write(&deep, &mut out).is_err());
    assert_eq!(out, b"before");
}

#[test]
fn a_cut_or_changed_line_never_panics() {
    let json = r#"{"key":"é\ud83d\ude00\n","v":[1,-2.5e-3,null,true,{"$bin":"YQ=="},{"$ts":[1,0]},
        {"$map":[[1,{}]]},{"$nd":{"dtype":"|u1","shape":[1],"data":"AQ=="}},{"$f":"7ff0000000000000"}]}"#;
    parse(json.as_bytes()).unwrap();
    for len in 0..json.len() {
        assert!(parse(&json.as_bytes()[..len]).is_err(), "{len}");
        let mut bytes = json.as_bytes().to_vec();
        for mask in 1..=255 {
            bytes[len] ^= mask;
            if let Ok(value) = parse(&bytes) {
                let again = parse(line(&value).as_bytes()).unwrap();
                assert_eq!(to_vec(&again).unwrap(), to_vec(&value).unwrap());
            }
            bytes[len] ^= mask;
        }
    }
}

#[test]
fn short_lines_leave_out_what_is_long() {
    let json = r#"{"key":"a long text of some length","n":[1,2,3,4,5],"b":{"$bin":"YWI="},
        "m":{"a":1,"b":2,"c":3},"deep":[[[[[1]],[]]]],"e":{"$ext":[5,"YQ=="]},
        "nd":{"$nd":{"dtype":"<i2","shape":[1,2],"data":"AQIDBA=="}},
        "np":{"$np":{"dtype":"|u1","data":"AQ=="}},"c":{"$c":["3ff0000000000000","4000000000000000"]},
        "f":[1.5,{"$f":"7ff8000000000000"}],"i":[{"$f":"fff0000000000000"}],"k":{"$map":[[1,2]]}}"#;
    let value = parse(json.as_bytes()).unwrap();
    assert_eq!(
        short(&value, 16),
        r#"{"key":"a long text of s…" (26 characters),"n":[1,2,…] (5 items),"b":b"ab","#.to_owned()
            + r#""m":{"a":1,"b":2,…} (3 fields),"deep":[[[[…] (1 item),[]]]],"e":<ext 5, 1 byte>,"#
            + r#""nd":[[513 1027]] <i2,"np":1,"c":(1+2j),"f":[1.5,nan],"i":[-inf],"k":{1:2}}"#
    );
    assert_eq!(short(&value, 1), r#"{"key":"a…" (26 characters),…} (12 fields)"#);
    assert_eq!(short(&value, 0), r#"{"key":"…" (26 characters),…} (12 fields)"#);
    let long = Value::Array(vec![Value::Binary(vec![0; 1099]), Value::Ext(3, vec![0; 99])]);
    assert_eq!(short(&long, 32), "[<1,099 bytes>,<ext 3, 99 bytes>]");
}

#[test]
fn scalars_of_numpy_are_shown_by_their_values() {
    let scalar = |dtype: &str, data: &[u8]| {
        let special = Special::scalar(dtype.parse().unwrap(), data).unwrap();
        short(&special.to_value(), 64)
    };
    let i64s = |value: i64| value.to_le_bytes();
    for (dtype, data, expected) in [
        ("|b1", &[1][..], "true"),
        ("|i1", &[255], "-1"),
        ("<i2", &[0, 128], "-32768"),
        (">i2", &[1, 0], "256"),
        ("<i4", &[255; 4], "-1"),
        ("<i8", &i64s(i64::MIN), "-9223372036854775808"),
        ("|u1", &[200], "200"),
        ("<u2", &[255; 2], "65535"),
        ("<u4", &[255; 4], "4294967295"),
        (">u8", &[255; 8], "18446744073709551615"),
        ("<f2", &[0x66, 0x2e], "0.1"),
        ("<f2", &[0, 0x7e], "nan"),
        ("<f4", &0.1_f32.to_le_bytes(), "0.1"),
        ("<f8", &(0.1_f64 + 0.2).to_le_bytes(), "0.30000000000000004"),
        ("<f8", &f64::NEG_INFINITY.to_le_bytes(), "-inf"),
        ("<f8", &1e300_f64.to_le_bytes(), "1e+300"),
        ("<f16", &[1; 16], "0x01010101010101010101010101010101"),
        ("<c8", &[0, 0, 128, 63, 0, 0, 32, 192], "(1.0-2.5j)"),
        ("<c16", &[1.5_f64.to_le_bytes(), f64::NAN.to_le_bytes()].concat(), "(1.5+nanj)"),
        ("<M8", &i64s(5), "5"),
        ("<M8[Y]", &i64s(54), "2024"),
        ("<M8[M]", &i64s(652), "2024-05"),
        ("<M8[W]", &i64s(1), "1970-01-08"),
        ("<M8[D]", &i64s(19_844), "2024-05-01"),
        ("<M8[us]", &i64s(1_714_566_600_000_001), "2024-05-01T12:30:00.000001"),
        ("<M8[ns]", &i64s(1), "1970-01-01T00:00:00.000000001"),
        ("<M8[25s]", &i64s(2), "1970-01-01T00:00:50"),
        (">M8[s]", &i64::MIN.to_be_bytes(), "NaT"),
        ("<m8[ms]", &i64s(7_205_500), "2 h 5.5 s"),
        ("<m8[D]", &i64s(-3), "-3 days"),
        ("<m8[ns]", &i64s(i64::MIN), "NaT"),
    ] {
        assert_eq!(scalar(dtype, data), expected, "{dtype}");
    }
}

#[test]
fn arrays_are_shown_by_their_numbers_or_their_range() {
    let array = |dtype: &str, shape: &[usize], data: &[u8]| {
        let array = NdArray::new(dtype.parse().unwrap(), shape, data).unwrap();
        short(&Special::Array(array).to_value(), 64)
    };
    let floats = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(array("<f4", &[3], &floats(&[0.1, 0.2, 0.3])), "[0.1 0.2 0.3] <f4");
    assert_eq!(array("|u1", &[2, 2], &[1, 2, 3, 4]), "[[1 2] [3 4]] |u1");
    assert_eq!(array("|u1", &[], &[7]), "7 |u1");
    assert_eq!(array("|u1", &[3, 0], &[]), "<array |u1 [3, 0]>");
    let mut nine = [0.5, -1.25, 1.0 / 3.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3e8];
    assert_eq!(array("<f4", &[3, 3], &floats(&nine)), "<array <f4 [3, 3], -1.25 to 300000000.0>");
    nine[8] = f32::NAN;
    assert_eq!(array("<f4", &[9], &floats(&nine)), "<array <f4 [9], -1.25 to 2.0 and nan>");
    assert_eq!(array("<f4", &[9], &floats(&[f32::NAN; 9])), "<array <f4 [9], all nan>");
    assert_eq!(array("|u1", &[99], &[3; 99]), "<array |u1 [99], all 3>");
    assert_eq!(array("|b1", &[9], &[1, 0, 0, 1, 1, 0, 0, 0, 0]), "<array |b1 [9], 3 true>");
    let days: Vec<u8> = (0..9_i64).flat_map(|day| (19_844 + day).to_le_bytes()).collect();
    let shown = "<array <M8[D] [9], 2024-05-01 to 2024-05-09>";
    assert_eq!(array("<M8[D]", &[9], &days), shown);
    assert_eq!(
        array("|S2", &[9], b"abcdefghijklmnopqr"),
        "<array |S2 [9], b\"ab\" b\"cd\" b\"ef\" …>"
    );
    assert_eq!(array("<U1", &[1], &[0xe4, 0, 0, 0]), "[\"ä\"] <U1");
    // Text that is none is no reason to fail.
    assert_eq!(array("<U1", &[1], &[255; 4]), "<array <U1 [1]>");
    let structure = "[('a', '|u1'), ('t', '<m8[s]'), ('b', '|u1', (2,))]";
    let row = [&[1][..], &60_i64.to_le_bytes(), &[2, 3]].concat();
    assert_eq!(array(structure, &[1], &row), "[(1, 1 min, [2 3])] struct");
    assert_eq!(array("|V2", &[1], &[1, 255]), "[0x01ff] struct");
    // Elements without bytes, and more empty lists than there can be memory for.
    assert_eq!(array("|V0", &[1 << 20], &[]), "<array struct [1048576], 0x 0x 0x …>");
    assert_eq!(array("[('a', '|u1', (1099511627776, 0))]", &[1], &[]), "[([])] struct");
}

#[test]
fn bytes_are_shown_by_what_they_are() {
    let bytes = |data: &[u8]| short(&Value::from(data), 64);
    assert_eq!(bytes(b""), "b\"\"");
    assert_eq!(bytes(b"a \"word\"\n"), r#"b"a \"word\"\n""#);
    assert_eq!(bytes(&[0, 0xab]), "<2 bytes 00ab>");
    assert_eq!(bytes(&[1; 20]), "<20 bytes 01010101010101010101010101010101…>");
    assert_eq!(bytes(&[1; 65]), "<65 bytes>");
    assert_eq!(bytes(b"fLaC and so on"), "<flac, 14 B>");
    assert_eq!(bytes(b"RIFF\x24\0\0\0WAVEfmt "), "<wav, 16 B>");
    if cfg!(feature = "stat") {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\xf4\0\0\x01\x77\x08\0\0\0\0";
        assert_eq!(bytes(&[&png[..], &[0; 83_000]].concat()), "<png 500 x 375, 83 kB>");
        assert_eq!(bytes(b"\xff\xd8\xff and no more"), "<jpeg, 15 B>");
    }
    // A container that is none.
    assert_eq!(bytes(b"blpk\x03 and so on"), "<15 bytes 626c706b0320616e6420736f206f6e>");
    let stamp = |bytes: &[u8]| short(&Value::Ext(-1, bytes.to_vec()), 64);
    assert_eq!(stamp(&[0, 0, 0, 1]), "1970-01-01T00:00:01Z");
    assert_eq!(stamp(&[0, 0, 0]), "<ext -1, 3 bytes>");
}

#[test]
fn what_python_writes_for_numbers_that_json_lacks() {
    let line = b"[NaN, Infinity, -Infinity, {\"$f\": \"fff8000000000000\"}]";
    let value = parse(line).unwrap();
    let bits: Vec<u64> =
        value.as_array().unwrap().iter().map(|item| item.as_f64().unwrap().to_bits()).collect();
    assert_eq!(bits[..3], [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(f64::to_bits));
    let mut out = Vec::new();
    write_python(&value, &mut out).unwrap();
    assert_eq!(out, b"[NaN,Infinity,-Infinity,{\"$f\":\"fff8000000000000\"}]");
    out.clear();
    write(&value, &mut out).unwrap();
    assert!(out.starts_with(b"[{\"$f\":\"7ff8000000000000\"},"), "JSON of everyone has no NaN");
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let line = "\u{feff}{\"a\": 1}".as_bytes();
    assert_eq!(parse(line), parse(&line[3..]));
    assert_eq!(parse_plain(line), parse(&line[3..]));
    for wrong in ["\u{feff}", "\u{feff}\u{feff}1", "{\u{feff}}"] {
        assert!(parse(wrong.as_bytes()).is_err(), "{wrong:?}");
    }
}

#[test]
fn in_json_of_others_a_dollar_means_nothing() {
    let json = b"{\"$f\": \"7ff8000000000000\", \"$map\": {\"$bin\": 1}}";
    assert!(parse(json).is_err());
    let value = parse_plain(json).unwrap();
    assert_eq!((&value["$f"], &value["$map"]["$bin"]), (&"7ff8000000000000".into(), &1.into()));
    for refused in ["18446744073709551616", "-9223372036854775809", "1e400", "{\"a\":1,\"a\":2}"] {
        assert!(parse_plain(refused.as_bytes()).is_err(), "{refused} would become something else");
    }
}
