//! [`ClassInfo`]: what is known about the classes of a field.

use serde::Serialize;

use super::{ClassCounts, Classes};

/// Facts about a class. As JSON it has no entry for unknown ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ClassInfo {
    /// Its number.
    pub class: usize,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Red, green and blue, where it is drawn in a colour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colour: Option<[u8; 3]>,
    /// How many maps it would fill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<f64>,
    /// Its weight for training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

impl ClassInfo {
    fn new(class: usize, names: &[String], colours: &[[u8; 3]]) -> ClassInfo {
        let (name, colour) = (names.get(class).cloned(), colours.get(class).copied());
        ClassInfo { class, name, colour, count: None, weight: None }
    }
}

impl Classes {
    /// All classes that have a name or were counted.
    ///
    /// ```
    /// let cifar10 = kiste::datasets::find("cifar10")?;
    /// let classes = cifar10.classes[0].table();
    /// assert_eq!(classes[3].name.as_deref(), Some("cat"));
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn table(&self) -> Vec<ClassInfo> {
        let (names, counts) = (self.names.to_vec(), (self.counts)());
        let counted = counts.iter().map(|(class, _)| usize::from(*class) + 1).max().unwrap_or(0);
        let numbers = 0..names.len().max(counted);
        let mut rows: Vec<ClassInfo> =
            numbers.map(|class| ClassInfo::new(class, &names, self.colours)).collect();
        for ((class, count), (_, weight)) in counts.into_iter().zip(self.weights()) {
            let row = &mut rows[usize::from(class)];
            (row.count, row.weight) = (Some(count), Some(weight));
        }
        rows.retain(|row| row.name.is_some() || row.count.is_some());
        rows
    }
}

impl ClassCounts {
    /// The classes that were counted, with the names of a description.
    pub fn table(&self, classes: Option<&Classes>) -> Vec<ClassInfo> {
        let names = classes.map(|classes| classes.names.to_vec()).unwrap_or_default();
        let rows = self.counts().into_iter().zip(self.weights());
        let row = |((class, count), (_, weight)): ((u16, f64), (u16, f64))| ClassInfo {
            count: Some(count),
            weight: Some(weight),
            ..ClassInfo::new(usize::from(class), &names, &[])
        };
        rows.map(row).collect()
    }
}
