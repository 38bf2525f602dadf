//! A training loop: digits from a dataset to a network that reads them, with a pause in the middle.
//!
//! ```sh
//! cargo run --release --example train
//! ```
//!
//! Trains the same small network twice: once without a pause; once stopped in the middle of an
//! epoch, saved, and resumed with another number of threads on another number of ranks. Both end at
//! the same weights, bit for bit.
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use kiste::loader::{ColumnBatch, Columns, Loader, Record};
use kiste::sampler::{Shuffle, State, Tail, rng::StableRng};
use kiste::{DatasetReader, ErrorKind, Reader, ReaderExt};
use ndarray::{Array2, ArrayView2, Axis, Zip};
use serde::{Deserialize, Serialize};

type Res<T> = Result<T, Box<dyn Error>>;

const DIGITS: &str = "datasets/digits/digits.msgpack";
const SEED: u64 = 42;
/// Samples in a step of all ranks together.
const STEP: usize = 32;
/// Samples whose gradients are summed in one go; the sums are then added in a fixed order. In
/// floating point `(a + b) + (c + d)` is not `a + b + c + d`, so a program that wants the same bits on any
/// number of ranks sums in the same portions everywhere.
const PORTION: usize = 16;
const RATE: f32 = 0.2;

const PIXELS: usize = 28 * 28;
const HIDDEN: usize = 64;
const CLASSES: usize = 10;

fn main() -> Res<()> {
    run(8)?;
    Ok(())
}

/// Everything; returns the share of test digits that are read correctly.
pub(crate) fn run(epochs: u64) -> Res<f64> {
    let (train, test) = split(Path::new(DIGITS))?;
    println!("{} digits to train with, {} to test with", train.len(), test.len());
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
    Checkpoint { state, weights: paused.weights() }.save(&file)?;
    println!("  stopped and saved at {}", serde_json::to_string(&state)?);
    drop(paused);

    println!("resumed: 2 ranks, 3 threads each (the first loss covers the rest of its epoch)");
    let Checkpoint { state, weights } = Checkpoint::load(&file)?;
    let mut resumed = Model::from_weights(weights)?;
    Run { ranks: 2, threads: 3 }.train(&mut resumed, &train, &test, state, end)?;

    let bits = |model: &Model| model.weights().concat().into_iter().map(f32::to_bits);
    let equal = bits(&model).zip(bits(&resumed)).filter(|(a, b)| a == b).count();
    println!("\nthe same, bit for bit: {equal} of {} weights", bits(&model).count());
    assert!(bits(&model).eq(bits(&resumed)), "a pause must not change anything");

    let accuracy = accuracy(&resumed, &test)?;
    println!("test accuracy: {:.1} %", 100.0 * accuracy);
    assert!(accuracy > 0.9, "the network did not learn to read digits");
    Ok(accuracy)
}

/// Every fifth digit is for the test. The digits are stored label by label, so both parts have
/// equally many of each.
fn split(path: &Path) -> Res<(Arc<dyn Reader>, Arc<dyn Reader>)> {
    let digits = Arc::new(DatasetReader::open(path)?);
    let is_test = |index: &usize| index % 5 == 4;
    let train = digits.clone().select((0..digits.len()).filter(|index| !is_test(index)))?;
    let test = digits.clone().select((0..digits.len()).filter(is_test))?;
    Ok((Arc::new(train), Arc::new(test)))
}

/// The columns of a batch: `label` is stored as a number, `pixels` are made from the field
/// `image`, on the threads of the loader.
fn columns() -> Columns {
    Columns::new().scalar::<u8>("label").row::<f32>("pixels", &[PIXELS], decode)
}

