//! Conversion from URLs and to URLs.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use super::server::Fault;
use super::*;
use kiste::ErrorKind;
use kiste::convert::{Conversion, Format, Monitor, Phase, Silent, Total};

/// Converts a file of the server, and the same on disk, and compares.
#[track_caller]
pub(super) fn converts_alike(name: &str, bytes: Vec<u8>, set: impl Fn(Conversion) -> Conversion) {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join(name);
    std::fs::write(&here, &bytes).unwrap();
    server.put(&format!("/d/{name}"), bytes);
    server.fail(|number, _| match number % 20 {
        7 => Some(Fault::Status(503, None)),
        13 => Some(Fault::Cut(1000)),
        _ => None,
    });
    let [local, remote] = ["local.msgpack", "remote.msgpack"].map(|name| dir.path().join(name));
    set(Conversion::new([&here], &local)).run(&mut Silent).unwrap();
    let url = format!("{}/d/{name}", server.url());
    set(Conversion::new([&url], &remote)).run(&mut Silent).unwrap();
    assert_eq!(std::fs::read(&local).unwrap(), std::fs::read(&remote).unwrap(), "{name}");
    let keys = |path: &Path| std::fs::read(format!("{}.keys", path.display())).unwrap();
    assert_eq!(keys(&local), keys(&remote));
    // Nothing but ranges of the one file that was named.
    assert!(server.requests().iter().all(|r| r.method == "GET" && r.header("range").is_some()));
}

