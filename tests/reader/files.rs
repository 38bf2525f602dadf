//! Files of a directory tree, as Python's DirectoryReader finds them.

use std::fs;
use std::path::Path;

use kiste::reader::{
    DirectoryReader, FileEntry, FileOptions, Labels, NamePattern, Reader, ReaderExt,
};
use kiste::{ErrorKind, Value, natural_order};
use serde_json::Value as Json;

use super::conformance::ask_all;
use crate::support::golden_json;

#[test]
fn names_match_patterns_as_in_python() {
    let cases = golden_json("fnmatch.json");
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 260);
    for case in cases {
        let (name, pattern) = (case[0].as_str().unwrap(), case[1].as_str().unwrap());
        assert_eq!(
            NamePattern::new(pattern).matches(name),
            case[2] == true,
            "{name:?} {pattern:?}"
        );
    }
    // By the rules of Python's documentation and source.
    for (name, pattern, expected) in [
        ("\n", "?", true),
        ("-", "[a-]", true),
        ("b", "[a-c-e]", true),
        ("d", "[a-c-e]", false),
        ("-", "[--0]", true),
        (".", "[--0]", true),
        ("b", "[c-a]", false),
        ("b", "[!c-a]", true),
        ("", "[!c-a]", false),
        ("!", "[!]", false),
        ("[!]", "[!]", true),
        ("x", "[!]]", true),
        ("]", "[!]]", false),
        ("!", "[a!]", true),
        ("aXbXc", "a*b*c", true),
        ("aXbXcd", "a*b*c", false),
        ("äö", "?ö", true),
    ] {
        assert_eq!(NamePattern::new(pattern).matches(name), expected, "{name:?} {pattern:?}");
    }
    // Many stars take no time that explodes.
    assert!(!NamePattern::new(&format!("{}b", "*a".repeat(200))).matches(&"a".repeat(2000)));
}

/// The options of a golden case.
pub(super) fn options(kwargs: &Json, dir: &Path) -> FileOptions {
    let mut options = FileOptions::default();
    let strings = |json: &Json| -> Vec<String> {
        json.as_array().unwrap().iter().map(|s| s.as_str().unwrap().to_string()).collect()
    };
    for (name, value) in kwargs.as_object().unwrap() {
        options = match (name.as_str(), value) {
            ("labels", Json::String(file)) => options.labels(Labels::file(dir.join(file))),
            ("labels", Json::Array(labels)) => {
                assert_eq!(labels, &[Json::Null]);
                options.labels(Labels::Given(vec![Value::Nil]))
            }
            ("numeric_labels", value) => options.numeric_labels(value == true),
            ("include", value) => options.include(strings(value)),
            ("exclude", value) => options.exclude(strings(value)),
            ("separator", value) => options.separator(value.as_str().unwrap().parse().unwrap()),
            ("root_dir", _) => options,
            (other, _) => panic!("{other}"),
        };
    }
    options
}

/// A sample in the notation of the golden cases: key, _label, label, path, extra, content.
pub(super) fn row(reader: &dyn Reader, index: usize, strip: &str) -> Json {
    let field = |name: &str| match reader.field(index, name).unwrap() {
        None | Some(Value::Nil) => Json::Null,
        Some(Value::String(text)) => text.as_str().unwrap().into(),
        Some(Value::Binary(bytes)) => String::from_utf8(bytes).unwrap().into(),
        Some(Value::Integer(n)) => n.as_u64().unwrap().into(),
        Some(Value::Array(items)) => items.iter().map(|item| item.as_str().unwrap()).collect(),
        other => panic!("{other:?}"),
    };
    let path = field("path").as_str().unwrap().to_string();
    let path = Json::from(path.strip_prefix(strip).unwrap());
    let columns = [field("key"), field("_label"), field("label"), path];
    columns.into_iter().chain([field("_additional_info"), field("data")]).collect()
}

fn labels_of(labels: &[Value]) -> Json {
    labels.iter().map(|label| label.as_str()).collect()
}

/// The tree of the golden cases.
fn tree(golden: &Json) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in golden["files"].as_array().unwrap() {
        let name = name.as_str().unwrap();
        let path = dir.path().join("tree").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("content of {name}")).unwrap();
    }
    for (name, content) in golden["lists"].as_object().unwrap() {
        fs::write(dir.path().join(name), content.as_str().unwrap()).unwrap();
    }
    dir
}

