//! Tables of right and wrong recipes, random ones that come back, and damage.

use std::borrow::Cow;

use super::*;
use crate::Value;
use crate::format::FormatError;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn text(&mut self) -> String {
        let pieces = [
            "a", "web", "ü", "\"", "'", "\\", "\n", "\t", "\u{1b}", "\u{202e}", "\u{7f}", " ", ".",
            "#", "=", "🦀", "]]", "'''",
        ];
        (0..1 + self.below(6)).map(|_| pieces[self.below(pieces.len())]).collect()
    }

    fn texts(&mut self) -> Vec<String> {
        let mut texts: Vec<String> = (0..1 + self.below(12)).map(|_| self.text()).collect();
        texts.sort();
        texts.dedup();
        texts
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 4 } else { 6 }) {
            0 => Value::from(self.next() as i64 >> self.below(64)),
            1 => Value::F64([0.0, -1.5, 1e300, 5e-324, f64::INFINITY, 1e16, 0.1][self.below(7)]),
            2 => Value::Boolean(self.one_in(2)),
            3 => Value::from(self.text()),
            4 => Value::Array((0..self.below(4)).map(|_| self.value(depth - 1)).collect()),
            _ => {
                let names = self.texts().into_iter().take(3);
                Value::Map(names.map(|name| (Value::from(name), self.value(depth - 1))).collect())
            }
        }
    }

    /// A base that reads paths, or sources that there are already.
    fn base(&mut self, names: &[String]) -> Base {
        match names.is_empty() || self.one_in(2) {
            true => Base::Paths(self.texts()),
            false => Base::Sources(
                (0..1 + self.below(2)).map(|_| names[self.below(names.len())].clone()).collect(),
            ),
        }
    }

    fn join(&mut self, names: &[String]) -> JoinRule {
        let how = if self.one_in(2) { How::Left } else { How::Inner };
        let fields = self.texts();
        let mut missing = Vec::new();
        if how == How::Left {
            missing.extend(fields.iter().take(2).map(|name| (name.clone(), self.value(3))));
            missing.extend(fields.iter().skip(2).take(2).map(|name| (name.clone(), Value::Nil)));
        }
        JoinRule {
            with: self.base(names),
            identity: self.one_in(2).then(|| self.text()),
            how,
            fields: self.one_in(2).then_some(fields),
            prefix: self.one_in(2).then(|| self.text()),
            missing,
        }
    }

    fn source(&mut self, names: &[String]) -> Source {
        let steps = [
            Step::Selection(self.text()),
            Step::KeepKeys(self.texts()),
            Step::DropKeys(self.texts()),
            Step::Where(format!("{}1", self.text())),
            Step::Join(self.join(names)),
            Step::Join(self.join(names)),
            if self.one_in(2) {
                Step::KeepFields(self.texts())
            } else {
                Step::DropFields(self.texts())
            },
            Step::Rename(
                self.texts().into_iter().map(|name| (name.clone(), format!("{name}2"))).collect(),
            ),
        ];
        let digit = "0123456789abcdef";
        let digests = self.texts().into_iter().map(|file| (file, format!("md5:{digit}{digit}")));
        let digests: Vec<_> = digests.collect();
        Source {
            base: self.base(names),
            identity: self.one_in(2).then(|| self.text()),
            digest: self.one_in(2).then_some(digests),
            steps: steps.into_iter().filter(|_| self.one_in(2)).collect(),
        }
    }

    fn mixture(&mut self, names: &[String]) -> Output {
        let mut from = 0;
        let mut phase = |_| {
            let weights =
                names.iter().map(|name| (name.clone(), [1.0, 0.25, 1e-9, 3e20][self.below(4)]));
            let phase = Phase { from, weights: weights.collect() };
            from += 1 + self.next() % 1000;
            phase
        };
        let phases: Vec<Phase> = (0..3).map(&mut phase).collect();
        let count = 1 + self.below(3);
        let mut sources = names.to_vec();
        if self.one_in(2) {
            sources.reverse();
        }
        Output::Mixture(MixtureRule {
            samples: self.one_in(2).then(|| 1 + self.next() % 1000),
            seed: self.next() >> 1,
            sources,
            tokens: self.one_in(3).then(|| "len(tokens)".to_owned()),
            max_passes: if self.one_in(2) { vec![(names[0].clone(), 3)] } else { Vec::new() },
            exhausted: if self.one_in(2) { Exhausted::Others } else { Exhausted::Error },
            phases: phases.into_iter().take(count).collect(),
        })
    }

    fn recipe(&mut self) -> Recipe {
        let mut sources: Vec<(String, Source)> = Vec::new();
        let mut names = Vec::new();
        for at in 0..1 + self.below(5) {
            let source = self.source(&names);
            let name = if self.one_in(3) { format!("a.b \"{at}") } else { format!("s{at}") };
            names.push(name.clone());
            sources.push((name, source));
        }
        let output = match self.below(3) {
            0 => Output::Source(names[self.below(names.len())].clone()),
            1 if names.len() > 1 => Output::Concat(names),
            _ => self.mixture(&names),
        };
        Recipe { sources, output }
    }
}

