//! [`View`]: a dataset made of others.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::concat::concat;
use super::dedupe::first_of_each;
use super::keys;
use super::made::{Leaf, LeftOut, Made, lineage};
use super::mixture::{MixtureOptions, mixture};
use super::open::{Doing, ViewOptions};
use crate::dataset::DatasetReader;
use crate::error::{Error, ErrorKind, Result};
use crate::format::recipe::MixtureRule;
use crate::reader::{
    FieldNames, FieldsReader, Join, JoinReader, Reader, SelectReader, Selection, Shared,
};
use crate::rearrange::{Chosen, Expression};
use crate::sampler::Mixture;

/// A dataset that was opened, or made of others without a copy. Clones are cheap.
///
/// ```
/// use kiste::compose::View;
/// use kiste::reader::{FieldNames, Reader};
///
/// # let dir = tempfile::tempdir()?;
/// # for name in ["a", "b"] {
/// #     let mut writer = kiste::Writer::create(dir.path().join(name).with_extension("msgpack"))?;
/// #     for n in 0..3u8 {
/// #         writer.write(&std::collections::BTreeMap::from([("key", format!("{name}{n}")), ("n", n.to_string())]))?;
/// #     }
/// #     writer.finish()?;
/// # }
/// let a = View::open(dir.path().join("a.msgpack"))?;
/// let b = View::open(dir.path().join("b.msgpack"))?;
/// let some = View::concat([a, b.filter("n != '1'", &mut |_| Ok(()))?])?;
/// assert_eq!(some.reader().len(), 5);
/// assert_eq!(some.reader().find("b2")?, Some(4));
///
/// let named = some.with_fields(FieldNames::all().rename("n", "number")?, &mut |_| Ok(()))?;
/// named.save(dir.path().join("some.kiste.toml"), false)?;
/// let again = kiste::open(dir.path().join("some.kiste.toml"))?;
/// assert_eq!(again.get(4)?["number"].as_str(), Some("2"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct View(Arc<Inner>);

pub(super) struct Inner {
    reader: Arc<dyn Reader>,
    made: Made,
    /// Views below one another. Reading a sample goes through all of them.
    depth: usize,
    /// Datasets in it, as often as they are there.
    leaves: u64,
    lineage: OnceLock<String>,
}

/// More views below one another are refused: a loop makes one of the last one, most likely.
const MAX_DEPTH: usize = 200;
/// More datasets are refused, as a recipe may name each of its sources many times.
const MAX_LEAVES: u64 = 100_000;

impl View {
    pub(super) fn new(reader: Arc<dyn Reader>, made: Made) -> Result<View> {
        let depth = made.parts().into_iter().map(|part| part.0.depth + 1).max().unwrap_or(0);
        if depth > MAX_DEPTH {
            let message = format!(
                "expected at most {MAX_DEPTH} steps on one another, found more: one step with all keys or indices does the same"
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let parts = made.parts().into_iter();
        let leaves = parts.fold(0u64, |all, part| all.saturating_add(part.0.leaves)).max(1);
        if leaves > MAX_LEAVES {
            let message =
                format!("expected at most {MAX_LEAVES} datasets in one another, found more");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(View(Arc::new(Inner { reader, made, depth, leaves, lineage: OnceLock::new() })))
    }

    pub(super) fn made(&self) -> &Made {
        &self.0.made
    }

    /// What tells these samples from others, made of sources and rules: not of what the rules chose.
    pub(super) fn lineage(&self) -> Result<&str> {
        if let Some(known) = self.0.lineage.get() {
            return Ok(known);
        }
        let made = lineage(self, Leaf::Recorded)?;
        Ok(self.0.lineage.get_or_init(|| made))
    }

    /// Remembers what a recipe tells these samples by.
    pub(super) fn told_as(&self, told: &str) {
        let _ = self.0.lineage.set(told.to_owned());
    }

    /// Opens a dataset, the shards of a manifest or of a pattern, or a recipe, on a disk or behind a URL.
    ///
    /// # Errors
    ///
    /// The errors of [`kiste::open`](crate::open); [`Damaged`](ErrorKind::Damaged) for a recipe that is none,
    /// [`Replaced`](ErrorKind::Replaced) for one whose sources have changed.
    pub fn open(name: impl AsRef<std::path::Path>) -> Result<View> {
        View::options().open(name, &mut |_| Ok(()))
    }

    /// The options, to be changed before [`open`](ViewOptions::open).
    pub fn options() -> ViewOptions {
        ViewOptions::default()
    }

    /// A view of a reader of yours. It cannot be saved, as it has no name.
    pub fn of(reader: Arc<dyn Reader>) -> View {
        let lineage = OnceLock::new();
        View(Arc::new(Inner { reader, made: Made::Given, depth: 0, leaves: 1, lineage }))
    }

    /// The samples.
    pub fn reader(&self) -> &Arc<dyn Reader> {
        &self.0.reader
    }

    /// Views one after the other. Of samples with one key the first counts. Labels are numbered by their names, if the
    /// views have different ones.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for no view at all, and if some have names for their labels and others numbers
    /// without names.
    pub fn concat(views: impl IntoIterator<Item = View>) -> Result<View> {
        let mut views: Vec<View> = views.into_iter().collect();
        if views.len() == 1 {
            return Ok(views.remove(0));
        }
        if views.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "expected at least one view, found none"));
        }
        let reader = concat(&views)?;
        View::new(reader, Made::Concat(views))
    }

