"""M-RoPE: text, images and video in one sequence, with the frequencies of a text model."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from posenc import _check
from posenc.grid.place import grid_coordinates
from posenc.grid.rope import GridRoPE
from posenc.sinusoidal import frequencies


def mrope_positions(spans: Sequence[int | Sequence[int]], *, device: torch.device | None = None) -> Tensor:
    """Text runs along the diagonal t = h = w, and an image is a box with one corner on it.

    A span is the number of tokens of a text, or the (t, h, w) of an image or video in tokens; it
    starts one after the largest coordinate so far. Returns (L, 3), whole numbers. A last span of
    text holds what will be generated; torch.nn.utils.rnn.pad_sequence makes a batch of several.
    Raises ValueError if a span is neither. Wang et al. (2024), section 2.1.
    """
    start, parts = 0, [torch.empty(0, 3, dtype=torch.long, device=device)]
    for span in spans:
        _check.span(span)
        if isinstance(span, int):
            coords, extent = torch.arange(span, device=device)[:, None].expand(-1, 3), span
        else:
            coords, extent = grid_coordinates(torch.arange(math.prod(span), device=device), span), max(span)
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
    device: torch.device | None = None,
) -> Tensor:
    """The frequencies of a text model, each given to one axis, so that text (t = h = w) turns as before.

    Axis a owns sections[a] pairs -> (n, head_dim/2), θ_t = base^(-2t/head_dim) in the owner's row and
    0 in the others. Time owns the fastest 16, then height and width 24 each (Qwen2-VL: Wang et al.,
    2024, section 2.1), or `interleaved` the axes take turns and time has what is left over (Qwen3-VL,
    sections (24, 20, 20)). Raises ValueError if the sections are not head_dim/2 in all.
    """
    _check.sections(head_dim, sections, interleaved)
    axes = len(sections)
    owner = [axis for axis, size in enumerate(sections) for _ in range(size)]
    if interleaved:
        owner = [0] * (head_dim // 2)
        for axis in range(1, axes):
            owner[axis : axes * sections[axis] : axes] = [axis] * sections[axis]
    freq = frequencies(head_dim, base, dtype=dtype, device=device)
    owns = torch.tensor(owner, device=freq.device) == torch.arange(axes, device=freq.device)[:, None]
    return owns * freq  # (n, d/2)


class MRoPE(GridRoPE):
    """A text model's own frequencies, shared out to time, rows and columns: for text it stays what it was.

    `coordinates` is mostly mrope_positions of the sequence, and is assigned anew for another one.
    Qwen2-VL has these defaults and layout "half".
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
        layout: str = "interleaved",
    ) -> None:
        start = partial(mrope_frequencies, head_dim, tuple(sections), base, interleaved=interleaved)
        super().__init__(head_dim, shape, coordinates=coordinates, freq=start(), layout=layout)
        self.start = start
