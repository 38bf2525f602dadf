//! From text to a recipe.

use toml::de::{DeTable, DeValue};

use super::check::{check, hint};
use super::limits;
use super::model::{
    Base, Exhausted, How, JoinRule, MixtureRule, Output, Phase, Recipe, Source, Step,
};
use super::problem::{Checked, Part, Place, Problem, quoted};
use super::{RecipeError, VERSION};
use crate::Value;
use crate::error::ErrorKind;

const TOP: [&str; 4] = ["kiste", "concat", "source", "mixture"];
const SOURCE: [&str; 12] = [
    "path",
    "source",
    "identity",
    "selection",
    "keep_keys",
    "drop_keys",
    "where",
    "join",
    "keep_fields",
    "drop_fields",
    "rename",
    "digest",
];
const JOIN: [&str; 8] =
    ["path", "source", "identity", "how", "fields", "prefix", "missing", "missing_null"];
const MIXTURE: [&str; 8] =
    ["samples", "seed", "sources", "tokens", "max_passes", "exhausted", "weights", "phase"];
const PHASE: [&str; 2] = ["from", "weights"];

impl Recipe {
    /// Reads a recipe. What it names is not opened, and conditions are not parsed.
    ///
    /// ```
    /// use kiste::format::recipe::Recipe;
    ///
    /// let err = Recipe::parse("kiste = 1\n[source.web]\npaht = \"web.msgpack\"\n").unwrap_err();
    /// assert_eq!((err.line, err.column), (3, 1));
    /// assert!(err.found.ends_with("(did you mean \"path\"?)"));
    /// ```
    pub fn parse(text: &str) -> Result<Recipe, RecipeError> {
        limits::check(text).map_err(|(at, problem)| problem.at(text, at))?;
        let document = DeTable::parse(text).map_err(|error| not_toml(text, &error))?;
        let root = Table { table: document.get_ref(), place: Place::default() };
        let recipe = recipe(&root).and_then(|recipe| check(&recipe).map(|()| recipe));
        recipe.map_err(|problem| {
            let at = locate(root.table, &problem);
            problem.at(text, at)
        })
    }
}

fn not_toml(text: &str, error: &toml::de::Error) -> RecipeError {
    let (expected, found) = match error.message() {
        message if message.starts_with("duplicate key") => {
            ("each key once", "this one again".to_owned())
        }
        message => ("TOML", format!("other text: {message}")),
    };
    let at = error.span().map_or(0, |span| span.start);
    Problem::new(&Place::default(), expected, found).at(text, at)
}

/// The byte at which something is wrong: of the value there, of its name, or of what holds it.
fn locate(root: &DeTable<'_>, problem: &Problem) -> usize {
    let parts = &problem.place.0;
    let (mut at, mut value, mut table) = (0, None, Some(root));
    for (depth, part) in parts.iter().enumerate() {
        let found = match part {
            Part::Key(name) => table.and_then(|table| table.get_key_value(&name[..])),
            Part::Item(item) => {
                let items = value.and_then(DeValue::as_array);
                let Some(item) = items.and_then(|items| items.get(*item)) else { break };
                at = item.span().start;
                value = Some(item.get_ref());
                table = item.get_ref().as_table();
                continue;
            }
        };
        let Some((name, found)) = found else { break };
        let is_name = problem.is_name && depth + 1 == parts.len();
        at = if is_name { name.span().start } else { found.span().start };
        value = Some(found.get_ref());
        table = found.get_ref().as_table();
    }
    at
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A value and where it is.
struct Item<'t> {
    value: &'t DeValue<'t>,
    place: Place,
}

struct Table<'t> {
    table: &'t DeTable<'t>,
    place: Place,
}

