//! The summary as one page that needs nothing else: no scripts, no other files.
//!
//! Everything that comes from a dataset passes through [`escape`], and the page tells the browser to
//! run no script and to load nothing.

use crate::error::Shown;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::escape::escape;
use super::plot::{self, Column};
use super::{LABEL, Row, StatReport, extremes, ranked, shape};
use crate::error::Result;
use crate::format::jsonl;
use crate::format::msgpack::Value;
use crate::reader::Reader;
use crate::stat::{FieldSummary, Histogram, Numbers};
use crate::text::units;

/// Bars of a list: classes, sizes, shapes.
const ROWS: usize = 20;
/// Rows of the table behind a list.
const ALL_ROWS: usize = 10_000;
/// Samples at the top of the page; the others can be unfolded.
const FIRST: usize = 12;
/// An image is shown as it is stored if it has no more bytes.
const MAX_IMAGE: usize = 64 << 10;
/// Bytes of images on one page.
const MAX_PAGE: usize = 16 << 20;
/// Characters of a value next to an image.
const MAX_VALUE: usize = 48;
/// Images of fewer pixels a side are magnified without blur.
const SMALL: u32 = 64;

/// One sample on the page.
pub(super) struct Sample {
    key: String,
    /// Media type and bytes.
    image: Option<(&'static str, Vec<u8>)>,
    /// Names and values of other fields.
    values: Vec<(String, String)>,
}

/// This many samples, evenly spread over the dataset.
pub(super) fn pick(reader: &dyn Reader, count: usize, found: &StatReport) -> Result<Vec<Sample>> {
    let len = reader.len();
    let count = count.min(len);
    let mut room = MAX_PAGE;
    let mut samples = Vec::new();
    for at in 0..count {
        let index = (at as u128 * len as u128 / count as u128) as usize;
        let sample = Sample::of(&reader.key(index)?, &reader.get(index)?, found, &mut room);
        samples.push(sample);
    }
    Ok(samples)
}

impl Sample {
    fn of(key: &str, value: &Value, found: &StatReport, room: &mut usize) -> Sample {
        let mut sample = Sample { key: key.to_owned(), image: None, values: Vec::new() };
        for (name, value) in value.as_map().map(Vec::as_slice).unwrap_or_default() {
            let Some(name) = name.as_str().filter(|name| *name != "key") else { continue };
            if let (Value::Binary(bytes), None) = (value, &sample.image) {
                sample.image = picture(bytes).filter(|(_, bytes)| bytes.len() <= *room);
                if let Some((_, bytes)) = &sample.image {
                    *room -= bytes.len();
                    continue;
                }
            }
            let text = match value.as_i64().filter(|_| name == LABEL) {
                Some(number) => found.label(number.into()),
                None => {
                    let mut text = Vec::new();
                    jsonl::write_short(value, MAX_VALUE, &mut text);
                    String::from_utf8_lossy(&text).into_owned()
                }
            };
            sample.values.push((name.to_owned(), text));
        }
        sample
    }
}

/// A picture that a browser shows, as its media type and bytes: a small one of the image where images can be decoded, or
/// else itself.
pub fn picture(bytes: &[u8]) -> Option<(&'static str, Vec<u8>)> {
    let media = match bytes {
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => "",
    };
    if bytes.len() <= MAX_IMAGE && !media.is_empty() {
        return Some((media, bytes.to_vec()));
    }
    #[cfg(feature = "images")]
    return super::thumbnail::thumbnail(bytes).map(|png| ("image/png", png));
    #[cfg(not(feature = "images"))]
    None
}

const STYLE: &str = include_str!("page.css");

/// No scripts, no other files: also not those that an image or a value would name.
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";

/// The whole page.
pub(super) fn page(found: &StatReport, samples: &[Sample]) -> String {
    let summary = &found.summary;
    let name = found.file.file_name().unwrap_or(found.file.as_os_str());
    let (title, name) = (escape(Shown::of(&found.file)), escape(name.to_string_lossy()));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
    );
    let cards: Vec<Card> = match summary.samples {
        0 => Vec::new(),
        _ => summary.fields.iter().flat_map(|field| cards(found, field)).collect(),
    };
    page += &navigation(summary.samples > 0, !samples.is_empty(), &cards);
    _ = write!(page, "<main>\n<h1>{title}</h1>\n<p>{}</p>\n", found.heading(),);
    if summary.samples > 0 {
        page += &grid(samples);
        page += &fields(found, &cards);
        page += "<div class=\"cards\">\n";
        let sizes = histogram(&summary.bytes, units::bytes);
        page += &card("size", "Bytes of a sample", &sizes);
        for (at, Card { title, html, .. }) in cards.iter().enumerate() {
            page += &card(&format!("c{at}"), title, html);
        }
        page += "</div>\n";
    }
    page + "</main>\n</body>\n</html>\n"
}

/// The description of a field, under a heading; both are HTML.
struct Card {
    field: String,
    title: String,
    html: String,
}

