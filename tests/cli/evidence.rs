//! Digests, checksums, offsets and keys that say that the data was another: they are kept, whatever is typed.

use kiste::format::dataset::shards::{Manifest, ShardEntry};

use super::*;

const TRUST: &str = "--force --trust-data takes the data as it is";

/// A hundred samples, `n.msgpack`.
fn with_hundred(options: &[&str]) -> TempDir {
    let dir = scratch();
    let lines: String = (100..200).map(|n| format!("{{\"key\":\"{n}\",\"n\":1}}\n")).collect();
    let args = [&["convert", "-", "n.msgpack"], options].concat();
    run_with(&dir, args, lines.as_bytes()).exits(0);
    dir
}

fn n(dir: &TempDir, suffix: &str) -> PathBuf {
    dir.path().join(format!("n.msgpack{suffix}"))
}

/// Leaves this many of the hundred samples, which are equally long.
fn cut(dir: &TempDir, samples: usize) {
    let bytes = fs::read(n(dir, "")).unwrap();
    fs::write(n(dir, ""), &bytes[..bytes.len() / 100 * samples]).unwrap();
}

/// What may be known of a dataset: all, no digests, no offsets.
const KNOWN: [(&[&str], &[&str]); 5] = [
    (&[], &[]),
    (&["--crc"], &[]),
    (&["--no-md5"], &[]),
    (&["--no-md5", "--crc"], &[]),
    (&[], &[".offsets"]),
];

/// A dataset of which this is known.
fn known((options, removed): (&[&str], &[&str])) -> TempDir {
    let dir = with_hundred(options);
    removed.iter().for_each(|suffix| fs::remove_file(n(&dir, suffix)).unwrap());
    dir
}

#[test]
fn data_that_was_cut_is_not_indexed_as_it_is() {
    for of in KNOWN {
        let dir = known(of);
        cut(&dir, 60);
        let before = snapshot(dir.path());
        let has_offsets = !of.1.contains(&".offsets");
        if has_offsets {
            let saves = "hint: \"kiste repair n.msgpack -o OUT\" saves all whole samples\n";
            for command in [
                &["info", "n.msgpack"][..],
                &["get", "n.msgpack", "100"],
                &["ls", "n.msgpack"],
                &["convert", "n.msgpack", "o.jsonl"],
                &["sort", "n.msgpack", "o.msgpack"],
                &["index", "n.msgpack"],
                &["index", "--crc", "n.msgpack"],
            ] {
                let failed = run(&dir, command).exits(1);
                assert!(failed.err.ends_with(saves), "{of:?} {command:?}: {failed:#?}");
            }
        }
        for options in [&[][..], &["--crc"], &["--no-md5"], &["--lookup"]] {
            let force: &[&str] = if has_offsets { &["--force"] } else { &[] };
            for force in [force, &["--force"]] {
                let args = [&["index", "n.msgpack"], options, force].concat();
                let refused = run(&dir, &args).exits(1);
                assert!(refused.err.contains(TRUST), "{of:?} {args:?}: {refused:#?}");
                assert!(
                    refused.err.contains("\"kiste repair n.msgpack -o OUT\" saves"),
                    "{refused:#?}"
                );
            }
        }
        assert_eq!(snapshot(dir.path()), before, "{of:?}");

        let verified = run(&dir, ["verify", "n.msgpack"]).exits(1);
        assert!(!verified.err.contains("nothing is wrong with the data"), "{of:?} {verified:#?}");
        assert!(verified.err.contains("kiste repair n.msgpack -o OUT"), "{of:?} {verified:#?}");
        let saved = run(&dir, ["repair", "n.msgpack", "-o", "saved.msgpack"]).exits(1);
        assert!(saved.err.contains("saved 60 samples"), "{of:?} {saved:#?}");
        if has_offsets {
            assert!(saved.err.contains("samples 60 to 99 are missing"), "{of:?} {saved:#?}");
            assert!(!saved.err.contains("lost 0 B"), "{of:?} {saved:#?}");
        }

        // Who says so can still have it.
        let trusted = run(&dir, ["index", "--force", "--trust-data", "n.msgpack"]).exits(0);
        assert!(trusted.err.contains("60 samples"), "{trusted:#?}");
        let good = run(&dir, ["verify", "--deep", "n.msgpack"]).exits(0);
        assert!(good.out.contains("good: 60 samples"), "{of:?} {good:#?}");
    }
    let dir = with_words();
    run(&dir, ["index", "--trust-data", "words.msgpack"]).exits(2);
}

