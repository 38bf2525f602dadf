//! A small convolutional network that learns from pictures with augmentation, with a pause in the middle.
//!
//! ```sh
//! cargo run --release --example images --features images
//! ```
//!
//! The loader decodes PNGs, moves each picture a little, changes its brightness and normalises it, on its
//! threads. The random changes of a picture follow from the seed, the epoch and the position in the
//! epoch. So a run that is stopped in the middle of an epoch and resumed on another number of ranks
//! sees the same pixels, and ends at the same weights, bit for bit.
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use kiste::image::Pipeline;
use kiste::loader::{ColumnBatch, Columns, Loader};
use kiste::sampler::{Sequential, Shuffle, State, Tail, rng::StableRng};
use kiste::{DatasetReader, Reader, ReaderExt};
use ndarray::{Array2, ArrayView2, Axis, Zip};
use serde::{Deserialize, Serialize};

type Res<T> = Result<T, Box<dyn Error>>;

const DIGITS: &str = "datasets/digits/digits.msgpack";
const SEED: u64 = 42;
const TRAIN: &str = "seed(42) | decode(gray) | random_crop(28, padding=2) | color_jitter(brightness=0.3) \
                     | to(f32) | normalize(0.1, 0.3)";
const TEST: &str = "decode(gray) | center_crop(28) | to(f32) | normalize(0.1, 0.3)";

/// Samples in a step of all ranks together.
const STEP: usize = 32;
/// Samples whose gradients are summed in one go; the sums are then added in a fixed order. In
/// floating point `(a + b) + (c + d)` is not `a + b + c + d`, so a program that wants the same bits on any
/// number of ranks sums in the same portions everywhere.
const PORTION: usize = 16;
const RATE: f32 = 0.02;
const MOMENTUM: f32 = 0.9;

/// Each layer halves the sides of the picture: 28, 14, 7.
const SIDE: usize = 28;
const CHANNELS: [usize; 3] = [1, 8, 16];
const CLASSES: usize = 10;

fn main() -> Res<()> {
    run(6)?;
    Ok(())
}

/// Everything; returns the share of test pictures that are recognised.
pub(crate) fn run(epochs: u64) -> Res<f64> {
    let (train, test) = split(Path::new(DIGITS))?;
    println!("{} pictures to train with, {} to test with", train.len(), test.len());
    let start = State::default();
    let end = State::new(epochs, 0);

    println!("\nwithout a pause: 1 rank, 2 threads");
    let mut model = Model::new();
    let begin = Instant::now();
    Run { ranks: 1, threads: 2 }.train(&mut model, &train, &test, start, end)?;
    println!("  {:.1} s", begin.elapsed().as_secs_f64());

    println!("\nwith a pause: 1 rank, 1 thread");
    let mut paused = Model::new();
    let pause = State::new(epochs / 2, 1600);
    let state = Run { ranks: 1, threads: 1 }.train(&mut paused, &train, &test, start, pause)?;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("checkpoint.json");
    Checkpoint { state, model: paused }.save(&file)?;
    println!("  stopped and saved at {}", serde_json::to_string(&state)?);

    println!("resumed: 2 ranks, 3 threads each (the first loss covers the rest of its epoch)");
    let Checkpoint { state, model: mut resumed } = Checkpoint::load(&file)?;
    Run { ranks: 2, threads: 3 }.train(&mut resumed, &train, &test, state, end)?;

    let bits = |model: &Model| model.weights.concat().into_iter().map(f32::to_bits);
    let equal = bits(&model).zip(bits(&resumed)).filter(|(a, b)| a == b).count();
    println!("\nthe same, bit for bit: {equal} of {} weights", bits(&model).count());
    assert!(bits(&model).eq(bits(&resumed)), "a pause must not change anything");

    let accuracy = accuracy(&resumed, &test)?;
    println!("test accuracy: {:.1} %", 100.0 * accuracy);
    Ok(accuracy)
}

/// Every fifth picture is for the test. They are stored label by label, so both parts have equally many
/// of each.
fn split(path: &Path) -> Res<(Arc<dyn Reader>, Arc<dyn Reader>)> {
    let digits = Arc::new(DatasetReader::open(path)?);
    let is_test = |index: &usize| index % 5 == 4;
    let train = digits.clone().select((0..digits.len()).filter(|index| !is_test(index)))?;
    let test = digits.clone().select((0..digits.len()).filter(is_test))?;
    Ok((Arc::new(train), Arc::new(test)))
}

fn columns(pipeline: &str) -> Res<Columns> {
    let pipeline: Pipeline = pipeline.parse()?;
    Ok(Columns::new().scalar::<u8>("label").image::<f32>("image", pipeline))
}

/// On how many ranks, and threads on each.
struct Run {
    ranks: usize,
    threads: usize,
}