fn card(id: &str, title: &str, html: &str) -> String {
    format!("<section id=\"{id}\" class=\"card\">\n<h2>{title}</h2>\n{html}</section>\n")
}

fn navigation(has_fields: bool, has_samples: bool, cards: &[Card]) -> String {
    let mut html = String::from("<nav>");
    let mut link = |id: &str, text: &str| _ = write!(html, "<a href=\"#{id}\">{text}</a> ");
    if has_samples {
        link("samples", "Samples");
    }
    if has_fields {
        link("fields", "Fields");
        link("size", "Size");
    }
    for (at, card) in cards.iter().enumerate() {
        link(&format!("c{at}"), &card.title);
    }
    html + "</nav>\n"
}

fn histogram(numbers: &Histogram, form: fn(u64) -> String) -> String {
    let (min, max) = (numbers.min().unwrap_or_default(), numbers.max().unwrap_or_default());
    if min == max {
        return format!("<p>all {}</p>\n", form(min));
    }
    let at = |percent| form(numbers.percentile(percent).unwrap_or_default());
    let mean = form(numbers.mean().unwrap_or_default().round() as u64);
    let line = format!(
        "<p>min {}, 5 % {}, median {}, 95 % {}, max {}; mean {mean}</p>\n",
        form(min),
        at(5),
        at(50),
        at(95),
        form(max)
    );
    let column = |bar: &crate::stat::Bar| Column { from: form(bar.from), count: bar.count };
    line + &plot::columns(&numbers.bars().iter().map(column).collect::<Vec<_>>(), &form(max))
}

fn numbers(numbers: &Numbers) -> String {
    let line = format!("<p>{}</p>\n", extremes(numbers));
    let bars = numbers.bars();
    if bars.len() < 2 {
        return line;
    }
    let column =
        |bar: &crate::stat::NumberBar| Column { from: units::number(bar.from), count: bar.count };
    let end = bars.last().map_or_else(String::new, |bar| units::number(bar.to));
    line + &plot::columns(&bars.iter().map(column).collect::<Vec<_>>(), &end)
}

fn fields(found: &StatReport, cards: &[Card]) -> String {
    let mut html = String::from(
        "<section id=\"fields\">\n<h2>Fields</h2>\n<div class=\"wide\"><table>\n<tr><th>name</th>\
         <th class=\"n\">samples</th><th class=\"n\">mean size</th><th>types</th></tr>\n",
    );
    for field in &found.summary.fields {
        let types = ranked(&field.types);
        let types: Vec<String> = match &types[..] {
            [(kind, _)] => vec![escape(kind)],
            types => types
                .iter()
                .map(|(kind, n)| format!("{} {}", escape(kind), units::count(*n)))
                .collect(),
        };
        let name = escape(&field.name);
        let name = match cards.iter().position(|card| card.field == field.name) {
            Some(at) => format!("<a href=\"#c{at}\">{name}</a>"),
            None => name,
        };
        _ = writeln!(
            html,
            "<tr><td>{name}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            units::count(field.present),
            units::bytes(field.bytes.mean().unwrap_or_default().round() as u64),
            types.join("<br>"),
        );
    }
    if found.summary.more_fields {
        html += "<tr><td colspan=\"4\">and more, which were not looked at</td></tr>\n";
    }
    html + "</table></div>\n</section>\n"
}

/// Classes, numbers, images and arrays of a field.
fn cards(found: &StatReport, field: &FieldSummary) -> Vec<Card> {
    let name = escape(&field.name);
    let mut cards = Vec::new();
    let mut add = |what: &str, html: String| {
        let title = format!("field {name}: {what}");
        cards.push(Card { field: field.name.clone(), title, html });
    };
    if let Some(rows) = found.classes(field) {
        let mut html = list(&rows, "value");
        let unused = found.unused_labels(field);
        if !unused.is_empty() {
            let labels: Vec<String> = unused.iter().take(ROWS).map(escape).collect();
            let more = if unused.len() > ROWS { ", …" } else { "" };
            let many = units::counted(unused.len() as u64, "label");
            _ = writeln!(html, "<p>no samples of {many}: {}{more}</p>", labels.join(", "));
        }
        add("Classes", html);
    } else if let Some(numbers) = &field.numbers {
        add("Numbers", self::numbers(numbers));
    }
    if let Some(images) = &field.images {
        let mut html = String::new();
        let formats: Vec<String> = ranked(&images.formats)
            .iter()
            .map(|(format, n)| format!("{} {format}", units::count(*n)))
            .collect();
        _ = writeln!(html, "<p>{}</p>", formats.join(", "));
        if images.damaged > 0 {
            let count = units::count(images.damaged);
            _ = writeln!(html, "<p>{count} whose header does not say how large they are</p>");
        }
        let mut sizes = images.sizes.keys();
        let only = sizes.next().filter(|_| sizes.next().is_none());
        if let Some((width, height)) = only {
            _ = writeln!(html, "<p>all {width} x {height}</p>");
        }
        for (what, numbers) in [("width", &images.width), ("height", &images.height)] {
            if only.is_none() && numbers.count() > 0 {
                _ = writeln!(html, "<h3>{what}</h3>");
                html += &histogram(numbers, |number| number.to_string());
            }
        }
        add("Images", html);
    }
    if let Some(arrays) = &field.arrays {
        let dtypes: Vec<String> = ranked(&arrays.dtypes)
            .iter()
            .map(|(dtype, n)| format!("{} of {}", units::count(*n), escape(dtype)))
            .collect();
        let shapes = ranked(&arrays.shapes);
        let rows = shapes.iter().map(|(axes, n)| Row { name: shape(axes), count: *n });
        let bytes = units::bytes(arrays.bytes);
        let html = format!("<p>{}; {bytes} in memory</p>\n", dtypes.join(", "));
        add("Arrays", html + &list(&rows.collect::<Vec<_>>(), "shape"));
    }
    cards
}

