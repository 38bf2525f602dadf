//! [`Pipeline`]: what is done to an image until it is a row of a batch.

use std::borrow::Cow;

use kiste::image::{self, ArrayImage, Header, Pixel, PixelType, Worker};
use kiste::loader::Record;
use numpy::{IntoPyArray, PyArrayMethods};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::errors::{bug, invalid, raise};
use crate::pool;

/// Steps for images, as a short text with the names, defaults and rules of torchvision v2:
///
/// seed(seed): only as the first step
/// decode(mode=rgb, max_pixels=200000000, scaled=false): rgb, gray or rgba; before all others but seed
/// resize(size, interpolation=bilinear, max_size): a number is the shorter side
/// center_crop(size)
/// random_resized_crop(size, scale=(0.08, 1), ratio=(0.75, 1.3333333333333333), interpolation=bilinear)
/// random_crop(size, padding=0, pad_if_needed=false, fill=0, padding_mode=constant)
/// hflip(p=0.5), vflip(p=0.5)
/// color_jitter(brightness=0, contrast=0, saturation=0, hue=0): each a number or a range
/// grayscale(p=0.1)
/// gaussian_blur(kernel_size, sigma=(0.1, 2)): odd sizes, one or (columns, rows); sigma is a number or a range
/// random_erasing(p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0)
/// rotate(degrees, interpolation=nearest, expand=false, fill=0): anticlockwise; a number x is (-x, x)
/// affine(degrees, translate, scale, shear, interpolation=nearest, fill=0): clockwise
/// pad(padding, fill=0, padding_mode=constant)
/// to(type, layout=hwc): u8, f32, f16 or bf16; hwc or chw
/// normalize(imagenet), normalize(mean, std): after to
///
/// A size is a number or (height, width). Interpolation is bilinear, bicubic, lanczos or nearest; in rotate and affine
/// bilinear or nearest. Padding is 1, 2 or 4 numbers, its mode constant, edge, reflect or symmetric. Fill and value are
/// a number of 0 to 255, or one for each channel.
///
/// An image is encoded (JPEG, PNG, WebP, GIF, TIFF, BMP, PNM), or a uint8 array of shape (height, width),
/// (height, width, 1) or (height, width, 3), also as a field of a dataset.
///
/// As a column of a `Loader` it decodes the field of that name on the threads of the loader, straight into
/// the batch; `(pipeline, "field")` takes another field. Random numbers depend on `seed`, the epoch and the
/// position in it alone: the same for any number of threads and ranks, and after a run is resumed.
///
/// After `to(bf16)` arrays have the type `uint16`, as NumPy has no bfloat16:
/// `torch.from_numpy(images).view(torch.bfloat16)`, or `images.view(ml_dtypes.bfloat16)`.
///
/// Called with one image, encoded or an array, it returns an array. `plan` says what it would do: for which size, and
/// with which random numbers.
///
/// >>> import pykiste as ki
/// >>> train = ki.Pipeline("random_resized_crop(224) | hflip | to(f32, chw) | normalize(imagenet)", seed=7)
/// >>> train.shape, train.dtype
/// ((3, 224, 224), dtype('float32'))
/// >>> evaluate = ki.Pipeline(["resize(2)", "center_crop(2)"])
/// >>> str(evaluate)
/// 'resize(2) | center_crop(2)'
/// >>> image = b"P6 4 2 255\n" + bytes(range(24))
/// >>> evaluate(image).shape
/// (2, 2, 3)
/// >>> evaluate.plan(image)
/// 'crop(top=0, left=1, height=2, width=2)'
#[pyclass(frozen, eq, hash, module = "pykiste")]
pub(crate) struct Pipeline {
    pub(crate) pipeline: image::Pipeline,
}

// A pipeline is its text, which has all of it.
impl PartialEq for Pipeline {
    fn eq(&self, other: &Pipeline) -> bool {
        self.pipeline.to_string() == other.pipeline.to_string()
    }
}

impl std::hash::Hash for Pipeline {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.pipeline.to_string().hash(state);
    }
}

impl Pipeline {
    /// The type and shape of a column.
    pub(crate) fn result(&self, column: &str) -> PyResult<(String, Vec<usize>)> {
        let Some(shape) = self.pipeline.shape() else {
            return Err(invalid(format!(
                "column {column:?}: expected a pipeline with a step that gives all images one size, such \
                 as center_crop(224), found {:?}",
                self.pipeline.to_string()
            )));
        };
        Ok((self.type_name().to_owned(), shape.to_vec()))
    }

