"""Packed messages, with arrays of NumPy.

Messages are packed and decoded by kiste. Calls with options of the package msgpack need that package,
and msgpack_numpy.
"""

from typing import IO, Any

import pykiste as ki


def _of_msgpack(kwargs: dict[str, Any], packing: bool) -> tuple[Any, dict[str, Any]]:
    """The package msgpack, and options with which it handles arrays of NumPy."""
    import msgpack
    import msgpack_numpy

    if packing:
        return msgpack, {"default": msgpack_numpy.encode} | kwargs
    return msgpack, {"strict_map_key": False, "object_hook": msgpack_numpy.decode} | kwargs


def packb(o: Any, **kwargs: Any) -> bytes:
    """Packs an object into bytes."""
    if not kwargs:
        return ki.pack(o)
    msgpack, options = _of_msgpack(kwargs, packing=True)
    return msgpack.packb(o, **options)


def pack(o: Any, stream: IO[bytes], **kwargs: Any) -> None:
    """Packs an object into a file."""
    stream.write(packb(o, **kwargs))


def unpackb(packed: Any, **kwargs: Any) -> Any:
    """Decodes one message."""
    if not kwargs:
        return ki.unpack(packed if isinstance(packed, bytes) else bytes(memoryview(packed)))
    msgpack, options = _of_msgpack(kwargs, packing=False)
    return msgpack.unpackb(packed, **options)


def unpack(stream: IO[bytes], **kwargs: Any) -> Any:
    """Decodes a file with one message."""
    return unpackb(stream.read(), **kwargs)


class _Packer:
    def pack(self, obj: Any) -> bytes:
        return ki.pack(obj)


def make_packer(**kwargs: Any) -> Any:
    """An object with a method `pack`: with options, a `msgpack.Packer`."""
    if not kwargs:
        return _Packer()
    msgpack, options = _of_msgpack(kwargs, packing=True)
    return msgpack.Packer(**options)


def make_unpacker(*args: Any, **kwargs: Any) -> Any:
    """A `msgpack.Unpacker`."""
    msgpack, options = _of_msgpack(kwargs, packing=False)
    return msgpack.Unpacker(*args, **options)
