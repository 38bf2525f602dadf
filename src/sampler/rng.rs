//! Generators whose numbers never change: Python's, and our own.

use std::fmt;

use rand_mt::Mt;

/// Python's `random.Random(seed)`, number by number: MT19937 seeded with an integer.
///
/// ```
/// use kiste::sampler::rng::PythonRandom;
///
/// let mut numbers: Vec<u32> = (0..5).collect();
/// PythonRandom::new(42).shuffle(&mut numbers);
/// assert_eq!(numbers, [3, 1, 2, 4, 0]); // as random.Random(42).shuffle
/// ```
#[derive(Clone)]
pub struct PythonRandom(Mt);

impl PythonRandom {
    /// `Random(seed)`. As in Python, the sign does not matter.
    pub fn new(seed: i128) -> PythonRandom {
        let seed = seed.unsigned_abs();
        let words = [0, 32, 64, 96].map(|shift| (seed >> shift) as u32);
        let used = words.iter().rposition(|&word| word != 0).map_or(1, |last| last + 1);
        PythonRandom(Mt::new_with_key(words[..used].iter().copied()))
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// `getrandbits(bits)`: this many bits from 32-bit words, the low word first.
    ///
    /// # Panics
    ///
    /// If more than 128 bits are wanted.
    pub fn getrandbits(&mut self, bits: u32) -> u128 {
        assert!(bits <= 128, "{bits} random bits, at most 128 fit");
        let mut value = 0;
        for shift in (0..bits).step_by(32) {
            let take = (bits - shift).min(32);
            value |= u128::from(self.next_u32() >> (32 - take)) << shift;
        }
        value
    }

    /// `randrange(end)`: a number below `end`.
    ///
    /// # Panics
    ///
    /// If `end` is 0.
    #[doc(alias = "randrange")]
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "expected a bound above 0");
        // Bits of `end`, not of `end - 1`: Python draws a bit for `randrange(1)`, too.
        let bits = u64::BITS - end.leading_zeros();
        loop {
            let drawn = if bits <= 32 {
                u64::from(self.next_u32() >> (32 - bits))
            } else {
                let low = u64::from(self.next_u32());
                low | u64::from(self.next_u32() >> (64 - bits)) << 32
            };
            if drawn < end {
                return drawn;
            }
        }
    }

    /// `shuffle(items)`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// `random()`: at least 0 and below 1, 53 bits.
    pub fn random(&mut self) -> f64 {
        let (high, low) = (self.next_u32() >> 5, self.next_u32() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    /// `uniform(low, high)`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random()
    }
}

impl fmt::Debug for PythonRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PythonRandom")
    }
}

/// The increment of [`StableRng`]: 2⁶⁴ divided by the golden ratio, made odd.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Our own generator: SplitMix64 (Steele, Lea, Flood 2014), eight bytes of state.
///
/// It makes keys and short schedules. Its numbers are part of what a seed means: frozen.
#[derive(Debug, Clone)]
pub struct StableRng(u64);

impl StableRng {
    /// A generator seeded by several numbers, such as a seed and an epoch.
    pub fn new(seed: &[u64]) -> StableRng {
        StableRng(stable_hash(seed))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        finish(self.0)
    }

    /// A number below `end`, each as likely as any other.
    ///
    /// # Panics
    ///
    /// If `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "expected a bound above 0");
        // Lemire's method: the high half of a product, rejecting the few products that would cause
        // bias.
        let excess = end.wrapping_neg() % end;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(end);
            if product as u64 >= excess {
                return (product >> 64) as u64;
            }
        }
    }

    /// At least 0 and below 1: the high 53 bits of the next 64.
    pub fn random(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Puts items in random order: from the last item down, swapped with one not behind it.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// For the distributions of `rand` and other crates: the high half of the next 64 bits for 32, and
/// bytes from the low end of the next 64 on. The results of a distribution may change with its
/// version.
#[cfg(feature = "rand_core")]
impl rand_core::TryRng for StableRng {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok((self.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.next_u64())
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Self::Error> {
        for part in out.chunks_mut(8) {
            part.copy_from_slice(&self.next_u64().to_le_bytes()[..part.len()]);
        }
        Ok(())
    }
}

/// A hash of numbers: `h ← finish((h ⊕ word) + STEP)` for the count and then each word, with
/// the `finish` of SplitMix64. Frozen, as is everything derived from it.
pub fn stable_hash(words: &[u64]) -> u64 {
    let start = finish((words.len() as u64).wrapping_add(STEP));
    words.iter().fold(start, |hash, word| finish((hash ^ word).wrapping_add(STEP)))
}

/// The finaliser of SplitMix64: a permutation of all 64-bit words.
fn finish(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference implementation's first numbers for the state 1234567.
    #[test]
    fn splitmix_is_splitmix() {
        let mut rng = StableRng(1_234_567);
        let first: [u64; 3] = std::array::from_fn(|_| rng.next_u64());
        assert_eq!(first, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[cfg(feature = "rand_core")]
    #[test]
    fn other_crates_draw_from_it() {
        use rand_core::Rng;
        let (mut own, mut other) = (StableRng::new(&[3]), StableRng::new(&[3]));
        let drawn = |rng: &mut dyn Rng| (rng.next_u64(), rng.next_u32());
        assert_eq!(drawn(&mut other), (own.next_u64(), (own.next_u64() >> 32) as u32));
        let mut bytes = [0; 11];
        other.fill_bytes(&mut bytes);
        let words = [own.next_u64().to_le_bytes(), own.next_u64().to_le_bytes()].concat();
        assert_eq!(bytes, words[..11]);
    }

    #[test]
    fn numbers_below_stay_below_and_reach_all() {
        let mut rng = StableRng::new(&[1]);
        for end in [1, 2, 3, 7, 1000, 1 << 63, u64::MAX] {
            assert!((0..1000).all(|_| rng.below(end) < end), "{end}");
        }
        let mut seen = [0; 7];
        (0..7000).for_each(|_| seen[rng.below(7) as usize] += 1);
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
    }
}