#[test]
fn directories_hold_what_python_finds() {
    let golden = golden_json("directory.json");
    let dir = tree(&golden);
    let base = dir.path().to_str().unwrap();
    let cases = golden["directory"].as_array().unwrap();
    let (mut same, mut errors) = (0, 0);
    for case in cases {
        let root = dir.path().join(case["kwargs"]["root_dir"].as_str().unwrap_or(""));
        let patterns = case["patterns"].as_array().unwrap().iter().map(|p| p.as_str().unwrap());
        // Lists are found from the working directory, which tests share.
        let is_list = |name: &str| golden["lists"].get(name).is_some();
        let patterns: Vec<String> = patterns
            .map(|p| if is_list(p) { format!("{base}/{p}") } else { p.to_string() })
            .collect();
        let reader = options(&case["kwargs"], dir.path()).root(root).open(&patterns);
        let what = format!("{patterns:?} {}", case["kwargs"]);
        let Some(expected) = case.get("ok") else {
            assert_eq!(reader.err().unwrap().kind(), ErrorKind::Invalid, "{what}");
            errors += 1;
            continue;
        };
        let reader = reader.unwrap();
        assert_eq!(labels_of(reader.label_values()), expected["labels"], "{what}");
        let mut rows: Vec<Json> =
            (0..reader.len()).map(|i| row(&reader, i, &format!("{base}/"))).collect();
        let keys: Vec<String> = reader.keys().map(|key| key.unwrap().into_owned()).collect();
        if !patterns[0].starts_with(base) && patterns.len() == 1 {
            assert!(keys.is_sorted_by(|a, b| natural_order(a, b).is_lt()), "{what}: {keys:?}");
        }
        ask_all(&reader, &keys.iter().map(String::as_str).collect::<Vec<_>>(), &what);
        // Python's order is that of the directory: what was noted is sorted by key. And it
        // removes "tree/" wherever it occurs.
        rows.sort_by(|a, b| a[0].as_str().cmp(&b[0].as_str()));
        let mut wanted = expected["samples"].as_array().unwrap().clone();
        for row in &mut wanted {
            if row[0] == "cat/mycat/c.jpg" {
                row[0] = "cat/mytree/cat/c.jpg".into();
            }
        }
        wanted.sort_by(|a, b| a[0].as_str().cmp(&b[0].as_str()));
        assert_eq!(rows, wanted, "{what}");
        same += 1;
    }
    assert_eq!((same, errors), (12, 2));
}

#[test]
fn keys_of_several_patterns_are_cut_at_whole_components() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["t/b2/x", "t/b10/y", "t/b10/.hidden", "t/.dir/z"] {
        fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
        fs::write(dir.path().join(name), "").unwrap();
    }
    let nil = || Labels::Given(vec![Value::Nil]);
    let open = |patterns: &[&str]| {
        let options = DirectoryReader::options().root(dir.path()).labels(nil());
        let reader = options.open(patterns).unwrap();
        let keys = reader.keys().map(|key| key.unwrap().into_owned());
        keys.collect::<Vec<String>>()
    };
    assert_eq!(open(&["t/b2/**", "t/b10/**"]), ["b2/x", "b10/y"]);
    assert_eq!(open(&["t/b10/y", "t/b2/x"]), ["b10/y", "b2/x"]);
    assert_eq!(open(&["t/*/*"]), ["t/b2/x", "t/b10/y"]);
    assert_eq!(open(&["t//*/.h*"]), ["t/b10/.hidden"]);
    assert_eq!(open(&["t/.*/*"]), ["t/.dir/z"]);
    assert_eq!(open(&["**/**/y", "nothing/*"]), ["t/b10/y"]);
    let absolute = format!("{}/t/*/x", dir.path().display());
    assert_eq!(open(&[&absolute]), [format!("{}/t/b2/x", dir.path().display())]);

    let labelled = DirectoryReader::options().root(dir.path()).open(["**/{LABEL}/?"]).unwrap();
    assert_eq!(labels_of(labelled.label_values()), serde_json::json!(["b2", "b10"]));
    let error = DirectoryReader::open(["t/x{LABEL}/*"]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let options = DirectoryReader::options().root(dir.path()).labels(nil());
    let error = options.open(["t/b2/*", "t/b2/x"]).err().unwrap();
    assert_eq!((error.kind(), error.key()), (ErrorKind::DuplicateKey, Some("x")));
    let unnumbered = DirectoryReader::options().root(dir.path()).numeric_labels(false);
    assert_eq!(unnumbered.open(["t/b2/x"]).unwrap().field(0, "label").unwrap(), Some(Value::Nil));
}

#[test]
fn entries_can_be_edited_and_sizes_limited() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("cat")).unwrap();
    fs::write(dir.path().join("cat/1.jpg"), "12345").unwrap();
    let shorten = |entry: &mut FileEntry| {
        entry.key = entry.key.replace(".jpg", "");
        Ok(())
    };
    let options = || DirectoryReader::options().root(dir.path());
    let reader = options().edit(shorten).max_bytes(5).open(["{LABEL}/*"]).unwrap();
    ask_all(&reader, &["cat/1"], "edited");
    let reader = options().max_bytes(4).open(["{LABEL}/*"]).unwrap();
    let error = reader.get(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.path().unwrap().ends_with("cat/1.jpg"));
    fs::remove_file(dir.path().join("cat/1.jpg")).unwrap();
    assert_eq!(reader.get(0).unwrap_err().kind(), ErrorKind::NotFound);
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_not_in_circles() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    fs::write(dir.path().join("a/b/x"), "").unwrap();
    std::os::unix::fs::symlink("..", dir.path().join("a/b/up")).unwrap();
    std::os::unix::fs::symlink("a", dir.path().join("c")).unwrap();
    let reader = DirectoryReader::options().root(dir.path()).numeric_labels(false);
    let reader = reader.open(["**"]).unwrap();
    let keys: Vec<String> = reader.keys().map(|key| key.unwrap().into_owned()).collect();
    assert_eq!(keys, ["a/b/x", "c/b/x"]);
}
