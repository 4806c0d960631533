"""M-RoPE: text, images and video in one sequence, with the frequencies of a text model."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from posenc._require import require_even
from posenc.schemes.grid.place import grid_coordinates
from posenc.schemes.grid.rope import GridRoPE
from posenc.schemes.layout import Layout
from posenc.schemes.sinusoidal import frequencies


def mrope_positions(
    spans: Sequence[int | Sequence[int]],
    *,
    device: torch.device | str | None = None,
) -> Tensor:
    """Text runs along the diagonal t = h = w, an image is a box with a corner on it.

    Each span starts one after the largest coordinate so far. A last span of text can
    hold the tokens that will be generated. `torch.nn.utils.rnn.pad_sequence` makes a
    batch of several.

    Args:
        spans: For text its number of tokens, for an image or video its (t, h, w) in
            tokens.
        device: Of the result.

    Returns:
        Coordinates, (L, 3), int64.

    Raises:
        ValueError: If a span is neither.

    Example:
        >>> mrope_positions([2, (1, 2, 2), 1]).tolist()
        [[0, 0, 0], [1, 1, 1], [2, 2, 2], [2, 2, 3], [2, 3, 2], [2, 3, 3], [4, 4, 4]]

    References:
        Wang et al. (2024), section 2.1.
    """
    start, parts = 0, [torch.empty(0, 3, dtype=torch.long, device=device)]
    for span in spans:
        _check_span(span)
        if isinstance(span, int):
            tokens = torch.arange(span, device=device)
            coords, extent = tokens[:, None].expand(-1, 3), span
        else:
            tokens = torch.arange(math.prod(span), device=device)
            coords, extent = grid_coordinates(tokens, span), max(span)
        parts.append(start + coords)
        start += extent
    return torch.cat(parts)  # (L, 3)


def mrope_frequencies(
    head_dim: int,
    sections: Sequence[int] = (16, 24, 24),
    base: float | Tensor = 1_000_000.0,
    *,
    interleaved: bool = False,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """The frequencies of a text model, each given to one axis.

    Text, where t = h = w, rotates as before. The frequency θ_t = base^(-2t/head_dim)
    stands in the row of the axis that owns pair t. The other rows have 0 there.

    Args:
        head_dim: Channels of a head, d, positive and even.
        sections: How many pairs each axis owns, d/2 in all: time, height, width.
        base: b, positive. A tensor is differentiable; its value is not checked.
        interleaved: False: time owns the fastest pairs, then height and width follow
            (Qwen2-VL). True: the axes take turns, and time owns the pairs left over
            (Qwen3-VL, with sections (24, 20, 20)).
        dtype, device: Of the result.

    Returns:
        The frequencies, (n, d/2), in radians per step along each axis.

    Raises:
        ValueError: If the sections do not add up to d/2.

    Example:
        >>> mrope_frequencies(8, (2, 1, 1), 10_000.0)
        tensor([[1.0000, 0.1000, 0.0000, 0.0000],
                [0.0000, 0.0000, 0.0100, 0.0000],
                [0.0000, 0.0000, 0.0000, 0.0010]])

    References:
        Wang et al. (2024), section 2.1.
    """
    _check_sections(head_dim, sections, interleaved)
    axes = len(sections)
    owner = [axis for axis, size in enumerate(sections) for _ in range(size)]
    if interleaved:
        owner = [0] * (head_dim // 2)
        for axis in range(1, axes):
            owner[axis : axes * sections[axis] : axes] = [axis] * sections[axis]
    freq = frequencies(head_dim, base, dtype=dtype, device=device)
    rows = torch.arange(axes, device=freq.device)[:, None]
    owns = torch.tensor(owner, device=freq.device) == rows
    return owns * freq  # (n, d/2)


class MRoPE(GridRoPE):
    """A text model's own frequencies, shared out to time, rows and columns.

    For text it stays what it was. The defaults are those of Qwen2-VL, whose weights
    have the layout "half".

    Args:
        head_dim: Channels of a head, d, positive and even.
        sections: How many pairs time, height and width own, d/2 in all.
        base: b of the text model.
        interleaved: Whether the axes take turns, as in `mrope_frequencies`.
        shape: The sizes (T, H, W) of a video, unless coordinates are given.
        coordinates: A table (N, 3) or (B, N, 3), mostly `mrope_positions` of the
            sequence, or a function from pos to (..., L, 3). Assign another table for
            the next sequence.
        layout: A pair is channels 2t and 2t+1 ("interleaved"), or t and t + d/2
            ("half").
        device, dtype: As `.to(device, dtype)` afterwards: frequencies and tables stay
            in float32.

    Raises:
        ValueError: If the sections do not add up to d/2, or another argument does not
            fit.

    Example:
        >>> rope = MRoPE(coordinates=mrope_positions([3, (1, 2, 2)]), layout="half")
        >>> rope.query(torch.randn(1, 8, 7, 128), torch.arange(7)).shape
        torch.Size([1, 8, 7, 128])

    References:
        Wang et al. (2024), section 2.1.
    """

    def __init__(
        self,
        head_dim: int = 128,
        sections: Sequence[int] = (16, 24, 24),
        base: float = 1_000_000.0,
        *,
        interleaved: bool = False,
        shape: Sequence[int] | None = None,
        coordinates: Tensor | Callable[[Tensor], Tensor] | None = None,
        layout: Layout = "interleaved",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        sections = tuple(sections)
        own = head_dim, sections, base
        make = partial(mrope_frequencies, *own, interleaved=interleaved)
        super().__init__(
            head_dim,
            shape,
            base,
            coordinates=coordinates,
            freq=make(device=device),
            layout=layout,
            device=device,
            dtype=dtype,
        )
        self.default_frequencies = make
        self.sections, self.interleaved = sections, interleaved

    def extra_repr(self) -> str:
        turns = ", interleaved=True" if self.interleaved else ""
        return f"{super().extra_repr()}, sections={self.sections}{turns}"


# Checks of input


def _check_span(value: int | Sequence[int]) -> None:
    """A span is a number of tokens of text, or the three sizes of a box of tokens."""
    text = isinstance(value, int) and value >= 0
    box = (
        isinstance(value, tuple | list)
        and len(value) == 3
        and all(isinstance(n, int) and n > 0 for n in value)
    )
    if not text and not box:
        raise ValueError(
            f"a span is {value!r}: use the number of tokens of a text, or the sizes (t, h, w) of an image or video "
            f"in tokens, such as (1, 16, 16); for sizes in a tensor use its .tolist()"
        )


def _check_sections(head_dim: int, sizes: Sequence[int], interleaved: bool) -> None:
    """Sections share out all pairs of a head, and if they are interleaved the pairs do not run out."""
    require_even(head_dim, "head_dim")
    pairs, axes = head_dim // 2, max(1, len(sizes))
    even = (pairs - (axes - 1) * (pairs // axes), *[pairs // axes] * (axes - 1))
    if sum(sizes) != pairs or min(sizes) < 0:
        raise ValueError(
            f"sections are {tuple(sizes)}, but head_dim={head_dim} has {pairs} pairs to share out: "
            f"use sizes that add up to it, such as {even}"
        )
    if interleaved and any(
        size and axes * (size - 1) + axis >= pairs
        for axis, size in enumerate(sizes)
        if axis
    ):
        raise ValueError(
            f"sections are {tuple(sizes)}, but an interleaved axis other than the first gets every {axes}th of "
            f"{pairs} pairs at most: use smaller sizes after the first, such as {even}"
        )
