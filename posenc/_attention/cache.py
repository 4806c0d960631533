"""Decoding with a memory: the keys and values so far, all of them or those of a window."""

import torch
from torch import Tensor

from posenc._attention.encoding import Encoding
from posenc._attention.kept import Kept
from posenc._attention.masks import check_window
from posenc._attention.spans import Positions, Span, known
from posenc._require import require_positions

AXES = (2, 2, -1)  # where tokens lie in k, v and pos


class KVCache:
    """The keys and values of all tokens so far, so that a new token costs one row of attention.

    Keys are stored as `encoding.key` returned them: a rotated key stays right, since its position does
    not change. Positions are kept as they came, so a window changes no position. Memory doubles when it is
    full, so n tokens cost O(n) copies. For inference only. `attention(..., cache=cache)` extends it.

    Args:
        window: How many of the latest tokens a token sees, itself included. Tokens that no later token will see are
            dropped. Default: all are seen.
        sinks: How many of the first tokens stay in sight beside the window. Default: 0.

    Raises:
        ValueError: If window is below 1, or sinks below 0.

    Example:
        >>> from posenc import KVCache, RoPE
        >>> cache, rope = KVCache(window=3), RoPE(8)
        >>> for t in range(5):
        ...     k, v, kpos = cache.extend(torch.ones(1, 2, 1, 8), torch.ones(1, 2, 1, 8), torch.tensor([t]), rope)
        >>> kpos
        tensor([2, 3, 4])
    """

    def __init__(self, window: int | None = None, sinks: int = 0) -> None:
        check_window(window, sinks)
        self.window, self.sinks = window, sinks
        self.padded = False
        """Whether padding was among the tokens; then position -1 is padding, and others are 0 or more."""
        self.padding = 0
        """How many tokens before the sinks are held as well, since they are padding in some sequence."""
        self.seen = 0
        """How many tokens have come, also those that were dropped."""
        self._store: list[
            Tensor
        ] = []  # k, v and pos, with room for more tokens than have come
        self.kept = Kept()
        """Tables that stay the same while tokens come."""
        self._head = self._tail = self._end = (
            0  # in use are [0, head) and [tail, end), head <= tail
        )
        self._first: int | None = (
            None  # the first position, if those that are held are known to follow one another
        )
        self.known: (
            object | None
        ) = ()  # caches with the same object hold the same positions; None is unknown

    def __len__(self) -> int:
        """How many tokens are held."""
        return self._head + self._end - self._tail

    @property
    def positions(self) -> Tensor:
        """The positions that are held, (L,) or (B, L)."""
        return self._held(2) if self._store else torch.arange(0)

    @property
    def span(self) -> Span | None:
        """The positions that are held, if they are known to follow one another; then no device is asked for them."""
        return None if self._first is None else Span(self._first, len(self))

    def extend(
        self, k: Tensor, v: Tensor, pos: Positions, encoding: Encoding | None = None, *,
        padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """Adds tokens, and returns the keys, values and positions that the first of them may see.

        With a window, pass `sliding_window(...)` as mask when several tokens are added at once: the returned keys
        cover the first token's window, and later tokens must not see the oldest.

        Args:
            k: (B, H, L, d); as projected if `encoding` is given.
            v: (B, H, L, d_v).
            pos: (L,) or (B, L), or a `Span`.
            encoding: Its `key` turns k once, before k is stored. If `encoding.raw_keys`, k is stored as projected,
                and all keys are turned at each step.
            padding_mask: bool (B, L), True for real tokens. Padding is held at position -1.

        Returns:
            k, v and pos of all tokens that are held, the new ones included.

        Raises:
            ValueError: If gradients are wanted, or if anything but the length differs from before.
        """
        span = known(pos)
        if isinstance(pos, Span):
            pos = pos.tensor(k.device)
        if encoding is not None and not encoding.raw_keys:
            places = pos if padding_mask is None else pos.where(padding_mask, -1)
            k = encoding.key(
                k,
                places.clamp(min=0)
                if self.padded or padding_mask is not None
                else places,
            )
        k, v, pos = self.add(k, v, pos, span, padding_mask)
        if encoding is not None and encoding.raw_keys:
            k = encoding.key(k, pos.clamp(min=0) if self.padded else pos)
        return k, v, pos

    def add(
        self,
        k: Tensor,
        v: Tensor,
        pos: Tensor,
        span: Positions,
        padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same for keys that need no turning, with what is known of their positions.

        Args:
            k: (B, H, L, d), as it is to be held.
            v: (B, H, L, d_v).
            pos: (L,) or (B, L).
            span: The same, or the `Span` that it is.
            padding_mask: As for `extend`.

        Returns:
            As `extend`.
        """
        if padding_mask is not None:
            pos, self.padded = pos.where(padding_mask, -1), True
            self.padding = self._padding_with(pos)
        _check_extension(k, v, pos, self._store)
        if not self._store:
            self._store = [k[:, :, :0], v[:, :, :0], pos[..., :0]]
        if k.shape[2]:
            ahead = self.ahead(pos if self.padded else span)
            self._first = ahead.start if isinstance(ahead, Span) else None
            self._head, self._tail = self._kept(self.padding)
        if self._end + k.shape[2] > self._store[2].shape[-1]:
            self._move(room=k.shape[2])
        start, self._end = self._end, self._end + k.shape[2]
        for store, new, axis in zip(self._store, (k, v, pos), AXES, strict=True):
            store.narrow(axis, start, new.shape[axis]).copy_(new)
        self.seen += k.shape[2]
        self._changed()
        k, v, pos = (self._held(n) for n in range(3))
        return k, v, pos

    def ahead(self, pos: Positions, padding_mask: Tensor | None = None) -> Positions:
        """The positions that will be held when tokens at pos are added, without adding them; padding is at -1.

        Args:
            pos: (L,) or (B, L) with padding at -1, or a `Span`.
            padding_mask: Whether there is padding among them.

        Returns:
            (L,) or (B, L), or a `Span`.
        """
        length = pos.length if isinstance(pos, Span) else pos.shape[-1]
        if not len(self):
            return pos
        padding = (
            self.padding
            if padding_mask is None or isinstance(pos, Span)
            else self._padding_with(pos)
        )
        head, tail = self._kept(padding) if length else (self._head, self._tail)
        dropped = tail - head - (self._tail - self._head)
        span = self.span
        follows = (
            isinstance(pos, Span)
            and span is not None
            and (not length or pos.start == span.end)
        )
        if follows and span is not None and (head == 0 or not dropped):
            return Span(span.start + dropped, span.length - dropped + length)
        if isinstance(pos, Span):
            pos = pos.tensor(self._store[2].device).to(self._store[2].dtype)
        store = self._store[2]
        parts = store[..., :head], store[..., tail : self._end], pos
        batch = torch.broadcast_shapes(store.shape[:-1], pos.shape[:-1])
        return torch.cat([part.expand(*batch, -1) for part in parts], -1)

    def keep(self, index: Tensor) -> None:
        """Drops all tokens but those at `index`. The others keep their positions, and a window goes on with them.

        Args:
            index: int64, (n,) for all sequences, or (B, n), a row for each. It counts the tokens that are held, in
                their order: 0 <= index < len(cache).

        Raises:
            ValueError: If an index is not among the tokens that are held.
        """
        _check_index(index, self._store, len(self))
        for n, axis in enumerate(AXES):
            held = self._held(n)
            if index.ndim == 2 and n < 2:
                shape = (*held.shape[:2], index.shape[1], held.shape[3])
                self._store[n] = held.gather(2, index[:, None, :, None].expand(shape))
            elif index.ndim == 2:
                self._store[n] = held.expand(index.shape[0], -1).gather(1, index)
            else:
                self._store[n] = held.index_select(axis, index)
        self._head, self._tail, self._end, self._first = 0, 0, index.shape[-1], None
        self._changed()

    def _changed(self) -> None:
        """What is held is new. A compiler would make a program for each such object, so it gets none."""
        self.known = None if torch.compiler.is_compiling() else object()

    def _padding_with(self, pos: Tensor) -> int:
        """How many tokens before the sinks are held as well: sinks are the first real tokens.

        After real tokens padding has no place, where only the last tokens are kept.
        """
        if self.window is None:
            return self.padding
        if len(self):
            pos = torch.cat((self.positions.expand(len(pos), -1), pos), -1)
        if bool(((pos[:, 1:] < 0) & (pos[:, :-1] >= 0)).any()):
            raise ValueError(
                f"padding follows real tokens, and the cache keeps the {self.window} that came last: pad on the left, "
                f"or use window=None"
            )
        if (
            self.sinks and self._head == self._tail and pos.numel()
        ):  # nothing was dropped yet
            return int((pos < 0).sum(-1).max())
        return self.padding

    def _kept(self, padding: int) -> tuple[int, int]:
        """Where head and tail will be: the sinks and the window - 1 latest stay, which the next token may see."""
        if self.window is None or self._end - self._tail < self.window:
            return self._head, self._tail
        tail = self._end - self.window + 1
        if (
            self._head == self._tail
        ):  # nothing was dropped since the last move: sinks may still grow
            return min(self.sinks + padding, tail), tail
        return self._head, tail

    def _move(self, room: int) -> None:
        """To new memory, without what was dropped; what was returned before stays as it is."""
        length = len(self)
        for n, axis in enumerate(AXES):
            held = self._held(n)
            shape = list(held.shape)
            shape[axis] = max(length + room, 2 * length)
            self._store[n] = held.new_empty(shape)
            self._store[n].narrow(axis, 0, length).copy_(held)
        self._tail, self._end = self._head, length

    def _held(self, n: int) -> Tensor:
        store, axis = self._store[n], AXES[n]
        if self._head in (0, self._tail):  # in one piece
            start = 0 if self._head else self._tail
            return store.narrow(axis, start, self._end - start)
        latest = store.narrow(axis, self._tail, self._end - self._tail)
        return torch.cat((store.narrow(axis, 0, self._head), latest), axis)


def _check_extension(k: Tensor, v: Tensor, pos: Tensor, store: list[Tensor]) -> None:
    """New keys and values fit those that the cache holds, and want no gradient."""
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
    require_positions(pos, k)
    for name, new, old in zip(("k", "v", "pos"), (k, v, pos), store, strict=False):
        axis = 2 if name != "pos" else -1
        fits = (
            new.ndim == old.ndim
            and new.narrow(axis, 0, 0).shape == old.narrow(axis, 0, 0).shape
        )
        if not fits or new.dtype != old.dtype or new.device != old.device:
            raise ValueError(
                f"{name} is {tuple(new.shape)}, {new.dtype} on {new.device}, and the cache holds {tuple(old.shape)}, "
                f"{old.dtype} on {old.device}: only the length may differ; for anything else start a new KVCache()"
            )


def _check_index(index: Tensor, store: list[Tensor], length: int) -> None:
    """Tokens to keep are among those that the cache holds."""
    if not store:
        raise ValueError(
            "the cache is empty, so there is nothing to keep: extend it first"
        )
    if (
        index.dtype != torch.int64
        or index.ndim not in (1, 2)
        or (index.ndim == 2 and len(index) != len(store[0]))
    ):
        raise ValueError(
            f"index is {tuple(index.shape)}, {index.dtype}: use whole numbers, (n,) for all sequences or "
            f"(B, n) = ({len(store[0])}, n), such as mask.nonzero()[:, 0]"
        )
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < length:
        raise ValueError(
            f"index goes from {int(index.min())} to {int(index.max())}, but the cache holds {length} tokens: "
            f"use 0 to {length - 1}, which count the tokens that are held, not their positions"
        )
