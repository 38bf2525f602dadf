//! Tables with typed columns: Parquet and Arrow.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, Decimal128Array, Int64Array, IntervalYearMonthArray, ListArray,
    RecordBatch, StringArray, StructArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{Field, Schema};
use kiste::convert::{Conversion, FieldOutcome, Format, LeftOut};
use kiste::{DatasetReader, Value};
use tempfile::TempDir;

use super::texts::{PNG, no_image};
use super::{Input, file, run};

/// The metadata of a schema or a column.
type Notes = HashMap<String, String>;

/// A table of these columns.
fn table(columns: &[(&str, ArrayRef, Notes)], notes: Notes) -> RecordBatch {
    let fields = columns.iter().map(|(name, array, notes)| {
        Field::new(*name, array.data_type().clone(), true).with_metadata(notes.clone())
    });
    let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), notes);
    let arrays = columns.iter().map(|(_, array, _)| array.clone()).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).unwrap()
}

fn notes(pairs: &[(&str, &str)]) -> Notes {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Writes a table in a format.
fn written(format: Format, path: PathBuf, batch: &RecordBatch) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let out = File::create(&path).unwrap();
    if format == Format::Parquet {
        let mut writer = parquet::arrow::ArrowWriter::try_new(out, batch.schema(), None).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
    } else {
        let mut writer = arrow_ipc::writer::FileWriter::try_new(out, &batch.schema()).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
    }
    path
}

fn ints(numbers: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(numbers.to_vec()))
}

/// Images as `datasets` stores them: their bytes and paths.
fn images_of(files: &[(Option<&[u8]>, Option<&str>)]) -> ArrayRef {
    let (bytes, paths): (Vec<_>, Vec<_>) = files.iter().copied().unzip();
    let bytes: ArrayRef = Arc::new(BinaryArray::from(bytes));
    let paths: ArrayRef = Arc::new(StringArray::from(paths));
    let field = |name, of: &ArrayRef| Arc::new(Field::new(name, of.data_type().clone(), true));
    let (own, path) = (field("bytes", &bytes), field("path", &paths));
    Arc::new(StructArray::from(vec![(own, bytes), (path, paths)]))
}

/// The features of `datasets`.
fn features(json: &str) -> Notes {
    notes(&[("huggingface", &format!("{{\"info\": {{\"features\": {json}}}}}"))])
}

