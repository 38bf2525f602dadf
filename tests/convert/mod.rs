#[cfg(all(feature = "full", feature = "stat"))]
mod appending;
mod carried;
#[cfg(feature = "stat")]
mod conversion;
#[cfg(all(feature = "full", feature = "stat"))]
mod dropped_fields;
#[cfg(all(feature = "full", feature = "stat"))]
mod in_place;
mod inputs;
#[cfg(all(feature = "full", feature = "stat"))]
mod left_out;
#[cfg(feature = "convert")]
mod notes;
mod parted_shuffle;
#[cfg(feature = "full")]
mod sharded_exports;
#[cfg(feature = "convert")]
mod sharding;
