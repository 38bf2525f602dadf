//! `stat`: what is in a dataset, as text, as JSON and as a page.

use kiste::Value;
use serde_json::json;

use super::*;

/// A dataset of samples of these fields.
fn dataset(dir: &TempDir, name: &str, samples: Vec<Vec<(&str, Value)>>) -> PathBuf {
    let path = dir.path().join(name);
    let mut writer = Writer::create(&path).unwrap();
    for (index, fields) in samples.into_iter().enumerate() {
        let mut sample = vec![("key".into(), format!("{index:05}").into())];
        sample.extend(fields.into_iter().map(|(name, value)| (name.into(), value)));
        writer.write_value(&Value::Map(sample)).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// The lines of a section of the text.
#[track_caller]
fn section<'a>(text: &'a str, title: &str) -> Vec<&'a str> {
    let start = text.find(&format!("\n{title}\n")).unwrap_or_else(|| panic!("{title}: {text}"));
    text[start + 1..].lines().skip(1).take_while(|line| !line.is_empty()).collect()
}

#[test]
fn numbers_have_extremes_mean_and_a_histogram() {
    let dir = scratch();
    let sample = |n: u32| {
        let score = Value::F64(f64::from(n) / 1000.0);
        vec![("score", score), ("width", Value::from(1120 + n % 900)), ("id", Value::from(n))]
    };
    dataset(&dir, "n.msgpack", (0..1000).map(sample).collect());
    let text = run(&dir, ["stat", "n.msgpack"]).quietly().out;
    let score = section(&text, "field score: numbers");
    let line = "  min 0, 5 % 0.049, 25 % 0.249, median 0.499, 75 % 0.749, 95 % 0.949, max 0.999; mean 0.4995";
    assert_eq!(score[0], line);
    assert_eq!(score.len(), 11, "{score:?}");
    assert!(score[1].starts_with("    from 0  10"), "{score:?}");
    assert!(
        section(&text, "field width: numbers")[0].starts_with("  min 1,120, 5 % 1,1"),
        "{text}"
    );
    // Not a bar for each.
    assert!(section(&text, "field id: numbers").len() < 20);
    assert!(!text.contains("classes of"), "{text}");

    let found = run(&dir, ["stat", "n.msgpack", "--json"]).quietly().json();
    let score = &found["fields"][1]["numbers"];
    assert_eq!((&score["min"], &score["max"]), (&0.0.into(), &0.999.into()));
    assert!((score["mean"].as_f64().unwrap() - 0.4995).abs() < 1e-9);
    let last = &score["bars"][9];
    assert_eq!(
        (&last["from"], &last["to"], &last["count"]),
        (&0.9.into(), &1.0.into(), &100.into())
    );
    assert_eq!(found["fields"][3]["distinct"], json!({"count": 1000, "exact": true}));
}

#[test]
fn few_values_are_listed_and_many_are_counted() {
    let dir = scratch();
    let sample = |n: usize| {
        let split = if n % 10 == 0 { "val" } else { "train" };
        vec![("split", split.into()), ("caption", format!("a picture of {n} things").into())]
    };
    dataset(&dir, "t.msgpack", (0..300).map(sample).collect());
    let text = run(&dir, ["stat", "t.msgpack"]).quietly().out;
    let split = section(&text, "field split: classes");
    assert_eq!(split[0], "  2 values: the largest has 270, the smallest 30, on average 150");
    assert!(split[1].starts_with("  train  270  ███"), "{split:?}");
    let fields = section(&text, "fields");
    assert!(fields[2].ends_with("str; all different"), "{fields:?}");
    assert!(fields[1].ends_with("str; 2 different"), "{fields:?}");
    assert_eq!(section(&text, "field caption: texts")[0], "  characters");
}

#[test]
fn labels_have_names_also_those_without_samples() {
    let dir = scratch();
    let path =
        dataset(&dir, "l.msgpack", (0..9).map(|n| vec![("label", (n % 3).into())]).collect());
    let names = ["cat", "dog", "newt", "owl", "pig"];
    fs::write(kiste::dataset::labels_path(&path), names.join("\n") + "\n").unwrap();
    let text = run(&dir, ["stat", "l.msgpack"]).quietly().out;
    let label = section(&text, "field label: classes");
    assert_eq!(label[0], "  3 values, each of 3 samples");
    assert!(label[1].starts_with("  0 cat   3  ███"), "{label:?}");
    assert_eq!(label[4], "  no samples of 2 labels: 3 owl, 4 pig");
    run(&dir, ["stat", "l.msgpack", "--html", "page.html"]).quietly();
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.contains("<i>label</i> 2 newt"), "{page}");
    assert!(page.contains("no samples of 2 labels: 3 owl, 4 pig"), "{page}");
}

