"""A small transformer with any encoding in it: what the book's experiments train."""

import copy
import os
from collections.abc import Callable
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from posenc import _check, decoding, storage
from posenc.attention import attend
from posenc.cache import KVCache, sliding_window
from posenc.encoding import Encoding
from posenc.memory import Memory, following
from posenc.registry import ENCODINGS


class Block(nn.Module):
    """x ← x + attention(norm(x)), then x ← x + MLP(norm(x)): the stream x itself is never normalised.

    RMSNorm only scales: it takes no mean from what an encoding added, and adds nothing of its own. There
    are no biases at all, so position enters by the encoding (and by causality), or not.
    """

    def __init__(
        self, model_dim: int, heads: int, kv_heads: int, hidden: int, *, every_layer: bool,
        window: int | None, sinks: int, dropout: float, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.head_dim, self.every_layer = model_dim // heads, every_layer
        self.window, self.sinks, self.options = window, sinks, options  # options of attend
        self.attention_norm = nn.RMSNorm(model_dim, eps=1e-6)
        self.query = nn.Linear(model_dim, model_dim, bias=False)
        self.key = nn.Linear(model_dim, kv_heads * self.head_dim, bias=False)
        self.value = nn.Linear(model_dim, kv_heads * self.head_dim, bias=False)
        self.out = nn.Linear(model_dim, model_dim, bias=False)
        self.mlp_norm = nn.RMSNorm(model_dim, eps=1e-6)
        self.expand = nn.Linear(model_dim, hidden, bias=False)
        self.contract = nn.Linear(hidden, model_dim, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, *where: Any) -> Tensor:
        x = x + self.dropout(self.out(self.attention(x, *where)))
        return x + self.dropout(self.contract(gelu(self.expand(self.mlp_norm(x)))))

    def attention(
        self, x: Tensor, pos: Tensor, kpos: Tensor, encoding: Encoding,
        mask: Tensor | None, past: Tensor | None, cache: KVCache | None,
    ) -> Tensor:  # fmt: skip
        """x (B, L, D) at pos attends to x, or to past (B, M, D) and x, at kpos -> (B, L, D)."""
        x = self.attention_norm(x)
        seen = x if past is None else torch.cat((self.attention_norm(past), x), 1)  # (B, M + L, D)
        placed = encoding.embed(seen, _real(kpos)) if self.every_layer else seen
        q = self._heads(self.query(placed[:, seen.shape[1] - x.shape[1] :]))  # (B, H, L, d)
        k, v = self._heads(self.key(placed)), self._heads(self.value(seen))  # (B, Hk, M + L, d)
        q = encoding.query(q, _real(pos))
        if cache is None or not encoding.raw_keys:
            k = encoding.key(k, _real(kpos))
        if cache is not None:
            k, v, kpos = cache.extend(k, v, pos)
            k = encoding.key(k, _real(kpos)) if encoding.raw_keys else k
        mask = _visible(pos, kpos, mask, self.window, self.sinks)
        z = attend(q, k, v, encoding, _real(pos), _real(kpos), mask=mask, **self.options)
        return z.transpose(1, 2).flatten(2)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, H, L, d)


