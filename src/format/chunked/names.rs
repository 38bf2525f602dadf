//! What the files of an array are called; opens nothing.
//!
//! Paths in here are relative to the root and written with `/`.

use std::collections::HashMap;

/// The highest number that a file may have.
pub const MAX_NUMBER: u64 = i64::MAX as u64;

/// Chunks: superchunks, or one directory a field.
pub const DATA: &str = "data";
/// The chunk tables, in segments.
pub const MANIFEST: &str = "meta/manifest";
/// The versions.
pub const VERSIONS: &str = "meta/versions";
/// The lock of the one writer.
pub const LOCK: &str = "meta/lock";
/// Copies of what the newest version says, for people and tools.
pub const SIZES: &str = "meta/sizes";
/// See [`SIZES`].
pub const STORAGE: &str = "meta/storage";
/// See [`SIZES`].
pub const ATTRIBUTES: &str = "meta/attributes";
/// What ends the name of a file that is being written.
pub const UNFINISHED: &str = ".tmp";

/// The name of a version or a segment.
///
/// ```
/// use kiste::format::chunked::names;
///
/// assert_eq!(names::numbered(12), "__12__");
/// assert_eq!(names::number_of("__12__"), Some(12));
/// assert_eq!(names::number_of("__012__"), None);
/// ```
pub fn numbered(number: u64) -> String {
    format!("__{number}__")
}

/// The number in the name of a version or a segment; `None` for any other name.
pub fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("__")?.strip_suffix("__")?;
    let plain = !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain)?;
    (1..=MAX_NUMBER).contains(&number).then_some(number)
}

/// The name of a superchunk.
pub fn superchunk(number: u32) -> String {
    format!("__{number}__.bin")
}

/// The number in the name of a superchunk; `None` for any other name.
pub fn superchunk_number_of(name: &str) -> Option<u32> {
    u32::try_from(number_of(name.strip_suffix(".bin")?)?).ok()
}

/// The directory of a field below that of its structure.
///
/// ```
/// use kiste::format::chunked::names::field;
///
/// assert_eq!(field("label_1"), "label_1");
/// assert_eq!(field("a.b/ü"), "a%2Eb%2F%C3%BC");
/// assert_eq!(field(""), "%");
/// ```
pub fn field(name: &str) -> String {
    if name.is_empty() {
        return "%".to_string();
    }
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => escaped.push(byte as char),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// The directories of all fields of a structure. Names that differ in nothing but the case of letters
/// have their capitals escaped, as there are file systems that take them for one.
///
/// ```
/// use kiste::format::chunked::names::fields;
///
/// assert_eq!(fields(&["id", "ID", "Name"]), ["id", "%49%44", "Name"]);
/// ```
pub fn fields(names: &[&str]) -> Vec<String> {
    let plain: Vec<String> = names.iter().map(|name| field(name)).collect();
    let mut alike: HashMap<String, usize> = HashMap::new();
    for name in &plain {
        *alike.entry(name.to_ascii_lowercase()).or_default() += 1;
    }
    let distinct = |(plain, name): (String, &&str)| match alike[&plain.to_ascii_lowercase()] {
        1 => plain,
        // Padding has no name, and no directory.
        _ if name.is_empty() => plain,
        _ => name.chars().map(without_capitals).collect(),
    };
    plain.into_iter().zip(names).map(distinct).collect()
}

fn without_capitals(char: char) -> String {
    match char {
        'A'..='Z' => format!("%{:02X}", char as u32),
        other => field(other.encode_utf8(&mut [0; 4])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [1, 9, 10, 4_294_967_295, 4_294_967_296, MAX_NUMBER] {
            assert_eq!(number_of(&numbered(number)), Some(number));
        }
        for number in [1, 77, u32::MAX] {
            assert_eq!(superchunk_number_of(&superchunk(number)), Some(number));
        }
    }

    #[test]
    fn other_names_are_no_numbers() {
        let others = [
            "",
            "__",
            "____",
            "__0__",
            "__01__",
            "__+1__",
            "__-1__",
            "__1_",
            "_1__",
            "1",
            "__1__.tmp",
            "__1__.bin",
            "__1__.bin.tmp",
            "__ 1__",
            "__١__",
            "__9223372036854775808__",
            "__99999999999999999999999__",
        ];
        for name in others {
            assert_eq!(number_of(name), None, "{name}");
        }
        for name in ["__1__", "__0__.bin", "__4294967296__.bin", "__1__.bin.tmp", ".bin"] {
            assert_eq!(superchunk_number_of(name), None, "{name}");
        }
    }

    #[test]
    fn fields_neither_meet_nor_leave_their_directory() {
        let names = ["", "%", "%25", ".", "..", "a/b", "a\\b", "__1__.bin", "a", "a b", "\0", "ä"];
        let mut escaped: Vec<String> = names.iter().map(|name| field(name)).collect();
        for name in &escaped {
            assert!(!name.contains(['/', '\\', '.', '\0']) && !name.is_empty(), "{name}");
        }
        escaped.sort();
        escaped.dedup();
        assert_eq!(escaped.len(), names.len());
    }

    #[test]
    fn fields_that_differ_in_case_are_told_apart_without_it() {
        let names = ["a", "A", "aB", "Ab", "%4a", "%4A", "B", "", "é", "É", "%41"];
        let found = fields(&names);
        assert_eq!(found[..4], ["a", "%41", "a%42", "%41b"]);
        assert_eq!(found[6..8], ["B", "%"]);
        let mut folded: Vec<String> = found.iter().map(|name| name.to_lowercase()).collect();
        folded.sort();
        folded.dedup();
        assert_eq!(folded.len(), names.len(), "{found:?}");
    }
}
