//! Annotations of COCO.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use kiste::convert::{CocoReader, Conversion, Input, Silent};
use kiste::{DatasetReader, ErrorKind, Value};
use serde_json::{Value as Json, json};

use super::{dir, samples};

const PRODUCER: &str = "pycocotools-2.0.11";

fn annotations() -> Json {
    let path = dir(PRODUCER).join("annotations/instances_val2017.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn read(text: &Json) -> kiste::Result<Vec<Value>> {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("a.json");
    fs::write(&path, text.to_string()).unwrap();
    samples(Arc::new(CocoReader::open(&path)?))
}

/// Height, width and the grey of each pixel.
fn pixels(mut png: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(&mut png)).read_info().unwrap();
    let mut out = vec![0; decoder.output_buffer_size().unwrap()];
    let info = decoder.next_frame(&mut out).unwrap();
    assert_eq!(info.color_type, png::ColorType::Grayscale);
    (info.height, info.width, out)
}

/// Polygons, runs and runs as text, pixel by pixel as pycocotools paints them.
#[test]
fn masks_are_those_of_pycocotools() {
    let found = samples(Arc::new(
        CocoReader::open(dir(PRODUCER).join("annotations/instances_val2017.json")).unwrap(),
    ))
    .unwrap();
    assert_eq!(found.len(), 6);
    for sample in found {
        let name = sample["key"].as_str().unwrap();
        let expected = fs::read(dir(PRODUCER).join("masks").join(name)).unwrap();
        assert_eq!(pixels(sample["mask"].as_slice().unwrap()), pixels(&expected), "{name}");
        assert_eq!(sample["image"].as_str(), Some(name));
    }
}

/// Boxes are corners, labels count from 0, and all that there is more is a list or a field.
#[test]
fn every_annotation_is_carried() {
    let all = annotations();
    let reader =
        CocoReader::open(dir(PRODUCER).join("annotations/instances_val2017.json")).unwrap();
    assert_eq!(reader.label_names().unwrap(), ["person", "dog", "toothbrush"]);
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("coco.msgpack");
    let source = dir(PRODUCER).join("annotations/instances_val2017.json");
    let report = Conversion::new([&source], &out)
        .root(dir(PRODUCER).join("val2017"))
        .run(&mut Silent)
        .unwrap();
    let remarks: Vec<String> = report.remarks.iter().map(ToString::to_string).collect();
    assert!(remarks[0].starts_with("5 entries of metadata left out"), "{remarks:?}");
    assert_eq!(
        fs::read_to_string(scratch.path().join("coco.msgpack.labels")).unwrap(),
        "person\ndog\ntoothbrush\n"
    );
    let reader = DatasetReader::open(&out).unwrap();
    for (at, image) in all["images"].as_array().unwrap().iter().enumerate() {
        let sample = reader.get(at).unwrap();
        let file =
            fs::read(dir(PRODUCER).join("val2017").join(image["file_name"].as_str().unwrap()));
        assert_eq!(sample["image"].as_slice().unwrap(), file.unwrap());
        assert_eq!(sample["image_id"].as_i64(), image["id"].as_i64());
        assert_eq!(sample["date_captured"].as_str(), image["date_captured"].as_str());
        let own: Vec<&Json> = (all["annotations"].as_array().unwrap().iter())
            .filter(|annotation| annotation["image_id"] == image["id"])
            .collect();
        let list = |name: &str| sample[name].as_array().unwrap().clone();
        for (field, member) in [("ids", "id"), ("area", "area"), ("iscrowd", "iscrowd")] {
            let found: Vec<f64> = list(field).iter().map(|v| v.as_f64().unwrap()).collect();
            let expected: Vec<f64> = own.iter().map(|a| a[member].as_f64().unwrap()).collect();
            assert_eq!(found, expected, "{field}");
        }
        assert_eq!(list("segmentation").len(), own.len());
    }
}

/// The fields are what the loader's columns take.
#[test]
#[cfg(feature = "images")]
fn the_loader_takes_boxes_and_masks() {
    use kiste::image::Pipeline;
    use kiste::loader::{Boxes, Columns, Labels, Loader, Mask};
    use kiste::sampler::Sequential;

    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("coco.msgpack");
    let source = dir(PRODUCER).join("annotations/instances_val2017.json");
    let conversion = Conversion::new([&source], &out).root(dir(PRODUCER).join("val2017"));
    conversion.run(&mut Silent).unwrap();
    let pipeline: Pipeline = "resize(16) | center_crop(16)".parse().unwrap();
    let columns = Columns::new()
        .image::<u8>("image", pipeline)
        .mask("mask", Mask::<u8>::of("image").fill(255))
        .boxes("boxes", Boxes::of("image"))
        .labels("labels", Labels::<i64>::of("boxes"));
    let reader = Arc::new(DatasetReader::open(&out).unwrap());
    let options = Loader::options(reader, Sequential::new(6)).batch_size(6).epochs(1);
    let batch = options.columns(columns).unwrap().next().unwrap().unwrap().data;
    assert_eq!(batch.array::<u8>("mask").unwrap().shape(), [6, 16, 16]);
    let boxes = batch.array::<f32>("boxes").unwrap().shape()[0];
    assert_eq!(boxes, annotations()["annotations"].as_array().unwrap().len());
    assert_eq!(batch.array::<i64>("labels").unwrap().len(), boxes);
}

