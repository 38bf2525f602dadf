//! Boxes: what a plan does to rectangles around things in the image.

use serde::{Deserialize, Serialize};

use super::header::Turn;
use super::pipeline::Pipeline;
use super::plan::{Action, Plan};
use super::step::{PaddingMode, Size, Step, unfit};
use super::warp;
use crate::error::Result;

/// The meaning of the four numbers of a box, as torchvision names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BoxFormat {
    /// Left, top, right and bottom.
    #[default]
    Xyxy,
    /// Left, top, width and height.
    Xywh,
    /// The centre, width and height.
    Cxcywh,
}

impl BoxFormat {
    /// As left, top, right and bottom.
    pub fn to_xyxy(self, [a, b, c, d]: [f64; 4]) -> [f64; 4] {
        match self {
            BoxFormat::Xyxy => [a, b, c, d],
            BoxFormat::Xywh => [a, b, a + c, b + d],
            BoxFormat::Cxcywh => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
        }
    }

    /// From left, top, right and bottom.
    pub fn of_xyxy(self, [left, top, right, bottom]: [f64; 4]) -> [f64; 4] {
        let (width, height) = (right - left, bottom - top);
        match self {
            BoxFormat::Xyxy => [left, top, right, bottom],
            BoxFormat::Xywh => [left, top, width, height],
            BoxFormat::Cxcywh => [(left + right) / 2.0, (top + bottom) / 2.0, width, height],
        }
    }
}

impl Pipeline {
    /// Whether boxes can move with the images: a border that repeats pixels would repeat boxes too.
    pub(crate) fn check_boxes(&self) -> Result<()> {
        let mode = self.steps().iter().find_map(|step| match step {
            Step::Pad { padding_mode, .. } | Step::RandomCrop { padding_mode, .. } => {
                (*padding_mode != PaddingMode::Constant).then_some(padding_mode)
            }
            _ => None,
        });
        match mode {
            None => Ok(()),
            Some(mode) => Err(repeats(*mode)),
        }
    }
}

fn repeats(mode: PaddingMode) -> crate::error::Error {
    unfit("padding_mode=constant for images with boxes", mode)
}

impl Plan {
    /// Does the same to boxes in the image, in pixels of the image as it is stored: left, top, right and
    /// bottom. A box that is turned or sheared becomes the box around its corners. After each crop, border and turn,
    /// and at the end, they are clipped to what is left, as torchvision v2 does it. A box that is outside then has no width or no height; no box is removed.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for a plan with a border that is not constant, which torchvision
    /// refuses too, and for one that cannot be carried out.
    ///
    /// ```
    /// use kiste::image::{Header, Pipeline};
    /// use kiste::sampler::rng::StableRng;
    ///
    /// let pipeline: Pipeline = "center_crop(100) | hflip(1) | resize((50, 50))".parse()?;
    /// let plan = pipeline.plan(&Header::new(200, 100), &mut StableRng::new(&[]))?;
    /// let mut boxes = [[60.0, 0.0, 80.0, 50.0], [0.0, 0.0, 20.0, 20.0]];
    /// plan.move_boxes(&mut boxes)?;
    /// assert_eq!(boxes, [[35.0, 0.0, 45.0, 25.0], [50.0, 0.0, 50.0, 10.0]]);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    pub fn move_boxes(&self, boxes: &mut [[f64; 4]]) -> Result<()> {
        self.check_whole(u64::MAX)?;
        self.moved(boxes, self.orientation, &|number| number)
    }

    /// The same of a plan that was checked, computed in single precision as torchvision computes it. Boxes in
    /// upright images have the orientation 1.
    pub(crate) fn moved_single(&self, boxes: &mut [[f64; 4]], orientation: u8) -> Result<()> {
        // A double that is rounded after each operation is what the operation gives in single precision.
        self.moved(boxes, orientation, &|number| f64::from(number as f32))
    }

    fn moved(
        &self,
        boxes: &mut [[f64; 4]],
        orientation: u8,
        round: &dyn Fn(f64) -> f64,
    ) -> Result<()> {
        let turn = Turn::of(orientation);
        let stored = turn.size(self.source);
        let (width, height) = (f64::from(stored.width), f64::from(stored.height));
        for all in boxes.iter_mut() {
            let [left, top, right, bottom] = all.map(round);
            let (left, right) = match turn.flips_x {
                true => (round(width - right), round(width - left)),
                false => (left, right),
            };
            let (top, bottom) = match turn.flips_y {
                true => (round(height - bottom), round(height - top)),
                false => (top, bottom),
            };
            *all = match turn.transposes {
                true => [top, left, bottom, right],
                false => [left, top, right, bottom],
            };
        }
        let mut size = self.source;
        for action in &self.actions {
            size = act(action, size, boxes, round)?;
        }
        clip(size, boxes);
        Ok(())
    }
}

/// Does one action, and returns the size after it.
fn act(
    action: &Action,
    of: Size,
    boxes: &mut [[f64; 4]],
    round: &dyn Fn(f64) -> f64,
) -> Result<Size> {
    let mut each = |change: &dyn Fn(&mut [f64; 4])| {
        for all in boxes.iter_mut() {
            change(all);
            *all = all.map(round);
        }
    };
    let (width, height) = (f64::from(of.width), f64::from(of.height));
    let shift = |x: f64, y: f64| {
        move |all: &mut [f64; 4]| {
            *all = [all[0] + x, all[1] + y, all[2] + x, all[3] + y];
        }
    };
    match *action {
        Action::Crop { top, left, size } => {
            each(&shift(-f64::from(left), -f64::from(top)));
            clip(size, boxes);
            Ok(size)
        }
        Action::Resize { size, .. } => {
            let x = round(f64::from(size.width) / width);
            let y = round(f64::from(size.height) / height);
            each(&|all| *all = [all[0] * x, all[1] * y, all[2] * x, all[3] * y]);
            Ok(size)
        }
        Action::HorizontalFlip => {
            each(&|all| (all[0], all[2]) = (width - all[2], width - all[0]));
            Ok(of)
        }
        Action::VerticalFlip => {
            each(&|all| (all[1], all[3]) = (height - all[3], height - all[1]));
            Ok(of)
        }
        Action::Pad { padding, padding_mode: PaddingMode::Constant, .. } => {
            each(&shift(f64::from(padding.left), f64::from(padding.top)));
            let size = Size {
                height: of.height + padding.top + padding.bottom,
                width: of.width + padding.left + padding.right,
            };
            clip(size, boxes);
            Ok(size)
        }
        Action::Pad { padding_mode, .. } => Err(repeats(padding_mode)),
        Action::Rotate { .. } | Action::Affine { .. } => {
            let size = warp::move_boxes(action, of, boxes, round)?;
            clip(size, boxes);
            Ok(size)
        }
        _ => Ok(of),
    }
}

fn clip(size: Size, boxes: &mut [[f64; 4]]) {
    let (width, height) = (f64::from(size.width), f64::from(size.height));
    for [left, top, right, bottom] in boxes {
        for (at, end) in [(left, width), (right, width), (top, height), (bottom, height)] {
            *at = at.clamp(0.0, end);
        }
    }
}
