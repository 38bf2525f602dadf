//! The samples of a page: pictures with their masks and boxes, sound, texts, conversations, arrays, and short values.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::draw;
use super::escape::{breakable, escape};
use super::{StatReport, plot};
use crate::error::Result;
use crate::format::msgpack::Value;
use crate::format::msgpack::numpy::{Special, recognise};
use crate::format::{jsonl, picture, sound};
use crate::reader::Reader;
use crate::stat::LABEL;
use crate::stat::splits::EXAMPLES;
use crate::text::units;

/// Samples at the top of the page; the others can be unfolded.
const FIRST: usize = 24;
/// Bytes that all samples may take on one page.
const MAX_PAGE: usize = 2 << 20;
/// Sound of more bytes has no player.
const MAX_SOUND: usize = 256 << 10;
/// Characters of a value next to an image, and of a text.
const MAX_VALUE: usize = 48;
const MAX_TEXT: usize = 280;
/// Characters of a key.
const MAX_KEY: usize = 1000;
/// Turns of a conversation.
const MAX_TURNS: usize = 6;
/// Boxes of an image.
const MAX_BOXES: usize = 100;
/// Images of fewer pixels a side are magnified without blur.
const SMALL: usize = 64;

/// Samples that are shown, in groups.
#[derive(Default)]
pub(super) struct Shelf {
    /// Figures, as HTML.
    figures: Vec<String>,
    has_pictures: bool,
    has_texts: bool,
    bytes: usize,
    left_out: usize,
}

impl Shelf {
    /// This many samples: some of each class, the most frequent and the rarest of many; or evenly spread over the
    /// dataset where there are no classes.
    pub(super) fn pick(reader: &dyn Reader, count: usize, found: &StatReport) -> Result<Shelf> {
        let mut shelf = Shelf::default();
        for (title, index) in chosen(reader, count, found) {
            shelf.add(reader, index, found.labels.as_deref(), &title)?;
        }
        Ok(shelf)
    }

    /// Adds the figure of a sample, with what comes before its key; unless the page is full.
    pub(super) fn add(
        &mut self,
        reader: &dyn Reader,
        index: usize,
        labels: Option<&[String]>,
        more: &str,
    ) -> Result<()> {
        if self.is_full() {
            self.left_out += 1;
            return Ok(());
        }
        let room = MAX_PAGE - self.bytes;
        let figure = figure(&reader.key(index)?, &reader.get(index)?, labels, room, more);
        self.has_pictures |= figure.has_picture;
        self.has_texts |= figure.has_text;
        self.bytes += figure.html.len();
        self.figures.push(figure.html);
        Ok(())
    }

    /// Whether further samples are counted and not shown.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MAX_PAGE
    }

    pub(super) fn is_empty(&self) -> bool {
        self.figures.is_empty()
    }

    pub(super) fn html(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let class = match (self.has_pictures, self.has_texts) {
            (true, false) => "grid",
            (true, true) => "grid both",
            (false, _) => "grid text",
        };
        let mut html = String::from("<section id=\"samples\">\n<h2>Samples</h2>\n");
        let (first, others) = self.figures.split_at(self.figures.len().min(FIRST));
        _ = writeln!(html, "<div class=\"{class}\">\n{}</div>", first.concat());
        if !others.is_empty() {
            let more = units::counted(others.len() as u64, "more sample");
            let others = others.concat();
            _ = writeln!(
                html,
                "<details><summary>{more}</summary>\n<div class=\"{class}\">\n{others}</div></details>"
            );
        }
        if self.left_out > 0 {
            let many = units::counted(self.left_out as u64, "sample");
            _ = writeln!(html, "<p>{many} left out, so that the page does not get too large</p>");
        }
        html + "</section>\n"
    }
}

