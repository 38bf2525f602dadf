//! What opens a door is sent to the server, and shown to nobody.

use super::server::Fault;
use super::*;

#[test]
fn passwords_and_signatures_are_sent_and_never_shown() {
    let place = Place::new(2000, 100, true);
    let address = place.server.address();
    let url = format!("http://me:pass%20word@{address}/d/set.msgpack?sig=s3cret&x=1");
    let (storage, path) = RemoteStorage::open(&url, place.options()).unwrap();
    assert_eq!(path.to_str(), Some(&*place.url()));
    let storage = Arc::new(storage);
    let reader = DatasetReader::options().storage(storage.clone()).open(&path).unwrap();
    reader.get_raw(1000).unwrap();
    for request in place.server.requests() {
        assert_eq!(request.query, "sig=s3cret&x=1");
        // "me:pass word"
        assert_eq!(request.header("authorization"), Some("Basic bWU6cGFzcyB3b3Jk"));
    }
    let mut shown = vec![format!("{reader:?} {storage:?} {}", reader.path().display())];
    let faults = [
        Fault::Status(400, None),
        Fault::Status(403, None),
        Fault::Status(404, None),
        Fault::Status(412, None),
        Fault::Status(503, None),
        Fault::Status(301, None),
        Fault::Whole,
        Fault::Stall,
        Fault::Hang,
        Fault::Cut(3),
    ];
    for fault in faults {
        place.server.fail(move |_, _| Some(fault));
        let options = place.options().retries(1).timeout(Duration::from_millis(200));
        let (storage, path) = RemoteStorage::open(&url, options).unwrap();
        let opened = DatasetReader::options().storage(Arc::new(storage)).open(path);
        let error = opened.unwrap_err();
        let mut source: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = source {
            shown.push(format!("{error} {error:?}"));
            source = error.source();
        }
    }
    for shown in shown {
        for secret in ["s3cret", "pass", "bWU6", "me:"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

/// Every command with a URL in each place where it takes a name; those that take it as JSON too.
#[cfg(feature = "cli")]
const COMMANDS: &[&str] = &[
    "demo URL",
    "convert URL OUT",
    "convert URL OUT --dry-run",
    "convert --json IN URL",
    "convert --json URL OUT --part 1/2",
    "convert --from list LIST OUT --root URL",
    "convert --from list URL OUT",
    "convert --labels URL IN OUT",
    "write mnist URL URL",
    "catalogue URL",
    "commit --json URL",
    "index --json URL",
    "index --json URL -o OUT.inplace.json",
    "index URL --from webdataset -o OUT.inplace.json",
    "index IN -o URL.inplace.json",
    "index --refresh URL.inplace.json",
    "cat URL",
    "cat URL no-such-key",
    "cat --keys URL URL",
    "head URL",
    "tail URL",
    "ls URL",
    "get URL no-such-key",
    "get URL key-000001 --field none",
    "get URL key-000001 -o URL",
    "info URL",
    "info --json URL",
    "stat URL",
    "stat --json URL",
    "stat URL --html URL",
    "order URL",
    "order --json URL",
    "order URL --source",
    "recipe check URL",
    "recipe check --json URL.kiste.toml",
    "recipe lock URL",
    "filter URL OUT.kiste.toml key!=none",
    "select URL OUT.kiste.toml --range ..2",
    "merge IN URL OUT.kiste.toml --skip-duplicates",
    "select IN URL.kiste.toml --range ..2",
    "shuffle --json --seed 1 URL OUT",
    "shuffle --seed 1 IN URL",
    "shuffle --seed 1 IN OUT --scatter-dir URL --part 1/2",
    "split --json URL OUT=0.5 URL=0.5",
    "split URL OUT URL",
    "merge --json URL URL -o OUT",
    "merge URL URL OUT",
    "sample --json -n 3 --seed 1 URL OUT",
    "sample -n 3 --seed 1 IN URL",
    "select --json URL OUT --key no-such-key",
    "select URL OUT --keys URL",
    "filter --json URL OUT 'v == 1'",
    "filter URL URL 'v =='",
    "sort --json URL OUT --by v",
    "sort IN URL --by key",
    "diff URL URL",
    "diff --json IN URL",
    "bench URL",
    "bench --json URL",
    "array create URL --dtype <f4 --shape 3",
    "array import URL OUT",
    "array import IN URL",
    "array info URL",
    "array info --json URL",
    "array get URL[0]",
    "array get URL --npy URL",
    "array export URL OUT.npy",
    "array put URL[0] 1",
    "array append URL --npy URL",
    "array resize URL 3",
    "array attrs URL",
    "array log URL",
    "array log --json URL",
    "array diff URL 1 2",
    "array checkout URL 1",
    "array gc URL",
    "array verify URL",
    "array verify --json URL",
    "blpk compress URL",
    "blpk compress IN URL",
    "blpk decompress URL",
    "blpk append URL URL",
    "blpk info URL",
    "blpk info --json URL",
    "verify URL",
    "verify --json URL",
    "repair URL",
    "repair --json URL",
    "repair --undo --json MANIFEST",
    "repair URL -o OUT",
    "repair IN -o URL",
    "cache URL",
    "cache --json URL",
    "completions URL",
    "man URL",
    // Mistyped.
    "info URL URL --no-such-option=URL",
    "no-such-command URL",
];

#[cfg(feature = "cli")]
#[test]
fn no_command_prints_what_opens_a_door() {
    use std::collections::BTreeSet;
    use std::process::{Command, Stdio};

    use crate::support::one_in;

    let place = Place::new(30, 50, true);
    let address = place.server.address();
    let help = Command::new(env!("CARGO_BIN_EXE_kiste")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let tried: BTreeSet<&str> =
        COMMANDS.iter().map(|line| line.split(' ').next().unwrap()).collect();
    let listed = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let listed: Vec<&str> = listed
        .filter(|word| word.len() > 1 && word.bytes().all(|b| b.is_ascii_lowercase()))
        .collect();
    assert!(listed.len() > 20, "{help}");
    for command in listed {
        assert!(tried.contains(command), "{command} is not tried");
    }
    let urls = [
        format!("http://me:hush@{address}/d/set.msgpack?token=tok3n&X-Amz-Signature=s3cret"),
        format!("http://me:hush@{address}/d/none.msgpack?token=tok3n"),
        "s3://me:hush@d/set.msgpack?X-Amz-Signature=s3cret".to_owned(),
        "ftp://me:hush@host/set.msgpack?token=tok3n".to_owned(),
        "https://me:hu/sh@127.0.0.1:1/set.msgpack#tok3n".to_owned(),
    ];
    let is_busy = |line: &str| line.starts_with("convert") || line.starts_with("repair");
    let run = |line: &str, url: &str| {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("list.csv");
        std::fs::write(&list, format!("path\n{url}\n")).unwrap();
        let manifest = url.replace("set.msgpack", "set.shards.json");
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiste"));
        for (name, _) in std::env::vars() {
            if name.starts_with("AWS_") || name.to_lowercase().ends_with("_proxy") {
                command.env_remove(name);
            }
        }
        command.env("AWS_ENDPOINT_URL", place.server.url()).env("AWS_ALLOW_HTTP", "true");
        command.env("AWS_SKIP_SIGNATURE", "true");
        let words = line.split(' ').map(|word| {
            let word = word.replace("URL", url).replace("MANIFEST", &manifest);
            let word = word.replace("OUT", dir.path().join("out.msgpack").to_str().unwrap());
            let word = word.replace("LIST", list.to_str().unwrap());
            word.replace("IN", place.local.path().to_str().unwrap())
        });
        let output = command.args(words).current_dir(dir.path()).stdin(Stdio::null()).output();
        let output = output.unwrap();
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        for secret in ["hush", "hu/sh", "sh@", "tok3n", "s3cret", "me:"] {
            assert!(!printed.contains(secret), "{line}, {url}: {printed}");
        }
        output.status.success()
    };
    let mut succeeded = 0;
    for line in COMMANDS {
        for (number, url) in urls.iter().enumerate() {
            // What nobody answers is tried again, which takes its time.
            if number < 4 || is_busy(line) {
                succeeded += u32::from(run(line, url));
            }
        }
    }
    assert!(succeeded > 20, "{succeeded}");
    // Servers that refuse, and repeat what they were asked.
    for (nth, fault) in
        [Fault::Echo(403), Fault::Echo(400), Fault::Status(404, None)].into_iter().enumerate()
    {
        place.server.fail(move |_, _| Some(fault));
        let asking = COMMANDS.iter().filter(|line| line.contains("URL"));
        for line in asking.skip(nth % one_in(3)).step_by(one_in(3)) {
            run(line, &urls[0]);
            run(line, &urls[2]);
        }
    }
}
