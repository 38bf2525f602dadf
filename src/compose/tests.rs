//! Views against a model of plain lists, and what recipes refuse.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::{MixtureOptions, View};
use crate::error::{ErrorKind, Result};
use crate::reader::{FieldNames, Join, Reader, Shared};
use crate::sampler::Sampler;
use crate::sampler::rng::StableRng;
use crate::{Value, Writer};

type Fields = BTreeMap<String, i64>;

/// Samples as a list: keys and fields.
#[derive(Clone, Default)]
struct Model(Vec<(String, Fields)>);

fn quiet(_: super::Doing<'_>) -> Result<()> {
    Ok(())
}

fn write(path: &Path, model: &Model) {
    let mut writer = Writer::create(path).unwrap();
    for (key, fields) in &model.0 {
        let mut sample = vec![(Value::from("key"), Value::from(key.as_str()))];
        sample.extend(fields.iter().map(|(name, value)| (name.as_str().into(), (*value).into())));
        writer.write(&Value::Map(sample)).unwrap();
    }
    writer.finish().unwrap();
}

fn same(view: &View, model: &Model, what: &str) {
    let reader = view.reader();
    assert_eq!(reader.len(), model.0.len(), "{what}");
    for (index, (key, fields)) in model.0.iter().enumerate() {
        assert_eq!(&*reader.key(index).unwrap(), key, "{what}: {index}");
        let sample = reader.get(index).unwrap();
        let found: Fields = sample
            .as_map()
            .unwrap()
            .iter()
            .filter(|(name, _)| name.as_str() != Some("key"))
            .map(|(name, value)| (name.as_str().unwrap().to_owned(), value.as_i64().unwrap()))
            .collect();
        assert_eq!(&found, fields, "{what}: {index}");
        let all: Vec<usize> =
            (0..model.0.len()).filter(|&other| model.0[other].0 == *key).collect();
        assert_eq!(reader.find(key).unwrap(), all.first().copied(), "{what}: {key}");
        assert_eq!(reader.find_all(key).unwrap(), all, "{what}: {key}");
        for name in ["a", "b", "c", "x_a", "d"] {
            let expected = fields.get(name).map(|value| Value::from(*value));
            assert_eq!(reader.field(index, name).unwrap(), expected, "{what}: {index}: {name}");
        }
    }
    let keys: Vec<&str> = model.0.iter().map(|(key, _)| key.as_str()).chain(["absent"]).collect();
    let first = |key: &&str| model.0.iter().position(|(own, _)| own == key);
    assert_eq!(
        reader.find_keys(&keys).unwrap(),
        keys.iter().map(first).collect::<Vec<_>>(),
        "{what}"
    );
    assert!(!reader.contains_key("absent").unwrap());
}

struct Made {
    view: View,
    model: Model,
    steps: String,
}

