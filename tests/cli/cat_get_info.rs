//! `cat`, `head`, `tail`, `ls`, `get` and `info`.

use super::*;
use crate::support::golden;

#[test]
fn cat_shortens_for_people_and_leaves_nothing_out_for_programs() {
    let dir = with_words();
    let short = run(&dir, ["cat", "words.msgpack", "--max", "1"]).quietly().out;
    let line = short.lines().next().unwrap();
    assert_eq!(line, r#"{"key":"a",…} (4 fields)"#);
    let short = run(&dir, ["cat", "words.msgpack", "--max", "2", "--range", "2.."]).quietly().out;
    assert!(short.contains(r#""key":"c","n":3"#), "{short}");
    assert_eq!(run(&dir, ["cat", "words.msgpack", "--jsonl"]).quietly().out, WORDS);
}

#[test]
fn cat_takes_ranges_as_slices() {
    let dir = with_words();
    let lines: Vec<&str> = WORDS.split_inclusive('\n').collect();
    for (range, expected) in [
        ("0..1", &lines[..1]),
        ("1..", &lines[1..]),
        ("..2", &lines[..2]),
        ("..", &lines[..]),
        ("2..99", &lines[2..]),
        ("7..9", &[]),
    ] {
        let args = ["cat", "words.msgpack", "--jsonl", "--range", range];
        assert_eq!(run(&dir, args).quietly().out, expected.concat(), "{range}");
    }
    assert!(run(&dir, ["cat", "words.msgpack", "--range", "3..1"]).exits(2).out.is_empty());
}

#[test]
fn cat_takes_keys_from_a_list() {
    let dir = with_words();
    let args = ["cat", "words.msgpack", "--jsonl", "--keys", "-"];
    let run = run_with(&dir, args, b"c\nnope\na\n").fails(1, "\"nope\"");
    let keys: Vec<Json> = run.jsonl().into_iter().map(|sample| sample["key"].clone()).collect();
    assert_eq!(keys, ["c", "a"]);
}

#[test]
fn raw_samples_make_the_same_dataset_again() {
    let dir = with_words();
    let raw = kiste().args(["cat", "--raw", "words.msgpack"]).current_dir(&dir).output().unwrap();
    fs::write(dir.path().join("again.msgpack"), raw.stdout).unwrap();
    run(&dir, ["index", "again.msgpack"]).exits(0);
    for suffix in ["", ".offsets", ".keys", ".key_hashes", ".filter"] {
        let read = |name: &str| fs::read(dir.path().join(format!("{name}.msgpack{suffix}")));
        assert!(read("words").unwrap() == read("again").unwrap(), "{suffix}");
    }
}

#[test]
fn head_and_tail_are_the_ends() {
    let dir = scratch();
    let ten = golden("ten");
    let ten = ten.to_str().unwrap();
    let lines = |args: &[&str]| run(&dir, args).quietly().jsonl();
    let all = lines(&["cat", "--jsonl", ten]);
    assert_eq!(lines(&["head", "-n", "3", "--jsonl", ten]), all[..3]);
    assert_eq!(lines(&["tail", "-n", "3", "--jsonl", ten]), all[7..]);
    assert_eq!(lines(&["tail", "-n", "99", "--jsonl", ten]), all);
    assert_eq!(lines(&["head", "--jsonl", ten, ten]).len(), 20);
    assert_eq!(lines(&["head", "-n", "0", ten]).len(), 0);
}

#[test]
fn ls_lists_keys_in_order() {
    let dir = with_words();
    assert_eq!(run(&dir, ["ls", "words.msgpack"]).quietly().out, "a\nb\nc\n");
    let long = run(&dir, ["ls", "-l", "words.msgpack"]).quietly().out;
    let columns: Vec<&str> = long.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(columns, ["0", "28", "a"]);
    let entries = run(&dir, ["ls", "--jsonl", "words.msgpack"]).quietly().jsonl();
    assert_eq!(entries[1], serde_json::json!({"index": 1, "key": "b", "bytes": 26}));
}

#[test]
fn get_writes_a_field_as_it_is() {
    let dir = with_words();
    let get = |args: &[&str]| {
        let args = [&["get", "words.msgpack"], args].concat();
        let output = kiste().args(args).current_dir(dir.path()).output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
        output.stdout
    };
    assert_eq!(get(&["c", "--field", "raw"]), [0, 1, 2]);
    assert_eq!(get(&["c", "--field", "text"]), b"drei");
    assert_eq!(get(&["c", "--field", "text", "--json"]), b"\"drei\"\n");
    assert_eq!(get(&["c", "--field", "raw", "--json"]), b"{\"$bin\":\"AAEC\"}\n");
    assert_eq!(get(&["--index", "1", "--field", "n"]), b"2\n");
    assert_eq!(get(&["--index", "-1", "--field", "text"]), b"drei");
    assert_eq!(get(&["--index=-3", "--field", "text"]), b"eins");
    assert_eq!(get(&["b"]), WORDS.split_inclusive('\n').nth(1).unwrap().as_bytes());
    assert_eq!(get(&["a", "--field", "raw", "-o", "raw.bin"]), b"");
    assert_eq!(fs::read(dir.path().join("raw.bin")).unwrap(), [0, 255]);
}

/// A dataset `values.msgpack` of one sample with values of all kinds.
fn with_values() -> TempDir {
    use kiste::Value;
    use kiste::format::msgpack::numpy::Special;
    use kiste::value::NdArray;

    let scalar = |dtype: &str, data: &[u8]| {
        Special::scalar(dtype.parse().unwrap(), data).unwrap().to_value()
    };
    let array = |dtype: &str, shape: &[usize], data: Vec<u8>| {
        Special::Array(NdArray::new(dtype.parse().unwrap(), shape, data).unwrap()).to_value()
    };
    let floats =
        |count: u16| (0..count).flat_map(|n| (f32::from(n) / 10.0).to_le_bytes()).collect();
    let map = |fields: &[(&str, Value)]| {
        Value::Map(fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
    };
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\xf4\0\0\x01\x77\x08\0\0\0\0";
    let author =
        map(&[("author", "Ada".into()), ("born", scalar("<M8[D]", &(-56_270_i64).to_le_bytes()))]);
    let boxes = ["猫", "犬"].map(|name| map(&[("name", name.into()), ("x", 3.into())]));
    let sample = map(&[
        ("key", "a".into()),
        ("taken", scalar("<M8[us]", &1_714_566_600_000_000_i64.to_le_bytes())),
        ("never", scalar("<M8[ns]", &i64::MIN.to_le_bytes())),
        ("long", scalar("<m8[s]", &7205_i64.to_le_bytes())),
        ("half", scalar("<f2", &[0x66, 0x2e])),
        ("few", array("<f4", &[3], floats(3))),
        ("many", array("<f4", &[4, 5], floats(20))),
        ("huge", array("|u1", &[2000], vec![7; 2000])),
        ("story", "Once upon a time ".repeat(99).into()),
        ("image", Value::Binary([&png[..], &[0; 83_000]].concat())),
        ("tokens", Value::Array((0..1000).map(Value::from).collect())),
        ("meta", author),
        ("boxes", Value::Array(boxes.to_vec())),
        ("a.b", 1.into()),
        ("a", map(&[("b", 2.into()), ("c", 3.into())])),
    ]);
    let dir = scratch();
    let mut writer = Writer::create(dir.path().join("values.msgpack")).unwrap();
    writer.write_value(&sample).unwrap();
    writer.finish().unwrap();
    dir
}

#[test]
fn values_are_shown_and_json_keeps_them() {
    let dir = with_values();
    for command in [&["head"][..], &["tail"], &["cat"]] {
        let told = run(&dir, command.iter().chain(&["values.msgpack"])).quietly().out;
        for shown in [
            r#""taken":2024-05-01T12:30:00.000000,"never":NaT,"long":2 h 5 s,"half":0.1,"#,
            r#""few":[0.0 0.1 0.2] <f4,"many":<array <f4 [4, 5], 0.0 to 1.9>,"#,
            r#""huge":<array |u1 [2000], all 7>,"story":"Once upon a time Once "#,
            r#"…" (1,683 characters),"image":<png 500 x 375, 83 kB>,"#,
            r#""tokens":[0,1,2,3,4,5,6,7,…] (1,000 items),"meta":{"author":"Ada","born":1815-12-10},"#,
        ] {
            assert!(told.contains(shown), "{shown}: {told}");
        }
    }
    let lines = run(&dir, ["cat", "values.msgpack", "--jsonl"]).quietly().out;
    assert!(lines.contains(r#""taken":{"$np":{"dtype":"<M8[us]","data":""#), "{lines}");
    run_with(&dir, ["convert", "-", "again.msgpack"], lines.as_bytes()).exits(0);
    let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert!(bytes("again.msgpack") == bytes("values.msgpack"));
}

#[test]
fn get_takes_a_path_and_shows_numbers_and_times() {
    let dir = with_values();
    let get = |args: &[&str]| run(&dir, [&["get", "values.msgpack"], args].concat()).quietly().out;
    for (field, expected) in [
        ("taken", "2024-05-01T12:30:00.000000\n"),
        ("never", "NaT\n"),
        ("half", "0.1\n"),
        ("few", "[0.0 0.1 0.2] <f4\n"),
        ("few[-1]", "0.2\n"),
        ("many[0]", "[0.0 0.1 0.2 0.3 0.4] <f4\n"),
        ("meta.author", "Ada"),
        ("meta.born", "1815-12-10\n"),
        ("boxes[-1].name", "犬"),
        ("boxes[0]", "{\"name\":\"猫\",\"x\":3}\n"),
        ("a.b", "1\n"),
        ("'a.b'", "1\n"),
        ("a.c", "3\n"),
    ] {
        assert_eq!(get(&["a", "--field", field]), expected, "{field}");
    }
    let taken = get(&["a", "--field", "taken", "--json"]);
    assert!(taken.starts_with(r#"{"$np":{"dtype":"<M8[us]","#), "{taken}");
    // What would be shortened stays whole.
    assert!(get(&["a", "--field", "huge"]).starts_with(r#"{"$nd":{"dtype":"|u1","shape":[2000],"#));
    assert!(get(&["a"]).starts_with(r#"{"key":"a","taken":{"$np":"#));
    for field in ["meta.title", "boxes[2]", "few[3]", "key.x", "a..b", "[", ""] {
        let says = format!("sample 0: there is no field {field:?}");
        run(&dir, ["get", "values.msgpack", "a", "--field", field]).fails(1, &says);
    }
}

#[test]
fn wide_characters_are_in_columns() {
    let dir = scratch();
    let lines = "{\"key\":\"a\",\"猫の名\":1,\"b\":2}\n";
    run_with(&dir, ["convert", "-", "wide.msgpack"], lines.as_bytes()).exits(0);
    let info = run(&dir, ["info", "wide.msgpack"]).quietly().out;
    // Six columns of three characters.
    assert!(info.contains("猫の名  int\n") && info.contains("b       int\n"), "{info}");
    let stat = run(&dir, ["stat", "wide.msgpack"]).quietly().out;
    assert!(stat.contains("  猫の名     all ") && stat.contains("  b          all "), "{stat}");
}

#[test]
fn get_replaces_no_file_without_force() {
    let dir = with_words();
    fs::write(dir.path().join("out"), "mine").unwrap();
    let args = ["get", "words.msgpack", "a", "--field", "text", "-o", "out"];
    run(&dir, args).fails(2, "out: the file exists already");
    assert_eq!(fs::read(dir.path().join("out")).unwrap(), b"mine");
    run(&dir, args.iter().chain(&["--force"])).quietly();
    assert_eq!(fs::read(dir.path().join("out")).unwrap(), b"eins");
}

#[test]
fn what_is_not_there_is_a_no() {
    let dir = with_words();
    run(&dir, ["get", "words.msgpack", "nope"])
        .fails(1, "there is no sample with the key \"nope\"");
    for index in ["3", "-4", "9223372036854775807", "-9223372036854775808"] {
        let says = format!("words.msgpack: there is no sample {index}: it has 3 samples");
        run(&dir, ["get", "words.msgpack", "--index", index]).fails(1, &says);
    }
    let field = run(&dir, ["get", "words.msgpack", "a", "--field", "x"]).fails(1, "no field \"x\"");
    assert!(field.err.contains("hint: its fields: key, n, raw, text\n"), "{field:?}");
    assert!(run(&dir, ["get", "words.msgpack"]).exits(2).err.contains("<KEY>"));
}

#[test]
fn info_says_what_a_dataset_is() {
    let dir = with_words();
    let info = run(&dir, ["info", "--json", "words.msgpack"]).quietly().json();
    assert_eq!(info["samples"], 3);
    assert_eq!(info["bytes"], fs::metadata(dir.path().join("words.msgpack")).unwrap().len());
    assert_eq!(info["fields"]["raw"], serde_json::json!(["bytes"]));
    let order: Vec<&String> = info["fields"].as_object().unwrap().keys().collect();
    assert_eq!(order, ["key", "n", "raw", "text"]);
    assert_eq!(info["files"].as_array().unwrap().len(), 6);
    assert_eq!((&info["digests"], &info["lookup"]), (&true.into(), &false.into()));
    assert_eq!(info["unfinished"], Json::Null);
    fs::remove_file(dir.path().join("words.msgpack.filter")).unwrap();
    let text = run(&dir, ["info", "words.msgpack"]).quietly().out;
    assert!(text.contains("words.msgpack.filter       missing\n"), "{text}");
}

#[test]
fn info_knows_what_numpy_is() {
    let arrays = golden("arrays");
    let info = run(&scratch(), ["info".as_ref(), "--json".as_ref(), arrays.as_os_str()]);
    let info = info.quietly().json();
    let types = info["fields"]["array"].as_array().unwrap();
    assert!(types.iter().any(|t| t.as_str().unwrap().starts_with("array ")), "{types:?}");
}

#[test]
fn stat_says_what_is_in_a_dataset() {
    let dir = with_words();
    let found = run(&dir, ["stat", "words.msgpack", "--json"]).quietly().json();
    assert_eq!((&found["samples"], &found["bytes"]["count"]), (&3.into(), &3.into()));
    let fields = found["fields"].as_array().unwrap();
    let names: Vec<&str> = fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["key", "n", "raw", "text"]);
    assert_eq!(fields[1]["types"], serde_json::json!({"int": 3}));
    assert_eq!(fields[1]["classes"], serde_json::json!([[1, 1], [2, 1], [3, 1]]));
    assert_eq!(fields[2]["types"], serde_json::json!({"bytes": 3}));
    let text = run(&dir, ["stat", "words.msgpack"]).quietly().out;
    assert!(text.starts_with("words.msgpack: 3 samples, "), "{text}");
    assert!(text.contains("  int; all different\n"), "{text}");
    assert!(text.contains("\nfield n: numbers\n  min 1, "), "{text}");
    assert!(!text.contains("field key: classes"), "{text}");
    let one = run(&dir, ["stat", "words.msgpack", "--field", "text", "--all"]).quietly().out;
    assert!(one.contains("\n  drei  1  ███"), "{one}");
    run(&dir, ["stat", "words.msgpack", "--field", "m"]).fails(2, "no sample has a field \"m\"");
}

#[test]
fn stat_knows_labels_and_images_and_makes_a_page() {
    let dir = scratch();
    run(&dir, ["demo", "."]).exits(0);
    let text = run(&dir, ["stat", "digits.msgpack"]).quietly().out;
    assert!(text.contains("\n  5,000 png\n  colours: 5,000 grey\n  all 28 x 28\n"), "{text}");
    assert!(text.contains("\n  10 values, each of 500 samples\n"), "{text}");
    fs::write(dir.path().join("digits.msgpack.labels"), "zero\none\n").unwrap();
    let text = run(&dir, ["stat", "digits.msgpack"]).quietly().out;
    assert!(text.contains("\n  0 zero  500  ") && text.contains("\n  2       500  "), "{text}");

    run(&dir, ["stat", "digits.msgpack", "--html", "page.html", "--show", "7"]).quietly();
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert_eq!(page.matches("<figure ").count(), 7);
    assert_eq!(page.matches("src=\"data:image/png;base64,").count(), 7);
    assert!(!page.contains("http:") && !page.contains("https:"));
    assert_eq!(page.matches("<script").count(), 1);
    run(&dir, ["stat", "digits.msgpack", "--html", "page.html"]).fails(2, "exists already");
}

#[test]
fn stat_of_nothing_is_short() {
    let dir = with_empty();
    let text = run(&dir, ["stat", "empty.msgpack"]).quietly().out;
    assert_eq!(text, "empty.msgpack: 0 samples, 0 B\n");
    run(&dir, ["stat", "empty.msgpack", "--html", "page.html"]).quietly();
}

#[test]
fn some_fields_can_be_printed() {
    let dir = with_words();
    let samples = |args: &[&str]| {
        let printed = run(&dir, [&["cat", "words.msgpack", "--jsonl"], args].concat()).exits(0);
        (printed.jsonl(), printed.err)
    };
    let (whole, _) = samples(&[]);
    let (some, told) = samples(&["--fields", "text,n"]);
    assert_eq!(told, "");
    for (some, whole) in some.iter().zip(&whole) {
        let names = some.as_object().unwrap().keys().map(String::as_str);
        assert!(names.clone().all(|name| ["key", "text", "n"].contains(&name)), "{some}");
        assert!(names.clone().all(|name| some[name] == whole[name]));
        assert!(some["key"].is_string());
    }
    let (none, told) = samples(&["--fields", "txt"]);
    assert_eq!(none.len(), 3);
    assert!(told.contains("warning: no sample that was printed has a field \"txt\""), "{told}");
}
