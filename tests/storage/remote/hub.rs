//! `hf://` reads one commit, and the token goes to the hub alone.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use kiste::ErrorKind;

use super::*;

const TOKEN: &str = "hf_s3cret";
const COMMITS: [&str; 2] =
    ["0123456789abcdef0123456789abcdef01234567", "89abcdef0123456789abcdef0123456789abcdef"];

/// A hub in front of a server that has the files of both commits.
struct Hub {
    place: Place,
    url: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Which commit is the newest.
    newest: AtomicUsize,
    /// Whether another one is pushed with each request.
    is_busy: AtomicBool,
    /// Leads on to itself for ever.
    is_lost: AtomicBool,
    /// Paths, and what was sent to open the door.
    asked: Mutex<Vec<(String, Option<String>)>>,
    files: String,
}

impl Hub {
    fn new() -> Hub {
        let place = Place::new(2000, 100, true);
        place.server.upload(place.local.path(), &format!("/{}", COMMITS[0]));
        place.replace();
        for name in place.server.names() {
            if let Some(file) = name.strip_prefix("/d/") {
                let bytes = place.server.get(&name).to_vec();
                place.server.put(&format!("/{}/{file}", COMMITS[1]), bytes);
            }
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mirror", listener.local_addr().unwrap());
        let state = Arc::new(State { files: place.server.url(), ..State::default() });
        let shared = state.clone();
        // It ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                thread::spawn(move || shared.answer(stream));
            }
        });
        Hub { place, url, state }
    }

    fn options(&self) -> RemoteOptions {
        self.place.options().set("HF_ENDPOINT", &self.url).set("HF_TOKEN", TOKEN)
    }

    fn open(&self, url: &str) -> Result<DatasetReader> {
        self.open_with(url, self.options())
    }

    fn open_with(&self, url: &str, options: RemoteOptions) -> Result<DatasetReader> {
        let (storage, path) = RemoteStorage::open(url, options)?;
        DatasetReader::options().storage(Arc::new(storage)).open(path)
    }

    fn asked(&self) -> Vec<(String, Option<String>)> {
        std::mem::take(&mut *self.state.asked.lock().unwrap())
    }
}