class Transformer(nn.Module):
    """Tokens in, logits of the next token out; `encoding` says how it knows their order.

    `encoding` is a name in ENCODINGS, an Encoding, or a function that makes one from the keywords
    model_dim, heads, head_dim and length, of which `length` is for learned tables. All layers share one, or,
    with shared=False, each has its own (copies of an Encoding). What it adds to x, it adds to the input once,
    or, with every_layer=True, in each layer to what queries and keys are made from, but not values: what flows
    on holds no position (Press et al., 2021, section 5). Before, embeddings are multiplied by √model_dim
    (Vaswani et al., 2017, section 3.4).

    causal=False makes an encoder: give it an encoding's symmetric or bidirectional form. `window` and `sinks`
    are those of `sliding_window`. scale=1.0 is T5's own; queries then start smaller by 1/√d. `tied`: the
    embedding is the output too. One torch.manual_seed gives all encodings the same other weights. Raises
    ValueError for what does not fit.
    """

    def __init__(
        self, vocabulary: int, *, layers: int = 4, model_dim: int = 128, heads: int = 4,
        kv_heads: int | None = None, hidden: int | None = None,
        encoding: str | Encoding | Callable[..., Encoding] = "rope", length: int = 512,
        every_layer: bool = False, shared: bool = True, causal: bool = True, tied: bool = True,
        window: int | None = None, sinks: int = 0, scale: float | None = None, dropout: float = 0.0,
        backend: str = "dense",
    ) -> None:  # fmt: skip
        super().__init__()
        self.config = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self.config["encoding"] = encoding if isinstance(encoding, str) else None
        kv_heads = heads if kv_heads is None else kv_heads
        hidden = 4 * model_dim if hidden is None else hidden
        _check.sizes(vocabulary, layers, model_dim, heads, kv_heads, hidden, length, scale, dropout)
        _check.window(window, sinks)
        self.vocabulary, self.every_layer, self.causal = vocabulary, every_layer, causal
        self.window, self.sinks, self.scale = window, sinks, scale
        self.embedding = nn.Embedding(vocabulary, model_dim)
        self.dropout = nn.Dropout(dropout)
        options: dict[str, Any] = dict(every_layer=every_layer, window=window, sinks=sinks, dropout=dropout)
        options |= dict(causal=causal, scale=scale, backend=backend)
        self.blocks = nn.ModuleList(Block(model_dim, heads, kv_heads, hidden, **options) for _ in range(layers))
        self.norm = nn.RMSNorm(model_dim, eps=1e-6)
        self.output = None if tied else nn.Linear(model_dim, vocabulary, bias=False)
        self.reset_parameters()
        sizes = dict(model_dim=model_dim, heads=heads, head_dim=model_dim // heads, length=length)
        self.encodings = nn.ModuleList([first := _make(encoding, sizes)])
        if not shared and (every_layer or first.doors != ("embed",)):  # what enters once is there once
            rest = range(layers - 1)
            self.encodings.extend(copy.deepcopy(first) if first is encoding else _make(encoding, sizes) for _ in rest)

    def reset_parameters(self) -> None:
        """Draws all weights anew, but those of encodings, which draw their own."""
        for table in (self.embedding, self.output):
            if table is not None:
                nn.init.normal_(table.weight, std=0.02)
        for module in (self.norm, *self.blocks.modules()):
            if isinstance(module, nn.RMSNorm):
                nn.init.ones_(module.weight)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5)
        for block in cast("list[Block]", self.blocks):
            for last in (block.out, block.contract):  # the stream is a sum of 2 · layers such terms
                last.weight.data *= (2 * len(self.blocks)) ** -0.5
            if self.scale is not None:  # scores begin as large as with 1/√d
                block.query.weight.data *= block.head_dim**-0.5 / self.scale

    def encoding(self, layer: int = 0) -> Encoding:
        """The encoding of a layer; at the input it is that of layer 0."""
        return cast(Encoding, self.encodings[layer % len(self.encodings)])

    def forward(
        self, tokens: Tensor, pos: Tensor | None = None, *, mask: Tensor | None = None,
        cache: list[KVCache] | None = None, memory: Memory | None = None,
    ) -> Tensor:  # fmt: skip
        """tokens (B, L), whole numbers below `vocabulary` -> logits (B, L, vocabulary).

        Positions count from 0, or go on from the last in `cache` or `memory`, unless pos gives them: (L,), or
        (B, L) with padding at -1. mask (B, L) is True for real tokens: padding, on either side, is not counted
        and not attended to. A mask of four dimensions is True where a query may attend, (B, H, Lq, Lk) or 1 for
        any of these: document[:, None, :, None] == document[:, None, None, :] for packed documents, whose
        positions start anew. `cache` comes from `cache()` and is for decoding, under torch.no_grad(); `memory`,
        a Memory, is for segments in turn, in training too. Raises ValueError for what does not fit.
        """
        _check.model_input(self, tokens, mask, cache, memory)
        real, mask = (mask, None) if mask is not None and mask.ndim == 2 else (None, mask)
        pos = _positions(tokens, pos, real, cache, memory)
        if not self.causal and mask is None:
            _check.direction(self.encoding(), False, None)
        if cache is not None and self.window is not None and pos.ndim == 2:
            _hold_padding(cache, pos, self.window, self.sinks)
        kpos = pos if memory is None else memory.join(pos)
        x = self.embedding(tokens) * self.embedding.embedding_dim**0.5  # (B, L, D)
        x = self.dropout(x if self.every_layer else self.encoding().embed(x, _real(pos)))
        states = []
        for n, block in enumerate(self.blocks):
            states.append(x)
            past = memory.states[n] if memory is not None and memory.states else None
            x = block(x, pos, kpos, self.encoding(n), mask, past, None if cache is None else cache[n])
        if memory is not None:
            memory.extend(states, pos)
        return linear(self.norm(x), self.embedding.weight if self.output is None else self.output.weight)

    def cache(self) -> list[KVCache]:
        """An empty cache: a KVCache for each layer, which keeps what the window still shows."""
        return [KVCache(self.window, self.sinks) for _ in self.blocks]

    generate = decoding.generate
    save = storage.save

    @classmethod
    def load(cls, path: str | os.PathLike[str], **changes: Any) -> Self:
        """What `save` wrote, as it was, on the CPU.

        `changes` replace what the file says, such as backend="sdpa", or an encoding without parameters, such
        as RoPE with other frequencies. An encoding that was not given by its name has to be given again. Raises
        ValueError if the file is damaged, is of another kind, or does not fit.
        """
        return storage.load(cls, path, **changes)


