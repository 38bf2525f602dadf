use kiste::rearrange::{Expression, Mismatch, ScalarKind};
use kiste::storage::Shown;

use crate::exit::{Exit, Failure, Outcome};
use crate::file::{self, Input};
use crate::output::Output;
use crate::rearrange::{Chosen, InOut, MadeOf};

/// Write the samples for which a condition is true
///
/// A condition compares fields with values:
///
///   label == 3, label != 3           equal or not; 3 and 3.0 are equal, '3' is text
///   width < 100, <=, >, >=           numbers, times, or text by code points
///   label in (1, 2), label not in 4  any of these, none of these
///   key ~ 'cat/*.png', key !~ '*_x'  text of a pattern: * any text, ? a character, [a-z] a set
///   key like 'cat/%', key not like   the same with % and _
///   has caption, caption is null     whether there is such a field; whether it is null
///
/// With ~*, !~* and ilike capital and small letters are alike. Conditions are put together with
/// "not", "and", "or" and parentheses; "and" binds closer than "or". Values are numbers, true,
/// false, null and text, which needs quotes only where it has spaces or signs in it or looks like a
/// number. A field that is not there is null. NumPy scalars are numbers. Only the fields that are
/// named are decoded.
///
/// meta.author and boxes[-1].x are values in a field, and 'meta.author' is a field of this name.
/// len(caption) is the number of characters, bytes, items or entries; width(image) and
/// height(image) are the stored size of an image or an array.
///
/// Dates and times such as 2024-05-01 or 2024-05-01T12:00:00+02:00 are compared with timestamps,
/// datetime64 and such text; without a zone they are in UTC.
///
/// The field label may be compared with names of labels, if .labels has them. Values of different
/// types are never equal and in no order; a warning says where that was tried.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub(crate) struct Args {
    /// Condition
    #[arg(value_name = "EXPR", index = 3, value_parser = Expression::parse)]
    condition: Expression,
    #[command(flatten)]
    files: InOut,
}

const EXAMPLES: &str = "\
Examples:
  kiste filter train.msgpack threes.msgpack 'label == 3'
  kiste filter train.msgpack cats.msgpack 'label == cat'
  kiste filter train.msgpack large.msgpack 'width(image) > 100 and height(image) > 100'
  kiste filter train.msgpack new.msgpack 'taken >= 2024-05-01 and meta.author is not null'
  kiste filter train.msgpack pets.msgpack \"key ~ 'cat/*' or key ~ 'dog/*'\"
  kiste filter train.msgpack good.msgpack 'not (label in 7,8 or has broken)'";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = self.files.open(output)?;
        let of = reader.len() as u64;
        let condition = self.condition(&reader)?;
        let progress = output.progress("filtering", Some(of));
        let chosen = condition.choose(&*reader, |seen| progress.reaches(seen))?;
        drop(progress);
        let path = file::shown(&self.files.input);
        for mismatch in &chosen.mismatches {
            output.warn(format_args!("{path}: {mismatch}"));
            hint(mismatch, output);
        }
        if chosen.indices.is_empty() && of > 0 {
            output.warn(format_args!("{path}: the condition is true of no sample"));
        }
        let condition = self.condition.to_string();
        let made = self.files.write(&reader, Chosen::Met { condition, chosen }, output)?;
        self.files.making.print(&MadeOf { made, of, seed: None }, output)
    }

    /// The condition, in which names of labels mean numbers.
    fn condition(&self, reader: &Input) -> Outcome<Expression> {
        let Some(names) = reader.labels()? else { return Ok(self.condition.clone()) };
        self.condition.clone().with_labels(&names).map_err(|error| {
            let path = reader.labels_place();
            let first: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
            let more = if names.len() > NAMED { " and others" } else { "" };
            let known = format!("there are {}{more}", first.join(", "));
            Failure::trouble(format_args!("{}: {error}", Shown::of(&path))).hint(known)
        })
    }
}

/// Names of labels that a hint lists.
const NAMED: usize = 10;

/// How to compare values of one type.
fn hint(mismatch: &Mismatch, output: &Output) {
    let field = &mismatch.field;
    match (mismatch.found, mismatch.expected) {
        (ScalarKind::Text, ScalarKind::Number) => output.hint(format_args!(
            "quotes make a number text, which is compared by code points: '{}'",
            mismatch.other
        )),
        (ScalarKind::Number, ScalarKind::Text) if field == "label" => {
            output.hint("names of labels are known where there is a file .labels");
        }
        _ => {}
    }
}
