"""What a pass of attention knows before it begins: where queries and keys lie, and which query sees which key."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import torch
from torch import Tensor

from posenc._attention.blocks import causal_blocks, mask_blocks, span_blocks
from posenc._attention.kept import Kept, alike, count, may_keep, with_counts
from posenc._attention.masks import (
    Pattern,
    allowed_mask,
    check_mask_kind,
    check_window,
    open_mask,
    pattern_of,
)
from posenc._attention.spans import (
    Positions,
    Span,
    as_tensor,
    equal,
    known,
    length_of,
    readable,
    signed,
)
from posenc._attention.waves import waves_ahead
from posenc._require import require_broadcast, require_positions, require_tensor

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

Made = TypeVar("Made")


class Past(Protocol):
    """What a plan asks of a cache."""

    window: int | None
    sinks: int
    padded: bool
    known: object | None
    kept: Kept

    def ahead(
        self, pos: Positions, padding_mask: Tensor | None = None
    ) -> Positions: ...


class Plan:
    """Where queries and keys of a pass lie and which query sees which key: made once, for all layers.

    A plan owns what it was made from, and does not change. What follows from it is made when it is first asked for,
    and kept: the pattern, the mask, the block mask of flex_attention, the sines and cosines of a rotary encoding. A
    layer that the plan does not fit is refused. Encodings, scales, dtypes and backends of layers may differ.

    Args:
        pos: Positions of the queries: a `Span`, or a tensor (L,) or (B, L).
        kpos: Positions of the keys that come with them, the same way. Default: those of the queries.
        causal: Whether a query sees only keys at positions up to its own. Default: True.
        mask: bool, True where a query may attend; broadcasts to (B, H, Lq, Lk), the keys in a cache included.
        padding_mask: bool (B, Lk), True for real tokens among the keys that come.
        window: As for `sliding_window`. Default: none, or the cache's.
        sinks: As for `sliding_window`. Default: 0, or the cache's.
        cache: A layer's `KVCache` as it stands before the pass. The plan then covers the keys in it as well, and
            serves each layer whose cache holds the same positions.
        block_mask: What `flex_attention` shall use instead of a block mask made here. It says all that a query may
            see, so it goes with nothing else that hides, and with no other backend.

    Raises:
        TypeError: If an argument is of another kind.
        ValueError: If arguments do not fit one another.

    Example:
        >>> from posenc import ALiBi, Plan, Span, attention
        >>> q, k, v = torch.randn(3, 1, 2, 5, 4)
        >>> plan = Plan(Span(0, 5))
        >>> plan.pattern
        'triangle'
        >>> layers = [attention(q, k, v, ALiBi(2), plan) for _ in range(3)]
    """

    def __init__(
        self, pos: Positions, kpos: Positions | None = None, *, causal: bool = True, mask: Tensor | None = None,
        padding_mask: Tensor | None = None, window: int | None = None, sinks: int = 0, cache: Past | None = None,
        block_mask: "BlockMask | None" = None,
    ) -> None:  # fmt: skip
        new = pos if kpos is None else kpos
        _check_parts(pos, new, mask, padding_mask, window, sinks, cache)
        self._own = {
            "pos": pos,
            "kpos": new,
            "mask": mask,
            "padding_mask": padding_mask,
        }
        self._block_mask, self._causal = block_mask, causal
        self._window, self._sinks = (
            (window, sinks) if cache is None else (cache.window, cache.sinks)
        )
        self._padded = padding_mask is not None or (cache is not None and cache.padded)
        self._made: dict[Any, Any] = {}
        if padding_mask is not None:  # padding is at position -1
            places = signed(as_tensor(new, padding_mask.device))
            new = places.where(padding_mask, -1)
        self._new = new
        self._came = new if cache is None or self._padded else known(new)
        self._keys = new if cache is None else cache.ahead(self._came, padding_mask)
        self._cached = cache is not None
        self.kept = None if cache is None else cache.kept
        """Where tables are kept from one pass to the next: in the cache."""
        self._before = None if cache is None else cache.known
        self._after = None if torch.compiler.is_compiling() else object()
        self._writes = _writes(self._own)
        if block_mask is not None and (
            mask is not None or self._padded or self._window is not None
        ):
            raise ValueError(
                "block_mask takes the place of every other mask: leave out mask, padding_mask and window, or put them "
                "into the block mask"
            )

    @classmethod
    def packed(
        cls,
        lengths: Sequence[int],
        *,
        causal: bool = True,
        device: torch.device | str | None = None,
    ) -> Self:
        """The plan of texts that follow one another in one row: each begins at position 0, and sees itself alone.

        Args:
            lengths: How many tokens each has, in their order. From FlashAttention's cu_seqlens:
                `cu_seqlens.diff().tolist()`.
            causal: Whether a query sees only keys at positions up to its own. Default: True.
            device: Of the layers.

        Raises:
            ValueError: If there is no text, or one without a token.

        Example:
            >>> from posenc import Plan
            >>> plan = Plan.packed([2, 3])
            >>> plan.qpos()
            tensor([0, 1, 0, 1, 2])
            >>> plan.allowed().int()
            tensor([[1, 0, 0, 0, 0],
                    [1, 1, 0, 0, 0],
                    [0, 0, 1, 0, 0],
                    [0, 0, 1, 1, 0],
                    [0, 0, 1, 1, 1]], dtype=torch.int32)
        """
        if not lengths or min(lengths) < 1:
            raise ValueError(
                f"lengths is {list(lengths)}: use how many tokens each text has, 1 or more; tensors of bounds, such as "
                f"cu_seqlens, become lengths by cu_seqlens.diff().tolist()"
            )
        pos = torch.cat([torch.arange(n, device=device) for n in lengths])
        text = (pos == 0).cumsum(0)
        return cls(pos, causal=causal, mask=text[:, None] == text)

    @property
    def causal(self) -> bool:
        """Whether a query sees only keys at positions up to its own."""
        return self._causal

    @property
    def mask(self) -> Tensor | None:
        """The mask that was given."""
        return self._own["mask"]  # type: ignore[return-value]

    @property
    def window(self) -> int | None:
        """How near a key must be to be seen, or None."""
        return self._window

    @property
    def queries(self) -> Positions:
        """Positions of the queries, a span wherever they are known to be one."""
        return self._once("queries", lambda: known(self._own["pos"]))  # type: ignore[arg-type]

    @property
    def keys(self) -> Positions:
        """Positions of all keys, those in the cache included, a span wherever they are known to be one.

        Padding is at -1.
        """
        same = self._keys is self._own["pos"]  # then their numbers are read once
        return self._once("keys", lambda: self.queries if same else known(self._keys))

    @property
    def block_mask(self) -> "BlockMask | None":
        """The block mask that was given."""
        return self._block_mask

    @property
    def pattern(self) -> Pattern:
        """Which query sees which key, in a word.

        "all" is every key. "triangle" is as many queries as keys, and query i sees keys 0 to i. "lower right" is more
        keys than queries, where the last query sees all of them. For anything else there is a "mask".
        """
        return self._once("pattern", self._find_pattern)

    @property
    def spans(self) -> tuple[Span, Span] | None:
        """Queries and keys as spans, where nothing but causality hides a key."""
        if self.pattern == "mask" or not (
            isinstance(self.queries, Span) and isinstance(self.keys, Span)
        ):
            return None
        return self.queries, self.keys

    def qpos(self, device: torch.device | None = None) -> Tensor:
        """Where the queries lie, for an encoding to look up.

        Args:
            device: Where it is wanted. Default: where positions are, or the CPU.

        Returns:
            (L,) or (B, L); padding is at 0.
        """
        pos: Any = self._own["pos"]
        return self._once(("qpos", device), lambda: self._places(pos, device))

    def kpos(self, device: torch.device | None = None) -> Tensor:
        """Where all keys lie, those in the cache included.

        Args:
            device: Where it is wanted. Default: where positions are, or the CPU.

        Returns:
            (L,) or (B, L); padding is at 0.
        """
        return self._shared("kpos", self._keys, device)

    def new_kpos(self, device: torch.device | None = None) -> Tensor:
        """Where the keys lie that come with the queries.

        Args:
            device: Where it is wanted. Default: where positions are, or the CPU.

        Returns:
            (L,) or (B, L); padding is at 0.
        """
        return self._shared("new_kpos", self._new, device)

    def allowed(self, device: torch.device | None = None) -> Tensor | None:
        """Where a query may attend.

        Args:
            device: Where it is wanted. Default: where positions are, or the CPU.

        Returns:
            bool, which broadcasts to (B, H, Lq, Lk); None is everywhere.
        """
        return self._once(("allowed", device), lambda: self._find_allowed(device))

    def open(
        self, device: torch.device | None = None
    ) -> tuple[Tensor | None, Tensor | None]:
        """The same for kernels that differ on a query that sees no key: here it sees all, and is named.

        Args:
            device: Where it is wanted. Default: where positions are, or the CPU.

        Returns:
            `allowed`, in which every query sees a key, and bool (…, Lq, 1), True for those that see none, or None
            where it is known that there are none.
        """
        return self._once(("open", device), lambda: self._find_open(device))

    def blocks(
        self, batch: int, heads: int, device: torch.device
    ) -> "BlockMask | None":
        """The blocks of queries and keys that flex_attention has to look at.

        Args:
            batch: How many texts there are.
            heads: How many heads queries have.
            device: Where it is wanted.

        Returns:
            The block mask; None is everywhere.
        """
        if self._block_mask is not None:
            return self._block_mask
        return self._once(
            ("blocks", device), lambda: self._find_blocks(batch, heads, device)
        )

    def waves(self, encoding: Any, pos: Tensor, x: Tensor) -> Any:
        """What `encoding.waves` makes of positions, once a pass, or each time where gradients flow into it.

        Args:
            encoding: Whose table it is.
            pos: What `qpos`, `kpos` or `new_kpos` returned.
            x: What is turned, whose dtype decides how exact the table has to be.

        Returns:
            What `encoding.waves` returns.
        """
        dtype = torch.promote_types(x.dtype, torch.float32)
        state = encoding.waves_state()
        if state is None:
            return encoding.waves(pos, dtype)
        counted = with_counts(state)
        for places, kept, at, found in self._made.setdefault("waves", []):
            if places is pos and kept == dtype and alike(at, counted):
                return found
        found = self._waves_ahead(encoding, state, pos, dtype)
        found = encoding.waves(pos, dtype) if found is None else found
        self._made["waves"].append((pos, dtype, counted, found))
        return found

    def _waves_ahead(
        self, encoding: Any, state: tuple[Any, ...], pos: Tensor, dtype: torch.dtype
    ) -> Any:
        """The waves of a new token from a table for the tokens to come, which lies in the cache; None without one."""
        if self.kept is None or self._padded or pos.shape != (1,) or not may_keep(pos):
            return None
        here = self.queries
        if not isinstance(here, Span) or pos is not self.qpos(pos.device):
            return None
        return waves_ahead(self.kept, encoding, state, here.start, dtype, pos.device)

    def extend(self, cache: Any, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Adds the keys and values that come to a layer's cache, which `check` has seen.

        Args:
            cache: The layer's `KVCache`.
            k: (B, Hk, L, d), as it is to be held.
            v: (B, Hk, L, d_v).

        Returns:
            All keys and values that are held.
        """
        same = self._before is not None and self._before is cache.known
        pos = self._once(("come", k.device), lambda: as_tensor(self._new, k.device))
        k, v, _ = cache.add(k, v, pos, self._came, self._own["padding_mask"])
        if same:  # then layers with the same past have got the same tokens
            cache.known = self._after
        return k, v

    def check(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cache: Past | None = None,
        whole: bool = False,
    ) -> None:
        """A layer fits: its shapes, its device, and its cache as it stands before.

        Args:
            q: (B, H, Lq, d).
            k: (B, Hk, Lk, d).
            v: (B, Hk, Lk, d_v).
            cache: The layer's.
            whole: Whether k and v are all keys already, those in the cache included.

        Raises:
            ValueError: If something does not fit.
        """
        _check_cache(self, cache, whole)
        _check_unchanged(self._writes, self._own)
        _check_sizes(self, q, k, whole)
        for name, x in self._own.items():
            if isinstance(x, Tensor) and x.device != q.device:
                raise ValueError(
                    f"the plan's {name} is on {x.device} and q on {q.device}: make the plan on the device of the "
                    f"layers, or of spans, which have none"
                )

    def _once(self, name: Any, make: Callable[[], Made]) -> Made:
        if name not in self._made:
            self._made[name] = make()
        found: Made = self._made[name]
        return found

    def _shared(self, name: str, pos: Positions, device: torch.device | None) -> Tensor:
        """Keys at the positions of the queries are given the same tensor, so that what is made of it is made once."""
        own = self._own["pos"]
        if pos is own or (isinstance(pos, Span) and pos == own):
            return self.qpos(device)
        if pos is self._keys and name != "kpos":
            return self.kpos(device)
        return self._once((name, device), lambda: self._places(pos, device))

    def _places(self, pos: Positions, device: torch.device | None) -> Tensor:
        pos = as_tensor(pos, device)
        return signed(pos).clamp(min=0) if self._padded else pos

    def _find_pattern(self) -> Pattern:
        if self.mask is not None or self._padded or self._block_mask is not None:
            return "mask"
        return pattern_of(self.queries, self.keys, self._causal, self._window)

    def _find_allowed(self, device: torch.device | None) -> Tensor | None:
        if self.pattern == "all" or self._block_mask is not None:
            return None
        held = as_tensor(self._keys, device) if self._hides_by_place else None
        return allowed_mask(
            self.qpos(device), self.kpos(device), held, causal=self._causal, mask=self.mask, window=self._window,
            sinks=self._sinks, padded=self._padded,
        )  # fmt: skip

    def _find_open(
        self, device: torch.device | None
    ) -> tuple[Tensor | None, Tensor | None]:
        allowed = self.allowed(device)
        if allowed is None or self.pattern != "mask":
            return allowed, None
        return open_mask(allowed)

    def _find_blocks(
        self, batch: int, heads: int, device: torch.device
    ) -> "BlockMask | None":
        if self.pattern == "all":
            return None
        queries, keys = self.queries, self.keys
        bare = self.mask is None and not self._padded
        spans = isinstance(queries, Span) and isinstance(keys, Span)
        if bare and spans and not torch.compiler.is_compiling():
            assert isinstance(queries, Span) and isinstance(keys, Span)
            hidden = self._causal, self._window, self._sinks
            ahead, sizes = queries.start - keys.start, (queries.length, keys.length)
            return span_blocks(ahead, keys.start, *sizes, *hidden, str(device))
        if bare and self._window is None:
            return causal_blocks(self.qpos(device), self.kpos(device), batch)
        allowed = self.allowed(device)
        assert allowed is not None
        return mask_blocks(allowed, self.lengths, batch, heads)

    @property
    def _hides_by_place(self) -> bool:
        """Whether it counts at which positions keys are held, padding at -1."""
        return self._padded or self._window is not None

    @property
    def lengths(self) -> tuple[int, int]:
        """How many queries and keys there are, those in the cache included."""
        return length_of(self._own["pos"]), length_of(self._keys)  # type: ignore[arg-type]


