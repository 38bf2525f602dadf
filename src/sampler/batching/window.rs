//! [`Planned`]: orders whose windows are cut into batches.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::FixedState;

use super::{Batches, Batching, TooLong, invalid};
use crate::error::{Error, ErrorKind, Result};
use crate::sampler::rng::stable_hash;
use crate::sampler::{Fingerprint, Lengths, Order, Sampler};

/// Windows that are kept, of all epochs: one for each thread that makes batches near the end of one, and more.
const KEPT: usize = 8;
/// Windows whose batches are counted: 64 billion samples.
const COUNTS: usize = 1 << 20;
/// The positions of a window.
const WINDOW: u64 = 1 << 16;
/// Combined with the seed of a run for each window. Frozen.
const PURPOSE: u64 = 0x0077_696e_646f_7773;

/// The batches of the epochs of a sampler: see the [module](super).
#[derive(Clone)]
pub struct Planned {
    shared: Arc<Shared>,
}

/// What the batches depend on.
#[derive(Clone)]
struct Given {
    sampler: Arc<dyn Sampler>,
    lengths: Vec<Arc<dyn Lengths>>,
    batching: Arc<dyn Batching>,
    /// Tells the lengths and the batching from others.
    identity: u64,
    window: u64,
    seed: u64,
}

struct Shared {
    given: Given,
    kept: Mutex<Vec<Kept>>,
    /// How many batches windows have that were planned.
    counts: Mutex<HashMap<(u64, u64), u64, FixedState>>,
    /// The orders that were used last: of the epoch that ends and of the one that begins.
    orders: Mutex<Vec<(u64, Arc<dyn Order>)>>,
}

/// A window of an epoch that is planned by the first thread that asks; the others wait.
type Kept = ((u64, u64), Arc<Mutex<Option<PlannedWindow>>>);

/// A window of an epoch, with its batches.
#[derive(Clone)]
pub struct PlannedWindow {
    start: u64,
    batches: Arc<(Batches, Vec<u64>)>,
}

impl Planned {
    /// Batches of the epochs of this sampler, by the lengths of the samples.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there are fewer lengths than samples, if the batching needs another number of
    /// [columns](Batching::columns) (see [`with_columns`](Self::with_columns)), or has no room for any sample.
    pub fn new(
        sampler: impl Sampler + 'static,
        lengths: impl Lengths + 'static,
        batching: impl Batching + 'static,
    ) -> Result<Planned> {
        Planned::with_columns(Arc::new(sampler), vec![Arc::new(lengths)], Arc::new(batching))
    }

