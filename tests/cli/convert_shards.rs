//! Datasets of many files on the command line: made, read by every command, repaired.

use std::process::Child;
use std::time::{Duration, Instant};

use super::convert_parts::FILES;
use super::*;

/// Its files, and a dataset of them.
fn with_files() -> TempDir {
    let dir = convert_parts::with_files();
    run(&dir, ["convert", FILES, "one.msgpack"]).exits(0);
    dir
}

#[test]
fn every_command_takes_a_manifest_a_pattern_and_braces() {
    let dir = with_files();
    let made = run(&dir, ["convert", FILES, "set.shards.json", "--shards", "5", "--json"]).exits(0);
    assert_eq!(made.json()["samples"], 252);
    for many in ["set.shards.json", "set-*.msgpack", "set-{00000..00004}.msgpack"] {
        let same = |args: &[&str]| {
            let asked = |name: &str| {
                let args = args.iter().map(|arg| if *arg == "IN" { name } else { arg });
                let run = run(&dir, args);
                (run.code, run.out)
            };
            assert_eq!(asked(many), asked("one.msgpack"), "{args:?}");
        };
        same(&["cat", "IN", "--jsonl"]);
        same(&["cat", "IN", "--range", "30..100"]);
        same(&["ls", "-l", "IN"]);
        same(&["head", "IN"]);
        same(&["tail", "IN"]);
        same(&["get", "IN", "5-3"]);
        same(&["get", "IN", "none"]);
        same(&["get", "IN", "--index", "200"]);
        same(&["get", "IN", "5-3", "--field", "n"]);
        same(&["order", "IN", "--seed", "3"]);
        same(&["order", "IN", "--find", "8-1"]);
        same(&["order", "IN", "--sampler", "block", "--chunk-size", "8", "--buf-size", "32"]);
        run(&dir, ["diff", many, "one.msgpack"]).exits(0);
        for (command, rest) in [
            ("shuffle", &["--seed", "5"][..]),
            ("sample", &["20"]),
            ("filter", &["n == 3"]),
            ("select", &["--range", "100..200"]),
            ("convert", &[]),
            ("sort", &[]),
        ] {
            for (input, out) in [(many, "a.msgpack"), ("one.msgpack", "b.msgpack")] {
                let args = [&[command, input, out, "--force"], rest].concat();
                run(&dir, args).exits(0);
            }
            assert_same_dataset(&dir.path().join("a.msgpack"), &dir.path().join("b.msgpack"));
        }
        run(&dir, ["verify", "--deep", many]).exits(0);
        run(&dir, ["stat", many]).exits(0);
        run(&dir, ["bench", many, "--mode", "key"]).exits(0);
        let info = run(&dir, ["info", many, "--json"]).exits(0).json();
        assert_eq!((&info["samples"], &info["digests"]), (&252.into(), &true.into()));
        run(&dir, ["--untrusted", "cat", many, "--jsonl"]).exits(0);
    }
    fs::remove_file(dir.path().join("set-00002.msgpack.keys")).unwrap();
    fs::write(dir.path().join("set-00003.msgpack"), "x").unwrap();
    run(&dir, ["verify", "set.shards.json"]).exits(1);
}

#[test]
fn parts_of_many_processes_some_of_them_killed_make_one_dataset() {
    let dir = with_files();
    let part = |number: usize| {
        let part = format!("{number}/8");
        ["convert", FILES, "set.shards.json", "--shard-size", "500", "--part"]
            .map(str::to_owned)
            .into_iter()
            .chain([part])
    };
    let children: Vec<Child> = (1..=8)
        .map(|number| {
            let mut command = kiste();
            command.args(part(number)).current_dir(dir.path()).stderr(Stdio::null());
            command.spawn().unwrap()
        })
        .collect();
    for (number, mut child) in children.into_iter().enumerate() {
        std::thread::sleep(Duration::from_millis(7 * (number as u64 % 3)));
        if number % 2 == 0 {
            let _ = child.kill();
        }
        child.wait().unwrap();
    }
    for number in 1..=8 {
        run(&dir, part(number)).exits(0);
    }
    run(&dir, ["commit", "set.shards.json"]).exits(0);
    run(&dir, ["verify", "set.shards.json"]).exits(0);
    let text = |name: &str| run(&dir, ["cat", "--jsonl", name]).quietly().out;
    assert_eq!(text("set.shards.json"), text("one.msgpack"));
    assert!(!dir.path().join("set.shards.json.parts").exists());
}

