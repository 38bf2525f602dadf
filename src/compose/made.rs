//! How a view was made, as a tree.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::mixture::MixtureOptions;
use super::open::ViewOptions;
use super::save::kept_bytes;
use super::view::View;
use crate::dataset::DatasetReader;
use crate::error::{Result, Shown};
use crate::format::hex;
use crate::format::md5::Md5;
use crate::reader::identity::SAMPLES;
use crate::reader::{FieldNames, How, Join, Reader, SelectReader, Shared};
use crate::sampler::Mixture;

type Selecting = Arc<SelectReader<Arc<dyn Reader>>>;

pub(super) enum Made {
    /// By a name.
    Opened {
        name: PathBuf,
        options: ViewOptions,
        dataset: DatasetReader,
    },
    /// From a file of rules.
    Recipe {
        name: PathBuf,
        options: ViewOptions,
        of: View,
        /// The sources that it is the concatenation or the mixture of, or the only one.
        sources: Vec<(String, View)>,
    },
    /// By a program, in a way that has no words.
    Given,
    Concat(Vec<View>),
    Selected {
        of: View,
        reader: Selecting,
        how: String,
        left_out: Option<LeftOut>,
    },
    Filtered {
        of: View,
        condition: String,
        reader: Selecting,
        left_out: LeftOut,
    },
    /// By the keys that files or datasets have.
    Keys {
        of: View,
        keep: bool,
        files: Vec<PathBuf>,
        rule: String,
        left_out: LeftOut,
    },
    Fields {
        of: View,
        names: FieldNames,
    },
    Joined {
        of: View,
        with: View,
        join: Join,
        unmatched: u64,
    },
    Mixture {
        sources: Vec<(String, View)>,
        options: MixtureOptions,
        sampler: Mixture,
    },
}

/// Samples that a step left out, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// The step: `where`, `keep_keys`, `drop_keys`, `without`, `dedupe`, `join`.
    pub step: String,
    /// What it was about: the condition, or the names of files.
    pub rule: String,
    /// How many samples it left out. For a left join: how many have no fields of the other side.
    pub samples: u64,
    /// Keys that were named and that no sample has.
    pub unknown_keys: u64,
    /// Sentences about values that a condition could not compare.
    pub remarks: Vec<String>,
}

impl LeftOut {
    pub(super) fn samples(step: &str, samples: usize) -> LeftOut {
        LeftOut { step: step.to_owned(), samples: samples as u64, ..LeftOut::default() }
    }
}

impl Made {
    /// The views that it is made of.
    pub(super) fn parts(&self) -> Vec<&View> {
        match self {
            Made::Opened { .. } | Made::Given => Vec::new(),
            Made::Concat(views) => views.iter().collect(),
            Made::Mixture { sources, .. } => sources.iter().map(|(_, view)| view).collect(),
            Made::Joined { of, with, .. } => vec![of, with],
            Made::Recipe { of, .. }
            | Made::Selected { of, .. }
            | Made::Filtered { of, .. }
            | Made::Keys { of, .. }
            | Made::Fields { of, .. } => vec![of],
        }
    }

    /// The files that were read for it: of datasets and of keys, and recipes.
    #[cfg(feature = "stat")]
    pub(super) fn collect_files(&self, all: &mut Vec<PathBuf>) {
        match self {
            Made::Opened { dataset, .. } => {
                all.extend(dataset.files().into_iter().map(PathBuf::from))
            }
            Made::Keys { files, .. } => all.extend(files.iter().cloned()),
            Made::Recipe { name, .. } => all.push(name.clone()),
            _ => {}
        }
        self.parts().into_iter().for_each(|part| part.made().collect_files(all));
    }

    pub(super) fn collect_datasets(&self, all: &mut Vec<DatasetReader>) {
        if let Made::Opened { dataset, .. } = self {
            all.push(dataset.clone());
        }
        self.parts().into_iter().for_each(|part| part.made().collect_datasets(all));
    }

    /// Whether the order of a mixture in it is still the order of the whole.
    pub(super) fn keeps_order(&self) -> bool {
        match self {
            Made::Recipe { .. } | Made::Fields { .. } => true,
            Made::Joined { join, .. } => join.how() == How::Left,
            _ => false,
        }
    }

