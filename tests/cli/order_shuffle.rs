//! `order` and `shuffle`: what comes when.

use kiste::DatasetReader;
use kiste::sampler::{Sampler, Shuffle};

use super::*;
use crate::support::{assert_same_files, golden_json};

/// A dataset of `0`, `1`, … with samples of different lengths.
pub(super) fn numbered(dir: &TempDir, name: &str, samples: usize) {
    let mut writer = Writer::options().durable(false).create(dir.path().join(name)).unwrap();
    for index in 0..samples {
        let sample = serde_json::json!({
            "key": index.to_string(),
            "label": index % 3,
            "text": "x".repeat(index * 7 % 50),
        });
        writer.write(&sample).unwrap();
    }
    writer.finish().unwrap();
}

pub(super) fn open(dir: &TempDir, name: &str) -> DatasetReader {
    DatasetReader::open(dir.path().join(name)).unwrap()
}

/// The keys of a dataset, which is a good one.
#[track_caller]
pub(super) fn keys(dir: &TempDir, name: &str) -> Vec<String> {
    run(dir, ["verify", "--deep", name]).quietly();
    run(dir, ["ls", name]).quietly().out.lines().map(String::from).collect()
}

/// Asserts that a dataset has samples of others only, byte for byte.
#[track_caller]
pub(super) fn assert_passed_through(dir: &TempDir, made: &str, of: &[&str]) {
    let made = open(dir, made);
    let of: Vec<DatasetReader> = of.iter().map(|name| open(dir, name)).collect();
    for index in 0..made.len() {
        let raw = made.get_raw(index).unwrap();
        let key = made.key(index).unwrap();
        let sources = of.iter().filter_map(|of| Some((of, of.find(&key).unwrap()?)));
        let mut sources = sources.map(|(of, at)| of.get_raw(at).unwrap());
        assert!(sources.any(|source| source == raw), "{key}");
    }
}

fn numbers(run: &Run) -> Vec<u64> {
    run.out.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn an_order_is_that_of_its_sampler() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 100);
    let args = ["order", "n.msgpack", "--seed", "42", "--epoch", "3"];
    let indices = numbers(&run(&dir, [&args[..], &["--indices"]].concat()).quietly());
    let expected: Vec<u64> = Shuffle::new(100, 42).order(3).unwrap().iter().collect();
    assert_eq!(indices, expected);
    // The keys are the indices as text.
    assert_eq!(numbers(&run(&dir, args).quietly()), expected);
    let json = run(&dir, [&args[..], &["--indices", "--json"]].concat()).quietly().json();
    assert_eq!(json["indices"], serde_json::json!(expected));
    let sequential = run(&dir, ["order", "n.msgpack", "--sampler", "sequential"]).quietly();
    assert_eq!(numbers(&sequential), (0..100).collect::<Vec<u64>>());
    // A fraction is that of all samples, not always a hundredth.
    let quasi = |buffer| {
        let args = ["order", "n.msgpack", "--sampler=datadings-quasi", "--chunk-size=2", buffer];
        run(&dir, args).quietly().out
    };
    assert_eq!(quasi("--buf-size=0.2"), quasi("--buf-size=20"));
    assert_ne!(quasi("--buf-size=0.2"), quasi("--buf-size=0.01"));
}

#[test]
fn find_agrees_with_the_printed_order() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 103);
    for tail in ["uneven", "drop"] {
        let common = ["order", "n.msgpack", "--world=3", "--batch-size=8", "--tail", tail];
        let mut seen = 0;
        for index in 0..103 {
            let key = index.to_string();
            let args = [&common[..], &["--workers=2", "--json", "--find", &key]].concat();
            let found = run(&dir, args).quietly().json();
            assert_eq!(found["index"], index);
            let (Some(step), Some(rank)) = (found["step"].as_u64(), found["rank"].as_u64()) else {
                continue;
            };
            let (step_, rank_) = (step.to_string(), rank.to_string());
            let args = [&common[..], &["--step", &step_, "--rank", &rank_]].concat();
            let batch = numbers(&run(&dir, args).quietly());
            let place = found["place"].as_u64().unwrap() as usize;
            assert_eq!(batch[place], index);
            assert_eq!(found["worker"], step % 2);
            seen += 1;
        }
        assert_eq!(seen, if tail == "drop" { 96 } else { 103 });
    }
    // All ranks together see everything once.
    let mut all = Vec::new();
    for rank in ["0", "1", "2"] {
        let args = ["order", "n.msgpack", "--world=3", "--batch-size=8", "--rank", rank];
        all.extend(numbers(&run(&dir, [&args[..], &["--tail=uneven"]].concat()).quietly()));
        // Unless told otherwise they stay in step.
        assert_eq!(numbers(&run(&dir, args).quietly()).len(), 5 * 8);
    }
    all.sort_unstable();
    assert_eq!(all, (0..103).collect::<Vec<u64>>());
    let found = run(&dir, ["order", "n.msgpack", "--find", "7"]).quietly().out;
    assert!(found.starts_with("epoch 0 position "), "{found}");
    run(&dir, ["order", "n.msgpack", "--find", "x"]).fails(1, "\"x\"");
    run(&dir, ["order", "n.msgpack", "--step", "103"]).fails(1, "no step 103: the epoch has 103");
    run(&dir, ["order", "n.msgpack", "--rank", "1"]).fails(2, "rank 1 of 1");
    run(&dir, ["order", "n.msgpack", "--batch-size", "0"]).fails(2, "samples a batch");
    run(&dir, ["order", "n.msgpack", "--seed=-1"]).fails(2, "seed -1");
    run(&dir, ["order", "n.msgpack", "--buf-size=10"]).fails(2, "are for the samplers");
}

