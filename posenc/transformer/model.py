"""A small transformer with any encoding in it: what the book's experiments train."""

import copy
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from posenc._attention.cache import KVCache
from posenc._attention.call import attention
from posenc._attention.encoding import Encoding
from posenc._attention.kernels import Backend
from posenc._attention.plan import Plan, same_future
from posenc._attention.scores import check_direction
from posenc._attention.spans import Positions, Span
from posenc._require import kind
from posenc.schemes.registry import ENCODINGS
from posenc.transformer import decoding, storage
from posenc.transformer.memory import Memory, following


@dataclass(frozen=True)
class Config:
    """Everything that makes a `Transformer`, but its weights.

    Args:
        vocabulary, layers, model_dim, heads, kv_heads, hidden: Sizes, as for `Transformer`.
        length, every_layer, shared, causal, tied, window, sinks: As for `Transformer`.
        scale, dropout, attention_dropout, backend: As for `Transformer`.

    Raises:
        ValueError: If sizes are below 1 or do not divide, or a number is out of range.

    Example:
        >>> from posenc import Transformer
        >>> Transformer(256, layers=2, window=64).config.window
        64
    """

    vocabulary: int
    layers: int = 4
    model_dim: int = 128
    heads: int = 4
    kv_heads: int | None = None
    hidden: int | None = None
    encoding: str | None = "rope"
    """A name in ENCODINGS, or None for an encoding that was given otherwise."""
    length: int = 512
    every_layer: bool = False
    shared: bool = True
    causal: bool = True
    tied: bool = True
    window: int | None = None
    sinks: int = 0
    scale: float | None = None
    dropout: float = 0.0
    attention_dropout: float = 0.0
    backend: Backend = "auto"

    def __post_init__(self) -> None:
        sizes = ("vocabulary", "layers", "model_dim", "heads", "kv_heads", "hidden", "length")
        for name in sizes:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: use 1 or more")
        if self.model_dim % self.heads:
            raise ValueError(
                f"model_dim is {self.model_dim}, which {self.heads} heads do not share evenly: use a multiple of "
                f"heads, such as {self.heads * max(1, self.model_dim // self.heads)}"
            )
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(
                f"kv_heads is {self.kv_heads}, but queries have {self.heads} heads: use a number that divides them"
            )
        if self.scale is not None and not self.scale > 0:
            raise ValueError(f"scale is {self.scale}: use a positive number, or None for 1/√d")
        for name in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: use a share to drop, 0 or more and below 1")
        KVCache(self.window, self.sinks)  # which knows what they may be

    @property
    def head_dim(self) -> int:
        return self.model_dim // self.heads


@dataclass
class Step:
    """What all blocks get in one forward pass, besides the stream."""

    config: Config
    """That of the model as it is now."""
    plan: Plan
    """Where the tokens lie, and what they see."""
    weights: list[Tensor] | None = None
    """Collects the weights of each layer where they are asked for."""


