//! The examples do what they say.
//!
//! Compiled into this binary rather than started: `cargo test --test main` does not build examples,
//! and would start the program of an earlier build.

#[path = "../examples/train.rs"]
#[expect(dead_code, reason = "`main` is for the example itself")]
mod train;

#[test]
fn a_run_with_a_pause_ends_at_the_same_weights() {
    let accuracy = train::run(4).unwrap();
    assert!(accuracy > 0.9, "{accuracy}");
}
