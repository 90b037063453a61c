"""The IR: ops, types and attributes of every level, and their text."""

from . import lazy_formats as lazy_formats
