"""Calls of a model that leave the terminal, warnings and the random state as they were."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def quiet(printed: io.StringIO) -> Iterator[None]:
    """No gradients, no warnings, nothing printed but into `printed`, and the random state as before."""
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
        torch.random.fork_rng(devices=[]),
        torch.no_grad(),
    ):
        warnings.simplefilter("ignore")
        yield
