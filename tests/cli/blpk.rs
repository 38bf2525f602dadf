//! `kiste blpk` as a user of bloscpack would call it.

use kiste::storage::{LocalStorage, Storage};

use super::*;
use crate::array::packed::{golden, sha256};

/// `data.dat`, 300,000 numbers as bloscpack's own examples have them, in a directory.
fn with_data() -> (TempDir, Vec<u8>) {
    let dir = scratch();
    let data: Vec<u8> = (0..300_000u32).flat_map(|i| f64::from(i / 7).to_le_bytes()).collect();
    fs::write(dir.path().join("data.dat"), &data).unwrap();
    (dir, data)
}

fn read(dir: &TempDir, name: &str) -> Vec<u8> {
    fs::read(dir.path().join(name)).unwrap()
}

fn info(dir: &TempDir, name: &str) -> Json {
    run(dir, ["blpk", "info", "--json", name]).quietly().json()
}

/// Runs `blpk` with this standard input, and gives what it printed as bytes.
fn piped(dir: &TempDir, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = kiste();
    command.arg("blpk").args(args).current_dir(dir.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {output:?}");
    output.stdout
}

#[test]
fn files_are_named_as_bloscpack_names_them() {
    let (dir, data) = with_data();
    run(&dir, ["blpk", "compress", "data.dat"]).quietly();
    assert_eq!(names(dir.path()), ["data.dat", "data.dat.blp"]);
    fs::remove_file(dir.path().join("data.dat")).unwrap();
    run(&dir, ["blpk", "decompress", "data.dat.blp"]).quietly();
    assert!(read(&dir, "data.dat") == data);
    run(&dir, ["blpk", "d", "data.dat.blp", "other.dat"]).quietly();
    assert!(read(&dir, "other.dat") == data);
    run(&dir, ["blpk", "c", "data.dat", "other.blp"]).quietly();
    assert!(read(&dir, "other.blp") == read(&dir, "data.dat.blp"));
    assert_eq!(names(dir.path()), ["data.dat", "data.dat.blp", "other.blp", "other.dat"]);
}

#[test]
fn the_defaults_are_those_of_bloscpack() {
    let (dir, _) = with_data();
    run(&dir, ["blpk", "c", "data.dat"]).quietly();
    let found = info(&dir, "data.dat.blp");
    let header = serde_json::json!({
        "version": 3, "offsets": true, "metadata": false, "checksum": "adler32", "typesize": 8,
        "chunk_size": 1 << 20, "last_chunk": 2_400_000 - (2 << 20), "nchunks": 3,
        "max_app_chunks": 30,
    });
    assert_eq!(found["header"], header);
    let chunk = &found["first_chunk"];
    let codec = if cfg!(feature = "c-blosc") { "blosclz" } else { "lz4" };
    assert_eq!((&chunk["codec"], &chunk["shuffle"]), (&codec.into(), &"byte".into()));
    assert_eq!(found["offsets"][0], 32 + 33 * 8);
    assert_eq!(found["nbytes"], 2_400_000);
}

#[test]
fn existing_files_are_kept_unless_forced() {
    let (dir, data) = with_data();
    fs::write(dir.path().join("data.dat.blp"), "old").unwrap();
    let refused = run(&dir, ["blpk", "c", "data.dat"]).fails(2, "data.dat.blp: the file exists");
    assert!(refused.err.contains("hint: --force replaces it"), "{refused:?}");
    assert_eq!(read(&dir, "data.dat.blp"), b"old");
    run(&dir, ["blpk", "--force", "c", "data.dat"]).quietly();
    run(&dir, ["blpk", "d", "data.dat.blp"]).fails(2, "data.dat: the file exists");
    run(&dir, ["blpk", "d", "-f", "data.dat.blp"]).quietly();
    assert!(read(&dir, "data.dat") == data);
    run(&dir, ["blpk", "c", "-f", "data.dat", "./data.dat"])
        .fails(2, "both the input and the output");
    run(&dir, ["blpk", "c", "-f", "data.dat", "."]).fails(2, "expected a regular file");
    assert!(read(&dir, "data.dat") == data);
}

#[test]
fn an_error_leaves_the_old_output_and_nothing_else() {
    let (dir, _) = with_data();
    run(&dir, ["blpk", "c", "-z", "100K", "data.dat"]).quietly();
    let mut damaged = read(&dir, "data.dat.blp");
    let at = damaged.len() - 1000;
    damaged[at] ^= 1;
    fs::write(dir.path().join("bad.blp"), &damaged).unwrap();
    fs::write(dir.path().join("out.dat"), "old").unwrap();
    let before = snapshot(dir.path());
    for end in [5, 40, 1000, damaged.len() - 1] {
        fs::write(dir.path().join("bad.blp"), &damaged[..end]).unwrap();
        run(&dir, ["blpk", "-f", "d", "bad.blp", "out.dat"]).fails(1, "bad.blp: ");
    }
    fs::write(dir.path().join("bad.blp"), &damaged).unwrap();
    run(&dir, ["blpk", "-f", "d", "bad.blp", "out.dat"]).fails(1, "adler32");
    run(&dir, ["blpk", "info", "--verify", "bad.blp"]).fails(1, "adler32");
    run(&dir, ["blpk", "info", "bad.blp"]).quietly();
    run(&dir, ["blpk", "c", "nope.dat"]).fails(2, "nope.dat: no such file");
    run(&dir, ["blpk", "d", "nope.blp"]).fails(2, "nope.blp: no such file");
    run(&dir, ["blpk", "i", "data.dat"]).fails(1, "expected the magic \"blpk\"");
    assert!(snapshot(dir.path()) == before);
}

#[test]
fn only_containers_by_name_are_decompressed() {
    let (dir, data) = with_data();
    run(&dir, ["blpk", "c", "data.dat", "packed"]).quietly();
    run(&dir, ["blpk", "d", "packed", "out"]).fails(2, "expected a name that ends in .blp");
    run(&dir, ["blpk", "d", "-e", "packed"]).fails(2, "--no-check-extension needs");
    run(&dir, ["blpk", "d", "-e", "packed", "out"]).quietly();
    assert!(read(&dir, "out") == data);
    run(&dir, ["blpk", "a", "packed", "data.dat"]).fails(2, "expected a name that ends in .blp");
    run(&dir, ["blpk", "a", "-e", "packed", "data.dat"]).quietly();
    assert_eq!(info(&dir, "packed")["nbytes"], 4_800_000);
}

#[test]
fn wrong_options_are_answered_with_what_is_right() {
    let (dir, _) = with_data();
    let before = names(dir.path());
    for (args, says) in [
        (&["c", "--chek-size", "1M", "data.dat"][..], "--chunk-size"),
        (&["compres", "data.dat"], "compress"),
        (&["c", "-z", "0", "data.dat"], "at least one byte"),
        (&["c", "-z", "3X", "data.dat"], "expected a size such as"),
        (&["c", "-z", "-5", "data.dat"], "-5"),
        (&["c", "-l", "10", "data.dat"], "0..=9"),
        (&["c", "-t", "300", "data.dat"], "1..=255"),
        (&["c", "-t", "0", "data.dat"], "1..=255"),
        (&["c", "-c", "snappy", "data.dat"], "zstd"),
        (&["c", "-k", "crc", "data.dat"], "crc32"),
        (&["-n", "0", "c", "data.dat"], "1..=256"),
        (&["c"], "IN"),
        (&[], "Usage"),
    ] {
        let told = run(&dir, [&["blpk"], args].concat()).exits(2);
        assert!(told.out.is_empty() && told.err.contains(says), "{args:?}: {told:#?}");
    }
    assert_eq!(names(dir.path()), before);
    for command in ["compress", "decompress", "append", "info"] {
        let help = run(&dir, ["blpk", command, "--help"]).quietly().out;
        assert!(help.contains("Examples:\n  kiste blpk "), "{help}");
    }
}

#[test]
fn every_option_comes_back() {
    let (dir, data) = with_data();
    for (at, options) in [
        &["-z", "max"][..],
        &["-z", "512K"],
        &["--chunk-size", "0.25M"],
        &["-z", "777", "-k", "sha512"],
        &["-z", "1G", "-t", "1", "-l", "0"],
        &["-c", "lz4", "-s", "-o"],
        &["-c", "lz4hc", "-n", "1", "-k", "none"],
        &["-c", "zlib", "--clevel", "1", "-k", "crc32"],
        &["-c", "zstd", "--level", "3", "--bitshuffle", "-n", "7"],
    ]
    .into_iter()
    .enumerate()
    {
        if matches!(options, ["-c", "lz4hc" | "zstd", ..]) && !cfg!(feature = "c-blosc") {
            continue;
        }
        let file = format!("{at}.blp");
        run(&dir, [&["blpk", "c"], options, &["data.dat", &file]].concat()).quietly();
        let back = piped(&dir, &["d", &file, "-"], b"");
        assert!(back == data, "{options:?}");
        run(&dir, ["blpk", "i", "--verify", &file]).quietly();
    }
    let found = ["0.blp", "1.blp", "2.blp"].map(|name| info(&dir, name)["header"].clone());
    let sizes = found.map(|header| header["chunk_size"].as_u64().unwrap());
    assert_eq!(sizes, [2_400_000, 512 << 10, 256 << 10]);
    assert_eq!(info(&dir, "5.blp")["offsets"], serde_json::json!([]));
    if cfg!(feature = "c-blosc") {
        assert_eq!(info(&dir, "8.blp")["first_chunk"]["shuffle"], "bit");
    }
}

/// What the C library writes is still read.
#[test]
#[cfg(not(feature = "c-blosc"))]
fn a_build_without_c_says_which_codecs_it_cannot_write() {
    let (dir, _) = with_data();
    let before = names(dir.path());
    let create = ["array", "create", "a", "--dtype", "<f4", "--shape", "0,4", "--codec", "zstd"];
    let convert = ["convert", "data.dat", "out.msgpack", "--arrays", "blpk:zstd:5"];
    for args in [&["blpk", "c", "-c", "zstd", "data.dat"][..], &create, &convert] {
        let told = run(&dir, args).exits(2);
        assert!(told.err.contains("expected lz4 or zlib, which are written"), "{told:?}");
        assert!(told.err.contains("the feature c-blosc, found zstd"), "{told:?}");
    }
    assert_eq!(names(dir.path()), before);
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bloscpack-0.16.0/bytes");
    for codec in ["blosclz", "lz4hc", "zstd"] {
        let file = format!("{fixtures}/big_{codec}_s1.blp");
        assert!(!piped(&dir, &["d", &file, "-"], b"").is_empty(), "{codec}");
    }
}

#[test]
fn the_number_of_threads_changes_no_byte() {
    let (dir, _) = with_data();
    for threads in ["1", "2", "5"] {
        let file = format!("{threads}.blp");
        run(&dir, ["blpk", "-n", threads, "c", "-z", "64K", "data.dat", &file]).quietly();
        assert!(read(&dir, &file) == read(&dir, "1.blp"), "{threads}");
    }
}

#[test]
fn an_empty_file_is_a_container_of_nothing() {
    let dir = scratch();
    fs::write(dir.path().join("empty"), "").unwrap();
    run(&dir, ["blpk", "c", "empty"]).quietly();
    // As bloscpack writes it.
    assert_eq!(read(&dir, "empty.blp").len(), 140);
    run(&dir, ["blpk", "d", "empty.blp", "again"]).quietly();
    assert_eq!(read(&dir, "again"), b"");
    assert_eq!(info(&dir, "empty.blp")["nbytes"], 0);
    run(&dir, ["blpk", "i", "empty.blp"]).quietly();
}

#[test]
fn pipes_give_what_files_give() {
    let (dir, data) = with_data();
    for size in [0, 1, 1000, 65_536, 65_537, data.len()] {
        fs::write(dir.path().join("part"), &data[..size]).unwrap();
        for options in [&["-z", "64K"][..], &["-z", "64K", "-o", "-k", "md5"], &["-z", "max"]] {
            run(&dir, [&["blpk", "-f", "c"], options, &["part"]].concat()).quietly();
            let file = read(&dir, "part.blp");
            let args = [&["c"], options, &["-"]].concat();
            assert!(piped(&dir, &args, &data[..size]) == file, "{size} {options:?}");
            let args = [&["c"], options, &["part", "-"]].concat();
            assert!(piped(&dir, &args, b"") == file, "{size} {options:?}");
            piped(&dir, &[&["-f", "c"], options, &["-", "named.blp"]].concat(), &data[..size]);
            assert!(read(&dir, "named.blp") == file, "{size} {options:?}");
            assert!(piped(&dir, &["d", "-"], &file) == data[..size]);
            assert!(piped(&dir, &["d", "part.blp", "-"], b"") == data[..size]);
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn files_that_do_not_know_their_size_are_read_to_the_end() {
    let dir = scratch();
    run(&dir, ["blpk", "c", "/proc/self/status", "status.blp"]).quietly();
    let text = String::from_utf8(piped(&dir, &["d", "status.blp", "-"], b"")).unwrap();
    assert!(text.contains("Name:"), "{text}");
}

#[test]
fn what_reads_the_output_may_stop() {
    let (dir, _) = with_data();
    run(&dir, ["blpk", "c", "data.dat"]).quietly();
    let mut command = kiste();
    command.args(["blpk", "d", "data.dat.blp", "-"]).current_dir(dir.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    Run::from(child.wait_with_output().unwrap()).quietly();
}

#[test]
fn metadata_comes_from_a_file() {
    let (dir, data) = with_data();
    let text = "{\"shape\": [10],\n \"dtype\": \"float64\", \"\u{fc}\": 18446744073709551616}\n";
    fs::write(dir.path().join("meta.json"), text).unwrap();
    run(&dir, ["blpk", "c", "-m", "meta.json", "data.dat"]).quietly();
    let found = info(&dir, "data.dat.blp");
    assert_eq!(found["metadata"]["shape"], serde_json::json!([10]));
    assert_eq!(
        found["metadata_header"]["max_size"],
        10 * found["metadata_header"]["size"].as_u64().unwrap()
    );
    let shown = run(&dir, ["blpk", "i", "data.dat.blp"]).quietly().out;
    let kept = r#"{"shape":[10],"dtype":"float64","\u00fc":18446744073709551616}"#;
    assert!(shown.replace("\\\\", "\\").contains(kept), "{shown}");
    // New metadata takes the room of the old, or nothing happens.
    fs::write(dir.path().join("new.json"), "[1, 2]").unwrap();
    fs::write(dir.path().join("more"), "abc").unwrap();
    run(&dir, ["blpk", "a", "-m", "new.json", "data.dat.blp", "more"]).quietly();
    assert_eq!(info(&dir, "data.dat.blp")["metadata"], serde_json::json!([1, 2]));
    let long: Vec<u64> = (0..1000).map(|i| i * i * 7919).collect();
    fs::write(dir.path().join("long.json"), serde_json::to_string(&long).unwrap()).unwrap();
    let before = read(&dir, "data.dat.blp");
    run(&dir, ["blpk", "a", "-m", "long.json", "data.dat.blp", "more"])
        .fails(2, "expected room for");
    assert!(read(&dir, "data.dat.blp") == before);
    let back = piped(&dir, &["d", "data.dat.blp", "-"], b"");
    assert!(back == [&data[..], b"abc"].concat());
}

#[test]
fn metadata_that_is_no_json_is_refused() {
    let (dir, _) = with_data();
    for (text, says) in [
        (
            &b"{\"a\": }"[..],
            "meta.json: expected metadata in JSON: expected value at line 1 column 7",
        ),
        (b"", "expected metadata in JSON"),
        (b"{} {}", "trailing characters"),
        (b"\xff", "found no text"),
        (b"[NaN]", "expected metadata in JSON"),
    ] {
        fs::write(dir.path().join("meta.json"), text).unwrap();
        run(&dir, ["blpk", "c", "-m", "meta.json", "data.dat"]).fails(2, says);
        assert_eq!(names(dir.path()), ["data.dat", "meta.json"]);
    }
    run(&dir, ["blpk", "c", "-m", "nope.json", "data.dat"]).fails(2, "nope.json: no such file");
    fs::write(dir.path().join("meta.json"), "null").unwrap();
    run(&dir, ["blpk", "c", "-m", "meta.json", "data.dat"]).quietly();
    assert_eq!(info(&dir, "data.dat.blp")["metadata"], Json::Null);
}

#[test]
fn appended_is_what_is_appended() {
    let (dir, data) = with_data();
    let codec = if cfg!(feature = "c-blosc") { "zstd" } else { "zlib" };
    run(&dir, ["blpk", "c", "-z", "300K", "-c", codec, "data.dat"]).quietly();
    for size in [0, 1, 5000, 1_000_000] {
        fs::write(dir.path().join("new"), &data[..size]).unwrap();
        run(&dir, ["blpk", "a", "data.dat.blp", "new"]).quietly();
    }
    piped(&dir, &["a", "data.dat.blp", "-"], b"the end");
    let expected = [&data[..], &data[..1], &data[..5000], &data[..1_000_000], b"the end"].concat();
    assert!(piped(&dir, &["d", "data.dat.blp", "-"], b"") == expected);
    let found = info(&dir, "data.dat.blp");
    assert_eq!(found["nbytes"], expected.len());
    assert_eq!(found["first_chunk"]["codec"], codec);
    run(&dir, ["blpk", "i", "--verify", "data.dat.blp"]).quietly();

    run(&dir, ["blpk", "c", "-o", "data.dat", "closed.blp"]).quietly();
    run(&dir, ["blpk", "a", "closed.blp", "new"]).fails(2, "expected a container with offsets");
    run(&dir, ["blpk", "a", "closed.blp", "closed.blp"])
        .fails(2, "both the container and the file");
    run(&dir, ["blpk", "a", "nope.blp", "new"]).fails(2, "nope.blp: no such file");
    assert!(!names(dir.path()).iter().any(|name| name.ends_with(".lock")));
}

/// All names of a container share one lock, and a symbolic link is followed.
#[test]
#[cfg(unix)]
fn two_appends_exclude_each_other_under_all_names() {
    let (dir, data) = with_data();
    run(&dir, ["blpk", "c", "-z", "300K", "data.dat"]).quietly();
    fs::create_dir(dir.path().join("sub")).unwrap();
    std::os::unix::fs::symlink("../data.dat.blp", dir.path().join("sub/link.blp")).unwrap();
    fs::write(dir.path().join("one"), "1").unwrap();
    let storage = LocalStorage::positioned();
    let lock = storage.lock_file(&dir.path().join("data.dat.blp")).unwrap().unwrap();
    for name in ["data.dat.blp", "sub/link.blp"] {
        run(&dir, ["blpk", "a", name, "one"]).fails(2, "another process is writing this file");
    }
    run(&dir, ["blpk", "c", "-f", "one", "sub/link.blp"])
        .fails(2, "another process is writing this file");
    drop(lock);
    run(&dir, ["blpk", "a", "sub/link.blp", "one"]).quietly();
    assert_eq!(names(&dir.path().join("sub")), ["link.blp"]);

    // Many at once: what is appended is there, and what is not was refused.
    let mut appended = 0;
    for _ in 0..5 {
        let spawn = |name: &&str| {
            let mut command = kiste();
            command.args(["blpk", "a", name, "one"]).current_dir(dir.path());
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let children: Vec<_> =
            ["data.dat.blp", "sub/link.blp", "./data.dat.blp"].iter().map(spawn).collect();
        for child in children {
            let done: Run = child.wait_with_output().unwrap().into();
            match done.code {
                Some(0) => appended += 1,
                _ => drop(done.fails(2, "another process is writing this file")),
            }
        }
    }
    assert!(appended >= 5, "{appended}");
    let expected = [data, vec![b'1'; 1 + appended]].concat();
    assert!(piped(&dir, &["d", "data.dat.blp", "-"], b"") == expected);
}

#[test]
#[cfg(unix)]
fn a_container_with_other_names_is_not_appended_to() {
    let (dir, _) = with_data();
    run(&dir, ["blpk", "c", "data.dat"]).quietly();
    let path = dir.path().join("data.dat.blp");
    fs::hard_link(&path, dir.path().join("snapshot.blp")).unwrap();
    fs::write(dir.path().join("one"), "1").unwrap();
    let before = read(&dir, "data.dat.blp");
    run(&dir, ["blpk", "a", "data.dat.blp", "one"]).fails(
        2,
        "the file has 2 names (hard links): appending would change the others too; copy it",
    );
    assert!(read(&dir, "snapshot.blp") == before);
    // What is replaced gets a file of its own.
    run(&dir, ["blpk", "c", "-f", "one", "data.dat.blp"]).quietly();
    assert!(read(&dir, "snapshot.blp") == before);
    run(&dir, ["blpk", "a", "data.dat.blp", "one"]).quietly();
}

#[test]
#[cfg(unix)]
fn a_container_that_is_replaced_keeps_its_permissions_and_its_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (dir, _) = with_data();
    let mode =
        |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777;
    run(&dir, ["blpk", "c", "data.dat", "real.blp"]).quietly();
    fs::set_permissions(dir.path().join("real.blp"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("real.blp", dir.path().join("link.blp")).unwrap();
    fs::write(dir.path().join("one"), "1").unwrap();
    for (name, input) in [("real.blp", "one"), ("link.blp", "data.dat"), ("link.blp", "-")] {
        run_with(&dir, ["blpk", "c", "-f", input, name], b"2").exits(0);
        assert_eq!(mode("real.blp"), 0o600);
        assert!(dir.path().join("link.blp").is_symlink());
    }
    assert!(piped(&dir, &["d", "real.blp", "-"], b"") == b"2");
    run(&dir, ["blpk", "a", "link.blp", "one"]).quietly();
    assert_eq!(mode("real.blp"), 0o600);
    assert!(piped(&dir, &["d", "real.blp", "-"], b"") == b"21");
    // A link that leads nowhere is no place for a container.
    symlink("nowhere", dir.path().join("lost.blp")).unwrap();
    for options in [&["blpk", "c"][..], &["blpk", "c", "-f"]] {
        let done = run(&dir, [options, &["one", "lost.blp"]].concat());
        assert!(done.code == Some(2) && done.err.contains("lost.blp: "), "{done:?}");
        assert!(dir.path().join("lost.blp").is_symlink());
    }
    let left = ["data.dat", "link.blp", "lost.blp", "one", "real.blp"];
    assert_eq!(names(dir.path()), left);
}

#[test]
fn arrays_go_in_and_out_as_npy() {
    let dir = scratch();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/numpy-2.4.6");
    let mut seen = 0;
    for name in names(&folder).iter().filter(|name| name.ends_with(".npy")) {
        let file = fs::read(folder.join(name)).unwrap();
        fs::write(dir.path().join(name), &file).unwrap();
        let packed = format!("{name}.blp");
        if name == "objects.npy" {
            run(&dir, ["blpk", "c", "--npy", name]).fails(2, "Python objects");
            assert!(!dir.path().join(&packed).exists());
            continue;
        }
        run(&dir, ["blpk", "c", "--npy", name]).quietly();
        fs::remove_file(dir.path().join(name)).unwrap();
        run(&dir, ["blpk", "d", "--npy", &packed]).quietly();
        let back = read(&dir, name);
        let decoded = |bytes: &[u8]| kiste::format::numpy::npy::decode(bytes).unwrap().into_owned();
        assert_eq!(decoded(&back), decoded(&file), "{name}");
        assert!(piped(&dir, &["c", "--npy", "-"], &file) == read(&dir, &packed), "{name}");
        let array = &info(&dir, &packed)["array"];
        assert_eq!(array["shape"], serde_json::json!(decoded(&file).shape()), "{name}");
        run(&dir, ["blpk", "i", &packed]).quietly();
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn what_is_no_array_is_refused_as_one() {
    let (dir, data) = with_data();
    run(&dir, ["blpk", "c", "--npy", "data.dat"]).fails(1, "expected a .npy file");
    assert_eq!(names(dir.path()), ["data.dat"]);
    run(&dir, ["blpk", "c", "data.dat"]).quietly();
    let told = run(&dir, ["blpk", "d", "--npy", "data.dat.blp", "out"]).fails(1, "NumPy array");
    assert!(told.err.contains("without --npy"), "{told:?}");
    // A header that promises more, or less, than there is.
    let array = ndarray::arr1(&[1i32, 2, 3]);
    let array = kiste::value::NdArray::from_ndarray(&array);
    let file = kiste::format::numpy::npy::encode(&array).unwrap();
    for wrong in [&file[..file.len() - 1], &[&file[..], b"x"].concat(), &file[..20], &file[..3]] {
        fs::write(dir.path().join("wrong.npy"), wrong).unwrap();
        let told = run(&dir, ["blpk", "c", "--npy", "wrong.npy"]);
        assert!(matches!(told.code, Some(1 | 2)) && told.err.contains("expected"), "{told:?}");
        let mut stdin = run_with(&dir, ["blpk", "c", "--npy", "-", "out.blp"], wrong);
        assert!(matches!(stdin.code.take(), Some(1 | 2)), "{stdin:?}");
    }
    assert!(
        !names(dir.path()).iter().any(|name| name.contains("out") || name.contains("wrong.npy."))
    );
    assert!(read(&dir, "data.dat") == data);
}

#[test]
fn rows_are_appended_to_an_array() {
    let dir = scratch();
    let table = ndarray::Array2::from_shape_fn((10, 3), |(i, j)| (i * 3 + j) as f32);
    let save = |name: &str, rows: ndarray::ArrayView2<'_, f32>| {
        let rows = rows.to_owned();
        let file = kiste::format::numpy::npy::encode(&kiste::value::NdArray::from_ndarray(&rows));
        fs::write(dir.path().join(name), file.unwrap()).unwrap();
    };
    save("table.npy", table.slice(ndarray::s![..7, ..]));
    save("rows.npy", table.slice(ndarray::s![7.., ..]));
    save("wide.npy", table.t());
    run(&dir, ["blpk", "c", "--npy", "table.npy"]).quietly();
    run(&dir, ["blpk", "a", "--npy", "table.npy.blp", "rows.npy"]).quietly();
    assert_eq!(info(&dir, "table.npy.blp")["array"]["shape"], serde_json::json!([10, 3]));
    run(&dir, ["blpk", "a", "--npy", "table.npy.blp", "wide.npy"]).fails(2, "expected rows of");
    run(&dir, ["blpk", "d", "--npy", "table.npy.blp", "all.npy"]).quietly();
    let file = read(&dir, "all.npy");
    let all = kiste::format::numpy::npy::decode(&file).unwrap();
    assert_eq!(all.to_ndarray::<f32>().unwrap(), table.into_dyn());
}

#[test]
fn containers_of_bloscpack_are_decompressed() {
    let dir = scratch();
    for (name, bytes, entry) in golden("bytes").into_iter().chain(golden("nd")).step_by(7) {
        let expect = &entry["expect"];
        let digest = expect.get("sha256").unwrap_or(&expect["sha256_stored_order"]);
        let back = piped(&dir, &["d", "-"], &bytes);
        assert_eq!(sha256(&back), *digest, "{name}");
        fs::write(dir.path().join("golden.blp"), &bytes).unwrap();
        let found = info(&dir, "golden.blp");
        for key in ["offsets", "metadata", "checksum", "typesize", "chunk_size", "nchunks"] {
            assert_eq!(found["header"][key], entry["header"][key], "{name}: {key}");
        }
    }
}

#[test]
fn damaged_containers_of_bloscpack_leave_nothing_behind() {
    let dir = scratch();
    for (name, bytes, entry) in golden("corrupt") {
        if entry["expect"]["ok"] != false || entry["kind"] == "chunk" {
            continue;
        }
        fs::write(dir.path().join("bad.blp"), &bytes).unwrap();
        let npy = if entry["kind"] == "ndarray" { &["--npy"][..] } else { &[] };
        let told = run(&dir, [&["blpk", "d"], npy, &["bad.blp"]].concat());
        assert_eq!(told.code, Some(1), "{name}: {told:?}");
        assert_eq!(names(dir.path()), ["bad.blp"], "{name}");
        run(&dir, ["blpk", "i", "--verify", "bad.blp"]);
    }
}

#[test]
fn verbose_says_what_happened() {
    let (dir, _) = with_data();
    let told = run(&dir, ["blpk", "-v", "c", "data.dat"]).exits(0);
    assert!(
        told.out.is_empty() && told.err.contains("data.dat -> data.dat.blp: 2,400,000 bytes in")
    );
    let told = run(&dir, ["blpk", "d", "-v", "data.dat.blp", "out"]).exits(0);
    assert!(told.err.contains("data.dat.blp -> out: 2,400,000 bytes in"), "{told:?}");
    let told = run(&dir, ["blpk", "a", "data.dat.blp", "data.dat", "-v"]).exits(0);
    assert!(told.err.contains("data.dat.blp: 2,400,000 bytes more"), "{told:?}");
}

#[test]
fn info_reads_well() {
    let (dir, _) = with_data();
    run(&dir, ["blpk", "c", "-c", "lz4", "-z", "512K", "data.dat"]).quietly();
    let text = run(&dir, ["blpk", "info", "--verify", "data.dat.blp"]).quietly().out;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "container data.dat.blp");
    assert!(lines[1].starts_with("bytes     2,400,000 in "), "{text}");
    assert_eq!(lines[2], "chunks    5 of 524,288 bytes, the last of 302,848; elements of 8 bytes");
    assert!(text.contains("; room for 50 chunks more\n") && text.contains("lz4, blocks of "));
    assert!(text.ends_with("verified  good: every chunk decoded\n"), "{text}");
    run(&dir, ["blpk", "info", "."]).fails(2, "expected a regular file, found a directory");
}

#[test]
fn an_interrupted_append_is_told_and_mended() {
    use kiste::array::AppendOptions;
    use kiste::storage::MemoryStorage;

    // A container as it is when power fails while an append overwrites its last chunk.
    let (dir, data) = with_data();
    run(&dir, ["blpk", "c", "-z", "300K", "data.dat"]).quietly();
    let (whole, path) = (read(&dir, "data.dat.blp"), Path::new("cut.blp"));
    let mut told = false;
    for operations in 0..30 {
        let storage = MemoryStorage::new();
        storage.put(path, whole.clone());
        storage.fail_after(operations);
        if AppendOptions::default().append_bytes(&storage, path, &data[..100_000]).is_ok() {
            break;
        }
        storage.restart();
        fs::write(dir.path().join(path), storage.get(path).unwrap()).unwrap();
        let found = run(&dir, ["blpk", "info", "--verify", "cut.blp"]);
        if found.code != Some(0) {
            told = true;
            let found = found.fails(2, "an append was interrupted");
            assert!(found.err.contains("/dev/null"), "{found:?}");
            fs::write(dir.path().join("nothing"), "").unwrap();
            run(&dir, ["blpk", "append", "cut.blp", "nothing"]).quietly();
        }
        let back = piped(&dir, &["d", "cut.blp", "-"], b"");
        // Failing behind the last step, it is done.
        assert!(back == data || back == [&data[..], &data[..100_000]].concat());
    }
    assert!(told);
}
