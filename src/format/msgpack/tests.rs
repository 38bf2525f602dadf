//! The golden files of Python datadings, and damage.

use std::path::Path;

use super::cursor::{Cursor, Kind, check};
use super::numpy::{Special, complex_repr, recognise};
use super::*;
use crate::Value;
use crate::format::{FormatError, jsonl};

/// A sample of the golden datasets.
pub(in crate::format) struct Golden {
    pub dataset: String,
    pub key: String,
    pub raw: Vec<u8>,
    /// The JSON of `value` in the manifest, unless it was omitted.
    pub value: Option<String>,
    /// The JSON of `wire`, or of `value` where they are the same.
    pub wire: Option<String>,
}

impl Golden {
    fn id(&self) -> String {
        format!("{}: {}", self.dataset, self.key)
    }
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/datadings-3.4.7")
}

fn json_file(name: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(folder().join(name)).unwrap()).unwrap()
}

/// Every sample of every golden dataset.
pub(in crate::format) fn golden() -> Vec<Golden> {
    let text = std::fs::read_to_string(folder().join("manifest.json")).unwrap();
    // Some values are too deep for serde_json. Ours reads them once the names beginning with `$`
    // mean nothing to it, and what is under a value is given back as it stood.
    let manifest = jsonl::parse(text.replace("\"$", "\"~$").as_bytes()).unwrap();
    let mut all = Vec::new();
    for (name, dataset) in manifest["datasets"].as_map().unwrap() {
        let data = std::fs::read(folder().join(dataset["path"].as_str().unwrap())).unwrap();
        let by_rule = dataset["samples"].is_str();
        if by_rule {
            let rule = r#"value of sample i is {"key": keys[i], "v": i}"#;
            assert_eq!(dataset["samples"].as_str(), Some(rule));
        }
        let offset = |i: usize| dataset["offsets"][i].as_u64().unwrap() as usize;
        let len = dataset["len"].as_u64().unwrap() as usize;
        assert!(by_rule || dataset["samples"].as_array().unwrap().len() == len);
        for i in 0..len {
            let key = dataset["keys"][i].as_str().unwrap().to_owned();
            let ruled = serde_json::json!({"value": {"key": &key, "v": i}}).to_string();
            let ruled = jsonl::parse(ruled.as_bytes()).unwrap();
            let sample = if by_rule { &ruled } else { &dataset["samples"][i] };
            let text = |name: &str| {
                let mut json = Vec::new();
                jsonl::write(
                    Some(&sample[name]).filter(|value: &&Value| !value.is_nil())?,
                    &mut json,
                )
                .unwrap();
                Some(String::from_utf8(json).unwrap().replace("\"~$", "\"$"))
            };
            // Where the wire differs but was omitted there is nothing to compare with.
            let omitted = !sample["wire_omitted"].is_nil();
            all.push(Golden {
                dataset: name.as_str().unwrap().to_owned(),
                key,
                raw: data[offset(i)..offset(i + 1)].to_vec(),
                value: text("value"),
                wire: text("wire").or_else(|| text("value").filter(|_| !omitted)),
            });
        }
    }
    assert!(all.len() > 5000);
    all
}

/// The value with all floats of 64 bits.
pub(in crate::format) fn widened(value: Value) -> Value {
    match value {
        Value::F32(number) => Value::F64(widen(number)),
        Value::Array(items) => Value::Array(items.into_iter().map(widened).collect()),
        Value::Map(pairs) => {
            Value::Map(pairs.into_iter().map(|(k, v)| (widened(k), widened(v))).collect())
        }
        value => value,
    }
}

/// A generator for tests: the same numbers each time.
pub(in crate::format) struct Random(pub u64);

