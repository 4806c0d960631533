"""What is measured, and what a report holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def unmeasured(name: str, errors: list[str]) -> ValueError:
    """An encoding is measured with the sizes that it was made for."""
    first, *others = errors
    more = f"; {len(others)} other {'try' if len(others) == 1 else 'tries'} failed too"
    return ValueError(
        f"{name} cannot be run: with {first}{more}: pass the sizes that it was made for, such as "
        f"properties(encoding, model_dim=64, heads=4, head_dim=16)"
    )


def one_of(name: str, names: Iterable[str], noun: str) -> None:
    if name not in names:
        raise KeyError(f"there is no {noun} {name!r}: use one of {', '.join(names)}")
