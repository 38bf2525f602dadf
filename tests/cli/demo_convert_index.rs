//! `demo`, `convert` and `index`.

use super::*;
use crate::support::{
    assert_same_as_of_python, assert_same_files, copy_to, files_of, golden, golden_dir,
};

#[test]
fn demo_makes_what_python_made_and_prints_commands_that_work() {
    let dir = scratch();
    let demo = run(&dir, ["demo"]).quietly();
    assert!(demo.out.contains("byte for byte those that Python datadings 3.4.7 wrote"), "{demo:?}");
    let made = dir.path().join("kiste-demo/digits.msgpack");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/digits/digits.msgpack");
    assert_same_as_of_python(&shipped, &made);
    let labels = fs::read_to_string(dir.path().join("kiste-demo/digits.msgpack.labels")).unwrap();
    assert_eq!(labels, "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");

    let (_, next) = demo.out.split_once("try next\n").unwrap();
    assert_eq!(next.lines().count(), 8);
    // Twice, because a command that worked once should not fail the next time.
    for line in next.lines().chain(next.lines()).filter(|_| cfg!(unix)) {
        let status = Command::new("sh").arg("-ec").arg(line).current_dir(&dir).output().unwrap();
        assert!(status.status.success(), "{line}: {status:?}");
    }
    // A second time over its own folder, but never over one of somebody else.
    run(&dir, ["demo"]).quietly();
    fs::create_dir(dir.path().join("mine")).unwrap();
    fs::write(dir.path().join("mine/file"), "precious").unwrap();
    run(&dir, ["demo", "mine"]).fails(
        2,
        "mine: the folder exists and was not made by an earlier \
        demo",
    );
    assert_eq!(names(&dir.path().join("mine")), ["file"]);
    run(&dir, ["demo", "mine", "--force"]).quietly();
}

/// A folder of images with these labels and names.
fn images(dir: &TempDir, folder: &str, names: &[&str]) {
    for name in names {
        let path = dir.path().join(folder).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("not really an image, but {name}")).unwrap();
    }
}

#[test]
fn a_folder_of_images_becomes_a_dataset_with_labels() {
    let dir = scratch();
    images(
        &dir,
        "photos",
        &["cat/10.png", "cat/9.png", "bird/1.jpg", "bird/notes.txt", ".x/1.png"],
    );
    let run_ = run(&dir, ["convert", "photos", "photos.msgpack", "--json"]).exits(0);
    assert!(run_.err.contains("skipped 1 file"), "{run_:?}");
    let made = run_.json();
    assert_eq!((&made["samples"], &made["added"]), (&3.into(), &3.into()));
    assert_eq!(made["skipped_files"], 1);
    let keys = run(&dir, ["ls", "photos.msgpack"]).quietly().out;
    assert_eq!(keys, "bird/1.jpg\ncat/9.png\ncat/10.png\n");
    let label = run(&dir, ["get", "photos.msgpack", "cat/9.png", "--field", "label"]).quietly();
    assert_eq!(label.out, "1\n");
    let labels = || fs::read_to_string(dir.path().join("photos.msgpack.labels")).unwrap();
    assert_eq!(labels(), "bird\ncat\n");

    // More of the same labels, and new ones behind them.
    images(&dir, "more", &["bird/2.jpg", "cat/11.png", "dog/1.png"]);
    let run_ = run(&dir, ["convert", "--append", "more", "photos.msgpack"]).exits(0);
    assert!(run_.err.contains("3 samples, 6 now"), "{run_:?}");
    assert_eq!(labels(), "bird\ncat\ndog\n");
    // Labels under other numbers would be wrong.
    images(&dir, "wrong", &["cat/99.png"]);
    let before = snapshot_files(&dir, "photos.msgpack");
    let failed = run(&dir, ["convert", "--append", "wrong", "photos.msgpack"]);
    failed.fails(2, "label 0 is \"bird\" here but \"cat\" in the source");
    assert_eq!(snapshot_files(&dir, "photos.msgpack"), before);
    // Without the list nobody knows.
    fs::remove_file(dir.path().join("photos.msgpack.labels")).unwrap();
    run(&dir, ["convert", "--append", "more", "photos.msgpack"])
        .fails(2, "the meaning of the numbers is unknown");
    run(&dir, ["verify", "--deep", "photos.msgpack"]).quietly();
}

