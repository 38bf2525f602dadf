//! Several inputs as one.

use std::path::Path;

use super::carried::Remarks;
use super::input::{Emit, Input};
use crate::error::{Error, ErrorKind, Result};

/// The units of one input, then the units of the other.
pub struct Chained {
    inputs: Vec<Box<dyn Input>>,
    /// The first unit of each.
    starts: Vec<usize>,
    units: usize,
}

impl Chained {
    /// These inputs in their order.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if their labels have different names, as one number would
    /// mean two things.
    pub fn new(inputs: Vec<Box<dyn Input>>) -> Result<Chained> {
        let differ = |pair: &&[Box<dyn Input>]| pair[0].label_names() != pair[1].label_names();
        if let Some(pair) = inputs.windows(2).find(differ) {
            let name = |input: &dyn Input| match input.path(0) {
                Some(path) => path.display().to_string(),
                None => "another source".to_owned(),
            };
            let (a, b) = (name(&*pair[0]), name(&*pair[1]));
            let message = format!(
                "{a} and {b} have different labels, so the numbers would not mean the same"
            );
            return Err(Error::new(ErrorKind::Invalid, message).advise(
                "convert each to a dataset, and merge these with labels numbered by their names",
            ));
        }
        let (mut starts, mut units) = (Vec::with_capacity(inputs.len()), 0usize);
        for input in &inputs {
            starts.push(units);
            units = units.saturating_add(input.units());
        }
        Ok(Chained { inputs, starts, units })
    }

    /// The input that a unit is of, and its number there.
    fn find(&self, unit: usize) -> Option<(&dyn Input, usize)> {
        let at = self.starts.partition_point(|start| *start <= unit).checked_sub(1)?;
        Some((&*self.inputs[at], unit - self.starts[at]))
    }
}

impl Input for Chained {
    fn units(&self) -> usize {
        self.units
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        self.find(unit).map_or(Ok(()), |(input, unit)| input.read(unit, emit))
    }

    fn path(&self, unit: usize) -> Option<&Path> {
        self.find(unit).and_then(|(input, unit)| input.path(unit))
    }

    fn shard(&self, unit: usize) -> Option<&str> {
        self.find(unit).and_then(|(input, unit)| input.shard(unit))
    }

    fn bytes(&self, unit: usize) -> Option<u64> {
        self.find(unit).and_then(|(input, unit)| input.bytes(unit))
    }

    fn identify(&self, add: &mut dyn FnMut(&[u8])) {
        self.inputs.iter().for_each(|input| input.identify(add));
    }

    fn locate(&self, unit: usize, item: u64, error: Error) -> Error {
        match self.find(unit) {
            Some((input, unit)) => input.locate(unit, item, error),
            None => error,
        }
    }

    fn remarks(&self, unit: usize) -> Remarks {
        self.find(unit).map_or_else(Remarks::default, |(input, unit)| input.remarks(unit))
    }

    fn len_hint(&self) -> Option<u64> {
        self.inputs.iter().try_fold(0u64, |sum, input| sum.checked_add(input.len_hint()?))
    }

    fn label_names(&self) -> Option<&[String]> {
        self.inputs.first().and_then(|input| input.label_names())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This many units, which emit their number.
    struct Units(u8);

    impl Input for Units {
        fn units(&self) -> usize {
            self.0.into()
        }

        fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
            emit(Ok(vec![self.0, unit as u8]))
        }
    }

    #[test]
    fn units_follow_each_other() {
        let inputs = [0, 2, 0, 0, 3, 0].map(|units| Box::new(Units(units)) as Box<dyn Input>);
        let chained = Chained::new(inputs.into()).unwrap();
        let mut found = Vec::new();
        for unit in 0..chained.units() {
            let mut push = |sample: Result<Vec<u8>>| sample.map(|sample| found.push(sample));
            chained.read(unit, &mut push).unwrap();
        }
        assert_eq!(found, [[2, 0], [2, 1], [3, 0], [3, 1], [3, 2]]);
    }
}
