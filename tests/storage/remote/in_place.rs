//! Samples that stay in tar archives behind a URL: how many requests they take.

use super::server::Fault;
use super::*;
use kiste::ErrorKind;
use kiste::convert::{Conversion, Format, InPlace, Silent};
use kiste::loader::{Columns, Loader};
use kiste::sampler::{BlockShuffle, Sequential};

/// The URL of an index of this many samples in archives of about a megabyte, next to them.
fn place(samples: u64, len: usize) -> (Place, String) {
    let place = Place::new(samples, len, true);
    let dir = tempfile::tempdir().unwrap();
    let tar = dir.path().join("x.tar");
    let source = place.local.path().to_path_buf();
    let conversion = Conversion::new([source], &tar).to(Format::Webdataset).shard_size(1 << 20);
    conversion.run(&mut Silent).unwrap();
    let mut archives: Vec<PathBuf> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    archives.sort();
    assert!(archives.len() > 2);
    InPlace::new(&archives, dir.path().join("x.inplace.json")).run(&mut Silent).unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        place.server.put(&format!("/d/{name}"), std::fs::read(&path).unwrap());
    }
    let url = format!("{}/d/x.inplace.json", place.server.url());
    (place, url)
}

fn open(place: &Place, url: &str) -> DatasetReader {
    let (storage, path) = RemoteStorage::open(url, place.options()).unwrap();
    DatasetReader::options().storage(Arc::new(storage)).open(path).unwrap()
}

#[test]
fn a_sample_takes_one_range_of_its_archive() {
    let (place, url) = place(4_000, 1_000);
    let reader = open(&place, &url);
    // An archive is opened with the first of its samples.
    reader.get_raw(2_000).unwrap();
    for index in [2_010, 2_020] {
        place.server.requests();
        let (rounds, raw) = place.server.rounds(|| reader.get_raw(index).unwrap().into_owned());
        assert_eq!(raw, *place.local.get_raw(index).unwrap());
        let requests = place.server.requests();
        let of_tar: Vec<_> =
            requests.iter().filter(|request| request.path.ends_with(".tar")).collect();
        assert_eq!(of_tar.len(), 1, "{requests:#?}");
        assert!(of_tar[0].sent < 4096 && rounds <= 3, "{rounds} {requests:#?}");
    }
    for index in [2_030, 3_000, 123] {
        place.server.requests();
        let get = || reader.get_by_key(&key(index)).unwrap().unwrap();
        let (rounds, found) = place.server.rounds(get);
        assert_eq!(found, place.local.get(index as usize).unwrap());
        let requests = place.server.requests();
        assert!(rounds <= 3, "{rounds} {requests:#?}");
    }
}

#[test]
fn neighbours_share_their_requests_in_an_epoch() {
    let (place, url) = place(4_000, 1_000);
    for (block, most) in [(4_000, 150), (500, 300)] {
        let reader = open(&place, &url);
        place.server.requests();
        let options = match block {
            4_000 => Loader::options(reader, Sequential::new(4_000)),
            _ => Loader::options(reader, BlockShuffle::new(4_000, block, 2, 1).unwrap()),
        };
        let columns = Columns::new().bytes("v");
        let mut seen = 0;
        for batch in options.threads(2).epochs(1).columns(columns).unwrap() {
            let batch = batch.unwrap();
            let (bytes, ends) = batch.data.bytes("v").unwrap();
            for (at, &index) in batch.indices.iter().enumerate() {
                let found = &bytes[ends[at] as usize..ends[at + 1] as usize];
                let expected = place.local.get(index as usize).unwrap();
                assert_eq!(Some(found), expected["v"].as_slice());
            }
            seen += batch.indices.len();
        }
        let requests = place.server.requests();
        let sent: u64 = requests.iter().map(|request| request.sent).sum();
        let all: u64 = place
            .server
            .names()
            .iter()
            .filter(|name| name.ends_with(".tar"))
            .map(|name| place.server.get(name).len() as u64)
            .sum();
        assert_eq!(seen, 4_000);
        assert!(requests.len() < most, "{}", requests.len());
        assert!(sent < all + all / 5, "{sent} of {all}");
    }
}

/// The URLs of the archives next to an index, in order.
fn archives(place: &Place) -> Vec<String> {
    let names = place.server.names().into_iter().filter(|name| name.ends_with(".tar"));
    names.map(|name| format!("{}{name}", place.server.url())).collect()
}

