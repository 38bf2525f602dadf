//! The cards of a page: what is known of a field, with plots.

use std::fmt::Write as _;

use super::escape::{breakable, escape};
use super::plot::{self, Column};
use super::{Row, StatReport, elements, extremes, ranked, shape, spread};
use crate::stat::{Arrays, Audio, Bar, FieldSummary, Histogram, Images, NumberBar, Numbers, Times};
use crate::text::units;

/// Bars of a list: the largest, and the smallest behind them.
const LARGEST: usize = 14;
const SMALLEST: usize = 5;
/// Rows of the table behind a list.
const ALL_ROWS: usize = 1000;
/// The most frequent of texts, sizes and shapes.
const FEW: usize = 8;

/// The description of a field, under a heading.
pub(super) struct Card {
    pub(super) field: String,
    /// Whether it is the first one of its field.
    pub(super) is_first: bool,
    what: &'static str,
    html: String,
}

impl Card {
    /// Bytes of it, about.
    pub(super) fn len(&self) -> usize {
        self.html.len() + self.field.len()
    }

    pub(super) fn html(&self, id: &str) -> String {
        let id = if id.is_empty() { String::new() } else { format!(" id=\"{id}\"") };
        let title = match &self.field[..] {
            "" => escape(self.what),
            field => format!("{} <i>{}</i>", breakable(field), self.what),
        };
        format!("<section{id} class=\"card\">\n<h2>{title}</h2>\n{}</section>\n", self.html)
    }
}

/// The cards of all fields that have something to show, and one of the sizes of samples.
pub(super) fn all(found: &StatReport) -> Vec<Card> {
    let sizes = histogram(&found.summary.bytes, units::bytes);
    let size =
        Card { field: String::new(), is_first: false, what: "Bytes of a sample", html: sizes };
    let cards = found.summary.fields.iter().flat_map(|field| of(found, field));
    cards.chain([size]).collect()
}

/// The cards of a field. What is always the same or always different stands in the table of fields.
pub(super) fn of(found: &StatReport, field: &FieldSummary) -> Vec<Card> {
    let mut cards = Vec::new();
    let mut add = |what: &'static str, html: String| {
        let is_first = cards.is_empty();
        cards.push(Card { field: field.name.clone(), is_first, what, html });
    };
    let varies = !field.is_constant();
    if let Some(rows) = found.classes(field).filter(|_| varies && !field.is_unique()) {
        let mut html = list(&rows, "value");
        let unused = found.unused_labels(field);
        if !unused.is_empty() {
            let labels: Vec<String> = unused.iter().take(20).map(escape).collect();
            let more = if unused.len() > 20 { ", …" } else { "" };
            let many = units::counted(unused.len() as u64, "label");
            _ = writeln!(html, "<p>no samples of {many}: {}{more}</p>", labels.join(", "));
        }
        add("classes", html);
    } else if let Some(numbers) = field.numbers.as_ref().filter(|_| varies) {
        add("numbers", self::numbers(numbers));
    }
    if let Some(times) = field.times.as_ref().filter(|_| varies) {
        add("times", self::times(times));
    }
    let is_text = field.name != "key" && !field.has_classes() && varies;
    if let Some(characters) = field.characters.as_ref().filter(|_| is_text) {
        let mut html = String::from("<h3>characters</h3>\n") + &histogram(characters, units::count);
        let missed = field.classes.missed();
        let mut common = found.common(field, FEW);
        common.retain(|row| row.count > 1.max(missed));
        if !common.is_empty() {
            html += "<h3>most frequent</h3>\n";
            html += &plot::rows(&common);
        }
        add("texts", html);
    }
    if let Some(elements) = &field.elements {
        add("lists", String::from("<h3>elements</h3>\n") + &histogram(elements, units::count));
    }
    if let Some(images) = &field.images {
        add("images", self::images(images));
    }
    if let Some(audio) = &field.audio {
        add("audio", self::audio(audio));
    }
    if let Some(arrays) = &field.arrays {
        add("arrays", self::arrays(arrays));
    }
    cards
}

fn histogram(numbers: &Histogram, form: fn(u64) -> String) -> String {
    let line = format!("<p>{}</p>\n", spread(numbers, form));
    if numbers.min() == numbers.max() {
        return line;
    }
    let bars = numbers.bars();
    let end = match &bars[..] {
        // The last bar of several that are equally wide ends where it would if there were another one.
        [.., a, b, c] if b.from - a.from == c.from - b.from => {
            c.from.saturating_add(c.from - b.from)
        }
        bars => bars.last().map_or(0, |bar| bar.to.saturating_add(1)),
    };
    let column = |bar: &Bar| Column { from: form(bar.from), count: bar.count };
    line + &plot::columns(&bars.iter().map(column).collect::<Vec<_>>(), &form(end))
}

fn numbers(numbers: &Numbers) -> String {
    let line = format!("<p>{}</p>\n", extremes(numbers));
    let bars = numbers.bars();
    if bars.len() < 2 {
        return line;
    }
    let column = |bar: &NumberBar| Column { from: units::number(bar.from), count: bar.count };
    let end = bars.last().map_or_else(String::new, |bar| units::number(bar.to));
    line + &plot::columns(&bars.iter().map(column).collect::<Vec<_>>(), &end)
}

