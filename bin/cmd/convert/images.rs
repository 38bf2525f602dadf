//! What is done to images on their way, if this was built with `images`.

use super::from::Samples;
use crate::exit::{Failure, Outcome};

/// What becomes of images.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Images")]
pub(super) struct Images {
    /// Make images smaller: 1024 or max:1024 for the longer side, short:256 for the shorter one,
    /// 640x480 for just that, larger or smaller
    #[arg(long, value_name = "SIZE", alias = "image-size", hide = !cfg!(feature = "images"))]
    resize: Option<String>,
    /// Make small images larger too
    #[arg(long, requires = "resize", hide = !cfg!(feature = "images"))]
    upscale: bool,
    /// Encode images of another format: jpeg, png, webp (without loss) or keep, which is what
    /// happens without this option
    #[arg(long, value_name = "FORMAT", hide = !cfg!(feature = "images"))]
    image_format: Option<String>,
    /// The quality of images that become JPEG, 1 to 100; 90 if not said
    #[arg(long, value_name = "Q", hide = !cfg!(feature = "images"),
        value_parser = clap::value_parser!(u8).range(1..=100))]
    quality: Option<u8>,
    /// How much less colour than light images have that become JPEG: 4:4:4, 4:2:2 or 4:2:0, which
    /// is least and is taken if not said
    #[arg(long, value_name = "RATIO", hide = !cfg!(feature = "images"))]
    subsampling: Option<String>,
    /// Decode all images, to know that they are whole
    #[arg(long, hide = !cfg!(feature = "images"))]
    verify_images: bool,
    /// The fields that are images; all that begin like one if not said
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',', hide = !cfg!(feature = "images"))]
    image_fields: Vec<String>,
    /// Refuse images of more pixels than this; 200 million if not said
    #[arg(long, value_name = "N", hide = !cfg!(feature = "images"))]
    max_pixels: Option<u64>,
}

impl Images {
    /// An option that says something shall be done.
    fn given(&self) -> Option<&'static str> {
        match () {
            () if self.resize.is_some() => Some("--resize"),
            () if self.image_format.is_some() => Some("--image-format"),
            () if self.verify_images => Some("--verify-images"),
            () => None,
        }
    }

    /// An option that says how.
    fn idle(&self) -> Option<&'static str> {
        match () {
            () if self.upscale => Some("--upscale"),
            () if self.quality.is_some() => Some("--quality"),
            () if self.subsampling.is_some() => Some("--subsampling"),
            () if !self.image_fields.is_empty() => Some("--image-fields"),
            () if self.max_pixels.is_some() => Some("--max-pixels"),
            () => None,
        }
    }

    /// Options that say how, without one that says what, would do nothing.
    pub(super) fn check(&self) -> Outcome<()> {
        match (self.given(), self.idle()) {
            (None, Some(option)) => {
                let message = format!("{option} says how, but nothing is done to images");
                Err(Failure::trouble(message)
                    .hint("--resize, --image-format and --verify-images do something"))
            }
            _ => self.check_built(),
        }
    }
}

#[cfg(feature = "images")]
impl Images {
    fn check_built(&self) -> Outcome<()> {
        let is_jpeg = !matches!(self.image_format.as_deref(), Some("png" | "webp"));
        let lost = self
            .quality
            .map(|_| "--quality")
            .or(self.subsampling.as_ref().map(|_| "--subsampling"));
        match lost {
            Some(option) if !is_jpeg => Err(Failure::trouble(format!(
                "{option} is for JPEG: PNG and WebP are without loss here"
            ))),
            _ => self.options().map(|_| ()),
        }
    }

    fn options(&self) -> Outcome<kiste::convert::ImageOptions> {
        let mut options = kiste::convert::ImageOptions::new()
            .upscale(self.upscale)
            .verify(self.verify_images)
            .fields(&self.image_fields);
        if let Some(size) = &self.resize {
            options = options.resize(size.parse()?);
        }
        if let Some(format) = &self.image_format {
            options = options.format(format.parse()?);
        }
        if let Some(quality) = self.quality {
            options = options.quality(quality);
        }
        if let Some(subsampling) = &self.subsampling {
            options = options.subsampling(subsampling.parse()?);
        }
        if let Some(max) = self.max_pixels {
            options = options.max_pixels(max);
        }
        Ok(options)
    }

    /// The same samples, with their images as asked for.
    pub(super) fn on(&self, samples: Samples) -> Outcome<Samples> {
        use kiste::convert::Images;
        Ok(match (self.given(), samples) {
            (None, samples) => samples,
            (Some(_), Samples::Units(input)) => {
                Samples::Units(Box::new(Images::new(input, self.options()?)))
            }
            (Some(_), Samples::Stream(source)) => {
                Samples::Stream(Box::new(Images::new(source, self.options()?)))
            }
        })
    }
}

#[cfg(not(feature = "images"))]
impl Images {
    fn check_built(&self) -> Outcome<()> {
        match self.given() {
            Some(option) => {
                let message = format!("{option} needs a kiste that was built with images");
                Err(Failure::trouble(message).hint("cargo install kiste --features images"))
            }
            None => Ok(()),
        }
    }

    /// The same samples.
    pub(super) fn on(&self, samples: Samples) -> Outcome<Samples> {
        Ok(samples)
    }
}
