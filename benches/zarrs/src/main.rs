//! The operations of `../arrays_peers.py` by zarrs, one line of JSON each.
//!
//! `zarrs-peer DIR LAYOUT ROWS COLUMNS CHUNK TIMES`: the array has `ROWS` × `COLUMNS` elements of
//! type float32 in chunks of `CHUNK` × `CHUNK`, and each number is the best of `TIMES`.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use zarrs::array::codec::BloscCodec;
use zarrs::array::codec::{BloscCompressor, BloscShuffleMode};
use zarrs::array::{Array, ArrayBuilder, ArraySubset, data_type};
use zarrs::filesystem::FilesystemStore;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, layout, numbers @ ..] = &args[..] else { return Err("expected six arguments".into()) };
    let numbers: Vec<u64> = numbers.iter().map(|n| n.parse()).collect::<std::result::Result<_, _>>()?;
    let [rows, columns, chunk, times] = numbers[..] else { return Err("expected numbers".into()) };
    let content: Vec<f32> = (0..rows * columns)
        .map(|i| ((i / 64) as f32).sin() + (i * 7919 % 13) as f32 / 1e4)
        .collect();
    let path = Path::new(dir).join("zarrs");
    let create = || -> Result<Array<FilesystemStore>> {
        let _ = std::fs::remove_dir_all(&path);
        let store = Arc::new(FilesystemStore::new(&path)?);
        let (level, size) = (5.try_into().map_err(|_| "level")?, Some(4));
        let (lz4, shuffle) = (BloscCompressor::LZ4, BloscShuffleMode::Shuffle);
        let blosc = BloscCodec::new(lz4, level, None, shuffle, size)?;
        let shape = vec![rows, columns];
        let mut new = ArrayBuilder::new(shape, vec![chunk, chunk], data_type::float32(), 0.0f32);
        let array = new.bytes_to_bytes_codecs(vec![Arc::new(blosc)]).build(store, "/")?;
        array.store_metadata()?;
        Ok(array)
    };
    let open = || -> Result<Array<FilesystemStore>> {
        Ok(Array::open(Arc::new(FilesystemStore::new(&path)?), "/")?)
    };
    let all = ArraySubset::new_with_shape(vec![rows, columns]);
    let row = ArraySubset::new_with_ranges(&[300..301, 0..columns]);
    let more = ArraySubset::new_with_ranges(&[rows..rows + chunk, 0..columns]);
    let tell = |op: &str, work: &mut dyn FnMut() -> Result<f64>| -> Result<()> {
        let mut best = f64::INFINITY;
        for _ in 0..times {
            best = best.min(work()?);
        }
        println!(r#"{{"who":"zarrs","layout":"{layout}","op":"{op}","seconds":{best:e}}}"#);
        Ok(())
    };
    let timed = |work: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
        let start = Instant::now();
        work()?;
        Ok(start.elapsed().as_secs_f64())
    };
    tell("write all", &mut || timed(&mut || Ok(create()?.store_array_subset(&all, &content[..])?)))?;
    tell("read all", &mut || {
        timed(&mut || {
            let found: Vec<f32> = open()?.retrieve_array_subset(&all)?;
            assert_eq!(found.len(), content.len());
            Ok(())
        })
    })?;
    tell("get a row", &mut || {
        let array = open()?;
        timed(&mut || Ok(drop(array.retrieve_array_subset::<Vec<f32>>(&row)?)))
    })?;
    tell("get it again", &mut || {
        let array = open()?;
        for _ in 0..2 {
            drop(array.retrieve_array_subset::<Vec<f32>>(&row)?);
        }
        timed(&mut || Ok(drop(array.retrieve_array_subset::<Vec<f32>>(&row)?)))
    })?;
    tell("get 64 rows", &mut || {
        let array = open()?;
        timed(&mut || {
            for row in 256..320 {
                let row = ArraySubset::new_with_ranges(&[row..row + 1, 0..columns]);
                drop(array.retrieve_array_subset::<Vec<f32>>(&row)?);
            }
            Ok(())
        })
    })?;
    let sevens = vec![7.0f32; columns as usize];
    tell("set a row", &mut || {
        let array = open()?;
        timed(&mut || Ok(array.store_array_subset(&row, &sevens[..])?))
    })?;
    let rows_more = &content[..(chunk * columns) as usize];
    tell("append", &mut || {
        let mut array = open()?;
        timed(&mut || {
            array.set_shape(vec![rows + chunk, columns])?;
            array.store_array_subset(&more, rows_more)?;
            Ok(array.store_metadata()?)
        })
    })?;
    tell("resize", &mut || {
        let mut array = open()?;
        let seconds = timed(&mut || {
            array.set_shape(vec![rows * 2, columns])?;
            Ok(array.store_metadata()?)
        })?;
        array.set_shape(vec![rows, columns])?;
        array.store_metadata()?;
        Ok(seconds)
    })
}
