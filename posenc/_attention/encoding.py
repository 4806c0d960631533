"""The places where position can enter attention.

z_i = Σ_j softmax_j( f(q_i, i) · g(k_j, j) / √d + b_ij ) (v_j + r_ij), after x_i ← x_i + p_i.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from posenc._attention.pairs import whole_bias, whole_score_mod
from posenc._attention.plan import Plan
from posenc._attention.spans import Positions
from posenc._require import kind

DOORS = ("embed", "query", "key", "score_bias", "rescale", "mix")


class Split(NamedTuple):
    """A bias that tells offsets apart up to a reach, and is the same for all beyond it, on either side."""

    reach: int
    """R: offsets are clipped to -R and R."""
    bias: Tensor
    """(B or 1, H, Lq or 1, 2R + 1): b_ij is number clip(j - i, -R, R) + R of query i."""
    values: Tensor | None = None
    """(H or 1, 2R + 1, d_v), r_ij by the same number; none unless given."""


class Encoding(nn.Module):
    """Where position can enter attention. This base class opens no door: it is NoPE.

    A scheme overrides `embed`, `query` or `key`, or defines `score_bias`, `rescale` or `mix`. The first three
    take positions as the caller has them: (L,), or (B, L) if sequences of the batch differ. The last
    three take qpos (B, Lq) and kpos (B, Lk), always. What `score_bias` and `rescale` return takes index
    tensors b, h, i, j that broadcast to (B, H, Lq, Lk), so qpos[b, i] - kpos[b, j] is how far back a
    key lies, here and in flex_attention.

    Example:
        >>> from posenc import Encoding, attention
        >>> class Recency(Encoding):  # a key loses half a logit with each position
        ...     def score_bias(self, q, k, qpos, kpos):
        ...         return lambda b, h, i, j: 0.5 * (kpos[b, j] - qpos[b, i])
        >>> recency, pos = Recency(), torch.arange(5)
        >>> recency.doors
        ('score_bias',)
        >>> q, k, v = torch.randn(3, 1, 2, 5, 4)
        >>> attention(q, k, v, recency, pos).shape
        torch.Size([1, 2, 5, 4])
    """

    score_bias: Callable[..., Any] | None = None
    """s_ij ← s_ij + b_ij, after scaling. score_bias(q, k, qpos, kpos) -> f(b, h, i, j), or b itself, (B, H, Lq, Lk)"""

    rescale: Callable[..., Any] | None = None
    """s_ij ← ρ_ij(s_ij), after the bias and before the mask. rescale(qpos, kpos) -> f(s, b, h, i, j)"""

    mix: Callable[..., Any] | None = None
    """z_i ← Σ_j α_ij (v_j + r_ij). mix(weights, v, qpos, kpos) -> z (B, H, Lq, d_v)"""

    exact: tuple[str, ...] = ()
    """Names of buffers that keep their dtype when the module is cast, since angles need float32."""

    causal_only: bool = False
    """Whether keys of the future would get nonsense, such as a reward that grows with their distance."""

    raw_keys: bool = False
    """Whether `key` depends on more than a key's own position, so that a cache keeps keys as projected."""

    takes_waves: bool = False
    """Whether `query` and `key` take `waves=`, which a class says by defining them so."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        doors = signature(cls.query), signature(cls.key)
        cls.takes_waves = all("waves" in door.parameters for door in doors)

    def widen(
        self, q: Tensor, k: Tensor, plan: Plan, scale: float
    ) -> tuple[Tensor, Tensor] | None:
        """Queries and keys with further channels, whose product q'·k' · scale is the score with its bias.

        A scheme with such a form is served by every fused kernel, without a matrix of biases. What is the same for
        all keys of a query may be left out, since the softmax ignores it.

        Args:
            q: (B, H, Lq, d), after `query`.
            k: (B, Hk, Lk, d), after `key`.
            plan: Where they lie.
            scale: Multiplies the product.

        Returns:
            q' (B, H, Lq, d') and k' (B, Hk, Lk, d'), in the dtypes of q and k; None if there is no such form.
        """
        return None

    def by_distance(self, q: Tensor, distance: Tensor) -> tuple[Tensor, Tensor] | None:
        """The bias as a product of what a query gives and a key of the distance; None if it has no such form.

        On a CPU this costs less than wide queries and keys: one more product as large as q · k, and no matrix.

        Args:
            q: (B, H, Lq, d), after `query`.
            distance: (n,), whole numbers i - j.

        Returns:
            (B, H, Lq, c) and (H, n, c), in float32 at least. b_ij is row i of the one times the row for i - j.
        """
        return None

    def split(self, q: Tensor, plan: Plan) -> Split | None:
        """The bias as a table of near offsets, with one number for all beyond them; None if it has no such form.

        Args:
            q: (B, H, Lq, d), after `query`.
            plan: Where queries and keys lie.
        """
        return None

    def offset_bias(self, q: Tensor, offset: Tensor) -> Tensor | None:
        """b_ij as a function of the offset j - i, where it depends on nothing else; None if it does.

        Where positions are spans, all biases are then a row of numbers, and a `KVCache` keeps it while a text grows.

        Args:
            q: (B, H, Lq, d), whose heads and dtype count.
            offset: (n,), int64.

        Returns:
            (H, n), or None.
        """
        return None

    def offset_state(self) -> tuple[Any, ...] | None:
        """What `offset_bias` depends on besides offsets.

        Returns:
            Tensors and numbers; None if what it returns must not outlive one call.
        """
        return None

    def waves(self, pos: Tensor, dtype: torch.dtype) -> Any:
        """What `query` and `key` take as `waves=`: whatever depends on positions alone, such as sines and cosines.

        It is a tensor, (L, n) or (B, 1, L, n), or a tuple of such, or of tuples. What a table holds for a position may
        not depend on the others.
        """
        return None

    def waves_state(self) -> tuple[Any, ...] | None:
        """What `waves` depends on besides positions.

        Returns:
            Tensors and numbers; None if what it returns must not outlive one call.
        """
        return None

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """x_i ← x_i + p_i, before the first layer.

        Args:
            x: (B, L, D), token embeddings.
            pos: (L,) or (B, L), in tokens.

        Returns:
            Like x, of x's dtype.
        """
        return x

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        """q_i ← f(q_i, i), in every layer.

        Args:
            q: (B, H, L, d), projected queries.
            pos: (L,) or (B, L), in tokens.

        Returns:
            (B, H, L, d), of q's dtype.
        """
        return q

    def key(self, k: Tensor, pos: Tensor) -> Tensor:
        """k_j ← g(k_j, j), in every layer. A KV cache stores the result.

        Args:
            k: (B, Hk, L, d), projected keys.
            pos: (L,) or (B, L), in tokens.

        Returns:
            (B, Hk, L, d), of k's dtype.
        """
        return k

    def bias(
        self, qpos: Positions, kpos: Positions | None = None, *, q: Tensor | None = None, k: Tensor | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:  # fmt: skip
        """b_ij of all pairs: the `attn_mask` of torch's scaled_dot_product_attention, but for causality.

        Args:
            qpos: (Lq,) or (B, Lq), or a `Span`.
            kpos: (Lk,) or (B, Lk), or a `Span`. Default: the queries'.
            q: (B, H, Lq, d), after `query`; needed if the bias depends on contents, as Shaw's does.
            k: (B, H, Lk, d), after `key`. Default: q, if they are as many.
            dtype: Of the result. Default: q's, or float32.

        Returns:
            (1 or B, H, Lq, Lk).

        Raises:
            ValueError: If the encoding adds nothing to scores, or if q is needed.

        Example:
            >>> from posenc import ALiBi, Span
            >>> from torch.nn.functional import scaled_dot_product_attention
            >>> q, k, v = torch.randn(3, 2, 8, 5, 64)
            >>> bias = ALiBi(8).bias(Span(0, 5))
            >>> past = torch.ones(5, 5, dtype=torch.bool).tril()
            >>> z = scaled_dot_product_attention(q, k, v, attn_mask=bias.where(past, -torch.inf))
        """
        return whole_bias(self, qpos, kpos, q, k, dtype)

    def score_mod(
        self,
        qpos: Positions,
        kpos: Positions | None = None,
        *,
        q: Tensor | None = None,
        k: Tensor | None = None,
    ) -> Callable[..., Tensor]:
        """The `score_mod` of torch's flex_attention: the bias is added, and the score is rescaled.

        Args:
            qpos: (Lq,) or (B, Lq), or a `Span`.
            kpos: (Lk,) or (B, Lk), or a `Span`. Default: the queries'.
            q: (B, H, Lq, d), after `query`; needed if the bias depends on contents, as Shaw's does.
            k: (B, H, Lk, d), after `key`. Default: q, if they are as many.

        Returns:
            A function (score, b, h, i, j) -> score.

        Raises:
            ValueError: If q is needed.

        Example:
            >>> from posenc import ALiBi, Span
            >>> from torch.nn.attention.flex_attention import flex_attention
            >>> mod = ALiBi(8).score_mod(Span(0, 2048))
            >>> q, k, v = torch.randn(3, 2, 8, 2048, 64)
            >>> z = torch.compile(flex_attention)(q, k, v, score_mod=mod)  # doctest: +SKIP
            >>> mod(torch.zeros(()), *torch.tensor([1, 0, 9, 7]))  # text 1, head 0, query 9 and key 7
            tensor(-1.)
        """
        return whole_score_mod(self, qpos, kpos, q, k)

    @property
    def doors(self) -> tuple[str, ...]:
        """The names of the doors that this encoding opens, read from the object itself."""
        return tuple(name for name in DOORS if opens(self, name))

    def reset_parameters(self) -> None:
        """Computes the `exact` buffers anew, where a module built on the meta device gets memory."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moves the `exact` buffers with the module, but never casts them."""
        before = {name: getattr(self, name) for name in self.exact}
        super()._apply(fn, recurse)
        for name, value in before.items():
            device = getattr(self, name).device
            if value.is_meta and device.type != "meta":  # memory, and no value yet
                moved = torch.full_like(value, torch.nan, device=device)
            else:
                moved = value.to(device)
            setattr(self, name, moved)
        if any(value.is_meta for value in before.values()):
            self.reset_parameters()
        return self


