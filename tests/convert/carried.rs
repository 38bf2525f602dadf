//! Values of every kind through every format and back, compared with the table of what each format does
//! with them.
//!
//! A value is carried exactly, so the same bytes come back; or changed, so that it comes back as a model
//! here says, and the run counts it; or refused by an error that names sample and field, and nothing is
//! written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kiste::convert::{
    BadInput, Carried, Conversion, Extent, Format, NumberKind, Report, Silent, ValueKind,
    ValuePlace,
};
use kiste::format::msgpack::numpy::{Special, recognise};
use kiste::format::msgpack::to_vec;
use kiste::value::{Casting, DType, NdArray};
use kiste::{DatasetReader, Value, Writer};
use tempfile::TempDir;

use Carried::{Changed, Exact, Refused};
use NumberKind as N;
use ValueKind as V;

/// Samples of each trip; for each there is one value of every kind.
const SAMPLES: usize = 120;

/// A generator of random numbers: SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// A number of any size, small ones as often as large ones.
    fn sized(&mut self) -> u64 {
        self.next() >> self.below(64)
    }

    /// A float of 64 bits within the range of 32 bits.
    fn float(&mut self) -> f64 {
        match self.below(4) {
            0 => self.pick(&[0.0, -0.0, 1.0, 0.1, 1e-300, f64::from(f32::MAX), 5e-324]),
            1 => f64::from(f32::from_bits((self.next() as u32) & 0xbfff_ffff)),
            2 => (self.sized() as i64) as f64,
            _ => (self.next() as f64 / u64::MAX as f64 - 0.5) * 1e6,
        }
    }

    fn text(&mut self) -> String {
        let pieces =
            ["a", "B", "ß", "日本", "\"", ",", "\n", "\r\n", "\t", "\0x", "😀", "$f", " ", "%2E"];
        let mut text = "x".to_owned();
        for _ in 0..self.below(8) {
            text += self.pick(&pieces);
        }
        text
    }
}

/// What all values of a field have in common: formats with columns need that.
#[derive(Clone)]
struct Column {
    kind: ValueKind,
    dtype: DType,
    /// The shape of arrays.
    shape: Vec<usize>,
    /// What is in lists, or in the entries of maps.
    items: Vec<Column>,
}

fn dtypes(number: NumberKind) -> &'static [&'static str] {
    match number {
        N::Bool => &["|b1"],
        N::Int => &["|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<u8"],
        N::Int64 => &["<i8"],
        N::LargeInt => &["<u8"],
        N::Half => &["<f2"],
        N::Single => &["<f4"],
        N::Double | N::HugeDouble => &["<f8"],
        N::Complex => &["<c8", "<c16"],
        N::Date => &["<M8[D]"],
        N::Time => {
            &["<M8[s]", "<M8[ms]", "<M8[us]", "<M8[ns]", "<m8[s]", "<m8[ms]", "<m8[us]", "<m8[ns]"]
        }
        N::OtherTime => &["<M8[Y]", "<M8[25s]", "<m8[D]", "<M8", "<m8[h]"],
        N::BigEndianInt => &[">i2", ">u4", ">i8", ">u8"],
        N::BigEndianFloat => &[">f4", ">f8"],
        N::BigEndianHuge => &[">u8", ">f8"],
        N::OtherNumber => &[">f2", ">c8", ">M8[s]", "<f16"],
        N::Text => &["<U3", "|S4", ">U2"],
        N::Struct => &["|V5"],
        _ => &["|O"],
    }
}

impl Column {
    /// A column of this kind. What is in lists and maps is of kinds that `within` says.
    fn new(kind: ValueKind, within: &[ValueKind], rng: &mut Rng) -> Column {
        let number = match kind {
            V::Scalar(number) | V::Array(number, _) => number,
            _ => N::Int64,
        };
        let dtype = rng.pick(dtypes(number)).parse().unwrap_or(DType::object());
        let shape = match kind {
            V::Array(_, Extent::Flat) => vec![2 + rng.below(4)],
            V::Array(_, Extent::One) => vec![1],
            V::Array(_, Extent::Grid) => vec![1 + rng.below(3), 1 + rng.below(3)],
            V::Array(_, Extent::Empty) => rng.pick(&[&[0][..], &[2, 0], &[0, 3]]).to_vec(),
            _ => Vec::new(),
        };
        let kinds = match kind {
            _ if within.is_empty() => 0,
            V::List => 1,
            V::Map | V::MapOfOtherKeys => 1 + rng.below(3),
            V::MixedList => 3,
            _ => 0,
        };
        let flat: Vec<ValueKind> =
            within.iter().copied().filter(|kind| !matches!(kind, V::MixedList)).collect();
        let items = (0..kinds).map(|_| {
            // Containers in containers in containers, and then no more.
            let kind = rng.pick(&flat);
            Column::new(kind, &[V::Int, V::Text], rng)
        });
        Column { kind, dtype, shape, items: items.collect() }
    }

