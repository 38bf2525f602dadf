use kiste::storage::Shown;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::target::{Explained, Moment, committed, open_store};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Output;

/// Print, set or delete attributes
///
/// Without KEY, prints all attributes as one JSON object; with KEY, prints its value, or exits with
/// 1 if it is not set. Setting and deleting make one new version.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the array
    name: PathBuf,
    /// Print this attribute, or set it with =; the value is JSON
    #[arg(value_name = "KEY[=JSON]")]
    keys: Vec<String>,
    /// Delete this attribute
    #[arg(long, value_name = "KEY", conflicts_with = "at")]
    delete: Vec<String>,
    #[command(flatten)]
    moment: Moment,
    /// Message of the version, for the log
    #[arg(long, short, value_name = "TEXT", default_value = "attributes")]
    message: String,
}

const EXAMPLES: &str = "\
Examples:
  kiste array attrs x
  kiste array attrs x unit='\"m\"' scale=0.5
  kiste array attrs x unit
  kiste array attrs x --delete unit";

impl Args {
    pub(super) fn run(self, output: &Output) -> Outcome<Exit> {
        let (set, print): (Vec<&String>, Vec<&String>) =
            self.keys.iter().partition(|key| key.contains('='));
        if set.is_empty() && self.delete.is_empty() {
            return self.print(&print, output);
        }
        if !print.is_empty() || self.moment.is_given() {
            let failure = Failure::trouble("expected attributes to print or to change, found both");
            return Err(failure.hint("set a value with KEY=JSON"));
        }
        let values: Vec<(&str, Value)> =
            set.into_iter().map(|key| parse(key)).collect::<Outcome<_>>()?;
        let mut store = open_store(&self.name)?;
        let mut attributes: Map<String, Value> = store.array().attrs().clone();
        for key in &self.delete {
            attributes.remove(key).ok_or_else(|| self.absent(key))?;
        }
        attributes.extend(values.into_iter().map(|(key, value)| (key.to_owned(), value)));
        let version = store.set_attributes(attributes, &self.message).explained(&self.name)?;
        committed(output, &self.name, &version);
        Ok(Exit::Yes)
    }

    fn print(&self, keys: &[&String], output: &Output) -> Outcome<Exit> {
        let array = self.moment.open(&self.name)?;
        if keys.is_empty() {
            output.json(array.attrs())?;
        }
        for key in keys {
            output.json(array.attrs().get(*key).ok_or_else(|| self.absent(key))?)?;
        }
        Ok(Exit::Yes)
    }

    fn absent(&self, key: &str) -> Failure {
        Failure::no(format_args!("{}: there is no attribute {key:?}", Shown::of(&self.name)))
    }
}

fn parse(text: &str) -> Outcome<(&str, Value)> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let value = serde_json::from_str(value).map_err(|_| {
        let failure = Failure::trouble(format_args!("{key}: expected JSON, found {value:?}"));
        failure.hint(format!("quote strings: {key}='\"{value}\"'"))
    })?;
    Ok((key, value))
}
