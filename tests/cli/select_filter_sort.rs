//! `select`, `filter` and `sort`: some samples, and samples by what is in them.

use super::order_shuffle::{assert_passed_through, keys, numbered};
use super::*;

/// A directory with `pets.msgpack`.
fn with_pets() -> TempDir {
    let dir = scratch();
    let pets = br#"{"key":"cat/10","label":0,"width":200,"caption":"sleeps"}
{"key":"dog/1","label":1,"width":90.5,"raw":{"$bin":"AP8="}}
{"key":"cat/9","label":0,"width":90}
{"key":"emu/1","label":2,"width":300,"caption":"runs"}
"#;
    run_with(&dir, ["convert", "-", "pets.msgpack"], pets).exits(0);
    dir
}

#[test]
fn samples_are_selected_in_the_order_of_the_list() {
    let dir = with_pets();
    let select = |options: &[&str], input: &str| {
        let args = ["select", "pets.msgpack", "s.msgpack", "-y"];
        run_with(&dir, [&args[..], options].concat(), input.as_bytes()).exits(0);
        assert_passed_through(&dir, "s.msgpack", &["pets.msgpack"]);
        keys(&dir, "s.msgpack").join(" ")
    };
    assert_eq!(select(&["--keys=-"], "emu/1\ncat/10\n"), "emu/1 cat/10");
    assert_eq!(select(&["--keys=-", "--skip-missing"], "emu/1\nx\n"), "emu/1");
    assert_eq!(select(&["--keys=-"], ""), "");
    assert_eq!(select(&["--range=1..3"], ""), "dog/1 cat/9");
    assert_eq!(select(&["--range=3.."], ""), "emu/1");
    assert_eq!(select(&["--range=9.."], ""), "");
    assert_eq!(select(&["--indices=3,0"], ""), "emu/1 cat/10");
    assert_eq!(select(&["--indices=-"], "2\n1\n"), "cat/9 dog/1");
    fs::write(dir.path().join("list"), "2\n\n0\n").unwrap();
    assert_eq!(select(&["--indices=list"], ""), "cat/9 cat/10");

    let before = snapshot(dir.path());
    let fails = |options: &[&str], input: &str, code, says| {
        let args = ["select", "pets.msgpack", "new.msgpack"];
        let run = run_with(&dir, [&args[..], options].concat(), input.as_bytes());
        run.fails(code, says);
    };
    fails(&["--keys=-"], "emu/1\nx\n", 1, "no sample with the key \"x\"");
    fails(&["--keys=-"], "emu/1\nemu/1\n", 2, "sample 3, key \"emu/1\", is chosen twice");
    fails(&["--indices=1,1"], "", 2, "is chosen twice");
    fails(&["--indices=4"], "", 1, "no sample 4: it has 4 samples");
    fails(&["--indices=-"], "one\n", 2, "\"one\": expected an index");
    fails(&["--indices=none"], "", 2, "none: no such file");
    fails(&["--keys=none"], "", 2, "none: no such file");
    run(&dir, ["select", "pets.msgpack", "new.msgpack"]).exits(2);
    run(&dir, ["select", "pets.msgpack", "new.msgpack", "--range=1..", "--keys=-"]).exits(2);
    run(&dir, ["select", "pets.msgpack", "s.msgpack", "--range=1.."]).fails(2, "exists already");
    run(&dir, ["select", "pets.msgpack", "pets.msgpack", "--range=1..", "-y"])
        .fails(2, "both read and written");
    assert_eq!(snapshot(dir.path()), before);
}

#[test]
fn a_filter_keeps_what_the_condition_is_true_of() {
    let dir = with_pets();
    let filter = |condition: &str| {
        let args = ["filter", "pets.msgpack", "f.msgpack", condition, "-y", "--json"];
        let made = run(&dir, args).exits(0).json();
        assert_eq!(made["of"], 4);
        assert_passed_through(&dir, "f.msgpack", &["pets.msgpack"]);
        keys(&dir, "f.msgpack").join(" ")
    };
    for (condition, expected) in [
        ("label == 0", "cat/10 cat/9"),
        ("label in 1,2", "dog/1 emu/1"),
        ("width > 100 and label != 2", "cat/10"),
        ("width < 100", "dog/1 cat/9"),
        ("key ~ 'cat/*' or caption == runs", "cat/10 cat/9 emu/1"),
        ("has raw", "dog/1"),
        ("not (has caption or has raw)", "cat/9"),
        ("caption == null", "dog/1 cat/9"),
        ("label == 7", ""),
        ("label = 0 && width <> 90", "cat/10"),
        ("label in (1, 2) and not len(caption) > 3", "dog/1"),
        ("len(raw) == 2 or caption ilike 'SLEEP%'", "cat/10 dog/1"),
    ] {
        assert_eq!(filter(condition), expected, "{condition}");
    }
    let before = snapshot(dir.path());
    let fails = |condition: &str, says: &str| {
        run(&dir, ["filter", "pets.msgpack", "new.msgpack", condition]).fails(2, says);
    };
    fails("labl == 0", "pets.msgpack: no sample has a field \"labl\"");
    fails("raw == 0", "sample 1: field \"raw\" is neither a number nor text");
    fails("len(width) == 0", "sample 0: field \"width\" has no length");
    let wrong = run(&dir, ["filter", "pets.msgpack", "new.msgpack", "label == = 0"]).exits(2);
    assert!(wrong.err.contains("expected a value, found = at 10"), "{wrong:?}");
    run(&dir, ["filter", "pets.msgpack", "f.msgpack", "label == 0"]).fails(2, "exists already");
    assert_eq!(snapshot(dir.path()), before);
}