#[test]
fn data_behind_the_offsets_is_not_indexed_as_it_is() {
    for of in KNOWN {
        let dir = known(of);
        let mut bytes = fs::read(n(&dir, "")).unwrap();
        bytes.extend(b"\x81\xa3key\xa3new");
        fs::write(n(&dir, ""), bytes).unwrap();
        let before = snapshot(dir.path());
        let refused = run(&dir, ["index", "n.msgpack"]).exits(1);
        assert!(refused.err.contains("kiste repair n.msgpack -o OUT"), "{of:?} {refused:#?}");
        assert!(
            run(&dir, ["index", "--force", "n.msgpack"]).exits(1).err.contains(TRUST),
            "{of:?}"
        );
        assert_eq!(snapshot(dir.path()), before, "{of:?}");
        let saved = run(&dir, ["repair", "n.msgpack", "-o", "saved.msgpack"]);
        assert!(saved.err.contains("saved 101 samples"), "{of:?} {saved:#?}");
    }
}

#[test]
fn data_that_was_changed_is_not_indexed_as_it_is() {
    // A letter of a key: offsets agree with it, keys and digests do not.
    for of in [KNOWN[0], KNOWN[1], KNOWN[2], KNOWN[3], (&["--no-md5"], &[".offsets"])] {
        let dir = known(of);
        let mut bytes = fs::read(n(&dir, "")).unwrap();
        let at = bytes.windows(3).position(|key| key == b"150").unwrap();
        bytes[at] = b'x';
        fs::write(n(&dir, ""), bytes).unwrap();
        let before = snapshot(dir.path());
        let refused = run(&dir, ["index", "--force", "n.msgpack"]).exits(1);
        assert!(refused.err.contains(TRUST), "{of:?} {refused:#?}");
        assert_eq!(snapshot(dir.path()), before, "{of:?}");
    }
}

#[test]
fn side_files_of_data_with_its_digest_are_made_again() {
    let dir = with_hundred(&["--crc"]);
    let whole = snapshot(dir.path());
    for suffix in [".offsets", ".keys", ".key_hashes", ".filter", ".crc"] {
        // Also where it makes sense: of fewer samples, all of which are there.
        let bytes = fs::read(n(&dir, suffix)).unwrap();
        for damaged in [&bytes[..bytes.len() - 8], b"rubbish"] {
            fs::write(n(&dir, suffix), damaged).unwrap();
            run(&dir, ["index", "--force", "--crc", "n.msgpack"]).exits(0);
            assert_eq!(snapshot(dir.path()), whole, "{suffix}");
        }
    }
}

/// Renames all files of `n.msgpack`.
fn rename(dir: &TempDir, to: &str) {
    for name in names(dir.path()).iter().filter(|name| name.starts_with("n.msgpack")) {
        let new = name.replace("n.msgpack", to);
        fs::rename(dir.path().join(name), dir.path().join(new)).unwrap();
    }
}