impl<'t> Table<'t> {
    fn get(&self, key: &str) -> Option<Item<'t>> {
        let value = self.table.get(key)?.get_ref();
        Some(Item { value, place: self.place.to(key) })
    }

    /// All entries, in the order of the file.
    fn entries(&self) -> Vec<(&'t str, Item<'t>)> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let entry = |(name, value): (
            &'t toml::Spanned<toml::de::DeString<'t>>,
            &'t toml::Spanned<DeValue<'t>>,
        )| {
            let name = &name.get_ref()[..];
            (name, Item { value: value.get_ref(), place: self.place.to(name) })
        };
        entries.into_iter().map(entry).collect()
    }

    fn has_only(&self, known: &[&str]) -> Checked {
        let unknown = self.entries().into_iter().find(|(name, _)| !known.contains(name));
        let Some((name, item)) = unknown else { return Ok(()) };
        let hint = hint(name, known.iter().copied());
        let expected = match &self.place.0[..] {
            [] => format!("one of {} at the top", known.join(", ")),
            _ => format!("one of {}", known.join(", ")),
        };
        Err(Problem::new(&item.place, expected, format!("the key {}{hint}", quoted(name)))
            .of_name())
    }

    fn text(&self, key: &str) -> Checked<Option<String>> {
        self.get(key).map(|item| item.text()).transpose()
    }

    fn texts(&self, key: &str) -> Checked<Option<Vec<String>>> {
        self.get(key).map(|item| item.list(Item::text)).transpose()
    }

    /// A list of texts, or the one that stands for it.
    fn one_or_more(&self, key: &str) -> Checked<Option<Vec<String>>> {
        let Some(item) = self.get(key) else { return Ok(None) };
        match item.value {
            DeValue::String(text) => Ok(Some(vec![text[..].to_owned()])),
            DeValue::Array(_) => item.list(Item::text).map(Some),
            _ => Err(item.wrong("a text or a list of texts")),
        }
    }

    fn integer(&self, key: &str) -> Checked<Option<u64>> {
        self.get(key).map(|item| item.integer()).transpose()
    }

    /// One of these words, or the default.
    fn word<T: Copy + Default>(&self, key: &str, words: [(&str, T); 2]) -> Checked<T> {
        let Some(item) = self.get(key) else { return Ok(T::default()) };
        let text = item.text()?;
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let [(first, _), (second, _)] = words;
            Problem::new(&item.place, format!("\"{first}\" or \"{second}\""), quoted(&text))
        })
    }

    /// The entries of a table, each read by a function.
    fn map<T>(
        &self,
        key: &str,
        read: impl Fn(&Item<'t>) -> Checked<T>,
    ) -> Checked<Option<Vec<(String, T)>>> {
        let Some(item) = self.get(key) else { return Ok(None) };
        let entries = item.table()?.entries().into_iter();
        let read = entries.map(|(name, item)| Ok((name.to_owned(), read(&item)?)));
        read.collect::<Checked<_>>().map(Some)
    }

    /// A path or sources: one of both.
    fn base(&self) -> Checked<Base> {
        match (self.one_or_more("path")?, self.one_or_more("source")?) {
            (Some(paths), None) => Ok(Base::Paths(paths)),
            (None, Some(names)) => Ok(Base::Sources(names)),
            (None, None) => Err(Problem::new(&self.place, "`path` or `source`", "neither")),
            (Some(_), Some(_)) => {
                Err(Problem::new(&self.place.to("source"), "`path` or `source`", "both").of_name())
            }
        }
    }
}

impl<'t> Item<'t> {
    fn wrong(&self, expected: &str) -> Problem {
        Problem::new(&self.place, expected, kind(self.value))
    }

