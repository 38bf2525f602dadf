//! What do whole operations on a chunked array cost? Our side of `arrays_peers.py`, which compares.
//!
//! `cargo bench --features c-blosc --bench arrays -- DIR LAYOUT ROWS COLUMNS CHUNK TIMES`: the array has `ROWS` ×
//! `COLUMNS` elements of type float32 in chunks of `CHUNK` × `CHUNK`. A line of JSON for each
//! operation, the best of `TIMES`: in a directory (lz4, level 5, bytes shuffled, not synced), and
//! staged in memory.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::path::Path;
use std::time::Instant;

use kiste::array::{ArrayOptions, ArrayStore, ChunkedArray, StagedArray};
use kiste::value::{DType, NdArray};
use kiste::{Error, Result};

/// A layout and where its array is.
struct Run<'a> {
    path: &'a Path,
    layout: &'a str,
    shape: [usize; 2],
    chunk: usize,
    times: usize,
    content: Vec<f32>,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let numbers: Vec<usize> = args.iter().skip(2).filter_map(|arg| arg.parse().ok()).collect();
    let ([dir, layout, ..], [rows, columns, chunk, times]) = (&args[..], &numbers[..]) else {
        println!("to be called by benches/arrays_peers.py");
        return Ok(());
    };
    let number = |i: usize| ((i / 64) as f32).sin() + (i * 7919 % 13) as f32 / 1e4;
    let run = Run {
        path: &Path::new(dir).join("kiste"),
        layout,
        shape: [*rows, *columns],
        chunk: *chunk,
        times: *times,
        content: (0..rows * columns).map(number).collect(),
    };
    run.directory()?;
    run.staged()
}

impl Run<'_> {
    /// Prints the best time of what is done between the two parts of `work`.
    fn tell(&self, who: &str, op: &str, mut work: impl FnMut() -> Result<f64>) -> Result<()> {
        let mut best = f64::INFINITY;
        for _ in 0..self.times {
            best = best.min(work()?);
        }
        let layout = self.layout;
        println!(r#"{{"who":"{who}","layout":"{layout}","op":"{op}","seconds":{best:e}}}"#);
        Ok(())
    }

    fn rows(&self, rows: usize) -> Result<NdArray<'_>> {
        let bytes = bytemuck::cast_slice(&self.content[..rows * self.shape[1]]);
        NdArray::new(DType::of::<f32>(), [rows, self.shape[1]], bytes)
    }

    fn create(&self, rows: usize) -> Result<ArrayStore> {
        if self.path.exists() {
            std::fs::remove_dir_all(self.path).map_err(|e| Error::io(self.path, e))?;
        }
        let options = ArrayOptions::default().chunk_shape([self.chunk; 2]).durable(false);
        options.create(self.path, DType::of::<f32>(), &[rows, self.shape[1]])
    }

    /// With every commit, reopened where the peers do so too.
    fn directory(&self) -> Result<()> {
        let [rows, columns] = self.shape;
        let all = self.rows(rows)?;
        self.tell("kiste", "write all", || {
            timed(|| self.create(0)?.append(&all, "all").map(drop))
        })?;
        self.tell("kiste", "read all", || {
            timed(|| ChunkedArray::open(self.path)?.get::<f32>(..).map(drop))
        })?;
        self.tell("kiste", "get a row", || {
            let array = ChunkedArray::open(self.path)?;
            timed(|| array.get::<f32>(300).map(drop))
        })?;
        self.tell("kiste", "get it again", || {
            let array = ChunkedArray::open(self.path)?;
            // A large block is kept when it is needed for the second time.
            (0..2).try_for_each(|_| array.get::<f32>(300).map(drop))?;
            timed(|| array.get::<f32>(300).map(drop))
        })?;
        self.tell("kiste", "get 64 rows", || {
            let array = ChunkedArray::open(self.path)?;
            timed(|| (256..320_usize).try_for_each(|row| array.get::<f32>(row).map(drop)))
        })?;
        let store = || ArrayOptions::default().durable(false).open_store(self.path);
        let mut seven = 7.0_f32;
        self.tell("kiste", "set a row", || {
            let mut store = store()?;
            let mut staged = store.stage()?;
            // Another value each time: an unchanged value would not be written.
            seven += 1.0;
            timed(|| {
                staged.set_scalar(300, seven)?;
                store.commit(&mut staged, "a row").map(drop)
            })
        })?;
        let more = self.rows(self.chunk)?;
        self.tell("kiste", "append", || {
            let mut store = store()?;
            store.resize(&[rows, columns], "as before")?;
            timed(|| store.append(&more, "rows").map(drop))
        })?;
        self.tell("kiste", "resize", || {
            let mut store = store()?;
            store.resize(&[rows, columns], "as before")?;
            timed(|| store.resize(&[rows * 2, columns], "twice").map(drop))
        })
    }

    /// Changes in memory alone, over chunks in memory.
    fn staged(&self) -> Result<()> {
        let [rows, columns] = self.shape;
        let all = self.rows(rows)?;
        let base = StagedArray::from_array(&all, &[self.chunk; 2], &[0; 4])?;
        let mut out = vec![1_u8; all.bytes().len()];
        let who = "kiste, staged";
        self.tell(who, "memcpy", || {
            timed(|| {
                out.copy_from_slice(std::hint::black_box(all.bytes()));
                Ok(())
            })
        })?;
        self.tell(who, "read all", || timed(|| base.read_into(.., &mut out)))?;
        self.tell(who, "get a row", || timed(|| base.get::<f32>(300).map(drop)))?;
        let copied = || -> Result<StagedArray> { Ok(base.clone()) };
        self.tell(who, "write all", || {
            let mut array = copied()?;
            timed(|| array.write(.., &all))
        })?;
        self.tell(who, "set a row", || {
            let mut array = copied()?;
            timed(|| array.set_scalar(300, 7.0_f32))
        })?;
        let more = self.rows(self.chunk)?;
        self.tell(who, "append", || {
            let mut array = copied()?;
            timed(|| array.append_array(&more))
        })?;
        self.tell(who, "resize", || {
            let mut array = copied()?;
            timed(|| array.resize(&[rows * 2, columns]))
        })
    }
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}
