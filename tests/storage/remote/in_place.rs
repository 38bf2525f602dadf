//! Samples that stay in tar archives behind a URL: how many requests they take.

use super::*;
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
