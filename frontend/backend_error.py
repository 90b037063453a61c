"""A user's error on its way through TorchDynamo."""

from __future__ import annotations

import inspect

from torch._dynamo.exc import BackendCompilerFailed

from ..dialects.user_error import LamellaError
from .options import OptionError


class BackendOptionError(OptionError, BackendCompilerFailed):
    """What is wrong with an option or setting, in one line. TorchDynamo lets it through as it is, without the frames
    between the user's and the one that raises; it would make another, longer error of any that is not of this class.
    """

    def __init__(self, error: LamellaError) -> None:
        Exception.__init__(self, str(error))
        here = inspect.currentframe()
        self.inner_exception = error
        self.backend_name = "lamella"
        self.first_useful_frame = here and here.f_back

    def __str__(self) -> str:
        return str(self.inner_exception)  # TorchDynamo adds to the arguments
