//! Shards of other formats than datasets: where they end, what they are called, and that they hold the same samples.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kiste::convert::{
    BadInput, Conversion, Duplicates, Format, Monitor, Part, Progress, Silent, Split, commit,
};
use kiste::{DatasetReader, ErrorKind};
use tempfile::TempDir;

/// The names of outputs, their formats, and what reading them back needs as key.
const OUTPUTS: [(&str, Format, Option<&str>); 7] = [
    ("x.jsonl", Format::Jsonl, None),
    ("x.tfrecord", Format::Tfrecord, Some("key")),
    ("x.csv", Format::Csv, Some("key")),
    ("x.parquet", Format::Parquet, None),
    ("x.arrow", Format::Arrow, None),
    ("x.tar", Format::Webdataset, None),
    ("x", Format::Mds, Some("key")),
];

/// Whether the shards of an output are files next to each other with five digits.
fn is_cut(format: Format) -> bool {
    !matches!(format, Format::Webdataset | Format::Mds)
}

/// A folder with `in.jsonl`: this many samples of different sizes.
fn with_lines(samples: usize) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let line = |i: usize| {
        let text = "x".repeat(i * 7 % 50);
        format!("{{\"key\":\"k{i:05}\",\"n\":{i},\"text\":\"{text}\"}}\n")
    };
    let path = dir.path().join("in.jsonl");
    fs::write(&path, (0..samples).map(line).collect::<String>()).unwrap();
    (dir, path)
}

/// All files in the folder whose names begin so, and below it.
fn files(dir: &Path, stem: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            _ if !name.starts_with(stem) => {}
            true => {
                let below = files(&path, "").into_iter();
                found.extend(below.map(|(file, bytes)| (format!("{name}/{file}"), bytes)));
            }
            false => drop(found.insert(name, fs::read(&path).unwrap())),
        }
    }
    found
}

fn names(dir: &Path, stem: &str) -> Vec<String> {
    files(dir, stem).into_keys().collect()
}

fn remove(dir: &Path, stem: &str) {
    for name in names(dir, stem) {
        fs::remove_file(dir.join(&name)).unwrap();
    }
    let _ = fs::remove_dir(dir.join(stem));
}

/// The samples of these sources, packed.
fn samples(sources: &[PathBuf], format: Format, key: Option<&str>) -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("back.msgpack");
    let back = Conversion::new(sources, &path).from(format).durable(false);
    let back = key.into_iter().fold(back, Conversion::key_field);
    back.run(&mut Silent).unwrap();
    let reader = DatasetReader::open(&path).unwrap();
    reader.iter_raw(..).map(|sample| sample.unwrap().into_owned()).collect()
}

fn conversion(input: &Path, output: PathBuf, format: Format) -> Conversion {
    Conversion::new([input], output).to(format)
}

#[test]
fn shards_of_every_format_have_the_samples_of_one_output() {
    let (dir, input) = with_lines(300);
    for (name, format, key) in OUTPUTS {
        let (out, one) = (dir.path().join(name), dir.path().join(format!("one-{name}")));
        let single = conversion(&input, one.clone(), format).run(&mut Silent).unwrap();
        let expected = samples(&single.outputs[0].files, format, key);
        let report =
            conversion(&input, out.clone(), format).shard_samples(70).run(&mut Silent).unwrap();
        let made = &report.outputs[0];
        assert_eq!((made.samples, &made.path), (300, &out), "{name}");
        let shards: Vec<PathBuf> = match format {
            Format::Mds => (0..5).map(|n| out.join(format!("shard.{n:05}.mds"))).collect(),
            _ => made.files.clone(),
        };
        assert_eq!(shards.len(), 5, "{name}: {shards:?}");
        for (number, shard) in shards.iter().enumerate() {
            if is_cut(format) {
                let ending = name.trim_start_matches('x');
                assert_eq!(*shard, dir.path().join(format!("x-{number:05}{ending}")));
            }
            if format != Format::Mds {
                let own = samples(std::slice::from_ref(shard), format, key);
                let end = expected.len().min(number * 70 + 70);
                assert!(own == expected[number * 70..end], "{shard:?}");
            }
        }
        assert!(samples(&made.files, format, key) == expected, "{name}");
        // A limit that is never reached makes one shard.
        let wide = dir.path().join(format!("wide-{name}"));
        let whole = conversion(&input, wide, format).shard_samples(u64::MAX).shard_size(u64::MAX);
        let report = whole.run(&mut Silent).unwrap();
        assert_eq!(report.outputs[0].files.len(), 1, "{name}");
        assert!(samples(&report.outputs[0].files, format, key) == expected, "{name}");
        if matches!(format, Format::Jsonl | Format::Tfrecord | Format::Csv) {
            let [shard, single] =
                [&report, &single].map(|made| fs::read(&made.outputs[0].files[0]));
            assert!(shard.unwrap() == single.unwrap(), "{name}");
        }
    }
}

