//! [`ByLength`] and [`ByShape`]: batches of samples that are alike.

use super::{Batches, Batching, Longer, TooLong, invalid, shuffled, sort_descending};
use crate::error::Result;

/// Batches of the samples of one bucket.
///
/// ```
/// use kiste::sampler::batching::{Batching, ByLength};
///
/// // Four samples of up to 16 tokens, two of up to 32.
/// let batching = ByLength::up_to([(16, 4), (32, 2)])?;
/// let batches = batching.plan(&[&[3, 30, 16, 17, 9, 1]], 0).unwrap();
/// assert_eq!(batches.ends.len(), 2);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ByLength {
    way: Way,
    longer: Longer,
}

#[derive(Debug, Clone)]
enum Way {
    /// The longest length and the samples of a batch, ascending.
    UpTo(Vec<(u32, u64)>),
    /// Buckets of equally many samples, and the samples of a batch.
    Equal { buckets: u64, batch: u64 },
}

impl ByLength {
    /// Buckets up to these lengths, with the samples of a batch of each. What is left of a bucket at the end of a window
    /// joins the next longer one, so that only one batch of a window is short.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) unless lengths ascend and batches have samples.
    pub fn up_to(buckets: impl IntoIterator<Item = (u32, u64)>) -> Result<ByLength> {
        let buckets: Vec<(u32, u64)> = buckets.into_iter().collect();
        let ascends = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if buckets.is_empty() || !ascends || buckets.iter().any(|(_, batch)| *batch == 0) {
            let message = format!(
                "expected buckets of ascending lengths with samples a batch, found {buckets:?}"
            );
            return Err(invalid(message));
        }
        Ok(ByLength { way: Way::UpTo(buckets), longer: Longer::Refuse })
    }

    /// Buckets of equally many samples of a window: its shortest ones, and so on. More buckets mean less padding, fewer
    /// are closer to the order.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) without buckets or samples.
    pub fn equal(buckets: u64, batch: u64) -> Result<ByLength> {
        if buckets == 0 || batch == 0 {
            let message =
                format!("expected buckets and samples a batch, found {buckets} and {batch}");
            return Err(invalid(message));
        }
        Ok(ByLength { way: Way::Equal { buckets, batch }, longer: Longer::Refuse })
    }

    /// What happens to samples that are longer than the last bucket. Default: an error.
    pub fn longer(mut self, longer: Longer) -> ByLength {
        self.longer = longer;
        self
    }
}

impl Batching for ByLength {
    fn plan(&self, lengths: &[&[u32]], seed: u64) -> Result<Batches, TooLong> {
        let mut lists = Lists::default();
        let left = match &self.way {
            Way::UpTo(buckets) => {
                let most = buckets.last().map_or(0, |(most, _)| u64::from((*most).max(1)));
                let (items, left) = self.longer.take(lengths[0], most)?;
                let mut waiting: Vec<Vec<u32>> = vec![Vec::new(); buckets.len()];
                for item in items {
                    let length = item >> 32;
                    let bucket =
                        buckets.partition_point(|(most, _)| u64::from((*most).max(1)) < length);
                    waiting[bucket].push(item as u32);
                    if waiting[bucket].len() as u64 == buckets[bucket].1 {
                        lists.add(bucket, &waiting[bucket]);
                        waiting[bucket].clear();
                    }
                }
                let mut rest: Vec<u32> = Vec::new();
                for (bucket, (waits, (_, batch))) in waiting.iter().zip(buckets).enumerate() {
                    rest.extend(waits);
                    let size = usize::try_from(*batch).unwrap_or(usize::MAX);
                    let is_last = bucket + 1 == buckets.len();
                    while rest.len() >= size || is_last && !rest.is_empty() {
                        let taken: Vec<u32> = rest.drain(..rest.len().min(size)).collect();
                        lists.add(bucket, &taken);
                    }
                }
                left
            }
            Way::Equal { buckets, batch } => {
                let (mut items, left) = self.longer.take(lengths[0], u64::MAX)?;
                let size = usize::try_from(*batch).unwrap_or(usize::MAX);
                // Whole batches, so that only the last one is short.
                let batches = items.len().div_ceil(size) as u64;
                let buckets = (*buckets).min(batches);
                if buckets > 1 {
                    sort_descending(&mut items);
                }
                let cut = |number: u64| {
                    let batch = u128::from(number) * u128::from(batches) / u128::from(buckets);
                    items.len().min((batch as usize).saturating_mul(size))
                };
                let mut bucket_of = vec![0u32; lengths[0].len()];
                let mut places: Vec<Vec<u32>> = Vec::new();
                for bucket in 0..buckets {
                    let own = &items[cut(bucket)..cut(bucket + 1)];
                    own.iter().for_each(|item| bucket_of[*item as u32 as usize] = bucket as u32);
                    places.push(Vec::with_capacity(own.len()));
                }
                // Within a bucket as in the order.
                for (place, bucket) in (0u32..).zip(bucket_of) {
                    if let Some(places) = places.get_mut(bucket as usize) {
                        places.push(place);
                    }
                }
                for (bucket, places) in places.iter().enumerate() {
                    places.chunks(size).for_each(|batch| lists.add(bucket, batch));
                }
                left
            }
        };
        Ok(lists.batches(left, seed))
    }

