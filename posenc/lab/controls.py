"""Encodings that differ from a scheme in one thing, so that a difference between two models has one cause."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, silu

from posenc._attention.encoding import Encoding
from posenc.schemes.distance_aware import DistanceAware, distance_weight
from posenc.schemes.learned import Learned
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoidal import frequencies


class Unrectified(DistanceAware):
    """Distance-aware attention without its ReLU: s_ij ← s_ij · R̂(|i - j|)."""

    def rescale(self, qpos: Tensor, kpos: Tensor) -> Callable[..., Tensor]:
        def f(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return s * distance_weight((qpos[b, i] - kpos[b, j]).abs(), self.w[h], self.v[h])

        return f


class Added(DistanceAware):
    """Distance-aware attention with a sum in place of the product: s_ij ← max(s_ij, 0) + a_h R̂(|i - j|)."""

    def __init__(self, heads: int) -> None:
        super().__init__(heads)
        self.a = nn.Parameter(torch.ones(heads))

    def rescale(self, qpos: Tensor, kpos: Tensor) -> Callable[..., Tensor]:
        def f(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return s.relu() + self.a[h] * distance_weight((qpos[b, i] - kpos[b, j]).abs(), self.w[h], self.v[h])

        return f


class Forgetting(Encoding):
    """The forgetting transformer (Lin et al., 2025): a key's weight is multiplied by the gates of all tokens after it.

    A gate is made from the key of its token, since an encoding sees keys and not the stream. Gates start between
    σ(0) and σ(6), so that heads begin with different horizons.
    """

    causal_only = True

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(heads, head_dim))
        self.shift = nn.Parameter(torch.linspace(0, 6, heads))

    def score_bias(self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
        log_gate = logsigmoid((k * self.gate[:, None]).sum(-1) + self.shift[:, None])  # (B, H, Lk)
        until_query, until_key = (
            log_gate @ (kpos[:, None] <= pos[:, :, None]).to(log_gate.dtype).mT for pos in (qpos, kpos)
        )
        return until_query[..., None] - until_key[:, :, None]


class Repositioned(Encoding):
    """Re-positioning (RePo, Li et al., 2025): a small net gives each token a real position, and RoPE rotates to it.

    The net of the authors' code, silu(x G) * (x C) and a number for each head from it, an eighth of the model wide.
    Here it reads the key of its token, since an encoding sees keys and not the stream. It isn't told which number the
    token has in the sequence.
    """

    causal_only = True
    freq: Tensor

    def __init__(self, heads: int, head_dim: int, width: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.randn(heads, head_dim, width) / head_dim**0.5)
        self.content = nn.Parameter(torch.randn(heads, head_dim, width) / head_dim**0.5)
        self.place = nn.Parameter(torch.randn(heads, width, 1) / width**0.5)
        self.register_buffer("freq", frequencies(head_dim), persistent=False)

    def places(self, k: Tensor) -> Tensor:
        """Where each token stands, a real number in each head."""
        return (silu(k @ self.gate) * (k @ self.content)) @ self.place  # (B, H, Lk, 1)

    def score_bias(self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
        place = self.places(k)
        own = (qpos[:, :, None] == kpos[:, None]).to(place.dtype)[:, None]  # the key of the query's own token
        rotated = _rotated(q, own @ place * self.freq) @ _rotated(k, place * self.freq).mT
        return (rotated - q @ k.mT) * q.shape[-1] ** -0.5


def _rotated(x: Tensor, angle: Tensor) -> Tensor:
    a, b, cos, sin = x[..., ::2], x[..., 1::2], angle.cos(), angle.sin()
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def partial(head_dim: int, share: float) -> RoPE:
    """p-RoPE (Barbero et al., 2025): only this share of the planes turns, the fastest."""
    freq = frequencies(head_dim)
    return RoPE(head_dim, freq=freq.where(torch.arange(len(freq)) < round(share * len(freq)), 0.0))


def large(model_dim: int, length: int, deviation: float) -> Learned:
    """A learned table whose rows start larger than the 0.02 of `Learned`."""
    made = Learned(model_dim, length)
    nn.init.normal_(made.table, std=deviation)
    return made