class Block(nn.Module):
    """x ← x + attention(norm(x)), then x ← x + MLP(norm(x)): the stream x itself is never normalised.

    RMSNorm only scales: it takes no mean from what an encoding added, and adds nothing. There are no biases at
    all, so position enters by the encoding (and by causality), or not.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        width, kv_width = config.model_dim, (config.kv_heads or config.heads) * config.head_dim
        hidden = config.hidden or 4 * width
        self.attention_norm = nn.RMSNorm(width, eps=1e-6)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, kv_width, bias=False)
        self.value = nn.Linear(width, kv_width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp_norm = nn.RMSNorm(width, eps=1e-6)
        self.expand = nn.Linear(width, hidden, bias=False)
        self.contract = nn.Linear(hidden, width, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, step: Step, encoding: Encoding, past: Tensor | None = None, cache: KVCache | None = None
    ) -> Tensor:
        """x (B, L, D) attends to x, or to past (B, M, D) and x -> (B, L, D)."""
        x = x + self.dropout(self.out(self.attention(x, step, encoding, past, cache)))
        return x + self.dropout(self.contract(gelu(self.expand(self.mlp_norm(x)))))

    def attention(
        self, x: Tensor, step: Step, encoding: Encoding, past: Tensor | None, cache: KVCache | None
    ) -> Tensor:
        """What each token takes from others: (B, L, D)."""
        config = step.config
        x = self.attention_norm(x)
        seen = x if past is None else torch.cat((self.attention_norm(past), x), 1)  # (B, M + L, D)
        placed = encoding.embed(seen, step.plan.new_kpos(x.device)) if config.every_layer else seen
        q = self._heads(self.query(placed[:, seen.shape[1] - x.shape[1] :]))  # (B, H, L, d)
        k, v = self._heads(self.key(placed)), self._heads(self.value(seen))  # (B, Hk, M + L, d)
        dropout = config.attention_dropout if self.training else 0.0
        options: Any = dict(scale=config.scale, cache=cache, dropout=dropout, embedded=True)
        if step.weights is None:
            z = attention(q, k, v, encoding, step.plan, backend=config.backend, **options)
        else:
            z, weights = attention(q, k, v, encoding, step.plan, backend="dense", return_weights=True, **options)
            step.weights.append(weights)
        return z.transpose(1, 2).flatten(2)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, H, L, d)


class Transformer(nn.Module):
    """Tokens in, logits of the next token out; `encoding` says how the model knows their order.

    Embeddings are multiplied by √model_dim before an encoding is added (Vaswani et al., 2017, section 3.4), and
    start at N(0, 1/model_dim), so that a channel of a token starts at N(0, 1), as large as one of a sinusoid. One
    torch.manual_seed gives all encodings the same other weights.

    Args:
        vocabulary: Number of different tokens.
        layers: Number of blocks. Default: 4.
        model_dim: D, channels of the stream. Default: 128.
        heads: H, heads of the queries. Default: 4.
        kv_heads: Heads of keys and values, a divisor of `heads`. Default: `heads`.
        hidden: Channels inside the MLP. Default: 4 · model_dim.
        encoding: A name in ENCODINGS, an `Encoding`, or a function that makes one from the keywords model_dim,
            heads, head_dim and length. Default: "rope".
        length: Positions of a learned table. Default: 512.
        every_layer: Whether an additive encoding is added in each layer, to the input of the query and key
            projections only, so that the stream stays free of position (Press et al., 2021, section 5). Otherwise
            it is added once, to the input. Default: False.
        shared: Whether all layers share one encoding. Otherwise each has a copy. Default: True.
        causal: False makes an encoder: give it an encoding's symmetric or bidirectional form. Default: True.
        tied: Whether the embedding is the output too. Default: True.
        window: As for `sliding_window`. Default: all tokens are seen.
        sinks: As for `sliding_window`. Default: 0.
        scale: Multiplies q · k. With 1.0, T5's value, queries start smaller by 1/√d. Default: 1/√d.
        dropout: Share of the channels that is dropped from what each branch adds, and from the input.
            Default: 0.
        attention_dropout: Share of the attention weights that is dropped in training. Default: 0.
        backend: "auto", "dense", "sdpa" or "flex", as for `attention`. Default: "auto".

    Raises:
        ValueError: If sizes do not fit.

    Example:
        >>> from posenc import Transformer
        >>> model = Transformer(256, layers=2, encoding="alibi")
        >>> model(torch.zeros(1, 7, dtype=torch.long)).shape
        torch.Size([1, 7, 256])
    """

    def __init__(
        self, vocabulary: int, *, layers: int = 4, model_dim: int = 128, heads: int = 4,
        kv_heads: int | None = None, hidden: int | None = None,
        encoding: str | Encoding | Callable[..., Encoding] = "rope", length: int = 512,
        every_layer: bool = False, shared: bool = True, causal: bool = True, tied: bool = True,
        window: int | None = None, sinks: int = 0, scale: float | None = None, dropout: float = 0.0,
        attention_dropout: float = 0.0, backend: Backend = "auto",
    ) -> None:  # fmt: skip
        super().__init__()
        self.config = config = Config(
            vocabulary, layers, model_dim, heads, kv_heads, hidden, encoding if isinstance(encoding, str) else None,
            length, every_layer, shared, causal, tied, window, sinks, scale, dropout, attention_dropout, backend,
        )  # fmt: skip
        self.embedding = nn.Embedding(vocabulary, model_dim)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(layers))
        self.norm = nn.RMSNorm(model_dim, eps=1e-6)
        self.output = None if tied else nn.Linear(model_dim, vocabulary, bias=False)
        self.reset_parameters()
        sizes = dict(model_dim=model_dim, heads=heads, head_dim=config.head_dim, length=length)
        self.encodings = nn.ModuleList([first := _make(encoding, sizes)])
        if not shared and (every_layer or first.doors != ("embed",)):  # what enters once is there once
            rest = range(layers - 1)
            self.encodings.extend(copy.deepcopy(first) if first is encoding else _make(encoding, sizes) for _ in rest)

    def reset_parameters(self) -> None:
        """Draws all weights again, but not those of encodings, which draw their own."""
        for table in (self.embedding, self.output):
            if table is not None:
                nn.init.normal_(table.weight, std=table.weight.shape[1] ** -0.5)
        for module in (self.norm, *self.blocks.modules()):
            if isinstance(module, nn.RMSNorm):
                nn.init.ones_(module.weight)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5)
        for block in cast("list[Block]", self.blocks):
            for last in (block.out, block.contract):  # the stream is a sum of 2 · layers such terms
                last.weight.data *= (2 * len(self.blocks)) ** -0.5
            if self.config.scale is not None:  # scores begin as large as with 1/√d
                block.query.weight.data *= block.head_dim**-0.5 / self.config.scale

    def encoding(self, layer: int = 0) -> Encoding:
        """The encoding of a layer.

        Args:
            layer: Counted from 0. Default: 0, which is also that of the input.

        Returns:
            The module itself.
        """
        return cast(Encoding, self.encodings[layer % len(self.encodings)])

    def forward(
        self, tokens: Tensor, pos: Positions | None = None, *, padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None, cache: list[KVCache] | None = None, memory: Memory | None = None,
        return_weights: bool = False,
    ) -> Any:  # fmt: skip
        """Logits of the token after each.

        Args:
            tokens: (B, L), int64 or int32, below `vocabulary`.
            pos: (L,), or (B, L) with padding at -1, or a `Span`. Unless given, positions count real tokens from 0, or
                go on from the last in `cache` or `memory`.
            padding_mask: bool (B, L), True for real tokens. Padding, on either side, is not counted and not
                attended to, also later when a cache or memory holds it.
            attention_mask: bool, True where a query may attend, (B, H, Lq, Lk) or 1 for any of these, such as
                document[:, None, :, None] == document[:, None, None, :] for packed documents, each of whose
                positions start at 0.
            cache: What `cache()` returned, for decoding under torch.no_grad().
            memory: A `Memory`, for segments in turn, in training too.
            return_weights: Whether to return each layer's weights too; this pass then uses backend "dense".

        Returns:
            (B, L, vocabulary); with `return_weights` a pair (logits, weights), weights being a list with
            (B, H, L, Lk) for each layer.

        Raises:
            ValueError: If an input does not fit the model or the others.
        """
        self.check_input(tokens, padding_mask, attention_mask, cache, memory)
        pos = _positions(tokens, pos, padding_mask, cache, memory)
        config = self.config
        kpos = pos
        if memory is not None:
            assert isinstance(pos, Tensor)  # a memory joins positions
            kpos = memory.join(pos)
        padding = kpos >= 0 if isinstance(kpos, Tensor) and kpos.ndim == 2 else None
        options: Any = dict(causal=config.causal, mask=attention_mask, padding_mask=padding)
        if cache is None:
            plan = Plan(pos, kpos, window=config.window, sinks=config.sinks, **options)
        else:
            plan = Plan(pos, kpos, cache=cache[0], **options)
        check_direction(self.encoding(), plan)
        step = Step(config, plan, weights=[] if return_weights else None)
        x = self.embedding(tokens) * config.model_dim**0.5  # (B, L, D)
        x = self.dropout(x if config.every_layer else self.encoding().embed(x, plan.qpos(x.device)))
        states = []
        for n, block in enumerate(self.blocks):
            states.append(x)
            past = memory.states[n] if memory is not None and memory.states else None
            if cache is not None:  # one whose tokens were picked by `keep` has a plan of its own
                step.plan = plan if same_future(plan, cache[n]) else Plan(pos, kpos, cache=cache[n], **options)
            x = block(x, step, self.encoding(n), past, None if cache is None else cache[n])
        if memory is not None and isinstance(pos, Tensor):
            memory.extend(states, pos)
        logits = linear(self.norm(x), self.embedding.weight if self.output is None else self.output.weight)
        return (logits, step.weights) if return_weights else logits

    def check_input(
        self, tokens: Tensor, padding_mask: Tensor | None = None, attention_mask: Tensor | None = None,
        cache: list[KVCache] | None = None, memory: Memory | None = None,
    ) -> None:  # fmt: skip
        """Inputs are such that `forward` can take them.

        Args:
            tokens: As for `forward`, like all the others.
            padding_mask: One for each token.
            attention_mask: One for each query and key.
            cache: One for each layer.
            memory: Of as many layers and texts.

        Raises:
            TypeError: If the cache is that of a single layer.
            ValueError: If something does not fit. The message says what, and the remedy.
        """
        if torch.compiler.is_exporting():
            return
        config = self.config
        if tokens.ndim != 2 or tokens.dtype not in (torch.int64, torch.int32):
            raise ValueError(
                f"tokens is {tuple(tokens.shape)}, {tokens.dtype}: use int64 or int32, (B, L); "
                f"one sequence is tokens[None]"
            )
        if tokens.device.type == "cpu" and not torch.compiler.is_compiling() and tokens.numel():  # costly elsewhere
            low, high = int(tokens.min()), int(tokens.max())
            if low < 0 or high >= config.vocabulary:
                raise ValueError(
                    f"tokens go from {low} to {high}, but the vocabulary has {config.vocabulary}: use 0 to "
                    f"{config.vocabulary - 1}, or make the model with vocabulary={high + 1}"
                )
        if padding_mask is not None and (padding_mask.dtype != torch.bool or padding_mask.shape != tokens.shape):
            raise ValueError(
                f"padding_mask is {tuple(padding_mask.shape)}, {padding_mask.dtype}, and tokens are "
                f"{tuple(tokens.shape)}: use bool, (B, L), True for real tokens; "
                f"one of queries and keys is attention_mask"
            )
        if attention_mask is not None and (attention_mask.dtype != torch.bool or attention_mask.ndim != 4):
            raise ValueError(
                f"attention_mask is {tuple(attention_mask.shape)}, {attention_mask.dtype}: use bool, (B, H, Lq, Lk), "
                f"True where a query may attend; (Lq, Lk) is attention_mask[None, None]; one of "
                f"real tokens is padding_mask"
            )
        if isinstance(cache, KVCache):
            raise TypeError("cache is one KVCache, and each layer needs its own: use what model.cache() returns")
        if cache is not None and memory is not None:
            raise ValueError("cache and memory both hold the past: use memory to train, and cache to decode")
        if cache is not None and not config.causal:
            raise ValueError(
                "causal=False, so earlier tokens see later ones, and a cache cannot: pass all tokens at once"
            )
        if cache is not None and (len(cache) != len(self.blocks) or any(c.window != config.window for c in cache)):
            raise ValueError(
                f"cache has {len(cache)} layers with windows {[c.window for c in cache]}, and the model has "
                f"{len(self.blocks)} with {config.window}: use what model.cache() returns"
            )
        if memory is not None and memory.states:
            found = (len(memory.states), memory.states[0].shape[0], memory.states[0].shape[2])
            wanted = (len(self.blocks), tokens.shape[0], config.model_dim)
            if found != wanted:
                raise ValueError(
                    f"memory holds {found[0]} layers, {found[1]} sequences and {found[2]} channels, but this is for "
                    f"{wanted[0]}, {wanted[1]} and {wanted[2]}: start a new Memory({memory.length})"
                )

    def cache(self) -> list[KVCache]:
        """An empty cache, which keeps what the window still shows.

        Returns:
            A `KVCache` for each layer.
        """
        return [KVCache(self.config.window, self.config.sinks) for _ in self.blocks]

    def generate(
        self, tokens: Tensor, count: int, *, temperature: float = 0.0, top_k: int | None = None,
        top_p: float | None = None, generator: torch.Generator | None = None, padding_mask: Tensor | None = None,
        cache: list[KVCache] | None = None, eos: int | None = None, chunk: int | None = None,
    ) -> Tensor:  # fmt: skip
        """Continues each sequence, by the likeliest tokens or by chance.

        Args:
            tokens: (B, L), the prompts, each with a token at least.
            count: How many tokens are added to each.
            temperature: 0 takes the likeliest token; otherwise logits are divided by it, and a token is drawn.
            top_k: Only the k likeliest tokens may be drawn. Default: all.
            top_p: Only the likeliest tokens that have this share together may be drawn. Default: all.
            generator: Of random numbers. Default: torch's own.
            padding_mask: bool (B, L), True for real tokens, on either side.
            cache: Goes on from what it holds. The last token that is returned is not in it yet. Default: a new one.
            eos: A token after which a sequence holds nothing but itself. Default: none.
            chunk: How many tokens of the prompt are read at once. Default: all.

        Returns:
            (B, L + count), the prompts and what follows them.
        """
        return decoding.generate(
            self, tokens, count, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator,
            padding_mask=padding_mask, cache=cache, eos=eos, chunk=chunk,
        )  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes parameters and configuration to one safetensors file: all of it, or nothing.

        Args:
            path: The file to write. One that is there already is replaced when the new one is complete.
        """
        storage.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], **changes: Any) -> Self:
        """A model as `save` wrote it, on the CPU.

        Args:
            path: A file that `save` wrote.
            changes: Replace options in the file, such as backend="sdpa", or give an encoding without parameters,
                such as RoPE with other frequencies. An encoding that had no name has to be given again.

        Returns:
            The model.

        Raises:
            ValueError: If the file is damaged, is of another kind, or does not fit.
        """
        return storage.load(cls, path, **changes)


