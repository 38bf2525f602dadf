//! What other libraries write, read as samples: files of the real ones, and damaged ones.

use std::fs;
use std::path::{Path, PathBuf};

use kiste::convert::{InOrder, Input, Source};
use kiste::format::msgpack::{self, numpy::Special};
use kiste::{Result, Value};
use serde_json::{Value as Json, json};

use crate::support::hex;

#[cfg(feature = "formats")]
mod tfrecord;
mod cifar;
mod coco;
#[cfg(feature = "formats")]
mod csv;
#[cfg(feature = "images")]
mod images;
mod mds;
#[cfg(feature = "zip")]
mod npz;
#[cfg(feature = "parquet")]
mod parquet;
mod units;
mod webdataset;

fn dir(producer: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(producer)
}

fn manifest(producer: &str) -> Json {
    serde_json::from_slice(&fs::read(dir(producer).join("manifest.json")).unwrap()).unwrap()
}

/// All samples, unit by unit.
fn packed(input: &dyn Input) -> Result<Vec<Vec<u8>>> {
    let mut samples = Vec::new();
    for unit in 0..input.units() {
        input.read(unit, &mut |sample| {
            let sample = sample?;
            msgpack::check_sample(&sample)?;
            samples.push(sample);
            Ok(())
        })?;
    }
    Ok(samples)
}

/// All samples, which must be the same on any number of threads.
fn samples(input: impl Input + Clone + 'static) -> Result<Vec<Value>> {
    let expected = packed(&input)?;
    for threads in [1, 3] {
        let mut source = InOrder::with_threads(input.clone(), threads);
        let mut found = Vec::new();
        loop {
            let batch = source.next_batch()?;
            if batch.is_empty() {
                break;
            }
            found.extend(batch.into_iter().collect::<Result<Vec<_>>>()?);
        }
        assert_eq!(found, expected);
    }
    Ok(expected.iter().map(|sample| msgpack::decode(sample).unwrap()).collect())
}

/// A value as the manifests have it.
fn plain(value: &Value) -> Json {
    match msgpack::numpy::recognise(value) {
        Some(Special::Array(array)) => {
            return json!({
                "array": array.dtype().to_string(), "shape": array.shape(),
                "data": hex(&array.c_bytes()),
            });
        }
        Some(Special::Scalar(array)) => {
            return json!({"scalar": array.dtype().to_string(), "data": hex(&array.c_bytes())});
        }
        _ => {}
    }
    match value {
        Value::Binary(bytes) => json!({"bytes": hex(bytes)}),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Map(entries) => {
            let entry =
                |(name, value): &(Value, Value)| (name.as_str().unwrap().to_owned(), plain(value));
            Json::Object(entries.iter().map(entry).collect())
        }
        other => serde_json::to_value(other).unwrap(),
    }
}

/// Reads damaged forms of a file, at every `step`-th byte: cut there, or with a bit of it turned.
/// Errors must name the file; where there is none, what came out is given back.
fn damage(
    path: &Path,
    step: usize,
    cut: bool,
    read: impl Fn(&Path) -> Result<String>,
) -> Vec<(usize, String)> {
    let whole = fs::read(path).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let damaged = scratch.path().join(path.file_name().unwrap());
    let mut passed = Vec::new();
    for at in (0..whole.len()).step_by(step) {
        let mut bytes = whole.clone();
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << (at % 8);
        }
        fs::write(&damaged, bytes).unwrap();
        match read(&damaged) {
            Ok(found) => passed.push((at, found)),
            Err(error) => {
                let path = error.path().unwrap_or_else(|| panic!("{error:?} names no file"));
                assert!(path.starts_with(scratch.path()), "{error:?}");
            }
        }
    }
    passed
}
