//! A reader by its name.

use std::fs;
use std::sync::Arc;

use kiste::loader::Loader;
use kiste::sampler::Sequential;
use kiste::{ErrorKind, Reader, Writer};

use super::shards;

#[test]
fn a_name_opens_what_it_stands_for() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = shards::on_disk(dir.path(), &[3, 0, 4]);
    let one = dir.path().join("one.msgpack");
    let url = format!("file://{}", one.display());
    let names = [one.clone(), manifest, dir.path().join("set-*.msgpack"), url.into()];
    let opened: Vec<Arc<dyn Reader>> =
        names.iter().map(|name| kiste::open(name).unwrap()).collect();
    for (reader, name) in opened.iter().zip(&names) {
        assert_eq!(reader.len(), 7, "{}", name.display());
        for index in 0..7 {
            assert_eq!(reader.get_raw(index).unwrap(), opened[0].get_raw(index).unwrap());
            let key = reader.key(index).unwrap().into_owned();
            assert_eq!(reader.find(&key).unwrap(), Some(index), "{}", name.display());
        }
        let loader = Loader::options(reader.clone(), Sequential::new(7)).batch_size(4);
        assert_eq!(loader.epochs(1).raw().unwrap().count(), 2);
    }
}

#[test]
fn what_is_no_dataset_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let rows = dir.path().join("rows.csv");
    fs::write(&rows, "a,b\n1,2\n").unwrap();
    let error = kiste::open(&rows).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().ends_with("expected a dataset, found comma-separated values"));

    assert_eq!(kiste::open(dir.path().join("x")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        kiste::open(dir.path().join("x-*.msgpack")).unwrap_err().kind(),
        ErrorKind::NotFound
    );

    let unfinished = dir.path().join("x.msgpack");
    let mut writer = Writer::create(&unfinished).unwrap();
    writer.write_raw("a", b"\x81\xa3key\xa1a").unwrap();
    let error = kiste::open(&unfinished).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    writer.finish().unwrap();
    assert_eq!(kiste::open(&unfinished).unwrap().len(), 1);
}
