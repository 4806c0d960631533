"""One layer of attention with random projections, around the encoding that is measured."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from posenc.attention import attend, attention_scores
from posenc.encoding import Encoding

TRIED = 1_000_000  # the furthest position that has to be served


class Probe:
    """One layer of attention around an encoding, with random projections and tokens."""

    def __init__(self, encoding: Encoding, model_dim: int, heads: int, head_dim: int, length: int, dtype: torch.dtype):
        self.original, self.dtype, self.length, self.last = encoding, dtype, length, length - 1
        self.model_dim, self.heads, self.head_dim = model_dim, heads, head_dim
        self.problem = ""  # what happens at position last + 1
        self.odd = ""  # where numbers are not finite, if that is near
        self.randomised: list[str] = []
        self.outputs: dict[str, Tensor | str] = {}  # of each backend, or why there is none
        self.encoding = copy.deepcopy(encoding)
        self.same = 1e-6 if dtype == torch.float64 else 1e-4  # of the spread: no more than rounding
        self.project = self.random(3, heads, head_dim, model_dim) * model_dim**-0.5

    def sizes(self) -> str:
        return f"model_dim={self.model_dim}, heads={self.heads}, head_dim={self.head_dim}, length={self.length}"

    def fresh(self) -> Probe:
        """The same with another copy, since an encoding may keep a state."""
        other = copy.copy(self)
        other.encoding = copy.deepcopy(self.encoding)
        return other

    def random(self, *shape: int, seed: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(self.dtype)

    def tokens(self, count: int, seed: int = 1) -> Tensor:
        return self.random(count, self.model_dim, seed=seed)  # (count, D)

    def projected(self, x: Tensor) -> Tensor:
        """(B, L, D) -> q, k and v in one, (3, B, H, L, d)"""
        return torch.einsum("bld,phcd->pbhlc", x, self.project)

    def turned(self, x: Tensor, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v (B, H, L, d) of x (B, L, D), through `embed`, `query` and `key`."""
        q, k, v = self.projected(self.encoding.embed(x, pos))
        return self.encoding.query(q, pos), self.encoding.key(k, pos), v

    def alike(self, tokens: Tensor, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same for sequences of one token each, (C, D); they are projected once if `embed` leaves them alone."""
        if "embed" in self.encoding.doors:
            return self.turned(everywhere(tokens, pos), pos)
        q, k, v = self.projected(tokens[:, None]).expand(-1, -1, -1, len(pos), -1)
        return self.encoding.query(q, pos), self.encoding.key(k, pos), v

    def layer(self, x: Tensor, pos: Tensor, **options: Any) -> Tensor:
        """x (B, L, D) -> (B, H, L, d)"""
        return attend(*self.turned(x, pos), self.encoding, pos, pos, **options)

    def scores(self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
        """s_ij, (B, H, Lq, Lk)."""
        return attention_scores(q, k, self.encoding, qpos, kpos)

    def all_scores(self, tokens: Tensor, pos: Tensor) -> Tensor:
        """(C, H, L, L), if all tokens of a sequence are the same: tokens (C, D)"""
        q, k, _ = self.alike(tokens, pos)
        return self.scores(q, k, pos, pos)

    def seen(self, tokens: Tensor, pos: Tensor, at: int) -> tuple[Tensor, Tensor]:
        """What the query number `at` finds in each key, if all tokens are the same: s (C, H, L) and z (L, H, d)."""
        q, k, v = self.alike(tokens, pos)
        q, qpos = q[:, :, at : at + 1], pos[at : at + 1]
        score = self.scores(q, k, qpos, pos)[:, :, 0]  # (C, H, L)
        return score, self.values(v[:1], qpos, pos)

    def values(self, v: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
        """z_ij (L, H, d) for one query position: as many queries there, each of which attends to one key alone."""
        if self.encoding.mix is None:
            return v[0].transpose(0, 1)
        n = len(kpos)
        alone = torch.eye(n, dtype=v.dtype).expand(1, v.shape[1], n, n)
        z: Tensor = self.encoding.mix(alone, v, qpos.expand(1, n), kpos[None])  # (1, H, L, d)
        return z[0].transpose(0, 1)

    def at(self, n: int) -> int:
        """The query looks at keys on both sides, unless the encoding is made for the past."""
        return n - 1 if self.encoding.causal_only else n // 2


def everywhere(tokens: Tensor, pos: Tensor) -> Tensor:
    """Sequences of one token each: (C, D) -> (C, L, D)."""
    return tokens[:, None].expand(-1, len(pos), -1)