    /// The same for a batching that needs several numbers of a sample.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_columns(
        sampler: Arc<dyn Sampler>,
        lengths: Vec<Arc<dyn Lengths>>,
        batching: Arc<dyn Batching>,
    ) -> Result<Planned> {
        if lengths.len() != batching.columns() {
            let (found, expected) = (lengths.len(), batching.columns());
            return Err(invalid(format!("expected {expected} columns of lengths, found {found}")));
        }
        if let Some(short) = lengths.iter().find(|lengths| lengths.len() < sampler.bound()) {
            let (found, expected) = (short.len(), sampler.bound());
            return Err(invalid(format!("expected lengths of {expected} samples, found {found}")));
        }
        if batching.most() == Some(0) {
            return Err(invalid("expected batches with room for a token or more, found 0".into()));
        }
        let text = batching.description();
        let text = text
            .as_bytes()
            .chunks(8)
            .map(|part| part.iter().fold(0, |word: u64, &byte| word << 8 | u64::from(byte)));
        let words: Vec<u64> =
            text.chain(lengths.iter().map(|lengths| lengths.identity())).collect();
        let identity = stable_hash(&words);
        let given = Given { sampler, lengths, batching, identity, window: WINDOW, seed: 0 };
        Ok(Planned::of(given))
    }

    /// Positions of a window: more of them give batches less padding, and take longer to plan. Another number gives
    /// other batches. Default: 65,536.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for 0, and for more than 2³⁰.
    pub fn window(self, positions: u64) -> Result<Planned> {
        if positions == 0 || positions > 1 << 30 {
            let message =
                format!("expected windows of 1 to {} positions, found {positions}", 1 << 30);
            return Err(invalid(message));
        }
        Ok(Planned::of(Given { window: positions, ..self.shared.given.clone() }))
    }

    /// What the order of batches depends on. Default: 0. The order of samples has the seed of the sampler.
    #[must_use]
    pub fn seed(self, seed: u64) -> Planned {
        Planned::of(Given { seed, ..self.shared.given.clone() })
    }

    fn of(given: Given) -> Planned {
        let shared = Shared {
            given,
            kept: Mutex::default(),
            counts: Mutex::default(),
            orders: Mutex::default(),
        };
        Planned { shared: Arc::new(shared) }
    }

    /// The sampler.
    pub fn sampler(&self) -> &Arc<dyn Sampler> {
        &self.shared.given.sampler
    }

    /// The batching.
    pub fn batching(&self) -> &dyn Batching {
        &*self.shared.given.batching
    }

    /// How many windows an epoch has.
    pub fn windows(&self) -> u64 {
        self.len().div_ceil(self.shared.given.window)
    }

    /// The lengths of samples: of the first column, if there are several.
    pub(super) fn lengths_of(&self, indices: &[u64]) -> Result<Vec<u32>> {
        let mut found = Vec::with_capacity(indices.len());
        self.shared.given.lengths[0].gather(indices, &mut found)?;
        Ok(found)
    }

    /// The number of the window that a position is in.
    pub(super) fn window_of(&self, position: u64) -> u64 {
        position / self.shared.given.window
    }

    /// Where a window ends.
    pub(super) fn end_of(&self, window: u64) -> u64 {
        self.positions(window).end
    }

    /// The positions of a window.
    fn positions(&self, window: u64) -> Range<u64> {
        let start = window.saturating_mul(self.shared.given.window);
        start..start.saturating_add(self.shared.given.window).min(self.len())
    }

    /// A window of an epoch. Some are kept, so that the next batch does not plan its window again.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a window or an epoch that is not there, and for a sample that no batch has room
    /// for; the errors of reading lengths.
    pub fn window_at(&self, epoch: u64, window: u64) -> Result<PlannedWindow> {
        let cell = {
            let mut kept = self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner);
            match kept.iter().position(|(name, _)| *name == (epoch, window)) {
                Some(at) => {
                    let found = kept.remove(at);
                    kept.push(found);
                }
                None => {
                    if kept.len() >= KEPT {
                        kept.remove(0);
                    }
                    kept.push(((epoch, window), Arc::default()));
                }
            }
            kept[kept.len() - 1].1.clone()
        };
        let mut cell = cell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(planned) = &*cell {
            return Ok(planned.clone());
        }
        // An error is not kept: the next call plans again and fails alike.
        Ok(cell.insert(self.plan(epoch, window)?).clone())
    }

    /// Plans a window that will be asked for, unless another thread has or is about to.
    pub(super) fn look_ahead(&self, epoch: u64, window: u64) {
        let is_known = {
            let kept = self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().any(|(name, _)| *name == (epoch, window))
        };
        if !is_known && window < self.windows() {
            // A failure is the same when it is asked for.
            let _ = self.batches_in(epoch, window);
        }
    }

    /// How many batches a window has: planned once for that.
    pub(super) fn batches_in(&self, epoch: u64, window: u64) -> Result<u64> {
        let counts = || self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts().get(&(epoch, window)) {
            return Ok(*count);
        }
        let count = self.window_at(epoch, window)?.batches();
        let mut counts = counts();
        if counts.len() >= COUNTS {
            counts.clear();
        }
        counts.insert((epoch, window), count);
        Ok(count)
    }

    fn plan(&self, epoch: u64, window: u64) -> Result<PlannedWindow> {
        let positions = self.positions(window);
        if positions.is_empty() {
            return Err(invalid(format!("there is no window {window} of {}", self.windows())));
        }
        let (start, count) = (positions.start, positions.end - positions.start);
        let mut indices = Vec::with_capacity(count as usize);
        self.inner_order(epoch)?.fill(positions, &mut indices);
        let mut columns = Vec::with_capacity(self.shared.given.lengths.len());
        for lengths in &self.shared.given.lengths {
            let mut column = Vec::with_capacity(indices.len());
            lengths.gather(&indices, &mut column)?;
            columns.push(column);
        }
        let columns: Vec<&[u32]> = columns.iter().map(Vec::as_slice).collect();
        let seed = stable_hash(&[PURPOSE, self.shared.given.seed, epoch, window]);
        let too_long = |TooLong { place, length, most }: TooLong| {
            let index = indices[place as usize];
            let message = format!("expected a length of at most {most}, found {length}");
            Error::new(ErrorKind::Invalid, message).with_index(index)
        };
        let batches = self.shared.given.batching.plan(&columns, seed).map_err(too_long)?;
        batches.check(indices.len())?;
        let indices = batches.order.iter().map(|&place| indices[place as usize]).collect();
        Ok(PlannedWindow { start, batches: Arc::new((batches, indices)) })
    }

    fn inner_order(&self, epoch: u64) -> Result<Arc<dyn Order>> {
        let kept = || self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, order)) = kept().iter().find(|(known, _)| *known == epoch) {
            return Ok(order.clone());
        }
        let order = self.shared.given.sampler.order(epoch)?;
        let mut kept = kept();
        if kept.len() > 1 {
            kept.remove(0);
        }
        kept.push((epoch, order.clone()));
        Ok(order)
    }

    fn describe(&self, of: Fingerprint) -> Fingerprint {
        let Given { identity, window, seed, .. } = self.shared.given;
        let batches = Fingerprint::new("batches", self.len()).of(of);
        batches.with(identity).with(window).with(seed)
    }
}

