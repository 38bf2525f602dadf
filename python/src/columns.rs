//! The columns that a caller asks for in batches.

use std::sync::Arc;

use kiste::image::{self, BoxFormat, PixelType, Size};
use kiste::loader::{Boxes, Columns, Element, Labels, Mask, Packed, Padded, Window as Which};
use kiste::value::Number;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple, PyType};

use crate::errors::{bug, invalid, wrong_type};
use crate::image::Pipeline;
use crate::map::mapped;

/// Calls a macro with all types that columns have, by the names that NumPy has for them.
macro_rules! with_types {
    ($apply:ident) => {
        $apply! {
            "bool" bool, "int8" i8, "int16" i16, "int32" i32, "int64" i64, "uint8" u8,
            "uint16" u16, "uint32" u32, "uint64" u64, "float16" half::f16, "float32" f32,
            "float64" f64, "complex64" num_complex::Complex32, "complex128" num_complex::Complex64,
        }
    };
}

pub(crate) use with_types;

/// The kind of a column: bytes of any length; numbers of one type and shape, which images become, too; or
/// rows of numbers, any number of them in each sample.
#[derive(Clone)]
pub(crate) enum Form {
    /// Bytes, or text.
    Bytes {
        is_text: bool,
    },
    /// The names of labels, which are integers.
    Names(Arc<[String]>),
    Numbers {
        dtype: String,
        shape: Vec<usize>,
        source: Source,
    },
    Lists {
        dtype: String,
        is_ragged: bool,
        source: Rows,
    },
}

/// Where the numbers of a column come from.
#[derive(Clone)]
pub(crate) enum Source {
    /// The field of its name.
    Field,
    /// What a function of Python makes of the sample.
    Map(Arc<Py<PyAny>>, u64),
    /// Some rows of a field.
    Window(String, Which),
    /// The image in a field.
    Image(String, image::Pipeline),
    /// A mask in a field, for the images of a column.
    Mask { field: String, of: String, fill: Number, is_upright: bool },
}

/// Where the rows of a column come from.
#[derive(Clone)]
pub(crate) enum Rows {
    /// Those of the field of its name.
    Field { row: Vec<usize>, pad: Option<Pad> },
    /// Tokens of the field of its name.
    Packed { length: usize, splits: bool, rows: Option<usize>, fill: Number, cuts: bool },
    /// Boxes in the images of a column.
    Boxes { boxes: Boxes, pad: Option<Pad> },
    /// Rows of a field that belong to boxes.
    Labels { field: String, of: String, row: Vec<usize>, pad: Option<Pad> },
    /// The numbers of boxes that are left.
    Kept { of: String },
}

#[derive(Clone)]
pub(crate) struct Pad {
    multiple: usize,
    buckets: Option<Vec<usize>>,
    fill: Number,
    cuts: bool,
}

#[derive(Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) form: Form,
    /// The field that it is made of, if that is not the one of its name.
    field: Option<String>,
}

/// The attributes of a class of `pykiste.columns`.
struct Given<'a, 'py> {
    column: &'a str,
    value: &'a Bound<'py, PyAny>,
}

impl<'py> Given<'_, 'py> {
    fn get<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<T> {
        let value = self.value.getattr(name)?;
        value.extract().map_err(|error: T::Error| self.wrong(name, &error.into().to_string()))
    }

    fn wrong(&self, name: &str, message: &str) -> PyErr {
        invalid(format!("column {:?}: {name}: {message}", self.column))
    }

    /// The name of the type.
    fn dtype(&self) -> PyResult<String> {
        type_name(self.column, &self.value.getattr("dtype")?)
    }

    fn number(&self, name: &str) -> PyResult<Number> {
        let value = self.value.getattr(name)?;
        if let Ok(number) = value.extract() {
            return Ok(Number::Signed(number));
        }
        if let Ok(number) = value.extract() {
            return Ok(Number::Unsigned(number));
        }
        let number = value
            .extract()
            .map_err(|_| self.wrong(name, &format!("expected a number, found {value}")))?;
        Ok(Number::Float(number))
    }

    fn pad(&self) -> PyResult<Option<Pad>> {
        let pad = self.value.getattr("pad")?;
        if pad.is_none() {
            return Ok(None);
        }
        let given = Given { column: self.column, value: &pad };
        Ok(Some(Pad {
            multiple: given.get("multiple")?,
            buckets: given.get("buckets")?,
            fill: given.number("fill")?,
            cuts: given.get::<String>("longer")? == "cut",
        }))
    }
}

