//! What can be asked of images, as types with a text form: also in builds that have no decoders.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// The new size of images. Parsed from `640x480`, `short:256`, `max:1024`, or `1024` for the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Resize {
    /// Exactly this width and height, regardless of the shape and size of the image.
    Exact(u32, u32),
    /// The shorter side has at most this many pixels; the shape stays.
    Short(u32),
    /// The longer side has at most this many pixels; the shape stays.
    Max(u32),
}

impl FromStr for Resize {
    type Err = Error;

    fn from_str(text: &str) -> Result<Resize> {
        let side = |text: &str| text.parse::<u32>().ok().filter(|&side| side > 0);
        let resize = if let Some(short) = text.strip_prefix("short:") {
            side(short).map(Resize::Short)
        } else if let Some((width, height)) = text.split_once('x').filter(|(w, _)| *w != "ma") {
            side(width).and_then(|width| Some(Resize::Exact(width, side(height)?)))
        } else {
            side(text.strip_prefix("max:").unwrap_or(text)).map(Resize::Max)
        };
        let expected = "expected a size such as 640x480, short:256, max:1024 or 1024, found";
        resize.ok_or_else(|| Error::new(ErrorKind::Invalid, format!("{expected} {text:?}")))
    }
}

/// The new format of images. Parsed from `keep`, `jpeg`, `png` or `webp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum StoredAs {
    /// Their own. GIF, TIFF, BMP and PNM become PNG if the image changes.
    Keep,
    /// JPEG, which is lossy.
    Jpeg,
    /// PNG, which is lossless.
    Png,
    /// Lossless WebP. For lossy WebP there is no encoder but the C library, and little reason: a
    /// JPEG of the same size decodes several times faster.
    Webp,
}

impl FromStr for StoredAs {
    type Err = Error;

    fn from_str(text: &str) -> Result<StoredAs> {
        match text {
            "keep" => Ok(StoredAs::Keep),
            "jpeg" | "jpg" => Ok(StoredAs::Jpeg),
            "png" => Ok(StoredAs::Png),
            "webp" => Ok(StoredAs::Webp),
            _ => {
                let message = format!("expected keep, jpeg, png or webp, found {text:?}");
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }
}

/// How much less resolution JPEG has for colour than for brightness. Parsed from `4:4:4`, `4:2:2`
/// or `4:2:0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[doc(alias = "Subsampling")]
pub enum ChromaSubsampling {
    /// The same: 4:4:4.
    None,
    /// Half the width: 4:2:2.
    Width,
    /// Half the width and height: 4:2:0.
    Both,
}

impl FromStr for ChromaSubsampling {
    type Err = Error;

    fn from_str(text: &str) -> Result<ChromaSubsampling> {
        match text {
            "4:4:4" => Ok(ChromaSubsampling::None),
            "4:2:2" => Ok(ChromaSubsampling::Width),
            "4:2:0" => Ok(ChromaSubsampling::Both),
            _ => {
                let message = format!("expected 4:4:4, 4:2:2 or 4:2:0, found {text:?}");
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }
}

impl fmt::Display for Resize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resize::Exact(width, height) => write!(f, "{width}x{height}"),
            Resize::Short(side) => write!(f, "short:{side}"),
            Resize::Max(side) => write!(f, "max:{side}"),
        }
    }
}

impl fmt::Display for StoredAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StoredAs::Keep => "keep",
            StoredAs::Jpeg => "jpeg",
            StoredAs::Png => "png",
            StoredAs::Webp => "webp",
        })
    }
}

impl fmt::Display for ChromaSubsampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChromaSubsampling::None => "4:4:4",
            ChromaSubsampling::Width => "4:2:2",
            ChromaSubsampling::Both => "4:2:0",
        })
    }
}

/// In plans and from Python they are text.
macro_rules! stored_as_text {
    ($($name:ident)*) => {
        $(
            impl TryFrom<String> for $name {
                type Error = Error;

                fn try_from(text: String) -> Result<$name> {
                    text.parse()
                }
            }

            impl From<$name> for String {
                fn from(choice: $name) -> String {
                    choice.to_string()
                }
            }
        )*
    };
}

stored_as_text!(Resize StoredAs ChromaSubsampling);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_choice_say_the_same() {
        for text in ["640x480", "short:256", "max:1024"] {
            assert_eq!(text.parse::<Resize>().unwrap().to_string(), text);
            let json = serde_json::to_string(&text.parse::<Resize>().unwrap()).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<Resize>(&json).unwrap(), text.parse().unwrap());
        }
        assert_eq!("1024".parse::<Resize>().unwrap(), Resize::Max(1024));
        for text in ["", "0", "x", "640x", "0x1", "640x480x3", "short:", "long:9", "-1", "9:9"] {
            assert!(text.parse::<Resize>().is_err(), "{text}");
        }
        for text in ["keep", "jpeg", "png", "webp"] {
            assert_eq!(text.parse::<StoredAs>().unwrap().to_string(), text);
        }
        for text in ["4:4:4", "4:2:2", "4:2:0"] {
            assert_eq!(text.parse::<ChromaSubsampling>().unwrap().to_string(), text);
        }
        let error = serde_json::from_str::<StoredAs>("\"gif\"").unwrap_err().to_string();
        assert!(error.contains("expected keep, jpeg, png or webp"), "{error}");
    }
}
