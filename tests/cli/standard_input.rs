//! `convert -`: JSON lines, tables and tar archives that come through a pipe.

use super::*;

const TABLE: &str = "id,text\n7,\"a\nb\"\n8,c\n9,\n";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut out = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A directory with a shard that other programs could have written: two samples of two files, one of one file.
fn with_tar() -> (TempDir, Vec<u8>) {
    let dir = with_words();
    let python = "{\"key\":\"a\",\"txt\":\"eins\",\"cls\":1}\n{\"key\":\"b\",\"txt\":\"zwei\",\"cls\":2}\n\
                  {\"key\":\"c\",\"txt\":\"drei\"}\n";
    run_with(&dir, ["convert", "-", "w.tar"], python.as_bytes()).exits(0);
    let tar = fs::read(dir.path().join("w-000000.tar")).unwrap();
    (dir, tar)
}

/// The source makes the same from a pipe as from a file that is called so.
#[track_caller]
fn assert_same_from_pipe(dir: &TempDir, name: &str, bytes: &[u8], options: &[&str]) {
    fs::write(dir.path().join(name), bytes).unwrap();
    run(dir, [&["convert", name, "file.msgpack", "--force"], options].concat()).exits(0);
    run_with(dir, [&["convert", "-", "pipe.msgpack", "--force"], options].concat(), bytes).exits(0);
    assert_same_dataset(&dir.path().join("file.msgpack"), &dir.path().join("pipe.msgpack"));
}

#[test]
fn each_format_is_the_same_from_a_pipe() {
    let (dir, tar) = with_tar();
    let tsv = TABLE.replace(',', "\t");
    assert_same_from_pipe(&dir, "stdin.csv", TABLE.as_bytes(), &["--from", "csv"]);
    assert_same_from_pipe(
        &dir,
        "stdin.tsv",
        tsv.as_bytes(),
        &["--from", "tsv", "--key-field", "id"],
    );
    assert_same_from_pipe(
        &dir,
        "stdin.csv",
        tsv.as_bytes(),
        &["--from", "csv", "--delimiter", "tab"],
    );
    assert_same_from_pipe(&dir, "stdin.tar", &tar, &["--from", "webdataset"]);
    assert_same_from_pipe(&dir, "stdin.tar", &tar, &["--from", "tar", "--limit", "2"]);
    assert_same_from_pipe(&dir, "stdin.jsonl", b"{\"n\":1}\n{\"n\":2}\n", &["--from", "jsonl"]);
    let plain = run_with(&dir, ["convert", "-", "j.msgpack"], b"{\"n\":1}\n").exits(0);
    assert!(plain.err.contains("1 sample"), "{plain:?}");
    for (ending, packed) in [("gz", gzip as fn(&[u8]) -> Vec<u8>), ("bz2", bzip2), ("zst", zstd)] {
        for (name, bytes, from) in [
            ("stdin.csv", TABLE.as_bytes(), "csv"),
            ("stdin.tar", &tar, "webdataset"),
            ("stdin.jsonl", b"{\"n\":1}\n{\"n\":2}\n", "jsonl"),
        ] {
            let name = format!("{name}.{ending}");
            assert_same_from_pipe(&dir, &name, &packed(bytes), &["--from", from]);
        }
    }
    // Samples that kiste wrote are the same again, and an empty input is one.
    run(&dir, ["convert", "words.msgpack", "k.tar"]).exits(0);
    let own = fs::read(dir.path().join("k-000000.tar")).unwrap();
    run_with(&dir, ["convert", "-", "again.msgpack", "--from", "webdataset"], &own).exits(0);
    assert_same_dataset(&dir.path().join("words.msgpack"), &dir.path().join("again.msgpack"));
    assert_same_from_pipe(&dir, "stdin.csv", b"a,b\n", &["--from", "csv"]);
    assert_same_from_pipe(&dir, "stdin.csv", b"", &["--from", "csv"]);
}

#[test]
fn many_rows_and_files_stay_in_order() {
    let dir = scratch();
    let table: String = (0..60_000).map(|n| format!("{n},some text of a row\n")).collect();
    assert_same_from_pipe(
        &dir,
        "stdin.csv",
        format!("n,text\n{table}").as_bytes(),
        &["--from", "csv"],
    );
    run(&dir, ["convert", "file.msgpack", "m.tar"]).exits(0);
    let tar = fs::read(dir.path().join("m-000000.tar")).unwrap();
    assert_same_from_pipe(&dir, "stdin.tar", &tar, &["--from", "webdataset"]);
}

