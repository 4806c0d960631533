"""One layer of attention with random projections, around the encoding that is measured."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from posenc._attention.call import attend
from posenc._attention.encoding import Encoding
from posenc._attention.scores import attention_scores

FURTHEST = 1_000_000  # the last position that is tried


class Probe:
    """One layer of attention around an encoding, with random projections and tokens."""

    def __init__(self, encoding: Encoding, model_dim: int, heads: int, head_dim: int, length: int, dtype: torch.dtype):
        self.original, self.dtype, self.length = encoding, dtype, length
        self.last_position = length - 1  # the last one that the encoding serves, at most FURTHEST
        self.model_dim, self.heads, self.head_dim = model_dim, heads, head_dim
        self.beyond_last = ""  # what happens at the position after the last one, in words
        self.nonfinite = ""  # the first number that is not finite at an early position, in words
        self.randomised: list[str] = []
        self.backend_outputs: dict[str, Tensor | str] = {}  # of each backend, or why there is none
        self.encoding = copy.deepcopy(encoding)
        self.tolerance = 1e-6 if dtype == torch.float64 else 1e-4  # of the spread: no more than rounding

    @cached_property
    def projection(self) -> Tensor:
        """The weights of q, k and v, (3, H, d, D); drawn once there is an encoding that can be run."""
        return self.random(3, self.heads, self.head_dim, self.model_dim) * self.model_dim**-0.5

    def sizes(self) -> str:
        return f"model_dim={self.model_dim}, heads={self.heads}, head_dim={self.head_dim}, length={self.length}"

    def fresh(self) -> Probe:
        """The same probe with another copy of the encoding, since an encoding may keep a state."""
        other = copy.copy(self)
        other.encoding = copy.deepcopy(self.encoding)
        return other

    def random(self, *shape: int, seed: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(self.dtype)

    def tokens(self, count: int) -> Tensor:
        return self.random(count, self.model_dim, seed=1)  # (count, D)

    def project(self, x: Tensor) -> Tensor:
        """Random projections of x (B, L, D). Returns q, k and v in one tensor, (3, B, H, L, d)."""
        return torch.einsum("bld,phcd->pbhlc", x, self.projection)

    def qkv(self, x: Tensor, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v (B, H, L, d) of x (B, L, D), through `embed`, `query` and `key`."""
        q, k, v = self.project(self.encoding.embed(x, pos))
        return self.encoding.query(q, pos), self.encoding.key(k, pos), v

    def qkv_of_repeats(self, tokens: Tensor, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same for sequences that repeat one of tokens (C, D); each is projected once if `embed` is not open."""
        if "embed" in self.encoding.doors:
            return self.qkv(repeated(tokens, pos), pos)
        q, k, v = self.project(tokens[:, None]).expand(-1, -1, -1, len(pos), -1)
        return self.encoding.query(q, pos), self.encoding.key(k, pos), v

    def layer(self, x: Tensor, pos: Tensor, **options: Any) -> Tensor:
        """The output of attention, (B, H, L, d), for x (B, L, D)."""
        options = {"backend": "dense"} | options  # which hides no infinity
        return attend(*self.qkv(x, pos), self.encoding, pos, pos, **options)

    def scores(self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
        """s_ij, (B, H, Lq, Lk)."""
        return attention_scores(q, k, self.encoding, qpos, kpos)

    def all_scores(self, tokens: Tensor, pos: Tensor) -> Tensor:
        """Scores (C, H, L, L) of sequences that repeat one of tokens (C, D)."""
        q, k, _ = self.qkv_of_repeats(tokens, pos)
        return self.scores(q, k, pos, pos)

    def scores_and_values(self, tokens: Tensor, pos: Tensor, at: int) -> tuple[Tensor, Tensor]:
        """Scores (C, H, L) and values (L, H, d) of all keys for the query at index `at`, all tokens being the same."""
        q, k, v = self.qkv_of_repeats(tokens, pos)
        q, qpos = q[:, :, at : at + 1], pos[at : at + 1]
        score = self.scores(q, k, qpos, pos)[:, :, 0]  # (C, H, L)
        return score, self.values(v[:1], qpos, pos)

    def values(self, v: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
        """Values z_ij (L, H, d) for one query position: of L copies of the query, each attends to one key alone."""
        if self.encoding.mix is None:
            return v[0].transpose(0, 1)
        n = len(kpos)
        alone = torch.eye(n, dtype=v.dtype).expand(1, v.shape[1], n, n)
        z: Tensor = self.encoding.mix(alone, v, qpos.expand(1, n), kpos[None])  # (1, H, L, d)
        return z[0].transpose(0, 1)

    def query_index(self, n: int) -> int:
        """The index of the query among n keys: in the middle, or last if the encoding serves only the past."""
        return n - 1 if self.encoding.causal_only else n // 2


def repeated(tokens: Tensor, pos: Tensor) -> Tensor:
    """Sequences (C, L, D) that repeat one of tokens (C, D)."""
    return tokens[:, None].expand(-1, len(pos), -1)
