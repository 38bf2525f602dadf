//! Shuffles in parts whose machines share no disk.

use kiste::convert::{PartedShuffle, Silent};

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::converting::kiste;
use super::parts::{
    assert_as_local, error_of, fails, hold, is_put, kill_at, meanwhile, spawn, succeeds, wait,
};
use super::server::{Fault, Request};
use super::*;

const SOURCE: &str = "s3://d/in.msgpack";
const URL: &str = "s3://d/set.shards.json";

/// A dataset on a disk and in a bucket, and what `parts` parts make of it on the disk.
fn with_dataset(samples: u64, len: usize, parts: usize) -> (TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.msgpack");
    let mut writer = Writer::options().durable(false).create(&input).unwrap();
    for index in 0..samples {
        writer.write_raw(&key(index), &sample(index, len + index as usize % 13)).unwrap();
    }
    writer.finish().unwrap();
    let server = Server::start();
    server.upload(&input, "/d");
    let output = dir.path().join("set.shards.json");
    PartedShuffle::new(&input, &output, parts).unwrap().seed(7).run(&mut Silent).unwrap();
    (dir, server)
}

fn of<'a>(part: &'a str, pass: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = ["shuffle", SOURCE, URL, "--seed", "7", "--part", part, "--pass", pass];
    [&args[..], more].concat()
}

/// That the bucket has the source, the shards as on the disk, and nothing else.
#[track_caller]
fn assert_shuffled(server: &Server, dir: &Path) {
    let source = server.names().into_iter().filter(|name| name.starts_with("/d/in.msgpack"));
    source.collect::<Vec<_>>().iter().for_each(|name| server.remove(name));
    assert_as_local(server, dir);
}

#[test]
fn parts_that_are_killed_make_the_shards_of_a_shuffle_on_a_disk() {
    let (dir, server) = with_dataset(400, 60, 6);
    let mut killed = 0;
    for pass in ["1", "2"] {
        for number in 1..=6 {
            let part = format!("{number}/6");
            let part = of(&part, pass, &["--memory", "2000"]);
            for step in [number, 2 * number + 3] {
                killed += usize::from(kill_at(&server, &part, move |n, _| n == step));
            }
            if number == 4 && pass == "1" {
                let error = fails(&server, &of("1/6", "2", &[]));
                assert!(error.contains("of the first pass is not finished"), "{error}");
            }
            server.fail(|number, _| (number % 20 == 7).then_some(Fault::Status(503, None)));
            succeeds(&server, &part);
            server.fail(|_, _| None);
            // Again it writes nothing.
            server.requests();
            succeeds(&server, &part);
            assert!(server.requests().iter().all(|r| r.method == "GET" || is_put(r, "plan.json")));
        }
    }
    assert!(killed >= 20, "{killed}");
    assert!(server.names().iter().any(|name| name.contains(".scatter/part-6-of-6.samples")));
    server.requests();
    succeeds(&server, &["commit", URL]);
    assert!(server.requests().iter().all(|request| !request.query.contains("list")));
    assert_shuffled(&server, dir.path());
}

#[test]
fn an_upload_that_was_killed_is_aborted_by_the_next_run_or_by_repair() {
    let (dir, server) = with_dataset(40, 500_000, 2);
    let part_of_upload =
        |_, r: &Request| r.path.ends_with("part-1-of-2.samples") && r.query.contains("partNumber=");
    assert!(kill_at(&server, &of("1/2", "1", &[]), part_of_upload));
    assert_eq!(server.unfinished_uploads(), 1);
    let error = fails(&server, &["repair", URL]);
    assert!(error.contains("a shuffle in parts was started"), "{error}");
    succeeds(&server, &["repair", URL, "--undo"]);
    assert_eq!(server.unfinished_uploads(), 0);
    assert!(server.names().iter().all(|name| name.starts_with("/d/in.msgpack")));
    assert!(kill_at(&server, &of("1/2", "1", &[]), part_of_upload));
    for (pass, part) in [("1", "1/2"), ("1", "2/2"), ("2", "2/2"), ("2", "1/2")] {
        succeeds(&server, &of(part, pass, &[]));
    }
    succeeds(&server, &["commit", URL]);
    assert_shuffled(&server, dir.path());
}

