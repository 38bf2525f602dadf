//! Conditions on samples: the small language of `kiste filter`.
//!
//! ```text
//! either    = both { "or" both }
//! both      = inverse { "and" inverse }
//! inverse   = "not" inverse | "(" either ")" | "has" FIELD | test
//! test      = FIELD ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) VALUE
//!           | FIELD [ "not" ] "in" VALUE { "," VALUE }
//!           | FIELD ( "~" | "!~" ) PATTERN
//! ```
//!
//! A field that is not there is null. Values of different kinds are never equal and in no order:
//! [`Fields::differ`] hears of them, as that is rarely what was meant. Where numbers of labels have
//! names, the names mean the numbers: [`Expression::name_labels`].

use kiste::reader::fnmatch;
use kiste::rearrange::Scalar;

use crate::exit::Outcome;

/// The field whose numbers `.labels` names.
const LABEL: &str = "label";

/// The fields of one sample after the other.
pub(crate) trait Fields {
    /// The value of a field; `None` is one that is not there.
    fn field(&mut self, name: &str) -> Outcome<Option<Scalar>>;

    /// Hears that the value of a field was compared with one of another kind.
    fn differ(&mut self, name: &str, found: &Scalar, other: &Scalar) {
        let _ = (name, found, other);
    }
}

impl<F: FnMut(&str) -> Outcome<Option<Scalar>>> Fields for F {
    fn field(&mut self, name: &str) -> Outcome<Option<Scalar>> {
        self(name)
    }
}

/// What a value is, in a word. Nothing is of the kind of everything.
pub(crate) fn kind(scalar: &Scalar) -> Option<&'static str> {
    match scalar {
        Scalar::Nothing => None,
        Scalar::Truth(_) => Some("true or false"),
        Scalar::Whole(_) | Scalar::Float(_) => Some("a number"),
        Scalar::Text(_) => Some("text"),
    }
}

fn is_alike(a: &Scalar, b: &Scalar) -> bool {
    kind(a).zip(kind(b)).is_none_or(|(a, b)| a == b)
}

