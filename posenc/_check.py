"""Bad input is refused here, with the remedy in the message.

Nothing is checked while `torch.export` traces: there a size may be a symbol, and a comparison would freeze it.
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from posenc.cache import KVCache
    from posenc.encoding import Encoding
    from posenc.memory import Memory
    from posenc.model import Transformer
    from posenc.shaw import Shaw
    from posenc.transformer_xl import TransformerXL

LAYOUTS = ("interleaved", "half")


def dim(value: int, name: str = "dim") -> None:
    """A dimension that is split into pairs is positive and even."""
    if torch.compiler.is_exporting():
        return
    if value <= 0 or value % 2:
        raise ValueError(
            f"{name} is {value}, but channels come in pairs (sine and cosine, or the two axes of a plane): "
            f"use a positive even number, such as {max(2, value + value % 2)}"
        )


def base(value: float | Tensor) -> None:
    """A base is positive; a tensor's value is not read, so that it may be traced or live on a GPU."""
    if not isinstance(value, Tensor) and not value > 0:
        raise ValueError(
            f"base is {value}, but frequencies are its real powers: use a positive number, such as 10_000.0"
        )


def layout(value: str, name: str = "layout") -> None:
    if value not in LAYOUTS:
        raise ValueError(
            f'{name} is {value!r}: use "interleaved" (pairs are channels 2t and 2t+1) or "half" (t and t + dim/2)'
        )


def positions(pos: Tensor, x: Tensor | None = None, name: str = "pos") -> None:
    """Positions are (L,), or (B, L) if sequences of the batch differ, one for each vector of x (B, ..., L, d)."""
    if pos.dtype == torch.bool or pos.is_complex():
        raise ValueError(f"{name} is {pos.dtype}, but a position is an integer or a float: use torch.arange(length)")
    if pos.ndim not in (1, 2):
        raise ValueError(
            f"{name} has shape {tuple(pos.shape)}: use (L,), or (B, L) if sequences of the batch differ; "
            f"a single position is torch.tensor([p])"
        )
    if x is None or torch.compiler.is_exporting():
        return
    length, batch = x.shape[-2], x.shape[0] if x.ndim > 2 else None
    if pos.shape[-1] != length:
        raise ValueError(
            f"{name} holds {pos.shape[-1]} positions for {length} vectors: pass one position for each of them, "
            f"such as torch.arange({length})"
        )
    if pos.ndim == 2 and batch is None:
        raise ValueError(
            f"{name} has shape {tuple(pos.shape)}, but there is a single sequence: pass (L,) = ({length},)"
        )
    if pos.ndim == 2 and pos.shape[0] not in (1, batch):
        raise ValueError(
            f"{name} holds positions for {pos.shape[0]} sequences and the batch has {batch}: "
            f"pass ({batch}, L), or (L,) if all share them"
        )


def embedded(x: Tensor, pos: Tensor, model_dim: int) -> None:
    """What an encoding adds to has its dimension, and as many positions as vectors."""
    if torch.compiler.is_exporting():
        return
    if x.ndim < 2 or x.shape[-1] != model_dim:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but this encoding was made for (..., L, {model_dim}): "
            f"make it with model_dim={x.shape[-1] if x.ndim else 1}"
        )
    positions(pos, x)


