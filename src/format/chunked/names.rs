//! The file names of an array. Opens nothing.
//!
//! Paths in here are relative to the root and written with `/`.

use std::collections::HashMap;

/// The highest number that a file may have.
pub const MAX_NUMBER: u64 = i64::MAX as u64;

/// Chunks: superchunks, or one directory a field.
pub const DATA: &str = "data";
/// Everything but chunks.
pub const META: &str = "meta";
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
/// The suffix of a file that is being written.
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
    digits_of(name)?.parse().ok().filter(|number| *number <= MAX_NUMBER)
}

/// Whether this is the name of a version or a segment except for its number, which is higher than
/// any that a file may have. Ignoring it would mistake an older version for the newest.
///
/// ```
/// use kiste::format::chunked::names::{is_beyond, number_of};
///
/// assert!(is_beyond("__9223372036854775808__"));
/// assert_eq!(number_of("__9223372036854775808__"), None);
/// assert!(!is_beyond("__9223372036854775807__"));
/// ```
pub fn is_beyond(name: &str) -> bool {
    digits_of(name).is_some() && number_of(name).is_none()
}

/// Digits without leading zeros between underscores.
fn digits_of(name: &str) -> Option<&str> {
    let digits = name.strip_prefix("__")?.strip_suffix("__")?;
    let plain = !digits.is_empty() && !digits.starts_with('0');
    (plain && digits.bytes().all(|b| b.is_ascii_digit())).then_some(digits)
}

/// The name of a superchunk.
pub fn superchunk(number: u32) -> String {
    format!("__{number}__.bin")
}

/// The number in the name of a superchunk; `None` for any other name.
pub fn superchunk_number_of(name: &str) -> Option<u32> {
    u32::try_from(number_of(name.strip_suffix(".bin")?)?).ok()
}

/// As [`is_beyond`], for a superchunk.
pub fn is_superchunk_beyond(name: &str) -> bool {
    let is_numbered = name.strip_suffix(".bin").and_then(digits_of).is_some();
    is_numbered && superchunk_number_of(name).is_none()
}

/// Whether a file of this name, in this directory, was left unfinished by a killed writer. No
/// other file may be removed as such.
///
/// ```
/// use kiste::format::chunked::names::{self, is_leftover};
///
/// assert!(is_leftover(names::VERSIONS, "__3__.tmp") && is_leftover("meta", "sizes.tmp"));
/// assert!(is_leftover("data/x", "__1__.bin.tmp"));
/// assert!(!is_leftover("data/x", "notes.tmp") && !is_leftover("data/x", "__1__.tmp"));
/// ```
pub fn is_leftover(dir: &str, name: &str) -> bool {
    let Some(name) = name.strip_suffix(UNFINISHED) else { return false };
    match dir {
        META => [SIZES, STORAGE, ATTRIBUTES].contains(&&*format!("{META}/{name}")),
        MANIFEST | VERSIONS => number_of(name).is_some(),
        _ => superchunk_number_of(name).is_some(),
    }
}

/// The directory of a field below the directory of its structure.
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

/// The directories of all fields of a structure. In names that differ only in case, capitals are
/// escaped, because some file systems treat them as the same name.
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

    /// Every name with a number names a file, or is an error because the number is too high.
    #[test]
    fn no_number_is_passed_over() {
        for number in
            [1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 53, (1 << 63) - 1, 1 << 63, u64::MAX]
        {
            let name = numbered(number);
            assert_eq!(is_beyond(&name), number > MAX_NUMBER, "{name}");
            assert_eq!(number_of(&name), Some(number).filter(|_| !is_beyond(&name)), "{name}");
            let name = format!("{name}.bin");
            let found = superchunk_number_of(&name).map(u64::from);
            assert_eq!(is_superchunk_beyond(&name), number > u64::from(u32::MAX), "{name}");
            assert_eq!(found, Some(number).filter(|_| !is_superchunk_beyond(&name)), "{name}");
        }
        assert!(is_beyond("__18446744073709551616__") && is_beyond("__99999999999999999999999__"));
        for name in ["__0__", "__01__", "____", "__1__.bin", "__18446744073709551616__.tmp", "x"] {
            assert!(!is_beyond(name), "{name}");
        }
        for name in ["__0__.bin", "__1__.bin", "__18446744073709551616__", ".bin"] {
            assert!(!is_superchunk_beyond(name), "{name}");
        }
    }

    #[test]
    fn only_names_of_the_format_are_leftovers() {
        for (dir, name) in [
            (META, "attributes.tmp"),
            (META, "storage.tmp"),
            (MANIFEST, "__1__.tmp"),
            (DATA, "__7__.bin.tmp"),
        ] {
            assert!(is_leftover(dir, name), "{dir}/{name}");
        }
        for (dir, name) in [
            (META, "lock.tmp"),
            (META, "__1__.tmp"),
            (META, "notes.tmp"),
            (META, "versions/__1__.tmp"),
            (VERSIONS, "__1__"),
            (VERSIONS, "__0__.tmp"),
            (VERSIONS, "__1__.bin.tmp"),
            (MANIFEST, "x__1__.tmp"),
            (DATA, ".tmp"),
            (DATA, "__1__.bin"),
            (DATA, "__1__.bin.tmp.tmp"),
        ] {
            assert!(!is_leftover(dir, name), "{dir}/{name}");
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