impl Random {
    pub(in crate::format) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }

    fn bits(&mut self) -> u64 {
        self.below(1 << 31) << 62 | self.below(1 << 31) << 31 | self.below(1 << 31)
    }

    /// A number. Small ones and neighbours of powers of two are as likely as others.
    fn number(&mut self) -> u64 {
        (self.bits() >> self.below(64)).wrapping_add(self.below(3)).wrapping_sub(1)
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = [0, 1, 2, 4, 8, 12, 16, 17, 31, 32, 255, 256, 70000][self.below(13) as usize];
        (0..len).map(|_| self.below(256) as u8).collect()
    }

    fn text(&mut self) -> String {
        let chars = ['a', '"', '\\', '$', '\n', '\0', 'é', '字', '😀', '\u{9b}', '\u{2028}', '/'];
        (0..self.below(40)).map(|_| chars[self.below(12) as usize]).collect()
    }

    pub(in crate::format) fn value(&mut self, levels: u64) -> Value {
        match self.below(if levels == 0 { 11 } else { 15 }) {
            0 => Value::Nil,
            1 => Value::Boolean(self.below(2) == 0),
            2 => Value::from(self.number()),
            3 => Value::from((self.number() as i64).wrapping_neg()),
            4 => Value::F64(f64::from_bits(self.bits())),
            5 => Value::F64(self.below(1000) as f64 / 8.0),
            6 => Value::from(self.text()),
            7 => Value::from(self.bytes()),
            8 => Value::Ext(self.below(256) as u8 as i8, self.bytes()),
            9 => Value::Ext(-1, timestamp::to_ext(self.number() as i64, 5).unwrap()),
            10 => {
                let (re, im) = (self.below(100) as f64 / 7.0, f64::from_bits(self.bits()));
                Special::Complex(re, im).to_value()
            }
            11 | 12 => {
                let len = [0, 1, 3, 15, 16, 20][self.below(6) as usize];
                Value::Array((0..len).map(|_| self.value(levels - 1)).collect())
            }
            13 => {
                let len = [0, 1, 3, 15, 16, 20][self.below(6) as usize];
                let entry = |i: u64, random: &mut Random| {
                    (Value::from(format!("field {i}")), random.value(levels - 1))
                };
                Value::Map((0..len).map(|i| entry(i, self)).collect())
            }
            _ => {
                let len = self.below(5);
                let pair = |random: &mut Random| (random.value(levels - 1), random.value(1));
                Value::Map((0..len).map(|_| pair(self)).collect())
            }
        }
    }
}

fn nested(depth: usize) -> Vec<u8> {
    let mut bytes = vec![0x91; depth - 1];
    bytes.push(0x90);
    bytes
}

#[test]
fn golden_samples_are_well_formed_and_have_their_keys() {
    for sample in golden() {
        assert_eq!(sample::check_sample(&sample.raw).unwrap(), sample.key, "{}", sample.id());
        assert_eq!(sample::key(&sample.raw).unwrap(), Some(&*sample.key));
        let fields: Vec<_> = sample::fields(&sample.raw).unwrap().map(Result::unwrap).collect();
        let last = fields.last().unwrap().1;
        assert!(sample.raw.ends_with(last));
        let name = Cursor::new(fields.last().unwrap().0).read_str().unwrap();
        assert_eq!(sample::field(&sample.raw, name).unwrap(), Some(last), "{}", sample.id());
    }
}

#[test]
fn golden_samples_decode_to_what_the_manifest_says() {
    let mut compared = 0;
    let mut differ = Vec::new();
    for sample in golden() {
        let Some(wire) = &sample.wire else { continue };
        let expected = to_vec(&jsonl::parse(wire.as_bytes()).unwrap()).unwrap();
        let decoded = to_vec(&widened(decode(&sample.raw).unwrap())).unwrap();
        compared += 1;
        if expected != decoded {
            differ.push(sample.id());
        }
    }
    assert!(compared > 5000);
    // Python keeps the last of two entries under one key, we keep both.
    assert_eq!(differ, ["rawwire: duplicate map keys: last wins"]);
}

