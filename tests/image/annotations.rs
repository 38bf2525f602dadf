//! Columns of masks and boxes: moved with their image, in every form of their fields.

use std::io::Cursor;
use std::sync::Arc;

use image::{GrayImage, ImageFormat, RgbImage};
use kiste::array::PackOptions;
use kiste::image::{BoxFormat, Header, Pipeline};
use kiste::loader::{Boxes, ColumnBatch, Columns, Labels, Loader, Mask, OnError, Padded, Record};
use kiste::reader::ListReader;
use kiste::sampler::{Sequential, Shuffle, State};
use kiste::value::NdArray;
use kiste::{Result, Value};

use super::png;
use crate::loader::{bin, nd};

fn pipeline(text: &str) -> Pipeline {
    text.parse().unwrap()
}

fn sample(at: usize, fields: Vec<(&str, Value)>) -> Value {
    let key = ("key", Value::from(format!("k{at}")));
    let fields = std::iter::once(key).chain(fields);
    Value::Map(fields.map(|(name, value)| (name.into(), value)).collect())
}

fn reader(samples: impl IntoIterator<Item = Vec<(&'static str, Value)>>) -> Arc<ListReader> {
    let samples = samples.into_iter().enumerate().map(|(at, fields)| sample(at, fields));
    Arc::new(ListReader::pack(samples).unwrap())
}

fn batch(reader: &Arc<ListReader>, columns: Columns) -> Result<ColumnBatch> {
    let options = Loader::options(reader.clone(), Sequential::new(reader_len(reader)));
    Ok(options.batch_size(64).threads(0).epochs(1).columns(columns)?.next().unwrap()?.data)
}

fn reader_len(reader: &ListReader) -> u64 {
    kiste::Reader::len(reader) as u64
}

/// The number of each pixel of an image, in its red and green.
fn numbered(width: u32, height: u32) -> (Vec<u8>, Vec<u16>) {
    let image = RgbImage::from_fn(width, height, |x, y| {
        let [high, low] = ((y * width + x) as u16).to_be_bytes();
        image::Rgb([high, low, 0])
    });
    let mut out = Cursor::new(Vec::new());
    image.write_to(&mut out, ImageFormat::Png).unwrap();
    (out.into_inner(), (0..(width * height) as u16).collect())
}

const MOVES: &str = "seed(3) | random_crop(40, padding=7, pad_if_needed=true) | hflip | vflip \
                     | resize((33, 50), nearest) | color_jitter(0.0, 0.0, 0.0) | center_crop(36)";

/// Of an image that is resized to the nearest pixel the mask has to be the same picture.
#[test]
fn a_mask_is_where_its_image_is() {
    let sizes = [(30, 50), (64, 48), (41, 40), (20, 20)];
    let reader = reader(sizes.map(|(width, height)| {
        let (image, numbers) = numbered(width, height);
        let mask: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        vec![("image", bin(&image)), ("mask", nd("<u2", &[height.into(), width.into()], &mask))]
    }));
    let columns =
        Columns::new().image::<u8>("image", pipeline(MOVES)).mask("mask", Mask::<u16>::of("image"));
    for threads in [0, 3] {
        let options = Loader::options(reader.clone(), Shuffle::new(4, 1)).batch_size(4).epochs(3);
        for batch in options.threads(threads).columns(columns.clone()).unwrap() {
            let batch = batch.unwrap().data;
            assert_eq!(batch.array::<u16>("mask").unwrap().shape(), [4, 36, 36]);
            let pixels = batch.values::<u8>("image").unwrap().chunks_exact(3);
            let of_image: Vec<u16> =
                pixels.map(|pixel| u16::from_be_bytes([pixel[0], pixel[1]])).collect();
            assert_eq!(of_image, batch.values::<u16>("mask").unwrap());
        }
    }
}

/// The orientation of the image turns a mask and boxes of the stored image with it.
#[test]
fn turned_with_the_image() {
    for orientation in 1..=8 {
        let header = Header::new(5, 3).with_orientation(orientation);
        let mut rng = kiste::sampler::rng::StableRng::new(&[]);
        let plan = pipeline("").plan(&header, &mut rng).unwrap();
        let mask: Vec<u8> = (0..15).collect();
        let found = plan.move_mask(&mask, 0).unwrap();
        let image = GrayImage::from_raw(5, 3, mask).unwrap();
        let mut image = image::DynamicImage::from(image);
        image.apply_orientation(image::metadata::Orientation::from_exif(orientation).unwrap());
        assert_eq!(found, image.to_luma8().into_raw(), "{orientation}");
        // The box around each pixel is where the pixel is.
        for (at, &value) in found.iter().enumerate() {
            let (x, y) = (f64::from(value % 5), f64::from(value / 5));
            let mut boxes = [[x, y, x + 1.0, y + 1.0]];
            plan.move_boxes(&mut boxes).unwrap();
            let width = plan.size.width as usize;
            let (x, y) = ((at % width) as f64, (at / width) as f64);
            assert_eq!(boxes, [[x, y, x + 1.0, y + 1.0]], "{orientation}");
        }
    }
    // Through a loader, from a JPEG that says it; and a mask that was made for the upright image.
    let path = crate::support::golden_dir().parent().unwrap().join("torchvision-0.29.2/exif6.jpg");
    let image = std::fs::read(path).unwrap();
    let stored: Vec<u8> = (0..31 * 23).map(|at| (at % 251) as u8).collect();
    let upright: Vec<u8> = (0..31 * 23)
        .map(|at| {
            // Stored rows of 31 are columns of 31, and the first row is on the right.
            let (row, column) = (at / 23, at % 23);
            stored[(22 - column) * 31 + row]
        })
        .collect();
    let reader = reader([vec![
        ("image", bin(&image)),
        ("stored", nd("|u1", &[23, 31], &stored)),
        ("upright", nd("|u1", &[31, 23], &upright)),
        ("a", Value::Array(vec![Value::Array([2, 3, 5, 10].map(Value::from).to_vec())])),
        ("b", Value::Array(vec![Value::Array([13, 2, 20, 5].map(Value::from).to_vec())])),
    ]]);
    let columns = Columns::new()
        .image::<u8>("image", pipeline("center_crop((31, 23))"))
        .mask("stored", Mask::<u8>::of("image"))
        .mask("upright", Mask::<u8>::of("image").upright())
        .boxes("a", Boxes::of("image"))
        .boxes("b", Boxes::of("image").upright());
    let batch = batch(&reader, columns).unwrap();
    assert_eq!(batch.values::<u8>("stored").unwrap(), upright);
    assert_eq!(batch.values::<u8>("upright").unwrap(), upright);
    assert_eq!(batch.values::<f32>("a").unwrap(), [13.0, 2.0, 20.0, 5.0]);
    assert_eq!(batch.values::<f32>("b").unwrap(), [13.0, 2.0, 20.0, 5.0]);
}

fn encoded(color: png::ColorType, depth: png::BitDepth, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, 6, 2);
    encoder.set_color(color);
    encoder.set_depth(depth);
    if color == png::ColorType::Indexed {
        encoder.set_palette((0..48).rev().collect::<Vec<u8>>());
    }
    encoder.write_header().unwrap().write_image_data(data).unwrap();
    out
}

