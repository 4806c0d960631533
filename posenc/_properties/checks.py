"""Checks of the encoding that is measured, and of the names by which a report is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from posenc._attention.encoding import Encoding


def require_values(encoding: Encoding) -> None:
    """An encoding on the meta device has no numbers to measure."""
    if any(x.is_meta for x in (*encoding.parameters(), *encoding.buffers())):
        raise ValueError(
            f"{type(encoding).__name__} is on the meta device and has no numbers: give it memory first, "
            f'such as encoding.to_empty(device="cpu"), and its parameters values'
        )


def require_tensor(encoding: Encoding, door: str, result: object, shape: tuple[int, ...], meaning: str) -> None:
    """A door returns a tensor of a known shape; `meaning` says in words what the shape is."""
    name = f"{type(encoding).__name__}.{door}"
    if not isinstance(result, Tensor):
        forgot = " (is its return missing?)" if result is None else ""
        raise TypeError(f"{name} returns {type(result).__name__}{forgot}: return a tensor {shape}, {meaning}")
    if tuple(result.shape) != shape:
        raise ValueError(f"{name} returns a tensor {tuple(result.shape)}: return {shape}, {meaning}")


def require_unchanged(encoding: Encoding, given: tuple[Tensor, ...], before: tuple[Tensor, ...]) -> None:
    """An encoding does not write into its input, since the residual stream is read again later."""
    if not all(torch.equal(new, old) for new, old in zip(given, before, strict=True)):
        raise ValueError(
            f"{type(encoding).__name__} writes into the tensor that it is given: make a new one, "
            f"x + p in place of x += p"
        )


def require_name(name: str, names: Iterable[str], noun: str) -> None:
    """A report or a comparison has an entry of this name."""
    if name not in names:
        raise KeyError(f"there is no {noun} {name!r}: use one of {', '.join(names)}")


def raise_unmeasurable(name: str, errors: list[tuple[str, str]]) -> NoReturn:
    """Raises the error for an encoding that runs with none of the sizes; `errors` are pairs (sizes, what happened)."""
    (sizes, first), others = errors[0], len(errors) - 1
    if others and len({error for _, error in errors}) == 1:
        raise ValueError(f"{name} cannot be run: it {first}; it does so with each of the sizes that were tried")
    more = f"; {others} other {'try' if others == 1 else 'tries'} failed too" if others else ""
    raise ValueError(
        f"{name} cannot be run: with {sizes} it {first}{more}: if sizes are the reason, pass those that it was made "
        f"for, such as properties(encoding, model_dim=64, heads=4, head_dim=16)"
    )
