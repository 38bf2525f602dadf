//! One version of a dataset, or an error: never a mixture.

use super::server::Fault;
use super::*;
use kiste::ErrorKind;

#[track_caller]
fn assert_replaced(result: Result<()>, place: &Place) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
    assert!(error.to_string().starts_with(&place.url()), "{error}");
}

#[test]
fn a_replaced_object_is_an_error_that_names_it() {
    let place = Place::new(20_000, 200, true);
    let reader = place.open();
    reader.get_raw(10_000).unwrap();
    place.replace();
    assert_replaced(reader.get_raw(10_001).map(drop), &place);
    assert_replaced(reader.find(&key(15_000)).map(drop), &place);
    assert_eq!(place.open().len(), 20_000);
    // Only the bytes of the version that was opened were asked for.
    let asked = place.server.requests();
    let refused: Vec<_> = asked.iter().filter(|request| request.status == 412).collect();
    assert!(!refused.is_empty() && refused.iter().all(|r| r.header("if-match").is_some()));
}

#[test]
fn servers_that_send_any_version_are_not_believed() {
    let place = Place::new(20_000, 200, true);
    let reader = place.open();
    place.replace();
    place.server.fail(|_, _| Some(Fault::AnyVersion));
    assert_replaced(reader.get_raw(10_001).map(drop), &place);
    // Nor is a tag needed, where there is a time.
    place.server.retag(None, "Mon, 23 Nov 2026 00:00:00 GMT");
    let reader = place.open();
    reader.get_raw(10_000).unwrap();
    place.server.retag(None, "Mon, 23 Nov 2026 00:00:01 GMT");
    assert_replaced(reader.get_raw(15_001).map(drop), &place);
}

#[test]
fn weak_tags_are_compared_here() {
    let place = Place::new(20_000, 200, true);
    place.server.retag(Some("W/\"1\""), "Mon, 23 Nov 2026 00:00:00 GMT");
    let reader = place.open();
    assert_eq!(reader.get_raw(9_000).unwrap(), place.local.get_raw(9_000).unwrap());
    place.server.retag(Some("W/\"2\""), "Mon, 23 Nov 2026 00:00:00 GMT");
    assert_replaced(reader.get_raw(15_001).map(drop), &place);
}

#[test]
fn a_dataset_that_is_replaced_while_it_is_opened_is_an_error() {
    let place = Place::new(2000, 20, true);
    let other = Place::new(3000, 20, true);
    // New data, old offsets.
    other.server.upload(place.local.path(), "/d");
    other.server.put("/d/set.msgpack", std::fs::read(other.local.path()).unwrap());
    let error = other.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

#[test]
fn a_side_file_of_another_version_is_an_error() {
    let place = Place::new(2000, 20, true);
    let reader = place.open();
    // Opened when it is needed, by when the dataset is another one.
    place.replace();
    let error = reader.keys().find_map(|key| key.err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
}
