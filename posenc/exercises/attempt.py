"""What invariants are written with: a function that is watched, and the exception that refutes it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from posenc._attention.call import attention
from posenc._attention.encoding import Encoding


class CounterExample(Exception):
    """Refutes an attempt; its text names arguments and what came of them."""


class Attempt:
    """A reader's function, or class: called as it is, it remembers its arguments and turns errors into evidence."""

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        own = getattr(function, "__name__", "")
        self.function = function
        self.name = name or (own if own.isidentifier() else "your function")
        self.last = ""
        """The last call, as one would write it."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        self._note(args, keywords)
        try:
            return self.function(*args, **keywords)
        except Exception as error:
            raise CounterExample(f"{self.last} raises {_error_line(error)}") from error

    def tensor(self, *args: Any, shape: Sequence[int] | None = None, **keywords: Any) -> Tensor:
        """A call that has to return finite numbers, of a shape if one is given -> float64, on the CPU."""
        return self.numbers(self(*args, **keywords), shape)

    def numbers(self, answer: Any, shape: Sequence[int] | None = None) -> Tensor:
        """What the last call returned, or a part of it, as `tensor` has it."""
        try:
            numbers = torch.as_tensor(answer).detach().cpu().double()
        except Exception as error:
            raise CounterExample(f"{self.last} returns {brief(answer)}, which is no tensor of numbers") from error
        if shape is not None and tuple(numbers.shape) != tuple(shape):
            has = f"the shape {tuple(numbers.shape)}" if numbers.ndim else "no shape, as a single number"
            raise CounterExample(f"{self.last} has {has}, and {tuple(shape)} is asked for")
        if not numbers.isfinite().all():
            raise CounterExample(f"{self.last} has an entry that is {_odd(numbers)}")
        return numbers

    def whole(self, *args: Any, shape: Sequence[int] | None = None, **keywords: Any) -> Tensor:
        """A call that has to return whole numbers -> int64."""
        answer = self.tensor(*args, shape=shape, **keywords)
        expect((answer == answer.round()).all(), f"{self.last} has an entry that is no whole number")
        return answer.long()

    def refuses(self, kind: type[Exception], *args: Any, **keywords: Any) -> None:
        """A call that has to raise."""
        self._note(args, keywords)
        try:
            answer = self.function(*args, **keywords)
        except kind:
            return
        except Exception as error:
            raise CounterExample(f"{self.last} raises {_error_line(error)}; a {kind.__name__} is asked for") from error
        raise CounterExample(f"{self.last} returns {brief(answer)}; a {kind.__name__} is asked for")

    def encoding(self, *args: Any, **keywords: Any) -> Encoding:
        """A call, of a class as a rule, that has to make an Encoding -> in float64, on the CPU."""
        made = self(*args, **keywords)
        expect(isinstance(made, Encoding), f"{self.last} is {brief(made)}; a subclass of Encoding is asked for")
        return made.to("cpu", torch.float64)

    def method(self, made: Any, name: str) -> Attempt:
        """A method of what the last call made, to be watched in turn."""
        method = getattr(made, name, None)
        if not callable(method):
            raise CounterExample(f"{self.last} has no method {name!r}")
        return Attempt(method, f"{self.last}.{name}")

    def attend(self, made: Encoding, q: Tensor, k: Tensor, v: Tensor, qpos: Tensor, kpos: Tensor, **o: Any) -> Tensor:
        """Attention with the encoding that the last call made; q and k are as projected."""
        return self._attended(made, q, k, v, qpos, kpos, o)[0]

    def weights(self, made: Encoding, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor, **o: Any) -> Tensor:
        """The weights of that attention."""
        return self._attended(made, q, k, k, qpos, kpos, o, weights=True)[1]

    def _attended(
        self,
        encoding: Encoding,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        qpos: Tensor,
        kpos: Tensor,
        options: dict[str, Any],
        weights: bool = False,
    ) -> tuple[Tensor, ...]:
        maker, given = self.last, "".join(f", {key}={brief(value)}" for key, value in options.items())
        self.last = f"attention with {maker}, queries at {_range(qpos)} and keys at {_range(kpos)}{given},"
        try:
            both: Any = attention(q, k, v, encoding, qpos, kpos, **options | {"return_weights": weights}, embedded=True)
        except Exception as error:
            raise CounterExample(f"{self.last} raises {_where(error, type(encoding))}{_error_line(error)}") from error
        outputs = tuple(self.numbers(each) for each in (both if weights else (both,)))
        self.last = maker
        return outputs

    def _note(self, args: Sequence[Any], keywords: dict[str, Any]) -> None:
        given = [brief(argument) for argument in args] + [f"{key}={brief(word)}" for key, word in keywords.items()]
        self.last = f"{self.name}({', '.join(given)})"


def expect(condition: bool | Tensor, counter_example: str) -> None:
    """Raises the counter-example unless the condition is true."""
    if not bool(condition):
        raise CounterExample(counter_example)


def close(answer: Tensor, expected: Tensor | float, atol: float = 1e-6) -> bool:
    """Whether two tensors are equal up to rounding."""
    return bool(torch.allclose(answer.double(), torch.as_tensor(expected).double(), rtol=atol, atol=atol))


def worst(answer: Tensor, expected: Tensor) -> tuple[int, ...]:
    """The index of the entry where two tensors differ most."""
    at = int((answer.double() - expected.double()).abs().argmax())
    return tuple(int(n) for n in torch.unravel_index(torch.tensor(at), answer.shape))


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers, always the same, in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def brief(value: Any) -> str:
    """A value as one would write it; what is long by its kind and size, and never an address."""
    if isinstance(value, Tensor):
        if value.numel() <= 6 and value.dim() <= 1:
            return f"tensor({[_round(entry) for entry in value.tolist()] if value.dim() else _round(value.item())})"
        return f"tensor<{'×'.join(map(str, value.shape))}>"
    if isinstance(value, float):
        return str(_round(value))
    text = repr(value)
    if len(text) <= 60 and "\n" not in text and not re.search(r"\b0x[0-9a-f]{4,}", text):
        return text
    if isinstance(value, list | tuple):
        return f"<{type(value).__name__} of {len(value)}>"
    name = getattr(value, "__name__", "")
    return name if name.isidentifier() else f"<{type(value).__name__}>"


def _error_line(error: Exception) -> str:
    """An error in one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _where(error: Exception, cls: type) -> str:
    """In which method of a reader's class it was raised, if in one."""
    place, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_qualname
        if name.startswith(f"{cls.__qualname__}.") and name != f"{cls.__qualname__}.__init__":
            place = f"in {name.replace('.<locals>', '')} "
        trace = trace.tb_next
    return place


def _range(pos: Tensor) -> str:
    return f"{int(pos.min())} to {int(pos.max())}" if pos.numel() > 1 else f"{int(pos)}"


def _round(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) and math.isfinite(value) else value


def _odd(numbers: Tensor) -> str:
    return "NaN" if numbers.isnan().any() else "infinite"
