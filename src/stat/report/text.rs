//! The summary for the eye: tables and bars of characters. Names and values are escaped where they
//! are put into a line, as its text is cut into lines again.

use std::fmt::Write as _;

use super::{Row, StatReport, StatSection, extremes, ranked, shape};
use crate::stat::{Arrays, FieldSummary, Histogram, Images, NumberBar, Numbers};
use crate::text::{escaped, units};

/// Characters of the longest bar.
const WIDTH: usize = 40;
/// Rows of a list that may be long: classes, shapes.
const ROWS: usize = 20;
/// Rows of one that is a remark: sizes of images, shapes of arrays.
const FEW: usize = 5;

pub(super) fn sections(found: &StatReport) -> Vec<StatSection> {
    let summary = &found.summary;
    let mut sections = Vec::new();
    if summary.samples == 0 {
        return sections;
    }
    let mut section = |title: &str, text: String| {
        let title = escaped(title).into_owned();
        sections.push(StatSection { title, text });
    };
    section("bytes of a sample", histogram(&summary.bytes, units::bytes));
    section("fields", fields(found));
    for field in &summary.fields {
        if let Some(rows) = found.classes(field) {
            let most = if found.asked { usize::MAX } else { ROWS };
            let text = classes(&rows, most) + &unused(&found.unused_labels(field));
            section(&format!("field {}: classes", field.name), text);
        } else if let Some(numbers) = &field.numbers {
            section(&format!("field {}: numbers", field.name), self::numbers(numbers));
        } else if let Some(text) = different(field) {
            section(&format!("field {}: values", field.name), text);
        }
        if let Some(images) = &field.images {
            section(&format!("field {}: images", field.name), self::images(images));
        }
        if let Some(arrays) = &field.arrays {
            section(&format!("field {}: arrays", field.name), self::arrays(arrays));
        }
    }
    sections
}

/// A line of percentiles, and bars.
fn histogram(numbers: &Histogram, form: fn(u64) -> String) -> String {
    let mut text = String::from("  ");
    let at = |percent| form(numbers.percentile(percent).unwrap_or_default());
    let (min, max) = (numbers.min().unwrap_or_default(), numbers.max().unwrap_or_default());
    if min == max {
        return format!("  all {}\n", form(min));
    }
    let mean = form(numbers.mean().unwrap_or_default().round() as u64);
    _ = writeln!(
        text,
        "min {}, 5 % {}, 25 % {}, median {}, 75 % {}, 95 % {}, max {}; mean {mean}",
        form(min),
        at(5),
        at(25),
        at(50),
        at(75),
        at(95),
        form(max)
    );
    let bars = numbers.bars();
    let rows: Vec<Row> = bars
        .iter()
        .map(|bar| Row { name: format!("from {}", form(bar.from)), count: bar.count })
        .collect();
    text + &self::bars(&rows, true)
}

