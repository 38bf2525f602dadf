//! `NAME.shards.json`: the manifest of a dataset of many files.
//!
//! It lists the shards in order; each is an ordinary dataset. The content is checked when it is
//! parsed or made, so a [`Manifest`] always keeps the rules: names are relative and differ, and the
//! sums are right. Whether the shards match the list is for callers that can open them.

use std::collections::HashSet;
use std::fmt::{self, Write};

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{Digest, SideFile, keys};
use crate::format::claimed::Claimed;
use crate::format::{FormatError, hex};

/// The ending of the name of a manifest.
pub const SUFFIX: &str = ".shards.json";
/// The version that is written, and the highest that is read.
pub const VERSION: u32 = 1;
/// The most bytes of a manifest.
pub const MAX_BYTES: u64 = 1 << 26;
/// The most shards.
pub const MAX_SHARDS: usize = 1 << 18;
/// The most bytes of the name of a shard.
pub const MAX_NAME: usize = 1024;
/// The most bytes of a key in a range; of a shard with a longer one no range is written.
pub const MAX_KEY: usize = 256;

/// The value of `"format"`.
const FORMAT: &str = "kiste shards";

/// The shards of a dataset, in order.
///
/// ```
/// use kiste::format::dataset::shards::{Manifest, ShardEntry};
///
/// let shard = ShardEntry::new("train-00000.msgpack", 2, 100);
/// let manifest = Manifest::new(vec![shard])?;
/// let text = manifest.render();
/// assert_eq!(
///     text,
///     r#"{"format":"kiste shards","version":1,"samples":2,"bytes":100,"shards":[
/// {"name":"train-00000.msgpack","samples":2,"bytes":100}
/// ]}
/// "#
/// );
/// assert_eq!(Manifest::parse(text.as_bytes())?, manifest);
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    shards: Vec<ShardEntry>,
    samples: u64,
    bytes: u64,
    unknown: Option<String>,
}

/// The entry of a manifest for one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardEntry {
    /// The data file, relative to the directory of the manifest, with `/` between components.
    pub name: String,
    /// Samples.
    pub samples: u64,
    /// Bytes of the data file.
    pub bytes: u64,
    /// The MD5 of the data file, if it is known.
    pub md5: Option<Digest>,
    /// The least and the greatest key by their bytes, if they are known.
    pub keys: Option<(String, String)>,
}

impl ShardEntry {
    /// A shard about which nothing else is known.
    pub fn new(name: impl Into<String>, samples: u64, bytes: u64) -> ShardEntry {
        ShardEntry { name: name.into(), samples, bytes, md5: None, keys: None }
    }
}

/// The text as it is parsed. A member that occurs twice is an error, and one that this version does not
/// know is passed over, however large: only the name of the first is kept. (`#[serde(flatten)]` would
/// keep all of them.)
struct Text {
    samples: u64,
    bytes: u64,
    shards: Vec<TextShard>,
    unknown: Option<String>,
}

#[derive(Serialize)]
struct TextShard {
    name: String,
    samples: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    md5: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<(String, String)>,
    #[serde(skip_serializing)]
    unknown: Option<String>,
}

/// Reads a member into its place, which must be empty.
fn member<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
    map: &mut A,
    name: &'static str,
    place: &mut Option<T>,
) -> Result<(), A::Error> {
    if place.is_some() {
        return Err(A::Error::duplicate_field(name));
    }
    *place = Some(map.next_value()?);
    Ok(())
}

