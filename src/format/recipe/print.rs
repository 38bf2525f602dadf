//! From a recipe to text that every reader of TOML 1.0 takes.

use super::VERSION;
use super::check::check;
use super::limits;
use super::model::{
    Base, Exhausted, How, JoinRule, MixtureRule, Output, Phase, Recipe, Source, Step,
};
use super::problem::{Place, Problem, key, string};
use crate::Value;
use crate::error::{Error, ErrorKind, Result};

/// The characters of a line with a list or a table; longer ones become several lines.
const WIDTH: usize = 100;

impl Recipe {
    /// The text of a file with this recipe: the same on every machine, and read back as an equal recipe.
    ///
    /// Fails for all that [`parse`](Self::parse) refuses, and for what TOML cannot hold, and names it. Users,
    /// passwords and signatures in URLs are refused, and not in the error either.
    pub fn print(&self) -> Result<String> {
        check(self)?;
        let mut top = Section::default();
        top.put("kiste", VERSION.to_string());
        match &self.output {
            Output::Source(name) if Recipe::last_source(&self.sources) == Some(name) => {}
            Output::Source(name) => top.list("concat", std::slice::from_ref(name)),
            Output::Concat(names) => top.list("concat", names),
            Output::Mixture(_) => {}
        }
        for (name, source) in &self.sources {
            top.tables.push((format!("source.{}", key(name)), false, source_section(source)));
        }
        if let Output::Mixture(rule) = &self.output {
            top.tables.push(("mixture".into(), false, mixture_section(rule)));
        }
        let mut text = String::new();
        top.print("", &mut text);
        match limits::check(&text) {
            Ok(()) => Ok(text),
            Err((_, Problem { expected, found, .. })) => {
                let problem = Problem::new(&Place::default(), expected, found);
                Err(Error::from(problem.of_kind(ErrorKind::Limit)))
            }
        }
    }
}

/// A table: its lines, and the tables below it with their names, and whether they are items of a list.
#[derive(Default)]
struct Section {
    lines: Vec<String>,
    tables: Vec<(String, bool, Section)>,
}

impl Section {
    fn print(&self, path: &str, text: &mut String) {
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        for (name, is_item, section) in &self.tables {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let (open, close) = if *is_item { ("[[", "]]") } else { ("[", "]") };
            text.push_str(&format!("\n{open}{path}{close}\n"));
            section.print(&path, text);
        }
    }

    fn put(&mut self, name: &str, value: String) {
        self.lines.push(format!("{name} = {value}"));
    }

    fn text(&mut self, name: &str, text: &str) {
        self.put(name, string(text));
    }

    fn list(&mut self, name: &str, texts: &[String]) {
        let items: Vec<String> = texts.iter().map(|text| string(text)).collect();
        let line = format!("[{}]", items.join(", "));
        match name.len() + line.chars().count() < WIDTH {
            true => self.put(name, line),
            false => self.put(name, format!("[\n    {},\n]", items.join(",\n    "))),
        }
    }

    fn one_or_more(&mut self, name: &str, texts: &[String]) {
        match texts {
            [text] => self.text(name, text),
            texts => self.list(name, texts),
        }
    }

    /// A table in a line, or one with a header if that is too long.
    fn table<'a>(&mut self, name: &str, entries: impl Iterator<Item = (&'a String, String)>) {
        let entries: Vec<String> =
            entries.map(|(name, value)| format!("{} = {value}", key(name))).collect();
        let line = inline(&entries);
        match name.len() + line.chars().count() < WIDTH {
            true => self.put(name, line),
            false => self.tables.push((
                name.into(),
                false,
                Section { lines: entries, tables: Vec::new() },
            )),
        }
    }

    fn base(&mut self, base: &Base) {
        match base {
            Base::Paths(paths) => self.one_or_more("path", paths),
            Base::Sources(names) => self.one_or_more("source", names),
        }
    }
}

fn inline(entries: &[String]) -> String {
    match entries {
        [] => "{}".into(),
        entries => format!("{{ {} }}", entries.join(", ")),
    }
}

