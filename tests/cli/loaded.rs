//! `convert --load`: tables whose fields name files.

use super::layouts::{samples, with_files};
use super::*;
use base64::Engine as _;

const FILES: [(&str, &[u8]); 4] = [
    ("media/a.jpg", b"picture a"),
    ("media/deep/b.jpg", b"picture b"),
    ("media/a.wav", b"sound a"),
    ("elsewhere.jpg", b"outside"),
];

fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// The folder of the table is the root, in every format of tables.
#[test]
fn tables_of_all_formats_bring_their_files() {
    let dir = with_files(&FILES);
    let rows = "{\"id\":\"x\",\"image\":\"a.jpg\",\"audio\":\"a.wav\"}\n{\"id\":\"y\",\"image\":\"deep/b.jpg\",\"audio\":\"a.wav\"}\n";
    let array = format!("[{}]", rows.trim_end().replace('\n', ",\n"));
    let at = |name: &str| dir.path().join(name);
    fs::write(at("media/t.jsonl"), rows).unwrap();
    fs::write(at("media/t.json"), array).unwrap();
    fs::write(at("media/t.csv"), "id,image,audio\nx,a.jpg,a.wav\ny,deep/b.jpg,a.wav\n").unwrap();
    fs::write(at("media/t.tsv"), "id\timage\taudio\nx\ta.jpg\ta.wav\ny\tdeep/b.jpg\ta.wav\n")
        .unwrap();
    run(&dir, ["convert", "media/t.jsonl", "media/t.msgpack"]).exits(0);
    run(&dir, ["convert", "media/t.jsonl", "media/t.tar"]).exits(0);
    let mut sources = vec!["t.jsonl", "t.json", "t.csv", "t.tsv", "t.msgpack"];
    if cfg!(feature = "parquet") {
        run(&dir, ["convert", "media/t.jsonl", "media/t.parquet"]).exits(0);
        run(&dir, ["convert", "media/t.jsonl", "media/t.arrow"]).exits(0);
        sources.extend(["t.parquet", "t.arrow"]);
    }
    for source in sources {
        let source = format!("media/{source}");
        run(
            &dir,
            ["convert", &source, "out.msgpack", "-f", "--load", "image,audio", "--key-field", "id"],
        )
        .exits(0);
        let all = samples(&dir, "out.msgpack");
        let b64 = |bytes: &[u8]| serde_json::json!({"$bin": base64(bytes)});
        assert_eq!(all[0]["key"], "x", "{source}");
        assert_eq!(all[0]["image"], b64(b"picture a"), "{source}");
        assert_eq!(all[1]["image"], b64(b"picture b"), "{source}");
        assert_eq!(all[1]["audio"], b64(b"sound a"), "{source}");
        run(&dir, ["convert", &source, "out.msgpack", "-f", "--load", "image", "--root", "media"])
            .exits(0);
    }
}

/// Keys can be made of the paths; fields that are renamed are named as in the source.
#[test]
fn keys_are_made_of_paths() {
    let dir = with_files(&FILES);
    fs::write(dir.path().join("t.jsonl"), "{\"file\":\"a.jpg\"}\n{\"file\":\"deep/b.jpg\"}\n")
        .unwrap();
    let common =
        ["convert", "t.jsonl", "--load", "file", "--root", "media", "--rename", "file=image"];
    for (name, option, value, keys) in [
        ("one", "--key-field", "file", ["a.jpg", "deep/b.jpg"]),
        ("two", "--key", "p/{file}", ["p/a.jpg", "p/deep/b.jpg"]),
    ] {
        run(&dir, common.iter().chain(&[option, value, "-o", &format!("{name}.msgpack")])).exits(0);
        let all = samples(&dir, &format!("{name}.msgpack"));
        assert_eq!([&all[0]["key"], &all[1]["key"]], keys);
        assert_eq!(all[0].as_object().unwrap().len(), 2, "{all:?}");
        assert_eq!(all[1]["image"]["$bin"], base64(b"picture b"));
    }
}