/// The most frequent, and a table of all behind them.
fn list(rows: &[Row], what: &str) -> String {
    if let [row] = rows {
        return format!("<p>all {}</p>\n", escape(&row.name));
    }
    let (first, last) = (rows[0].count, rows[rows.len() - 1].count);
    let many = units::counted(rows.len() as u64, what);
    let mut html = match first == last {
        true => format!("<p>{many}, each of {}</p>\n", units::counted(first, "sample")),
        false => format!(
            "<p>{many}: the largest has {}, the smallest {}</p>\n",
            units::count(first),
            units::count(last)
        ),
    };
    // Bars of one length show nothing that the line does not say.
    if first != last || rows.len() <= ROWS {
        html += &plot::rows(&rows[..rows.len().min(ROWS)]);
    }
    if rows.len() <= ROWS {
        return html;
    }
    let shown = rows.len().min(ALL_ROWS);
    let all = if shown == rows.len() { "All" } else { "The first" };
    let title = format!("{all} {}", units::counted(shown as u64, what));
    _ = writeln!(html, "<details><summary>{title}</summary><div class=\"wide\"><table>");
    for row in &rows[..shown] {
        let (name, count) = (escape(&row.name), units::count(row.count));
        _ = writeln!(html, "<tr><td>{name}</td><td class=\"n\">{count}</td></tr>");
    }
    html + "</table></div></details>\n"
}

fn grid(samples: &[Sample]) -> String {
    if samples.is_empty() {
        return String::new();
    }
    let is_text = samples.iter().all(|sample| sample.image.is_none());
    let class = if is_text { "grid text" } else { "grid" };
    let figures = |samples: Vec<(usize, &Sample)>| {
        let figures: String = samples.into_iter().map(|(_, sample)| figure(sample)).collect();
        format!("<div class=\"{class}\">\n{figures}</div>\n")
    };
    // The first ones are spread over the dataset, as all are.
    let every = samples.len().div_ceil(FIRST);
    let (first, others): (Vec<_>, Vec<_>) =
        samples.iter().enumerate().partition(|(at, _)| at % every == 0);
    let mut html = String::from("<section id=\"samples\">\n<h2>Samples</h2>\n") + &figures(first);
    if !others.is_empty() {
        let more = units::counted(others.len() as u64, "more sample");
        let others = figures(others);
        _ = writeln!(html, "<details><summary>{more}</summary>\n{others}</details>");
    }
    html + "</section>\n"
}

fn figure(sample: &Sample) -> String {
    let mut html = String::from("<figure>");
    if let Some((media, bytes)) = &sample.image {
        let class = if is_small(bytes) { " class=\"small\"" } else { "" };
        _ = write!(html, "<img alt=\"\"{class} src=\"data:{media};base64,");
        STANDARD.encode_string(bytes, &mut html);
        html += "\">";
    }
    _ = write!(html, "<figcaption><b>{}</b>", escape(&sample.key));
    for (name, value) in &sample.values {
        _ = write!(html, "<br><i>{}</i> {}", escape(name), escape(value));
    }
    html + "</figcaption></figure>\n"
}

/// Whether it is an image of few pixels, by its header.
fn is_small(bytes: &[u8]) -> bool {
    let side = |at: usize| {
        let side = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(side) <= SMALL)
    };
    bytes.starts_with(b"\x89PNG") && side(16) == Some(true) && side(20) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_data_becomes_markup() {
        let sample = Sample {
            key: "<script>\"'&\u{0}\u{202e}".to_owned(),
            image: None,
            values: vec![("</b>".to_owned(), "<img>".to_owned())],
        };
        let html = grid(&[sample]);
        assert!(html.contains("&lt;script&gt;&quot;&#39;&amp;\\u{0}\\u{202e}"), "{html}");
        assert!(html.contains("<i>&lt;/b&gt;</i> &lt;img&gt;"), "{html}");
    }
}
