"""The places where position can enter attention.

z_i = Σ_j softmax_j( f(q_i, i) · g(k_j, j) / √d + b_ij ) (v_j + r_ij), after x_i ← x_i + p_i.
"""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from posenc._require import kind

DOORS = ("embed", "query", "key", "score_bias", "rescale", "mix")


class Encoding(nn.Module):
    """Where position can enter attention. This base class opens no door: it is NoPE.

    A scheme overrides `embed`, `query` or `key`, or defines `score_bias`, `rescale` or `mix`. The first three
    take positions as the caller has them: (L,), or (B, L) if sequences of the batch differ. The last
    three take qpos (B, Lq) and kpos (B, Lk), always. What `score_bias` and `rescale` return takes index
    tensors b, h, i, j that broadcast to (B, H, Lq, Lk), so qpos[b, i] - kpos[b, j] is how far back a
    key lies, here and in flex_attention.
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
            lost = value.is_meta and device.type != "meta"  # there is memory now, and no value
            moved = torch.full_like(value, torch.nan, device=device) if lost else value.to(device)
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