/// The rule that the guide has.
#[test]
fn a_shard_ends_with_the_sample_that_reaches_the_size() {
    let (dir, input) = with_lines(400);
    let packed = samples(std::slice::from_ref(&input), Format::Jsonl, None);
    for (name, format, key) in OUTPUTS {
        let out = dir.path().join(name);
        let (size, most) = match format {
            Format::Webdataset => (20_000, 12),
            Format::Mds => (5000, 60),
            _ => (1000, 25),
        };
        let sized = conversion(&input, out.clone(), format).shard_size(size);
        for both in [false, true] {
            let sized = if both { sized.clone().shard_samples(most) } else { sized.clone() };
            let files = sized.run(&mut Silent).unwrap().outputs.remove(0).files;
            let mut before = 0;
            match format {
                Format::Mds => {
                    let shards = files_in(&out, ".mds");
                    assert!(shards.len() > 2 && shards.iter().all(|bytes| *bytes <= size));
                }
                Format::Webdataset => {
                    for file in &files[..files.len() - 1] {
                        let bytes = fs::metadata(file).unwrap().len();
                        let count = samples(std::slice::from_ref(file), format, key).len() as u64;
                        assert!(bytes >= size || (both && count == most), "{bytes} {count}");
                    }
                }
                _ => {
                    for (number, file) in files.iter().enumerate() {
                        let count = samples(std::slice::from_ref(file), format, key).len();
                        let own = &packed[before..before + count];
                        let bytes =
                            |samples: &[Vec<u8>]| samples.iter().map(Vec::len).sum::<usize>();
                        let is_full = bytes(own) as u64 >= size || (both && count as u64 == most);
                        assert!(is_full || number + 1 == files.len(), "{name} {number}");
                        let last = count - 1;
                        assert!((bytes(&own[..last]) as u64) < size);
                        assert!(!both || count as u64 <= most);
                        before += count;
                    }
                    assert_eq!(before, packed.len(), "{name}");
                }
            }
            remove(dir.path(), "x");
        }
    }
}

fn files_in(dir: &Path, ending: &str) -> Vec<u64> {
    let made = files(dir, "").into_iter().filter(|(name, _)| name.ends_with(ending));
    made.map(|(_, bytes)| bytes.len() as u64).collect()
}

#[test]
fn samples_that_are_left_out_do_not_count() {
    let (dir, input) = with_lines(0);
    // Every third one cannot be written to a table, and the last ones as well.
    let line = |i: usize| match i % 3 == 1 || i > 56 {
        true => format!("{{\"key\":\"k{i}\",\"n\":[1]}}\n"),
        false => format!("{{\"key\":\"k{i}\",\"n\":{i}}}\n"),
    };
    fs::write(&input, (0..60).map(line).collect::<String>()).unwrap();
    for name in ["x.csv", "x.parquet", "x.arrow"] {
        let made = Conversion::new([&input], dir.path().join(name)).shard_samples(19);
        let report = made.on_bad_input(BadInput::Skip).run(&mut Silent).unwrap();
        let output = &report.outputs[0];
        assert_eq!((output.samples, report.bad.count), (38, 22), "{name}");
        // None is begun for samples that do not come.
        assert_eq!(output.files.len(), 2, "{name}");
        assert_eq!(names(dir.path(), "x").len(), 2, "{name}");
        for file in &output.files {
            let format = Format::of_output(name);
            let key = (format == Format::Csv).then_some("key");
            assert_eq!(samples(std::slice::from_ref(file), format, key).len(), 19, "{name}");
        }
        remove(dir.path(), "x");
    }
    // Those that are skipped because of their keys neither.
    let lines = fs::read_to_string(&input).unwrap();
    fs::write(&input, format!("{lines}{lines}{}", lines.replace(":\"k", ":\"l"))).unwrap();
    for name in ["x.jsonl", "x.tar", "x.shards.json"] {
        let made = Conversion::new([&input], dir.path().join(name)).shard_samples(50);
        let report = made.on_duplicates(Duplicates::Skip).run(&mut Silent).unwrap();
        let output = &report.outputs[0];
        assert_eq!((output.samples, report.skipped_duplicates), (120, 60), "{name}");
        let format = if name.ends_with("json") { Format::Dataset } else { Format::of_output(name) };
        let counts: Vec<usize> = output
            .files
            .iter()
            .map(|file| samples(std::slice::from_ref(file), format, None).len())
            .collect();
        assert_eq!(counts, [50, 50, 20], "{name}");
        remove(dir.path(), "x");
    }
}

