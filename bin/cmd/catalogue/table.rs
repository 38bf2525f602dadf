//! Tables of the catalogue.

use std::io::Write;

use kiste::text;

use crate::exit::Outcome;
use crate::output::{Output, Stdout};

/// A column: its heading, and whether its cells are text, which stands on the left, or numbers.
pub(super) type Column = (&'static str, Align);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// Prints columns, but not columns that are empty in all rows. Other empty cells are a dash. The
/// first cell of a row is printed as `paint` returns it.
pub(super) fn print_columns<const N: usize>(
    columns: [Column; N],
    rows: &[[Option<String>; N]],
    paint: impl Fn(String) -> String,
    output: &Output,
    out: &mut Stdout,
) -> Outcome<()> {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row[at].as_ref());
        let width = cells.map(|cell| text::width(cell)).max();
        width.map(|width| width.max(columns[at].0.len()))
    };
    let widths: Vec<(usize, usize)> = (0..N).filter_map(|at| Some((at, width(at)?))).collect();
    let line = |cell: &dyn Fn(usize) -> String| -> Vec<String> {
        let padded = widths.iter().enumerate().map(|(nth, &(at, width))| {
            match (columns[at].1, nth + 1 == widths.len()) {
                // The last one needs no room on its right.
                (Align::Left, true) => cell(at),
                (Align::Left, false) => text::padded(&cell(at), width),
                (Align::Right, _) => text::right_aligned(&cell(at), width),
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
