//! [`ShardLimit`]: where one shard of an output ends and the next begins.

/// A shard ends with the sample that reaches one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShardLimit {
    /// [`u64::MAX`] if only samples count.
    pub(super) bytes: u64,
    /// [`u64::MAX`] if only bytes count.
    pub(super) samples: u64,
}

impl ShardLimit {
    /// Only bytes count.
    pub(super) fn of_bytes(bytes: u64) -> ShardLimit {
        ShardLimit { bytes, samples: u64::MAX }
    }

    /// Whether a shard with this many gets no further sample.
    pub(super) fn is_reached(self, samples: u64, bytes: u64) -> bool {
        samples >= self.samples || bytes >= self.bytes
    }
}
