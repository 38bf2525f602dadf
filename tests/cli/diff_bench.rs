//! `diff` and `bench`.

use super::order_shuffle::numbered;
use super::*;

#[test]
fn equal_datasets_do_not_differ_whatever_their_order() {
    let dir = with_words();
    let same = run(&dir, ["diff", "words.msgpack", "words.msgpack"]).exits(0);
    assert_eq!((same.out.as_str(), same.err.as_str()), ("", "3 samples the same\n"));
    run(&dir, ["sort", "words.msgpack", "back.msgpack", "--reverse"]).exits(0);
    let same = run(&dir, ["diff", "words.msgpack", "back.msgpack"]).exits(0);
    assert!(same.err.contains("that both have are in another order"), "{same:?}");
    let counts = run(&dir, ["diff", "words.msgpack", "back.msgpack", "--json", "-q"]).quietly();
    let expected = serde_json::json!({
        "same": 3, "only_left": 0, "only_right": 0, "changed": 0, "same_order": false,
    });
    assert_eq!(counts.json(), expected);
}

#[test]
fn differences_are_listed_and_the_answer_is_no() {
    let dir = with_words();
    let other = r#"{"key":"d","n":4}
{"key":"c","n":30,"raw":{"$bin":"AAEC"},"text":"drei"}
{"key":"b","text":"zwei","n":2,"raw":{"$bin":""},"new":[1]}
"#;
    run_with(&dir, ["convert", "-", "other.msgpack"], other.as_bytes()).exits(0);
    let differ = run(&dir, ["diff", "words.msgpack", "other.msgpack"]).exits(1);
    assert_eq!(differ.out, "- a\n~ b: +new [1]\n~ c: n 3 → 30\n+ d\n");
    let told = "0 samples the same, 1 only in words.msgpack, 1 only in other.msgpack, 2 changed";
    assert!(differ.err.starts_with(told), "{differ:?}");
    let lines = run(&dir, ["diff", "words.msgpack", "other.msgpack", "--jsonl"]).exits(1).jsonl();
    assert_eq!(lines[0], serde_json::json!({"key": "a", "change": "left", "index": 0}));
    assert_eq!(lines[1]["fields"], serde_json::json!({"new": {"right": [1]}}));
    assert_eq!((&lines[1]["left"], &lines[1]["right"]), (&1.into(), &2.into()));
    assert_eq!(lines[2]["fields"], serde_json::json!({"n": {"left": 3, "right": 30}}));
    assert_eq!(lines[3], serde_json::json!({"key": "d", "change": "right", "index": 0}));

    // The same fields in another order are other bytes, too.
    let turned =
        WORDS.replace("\"n\":1,\"raw\":{\"$bin\":\"AP8=\"}", "\"raw\":{\"$bin\":\"AP8=\"},\"n\":1");
    run_with(&dir, ["convert", "-", "turned.msgpack"], turned.as_bytes()).exits(0);
    let differ = run(&dir, ["diff", "words.msgpack", "turned.msgpack"]).exits(1);
    assert_eq!(differ.out, "~ a: fields in another order, or packed differently\n");
    run(&dir, ["diff", "words.msgpack", "none.msgpack"]).fails(2, "none.msgpack");
}

#[test]
fn empty_datasets_can_be_compared_and_measured() {
    let dir = with_empty();
    run(&dir, ["diff", "empty.msgpack", "empty.msgpack"]).exits(0);
    run_with(&dir, ["convert", "-", "words.msgpack"], WORDS.as_bytes()).exits(0);
    assert_eq!(
        run(&dir, ["diff", "empty.msgpack", "words.msgpack"]).exits(1).out,
        "+ a\n+ b\n+ c\n"
    );
    assert_eq!(
        run(&dir, ["diff", "words.msgpack", "empty.msgpack"]).exits(1).out,
        "- a\n- b\n- c\n"
    );
    run(&dir, ["bench", "empty.msgpack"]).quietly();
}

#[test]
fn a_bench_reads_everything_and_says_how_fast() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 500);
    for mode in ["seq", "rand", "key", "loader"] {
        for raw in [&[][..], &["--raw"]] {
            let args = ["bench", "n.msgpack", "--passes=2", "--mode", mode];
            let told = run(&dir, [&args[..], raw].concat()).quietly().out;
            // A loader has more to say.
            assert_eq!(told.lines().filter(|line| line.starts_with("n.msgpack: ")).count(), 2);
            assert_eq!(told.lines().count() > 2, mode == "loader", "{told}");
            assert!(told.contains(": 500 samples") && told.contains("samples/s, "), "{told}");
            let json = run(&dir, [&args[..], raw, &["--json"]].concat()).quietly().json();
            assert_eq!((&json["samples"], &json["mode"]), (&500.into(), &mode.into()));
            assert!(json["passes"][1]["samples_per_second"].as_f64() > Some(0.0));
        }
    }
    run(&dir, ["bench", "none.msgpack"]).fails(2, "none.msgpack");
    run(&dir, ["bench", "n.msgpack", "--mode=loder"]).exits(2);
    let all = run(&dir, ["bench", "n.msgpack", "--json"]).quietly().json();
    for mode in ["seq", "rand", "key", "loader"] {
        let args =
            ["bench", "n.msgpack", "--limit=40", "--json", "--sampler=block", "--mode", mode];
        let json = run(&dir, args).quietly().json();
        // The loader ends its batch.
        assert_eq!(json["samples"], if mode == "loader" { 256 } else { 40 });
        let bytes = json["bytes"].as_u64().unwrap();
        assert!(bytes > 0 && Some(bytes) < all["bytes"].as_u64());
    }
}

