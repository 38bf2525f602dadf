"""`cached_property` of the standard library, under the name that datadings has for it."""

from functools import cached_property

__all__ = ["cached_property"]
