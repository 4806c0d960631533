"""What invariants are written with: a function that is watched, and the exception that refutes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class CounterExample(Exception):
    """Refutes an attempt; its text names arguments and what came of them."""


class Attempt:
    """A reader's function, or class: called as it is, it remembers its arguments and turns errors into evidence."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", "your function")
        self.last = ""
        """The last call, as one would write it."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        given = [brief(argument) for argument in args] + [f"{key}={brief(word)}" for key, word in keywords.items()]
        self.last = f"{self.name}({', '.join(given)})"
        try:
            return self.function(*args, **keywords)
        except Exception as error:
            raise CounterExample(f"{self.last} raises {type(error).__name__}: {error}") from error

    def tensor(self, *args: Any, shape: Sequence[int] | None = None, **keywords: Any) -> Tensor:
        """A call that has to return finite numbers, of a shape if one is given -> float64, on the CPU."""
        found = self(*args, **keywords)
        try:
            found = torch.as_tensor(found).detach().cpu().double()
        except Exception as error:
            raise CounterExample(f"{self.last} returns {brief(found)}, which is no tensor of numbers") from error
        if shape is not None and tuple(found.shape) != tuple(shape):
            raise CounterExample(f"{self.last} has the shape {tuple(found.shape)}, and {tuple(shape)} is asked for")
        if not found.isfinite().all():
            raise CounterExample(f"{self.last} has an entry that is {_odd(found)}")
        return found


def expect(condition: bool | Tensor, counter_example: str) -> None:
    """Raises the counter-example unless the condition is true."""
    if not bool(condition):
        raise CounterExample(counter_example)


def close(found: Tensor, expected: Tensor | float, atol: float = 1e-6) -> bool:
    """Whether two tensors are equal up to rounding."""
    return bool(torch.allclose(found.double(), torch.as_tensor(expected).double(), rtol=atol, atol=atol))


def brief(value: Any) -> str:
    """A value as one would write it; a long tensor by its shape."""
    if isinstance(value, Tensor):
        if value.numel() <= 6 and value.dim() <= 1:
            return f"tensor({[_round(entry) for entry in value.tolist()] if value.dim() else _round(value.item())})"
        return f"<tensor {tuple(value.shape)}>"
    if isinstance(value, float):
        return str(_round(value))
    text = repr(value)
    return text if len(text) <= 60 else f"<{type(value).__name__}>"


def _round(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) and math.isfinite(value) else value


def _odd(found: Tensor) -> str:
    return "NaN" if found.isnan().any() else "infinite"
