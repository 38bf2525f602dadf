//! A data file, `data/__N.blp`: sixteen bytes, and one Blosc chunk.

use crate::format::FormatError;
use crate::format::blosc;
use crate::format::bloscpack::MAX_RATIO;

use super::variant::{HEADER, HEADER_BYTES, recognise};

/// The name of the data file of a chunk, below `data`.
pub(crate) fn chunk_file_name(chunk: u64) -> String {
    format!("__{chunk}.blp")
}

/// The name of a superchunk in the documents before bcolz, below `data`. They count from 1.
pub(crate) fn superchunk_file_name(number: u64) -> String {
    format!("__{number}__.bin")
}

/// The Blosc chunk that is in a data file, after everything has been compared that can be without
/// decompressing. (bcolz skips the header unread, and reads behind the end of a file cut short.)
pub fn chunk_in(file: &[u8]) -> Result<&[u8], FormatError> {
    let Some((head, chunk)) = file.split_first_chunk::<HEADER>() else {
        let found = format!("{} bytes", file.len());
        return Err(FormatError::new(0, "a data file of bcolz", found));
    };
    if *head != HEADER_BYTES {
        let at = head.iter().zip(HEADER_BYTES).take_while(|(found, byte)| **found == *byte).count();
        let found = recognise(file, file.len() as u64).to_string();
        let expected = "the header of a data file of bcolz: blpk, version 1, one chunk";
        return Err(FormatError::new(at as u64, expected, found));
    }
    let header = blosc::Header::parse(chunk).map_err(behind_header)?;
    if header.chunk_len() != chunk.len() {
        let expected = format!("a chunk up to the end of the file, {} bytes", chunk.len());
        return Err(behind_header(FormatError::new(12, expected, header.chunk_len().to_string())));
    }
    check_ratio(&header).map_err(behind_header)?;
    Ok(chunk)
}

/// Whether a chunk is long enough for what it is to unpack to, before memory is asked for.
pub(crate) fn check_ratio(header: &blosc::Header) -> Result<(), FormatError> {
    let most = header.chunk_len() as u64 * MAX_RATIO;
    if header.nbytes() as u64 <= most {
        return Ok(());
    }
    let expected = format!("at most {most} bytes from {}", header.chunk_len());
    Err(FormatError::new(4, expected, header.nbytes().to_string()))
}

/// An error of a chunk, at its place in the data file.
pub(crate) fn behind_header(error: FormatError) -> FormatError {
    error.behind(HEADER as u64)
}

#[cfg(test)]
mod tests {
    #[test]
    fn takes_a_chunk_file_apart() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::bcolz::{HEADER_BYTES, chunk_in};
        use crate::format::blosc::{Params, compress};

        let mut file = HEADER_BYTES.to_vec();
        compress(&Params::default(), &[7; 1000], &mut file)?;
        assert_eq!(chunk_in(&file)?.len(), file.len() - 16);
        file.pop();
        assert!(chunk_in(&file).is_err());
        Ok(())
    }
}
