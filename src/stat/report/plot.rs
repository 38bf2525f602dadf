//! Plots as SVG that grows and shrinks with the page: sizes here are shares of a view box, whose
//! unit is a pixel on a narrow screen.

use std::fmt::Write as _;

use super::Row;
use super::escape::escape;
use crate::text::units;

/// Width of every plot.
const WIDTH: f64 = 420.0;
/// Height of a row.
const LINE: f64 = 20.0;
/// Height of the columns, above their labels.
const HEIGHT: f64 = 130.0;
/// Room above columns.
const TOP: f64 = 8.0;
/// Room for the numbers at an axis.
const AXIS: f64 = 46.0;
/// Room for the names before rows.
const NAMES: f64 = 170.0;
/// Room for the counts behind them.
const COUNTS: f64 = 62.0;

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

/// Columns next to each other, with a grid of counts behind them and where they begin below them.
pub(super) fn columns(columns: &[Column], end: &str) -> String {
    let highest = columns.iter().map(|column| column.count).max().unwrap_or(0).max(1);
    let names: Vec<&str> = columns.iter().map(|column| &column.from[..]).chain([end]).collect();
    let widest = names.iter().map(|name| width(name)).fold(0.0, f64::max);
    let (left, right) = (AXIS, WIDTH - (widest / 2.0).max(8.0));
    let step = (right - left) / columns.len() as f64;
    let mut svg = begin(TOP + HEIGHT + 22.0);
    svg += &grid(highest, left, right);
    for (at, column) in columns.iter().enumerate() {
        let high = column.count as f64 / highest as f64 * HEIGHT;
        let high = if column.count == 0 { 0.0 } else { high.max(1.0) };
        let x = left + at as f64 * step;
        _ = write!(
            svg,
            "<g><title>{} to {}: {}</title><rect class=\"hit\" x=\"{x:.1}\" y=\"{TOP}\" \
             width=\"{step:.1}\" height=\"{HEIGHT}\"/><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
             height=\"{high:.1}\"/></g>",
            escape(&column.from),
            escape(names[at + 1]),
            units::count(column.count),
            x + 0.5,
            TOP + HEIGHT - high,
            (step - 1.0).max(0.5),
        );
    }
    // Every second, third, … has a label, so that the labels are as far apart as the ticks.
    let every = ((widest + 12.0) / step).ceil().max(1.0) as usize;
    for (at, name) in names.iter().enumerate().step_by(every) {
        svg += &tick(left + at as f64 * step, name);
    }
    svg + "</svg>\n"
}

/// Lines of the counts behind columns, with their numbers.
fn grid(highest: u64, left: f64, right: f64) -> String {
    let mut svg = String::new();
    let step = round_step(highest as f64 / 3.0).max(1.0);
    let mut count = 0.0;
    while count <= highest as f64 {
        let y = TOP + HEIGHT - count / highest as f64 * HEIGHT;
        _ = write!(
            svg,
            "<path d=\"M{left:.1} {y:.1}H{right:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            left - 6.0,
            y + 4.0,
            short_count(count),
        );
        count += step;
    }
    svg
}

/// The first of 1, 2 and 5 times a power of ten that is not below.
fn round_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|step| step * decade)
        .into_iter()
        .find(|step| *step >= least)
        .unwrap_or(decade)
}

/// `1,200`, `50k`, `2M`
fn short_count(count: f64) -> String {
    match count {
        10_000.0..1e6 => format!("{}k", units::number(count / 1e3)),
        1e6..1e9 => format!("{}M", units::number(count / 1e6)),
        1e9.. => format!("{}G", units::number(count / 1e9)),
        _ => units::number(count),
    }
}

fn tick(x: f64, text: &str) -> String {
    let (base, y) = (TOP + HEIGHT, TOP + HEIGHT + 17.0);
    format!(
        "<path d=\"M{x:.1} {base}v4\"/><text x=\"{x:.1}\" y=\"{y:.0}\" text-anchor=\"middle\">{}</text>\n",
        escape(text)
    )
}