    fn value(&self, rng: &mut Rng) -> Value {
        match self.kind {
            V::Nil => Value::Nil,
            V::Bool => (rng.below(2) == 1).into(),
            V::Int => (rng.sized() as i64).wrapping_mul(rng.pick(&[1, -1])).into(),
            V::LargeInt => (rng.next() | 1 << 63).into(),
            V::Float => Value::F64(rng.float()),
            V::HugeFloat => Value::F64(rng.pick(&[1e39, -1e300, f64::MAX, 4e38])),
            V::NotFinite => Value::F64(rng.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY])),
            V::OddNan => Value::F64(f64::from_bits(rng.pick(&[
                0xfff8_0000_0000_0000,
                0x7ff8_0000_4000_0000,
                0x7ff8_dead_0000_0000,
            ]))),
            V::Float32 => Value::F32(rng.float() as f32),
            V::Text => rng.text().into(),
            V::TextEndingInZero => format!("{}\0", rng.text()).into(),
            V::Bytes => {
                let starts: [&[u8]; 4] = [b"", b"\xff\xd8\xff", b"blpk\x03", b"\x89PNG\r\n\x1a\n"];
                let mut bytes = rng.pick(&starts).to_vec();
                let len = rng.below(20);
                bytes.extend(rng.bytes(len));
                bytes.into()
            }
            V::Complex => {
                let parts = [0.0, -0.0, 1.5, f64::NAN, f64::INFINITY, 1e-20, 1e300];
                Special::Complex(rng.pick(&parts), rng.pick(&parts)).to_value()
            }
            V::Timestamp => Value::Ext(-1, (rng.next() as u32).to_be_bytes().to_vec()),
            V::Extension => {
                let len = 1 + rng.below(9);
                Value::Ext(rng.pick(&[0, 7, -128, 127]), rng.bytes(len))
            }
            V::List => {
                let [item] = &self.items[..] else {
                    return Value::Array((0..2).map(|n| n.into()).collect());
                };
                Value::Array((0..1 + rng.below(4)).map(|_| item.value(rng)).collect())
            }
            V::EmptyList => Value::Array(Vec::new()),
            V::MixedList => {
                let mut items: Vec<Value> = self.items.iter().map(|item| item.value(rng)).collect();
                items.extend([7.into(), "x".into(), Value::Nil]);
                Value::Array(items)
            }
            V::Map => {
                let names = ["b", "", "$f", "type", "nd", "日本"];
                let items = self.items.iter().zip(names);
                let mut entries: Vec<(Value, Value)> =
                    items.map(|(item, name)| (name.into(), item.value(rng))).collect();
                entries.push(("last".into(), 1.into()));
                Value::Map(entries)
            }
            V::EmptyMap => Value::Map(Vec::new()),
            V::MapOfOtherKeys => {
                let keys = [Value::from(7), Value::from(b"nd".to_vec()), "a".into(), "a".into()];
                let at = rng.below(3);
                let twice = [(keys[at].clone(), 1.into()), (keys[at].clone(), 2.into())];
                let items = self.items.iter().map(|item| (Value::from(-1), item.value(rng)));
                Value::Map(items.chain(twice).collect())
            }
            V::Array(N::Object, _) => objects(&[1; 16]),
            V::Scalar(number) => Special::Scalar(self.array(number, rng)).to_value(),
            V::Array(number, _) => Special::Array(self.array(number, rng)).to_value(),
            other => panic!("a kind without a generator: {other:?}"),
        }
    }

    fn array(&self, number: NumberKind, rng: &mut Rng) -> NdArray<'static> {
        let count: usize = self.shape.iter().product();
        let size = self.dtype.item_size();
        let mut data = Vec::new();
        for at in 0..count {
            match number {
                N::Bool => data.push(rng.below(2) as u8),
                N::Int if size == 8 => data.extend((rng.sized() >> 1).to_le_bytes()),
                N::LargeInt if at == 0 => data.extend((rng.next() | 1 << 63).to_le_bytes()),
                N::Double => data.extend(rng.float().to_le_bytes()),
                N::HugeDouble if at == 0 => data.extend(1e300f64.to_le_bytes()),
                N::BigEndianInt => {
                    let bytes = (rng.sized() >> 1).to_be_bytes();
                    data.extend(&bytes[8 - size..]);
                }
                N::BigEndianFloat if size == 8 => data.extend(rng.float().to_be_bytes()),
                N::BigEndianHuge if at == 0 && self.dtype.to_string() == ">u8" => {
                    data.extend((rng.next() | 1 << 63).to_be_bytes());
                }
                N::BigEndianHuge if at == 0 => data.extend(1e300f64.to_be_bytes()),
                N::Date => data.extend(i64::from(rng.sized() as i32).to_le_bytes()),
                // Seconds become milliseconds in Parquet, which have the range that they have.
                N::Time => data.extend(((rng.sized() as i64) >> 12).to_le_bytes()),
                // Characters.
                N::Text => {
                    let unit = if self.dtype.to_string().contains('S') { 1 } else { 4 };
                    let big = self.dtype.to_string().starts_with('>');
                    for _ in 0..size / unit {
                        let mut one = vec![b'a' + rng.below(26) as u8];
                        one.resize(unit, 0);
                        if big {
                            one.reverse();
                        }
                        data.extend(one);
                    }
                }
                _ => data.extend(rng.bytes(size)),
            }
        }
        NdArray::new(self.dtype.clone(), &self.shape[..], data).unwrap()
    }
}

