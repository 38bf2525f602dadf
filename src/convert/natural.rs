//! Names as people sort them: `img2` before `img10`.

use std::cmp::Ordering;

/// Compares names by their text and, where both have a number, by its value. Names that differ
/// only in leading zeros are told apart by these, so the order is total.
///
/// ```
/// let mut names = ["img10", "img2", "img02", "IMG3"];
/// names.sort_by(|a, b| kiste::convert::natural_order(a, b));
/// assert_eq!(names, ["IMG3", "img02", "img2", "img10"]);
/// ```
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (text_a, number_a, rest_a) = split(left);
        let (text_b, number_b, rest_b) = split(right);
        // Without leading zeros the longer number is the larger one.
        let value = |digits: &str| digits.trim_start_matches('0').len();
        let by_number = value(number_a)
            .cmp(&value(number_b))
            .then_with(|| number_a.trim_start_matches('0').cmp(number_b.trim_start_matches('0')));
        let presence = number_a.is_empty().cmp(&number_b.is_empty()).reverse();
        let order = text_a.cmp(text_b).then(presence).then(by_number);
        if order.is_ne() {
            return order;
        }
        if rest_a.is_empty() && rest_b.is_empty() && number_a.is_empty() {
            return a.cmp(b);
        }
        (left, right) = (rest_a, rest_b);
        if left.is_empty() && right.is_empty() {
            return a.cmp(b);
        }
    }
}

/// Text up to a number, the number, and what follows.
fn split(name: &str) -> (&str, &str, &str) {
    let start = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let (text, rest) = name.split_at(start);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, rest) = rest.split_at(end);
    (text, number, rest)
}

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
}
