//! Random trees are printed and read again, and random text is a condition or an error.

use super::super::function::Function;
use super::super::literal::Literal;
use super::super::node::{Comparison, Term};
use super::super::path::{Path, Step};
use super::super::pattern::{Style, TextPattern};
use super::*;
use crate::rearrange::Scalar;

/// Numbers that look random.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) as usize % end
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

const TEXTS: [&str; 18] = [
    "a",
    "",
    " ",
    "it's",
    "\"",
    "'\"'",
    "''",
    "and",
    "NOT",
    "in",
    "len",
    "3",
    "null",
    "a.b",
    "x[0]",
    "größe",
    "2024-05-01",
    "\u{0}~*",
];

fn path(random: &mut Random) -> Path {
    if random.below(2) == 0 {
        return Path::literal(random.pick(&TEXTS));
    }
    let field = random.pick(&["a", "len", "b-c", "größe", "7"]);
    let (mut name, mut steps) = (field.to_owned(), vec![Step::Name(field.to_owned())]);
    for _ in 0..1 + random.below(3) {
        if random.below(2) == 0 {
            let index = random.pick(&[0, -1, i64::MAX, i64::MIN]);
            name += &format!("[{index}]");
            steps.push(Step::Index(index));
        } else {
            let step = random.pick(&["x", "and", "not", "0", "é"]);
            name += &format!(".{step}");
            steps.push(Step::Name(step.to_owned()));
        }
    }
    Path::new(name, steps)
}

fn literal(random: &mut Random) -> Literal {
    Literal::new(match random.below(5) {
        0 => Scalar::Nothing,
        1 => Scalar::Truth(random.below(2) == 0),
        2 => Scalar::Whole(random.pick(&[0, -1, 7, i128::MAX, i128::MIN])),
        3 => Scalar::number(random.pick(&[0.1, -2.5e-9, 1e30, f64::MAX, f64::MIN_POSITIVE, 1e25])),
        _ => Scalar::Text(random.pick(&TEXTS).to_owned()),
    })
}

fn node(random: &mut Random, depth: usize) -> Node {
    let term = |random: &mut Random| Term {
        function: random.pick(&[
            None,
            None,
            Some(Function::Len),
            Some(Function::Width),
            Some(Function::Height),
        ]),
        path: path(random),
    };
    let parts =
        |random: &mut Random| (0..2 + random.below(2)).map(|_| node(random, depth - 1)).collect();
    match random.below(if depth == 0 { 4 } else { 7 }) {
        0 => Node::Has(path(random)),
        1 => {
            let how = random.pick(&[
                Comparison::Equal,
                Comparison::Less,
                Comparison::LessOrEqual,
                Comparison::Greater,
                Comparison::GreaterOrEqual,
            ]);
            Node::Compare(term(random), how, literal(random))
        }
        2 => Node::In(term(random), (0..random.below(4)).map(|_| literal(random)).collect()),
        3 => {
            let style = random.pick(&[Style::Glob, Style::Like]);
            let pattern = TextPattern::new(random.pick(&TEXTS), style, random.below(2) == 0);
            Node::Matches(term(random), pattern)
        }
        4 => Node::Not(Box::new(node(random, depth - 1))),
        5 => Node::Any(parts(random)),
        _ => Node::All(parts(random)),
    }
}

#[test]
fn random_trees_are_printed_and_read_again() {
    let mut random = Random(1);
    for _ in 0..if cfg!(miri) { 20 } else { 10_000 } {
        let depth = random.below(5);
        let expression = Expression(node(&mut random, depth));
        let text = expression.to_string();
        assert_eq!(Expression::parse(&text).as_ref(), Ok(&expression), "{text}");
    }
}

#[test]
fn the_deepest_trees_are_printed_and_dropped() {
    for (open, close) in [("not ", ""), ("!", ""), ("(a == 1 or ", ")"), ("!(a == 1 and ", ")")] {
        let mut deepest = None;
        for times in 1.. {
            let text = format!("{}b == 1{}", open.repeat(times), close.repeat(times));
            let Ok(expression) = Expression::parse(&text) else { break };
            deepest = Some((times, expression));
        }
        let (times, deepest) = deepest.unwrap();
        assert!(times >= 99, "{open}: {times}");
        assert_eq!(Expression::parse(&deepest.to_string()).as_ref(), Ok(&deepest));
        assert_eq!(deepest.clone().with_labels(&["a"]).as_ref(), Ok(&deepest));
        assert!(deepest.fields().len() <= times + 1);
        deepest.matches(&sample(&[("b", 1.into())])).unwrap();
        assert!(!format!("{deepest:?}").is_empty());
    }
}

#[test]
fn anything_is_a_condition_or_an_error() {
    const PARTS: [&str; 64] = [
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
        "~*",
        "!~*",
        "like",
        "ILIKE",
        "is",
        "AND",
        "NOT",
        "HAS",
        "has",
        "len(",
        "width",
        "height(a)",
        "a.b",
        "a[0]",
        "[-1]",
        ".b",
        "&&",
        "||",
        "<>",
        "label",
        "2024-05-01",
        "e\u{301}",
        "*",
        "%",
    ];
    let mut random = Random(1);
    let mut parsed = 0;
    let rounds = if cfg!(miri) { 100 } else { 60_000 };
    for round in 0..rounds {
        let mut text = String::new();
        for _ in 0..random.below(12) {
            if round % 4 == 0 {
                let bytes: Vec<u8> =
                    (0..random.below(4)).map(|_| random.below(256) as u8).collect();
                text += &String::from_utf8_lossy(&bytes);
            }
            text += random.pick(&PARTS);
            text += random.pick(&[" ", ""]);
        }
        match Expression::parse(&text) {
            Ok(expression) => {
                let _ = expression.fields();
                for value in [Value::from(1), "y".into(), vec![0].into(), Value::Binary(vec![0; 9])]
                {
                    let _ = expression.matches(&sample(&[("a", value)]));
                }
                let printed = expression.to_string();
                assert_eq!(
                    Expression::parse(&printed).as_ref(),
                    Ok(&expression),
                    "{text}: {printed}"
                );
                let _ = expression.with_labels(&["a", "y", "\u{e9}"]);
                parsed += 1;
            }
            Err(error) => {
                let at = error.position().unwrap_or(1);
                assert!((1..=text.chars().count().max(1)).contains(&at), "{text}: {error}");
                let names_it = error.to_string().contains(&format!(" at {at}"));
                assert!(names_it || error.to_string().ends_with("found the end"), "{error}");
            }
        }
    }
    assert!(parsed * 200 > rounds, "{parsed}");
}
