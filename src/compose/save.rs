//! From a view to a recipe.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use super::load::{kept_folder, kept_identity, kept_name};
use super::made::Made;
use super::open::is_recipe;
use super::view::{View, prefix_of};
use crate::dataset::is_same;
use crate::error::{Error, ErrorKind, Remedy, Result, Shown};
use crate::format::hex;
use crate::format::md5::Md5;
use crate::format::recipe::{
    self, Base, Indices, JoinRule, KeptSelection, MixtureRule, Output, Recipe, Source, Step,
};
use crate::reader::{FieldNames, How, Join, Reader, SelectReader};
use crate::rearrange::MadeDataset;
use crate::storage::{self, Expected, is_url};

impl View {
    /// Writes a recipe of this view, `*.kiste.toml`, which opens as the same dataset. Sources are named, relative to the
    /// recipe where they are in its folder or were opened by a relative path, and told by their identity. What conditions
    /// chose, and what is no rule (slices, draws, lists of keys, `dedupe`), is written to a folder next to the recipe.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) without `overwrite`; [`Unsupported`](ErrorKind::Unsupported) for a view
    /// of a program's own reader and for values that a recipe cannot hold.
    pub fn save(&self, name: impl AsRef<Path>, overwrite: bool) -> Result<MadeDataset> {
        let (name, begun) = (name.as_ref(), Instant::now());
        if !is_recipe(name) {
            let message =
                format!("expected a name that ends in {:?}, found another", recipe::SUFFIX);
            return Err(Error::new(ErrorKind::Invalid, message).at(name));
        }
        let (storage, place) = storage::of(name)?;
        if !overwrite && storage.stat(&place)?.is_some() {
            let error = Error::new(ErrorKind::AlreadyExists, "the file exists already");
            return Err(error.at(name).with_remedy(Remedy::Overwrite));
        }
        if let Some(inner) = names_itself(self, &place) {
            let message = format!(
                "expected another name than {}, which this view is made of",
                Shown::of(&inner)
            );
            return Err(Error::new(ErrorKind::Invalid, message).at(name));
        }
        let folder = kept_folder(&place);
        let written = Writing::of(self, Names::Next(&place))?;
        let text = written.recipe.print().map_err(|error| error.at(name))?;
        if !written.kept.is_empty() && !storage.is_object_store() {
            storage.create_dir_all(&folder)?;
        }
        for (file, bytes) in &written.kept {
            storage.put_if(&folder.join(file), bytes, Expected::Anything)?;
        }
        let expected = if overwrite { Expected::Anything } else { Expected::Absent };
        let put = storage.put_if(&place, text.as_bytes(), expected);
        put.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => error.with_remedy(Remedy::Overwrite),
            _ => error,
        })?;
        let kept: usize = written.kept.values().map(Vec::len).sum();
        Ok(MadeDataset {
            file: storage::shown(name),
            samples: self.reader().len() as u64,
            bytes: (text.len() + kept) as u64,
            labels: None,
            seconds: begun.elapsed().as_secs_f64(),
        })
    }
}

/// The recipe that a view is made of and that has this very name.
fn names_itself(view: &View, place: &Path) -> Option<PathBuf> {
    if let Made::Recipe { name, .. } = view.made() {
        if is_same(name, place) {
            return Some(name.clone());
        }
    }
    view.made().parts().into_iter().find_map(|part| names_itself(part, place))
}

/// How sources are named.
#[derive(Clone, Copy)]
pub(super) enum Names<'a> {
    /// For this file.
    Next(&'a Path),
    /// For this machine, whatever the folder. Recipes are written out.
    Absolute,
}

/// A recipe that is put together.
pub(super) struct Writing<'a> {
    names: Names<'a>,
    pub(super) recipe: Recipe,
    /// Selections, by the names of their files.
    pub(super) kept: BTreeMap<String, Vec<u8>>,
    /// Options of sources.
    pub(super) options: BTreeMap<String, u8>,
    /// How many views use each view.
    uses: HashMap<usize, usize>,
    /// The source of each view that has one.
    known: HashMap<usize, String>,
    taken: HashSet<String>,
}

/// Tells views apart.
fn address(view: &View) -> usize {
    std::ptr::from_ref(view.made()).addr()
}

