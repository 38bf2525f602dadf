//! A dataset of many files behind a URL.

use kiste::Reader;
use kiste::convert::{Conversion, Silent};
use kiste::format::dataset::shards::{Manifest, ShardEntry};

use super::*;
use crate::storage::remote::server::asked;

/// Four shards on a server, and the same locally.
fn with_shards() -> (TempDir, Server, DatasetReader) {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
    let one = dir.path().join("one.msgpack");
    let mut writer = Writer::options().durable(false).create(&one).unwrap();
    for index in 0..8192 {
        writer.write_raw(&key(index), &sample(index, 100)).unwrap();
    }
    writer.finish().unwrap();
    let manifest = dir.path().join("set.shards.json");
    Conversion::new([&one], &manifest).shards(4).lookup(true).run(&mut Silent).unwrap();
    upload_shards(dir, server, 4)
}

/// So many that no program would keep all of them open: 40 samples of 2 kB each.
fn with_many_shards() -> (TempDir, Server, DatasetReader) {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
    let mut entries = Vec::new();
    for shard in 0..300 {
        let name = format!("set-{shard:05}.msgpack");
        let options = Writer::options().durable(false).lookup(true);
        let mut writer = options.create(dir.path().join(&name)).unwrap();
        for index in 40 * shard..40 * (shard + 1) {
            writer.write_raw(&key(index), &sample(index, 2000)).unwrap();
        }
        let stats = writer.finish().unwrap();
        entries.push(ShardEntry::new(name, stats.samples, stats.bytes));
    }
    let text = Manifest::new(entries).unwrap().render();
    std::fs::write(dir.path().join("set.shards.json"), text).unwrap();
    upload_shards(dir, server, 300)
}

fn upload_shards(dir: TempDir, server: Server, shards: u64) -> (TempDir, Server, DatasetReader) {
    for shard in 0..shards {
        server.upload(&dir.path().join(format!("set-{shard:05}.msgpack")), "/d");
    }
    let manifest = dir.path().join("set.shards.json");
    server.put("/d/set.shards.json", std::fs::read(&manifest).unwrap());
    let local = DatasetReader::open(&manifest).unwrap();
    (dir, server, local)
}

#[test]
fn a_manifest_is_read_by_url_and_a_shard_when_it_is_needed() {
    let (_dir, server, local) = with_shards();
    let url = format!("{}/d/set.shards.json", server.url());
    let (rounds, many) = server.rounds(|| DatasetReader::open(&url).unwrap());
    let requests = server.requests();
    assert_eq!((rounds, requests.len(), many.len()), (1, 1, local.len()));
    assert_eq!(many.get(5000).unwrap(), local.get(5000).unwrap());
    let requests = server.requests();
    let of_other = |path: &&str| !path.starts_with("/d/set-00002.msgpack");
    assert_eq!(asked(&requests).into_iter().filter(of_other).count(), 0, "{requests:#?}");
    assert!(requests.iter().all(|request| request.method == "GET" && request.query.is_empty()));
    for index in [0, 2047, 2048, 8191] {
        assert_eq!(many.find(&key(index)).unwrap(), Some(index as usize));
    }
    assert_eq!(many.find("absent").unwrap(), None);
    many.prefetch(&[1, 8000, 3000]);
    for index in [1, 8000, 3000] {
        assert_eq!(many.get_raw(index).unwrap(), local.get_raw(index).unwrap());
    }
}

#[test]
fn braces_name_shards_behind_a_url() {
    let (_dir, server, local) = with_shards();
    let many = DatasetReader::open(format!("{}/d/set-{{00000..00003}}.msgpack", server.url()));
    let many = many.unwrap();
    assert_eq!((many.len(), many.shards()), (local.len(), 4));
    assert_eq!(many.get(8000).unwrap(), local.get(8000).unwrap());
    // What is there is not listed.
    let stars = DatasetReader::open(format!("{}/d/set-*.msgpack", server.url()));
    assert_eq!(stars.unwrap_err().kind(), kiste::ErrorKind::NotFound);
    assert!(server.requests().iter().all(|request| request.query.is_empty()));
}

