use std::borrow::Cow;
use std::sync::Mutex;

use super::*;
use crate::array::{ArrayPolicy, ArrayTally};
use crate::error::{Error, ErrorKind};
use crate::format::msgpack::numpy::Special;
use crate::format::msgpack::timestamp;
use crate::reader::{ListReader, Reader};
use crate::value::NdArray;

mod model;
mod random;

fn sample(fields: &[(&str, Value)]) -> Value {
    Value::Map(fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
}

fn holds(text: &str) -> bool {
    let expression = Expression::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let sample = sample(&[
        ("key", "cat/1.png".into()),
        ("label", 3.into()),
        ("score", 0.5.into()),
        ("good", true.into()),
        ("none", Value::Nil),
        ("odd name", 1.into()),
    ]);
    expression.matches(&sample).unwrap()
}

#[test]
fn true_is_told_from_false() {
    for text in [
        "label == 3",
        "label == 3.0",
        "label != 4",
        "label!=4",
        "label in 1,2,3",
        "label in 1, 2 , 3 and good == true",
        "label not in 4,5",
        "label > 2 and label < 4 and label >= 3 and label <= 3",
        "score > 0.4 and score < 1",
        "key ~ 'cat/*'",
        "key ~ \"*.[pj][np]g\"",
        "key !~ dog*",
        "key == cat/1.png",
        "key > 'cat'",
        "key in dog,cat/1.png",
        "not label == 4",
        "not (label == 3 and good == false)",
        "label == 4 and label == 4 or label == 3",
        "label == 3 or label == 4 and label == 4",
        "none == null and missing == null",
        "has none and not has missing",
        "missing != 3",
        "'odd name' == 1",
        "label != '3'",
        "key ~ cat/[0-9].*",
        "key in '[a',cat/1.png",
        "key != 2026-01-01T00:00:00+01:00 and key != größe_1#2@3",
        "-1 == null",
        "label = 3 && !(label <> 3) || label = 4",
        "label IN 1,3 AND NOT label NOT IN 3 OR label == 4",
        "AND == null and NOT in null and HAS != 1 and LIKE is null and len == null and IN != IN",
        "key ~*.png and key ~* and (key ~*) and key ~ * and key !~*.jpg",
        "key ~* 'CAT/*' and key ~* *.PNG and key !~* dog*",
        "key like 'cat/%' and key like cat/_.png and key not like %.jpg and key LIKE '%'",
        "key ilike CAT% and key NOT ILIKE DOG%",
        "none is null and missing IS NULL and label is not null",
    ] {
        assert!(holds(text), "{text}");
    }
    for text in [
        "label == '3'",
        "label < 'x'",
        "missing < 3",
        "missing > 3",
        "label ~ '3'",
        "good == 1",
        "(label == 3 or label == 4) and label == 4",
        "not not label == 4",
        "label in 1,2",
    ] {
        assert!(!holds(text), "{text}");
    }
}

#[test]
fn names_of_labels_mean_their_numbers() {
    let names = ["cat", "dog", "cat"].map(str::to_owned);
    let holds = |text: &str, label: Value| {
        let expression = Expression::parse(text).unwrap().with_labels(&names).unwrap();
        expression.matches(&sample(&[("label", label)])).unwrap()
    };
    for text in ["label == cat", "label in cat,7", "label ~ 'c*'", "not label == 'dog'"] {
        for (label, expected) in [(0, true), (1, false), (2, true)] {
            assert_eq!(holds(text, label.into()), expected, "{text}: {label}");
        }
    }
    assert!(holds("label == 2", 2.into()) && holds("label in 7,cat", 7.into()));
    assert!(holds("label == cat", "cat".into()));
    for (text, says) in [
        ("label == cow", "no label is named \"cow\""),
        ("x == 1 or not label in 1,cow", "no label is named \"cow\""),
        ("label !~ 'x*'", "no label matches \"x*\""),
    ] {
        let error = Expression::parse(text).unwrap().with_labels(&names).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.position()), (says, None));
    }
}

