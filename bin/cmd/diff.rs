use std::io::Write;
use std::path::PathBuf;

use kiste::Value;
use kiste::format::jsonl;
use kiste::rearrange::{Changed, Difference, Side, diff};
use kiste::text::units;
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::output::{Output, Stdout};

/// Compare two datasets by key: what only one has, and which fields were changed
///
/// A line begins with "-" for a sample that only LEFT has, "+" for one that only RIGHT has, and
/// "~" for one that both have with other bytes, followed by its fields that differ. The order of
/// the samples does not matter; a note says if it is not the same.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data file
    #[arg(value_name = "LEFT")]
    left: PathBuf,
    /// Data file to compare it with
    #[arg(value_name = "RIGHT")]
    right: PathBuf,
    /// Print one JSON object for each difference, with whole values
    #[arg(long, conflicts_with = "json")]
    jsonl: bool,
    /// Print one JSON object with how many differences there are
    #[arg(long)]
    json: bool,
    /// Shorten values to about this length
    #[arg(long, value_name = "N", default_value_t = 32)]
    max: usize,
}

const EXAMPLES: &str = "\
Examples:
  kiste diff old.msgpack new.msgpack
  kiste diff old.msgpack new.msgpack --jsonl | jq -r 'select(.change == \"left\").key'
  kiste diff old.msgpack new.msgpack -q --json

Exit code 1 if there is any difference.";

#[derive(Default, Serialize)]
struct Counts {
    same: u64,
    only_left: u64,
    only_right: u64,
    changed: u64,
    same_order: bool,
}

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let (left, right) = (file::open(&self.left)?, file::open(&self.right)?);
        let mut counts = Counts::default();
        let mut out = output.stdout();
        let progress = output.progress("comparing", Some((left.len() + right.len()) as u64));
        let hear = |seen| progress.set(seen);
        let found = |difference| {
            match &difference {
                Difference::Only { side: Side::Left, .. } => counts.only_left += 1,
                Difference::Only { side: Side::Right, .. } => counts.only_right += 1,
                _ => counts.changed += 1,
            }
            match (self.jsonl, self.json) {
                (true, _) => print_json(&difference, &mut out),
                (false, true) => Ok(()),
                (false, false) => self.print(&difference, output, &mut out),
            }
        };
        counts.same_order = diff(&left, &right, found, hear)?;
        out.flush()?;
        drop(progress);
        counts.same = left.len() as u64 - counts.only_left - counts.changed;
        self.tell(&counts, output);
        if self.json {
            output.json(&counts)?;
        }
        let differ = counts.only_left + counts.only_right + counts.changed > 0;
        Ok(if differ { Exit::No } else { Exit::Yes })
    }

    fn print(&self, difference: &Difference, output: &Output, out: &mut Stdout) -> Outcome<()> {
        match difference {
            Difference::Only { side: Side::Left, key, .. } => {
                writeln!(out, "{} {key}", output.red("-"))?;
            }
            Difference::Only { side: Side::Right, key, .. } => {
                writeln!(out, "{} {key}", output.green("+"))?;
            }
            Difference::Changed { key, fields, .. } => {
                let fields: Vec<String> = fields.iter().map(|field| self.field(field)).collect();
                let fields = match fields.is_empty() {
                    true => "fields in another order, or packed differently".to_string(),
                    false => fields.join(", "),
                };
                writeln!(out, "{} {key}: {fields}", output.bold("~"))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn field(&self, field: &Changed) -> String {
        let name = &field.name;
        match (&field.left, &field.right) {
            (Some(left), Some(right)) => {
                let (short, other) = (self.short(left), self.short(right));
                let packed = if left == right { ", packed differently" } else { "" };
                match short == other && packed.is_empty() {
                    // What differs was cut off.
                    true => format!("{name} {short} differs"),
                    false => format!("{name} {short} → {other}{packed}"),
                }
            }
            (Some(left), None) => format!("-{name} {}", self.short(left)),
            (None, right) => {
                format!("+{name} {}", right.as_ref().map(|v| self.short(v)).unwrap_or_default())
            }
        }
    }

    fn short(&self, value: &Value) -> String {
        let mut text = Vec::new();
        jsonl::write_short(value, self.max, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    fn tell(&self, counts: &Counts, output: &Output) {
        let (left, right) = (file::shown(&self.left), file::shown(&self.right));
        let count = |number| units::counted(number, "sample");
        let mut parts = vec![format!("{} the same", count(counts.same))];
        for (number, what) in [
            (counts.only_left, format!("only in {left}")),
            (counts.only_right, format!("only in {right}")),
            (counts.changed, "changed".to_string()),
        ] {
            if number > 0 {
                parts.push(format!("{} {what}", units::count(number)));
            }
        }
        output.note(parts.join(", "));
        if !counts.same_order {
            output.note("the samples that both have are in another order");
        }
    }
}

fn print_json(difference: &Difference, out: &mut Stdout) -> Outcome<()> {
    match difference {
        Difference::Only { side, key, index } => {
            let line = serde_json::json!({ "key": key, "change": side, "index": index });
            out.json_line(line.to_string().as_bytes())?;
        }
        Difference::Changed { key, left, right, fields } => {
            let name = serde_json::to_string(key)?;
            let mut line = Vec::new();
            write!(line, r#"{{"key":{name},"change":"fields","left":{left},"right":{right}"#)?;
            line.extend_from_slice(br#","fields":{"#);
            for (at, field) in fields.iter().enumerate() {
                let comma = if at > 0 { "," } else { "" };
                write!(line, "{comma}{}:{{", serde_json::to_string(&field.name)?)?;
                let sides = [("left", &field.left), ("right", &field.right)];
                let sides = sides.into_iter().filter_map(|(n, value)| Some((n, value.as_ref()?)));
                for (at, (side, value)) in sides.enumerate() {
                    write!(line, "{}\"{side}\":", if at > 0 { "," } else { "" })?;
                    jsonl::write(value, &mut line)
                        .map_err(|e| Failure::trouble(format_args!("key {key:?}: {e}")))?;
                }
                line.push(b'}');
            }
            line.extend_from_slice(b"}}");
            out.json_line(&line)?;
        }
        _ => {}
    }
    Ok(())
}