/// Each with the numbers 0 to 3, or their multiples in bits that are filled up.
#[test]
fn masks_of_every_form() {
    use png::{BitDepth, ColorType};
    let plain: Vec<u8> = vec![0, 1, 2, 3, 0, 1, 3, 2, 1, 0, 3, 2];
    let two_bits = [0b0001_1011, 0b0001_0000, 0b1110_0100, 0b1110_0000];
    let four_bits = [0x01, 0x23, 0x01, 0x32, 0x10, 0x32];
    let wide: Vec<u8> = plain.iter().flat_map(|&value| [0, value]).collect();
    let little: Vec<u8> = plain.iter().flat_map(|&value| [value, 0]).collect();
    let packed = NdArray::new("<u2".parse().unwrap(), vec![2, 6], &little).unwrap();
    let list = |row: &[u8]| Value::Array(row.iter().map(|&value| value.into()).collect());
    let forms = [
        bin(&encoded(ColorType::Indexed, BitDepth::Two, &two_bits)),
        bin(&encoded(ColorType::Indexed, BitDepth::Four, &four_bits)),
        bin(&encoded(ColorType::Indexed, BitDepth::Eight, &plain)),
        bin(&encoded(ColorType::Grayscale, BitDepth::Eight, &plain)),
        bin(&encoded(ColorType::Grayscale, BitDepth::Sixteen, &wide)),
        bin(&[&b"P5 6 2 255\n"[..], &plain].concat()),
        bin(&[&b"P5 6 2 65535\n"[..], &wide].concat()),
        bin(b"P2 6 2 255\n0 1 2 3 0 1 3 2 1 0 3 2\n"),
        nd("<u2", &[2, 6], &little),
        nd("|u1", &[2, 6], &plain),
        nd("|i1", &[2, 6], &plain),
        bin(&PackOptions::default().pack(&packed).unwrap()),
        Value::Array(vec![list(&plain[..6]), list(&plain[6..])]),
    ];
    let columns = || {
        let images = Columns::new().image::<u8>("image", pipeline("center_crop((2, 6))"));
        images.mask("mask", Mask::<u16>::of("image"))
    };
    let expected: Vec<u16> = plain.iter().map(|&value| value.into()).collect();
    for form in forms {
        let reader = reader([vec![("image", bin(&png(6, 2))), ("mask", form.clone())]]);
        let batch = batch(&reader, columns()).unwrap();
        assert_eq!(batch.values::<u16>("mask").unwrap(), expected, "{form:?}");
    }
    // Grey of two bits is of 0 to 255, as of every decoder.
    let gray = encoded(ColorType::Grayscale, BitDepth::Two, &two_bits);
    let good = reader([vec![("image", bin(&png(6, 2))), ("mask", bin(&gray))]]);
    let found = batch(&good, columns()).unwrap();
    assert_eq!(found.values::<u16>("mask").unwrap()[..4], [0, 85, 170, 255]);

    for (form, part) in [
        (bin(&png(6, 2)), "expected a mask of grey or with a palette, found Png of Rgb"),
        (bin(&encoded(ColorType::Indexed, BitDepth::Eight, &plain)[..80]), "Png: "),
        (nd("|i1", &[2, 6], &[255; 12]), "expected numbers of type u2, found -1"),
        (nd("<f4", &[2, 6], &[1; 48]), "expected numbers of type u2, found"),
        (nd("<c8", &[2, 6], &[0; 96]), "expected an image or an array of shape [2, 6] as mask"),
        (nd("<u2", &[6, 2], &little), "of shape [2, 6] as mask, found shape [6, 2]"),
        (nd("<u2", &[3, 6], &[0; 36]), "of shape [2, 6] as mask, found shape [3, 6]"),
        (nd("<u2", &[0], &[]), "of shape [2, 6] as mask, found 0 rows"),
        (Value::Array(vec![list(&plain[..6])]), "of shape [2, 6] as mask, found 1 rows"),
        // Decoders scale these to 255 or 65535.
        (bin(&[&b"P5 6 2 20\n"[..], &plain].concat()), "up to 255 or 65535, found up to 20"),
        (bin(&[&b"P5 6 2 254\n"[..], &plain].concat()), "up to 255 or 65535, found up to 254"),
        (bin(&[&b"P5 6 2 300\n"[..], &wide].concat()), "up to 255 or 65535, found up to 300"),
        (bin(b"P2 6 2 3\n0 1 2 3 0 1 3 2 1 0 3 2\n"), "found up to 3"),
        (bin(b"P4 6 2\n\x50\x50"), "up to 255 or 65535, found up to 1"),
        (Value::from("text"), "of shape [2, 6] as mask, found"),
        (bin(b"no image"), "expected an image, found other bytes"),
    ] {
        let reader = reader([vec![("image", bin(&png(6, 2))), ("mask", form)]]);
        let error = batch(&reader, columns()).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("field \"mask\""), "{error}");
    }
    // A number that the type of the column does not have.
    let high = encoded(ColorType::Grayscale, BitDepth::Eight, &[200; 12]);
    let reader = reader([vec![("image", bin(&png(6, 2))), ("mask", bin(&high))]]);
    let columns = Columns::new().image::<u8>("image", pipeline("center_crop((2, 6))"));
    let error = batch(&reader, columns.mask("mask", Mask::<i8>::of("image"))).unwrap_err();
    assert!(error.to_string().contains("expected a mask of type i1, found 200"), "{error}");
}

