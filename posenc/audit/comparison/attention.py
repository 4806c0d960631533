"""Looks into the attention of any torch code: queries and keys as they meet, and what is added to their product.

Calls of `scaled_dot_product_attention` are seen as they are. Attention that is written out is a product of two tensors,
(…, Lq, d) and (…, d, Lk), whose last softmax has that shape. What is seen can be changed on its way, so that a
hypothesis about a model is tried in the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

PRODUCTS = ("matmul", "bmm", "einsum", "__matmul__", "baddbmm")
SOFTMAXES = ("softmax", "_softmax")
WORDS = 8  # how many texts of one repeated token tell what a layer does


@dataclass
class Seen:
    """One layer's attention.

    Args:
        q: (B, H, L, d), as it meets the keys.
        k: (B, H', L, d); H' may be less than H.
        scores: (B, H, L, L), what the softmax gets; -inf where a key is hidden.
    """

    q: Tensor
    k: Tensor
    scores: Tensor


Change = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""From layer, q, k and scores (as in `Seen`) to other scores."""


class Attention(TorchFunctionMode):
    """Records, and changes if it is told to, what the layers of a model do with texts of n tokens.

    Args:
        n: Length of the texts.
        change: What becomes of the scores.
        keep: Whether what layers do is kept in `layers`. Default: True.
        keys: How many keys meet n queries. Default: n; more in a call with a cache.
    """

    def __init__(self, n: int, change: Change | None = None, keep: bool = True, keys: int = 0) -> None:
        super().__init__()
        self.n, self.change, self.keep = n, change, keep
        self.keys = keys or n
        self.layers: list[Seen] = []
        self._product: tuple[Tensor, Tensor, Tensor] | None = None
        self._count = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name == "scaled_dot_product_attention":
            with torch._C.DisableTorchFunction():
                return self._fused(*args, **kwargs)
        out = function(*args, **kwargs)
        if (
            name in PRODUCTS
            and isinstance(out, Tensor)
            and out.ndim >= 3
            and tuple(out.shape[-2:]) == (self.n, self.keys)
        ):
            with torch._C.DisableTorchFunction():
                self._remember(name, (*args, *kwargs.values()), out)
        elif name in SOFTMAXES and self._product is not None and args and isinstance(args[0], Tensor):
            x = args[0]
            if tuple(x.shape[-2:]) == (self.n, self.keys):
                with torch._C.DisableTorchFunction():
                    new = self._written(x)
                if new is not None:
                    return function(new, *args[1:], **kwargs)
        return out

    def _fused(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> Tensor:  # fmt: skip
        if q.shape[-2] != self.n or k.shape[-2] != self.keys or q.ndim != 4:
            return scaled_dot_product_attention(
                q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        s = q.shape[-1] ** -0.5 if scale is None else scale
        scores = s * (q @ spread(k, q).mT)
        if is_causal:
            scores = scores.masked_fill(
                torch.ones(self.n, self.keys, dtype=torch.bool, device=q.device).triu(1), -torch.inf
            )
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        scores = self._step(q, k, scores.masked_fill(scores < -1e4, -torch.inf))
        return torch.softmax(scores.nan_to_num(neginf=torch.finfo(scores.dtype).min), -1) @ spread(v, q)

    def _remember(self, name: str, args: Any, out: Tensor) -> None:
        tensors = [a for a in args if isinstance(a, Tensor)]
        if len(tensors) < 2 or tensors[-1].ndim < 3:
            return
        a, b = tensors[-2:]
        if name == "einsum":
            found = _of_einsum(str(args[0]), a, b)
            if found is None:
                return
            a, b = found
        else:
            b = b.mT
        if a.shape[-2] == self.n and b.shape[-2] == self.keys and a.shape[-1] == b.shape[-1] and a.shape[-1] != self.n:
            self._product = (a, b, out)

    def _written(self, x: Tensor) -> Tensor | None:
        a, b, _ = self._product  # type: ignore[misc]
        self._product = None
        q, k, scores = (_four(t, x) for t in (a, b, x))
        if scores.shape[1] == 1 and q.shape[1] != 1:
            return None
        low = scores < -1e4
        new = self._step(q, k, scores.masked_fill(low, -torch.inf))
        if self.change is None:
            return None
        return new.nan_to_num(neginf=torch.finfo(x.dtype).min).reshape(x.shape)

    def _step(self, q: Tensor, k: Tensor, scores: Tensor) -> Tensor:
        layer = self._count
        self._count += 1
        if self.keep:
            self.layers.append(Seen(q.detach().clone(), k.detach().clone(), scores.detach().clone()))
        return scores if self.change is None else self.change(layer, q, k, scores)


class Squares(TorchFunctionMode):
    """Looks how many rows attention has, where it is more than the tokens of a text: an image before it, say.

    Args:
        n: Length of the texts.
    """

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n, self.size = n, 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "")
        if not isinstance(out, Tensor) or out.ndim < 3:
            return out
        if name in SOFTMAXES:
            rows, columns = out.shape[-2:]
        elif name == "scaled_dot_product_attention":
            rows, columns = args[0].shape[-2], args[1].shape[-2]
        else:
            return out
        if rows == columns > self.n and not self.size:
            self.size = rows
        return out


def words(low: int, vocabulary: int, n: int) -> Tensor:
    """Texts of one repeated token, (WORDS, n)."""
    chosen = torch.linspace(low, vocabulary - 1, min(WORDS, vocabulary - low)).round().long()
    return chosen[:, None].expand(-1, n).contiguous()


def spread(k: Tensor, q: Tensor) -> Tensor:
    """Keys for all heads of the queries."""
    return k if k.shape[1] == q.shape[1] else k.repeat_interleave(q.shape[1] // k.shape[1], 1)


def _four(t: Tensor, like: Tensor) -> Tensor:
    """As (B, H, …): heads that are folded into the batch become heads, further axes of heads one."""
    if t.ndim == 3 and like.ndim == 4 and len(t) == len(like) * like.shape[1]:
        return t.unflatten(0, (len(like), like.shape[1]))
    if t.ndim == 3:
        return t[None]
    return t.flatten(1, -3) if t.ndim > 4 else t


def _of_einsum(equation: str, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor] | None:
    """Queries and keys (…, L, d) of an einsum such as "bhqd,bhkd->bhqk"."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if not arrow or len(parts) != 2 or "." in equation:
        return None
    summed = [c for c in parts[0] if c in parts[1] and c not in out]
    if len(summed) != 1 or len(out) < 3:
        return None
    lead, rows, cols = out[:-2], out[-2], out[-1]
    if rows in parts[1]:
        parts, (a, b) = parts[::-1], (b, a)
    try:
        q = torch.einsum(f"{parts[0]}->{''.join(c for c in lead if c in parts[0])}{rows}{summed[0]}", a)
        k = torch.einsum(f"{parts[1]}->{''.join(c for c in lead if c in parts[1])}{cols}{summed[0]}", b)
    except RuntimeError:
        return None
    return q, k


def lies(vector: Tensor, places: Tensor, right: int) -> int | None:
    """The place of one pass that has this vector, (1, H, d) among (1, H, L, d); the right one where several have it."""
    if vector.shape[1] != places.shape[1] or right >= places.shape[2]:
        return None
    size = places.double().square().mean().sqrt()
    apart = (places.double() - vector.double()[:, :, None]).abs().amax((0, 1, 3)) / size.clamp(min=1e-12)
    if float(apart[right]) < 1e-3:
        return right
    best = int(apart.argmin())
    return best if float(apart[best]) < 1e-3 else None
