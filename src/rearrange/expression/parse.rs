//! Text to a tree.

use super::node::{Comparison, ExpressionError, Node};
use crate::rearrange::Scalar;

type Result<T> = std::result::Result<T, ExpressionError>;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// Anything without quotes: a name, a keyword, a number.
    Word(String),
    Quoted(String),
    Sign(&'static str),
}

/// Signs that may be part of a word without quotes. Any other could be meant for something that this
/// language does not have, such as the brackets of a list.
const IN_WORDS: &str = "_-./:+@#%$";

const KEYWORDS: [&str; 4] = ["and", "or", "not", "in"];

const SIGNS: [&str; 12] = ["==", "!=", "<=", ">=", "!~", "<", ">", "~", "(", ")", ",", "="];

/// The tokens, and at which character, counted from 1, each begins.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>> {
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
            let end = rest[1..].find(first).ok_or_else(|| {
                ExpressionError::at(at, format!("the quote at {at} is not closed"))
            })?;
            tokens.push((at, Token::Quoted(rest[1..1 + end].to_string())));
            rest = &rest[end + 2..];
        } else {
            let part = |c: char| !c.is_whitespace() && !"()=!<>~,'\"".contains(c);
            let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
            if end == 0 {
                return Err(ExpressionError::at(at, format!("{first:?} at {at} has no meaning")));
            }
            tokens.push((at, Token::Word(rest[..end].to_string())));
            rest = &rest[end..];
        }
    }
}

pub(super) struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
}

/// Deeper than expressions of people, and not too deep for a stack.
const MAX_DEPTH: usize = 200;
/// A long chain of "or" is a deep tree as well.
const MAX_TOKENS: usize = 10_000;

impl Parser {
    pub(super) fn parse(text: &str) -> Result<Node> {
        let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
        if parser.tokens.len() > MAX_TOKENS {
            let message = format!("longer than {MAX_TOKENS} words and signs");
            return Err(ExpressionError::new(message));
        }
        let node = parser.either()?;
        match parser.peek() {
            None => Ok(node),
            Some(token) => Err(parser.expected("\"and\", \"or\" or the end", Some(token))),
        }
    }

    fn either(&mut self) -> Result<Node> {
        let mut left = self.both()?;
        while self.take_word("or") {
            left = Node::Or(Box::new(left), Box::new(self.both()?));
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Node> {
        let mut left = self.inverse()?;
        while self.take_word("and") {
            left = Node::And(Box::new(left), Box::new(self.inverse()?));
        }
        Ok(left)
    }

    fn inverse(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.wrong("too many parentheses and \"not\" in one another"));
        }
        let expression = if self.take_word("not") {
            Node::Not(Box::new(self.inverse()?))
        } else if self.take_sign("(") {
            let inner = self.either()?;
            if !self.take_sign(")") {
                return Err(self.expected("\")\"", self.peek()));
            }
            inner
        } else if self.take_word("has") {
            Node::Has(self.text("a field")?)
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn test(&mut self) -> Result<Node> {
        let field = self.text("a field")?;
        if self.take_word("not") {
            if !self.take_word("in") {
                return Err(self.expected("\"in\"", self.peek()));
            }
            return Ok(Node::Not(Box::new(Node::In(field, self.values()?))));
        }
        if self.take_word("in") {
            return Ok(Node::In(field, self.values()?));
        }
        let compare = |how, value| Node::Compare(field.clone(), how, value);
        let next = self.peek();
        self.at += 1;
        Ok(match next {
            Some(Token::Sign("==")) => compare(Comparison::Equal, self.value()?),
            Some(Token::Sign("!=")) => {
                Node::Not(Box::new(compare(Comparison::Equal, self.value()?)))
            }
            Some(Token::Sign("<")) => compare(Comparison::Less, self.value()?),
            Some(Token::Sign("<=")) => compare(Comparison::LessOrEqual, self.value()?),
            Some(Token::Sign(">")) => compare(Comparison::Greater, self.value()?),
            Some(Token::Sign(">=")) => compare(Comparison::GreaterOrEqual, self.value()?),
            Some(Token::Sign("~")) => Node::Matches(field, self.pattern()?),
            Some(Token::Sign("!~")) => Node::Not(Box::new(Node::Matches(field, self.pattern()?))),
            other => {
                self.at -= 1;
                return Err(self.expected("==, !=, <, <=, >, >=, ~, !~ or \"in\"", other));
            }
        })
    }

    fn values(&mut self) -> Result<Vec<Scalar>> {
        let mut values = vec![self.value()?];
        while self.take_sign(",") {
            values.push(self.value()?);
        }
        Ok(values)
    }

    /// A number, true, false, null, or text.
    fn value(&mut self) -> Result<Scalar> {
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
    fn text(&mut self, what: &str) -> Result<String> {
        if let Some((at, Token::Word(word))) = self.tokens.get(self.at) {
            check_signs(*at, word)?;
        }
        self.word(what)
    }

    /// A pattern, in which brackets and others have a meaning.
    fn pattern(&mut self) -> Result<String> {
        self.word("a pattern")
    }

    fn word(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Some(Token::Word(word)) if !KEYWORDS.contains(&word.as_str()) => {
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

    /// An error at the next token.
    fn wrong(&self, message: impl Into<String>) -> ExpressionError {
        match self.tokens.get(self.at) {
            Some((position, _)) => ExpressionError::at(*position, message),
            None => ExpressionError::new(message),
        }
    }

    fn expected(&self, what: &str, found: Option<Token>) -> ExpressionError {
        let place = self.tokens.get(self.at).map_or(String::new(), |(at, _)| format!(" at {at}"));
        self.wrong(match found {
            None => format!("expected {what}, found the end"),
            Some(Token::Word(word)) => format!("expected {what}, found {word}{place}"),
            Some(Token::Quoted(text)) => format!("expected {what}, found {text:?}{place}"),
            Some(Token::Sign("=")) => format!("expected {what}, found ={place} (equal is ==)"),
            Some(Token::Sign(sign)) => format!("expected {what}, found {sign}{place}"),
        })
    }
}

/// Fails for a word at this character with a sign in it that has no meaning.
fn check_signs(at: usize, word: &str) -> Result<()> {
    let has_meaning = |c: char| match c.is_ascii() {
        true => c.is_ascii_alphanumeric() || IN_WORDS.contains(c),
        false => !"\u{201c}\u{201d}\u{201e}\u{2018}\u{2019}\u{201a}«»≤≥≠∧∨¬".contains(c),
    };
    let Some((before, sign)) = word.chars().enumerate().find(|(_, c)| !has_meaning(*c)) else {
        return Ok(());
    };
    let at = at + before;
    let instead = match sign {
        '[' | ']' | '{' | '}' => "a list has no brackets, as in: label in 1,2,3",
        '*' | '?' => "~ compares with a pattern, and quotes make it text",
        '&' | '|' => "conditions are joined by \"and\" and \"or\"",
        _ => "quotes make it text",
    };
    Err(ExpressionError::at(at, format!("{sign:?} at {at} has no meaning here: {instead}")))
}