    fn description(&self) -> String {
        let longer = self.longer.option();
        match &self.way {
            Way::UpTo(buckets) => {
                let bucket = |(most, batch): &(u32, u64)| format!("{most}={batch}");
                let buckets: Vec<String> = buckets.iter().map(bucket).collect();
                format!("buckets:{}{longer}", buckets.join(","))
            }
            Way::Equal { buckets, batch } => format!("equal:{buckets}x{batch}{longer}"),
        }
    }

    fn most(&self) -> Option<u64> {
        match &self.way {
            Way::UpTo(buckets) => buckets.iter().map(|(_, batch)| *batch).max(),
            Way::Equal { batch, .. } => Some(*batch),
        }
    }
}

/// Batches of images of one shape: each goes to the shape whose ratio of width and height is nearest to its own, the
/// larger one if two are as near. Its columns of lengths are width and height. [`PlannedBatch::bucket`] is the number of
/// the shape.
///
/// [`PlannedBatch::bucket`]: super::PlannedBatch::bucket
#[derive(Debug, Clone)]
#[must_use]
pub struct ByShape {
    shapes: Vec<(u32, u32, u64)>,
}

impl ByShape {
    /// Shapes as width and height, with the samples of a batch of each.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for a shape without pixels or samples, and for none.
    pub fn new(shapes: impl IntoIterator<Item = (u32, u32, u64)>) -> Result<ByShape> {
        let shapes: Vec<(u32, u32, u64)> = shapes.into_iter().collect();
        let is_empty = |(w, h, batch): &(u32, u32, u64)| *w == 0 || *h == 0 || *batch == 0;
        if shapes.is_empty() || shapes.iter().any(is_empty) {
            let message =
                format!("expected widths and heights with samples a batch, found {shapes:?}");
            return Err(invalid(message));
        }
        Ok(ByShape { shapes })
    }

    /// The number of the shape that is nearest to this size.
    pub fn nearest(&self, width: u32, height: u32) -> usize {
        let (width, height) = (u128::from(width.max(1)), u128::from(height.max(1)));
        // The larger of a / b and b / a as a fraction: exact, so that it is the same on every machine.
        let distance = |&(w, h, _): &(u32, u32, u64)| {
            let (a, b) = (width * u128::from(h), height * u128::from(w));
            (a.max(b), a.min(b))
        };
        let mut best = 0;
        for (at, shape) in self.shapes.iter().enumerate().skip(1) {
            let (old, new) = (distance(&self.shapes[best]), distance(shape));
            let area = |(w, h, _): &(u32, u32, u64)| u64::from(*w) * u64::from(*h);
            // Ratios of products of 64 bits, multiplied crosswise.
            let order = compare(new, old);
            if order.is_lt() || order.is_eq() && area(shape) > area(&self.shapes[best]) {
                best = at;
            }
        }
        best
    }
}

/// Compares two fractions of numbers of up to 64 bits.
fn compare(a: (u128, u128), b: (u128, u128)) -> std::cmp::Ordering {
    (a.0 * b.1).cmp(&(b.0 * a.1))
}

impl Batching for ByShape {
    fn columns(&self) -> usize {
        2
    }

    fn plan(&self, lengths: &[&[u32]], seed: u64) -> Result<Batches, TooLong> {
        let mut lists = Lists::default();
        let mut waiting: Vec<Vec<u32>> = vec![Vec::new(); self.shapes.len()];
        for (place, (&width, &height)) in (0..).zip(lengths[0].iter().zip(lengths[1])) {
            let shape = self.nearest(width, height);
            waiting[shape].push(place);
            if waiting[shape].len() as u64 == self.shapes[shape].2 {
                lists.add(shape, &waiting[shape]);
                waiting[shape].clear();
            }
        }
        for (shape, waits) in waiting.iter().enumerate().filter(|(_, waits)| !waits.is_empty()) {
            lists.add(shape, waits);
        }
        Ok(lists.batches(Vec::new(), seed))
    }

    fn description(&self) -> String {
        let shape = |(width, height, batch): &(u32, u32, u64)| format!("{width}x{height}={batch}");
        let shapes: Vec<String> = self.shapes.iter().map(shape).collect();
        format!("shapes:{}", shapes.join(","))
    }

    fn most(&self) -> Option<u64> {
        self.shapes.iter().map(|(_, _, batch)| *batch).max()
    }
}

/// Batches that were cut, with their buckets.
#[derive(Default)]
struct Lists {
    places: Vec<u32>,
    ranges: Vec<std::ops::Range<usize>>,
    buckets: Vec<u32>,
}

impl Lists {
    fn add(&mut self, bucket: usize, places: &[u32]) {
        let start = self.places.len();
        self.places.extend_from_slice(places);
        self.ranges.push(start..self.places.len());
        self.buckets.push(bucket as u32);
    }

    fn batches(self, left: Vec<u32>, seed: u64) -> Batches {
        let mut batches = shuffled(&self.ranges, &self.places, 0, seed);
        let turn = super::turn(self.ranges.len(), seed);
        batches.buckets = turn.into_iter().map(|list| self.buckets[list as usize]).collect();
        batches.order.extend(left);
        batches
    }
}