fn mask_of<T: kiste::loader::Element>(form: &Value) -> Result<Vec<T>> {
    let reader = reader([vec![("image", bin(&png(6, 2))), ("mask", form.clone())]]);
    let columns = Columns::new().image::<u8>("image", pipeline("center_crop((2, 6))"));
    Ok(batch(&reader, columns.mask("mask", Mask::<T>::of("image")))?.values::<T>("mask")?.to_vec())
}

/// Of any type as any type that has the numbers.
#[test]
fn masks_of_any_type_as_any() {
    let ones = [0u8, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0];
    macro_rules! bytes {
        ($($code:literal $type:ty;)*) => {
            vec![$(nd($code, &[2, 6], &ones.iter().flat_map(|&n| {
                <$type>::from(n).to_le_bytes()
            }).collect::<Vec<u8>>()),)*]
        };
    }
    let mut forms = bytes! {
        "|u1" u8; "<u2" u16; "<u4" u32; "<u8" u64; "<i2" i16; "<i4" i32; "<i8" i64;
    };
    forms.push(nd("|b1", &[2, 6], &ones));
    forms.push(nd("|i1", &[2, 6], &ones));
    forms.push(bin(&encoded(png::ColorType::Grayscale, png::BitDepth::Eight, &ones)));
    forms.push(bin(&encoded(png::ColorType::Indexed, png::BitDepth::Eight, &ones)));
    for form in &forms {
        macro_rules! as_each {
            ($($type:ty)*) => {$(
                let wanted = ones.map(|n| <$type>::from_number(Number::Signed(n.into())).unwrap());
                assert_eq!(mask_of::<$type>(form).unwrap(), wanted, "{form:?}");
            )*};
        }
        use kiste::loader::Element;
        use kiste::value::Number;
        as_each! { bool u8 u16 u32 u64 i8 i16 i32 i64 half::f16 f32 f64 }
    }
    let two = nd("|u1", &[2, 6], &[2; 12]);
    assert!(mask_of::<bool>(&two).unwrap_err().to_string().contains("expected numbers of type b1"));
}

