//! Datasets that are made of others, split or shuffled, at URLs.

use std::fs;
use std::process::Output;

use super::converting::{kiste, lines};
use super::*;

/// A dataset of numbers, on a disk and in a bucket.
struct Both {
    server: Server,
    dir: TempDir,
}

const URL: &str = "s3://d/set.msgpack";

impl Both {
    fn new() -> Both {
        let server = Server::start();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("set.msgpack");
        let mut writer = Writer::options().durable(false).create(&path).unwrap();
        for index in 0..500u64 {
            let number = (index * 7) % 500;
            let fields = [("key", key(index).into()), ("n", number.into())];
            let fields = fields.map(|(name, value)| (name.into(), value));
            writer.write_value(&Value::Map(fields.to_vec())).unwrap();
        }
        writer.set_labels(Some(&["a", "b"])).unwrap();
        writer.finish().unwrap();
        server.upload(&path, "/d");
        Both { server, dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn run(&self, args: &[&str]) -> Output {
        kiste(&self.server, args).output().unwrap()
    }

    #[track_caller]
    fn runs(&self, args: &[&str]) {
        let done = self.run(args);
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// What the command says when it fails.
    #[track_caller]
    fn fails(&self, args: &[&str]) -> String {
        let done = self.run(args);
        assert!(!done.status.success(), "{args:?}");
        String::from_utf8_lossy(&done.stderr).into_owned()
    }

    /// The dataset of this name in the bucket has the files of one on disk.
    #[track_caller]
    fn assert_same(&self, name: &str) {
        let begins = |file: &str| file == name || file.starts_with(&format!("{name}."));
        let mut here: Vec<String> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .filter(|file| begins(file))
            .collect();
        here.sort();
        let there = self.server.names().into_iter();
        let there: Vec<String> = there
            .filter_map(|path| path.strip_prefix("/d/").map(str::to_owned))
            .filter(|file| begins(file))
            .collect();
        assert_eq!(there, here);
        for file in here {
            let found = self.server.get(&format!("/d/{file}"));
            assert!(*found == fs::read(self.path(&file)).unwrap(), "{file} has other bytes");
        }
    }
}

#[test]
fn datasets_of_datasets_are_written_to_urls() {
    let both = Both::new();
    let indices = both.path("indices.txt");
    fs::write(&indices, "7\n3\n499\n").unwrap();
    let set = both.path("set.msgpack");
    for (number, (command, options)) in [
        ("shuffle", &["--seed", "3", "--crc"][..]),
        ("shuffle", &["--seed", "3", "--memory", "2k", "--lookup"]),
        ("select", &["--indices", &indices]),
        ("select", &["--range", "10..20"]),
        ("filter", &["n < 100"]),
        ("sort", &["--by", "n"]),
        ("sample", &["50"]),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("{number}.msgpack");
        let (here, there) = (both.path(&name), format!("s3://d/{name}"));
        both.runs(&[&[command, &set, &here], options].concat());
        both.runs(&[&[command, URL, &there], options].concat());
        both.assert_same(&name);
    }
    assert_eq!(both.server.unfinished_uploads(), 0);
}

#[test]
fn merges_and_splits_are_written_to_urls() {
    let both = Both::new();
    let set = both.path("set.msgpack");
    let parts = |place: &dyn Fn(&str) -> String| [place("x.msgpack"), place("y.msgpack")];
    let (here, there) = (parts(&|name| both.path(name)), parts(&|name| format!("s3://d/{name}")));
    both.runs(&["split", &set, "100", "-o", &here[0], &here[1]]);
    both.runs(&["split", URL, "100", "-o", &there[0], &there[1]]);
    // The names of parts follow from that of the dataset, which is a URL.
    both.runs(&["split", URL, "--ratio", "1,1"]);
    both.runs(&["split", &set, "--ratio", "1,1"]);
    let all = both.path("all.msgpack");
    both.runs(&["merge", &here[1], &here[0], &all]);
    both.runs(&["merge", &there[1], &there[0], "s3://d/all.msgpack"]);
    for name in ["x.msgpack", "y.msgpack", "all.msgpack", "set-0.msgpack", "set-1.msgpack"] {
        both.assert_same(name);
    }
}

#[test]
fn what_cannot_be_made_is_refused_before_any_work() {
    let both = Both::new();
    let set = both.path("set.msgpack");
    let before = both.server.names();
    let error = both.fails(&["sort", &set, URL]);
    assert!(error.contains("exists already") && error.contains("--force"), "{error}");
    let error = both.fails(&["sort", URL, URL, "--force"]);
    assert!(error.contains("both read and written"), "{error}");
    let error = both.fails(&["split", &set, "100", "-o", "s3://d/x.msgpack", URL]);
    assert!(error.contains("exists already"), "{error}");
    let web = format!("http://me:s3cret@{}/d/new.msgpack", both.server.address());
    let error = both.fails(&["sort", &set, &web]);
    assert!(error.contains("only reads from web servers") && !error.contains("s3cret"), "{error}");
    // Labels that a dataset had would be those of the new one.
    both.server.put("/d/new.msgpack.labels", b"x\n".to_vec());
    let error = both.fails(&["sort", &set, "s3://d/new.msgpack"]);
    assert!(error.contains("new.msgpack.labels") && error.contains("exists already"), "{error}");
    both.server.remove("/d/new.msgpack.labels");
    assert_eq!(both.server.names(), before);
    both.runs(&["sort", &set, URL, "--by", "n", "--force"]);
    assert_ne!(*both.server.get("/d/set.msgpack"), fs::read(&set).unwrap());
    both.runs(&["verify", "--deep", URL]);
}

#[test]
fn conversions_that_split_are_written_to_urls() {
    let both = Both::new();
    let source = both.path("a.jsonl");
    fs::write(&source, lines(1000)).unwrap();
    let options = ["--split", "train=0.8,val=0.2", "--lookup", "--crc"];
    let (here, there) = (both.path("cut.msgpack"), "s3://d/cut.msgpack");
    both.runs(&[&["convert", &source, &here], &options[..]].concat());
    both.runs(&[&["convert", &source, there], &options[..]].concat());
    both.assert_same("cut-train.msgpack");
    both.assert_same("cut-val.msgpack");
    let some = ["--split", "train=1,val=1", "--limit", "300"];
    let (here, there) = (both.path("some.msgpack"), "s3://d/some.msgpack");
    both.runs(&[&["convert", &both.path("set.msgpack"), &here], &some[..]].concat());
    both.runs(&[&["convert", URL, there], &some[..]].concat());
    both.assert_same("some-train.msgpack");
    both.assert_same("some-val.msgpack");
    // One of the two is there: neither is written, and no place stays taken.
    both.server.remove("/d/cut-train.msgpack.offsets");
    both.server.remove("/d/cut-train.msgpack");
    let before = both.server.names();
    let error = both.fails(&[&["convert", &source, "s3://d/cut.msgpack"], &options[..]].concat());
    assert!(error.contains("exists already") && error.contains("cut-val"), "{error}");
    assert_eq!(both.server.names(), before);
    // Bad input ends all of it, and nothing is published.
    fs::write(&source, [&lines(1000)[..], b"{\n"].concat()).unwrap();
    both.fails(&["convert", &source, "s3://d/bad.msgpack", "--split", "a=1,b=1"]);
    assert_eq!(both.server.names(), before);
    assert_eq!(both.server.unfinished_uploads(), 0);
}

#[test]
fn a_lookup_is_put_next_to_a_dataset_at_a_url() {
    let both = Both::new();
    let set = both.path("set.msgpack");
    both.runs(&["convert", URL, "s3://d/new.msgpack"]);
    both.runs(&["convert", &set, &both.path("new.msgpack"), "--lookup"]);
    both.runs(&["index", "--lookup", "s3://d/new.msgpack"]);
    both.assert_same("new.msgpack");
    both.runs(&["get", "s3://d/new.msgpack", &key(77)]);
    both.runs(&["verify", "--deep", "s3://d/new.msgpack"]);
    let before = both.server.names();
    both.runs(&["index", "--lookup", "s3://d/new.msgpack"]);
    let error = both.fails(&["index", "--crc", "s3://d/new.msgpack"]);
    assert!(error.contains("new.msgpack.crc") && error.contains("only .lookup"), "{error}");
    let error = both.fails(&["index", "--force", "s3://d/new.msgpack"]);
    assert!(error.contains("--force"), "{error}");
    assert_eq!(both.server.names(), before);
    // While another process writes, nothing is put next to what it may replace.
    both.server.remove("/d/new.msgpack.lookup");
    both.server.put("/d/new.msgpack.partial", b"{}".to_vec());
    let error = both.fails(&["index", "--lookup", "s3://d/new.msgpack"]);
    assert!(error.contains("a writer is working"), "{error}");
    assert!(both.server.object("/d/new.msgpack.lookup").is_none());
}

#[test]
fn a_lookup_is_uploaded_only_on_request() {
    let both = Both::new();
    let path = both.path("large.msgpack");
    let mut writer = Writer::options().durable(false).lookup(false).create(&path).unwrap();
    for index in 0..1 << 10 {
        let key = key(index);
        let packed = [&b"\x81\xa3key"[..], &[0xa0 | key.len() as u8], key.as_bytes()].concat();
        writer.write_raw_unchecked(&key, &packed).unwrap();
    }
    writer.finish().unwrap();
    both.server.upload(path.as_ref(), "/d");
    let before = both.server.names();
    both.runs(&["index", "s3://d/large.msgpack"]);
    both.runs(&["index", "--no-lookup", "s3://d/large.msgpack"]);
    assert_eq!(both.server.names(), before);
    both.runs(&["index", &path]);
    both.runs(&["index", "--lookup", "s3://d/large.msgpack"]);
    both.assert_same("large.msgpack");
}