#[test]
fn captions_and_boxes_alone() {
    let captions = dir(PRODUCER).join("annotations/captions_val2017.json");
    let reader = CocoReader::open(captions).unwrap();
    assert!(reader.label_names().is_none());
    let found = samples(Arc::new(reader)).unwrap();
    let names: Vec<&str> =
        found[0].as_map().unwrap().iter().map(|(name, _)| name.as_str().unwrap()).collect();
    let rest = ["license", "width", "height", "image_id", "date_captured"];
    assert_eq!(names, [&["key", "image", "ids", "caption"][..], &rest].concat());
    // As exports of boxes write it.
    let mut all = annotations();
    for annotation in all["annotations"].as_array_mut().unwrap() {
        annotation["segmentation"] = json!([]);
    }
    let found = read(&all).unwrap();
    assert!(!found[0].as_map().unwrap().iter().any(|(name, _)| name.as_str() == Some("mask")));
    assert!(!found[3]["boxes"].is_nil() && found[3]["ids"].as_array().unwrap().is_empty());
}

/// Every fault names the place.
#[test]
fn what_is_refused() {
    type Change = fn(&mut Json);
    let cases: [(Change, &str); 16] = [
        (
            |all| all["annotations"][3]["image_id"] = json!(5),
            "annotations[3]: expected the id of an image",
        ),
        (
            |all| all["annotations"][3]["category_id"] = json!(5),
            "annotations[3]: expected the id of a category",
        ),
        (
            |all| all["annotations"][3]["bbox"] = json!([1, 2, 3]),
            "annotations[3]: bbox: invalid length 3",
        ),
        (
            |all| all["annotations"][3]["bbox"] = json!(null),
            "annotations[3]: bbox: invalid type: null",
        ),
        (
            |all| all["annotations"][3]["segmentation"] = json!([[1, 2, 3, 4]]),
            "annotations[3]: segmentation: expected x and y of three corners or more, found 4 numbers",
        ),
        (
            |all| all["annotations"][3]["segmentation"] = json!([[1, 2, 3, 4, 5, 1e9]]),
            "annotations[3]: segmentation: expected a corner near an image",
        ),
        (
            |all| all["annotations"][3]["segmentation"] = json!({"size": [1, 1], "counts": [1]}),
            "annotations[3]: segmentation: expected a mask of the size of its image",
        ),
        (|all| all["annotations"][3]["segmentation"] = json!("x"), "annotations[3]: segmentation"),
        (|all| all["images"][1]["width"] = json!(0), "expected 1 to 104857600 pixels"),
        (
            |all| all["images"][1]["width"] = json!(4_000_000_000u32),
            "expected 1 to 104857600 pixels",
        ),
        (
            |all| all["images"][1]["id"] = json!(1000),
            "images[1]: another image has the same id or path",
        ),
        (
            |all| all["images"][1]["file_name"] = json!("000000000000.png"),
            "images[1]: another image",
        ),
        (
            |all| all["categories"][1]["id"] = json!(18),
            "categories[1]: another category has the id 18",
        ),
        (|all| all["categories"][1]["name"] = json!("dog"), "two categories are called \"dog\""),
        (|all| drop(all.as_object_mut().unwrap().remove("images")), "found no images"),
        (|all| all["images"] = json!({}), "images: invalid type: map"),
    ];
    for (change, said) in cases {
        let mut all = annotations();
        change(&mut all);
        let error = read(&all).unwrap_err();
        assert!(error.to_string().contains(said), "{said}: {error}");
        assert!(matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Limit), "{error}");
    }
    // Runs that are too long or too short, and text that is none.
    let mut all = annotations();
    let size = json!([all["images"][0]["height"], all["images"][0]["width"]]);
    let id = all["images"][0]["id"].clone();
    let at =
        all["annotations"].as_array().unwrap().iter().position(|a| a["image_id"] == id).unwrap();
    for counts in [
        json!([1]),
        json!([1, 5_000_000_000u64]),
        json!([-1]),
        json!([1, 2, u64::MAX, u64::MAX]),
        json!(""),
        json!("~~~~"),
        json!("\u{20ac}"),
        json!("oooooooooooooooooo"),
        json!("P"),
        json!("0"),
        json!(null),
        json!([]),
    ] {
        all["annotations"][at]["segmentation"] = json!({"size": size, "counts": counts});
        let error = read(&all).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{counts}: {error}");
        assert!(error.to_string().contains(&format!("annotations[{at}]: segmentation")), "{error}");
    }
}

