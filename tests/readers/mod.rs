//! Readers of all kinds: what is theirs alone, and the one list of questions that all answer alike.

mod natural;