/// Counts of widths from left to right and heights upwards: the darker a cell, the more there are.
pub(super) fn heat<'a>(
    sizes: impl Iterator<Item = (&'a (usize, usize), &'a u64)> + Clone,
) -> String {
    const ACROSS: usize = 28;
    const DOWN: usize = 14;
    let most = |of: fn(&(usize, usize)) -> usize| {
        let most = sizes.clone().map(|(size, _)| of(size)).max().unwrap_or(1);
        let step = round_step(most as f64 / 4.0).max(1.0);
        ((most as f64 / step).ceil() * step, step)
    };
    let ((wide, step_x), (high, step_y)) = (most(|size| size.0), most(|size| size.1));
    let cell = |at: usize, of: f64, cells: usize| {
        ((at as f64 / of * cells as f64) as usize).min(cells - 1)
    };
    let mut cells = vec![[0u64; ACROSS]; DOWN];
    for (size, count) in sizes.clone() {
        cells[cell(size.1, high, DOWN)][cell(size.0, wide, ACROSS)] += count;
    }
    let peak = cells.iter().flatten().copied().max().unwrap_or(1).max(1) as f64;
    let (left, right) = (AXIS, WIDTH - 24.0);
    let (dx, dy) = ((right - left) / ACROSS as f64, HEIGHT / DOWN as f64);
    let mut svg = begin(TOP + HEIGHT + 22.0);
    let (mut x, mut y) = (0.0, 0.0);
    while x <= wide {
        svg += &tick(left + x / wide * (right - left), &units::number(x));
        x += step_x;
    }
    while y <= high {
        let at = TOP + HEIGHT - y / high * HEIGHT;
        _ = write!(
            svg,
            "<path d=\"M{left:.1} {at:.1}H{right:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            left - 6.0,
            at + 4.0,
            units::number(y),
        );
        y += step_y;
    }
    for (row, counts) in cells.iter().enumerate() {
        for (column, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let [from_x, to_x] = [column, column + 1].map(|at| at as f64 * wide / ACROSS as f64);
            let [from_y, to_y] = [row, row + 1].map(|at| at as f64 * high / DOWN as f64);
            _ = write!(
                svg,
                "<g><title>{from_x:.0} to {to_x:.0} by {from_y:.0} to {to_y:.0}: {}</title>\
                 <rect x=\"{:.1}\" y=\"{:.1}\" width=\"{dx:.1}\" height=\"{dy:.1}\" opacity=\"{:.2}\"/></g>",
                units::count(*count),
                left + column as f64 * dx,
                TOP + HEIGHT - (row + 1) as f64 * dy,
                0.25 + 0.75 * (*count as f64 / peak).sqrt(),
            );
        }
    }
    svg + "</svg>\n"
}

/// Numbers as a line from left to right.
pub(super) fn line(numbers: &[f64]) -> String {
    let finite = || numbers.iter().copied().filter(|number| number.is_finite());
    let (min, max) = finite().fold((f64::MAX, f64::MIN), |(min, max), n| (min.min(n), max.max(n)));
    let range = if max > min { max - min } else { 1.0 };
    let mut path = String::new();
    let mut pen = 'M';
    for (at, number) in numbers.iter().enumerate() {
        if !number.is_finite() {
            pen = 'M';
            continue;
        }
        let x = at as f64 / (numbers.len() - 1).max(1) as f64 * WIDTH;
        let y = 4.0 + (max - number) / range * 72.0;
        _ = write!(path, "{pen}{x:.1} {y:.1}");
        pen = 'L';
    }
    format!(
        "<svg viewBox=\"0 0 {WIDTH:.0} 80\" role=\"img\"><path class=\"line\" d=\"{path}\"/></svg>\n"
    )
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
        assert!(svg.starts_with("<svg viewBox=\"0 0 420 60\""), "{svg}");
        assert_eq!((svg.matches("<rect").count(), svg.matches("&lt;1&gt;").count()), (3, 2));
        let column = |at: u64| Column { from: at.to_string(), count: at };
        let svg = columns(&(0..12).map(column).collect::<Vec<_>>(), "12");
        assert_eq!(svg.matches("<g>").count(), 12);
        assert!(svg.contains("<title>11 to 12: 11</title>"), "{svg}");
        // The grid has round counts.
        for count in [">0<", ">5<", ">10<"] {
            assert!(svg.contains(count), "{count}: {svg}");
        }
        let sizes = std::collections::BTreeMap::from([((640, 480), 10), ((500, 375), 1)]);
        assert_eq!(heat(sizes.iter()).matches("<g>").count(), 2);
        assert_eq!(line(&[0.0, f64::NAN, 2.0, 1.0]).matches('M').count(), 2);
    }
}