fn random(rng: &mut StableRng, sources: &[(View, Model)], depth: u64) -> Made {
    let below = |rng: &mut StableRng, n: usize| rng.below(n.max(1) as u64) as usize;
    if depth == 0 {
        let (view, model) = &sources[below(rng, sources.len())];
        return Made { view: view.clone(), model: model.clone(), steps: "open".into() };
    }
    let Made { view, model, steps } = random(rng, sources, depth - 1);
    let len = model.0.len();
    match rng.below(9) {
        0 => {
            let other = random(rng, sources, depth - 1);
            let (a, b) = (model.0, other.model.0);
            let view = View::concat([view, other.view]).unwrap();
            Made {
                view,
                model: Model([a, b].concat()),
                steps: format!("concat({steps}, {})", other.steps),
            }
        }
        1 => {
            let start = below(rng, len + 1);
            let end = start + below(rng, len - start + 1);
            let view = view.range(start..end).unwrap();
            Made {
                view,
                model: Model(model.0[start..end].to_vec()),
                steps: format!("{steps}.range"),
            }
        }
        2 if len > 0 => {
            let indices: Vec<usize> = (0..below(rng, 30)).map(|_| below(rng, len)).collect();
            let model = Model(indices.iter().map(|&index| model.0[index].clone()).collect());
            let view = view.select(indices).unwrap();
            Made { view, model, steps: format!("{steps}.select") }
        }
        3 => {
            let mask: Vec<bool> = (0..len).map(|_| rng.below(3) > 0).collect();
            let left = model.0.into_iter().zip(&mask).filter(|(_, take)| **take);
            let model = Model(left.map(|(sample, _)| sample).collect());
            Made { view: view.select_mask(&mask).unwrap(), model, steps: format!("{steps}.mask") }
        }
        4 => {
            let out: Vec<String> = model
                .0
                .iter()
                .filter(|_| rng.below(4) == 0)
                .map(|(key, _)| key.clone())
                .chain(["absent".to_owned()])
                .collect();
            let view = view.without_keys(&out).unwrap();
            let set: HashSet<&String> = out.iter().collect();
            let left = model.0.into_iter().filter(|(key, _)| !set.contains(key));
            Made { view, model: Model(left.collect()), steps: format!("{steps}.without") }
        }
        5 if model.0.iter().any(|(_, fields)| fields.contains_key("a")) => {
            let limit = rng.below(10) as i64;
            let left = model
                .0
                .into_iter()
                .filter(|(_, fields)| fields.get("a").is_some_and(|a| *a >= limit));
            let view = view.filter(&format!("a >= {limit}"), &mut quiet).unwrap();
            Made { view, model: Model(left.collect()), steps: format!("{steps}.where") }
        }
        6 => {
            let all = |name: &str| model.0.iter().any(|(_, fields)| fields.contains_key(name));
            let names = match rng.below(3) {
                0 if all("b") => FieldNames::without(["b"]).unwrap(),
                1 if all("a") => FieldNames::keep(["a"]).unwrap(),
                2 if all("a") && !all("d") => FieldNames::all().rename("a", "d").unwrap(),
                _ => FieldNames::all(),
            };
            let change = |(key, fields): &(String, Fields)| {
                let fields = fields
                    .iter()
                    .filter_map(|(name, value)| Some((names.new_name(name)?.to_owned(), *value)));
                (key.clone(), fields.collect())
            };
            let model = Model(model.0.iter().map(change).collect());
            let view = view.with_fields(names, &mut quiet).unwrap();
            Made { view, model, steps: format!("{steps}.with_fields") }
        }
        7 => {
            // A plain dataset has each key once.
            let (with, other) = &sources[below(rng, sources.len())];
            if model.0.iter().any(|(_, fields)| fields.contains_key("x_a")) {
                return Made { view, model, steps };
            }
            let is_left = rng.below(2) == 0;
            let join = if is_left { Join::left().missing("a", -7) } else { Join::inner() };
            let join = join.fields(["a"]).shared(Shared::Prefix("x_".into()));
            let joined = model.0.into_iter().filter_map(|(key, mut fields)| {
                match other
                    .0
                    .iter()
                    .find(|(own, _)| *own == key)
                    .and_then(|(_, found)| found.get("a").or(is_left.then_some(&-7)))
                {
                    Some(a) => drop(fields.insert("x_a".into(), *a)),
                    None if is_left => drop(fields.insert("x_a".into(), -7)),
                    None => other.0.iter().find(|(own, _)| *own == key).map(drop)?,
                }
                Some((key, fields))
            });
            let model = Model(joined.collect());
            let view = view.join(with, join, &mut quiet).unwrap();
            Made { view, model, steps: format!("{steps}.join") }
        }
        8 => {
            let by = [None, Some("a")][below(rng, 2)];
            if by.is_some() && !model.0.iter().any(|(_, fields)| fields.contains_key("a")) {
                return Made { view, model, steps };
            }
            let mut seen = HashSet::new();
            let first = |sample: &(String, Fields)| match by {
                None => seen.insert(sample.0.clone()),
                Some(by) => sample.1.get(by).is_none_or(|value| seen.insert(value.to_string())),
            };
            let mut first = first;
            let model = Model(model.0.into_iter().filter(|sample| first(sample)).collect());
            let view = view.dedupe(by, &mut quiet).unwrap();
            Made { view, model, steps: format!("{steps}.dedupe") }
        }
        _ => Made { view, model, steps },
    }
}