def rotation(x: Tensor, pos: Tensor, freq: Tensor, name: str, scale: float | Tensor) -> None:
    """x (..., L, d) turns by one angle per position and pair of channels."""
    layout(name)
    positions(pos)
    if torch.compiler.is_exporting():
        return
    if x.ndim < 2:
        raise ValueError(f"x has shape {tuple(x.shape)}, but rotate turns (..., L, d): a single vector is x[None, :]")
    dim(x.shape[-1], "x's last dimension")
    if freq.ndim not in (1, 2) or 2 * freq.shape[-1] != x.shape[-1]:
        raise ValueError(
            f"freq has shape {tuple(freq.shape)} and x has {x.shape[-1]} channels: use frequencies({x.shape[-1]}), "
            f"or (B, d/2) if sequences of the batch differ; to turn some of the channels only, pass that slice of x"
        )
    positions(pos, x)
    if freq.ndim == 2 and (x.ndim == 2 or freq.shape[0] not in (1, x.shape[0])):
        raise ValueError(
            f"freq holds frequencies for {freq.shape[0]} sequences and "
            f"{f'the batch has {x.shape[0]}' if x.ndim > 2 else 'there is a single sequence'}: "
            f"pass one set for each of them, or (d/2,) = ({x.shape[-1] // 2},) if all share it"
        )
    full = (*(x.shape[:1] if x.ndim > 2 else ()), x.shape[-2], x.shape[-1] // 2)  # (L, d/2) or (B, L, d/2)
    if isinstance(scale, Tensor) and (
        scale.ndim > len(full) or any(m not in (1, n) for m, n in zip(scale.shape[::-1], full[::-1], strict=False))
    ):
        raise ValueError(
            f"scale has shape {tuple(scale.shape)}, but there is an angle for each of {full}: "
            f"use a number, or that shape"
        )


def given_frequencies(freq: Tensor, turned_dim: int) -> None:
    """Frequencies are one angle per position for each pair of the channels that turn."""
    if freq.shape != (turned_dim // 2,):
        raise ValueError(
            f"freq has shape {tuple(freq.shape)}, but {turned_dim} channels turn, in {turned_dim // 2} pairs: "
            f"use shape (rotary_dim/2,) = ({turned_dim // 2},), where rotary_dim is head_dim unless given"
        )


def heads_of(weight: Tensor, head_dim: int) -> None:
    """The rows of a projection are those of its heads, one head after the other."""
    dim(head_dim, "head_dim")
    if weight.ndim not in (1, 2) or weight.shape[0] % head_dim:
        raise ValueError(
            f"weight has shape {tuple(weight.shape)}, but its first dimension must be a multiple of {head_dim}: "
            f"pass W_q or W_k as nn.Linear holds it, (heads · head_dim, model_dim), or its bias"
        )


def attention(q: Tensor, k: Tensor, v: Tensor, qpos: Tensor, kpos: Tensor, mask: Tensor | None) -> None:
    """q (B, H, Lq, d), k (B, Hk, Lk, d), v (B, Hk, Lk, d_v), where Hk divides H, with a position for each vector."""
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(
            f"mask is {mask.dtype}, but it says where a query may attend: use a bool mask, such as mask == 0 "
            f"for one that is added to the scores; what is added to scores is an encoding's bias"
        )
    if torch.compiler.is_exporting():
        return
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, but attention needs (B, H, L, d): a single head is {name}[:, None]"
            )
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        raise ValueError(
            f"q, k and v have batches of {q.shape[0]}, {k.shape[0]} and {v.shape[0]}: expand them to one size"
        )
    if k.shape[1] != v.shape[1] or k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(
            f"q, k and v have {q.shape[1]}, {k.shape[1]} and {v.shape[1]} heads: use as many in k as in v, "
            f"and a number that divides the heads of q"
        )
    if q.shape[3] != k.shape[3] or k.shape[2] != v.shape[2]:
        raise ValueError(
            f"q, k and v have shapes {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}: "
            f"use the same d in q and k, and one value for each key"
        )
    if k.shape[2] == 0 and q.shape[2] > 0:
        raise ValueError(
            f"there are {q.shape[2]} queries and an empty sequence of keys, so nothing to attend to: when decoding, "
            f"extend the cache with the new tokens' keys before attending"
        )
    positions(qpos, q, "qpos")
    positions(kpos, k, "kpos")
    full = (*q.shape[:3], k.shape[2])
    if mask is not None and (
        mask.ndim > 4 or any(m not in (1, n) for m, n in zip(mask.shape[::-1], full[::-1], strict=False))
    ):
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}, which does not broadcast to (B, H, Lq, Lk) = {full}: "
            f"a mask of padded keys, (B, Lk), is mask[:, None, None, :]"
        )


def closed(encoding: Encoding, backend: str, **reasons: str) -> None:
    """A fused kernel serves only some of the doors."""
    for door, reason in reasons.items():
        if getattr(encoding, door) is not None:
            raise ValueError(f'backend "{backend}" cannot serve {door}, since {reason}: use backend="dense"')


def no_cpu_gradient(*tensors: Tensor) -> None:
    """torch's flex_attention has no backward on a CPU."""
    if torch.is_grad_enabled() and any(x.requires_grad and x.device.type == "cpu" for x in tensors):
        raise ValueError('backend "flex" has no gradients on a CPU: use backend="dense" or "sdpa", or torch.no_grad()')


def cached(k: Tensor, v: Tensor, pos: Tensor, store: list[Tensor]) -> None:
    """What extends a cache fits what is in it, and wants no gradient."""
    if torch.is_grad_enabled() and (k.requires_grad or v.requires_grad):
        raise ValueError(
            "KVCache overwrites its memory and so has no gradients: extend it under torch.no_grad(), "
            "or train on the whole sequence at once"
        )
    if k.ndim != 4 or v.ndim != 4 or k.shape[:3] != v.shape[:3]:
        raise ValueError(
            f"k and v have shapes {tuple(k.shape)} and {tuple(v.shape)}: use (B, H, L, d) and (B, H, L, d_v), "
            f"one value for each key"
        )
    positions(pos, k)
    for name, new, old in zip(("k", "v", "pos"), (k, v, pos), store, strict=False):
        axis = 2 if name != "pos" else -1
        fits = new.ndim == old.ndim and new.narrow(axis, 0, 0).shape == old.narrow(axis, 0, 0).shape
        if not fits or new.dtype != old.dtype or new.device != old.device:
            raise ValueError(
                f"{name} is {tuple(new.shape)}, {new.dtype} on {new.device}, and the cache holds {tuple(old.shape)}, "
                f"{old.dtype} on {old.device}: only the length may differ; for anything else start a new KVCache()"
            )


def window(value: int | None, sinks: int) -> None:
    """A window holds at least the token itself."""
    if value is not None and value < 1:
        raise ValueError(f"window is {value}, but a token sees itself: use 1 or more, or None for all tokens")
    if sinks < 0:
        raise ValueError(f"sinks is {sinks}: use the number of first tokens to keep, 0 for none")


