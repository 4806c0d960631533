"""A Llama written anew, as a port is: each positional choice is a field that a test may change, in one layer or all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

NAMES = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
         "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj", "norm1": "input_layernorm",
         "norm2": "post_attention_layernorm"}  # fmt: skip


def plain(dims: int, base: float) -> Tensor:
    return base ** -(torch.arange(0, dims, 2, dtype=torch.float64) / dims)


@dataclass(frozen=True)
class How:
    """What one layer does with positions; the defaults are Llama's."""

    dims: int = 16
    base: float = 10_000.0
    freq: Callable[[Tensor], Tensor] = field(default=lambda f: f)
    layout: str = "half"
    sign: int = 1
    offset_q: float = 0.0
    offset_k: float = 0.0
    turns: str = "qk"
    amplitude: float = 1.0
    scale: float = 1.0
    tables: torch.dtype = torch.float64
    rates: torch.dtype = torch.float64
    window: int | None = None
    slopes: Tensor | None = None
    bias: Callable[[Tensor], Tensor] | None = None


def turned(x: Tensor, pos: Tensor, how: How) -> Tensor:
    """x (B, H, L, d), pos (B, L)."""
    f = how.freq(plain(how.dims, how.base)).to(how.rates).double()
    angle = how.sign * pos.double()[:, None, :, None] * f
    c, s = (how.amplitude * t.to(how.tables).double() for t in (angle.cos(), angle.sin()))
    c, s = c.to(x), s.to(x)
    r, rest = x[..., : how.dims], x[..., how.dims :]
    if how.layout == "mixed":  # tables for neighbours, partners half a head apart
        a, b = r.chunk(2, -1)
        c, s = c.repeat_interleave(2, -1), s.repeat_interleave(2, -1)
        return torch.cat((r * c + torch.cat((-b, a), -1) * s, rest), -1)
    if how.layout == "sorted":  # even channels first, then halves: neighbours rotate, and lie elsewhere afterwards
        a, b = r[..., 0::2], r[..., 1::2]
        return torch.cat((a * c - b * s, b * c + a * s, rest), -1)
    if how.layout == "interleaved":
        a, b = r[..., 0::2], r[..., 1::2]
        return torch.cat((torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2), rest), -1)
    a, b = r.chunk(2, -1)
    return torch.cat((a * c - b * s, b * c + a * s, rest), -1)


class Norm(nn.Module):
    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt()


class Port(nn.Module):
    """A decoder with Llama's parts.

    Args:
        how: What each layer does with positions.
        fused: Whether attention is `scaled_dot_product_attention`, or written out.
    """

    def __init__(self, how: list[How], vocabulary: int = 99, width: int = 64, fused: bool = True, d: int = 16) -> None:
        super().__init__()
        self.how, self.fused, self.d = how, fused, d
        self.embed, self.norm = nn.Embedding(vocabulary, width), Norm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        sizes = {"q": (4 * d, width), "k": (2 * d, width), "v": (2 * d, width), "o": (width, 4 * d)}
        sizes |= {"gate": (96, width), "up": (96, width), "down": (width, 96)}
        parts: dict[str, Any] = {n: lambda s=s: nn.Linear(s[1], s[0], bias=False) for n, s in sizes.items()}
        parts |= {"norm1": lambda: Norm(width), "norm2": lambda: Norm(width)}
        self.layers = nn.ModuleList(nn.ModuleDict({n: make() for n, make in parts.items()}) for _ in how)
        self.ignores = self.pads_seen = self.cache_slips = False
        self.act: Callable[[Tensor], Tensor] = silu
        self.cap = 0.0

    def place(self, tokens: Tensor, position_ids: Tensor | None, mask: Tensor | None, past: int) -> Tensor:
        if position_ids is not None and not self.ignores:
            return position_ids.expand(len(tokens), -1)
        if mask is not None:
            return (mask.cumsum(-1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        start = past + (1 if past and self.cache_slips else 0)
        return (start + torch.arange(tokens.shape[1]))[None].expand(len(tokens), -1)

    def forward(
        self, tokens: Tensor, position_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        past_key_values: Any = None,
    ) -> tuple[Tensor, Any]:  # fmt: skip
        past = 0 if past_key_values is None else past_key_values[0][0].shape[2]
        pos = self.place(tokens, position_ids, attention_mask, past)
        x, kept = self.embed(tokens), []
        for n, (layer, how) in enumerate(zip(self.layers, self.how, strict=True)):
            y = layer["norm1"](x)
            q, k, v = (layer[m](y).unflatten(-1, (-1, self.d)).transpose(1, 2) for m in "qkv")
            q = turned(q, pos + how.offset_q, how) if "q" in how.turns else q
            k = turned(k, pos + how.offset_k, how) if "k" in how.turns else k
            if past:
                k, v = (torch.cat((old, new), 2) for old, new in zip(past_key_values[n], (k, v), strict=True))
            kept.append((k, v))
            x = x + layer["o"](self.attend(q, k, v, past, how, attention_mask).transpose(1, 2).flatten(2))
            y = layer["norm2"](x)
            x = x + layer["down"](self.act(layer["gate"](y)) * layer["up"](y))
        return self.head(self.norm(x)), kept

    def attend(self, q: Tensor, k: Tensor, v: Tensor, past: int, how: How, mask: Tensor | None) -> Tensor:
        rows, cols = past + torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])[None]
        see = cols <= rows if how.window is None else (cols <= rows) & (cols > rows - how.window)
        see = see[None, None] if mask is None or self.pads_seen else see & mask.bool()[:, None, None]
        bias = torch.zeros(see.shape, dtype=q.dtype).masked_fill(~see, torch.finfo(q.dtype).min)
        if how.slopes is not None:
            bias = bias + (cols - rows) * how.slopes.to(q)[:, None, None]
        if how.bias is not None:
            bias = bias + how.bias(cols - rows).to(q)
        k, v = (t.repeat_interleave(2, 1) for t in (k, v))
        scale = how.scale * self.d**-0.5
        if self.fused and not self.cap:
            return scaled_dot_product_attention(q, k, v, bias, scale=scale)
        scores = q @ k.transpose(-1, -2) * scale
        scores = self.cap * torch.tanh(scores / self.cap) if self.cap else scores
        return torch.softmax(scores + bias, -1) @ v

    def loaded(self, weights: dict[str, Tensor]) -> Port:
        """With the weights of transformers' Llama."""
        names = {
            "embed.weight": "model.embed_tokens.weight",
            "norm.weight": "model.norm.weight",
            "head.weight": "lm_head.weight",
        }
        for n in range(len(self.how)):
            names |= {f"layers.{n}.{a}.weight": f"model.layers.{n}.{b}.weight" for a, b in NAMES.items()}
        self.load_state_dict({ours: weights[theirs] for ours, theirs in names.items()})
        return self.eval()


def everywhere(layers: int = 3, **fields: Any) -> list[How]:
    return [How(**fields)] * layers


def only_in(layer: int, layers: int = 3, **fields: Any) -> list[How]:
    return [replace(How(), **fields) if n == layer else How() for n in range(layers)]
