//! Random conditions about random samples, compared with a second evaluation that shares no code with the
//! first: it works on a tree of its own, from which the text is made.

use super::random::Random;
use super::*;

/// What the model knows of a value.
#[derive(Debug, Clone, PartialEq)]
enum Known {
    Null,
    Truth(bool),
    Number(f64),
    Text(&'static str),
    /// Seconds after the first of May 2024.
    Time(i64),
    List(Vec<Known>),
    Map(Vec<(&'static str, Known)>),
    Bytes(usize),
}

/// Texts that say a time, and which.
const TIMES: [(&str, i64); 5] = [
    ("2024-05-01", 0),
    ("2024-05-01T00:00:00Z", 0),
    ("2024-05-01T02:00:00+02:00", 0),
    ("2024-05-01 12:30", 45_000),
    ("2024-04-30T23:59:59Z", -1),
];
const TEXTS: [&str; 12] = [
    "cat",
    "Cat",
    "dog",
    "",
    "cat/1.png",
    "CAT/1.PNG",
    "caf\u{e9}",
    "10",
    "2024-05-01",
    "2024-05-01T02:00:00+02:00",
    "2024-05-01 12:30",
    "2024-05-32",
];
const NUMBERS: [f64; 6] = [-1.0, 0.0, 0.5, 1.0, 3.0, 10.0];

impl Known {
    fn random(random: &mut Random, depth: usize) -> Known {
        match random.below(if depth == 0 { 8 } else { 12 }) {
            0 => Known::Null,
            1 => Known::Truth(random.below(2) == 0),
            2 | 3 => Known::Number(random.pick(&NUMBERS)),
            4 | 5 => Known::Text(random.pick(&TEXTS)),
            6 => Known::Time(random.pick(&[0, 45_000, -1])),
            7 => Known::Bytes(random.below(3)),
            8 | 9 => Known::List(
                (0..random.below(3)).map(|_| Known::random(random, depth - 1)).collect(),
            ),
            _ => Known::Map(fields(random, &["x", "y", "x.y"], depth - 1)),
        }
    }

    fn value(&self) -> Value {
        match self {
            Known::Null => Value::Nil,
            Known::Truth(truth) => (*truth).into(),
            Known::Number(number) if number.fract() == 0.0 => (*number as i64).into(),
            Known::Number(number) => (*number).into(),
            Known::Text(text) => (*text).into(),
            Known::Time(after) => {
                Value::Ext(-1, timestamp::to_ext(1_714_521_600 + after, 0).unwrap())
            }
            Known::List(items) => Value::Array(items.iter().map(Known::value).collect()),
            Known::Map(entries) => Value::Map(
                entries.iter().map(|(name, value)| ((*name).into(), value.value())).collect(),
            ),
            Known::Bytes(len) => Value::Binary(vec![0; *len]),
        }
    }
}

fn fields(random: &mut Random, names: &[&'static str], depth: usize) -> Vec<(&'static str, Known)> {
    let mut fields = Vec::new();
    for name in names {
        if random.below(3) > 0 {
            fields.push((*name, Known::random(random, depth)));
        }
    }
    fields
}

#[derive(Debug, Clone)]
struct About {
    /// With `len` around it.
    counts: bool,
    /// The first is a field. Numbers are indices.
    steps: Vec<&'static str>,
    is_quoted: bool,
}

#[derive(Debug, Clone)]
enum Test {
    Or(Vec<Test>),
    And(Vec<Test>),
    Not(Box<Test>),
    Has(About),
    Compare(About, usize, Known),
    In(About, Vec<Known>),
    /// With `*` and `?`; whether as `like`, whether case is ignored.
    Fits(About, &'static str, bool, bool),
}

const SIGNS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];

impl About {
    fn random(random: &mut Random, can_count: bool) -> About {
        let steps = [
            &["a"][..],
            &["b"],
            &["m"],
            &["m", "x"],
            &["m", "x", "y"],
            &["a", "0"],
            &["b", "-1"],
            &["m", "y", "1"],
        ];
        About {
            counts: can_count && random.below(6) == 0,
            steps: random.pick(&steps).to_vec(),
            is_quoted: random.below(8) == 0,
        }
    }

    fn name(&self) -> String {
        let mut name = String::new();
        for step in &self.steps {
            match step.parse::<i64>() {
                Ok(_) => name += &format!("[{step}]"),
                Err(_) if name.is_empty() => name += step,
                Err(_) => name += &format!(".{step}"),
            }
        }
        name
    }

    fn text(&self) -> String {
        let name = if self.is_quoted { format!("'{}'", self.name()) } else { self.name() };
        if self.counts { format!("len({name})") } else { name }
    }

    fn found(&self, sample: &[(&'static str, Known)]) -> Option<Known> {
        let named = |entries: &[(&'static str, Known)], name: &str| {
            entries.iter().find(|(own, _)| *own == name).map(|(_, value)| value.clone())
        };
        let whole = named(sample, &self.name());
        if whole.is_some() || self.is_quoted {
            return whole;
        }
        let mut value = named(sample, self.steps[0])?;
        for step in &self.steps[1..] {
            value = match (value, step.parse::<i64>()) {
                (Known::Map(entries), Err(_)) => named(&entries, step)?,
                (Known::List(items), Ok(at)) if at >= 0 => items.get(at as usize)?.clone(),
                (Known::List(items), Ok(at)) => items.iter().rev().nth((-at - 1) as usize)?.clone(),
                _ => return None,
            };
        }
        Some(value)
    }

    /// What is compared, or that nothing can be.
    fn compared(&self, sample: &[(&'static str, Known)]) -> Result<Known, ()> {
        match (self.counts, self.found(sample).unwrap_or(Known::Null)) {
            (_, Known::Null) => Ok(Known::Null),
            (true, Known::Text(text)) => Ok(Known::Number(text.chars().count() as f64)),
            (true, Known::List(items)) => Ok(Known::Number(items.len() as f64)),
            (true, Known::Map(entries)) => Ok(Known::Number(entries.len() as f64)),
            (true, Known::Bytes(len)) => Ok(Known::Number(len as f64)),
            (true, _) | (false, Known::List(_) | Known::Map(_) | Known::Bytes(_)) => Err(()),
            (false, value) => Ok(value),
        }
    }
}

fn as_time(value: &Known) -> Option<i64> {
    match value {
        Known::Time(time) => Some(*time),
        Known::Text(text) => TIMES.iter().find(|(own, _)| own == text).map(|(_, time)| *time),
        _ => None,
    }
}

/// Less, equal, greater, or none of these; and whether the two are equal.
fn compare(value: &Known, other: &Known) -> (Option<std::cmp::Ordering>, bool) {
    let order = match (value, other) {
        (Known::Number(a), Known::Number(b)) => a.partial_cmp(b),
        _ if as_time(value).is_some() && as_time(other).is_some() => {
            Some(as_time(value).cmp(&as_time(other)))
        }
        (Known::Text(a), Known::Text(b)) => Some(a.cmp(b)),
        _ => None,
    };
    (order, order.map_or(value == other, std::cmp::Ordering::is_eq))
}

fn fits(pattern: &[char], text: &[char]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        (['*', rest @ ..], _) => {
            fits(rest, text) || (!text.is_empty() && fits(pattern, &text[1..]))
        }
        (['?', pattern @ ..], [_, text @ ..]) => fits(pattern, text),
        ([one, pattern @ ..], [other, text @ ..]) => one == other && fits(pattern, text),
        _ => false,
    }
}

impl Test {
    fn random(random: &mut Random, depth: usize) -> Test {
        let some = |random: &mut Random| {
            (0..2 + random.below(2)).map(|_| Test::random(random, depth - 1)).collect()
        };
        let literal = |random: &mut Random| match random.below(8) {
            0 => Known::Null,
            1 => Known::Truth(random.below(2) == 0),
            2 | 3 => Known::Number(random.pick(&NUMBERS)),
            4 => Known::Text(random.pick(&TIMES).0),
            _ => Known::Text(random.pick(&TEXTS)),
        };
        match random.below(if depth == 0 { 6 } else { 10 }) {
            0 => Test::Has(About::random(random, false)),
            1 | 2 => Test::Compare(About::random(random, true), random.below(6), literal(random)),
            3 | 4 => Test::In(
                About::random(random, true),
                (0..random.below(4)).map(|_| literal(random)).collect(),
            ),
            5 => {
                let pattern = random.pick(&[
                    "*",
                    "c*",
                    "?at",
                    "*/1.p?g",
                    "CAT*",
                    "caf\u{c9}",
                    "",
                    "*1*",
                    "2024*",
                ]);
                Test::Fits(
                    About::random(random, true),
                    pattern,
                    random.below(2) == 0,
                    random.below(2) == 0,
                )
            }
            6 => Test::Not(Box::new(Test::random(random, depth - 1))),
            7 | 8 => Test::Or(some(random)),
            _ => Test::And(some(random)),
        }
    }

    fn text(&self, random: &mut Random) -> String {
        let literal = |value: &Known, random: &mut Random| match value {
            Known::Truth(truth) => truth.to_string(),
            Known::Number(number) => number.to_string(),
            Known::Text(text) => match random.below(2) {
                0 => format!("'{text}'"),
                1 if text.is_empty() || text.contains(' ') || *text == "10" => {
                    format!("\"{text}\"")
                }
                _ => (*text).to_owned(),
            },
            _ => "null".to_owned(),
        };
        match self {
            Test::Or(parts) | Test::And(parts) => {
                let words = match self {
                    Test::Or(_) => ["or", "OR", "||"],
                    _ => ["and", "AND", "&&"],
                };
                let parts: Vec<String> =
                    parts.iter().map(|part| format!("({})", part.text(random))).collect();
                parts.join(&format!(" {} ", random.pick(&words)))
            }
            Test::Not(inner) => {
                format!("{}({})", random.pick(&["not ", "NOT", "!", "! "]), inner.text(random))
            }
            Test::Has(about) => format!("{} {}", random.pick(&["has", "HAS"]), about.text()),
            Test::Compare(about, sign, Known::Null) if *sign < 2 && random.below(2) == 0 => {
                format!("{} is {}null", about.text(), ["", "not "][*sign])
            }
            Test::Compare(about, sign, value) => {
                let sign = match (*sign, random.below(2)) {
                    (0, 0) => "=",
                    (1, 0) => "<>",
                    (sign, _) => SIGNS[sign],
                };
                format!("{}{}{}", about.text(), sign, literal(value, random))
            }
            Test::In(about, values) => {
                let texts: Vec<String> =
                    values.iter().map(|value| literal(value, random)).collect();
                let brackets = if values.is_empty() {
                    &["()", "[]", "{}"][..]
                } else {
                    &["()", "[]", "{}", "  "]
                };
                let brackets = random.pick(brackets);
                format!(
                    "{} in {}{}{}",
                    about.text(),
                    &brackets[..1],
                    texts.join(random.pick(&[",", ", "])),
                    &brackets[1..]
                )
            }
            Test::Fits(about, pattern, true, ignores_case) => {
                let pattern = pattern.replace('*', "%").replace('?', "_");
                format!(
                    "{} {} '{pattern}'",
                    about.text(),
                    if *ignores_case { "ilike" } else { "LIKE" }
                )
            }
            Test::Fits(about, pattern, false, ignores_case) => {
                format!("{} {} '{pattern}'", about.text(), if *ignores_case { "~*" } else { "~" })
            }
        }
    }

    fn holds(&self, sample: &[(&'static str, Known)]) -> Result<bool, ()> {
        match self {
            Test::Or(parts) => {
                parts.iter().try_fold(false, |so_far, part| Ok(so_far || part.holds(sample)?))
            }
            Test::And(parts) => {
                parts.iter().try_fold(true, |so_far, part| Ok(so_far && part.holds(sample)?))
            }
            Test::Not(inner) => inner.holds(sample).map(|holds| !holds),
            Test::Has(about) => Ok(about.found(sample).is_some()),
            Test::Compare(about, sign, other) => {
                let (order, is_equal) = compare(&about.compared(sample)?, other);
                Ok(match SIGNS[*sign] {
                    "==" => is_equal,
                    "!=" => !is_equal,
                    "<" => order.is_some_and(|order| order.is_lt()),
                    "<=" => order.is_some_and(|order| order.is_le()),
                    ">" => order.is_some_and(|order| order.is_gt()),
                    _ => order.is_some_and(|order| order.is_ge()),
                })
            }
            Test::In(about, values) => {
                let value = about.compared(sample)?;
                Ok(values.iter().any(|other| compare(&value, other).1))
            }
            Test::Fits(about, pattern, _, ignores_case) => {
                let chars = |text: &str| -> Vec<char> {
                    if *ignores_case {
                        text.to_lowercase().chars().collect()
                    } else {
                        text.chars().collect()
                    }
                };
                match about.compared(sample)? {
                    Known::Text(text) => Ok(fits(&chars(pattern), &chars(text))),
                    _ => Ok(false),
                }
            }
        }
    }
}

const KEYS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

#[test]
fn random_conditions_are_true_of_the_samples_of_a_model() {
    let mut random = Random(7);
    let (mut trues, mut falses, mut errors) = (0, 0, 0);
    for _ in 0..if cfg!(miri) { 5 } else { 3_000 } {
        let depth = random.below(4);
        let test = Test::random(&mut random, depth);
        let text = test.text(&mut random);
        let expression = Expression::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let printed = Expression::parse(&expression.to_string()).unwrap();
        let (mut samples, mut chosen) = (Vec::new(), Ok(Vec::new()));
        for (index, key) in KEYS.iter().enumerate() {
            let mut known = fields(&mut random, &["a", "b", "m", "m.x", "m.x.y", "a[0]"], 3);
            known.push(("key", Known::Text(key)));
            let sample = Known::Map(known.clone()).value();
            let expected = test.holds(&known);
            for expression in [&expression, &printed] {
                let found = expression.matches(&sample).map_err(|_| ());
                assert_eq!(found, expected, "{text}: {known:?}");
            }
            match (expected, &mut chosen) {
                (Ok(true), Ok(chosen)) => chosen.push(index),
                (Err(()), _) => chosen = Err(()),
                _ => {}
            }
            match expected {
                Ok(true) => trues += 1,
                Ok(false) => falses += 1,
                Err(()) => errors += 1,
            }
            samples.push(sample);
        }
        // All samples together, unless no sample has one of the fields.
        let reader = ListReader::pack(samples).unwrap();
        match (expression.choose(&reader, |_| Ok(())), chosen) {
            (Ok(found), chosen) => assert_eq!(Ok(found.indices), chosen, "{text}"),
            (Err(error), Ok(_)) => {
                assert!(error.message().contains("no sample has"), "{text}: {error}")
            }
            (Err(_), Err(())) => {}
        }
    }
    if !cfg!(miri) {
        assert!(trues.min(falses).min(errors) > 1_000, "{trues} {falses} {errors}");
    }
}
