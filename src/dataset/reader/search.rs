//! The search for a key as decisions: what to ask next, and what an answer means.
//!
//! Nothing is read here. Who drives a [`Search`] answers its [`Step`]s: from maps as they come ([`find`](super::find)),
//! or many searches at a time, whose questions share their round trips ([`rounds`](super::rounds)). Slots and
//! hashes lead only to samples that may be the one: the key of the sample decides.
//!
//! A key that is not found counts as absent only if a second witness agrees: the Bloom filter says so too, or the
//! hashes or `.lookup` were compared with their digests, or the list of all keys was read. So a flipped bit or a
//! file of another dataset is an error and never a wrong answer.

/// A question, or how the search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// To which sample does the next slot lead? [`Search::candidate`] or [`Search::broken`].
    Slot,
    /// Which sample from this one on has the wanted hash? [`Search::candidate`].
    Hash(usize),
    /// Does this sample have the key? [`Search::compared`].
    Key(usize),
    /// May the filter contain the key? [`Search::filtered`].
    Filter,
    /// The hashes lack the key. Is that confirmed? If so it is absent, and otherwise a file is damaged.
    Confirm,
    Found(usize),
    Absent,
    /// `.lookup` alone cannot tell.
    Unclear,
}

impl Step {
    /// At the end of a search the index that was found, if there is one.
    #[inline]
    pub(super) fn end(self) -> Option<Option<usize>> {
        match self {
            Step::Found(index) => Some(Some(index)),
            Step::Absent => Some(None),
            _ => None,
        }
    }
}

/// What leads to samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// `.lookup` and nothing else. If it is trusted, what it lacks is absent.
    Alone { is_trusted: bool },
    /// `.lookup`, made of the hashes in `.key_hashes`, judged by their ends.
    Lookup,
    /// A table that was made of the hashes.
    Table,
    /// All hashes.
    Hashes,
    /// All hashes, for a key that `.lookup` lacks.
    HashesAfter,
}

/// A search for one key.
#[derive(Debug, Clone)]
pub(super) struct Search {
    way: Way,
    /// Whether the filter may contain the key, once it was asked.
    filter: Option<bool>,
}

impl Search {
    #[inline]
    pub(super) fn new(way: Way, filter: Option<bool>) -> (Search, Step) {
        let first = if way == Way::Hashes { Step::Hash(0) } else { Step::Slot };
        (Search { way, filter }, first)
    }

    /// Whether `.lookup` was found to lack the key.
    #[inline]
    pub(super) fn is_after_lookup(&self) -> bool {
        self.way == Way::HashesAfter
    }

    /// A sample that may be the one, or `None` when there are no more of them.
    #[inline]
    pub(super) fn candidate(&mut self, found: Option<usize>) -> Step {
        match (found, self.way) {
            (Some(index), _) => Step::Key(index),
            (None, Way::Alone { is_trusted: true }) => Step::Absent,
            (None, Way::Alone { is_trusted: false }) => Step::Unclear,
            (None, Way::HashesAfter) => Step::Confirm,
            (None, _) => self.filter.map_or(Step::Filter, |may_contain| self.filtered(may_contain)),
        }
    }

    /// Whether the sample of this index, the last candidate, has the key.
    #[inline]
    pub(super) fn compared(&mut self, index: usize, has_key: bool) -> Step {
        match &mut self.way {
            _ if has_key => Step::Found(index),
            Way::Alone { is_trusted } => {
                // It hardly ever is another sample with the same tag, or it is this one and damaged.
                *is_trusted = false;
                Step::Slot
            }
            Way::Lookup | Way::Table => Step::Slot,
            Way::Hashes | Way::HashesAfter => Step::Hash(index + 1),
        }
    }

    /// A slot makes no sense: nothing is in it that cannot be had without.
    #[cold]
    pub(super) fn broken(&mut self) -> Step {
        if let Way::Alone { .. } = self.way {
            return Step::Unclear;
        }
        self.way = Way::Hashes;
        Step::Hash(0)
    }

