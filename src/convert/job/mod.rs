//! What the runs of one conversion share, on one machine or many: its parts, its journal, and what is in the
//! places of its outputs.

pub(super) mod journal;
pub(super) mod notes;
pub(super) mod outputs;
pub(super) mod part;
pub(super) mod part_note;

pub(super) use journal::{Fate, Journal};
pub(super) use notes::at_once;
pub(super) use outputs::{Appends, Place};
pub(super) use part::no_units;
pub(super) use part_note::{Done, Made};