#[test]
fn a_renamed_dataset_is_good_with_a_remark() {
    for options in [&[][..], &["--crc", "--lookup"]] {
        let dir = with_hundred(options);
        rename(&dir, "r.msgpack");
        let verified = run(&dir, ["verify", "r.msgpack"]).exits(0);
        assert!(verified.out.contains("r.msgpack: good: 100 samples"), "{verified:#?}");
        assert!(verified.out.contains("5 digests"), "{verified:#?}");
        let remark = "r.msgpack.md5: the dataset was renamed: there are digests of \"n.msgpack\"\n";
        assert_eq!(verified.err, remark);
        let report = run(&dir, ["verify", "--json", "r.msgpack"]).exits(0).json();
        assert_eq!(report["datasets"][0]["remarks"].as_array().map(Vec::len), Some(1));

        // What is made, or added, keeps what the digests say.
        fs::remove_file(dir.path().join("r.msgpack.filter")).unwrap();
        run(&dir, ["index", "r.msgpack"]).exits(0);
        run(&dir, ["verify", "--deep", "r.msgpack"]).quietly();
        let other = with_hundred(options);
        rename(&other, "r.msgpack");
        let line = b"{\"key\":\"more\"}\n";
        run_with(&other, ["convert", "--append", "-", "r.msgpack"], line).exits(0);
        run(&other, ["verify", "--deep", "r.msgpack"]).quietly();
    }
}