def kept(index: Tensor, store: list[Tensor], length: int) -> None:
    """What a cache keeps is among what it holds."""
    if not store:
        raise ValueError("the cache is empty, so there is nothing to keep: extend it first")
    if index.dtype != torch.int64 or index.ndim not in (1, 2) or (index.ndim == 2 and len(index) != len(store[0])):
        raise ValueError(
            f"index is {tuple(index.shape)}, {index.dtype}: use whole numbers, (n,) for all sequences or "
            f"(B, n) = ({len(store[0])}, n), such as mask.nonzero()[:, 0]"
        )
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < length:
        raise ValueError(
            f"index goes from {int(index.min())} to {int(index.max())}, but the cache holds {length} tokens: "
            f"use 0 to {length - 1}, which count the tokens that are held, not their positions"
        )


def direction(encoding: Encoding, causal: bool, mask: Tensor | None) -> None:
    """An encoding made for the past is not asked about the future, unless a mask answers for that."""
    if encoding.causal_only and not causal and mask is None:
        raise ValueError(
            f"causal=False, but {type(encoding).__name__} as it was made knows keys of the past only: "
            f"make its symmetric or bidirectional form where it has one, use causal=True, or pass the mask "
            f"that hides the future"
        )


def grid_shape(shape: Sequence[int]) -> None:
    """A grid has a size along every axis."""
    if len(shape) == 0 or min(shape) < 1:
        raise ValueError(f"shape is {tuple(shape)}: use the sizes of the grid, 1 or more each, such as (14, 14)")


def span(value: int | Sequence[int]) -> None:
    """A span is so many tokens of text, or a box of them."""
    text = isinstance(value, int) and value >= 0
    box = isinstance(value, tuple | list) and len(value) == 3 and all(isinstance(n, int) and n > 0 for n in value)
    if not text and not box:
        raise ValueError(
            f"a span is {value!r}: use the number of tokens of a text, or the sizes (t, h, w) of an image or video "
            f"in tokens, such as (1, 16, 16); what a tensor holds is its .tolist()"
        )


def shares(value: int, axes: int, name: str) -> None:
    """A dimension that axes share has the same number of pairs for each."""
    if torch.compiler.is_exporting():
        return
    if axes < 1:
        raise ValueError(f"axes is {axes}: use the number of coordinates of a place, 1 or more")
    if value <= 0 or value % (2 * axes):
        unequal = "; mrope_frequencies gives the axes unequal shares" if name == "head_dim" else ""
        raise ValueError(
            f"{name} is {value}, but each of {axes} axes has the same share of it, in pairs of channels: "
            f"use a multiple of {2 * axes}, such as {2 * axes * max(1, -(-value // (2 * axes)))}{unequal}"
        )


def head_angles(angle: Tensor) -> None:
    """Every head has an angle."""
    if angle.ndim != 1 or not angle.is_floating_point():
        raise ValueError(
            f"angle has shape {tuple(angle.shape)}, {angle.dtype}: use one for each head, in radians, "
            f"such as 2 * torch.pi * torch.rand(heads)"
        )


