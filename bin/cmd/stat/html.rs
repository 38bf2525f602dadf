//! The summary as one page that needs nothing else: no scripts, no other files.

use std::fmt::{Display, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiste::format::jsonl;
use kiste::stat::{FieldSummary, Histogram};
use kiste::{DatasetReader, Value};

use super::{Found, Row, ranked, rounded, shape};
use crate::exit::Outcome;
use crate::units;

/// Bars of a list: classes, sizes, shapes.
const ROWS: usize = 100;
/// Width of a plot and height of a bar, in pixels.
const PLOT: (f64, f64) = (420.0, 18.0);
/// An image is shown as it is stored if it has no more bytes.
const MAX_IMAGE: usize = 64 << 10;
/// Bytes of images on one page.
const MAX_PAGE: usize = 16 << 20;
/// Characters of a value next to an image.
const MAX_VALUE: usize = 48;

/// What the page shows of one sample.
pub(super) struct Sample {
    key: String,
    /// Media type and bytes.
    image: Option<(&'static str, Vec<u8>)>,
    /// Names and values of other fields.
    values: Vec<(String, String)>,
}

/// This many samples, evenly spread over the dataset.
pub(super) fn pick(reader: &DatasetReader, count: usize) -> Outcome<Vec<Sample>> {
    let len = reader.len();
    let count = count.min(len);
    let mut room = MAX_PAGE;
    let mut samples = Vec::new();
    for at in 0..count {
        let index = (at as u128 * len as u128 / count as u128) as usize;
        let sample = Sample::of(&reader.key(index)?, &reader.get(index)?, &mut room);
        samples.push(sample);
    }
    Ok(samples)
}

impl Sample {
    fn of(key: &str, value: &Value, room: &mut usize) -> Sample {
        let mut sample = Sample { key: key.to_owned(), image: None, values: Vec::new() };
        for (name, value) in value.as_map().map(Vec::as_slice).unwrap_or_default() {
            let Some(name) = name.as_str().filter(|name| *name != "key") else { continue };
            if let (Value::Binary(bytes), None) = (value, &sample.image) {
                sample.image = image(bytes).filter(|(_, bytes)| bytes.len() <= *room);
                if let Some((_, bytes)) = &sample.image {
                    *room -= bytes.len();
                    continue;
                }
            }
            let mut text = Vec::new();
            jsonl::write_short(value, MAX_VALUE, &mut text);
            let text = String::from_utf8_lossy(&text);
            sample.values.push((name.to_owned(), text.into_owned()));
        }
        sample
    }
}

/// A picture that a browser shows: a small one of it where images can be decoded, or else itself.
fn image(bytes: &[u8]) -> Option<(&'static str, Vec<u8>)> {
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

const STYLE: &str = "\
:root { color-scheme: light dark; --bar: #3b82c4; --line: #8884; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: left;
border-bottom: 1px solid var(--line); vertical-align: top; } td.n { text-align: right; }
svg { display: block; max-width: 100%; } svg text { font-size: 12px; fill: currentColor; }
svg rect { fill: var(--bar); } figure { margin: 0; border: 1px solid var(--line); padding: .4rem;
border-radius: .3rem; overflow-wrap: anywhere; font-size: .8rem; } figure img { width: 100%;
height: 8rem; object-fit: contain; image-rendering: auto; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: .6rem; }
";

/// The whole page.
pub(super) fn page(found: &Found, samples: &[Sample]) -> String {
    let summary = &found.summary;
    let title = escape(found.file.display());
    let bytes = u64::try_from(summary.bytes.sum()).unwrap_or(u64::MAX);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\n\
         <style>\n{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p>{}, {}</p>\n",
        units::counted(summary.samples, "sample"),
        units::bytes(bytes),
    );
    if summary.samples > 0 {
        page += "<h2>Bytes of a sample</h2>\n";
        page += &histogram(&summary.bytes, units::bytes);
        page += &fields(found);
        for field in &summary.fields {
            page += &details(found, field);
        }
        page += &grid(samples);
    }
    page + "</body></html>\n"
}

fn escape(text: impl Display) -> String {
    let text = text.to_string();
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            // No control character has a place in a page.
            char if char.is_control() && char != '\n' && char != '\t' => {
                escaped.extend(char.escape_default());
            }
            char => escaped.push(char),
        }
    }
    escaped
}

fn histogram(numbers: &Histogram, form: fn(u64) -> String) -> String {
    let (min, max) = (numbers.min().unwrap_or_default(), numbers.max().unwrap_or_default());
    if min == max {
        return format!("<p>all {}</p>\n", form(min));
    }
    let at = |percent| form(numbers.percentile(percent).unwrap_or_default());
    let mean = form(numbers.mean().unwrap_or_default().round() as u64);
    let line = format!(
        "<p>min {}, 5 % {}, half {}, 95 % {}, max {}; mean {mean}</p>\n",
        form(min),
        at(5),
        at(50),
        at(95),
        form(max)
    );
    let bars = numbers.bars();
    let rows = bars.iter().map(|bar| Row { name: form(bar.from), count: bar.count });
    line + &plot(&rows.collect::<Vec<_>>())
}

