use std::fmt::Display;
use std::path::PathBuf;

use kiste::DatasetReader;
use kiste::dataset::{labels_path, read_labels};
use kiste::rearrange::{Expression, Mismatch, Scalar, ScalarKind};
use kiste::text::units;

use crate::exit::{Exit, Failure, Outcome};
use crate::file;
use crate::output::Output;
use crate::rearrange::{MadeOf, Making};

/// Write the samples of which a condition is true
///
/// A condition compares fields with values:
///
///   label == 3, label != 3           equal or not; 3 and 3.0 are equal, '3' is text
///   width < 100, <=, >, >=           numbers with numbers, text with text by code points
///   label in 1,2,3, label not in 4   any of these, none of these
///   key ~ 'cat/*.png', key !~ '*_x'  text of a pattern: * any text, ? a character, [a-z] a set
///   has caption                      whether there is such a field
///
/// These are put together with "not", "and", "or" and parentheses; "and" binds closer than "or".
/// Values are numbers, true, false, null and text, which needs quotes only where it has spaces or
/// signs in it or looks like a number. A field that is not there is null. NumPy scalars are
/// numbers. Only the fields that are named are decoded.
///
/// The field label may be compared with names of labels, if .labels has them. Values of different
/// types are never equal and in no order; a warning says where that was tried.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub(crate) struct Args {
    /// Data file to read
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Data file to make
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Condition
    #[arg(value_name = "EXPR", value_parser = Expression::parse)]
    condition: Expression,
    #[command(flatten)]
    making: Making,
}

const EXAMPLES: &str = "\
Examples:
  kiste filter train.msgpack threes.msgpack 'label == 3'
  kiste filter train.msgpack cats.msgpack 'label == cat'
  kiste filter train.msgpack large.msgpack 'width > 100 and height > 100'
  kiste filter train.msgpack pets.msgpack \"key ~ 'cat/*' or key ~ 'dog/*'\"
  kiste filter train.msgpack good.msgpack 'not (label in 7,8 or has broken)'";

impl Args {
    pub(crate) fn run(self, output: &Output) -> Outcome<Exit> {
        let reader = file::open(&self.input)?;
        self.making.check(&[&self.input], &self.out)?;
        let chosen = self.choose(&reader, output)?;
        let made = self.making.make_of(&self.input, &reader, chosen, &self.out, output)?;
        if self.making.json {
            output.json(&MadeOf { made, of: reader.len() as u64, seed: None })?;
        }
        Ok(Exit::Yes)
    }

    fn choose(&self, reader: &DatasetReader, output: &Output) -> Outcome<Vec<usize>> {
        let condition = self.condition()?;
        let progress = output.progress("filtering", Some(reader.len() as u64));
        let chosen = condition.choose(reader, |seen| progress.reaches(seen))?;
        drop(progress);
        let path = file::shown(&self.input);
        for mismatch in &chosen.mismatches {
            warn(mismatch, &path, output);
        }
        if chosen.indices.is_empty() && !reader.is_empty() {
            output.warn(format_args!("{path}: the condition is true of no sample"));
        }
        Ok(chosen.indices)
    }

    /// The condition, in which names of labels mean numbers.
    fn condition(&self) -> Outcome<Expression> {
        let Some(names) = read_labels(&self.input)? else { return Ok(self.condition.clone()) };
        self.condition.clone().with_labels(&names).map_err(|error| {
            let path = labels_path(&kiste::storage::shown(&self.input));
            let first: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
            let more = if names.len() > NAMED { " and others" } else { "" };
            let known = format!("there are {}{more}", first.join(", "));
            Failure::trouble(format_args!("{}: {error}", path.display())).hint(known)
        })
    }
}

/// Names of labels that a hint lists.
const NAMED: usize = 10;

/// Says where values of different types were compared.
fn warn(mismatch: &Mismatch, path: &impl Display, output: &Output) {
    let Mismatch { field, found, expected, samples, first, .. } = mismatch;
    let first = match first {
        Scalar::Text(text) => format!("{:?}", text.chars().take(30).collect::<String>()),
        first => first.to_string(),
    };
    let verb = if *samples == 1 { "has" } else { "have" };
    output.warn(format_args!(
        "{path}: {} {verb} {found} in {field:?}, such as {first}, which is never equal to and in no \
         order with {expected}",
        units::counted(*samples, "sample")
    ));
    match (found, expected) {
        (ScalarKind::Text, ScalarKind::Number) => output.hint(format_args!(
            "quotes make a number text, which is compared by code points: {field} == '80'"
        )),
        (ScalarKind::Number, ScalarKind::Text) if field == "label" => {
            output.hint("names of labels are known where there is a file .labels");
        }
        _ => {}
    }
}