#[test]
fn orders_of_python_are_printed_and_written_exactly() {
    let orders = golden_json("orders.json");
    let dir = scratch();
    for n in [0, 10, 100] {
        numbered(&dir, &format!("{n}.msgpack"), n);
    }
    let mut compared = 0;
    let mut compare = |entry: &Json, options: &[String], shuffle: &[&str]| {
        let n = entry["n"].as_u64().unwrap();
        if ![0, 10, 100].contains(&n) {
            return;
        }
        let file = format!("{n}.msgpack");
        let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
        let seed = entry["seed"].as_i64().map(|seed| format!("--seed={seed}"));
        options.extend(seed.as_deref());
        let sampler = if shuffle.is_empty() { "datadings-quasi" } else { "datadings-shuffle" };
        // Of longer orders the golden file has the beginning.
        let epochs = entry.get("epochs").unwrap_or(&entry["epochs_first"]).as_array().unwrap();
        let begins = |order: Vec<u64>, expected: &Json| {
            let expected: Vec<u64> = serde_json::from_value(expected.clone()).unwrap();
            assert!(!expected.is_empty() || n == 0);
            assert_eq!(order[..expected.len()], expected, "{entry}");
        };
        for (epoch, expected) in epochs.iter().enumerate() {
            let epoch = format!("--epoch={epoch}");
            let args = ["order", &file, "--indices", "--sampler", sampler, &epoch];
            let printed = run(&dir, [&args[..], &options].concat()).quietly();
            begins(numbers(&printed), expected);
        }
        let args = ["shuffle", &file, "out.msgpack", "--compat", "--force", "--no-sync", "-q"];
        run(&dir, [&args[..], shuffle, &options].concat()).quietly();
        let written: Vec<u64> =
            open(&dir, "out.msgpack").keys().map(|key| key.unwrap().parse().unwrap()).collect();
        begins(written, &epochs[0]);
        compared += 1;
    };
    for entry in orders["shuffler"].as_array().unwrap() {
        compare(entry, &[], &["--true-shuffle"]);
    }
    for entry in orders["quasi"].as_array().unwrap() {
        let buffer = entry["buf_size"].as_f64().unwrap();
        if buffer < 1.0 && buffer != 0.01 {
            // Python takes all of these for 0.01.
            continue;
        }
        let chunk = &entry["chunk_size"];
        let options = [format!("--buf-size={buffer}"), format!("--chunk-size={chunk}")];
        compare(entry, &options, &[]);
    }
    assert!(compared > 40, "{compared}");
}

#[test]
fn a_shuffle_is_what_order_prints() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 500);
    for options in [&["--seed=7"][..], &["--sampler=block", "--chunk-size=8", "--buf-size=0.1"]] {
        let run_ = run(&dir, [&["shuffle", "n.msgpack", "s.msgpack", "-y"], options].concat());
        assert!(run_.exits(0).err.starts_with("s.msgpack: 500 samples, "));
        let order = run(&dir, [&["order", "n.msgpack"], options].concat()).quietly().out;
        assert_eq!(order.lines().collect::<Vec<_>>(), keys(&dir, "s.msgpack"));
        assert_ne!(keys(&dir, "s.msgpack"), keys(&dir, "n.msgpack"));
        assert_passed_through(&dir, "s.msgpack", &["n.msgpack"]);
    }
    let made = run(&dir, ["shuffle", "n.msgpack", "t.msgpack", "--json", "-q"]).quietly().json();
    assert_eq!((&made["samples"], &made["sampler"]), (&500.into(), &"shuffle".into()));
}

