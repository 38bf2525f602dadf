//! `convert` from files of images: folders, patterns, lists and zip archives.

use std::io::Write as _;

use serde_json::json;

use super::*;

/// Files of these names, each of which holds its own name, in a folder `photos`.
fn with_photos(names: &[&str]) -> TempDir {
    let dir = scratch();
    for name in names {
        let path = dir.path().join("photos").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    dir
}

const PHOTOS: [&str; 6] =
    ["cat/1.jpg", "cat/10.jpg", "cat/2.PNG", "cat-b/deep/1.jpg", "dog/1.jpg", "dog/notes.txt"];

/// Key, label and image of all samples that these arguments make.
#[track_caller]
fn made(dir: &TempDir, args: &[&str]) -> Vec<(String, Json, String)> {
    let args = [&["convert"], args, &["made.msgpack", "--force"]].concat();
    run(dir, args).exits(0);
    run(dir, ["verify", "--deep", "made.msgpack"]).quietly();
    let samples = kiste::DatasetReader::open(dir.path().join("made.msgpack")).unwrap();
    let sample = |index| {
        let sample = kiste::Reader::get(&samples, index).unwrap();
        let image = match sample["image"].as_slice() {
            Some(image) => String::from_utf8(image.to_vec()).unwrap(),
            None => sample["text"].as_str().unwrap().to_owned(),
        };
        let label = serde_json::to_value(&sample["label"]).unwrap();
        (sample["key"].as_str().unwrap().to_owned(), label, image)
    };
    (0..kiste::Reader::len(&samples)).map(sample).collect()
}

fn labels(dir: &TempDir) -> String {
    fs::read_to_string(dir.path().join("made.msgpack.labels")).unwrap_or_default()
}

fn keys(made: &[(String, Json, String)]) -> Vec<&str> {
    made.iter().map(|(key, ..)| &**key).collect()
}

#[test]
fn folders_are_labels() {
    let dir = with_photos(&PHOTOS);
    fs::create_dir(dir.path().join("photos/cow")).unwrap();
    let found = made(&dir, &["photos"]);
    let keys: Vec<(&str, u64)> =
        found.iter().map(|(key, label, _)| (&**key, label.as_u64().unwrap())).collect();
    // The folder without images has its number too.
    let expected = [
        ("cat/1.jpg", 0),
        ("cat/2.PNG", 0),
        ("cat/10.jpg", 0),
        ("cat-b/deep/1.jpg", 1),
        ("dog/1.jpg", 3),
    ];
    assert_eq!(keys, expected);
    assert!(found.iter().all(|(key, _, image)| key == image));
    assert_eq!(labels(&dir), "cat\ncat-b\ncow\ndog\n");
}

/// Links that would lead round and round are passed over, others are followed.
#[cfg(unix)]
#[test]
fn links_to_folders_come_to_an_end() {
    use std::os::unix::fs::symlink;

    let dir = with_photos(&["cat/1.jpg", "dog/deep/2.jpg"]);
    let link = |target: &str, name: &str| {
        symlink(target, dir.path().join("photos").join(name)).unwrap();
    };
    link("..", "cat/up");
    link(".", "all");
    link("../dog", "cat/dog");
    link("../../cat", "dog/deep/cat");
    let expected = ["cat/1.jpg", "cat/dog/deep/2.jpg", "dog/deep/2.jpg", "dog/deep/cat/1.jpg"];
    assert_eq!(keys(&made(&dir, &["photos"])), expected);
    assert_eq!(labels(&dir), "all\ncat\ndog\n");
}

#[test]
fn a_folder_without_folders_has_no_labels() {
    let dir = with_photos(&["2.jpg", "10.jpg", "notes.txt"]);
    let found = made(&dir, &["photos"]);
    assert_eq!(keys(&found), ["2.jpg", "10.jpg"]);
    assert!(found.iter().all(|(_, label, _)| label.is_null()));
    assert!(!dir.path().join("made.msgpack.labels").exists());
    let failed = run(&dir, ["convert", "photos", "x.msgpack", "--exclude", "*"]);
    failed.fails(2, "expected folders of images");
}

/// What is left out for want of a label is not left out in silence.
#[test]
fn images_beside_the_folders_of_labels_are_counted() {
    let names = ["cat/1.jpg", "cat/notes.txt", "2.jpg", "3.png", "README"];
    let dir = with_photos(&names);
    zip(&dir.path().join("photos.zip"), &names);
    for (source, more, skipped) in [
        ("photos", &[][..], "3 files"),
        ("photos.zip", &[], "3 files"),
        ("photos", &["--exclude", "2.*"], "2 files"),
        ("photos.zip", &["--exclude", "2.*"], "2 files"),
    ] {
        assert_eq!(keys(&made(&dir, &[&[source], more].concat())), ["cat/1.jpg"]);
        let args = [&["convert", source, "again.msgpack", "--force"], more].concat();
        let stderr = run(&dir, args).exits(0).err;
        let expected = format!(
            "skipped {skipped}: not named like images, outside of the folders of labels, or"
        );
        assert!(stderr.contains(&expected), "{source} {more:?}: {stderr}");
    }
}

#[test]
fn more_files_than_a_unit_has_keep_their_order() {
    let names: Vec<String> = (0..700).map(|n| format!("a/{n}.jpg")).collect();
    let dir = with_photos(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let found = made(&dir, &["photos"]);
    assert_eq!(keys(&found), names);
    assert!(found.iter().all(|(key, _, image)| key == image));
}

#[test]
fn patterns_say_where_the_label_is() {
    let dir = with_photos(&PHOTOS);
    let all = ["cat/1.jpg", "cat/2.PNG", "cat/10.jpg", "cat-b/deep/1.jpg", "dog/1.jpg"];
    for args in [&["photos/{LABEL}/**"][..], &["photos", "--pattern", "{LABEL}/**"]] {
        let found = made(&dir, args);
        let mut keys = keys(&found);
        keys.sort();
        let mut all = all;
        all.sort();
        assert_eq!(keys, all, "{args:?}");
        assert_eq!(labels(&dir), "cat\ncat-b\ndog\n");
    }
    let table: [(&[&str], &[&str]); 6] = [
        // What is named is taken, image or not.
        (&["photos/{LABEL}/*.txt"], &["dog/notes.txt"]),
        (&["photos/{LABEL}/*.{jpg,txt}", "--include", "dog/*"], &[]),
        (&["photos", "--include", "dog/*"], &["dog/1.jpg", "dog/notes.txt"]),
        (&["photos", "--exclude", "cat*"], &["dog/1.jpg"]),
        (&["photos/{LABEL}/deep/*"], &["cat-b/deep/1.jpg"]),
        (&["photos/*/1.jpg"], &["photos/cat/1.jpg", "photos/dog/1.jpg"]),
    ];
    for (args, expected) in table {
        if expected.is_empty() {
            let args = [&["convert"], args, &["x.msgpack"]].concat();
            run(&dir, args).fails(2, "expected images, found none");
            continue;
        }
        assert_eq!(keys(&made(&dir, args)), expected, "{args:?}");
    }
    run(&dir, ["convert", "photos/x{LABEL}/*", "x.msgpack"]).fails(2, "as a whole component");
}

#[test]
fn labels_are_given_or_texts() {
    let dir = with_photos(&PHOTOS);
    fs::write(dir.path().join("names"), "dog\ncat\ncat-b\nelephant\n").unwrap();
    let found = made(&dir, &["photos", "--labels", "names"]);
    assert_eq!(found[0].1, json!(1));
    assert_eq!(found[4].1, json!(0));
    assert_eq!(labels(&dir), "dog\ncat\ncat-b\nelephant\n");
    let found = made(&dir, &["photos", "--text-labels"]);
    assert_eq!(found[3].1, json!("cat-b"));
    assert_eq!(labels(&dir), "");
    fs::write(dir.path().join("names"), "dog\n").unwrap();
    let failed = run(&dir, ["convert", "photos", "x.msgpack", "--labels", "names"]);
    failed.fails(2, "the label \"cat\" is not one of the given labels");
}

#[test]
fn lists_have_paths_labels_and_columns() {
    let dir = with_photos(&PHOTOS);
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    // Without names of columns: path, label, and the rest.
    write("a.tsv", "dog/1.jpg\tcanis\tbig\ncat/1.jpg\tfelis\tsmall, \"quick\"\n");
    let list = ["a.tsv", "--from", "list", "--root", "photos"];
    let found = made(&dir, &list);
    assert_eq!(keys(&found), ["dog/1.jpg", "cat/1.jpg"]);
    assert_eq!(labels(&dir), "canis\nfelis\n");
    let sample = run(&dir, ["get", "made.msgpack", "cat/1.jpg", "--field", "column3"]).quietly();
    assert!(sample.out.contains("small"), "{sample:?}");
    // With names, in any order, and a root where SRC is; a column "key" is kept as one.
    write("photos/b.csv", "key,label,file_name\n7,x,dog/1.jpg\n8,y,\"cat/1.jpg\"\n");
    let found = made(&dir, &["photos/b.csv", "--from", "list"]);
    assert_eq!(keys(&found), ["dog/1.jpg", "cat/1.jpg"]);
    let sample = run(&dir, ["cat", "--jsonl", "made.msgpack"]).quietly().jsonl();
    assert_eq!((&sample[1]["_key"], &sample[1]["label"]), (&json!("8"), &json!(1)));
    // The options say otherwise.
    write("c.csv", "dog/1.jpg\n");
    let found = made(&dir, &["c.csv", "--root", "photos", "--header", "no"]);
    assert_eq!((&*found[0].0, &found[0].1), ("dog/1.jpg", &Json::Null));
    write("d.csv", "path,label\ngone.jpg,x\n");
    let table: [(&[&str], &str); 7] = [
        (&["d.csv", "--root", "photos"], "photos/gone.jpg: "),
        (&["c.csv", "--from", "list", "--header", "yes"], "expected a column path"),
        (&["photos", "--root", "photos"], "--root is for list, but this is images"),
        (&["photos", "--header", "no"], "--header is for list, but this is images"),
        (&["d.csv", "--labels", "x"], "--labels is for images and list, but this is csv"),
        (&["d.csv", "--root", "photos", "--pattern", "x"], "--pattern is for images"),
        (&["photos/{LABEL}/*", "--pattern", "x"], "the source is a pattern too"),
    ];
    for (args, says) in table {
        run(&dir, [&["convert"], args, &["x.msgpack"]].concat()).fails(2, says);
        assert!(!dir.path().join("x.msgpack").exists());
    }
    write("e.csv", "path\ndog/1.jpg\ncat/1.jpg\ndog/1.jpg\n");
    run(&dir, ["convert", "e.csv", "x.msgpack", "--root", "photos"]).fails(2, "is listed twice");
    write("f.csv", "path,label\ndog/1.jpg\n");
    run(&dir, ["convert", "f.csv", "x.msgpack", "--root", "photos"]).fails(1, "f.csv: ");
}

/// A zip archive of these files, which hold their names.
fn zip(path: &Path, names: &[&str]) {
    let mut zip = zip::ZipWriter::new(fs::File::create(path).unwrap());
    for name in names {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(name.as_bytes()).unwrap();
    }
    zip.finish().unwrap();
}

#[test]
fn archives_are_like_folders() {
    let dir = with_photos(&PHOTOS);
    let within = |prefix: &str| {
        let names: Vec<String> = PHOTOS.iter().map(|name| format!("{prefix}{name}")).collect();
        zip(&dir.path().join("p.zip"), &names.iter().map(String::as_str).collect::<Vec<_>>());
    };
    let images =
        ["cat/1.jpg", "cat/10.jpg", "cat/2.PNG", "cat-b/deep/1.jpg", "dog/1.jpg"].as_slice();
    for prefix in ["", "photos/", "a/b/"] {
        within(prefix);
        let found = made(&dir, &["p.zip"]);
        assert_eq!(keys(&found), images, "{prefix}");
        assert!(found.iter().all(|(key, _, image)| *image == format!("{prefix}{key}")));
        assert_eq!(labels(&dir), "cat\ncat-b\ndog\n");
    }
    let found = made(&dir, &["p.zip", "--pattern", "a/b/{LABEL}/*.txt"]);
    assert_eq!(keys(&found), ["dog/notes.txt"]);
    let found = made(&dir, &["p.zip", "--include", "*/dog/*", "--text-labels"]);
    assert_eq!(keys(&found), ["dog/1.jpg", "dog/notes.txt"]);
    assert_eq!(found[0].1, json!("dog"));
    zip(&dir.path().join("p.zip"), &["2.jpg", "1.jpg", "__MACOSX/._2.jpg"]);
    let found = made(&dir, &["p.zip"]);
    assert_eq!(keys(&found), ["2.jpg", "1.jpg"]);
    run(&dir, ["convert", "p.zip", "x.msgpack", "--max-file", "4"])
        .fails(2, "expected at most 4 bytes, found 5");
    run(&dir, ["convert", "p.zip", "x.msgpack", "--exclude", "*"]).fails(2, "found none");
}

#[test]
fn an_archive_whose_files_share_bytes_is_refused() {
    let dir = scratch();
    let path = dir.path().join("p.zip");
    let image = vec![7; 5000];
    let mut zip = zip::ZipWriter::new(fs::File::create(&path).unwrap());
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for name in ["a.jpg", "b.jpg"] {
        zip.start_file(name, stored).unwrap();
        zip.write_all(&image).unwrap();
    }
    zip.finish().unwrap();
    // The second entry of the directory says that its file is where the first one is.
    let mut bytes = fs::read(&path).unwrap();
    let entries: Vec<usize> =
        (0..bytes.len() - 4).filter(|&at| bytes[at..].starts_with(b"PK\x01\x02")).collect();
    bytes.copy_within(entries[0] + 42..entries[0] + 46, entries[1] + 42);
    // And the bytes of the second file are not there at all.
    let second = 30 + 5 + image.len();
    bytes.drain(second..entries[0]);
    let at = bytes.len() - 22 + 16;
    bytes[at..at + 4].copy_from_slice(&(second as u32).to_le_bytes());
    fs::write(&path, bytes).unwrap();
    run(&dir, ["convert", "p.zip", "x.msgpack"]).fails(1, "expected files that share no bytes");
    assert!(!dir.path().join("x.msgpack").exists());
}

/// What `made` made, but for the images.
fn without_images(dir: &TempDir) -> Vec<Json> {
    let out = run(dir, ["cat", "--jsonl", "made.msgpack"]).quietly().out;
    let sample = |line: &str| {
        let mut sample: Json = serde_json::from_str(line).unwrap();
        sample.as_object_mut().unwrap().remove("image").unwrap();
        sample
    };
    out.lines().map(sample).collect()
}

/// As Hugging Face's `imagefolder` has them: what is known of images is beside them.
#[test]
fn metadata_beside_the_images_says_what_they_are() {
    let dir =
        with_photos(&["b.jpg", "a.jpg", "sub/c.png", "sub/deep/d.png", "sub/none.png", "x.txt"]);
    let put = |name: &str, text: &str| fs::write(dir.path().join("photos").join(name), text);
    put(
        "metadata.jsonl",
        "{\"file_name\":\"b.jpg\",\"text\":\"one\",\"label\":\"dog\"}\n\n\
         {\"n\":[1,null],\"label\":\"cat\",\"file_name\":\"./a.jpg\",\"key\":\"A\"}\n",
    )
    .unwrap();
    put(
        "sub/metadata.jsonl",
        "{\"file_name\":\"deep/d.png\",\"key\":7}\n{\"file_name\":\"c.png\"}",
    )
    .unwrap();
    let done = run(&dir, ["convert", "photos", "made.msgpack"]).exits(0);
    assert!(done.err.contains("skipped 1 file: "), "{done:?}");
    let expected = [
        json!({"key": "b.jpg", "text": "one", "label": 1}),
        json!({"key": "A", "n": [1, null], "label": 0}),
        json!({"key": "sub/deep/d.png", "_key": 7}),
        json!({"key": "sub/c.png"}),
    ];
    assert_eq!(without_images(&dir), expected);
    let images: Vec<String> =
        made(&dir, &["photos"]).into_iter().map(|(_, _, image)| image).collect();
    assert_eq!(images, ["b.jpg", "a.jpg", "sub/deep/d.png", "sub/c.png"]);
    assert_eq!(labels(&dir), "cat\ndog\n");
    let args = ["convert", "photos", "made.msgpack", "--force", "--text-labels"];
    run(&dir, args).exits(0);
    assert!(
        run(&dir, ["cat", "--jsonl", "made.msgpack"]).quietly().out.contains("\"label\":\"cat\"")
    );

    fs::remove_file(dir.path().join("photos/sub/metadata.jsonl")).unwrap();
    for (name, text, says) in [
        ("metadata.jsonl", "{\"x\":1}", "line 1: expected a column \"file_name\""),
        ("metadata.jsonl", "{\"file_name\":1}", "expected a column \"file_name\""),
        ("metadata.jsonl", "\n[1]", "line 2: expected a row with names"),
        ("metadata.jsonl", "{\"file_name\":\"a.jpg\"}\n{", "metadata.jsonl: line 2: "),
        ("metadata.jsonl", "{\"file_name\":\"a.jpg\",\"image\":1}", "found \"image\" twice"),
        ("metadata.jsonl", "{\"file_name\":\"a.jpg\",\"b_file_name\":\"b.jpg\"}", "one image"),
        ("metadata.jsonl", "{\"file_name\":\"../../etc/passwd\"}", "a file in this folder"),
        ("metadata.jsonl", "{\"file_name\":\"/etc/passwd\"}", "a file in this folder"),
        ("metadata.jsonl", "{\"file_name\":\"file:///etc/passwd\"}", "a file in this folder"),
        ("metadata.jsonl", "{\"file_name\":\"a\\\\..\\\\..\\\\b\"}", "a file in this folder"),
        ("metadata.jsonl", "{\"file_name\":\"gone.jpg\"}", "gone.jpg: listed in line 1: "),
        (
            "metadata.jsonl",
            "{\"file_name\":\"a.jpg\",\"label\":\"x\"}\n{\"file_name\":\"b.jpg\",\"label\":1}",
            "line 2: expected a label that is a name as before, found a number",
        ),
        ("metadata.csv", "file_name\na.jpg\n", "metadata.jsonl as well"),
    ] {
        put(name, text).unwrap();
        run(&dir, ["convert", "photos", "no.msgpack"]).fails(2, says);
    }
    // Columns of numbers in CSV are such, and nothing is nil.
    fs::remove_file(dir.path().join("photos/metadata.jsonl")).unwrap();
    put("metadata.csv", "file_name,key,n,text\nsub/c.png,007,1,x\na.jpg,8,,\"y, z\"\n").unwrap();
    run(&dir, ["convert", "photos", "made.msgpack", "--force"]).exits(0);
    let expected = [
        json!({"key": "007", "n": 1, "text": "x"}),
        json!({"key": "8", "n": null, "text": "y, z"}),
    ];
    assert_eq!(without_images(&dir), expected);
    // A table of CSV is read in ranges of 4 MiB.
    let long = "x".repeat(2 << 20);
    let rows: String = (0..5).map(|n| format!("a.jpg,{n},{long}\n")).collect();
    put("metadata.csv", &format!("file_name,key,text\n{rows}")).unwrap();
    run(&dir, ["convert", "photos", "made.msgpack", "--force"]).exits(0);
    let keys: Vec<Json> = without_images(&dir).into_iter().map(|row| row["key"].clone()).collect();
    assert_eq!(keys, ["0", "1", "2", "3", "4"]);
}

/// One name that cannot be a key does not end a folder of a million.
#[cfg(unix)]
#[test]
fn names_that_are_not_utf8_are_bad_input() {
    use std::os::unix::ffi::OsStrExt;

    let odd = ["cat/a b.jpg", "cat/line\nend.jpg", "cat/ü.jpg", "cat/.hidden.jpg", ".git/x.jpg"];
    let dir = with_photos(&odd);
    let at = |name: &[u8]| dir.path().join("photos").join(OsStr::from_bytes(name));
    fs::write(at(b"cat/\xff.jpg"), "image").unwrap();
    fs::write(at(b"cat/\xff.txt"), "text").unwrap();
    fs::create_dir(at(b"\xfe")).unwrap();
    fs::write(at(b"\xfe/1.jpg"), "image").unwrap();
    let failed = run(&dir, ["convert", "photos", "p.msgpack"]).fails(2, "expected a name in UTF-8");
    assert!(failed.err.contains("photos/cat/\u{fffd}.jpg: "), "{failed:?}");
    assert!(failed.err.contains("hint: --bad skip"), "{failed:?}");

    let args = ["convert", "photos", "p.msgpack", "--bad", "quarantine"];
    let made = run(&dir, args).exits(1);
    assert!(made.err.contains("left out 2 bad samples"), "{made:?}");
    assert!(made.err.contains("skipped 1 file"), "{made:?}");
    let aside = fs::read_to_string(dir.path().join("p.msgpack.quarantine.jsonl")).unwrap();
    assert_eq!(aside.lines().count(), 2);
    let keys = run(&dir, ["ls", "p.msgpack"]).quietly().out;
    assert_eq!(keys, "cat/a b.jpg\ncat/line\nend.jpg\ncat/ü.jpg\n");
    let args = ["convert", "photos/{LABEL}/**", "r.msgpack", "--bad", "skip"];
    let made = run(&dir, args).exits(1);
    assert!(made.err.contains("left out 2 bad samples"), "{made:?}");
    assert_eq!(run(&dir, ["ls", "r.msgpack"]).quietly().out, keys);
    // Parts agree on it, and only one has the bad names.
    for part in ["2/2", "1/2"] {
        let part = ["convert", "photos", "q.msgpack", "--bad", "skip", "--part", part];
        run(&dir, part).exits(0);
    }
    run(&dir, ["commit", "q.msgpack"]).exits(1);
    let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert_eq!(bytes("p.msgpack"), bytes("q.msgpack"));
}

#[test]
fn hidden_files_are_left_out_of_folders_and_archives_alike() {
    let all = ["cat/1.jpg", "cat/.2.jpg", ".trash/3.jpg", "dog/.deep/4.jpg", "dog/5.jpg"];
    let dir = with_photos(&all);
    zip(&dir.path().join("photos.zip"), &all);
    let keys = |samples: Vec<(String, Json, String)>| {
        samples.into_iter().map(|(key, _, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(keys(made(&dir, &["photos"])), ["cat/1.jpg", "dog/5.jpg"]);
    assert_eq!(keys(made(&dir, &["photos.zip"])), ["cat/1.jpg", "dog/5.jpg"]);
    // As on disk, who names a dot means it.
    assert_eq!(keys(made(&dir, &["photos.zip", "--pattern", "{LABEL}/.2*"])), ["cat/.2.jpg"]);
    assert_eq!(keys(made(&dir, &["photos/{LABEL}/.*"])), ["cat/.2.jpg"]);
}

#[test]
fn a_folder_of_other_files_says_how_to_take_them() {
    let dir = with_photos(&["cat/1.exr", "cat/2.exr", "dog/3.exr"]);
    let says = "photos: expected folders of images ({label}/name.ext), found 3 other files such as";
    let failed = run(&dir, ["convert", "photos", "p.msgpack"]).fails(2, says);
    assert!(failed.err.contains("hint: --include '*.exr' takes them"), "{failed:?}");
    let args = ["convert", "photos", "p.msgpack", "--include", "*.exr", "--rename", "image=depth"];
    run(&dir, args).exits(0);
    assert_eq!(run(&dir, ["ls", "p.msgpack"]).quietly().out, "cat/1.exr\ncat/2.exr\ndog/3.exr\n");

    // There is nothing whose labels could be compared.
    let failed = run(&dir, ["convert", "photos", "new.msgpack", "--include", "*", "--append"]);
    let failed = failed.fails(2, "new.msgpack: ");
    assert!(
        !failed.err.contains(".labels") && failed.err.contains("without --append"),
        "{failed:?}"
    );
}

/// The smallest PNG.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\0IEND\xae\x42\x60\x82";

/// Files of these names, each of which is an image.
fn with_images(names: &[&str]) -> TempDir {
    let dir = scratch();
    for name in names {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, PNG).unwrap();
    }
    dir
}

/// What a conversion with these arguments says.
#[track_caller]
fn said(dir: &TempDir, args: &[&str]) -> String {
    run(dir, [&["convert"], args, &["new.msgpack", "--force"]].concat()).exits(0).err
}

#[test]
fn labels_that_are_numbers_stay_or_are_said_to_change() {
    let dir = with_images(&["a.png", "b.png"]);
    fs::write(dir.path().join("val.csv"), "path,label\na.png,3\nb.png,10\n").unwrap();
    let labels = |more: &[&str]| {
        let said = said(&dir, &[&["val.csv", "--from", "list"], more].concat());
        let samples = run(&dir, ["cat", "new.msgpack", "--jsonl"]).quietly().jsonl();
        (samples.iter().map(|sample| sample["label"].clone()).collect::<Vec<_>>(), said)
    };
    let (found, said) = labels(&[]);
    assert_eq!(found, [0, 1]);
    let expected = "2 labels that are numbers replaced by their places in order, first: \"3\" is 0";
    assert!(said.contains(expected), "{said}");
    let (found, said) = labels(&["--guess-types"]);
    assert_eq!(found, [3, 10]);
    assert!(!said.contains("warning") && !dir.path().join("new.msgpack.labels").exists(), "{said}");
    // A file says what each number means.
    fs::write(dir.path().join("names"), "10\n3\n").unwrap();
    let (found, said) = labels(&["--labels", "names", "--guess-types"]);
    assert_eq!(found, [1, 0]);
    assert!(!said.contains("warning"), "{said}");
}

#[test]
fn folders_that_may_be_no_labels_are_named() {
    let dir = with_images(&["p/cat/0.png", "p/plane/0.png", "p/train/0.png"]);
    fs::create_dir(dir.path().join("p/docs")).unwrap();
    let found = said(&dir, &["p"]);
    assert!(
        found.contains("1 folder without images read as labels, first: p/docs is label 1"),
        "{found}"
    );
    assert!(!found.contains("splits"), "a vehicle: {found}");
    // A filter does not make a folder empty.
    let found = said(&dir, &["p", "--exclude", "cat/*", "--exclude", "docs/*"]);
    assert!(!found.contains("2 folders"), "{found}");
    let dir = with_images(&["p/caf\u{e9}/0.png", "p/cafe\u{301}/1.png"]);
    let found = said(&dir, &["p"]);
    assert!(
        found.contains("1 label that looks like another one read as the same label"),
        "{found}"
    );
    assert!(found.contains("\"caf\\u{e9}\""), "{found}");
}

/// Downloads that failed, and copies that were cut short.
#[test]
fn files_that_are_hardly_images_are_counted() {
    let dir =
        with_images(&["p/cat/good.png", "p/cat/empty.jpg", "p/cat/html.jpg", "p/cat/cut.png"]);
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    write("p/cat/empty.jpg", b"");
    write("p/cat/html.jpg", b"<!DOCTYPE html><html>not found</html>");
    write("p/cat/cut.png", &PNG[..14]);
    write("list.csv", b"path\np/cat/empty.jpg\np/cat/html.jpg\np/cat/cut.png\n");
    for source in [&["p"][..], &["list.csv", "--from", "list"], &["p/{LABEL}/*"]] {
        let found = said(&dir, source);
        for expected in [
            "1 empty image kept, first: p/cat/empty.jpg",
            "1 image that does not begin as one kept, first: p/cat/html.jpg",
            "1 image that is cut off kept, first: p/cat/cut.png",
        ] {
            assert!(found.contains(expected), "{source:?}: {found}");
        }
    }
    // Other files than images are what they are.
    write("p/cat/x.wav", b"RIFF");
    assert!(!said(&dir, &["p", "--include", "*.wav"]).contains("warning"));
}

/// As PowerShell 5 writes archives.
#[test]
fn backslashes_of_an_archive_are_slashes() {
    let dir = with_images(&[]);
    zip_of(&dir.path().join("w.zip"), &[("cat\\0.png", PNG), ("dog\\0.png", PNG)]);
    let found = said(&dir, &["w.zip"]);
    assert!(found.contains("2 names with backslashes in an archive"), "{found}");
    assert_eq!(run(&dir, ["ls", "new.msgpack"]).quietly().out, "cat/0.png\ndog/0.png\n");
    assert_eq!(fs::read_to_string(dir.path().join("new.msgpack.labels")).unwrap(), "cat\ndog\n");
    // Next to slashes they are characters like others.
    zip_of(&dir.path().join("u.zip"), &[("cat/a\\0.png", PNG), ("cat/1.png", PNG)]);
    assert!(!said(&dir, &["u.zip"]).contains("backslash"));
    assert_eq!(run(&dir, ["ls", "new.msgpack"]).quietly().out, "cat/a\\0.png\ncat/1.png\n");
}

/// A zip archive of these files.
fn zip_of(path: &Path, files: &[(&str, &[u8])]) {
    let mut zip = zip::ZipWriter::new(fs::File::create(path).unwrap());
    for (name, content) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap();
}

#[test]
fn metadata_in_an_archive_says_what_it_says_in_a_folder() {
    let rows = "file_name,text,label\nsub/1.png,a drawing,7\n0.png,a photo,8\n";
    let lines = "{\"file_name\":\"0.png\",\"key\":\"A\",\"label\":\"dog\"}\n{\"file_name\":\"sub/1.png\"}\n";
    for (name, metadata) in [("metadata.csv", rows), ("metadata.jsonl", lines)] {
        for folder in ["", "photos/"] {
            let dir = with_images(&["p/0.png", "p/sub/1.png", "p/2.png"]);
            fs::write(dir.path().join("p").join(name), metadata).unwrap();
            let names = ["0.png", "sub/1.png", "2.png"].map(|name| format!("{folder}{name}"));
            let listed = format!("{folder}{name}");
            let mut files: Vec<(&str, &[u8])> = names.iter().map(|name| (&**name, PNG)).collect();
            files.push((&listed, metadata.as_bytes()));
            zip_of(&dir.path().join("p.zip"), &files);
            let samples = |source: &str| {
                let said = said(&dir, &[source]);
                assert!(said.contains("skipped 1 file"), "{source}: {said}");
                run(&dir, ["cat", "new.msgpack", "--jsonl"]).quietly().jsonl()
            };
            let expected = samples("p");
            assert_eq!(expected.len(), 2);
            assert_eq!(samples("p.zip"), expected, "{name} in {folder:?}");
        }
    }
    let dir = with_images(&[]);
    let gone = b"file_name\ngone.png\n";
    zip_of(&dir.path().join("p.zip"), &[("0.png", PNG), ("metadata.csv", gone)]);
    run(&dir, ["convert", "p.zip", "x.msgpack"]).fails(2, "listed in row 1: expected \"gone.png\"");
    // Who does not want it says so, as with a folder.
    said(&dir, &["p.zip", "--exclude", "metadata.csv"]);
    assert_eq!(run(&dir, ["ls", "new.msgpack"]).quietly().out, "0.png\n");
}

/// Two images of one name once the ending says what they are.
#[test]
fn images_of_one_name_are_told_apart_by_their_keys() {
    let dir = with_images(&["d/x/a.png", "d/x/a.jpg"]);
    run(&dir, ["convert", "d", "s.msgpack"]).exits(0);
    let says = "another sample has the file \"x/a.png\" already; its key is \"x/a.jpg\"";
    let failed = run(&dir, ["convert", "s.msgpack", "out", "--to", "images"]).fails(2, says);
    assert!(failed.err.contains("key \"x/a.png\""), "{failed:?}");
    assert!(failed.err.contains("hint: --key-field makes another field the key"), "{failed:?}");
    assert!(!failed.err.contains("os error"), "{failed:?}");
    let args = ["convert", "s.msgpack", "out", "--to", "images", "--key", "{key}.png"];
    run(&dir, args).exits(0);
    assert!(dir.path().join("out/x/a.jpg.png").is_file());
}