#[test]
fn values_of_different_kinds_are_reported() {
    let samples = [
        sample(&[
            ("key", "a".into()),
            ("text", "84".into()),
            ("number", 84.into()),
            ("null", Value::Nil),
            ("once", 1.into()),
        ]),
        sample(&[("key", "b".into()), ("text", "85".into()), ("number", 85.into())]),
    ];
    let reader = ListReader::pack(samples).unwrap();
    let mismatches = |text: &str| {
        Expression::parse(text).unwrap().choose(&reader, |_| Ok(())).unwrap().mismatches
    };
    for (text, expected) in [
        ("text > 80", "text: text, a number, 2, 84"),
        ("number == '84'", "number: a number, text, 2, 84"),
        ("number != true", "number: a number, true or false, 2, 84"),
        ("number in a,b", "number: a number, text, 2, 84"),
        ("number ~ '8*'", "number: a number, text, 2, 84"),
        ("once == a", "once: a number, text, 1, 1"),
    ] {
        let found = mismatches(text);
        let [Mismatch { field, found, expected: other, samples, first, .. }] = &found[..] else {
            panic!("{text}: {found:?}")
        };
        assert_eq!(format!("{field}: {found}, {other}, {samples}, {first}"), expected);
    }
    for text in
        ["number > 80", "text > '8'", "null > 80", "number == null", "number in a,84", "null ~ x"]
    {
        assert_eq!(mismatches(text), [], "{text}");
    }
}

