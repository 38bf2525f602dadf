//! What is typed in, or stands as text in a file: patterns, sizes, selections, policies, conditions.
//! The first byte says which parser; the rest is the text.
#![no_main]

use std::cmp::Ordering;
use std::sync::LazyLock;

use kiste::array::{ArrayPolicy, ArrayTarget, At, ByteSize, Selection, StagedArray};
use kiste::convert::{Conversion, Emit, Input, Part, expand_braces};
use kiste::format::blosc::Codec;
use kiste::format::chunked::{format_time, names, parse_time};
use kiste::natural_order;
use kiste::reader::{Reader, NamePattern, ZipReader};
use kiste::rearrange::{Expression, LengthOf};
use kiste::sampler::batching::parse;
use kiste::storage::MemoryStorage;
use kiste::text;
use kiste::value::{DType, NdArray};
use kiste::Value;
use libfuzzer_sys::fuzz_target;

static ARRAY: LazyLock<StagedArray> =
    LazyLock::new(|| StagedArray::full(&[7, 5, 3], &[2, 3, 2], 0_u8).unwrap());

static ARCHIVE: LazyLock<MemoryStorage> = LazyLock::new(|| {
    let storage = MemoryStorage::new();
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for name in ["a/1.txt", "a/b/2.txt", "[c]/*.txt", "d.txt"] {
        archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
    }
    storage.put("x.zip", archive.finish().unwrap().into_inner());
    storage
});

/// A text and what is behind a line break in it.
fn two(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

fn patterns(text: &str) {
    let (name, pattern) = two(text);
    let fnmatch = |name: &str, pattern: &str| NamePattern::new(pattern).matches(name);
    let _ = fnmatch(name, pattern);
    assert!(fnmatch(name, "*") && fnmatch(name, &format!("*{}*", literally(name))));
    assert!(fnmatch(name, &literally(name)));
}

/// A pattern of this name alone.
fn literally(name: &str) -> String {
    let quoted = |c: char| if "*?[".contains(c) { format!("[{c}]") } else { c.to_string() };
    name.chars().map(quoted).collect()
}

fn order(text: &str) {
    let names: Vec<&str> = text.splitn(3, '\n').collect();
    let [a, b, c] = names[..] else { return };
    assert_eq!(natural_order(a, b), natural_order(b, a).reverse());
    assert_eq!(natural_order(a, b) == Ordering::Equal, a == b);
    if natural_order(a, b).is_le() && natural_order(b, c).is_le() {
        assert!(natural_order(a, c).is_le());
    }
}

fn small(text: &str) {
    if let Ok(part) = text.parse::<Part>() {
        assert_eq!(part.to_string().parse::<Part>().unwrap(), part);
    }
    let _ = (text.parse::<ByteSize>(), text.parse::<Codec>(), text.parse::<ArrayPolicy>());
    if let Some(time) = parse_time(text) {
        assert_eq!(parse_time(&format_time(time)), Some(time));
    }
    if let Some(number) = names::number_of(text) {
        assert_eq!(names::numbered(number), text);
    }
    assert!(!names::field(text).contains(['/', '.', '\\']));
    let _ = (text.parse::<ArrayTarget>(), text.parse::<At>());
    if let Ok(lens) = text::parse_shape(text) {
        assert_eq!(text::parse_shape(&text::shape(&lens)), Ok(lens));
    }
}

fn selection(text: &str) {
    let Ok(selection) = text.parse::<Selection>() else { return };
    assert_eq!(selection.to_string().parse::<Selection>().unwrap(), selection);
    if let Ok(plan) = ARRAY.plan_get(selection.clone()) {
        let len: usize = plan.shape().iter().product();
        if len <= 1 << 16 {
            assert_eq!(ARRAY.read(selection).unwrap().len(), len);
        }
    }
}

fn condition(text: &str) {
    let Ok(condition) = Expression::parse(text) else { return };
    let fields: Vec<String> = condition.fields().into_iter().map(str::to_owned).collect();
    let _ = condition.matches(&Value::Map(Vec::new()));
    for value in [Value::Nil, true.into(), 1.into(), "a".into(), 0.5.into(), Value::Binary(vec![1])] {
        let sample = fields.iter().map(|name| (name.as_str().into(), value.clone())).collect();
        let _ = condition.matches(&Value::Map(sample));
    }
    let parts = vec![Value::Map(vec![("x".into(), 1.into()), ("a".into(), Value::Ext(-1, vec![0; 4]))]); 2];
    let sample = ["a", "b", "meta"].map(|name| (name.into(), Value::Array(parts.clone())));
    let _ = condition.matches(&Value::Map(sample.into()));
    assert_eq!(Expression::parse(&condition.to_string()).as_ref(), Ok(&condition));
    let _ = condition.with_labels(&["a", "b", "label"]);
}

/// A sample with this key.
struct One(String);

impl Input for One {
    fn units(&self) -> usize {
        1
    }

    fn read(&self, _: usize, emit: &mut Emit<'_>) -> kiste::Result<()> {
        let fields = vec![("key".into(), self.0.clone().into()), ("n".into(), 7.into())];
        emit(Ok(kiste::format::msgpack::to_vec(&kiste::Value::Map(fields))?))
    }
}

/// The key that a pattern makes of another one. A dry run to a dataset writes nothing.
fn key(text: &str) {
    let (pattern, old) = two(text);
    let conversion = Conversion::from_input("one", One(old.to_owned()), "no-such-directory/x");
    if let Ok(tried) = conversion.key(pattern).dry_run() {
        assert_eq!(tried.fields.len(), 2);
    }
}

/// An element of a type, which comes back as what JSON has for it.
fn typed(text: &str) {
    let (dtype, text) = two(text);
    let Ok(dtype) = dtype.parse::<DType>() else { return };
    if dtype.item_size() > 1 << 12 {
        return;
    }
    if let Ok(element) = NdArray::parse(&dtype, text) {
        assert_eq!(element.bytes().len(), dtype.item_size());
        let _ = element.to_json();
    }
}

/// A column of lengths and a batching, which their texts make again.
fn lengths(text: &str) {
    if let Ok(column) = LengthOf::parse(text) {
        assert_eq!(LengthOf::parse(&column.to_string()).as_ref(), Ok(&column));
    }
    if let Ok(batching) = parse(text) {
        let text = batching.description();
        assert_eq!(parse(&text).unwrap().description(), text);
        let columns = [&[0u32, 7, 3, 900, u32::MAX, 3][..]; 2];
        if let Ok(batches) = batching.plan(&columns[..batching.columns()], 1) {
            let mut order = batches.order.clone();
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        }
    }
}

fn paths(text: &str) {
    let Ok(reader) = ZipReader::options().open_zip_in(&*ARCHIVE, "x.zip", [text]) else { return };
    assert!(reader.len() <= 4);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    let text = &*String::from_utf8_lossy(bytes);
    match which % 10 {
        0 => drop(expand_braces(text)),
        1 => patterns(text),
        2 => order(text),
        3 => small(text),
        4 => selection(text),
        5 => condition(text),
        6 => key(text),
        7 => typed(text),
        8 => lengths(text),
        _ => paths(text),
    }
});