#[test]
fn the_first_pass_writes_to_another_directory_or_bucket() {
    let (dir, server) = with_dataset(100, 60, 3);
    let scratch = dir.path().join("scratch");
    let shared = scratch.to_str().unwrap();
    for between in [shared, "s3://d/elsewhere"] {
        let options = ["--scatter-dir", between];
        // A bucket alone is no place, and is not noted.
        let error = fails(&server, &of("2/3", "1", &["--scatter-dir", "s3://d"]));
        assert!(error.contains("s3://d"), "{error}");
        succeeds(&server, &of("2/3", "1", &options));
        let error = fails(&server, &of("1/3", "1", &["--scatter-dir", "s3://d/other"]));
        assert!(error.contains("another shuffle to this manifest was started"), "{error}");
        // Named or not.
        succeeds(&server, &of("1/3", "1", &[]));
        succeeds(&server, &of("3/3", "1", &options));
        // Of another shuffle in the same directory, and of another program.
        let other = "s3://d/other.shards.json";
        let shuffle = |part, pass| {
            let more = ["--part", part, "--pass", pass, "--scatter-dir", between];
            [&["shuffle", SOURCE, other, "--seed", "8"], &more[..]].concat()
        };
        ["1/3", "2/3", "3/3"].iter().for_each(|part| succeeds(&server, &shuffle(part, "1")));
        server.put("/d/elsewhere/part-1-of-3.json", b"mine".to_vec());
        std::fs::create_dir_all(&scratch).unwrap();
        std::fs::write(scratch.join("part-1-of-3.json"), "mine").unwrap();
        let parts = || {
            let folders = std::fs::read_dir(&scratch).unwrap().flatten();
            let files = folders.filter(|folder| folder.path().is_dir()).flat_map(|folder| {
                std::fs::read_dir(folder.path()).unwrap().flatten().collect::<Vec<_>>()
            });
            let is_part = |name: &&String| name.starts_with("/d/elsewhere/kiste-scatter-");
            (files.count(), server.names().iter().filter(is_part).count())
        };
        assert_eq!(parts(), if between == shared { (12, 0) } else { (0, 12) });
        // The second pass knows it.
        ["1/3", "2/3", "3/3"].iter().for_each(|part| succeeds(&server, &of(part, "2", &[])));
        succeeds(&server, &["commit", URL]);
        assert_eq!(parts(), if between == shared { (6, 0) } else { (0, 6) });
        ["1/3", "2/3", "3/3"].iter().for_each(|part| succeeds(&server, &shuffle(part, "2")));
        succeeds(&server, &["commit", other]);
        assert_eq!(parts(), (0, 0));
        assert_eq!(*server.get("/d/elsewhere/part-1-of-3.json"), b"mine");
        assert_eq!(std::fs::read(scratch.join("part-1-of-3.json")).unwrap(), b"mine");
        succeeds(&server, &["diff", URL, dir.path().join("set.shards.json").to_str().unwrap()]);
        for name in server.names().iter().filter(|name| !name.starts_with("/d/in")) {
            server.remove(name);
        }
    }
    let web = format!("{}/d/scratch", server.url());
    let error = fails(&server, &of("1/3", "1", &["--scatter-dir", &web]));
    assert!(error.contains("expected a directory, or a URL of s3://"), "{error}");
}

#[test]
fn a_part_of_the_first_pass_takes_few_requests() {
    let (_dir, server) = with_dataset(100, 60, 3);
    server.requests();
    succeeds(&server, &of("2/3", "1", &[]));
    let requests = server.requests();
    let of_place = requests.iter().filter(|request| request.path.contains(".scatter")).count();
    // The plan, the note at each of its steps, and the samples. The manifest must not be there.
    assert!((8..=11).contains(&of_place), "{requests:#?}");
    assert!(requests.iter().all(|request| request.query.is_empty()), "{requests:#?}");
}

#[test]
fn a_part_whose_samples_are_gone_is_not_finished() {
    let (dir, server) = with_dataset(100, 60, 3);
    ["1/3", "2/3", "3/3"].iter().for_each(|part| succeeds(&server, &of(part, "1", &[])));
    let samples = "/d/set.shards.json.scatter/part-2-of-3.samples";
    for is_cut in [true, false] {
        let bytes = server.get(samples);
        // Also with another division into runs than is noted.
        match is_cut {
            true => server.put(samples, bytes[..bytes.len() - 1].to_vec()),
            false => server.remove(samples),
        }
        let error = fails(&server, &of("1/3", "2", &[]));
        assert!(error.contains("the samples of part 2/3 of the first pass are gone"), "{error}");
        succeeds(&server, &of("2/3", "1", &["--memory", "500"]));
        succeeds(&server, &of("1/3", "2", &[]));
    }
    ["2/3", "3/3"].iter().for_each(|part| succeeds(&server, &of(part, "2", &[])));
    succeeds(&server, &["commit", URL]);
    assert_shuffled(&server, dir.path());
}