impl Run {
    /// Trains from one state to another; returns the one that was reached.
    ///
    /// Real ranks are processes or machines, each with one of these loaders, and "all-reduce" the
    /// gradients of a step. Here they take turns.
    fn train(
        &self,
        model: &mut Model,
        train: &Arc<dyn Reader>,
        test: &Arc<dyn Reader>,
        start: State,
        end: State,
    ) -> Res<State> {
        let mut loaders = Vec::new();
        for rank in 0..self.ranks {
            let options = Loader::options(train.clone(), Shuffle::new(train.len() as u64, SEED))
                .rank(rank as u64, self.ranks as u64)
                .batch_size((STEP / self.ranks) as u64)
                .tail(Tail::Drop) // all steps are full
                .threads(self.threads)
                .resume(start)
                .until(end);
            loaders.push(options.columns(columns(TRAIN)?)?);
        }
        let (mut state, mut loss, mut steps) = (start, 0.0, 0);
        'training: loop {
            let mut gradient = zeros();
            for loader in &mut loaders {
                // All ranks end with the same step, since all steps are full.
                let Some(batch) = loader.next() else { break 'training };
                let batch = batch?;
                loss += model.gradient(&batch.data, &mut gradient)?;
            }
            model.step(&gradient);
            steps += 1;
            // The same for all ranks, now that all have done this step.
            let after = loaders[0].state();
            if after.epoch != state.epoch {
                let (mean, right) = (loss / (steps * STEP) as f32, accuracy(model, test)?);
                println!("  epoch {}: loss {mean:.3}, test {:.1} %", after.epoch, 100.0 * right);
                (loss, steps) = (0.0, 0);
            }
            state = after;
        }
        Ok(state)
    }
}

/// The share of pictures that the network recognises.
fn accuracy(model: &Model, test: &Arc<dyn Reader>) -> Res<f64> {
    let order = Sequential::new(test.len() as u64);
    let options = Loader::options(test.clone(), order).batch_size(100).epochs(1);
    let mut right = 0;
    for batch in options.columns(columns(TEST)?)? {
        let batch = batch?.data;
        let layers = Layers::of(&model.arrays()?, batch.values::<f32>("image")?);
        for (scores, &label) in layers.scores.outer_iter().zip(batch.values::<u8>("label")?) {
            let best = (0..CLASSES).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
            right += usize::from(best == Some(usize::from(label)));
        }
    }
    Ok(right as f64 / test.len() as f64)
}

/// For each pixel of an output with half the sides, the 3 × 3 pixels around it; zeros outside.
fn around(pixels: &[f32], side: usize, channels: usize) -> Array2<f32> {
    let images = pixels.len() / (side * side * channels);
    let patches = images * (side / 2).pow(2);
    let mut out = vec![0.0; patches * 9 * channels];
    each_patch(images, side, |place, pixel| {
        let pixel = &pixels[pixel * channels..(pixel + 1) * channels];
        out[place * channels..(place + 1) * channels].copy_from_slice(pixel);
    });
    Array2::from_shape_vec((patches, 9 * channels), out).expect("as many elements")
}

/// The reverse: adds what belongs to a pixel.
fn back(patches: &Array2<f32>, side: usize, channels: usize) -> Array2<f32> {
    let images = patches.nrows() / (side / 2).pow(2);
    let patches = patches.as_slice().expect("a product is contiguous");
    let mut out = vec![0.0; images * side * side * channels];
    each_patch(images, side, |place, pixel| {
        let part = &patches[place * channels..(place + 1) * channels];
        let pixel = &mut out[pixel * channels..(pixel + 1) * channels];
        pixel.iter_mut().zip(part).for_each(|(pixel, part)| *pixel += part);
    });
    Array2::from_shape_vec((images * side * side, channels), out).expect("as many elements")
}

/// Each pixel that is in a patch: its place in all patches, and in all images.
fn each_patch(images: usize, side: usize, mut each: impl FnMut(usize, usize)) {
    let half = side / 2;
    for patch in 0..images * half * half {
        let (image, row, column) = (patch / (half * half), patch / half % half, patch % half);
        for (dy, dx) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)] {
            let (y, x) = (2 * row + dy, 2 * column + dx);
            if 0 < y && y <= side && 0 < x && x <= side {
                each(patch * 9 + 3 * dy + dx, (image * side + y - 1) * side + x - 1);
            }
        }
    }
}

const SHAPES: [(usize, usize); 6] = [
    (9 * CHANNELS[0], CHANNELS[1]),
    (1, CHANNELS[1]),
    (9 * CHANNELS[1], CHANNELS[2]),
    (1, CHANNELS[2]),
    (SIDE / 4 * (SIDE / 4) * CHANNELS[2], CLASSES),
    (1, CLASSES),
];

/// Weights and biases of two convolutions and of the layer after them, or their gradients.
type Arrays = [Array2<f32>; 6];

fn zeros() -> Arrays {
    SHAPES.map(Array2::zeros)
}

/// The outputs of the layers for some pictures.
struct Layers {
    patches: [Array2<f32>; 2],
    /// A row for each pixel.
    first: Array2<f32>,
    /// A row for each picture.
    second: Array2<f32>,
    scores: Array2<f32>,
}