#[test]
fn an_external_shuffle_is_the_same_and_leaves_nothing_behind() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 4000);
    for sampler in ["shuffle", "block", "datadings-shuffle", "datadings-quasi", "sequential"] {
        let args = ["shuffle", "n.msgpack", "-y", "--no-sync", "--sampler", sampler];
        run(&dir, [&args[..], &["memory/s.msgpack"]].concat()).exits(0);
        for memory in ["500", "2k", "64k", "1G"] {
            let options = ["external/s.msgpack", "--memory", memory];
            let external = run(&dir, [&args[..], &options].concat());
            if memory == "500" {
                external.fails(2, "500 bytes of memory for");
                continue;
            }
            external.exits(0);
            let path = |name| dir.path().join(name);
            assert_same_files(&path("memory/s.msgpack"), &path("external/s.msgpack"));
        }
    }
    assert_eq!(names(&dir.path().join("external")), names(&dir.path().join("memory")));
    // Nor after an error: here of a sample whose bytes are no sample.
    let mut writer = Writer::create(dir.path().join("bad.msgpack")).unwrap();
    for index in 0..2000 {
        let key = index.to_string();
        let raw = format!("\u{1}{}", "x".repeat(100));
        writer.write_raw_unchecked(&key, raw.as_bytes()).unwrap();
    }
    writer.finish().unwrap();
    let before = names(dir.path());
    for memory in [&[][..], &["--memory", "50k"]] {
        let failed = run(&dir, [&["shuffle", "bad.msgpack", "new.msgpack"], memory].concat());
        failed.fails(1, "bad.msgpack: sample");
        assert_eq!(names(dir.path()), before);
    }
}

#[test]
fn shuffle_refuses_what_makes_no_sense() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 5);
    numbered(&dir, "other.msgpack", 1);
    let before = snapshot(dir.path());
    for force in [&[][..], &["--force"]] {
        let same = run(&dir, [&["shuffle", "n.msgpack", "./n.msgpack"], force].concat());
        same.fails(2, "is both read and written");
    }
    let there = run(&dir, ["shuffle", "n.msgpack", "other.msgpack"]);
    assert!(there.fails(2, "exists already").err.contains("hint: --force"));
    run(&dir, ["shuffle", "n.msgpack", "x.msgpack", "--compat"]).fails(2, "--compat needs");
    run(&dir, ["shuffle", "n.msgpack", "x.msgpack", "--true-shuffle"]).exits(2);
    run(&dir, ["shuffle", "n.msgpack", "x.keys"]).fails(2, "side file");
    run(&dir, ["shuffle", "none.msgpack", "x.msgpack"]).fails(2, "none.msgpack");
    run(&dir, ["shuffle", "n.msgpack", "x.msgpack", "--memory", "lots"]).exits(2);
    assert_eq!(snapshot(dir.path()), before);
    let warned = run(
        &dir,
        ["shuffle", "n.msgpack", "x.msgpack", "--compat", "--buf-size=0.5", "--chunk-size=2"],
    );
    assert!(warned.exits(0).err.contains("Python takes every number below 1 for 0.01"));
}

#[test]
fn labels_go_with_the_samples() {
    let dir = scratch();
    numbered(&dir, "n.msgpack", 5);
    fs::write(dir.path().join("n.msgpack.labels"), "zero\none\ntwo\n").unwrap();
    run(&dir, ["shuffle", "n.msgpack", "s.msgpack"]).exits(0);
    let labels = fs::read_to_string(dir.path().join("s.msgpack.labels")).unwrap();
    assert_eq!(labels, "zero\none\ntwo\n");
    fs::remove_file(dir.path().join("n.msgpack.labels")).unwrap();
    run(&dir, ["shuffle", "n.msgpack", "s.msgpack", "--force"]).exits(0);
    assert!(!dir.path().join("s.msgpack.labels").exists());
}

#[test]
fn an_empty_dataset_can_be_ordered_and_shuffled() {
    let dir = with_empty();
    for sampler in ["sequential", "shuffle", "block", "datadings-shuffle", "datadings-quasi"] {
        let order = run(&dir, ["order", "empty.msgpack", "--sampler", sampler]).quietly();
        assert_eq!(order.out, "");
        for memory in [&[][..], &["--memory=1k"]] {
            let args = ["shuffle", "-y", "empty.msgpack", "s.msgpack", "--sampler", sampler];
            run(&dir, [&args[..], memory].concat()).exits(0);
            assert!(keys(&dir, "s.msgpack").is_empty());
        }
    }
}