/// Passes over a member that this version does not know.
fn pass_over<'de, A: MapAccess<'de>>(
    map: &mut A,
    name: String,
    unknown: &mut Option<String>,
) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>()?;
    unknown.get_or_insert(name);
    Ok(())
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text, A::Error> {
                let (mut format, mut version) = (None::<IgnoredAny>, None::<IgnoredAny>);
                let (mut samples, mut bytes) = (None, None);
                let (mut shards, mut unknown) = (None::<TextShards>, None);
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        // They were looked at before.
                        "format" => member(&mut map, "format", &mut format)?,
                        "version" => member(&mut map, "version", &mut version)?,
                        "samples" => member(&mut map, "samples", &mut samples)?,
                        "bytes" => member(&mut map, "bytes", &mut bytes)?,
                        "shards" => member(&mut map, "shards", &mut shards)?,
                        _ => pass_over(&mut map, name, &mut unknown)?,
                    }
                }
                let missing = A::Error::missing_field;
                Ok(Text {
                    samples: samples.ok_or_else(|| missing("samples"))?,
                    bytes: bytes.ok_or_else(|| missing("bytes"))?,
                    shards: shards.ok_or_else(|| missing("shards"))?.0,
                    unknown,
                })
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl<'de> Deserialize<'de> for TextShard {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TextShard, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = TextShard;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object for each shard")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TextShard, A::Error> {
                let (mut shard_name, mut samples, mut bytes) = (None, None, None);
                let (mut md5, mut keys, mut unknown) = (None, None, None);
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "name" => member(&mut map, "name", &mut shard_name)?,
                        "samples" => member(&mut map, "samples", &mut samples)?,
                        "bytes" => member(&mut map, "bytes", &mut bytes)?,
                        "md5" => member(&mut map, "md5", &mut md5)?,
                        "keys" => member(&mut map, "keys", &mut keys)?,
                        _ => pass_over(&mut map, name, &mut unknown)?,
                    }
                }
                let missing = A::Error::missing_field;
                Ok(TextShard {
                    name: shard_name.ok_or_else(|| missing("name"))?,
                    samples: samples.ok_or_else(|| missing("samples"))?,
                    bytes: bytes.ok_or_else(|| missing("bytes"))?,
                    // `null` stands for nothing.
                    md5: md5.flatten(),
                    keys: keys.flatten(),
                    unknown,
                })
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// No more shards than allowed, even if more follow.
struct TextShards(Vec<TextShard>);

impl<'de> Deserialize<'de> for TextShards {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TextShards, D::Error> {
        struct Elements;
        impl<'de> Visitor<'de> for Elements {
            type Value = TextShards;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of shards")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<TextShards, A::Error> {
                let mut shards = Vec::new();
                while let Some(shard) = list.next_element()? {
                    if shards.len() >= MAX_SHARDS {
                        let message = format!("more than {MAX_SHARDS} shards");
                        return Err(A::Error::custom(message));
                    }
                    shards.push(shard);
                }
                Ok(TextShards(shards))
            }
        }
        deserializer.deserialize_seq(Elements)
    }
}

/// Only what says which version it is: a newer one may differ in all else.
#[derive(Deserialize)]
struct Head {
    format: Option<String>,
    version: Option<u64>,
}

impl Manifest {
    /// The manifest of these shards, in this order.
    ///
    /// # Errors
    ///
    /// If one of the rules is broken: names that lead elsewhere or are equal, more samples or bytes than
    /// 64 bits count, a range of keys in the wrong order or without samples.
    pub fn new(shards: Vec<ShardEntry>) -> Result<Manifest, FormatError> {
        let wrong = |expected: &str, found: String| Err(FormatError::new(0, expected, found));
        if shards.len() > MAX_SHARDS {
            return wrong(&format!("at most {MAX_SHARDS} shards"), shards.len().to_string());
        }
        let mut names = HashSet::with_capacity(shards.len());
        let (mut samples, mut bytes) = (0u64, 0u64);
        for shard in &shards {
            let name = &shard.name;
            check_name(name)?;
            if !names.insert(name.as_str()) {
                return wrong("each shard once", format!("{name:?} again"));
            }
            let what = format!("samples of {}", start(name));
            Claimed::new(shard.samples).within(keys::MAX_COUNT, &what, 0).map(drop)?;
            let sum = samples.checked_add(shard.samples).zip(bytes.checked_add(shard.bytes));
            let Some(sum) = sum else {
                return wrong("fewer than 2^64 samples and bytes", format!("more, up to {name:?}"));
            };
            (samples, bytes) = sum;
            if let Some((first, last)) = &shard.keys {
                if shard.samples == 0 || first > last || first.len().max(last.len()) > MAX_KEY {
                    let expected =
                        format!("a range of keys of at most {MAX_KEY} bytes of {name:?}");
                    return wrong(&expected, format!("{} to {}", start(first), start(last)));
                }
            }
        }
        Ok(Manifest { shards, samples, bytes, unknown: None })
    }