/// An array of Python objects.
fn objects(data: &[u8]) -> Value {
    let dtype = Value::Array(vec![Value::Array(vec!["".into(), "|O".into()])]);
    let shape = Value::Array(vec![(data.len() as u64 / 8).into()]);
    let entries: [(&str, Value); 5] = [
        ("nd", true.into()),
        ("type", dtype),
        ("kind", b"O".to_vec().into()),
        ("shape", shape),
        ("data", data.into()),
    ];
    Value::Map(entries.into_iter().map(|(name, value)| (name.as_bytes().into(), value)).collect())
}

/// The kinds that can be made: arrays of Python objects have one shape here.
fn kinds() -> Vec<ValueKind> {
    let is_made = |kind: &ValueKind| match kind {
        V::Array(N::Object, extent) => *extent == Extent::Flat,
        _ => true,
    };
    ValueKind::all().filter(is_made).collect()
}

/// All formats that can be written, except datasets.
fn formats() -> Vec<Format> {
    Format::writable()
        .filter(|format| *format != Format::Dataset && format.is_available())
        .collect()
}

/// A dataset of these fields. All formats need one more: images a picture.
fn dataset(path: &Path, samples: &[Vec<(String, Value)>]) -> PathBuf {
    let mut writer = Writer::create(path).unwrap();
    for (index, fields) in samples.iter().enumerate() {
        let picture = b"\x89PNG\r\n\x1a\n picture".to_vec();
        let mut entries = vec![
            (Value::from("key"), Value::from(format!("s.{index:04}"))),
            ("image".into(), picture.into()),
        ];
        entries.extend(fields.iter().map(|(name, value)| (name.as_str().into(), value.clone())));
        writer.write_packed(&to_vec(&Value::Map(entries)).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    path.to_path_buf()
}

/// The dataset in a format.
fn out(format: Format, dataset: &Path, dir: &TempDir) -> kiste::Result<Report> {
    exporting(format, dataset, dir).run(&mut Silent)
}

fn exporting(format: Format, dataset: &Path, dir: &TempDir) -> Conversion {
    let ending = format.extension().map_or(String::new(), |ending| format!(".{ending}"));
    let path = dir.path().join(format!("out{ending}"));
    // Formats without bytes do not take the picture.
    let conversion = Conversion::new([dataset], path).to(format);
    match format {
        Format::Npz | Format::Csv => conversion.drop_fields(["image"]),
        _ => conversion,
    }
}

/// What comes back, by name.
fn back(format: Format, report: &Report, dir: &TempDir) -> Vec<BTreeMap<String, Value>> {
    let path = dir.path().join("back.msgpack");
    let mut conversion = Conversion::new(report.outputs[0].files.clone(), &path).from(format);
    if matches!(format, Format::Mds | Format::Tfrecord | Format::Npz | Format::Csv) {
        conversion = conversion.key_field("key");
    }
    conversion.guess_types(format == Format::Csv).run(&mut Silent).unwrap();
    let reader = DatasetReader::open(&path).unwrap();
    let samples = (0..reader.len()).map(|index| {
        assert_eq!(reader.key(index).unwrap(), format!("s.{index:04}"));
        let Value::Map(entries) = reader.get(index).unwrap() else { panic!("no sample") };
        let name = |(name, value): (Value, Value)| (name.as_str().unwrap().to_owned(), value);
        entries.into_iter().map(name).collect()
    });
    samples.collect()
}

fn packed(value: &Value) -> Vec<u8> {
    to_vec(value).unwrap()
}

/// The value as a format gives it back, if the table says that it changes.
fn model(format: Format, kind: ValueKind, value: &Value) -> Value {
    match format {
        Format::Jsonl | Format::Images | Format::Webdataset => widened(value),
        Format::Mds => number(value).map_or_else(|| widened(value), |number| plain(&number)),
        Format::Npz => match number(value) {
            Some(number) => plain(&number),
            None => widened(value),
        },
        Format::Csv => csv(value),
        Format::Tfrecord => tfrecord(kind, value),
        other => panic!("{other} changes {kind}"),
    }
}

/// With floats of 64 bits.
fn widened(value: &Value) -> Value {
    match value {
        Value::F32(number) => Value::F64(f64::from(*number)),
        Value::Array(items) => Value::Array(items.iter().map(widened).collect()),
        value if recognise(value).is_some() => value.clone(),
        Value::Map(entries) => {
            let entries = entries.iter();
            Value::Map(entries.map(|(key, value)| (widened(key), widened(value))).collect())
        }
        value => value.clone(),
    }
}

/// The NumPy number that this is, or the array without axes.
fn number(value: &Value) -> Option<NdArray<'_>> {
    match recognise(value) {
        Some(Special::Scalar(array) | Special::Array(array)) if array.shape().is_empty() => {
            Some(array)
        }
        _ => None,
    }
}

/// The plain number, or the NumPy scalar if there is none.
fn plain(number: &NdArray<'_>) -> Value {
    if let Some(whole) = whole(number) {
        return whole;
    }
    match number.to_ndarray::<f64>() {
        Ok(double) => Value::F64(double.first().copied().unwrap()),
        Err(_) => Special::Scalar(number.clone()).to_value(),
    }
}

/// The plain integer or boolean.
fn whole(number: &NdArray<'_>) -> Option<Value> {
    macro_rules! first {
        ($($type:ty),*) => {$(
            if let Ok(found) = number.to_ndarray::<$type>() {
                // Times are counted in integers as well.
                let is_time = number.dtype().time_unit().is_some();
                return found.first().copied().filter(|_| !is_time).map(Value::from);
            }
        )*};
    }
    first!(bool, i8, i16, i32, i64, u8, u16, u32, u64);
    None
}

fn csv(value: &Value) -> Value {
    let digits = |number: f32| Value::F64(format!("{number:?}").parse().unwrap());
    match value {
        Value::Nil => "".into(),
        Value::Boolean(truth) => truth.to_string().into(),
        Value::F32(number) => digits(*number),
        Value::F64(_) => Value::F64(f64::NAN),
        value => {
            let number = number(value).unwrap();
            match number.to_ndarray::<f32>() {
                Ok(single) => digits(single.first().copied().unwrap()),
                Err(_) => match plain(&number) {
                    Value::Boolean(truth) => truth.to_string().into(),
                    plain => plain,
                },
            }
        }
    }
}

fn tfrecord(kind: ValueKind, value: &Value) -> Value {
    let single = |number: f32| Special::Scalar(NdArray::scalar(number)).to_value();
    match value {
        Value::Boolean(truth) => i64::from(*truth).into(),
        Value::F32(number) => single(*number),
        Value::F64(number) => single(*number as f32),
        Value::String(text) => text.as_bytes().into(),
        Value::Array(items) => {
            let items: Vec<Value> = items
                .iter()
                .map(|item| match item {
                    Value::Integer(_) | Value::Binary(_) => item.clone(),
                    item => tfrecord(kind, item),
                })
                .collect();
            match &items[..] {
                [one] => one.clone(),
                [Value::Integer(_), ..] => {
                    let ints: Vec<i64> = items.iter().map(|n| n.as_i64().unwrap()).collect();
                    flat(&ints)
                }
                [Value::Binary(_), ..] => Value::Array(items),
                _ => {
                    let floats: Vec<f32> = items
                        .iter()
                        .map(|n| {
                            number(n)
                                .unwrap()
                                .to_ndarray::<f32>()
                                .unwrap()
                                .first()
                                .copied()
                                .unwrap()
                        })
                        .collect();
                    flat(&floats)
                }
            }
        }
        value => {
            let Some(Special::Array(array) | Special::Scalar(array)) = recognise(value) else {
                panic!("{kind} changes")
            };
            let is_float = matches!(
                kind,
                V::Scalar(N::Half | N::Single | N::Double | N::BigEndianFloat)
                    | V::Array(N::Half | N::Single | N::Double | N::BigEndianFloat, _)
            );
            if is_float {
                let single_dtype = DType::of::<f32>();
                let cast = array.astype(&single_dtype, Casting::Unsafe).unwrap();
                let floats: Vec<f32> = cast.to_ndarray().unwrap().iter().copied().collect();
                return match floats[..] {
                    [one] => single(one),
                    _ => flat(&floats),
                };
            }
            let size = array.dtype().item_size();
            let ints: Vec<i64> = array
                .c_bytes()
                .chunks(size)
                .map(|item| {
                    let one = NdArray::new(array.dtype().clone(), [], item.to_vec()).unwrap();
                    match whole(&one).unwrap() {
                        Value::Boolean(truth) => truth.into(),
                        number => number.as_i64().unwrap(),
                    }
                })
                .collect();
            match ints[..] {
                [one] => one.into(),
                _ => flat(&ints),
            }
        }
    }
}

fn flat<T: kiste::value::Element>(numbers: &[T]) -> Value {
    Special::Array(NdArray::from_ndarray(&ndarray::aview1(numbers))).to_value()
}

/// Sends all kinds that a format carries there and back. Returns how many values that were, and what
/// was wrong with the first of each kind.
fn trip(format: Format, seed: u64) -> (usize, Vec<String>) {
    let mut rng = Rng(seed);
    let carried =
        |place| move |kind: &ValueKind| !matches!(format.carries(*kind, place), Refused(_));
    let is_plain = |kind: &ValueKind| *kind != V::EmptyMap;
    let within = kinds().into_iter().filter(carried(ValuePlace::Within)).filter(is_plain);
    let within: Vec<ValueKind> = within.collect();
    let columns: Vec<Column> = kinds()
        .into_iter()
        .filter(carried(ValuePlace::Field))
        // A column of nothing but empty maps has no entries.
        .filter(|kind| *kind != V::EmptyMap || !matches!(format, Format::Parquet | Format::Arrow))
        .map(|kind| Column::new(kind, &within, &mut rng))
        .collect();
    let samples: Vec<Vec<(String, Value)>> = (0..SAMPLES)
        .map(|_| {
            let fields = columns.iter().enumerate();
            fields.map(|(at, column)| (format!("f{at}"), column.value(&mut rng))).collect()
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let made = dataset(&dir.path().join("in.msgpack"), &samples);
    let report = match out(format, &made, &dir) {
        Ok(report) => report,
        Err(error) => return (0, vec![format!("{format}: {error}")]),
    };
    let found = back(format, &report, &dir);
    assert_eq!(found.len(), samples.len(), "{format}");
    let (mut values, mut flaws) = (0, Vec::new());
    for (at, Column { kind, .. }) in columns.iter().enumerate() {
        let name = format!("f{at}");
        let carried = format.carries(*kind, ValuePlace::Field);
        for (sample, found) in samples.iter().zip(&found) {
            let (_, value) = &sample[at];
            assert_eq!(ValueKind::of(&packed(value)).unwrap(), *kind, "{value:?}");
            let expected = match carried {
                // What is inside may change all the same.
                Exact if matches!(kind, V::List | V::MixedList | V::Map | V::MapOfOtherKeys) => {
                    widened(value)
                }
                Exact => value.clone(),
                _ => model(format, *kind, value),
            };
            let expected = match format {
                Format::Parquet | Format::Arrow => value.clone(),
                _ => expected,
            };
            let found = found.get(&name);
            if found.is_none_or(|found| packed(found) != packed(&expected)) {
                flaws.push(format!(
                    "{format}, {kind}: {value} comes back as {}, expected {expected}",
                    found.map_or("nothing".to_owned(), ToString::to_string),
                ));
                break;
            }
            values += count(value);
        }
        let counted = report.changes.iter().find(|c| c.field == name && c.kind == *kind);
        match carried {
            Changed(became) => {
                let counted = counted.unwrap_or_else(|| panic!("{format}, {kind}: not counted"));
                assert_eq!((counted.became, counted.values), (became, SAMPLES as u64));
            }
            _ => assert!(counted.is_none(), "{format}: {kind} are counted"),
        }
    }
    (values, flaws)
}

/// How many values this is, those within included.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        value if recognise(value).is_some() => 1,
        Value::Map(entries) => 1 + entries.iter().map(|(_, value)| count(value)).sum::<usize>(),
        _ => 1,
    }
}

#[test]
fn values_of_all_kinds_come_back_as_the_table_says() {
    let (mut values, mut flaws) = (0, Vec::new());
    for (format, seed) in formats().into_iter().zip(1..) {
        let (found, wrong) = trip(format, seed);
        values += found;
        flaws.extend(wrong);
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
    assert!(values >= 100_000, "{values} values");
}

#[test]
fn what_the_table_refuses_is_refused_with_sample_and_field() {
    for format in formats() {
        let mut refused: Vec<(Value, &str)> = Vec::new();
        for kind in kinds() {
            if let Refused(expected) = format.carries(kind, ValuePlace::Field) {
                refused.push((Column::new(kind, &[], &mut Rng(3)).value(&mut Rng(4)), expected));
            }
        }
        // A list that the format takes, of what it does not.
        let in_list = format.carries(V::List, ValuePlace::Field);
        for kind in kinds().into_iter().filter(|_| !matches!(in_list, Refused(_))) {
            if let Refused(expected) = format.carries(kind, ValuePlace::Within) {
                let value = Column::new(kind, &[], &mut Rng(3)).value(&mut Rng(4));
                refused.push((Value::Array(vec![value]), expected));
            }
        }
        if let Some((value, _)) = refused.first() {
            stops(format, value);
            sets_aside(format, &refused);
        }
    }
}

fn odd(value: &Value) -> Vec<(String, Value)> {
    vec![("odd".to_owned(), value.clone())]
}

/// The run ends with an error that names sample and field, and leaves nothing.
fn stops(format: Format, value: &Value) {
    let dir = tempfile::tempdir().unwrap();
    let made = dataset(&dir.path().join("in.msgpack"), &[odd(value)]);
    let before = std::fs::read_dir(dir.path()).unwrap().count();
    let error = out(format, &made, &dir).unwrap_err();
    assert_eq!((error.key(), error.field()), (Some("s.0000"), Some("odd")), "{format}: {error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), before, "{format}: {error}");
}

/// Each of these values is set aside, with the reason, and the good sample before them is written.
fn sets_aside(format: Format, refused: &[(Value, &str)]) {
    let dir = tempfile::tempdir().unwrap();
    let good = vec![("good".to_owned(), "x".into())];
    let samples: Vec<_> =
        std::iter::once(good).chain(refused.iter().map(|(value, _)| odd(value))).collect();
    let made = dataset(&dir.path().join("in.msgpack"), &samples);
    let conversion = exporting(format, &made, &dir).on_bad_input(BadInput::Quarantine);
    let report = conversion.run(&mut Silent).unwrap();
    let aside = std::fs::read_to_string(report.quarantine.unwrap()).unwrap();
    assert_eq!((report.outputs[0].samples, aside.lines().count()), (1, refused.len()), "{format}");
    for (line, (at, (value, expected))) in aside.lines().zip((1..).zip(refused)) {
        let bad = kiste::format::jsonl::parse(line.as_bytes()).unwrap();
        assert_eq!(bad["sample"].as_str(), Some(&*format!("s.{at:04}")), "{format}: {line}");
        let reason = bad["reason"].as_str().unwrap();
        // Columns say more of what they found.
        let expected = match format {
            Format::Parquet | Format::Arrow => "expected ".to_owned(),
            _ => format!("expected {expected}, found "),
        };
        let named = reason.contains("field \"odd\"") && reason.contains(&expected);
        assert!(named, "{format}: {reason} of {value}");
    }
}

/// A dataset of these values of the field `x`, the last of which are there for `None`.
fn column_of(dir: &TempDir, values: &[Option<Value>]) -> PathBuf {
    let field = |value: &Option<Value>| value.iter().map(|v| ("x".to_owned(), v.clone())).collect();
    let samples: Vec<_> = values.iter().map(field).collect();
    dataset(&dir.path().join("in.msgpack"), &samples)
}

/// A list with null is read as a list, and others of its column as arrays; so they can go back.
#[test]
fn columns_take_arrays_and_lists_with_nil() {
    let array = |dtype: &str, bytes: &[u8]| {
        let dtype: DType = dtype.parse().unwrap();
        let len = bytes.len() / dtype.item_size();
        Some(Special::Array(NdArray::new(dtype, [len], bytes.to_vec()).unwrap()).to_value())
    };
    let list = |items: &[Value]| Some(Value::Array(items.to_vec()));
    let day = || {
        let day = NdArray::new("<M8[D]".parse().unwrap(), [], 20000i64.to_le_bytes().to_vec());
        Special::Scalar(day.unwrap()).to_value()
    };
    let columns: [[Option<Value>; 4]; 5] = [
        [
            array("<i2", &[1, 0, 2, 0]),
            list(&[Value::Nil, 300.into()]),
            Some(Value::Nil),
            array("<i2", &[]),
        ],
        [list(&[Value::Nil]), array("<f4", &[0; 8]), list(&[Value::F32(0.5), Value::Nil]), None],
        [array("|b1", &[1]), list(&[true.into(), Value::Nil]), None, None],
        [array("<u8", &[255; 8]), list(&[u64::MAX.into(), Value::Nil, 0.into()]), None, None],
        [array("<M8[D]", &[0; 16]), list(&[day(), Value::Nil]), None, None],
    ];
    for format in [Format::Parquet, Format::Arrow] {
        for values in &columns {
            let dir = tempfile::tempdir().unwrap();
            let made = column_of(&dir, values);
            let report = out(format, &made, &dir).unwrap();
            for (found, value) in back(format, &report, &dir).iter().zip(values) {
                let found = found.get("x").cloned().unwrap_or(Value::Nil);
                assert_eq!(
                    packed(&found),
                    packed(&value.clone().unwrap_or(Value::Nil)),
                    "{format}"
                );
            }
        }
        // What would not come back as a list is no such column.
        for values in [
            [array("<i2", &[1, 0]), list(&[1.into()])],
            [array("<i2", &[1, 0]), list(&[40_000.into(), Value::Nil])],
            [array("<f4", &[0; 4]), list(&[Value::F64(0.5), Value::Nil])],
        ] {
            let dir = tempfile::tempdir().unwrap();
            let made = column_of(&dir, &values);
            let error = out(format, &made, &dir).unwrap_err();
            assert_eq!((error.key(), error.field()), (Some("s.0001"), Some("x")), "{error}");
        }
    }
}

/// Empty maps are exact among others; alone they are a column without entries, which there is not.
#[test]
fn columns_take_empty_maps_next_to_others() {
    let (empty, full) = (Value::Map(vec![]), Value::Map(vec![("a".into(), 1.into())]));
    for format in [Format::Parquet, Format::Arrow] {
        let dir = tempfile::tempdir().unwrap();
        let made = column_of(&dir, &[Some(empty.clone()), Some(full.clone())]);
        let report = out(format, &made, &dir).unwrap();
        let found = back(format, &report, &dir);
        assert_eq!((&found[0]["x"], &found[1]["x"]), (&empty, &full));
        let dir = tempfile::tempdir().unwrap();
        let made = column_of(&dir, &[Some(empty.clone())]);
        let error = out(format, &made, &dir).unwrap_err();
        assert_eq!(error.field(), Some("x"), "{error}");
        assert!(error.message().contains("expected maps with entries"), "{error}");
    }
}

/// A column has one null, so nil and nothing cannot both come back.
#[test]
fn columns_count_what_their_null_cannot_tell() {
    let dir = tempfile::tempdir().unwrap();
    let made = column_of(&dir, &[Some(1.into()), None, Some(Value::Nil), None]);
    for format in [Format::Parquet, Format::Arrow] {
        let report = out(format, &made, &dir).unwrap();
        let [changed] = &report.changes[..] else { panic!("{:?}", report.changes) };
        assert_eq!((&*changed.field, changed.kind, changed.values), ("x", V::Absent, 2));
        let found = back(format, &report, &dir);
        assert!(found[1]["x"].is_nil() && found[2]["x"].is_nil());
        std::fs::remove_file(dir.path().join("back.msgpack")).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let made = column_of(&dir, &[Some(1.into()), None]);
    let report = out(Format::Parquet, &made, &dir).unwrap();
    assert_eq!(report.changes, []);
    assert!(!back(Format::Parquet, &report, &dir)[1].contains_key("x"));
}

/// The table of `docs/formats.md` is made from the one in the code.
///
/// After a change of that: `KISTE_WRITE_TABLE=1 cargo test --features full --test main carried::the_docs`
#[test]
fn the_docs_have_the_table_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/formats.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- made by tests/convert/carried.rs -->\n", "<!-- end -->\n");
    let (before, rest) = page.split_once(begin).unwrap();
    let (found, after) = rest.split_once(end).unwrap();
    let table = rendered();
    if std::env::var_os("KISTE_WRITE_TABLE").is_some() {
        std::fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
    } else {
        assert!(found == table, "the table is another; set KISTE_WRITE_TABLE to rewrite it");
    }
}

/// What each format does with the kinds of a row: one cell for each column.
type Cells = Vec<Carried>;

/// What they do with arrays of one type, by their shapes.
type Shapes = Vec<(Cells, Vec<Extent>)>;

/// The table in Markdown, and below it what values become.
fn rendered() -> String {
    let columns: [(&str, Format); 8] = [
        ("JSON lines", Format::Jsonl),
        ("images", Format::Images),
        ("WebDataset", Format::Webdataset),
        ("MDS", Format::Mds),
        ("TFRecord", Format::Tfrecord),
        ("Parquet, Arrow", Format::Parquet),
        ("npz", Format::Npz),
        ("CSV", Format::Csv),
    ];
    let covered = |format: &Format| {
        // Arrow is in the column of Parquet.
        *format == Format::Arrow || columns.iter().any(|(_, known)| known == format)
    };
    assert!(formats().iter().all(covered));
    for kind in ValueKind::all() {
        for place in [ValuePlace::Field, ValuePlace::Within] {
            assert_eq!(Format::Arrow.carries(kind, place), Format::Parquet.carries(kind, place));
        }
    }
    let cells = |kind: ValueKind, place| -> Cells {
        columns.iter().map(|(_, format)| format.carries(kind, place)).collect()
    };
    let mut rows: Vec<(String, Cells)> = Vec::new();
    let mut arrays: Vec<(Vec<Extent>, Cells, Vec<String>)> = Vec::new();
    let mut numbers: Vec<(String, Shapes)> = Vec::new();
    for kind in ValueKind::all() {
        let V::Array(number, extent) = kind else {
            rows.push((kind.to_string(), cells(kind, ValuePlace::Field)));
            continue;
        };
        let name = V::Array(number, Extent::Flat).to_string();
        let name = name["arrays of ".len()..].trim_end_matches(" with one axis").to_owned();
        if numbers.last().is_none_or(|(last, _)| *last != name) {
            numbers.push((name, Vec::new()));
        }
        let extents = &mut numbers.last_mut().unwrap().1;
        let found = cells(kind, ValuePlace::Field);
        match extents.iter_mut().find(|(known, _)| *known == found) {
            Some((_, extents)) => extents.push(extent),
            None => extents.push((found, vec![extent])),
        }
    }
    for (name, groups) in numbers {
        for (cells, extents) in groups {
            match arrays.iter_mut().find(|(known, same, _)| *known == extents && *same == cells) {
                Some((.., names)) => names.push(name.clone()),
                None => arrays.push((extents, cells, vec![name.clone()])),
            }
        }
    }
    let rows = joined(rows).into_iter().chain(arrays.into_iter().map(|(extents, cells, names)| {
        let extents: Vec<&str> = match extents.len() {
            5 => Vec::new(),
            _ => extents.iter().map(|extent| extent_name(*extent)).collect(),
        };
        let with =
            if extents.is_empty() { String::new() } else { format!(": {}", extents.join(", ")) };
        (format!("arrays of {}{with}", names.join("; ")), cells)
    }));
    let mut changes: Vec<&str> = Vec::new();
    let mut text = String::from("| values |");
    columns.iter().for_each(|(name, _)| text += &format!(" {name} |"));
    text += &format!("\n| --- |{}\n", " :-: |".repeat(columns.len()));
    for (label, cells) in rows {
        text += &format!("| {label} |");
        for cell in cells {
            text += &match cell {
                Exact => " = |".to_owned(),
                Changed(became) => {
                    let at = changes.iter().position(|known| *known == became);
                    let at = at.unwrap_or_else(|| {
                        changes.push(became);
                        changes.len() - 1
                    });
                    format!(" {} |", at + 1)
                }
                _ => " – |".to_owned(),
            };
        }
        text.push('\n');
    }
    text += "\nThe numbers stand for what values become:\n\n";
    for (at, became) in changes.iter().enumerate() {
        text += &format!("{}. {became}\n", at + 1);
    }
    text
}

/// Rows that follow each other with the same cells as one.
fn joined(rows: Vec<(String, Cells)>) -> Vec<(String, Cells)> {
    let mut joined: Vec<(String, Cells)> = Vec::new();
    for (label, cells) in rows {
        match joined.last_mut() {
            Some((labels, same)) if *same == cells => *labels += &format!("; {label}"),
            _ => joined.push((label, cells)),
        }
    }
    joined
}

fn extent_name(extent: Extent) -> &'static str {
    match extent {
        Extent::Flat => "one axis",
        Extent::One => "one element",
        Extent::Grid => "several axes",
        Extent::Point => "no axes",
        _ => "no elements",
    }
}
