"""Decoding with a memory: the keys and values so far, all of them or those of a window."""

import torch
from torch import Tensor

from posenc._attention.encoding import Encoding
from posenc._require import require_positions

AXES = (2, 2, -1)  # where tokens lie in k, v and pos


class KVCache:
    """The keys and values of all tokens so far, so that a new token costs one row of attention.

    Keys are stored as `encoding.key` returned them: a rotated key stays right, since its position does
    not change. Positions are kept as they came, so a window changes no position. Memory doubles when it is
    full, so n tokens cost O(n) copies. For inference only. `attention(..., cache=cache)` extends it.

    Args:
        window: how many of the latest tokens a token sees, itself included; all unless given. Tokens that no
            later token will see are dropped.
        sinks: how many of the first tokens stay in sight beside the window (0).

    Raises:
        ValueError: if window is below 1, or sinks below 0.

    Example:
        >>> from posenc import KVCache, RoPE
        >>> cache, rope = KVCache(window=3), RoPE(8)
        >>> for t in range(5):
        ...     k, v, kpos = cache.extend(torch.ones(1, 2, 1, 8), torch.ones(1, 2, 1, 8), torch.tensor([t]), rope)
        >>> kpos
        tensor([2, 3, 4])
    """

    def __init__(self, window: int | None = None, sinks: int = 0) -> None:
        _check_window(window, sinks)
        self.window, self.sinks = window, sinks
        self.padded = False
        """Whether padding was among the tokens; then position -1 is padding, and others are 0 or more."""
        self.padding = 0
        """How many tokens before the sinks are held as well, since they are padding in some sequence."""
        self.seen = 0
        """How many tokens have come, also those that were dropped."""
        self._store: list[Tensor] = []  # k, v and pos, with room for more tokens than have come
        self._head = self._tail = self._end = 0  # in use are [0, head) and [tail, end), head <= tail
        self.known: object | None = ()  # caches with the same object hold the same positions; None is unknown

    def __len__(self) -> int:
        """How many tokens are held."""
        return self._head + self._end - self._tail

    @property
    def positions(self) -> Tensor:
        """The positions that are held, (L,) or (B, L)."""
        return self._held(2) if self._store else torch.arange(0)

    def extend(
        self, k: Tensor, v: Tensor, pos: Tensor, encoding: Encoding | None = None, *,
        padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """Adds tokens, and returns the keys, values and positions that the first of them may see.

        With a window, pass `sliding_window(...)` as mask when several tokens are added at once: the returned keys
        cover the first token's window, and later tokens must not see the oldest.

        Args:
            k: (B, H, L, d); as projected if `encoding` is given.
            v: (B, H, L, d_v).
            pos: (L,) or (B, L).
            encoding: its `key` turns k once, before k is stored. If `encoding.raw_keys`, k is stored as projected,
                and all keys are turned at each step.
            padding_mask: bool (B, L), True for real tokens. Padding is held at position -1.

        Returns:
            k, v and pos of all tokens that are held, the new ones included.

        Raises:
            ValueError: if gradients are wanted, or if anything but the length differs from before.
        """
        if padding_mask is not None:
            pos, self.padded = pos.where(padding_mask, -1), True
            if self.window is not None:
                self._hold_padding(pos, self.window)
        if encoding is not None and not encoding.raw_keys:
            k = encoding.key(k, self._places(pos))
        _check_extension(k, v, pos, self._store)
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
        self._changed()
        k, v, pos = (self._held(n) for n in range(3))
        if encoding is not None and encoding.raw_keys:
            k = encoding.key(k, self._places(pos))
        return k, v, pos

    def keep(self, index: Tensor) -> None:
        """Drops all tokens but those at `index`. The others keep their positions, and a window goes on with them.

        Args:
            index: int64, (n,) for all sequences, or (B, n), a row for each. It counts the tokens that are held, in
                their order: 0 <= index < len(cache).

        Raises:
            ValueError: if an index is not among the tokens that are held.
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
        self._head, self._tail, self._end = 0, 0, index.shape[-1]
        self._changed()

    def _layout(self) -> tuple[object, ...]:
        """What decides which tokens are dropped next."""
        return (self.window, self.sinks, self.padded, self.padding, self._head, self._tail, self._end)

    def _changed(self) -> None:
        """What is held is new. A compiler would make a program for each such object, so it gets none."""
        self.known = None if torch.compiler.is_compiling() else object()

    def _places(self, pos: Tensor) -> Tensor:
        """Positions that an encoding can look up: padding is not attended to, so any place serves."""
        return pos.clamp(min=0) if self.padded else pos

    def _hold_padding(self, pos: Tensor, window: int) -> None:
        """Sinks are the first real tokens, so padding before them is held as well; after them it has no place."""
        if len(self):
            pos = torch.cat((self.positions.expand(len(pos), -1), pos), -1)
        if bool(((pos[:, 1:] < 0) & (pos[:, :-1] >= 0)).any()):
            raise ValueError(
                f"padding follows real tokens, and the cache keeps the {window} that came last: pad on the left, or "
                f"use window=None"
            )
        if self.sinks and self._head == self._tail and pos.numel():  # nothing was dropped yet
            self.padding = int((pos < 0).sum(-1).max())

    def _evict(self) -> None:
        """Leaves the sinks and the window - 1 latest tokens, which the next token may see beside itself."""
        if self.window is not None and self._end - self._tail >= self.window:
            tail = self._end - self.window + 1
            if self._head == self._tail:  # nothing was dropped since the last move: sinks may still grow
                self._head = min(self.sinks + self.padding, tail)
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


def same_tokens(one: KVCache, other: KVCache) -> bool:
    """Whether two caches hold tokens at the same positions and will drop the same, so that layers may share masks.

    Numbers are looked at once, and not at all where both caches have got the same tokens all along.
    """
    if one.known is not None and one.known is other.known:
        return True
    if one._layout() != other._layout() or not equal(one.positions, other.positions):
        return False
    one.known = other.known = other.known or object()
    return True


def equal(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers, in one shape and dtype, on one device, which has to be waited for."""
    if (one.shape, one.dtype, one.device) != (other.shape, other.dtype, other.device):
        return False
    return torch.equal(one, other)


def sliding_window(qpos: Tensor, kpos: Tensor, window: int, sinks: int = 0) -> Tensor:
    """The mask of a window: a query sees keys less than `window` positions away, and the first `sinks`.

    Args:
        qpos: (Lq,) or (B, Lq).
        kpos: (Lk,) or (B, Lk).
        window: in positions, 1 or more. With causality a query sees `window` keys, itself included.
        sinks: keys at positions below this stay in sight (0).

    Returns:
        The `mask` of `attention`, bool, (Lq, Lk), or (B, 1, Lq, Lk) if positions are batched.

    Raises:
        ValueError: if window is below 1, or sinks below 0.

    Example:
        >>> from posenc import sliding_window
        >>> sliding_window(torch.arange(4), torch.arange(4), 2).tril().int()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [0, 1, 1, 0],
                [0, 0, 1, 1]], dtype=torch.int32)
    """
    _check_window(window, sinks)
    near = (qpos[..., :, None] - kpos[..., None, :]).abs() < window  # (…, Lq, Lk)
    near = near | (kpos < sinks)[..., None, :]
    return near if near.ndim == 2 else near[:, None]


def _check_window(value: int | None, sinks: int) -> None:
    """A window holds at least the token itself."""
    if value is not None and value < 1:
        raise ValueError(f"window is {value}, but a token sees itself: use 1 or more, or None for all tokens")
    if sinks < 0:
        raise ValueError(f"sinks is {sinks}: use the number of first tokens to keep, 0 for none")


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
        fits = new.ndim == old.ndim and new.narrow(axis, 0, 0).shape == old.narrow(axis, 0, 0).shape
        if not fits or new.dtype != old.dtype or new.device != old.device:
            raise ValueError(
                f"{name} is {tuple(new.shape)}, {new.dtype} on {new.device}, and the cache holds {tuple(old.shape)}, "
                f"{old.dtype} on {old.device}: only the length may differ; for anything else start a new KVCache()"
            )


def _check_index(index: Tensor, store: list[Tensor], length: int) -> None:
    """Tokens to keep are among those that the cache holds."""
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
