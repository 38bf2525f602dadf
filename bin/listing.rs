//! Listings on standard output: lines with a label, and text in lines.

use std::io::Write;

use kiste::text;

use crate::exit::Outcome;
use crate::output::{Output, Stdout};

/// Lines, each with what it is about in front of it, in a column of some width.
pub(crate) struct Listing<'a> {
    pub(crate) output: &'a Output,
    pub(crate) out: Stdout,
    pub(crate) width: usize,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(width: usize, output: &'a Output) -> Listing<'a> {
        Listing { output, out: output.stdout(), width }
    }

    pub(crate) fn line(&mut self, label: &str, text: impl std::fmt::Display) -> Outcome<()> {
        let width = self.width;
        let label = self.output.bold(format_args!("{label:<width$}"));
        Ok(writeln!(self.out, "{label}{text}")?)
    }

    /// Several lines with one label.
    pub(crate) fn lines(
        &mut self,
        label: &str,
        lines: impl IntoIterator<Item = impl std::fmt::Display>,
    ) -> Outcome<()> {
        let mut lines = lines.into_iter().enumerate();
        lines.try_for_each(|(at, line)| self.line(if at == 0 { label } else { "" }, line))
    }

    pub(crate) fn finish(mut self) -> Outcome<()> {
        Ok(self.out.flush()?)
    }
}

/// Text in lines of up to this many columns, or one word.
pub(crate) fn wrapped(words: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if text::width(line) + 1 + text::width(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