/// A thousand labels of as many samples are not a thousand bars.
#[test]
fn equal_classes_have_no_bars() {
    let dir = scratch();
    let sample = |n: u32| vec![("label", Value::from(n % 1000))];
    dataset(&dir, "c.msgpack", (0..2000).map(sample).collect());
    let text = run(&dir, ["stat", "c.msgpack"]).quietly().out;
    let label = section(&text, "field label: classes");
    assert_eq!(label, ["  1,000 values, each of 2 samples"]);
    let all = run(&dir, ["stat", "c.msgpack", "--all"]).quietly().out;
    assert_eq!(section(&all, "field label: classes").len(), 1001);
    run(&dir, ["stat", "c.msgpack", "--html", "page.html"]).quietly();
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.matches("<rect").count() < 100, "{}", page.matches("<rect").count());
}

#[test]
fn the_page_has_samples_first_and_plots_that_scale() {
    let dir = scratch();
    run(&dir, ["demo", "."]).exits(0);
    run(&dir, ["stat", "digits.msgpack", "--html", "page.html"]).quietly();
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what} is not in the page"));
    assert!(at("<section id=\"samples\"") < at("<section id=\"fields\""));
    assert!(at("<section id=\"fields\"") < at("<svg"));
    assert_eq!(page.matches("<svg").count(), page.matches(" viewBox=").count());
    // Samples of each class, with how many it has.
    assert!(page.contains("<p class=\"class\">9 <i>500</i></p>"), "no title of a class");
    assert!(page.contains("@media (prefers-color-scheme: dark)"));
    // Every link of the navigation leads somewhere.
    let links: Vec<&str> =
        page.split("href=\"#").skip(1).map(|l| l.split('"').next().unwrap()).collect();
    assert!(links.len() > 4, "{links:?}");
    for link in links {
        assert_eq!(page.matches(&format!(" id=\"{link}\"")).count(), 1, "{link}");
    }
}