impl<'a> Writing<'a> {
    pub(super) fn of(view: &View, names: Names<'a>) -> Result<Writing<'a>> {
        let recipe = Recipe { sources: Vec::new(), output: Output::Source(String::new()) };
        let (kept, options, known) = (BTreeMap::new(), BTreeMap::new(), HashMap::new());
        let (uses, taken) = (HashMap::new(), HashSet::new());
        let mut writing = Writing { names, recipe, kept, options, uses, known, taken };
        writing.count(view);
        let mut view = view;
        while let (Names::Absolute, Made::Recipe { of, .. }) = (names, view.made()) {
            view = of;
        }
        if writing.loses_order(view) {
            let message = "expected a mixture whose sources have these fields, found a mixture whose own fields were changed, \
                           whose order a recipe cannot hold: change the fields of its sources, or save the mixture and open it first";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        writing.recipe.output = match view.made() {
            Made::Concat(views) if views.len() > 1 => Output::Concat(
                views.iter().map(|view| writing.source(view, None)).collect::<Result<_>>()?,
            ),
            Made::Mixture { .. } => Output::Mixture(writing.mixture(view)?),
            _ => Output::Source(writing.source(view, None)?),
        };
        Ok(writing)
    }

    fn count(&mut self, view: &View) {
        let uses = self.uses.entry(address(view)).or_default();
        *uses += 1;
        if *uses == 1 {
            view.made().parts().into_iter().for_each(|part| self.count(part));
        }
    }

    /// The view that a recipe is, where recipes are not named. A mixture keeps its order by its name alone.
    fn written_out<'v>(&self, view: &'v View) -> &'v View {
        match (self.names, view.made()) {
            (Names::Absolute, Made::Recipe { of, .. }) if of.sampler().is_none() => {
                self.written_out(of)
            }
            _ => view,
        }
    }

    /// Whether the order is that of a mixture below, which has no name.
    fn loses_order(&self, view: &View) -> bool {
        let below = |of: &View| match of.made() {
            Made::Mixture { .. } => true,
            Made::Recipe { .. } => false,
            _ => self.loses_order(of),
        };
        let made = view.made();
        let is_named = matches!(made, Made::Recipe { .. });
        !is_named && made.keeps_order() && made.parts().first().is_some_and(|of| below(of))
    }

    fn mixture(&mut self, view: &View) -> Result<MixtureRule> {
        let Made::Mixture { sources, options, .. } = view.made() else {
            return Err(Error::new(ErrorKind::Invalid, "expected a mixture"));
        };
        for (name, _) in sources {
            self.taken.insert(name.clone());
        }
        for (name, view) in sources {
            let source = self.source(view, Some(name))?;
            if source != *name {
                // The view has another name already.
                self.recipe.sources.push((name.clone(), Source::new(Base::Sources(vec![source]))));
            }
        }
        Ok(options.rule(sources))
    }

    /// The name of the source that has the samples of a view.
    fn source(&mut self, view: &View, wanted: Option<&str>) -> Result<String> {
        let view = self.written_out(view);
        if let Some(name) = self.known.get(&address(view)) {
            return Ok(name.clone());
        }
        let made = self.chain(view)?;
        Ok(self.add(view, wanted, made))
    }

    /// Adds a source for a view, and returns its name.
    fn add(&mut self, view: &View, wanted: Option<&str>, made: (Source, Option<u8>)) -> String {
        let name = wanted.map_or_else(|| self.free_name(view), str::to_owned);
        if let Some(bits) = made.1.filter(|bits| *bits != 0) {
            self.options.insert(name.clone(), bits);
        }
        self.known.insert(address(view), name.clone());
        self.recipe.sources.push((name.clone(), made.0));
        name
    }

    /// A name that tells what the view was opened by, if it was.
    fn free_name(&mut self, view: &View) -> String {
        fn opened(view: &View) -> Option<&Path> {
            match view.made() {
                Made::Opened { name, .. } | Made::Recipe { name, .. } => Some(name),
                Made::Concat(_) | Made::Mixture { .. } => Some(Path::new("all")),
                made => opened(made.parts().first()?),
            }
        }
        let stem = opened(view).and_then(|path| path.file_name()?.to_str()).unwrap_or("samples");
        let stem = stem.split('.').next().unwrap_or_default();
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let stem: String = stem.chars().filter(is_plain).take(40).collect();
        let stem = if stem.is_empty() { "samples".to_owned() } else { stem };
        let mut name = stem.clone();
        let mut number = 2;
        while !self.taken.insert(name.clone()) {
            name = format!("{stem}-{number}");
            number += 1;
        }
        name
    }