fn snapshot_files(dir: &TempDir, name: &str) -> Vec<Vec<u8>> {
    let data = dir.path().join(name);
    let labels = kiste::dataset::labels_path(&data);
    let files = files_of(&data).into_iter().chain(labels.exists().then_some(labels));
    files.map(|file| fs::read(file).unwrap()).collect()
}

#[test]
fn an_existing_dataset_is_replaced_with_force_only() {
    let dir = with_words();
    let before = snapshot(dir.path());
    let failed = run_with(&dir, ["convert", "-", "words.msgpack"], b"{\"key\":\"x\"}");
    assert!(failed.fails(2, "exists already").err.contains("hint: --force replaces it, --append"));
    assert_eq!(snapshot(dir.path()), before);
    run_with(&dir, ["convert", "--force", "-", "words.msgpack"], b"{\"key\":\"x\"}").exits(0);
    assert_eq!(run(&dir, ["ls", "words.msgpack"]).quietly().out, "x\n");
    // Labels of the old dataset would be wrong for the new one.
    images(&dir, "photos", &["cat/1.png"]);
    run(&dir, ["convert", "photos", "words.msgpack", "--force"]).exits(0);
    assert!(dir.path().join("words.msgpack.labels").exists());
    run_with(&dir, ["convert", "--force", "-", "words.msgpack"], b"{\"key\":\"x\"}").exits(0);
    assert!(!dir.path().join("words.msgpack.labels").exists());
}

#[test]
fn appending_is_as_writing_in_one_go() {
    let dir = with_words();
    let lines: Vec<&str> = WORDS.split_inclusive('\n').collect();
    fs::write(dir.path().join("first.jsonl"), lines[0]).unwrap();
    fs::write(dir.path().join("rest.jsonl"), lines[1..].concat()).unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    run(&dir, ["convert", "first.jsonl", "sub/words.msgpack"]).exits(0);
    run(&dir, ["convert", "--append", "rest.jsonl", "sub/words.msgpack"]).exits(0);
    assert_same_files(&dir.path().join("words.msgpack"), &dir.path().join("sub/words.msgpack"));
    run(&dir, ["convert", "--append", "rest.jsonl", "none.msgpack"]).fails(2, "none.msgpack");
}

#[test]
fn a_duplicate_key_stops_or_is_skipped() {
    let dir = with_words();
    let input =
        b"{\"key\":\"x\"}\n\n{\"key\":\"y\"}\n{\"key\":\"x\",\"again\":true}\n{\"key\":\"a\"}\n";
    fs::write(dir.path().join("more.jsonl"), input).unwrap();
    let before = snapshot(dir.path());
    let run_ = run(&dir, ["convert", "more.jsonl", "new.msgpack"]);
    let run_ = run_.fails(2, "more.jsonl: key \"x\": line 4: sample 0 has the same key");
    assert!(run_.err.contains("hint: --key-field makes another field the key"), "{run_:?}");
    run(&dir, ["convert", "--append", "more.jsonl", "words.msgpack"]).fails(2, "line 4");
    assert_eq!(snapshot(dir.path()), before);

    let args =
        ["convert", "--append", "--skip-duplicates", "more.jsonl", "words.msgpack", "--json"];
    let made = run(&dir, args).exits(0).json();
    assert_eq!((&made["added"], &made["skipped_duplicates"]), (&2.into(), &2.into()));
    assert_eq!(run(&dir, ["ls", "words.msgpack"]).quietly().out, "a\nb\nc\nx\ny\n");
}