/// A row each: its name, its bar and its count.
fn bars(rows: &[Row], right: bool) -> String {
    let most = rows.iter().map(|row| row.count).max().unwrap_or(0).max(1);
    let names: Vec<_> = rows.iter().map(|row| escaped(&row.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let counts: Vec<String> = rows.iter().map(|row| units::count(row.count)).collect();
    let digits = counts.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for ((row, name), count) in rows.iter().zip(names).zip(counts) {
        let name = if right { format!("{name:>width$}") } else { format!("{name:<width$}") };
        _ = writeln!(text, "  {name}  {count:>digits$}  {}", bar(row.count, most));
    }
    text
}

/// A bar in eighths of a character; at least one of these unless the count is 0.
fn bar(count: u64, most: u64) -> String {
    let eighths = (count as f64 / most as f64 * (WIDTH * 8) as f64).round() as usize;
    let eighths = eighths.max(usize::from(count > 0));
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + rest
}

fn share(count: u64, of: u64) -> String {
    match count == of {
        true => "all".to_owned(),
        // Never 100 % of what some lack, nor 0 % of what some have.
        false => format!("{:.1} %", (count as f64 / of as f64 * 100.0).clamp(0.1, 99.9)),
    }
}

fn fields(found: &StatReport) -> String {
    let summary = &found.summary;
    let names: Vec<_> = summary.fields.iter().map(|field| escaped(&field.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (field, name) in summary.fields.iter().zip(names) {
        let types = ranked(&field.types);
        let types: Vec<String> = match &types[..] {
            [(kind, _)] => vec![kind.clone()],
            types => types.iter().map(|(kind, n)| format!("{kind} {}", units::count(*n))).collect(),
        };
        let there = share(field.present, summary.samples);
        let bytes = units::bytes(field.bytes.mean().unwrap_or_default().round() as u64);
        let types = types.join(", ");
        let types = escaped(&types);
        _ = writeln!(text, "  {name:<width$}  {there:>6}  {bytes:>7} on average  {types}");
    }
    if summary.more_fields {
        text += "  and more, which were not looked at\n";
    }
    text
}

fn classes(rows: &[Row], most: usize) -> String {
    let total: u64 = rows.iter().map(|row| row.count).sum();
    let (first, last) = (rows[0].count, rows[rows.len() - 1].count);
    let many = units::counted(rows.len() as u64, "value");
    // Bars of one length show nothing that the line does not say.
    let shown = match first == last && rows.len() > most {
        true => &[],
        false => &rows[..rows.len().min(most)],
    };
    let mut text = match first == last {
        true => format!("  {many}, each of {}\n", units::counted(first, "sample")),
        false => format!(
            "  {many}: the largest has {}, the smallest {}, on average {}\n",
            units::count(first),
            units::count(last),
            units::number((total as f64 / rows.len() as f64 * 10.0).round() / 10.0),
        ),
    };
    text += &bars(shown, false);
    if shown.is_empty() {
        text += "  select this field to see all\n";
    } else if shown.len() < rows.len() {
        let more = units::count((rows.len() - shown.len()) as u64);
        _ = writeln!(text, "  and {more} more: select this field to see all");
    }
    text
}

/// Labels without samples.
fn unused(labels: &[String]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let mut shown: Vec<_> = labels.iter().take(FEW).map(|label| escaped(label)).collect();
    if shown.len() < labels.len() {
        shown.push(format!("and {} more", units::count((labels.len() - FEW) as u64)).into());
    }
    format!(
        "  no samples of {}: {}\n",
        units::counted(labels.len() as u64, "label"),
        shown.join(", ")
    )
}

/// How many different values there are, where they are too many or too different to be listed.
fn different(field: &FieldSummary) -> Option<String> {
    let count = field.classes.len() as u64;
    if field.name == "key" || count < 2 {
        return None;
    }
    Some(match count == field.present {
        true => String::from("  all different\n"),
        false => format!("  {} different: select this field to see all\n", units::count(count)),
    })
}

fn numbers(numbers: &Numbers) -> String {
    let bars = numbers.bars();
    let mut text = format!("  {}\n", extremes(numbers));
    if bars.len() > 1 {
        let row = |bar: &NumberBar| Row {
            name: format!("from {}", units::number(bar.from)),
            count: bar.count,
        };
        text += &self::bars(&bars.iter().map(row).collect::<Vec<_>>(), true);
    }
    text
}

fn images(images: &Images) -> String {
    let formats = ranked(&images.formats);
    let formats: Vec<String> =
        formats.iter().map(|(format, n)| format!("{} {format}", units::count(*n))).collect();
    let mut text = format!("  {}\n", formats.join(", "));
    if images.damaged > 0 {
        let count = units::count(images.damaged);
        _ = writeln!(text, "  {count} whose header does not say how large they are");
    }
    let sizes = ranked(&images.sizes);
    if let [((width, height), _)] = sizes[..] {
        return text + &format!("  all {width} x {height}\n");
    }
    for (name, numbers) in [("width", &images.width), ("height", &images.height)] {
        if numbers.count() > 0 {
            _ = writeln!(text, "  {name}");
            text += &histogram(numbers, |number| number.to_string());
        }
    }
    if !sizes.is_empty() {
        let form = |((width, height), n): &((usize, usize), u64)| Row {
            name: format!("{width} x {height}"),
            count: *n,
        };
        text += &top("size", sizes.iter().map(form).collect());
    }
    text
}

fn arrays(arrays: &Arrays) -> String {
    let dtypes = ranked(&arrays.dtypes);
    let dtypes: Vec<String> = dtypes
        .iter()
        .map(|(dtype, n)| format!("{} of {}", units::count(*n), escaped(dtype)))
        .collect();
    let mut text = format!("  {}; {} in memory\n", dtypes.join(", "), units::bytes(arrays.bytes));
    if arrays.packed > 0 {
        let ratio = arrays.packed_bytes as f64 / arrays.container_bytes.max(1) as f64;
        let (packed, bytes) = (units::count(arrays.packed), units::bytes(arrays.container_bytes));
        _ = writeln!(text, "  {packed} packed in {bytes}, {ratio:.2} to 1");
    }
    let shapes = ranked(&arrays.shapes);
    if let [(only, _)] = &shapes[..] {
        return text + &format!("  all {}\n", shape(only));
    }
    let rows = shapes.iter().map(|(axes, n)| Row { name: shape(axes), count: *n });
    text + &top("shape", rows.collect())
}

/// The first of many.
fn top(what: &str, rows: Vec<Row>) -> String {
    let shown = &rows[..rows.len().min(FEW)];
    let many = units::counted(rows.len() as u64, what);
    format!("  {many}, the most frequent:\n{}", bars(shown, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_counts() {
        assert_eq!(bar(0, 100), "");
        assert_eq!(bar(1, 100_000), "▏");
        assert_eq!(bar(100, 100).chars().count(), WIDTH);
        assert_eq!(bar(50, 100), "█".repeat(WIDTH / 2));
    }

    #[test]
    fn a_share_is_never_rounded_to_all_or_nothing() {
        let shares = [share(1, 1_000_000), share(999_999, 1_000_000), share(7, 7), share(1, 2)];
        assert_eq!(shares, ["0.1 %", "99.9 %", "all", "50.0 %"]);
    }
}