#[test]
fn random_recipes_come_back() {
    let mut random = Random(1);
    for round in 0..if cfg!(miri) { 3 } else { 500 } {
        let recipe = random.recipe();
        let text = recipe.print().unwrap_or_else(|error| panic!("{round}: {error}\n{recipe:#?}"));
        let again = Recipe::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(again, recipe, "{text}");
        assert_eq!(again.print().unwrap(), text);
    }
}

const WEB: &str = "kiste = 1\n[source.web]\npath = \"web.msgpack\"\n";

fn error(text: &str) -> String {
    Recipe::parse(text).expect_err(text).to_string()
}

#[test]
fn the_example_is_read_and_printed() {
    let text = r#"
kiste = 1

[source.web]
path = "web/*.msgpack"
where = "len(text) > 100"

[source.code]
path = "code.msgpack"
join = [{ path = "stars.msgpack", how = "left", fields = ["stars", "licence"], missing = { stars = 0 }, missing_null = ["licence"] }]

[mixture]
samples = 1_000_000
seed = 7
phase = [{ from = 0, weights = { web = 3, code = 1 } }, { from = 5000000, weights = { web = 1, code = 0.5 } }]
"#;
    let printed = r#"kiste = 1

[source.web]
path = "web/*.msgpack"
where = "len(text) > 100"

[source.code]
path = "code.msgpack"

[[source.code.join]]
path = "stars.msgpack"
how = "left"
fields = ["stars", "licence"]
missing_null = ["licence"]
missing = { stars = 0 }

[mixture]
samples = 1000000
seed = 7

[[mixture.phase]]
from = 0
weights = { web = 3, code = 1 }

[[mixture.phase]]
from = 5000000
weights = { web = 1, code = 0.5 }
"#;
    let recipe = Recipe::parse(text).unwrap();
    assert_eq!(recipe.print().unwrap(), printed);
    assert_eq!(Recipe::parse(printed).unwrap(), recipe);
    let Step::Join(join) = &recipe.sources[1].1.steps[0] else { panic!("{recipe:?}") };
    let missing = [("stars".to_owned(), Value::from(0)), ("licence".to_owned(), Value::Nil)];
    assert_eq!((join.how, &join.missing[..]), (How::Left, &missing[..]));
}