/// The first samples of the output decide the columns of all shards, as of one file.
#[test]
fn all_shards_have_the_same_columns() {
    let (dir, input) = with_lines(0);
    // At first only nil, then also numbers; and a field that comes late.
    let line = |i: usize| match i {
        0..10 => format!("{{\"key\":\"k{i}\",\"a\":null}}\n"),
        10..1000 => format!("{{\"key\":\"k{i}\",\"a\":{i}}}\n"),
        _ => format!("{{\"key\":\"k{i}\",\"a\":{i},\"late\":\"x\"}}\n"),
    };
    fs::write(&input, (0..999).map(line).collect::<String>()).unwrap();
    let of = |name: &str, samples: u64| {
        Conversion::new([&input], dir.path().join(name)).shard_samples(samples).overwrite(true)
    };
    for name in ["x.parquet", "x.arrow"] {
        let format = Format::of_output(name);
        for count in [1, 7, 10, 400] {
            let files = of(name, count).run(&mut Silent).unwrap().outputs.remove(0).files;
            assert_eq!(files.len() as u64, 999_u64.div_ceil(count));
            let back = samples(&files, format, None);
            assert!(
                back == samples(std::slice::from_ref(&input), Format::Jsonl, None),
                "{name} {count}"
            );
        }
    }
    let csv = of("x.csv", 3).run(&mut Silent).unwrap().outputs.remove(0).files;
    for file in &csv {
        assert!(fs::read_to_string(file).unwrap().starts_with("key,a\n"), "{file:?}");
    }
    // A field that none of the first samples has is refused, however the shards are cut.
    fs::write(&input, (0..1100).map(line).chain([line(1100)]).collect::<String>()).unwrap();
    for name in ["x.csv", "x.parquet", "x.arrow"] {
        let before = files(dir.path(), "x");
        let whole = of(name, u64::MAX).run(&mut Silent).map(|report| report.outputs[0].samples);
        for count in [1, 300] {
            let cut = of(name, count).run(&mut Silent).map(|report| report.outputs[0].samples);
            match (&whole, &cut) {
                (Ok(whole), Ok(cut)) => assert_eq!(whole, cut),
                (Err(whole), Err(cut)) => assert_eq!(whole.to_string(), cut.to_string()),
                other => panic!("{name} {count}: {other:?}"),
            }
        }
        if name == "x.csv" {
            assert!(whole.unwrap_err().to_string().contains("\"late\""));
            assert!(files(dir.path(), "x") == before);
        }
    }
}

/// What values became is counted over all shards, as in one file.
#[test]
fn changes_are_the_same_as_in_one_output() {
    let (dir, input) = with_lines(0);
    // Numbers in the first shards, strings in later ones; some values are nil, others missing.
    let line = |i: usize| match i {
        0..40 => format!("{{\"key\":\"k{i}\",\"a\":{i},\"b\":null}}\n"),
        _ => format!("{{\"key\":\"k{i}\",\"a\":\"x{i}\"}}\n"),
    };
    fs::write(&input, (0..90).map(line).collect::<String>()).unwrap();
    let numbers = dir.path().join("numbers.jsonl");
    let line = |i: usize| match i % 40 {
        0..20 => format!("{{\"key\":\"k{i}\",\"b\":null}}\n"),
        20..30 => format!("{{\"key\":\"k{i}\"}}\n"),
        _ => format!("{{\"key\":\"k{i}\",\"b\":{i}}}\n"),
    };
    fs::write(&numbers, (0..3000).map(line).collect::<String>()).unwrap();
    for (input, name) in [
        (&input, "x.csv"),
        (&numbers, "x.parquet"),
        (&numbers, "x.arrow"),
        (&numbers, "x.tfrecord"),
        (&input, "x.jsonl"),
    ] {
        let of = || Conversion::new([input], dir.path().join(name)).overwrite(true);
        let whole = of().run(&mut Silent).unwrap();
        let cut = of().shard_samples(11).run(&mut Silent).unwrap();
        assert_eq!(whole.changes, cut.changes, "{name}");
        let is_exact = matches!(name, "x.jsonl" | "x.tfrecord");
        assert!(!whole.changes.is_empty() || is_exact, "{name}");
    }
}

