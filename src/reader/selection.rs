//! [`Selection`]: which samples of a reader, in which order, as pure numbers.

use std::ops::Range;

use super::out_of_range;
use crate::error::Result;

/// Bits between two counts of [`Bits`]: 8 words.
const BLOCK_WORDS: usize = 8;

/// Chosen indices, in the order they were chosen in.
///
/// Ascending ones without repeats take at most a bit for each index up to the last one and an eighth more, and little
/// if they are consecutive; all others take two numbers each.
///
/// ```
/// use kiste::reader::Selection;
///
/// let chosen = Selection::new(100, [7, 8, 9, 50])?;
/// assert_eq!((chosen.len(), chosen.get(3), chosen.get(4)), (4, Some(50), None));
/// assert_eq!(chosen.position_of(9), Some(2));
/// assert!(Selection::new(100, [100]).is_err());
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Selection(Kind);

#[derive(Debug, Clone)]
enum Kind {
    /// Ascending, neither empty nor touching. `before[n]` chosen indices come before `runs[n]`.
    Runs {
        runs: Vec<Range<usize>>,
        before: Vec<usize>,
    },
    Bits(Bits),
    /// `order` has the positions in `indices`, sorted by index and then by position.
    List {
        indices: Vec<usize>,
        order: Vec<usize>,
    },
}

impl Selection {
    /// These indices, in this order. An index may come more than once.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for one that is not below `len`.
    pub fn new(len: usize, indices: impl IntoIterator<Item = usize>) -> Result<Selection> {
        let indices: Vec<usize> = indices.into_iter().collect();
        if let Some(&index) = indices.iter().find(|&&index| index >= len) {
            return Err(out_of_range(index, len));
        }
        if indices.windows(2).all(|pair| pair[0] < pair[1]) {
            return Ok(Selection::of_ascending(&indices));
        }
        let mut order: Vec<usize> = (0..indices.len()).collect();
        order.sort_unstable_by_key(|&at| (indices[at], at));
        Ok(Selection(Kind::List { indices, order }))
    }

    /// All indices below `len` but these, which must be sorted.
    pub(crate) fn all_but(len: usize, sorted: &[usize]) -> Selection {
        let mut runs = Vec::with_capacity(sorted.len() + 1);
        let mut start = 0;
        for &index in sorted.iter().take_while(|&&index| index < len) {
            runs.push(start..index.max(start));
            start = index + 1;
        }
        runs.push(start..len.max(start));
        let left = Selection::of_runs(runs);
        // As bits, if that takes less.
        match left.runs().map_or(0, <[_]>::len) * 3 <= len.div_ceil(64) {
            true => left,
            false => Selection::of_ascending(&left.iter().collect::<Vec<usize>>()),
        }
    }

    /// These consecutive indices.
    pub fn of_range(range: Range<usize>) -> Selection {
        Selection::of_runs(vec![range])
    }

    /// The indices of these runs, which must be in ascending order and have no index in common.
    pub(crate) fn of_runs(mut runs: Vec<Range<usize>>) -> Selection {
        runs.retain(|run| !run.is_empty());
        let mut count = 0;
        let mut before = Vec::with_capacity(runs.len());
        for run in &runs {
            before.push(count);
            count += run.len();
        }
        Selection(Kind::Runs { runs, before })
    }

    /// The indices whose bits are set, of words with the lowest bit first.
    pub(crate) fn of_words(words: Vec<u64>) -> Selection {
        Selection(Kind::Bits(Bits::new(words)))
    }

    /// The smaller of runs and bits.
    fn of_ascending(indices: &[usize]) -> Selection {
        let runs: Vec<Range<usize>> = indices
            .chunk_by(|a, b| a + 1 == *b)
            .map(|run| run[0]..run[run.len() - 1] + 1)
            .collect();
        let words = indices.last().map_or(0, |last| last / 64 + 1);
        if runs.len() * 3 <= words {
            return Selection::of_runs(runs);
        }
        // Few indices far apart take less as a list, which needs no second one as they are sorted.
        if indices.len() < words {
            return Selection(Kind::List { indices: indices.to_vec(), order: Vec::new() });
        }
        let mut bits = vec![0u64; words];
        for index in indices {
            bits[index / 64] |= 1 << (index % 64);
        }
        Selection::of_words(bits)
    }