#[test]
fn long_lists_have_an_item_a_line_and_long_tables_a_header() {
    let names: Vec<String> = (0..12).map(|at| format!("a rather long name {at}")).collect();
    let mut source = Source::new(Base::Paths(vec!["a".into(), "b".into()]));
    source.steps.push(Step::DropFields(names.clone()));
    source
        .steps
        .push(Step::Rename(names.into_iter().map(|name| (name, "x".into())).take(1).collect()));
    source.steps.push(Step::Rename(Vec::new()));
    source.steps.pop();
    source.digest = Some(vec![("a.msgpack".into(), format!("md5:{}", "0".repeat(32)))]);
    let recipe = Recipe { sources: vec![("s".into(), source)], output: Output::Source("s".into()) };
    let text = recipe.print().unwrap();
    assert!(text.contains("path = [\"a\", \"b\"]\n"), "{text}");
    assert!(text.contains("drop_fields = [\n    \"a rather long name 0\",\n"), "{text}");
    assert!(text.contains("\n\n[source.s.digest]\n\"a.msgpack\" = \"md5:000"), "{text}");
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (more, message) in [
        ("", ""),
        (
            "paht = 1",
            "line 4, column 1, source.web.paht: expected one of path, source, identity, selection, keep_keys, drop_keys, where, join, keep_fields, drop_fields, rename, digest, found the key \"paht\" (did you mean \"path\"?)",
        ),
        ("where = 3", "line 4, column 9, source.web.where: expected a text, found an integer"),
        (
            "where = ' '",
            "line 4, column 9, source.web.where: expected a condition, found an empty text",
        ),
        (
            "where = 'a'\nwhere = 'b'",
            "line 5, column 1: expected each key once, found this one again",
        ),
        (
            "where = ",
            "line 4, column 9: expected TOML, found other text: string values must be quoted, expected literal string",
        ),
        (
            "keep_keys = ['ü', 3]",
            "line 4, column 19, source.web.keep_keys[1]: expected a text, found an integer",
        ),
        (
            "keep_keys = []",
            "line 4, column 13, source.web.keep_keys: expected at least one path, found none",
        ),
        (
            "keep_keys = 1979-05-27",
            "line 4, column 13, source.web.keep_keys: expected a text or a list of texts, found a date or time",
        ),
        (
            "source = 'web'",
            "line 4, column 1, source.web.source: expected `path` or `source`, found both",
        ),
        (
            "keep_fields = ['a']\ndrop_fields = ['b']",
            "line 5, column 1, source.web.drop_fields: expected `keep_fields` or `drop_fields`, found both",
        ),
        (
            "keep_fields = ['a', 'a']",
            "line 4, column 21, source.web.keep_fields[1]: expected each name once, found \"a\" again",
        ),
        (
            "drop_fields = ['key']",
            "line 4, column 16, source.web.drop_fields[0]: expected fields other than the key, which stays, found \"key\"",
        ),
        (
            "rename = { a = 'b', c = 'b' }",
            "line 4, column 25, source.web.rename.c: expected one new name for each field, found one that is used twice",
        ),
        (
            "rename = { key = 'b' }",
            "line 4, column 18, source.web.rename.key: expected fields other than the key, which stays, found \"key\"",
        ),
        (
            "identity = ''",
            "line 4, column 12, source.web.identity: expected a text, found an empty one",
        ),
        (
            "selection = ''",
            "line 4, column 13, source.web.selection: expected a path, found an empty text",
        ),
        (
            "digest = { 'a' = 'md5:0' }",
            "line 4, column 18, source.web.digest.a: expected `md5:`, `sha256:` or `blake3:` and the digest in hexadecimal digits, found \"md5:0\"",
        ),
        (
            "join = { path = 'a' }",
            "line 4, column 8, source.web.join: expected a list, found a table",
        ),
        (
            "join = [{ how = 'left' }]",
            "line 4, column 9, source.web.join[0]: expected `path` or `source`, found neither",
        ),
        (
            "join = [{ path = 'a', how = 'outer' }]",
            "line 4, column 29, source.web.join[0].how: expected \"inner\" or \"left\", found \"outer\"",
        ),
        (
            "join = [{ path = 'a', missing = { a = 1 } }]",
            "line 4, column 39, source.web.join[0].missing.a: expected `how = \"left\"` where values may be missing, found another join",
        ),
        (
            "join = [{ path = 'a', how = 'left', fields = ['b'], missing = { a = 1 } }]",
            "line 4, column 65, source.web.join[0].missing.a: expected a field that `fields` names, found another one",
        ),
        (
            "join = [{ path = 'a', how = 'left', missing = { a = 1979-05-27 } }]",
            "line 4, column 53, source.web.join[0].missing.a: expected a text, number, boolean, list or table, found a date or time",
        ),
        (
            "join = [{ path = 'a', how = 'left', missing = { a = 1 }, missing_null = ['a'] }]",
            "line 4, column 49, source.web.join[0].missing.a: expected each field once, without the key, found one that is named twice",
        ),
        (
            "join = [{ source = 'wep' }]",
            "line 4, column 20, source.web.join[0].source: expected a source of this file, found \"wep\" (did you mean \"web\"?)",
        ),
        (
            "join = [{ source = 'web' }]",
            "line 2, column 1, source.web: expected sources that do not read themselves, found \"web\" → \"web\"",
        ),
        ("[source.web]", "line 4, column 9: expected each key once, found this one again"),
        (
            "[source.code]\npath = ''",
            "line 5, column 8, source.code.path: expected a path, found an empty text",
        ),
        (
            "[source.code]\npath = 'a'",
            "line 1, column 1: expected `concat = [\"web\", \"code\"]` or [mixture], found more than one source that no other reads",
        ),
        (
            "[source.a]\nsource = 'b'\n[source.b]\nsource = ['web', 'a']",
            "line 6, column 1, source.b: expected sources that do not read themselves, found \"a\" → \"b\" → \"a\"",
        ),
        (
            "[source.a]\nsource = 'b'\n[source.b]\nsource = ['web', 'a']\n[source.c]\nsource='b'",
            "line 6, column 1, source.b: expected sources that do not read themselves, found \"a\" → \"b\" → \"a\"",
        ),
        (
            "[source.'']\npath = 'a'",
            "line 4, column 9, source.\"\": expected a name of 1 to 255 bytes that can be shown, found \"\"",
        ),
        (
            "[mixture]\nsamples = 10",
            "line 4, column 1, mixture: expected `weights`, or a `phase` with some, found neither",
        ),
        (
            "[mixture]\nsamples = 0\nweights = { web = 1 }",
            "line 5, column 11, mixture.samples: expected an integer from 1 to 9223372036854775807, found 0",
        ),
        (
            "[mixture]\nseed = -1\nweights = { web = 1 }",
            "line 5, column 8, mixture.seed: expected an integer from 0 to 9223372036854775807, found -1",
        ),
        (
            "[mixture]\nweights = { wep = 1 }",
            "line 5, column 13, mixture.weights.wep: expected a source of this file, found \"wep\" (did you mean \"web\"?)",
        ),
        (
            "[mixture]\nweights = { web = -1 }",
            "line 5, column 19, mixture.weights.web: expected a finite weight that is not negative, found -1",
        ),
        (
            "[mixture]\nweights = { web = nan }",
            "line 5, column 19, mixture.weights.web: expected a finite weight that is not negative, found NaN",
        ),
        (
            "[mixture]\nweights = { web = inf }",
            "line 5, column 19, mixture.weights.web: expected a finite weight that is not negative, found inf",
        ),
        (
            "[mixture]\nweights = { web = 1e999 }",
            "line 5, column 19, mixture.weights.web: expected a float of 64 bits, found \"1e999\"",
        ),
        (
            "[mixture]\nweights = { web = 0 }",
            "line 5, column 11, mixture.weights: expected weights with a finite sum above 0, found 0",
        ),
        (
            "[mixture]\nweights = { web = true }",
            "line 5, column 19, mixture.weights.web: expected a number, found a boolean",
        ),
        (
            "[mixture]\nphase = [{ from = 1, weights = { web = 1 } }]",
            "line 5, column 19, mixture.phase[0].from: expected 0 for the first phase, found 1",
        ),
        (
            "[mixture]\nphase = [{ from = 0, weights = { web = 1 } }, { from = 0, weights = { web = 1 } }]",
            "line 5, column 56, mixture.phase[1].from: expected an integer from 1 to 9223372036854775807, found 0",
        ),
        (
            "[mixture]\nphase = [{ weights = { web = 1 } }]",
            "line 5, column 10, mixture.phase[0]: expected `from`, found none",
        ),
        (
            "[mixture]\nphase = []\nweights = { web = 1 }",
            "line 5, column 1, mixture.phase: expected `weights` or `phase`, found both",
        ),
        (
            "[mixture]\nweights = { web = 1 }\nmax_passes = { web = 0 }",
            "line 6, column 22, mixture.max_passes.web: expected an integer from 1 to 9223372036854775807, found 0",
        ),
        (
            "[mixture]\nweights = { web = 1 }\nexhausted = 'stop'",
            "line 6, column 13, mixture.exhausted: expected \"error\" or \"others\", found \"stop\"",
        ),
        (
            "[mixtures]",
            "line 4, column 2, mixtures: expected one of kiste, concat, source, mixture at the top, found the key \"mixtures\" (did you mean \"mixture\"?)",
        ),
    ] {
        let text = format!("{WEB}{more}\n");
        match message {
            "" if more.is_empty() => assert!(Recipe::parse(&text).is_ok()),
            message => {
                let found = error(&text);
                assert_eq!(found, message, "{more}");
            }
        }
    }
}