/// Another archive of the same length and with the same keys takes the place of the one with this sample.
fn replace_archive_of(place: &Place, index: u64, archives: &[String]) -> String {
    let value = index.to_le_bytes().repeat(100);
    for url in archives {
        let name = url.strip_prefix(&place.server.url()).unwrap();
        let mut bytes = place.server.get(name).to_vec();
        if let Some(at) = memchr::memmem::find(&bytes, &value) {
            bytes[at + 400] ^= 1;
            place.server.put(name, bytes);
            return url.clone();
        }
    }
    panic!("no archive has sample {index}");
}

/// The parts of the message that `--verbose` and the hint of the command show.
fn told(error: &kiste::Error) -> String {
    format!("{error:?} {:?}", error.remedy())
}

#[test]
fn a_replaced_archive_is_named_when_it_is_first_used() {
    let (place, _) = place(4_000, 1_000);
    let urls = archives(&place);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.inplace.json");
    InPlace::new(&urls, &path).run(&mut Silent).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("\"id\":\"etag:v").count(), urls.len(), "{text}");
    // The tag comes with the first answer.
    let reader = DatasetReader::open(&path).unwrap();
    place.server.requests();
    let (rounds, _) = place.server.rounds(|| drop(reader.get_raw(5).unwrap()));
    assert_eq!(rounds, 1, "{:#?}", place.server.requests());
    // While it is open, only its version is read.
    let replaced = replace_archive_of(&place, 40, &urls);
    let error = (40..200).find_map(|index| reader.get_raw(index).err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
    assert!(error.to_string().starts_with(&replaced), "{error}");
    // And when it is opened later. Others are read as before.
    let reader = DatasetReader::open(&path).unwrap();
    let error = reader.get_raw(40).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
    let says = "the file has changed since it was indexed: found another entity tag";
    assert!(error.to_string().starts_with(&replaced), "{error}");
    assert!(error.to_string().ends_with(says), "{error}");
    assert_eq!(reader.get(3_999).unwrap(), place.local.get(3_999).unwrap());
    let report = InPlace::new(Vec::<PathBuf>::new(), &path).refresh().run(&mut Silent).unwrap();
    assert_eq!((report.shards, report.kept), (urls.len(), urls.len() - 1));
    assert!(DatasetReader::open(&path).unwrap().get_raw(40).is_ok());
}

#[test]
fn without_a_tag_the_ends_of_an_archive_are_compared() {
    // An index that was made where the archives are files.
    let (place, url) = place(4_000, 1_000);
    let urls = archives(&place);
    let reader = open(&place, &url);
    place.server.requests();
    let (rounds, _) = place.server.rounds(|| drop(reader.get_raw(5).unwrap()));
    let requests = place.server.requests();
    // Both ends in one round; and the hashes of keys.
    assert!(rounds <= 2, "{rounds} {requests:#?}");
    let name = urls[0].strip_prefix(&place.server.url()).unwrap();
    let mut bytes = place.server.get(name).to_vec();
    bytes[700] ^= 1;
    place.server.put(name, bytes);
    let error = open(&place, &url).get_raw(5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
    assert!(error.to_string().contains("found other bytes at its ends"), "{error}");
    // And an index of a server that gives no tags.
    place.server.retag(None, "Mon, 23 Nov 2026 00:00:00 GMT");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.inplace.json");
    InPlace::new(&urls, &path).run(&mut Silent).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("\"id\":\"xxh3:").count(), urls.len(), "{text}");
    assert!(DatasetReader::open(&path).unwrap().get_raw(5).is_ok());
}