/// Names, keys, values and labels of a dataset are text in the page, whatever is in them.
#[test]
fn nothing_of_a_dataset_runs_in_the_page() {
    const EVIL: [&str; 5] = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "'><svg/onload=alert(1)>",
        "</style></title><a href=javascript:alert(1)>&#x3c;b&gt;",
        "]]><!--\u{202e}\u{0}\r\n",
    ];
    let dir = scratch();
    let path = dir.path().join("<b>evil&.msgpack");
    let mut writer = Writer::options().digests(false).create(&path).unwrap();
    for (index, evil) in EVIL.iter().cycle().take(40).enumerate() {
        let svg = format!("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>{evil}");
        let sample = Value::Map(vec![
            ("key".into(), format!("{evil}{index}").into()),
            ("label".into(), (index as u64 % 5).into()),
            ((*evil).into(), (*evil).into()),
            ("class".into(), (*evil).into()),
            ("image".into(), Value::Binary(svg.into_bytes())),
            ("list".into(), Value::Array(vec![(*evil).into()])),
        ]);
        writer.write_value(&sample).unwrap();
    }
    let labels = EVIL.map(|evil| evil.replace(['\r', '\n'], ""));
    writer.set_labels(Some(&labels)).unwrap();
    writer.finish().unwrap();
    run(&dir, ["stat", "<b>evil&.msgpack", "--html", "page.html"]).quietly();
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();

    const TAGS: [&str; 42] = [
        "h3",
        "script",
        "audio",
        "image",
        "th",
        "input",
        "wbr",
        "!DOCTYPE",
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "nav",
        "main",
        "section",
        "h1",
        "h2",
        "h3",
        "p",
        "a",
        "b",
        "i",
        "br",
        "div",
        "figure",
        "figcaption",
        "img",
        "details",
        "summary",
        "table",
        "tr",
        "th",
        "td",
        "svg",
        "g",
        "text",
        "rect",
        "path",
        "title",
        "br",
    ];
    const ATTRIBUTES: [&str; 33] = [
        "data-key",
        "type",
        "placeholder",
        "opacity",
        "media-src",
        "script-src",
        "preserveAspectRatio",
        "html",
        "lang",
        "charset",
        "http-equiv",
        "content",
        "name",
        "id",
        "class",
        "href",
        "alt",
        "src",
        "colspan",
        "viewBox",
        "role",
        "x",
        "y",
        "width",
        "height",
        "text-anchor",
        "d",
        "initial-scale",
        "default-src",
        "img-src",
        "style-src",
        "data",
        "device-width",
    ];
    // The script is ours, byte for byte, or the browser does not run it.
    let (before, rest) = page.split_once("<script>").unwrap();
    let (script, after) = rest.split_once("</script>").unwrap();
    assert_eq!(script, include_str!("../../src/stat/report/page.js"));
    assert!(!after.contains("script>"));
    let page = format!("{before}{after}");
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag that ends");
        let name = tag.trim_start_matches('/').split(' ').next().unwrap();
        assert!(TAGS.contains(&name), "<{tag}>");
        // Attributes are quoted, and of those that the page needs.
        let names = tag
            .split('"')
            .step_by(2)
            .flat_map(|part| part.split_whitespace().skip_while(|w| *w == name));
        for attribute in names.filter_map(|word| word.strip_suffix('=')) {
            assert!(ATTRIBUTES.contains(&attribute), "{attribute} in <{tag}>");
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
        // What is quoted, such as a key, is no markup: quotes in it are escaped.
        let markup: String = tag.split('"').step_by(2).collect();
        assert!(!markup.contains("javascript:") && !markup.contains(" on"), "<{tag}>");
        assert!(!tag.contains("href=\"j"), "<{tag}>");
    }
    for evil in ["<script", "onerror=alert(1)>", "<a href=j", "\u{202e}", "\u{0}", "\r", "http:"] {
        assert!(!page.contains(evil), "{evil:?} is in the page");
    }
    assert!(page.contains("Content-Security-Policy\" content=\"default-src 'none'"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

/// A value of each kind that has facts of its own.
#[test]
fn every_kind_of_value_has_its_facts() {
    let dir = scratch();
    let wav = |seconds: u32| {
        let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
        bytes.extend(16_000u32.to_le_bytes());
        bytes.extend(32_000u32.to_le_bytes());
        bytes.extend(b"\x02\0\x10\0data");
        bytes.extend((32_000 * seconds).to_le_bytes());
        Value::Binary(bytes)
    };
    let array = |n: u32| {
        let bytes =
            [n as f32, f32::NAN].into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
        let array = kiste::value::NdArray::new("<f4".parse().unwrap(), [2], bytes).unwrap();
        kiste::format::msgpack::numpy::Special::Array(array).to_value()
    };
    let sample = |n: u32| {
        let mut fields = vec![
            ("source", Value::from("coco")),
            ("url", Value::from(format!("https://a.example/{n}.jpg"))),
            ("taken", Value::Ext(-1, (1_700_000_000 + 86_400 * n).to_be_bytes().to_vec())),
            ("tags", Value::Array(vec![n.into(); n as usize % 4])),
            ("sound", wav(1 + n % 3)),
            ("vector", array(n)),
            (
                "caption",
                if n % 5 == 0 {
                    Value::Nil
                } else {
                    Value::from("a photograph ".repeat(n as usize % 7))
                },
            ),
        ];
        if n % 4 == 0 {
            fields.push(("rating", Value::from(0.5)));
        }
        fields
    };
    dataset(&dir, "k.msgpack", (0..200).map(sample).collect());
    let text = run(&dir, ["stat", "k.msgpack"]).quietly().out;
    let fields = section(&text, "fields");
    let ends = [
        "str; all different",
        "str; always coco",
        "str; all different",
        "timestamp; all different",
        "list; 151 different",
        "audio wav",
        "array <f4, 1-d",
        "str 160, nil 40; null in 20.0 %; 8 different",
        "float; always 0.5",
    ];
    for (line, end) in fields.iter().zip(ends) {
        assert!(line.ends_with(end), "{line:?}: {end}");
    }
    assert!(fields[8].starts_with("  rating   25.0 %"), "{fields:?}");
    // Constants and what is always different have no section of values.
    assert!(!text.contains("field source") && !text.contains("field url: classes"), "{text}");
    assert_eq!(
        section(&text, "field taken: times")[0],
        "  2023-11-14T22:13:20Z to 2024-05-31T22:13:20Z"
    );
    assert!(section(&text, "field taken: times")[1].starts_with("  2023-11  17  ███"), "{text}");
    assert_eq!(section(&text, "field tags: lists")[0], "  elements");
    let sound = section(&text, "field sound: audio");
    assert_eq!(
        sound[..3],
        ["  200 wav", "  200 at 16,000 Hz, 200 of 1 channel", "  seconds, 0.11 hours in all"]
    );
    let vector = section(&text, "field vector: arrays");
    assert_eq!(vector[1], "  elements: min 0, mean 99.5, max 199; 200 not a number");
    let page = run(&dir, ["stat", "k.msgpack", "--html", "k.html"]);
    page.quietly();
    let page = fs::read_to_string(dir.path().join("k.html")).unwrap();
    for part in
        ["<audio controls src=\"data:audio/wav;base64,", "always coco", "<i>times</i>", "16000 Hz"]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn many_urls_take_one_screen() {
    let dir = scratch();
    let url = |n: u32| vec![("url", Value::from(format!("https://a.example/images/{n}.jpg")))];
    dataset(&dir, "u.msgpack", (0..30_000).map(url).collect());
    let text = run(&dir, ["stat", "u.msgpack", "--fields", "url"]).quietly().out;
    assert!(text.lines().count() < 40, "{text}");
    assert!(section(&text, "fields")[0].ends_with("str; all different"), "{text}");
    let all = run(&dir, ["stat", "u.msgpack", "--fields", "url", "--all"]).quietly().out;
    assert!(all.lines().count() > 30_000);
}

/// Names of two columns a character.
#[test]
fn wide_characters_align() {
    let dir = scratch();
    let sample = |n: u32| vec![("label", Value::from(["猫", "dog"][usize::from(n % 3 == 0)]))];
    dataset(&dir, "w.msgpack", (0..90).map(sample).collect());
    let text = run(&dir, ["stat", "w.msgpack"]).quietly().out;
    let label = section(&text, "field label: classes");
    assert!(
        label[1].starts_with("  猫   60  █") && label[2].starts_with("  dog  30  █"),
        "{label:?}"
    );
}

#[test]
fn labels_are_counted_by_split() {
    let dir = scratch();
    let sample = |n: u32| {
        let split = if n < 80 { "train" } else { "val" };
        let label = if n < 80 { n % 2 } else { 0 };
        vec![("label", Value::from(label)), ("split", split.into()), ("fold", (n % 2).into())]
    };
    let path = dataset(&dir, "s.msgpack", (0..100).map(sample).collect());
    fs::write(kiste::dataset::labels_path(&path), "cat\ndog\n").unwrap();
    let text = run(&dir, ["stat", "s.msgpack"]).quietly().out;
    let table = section(&text, "field label by split");
    assert_eq!(
        table,
        [
            "  label        train       val",
            "  0 cat  40 (50.0 %)  20 (all)",
            "  1 dog  40 (50.0 %)      none"
        ]
    );
    let text = run(&dir, ["stat", "s.msgpack", "--by", "fold"]).quietly().out;
    assert!(section(&text, "field label by fold")[0].ends_with("  1"), "{text}");
    let told = run(&dir, ["stat", "s.msgpack", "--by", "fould"]).exits(2);
    assert!(told.err.contains("no sample has a field \"fould\""), "{}", told.err);
}

/// However few samples there are, and also where there are none.
#[test]
fn a_field_that_only_one_dataset_has_is_a_difference() {
    let dir = scratch();
    dataset(&dir, "a.msgpack", vec![vec![("x", 1.into()), ("y", 2.into())]]);
    dataset(&dir, "b.msgpack", vec![vec![("x", 1.into())]]);
    dataset(&dir, "none.msgpack", vec![]);
    let lines = |left, right| {
        let text = run(&dir, ["stat", left, "--compare", right]).quietly().out;
        section(&text, "differences, the largest first").join("\n")
    };
    let found = lines("a.msgpack", "b.msgpack");
    assert!(found.contains("  y: present") && found.contains("all  →  none"), "{found}");
    assert!(found.ends_with("  alike: x"), "{found}");
    let found = lines("none.msgpack", "a.msgpack");
    assert!(found.contains("  x: present") && found.contains("none  →  all"), "{found}");
    assert!(!found.contains("alike"), "{found}");
    let told = run(&dir, ["stat", "a.msgpack", "--field", "z"]).exits(2);
    assert!(told.err.contains("a.msgpack: no sample has a field \"z\""), "{}", told.err);
    assert!(told.err.contains("hint: \"kiste info a.msgpack\" lists the fields"), "{}", told.err);
}

#[test]
fn what_differs_comes_first() {
    let dir = scratch();
    let sample = |n: u32, shift: u32| {
        vec![
            ("label", Value::from(if n % 10 < shift { 1 } else { 0 })),
            ("width", Value::from(100 + n % 50 + 60 * u32::from(shift > 5))),
            ("same", Value::from(f64::from(n % 100))),
        ]
    };
    dataset(&dir, "a.msgpack", (0..1000).map(|n| sample(n, 2)).collect());
    dataset(&dir, "b.msgpack", (0..500).map(|n| sample(n, 7)).collect());
    let text = run(&dir, ["stat", "a.msgpack", "--compare", "b.msgpack"]).quietly().out;
    let lines = section(&text, "differences, the largest first");
    let expected = [
        "  width: numbers     100.0 %  median 124 of 100 to 149  →  median 184 of 160 to 209",
        "  bytes of a sample   56.0 %  median 39 B of 39 B to 40 B  →  median 40 B of 40 B to 40 B",
        "  label: values       50.0 %  0 80.0 %, 1 20.0 %  →  0 30.0 %, 1 70.0 %",
        "  alike: same",
    ];
    assert_eq!(lines, expected);
    let found =
        run(&dir, ["stat", "a.msgpack", "--compare", "b.msgpack", "--json"]).quietly().json();
    assert_eq!(found["differences"][0]["field"], "width");
    let same = run(&dir, ["stat", "a.msgpack", "--compare", "a.msgpack"]).quietly().out;
    assert!(same.contains("nothing differs by more than chance"), "{same}");
    run(&dir, ["stat", "a.msgpack", "--compare", "b.msgpack", "--html", "c.html"]).quietly();
    let page = fs::read_to_string(dir.path().join("c.html")).unwrap();
    assert!(
        page.contains("<h1>a.msgpack</h1>") && page.contains("<td>width</td><td>numbers</td>"),
        "{page}"
    );
}

#[test]
fn duplicates_are_groups_and_the_first_of_each_can_be_kept() {
    let dir = scratch();
    let sample = |n: u32| {
        let image = Value::Binary(vec![(n % 7) as u8; 100 + n as usize % 7]);
        vec![
            ("image", if n < 20 { image } else { Value::Binary(n.to_be_bytes().to_vec()) }),
            ("n", (n % 2).into()),
        ]
    };
    dataset(&dir, "d.msgpack", (0..50).map(sample).collect());
    let told = run(&dir, ["stat", "d.msgpack", "--duplicates", "image"]).exits(0);
    let groups: Vec<&str> = told.out.lines().collect();
    assert_eq!(groups.len(), 7, "{}", told.out);
    assert_eq!(groups[0], "00000\t00007\t00014");
    assert!(told.err.contains("20 samples in 7 groups; 13 more than one of each"), "{}", told.err);
    // The hint, to the letter.
    let hint = told.err.lines().find_map(|line| line.split_once("kiste select ")).unwrap().1;
    let words: Vec<&str> = hint.split(" writes").next().unwrap().split(' ').collect();
    assert_eq!(words, ["d.msgpack", "OUT", "--first-of", "image"]);
    run(&dir, ["select", "d.msgpack", "once.msgpack", "--first-of", "image"]).exits(0);
    let found =
        run(&dir, ["stat", "once.msgpack", "--duplicates", "image", "--json"]).quietly().json();
    assert_eq!(found, json!({"samples": 0, "groups": []}));
    let found = run(&dir, ["stat", "d.msgpack", "--duplicates", "--json"]).quietly().json();
    assert_eq!(found["groups"][0], json!(["00000", "00014"]));
    let told = run(&dir, ["stat", "d.msgpack", "--duplicates", "no"]).exits(2);
    assert!(told.err.contains("no sample has a field \"no\""), "{}", told.err);
}

#[test]
fn a_step_is_a_page() {
    let dir = scratch();
    run(&dir, ["demo", "."]).exits(0);
    let step = ["--seed", "1", "--world", "2", "--rank", "1", "--batch-size", "4", "--step", "3"];
    let order: Vec<&str> = ["order", "digits.msgpack"].into_iter().chain(step).collect();
    let keys = run(&dir, &order).quietly().out;
    let with_page = |more: &[&'static str]| {
        let words: Vec<&str> = order.iter().copied().chain(more.iter().copied()).collect();
        run(&dir, &words).quietly();
        fs::read_to_string(dir.path().join(more[1])).unwrap()
    };
    let page = with_page(&["--html", "step.html"]);
    let places: Vec<usize> =
        keys.lines().map(|key| page.find(&format!("data-key=\"{key}\"")).expect(key)).collect();
    assert!(places.len() == 4 && places.is_sorted(), "{places:?}");
    assert!(page.contains("epoch 0, rank 1 of 2, batches of 4"), "{page}");
    if cfg!(feature = "images") {
        let page =
            with_page(&["--html", "both.html", "--augment", "seed(7) | random_crop(20) | hflip"]);
        assert_eq!(page.matches("<p>20 x 20: ").count(), 4, "{page}");
    }
}

#[test]
fn a_step_of_planned_batches_is_a_page() {
    let dir = scratch();
    run(&dir, ["demo", "."]).exits(0);
    run(&dir, ["index", "digits.msgpack", "--lengths", "bytes"]).exits(0);
    let batches = ["order", "digits.msgpack", "--batches", "budget:4000", "--lengths", "bytes"];
    let order = |more: &[&'static str]| {
        let step = ["--world", "2", "--rank", "1", "--step", "3..5"];
        let words: Vec<&str> =
            batches.into_iter().chain(step).chain(more.iter().copied()).collect();
        run(&dir, &words).quietly().out
    };
    let listed = order(&[]);
    let keys: Vec<&str> = listed.lines().filter(|line| !line.starts_with("step ")).collect();
    assert!(keys.len() > 4, "{listed}");
    order(&["--html", "steps.html"]);
    let page = fs::read_to_string(dir.path().join("steps.html")).unwrap();
    let places: Vec<usize> =
        keys.iter().map(|key| page.find(&format!("data-key=\"{key}\"")).expect(key)).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(page.contains("digits.msgpack: steps 3 to 4"), "{page}");
    assert!(page.contains("epoch 0, rank 1 of 2, budget:4000"), "{page}");
    if cfg!(feature = "images") {
        // What is drawn depends on the position of a sample, which --json has too.
        let augment = ["--augment", "seed(7) | random_crop(20) | hflip"];
        let drawn = order(&[&augment[..], &["--json"]].concat());
        let drawn: serde_json::Value = serde_json::from_str(&drawn).unwrap();
        let samples = drawn["samples"].as_array().unwrap();
        let found: Vec<&str> =
            samples.iter().map(|sample| sample["key"].as_str().unwrap()).collect();
        assert_eq!(found, keys);
        let first = samples[0]["position"].as_u64().unwrap();
        assert!((first..).zip(samples).take(2).all(|(at, one)| one["position"] == at));
        order(&[&["--html", "both.html"], &augment[..]].concat());
        let page = fs::read_to_string(dir.path().join("both.html")).unwrap();
        assert_eq!(page.matches("<p>20 x 20: ").count(), keys.len());
    }
}

/// However many fields and values there are, the page can be sent to people.
#[test]
fn the_page_of_very_many_fields_has_a_limit() {
    let dir = scratch();
    let names: Vec<String> = (0..900).map(|n| format!("field_{n:03}")).collect();
    let sample = |n: u32| {
        let value = |at: usize| Value::from(format!("{:200}", (n as usize * at) % 40));
        names.iter().enumerate().map(|(at, name)| (&name[..], value(at))).collect()
    };
    dataset(&dir, "m.msgpack", (0..120).map(sample).collect());
    run(&dir, ["stat", "m.msgpack", "--html", "m.html"]).quietly();
    let page = fs::read_to_string(dir.path().join("m.html")).unwrap();
    assert!(page.len() < 3 << 20, "{}", page.len());
    assert!(page.contains(" left out, so that the page does not get too large"), "{}", page.len());
}

/// The field that labels are counted by need not be one that is described.
#[test]
fn labels_can_be_counted_by_a_field_that_is_not_described() {
    let dir = scratch();
    let sample = |n: u32| vec![("label", Value::from(n % 2)), ("fold", (n % 3).into())];
    dataset(&dir, "b.msgpack", (0..60).map(sample).collect());
    let text = run(&dir, ["stat", "b.msgpack", "--fields", "label", "--by", "fold"]).quietly().out;
    assert!(section(&text, "field label by fold")[0].ends_with("  2"), "{text}");
}
