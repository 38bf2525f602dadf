//! idx, the files of MNIST: one array of numbers.
//!
//! After the page of MNIST (LeCun, Cortes, Burges): two zeros, a code of the type, the number of
//! axes; then the length of each axis in four bytes, and the elements in C order. The high byte
//! comes first everywhere.

use crate::format::FormatError;
use crate::value::{ByteOrder, DType, DTypeKind, NdArray};

/// The codes of types.
const TYPES: [(u8, DTypeKind, usize); 6] = [
    (0x08, DTypeKind::UInt, 1),
    (0x09, DTypeKind::Int, 1),
    (0x0b, DTypeKind::Int, 2),
    (0x0c, DTypeKind::Int, 4),
    (0x0d, DTypeKind::Float, 4),
    (0x0e, DTypeKind::Float, 8),
];

/// Reads a whole file. The array borrows its elements; bytes after them are an error.
pub fn decode(bytes: &[u8]) -> Result<NdArray<'_>, FormatError> {
    let [0, 0, code, axes, rest @ ..] = bytes else {
        return Err(FormatError::new(0, "an idx file", "other bytes"));
    };
    let known = TYPES.iter().find(|(known, ..)| known == code);
    let dtype = known.and_then(|(_, kind, size)| DType::new(*kind, *size, ByteOrder::Big));
    let dtype = dtype.ok_or_else(|| FormatError::new(2, "the code of a type", code.to_string()))?;
    let (lens, data) = rest.split_at_checked(4 * usize::from(*axes)).ok_or_else(|| {
        FormatError::new(4, format!("the lengths of {axes} axes"), format!("{} bytes", rest.len()))
    })?;
    let len = |bytes: &[u8]| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    let shape: Vec<usize> = lens.chunks_exact(4).map(len).collect();
    let (start, found) = (4 + lens.len() as u64, format!("{} bytes", data.len()));
    let expected = format!("the elements of {dtype} {shape:?}");
    NdArray::new(dtype, shape, data).map_err(|_| FormatError::new(start, expected, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_an_array() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::idx;

        let file = [0, 0, 0x08, 2, 0, 0, 0, 1, 0, 0, 0, 2, 5, 7];
        let array = idx::decode(&file)?;
        assert_eq!((array.shape(), array.bytes()), (&[1, 2][..], &[5, 7][..]));
        Ok(())
    }

    #[test]
    fn all_types() {
        for (code, _, size) in TYPES {
            let head = [0, 0, code, 1, 0, 0, 0, 3];
            let file = [&head[..], &vec![1; 3 * size]].concat();
            let array = decode(&file).unwrap();
            assert_eq!((array.dtype().item_size(), array.shape()), (size, &[3][..]));
            for end in 0..file.len() {
                assert!(decode(&file[..end]).is_err(), "{end}");
            }
            assert!(decode(&[&file[..], &[0]].concat()).is_err());
        }
        let numbers = [0, 0, 0x0b, 0, 1, 2];
        assert_eq!(decode(&numbers).unwrap().to_ndarray::<i16>().unwrap().sum(), 258);
        assert!(decode(&[0, 0, 7, 0]).is_err() && decode(&[0, 1, 8, 0]).is_err());
        let huge = [[0, 0, 8, 3].as_slice(), &[255; 12]].concat();
        assert!(decode(&huge).is_err());
    }
}
