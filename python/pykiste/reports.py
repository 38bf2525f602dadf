"""What functions report, for type checkers: at run time these are plain dicts.

>>> from pykiste.reports import Made
>>> def total(parts: list[Made]) -> int:
...     return sum(part["samples"] for part in parts)
"""

from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

__all__ = [
    "Bad",
    "Compared",
    "Consumer",
    "Converted",
    "Cores",
    "Difference",
    "FieldArrays",
    "FileInfo",
    "Filtered",
    "InPlaceFiles",
    "Indexed",
    "Info",
    "LeftOut",
    "LengthsInfo",
    "Loading",
    "Made",
    "Merged",
    "Output",
    "Problem",
    "Progress",
    "Queue",
    "Removed",
    "SampleBytes",
    "Seen",
    "Selected",
    "Sides",
    "Verified",
    "Version",
    "Workers",
]


class Consumer(TypedDict):
    """Seconds of the loop: waiting for the first batch of all, waiting for the others, and busy.

    `awaited` batches were not ready when the loop asked for them.
    """

    first: float
    waiting: float
    busy: float
    awaited: int


class Workers(TypedDict):
    """Seconds of all threads of a loader together. Without threads they are those of the loop."""

    threads: int
    reading: float
    decoding: float
    collating: float
    waiting_for_room: float
    waiting_for_bytes: float


class Cores(TypedDict):
    """Of the seconds that threads `worked`: how many they were on a core, or waited for one.

    The rest they waited for something else, such as the `page_faults` of a memory map.
    """

    worked: float
    on_core: float
    waiting_for_core: float
    page_faults: int


class Queue(TypedDict):
    """Batches that may be finished or in progress, that are finished now, and that were on average."""

    limit: int
    ready: int
    mean: float


class Loading(TypedDict):
    """Where the time of `Loader.report()` has gone, and what its limit is. `cores` needs Linux."""

    seconds: float
    batches: int
    samples: int
    failures: int
    bytes: int
    consumer: Consumer
    workers: Workers
    cores: Cores | None
    queue: Queue
    remote: bool
    limit: Literal["consumer", "cpu", "storage", "queue", "decoder", "unknown"]
    advice: str
    summary: str


class FieldArrays(TypedDict):
    """The arrays of a field. `shapes` has the shortest and the longest of each axis, for each number of axes."""

    plain: int
    packed: int
    dtypes: list[str]
    shapes: dict[str, list[list[int]]]
    packed_bytes: int
    container_bytes: int


class FileInfo(TypedDict):
    """A file of a dataset, with its size unless it is missing."""

    file: Path
    bytes: int | None
    present: bool


class SampleBytes(TypedDict):
    """Bytes of the smallest sample, on average, and of the largest."""

    min: int
    mean: float
    max: int


class InPlaceFiles(TypedDict):
    """Files of another format that the samples of a dataset lie in."""

    format: str
    files: int
    bytes: int


class LengthsInfo(TypedDict):
    """A column of `.lengths`, and what its numbers are."""

    name: str
    min: int
    mean: float
    max: int
    total: int


class Info(TypedDict):
    """What `Dataset.info()` says. `fields` and `arrays` are of the first 100 samples.

    `unfinished` says in words what is left of a write that did not end.
    """

    file: Path
    samples: int
    bytes: int
    sample_bytes: SampleBytes | None
    fields: dict[str, list[str]]
    arrays: dict[str, FieldArrays]
    files: list[FileInfo]
    digests: bool
    lookup: bool
    checksums: bool
    lengths: NotRequired[list[LengthsInfo]]
    in_place: NotRequired[InPlaceFiles]
    unfinished: str | None


class Progress(TypedDict):
    """What the callback `progress` gets about four times a second, and at the end."""

    phase: str
    samples: int
    bytes: int
    input_bytes: int
    total_samples: int | None
    total_input_bytes: int | None
    notices: list[str]


class Made(TypedDict):
    """A dataset that was written."""

    path: Path
    samples: int
    bytes: int
    labels: Path | None
    seconds: float


class Merged(Made):
    """What `merge` wrote."""

    skipped_duplicates: int


class LeftOut(TypedDict):
    """Samples that a step on the way to a dataset left out, and why: an entry of `Dataset.left_out`."""

    step: str
    rule: str
    samples: int
    unknown_keys: int
    remarks: list[str]


class Seen(TypedDict):
    """A sample of a step, from `Loader.keys_at`: which one it is, its source in a mixture, its file and its place."""

    key: str
    index: int
    source: str | None
    file: Path | None
    rank: int
    position: int
    padding: bool


class Selected(Made):
    """What `select` wrote."""

    skipped: int


class Filtered(Made):
    """What `filter` wrote, of how many samples, and where values of different kinds were compared."""

    of: int
    mismatches: list[str]


class Sides(TypedDict, total=False):
    """The values of a field in both samples; one is missing if only the other has the field."""

    left: Any
    right: Any


class Difference(TypedDict):
    """A sample that only one dataset has, with its `index` there, or one that was changed."""

    key: str
    change: Literal["left", "right", "fields"]
    index: NotRequired[int]
    left: NotRequired[int]
    right: NotRequired[int]
    fields: NotRequired[dict[str, Sides]]


class Compared(TypedDict):
    """What `diff` found."""

    same: int
    only_left: int
    only_right: int
    changed: int
    same_order: bool
    differences: list[Difference]


class Output(TypedDict):
    """A file or dataset that a conversion wrote."""

    path: Path
    files: int
    samples: int
    bytes: int
    added: int
    labels: Path | None


class Bad(TypedDict):
    """Input that could not be read."""

    count: int
    first: list[str]


class Converted(TypedDict):
    """What `convert` and `commit` wrote."""

    outputs: list[Output]
    bad: Bad
    changes: list[str]
    remarks: list[str]
    quarantine: Path | None
    skipped_duplicates: int
    different_duplicates: int
    skipped_files: int
    seconds: float


class Indexed(TypedDict):
    """What `index` has made: side files of a dataset (`made`), or an index of files whose samples stay where they are.

    Of the files of an index, `kept` had not changed since they were indexed. `bad` samples were left out.
    `dropped_lengths` are columns that an outdated `.lengths` had and the new one has not.
    """

    samples: int
    made: NotRequired[list[Path]]
    dropped_lengths: NotRequired[list[str]]
    shards: NotRequired[int]
    bytes: NotRequired[int]
    kept: NotRequired[int]
    bad: NotRequired[int]
    first_bad: NotRequired[list[str]]


class Problem(TypedDict):
    """Something that `verify` found."""

    file: Path
    index: int | None
    key: str | None
    range: tuple[int, int] | None
    message: str


class Verified(TypedDict):
    """What `verify` found."""

    good: bool
    samples: int
    bytes: int
    problems: list[Problem]
    missing: list[Path]


class Version(TypedDict):
    """A version of an array."""

    number: int
    parent: int
    time: str
    message: str
    shape: tuple[int, ...]
    chunks: int
    cbytes: int


class Removed(TypedDict):
    """What `ArrayStore.gc` removed."""

    versions: list[int]
    files: int
    bytes: int