def alike(qpos: Tensor, kpos: Tensor) -> bool:
    """Whether all sequences of a batch share one row of positions, so that what follows from positions is made once.

    It looks at strides and not at numbers, so no device has to wait.

    Args:
        qpos: (B, Lq), as the doors get it.
        kpos: (B, Lk).

    Example:
        >>> pos = torch.arange(5)
        >>> alike(pos.expand(3, -1), pos.expand(3, -1)), alike(pos.repeat(3, 1), pos.repeat(3, 1))
        (True, False)
    """
    return not (qpos.stride(0) or kpos.stride(0))


def require_encoding(value: Any) -> None:
    """An argument is an encoding: an object, neither its name nor its class."""
    if isinstance(value, Encoding):
        return
    remedy = "pass an Encoding, such as RoPE(head_dim), or NoPE() for none"
    if isinstance(value, Tensor):
        remedy = "the order of arguments is q, k, v, encoding, qpos, kpos"
    elif isinstance(value, str):
        remedy = f"make it, as by ENCODINGS[{value!r}](model_dim=512, heads=8, head_dim=64, length=2048)"
    elif isinstance(value, type) and issubclass(value, Encoding):
        remedy = f"make an object of it, {value.__name__}(...)"
    raise TypeError(f"encoding is {kind(value)}, which is no Encoding: {remedy}")


def opens(encoding: Encoding, name: str) -> bool:
    """Whether an encoding opens a door, which it may do in its class or as an object."""
    return _door(encoding, name) is not _door(Encoding, name)


def _door(owner: Any, name: str) -> Any:
    door = getattr(owner, name)
    return getattr(door, "__func__", door)


NoPE = Encoding