    /// A source with all steps of a view that it can hold; what lies below is another source. With its options, if it
    /// opens something.
    fn chain(&mut self, view: &View) -> Result<(Source, Option<u8>)> {
        let below = |writing: &mut Writing<'a>,
                     of: &View,
                     steps: &[Step]|
         -> Result<(Source, Option<u8>)> {
            let of = writing.written_out(of);
            let is_shared = writing.uses.get(&address(of)).is_some_and(|uses| *uses > 1);
            if !is_shared {
                let (source, options) = writing.chain(of)?;
                if steps.first().is_none_or(|first| source.accepts(first)) {
                    return Ok((source, options));
                }
                let name = writing.add(of, None, (source, options));
                return Ok((Source::new(Base::Sources(vec![name])), None));
            }
            let name = writing.source(of, None)?;
            Ok((Source::new(Base::Sources(vec![name])), None))
        };
        let with = |(mut source, options): (Source, Option<u8>), steps: Vec<Step>| {
            source.steps.extend(steps);
            (source, options)
        };
        match view.made() {
            Made::Given => {
                let message = "expected a view of named datasets, found samples of a program, which have no name";
                Err(Error::new(ErrorKind::Unsupported, message))
            }
            Made::Opened { name, options, .. } | Made::Recipe { name, options, .. } => {
                let source = Source::new(Base::Paths(vec![named(self.names, name)?]));
                let identity = Some(view.lineage()?.to_owned());
                Ok((Source { identity, ..source }, Some(options.to_bits())))
            }
            Made::Concat(views) => {
                let names =
                    views.iter().map(|view| self.source(view, None)).collect::<Result<_>>()?;
                Ok((Source::new(Base::Sources(names)), None))
            }
            Made::Mixture { sources, .. } => {
                let views = sources.iter().map(|(_, view)| self.source(view, None));
                Ok((Source::new(Base::Sources(views.collect::<Result<_>>()?)), None))
            }
            Made::Selected { of, reader, .. } => {
                let bytes = kept_bytes(reader, of.lineage()?, None)?;
                let mut md5 = Md5::new();
                md5.update(&bytes);
                let name = format!("{}.sel", &hex(&md5.finish())[..16]);
                self.kept.insert(name.clone(), bytes);
                let steps = vec![Step::Selection(self.kept_path(&name)?)];
                Ok(with(below(self, of, &steps)?, steps))
            }
            Made::Filtered { of, condition, reader, .. } => {
                let rule = of.meaning(condition)?.to_string();
                let told = kept_identity(of)?;
                self.kept.insert(kept_name(&told, &rule), kept_bytes(reader, &told, Some(&rule))?);
                let steps = vec![Step::Where(condition.clone())];
                Ok(with(below(self, of, &steps)?, steps))
            }
            Made::Keys { of, keep, files, .. } => {
                let names =
                    files.iter().map(|file| named(self.names, file)).collect::<Result<_>>()?;
                let step = if *keep { Step::KeepKeys(names) } else { Step::DropKeys(names) };
                let steps = vec![step];
                Ok(with(below(self, of, &steps)?, steps))
            }
            Made::Fields { of, names } => {
                let steps = field_steps(names);
                Ok(with(below(self, of, &steps)?, steps))
            }
            Made::Joined { of, with: other, join, .. } => {
                let steps = vec![Step::Join(self.join(other, join)?)];
                Ok(with(below(self, of, &steps)?, steps))
            }
        }
    }

    fn join(&mut self, other: &View, join: &Join) -> Result<JoinRule> {
        let other = self.written_out(other);
        let is_plain =
            matches!(other.made(), Made::Opened { options, .. } if options.to_bits() == 0);
        let (with, identity) = match other.made() {
            Made::Opened { name, .. } if is_plain => {
                (Base::Paths(vec![named(self.names, name)?]), Some(other.lineage()?.to_owned()))
            }
            _ => (Base::Sources(vec![self.source(other, None)?]), None),
        };
        Ok(JoinRule {
            with,
            identity,
            how: match join.how() {
                How::Inner => recipe::How::Inner,
                How::Left => recipe::How::Left,
            },
            fields: join.chosen_fields().map(<[String]>::to_vec),
            prefix: prefix_of(join)?.map(str::to_owned),
            missing: join.missing_values().to_vec(),
        })
    }

