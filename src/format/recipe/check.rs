//! Rules beyond the types of values: what parsing refuses, and printing before it writes such a text.

use std::collections::{HashMap, HashSet};

use super::model::{Base, How, JoinRule, MixtureRule, Output, Recipe, Source, Step};
use super::problem::{Checked, Place, Problem, quoted};
use crate::Value;
use crate::error::{ErrorKind, Shown, shown_text};
use crate::text::is_unprintable;

/// The sources of a recipe.
const MAX_SOURCES: usize = 10_000;
/// Sources on top of one another: what follows them may recurse.
const MAX_LEVELS: u64 = 64;
/// The sources that are read once each name stands for a copy of what it names.
const MAX_READ: u64 = 100_000;
/// Lists and maps around a value of `missing`.
const MAX_DEPTH: usize = 32;
/// The bytes of the name of a source.
const MAX_NAME: usize = 255;
/// The digests of files: their names and digits.
const DIGESTS: [(&str, usize); 3] = [("md5", 32), ("sha256", 64), ("blake3", 64)];

/// Fails unless it can be a file that reads back as this recipe.
pub(super) fn check(recipe: &Recipe) -> Checked {
    let sources = Place::of(&["source"]);
    let count = recipe.sources.len();
    if count > MAX_SOURCES {
        let expected = format!("at most {MAX_SOURCES} sources");
        return Err(Problem::new(&sources, expected, count.to_string()).of_kind(ErrorKind::Limit));
    }
    if count == 0 {
        return Err(Problem::new(&Place::default(), "a source, such as [source.web]", "none"));
    }
    let mut known = HashMap::with_capacity(count);
    for (at, (name, _)) in recipe.sources.iter().enumerate() {
        let place = sources.to(&name[..]);
        if name.is_empty() || name.len() > MAX_NAME || name.contains(is_unprintable) {
            let expected = format!("a name of 1 to {MAX_NAME} bytes that can be shown");
            return Err(Problem::new(&place, expected, quoted(name)).of_name());
        }
        if known.insert(&name[..], at).is_some() {
            return Err(Problem::new(&place, "one source of a name", "a second one").of_name());
        }
    }
    for (name, source) in &recipe.sources {
        check_source(source, &sources.to(&name[..]), &known)?;
    }
    check_levels(recipe, &known)?;
    match &recipe.output {
        Output::Source(name) => defined(name, &known, &Place::of(&["concat"])),
        Output::Concat(names) => check_names(names, &known, &Place::of(&["concat"])),
        Output::Mixture(rule) => check_mixture(rule, &known, &Place::of(&["mixture"])),
    }
}

type Known<'a> = HashMap<&'a str, usize>;

fn defined(name: &str, known: &Known, place: &Place) -> Checked {
    match known.contains_key(name) {
        true => Ok(()),
        false => {
            let hint = hint(name, known.keys().copied());
            Err(Problem::new(place, "a source of this file", format!("{}{hint}", quoted(name))))
        }
    }
}

/// What was probably meant, for the end of a message: ` (did you mean "web"?)`.
pub(super) fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let most = (name.chars().count() / 2).min(2);
    let near = known.filter(|known| known.len().abs_diff(name.len()) <= 8);
    let near = near.map(|known| (distance(name, known), known)).min();
    match near.filter(|(distance, _)| *distance <= most && name.len() < 64) {
        Some((_, known)) => format!(" (did you mean {}?)", quoted(known)),
        None => String::new(),
    }
}

/// How many characters were left out, added, replaced or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best =
                (rows[i][j] + usize::from(x != y)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

fn check_names(names: &[String], known: &Known, place: &Place) -> Checked {
    if names.is_empty() {
        return Err(Problem::new(place, "at least one source", "none"));
    }
    items(names, place).try_for_each(|(place, name)| defined(name, known, &place))
}

/// The texts of a list with their places; one alone may stand without a list.
fn items<'a>(texts: &'a [String], place: &'a Place) -> impl Iterator<Item = (Place, &'a String)> {
    let place = move |at| if texts.len() == 1 { place.clone() } else { place.to(at) };
    texts.iter().enumerate().map(move |(at, text)| (place(at), text))
}

