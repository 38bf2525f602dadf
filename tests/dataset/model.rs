//! Random operations against the plainest model there is: a list of samples.

use std::path::PathBuf;
use std::sync::Arc;

use kiste::format::msgpack;
use kiste::repair::Repair;
use kiste::storage::MemoryStorage;
use kiste::verify::Verify;
use kiste::{ErrorKind, Value, Writer};

use crate::support::{Random, open_in, snapshot};

type Model = Vec<(String, Vec<u8>)>;

/// Keys as nobody would choose them, from few enough that some come again.
fn key(random: &mut Random) -> String {
    let n = random.below(60);
    match random.below(8) {
        0 => String::new(),
        1 => "k".repeat(n * 7),
        2 => format!("Schlüssel {n}"),
        3 => format!("鍵/{n}/🗝"),
        4 => format!("\u{1b}[31m\0{n}\n"),
        5 => format!("e\u{301}{n}"),
        _ => format!("{n}"),
    }
}

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 8 } else { 10 }) {
        0 => Value::Nil,
        1 => Value::from(random.next() as i64),
        2 => Value::from(random.next()),
        3 => Value::from(random.below(100) as i64 - 50),
        4 => Value::F64(f64::from_bits(random.next() >> 2)),
        5 => Value::Boolean(random.below(2) == 0),
        6 => Value::from(key(random)),
        7 => Value::Binary(vec![random.next() as u8; random.below(400)]),
        8 => Value::Array((0..random.below(5)).map(|_| value(random, depth - 1)).collect()),
        _ => Value::Map(
            (0..random.below(5)).map(|_| (key(random).into(), value(random, depth - 1))).collect(),
        ),
    }
}

fn sample(random: &mut Random) -> (String, Value) {
    let key = key(random);
    let mut fields: Vec<(Value, Value)> =
        (0..random.below(4)).map(|i| (format!("f{i}").into(), value(random, 2))).collect();
    let at = random.below(fields.len() + 1);
    fields.insert(at, ("key".into(), key.as_str().into()));
    (key, Value::Map(fields))
}

/// Writes some samples, a few of them twice, and puts them into the model.
fn write_some(random: &mut Random, writer: &mut Writer, model: &mut Model) {
    for _ in 0..random.below(25) {
        let (key, sample) = sample(random);
        let packed = msgpack::to_vec(&sample).unwrap();
        let there = model.iter().any(|(k, _)| *k == key);
        assert_eq!(writer.contains_key(&key).unwrap(), there);
        let result = match random.below(4) {
            0 => writer.write_value(&sample),
            1 => writer.write(&sample),
            2 => writer.write_raw(&key, &packed),
            _ => writer.write_packed(&packed),
        };
        match result {
            Ok(()) => {
                assert!(!there);
                model.push((key, packed));
            }
            Err(e) => assert_eq!((e.kind(), there), (ErrorKind::DuplicateKey, true)),
        }
        if random.below(10) == 0 {
            writer.flush().unwrap();
        }
        assert_eq!(writer.len(), model.len() as u64);
    }
}

fn compare(random: &mut Random, storage: &MemoryStorage, model: &Model) {
    let reader = open_in(storage, &PathBuf::from("x")).unwrap();
    assert_eq!(reader.len(), model.len());
    if random.below(3) == 0 {
        reader.prepare_keys().unwrap();
    }
    for _ in 0..40 {
        let wanted = key(random);
        let expected = model.iter().position(|(key, _)| *key == wanted);
        assert_eq!(reader.find(&wanted).unwrap(), expected, "{wanted:?}");
        assert_eq!(reader.contains_key(&wanted).unwrap(), expected.is_some(), "{wanted:?}");
    }
    // From a few keys to more than a table costs.
    let wanted: Vec<String> = (0..random.below(300)).map(|_| key(random)).collect();
    let expected = wanted.iter().map(|wanted| model.iter().position(|(key, _)| key == wanted));
    assert_eq!(reader.find_many(&wanted).unwrap(), expected.collect::<Vec<_>>(), "{wanted:?}");
    let end = random.below(model.len() + 1);
    let start = random.below(end + 1);
    let found: Vec<Vec<u8>> =
        reader.iter_raw(start..end).map(|raw| raw.unwrap().into_owned()).collect();
    assert!(found.iter().eq(model[start..end].iter().map(|(_, raw)| raw)));
    for (index, (key, raw)) in model.iter().enumerate() {
        assert_eq!(reader.key(index).unwrap(), *key);
        assert_eq!(*reader.get_raw(index).unwrap(), **raw);
        assert_eq!(msgpack::to_vec(&reader.get(index).unwrap()).unwrap(), *raw);
    }
    let verify = Verify::of("x").deep(true).storage(Arc::new(storage.clone()));
    assert_eq!(verify.run().unwrap().problems, []);
}

#[test]
fn random_operations_do_what_a_list_does() {
    for seed in 0..25 {
        let mut random = Random(seed);
        let storage = MemoryStorage::new();
        let options = || Writer::options().storage(Arc::new(storage.clone())).durable(false);
        let mut model = Model::new();
        options().create("x").unwrap().finish().unwrap();
        for _ in 0..12 {
            let before = snapshot(&storage);
            let lookup = random.below(3) == 0;
            let (mut writer, mut next) = match random.below(4) {
                0 => (options().lookup(lookup).overwrite(true).create("x").unwrap(), Model::new()),
                _ => (options().lookup(lookup).append("x").unwrap(), model.clone()),
            };
            write_some(&mut random, &mut writer, &mut next);
            match random.below(6) {
                0 => {
                    writer.abort().unwrap();
                    assert_eq!(snapshot(&storage), before);
                }
                1 => {
                    drop(writer);
                    let repair = Repair::of("x").storage(Arc::new(storage.clone()));
                    if repair.leftover().unwrap().is_some() {
                        repair.undo().unwrap();
                    }
                    assert_eq!(snapshot(&storage), before);
                }
                2 => {
                    drop(writer);
                    let mut writer = match options().resume("x") {
                        Ok(writer) => writer,
                        // Nothing had been written.
                        Err(e) if e.kind() == ErrorKind::NotFound => continue,
                        Err(e) => panic!("{e}"),
                    };
                    assert_eq!(writer.len(), next.len() as u64);
                    write_some(&mut random, &mut writer, &mut next);
                    writer.finish().unwrap();
                    model = next;
                }
                _ => {
                    assert_eq!(writer.finish().unwrap().samples, next.len() as u64);
                    model = next;
                }
            }
            compare(&mut random, &storage, &model);
        }
    }
}
