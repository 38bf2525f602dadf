//! What is typed in, or stands as text in a file: patterns, sizes, selections, policies, conditions.
//! The first byte says which parser; the rest is the text.
#![no_main]

use std::cmp::Ordering;
use std::sync::LazyLock;

use kiste::array::{ArrayPolicy, ByteSize, Selection, StagedArray};
use kiste::convert::{Conversion, Emit, Input, Part, expand_braces};
use kiste::format::blosc::Codec;
use kiste::format::chunked::{format_time, names, parse_time};
use kiste::natural_order;
use kiste::reader::{Reader, NamePattern, ZipReader};
use kiste::rearrange::Scalar;
use kiste::storage::MemoryStorage;
use kiste::value::{DType, NdArray};
use libfuzzer_sys::fuzz_target;

// The parsers of the command, which is no library.
#[allow(dead_code, reason = "of each file the target needs the parser alone")]
#[path = "../../../bin/cmd/array/element.rs"]
mod element;
#[allow(dead_code, reason = "of each file the target needs the parser alone")]
#[path = "../../../bin/exit.rs"]
mod exit;
#[allow(dead_code, reason = "of each file the target needs the parser alone")]
#[path = "../../../bin/expression.rs"]
mod expression;
#[allow(dead_code, reason = "of each file the target needs the parser alone")]
#[path = "../../../bin/cmd/array/target.rs"]
mod target;

/// Stands in for `bin/printable.rs`.
mod printable {
    pub(crate) fn escaped(text: &str) -> std::borrow::Cow<'_, str> {
        text.into()
    }
}

/// The remarks of the parser of targets go nowhere here.
mod output {
    pub(crate) struct Output;

    #[allow(dead_code, reason = "as above")]
    impl Output {
        pub(crate) fn note(&self, _: impl std::fmt::Display) {}
    }
}

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
    let _ = (target::Target::parse(text), target::parse_at(text), target::parse_shape(text));
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
    let Ok(condition) = expression::Expression::parse(text) else { return };
    let fields = condition.fields().len();
    for value in
        [None, Some(Scalar::Whole(1)), Some(Scalar::Text("a".into())), Some(Scalar::number(0.5))]
    {
        let mut asked = 0;
        let _ = condition.holds(&mut |_| {
            asked += 1;
            Ok(value.clone())
        });
        // Fields that are only asked whether they are there are not among them.
        assert!(asked <= fields + text.matches("has").count());
    }
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
    if let Ok(bytes) = element::parse(&dtype, text) {
        assert_eq!(bytes.len(), dtype.item_size());
        if let Ok(array) = NdArray::new(dtype, [1], bytes) {
            assert!(element::to_json(&array).map_or(1, |json| json.len()) == 1);
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
    match which % 9 {
        0 => drop(expand_braces(text)),
        1 => patterns(text),
        2 => order(text),
        3 => small(text),
        4 => selection(text),
        5 => condition(text),
        6 => key(text),
        7 => typed(text),
        _ => paths(text),
    }
});
