//! [`parse`]: batchings as texts, which their descriptions are.

use std::str::FromStr;
use std::sync::Arc;

use super::{Batching, ByLength, ByShape, Longer, Rows, TokenBudget, invalid};
use crate::error::{Error, Result};

/// A batching from a text, such as the one that [describes](Batching::description) it.
///
/// | text | |
/// | --- | --- |
/// | `budget:8192` | [`TokenBudget::padded`] |
/// | `budget:8192:packed` | [`TokenBudget::packed`] |
/// | `rows:2048x8` | [`Rows::whole`]: 8 rows of 2,048 |
/// | `rows:2048x8:split` | [`Rows::split`] |
/// | `buckets:512=64,2048=16` | [`ByLength::up_to`]: 64 samples of up to 512, 16 of up to 2,048 |
/// | `equal:8x64` | [`ByLength::equal`]: 8 buckets, 64 samples a batch |
/// | `shapes:512x512=4,640x448=4` | [`ByShape`] |
///
/// Behind them `:most=64` is the most samples of a budget, and `:longer=cut` or `:longer=leave-out` what happens to
/// samples that no batch has room for.
///
/// ```
/// use kiste::sampler::batching::parse;
///
/// let batching = parse("rows:2048x8:longer=cut")?;
/// assert_eq!(batching.description(), "rows:2048x8:longer=cut");
/// assert!(parse("rows:2048").is_err());
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid), which says what is expected.
pub fn parse(text: &str) -> Result<Arc<dyn Batching>> {
    let mut parts = text.split(':');
    let (name, numbers) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut options = Options { text, rest: parts.collect() };
    let longer = options.longer()?;
    let batching: Arc<dyn Batching> = match name {
        "budget" => {
            let tokens = positive(text, numbers)?;
            let budget = match options.take("packed") {
                true => TokenBudget::packed(tokens),
                false => TokenBudget::padded(tokens),
            };
            let most = options.value("most=").map(|most| positive(text, most)).transpose()?;
            Arc::new(most.into_iter().fold(budget, TokenBudget::most).longer(longer))
        }
        "rows" => {
            let (length, rows) = pair(text, numbers, 'x')?;
            let (length, rows) = (positive(text, length)?, positive(text, rows)?);
            let rows = match options.take("split") {
                true => Rows::split(length, rows),
                false => Rows::whole(length, rows),
            };
            Arc::new(rows.longer(longer))
        }
        "buckets" => {
            let bucket = |part: &str| {
                let (most, batch) = pair(text, part, '=')?;
                Ok((number(text, most)?, positive(text, batch)?))
            };
            let buckets = numbers.split(',').map(bucket).collect::<Result<Vec<_>>>()?;
            Arc::new(ByLength::up_to(buckets)?.longer(longer))
        }
        "equal" => {
            let (buckets, batch) = pair(text, numbers, 'x')?;
            let (buckets, batch) = (positive(text, buckets)?, positive(text, batch)?);
            Arc::new(ByLength::equal(buckets, batch)?.longer(longer))
        }
        "shapes" => {
            let shape = |part: &str| {
                let (shape, batch) = pair(text, part, '=')?;
                let (width, height) = pair(text, shape, 'x')?;
                Ok((number(text, width)?, number(text, height)?, positive(text, batch)?))
            };
            Arc::new(ByShape::new(numbers.split(',').map(shape).collect::<Result<Vec<_>>>()?)?)
        }
        _ => {
            let message = format!(
                "{text:?}: expected budget, rows, buckets, equal or shapes, found {name:?}"
            );
            return Err(invalid(message));
        }
    };
    match options.rest.first() {
        None => Ok(batching),
        Some(option) => {
            Err(invalid(format!("{text:?}: expected no other options, found {option:?}")))
        }
    }
}

struct Options<'a> {
    text: &'a str,
    rest: Vec<&'a str>,
}

impl<'a> Options<'a> {
    fn take(&mut self, name: &str) -> bool {
        let at = self.rest.iter().position(|option| *option == name);
        at.map(|at| self.rest.remove(at)).is_some()
    }

    fn value(&mut self, name: &str) -> Option<&'a str> {
        let at = self.rest.iter().position(|option| option.starts_with(name))?;
        self.rest.remove(at).strip_prefix(name)
    }

    fn longer(&mut self) -> Result<Longer> {
        let longer = self.value("longer=").map_or(Ok(Longer::Refuse), str::parse);
        longer.map_err(|error: Error| invalid(format!("{:?}: {}", self.text, error.message())))
    }
}

fn pair<'a>(text: &str, part: &'a str, between: char) -> Result<(&'a str, &'a str)> {
    part.split_once(between).ok_or_else(|| {
        invalid(format!("{text:?}: expected two numbers with {between:?} between, found {part:?}"))
    })
}

fn number<T: FromStr>(text: &str, part: &str) -> Result<T> {
    let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| part.parse().ok()).flatten();
    number.ok_or_else(|| invalid(format!("{text:?}: expected a number, found {part:?}")))
}

fn positive(text: &str, part: &str) -> Result<u64> {
    match number(text, part)? {
        0 => Err(invalid(format!("{text:?}: expected 1 or more, found 0"))),
        number => Ok(number),
    }
}