fn source_section(source: &Source) -> Section {
    let mut section = Section::default();
    section.base(&source.base);
    if let Some(identity) = &source.identity {
        section.text("identity", identity);
    }
    for step in &source.steps {
        let name = step.key();
        match step {
            Step::Selection(text) | Step::Where(text) => section.text(name, text),
            Step::KeepKeys(texts) | Step::DropKeys(texts) => section.one_or_more(name, texts),
            Step::KeepFields(texts) | Step::DropFields(texts) => section.list(name, texts),
            Step::Rename(names) => {
                section.table(name, names.iter().map(|(old, new)| (old, string(new))));
            }
            Step::Join(join) => section.tables.push((name.into(), true, join_section(join))),
        }
    }
    if let Some(digests) = &source.digest {
        let lines =
            digests.iter().map(|(file, digest)| format!("{} = {}", key(file), string(digest)));
        let lines = Section { lines: lines.collect(), tables: Vec::new() };
        section.tables.push(("digest".into(), false, lines));
    }
    section
}

fn join_section(join: &JoinRule) -> Section {
    let mut section = Section::default();
    section.base(&join.with);
    if let Some(identity) = &join.identity {
        section.text("identity", identity);
    }
    if join.how == How::Left {
        section.text("how", "left");
    }
    if let Some(fields) = &join.fields {
        section.list("fields", fields);
    }
    if let Some(prefix) = &join.prefix {
        section.text("prefix", prefix);
    }
    let (null, other): (Vec<_>, Vec<_>) =
        join.missing.iter().partition(|(_, value)| value.is_nil());
    if !null.is_empty() {
        let names: Vec<String> = null.into_iter().map(|(name, _)| name.clone()).collect();
        section.list("missing_null", &names);
    }
    if !other.is_empty() {
        section.table("missing", other.into_iter().map(|(name, value)| (name, spelled(value))));
    }
    section
}

fn mixture_section(rule: &MixtureRule) -> Section {
    let mut section = Section::default();
    if let Some(samples) = rule.samples {
        section.put("samples", samples.to_string());
    }
    section.put("seed", rule.seed.to_string());
    if rule.sources != MixtureRule::weighed(&rule.phases) {
        section.list("sources", &rule.sources);
    }
    if let Some(column) = &rule.tokens {
        section.text("tokens", column);
    }
    if !rule.max_passes.is_empty() {
        let passes = rule.max_passes.iter().map(|(name, passes)| (name, passes.to_string()));
        section.table("max_passes", passes);
    }
    if rule.exhausted == Exhausted::Others {
        section.text("exhausted", "others");
    }
    let weights = |section: &mut Section, phase: &Phase| {
        section
            .table("weights", phase.weights.iter().map(|(name, weight)| (name, number(*weight))));
    };
    match &rule.phases[..] {
        [phase] if phase.from == 0 => weights(&mut section, phase),
        phases => {
            for phase in phases {
                let mut table = Section::default();
                table.put("from", phase.from.to_string());
                weights(&mut table, phase);
                section.tables.push(("phase".into(), true, table));
            }
        }
    }
    section
}

/// A weight: without `.0` where it is whole.
fn number(number: f64) -> String {
    match number.fract() == 0.0 && number.abs() < 1e15 {
        true => format!("{number:.0}"),
        false => format!("{number:?}"),
    }
}

/// A value of a sample that was checked.
fn spelled(value: &Value) -> String {
    match value {
        Value::F64(float) if float.is_nan() => "nan".into(),
        Value::F64(float) => format!("{float:?}"),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(spelled).collect::<Vec<_>>().join(", "))
        }
        Value::Map(entries) => {
            let entry = |(name, value): &(Value, Value)| {
                format!("{} = {}", key(name.as_str().unwrap_or_default()), spelled(value))
            };
            inline(&entries.iter().map(entry).collect::<Vec<_>>())
        }
        Value::String(text) => string(text.as_str().unwrap_or_default()),
        other => other.to_string(),
    }
}