    /// Parses a manifest.
    ///
    /// # Errors
    ///
    /// If it is no manifest, of a newer version, or breaks one of the rules.
    pub fn parse(text: &[u8]) -> Result<Manifest, FormatError> {
        if text.len() as u64 > MAX_BYTES {
            let expected = format!("a manifest of at most {MAX_BYTES} bytes");
            return Err(FormatError::new(0, expected, text.len().to_string()));
        }
        let head: Head = serde_json::from_slice(text).map_err(|error| not_json(text, &error))?;
        if head.format.as_deref() != Some(FORMAT) {
            let found = head.format.map_or("none".to_owned(), |format| start(&format));
            return Err(FormatError::new(0, format!("the format {FORMAT:?}"), found));
        }
        if head.version != Some(VERSION.into()) {
            let found = head.version.map_or("none".to_owned(), |version| version.to_string());
            return Err(FormatError::new(0, format!("version {VERSION}"), found));
        }
        let parsed: Text = serde_json::from_slice(text).map_err(|error| not_json(text, &error))?;
        let mut unknown = parsed.unknown;
        let mut shards = Vec::with_capacity(parsed.shards.len());
        for shard in parsed.shards {
            let TextShard { name, samples, bytes, md5, keys, unknown: more } = shard;
            unknown = unknown.or(more);
            let md5 = md5.map(|digits| parse_md5(&name, &digits)).transpose()?;
            shards.push(ShardEntry { name, samples, bytes, md5, keys });
        }
        let manifest = Manifest { unknown, ..Manifest::new(shards)? };
        for (what, said, sum) in
            [("samples", parsed.samples, manifest.samples), ("bytes", parsed.bytes, manifest.bytes)]
        {
            if said != sum {
                let expected = format!("{said} {what} in the shards, as it says");
                return Err(FormatError::new(0, expected, sum.to_string()));
            }
        }
        Ok(manifest)
    }

    /// The text: the same bytes for the same shards, a line for each.
    pub fn render(&self) -> String {
        let Manifest { shards, samples, bytes, .. } = self;
        let mut text = String::new();
        // A String takes everything.
        let _ = write!(
            text,
            "{{\"format\":\"{FORMAT}\",\"version\":{VERSION},\"samples\":{samples},\"bytes\":{bytes},\
             \"shards\":["
        );
        for (at, shard) in shards.iter().enumerate() {
            let ShardEntry { name, samples, bytes, md5, keys } = shard.clone();
            let md5 = md5.map(|md5| hex(&md5));
            let line = TextShard { name, samples, bytes, md5, keys, unknown: None };
            text += if at == 0 { "\n" } else { ",\n" };
            // There is nothing in it that JSON lacks.
            text += &serde_json::to_string(&line).unwrap_or_default();
        }
        text += "\n]}\n";
        text
    }

    /// The shards, in order.
    pub fn shards(&self) -> &[ShardEntry] {
        &self.shards
    }

    /// Samples of all shards.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Bytes of all data files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first member that this version does not know, if there is one: reading passes it over,
    /// and a manifest that is made of this one would lack it.
    pub fn unknown(&self) -> Option<&str> {
        self.unknown.as_deref()
    }
}

/// Whether this is the name of a manifest.
pub fn is_manifest(name: &str) -> bool {
    name.strip_suffix(SUFFIX).is_some_and(|stem| !stem.is_empty() && !stem.ends_with(['/', '\\']))
}

/// Fails for a name that leads out of the directory, on any system, or is no data file's.
fn check_name(name: &str) -> Result<(), FormatError> {
    let leads = |part: &str| matches!(part, "" | "." | "..");
    let is_relative = name.len() <= MAX_NAME
        && !name.split('/').any(leads)
        && !name.contains(['\\', ':'])
        && !name.contains(char::is_control);
    let is_other = SideFile::ALL.iter().any(|side| name.ends_with(side.suffix()))
        || [".partial", ".labels", SUFFIX].iter().any(|suffix| name.ends_with(suffix));
    if is_relative && !is_other {
        return Ok(());
    }
    let expected = "the name of a data file, relative to the manifest";
    Err(FormatError::new(0, expected, start(name)))
}

