//! What is allocated for images once everything is warm, counted by the allocator.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use kiste::Value;
use kiste::image::{Pipeline, Worker};
use kiste::loader::{
    Batch, ColumnBatch, ColumnMemory, Columns, Loader, LoaderOptions, Memory, Window,
};
use kiste::reader::ListReader;
use kiste::sampler::Shuffle;
use kiste::sampler::rng::StableRng;

use super::parts::{Kind, kinds};
use crate::loader::nd;

thread_local! {
    /// Of this thread, because other tests run at the same time: how often memory was allocated, and how many
    /// bytes are in use.
    static COUNTED: Cell<(u64, i64)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(times: u64, bytes: i64) {
    // A thread that ends has no counter any more.
    let _ = COUNTED.try_with(|counted| {
        let (all, in_use) = counted.get();
        counted.set((all + times, in_use + bytes));
    });
}

// SAFETY: passes every call on to the allocator of the system.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        // SAFETY: as promised by the caller.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// How often this allocates.
fn allocations(run: impl FnOnce()) -> u64 {
    let (before, _) = COUNTED.get();
    run();
    COUNTED.get().0 - before
}

fn in_use() -> i64 {
    COUNTED.get().1
}

/// What the decoder allocates for itself, for images that one in Rust decodes: nothing of it can be kept.
fn of_the_decoder(kind: &Kind, jpeg: &[u8]) -> u64 {
    use zune_jpeg::JpegDecoder;
    use zune_jpeg::zune_core::bytestream::ZCursor;

    if cfg!(feature = "turbo") && kind.is_usual() {
        return 0;
    }
    let mut out = vec![0; 1 << 20];
    allocations(|| JpegDecoder::new(ZCursor::new(jpeg)).decode_into(&mut out).unwrap())
}

const PIPELINES: [&str; 5] = [
    "random_resized_crop(24) | hflip | to(f32, chw) | normalize(imagenet)",
    "resize(40, bicubic) | center_crop(33) | color_jitter(0.4, 0.4, 0.4, 0.1) | to(f32)",
    "resize((20, 60), lanczos) | random_crop(20, padding=4) | vflip | to(f32)",
    "pad(3, padding_mode=edge) | resize((20, 60), nearest) | to(f32, chw)",
    "decode(gray) | random_resized_crop(30) | to(f32, chw) | normalize(0.5, 0.5)",
];

#[test]
fn a_warm_worker_allocates_nothing_but_for_the_decoder() {
    for kind in kinds().iter().filter(|kind| kind.restart == 0) {
        let jpeg = kind.encode(83, 61);
        for text in PIPELINES {
            let mut worker = Worker::<f32>::new(text.parse().unwrap()).unwrap();
            let mut out = Vec::new();
            let mut run = |seed| {
                let mut rng = StableRng::new(&[seed]);
                worker.run(&jpeg, &mut rng, &mut out).map(|_| ())
            };
            // Several times, because images swap the two buffers of pixels, and each has to grow.
            if (0..4).flat_map(|_| 0..5).try_for_each(&mut run).is_err() {
                continue;
            }
            let found = allocations(|| (0..5).try_for_each(run).unwrap());
            // It needs less where it leaves out colours.
            assert!(found <= 5 * of_the_decoder(kind, &jpeg), "{} {text}: {found}", kind.name);
        }
    }
}

#[derive(serde::Serialize)]
struct Sample {
    key: String,
    image: serde_bytes::ByteBuf,
    label: i64,
    /// Arrays of NumPy.
    grid: Value,
    rows: Value,
}

const SAMPLES: u64 = 24;
/// Batches of an epoch, each of eight samples.
const BATCHES: usize = 3;

fn samples() -> Arc<ListReader> {
    let kind = &kinds()[0];
    let samples = (0..SAMPLES as u16).map(|at| Sample {
        key: at.to_string(),
        image: serde_bytes::ByteBuf::from(kind.encode(60 + at % 5, 70 - at % 7)),
        label: i64::from(at),
        grid: nd("<f4", &[2, 3], &[at as u8; 24]),
        rows: nd("<i2", &[u64::from(at) % 4, 2], &vec![1; usize::from(at) % 4 * 4]),
    });
    Arc::new(ListReader::pack(samples).unwrap())
}

fn columns() -> Columns {
    let text = "random_resized_crop(24) | hflip | to(f32, chw) | normalize(imagenet)";
    let small = "resize((20, 20))";
    Columns::new()
        .image::<f32>("image", text.parse::<Pipeline>().unwrap())
        .image_as::<u8>("small", "image", small.parse::<Pipeline>().unwrap())
        .scalar::<i64>("label")
        .array::<f32>("grid", &[2, 3])
}

/// What the decoder allocates for a batch, at most: each image is decoded for two columns.
const OF_THE_DECODER: u64 = if cfg!(feature = "turbo") { 0 } else { 2 * 8 * 40 };
/// The order of an epoch, which its first batch makes.
const OF_AN_ORDER: u64 = 2;

/// Runs a loader without threads, so that this one is counted, for five epochs. Once warm, a batch allocates
/// `each` times.
fn is_flat(
    mut loader: Loader<ColumnBatch>,
    each: u64,
    done: fn(&Loader<ColumnBatch>, Batch<ColumnBatch>),
) {
    let (mut used, mut counts) = (Vec::with_capacity(5), Vec::with_capacity(5 * BATCHES));
    for _ in 0..5 {
        for _ in 0..BATCHES {
            let found = allocations(|| {
                let batch = loader.next().unwrap().unwrap();
                assert_eq!(batch.data.array::<f32>("image").unwrap().shape(), [8, 3, 24, 24]);
                assert_eq!(batch.data.array::<u8>("small").unwrap().shape(), [8, 20, 20, 3]);
                assert_eq!(batch.data.values::<i64>("label").unwrap().len(), 8);
                done(&loader, batch);
            });
            counts.push(found);
        }
        used.push(in_use());
    }
    // Everything is warm after the first epoch.
    assert!(used[1..].iter().all(|bytes| *bytes == used[1]), "{used:?}");
    for (at, &found) in counts.iter().enumerate().skip(BATCHES) {
        let expected = each + if at % BATCHES == 0 { OF_AN_ORDER } else { 0 };
        let most = expected + OF_THE_DECODER;
        assert!((expected..=most).contains(&found), "{expected}..={most}: {counts:?}");
    }
}

fn options() -> LoaderOptions {
    Loader::options(samples(), Shuffle::new(SAMPLES, 1)).batch_size(8).epochs(5)
}

#[test]
fn a_warm_batch_allocates_nothing_if_the_last_is_given_back() {
    let loader = options().threads(0).columns(columns()).unwrap();
    is_flat(loader, 0, |loader, batch| loader.reuse(batch));
}

/// Columns that memory of the caller cannot be used for, too.
#[test]
fn rows_of_any_number_allocate_nothing_once_warm() {
    let columns = columns().ragged::<i16>("rows", &[2]).window_as::<f32>(
        "row",
        "grid",
        1,
        &[3],
        Window::Start,
    );
    let loader = options().threads(0).columns(columns).unwrap();
    is_flat(loader, 0, |loader, batch| loader.reuse(batch));
}

#[test]
fn a_batch_that_is_dropped_costs_its_list_of_indices() {
    let loader = options().threads(0).columns(columns()).unwrap();
    is_flat(loader, 1, |_, batch| drop(batch));
}

#[test]
fn memory_of_the_caller_is_flat_over_epochs() {
    let sets = (0..3).map(|_| {
        let memory = |name: &str, bytes: usize| {
            (name.to_owned(), Box::new(vec![0u8; bytes]) as Box<dyn Memory>)
        };
        let images = memory("image", 4 * 8 * 3 * 24 * 24);
        let small = memory("small", 8 * 3 * 20 * 20);
        vec![images, small, memory("label", 8 * 8), memory("grid", 8 * 24)]
    });
    let memory = ColumnMemory::new(columns(), 8, sets.collect()).unwrap();
    let loader = options().threads(0).columns_in(&memory).unwrap();
    is_flat(loader, 0, |loader, batch| loader.reuse(batch));
}

/// Each sample has the thread that made it, and what that had allocated so far.
#[test]
fn warm_threads_allocate_nothing_but_for_the_decoder() {
    const EPOCHS: u64 = 100;
    let columns = columns().row::<u64>("counted", &[2], |_, row| {
        row.copy_from_slice(&COUNTED.with(|counted| [counted as *const _ as u64, counted.get().0]));
        Ok(())
    });
    let mut loader = options().epochs(EPOCHS).threads(2).columns(columns).unwrap();
    let mut threads: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut of_the_caller = 0;
    while let Some(batch) = loader.next() {
        let batch = batch.unwrap();
        for row in batch.data.values::<u64>("counted").unwrap().chunks(2) {
            let (_, last) = threads.entry(row[0]).or_insert((row[1], row[1]));
            *last = row[1];
        }
        of_the_caller += allocations(|| loader.reuse(batch));
    }
    let found: u64 = threads.values().map(|(first, last)| last - first).sum();
    // Buffers are made when a thread or the queue first needs them, at some time in the run, and then grow.
    const UNTIL_WARM: u64 = 200;
    let most = EPOCHS * (OF_AN_ORDER + BATCHES as u64 * OF_THE_DECODER) + UNTIL_WARM;
    assert!(found <= most && of_the_caller < 9, "{found}, {of_the_caller}: {threads:?}");
}