#[test]
fn what_is_wrong_at_the_top_is_named() {
    for (text, message) in [
        (
            "",
            "line 1, column 1: expected `kiste = 1`, the version of the format, found no such key",
        ),
        ("kiste = 1", "line 1, column 1: expected a source, such as [source.web], found none"),
        ("kiste = '1'", "line 1, column 9, kiste: expected an integer, found a text"),
        (
            "\nkiste = 2\nnew = 1",
            "line 2, column 9, kiste: expected version 1 of the format of recipes, found version 2, which a newer kiste reads",
        ),
        (
            "kiste = 0",
            "line 1, column 9, kiste: expected version 1 of the format of recipes, found version 0",
        ),
        ("kiste = 1\nsource = 3", "line 2, column 10, source: expected a table, found an integer"),
        (
            "kiste = 1\nconcat = []\n[source.a]\npath = 'a'",
            "line 2, column 10, concat: expected at least one source, found none",
        ),
        (
            "kiste = 1\nconcat = ['b']\n[source.a]\npath = 'a'",
            "line 2, column 10, concat: expected a source of this file, found \"b\"",
        ),
        (
            "kiste = 1\nconcat = ['a']\n[source.a]\npath = 'a'\n[mixture]\nweights = { a = 1 }",
            "line 5, column 2, mixture: expected `concat` or `mixture`, found both",
        ),
    ] {
        assert_eq!(error(text), message, "{text}");
    }
    let kind = |text: &str| Recipe::parse(text).unwrap_err().kind();
    assert_eq!(kind("kiste = 2"), ErrorKind::Unsupported);
    assert_eq!(kind("kiste = 1"), ErrorKind::Invalid);
    assert_eq!(kind(&"#".repeat(limits::MAX_BYTES + 1)), ErrorKind::Limit);
}