    pub(super) fn collect_left_out(&self, all: &mut Vec<LeftOut>) {
        self.parts().into_iter().for_each(|part| part.made().collect_left_out(all));
        let mixtures = self.parts().into_iter().filter(|part| part.sampler().is_some());
        if let (Some(mixture), false) = (mixtures.into_iter().next(), self.keeps_order()) {
            let remark =
                "its shares and its order are gone: samples come one source after the other";
            let left_out = LeftOut::samples("mixture", 0);
            all.push(LeftOut {
                rule: mixture.to_string(),
                remarks: vec![remark.to_owned()],
                ..left_out
            });
        }
        match self {
            Made::Filtered { condition, left_out, .. } => {
                all.push(LeftOut { rule: condition.clone(), ..left_out.clone() });
            }
            Made::Selected { left_out: Some(left_out), how, .. } => {
                all.push(LeftOut { rule: how.clone(), ..left_out.clone() });
            }
            Made::Keys { left_out, files, .. } => {
                let names: Vec<String> =
                    files.iter().map(|file| Shown::of(file).to_string()).collect();
                all.push(LeftOut { rule: names.join(", "), ..left_out.clone() });
            }
            Made::Joined { with, unmatched, .. } => {
                let found = LeftOut::samples("join", *unmatched as usize);
                all.push(LeftOut { rule: with.to_string(), ..found });
            }
            _ => {}
        }
    }
}

/// How datasets are told from others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaf {
    /// By what their files record, or else by some samples.
    Recorded,
    /// By some samples: as before anything was recorded.
    Samples,
}

/// A hash of texts, each with its length, so that no two lists of texts are one.
struct Parts(Md5);

impl Parts {
    fn of(how: &str) -> Parts {
        let mut parts = Parts(Md5::new());
        parts.add(how);
        parts
    }

    fn add(&mut self, text: &str) {
        self.0.update(&(text.len() as u64).to_be_bytes());
        self.0.update(text.as_bytes());
    }

    fn all<'a>(&mut self, what: &str, texts: impl ExactSizeIterator<Item = &'a str>) {
        self.add(&format!("{what} {}", texts.len()));
        texts.for_each(|text| self.add(text));
    }
}

/// What tells the samples of a view from others: its sources, and the rules.
pub(super) fn lineage(view: &View, leaf: Leaf) -> Result<String> {
    // Known for the parts, if they are told as they are now.
    let of = |part: &View| match leaf {
        Leaf::Recorded => part.lineage().map(str::to_owned),
        Leaf::Samples => lineage(part, leaf),
    };
    let concat = |views: &mut dyn ExactSizeIterator<Item = &View>| -> Result<Parts> {
        let mut parts = Parts::of("concat");
        for view in views {
            parts.add(&of(view)?);
        }
        Ok(parts)
    };
    let parts = match view.made() {
        Made::Opened { dataset, .. } => {
            return match leaf {
                Leaf::Recorded => dataset.identity(),
                Leaf::Samples => dataset.identity_by_samples(),
            };
        }
        Made::Given => return view.reader().identity(),
        Made::Recipe { of: view, .. } => return of(view),
        Made::Concat(views) => concat(&mut views.iter())?,
        // Its samples are those of the concatenation.
        Made::Mixture { sources, .. } if sources.len() == 1 => return of(&sources[0].1),
        Made::Mixture { sources, .. } => concat(&mut sources.iter().map(|(_, view)| view))?,
        Made::Selected { of: view, reader, .. } => {
            let mut parts = Parts::of("select");
            parts.add(&of(view)?);
            let bytes = kept_bytes(reader, "", None)?;
            parts.add(&format!("{} {:08x}", reader.len(), crc32c::crc32c(&bytes)));
            parts
        }
        Made::Filtered { of: view, condition, .. } => {
            let mut parts = Parts::of("where");
            parts.add(&of(view)?);
            parts.add(&view.meaning(condition)?.to_string());
            parts
        }
        Made::Keys { of: view, rule, .. } => {
            let mut parts = Parts::of("keys");
            parts.add(&of(view)?);
            parts.add(rule);
            parts
        }
        Made::Fields { of: view, names } => {
            let mut parts = Parts::of("fields");
            parts.add(&of(view)?);
            match names.kept() {
                Some(kept) => parts.all("keep", kept.iter().map(String::as_str)),
                None => parts.add("keep all"),
            }
            parts.all("drop", names.left_out().iter().map(String::as_str));
            parts.add(&format!("rename {}", names.renamed().len()));
            for (old, new) in names.renamed() {
                parts.add(old);
                parts.add(new);
            }
            parts
        }
        Made::Joined { of: view, with, join, .. } => {
            let mut parts = Parts::of("join");
            parts.add(&of(view)?);
            parts.add(&of(with)?);
            parts.add(match join.how() {
                How::Inner => "inner",
                How::Left => "left",
            });
            match join.shared_fields() {
                Shared::Right => parts.add("right"),
                Shared::Refuse => parts.add("refuse"),
                Shared::Prefix(prefix) => {
                    parts.add("prefix");
                    parts.add(prefix);
                }
            }
            match join.chosen_fields() {
                Some(names) => parts.all("fields", names.iter().map(String::as_str)),
                None => parts.add("fields all"),
            }
            // Their order means nothing.
            let mut missing: Vec<_> = join.missing_values().iter().collect();
            missing.sort_by(|a, b| a.0.cmp(&b.0));
            parts.add(&format!("missing {}", missing.len()));
            for (name, value) in missing {
                parts.add(name);
                parts.add(&hex(&crate::format::msgpack::to_vec(value)?));
            }
            parts
        }
    };
    Ok(format!("made:{}", hex(&parts.0.finish())))
}

