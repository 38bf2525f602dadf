//! JPEG by libjpeg-turbo: a part of the pixels, without making those around it.
//!
//! Only images that it decodes without a warning are decoded here. All others are left to the decoder in Rust, so
//! that the same images are errors, for the same reasons, with and without this feature.
//!
//! The calls rely on this:
//!
//! * A handle serves one image and one thread. The library keeps tables from one image to the next,
//!   so that an image without its own would be decoded with the tables of the image before it. To
//!   make a handle takes a thousandth of the time of an image.
//! * The library reads `bytes` within the length that it gets. They are borrowed for both calls, so it reads the
//!   same header in the second as in the first, and writes as many pixels as the first said.
//! * It writes `height` rows of `width` pixels from the address of a slice that has this length.
//! * Its errors jump (`longjmp`) within the library, and no function of ours is called by it.
#![expect(unsafe_code, reason = "calls into C; the contract stands above")]

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use turbojpeg_sys as sys;

use super::frame::Frame;
use super::header::{Header, Part};
use super::step::Mode;

// The bindings take lengths as the C type `unsigned long`, which is shorter on Windows.
const _: () = assert!(
    size_of::<sys::size_t>() == size_of::<usize>(),
    "the bindings of libjpeg-turbo do not fit this platform: build without the feature `turbo`"
);

/// The limit of the decoder in Rust.
const MAX_SCANS: c_int = 100;

/// A JPEG that the library may decode.
pub(super) struct Jpeg<'a> {
    bytes: &'a [u8],
    frame: Frame,
}

impl<'a> Jpeg<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Option<Jpeg<'a>> {
        Some(Jpeg { bytes, frame: Frame::read(bytes)? })
    }

    pub(super) fn header(&self) -> Header {
        let Frame { width, height, orientation, .. } = self.frame;
        Header::new(width.into(), height.into()).with_orientation(orientation)
    }

    /// The part that is decoded so that this one has the pixels that it has in the whole image, whose sides are
    /// divided by 1, 2, 4 or 8.
    pub(super) fn around(&self, part: Part, by: usize) -> Part {
        let Frame { width, unit, is_progressive, .. } = self.frame;
        let (width, unit) = (usize::from(width).div_ceil(by), unit / by);
        // Colours that were stored at half the width are interpolated between neighbours. Where scans of a
        // progressive image are missing, two blocks on each side count.
        let reach = if is_progressive { 2.max(3 * unit) } else { 2 };
        let x = part.x.saturating_sub(reach) / unit * unit;
        let end = width.min(part.x + part.width + reach);
        Part { x, width: end - x, ..part }
    }

    /// The pixels of a part that [`around`](Self::around) gave for the same divisor. `None` if the image is damaged, or
    /// may be.
    pub(super) fn read(&self, mode: Mode, part: Part, by: usize, pixels: &mut [u8]) -> Option<()> {
        let format = match mode {
            Mode::Rgb => sys::TJPF_TJPF_RGB,
            Mode::Gray => sys::TJPF_TJPF_GRAY,
            Mode::Rgba => sys::TJPF_TJPF_RGBA,
        };
        let pitch = part.width * mode.channels();
        assert_eq!(pixels.len(), pitch * part.height, "the pixels of the part");
        let mut handle = Handle::new()?;
        handle.set(sys::TJPARAM_TJPARAM_STOPONWARNING, 1)?;
        handle.set(sys::TJPARAM_TJPARAM_SCANLIMIT, MAX_SCANS)?;
        // Profiles are not applied, so no copy of one is needed.
        handle.set(sys::TJPARAM_TJPARAM_SAVEMARKERS, 0)?;
        let (from, len) = (self.bytes.as_ptr(), self.bytes.len() as sys::size_t);
        // SAFETY: `from` has `len` bytes, and the handle is not shared.
        let code = unsafe { sys::tj3DecompressHeader(handle.0.as_ptr(), from, len) };
        done(code)?;
        let colors = match self.frame.is_gray {
            true => sys::TJCS_TJCS_GRAY,
            false => sys::TJCS_TJCS_YCbCr,
        };
        let read = [
            sys::TJPARAM_TJPARAM_JPEGWIDTH,
            sys::TJPARAM_TJPARAM_JPEGHEIGHT,
            sys::TJPARAM_TJPARAM_COLORSPACE,
        ]
        .map(|param| handle.get(param));
        let (width, height) = (self.frame.width.into(), self.frame.height.into());
        if read != [width, height, colors as c_int] {
            return None;
        }
        let factor = sys::tjscalingfactor { num: 1, denom: by as c_int };
        // SAFETY: the handle is not shared; the library refuses factors that it does not know.
        done(unsafe { sys::tj3SetScalingFactor(handle.0.as_ptr(), factor) })?;
        // Within a header of 16 bits for each side.
        let [x, y, w, h] = [part.x, part.y, part.width, part.height].map(|n| n as c_int);
        // SAFETY: the handle is not shared; the library compares the region with the image.
        done(unsafe {
            sys::tj3SetCroppingRegion(handle.0.as_ptr(), sys::tjregion { x, y, w, h })
        })?;
        // SAFETY: `from` has `len` bytes, of the image whose header was read, and `pixels` has `h` rows of
        // `pitch` bytes: with a region set, the library writes as many rows of as many pixels as it has.
        done(unsafe {
            let to = pixels.as_mut_ptr();
            sys::tj3Decompress8(handle.0.as_ptr(), from, len, to, pitch as c_int, format)
        })
    }
}

/// Checks the return code. A warning is a failure, too.
fn done(code: c_int) -> Option<()> {
    (code == 0).then_some(())
}

/// A decoder of the library.
struct Handle(NonNull<c_void>);

impl Handle {
    fn new() -> Option<Handle> {
        // SAFETY: takes no pointer.
        let handle = unsafe { sys::tj3Init(sys::TJINIT_TJINIT_DECOMPRESS as c_int) };
        NonNull::new(handle).map(Handle)
    }

    fn set(&mut self, param: sys::TJPARAM, value: c_int) -> Option<()> {
        // SAFETY: the handle is valid and not shared.
        done(unsafe { sys::tj3Set(self.0.as_ptr(), param as c_int, value) })
    }

    fn get(&mut self, param: sys::TJPARAM) -> c_int {
        // SAFETY: the handle is valid and not shared.
        unsafe { sys::tj3Get(self.0.as_ptr(), param as c_int) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is valid, and not used again.
        unsafe { sys::tj3Destroy(self.0.as_ptr()) }
    }
}
