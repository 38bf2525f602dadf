//! The environment counts only where a program asks for it.

use std::process::Command;
use std::sync::Arc;

use kiste::DatasetReader;
use kiste::storage::{RemoteOptions, RemoteStorage};

use super::Place;

const SERVER: &str = "KISTE_TEST_SERVER";
const ASKS: &str = "KISTE_TEST_ASKS";

/// Variables that lead every read astray, or those of a store.
const ASTRAY: [&[(&str, &str)]; 4] = [
    &[("KISTE_CACHE", "/nowhere/at/all"), ("KISTE_CACHE_SIZE", "none")],
    &[("HTTP_PROXY", "http://127.0.0.1:1"), ("http_proxy", "http://127.0.0.1:1")],
    &[("AWS_CA_BUNDLE", "/nowhere/at/all.pem")],
    &[("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true")],
];

/// Reads in a process of its own, with these variables. Whether the server's dataset came.
fn reads(place: &Place, url: &str, asks: bool, variables: &[(&str, &str)]) -> bool {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "storage::remote::environment::child", "--ignored", "--test-threads=1"])
        .env(SERVER, place.server.url())
        .env("KISTE_TEST_URL", url)
        .env(ASKS, asks.to_string())
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains("1 passed") || said.contains("it cannot be read: "), "{said}");
    child.status.success()
}

#[test]
fn options_read_no_variable_unless_asked() {
    let place = Place::new(10, 20, false);
    let all: Vec<(&str, &str)> = ASTRAY.concat();
    let [http, s3] = [&place.url(), "s3://d/set.msgpack"];
    for url in [http, s3] {
        assert!(reads(&place, url, false, &all), "{url}");
        assert!(reads(&place, url, true, &[]), "{url}");
        for variables in &ASTRAY[..3] {
            assert!(!reads(&place, url, true, variables), "{url} {variables:?}");
        }
    }
    assert!(!reads(&place, s3, true, ASTRAY[3]));
}

#[test]
#[ignore = "a child process of the test above"]
fn child() {
    let variable = |name| std::env::var(name).unwrap();
    let (server, url) = (variable(SERVER), variable("KISTE_TEST_URL"));
    let read = || {
        let mut options = match variable(ASKS) == "true" {
            true => RemoteOptions::from_env()?,
            false => RemoteOptions::default(),
        };
        if url.starts_with("s3:") {
            options = options
                .set("AWS_ENDPOINT_URL", &server)
                .set("AWS_ALLOW_HTTP", "true")
                .set("AWS_SKIP_SIGNATURE", "true");
        }
        let (storage, path) = RemoteStorage::open(&url, options.retries(0))?;
        let reader = DatasetReader::options().storage(Arc::new(storage)).open(path)?;
        Ok::<_, kiste::Error>(reader.len())
    };
    match read() {
        Ok(samples) => assert_eq!(samples, 10),
        Err(error) => panic!("it cannot be read: {error}"),
    }
}

/// Each was a panic, in a request or on its way.
#[test]
fn an_endpoint_is_the_url_of_a_server() {
    for (name, url) in [
        ("AWS_ENDPOINT_URL", "s3://b/x"),
        ("GOOGLE_BASE_URL", "gs://b/x"),
        ("AZURE_STORAGE_ENDPOINT", "az://b/x"),
        ("HF_ENDPOINT", "hf://datasets/b/x/x"),
    ] {
        for value in
            ["", "localhost:9000", "x", "http://", "http:///x", "ftp://x", "https:x", "://"]
        {
            let options = RemoteOptions::default().set(name, value);
            let options = match name.starts_with("AZURE") {
                true => options.set("AZURE_STORAGE_ACCOUNT_NAME", "a"),
                false => options,
            };
            let error = RemoteStorage::open(url, options).unwrap_err().to_string();
            let expected =
                format!("{url}: {name}: expected https://HOST or http://HOST, found {value:?}");
            assert_eq!(error, expected);
        }
        let secret = RemoteOptions::default().set(name, "ftp://me:pw@host/x?sig=s3cret");
        let error = RemoteStorage::open(url, secret).unwrap_err().to_string();
        assert!(!error.contains("pw") && !error.contains("s3cret"), "{error}");
        assert!(name.starts_with("AZURE") || error.ends_with("found \"host/x\""), "{error}");
    }
}