def _make(encoding: str | Encoding | Callable[..., Encoding], sizes: dict[str, int]) -> Encoding:
    if isinstance(encoding, str):
        _check.encoding_name(encoding, ENCODINGS)
        encoding = ENCODINGS[encoding]
    made = encoding if isinstance(encoding, Encoding) else encoding(**sizes)
    _check.made(made)
    return made


def _positions(
    tokens: Tensor, pos: Tensor | None, real: Tensor | None, cache: list[KVCache] | None, memory: Memory | None
) -> Tensor:
    """Where tokens (B, L) lie: (L,), or (B, L) with padding at -1."""
    if pos is None:
        pos = torch.arange(tokens.shape[1], device=tokens.device) if real is None else real.cumsum(-1) - 1
        start = following(cache[0].positions) if cache is not None else memory.next if memory is not None else None
        pos = pos if start is None else pos.to(start.dtype) + start
    return pos if real is None else pos.where(real, -1)


def _real(pos: Tensor) -> Tensor:
    """Positions that an encoding can look up: padding, at -1 in (B, L), is not attended to wherever it lies."""
    return pos if pos.ndim == 1 else pos.clamp(min=0)


def _visible(qpos: Tensor, kpos: Tensor, mask: Tensor | None, window: int | None, sinks: int) -> Tensor | None:
    """The mask of a query and a key: that of the caller, without padding, and within the window."""
    if kpos.ndim == 2:
        real = (kpos >= 0)[:, None, None]  # (B, 1, 1, Lk)
        mask = real if mask is None else mask & real
    if window is not None:
        near = sliding_window(qpos, kpos, window, sinks)  # (Lq, Lk) or (B, 1, Lq, Lk)
        mask = near if mask is None else mask & near
    return mask


def _hold_padding(cache: list[KVCache], pos: Tensor, window: int, sinks: int) -> None:
    """Sinks are the first real tokens, so the padding before them is held as well."""
    if len(cache[0]):
        pos = torch.cat((cache[0].positions.expand(len(pos), -1), pos), -1)
    _check.left_padded(pos, window)
    for layer in cache:
        layer.sinks = sinks + int((pos < 0).sum(-1).max()) if sinks else 0