/// Lists of paths become lists; nil and missing fields stay. Everything else is refused.
#[test]
fn lists_and_missing_values() {
    let dir = with_files(&FILES);
    let write = |text: &str| fs::write(dir.path().join("media/t.jsonl"), text).unwrap();
    write(
        "{\"key\":\"0\",\"image\":[\"a.jpg\",\"deep/b.jpg\"]}\n{\"key\":\"1\",\"image\":null}\n{\"key\":\"2\"}\n{\"key\":\"3\",\"image\":[]}\n",
    );
    run(&dir, ["convert", "media/t.jsonl", "out.msgpack", "--load", "image"]).exits(0);
    let all = samples(&dir, "out.msgpack");
    assert_eq!(all[0]["image"][1]["$bin"], base64(b"picture b"));
    assert_eq!(all[1], serde_json::json!({"key": "1", "image": null}));
    assert_eq!(all[2], serde_json::json!({"key": "2"}));
    assert_eq!(all[3]["image"], serde_json::json!([]));
    for (value, found) in [
        ("\"\"", "found empty text"),
        ("3", "found another value"),
        ("{\"path\":\"a.jpg\"}", "found another value"),
        ("[\"a.jpg\",3]", "found a list with other values"),
        ("{\"$bin\":\"AAAA\"}", "found bytes, which may be its contents already"),
    ] {
        write(&format!(
            "{{\"key\":\"0\",\"image\":{value}}}\n{{\"key\":\"1\",\"image\":\"a.jpg\"}}\n"
        ));
        let failed =
            run(&dir, ["convert", "media/t.jsonl", "bad.msgpack", "-f", "--load", "image"])
                .fails(2, found);
        assert!(
            failed.err.contains("key \"0\": line 1") && failed.err.contains("field \"image\""),
            "{failed:?}"
        );
        let left = run(
            &dir,
            ["convert", "media/t.jsonl", "bad.msgpack", "--load", "image", "--bad", "skip", "-f"],
        );
        left.exits(1);
        assert_eq!(samples(&dir, "bad.msgpack").len(), 1);
    }
}

/// Files that are missing are bad input; names that lead out of the folder are refused; a typing error is found.
#[test]
fn missing_files_and_names_that_lead_out() {
    let dir = with_files(&FILES);
    let write = |text: &str| fs::write(dir.path().join("media/t.jsonl"), text).unwrap();
    write("{\"key\":\"0\",\"image\":\"none.jpg\"}\n{\"key\":\"1\",\"image\":\"a.jpg\"}\n");
    let load = |rest: &[&str]| {
        run(&dir, ["convert", "media/t.jsonl", "out.msgpack", "-f"].iter().chain(rest))
    };
    let failed =
        load(&["--load", "image"]).fails(2, "none.jpg: key \"0\": field \"image\": no such file");
    assert!(failed.err.contains("--bad skip"), "{failed:?}");
    let quarantined = load(&["--load", "image", "--bad", "quarantine"]);
    quarantined.exits(1);
    let list = fs::read_to_string(dir.path().join("out.msgpack.quarantine.jsonl")).unwrap();
    assert!(list.contains("none.jpg"), "{list}");
    for name in
        ["../elsewhere.jpg", "/etc/passwd", "http://127.0.0.1:1/x", "deep/../../elsewhere.jpg"]
    {
        write(&format!("{{\"key\":\"0\",\"image\":{name:?}}}\n"));
        let failed =
            load(&["--load", "image"]).fails(2, "expected the path of a file in this folder");
        assert!(failed.err.contains("--allow-outside"), "{failed:?}");
    }
    write("{\"key\":\"0\",\"image\":\"../elsewhere.jpg\"}\n");
    load(&["--load", "image", "--allow-outside"]).exits(0);
    assert_eq!(samples(&dir, "out.msgpack")[0]["image"]["$bin"], base64(b"outside"));
    load(&["--load", "imgae"]).fails(2, "no sample has a field \"imgae\"");
    for (rest, said) in [
        (&["--load", "key"][..], "the key or is left out"),
        (&["--load", "image", "--drop", "image"], "the key or is left out"),
        (&["--load", "image", "--fields", "key"], "the key or is left out"),
        (&["--load", "image", "--root", "media", "--max-bytes", "3"], "at most 3 bytes"),
    ] {
        write("{\"key\":\"0\",\"image\":\"a.jpg\"}\n");
        load(rest).fails(2, said);
    }
}

