//! `stat`: what is in a dataset, as text, as JSON and as a page.

use kiste::Value;

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
    assert_eq!(score[0], "  min 0, mean 0.4995, max 0.999");
    assert_eq!(score.len(), 11, "{score:?}");
    assert!(score[1].starts_with("    from 0  10"), "{score:?}");
    assert!(section(&text, "field width: numbers")[0].starts_with("  min 1,120, mean "), "{text}");
    // Not a bar for each.
    assert!(section(&text, "field id: numbers").len() < 20);
    assert!(!text.contains("classes of"), "{text}");

    let found = run(&dir, ["stat", "n.msgpack", "--json"]).quietly().json();
    let score = &found["fields"][1]["numbers"];
    assert_eq!((&score["min"], &score["max"]), (&0.0.into(), &0.999.into()));
    assert!((score["mean"].as_f64().unwrap() - 0.4995).abs() < 1e-9);
    let (last, count) = (&score["bars"][9], score["bars"][9]["count"].as_u64().unwrap());
    assert_eq!((&last["from"], &last["to"]), (&0.9.into(), &1.0.into()));
    assert!(count.abs_diff(100) <= 1, "{count}");
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
    assert_eq!(section(&text, "field caption: values"), ["  all different"]);
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
    assert_eq!(label, ["  1,000 values, each of 2 samples", "  select this field to see all"]);
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
    assert_eq!(page.matches("<svg").count(), page.matches("<svg viewBox=").count());
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

    const TAGS: [&str; 35] = [
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
    const ATTRIBUTES: [&str; 26] = [
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
        assert!(!tag.contains("javascript:") && !tag.contains(" on"), "<{tag}>");
    }
    for evil in ["<script", "onerror=alert(1)>", "<a href=j", "\u{202e}", "\u{0}", "\r", "http:"] {
        assert!(!page.contains(evil), "{evil:?} is in the page");
    }
    assert!(page.contains("Content-Security-Policy\" content=\"default-src 'none'"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}
