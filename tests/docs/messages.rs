//! Every message of the library, the command and the Python package in one place, to be read aloud, and words that
//! none of them has.

use std::fs;
use std::path::{Path, PathBuf};

/// Words that say nothing, that are not how people write, or that another program's words have left behind.
const NOT_SAID: &[(&str, &str)] = &[
    ("(os error", "a number that says nothing: Error::io leaves it out"),
    ("truth value", "boolean"),
    ("of which", "a sentence of its own"),
    ("those of", "the noun again"),
    ("that of", "the noun again"),
    ("nobody", "who may"),
    ("everybody", "public"),
    ("whatever", "any"),
    ("as far as", "where"),
    ("so many", "the number"),
    ("is no text", "is not text"),
    ("no number", "not a number"),
    ("found too little", "not enough"),
    ("in order to", "to"),
    ("please", "an imperative"),
    ("sorry", "what to do"),
    ("successfully", "nothing"),
    (" 1 names", "counted"),
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let is_tests = ["tests", "tests.rs", "golden.rs", "target"].map(Path::new);
        match path.is_dir() {
            _ if is_tests.iter().any(|name| path.ends_with(name)) => {}
            true => sources(&path, found),
            false if path.extension().is_some_and(|ending| ending == "rs") => found.push(path),
            false => {}
        }
    }
}

/// The texts in quotes in a source: its line, and what it says. Comments, attributes and the module of tests are left
/// out.
fn texts(source: &str) -> Vec<(usize, String)> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let bytes = source.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &source[at..];
        let to = |end: &str| rest.find(end).map_or(rest.len(), |found| found + end.len());
        let line = || source[..at].matches('\n').count() + 1;
        at += match bytes[at] {
            b'/' if rest.starts_with("//") => to("\n"),
            b'/' if rest.starts_with("/*") => to("*/"),
            b'#' if rest.starts_with("#[") || rest.starts_with("#![") => to("]"),
            b'r' if rest.starts_with("r\"") => {
                let end = rest[2..].find('"').unwrap() + 2;
                found.push((line(), rest[2..end].to_owned()));
                end + 1
            }
            b'r' if rest.starts_with("r#\"") => {
                let end = rest[3..].find("\"#").unwrap() + 3;
                found.push((line(), rest[3..end].to_owned()));
                end + 2
            }
            // A character, not a lifetime.
            b'\'' if rest.starts_with("'\\") => 2 + rest[2..].find('\'').unwrap().max(1) + 1,
            b'\'' => {
                let next = rest[1..].chars().next().unwrap();
                let len = 1 + next.len_utf8();
                if rest[len..].starts_with('\'') { len + 1 } else { 1 }
            }
            b'"' => {
                let mut end = 1;
                while rest.as_bytes()[end] != b'"' {
                    end += if rest.as_bytes()[end] == b'\\' { 2 } else { 1 };
                }
                found.push((line(), joined(&rest[1..end])));
                end + 1
            }
            _ => rest.chars().next().unwrap().len_utf8(),
        };
    }
    found
}

/// A text without its line ends in the source.
fn joined(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.trim_start())
}

/// Whether it is read by people: words, and not a part of a page or of a file.
fn is_message(text: &str) -> bool {
    let words = text.split(' ').filter(|word| word.bytes().any(|byte| byte.is_ascii_lowercase()));
    words.count() > 1 && !text.contains('<')
}

/// `KISTE_WRITE_MESSAGES=FILE` writes them all.
#[test]
fn every_message_is_plain_english() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for room in ["src", "python/src"] {
        sources(&root.join(room), &mut files);
    }
    let (mut all, mut wrong) = (String::new(), Vec::new());
    let mut count = 0;
    for file in files {
        let name = file.strip_prefix(root).unwrap().display().to_string();
        for (line, text) in texts(&fs::read_to_string(&file).unwrap()) {
            if !is_message(&text) {
                continue;
            }
            count += 1;
            all += &format!("{name}:{line}: {text}\n");
            let lower = text.to_lowercase();
            for (words, better) in NOT_SAID.iter().filter(|(words, _)| lower.contains(words)) {
                wrong.push(format!("{name}:{line}: {words:?}, better {better}: {text:?}"));
            }
        }
    }
    if let Some(path) = std::env::var_os("KISTE_WRITE_MESSAGES") {
        fs::write(path, all).unwrap();
    }
    assert!(count > 2_000, "only {count} messages were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn texts_are_found_as_the_compiler_finds_them() {
    let source = r##"
        // "a comment"
        #[doc = "an attribute"]
        let c = '"'; let d = '\''; let e: &'a str = "one \
            two \"three\"";
        let raw = r#"four "five""#; let plain = r"six\";
#[cfg(test)]
mod tests {
    "seven"
}"##;
    let found: Vec<_> = texts(source).into_iter().map(|(_, text)| text).collect();
    assert_eq!(found, ["one two \\\"three\\\"", "four \"five\"", "six\\"]);
}