/// Numbers of classes and instances are the same, or an error.
#[test]
fn masks_whose_integers_a_float_cannot_hold() {
    let of = |code: &str, bytes: &[u8]| nd(code, &[2, 6], &bytes.repeat(12));
    let listed = |n: i64| Value::Array(vec![Value::Array(vec![n.into(); 6]); 2]);
    let wide = |n: u16| {
        let bytes = n.to_be_bytes().repeat(12);
        bin(&encoded(png::ColorType::Grayscale, png::BitDepth::Sixteen, &bytes))
    };
    let (odd, even) = (16_777_217i64, 16_777_218i64);
    for form in [of("<i8", &odd.to_le_bytes()), listed(odd), listed(-odd)] {
        let error = mask_of::<f32>(&form).unwrap_err().to_string();
        assert!(error.contains("of type f4, found"), "{error}");
        assert_eq!(mask_of::<f64>(&form).unwrap()[0].abs(), odd as f64);
    }
    for form in [of("<i8", &even.to_le_bytes()), listed(even)] {
        assert_eq!(mask_of::<f32>(&form).unwrap(), [even as f32; 12]);
    }
    for form in [of("<u2", &2049u16.to_le_bytes()), wide(2049), listed(2049)] {
        assert!(mask_of::<half::f16>(&form).is_err(), "{form:?}");
        assert_eq!(mask_of::<f32>(&form).unwrap(), [2049.0; 12]);
    }
    assert_eq!(mask_of::<half::f16>(&wide(2048)).unwrap(), [half::f16::from_f32(2048.0); 12]);
    let largest = of("<u8", &u64::MAX.to_le_bytes());
    assert_eq!(mask_of::<u64>(&largest).unwrap(), [u64::MAX; 12]);
    assert!(mask_of::<f64>(&largest).is_err() && mask_of::<i64>(&largest).is_err());
    let smallest = of("<i8", &i64::MIN.to_le_bytes());
    assert_eq!(mask_of::<f32>(&smallest).unwrap(), [i64::MIN as f32; 12]);
    // Only floats are rounded.
    assert_eq!(mask_of::<f32>(&of("<f8", &0.1f64.to_le_bytes())).unwrap(), [0.1; 12]);
}

/// Whatever the bytes are, there is a mask or an error, and nothing of the mask before it.
#[test]
fn masks_with_flipped_bytes() {
    use png::{BitDepth, ColorType};
    let noise: Vec<u8> = (0..24u8).map(|n| n.wrapping_mul(151)).collect();
    let sources = [
        encoded(ColorType::Indexed, BitDepth::Two, &noise[..4]),
        encoded(ColorType::Grayscale, BitDepth::Sixteen, &noise),
        [&b"P5 6 2 255\n"[..], &noise[..12]].concat(),
    ];
    let image = bin(&png(6, 2));
    let mut masks: Vec<Vec<u8>> = Vec::new();
    for source in &sources {
        for at in 0..source.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut flipped = source.clone();
                flipped[at] ^= flip;
                masks.push(flipped);
            }
            masks.push(source[..at].to_vec());
        }
    }
    let columns = Columns::new().image::<u8>("image", pipeline("center_crop((2, 6))"));
    let columns = columns.mask("mask", Mask::<u16>::of("image").fill(9));
    let found = |order: Vec<usize>| {
        let reader = reader(
            order.iter().map(|&at| vec![("image", image.clone()), ("mask", bin(&masks[at]))]),
        );
        let options = Loader::options(reader.clone(), Sequential::new(reader_len(&reader)));
        let options = options.batch_size(10_000).threads(0).on_error(OnError::Placeholder);
        let batch = options.columns(columns.clone()).unwrap().next().unwrap().unwrap();
        let bad: Vec<usize> = batch.failures.iter().map(|bad| order[bad.index as usize]).collect();
        let rows = batch.data.values::<u16>("mask").unwrap().chunks(12);
        let rows: std::collections::BTreeMap<usize, Vec<u16>> =
            order.iter().copied().zip(rows.map(<[u16]>::to_vec)).collect();
        (rows, bad.into_iter().collect::<std::collections::BTreeSet<_>>())
    };
    let forth = found((0..masks.len()).collect());
    let back = found((0..masks.len()).rev().collect());
    assert_eq!(forth, back);
    assert!(!forth.1.is_empty() && forth.1.len() < masks.len());
}

