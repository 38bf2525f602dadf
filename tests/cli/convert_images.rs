//! `convert` with images changed on their way, and to folders of images and tables.

use image::{DynamicImage, ImageFormat};
use serde_json::json;

use super::*;

/// A folder `photos` with images of three formats and two labels.
fn with_photos() -> TempDir {
    let dir = scratch();
    let pixel = |x: u32, y: u32| image::Rgb([x as u8, (2 * y) as u8, (x + y) as u8]);
    let picture = DynamicImage::ImageRgb8(image::RgbImage::from_fn(60, 40, pixel));
    for name in ["cat/1.jpg", "cat/2.png", "dog/deep/3.jpg", "dog/4.gif"] {
        let path = dir.path().join("photos").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        picture.save_with_format(&path, ImageFormat::from_path(name).unwrap()).unwrap();
    }
    dir
}

/// The images of a dataset.
fn images(dir: &TempDir, dataset: &str) -> Vec<Vec<u8>> {
    let samples = kiste::DatasetReader::open(dir.path().join(dataset)).unwrap();
    let image = |index| kiste::Reader::get(&samples, index).unwrap()["image"].clone();
    (0..kiste::Reader::len(&samples))
        .map(|index| image(index).as_slice().unwrap().to_vec())
        .collect()
}

fn sizes(images: &[Vec<u8>]) -> Vec<(ImageFormat, u32, u32)> {
    let size = |bytes: &Vec<u8>| {
        let picture = image::load_from_memory(bytes).unwrap();
        (image::guess_format(bytes).unwrap(), picture.width(), picture.height())
    };
    images.iter().map(size).collect()
}

/// A TIFF of one grey pixel, of whatever compression its number says.
fn tiff(compression: u16) -> Vec<u8> {
    let mut bytes = b"II*\0\x08\0\0\0\x09\0".to_vec();
    let entries = [256, 257, 258, 259, 262, 273, 277, 278, 279].into_iter();
    for (tag, value) in entries.zip([1, 1, 8, compression, 1, 122, 1, 1, 1]) {
        bytes.extend([u16::to_le_bytes(tag), [3, 0], [1, 0], [0, 0]].concat());
        bytes.extend(u32::from(value).to_le_bytes());
    }
    bytes.extend([0, 0, 0, 0, 7]);
    bytes
}

/// What there is no decoder for is another verdict than what does not decode.
#[test]
fn what_cannot_be_checked_is_not_called_damaged() {
    let dir = with_photos();
    let put = |name: &str, bytes: &[u8]| fs::write(dir.path().join("photos/cat").join(name), bytes);
    put("plain.tif", &tiff(1)).unwrap();
    put("zstd.tif", &tiff(50000)).unwrap();
    put("cut.tif", &tiff(1)[..122]).unwrap();
    let args = ["convert", "photos", "x.msgpack", "--verify-images", "--bad", "skip"];
    let done = run(&dir, args).exits(1);
    assert!(
        done.err.contains("left out 2 bad samples (1 not damaged but unsupported)\n"),
        "{done:?}"
    );
    let line = |name: &str| done.err.lines().find(|line| line.contains(name)).unwrap();
    assert!(line("cat/zstd.tif").contains("Tiff that cannot be checked: "), "{done:?}");
    assert!(line("cat/cut.tif").contains("field \"image\": Tiff: "), "{done:?}");
    assert_eq!(images(&dir, "x.msgpack").len(), 5);
}

