//! Combinations that are refused, and why: one table, which `docs/convert-many.md` repeats.

use super::conversion::Conversion;
use super::format::Format;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::storage;

/// A combination that is refused.
struct Refused {
    /// The option, by its name in the library. `None`: the output alone.
    option: Option<&'static str>,
    /// The other half of the combination.
    with: &'static str,
    why: &'static str,
    is_asked: fn(&Asked<'_>) -> bool,
    remedy: Option<Remedy>,
}

/// The properties of a conversion that matter here.
struct Asked<'a> {
    conversion: &'a Conversion,
    is_dataset: bool,
    is_sharded: bool,
    is_url: bool,
}

impl Asked<'_> {
    fn appends(&self) -> bool {
        self.conversion.options.append
    }

    fn splits(&self) -> bool {
        self.conversion.options.split.is_split()
    }
}

const MANY_FILES: &str = "a dataset of many files";
const ANOTHER_FORMAT: &str = "an output of another format";

static REFUSED: [Refused; 4] = [
    Refused {
        option: Some("split"),
        with: MANY_FILES,
        why: "a shard is a stretch of the source",
        is_asked: |asked| asked.is_sharded && asked.splits(),
        remedy: None,
    },
    Refused {
        option: Some("append"),
        with: ANOTHER_FORMAT,
        why: "only datasets can be extended",
        is_asked: |asked| !asked.is_dataset && asked.appends(),
        remedy: Some(Remedy::WriteDataset),
    },
    Refused {
        option: Some("append"),
        with: "one file at a URL",
        why: "an object is written once",
        is_asked: |asked| asked.is_dataset && asked.appends() && asked.is_url && !asked.is_sharded,
        remedy: None,
    },
    Refused {
        option: None,
        with: "a URL",
        why: "only datasets are written to URLs",
        is_asked: |asked| !asked.is_dataset && asked.is_url,
        remedy: None,
    },
];

impl Conversion {
    /// Fails for what cannot be combined.
    pub(super) fn check_combined(&self) -> Result<()> {
        let format = self.output_format();
        let asked = Asked {
            conversion: self,
            is_dataset: format == Format::Dataset,
            is_sharded: self.is_sharded(),
            is_url: storage::is_url(&self.output),
        };
        let Some(refused) = REFUSED.iter().find(|refused| (refused.is_asked)(&asked)) else {
            return Ok(());
        };
        let Refused { option, with, why, remedy, .. } = refused;
        let error = match option {
            Some(option) => {
                let message = format!("cannot be combined with {with}: {why}");
                Error::new(ErrorKind::Unsupported, message).with_option(option)
            }
            None => {
                let message = format!("cannot write {format} to {with}: {why}");
                Error::new(ErrorKind::Unsupported, message).at(storage::shown(&self.output))
            }
        };
        Err(match remedy {
            Some(remedy) => error.with_remedy(remedy.clone()),
            None => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_docs_list_what_is_refused() {
        let docs = include_str!("../../docs/convert-many.md");
        for Refused { option, with, why, .. } in &REFUSED {
            let option = match option {
                Some(option) => format!("`--{}`", option.replace('_', "-")),
                None => "another format".to_owned(),
            };
            let row = format!("| {option} | {with} | {why} |");
            assert!(docs.contains(&row), "docs/convert-many.md lacks {row}");
        }
    }
}