/// Standard input has the working directory; parts and one run have the same bytes.
#[test]
fn pipes_and_parts() {
    let dir = with_files(&FILES);
    let rows: String = (0..50)
        .map(|n| {
            format!("{{\"key\":\"{n}\",\"image\":\"media/{}\"}}\n", ["a.jpg", "deep/b.jpg"][n % 2])
        })
        .collect();
    fs::write(dir.path().join("t.jsonl"), &rows).unwrap();
    run_with(&dir, ["convert", "-", "piped.msgpack", "--load", "image"], rows.as_bytes()).exits(0);
    run(&dir, ["convert", "t.jsonl", "one.msgpack", "--load", "image"]).exits(0);
    for part in ["1/3", "2/3", "3/3"] {
        run(&dir, ["convert", "t.jsonl", "all.msgpack", "--load", "image", "--part", part])
            .exits(0);
    }
    run(&dir, ["commit", "all.msgpack"]).exits(0);
    let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert_eq!(bytes("piped.msgpack"), bytes("one.msgpack"));
    assert_eq!(bytes("all.msgpack"), bytes("one.msgpack"));
    let both = run_with(&dir, ["convert", "-", "t.jsonl", "x.msgpack", "--load", "image"], b"");
    assert!(both.exits(2).err.contains("--root says which folder"));
}

/// Masks are in a folder of their own or next to the images, which they are never themselves.
#[test]
fn images_get_their_masks() {
    let dir = with_files(&[
        ("d/images/a/0.jpg", b"image 0"),
        ("d/images/1.jpg", b"image 1"),
        ("d/masks/a/0.png", b"mask 0"),
        ("d/masks/1.png", b"mask 1"),
        ("e/0.jpg", b"image 0"),
        ("e/0_mask.png", b"mask 0"),
        ("e/1.jpg", b"image 1"),
        ("e/1_mask.png", b"mask 1"),
        ("e/list.csv", b"path\n0.jpg\n"),
        ("f/cat/0.jpg", b"image 0"),
        ("f/cat/0.seg.png", b"mask 0"),
    ]);
    let failed = run(&dir, ["convert", "d", "out.msgpack"])
        .fails(2, "d: has the folders images and masks, which seem to be images and their masks");
    assert!(failed.err.contains("--masks"), "{failed:?}");
    for (source, masks, expected) in [
        ("e", "*_mask.png", &[("0.jpg", "mask 0"), ("1.jpg", "mask 1")][..]),
        ("e/list.csv", "*_mask.png", &[("0.jpg", "mask 0")]),
        ("f", "*.seg.png", &[("cat/0.jpg", "mask 0")]),
        ("d/images/a", "d/masks/a/*.png", &[("0.jpg", "mask 0")]),
    ] {
        let from = if source.ends_with(".csv") { "list" } else { "images" };
        let args = ["convert", source, "out.msgpack", "-f", "--masks", masks, "--from", from];
        run(&dir, args).exits(0);
        let all = samples(&dir, "out.msgpack");
        let found: Vec<(&str, String)> = (all.iter())
            .map(|sample| {
                (
                    sample["key"].as_str().unwrap(),
                    sample["mask"]["$bin"].as_str().unwrap().to_owned(),
                )
            })
            .collect();
        let expected: Vec<(&str, String)> =
            expected.iter().map(|(key, mask)| (*key, base64(mask.as_bytes()))).collect();
        assert_eq!(found, expected, "{source}");
    }
    fs::remove_file(dir.path().join("e/1_mask.png")).unwrap();
    run(&dir, ["convert", "e", "out.msgpack", "-f", "--masks", "*_mask.png"])
        .fails(2, "1_mask.png: key \"1.jpg\": field \"mask\": no such file");
    run(&dir, ["convert", "e", "out.msgpack", "-f", "--masks", "*_mask.png", "--bad", "skip"])
        .exits(1);
    assert_eq!(samples(&dir, "out.msgpack").len(), 1);
    for (args, said) in [
        (&["e", "--masks", "masks/"][..], "--masks needs a * for the name of the image"),
        (&["e/*.jpg", "--masks", "*_mask.png"], "is for images in a folder or a list"),
        (&["e/list.csv", "--from", "csv", "--masks", "*_mask.png"], "is for images and list"),
    ] {
        run(&dir, ["convert", "-o", "x.msgpack"].iter().chain(args)).fails(2, said);
    }
}