#[test]
fn images_are_resized_and_encoded() {
    use ImageFormat::{Gif, Jpeg, Png, WebP};
    let dir = with_photos();
    /// What becomes of the four photos: formats, widths and heights.
    type Made = [(ImageFormat, u32, u32); 4];
    let options: [(&[&str], Made); 4] = [
        (
            &["--resize", "short:10", "--quality", "50", "--subsampling", "4:4:4"],
            [(Jpeg, 15, 10), (Png, 15, 10), (Png, 15, 10), (Jpeg, 15, 10)],
        ),
        (&["--image-size", "30", "--image-format", "jpeg"], [(Jpeg, 30, 20); 4]),
        (&["--resize", "90x90", "--image-format", "webp"], [(WebP, 90, 90); 4]),
        (&["--verify-images"], [(Jpeg, 60, 40), (Png, 60, 40), (Gif, 60, 40), (Jpeg, 60, 40)]),
    ];
    for (options, expected) in options {
        let args = [&["convert", "photos", "p.msgpack", "--force"], options].concat();
        run(&dir, args).exits(0);
        assert_eq!(sizes(&images(&dir, "p.msgpack")), expected, "{options:?}");
    }
    // From a dataset, and by way of an archive, it comes to the same.
    run(&dir, ["convert", "photos", "all.msgpack"]).exits(0);
    run(&dir, ["convert", "photos", "a.msgpack", "--resize", "20"]).exits(0);
    run(&dir, ["convert", "all.msgpack", "b.msgpack", "--resize", "20"]).exits(0);
    assert_eq!(images(&dir, "a.msgpack"), images(&dir, "b.msgpack"));
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let dir = with_photos();
    let table: [(&[&str], &str); 8] = [
        (&["--quality", "50"], "--quality changes nothing"),
        (&["--max-pixels", "9"], "--max-pixels changes nothing"),
        (&["--resize", "9y9"], "expected a size such as 640x480"),
        (&["--image-format", "heic"], "expected keep, jpeg, png or webp, found \"heic\""),
        (&["--resize", "9", "--subsampling", "4:1:1"], "expected 4:4:4, 4:2:2 or 4:2:0"),
        (&["--image-format", "webp", "--quality", "9"], "--quality is for JPEG"),
        (&["--verify-images", "--max-pixels", "9"], "at most 9 pixels, found 60 × 40"),
        (&["--resize", "9", "--image-fields", "label"], "expected bytes of an image, found none"),
    ];
    for (options, says) in table {
        let args = [&["convert", "photos", "x.msgpack"], options].concat();
        let failed = run(&dir, args).exits(2);
        assert!(failed.err.contains(says), "{says}: {failed:?}");
        assert!(!dir.path().join("x.msgpack").exists());
    }
    // What is broken is said with its place.
    let path = dir.path().join("photos/cat/1.jpg");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 20]).unwrap();
    run(&dir, ["convert", "photos", "x.msgpack"]).exits(0);
    let failed = run(&dir, ["convert", "photos", "y.msgpack", "--verify-images"]);
    let says = "photos: key \"cat/1.jpg\": field \"image\": expected a complete JPEG";
    failed.fails(1, says);
}

#[test]
fn a_folder_comes_back_as_it_was() {
    let dir = with_photos();
    run(&dir, ["convert", "photos", "p.msgpack"]).exits(0);
    let made = run(&dir, ["convert", "p.msgpack", "again", "--to", "images", "--json"]).exits(0);
    assert_eq!((&made.json()["files"], &made.json()["samples"]), (&json!(["again"]), &json!(4)));
    for folder in ["", "cat", "dog", "dog/deep"] {
        let (old, new) =
            (dir.path().join("photos").join(folder), dir.path().join("again").join(folder));
        assert_eq!(names(&old), names(&new));
    }
    run(&dir, ["convert", "again", "again.msgpack"]).exits(0);
    for ending in ["", ".labels"] {
        let read =
            |name: &str| fs::read(dir.path().join(format!("{name}.msgpack{ending}"))).unwrap();
        assert_eq!(read("p"), read("again"));
    }
    run(&dir, ["convert", "p.msgpack", "again", "--to", "images"]).fails(2, "exists already");
    let args = ["convert", "p.msgpack", "again", "--to", "images", "--force"];
    let failed = run(&dir, args).fails(2, "exists already");
    assert!(failed.err.contains("a folder of images is never replaced"), "{failed:?}");
}

