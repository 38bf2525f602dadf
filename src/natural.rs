//! Names as people sort them: `img2` before `img10`, in the order of Python's `natsort`.
//!
//! Numbers are runs of decimal digits of any script, and other digits (`²`, `⑦`) one by one; they
//! count by their value, however long they are. Signs, points and exponents are text. Text is
//! compared by code points after canonical decomposition (NFD), so that `é` comes between `e` and
//! `f` however it is spelled. The digits of Unicode 14 are fixed: an order that numbers
//! labels must not change with a table.

use std::borrow::Cow;
use std::cmp::Ordering;

use unicode_normalization::{UnicodeNormalization, is_nfd};

/// Compares names by their text and, where both have a number, by its value. Names that differ
/// only in leading zeros or in how characters are spelled are ordered by code points, so the
/// order is total. (In Python they tie, and the order of labels depends on the run.)
///
/// ```
/// let mut names = ["img10", "img2", "img02", "IMG3"];
/// names.sort_by(|a, b| kiste::natural_order(a, b));
/// assert_eq!(names, ["IMG3", "img02", "img2", "img10"]);
/// ```
pub fn natural_order(a: &str, b: &str) -> Ordering {
    // Up to the last letter or sign that both begin with, they are equal; one of ASCII is no part of a number and is not
    // composed with what follows.
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let is_plain = |byte: &u8| byte.is_ascii() && !byte.is_ascii_digit();
    let start = a.as_bytes()[..same].iter().rposition(is_plain).map_or(0, |at| at + 1);
    let (left, right) = (decompose(&a[start..]), decompose(&b[start..]));
    compare(&left, &right).then_with(|| a.cmp(b))
}

fn decompose(name: &str) -> Cow<'_, str> {
    if name.is_ascii() || is_nfd(name) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.nfd().collect())
}