/// Bars from left to right, one below the other, with names before and counts behind them.
fn plot(rows: &[Row]) -> String {
    let most = rows.iter().map(|row| row.count).max().unwrap_or(0).max(1) as f64;
    let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).min(40);
    let left = longest as f64 * 7.0 + 10.0;
    let (width, line) = PLOT;
    let mut svg = format!(
        "<svg width=\"{:.0}\" height=\"{:.0}\" role=\"img\">\n",
        left + width + 90.0,
        line * rows.len() as f64 + 4.0
    );
    for (at, row) in rows.iter().enumerate() {
        let top = at as f64 * line + 2.0;
        let long = row.count as f64 / most * width;
        let name: String = row.name.chars().take(40).collect();
        _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{left:.0}\" y=\"{:.0}\" width=\"{long:.1}\" height=\"{:.0}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
            left - 6.0,
            top + line - 5.0,
            escape(name),
            top + 2.0,
            line - 4.0,
            left + long + 6.0,
            top + line - 5.0,
            units::count(row.count),
        );
    }
    svg + "</svg>\n"
}

fn fields(found: &Found) -> String {
    let mut html = String::from(
        "<h2>Fields</h2>\n<table><tr><th>name</th><th>samples</th><th>bytes on average</th>\
         <th>types</th></tr>\n",
    );
    for field in &found.summary.fields {
        let types = ranked(&field.types);
        let types: Vec<String> = types
            .iter()
            .map(|(kind, n)| format!("{} {}", escape(kind), units::count(*n)))
            .collect();
        _ = writeln!(
            html,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            escape(&field.name),
            units::count(field.present),
            units::bytes(field.bytes.mean().unwrap_or_default().round() as u64),
            types.join("<br>"),
        );
    }
    html + "</table>\n"
}

/// Classes, images and arrays of a field.
fn details(found: &Found, field: &FieldSummary) -> String {
    let name = escape(&field.name);
    let mut html = String::new();
    if let Some(rows) = found.classes(field) {
        _ = writeln!(
            html,
            "<h2>Classes of {name}</h2>\n<p>{}</p>",
            units::count(rows.len() as u64)
        );
        html += &list(&rows);
    } else if let Some((numbers, mean)) = field.numbers.and_then(|n| Some((n, n.mean()?))) {
        let (min, mean, max) = (numbers.min, rounded(mean), numbers.max);
        _ = writeln!(html, "<h2>Numbers of {name}</h2>\n<p>min {min}, mean {mean}, max {max}</p>");
    }
    if let Some(images) = &field.images {
        _ = writeln!(html, "<h2>Images of {name}</h2>");
        for (what, numbers) in [("width", &images.width), ("height", &images.height)] {
            _ = writeln!(html, "<h3>{what}</h3>");
            html += &histogram(numbers, |number| number.to_string());
        }
    }
    if let Some(arrays) = &field.arrays {
        _ = writeln!(html, "<h2>Arrays of {name}</h2>");
        let shapes = ranked(&arrays.shapes);
        let rows = shapes.iter().map(|(axes, n)| Row { name: shape(axes), count: *n });
        html += &list(&rows.collect::<Vec<_>>());
    }
    html
}

fn list(rows: &[Row]) -> String {
    let shown = &rows[..rows.len().min(ROWS)];
    let mut html = plot(shown);
    if shown.len() < rows.len() {
        _ = writeln!(html, "<p>and {} more</p>", units::count((rows.len() - shown.len()) as u64));
    }
    html
}

fn grid(samples: &[Sample]) -> String {
    if samples.is_empty() {
        return String::new();
    }
    let mut html = String::from("<h2>Samples</h2>\n<div class=\"grid\">\n");
    for sample in samples {
        html += "<figure>";
        if let Some((media, bytes)) = &sample.image {
            _ = write!(html, "<img alt=\"\" src=\"data:{media};base64,");
            STANDARD.encode_string(bytes, &mut html);
            html += "\">";
        }
        _ = write!(html, "<figcaption><b>{}</b>", escape(&sample.key));
        for (name, value) in &sample.values {
            _ = write!(html, "<br>{}: {}", escape(name), escape(value));
        }
        html += "</figcaption></figure>\n";
    }
    html + "</div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_data_becomes_markup() {
        let sample = Sample {
            key: "<script>\"'&\u{0}".to_owned(),
            image: None,
            values: vec![("</b>".to_owned(), "<img>".to_owned())],
        };
        let html = grid(&[sample]);
        assert!(html.contains("&lt;script&gt;&quot;&#39;&amp;\\u{0}"), "{html}");
        assert!(html.contains("&lt;/b&gt;: &lt;img&gt;"), "{html}");
    }
}
