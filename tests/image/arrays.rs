//! Images that are decoded already: arrays, as fields and in calls.

use std::sync::Arc;

use kiste::array::PackOptions;
use kiste::image::{ArrayImage, Header, Pipeline, Worker};
use kiste::loader::{Boxes, ColumnBatch, Columns, Loader, Mask, image_header};
use kiste::reader::ListReader;
use kiste::sampler::Sequential;
use kiste::sampler::rng::StableRng;
use kiste::value::NdArray;
use kiste::{ErrorKind, Result, Value};

use super::png;
use crate::loader::{bin, nd};

const STEPS: &str =
    "seed(3) | random_crop(12, padding=2) | rotate(40) | hflip | gaussian_blur(3) | random_erasing";

fn pixels(bytes: &[u8]) -> Vec<u8> {
    image::load_from_memory(bytes).unwrap().into_rgb8().into_raw()
}

fn batch(fields: Vec<(&str, Value)>, columns: Columns) -> Result<ColumnBatch> {
    let key = ("key", Value::from("a"));
    let fields = std::iter::once(key).chain(fields);
    let sample = Value::Map(fields.map(|(name, value)| (name.into(), value)).collect());
    let reader = Arc::new(ListReader::pack([sample]).unwrap());
    let options = Loader::options(reader, Sequential::new(1)).threads(0);
    Ok(options.columns(columns)?.next().unwrap()?.data)
}

fn packed(shape: &[usize], values: &[u8]) -> Value {
    let array = NdArray::new("|u1".parse().unwrap(), shape.to_vec(), values).unwrap();
    bin(&PackOptions::default().pack(&array).unwrap())
}

/// Whether a field is encoded, an array or a packed array: the same pixels, masks and boxes.
#[test]
fn fields_of_all_forms() {
    let encoded = png(20, 15);
    let values = pixels(&encoded);
    let numbers: Vec<u8> = (0..300u32).map(|at| at as u8).collect();
    let one = Value::Array([2, 3, 9, 10].map(Value::from).to_vec());
    let of = |image: Value| {
        let pipeline: Pipeline = STEPS.parse().unwrap();
        let columns = Columns::new()
            .image::<u8>("image", pipeline)
            .mask("mask", Mask::<u8>::of("image").fill(9))
            .boxes("boxes", Boxes::of("image"));
        let fields = vec![
            ("image", image),
            ("mask", nd("|u1", &[15, 20], &numbers)),
            ("boxes", Value::Array(vec![one.clone()])),
        ];
        let batch = batch(fields, columns).unwrap();
        let boxes = batch.values::<f32>("boxes").unwrap().to_vec();
        let [image, mask] =
            ["image", "mask"].map(|name| batch.values::<u8>(name).unwrap().to_vec());
        (image, mask, boxes)
    };
    let expected = of(bin(&encoded));
    assert_eq!(of(nd("|u1", &[15, 20, 3], &values)), expected);
    assert_eq!(of(nd("<u1", &[15, 20, 3], &values)), expected);
    assert_eq!(of(packed(&[15, 20, 3], &values)), expected);
}

#[test]
fn modes() {
    let (rgb, gray) = ([10, 20, 30, 255, 0, 0], [7, 250]);
    let run = |mode: &str, shape: &[usize], values: &[u8]| {
        let mut out = Vec::new();
        let mut worker = Worker::<u8>::new(format!("decode({mode})").parse().unwrap()).unwrap();
        let image = ArrayImage::new(shape, values).unwrap();
        assert_eq!(image.header(), Header::new(2, 1));
        worker.run_array(&image, &mut StableRng::new(&[]), &mut out).unwrap();
        out
    };
    assert_eq!(run("rgb", &[1, 2, 3], &rgb), rgb);
    assert_eq!(run("rgba", &[1, 2, 3], &rgb), [10, 20, 30, 255, 255, 0, 0, 255]);
    // As by `decode(gray)` of an image that is not JPEG.
    assert_eq!(run("gray", &[1, 2, 3], &rgb), [18, 76]);
    for shape in [&[1, 2][..], &[1, 2, 1]] {
        assert_eq!(run("gray", shape, &gray), gray);
        assert_eq!(run("rgb", shape, &gray), [7, 7, 7, 250, 250, 250]);
    }
}

