//! What is allocated for images once everything is warm, counted by the allocator.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use kiste::image::{Pipeline, Worker};
use kiste::loader::{ColumnMemory, Columns, Loader, Memory};
use kiste::reader::ListReader;
use kiste::sampler::Shuffle;
use kiste::sampler::rng::StableRng;

use super::parts::{Kind, kinds};

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
            if (0..5).try_for_each(&mut run).is_err() {
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
}

/// A loader that gets its memory from the caller, without threads, so that this one is counted.
#[test]
fn memory_is_flat_over_epochs() {
    let kind = &kinds()[0];
    let samples = (0..24u16).map(|at| Sample {
        key: at.to_string(),
        image: serde_bytes::ByteBuf::from(kind.encode(60 + at % 5, 70 - at % 7)),
    });
    let reader = Arc::new(ListReader::pack(samples).unwrap());
    let text = "random_resized_crop(24) | hflip | to(f32, chw) | normalize(imagenet)";
    let columns = || Columns::new().image::<f32>("image", text.parse::<Pipeline>().unwrap());
    let sets = (0..3).map(|_| {
        let memory = vec![0u8; 4 * 8 * 3 * 24 * 24];
        vec![("image".to_owned(), Box::new(memory) as Box<dyn Memory>)]
    });
    let memory = ColumnMemory::new(columns(), 8, sets.collect()).unwrap();
    let options = Loader::options(reader, Shuffle::new(24, 1)).batch_size(8).threads(0).epochs(4);
    let mut loader = options.columns_in(&memory).unwrap();
    let (mut used, mut counts) = (Vec::with_capacity(4), Vec::with_capacity(12));
    for _ in 0..4 {
        for _ in 0..3 {
            let found = allocations(|| {
                let batch = loader.next().unwrap().unwrap();
                assert_eq!(batch.data.array::<f32>("image").unwrap().shape(), [8, 3, 24, 24]);
            });
            counts.push(found);
        }
        used.push(in_use());
    }
    // Everything is warm after the first epoch.
    assert!(used[1] == used[2] && used[2] == used[3], "{used:?}");
    // What the loader needs for a batch, whatever its size, is not for images.
    let of_images = if cfg!(feature = "turbo") { 0 } else { 8 * 40 };
    assert!(counts[3..].iter().all(|&count| count < 20 + of_images), "{counts:?}");
}