#[test]
fn a_part_that_is_at_work_while_all_is_removed_leaves_nothing() {
    let (_dir, server) = with_dataset(100, 60, 3);
    let (mut held, mut stopped) = (0, 0);
    for step in 1..=14 {
        let count = AtomicUsize::new(0);
        let is_it = move |_, request: &Request| {
            request.path.contains(".scatter") && count.fetch_add(1, SeqCst) + 1 == step
        };
        let undo = || drop(kiste(&server, &["repair", URL, "--undo"]).output().unwrap());
        let (came, error) = meanwhile(&server, &of("2/3", "1", &[]), is_it, undo);
        let has_plan = server.names().iter().any(|name| name.ends_with("plan.json"));
        let left = server.names().into_iter().filter(|name| name.contains("part-2-of-3"));
        let left: Vec<String> = left.collect();
        // Nothing is lost sight of.
        assert!(has_plan || left.is_empty(), "step {step}: {error:?}, {left:?}");
        held += usize::from(came);
        stopped += usize::from(error.is_some());
        assert!(error.is_some() || left.len() == 2 || !came, "step {step}: {left:?}");
        undo();
        assert!(server.names().iter().all(|name| name.starts_with("/d/in.msgpack")), "step {step}");
    }
    // Before it has put or read the plan there is nothing to stop.
    assert!(held >= 8 && stopped + 2 >= held, "{stopped} of {held}");
}

#[test]
fn the_last_run_of_a_part_has_it_also_if_an_earlier_one_is_alive() {
    let (dir, server) = with_dataset(100, 60, 3);
    let part = of("2/3", "1", &[]);
    // Both are about to put their samples, the earlier one into the place that the other has emptied.
    let is_samples = |_, request: &Request| is_put(request, ".samples");
    let first = hold(&server, None, is_samples);
    let mut earlier = spawn(&server, &part);
    wait(&mut earlier, &first);
    let second = hold(&server, None, is_samples);
    let mut last = spawn(&server, &part);
    wait(&mut last, &second);
    assert!(first.held.load(SeqCst) && second.held.load(SeqCst));
    first.release();
    let output = earlier.wait_with_output().unwrap();
    assert!(error_of(&output).contains("another run writes part 2/3"), "{}", error_of(&output));
    second.release();
    let output = last.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", error_of(&output));
    server.fail(|_, _| None);
    ["1/3", "3/3"].iter().for_each(|part| succeeds(&server, &of(part, "1", &[])));
    ["1/3", "2/3", "3/3"].iter().for_each(|part| succeeds(&server, &of(part, "2", &[])));
    succeeds(&server, &["commit", URL]);
    assert_shuffled(&server, dir.path());
}

#[test]
fn a_directory_on_another_machine_is_not_forgotten_in_silence() {
    let (dir, server) = with_dataset(100, 60, 3);
    let scratch = dir.path().join("scratch");
    let shared = scratch.to_str().unwrap();
    let options = ["--scatter-dir", shared];
    ["1/3", "2/3", "3/3"].iter().for_each(|part| succeeds(&server, &of(part, "1", &options)));
    ["1/3", "2/3", "3/3"].iter().for_each(|part| succeeds(&server, &of(part, "2", &[])));
    std::fs::rename(&scratch, dir.path().join("elsewhere")).unwrap();
    let output = kiste(&server, &["commit", URL]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("not found on this machine"), "{said}");
    assert!(said.contains(shared), "{said}");
    assert_shuffled(&server, dir.path());
    // Also where it is given up.
    server.upload(&dir.path().join("in.msgpack"), "/d");
    let other = "s3://d/other.shards.json";
    let part = ["shuffle", SOURCE, other, "--part", "1/3", "--pass", "1", "--scatter-dir", shared];
    succeeds(&server, &part);
    std::fs::remove_dir_all(&scratch).unwrap();
    let output = kiste(&server, &["repair", other, "--undo"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("not found on this machine"), "{said}");
}

/// Labels that were corrected have the lengths of those before.
#[test]
fn a_source_that_was_replaced_between_parts_is_noticed() {
    let (dir, server) = with_dataset(100, 60, 3);
    succeeds(&server, &of("1/3", "1", &[]));
    let input = dir.path().join("in.msgpack");
    let mut writer = Writer::options().durable(false).overwrite(true).create(&input).unwrap();
    for index in 0..100 {
        let mut raw = sample(index, 60 + index as usize % 13);
        *raw.last_mut().unwrap() ^= 1;
        writer.write_raw(&key(index), &raw).unwrap();
    }
    writer.finish().unwrap();
    server.upload(&input, "/d");
    succeeds(&server, &of("2/3", "1", &[]));
    let error = fails(&server, &of("3/3", "2", &[]));
    assert!(error.contains("made of another source"), "{error}");
    let error = fails(&server, &of("1/3", "1", &[]));
    assert!(error.contains("made of another source"), "{error}");
    succeeds(&server, &["repair", URL, "--undo"]);
    assert!(!server.names().iter().any(|name| name.contains("scatter")));
}

#[test]
fn one_command_shuffles_into_a_bucket() {
    let (dir, server) = with_dataset(100, 60, 3);
    let shuffle = ["shuffle", SOURCE, URL, "--seed", "7", "--shards", "3"];
    succeeds(&server, &shuffle);
    let error = fails(&server, &shuffle);
    assert!(error.contains("exists already"), "{error}");
    assert_shuffled(&server, dir.path());
}
