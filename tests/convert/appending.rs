//! Parts of an append to one file, or to the outputs of a split: as one run appends, once, however often a commit is
//! repeated.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kiste::convert::{
    BadInput, Conversion, Duplicates, Monitor, Part, Progress, Report, Silent, Split, commit,
};
use kiste::{DatasetReader, ErrorKind, Remedy, Result, Writer};
use tempfile::TempDir;

/// Stops after being asked this many times.
struct Stops(Cell<usize>);

impl Monitor for Stops {
    fn is_cancelled(&self) -> bool {
        self.0.set(self.0.get().saturating_sub(1));
        self.0.get() == 0
    }

    fn progress(&mut self, _: Progress) {}
}

/// Five files of JSON lines with 40 samples each; one line of the third is bad.
fn with_lines() -> (TempDir, Vec<PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..5).map(|file| dir.path().join(format!("{file}.jsonl"))).collect();
    for (file, path) in paths.iter().enumerate() {
        let line =
            |i: usize| format!("{{\"key\":\"{file}-{i}\",\"x\":\"{}\"}}\n", "x".repeat(i * 7 % 40));
        let bad = if file == 2 { "no sample\n" } else { "" };
        fs::write(path, (0..40).map(line).collect::<String>() + bad).unwrap();
    }
    (dir, paths)
}

/// All files that belong to this output, by the rest of their names; digests without the names of files.
fn files(dir: &Path, stem: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    let own = named.filter_map(|(name, path)| Some((name.strip_prefix(stem)?.to_owned(), path)));
    own.map(|(name, path)| {
        let bytes = fs::read(path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let named = name.ends_with(".md5").then(|| text.replace(stem, "").into_bytes());
        (name, named.unwrap_or(bytes))
    })
    .collect()
}

fn run_parts(conversion: &Conversion, count: usize) {
    Part::all(count).for_each(|part| drop(conversion.run_part(part, &mut Silent).unwrap()));
}

/// The same files as after one run, also if commits before were stopped anywhere.
#[test]
fn parts_append_as_one_run_does() {
    let (dir, lines) = with_lines();
    type With = fn(Conversion) -> Conversion;
    let forms: [With; 4] = [
        |conversion| conversion,
        |conversion| conversion.lookup(true).checksums(true).limit(77),
        |conversion| conversion.on_duplicates(Duplicates::Skip),
        |conversion| conversion.split(Split::new().ratio("a", 1.0).ratio("b", 2.0)),
    ];
    for (number, with) in forms.into_iter().enumerate() {
        let conversion = |sources: &[PathBuf], name: &str| {
            let out = dir.path().join(name);
            with(Conversion::new(sources, out)).on_bad_input(BadInput::Quarantine).durable(false)
        };
        let (one, many) = (format!("one{number}.msgpack"), format!("many{number}.msgpack"));
        let (one_stem, many_stem) = (format!("one{number}"), format!("many{number}"));
        let skips = number == 2;
        let more = match skips {
            true => [&lines[1..], &lines[2..4]].concat(),
            false => lines[3..].to_vec(),
        };
        for name in [&one, &many] {
            conversion(&lines[..3], name).run(&mut Silent).unwrap();
        }
        let append = |name: &str| conversion(&more, name).append(true);
        let single = append(&one).run(&mut Silent).unwrap();
        let expected = files(dir.path(), &one_stem);
        for count in [1, 2, 5] {
            let before = files(dir.path(), &many_stem);
            run_parts(&append(&many), count);
            for stop in 1..4 {
                match commit(append(&many).output(), &mut Stops(Cell::new(stop))) {
                    Ok(_) => break,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
                }
            }
            let report: Report = match dir.path().join(format!("{many}.parts")).exists() {
                true => commit(append(&many).output(), &mut Silent).unwrap(),
                false => single.clone(),
            };
            for (found, expected) in report.outputs.iter().zip(&single.outputs) {
                assert_eq!((found.added, found.samples), (expected.added, expected.samples));
                assert_eq!(found.added_bytes, expected.added_bytes);
            }
            assert_eq!(report.skipped_duplicates, single.skipped_duplicates);
            let after = files(dir.path(), &many_stem);
            assert!(after == expected, "{number}: {:?} {:?}", after.keys(), expected.keys());
            assert!(after != before);
            for name in after.keys() {
                fs::remove_file(dir.path().join(format!("{many_stem}{name}"))).unwrap();
            }
            conversion(&lines[..3], &many).run(&mut Silent).unwrap();
        }
    }
}

/// The end of a commit that is done can be repeated; what has changed meanwhile is not appended to.
#[test]
fn a_commit_appends_to_what_it_has_found_and_only_once() {
    let (dir, lines) = with_lines();
    let out = dir.path().join("out.msgpack");
    let append = || Conversion::new(&lines[3..], &out).append(true).durable(false);
    let missing = append().run_part(Part::whole(), &mut Silent).unwrap_err();
    assert_eq!((missing.kind(), missing.remedy()), (ErrorKind::NotFound, Some(&Remedy::Create)));
    Conversion::new(&lines[..2], &out).run(&mut Silent).unwrap();
    run_parts(&append(), 2);
    let stopped = commit(&out, &mut Stops(Cell::new(1))).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Cancelled, "{stopped}");
    assert_eq!(DatasetReader::open(&out).unwrap().len(), 80);
    // Another program appends something.
    let write = |key: &str| -> Result<()> {
        let mut writer = Writer::append(&out)?;
        writer.write(&BTreeMap::from([("key", key)]))?;
        writer.finish().map(drop)
    };
    write("other").unwrap();
    let before = files(dir.path(), "out.msgpack");
    for _ in 0..2 {
        let error = commit(&out, &mut Silent).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.to_string().contains("expected the sample that this commit"), "{error}");
        assert!(matches!(error.remedy(), Some(Remedy::NewParts(..))), "{error:?}");
        assert_eq!(files(dir.path(), "out.msgpack"), before);
    }
    // As the remedy says.
    fs::remove_dir_all(dir.path().join("out.msgpack.parts")).unwrap();
    for added in [80, 0] {
        run_parts(&append().on_duplicates(Duplicates::Skip), 2);
        assert_eq!(commit(&out, &mut Silent).unwrap().outputs[0].added, added);
    }
    assert_eq!(DatasetReader::open(&out).unwrap().len(), 161);
    run_parts(&append(), 2);
    let error = commit(&out, &mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
    assert_eq!(DatasetReader::open(&out).unwrap().len(), 161);
}