/// For [`State`](crate::sampler::State): its fingerprint covers the sampler, the lengths and the batching.
impl Sampler for Planned {
    fn len(&self) -> u64 {
        self.shared.given.sampler.len()
    }

    fn bound(&self) -> u64 {
        self.shared.given.sampler.bound()
    }

    /// Fails: samples come in batches, which [`window_at`](Planned::window_at) and
    /// [`partition`](Planned::partition) have.
    fn order(&self, _epoch: u64) -> Result<Arc<dyn Order>> {
        let message = "planned batches have no order of single samples";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    fn fingerprint(&self) -> Fingerprint {
        self.describe(self.shared.given.sampler.fingerprint())
    }

    /// Up to the end of the window, as all of it decides its batches.
    fn fingerprint_before(&self, epoch: u64, position: u64) -> Fingerprint {
        let window = self.shared.given.window;
        let end = position.div_ceil(window).saturating_mul(window).min(self.len());
        self.describe(self.shared.given.sampler.fingerprint_before(epoch, end))
    }

    fn epochs(&self) -> Option<u64> {
        self.shared.given.sampler.epochs()
    }
}

impl PlannedWindow {
    /// How many batches it has.
    pub fn batches(&self) -> u64 {
        self.batches.0.ends.len() as u64
    }

    /// Samples that are in a batch.
    pub fn samples(&self) -> u64 {
        self.batches.0.ends.last().map_or(0, |end| u64::from(*end))
    }

    /// The places in the order, counted from the beginning of the window, of all samples: batch after batch, and those that
    /// are left out.
    pub fn order(&self) -> &[u32] {
        &self.batches.0.order
    }

    /// Samples that are left out.
    pub fn left_out(&self) -> &[u64] {
        &self.batches.1[self.samples() as usize..]
    }

    /// Places in the window of a batch.
    fn places(&self, batch: u64) -> Range<usize> {
        let ends = &self.batches.0.ends;
        let start = batch.checked_sub(1).map_or(0, |before| ends[before as usize]);
        start as usize..ends[batch as usize] as usize
    }

    /// The positions of a batch.
    ///
    /// # Panics
    ///
    /// If there is no such batch.
    pub fn positions(&self, batch: u64) -> Range<u64> {
        let places = self.places(batch);
        self.start + places.start as u64..self.start + places.end as u64
    }

    /// The samples of a batch.
    ///
    /// # Panics
    ///
    /// If there is no such batch.
    pub fn indices(&self, batch: u64) -> &[u64] {
        &self.batches.1[self.places(batch)]
    }

    /// The bucket or shape of a batch, if there are some.
    pub fn bucket(&self, batch: u64) -> Option<u32> {
        self.batches.0.buckets.get(batch as usize).copied()
    }

    /// How many samples each row of a batch has, if samples are packed into rows.
    pub fn rows(&self, batch: u64) -> Vec<u32> {
        let (places, rows) = (self.places(batch), &self.batches.0.rows);
        let first = rows.partition_point(|end| *end as usize <= places.start);
        let mut start = places.start as u32;
        let ends = rows[first..].iter().take_while(|end| **end as usize <= places.end);
        ends.map(|end| end - std::mem::replace(&mut start, *end)).collect()
    }

    /// The batches that have a sample: more than one if the sampler repeats it.
    pub(super) fn batches_of(&self, index: u64) -> impl Iterator<Item = u64> + '_ {
        let (batches, indices) = &*self.batches;
        let places = (0u32..).zip(indices).filter(move |(_, found)| **found == index);
        let of = |place: u32| batches.ends.partition_point(|end| *end <= place) as u64;
        places.map(move |(place, _)| of(place)).filter(|batch| *batch < self.batches())
    }

    /// The batch that begins at a position.
    pub(super) fn batch_at(&self, position: u64) -> Option<u64> {
        let place = position.checked_sub(self.start)?;
        match place {
            0 => Some(0),
            _ => {
                let ends = &self.batches.0.ends;
                let at = ends.binary_search(&u32::try_from(place).ok()?).ok()?;
                Some(at as u64 + 1)
            }
        }
    }
}
