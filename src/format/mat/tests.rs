//! Arrays made by hand: what no real file at hand has in it, and what no honest one would.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use num_complex::Complex;

use super::*;

const DOUBLE: u32 = 6;

fn element(code: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = [code, data.len() as u32].map(u32::to_le_bytes).concat();
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// A matrix of this class, with these flags, dimensions and further elements.
fn matrix(class: u32, flags: u32, shape: &[i32], name: &str, rest: &[Vec<u8>]) -> Vec<u8> {
    let shape: Vec<u8> = shape.iter().flat_map(|len| len.to_le_bytes()).collect();
    let mut data = element(6, &[class | flags, 0].map(u32::to_le_bytes).concat());
    data.extend(element(5, &shape));
    data.extend(element(1, name.as_bytes()));
    data.extend(rest.concat());
    element(14, &data)
}

fn file(variables: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"made by hand".to_vec();
    bytes.resize(124, b' ');
    bytes.extend([0x00, 0x01, b'I', b'M']);
    bytes.extend(variables.concat());
    bytes
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    let data = encoder.finish().unwrap();
    [&[15, data.len() as u32].map(u32::to_le_bytes).concat()[..], &data].concat()
}

fn first(bytes: &[u8], limits: Limits) -> Result<Array, String> {
    let file = MatFile::with_limits(bytes, limits).map_err(|error| error.to_string())?;
    file.variables()[0].read().map_err(|error| error.to_string())
}

fn read(variable: Vec<u8>) -> Result<Array, String> {
    first(&file(&[variable]), Limits { memory: 1 << 20 })
}

fn chars(shape: &[i32], code: u32, data: &[u8]) -> Result<Array, String> {
    read(matrix(4, 0, shape, "c", &[element(code, data)]))
}

#[test]
fn numbers_are_stored_in_less() {
    let a = read(matrix(DOUBLE, 0, &[1, 3], "a", &[element(2, &[1, 2, 255])])).unwrap();
    assert_eq!(a.vector::<f64>().unwrap(), [1.0, 2.0, 255.0]);
    assert_eq!(a.vector::<u8>().unwrap(), [1, 2, 255]);
    assert_eq!(
        a.vector::<i8>().unwrap_err().to_string(),
        "expected numbers that fit int8, found 255.0"
    );

    // The sign of zero, and what is not a number at all.
    let odd = [-0.0, f64::NAN, f64::INFINITY].map(f64::to_le_bytes).concat();
    let single = read(matrix(7, 0, &[3, 1], "a", &[element(9, &odd)])).unwrap();
    let single = single.vector::<f32>().unwrap();
    assert!(single[0].is_sign_negative() && single[1].is_nan() && single[2] == f32::INFINITY);

    let large = element(9, &300.0f64.to_le_bytes());
    let error = read(matrix(9, 0, &[1, 1], "a", std::slice::from_ref(&large))).unwrap_err();
    assert_eq!(error, "byte 192: expected uint8, found 300.0");
    let whole = read(matrix(13, 0, &[1, 1], "a", &[large])).unwrap();
    assert_eq!(whole.number::<u16>(), Ok(300));
    let unsigned = element(13, &u64::MAX.to_le_bytes());
    let unsigned = read(matrix(15, 0, &[1, 1], "a", &[unsigned])).unwrap();
    assert_eq!(unsigned.number::<u64>(), Ok(u64::MAX));
    assert!(unsigned.number::<i64>().is_err());
}

#[test]
fn complex_and_logical() {
    let parts = [element(3, &[1, 0, 2, 0]), element(1, &[0xff, 3])];
    let complex = read(matrix(10, 1 << 11, &[1, 2], "a", &parts)).unwrap();
    let expected = [Complex::new(1.0, -1.0), Complex::new(2.0, 3.0)];
    assert_eq!(complex.vector::<Complex<f64>>().unwrap(), expected);
    assert_eq!(
        complex.vector::<Complex<f32>>().unwrap(),
        expected.map(|c| Complex::new(c.re as f32, c.im as f32))
    );
    assert!(complex.vector::<f64>().is_err());

    let logical = read(matrix(9, 1 << 9, &[1, 2], "a", &[element(2, &[0, 7])])).unwrap();
    assert_eq!(logical.vector::<bool>().unwrap(), [false, true]);
    assert_eq!(logical.vector::<f32>().unwrap(), [0.0, 1.0]);
}

#[test]
fn iteration_is_in_c_order() {
    let a = read(matrix(9, 0, &[2, 3], "a", &[element(2, &[1, 4, 2, 5, 3, 6])])).unwrap();
    let numbers = a.numbers::<i32>().unwrap();
    assert_eq!(numbers.iter().copied().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(numbers[[1, 0]], 4);
    assert!(a.vector::<i32>().is_err());
}

#[test]
fn characters() {
    let text = |array: Result<Array, String>| array.unwrap().text().unwrap();
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    assert_eq!(text(chars(&[1, 3], 4, &utf16("añ𝄞")[..6])), "añ\u{fffd}");
    assert_eq!(text(chars(&[1, 4], 4, &utf16("añ𝄞"))), "añ𝄞");
    // MATLAB counts the last one as two characters, Python as one.
    assert_eq!(text(chars(&[1, 4], 16, "añ𝄞".as_bytes())), "añ𝄞");
    assert_eq!(text(chars(&[1, 3], 16, "añ𝄞".as_bytes())), "añ𝄞");
    assert_eq!(text(chars(&[1, 3], 17, &utf16("añ𝄞"))), "añ𝄞");
    assert_eq!(text(chars(&[1, 2], 2, &[b'a', 0xf1])), "añ");
    assert_eq!(text(chars(&[1, 2], 18, &[b'a', 0, 0, 0, 0xf1, 0, 0, 0])), "añ");
    assert!(chars(&[1, 1], 18, &[0, 0, 0x11, 0]).is_err());
    assert!(chars(&[1, 5], 16, "añ𝄞".as_bytes()).is_err());
    assert!(chars(&[1, 1], 9, &[0; 8]).is_err());

    let rows = chars(&[2, 2], 2, b"acbd").unwrap();
    assert_eq!(rows.strings().unwrap(), ["ab", "cd"]);
    assert!(rows.text().is_err());
    assert_eq!(text(chars(&[1, 3], 2, b"")), "   ");
    assert_eq!(text(chars(&[0, 0], 2, b"")), "");
    assert!(chars(&[1, 5000], 2, b"").is_err());
}

#[test]
fn opaque_objects() {
    let inner = matrix(13, 0, &[1, 1], "", &[element(6, &7u32.to_le_bytes())]);
    let mut data = element(6, &[17u32, 0].map(u32::to_le_bytes).concat());
    for name in ["t", "MCOS", "table"] {
        data.extend(element(1, name.as_bytes()));
    }
    data.extend(inner);
    let bytes = file(&[element(14, &data)]);
    let file = MatFile::parse(&bytes).unwrap();
    assert_eq!(file.description(), "made by hand");
    let Array::Opaque(table) = file.get("t").unwrap() else {
        panic!("not opaque");
    };
    assert_eq!((table.system(), table.class()), ("MCOS", "table"));
    assert_eq!(table.content().number::<u32>(), Ok(7));
}

fn nested(levels: usize) -> Vec<u8> {
    let mut inner = element(14, b"");
    for _ in 1..levels {
        inner = matrix(1, 0, &[1, 1], "", &[inner]);
    }
    matrix(1, 0, &[1, 1], "deep", &[inner])
}

#[test]
fn nesting_has_a_limit() {
    let mut array = &read(nested(MAX_NESTING - 1)).unwrap();
    assert_eq!(array.unwrapped().shape(), [0, 0]);
    let mut levels = 1;
    while let Ok(inner) = array.cell(0) {
        (array, levels) = (inner, levels + 1);
    }
    assert_eq!(levels, MAX_NESTING);
    for levels in [MAX_NESTING, 3000] {
        let error = read(nested(levels)).unwrap_err();
        assert!(error.ends_with("expected at most 64 nested arrays, found more"), "{error}");
    }
}

#[test]
fn dimensions_that_lie() {
    let max = i32::MAX;
    let strings = [element(5, &8i32.to_le_bytes()), element(1, b"field\0\0\0")];
    let no_fields = [element(5, &8i32.to_le_bytes()), element(1, b"")];
    let shapes: [&[i32]; 4] = [&[max, max], &[max, max, max, 0, max], &[1, max], &[-1, 1]];
    for shape in shapes {
        for (class, rest) in [
            (DOUBLE, &[element(9, &[0; 8])][..]),
            (1, &[]),
            (2, &strings),
            (2, &no_fields),
            (4, &[element(16, b"abc")]),
            (5, &[element(5, &[0; 4]), element(5, &[0; 8]), element(9, &[0; 8])]),
        ] {
            assert!(read(matrix(class, 0, shape, "a", rest)).is_err(), "{class} {shape:?}");
        }
    }
    // Nothing is in there, and it takes no memory; but an axis that memory had no room for, were it
    // the only one, is refused.
    let long = if usize::BITS == 64 { max } else { max / 16 };
    let empty = read(matrix(DOUBLE, 0, &[long, 0], "a", &[element(9, b"")])).unwrap();
    assert_eq!(empty.shape(), [long as usize, 0]);
    assert!(read(matrix(1, 0, &[0, long], "a", &[])).unwrap().cells().unwrap().is_empty());
}

fn sparse(shape: &[i32], rows: &[i32], starts: &[i32], values: usize) -> Result<Array, String> {
    let words =
        |words: &[i32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let values = vec![1; values];
    let rest = [element(5, &words(rows)), element(5, &words(starts)), element(2, &values)];
    read(matrix(5, 0, shape, "s", &rest))
}

#[test]
fn sparse_matrices() {
    let array = sparse(&[3, 2], &[0, 2, 1, 0], &[0, 2, 3], 4).unwrap();
    let dense = array.numbers::<u8>().unwrap();
    assert_eq!(dense.iter().copied().collect::<Vec<_>>(), [1, 0, 0, 1, 1, 0]);
    let Array::Sparse(inner) = array else {
        panic!("not sparse");
    };
    let entries: Vec<_> = inner.entries::<u8>().unwrap().collect();
    assert_eq!(entries, [(0, 0, 1), (2, 0, 1), (1, 1, 1)]);

    assert!(sparse(&[3, 2], &[0, 2, 1], &[0, 2, 3], 3).is_ok());
    for rows in [[0, 3, 1], [2, 0, 1], [0, 0, 1], [0, -2, 1]] {
        assert!(sparse(&[3, 2], &rows, &[0, 2, 3], 3).is_err(), "{rows:?}");
    }
    for starts in [&[0, 4, 3][..], &[1, 2, 3], &[0, 2, 4], &[0, 2], &[0, -1, 3]] {
        assert!(sparse(&[3, 2], &[0, 2, 1], starts, 3).is_err(), "{starts:?}");
    }
    assert!(sparse(&[3, 2], &[0, 2, 1], &[0, 2, 3], 2).is_err());
    assert!(sparse(&[3, 2, 1], &[0, 2, 1], &[0, 2, 3], 3).is_err());
    let vast = sparse(&[i32::MAX, 1], &[7], &[0, 1], 1).unwrap();
    assert!(vast.numbers::<f64>().is_err());
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn bombs() {
    let limits = Limits { memory: 1 << 20 };
    // The inflated data is larger than allowed.
    let zeros = matrix(9, 0, &[1, 8 << 20], "z", &[element(2, &vec![0; 8 << 20])]);
    let bytes = file(&[deflated(&zeros)]);
    assert!(bytes.len() < 16 << 10);
    let error = first(&bytes, limits).unwrap_err();
    assert!(error.contains("which the limit does not allow"), "{error}");
    assert_eq!(first(&bytes, Limits::default()).unwrap().shape(), [1, 8 << 20]);

    // The decoded array is: bytes are stored for doubles, and 8 bytes are an empty array.
    let doubles = matrix(DOUBLE, 0, &[1, 200_000], "d", &[element(2, &vec![0; 200_000])]);
    let cells = matrix(1, 0, &[1, 50_000], "c", &[element(14, b"").repeat(50_000)]);
    for variable in [doubles, cells] {
        let error = first(&file(&[deflated(&variable)]), limits).unwrap_err();
        assert!(error.contains("which the limit does not allow"), "{error}");
    }

    // Wrong lengths: more than the bytes can inflate to, and less.
    for len in [u32::MAX, 1 << 20, zeros.len() as u32] {
        let mut lie = zeros[..1000].to_vec();
        lie[4..8].copy_from_slice(&len.to_le_bytes());
        assert!(first(&file(&[deflated(&lie)]), Limits { memory: 1 << 40 }).is_err());
    }
}

#[test]
fn elements_that_lie() {
    let good = matrix(9, 0, &[1, 1], "a", &[element(2, &[1])]);
    assert!(read(good.clone()).is_ok());
    let more = matrix(9, 0, &[1, 1], "a", &[element(2, &[1]), element(2, &[1])]);
    assert!(read(more).unwrap_err().contains("expected the end of the array"));
    for (at, byte) in [(0, 2), (0, 99), (4, 200), (8, 7), (16, 0), (16, 18), (24, 9), (28, 0)] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert!(read(bad).is_err(), "{at} {byte}");
    }
    for size in [0i32, -1, 3] {
        let names = [element(5, &size.to_le_bytes()), element(1, b"field\0\0\0")];
        assert!(read(matrix(2, 0, &[1, 1], "s", &names)).is_err());
    }
}

/// The last of several variables counts, as when MATLAB loads them.
#[test]
fn variables_of_one_name() {
    let of = |number| matrix(9, 1 << 10, &[1, 1], "a", &[element(2, &[number])]);
    let bytes = file(&[deflated(&of(1)), of(2)]);
    let file = MatFile::parse(&bytes).unwrap();
    assert_eq!(file.variables().len(), 2);
    assert!(file.variables()[0].is_global());
    assert_eq!(file.get("a").unwrap().number::<u8>(), Ok(2));
}

fn level4(header: [u32; 5], name: &[u8], numbers: &[f64]) -> Vec<u8> {
    let numbers = numbers.iter().map(|number| number.to_le_bytes());
    [&header.map(u32::to_le_bytes).concat()[..], name, &numbers.collect::<Vec<_>>().concat()]
        .concat()
}

#[test]
fn level_4() {
    let read = |bytes: &[u8]| first(bytes, Limits { memory: 1 << 20 });
    let complex = read(&level4([0, 1, 1, 1, 2], b"a\0", &[1.0, 2.0])).unwrap();
    assert_eq!(complex.number::<Complex<f64>>(), Ok(Complex::new(1.0, 2.0)));

    // Row and column of each value in any order, and the shape in the last row.
    let triplets = |numbers: &[f64; 9]| read(&level4([2, 3, 3, 0, 2], b"a\0", numbers));
    let sparse = triplets(&[2.0, 1.0, 2.0, 3.0, 1.0, 3.0, 7.0, 8.0, 0.0]).unwrap();
    assert_eq!(sparse.numbers::<u8>().unwrap().into_iter().collect::<Vec<_>>(), [8, 0, 0, 0, 0, 7]);
    for broken in [
        [2.0, 0.0, 2.0, 3.0, 1.0, 3.0, 7.0, 8.0, 0.0],
        [2.0, 1.5, 2.0, 3.0, 1.0, 3.0, 7.0, 8.0, 0.0],
        [2.0, 1.0, 2.0, 4.0, 1.0, 3.0, 7.0, 8.0, 0.0],
        [1.0, 1.0, 2.0, 1.0, 1.0, 3.0, 7.0, 8.0, 0.0],
        [2.0, 1.0, 2.0, 3.0, 1.0, f64::NAN, 7.0, 8.0, 0.0],
    ] {
        assert!(triplets(&broken).is_err(), "{broken:?}");
    }
    // More columns than fit: a list of them would take gigabytes.
    let wide = triplets(&[1.0, 1.0, 1.0, 1.0, 5.0, 2e9, 7.0, 8.0, 0.0]).unwrap();
    assert_eq!(wide.shape(), [1, 2_000_000_000]);
    assert!(wide.numbers::<u8>().is_err());

    for (header, told) in [
        ([2000, 1, 1, 0, 2], "byte 0: expected numbers as in IEEE 754, found 2000, of VAX or Cray"),
        ([1000, 1, 1, 0, 2], "byte 0: expected the type of an array of level 4, found 1000"),
        ([60, 1, 1, 0, 2], "byte 0: expected a type of numbers of 0 to 5, found 0060"),
        ([3, 1, 1, 0, 2], "byte 0: expected numbers, text or a sparse array, found 0003"),
        ([0, u32::MAX, 1, 0, 2], "byte 4: expected a length of 0 to 2^31 - 1, found -1"),
        ([0, 1, 1, 7, 2], "byte 12: expected 0 or 1, found 7"),
        ([0, 1, 1, 0, 0], "byte 20: expected a name, found none"),
        ([0, 9, 9, 0, 2], "byte 22: expected the numbers of an array, of 648 bytes, found 8 bytes"),
    ] {
        assert_eq!(read(&level4(header, b"a\0", &[1.0])).unwrap_err(), told);
    }
}
