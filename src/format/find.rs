//! Lookup of fields by name that stays fast for samples of tens of thousands of fields.

use std::collections::{HashMap, HashSet};

/// Up to this many names are compared one by one, which is faster than hashing them.
const FEW: usize = 16;

/// Finds items by their names: without any search if they are looked up in their own order.
pub(crate) struct Finder<'a, T> {
    items: &'a [T],
    name: fn(&T) -> &str,
    /// The item that is looked up next if the order is the same.
    next: usize,
    all: Option<HashMap<&'a str, usize>>,
}

impl<'a, T> Finder<'a, T> {
    pub(crate) fn new(items: &'a [T], name: fn(&T) -> &str) -> Finder<'a, T> {
        Finder { items, name, next: 0, all: None }
    }

    /// The position of the item of this name. Names are expected to differ.
    pub(crate) fn position(&mut self, name: &str) -> Option<usize> {
        let (items, name_of) = (self.items, self.name);
        let at = match items.get(self.next) {
            Some(next) if name_of(next) == name => self.next,
            _ if items.len() <= FEW => items.iter().position(|item| name_of(item) == name)?,
            _ => {
                let names = || items.iter().enumerate().rev().map(|(at, item)| (name_of(item), at));
                *self.all.get_or_insert_with(|| names().collect()).get(name)?
            }
        };
        self.next = at + 1;
        Some(at)
    }

    /// The item of this name.
    pub(crate) fn find(&mut self, name: &str) -> Option<&'a T> {
        self.position(name).map(|at| &self.items[at])
    }
}

/// Names that must not repeat.
#[derive(Default)]
pub(crate) struct Distinct<'a> {
    few: Vec<&'a str>,
    many: HashSet<&'a str>,
}

impl<'a> Distinct<'a> {
    /// Adds a name; false if it was there before.
    pub(crate) fn insert(&mut self, name: &'a str) -> bool {
        if self.many.is_empty() && self.few.len() < FEW {
            let new = !self.few.contains(&name);
            self.few.push(name);
            return new;
        }
        if self.many.is_empty() {
            self.many.extend(&self.few);
        }
        self.many.insert(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_order() {
        for len in [0, 1, FEW, FEW + 1, 100] {
            let names: Vec<String> = (0..len).map(|at| (at * 7 % 50).to_string()).collect();
            let asked: Vec<String> =
                (0..60).chain((0..60).rev()).map(|n| (n * 7 % 60).to_string()).collect();
            let mut finder = Finder::new(&names, String::as_str);
            for name in asked.iter().chain(&names) {
                let expected = names.iter().position(|known| known == name);
                let found = finder.position(name);
                assert_eq!(found.map(|at| &names[at]), expected.map(|at| &names[at]), "{name}");
            }
        }
    }

    #[test]
    fn names_that_come_twice_are_noticed() {
        let names: Vec<String> = (0..100).map(|at| at.to_string()).collect();
        for len in [1, FEW - 1, FEW, FEW + 1, 100] {
            let mut distinct = Distinct::default();
            assert!(names[..len].iter().all(|name| distinct.insert(name)), "{len}");
            assert!(names[..len].iter().all(|name| !distinct.insert(name)), "{len}");
        }
    }
}
