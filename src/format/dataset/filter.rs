//! `.filter`: a Bloom filter of the keys, in the format of the Python package *simplebloom*.
//!
//! The header has the number of elements and the probability of a false answer; how many bits there
//! are and how many of them a key has follows from these. Keys are hashed *without* the salt.
//!
//! A filter answers "no" or "perhaps". Missing bytes answer "perhaps" here: a truncated file must
//! not hide keys that exist, as it does in Python.

use super::blake2s;
use crate::format::FormatError;

/// The first bytes of a filter.
pub const MAGIC: [u8; 8] = *b"SIMPBLOO";

/// Bytes before the bits.
pub const HEADER: usize = 32;

/// Both hashes of a key.
pub type Pair = (u64, u64);

/// The parameters of a filter, and the operations on it.
///
/// ```
/// use kiste::format::dataset::filter::{self, Params};
///
/// let params = Params::for_len(2);
/// let mut file = params.header().to_vec();
/// file.resize(params.file_len() as usize, 0);
/// let bits = &mut file[filter::HEADER..];
/// params.insert(bits, filter::pair(b"k0"));
/// params.insert(bits, filter::pair(b"k1"));
/// assert_eq!(bits, [0x77]);
///
/// let params = Params::parse(&file, file.len() as u64)?;
/// assert!(params.contains(&file[filter::HEADER..], filter::pair(b"k0")));
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    elements: u64,
    probability: f64,
    modulo: Modulo,
    hashes: u32,
}

impl Params {
    /// The filter of a dataset of `n` samples; `n` is at most 2³² − 1 in every dataset.
    pub fn for_len(n: u64) -> Params {
        let elements = n.max(2);
        Params::new(elements, 1.0 / elements as f64)
    }

    /// Bits and hashes as simplebloom computes them. The order of the floating-point operations
    /// matters.
    fn new(elements: u64, probability: f64) -> Params {
        let m = elements as f64;
        let ideal = m * probability.ln() / -LN_2_SQUARED;
        // Logarithms of different libraries differ in the last digit. Up to 20 million elements no
        // result is close enough to a multiple of 8 for that to change the size.
        // A cast saturates, so the bits are at most 2^64 - 8 here.
        let bits = ((ideal / 8.0).ceil() as u64).clamp(1, u64::MAX / 8) * 8;
        let hashes = (bits as f64 / m * std::f64::consts::LN_2).round_ties_even() as u32;
        Params { elements, probability, modulo: Modulo::new(bits), hashes }
    }

    /// Parses the header of a filter: the first [`HEADER`] bytes of a file of `file_len` bytes.
    ///
    /// The file must have the size that its header gives it, to the byte, and this must be the
    /// size of a filter with these parameters. So after `parse` the size is safe to allocate.
    pub fn parse(header: &[u8], file_len: u64) -> Result<Params, FormatError> {
        let short =
            || FormatError::new(0, "a header of 32 bytes", format!("{} bytes", header.len()));
        let field = |at: usize| {
            let bytes = header.get(at..).and_then(|bytes| bytes.first_chunk::<8>());
            bytes.copied().ok_or_else(short)
        };
        let [magic, size, elements, probability] = [field(0)?, field(8)?, field(16)?, field(24)?];
        if magic != MAGIC {
            let found = format!("{:?}", magic.escape_ascii().to_string());
            return Err(FormatError::new(0, "\"SIMPBLOO\"", found));
        }
        let size = u64::from_be_bytes(size);
        if size != file_len {
            let expected = format!("the size of the file, {file_len}");
            return Err(FormatError::new(8, expected, size.to_string()));
        }
        let elements = u64::from_be_bytes(elements);
        // The limits of simplebloom, which raises an error for anything else.
        if elements < 2 {
            return Err(FormatError::new(16, "at least 2 elements", elements.to_string()));
        }
        let probability = f64::from_be_bytes(probability);
        if !(probability > 0.0 && probability < 1.0) {
            let expected = "a probability above 0 and below 1";
            return Err(FormatError::new(24, expected, probability.to_string()));
        }
        let params = Params::new(elements, probability);
        if params.file_len() != size {
            let expected = format!(
                "{} bytes for {elements} elements and probability {probability}",
                params.file_len(),
            );
            return Err(FormatError::new(8, expected, size.to_string()));
        }
        Ok(params)
    }