/// Every file that is cut short or has another byte is an error or other samples, and nothing else.
#[test]
fn damage_is_no_panic() {
    let text = fs::read(dir(PRODUCER).join("annotations/instances_val2017.json")).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("a.json");
    let mut refused = 0;
    for at in (0..text.len()).step_by(37) {
        for change in 0..2 {
            let damaged = match change {
                0 => text[..at].to_vec(),
                _ => [&text[..at], b"9", &text[at + 1..]].concat(),
            };
            fs::write(&path, damaged).unwrap();
            refused += usize::from(
                CocoReader::open(&path).and_then(|reader| samples(Arc::new(reader))).is_err(),
            );
        }
    }
    assert!(refused > text.len() / 37);
}

/// It is recognised by what it is, next to JSON that looks like it.
#[test]
fn only_annotations_are_taken_for_coco() {
    use kiste::convert::Format;

    let scratch = tempfile::tempdir().unwrap();
    let of = |text: &str| {
        let path = scratch.path().join("a.json");
        fs::write(&path, text).unwrap();
        Format::of_input(Path::new(&path)).unwrap()
    };
    let all = annotations();
    assert_eq!(of(&all.to_string()), Format::Coco);
    assert_eq!(of(&serde_json::to_string_pretty(&all).unwrap()), Format::Coco);
    for lines in [
        "{\"image\":\"a.jpg\",\"annotations\":[{\"bbox\":[1,2,3,4]}]}\n{\"image\":\"b.jpg\",\"annotations\":[]}\n",
        "{\"key\":\"a\",\"images\":[{}]}\n",
        "{\"images\":[\"a.jpg\",\"b.jpg\"]}\n",
        "[{\"images\":[{}]}]",
    ] {
        assert_eq!(of(lines), Format::Jsonl, "{lines}");
    }
}

/// A few corners or runs do not keep the processor busy, and do not fill the memory.
#[test]
fn small_annotations_are_little_work() {
    let corners: Vec<f64> =
        (0..4000).flat_map(|n| [f64::from(n % 2) * 20_000.0, f64::from(n % 3)]).collect();
    let runs = json!({"size": [3, 20_000], "counts": [0, 60_000]});
    for (segmentation, copies) in [(json!([corners]), 1), (runs, 300)] {
        let annotation =
            json!({"id": 1, "image_id": 1, "category_id": 1, "segmentation": segmentation});
        let all = json!({
            "images": [{"id": 1, "file_name": "a.png", "width": 20_000, "height": 3}],
            "annotations": vec![annotation; copies],
            "categories": [{"id": 1, "name": "x"}],
        });
        let error = read(&all).unwrap_err();
        assert!(
            error.to_string().contains("masks that cover their image at most 256 times"),
            "{error}"
        );
    }
}

/// Names of members are fields of every sample, so there are not too many.
#[test]
fn members_are_limited() {
    let annotation = |n: usize| json!({"image_id": 1, format!("m{n}"): 0});
    let all = |names: usize| {
        json!({
            "images": [{"id": 1, "file_name": "a.png"}],
            "annotations": (0..names).map(annotation).collect::<Vec<_>>(),
        })
    };
    assert_eq!(read(&all(1000)).unwrap()[0].as_map().unwrap().len(), 1003);
    let error = read(&all(1001)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(
        error.to_string().contains("annotations[1000]: expected members of at most 1000 names"),
        "{error}"
    );
    let many: serde_json::Map<String, Json> =
        (0..1001).map(|n| (format!("m{n}"), json!(0))).collect();
    let error = read(&json!({"images": [many]})).unwrap_err();
    assert!(error.to_string().contains("images[0]: expected at most 1000 members"), "{error}");
}

/// Members of one name in images and annotations, and members that are called like fields.
#[test]
fn names_that_are_taken_get_a_prefix() {
    let all = json!({
        "images": [{"id": 1, "file_name": "a.png", "license": 3, "boxes": 4}],
        "annotations": [{"id": 1, "image_id": 1, "license": 5, "mask": "m", "note": "n"}],
    });
    let found = &read(&all).unwrap()[0];
    assert_eq!((found["license"].as_i64(), found["image_boxes"].as_i64()), (Some(3), Some(4)));
    assert_eq!(found["annotation_license"][0].as_i64(), Some(5));
    assert_eq!(found["annotation_mask"][0].as_str(), Some("m"));
    assert_eq!(found["note"][0].as_str(), Some("n"));
}
