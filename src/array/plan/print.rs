//! Plans as text, in the form of versioned-hdf5.

use std::fmt;
use std::ops::Range;

use super::changes::ChangesPlan;
use super::layout::{Layout, Patch, SlabKind};
use super::load::LoadPlan;
use super::moves::End;
use super::resize::ResizePlan;
use super::rows::{Row, Span, TransferRows};
use super::select::{GetItemPlan, SetItemPlan, Shown};
use crate::array::selection::View;

impl fmt::Display for GetItemPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "GetItemPlan")?;
        writeln!(f, "  out = np.empty({})", Tuple(&self.out.shape))?;
        write!(f, "{}", Seen("out", &self.out))?;
        self.transfers().try_for_each(|transfer| write!(f, "{transfer}"))
    }
}

impl fmt::Display for SetItemPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "SetItemPlan")?;
        write!(f, "{}", Appended(self.layout, &self.patch))?;
        write!(f, "{}", Seen("value", &self.value))?;
        self.transfers().try_for_each(|transfer| write!(f, "{transfer}"))?;
        write!(f, "{}", After(self.layout, &self.patch))
    }
}

impl fmt::Display for ResizePlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ResizePlan")?;
        write!(f, "{}", Appended(self.layout, &self.patch))?;
        self.transfers().try_for_each(|transfer| write!(f, "{transfer}"))?;
        write!(f, "{}", After(self.layout, &self.patch))
    }
}

impl fmt::Display for LoadPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "LoadPlan")?;
        write!(f, "{}", Appended(self.layout, &self.patch))?;
        self.transfers().try_for_each(|transfer| write!(f, "{transfer}"))?;
        write!(f, "{}", After(self.layout, &self.patch))
    }
}

impl fmt::Display for ChangesPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ChangesPlan")?;
        for change in self.iter().filter(|change| change.kind != SlabKind::Full) {
            let region = self.layout.grid.region(change.cell);
            let span =
                |range: &Range<usize>| Span { start: range.start, count: range.len(), step: 1 };
            let there: Vec<Span> = region.iter().map(span).collect();
            let mut here: Vec<Span> = there.iter().map(|s| Span { start: 0, ..*s }).collect();
            if let Some(rows) = here.first_mut() {
                rows.start = self.layout.offset(change.place.slot);
            }
            let what = if change.kind == SlabKind::Base { "" } else { "  # changed" };
            let slab = change.place.slab;
            writeln!(f, "  base[{}] = slabs[{slab}][{}]{what}", Spans(&there), Spans(&here))?;
        }
        Ok(())
    }
}

impl fmt::Display for TransferRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from(), self.to());
        let rows: Vec<Row> = self.rows().collect();
        writeln!(f, "  # {} transfers from {from} to {to}", rows.len())?;
        for row in rows {
            writeln!(f, "  {to}[{}] = {from}[{}]", Spans(&row.to), Spans(&row.from))?;
        }
        Ok(())
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Slab(number) => write!(f, "slabs[{number}]"),
            End::Value => f.write_str("value"),
            End::Out => f.write_str("out"),
        }
    }
}

struct Spans<'a>(&'a [Span]);

impl fmt::Display for Spans<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (axis, span) in self.0.iter().enumerate() {
            let stop = span.start + (span.count - 1) * span.step + 1;
            write!(f, "{}{}:{stop}", if axis == 0 { "" } else { ", " }, span.start)?;
            if span.step != 1 && span.count > 1 {
                write!(f, ":{}", span.step)?;
            }
        }
        Ok(())
    }
}

struct Tuple<'a>(&'a [usize]);

impl fmt::Display for Tuple<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [one] => write!(f, "({one},)"),
            sizes => {
                let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
                write!(f, "({})", sizes.join(", "))
            }
        }
    }
}

/// How transfers look at the result or the value, where they do not take it as it is.
struct Seen<'a>(&'static str, &'a Shown);

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen(name, shown) = self;
        let plain = |(axis, view): (usize, &View)| view.axes == (axis..axis + 1) && !view.flipped;
        if shown.views.iter().enumerate().all(plain) {
            return Ok(());
        }
        let axis = |view: &View| match (&view.axes, view.flipped) {
            (axes, _) if axes.is_empty() => "None".to_owned(),
            (axes, true) => format!("{}::-1", axes.start),
            (axes, false) if axes.len() == 1 => axes.start.to_string(),
            (axes, false) => format!("{}..{}", axes.start, axes.end),
        };
        let axes: Vec<String> = shown.views.iter().map(axis).collect();
        writeln!(f, "  # axes of {name}, by axis of the array: {}", axes.join(", "))
    }
}

struct Appended<'a>(&'a Layout, &'a Patch);

impl fmt::Display for Appended<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Appended(layout, patch) = self;
        for (number, &slots) in (layout.slabs.len()..).zip(&patch.append) {
            let shape = layout.slab_shape(slots);
            writeln!(f, "  slabs.append(np.empty({}))  # slabs[{number}]", Tuple(&shape))?;
        }
        Ok(())
    }
}

/// More chunks than this are not printed.
const MOST: usize = 1000;

/// Dropped slabs, and both maps.
struct After<'a>(&'a Layout, &'a Patch);

impl fmt::Display for After<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let After(layout, patch) = self;
        for slab in &patch.drop {
            writeln!(f, "  slabs[{slab}] = None")?;
        }
        let mut after = (*layout).clone();
        after.apply((*patch).clone());
        if after.places.len() > MOST {
            return writeln!(f, "slab_indices, slab_offsets: of {} chunks", after.places.len());
        }
        let counts = after.grid.counts();
        let slabs: Vec<usize> = after.places.iter().map(|place| place.slab as usize).collect();
        let offsets: Vec<usize> =
            after.places.iter().map(|place| after.offset(place.slot)).collect();
        write!(f, "slab_indices:\n{}", Matrix(counts, &slabs))?;
        write!(f, "slab_offsets:\n{}", Matrix(counts, &offsets))
    }
}

/// Numbers as NumPy prints them.
struct Matrix<'a>(&'a [usize], &'a [usize]);

impl fmt::Display for Matrix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Matrix(shape, numbers) = self;
        if numbers.is_empty() {
            return writeln!(f, "[]");
        }
        let width = numbers.iter().max().map_or(0, |n| n.to_string().len());
        for (at, n) in numbers.iter().enumerate() {
            // How many brackets open before this number and close after it.
            let turns = |at: usize| {
                let mut block = 1;
                shape
                    .iter()
                    .rev()
                    .take_while(|&&size| {
                        block *= size;
                        at % block == 0
                    })
                    .count()
            };
            let opened = turns(at);
            if at > 0 && opened == 0 {
                write!(f, " ")?;
            } else {
                write!(f, "{}{}", " ".repeat(shape.len() - opened), "[".repeat(opened))?;
            }
            write!(f, "{n:width$}")?;
            let closed = turns(at + 1);
            write!(f, "{}", "]".repeat(closed))?;
            let ends = at + 1 == numbers.len();
            write!(f, "{}", "\n".repeat(if ends { 1 } else { closed }))?;
        }
        Ok(())
    }
}
