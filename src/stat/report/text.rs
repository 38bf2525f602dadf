//! The summary for the eye: tables and bars of characters. Names and values are escaped where they
//! are put into a line, as its text is cut into lines again.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{
    Row, StatReport, StatSection, StatText, elements, extremes, ranked, shape, share, spread,
};
use crate::stat::{Arrays, Audio, FieldSummary, Histogram, Images, Numbers, Splits, Times};
use crate::text::{cut, escaped, padded, right_aligned, units, width};

/// Columns of the longest bar.
const BAR: usize = 40;
/// The most columns of a name before a bar.
const NAME: usize = 44;
/// The largest and the smallest of a list that may be long: classes.
const LARGEST: usize = 14;
const SMALLEST: usize = 5;
/// Rows of a list that is a remark: common texts, sizes of images, shapes of arrays.
const FEW: usize = 5;
/// Cells of a picture of widths and heights.
const ACROSS: usize = 24;
const DOWN: usize = 8;

/// Writes the sections of a report.
struct Text<'a> {
    found: &'a StatReport,
    form: StatText,
}

pub(super) fn sections(found: &StatReport, form: StatText) -> Vec<StatSection> {
    let summary = &found.summary;
    let mut sections = Vec::new();
    if summary.samples == 0 {
        return sections;
    }
    let text = Text { found, form };
    let mut section = |title: &str, text: String| {
        let title = escaped(title).into_owned();
        sections.push(StatSection { title, text });
    };
    section("bytes of a sample", text.histogram(&summary.bytes, units::bytes));
    section("fields", text.fields());
    for field in &summary.fields {
        let name = &field.name;
        // What the table of fields says needs no section.
        let is_plain = field.is_constant() || field.is_unique();
        if let Some(rows) = found.classes(field).filter(|_| !is_plain || form.all) {
            let text = text.classes(&rows) + &unused(&found.unused_labels(field));
            section(&format!("field {name}: classes"), text);
        } else if let Some(numbers) = field.numbers.as_ref().filter(|_| !field.is_constant()) {
            section(&format!("field {name}: numbers"), text.numbers(numbers));
        } else if form.all && field.classes.kept() > 1 {
            section(&format!("field {name}: values"), text.common(field, usize::MAX));
        }
        if let Some(times) = field.times.as_ref().filter(|_| !field.is_constant()) {
            section(&format!("field {name}: times"), text.times(times));
        }
        let is_text = name != "key" && !field.has_classes() && !field.is_constant();
        if let Some(characters) = field.characters.as_ref().filter(|_| is_text) {
            let mut lines = text.histogram(characters, units::count);
            lines.insert_str(0, "  characters\n");
            if !field.is_unique() && !form.all {
                lines += &text.common(field, FEW);
            }
            section(&format!("field {name}: texts"), lines);
        }
        if let Some(elements) = &field.elements {
            let lines = text.histogram(elements, units::count);
            section(&format!("field {name}: lists"), String::from("  elements\n") + &lines);
        }
        if let Some(images) = &field.images {
            section(&format!("field {name}: images"), text.images(images));
        }
        if let Some(audio) = &field.audio {
            section(&format!("field {name}: audio"), text.audio(audio));
        }
        if let Some(arrays) = &field.arrays {
            section(&format!("field {name}: arrays"), text.arrays(arrays));
        }
    }
    if let Some(splits) = &summary.splits {
        section(&format!("field {} by {}", splits.of, splits.by), text.splits(splits));
    }
    sections
}