def _writes(own: dict[str, Any]) -> dict[str, int]:
    """How often tensors were written to in place, where torch counts that."""
    return {name: count(x) for name, x in own.items() if isinstance(x, Tensor)}


# ---- checks of input -------------------------------------------------------------------------------------------------


def _check_parts(
    pos: Any, kpos: Any, mask: Any, padding_mask: Any, window: int | None, sinks: int, cache: Any
) -> None:  # fmt: skip
    """What a plan is made from is what it should be."""
    for name, x in (("qpos", pos), ("kpos", kpos)):
        if not isinstance(x, Span):
            require_positions(x, None, name)
    check_mask_kind("mask", mask)
    if padding_mask is not None:
        require_tensor(
            padding_mask,
            "padding_mask",
            "use a bool tensor; causality alone is causal=True",
        )
        length = length_of(kpos)
        fits = torch.compiler.is_exporting() or (
            padding_mask.ndim == 2 and padding_mask.shape[1] == length
        )
        if padding_mask.dtype != torch.bool or not fits:
            raise ValueError(
                f"padding_mask is {tuple(padding_mask.shape)}, {padding_mask.dtype}: use bool, (B, {length}), "
                f"True for real tokens; one that says which query sees which key is mask="
            )
    check_window(window, sinks)
    if cache is not None and (window is not None or sinks):
        raise ValueError(
            "the cache has a window and sinks of its own: make it with KVCache(window, sinks)"
        )


