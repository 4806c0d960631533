"""How the audit sees a model: tokens, positions, mask and state go in, and logits come out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

TURN = threading.RLock()
"""Held by an audit, since it changes what belongs to the process, such as filters of warnings."""


class Refused(Exception):
    """The model has no such input or ability; the message says which. A test that needs it does not apply."""


class Unfit(ValueError):
    """What the model takes or returns is not what the audit can use; the message says what is."""


class Ended(Exception):
    """The model ends the program, as `sys.exit` does; it is reported like any other exception of a model."""


@runtime_checkable
class Adapter(Protocol):
    """What the tests need of a model. `adapt` makes one of most models; anything with these names will do.

    These may be there as well, and tests that need them do not apply without:

    - `step(tokens, state, positions=None, mask=None) -> (logits, state)` goes on from a cache; the first `state` is
      None, and `mask` covers the past and the new tokens.
    - `reorder(state, order) -> state` picks rows of the batch, as beam search does.
    - `crop(state, n) -> state` drops the last n tokens.
    - `generate(tokens, forced=None, **how) -> (sequences, logits of the new tokens)`; how: mask, use_cache, static,
      beams, lookup, past. Without logits, None: then its tokens should be the likeliest of a pass. `adapt` makes one of
      a module's own `generate(tokens, max_new_tokens)`.
    - `variants() -> {words: adapter}`: the same weights with one thing changed, such as "a window of 64". A test that
      fails is tried on each, and a variant that passes is named in the report.
    - `explained`, a dict: in words of `variants`, why a failure that passes with that variant is a property.
    - `logits_by_default(tokens, positions)`: as `logits`, without the argument that says whether a cache is kept.
    - `logits_of_embeddings(tokens, positions=None, mask=None)`: as `logits`, with embeddings given in place of tokens.
    - `logits_beside_padding(tokens, left)`: as `logits`, with padding that is masked before (left) or after the source
      that a decoder looks at.
    - `part`: the module that embeds the tokens, where `module` has a second table for others.
    - `causal`, `recurrent`, `packs`: True or False where it is known that tokens do not see ahead, that a state passes
      through padding too, and that documents are separated by positions that restart. `causal_why` says in words who
      says so, `pads` what padding does to a text that no mask undoes, and `pads_right` that padding belongs after it.
    - `axes`: 3 where positions are (3, B, L), as with M-RoPE; a text without a picture has the same number on each.
      `coordinates(tokens, grid) -> (3, B, L)` makes them, where `image_token` stands for each token of a picture of
      grid (t, h, w).
    - `scheme`: "relative", "absolute" or "none". `scales`: in words, what scores depend on besides distances, such as
      "a temperature that grows with the position".

    A module or its class may have those of the last three points as attributes, and `adapt` finds them.

    Example:
        >>> from posenc import Transformer
        >>> from posenc.audit import adapt
        >>> isinstance(adapt(Transformer(50, layers=1, model_dim=32)), Adapter)
        True
    """

    takes_positions: bool
    takes_mask: bool
    vocabulary: int
    module: nn.Module | None
    """Has the weights, for dtype, device and gradients. None for a function of which nothing is known."""

    def logits(self, tokens: Tensor, positions: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Logits of the token after each.

        Args:
            tokens: int64 (B, L).
            positions: int64 (B, L). Default: the model's own.
            mask: int64 (B, L), 1 for real tokens and 0 for padding.

        Returns:
            (B, L, V).

        Raises:
            Refused: If the model has no such argument.
        """
        ...


_endings: ContextVar[list[Ended] | None] = ContextVar("endings", default=None)
_watched: ContextVar[dict[str, float] | None] = ContextVar("watched", default=None)


@contextmanager
def endings() -> Iterator[list[Ended]]:
    """Collects how often a model ends the program: some calls only try what a model takes, and go on without."""
    collected: list[Ended] = []
    token = _endings.set(collected)
    try:
        yield collected
    finally:
        _endings.reset(token)


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Collects inputs that a model changes: by name, the largest share of the entries that became others."""
    changed: dict[str, float] = {}
    token = _watched.set(changed)
    try:
        yield changed
    finally:
        _watched.reset(token)


def ask(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Calls a model, or what belongs to one, with copies of tokens, positions and masks: it may change its inputs.

    Logits come back as a copy, too: it may use the same memory in its next call.

    Raises:
        Ended: If it ends the program.
    """
    names = ("tokens", "state", "positions", "mask") if len(given) == 4 else ("tokens", "positions", "mask")
    inputs = [*zip(names, given, strict=False), *named.items()]
    copies = [_own(value) for _, value in inputs]
    count = len(inputs) - len(named)
    try:
        out = function(*copies[:count], **dict(zip(named, copies[count:], strict=True)))
    except SystemExit as error:
        ended = Ended(f"the model ends the program, SystemExit({'' if error.code is None else error.code!r})")
        if (seen := _endings.get()) is not None:
            seen.append(ended)
        raise ended from error
    if (changed := _watched.get()) is not None:
        for (name, value), mine in zip(inputs, copies, strict=True):
            if mine is not value and (share := _differs(mine, value)):
                changed[name] = max(share, changed.get(name, 0.0))
    if isinstance(out, Tensor):
        return out.clone()
    return tuple(x.clone() if isinstance(x, Tensor) else x for x in out) if type(out) is tuple else out


def _own(value: Any) -> Any:
    """A copy of a tensor of whole numbers; anything else, such as a cache, as it is."""
    return value.clone() if isinstance(value, Tensor) and not value.is_floating_point() else value


def _differs(after: Tensor, before: Tensor) -> float:
    """The share of entries that differ; all of them where the shapes do."""
    if after.shape != before.shape:
        return 1.0
    return float((after != before).double().mean()) if after.numel() else 0.0


def logits_of(out: Any) -> Tensor:
    """The logits (B, L, V) in what a model returned: a tensor, `.logits`, an entry of that name, or part of a tuple.

    Where there are none, `last_hidden_state` (B, L, d) serves: all questions are about changes.

    Raises:
        Unfit: If there is neither.
    """
    for name in ("logits", "last_hidden_state"):
        value = out.get(name) if isinstance(out, dict) else getattr(out, name, None)
        if isinstance(value, Tensor):
            out = value
            break
    if isinstance(out, tuple | list):
        out = next((part for part in out if isinstance(part, Tensor) and part.ndim == 3), out)
    if not isinstance(out, Tensor):
        raise Unfit(f"the model returns {type_name(out)}: return logits, a tensor (B, L, V)")
    if out.ndim != 3 or not out.is_floating_point():
        raise Unfit(f"the model returns {tuple(out.shape)}, {out.dtype}: return logits (B, L, V), floating point")
    return out


def device_of(module: nn.Module | None) -> torch.device:
    """Where a module has its weights; the CPU if it has none."""
    tensors = () if module is None else (*module.parameters(), *module.buffers())
    return next((each.device for each in tensors), torch.device("cpu"))


def type_name(value: Any) -> str:
    """What a value is, in a word."""
    return "None" if value is None else type(value).__name__