pub(super) fn list(boxes: &[[f64; 4]]) -> Value {
    let row = |row: &[f64; 4]| Value::Array(row.iter().map(|&side| side.into()).collect());
    Value::Array(boxes.iter().map(row).collect())
}

#[test]
fn boxes_with_labels_that_go_with_them() {
    let classes = |of: &[i64]| Value::Array(of.iter().map(|&class| class.into()).collect());
    let three = [[0.0, 0.0, 4.0, 4.0], [8.0, 2.0, 16.0, 10.0], [19.0, 0.0, 20.0, 10.0]];
    let floats: Vec<u8> =
        three.as_flattened().iter().flat_map(|n| (*n as f32).to_be_bytes()).collect();
    let shorts: Vec<u8> =
        three.as_flattened().iter().flat_map(|n| (*n as i16).to_le_bytes()).collect();
    let packed = NdArray::new("<i2".parse().unwrap(), vec![3, 4], &shorts).unwrap();
    let forms = [
        (list(&three), vec![7, 8, 9]),
        (nd(">f4", &[3, 4], &floats), vec![7, 8, 9]),
        (bin(&PackOptions::default().pack(&packed).unwrap()), vec![7, 8, 9]),
        (nd("<f8", &[0], &[]), vec![]),
        (nd("<f8", &[0, 4], &[]), vec![]),
        (Value::Array(Vec::new()), vec![]),
    ];
    let reader = reader(forms.map(|(boxes, labels)| {
        vec![("image", bin(&png(20, 10))), ("boxes", boxes), ("labels", classes(&labels))]
    }));
    let crop = "center_crop(10) | resize((20, 20))";
    let columns = |boxes: Boxes| {
        Columns::new()
            .image::<u8>("image", pipeline(crop))
            .boxes("boxes", boxes)
            .labels("labels", Labels::<i64>::of("boxes"))
            .kept("kept", "boxes")
    };
    let all = batch(&reader, columns(Boxes::of("image"))).unwrap();
    assert_eq!(all.offsets("boxes").unwrap(), [0, 3, 6, 9, 9, 9, 9]);
    let one = [[0.0, 0.0, 0.0, 8.0], [6.0, 4.0, 20.0, 20.0], [20.0, 0.0, 20.0, 20.0]];
    let found = all.array::<f32>("boxes").unwrap();
    assert_eq!(found.shape(), [9, 4]);
    let expected = one.as_flattened().repeat(3);
    assert_eq!(
        all.values::<f32>("boxes").unwrap(),
        expected.iter().map(|&n| n as f32).collect::<Vec<_>>()
    );
    assert_eq!(all.values::<i64>("labels").unwrap(), [7, 8, 9].repeat(3));
    assert_eq!(all.values::<i64>("kept").unwrap(), [0, 1, 2].repeat(3));

    let left = batch(&reader, columns(Boxes::of("image").remove_empty())).unwrap();
    assert_eq!(left.values::<f32>("boxes").unwrap(), [6.0, 4.0, 20.0, 20.0].repeat(3));
    assert_eq!(left.values::<i64>("labels").unwrap(), [8, 8, 8]);
    assert_eq!(left.values::<i64>("kept").unwrap(), [1, 1, 1]);
    assert_eq!(left.lengths("labels").unwrap(), [1, 1, 1, 0, 0, 0]);

    let none = batch(&reader, columns(Boxes::of("image").remove_below(15.0, 0.0))).unwrap();
    assert_eq!(none.array::<f32>("boxes").unwrap().shape(), [0, 4]);

    // Padded, and in another format.
    let format = BoxFormat::Cxcywh;
    let centres = three.map(|one| format.of_xyxy(one));
    let padded = || Padded::buckets([2, 5]).fill(-1.0);
    let columns = Columns::new()
        .image::<u8>("image", pipeline(crop))
        .boxes("c", Boxes::of("image").format(format).padded(padded()))
        .labels("labels", Labels::of("c").padded(Padded::longest().fill(-1i8)));
    let reader = self::reader([
        vec![("image", bin(&png(20, 10))), ("c", list(&centres)), ("labels", classes(&[1, 2, 3]))],
        vec![("image", bin(&png(20, 10))), ("c", list(&[])), ("labels", classes(&[]))],
    ]);
    let found = batch(&reader, columns).unwrap();
    let boxes = found.array::<f32>("c").unwrap();
    assert_eq!(boxes.shape(), [2, 5, 4]);
    assert_eq!(boxes.as_slice().unwrap()[4..8], [13.0, 12.0, 14.0, 16.0]);
    assert!(boxes.as_slice().unwrap()[12..].iter().all(|&side| side == -1.0));
    assert_eq!(found.values::<i8>("labels").unwrap(), [1, 2, 3, -1, -1, -1]);
}