    fn type_name(&self) -> &'static str {
        match self.pipeline.output().0 {
            PixelType::U8 => "uint8",
            PixelType::F16 => "float16",
            // Its bits, as NumPy does not have it.
            PixelType::Bf16 => "uint16",
            _ => "float32",
        }
    }

    fn run<'py, T: Pixel + numpy::Element>(
        &self,
        py: Python<'py>,
        Given { bytes, shape }: Given<'_>,
        (epoch, position): (u64, u64),
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut rng = Record::rng_at(self.pipeline.seed(), epoch, position);
        let (pipeline, bytes) = (self.pipeline.clone(), bytes.into_owned());
        let made = pool::run(py, move || {
            let (mut worker, mut pixels) = (Worker::<T>::new(pipeline)?, Vec::new());
            let shape = match shape {
                None => worker.run(&bytes, &mut rng, &mut pixels),
                Some(shape) => {
                    worker.run_array(&ArrayImage::new(&shape, &bytes)?, &mut rng, &mut pixels)
                }
            };
            kiste::Result::Ok((pixels, shape?))
        })?;
        let (pixels, shape) = made.map_err(raise)?;
        Ok(pixels.into_pyarray(py).reshape(shape)?.into_any())
    }
}

/// An image: encoded bytes, or the elements of an array of this shape.
struct Given<'a> {
    bytes: Cow<'a, [u8]>,
    shape: Option<Vec<usize>>,
}

impl<'a> Given<'a> {
    /// Of `bytes` where they are, and a copy of everything else that has bytes. What has more than one dimension is
    /// an array.
    fn of(image: &'a Bound<'_, PyAny>) -> PyResult<Given<'a>> {
        if let Ok(bytes) = image.cast::<PyBytes>() {
            return Ok(Given { bytes: Cow::Borrowed(bytes.as_bytes()), shape: None });
        }
        let buffer = PyBuffer::<u8>::get(image)?;
        let shape = (buffer.dimensions() > 1).then(|| buffer.shape().to_vec());
        Ok(Given { bytes: Cow::Owned(buffer.to_vec(image.py())?), shape })
    }

    fn header(&self) -> kiste::Result<Header> {
        match &self.shape {
            None => Header::read(&self.bytes),
            Some(shape) => Ok(ArrayImage::new(shape, &self.bytes)?.header()),
        }
    }
}

#[pymethods]
impl Pipeline {
    #[new]
    #[pyo3(signature = (steps, *, seed=None))]
    fn new(steps: &Bound<'_, PyAny>, seed: Option<u64>) -> PyResult<Pipeline> {
        let text: String = match steps.extract() {
            Ok(text) => text,
            Err(_) => steps.extract::<Vec<String>>()?.join(" | "),
        };
        let pipeline: image::Pipeline = text.parse().map_err(raise)?;
        let pipeline = match seed {
            Some(seed) => pipeline.with_seed(seed),
            None => pipeline,
        };
        Ok(Pipeline { pipeline })
    }

    /// The array of one image, encoded or an array itself, with the random numbers that a loader draws at this position of this epoch.
    #[pyo3(signature = (image, *, epoch=0, position=0))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        image: &Bound<'py, PyAny>,
        epoch: u64,
        position: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let image = Given::of(image)?;
        let at = (epoch, position);
        match self.pipeline.output().0 {
            PixelType::U8 => self.run::<u8>(py, image, at),
            PixelType::F16 => self.run::<half::f16>(py, image, at),
            PixelType::Bf16 => self.run::<u16>(py, image, at),
            _ => self.run::<f32>(py, image, at),
        }
    }

    /// The actions on one image, encoded or an array, at this position of this epoch, as a text. Only its header is
    /// read.
    #[pyo3(signature = (image, *, epoch=0, position=0))]
    fn plan(
        &self,
        py: Python<'_>,
        image: &Bound<'_, PyAny>,
        epoch: u64,
        position: u64,
    ) -> PyResult<String> {
        let image = Given::of(image)?;
        let mut rng = Record::rng_at(self.pipeline.seed(), epoch, position);
        let header = py.detach(|| image.header()).map_err(raise)?;
        Ok(self.pipeline.plan(&header, &mut rng).map_err(raise)?.to_string())
    }

    /// The shape of every result, or None if it depends on the image.
    #[getter]
    fn shape(&self) -> Option<(usize, usize, usize)> {
        self.pipeline.shape().map(Into::into)
    }

    /// The height and the width of every result, or None if they depend on the image.
    #[getter]
    fn size(&self) -> Option<(u32, u32)> {
        self.pipeline.size().map(|size| (size.height, size.width))
    }

    /// The type of the elements.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("numpy")?.call_method1("dtype", (self.type_name(),))
    }

    /// The seed: random numbers depend on it, the epoch and the position.
    #[getter]
    fn seed(&self) -> u64 {
        self.pipeline.seed()
    }

    /// The steps after decoding.
    #[getter]
    fn steps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.pipeline.steps().iter().map(ToString::to_string))
    }

    fn __str__(&self) -> String {
        self.pipeline.to_string()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let text = pyo3::types::PyString::new(py, &self.pipeline.to_string()).repr()?;
        Ok(format!("Pipeline({})", text.to_str().map_err(bug)?))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().into_any(), (slf.get().pipeline.to_string(),)))
    }
}