#[test]
fn secrets_are_refused_and_not_repeated() {
    for url in [
        "https://me:hush@host/a.msgpack",
        "https://host/a.msgpack?token=hush",
        "https://host/a.msgpack#hush",
        "s3://bucket/a?X-Amz-Signature=hush",
    ] {
        let paths = || vec![url.to_owned()];
        let web = || Source::new(Base::Paths(vec!["web.msgpack".into()]));
        let join = JoinRule {
            with: Base::Paths(paths()),
            identity: None,
            how: How::Inner,
            fields: None,
            prefix: None,
            missing: Vec::new(),
        };
        let with_step = |step| Source { steps: vec![step], ..web() };
        let digest = Some(vec![(url.to_owned(), format!("md5:{}", "0".repeat(32)))]);
        for source in [
            Source::new(Base::Paths(paths())),
            with_step(Step::Selection(url.to_owned())),
            with_step(Step::KeepKeys(paths())),
            with_step(Step::DropKeys(paths())),
            with_step(Step::Join(join)),
            Source { digest, ..web() },
            Source { identity: Some(format!("{url} of today")), ..web() },
        ] {
            let recipe = Recipe {
                sources: vec![("web".into(), source)],
                output: Output::Source("web".into()),
            };
            let message = recipe.print().unwrap_err().to_string();
            assert!(message.contains("expected") && !message.contains("hush"), "{message}");
        }
        for key in [
            "path",
            "where = 'a'\npath",
            "path = 'a'\nselection",
            "path = 'a'\nkeep_keys",
            "path = 'a'\nwhen",
            "path = 'a'\ndigest.x",
        ] {
            let message = error(&format!("kiste = 1\n[source.web]\n{key} = '{url}'\n"));
            assert!(!message.contains("hush"), "{message}");
        }
        let message = error(&format!(
            "kiste = 1\n[source.web]\npath = 'a'\ndigest = {{ '{url}' = 'md5:0' }}\n'{url}' = 1"
        ));
        assert!(!message.contains("hush"), "{message}");
    }
    // In names of objects these mean nothing.
    let text = WEB.replace("web.msgpack", "s3://bucket/a?b@c");
    assert!(Recipe::parse(&text).unwrap().print().unwrap().contains("s3://bucket/a?b@c"));
}

#[test]
fn what_toml_cannot_hold_is_named() {
    let print = |value: Value| {
        let missing = vec![("stars".to_owned(), value)];
        let join = JoinRule {
            with: Base::Paths(vec!["a".into()]),
            identity: None,
            how: How::Left,
            fields: None,
            prefix: None,
            missing,
        };
        let source =
            Source { steps: vec![Step::Join(join)], ..Source::new(Base::Paths(vec!["a".into()])) };
        Recipe { sources: vec![("web".into(), source)], output: Output::Source("web".into()) }
            .print()
    };
    assert!(print(Value::Nil).unwrap().contains("missing_null = [\"stars\"]"));
    assert!(print(Value::from(i64::MAX as u64)).is_ok() && print(Value::from(i64::MIN)).is_ok());
    let deep = (0..40).fold(Value::from(1), |value, _| Value::Array(vec![value]));
    for (value, found) in [
        (Value::Binary(vec![1]), "bytes"),
        (Value::Ext(1, vec![]), "an extension of msgpack"),
        (Value::from(u64::MAX), "an integer above 9223372036854775807"),
        (Value::F32(0.5), "a float of 32 bits"),
        (Value::Map(vec![(Value::from(1), Value::from(1))]), "a map whose names are not texts"),
        (
            Value::Map(vec![
                (Value::from("a"), Value::from(1)),
                (Value::from("a"), Value::from(1)),
            ]),
            "a map that has a name twice",
        ),
        (deep, "more"),
    ] {
        let message = print(value).unwrap_err().to_string();
        assert!(
            message.starts_with("source.web.join[0].missing.stars") && message.ends_with(found),
            "{message}"
        );
    }
    let message = print(Value::Array(vec![Value::Nil])).unwrap_err().to_string();
    assert_eq!(
        message,
        "source.web.join[0].missing.stars[0]: expected a value that TOML can hold, found nil in a list or map"
    );
    let mixture = MixtureRule {
        samples: None,
        seed: u64::MAX,
        sources: vec!["a".into()],
        tokens: None,
        max_passes: vec![],
        exhausted: Exhausted::Error,
        phases: vec![Phase { from: 0, weights: vec![("a".into(), 1.0)] }],
    };
    let sources = vec![("a".to_owned(), Source::new(Base::Paths(vec!["a".into()])))];
    let message =
        Recipe { sources: sources.clone(), output: Output::Mixture(mixture) }.print().unwrap_err();
    assert_eq!(
        message.to_string(),
        "mixture.seed: expected an integer from 0 to 9223372036854775807, found 18446744073709551615"
    );
    let twice = [sources.clone(), sources].concat();
    let message =
        Recipe { sources: twice, output: Output::Concat(vec!["a".into()]) }.print().unwrap_err();
    assert_eq!(message.to_string(), "source.a: expected one source of a name, found a second one");
}