    /// The header of the file.
    pub fn header(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        let fields = [
            MAGIC,
            self.file_len().to_be_bytes(),
            self.elements.to_be_bytes(),
            self.probability.to_be_bytes(),
        ];
        for (place, field) in header.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field);
        }
        header
    }

    /// How many elements the filter is made for.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// How probable a "perhaps" is for something that was not inserted.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// The number of bits: a multiple of 8, and at least 8.
    pub fn bits(&self) -> u64 {
        self.modulo.divisor
    }

    /// How many bits a key sets. None at all is possible for a probability near 1.
    pub fn hashes(&self) -> u32 {
        self.hashes
    }

    /// The number of bytes behind the header.
    pub fn body_len(&self) -> u64 {
        self.bits() / 8
    }

    /// The size of the file.
    pub fn file_len(&self) -> u64 {
        HEADER as u64 + self.body_len()
    }

    /// The bits of a key: each below [`Params::bits`], some perhaps equal.
    #[inline]
    pub fn positions(&self, (h1, h2): Pair) -> impl Iterator<Item = u64> + use<> {
        let Params { modulo, hashes, .. } = *self;
        let mut sum = h1;
        (0..hashes).map(move |_| {
            let bit = modulo.of(sum);
            sum = sum.wrapping_add(h2);
            bit
        })
    }

    /// Whether a key may be in the filter with these bits.
    #[inline]
    pub fn contains(&self, body: &[u8], pair: Pair) -> bool {
        self.positions(pair).all(|bit| {
            let byte = usize::try_from(bit >> 3).ok().and_then(|at| body.get(at));
            byte.is_none_or(|byte| byte & mask(bit) != 0)
        })
    }

    /// As [`Params::contains`], but requests each byte by its index in the body, and none that is not
    /// needed: a "no" takes two bytes on average.
    #[inline]
    pub fn contains_with<E>(
        &self,
        pair: Pair,
        mut byte: impl FnMut(u64) -> Result<u8, E>,
    ) -> Result<bool, E> {
        for bit in self.positions(pair) {
            if byte(bit >> 3)? & mask(bit) == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Inserts a key. The body must be of [`Params::body_len`] bytes: bits beyond it are lost.
    #[inline]
    pub fn insert(&self, body: &mut [u8], pair: Pair) {
        debug_assert_eq!(body.len() as u64, self.body_len());
        for bit in self.positions(pair) {
            if let Some(byte) = usize::try_from(bit >> 3).ok().and_then(|at| body.get_mut(at)) {
                *byte |= mask(bit);
            }
        }
    }
}

/// ln² 2, as simplebloom spells it.
const LN_2_SQUARED: f64 = 0.480_453_013_918_201_5;

#[inline]
fn mask(bit: u64) -> u8 {
    1 << (bit & 7)
}

/// The hashes of a key.
pub fn pair(key: &[u8]) -> Pair {
    blake2s::one(&blake2s::UNSALTED, key)
}

/// Hashes many keys, several times faster than one by one.
///
/// Hashes keys until either slice ends.
pub fn pair_many<K: AsRef<[u8]>>(keys: &[K], out: &mut [Pair]) {
    blake2s::each(&blake2s::UNSALTED, keys, |i, pair| {
        if let Some(out) = out.get_mut(i) {
            *out = pair;
        }
    });
}

/// Remainders by a fixed divisor, without dividing.
///
/// With r = ⌊(2⁶⁴ − 1) / d⌋ and x < 2⁶⁴, the estimate q = ⌊x r / 2⁶⁴⌋ is ⌊x / d⌋ or one less: since
/// 2⁶⁴ / d − r ≤ 1, x / d − x r / 2⁶⁴ ≤ x / 2⁶⁴ < 1, so the estimate before rounding down is less
/// than 1 too small. Hence x − q d is the remainder or d more, and one comparison makes it exact.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Modulo {
    divisor: u64,
    reciprocal: u64,
}

impl Modulo {
    /// The divisor is at least 1.
    fn new(divisor: u64) -> Modulo {
        Modulo { divisor, reciprocal: u64::MAX / divisor }
    }