impl Layers {
    fn of([k1, b1, k2, b2, w, b]: &Arrays, pixels: &[f32]) -> Layers {
        let positive = |x: f32| x.max(0.0);
        let patches1 = around(pixels, SIDE, CHANNELS[0]);
        let first = (patches1.dot(k1) + b1).mapv_into(positive);
        let of_first = first.as_slice().expect("a product is contiguous");
        let patches2 = around(of_first, SIDE / 2, CHANNELS[1]);
        let second = (patches2.dot(k2) + b2).mapv_into(positive);
        let images = pixels.len() / (SIDE * SIDE);
        let second = second.into_shape_with_order((images, w.nrows())).expect("the same elements");
        let scores = second.dot(w) + b;
        Layers { patches: [patches1, patches2], first, second, scores }
    }
}

/// All that a run has learned, and all that has to be saved of it.
#[derive(Serialize, Deserialize)]
struct Model {
    weights: Vec<Vec<f32>>,
    momentum: Vec<Vec<f32>>,
}

impl Model {
    /// Small random weights, the same in each run; biases are zero.
    fn new() -> Model {
        let mut rng = StableRng::new(&[SEED]);
        let mut arrays = zeros();
        for weights in [0, 2, 4] {
            let scale = (6.0 / arrays[weights].nrows() as f32).sqrt();
            // 24 bits make a number from 0 to 1 without rounding.
            let mut uniform = || (rng.next_u64() >> 40) as f32 / (1 << 24) as f32;
            arrays[weights].mapv_inplace(|_| scale * (2.0 * uniform() - 1.0));
        }
        let flat = |arrays: Arrays| arrays.map(|array| array.into_iter().collect()).to_vec();
        Model { weights: flat(arrays), momentum: flat(zeros()) }
    }

    fn arrays(&self) -> Res<Arrays> {
        let mut arrays = zeros();
        for (array, weights) in arrays.iter_mut().zip(&self.weights) {
            *array = Array2::from_shape_vec(array.dim(), weights.clone())?;
        }
        Ok(arrays)
    }

    /// Adds the gradients of a batch; returns the sum of its losses.
    fn gradient(&self, batch: &ColumnBatch, gradient: &mut Arrays) -> Res<f32> {
        let (pixels, labels) = (batch.values::<f32>("image")?, batch.values::<u8>("label")?);
        let arrays = self.arrays()?;
        let portions = pixels.chunks(PORTION * SIDE * SIDE).zip(labels.chunks(PORTION));
        Ok(portions.map(|(pixels, labels)| portion(&arrays, pixels, labels, gradient)).sum())
    }

    fn step(&mut self, gradient: &Arrays) {
        for ((weights, momentum), gradient) in
            self.weights.iter_mut().zip(&mut self.momentum).zip(gradient)
        {
            for ((weight, speed), by) in weights.iter_mut().zip(momentum).zip(gradient) {
                *speed = MOMENTUM * *speed + by / STEP as f32;
                *weight -= RATE * *speed;
            }
        }
    }
}

fn portion(arrays: &Arrays, pixels: &[f32], labels: &[u8], gradient: &mut Arrays) -> f32 {
    let Layers { patches, first, second, mut scores } = Layers::of(arrays, pixels);
    let mut loss = 0.0;
    // Scores to probabilities, and these to the derivatives of the loss: `p - 1` or `p`.
    for (mut scores, &label) in scores.outer_iter_mut().zip(labels) {
        let max = scores.fold(f32::NEG_INFINITY, |max, &score| max.max(score));
        scores.mapv_inplace(|score| (score - max).exp());
        let sum = scores.sum();
        scores /= sum;
        loss -= scores[usize::from(label)].ln();
        scores[usize::from(label)] -= 1.0;
    }
    let masked = |mut below: Array2<f32>, layer: ArrayView2<'_, f32>| {
        Zip::from(&mut below).and(&layer).for_each(|d, &x| *d *= f32::from(x > 0.0));
        below
    };
    gradient[4] += &second.t().dot(&scores);
    gradient[5] += &scores.sum_axis(Axis(0));
    let below = masked(scores.dot(&arrays[4].t()), second.view());
    let rows = below.len() / CHANNELS[2];
    let below = below.into_shape_with_order((rows, CHANNELS[2])).expect("the same elements");
    gradient[2] += &patches[1].t().dot(&below);
    gradient[3] += &below.sum_axis(Axis(0));
    let below = back(&below.dot(&arrays[2].t()), SIDE / 2, CHANNELS[1]);
    let below = masked(below, first.view());
    gradient[0] += &patches[0].t().dot(&below);
    gradient[1] += &below.sum_axis(Axis(0));
    loss
}

/// Both in one file, so that neither can be older than the other.
#[derive(Serialize, Deserialize)]
struct Checkpoint {
    /// Epoch and position: of the loaders and of everything that is random, that is all.
    state: State,
    /// As text, which serde_json reads to the same bits again.
    model: Model,
}

impl Checkpoint {
    /// Written elsewhere first: a crash leaves the old file or the new one.
    fn save(&self, path: &Path) -> Res<()> {
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_vec(self)?)?;
        Ok(fs::rename(new, path)?)
    }

    fn load(path: &Path) -> Res<Checkpoint> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }
}
