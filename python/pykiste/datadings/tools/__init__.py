"""Helpers of scripts that write datasets: paths, digests, progress, downloads."""

from pykiste.datadings.tools.ask import document_keys, query_user
from pykiste.datadings.tools.background import (
    SentinelEnd,
    SentinelError,
    Yielder,
    YielderProc,
    yield_process,
    yield_threaded,
)
from pykiste.datadings.tools.download import (
    download_files_if_not_found,
    download_if_not_found,
    locate_files,
    prepare_indir,
    verify_file,
    verify_files,
)
from pykiste.datadings.tools.hashing import (
    hash_md5hex,
    hash_string,
    hash_string_bytes,
    load_md5file,
)
from pykiste.datadings.tools.image import split_array, tiff_to_nd_array
from pykiste.datadings.tools.paths import path_append, path_append_suffix
from pykiste.datadings.tools.progress import (
    BAR_FORMAT,
    DOWNLOAD_BAR,
    ProgressPrinter,
    make_printer,
    print_over,
)

__all__ = [
    "BAR_FORMAT",
    "DOWNLOAD_BAR",
    "ProgressPrinter",
    "SentinelEnd",
    "SentinelError",
    "Yielder",
    "YielderProc",
    "document_keys",
    "download_files_if_not_found",
    "download_if_not_found",
    "hash_md5hex",
    "hash_string",
    "hash_string_bytes",
    "load_md5file",
    "locate_files",
    "make_printer",
    "path_append",
    "path_append_suffix",
    "prepare_indir",
    "print_over",
    "query_user",
    "split_array",
    "tiff_to_nd_array",
    "verify_file",
    "verify_files",
    "yield_process",
    "yield_threaded",
]
