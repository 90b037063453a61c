"""The error of code generation. Apart, so that loading cached code needs nothing else of the compiler."""

from ..dialects.user_error import LamellaError


class CodegenError(LamellaError):
    """Something that cannot become machine code, or be loaded; the message names the op, symbol or line of text."""


class MissingTriton(CodegenError):
    """Kernels for a GPU cannot be compiled here, as a package is missing; the message says which."""
