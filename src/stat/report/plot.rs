//! Plots as SVG that grows and shrinks with the page: sizes here are shares of a view box, whose
//! unit is a pixel on a narrow screen.

use std::fmt::Write as _;

use super::Row;
use super::escape::escape;
use crate::text::units;

/// Width of every plot.
const WIDTH: f64 = 360.0;
/// Height of a row.
const LINE: f64 = 20.0;
/// Height of the columns, above their labels.
const HEIGHT: f64 = 120.0;
/// Room for the names before rows.
const NAMES: f64 = 140.0;
/// Room for the counts behind them.
const COUNTS: f64 = 58.0;
/// Room that a label of a column needs, with the space around it.
const LABEL: f64 = 60.0;

/// A column of a histogram.
pub(super) struct Column {
    /// Where it begins.
    pub(super) from: String,
    pub(super) count: u64,
}

/// Bars from left to right, one below the other, with names before and counts behind them.
pub(super) fn rows(rows: &[Row]) -> String {
    let most = rows.iter().map(|row| row.count).max().unwrap_or(0).max(1) as f64;
    let left = rows.iter().map(|row| width(&row.name)).fold(0.0, f64::max).min(NAMES) + 6.0;
    let mut svg = begin(LINE * rows.len() as f64);
    for (at, row) in rows.iter().enumerate() {
        let top = at as f64 * LINE;
        let long = row.count as f64 / most * (WIDTH - left - COUNTS);
        _ = writeln!(
            svg,
            "<g><title>{}: {count}</title><text x=\"{:.0}\" y=\"{base:.0}\" text-anchor=\"end\">{}\
             </text><rect x=\"{left:.0}\" y=\"{:.0}\" width=\"{:.1}\" height=\"{:.0}\"/>\
             <text x=\"{:.0}\" y=\"{base:.0}\">{count}</text></g>",
            escape(&row.name),
            left - 6.0,
            escape(shortened(&row.name, NAMES)),
            top + 3.0,
            long.max(0.5),
            LINE - 6.0,
            left + long + 6.0,
            base = top + LINE - 6.0,
            count = units::count(row.count),
        );
    }
    svg + "</svg>\n"
}

/// Columns next to each other, with where they begin below them, and the end of the last one.
pub(super) fn columns(columns: &[Column], end: &str) -> String {
    let highest = columns.iter().map(|column| column.count).max().unwrap_or(0).max(1);
    let widest = columns.iter().map(|column| width(&column.from)).fold(width(end), f64::max);
    // Labels stand at the left edges, so the first and last reach beyond the columns.
    let (left, right) = (widest / 2.0, WIDTH - widest / 2.0);
    let step = (right - left) / columns.len() as f64;
    let every = (LABEL.max(widest + 12.0) / step).ceil().max(1.0) as usize;
    let mut svg = begin(HEIGHT + 32.0);
    for (at, column) in columns.iter().enumerate() {
        let high = column.count as f64 / highest as f64 * HEIGHT;
        let high = if column.count == 0 { 0.0 } else { high.max(1.0) };
        let x = left + at as f64 * step;
        let to = columns.get(at + 1).map_or(end, |next| &next.from);
        _ = write!(
            svg,
            "<g><title>{} to {}: {}</title><rect class=\"hit\" x=\"{x:.1}\" y=\"12\" \
             width=\"{step:.1}\" height=\"{HEIGHT}\"/><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
             height=\"{high:.1}\"/></g>",
            escape(&column.from),
            escape(to),
            units::count(column.count),
            x + 1.0,
            12.0 + HEIGHT - high,
            (step - 2.0).max(0.5),
        );
        // No label so close to the end that it would touch the last one.
        if at % every == 0 && right - x >= widest + 6.0 {
            svg += &label(x, &column.from);
        }
    }
    svg += &label(right, end);
    _ = write!(
        svg,
        "<path d=\"M{left:.1} {base}H{right:.1}\"/><text x=\"{:.1}\" y=\"9\" class=\"most\" \
         text-anchor=\"middle\">{}</text>",
        left + (peak(columns) as f64 + 0.5) * step,
        units::count(highest),
        base = 12.0 + HEIGHT,
    );
    svg + "</svg>\n"
}

/// The first of the highest columns.
fn peak(columns: &[Column]) -> usize {
    let highest = columns.iter().map(|column| column.count).max();
    columns.iter().position(|column| Some(column.count) == highest).unwrap_or(0)
}

fn label(x: f64, text: &str) -> String {
    let y = 12.0 + HEIGHT + 15.0;
    format!("<text x=\"{x:.1}\" y=\"{y:.0}\" text-anchor=\"middle\">{}</text>\n", escape(text))
}

fn begin(height: f64) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\">\n")
}

/// About as wide as a text is.
fn width(text: &str) -> f64 {
    text.chars().map(char_width).sum()
}

fn char_width(char: char) -> f64 {
    match char {
        '\u{1100}'.. => 12.0,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 11.0,
        'A'..='Z' | '0'..='9' | '\u{250}'.. => 7.8,
        ',' | '.' | '-' | ' ' | 'i' | 'j' | 'l' => 4.4,
        _ => 7.2,
    }
}

/// As much of a text as there is room for.
fn shortened(text: &str, room: f64) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut used = char_width('…');
    let fits = |char: &char| {
        used += char_width(*char);
        used <= room
    };
    let short: String = text.chars().take_while(fits).collect();
    short + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_where_there_is_no_room() {
        assert_eq!(shortened("cat", NAMES), "cat");
        let short = shortened(&"long name ".repeat(10), NAMES);
        assert!(short.ends_with('…') && width(&short) <= NAMES, "{short}");
    }

    #[test]
    fn plots_scale_and_show_every_bar() {
        let row = |at: u64| Row { name: format!("<{at}>"), count: at * 10 };
        let svg = rows(&(0..3).map(row).collect::<Vec<_>>());
        assert!(svg.starts_with("<svg viewBox=\"0 0 360 60\""), "{svg}");
        assert_eq!((svg.matches("<rect").count(), svg.matches("&lt;1&gt;").count()), (3, 2));
        let column = |at: u64| Column { from: at.to_string(), count: at };
        let svg = columns(&(0..12).map(column).collect::<Vec<_>>(), "12");
        assert_eq!(svg.matches("<g>").count(), 12);
        assert!(svg.contains("<title>11 to 12: 11</title>"), "{svg}");
    }
}
