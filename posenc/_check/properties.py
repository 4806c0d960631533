"""What is measured, and what a report holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from posenc.encoding import Encoding


def has_memory(encoding: Encoding) -> None:
    """What is measured has numbers."""
    if any(x.is_meta for x in (*encoding.parameters(), *encoding.buffers())):
        raise ValueError(
            f"{type(encoding).__name__} is on the meta device and has no numbers: give it memory first, "
            f'such as encoding.to_empty(device="cpu"), and its parameters values'
        )


def returned(encoding: Encoding, door: str, found: object, shape: tuple[int, ...], given: str) -> None:
    """What a door returns is a tensor, with a place for each that it was given."""
    name = f"{type(encoding).__name__}.{door}"
    if not isinstance(found, Tensor):
        forgot = " (is its return missing?)" if found is None else ""
        raise TypeError(f"{name} returns {type(found).__name__}{forgot}: return a tensor {shape}, {given}")
    if tuple(found.shape) != shape:
        raise ValueError(f"{name} returns a tensor {tuple(found.shape)}: return {shape}, {given}")


def untouched(encoding: Encoding, given: tuple[Tensor, ...], before: tuple[Tensor, ...]) -> None:
    """A residual stream is read again after an encoding has seen it."""
    if not all(torch.equal(new, old) for new, old in zip(given, before, strict=True)):
        raise ValueError(
            f"{type(encoding).__name__} writes into the tensor that it is given: make a new one, "
            f"x + p in place of x += p"
        )


def unmeasured(name: str, errors: list[tuple[str, str]]) -> ValueError:
    """An encoding is measured with the sizes that it was made for."""
    (sizes, first), others = errors[0], len(errors) - 1
    if others and len({error for _, error in errors}) == 1:
        return ValueError(f"{name} cannot be run: it {first}; it does so with each of the sizes that were tried")
    more = f"; {others} other {'try' if others == 1 else 'tries'} failed too" if others else ""
    return ValueError(
        f"{name} cannot be run: with {sizes} it {first}{more}: if sizes are the reason, pass those that it was made "
        f"for, such as properties(encoding, model_dim=64, heads=4, head_dim=16)"
    )


def one_of(name: str, names: Iterable[str], noun: str) -> None:
    if name not in names:
        raise KeyError(f"there is no {noun} {name!r}: use one of {', '.join(names)}")
