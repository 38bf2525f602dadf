//! What a view is made of, in numbers: `kiste recipe check`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::made::{LeftOut, Made};
use super::open::Doing;
use super::view::View;
use crate::error::Result;
use crate::reader::{Reader, ReaderExt, has_field};
use crate::stat::stat;
use crate::storage::{Confined, LocalStorage, is_url};

/// Samples of each source whose fields are compared.
const LOOKED_AT: usize = 100;

/// What a view is made of.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ViewReport {
    /// Its samples.
    pub samples: u64,
    /// What it is the concatenation or the mixture of.
    pub sources: Vec<SourceSamples>,
    /// The shares of the sources of a mixture, by phase.
    pub phases: Vec<PhaseShares>,
    /// What was left out, and why.
    pub left_out: Vec<LeftOut>,
    /// Samples whose keys come before.
    pub duplicates: u64,
    /// Fields whose types differ between sources, by their first hundred samples.
    pub differing: Vec<DifferingField>,
    /// Fields that a step names and that no sample has: the step and the name.
    pub absent: Vec<(String, String)>,
    /// Files that the recipe reads and that lie outside its folder.
    pub outside: Vec<String>,
}

/// A source of a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SourceSamples {
    /// Its name.
    pub name: String,
    /// How it was made.
    pub made: String,
    /// Its samples.
    pub samples: u64,
}

/// The shares of the sources of a mixture from a position on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PhaseShares {
    /// The first position of the whole run.
    pub from: u64,
    /// The share of each source, as a fraction of 1.
    pub shares: Vec<f64>,
}

/// A field that has other types in one source than in another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DifferingField {
    /// Its name.
    pub name: String,
    /// The types that it has in each source; none where it is missing.
    pub types: Vec<Vec<String>>,
}

impl View {
    /// What it is made of. Reads all keys, to count duplicates, and the first samples of each source.
    ///
    /// # Errors
    ///
    /// The errors of reading, and of `progress`.
    pub fn report(&self, progress: &mut dyn FnMut(Doing<'_>) -> Result<()>) -> Result<ViewReport> {
        let parts: Vec<(String, View)> =
            match (self.mixed().or_else(|| self.sources()), self.made()) {
                (Some(sources), _) => sources.to_vec(),
                (None, Made::Concat(views)) => {
                    views.iter().map(|view| (view.to_string(), view.clone())).collect()
                }
                _ => vec![(self.to_string(), self.clone())],
            };
        let source = |(name, view): &(String, View)| SourceSamples {
            name: name.clone(),
            made: view.to_string(),
            samples: view.reader().len() as u64,
        };
        let phases = self.sampler().map(|mixture| {
            let shares = |quotas: &[u64]| {
                let all = quotas.iter().sum::<u64>().max(1) as f64;
                quotas.iter().map(|&quota| quota as f64 / all).collect()
            };
            let phases = mixture.phases();
            phases
                .map(|phase| PhaseShares { from: phase.from, shares: shares(&phase.quotas) })
                .collect()
        });
        Ok(ViewReport {
            samples: self.reader().len() as u64,
            sources: parts.iter().map(source).collect(),
            phases: phases.unwrap_or_default(),
            left_out: self.left_out(),
            duplicates: self.duplicates(progress)?.len() as u64,
            differing: differing(&parts)?,
            absent: absent(self, progress)?,
            outside: self.outside(),
        })
    }

    /// The files that a recipe reads and that lie outside its folder.
    pub fn outside(&self) -> Vec<String> {
        let Made::Recipe { name, .. } = self.made() else { return Vec::new() };
        let (folder, storage) = (Confined::next_to(name), LocalStorage::positioned());
        let is_outside = |file: &Path| match (is_url(name), is_url(file)) {
            (false, false) => folder.resolve(&storage, file).is_err(),
            (true, true) => {
                let root = name.to_str().and_then(|url| Some(url.rsplit_once('/')?.0));
                let is_below = |(root, file): (&str, &str)| {
                    file.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'))
                };
                !root.zip(file.to_str()).is_some_and(is_below)
            }
            _ => true,
        };
        let mut files = Vec::new();
        self.made().collect_files(&mut files);
        let files = files.into_iter().filter(|file| file != name && is_outside(file));
        let mut outside: Vec<String> =
            files.map(|file| crate::storage::shown(&file).display().to_string()).collect();
        outside.sort();
        outside.dedup();
        outside
    }
}

/// Fields that steps name and that no sample has.
fn absent(
    view: &View,
    progress: &mut dyn FnMut(Doing<'_>) -> Result<()>,
) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for part in view.made().parts() {
        found.extend(absent(part, progress)?);
    }
    let (of, names): (&View, Vec<&str>) = match view.made() {
        Made::Fields { of, names } => (of, names.expected().collect()),
        Made::Joined { with, join, .. } => {
            let names = join.chosen_fields().into_iter().flatten();
            (
                with,
                names
                    .chain(join.missing_values().iter().map(|(name, _)| name))
                    .map(String::as_str)
                    .collect(),
            )
        }
        _ => return Ok(found),
    };
    let total = of.reader().len() as u64;
    for name in names {
        let what = "looking for fields";
        if !has_field(&**of.reader(), name, |done| progress(Doing { what, done, total }))? {
            found.push((view.to_string(), name.to_owned()));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn differing(sources: &[(String, View)]) -> Result<Vec<DifferingField>> {
    let mut fields: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for (number, (_, view)) in sources.iter().enumerate() {
        let reader = view.reader();
        let first = reader.range(..reader.len().min(LOOKED_AT));
        first.prefetch(&(0..first.len()).collect::<Vec<_>>());
        for field in stat(&first)?.fields {
            let types = fields.entry(field.name).or_insert_with(|| vec![Vec::new(); sources.len()]);
            types[number] = field.types.into_keys().collect();
        }
    }
    let is_empty = |number: usize| sources[number].1.reader().is_empty();
    let differs = |types: &Vec<Vec<String>>| {
        let mut known = types.iter().enumerate().filter(|(number, _)| !is_empty(*number));
        let first = known.next().map(|(_, types)| types);
        known.any(|(_, types)| Some(types) != first)
    };
    let fields = fields.into_iter().filter(|(_, types)| differs(types));
    Ok(fields.map(|(name, types)| DifferingField { name, types }).collect())
}