#[test]
fn a_killed_run_leaves_no_manifest_and_is_resumed_or_removed() {
    let dir = scratch();
    let lines: String = (0..60_000)
        .map(|i| format!("{{\"key\":\"{i}\",\"x\":\"{}\"}}\n", "x".repeat(100)))
        .collect();
    fs::write(dir.path().join("large.jsonl"), lines).unwrap();
    let args = ["convert", "large.jsonl", "set.shards.json", "--shard-size", "200K"];
    run(&dir, ["convert", "large.jsonl", "one.msgpack"]).exits(0);
    let kill_once = |options: &[&str]| {
        let mut command = kiste();
        command.args(args).args(options).current_dir(dir.path()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let start = Instant::now();
        while !dir.path().join("set-00002.msgpack.offsets").exists()
            && child.try_wait().unwrap().is_none()
        {
            assert!(start.elapsed() < Duration::from_secs(300));
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        !dir.path().join("set.shards.json").exists()
    };
    // On a busy machine it may be done before this process gets to kill it.
    let kill = |options: &[&str]| {
        let killed = (0..50).any(|_| {
            let killed = kill_once(options);
            let set = || names(dir.path()).into_iter().filter(|name| name.starts_with("set"));
            if !killed {
                set().for_each(|name| fs::remove_file(dir.path().join(name)).unwrap());
            }
            killed
        });
        assert!(killed, "always done before it was killed");
    };
    kill(&[]);
    let again = run(&dir, args).fails(2, "cut short");
    assert!(again.err.contains("--resume"), "{again:?}");
    let found = run(&dir, ["repair", "set.shards.json"]).fails(1, "shards that no manifest lists");
    assert!(found.err.contains("--undo"), "{found:?}");
    run(&dir, ["repair", "set.shards.json", "--undo"]).exits(0);
    let left = names(dir.path());
    assert!(left.iter().all(|name| !name.starts_with("set")), "{left:?}");
    kill(&["--resume"]);
    run(&dir, [&args[..], &["--resume"]].concat()).exits(0);
    run(&dir, ["verify", "set.shards.json"]).exits(0);
    run(&dir, ["diff", "set.shards.json", "one.msgpack"]).exits(0);
    run(&dir, ["repair", "set.shards.json"]).exits(0);
    let left = names(dir.path());
    assert!(left.iter().all(|name| !name.contains(".part")), "{left:?}");
}

#[test]
fn of_processes_that_publish_at_once_one_wins() {
    let dir = with_files();
    run(&dir, ["convert", "crawl-1.jsonl", "set.shards.json"]).exits(0);
    for round in 0..3 {
        let children: Vec<Child> = [2, 3, 4, 5]
            .map(|file| {
                let mut command = kiste();
                let lines = format!("{{\"key\":\"{round} {file}\"}}\n");
                let name = format!("more-{file}.jsonl");
                fs::write(dir.path().join(&name), lines).unwrap();
                command.args(["convert", "--append", &name, "set.shards.json"]);
                command.current_dir(dir.path()).stderr(Stdio::null()).spawn().unwrap()
            })
            .into_iter()
            .collect();
        let before = run(&dir, ["ls", "set.shards.json"]).quietly().out.lines().count();
        let won = children.into_iter().filter_map(|mut child| child.wait().ok()?.code());
        let won = won.filter(|code| *code == 0).count();
        let after = run(&dir, ["ls", "set.shards.json"]).quietly().out.lines().count();
        assert!(won >= 1 && after >= before, "{won}");
        run(&dir, ["verify", "set.shards.json"]).exits(0);
    }
}

#[test]
fn options_of_shards_need_a_manifest() {
    let dir = with_files();
    run(&dir, ["convert", FILES, "x.msgpack", "--shards", "3"])
        .fails(2, "--shards is for a dataset");
    run(&dir, ["select", "one.msgpack", "x.shards.json", "--range", "1..2"]).exits(2);
    assert!(names(dir.path()).iter().all(|name| !name.starts_with('x')));
}
