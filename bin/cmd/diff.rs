use std::io::Write;
use std::path::PathBuf;

use kiste::rearrange::{DiffCounts, Difference, Side};
use kiste::text::units;

use crate::exit::{Exit, Outcome};
use crate::file;
use crate::output::{Output, Stdout};

/// Compare two datasets by key: samples that only one has, and fields that differ
///
/// A line begins with "-" for a sample that only LEFT has, "+" for one that only RIGHT has, and "~" for one
/// that both have with other bytes, followed by its fields that differ. The order of the samples does not
/// matter; a note says if it differs.
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

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let (left, right) = (file::open(&self.left, output)?, file::open(&self.right, output)?);
        let mut out = output.stdout();
        let progress = output.progress("comparing", Some((left.len() + right.len()) as u64));
        let found = |difference: Difference| match (self.jsonl, self.json) {
            (true, _) => Ok(out.json_line(&difference.to_json()?)?),
            (false, true) => Ok(()),
            (false, false) => self.print(&difference, output, &mut out),
        };
        let counts = DiffCounts::of(&*left, &*right, found, |seen| progress.set(seen))?;
        out.flush()?;
        drop(progress);
        self.tell(&counts, output);
        if self.json {
            output.json(&counts)?;
        }
        Ok(if counts.differ() { Exit::No } else { Exit::Yes })
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
                let fields: Vec<String> =
                    fields.iter().map(|field| field.shortened(self.max)).collect();
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

    fn tell(&self, counts: &DiffCounts, output: &Output) {
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