#[test]
fn a_shuffle_that_was_given_up_in_its_first_pass_is_found_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir, "in.msgpack", 100);
    for options in [&[][..], &["--scatter-dir", "between"]] {
        let args = ["shuffle", "in.msgpack", "b.shards.json", "--part", "2/3", "--pass", "1"];
        run(&dir, [&args[..], options].concat()).exits(0);
        let found =
            run(&dir, ["repair", "b.shards.json"]).fails(1, "a shuffle in parts was started");
        assert!(found.err.contains("run again, continue"), "{found:#?}");
        run(&dir, ["repair", "b.shards.json", "--undo"]).exits(0);
        run(&dir, ["repair", "b.shards.json"]).fails(2, "no such file or directory");
        assert!(!names(dir.path()).iter().any(|name| name.contains("scatter")));
    }
    assert_eq!(names(&dir.path().join("between")), [""; 0]);
}

#[test]
fn shards_are_shuffled_in_one_go_and_in_parts_alike() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir, "in.msgpack", 100);
    run(&dir, ["shuffle", "in.msgpack", "a.shards.json", "--shards", "3", "--seed", "5"]).exits(0);
    for pass in ["1", "2"] {
        for part in ["2/3", "3/3", "1/3"] {
            let args = ["shuffle", "in.msgpack", "b.shards.json", "--seed", "5", "--part", part];
            run(&dir, args.into_iter().chain(["--pass", pass])).exits(0);
        }
    }
    run(&dir, ["commit", "b.shards.json"]).exits(0);
    for shard in 0..3 {
        let read = |name| fs::read(dir.path().join(format!("{name}-0000{shard}.msgpack"))).unwrap();
        assert!(read("a") == read("b"));
    }
    assert_passed_through(&dir, "b.shards.json", &["in.msgpack"]);
    run(&dir, ["shuffle", "in.msgpack", "c.msgpack", "--shards", "3"])
        .fails(2, "expected the name of a manifest");
}

/// What is drawn is what the loader draws, sample for sample; bytes that are no image are an error in their line.
#[cfg(feature = "images")]
#[test]
fn what_is_drawn_for_images() {
    use kiste::image::{Header, Pipeline};
    use kiste::loader::Record;

    #[derive(serde::Serialize)]
    struct Sample {
        key: String,
        picture: serde_bytes::ByteBuf,
    }
    let dir = scratch();
    let mut writer = Writer::options().durable(false).create(dir.path().join("p.msgpack")).unwrap();
    for number in 0..6 {
        let png = if number == 4 { Vec::new() } else { crate::image::png(40 + number, 30) };
        let picture = serde_bytes::ByteBuf::from(png);
        writer.write(&Sample { key: number.to_string(), picture }).unwrap();
    }
    writer.finish().unwrap();
    let text = "seed(7) | random_resized_crop(24) | hflip";
    let args = ["order", "p.msgpack", "--seed", "1", "--epoch", "2", "--augment", text];
    let args = [&args[..], &["--field", "picture"]].concat();
    let lines = run(&dir, args.clone()).quietly().out;
    let pipeline: Pipeline = text.parse().unwrap();
    let indices: Vec<u64> = Shuffle::new(6, 1).order(2).unwrap().iter().collect();
    for ((position, index), line) in indices.iter().enumerate().zip(lines.lines()) {
        let header = Header::new(40 + *index as u32, 30);
        let plan = pipeline.plan(&header, &mut Record::rng_at(7, 2, position as u64)).unwrap();
        let drawn = match index {
            4 => "error: expected an image, found no bytes".to_owned(),
            _ => plan.to_string(),
        };
        assert_eq!(line, format!("{position}\t{index}\t{drawn}"));
    }
    assert_eq!(lines.lines().count(), 6);
    let step = [&args[..], &["--batch-size", "2", "--step", "1", "--json"]].concat();
    let json: serde_json::Value = serde_json::from_str(&run(&dir, step).quietly().out).unwrap();
    assert_eq!(json["samples"][0]["position"], 2);
    assert_eq!(json["samples"].as_array().unwrap().len(), 2);
    // A plan that was printed is read again.
    let samples = json["samples"].as_array().unwrap();
    let good = samples.iter().find(|sample| !sample["plan"].is_null()).unwrap();
    let number = |name: &str| good[name].as_u64().unwrap();
    let header = Header::new(40 + number("index") as u32, 30);
    let drawn = pipeline.plan(&header, &mut Record::rng_at(7, 2, number("position"))).unwrap();
    let read: kiste::image::Plan = serde_json::from_value(good["plan"].clone()).unwrap();
    assert_eq!(read, drawn);
    let wrong = run(&dir, ["order", "p.msgpack", "--augment", "hflop"]);
    assert!(wrong.err.contains("near names are hflip, vflip"), "{}", wrong.err);
}
