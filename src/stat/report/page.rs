//! The summary as one page that needs nothing else: no other files, and no script but the few lines that find a key.
//!
//! Everything that comes from a dataset passes through [`escape`], and the page tells the browser to
//! run no other script and to load nothing.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::cards::{self, Card};
use super::escape::{breakable, escape};
use super::samples::Shelf;
use super::{StatReport, ranked, share};
use crate::stat::{Splits, StatComparison};
use crate::text::units;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Fields that the navigation names.
const NAMED: usize = 16;
/// Labels in the table of splits.
const LABELS: usize = 100;
/// Splits in it.
const SPLITS: usize = 12;
/// Bytes of plots and lists, and of the rows of the table of fields.
const MAX_CARDS: usize = 600 << 10;
const MAX_FIELDS: usize = 200 << 10;
/// Differences on a page that compares.
const DIFFERENCES: usize = 200;
/// Fields whose plots a page that compares shows side by side.
const SIDE_BY_SIDE: usize = 30;

/// The whole page.
pub(super) fn page(found: &StatReport, shelf: &Shelf) -> String {
    let summary = &found.summary;
    let mut cards = match summary.samples {
        0 => Vec::new(),
        _ => cards::all(found),
    };
    let all = cards.len();
    let mut bytes = 0;
    cards.retain(|card| {
        bytes += card.len();
        bytes <= MAX_CARDS
    });
    let left_out = all - cards.len();
    let mut body = String::new();
    if summary.samples > 0 {
        body += &shelf.html();
        body += &fields(found, &cards);
        if let Some(splits) = &summary.splits {
            body += &self::splits(found, splits);
        }
        body += "<div class=\"cards\">\n";
        for (at, card) in cards.iter().enumerate() {
            body += &card.html(&format!("c{at}"));
        }
        body += "</div>\n";
        if left_out > 0 {
            let many = units::counted(left_out as u64, "plot");
            _ = writeln!(body, "<p>{many} left out, so that the page does not get too large</p>");
        }
    }
    let mut links = Vec::new();
    if !shelf.is_empty() {
        links.push(("samples".to_owned(), "Samples".to_owned()));
    }
    if summary.samples > 0 {
        links.push(("fields".to_owned(), "Fields".to_owned()));
    }
    if summary.splits.is_some() {
        links.push(("splits".to_owned(), "Splits".to_owned()));
    }
    for (at, card) in cards.iter().enumerate().filter(|(_, card)| card.is_first).take(NAMED) {
        links.push((format!("c{at}"), escape(&card.field)));
    }
    document(&name_of(found), &links, shelf.is_empty(), &heading(found), &body)
}

/// A page of some samples alone.
pub(super) fn samples_page(title: &str, note: &str, shelf: &Shelf) -> String {
    let head = format!("<h1>{}</h1>\n<p>{}</p>\n", breakable(title), escape(note));
    document(&escape(title), &[], shelf.is_empty(), &head, &shelf.html())
}

/// A page of what differs between two datasets.
pub(in crate::stat) fn comparison_page(
    compared: &StatComparison,
    left: &StatReport,
    right: &StatReport,
) -> String {
    let mut head = heading(left) + &heading(right);
    if compared.differences.is_empty() {
        head += "<p>Nothing differs by more than chance.</p>\n";
    }
    let mut body = String::from(
        "<section id=\"differences\">\n<h2>Differences</h2>\n<p>The share of samples that would have to change, where \
         that is more than chance would make of two draws from one source.</p>\n<div class=\"wide\"><table>\n\
         <tr><th>field</th><th>what</th><th class=\"n\">share</th><th>first</th><th>second</th></tr>\n",
    );
    for one in compared.differences.iter().take(DIFFERENCES) {
        _ = writeln!(
            body,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{:.1} %</td><td>{}</td><td>{}</td></tr>",
            if one.field.is_empty() { "a sample".to_owned() } else { breakable(&one.field) },
            escape(one.what),
            one.distance * 100.0,
            escape(&one.left),
            escape(&one.right),
        );
    }
    body += "</table></div>\n</section>\n";
    let mut names: Vec<&str> = Vec::new();
    for one in &compared.differences {
        if !one.field.is_empty() && !names.contains(&&one.field[..]) {
            names.push(&one.field);
        }
    }
    for name in names.iter().take(SIDE_BY_SIDE) {
        let of = |report: &StatReport| {
            report.summary.field(name).map(|field| cards::of(report, field)).unwrap_or_default()
        };
        let (mine, theirs) = (of(left), of(right));
        if mine.is_empty() && theirs.is_empty() {
            continue;
        }
        _ = writeln!(body, "<h2>{}</h2>\n<div class=\"pair\">", breakable(name));
        for (report, cards) in [(left, mine), (right, theirs)] {
            _ = writeln!(body, "<div><p>{}</p>", name_of(report));
            cards.iter().for_each(|card| body += &card.html(""));
            body += "</div>\n";
        }
        body += "</div>\n";
    }
    if !compared.alike.is_empty() {
        let names: Vec<String> = compared.alike.iter().take(DIFFERENCES).map(escape).collect();
        _ = writeln!(body, "<p>alike: {}</p>", names.join(", "));
    }
    let title = format!("{} and {}", name_of(left), name_of(right));
    document(&title, &[], true, &head, &body)
}

/// The name of the file alone.
fn name_of(found: &StatReport) -> String {
    let name = found.file.file_name().unwrap_or(found.file.as_os_str());
    escape(name.to_string_lossy())
}

