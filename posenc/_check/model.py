"""The transformer: its sizes, its input, what it generates and its file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from posenc.cache import KVCache
    from posenc.memory import Memory
    from posenc.model import Transformer


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


def memory_length(value: int) -> None:
    if value < 0:
        raise ValueError(f"length is {value}: use how many of the latest tokens to remember, 0 for none")


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