/// Whether a recipe tells these samples by this text. Digests that were made since do not make them others.
pub(super) fn is_told_by(view: &View, told: &str) -> Result<bool> {
    if let Some(dataset) = view.dataset() {
        return dataset.has_identity(told);
    }
    Ok(view.lineage()? == told || lineage(view, Leaf::Samples)? == told)
}

/// What else tells the files of a view from others, where nothing records what is in them: sizes and times.
pub(super) fn stamps(view: &View) -> Result<String> {
    let mut stamps = String::new();
    for dataset in view.datasets() {
        if Reader::is_remote(&dataset) || !dataset.identity()?.starts_with(SAMPLES) {
            continue;
        }
        for file in dataset.files() {
            let stat = dataset.storage().stat(file)?;
            let known = stat.map(|stat| format!(" {}:{}", stat.len, stat.modified));
            stamps.push_str(&known.unwrap_or_default());
        }
    }
    Ok(stamps)
}

/// Views of a concatenation that are named in a text.
const NAMED: usize = 4;

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, texts: Vec<String>| {
            let more = texts.len().saturating_sub(NAMED);
            f.write_str(&texts[..texts.len() - more].join(", "))?;
            if more > 0 { write!(f, ", and {more} more") } else { Ok(()) }
        };
        match self {
            Made::Opened { name, .. } | Made::Recipe { name, .. } => {
                let name = crate::storage::shown(name);
                f.write_str(&Shown::of(&name).to_string())
            }
            Made::Given => f.write_str("samples of a program"),
            Made::Concat(views) => {
                f.write_str("concat(")?;
                list(f, views.iter().take(NAMED + 1).map(ToString::to_string).collect())?;
                f.write_str(")")
            }
            Made::Mixture { sources, .. } => {
                f.write_str("mixture(")?;
                let named = sources.iter().map(|(name, view)| format!("{name}: {view}"));
                list(f, named.collect())?;
                f.write_str(")")
            }
            Made::Selected { of, how, .. } => write!(f, "{of}.{how}"),
            Made::Filtered { of, condition, .. } => write!(f, "{of}.where({condition:?})"),
            Made::Keys { of, keep, files, .. } => {
                let how = if *keep { "keep_keys" } else { "drop_keys" };
                write!(f, "{of}.{how}(")?;
                list(f, files.iter().map(|file| Shown::of(file).to_string()).collect())?;
                f.write_str(")")
            }
            Made::Fields { of, names } => {
                let mut parts = Vec::new();
                if let Some(kept) = names.kept() {
                    parts.push(format!("keep={kept:?}"));
                }
                if !names.left_out().is_empty() {
                    parts.push(format!("drop={:?}", names.left_out()));
                }
                if !names.renamed().is_empty() {
                    let renamed =
                        names.renamed().iter().map(|(old, new)| format!("{old:?}: {new:?}"));
                    parts.push(format!("rename={{{}}}", renamed.collect::<Vec<_>>().join(", ")));
                }
                write!(f, "{of}.with_fields({})", parts.join(", "))
            }
            Made::Joined { of, with, join, .. } => {
                let how = if join.how() == How::Left { ", how=\"left\"" } else { "" };
                write!(f, "{of}.join({with}{how})")
            }
        }
    }
}