def _check_unchanged(before: dict[str, int], own: dict[str, Any]) -> None:
    """Tensors that a plan owns still hold what they held."""
    if torch.compiler.is_compiling():
        return
    after = _writes(own)
    for name, times in before.items():
        if after[name] != times:
            raise ValueError(
                f"{name} was changed in place after the plan was made: make a new Plan for each pass, or give it a "
                f"tensor of its own"
            )


def _check_cache(plan: Plan, cache: Any, whole: bool) -> None:
    """A plan with keys in a cache meets that cache, before it is extended; one without meets none."""
    if plan._cached and cache is None and not whole:
        raise ValueError(
            "the plan counts the keys in a cache, and the layer has none: pass cache=, or make a new Plan"
        )
    if cache is None:
        return
    if not plan._cached:
        raise ValueError(
            "the layer has a cache, and the plan does not know it: make it with Plan(pos, cache=cache), for each pass"
        )
    settings = (cache.window, cache.sinks, cache.padded or plan._padded)
    if settings != (plan._window, plan._sinks, plan._padded) or not same_future(
        plan, cache
    ):
        raise ValueError(
            f"the cache does not hold the positions that the plan was made for, or has another window than "
            f"{plan._window} and {plan._sinks} sinks: make a new Plan(pos, cache=cache) for each pass, and share it "
            f"among layers whose caches hold the same positions"
        )