impl State {
    fn answer(&self, mut stream: TcpStream) {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let Some(Ok(first)) = lines.next() else { return };
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut authorization = None;
        for line in lines.map_while(std::result::Result::ok).take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").unwrap_or_default();
            if name.eq_ignore_ascii_case("authorization") {
                authorization = Some(value.to_owned());
            }
        }
        self.asked.lock().unwrap().push((path.clone(), authorization.clone()));
        let (status, headers) = self.decide(&path, authorization.as_deref());
        let _ = write!(
            stream,
            "HTTP/1.1 {status}\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }

    fn decide(&self, path: &str, authorization: Option<&str>) -> (&'static str, String) {
        if authorization != Some(&format!("Bearer {TOKEN}")) {
            return ("401 Unauthorized", String::new());
        }
        if self.is_lost.load(SeqCst) {
            return ("307 Temporary Redirect", format!("Location: {path}\r\n"));
        }
        // Small files are asked for once more, on the hub itself.
        if let Some(file) = path.strip_prefix("/mirror/api/resolve-cache/") {
            return ("302 Found", format!("Location: {}/{file}\r\n", self.files));
        }
        let Some(rest) = path.strip_prefix("/mirror/datasets/me/pets/resolve/") else {
            return ("404 Not Found", String::new());
        };
        let (revision, file) = rest.split_once('/').unwrap();
        let newest = match self.is_busy.load(SeqCst) {
            true => self.newest.fetch_xor(1, SeqCst),
            false => self.newest.load(SeqCst),
        };
        let commit = match revision {
            "main" | "refs%2Fpr%2F1" => COMMITS[newest],
            known if COMMITS.contains(&known) => known,
            _ => return ("404 Not Found", String::new()),
        };
        let headers = format!("X-Repo-Commit: {commit}\r\nX-Linked-ETag: \"{commit}-{file}\"\r\n");
        match file.ends_with(".offsets") {
            true => (
                "307 Temporary Redirect",
                format!("{headers}Location: /mirror/api/resolve-cache/{commit}/{file}\r\n"),
            ),
            false => {
                ("302 Found", format!("{headers}Location: {}/{commit}/{file}\r\n", self.files))
            }
        }
    }
}

#[test]
fn a_dataset_is_of_one_commit() {
    let hub = Hub::new();
    let old = hub.open("hf://datasets/me/pets/set.msgpack").unwrap();
    let first = old.get_raw(7).unwrap().into_owned();
    hub.state.newest.store(1, SeqCst);
    assert_same(&old, &hub.place.local);
    let named = format!("hf://datasets/me/pets@{}/set.msgpack", COMMITS[0]);
    assert_same(&hub.open(&named).unwrap(), &hub.place.local);
    for url in
        ["hf://datasets/me/pets/set.msgpack", "hf://datasets/me/pets@refs%2Fpr%2F1/set.msgpack"]
    {
        assert_ne!(hub.open(url).unwrap().get_raw(7).unwrap(), first, "{url}");
    }
}

#[test]
fn pushes_while_a_dataset_is_opened_mix_nothing() {
    let hub = Hub::new();
    hub.state.is_busy.store(true, SeqCst);
    for _ in 0..5 {
        hub.asked();
        let reader = hub.open("hf://datasets/me/pets/set.msgpack").unwrap();
        reader.keys().for_each(|key| drop(key.unwrap()));
        let seven = reader.get_raw(7).unwrap();
        let is_first = seven == hub.place.local.get_raw(7).unwrap();
        let commits = hub.place.server.requests();
        let used = |commit: &str| commits.iter().filter(|one| one.path.contains(commit)).count();
        let (kept, other) = if is_first { (0, 1) } else { (1, 0) };
        // At most the answers that came before the first one was known.
        assert!(used(COMMITS[kept]) > used(COMMITS[other]), "{commits:?}");
        let pinned = hub.asked().iter().filter(|(path, _)| path.contains(COMMITS[kept])).count();
        assert!(pinned > 0);
    }
}

#[test]
fn the_token_goes_to_the_hub_alone_and_is_never_shown() {
    let hub = Hub::new();
    let reader = hub.open("hf://datasets/me/pets/set.msgpack").unwrap();
    reader.get_raw(1000).unwrap();
    let asked = hub.asked();
    assert!(
        asked.iter().any(|(path, _)| path.starts_with("/mirror/api/resolve-cache/")),
        "{asked:?}"
    );
    assert!(asked.iter().all(|(_, token)| token.as_deref() == Some("Bearer hf_s3cret")));
    let elsewhere = hub.place.server.requests();
    assert!(!elsewhere.is_empty());
    assert!(elsewhere.iter().all(|request| request.header("authorization").is_none()));
    let mut shown = vec![format!("{reader:?} {:?} {}", hub.options(), reader.path().display())];
    let without = hub.place.options().set("hf_endpoint", &hub.url);
    for (options, url) in [
        (without, "hf://datasets/me/pets/set.msgpack"),
        (hub.options().set("HF_TOKEN", "wrong"), "hf://datasets/me/pets/set.msgpack"),
        (hub.options(), "hf://datasets/me/pets/none.msgpack"),
        (hub.options(), "hf://datasets/me/pets@none/set.msgpack"),
        (hub.options(), "hf://datasets/me/dogs/set.msgpack"),
    ] {
        let error = hub.open_with(url, options).unwrap_err();
        assert!(error.to_string().starts_with(url), "{error}");
        shown.push(format!("{error} {error:?} {:?}", error.remedy()));
    }
    assert!(shown[1].contains("HF_TOKEN") && shown[2].contains("HF_TOKEN"), "{shown:?}");
    assert!(shown[3].contains("there is no such object"), "{}", shown[3]);
    assert!(shown.iter().all(|text| !text.contains("s3cret")), "{shown:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let hub = Hub::new();
    for (name, value) in [("HF_HOME", "x"), ("HF_ENDPOINT", "ftp://x"), ("HF_TOKEN", "a\nb")] {
        let options = hub.options().set(name, value);
        let error = RemoteStorage::open("hf://datasets/me/pets/set.msgpack", options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().to_uppercase().contains(name), "{error}");
    }
    hub.state.is_lost.store(true, SeqCst);
    let options = hub.options().retries(0);
    let error = hub.open_with("hf://datasets/me/pets/set.msgpack", options).unwrap_err();
    assert!(error.to_string().contains("redirect"), "{error}");
    hub.state.is_lost.store(false, SeqCst);
    let (storage, path) =
        RemoteStorage::open("hf://datasets/me/pets/new.msgpack", hub.options()).unwrap();
    hub.asked();
    let error = Writer::options().storage(Arc::new(storage)).create(path).unwrap_err();
    assert!(error.to_string().contains("kiste only reads from"), "{error}");
    let (written, _) = (hub.place.server.requests(), hub.asked());
    assert!(written.iter().all(|request| request.method == "GET"));
}

#[cfg(feature = "cli")]
#[test]
fn the_command_takes_them() {
    let hub = Hub::new();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_kiste"))
        .args(["get", "hf://datasets/me/pets/set.msgpack", "key-000007", "--field", "key"])
        .env("HF_ENDPOINT", &hub.url)
        .env("HF_TOKEN", TOKEN)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "key-000007", "{said}");
}