/// The first characters of a text that may be long, in quotes.
fn start(text: &str) -> String {
    format!("{:?}", text.chars().take(40).collect::<String>())
}

fn parse_md5(name: &str, digits: &str) -> Result<Digest, FormatError> {
    let value = u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes);
    // Only one text stands for a digest.
    value.filter(|digest| hex(digest) == digits).ok_or_else(|| {
        let expected = format!("an MD5 of 32 lower-case digits for {name:?}");
        FormatError::new(0, expected, start(digits))
    })
}

/// The error of invalid JSON, at its byte.
fn not_json(text: &[u8], error: &serde_json::Error) -> FormatError {
    let lines = text.split_inclusive(|&byte| byte == b'\n').take(error.line().saturating_sub(1));
    let at = lines.map(<[u8]>::len).sum::<usize>() + error.column().saturating_sub(1);
    let message = error.to_string();
    // Where it is stands in front already.
    let message = message.split(" at line ").next().unwrap_or_default();
    FormatError::new(at.min(text.len()) as u64, "the manifest of a sharded dataset", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = r#"{"format":"kiste shards","version":1,"samples":5,"bytes":300,"shards":[
{"name":"a-00000.msgpack","samples":3,"bytes":200,"md5":"00112233445566778899aabbccddeeff","keys":["a","ü"]},
{"name":"more/\"b\".msgpack","samples":2,"bytes":100},
{"name":"empty.msgpack","samples":0,"bytes":0}
]}
"#;

    fn golden() -> Manifest {
        let md5 = *b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff";
        let keys = Some(("a".to_owned(), "ü".to_owned()));
        let first = ShardEntry::new("a-00000.msgpack", 3, 200);
        Manifest::new(vec![
            ShardEntry { md5: Some(md5), keys, ..first },
            ShardEntry::new("more/\"b\".msgpack", 2, 100),
            ShardEntry::new("empty.msgpack", 0, 0),
        ])
        .unwrap()
    }

    #[test]
    fn bytes_are_frozen() {
        assert_eq!(golden().render(), GOLDEN);
        assert_eq!(Manifest::parse(GOLDEN.as_bytes()).unwrap(), golden());
        assert_eq!((golden().samples(), golden().bytes()), (5, 300));
        let none = Manifest::new(Vec::new()).unwrap();
        assert_eq!(Manifest::parse(none.render().as_bytes()).unwrap(), none);
        assert_eq!((SUFFIX, VERSION), (".shards.json", 1));
    }

    #[test]
    fn every_damage_is_an_error_that_says_what() {
        let changed = |from: &str, to: &str| {
            assert!(GOLDEN.contains(from), "{from}");
            GOLDEN.replacen(from, to, 1)
        };
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for (text, expected) in [
            (
                changed("kiste shards", "other"),
                "expected the format \"kiste shards\", found \"other\"",
            ),
            (changed("\"version\":1", "\"version\":2"), "expected version 1, found 2"),
            (changed("\"version\":1,", ""), "expected version 1, found none"),
            (changed("\"version\":1", "\"version\":1,\"version\":1"), "duplicate field `version`"),
            (
                changed("\"samples\":5", "\"samples\":6"),
                "expected 6 samples in the shards, as it says, found 5",
            ),
            (
                changed("\"bytes\":300", "\"bytes\":0"),
                "expected 0 bytes in the shards, as it says, found 300",
            ),
            (changed("\"samples\":3", "\"samples\":-3"), "invalid value"),
            (changed("\"samples\":3", "\"samples\":3.5"), "invalid type"),
            (
                changed("\"samples\":3", "\"samples\":18446744073709551615"),
                "at most 4294967295 samples of",
            ),
            (changed("\"bytes\":100", "\"bytes\":18446744073709551616"), "invalid"),
            (changed("empty.msgpack", "a-00000.msgpack"), "expected each shard once"),
            (changed("empty.msgpack", "/etc/passwd"), "relative to the manifest"),
            (changed("empty.msgpack", "../empty.msgpack"), "relative to the manifest"),
            (changed("empty.msgpack", "a/../../b"), "relative to the manifest"),
            (changed("empty.msgpack", "./a"), "relative to the manifest"),
            (changed("empty.msgpack", "a//b"), "relative to the manifest"),
            (changed("empty.msgpack", ""), "relative to the manifest"),
            (changed("empty.msgpack", "s3://other/b"), "relative to the manifest"),
            (changed("empty.msgpack", "C:b"), "relative to the manifest"),
            (changed("empty.msgpack", "..\\\\b"), "relative to the manifest"),
            (changed("empty.msgpack", "a\\u0000b"), "relative to the manifest"),
            (changed("empty.msgpack", "a.msgpack.keys"), "the name of a data file"),
            (changed("empty.msgpack", "b.shards.json"), "the name of a data file"),
            (changed("empty.msgpack", &"x".repeat(MAX_NAME + 1)), "the name of a data file"),
            (changed("0011", "001"), "an MD5 of 32 lower-case digits"),
            (changed("aabb", "AABB"), "an MD5 of 32 lower-case digits"),
            (changed("0011", "+011"), "an MD5 of 32 lower-case digits"),
            (changed("[\"a\",\"ü\"]", "[\"ü\",\"a\"]"), "a range of keys"),
            (changed("[\"a\",\"ü\"]", "[\"a\"]"), "invalid length"),
            (changed("\"bytes\":0}", "\"bytes\":0,\"keys\":[\"a\",\"b\"]}"), "a range of keys"),
            (changed("]}\n", "]} x"), "trailing characters"),
            (changed("\"shards\":[", &format!("\"shards\":[{deep},")), "invalid type: sequence"),
            (String::new(), "EOF"),
            ("[]".to_owned(), "invalid"),
        ] {
            let error = Manifest::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
            assert!(error.len() < 400, "{error}");
        }
        // And every truncation.
        for end in 0..GOLDEN.len() - 1 {
            Manifest::parse(&GOLDEN.as_bytes()[..end]).unwrap_err();
        }
    }

    #[test]
    fn members_of_a_newer_version_are_passed_over_and_known_to_be_there() {
        assert_eq!(golden().unknown(), None);
        // It is not kept, so it takes no memory and may be as deep as it likes.
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for (from, to) in [
            ("\"version\":1", "\"version\":1,\"filters\":{\"a\":[1]}"),
            ("\"version\":1", &format!("\"filters\":{deep},\"version\":1")),
            ("\"bytes\":0}", &format!("\"bytes\":0,\"filters\":{deep}}}")),
            ("\"bytes\":0}", "\"bytes\":0,\"filters\":null}"),
        ] {
            let text = GOLDEN.replacen(from, to, 1);
            let manifest = Manifest::parse(text.as_bytes()).unwrap();
            assert_eq!(
                (manifest.shards(), manifest.unknown()),
                (golden().shards(), Some("filters"))
            );
        }
    }

    #[test]
    fn more_shards_than_there_may_be_are_not_kept() {
        let shard = "{\"name\":\"\",\"samples\":0,\"bytes\":0},";
        let shards = shard.repeat(MAX_SHARDS + 1);
        // The entry beyond the limit, `{}`, is not looked at.
        let text = format!(
            "{{\"format\":\"{FORMAT}\",\"version\":1,\"samples\":0,\"bytes\":0,\"shards\":[{shards}{{}}]}}"
        );
        let error = Manifest::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("more than 262144 shards"), "{error}");
    }

    #[test]
    fn the_name_of_a_manifest_ends_like_one() {
        assert!(is_manifest("train.shards.json") && is_manifest("a/b.shards.json"));
        assert!(!is_manifest(".shards.json") && !is_manifest("a/.shards.json"));
        assert!(!is_manifest("train.json") && !is_manifest("shards.json"));
    }
}