def _make(encoding: str | Encoding | Callable[..., Encoding], sizes: dict[str, int]) -> Encoding:
    if isinstance(encoding, str):
        if encoding not in ENCODINGS:
            raise ValueError(
                f"encoding is {encoding!r}: use one of {', '.join(map(repr, ENCODINGS))}, or pass the Encoding itself, "
                f"or a function that makes it from model_dim, heads, head_dim and length"
            )
        encoding = ENCODINGS[encoding]
    if not isinstance(encoding, Encoding):
        _check_maker(encoding, sizes)
    made = encoding if isinstance(encoding, Encoding) else encoding(**sizes)
    if not isinstance(made, Encoding):
        raise ValueError(
            f"encoding makes {type(made).__name__}: use a name in ENCODINGS, an Encoding such as RoPE(head_dim), "
            f"or a function that returns one"
        )
    return made


def _check_maker(maker: Any, sizes: dict[str, int]) -> None:
    """What is given in place of an encoding can be called with a model's sizes."""
    if not callable(maker):
        raise TypeError(
            f"encoding is {kind(maker)}: use a name in ENCODINGS, an Encoding such as RoPE(head_dim), or NoPE() for "
            f"none"
        )
    try:
        inspect.signature(maker).bind(**sizes)
    except TypeError as error:
        name = maker.__name__ if isinstance(maker, type) else "RoPE"
        raise TypeError(
            f"encoding is {kind(maker)}, not callable with {', '.join(sizes)} ({error}): pass an Encoding, such "
            f"as {name}(...), or a function that makes one, lambda {', '.join(sizes)}: {name}(...)"
        ) from None
    except ValueError:  # it has no signature to look at
        return


def _positions(
    tokens: Tensor, pos: Positions | None, real: Tensor | None, cache: list[KVCache] | None, memory: Memory | None
) -> Positions:
    """Where tokens (B, L) lie: a span, or (L,), or (B, L) with padding at -1."""
    if pos is None and real is None and memory is None:
        span = Span(0, 0) if cache is None or not cache[0].seen else cache[0].span
        if span is not None:
            return Span(span.end, tokens.shape[1])
    if isinstance(pos, Span):
        if real is None and memory is None:
            return pos
        pos = pos.tensor(tokens.device)
    if pos is None:
        pos = torch.arange(tokens.shape[1], device=tokens.device) if real is None else real.cumsum(-1) - 1
        start = following(cache[0].positions) if cache is not None else memory.next if memory is not None else None
        pos = pos if start is None else pos.to(start.dtype) + start
    return pos if real is None else pos.where(real, -1)
