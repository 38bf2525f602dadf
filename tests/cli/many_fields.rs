//! Samples with very many fields. Where each is looked for among all of them, this takes minutes.

use std::fmt::Write as _;

use super::*;

/// Two samples of so many fields.
fn dataset(dir: &TempDir, fields: usize) {
    let mut lines = String::new();
    for key in ["a", "b"] {
        _ = write!(lines, "{{\"key\":\"{key}\"");
        for field in 0..fields {
            _ = write!(lines, ",\"field{field}\":\"{key}{field}\"");
        }
        lines.push_str("}\n");
    }
    run_with(dir, ["convert", "-", "many.msgpack"], lines.as_bytes()).exits(0);
}

#[track_caller]
fn converts(dir: &TempDir, args: &[&str]) {
    run(dir, ["convert", "many.msgpack"].iter().chain(args)).exits(0);
}

#[test]
fn exports_take_as_long_as_there_are_fields() {
    let dir = scratch();
    dataset(&dir, 40_000);
    converts(&dir, &["x.csv"]);
    let table = fs::read_to_string(dir.path().join("x.csv")).unwrap();
    assert!(table.lines().nth(2).unwrap().ends_with(",b39999"));
    converts(&dir, &["x.jsonl"]);
    converts(&dir, &["x.tfrecord"]);
    converts(&dir, &["x", "--to", "mds"]);
}

/// Those that take longest for each field.
#[test]
fn exports_with_much_to_do_for_a_field_do_it_once() {
    let dir = scratch();
    dataset(&dir, 8_000);
    converts(&dir, &["x.tar"]);
    converts(&dir, &["x.npz"]);
    #[cfg(feature = "parquet")]
    {
        converts(&dir, &["x.arrow"]);
        converts(&dir, &["x.parquet"]);
    }
}

#[test]
fn fields_are_chosen_and_looked_at_in_one_go() {
    let dir = scratch();
    dataset(&dir, 40_000);
    // No more fit into one argument.
    let names: Vec<String> = (0..10_000).map(|field| format!("field{field}")).collect();
    converts(&dir, &["dropped.msgpack", "--drop", &names.join(",")]);
    converts(&dir, &["kept.msgpack", "--fields", &names.join(",")]);
    let renamed: Vec<String> =
        names[..5_000].iter().map(|name| format!("{name}=new{name}")).collect();
    converts(&dir, &["renamed.msgpack", "--rename", &renamed.join(",")]);
    let told = run(&dir, ["convert", "many.msgpack", "x.csv", "--dry-run"]).quietly().out;
    assert_eq!(told.lines().count(), 1 + 1 + 40_000);
    assert!(told.ends_with("field39999\tstr\tstr\tunchanged\n"), "{}", &told[told.len() - 99..]);
    assert_eq!(
        run(&dir, ["diff", "many.msgpack", "dropped.msgpack"]).exits(1).out.lines().count(),
        2
    );
    run(&dir, ["info", "many.msgpack"]).quietly();
    run(&dir, ["stat", "many.msgpack"]).quietly();
}

/// Each field that a format refuses takes a trial of all others, so they are not all tried.
#[test]
fn a_dry_run_stops_where_nearly_all_fields_are_refused() {
    let dir = scratch();
    let fields = |n: usize| (0..n).map(|f| format!(",\"f{f}\":[1,[2]]")).collect::<String>();
    let line = format!("{{\"key\":\"a\"{}}}\n", fields(500));
    run_with(&dir, ["convert", "-", "lists.msgpack"], line.as_bytes()).exits(0);
    let told = run(&dir, ["convert", "lists.msgpack", "x.csv", "--dry-run"]).exits(2).out;
    assert_eq!(told.matches("cannot be carried: ").count(), 20);
    assert_eq!(told.matches("\tnot tried\n").count(), 481);
}