/// Annotations of COCO as they are handed out: next to the folder of the images.
#[test]
fn coco_is_recognised() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pycocotools-2.0.11");
    let dir = scratch();
    let json = data.join("annotations/instances_val2017.json");
    let images = data.join("val2017");
    let (json, images) = (json.to_str().unwrap(), images.to_str().unwrap());
    let failed = run(&dir, ["convert", json, "out.msgpack"]).fails(2, "no such file");
    assert!(failed.err.contains("--root") && failed.err.contains("val2017"), "{failed:?}");
    run(&dir, ["convert", json, "out.msgpack", "--root", images]).exits(0);
    let all = samples(&dir, "out.msgpack");
    assert_eq!(all.len(), 6);
    run(&dir, ["convert", json, "none.msgpack", "--drop", "image,mask"]).exits(0);
    let first = samples(&dir, "none.msgpack").remove(0);
    assert_eq!(first["boxes"], all[0]["boxes"]);
    assert!(first.get("mask").is_none() && first.get("image").is_none());
}

/// All files of a sample together have the limit, and folders and pipes that a table names are bad input.
#[test]
fn samples_are_limited_and_special_files_are_bad_input() {
    let dir = with_files(&FILES);
    let write = |text: &str| fs::write(dir.path().join("media/t.jsonl"), text).unwrap();
    write(
        "{\"key\":\"0\",\"image\":[\"a.jpg\",\"deep/b.jpg\"]}\n{\"key\":\"1\",\"image\":\"deep\"}\n",
    );
    for name in ["media/a.jpg", "media/deep/b.jpg"] {
        fs::write(dir.path().join(name), [b'x'; 60]).unwrap();
    }
    let load = |rest: &[&str]| {
        let args = ["convert", "media/t.jsonl", "out.msgpack", "-f", "--load", "image"];
        run(&dir, args.iter().chain(rest))
    };
    load(&["--max-bytes", "100"])
        .fails(2, "deep/b.jpg: key \"0\": field \"image\": expected at most 40 bytes");
    load(&[])
        .fails(2, "deep: key \"1\": field \"image\": expected a regular file, found a directory");
    load(&["--bad", "skip"]).exits(1);
    assert_eq!(samples(&dir, "out.msgpack").len(), 1);
    // A list or nil is no key, and the name of no hidden field is shown.
    let failed = load(&["--bad", "stop", "--key-field", "image"]);
    assert!(
        failed.err.contains("the field \"image\" is neither text nor an integer"),
        "{failed:?}"
    );
    // What a program calls like a hidden field is refused, and without --load a field like others.
    write("{\"key\":\"0\",\"\\u0000path image\":\"x\",\"image\":\"a.jpg\"}\n");
    load(&[]).fails(2, "expected the name of another field");
    run(&dir, ["convert", "media/t.jsonl", "out.msgpack", "-f", "--rename", "image=img"]).exits(0);
    assert_eq!(samples(&dir, "out.msgpack")[0].as_object().unwrap().len(), 3);
}

/// Parts notice that a mask or an image of COCO has changed in between.
#[test]
fn parts_notice_changed_files() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pycocotools-2.0.11");
    let dir = scratch();
    for folder in ["val2017", "masks", "annotations"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
        for entry in fs::read_dir(data.join(folder)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), dir.path().join(folder).join(entry.file_name())).unwrap();
        }
    }
    for (source, options, changed) in [
        ("annotations/instances_val2017.json", ["--root", "val2017"], "val2017/000000000005.png"),
        ("val2017", ["--masks", "masks/*.png"], "masks/000000000004.png"),
    ] {
        let part = |part: &str| {
            let args = ["convert", source, "out.msgpack", "--part", part];
            run(&dir, args.iter().chain(&options))
        };
        part("1/2").exits(0);
        fs::write(dir.path().join(changed), b"another").unwrap();
        part("2/2").fails(2, "parts of another");
        fs::remove_dir_all(dir.path().join("out.msgpack.parts")).unwrap();
    }
}
