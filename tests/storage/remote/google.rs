//! Google Cloud Storage, whose versions have numbers and whose conditions are about those.

use std::process::Command;

use super::converting;
use super::parts::with_lines;
use super::*;

fn kiste(server: &Server, args: &[&str]) -> Command {
    let mut command = converting::kiste(server, args);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GOOGLE_")) {
        command.env_remove(name);
    }
    command.env("GOOGLE_BASE_URL", server.url()).env("GOOGLE_ALLOW_HTTP", "true");
    // Without a signature there is only reading.
    let account = r#"{"private_key": "none", "private_key_id": "none", "client_email": "none",
        "disable_oauth": true}"#;
    command.env("GOOGLE_SERVICE_ACCOUNT_KEY", account);
    command
}

#[track_caller]
fn succeeds(server: &Server, args: &[&str]) -> String {
    let output = kiste(server, args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn fails(server: &Server, args: &[&str]) -> String {
    let output = kiste(server, args).output().unwrap();
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn datasets_are_written_once_in_one_piece_and_in_parts() {
    let server = Server::start();
    let url = "gs://d/some/set.msgpack";
    for (files, samples, len) in [(1, 50, 50), (2, 5, 3 << 20)] {
        let (_dir, lines) = with_lines(files, samples, len);
        let sources: Vec<&str> = lines.iter().map(String::as_str).collect();
        let convert = [&["convert"], &sources[..], &[url, "--lookup"]].concat();
        server.requests();
        succeeds(&server, &convert);
        assert!(server.object("/d/some/set.msgpack").is_some(), "{:?}", server.names());
        // Google refuses all requests of an upload in parts that have conditions.
        let requests = server.requests();
        let of_upload: Vec<_> = requests.iter().filter(|r| r.query.contains("upload")).collect();
        assert_eq!(of_upload.is_empty(), len == 50);
        for request in of_upload {
            let conditions = ["if-none-match", "if-match", "x-goog-if-generation-match"];
            assert!(conditions.iter().all(|name| request.header(name).is_none()), "{request:?}");
        }
        assert_eq!(server.unfinished_uploads(), 0);
        succeeds(&server, &["verify", url]);
        assert!(succeeds(&server, &["get", url, "0-3"]).contains("0-3"));
        let error = fails(&server, &convert);
        assert!(error.contains("exists already"), "{error}");
        for name in server.names() {
            server.remove(&name);
        }
    }
    // A writer that died.
    server.put("/d/some/set.msgpack.partial", b"{}".to_vec());
    let (_dir, lines) = with_lines(1, 5, 50);
    let error = fails(&server, &["convert", &lines[0], url]);
    assert!(error.contains("a writer is working on this dataset, or was killed"), "{error}");
    succeeds(&server, &["repair", url]);
    succeeds(&server, &["convert", &lines[0], url]);
}

#[test]
fn parts_append_and_shuffle_make_datasets_of_many_files() {
    let server = Server::start();
    let (_dir, lines) = with_lines(3, 20, 50);
    let (url, mixed) = ("gs://d/set.shards.json", "gs://d/mixed.shards.json");
    for part in ["1/2", "2/2", "2/2"] {
        succeeds(&server, &["convert", &lines[0], &lines[1], url, "--part", part]);
    }
    succeeds(&server, &["commit", url]);
    let error = fails(&server, &["convert", &lines[0], url]);
    assert!(error.contains("exists already"), "{error}");
    succeeds(&server, &["convert", "--append", &lines[2], url]);
    succeeds(&server, &["verify", url]);
    for (part, pass) in [("2/2", "1"), ("1/2", "1"), ("1/2", "2"), ("2/2", "2")] {
        let of = ["--seed", "3", "--part", part, "--pass", pass];
        succeeds(&server, &[&["shuffle", url, mixed], &of[..]].concat());
    }
    succeeds(&server, &["commit", mixed]);
    let sorted = |url| {
        let keys = succeeds(&server, &["ls", url]);
        let mut keys: Vec<String> = keys.lines().map(str::to_owned).collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!((sorted(url).len(), sorted(url)), (60, sorted(mixed)));
    assert!(
        !server.names().iter().any(|name| name.contains(".parts") || name.contains(".scatter"))
    );
}
