//! [`Literal`]: a value that fields are compared with.

use std::cmp::Ordering;

use crate::rearrange::{Scalar, ScalarKind};
use crate::value::time::parse_moment;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Literal {
    pub(super) scalar: Scalar,
    /// The time that its text says, in nanoseconds since 1970.
    moment: Option<i128>,
}

impl Literal {
    pub(super) fn new(scalar: Scalar) -> Literal {
        let moment = moment(&scalar);
        Literal { scalar, moment }
    }

    /// Text that is no time, also where it reads like one.
    pub(super) fn text(text: &str) -> Literal {
        Literal { scalar: Scalar::Text(text.to_owned()), moment: None }
    }

    /// Of which kind it is; null is of none.
    pub(super) fn kind(&self) -> Option<ScalarKind> {
        self.moment.map(|_| ScalarKind::Time).or_else(|| self.scalar.kind())
    }

    /// Whether a value can be compared with it. Null is of the kind of everything.
    pub(super) fn is_alike(&self, value: &Scalar) -> bool {
        match (value.kind(), self.scalar.kind()) {
            (Some(ScalarKind::Time), Some(ScalarKind::Text)) => self.moment.is_some(),
            (Some(own), Some(other)) => own == other,
            _ => true,
        }
    }

    /// Both as times, if both are: text of a field is one where it reads like one.
    fn as_moments(&self, value: &Scalar) -> Option<(i128, i128)> {
        self.moment.and_then(|other| Some((moment(value)?, other)))
    }

    pub(super) fn is_equal(&self, value: &Scalar) -> bool {
        match self.as_moments(value) {
            Some((own, other)) => own == other,
            None => *value == self.scalar,
        }
    }

    /// How a value compares with it: only numbers, times and text have an order.
    pub(super) fn order(&self, value: &Scalar) -> Option<Ordering> {
        let is_nan = matches!(value, Scalar::Float(number) if number.is_nan());
        match (self.as_moments(value), value.kind(), self.scalar.kind()) {
            (Some((own, other)), ..) => Some(own.cmp(&other)),
            (_, Some(ScalarKind::Number), Some(ScalarKind::Number)) if !is_nan => {
                Some(value.cmp(&self.scalar))
            }
            (_, Some(ScalarKind::Text), Some(ScalarKind::Text)) => Some(value.cmp(&self.scalar)),
            _ => None,
        }
    }
}

fn moment(scalar: &Scalar) -> Option<i128> {
    match scalar {
        Scalar::Time(time) => Some(*time),
        Scalar::Text(text) => parse_moment(text),
        _ => None,
    }
}
