//! Fetching from a server in this process, which stalls, cuts, lies and forgets.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::*;

/// How the server answers one request, given the range that is asked for.
type Answer = Box<dyn FnOnce(&Request, &mut TcpStream) + Send>;

#[derive(Debug, Clone, PartialEq)]
struct Request {
    /// The first byte that is wanted.
    from: Option<u64>,
    if_range: Option<String>,
}

/// A server that gives these answers, one to each request, and then none.
struct Server {
    url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    fn start(answers: Vec<Answer>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/file.tar", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let request = read_request(&stream);
                seen.lock().unwrap().push(request.clone());
                answer(&request, &mut stream);
            }
        });
        Server { url, requests }
    }

    fn fetch(&self) -> Fetch {
        Fetch::new(&self.url)
            .stall(Duration::from_secs(2))
            .pause(Duration::from_millis(1))
            .retries(2)
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn read_request(stream: &TcpStream) -> Request {
    let mut request = Request { from: None, if_range: None };
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        let Some((name, value)) = line.split_once(": ") else {
            if line.is_empty() {
                break;
            }
            continue;
        };
        match &name.to_lowercase()[..] {
            "range" => {
                let from = value.strip_prefix("bytes=").unwrap().strip_suffix('-').unwrap();
                request.from = Some(from.parse().unwrap());
            }
            "if-range" => request.if_range = Some(value.to_owned()),
            _ => {}
        }
    }
    request
}

fn content() -> Vec<u8> {
    (0..300_000u32).map(|n| (n * 7 % 251) as u8).collect()
}

/// An honest answer that breaks off after this many bytes.
fn honest(tag: &'static str, bytes: usize) -> Answer {
    Box::new(move |request, stream| {
        let content = content();
        let from = request.from.unwrap_or(0) as usize;
        let same = request.if_range.as_deref().is_none_or(|wanted| wanted == tag);
        let (from, status) = match request.from {
            Some(_) if same => (from, "206 Partial Content"),
            _ => (0, "200 OK"),
        };
        let (last, len) = (content.len() - 1, content.len());
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: {tag}\r\n\
             Content-Range: bytes {from}-{last}/{len}\r\nConnection: close\r\n\r\n",
            len - from
        );
        let rest = &content[from..];
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&rest[..rest.len().min(bytes)]);
    })
}

fn raw(head: &'static str, body: &'static [u8]) -> Answer {
    Box::new(move |_, stream| {
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(body);
    })
}

/// Sends a few bytes and then nothing for a while.
fn stalling(tag: &'static str) -> Answer {
    Box::new(move |request, stream| {
        honest(tag, 5_000)(request, stream);
        let stream = stream.try_clone().unwrap();
        thread::spawn(move || {
            thread::sleep(Duration::from_secs(10));
            drop(stream);
        });
    })
}

const ALL: usize = usize::MAX;

fn to(fetch: &Fetch, dir: &Path) -> Result<()> {
    fetch.to(&dir.join("file.tar"), |_| Ok(()), |_| {})
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_arrives_however_often_the_connection_ends() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(vec![
        honest("\"a\"", 100_000),
        stalling("\"a\""),
        raw(
            "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            b"",
        ),
        honest("\"a\"", 90_000),
        honest("\"a\"", ALL),
    ]);
    let mut most = 0;
    let path = dir.path().join("file.tar");
    server.fetch().size(300_000).to(&path, |_| Ok(()), |bytes| most = most.max(bytes)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), content());
    assert_eq!((names(dir.path()), most), (vec!["file.tar".to_owned()], 300_000));
    let from: Vec<Option<u64>> = server.requests().iter().map(|request| request.from).collect();
    assert_eq!(from, [None, Some(100_000), Some(105_000), Some(105_000), Some(195_000)]);
    let error = to(&server.fetch(), dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn what_arrived_is_taken_up_by_a_later_call_unless_the_file_has_changed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(vec![
        honest("\"a\"", 1_000),
        raw("HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", b""),
        honest("\"a\"", 2_000),
        raw("HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", b""),
        honest("\"b\"", ALL),
    ]);
    for _ in 0..2 {
        let error = to(&server.fetch(), dir.path()).unwrap_err();
        assert!(error.to_string().ends_with("the server answers 403 Forbidden"), "{error}");
        assert_eq!(names(dir.path()), ["file.tar.partial", "file.tar.partial.json"]);
    }
    to(&server.fetch(), dir.path()).unwrap();
    assert_eq!(fs::read(dir.path().join("file.tar")).unwrap(), content());
    let asked = server.requests().pop().unwrap();
    assert_eq!((asked.from, asked.if_range.as_deref()), (Some(3_000), Some("\"a\"")));
}

#[test]
fn a_server_that_lies_is_found_out() {
    let lies: [(&str, &[u8], &str); 5] = [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n",
            b"123456789",
            "expected a file of 5 bytes, the server has 9",
        ),
        (
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
            b"123456789",
            "expected 5 bytes, the server sends more",
        ),
        (
            "HTTP/1.1 206 Partial\r\nContent-Length: 2\r\nContent-Range: bytes 3-4/5\r\nConnection: close\r\n\r\n",
            b"45",
            "expected the bytes from 0 on, the server sends others",
        ),
        (
            "HTTP/1.1 206 Partial\r\nContent-Length: 2\r\nConnection: close\r\n\r\n",
            b"12",
            "expected the bytes from 0 on, the server sends others",
        ),
        (
            "HTTP/1.1 404 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            b"",
            "the server answers 404 Not Found",
        ),
    ];
    for (head, body, says) in lies {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(vec![raw(head, body)]);
        let error = to(&server.fetch().size(5), dir.path()).unwrap_err();
        assert!(error.to_string().ends_with(says), "{error}");
        assert!(!dir.path().join("file.tar").exists());
    }
}