/// What takes the place of old shards is all that is there then; nothing else is touched.
#[test]
fn shards_are_replaced_as_a_whole() {
    let (dir, input) = with_lines(100);
    for (name, format, _) in OUTPUTS.into_iter().filter(|(_, format, _)| is_cut(*format)) {
        let ending = name.trim_start_matches('x');
        let others = [
            name.to_owned(),
            format!("x-0{ending}"),
            format!("x-20240101{ending}"),
            format!("x-a-00000{ending}"),
            format!("x-00000{ending}.bak"),
            format!("xx-00000{ending}"),
        ];
        for other in &others {
            fs::write(dir.path().join(other), "mine").unwrap();
        }
        let of = |samples| conversion(&input, dir.path().join(name), format).shard_samples(samples);
        of(10).run(&mut Silent).unwrap();
        let ten = files(dir.path(), "x");
        let error = of(10).run(&mut Silent).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert!(error.to_string().contains("x-00000"), "{error}");
        assert!(files(dir.path(), "x") == ten);
        let error = of(10).check_output().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        // One that is left of more is in the way, too.
        let of_two = of(50).overwrite(true);
        of_two.run(&mut Silent).unwrap();
        let mut left = files(dir.path(), "x");
        for other in &others {
            assert_eq!(left.remove(other).unwrap(), b"mine", "{other}");
        }
        let two = [0, 1].map(|n| format!("x-{n:05}{ending}"));
        assert!(left.keys().eq(&two), "{left:?}");
        // In parts as well, and with a commit that finds more shards than it makes.
        of(10).overwrite(true).run(&mut Silent).unwrap();
        for part in Part::all(3) {
            of_two.run_part(part, &mut Silent).unwrap();
        }
        commit(dir.path().join(name), &mut Silent).unwrap();
        for other in &others {
            left.insert(other.clone(), b"mine".to_vec());
        }
        assert!(files(dir.path(), "x") == left, "{name}");
        remove(dir.path(), "x");
    }
}

/// Stops after being asked this many times.
struct Stops(Cell<usize>);

impl Monitor for Stops {
    fn is_cancelled(&self) -> bool {
        self.0.set(self.0.get().saturating_sub(1));
        self.0.get() == 0
    }

    fn progress(&mut self, _: Progress) {}
}

#[test]
fn parts_splits_and_runs_that_are_resumed_make_the_same_bytes() {
    let (dir, input) = with_lines(500);
    for (name, format, _) in OUTPUTS {
        for split in [None, Some(Split::new().ratio("a", 2.0).ratio("b", 1.0))] {
            let of = || {
                let of = conversion(&input, dir.path().join(name), format);
                let of = of.shard_samples(40).shard_size(100_000).limit(430);
                split.iter().cloned().fold(of, Conversion::split)
            };
            let report = of().run(&mut Silent).unwrap();
            let written: u64 = report.outputs.iter().map(|output| output.samples).sum();
            assert_eq!((written, report.outputs.len()), (430, 1 + usize::from(split.is_some())));
            let whole = files(dir.path(), "x");
            assert!(whole.len() >= 11, "{:?}", whole.keys());
            let clear = || {
                for side in ["x", "x-a", "x-b"] {
                    remove(dir.path(), side);
                }
            };
            clear();
            for part in Part::all(3) {
                of().run_part(part, &mut Silent).unwrap();
            }
            for after in 1.. {
                match commit(dir.path().join(name), &mut Stops(Cell::new(after))) {
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
                    Ok(_) => break,
                }
            }
            assert!(files(dir.path(), "x") == whole, "{name}");
            clear();
            for after in (1..).step_by(2) {
                match of().resume(true).run(&mut Stops(Cell::new(after))) {
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
                    Ok(_) => break,
                }
            }
            assert!(files(dir.path(), "x") == whole, "{name}");
            clear();
        }
    }
}

#[test]
fn two_outputs_of_a_split_get_names_of_their_own() {
    let (dir, input) = with_lines(200);
    let of = |split| Conversion::new([&input], dir.path().join("x.jsonl")).split(split);
    // Numbers in the names of sides are no numbers of shards.
    let split = Split::new().ratio("a", 1.0).ratio("a-00000", 1.0);
    let report = of(split).shard_samples(30).run(&mut Silent).unwrap();
    let (a, b) = (&report.outputs[0], &report.outputs[1]);
    assert_eq!(a.samples + b.samples, 200);
    assert_eq!(names(dir.path(), "x").len(), a.files.len() + b.files.len());
    assert!(
        a.files[1].ends_with("x-a-00001.jsonl") && b.files[1].ends_with("x-a-00000-00001.jsonl")
    );
    // The shards of one are not in the way of the other.
    let split = Split::new().ratio("a-00000", 1.0).ratio("c", 1.0);
    let error = of(split).shard_samples(30).run(&mut Silent).unwrap_err();
    assert!(error.to_string().contains("x-a-00000-00000"), "{error}");
    let split = Split::new().ratio("a", 1.0).ratio("a.partial", 1.0);
    let of = Conversion::new([&input], dir.path().join("y")).to(Format::Jsonl).split(split);
    let error = of.shard_samples(30).run(&mut Silent).unwrap_err();
    assert!(error.to_string().contains("same name"), "{error}");
}

