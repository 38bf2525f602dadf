//! Directories of bcolz: the small files, data files, and superchunks of the documents before it.
#![no_main]

use kiste::format::__private::bcolz::{
    Layout, Sizes, Storage, Superchunk, attrs_to_json, chunk_in, dflt_of, names_to_json,
    parse_attrs, parse_names, recognise,
};
use kiste::format::blosc;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(sizes) = Sizes::parse(bytes) {
        assert_eq!(Sizes::parse(sizes.to_json().as_bytes()).unwrap(), sizes);
        if let Ok(layout) = Layout::new(sizes.shape[0] as u64, sizes.nbytes, sizes.cbytes) {
            let last = layout.chunks().saturating_sub(1);
            assert_eq!(layout.rows_of(last).end, layout.rows());
            let _ = layout.check(last, layout.nbytes_of(last));
        }
    }
    if let Ok(storage) = Storage::parse(bytes) {
        let again = Storage::parse(storage.to_json().as_bytes()).unwrap();
        assert_eq!(again.dtype, storage.dtype);
        if let Some(fill) = storage.fill().filter(|_| !storage.dtype.is_struct()) {
            if let Ok(dflt) = dflt_of(&fill, &storage.dtype) {
                let same = Storage { dflt, ..storage };
                assert_eq!(same.fill(), Some(fill));
            }
        }
    }
    if let Ok(names) = parse_names(bytes) {
        assert_eq!(parse_names(names_to_json(&names).as_bytes()).unwrap(), names);
    }
    if let Ok(attrs) = parse_attrs(bytes) {
        assert_eq!(parse_attrs(attrs_to_json(&attrs).as_bytes()).unwrap(), attrs);
    }
    let variant = recognise(bytes, bytes.len() as u64);
    let _ = variant.to_string();
    if let Ok(chunk) = chunk_in(bytes) {
        let _ = blosc::decompress(chunk, 1 << 20);
    }
    if let Ok(superchunk) = Superchunk::parse(bytes) {
        assert!(variant.is_readable());
        for index in 0..superchunk.len().min(100) {
            if let Ok(chunk) = superchunk.chunk(bytes, index) {
                let _ = blosc::decompress(chunk, 1 << 20);
            }
        }
    }
});
