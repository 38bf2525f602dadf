//! Help, versions, typing errors, and where colour goes.

use super::*;

const COMMANDS: &[&str] = &[
    "demo",
    "convert",
    #[cfg(feature = "datasets")]
    "catalogue",
    "index",
    "cat",
    "head",
    "tail",
    "ls",
    "get",
    "info",
    "order",
    "shuffle",
    "split",
    "merge",
    "sample",
    "select",
    "filter",
    "sort",
    "diff",
    "bench",
    "array",
    "blpk",
    "verify",
    "repair",
    "completions",
    "man",
];

/// Those that work and are not listed.
const UNLISTED: &[&str] = &["head", "tail", "completions", "man", "commit"];

#[test]
fn help_lists_every_command_by_intent() {
    let help = run(&scratch(), ["--help"]).quietly().out;
    let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text} in {help}"));
    for command in COMMANDS.iter().filter(|command| !UNLISTED.contains(command)) {
        at(&format!("\n  {command} "));
    }
    assert!(UNLISTED.iter().all(|command| !help.contains(&format!("\n  {command} "))), "{help}");
    let listed = help.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let listed = listed.filter(|line| !line.trim_start().starts_with('-')).count();
    assert!(listed <= 25, "{listed} commands: {help}");
    let order = ["Make:", "\n  convert", "Look:", "\n  cat ", "Change:", "\n  sort", "Check:"];
    assert!(order.map(at).is_sorted() && at("Check:") < at("\n  verify"), "{help}");
}

#[test]
fn the_short_help_of_convert_fits_a_screen() {
    let dir = scratch();
    let help = run(&dir, ["convert", "-h"]).quietly().out;
    assert!(help.lines().count() <= 50 && help.contains("--key-field"), "{help}");
    assert!(!help.contains("--subsampling") && help.contains("lists all options"), "{help}");
    let long = run(&dir, ["convert", "--help"]).quietly().out;
    assert!(long.contains("--arrays-min") && long.contains("--part 3/64"), "{long}");
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in COMMANDS {
        let help = run(&scratch(), [*command, "--help"]).quietly().out;
        assert!(help.contains("Examples:\n"), "{help}");
    }
}

#[test]
fn version_is_that_of_the_package() {
    let version = format!("kiste {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&scratch(), ["-V"]).quietly().out, version);
    let long = run(&scratch(), ["--version"]).quietly().out;
    assert!(long.starts_with(&version) && long.contains("\nfeatures: "), "{long}");
    assert_eq!(long.contains("parquet"), cfg!(feature = "parquet"), "{long}");
}

#[test]
fn a_typing_error_is_answered_with_a_suggestion() {
    let dir = scratch();
    let command = run(&dir, ["verfy", "x"]).exits(2);
    assert!(command.out.is_empty() && command.err.contains("hint: kiste verify?"), "{command:?}");
    let option = run(&dir, ["cat", "--jsnl", "x"]).exits(2);
    assert!(option.out.is_empty() && option.err.contains("'--jsonl'"), "{option:?}");
    assert!(run(&dir, [""; 0]).exits(2).err.contains("Usage"));
}

#[test]
fn errors_are_one_line_and_hints_another() {
    let dir = with_words();
    let run = run(&dir, ["convert", "words.msgpack.md5", "new.msgpack"]).exits(2);
    assert_eq!(
        run.err,
        "kiste: words.msgpack.md5: its name and first bytes do not show which format it has\n\
         hint: name its format with --from dataset, images, list, coco, jsonl, webdataset, tfrecord, mds, \
         cifar10, cifar100, mnist, npz, csv, tsv, parquet or arrow\n"
    );
    assert_eq!(run.out, "");
}

#[test]
fn what_is_no_data_file_is_said_to_be_none() {
    let dir = with_words();
    for command in ["cat", "head", "tail", "ls", "info", "verify", "index", "repair"] {
        run(&dir, [command, "nope"]).fails(2, "nope: no such file");
        run(&dir, [command, "."]).fails(2, "found a directory");
        let side = run(&dir, [command, "words.msgpack.keys"]).fails(2, "found a side file");
        assert!(side.err.contains("hint: the data file is words.msgpack\n"), "{side:?}");
    }
}

#[test]
fn colour_is_for_terminals_and_for_those_who_ask() {
    let dir = with_words();
    let plain = run(&dir, ["info", "words.msgpack"]).quietly();
    assert!(!plain.out.contains('\x1b'));
    let coloured = run(&dir, ["info", "words.msgpack", "--color", "always"]).quietly();
    assert!(coloured.out.contains("\x1b[1m"));
    assert!(run(&dir, ["info", "nope", "--color=always"]).exits(2).err.contains('\x1b'));
    assert!(!run(&dir, ["info", "nope"]).exits(2).err.contains('\x1b'));
}

#[test]
fn quiet_leaves_errors_only() {
    let dir = with_words();
    run(&dir, ["index", "words.msgpack", "--force", "--quiet"]).quietly();
    run(&dir, ["-q", "cat", "nope"]).fails(2, "nope");
}

#[test]
fn completions_and_manual_pages_can_be_printed() {
    let dir = scratch();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(run(&dir, ["completions", shell]).quietly().out.contains("verify"));
    }
    let page = run(&dir, ["man"]).quietly().out;
    assert!(page.contains(".TH kiste 1") && page.contains("kiste\\-verify"), "{page}");
    assert!(run(&dir, ["man", "verify"]).quietly().out.contains("\\-\\-deep"));
    run(&dir, ["man", "verfy"]).fails(2, "verfy");
}