/// Text and number in turn: what has no number at its end is the shorter and comes first.
fn compare(mut a: &str, mut b: &str) -> Ordering {
    loop {
        let (text_a, number_a, rest_a) = split(a);
        let (text_b, number_b, rest_b) = split(b);
        let order = text_a
            .cmp(text_b)
            .then((!number_a.is_empty()).cmp(&!number_b.is_empty()))
            .then_with(|| by_value(number_a, number_b))
            .then((!rest_a.is_empty()).cmp(&!rest_b.is_empty()));
        if order.is_ne() || rest_a.is_empty() {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
}

/// Text up to a number, the number, and what follows.
pub(crate) fn split(name: &str) -> (&str, &str, &str) {
    let digits = name.char_indices().find(|&(_, c)| is_digit(c));
    let Some((start, first)) = digits else { return (name, "", "") };
    let (text, rest) = name.split_at(start);
    let end = match decimal(first) {
        Some(_) => rest.find(|c| decimal(c).is_none()).unwrap_or(rest.len()),
        None => first.len_utf8(),
    };
    let (number, rest) = rest.split_at(end);
    (text, number, rest)
}

/// The digits of a number by value, without leading zeros.
pub(crate) fn digits(number: &str) -> impl Iterator<Item = u8> + Clone {
    number.chars().filter_map(|c| decimal(c).or_else(|| other_digit(c))).skip_while(|&d| d == 0)
}

/// Without leading zeros the longer number is the larger one.
fn by_value(a: &str, b: &str) -> Ordering {
    digits(a).count().cmp(&digits(b).count()).then_with(|| digits(a).cmp(digits(b)))
}

fn is_digit(c: char) -> bool {
    decimal(c).is_some() || other_digit(c).is_some()
}

/// The value of a decimal digit of any script (category Nd).
fn decimal(c: char) -> Option<u8> {
    if c.is_ascii() {
        return c.to_digit(10).map(|digit| digit as u8);
    }
    let zero = ZEROS[..ZEROS.partition_point(|&zero| zero <= c)].last()?;
    u8::try_from(c as u32 - *zero as u32).ok().filter(|&digit| digit < 10)
}

/// The value of a digit that makes no decimal numbers: superscripts, circled digits.
fn other_digit(c: char) -> Option<u8> {
    if c.is_ascii() {
        return None;
    }
    let after = OTHERS.partition_point(|&(first, _, _)| first <= c);
    let (first, last, value) = *OTHERS[..after].last()?;
    (c <= last).then(|| value + (c as u32 - first as u32) as u8)
}

/// The zero of each run of ten decimal digits, sorted.
#[rustfmt::skip]
const ZEROS: &[char] = &[
    '\u{30}', '\u{660}', '\u{6f0}', '\u{7c0}', '\u{966}', '\u{9e6}', '\u{a66}', '\u{ae6}',
    '\u{b66}', '\u{be6}', '\u{c66}', '\u{ce6}', '\u{d66}', '\u{de6}', '\u{e50}', '\u{ed0}',
    '\u{f20}', '\u{1040}', '\u{1090}', '\u{17e0}', '\u{1810}', '\u{1946}', '\u{19d0}',
    '\u{1a80}', '\u{1a90}', '\u{1b50}', '\u{1bb0}', '\u{1c40}', '\u{1c50}', '\u{a620}',
    '\u{a8d0}', '\u{a900}', '\u{a9d0}', '\u{a9f0}', '\u{aa50}', '\u{abf0}', '\u{ff10}',
    '\u{104a0}', '\u{10d30}', '\u{11066}', '\u{110f0}', '\u{11136}', '\u{111d0}', '\u{112f0}',
    '\u{11450}', '\u{114d0}', '\u{11650}', '\u{116c0}', '\u{11730}', '\u{118e0}', '\u{11950}',
    '\u{11c50}', '\u{11d50}', '\u{11da0}', '\u{16a60}', '\u{16ac0}', '\u{16b50}', '\u{1d7ce}',
    '\u{1d7d8}', '\u{1d7e2}', '\u{1d7ec}', '\u{1d7f6}', '\u{1e140}', '\u{1e2f0}', '\u{1e950}',
    '\u{1fbf0}',
];

/// First, last and value of the first of each run of other digits, sorted.
#[rustfmt::skip]
const OTHERS: &[(char, char, u8)] = &[
    ('\u{b2}', '\u{b3}', 2), ('\u{b9}', '\u{b9}', 1), ('\u{1369}', '\u{1371}', 1),
    ('\u{19da}', '\u{19da}', 1), ('\u{2070}', '\u{2070}', 0), ('\u{2074}', '\u{2079}', 4),
    ('\u{2080}', '\u{2089}', 0), ('\u{2460}', '\u{2468}', 1), ('\u{2474}', '\u{247c}', 1),
    ('\u{2488}', '\u{2490}', 1), ('\u{24ea}', '\u{24ea}', 0), ('\u{24f5}', '\u{24fd}', 1),
    ('\u{24ff}', '\u{24ff}', 0), ('\u{2776}', '\u{277e}', 1), ('\u{2780}', '\u{2788}', 1),
    ('\u{278a}', '\u{2792}', 1), ('\u{10a40}', '\u{10a43}', 1), ('\u{10e60}', '\u{10e68}', 1),
    ('\u{11052}', '\u{1105a}', 1), ('\u{1f100}', '\u{1f100}', 0), ('\u{1f101}', '\u{1f10a}', 0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_by_value() {
        let sorted = [
            "",
            "0",
            "1",
            "2",
            "10",
            "99999999999999999999",
            "100000000000000000000",
            "a",
            "a1",
            "a1b",
            "a1b2",
            "a1b10",
            "a02",
            "a2",
            "a2b",
            "a10",
            "b",
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(natural_order(a, b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn what_names_have_in_common_is_left_out_and_the_order_stays() {
        let parts = ["a", "-", "1", "0", "²", "\u{663}", "e", "\u{e9}", "\u{301}", "\u{323}"];
        let mut names = vec![String::new()];
        for _ in 0..3 {
            let longer = |name: &String| parts.map(|part| format!("{name}{part}"));
            names = names.iter().flat_map(longer).chain(names.iter().cloned()).collect();
            names.sort_unstable();
            names.dedup();
        }
        for (at, a) in names.iter().enumerate() {
            for b in names.iter().skip(at % 7).step_by(7) {
                let whole = compare(&decompose(a), &decompose(b)).then_with(|| a.cmp(b));
                assert_eq!(natural_order(a, b), whole, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn digits_of_all_scripts_have_their_values() {
        let value = |c| (decimal(c), other_digit(c));
        assert_eq!(value('9'), (Some(9), None));
        assert_eq!(value('\u{663}'), (Some(3), None));
        assert_eq!(value('\u{1d7d9}'), (Some(1), None));
        assert_eq!(value('²'), (None, Some(2)));
        assert_eq!(value('⑨'), (None, Some(9)));
        assert_eq!(value('⑩'), (None, None));
        assert_eq!(value('½'), (None, None));
        assert_eq!(value('x'), (None, None));
        assert!(ZEROS.is_sorted() && OTHERS.is_sorted());
        // Other digits are numbers of their own, one by one.
        assert_eq!(split("x²³"), ("x", "²", "³"));
        assert_eq!(natural_order("²", "02"), Ordering::Greater);
        assert_eq!(natural_order("²³", "10"), Ordering::Less);
    }

    #[test]
    fn the_order_is_total_over_names_that_natsort_ties() {
        let names = ["01", "1", "001", "²", "2", "\u{e9}", "e\u{301}", "e", "f", "1a", "01a"];
        for a in names {
            for b in names {
                assert_eq!(natural_order(a, b), natural_order(b, a).reverse(), "{a:?} {b:?}");
                assert_eq!(natural_order(a, b).is_eq(), a == b, "{a:?} {b:?}");
                for c in names {
                    if natural_order(a, b).is_lt() && natural_order(b, c).is_lt() {
                        assert!(natural_order(a, c).is_lt(), "{a:?} {b:?} {c:?}");
                    }
                }
            }
        }
    }
}
