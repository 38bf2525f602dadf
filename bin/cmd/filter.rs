use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use kiste::DatasetReader;
use kiste::dataset::{labels_path, read_labels};
use kiste::rearrange::Scalar;

use crate::exit::{Exit, Failure, Outcome, quoted};
use crate::expression::{Expression, Fields, kind};
use crate::output::Output;
use crate::rearrange::{MadeOf, Making};
use crate::{file, units};

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
        let mut samples = Samples::new(&self.input, reader, &condition);
        let mut chosen = Vec::new();
        for index in 0..reader.len() {
            samples.index = index;
            if condition.holds(&mut samples)? {
                chosen.push(index);
            }
            if index % 1024 == 0 {
                progress.reaches(index as u64)?;
            }
        }
        drop(progress);
        samples.check_found()?;
        samples.warn(output);
        if chosen.is_empty() && !reader.is_empty() {
            let path = file::shown(&self.input);
            output.warn(format_args!("{path}: the condition is true of no sample"));
        }
        Ok(chosen)
    }

    /// The condition, in which names of labels mean numbers.
    fn condition(&self) -> Outcome<Expression> {
        let Some(names) = read_labels(&self.input)? else { return Ok(self.condition.clone()) };
        self.condition.clone().name_labels(&names).map_err(|message| {
            let path = labels_path(&kiste::storage::shown(&self.input));
            let first: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
            let more = if names.len() > NAMED { " and others" } else { "" };
            let known = format!("there are {}{more}", first.join(", "));
            Failure::trouble(format_args!("{}: {message}", path.display())).hint(known)
        })
    }
}

/// Names of labels that a hint lists.
const NAMED: usize = 10;

/// The fields of samples, and what was found in them.
struct Samples<'a> {
    path: &'a Path,
    reader: &'a DatasetReader,
    /// The sample whose fields are asked for.
    index: usize,
    /// The fields that are compared.
    compared: Vec<&'a str>,
    missing: HashSet<String>,
    found: HashSet<String>,
    /// By field, the type there and the type that it was compared with: how often, and the first.
    differences: BTreeMap<(String, &'static str, &'static str), (u64, String)>,
}

impl<'a> Samples<'a> {
    fn new(path: &'a Path, reader: &'a DatasetReader, condition: &'a Expression) -> Samples<'a> {
        Samples {
            path,
            reader,
            index: 0,
            compared: condition.fields(),
            missing: HashSet::new(),
            found: HashSet::new(),
            differences: BTreeMap::new(),
        }
    }

    /// Fails for a field that no sample has: most likely a typing error, which would choose nothing,
    /// or everything.
    fn check_found(&self) -> Outcome<()> {
        let is_absent =
            |name: &&&str| self.missing.contains(**name) && !self.found.contains(**name);
        match self.compared.iter().find(is_absent) {
            Some(name) => {
                let path = self.path.display();
                Err(Failure::trouble(format!("{path}: no sample has a field {name:?}"))
                    .hint(format!("\"kiste info {}\" lists the fields", quoted(self.path))))
            }
            None => Ok(()),
        }
    }

    /// Says where values of different types were compared.
    fn warn(&self, output: &Output) {
        for ((name, found, other), (count, first)) in &self.differences {
            let samples = units::counted(*count, "sample");
            let verb = if *count == 1 { "has" } else { "have" };
            output.warn(format_args!(
                "{}: {samples} {verb} {found} in {name:?}, such as {first}, which is never equal to \
                 and in no order with {other}",
                self.path.display()
            ));
            match (*found, *other) {
                ("text", "a number") => output.hint(format_args!(
                    "quotes make a number text, which is compared by code points: {name} == '80'"
                )),
                ("a number", "text") if name == "label" => {
                    output.hint("names of labels are known where there is a file .labels");
                }
                _ => {}
            }
        }
    }
}

impl Fields for Samples<'_> {
    fn field(&mut self, name: &str) -> Outcome<Option<Scalar>> {
        let Some(value) = self.reader.field(self.index, name)? else {
            if !self.missing.contains(name) {
                self.missing.insert(name.to_string());
            }
            return Ok(None);
        };
        if !self.found.contains(name) {
            self.found.insert(name.to_string());
        }
        let scalar = Scalar::of(&value);
        // Whether it is there can be asked of any field.
        let comparable = scalar.is_some() || !self.compared.contains(&name);
        if !comparable {
            let message = "neither a number nor text nor true, false or null";
            let (path, index) = (self.path.display(), self.index);
            return Err(Failure::trouble(format!(
                "{path}: sample {index}: field {name:?} is {message}"
            )));
        }
        Ok(Some(scalar.unwrap_or(Scalar::Nothing)))
    }

    fn differ(&mut self, name: &str, found: &Scalar, other: &Scalar) {
        let (Some(is), Some(was)) = (kind(found), kind(other)) else { return };
        let first = || match found {
            Scalar::Text(text) => format!("{:?}", text.chars().take(30).collect::<String>()),
            found => found.to_string(),
        };
        let entry = self.differences.entry((name.to_owned(), is, was));
        entry.or_insert_with(|| (0, first())).0 += 1;
    }
}
