//! From a recipe to a view.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::keys::{self, Keys};
use super::made::{LeftOut, Made, is_told_by, stamps};
use super::mixture::{Exhausted, MixtureOptions};
use super::open::{Doing, ViewOptions, is_recipe};
use super::save::folded;
use super::view::View;
use crate::error::{Error, ErrorKind, Result};
use crate::format::hex;
use crate::format::md5::Md5;
use crate::format::recipe::{
    self, Base, Indices, JoinRule, KeptSelection, MixtureRule, Output, Recipe, SUFFIX, Source, Step,
};
use crate::reader::{FieldNames, Join, Reader, SelectReader, Selection, Shared};
use crate::storage::{self, Confined, Expected, Storage, is_url};

/// Recipes in recipes.
const MAX_DEPTH: usize = 16;

/// Opens names, each recipe once.
pub(super) struct Loading<'a> {
    progress: &'a mut dyn FnMut(Doing<'_>) -> Result<()>,
    /// The recipes that are being opened, one in another.
    stack: Vec<PathBuf>,
    /// Recipes that were opened, with their options.
    opened: HashMap<(PathBuf, u8), View>,
}

impl<'a> Loading<'a> {
    pub(super) fn new(progress: &'a mut dyn FnMut(Doing<'_>) -> Result<()>) -> Loading<'a> {
        Loading { progress, stack: Vec::new(), opened: HashMap::new() }
    }

    pub(super) fn open(&mut self, name: &Path, options: ViewOptions) -> Result<View> {
        match is_recipe(name) {
            true => self.open_recipe(name, options),
            false => options.open_dataset(name),
        }
    }

    fn open_recipe(&mut self, name: &Path, options: ViewOptions) -> Result<View> {
        let (storage, place) = options.storage(name)?;
        let real = storage.resolve(&place).unwrap_or_else(|_| place.clone());
        // Names in it are relative to the place that it was found at, which a link has too.
        let known = (place.clone(), options.to_bits());
        if let Some(view) = self.opened.get(&known) {
            return Ok(view.clone());
        }
        let problem = match self.stack.contains(&real) {
            true => "a recipe that leads to itself".to_owned(),
            false if self.stack.len() == MAX_DEPTH => format!("recipes in {MAX_DEPTH} others"),
            false => String::new(),
        };
        if !problem.is_empty() {
            let message = format!("expected recipes that end at datasets, found {problem}");
            return Err(Error::new(ErrorKind::Invalid, message).at(&place));
        }
        let (recipe, _) = read(&*storage, &place)?;
        self.stack.push(real);
        let kept = Kept::Files { storage, writes: !options.is_untrusted() && !is_url(name) };
        let mut sources = Sources::of(&recipe, &place, options, kept);
        let of = sources.output(self);
        self.stack.pop();
        let of = of?;
        let sources = sources.of_output();
        let made = Made::Recipe { name: name.to_owned(), options, of: of.clone(), sources };
        let view = View::new(of.reader().clone(), made)?;
        self.opened.insert(known, view.clone());
        Ok(view)
    }
}

/// Reads a recipe. Its file is the other value.
pub(super) fn read(storage: &dyn Storage, place: &Path) -> Result<(Recipe, storage::Source)> {
    let file = storage.open(place)?;
    let most = recipe::MAX_BYTES as u64;
    if file.len() > most {
        let message = format!("expected a recipe of at most {most} bytes, found {}", file.len());
        return Err(Error::new(ErrorKind::Limit, message).at(place));
    }
    let recipe = parse(&file.read(0..file.len())?).map_err(|error| error.at(place))?;
    Ok((recipe, file))
}

/// The recipe that a file has.
pub(super) fn parse(bytes: &[u8]) -> Result<Recipe> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let message =
            format!("expected a recipe, found bytes that are no text at {}", error.valid_up_to());
        Error::new(ErrorKind::Damaged, message)
    })?;
    Ok(Recipe::parse(text)?)
}

/// Where selections are that were made before.
pub(super) enum Kept<'a> {
    /// In the folder of the recipe.
    Files {
        storage: Arc<dyn Storage>,
        writes: bool,
    },
    Memory(&'a BTreeMap<String, Vec<u8>>),
}