    /// Consecutive samples.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a range that is not within the view.
    pub fn range(&self, range: Range<usize>) -> Result<View> {
        let len = self.0.reader.len();
        if range.start > range.end || range.end > len {
            let message = format!("expected a range within 0..{len}, found {range:?}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let how = format!("range({}, {})", range.start, range.end);
        self.chosen(Selection::of_range(range), how, None)
    }

    /// The samples of these indices, in this order; an index may come more than once.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there is no such index.
    pub fn select(&self, indices: impl IntoIterator<Item = usize>) -> Result<View> {
        let selection = Selection::new(self.0.reader.len(), indices)?;
        let how = format!("select({} indices)", selection.len());
        self.chosen(selection, how, None)
    }

    /// The samples with these keys, in this order.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) if there is no such key.
    pub fn select_keys<K: AsRef<str>>(&self, keys: impl IntoIterator<Item = K>) -> Result<View> {
        let reader = SelectReader::from_keys(self.0.reader.clone(), keys)?;
        let how = format!("select({} keys)", reader.len());
        self.chosen(reader.selection().clone(), how, None)
    }

    /// The samples whose place in the mask is true.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a mask of another length.
    pub fn select_mask(&self, mask: &[bool]) -> Result<View> {
        let len = self.0.reader.len();
        if mask.len() != len {
            let message = format!("expected a mask of {len}, found one of {}", mask.len());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let indices = mask.iter().enumerate().filter(|(_, take)| **take);
        self.select(indices.map(|(index, _)| index))
    }

    /// The samples whose keys are none of these. A key that no sample has is passed over, and counted in
    /// [`left_out`](Self::left_out).
    pub fn without_keys<K: AsRef<str>>(&self, keys: impl IntoIterator<Item = K>) -> Result<View> {
        let keys: Vec<K> = keys.into_iter().collect();
        let (selection, left_out) = keys::choose(self, &keys, false, "without")?;
        let how = format!("without({} keys)", keys.len());
        self.chosen(selection, how, Some(left_out))
    }

    /// The samples that meet a condition, whose language [`Expression`] describes. It is evaluated now, once;
    /// `progress` hears how far it is, and its error ends the search.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a condition that makes no sense, and the errors of
    /// [`Expression::choose`].
    pub fn filter(
        &self,
        condition: &str,
        progress: &mut dyn FnMut(Doing<'_>) -> Result<()>,
    ) -> Result<View> {
        let meaning = self.meaning(condition)?;
        let total = self.0.reader.len() as u64;
        let chosen = meaning.choose(&*self.0.reader, |done| {
            progress(Doing { what: "evaluating a condition", done, total })
        })?;
        self.met(condition, &chosen)
    }

    /// The samples that meet a condition, where they were chosen before.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a condition that makes no sense, and if there is no such sample.
    pub fn filter_chosen(&self, condition: &str, chosen: &Chosen) -> Result<View> {
        self.meaning(condition)?;
        self.met(condition, chosen)
    }

    fn met(&self, condition: &str, chosen: &Chosen) -> Result<View> {
        let len = self.0.reader.len();
        let selection = Selection::new(len, chosen.indices.iter().copied())?;
        let mut left_out = LeftOut::samples("where", len - selection.len());
        left_out.remarks = chosen.mismatches.iter().map(ToString::to_string).collect();
        self.filtered(condition, selection, left_out)
    }

    /// A condition with the numbers of this view's labels.
    pub(super) fn meaning(&self, condition: &str) -> Result<Expression> {
        let parsed: Expression = condition.parse()?;
        Ok(match self.0.reader.labels()? {
            Some(labels) => parsed.with_labels(&labels)?,
            None => parsed,
        })
    }

    /// The samples that are known to meet a condition.
    pub(super) fn filtered(
        &self,
        condition: &str,
        selection: Selection,
        left_out: LeftOut,
    ) -> Result<View> {
        let reader = Arc::new(SelectReader::of(self.0.reader.clone(), selection)?);
        let (of, condition) = (self.clone(), condition.to_owned());
        let made = Made::Filtered { of, condition, reader: reader.clone(), left_out };
        View::new(reader, made)
    }

    /// Some of the fields, or other names for them.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a field that no sample has.
    pub fn with_fields(
        &self,
        names: FieldNames,
        progress: &mut dyn FnMut(Doing<'_>) -> Result<()>,
    ) -> Result<View> {
        let reader = FieldsReader::new(self.0.reader.clone(), names.clone());
        let total = self.0.reader.len() as u64;
        reader.check(|done| progress(Doing { what: "looking for fields", done, total }))?;
        self.renamed(names)
    }

    /// The same without a look at the samples. A view for each step that a recipe has: fields to keep or to leave out, other
    /// names.
    pub(super) fn renamed(&self, names: FieldNames) -> Result<View> {
        let (chosen, renamed) = names.parts();
        [chosen, renamed].into_iter().flatten().try_fold(self.clone(), |of, names| {
            let reader = FieldsReader::new(of.0.reader.clone(), names.clone());
            View::new(Arc::new(reader), Made::Fields { of, names })
        })
    }

    /// Adds the fields that another view has for the keys of this one.
    ///
    /// # Errors
    ///
    /// The errors of [`JoinReader::new`].
    pub fn join(
        &self,
        other: &View,
        join: Join,
        progress: &mut dyn FnMut(Doing<'_>) -> Result<()>,
    ) -> Result<View> {
        let (left, right) = (self.0.reader.clone(), other.0.reader.clone());
        let total = left.len() as u64;
        let joined = JoinReader::new(left, right, join.clone(), |done| {
            progress(Doing { what: "joining by key", done, total })
        })?;
        let unmatched = joined.unmatched() as u64;
        let made = Made::Joined { of: self.clone(), with: other.clone(), join, unmatched };
        View::new(Arc::new(joined), made)
    }

    /// The first of all samples with one key, or with one value of a field. Values are compared as they are packed: 1 and
    /// 1.0 differ. Samples without the field stay.
    pub fn dedupe(
        &self,
        by: Option<&str>,
        progress: &mut dyn FnMut(Doing<'_>) -> Result<()>,
    ) -> Result<View> {
        let selection = first_of_each(&*self.0.reader, by, progress)?;
        let how = by.map_or("dedupe()".to_owned(), |by| format!("dedupe(by={by:?})"));
        let left_out = LeftOut::samples("dedupe", self.0.reader.len() - selection.len());
        self.chosen(selection, how, Some(left_out))
    }

    /// Samples drawn from named sources by weight: see [`MixtureOptions`]. Length, index and key are those of
    /// [`concat`](Self::concat); the order is that of [`sampler`](Self::sampler).
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for names and numbers that make no sense; the errors of
    /// [`concat`](Self::concat).
    pub fn mixture<S: Into<String>>(
        sources: impl IntoIterator<Item = (S, View)>,
        options: MixtureOptions,
    ) -> Result<View> {
        let sources = sources.into_iter().map(|(name, view)| (name.into(), view)).collect();
        mixture(sources, options)
    }

    /// The order of a mixture; `None` for other views.
    pub fn sampler(&self) -> Option<&Mixture> {
        match self.made() {
            Made::Mixture { sampler, .. } => Some(sampler),
            made if made.keeps_order() => made.parts().first()?.sampler(),
            _ => None,
        }
    }

    /// What a mixture is made by, as a recipe has it; `None` for other views.
    pub fn mixture_rule(&self) -> Option<MixtureRule> {
        match self.made() {
            Made::Mixture { sources, options, .. } => Some(options.rule(sources)),
            Made::Recipe { of, .. } => of.mixture_rule(),
            _ => None,
        }
    }

    /// The name that it was opened by: of a dataset or of a recipe.
    pub fn name(&self) -> Option<&std::path::Path> {
        match self.made() {
            Made::Opened { name, .. } | Made::Recipe { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The sources of the mixture whose order this has.
    #[cfg(feature = "stat")]
    pub(super) fn mixed(&self) -> Option<&[(String, View)]> {
        match self.made() {
            Made::Mixture { sources, .. } => Some(sources),
            made if made.keeps_order() => made.parts().first()?.mixed(),
            _ => None,
        }
    }

    /// The sources that a recipe or a mixture is made of, by their names, in the order of their indices.
    pub fn sources(&self) -> Option<&[(String, View)]> {
        match self.made() {
            Made::Mixture { sources, .. } | Made::Recipe { sources, .. } => Some(sources),
            _ => None,
        }
    }

    /// Samples whose keys come before: the index of the first one with that key and of the later one, ascending by the
    /// later one.
    pub fn duplicates(
        &self,
        progress: &mut dyn FnMut(Doing<'_>) -> Result<()>,
    ) -> Result<Vec<(usize, usize)>> {
        super::dedupe::duplicates(&*self.0.reader, progress)
    }

    /// What was left out on the way to this view, and why, in the order in which it was made.
    pub fn left_out(&self) -> Vec<LeftOut> {
        let mut all = Vec::new();
        self.made().collect_left_out(&mut all);
        all
    }

    /// The datasets that were opened for it.
    pub fn datasets(&self) -> Vec<DatasetReader> {
        let mut all = Vec::new();
        self.made().collect_datasets(&mut all);
        all
    }

    /// The dataset that this is, if it was opened by its name and is not made of others.
    pub fn dataset(&self) -> Option<&DatasetReader> {
        match self.made() {
            Made::Opened { dataset, .. } => Some(dataset),
            _ => None,
        }
    }

    pub(super) fn chosen(
        &self,
        selection: Selection,
        how: String,
        left_out: Option<LeftOut>,
    ) -> Result<View> {
        let reader = Arc::new(SelectReader::of(self.0.reader.clone(), selection)?);
        let made = Made::Selected { of: self.clone(), reader: reader.clone(), how, left_out };
        View::new(reader, made)
    }
}

/// Says how it was made, and of how many samples it is.
impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({}, {} samples)", self, self.0.reader.len())
    }
}

/// How it was made.
impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.made().fmt(f)
    }
}

/// What a join does with fields that both sides have, as a prefix; an error if it is none.
pub(super) fn prefix_of(join: &Join) -> Result<Option<&str>> {
    match join.shared_fields() {
        Shared::Refuse => Ok(None),
        Shared::Prefix(prefix) => Ok(Some(prefix)),
        Shared::Right => {
            let message = "a recipe has no join in which fields take the place of others: a prefix tells them apart";
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}
