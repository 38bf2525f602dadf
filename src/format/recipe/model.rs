//! What a recipe says, as plain data.

use std::collections::HashSet;

use crate::Value;

/// A dataset made of others: its sources, and what is read of them.
///
/// ```
/// use kiste::format::recipe::{Base, Output, Recipe, Source, Step};
///
/// let web = Source {
///     steps: vec![Step::Where("len(text) > 100".into())],
///     ..Source::new(Base::Paths(vec!["web/*.msgpack".into()]))
/// };
/// let recipe = Recipe { sources: vec![("web".into(), web)], output: Output::Source("web".into()) };
/// let text = "kiste = 1\n\n[source.web]\npath = \"web/*.msgpack\"\nwhere = \"len(text) > 100\"\n";
/// assert_eq!(recipe.print()?, text);
/// assert_eq!(Recipe::parse(text)?, recipe);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// The sources by name, in the order of the file.
    pub sources: Vec<(String, Source)>,
    /// Which samples the dataset has.
    pub output: Output,
}

/// Samples from somewhere, and the steps that change which there are and what is in them.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Where the samples come from.
    pub base: Base,
    /// A text that tells the samples of the opened base from others: another one is an error.
    pub identity: Option<String>,
    /// Digests of the files that the source reads: the file, and `md5:`, `sha256:` or `blake3:` with the digest
    /// in hexadecimal digits.
    pub digest: Option<Vec<(String, String)>>,
    /// The steps, in the order of [`Step`].
    pub steps: Vec<Step>,
}

/// Where samples come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// Paths, patterns or URLs of datasets, one after another.
    Paths(Vec<String>),
    /// Other sources of the recipe, one after another.
    Sources(Vec<String>),
}

/// A step. Steps are carried out in the order of this list, each kind once; only joins may repeat.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The samples of a kept selection, which is in this file.
    Selection(String),
    /// Only samples whose keys are in one of these files of lines, or datasets.
    KeepKeys(Vec<String>),
    /// Only samples whose keys are in none of these files of lines, or datasets.
    DropKeys(Vec<String>),
    /// Only samples that meet this condition.
    Where(String),
    /// Fields of another dataset, by key.
    Join(JoinRule),
    /// The key and these fields.
    KeepFields(Vec<String>),
    /// All fields but these.
    DropFields(Vec<String>),
    /// New names of fields: the old one, the new one.
    Rename(Vec<(String, String)>),
}

/// Adds the fields of the sample with the same key in another dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinRule {
    /// The other dataset.
    pub with: Base,
    /// As in [`Source`].
    pub identity: Option<String>,
    /// What happens to samples that the other dataset lacks.
    pub how: How,
    /// Which of its fields: all but the key, if not given.
    pub fields: Option<Vec<String>>,
    /// Text in front of their names.
    pub prefix: Option<String>,
    /// Values of fields for samples that the other dataset lacks, under the names that the other dataset has for
    /// them. The order has no meaning; a file has those that are nil last.
    pub missing: Vec<(String, Value)>,
}

/// What a join does with samples that the other dataset lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum How {
    /// They are left out.
    #[default]
    Inner,
    /// They stay, with the values of [`JoinRule::missing`].
    Left,
}

/// Which samples a recipe's dataset has.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// All of a source.
    Source(String),
    /// Sources, one after another: two or more. One alone comes back as [`Output::Source`].
    Concat(Vec<String>),
    /// Samples drawn from sources.
    Mixture(MixtureRule),
}

/// Samples drawn from sources by weight.
#[derive(Debug, Clone, PartialEq)]
pub struct MixtureRule {
    /// The length of an epoch.
    pub samples: Option<u64>,
    /// What the draws depend on; a file can hold it up to `i64::MAX`.
    pub seed: u64,
    /// The sources, whose order the draws depend on. In a file that names none: in the order in which the weights
    /// name them.
    pub sources: Vec<String>,
    /// The column of lengths that weights are shares of, in place of samples.
    pub tokens: Option<String>,
    /// How often all samples of a source may be drawn, at most.
    pub max_passes: Vec<(String, u64)>,
    /// What happens when a source has no passes left.
    pub exhausted: Exhausted,
    /// The weights over time, from 0 on.
    pub phases: Vec<Phase>,
}

