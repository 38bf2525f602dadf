use std::collections::HashSet;
use std::path::PathBuf;

use kiste::DatasetReader;
use kiste::rearrange::Scalar;

use crate::exit::{Exit, Failure, Outcome};
use crate::expression::Expression;
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
            output.json(&MadeOf { made, of: reader.len() as u64 })?;
        }
        Ok(Exit::Yes)
    }

    fn choose(&self, reader: &DatasetReader, output: &Output) -> Outcome<Vec<usize>> {
        let progress = output.progress("filtering", Some(reader.len() as u64));
        let (mut chosen, mut asked, mut found) = (Vec::new(), HashSet::new(), HashSet::new());
        for index in 0..reader.len() {
            let mut field = |name: &str| -> Outcome<Option<Scalar>> {
                let Some(value) = reader.field(index, name)? else {
                    if !asked.contains(name) {
                        asked.insert(name.to_string());
                    }
                    return Ok(None);
                };
                if !found.contains(name) {
                    found.insert(name.to_string());
                }
                let scalar = Scalar::of(&value);
                // Whether it is there can be asked of any field.
                let comparable = scalar.is_some() || !self.condition.fields().contains(&name);
                if !comparable {
                    let message = "neither a number nor text nor true, false or null";
                    let path = self.input.display();
                    return Err(Failure::trouble(format!(
                        "{path}: sample {index}: field {name:?} is {message}"
                    )));
                }
                Ok(Some(scalar.unwrap_or(Scalar::Nothing)))
            };
            if self.condition.holds(&mut field)? {
                chosen.push(index);
            }
            if index % 1024 == 0 {
                progress.reaches(index as u64)?;
            }
        }
        // Most likely a typing error, which would choose nothing, or everything.
        let fields = self.condition.fields();
        match fields.into_iter().find(|name| asked.contains(*name) && !found.contains(*name)) {
            Some(name) => {
                let path = self.input.display();
                Err(Failure::trouble(format!("{path}: no sample has a field {name:?}"))
                    .hint(format!("\"kiste info {path}\" lists the fields")))
            }
            None => Ok(chosen),
        }
    }
}