pub(super) fn lines(count: usize) -> Vec<u8> {
    let mut text = String::new();
    for i in 0..count {
        writeln!(text, r#"{{"key": "k{i}", "v": {i}, "text": "{}"}}"#, "word ".repeat(i % 90))
            .unwrap();
    }
    text.into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

#[test]
fn lines_and_tables_are_read_from_urls() {
    converts_alike("a.jsonl", lines(30_000), |conversion| conversion);
    converts_alike("a.jsonl.gz", gzip(&lines(30_000)), |conversion| conversion);
    let mut table = String::from("key,a,b\n");
    (0..60_000).for_each(|i| writeln!(table, "k{i},{i},\"x, {i}\"").unwrap());
    converts_alike("a.csv", table.clone().into_bytes(), |conversion| conversion.guess_types(true));
    converts_alike("a.csv.gz", gzip(table.as_bytes()), |conversion| conversion);
}

#[test]
fn shards_are_read_from_urls() {
    let dir = tempfile::tempdir().unwrap();
    let (source, set) = (dir.path().join("a.jsonl"), dir.path().join("a.msgpack"));
    std::fs::write(&source, lines(3000)).unwrap();
    Conversion::new([&source], &set).run(&mut Silent).unwrap();
    for (name, format) in [("a.tar", Format::Webdataset), ("a.tfrecord", Format::Tfrecord)] {
        let made = Conversion::new([&set], dir.path().join(name)).to(format);
        let report = made.run(&mut Silent).unwrap();
        let [shard] = &report.outputs[0].files[..] else { panic!("{report:?}") };
        converts_alike(name, std::fs::read(shard).unwrap(), |conversion| conversion);
    }
}

#[test]
fn patterns_name_urls_without_a_list() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    for i in 0..3 {
        let line = format!("{{\"key\": \"k{i}\"}}\n");
        server.put(&format!("/d/{i:03}.jsonl"), line.into_bytes());
    }
    let set = dir.path().join("a.msgpack");
    let url = format!("{}/d/{{000..002}}.jsonl", server.url());
    Conversion::new([&url], &set).run(&mut Silent).unwrap();
    assert_eq!(DatasetReader::open(&set).unwrap().len(), 3);
}

#[test]
fn what_cannot_be_read_from_a_url_is_an_error_that_shows_no_secrets() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("a.msgpack");
    let run = |url: &str| Conversion::new([url], &set).run(&mut Silent).unwrap_err();
    let host = server.address();
    for url in [
        format!("http://me:s3cret@{host}/d/a.jsonl"),
        format!("http://{host}/d/a.jsonl?sig=s3cret"),
    ] {
        let error = run(&url);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    let error = run(&format!("http://{host}/d/none.jsonl"));
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    server.put("/d/a.zip", b"PK\x03\x04".repeat(10));
    let error = run(&format!("http://{host}/d/a.zip"));
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    // The network is to blame, and not the file.
    server.put("/d/a.jsonl.gz", gzip(&lines(30_000)));
    server.fail(|number, _| (number > 3).then_some(Fault::Status(400, None)));
    let error = run(&format!("http://{host}/d/a.jsonl.gz"));
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
}

/// The command, with the server as the endpoint of S3.
#[cfg(feature = "cli")]
pub(super) fn kiste(server: &Server, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiste"));
    for (name, _) in std::env::vars() {
        if name.starts_with("AWS_") || name.to_lowercase().ends_with("_proxy") {
            command.env_remove(name);
        }
    }
    command.env("AWS_ENDPOINT_URL", server.url()).env("AWS_ALLOW_HTTP", "true");
    command.env("AWS_ACCESS_KEY_ID", "AKID").env("AWS_SECRET_ACCESS_KEY", "s3cret");
    command.args(args).stdin(Stdio::null());
    command
}

#[cfg(feature = "cli")]
#[test]
fn the_command_converts_from_a_bucket_to_a_bucket() {
    let server = Server::start();
    server.put("/d/a.jsonl", lines(3000));
    let url = "s3://d/new.msgpack";
    let run = |args: &[&str]| kiste(&server, args).output().unwrap();
    let done = run(&["convert", "s3://d/a.jsonl", url]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let keys = run(&["ls", url]);
    assert_eq!(String::from_utf8(keys.stdout).unwrap().lines().count(), 3000);
    assert!(run(&["verify", url]).status.success());
    // Few samples, which come as slowly as from a pipe.
    server.put("/d/few.jsonl", lines(3));
    let few = run(&["convert", "s3://d/few.jsonl", "s3://d/few.msgpack"]);
    assert!(few.status.success(), "{}", String::from_utf8_lossy(&few.stderr));
    let again = run(&["convert", "s3://d/a.jsonl", url]);
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists already"));
    let refused = run(&["convert", "s3://d/a.jsonl", "s3://d/b.msgpack", "--append"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("cannot be combined with one file at a URL"), "{error}");
    let refused = run(&["convert", url, "s3://d/b.jsonl"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("only datasets are written to URLs"));
    assert!(!server.names().iter().any(|name| name.starts_with("/d/b.")));
}

#[cfg(feature = "cli")]
#[test]
fn a_killed_conversion_leaves_no_dataset_and_a_repair_makes_room() {
    let server = Server::start();
    server.fail(|_, request| request.query.contains("partNumber=").then_some(Fault::Late(600_000)));
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("a.jsonl");
    let text = "x".repeat(1 << 20);
    let lines: String =
        (0..40).map(|i| format!("{{\"key\": \"{i}\", \"t\": \"{text}\"}}\n")).collect();
    std::fs::write(&source, lines).unwrap();
    let url = "s3://d/new.msgpack";
    let mut child = kiste(&server, &["convert", source.to_str().unwrap(), url])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = std::time::Instant::now();
    while server.most_in_flight() < 8 << 20 {
        assert!(start.elapsed() < Duration::from_secs(300), "nothing went up");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    server.fail(|_, _| None);
    assert_eq!(server.names(), ["/d/new.msgpack.partial"]);
    let run = |args: &[&str]| kiste(&server, args).output().unwrap();
    let info = run(&["info", url]);
    assert!(!info.status.success());
    assert!(String::from_utf8_lossy(&info.stderr).contains("its writer was killed"));
    assert_eq!(server.unfinished_uploads(), 1);
    let repaired = run(&["repair", url]);
    assert!(repaired.status.success(), "{}", String::from_utf8_lossy(&repaired.stderr));
    assert!(server.names().is_empty());
    // Nor is anything left that is paid for.
    assert_eq!(server.unfinished_uploads(), 0);
}

#[test]
fn a_source_that_is_replaced_during_a_conversion_is_an_error_and_converts_again() {
    /// Replaces the object once it is open and its first sample is not read.
    struct Replaces<'a>(&'a Server, bool);

    impl Monitor for Replaces<'_> {
        fn begin(&mut self, _: Phase, _: Total) {
            if std::mem::take(&mut self.1) {
                self.0.put("/d/00.jsonl", lines(3001));
            }
        }
    }

    let server = Server::start();
    server.put("/d/00.jsonl", lines(3000));
    let dir = tempfile::tempdir().unwrap();
    // The name in braces is not that of the object.
    let url = format!("{}/d/{{00..00}}.jsonl", server.url());
    let run = |name: &str, replaces: bool| {
        let set = dir.path().join(name);
        let report = Conversion::new([&url], set).run(&mut Replaces(&server, replaces))?;
        Ok::<u64, kiste::Error>(report.outputs[0].samples)
    };
    assert_eq!(run("before.msgpack", false).unwrap(), 3000);
    let error = run("during.msgpack", true).unwrap_err();
    // What was read ahead decides which request finds it out.
    assert!(error.to_string().contains("the object was replaced while it was"), "{error}");
    assert_eq!(run("after.msgpack", false).unwrap(), 3001);
}

/// The sizes are the same, so only the version tells them apart.
#[test]
fn a_conversion_is_not_resumed_with_another_version_of_its_source() {
    /// Stops once some samples were written.
    struct Stops(u64);

    impl Monitor for Stops {
        fn progress(&mut self, progress: kiste::convert::Progress) {
            self.0 = progress.samples;
        }

        fn is_cancelled(&self) -> bool {
            self.0 > 0
        }
    }

    let server = Server::start();
    // Several units, as what is not complete is read again.
    let text = lines(30_000);
    server.put("/d/a.jsonl", text.clone());
    let url = format!("{}/d/a.jsonl", server.url());
    let dir = tempfile::tempdir().unwrap();
    let convert = || Conversion::new([&url], dir.path().join("a.msgpack")).resume(true);
    assert_eq!(convert().run(&mut Stops(0)).unwrap_err().kind(), ErrorKind::Cancelled);
    server.put("/d/a.jsonl", text.clone());
    let error = convert().run(&mut Silent).unwrap_err();
    assert!(error.to_string().contains("the files have changed since"), "{error}");
}

/// Few samples went to the file as soon as they came, which no upload can do: the conversion failed.
#[cfg(feature = "cli")]
#[test]
fn a_few_samples_are_converted_to_a_url() {
    let server = Server::start();
    server.put("/d/a.jsonl", lines(3));
    let done = kiste(&server, &["convert", "s3://d/a.jsonl", "s3://d/a.msgpack"]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(server.names().contains(&"/d/a.msgpack.offsets".to_owned()));
}

#[cfg(all(feature = "cli", feature = "datasets"))]
#[test]
fn a_data_set_of_the_catalogue_is_written_to_a_bucket() {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let put = |name: String, shape: &[u32], data: &[u8]| {
        let lens: Vec<u8> = shape.iter().flat_map(|len| len.to_be_bytes()).collect();
        let idx = [&[0, 0, 8, shape.len() as u8], &lens[..], data].concat();
        std::fs::write(dir.path().join(name), gzip(&idx)).unwrap();
    };
    for prefix in ["train", "t10k"] {
        put(format!("{prefix}-images-idx3-ubyte.gz"), &[2, 28, 28], &[7; 2 * 784]);
        put(format!("{prefix}-labels-idx1-ubyte.gz"), &[2], &[9, 4]);
    }
    let here = dir.path().to_str().unwrap();
    for out in [here, "s3://d/mnist"] {
        let done = kiste(&server, &["write", "MNIST", here, out, "-s", "-q"]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    for split in ["train", "test"] {
        for suffix in ["", ".offsets", ".keys", ".labels"] {
            let name = format!("{split}.msgpack{suffix}");
            let local = std::fs::read(dir.path().join(&name)).unwrap();
            assert!(*server.object(&format!("/d/mnist/{name}")).unwrap() == local, "{name}");
        }
    }
    // It is there already.
    let args = ["write", "MNIST", here, "s3://d/mnist", "-s"];
    let again = kiste(&server, &args).output().unwrap();
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists already"), "{again:?}");
}
