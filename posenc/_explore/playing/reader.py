"""A trained model that reads a text piece by piece, with its positions and its encoding as arguments.

Torch runs it, or a graph does. Which key a query sees follows from the order of the tokens, and not from their
positions: so positions may be wrong, as they are in programs with a bug, and still nothing is seen of the future.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from posenc._attention.call import attend
from posenc._attention.encoding import Encoding, NoPE
from posenc._attention.scores import pair_bias, per_head
from posenc.schemes.alibi import ALiBi
from posenc.schemes.layout import layout_permutation
from posenc.schemes.learned import Learned
from posenc.schemes.rope import RoPE, rotate
from posenc.schemes.scaling import interpolate, ntk, yarn, yarn_attention_factor
from posenc.schemes.sinusoidal import frequencies
from posenc.transformer.model import Block, Transformer

SCALINGS = ("none", "interpolate", "NTK-aware", "YaRN")
BYTES = 256


@dataclass(frozen=True)
class Settings:
    """What a reader changes in a trained model, each a 0-d tensor."""

    on: Tensor
    """1.0, or 0.0 for a model whose encoding is left out."""
    base: Tensor
    """Of RoPE's frequencies, float32."""
    scaling: Tensor
    """Of RoPE, an index of SCALINGS, int64."""
    factor: Tensor
    """How many times longer texts become, for RoPE's scaling, float32."""
    layout: Tensor
    """Of RoPE: 0 for the pairs that it was trained with, 1 for the others, int64."""
    slope: Tensor
    """Multiplies ALiBi's slopes, float32."""


NAMES = ("on", "base", "scaling", "factor", "layout", "slope")
WHOLE = ("scaling", "layout")  # those that are integers
TRAINED: dict[str, float] = {"on": 1.0, "base": 10_000.0, "scaling": 0, "factor": 4.0, "layout": 0, "slope": 1.0}


def settings(**changes: float) -> list[Tensor]:
    """The settings of a reader, in their order: a model as it was trained, but for these changes."""
    values = TRAINED | changes
    return [torch.tensor(values[n], dtype=torch.int64 if n in WHOLE else torch.float32) for n in NAMES]