#[test]
fn signed_urls_are_indexed_and_their_signatures_are_not_stored() {
    let (place, _) = place(4_000, 1_000);
    let (urls, server) = (archives(&place), &place.server);
    server.fail(|_, request| match request.query.contains("sig=s3cret") {
        true => None,
        false => Some(Fault::Status(403, None)),
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.inplace.json");
    let run = |urls: &[String]| {
        InPlace::new(urls, &path).key("{key.shard}/{key}").overwrite(true).run(&mut Silent)
    };
    let error = run(&urls).unwrap_err();
    assert!(
        error.to_string().ends_with("there is no such object, or it may not be read"),
        "{error}"
    );
    let braces = urls[0].replace("000000.tar", "{000000..000002}.tar?se=9&sig=s3cret");
    let report = run(&[braces]).unwrap();
    assert_eq!(report.shards, 3);
    let signed: Vec<String> = urls.iter().map(|url| format!("{url}?se=9&sig=s3cret")).collect();
    let report = run(&signed).unwrap();
    assert_eq!((report.samples, report.shards), (4_000, urls.len()));
    let mut stored = Vec::new();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        stored.extend(std::fs::read(&path).unwrap());
        let name = path.file_name().unwrap().to_str().unwrap();
        server.put(&format!("/d/{name}"), std::fs::read(&path).unwrap());
    }
    assert!(memchr::memmem::find(&stored, b"sig=").is_none());
    assert!(memchr::memmem::find(&stored, b"s3cret").is_none());
    let first = DatasetReader::open(&path).unwrap().get_raw(0).unwrap_err();
    // The index itself does not open them, and says so.
    let read = |error: kiste::Error, says: &str| {
        let told = told(&error);
        assert!(told.contains(says) && !told.contains("s3cret"), "{told}");
    };
    read(first, "the index has no signatures of its files");
    // Next to its files, a signature of the folder opens all of it.
    let url = format!("{}/d/all.inplace.json?se=9&sig=s3cret", server.url());
    let reader = DatasetReader::open(&url).unwrap();
    let sample = reader.get_by_key("x-000000/key-000007").unwrap().unwrap();
    assert_eq!(sample["v"], place.local.get(7).unwrap()["v"]);
    // Indexes at signed URLs become one, with their files.
    let both = dir.path().join("both.inplace.json");
    let report = InPlace::new([&url], &both).run(&mut Silent).unwrap();
    assert_eq!((report.samples, report.kept), (4_000, urls.len()));
    assert!(!std::fs::read_to_string(&both).unwrap().contains("s3cret"));
    // One signature for each object, as of S3.
    server.fail(|_, request| {
        match request.query.strip_prefix("sig=").is_some_and(|sig| request.path.ends_with(sig)) {
            true => None,
            false => Some(Fault::Echo(403)),
        }
    });
    let name = |url: &str| url.rsplit('/').next().unwrap().to_owned();
    let signed: Vec<String> = urls.iter().map(|url| format!("{url}?sig={}", name(url))).collect();
    assert_eq!(run(&signed).unwrap().samples, 4_000);
    let error = run(&[format!("{}?sig=wrong-s3cret", urls[0])]).unwrap_err();
    assert!(error.to_string().starts_with(&format!("{}: ", urls[0])), "{error}");
    read(error, "or it may not be read");
    let url = format!("{}/d/all.inplace.json?sig=all.inplace.json", server.url());
    let error = DatasetReader::open(&url).unwrap_err();
    read(error, "the signature has to be valid for them too");
    server.fail(|_, request| match request.path.ends_with(".tar") {
        true => Some(Fault::Status(403, None)),
        false => None,
    });
    let error = DatasetReader::open(&url).unwrap().get_raw(0).unwrap_err();
    read(error, "is for one object only");
    // What chooses the file would not be stored.
    let chosen = ["a", "b"].map(|file| format!("{}?file={file}&sig=s3cret", urls[0]));
    let error = run(&chosen).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    read(error, "which is not stored");
}

#[test]
fn indexing_takes_few_requests() {
    let (place, _) = place(4_000, 1_000);
    let server = &place.server;
    let line = |index: u64| format!("{{\"key\": \"k{index}\", \"v\": \"{}\"}}\n", "x".repeat(500));
    server.put("/d/a.jsonl", (0..40_000).map(line).collect::<String>().into_bytes());
    let archives = archives(&place);
    let lines = [format!("{}/d/a.jsonl", server.url())];
    for (urls, samples) in [(&archives[..], 4_000), (&lines[..], 40_000)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("all.inplace.json");
        let bytes: u64 = urls
            .iter()
            .map(|url| server.get(url.strip_prefix(&server.url()).unwrap()).len() as u64)
            .sum();
        server.requests();
        let report = InPlace::new(urls, &path).run(&mut Silent).unwrap();
        assert_eq!((report.samples, report.bytes), (samples, bytes));
        let requests = server.requests();
        let sent: u64 = requests.iter().map(|request| request.sent).sum();
        let most = 8 * urls.len() + 16;
        assert!(requests.len() <= most, "{} for {} files", requests.len(), urls.len());
        assert!(sent < bytes + bytes / 5, "{sent} of {bytes}");
    }
}
