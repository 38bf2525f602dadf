//! Tables of classes: those that a description has, and those that were counted in archives.

use std::io::Write;

use kiste::datasets::{ClassCounts, Classes, Opening, Pass};
use kiste::text::units;
use serde::Serialize;
use serde_json::json;

use super::catalogue;
use crate::exit::Outcome;
use crate::output::{Output, Stdout};

/// What is known about a class. What is known about none of a table has no column.
#[derive(Debug, Serialize)]
pub(super) struct Class {
    /// Its number.
    class: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    colour: Option<[u8; 3]>,
    /// How many maps it would fill.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<f64>,
    /// Its weight for training.
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<f64>,
}

impl Class {
    fn new(class: usize, names: &[String], colours: &[[u8; 3]]) -> Class {
        let (name, colour) = (names.get(class).cloned(), colours.get(class).copied());
        Class { class, name, colour, count: None, weight: None }
    }

    /// Its cells in the columns of [`HEADER`].
    fn cells(&self) -> [Option<String>; 5] {
        let colour =
            self.colour.map(|[red, green, blue]| format!("#{red:02x}{green:02x}{blue:02x}"));
        let class = Some(self.class.to_string());
        [class, self.count.map(short), self.weight.map(short), colour, self.name.clone()]
    }
}

const HEADER: [&str; 5] = ["class", "count", "weight", "colour", "name"];

/// All classes that a description has.
pub(super) fn described(classes: &Classes) -> Vec<Class> {
    let (names, counts) = (classes.names.to_vec(), (classes.counts)());
    let counted = counts.iter().map(|(class, _)| usize::from(*class) + 1).max().unwrap_or(0);
    let numbers = 0..names.len().max(counted);
    let mut rows: Vec<Class> =
        numbers.map(|class| Class::new(class, &names, classes.colours)).collect();
    for ((class, count), (_, weight)) in counts.into_iter().zip(classes.weights()) {
        let row = &mut rows[usize::from(class)];
        (row.count, row.weight) = (Some(count), Some(weight));
    }
    rows.retain(|row| row.name.is_some() || row.count.is_some());
    rows
}

/// Those that were counted, with the names of the description.
fn table_of(counts: &ClassCounts, classes: Option<&Classes>) -> Vec<Class> {
    let names = classes.map(|classes| classes.names.to_vec()).unwrap_or_default();
    let rows = counts.counts().into_iter().zip(counts.weights());
    let row = |((class, count), (_, weight)): ((u16, f64), (u16, f64))| Class {
        count: Some(count),
        weight: Some(weight),
        ..Class::new(usize::from(class), &names, &[])
    };
    rows.map(row).collect()
}

/// What was counted in a split.
#[derive(Serialize)]
struct Counted {
    split: &'static str,
    maps: u64,
    classes: Vec<Class>,
}

/// Counts the classes in the maps of all passes, and prints a table for each split.
pub(super) fn print_weights(
    passes: &[Pass],
    opening: &Opening<'_>,
    json: bool,
    output: &Output,
) -> Outcome<()> {
    let known = opening.dataset.classes.iter().find(|known| known.field == "label_image");
    let mut counted = Vec::new();
    for pass in passes {
        let splits = &pass.splits;
        let names: Vec<&str> = splits.iter().map(|split| split.name).collect();
        let progress = output.progress(format!("counting {}", names.join(", ")), pass.total);
        let counts = pass.count(opening, |seen| progress.set(seen)).map_err(catalogue::failure)?;
        let counts = splits.iter().zip(&counts).filter(|(split, _)| opening.wants(split.name));
        counted.extend(counts.map(|(split, counts)| Counted {
            split: split.name,
            maps: counts.maps(),
            classes: table_of(counts, known),
        }));
    }
    if json {
        return output.json(&json!({"dataset": opening.dataset.name, "splits": counted}));
    }
    let mut out = output.stdout();
    for (at, Counted { split, maps, classes }) in counted.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}: {}", output.bold(split), units::counted(*maps, "map"))?;
        print(classes, &mut out, output)?;
    }
    Ok(out.flush()?)
}

/// Prints a table with a column for all that is known.
pub(super) fn print(rows: &[Class], out: &mut Stdout, output: &Output) -> Outcome<()> {
    let cells: Vec<_> = rows.iter().map(Class::cells).collect();
    let width = |column: usize| {
        let cells = cells.iter().filter_map(|row| row[column].as_ref());
        cells.map(|cell| cell.chars().count()).max().map(|width| width.max(HEADER[column].len()))
    };
    let widths: Vec<Option<usize>> = (0..HEADER.len()).map(width).collect();
    let line = |cell: &dyn Fn(usize) -> String| {
        let known = widths.iter().enumerate().filter_map(|(column, width)| {
            let (cell, width) = (cell(column), (*width)?);
            // Names may have any length, and numbers are right-aligned.
            Some(if column == 4 { cell } else { format!("{cell:>width$}") })
        });
        known.collect::<Vec<_>>().join("  ")
    };
    writeln!(out, "{}", output.dim(line(&|column| HEADER[column].to_owned())))?;
    for row in &cells {
        writeln!(out, "{}", line(&|column| row[column].clone().unwrap_or_else(|| "-".to_owned())))?;
    }
    Ok(())
}

/// Six digits of a number.
fn short(number: f64) -> String {
    let rounded: f64 = format!("{number:.5e}").parse().unwrap_or(number);
    rounded.to_string()
}
