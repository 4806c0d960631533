"""Exercises of the chapter on cost."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from posenc.exercises.attempt import Attempt, close, expect


class _Largest(TorchDispatchMode):
    """Notes the shape of the largest tensor that anything returns, views of a smaller one left aside."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0
        self.shape: tuple[int, ...] = ()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(x, Tensor) and x.untyped_storage().nbytes() // x.element_size() > self.size:
                self.size, self.shape = x.untyped_storage().nbytes() // x.element_size(), tuple(x.shape)
        return out


def _inputs(queries: int, keys: int, dim: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (torch.randn(n, dim, dtype=torch.float64) for n in (queries, keys, keys))
    return q, k, v


def _whole(q: Tensor, k: Tensor, v: Tensor, slope: float, qpos: Tensor, kpos: Tensor) -> Tensor:
    offset = kpos - qpos[:, None]
    score = (q @ k.T / q.shape[-1] ** 0.5 + slope * offset).masked_fill(offset > 0, -torch.inf)
    return score.softmax(-1).nan_to_num() @ v


def _same(blocks: Attempt, q: Tensor, k: Tensor, v: Tensor, qpos: Tensor, kpos: Tensor, block: int, words: str) -> None:
    answer = blocks.tensor(q, k, v, 0.25, qpos, kpos, block, shape=q.shape)
    error = (answer - _whole(q, k, v, 0.25, qpos, kpos)).abs().amax(-1)
    worst = int(error.argmax())
    told = f"{words}, blocks of {block}: query {worst} at position {int(qpos[worst])} is off by {error[worst]:.2g}"
    expect(close(error, 0.0), told)


def _one_block(blocks: Attempt) -> None:
    q, k, v = _inputs(20, 20)
    _same(blocks, q, k, v, torch.arange(20), torch.arange(20), 20, "20 tokens")


def _any_block(blocks: Attempt) -> None:
    q, k, v = _inputs(33, 33)
    for block in (1, 2, 5, 16, 32, 33, 64):
        _same(blocks, q, k, v, torch.arange(33), torch.arange(33), block, "33 tokens")


def _large(blocks: Attempt) -> None:
    q, k, v = _inputs(24, 24)
    _same(blocks, 300 * q, k, v, torch.arange(24), torch.arange(24), 4, "scores of several hundred")


def _placed(blocks: Attempt) -> None:
    q, k, v = _inputs(5, 40)
    _same(blocks, q, k, v, torch.arange(1035, 1040), torch.arange(1000, 1040), 8, "5 new tokens after 35 in a cache")
    order = torch.randperm(40)
    _same(blocks, q, k, v, torch.arange(1035, 1040), 1000 + order, 8, "keys stored in any order")


def _unseen(blocks: Attempt) -> None:
    q, k, v = _inputs(12, 12)
    _same(blocks, q, k, v, torch.arange(12), torch.arange(12).flip(0), 3, "keys stored backwards")
    _same(blocks, q, k, v, torch.arange(12), torch.arange(6, 18), 3, "six queries that see no key")


def _small(blocks: Attempt) -> None:
    q, k, v = _inputs(256, 256)
    pos = torch.arange(256)
    blocks.last = "256 tokens, blocks of 8"
    with _Largest() as largest:
        blocks(q, k, v, 0.25, pos, pos, 8)
    told = f"with 256 tokens of 8 dimensions and blocks of 8, a tensor of {largest.size:,} numbers was made"
    expect(largest.size <= 256 * 8, f"{told}, of shape {largest.shape}")


EXERCISES = {
    "cost_blocks": [
        ("in one block, it is causal attention with ALiBi's bias", _one_block),
        ("the size of a block changes nothing", _any_block),
        ("large scores do not overflow", _large),
        ("positions decide, not rows", _placed),
        ("a query that sees no key of a block, or none at all, gives no NaN", _unseen),
        ("no tensor is larger than the queries times a block", _small),
    ]
}