/// What a mixture does when a source has no passes left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exhausted {
    /// It is an error.
    #[default]
    Error,
    /// The other sources go on, in proportion to their weights.
    Others,
}

/// Weights from some position on.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// The first position that they hold for.
    pub from: u64,
    /// The weight of each source; one that is not named has 0.
    pub weights: Vec<(String, f64)>,
}

impl Source {
    /// A source without steps.
    pub fn new(base: Base) -> Source {
        Source { base, identity: None, digest: None, steps: Vec::new() }
    }

    /// Whether a step may follow those that there are. If not, it belongs to another source on top of this one.
    ///
    /// ```
    /// use kiste::format::recipe::{Base, Source, Step};
    ///
    /// let mut source = Source::new(Base::Paths(vec!["a.msgpack".into()]));
    /// source.steps.push(Step::Where("a > 1".into()));
    /// assert!(source.accepts(&Step::DropFields(vec!["a".into()])));
    /// assert!(!source.accepts(&Step::KeepKeys(vec!["good.txt".into()])));
    /// ```
    pub fn accepts(&self, step: &Step) -> bool {
        self.steps.last().is_none_or(|last| last.may_precede(step))
    }
}

impl Step {
    fn rank(&self) -> u8 {
        match self {
            Step::Selection(_) => 0,
            Step::KeepKeys(_) => 1,
            Step::DropKeys(_) => 2,
            Step::Where(_) => 3,
            Step::Join(_) => 4,
            Step::KeepFields(_) => 5,
            Step::DropFields(_) => 6,
            Step::Rename(_) => 7,
        }
    }

    pub(super) fn may_precede(&self, next: &Step) -> bool {
        match (self, next) {
            (Step::Join(_), Step::Join(_)) => true,
            // Together they say nothing that the first alone does not.
            (Step::KeepFields(_), Step::DropFields(_)) => false,
            _ => self.rank() < next.rank(),
        }
    }

    /// The name of its key in a file.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Step::Selection(_) => "selection",
            Step::KeepKeys(_) => "keep_keys",
            Step::DropKeys(_) => "drop_keys",
            Step::Where(_) => "where",
            Step::Join(_) => "join",
            Step::KeepFields(_) => "keep_fields",
            Step::DropFields(_) => "drop_fields",
            Step::Rename(_) => "rename",
        }
    }
}

impl Base {
    /// The names of other sources in it.
    pub(super) fn sources(&self) -> &[String] {
        match self {
            Base::Paths(_) => &[],
            Base::Sources(names) => names,
        }
    }
}

impl Source {
    /// The names of all sources that it reads, in its base and in joins.
    pub(super) fn reads(&self) -> impl Iterator<Item = &str> {
        let joined = self.steps.iter().flat_map(|step| match step {
            Step::Join(join) => join.with.sources(),
            _ => &[],
        });
        self.base.sources().iter().chain(joined).map(String::as_str)
    }
}

impl Recipe {
    /// The source that no other reads, if there is just one.
    pub(super) fn last_source(sources: &[(String, Source)]) -> Option<&str> {
        let read: HashSet<&str> = sources.iter().flat_map(|(_, source)| source.reads()).collect();
        let mut unread =
            sources.iter().map(|(name, _)| &name[..]).filter(|name| !read.contains(name));
        let first = unread.next();
        first.filter(|_| unread.next().is_none())
    }
}

impl MixtureRule {
    /// The sources in the order in which the weights name them.
    pub(super) fn weighed(phases: &[Phase]) -> Vec<String> {
        let mut seen = HashSet::new();
        let names = phases.iter().flat_map(|phase| &phase.weights).map(|(name, _)| name);
        names.filter(|name| seen.insert(&name[..])).cloned().collect()
    }
}
