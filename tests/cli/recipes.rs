//! Recipes at the shell: every command that rearranges writes one, every command that reads reads one.

use super::*;

/// A directory with `pets.msgpack` and `birds.msgpack`.
fn with_pets() -> TempDir {
    let dir = scratch();
    let pets = br#"{"key":"cat/10","label":0,"width":200,"caption":"sleeps"}
{"key":"dog/1","label":1,"width":90.5}
{"key":"cat/9","label":0,"width":90}
{"key":"emu/1","label":2,"width":300,"caption":"runs"}
"#;
    run_with(&dir, ["convert", "-", "pets.msgpack"], pets).exits(0);
    let birds = br#"{"key":"jay/1","label":5,"width":"wide"}
{"key":"emu/1","label":2,"width":300}
"#;
    run_with(&dir, ["convert", "-", "birds.msgpack"], birds).exits(0);
    dir
}

fn listed(dir: &TempDir, name: &str) -> Vec<String> {
    let run = run(dir, ["ls", name]);
    run.out.lines().map(str::to_owned).collect()
}

#[test]
fn a_recipe_has_the_samples_of_the_dataset_that_the_same_command_makes() {
    let dir = with_pets();
    let commands: &[(&str, &[&str], &[&str])] = &[
        ("filter", &["pets.msgpack"], &["width >= 90 and has caption"]),
        ("filter", &["pets.msgpack"], &["label in (0, 2)"]),
        ("select", &["pets.msgpack"], &["--range=1..3"]),
        ("select", &["pets.msgpack"], &["--indices=3,0"]),
        ("sample", &["pets.msgpack"], &["2", "--seed=5"]),
        ("sort", &["pets.msgpack"], &["--by=width", "--reverse"]),
        ("shuffle", &["pets.msgpack"], &["--seed=3"]),
        ("merge", &["pets.msgpack", "birds.msgpack"], &["--skip-duplicates"]),
        (
            "merge",
            &["pets.msgpack", "birds.msgpack"],
            &["--skip-duplicates", "--strategy=random", "--seed=1"],
        ),
    ];
    for (command, inputs, options) in commands {
        let make = |out: &'static str| {
            let (first, rest): (&[&str], &[&str]) = match *command {
                // The condition follows the names.
                "filter" | "sample" => (&[], options),
                _ => (options, &[]),
            };
            let args = [&[*command], first, inputs, &[out, "-f"], rest].concat();
            run(&dir, args)
        };
        make("made.msgpack").exits(0);
        let told = make("made.kiste.toml").exits(0);
        assert!(told.err.contains("made.kiste.toml: "), "{command}: {}", told.err);
        assert_eq!(
            listed(&dir, "made.kiste.toml"),
            listed(&dir, "made.msgpack"),
            "{command} {options:?}"
        );
        run(&dir, ["diff", "made.msgpack", "made.kiste.toml"]).exits(0);
        run(&dir, ["cat", "made.kiste.toml"]).exits(0);
        run(&dir, ["recipe", "check", "made.kiste.toml"]).exits(0);
    }
    run(&dir, ["split", "pets.msgpack", "2", "-o", "a.kiste.toml", "b.kiste.toml"]).exits(0);
    assert_eq!(listed(&dir, "b.kiste.toml"), ["cat/9", "emu/1"]);
    // Nothing is replaced without a word.
    run(&dir, ["select", "pets.msgpack", "a.kiste.toml", "--range=1.."]).fails(2, "exists already");
    run(&dir, ["select", "a.kiste.toml", "a.kiste.toml", "--range=1..", "-f"])
        .fails(2, "another recipe");
    run(&dir, ["merge", "pets.msgpack", "birds.msgpack", "c.kiste.toml"]).fails(2, "emu/1");
}