/// The samples that are shown, each with the title of its class.
fn chosen(reader: &dyn Reader, count: usize, found: &StatReport) -> Vec<(String, usize)> {
    let examples = &found.summary.examples;
    let field = found.summary.field(&examples.field);
    let Some(field) = field.filter(|field| field.has_classes() || field.name == LABEL) else {
        return spread(reader.len(), count);
    };
    let mut classes = field.classes.common(usize::MAX);
    classes.retain(|(class, _)| examples.of(class).next().is_some());
    let count = count.min(reader.len());
    if classes.is_empty() || count == 0 {
        return spread(reader.len(), count);
    }
    if classes.len() > count {
        // The largest, and the rarest.
        let rarest = classes.split_off(classes.len() - count / 2);
        classes.truncate(count - count / 2);
        classes.extend(rarest);
    }
    let each = (count / classes.len()).clamp(1, EXAMPLES);
    // As many of each class as there is room for at the top, class by class; the others below, in turn.
    let top = (FIRST / classes.len()).max(1);
    let mut chosen = Vec::new();
    for (place, (class, samples)) in classes.into_iter().enumerate() {
        let name = breakable(&found.name(field, class));
        let title = format!("<p class=\"class\">{name} <i>{}</i></p>", units::count(samples));
        let mut indices: Vec<usize> = examples.of(class).take(each).collect();
        indices.sort_unstable();
        for (turn, index) in indices.into_iter().enumerate() {
            chosen.push((turn.max(top - 1), place, title.clone(), index));
        }
    }
    chosen.sort_by_key(|(turn, place, _, _)| (*turn, *place));
    chosen.into_iter().map(|(_, _, title, index)| (title, index)).collect()
}

/// This many samples, evenly spread over the dataset.
fn spread(len: usize, count: usize) -> Vec<(String, usize)> {
    let count = count.min(len);
    let at = |at: usize| (at as u128 * len as u128 / count as u128) as usize;
    (0..count).map(|nth| (String::new(), at(nth))).collect()
}

struct Figure {
    html: String,
    has_picture: bool,
    /// Something that needs room: a text, a conversation, an array.
    has_text: bool,
}

/// A sample.
fn figure(key: &str, value: &Value, labels: Option<&[String]>, room: usize, more: &str) -> Figure {
    let key = &shortened(key, MAX_KEY);
    let mut html = format!("<figure data-key=\"{}\">", escape(key));
    let fields = value.as_map().map(Vec::as_slice).unwrap_or_default();
    let fields: Vec<(&str, &Value)> =
        fields.iter().filter_map(|(name, value)| Some((name.as_str()?, value))).collect();
    let image = fields.iter().find_map(|(name, value)| match value {
        Value::Binary(bytes) => Some((*name, picture::size(bytes)?, bytes)),
        _ => None,
    });
    let mut drawn: Vec<&str> = vec!["key"];
    let mut notes = Vec::new();
    if let Some((name, size, bytes)) = image {
        if let Some((media, small)) =
            draw::picture(bytes).filter(|(_, small)| small.len() < room * 3 / 4)
        {
            let over = Over::of(&fields, name, size);
            html += &over.html(media, &small, size);
            drawn.push(name);
            drawn.extend(over.fields);
            notes.extend(over.note);
        }
    }
    let has_picture = drawn.len() > 1;
    html += more;
    _ = write!(html, "<figcaption><b>{}</b>", breakable(key));
    let mut long = String::new();
    let mut left_out = 0;
    for (name, value) in fields.iter().filter(|(name, _)| !drawn.contains(name)) {
        let room = room.saturating_sub(html.len() + long.len());
        if room == 0 {
            left_out += 1;
            continue;
        }
        match block(value, room) {
            Some(block) => _ = write!(long, "<p><i>{}</i></p>{block}", escape(name)),
            None => _ = write!(html, "<br><i>{}</i> {}", escape(name), short(name, value, labels)),
        }
    }
    for note in notes {
        _ = write!(html, "<br><i>{note}</i>");
    }
    if left_out > 0 {
        let many = units::counted(left_out, "more field");
        _ = write!(html, "<br><i>{many}</i>");
    }
    html += "</figcaption>";
    let has_text = !long.is_empty();
    Figure { html: html + &long + "</figure>\n", has_picture, has_text }
}

/// A value in a few words.
fn short(name: &str, value: &Value, labels: Option<&[String]>) -> String {
    if let Some(number) = value.as_i64().filter(|_| name == LABEL) {
        return escape(super::label(number.into(), labels));
    }
    if let Some(text) = value.as_str() {
        return escape(shortened(text, MAX_VALUE));
    }
    let mut text = Vec::new();
    jsonl::write_short(value, MAX_VALUE, &mut text);
    escape(String::from_utf8_lossy(&text))
}

