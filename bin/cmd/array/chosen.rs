//! The part of an array that a command was asked for, and its elements in order.

use std::io::{self, Read, Write};
use std::path::Path;

use kiste::array::{ChunkedArray, Pieces, Rows};
use kiste::format::numpy::npy;
use kiste::value::{Casting, DType, NdArray, Order};

use super::target::{Explained, Target};
use super::window::Window;
use crate::exit::Outcome;

/// The requested element type.
#[derive(Debug, clap::Args)]
pub(super) struct Conversion {
    /// Convert elements to this type, as NumPy's astype does
    #[arg(long, value_name = "TYPE")]
    dtype: Option<DType>,
    /// Casting rule: safe, same_kind or unsafe [default: same_kind]
    #[arg(long, value_name = "HOW", requires = "dtype", value_parser = parse_casting)]
    casting: Option<Casting>,
}

impl Conversion {
    /// The type of an array with such elements.
    pub(super) fn of(&self, dtype: &DType) -> (DType, Casting) {
        let casting = self.casting.unwrap_or_default();
        (self.dtype.clone().unwrap_or_else(|| dtype.clone()), casting)
    }
}

fn parse_casting(text: &str) -> Result<Casting, String> {
    [Casting::No, Casting::Equiv, Casting::Safe, Casting::SameKind, Casting::Unsafe]
        .into_iter()
        .find(|casting| casting.to_string() == text)
        .ok_or_else(|| "expected safe, same_kind or unsafe".to_owned())
}

/// The elements to show: read piece by piece, or read already.
pub(super) enum Chosen {
    Window(Window),
    Whole(NdArray<'static>),
}

impl Chosen {
    /// A part of an array, in the requested type.
    pub(super) fn of(
        array: &ChunkedArray,
        target: &Target,
        conversion: &Conversion,
    ) -> Outcome<Chosen> {
        let to = conversion.of(array.dtype());
        let choose = || -> kiste::Result<Chosen> {
            match Window::new(array, &target.selection, &to)? {
                Some(window) if !window.shape().is_empty() => Ok(Chosen::Window(window)),
                _ => {
                    let whole = array.read(target.selection.clone())?;
                    Ok(Chosen::Whole(whole.astype(&to.0, to.1)?))
                }
            }
        };
        choose().explained(&target.path)
    }

    pub(super) fn rows(&self) -> &dyn Rows {
        match self {
            Chosen::Window(window) => window,
            Chosen::Whole(array) => array,
        }
    }
}

/// The bytes of all elements in order, a few rows at a time.
pub(super) struct Elements<'a> {
    pieces: Option<Pieces<'a>>,
    piece: Vec<u8>,
    given: usize,
}

impl<'a> Elements<'a> {
    pub(super) fn of(chosen: &'a Chosen) -> kiste::Result<Elements<'a>> {
        let (pieces, piece) = match chosen {
            Chosen::Whole(array) => (None, array.c_bytes().into_owned()),
            Chosen::Window(window) => (Some(Pieces::of(window, PIECE)?), Vec::new()),
        };
        Ok(Elements { pieces, piece, given: 0 })
    }
}

impl Read for Elements<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.given == self.piece.len() {
            let Some(piece) = self.pieces.as_mut().and_then(Iterator::next) else { return Ok(0) };
            self.piece = piece.map_err(io::Error::other)?.into_bytes().into_owned();
            self.given = 0;
        }
        let len = out.len().min(self.piece.len() - self.given);
        out[..len].copy_from_slice(&self.piece[self.given..self.given + len]);
        self.given += len;
        Ok(len)
    }
}

/// Bytes in memory at a time: enough chunks for all cores.
const PIECE: usize = 16 << 20;

/// A whole .npy file.
pub(super) fn write_npy(chosen: &Chosen, name: &Path, out: &mut dyn Write) -> Outcome<()> {
    let rows = chosen.rows();
    let (dtype, shape) = (rows.dtype().clone(), rows.shape().to_vec());
    out.write_all(&npy::encode_header(&npy::Header { dtype, shape, order: Order::C }))?;
    each_piece(chosen, name, |piece| Ok(out.write_all(&piece.c_bytes())?))
}

/// Calls `each` with all elements in order, a few rows at a time.
fn each_piece(
    chosen: &Chosen,
    name: &Path,
    mut each: impl FnMut(&NdArray<'_>) -> Outcome<()>,
) -> Outcome<()> {
    match chosen {
        Chosen::Whole(array) => each(array),
        Chosen::Window(window) => {
            let mut pieces = Pieces::of(window, PIECE).explained(name)?;
            pieces.try_for_each(|piece| each(&piece.explained(name)?))
        }
    }
}