/// The folder next to a recipe that has what its conditions chose.
pub(super) fn kept_folder(recipe: &Path) -> PathBuf {
    let name = recipe.to_string_lossy();
    let stem = name.strip_suffix(SUFFIX).unwrap_or(&name);
    PathBuf::from(format!("{stem}.kiste.kept"))
}

/// The name of the selection that a view's conditions chose.
pub(super) fn kept_name(told: &str, rule: &str) -> String {
    let mut md5 = Md5::new();
    md5.update(format!("{told} where {rule}").as_bytes());
    format!("{}.sel", &hex(&md5.finish())[..16])
}

/// What tells a view whose samples were chosen, as a kept selection has it.
pub(super) fn kept_identity(view: &View) -> Result<String> {
    Ok(format!("{}{}", view.lineage()?, stamps(view)?))
}

/// The sources of a recipe, each opened once.
pub(super) struct Sources<'a> {
    recipe: &'a Recipe,
    /// The recipe.
    file: &'a Path,
    folder: Confined,
    /// Whether all files must be in the folder.
    confined: bool,
    options: ViewOptions,
    /// By the names of sources, where it is not `options`.
    own_options: Option<&'a BTreeMap<String, u8>>,
    kept: Kept<'a>,
    opened: HashMap<String, View>,
}