/// After a commit was killed, a repair may have published what it had appended so far.
#[test]
fn samples_that_a_repair_has_finished_are_not_appended_again() {
    let (dir, lines) = with_lines();
    let ours = dir.path().join("ours.msgpack");
    Conversion::new(&lines[3..], &ours).run(&mut Silent).unwrap();
    let ours = DatasetReader::open(ours).unwrap();
    let (out, one) = (dir.path().join("out.msgpack"), dir.path().join("one.msgpack"));
    for name in [&out, &one] {
        Conversion::new(&lines[..2], name).run(&mut Silent).unwrap();
    }
    let append = |out: &Path| Conversion::new(&lines[3..], out).append(true).durable(false);
    append(&one).run(&mut Silent).unwrap();
    let expected = fs::read(&one).unwrap();
    for (there, cut) in [(1, false), (79, false), (80, false), (40, true)] {
        run_parts(&append(&out), 3);
        commit(&out, &mut Stops(Cell::new(1))).unwrap_err();
        let mut writer = Writer::append(&out).unwrap();
        for index in 0..there {
            writer.write_packed(&ours.get_raw(index).unwrap()).unwrap();
        }
        writer.finish().unwrap();
        if cut {
            // One of another program behind them.
            let mut writer = Writer::append(&out).unwrap();
            writer.write(&BTreeMap::from([("key", "other")])).unwrap();
            writer.finish().unwrap();
            let error = commit(&out, &mut Silent).unwrap_err();
            assert_eq!((error.kind(), error.index()), (ErrorKind::Foreign, Some(120)), "{error}");
            continue;
        }
        let report = commit(&out, &mut Silent).unwrap();
        assert_eq!((report.outputs[0].added, report.outputs[0].samples), (80, 160));
        assert!(fs::read(&out).unwrap() == expected, "{there}");
        Conversion::new(&lines[..2], &out).overwrite(true).run(&mut Silent).unwrap();
    }
}

/// A link leads to the dataset that is appended to; a file with two names is refused before any work.
#[cfg(unix)]
#[test]
fn links_are_followed() {
    let (dir, lines) = with_lines();
    let (real, link) = (dir.path().join("real/out.msgpack"), dir.path().join("out.msgpack"));
    fs::create_dir(dir.path().join("real")).unwrap();
    Conversion::new(&lines[..2], &real).run(&mut Silent).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let append = Conversion::new(&lines[3..], &link).append(true);
    run_parts(&append, 2);
    commit(&link, &mut Stops(Cell::new(1))).unwrap_err();
    assert_eq!(commit(&link, &mut Silent).unwrap().outputs[0].added, 80);
    assert_eq!(DatasetReader::open(&real).unwrap().len(), 160);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    fs::hard_link(&real, dir.path().join("second.msgpack")).unwrap();
    let append = Conversion::new(&lines[2..3], &real).append(true).on_bad_input(BadInput::Skip);
    let error = append.run_part(Part::whole(), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("hard links"), "{error}");
}