#[test]
fn a_line_that_is_no_sample_is_named_and_nothing_is_published() {
    let dir = scratch();
    for (line, says) in [
        ("{\"key\":", "line 2"),
        ("{\"kee\":\"a\"}", "line 2: expected a \"key\", as the first line has one, found none"),
        ("{\"key\":7}", "line 2: expected a string as \"key\", found another value"),
        ("[]", "line 2: not a sample"),
        ("{\"key\":\"a\",\"$x\":1}", "line 2"),
    ] {
        let input = format!("{{\"key\":\"good\"}}\n{line}\n");
        run_with(&dir, ["convert", "-", "new.msgpack"], input.as_bytes()).fails(1, says);
        assert!(names(dir.path()).is_empty());
    }
}

#[test]
fn options_of_convert_make_and_leave_files() {
    let dir = scratch();
    let convert = |options: &[&str], name: &str| {
        let args = [&["convert", "-", name], options].concat();
        run_with(&dir, args, WORDS.as_bytes()).exits(0);
    };
    convert(&["--no-md5"], "bare.msgpack");
    assert!(!dir.path().join("bare.msgpack.md5").exists());
    convert(&["--lookup", "--no-sync"], "full.msgpack");
    assert!(dir.path().join("full.msgpack.lookup").exists());
    convert(&["--lookup", "--no-lookup", "--no-sync"], "none.msgpack");
    assert!(!dir.path().join("none.msgpack.lookup").exists());
    let verified = run(&dir, ["verify", "bare.msgpack"]).exits(0);
    assert!(verified.err.contains("warning: bare.msgpack: there are no digests"), "{verified:?}");
    run(&dir, ["index", "bare.msgpack"]).exits(0);
    run(&dir, ["verify", "bare.msgpack", "full.msgpack"]).quietly();
}

#[test]
fn a_side_files_name_is_refused_for_data() {
    let run_ = run_with(&scratch(), ["convert", "-", "x.keys"], b"");
    run_.fails(2, "a data file cannot be named like one of its side files");
}

#[test]
fn a_folder_is_never_replaced_by_a_dataset() {
    let dir = with_words();
    images(&dir, "photos", &["cat/1.png"]);
    let before = names(dir.path());
    run(&dir, ["convert", "photos", "photos", "--force"]).fails(2, "found a directory");
    run(&dir, ["repair", "words.msgpack", "-o", "photos", "--force"]).fails(2, "a directory");
    assert_eq!(names(dir.path()), before);
}

#[test]
fn index_makes_what_is_missing_and_says_so() {
    let dir = with_words();
    let before = snapshot(dir.path());
    let run_ = run(&dir, ["index", "words.msgpack"]).exits(0);
    assert_eq!(run_.err, "words.msgpack: 3 samples, nothing was missing\n");
    fs::remove_file(dir.path().join("words.msgpack.filter")).unwrap();
    let run_ = run(&dir, ["index", "words.msgpack", "--jsonl"]).exits(0);
    assert!(run_.err.starts_with("words.msgpack: 3 samples, made .filter"), "{run_:?}");
    assert_eq!(run_.jsonl()[0]["made"][0], "words.msgpack.filter");
    for file in files_of(&dir.path().join("words.msgpack")).iter().skip(1) {
        fs::remove_file(file).unwrap();
    }
    let run_ = run(&dir, ["index", "words.msgpack"]).exits(0);
    assert!(run_.err.contains("made .offsets .keys .key_hashes .filter .md5"), "{run_:?}");
    assert_eq!(snapshot(dir.path()), before);
    fs::write(dir.path().join("words.msgpack.keys"), "rubbish").unwrap();
    run(&dir, ["index", "--force", "words.msgpack"]).exits(0);
    assert_eq!(snapshot(dir.path()), before);
}