/// A value that takes more than a few words: a text, a conversation, sound, an array, another image.
fn block(value: &Value, room: usize) -> Option<String> {
    let data =
        |media: &str, bytes: &[u8]| format!("data:{media};base64,{}", STANDARD.encode(bytes));
    match value {
        Value::String(text) => {
            let text = text.as_str().filter(|text| text.chars().count() > MAX_VALUE)?;
            Some(format!("<p>{}</p>", escape(shortened(text, MAX_TEXT))))
        }
        Value::Array(turns) => conversation(turns),
        Value::Binary(bytes) if picture::format(bytes).is_some() => {
            let (media, small) =
                draw::picture(bytes).filter(|(_, small)| small.len() < room * 3 / 4)?;
            Some(format!("<img alt=\"\" src=\"{}\">", data(media, &small)))
        }
        Value::Binary(bytes) => {
            let sound = sound::sound(bytes)?;
            let media = match sound.format {
                "wav" => "audio/wav",
                "flac" => "audio/flac",
                "mp3" => "audio/mpeg",
                _ => "audio/ogg",
            };
            let length =
                sound.seconds.map(|seconds| format!(", {seconds:.2} s")).unwrap_or_default();
            let rate = sound.rate.map(|rate| format!(", {rate} Hz")).unwrap_or_default();
            let mut html = format!("<p>{}{length}{rate}</p>", sound.format);
            if bytes.len() <= MAX_SOUND.min(room * 3 / 4) {
                _ = write!(html, "<audio controls src=\"{}\"></audio>", data(media, bytes));
            }
            Some(html)
        }
        Value::Map(_) => {
            let Some(Special::Array(array)) = recognise(value) else { return None };
            let about = format!("<p>{} {}</p>", escape(array.dtype()), super::shape(array.shape()));
            if let Some(numbers) = draw::points(&array).filter(|numbers| numbers.len() > 8) {
                return Some(about + &plot::line(&numbers));
            }
            let png = draw::heat_map(&array).filter(|png| png.len() < room * 3 / 4)?;
            Some(format!(
                "{about}<img alt=\"\" class=\"array\" src=\"{}\">",
                data("image/png", &png)
            ))
        }
        _ => None,
    }
}

/// A text, cut with its length.
fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    match count <= most {
        true => text.to_owned(),
        false => {
            let short: String = text.chars().take(most).collect();
            format!("{short}… ({} characters)", units::count(count as u64))
        }
    }
}

/// A list of turns that have a speaker and a text.
fn conversation(turns: &[Value]) -> Option<String> {
    let text = |turn: &Value, names: [&str; 3]| {
        let fields = turn.as_map()?;
        let found = fields
            .iter()
            .find(|(name, _)| name.as_str().is_some_and(|name| names.contains(&name)))?;
        Some(found.1.as_str()?.to_owned())
    };
    let mut html = String::new();
    for turn in turns.iter().take(MAX_TURNS) {
        let speaker = text(turn, ["role", "from", "speaker"])?;
        let said = text(turn, ["content", "value", "text"])?;
        _ = write!(
            html,
            "<p><b>{}</b> {}</p>",
            escape(speaker),
            escape(shortened(&said, MAX_TEXT))
        );
    }
    if turns.len() > MAX_TURNS {
        let more = units::counted((turns.len() - MAX_TURNS) as u64, "more turn");
        _ = write!(html, "<p>{more}</p>");
    }
    (!html.is_empty()).then_some(html)
}

/// What lies over an image: a mask and boxes.
#[derive(Default)]
struct Over<'a> {
    fields: Vec<&'a str>,
    mask: Option<Vec<u8>>,
    /// Left, top, right, bottom.
    boxes: Vec<[f64; 4]>,
    note: Option<&'static str>,
}