    fn table(&self) -> Checked<Table<'t>> {
        let table = self.value.as_table().ok_or_else(|| self.wrong("a table"))?;
        Ok(Table { table, place: self.place.clone() })
    }

    fn text(&self) -> Checked<String> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.wrong("a text"))
    }

    fn list<T>(&self, read: impl Fn(&Item<'t>) -> Checked<T>) -> Checked<Vec<T>> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("a list"))?;
        let item = |(at, value): (usize, &'t toml::Spanned<DeValue<'t>>)| {
            read(&Item { value: value.get_ref(), place: self.place.to(at) })
        };
        items.iter().enumerate().map(item).collect()
    }

    fn signed(&self) -> Checked<i64> {
        let integer = self.value.as_integer().ok_or_else(|| self.wrong("an integer"))?;
        i64::from_str_radix(integer.as_str(), integer.radix()).map_err(|_| {
            Problem::new(&self.place, "an integer of 64 bits", quoted(integer.as_str()))
        })
    }

    fn integer(&self) -> Checked<u64> {
        let found = self.signed()?;
        u64::try_from(found).map_err(|_| {
            Problem::new(
                &self.place,
                format!("an integer from 0 to {}", i64::MAX),
                found.to_string(),
            )
        })
    }

    fn number(&self) -> Checked<f64> {
        match self.value {
            DeValue::Integer(_) => Ok(self.signed()? as f64),
            DeValue::Float(float) => match float.as_str().parse::<f64>() {
                Ok(number)
                    if number.is_finite()
                        || !float.as_str().contains(|c: char| c.is_ascii_digit()) =>
                {
                    Ok(number)
                }
                _ => Err(Problem::new(&self.place, "a float of 64 bits", quoted(float.as_str()))),
            },
            _ => Err(self.wrong("a number")),
        }
    }

    /// A value of a sample. The parser of TOML limits how deep it is.
    fn value(&self) -> Checked<Value> {
        Ok(match self.value {
            DeValue::String(text) => Value::from(&text[..]),
            DeValue::Integer(_) => Value::from(self.signed()?),
            DeValue::Float(_) => Value::F64(self.number()?),
            DeValue::Boolean(truth) => Value::Boolean(*truth),
            DeValue::Datetime(_) => {
                return Err(self.wrong("a text, number, boolean, list or table"));
            }
            DeValue::Array(_) => Value::Array(self.list(Item::value)?),
            DeValue::Table(_) => {
                let entries = self.table()?.entries().into_iter();
                let entry = |(name, item): (&str, Item)| Ok((Value::from(name), item.value()?));
                Value::Map(entries.map(entry).collect::<Checked<_>>()?)
            }
        })
    }
}

fn recipe(root: &Table) -> Checked<Recipe> {
    check_version(root)?;
    root.has_only(&TOP)?;
    let sources = match root.get("source") {
        Some(item) => item.table()?.entries(),
        None => Vec::new(),
    };
    let named = |(name, item): (&str, Item)| Ok((name.to_owned(), source(&item.table()?)?));
    let sources = sources.into_iter().map(named).collect::<Checked<Vec<_>>>()?;
    match output(root, &sources)? {
        Some(output) => Ok(Recipe { sources, output }),
        None => Err(no_output(sources)),
    }
}

/// The version comes first: nothing else is known of another one.
fn check_version(root: &Table) -> Checked {
    match root.integer("kiste")? {
        Some(VERSION) => Ok(()),
        Some(found) => {
            let expected = format!("version {VERSION} of the format of recipes");
            let found = match found > VERSION {
                true => format!("version {found}, which a newer kiste reads"),
                false => format!("version {found}"),
            };
            Err(Problem::new(&Place::of(&["kiste"]), expected, found)
                .of_kind(ErrorKind::Unsupported))
        }
        None => Err(Problem::new(
            &Place::default(),
            format!("`kiste = {VERSION}`, the version of the format"),
            "no such key",
        )),
    }
}

/// What the file says, or the last source, if there is just one.
fn output(root: &Table, sources: &[(String, Source)]) -> Checked<Option<Output>> {
    match (root.one_or_more("concat")?, root.get("mixture")) {
        (Some(_), Some(item)) => {
            Err(Problem::new(&item.place, "`concat` or `mixture`", "both").of_name())
        }
        (None, Some(item)) => Ok(Some(Output::Mixture(mixture(&item.table()?)?))),
        (Some(names), None) => Ok(Some(match <[String; 1]>::try_from(names) {
            Ok([name]) => Output::Source(name),
            Err(names) => Output::Concat(names),
        })),
        (None, None) => {
            Ok(Recipe::last_source(sources).map(|name| Output::Source(name.to_owned())))
        }
    }
}