#[test]
fn an_empty_dataset_is_a_dataset() {
    let dir = with_empty();
    for command in ["cat", "head", "tail", "ls"] {
        for form in [&[][..], &["--jsonl"]] {
            let args = [&[command, "empty.msgpack"], form].concat();
            assert_eq!(run(&dir, args).quietly().out, "");
        }
    }
    assert_eq!(run(&dir, ["cat", "--raw", "empty.msgpack"]).quietly().out, "");
    let info = run(&dir, ["info", "--json", "empty.msgpack"]).quietly().json();
    assert_eq!((&info["samples"], &info["bytes"]), (&0.into(), &0.into()));
    assert_eq!(info["sample_bytes"], Json::Null);
    run(&dir, ["info", "empty.msgpack"]).quietly();
    run(&dir, ["get", "empty.msgpack", "a"]).fails(1, "\"a\"");
    run(&dir, ["get", "empty.msgpack", "--index", "0"]).fails(1, "no sample 0");
    run(&dir, ["verify", "--deep", "empty.msgpack"]).quietly();
    run(&dir, ["index", "empty.msgpack"]).exits(0);
    run(&dir, ["index", "--force", "--lookup", "empty.msgpack"]).exits(0);
    run(&dir, ["verify", "--deep", "empty.msgpack"]).quietly();
    run(&dir, ["repair", "empty.msgpack"]).exits(0);
    run(&dir, ["repair", "empty.msgpack", "-o", "saved.msgpack"]).exits(0);
    run_with(&dir, ["convert", "-", "new.msgpack"], b"").exits(0);
    run_with(&dir, ["convert", "--append", "-", "new.msgpack"], b"").exits(0);
    run_with(&dir, ["convert", "--append", "-", "new.msgpack"], b"{\"key\":\"a\"}").exits(0);
    assert_eq!(run(&dir, ["ls", "new.msgpack"]).quietly().out, "a\n");
}

/// Any bytes are packed values of some kind, so another format would print nonsense.
#[test]
fn a_file_of_another_format_is_no_dataset() {
    let dir = scratch();
    fs::write(dir.path().join("a.jsonl"), "{\"key\":\"a\"}\n").unwrap();
    fs::write(dir.path().join("a.csv"), "key\na\n").unwrap();
    for command in ["cat", "head", "ls", "info", "verify", "index", "stat"] {
        for (name, title) in [("a.jsonl", "JSON lines"), ("a.csv", "comma-separated values")] {
            let failed = run(&dir, [command, name])
                .fails(2, &format!("{name}: expected a dataset, found {title}"));
            let hint = format!("hint: \"kiste convert {name} a.msgpack\" makes a dataset of it");
            assert!(failed.err.contains(&hint), "{failed:?}");
        }
        for name in ["a.txt", "text.msgpack"] {
            let found = "expected a dataset, found a file that does not begin with a sample";
            fs::write(dir.path().join(name), "some text").unwrap();
            run(&dir, [command, name]).fails(2, &format!("{name}: {found}"));
        }
    }
    run(&dir, ["convert", "a.jsonl", "a.msgpack"]).exits(0);
    // Without side files a dataset is known by its name, or has none that says anything else.
    fs::copy(dir.path().join("a.msgpack"), dir.path().join("bare")).unwrap();
    assert_eq!(run(&dir, ["ls", "bare"]).exits(0).out, "a\n");
}