fn sources(dir: &Path, rng: &mut StableRng) -> Vec<(View, Model)> {
    ["one", "two", "three", "none"]
        .into_iter()
        .map(|name| {
            let len = if name == "none" { 0 } else { 3 + rng.below(20) };
            let mut keys: Vec<u64> = (0..40).collect();
            for at in 0..len as usize {
                let other = at + rng.below(40 - at as u64) as usize;
                keys.swap(at, other);
            }
            let sample = |key: &u64| {
                let mut fields = Fields::new();
                for name in ["a", "b"] {
                    if rng.below(8) > 0 {
                        fields.insert(name.into(), rng.below(10) as i64);
                    }
                }
                (format!("k{key}"), fields)
            };
            let model = Model(keys[..len as usize].iter().map(sample).collect());
            let path = dir.join(name).with_extension("msgpack");
            write(&path, &model);
            (View::open(&path).unwrap(), model)
        })
        .collect()
}

#[test]
fn random_views_have_the_samples_of_a_model_also_from_recipes_and_descriptions() {
    let all = std::env::var_os("KISTE_TEST_ALL").is_some();
    let dir = tempfile::tempdir().unwrap();
    let mut rng = StableRng::new(&[40, 1]);
    let sources = sources(dir.path(), &mut rng);
    for round in 0..if all { 6000 } else { 400 } {
        let depth = rng.below(6);
        let Made { view, model, steps } = random(&mut rng, &sources, depth);
        let what = format!("{round}: {steps}");
        same(&view, &model, &what);
        if round % 4 == 0 {
            let recipe = dir.path().join("some.kiste.toml");
            view.save(&recipe, true).unwrap();
            let text = std::fs::read_to_string(&recipe).unwrap();
            let again =
                View::open(&recipe).unwrap_or_else(|error| panic!("{what}: {error}\n{text}"));
            same(&again, &model, &format!("{what}, saved\n{text}"));
            assert_eq!(again.lineage().unwrap(), view.lineage().unwrap(), "{what}\n{text}");
            let described = again.describe().unwrap().open(&mut quiet).unwrap();
            same(&described, &model, &format!("{what}, described"));
        }
    }
}

#[test]
fn a_mixture_is_saved_with_its_phases() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = StableRng::new(&[40, 2]);
    let sources = sources(dir.path(), &mut rng);
    let named = [("one", sources[0].0.clone()), ("two", sources[1].0.range(1..3).unwrap())];
    let options = MixtureOptions::new([("one", 3.0), ("two", 1.0)]).seed(7).samples(1000);
    let options = options.phase(5000, [("two", 0.5), ("one", 0.5)]);
    let mixture = View::mixture(named, options).unwrap();
    let recipe = dir.path().join("mixed.kiste.toml");
    mixture.save(&recipe, false).unwrap();
    let again = View::open(&recipe).unwrap();
    let orders = |view: &View| -> Vec<Vec<u64>> {
        let sampler = view.sampler().unwrap();
        (0..8).map(|epoch| sampler.order(epoch).unwrap().iter().collect()).collect()
    };
    assert_eq!(orders(&again), orders(&mixture));
    let described = again.describe().unwrap().open(&mut quiet).unwrap();
    assert_eq!(orders(&described), orders(&mixture));
    assert_eq!(mixture.save(&recipe, false).unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[test]
fn a_source_that_has_changed_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = StableRng::new(&[40, 3]);
    let sources = sources(dir.path(), &mut rng);
    let recipe = dir.path().join("some.kiste.toml");
    sources[0].0.filter("a > 2", &mut quiet).unwrap().save(&recipe, false).unwrap();
    write(&dir.path().join("other.msgpack"), &sources[1].1);
    for ending in [
        "msgpack",
        "msgpack.offsets",
        "msgpack.keys",
        "msgpack.key_hashes",
        "msgpack.filter",
        "msgpack.md5",
    ] {
        let file = |name: &str| dir.path().join(format!("{name}.{ending}"));
        let _ = std::fs::rename(file("other"), file("one"));
    }
    let error = View::open(&recipe).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced);
    assert!(error.to_string().contains("source \"one\""), "{error}");
}

