"""The base of all errors that are a user's to mend; apart, as compiled graphs are loaded without any IR."""


class LamellaError(Exception):
    """Base of every error that a user can cause. `str(error)` is the whole message; it never needs a traceback."""