/// PNG to 0.0 ..= 1.0, straight into the batch.
fn decode(record: &Record<'_>, row: &mut [f32]) -> kiste::Result<()> {
    let damaged = |message: String| kiste::Error::new(ErrorKind::Damaged, message);
    let png = std::io::Cursor::new(record.bytes("image")?);
    let mut png = png::Decoder::new(png).read_info().map_err(|e| damaged(e.to_string()))?;
    // Of any other size, or in colour, it takes another number of bytes.
    if png.output_buffer_size() != Some(PIXELS) {
        return Err(damaged("not an image of 28 x 28 pixels in 8-bit grey".into()));
    }
    let mut grey = [0; PIXELS];
    png.next_frame(&mut grey).map_err(|e| damaged(e.to_string()))?;
    row.iter_mut().zip(grey).for_each(|(pixel, grey)| *pixel = f32::from(grey) / 255.0);
    Ok(())
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
            loaders.push(options.columns(columns())?);
        }
        let (mut state, mut loss, mut steps) = (start, 0.0, 0);
        'training: loop {
            let mut gradient = Model::zeros();
            for loader in &mut loaders {
                // All ranks end with the same step, since all steps are full.
                let Some(batch) = loader.next() else { break 'training };
                let batch = batch?;
                loss += model.gradient(&batch.data, &mut gradient)?;
            }
            model.add(&gradient, -RATE / STEP as f32);
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

/// The share of digits that the network reads correctly.
fn accuracy(model: &Model, digits: &Arc<dyn Reader>) -> Res<f64> {
    let order = kiste::sampler::Sequential::new(digits.len() as u64);
    let options = Loader::options(digits.clone(), order).batch_size(256).epochs(1);
    let mut right = 0;
    for batch in options.columns(columns())? {
        let batch = batch?.data;
        let scores = model.scores(&pixels(&batch)?).1;
        for (scores, &label) in scores.outer_iter().zip(batch.values::<u8>("label")?) {
            let best = (0..CLASSES).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
            right += usize::from(best == Some(usize::from(label)));
        }
    }
    Ok(right as f64 / digits.len() as f64)
}

/// The images of a batch, one in a row: a view, not a copy.
fn pixels(batch: &ColumnBatch) -> Res<ArrayView2<'_, f32>> {
    Ok(batch.array::<f32>("pixels")?.into_dimensionality()?)
}

/// Two layers: weights and biases of the first, weights and biases of the second.
struct Model([Array2<f32>; 4]);

impl Model {
    const SHAPES: [(usize, usize); 4] =
        [(PIXELS, HIDDEN), (1, HIDDEN), (HIDDEN, CLASSES), (1, CLASSES)];

    fn zeros() -> Model {
        Model(Model::SHAPES.map(Array2::zeros))
    }

    /// Small random weights, the same in each run; biases are zero.
    fn new() -> Model {
        let mut rng = StableRng::new(&[SEED]);
        let mut model = Model::zeros();
        for weights in [0, 2] {
            let scale = (6.0 / model.0[weights].nrows() as f32).sqrt();
            // 24 bits make a number from 0 to 1 without rounding.
            let mut uniform = || (rng.next_u64() >> 40) as f32 / (1 << 24) as f32;
            model.0[weights].mapv_inplace(|_| scale * (2.0 * uniform() - 1.0));
        }
        model
    }

    /// The output of the hidden layer, and the score of each class.
    fn scores(&self, pixels: &ArrayView2<'_, f32>) -> (Array2<f32>, Array2<f32>) {
        let [weights1, bias1, weights2, bias2] = &self.0;
        let hidden = (pixels.dot(weights1) + bias1).mapv_into(|x| x.max(0.0));
        let scores = hidden.dot(weights2) + bias2;
        (hidden, scores)
    }

    /// Adds the gradients of a batch; returns the sum of its losses.
    fn gradient(&self, batch: &ColumnBatch, gradient: &mut Model) -> Res<f32> {
        let (pixels, labels) = (pixels(batch)?, batch.values::<u8>("label")?);
        let portions = pixels.axis_chunks_iter(Axis(0), PORTION).zip(labels.chunks(PORTION));
        Ok(portions.map(|(pixels, labels)| self.portion(&pixels, labels, gradient)).sum())
    }

    fn portion(&self, pixels: &ArrayView2<'_, f32>, labels: &[u8], gradient: &mut Model) -> f32 {
        let (hidden, mut scores) = self.scores(pixels);
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
        let mut below = scores.dot(&self.0[2].t());
        Zip::from(&mut below).and(&hidden).for_each(|d, &x| *d *= f32::from(x > 0.0));
        gradient.0[0] += &pixels.t().dot(&below);
        gradient.0[1] += &below.sum_axis(Axis(0));
        gradient.0[2] += &hidden.t().dot(&scores);
        gradient.0[3] += &scores.sum_axis(Axis(0));
        loss
    }

    fn add(&mut self, other: &Model, factor: f32) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| a.scaled_add(factor, b));
    }

    fn weights(&self) -> Vec<Vec<f32>> {
        self.0.iter().map(|array| array.iter().copied().collect()).collect()
    }

    fn from_weights(weights: Vec<Vec<f32>>) -> Res<Model> {
        let mut model = Model::zeros();
        if weights.len() != model.0.len() {
            return Err("the checkpoint is of another network".into());
        }
        for (array, weights) in model.0.iter_mut().zip(weights) {
            *array = Array2::from_shape_vec(array.dim(), weights)?;
        }
        Ok(model)
    }
}

/// All that has to be saved. Both in one file, so that neither can be older than the other.
#[derive(Serialize, Deserialize)]
struct Checkpoint {
    /// Epoch and position: of the loaders, that is all.
    state: State,
    /// As text, which serde_json reads to the same bits again.
    weights: Vec<Vec<f32>>,
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