fn check_source(source: &Source, place: &Place, known: &Known) -> Checked {
    check_base(&source.base, place, known)?;
    check_identity(source.identity.as_deref(), place)?;
    check_digest(source, place)?;
    for pair in source.steps.windows(2) {
        if !pair[0].may_precede(&pair[1]) {
            let expected = match (&pair[0], &pair[1]) {
                (Step::KeepFields(_), Step::DropFields(_)) => "`keep_fields` or `drop_fields`",
                _ => "steps in the order of the format",
            };
            let found = match expected.starts_with('`') {
                true => "both".to_owned(),
                false => format!("`{}` after `{}`", pair[1].key(), pair[0].key()),
            };
            return Err(Problem::new(&place.to(pair[1].key()), expected, found).of_name());
        }
    }
    let mut joins = 0;
    for step in &source.steps {
        let place = place.to(step.key());
        match step {
            Step::Selection(path) => check_path(path, &place)?,
            Step::KeepKeys(paths) | Step::DropKeys(paths) => check_paths(paths, &place)?,
            Step::Where(condition) if condition.trim().is_empty() => {
                return Err(Problem::new(&place, "a condition", "an empty text"));
            }
            Step::Where(_) => {}
            Step::Join(join) => {
                check_join(join, &place.to(joins), known)?;
                joins += 1;
            }
            Step::KeepFields(names) => check_once(names, &place)?,
            Step::DropFields(names) => {
                check_once(names, &place)?;
                if let Some(at) = names.iter().position(|name| name == "key") {
                    let expected = "fields other than the key, which stays";
                    return Err(Problem::new(&place.to(at), expected, "\"key\""));
                }
            }
            Step::Rename(names) => check_rename(names, &place)?,
        }
    }
    Ok(())
}

fn check_base(base: &Base, place: &Place, known: &Known) -> Checked {
    match base {
        Base::Paths(paths) => check_paths(paths, &place.to("path")),
        Base::Sources(names) => check_names(names, known, &place.to("source")),
    }
}

fn check_paths(paths: &[String], place: &Place) -> Checked {
    if paths.is_empty() {
        return Err(Problem::new(place, "at least one path", "none"));
    }
    items(paths, place).try_for_each(|(place, path)| check_path(path, &place))
}

/// A recipe is a file to hand on: what opens a door has no place in it.
fn check_path(path: &str, place: &Place) -> Checked {
    if path.is_empty() || path.contains('\0') {
        return Err(Problem::new(
            place,
            "a path",
            if path.is_empty() { "an empty text" } else { "a zero byte" },
        ));
    }
    let shown = Shown::of(path).to_string();
    match shown == path {
        true => Ok(()),
        false => {
            let expected = "a URL without user, password, query and fragment";
            let found = format!("one that has more than {}", quoted(&shown));
            Err(Problem::new(place, expected, found))
        }
    }
}

fn check_identity(identity: Option<&str>, place: &Place) -> Checked {
    let Some(identity) = identity else { return Ok(()) };
    let place = place.to("identity");
    match identity {
        "" => Err(Problem::new(&place, "a text", "an empty one")),
        _ if shown_text(identity) != identity => {
            let expected = "a text without passwords, queries and fragments of URLs";
            Err(Problem::new(&place, expected, "one that has some"))
        }
        _ => Ok(()),
    }
}

fn check_digest(source: &Source, place: &Place) -> Checked {
    let place = place.to("digest");
    let mut files = HashSet::new();
    for (file, digest) in source.digest.iter().flatten() {
        let place = place.to(&file[..]);
        check_path(file, &place).map_err(Problem::of_name)?;
        if !files.insert(file) {
            return Err(Problem::new(&place, "each file once", "a second one").of_name());
        }
        let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        let is_digest = digest.split_once(':').is_some_and(|(name, digits)| {
            DIGESTS.contains(&(name, digits.len())) && digits.bytes().all(is_digit)
        });
        if !is_digest {
            let expected = "`md5:`, `sha256:` or `blake3:` and the digest in hexadecimal digits";
            return Err(Problem::new(&place, expected, quoted(digest)));
        }
    }
    Ok(())
}

fn check_once(names: &[String], place: &Place) -> Checked {
    let mut seen = HashSet::new();
    match names.iter().position(|name| !seen.insert(name)) {
        Some(at) => Err(Problem::new(
            &place.to(at),
            "each name once",
            format!("{} again", quoted(&names[at])),
        )),
        None => Ok(()),
    }
}