#[test]
fn recipes_end_at_datasets() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("a.kiste.toml"), "kiste = 1\n[source.b]\npath = \"b.kiste.toml\"\n")
        .unwrap();
    std::fs::write(path("b.kiste.toml"), "kiste = 1\n[source.a]\npath = \"a.kiste.toml\"\n")
        .unwrap();
    let error = View::open(path("a.kiste.toml")).unwrap_err();
    assert!(error.to_string().contains("leads to itself"), "{error}");

    write(&path("one.msgpack"), &Model(vec![("k".into(), Fields::new())]));
    for outside in ["../one.msgpack", "/etc/passwd", "http://localhost:1/one.msgpack"] {
        let text = format!("kiste = 1\n[source.a]\npath = \"{outside}\"\n");
        std::fs::write(path("a.kiste.toml"), text).unwrap();
        let error =
            View::options().untrusted(true).open(path("a.kiste.toml"), &mut quiet).unwrap_err();
        assert!(error.to_string().contains("in this folder"), "{outside}: {error}");
    }
    std::fs::write(path("a.kiste.toml"), "kiste = 1\n[source.a]\npath = \"one.msgpack\"\n")
        .unwrap();
    let view = View::options().untrusted(true).open(path("a.kiste.toml"), &mut quiet).unwrap();
    assert_eq!(view.reader().len(), 1);
}

#[test]
fn labels_are_numbered_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let made = |name: &str, labels: Option<&[&str]>, label: i64| {
        let path = dir.path().join(name).with_extension("msgpack");
        let mut writer = Writer::create(&path).unwrap();
        writer
            .write(&BTreeMap::from([("key", Value::from(name)), ("label", label.into())]))
            .unwrap();
        writer.set_labels(labels).unwrap();
        writer.finish().unwrap();
        View::open(path).unwrap()
    };
    let (cats, dogs) =
        (made("cats", Some(&["cat", "dog"]), 0), made("dogs", Some(&["dog", "emu"]), 0));
    let both = View::concat([cats.clone(), dogs]).unwrap();
    assert_eq!(both.reader().labels().unwrap().unwrap(), ["cat", "dog", "emu"]);
    assert_eq!(
        (both.reader().get(1).unwrap()["label"].as_i64(), both.reader().field(1, "label").unwrap()),
        (Some(1), Some(1.into()))
    );
    let dog = both.filter("label == dog", &mut quiet).unwrap();
    assert_eq!(dog.reader().key(0).unwrap(), "dogs");
    let error = View::concat([cats, made("none", None, 3)]).unwrap_err();
    assert!(error.to_string().contains("a number does not mean the same"), "{error}");
}

#[test]
fn a_loop_of_steps_ends_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = StableRng::new(&[40, 4]);
    let mut view = sources(dir.path(), &mut rng)[0].0.clone();
    let error = loop {
        match view.without_keys(["k1"]) {
            Ok(next) => view = next,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Limit);
}

/// The keys of a view.
fn keys(view: &View) -> Vec<String> {
    (0..view.reader().len()).map(|index| view.reader().key(index).unwrap().into_owned()).collect()
}

#[test]
fn recipes_stay_valid_when_digests_are_made_and_not_when_samples_change() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let sample = |n: usize, a: i64| (format!("k{n}"), Fields::from([("a".to_owned(), a)]));
    let model = Model((0..300).map(|n| sample(n, n as i64 % 3)).collect());
    let put = |model: &Model, digests: bool| {
        let mut writer =
            Writer::options().digests(digests).overwrite(true).create(path("d.msgpack")).unwrap();
        for (key, fields) in &model.0 {
            let sample =
                vec![("key".into(), key.as_str().into()), ("a".into(), fields["a"].into())];
            writer.write(&Value::Map(sample)).unwrap();
        }
        writer.finish().unwrap();
    };
    put(&model, false);
    let rule = "kiste = 1\n[source.d]\npath = \"d.msgpack\"\nwhere = \"a == 1\"\n";
    std::fs::write(path("w.kiste.toml"), rule).unwrap();
    let inner = View::open(path("w.kiste.toml")).unwrap();
    assert_eq!(inner.reader().len(), 100);
    inner.select([3, 1]).unwrap().save(path("s.kiste.toml"), false).unwrap();
    View::concat([inner.clone(), inner]).unwrap().save(path("c.kiste.toml"), false).unwrap();

    // One label in the middle is corrected, where no sample was looked at and nothing records a digest.
    let mut changed = model.clone();
    changed.0[101].1.insert("a".into(), 1);
    put(&changed, false);
    assert_eq!(View::open(path("w.kiste.toml")).unwrap().reader().len(), 101);
    put(&model, true);
    for name in ["s.kiste.toml", "c.kiste.toml"] {
        let view = View::open(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(view.reader().len(), if name == "s.kiste.toml" { 2 } else { 200 });
    }
    super::lock(path("s.kiste.toml"), &mut quiet).unwrap();
    assert_eq!(keys(&View::open(path("s.kiste.toml")).unwrap()), ["k10", "k4"]);

    // A recipe that cannot be opened is not locked.
    put(&changed, true);
    let before = std::fs::read(path("s.kiste.toml")).unwrap();
    super::lock(path("s.kiste.toml"), &mut quiet).unwrap_err();
    assert_eq!(std::fs::read(path("s.kiste.toml")).unwrap(), before);
}