#[test]
fn every_command_that_reads_a_dataset_reads_a_recipe() {
    let dir = with_pets();
    run(&dir, ["filter", "pets.msgpack", "r.kiste.toml", "label != 1"]).exits(0);
    for args in [
        &["info", "r.kiste.toml"][..],
        &["info", "r.kiste.toml", "--json"],
        &["stat", "r.kiste.toml"],
        &["stat", "r.kiste.toml", "--json"],
        &["stat", "r.kiste.toml", "--html", "page.html"],
        &["head", "r.kiste.toml"],
        &["tail", "r.kiste.toml"],
        &["ls", "r.kiste.toml"],
        &["cat", "r.kiste.toml"],
        &["get", "r.kiste.toml", "emu/1"],
        &["get", "r.kiste.toml", "0", "width"],
        &["order", "r.kiste.toml"],
        &["bench", "r.kiste.toml"],
        &["diff", "r.kiste.toml", "pets.msgpack"],
        &["convert", "r.kiste.toml", "r.jsonl"],
        &["convert", "r.kiste.toml", "r.tar"],
        &["convert", "r.kiste.toml", "r.msgpack"],
    ] {
        let run = run(&dir, args);
        assert!(!run.err.contains("expected a dataset"), "{args:?}: {}", run.err);
        assert!(matches!(run.code, Some(0 | 1)), "{args:?}: {run:?}");
    }
    assert_eq!(listed(&dir, "r.msgpack"), ["cat/10", "cat/9", "emu/1"]);
    let lines = fs::read_to_string(dir.path().join("r.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 3);
    for args in
        [&["verify", "r.kiste.toml"][..], &["repair", "r.kiste.toml"], &["index", "r.kiste.toml"]]
    {
        run(&dir, args).fails(2, "found a recipe");
    }
}

#[test]
fn a_check_says_what_is_left_out_and_what_differs() {
    let dir = with_pets();
    fs::write(dir.path().join("bad.txt"), "cat/9\nnot there\n").unwrap();
    let recipe = "kiste = 1\nconcat = [\"pets\", \"birds\"]\n\n[source.pets]\npath = \"pets.msgpack\"\ndrop_keys = \"bad.txt\"\nwhere = \"width > 100\"\n\n[source.birds]\npath = \"birds.msgpack\"\n";
    fs::write(dir.path().join("both.kiste.toml"), recipe).unwrap();
    let checked = run(&dir, ["recipe", "check", "both.kiste.toml"]).exits(0);
    for line in [
        "samples    4",
        "pets   2 samples: pets.msgpack.drop_keys(bad.txt).where(\"width > 100\")",
        "birds  2 samples: birds.msgpack",
        "1 sample: drop_keys bad.txt",
        "1 key, which no sample has",
        "1 sample: where width > 100",
        "1 sample with a key that comes before",
        "width: int in pets, int or str in birds",
    ] {
        assert!(checked.out.contains(line), "{line}\n{}", checked.out);
    }
    let json: Json =
        serde_json::from_str(&run(&dir, ["recipe", "check", "both.kiste.toml", "--json"]).out)
            .unwrap();
    assert_eq!((&json["samples"], &json["duplicates"]), (&4.into(), &1.into()));
    run(&dir, ["recipe", "check", "pets.msgpack"]).fails(2, "expected a recipe");

    // What was chosen is kept, and not used for another condition.
    let kept = || fs::read_dir(dir.path().join("both.kiste.kept")).unwrap().count();
    assert_eq!(kept(), 1);
    fs::write(dir.path().join("both.kiste.toml"), recipe.replace("> 100", "> 200")).unwrap();
    assert_eq!(listed(&dir, "both.kiste.toml"), ["emu/1", "jay/1", "emu/1"]);
    assert_eq!(kept(), 2);
}

#[test]
fn a_locked_recipe_refuses_other_bytes() {
    let dir = with_pets();
    let recipe = "# ours\nkiste = 1\n\n[source.pets] # the first\npath = \"pets.msgpack\"\nwhere = \"width > 100\"\n";
    fs::write(dir.path().join("r.kiste.toml"), recipe).unwrap();
    for _ in 0..2 {
        run(&dir, ["recipe", "lock", "r.kiste.toml"]).exits(0);
        let text = fs::read_to_string(dir.path().join("r.kiste.toml")).unwrap();
        assert!(text.starts_with("# ours") && text.contains("# the first"), "{text}");
        assert_eq!(
            (text.matches("identity = ").count(), text.matches("digest = ").count()),
            (1, 1),
            "{text}"
        );
    }
    assert_eq!(listed(&dir, "r.kiste.toml"), ["cat/10", "emu/1"]);
    run(&dir, ["select", "birds.msgpack", "pets.msgpack", "--range=..", "-f"]).exits(0);
    run(&dir, ["ls", "r.kiste.toml"]).fails(2, "source \"pets\"");
}

#[test]
fn a_mixture_has_its_order_and_tells_where_samples_come_from() {
    let dir = with_pets();
    let recipe = "kiste = 1\n\n[source.pets]\npath = \"pets.msgpack\"\n\n[source.birds]\npath = \"birds.msgpack\"\n\n[mixture]\nseed = 7\nsamples = 8\nweights = { pets = 1, birds = 1 }\n";
    fs::write(dir.path().join("mix.kiste.toml"), recipe).unwrap();
    let keys = run(&dir, ["order", "mix.kiste.toml"]).out;
    assert_eq!(keys.lines().count(), 8);
    let step = run(&dir, ["order", "mix.kiste.toml", "--batch-size=2", "--step=1..3", "--source"])
        .exits(0);
    let lines: Vec<&str> = step.out.lines().collect();
    assert_eq!((lines[0], lines[3], lines.len()), ("step 1", "step 2", 6), "{}", step.out);
    let all: Vec<&str> = keys.lines().collect();
    for (line, key) in lines[1..3].iter().chain(&lines[4..6]).zip(&all[2..6]) {
        let [source, file, found] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert_eq!(found, *key);
        assert_eq!(file, format!("{source}.msgpack"));
    }
    let key = all[0];
    let found =
        run(&dir, ["order", "mix.kiste.toml", "--batch-size=2", "--world=2", "--find", key])
            .exits(0);
    assert_eq!(
        found.out.lines().count(),
        all.iter().filter(|other| **other == key).count(),
        "{}",
        found.out
    );
    let found = run(&dir, ["order", "mix.kiste.toml", "--find", key, "--json"]).exits(0);
    let found: Json = serde_json::from_str(&found.out).unwrap();
    let others = found["others"].as_array().map_or(0, Vec::len);
    assert_eq!(1 + others, all.iter().filter(|other| **other == key).count(), "{found}");
    run(&dir, ["order", "mix.kiste.toml", "--seed=3"]).fails(2, "a mixture has its own");
    run(&dir, ["order", "mix.kiste.toml", "--step=5..3"]).exits(2);
    let checked = run(&dir, ["recipe", "check", "mix.kiste.toml"]).out;
    assert!(checked.contains("from 0: pets 50.0 %, birds 50.0 %"), "{checked}");
}

#[test]
fn a_recipe_from_elsewhere_stays_in_its_folder() {
    let dir = with_pets();
    fs::create_dir(dir.path().join("theirs")).unwrap();
    for path in ["../pets.msgpack", "/etc/passwd", "http://127.0.0.1:9/x.msgpack"] {
        let recipe = format!("kiste = 1\n[source.a]\npath = \"{path}\"\n");
        fs::write(dir.path().join("theirs/r.kiste.toml"), recipe).unwrap();
        run(&dir, ["ls", "theirs/r.kiste.toml", "--untrusted"]).fails(2, "in this folder");
    }
    fs::write(
        dir.path().join("theirs/r.kiste.toml"),
        "kiste = 1\n[source.a]\npath = \"../pets.msgpack\"\n",
    )
    .unwrap();
    let checked = run(&dir, ["recipe", "check", "theirs/r.kiste.toml"]);
    assert!(checked.out.contains("outside    theirs/../pets.msgpack"), "{}", checked.out);
    for (wrong, says) in [
        ("kiste = 2\n", "expected"),
        ("kiste = 1\n[source.a]\npath = \"none.msgpack\"\n", "none.msgpack"),
        ("kiste = 1\n[source.a]\npth = \"x\"\n", "path"),
        ("\u{0}", "expected"),
    ] {
        fs::write(dir.path().join("wrong.kiste.toml"), wrong).unwrap();
        run(&dir, ["ls", "wrong.kiste.toml"]).fails(2, says);
    }
}

/// A dataset of random commands, as lists of keys and numbers know it. Each result is a recipe or a dataset, and the next
/// commands read it by its name, alone or with others.
#[test]
fn random_compositions_are_those_of_a_model() {
    let cases = if std::env::var_os("KISTE_TEST_ALL").is_some() { 1000 } else { 12 };
    let mut random = Random(40);
    for case in 0..cases {
        let dir = scratch();
        let mut known: Vec<(String, Vec<(String, u64)>)> = Vec::new();
        for (name, first, count) in [("a", 0, 12 + case % 9), ("b", 8, 7), ("c", 100, case % 3)] {
            let samples: Vec<(String, u64)> =
                (first..first + count).map(|n| (format!("k{n}"), n * 7 % 50)).collect();
            let lines = samples.iter().map(|(key, n)| format!("{{\"key\":\"{key}\",\"n\":{n}}}\n"));
            let (file, text) = (format!("{name}.msgpack"), lines.collect::<String>());
            if samples.is_empty() {
                Writer::create(dir.path().join(&file)).unwrap().finish().unwrap();
            } else {
                run_with(&dir, ["convert", "-", &file], text.as_bytes()).exits(0);
            }
            known.push((file, samples));
        }
        for step in 0..1 + random.below(5) {
            let at = random.below(known.len() as u64) as usize;
            let (name, samples) = known[at].clone();
            let ending = if random.below(3) == 0 { "msgpack" } else { "kiste.toml" };
            let out = format!("s{step}.{ending}");
            let (args, expected): (Vec<String>, Vec<(String, u64)>) = match random.below(7) {
                0 => {
                    let (least, most) = (random.below(50), random.below(50));
                    let chosen = samples.iter().filter(|(_, n)| *n >= least || *n == most);
                    let condition = format!("n >= {least} or n in ({most})");
                    (vec!["filter".into(), name, out.clone(), condition], chosen.cloned().collect())
                }
                1 => {
                    let (from, to) = (random.below(9), random.below(20));
                    let len = samples.len() as u64;
                    let (from, to) = (from.min(len), to.min(len).max(from.min(len)));
                    let chosen = samples[from as usize..to as usize].to_vec();
                    (
                        vec!["select".into(), format!("--range={from}..{to}"), name, out.clone()],
                        chosen,
                    )
                }
                2 if !samples.is_empty() => {
                    let mut left: Vec<usize> = (0..samples.len()).collect();
                    let mut chosen = Vec::new();
                    for _ in 0..1 + random.below(6).min(samples.len() as u64 - 1) {
                        chosen.push(left.remove(random.below(left.len() as u64) as usize));
                    }
                    let list: Vec<String> = chosen.iter().map(usize::to_string).collect();
                    let args = vec![
                        "select".into(),
                        format!("--indices={}", list.join(",")),
                        name,
                        out.clone(),
                    ];
                    (args, chosen.into_iter().map(|at| samples[at].clone()).collect())
                }
                3 => {
                    let other = known[random.below(known.len() as u64) as usize].clone();
                    let mut merged = samples.clone();
                    for sample in other.1 {
                        if !merged.iter().any(|(key, _)| *key == sample.0) {
                            merged.push(sample);
                        }
                    }
                    let args = ["merge", "--skip-duplicates", &name, &other.0, &out];
                    (args.map(str::to_owned).to_vec(), merged)
                }
                4 => {
                    let mut sorted = samples;
                    sorted.sort_by_key(|(_, n)| *n);
                    (["sort", "--by=n", &name, &out].map(str::to_owned).to_vec(), sorted)
                }
                5 => {
                    // Neither knows the numbers that are drawn: the same with the other ending is what there is to be.
                    let twin = format!("t{step}.msgpack");
                    let seed = format!("--seed={}", random.below(99));
                    run(&dir, ["shuffle", &seed, &name, &twin]).exits(0);
                    let drawn: Vec<(String, u64)> = listed(&dir, &twin)
                        .into_iter()
                        .map(|key| samples.iter().find(|(known, _)| *known == key).unwrap().clone())
                        .collect();
                    assert_eq!(drawn.len(), samples.len());
                    (["shuffle", &seed, &name, &out].map(str::to_owned).to_vec(), drawn)
                }
                _ => {
                    let keys: Vec<String> =
                        samples.iter().step_by(2).map(|(key, _)| key.clone()).collect();
                    fs::write(dir.path().join("keys.txt"), keys.join("\n")).unwrap();
                    let chosen = samples.into_iter().step_by(2).collect();
                    (["select", "--keys=keys.txt", &name, &out].map(str::to_owned).to_vec(), chosen)
                }
            };
            run(&dir, &args).exits(0);
            let keys: Vec<&str> = expected.iter().map(|(key, _)| &key[..]).collect();
            assert_eq!(listed(&dir, &out), keys, "case {case}: {args:?}");
            let lines = run(&dir, ["cat", &out]).exits(0);
            let numbers: Vec<u64> =
                lines.jsonl().iter().map(|sample| sample["n"].as_u64().unwrap()).collect();
            assert_eq!(
                numbers,
                expected.iter().map(|(_, n)| *n).collect::<Vec<_>>(),
                "case {case}: {args:?}"
            );
            known.push((out, expected));
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}
