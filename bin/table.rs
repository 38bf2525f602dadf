//! Listings on standard output: columns below each other, and lines with a label.

use std::io::Write;

use crate::exit::Outcome;
use crate::output::{Output, Stdout};

/// A column: its heading, and whether its cells are text, which stands on the left, or numbers.
pub(crate) type Column = (&'static str, Align);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Prints columns, without those that are empty in all rows. Other empty cells are a dash. What `paint`
/// makes of the first cell of a row is printed for it.
pub(crate) fn print<const N: usize>(
    columns: [Column; N],
    rows: &[[Option<String>; N]],
    paint: impl Fn(String) -> String,
    output: &Output,
    out: &mut Stdout,
) -> Outcome<()> {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row[at].as_ref());
        let width = cells.map(|cell| cell.chars().count()).max();
        width.map(|width| width.max(columns[at].0.len()))
    };
    let widths: Vec<(usize, usize)> = (0..N).filter_map(|at| Some((at, width(at)?))).collect();
    let line = |cell: &dyn Fn(usize) -> String| -> Vec<String> {
        let padded = widths.iter().enumerate().map(|(nth, &(at, width))| {
            match (columns[at].1, nth + 1 == widths.len()) {
                // The last one needs no room on its right.
                (Align::Left, true) => cell(at),
                (Align::Left, false) => format!("{:<width$}", cell(at)),
                (Align::Right, _) => format!("{:>width$}", cell(at)),
            }
        });
        padded.collect()
    };
    let heading = line(&|at| columns[at].0.to_owned());
    writeln!(out, "{}", output.dim(heading.join("  ")))?;
    for row in rows {
        let mut cells = line(&|at| row[at].clone().unwrap_or_else(|| "-".to_owned()));
        if let Some(first) = cells.first_mut() {
            *first = paint(std::mem::take(first));
        }
        writeln!(out, "{}", cells.join("  "))?;
    }
    Ok(())
}

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

/// Text in lines of up to this many characters, or one word.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
