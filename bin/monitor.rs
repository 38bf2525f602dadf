//! Conversions as the terminal shows them: a progress bar, notes and warnings.

use kiste::convert::{self, LeftOut, Notice, Phase, Total};

use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;

/// Draws what a conversion reports.
pub(crate) struct Monitor<'a> {
    output: &'a Output,
    doing: String,
    bar: Option<Progress>,
}

impl<'a> Monitor<'a> {
    /// Draws a bar, or prints lines of JSON for programs.
    pub(crate) fn new(output: &'a Output) -> Monitor<'a> {
        interrupt::watch();
        Monitor { output, doing: "converting".to_owned(), bar: None }
    }

    /// Takes the bar away, before something is printed in its place.
    pub(crate) fn clear(&mut self) {
        self.bar = None;
    }

    /// Shows this instead of "converting".
    pub(crate) fn doing(mut self, doing: String) -> Self {
        self.doing = doing;
        self
    }
}

impl convert::Monitor for Monitor<'_> {
    fn begin(&mut self, phase: Phase, total: Total) {
        let doing = match phase {
            Phase::Finishing => {
                if let Some(bar) = &self.bar {
                    bar.say("finishing");
                }
                return;
            }
            Phase::Part(part) => format!("part {part}"),
            Phase::Joining => "joining".to_owned(),
            Phase::Scattering(part) => format!("part {part}, first pass"),
            _ => self.doing.clone(),
        };
        // The old bar goes before the new one comes.
        self.bar = None;
        let bar = self.output.progress_rates(doing, total.samples, total.input_bytes);
        self.bar = Some(bar);
    }

    fn progress(&mut self, progress: convert::Progress) {
        if let Some(bar) = &self.bar {
            bar.far(progress.samples, progress.bytes, progress.input_bytes);
        }
    }

    fn is_cancelled(&self) -> bool {
        interrupt::is_asked()
    }

    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::MoreFieldsChange => {
                self.output.hint("--dry-run says what happens to the other fields");
            }
            Notice::KeyBecomesField(_) => {
                self.output.note(format_args!("{notice}: --key-field key makes it the key again"));
            }
            Notice::KeysEscaped(_) => {
                self.output.note(format_args!(
                    "{notice}: --key '{{key.stem}}' leaves out endings, if keys stay distinct"
                ));
            }
            Notice::LabelsLost => {
                self.output.warn(&notice);
                // The catalogue has no such option.
                if !self.doing.starts_with("writing") {
                    self.output.hint("--text-labels stores them in place of the numbers");
                }
            }
            Notice::KeysReplaced => {
                self.output
                    .note(format_args!("{notice}: {{key}} in --key has them in the new ones"));
            }
            Notice::Remarked(ref remark) => {
                self.output.warn(&notice);
                if let Some(hint) = hint_for(remark.kind) {
                    self.output.hint(hint);
                }
            }
            Notice::UnusedListKeys { .. } => {
                self.output.warn(format_args!("--split-list: {notice}"));
            }
            Notice::OneColumn { delimiter, .. } => {
                self.output.warn(&notice);
                let shell =
                    if delimiter == '\t' { "tab".to_owned() } else { format!("'{delimiter}'") };
                self.output.hint(format_args!("--delimiter {shell} separates them"));
            }
            notice if notice.is_warning() => self.output.warn(notice),
            notice => self.output.note(notice),
        }
    }
}

/// The hint for something that was left out, or read differently than intended.
fn hint_for(kind: LeftOut) -> Option<&'static str> {
    Some(match kind {
        LeftOut::MixedSplits => "the files of each split can be converted alone",
        LeftOut::NumberLabel => "in a list, --guess-types keeps labels that are numbers",
        LeftOut::TextAfterQuote | LeftOut::LinesInQuotes => {
            "--quote none reads quotes as ordinary characters"
        }
        LeftOut::NoImage | LeftOut::CutImage => {
            "--verify-images decodes all images, and --bad skip leaves out the damaged ones"
        }
        _ => return None,
    })
}
