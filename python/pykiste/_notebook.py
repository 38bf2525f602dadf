"""A dataset in a notebook: as HTML, and the keys that complete an index.

All text of the dataset is escaped. Images are `data:` URIs of types that browsers show as pictures and nothing else, and
of bounded size, as on the page of `kiste stat`.
"""

from base64 import b64encode
from collections.abc import Iterator
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

from pykiste._core import _escaped, _picture, _shown
from pykiste.errors import Error
from pykiste.schema import Schema

if TYPE_CHECKING:
    from pykiste import Dataset

# Samples that are shown, fields in the table, keys that are offered.
_SAMPLES, _FIELDS, _KEYS = 6, 50, 1000
# What browsers show as pictures and nothing else.
_MEDIA = {"image/jpeg", "image/png", "image/gif", "image/webp"}
# Characters of a value.
_VALUE = 48


def completions(dataset: "Dataset") -> list[str]:
    """The first keys. None where they are behind a network."""
    return [] if dataset._is_remote() else list(islice(dataset.keys(), _KEYS))


def html(dataset: "Dataset") -> str:
    """The fields and the first samples. Nothing is read behind a network."""
    title = f"<p><code>{_text(repr(dataset))}</code></p>"
    try:
        if dataset._is_remote() or len(dataset) == 0:
            return title
        schema = Schema.of(dataset)
        return f"{title}\n{_table(schema)}\n{''.join(_figures(dataset))}"
    except Error as error:
        # What is damaged is still shown by its name.
        return f"{title}\n<p>{_text(str(error))}</p>"


def _text(text: str) -> str:
    return escape(_escaped(text))


def _table(schema: Schema) -> str:
    shown = schema.rows()[:_FIELDS]
    rows = "".join(f"<tr><td>{_text(name)}</td><td>{_text(words)}</td></tr>" for name, words in shown)
    if len(schema) > len(shown):
        rows += f"<tr><td colspan='2'>and {len(schema) - len(shown):,} more</td></tr>"
    return f"<table><caption>Fields of {_text(schema.source)}</caption><tr><th>field</th><th>type</th></tr>{rows}</table>"


def _figures(dataset: "Dataset") -> Iterator[str]:
    for index, (key, sample) in enumerate(islice(dataset.items(), _SAMPLES)):
        image = next((picture for value in sample.values() if (picture := _image(value))), "")
        lines = [f"<b>{_text(_cut(key))}</b>"]
        for name, words in islice(_shown(bytes(dataset.raw(index)), _VALUE), _FIELDS):
            if name != "key" and not (image and isinstance(sample.get(name), (bytes, memoryview))):
                lines.append(f"<i>{_text(_cut(name))}</i> {_text(words)}")
        caption = "<br>".join(lines)
        style = "display:inline-block;vertical-align:top;margin:4px;max-width:200px"
        yield f"<figure style='{style}'>{image}<figcaption>{caption}</figcaption></figure>"


def _image(value: Any) -> str:
    """An element for an image; empty for anything else."""
    found = _picture(bytes(value)) if isinstance(value, (bytes, memoryview)) else None
    if found is None or found[0] not in _MEDIA:
        return ""
    media, data = found
    return f"<img alt='' style='max-width:192px' src='data:{media};base64,{b64encode(data).decode('ascii')}'>"


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE else text[: _VALUE - 1] + "…"