/// A dataset of samples with these fields and the same small GIF each.
fn with_fields(dir: &TempDir, samples: &[Json]) {
    let gif = "R0lGODlhAQABAAAAACw=";
    let line = |sample: &Json| {
        let mut sample = sample.clone();
        sample["image"] = json!({ "$bin": gif });
        format!("{sample}\n")
    };
    let lines: String = samples.iter().map(line).collect();
    run_with(dir, ["convert", "-", "s.msgpack", "--force"], lines.as_bytes()).exits(0);
}

#[test]
fn what_else_is_known_is_beside_the_images() {
    let dir = scratch();
    let samples = [
        json!({"key": "a", "label": 1, "caption": "one, \"two\""}),
        json!({"key": "b.jpg", "label": 0, "sizes": [1, 2]}),
        json!({"key": "c/d"}),
    ];
    with_fields(&dir, &samples);
    fs::write(dir.path().join("s.msgpack.labels"), "cat\ndog\n").unwrap();
    run(&dir, ["convert", "s.msgpack", "out", "--to", "images"]).exits(0);
    assert_eq!(names(&dir.path().join("out")), ["c", "cat", "dog", "metadata.jsonl"]);
    let metadata = fs::read_to_string(dir.path().join("out/metadata.jsonl")).unwrap();
    let lines: Vec<Json> =
        metadata.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = [
        json!({"file_name": "dog/a.gif", "label": "dog", "key": "a", "caption": "one, \"two\""}),
        json!({"file_name": "cat/b.gif", "label": "cat", "key": "b.jpg", "sizes": [1, 2]}),
        json!({"file_name": "c/d.gif", "key": "c/d"}),
    ];
    assert_eq!(lines, expected);
    let dry = run(&dir, ["convert", "s.msgpack", "out", "--to", "images", "--dry-run"]).quietly();
    assert!(dry.out.contains("caption\tstr\tstr\tunchanged"), "{dry:?}");
    // And comes back, to the byte.
    run(&dir, ["convert", "out", "back.msgpack"]).exits(0);
    for ending in ["", ".labels"] {
        let read =
            |name: &str| fs::read(dir.path().join(format!("{name}.msgpack{ending}"))).unwrap();
        assert_eq!(read("s"), read("back"), "{ending:?}");
    }
    // Whoever wants the folders alone can have them.
    run(&dir, ["convert", "out", "bare.msgpack", "--exclude", "metadata.jsonl"]).exits(0);
    assert_eq!(run(&dir, ["ls", "bare.msgpack"]).quietly().out, "c/d.gif\ncat/b.gif\ndog/a.gif\n");
}

