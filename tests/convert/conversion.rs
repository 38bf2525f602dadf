//! `convert::Conversion` as a Rust program uses it: plan, run, parts, progress, cancellation.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use kiste::convert::{
    BadInput, Conversion, Duplicates, Emit, FieldOutcome, Format, Input, Monitor, Notice, Part,
    Phase, Progress, Silent, Split, Total, commit,
};
use kiste::format::msgpack::to_vec;
use kiste::{DatasetReader, ErrorKind, Remedy, Value};
use tempfile::TempDir;

/// A directory with 1,000 JSON lines in ten files.
fn with_lines() -> (TempDir, Vec<PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let files = (0..10).map(|file| {
        let path = dir.path().join(format!("{file}.jsonl"));
        let line =
            |n| format!("{{\"key\":\"{file}-{n}\",\"n\":{n},\"text\":\"{}\"}}\n", "x".repeat(n));
        fs::write(&path, (0..100).map(line).collect::<String>()).unwrap();
        path
    });
    let files = files.collect();
    (dir, files)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// All files of a dataset.
fn files_of(path: &Path) -> Vec<Vec<u8>> {
    // `.md5` names the files, so it differs with the name of the dataset.
    let endings = ["", ".offsets", ".keys", ".key_hashes", ".filter"];
    let read = |ending: &&str| fs::read(format!("{}{ending}", path.display())).unwrap();
    endings.iter().map(read).collect()
}

#[test]
fn parts_and_one_run_make_the_same_files() {
    let (dir, files) = with_lines();
    let (whole, parts) = (dir.path().join("whole.msgpack"), dir.path().join("parts.msgpack"));
    let conversion = |output: &Path| {
        Conversion::new(&files, output).rename("text", "t").drop_fields(["n"]).limit(777)
    };
    let report = conversion(&whole).run(&mut Silent).unwrap();
    assert_eq!((report.outputs[0].samples, report.bad.count), (777, 0));
    for part in Part::all(4).collect::<Vec<_>>().into_iter().rev() {
        let report = conversion(&parts).run_part(part, &mut Silent).unwrap();
        assert!(!report.was_complete && report.outputs[0].samples > 0);
        assert!(conversion(&parts).run_part(part, &mut Silent).unwrap().was_complete);
    }
    let report = commit(&parts, &mut Silent).unwrap();
    assert_eq!((&report.outputs[0].path, report.outputs[0].samples), (&parts, 777));
    assert!(files_of(&whole) == files_of(&parts));
    assert_eq!(commit(&parts, &mut Silent).unwrap_err().remedy(), Some(&Remedy::MakeParts));
}

#[test]
fn a_part_that_is_missing_is_named() {
    let (dir, files) = with_lines();
    let output = dir.path().join("x.msgpack");
    let conversion = Conversion::new(&files, &output);
    conversion.run_part(Part::new(2, 3).unwrap(), &mut Silent).unwrap();
    let error = commit(&output, &mut Silent).unwrap_err();
    let remedy = Remedy::MakePart { first: "1/3".to_owned(), missing: (2, 3) };
    assert_eq!(error.remedy(), Some(&remedy), "{error}");
    let error = conversion.clone().limit(5).run_part(Part::new(1, 3).unwrap(), &mut Silent);
    let error = error.unwrap_err();
    assert!(error.to_string().ends_with("another plan: limit is not set there, 5 here"), "{error}");
    assert!(matches!(error.remedy(), Some(Remedy::RemoveDir(_))));
}

/// Stops when this many samples have been written, and remembers what it heard.
#[derive(Default)]
struct Watch {
    stop_at: Option<u64>,
    samples: Cell<u64>,
    phases: Vec<(Phase, Total)>,
    notices: Vec<Notice>,
}

impl Monitor for Watch {
    fn begin(&mut self, phase: Phase, total: Total) {
        self.phases.push((phase, total));
    }

    fn progress(&mut self, progress: Progress) {
        assert!(progress.samples >= self.samples.get());
        self.samples.set(progress.samples);
    }

    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    fn is_cancelled(&self) -> bool {
        self.stop_at.is_some_and(|stop| self.samples.get() >= stop)
    }
}

#[test]
fn a_monitor_hears_of_progress_and_can_stop_it() {
    let (dir, files) = with_lines();
    let before = names(dir.path());
    let output = dir.path().join("x.msgpack");
    let conversion = Conversion::new(&files, &output);
    let mut watch = Watch { stop_at: Some(200), ..Watch::default() };
    let error = conversion.run(&mut watch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!((200..1000).contains(&watch.samples.get()));
    assert_eq!(names(dir.path()), before, "nothing is left");
    // A conversion that resumes leaves what it has, and continues from there.
    let resuming = conversion.clone().resume(true);
    let mut watch = Watch { stop_at: Some(200), ..Watch::default() };
    resuming.run(&mut watch).unwrap_err();
    assert!(dir.path().join("x.msgpack.partial").is_dir() && !output.exists());
    let mut watch = Watch::default();
    assert_eq!(resuming.run(&mut watch).unwrap().outputs[0].samples, 1000);
    assert_eq!(watch.samples.get(), 1000);
    let phases: Vec<Phase> = watch.phases.iter().map(|(phase, _)| *phase).collect();
    assert_eq!(phases, [Phase::Converting, Phase::Finishing]);
    let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    assert_eq!(watch.phases[0].1.input_bytes, Some(bytes));
    let mut watch = Watch::default();
    assert!(resuming.run(&mut watch).unwrap().was_complete);
    assert_eq!(watch.notices, [Notice::Complete(output)]);
}

#[test]
fn a_plan_is_the_conversion_and_what_it_found() {
    let (dir, files) = with_lines();
    let before = names(dir.path());
    let conversion =
        Conversion::new(&files, dir.path().join("x.msgpack")).on_bad_input(BadInput::Skip);
    let plan = conversion.plan().unwrap();
    assert_eq!((plan.units, plan.files.len(), plan.parts), (Some(10), 10, None));
    assert_eq!(plan.files[3].name, files[3]);
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!(json["options"], serde_json::json!({"bad": "skip"}));
    assert_eq!(serde_json::from_value::<kiste::convert::Plan>(json).unwrap(), plan);
    assert_eq!(names(dir.path()), before);
    let stream = Conversion::new(["-"], dir.path().join("x.msgpack")).plan().unwrap_err();
    assert!(stream.to_string().contains("cannot be divided"), "{stream}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let (gone, out) = (dir.path().join("gone.jsonl"), dir.path().join("x.msgpack"));
    let base = || Conversion::new([&gone], &out);
    let cases: [(Conversion, &str); 7] = [
        (base().fields(["a"]).drop_fields(["b"]), "fields cannot be combined"),
        (base().key("{a}").key_field("b"), "key cannot be combined"),
        (base().key("same"), "all keys would be the same"),
        (base().rename("key", "b"), "the key can be neither dropped nor renamed"),
        (base().drop_fields(["key"]), "the key can be neither dropped nor renamed"),
        (base().split(Split::new().ratio("a/b", 1.0)), "expected a name"),
        (base().to(Format::Mnist), "mnist can be read, but not written"),
    ];
    for (conversion, expected) in cases {
        let error = conversion.run(&mut Silent).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}, not {expected}");
        assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported), "{error:?}");
    }
    assert_eq!(base().run(&mut Silent).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn samples_are_split_and_duplicates_skipped() {
    let (dir, files) = with_lines();
    let output = dir.path().join("x.msgpack");
    let twice = [&files[..], &files[..1]].concat();
    let split = Split::new().ratio("train", 3.0).ratio("val", 1.0);
    let report = Conversion::new(&twice, &output)
        .on_duplicates(Duplicates::Skip)
        .split(split)
        .run(&mut Silent)
        .unwrap();
    assert_eq!((report.outputs.len(), report.skipped_duplicates), (2, 100));
    let readers: Vec<DatasetReader> =
        report.outputs.iter().map(|made| DatasetReader::open(&made.path).unwrap()).collect();
    assert_eq!(readers.iter().map(DatasetReader::len).sum::<usize>(), 1000);
    assert!((150..350).contains(&readers[1].len()));
    assert!(readers[0].find("0-0").unwrap().is_some() != readers[1].find("0-0").unwrap().is_some());
}

/// Stops after being asked this many times.
struct Stops(Cell<usize>);

impl Monitor for Stops {
    fn is_cancelled(&self) -> bool {
        self.0.set(self.0.get().saturating_sub(1));
        self.0.get() == 0
    }
}

/// All files of an output, by what their names have behind its own.
fn made(dir: &Path, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let of_it = path.to_str().unwrap().split_once(&format!("/{name}"));
            match path.is_dir() {
                true => dirs.push(path),
                false => {
                    drop(of_it.map(|(_, rest)| {
                        files.insert(PathBuf::from(rest), fs::read(&path).unwrap())
                    }))
                }
            }
        }
    }
    files
}

