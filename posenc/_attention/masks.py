"""Which query sees which key: by causality, a window, padding, and masks of people's own."""

from functools import reduce
from operator import and_
from typing import Any, Literal

import torch
from torch import Tensor

from posenc._attention.spans import (
    Positions,
    Span,
    readable,
    rise_together,
    shared_row,
    signed,
)
from posenc._require import require_tensor

Pattern = Literal["all", "triangle", "lower right", "mask"]


def sliding_window(qpos: Tensor, kpos: Tensor, window: int, sinks: int = 0) -> Tensor:
    """The mask of a window: a query sees keys less than `window` positions away, and the first `sinks`.

    Args:
        qpos: (Lq,) or (B, Lq).
        kpos: (Lk,) or (B, Lk).
        window: In positions, 1 or more. With causality a query sees `window` keys, itself included.
        sinks: Keys at positions below this stay in sight. Default: 0.

    Returns:
        The `mask` of `attention`, bool, (Lq, Lk), or (B, 1, Lq, Lk) if positions are batched.

    Raises:
        ValueError: If window is below 1, or sinks below 0.

    Example:
        >>> from posenc import sliding_window
        >>> sliding_window(torch.arange(4), torch.arange(4), 2).tril().int()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [0, 1, 1, 0],
                [0, 0, 1, 1]], dtype=torch.int32)
    """
    check_window(window, sinks)
    near = (qpos[..., :, None] - kpos[..., None, :]).abs() < window  # (…, Lq, Lk)
    near = near | (kpos < sinks)[..., None, :]
    return near if near.ndim == 2 else near[:, None]


def pattern_of(
    queries: Positions, keys: Positions, causal: bool, window: int | None
) -> Pattern:
    """Which query sees which key, in a word, where nothing hides keys but causality and a window."""
    if not (isinstance(queries, Span) and isinstance(keys, Span)):
        if window is not None:
            return "mask"
        if not causal:
            return "all"
        return "triangle" if rise_together(queries, keys) else "mask"
    if window is not None and not _in_sight(queries, keys, causal, window):
        return "mask"
    if not causal:
        return "all"
    if queries.start == keys.start and queries.length == keys.length:
        return "triangle"
    if keys.end <= queries.start + 1:
        return "all"
    last = queries.end == keys.end and queries.length < keys.length
    return "lower right" if last else "mask"


def _in_sight(queries: Span, keys: Span, causal: bool, window: int) -> bool:
    """Whether the window hides nothing that causality would show."""
    near = queries.end - 1 - keys.start < window
    return near if causal else near and keys.end - 1 - queries.start < window


def allowed_mask(
    qpos: Tensor, kpos: Tensor, held: Tensor | None, *, causal: bool, mask: Tensor | None, window: int | None,
    sinks: int, padded: bool,
) -> Tensor | None:  # fmt: skip
    """Where a query may attend: bool, which broadcasts to (B, H, Lq, Lk); None is everywhere.

    Args:
        qpos: Positions of the queries, (L,) or (B, L).
        kpos: Positions of the keys, the same way.
        held: The same with padding at -1; needed with a window or padding.
        causal: Whether keys after a query are hidden.
        mask: What else is hidden.
        window: As for `sliding_window`, or None.
        sinks: As for `sliding_window`.
        padded: Whether keys at -1 are hidden.
    """
    masks = [] if mask is None else [mask if mask.ndim > 1 else mask[None]]
    qpos, kpos = (shared_row(signed(pos)) for pos in (qpos, kpos))
    if causal:
        past = kpos[..., None, :] <= qpos[..., :, None]  # (Lq, Lk), or (B, Lq, Lk)
        masks.append(past if past.ndim == 2 else past[:, None])
    if held is not None:
        held = signed(held)
    if window is not None and held is not None:
        masks.append(sliding_window(qpos, shared_row(held), window, sinks))
    if padded and held is not None:
        real = held >= 0
        # (1, Lk), or (B, 1, 1, Lk)
        masks.append(real[None] if real.ndim == 1 else real[:, None, None])
    return reduce(and_, masks) if masks else None


def open_mask(allowed: Tensor) -> tuple[Tensor, Tensor | None]:
    """A mask in which every query sees a key, and which of them see none in fact, or None if there are none."""
    blind = ~allowed.any(-1, keepdim=True)
    if readable(blind):
        try:
            if not blind.any():
                return allowed, None
        except RuntimeError:  # under torch.func.vmap there is no one answer
            pass
    return allowed | blind, blind


# ---- checks of input -------------------------------------------------------------------------------------------------


def check_window(value: int | None, sinks: int) -> None:
    """A window holds at least the token itself."""
    if value is not None and value < 1:
        raise ValueError(
            f"window is {value}, but a token sees itself: use 1 or more, or None for all tokens"
        )
    if sinks < 0:
        raise ValueError(
            f"sinks is {sinks}: use the number of first tokens to keep, 0 for none"
        )


def check_mask_kind(name: str, mask: Any) -> None:
    """A mask is a bool tensor."""
    if mask is None:
        return
    require_tensor(mask, name, "use a bool tensor; causality alone is causal=True")
    if mask.dtype != torch.bool:
        raise ValueError(
            f"{name} is {mask.dtype}, but it says where a query may attend: use a bool mask, such as mask == 0 "
            f"for one that is added to the scores; what is added to scores is an encoding's score_bias"
        )
