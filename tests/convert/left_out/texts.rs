//! Texts, tables, lists and folders of images.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use kiste::convert::{Conversion, Format, LeftOut};

use super::{Input, file, run};

pub(super) fn input(format: Format, kind: LeftOut, dir: &Path) -> Option<Input> {
    match kind {
        LeftOut::PathValue | LeftOut::MixedSplits | LeftOut::OtherFile => {
            in_folder(format, kind, dir)
        }
        _ => match format {
            Format::Csv | Format::Tsv => table(format, kind, dir),
            Format::List => list(kind, dir).or_else(|| image(format, kind, dir)),
            Format::Jsonl => lines(kind, dir),
            Format::Coco => annotations(kind, dir),
            Format::Images => folder(kind, dir).or_else(|| image(format, kind, dir)),
            _ => None,
        },
    }
}

/// Annotations of COCO.
fn annotations(kind: LeftOut, dir: &Path) -> Option<Input> {
    let text = match kind {
        LeftOut::Metadata => r#"{"info": {}, "images": [{"id": 1, "file_name": "a"}]}"#,
        LeftOut::SameName => r#"{"images": [{"id": 1, "id": 2, "file_name": "a"}]}"#,
        LeftOut::OtherEncoding => "{\"images\": [{\"id\": 1, \"file_name\": \"\u{e4}\"}]}",
        _ => return None,
    };
    let bytes: Vec<u8> = match kind {
        LeftOut::OtherEncoding => text.chars().map(|c| c as u8).collect(),
        _ => text.as_bytes().to_vec(),
    };
    let says = match kind {
        LeftOut::SameName => "images[0]: expected distinct names, found \"id\" twice",
        LeftOut::OtherEncoding => "UTF-8",
        _ => "",
    };
    let input = Input::refused(says, [file(dir, "a.json", &bytes)]);
    Some(Input { how: |conversion| conversion.drop_fields(["image"]), ..input })
}

