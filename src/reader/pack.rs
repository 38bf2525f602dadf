//! Pieces of packed samples, where building a whole `Value` would copy too much.

use crate::error::{Error, ErrorKind, Result};

/// Appends the header of a map.
pub(crate) fn map_len(len: usize, out: &mut Vec<u8>) -> Result<()> {
    match (u8::try_from(len), u16::try_from(len)) {
        (Ok(len), _) if len < 16 => out.push(0x80 | len),
        (_, Ok(len)) => {
            out.push(0xde);
            out.extend_from_slice(&len.to_be_bytes());
        }
        _ => {
            out.push(0xdf);
            out.extend_from_slice(&length(len)?.to_be_bytes());
        }
    }
    Ok(())
}

/// Appends bytes.
pub(super) fn bin(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let len = bytes.len();
    match (u8::try_from(len), u16::try_from(len)) {
        (Ok(len), _) => out.extend_from_slice(&[0xc4, len]),
        (_, Ok(len)) => {
            out.push(0xc5);
            out.extend_from_slice(&len.to_be_bytes());
        }
        _ => {
            out.push(0xc6);
            out.extend_from_slice(&length(len)?.to_be_bytes());
        }
    }
    out.extend_from_slice(bytes);
    Ok(())
}

fn length(len: usize) -> Result<u32> {
    u32::try_from(len).map_err(|_| {
        let message = format!("expected at most {} bytes or fields, found {len}", u32::MAX);
        Error::new(ErrorKind::Limit, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::msgpack::{Value, to_vec};

    #[test]
    fn headers_are_the_shortest() {
        for len in [0, 15, 16, 255, 256, 65_535, 65_536] {
            let bytes = vec![7; len];
            let mut out = Vec::new();
            bin(&bytes, &mut out).unwrap();
            assert_eq!(out, to_vec(&Value::Binary(bytes)).unwrap());
            let nils = vec![(Value::Nil, Value::Nil); len];
            let mut out = Vec::new();
            map_len(len, &mut out).unwrap();
            assert!(to_vec(&Value::Map(nils)).unwrap().starts_with(&out));
        }
    }
}
