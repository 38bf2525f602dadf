//! Points in time: extensions with the code -1.

/// The type code of timestamps.
pub const CODE: i8 = -1;

/// The bytes of a timestamp in the shortest of the three forms, or `None` if there are a thousand
/// million nanoseconds or more.
pub fn to_ext(seconds: i64, nanoseconds: u32) -> Option<Vec<u8>> {
    if nanoseconds > 999_999_999 {
        return None;
    }
    Some(match (u32::try_from(seconds), u64::try_from(seconds)) {
        (Ok(seconds), _) if nanoseconds == 0 => seconds.to_be_bytes().to_vec(),
        (_, Ok(seconds)) if seconds < 1 << 34 => {
            (u64::from(nanoseconds) << 34 | seconds).to_be_bytes().to_vec()
        }
        _ => [&nanoseconds.to_be_bytes()[..], &seconds.to_be_bytes()[..]].concat(),
    })
}

/// The seconds and nanoseconds of a timestamp, provided that these are the bytes [`to_ext`] has
/// for them.
pub fn from_ext(data: &[u8]) -> Option<(i64, u32)> {
    let (seconds, nanoseconds) = if let Ok(bytes) = <[u8; 4]>::try_from(data) {
        (i64::from(u32::from_be_bytes(bytes)), 0)
    } else if let Ok(bytes) = <[u8; 8]>::try_from(data) {
        let both = u64::from_be_bytes(bytes);
        (i64::try_from(both & ((1 << 34) - 1)).ok()?, u32::try_from(both >> 34).ok()?)
    } else {
        let (nanoseconds, seconds) = data.split_first_chunk::<4>()?;
        (i64::from_be_bytes(seconds.try_into().ok()?), u32::from_be_bytes(*nanoseconds))
    };
    (to_ext(seconds, nanoseconds)? == data).then_some((seconds, nanoseconds))
}