/// Names all sources, unless something else is wrong with them, such as a circle.
fn no_output(sources: Vec<(String, Source)>) -> Problem {
    let names = sources.iter().map(|(name, _)| name.clone()).collect();
    let recipe = Recipe { sources, output: Output::Concat(names) };
    if let Err(problem) = check(&recipe) {
        return problem;
    }
    let names = recipe.sources.iter().take(3).map(|(name, _)| quoted(name));
    let names = names.collect::<Vec<_>>().join(", ");
    let more = if recipe.sources.len() > 3 { ", …" } else { "" };
    let expected = format!("`concat = [{names}{more}]` or [mixture]");
    Problem::new(&Place::default(), expected, "more than one source that no other reads")
}

fn source(table: &Table) -> Checked<Source> {
    table.has_only(&SOURCE)?;
    let mut steps = Vec::new();
    steps.extend(table.text("selection")?.map(Step::Selection));
    steps.extend(table.one_or_more("keep_keys")?.map(Step::KeepKeys));
    steps.extend(table.one_or_more("drop_keys")?.map(Step::DropKeys));
    steps.extend(table.text("where")?.map(Step::Where));
    if let Some(item) = table.get("join") {
        steps.extend(item.list(|item| join(&item.table()?))?.into_iter().map(Step::Join));
    }
    steps.extend(table.texts("keep_fields")?.map(Step::KeepFields));
    steps.extend(table.texts("drop_fields")?.map(Step::DropFields));
    steps.extend(table.map("rename", Item::text)?.map(Step::Rename));
    Ok(Source {
        base: table.base()?,
        identity: table.text("identity")?,
        digest: table.map("digest", Item::text)?,
        steps,
    })
}

fn join(table: &Table) -> Checked<JoinRule> {
    table.has_only(&JOIN)?;
    let mut missing = table.map("missing", Item::value)?.unwrap_or_default();
    let null = table.texts("missing_null")?.unwrap_or_default();
    missing.extend(null.into_iter().map(|name| (name, Value::Nil)));
    Ok(JoinRule {
        with: table.base()?,
        identity: table.text("identity")?,
        how: table.word("how", [("inner", How::Inner), ("left", How::Left)])?,
        fields: table.texts("fields")?,
        prefix: table.text("prefix")?,
        missing,
    })
}

fn mixture(table: &Table) -> Checked<MixtureRule> {
    table.has_only(&MIXTURE)?;
    let weights = table.map("weights", Item::number)?;
    let phases =
        table.get("phase").map(|item| item.list(|item| phase(&item.table()?))).transpose()?;
    let phases = match (weights, phases) {
        (Some(_), Some(_)) => {
            let place = table.place.to("phase");
            return Err(Problem::new(&place, "`weights` or `phase`", "both").of_name());
        }
        (Some(weights), None) => vec![Phase { from: 0, weights }],
        (None, phases) => phases.unwrap_or_default(),
    };
    if phases.is_empty() {
        return Err(Problem::new(&table.place, "`weights`, or a `phase` with some", "neither"));
    }
    let sources = table.texts("sources")?.unwrap_or_else(|| MixtureRule::weighed(&phases));
    Ok(MixtureRule {
        samples: table.integer("samples")?,
        seed: table.integer("seed")?.unwrap_or_default(),
        sources,
        tokens: table.text("tokens")?,
        max_passes: table.map("max_passes", Item::integer)?.unwrap_or_default(),
        exhausted: table
            .word("exhausted", [("error", Exhausted::Error), ("others", Exhausted::Others)])?,
        phases,
    })
}

fn phase(table: &Table) -> Checked<Phase> {
    table.has_only(&PHASE)?;
    let needed = |key: &str| Problem::new(&table.place, format!("`{key}`"), "none");
    Ok(Phase {
        from: table.integer("from")?.ok_or_else(|| needed("from"))?,
        weights: table.map("weights", Item::number)?.ok_or_else(|| needed("weights"))?,
    })
}
