//! Labels in the order of Python's natsort.

use kiste::natural_order;
use serde::Deserialize;

use crate::support::golden_dir;

#[derive(Deserialize)]
struct Case {
    labels: Vec<String>,
    sorted: Vec<String>,
}

#[test]
fn labels_are_sorted_as_natsort_sorts_them() {
    let text = std::fs::read(golden_dir().join("natsort.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_slice(&text).unwrap();
    assert_eq!(cases.len(), 11);
    for Case { mut labels, sorted } in cases {
        labels.sort_by(|a, b| natural_order(a, b));
        assert_eq!(labels, sorted);
        labels.reverse();
        labels.sort_by(|a, b| natural_order(a, b));
        assert_eq!(labels, sorted);
    }
}