class Reader(nn.Module):
    """A byte model and its state: keys and values of all tokens so far are arguments, and are returned.

    Args:
        model: A decoder of bytes that adds its encoding once. Weights are rounded to half precision, as they are
            stored and sent.
        length: Of the texts that it was trained on.
    """

    def __init__(self, model: Transformer, length: int) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        rounded = {name: value.half().to(value.dtype) for name, value in self.model.state_dict().items()}
        self.model.load_state_dict(rounded)
        self.length = length

    @property
    def heads(self) -> int:
        """Those of all layers together."""
        config = self.model.config
        return config.layers * config.heads

    @property
    def rows(self) -> int | None:
        """How many positions a learned table has; None where there is no end."""
        encoding = self.model.encoding()
        return encoding.length if isinstance(encoding, Learned) else None

    @property
    def knobs(self) -> tuple[str, ...]:
        """The settings that change something."""
        encoding = self.model.encoding()
        if _plain(encoding):
            return ("on", "base", "scaling", "factor", "layout")
        if isinstance(encoding, ALiBi):
            return ("on", "slope")
        return ("on",) if encoding.doors else ()

    def start(self) -> tuple[Tensor, Tensor]:
        """The state before the first token: keys and values (2 · layers, H, 0, d), and positions (0,)."""
        config = self.model.config
        empty = torch.zeros(2 * config.layers, config.kv_heads or config.heads, 0, config.head_dim)
        return empty, torch.zeros(0, dtype=torch.long)

    def forward(
        self, tokens: Tensor, pos: Tensor, past: Tensor, places: Tensor, head: Tensor, *settings: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Read some more tokens.

        Args:
            tokens: (L,), int64.
            pos: Their positions, (L,), int64.
            past: Keys and values of the M tokens before, (2 · layers, H, M, d).
            places: The positions of these, (M,), int64.
            head: Whose weights are returned, counted through all layers, 0-d int64.
            settings: As in NAMES.

        Returns:
            How surprising each next byte would be, −log₂ p in bits, (L, 256); weights of the head (L, M + L); and past
            and places with these tokens.
        """
        model, config, chosen = self.model, self.model.config, Settings(*settings)
        places = torch.cat((places, pos))  # (M + L,)
        seen = places.shape[0] - pos.shape[0]
        order = torch.arange(places.shape[0])
        allowed = (order <= order[seen:, None])[None, None]  # in the order of the tokens
        encodings = [self._changed(model.encoding(n), chosen) for n in range(len(model.encodings))]
        x = encodings[0].embed((model.embedding(tokens) * config.model_dim**0.5)[None], pos)  # (1, L, D)
        held, looks = [], []
        for n, block in enumerate(cast("Sequence[Block]", model.blocks)):
            encoding = encodings[n % len(encodings)]
            y = block.attention_norm(x)
            q, k, v = (
                project(y).unflatten(-1, (-1, config.head_dim)).transpose(1, 2)
                for project in (block.query, block.key, block.value)
            )
            k = torch.cat((past[None, 2 * n], encoding.key(k, pos)), 2)  # (1, H, M + L, d)
            v = torch.cat((past[None, 2 * n + 1], v), 2)
            z, weights = attend(
                encoding.query(q, pos), k, v, encoding, pos, places, causal=False, mask=allowed, scale=config.scale,
                backend="dense", return_weights=True,
            )  # fmt: skip
            x = x + block.out(z.transpose(1, 2).flatten(2))
            x = x + block.contract(gelu(block.expand(block.mlp_norm(x))))
            held += [k[0], v[0]]
            looks.append(weights[0])
        logits = linear(model.norm(x), model.embedding.weight if model.output is None else model.output.weight)
        bits = logits[0].log_softmax(-1) / -math.log(2)
        return bits, torch.cat(looks)[head], torch.stack(held), places

    def _changed(self, encoding: Encoding, chosen: Settings) -> Encoding:
        """An encoding as the settings have it."""
        if _plain(encoding):
            return _Turned(encoding, chosen, self.length)
        if isinstance(encoding, ALiBi):
            return ALiBi(encoding.heads, slopes=encoding.slope * chosen.slope * chosen.on)
        return _Faded(encoding, chosen.on) if encoding.doors else NoPE()


def _plain(encoding: Encoding) -> TypeGuard[RoPE]:
    """RoPE on all channels, whose frequencies follow from a base."""
    return type(encoding) is RoPE and encoding.base is not None and encoding.rotary_dim == encoding.head_dim


class _Turned(Encoding):
    """RoPE with another base, other frequencies, or pairs of other channels than it was trained with."""

    def __init__(self, rope: RoPE, chosen: Settings, length: int) -> None:
        super().__init__()
        d = rope.head_dim
        freq = frequencies(d, chosen.base)
        scaled = (
            freq, interpolate(freq, chosen.factor), ntk(freq, chosen.factor),
            yarn(freq, chosen.factor, length, form="code"),
        )  # fmt: skip
        index = chosen.scaling
        self.freq = torch.stack(scaled)[index] * chosen.on  # not turned at all with 0
        self.scale = torch.where(index == SCALINGS.index("YaRN"), yarn_attention_factor(chosen.factor), 1.0)
        to_half = layout_permutation(d)
        other = to_half.argsort() if rope.layout == "interleaved" else to_half
        self.channels = torch.where(chosen.layout == 1, other, torch.arange(d))
        self.layout = rope.layout

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        """Channels in another order, alike for queries and keys, change no product but by the pairs that they form."""
        return rotate(q[..., self.channels], pos, self.freq, layout=self.layout) * self.scale

    def key(self, k: Tensor, pos: Tensor) -> Tensor:
        return self.query(k, pos)


class _Faded(Encoding):
    """What an encoding does, times 1 or 0."""

    def __init__(self, inner: Encoding, on: Tensor) -> None:
        super().__init__()
        self.inner, self.on = inner, on
        self.causal_only = inner.causal_only
        if inner.score_bias is not None:
            self.score_bias = self._score_bias
        if inner.mix is not None:
            self.mix = self._mix
        if inner.rescale is not None:
            self.rescale = self._rescale

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return x + self.on * (self.inner.embed(x, pos) - x)

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        return q + self.on * (self.inner.query(q, pos) - q)

    def key(self, k: Tensor, pos: Tensor) -> Tensor:
        return k + self.on * (self.inner.key(k, pos) - k)

    def _score_bias(self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
        return self.on * pair_bias(self.inner, q, per_head(k, q), qpos, kpos)

    def _rescale(self, qpos: Tensor, kpos: Tensor) -> Callable[..., Tensor]:
        inner: Any = self.inner.rescale
        change = inner(qpos, kpos)
        return lambda s, b, h, i, j: s + self.on * (change(s, b, h, i, j) - s)

    def _mix(self, weights: Tensor, v: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
        mix: Any = self.inner.mix
        plain = weights @ v
        return plain + self.on * (mix(weights, v, qpos, kpos) - plain)