/// Stopped after any number of samples and run again, another format is what it is in one go; of keys that come
/// twice the first counts.
#[test]
fn other_formats_are_resumed_and_duplicates_skipped() {
    let (_lines, files) = with_lines();
    for (format, ending) in [
        (Format::Csv, ".csv"),
        (Format::Jsonl, ".jsonl"),
        (Format::Webdataset, ".tar"),
        (Format::Mds, ""),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let conversion = |files: &[PathBuf], name: &str| {
            Conversion::new(files, dir.path().join(format!("{name}{ending}"))).to(format)
        };
        conversion(&files, "whole").run(&mut Silent).unwrap();
        let expected = made(dir.path(), "whole");
        assert!(!expected.is_empty(), "{format}");

        let twice = [&files[..], &files[..1]].concat();
        let skips = conversion(&twice, "skipped").on_duplicates(Duplicates::Skip);
        let report = skips.run(&mut Silent).unwrap();
        assert_eq!((report.skipped_duplicates, report.outputs[0].samples), (100, 1000), "{format}");
        assert!(made(dir.path(), "skipped") == expected, "{format}");

        let conversion = conversion(&files, "resumed").resume(true).piece_bytes(3000);
        let mut continued = 0;
        for asked in (5..).step_by(9) {
            continued += usize::from(names(dir.path()).iter().any(|name| name.ends_with(".parts")));
            match conversion.run(&mut Stops(Cell::new(asked))) {
                Ok(report) => {
                    assert_eq!(report.outputs[0].samples, 1000);
                    break;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
            }
        }
        assert!(continued > 1, "{format}");
        assert!(made(dir.path(), "resumed") == expected, "{format}");
    }
}

#[test]
fn a_dry_run_tells_what_happens_to_each_field() {
    let dir = tempfile::tempdir().unwrap();
    let lines = dir.path().join("a.jsonl");
    fs::write(&lines, "{\"key\":\"a\",\"n\":1,\"x\":{\"y\":2}}\n").unwrap();
    let tried = Conversion::new([&lines], dir.path().join("a.csv")).dry_run().unwrap();
    let outcome =
        |name: &str| &tried.fields.iter().find(|field| field.name == name).unwrap().becomes;
    assert!(matches!(outcome("n"), FieldOutcome::Field { is_same: true, .. }));
    assert!(matches!(outcome("key"), FieldOutcome::Field { is_key: true, .. }));
    assert!(matches!(outcome("x"), FieldOutcome::Refused(_)));
    assert_eq!(tried.error.unwrap().field(), Some("x"));
    assert_eq!(names(dir.path()), ["a.jsonl"]);
}

/// Numbers in units of 50, of which one is bad.
struct Numbers {
    units: usize,
}

impl Input for Numbers {
    fn units(&self) -> usize {
        self.units
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> kiste::Result<()> {
        for n in unit * 50..unit * 50 + 50 {
            let fields = vec![("key".into(), n.to_string().into()), ("n".into(), n.into())];
            emit(match n {
                77 => Err(kiste::Error::new(ErrorKind::Damaged, "on purpose").with_key("77")),
                _ => Ok(to_vec(&Value::Map(fields))?),
            })?;
        }
        Ok(())
    }
}

#[test]
fn an_input_of_the_program_is_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, parts) = (dir.path().join("whole.msgpack"), dir.path().join("parts.msgpack"));
    let conversion = |output: &Path| {
        Conversion::from_input("numbers", Numbers { units: 20 }, output)
            .on_bad_input(BadInput::Quarantine)
    };
    let error = conversion(&whole).on_bad_input(BadInput::Stop).run(&mut Silent).unwrap_err();
    assert_eq!((error.key(), error.remedy()), (Some("77"), Some(&Remedy::SkipBad)));
    let report = conversion(&whole).run(&mut Silent).unwrap();
    assert_eq!((report.outputs[0].samples, report.bad.count), (999, 1));
    let quarantine = fs::read_to_string(report.quarantine.unwrap()).unwrap();
    assert!(quarantine.contains("on purpose") && quarantine.contains("77"), "{quarantine}");
    for part in Part::all(7) {
        conversion(&parts).run_part(part, &mut Silent).unwrap();
    }
    assert_eq!(commit(&parts, &mut Silent).unwrap().bad.count, 1);
    assert!(files_of(&whole) == files_of(&parts));
    // Another number of units is another input.
    let other = |units| {
        let conversion = Conversion::from_input("numbers", Numbers { units }, &parts);
        conversion.on_bad_input(BadInput::Skip).overwrite(true)
    };
    other(21).run_part(Part::new(1, 2).unwrap(), &mut Silent).unwrap();
    let error = other(22).run_part(Part::new(2, 2).unwrap(), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("units is 21 there, 22 here"), "{error}");
}