#[test]
fn annotations_that_are_refused() {
    let images = || Columns::new().image::<u8>("image", pipeline("center_crop(8)"));
    let good = || vec![("image", bin(&png(9, 9))), ("boxes", list(&[[0.0, 0.0, 1.0, 1.0]]))];
    let start = |columns: Columns| batch(&reader([good()]), columns).unwrap_err().to_string();
    assert_eq!(
        start(Columns::new().mask("mask", Mask::<u8>::of("image"))),
        "column \"mask\": expected a column of images before it, of [], found \"image\""
    );
    assert_eq!(
        start(images().labels("labels", Labels::<u8>::of("image"))),
        "column \"labels\": expected a column of boxes before it, of [], found \"image\""
    );
    let edges = pipeline("random_crop(8, padding=2, padding_mode=edge)");
    assert_eq!(
        start(Columns::new().image::<u8>("image", edges).boxes("boxes", Boxes::of("image"))),
        "column \"boxes\": expected padding_mode=constant for images with boxes, found edge"
    );
    let error = start(images().boxes("boxes", Boxes::of("image").remove_below(f64::NAN, 1.0)));
    assert!(error.contains("expected a side and an area of 0 or more"), "{error}");
    let error = start(
        images().boxes("boxes", Boxes::of("image")).labels("classes", Labels::<u8>::of("boxes")),
    );
    assert!(error.contains("there is no field \"classes\""), "{error}");

    for (boxes, part) in [
        (list(&[[0.0, f64::NAN, 1.0, 1.0]]), "expected boxes of finite numbers"),
        (Value::Array(vec![Value::from(1)]), "expected lists of numbers of shape [4]"),
        (nd("<f4", &[4], &[0; 16]), "with rows of shape [4]"),
        (nd("<c8", &[1, 4], &[0; 32]), "expected an array of boxes, of 4 numbers each"),
        (bin(&[0; 16]), "expected an array of boxes, of 4 numbers each, found"),
        (nd("<f4", &[2, 4], &[0; 16]), "expected data of 2 rows, found 1"),
    ] {
        let reader = reader([vec![("image", bin(&png(9, 9))), ("boxes", boxes)]]);
        let columns = images().boxes("boxes", Boxes::of("image"));
        let error = batch(&reader, columns).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("field \"boxes\""), "{error}");
    }
    // A row too few, and how a bad image concerns what follows it.
    let classes = Value::Array(Vec::new());
    let mut bad = good();
    bad[0].1 = bin(b"");
    let reader = reader([
        [good(), vec![("labels", Value::Array(vec![1.into()]))]].concat(),
        [good(), vec![("labels", classes.clone())]].concat(),
        [bad, vec![("labels", classes)]].concat(),
    ]);
    let columns =
        images().boxes("boxes", Boxes::of("image")).labels("labels", Labels::<u8>::of("boxes"));
    for (policy, offsets) in [(OnError::Skip, vec![0, 1]), (OnError::Placeholder, vec![0, 1, 1, 1])]
    {
        let options = Loader::options(reader.clone(), Sequential::new(3)).on_error(policy);
        let mut loader = options.epochs(1).columns(columns.clone()).unwrap();
        let batch = loader.next().unwrap().unwrap();
        assert_eq!(batch.data.offsets("boxes").unwrap(), offsets);
        assert_eq!(batch.data.offsets("labels").unwrap(), offsets);
        let fields: Vec<_> = batch.failures.iter().map(|failure| failure.error.field()).collect();
        assert_eq!(fields, [Some("labels"), Some("image")]);
        let error = batch.failures[0].error.to_string();
        assert!(error.contains("expected 1 rows, one for each box, found 0"), "{error}");
    }
}