/// What people try first is known, though the help names each command once.
#[test]
fn commands_have_the_names_that_people_try() {
    let dir = with_words();
    for (name, other) in [("head", "show"), ("head", "view"), ("info", "count"), ("stat", "stats")]
    {
        let outputs = [name, other].map(|name| run(&dir, [name, "words.msgpack"]).exits(0).out);
        assert_eq!(outputs[0], outputs[1], "{other}");
    }
}

#[test]
fn help_wraps_at_any_width() {
    for width in [40, 60, 80] {
        for command in [&[][..], &["array"], &["merge"], &["filter"]] {
            let args = [command, &["--help"]].concat();
            let help = kiste().args(&args).env("COLUMNS", width.to_string()).output().unwrap();
            let help = String::from_utf8(help.stdout).unwrap();
            // Usage and examples are to be copied, so they stay in one line each.
            let is_text = |line: &&str| !line.contains("kiste ") && !line.contains('<');
            for line in help.lines().filter(is_text) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

/// As they are typed, operands stand in the usage.
#[test]
fn usage_has_the_order_of_the_operands() {
    for (command, usage) in [
        ("merge", "kiste merge [OPTIONS] <IN>... <OUT>\n"),
        ("split", "kiste split [OPTIONS] <IN> <POS>...\n"),
        ("select", "kiste select [OPTIONS] <IN> <OUT> --keys <LIST>\n"),
        ("convert", "kiste convert [OPTIONS] <SRC>... <DST>\n"),
    ] {
        let help = run(&scratch(), [command, "--help"]).quietly().out;
        assert!(help.contains(usage), "{help}");
    }
}

/// What people try first is answered in the style of all errors, and no hidden name is proposed.
#[test]
fn wrong_usage_says_what_was_meant() {
    let dir = with_words();
    for (args, message, hint) in [
        (&["dedupe", "x"][..], "there is no command \"dedupe\"", "--first-of"),
        (
            &["wds", "x"],
            "there is no command \"wds\"",
            "kiste convert SRC DST reads and writes wds",
        ),
        (&["coco", "x"], "no command \"coco\"", "kiste convert SRC DST reads coco"),
        (&["undo", "x"], "no command \"undo\"", "kiste repair --undo DATASET"),
        (&["append", "a", "b"], "no command \"append\"", "kiste convert --append SRC DATASET"),
        (&["extract", "a", "b"], "no command \"extract\"", "--to images"),
        (&["fix", "a"], "no command \"fix\"", "kiste repair DATASET"),
        (&["convrt", "a", "b"], "no command \"convrt\"", "kiste convert?"),
        (&["veryfi", "a"], "no command \"veryfi\"", "kiste verify?"),
        #[cfg(feature = "datasets")]
        (&["catalog"], "no command \"catalog\"", "kiste catalogue?"),
        (&["."], "no command \".\"", "kiste convert NAME OUT.msgpack makes one"),
        (&["qqq"], "no command \"qqq\"", "kiste --help lists all commands"),
        (&["sort", "a", "b", "--rev"], "unexpected argument '--rev' found", "'--reverse'"),
        (&["sort", "a"], "required arguments were not provided: <OUT>", "usage: kiste sort"),
        (&["select", "a", "b", "5:7"], "unexpected argument '5:7' found", "--range <A..B>"),
        (&["squash", "x"], "no command \"squash\"", "kiste --help lists all commands"),
        (
            &["convert", "a", "b", "--bogus"],
            "unexpected argument '--bogus'",
            "usage: kiste convert",
        ),
        (&["convert", "head", "-3", "x"], "unexpected argument '-3'", "usage: kiste convert"),
        (&["split", "a", "--split", "x=1", "--by-group", "g"], "cannot be used with", ""),
        (&["split", "a", "3", "--seed", "1"], "cannot be used with", ""),
        (&["cat", "words.msgpack", "--range", "x"], "invalid value 'x' for '--range <A..B>'", ""),
    ] {
        let failed = run(&dir, args).fails(2, message);
        let lines: Vec<&str> = failed.err.lines().collect();
        match hint {
            "" => assert_eq!(lines.len(), 1, "{failed:?}"),
            hint => {
                assert_eq!(lines.len(), 2, "{failed:?}");
                assert!(lines[1].starts_with("hint: ") && lines[1].contains(hint), "{failed:?}");
            }
        }
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            let word = OsStr::from_bytes(b"a\xff");
            run(&dir, [word]).fails(2, "there is no command");
        }
        for hidden in ["completions", "'concat'", "'count'", "datasets", "\nUsage"] {
            assert!(!failed.err.contains(hidden), "{failed:?}");
        }
    }
}

/// Counts and ranges as other programs take them, and several keys at once.
#[test]
fn counts_ranges_and_keys() {
    let dir = with_words();
    let keys = |args: &[&str]| -> Vec<String> {
        let all = run(&dir, args).quietly().jsonl();
        all.iter().map(|sample| sample["key"].as_str().unwrap().to_owned()).collect()
    };
    let words = "words.msgpack";
    for (args, expected) in [
        (&["head", "-2", words, "--jsonl"][..], &["a", "b"][..]),
        (&["tail", "-1", words, "--jsonl"], &["c"]),
        (&["cat", "-1", words, "--jsonl"], &["a"]),
        (&["cat", words, "-n", "2", "--jsonl"], &["a", "b"]),
        (&["ls", "-n", "1", words, "--jsonl"], &["a"]),
        (&["cat", words, "--range", "1:2", "--jsonl"], &["b"]),
        (&["cat", words, "--range", "-2:", "--jsonl"], &["b", "c"]),
        (&["cat", words, "--range", "-9..-1", "--jsonl"], &["a", "b"]),
        (&["cat", words, "--range", ":", "--jsonl"], &["a", "b", "c"]),
        (&["get", words, "c", "a"], &["c", "a"]),
    ] {
        assert_eq!(keys(args), expected, "{args:?}");
    }
    for (range, says) in
        [("3:1", "3 is beyond 1"), ("-1:-2", "-1 is beyond -2"), ("1", "expected A..B")]
    {
        run(&dir, ["cat", words, "--range", range]).fails(2, says);
    }
    let some = run(&dir, ["get", words, "c", "x", "a", "--field", "n"]);
    assert_eq!(some.out, "3\n1\n");
    some.fails(1, "no sample with the key \"x\"");
    fs::write(dir.path().join("kept"), "kept").unwrap();
    run(&dir, ["get", words, "a", "x", "-o", "kept", "-f"])
        .fails(1, "no sample with the key \"x\"");
    assert_eq!(fs::read_to_string(dir.path().join("kept")).unwrap(), "kept");
    let failed = run(&dir, ["get", words, "1"]).fails(1, "no sample with the key \"1\"");
    assert!(failed.err.contains("hint: --index 1 takes"), "{failed:?}");
    let failed = run(&dir, ["get", words, "7"]).fails(1, "no sample with the key \"7\"");
    assert!(!failed.err.contains("hint"), "{failed:?}");
}

/// `--json` and `--jsonl` are both understood wherever one of them is.
#[test]
fn json_has_two_names() {
    let dir = with_words();
    for (args, one, other) in [
        (&["cat", "words.msgpack"][..], "--jsonl", "--json"),
        (&["head", "words.msgpack"], "--jsonl", "--json"),
        (&["ls", "words.msgpack"], "--jsonl", "--json"),
        (&["info", "words.msgpack"], "--json", "--jsonl"),
        (&["get", "words.msgpack", "a"], "--json", "--jsonl"),
        (&["stat", "words.msgpack"], "--json", "--jsonl"),
    ] {
        let with = |name: &str| run(&dir, args.iter().chain([&name])).exits(0).out;
        assert_eq!(with(one), with(other), "{args:?}");
        assert!(with(one).starts_with('{'), "{args:?}");
    }
}
