//! Text to words, quoted texts and signs.

use super::node::ExpressionError;

/// A word or a sign, and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token<'t> {
    /// The character, counted from 1.
    pub(super) at: usize,
    /// Whether it follows the one before without a space.
    pub(super) is_glued: bool,
    pub(super) kind: Kind<'t>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind<'t> {
    /// Anything without quotes: a name, a keyword, a number.
    Word(&'t str),
    Quoted(String),
    Sign(&'static str),
    End,
}

/// How the next word is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Plain,
    /// As a pattern: brackets and `&` are parts of a word.
    Pattern,
}

/// Signs that may be part of a word without quotes. Any other could be meant for something that this
/// language does not have.
const IN_WORDS: &str = "_-./:+@#%$";

/// The longer before what they begin with.
const SIGNS: [&str; 22] = [
    "!~*", "~*", "==", "!=", "<=", ">=", "<>", "!~", "&&", "||", "<", ">", "~", "(", ")", ",", "=",
    "!", "[", "]", "{", "}",
];

/// Signs that are parts of words in a pattern.
const IN_PATTERNS: &str = "[]{}&|";

/// The rest of a text that is taken apart.
#[derive(Debug, Clone)]
pub(super) struct Tokens<'t> {
    rest: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t str) -> Tokens<'t> {
        Tokens { rest: text, at: 1 }
    }

    pub(super) fn next(&mut self, reading: Reading) -> Result<Token<'t>, ExpressionError> {
        let spaces = self.rest.len() - self.rest.trim_start().len();
        self.take(spaces);
        let (at, is_glued) = (self.at, spaces == 0);
        let kind = self.kind(reading)?;
        Ok(Token { at, is_glued, kind })
    }

    fn kind(&mut self, reading: Reading) -> Result<Kind<'t>, ExpressionError> {
        let in_pattern = reading == Reading::Pattern;
        let Some(first) = self.rest.chars().next() else { return Ok(Kind::End) };
        if first == '\'' || first == '"' {
            return self.quoted(first).map(Kind::Quoted);
        }
        let is_next = |sign: &&str| {
            let Some(after) = self.rest.strip_prefix(*sign) else { return false };
            match sign.strip_suffix('*') {
                // The star of `~*.png` is a part of the pattern.
                Some(_) => after.starts_with(|c: char| c.is_whitespace() || "'\"".contains(c)),
                None => !(in_pattern && IN_PATTERNS.contains(first)),
            }
        };
        if let Some(sign) = SIGNS.into_iter().find(is_next) {
            self.take(sign.len());
            return Ok(Kind::Sign(sign));
        }
        let ends = |c: char| {
            let is_sign = "()=!<>~,'\"".contains(c) || (!in_pattern && IN_PATTERNS.contains(c));
            c.is_whitespace() || is_sign
        };
        match self.rest.find(ends).unwrap_or(self.rest.len()) {
            0 => Err(meaningless(first, self.at)),
            len => Ok(Kind::Word(self.take(len))),
        }
    }

    /// Text up to the next quote that is not doubled.
    fn quoted(&mut self, quote: char) -> Result<String, ExpressionError> {
        let start = self.at;
        let mut text = String::new();
        self.take(1);
        loop {
            let Some(end) = self.rest.find(quote) else {
                let message = format!("the quote at {start} is not closed");
                return Err(ExpressionError::at(start, message));
            };
            text.push_str(self.take(end));
            self.take(1);
            if !self.rest.starts_with(quote) {
                return Ok(text);
            }
            text.push(quote);
            self.take(1);
        }
    }

    fn take(&mut self, len: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(len);
        self.at += taken.chars().count();
        self.rest = rest;
        taken
    }
}

/// Fails for a word at this character with a sign in it that has no meaning.
pub(super) fn check_signs(at: usize, word: &str) -> Result<(), ExpressionError> {
    let has_meaning = |c: char| match c.is_ascii() {
        true => c.is_ascii_alphanumeric() || IN_WORDS.contains(c),
        false => !"\u{201c}\u{201d}\u{201e}\u{2018}\u{2019}\u{201a}«»≤≥≠∧∨¬".contains(c),
    };
    match word.chars().enumerate().find(|(_, c)| !has_meaning(*c)) {
        Some((before, sign)) => Err(meaningless(sign, at + before)),
        None => Ok(()),
    }
}

fn meaningless(sign: char, at: usize) -> ExpressionError {
    let instead = match sign {
        '*' | '?' => "~ compares with a pattern, and quotes make it text",
        '&' | '|' => "conditions are joined by \"and\" and \"or\", or && and ||",
        _ => "quotes make it text",
    };
    ExpressionError::at(at, format!("{sign:?} at {at} has no meaning here: {instead}"))
}