#[test]
fn steps_have_an_order() {
    let steps = Random(3).source(&[]).steps.len();
    assert!(steps <= 8);
    let mut source = Source::new(Base::Paths(vec!["a".into()]));
    let mut random = Random(4);
    let join = Step::Join(random.join(&[]));
    assert!(source.accepts(&join));
    source.steps = vec![Step::Where("a".into()), join.clone()];
    assert!(source.accepts(&join) && source.accepts(&Step::KeepFields(vec![])));
    assert!(
        !source.accepts(&Step::Where("a".into())) && !source.accepts(&Step::Selection("a".into()))
    );
    source.steps.push(Step::KeepFields(vec![]));
    assert!(
        !source.accepts(&Step::DropFields(vec![])) && !source.accepts(&Step::KeepFields(vec![]))
    );
    assert!(source.accepts(&Step::Rename(vec![])) && !source.accepts(&join));
    source.steps.swap(0, 2);
    let recipe = Recipe { sources: vec![("a".into(), source)], output: Output::Source("a".into()) };
    assert!(recipe.print().unwrap_err().to_string().contains("found `join` after `keep_fields`"));
}

#[test]
fn sources_do_not_multiply() {
    let chain = |count: usize, base: &dyn Fn(usize) -> String| {
        let mut text = "kiste = 1\n[source.s0]\npath = 'a'\n".to_owned();
        (1..count)
            .for_each(|at| text.push_str(&format!("[source.s{at}]\nsource = {}\n", base(at - 1))));
        Recipe::parse(&text)
    };
    assert!(chain(64, &|at| format!("'s{at}'")).is_ok());
    let error = chain(9000, &|at| format!("'s{at}'")).unwrap_err();
    assert_eq!(
        (error.kind(), &error.expected[..]),
        (ErrorKind::Limit, "at most 64 sources on top of one another")
    );
    assert!(chain(16, &|at| format!("['s{at}', 's{at}']")).is_ok());
    let error = chain(60, &|at| format!("['s{at}', 's{at}']")).unwrap_err();
    assert_eq!(
        (error.kind(), &error.expected[..]),
        (ErrorKind::Limit, "at most 100000 sources below one")
    );
    let error = chain(10_001, &|_| "'s0'".into()).unwrap_err();
    assert_eq!(error.expected, "at most 10000 sources");
    let mut all = "kiste = 1\nconcat = ['s0']\n".to_owned();
    (0..10_001).for_each(|at| all.push_str(&format!("[source.s{at}]\npath = 'a'\n")));
    assert_eq!(Recipe::parse(&all).unwrap_err().expected, "at most 10000 sources");
}

#[test]
fn hostile_texts_are_refused_before_they_are_parsed() {
    let nested = |open: &str, count: usize| format!("kiste = 1\na = {}", open.repeat(count));
    let dots = ".a".repeat(16);
    for (text, expected) in [
        (nested("[", 100_000), "at most 40 brackets"),
        (nested("{ a = ", 100_000), "at most 40 brackets"),
        (nested("\"\"\"x\"\"\"\", [\n", 100_000), "at most 40 brackets"),
        (nested("'''x'''', [", 100_000), "at most 40 brackets"),
        (format!("a{dots} = 1"), "at most 16 names in a key"),
        (format!("[a{dots}]"), "at most 16 names in a key"),
        (format!("a = [{}]", "1,".repeat(1 << 20)), "at most 1048576 names"),
    ] {
        let error = Recipe::parse(&text).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Limit && error.expected.starts_with(expected),
            "{error}"
        );
    }
    // What is between quotes and behind `#` is text.
    let text = format!("{WEB}where = \"\"\"{}\"\"\" # {}\n", "[\\\"".repeat(500), "[.".repeat(500));
    assert!(Recipe::parse(&text).is_ok());
    // The deepest that is let through.
    let deep = format!("{}1{}", "{ a.a.a.a.a.a.a.a.a.a.a.a.a.a = ".repeat(39), " }".repeat(39));
    assert!(Recipe::parse(&format!("{WEB}x = {deep}")).is_err());
    let deep = format!("{}1{}", "[".repeat(32), "]".repeat(32));
    let join = format!("{WEB}join = [{{ path = 'a', how = 'left', missing = {{ a = {deep} }} }}]");
    assert!(Recipe::parse(&join).unwrap().print().is_ok());
}