#[test]
fn golden_samples_encode_to_their_own_bytes() {
    let again = |bytes: &[u8]| to_vec(&decode(bytes).unwrap()).unwrap();
    let mut values_differ = Vec::new();
    for sample in golden() {
        // In `rawwire` all keys have a `d9` header, which is too long for all but one.
        let long_key = sample.dataset == "rawwire" && sample.key.len() < 32;
        assert_eq!(again(&sample.raw) == sample.raw, !long_key, "{}", sample.id());
        if sample.dataset == "rawwire" {
            let value = sample::field(&sample.raw, "v").unwrap().unwrap();
            if again(value) != value {
                values_differ.push(sample.key);
            }
        }
    }
    // Headers and integers that are longer than need be, and nothing else. The other samples of
    // `rawwire` are odd in what they mean only: floats of 32 bits, NaN, maps that are nearly those
    // of an array.
    let expected = [
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
    assert_eq!(values_differ, expected);
}

/// Among the cases of `decode_quirks.json` many are about what happens to a *decoded* message in
/// Python. Out of scope here, where a message is what is on the wire:
///
/// * `nd ...`, `scalar ...`, `kind ...`, `structured ...`, `complex ...`: the hook that makes
///   arrays of
///   maps. All of them are well-formed maps; those not in canonical form stay maps for us.
/// * `list as map key`, `map as map key`: Python cannot hash these keys. We keep them.
/// * `nan map keys`, `1 and 1.0 and true collide as map keys`: what a Python dict makes of equal
///   keys. We keep all entries.
/// * `ext code -2`, `ext code -128`, `ext code -1 len ...`, `ts.. nanoseconds too big`: Python has
///   no
///   object for these. We keep code and bytes.
#[test]
fn quirks_of_the_wire_are_as_in_python() {
    let unread_by_python = [
        "list as map key",
        "map as map key",
        "ext code -1 len 1",
        "ext code -1 len 3",
        "ext code -2",
        "ext code -128",
        "ts96 nanoseconds too big",
        "ts64 nanoseconds too big",
    ];
    let of_the_hook = ["nd ", "scalar ", "kind ", "structured ", "complex "];
    let mut refused = Vec::new();
    let quirks = json_file("decode_quirks.json");
    for case in quirks["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let bytes = match case["hex"].as_str() {
            Some(hex) => (0..hex.len() / 2)
                .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
                .collect(),
            None => {
                use base64::Engine as _;
                let text = case["b64"].as_str().unwrap();
                base64::engine::general_purpose::STANDARD.decode(text).unwrap()
            }
        };
        let checked = check(&bytes);
        assert_eq!(checked.as_ref().err(), decode(&bytes).as_ref().err(), "{name}");
        if checked.is_err() {
            assert!(case.get("err").is_some(), "{name}: Python reads it");
            refused.push(name);
            continue;
        }
        assert_eq!(to_vec(&decode(&bytes).unwrap()).unwrap(), bytes, "{name}");
        let passed = unread_by_python.contains(&name)
            || of_the_hook.iter().any(|prefix| name.starts_with(prefix));
        assert!(case.get("err").is_none() || passed, "{name}: Python refuses it");
    }
    let expected = [
        "reserved byte c1",
        "empty",
        "trailing byte",
        "invalid utf8",
        "truncated str",
        "truncated array",
        "truncated u32",
        "array len lies",
        "map len lies",
        "nested arrays 1025",
        "str16 65535 truncated",
        "bin32 huge length",
    ];
    assert_eq!(refused, expected);
}

#[test]
fn errors_say_where_and_what() {
    let table: [(&[u8], &str); 16] = [
        (b"", "byte 0: expected a value, found end of input"),
        (b"\xc1", "byte 0: expected a value, found the reserved byte c1"),
        (b"\x92\x01\xc1", "byte 2: expected a value, found the reserved byte c1"),
        (b"\x01\x02\x03", "byte 1: expected end of input, found 2 bytes more"),
        (b"\xa3ab", "byte 0: expected a string of 3 bytes, found end of input after 2 bytes"),
        (b"\xda\x01", "byte 0: expected a value with its length, found end of input after 2 bytes"),
        (
            b"\xc6\xff\xff\xff\xff",
            "byte 0: expected binary data of 4294967295 bytes, found end of input",
        ),
        (b"\xce\0", "byte 0: expected an integer of 4 bytes, found end of input after 1 byte"),
        (
            b"\xdd\xff\xff\xff\xff",
            "byte 0: expected an array of 4294967295 values, found end of input",
        ),
        (
            b"\x82\x01\x02\x03",
            "byte 0: expected a map of 2 pairs, found end of input after 3 bytes",
        ),
        (b"\x91\xa2a\xff", "byte 3: expected UTF-8, found the byte ff"),
        // Overlong, a surrogate, beyond the last character: as strict as Python.
        (b"\xa2\xc0\x80", "byte 1: expected UTF-8, found the byte c0"),
        (b"\xa3\xed\xa0\x80", "byte 1: expected UTF-8, found the byte ed"),
        (b"\xa4\xf4\x90\x80\x80", "byte 1: expected UTF-8, found the byte f4"),
        (b"\xd4\x05", "byte 0: expected an extension of 2 bytes, found end of input after 1 byte"),
        (
            b"\xc9\xff\xff\xff\xff\x05",
            "byte 0: expected an extension of 4294967296 bytes, found end of input after 1 byte",
        ),
    ];
    for (bytes, message) in table {
        assert_eq!(check(bytes).unwrap_err().to_string(), message);
        let decoded = decode(bytes).unwrap_err();
        assert_eq!(decoded.position, check(bytes).unwrap_err().position, "{message}");
    }
}

