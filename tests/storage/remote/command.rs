//! The command takes a URL wherever it reads a dataset, in the dialect of S3 too.

use std::process::{Command, Output};

use super::server::Request;
use super::*;

fn run(place: &Place, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiste"));
    // Nothing of the machine that the tests run on.
    for (name, _) in std::env::vars() {
        if name.starts_with("AWS_") || name.to_lowercase().ends_with("_proxy") {
            command.env_remove(name);
        }
    }
    command.env("AWS_ENDPOINT_URL", place.server.url()).env("AWS_ALLOW_HTTP", "true");
    match args[0] {
        "signed" => command.env("AWS_ACCESS_KEY_ID", "AKID").env("AWS_SECRET_ACCESS_KEY", "s3cret"),
        // The server of the tests knows of none.
        "nobody" => command.env("AWS_METADATA_ENDPOINT", place.server.url()),
        _ => command.env("AWS_SKIP_SIGNATURE", "true"),
    };
    command.args(args.iter().filter(|arg| !["signed", "nobody"].contains(arg))).output().unwrap()
}

#[track_caller]
fn prints(place: &Place, args: &[&str]) -> String {
    let output = run(place, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn commands_that_read_take_urls() {
    let place = Place::new(300, 50, true);
    let local = place.local.path().to_str().unwrap();
    let http = place.url();
    // The folder of the server is the bucket.
    for url in ["s3://d/set.msgpack", &http, &format!("file://{local}")] {
        for args in [
            &["info", "--json"][..],
            &["head", "-n", "3"],
            &["tail", "-n", "3"],
            &["cat"],
            &["ls"],
            &["verify"],
            &["stat", "--json"],
        ] {
            let with = |name| [args, &[name]].concat();
            let (remote, here) = (prints(&place, &with(url)), prints(&place, &with(local)));
            assert_eq!(remote.replace(url, local), here, "{args:?}");
        }
        let get = |name| prints(&place, &["get", name, "key-000123"]);
        assert_eq!(get(url), get(local));
    }
}

#[test]
fn requests_to_s3_are_signed_where_there_are_credentials() {
    let place = Place::new(3, 50, true);
    prints(&place, &["head", "s3://d/set.msgpack"]);
    let is_signed = |request: &Request| {
        let authorization = request.header("authorization");
        authorization.is_some_and(|a| a.starts_with("AWS4-HMAC-SHA256 Credential=AKID/"))
    };
    assert!(!place.server.requests().iter().any(is_signed));
    prints(&place, &["signed", "head", "s3://d/set.msgpack"]);
    let requests = place.server.requests();
    assert!(requests.iter().all(is_signed));
    // Named datasets are not looked for.
    assert!(requests.iter().all(|request| request.method == "GET" && request.query.is_empty()));
}

#[test]
fn errors_say_what_to_do_and_keep_secrets() {
    let place = Place::new(3, 50, true);
    let fails = |args: &[&str]| {
        let output = run(&place, args);
        assert!(!output.status.success());
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!message.contains("s3cret"), "{message}");
        message
    };
    let message = fails(&["info", "s3://d/other.msgpack"]);
    assert!(message.contains("s3://d/other.msgpack: there is no such object"), "{message}");
    assert!(!message.contains("hint"), "{message}");
    // Of a service that knows no credentials.
    let message = fails(&["nobody", "info", "s3://d/set.msgpack"]);
    assert!(message.contains("there are no credentials that work"), "{message}");
    assert!(message.contains("AWS_ACCESS_KEY_ID"), "{message}");
    let message = fails(&["convert", "s3://d/set.tar", "out.msgpack"]);
    assert!(message.contains("s3://d/set.tar: there is no such object"), "{message}");
    let message = fails(&["info", "ftp://d/x.msgpack"]);
    assert!(message.contains("expected a URL that begins with s3://"), "{message}");
    let url = format!("http://me:s3cret@{}/d/no.msgpack?s3cret", place.server.address());
    let message = fails(&["verify", &url]);
    assert!(message.contains("/d/no.msgpack: there is no such object"), "{message}");
    let message = fails(&["index", &url]);
    assert!(message.contains("/d/no.msgpack: there is no such object"), "{message}");
    let message = fails(&["repair", &url]);
    assert!(message.contains("/d/no.msgpack: no such file or directory"), "{message}");
    place.server.fail(|_, _| Some(super::server::Fault::Status(403, None)));
    let message = fails(&["signed", "head", "s3://d/set.msgpack"]);
    assert!(message.contains("403 Forbidden"), "{message}");
    assert!(message.contains("AWS_SKIP_SIGNATURE=true"), "{message}");
}

#[test]
fn datasets_made_of_one_at_a_url_have_its_labels() {
    let place = Place::new(30, 50, false);
    place.server.put("/d/set.msgpack.labels", b"cat\ndog\n".to_vec());
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.msgpack");
    let url = format!("http://me:s3cret@{}/d/set.msgpack?s3cret=1", place.server.address());
    prints(&place, &["shuffle", "--seed", "1", &url, out.to_str().unwrap()]);
    let shuffled = DatasetReader::open(&out).unwrap();
    assert_eq!(shuffled.len(), 30);
    assert_eq!(shuffled.labels().unwrap().unwrap(), ["cat", "dog"]);
    // Messages about what is not in it do not show how it was reached.
    for args in [
        &["get", &url, "no such key"][..],
        &["get", &url, "key-000001", "--field", "none"],
        &["cat", &url, "no such key"],
        &["info", &url],
        &["stat", &url],
        &["stat", "--json", &url],
        &["bench", &url],
        &["diff", &url, &url],
        &["verify", &url],
        &["select", &url, "/no/such/place/out.msgpack", "--key", "no such key"],
    ] {
        let Output { stdout, stderr, .. } = run(&place, args);
        let printed = String::from_utf8([stdout, stderr].concat()).unwrap();
        assert!(!printed.is_empty() && !printed.contains("s3cret"), "{args:?}: {printed}");
    }
}
