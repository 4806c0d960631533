"""Block masks: which blocks of queries and keys flex_attention has to look at."""

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc._attention.spans import shared_row, signed

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


@lru_cache(maxsize=64)
def span_blocks(
    ahead: int, first: int, queries: int, keys: int, causal: bool, window: int | None, sinks: int, device: str
) -> "BlockMask":  # fmt: skip
    """The block mask of two spans, which is the same whenever these numbers are: query 0 lies `ahead` of key 0."""
    from torch.nn.attention.flex_attention import create_block_mask

    shift = torch.tensor(
        ahead, device=device
    )  # a tensor, so that one program serves every number

    def mask_mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        distance = i + shift - j
        seen = distance >= 0 if causal else distance == distance
        if window is not None:
            seen = seen & ((distance.abs() < window) | (j < sinks - first))
        return seen

    return create_block_mask(mask_mod, None, None, queries, keys, device=device)


def causal_blocks(qpos: Tensor, kpos: Tensor, batch: int) -> "BlockMask":
    """The same of positions in any order, (L,) or (B, L), without a mask of all pairs."""
    from torch.nn.attention.flex_attention import create_block_mask

    qpos, kpos = (shared_row(signed(pos)) for pos in (qpos, kpos))
    lengths, device = (qpos.shape[-1], kpos.shape[-1]), str(qpos.device)
    if qpos.ndim == kpos.ndim == 1:
        return create_block_mask(
            lambda b, h, i, j: kpos[j] <= qpos[i], None, None, *lengths, device=device
        )
    rows, columns = qpos.expand(batch, -1), kpos.expand(batch, -1)
    return create_block_mask(
        lambda b, h, i, j: columns[b, j] <= rows[b, i],
        batch,
        None,
        *lengths,
        device=device,
    )


def mask_blocks(
    allowed: Tensor, lengths: tuple[int, int], batch: int, heads: int
) -> "BlockMask":
    """The same of a mask that broadcasts to (B, H, Lq, Lk)."""
    from torch.nn.attention.flex_attention import create_block_mask

    texts = allowed.shape[0] if allowed.ndim == 4 else 1
    layers = allowed.shape[-3] if allowed.ndim > 2 else 1
    wanted = allowed.expand(texts, layers, *lengths)

    def mask_mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return wanted[0 * b if texts == 1 else b, 0 * h if layers == 1 else h, i, j]

    return create_block_mask(
        mask_mod,
        None if texts == 1 else batch,
        None if layers == 1 else heads,
        *lengths,
        device=str(allowed.device),
    )
