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