/// Files of this format that are named like splits, or a folder that has another file too.
fn in_folder(format: Format, kind: LeftOut, dir: &Path) -> Option<Input> {
    let folder = dir.join("folder");
    if format == Format::Images {
        file(dir, "folder/cat/1.png", PNG);
        file(dir, "folder/boxes.csv", b"a,b\n1,2\n");
        return (kind == LeftOut::OtherFile).then(|| Input::new([folder]));
    }
    let made = |split: &str| {
        let path = folder.join(split);
        std::fs::create_dir_all(&path).unwrap();
        if format == Format::Tsv {
            return file(&path, "a.tsv", b"a\tb\n1\t2\n");
        }
        let key = format!(r#"{{"key": "{split}", "x": 1}}"#);
        let lines = file(dir, "in.jsonl", key.as_bytes());
        let (name, written) = match format.extension() {
            Some("tar") => ("a.tar".to_owned(), "a-000000.tar".to_owned()),
            Some(ending) => (format!("a.{ending}"), format!("a.{ending}")),
            None => ("a".to_owned(), "a".to_owned()),
        };
        let conversion = Conversion::new([lines], path.join(name)).to(format);
        conversion.run(&mut kiste::convert::Silent).unwrap();
        path.join(written)
    };
    Some(match kind {
        LeftOut::MixedSplits => Input::new([made("train"), made("val")]),
        LeftOut::PathValue => Input::new([made("label=cat")]),
        _ => {
            made("shards");
            file(&folder, "notes.txt", b"x");
            Input::new([folder])
        }
    })
}

fn table(format: Format, kind: LeftOut, dir: &Path) -> Option<Input> {
    let of = |text: &str| {
        let text = if format == Format::Tsv { text.replace(',', "\t") } else { text.to_owned() };
        [file(dir, "a.table", text.as_bytes())]
    };
    Some(match kind {
        LeftOut::TextAfterQuote => Input::new(of("a,b\n\"Hello\" he said,1\n")),
        LeftOut::LinesInQuotes => Input::new(of("a,b\nx,\"Second,1\nThird\"\n")),
        LeftOut::JoinedRows => {
            let says = "line 3: expected the end of a value of several lines";
            Input::refused(says, of("a,b\nFirst,0\n\"Second,1\nThird \"sentence\",0\n"))
        }
        LeftOut::OtherLength => Input::refused("expected 2 values, found 1", of("a,b\n1,2\n3\n")),
        LeftOut::SameName => Input::refused("found \"a\" twice", of("a,b,a\n1,2,3\n")),
        LeftOut::OtherEncoding => Input::refused(
            "expected UTF-8, found \"M\\xfcller",
            [file(dir, "a.csv", b"a\nM\xfcller\n")],
        ),
        _ => return None,
    })
}

fn lines(kind: LeftOut, dir: &Path) -> Option<Input> {
    let of = |text: &[u8]| [file(dir, "a.jsonl", text)];
    Some(match kind {
        LeftOut::OtherEncoding => {
            Input::refused("expected UTF-8, found \"", of(b"{\"key\": \"M\xfcller\"}\n"))
        }
        LeftOut::SameName => Input::refused("found \"a\" twice", of(br#"{"a": 1, "a": 2}"#)),
        LeftOut::ReservedName => {
            Input::refused("expected a name of the notation", of(br#"{"id": {"$oid": "5f0c"}}"#))
        }
        LeftOut::LargeNumber => {
            Input::refused("expected an integer from", of(br#"{"n": 18446744073709551616}"#))
        }
        _ => return None,
    })
}

/// The smallest PNG.
pub(super) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\0IEND\xae\x42\x60\x82";

fn list(kind: LeftOut, dir: &Path) -> Option<Input> {
    file(dir, "a.png", PNG);
    file(dir, "b.png", PNG);
    let of = |text: &str| [file(dir, "list.tsv", text.as_bytes())];
    Some(match kind {
        LeftOut::TextAfterQuote => Input::new(of("path\tlabel\na.png\t\"b\" c\n")),
        LeftOut::LinesInQuotes => Input::new(of("path\tlabel\tx\na.png\ty\t\"b\tc\nd\"\n")),
        LeftOut::JoinedRows => {
            let says = "line 2: expected the end of a value of several lines";
            Input::refused(says, of("path\tlabel\na.png\t\"b\nc\" d\n"))
        }
        LeftOut::OtherLength => Input::refused("expected 2 values", of("path\tlabel\na.png\n")),
        LeftOut::SameName => {
            Input::refused("found \"x\" again", of("path\tlabel\tx\tx\na.png\tb\tc\td\n"))
        }
        LeftOut::OtherEncoding => Input::refused(
            "expected UTF-8, found",
            [file(dir, "list.tsv", b"path\tlabel\na.png\tM\xfcller\n")],
        ),
        LeftOut::NumberLabel => Input::new(of("path\tlabel\na.png\t3\nb.png\t10\n")),
        LeftOut::AlikeLabel => {
            Input::new(of("path\tlabel\na.png\tcaf\u{e9}\nb.png\tcafe\u{301}\n"))
        }
        _ => return None,
    })
}

/// The bytes of an image that is none.
pub(super) fn no_image(kind: LeftOut) -> Option<&'static [u8]> {
    Some(match kind {
        LeftOut::EmptyFile => b"",
        LeftOut::NoImage => b"<!DOCTYPE html>",
        LeftOut::CutImage => &PNG[..16],
        _ => return None,
    })
}

/// An image that is none, in a folder or a list.
fn image(format: Format, kind: LeftOut, dir: &Path) -> Option<Input> {
    file(dir, "photos/cat/1.png", no_image(kind)?);
    Some(Input::new([match format {
        Format::List => file(dir, "photos/list.csv", b"path\ncat/1.png\n"),
        _ => dir.join("photos"),
    }]))
}

fn folder(kind: LeftOut, dir: &Path) -> Option<Input> {
    let folder = |names: &[&str]| {
        names.iter().for_each(|name| drop(file(dir, &format!("photos/{name}"), PNG)));
        [dir.join("photos")]
    };
    Some(match kind {
        LeftOut::EmptyLabel => Input::new(folder(&["cat/1.png", "docs/readme.txt"])),
        LeftOut::NumberLabel => Input::new(folder(&["1/1.png", "2/1.png"])),
        LeftOut::AlikeLabel => Input::new(folder(&["caf\u{e9}/1.png", "cafe\u{301}/2.png"])),
        LeftOut::BackslashName => Input::new([zip(dir, &["cat\\1.png", "dog\\1.png"])]),
        _ => return None,
    })
}

fn zip(dir: &Path, names: &[&str]) -> PathBuf {
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, PNG)).collect();
    zip_of(dir, &files)
}

#[test]
fn images_in_a_zip_that_are_none_are_counted_too() {
    for kind in [LeftOut::EmptyFile, LeftOut::NoImage, LeftOut::CutImage] {
        let dir = tempfile::tempdir().unwrap();
        let files = [("cat/1.png", PNG), ("cat/2.png", no_image(kind).unwrap())];
        let conversion =
            Conversion::new([zip_of(dir.path(), &files)], dir.path().join("o.msgpack"));
        let remarks = run(&conversion).unwrap().remarks;
        assert_eq!((remarks[0].kind, remarks[0].count, remarks.len()), (kind, 1, 1));
        assert!(remarks[0].first.ends_with("photos.zip/cat/2.png"), "{remarks:?}");
    }
}

fn zip_of(dir: &Path, files: &[(&str, &[u8])]) -> PathBuf {
    let path = dir.join("photos.zip");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    for (name, bytes) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
    path
}