#[test]
fn an_end_that_comes_too_soon_is_no_end() {
    let dir = tempfile::tempdir().unwrap();
    let short = || raw("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"123");
    let server = Server::start(vec![short(), short(), short(), short()]);
    let error = to(&server.fetch().size(5), dir.path()).unwrap_err();
    assert!(
        error.to_string().contains("expected 5 bytes, the connection ended after 3"),
        "{error}"
    );
    assert_eq!(server.requests().len(), 4, "the first brought something, then two more, then none");
}

#[test]
fn a_file_that_ends_before_its_size_is_not_complete() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(vec![
        raw("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"123"),
        raw("HTTP/1.1 416 No\r\nContent-Range: bytes */3\r\nConnection: close\r\n\r\n", b""),
    ]);
    let error = to(&server.fetch().size(5), dir.path()).unwrap_err();
    assert!(error.to_string().ends_with("expected a file of 5 bytes, the server has 3"), "{error}");
    assert!(!dir.path().join("file.tar").exists());
}

#[test]
fn a_part_of_another_file_is_not_joined() {
    let dir = tempfile::tempdir().unwrap();
    let part = "HTTP/1.1 206 Partial\r\nContent-Length: 6\r\nETag: \"b\"\r\n\
                Content-Range: bytes 3-8/9\r\nConnection: close\r\n\r\n";
    let whole = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nETag: \"b\"\r\nConnection: close\r\n\r\n";
    let server = Server::start(vec![
        raw(
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nETag: \"a\"\r\nConnection: close\r\n\r\n",
            b"abc",
        ),
        raw(part, b"456789"),
        raw(whole, b"123456789"),
    ]);
    to(&server.fetch(), dir.path()).unwrap();
    assert_eq!(fs::read(dir.path().join("file.tar")).unwrap(), b"123456789");
}

#[test]
fn what_the_check_refuses_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(vec![honest("\"a\"", ALL)]);
    let refuse = |path: &Path| {
        assert_eq!(fs::read(path).unwrap(), content());
        Err(Error::new(ErrorKind::Damaged, "another digest"))
    };
    let error = server.fetch().to(&dir.path().join("file.tar"), refuse, |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "another digest");
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn bytes_that_were_not_synced_are_fetched_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(vec![honest("\"a\"", ALL)]);
    let known = Known {
        url: server.url.clone(),
        validator: Some("\"a\"".into()),
        total: Some(300_000),
        synced: 1_000,
    };
    let partial = dir.path().join("file.tar.partial");
    let mut torn = content()[..1_000].to_vec();
    torn.extend([0; 4_096]);
    fs::write(&partial, torn).unwrap();
    fs::write(with_suffix(&partial, ".json"), serde_json::to_vec(&known).unwrap()).unwrap();
    to(&server.fetch(), dir.path()).unwrap();
    assert_eq!(fs::read(dir.path().join("file.tar")).unwrap(), content());
    assert_eq!(server.requests()[0].from, Some(1_000));
}

#[test]
fn only_one_fetches_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(vec![]);
    let path = dir.path().join("file.tar.partial");
    let _held = Partial::open(&path, "http://elsewhere").unwrap();
    assert_eq!(to(&server.fetch(), dir.path()).unwrap_err().kind(), ErrorKind::Locked);
}

#[test]
fn ranges_are_read_strictly() {
    assert_eq!(parse_range("bytes 0-9/10"), Some((0, Some(10))));
    assert_eq!(parse_range("bytes 5-9/*"), Some((5, None)));
    for bad in ["bytes 0-10/10", "bytes 9-5/10", "items 0-9/10", "bytes */10", "bytes 0-9", ""] {
        assert_eq!(parse_range(bad), None, "{bad}");
    }
}

#[test]
fn a_server_that_is_not_there_is_given_up_soon() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file.tar");
    let fetch = Fetch::new(format!("http://{free}/file.tar")).pause(Duration::from_millis(1));
    let error = fetch.to(&path, |_| Ok(()), |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().ends_with("; tried 3 times: is there a network?"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_note_that_is_odd_is_not_believed() {
    let no = || raw("HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", b"");
    let odd: [fn(&str) -> String; 6] = [
        |text| text[..text.len() - 9].to_owned(),
        |text| text.replace("\"synced\":1000", "\"synced\":2000"),
        |text| text.replace("\"synced\":1000", "\"other\":1000"),
        |text| text.replace("\"total\":300000", "\"total\":null"),
        |text| text.replace("\"validator\"", "\"valid\""),
        |_| "{}".to_owned(),
    ];
    for odd in odd {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(vec![honest("\"a\"", 1_000), no(), honest("\"a\"", ALL)]);
        to(&server.fetch(), dir.path()).unwrap_err();
        let note = dir.path().join("file.tar.partial.json");
        let text = fs::read_to_string(&note).unwrap();
        assert_ne!(odd(&text), text);
        fs::write(&note, odd(&text)).unwrap();
        to(&server.fetch(), dir.path()).unwrap();
        assert_eq!(fs::read(dir.path().join("file.tar")).unwrap(), content());
        assert_eq!(server.requests().pop().unwrap().from, None);
    }
}
