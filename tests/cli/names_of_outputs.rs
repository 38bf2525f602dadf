//! Names of outputs that cannot be meant as they are.

use super::*;

/// Commands that make something, with the name of it at the end.
fn commands(name: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["convert", "words.msgpack", name],
        vec!["filter", "words.msgpack", name, "n > 1"],
        vec!["sample", "words.msgpack", name, "1"],
        vec!["shuffle", "words.msgpack", name],
        vec!["sort", "words.msgpack", name],
        vec!["select", "words.msgpack", name, "--range", "..1"],
        vec!["merge", "words.msgpack", name],
        vec!["split", "words.msgpack", "1", "-o", name, "-o", "b.msgpack"],
        vec!["repair", "words.msgpack", "-o", name],
    ]
}

#[test]
fn nothing_makes_a_file_that_is_called_like_a_pipe() {
    let dir = with_words();
    run(&dir, ["array", "create", "x", "--dtype", "<i4", "--shape", "3"]).exits(0);
    fs::write(dir.path().join("x.npy"), []).unwrap();
    let before = names(dir.path());
    let others = [
        vec!["convert", "words.msgpack", "-", "--to", "csv"],
        vec!["get", "words.msgpack", "a", "-o", "-"],
        vec!["stat", "words.msgpack", "--html", "-"],
        vec!["array", "create", "-", "--dtype", "<i4", "--shape", "3"],
        vec!["array", "import", "x.npy", "-"],
        vec!["array", "export", "x", "-", "--to", "npy"],
    ];
    for args in commands("-").into_iter().chain(others) {
        run(&dir, &args).fails(2, "expected the name of a");
        assert_eq!(names(dir.path()), before, "{args:?}");
    }
}

#[test]
fn a_misspelled_ending_makes_no_dataset() {
    let dir = with_words();
    let before = names(dir.path());
    for name in ["out.parqet", "out.jsnl", "out.cvs", "out.msgpck"] {
        for args in commands(name) {
            run(&dir, &args).fails(2, "expected a known ending such as .");
            assert_eq!(names(dir.path()), before, "{args:?}");
        }
    }
    // Of another format is what only convert makes.
    for args in commands("out.csv").into_iter().filter(|args| args[0] != "convert") {
        run(&dir, &args).fails(2, "out.csv: the name asks for csv, but a dataset is made");
        assert_eq!(names(dir.path()), before, "{args:?}");
    }
    run(&dir, ["convert", "words.msgpack", "out.parqet", "--to", "dataset"]).exits(0);
    let made = run(&dir, ["convert", "words.msgpack", "out.v2"]).exits(0);
    assert!(made.err.contains("out.v2: the ending names no format, so a dataset is written"));
    let made = run(&dir, ["convert", "words.msgpack", "v1.0-train"]).exits(0);
    assert!(!made.err.contains("names no format"), "{made:?}");
}