#[test]
fn a_recipe_is_never_made_of_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let sources = sources(dir.path(), &mut StableRng::new(&[40, 5]));
    sources[0].0.range(0..2).unwrap().save(path("a.kiste.toml"), false).unwrap();
    let a = View::open(path("a.kiste.toml")).unwrap();
    a.range(0..1).unwrap().save(path("b.kiste.toml"), false).unwrap();
    let error =
        View::open(path("b.kiste.toml")).unwrap().save(path("a.kiste.toml"), true).unwrap_err();
    assert!(error.to_string().contains("which this view is made of"), "{error}");
}

#[test]
fn the_order_of_a_mixture_is_kept_or_its_loss_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let sources = sources(dir.path(), &mut StableRng::new(&[40, 6]));
    let named = [("one", sources[0].0.clone()), ("two", sources[1].0.clone())];
    let mixture = View::mixture(named, MixtureOptions::new([("one", 3.0), ("two", 1.0)])).unwrap();
    let path = dir.path().join("mix.kiste.toml");
    mixture.save(&path, false).unwrap();
    let unnamed = mixture;
    let mixture = View::open(&path).unwrap();
    let fields = mixture.with_fields(FieldNames::without(["b"]).unwrap(), &mut quiet).unwrap();
    let joined = fields.join(&sources[2].0, Join::left().fields(["b"]), &mut quiet).unwrap();
    let order =
        |view: &View| -> Vec<u64> { view.sampler().unwrap().order(0).unwrap().iter().collect() };
    joined.save(dir.path().join("joined.kiste.toml"), false).unwrap();
    for again in [
        View::open(dir.path().join("joined.kiste.toml")).unwrap(),
        joined.describe().unwrap().open(&mut quiet).unwrap(),
    ] {
        assert_eq!(order(&again), order(&mixture));
        assert_eq!(again.reader().get(1).unwrap(), joined.reader().get(1).unwrap());
    }
    let unnamed = unnamed.with_fields(FieldNames::without(["b"]).unwrap(), &mut quiet).unwrap();
    for refused in [
        unnamed.describe().map(drop),
        unnamed.save(dir.path().join("u.kiste.toml"), false).map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    assert!(
        joined.sampler().is_some() && joined.left_out().iter().all(|step| step.step != "mixture")
    );
    for lost in
        [joined.range(0..3).unwrap(), View::concat([mixture.clone(), joined.clone()]).unwrap()]
    {
        assert!(lost.sampler().is_none());
        assert!(
            lost.left_out().iter().any(|step| step.step == "mixture" && !step.remarks.is_empty())
        );
    }
}

#[test]
fn other_rules_are_other_samples() {
    let dir = tempfile::tempdir().unwrap();
    let all = sources(dir.path(), &mut StableRng::new(&[40, 7]));
    let (view, other) = (&all[0].0, &all[1].0);
    let named = |names: FieldNames| view.renamed(names).unwrap();
    let joined = |join: Join| view.join(other, join, &mut quiet).unwrap();
    let prefix = |join: Join| join.shared(Shared::Prefix("x_".into()));
    let views = [
        named(FieldNames::keep(["b"]).unwrap()),
        named(FieldNames::all().rename("keep", "b").unwrap()),
        named(FieldNames::without(["b"]).unwrap()),
        named(FieldNames::keep(["a", "b"]).unwrap()),
        joined(prefix(Join::left())),
        joined(prefix(Join::left().fields(Vec::<String>::new()))),
        joined(prefix(Join::left().fields(["a", "c0"]))),
        joined(prefix(Join::left().fields(["a"]).missing("a", Value::Nil))),
        joined(prefix(Join::left().missing("a", Value::Nil))),
    ];
    let lineages: HashSet<&str> = views.iter().map(|view| view.lineage().unwrap()).collect();
    assert_eq!(lineages.len(), views.len());
}