#[test]
fn a_bench_of_the_loader_says_what_the_limit_is() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 500);
    let args = ["bench", "n.msgpack", "--mode=loader", "--batch-size=50", "--threads=1"];
    let steps = [&args[..], &["--step-ms=8", "--queue=3", "--prefetch"]].concat();
    let told = run(&dir, &steps).quietly().out;
    assert!(told.contains("n.msgpack: 500 samples in 10 batches, "), "{told}");
    assert!(told.contains("\n  1 thread  read "), "{told}");
    assert!(told.contains(" of 3 batches ready on average"), "{told}");
    assert!(told.contains("\n  limit     the consumer waits "), "{told}");
    assert!(told.contains("the loader keeps up"), "{told}");
    let report = run(&dir, [&steps[..], &["--json"]].concat()).quietly().json();
    let report = &report["passes"][0]["report"];
    assert_eq!((&report["limit"], &report["batches"]), (&"consumer".into(), &10.into()));
    assert!(report["consumer"]["busy"].as_f64() >= Some(0.08));

    // Batches are whole.
    let json = run(&dir, [&args[..], &["--limit=60", "--json"]].concat()).quietly().json();
    assert_eq!(json["samples"], 100);
    for option in ["--threads=1", "--batch-size=2", "--queue=2", "--prefetch", "--step-ms=1"] {
        let name = option.split('=').next().unwrap();
        run(&dir, ["bench", "n.msgpack", option]).fails(2, &format!("--mode loader for {name}"));
    }
    let told = run(&dir, [&args[..], &["--step-ms=soon"]].concat()).exits(2).err;
    assert!(told.contains("expected milliseconds such as 20"), "{told}");
}

#[test]
#[cfg(feature = "images")]
fn a_bench_of_images_says_what_each_stage_takes() {
    let dir = scratch();
    let mut writer = Writer::create(dir.path().join("i.msgpack")).unwrap();
    for number in 0..60_u8 {
        let image = [&b"P6 32 24 255\n"[..], &[number; 32 * 24 * 3]].concat();
        let fields = [
            ("key", number.to_string().into()),
            ("photo", kiste::Value::Binary(image)),
            ("broken", kiste::Value::from(&b"P6 32"[..])),
        ];
        let sample = fields.map(|(name, value)| (name.into(), value)).to_vec();
        writer.write_value(&kiste::Value::Map(sample)).unwrap();
    }
    writer.finish().unwrap();
    let args = |more: &[&'static str]| {
        let loader = ["bench", "i.msgpack", "--mode=loader", "--batch-size=5", "--threads=2"];
        [&loader[..], more].concat()
    };
    let pipeline = "--augment=random_resized_crop(16) | hflip | to(f32, chw) | normalize(imagenet)";
    let told = run(&dir, args(&["--field=photo", pipeline])).quietly().out;
    assert!(told.contains("i.msgpack: 60 samples in 12 batches, "), "{told}");
    for line in
        ["stage ", "reading bytes ", "unpacking msgpack ", "decoding images ", "augmenting images "]
    {
        assert!(told.contains(&format!("\n  {line}")), "{line}: {told}");
    }
    let last = told.lines().last().unwrap();
    assert!(last.starts_with("  limit: ") && last.contains("2 threads give "), "{told}");

    for pipeline in
        [pipeline, "--augment=center_crop(8)", "--augment=resize((8, 9)) | to(f16, hwc)"]
    {
        for threads in ["--threads=2", "--threads=0"] {
            let loader = ["bench", "i.msgpack", "--mode=loader", "--json", "--limit=20", threads];
            let args = [&loader[..], &["--batch-size=5", "--field=photo", pipeline]].concat();
            let json = run(&dir, args).quietly().json();
            let stages = &json["passes"][0]["stages"];
            // Also those that were made ahead.
            let samples = stages["samples"].as_u64().unwrap();
            assert!(json["samples"] == 20 && (20..=60).contains(&samples), "{json}");
            assert_eq!(stages["threads"], if threads == "--threads=2" { 2 } else { 1 });
            let parts = stages["stages"].as_array().unwrap();
            let seconds = |stage: &Json| stage["seconds"].as_f64().unwrap();
            let sum: f64 = parts.iter().map(seconds).sum();
            assert!((sum - seconds(&stages["total"])).abs() < 1e-6 && sum > 0.0, "{stages}");
            assert!(parts.iter().all(|stage| seconds(stage) >= 0.0), "{stages}");
            let worked = ["decoding", "augmenting"]
                .map(|name| seconds(parts.iter().find(|stage| stage["stage"] == name).unwrap()));
            assert!(worked[0] > 0.0 && worked[1] > 0.0, "{stages}");
            let most = parts.iter().map(seconds).fold(0.0, f64::max);
            let limit = parts.iter().find(|stage| stage["stage"] == stages["limit"]).unwrap();
            assert_eq!(seconds(limit), most);
            let rate = stages["total"]["samples_per_second"].as_f64().unwrap();
            assert!(parts.iter().all(|stage| stage["samples_per_second"].as_f64() >= Some(rate)));
        }
    }

    run(&dir, args(&[pipeline])).fails(2, "there is no field \"image\"");
    run(&dir, args(&[pipeline, "--field=broken"])).fails(1, "field \"broken\"");
    let told = run(&dir, args(&["--augment=hflip", "--field=photo"])).exits(2).err;
    assert!(told.contains("a step that gives all images one size"), "{told}");
    let told = run(&dir, args(&["--augment=random_resize_crop(8)"])).exits(2).err;
    assert!(told.contains("near names are random_resized_crop"), "{told}");
    run(&dir, ["bench", "i.msgpack", pipeline]).fails(2, "--mode loader for --augment");
    assert!(run(&dir, args(&["--raw", pipeline])).exits(2).err.contains("--raw"));
}