#[test]
fn samples_are_sorted_by_key_or_field() {
    let dir = with_pets();
    let sort = |options: &[&str]| {
        run(&dir, [&["sort", "pets.msgpack", "s.msgpack", "-y"], options].concat()).exits(0);
        assert_passed_through(&dir, "s.msgpack", &["pets.msgpack"]);
        keys(&dir, "s.msgpack").join(" ")
    };
    assert_eq!(sort(&[]), "cat/10 cat/9 dog/1 emu/1");
    assert_eq!(sort(&["--natural"]), "cat/9 cat/10 dog/1 emu/1");
    assert_eq!(sort(&["--natural", "--reverse"]), "emu/1 dog/1 cat/10 cat/9");
    assert_eq!(sort(&["--by=width"]), "cat/9 dog/1 cat/10 emu/1");
    // What is equal stays as it was, in both directions.
    assert_eq!(sort(&["--by=label"]), "cat/10 cat/9 dog/1 emu/1");
    assert_eq!(sort(&["--by=label", "--reverse"]), "emu/1 dog/1 cat/10 cat/9");
    let args = ["sort", "pets.msgpack", "new.msgpack", "--by"];
    run(&dir, [&args[..], &["caption"]].concat()).fails(2, "sample 1: there is no field");
    run(&dir, [&args[..], &["raw"]].concat()).fails(2, "sample 0: there is no field \"raw\"");
    run(&dir, ["sort", "pets.msgpack", "s.msgpack"]).fails(2, "exists already");
}

#[test]
fn an_order_of_an_epoch_can_be_written() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 50);
    let order = run(&dir, ["order", "n.msgpack", "--epoch=3", "--indices"]).quietly().out;
    let args = ["select", "n.msgpack", "e.msgpack", "--indices=-"];
    run_with(&dir, args, order.as_bytes()).exits(0);
    assert_eq!(keys(&dir, "e.msgpack").join("\n") + "\n", order);
    // And sorted again it is what it was.
    run(&dir, ["sort", "e.msgpack", "back/n.msgpack", "--natural"]).exits(0);
    let path = |name| dir.path().join(name);
    crate::support::assert_same_files(&path("n.msgpack"), &path("back/n.msgpack"));
}

#[test]
fn of_an_empty_dataset_nothing_is_chosen() {
    let dir = with_empty();
    for args in [
        &["select", "empty.msgpack", "o.msgpack", "--range=.."][..],
        &["filter", "empty.msgpack", "o.msgpack", "label == 1"],
        &["sort", "empty.msgpack", "o.msgpack", "--by=label"],
    ] {
        run(&dir, [args, &["-y"]].concat()).exits(0);
        assert!(keys(&dir, "o.msgpack").is_empty());
    }
}

/// Silence and an empty dataset would look like an answer.
#[test]
fn a_filter_knows_names_of_labels_and_says_where_types_differ() {
    let dir = scratch();
    let lines = "{\"key\":\"a\",\"label\":0,\"quality\":\"84\"}\n\
                 {\"key\":\"b\",\"label\":1,\"quality\":\"9\"}\n\
                 {\"key\":\"c\",\"label\":0,\"quality\":95}\n";
    run_with(&dir, ["convert", "-", "x.msgpack"], lines.as_bytes()).exits(0);
    let filter = |condition: &str| {
        let made = run(&dir, ["filter", "x.msgpack", "f.msgpack", condition, "-f"]);
        let keys = match made.code {
            Some(0) => run(&dir, ["ls", "f.msgpack"]).quietly().out.replace('\n', ""),
            _ => String::new(),
        };
        (made, keys)
    };
    let (made, keys) = filter("label == cat");
    assert_eq!(keys, "");
    let says = "warning: x.msgpack: 3 samples have a number in \"label\", such as 0, which is never \
                equal to and in no order with text\n";
    assert!(made.err.contains(says), "{made:?}");
    assert!(made.err.contains("hint: names of labels are known where there is"), "{made:?}");

    fs::write(dir.path().join("x.msgpack.labels"), "cat\ndog\n").unwrap();
    for (condition, expected) in [
        ("label == cat", "ac"),
        ("label != 'cat'", "b"),
        ("label in dog,7", "b"),
        ("label ~ 'c*'", "ac"),
    ] {
        let (made, keys) = filter(condition);
        assert_eq!(keys, expected, "{made:?}");
        assert!(!made.err.contains("warning"), "{made:?}");
    }
    let (made, _) = filter("label == cta");
    let failed = made.fails(2, "x.msgpack.labels: no label is named \"cta\"");
    assert!(failed.err.contains("hint: there are cat, dog"), "{failed:?}");

    let (made, keys) = filter("quality > 80");
    assert_eq!(keys, "c");
    assert!(made.err.contains("2 samples have text in \"quality\", such as \"84\""), "{made:?}");
    let (made, _) = filter("qualty > 80");
    made.fails(2, "x.msgpack: no sample has a field \"qualty\"");
}