fn times(times: &Times) -> String {
    let (min, max) = (times.min().unwrap_or_default(), times.max().unwrap_or_default());
    let column = |bar: crate::stat::TimeBar| Column { from: bar.from, count: bar.count };
    let columns: Vec<Column> = times.bars().into_iter().map(column).collect();
    let end = columns.last().map_or_else(String::new, |last| format!("after {}", last.from));
    let plot = if columns.len() < 2 { String::new() } else { plot::columns(&columns, &end) };
    format!("<p>{} to {}</p>\n", escape(min), escape(max)) + &plot
}

/// How many of each kind.
fn kinds<K: Clone + Ord>(
    counts: &std::collections::BTreeMap<K, u64>,
    name: impl Fn(&K) -> String,
) -> String {
    let kinds = ranked(counts).into_iter();
    let kinds: Vec<String> = kinds
        .take(20)
        .map(|(kind, n)| format!("{} {}", units::count(n), escape(name(&kind))))
        .collect();
    kinds.join(", ")
}

fn images(images: &Images) -> String {
    let mut html = format!("<p>{}", kinds(&images.formats, |format| format.clone()));
    if !images.modes.is_empty() {
        html += "; colours: ";
        html += &kinds(&images.modes, |mode| mode.clone());
    }
    html += "</p>\n";
    if images.damaged > 0 {
        let count = units::count(images.damaged);
        _ = writeln!(html, "<p>{count} whose header does not say how large they are</p>");
    }
    let mut sizes = images.sizes.keys();
    let only = sizes.next().filter(|_| sizes.next().is_none());
    if let Some((width, height)) = only {
        _ = writeln!(html, "<p>all {width} x {height}</p>");
    } else if !images.sizes.is_empty() {
        html += "<h3>width by height</h3>\n";
        html += &plot::heat(images.sizes.iter());
        let sizes = ranked(&images.sizes);
        let form = |((width, height), n): &((usize, usize), u64)| Row {
            name: format!("{width} x {height}"),
            count: *n,
        };
        html += "<h3>most frequent sizes</h3>\n";
        html += &plot::rows(&sizes.iter().take(FEW).map(form).collect::<Vec<_>>());
        html += "<h3>width divided by height</h3>\n";
        html += &numbers(&images.aspect);
    }
    html
}

fn audio(audio: &Audio) -> String {
    let mut html = format!("<p>{}", kinds(&audio.formats, |format| format.clone()));
    if !audio.rates.is_empty() {
        html += "; ";
        html += &kinds(&audio.rates, |rate| format!("at {rate} Hz"));
    }
    if !audio.channels.is_empty() {
        html += "; ";
        html +=
            &kinds(&audio.channels, |of| format!("of {}", units::counted((*of).into(), "channel")));
    }
    html += "</p>\n";
    if audio.unknown > 0 {
        let count = units::count(audio.unknown);
        _ = writeln!(html, "<p>{count} whose headers do not say how long they are</p>");
    }
    if audio.seconds.count > 0 {
        html += "<h3>seconds</h3>\n";
        html += &numbers(&audio.seconds);
    }
    html
}

fn arrays(arrays: &Arrays) -> String {
    let mut html = format!(
        "<p>{}; {} in memory</p>\n",
        kinds(&arrays.dtypes, |dtype| format!("of {dtype}")),
        units::bytes(arrays.bytes)
    );
    if let Some(elements) = elements(&arrays.elements) {
        _ = writeln!(html, "<p>{elements}</p>");
    }
    let shapes = ranked(&arrays.shapes);
    let rows = shapes.iter().map(|(axes, n)| Row { name: shape(axes), count: *n });
    html + &list(&rows.collect::<Vec<_>>(), "shape")
}

/// The most frequent and the rarest, and a table of more behind them.
fn list(rows: &[Row], what: &str) -> String {
    let [first, .., last] = rows else {
        let only = rows.first().map_or_else(String::new, |row| escape(&row.name));
        return format!("<p>all {only}</p>\n");
    };
    let many = units::counted(rows.len() as u64, what);
    let mut html = match first.count == last.count {
        true => {
            format!("<p>{many}, each of {}</p>\n", units::counted(first.count, "sample"))
        }
        false => format!(
            "<p>{many}: the largest has {}, the smallest {}</p>\n",
            units::count(first.count),
            units::count(last.count)
        ),
    };
    if rows.len() <= LARGEST + SMALLEST + 1 {
        return html + &plot::rows(rows);
    }
    // Bars of one length show nothing that the line does not say.
    if first.count != last.count {
        html += &plot::rows(&rows[..LARGEST]);
        let others = rows.len() - LARGEST - SMALLEST;
        _ = writeln!(html, "<p>{} more, and the rarest:</p>", units::count(others as u64));
        html += &plot::rows(&rows[rows.len() - SMALLEST..]);
    }
    let shown = rows.len().min(ALL_ROWS);
    let all = if shown == rows.len() { "All" } else { "The first" };
    let title = format!("{all} {}", units::counted(shown as u64, what));
    _ = writeln!(html, "<details><summary>{title}</summary><div class=\"wide\"><table>");
    for row in &rows[..shown] {
        let (name, count) = (breakable(&row.name), units::count(row.count));
        _ = writeln!(html, "<tr><td>{name}</td><td class=\"n\">{count}</td></tr>");
    }
    html + "</table></div></details>\n"
}