#[test]
fn index_makes_the_accelerator_by_itself() {
    let dir = scratch();
    let input: String = (0..1 << 10).map(|i| format!("{{\"key\":\"{i}\"}}\n")).collect();
    run_with(&dir, ["convert", "-", "big.msgpack", "--no-sync"], input.as_bytes()).exits(0);
    let (whole, lookup) = (snapshot(dir.path()), dir.path().join("big.msgpack.lookup"));
    let index =
        |options: &[&str]| run(&dir, [&["index", "big.msgpack"], options].concat()).exits(0).err;
    let nothing = "big.msgpack: 1,024 samples, nothing was missing\n";
    assert_eq!(index(&[]), nothing);
    fs::remove_file(&lookup).unwrap();
    assert_eq!(index(&["--no-lookup"]), nothing);
    assert!(index(&[]).contains("made .lookup\n"));
    assert!(snapshot(dir.path()) == whole);
    assert_eq!(index(&[]), nothing);
    assert_eq!(index(&["--no-lookup"]), nothing);
    // From the data alone.
    for file in files_of(&dir.path().join("big.msgpack")).iter().skip(1) {
        fs::remove_file(file).unwrap();
    }
    assert!(index(&[]).contains("made .offsets .keys .key_hashes .filter .lookup .md5"));
    assert!(snapshot(dir.path()) == whole);
    index(&["--force", "--lookup", "--no-lookup"]);
    assert!(!lookup.exists());
    run(&dir, ["verify", "big.msgpack"]).quietly();
}

#[test]
fn index_makes_the_accelerator_of_small_datasets_on_request() {
    let dir = with_words();
    let before = snapshot(dir.path());
    let index =
        |options: &[&str]| run(&dir, [&["index", "words.msgpack"], options].concat()).exits(0).err;
    index(&["--force"]);
    assert_eq!(snapshot(dir.path()), before);
    assert!(index(&["--no-lookup", "--lookup"]).contains("made .lookup\n"));
    let with = snapshot(dir.path());
    run_with(&dir, ["convert", "-", "words.msgpack", "--force", "--lookup"], WORDS.as_bytes());
    assert_eq!(snapshot(dir.path()), with);
    assert!(index(&[]).contains("nothing was missing"));
    index(&["--lookup"]);
    index(&["--force"]);
    assert_eq!(snapshot(dir.path()), with);
    index(&["--force", "--no-lookup"]);
    assert_eq!(snapshot(dir.path()), before);
}

#[test]
fn legacy_datasets_are_read_and_indexed_as_python_does() {
    /// All but this is too deep for a dynamic value.
    #[derive(serde::Deserialize)]
    struct Manifest {
        legacy: Json,
    }
    let manifest = fs::read(golden_dir().join("manifest.json")).unwrap();
    let Manifest { legacy } = serde_json::from_slice(&manifest).unwrap();
    for (name, legacy) in legacy.as_object().unwrap() {
        let dir = scratch();
        let file = format!("{name}.msgpack");
        let data = copy_to(&golden_dir().join("legacy").join(&file), dir.path());
        let python = golden(name);
        let new_keys = run(&dir, ["ls".as_ref(), python.as_os_str()]).quietly().out;
        assert_eq!(run(&dir, ["ls", &file]).quietly().out, new_keys, "{name}");
        let cat = |path: &Path| {
            run(&dir, ["cat".as_ref(), "--jsonl".as_ref(), path.as_os_str()]).exits(0).out
        };
        assert!(cat(&data) == cat(&python), "{name}");

        run(&dir, ["index", &file]).exits(0);
        for suffix in [".offsets", ".keys", ".key_hashes", ".filter"] {
            let expected = fs::read(golden_dir().join(format!("{file}{suffix}"))).unwrap();
            let found = fs::read(dir.path().join(format!("{file}{suffix}"))).unwrap();
            assert!(expected == found, "{file}{suffix}");
        }
        let md5 = fs::read_to_string(dir.path().join(format!("{file}.md5"))).unwrap();
        assert_eq!(md5, legacy["convert_index"]["md5_file_text_after"].as_str().unwrap());
        run(&dir, ["verify", "--deep", &file]).quietly();
    }
}