def sections(head_dim: int, sizes: Sequence[int], interleaved: bool) -> None:
    """Sections share out all pairs of a head, and where they are interleaved the pairs do not run out."""
    dim(head_dim, "head_dim")
    pairs, axes = head_dim // 2, max(1, len(sizes))
    even = (pairs - (axes - 1) * (pairs // axes), *[pairs // axes] * (axes - 1))
    if sum(sizes) != pairs or min(sizes) < 0:
        raise ValueError(
            f"sections are {tuple(sizes)}, but head_dim={head_dim} has {pairs} pairs to share out: "
            f"use sizes that add up to it, such as {even}"
        )
    if interleaved and any(size and axes * (size - 1) + axis >= pairs for axis, size in enumerate(sizes) if axis):
        raise ValueError(
            f"sections are {tuple(sizes)}, but an interleaved axis other than the first gets every {axes}th of "
            f"{pairs} pairs at most: use smaller sizes after the first, such as {even}"
        )


def coordinates(coords: Tensor, x: Tensor | None = None, name: str = "coords") -> None:
    """Coordinates are (L, n), or (B, L, n) if sequences of the batch differ, for each vector of x (B, ..., L, d)."""
    if coords.dtype == torch.bool or coords.is_complex():
        raise ValueError(f"{name} is {coords.dtype}, but a coordinate is an integer or a float: use coords.float()")
    if coords.ndim not in (2, 3) or coords.shape[-1] == 0:
        raise ValueError(
            f"{name} has shape {tuple(coords.shape)}: use (L, n), or (B, L, n) if sequences of the batch differ, "
            f"with n coordinates of each place, such as grid_coordinates(torch.arange(12), (3, 4))"
        )
    if x is None or torch.compiler.is_exporting():
        return
    length, batch = x.shape[-2], x.shape[0] if x.ndim > 2 else None
    if coords.shape[-2] != length:
        raise ValueError(
            f"{name} holds {coords.shape[-2]} places for {length} vectors: pass one place for each of them, "
            f"(L, n) = ({length}, {coords.shape[-1]})"
        )
    if coords.ndim == 3 and batch is None:
        raise ValueError(
            f"{name} has shape {tuple(coords.shape)}, but there is a single sequence: "
            f"pass (L, n) = ({length}, {coords.shape[-1]})"
        )
    if coords.ndim == 3 and coords.shape[0] not in (1, batch):
        raise ValueError(
            f"{name} holds places for {coords.shape[0]} sequences and the batch has {batch}: "
            f"pass ({batch}, L, n), or (L, n) if all share them"
        )


def grid_rotation(x: Tensor, coords: Tensor, freq: Tensor, name: str) -> None:
    """x (..., L, d) turns by one angle per place and pair of channels, and per head if frequencies differ."""
    layout(name)
    coordinates(coords)
    if torch.compiler.is_exporting():
        return
    if x.ndim < 2:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but rotate_grid turns (..., L, d): a single vector is x[None, :]"
        )
    dim(x.shape[-1], "x's last dimension")
    axes, pairs = coords.shape[-1], x.shape[-1] // 2
    if freq.ndim not in (2, 3) or freq.shape[-1] != pairs or freq.shape[0] != axes:
        raise ValueError(
            f"freq has shape {tuple(freq.shape)}, but places have {axes} coordinates and x has {x.shape[-1]} channels: "
            f"use (n, d/2) = ({axes}, {pairs}), or (n, H, d/2) if heads differ"
        )
    if freq.ndim == 3:
        split = x.ndim > coords.ndim  # into heads
        if not split or freq.shape[1] == 0 or x.shape[-3] % freq.shape[1]:
            raise ValueError(
                f"freq has frequencies for {freq.shape[1]} heads and x has shape {tuple(x.shape)}: "
                f"use x (..., H, L, d) where H is a multiple of {freq.shape[1]}; "
                f"if keys have fewer heads than queries, freq has as many as keys"
            )
    coordinates(coords, x)


def grid_frequencies(freq: Tensor, head_dim: int, axes: int | None) -> None:
    """Frequencies are one angle per step for each axis and pair of a head's channels."""
    dim(head_dim, "head_dim")
    if freq.ndim not in (2, 3) or freq.shape[-1] != head_dim // 2 or axes not in (None, freq.shape[0]):
        n = "n" if axes is None else axes
        raise ValueError(
            f"freq has shape {tuple(freq.shape)}, but head_dim={head_dim} makes {head_dim // 2} pairs and places have "
            f"{n} coordinates: use (n, d/2) = ({n}, {head_dim // 2}), or (n, H, d/2) if heads differ"
        )


def place(shape: Sequence[int] | None, table: Tensor | Callable[..., Tensor] | None) -> None:
    """Where a position lies is said once."""
    if (shape is None) == (table is None):
        raise ValueError(
            f"{'neither' if shape is None else 'both'} shape and coordinates are given: use one, such as "
            f"shape=(14, 14), or coordinates=mrope_positions([5, (1, 4, 4), 9])"
        )
    if shape is not None:
        grid_shape(shape)
    if isinstance(table, Tensor):
        coordinates(table, name="coordinates")


def known_axes(axes: int | None, head_dim: int) -> int:
    """Frequencies need the number of axes."""
    if axes is None:
        raise ValueError(
            f"coordinates is a function, so the number of axes is not known: "
            f"pass freq too, such as axial_frequencies({head_dim}, 2)"
        )
    return axes


def looked_up(pos: Tensor, table: Tensor) -> None:
    """A position is a row of the table (N, n) or (B, N, n). Values are not read while a compiler traces."""
    positions(pos)
    if pos.is_floating_point():
        raise ValueError(f"pos is {pos.dtype}, but coordinates are looked up by index: use torch.arange(length)")
    if torch.compiler.is_exporting():
        return
    if table.ndim == 3 and pos.ndim == 2 and table.shape[0] != pos.shape[0] and 1 not in (table.shape[0], pos.shape[0]):
        raise ValueError(
            f"coordinates holds places for {table.shape[0]} sequences and pos has {pos.shape[0]}: "
            f"make coordinates ({pos.shape[0]}, N, n), or (N, n) if all share them"
        )
    if torch.compiler.is_compiling() or pos.is_meta or pos.numel() == 0:
        return
    if pos.min() < 0 or pos.max() >= table.shape[-2]:
        raise ValueError(
            f"pos goes from {int(pos.min())} to {int(pos.max())}, but coordinates holds {table.shape[-2]} places, "
            f"0 to {table.shape[-2] - 1}: make it longer, such as by a span of text in mrope_positions"
        )


def head_count(value: int) -> None:
    if not torch.compiler.is_exporting() and value < 1:
        raise ValueError(f"heads is {value}: use the number of attention heads, 1 or more")


def made_for(encoding: Encoding, heads: int, q: Tensor) -> None:
    """An encoding with one parameter per head meets as many heads."""
    if not torch.compiler.is_exporting() and q.shape[1] != heads:
        name = type(encoding).__name__
        raise ValueError(f"{name} was made for {heads} heads and q has {q.shape[1]}: make it with {name}({q.shape[1]})")


def offsets(value: Tensor) -> None:
    if value.dtype == torch.bool or value.is_complex():
        raise ValueError(
            f"offset is {value.dtype}, but an offset is a difference of positions: use kpos[None, :] - qpos[:, None]"
        )


def buckets(value: int, max_distance: int, bidirectional: bool) -> None:
    """Half of the buckets hold one distance each, and the others share what is left up to max_distance."""
    if torch.compiler.is_exporting():
        return
    if value < 4 or value % 2:
        raise ValueError(
            f"buckets is {value}, but they are halved, into near and far distances and before that, if bidirectional, "
            f"into past and future: use an even number, at least 4, such as 32"
        )
    exact = value // 4 if bidirectional else value // 2
    if max_distance <= exact:
        raise ValueError(
            f"max_distance is {max_distance}, but with {value} buckets distances below {exact} have one each, and the "
            f"others begin there: use max_distance={exact + 1} or more, such as {8 * exact}, or fewer buckets"
        )


def slopes(value: Tensor | None, heads: int) -> None:
    """Slopes are one rate per head."""
    if value is not None and value.shape != (heads,):
        raise ValueError(
            f"slopes has shape {tuple(value.shape)}, but there are {heads} heads: use shape (heads,) = ({heads},), "
            f"such as alibi_slopes({heads})"
        )


def rotary(head_dim: int, turned_dim: int, attention_factor: float) -> None:
    """The channels that turn are pairs, at the front of a head."""
    dim(head_dim, "head_dim")
    dim(turned_dim, "rotary_dim")
    if turned_dim > head_dim:
        raise ValueError(
            f"rotary_dim is {turned_dim}, but a head has {head_dim} channels: use a smaller one, "
            f"or None to turn all of them"
        )
    if not 0 < attention_factor < float("inf"):
        raise ValueError(
            f"attention_factor is {attention_factor}, but it multiplies queries and keys: use a positive number, "
            f"such as 1.0, or yarn_attention_factor(16)"
        )


def turned(x: Tensor, pos: Tensor, head_dim: int) -> None:
    """What a rotary encoding turns has its head's channels, and as many positions as vectors."""
    positions(pos)
    if torch.compiler.is_exporting():
        return
    if x.ndim < 2 or x.shape[-1] != head_dim:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but this encoding was made for heads (..., L, {head_dim}): "
            f"make it with head_dim={x.shape[-1] if x.ndim else 1}; to turn some of the channels only, use rotary_dim"
        )
    positions(pos, x)