    /// How many were chosen.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::Runs { runs, before } => {
                runs.last().zip(before.last()).map_or(0, |(run, before)| before + run.len())
            }
            Kind::Bits(bits) => bits.count,
            Kind::List { indices, .. } => indices.len(),
        }
    }

    /// Whether none was chosen.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index that was chosen at this place, counted from 0.
    #[inline]
    pub fn get(&self, position: usize) -> Option<usize> {
        match &self.0 {
            Kind::Runs { runs, before } => {
                let run = before.partition_point(|&before| before <= position).checked_sub(1)?;
                let within = position - before[run];
                (within < runs[run].len()).then(|| runs[run].start + within)
            }
            Kind::Bits(bits) => bits.get(position),
            Kind::List { indices, .. } => indices.get(position).copied(),
        }
    }

    /// Where this index was chosen, the first place if there are several.
    pub fn position_of(&self, index: usize) -> Option<usize> {
        match &self.0 {
            Kind::Runs { runs, before } => {
                let run = runs.partition_point(|run| run.end <= index);
                let found = runs.get(run).filter(|run| run.contains(&index))?;
                Some(before[run] + (index - found.start))
            }
            Kind::Bits(bits) => bits.position_of(index),
            Kind::List { .. } => self.positions_of(index).next(),
        }
    }

    /// All places where this index was chosen, ascending.
    pub fn positions_of(&self, index: usize) -> impl Iterator<Item = usize> {
        let (list, single): (&[usize], _) = match &self.0 {
            Kind::List { indices, .. } => (indices, None),
            _ => (&[], self.position_of(index)),
        };
        let order: &[usize] = match &self.0 {
            Kind::List { order, .. } => order,
            _ => &[],
        };
        let at = move |rank: usize| order.get(rank).copied().unwrap_or(rank);
        let start = partition_point(list.len(), |rank| list[at(rank)] < index);
        let listed = (start..list.len()).map(at).take_while(move |&at| list[at] == index);
        single.into_iter().chain(listed)
    }

    /// Whether the indices ascend and none comes twice.
    pub fn is_ascending(&self) -> bool {
        match &self.0 {
            Kind::List { order, .. } => order.is_empty(),
            _ => true,
        }
    }

    /// Whether an index was chosen more than once.
    pub fn has_repeats(&self) -> bool {
        match &self.0 {
            Kind::List { indices, order } => {
                order.windows(2).any(|pair| indices[pair[0]] == indices[pair[1]])
            }
            _ => false,
        }
    }

    /// The indices, in their order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let (runs, bits, list): (&[Range<usize>], &[u64], &[usize]) = match &self.0 {
            Kind::Runs { runs, .. } => (runs, &[], &[]),
            Kind::Bits(bits) => (&[], &bits.words, &[]),
            Kind::List { indices, .. } => (&[], &[], indices),
        };
        let of_word = |(number, &word): (usize, &u64)| {
            let clear_lowest = |word: &u64| Some(word & (word - 1)).filter(|rest| *rest != 0);
            std::iter::successors(Some(word).filter(|word| *word != 0), clear_lowest)
                .map(move |word| number * 64 + word.trailing_zeros() as usize)
        };
        let runs = runs.iter().cloned().flatten();
        runs.chain(bits.iter().enumerate().flat_map(of_word)).chain(list.iter().copied())
    }

    /// Consecutive indices that this is made of, if it is.
    pub(crate) fn runs(&self) -> Option<&[Range<usize>]> {
        match &self.0 {
            Kind::Runs { runs, .. } => Some(runs),
            _ => None,
        }
    }

    /// Numbers that tell this from other selections.
    pub(super) fn numbers(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        match &self.0 {
            Kind::Runs { runs, .. } => {
                Box::new([0].into_iter().chain(runs.iter().flat_map(|run| [run.start, run.end])))
            }
            // The same indices have the same numbers, however they are kept.
            _ if self.is_ascending() => {
                let mut runs = Vec::new();
                for index in self.iter() {
                    match runs.last_mut() {
                        Some(Range { end, .. }) if *end == index => *end = index + 1,
                        _ => runs.push(index..index + 1),
                    }
                }
                Box::new(
                    [0].into_iter().chain(runs.into_iter().flat_map(|run| [run.start, run.end])),
                )
            }
            _ => Box::new([1].into_iter().chain(self.iter())),
        }
    }
}

/// A bit for each index, and how many are set before each block.
#[derive(Debug, Clone)]
struct Bits {
    words: Vec<u64>,
    before: Vec<usize>,
    count: usize,
}