impl<'a> Sources<'a> {
    pub(super) fn of(
        recipe: &'a Recipe,
        file: &'a Path,
        options: ViewOptions,
        kept: Kept<'a>,
    ) -> Sources<'a> {
        let folder = match (is_url(file), file.to_str()) {
            (true, Some(url)) => {
                Confined::to(url.rsplit_once('/').map_or(url, |(folder, _)| folder))
            }
            _ => Confined::next_to(file),
        };
        let confined = options.is_confined();
        let folder = folder.allow_outside(!confined);
        let opened = HashMap::new();
        Sources { recipe, file, folder, confined, options, own_options: None, kept, opened }
    }

    pub(super) fn with_options(mut self, options: &'a BTreeMap<String, u8>) -> Sources<'a> {
        self.own_options = Some(options);
        self
    }

    pub(super) fn output(&mut self, loading: &mut Loading<'_>) -> Result<View> {
        let recipe = self.recipe;
        let made = match &recipe.output {
            Output::Source(name) => self.source(name, loading),
            Output::Concat(names) => self.concat(names, loading),
            Output::Mixture(rule) => self.mixture(rule, loading),
        };
        // An error of a file that the recipe names has its own place.
        made.map_err(|error| if error.path().is_some() { error } else { error.at(self.file) })
    }

    /// The sources that the output is made of.
    fn of_output(self) -> Vec<(String, View)> {
        let names = match &self.recipe.output {
            Output::Source(name) => std::slice::from_ref(name),
            Output::Concat(names) => names,
            Output::Mixture(rule) => &rule.sources,
        };
        let opened =
            names.iter().filter_map(|name| Some((name.clone(), self.opened.get(name)?.clone())));
        opened.collect()
    }

    fn concat(&mut self, names: &[String], loading: &mut Loading<'_>) -> Result<View> {
        match names {
            [only] => self.source(only, loading),
            names => {
                let views: Vec<View> =
                    names.iter().map(|name| self.source(name, loading)).collect::<Result<_>>()?;
                View::concat(views)
            }
        }
    }

    fn mixture(&mut self, rule: &MixtureRule, loading: &mut Loading<'_>) -> Result<View> {
        let named = |name: &String| Ok((name.clone(), self.source(name, loading)?));
        let sources: Vec<(String, View)> = rule.sources.iter().map(named).collect::<Result<_>>()?;
        let mut phases = rule.phases.iter();
        let first = phases.next().map(|phase| phase.weights.clone()).unwrap_or_default();
        let mut options = MixtureOptions::new(first).seed(rule.seed);
        for phase in phases {
            options = options.phase(phase.from, phase.weights.clone());
        }
        if let Some(column) = &rule.tokens {
            options = options.tokens(column);
        }
        for (name, passes) in &rule.max_passes {
            options = options.max_passes(name, *passes);
        }
        if let Some(samples) = rule.samples {
            options = options.samples(samples);
        }
        options = options.exhausted(match rule.exhausted {
            recipe::Exhausted::Error => Exhausted::Error,
            recipe::Exhausted::Others => Exhausted::Others,
        });
        View::mixture(sources, options)
    }

    fn source(&mut self, name: &str, loading: &mut Loading<'_>) -> Result<View> {
        if let Some(view) = self.opened.get(name) {
            return Ok(view.clone());
        }
        let recipe = self.recipe;
        let Some((_, source)) = recipe.sources.iter().find(|(own, _)| own == name) else {
            let message = format!("expected a source {name:?}, found none of this name");
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        let view = self.built(name, source, loading)?;
        self.opened.insert(name.to_owned(), view.clone());
        Ok(view)
    }

    fn built(&mut self, name: &str, source: &Source, loading: &mut Loading<'_>) -> Result<View> {
        let bits = self.own_options.and_then(|options| options.get(name));
        let options = bits.map_or(self.options, |bits| ViewOptions::of_bits(*bits));
        let mut view = self.base(&source.base, options, loading)?;
        expect_same(name, source.identity.as_deref(), &view)?;
        if let Some(digests) = &source.digest {
            self.expect_digests(name, digests, &view)?;
        }
        for step in &source.steps {
            view = self.step(name, step, view, options, loading)?;
        }
        Ok(view)
    }

    /// Fails for a source whose files are others than when it was locked.
    fn expect_digests(&self, name: &str, digests: &[(String, String)], view: &View) -> Result<()> {
        let mut left: HashMap<PathBuf, &str> = HashMap::new();
        for (file, digest) in digests {
            let Some(md5) = digest.strip_prefix("md5:") else {
                let message = format!("source {name:?}: expected digests by md5, found {digest:?}");
                return Err(Error::new(ErrorKind::Unsupported, message));
            };
            left.insert(same_name(&self.place(file)?), md5);
        }
        let changed = |expected: &str, found: &str, file: PathBuf| {
            let message = format!(
                "source {name:?} has changed since it was locked: expected {expected}, found {found}"
            );
            Err(Error::new(ErrorKind::Replaced, message).at(file))
        };
        let mut seen = HashSet::new();
        for dataset in view.datasets() {
            for (file, found) in dataset.digests()? {
                let file = same_name(&file);
                let found = format!("MD5 {}", hex(&found));
                match left.get(&file).map(|md5| format!("MD5 {md5}")) {
                    Some(expected) if expected == found => drop(seen.insert(file)),
                    Some(expected) => return changed(&expected, &found, file),
                    None => return changed("no such file", &found, file),
                }
            }
        }
        match left.into_keys().filter(|file| !seen.contains(file)).min() {
            Some(file) => changed("this file", "others only", file),
            None => Ok(()),
        }
    }

    fn base(
        &mut self,
        base: &Base,
        options: ViewOptions,
        loading: &mut Loading<'_>,
    ) -> Result<View> {
        match base {
            Base::Sources(names) => self.concat(names, loading),
            Base::Paths(names) => match &names[..] {
                [only] => self.opened_at(only, options, loading),
                names => {
                    let open = |name: &String| self.opened_at(name, options, loading);
                    let views: Vec<View> = names.iter().map(open).collect::<Result<_>>()?;
                    View::concat(views)
                }
            },
        }
    }

    /// The path of a name, which is relative to the recipe.
    fn place(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        if !self.confined {
            return Ok(path);
        }
        let local = crate::storage::LocalStorage::positioned();
        self.folder.check_in(&local, name)?;
        self.folder.resolve(&local, &path)
    }

    fn opened_at(
        &mut self,
        name: &str,
        options: ViewOptions,
        loading: &mut Loading<'_>,
    ) -> Result<View> {
        let view = loading.open(&self.place(name)?, options)?;
        if self.confined {
            let local = crate::storage::LocalStorage::positioned();
            for dataset in view.datasets() {
                // A pattern may have found links that lead out.
                for file in dataset.files() {
                    self.folder.resolve(&local, file)?;
                }
            }
        }
        Ok(view)
    }

    fn step(
        &mut self,
        name: &str,
        step: &Step,
        view: View,
        options: ViewOptions,
        loading: &mut Loading<'_>,
    ) -> Result<View> {
        Ok(match step {
            Step::Selection(file) => {
                let selection = self.selection(name, file, &view)?;
                let how = format!("select({} indices)", selection.len());
                view.chosen(selection, how, None)?
            }
            Step::KeepKeys(files) | Step::DropKeys(files) => {
                let keep = matches!(step, Step::KeepKeys(_));
                self.by_keys(&view, keep, files, options, loading)?
            }
            Step::Where(condition) => {
                let filtered = self.filtered(&view, condition, loading);
                filtered.map_err(|error| of_source(name, "where", error))?
            }
            Step::Join(rule) => self.joined(name, &view, rule, options, loading)?,
            Step::KeepFields(names) => view.renamed(FieldNames::keep(names)?)?,
            Step::DropFields(names) => view.renamed(FieldNames::without(names)?)?,
            Step::Rename(names) => {
                let rename = |all: FieldNames, (old, new): &(String, String)| all.rename(old, new);
                view.renamed(names.iter().try_fold(FieldNames::all(), rename)?)?
            }
        })
    }

    fn by_keys(
        &mut self,
        view: &View,
        keep: bool,
        files: &[String],
        options: ViewOptions,
        loading: &mut Loading<'_>,
    ) -> Result<View> {
        let mut places = Vec::new();
        let (mut all, mut rule) = (Vec::new(), String::from(if keep { "keep" } else { "drop" }));
        let step = if keep { "keep_keys" } else { "drop_keys" };
        for file in files {
            let place = self.place(file)?;
            let Keys { keys, told_by } = match keys::is_dataset(&place) {
                true => Keys::of(&self.opened_at(file, options, loading)?)?,
                false => Keys::read(&place, options)?,
            };
            all.extend(keys);
            rule = format!("{rule} {told_by}");
            places.push(place);
        }
        let (selection, left_out) = keys::choose(view, &all, keep, step)?;
        let reader = Arc::new(SelectReader::of(view.reader().clone(), selection)?);
        let of = view.clone();
        let made = Made::Keys { of, keep, files: places, rule, left_out };
        View::new(reader, made)
    }

    /// The samples that meet a condition: those that were kept, if they are of this view and this condition.
    fn filtered(
        &mut self,
        view: &View,
        condition: &str,
        loading: &mut Loading<'_>,
    ) -> Result<View> {
        let len = view.reader().len();
        let rule = view.meaning(condition)?.to_string();
        let told = kept_identity(view)?;
        let name = kept_name(&told, &rule);
        let folder = kept_folder(self.file);
        let path = folder.join(&name);
        let is_ours = |kept: &KeptSelection<'_>| {
            kept.identity == told
                && kept.rule.as_deref() == Some(&rule)
                && kept.source_len == len as u64
        };
        let chosen = |bytes: &[u8]| {
            let kept = KeptSelection::parse(bytes).ok().filter(is_ours)?;
            selection_of(kept).ok()
        };
        let found = match &self.kept {
            Kept::Memory(kept) => kept.get(&name).and_then(|bytes| chosen(bytes)),
            // What cannot be read is evaluated.
            Kept::Files { storage, .. } => storage.open(&path).ok().and_then(|file| {
                let bytes = file.read(0..file.len()).ok()?;
                chosen(&bytes)
            }),
        };
        if let Some(selection) = found {
            let left_out = LeftOut::samples("where", len - selection.len());
            return view.filtered(condition, selection, left_out);
        }
        let filtered = view.filter(condition, loading.progress)?;
        if let (Kept::Files { storage, writes: true }, Made::Filtered { reader, .. }) =
            (&self.kept, filtered.made())
        {
            // A place that is read only works without.
            let bytes = super::save::kept_bytes(reader, &told, Some(&rule))?;
            let _ = storage.create_dir_all(&folder);
            let _ = storage.put_if(&path, &bytes, Expected::Anything);
        }
        Ok(filtered)
    }

    /// The selection in a file that the recipe names.
    fn selection(&self, source: &str, name: &str, view: &View) -> Result<Selection> {
        let len = view.reader().len() as u64;
        let (bytes, place);
        match &self.kept {
            Kept::Memory(kept) => {
                place = PathBuf::from(name);
                bytes = kept.get(name).map(Vec::as_slice).unwrap_or_default().to_vec();
            }
            Kept::Files { storage, .. } => {
                place = self.place(name)?;
                let file = storage.open(&place)?;
                bytes = file.read(0..file.len())?.into_owned();
            }
        }
        let kept = KeptSelection::parse(&bytes).map_err(|error| Error::from(error).at(&place))?;
        if kept.source_len != len || !is_told_by(view, &kept.identity)? {
            let message = format!(
                "source {source:?} has changed since samples of it were chosen: expected {} samples told by {:?}, found {len} told by {:?}",
                kept.source_len,
                kept.identity,
                view.lineage()?
            );
            return Err(Error::new(ErrorKind::Replaced, message).at(&place));
        }
        selection_of(kept).map_err(|error| error.at(&place))
    }

    fn joined(
        &mut self,
        name: &str,
        view: &View,
        rule: &JoinRule,
        options: ViewOptions,
        loading: &mut Loading<'_>,
    ) -> Result<View> {
        let with = self.base(&rule.with, options, loading)?;
        expect_same(&format!("{name}, joined"), rule.identity.as_deref(), &with)?;
        let mut join = match rule.how {
            recipe::How::Inner => Join::inner(),
            recipe::How::Left => Join::left(),
        };
        if let Some(fields) = &rule.fields {
            join = join.fields(fields);
        }
        if let Some(prefix) = &rule.prefix {
            join = join.shared(Shared::Prefix(prefix.clone()));
        }
        for (field, value) in &rule.missing {
            join = join.missing(field, value.clone());
        }
        view.join(&with, join, loading.progress)
    }
}

