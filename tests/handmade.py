"""Three decoders in plain torch, a page each, as people write them: a GPT, a Llama and T5's decoder; and an encoder.

Each decoder has forward and a cache by hand (`step`, `reorder`, `crop`), in small methods, so that a test can plant a
mistake by overriding one.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, relu, silu

State = dict[str, Any]


def heads(x: Tensor, n: int) -> Tensor:
    return x.unflatten(-1, (n, -1)).transpose(1, 2)  # (B, H, L, d)


class Decoder(nn.Module):
    """What the three have in common: where tokens lie, what they may see, and a cache of keys, values and positions."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.step(tokens, None, positions, mask)[0]

    def step(
        self, tokens: Tensor, state: State | None, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        state = state or {"k": [None] * self.layers, "v": [None] * self.layers, "pos": None, "next": 0}
        pos = self.place(tokens, state, positions, mask).expand(len(tokens), -1)
        kpos = pos if state["pos"] is None else torch.cat((state["pos"], pos), 1)
        see = self.see(tokens.shape[1], kpos.shape[1], mask)
        new: State = {"k": [], "v": [], "pos": kpos, "next": state["next"] + tokens.shape[1]}
        x = self.enter(tokens, pos)
        for n in range(self.layers):
            x = self.block(n, x, pos, kpos, see, state, new)
        return self.leave(x), new

    def place(self, tokens: Tensor, state: State, positions: Tensor | None, mask: Tensor | None) -> Tensor:
        """Positions of the tokens: as given, or counted over real tokens, or from where the cache ends."""
        if positions is not None:
            return positions
        if mask is not None:
            return (mask.long().cumsum(-1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        return state["next"] + torch.arange(tokens.shape[1])[None]

    def see(self, lq: int, lk: int, mask: Tensor | None) -> Tensor:
        """True where a query may attend, (B or 1, 1, Lq, Lk)."""
        causal = torch.ones(lq, lk, dtype=torch.bool).tril(lk - lq)[None, None]
        return causal if mask is None else causal & mask.bool()[:, None, None, :]

    def keep(self, n: int, k: Tensor, v: Tensor, state: State, new: State) -> tuple[Tensor, Tensor]:
        if state["k"][n] is not None:
            k, v = torch.cat((state["k"][n], k), 2), torch.cat((state["v"][n], v), 2)
        new["k"].append(k)
        new["v"].append(v)
        return k, v

    def attend(self, q: Tensor, k: Tensor, v: Tensor, see: Tensor, bias: Tensor | float = 0.0) -> Tensor:
        scores = q @ k.transpose(-1, -2) + bias
        scores = scores.masked_fill(~see, torch.finfo(scores.dtype).min)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)

    def reorder(self, state: State, order: Tensor) -> State:
        return {
            "k": [k[order] for k in state["k"]],
            "v": [v[order] for v in state["v"]],
            "pos": state["pos"][order],
            "next": state["next"],
        }

    def crop(self, state: State, n: int) -> State:
        return {
            "k": [k[:, :, :-n] for k in state["k"]],
            "v": [v[:, :, :-n] for v in state["v"]],
            "pos": state["pos"][:, :-n],
            "next": state["next"] - n,
        }

    def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
        raise NotImplementedError

    def block(self, n: int, x: Tensor, pos: Tensor, kpos: Tensor, see: Tensor, state: State, new: State) -> Tensor:
        raise NotImplementedError

    def leave(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class GPT(Decoder):
    """A learned table, LayerNorm, an MLP with gelu."""

    def __init__(self, vocabulary: int = 99, width: int = 64, layers: int = 2, length: int = 256) -> None:
        super().__init__(layers)
        self.tokens, self.table = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.norm1 = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.norm2 = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
        return self.tokens(tokens) + self.table(pos)

    def block(self, n: int, x: Tensor, pos: Tensor, kpos: Tensor, see: Tensor, state: State, new: State) -> Tensor:
        q, k, v = (heads(part, 4) for part in self.qkv[n](self.norm1[n](x)).chunk(3, -1))
        k, v = self.keep(n, k, v, state, new)
        x = x + self.out[n](self.attend(q / q.shape[-1] ** 0.5, k, v, see))
        return x + self.mlp[n](self.norm2[n](x))

    def leave(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x))


class Llama(Decoder):
    """Rotations, RMSNorm, grouped keys, a gated MLP."""

    def __init__(self, vocabulary: int = 99, width: int = 64, layers: int = 2, base: float = 10_000.0) -> None:
        super().__init__(layers)
        self.tokens = nn.Embedding(vocabulary, width)
        self.norm1 = nn.ModuleList(nn.RMSNorm(width) for _ in range(layers))
        self.norm2 = nn.ModuleList(nn.RMSNorm(width) for _ in range(layers))
        self.q = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.k = nn.ModuleList(nn.Linear(width, width // 2, bias=False) for _ in range(layers))
        self.v = nn.ModuleList(nn.Linear(width, width // 2, bias=False) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.gate = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(3 * width, width, bias=False) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.d, self.base = width // 4, base

    def angles(self, pos: Tensor) -> Tensor:
        return pos[:, None, :, None] * self.base ** -(torch.arange(0, self.d, 2, dtype=torch.float64) / self.d)

    def turn(self, x: Tensor, pos: Tensor) -> Tensor:
        angle = self.angles(pos)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def rotate(self, q: Tensor, k: Tensor, pos: Tensor) -> tuple[Tensor, Tensor]:
        return self.turn(q, pos), self.turn(k, pos)

    def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
        return self.tokens(tokens)

    def block(self, n: int, x: Tensor, pos: Tensor, kpos: Tensor, see: Tensor, state: State, new: State) -> Tensor:
        y = self.norm1[n](x)
        q, k, v = heads(self.q[n](y), 4), heads(self.k[n](y), 2), heads(self.v[n](y), 2)
        q, k = self.rotate(q, k, pos)
        k, v = self.keep(n, k, v, state, new)
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        x = x + self.out[n](self.attend(q / q.shape[-1] ** 0.5, k, v, see))
        y = self.norm2[n](x)
        return x + self.down[n](silu(self.gate[n](y)) * self.up[n](y))

    def leave(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x))


class T5(Decoder):
    """T5's decoder without an encoder: a bias by bucket of the distance, shared by all layers, and no scaling."""

    def __init__(self, vocabulary: int = 99, width: int = 64, layers: int = 2, buckets: int = 16) -> None:
        super().__init__(layers)
        self.tokens, self.bias = nn.Embedding(vocabulary, width), nn.Embedding(buckets, 4)
        self.norm1 = nn.ModuleList(nn.RMSNorm(width) for _ in range(layers))
        self.norm2 = nn.ModuleList(nn.RMSNorm(width) for _ in range(layers))
        self.q = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.k = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.v = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.wide = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(layers))
        self.narrow = nn.ModuleList(nn.Linear(4 * width, width, bias=False) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def bucket(self, distance: Tensor) -> Tensor:
        half = self.bias.num_embeddings // 2
        far = half + (distance.clamp(min=1) / half).log() / math.log(128 / half) * half
        return torch.where(distance < half, distance, far.long()).clamp(0, 2 * half - 1)

    def enter(self, tokens: Tensor, pos: Tensor) -> Tensor:
        return self.tokens(tokens)

    def block(self, n: int, x: Tensor, pos: Tensor, kpos: Tensor, see: Tensor, state: State, new: State) -> Tensor:
        y = self.norm1[n](x)
        q, k, v = (heads(each[n](y), 4) for each in (self.q, self.k, self.v))
        k, v = self.keep(n, k, v, state, new)
        bias = self.bias(self.bucket(pos[:, :, None] - kpos[:, None, :])).permute(0, 3, 1, 2)
        x = x + self.out[n](self.attend(q / 4, k, v, see, bias))
        return x + self.narrow[n](relu(self.wide[n](self.norm2[n](x))))

    def leave(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x))


class Encoder(nn.Module):
    """Every token sees all others: a learned table is added, and torch's own layers do the rest."""

    def __init__(self, vocabulary: int = 99, width: int = 64) -> None:
        super().__init__()
        self.tokens, self.table = nn.Embedding(vocabulary, width), nn.Embedding(256, width)
        self.layers = nn.ModuleList(nn.MultiheadAttention(width, 4, batch_first=True) for _ in range(2))
        self.head = nn.Linear(width, vocabulary)

    def forward(
        self, tokens: Tensor, position_ids: Tensor | None = None, attention_mask: Tensor | None = None
    ) -> Tensor:
        if position_ids is None:
            position_ids = torch.arange(tokens.shape[1])[None]
        x = self.tokens(tokens) + self.table(position_ids)
        padding = None if attention_mask is None else attention_mask == 0
        for layer in self.layers:
            x = x + gelu(layer(x, x, x, key_padding_mask=padding, need_weights=False)[0])
        return self.head(x)