#[test]
fn what_makes_no_sense_is_refused_before_any_work() {
    let (dir, input) = with_lines(5);
    let of = |name: &str| Conversion::new([&input], dir.path().join(name));
    let mut refused = vec![
        (of("x.msgpack").shard_samples(2), "shard_samples", "name a manifest"),
        (of("x.msgpack").shard_size(2), "shard_size", "name a manifest"),
        (of("x.jsonl").shards(2), "shards", "name a manifest"),
        (of("x.jsonl").shards(2).shard_samples(2), "shards", "combined with shard_samples"),
        (of("x.npz").shard_samples(2), "shard_samples", "npz: a field is one array"),
        (of("x.npz").shard_size(2), "shard_size", "npz: a field is one array"),
        (of("x").to(Format::Images).shard_samples(2), "shard_samples", "a folder of images"),
        (of("x").to(Format::Images).shard_size(2), "shard_size", "a folder of images"),
    ];
    for name in ["x.jsonl", "x.tar", "x.npz", "x.shards.json", "x.parquet"] {
        refused.push((of(name).shard_samples(0), "shard_samples", "expected at least 1"));
        refused.push((of(name).shard_size(0), "shard_size", "expected at least 1 byte"));
    }
    for (conversion, option, says) in refused {
        let error = conversion.run(&mut Silent).unwrap_err();
        assert_eq!(error.option(), Some(option), "{error}");
        assert!(error.to_string().contains(says), "{error}");
        let error = conversion.run_part(Part::new(1, 2).unwrap(), &mut Silent).unwrap_err();
        assert_eq!(error.option(), Some(option), "{error}");
    }
    assert_eq!(names(dir.path(), ""), ["in.jsonl"]);
    // Without samples there is one shard, where a format may have none.
    fs::write(&input, "").unwrap();
    let made = of("x.jsonl").shard_samples(2).run(&mut Silent).unwrap();
    assert_eq!(made.outputs[0].files, [dir.path().join("x-00000.jsonl")]);
    let error = of("x.parquet").shard_samples(2).run(&mut Silent).unwrap_err();
    assert!(error.to_string().contains("found none"), "{error}");
    assert_eq!(names(dir.path(), "x"), ["x-00000.jsonl"]);
}

/// Each shard of a table is complete without the others: it has the names of the labels, and pictures are pictures.
#[test]
fn each_shard_has_the_names_of_the_labels() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.msgpack");
    let mut writer = kiste::Writer::create(&input).unwrap();
    for i in 0..6_u8 {
        // Only the first ones are pictures, and one column is for all.
        let bytes: &[u8] = if i < 4 { b"\xff\xd8\xff\xe0" } else { b"none" };
        let fields = [
            ("key", format!("k{i}").into()),
            ("image", kiste::Value::Binary(bytes.to_vec())),
            ("label", u64::from(i % 2).into()),
        ];
        let fields = fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let packed = kiste::format::msgpack::to_vec(&kiste::Value::Map(fields)).unwrap();
        writer.write_packed(&packed).unwrap();
    }
    let labels = ["even", "odd"].map(str::to_owned);
    writer.set_labels(Some(&labels)).unwrap();
    writer.finish().unwrap();
    for name in ["x.parquet", "x.arrow"] {
        let made = Conversion::new([&input], dir.path().join(name)).shard_samples(2);
        let files = made.run(&mut Silent).unwrap().outputs.remove(0).files;
        assert_eq!(files.len(), 3);
        for file in &files {
            let back = dir.path().join("back.msgpack");
            Conversion::new([file], &back).overwrite(true).run(&mut Silent).unwrap();
            let reader = DatasetReader::open(&back).unwrap();
            assert_eq!(reader.labels().unwrap().unwrap(), labels, "{file:?}");
        }
        let expected = samples(std::slice::from_ref(&input), Format::Dataset, None);
        assert!(samples(&files, Format::of_output(name), None) == expected, "{name}");
    }
}