/// Where the paths alone would be read as something else there is a file that says so.
#[test]
fn folders_of_all_kinds_come_back() {
    let dir = scratch();
    for samples in [
        &[json!({"key": "a.gif", "label": 3}), json!({"key": "b.gif", "label": -1})][..],
        &[json!({"key": "a.gif", "label": 1}), json!({"key": "b.gif", "label": 0})],
        &[json!({"key": "a/b.gif"}), json!({"key": "c.gif", "label": null, "image2": 7})],
        &[json!({"key": "a.gif", "other": {"$bin": "AAE="}, "x": 0.5, "y": {"a": [null]}})],
    ] {
        with_fields(&dir, samples);
        run(&dir, ["convert", "s.msgpack", "out", "--to", "images"]).exits(0);
        run(&dir, ["convert", "out", "back.msgpack", "--force"]).exits(0);
        let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
        assert_eq!(read("s.msgpack"), read("back.msgpack"), "{samples:?}");
        fs::remove_dir_all(dir.path().join("out")).unwrap();
    }
    // An image of another name; fields that the paths say.
    let lines = "{\"key\":\"a\",\"photo\":{\"$bin\":\"R0lGODlhAQABAAAAACw=\"},\"n\":1}\n";
    run_with(&dir, ["convert", "-", "s.msgpack", "--force"], lines.as_bytes()).exits(0);
    run(&dir, ["convert", "s.msgpack", "out", "--to", "images"]).exits(0);
    let metadata = fs::read_to_string(dir.path().join("out/metadata.jsonl")).unwrap();
    assert_eq!(metadata, "{\"key\":\"a\",\"photo_file_name\":\"a.gif\",\"n\":1}\n");
    run(&dir, ["convert", "out", "back.msgpack", "--force"]).exits(0);
    assert_eq!(lines, run(&dir, ["cat", "--jsonl", "back.msgpack"]).quietly().out);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let dir = scratch();
    for (key, label, says) in [
        ("../a.gif", json!(null), "a part that leads elsewhere"),
        ("/tmp/a.gif", json!(null), "an empty part"),
        ("a\u{0}.gif", json!(null), "a control character"),
        ("a\\..\\b.gif", json!(null), "a backslash or colon"),
        ("C:a.gif", json!(null), "a backslash or colon"),
        ("aux.gif", json!(null), "the name of a device"),
        ("a.gif", json!(".."), "a part that leads elsewhere"),
        ("a.gif", json!("x/../.."), "expected a label that names a folder"),
        ("a.gif", json!(7), "expected a label below 1, found 7"),
    ] {
        with_fields(&dir, &[json!({"key": key, "label": label})]);
        fs::write(dir.path().join("s.msgpack.labels"), "cat\n").unwrap();
        let failed = run(&dir, ["convert", "s.msgpack", "out", "--to", "images"]);
        failed.fails(2, says);
        fs::remove_file(dir.path().join("s.msgpack.labels")).unwrap();
        let left = names(dir.path());
        assert!(left.iter().all(|name| name.starts_with("s.msgpack")), "{left:?}");
    }
    // Two samples that would be one file.
    with_fields(&dir, &[json!({"key": "a"}), json!({"key": "a.gif"})]);
    run(&dir, ["convert", "s.msgpack", "out", "--to", "images"]).exits(2);
    assert!(!dir.path().join("out").exists());
    run_with(&dir, ["convert", "-", "w.msgpack"], WORDS.as_bytes()).exits(0);
    run(&dir, ["convert", "w.msgpack", "out", "--to", "images"])
        .fails(2, "expected a field with the bytes of an image, found none");
}

