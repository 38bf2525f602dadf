//! Samples on standard output: shortened for people, as JSON lines, or as they are.

use std::io::Write;

use kiste::convert::{LineForm, SampleLines};
use kiste::reader::Reader;
use kiste::text::units;

use crate::exit::{Failure, Outcome};
use crate::output::{Output, Stdout};

/// How to print samples.
#[derive(Debug, clap::Args)]
pub(crate) struct Form {
    /// Print one JSON object per line with nothing left out: "convert --from jsonl" reads it back
    #[arg(long, alias = "json", conflicts_with = "raw")]
    pub(crate) jsonl: bool,
    /// Print the packed samples as they are, one after another: a data file without side files
    #[arg(long)]
    pub(crate) raw: bool,
    /// Only these fields, and the key
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',', conflicts_with = "raw")]
    fields: Vec<String>,
    /// Shorten strings, bytes and lists for the eye to about this length
    #[arg(long, value_name = "N", default_value_t = 64, conflicts_with_all = ["jsonl", "raw"])]
    max: usize,
}

/// Prints samples of any number of datasets.
pub(crate) struct Printer<'a> {
    lines: SampleLines,
    output: &'a Output,
    out: Stdout,
}

impl<'a> Printer<'a> {
    pub(crate) fn new(form: &Form, output: &'a Output) -> Outcome<Printer<'a>> {
        if form.raw && output.is_terminal() {
            let failure = Failure::trouble("packed samples are not for a terminal");
            return Err(failure.hint("redirect them: kiste cat --raw FILE > OUT"));
        }
        let how = match (form.jsonl, form.raw) {
            (true, _) => LineForm::Json,
            (_, true) => LineForm::Raw,
            _ => LineForm::Short(form.max),
        };
        let lines = SampleLines::new(how).fields(&form.fields).printable(output.is_terminal());
        Ok(Printer { lines, output, out: output.stdout() })
    }

    /// Prints the samples of these indices, in this order.
    pub(crate) fn print(
        &mut self,
        reader: &dyn Reader,
        indices: impl IntoIterator<Item = usize>,
    ) -> Outcome<()> {
        self.lines.write(reader, indices, &mut self.out)
    }

    /// Says what was lost, if anything.
    pub(crate) fn finish(mut self) -> Outcome<()> {
        self.out.flush()?;
        for name in self.lines.unseen() {
            self.output.warn(format_args!("no sample that was printed has a field {name:?}"));
        }
        if self.lines.inexact() > 0 {
            let samples = units::counted(self.lines.inexact(), "sample");
            self.output.note(format_args!(
                "note: {samples} with 32-bit floats or other than the shortest encodings: read \
                 back, the values are the same but not the bytes"
            ));
        }
        Ok(())
    }
}
