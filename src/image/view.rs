//! [`View`]: the visible part of the pixels, and in which order they are seen.

use super::header::{Header, Part, Turn};
use super::plan::Action;
use super::step::Size;
use super::warp::quarters;

/// The visible part of the pixels: a part of the stored rows, which is transposed first, then
/// flipped.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    /// Pixels in a stored row.
    pub(super) stride: usize,
    pub(super) x: usize,
    pub(super) y: usize,
    /// Its size, as it is stored.
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) flip_x: bool,
    pub(super) flip_y: bool,
    pub(super) is_transposed: bool,
}

impl View {
    pub(super) fn of(width: usize, height: usize) -> View {
        View {
            stride: width,
            x: 0,
            y: 0,
            width,
            height,
            flip_x: false,
            flip_y: false,
            is_transposed: false,
        }
    }

    /// The visible part of an image, upright, after the crops and flips that come first; and the
    /// actions left to do.
    pub(super) fn first<'p>(header: &Header, actions: &'p [Action]) -> (View, &'p [Action]) {
        let mut view = View::of(header.width as usize, header.height as usize);
        let turn = Turn::of(header.orientation);
        (view.flip_x, view.flip_y) = (turn.flips_x, turn.flips_y);
        view.is_transposed = turn.transposes;
        let done = actions.iter().take_while(|action| view.act(action)).count();
        (view, &actions[done..])
    }

    /// The visible part, as it is stored.
    pub(super) fn part(&self) -> Part {
        Part { x: self.x, y: self.y, width: self.width, height: self.height }
    }

    /// The same, where only a part of the image is stored, which has all that is seen.
    pub(super) fn within(self, stored: Part) -> View {
        View { stride: stored.width, x: self.x - stored.x, y: self.y - stored.y, ..self }
    }

    /// Whether the action changes only what is seen. Then it is done.
    pub(super) fn act(&mut self, action: &Action) -> bool {
        match *action {
            Action::Crop { top, left, size: Size { height, width } } => {
                let [top, left, height, width] = [top, left, height, width].map(|n| n as usize);
                self.crop(top, left, height, width);
            }
            Action::HorizontalFlip => self.flip(true),
            Action::VerticalFlip => self.flip(false),
            Action::Rotate { angle, expand, .. } => {
                let (height, width) = self.size();
                let seen = Size { height: height as u32, width: width as u32 };
                let Some(quarters) = quarters(angle, seen, expand) else { return false };
                (0..quarters).for_each(|_| self.turn());
            }
            _ => return false,
        }
        true
    }

    pub(super) fn size(&self) -> (usize, usize) {
        match self.is_transposed {
            true => (self.width, self.height),
            false => (self.height, self.width),
        }
    }

    pub(super) fn is_plain(&self) -> bool {
        !(self.flip_x || self.flip_y || self.is_transposed)
    }

    /// The number of the stored pixel that is seen here.
    pub(super) fn at(&self, row: usize, column: usize) -> usize {
        let (x, y) = if self.is_transposed { (row, column) } else { (column, row) };
        let x = if self.flip_x { self.width - 1 - x } else { x };
        let y = if self.flip_y { self.height - 1 - y } else { y };
        (self.y + y) * self.stride + self.x + x
    }

    pub(super) fn crop(&mut self, top: usize, left: usize, height: usize, width: usize) {
        let (x, y, width, height) = match self.is_transposed {
            true => (top, left, height, width),
            false => (left, top, width, height),
        };
        self.x += if self.flip_x { self.width - width - x } else { x };
        self.y += if self.flip_y { self.height - height - y } else { y };
        (self.width, self.height) = (width, height);
    }

    /// A quarter of a turn, anticlockwise.
    fn turn(&mut self) {
        self.flip(true);
        self.is_transposed = !self.is_transposed;
    }

    pub(super) fn flip(&mut self, is_horizontal: bool) {
        match is_horizontal != self.is_transposed {
            true => self.flip_x = !self.flip_x,
            false => self.flip_y = !self.flip_y,
        }
    }
}