#[test]
fn tables_hold_texts_and_numbers() {
    let dir = scratch();
    let lines = [
        json!({"key": "a", "n": 1, "x": 0.5, "text": "one, \"two\"\nthree", "yes": true}),
        json!({"key": "b", "n": -2, "x": 1e300, "more": "é"}),
        json!({"key": "c", "n": null, "x": 2.0, "text": ""}),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    run_with(&dir, ["convert", "-", "s.msgpack"], lines.as_bytes()).exits(0);
    run(&dir, ["convert", "s.msgpack", "s.csv"]).exits(0);
    let text = fs::read_to_string(dir.path().join("s.csv")).unwrap();
    let expected = "key,n,text,x,yes,more\na,1,\"one, \"\"two\"\"\nthree\",0.5,true,\n\
                    b,-2,,1e300,,é\nc,,,2.0,,\n";
    assert_eq!(text, expected);
    let args = ["convert", "s.csv", "t.msgpack", "--guess-types", "--key-field", "key"];
    run(&dir, args).exits(0);
    let back = run(&dir, ["cat", "--jsonl", "t.msgpack"]).quietly().jsonl();
    assert_eq!((&back[1]["n"], &back[1]["x"]), (&json!(-2), &json!(1e300)));
    let dry = run(&dir, ["convert", "s.msgpack", "t.csv", "--dry-run"]).quietly();
    assert!(dry.out.contains("yes\tbool\tstr\tchanged"), "{dry:?}");
    assert!(!dir.path().join("t.csv").exists());
}

#[test]
fn what_has_no_place_in_a_table_is_named() {
    let dir = with_words();
    let failed = run(&dir, ["convert", "words.msgpack", "w.csv"]);
    failed.fails(2, "field \"raw\": expected a string or a number, found bytes");
    assert!(!dir.path().join("w.csv").exists());
    run(&dir, ["convert", "words.msgpack", "w.csv", "--drop", "raw"]).exits(0);
    let text = fs::read_to_string(dir.path().join("w.csv")).unwrap();
    assert_eq!(text, "key,n,text\na,1,eins\nb,2,zwei\nc,3,drei\n");
    // A field that comes late would need another column.
    let mut lines: String = (0..1000).map(|n| format!("{{\"key\":\"{n}\",\"a\":{n}}}\n")).collect();
    lines.push_str("{\"key\":\"x\",\"b\":1}\n");
    run_with(&dir, ["convert", "-", "l.msgpack"], lines.as_bytes()).exits(0);
    run(&dir, ["convert", "l.msgpack", "l.csv"])
        .fails(2, "expected the fields of the first 1000 samples, found \"b\" too");
}

/// A file that is no image passed if its first bytes were not those of one.
#[test]
fn what_is_called_an_image_must_be_one() {
    let dir = with_photos();
    let page = b"<!DOCTYPE html><title>404</title>";
    let bad: [(&str, &[u8], &str); 4] = [
        ("empty.jpg", b"", "expected an image, found no bytes"),
        ("page.jpg", page, "expected an image, found a web page or other markup"),
        ("zeros.jpg", &[0; 100], "expected an image, found only zeros"),
        ("text.png", b"to do", "expected an image, found other bytes"),
    ];
    for (name, bytes, says) in bad {
        let path = dir.path().join("photos/cat").join(name);
        fs::write(&path, bytes).unwrap();
        for how in ["--verify-images", "--resize=10x10"] {
            let failed = run(&dir, ["convert", "photos", "x.msgpack", how]).exits(2);
            assert!(failed.err.contains(&format!("cat/{name}")), "{failed:?}");
            assert!(
                failed.err.contains("field \"image\"") && failed.err.contains(says),
                "{failed:?}"
            );
        }
        fs::remove_file(path).unwrap();
    }
    run(&dir, ["convert", "photos", "x.msgpack", "--verify-images"]).exits(0);
    // Other fields may hold what they like, and so may one that has no bytes.
    let lines =
        "{\"key\":\"a\",\"notes\":{\"$bin\":\"eA==\"},\"image\":null,\"mask.png\":\"none\"}\n";
    fs::write(dir.path().join("s.jsonl"), lines).unwrap();
    run(&dir, ["convert", "s.jsonl", "s.msgpack", "--verify-images"]).exits(0);
    fs::write(dir.path().join("m.jsonl"), "{\"key\":\"a\",\"mask.png\":{\"$bin\":\"eA==\"}}\n")
        .unwrap();
    let failed = run(&dir, ["convert", "m.jsonl", "m.msgpack", "--verify-images"]).exits(2);
    assert!(failed.err.contains("field \"mask.png\""), "{failed:?}");
}

/// Columns of one type change values that are of another.
#[test]
fn a_csv_says_what_its_columns_make_of_values() {
    let dir = scratch();
    let lines = "{\"key\":\"a\",\"x\":1,\"y\":\"7\",\"z\":1,\"f\":0.5}\n\
                 {\"key\":\"b\",\"x\":0.5,\"y\":\"8\",\"z\":\"x\",\"f\":NaN}\n";
    fs::write(dir.path().join("s.jsonl"), lines).unwrap();
    let done = run(&dir, ["convert", "s.jsonl", "s.csv"]).exits(0);
    for says in [
        "field \"x\": integers became floats, or strings of their digits, as others of the column",
        "field \"y\": strings became numbers, if their types are guessed (2 values)",
        "field \"z\": integers became strings, as others of the column are (1 value)",
    ] {
        assert!(done.err.contains(says), "{done:?}");
    }
    assert!(!done.err.contains("field \"f\""), "{done:?}");
    run(&dir, ["convert", "s.csv", "t.msgpack", "--guess-types", "--key-field", "key"]).exits(0);
    let back = run(&dir, ["cat", "--jsonl", "t.msgpack"]).quietly().jsonl();
    assert_eq!((&back[0]["f"], &back[1]["f"]), (&json!(0.5), &json!({"$f": "7ff8000000000000"})));
}