fn check_rename(names: &[(String, String)], place: &Place) -> Checked {
    let (mut old_names, mut new_names) = (HashSet::new(), HashSet::new());
    for (old, new) in names {
        let place = place.to(&old[..]);
        if old == "key" || new == "key" {
            return Err(Problem::new(&place, "fields other than the key, which stays", "\"key\""));
        }
        if !old_names.insert(old) || !new_names.insert(new) {
            return Err(Problem::new(
                &place,
                "one new name for each field",
                "one that is used twice",
            ));
        }
    }
    Ok(())
}

fn check_join(join: &JoinRule, place: &Place, known: &Known) -> Checked {
    check_base(&join.with, place, known)?;
    check_identity(join.identity.as_deref(), place)?;
    check_once(join.fields.as_deref().unwrap_or_default(), &place.to("fields"))?;
    if join.prefix.as_deref() == Some("") {
        return Err(Problem::new(&place.to("prefix"), "a text", "an empty one"));
    }
    let mut seen = HashSet::new();
    for (name, value) in &join.missing {
        let place = place.to("missing").to(&name[..]);
        if join.how == How::Inner {
            return Err(Problem::new(
                &place,
                "`how = \"left\"` where values may be missing",
                "another join",
            ));
        }
        if join.fields.as_ref().is_some_and(|fields| !fields.contains(name)) {
            return Err(
                Problem::new(&place, "a field that `fields` names", "another one").of_name()
            );
        }
        if name == "key" || !seen.insert(name) {
            let found = if name == "key" { "the key" } else { "one that is named twice" };
            return Err(Problem::new(&place, "each field once, without the key", found).of_name());
        }
        if !value.is_nil() {
            check_value(value, &place, 0)?;
        }
    }
    Ok(())
}

/// Fails for what TOML cannot hold.
fn check_value(value: &Value, place: &Place, depth: usize) -> Checked {
    let cannot = |found: &str| Err(Problem::new(place, "a value that TOML can hold", found));
    if depth > MAX_DEPTH {
        let expected = format!("at most {MAX_DEPTH} lists and maps around a value");
        return Err(Problem::new(place, expected, "more").of_kind(ErrorKind::Limit));
    }
    match value {
        Value::Nil => cannot("nil in a list or map"),
        Value::Binary(_) => cannot("bytes"),
        Value::Ext(..) => cannot("an extension of msgpack"),
        Value::F32(_) => cannot("a float of 32 bits"),
        Value::Integer(int) if int.as_i64().is_none() => {
            cannot("an integer above 9223372036854775807")
        }
        Value::String(text) if text.as_str().is_none() => cannot("a text that is not UTF-8"),
        Value::Boolean(_) | Value::Integer(_) | Value::F64(_) | Value::String(_) => Ok(()),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.try_for_each(|(at, item)| check_value(item, &place.to(at), depth + 1))
        }
        Value::Map(entries) => {
            let mut names = HashSet::new();
            for (name, value) in entries {
                let Some(name) = name.as_str() else {
                    return cannot("a map whose names are not texts");
                };
                if !names.insert(name) {
                    return cannot("a map that has a name twice");
                }
                check_value(value, &place.to(name), depth + 1)?;
            }
            Ok(())
        }
    }
}