#[test]
fn a_shard_that_was_replaced_is_an_error() {
    let (dir, server, local) = with_shards();
    let url = format!("{}/d/set.shards.json", server.url());
    let other = dir.path().join("other.msgpack");
    let mut writer = Writer::options().durable(false).create(&other).unwrap();
    for index in 2048..4096 {
        let packed = local.get_raw(index).unwrap();
        writer.write_raw(&key(index as u64 + 10_000), &sample(index as u64 + 10_000, 100)).unwrap();
        assert_eq!(packed.len(), sample(index as u64 + 10_000, 100).len());
    }
    writer.finish().unwrap();
    for file in kiste::dataset::DatasetFile::all() {
        if let Ok(bytes) = std::fs::read(file.path(&other)) {
            let bytes = match String::from_utf8(bytes) {
                // The names in `.md5`.
                Ok(text) => text.replace("other.msgpack", "set-00001.msgpack").into_bytes(),
                Err(error) => error.into_bytes(),
            };
            server.put(&format!("/d/set-00001.msgpack{}", file.suffix()), bytes);
        }
    }
    let many = DatasetReader::open(&url).unwrap();
    many.get(0).unwrap();
    let error = many.get(3000).unwrap_err();
    assert_eq!(error.kind(), kiste::ErrorKind::Replaced, "{error}");
    assert!(error.to_string().contains("set-00001.msgpack"), "{error}");
}

#[test]
fn an_epoch_of_many_shards_fetches_what_it_reads_and_little_more() {
    use kiste::loader::Loader;
    use kiste::sampler::{BlockShuffle, Sampler, Shuffle};
    let (_dir, server, local) = with_many_shards();
    let url = format!("{}/d/set.shards.json", server.url());
    let samplers: [Arc<dyn Sampler>; 2] = [
        Arc::new(BlockShuffle::new(12_000, 10, 100, 7).unwrap()),
        Arc::new(Shuffle::new(12_000, 7)),
    ];
    for sampler in samplers {
        let options = RemoteOptions::default().connections(4);
        let (storage, path) = RemoteStorage::open(&url, options).unwrap();
        let reader = DatasetReader::options().storage(Arc::new(storage)).open(path).unwrap();
        let (before, _) = (server.connections(), server.requests());
        let of = |reader: &DatasetReader| -> Vec<Vec<u8>> {
            let options = Loader::options(Arc::new(reader.clone()), sampler.clone());
            let loader = options.batch_size(128).epochs(1).threads(3).raw().unwrap();
            loader.flat_map(|batch| batch.unwrap().data).collect()
        };
        assert!(of(&reader) == of(&local));
        let requests = server.requests();
        let of_data = requests.iter().filter(|request| request.path.ends_with(".msgpack"));
        let bytes: u64 = of_data.map(|request| request.sent).sum();
        assert!(bytes <= local.data_len() * 105 / 100, "{bytes} of {}", local.data_len());
        // Each shard is opened once, but for those that two threads need at the same moment, and by few
        // threads at a time.
        let opened = requests.iter().filter(|request| request.path.ends_with(".key_hashes"));
        let opened = opened.count();
        assert!((600..=620).contains(&opened), "{opened}");
        let connections = server.connections() - before;
        assert!(connections <= 5 * 4, "{connections}");
    }
}

#[test]
fn the_range_of_keys_in_the_manifest_spares_the_filters_of_other_shards() {
    let (dir, server, _local) = with_shards();
    let url = format!("{}/d/set.shards.json", server.url());
    let many = DatasetReader::open(&url).unwrap();
    server.requests();
    for index in [5000, 5001] {
        assert_eq!(many.find(&key(index)).unwrap(), Some(index as usize));
    }
    let requests = server.requests();
    assert!(asked(&requests).iter().all(|path| path.starts_with("/d/set-00002.msgpack")));
    // Absent is a key only if the filter agrees.
    assert_eq!(many.find(&(key(5000) + "x")).unwrap(), None);
    let requests = server.requests();
    let filters = asked(&requests).into_iter().filter(|path| path.ends_with(".filter")).count();
    assert_eq!(filters, 3, "{requests:#?}");
    // Of a manifest that is wrong.
    let text = std::fs::read_to_string(dir.path().join("set.shards.json")).unwrap();
    let wrong = text.replace("\"key-004096\"", "\"key-005555\"");
    assert_ne!(text, wrong);
    server.put("/d/set.shards.json", wrong.into_bytes());
    let many = DatasetReader::open(&url).unwrap();
    let error = many.find(&key(5000)).unwrap_err();
    assert!(error.to_string().contains("expected the range of keys of set-00002"), "{error}");
    assert_eq!(many.find(&key(6000)).unwrap(), Some(6000));
}