impl<'a> Over<'a> {
    fn of(fields: &[(&'a str, &Value)], image: &str, (width, height): (usize, usize)) -> Over<'a> {
        let mut over = Over::default();
        for (name, value) in fields.iter().filter(|(name, _)| *name != image) {
            let low = name.to_lowercase();
            if let Value::Map(_) = value {
                if let Some(Special::Array(array)) = recognise(value) {
                    let is_mask = array.shape() == [height, width] && over.mask.is_none();
                    if let Some(mask) = draw::mask(&array).filter(|_| is_mask) {
                        over.mask = Some(mask);
                        over.fields.push(name);
                    }
                }
            }
            if let Value::Binary(bytes) = value {
                let is_mask =
                    ["mask", "seg", "annotation", "label"].iter().any(|of| low.contains(of));
                let fits = picture::size(bytes) == Some((width, height));
                if is_mask && fits && over.mask.is_none() {
                    over.mask = draw::picture(bytes).map(|(_, small)| small);
                    over.fields.push(name);
                }
            }
            if ["boxes", "bboxes", "bbox", "box", "objects"].contains(&&low[..])
                && over.boxes.is_empty()
            {
                if let Some(boxes) = boxes(value) {
                    let is_lengths = is_width_and_height(&low, &boxes, width, height);
                    let corners = |[a, b, c, d]: [f64; 4]| match is_lengths {
                        true => [a, b, a + c, b + d],
                        false => [a, b, c, d],
                    };
                    over.boxes = boxes.into_iter().map(corners).collect();
                    over.note = Some(match is_lengths {
                        true => "boxes read as left, top, width, height",
                        false => "boxes read as left, top, right, bottom",
                    });
                    // Their numbers are still listed.
                }
            }
        }
        over
    }

    fn html(&self, media: &str, image: &[u8], (width, height): (usize, usize)) -> String {
        if self.mask.is_none() && self.boxes.is_empty() {
            let class = if width.max(height) < SMALL { " class=\"small\"" } else { "" };
            let data = STANDARD.encode(image);
            return format!("<img alt=\"\"{class} src=\"data:{media};base64,{data}\">");
        }
        let mut svg = format!("<svg class=\"over\" viewBox=\"0 0 {width} {height}\">");
        let masks = self.mask.iter().map(|png| ("image/png", &png[..]));
        for (media, bytes) in [(media, image)].into_iter().chain(masks) {
            let data = STANDARD.encode(bytes);
            _ = write!(
                svg,
                "<image width=\"{width}\" height=\"{height}\" preserveAspectRatio=\"none\" href=\"data:{media};base64,{data}\"/>"
            );
        }
        for [left, top, right, bottom] in &self.boxes {
            let (wide, high) = ((right - left).max(0.0), (bottom - top).max(0.0));
            _ = write!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\"/>"
            );
        }
        svg + "</svg>"
    }
}

/// Boxes of four numbers each: a list of lists, of maps with a "bbox", one list, or an array.
fn boxes(value: &Value) -> Option<Vec<[f64; 4]>> {
    if let Some(Special::Array(array)) = recognise(value) {
        return draw::fours(&array, MAX_BOXES)
            .filter(|boxes| boxes.iter().flatten().all(|n| n.is_finite()));
    }
    let number = |value: &Value| value.as_f64().or_else(|| value.as_i64().map(|n| n as f64));
    let four = |value: &Value| {
        let numbers: Vec<f64> = value.as_array()?.iter().map(number).collect::<Option<_>>()?;
        <[f64; 4]>::try_from(numbers).ok().filter(|four| four.iter().all(|n| n.is_finite()))
    };
    let member = |value: &Value| {
        let fields = value.as_map()?;
        four(&fields.iter().find(|(name, _)| name.as_str() == Some("bbox"))?.1)
    };
    if let Some(one) = four(value) {
        return Some(vec![one]);
    }
    if let Some(fields) = value.as_map() {
        // Columns, as Hugging Face datasets have them.
        return boxes(&fields.iter().find(|(name, _)| name.as_str() == Some("bbox"))?.1);
    }
    let items = value.as_array()?.iter().take(MAX_BOXES);
    let boxes: Vec<[f64; 4]> =
        items.map(|item| four(item).or_else(|| member(item))).collect::<Option<_>>()?;
    (!boxes.is_empty()).then_some(boxes)
}

/// Whether the last two numbers are a width and a height: as COCO has them in a field "bbox", unless they do not fit in
/// the image so; or where they would be no corner.
fn is_width_and_height(name: &str, boxes: &[[f64; 4]], width: usize, height: usize) -> bool {
    let (width, height) = (width as f64 + 1.0, height as f64 + 1.0);
    let fits = boxes.iter().all(|[left, top, w, h]| left + w <= width && top + h <= height);
    let is_corner = boxes.iter().all(|[left, top, right, bottom]| left <= right && top <= bottom);
    match name {
        "boxes" | "bboxes" => !is_corner,
        _ => fits || !is_corner,
    }
}