impl Text<'_> {
    /// A line of percentiles, and bars.
    fn histogram(&self, numbers: &Histogram, form: fn(u64) -> String) -> String {
        let text = format!("  {}\n", spread(numbers, form));
        if numbers.min() == numbers.max() {
            return text;
        }
        let bars = numbers.bars();
        let row = |from| Row { name: format!("from {}", form(from)), count: 0 };
        let rows: Vec<Row> =
            bars.iter().map(|bar| Row { count: bar.count, ..row(bar.from) }).collect();
        text + &self.bars(&rows, true)
    }

    /// A row each: its name, its bar and its count.
    fn bars(&self, rows: &[Row], right: bool) -> String {
        let most = rows.iter().map(|row| row.count).max().unwrap_or(0).max(1);
        let counts: Vec<String> = rows.iter().map(|row| units::count(row.count)).collect();
        let digits = counts.iter().map(String::len).max().unwrap_or(0);
        // Names may take half of the line, what is left is for the bars.
        let room = self.form.width.saturating_sub(digits + 6);
        let names: Vec<String> = rows
            .iter()
            .map(|row| cut(&escaped(&row.name), NAME.min(room / 2).max(12)).into_owned())
            .collect();
        let widest = names.iter().map(|name| width(name)).max().unwrap_or(0);
        let columns = room.saturating_sub(widest).clamp(4, BAR);
        let mut text = String::new();
        for ((row, name), count) in rows.iter().zip(names).zip(counts) {
            let align = if right { right_aligned } else { padded };
            let name = align(&name, widest);
            let bar = bar(row.count, most, columns);
            text += format!("  {name}  {count:>digits$}  {bar}").trim_end();
            text.push('\n');
        }
        text
    }

    fn fields(&self) -> String {
        let summary = &self.found.summary;
        let names: Vec<_> = summary.fields.iter().map(|field| escaped(&field.name)).collect();
        let names: Vec<_> = names.iter().map(|name| cut(name, NAME)).collect();
        let widest = names.iter().map(|name| width(name)).max().unwrap_or(0);
        let mut text = String::new();
        for (field, name) in summary.fields.iter().zip(names) {
            let types = ranked(&field.types);
            let types: Vec<String> = match &types[..] {
                [(kind, _)] => vec![kind.clone()],
                types => {
                    types.iter().map(|(kind, n)| format!("{kind} {}", units::count(*n))).collect()
                }
            };
            let there = share(field.present, summary.samples);
            let bytes = units::bytes(field.bytes.mean().unwrap_or_default().round() as u64);
            let mut facts = types.join(", ");
            if field.nulls > 0 {
                facts += &format!("; null in {}", share(field.nulls, field.present));
            }
            let values = self.found.values(field);
            if !values.is_empty() {
                facts += &format!("; {values}");
            }
            let line = format!(
                "  {}  {there:>6}  {bytes:>7} on average  {}",
                padded(&name, widest),
                escaped(&facts)
            );
            _ = writeln!(text, "{}", cut(&line, self.room()));
        }
        if summary.more_fields {
            text += "  and more, which were not looked at\n";
        }
        text
    }

    /// Columns of a line that may be cut.
    fn room(&self) -> usize {
        if self.form.all { usize::MAX } else { self.form.width.max(60) }
    }

    fn classes(&self, rows: &[Row]) -> String {
        let total: u64 = rows.iter().map(|row| row.count).sum();
        let (first, last) = (rows[0].count, rows[rows.len() - 1].count);
        let many = units::counted(rows.len() as u64, "value");
        if first == last {
            let each = units::counted(first, "sample");
            let text = format!("  {many}, each of {each}\n");
            // Bars of one length show nothing that the line does not say.
            let is_long = rows.len() > LARGEST + SMALLEST && !self.form.all;
            return if is_long { text } else { text + &self.bars(rows, false) };
        }
        let text = format!(
            "  {many}: the largest has {}, the smallest {}, on average {}\n",
            units::count(first),
            units::count(last),
            units::number((total as f64 / rows.len() as f64 * 10.0).round() / 10.0),
        );
        text + &self.ends(rows)
    }

    /// Bars of the first and of the last of many.
    fn ends(&self, rows: &[Row]) -> String {
        if self.form.all || rows.len() <= LARGEST + SMALLEST + 1 {
            return self.bars(rows, false);
        }
        let ends: Vec<Row> =
            rows[..LARGEST].iter().chain(&rows[rows.len() - SMALLEST..]).cloned().collect();
        let bars = self.bars(&ends, false);
        let mut lines: Vec<&str> = bars.lines().collect();
        let more = format!("  … {} more …", units::count((rows.len() - ends.len()) as u64));
        lines.insert(LARGEST, &more);
        lines.join("\n") + "\n"
    }

    /// The most frequent values of a field, where they come more than once.
    fn common(&self, field: &FieldSummary, most: usize) -> String {
        let missed = field.classes.missed();
        let mut rows = self.found.common(field, most);
        if !self.form.all {
            rows.retain(|row| row.count > 1.max(missed));
        }
        if rows.is_empty() {
            return String::new();
        }
        let title = match missed {
            0 => String::from("  most frequent:\n"),
            missed => format!("  most frequent, counts to within {}:\n", units::count(missed)),
        };
        title + &self.bars(&rows, false)
    }

    fn numbers(&self, numbers: &Numbers) -> String {
        let bars = numbers.bars();
        let text = format!("  {}\n", extremes(numbers));
        if bars.len() < 2 {
            return text;
        }
        let rows = bars
            .iter()
            .map(|bar| Row { name: format!("from {}", units::number(bar.from)), count: bar.count });
        text + &self.bars(&rows.collect::<Vec<_>>(), true)
    }

    fn times(&self, times: &Times) -> String {
        let (min, max) = (times.min().unwrap_or_default(), times.max().unwrap_or_default());
        let rows = times.bars().into_iter().map(|bar| Row { name: bar.from, count: bar.count });
        format!("  {min} to {max}\n") + &self.bars(&rows.collect::<Vec<_>>(), true)
    }

    fn images(&self, images: &Images) -> String {
        let mut text = format!("  {}\n", kinds(&images.formats));
        if !images.modes.is_empty() {
            _ = writeln!(text, "  colours: {}", kinds(&images.modes));
        }
        if images.damaged > 0 {
            let count = units::count(images.damaged);
            _ = writeln!(text, "  {count} whose header does not say how large they are");
        }
        let sizes = ranked(&images.sizes);
        match sizes[..] {
            [] => return text,
            [((width, height), _)] => return text + &format!("  all {width} x {height}\n"),
            _ => {}
        }
        for (name, of) in [("width", &images.width), ("height", &images.height)] {
            let at = |percent| units::count(of.percentile(percent).unwrap_or_default());
            let (min, max) = (at(0), units::count(of.max().unwrap_or_default()));
            let (low, median, high) = (at(5), at(50), at(95));
            let line = format!("min {min}, 5 % {low}, median {median}, 95 % {high}, max {max}");
            _ = writeln!(text, "  {name:<6}  {line}");
        }
        let at = |percent| units::number(images.aspect.percentile(percent).unwrap_or_default());
        let (low, median, high) = (at(5), at(50), at(95));
        _ = writeln!(text, "  aspect  5 % {low}, median {median}, 95 % {high}");
        text += &picture_of_sizes(&images.sizes);
        let form = |((width, height), n): &((usize, usize), u64)| Row {
            name: format!("{width} x {height}"),
            count: *n,
        };
        text + &self.top("size", sizes.iter().map(form).collect())
    }

    fn audio(&self, audio: &Audio) -> String {
        let mut text = format!("  {}\n", kinds(&audio.formats));
        let rates = ranked(&audio.rates).into_iter();
        let rates: Vec<String> = rates
            .map(|(rate, n)| format!("{} at {} Hz", units::count(n), units::count(rate.into())))
            .collect();
        let channels = ranked(&audio.channels).into_iter();
        let channels = channels.map(|(of, n)| {
            format!("{} of {}", units::count(n), units::counted(of.into(), "channel"))
        });
        let facts: Vec<String> = rates.into_iter().chain(channels).collect();
        if !facts.is_empty() {
            _ = writeln!(text, "  {}", facts.join(", "));
        }
        if audio.unknown > 0 {
            let count = units::count(audio.unknown);
            _ = writeln!(text, "  {count} whose headers do not say how long they are");
        }
        if audio.seconds.count > 0 {
            let hours = units::number((audio.seconds.sum / 36.0).round() / 100.0);
            _ = writeln!(text, "  seconds, {hours} hours in all");
            text += &self.numbers(&audio.seconds);
        }
        text
    }

    fn arrays(&self, arrays: &Arrays) -> String {
        let dtypes = ranked(&arrays.dtypes);
        let dtypes: Vec<String> = dtypes
            .iter()
            .map(|(dtype, n)| format!("{} of {}", units::count(*n), escaped(dtype)))
            .collect();
        let bytes = units::bytes(arrays.bytes);
        let mut text = format!("  {}; {bytes} in memory\n", dtypes.join(", "));
        if let Some(elements) = elements(&arrays.elements) {
            _ = writeln!(text, "  {elements}");
        }
        if arrays.packed > 0 {
            let ratio = arrays.packed_bytes as f64 / arrays.container_bytes.max(1) as f64;
            let packed = units::count(arrays.packed);
            let bytes = units::bytes(arrays.container_bytes);
            _ = writeln!(text, "  {packed} packed in {bytes}, {ratio:.2} to 1");
        }
        let shapes = ranked(&arrays.shapes);
        if let [(only, _)] = &shapes[..] {
            return text + &format!("  all {}\n", shape(only));
        }
        let rows = shapes.iter().map(|(axes, n)| Row { name: shape(axes), count: *n });
        text + &self.top("shape", rows.collect())
    }

    /// The first of many.
    fn top(&self, what: &str, rows: Vec<Row>) -> String {
        let shown = &rows[..if self.form.all { rows.len() } else { rows.len().min(FEW) }];
        let many = units::counted(rows.len() as u64, what);
        format!("  {many}, the most frequent:\n{}", self.bars(shown, false))
    }

    /// A table of labels and splits: the labels whose shares differ most between splits first.
    fn splits(&self, splits: &Splits) -> String {
        let (names, rows) = splits.table();
        if names.is_empty() {
            return String::from("  too many values to be counted by\n");
        }
        let totals: Vec<u64> =
            (0..names.len()).map(|at| rows.iter().map(|(_, counts)| counts[at]).sum()).collect();
        let spread = |counts: &[u64]| {
            let shares = counts.iter().zip(&totals).map(|(n, of)| *n as f64 / (*of).max(1) as f64);
            let (min, max) =
                shares.fold((f64::MAX, 0f64), |(min, max), share| (min.min(share), max.max(share)));
            max - min
        };
        let label = self.found.summary.field(&splits.of);
        let mut rows: Vec<(String, Vec<u64>)> = rows
            .into_iter()
            .map(|(class, counts)| {
                let name =
                    label.map_or_else(|| class.to_string(), |field| self.found.name(field, class));
                (name, counts)
            })
            .collect();
        rows.sort_by(|a, b| spread(&b.1).total_cmp(&spread(&a.1)));
        let shown = if self.form.all { rows.len() } else { rows.len().min(LARGEST) };
        let columns = if self.form.all { names.len() } else { names.len().min(6) };
        let cells = |name: String, counts: Vec<String>| {
            let mut cells = vec![name];
            cells.extend(counts.into_iter().take(columns));
            cells
        };
        let name = |name: &&crate::rearrange::Scalar| escaped(&name.to_string()).into_owned();
        let mut table = vec![cells(splits.of.clone(), names.iter().map(name).collect())];
        for (label, counts) in &rows[..shown] {
            let share = |(n, of): (&u64, &u64)| match n {
                0 => String::from("none"),
                n => format!("{} ({})", units::count(*n), share(*n, *of)),
            };
            let label = cut(&escaped(label), NAME).into_owned();
            table.push(cells(label, counts.iter().zip(&totals).map(share).collect()));
        }
        let mut text = aligned(&table);
        if shown < rows.len() {
            let more = units::count((rows.len() - shown) as u64);
            _ = writeln!(text, "  and {more} more labels, whose shares differ less");
        }
        if columns < names.len() {
            _ = writeln!(
                text,
                "  and {} more splits",
                units::count((names.len() - columns) as u64)
            );
        }
        text
    }
}