/// What follows an image draws the numbers of its record, in any run.
#[test]
fn the_same_for_a_run_that_is_resumed() {
    let reader = reader((0..9).map(|n| {
        let (image, numbers) = numbered(30 + n, 40);
        let mask: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        vec![("image", bin(&image)), ("mask", nd("<u2", &[40, u64::from(30 + n)], &mask))]
    }));
    let random = "seed(5) | random_resized_crop(8, interpolation=nearest) | hflip";
    let columns = || {
        let images = Columns::new().image::<u8>("image", pipeline(random));
        images.mask("mask", Mask::<u16>::of("image")).row::<u64>(
            "at",
            &[],
            |record: &Record<'_>, row| {
                row[0] = record.position();
                Ok(())
            },
        )
    };
    let rows = |world: u64, size: u64, start: State| {
        let mut rows = std::collections::BTreeMap::new();
        for rank in 0..world {
            let options = Loader::options(reader.clone(), Shuffle::new(9, 2)).rank(rank, world);
            let options = options.batch_size(size).resume(start).epochs(2 - start.epoch).threads(2);
            for batch in options.columns(columns()).unwrap() {
                let batch = batch.unwrap();
                let masks = batch.data.values::<u16>("mask").unwrap().chunks_exact(64);
                for (at, mask) in batch.data.values::<u64>("at").unwrap().iter().zip(masks) {
                    rows.insert((batch.epoch, *at), mask.to_vec());
                }
            }
        }
        rows
    };
    let all = rows(1, 4, State::default());
    assert_eq!(all.len(), 18);
    let rest = rows(3, 1, State::new(1, 3));
    assert_eq!(rest.len(), 6);
    assert!(rest.iter().all(|(place, row)| all[place] == *row));
}

fn with_boxes(boxes: Value, labels: Value) -> Arc<ListReader> {
    reader([vec![("image", bin(&png(20, 10))), ("boxes", boxes), ("labels", labels)]])
}

fn following(boxes: Boxes, labels: Labels<i64>) -> Columns {
    let images = Columns::new().image::<u8>("image", pipeline("center_crop((10, 20))"));
    images.boxes("boxes", boxes).labels("labels", labels).kept("kept", "boxes")
}

#[test]
fn what_follows_boxes_that_were_cut() {
    let five: Vec<[f64; 4]> = (0..5).map(|n| [f64::from(n), 0.0, 10.0, 10.0]).collect();
    let classes = Value::Array((0..5).map(|n| (10 * n).into()).collect());
    let reader = with_boxes(list(&five), classes);
    let labels = || Labels::<i64>::of("boxes");
    let cut = || Boxes::of("image").padded(Padded::buckets([2]).cut());
    let found = batch(&reader, following(cut(), labels())).unwrap();
    assert_eq!(found.array::<f32>("boxes").unwrap().shape(), [1, 2, 4]);
    assert_eq!(found.values::<i64>("labels").unwrap(), [0, 10]);
    assert_eq!(found.values::<i64>("kept").unwrap(), [0, 1]);
    // Those that are removed do not count.
    let found = batch(&reader, following(cut().remove_below(7.0, 0.0), labels())).unwrap();
    assert_eq!(found.values::<i64>("kept").unwrap(), [0, 1]);
    let error =
        batch(&reader, following(Boxes::of("image").padded(Padded::buckets([2])), labels()));
    let error = error.unwrap_err();
    assert_eq!(error.field(), Some("boxes"));
    assert!(error.to_string().contains("expected up to 2 rows, found 5"), "{error}");
}