def same_future(plan: Plan, cache: Any) -> bool:
    """Whether a cache, once it is extended, holds the keys that the plan was made for.

    Numbers are compared only where positions are no spans, and not where both caches got the same tokens all along.
    """
    if plan._before is not None and plan._before is cache.known:
        return True
    keys = cache.ahead(plan._came, plan._own["padding_mask"])
    if isinstance(keys, Span) and isinstance(plan._keys, Span):
        return keys == plan._keys
    if isinstance(keys, Span) or isinstance(plan._keys, Span) or not readable(keys):
        return False
    return equal(keys, plan._keys)


def _check_sizes(plan: Plan, q: Tensor, k: Tensor, whole: bool) -> None:
    """As many positions as vectors, for as many sequences, and a mask of their shape."""
    if torch.compiler.is_exporting():
        return
    queries, keys = plan.lengths
    came = keys if whole else length_of(plan._new)
    for name, x, length in (("q", q, queries), ("k", k, came)):
        if x.shape[2] != length:
            raise ValueError(
                f"{name} has {x.shape[2]} vectors, and the plan was made for {length} positions: make a new Plan for "
                f"each pass, with one position for each vector, such as Plan(Span(0, {x.shape[2]}))"
            )
    padding = plan._own["padding_mask"]
    if isinstance(padding, Tensor) and padding.shape[0] not in (1, q.shape[0]):
        raise ValueError(
            f"padding_mask is {tuple(padding.shape)}, and the batch has {q.shape[0]}: use bool, "
            f"({q.shape[0]}, {padding.shape[1]}), True for real tokens"
        )
    for name, pos in (
        ("qpos", plan._own["pos"]),
        ("kpos", plan._keys if whole else plan._new),
    ):
        if (
            isinstance(pos, Tensor)
            and pos.ndim == 2
            and pos.shape[0] not in (1, q.shape[0])
        ):
            raise ValueError(
                f"{name} holds positions for {pos.shape[0]} sequences and the batch has {q.shape[0]}: make the plan "
                f"with positions ({q.shape[0]}, L), or (L,) if all share them"
            )
    if plan.mask is not None:
        remedy = "a mask of padded keys, (B, Lk), is mask[:, None, None, :], or padding_mask of attention()"
        require_broadcast(
            "mask", plan.mask.shape, (*q.shape[:3], keys), "(B, H, Lq, Lk)", remedy
        )
