//! What datasets of others do to a terminal: nothing.

use kiste::Value;

use super::*;

/// Text with all that a terminal, a pager or a reader can be fooled with.
const EVIL: &str = "\u{1b}]0;title\u{7}\u{1b}[2J\r\n\u{9b}31m\u{7f}\u{202e}\u{2066}\t\u{8}end";

/// The name of a file that holds all of it but a slash.
fn evil_name(name: &str) -> String {
    format!("{name}{EVIL}.msgpack")
}

/// Samples whose keys, fields and values are such, and a field of labels with names of that kind.
fn evil_dataset(dir: &TempDir, name: &str, samples: usize, other: &str) {
    // Digests stand in lines with the name.
    let options = Writer::options().digests(false);
    let mut writer = options.create(dir.path().join(name)).unwrap();
    for index in 0..samples {
        let array: Value =
            Value::Array(vec![EVIL.into(), Value::Map(vec![(EVIL.into(), 1.into())])]);
        let sample = Value::Map(vec![
            ("key".into(), format!("{EVIL}{index:03}").into()),
            (EVIL.into(), format!("{EVIL}{other}").into()),
            ("label".into(), (index as u64 % 2).into()),
            ("class".into(), format!("{EVIL}{}", index % 2).into()),
            (format!("list{EVIL}").into(), array),
        ]);
        writer.write_value(&sample).unwrap();
    }
    // One name a line.
    let label = EVIL.replace(['\r', '\n'], "");
    writer.set_labels(Some(&[format!("{label}0"), format!("{label}1")])).unwrap();
    writer.finish().unwrap();
}

