use super::*;
use crate::reader::ListReader;

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
        ("label", "expected ==, !=, <, <=, >, >=, ~, !~ or \"in\", found the end"),
        ("label = 3", "found = at 7 (equal is ==)"),
        ("label ==", "expected a value, found the end"),
        ("label == 3 4", "expected \"and\", \"or\" or the end, found 4 at 12"),
        ("(label == 3", "expected \")\", found the end"),
        ("label == 3)", "found ) at 11"),
        ("label in", "expected a value, found the end"),
        ("label in 1,", "expected a value, found the end"),
        ("label not 3", "expected \"in\", found 3 at 11"),
        ("and label == 3", "expected a field, found and at 1"),
        ("key ~ 'x", "the quote at 7 is not closed"),
        ("label ! 3", "'!' at 7 has no meaning"),
        ("ключ = 3", "found = at 6"),
        ("key in [a,b,c]", "'[' at 8 has no meaning here: a list has no brackets"),
        ("key not in [a,b]", "'[' at 12 has no meaning"),
        ("key in a,b]", "']' at 11 has no meaning"),
        ("key in ['a','b']", "'[' at 8 has no meaning"),
        ("label in {1,2}", "'{' at 10 has no meaning"),
        ("label in (1,2)", "expected a value, found ( at 10"),
        ("label == 3&&x == 4", "'&' at 11 has no meaning"),
        ("label == 3 && x == 4", "found && at 12"),
        ("label == 3|x", "'|' at 11 has no meaning"),
        ("label == 3;", "';' at 11 has no meaning here: quotes make it text"),
        ("key == cat/*", "'*' at 12 has no meaning here: ~ compares with a pattern"),
        ("key in a?,b", "'?' at 9 has no meaning"),
        ("x == 2^3", "'^' at 7 has no meaning"),
        ("path == a\\b", "'\\\\' at 10 has no meaning"),
        ("has [caption]", "'[' at 5 has no meaning"),
        ("[label] == 3", "'[' at 1 has no meaning"),
        ("label ≥ 3", "found ≥ at 7"),
        ("ключ == “ä”", "'“' at 9 has no meaning"),
    ] {
        let error = Expression::parse(text).unwrap_err();
        assert!(error.to_string().contains(says), "{text}: {error}");
        let position = says.split_once(" at ").map(|(_, at)| at.split(' ').next().unwrap());
        assert_eq!(error.position(), position.map(|at| at.parse().unwrap()), "{text}");
    }
    assert!(Expression::parse(&"(".repeat(100_000)).is_err());
    assert!(Expression::parse(&"not ".repeat(100_000)).is_err());
    assert!(Expression::parse(&"not ".repeat(5_000)).is_err());
    let long = |times| vec!["a == 1"; times].join(" or ");
    assert!(Expression::parse(&long(2_000)).is_ok());
    assert!(Expression::parse(&long(100_000)).is_err());
}

#[test]
fn fields_are_known() {
    let expression = Expression::parse("a == 1 and (b in 1,2 or not c ~ x) or has d").unwrap();
    assert_eq!(expression.fields(), ["a", "b", "c"]);
}

#[test]
fn anything_is_a_condition_or_an_error() {
    let parts = [
        "a",
        "and",
        "or",
        "not",
        "in",
        "(",
        ")",
        "==",
        "!=",
        "<=",
        ">=",
        "<",
        ">",
        "=",
        "!",
        ",",
        "\"",
        "\"x\"",
        "'",
        "'y'",
        "\\",
        "1",
        "-",
        "-2.5e9",
        "1e999",
        "true",
        "null",
        "ß",
        "\u{0}",
        ".",
        "  ",
        "\n",
        "99999999999999999999999",
        "exists",
        "~",
        "[",
        "]",
        "{a}",
        "|",
        "≥",
    ];
    let mut state = 1u64;
    let mut below = |end: usize| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) as usize % end
    };
    let mut parsed = 0;
    for _ in 0..50_000 {
        let mut text = String::new();
        for _ in 0..below(12) {
            text += parts[below(parts.len())];
            text += [" ", ""][below(2)];
        }
        if let Ok(expression) = Expression::parse(&text) {
            let _ = expression.fields();
            let _ = expression.matches(&sample(&[("a", 1.into())]));
            parsed += 1;
        }
    }
    assert!(parsed > 100, "{parsed}");
}

/// Whatever sign is put into a value, it is part of the text, ends the condition or is an error: none
/// changes what is chosen in silence.
#[test]
fn no_sign_in_a_value_is_passed_over() {
    for sign in (' '..='~').filter(|c| !c.is_ascii_alphanumeric() && *c != ' ') {
        for text in [format!("label == {sign}x"), format!("label in 3,x{sign},y")] {
            let Ok(parsed) = Expression::parse(&text) else { continue };
            let values = format!("{parsed:?}");
            assert!("_-./:+@#%$".contains(sign) && values.contains(sign), "{text}: {values}");
        }
    }
}