    /// Whether the filter may contain the key: it says so of one absent key in N for N samples. Without a filter it may.
    pub(super) fn filtered(&mut self, may_contain: bool) -> Step {
        match self.way {
            _ if !may_contain => Step::Absent,
            // The file may belong to another dataset.
            Way::Lookup => {
                self.way = Way::HashesAfter;
                Step::Hash(0)
            }
            _ => Step::Confirm,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: [Way; 5] = [
        Way::Alone { is_trusted: true },
        Way::Alone { is_trusted: false },
        Way::Lookup,
        Way::Table,
        Way::Hashes,
    ];
    const FILTERS: [Option<bool>; 3] = [None, Some(true), Some(false)];

    /// Takes all ways that a search can take with at most this many more candidates. `seen` is what was asked,
    /// with what was said.
    fn explore(search: &Search, step: Step, more: usize, seen: &mut Vec<(Step, bool)>) {
        let asked = seen.len();
        let mut goes = |answer: bool, take: &dyn Fn(&mut Search) -> Step| {
            let mut search = search.clone();
            seen.push((step, answer));
            let next = take(&mut search);
            explore(&search, next, more - usize::from(answer && more > 0), seen);
            seen.pop();
        };
        let from = match step {
            Step::Slot => asked,
            Step::Hash(from) => from,
            Step::Key(index) => {
                goes(true, &|search| search.compared(index, true));
                return goes(false, &|search| search.compared(index, false));
            }
            Step::Filter => {
                goes(true, &|search| search.filtered(true));
                return goes(false, &|search| search.filtered(false));
            }
            _ => return check(search, step, seen),
        };
        goes(false, &|search| search.candidate(None));
        if more > 0 {
            goes(true, &|search| search.candidate(Some(from)));
        }
        if step == Step::Slot {
            goes(false, &|search| search.broken());
        }
    }

    fn check(search: &Search, end: Step, seen: &[(Step, bool)]) {
        let was_said = |wanted: fn(&(Step, bool)) -> bool| seen.iter().any(wanted);
        let is_key = |seen: &(Step, bool)| matches!(seen.0, Step::Key(_));
        match end {
            Step::Found(index) => assert_eq!(seen.last(), Some(&(Step::Key(index), true))),
            Step::Absent if search.filter == Some(false) => {}
            Step::Absent => {
                let by_filter = was_said(|seen| *seen == (Step::Filter, false));
                let is_alone = matches!(search.way, Way::Alone { is_trusted: true });
                assert!(by_filter || (is_alone && !seen.iter().any(is_key)), "{seen:?}");
            }
            // All hashes decide, or a table of them.
            Step::Confirm => assert!(search.way != Way::Lookup, "{seen:?}"),
            Step::Unclear => assert!(matches!(search.way, Way::Alone { .. })),
            _ => unreachable!("{end:?}"),
        }
    }

    #[test]
    fn nothing_is_absent_by_one_witness_alone() {
        for (way, filter) in WAYS.into_iter().flat_map(|way| FILTERS.map(|filter| (way, filter))) {
            let (search, step) = Search::new(way, filter);
            explore(&search, step, 3, &mut Vec::new());
        }
    }

    #[test]
    fn the_filter_is_asked_once() {
        let (mut search, step) = Search::new(Way::Lookup, None);
        assert_eq!(step, Step::Slot);
        assert_eq!(search.candidate(Some(7)), Step::Key(7));
        assert_eq!(search.compared(7, false), Step::Slot);
        assert_eq!(search.candidate(None), Step::Filter);
        assert_eq!(search.filtered(true), Step::Hash(0));
        assert!(search.is_after_lookup());
        assert_eq!(search.candidate(Some(3)), Step::Key(3));
        assert_eq!(search.compared(3, false), Step::Hash(4));
        assert_eq!(search.candidate(None), Step::Confirm);
    }

    #[test]
    fn a_broken_table_is_made_up_for_by_the_hashes() {
        let (mut search, _) = Search::new(Way::Lookup, Some(true));
        assert_eq!(search.broken(), Step::Hash(0));
        assert_eq!(search.candidate(None), Step::Confirm);
        let (mut search, _) = Search::new(Way::Alone { is_trusted: true }, None);
        assert_eq!(search.broken(), Step::Unclear);
    }
}