def memory_length(value: int) -> None:
    if value < 0:
        raise ValueError(f"length is {value}: use how many of the latest tokens to remember, 0 for none")


def sizes(
    vocabulary: int, layers: int, model_dim: int, heads: int, kv_heads: int, hidden: int, length: int,
    scale: float | None, dropout: float,
) -> None:  # fmt: skip
    """What a transformer is made of is there, and divides."""
    counts = {"vocabulary": vocabulary, "layers": layers, "model_dim": model_dim, "heads": heads}
    for name, value in (counts | {"kv_heads": kv_heads, "hidden": hidden, "length": length}).items():
        if value < 1:
            raise ValueError(f"{name} is {value}: use 1 or more")
    if model_dim % heads:
        raise ValueError(
            f"model_dim is {model_dim}, which {heads} heads do not share evenly: use a multiple of heads, "
            f"such as {heads * max(1, model_dim // heads)}"
        )
    if heads % kv_heads:
        raise ValueError(f"kv_heads is {kv_heads}, but queries have {heads} heads: use a number that divides them")
    if scale is not None and not scale > 0:
        raise ValueError(f"scale is {scale}: use a positive number, or None for 1/√d")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout is {dropout}: use the share of values to drop, 0 or more and below 1")


def encoding_name(name: str, names: Iterable[str]) -> None:
    if name not in names:
        raise ValueError(
            f"encoding is {name!r}: use one of {', '.join(map(repr, names))}, or pass the Encoding itself, "
            f"or a function that makes it from model_dim, heads, head_dim and length"
        )


def made(encoding: object) -> None:
    from posenc.encoding import Encoding

    if not isinstance(encoding, Encoding):
        raise ValueError(
            f"encoding makes {type(encoding).__name__}: use a name in ENCODINGS, an Encoding such as RoPE(head_dim), "
            f"or a function that returns one"
        )