/// With a split, the outputs that are there already count no sample twice towards the limit.
#[test]
fn one_output_of_a_split_may_be_there_already() {
    let (dir, lines) = with_lines();
    let more = [&lines[1..], &lines[3..4]].concat();
    let convert = |name: &str, sources: &[PathBuf]| {
        let split = Split::new().ratio("a", 1.0).ratio("b", 1.0);
        Conversion::new(sources, dir.path().join(name)).split(split).durable(false)
    };
    for name in ["one.msgpack", "many.msgpack"] {
        convert(name, &lines[..2]).run(&mut Silent).unwrap();
    }
    let append = |name: &str| {
        let append = convert(name, &more).append(true).limit(90).on_bad_input(BadInput::Skip);
        append.on_duplicates(Duplicates::Skip)
    };
    let single = append("one.msgpack").run(&mut Silent).unwrap();
    run_parts(&append("many.msgpack"), 3);
    commit(append("many.msgpack").output(), &mut Stops(Cell::new(1))).unwrap_err();
    // As a commit leaves it that was killed between the two.
    let there = DatasetReader::open(dir.path().join("many-a.msgpack")).unwrap().len();
    let ours = DatasetReader::open(dir.path().join("one-a.msgpack")).unwrap();
    let mut writer = Writer::append(dir.path().join("many-a.msgpack")).unwrap();
    for index in there..ours.len() {
        writer.write_packed(&ours.get_raw(index).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let report = commit(append("many.msgpack").output(), &mut Silent).unwrap();
    assert_eq!(report.different_duplicates, 0);
    for (found, expected) in report.outputs.iter().zip(&single.outputs) {
        assert_eq!((found.added, found.samples), (expected.added, expected.samples));
    }
    for part in ["a", "b"] {
        let read =
            |name: &str| fs::read(dir.path().join(format!("{name}-{part}.msgpack"))).unwrap();
        assert!(read("one") == read("many"), "{part}");
    }
}

/// The list of bad input is extended once, also for a dataset of many files.
#[test]
fn the_list_of_bad_input_is_appended_to() {
    let (dir, lines) = with_lines();
    for name in ["out.msgpack", "out.shards.json"] {
        let out = dir.path().join(name);
        let convert = |sources: &[PathBuf]| {
            Conversion::new(sources, &out).on_bad_input(BadInput::Quarantine).durable(false)
        };
        let listed = || {
            let list = fs::read_to_string(dir.path().join(format!("{name}.quarantine.jsonl")));
            list.unwrap().lines().count()
        };
        convert(&lines[2..3]).run(&mut Silent).unwrap();
        assert_eq!(listed(), 1);
        let bad = dir.path().join("bad.jsonl");
        fs::write(&bad, "worse\n{\"key\":\"b\"}\n").unwrap();
        let mut total = 1;
        for (sources, count) in
            [(&lines[..2], 0), (std::slice::from_ref(&bad), 1), (&lines[4..], 0)]
        {
            run_parts(&convert(sources).append(true), 2);
            let _ = commit(&out, &mut Stops(Cell::new(1)));
            if dir.path().join(format!("{name}.parts")).exists() {
                commit(&out, &mut Silent).unwrap();
            }
            total += count;
            assert_eq!(listed(), total, "{name}");
        }
    }
}

/// What another program has begun is not taken for our own.
#[test]
fn an_append_of_another_program_stays() {
    let (dir, lines) = with_lines();
    let out = dir.path().join("out.msgpack");
    Conversion::new(&lines[..2], &out).run(&mut Silent).unwrap();
    let append = Conversion::new(&lines[3..], &out).append(true);
    for begun in [false, true] {
        run_parts(&append, 2);
        if begun {
            commit(&out, &mut Stops(Cell::new(1))).unwrap_err();
        }
        let mut writer = Writer::append(&out).unwrap();
        writer.write(&BTreeMap::from([("key", "theirs")])).unwrap();
        writer.flush().unwrap();
        drop(writer);
        let error = commit(&out, &mut Silent).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        let left = kiste::repair::Repair::of(&out);
        assert_eq!(left.whole_samples().unwrap(), 1);
        left.undo().unwrap();
        assert_eq!(commit(&out, &mut Silent).unwrap().outputs[0].added, 80);
        fs::remove_file(&out).unwrap();
        Conversion::new(&lines[..2], &out).overwrite(true).run(&mut Silent).unwrap();
    }
}