fn heading(found: &StatReport) -> String {
    let name = found.file.file_name().unwrap_or(found.file.as_os_str());
    format!("<h1>{}</h1>\n<p>{}</p>\n", breakable(&name.to_string_lossy()), found.heading())
}

/// A page of this title and these links; both are HTML.
fn document(
    title: &str,
    links: &[(String, String)],
    is_still: bool,
    head: &str,
    body: &str,
) -> String {
    let digest = STANDARD.encode(Sha256::digest(SCRIPT));
    // Only this script, and no file but those that lie in the page.
    let policy = format!(
        "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    );
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<nav>"
    );
    for (id, text) in links {
        _ = write!(page, "<a href=\"#{id}\">{text}</a> ");
    }
    if !is_still {
        page += "<input id=\"find\" type=\"search\" placeholder=\"Find a key\" hidden>";
    }
    page += "</nav>\n<main>\n";
    page += head;
    page += body;
    page += "</main>\n";
    if !is_still {
        _ = writeln!(page, "<script>{SCRIPT}</script>");
    }
    page + "</body>\n</html>\n"
}

/// A table of the fields: what is present, what is missing, and what takes the bytes.
fn fields(found: &StatReport, cards: &[Card]) -> String {
    let summary = &found.summary;
    let mut html = String::from(
        "<section id=\"fields\">\n<h2>Fields</h2>\n<div class=\"wide\"><table>\n<tr><th>name</th>\
         <th>there</th><th>bytes</th><th class=\"n\">mean size</th><th>types</th><th>values</th></tr>\n",
    );
    let all = summary.bytes.sum().max(1) as f64;
    let mut shown = 0;
    for field in &summary.fields {
        if html.len() > MAX_FIELDS {
            break;
        }
        shown += 1;
        let types = ranked(&field.types);
        let types: Vec<String> = match &types[..] {
            [(kind, _)] => vec![escape(kind)],
            types => types
                .iter()
                .map(|(kind, n)| format!("{} {}", escape(kind), units::count(*n)))
                .collect(),
        };
        let name = breakable(&field.name);
        let name = match cards.iter().position(|card| card.field == field.name) {
            Some(at) => format!("<a href=\"#c{at}\">{name}</a>"),
            None => name,
        };
        let there = field.present as f64 / summary.samples.max(1) as f64;
        let null = field.nulls as f64 / summary.samples.max(1) as f64;
        let mut missing = share(field.present, summary.samples);
        if field.nulls > 0 {
            missing += &format!(", null in {}", share(field.nulls, field.present));
        }
        let bytes = field.bytes.sum() as f64 / all;
        _ = writeln!(
            html,
            "<tr><td>{name}</td><td>{}{missing}</td><td>{}{:.1} %</td><td class=\"n\">{}</td><td>{}</td>\
             <td>{}</td></tr>",
            meter(there - null, null),
            meter(bytes, 0.0),
            bytes * 100.0,
            units::bytes(field.bytes.mean().unwrap_or_default().round() as u64),
            types.join("<br>"),
            breakable(&found.values(field)),
        );
    }
    if shown < summary.fields.len() {
        let more = units::count((summary.fields.len() - shown) as u64);
        _ = writeln!(html, "<tr><td colspan=\"6\">and {more} more</td></tr>");
    }
    if summary.more_fields {
        html += "<tr><td colspan=\"6\">and more, which were not looked at</td></tr>\n";
    }
    html + "</table></div>\n</section>\n"
}

/// A small bar of a share, and of another one behind it.
fn meter(share: f64, other: f64) -> String {
    let [share, other] = [share, other].map(|share| (share * 60.0).clamp(0.0, 60.0));
    format!(
        "<svg class=\"meter\" viewBox=\"0 0 60 10\"><rect class=\"rest\" x=\"0\" y=\"0\" width=\"60\" height=\"10\"/>\
         <rect x=\"0\" y=\"0\" width=\"{share:.1}\" height=\"10\"/>\
         <rect class=\"null\" x=\"{share:.1}\" y=\"0\" width=\"{other:.1}\" height=\"10\"/></svg>"
    )
}

/// A table of labels and splits.
fn splits(found: &StatReport, splits: &Splits) -> String {
    let (names, rows) = splits.table();
    let field = found.summary.field(&splits.of);
    let (of, by) = (escape(&splits.of), escape(&splits.by));
    let mut html = format!(
        "<section id=\"splits\">\n<h2>{of} by {by}</h2>\n<div class=\"wide\"><table>\n<tr><th>{of}</th>"
    );
    for name in names.iter().take(SPLITS) {
        _ = write!(html, "<th class=\"n\">{}</th>", breakable(&name.to_string()));
    }
    html += "</tr>\n";
    let totals: Vec<u64> =
        (0..names.len()).map(|at| rows.iter().map(|(_, counts)| counts[at]).sum()).collect();
    for (label, counts) in rows.iter().take(LABELS) {
        let name = field.map_or_else(|| label.to_string(), |field| found.name(field, label));
        _ = write!(html, "<tr><td>{}</td>", breakable(&name));
        for (count, total) in counts.iter().zip(&totals).take(SPLITS) {
            let share = *count as f64 / (*total).max(1) as f64;
            _ = write!(
                html,
                "<td class=\"n\">{} <i>{:.1} %</i></td>",
                units::count(*count),
                share * 100.0
            );
        }
        html += "</tr>\n";
    }
    html += "</table></div>\n";
    if rows.len() > LABELS || names.len() > SPLITS {
        let labels = units::counted(rows.len() as u64, "label");
        let splits = units::counted(names.len() as u64, "value");
        _ = writeln!(html, "<p>the first of {labels} and {splits}</p>");
    }
    html + "</section>\n"
}