/// Ends up in the address space of no machine if rows are not counted first.
#[test]
fn labels_of_large_rows_for_many_boxes() {
    let boxes = nd("|u1", &[1 << 20, 4], &vec![0; 4 << 20]);
    let reader = with_boxes(boxes, Value::Array(vec![0.into(); 1 << 20]));
    let labels = Labels::<i64>::of("boxes").row(&[1 << 10, 1 << 10]);
    let error = batch(&reader, following(Boxes::of("image"), labels)).unwrap_err();
    let expected = "expected lists of numbers of shape [1024, 1024], found a list of 1048576";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn labels_of_any_type() {
    let pair = list(&[[0.0, 0.0, 4.0, 4.0], [1.0, 0.0, 4.0, 4.0]]);
    let labels = || Labels::<i64>::of("boxes");
    let columns = || following(Boxes::of("image"), labels());
    for form in [
        nd("<i4", &[2], &[7, 0, 0, 0, 8, 0, 0, 0]),
        nd("|u1", &[2], &[7, 8]),
        nd(">u2", &[2], &[0, 7, 0, 8]),
        bin(&[7i64.to_le_bytes(), 8i64.to_le_bytes()].concat()),
    ] {
        let found = batch(&with_boxes(pair.clone(), form), columns()).unwrap();
        assert_eq!(found.values::<i64>("labels").unwrap(), [7, 8]);
    }
    // As NumPy makes it of `[]`, with no boxes.
    let empty = nd("<f8", &[0], &[]);
    let found = batch(&with_boxes(nd("<f8", &[0, 4], &[]), empty.clone()), columns()).unwrap();
    assert_eq!(found.offsets("labels").unwrap(), [0, 0]);
    let of_rows = following(Boxes::of("image"), labels().row(&[17, 3]));
    let found = batch(&with_boxes(empty.clone(), empty.clone()), of_rows.clone()).unwrap();
    assert_eq!(found.array::<i64>("labels").unwrap().shape(), [0, 17, 3]);
    for (columns, form, part) in [
        (columns(), empty, "expected 2 rows, one for each box, found 0 rows"),
        (columns(), nd("<f4", &[2], &[0; 8]), "expected numbers of type i8, found 0.0"),
        (columns(), nd("<i8", &[2, 1], &[0; 16]), "one for each box, found shape [2, 1]"),
        (of_rows, nd("<i8", &[2], &[0; 16]), "2 rows of shape [17, 3], one for each box"),
        (columns(), nd("junk", &[0], &[]), "one for each box, found type \"junk\""),
    ] {
        let error = batch(&with_boxes(pair.clone(), form), columns).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("field \"labels\""), "{error}");
    }
}

/// Sides are compared as the batch has them: in double precision these are a little below a pixel.
#[test]
fn boxes_of_a_pixel_after_scaling() {
    for (size, to, one) in [(50, 10, [38.0, 0.0, 43.0, 50.0]), (60, 20, [2.0, 0.0, 5.0, 60.0])] {
        let reader = reader([vec![("image", bin(&png(size, size))), ("boxes", list(&[one]))]]);
        let columns = Columns::new()
            .image::<u8>("image", pipeline(&format!("resize(({to}, {to}))")))
            .boxes("boxes", Boxes::of("image").remove_empty());
        let found = batch(&reader, columns).unwrap();
        let [left, _, right, _] = found.values::<f32>("boxes").unwrap() else { panic!("{one:?}") };
        assert!(right - left >= 1.0);
    }
}

/// Of a plan that was written elsewhere nothing is believed.
#[test]
fn plans_that_contradict_themselves() {
    use kiste::image::Plan;
    let of = |height: u32, width: u32, orientation: u8, end: u32, actions: &str| -> Plan {
        let text = format!(
            r#"{{"source": {{"height": {height}, "width": {width}}}, "orientation": {orientation},
                "actions": {actions}, "size": {{"height": {end}, "width": {end}}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    };
    let resize = r#"[{"resize": {"size": {"height": 2, "width": 2}, "interpolation": "nearest"}}]"#;
    assert_eq!(of(1, 1, 1, 2, resize).move_mask(&[7u8], 0).unwrap(), [7; 4]);
    assert!(of(1, 1, 1, 2, resize).move_boxes(&mut [[0.0; 4]]).is_ok());
    for (plan, part) in [
        (of(0, 0, 1, 2, resize), "expected an image, found one without pixels"),
        (of(u32::MAX, 0, 1, 2, resize), "expected an image, found one without pixels"),
        (of(1, 1, 0, 2, resize), "expected an orientation of 1 to 8, found 0"),
        (of(1, 1, 9, 2, resize), "expected an orientation of 1 to 8, found 9"),
        (of(1, 1, 1, 3, resize), "expected actions that end with 3 × 3, found 2 × 2"),
        (of(1, 1, 1, 1, resize), "expected actions that end with 1 × 1, found 2 × 2"),
    ] {
        let error = plan.move_mask::<u8>(&[], 0).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        let error = plan.move_boxes(&mut [[0.0; 4]]).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let large = of(1 << 20, 1 << 20, 1, 2, resize).move_mask::<u8>(&[], 0).unwrap_err();
    assert_eq!(large.kind(), kiste::ErrorKind::Limit);
}