/// Changes of printed recipes: an error or a recipe that comes back, and no panic.
#[test]
fn damaged_recipes_do_not_panic() {
    let mut random = Random(5);
    let signs: Vec<char> = "[]{}\"'=.,#\n\\ 1a-ü\0".chars().collect();
    let mut read = 0;
    for _ in 0..if cfg!(miri) { 5 } else { 1500 } {
        let mut text: Vec<char> = random.recipe().print().unwrap().chars().collect();
        for _ in 0..1 + random.below(3) {
            let at = random.below(text.len());
            match random.below(4) {
                0 => text[at] = signs[random.below(signs.len())],
                1 => text.insert(at, signs[random.below(signs.len())]),
                2 => drop(text.remove(at)),
                _ => text.truncate(at.max(1)),
            }
        }
        let text: String = text.into_iter().collect();
        match Recipe::parse(&text) {
            Ok(recipe) => {
                read += 1;
                assert_eq!(Recipe::parse(&recipe.print().unwrap()).unwrap(), recipe);
            }
            Err(error) => {
                let lines = text.split('\n').count() as u64;
                assert!((1..=lines).contains(&error.line) && error.column > 0, "{error}");
            }
        }
    }
    assert!(read > 0);
}

fn kept(source_len: u64, indices: &[u64]) -> KeptSelection<'static> {
    KeptSelection::of_list(source_len, indices.to_vec(), "all").unwrap()
}

#[test]
fn selections_have_these_bytes() {
    let bits = kept(70, &[0, 2, 69]).with_rule("a > 1").encode().unwrap();
    let expected = "6b697374 6573656c 01000000 01000000 46000000 00000000 03000000 00000000 02000000 00000000 \
        03000000 05000000 616c6c61 203e2031 05000000 00000000 20000000 00000000 865ee90d 35ae8515";
    assert_eq!(spaced(&bits), expected);
    let runs = kept(1 << 40, &[5, 6, 7]).encode().unwrap();
    let expected = "6b697374 6573656c 01000000 00000000 00000000 00010000 03000000 00000000 01000000 00000000 \
        03000000 ffffffff 616c6c00 00000000 05000000 00000000 03000000 00000000 dcfc6a5c cd9f7b3f";
    assert_eq!(spaced(&runs), expected);
    let short = kept(10, &[9, 0, 9]).encode().unwrap();
    let expected = "6b697374 6573656c 01000000 02000000 0a000000 00000000 03000000 00000000 03000000 00000000 \
        03000000 ffffffff 616c6c00 00000000 09000000 00000000 09000000 8fbafca2 32490fd4";
    assert_eq!(spaced(&short), expected);
    let long = kept(1 << 33, &[1 << 32, 1]).encode().unwrap();
    let expected = "6b697374 6573656c 01000000 03000000 00000000 02000000 02000000 00000000 02000000 00000000 \
        03000000 ffffffff 616c6c00 00000000 00000000 01000000 01000000 00000000 f4d6526d 36ac0874";
    assert_eq!(spaced(&long), expected);
}

fn spaced(bytes: &[u8]) -> String {
    bytes.chunks(4).map(crate::format::hex).collect::<Vec<_>>().join(" ")
}

#[test]
fn selections_come_back_in_the_smaller_form() {
    let mut random = Random(6);
    for round in 0..if cfg!(miri) { 10 } else { 400 } {
        let len = 1 + random.below(1000);
        let sparse = 1 + random.below(10);
        let mut list: Vec<u64> = (0..len as u64).filter(|_| random.one_in(sparse)).collect();
        let mut words = vec![0_u64; len.div_ceil(64)];
        list.iter().for_each(|&at| words[at as usize / 64] |= 1 << (at % 64));
        let bits: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let kept = kept(len as u64, &list);
        assert_eq!(KeptSelection::of_bits(len as u64, Cow::Borrowed(&bits), "all").unwrap(), kept);
        let bytes = kept.encode().unwrap();
        assert!(bytes.len() <= 48 + 8 + bits.len() + 8, "{round}");
        let again = KeptSelection::parse(&bytes).unwrap();
        assert_eq!(again, kept);
        assert!(again.iter().eq(list.iter().copied()) && again.count == list.len() as u64);
        if list.len() > 1 {
            list.reverse();
            let kept = self::kept(len as u64, &list);
            assert!(matches!(kept.indices, Indices::List(_)));
            assert_eq!(KeptSelection::parse(&kept.encode().unwrap()).unwrap(), kept);
        }
    }
    for (len, list) in [(0, vec![]), (64, (0..64).collect()), (u64::MAX, vec![0, u64::MAX - 1])] {
        let bytes = kept(len, &list).encode().unwrap();
        assert!(KeptSelection::parse(&bytes).unwrap().iter().eq(list));
    }
}