    #[inline]
    fn of(self, x: u64) -> u64 {
        let quotient = ((u128::from(x) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = x.wrapping_sub(quotient.wrapping_mul(self.divisor));
        // The smaller one is below the divisor: where `rest` is already, this wraps to above it.
        rest.min(rest.wrapping_sub(self.divisor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dataset::golden;
    use base64::Engine;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Golden {
        params: Vec<GoldenParams>,
        filters: Vec<GoldenFilter>,
    }

    #[derive(Deserialize)]
    struct GoldenParams {
        num_elements: u64,
        p: String,
        num_bits: u64,
        num_hashes: u32,
    }

    #[derive(Deserialize)]
    struct GoldenFilter {
        num_elements: u64,
        p: String,
        keys: Vec<String>,
        dump_b64: String,
        probe: Vec<(String, bool)>,
    }

    fn probability(digits: &str) -> f64 {
        f64::from_bits(golden::hex_u64(digits))
    }

    fn render(params: Params, keys: &[impl AsRef<[u8]>]) -> Vec<u8> {
        let mut file = params.header().to_vec();
        file.resize(params.file_len() as usize, 0);
        let mut pairs = vec![(0, 0); keys.len()];
        pair_many(keys, &mut pairs);
        for pair in pairs {
            params.insert(&mut file[HEADER..], pair);
        }
        file
    }

    /// Asks both ways.
    fn contains(params: Params, file: &[u8], key: &str) -> bool {
        let body = &file[HEADER..];
        let answer = params.contains(body, pair(key.as_bytes()));
        let other = params.contains_with(pair(key.as_bytes()), |at| Ok::<_, ()>(body[at as usize]));
        assert_eq!(other, Ok(answer));
        answer
    }

    #[test]
    fn golden_params() {
        let golden: Golden = golden::json("bloom.json");
        assert!(golden.params.len() > 20);
        for p in &golden.params {
            let params = Params::for_len(p.num_elements);
            assert_eq!(params.probability(), probability(&p.p));
            assert_eq!(params.bits(), p.num_bits);
            assert_eq!(params.hashes(), p.num_hashes);
            assert_eq!(Params::parse(&params.header(), params.file_len()), Ok(params));
        }
    }

    #[test]
    fn golden_filters_are_made_again() {
        let golden: Golden = golden::json("bloom.json");
        assert!(!golden.filters.is_empty());
        for filter in golden.filters {
            let dump = base64::prelude::BASE64_STANDARD.decode(&filter.dump_b64).unwrap();
            let params = Params::parse(&dump, dump.len() as u64).unwrap();
            assert_eq!(params.elements(), filter.num_elements);
            assert_eq!(params.probability(), probability(&filter.p));
            assert_eq!(render(params, &filter.keys), dump);
            assert!(filter.keys.iter().all(|key| contains(params, &dump, key)));
            for (key, answer) in &filter.probe {
                assert_eq!(contains(params, &dump, key), *answer, "{key}");
            }
        }
    }

    #[test]
    fn golden_files_are_made_again() {
        for set in golden::datasets() {
            let file = set.file(".filter");
            let params = Params::parse(&file[..HEADER], file.len() as u64).unwrap();
            assert_eq!(params, Params::for_len(set.keys.len() as u64));
            assert_eq!(params.elements(), set.filter.num_elements);
            assert_eq!(params.probability(), probability(&set.filter.false_positive_prob));
            assert_eq!(params.bits(), set.filter.num_bits);
            assert_eq!(params.hashes(), set.filter.num_hashes);
            assert_eq!(params.file_len(), set.filter.header_total_bytes);
            assert_eq!(render(params, &set.keys), file, "{}", set.path);
            assert!(set.keys.iter().all(|key| contains(params, &file, key)));
            assert!(!set.absent_keys.keys.is_empty());
            for (key, answer) in &set.absent_keys.keys {
                assert_eq!(contains(params, &file, key), *answer, "{}: {key}", set.path);
            }
        }
    }

    #[test]
    fn one_and_many_agree() {
        let keys: Vec<String> = (0..200).map(|i| "key".repeat(i)).collect();
        let mut pairs = vec![(0, 0); 200];
        pair_many(&keys, &mut pairs);
        for (key, many) in keys.iter().zip(pairs) {
            assert_eq!(pair(key.as_bytes()), many);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn modulo_is_exact() {
        let mut next = golden::random(2);
        let edges = [1, 2, 3, 8, 24, 1 << 32, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];
        for i in 0..200_000 {
            let divisor = edges.get(i).copied().unwrap_or_else(|| (next() >> (i % 64)).max(1));
            let modulo = Modulo::new(divisor);
            let multiple = (next() / divisor) * divisor;
            let near = [multiple, multiple.wrapping_sub(1), multiple.wrapping_add(1)];
            let last = u64::MAX / divisor * divisor;
            for x in
                near.into_iter().chain([0, u64::MAX, last, last - 1, next(), divisor, divisor - 1])
            {
                assert_eq!(modulo.of(x), x % divisor, "{x} % {divisor}");
            }
        }
    }

    #[test]
    fn headers_that_no_filter_can_have() {
        let good = Params::for_len(100);
        let with = |at: usize, bytes: [u8; 8]| {
            let mut header = good.header();
            header[at..at + 8].copy_from_slice(&bytes);
            Params::parse(&header, good.file_len()).map_err(|err| err.to_string())
        };
        assert_eq!(with(0, MAGIC), Ok(good));
        let starts = |result: Result<Params, String>, start| {
            let message = result.unwrap_err();
            assert!(message.starts_with(start), "{message}");
        };
        starts(with(0, *b"SIMPBLOX"), "byte 0: expected \"SIMPBLOO\", found \"SIMPBLOX\"");
        starts(with(8, [0; 8]), "byte 8: expected the size of the file, 152, found 0");
        starts(with(8, [0xff; 8]), "byte 8: expected the size of the file, 152");
        starts(with(16, 1u64.to_be_bytes()), "byte 16: expected at least 2 elements, found 1");
        starts(with(16, 101u64.to_be_bytes()), "byte 8: expected 154 bytes for 101 elements");
        starts(with(16, [0xff; 8]), "byte 8: expected ");
        for bad in [0.0, -0.0, 1.0, -0.5, 2.0, f64::NAN, f64::INFINITY] {
            starts(with(24, bad.to_be_bytes()), "byte 24: expected a probability");
        }
        starts(with(24, f64::from_bits(1).to_be_bytes()), "byte 8: expected ");
        // The file itself is short or long.
        for len in [0, 31, 32, 151, 153, u64::MAX] {
            assert!(Params::parse(&good.header(), len).is_err(), "{len}");
        }
        for len in 0..HEADER {
            let message = Params::parse(&good.header()[..len], 152).unwrap_err().to_string();
            assert_eq!(
                message,
                format!("byte 0: expected a header of 32 bytes, found {len} bytes")
            );
        }
    }

    #[test]
    fn extreme_params_do_not_overflow() {
        for m in [2, 3, 1 << 32, 1 << 53, u64::MAX] {
            for p in [f64::from_bits(1), 1e-300, 0.5, 0.999, 1.0 - f64::EPSILON / 2.0] {
                let params = Params::new(m, p);
                assert!(params.bits() >= 8 && params.bits() % 8 == 0);
                assert!(params.positions((u64::MAX, u64::MAX)).all(|bit| bit < params.bits()));
                // Bytes that are missing say "perhaps".
                assert!(params.contains(&[], (1, 2)));
            }
        }
        assert_eq!(Params::for_len(0), Params::for_len(2));
        assert_eq!(Params::new(1000, 0.999).hashes(), 0);
    }

    #[test]
    fn damage_never_panics() {
        let params = Params::for_len(9);
        let file = render(params, &["a", "b", "c"]);
        golden::damage(&file, |bytes| {
            for len in [bytes.len(), file.len()] {
                if let Ok(params) = Params::parse(bytes, len as u64) {
                    params.contains(bytes.get(HEADER..).unwrap_or_default(), pair(b"a"));
                }
            }
        });
    }

    #[test]
    fn a_failing_read_is_passed_on() {
        let params = Params::for_len(9);
        let answer = params.contains_with(pair(b"a"), |_| Err("no"));
        assert_eq!(answer, Err("no"));
    }
}