/// Notes when it is read first, and when last.
struct Timed(Arc<Mutex<Vec<Instant>>>);

impl Input for Timed {
    fn units(&self) -> usize {
        4
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> kiste::Result<()> {
        let begun = Instant::now();
        self.0.lock().unwrap().push(begun);
        let sample = Value::Map(vec![("key".into(), unit.to_string().into())]);
        emit(Ok(to_vec(&sample)?))?;
        // A reader that takes its time; nothing is decided by how much.
        while begun.elapsed().as_millis() < 5 {
            std::hint::spin_loop();
        }
        self.0.lock().unwrap().push(Instant::now());
        Ok(())
    }
}

/// The duration is that of all of a run, also where the end of it is a commit.
#[test]
fn the_duration_of_a_run_is_that_of_the_whole_run() {
    let dir = tempfile::tempdir().unwrap();
    let split = || Split::new().ratio("a", 0.5).ratio("b", 0.5);
    for name in ["d.msgpack", "s.shards.json", "split.msgpack", "x.jsonl"] {
        let times = Arc::default();
        let output = dir.path().join(name);
        let conversion = Conversion::from_input("timed", Timed(Arc::clone(&times)), output);
        let conversion = match name {
            "split.msgpack" => conversion.split(split()),
            "s.shards.json" => conversion.shards(2),
            _ => conversion,
        };
        let report = conversion.run(&mut Silent).unwrap();
        let times = times.lock().unwrap();
        let read = *times.iter().max().unwrap() - *times.iter().min().unwrap();
        assert!(
            report.duration >= read && !report.resumed,
            "{name}: {:?} {read:?}",
            report.duration
        );
        let json = report.to_json().unwrap();
        let seconds = json[0]["seconds"].as_f64().or(json["seconds"].as_f64()).unwrap();
        assert!(seconds >= read.as_secs_f64(), "{name}: {json}");
    }
}