#[test]
fn bad_rows_are_left_out() {
    let dir = scratch();
    let table = b"a,b\n1,2\n3\n5,\xff\n7,8\n";
    let convert = ["convert", "-", "o.msgpack", "--from", "csv"];
    run_with(&dir, convert, table).fails(1, "-: line 3: expected 2 values, found 1");
    let made = run_with(&dir, [&convert[..], &["--bad", "skip"]].concat(), table).exits(1);
    assert!(made.err.contains("left out 2 bad samples"), "{made:?}");
    assert_eq!(run(&dir, ["ls", "o.msgpack"]).quietly().out, "stdin/000000000\nstdin/000000003\n");
    // What is odd is counted, as in a file.
    let odd = b"a\n\"x\" y\nz\n";
    let made = run_with(&dir, [&convert[..], &["--force"]].concat(), odd).exits(0);
    assert!(made.err.contains("with text after"), "{made:?}");
    assert!(made.err.contains("-, line 2"), "{made:?}");
    let failed = run_with(&dir, [&convert[..], &["--force"]].concat(), b"a\nM\xfcller\n").exits(1);
    assert!(failed.err.contains("--encoding cp1252"), "{failed:?}");
    let args = [&convert[..], &["--force", "--encoding", "cp1252"]].concat();
    run_with(&dir, args, b"a\nM\xfcller\n").exits(0);
    let long = [&convert[..], &["--force", "--max-bytes", "100"]].concat();
    let row = format!("a\n{}\n", "x".repeat(20_000));
    run_with(&dir, long, row.as_bytes()).fails(2, "-: expected rows of at most 100 bytes");
}

#[test]
fn damaged_archives_are_errors() {
    let (dir, tar) = with_tar();
    let convert = ["convert", "-", "o.msgpack", "--from", "webdataset", "--force"];
    // In the middle of the last file.
    let last = tar.iter().rposition(|byte| *byte != 0).unwrap();
    let cut = &tar[..last - 1];
    for (bytes, says) in [
        (&tar[..100], "-: "),
        (cut, "-: "),
        (&b"no archive at all"[..], "-: "),
        (&gzip(&tar)[..60], "-: "),
    ] {
        run_with(&dir, convert, bytes).fails(1, says);
        assert!(!dir.path().join("o.msgpack").exists());
    }
    // The samples before the damage are kept, as from a file.
    fs::write(dir.path().join("cut.tar"), cut).unwrap();
    let skip = |args: &[&str], input: &[u8]| {
        let made = run_with(&dir, [args, &["--force", "--bad", "skip"]].concat(), input);
        assert_eq!(made.code, Some(1), "{made:?}");
    };
    skip(&["convert", "cut.tar", "file.msgpack"], b"");
    skip(&["convert", "-", "pipe.msgpack", "--from", "tar"], cut);
    assert_same_dataset(&dir.path().join("file.msgpack"), &dir.path().join("pipe.msgpack"));
    let xz = b"\xfd7zXZ\0\0\0\0\0\0";
    run_with(&dir, convert, xz)
        .fails(2, "-: expected no compression, bzip2, gzip or Zstandard, found xz");
}

#[test]
fn what_needs_a_file_is_refused() {
    let dir = scratch();
    fs::write(dir.path().join("a.csv"), TABLE).unwrap();
    let says = "-: standard input is read as one of jsonl, webdataset, csv, tsv, but this is";
    for from in ["tfrecord", "npz", "mds", "list", "images", "dataset"] {
        run(&dir, ["convert", "-", "o.msgpack", "--from", from]).fails(2, says);
    }
    let csv = ["convert", "-", "o.msgpack", "--from", "csv"];
    for (options, says) in [
        (
            &["--guess-types"][..],
            "--guess-types reads tables twice, and standard input can be read only once",
        ),
        (&["--plan"], "can be divided"),
        (&["--part", "1/2"], "can be divided"),
        (&["--resume"], "can be divided"),
    ] {
        let failed = run_with(&dir, [&csv[..], options].concat(), TABLE.as_bytes()).exits(2);
        // The same as for JSON lines.
        let lines =
            run_with(&dir, [&["convert", "-", "o.msgpack"], options].concat(), b"").exits(2);
        assert!(failed.err.contains(says) || failed.err == lines.err, "{failed:?}, {lines:?}");
    }
    run(&dir, ["convert", "a.csv", "-", "o.msgpack", "--from", "csv"])
        .fails(2, "expected standard input alone, found 2 names");
    assert_eq!(names(dir.path()), ["a.csv"]);
}

/// The samples that are wanted are there, so the end of the pipe is not waited for.
#[test]
#[cfg(unix)]
fn a_pipe_that_stays_open_is_not_waited_for() {
    let dir = scratch();
    let mut command = kiste();
    command.args(["convert", "-", "o.msgpack", "--from", "csv", "--limit", "2"]);
    command
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let rows: String = (0..100_000).map(|n| format!("{n},some text of a row\n")).collect();
    // It stops reading when it has what it needs.
    drop(stdin.write_all(format!("n,text\n{rows}").as_bytes()));
    assert!(child.wait().unwrap().success());
    drop(stdin);
    assert_eq!(run(&dir, ["ls", "o.msgpack"]).quietly().out, "stdin/000000000\nstdin/000000001\n");
}