    /// The path of a kept selection, as the recipe names it.
    fn kept_path(&self, name: &str) -> Result<String> {
        match self.names {
            Names::Absolute => Ok(name.to_owned()),
            Names::Next(file) => {
                let folder = kept_folder(file);
                let folder = folder.file_name().and_then(|name| name.to_str());
                Ok(format!("{}/{name}", folder.ok_or_else(|| no_text(file))?))
            }
        }
    }
}

/// A path, as the recipe names it.
pub(super) fn named(names: Names<'_>, path: &Path) -> Result<String> {
    if is_url(path) {
        return path.to_str().map(str::to_owned).ok_or_else(|| no_text(path));
    }
    let absolute = std::path::absolute(path).map_err(|error| Error::io(path, error))?;
    let absolute = folded(&absolute);
    let shown = match names {
        Names::Absolute => absolute,
        Names::Next(file) if is_url(file) => absolute,
        Names::Next(file) => {
            let file = std::path::absolute(file).map_err(|error| Error::io(file, error))?;
            let file = folded(&file);
            let folder = file.parent().unwrap_or(Path::new(""));
            match absolute.strip_prefix(folder) {
                Ok(below) => below.to_path_buf(),
                Err(_) if path.is_relative() => relative(&absolute, folder).unwrap_or(absolute),
                Err(_) => absolute,
            }
        }
    };
    let parts: Option<Vec<&str>> = shown.iter().map(|part| part.to_str()).collect();
    match (shown.to_str(), parts) {
        (Some(text), _) if shown.is_absolute() => Ok(text.to_owned()),
        (_, Some(parts)) => Ok(parts.join("/")),
        _ => Err(no_text(path)),
    }
}

fn no_text(path: &Path) -> Error {
    Error::new(ErrorKind::Unsupported, "expected a path that is text, which a recipe can hold")
        .at(path)
}

/// A path without `..`, except after a link, whose folder above is another one.
pub(super) fn folded(path: &Path) -> PathBuf {
    let mut folded = PathBuf::new();
    for part in path.components() {
        let is_folder = || folded.symlink_metadata().is_ok_and(|found| found.is_dir());
        if part == Component::ParentDir && folded.file_name().is_some() && is_folder() {
            folded.pop();
        } else {
            folded.push(part);
        }
    }
    folded
}

/// The path from a folder, by the folders above both. Both are absolute.
fn relative(path: &Path, folder: &Path) -> Option<PathBuf> {
    let (path, folder): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (path.components().collect(), folder.components().collect());
    if path.contains(&Component::ParentDir) || folder.contains(&Component::ParentDir) {
        return None;
    }
    let same = path.iter().zip(&folder).take_while(|(a, b)| a == b).count();
    let up = folder[same..].iter().map(|_| Component::ParentDir);
    // Not even the first folder in common.
    (same > 1).then(|| up.chain(path[same..].iter().copied()).collect())
}

fn field_steps(names: &FieldNames) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some(kept) = names.kept() {
        steps.push(Step::KeepFields(kept.to_vec()));
    }
    if !names.left_out().is_empty() {
        steps.push(Step::DropFields(names.left_out().to_vec()));
    }
    if !names.renamed().is_empty() {
        steps.push(Step::Rename(names.renamed().to_vec()));
    }
    steps
}

/// A selection as a file has it.
pub(super) fn kept_bytes<R: Reader>(
    reader: &SelectReader<R>,
    identity: &str,
    rule: Option<&str>,
) -> Result<Vec<u8>> {
    let (selection, len) = (reader.selection(), reader.inner().len());
    let words = len.div_ceil(64);
    let kept = match selection.runs() {
        Some(runs) if runs.len() * 2 <= words => KeptSelection {
            source_len: len as u64,
            count: selection.len() as u64,
            identity: identity.to_owned(),
            rule: None,
            indices: Indices::Runs(
                runs.iter().map(|run| run.start as u64..run.end as u64).collect(),
            ),
        },
        _ if selection.is_ascending() => {
            let mut bits = vec![0; words * 8];
            for index in selection.iter() {
                bits[index / 8] |= 1 << (index % 8);
            }
            KeptSelection::of_bits(len as u64, bits.into(), identity)?
        }
        _ => {
            let list = selection.iter().map(|index| index as u64).collect();
            KeptSelection::of_list(len as u64, list, identity)?
        }
    };
    match rule {
        Some(rule) => kept.with_rule(rule),
        None => kept,
    }
    .encode()
}