fn type_name(column: &str, dtype: &Bound<'_, PyAny>) -> PyResult<String> {
    if dtype.get_type().module()?.to_str()? == "torch" {
        // A type of torch is written as `torch.int64`, and has NumPy's names but for bfloat16.
        let name = dtype.str()?.to_string();
        return Ok(name.trim_start_matches("torch.").to_owned());
    }
    let numpy = dtype.py().import("numpy")?;
    let dtype = numpy.call_method1("dtype", (dtype,))?;
    if !dtype.getattr("isnative")?.extract::<bool>()? {
        let message = format!("column {column:?}: expected a native byte order, found {dtype}");
        return Err(wrong_type(message));
    }
    dtype.getattr("name")?.extract()
}

/// A number of a caller as one of the type of a column.
fn number<T: Element>(column: &str, name: &str, number: Number) -> PyResult<T> {
    T::from_number(number).ok_or_else(|| {
        invalid(format!(
            "column {column:?}: {name}: expected a number of type {}, found {number}",
            T::NAME
        ))
    })
}

fn padded<T: Element>(column: &str, pad: &Pad) -> PyResult<Padded<T>> {
    let padded = match &pad.buckets {
        Some(buckets) => Padded::buckets(buckets.iter().copied()),
        None => Padded::multiple_of(pad.multiple),
    };
    let padded = padded.fill(number(column, "fill", pad.fill)?);
    Ok(if pad.cuts { padded.cut() } else { padded })
}

