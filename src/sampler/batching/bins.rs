//! [`best_fit`]: samples in as few bins as can be had quickly.

/// Classes of free room: with more room than this, a class is several numbers.
const CLASSES: u64 = 1 << 16;
const NONE: u32 = u32::MAX;

/// Which free room there is: a set of classes with the next larger one in constant time.
struct Room {
    words: Vec<u64>,
    summary: Vec<u64>,
    /// The last bin of each class, and the one before each bin.
    heads: Vec<u32>,
    next: Vec<u32>,
}

impl Room {
    fn new(classes: usize) -> Room {
        let words = classes.div_ceil(64) + 1;
        Room {
            words: vec![0; words],
            summary: vec![0; words.div_ceil(64)],
            heads: vec![NONE; classes + 1],
            next: Vec::new(),
        }
    }

    fn add(&mut self, class: usize, bin: u32) {
        if self.next.len() <= bin as usize {
            self.next.resize(bin as usize + 1, NONE);
        }
        self.next[bin as usize] = std::mem::replace(&mut self.heads[class], bin);
        self.words[class / 64] |= 1 << (class % 64);
        self.summary[class / 4096] |= 1 << (class / 64 % 64);
    }

    /// Takes a bin of the smallest class that is not below this one.
    fn take(&mut self, class: usize) -> Option<u32> {
        let class = self.at_least(class)?;
        let bin = self.heads[class];
        self.heads[class] = self.next[bin as usize];
        if self.heads[class] == NONE {
            self.words[class / 64] &= !(1 << (class % 64));
            if self.words[class / 64] == 0 {
                self.summary[class / 4096] &= !(1 << (class / 64 % 64));
            }
        }
        Some(bin)
    }

    fn at_least(&self, class: usize) -> Option<usize> {
        let word = class / 64;
        let rest = self.words.get(word)? & (u64::MAX << (class % 64));
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        let word = word + 1;
        let mut at = word / 64;
        let mut summary = self.summary.get(at)? & (u64::MAX << (word % 64));
        while summary == 0 {
            at += 1;
            summary = *self.summary.get(at)?;
        }
        let word = at * 64 + summary.trailing_zeros() as usize;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }
}

/// Puts items, `length << 32 | place`, by descending length into bins of this capacity: each into one with as little
/// room as it needs, or else into a new one. Bins with `most` items are full. Returns the places, bin after bin, each
/// bin ascending, and the range of each bin.
///
/// With a capacity above 65,536 room is counted in steps of a 65,536th of it, rounded so that nothing overflows.
pub(super) fn best_fit(
    items: &[u64],
    capacity: u64,
    most: u64,
) -> (Vec<u32>, Vec<std::ops::Range<usize>>) {
    let mut shift = 0;
    while capacity >> shift > CLASSES {
        shift += 1;
    }
    let mut room = Room::new((capacity >> shift) as usize);
    // Free room and items of each bin.
    let mut bins: Vec<(u64, u64)> = Vec::new();
    let mut bin_of = Vec::with_capacity(items.len());
    for item in items {
        let length = item >> 32;
        // As much as any bin of the class has.
        let class = (length + (1 << shift) - 1) >> shift;
        let bin = room.take(class as usize).unwrap_or_else(|| {
            bins.push((capacity, 0));
            bins.len() as u32 - 1
        });
        let (free, count) = &mut bins[bin as usize];
        *free -= length;
        *count += 1;
        if *free > 0 && *count < most {
            room.add((*free >> shift) as usize, bin);
        }
        bin_of.push(bin);
    }
    let mut end = 0;
    let ranges: Vec<_> = bins
        .iter()
        .map(|(_, count)| {
            let start = end;
            end += *count as usize;
            start..end
        })
        .collect();
    let mut at: Vec<usize> = ranges.iter().map(|range| range.start).collect();
    let mut places = vec![0; items.len()];
    for (item, bin) in items.iter().zip(bin_of) {
        let at = &mut at[bin as usize];
        places[*at] = *item as u32;
        *at += 1;
    }
    // The order of the window, so that the longest is not always the first.
    for range in &ranges {
        places[range.clone()].sort_unstable();
    }
    (places, ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by looking at all bins.
    fn slow(items: &[u64], capacity: u64) -> Vec<u64> {
        let mut free: Vec<u64> = Vec::new();
        for item in items {
            let length = item >> 32;
            let fits = free.iter_mut().filter(|free| **free >= length).min_by_key(|free| **free);
            match fits {
                Some(free) => *free -= length,
                None => free.push(capacity - length),
            }
        }
        free.sort_unstable();
        free
    }

    #[test]
    fn as_good_as_a_search() {
        let mut rng = crate::sampler::rng::StableRng::new(&[1]);
        for capacity in [1, 7, 64, 1000, 4096, 65_536, 65_537, 1_000_000, 1 << 31] {
            for count in [0, 1, 10, 500] {
                let mut items: Vec<u64> =
                    (0..count).map(|place| (1 + rng.below(capacity)) << 32 | place).collect();
                super::super::sort_descending(&mut items);
                let (places, ranges) = best_fit(&items, capacity, u64::MAX);
                let mut length = vec![0; count as usize];
                items.iter().for_each(|item| length[*item as u32 as usize] = item >> 32);
                let free = |range: &std::ops::Range<usize>| {
                    let used: u64 =
                        places[range.clone()].iter().map(|place| length[*place as usize]).sum();
                    capacity.checked_sub(used).unwrap()
                };
                let mut found: Vec<u64> = ranges.iter().map(free).collect();
                found.sort_unstable();
                let expected = slow(&items, capacity);
                if capacity <= CLASSES {
                    assert_eq!(found, expected, "{capacity} {count}");
                } else {
                    assert!(found.len() <= expected.len() + 1 + expected.len() / 50);
                }
                let mut all = places.clone();
                all.sort_unstable();
                assert!(all.iter().copied().eq(0..count as u32));
            }
        }
    }
}
