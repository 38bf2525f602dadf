//! `DST.labels`: the names of numeric labels, one a line.

use std::io;
use std::path::Path;

use kiste::Writer;
use kiste::convert::{labels_path, open_regular};

use super::Args;
use crate::exit::{Failure, Outcome};

impl Args {
    /// The names in DST.labels, if it is to be written. Checked before anything is.
    pub(super) fn plan_labels(
        &self,
        dataset: &Path,
        names: Option<&[String]>,
    ) -> Outcome<Option<Vec<String>>> {
        let path = labels_path(dataset);
        let Some(names) = names else { return Ok(None) };
        if let Some(name) = names.iter().find(|name| name.contains(['\n', '\r'])) {
            let message = "a label with a line end in its name cannot be listed one a line";
            return Err(Failure::trouble(format!("{}: {message}", name.escape_debug())));
        }
        let known = match open_regular(&path).and_then(io::read_to_string) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::io(&path, error)),
        };
        let file = path.display();
        match (self.append, known) {
            (true, Some(known)) => {
                let lines: Vec<&str> = known.lines().collect();
                let differs = lines.iter().zip(names).position(|(line, name)| line != name);
                match differs {
                    Some(at) => Err(Failure::trouble(format!(
                        "{file}: label {at} is {:?} here but {:?} in the folder, so the numbers \
                         would not mean the same",
                        lines[at], names[at]
                    ))),
                    // What the folder has beyond is added.
                    None => Ok((names.len() > lines.len()).then(|| names.to_vec())),
                }
            }
            (true, None) => {
                let message = format!("{file}: not there, so nobody knows what the numbers mean");
                Err(Failure::trouble(message).hint("write it: one label a line, that of 0 first"))
            }
            // If the dataset is there as well, the writer objects to that.
            (false, Some(_)) if !self.force && !dataset.exists() => {
                let message = format!("{file}: the file exists already");
                Err(Failure::trouble(message).hint("--force replaces it"))
            }
            (false, _) => Ok(Some(names.to_vec())),
        }
    }

    /// Has DST.labels published with the dataset, or removes with the dataset that is replaced what
    /// its numbers meant.
    pub(super) fn set_labels(&self, writer: &mut Writer, names: Option<&[String]>) -> Outcome<()> {
        match names {
            Some(names) => writer.set_labels(Some(names))?,
            None if self.force => writer.set_labels(None::<&[String]>)?,
            None => {}
        }
        Ok(())
    }
}