def model_input(
    model: Transformer, tokens: Tensor, mask: Tensor | None, cache: list[KVCache] | None, memory: Memory | None
) -> None:
    """Tokens are whole numbers of the vocabulary, and what comes with them was made for them and the model."""
    if torch.compiler.is_exporting():
        return
    if tokens.ndim != 2 or tokens.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"tokens is {tuple(tokens.shape)}, {tokens.dtype}: use int64 or int32, (B, L); one sequence is tokens[None]"
        )
    if tokens.device.type == "cpu" and not torch.compiler.is_compiling() and tokens.numel():  # costly elsewhere
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= model.vocabulary:
            raise ValueError(
                f"tokens go from {low} to {high}, but the vocabulary has {model.vocabulary}: use 0 to "
                f"{model.vocabulary - 1}, or make the model with vocabulary={high + 1}"
            )
    if mask is not None and (mask.dtype != torch.bool or mask.ndim not in (2, 4)):
        raise ValueError(
            f"mask is {tuple(mask.shape)}, {mask.dtype}: use a bool mask, (B, L), True for real tokens, or "
            f"(B, H, Lq, Lk), True where a query may attend; (Lq, Lk) is mask[None, None]"
        )
    if mask is not None and mask.ndim == 2 and mask.shape != tokens.shape:
        raise ValueError(
            f"mask is {tuple(mask.shape)} and tokens are {tuple(tokens.shape)}: a mask of two dimensions says which "
            f"tokens are real, (B, L); one of queries and keys, (Lq, Lk), is mask[None, None]"
        )
    if cache is not None and memory is not None:
        raise ValueError("cache and memory both hold the past: use memory to train, and cache to decode")
    if cache is not None and not model.causal:
        raise ValueError("causal=False, so earlier tokens see later ones, and a cache cannot: pass all tokens at once")
    if cache is not None and (len(cache) != len(model.blocks) or any(c.window != model.window for c in cache)):
        raise ValueError(
            f"cache has {len(cache)} layers with windows {[c.window for c in cache]}, and the model has "
            f"{len(model.blocks)} with {model.window}: use what model.cache() returns"
        )
    if memory is not None and memory.states:
        found = (len(memory.states), memory.states[0].shape[0], memory.states[0].shape[2])
        wanted = (len(model.blocks), tokens.shape[0], model.embedding.embedding_dim)
        if found != wanted:
            raise ValueError(
                f"memory holds {found[0]} layers, {found[1]} sequences and {found[2]} channels, but this is for "
                f"{wanted[0]}, {wanted[1]} and {wanted[2]}: start a new Memory({memory.length})"
            )


def left_padded(pos: Tensor, window: int) -> None:
    """A cache with a window keeps what came last, which padding must not be."""
    if bool(((pos[:, 1:] < 0) & (pos[:, :-1] >= 0)).any()):
        raise ValueError(
            f"padding follows real tokens, and the cache keeps the {window} that came last: pad on the left, or "
            f"make the model with window=None"
        )


def generation(model: Transformer, tokens: Tensor, count: int, mask: Tensor | None, chunk: int | None) -> None:
    """There is a next token, and something to compute it from."""
    if not model.causal:
        raise ValueError("causal=False, so there is no next token to generate: make the model with causal=True")
    model_input(model, tokens, mask, None, None)
    if count < 0:
        raise ValueError(f"count is {count}: use how many tokens to add")
    if tokens.numel() == 0 or (mask is not None and (mask.ndim != 2 or not bool(mask.any(-1).all()))):
        raise ValueError(
            "each sequence needs a real token to go on from: begin it with one, such as a token that means start, "
            "and use a mask (B, L)"
        )
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk is {chunk}: use 1 or more tokens, or None for all of the prompt at once")


def sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    if not temperature >= 0:
        raise ValueError(f"temperature is {temperature}: use a positive number, or 0 for the likeliest token")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k is {top_k}: use 1 or more tokens, or None for all")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}: use a share of the probability, above 0 and at most 1, or None for all")


def damaged(path: object) -> ValueError:
    return ValueError(
        f"{path} is not a whole safetensors file: copy it again if it was cut short, or save the model anew"
    )


def saved(path: object, metadata: dict[str, str] | None, changes: Iterable[str]) -> dict[str, Any]:
    """The configuration in a model's file, with an encoding that can be made again."""
    try:
        config = json.loads((metadata or {})["posenc"])
        kind = config.pop("class")
    except (KeyError, ValueError, TypeError, AttributeError):
        raise ValueError(f"{path} does not say how to make the model: use a file that Transformer.save wrote") from None
    if config.get("encoding") is None and "encoding" not in changes:
        raise ValueError(
            f"{path} holds a model whose encoding was not given by its name, but made as {kind}(...): "
            f"pass it again, Transformer.load(path, encoding={kind}(...))"
        )
    return config