#[test]
fn samples_are_chosen_and_fields_that_none_has_are_refused() {
    let samples = [3, 4, 3].iter().enumerate().map(|(at, class)| {
        let key = at.to_string();
        sample(&[("key", key.into()), ("class", (*class).into()), ("blob", vec![1].into())])
    });
    let reader = ListReader::pack(samples).unwrap();
    let choose = |text: &str| Expression::parse(text).unwrap().choose(&reader, |_| Ok(()));
    assert_eq!(choose("class == 3").unwrap().indices, [0, 2]);
    assert_eq!(choose("has blob and key > '0'").unwrap().indices, [1, 2]);
    // What is not asked for cannot be missing.
    assert_eq!(
        choose("class == 3 or clas == 3").unwrap_err().message(),
        "no sample has a field \"clas\""
    );
    assert_eq!(choose("class < 9 or clas == 3").unwrap().indices, [0, 1, 2]);
    assert_eq!(
        choose("meta.author == 3").unwrap_err().message(),
        "no sample has a field \"meta.author\""
    );
    let error = choose("key == '1' and blob == 1").unwrap_err();
    assert_eq!((error.kind(), error.index()), (ErrorKind::Invalid, Some(1)));
    let stopped = Expression::parse("class == 3")
        .unwrap()
        .choose(&reader, |_| Err(Error::new(ErrorKind::Cancelled, "enough")));
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn what_cannot_be_understood_is_pointed_at() {
    for (text, says) in [
        ("", "expected a field, found the end"),
        (
            "label",
            "expected ==, !=, <, <=, >, >=, ~, !~, \"in\", \"like\" or \"is\", found the end",
        ),
        ("label === 3", "expected a value, found = at 9"),
        ("label is 3", "expected \"null\" or \"not null\", found 3 at 10"),
        ("label not null", "expected \"in\", \"like\" or \"ilike\", found null at 11"),
        ("label ==", "expected a value, found the end"),
        ("label == 3 4", "expected \"and\", \"or\" or the end, found 4 at 12"),
        ("(label == 3", "expected \")\", found the end"),
        ("label == 3)", "found ) at 11"),
        ("label in", "expected a value, found the end"),
        ("label in 1,", "expected a value, found the end"),
        ("label not 3", "expected \"in\", \"like\" or \"ilike\", found 3 at 11"),
        ("and label == 3", "expected a field, found and at 1"),
        ("key ~ 'x", "the quote at 7 is not closed"),
        ("label ! 3", "found ! at 7"),
        ("ключ ! 3", "found ! at 6"),
        ("key in [a,b,c", "expected \"]\", found the end"),
        ("key in (a,b]", "expected \")\", found ] at 12"),
        ("key in a,b]", "or the end, found ] at 11"),
        ("key in [,]", "expected a value, found , at 9"),
        ("key in [a,]", "expected a value, found ] at 11"),
        ("key in ([a])", "expected a value, found [ at 9"),
        ("key == [a]", "found [ at 8 (lists follow \"in\", and quotes make it text)"),
        ("label == 3 &x == 4", "'&' at 12 has no meaning here: conditions are joined by"),
        ("boxes[x] == 1", "expected a whole number, as in boxes[0], found x at 7"),
        ("boxes[+1] == 1", "expected a whole number, as in boxes[0], found +1 at 7"),
        ("boxes[99999999999999999999] == 1", "a whole number, as in boxes[0], found 9"),
        ("boxes[0 == 1", "expected \"]\", found == at 9"),
        ("boxes[0]x == 1", "expected a dot and a name, found x at 9"),
        ("boxes[0].. == 1", "expected a dot and a name, found .. at 9"),
        ("boxes [0] == 1", "found [ at 7"),
        ("a..b[0] == 1", "expected names between the dots, found [ at 5"),
        ("len(a == 1", "expected \")\", found == at 7"),
        ("len() == 1", "expected a field, found ) at 5"),
        ("size(a) == 1", "found ( at 5"),
        ("has len(a)", "found ( at 8"),
        ("label in 'a''", "the quote at 10 is not closed"),
        ("key ~* == 1", "expected a pattern, found == at 8"),
        ("label == 3|x", "'|' at 11 has no meaning"),
        ("label == 3;", "';' at 11 has no meaning here: quotes make it text"),
        ("key == cat/*", "'*' at 12 has no meaning here: ~ compares with a pattern"),
        ("key in a?,b", "'?' at 9 has no meaning"),
        ("x == 2^3", "'^' at 7 has no meaning"),
        ("path == a\\b", "'\\\\' at 10 has no meaning"),
        ("has [caption]", "expected a field, found [ at 5"),
        ("[label] == 3", "expected a field, found [ at 1"),
        ("label ≥ 3", "found ≥ at 7"),
        ("ключ == “ä”", "'“' at 9 has no meaning"),
    ] {
        let error = Expression::parse(text).unwrap_err();
        assert!(error.to_string().contains(says), "{text}: {error}");
        let at = error.to_string().rsplit_once(" at ").map(|(_, at)| at.to_owned());
        let at = at.map(|at| at.split(' ').next().unwrap().parse().unwrap());
        assert_eq!(error.position(), at, "{text}: {error}");
    }
    for (deep, at) in [("(", 201), ("not ", 801), ("!", 201), ("!(", 201)] {
        for times in [300, 5_000, 100_000] {
            let error = Expression::parse(&deep.repeat(times)).unwrap_err();
            let says = format!("too many parentheses and \"not\" in one another at {at}");
            assert_eq!((error.to_string(), error.position()), (says, Some(at)));
        }
    }
    let long = |times| vec!["a == 1"; times].join(" or ");
    let error = Expression::parse(&long(100_000)).unwrap_err();
    assert_eq!(error.to_string(), "longer than 10000 words and signs at 25001");
    let list = (0..50_000).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let listed = Expression::parse(&format!("a in ({list})")).unwrap();
    assert!(listed.matches(&sample(&[("a", 49_999.into())])).unwrap());
    assert!(Expression::parse(&long(2_000)).is_ok());
    assert!(Expression::parse(&long(100_000)).is_err());
}

#[test]
fn fields_are_known() {
    let expression = Expression::parse("a == 1 and (b in 1,2 or not c ~ x) or has d").unwrap();
    assert_eq!(expression.fields(), ["a", "b", "c"]);
}

/// Whatever sign is put into a value, it is part of the text, ends the condition or is an error: none
/// changes what is chosen in silence.
#[test]
fn no_sign_in_a_value_is_passed_over() {
    for sign in (' '..='~').filter(|c| !c.is_ascii_alphanumeric() && *c != ' ') {
        for text in [format!("label == {sign}x"), format!("label in 3,x{sign},y")] {
            let Ok(parsed) = Expression::parse(&text) else { continue };
            let values = parsed.to_string();
            assert!("_-./:+@#%$".contains(sign) && values.contains(sign), "{text}: {values}");
        }
    }
}

#[test]
fn lists_have_any_brackets() {
    for list in ["1,3", "(1,3)", "[ 1, 3 ]", "{1 ,3}", "['x',3]", "(3)", "('label',3.0)"] {
        assert!(holds(&format!("label in {list} and label == 3")), "{list}");
        assert!(!holds(&format!("label not in {list}")), "{list}");
    }
    for list in ["()", "[]", "{ }"] {
        assert!(!holds(&format!("label in {list} or none in {list}")), "{list}");
        assert!(holds(&format!("label not in {list}")), "{list}");
    }
    assert!(holds("key in [cat/1.png]"));
}

#[test]
fn paths_lead_into_fields() {
    let floats = |shape: &[usize], numbers: &[f32]| {
        let array = ndarray::ArrayD::from_shape_vec(shape, numbers.to_vec()).unwrap();
        Special::Array(NdArray::from_ndarray(&array)).to_value()
    };
    let texts = b"a\0\0\0b\0\0\0c\0\0\0\0\0\0\0".to_vec();
    let names = NdArray::new("<U2".parse().unwrap(), [2], texts);
    let boxes = [[1, 2].to_vec(), [3].to_vec()]
        .map(|x| sample(&[("x", x.into_iter().map(Value::from).collect::<Vec<_>>().into())]));
    let nested = sample(&[
        ("key", "k".into()),
        ("meta", sample(&[("author", "me".into()), ("a.b", 1.into()), ("null", Value::Nil)])),
        ("boxes", boxes.to_vec().into()),
        ("a", sample(&[("b", 1.into())])),
        ("a.b", 2.into()),
        ("c[0]", 3.into()),
        ("matrix", floats(&[2, 2], &[1.0, 2.0, 3.0, 4.5])),
        ("empty", floats(&[0, 2], &[])),
        ("names", Special::Array(names.unwrap()).to_value()),
        ("text", "abc".into()),
    ]);
    for text in [
        "meta.author == me",
        "boxes[0].x[1] == 2 and boxes[-1].x[0] == 3 and boxes[-2].x[-2] == 1",
        "boxes[2].x is null and boxes[-3] is null and boxes[0].y.z is null",
        "a.b == 2 and 'a.b' == 2",
        "'meta.author' is null and not has 'meta.author' and has meta.author",
        "has meta.null and meta.null is null and not has meta.nul",
        "meta.a.b is null",
        "c[0] == 3",
        "matrix[1][1] == 4.5 and matrix[-1][-2] == 3 and matrix[2][0] is null",
        "empty[0][0] is null and names[0] == ab and names[1] == c",
        "text[0] is null and text.x is null and missing.x is null",
        "len(boxes[0].x) == 2 and len(matrix[0]) == 2 and len(a) == 1",
        "boxes[9223372036854775807] is null and boxes[-9223372036854775808] is null",
        ".a is null and a. is null and a..b is null and .. is null",
    ] {
        assert!(Expression::parse(text).unwrap().matches(&nested).unwrap(), "{text}");
    }

    let mut plain = Vec::new();
    crate::format::msgpack::encode(&nested, &mut plain).unwrap();
    let policy: ArrayPolicy = "blpk:lz4".parse().unwrap();
    let packed = policy.min_bytes(0).recode(&plain, &mut ArrayTally::default()).unwrap();
    let packed = crate::format::msgpack::decode(&packed).unwrap();
    assert!(matches!(entry(packed.as_map().unwrap(), "matrix"), Some(Value::Binary(_))));
    let text = "matrix[1][1] == 4.5 and names[0] == ab and len(matrix) == 2 and width(matrix) == 2";
    assert!(Expression::parse(text).unwrap().matches(&packed).unwrap());
}

#[test]
fn functions_count_and_measure() {
    let array = |shape: &[usize]| {
        let data = vec![0; shape.iter().product()];
        Special::Array(NdArray::new("|u1".parse().unwrap(), shape, data).unwrap()).to_value()
    };
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02\0\0\0\0\0\0\0";
    // Lying on its side: the stored size counts.
    let jpeg = b"\xff\xd8\xff\xe1\0\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0\
        \xff\xc0\0\x0b\x08\0\x02\0\x03\x01\x01\x11\0\xff\xd9";
    let fields = sample(&[
        ("text", "größe".into()),
        ("bytes", Value::Binary(vec![1, 2])),
        ("list", vec![Value::Nil; 3].into()),
        ("map", sample(&[("a", 1.into())])),
        ("null", Value::Nil),
        ("number", 7.into()),
        ("scalar", Special::scalar("<i4".parse().unwrap(), vec![1, 0, 0, 0]).unwrap().to_value()),
        ("point", array(&[])),
        ("row", array(&[9])),
        ("gray", array(&[4, 5])),
        ("color", array(&[4, 5, 3])),
        ("four", array(&[2, 4, 5, 3])),
        ("png", Value::Binary(png.to_vec())),
        ("jpeg", Value::Binary(jpeg.to_vec())),
        ("len", 1.into()),
    ]);
    let matches = |text: &str| Expression::parse(text).unwrap().matches(&fields);
    for text in [
        "len(text) == 5 and len(bytes) == 2 and len(list) == 3 and len(map) == 1",
        "len(row) == 9 and len(color) == 4 and len(four) = 2 and len ( 'text' ) in (5)",
        "len(null) is null and len(missing) is null and width(null) is null and not len(null) > 0",
        "width(gray) == 5 and height(gray) == 4 and width(color) == 5 and height(color) == 4",
        "len == 1",
    ] {
        assert!(matches(text).unwrap(), "{text}");
    }
    #[cfg(feature = "stat")]
    for text in
        ["width(png) == 640 and height(png) == 480", "width(jpeg) == 3 and height(jpeg) == 2"]
    {
        assert!(matches(text).unwrap(), "{text}");
    }
    for (text, says) in [
        (
            "len(number) > 1",
            "field \"number\" has no length: expected text, bytes, a list, a map or an array, found a number",
        ),
        ("len(scalar) > 1", "found a number"),
        ("len(point) > 1", "found an array of shape []"),
        (
            "width(text) > 1",
            "field \"text\" has no width: expected an image or an array of shape (height, width)",
        ),
        ("height(row) > 1", "field \"row\" has no height: expected"),
        ("height(four) > 1", "(height, width, channels), found an array of shape [2, 4, 5, 3]"),
        (
            "bytes > 1",
            "\"bytes\" is neither a number nor text nor a time nor true, false or null, but bytes",
        ),
        ("map == 1", "but a map"),
        ("gray == 1", "but an array of shape [4, 5]"),
    ] {
        let error = matches(text).unwrap_err();
        assert!(error.message().contains(says), "{text}: {error}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    #[cfg(feature = "stat")]
    assert!(matches("width(bytes) > 1").unwrap_err().message().contains("found bytes"));
    let keyed = [("key", "k".into()), ("v", Value::from(1))];
    let reader = ListReader::pack([sample(&keyed)]).unwrap();
    let error = Expression::parse("len(v) == 1").unwrap().choose(&reader, |_| Ok(())).unwrap_err();
    assert_eq!(error.index(), Some(0));
}

#[test]
fn times_are_compared_as_times() {
    let noon = timestamp::to_ext(1_714_564_800, 0).unwrap();
    let day = Special::scalar("<M8[D]".parse().unwrap(), 19_844i64.to_le_bytes().to_vec());
    let fields = sample(&[
        ("stamp", Value::Ext(-1, noon)),
        ("text", "2024-05-01T14:00:00+02:00".into()),
        ("day", day.unwrap().to_value()),
        ("word", "unknown".into()),
        ("number", 2024.into()),
        ("key", "2024-05-01-cat".into()),
    ]);
    let matches = |text: &str| Expression::parse(text).unwrap().matches(&fields).unwrap();
    for text in [
        "stamp >= 2024-05-01 and stamp < '2024-05-01 12:00:01' and stamp > 2024-05-01T11:59",
        "stamp == 2024-05-01T12:00:00Z and stamp in (x, '2024-05-01T12:00') and stamp != 2024-05-01",
        "text == 2024-05-01T12:00:00Z and text <= 2024-05-01T12:00 and text > 2024-05-01T13:59+02:00",
        "day == 2024-05-01 and day < 2024-05-01T00:00:00.000000001Z and day >= 2024-04-30",
        "word > 2024-05-01 and word != 2024-05-01 and key > 2024-05-01",
        "text ~ '2024-05-01T14*' and text != 2024-05-01T14:00:00Z",
        "not number == 2024-05-01 and not stamp == noon and not stamp < noon and not stamp > 5",
    ] {
        assert!(matches(text), "{text}");
    }
    let reader = ListReader::pack([fields.clone()]).unwrap();
    let stamp = "a time in \"stamp\", such as 2024-05-01T12:00:00Z";
    for (text, found, other) in [
        ("number > 2024-05-01", "a number in \"number\", such as 2024", "a time"),
        ("stamp == noon", stamp, "text"),
        ("stamp ~ '2024-05-01'", stamp, "text"),
        ("stamp in 1,2", stamp, "a number"),
        ("len(word) == x", "a number in \"len(word)\", such as 7", "text"),
    ] {
        let chosen = Expression::parse(text).unwrap().choose(&reader, |_| Ok(())).unwrap();
        let [mismatch] = &chosen.mismatches[..] else { panic!("{text}") };
        let says =
            format!("1 sample has {found}, which is never equal to and in no order with {other}");
        assert_eq!(mismatch.to_string(), says, "{text}");
    }
    for text in ["stamp > 2024-05-01", "word > 2024-05-01", "stamp in x,2024-05-01", "day is null"]
    {
        let chosen = Expression::parse(text).unwrap().choose(&reader, |_| Ok(())).unwrap();
        assert_eq!(chosen.mismatches, [], "{text}");
    }
}

#[test]
fn labels_are_found_in_either_normalisation() {
    let (composed, apart) = ("caf\u{e9}", "cafe\u{301}");
    for (name, typed) in
        [(composed, apart), (apart, composed), (apart, apart), (composed, composed)]
    {
        let matches = |text: String, label: Value| {
            let expression = Expression::parse(&text).unwrap().with_labels(&["x", name]).unwrap();
            assert!(expression.matches(&sample(&[("label", label)])).unwrap(), "{text}");
        };
        for field in [1.into(), composed.into(), apart.into()] {
            matches(format!("label == {typed}"), field);
        }
        matches(format!("label in (x, {typed})"), 1.into());
        matches(format!("label ~ '?af{}'", &typed[3..]), 1.into());
        matches(format!("label ilike 'C%{}'", &typed[3..]), 1.into());
    }
    // Not what is about the label, nor another field.
    let other = Expression::parse("len(label) == x or meta.label == x").unwrap();
    assert_eq!(other.clone().with_labels(&["y"]).unwrap(), other);
}

#[test]
fn a_field_is_missing_only_if_no_sample_has_it() {
    let reader = ListReader::pack([
        sample(&[("key", "a".into()), ("x", 1.into()), ("rare", 1.into())]),
        sample(&[("key", "b".into()), ("x", 2.into())]),
    ])
    .unwrap();
    let choose = |text: &str, progress: &mut dyn FnMut(u64) -> Result<()>| {
        Expression::parse(text).unwrap().choose(&reader, progress)
    };
    // Asked only of the second.
    let found = choose("x == 1 or rare == 1 or x == 2", &mut |_| Ok(())).unwrap();
    assert_eq!(found.indices, [0, 1]);
    let mut heard = Vec::new();
    let error = choose("x == 1 or rar == 1", &mut |seen| {
        heard.push(seen);
        Ok(())
    });
    assert_eq!(error.unwrap_err().message(), "no sample has a field \"rar\"");
    assert_eq!(heard, [0, 2]);
    let stop = &mut |seen| match seen {
        0 => Ok(()),
        _ => Err(Error::new(ErrorKind::Cancelled, "enough")),
    };
    assert_eq!(choose("rar == 1", stop).unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_field_is_read_once_for_each_sample() {
    struct Counting(ListReader, Mutex<Vec<String>>);
    impl Reader for Counting {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn key(&self, index: usize) -> Result<Cow<'_, str>> {
            self.0.key(index)
        }

        fn find(&self, key: &str) -> Result<Option<usize>> {
            self.0.find(key)
        }

        fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
            self.0.get_raw(index)
        }

        fn field(&self, index: usize, name: &str) -> Result<Option<Value>> {
            self.1.lock().unwrap().push(format!("{name}{index}"));
            self.0.field(index, name)
        }
    }
    let samples =
        ["p", "q"].map(|key| sample(&[("key", key.into()), ("m", sample(&[("x", 1.into())]))]));
    let reader = Counting(ListReader::pack(samples).unwrap(), Mutex::default());
    let text = "(key == p or key == q) and m.x > 0 and m.x < 2 and len(m) == 1 and has m";
    let chosen = Expression::parse(text).unwrap().choose(&reader, |_| Ok(())).unwrap();
    assert_eq!(chosen.indices, [0, 1]);
    let read = reader.1.into_inner().unwrap();
    assert_eq!(read, ["key0", "m.x0", "m0", "key1", "m.x1", "m1"]);
}

#[test]
fn printed_it_is_the_same_again() {
    for (text, printed) in [
        ("a=1&&b<>'x'||!has c", "a == 1 and b != 'x' or not has c"),
        (
            "(a == 1 or b == 2) and not (c in (1) and d in [])",
            "(a == 1 or b == 2) and not (c in (1) and d in ())",
        ),
        ("(a == 1 and b == 1) and c == 1", "(a == 1 and b == 1) and c == 1"),
        (
            "x is not null or x not like 'it''s' or x !~* \"a\"",
            "x != null or x not like \"it's\" or x !~* 'a'",
        ),
        (
            "'a.b' == 1e30 or a.b[ 0 ] = 0.5 or \"len\" >= -1e-7",
            "'a.b' == 1e30 or a.b[0] == 5e-1 or 'len' >= -1e-7",
        ),
        (
            "len(x) ilike y or größe == '\"''' or 'NOT' is null",
            "len(x) ilike 'y' or 'größe' == '\"''' or 'NOT' == null",
        ),
    ] {
        let expression = Expression::parse(text).unwrap();
        assert_eq!(expression.to_string(), printed, "{text}");
        assert_eq!(Expression::parse(printed).unwrap(), expression, "{text}");
    }
}
