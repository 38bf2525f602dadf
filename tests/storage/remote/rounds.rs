//! How many requests, how many of them one after the other, and how many bytes.

use super::*;
use crate::storage::remote::server::{Fault, asked};
use kiste::Reader;
use kiste::storage::{Source, Storage};

/// Larger than what opening fetches of any file.
fn large() -> Place {
    Place::new(20_000, 200, true)
}

#[test]
fn opening_takes_one_round_and_looks_for_nothing() {
    let place = large();
    let (rounds, reader) = place.server.rounds(|| place.open());
    let requests = place.server.requests();
    assert_eq!((rounds, requests.len(), reader.len()), (1, 7, 20_000));
    // No HEAD, and no list.
    assert!(requests.iter().all(|request| request.method == "GET" && request.query.is_empty()));
    let names = ["", ".filter", ".key_hashes", ".lookup", ".offsets"];
    let paths = names.map(|name| format!("/d/set.msgpack{name}"));
    assert!(asked(&requests).into_iter().eq(paths.iter()));
    let bytes: u64 = requests.iter().map(|request| request.sent).sum();
    assert!(bytes <= 7 * (16 << 10), "{bytes}");
}

#[test]
fn a_sample_by_index_takes_two_requests_and_few_bytes() {
    let place = large();
    let reader = place.open();
    place.server.requests();
    for index in [9_999, 5_001] {
        let (rounds, raw) = place.server.rounds(|| reader.get_raw(index).unwrap().into_owned());
        assert_eq!(raw, *place.local.get_raw(index).unwrap());
        let requests = place.server.requests();
        assert_eq!((rounds, requests.len()), (2, 2), "{requests:#?}");
        let bytes: u64 = requests.iter().map(|request| request.sent).sum();
        assert!(bytes <= 4096 + raw.len() as u64, "{bytes}");
    }
    // Its neighbour's offset is known.
    let (rounds, _) = place.server.rounds(|| reader.get_raw(5_003).map(drop));
    assert_eq!(rounds, 1);
}

#[test]
fn a_key_takes_three_rounds_with_a_lookup() {
    let place = large();
    let reader = place.open();
    place.server.requests();
    for index in [12_345, 777, 19_999] {
        let get = || reader.get_by_key(&key(index)).unwrap().unwrap();
        let (rounds, found) = place.server.rounds(get);
        assert_eq!(found, place.local.get(index as usize).unwrap());
        let requests = place.server.requests();
        assert!(rounds <= 3, "{rounds} {requests:#?}");
        let bytes: u64 = requests.iter().map(|request| request.sent).sum();
        assert!(bytes < 8 << 10, "{bytes} {requests:#?}");
    }
}

#[test]
fn many_keys_share_their_rounds() {
    // One by one they would take three rounds each. A round has 16 connections, and the hashes of all
    // samples near a slot are fetched. Without a lookup it takes so many that the table is made.
    for (lookup, count, most) in [(true, 12, 6), (false, 200, 2 + 200 / 16 + 1)] {
        let place = Place::new(20_000, 200, lookup);
        let reader = place.open();
        let wanted: Vec<u64> = (0..count).map(|i| i * 7_919 % 20_000).collect();
        let keys: Vec<String> = wanted.iter().map(|&index| key(index)).collect();
        place.server.requests();
        let (rounds, found) = place.server.rounds(|| reader.find_many(&keys).unwrap());
        assert!(found.into_iter().eq(wanted.iter().map(|&index| Some(index as usize))));
        assert!(rounds <= most, "{rounds}");
        // What was fetched to compare the keys is there when the samples are asked for.
        place.server.requests();
        for &index in &wanted {
            let index = index as usize;
            assert_eq!(reader.get_raw(index).unwrap(), place.local.get_raw(index).unwrap());
        }
        assert!(place.server.requests().is_empty());
        assert_eq!(reader.find_many(&["no such key", &key(7)]).unwrap(), [None, Some(7)]);
    }
}

fn sent(requests: &[server::Request]) -> u64 {
    requests.iter().map(|request| request.sent).sum()
}

#[test]
fn a_large_sample_is_not_fetched_to_say_that_its_key_exists() {
    let place = Place::new(60, 300_000, true);
    let reader = place.open();
    place.server.requests();
    for index in [20, 40] {
        assert_eq!(reader.find(&key(index)).unwrap(), Some(index as usize));
    }
    assert!(reader.contains_key(&key(30)).unwrap());
    let keys: Vec<String> = (0..60).map(key).collect();
    assert!(reader.find_many(&keys).unwrap().into_iter().eq((0..60).map(Some)));
    let requests = place.server.requests();
    assert!(sent(&requests) < 70 * 4096, "{} {requests:#?}", sent(&requests));
    // What is read is fetched once, in the round that compares the key.
    let reader = place.open();
    place.server.requests();
    let get = || reader.get_by_key(&key(50)).unwrap().unwrap();
    let (rounds, found) = place.server.rounds(get);
    assert_eq!(found, place.local.get(50).unwrap());
    let requests = place.server.requests();
    assert!(rounds <= 3, "{rounds} {requests:#?}");
    assert!(sent(&requests) < 310_000, "{requests:#?}");
}