#[test]
fn wrong_selections_are_not_made() {
    assert!(KeptSelection::of_list(3, vec![3], "a").is_err());
    assert!(KeptSelection::of_bits(3, Cow::Borrowed(&[8, 0, 0, 0, 0, 0, 0, 0]), "a").is_err());
    assert!(KeptSelection::of_bits(65, Cow::Borrowed(&[0; 8]), "a").is_err());
    let kept = |indices| KeptSelection { indices, count: 2, ..kept(10, &[1, 2]) };
    for runs in
        [vec![0..3, 5..6], vec![0..1, 1..2], vec![2..3, 0..1], vec![0..1, 9..11], vec![0..0, 4..6]]
    {
        assert!(kept(Indices::Runs(runs.clone())).encode().is_err(), "{runs:?}");
    }
    let error =
        KeptSelection::of_list(9, vec![1], "https://u:hush@h/a").unwrap().encode().unwrap_err();
    assert!(!error.to_string().contains("hush"));
}

fn examples() -> [Vec<u8>; 4] {
    [
        kept(70, &[0, 2, 69]).with_rule("a > 1"),
        kept(1 << 40, &[5, 6, 7, 900]),
        kept(10, &[9, 0, 9]),
        kept(1 << 33, &[1 << 32, 1]),
    ]
    .map(|kept| kept.encode().unwrap())
}

#[test]
fn every_flip_and_every_truncation_of_a_selection_is_noticed() {
    for bytes in examples() {
        for len in 0..bytes.len() {
            assert!(KeptSelection::parse(&bytes[..len]).is_err(), "{len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(KeptSelection::parse(&flipped).is_err(), "{bit}");
        }
        assert!(KeptSelection::parse(&[&bytes[..], &[0]].concat()).is_err());
    }
}

/// The bytes with what is put there, and the right checksum.
fn forged(bytes: &[u8], at: usize, put: &[u8]) -> Vec<u8> {
    let mut body = bytes[..bytes.len() - 8].to_vec();
    body[at..at + put.len()].copy_from_slice(put);
    let checksum = twox_hash::XxHash3_64::oneshot(&body).to_le_bytes();
    [&body[..], &checksum].concat()
}

#[test]
fn forged_selections_are_refused() {
    let [bits, runs, short, long] = examples();
    let parse = |bytes: &[u8]| KeptSelection::parse(bytes).map(|kept| kept.count);
    let fails = |bytes: &[u8], at: usize, put: u64, message: &str| {
        let error: FormatError = parse(&forged(bytes, at, &put.to_le_bytes())).unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
    };
    for count in [1 << 32, 1 << 53, u64::MAX] {
        fails(&runs, 24, count, "byte 24: expected 4 chosen samples, found");
        fails(&runs, 32, count, "byte 32: expected as many entries as 32 bytes can hold, found");
        fails(&bits, 32, count, "byte 32: expected as many entries as 16 bytes can hold, found");
        fails(&long, 56, count.max(1 << 33), "byte 56: expected an index below 8589934592, found");
    }
    fails(&runs, 32, 1, "byte 72: expected the end after 1 entries, found more bytes");
    fails(&runs, 16, 900, "byte 72: expected a run of samples from 9 to 900, found 900 to 901");
    fails(&runs, 64, u64::MAX, "byte 56: expected a run of samples from 0 to");
    fails(&runs, 64, 0, "byte 56: expected a run of samples from 0 to");
    fails(&runs, 72, 8, "byte 72: expected a run of samples from 9 to");
    fails(&short, 56, 10, "byte 56: expected an index below 10, found 10");
    fails(&bits, 16, 200, "byte 56: expected 32 bytes of bits, found 16");
    fails(&bits, 64, 1 << 6, "byte 64: expected zeros from bit 70 on");
    fails(&bits, 56, 1, "byte 24: expected 2 chosen samples, found 3");
    fails(
        &bits,
        40,
        u64::from(u32::MAX - 1),
        "byte 48: expected a text of 4294967294 bytes, found the end",
    );
    fails(&bits, 48, u64::MAX, "byte 48: expected UTF-8");
    fails(
        &runs,
        48,
        u64::from(b'a') * 0x0101_0101,
        "byte 51: expected zeros up to a multiple of 8",
    );
    for (put, message) in [
        (1_u64 | 9 << 32, "byte 12: expected a kind of selection from 0 to 3, found 9"),
        (
            2,
            "byte 8: expected version 1 of kept selections, found version 2, which a newer kiste reads",
        ),
        (0, "byte 8: expected version 1 of kept selections, found version 0"),
    ] {
        fails(&runs, 8, put, message);
    }
    // Any bytes in the header, with the right checksum.
    let mut random = Random(7);
    for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
        let bytes = [&bits, &runs, &short, &long][random.below(4)];
        let at = 8 + random.below(bytes.len() - 24);
        if let Ok(kept) = KeptSelection::parse(&forged(
            bytes,
            at,
            &random.next().to_le_bytes()[..1 + random.below(8)],
        )) {
            assert_eq!(kept.iter().take(100).count() as u64, kept.count.min(100));
            assert_eq!(KeptSelection::parse(&kept.encode().unwrap()).unwrap(), kept);
        }
    }
}