impl Column {
    /// What its data is in a batch.
    fn kind(&self) -> &'static str {
        match &self.form {
            Form::Bytes { .. } => "bytes",
            Form::Names(_) => "names",
            Form::Numbers { .. } => "numbers",
            Form::Lists { source: Rows::Packed { .. }, .. } => "packed",
            Form::Lists { is_ragged: true, .. } => "ragged",
            Form::Lists { .. } => "padded",
        }
    }

    /// A column from what a caller gives for it: `bytes`, `str`, a type, or a type and a shape, behind the name of another
    /// field if it is not the one of the column's; a pipeline or one of `pykiste.columns`, for another field in a tuple
    /// with its name.
    pub(crate) fn parse(
        name: &Bound<'_, PyAny>,
        given: &Bound<'_, PyAny>,
        all: &Bound<'_, PyDict>,
    ) -> PyResult<Column> {
        let py = given.py();
        let name: String = name.extract()?;
        let bytes = |given: &Bound<'_, PyAny>| match given {
            given if given.is(py.get_type::<PyBytes>()) => Some(Form::Bytes { is_text: false }),
            given if given.is(py.get_type::<PyString>()) => Some(Form::Bytes { is_text: true }),
            given => match given.cast::<PyString>().ok()?.to_str().ok()? {
                "bytes" => Some(Form::Bytes { is_text: false }),
                "str" => Some(Form::Bytes { is_text: true }),
                _ => None,
            },
        };
        if let Some(form) = bytes(given) {
            return Ok(Column { name, form, field: None });
        }
        if let Some((field, form)) = renamed(&name, given, &bytes)? {
            return Ok(Column { name, form, field: Some(field) });
        }
        let both = given.cast::<PyTuple>().ok().filter(|both| both.len() == 2);
        let both = both.map(|both| PyResult::Ok((both.get_item(0)?, both.get_item(1)?)));
        let both = both.transpose()?;
        let (what, second) = match &both {
            Some((what, second)) => (what, Some(second)),
            None => (given, None),
        };
        let field = || second.map_or(Ok(name.clone()), |field| field.extract::<String>());
        if let Ok(pipeline) = what.cast::<Pipeline>() {
            let (dtype, shape) = pipeline.get().result(&name)?;
            let source = Source::Image(field()?, pipeline.get().pipeline.clone());
            return Ok(Column { form: Form::Numbers { dtype, shape, source }, name, field: None });
        }
        // NumPy would take a class for a type, by its attribute `dtype`.
        if let Ok(class) = what.cast::<PyType>() {
            if class.module()?.to_str()? == "pykiste.columns" {
                let class = class.name()?;
                let message = format!("column {name:?}: expected {class}(…), found the class");
                return Err(wrong_type(message));
            }
        }
        let class = what.get_type();
        if class.module()?.to_str()? == "pykiste.columns" {
            let class = class.name()?.to_string();
            let given = Given { column: &name, value: what };
            let field = field()?;
            let form = described(&class, &given, &field, all)?;
            let is_other =
                field != name && matches!(class.as_str(), "Ragged" | "Packed" | "LabelNames");
            return Ok(Column { form, name, field: is_other.then_some(field) });
        }
        let (dtype, shape) = match second {
            Some(shape) => match shape.extract::<usize>() {
                Ok(one) => (what, vec![one]),
                Err(_) => (what, shape.extract()?),
            },
            None => (given, Vec::new()),
        };
        let dtype = type_name(&name, dtype)?;
        let form = Form::Numbers { dtype, shape, source: Source::Field };
        Ok(Column { form, name, field: None })
    }

    /// Columns that others follow come first.
    fn rank(&self) -> u8 {
        match &self.form {
            Form::Lists { source: Rows::Labels { .. } | Rows::Kept { .. }, .. } => 2,
            Form::Lists { source: Rows::Boxes { .. }, .. }
            | Form::Numbers { source: Source::Mask { .. }, .. } => 1,
            _ => 0,
        }
    }

    fn add_to(&self, columns: Columns) -> PyResult<Columns> {
        let columns = self.add_own_to(columns)?;
        Ok(match &self.field {
            Some(field) => columns.of_field(field),
            None => columns,
        })
    }

    fn add_own_to(&self, columns: Columns) -> PyResult<Columns> {
        let name = &self.name;
        let (dtype, shape, source) = match &self.form {
            Form::Bytes { .. } => return Ok(columns.bytes(name)),
            Form::Names(_) => return Ok(columns.scalar::<i64>(name)),
            Form::Lists { dtype, source, .. } => return add_rows(name, dtype, source, columns),
            Form::Numbers { dtype, shape, source } => (dtype, shape, source),
        };
        if let Source::Image(field, pipeline) = source {
            let pipeline = pipeline.clone();
            return Ok(match pipeline.output().0 {
                PixelType::U8 => columns.image_as::<u8>(name, field, pipeline),
                PixelType::F16 => columns.image_as::<half::f16>(name, field, pipeline),
                PixelType::Bf16 => columns.image_as::<u16>(name, field, pipeline),
                _ => columns.image_as::<f32>(name, field, pipeline),
            });
        }
        macro_rules! add {
            ($($known:literal $type:ty,)*) => {
                match &dtype[..] {
                    $($known => Ok(match source {
                        Source::Window(field, which) => {
                            let (rows, row) = (shape[0], &shape[1..]);
                            columns.window_as::<$type>(name, field, rows, row, *which)
                        }
                        Source::Mask { field, of, fill, is_upright } => {
                            let mask = Mask::<$type>::of(of).field(field);
                            let mask = mask.fill(number(name, "fill", *fill)?);
                            columns.mask(name, if *is_upright { mask.upright() } else { mask })
                        }
                        Source::Map(function, seed) => {
                            let (function, seed) = (function.clone(), *seed);
                            let of_row = shape.clone();
                            columns.row(name, shape, move |record, row: &mut [$type]| {
                                mapped(&function, seed, &of_row, record, row)
                            })
                        }
                        _ if shape.is_empty() => columns.scalar::<$type>(name),
                        _ => columns.array::<$type>(name, shape),
                    }),)*
                    other => Err(no_type(name, other)),
                }
            };
        }
        with_types!(add)
    }
}

fn no_type(name: &str, dtype: &str) -> PyErr {
    wrong_type(format!("column {name:?}: no column has the type {dtype}"))
}