/// One name for all ways to write a path.
fn same_name(path: &Path) -> PathBuf {
    match is_url(path) {
        true => path.to_owned(),
        false => folded(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
    }
}

/// An error about a rule of a source, which says which one. An error of a file says that by itself.
fn of_source(name: &str, rule: &str, error: Error) -> Error {
    match (error.kind(), error.path()) {
        (ErrorKind::Invalid, None) => {
            Error::new(ErrorKind::Invalid, format!("source {name:?}: {rule}: {}", error.message()))
        }
        _ => error,
    }
}

/// Fails for a source that has changed.
fn expect_same(name: &str, told: Option<&str>, view: &View) -> Result<()> {
    let Some(told) = told else { return Ok(()) };
    if is_told_by(view, told)? {
        view.told_as(told);
        return Ok(());
    }
    let found = view.lineage()?;
    let message = format!(
        "source {name:?} ({view}) has changed: expected samples told by {told:?}, found {found:?}"
    );
    Err(Error::new(ErrorKind::Replaced, message))
}

fn selection_of(kept: KeptSelection<'_>) -> Result<Selection> {
    let number = |number: u64| {
        usize::try_from(number)
            .map_err(|_| Error::new(ErrorKind::Limit, "more samples than this machine can address"))
    };
    let len = number(kept.source_len)?;
    Ok(match kept.indices {
        Indices::Runs(runs) => {
            let run = |run: std::ops::Range<u64>| Ok(number(run.start)?..number(run.end)?);
            Selection::of_runs(runs.into_iter().map(run).collect::<Result<_>>()?)
        }
        Indices::Bits(bits) => {
            // Whole words: parsing has checked it.
            let words = bits.chunks_exact(8);
            let words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
            Selection::of_words(words.collect())
        }
        Indices::List(list) => {
            let list: Vec<usize> = list.into_iter().map(number).collect::<Result<_>>()?;
            Selection::new(len, list)?
        }
    })
}