fn is_flaw(c: char) -> bool {
    (c.is_control() && c != '\n')
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

#[track_caller]
fn assert_printable(text: &str, what: &str) {
    if let Some(flaw) = text.chars().find(|c| is_flaw(*c)) {
        panic!("{what}: printed {flaw:?}: {text:?}");
    }
    // Nor does a value begin a line: what is at the start of one is from the command.
    let begins = |line: &str| line.starts_with("\\u{9b}") || line.starts_with("end");
    assert!(!text.lines().any(begins), "{what}: a value became a line: {text:?}");
}

/// Without the tabs between the columns of a dry run and of sources, which have no others.
fn without_columns(args: &[String], out: &str) -> String {
    let tabs = match args {
        args if args.iter().any(|arg| arg == "--dry-run") => 3,
        args if args.iter().any(|arg| arg == "--source") => 2,
        _ => return out.to_owned(),
    };
    assert!(out.lines().all(|line| line.matches('\t').count() == tabs), "{args:?}: {out:?}");
    out.replace('\t', " ")
}

/// Commands that print text, for each kind of command that there is.
fn commands(file: &str, other: &str) -> Vec<Vec<String>> {
    let lines = [
        "cat FILE|cat FILE --keys nope-file|cat FILE --keys -|head FILE|tail FILE|head FILE --max 9999",
        "info FILE|info nope-FILE|stat FILE|stat FILE --field class|stat FILE --field EVIL",
        "stat FILE --field EVIL,nope|get FILE nope-EVIL|get FILE --index 0 --field nope-EVIL",
        "order FILE --find EVIL000|order FILE --find nope-EVIL|order nope-FILE|bench FILE",
        "diff FILE OTHER|diff OTHER FILE --max 999|diff FILE nope-FILE",
        "convert FILE x.jsonl --dry-run|convert FILE x.csv --dry-run|convert FILE x --to mds --dry-run",
        "convert FILE x.tar|convert FILE x.csv|convert FILE x.tfrecord|convert FILE x.npz",
        "convert FILE x.csv --bad skip|convert FILE y.msgpack --bad quarantine --key-field label",
        "convert FILE new-EVIL.msgpack|convert nope-FILE z.msgpack|convert FILE z --to nope-EVIL",
        "convert FILE w.msgpack --drop nope-EVIL|convert FILE FILE|convert FILE p.msgpack --key-field no",
        "convert FILE part-EVIL.msgpack --part 1/2|commit part-EVIL.msgpack|commit FILE",
        "index FILE|index FILE --force|index nope-FILE|verify FILE|verify --deep FILE nope-FILE",
        "repair FILE|repair nope-FILE|repair FILE -o s-EVIL.msgpack",
        "sample FILE s1.msgpack 1|sample FILE s2.msgpack 99999|sample FILE s3.msgpack 1 --stratify class",
        "sample FILE s4.msgpack 1 --stratify EVIL-nope|select FILE s5.msgpack --range 0..1",
        "select FILE s6.msgpack --keys keys.txt|filter FILE s7.msgpack label==0|sort FILE s8.msgpack",
        "filter FILE s9.msgpack EVIL|sort FILE sa.msgpack --by EVIL|sort FILE sb.msgpack --by nope-EVIL",
        "shuffle FILE sc.msgpack|split FILE --by-class class|split FILE 1|merge FILE OTHER sd.msgpack",
        "merge FILE FILE se.msgpack|array info nope-EVIL|array verify FILE|blpk info nope-EVIL",
        "select FILE EVIL.kiste.toml --range ..3|recipe check EVIL.kiste.toml|recipe lock EVIL.kiste.toml|info EVIL.kiste.toml",
        "filter FILE f.kiste.toml label==0|recipe check f.kiste.toml|merge FILE f.kiste.toml m.kiste.toml --skip-duplicates|recipe check m.kiste.toml",
        "recipe check nope-FILE|recipe check nope-EVIL.kiste.toml|recipe lock nope-EVIL|order f.kiste.toml --source",
        "blpk compress FILE|blpk info FILE.blp|catalogue nope-EVIL|catalogue nope-EVIL x|demo FILE",
        "ls nope-FILE|ls --nope-EVIL|nope-EVIL|cache nope-EVIL|completions nope-EVIL|man nope-EVIL|order FILE --seed EVIL",
    ];
    let fill = |word: &str| {
        word.replace("nope-FILE", &format!("nope-{file}"))
            .replace("FILE", file)
            .replace("OTHER", other)
            .replace("EVIL", EVIL)
    };
    let split = lines.iter().flat_map(|line| line.split('|'));
    split.map(|command| command.split(' ').map(fill).collect()).collect()
}

#[test]
fn nothing_in_a_dataset_reaches_the_terminal_as_a_control_character() {
    let dir = scratch();
    let (file, other) = (evil_name("data"), evil_name("other"));
    evil_dataset(&dir, &file, 6, "left");
    evil_dataset(&dir, &other, 5, "right");
    fs::write(dir.path().join("keys.txt"), "nope\u{1b}[2J\u{9b}\n").unwrap();
    let commands = commands(&file, &other);
    for args in &commands {
        let run = run(&dir, args);
        assert_printable(&without_columns(args, &run.out), &format!("{args:?}: standard output"));
        assert_printable(&run.err, &format!("{args:?}: standard error"));
        if args[0] == "info" && args[1] == file {
            assert!(run.out.contains(r"\u{1b}]0;title\u{7}\u{1b}[2J\r\n\u{9b}31m"), "{run:?}");
        }
    }
    // No command is forgotten.
    let help = run(&dir, ["--help"]).out;
    let named = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    for name in named.filter(|name| !name.is_empty() && !name.starts_with('-')) {
        assert!(commands.iter().any(|args| args[0] == name), "{name} is tried with nothing");
    }
}

#[test]
fn colours_are_those_of_the_command_alone() {
    let dir = scratch();
    let (file, other) = (evil_name("data"), evil_name("other"));
    evil_dataset(&dir, &file, 6, "left");
    evil_dataset(&dir, &other, 5, "right");
    for args in commands(&file, &other) {
        let run = run(&dir, args.iter().map(String::as_str).chain(["--color=always"]));
        let plain = |text: &str| {
            let codes = ["0", "1", "2", "31", "32", "33", "36"];
            // What clap says of usage has codes of its own.
            let codes = codes.into_iter().map(|code| format!("\u{1b}[{code}m"));
            codes.fold(text.to_owned(), |text, code| text.replace(&code, ""))
        };
        if !run.err.contains("Usage:") && !run.err.contains("--help") {
            let out = without_columns(&args, &plain(&run.out));
            assert_printable(&out, &format!("{args:?}: standard output"));
            assert_printable(&plain(&run.err), &format!("{args:?}: standard error"));
        }
    }
}

#[test]
fn programs_get_the_exact_bytes() {
    let dir = scratch();
    let file = evil_name("data");
    evil_dataset(&dir, &file, 2, "left");
    let keys = format!("{EVIL}000\n{EVIL}001\n");
    assert_eq!(run(&dir, ["ls", &file]).quietly().out, keys);
    assert_eq!(run(&dir, ["order", &file, "--sampler", "sequential"]).quietly().out, keys);
    let value = run(&dir, ["get", &file, "--index", "0", "--field", EVIL]).quietly().out;
    assert_eq!(value, format!("{EVIL}left"));
    let lines = run(&dir, ["cat", "--jsonl", &file]).quietly().jsonl();
    assert_eq!(lines[1]["key"], format!("{EVIL}001"));
    assert_eq!(
        run(&dir, ["ls", "--jsonl", &file]).quietly().jsonl()[0]["key"],
        format!("{EVIL}000")
    );
    assert_eq!(run(&dir, ["info", "--json", &file]).quietly().json()["file"], file);
    assert_eq!(run(&dir, ["stat", "--json", &file]).quietly().json()["fields"][1]["name"], EVIL);
}

/// Runs commands with a terminal for everything, where there is the program that makes one.
#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_keys_values_and_json_are_escaped() {
    let dir = scratch();
    let file = evil_name("data");
    evil_dataset(&dir, &file, 2, "left");
    let on_terminal = |args: &str| {
        let mut command = Command::new("script");
        command.args(["-q", "-e", "-c"]).arg(format!("\"$KISTE\" {args}")).arg("/dev/null");
        command.env("KISTE", env!("CARGO_BIN_EXE_kiste")).env("FILE", &file).env("FIELD", EVIL);
        command.env("NO_COLOR", "1").stdin(Stdio::null()).current_dir(dir.path());
        // The terminal puts a carriage return before each newline.
        let run: Run = command.output().unwrap().into();
        Run { out: run.out.replace("\r\n", "\n"), ..run }
    };
    if Command::new("script").arg("--version").output().is_err() {
        return;
    }
    for args in [
        r#"ls "$FILE""#,
        r#"ls -l "$FILE""#,
        r#"ls --jsonl "$FILE""#,
        r#"order "$FILE" --sampler sequential"#,
        r#"cat --jsonl "$FILE""#,
        r#"info --json "$FILE""#,
        r#"stat --json "$FILE""#,
        r#"get "$FILE" --index 0"#,
        r#"index "$FILE" --jsonl --no-md5"#,
    ] {
        let run = on_terminal(args).exits(0);
        assert_printable(&run.out, args);
        assert!(run.out.contains(r"\u{1b}]0;") || run.out.contains(r"\u001b]0;"), "{run:?}");
    }
    // A text may have lines.
    let text = on_terminal(r#"get "$FILE" --index 0 --field "$FIELD""#).exits(0).out;
    assert_eq!(
        text,
        "\\u{1b}]0;title\\u{7}\\u{1b}[2J\\r\n\\u{9b}31m\\u{7f}\\u{202e}\\u{2066}\t\\u{8}endleft"
    );
}