#[test]
fn damage_of_a_renamed_dataset_is_found() {
    let dir = with_hundred(&[]);
    let mut bytes = fs::read(n(&dir, "")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(n(&dir, ""), bytes).unwrap();
    rename(&dir, "r.msgpack");
    let before = snapshot(dir.path());
    let verified = run(&dir, ["verify", "r.msgpack"]).exits(1);
    assert!(verified.out.contains("r.msgpack: expected the MD5 "), "{verified:#?}");
    assert!(verified.out.contains(": 1 problem: "), "{verified:#?}");
    assert!(verified.err.contains("kiste repair r.msgpack -o OUT"), "{verified:#?}");
    assert!(run(&dir, ["index", "--force", "r.msgpack"]).exits(1).err.contains(TRUST));
    let crc = run(&dir, ["index", "--crc", "r.msgpack"]).exits(1);
    assert!(crc.err.contains("does not match its MD5"), "{crc:#?}");
    let added =
        run_with(&dir, ["convert", "--append", "-", "r.msgpack"], b"{\"key\":\"x\"}\n").exits(1);
    assert!(added.err.contains("does not match its MD5"), "{added:#?}");
    run(&dir, ["repair", "--undo", "r.msgpack"]);
    assert_eq!(snapshot(dir.path()), before);
    let saved = run(&dir, ["repair", "r.msgpack", "-o", "saved.msgpack", "--json"]).exits(1);
    assert!(saved.err.contains("does not match its MD5"), "{saved:#?}");
    assert_eq!(saved.json()["proof"], "doubtful");
}

/// An older version of kiste added lines of the new name to those of the old one.
#[test]
fn lines_of_two_names_are_compared() {
    let dir = with_hundred(&[]);
    rename(&dir, "r.msgpack");
    let md5 = dir.path().join("r.msgpack.md5");
    let old = fs::read_to_string(&md5).unwrap();
    let both = format!("{old}{}", old.replace("n.msgpack", "r.msgpack"));
    fs::write(&md5, &both).unwrap();
    let verified = run(&dir, ["verify", "r.msgpack"]).exits(0);
    assert_eq!(verified.err.lines().count(), 1, "{verified:#?}");
    // Digests of what it was before, kept by nothing but that.
    let digit = if both.starts_with('0') { "1" } else { "0" };
    fs::write(&md5, format!("{digit}{}", &both[1..])).unwrap();
    let verified = run(&dir, ["verify", "r.msgpack"]).exits(1);
    assert!(verified.out.contains("found \"n.msgpack\""), "{verified:#?}");
}

#[test]
fn data_with_its_digest_refutes_checksums() {
    use kiste::format::dataset::crc;
    let dir = with_hundred(&["--crc"]);
    let path = n(&dir, ".crc");
    let file = fs::read(&path).unwrap();
    let old = crc::Header::parse(&file, file.len() as u64).unwrap();
    let mut table = file[crc::HEADER..].to_vec();
    table[0] ^= 1;
    let header = crc::Header::new(*old.source(), crc::checksum(&table)).encode();
    fs::write(&path, [&header[..], &table].concat()).unwrap();
    let saved = run(&dir, ["repair", "n.msgpack", "-o", "saved.msgpack", "--json"]).exits(0);
    assert!(saved.err.contains("saved 100 samples"), "{saved:#?}");
    assert_eq!(saved.json()["proof"], "digest");
    run(&dir, ["verify", "--deep", "saved.msgpack"]).quietly();
}

#[test]
fn keys_that_come_twice_are_named() {
    let dir = scratch();
    let lines = b"{\"key\":\"a\"}\n{\"key\":\"b\"}\n";
    run_with(&dir, ["convert", "-", "a.msgpack"], lines).exits(0);
    let once = fs::read(dir.path().join("a.msgpack")).unwrap();
    fs::write(dir.path().join("both.msgpack"), once.repeat(2)).unwrap();
    for options in [&[][..], &["--deep"]] {
        let found = run(&dir, [&["verify", "both.msgpack"], options].concat()).exits(1);
        for (index, key, first) in [(2, "a", 0), (3, "b", 1)] {
            let problem = format!("both.msgpack: sample {index}: key \"{key}\": bytes ");
            assert!(found.out.contains(&problem), "{found:#?}");
            assert!(
                found.out.contains(&format!(": sample {first} has the same key\n")),
                "{found:#?}"
            );
        }
    }
    run(&dir, ["index", "both.msgpack"]).exits(2);

    // With a list of keys too, whether there are hashes of them or not.
    fs::write(dir.path().join("both.msgpack.keys"), b"\x94\xa1a\xa1b\xa1a\xa1b").unwrap();
    let found = run(&dir, ["verify", "both.msgpack"]).exits(1);
    let problem = "both.msgpack.keys: sample 2: key \"a\": sample 0 has the same key\n";
    assert!(found.out.contains(problem), "{found:#?}");
}

#[test]
fn a_dataset_without_offsets_says_why_it_is_slow() {
    let dir = with_words();
    fs::remove_file(dir.path().join("words.msgpack.offsets")).unwrap();
    let warning = "warning: words.msgpack: there is no .offsets, so all of the data was read to open it\n\
                   hint: \"kiste index words.msgpack\" makes it\n";
    for command in [
        &["get", "words.msgpack", "a"][..],
        &["cat", "words.msgpack"],
        &["ls", "words.msgpack"],
        &["head", "words.msgpack"],
        &["stat", "words.msgpack"],
    ] {
        assert_eq!(run(&dir, command).exits(0).err, warning, "{command:?}");
    }
    run(&dir, ["index", "words.msgpack"]).exits(0);
    run(&dir, ["ls", "words.msgpack"]).quietly();
}

/// Each shard has its own hint, by its own name.
#[test]
fn hints_name_the_shard() {
    let dir = scratch();
    let shards = ["d-0.msgpack", "d-1.msgpack"];
    let entries = shards.map(|name| {
        let mut writer = Writer::create(dir.path().join(name)).unwrap();
        writer
            .write_raw(name, &[b"\x82\xa3key\xab", name.as_bytes(), b"\xa1v\x01"].concat())
            .unwrap();
        let stats = writer.finish().unwrap();
        ShardEntry::new(name, stats.samples, stats.bytes)
    });
    let manifest = Manifest::new(entries.to_vec()).unwrap();
    fs::write(dir.path().join("d.shards.json"), manifest.render()).unwrap();
    run(&dir, ["verify", "d.shards.json"]).quietly();
    let first = dir.path().join(shards[0]);
    let mut bytes = fs::read(&first).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&first, bytes).unwrap();
    fs::write(dir.path().join(format!("{}.filter", shards[1])), b"rubbish").unwrap();
    let found = run(&dir, ["verify", "d.shards.json"]).exits(1);
    let salvage = format!("hint: \"kiste repair {} -o OUT\" saves all whole samples\n", shards[0]);
    let rebuild = format!(
        "hint: nothing is wrong with the data: \"kiste index --force {}\" rebuilds the side files\n",
        shards[1]
    );
    assert!(found.err.contains(&salvage) && found.err.contains(&rebuild), "{found:#?}");
    assert_eq!(found.err.matches("hint: ").count(), 2, "{found:#?}");
}