#[test]
fn a_key_behind_large_fields_is_found_without_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("set.msgpack");
    let mut writer = Writer::options().durable(false).lookup(true).create(&path).unwrap();
    for index in 0..20 {
        let bytes = || Value::Binary(vec![index as u8; 200_000]);
        let fields = [("image", bytes()), ("mask", bytes()), ("key", key(index).into())];
        let fields = fields.map(|(name, value)| (name.into(), value)).to_vec();
        writer.write_raw(&key(index), &msgpack::to_vec(&Value::Map(fields)).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let server = Server::start();
    server.upload(&path, "/d");
    let reader = DatasetReader::open(format!("{}/d/set.msgpack", server.url())).unwrap();
    server.requests();
    assert_eq!(reader.find(&key(7)).unwrap(), Some(7));
    assert_eq!(reader.find(&key(19)).unwrap(), Some(19));
    assert_eq!(reader.find("no such key").unwrap(), None);
    let requests = server.requests();
    assert!(sent(&requests) < 60_000, "{requests:#?}");
}

#[test]
fn many_keys_take_few_requests_each() {
    let place = Place::new(20_000, 200, true);
    // Few keys of many samples: the side files are not fetched whole.
    for (count, whole) in [(2, false), (40, true)] {
        let reader = place.open();
        place.server.requests();
        let keys: Vec<String> = (0..count).map(|i| key(i * 7_919 % 20_000)).collect();
        assert!(reader.find_many(&keys).unwrap().iter().all(Option::is_some));
        let requests = place.server.requests();
        let of = |suffix: &str| requests.iter().filter(|r| r.path.ends_with(suffix)).count();
        let (hashes, slots) = (of(".key_hashes"), of(".lookup"));
        match whole {
            true => assert!(hashes <= 1 && slots <= 1, "{hashes} {slots}"),
            false => assert!(hashes <= 5 * count as usize, "{hashes}"),
        }
        // One for each sample, and the offsets.
        assert!(of(".offsets") + of("set.msgpack") <= 2 * count as usize, "{requests:#?}");
    }
}

#[test]
fn an_absent_key_takes_few_rounds_and_no_sample() {
    let place = large();
    let reader = place.open();
    assert_eq!(reader.find(&key(3)).unwrap(), Some(3));
    place.server.requests();
    let mut most = 0;
    for absent in ["a", "b", "c", "d"] {
        let (rounds, found) = place.server.rounds(|| reader.contains_key(absent).unwrap());
        assert!(!found);
        most = most.max(rounds);
    }
    let requests = place.server.requests();
    assert!(most <= 4, "{most} {requests:#?}");
    assert!(!asked(&requests).contains("/d/set.msgpack"));
}

#[test]
fn without_a_lookup_the_hashes_are_fetched_once() {
    let place = Place::new(20_000, 20, false);
    let reader = place.open();
    place.server.requests();
    assert_eq!(reader.find(&key(15_000)).unwrap(), Some(15_000));
    let hashes = |requests: Vec<_>| {
        let of = |request: &&server::Request| request.path.ends_with(".key_hashes");
        requests.iter().filter(of).map(|request| request.sent).sum::<u64>()
    };
    let bytes = hashes(place.server.requests());
    assert!((160_000..=160_008).contains(&bytes), "{bytes}");
    assert_eq!(reader.find(&key(5)).unwrap(), Some(5));
    assert_eq!(hashes(place.server.requests()), 0);
}

#[test]
fn neighbours_are_fetched_together() {
    let place = large();
    let reader = place.open();
    let indices: Vec<usize> = (8_000..8_300).chain(15_000..15_010).collect();
    place.server.requests();
    let (rounds, ()) = place.server.rounds(|| reader.prefetch(&indices));
    let of_data = |requests: &[server::Request]| {
        requests.iter().filter(|request| request.path == "/d/set.msgpack").count()
    };
    let requests = place.server.requests();
    assert_eq!((rounds, of_data(&requests)), (2, 2), "{requests:#?}");
    for index in indices {
        assert_eq!(reader.get_raw(index).unwrap(), place.local.get_raw(index).unwrap());
    }
    assert!(place.server.requests().is_empty());
}

#[test]
fn shards_are_fetched_side_by_side() {
    let places = [large(), large()];
    let shards: Vec<_> = places.iter().map(Place::open).collect();
    let reader = kiste::reader::ShardedReader::new(shards).unwrap();
    let indices: Vec<usize> = (8_000..8_100).chain(30_000..30_100).collect();
    let [one, other] = &places;
    let (rounds, (others, ())) =
        one.server.rounds(|| other.server.rounds(|| reader.prefetch(&indices)));
    assert_eq!((rounds, others), (2, 2));
    places.iter().for_each(|place| drop(place.server.requests()));
    for index in indices {
        let local = places[index / 20_000].local.get_raw(index % 20_000).unwrap();
        assert_eq!(reader.get_raw(index).unwrap(), local);
    }
    assert!(places.iter().all(|place| place.server.requests().is_empty()));
}

#[test]
fn reading_in_order_takes_few_requests() {
    let place = Place::new(20_000, 200, false);
    let (storage, path) = place.storage();
    let reader = DatasetReader::options().storage(Arc::new(storage.clone())).open(path).unwrap();
    for (index, raw) in reader.iter_raw(..).enumerate() {
        assert_eq!(raw.unwrap(), place.local.get_raw(index).unwrap());
    }
    let traffic = storage.traffic();
    let requests = place.server.requests();
    assert_eq!(traffic.requests, requests.len() as u64);
    assert!(requests.len() < 40, "{}", requests.len());
    let sent: u64 =
        requests.iter().filter(|request| request.status == 206).map(|request| request.sent).sum();
    assert_eq!(traffic.bytes, sent);
    assert!(traffic.wanted <= traffic.bytes);
    let all = place.local.data_len() + 8 * 20_001;
    assert!(sent < all + all / 10, "{sent} of {all}");
}

#[test]
fn keys_are_listed_without_the_samples() {
    let place = large();
    let reader = place.open();
    place.server.requests();
    let keys: Vec<String> = reader.keys().map(|key| key.unwrap().into_owned()).collect();
    assert!(keys.into_iter().eq((0..20_000).map(key)));
    let requests = place.server.requests();
    let names = asked(&requests);
    // Opened later, so the witness is asked whether the dataset is still the same.
    assert!(names.into_iter().eq(["/d/set.msgpack.keys", "/d/set.msgpack.offsets"]));
}

/// An object of this many bytes, opened this often.
fn raw_files(size: usize, count: usize) -> (Server, Vec<Box<dyn kiste::storage::ReadAt>>) {
    let server = Server::start();
    server.put("/d/raw", vec![7; size]);
    let (storage, path) =
        RemoteStorage::open(&format!("{}/d/raw", server.url()), RemoteOptions::default()).unwrap();
    let open = |_| match storage.open(&path).unwrap() {
        Source::Positioned(file) => file,
        _ => panic!("expected a file that is read by range"),
    };
    let files = (0..count).map(open).collect();
    (server, files)
}

#[test]
fn what_lies_ahead_stays_while_several_are_read() {
    // What three readings have read ahead is more than what stays in memory of what was read.
    const SIZE: usize = 36 << 20;
    let (server, files) = raw_files(SIZE, 3);
    let mut buf = vec![0; 1 << 20];
    for at in (0..SIZE as u64).step_by(buf.len()) {
        files.iter().for_each(|file| file.read_exact_at(&mut buf, at).unwrap());
    }
    let bytes = server.sent();
    assert!(bytes <= 3 * SIZE as u64 * 105 / 100, "{bytes}");
}

#[test]
fn reads_elsewhere_leave_what_is_read_ahead() {
    const SIZE: usize = 96 << 20;
    let (server, files) = raw_files(SIZE, 1);
    let file = &files[0];
    // What is asked for is on its way for a while.
    server.fail(|_, _| Some(Fault::Late(20)));
    server.requests();
    let mut buf = vec![0; 1 << 20];
    for at in (0..60_u64 << 20).step_by(buf.len()) {
        file.read_exact_at(&mut buf, at).unwrap();
        if at >= 16 << 20 {
            // Behind all that is read ahead.
            file.read_exact_at(&mut buf[..100], SIZE as u64 - 100 - at / 64).unwrap();
        }
    }
    let requests = server.requests();
    let ahead = requests.iter().filter(|request| request.sent > 100).count();
    // Few while it begins, and then of 4 MiB each.
    assert!(ahead <= 8 + 24, "{ahead}");
    assert!(requests.len() - ahead <= 44, "{}", requests.len());
    assert!(sent(&requests) <= 93 << 20, "{}", sent(&requests));
}