#[test]
fn the_cursor_says_what_it_found() {
    fn found<T: std::fmt::Debug>(
        bytes: &'static [u8],
        read: impl FnOnce(&mut Cursor<'static>) -> Result<T, FormatError>,
    ) -> String {
        let mut cursor = Cursor::new(bytes);
        let message = read(&mut cursor).unwrap_err().to_string();
        assert_eq!(cursor.position(), 0, "a failed read moves nothing");
        message.strip_prefix("byte 0: expected ").unwrap().to_owned()
    }
    assert_eq!(found(b"\x05", |c| c.read_str()), "a string, found the integer 5");
    assert_eq!(
        found(b"\xff", |c| c.read_u64()),
        "an integer from 0 to 2^64-1, found the integer -1"
    );
    assert_eq!(
        found(b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", |c| c.read_i64()),
        "an integer from -2^63 to 2^63-1, found the integer 18446744073709551615"
    );
    assert_eq!(found(b"\xa1a", |c| c.read_bin()), "binary data, found a string");
    assert_eq!(found(b"\xc4\x01a", |c| c.read_str()), "a string, found binary data");
    assert_eq!(found(b"\xc0", |c| c.read_bytes()), "binary data or a string, found nil");
    assert_eq!(found(b"\xc3", |c| c.read_nil()), "nil, found true");
    assert_eq!(found(b"\x91\x01", |c| c.read_map_len()), "a map, found an array of 1 values");
    assert_eq!(found(b"\x81\x01\x02", |c| c.read_array_len()), "an array, found a map of 1 pairs");
    assert_eq!(found(b"\xca\x3f\xc0\0\0", |c| c.read_bool()), "a boolean, found the float 1.5");
    assert_eq!(
        found(b"\xcb\0\0\0\0\0\0\0\0", |c| c.read_f32()),
        "a float of 32 bits, found the float 0.0"
    );
    assert_eq!(found(b"\x01", |c| c.read_ext()), "an extension, found the integer 1");
    assert_eq!(found(b"\xd4\x05a", |c| c.read_f64()), "a float, found an extension");
    assert_eq!(found(b"", |c| c.read_f64()), "a float, found end of input");
    let mut cursor = Cursor::new(b"\xd9\x03a\xffb");
    let err = cursor.read_str().unwrap_err();
    assert_eq!(err.to_string(), "byte 3: expected UTF-8, found the byte ff");
    assert_eq!(cursor.position(), 0);
    assert_eq!(cursor.read_str_bytes(), Ok(&b"a\xffb"[..]));
}

#[test]
fn the_cursor_reads_every_form() {
    let mut cursor = Cursor::new(b"\xd0\x05\xd0\xff\xd3\xff\xff\xff\xff\xff\xff\xff\xff\xcd\x01\0");
    assert_eq!(cursor.read_u64(), Ok(5));
    assert_eq!(cursor.read_i64(), Ok(-1));
    assert_eq!(cursor.read_i64(), Ok(-1));
    assert_eq!(cursor.read_u64(), Ok(256));
    let mut cursor = Cursor::new(b"\xca\x3f\xc0\0\0\xca\x3f\xc0\0\0\xcb\x3f\xf8\0\0\0\0\0\0");
    assert_eq!(cursor.read_f32(), Ok(1.5));
    assert_eq!(cursor.read_f64(), Ok(1.5));
    assert_eq!(cursor.read_f64(), Ok(1.5));
    let mut cursor = Cursor::new(b"\xc7\0\x05\xd5\xffab\xa1s\xc4\x01b\xc0\xc2\x91\x81\x01\x02");
    assert_eq!(cursor.read_ext(), Ok((5, &b""[..])));
    assert_eq!(cursor.read_ext(), Ok((-1, &b"ab"[..])));
    assert_eq!(cursor.read_bytes(), Ok(&b"s"[..]));
    assert_eq!(cursor.read_bytes(), Ok(&b"b"[..]));
    assert_eq!(cursor.read_nil(), Ok(()));
    assert_eq!(cursor.read_bool(), Ok(false));
    assert_eq!(cursor.peek(), Ok(Kind::Array));
    assert_eq!(cursor.skip_raw(), Ok(&b"\x91\x81\x01\x02"[..]));
    assert!(cursor.is_at_end());
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn a_thousand_and_twenty_four_containers_and_no_more() {
    for depth in [1, 2, MAX_DEPTH] {
        let bytes = nested(depth);
        assert_eq!(check(&bytes), Ok(()));
        assert_eq!(to_vec(&decode(&bytes).unwrap()).unwrap(), bytes);
    }
    let bytes = nested(MAX_DEPTH + 1);
    let err = check(&bytes).unwrap_err();
    assert_eq!(err.position, MAX_DEPTH as u64);
    assert_eq!(decode(&bytes).unwrap_err(), err);
    assert_eq!(Cursor::new(&bytes).skip().unwrap_err(), err);
    // An extension or a scalar at the bottom is no container.
    let mut bytes = vec![0x91; MAX_DEPTH];
    bytes.extend_from_slice(b"\xd4\x05a");
    assert_eq!(to_vec(&decode(&bytes).unwrap()).unwrap(), bytes);
    // Depth counts nested containers, not their total number.
    let mut bytes = b"\xdc\x08\0".to_vec();
    bytes.extend([0x90; 2048]);
    assert_eq!(check(&bytes), Ok(()));
    let deep = Value::Array(vec![decode(&nested(MAX_DEPTH)).unwrap()]);
    let mut out = b"before".to_vec();
    assert_eq!(encode(&deep, &mut out), Err(EncodeError::TooDeep));
    assert_eq!(out, b"before");
    // A million opening brackets are no danger to the stack, as arrays, as maps, and as keys.
    for tag in [0x91, 0x81] {
        assert!(decode(&vec![tag; 1_000_000]).is_err());
        assert!(check(&vec![tag; 1_000_000]).is_err());
    }
}

#[test]
fn text_that_is_not_utf8_is_not_encoded() {
    let bad = rmpv::decode::read_value(&mut &b"\xa1\xff"[..]).unwrap();
    assert_eq!(to_vec(&bad), Err(EncodeError::NotUtf8));
    let error = crate::Error::from(EncodeError::NotUtf8);
    assert_eq!(error.kind(), crate::ErrorKind::Invalid);
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn a_truncated_or_flipped_sample_never_panics() {
    let mut flips = 0;
    for sample in golden().iter().filter(|sample| sample.raw.len() < 300) {
        for len in 0..sample.raw.len() {
            let cut = &sample.raw[..len];
            assert!(check(cut).is_err(), "{} cut to {len}", sample.id());
            assert_eq!(decode(cut).unwrap_err().position, check(cut).unwrap_err().position);
            assert!(sample::check_sample(cut).is_err());
        }
        if sample.dataset == "many5000" || flips > 200_000 {
            continue;
        }
        let mut bytes = sample.raw.clone();
        for at in 0..bytes.len() {
            for mask in [0x01, 0x80, 0xff, 0x10, 0x60] {
                bytes[at] ^= mask;
                flips += 1;
                let checked = check(&bytes);
                let decoded = decode(&bytes);
                assert_eq!(checked.is_ok(), decoded.is_ok(), "{} at {at}", sample.id());
                // The unchecked readers must not panic either; what they return does not matter.
                let _ = (sample::key(&bytes), sample::field(&bytes, "v"));
                let _ = sample::fields(&bytes).map(Iterator::count);
                if let Ok(value) = decoded {
                    let packed = to_vec(&value).unwrap();
                    assert!(packed.len() <= bytes.len());
                    assert_eq!(to_vec(&decode(&packed).unwrap()).unwrap(), packed);
                }
                bytes[at] ^= mask;
            }
        }
    }
    assert!(flips > 50_000);
}

#[test]
fn random_values_survive() {
    let mut random = Random(1);
    for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
        let value = random.value(4);
        let packed = to_vec(&value).unwrap();
        check(&packed).unwrap();
        let decoded = decode(&packed).unwrap();
        assert_eq!(to_vec(&decoded).unwrap(), packed);
        // An independent reader sees the same.
        let theirs = rmpv::decode::read_value(&mut &packed[..]).unwrap();
        assert_eq!(to_vec(&theirs).unwrap(), packed);
        let mut cursor = Cursor::new(&packed);
        assert_eq!(cursor.skip_raw(), Ok(&packed[..]));
    }
}

#[test]
fn every_length_takes_the_shortest_header() {
    let table: [(usize, [&[u8]; 5]); 8] = [
        (15, [b"\xaf", b"\xc4\x0f", b"\x9f", b"\x8f", b"\xc7\x0f\x05"]),
        (16, [b"\xb0", b"\xc4\x10", b"\xdc\0\x10", b"\xde\0\x10", b"\xd8\x05"]),
        (31, [b"\xbf", b"\xc4\x1f", b"\xdc\0\x1f", b"\xde\0\x1f", b"\xc7\x1f\x05"]),
        (32, [b"\xd9\x20", b"\xc4\x20", b"\xdc\0\x20", b"\xde\0\x20", b"\xc7\x20\x05"]),
        (255, [b"\xd9\xff", b"\xc4\xff", b"\xdc\0\xff", b"\xde\0\xff", b"\xc7\xff\x05"]),
        (256, [b"\xda\x01\0", b"\xc5\x01\0", b"\xdc\x01\0", b"\xde\x01\0", b"\xc8\x01\0\x05"]),
        (
            65535,
            [
                b"\xda\xff\xff",
                b"\xc5\xff\xff",
                b"\xdc\xff\xff",
                b"\xde\xff\xff",
                b"\xc8\xff\xff\x05",
            ],
        ),
        (
            65536,
            [
                b"\xdb\0\x01\0\0",
                b"\xc6\0\x01\0\0",
                b"\xdd\0\x01\0\0",
                b"\xdf\0\x01\0\0",
                b"\xc9\0\x01\0\0\x05",
            ],
        ),
    ];
    for (len, headers) in table {
        let values = [
            Value::from("x".repeat(len)),
            Value::from(vec![0; len]),
            Value::Array(vec![Value::Nil; len]),
            Value::Map(vec![(Value::Nil, Value::Nil); len]),
            Value::Ext(5, vec![0; len]),
        ];
        for (value, header) in values.iter().zip(headers) {
            let packed = to_vec(value).unwrap();
            assert!(packed.starts_with(header), "{len}: {:02x?}", &packed[..6]);
            assert_eq!(check(&packed), Ok(()));
            assert_eq!(&decode(&packed).unwrap(), value);
        }
    }
}

#[test]
fn every_integer_takes_the_shortest_form() {
    let table: [(Value, &[u8]); 14] = [
        (Value::from(0), b"\0"),
        (Value::from(127), b"\x7f"),
        (Value::from(128), b"\xcc\x80"),
        (Value::from(255), b"\xcc\xff"),
        (Value::from(256), b"\xcd\x01\0"),
        (Value::from(65536), b"\xce\0\x01\0\0"),
        (Value::from(1u64 << 32), b"\xcf\0\0\0\x01\0\0\0\0"),
        (Value::from(-1), b"\xff"),
        (Value::from(-32), b"\xe0"),
        (Value::from(-33), b"\xd0\xdf"),
        (Value::from(-129), b"\xd1\xff\x7f"),
        (Value::from(-32769), b"\xd2\xff\xff\x7f\xff"),
        (Value::from(i64::from(i32::MIN) - 1), b"\xd3\xff\xff\xff\xff\x7f\xff\xff\xff"),
        (Value::from(i64::MIN), b"\xd3\x80\0\0\0\0\0\0\0"),
    ];
    for (value, packed) in table {
        assert_eq!(to_vec(&value).unwrap(), packed);
        assert_eq!(decode(packed).unwrap(), value);
    }
}

#[test]
fn floats_keep_their_width_and_their_bits() {
    for packed in [&b"\xca\x3f\xc0\0\0"[..], b"\xca\x7f\x80\0\x01", b"\xcb\xff\xf0\0\0\0\0\x01\x23"]
    {
        assert_eq!(to_vec(&decode(packed).unwrap()).unwrap(), packed);
    }
    assert_eq!(widen(f32::from_bits(0xffc0_0001)).to_bits(), 0xfff8_0000_2000_0000);
    assert_eq!(widen(f32::from_bits(0x7f80_0001)).to_bits(), 0x7ff0_0000_2000_0000);
    assert_eq!(widen(-0.0).to_bits(), (-0.0f64).to_bits());
    assert_eq!(widen(f32::from_bits(1)), f64::from(f32::from_bits(1)));
    assert_eq!(widen(f32::NEG_INFINITY), f64::NEG_INFINITY);
}

#[test]
fn the_last_of_two_equal_names_counts() {
    let sample = b"\x83\xa3key\x05\xa1a\x01\xa3key\xa1k";
    assert_eq!(sample::check_sample(sample), Ok("k"));
    assert_eq!(sample::field(sample, "key"), Ok(Some(&b"\xa1k"[..])));
    assert_eq!(sample::fields(sample).unwrap().count(), 3);
    let sample = b"\x82\xa3key\xa1k\xa3key\x05";
    let err = sample::check_sample(sample).unwrap_err();
    assert_eq!(err.to_string(), "byte 11: expected a string, found the integer 5");
}

#[test]
fn samples_are_maps_with_a_key() {
    // A binary "key" is another key, and so is one deeper down.
    for sample in [&b"\x80"[..], b"\x81\xc4\x03key\xa1k", b"\x81\xa1a\x81\xa3key\xa1k"] {
        assert_eq!(sample::key(sample), Ok(None));
        let err = sample::check_sample(sample).unwrap_err();
        assert_eq!(
            err.to_string(),
            "byte 0: expected a map with a \"key\", found a map without one"
        );
    }
    let err = sample::key(b"\xa1k").unwrap_err();
    assert_eq!(err.to_string(), "byte 0: expected a map, found a string");
    // A long form of the name is the same name.
    assert_eq!(sample::key(b"\x81\xda\0\x03key\xa1k"), Ok(Some("k")));
    let mut fields = sample::fields(b"\x82\x01\x02\x03\xc1").unwrap();
    assert_eq!(fields.next(), Some(Ok((&b"\x01"[..], &b"\x02"[..]))));
    assert!(fields.next().unwrap().is_err());
    assert_eq!(fields.next(), None);
}

#[test]
fn python_reprs_of_complex() {
    let inf = f64::INFINITY;
    let table = [
        (0.0, 1.0, "1j"),
        (0.0, -0.0, "-0j"),
        (-0.0, -1.0, "(-0-1j)"),
        (1.0, 2.0, "(1+2j)"),
        (1e16, 1e-5, "(1e+16+1e-05j)"),
        (1e15, 1e17, "(1000000000000000+1e+17j)"),
        (0.0001, -1234.5, "(0.0001-1234.5j)"),
        (1.5e300, 5e-324, "(1.5e+300+5e-324j)"),
        (1e22, 123456789012345680.0, "(1e+22+1.2345678901234568e+17j)"),
        (f64::NAN, -f64::NAN, "(nan+nanj)"),
        (-inf, inf, "(-inf+infj)"),
        (0.0, f64::NAN, "nanj"),
        (9999999999999998.0, 0.1, "(9999999999999998+0.1j)"),
    ];
    for (re, im, text) in table {
        assert_eq!(complex_repr(re, im), text);
        let value = Special::Complex(re, im).to_value();
        let Some(Special::Complex(re2, im2)) = recognise(&value) else { panic!("{text}") };
        assert_eq!(complex_repr(re2, im2), text);
        if !re.is_nan() && !im.is_nan() {
            assert_eq!((re2.to_bits(), im2.to_bits()), (re.to_bits(), im.to_bits()));
        }
    }
    let mut random = Random(3);
    for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
        let (re, im) = (f64::from_bits(random.bits()), random.below(1 << 31) as f64 / 1e12);
        let value = Special::Complex(re, im).to_value();
        assert_eq!(recognise(&value).unwrap().to_value(), value);
    }
    for text in
        ["(1+2J)", "1", "( 1+2j)", "(1.0+2j)", "1e16j", "(0+1j)", "(1+2j", "j", "(j)", "(+1j)", ""]
    {
        let mut value = Special::Complex(0.0, 0.0).to_value();
        let Value::Map(entries) = &mut value else { unreachable!() };
        entries[1].1 = Value::from(text);
        assert_eq!(recognise(&value), None, "{text}");
    }
}

#[test]
fn only_canonical_types_are_recognised() {
    use super::numpy::{dtype_from_value, dtype_to_value};
    use crate::value::{DType, NdArray};
    let json = |text: &str| jsonl::parse(text.as_bytes()).unwrap();
    let table = [
        (r#""<f4""#, Some(4)),
        (r#"">c16""#, Some(16)),
        (r#""|b1""#, Some(1)),
        (r#""<U5""#, Some(20)),
        (r#""|S0""#, Some(0)),
        (r#""<f16""#, Some(16)),
        (r#""<M8[ns]""#, Some(8)),
        (r#"">m8[25us]""#, Some(8)),
        (r#""<M8""#, Some(8)),
        (r#"[["a","<i4"],["","|V3"],["s","<f4",[2,3]],["n",[["x","|u1"]]],["","|V1"]]"#, Some(33)),
        (r#"[]"#, Some(0)),
        (r#""=i4""#, None),
        (r#""float32""#, None),
        (r#""<i1""#, None),
        (r#""|i4""#, None),
        (r#""<f4 ""#, None),
        (r#""<f04""#, None),
        (r#""<i3""#, None),
        (r#""|V3""#, None),
        (r#""|O""#, None),
        (r#""<M8[]""#, None),
        (r#""<M8[xs]""#, None),
        (r#""<U99999999999999999999""#, None),
        (r#""<U9999999999999999999""#, None),
        (r#""""#, None),
        (r#""é""#, None),
        (r#"[["a","|O"]]"#, None),
        (r#"[["a","<i4"],["a","<i4"]]"#, None),
        (r#"[[["title","a"],"<i4"]]"#, None),
        (r#"[["a","<i4",[]]]"#, None),
        (r#"[["a","<i4",[18446744073709551615,2]]]"#, None),
        (r#"[["a"]]"#, None),
        (r#"["a"]"#, None),
        (r#"5"#, None),
    ];
    for (descr, size) in table {
        let descr = json(descr);
        let dtype = dtype_from_value(&descr);
        assert_eq!(dtype.as_ref().map(DType::item_size), size, "{descr}");
        assert!(dtype.is_none_or(|dtype| dtype_to_value(&dtype) == descr));
    }
    // Nesting far beyond anything real is not followed.
    let mut deep = json(r#"[["a","<i4"]]"#);
    for _ in 0..if cfg!(miri) { 5 } else { 300 } {
        deep = Value::Array(vec![Value::Array(vec!["a".into(), deep])]);
    }
    assert_eq!(dtype_from_value(&deep), None);
    let float = DType::of::<f32>();
    let array = NdArray::new(float.clone(), [2], &[0; 8][..]).unwrap();
    let value = Special::Array(array.clone()).to_value();
    assert_eq!(recognise(&value), Some(Special::Array(array)));
    let Value::Map(mut entries) = value else { unreachable!() };
    entries[4].1 = Value::from(vec![0; 9]);
    assert_eq!(recognise(&Value::Map(entries)), None);
    assert!(Special::scalar(float.clone(), &[0; 4][..]).is_some());
    assert!(Special::scalar(float, &[0; 5][..]).is_none());
    assert!(Special::scalar(DType::bytes(4), &[0; 4][..]).is_none());
}

#[test]
fn timestamps_have_one_form_each() {
    use super::timestamp::{from_ext, to_ext};
    for (seconds, nanoseconds, len) in [
        (0, 0, 4),
        (u32::MAX.into(), 0, 4),
        (1 << 32, 0, 8),
        (0, 1, 8),
        ((1 << 34) - 1, 999_999_999, 8),
        (1 << 34, 0, 12),
        (-1, 0, 12),
        (i64::MIN, 5, 12),
    ] {
        let data = to_ext(seconds, nanoseconds).unwrap();
        assert_eq!(data.len(), len);
        assert_eq!(from_ext(&data), Some((seconds, nanoseconds)));
    }
    assert_eq!(to_ext(0, 1_000_000_000), None);
    assert_eq!(from_ext(&[0; 8]), None);
    assert_eq!(from_ext(&[0; 12]), None);
    assert_eq!(from_ext(&[0xff; 8]), None);
    for len in [0, 1, 3, 5, 11, 13] {
        assert_eq!(from_ext(&vec![0; len]), None);
    }
}

#[test]
fn integers_are_read_alike_however_many_bytes_follow() {
    let numbers = [0, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000, 0xffff_ffff, 1 << 32, u64::MAX];
    for number in numbers {
        for (tag, size) in [(0xcc, 1), (0xcd, 2), (0xce, 4), (0xcf, 8)] {
            let packed = &number.to_be_bytes()[8 - size..];
            if number.leading_zeros() < 64 - 8 * size as u32 {
                continue;
            }
            for behind in 0..10 {
                let bytes = [&[tag], packed, &vec![0xff; behind]].concat();
                let mut cursor = Cursor::new(&bytes);
                assert_eq!(cursor.read_u64(), Ok(number), "{bytes:x?}");
                assert_eq!(cursor.position(), 1 + size, "{bytes:x?}");
                for end in 0..=size {
                    let mut cursor = Cursor::new(&bytes[..end]);
                    assert!(cursor.read_u64().is_err() && cursor.position() == 0, "{bytes:x?}");
                }
            }
        }
    }
}