/// What is given for a column of another field: `("field", "float32")`, `("field", "float32", (3,))` or
/// `("field", bytes)`.
fn renamed(
    name: &str,
    given: &Bound<'_, PyAny>,
    bytes: &dyn Fn(&Bound<'_, PyAny>) -> Option<Form>,
) -> PyResult<Option<(String, Form)>> {
    let Ok(parts) = given.cast::<PyTuple>() else { return Ok(None) };
    let Some(field) = parts.get_item(0).ok().and_then(|first| first.extract::<String>().ok())
    else {
        return Ok(None);
    };
    if !matches!(parts.len(), 2 | 3) {
        return Ok(None);
    }
    let second = parts.get_item(1)?;
    // A shape, as in ("float32", (3,)), is no type.
    let has_len = || second.cast::<PyString>().is_err() && second.len().is_ok();
    if parts.len() == 2 && (second.extract::<usize>().is_ok() || has_len()) {
        return Ok(None);
    }
    if let Some(form) = bytes(&second).filter(|_| parts.len() == 2) {
        return Ok(Some((field, form)));
    }
    let dtype = type_name(name, &second)?;
    let shape = match parts.get_item(2) {
        Err(_) => Vec::new(),
        Ok(shape) => {
            shape.extract::<usize>().map_or_else(|_| shape.extract(), |one| Ok(vec![one]))?
        }
    };
    Ok(Some((field, Form::Numbers { dtype, shape, source: Source::Field })))
}

/// A column that is one of `pykiste.columns`.
fn described(
    class: &str,
    given: &Given<'_, '_>,
    field: &str,
    all: &Bound<'_, PyDict>,
) -> PyResult<Form> {
    let field = field.to_owned();
    let lists =
        |is_ragged: bool, dtype: String, source: Rows| Ok(Form::Lists { dtype, is_ragged, source });
    if field != given.column && matches!(class, "Kept" | "Map") {
        let message = format!("expected {class} without the name of a field, found {field:?}");
        return Err(invalid(format!("column {:?}: {message}", given.column)));
    }
    match class {
        "LabelNames" => Ok(Form::Names(given.get::<Vec<String>>("names")?.into())),
        "Map" => {
            let function = given.value.getattr("function")?.unbind();
            let source = Source::Map(Arc::new(function), given.get("seed")?);
            Ok(Form::Numbers { dtype: given.dtype()?, shape: given.get("shape")?, source })
        }
        "Window" => {
            let which = match given.get::<Option<u64>>("seed")? {
                Some(seed) => Which::Random { seed },
                None if given.get::<String>("at")? == "center" => Which::Center,
                None => Which::Start,
            };
            let source = Source::Window(field, which);
            Ok(Form::Numbers { dtype: given.dtype()?, shape: given.get("shape")?, source })
        }
        "Mask" => {
            let of: String = given.get("of")?;
            let size = size_of(all, &of)?.unwrap_or(Size::square(0));
            let shape = vec![size.height as usize, size.width as usize];
            let (fill, is_upright) = (given.number("fill")?, given.get("upright")?);
            let source = Source::Mask { field, of, fill, is_upright };
            Ok(Form::Numbers { dtype: given.dtype()?, shape, source })
        }
        "Ragged" => {
            let pad = given.pad()?;
            let is_ragged = pad.is_none();
            lists(is_ragged, given.dtype()?, Rows::Field { row: given.get("row")?, pad })
        }
        "Packed" => {
            let source = Rows::Packed {
                length: given.get("length")?,
                splits: given.get("split")?,
                rows: given.get("rows")?,
                fill: given.number("fill")?,
                cuts: given.get::<String>("longer")? == "cut",
            };
            lists(false, given.dtype()?, source)
        }
        "Boxes" => {
            let format = match &given.get::<String>("format")?[..] {
                "xywh" => BoxFormat::Xywh,
                "cxcywh" => BoxFormat::Cxcywh,
                _ => BoxFormat::Xyxy,
            };
            let boxes = Boxes::of(&given.get::<String>("of")?).field(&field).format(format);
            let least: [Option<f64>; 2] = [given.get("min_size")?, given.get("min_area")?];
            let boxes = match least {
                [None, None] => boxes,
                [side, area] => boxes.remove_below(side.unwrap_or(0.0), area.unwrap_or(0.0)),
            };
            let boxes = if given.get("upright")? { boxes.upright() } else { boxes };
            let pad = given.pad()?;
            lists(pad.is_none(), "float32".to_owned(), Rows::Boxes { boxes, pad })
        }
        "Labels" => {
            let pad = given.pad()?;
            let (of, row) = (given.get("of")?, given.get("row")?);
            lists(pad.is_none(), given.dtype()?, Rows::Labels { field, of, row, pad })
        }
        "Kept" => lists(true, "int64".to_owned(), Rows::Kept { of: given.get("of")? }),
        other => {
            Err(wrong_type(format!("column {:?}: expected a column, found {other}", given.column)))
        }
    }
}

/// The size of the images of a column.
fn size_of(all: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<Size>> {
    let Some(given) = all.get_item(name)? else { return Ok(None) };
    let what = match given.cast::<PyTuple>() {
        Ok(both) if both.len() == 2 => both.get_item(0)?,
        _ => given,
    };
    Ok(what.cast::<Pipeline>().ok().and_then(|pipeline| pipeline.get().pipeline.size()))
}

fn add_rows(name: &str, dtype: &str, source: &Rows, columns: Columns) -> PyResult<Columns> {
    macro_rules! add {
        ($($known:literal $type:ty,)*) => {
            match dtype {
                $($known => Ok(match source {
                    Rows::Field { row, pad: None } => columns.ragged::<$type>(name, row),
                    Rows::Field { row, pad: Some(pad) } => {
                        columns.padded::<$type>(name, row, padded(name, pad)?)
                    }
                    Rows::Packed { length, splits, rows, fill, cuts } => {
                        let packed = match splits {
                            true => Packed::<$type>::split(*length),
                            false => Packed::whole(*length),
                        };
                        let packed = packed.fill(number(name, "fill", *fill)?);
                        let packed = if *cuts { packed.cut() } else { packed };
                        columns.packed(name, match rows {
                            Some(rows) => packed.rows(*rows),
                            None => packed,
                        })
                    }
                    Rows::Labels { field, of, row, pad } => {
                        let labels = Labels::<$type>::of(of).field(field).row(row);
                        columns.labels(name, match pad {
                            Some(pad) => labels.padded(padded(name, pad)?),
                            None => labels,
                        })
                    }
                    _ => return Err(bug("a column of another type")),
                }),)*
                other => Err(no_type(name, other)),
            }
        };
    }
    match source {
        Rows::Boxes { boxes, pad: None } => Ok(columns.boxes(name, boxes.clone())),
        Rows::Boxes { boxes, pad: Some(pad) } => {
            Ok(columns.boxes(name, boxes.clone().padded(padded(name, pad)?)))
        }
        Rows::Kept { of } => Ok(columns.kept(name, of)),
        _ => with_types!(add),
    }
}

/// The columns of a mapping.
pub(crate) fn parsed(given: &Bound<'_, PyAny>) -> PyResult<Arc<[Column]>> {
    let given = &as_dict(given)?;
    let columns = given.iter().map(|(name, form)| Column::parse(&name, &form, given));
    let columns = columns.collect::<PyResult<Vec<Column>>>()?;
    match columns.is_empty() {
        true => Err(invalid("columns: expected at least one, found none")),
        false => Ok(columns.into()),
    }
}

/// The type and the shape of one sample, for each column of numbers: what there can be memory for.
#[pyfunction]
#[pyo3(name = "_arrays_of")]
pub(crate) fn arrays_of<'py>(columns: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let (py, columns) = (columns.py(), parsed(columns)?);
    let arrays = PyDict::new(py);
    for column in columns.iter() {
        if let Form::Numbers { dtype, shape, source } = &column.form {
            if let (Source::Mask { of, .. }, true) = (source, shape.contains(&0)) {
                let name = &column.name;
                let message =
                    format!("column {name:?}: expected a column of images, found none of {of:?}");
                return Err(invalid(message));
            }
            arrays.set_item(&column.name, (dtype, PyTuple::new(py, shape)?))?;
        }
    }
    Ok(arrays)
}

/// A mapping as a dict.
fn as_dict<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    match given.cast::<PyDict>() {
        Ok(dict) => Ok(dict.clone()),
        Err(_) if !given.hasattr("keys")? => {
            let found = given.get_type().name()?;
            Err(wrong_type(format!("columns: expected a mapping, found {found}")))
        }
        Err(_) => {
            let made = given.py().get_type::<PyDict>().call1((given,))?;
            made.cast_into::<PyDict>().map_err(bug)
        }
    }
}

/// What kind of data each column has: "numbers", "bytes", "names", "ragged", "padded" or "packed".
pub(crate) fn kinds_of<'py>(py: Python<'py>, columns: &[Column]) -> PyResult<Bound<'py, PyDict>> {
    let kinds = PyDict::new(py);
    columns.iter().try_for_each(|column| kinds.set_item(&column.name, column.kind()))?;
    Ok(kinds)
}

pub(crate) fn all_of(columns: &[Column]) -> PyResult<Columns> {
    let mut sorted: Vec<&Column> = columns.iter().collect();
    sorted.sort_by_key(|column| column.rank());
    sorted.into_iter().try_fold(Columns::new(), |all, one| one.add_to(all))
}