impl Bits {
    fn new(words: Vec<u64>) -> Bits {
        let mut count = 0;
        let mut before = Vec::with_capacity(words.len().div_ceil(BLOCK_WORDS));
        for block in words.chunks(BLOCK_WORDS) {
            before.push(count);
            count += block.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        }
        Bits { words, before, count }
    }

    fn get(&self, position: usize) -> Option<usize> {
        if position >= self.count {
            return None;
        }
        let block = self.before.partition_point(|&before| before <= position) - 1;
        let mut left = position - self.before[block];
        for (number, &word) in self.words.iter().enumerate().skip(block * BLOCK_WORDS) {
            let ones = word.count_ones() as usize;
            if left < ones {
                let rest = (0..left).fold(word, |word, _| word & (word - 1));
                return Some(number * 64 + rest.trailing_zeros() as usize);
            }
            left -= ones;
        }
        None
    }

    fn position_of(&self, index: usize) -> Option<usize> {
        let (number, bit) = (index / 64, index % 64);
        let word = *self.words.get(number)?;
        if word >> bit & 1 == 0 {
            return None;
        }
        let block = number / BLOCK_WORDS;
        let within = &self.words[block * BLOCK_WORDS..number];
        let ones: u32 = within.iter().map(|word| word.count_ones()).sum();
        let last = (word & ((1 << bit) - 1)).count_ones();
        Some(self.before[block] + (ones + last) as usize)
    }
}

/// The first number below `len` for which this is false, if it is true only for numbers before it.
fn partition_point(len: usize, below: impl Fn(usize) -> bool) -> usize {
    let (mut start, mut end) = (0, len);
    while start < end {
        let middle = start + (end - start) / 2;
        if below(middle) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::rng::StableRng;

    #[test]
    fn selections_are_the_indices_that_they_were_made_of() {
        let mut rng = StableRng::new(&[40]);
        for round in 0..600 {
            let len = 1 + rng.below(3000) as usize;
            let indices: Vec<usize> = match round % 4 {
                0 => (0..len).filter(|_| rng.below(3) > 0).collect(),
                1 => (0..len).filter(|_| rng.below(200) == 0).collect(),
                2 => (0..rng.below(50)).map(|_| rng.below(len as u64) as usize).collect(),
                _ => {
                    let start = rng.below(len as u64) as usize;
                    (start..(start + 900).min(len)).filter(|n| n % 400 != 7).collect()
                }
            };
            let chosen = Selection::new(len, indices.iter().copied()).unwrap();
            assert_eq!(chosen.len(), indices.len());
            assert_eq!(chosen.iter().collect::<Vec<_>>(), indices);
            for (at, &index) in indices.iter().enumerate() {
                assert_eq!(chosen.get(at), Some(index));
            }
            assert_eq!(chosen.get(indices.len()), None);
            for index in 0..len {
                let places: Vec<usize> =
                    (0..indices.len()).filter(|&at| indices[at] == index).collect();
                assert_eq!(chosen.position_of(index), places.first().copied());
                assert_eq!(chosen.positions_of(index).collect::<Vec<_>>(), places);
            }
            let mut sorted = indices.clone();
            sorted.sort_unstable();
            let others = (0..len).filter(|index| sorted.binary_search(index).is_err());
            assert!(Selection::all_but(len, &sorted).iter().eq(others));
            assert_eq!(chosen.is_ascending(), indices.windows(2).all(|pair| pair[0] < pair[1]));
            let as_bits = chosen.is_ascending().then(|| {
                let mut words = vec![0u64; len.div_ceil(64)];
                indices.iter().for_each(|index| words[index / 64] |= 1 << (index % 64));
                Selection::of_words(words)
            });
            if let Some(bits) = as_bits {
                assert_eq!(bits.iter().collect::<Vec<_>>(), indices);
                assert!(bits.numbers().eq(chosen.numbers()));
            }
        }
    }

    #[test]
    fn nothing_can_be_chosen() {
        for none in [
            Selection::new(0, []).unwrap(),
            Selection::of_range(4..4),
            Selection::of_words(vec![0]),
        ] {
            assert!(none.is_empty() && none.is_ascending() && !none.has_repeats());
            assert_eq!((none.get(0), none.position_of(4), none.iter().next()), (None, None, None));
        }
    }
}
