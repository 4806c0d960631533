"""Decoding with a memory: the keys and values so far, all of them or those of a window."""

import torch
from torch import Tensor

from posenc import _check
from posenc.encoding import Encoding

AXES = (2, 2, -1)  # where tokens lie in k, v and pos


class KVCache:
    """The keys and values of all tokens so far, so that a new token costs one row of attention.

    Keys are stored as `encoding.key` returned them: a rotated key stays right, since its position does
    not change. With `window`, a token sees the `window` latest tokens, itself included, and the first
    `sinks` ones; what no later token will see is dropped. Positions are kept as they came, so a window
    changes no position. Memory doubles when it is full, so n tokens cost O(n) copies. For inference only.
    Raises ValueError unless window is None or at least 1, and sinks at least 0.
    """

    def __init__(self, window: int | None = None, sinks: int = 0) -> None:
        _check.window(window, sinks)
        self.window, self.sinks = window, sinks
        self.seen = 0
        """How many tokens have come, also those that were dropped."""
        self._store: list[Tensor] = []  # k, v and pos, with room for more tokens than have come
        self._head = self._tail = self._end = 0  # in use are [0, head) and [tail, end), head <= tail

    def __len__(self) -> int:
        """How many tokens are held."""
        return self._head + self._end - self._tail

    @property
    def positions(self) -> Tensor:
        """The positions that are held, (L,) or (B, L)."""
        return self._held(2) if self._store else torch.arange(0)

    def extend(
        self, k: Tensor, v: Tensor, pos: Tensor, encoding: Encoding | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Takes k (B, H, L, d), v (B, H, L, d_v) and pos (L,) or (B, L); returns what the new tokens may see.

        With `encoding`, k is as projected and comes back through `encoding.key`: turned once, before it
        is stored, or, if `encoding.raw_keys`, stored as it is and turned anew with all others. Of a
        chunk with several tokens, the later see less than the first: `sliding_window` is their mask.
        Raises ValueError if gradients are wanted, or if more than the length differs from before.
        """
        if encoding is not None and not encoding.raw_keys:
            k = encoding.key(k, pos)
        _check.cached(k, v, pos, self._store)
        if not self._store:
            self._store = [k[:, :, :0], v[:, :, :0], pos[..., :0]]
        if k.shape[2]:
            self._evict()
        if self._end + k.shape[2] > self._store[2].shape[-1]:
            self._move(room=k.shape[2])
        start, self._end = self._end, self._end + k.shape[2]
        for store, new, axis in zip(self._store, (k, v, pos), AXES, strict=True):
            store.narrow(axis, start, new.shape[axis]).copy_(new)
        self.seen += k.shape[2]
        k, v, pos = (self._held(n) for n in range(3))
        if encoding is not None and encoding.raw_keys:
            k = encoding.key(k, pos)
        return k, v, pos

    def keep(self, index: Tensor) -> None:
        """Drops all tokens but those at `index`: (n,) for all sequences, or a row for each, (B, n).

        An index counts the tokens that are held, in their order: 0 <= index < len(cache). What is left keeps
        its positions, (B, n) if rows differ, and a window goes on with it. Raises ValueError for others.
        """
        _check.kept(index, self._store, len(self))
        for n, axis in enumerate(AXES):
            held = self._held(n)
            if index.ndim == 2 and n < 2:
                shape = (*held.shape[:2], index.shape[1], held.shape[3])
                self._store[n] = held.gather(2, index[:, None, :, None].expand(shape))
            elif index.ndim == 2:
                self._store[n] = held.expand(index.shape[0], -1).gather(1, index)
            else:
                self._store[n] = held.index_select(axis, index)
        self._head, self._tail, self._end = 0, 0, index.shape[-1]

    def _evict(self) -> None:
        """Leaves the sinks and the window - 1 latest tokens, which the next token may see beside itself."""
        if self.window is not None and self._end - self._tail >= self.window:
            tail = self._end - self.window + 1
            if self._head == self._tail:  # nothing was dropped since the last move: sinks may still grow
                self._head = min(self.sinks, tail)
            self._tail = tail

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


def sliding_window(qpos: Tensor, kpos: Tensor, window: int, sinks: int = 0) -> Tensor:
    """The mask of a window: a query sees keys less than `window` positions away, and the first `sinks`.

    qpos (Lq,) or (B, Lq), kpos (Lk,) or (B, Lk) -> bool, (Lq, Lk), or (B, 1, Lq, Lk) if positions are
    batched: the `mask` of `attend`. With causality a query sees `window` keys, itself included.
    """
    _check.window(window, sinks)
    near = (qpos[..., :, None] - kpos[..., None, :]).abs() < window  # (…, Lq, Lk)
    near = near | (kpos < sinks)[..., None, :]
    return near if near.ndim == 2 else near[:, None]