/// A condition, parsed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    Or(Box<Expression>, Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Has(String),
    Compare(String, Comparison, Scalar),
    In(String, Vec<Scalar>),
    Matches(String, String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Expression {
    /// What is wrong and where, if it cannot be understood.
    pub(crate) fn parse(text: &str) -> Result<Expression, String> {
        let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
        if parser.tokens.len() > MAX_TOKENS {
            return Err(format!("longer than {MAX_TOKENS} words and signs"));
        }
        let expression = parser.either()?;
        match parser.peek() {
            None => Ok(expression),
            Some(token) => Err(parser.expected("\"and\", \"or\" or the end", Some(token))),
        }
    }

    /// Whether it is true of a sample.
    pub(crate) fn holds(&self, fields: &mut dyn Fields) -> Outcome<bool> {
        Ok(match self {
            Expression::Or(a, b) => a.holds(fields)? || b.holds(fields)?,
            Expression::And(a, b) => a.holds(fields)? && b.holds(fields)?,
            Expression::Not(a) => !a.holds(fields)?,
            Expression::Has(name) => fields.field(name)?.is_some(),
            Expression::Compare(name, how, other) => {
                let value = fields.field(name)?.unwrap_or(Scalar::Nothing);
                if !is_alike(&value, other) {
                    fields.differ(name, &value, other);
                }
                how.holds(&value, other)
            }
            Expression::In(name, others) => {
                let value = fields.field(name)?.unwrap_or(Scalar::Nothing);
                if let Some(other) = others.first() {
                    if !others.iter().any(|other| is_alike(&value, other)) {
                        fields.differ(name, &value, other);
                    }
                }
                others.contains(&value)
            }
            Expression::Matches(name, pattern) => match fields.field(name)? {
                Some(Scalar::Text(text)) => fnmatch(&text, pattern),
                None | Some(Scalar::Nothing) => false,
                Some(value) => {
                    fields.differ(name, &value, &Scalar::Text(pattern.clone()));
                    false
                }
            },
        })
    }

    /// Lets names of labels mean their numbers, of which the first is named first. Fails for a name
    /// or a pattern of none.
    pub(crate) fn name_labels(self, names: &[String]) -> Result<Expression, String> {
        let numbered = |is_it: &dyn Fn(&str) -> bool| -> Vec<Scalar> {
            let named = names.iter().enumerate().filter(|(_, name)| is_it(name));
            named.map(|(number, _)| Scalar::Whole(number as i128)).collect()
        };
        let label = |text: String| match numbered(&|name| name == text) {
            numbers if numbers.is_empty() => Err(format!("no label is named {text:?}")),
            // Labels that are text all the same.
            numbers => Ok([numbers, vec![Scalar::Text(text)]].concat()),
        };
        let both = |a: Expression, b: Expression| {
            Ok::<_, String>((Box::new(a.name_labels(names)?), Box::new(b.name_labels(names)?)))
        };
        Ok(match self {
            Expression::Or(a, b) => both(*a, *b).map(|(a, b)| Expression::Or(a, b))?,
            Expression::And(a, b) => both(*a, *b).map(|(a, b)| Expression::And(a, b))?,
            Expression::Not(a) => Expression::Not(Box::new(a.name_labels(names)?)),
            Expression::Compare(name, Comparison::Equal, Scalar::Text(text)) if name == LABEL => {
                Expression::In(name, label(text)?)
            }
            Expression::In(name, others) if name == LABEL => {
                let mut all = Vec::new();
                for other in others {
                    match other {
                        Scalar::Text(text) => all.extend(label(text)?),
                        other => all.push(other),
                    }
                }
                Expression::In(name, all)
            }
            Expression::Matches(name, pattern) if name == LABEL => {
                match numbered(&|name| fnmatch(name, &pattern)) {
                    none if none.is_empty() => return Err(format!("no label matches {pattern:?}")),
                    numbers => Expression::In(name, numbers),
                }
            }
            other => other,
        })
    }

    /// The fields whose values it asks for.
    pub(crate) fn fields(&self) -> Vec<&str> {
        match self {
            Expression::Or(a, b) | Expression::And(a, b) => [a.fields(), b.fields()].concat(),
            Expression::Not(a) => a.fields(),
            Expression::Has(_) => Vec::new(),
            Expression::Compare(name, ..)
            | Expression::In(name, _)
            | Expression::Matches(name, _) => vec![name],
        }
    }
}

impl Comparison {
    fn holds(self, a: &Scalar, b: &Scalar) -> bool {
        let number = |s: &Scalar| matches!(s, Scalar::Whole(_) | Scalar::Float(_));
        let text = |s: &Scalar| matches!(s, Scalar::Text(_));
        let nan = |s: &Scalar| matches!(s, Scalar::Float(number) if number.is_nan());
        let ordered = (number(a) && number(b) && !nan(a) && !nan(b)) || (text(a) && text(b));
        match self {
            Comparison::Equal => a == b,
            Comparison::Less => ordered && a < b,
            Comparison::LessOrEqual => ordered && a <= b,
            Comparison::Greater => ordered && a > b,
            Comparison::GreaterOrEqual => ordered && a >= b,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// Anything without quotes: a name, a keyword, a number.
    Word(String),
    Quoted(String),
    Sign(&'static str),
}

const SIGNS: [&str; 12] = ["==", "!=", "<=", ">=", "!~", "<", ">", "~", "(", ")", ",", "="];

/// The tokens, and at which character, counted from 1, each begins.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let (mut counted, mut at) = (text, 1);
    loop {
        rest = rest.trim_start();
        at += counted[..counted.len() - rest.len()].chars().count();
        counted = rest;
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            tokens.push((at, Token::Sign(sign)));
            rest = &rest[sign.len()..];
        } else if first == '\'' || first == '"' {
            let end = rest[1..].find(first).ok_or(format!("the quote at {at} is not closed"))?;
            tokens.push((at, Token::Quoted(rest[1..1 + end].to_string())));
            rest = &rest[end + 2..];
        } else {
            let part = |c: char| !c.is_whitespace() && !"()=!<>~,'\"".contains(c);
            let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
            if end == 0 {
                return Err(format!("{first:?} at {at} has no meaning"));
            }
            tokens.push((at, Token::Word(rest[..end].to_string())));
            rest = &rest[end..];
        }
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
}

/// Deeper than anybody writes, and not too deep for a stack.
const MAX_DEPTH: usize = 200;
/// A long chain of "or" is a deep tree as well.
const MAX_TOKENS: usize = 10_000;

impl Parser {
    fn either(&mut self) -> Result<Expression, String> {
        let mut left = self.both()?;
        while self.take_word("or") {
            left = Expression::Or(Box::new(left), Box::new(self.both()?));
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Expression, String> {
        let mut left = self.inverse()?;
        while self.take_word("and") {
            left = Expression::And(Box::new(left), Box::new(self.inverse()?));
        }
        Ok(left)
    }

    fn inverse(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("too many parentheses and \"not\" in one another".to_string());
        }
        let expression = if self.take_word("not") {
            Expression::Not(Box::new(self.inverse()?))
        } else if self.take_sign("(") {
            let inner = self.either()?;
            if !self.take_sign(")") {
                return Err(self.expected("\")\"", self.peek()));
            }
            inner
        } else if self.take_word("has") {
            Expression::Has(self.text("a field")?)
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn test(&mut self) -> Result<Expression, String> {
        let field = self.text("a field")?;
        if self.take_word("not") {
            if !self.take_word("in") {
                return Err(self.expected("\"in\"", self.peek()));
            }
            return Ok(Expression::Not(Box::new(Expression::In(field, self.values()?))));
        }
        if self.take_word("in") {
            return Ok(Expression::In(field, self.values()?));
        }
        let compare = |how, value| Expression::Compare(field.clone(), how, value);
        let next = self.peek();
        self.at += 1;
        Ok(match next {
            Some(Token::Sign("==")) => compare(Comparison::Equal, self.value()?),
            Some(Token::Sign("!=")) => {
                Expression::Not(Box::new(compare(Comparison::Equal, self.value()?)))
            }
            Some(Token::Sign("<")) => compare(Comparison::Less, self.value()?),
            Some(Token::Sign("<=")) => compare(Comparison::LessOrEqual, self.value()?),
            Some(Token::Sign(">")) => compare(Comparison::Greater, self.value()?),
            Some(Token::Sign(">=")) => compare(Comparison::GreaterOrEqual, self.value()?),
            Some(Token::Sign("~")) => Expression::Matches(field, self.text("a pattern")?),
            Some(Token::Sign("!~")) => {
                Expression::Not(Box::new(Expression::Matches(field, self.text("a pattern")?)))
            }
            other => {
                self.at -= 1;
                return Err(self.expected("==, !=, <, <=, >, >=, ~, !~ or \"in\"", other));
            }
        })
    }

    fn values(&mut self) -> Result<Vec<Scalar>, String> {
        let mut values = vec![self.value()?];
        while self.take_sign(",") {
            values.push(self.value()?);
        }
        Ok(values)
    }

    /// A number, true, false, null, or text.
    fn value(&mut self) -> Result<Scalar, String> {
        if let Some(Token::Quoted(text)) = self.peek() {
            self.at += 1;
            return Ok(Scalar::Text(text));
        }
        let word = self.text("a value")?;
        Ok(match word.as_str() {
            "true" => Scalar::Truth(true),
            "false" => Scalar::Truth(false),
            "null" => Scalar::Nothing,
            word => match (word.parse::<i128>(), word.parse::<f64>()) {
                (Ok(number), _) => Scalar::Whole(number),
                (_, Ok(number)) if number.is_finite() => Scalar::number(number),
                _ => Scalar::Text(word.to_string()),
            },
        })
    }

    /// A word, or anything in quotes.
    fn text(&mut self, what: &str) -> Result<String, String> {
        match self.peek() {
            Some(Token::Word(word)) if !["and", "or", "not", "in"].contains(&word.as_str()) => {
                self.at += 1;
                Ok(word)
            }
            Some(Token::Quoted(text)) => {
                self.at += 1;
                Ok(text)
            }
            other => Err(self.expected(what, other)),
        }
    }

    fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).map(|(_, token)| token.clone())
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(Token::Word(word.to_string()));
        self.at += usize::from(found);
        found
    }

    fn take_sign(&mut self, sign: &'static str) -> bool {
        let found = self.peek() == Some(Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn expected(&self, what: &str, found: Option<Token>) -> String {
        let place = self.tokens.get(self.at).map_or(String::new(), |(at, _)| format!(" at {at}"));
        match found {
            None => format!("expected {what}, found the end"),
            Some(Token::Word(word)) => format!("expected {what}, found {word}{place}"),
            Some(Token::Quoted(text)) => format!("expected {what}, found {text:?}{place}"),
            Some(Token::Sign("=")) => format!("expected {what}, found ={place} (equal is ==)"),
            Some(Token::Sign(sign)) => format!("expected {what}, found {sign}{place}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str) -> bool {
        let expression = Expression::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let mut field = |name: &str| {
            Ok(match name {
                "key" => Some(Scalar::Text("cat/1.png".into())),
                "label" => Some(Scalar::Whole(3)),
                "score" => Some(Scalar::Float(0.5)),
                "good" => Some(Scalar::Truth(true)),
                "none" => Some(Scalar::Nothing),
                "odd name" => Some(Scalar::Whole(1)),
                _ => None,
            })
        };
        expression.holds(&mut field).unwrap()
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
        let holds = |text: &str, label: Scalar| {
            let expression = Expression::parse(text).unwrap().name_labels(&names).unwrap();
            let mut field = |name: &str| Ok((name == "label").then(|| label.clone()));
            expression.holds(&mut field).unwrap()
        };
        for text in ["label == cat", "label in cat,7", "label ~ 'c*'", "not label == 'dog'"] {
            for (label, expected) in [(0, true), (1, false), (2, true)] {
                assert_eq!(holds(text, Scalar::Whole(label)), expected, "{text}: {label}");
            }
        }
        assert!(holds("label == 2", Scalar::Whole(2)) && holds("label in 7,cat", Scalar::Whole(7)));
        assert!(holds("label == cat", Scalar::Text("cat".to_owned())));
        for (text, says) in [
            ("label == cow", "no label is named \"cow\""),
            ("x == 1 or not label in 1,cow", "no label is named \"cow\""),
            ("label !~ 'x*'", "no label matches \"x*\""),
        ] {
            assert_eq!(Expression::parse(text).unwrap().name_labels(&names).unwrap_err(), says);
        }
    }

    #[test]
    fn values_of_different_kinds_are_heard_of() {
        struct Heard(Vec<String>);
        impl Fields for Heard {
            fn field(&mut self, name: &str) -> Outcome<Option<Scalar>> {
                Ok(match name {
                    "text" => Some(Scalar::Text("84".to_owned())),
                    "number" => Some(Scalar::Whole(84)),
                    "null" => Some(Scalar::Nothing),
                    _ => None,
                })
            }

            fn differ(&mut self, name: &str, found: &Scalar, other: &Scalar) {
                self.0.push(format!("{name}: {} {}", kind(found).unwrap(), kind(other).unwrap()));
            }
        }
        for (text, expected) in [
            ("text > 80", "text: text a number"),
            ("number == '84'", "number: a number text"),
            ("number != true", "number: a number true or false"),
            ("number in a,b", "number: a number text"),
            ("number ~ '8*'", "number: a number text"),
        ] {
            let mut heard = Heard(Vec::new());
            Expression::parse(text).unwrap().holds(&mut heard).unwrap();
            assert_eq!(heard.0, [expected], "{text}");
        }
        for text in [
            "number > 80",
            "text > '8'",
            "null > 80",
            "none == 1",
            "number == null",
            "number in a,84",
            "none ~ x",
        ] {
            let mut heard = Heard(Vec::new());
            Expression::parse(text).unwrap().holds(&mut heard).unwrap();
            assert!(heard.0.is_empty(), "{text}: {:?}", heard.0);
        }
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
        ] {
            let error = Expression::parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
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
                let _ = expression.holds(&mut |_: &str| Ok(Some(Scalar::Whole(1))));
                parsed += 1;
            }
        }
        assert!(parsed > 100, "{parsed}");
    }
}