def fits(path: object, wanted: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    """What was saved is what the model has, by name and shape."""
    shapes = [{name: tuple(value.shape) for name, value in state.items()} for state in (wanted, found)]
    if shapes[0] != shapes[1]:
        names = sorted({name for name, _ in shapes[0].items() ^ shapes[1].items()})
        raise ValueError(
            f"{path} does not fit the model in {', '.join(names)}: pass the encoding it was saved with, and change "
            f"no size"
        )


def fading(gamma: float | Tensor, scale_base: float | Tensor, centre: float = 0) -> None:
    """Radii are powers of numbers between 0 and 1; the value of a tensor is not read."""
    for name, value, default in (("gamma", gamma, 0.4), ("scale_base", scale_base, 512.0)):
        if not isinstance(value, Tensor) and not 0 < value < float("inf"):
            raise ValueError(f"{name} is {value}, but radii are real powers: use a positive number, such as {default}")
    if not abs(centre) < float("inf"):
        raise ValueError(f"centre is {centre}, but it is a position: use one in the middle of those to come, such as 0")


def reach(pos: Tensor, centre: float, limit: float, dtype: torch.dtype) -> None:
    """Radii stay normal numbers; positions are looked at where that costs nothing."""
    if torch.compiler.is_compiling() or pos.device.type != "cpu" or pos.numel() == 0:
        return
    far = (pos.double() - centre).abs().max().item()
    if far > limit:
        raise ValueError(
            f"a position lies {far:g} from centre={centre}, and beyond {limit:.0f} radii leave the numbers of {dtype}: "
            f"use a centre in the middle of the positions, a larger scale_base, or a wider dtype (bfloat16 for float16)"
        )


def table_size(model_dim: int, length: int) -> None:
    for name, value in (("model_dim", model_dim), ("length", length)):
        if value < 1:
            raise ValueError(f"{name} is {value}: use 1 or more; a table has a row for each position, and no others")


def rows(pos: Tensor, length: int) -> None:
    """A position is a row of the table. Values are not read while a compiler traces or a CUDA graph is captured."""
    if pos.is_floating_point():
        raise ValueError(
            f"pos is {pos.dtype}, but a learned table has rows for integers only: use pos.long() if all are whole, "
            f"or an encoding that is a function of position, such as Sinusoidal"
        )
    if torch.compiler.is_compiling() or pos.is_meta or pos.numel() == 0:
        return
    if pos.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    low, high = torch.stack(pos.aminmax()).tolist()  # a GPU is waited for once; an index error there ends the process
    if high >= length:
        raise ValueError(
            f"position {high} is beyond the table's {length}: a learned table cannot extrapolate; use positions 0 to "
            f"{length - 1}, or a longer table, such as stretch_table(table, {high + 1}) and some more training"
        )
    if low < 0:
        raise ValueError(
            f"position {low} is negative, but a table's rows count from 0: give padding any position that has a row, "
            f"such as pos.clamp(min=0), and mask it"
        )


def stretched(table: Tensor, length: int) -> None:
    """Rows can be interpolated if there are any."""
    if torch.compiler.is_exporting():
        return
    if table.ndim != 2 or table.shape[0] == 0:
        raise ValueError(
            f"table has shape {tuple(table.shape)}: use (L, D), one row for each position; "
            f"a table of a batch, (1, L, D), is table[0]"
        )
    if length < 1:
        raise ValueError(f"length is {length}: use the number of positions that the table shall have, 1 or more")


def whole(value: Tensor, name: str) -> None:
    """A label belongs to a whole offset."""
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise ValueError(
            f"{name} is {value.dtype}, but offsets have a label each only if they are integers: "
            f"use whole positions, such as torch.arange(length) or pos.round().long()"
        )


def clip(value: int) -> None:
    if not torch.compiler.is_exporting() and value < 0:
        raise ValueError(
            f"clip is {value}, but labels run from -clip to clip: use the largest distance that is told apart, "
            f"such as 16, or 0 for none"
        )


def shaw(head_dim: int, clip_at: int, heads: int | None) -> None:
    """Tables have a row for each label and a column for each channel of a head."""
    clip(clip_at)
    if head_dim < 1:
        raise ValueError(f"head_dim is {head_dim}: use the number of channels of a head, 1 or more")
    if heads is not None and heads < 1:
        raise ValueError(f"heads is {heads}: use the number of query heads, or None if all share one table")


def labelled(encoding: Shaw, name: str, x: Tensor, qpos: Tensor, kpos: Tensor) -> None:
    """What meets a table has its channels and heads, and positions that have labels."""
    whole(qpos, "qpos")
    whole(kpos, "kpos")
    if torch.compiler.is_exporting():
        return
    if x.shape[-1] != encoding.head_dim:
        remedy = f"make it with Shaw({x.shape[-1]})" if name == "q" else "use values=False, or as many in v as in q"
        raise ValueError(f"Shaw was made for head_dim={encoding.head_dim} and {name} has {x.shape[-1]}: {remedy}")
    if encoding.heads is not None and x.shape[1] != encoding.heads:
        raise ValueError(
            f"Shaw was made for heads={encoding.heads} and {name} has {x.shape[1]}: make it with heads={x.shape[1]}, "
            f"the query heads, or without if all share one table"
        )


def label_tables(q: Tensor, key_table: Tensor, value_table: Tensor | None) -> None:
    """Tables are (2k+1, d), or (H, 2k+1, d) if heads differ."""
    shapes = [tuple(table.shape) for table in (key_table, value_table) if table is not None]
    shape = shapes[0]
    fits = len(shape) > 1 and shape[:-2] in ((), (q.shape[1],)) and shape[-2] % 2 and shape[-1] == q.shape[-1]
    if not fits or shapes[-1] != shape:
        raise ValueError(
            f"tables have shapes {' and '.join(map(str, shapes))}, and q has {q.shape[1]} heads of {q.shape[-1]}: "
            f"use (2k+1, {q.shape[-1]}) for both, or ({q.shape[1]}, 2k+1, {q.shape[-1]}) if heads differ"
        )


def one_of(name: str, names: Iterable[str], noun: str) -> None:
    if name not in names:
        raise KeyError(f"there is no {noun} {name!r}: use one of {', '.join(names)}")


def unmeasured(name: str, errors: list[str]) -> ValueError:
    """An encoding is measured with the sizes that it was made for."""
    first, *others = errors
    more = f"; {len(others)} other {'try' if len(others) == 1 else 'tries'} failed too"
    return ValueError(
        f"{name} cannot be run: with {first}{more}: pass the sizes that it was made for, such as "
        f"properties(encoding, model_dim=64, heads=4, head_dim=16)"
    )


def has_memory(encoding: Encoding) -> None:
    """What is measured has numbers."""
    if any(x.is_meta for x in (*encoding.parameters(), *encoding.buffers())):
        raise ValueError(
            f"{type(encoding).__name__} is on the meta device and has no numbers: give it memory first, "
            f'such as encoding.to_empty(device="cpu"), and its parameters values'
        )


def _number(value: float | Tensor) -> bool:
    """Whether a value may be read; tensors may be traced, or live on a GPU."""
    return not isinstance(value, Tensor)


def factor(value: float | Tensor) -> None:
    """A context is extended by a factor."""
    if _number(value) and not 1 <= value < float("inf"):
        raise ValueError(
            f"factor is {value}, but it says how many times longer texts become: use 1 or more, such as 8.0"
        )


def trained(value: float | Tensor, above: float = 0) -> None:
    if _number(value) and not above < value < float("inf"):
        raise ValueError(
            f"trained is {value}, but it is the length of the texts in training, more than {above}: "
            f"use a number of tokens, such as 4096"
        )


def ordered(**bounds: float | Tensor) -> None:
    """Two bounds, the lower first, in turns within the trained length."""
    (low, a), (high, b) = bounds.items()
    if (_number(a) and not 0 < a < float("inf")) or (_number(b) and not 0 < b < float("inf")):
        raise ValueError(f"{low} is {a} and {high} is {b}, but they are turns within the trained length: use positive")
    if _number(a) and _number(b) and not a < b:
        raise ValueError(
            f"{low} is {a} and {high} is {b}: use {low} < {high}, since what turns more often keeps more of its "
            f"frequency"
        )


def yarn(freq: Tensor, form: str, length: float | Tensor, beta_fast: float | Tensor, beta_slow: float | Tensor) -> None:
    """The two forms of YaRN, and what they need."""
    if form not in ("paper", "code"):
        raise ValueError(f'form is {form!r}: use "paper" (a ramp over turns) or "code" (over the index)')
    trained(length)
    if form == "paper" or not (_number(beta_fast) and beta_fast == beta_slow and 0 < beta_fast < float("inf")):
        ordered(beta_slow=beta_slow, beta_fast=beta_fast)
    if form == "code" and not torch.compiler.is_exporting() and freq.shape[-1] < 2:
        raise ValueError(
            f'freq has shape {tuple(freq.shape)}, but form="code" reads the base from two frequencies: use form="paper"'
        )


def divisors(freq: Tensor, **lists: Tensor) -> None:
    """One divisor for each frequency."""
    if torch.compiler.is_exporting():
        return
    for name, value in lists.items():
        if value.shape != freq.shape:
            raise ValueError(
                f"{name} has shape {tuple(value.shape)}, but freq has {tuple(freq.shape)}: "
                f"use one divisor for each pair"
            )


def fraction(value: float | Tensor) -> None:
    if _number(value) and not 0 <= value <= 1:
        raise ValueError(f"fraction is {value}, but it is a share of the pairs: use a number from 0 to 1, such as 0.75")


def known(name: str, names: Sequence[str]) -> None:
    """A name that is not known is often nearly one that is."""
    if name not in names:
        near = difflib.get_close_matches(name.lower(), names, n=5, cutoff=0.5) or sorted(names)
        raise ValueError(f"there is no preset {name!r}: use {', '.join(map(repr, near))}")


def transformer_xl(model_dim: int, heads: int, head_dim: int, clamp: int | None, base_: float | Tensor) -> None:
    """Sinusoids have model_dim channels, and heads have head_dim."""
    dim(model_dim, "model_dim")
    head_count(heads)
    if head_dim < 1:
        raise ValueError(f"head_dim is {head_dim}: use the number of channels of a head, 1 or more")
    if clamp is not None and clamp < 0:
        raise ValueError(
            f"clamp is {clamp}, but it is a distance: use the largest that is told apart, such as 1000, or None for all"
        )
    base(base_)


def distance_queries(encoding: TransformerXL, q: Tensor) -> None:
    """Queries meet distances in each head."""
    found, made = (q.shape[1], q.shape[-1]), (encoding.heads, encoding.head_dim)
    if not torch.compiler.is_exporting() and found != made:
        raise ValueError(
            f"TransformerXL was made for heads={made[0]} and head_dim={made[1]}, and q has {found[0]} heads "
            f"of {found[1]} channels: make it with TransformerXL(model_dim, {found[0]}, {found[1]})"
        )


def clamped(clamp: int | None, qpos: Tensor, kpos: Tensor) -> None:
    """Distances are clamped by index."""
    if clamp is not None and (qpos.is_floating_point() or kpos.is_floating_point()):
        raise ValueError(
            f"qpos is {qpos.dtype} and kpos {kpos.dtype}, but with clamp={clamp} distances are looked up: "
            f"use whole positions, such as torch.arange(length), or clamp=None"
        )


def shifted(x: Tensor, keys: int) -> None:
    """Rows have a column for each distance from the last query back to the first key."""
    queries, columns = x.shape[-2:]
    if torch.compiler.is_exporting():
        return
    if not (0 < keys <= columns and queries <= columns):
        raise ValueError(
            f"x has {columns} columns for {queries} queries and {keys} keys: use one for each distance from {keys - 1} "
            f"down to 0, and at least as many as queries, or on to {1 - queries} for keys of the future"
        )
