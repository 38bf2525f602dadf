//! Tables of classes: those that a description has, and those that were counted in archives.

use std::io::Write;

use kiste::datasets::{ClassInfo, Opening, Pass};
use kiste::text::units;
use serde::Serialize;
use serde_json::json;

use super::failure;
use super::table::{Align, Column, print_columns};
use crate::exit::Outcome;
use crate::output::{Output, Stdout};

const COLUMNS: [Column; 5] = [
    ("class", Align::Right),
    ("count", Align::Right),
    ("weight", Align::Right),
    ("colour", Align::Right),
    ("name", Align::Left),
];

/// The cells of a class in these columns.
fn cells(class: &ClassInfo) -> [Option<String>; 5] {
    let colour = class.colour.map(|[red, green, blue]| format!("#{red:02x}{green:02x}{blue:02x}"));
    let number = Some(class.class.to_string());
    [number, class.count.map(short), class.weight.map(short), colour, class.name.clone()]
}

/// The counts of a split.
#[derive(Serialize)]
struct Counted {
    split: &'static str,
    maps: u64,
    classes: Vec<ClassInfo>,
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
        let counts = pass.count(opening, |seen| progress.set(seen)).map_err(failure)?;
        let counts = splits.iter().zip(&counts).filter(|(split, _)| opening.wants(split.name));
        counted.extend(counts.map(|(split, counts)| Counted {
            split: split.name,
            maps: counts.maps(),
            classes: counts.table(known),
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
pub(super) fn print(rows: &[ClassInfo], out: &mut Stdout, output: &Output) -> Outcome<()> {
    let rows: Vec<_> = rows.iter().map(cells).collect();
    print_columns(COLUMNS, &rows, |number| number, output, out)
}

/// Six digits of a number.
fn short(number: f64) -> String {
    let rounded: f64 = format!("{number:.5e}").parse().unwrap_or(number);
    rounded.to_string()
}