#[test]
fn plans_are_carried_out_on_arrays() {
    let encoded = png(20, 15);
    let values = pixels(&encoded);
    let image = ArrayImage::new(&[15, 20, 3], &values).unwrap();
    let pipeline: Pipeline = STEPS.parse().unwrap();
    let mut worker = Worker::<u8>::new(pipeline.clone()).unwrap();
    let (mut once, mut again) = (Vec::new(), Vec::new());
    for seed in 0..20 {
        let rng = || StableRng::new(&[seed]);
        let plan = pipeline.plan(&image.header(), &mut rng()).unwrap();
        worker.run(&encoded, &mut rng(), &mut once).unwrap();
        worker.carry_out_array(&image, &plan, &mut again).unwrap();
        assert_eq!(once, again, "{plan}");
    }
    let other = ArrayImage::new(&[15, 19, 3], &values[..15 * 19 * 3]).unwrap();
    let plan = pipeline.plan(&image.header(), &mut StableRng::new(&[])).unwrap();
    let error = worker.carry_out_array(&other, &plan, &mut again).unwrap_err();
    assert!(error.to_string().contains("expected the image of the plan, 20 × 15"), "{error}");
}

#[test]
fn what_is_no_image() {
    let three = "an image of shape (height, width), (height, width, 1) or (height, width, 3)";
    let form = "an encoded image or an array of type u1";
    for (image, expected, found) in [
        (nd("|u1", &[4], &[0; 4]), three, "[4]"),
        (nd("|u1", &[2, 2, 2], &[0; 8]), three, "[2, 2, 2]"),
        (nd("|u1", &[2, 2], &[0; 5]), "as many values as an array of shape [2, 2] has", "5"),
        (
            nd("|u1", &[1 << 31, 1 << 31], &[0; 5]),
            "as many values as an array of shape [2147483648, 2147483648] has",
            "5",
        ),
        (nd("|u1", &[1 << 40, 1], &[0; 5]), three, "[1099511627776, 1]"),
        (nd("|u1", &[1, 1, 1, 1], &[0]), form, "type \"|u1\" and shape [1, 1, 1, 1]"),
        (nd("<f4", &[1, 1], &[0; 4]), form, "type \"<f4\" and shape [1, 1]"),
        (nd("|b1", &[1, 1], &[0]), form, "type \"|b1\" and shape [1, 1]"),
        (Value::from(3), form, "an integer"),
        (packed(&[6], &[1; 6]), three, "[6]"),
    ] {
        let columns = Columns::new().image::<u8>("image", "center_crop(2)".parse().unwrap());
        let error = batch(vec![("image", image)], columns).err().unwrap();
        assert_eq!(error.field(), Some("image"));
        assert_eq!(error.message(), format!("expected {expected}, found {found}"));
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    let large = packed(&[20, 20], &[1; 400]);
    let pipeline: Pipeline = "decode(max_pixels=399) | center_crop(2)".parse().unwrap();
    let columns = Columns::new().image::<u8>("image", pipeline);
    let error = batch(vec![("image", large)], columns).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[test]
fn headers_of_fields() {
    let header = |value: &Value| image_header(&kiste::format::msgpack::to_vec(value).unwrap());
    let expected = Header::new(3, 2);
    assert_eq!(header(&bin(&png(3, 2))).unwrap(), expected);
    assert_eq!(header(&nd("|u1", &[2, 3], &[0; 6])).unwrap(), expected);
    assert_eq!(header(&packed(&[2, 3, 1], &[0; 6])).unwrap(), expected);
    assert!(header(&Value::from(1)).is_err());
}
