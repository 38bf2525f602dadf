//! Text to a tree.

use super::function::Function;
use super::literal::Literal;
use super::node::{Comparison, ExpressionError, Node, Term};
use super::path::{Path, Step, names};
use super::pattern::{Style, TextPattern};
use super::token::{Kind, Reading, Token, Tokens, check_signs};
use crate::rearrange::Scalar;

type Result<T> = std::result::Result<T, ExpressionError>;

/// Words that are no names and no values without quotes.
const KEYWORDS: [&str; 4] = ["and", "or", "not", "in"];
/// What may follow a field and is no word.
const OPERATORS: [&str; 12] = ["==", "=", "!=", "<>", "<", "<=", ">", ">=", "~", "!~", "~*", "!~*"];

/// Deeper than expressions of people, and not too deep for a stack.
const MAX_DEPTH: usize = 200;
/// Without the values of lists.
const MAX_TOKENS: usize = 10_000;

pub(super) struct Parser<'t> {
    tokens: Tokens<'t>,
    /// The next one, if it was looked at.
    ahead: Option<Token<'t>>,
    count: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Parser<'t> {
        Parser { tokens: Tokens::new(text), ahead: None, count: 0, depth: 0 }
    }

    /// What is in front of a comparison, and nothing behind it; or a path in the parentheses of this other function.
    pub(super) fn parse_term(text: &'t str, other: &str) -> Result<(Term, bool)> {
        let mut parser = Parser::new(text);
        let is_other = parser.peek()?.kind == Kind::Word(other);
        let is_other = is_other && parser.after_next()?.kind == Kind::Sign("(");
        let term = match is_other {
            true => Term { function: None, path: parser.argument()? },
            false => parser.term()?,
        };
        match parser.peek()?.kind {
            Kind::End => Ok((term, is_other)),
            _ => Err(parser.expected("the end")),
        }
    }

    /// A path and nothing behind it.
    pub(super) fn parse_path(text: &'t str) -> Result<Path> {
        let mut parser = Parser::new(text);
        let path = parser.path()?;
        match parser.peek()?.kind {
            Kind::End => Ok(path),
            _ => Err(parser.expected("the end")),
        }
    }

    pub(super) fn parse(text: &'t str) -> Result<Node> {
        let mut parser = Parser::new(text);
        let node = parser.either()?;
        match parser.peek()?.kind {
            Kind::End => Ok(node),
            _ => Err(parser.expected("\"and\", \"or\" or the end")),
        }
    }

    fn either(&mut self) -> Result<Node> {
        let mut parts = vec![self.both()?];
        while self.take_word("or")? || self.take_sign("||")? {
            parts.push(self.both()?);
        }
        Ok(joined(parts, Node::Any))
    }

    fn both(&mut self) -> Result<Node> {
        let mut parts = vec![self.inverse()?];
        while self.take_word("and")? || self.take_sign("&&")? {
            parts.push(self.inverse()?);
        }
        Ok(joined(parts, Node::All))
    }

    fn inverse(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let at = self.peek()?.at;
            let message = format!("too many parentheses and \"not\" in one another at {at}");
            return Err(ExpressionError::at(at, message));
        }
        let node = if self.take_first("not")? || self.take_sign("!")? {
            Node::Not(Box::new(self.inverse()?))
        } else if self.take_sign("(")? {
            let inner = self.either()?;
            self.expect_sign(")")?;
            inner
        } else if self.take_first("has")? {
            Node::Has(self.path()?)
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn test(&mut self) -> Result<Node> {
        let term = self.term()?;
        let is_not = self.take_word("not")?;
        let pattern = |case: bool| move |text| TextPattern::new(text, Style::Like, case);
        let node = if self.take_word("in")? {
            Node::In(term, self.list()?)
        } else if self.take_word("like")? {
            Node::Matches(term, self.pattern().map(pattern(false))?)
        } else if self.take_word("ilike")? {
            Node::Matches(term, self.pattern().map(pattern(true))?)
        } else if is_not {
            return Err(self.expected("\"in\", \"like\" or \"ilike\""));
        } else if self.take_word("is")? {
            return self.null(term);
        } else {
            return self.comparison(term);
        };
        Ok(if is_not { Node::Not(Box::new(node)) } else { node })
    }

    /// What follows "is".
    fn null(&mut self, term: Term) -> Result<Node> {
        let is_not = self.take_word("not")?;
        if !self.take_word("null")? {
            return Err(self.expected("\"null\" or \"not null\""));
        }
        let node = Node::Compare(term, Comparison::Equal, Literal::new(Scalar::Nothing));
        Ok(if is_not { Node::Not(Box::new(node)) } else { node })
    }

    fn comparison(&mut self, term: Term) -> Result<Node> {
        let sign = match self.peek()?.kind {
            Kind::Sign(sign) if OPERATORS.contains(&sign) => sign,
            _ => {
                let expected = "==, !=, <, <=, >, >=, ~, !~, \"in\", \"like\" or \"is\"";
                return Err(self.expected(expected));
            }
        };
        self.advance()?;
        let node = match sign {
            "~" | "!~" => {
                Node::Matches(term, TextPattern::new(self.pattern()?, Style::Glob, false))
            }
            "~*" | "!~*" if self.is_end_of_test()? => {
                // The star is the whole pattern.
                Node::Matches(term, TextPattern::new("*", Style::Glob, false))
            }
            "~*" | "!~*" => {
                Node::Matches(term, TextPattern::new(self.pattern()?, Style::Glob, true))
            }
            _ => {
                let how = match sign {
                    "<" => Comparison::Less,
                    "<=" => Comparison::LessOrEqual,
                    ">" => Comparison::Greater,
                    ">=" => Comparison::GreaterOrEqual,
                    _ => Comparison::Equal,
                };
                Node::Compare(term, how, self.value()?)
            }
        };
        let is_not = sign.starts_with('!') || sign == "<>";
        Ok(if is_not { Node::Not(Box::new(node)) } else { node })
    }

    fn is_end_of_test(&mut self) -> Result<bool> {
        let next = self.tokens.clone().next(Reading::Pattern)?;
        Ok(matches!(next.kind, Kind::End | Kind::Sign(")") | Kind::Word("and" | "or")))
    }

    fn term(&mut self) -> Result<Term> {
        let function = match self.peek()?.kind {
            Kind::Word(word) => Function::of_name(word),
            _ => None,
        };
        // Without a parenthesis it is a field of this name.
        let is_called = function.is_some() && self.after_next()?.kind == Kind::Sign("(");
        let function = function.filter(|_| is_called);
        if function.is_none() {
            return Ok(Term { function, path: self.path()? });
        }
        Ok(Term { function, path: self.argument()? })
    }

    /// The path in parentheses behind the next word, which was looked at.
    fn argument(&mut self) -> Result<Path> {
        self.advance()?;
        self.expect_sign("(")?;
        let path = self.path()?;
        self.expect_sign(")")?;
        Ok(path)
    }

    fn path(&mut self) -> Result<Path> {
        if let Kind::Quoted(name) = &self.peek()?.kind {
            let path = Path::literal(name.as_str());
            return self.advance().map(|()| path);
        }
        let mut name = self.word("a field")?.to_owned();
        let mut steps = names(&name);
        while self.peek()?.is_glued && self.peek()?.kind == Kind::Sign("[") {
            let Some(steps) = &mut steps else {
                return Err(self.expected("names between the dots"));
            };
            self.advance()?;
            let index = self.index()?;
            steps.push(Step::Index(index));
            self.expect_sign("]")?;
            name += &format!("[{index}]");
            let next = self.peek()?;
            if let Kind::Word(word) = next.kind {
                let more = word.strip_prefix('.').and_then(names);
                match more.filter(|_| next.is_glued) {
                    Some(more) => steps.extend(more),
                    None if next.is_glued => return Err(self.expected("a dot and a name")),
                    None => break,
                }
                name += self.word("a field")?;
            }
        }
        Ok(Path::new(name, steps.unwrap_or_default()))
    }

    fn index(&mut self) -> Result<i64> {
        let index = match self.peek()?.kind {
            Kind::Word(word) if !word.starts_with('+') => word.parse().ok(),
            _ => None,
        };
        let index = index.ok_or_else(|| self.expected("a whole number, as in boxes[0]"))?;
        self.advance().map(|()| index)
    }

    /// Values in brackets of any kind, or without.
    fn list(&mut self) -> Result<Vec<Literal>> {
        let counted = self.count;
        let close = match self.peek()?.kind {
            Kind::Sign("(") => Some(")"),
            Kind::Sign("[") => Some("]"),
            Kind::Sign("{") => Some("}"),
            _ => None,
        };
        let mut values = Vec::new();
        if let Some(close) = close {
            self.advance()?;
            if self.take_sign(close)? {
                return Ok(values);
            }
        }
        loop {
            values.push(self.value()?);
            // A long list makes no deep tree.
            self.count = counted;
            if !self.take_sign(",")? {
                break;
            }
        }
        if let Some(close) = close {
            self.expect_sign(close)?;
        }
        Ok(values)
    }

    /// A number, true, false, null, or text.
    fn value(&mut self) -> Result<Literal> {
        if let Kind::Quoted(text) = &self.peek()?.kind {
            let value = Literal::new(Scalar::Text(text.clone()));
            return self.advance().map(|()| value);
        }
        Ok(Literal::new(match self.word("a value")? {
            "true" => Scalar::Truth(true),
            "false" => Scalar::Truth(false),
            "null" => Scalar::Nothing,
            word => match (word.parse::<i128>(), word.parse::<f64>()) {
                (Ok(number), _) => Scalar::Whole(number),
                (_, Ok(number)) if number.is_finite() => Scalar::number(number),
                _ => Scalar::Text(word.to_owned()),
            },
        }))
    }

    /// A pattern, in which brackets and others have a meaning. The sign or word before it was the last
    /// thing that was looked at.
    fn pattern(&mut self) -> Result<String> {
        if self.ahead.is_none() {
            self.ahead = Some(self.tokens.next(Reading::Pattern)?);
        }
        match self.peek()?.kind.clone() {
            Kind::Quoted(text) => self.advance().map(|()| text),
            Kind::Word(word) if !KEYWORDS.contains(&word) => {
                self.advance().map(|()| word.to_owned())
            }
            _ => Err(self.expected("a pattern")),
        }
    }

    /// A word that is no keyword.
    fn word(&mut self, what: &str) -> Result<&'t str> {
        match *self.peek()? {
            Token { at, kind: Kind::Word(word), .. } if !KEYWORDS.contains(&word) => {
                check_signs(at, word)?;
                self.advance().map(|()| word)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn peek(&mut self) -> Result<&Token<'t>> {
        let next = match self.ahead.take() {
            Some(next) => next,
            None => self.tokens.next(Reading::Plain)?,
        };
        Ok(self.ahead.insert(next))
    }

    /// The token behind the next one, which was looked at.
    fn after_next(&self) -> Result<Token<'t>> {
        self.tokens.clone().next(Reading::Plain)
    }

    /// Goes past the next token, which was looked at.
    fn advance(&mut self) -> Result<()> {
        let at = self.ahead.take().map_or(1, |token| token.at);
        self.count += 1;
        if self.count > MAX_TOKENS {
            let message = format!("longer than {MAX_TOKENS} words and signs at {at}");
            return Err(ExpressionError::at(at, message));
        }
        Ok(())
    }

    /// Takes a keyword, which may be in capitals.
    fn take_word(&mut self, word: &str) -> Result<bool> {
        let is_it = |found: &str| found == word || found == word.to_ascii_uppercase();
        let found = matches!(self.peek()?.kind, Kind::Word(found) if is_it(found));
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// The same where a condition begins. In capitals it may also be a field.
    fn take_first(&mut self, word: &str) -> Result<bool> {
        let is_field = match self.peek()?.kind {
            Kind::Word(found) if found == word.to_ascii_uppercase() => {
                match self.after_next()?.kind {
                    Kind::Sign(sign) => OPERATORS.contains(&sign),
                    Kind::Word(next) => next == "in",
                    _ => false,
                }
            }
            _ => false,
        };
        Ok(!is_field && self.take_word(word)?)
    }

    fn take_sign(&mut self, sign: &'static str) -> Result<bool> {
        let found = self.peek()?.kind == Kind::Sign(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect_sign(&mut self, sign: &'static str) -> Result<()> {
        match self.take_sign(sign)? {
            true => Ok(()),
            false => Err(self.expected(&format!("{sign:?}"))),
        }
    }

    /// An error at the next token.
    fn expected(&mut self, what: &str) -> ExpressionError {
        let (at, found) = match self.peek() {
            Err(error) => return error,
            Ok(Token { at, kind, .. }) => match kind {
                Kind::End => {
                    return ExpressionError::new(format!("expected {what}, found the end"));
                }
                Kind::Word(word) => (*at, (*word).to_owned()),
                Kind::Quoted(text) => (*at, format!("{text:?}")),
                Kind::Sign(sign) => (*at, (*sign).to_owned()),
            },
        };
        let hint = match &found[..] {
            "[" | "{" => " (lists follow \"in\", and quotes make it text)",
            _ => "",
        };
        ExpressionError::at(at, format!("expected {what}, found {found} at {at}{hint}"))
    }
}

/// Parts in a chain, if there are several.
fn joined(mut parts: Vec<Node>, chain: fn(Vec<Node>) -> Node) -> Node {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            chain(parts)
        }
    }
}