pub(super) fn input(format: Format, kind: LeftOut, dir: &Path) -> Option<Input> {
    if !matches!(format, Format::Parquet | Format::Arrow) {
        return None;
    }
    let path = dir.join(format!("t.{}", format.extension()?));
    let of = |batch: RecordBatch| [written(format, path.clone(), &batch)];
    let column = |array: ArrayRef| of(table(&[("x", array, Notes::new())], Notes::new()));
    let names = r#"{"_type": "ClassLabel", "names": ["a", "b"]}"#;
    Some(match kind {
        LeftOut::Decimal => {
            let numbers = Decimal128Array::from(vec![Some(150), None]);
            Input::new(column(Arc::new(numbers.with_precision_and_scale(9, 2).unwrap())))
        }
        LeftOut::TimeZone => {
            let times = TimestampMicrosecondArray::from(vec![0, 1]).with_timezone("Asia/Tokyo");
            Input::new(column(Arc::new(times)))
        }
        LeftOut::TimeOfDay => {
            Input::new(column(Arc::new(Time64MicrosecondArray::from(vec![0, 1]))))
        }
        LeftOut::ExtensionType => {
            let own = notes(&[("ARROW:extension:name", "own.type")]);
            Input::new(of(table(&[("x", ints(&[1]), own)], Notes::new())))
        }
        LeftOut::Metadata => {
            let own = notes(&[("unit", "cm"), ("PARQUET:field_id", "1")]);
            Input::new(of(table(&[("x", ints(&[1]), own)], notes(&[("geo", "{}")]))))
        }
        LeftOut::LabelNames => {
            let both = features(&format!("{{\"label\": {names}, \"other\": [{names}]}}"));
            let plain = Notes::new();
            let columns = [("label", ints(&[1]), plain.clone()), ("other", ints(&[0]), plain)];
            Input::new(of(table(&columns, both)))
        }
        LeftOut::NoLabel => {
            let features = features(&format!("{{\"label\": {names}}}"));
            Input::new(of(table(&[("label", ints(&[1, -1]), Notes::new())], features)))
        }
        LeftOut::SameName => {
            let plain = Notes::new();
            let columns = [("x", ints(&[1]), plain.clone()), ("x", ints(&[2]), plain)];
            Input::refused("found \"x\" twice", of(table(&columns, Notes::new())))
        }
        LeftOut::OtherType => {
            let spans = IntervalYearMonthArray::from(vec![1, 2]);
            Input::refused("expected a type that fields can have", column(Arc::new(spans)))
        }
        LeftOut::AfterEnd => {
            let [path] = column(ints(&[1]));
            let whole = fs::read(&path).unwrap();
            Input::new([file(dir, "t.arrow", &[whole, b"rest".to_vec()].concat())])
        }
        LeftOut::UnlistedFile => Input::new([saved(dir, "null")]),
        LeftOut::Indices => {
            let files = r#"[{"filename": "indices.arrow"}]"#;
            Input::refused("\"indices.arrow\" lists, in that order", [saved(dir, files)])
        }
        kind => {
            let images = images_of(&[(Some(no_image(kind)?), None)]);
            let features = features(r#"{"x": {"_type": "Image"}}"#);
            Input::new(of(table(&[("x", images, Notes::new())], features)))
        }
    })
}

/// A dataset as `save_to_disk` writes it, with a file of a cache.
fn saved(dir: &Path, indices: &str) -> PathBuf {
    let folder = dir.join("saved");
    let table = |name: &str, from: i64| {
        let batch = table(&[("x", ints(&[from, from + 1]), Notes::new())], Notes::new());
        written(Format::Arrow, folder.join(name), &batch)
    };
    table("data-00000-of-00002.arrow", 0);
    table("data-00001-of-00002.arrow", 2);
    table("cache-2d0a802b78a30b76.arrow", 100);
    table("indices.arrow", 200);
    let data =
        r#"[{"filename": "data-00000-of-00002.arrow"}, {"filename": "data-00001-of-00002.arrow"}]"#;
    let state = format!("{{\"_data_files\": {data}, \"_indices_files\": {indices}}}");
    file(&folder, "state.json", state.as_bytes());
    folder
}

/// The samples of a conversion, and its remarks.
fn converted(sources: &[PathBuf], format: Format) -> kiste::Result<(Vec<Value>, Vec<String>)> {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out.msgpack");
    let report = run(&Conversion::new(sources, &out).from(format))?;
    let reader = DatasetReader::open(&out).unwrap();
    let samples = (0..reader.len()).map(|at| reader.get(at).unwrap()).collect();
    Ok((samples, report.remarks.iter().map(ToString::to_string).collect()))
}

fn numbers(samples: &[Value]) -> Vec<i64> {
    samples.iter().map(|sample| sample["x"].as_i64().unwrap()).collect()
}

/// Files of caches were read as data.
#[test]
fn a_saved_dataset_says_which_files_are_its_data() {
    let dir = TempDir::new().unwrap();
    let folder = saved(dir.path(), "null");
    let files = |names: &[&str]| -> Vec<PathBuf> { names.iter().map(|n| folder.join(n)).collect() };
    let (data, cache) = ("data-00000-of-00002.arrow", "cache-2d0a802b78a30b76.arrow");
    let (found, remarks) = converted(std::slice::from_ref(&folder), Format::Arrow).unwrap();
    assert_eq!(numbers(&found), [0, 1, 2, 3]);
    assert!(
        remarks[0].starts_with("2 files that the dataset does not name left out"),
        "{remarks:?}"
    );
    // As a shell expands `saved/*.arrow`.
    let (found, remarks) =
        converted(&files(&[cache, data, "indices.arrow"]), Format::Arrow).unwrap();
    assert_eq!((numbers(&found), remarks.len()), (vec![0, 1], 1));
    // One file alone is meant.
    let (found, remarks) = converted(&files(&[cache]), Format::Arrow).unwrap();
    assert_eq!((numbers(&found), remarks.len()), (vec![100, 101], 0));
    // A folder of a cache has no state.
    fs::remove_file(folder.join("state.json")).unwrap();
    let (found, remarks) = converted(std::slice::from_ref(&folder), Format::Arrow).unwrap();
    assert_eq!((numbers(&found), remarks.len()), (vec![0, 1, 2, 3], 1));

    for (state, says) in [
        ("[]", "expected the state of a saved dataset"),
        (
            r#"{"_data_files": [{"filename": "../x.arrow"}]}"#,
            "state.json: file \"../x.arrow\": expected the path of a file in this folder",
        ),
        (r#"{"_data_files": []}"#, "expected files named .arrow in the folder"),
        (r#"{"_data_files": [{"filename": "gone.arrow"}]}"#, "gone.arrow"),
    ] {
        file(&folder, "state.json", state.as_bytes());
        let error =
            converted(std::slice::from_ref(&folder), Format::Arrow).unwrap_err().to_string();
        assert!(error.contains(says), "{state}: {error}");
    }
}

/// They were remarked on in folders alone.
#[test]
fn images_that_are_none_are_counted_wherever_they_are() {
    let (html, cut): (&[u8], &[u8]) = (b"<html>", &PNG[..9]);
    let rows = [
        (Some(PNG), None),
        (Some(html), Some("1.png")),
        (None, Some("far.png")),
        (Some(html), Some("2.txt")),
        (None, None),
        (Some(cut), Some("3.JPG")),
    ];
    let items = images_of(&rows[..2]);
    let item = Arc::new(Field::new("item", items.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths([0, 2, 0, 0, 0, 0]);
    let list: ArrayRef = Arc::new(ListArray::new(item, offsets, items, None));
    let described = r#"{"image": {"_type": "Image"}, "list": [{"_type": "Image"}]}"#;
    for format in [Format::Parquet, Format::Arrow] {
        let dir = TempDir::new().unwrap();
        file(dir.path(), "far.png", b"");
        let plain = Notes::new();
        let columns = [("image", images_of(&rows), plain.clone()), ("list", list.clone(), plain)];
        let path = |name: &str| dir.path().join(format!("{name}.{format}"));
        let table = |features| table(&columns, features);
        let known = written(format, path("known"), &table(features(described)));
        let (samples, remarks) = converted(&[known], format).unwrap();
        assert_eq!(samples[1]["image"].as_slice(), Some(html));
        let first = |row| format!("first: {}, row {row}", path("known").display());
        let expected = [
            format!("field \"image\": 1 empty image kept, {}", first(2)),
            format!("field \"image\": 2 images that do not begin as such kept, {}", first(1)),
            format!("field \"list\": 1 image that does not begin as one kept, {}", first(1)),
            format!("field \"image\": 1 image that is cut off kept, {}", first(5)),
        ];
        assert_eq!(remarks, expected, "{format}");
        // Without the features, the paths say what should be images.
        let unknown = written(format, path("unknown"), &table(Notes::new()));
        let (_, remarks) = converted(&[unknown], format).unwrap();
        assert_eq!(remarks.len(), 3, "{format}: {remarks:?}");
    }
}

/// Parquet refused what Arrow, CSV and JSON lines take, and did not say which column it was.
#[test]
fn files_may_have_other_columns() {
    for format in [Format::Parquet, Format::Arrow] {
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(format!("{name}.{format}"));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["own"]));
        let plain = Notes::new();
        let one = table(&[("x", ints(&[1]), plain.clone())], Notes::new());
        let two = table(&[("y", text, plain.clone()), ("x", ints(&[2]), plain)], Notes::new());
        let sources = [written(format, path("0"), &one), written(format, path("1"), &two)];
        let (found, remarks) = converted(&sources, format).unwrap();
        assert_eq!((numbers(&found), remarks.len()), (vec![1, 2], 0));
        let names = |sample: &Value| -> Vec<String> {
            let pairs = sample.as_map().unwrap().iter();
            pairs.map(|(name, _)| name.as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(
            (names(&found[0]), names(&found[1])),
            (
                vec!["key".to_owned(), "x".to_owned()],
                vec!["key".to_owned(), "y".to_owned(), "x".to_owned()],
            )
        );
        let out = dir.path().join("out.msgpack");
        run(&Conversion::new(&sources, &out).drop_fields(["y"])).unwrap();
        let reader = DatasetReader::open(&out).unwrap();
        assert_eq!(names(&reader.get(1).unwrap()), ["key", "x"]);

        // Labels that mean something else are refused, and files without labels have none.
        let labels = |name: &str, label: &str, features_of: &str| {
            let batch = table(&[(label, ints(&[0]), Notes::new())], features(features_of));
            written(format, path(name), &batch)
        };
        let of =
            |name: &str| format!(r#"{{"label": {{"_type": "ClassLabel", "names": ["{name}"]}}}}"#);
        let (a, b) = (labels("a", "label", &of("a")), labels("b", "label", &of("b")));
        let bare = labels("bare", "label", "{}");
        for other in [&b, &bare] {
            let error = converted(&[sources[0].clone(), a.clone(), other.clone()], format);
            let error = error.unwrap_err().to_string();
            assert!(error.contains("expected the labels of"), "{error}");
        }
        assert_eq!(converted(&[sources[0].clone(), a], format).unwrap().0.len(), 2);
    }
}

/// A dry run said "as it is".
#[test]
fn dry_runs_say_what_is_changed() {
    let dir = TempDir::new().unwrap();
    let zone: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![0]).with_timezone("UTC"));
    let plain = Notes::new();
    let columns = [("when", zone, plain.clone()), ("x", ints(&[1]), plain)];
    let path =
        written(Format::Parquet, dir.path().join("t.parquet"), &table(&columns, Notes::new()));
    let tried = Conversion::new([path], dir.path().join("out.msgpack")).dry_run().unwrap();
    let field = |name: &str| tried.fields.iter().find(|field| field.name == name).unwrap();
    let is_same = |name: &str| match &field(name).becomes {
        FieldOutcome::Field { is_same, .. } => *is_same,
        other => panic!("{other:?}"),
    };
    assert!(!is_same("when") && is_same("x"));
    assert_eq!(field("when").changes, ["1 time zone of a time left out"]);
    let json = serde_json::to_value(&tried).unwrap();
    assert_eq!(json["remarks"][0]["kind"], "time_zone");
    assert_eq!(json["remarks"][0]["field"], "when");
}