/// Refuses circles, and sources that would be read without end.
fn check_levels(recipe: &Recipe, known: &Known) -> Checked {
    let reads: Vec<Vec<usize>> = recipe
        .sources
        .iter()
        .map(|(_, source)| source.reads().map(|name| known[name]).collect())
        .collect();
    // For each source that is done: the levels from it down, and the sources that it reads.
    let mut done: Vec<Option<(u64, u64)>> = vec![None; reads.len()];
    let mut is_open = vec![false; reads.len()];
    let place = |at: usize| Place::of(&["source", &recipe.sources[at].0]);
    for start in 0..reads.len() {
        // A stack of its own: a chain may be as long as the file.
        let mut open = vec![(start, 0)];
        while let Some((at, next)) = open.last_mut() {
            let at = *at;
            if done[at].is_some() {
                open.pop();
                continue;
            }
            is_open[at] = true;
            let Some(&read) = reads[at].get(*next) else {
                let below = reads[at].iter().filter_map(|&read| done[read]);
                let (levels, read) = below.fold((0, 0_u64), |(levels, all), (level, read)| {
                    (levels.max(level), all.saturating_add(read))
                });
                for (count, most, what) in [
                    (levels + 1, MAX_LEVELS, "sources on top of one another"),
                    (read, MAX_READ, "sources below one"),
                ] {
                    if count > most {
                        let problem =
                            Problem::new(&place(at), format!("at most {most} {what}"), "more");
                        return Err(problem.of_kind(ErrorKind::Limit));
                    }
                }
                done[at] = Some((levels + 1, read.saturating_add(1)));
                is_open[at] = false;
                continue;
            };
            *next += 1;
            if is_open[read] {
                let circle = open.iter().map(|(at, _)| *at).skip_while(|at| *at != read);
                let names = circle.chain([read]).take(10).map(|at| quoted(&recipe.sources[at].0));
                let names = names.collect::<Vec<_>>().join(" → ");
                return Err(Problem::new(&place(at), "sources that do not read themselves", names));
            }
            if done[read].is_none() {
                open.push((read, 0));
            }
        }
    }
    Ok(())
}

fn check_mixture(rule: &MixtureRule, known: &Known, place: &Place) -> Checked {
    // Otherwise the weights name them, where a wrong name is found as well.
    if rule.sources != MixtureRule::weighed(&rule.phases) {
        check_names(&rule.sources, known, &place.to("sources"))?;
        check_once(&rule.sources, &place.to("sources"))?;
    }
    let mixed: HashSet<&str> = rule.sources.iter().map(String::as_str).collect();
    let named = |name: &str, place: &Place| match mixed.contains(name) {
        true => defined(name, known, place).map_err(Problem::of_name),
        false => {
            let expected = "a source that `sources` names";
            Err(Problem::new(place, expected, quoted(name)).of_name())
        }
    };
    at_least(rule.samples.unwrap_or(1), 1, &place.to("samples"))?;
    at_least(rule.seed, 0, &place.to("seed"))?;
    let mut seen = HashSet::new();
    for (name, passes) in &rule.max_passes {
        let place = place.to("max_passes").to(&name[..]);
        named(name, &place)?;
        at_least(*passes, 1, &place)?;
        if !seen.insert(name) {
            return Err(Problem::new(&place, "each source once", "a second one").of_name());
        }
    }
    if rule.phases.is_empty() {
        return Err(Problem::new(place, "`weights`, or a `phase` with some", "neither"));
    }
    let mut least = 0;
    for (at, phase) in rule.phases.iter().enumerate() {
        // As it is written: one phase from 0 needs no table.
        let place = match rule.phases.len() == 1 && phase.from == 0 {
            true => place.clone(),
            false => place.to("phase").to(at),
        };
        match at {
            0 if phase.from != 0 => {
                let found = phase.from.to_string();
                return Err(Problem::new(&place.to("from"), "0 for the first phase", found));
            }
            _ => at_least(phase.from, least, &place.to("from"))?,
        }
        least = phase.from.saturating_add(1);
        check_weights(&phase.weights, &place.to("weights"), named)?;
    }
    Ok(())
}

fn at_least(number: u64, least: u64, place: &Place) -> Checked {
    match (least..=i64::MAX as u64).contains(&number) {
        true => Ok(()),
        false => {
            let expected = format!("an integer from {least} to {}", i64::MAX);
            Err(Problem::new(place, expected, number.to_string()))
        }
    }
}

fn check_weights(
    weights: &[(String, f64)],
    place: &Place,
    named: impl Fn(&str, &Place) -> Checked,
) -> Checked {
    let mut seen = HashSet::new();
    for (name, weight) in weights {
        let place = place.to(&name[..]);
        named(name, &place)?;
        if !seen.insert(name) {
            return Err(Problem::new(&place, "each source once", "a second one").of_name());
        }
        if !weight.is_finite() || *weight < 0.0 {
            return Err(Problem::new(
                &place,
                "a finite weight that is not negative",
                weight.to_string(),
            ));
        }
    }
    let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
    match sum > 0.0 && sum.is_finite() {
        true => Ok(()),
        false => Err(Problem::new(place, "weights with a finite sum above 0", sum.to_string())),
    }
}
