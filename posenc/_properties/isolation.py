"""Measurements leave no trace: the global state of torch is the same before and after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch


@contextmanager
def undisturbed() -> Iterator[None]:
    """Runs a block on the CPU, without gradients and with torch's generator seeded by 0; restores all three."""
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(torch.no_grad())
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        torch.default_generator.manual_seed(0)
        yield