/// Cells below each other, the first column to the left and the others to the right.
fn aligned(table: &[Vec<String>]) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let widest = |at: usize| table.iter().map(|row| width(&row[at])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    let mut text = String::new();
    for row in table {
        for (at, (cell, widest)) in row.iter().zip(&widths).enumerate() {
            let align = if at == 0 { padded } else { right_aligned };
            _ = write!(text, "  {}", align(cell, *widest));
        }
        text.push('\n');
    }
    text
}

/// How many of each kind: `1,200 jpeg, 3 png`.
fn kinds(counts: &BTreeMap<String, u64>) -> String {
    let kinds = ranked(counts).into_iter();
    kinds.map(|(kind, n)| format!("{} {kind}", units::count(n))).collect::<Vec<_>>().join(", ")
}

/// Widths from left to right and heights upwards, darker where there are more.
fn picture_of_sizes(sizes: &BTreeMap<(usize, usize), u64>) -> String {
    let (wide, high): (Vec<usize>, Vec<usize>) = sizes.keys().copied().unzip();
    let range = |of: &[usize]| {
        let (min, max) = (of.iter().min().copied(), of.iter().max().copied());
        (min.unwrap_or(0), max.unwrap_or(0))
    };
    let ((left, right), (low, top)) = (range(&wide), range(&high));
    let cell = |at: usize, (min, max): (usize, usize), cells: usize| {
        ((at - min) as u128 * cells as u128 / ((max - min) as u128 + 1)) as usize
    };
    let mut grid = vec![[0u64; ACROSS]; DOWN];
    for ((width, height), count) in sizes {
        grid[cell(*height, (low, top), DOWN)][cell(*width, (left, right), ACROSS)] += count;
    }
    let most = grid.iter().flatten().copied().max().unwrap_or(1).max(1) as f64;
    let shade = |count: &u64| match (*count as f64 / most * 4.0).ceil() as usize {
        0 => "·",
        level => ["░", "▒", "▓", "█"][level.min(4) - 1],
    };
    let [top, low, left, right] = [top, low, left, right].map(|pixels| units::count(pixels as u64));
    let margin = width(&top).max(width(&low));
    let mut text = String::new();
    for (at, row) in grid.iter().enumerate().rev() {
        let label = if at == DOWN - 1 {
            &top
        } else if at == 0 {
            &low
        } else {
            ""
        };
        let cells: String = row.iter().map(shade).collect();
        _ = writeln!(text, "  {label:>margin$} {cells}");
    }
    let space = ACROSS.saturating_sub(left.len() + right.len()).max(1);
    _ = writeln!(text, "  {:margin$} {left}{}{right}  width by height", "", " ".repeat(space));
    text
}

/// A bar in eighths of a character; at least one of these unless the count is 0.
fn bar(count: u64, most: u64, columns: usize) -> String {
    let eighths = (count as f64 / most as f64 * (columns * 8) as f64).round() as usize;
    let eighths = eighths.max(usize::from(count > 0));
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + rest
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_counts() {
        assert_eq!(bar(0, 100, 40), "");
        assert_eq!(bar(1, 100_000, 40), "▏");
        assert_eq!(bar(100, 100, 40).chars().count(), 40);
        assert_eq!(bar(50, 100, 40), "█".repeat(20));
    }

    #[test]
    fn a_share_is_never_rounded_to_all_or_nothing() {
        let shares = [share(1, 1_000_000), share(999_999, 1_000_000), share(7, 7), share(1, 2)];
        assert_eq!(shares, ["0.1 %", "99.9 %", "all", "50.0 %"]);
    }
}
