"""Transformer-XL's attention: a query meets a key's content and distance (Dai et al., 2019)."""

from typing import Any

import torch
from torch import Tensor, nn

from posenc._attention.encoding import Encoding
from posenc._attention.plan import Plan
from posenc._require import (
    require_base,
    require_even,
    require_heads,
    require_size,
)
from posenc.schemes.rope import rotate
from posenc.schemes.sinusoidal import frequencies, sinusoidal

BLOCK = 128  # keys that share their sines in a decoding step

Pair = tuple[Tensor, Tensor]


def relative_shift(x: Tensor, keys: int | None = None) -> Tensor:
    """Turns a table of queries and distances into one of queries and keys.

    Row i moves left by Lq - 1 - i. Column c of x stands for the distance Lk - 1 - c,
    and the last query stands at the last key. The result is a view: the same memory is
    read in rows of C - 1 numbers instead of C.

    Args:
        x: (..., Lq, C). With C = Lk there are the distances from Lk - 1 down to 0, and
            keys after their query get numbers of the next row, which a causal mask
            hides. With C = Lk + Lq - 1 or more, distances go on below zero and all keys
            are right, as in XLNet.
        keys: Lk. Default: C.

    Returns:
        (..., Lq, Lk): column j stands for key j.

    Raises:
        ValueError: If C is less than Lk or Lq.

    Example:
        >>> relative_shift(torch.tensor([[2, 1, 0], [2, 1, 0], [2, 1, 0]])).tril()
        tensor([[0, 0, 0],
                [1, 0, 0],
                [2, 1, 0]])

    References:
        Dai et al. (2019), appendix B.
    """
    queries, columns = x.shape[-2:]
    keys = columns if keys is None else keys
    _check_columns(x, keys)
    if queries < 2:
        return x[..., :keys]
    rows = x.flatten(-2)[..., queries - 1 :].unfold(-1, keys, columns - 1)
    return rows[..., :queries, :]


class TransformerXL(Encoding):
    """√d s_ij = (q_i + u)·k_j + (q_i + v)·k_Δ, where k_Δ = W R_Δ and Δ = i - j.

    Content meets content, and content meets a distance. u prefers some contents and v
    some distances, whatever the query is. R_Δ, (D,), is the sinusoid of a distance,
    with all sines first, as in the authors' code. W projects it to the d channels of
    each head, and the keys k_j = W_(k,E) x_j are the model's own. u enters with the
    query, as (q + u)·k, and the bias is (q + v)·k_Δ/√d.

    The paper multiplies (q + v) W with the sinusoids of all distances and shifts the
    rows (`relative_shift`). Here the query rotates instead: R_Δ is R_(-j), rotated
    by i. So (q + v) W is rotated by i and meets R_(-j), and positions may be any
    numbers, in any order. Keys and values hold no position, so a cached step needs only
    the row of its query.

    Args:
        model_dim: D, positive and even.
        heads: Number of query heads, H.
        head_dim: Channels of a head, d.
        clamp: The largest distance that is distinguished, on either side. Default: all
            are. With a clamp, positions are integers.
        base: b of the frequencies θ_t = b^(-2t/D).
        device, dtype: Of the parameters: `weight` (H·d, D), `u` and `v`, (H, d).
            `weight` is W, and r_net.weight in the authors' code, where layers share u
            and v.

    Raises:
        ValueError: If model_dim is odd, or a size, clamp or base is out of range.

    Example:
        >>> from posenc import attention
        >>> q, k, v = torch.randn(3, 1, 8, 5, 64)  # (B, H, L, d) each
        >>> xl, pos = TransformerXL(512, heads=8, head_dim=64), torch.arange(5)
        >>> attention(q, k, v, xl, pos).shape
        torch.Size([1, 8, 5, 64])

    References:
        Dai et al. (2019), section 3.3.
    """

    def __init__(
        self,
        model_dim: int,
        heads: int,
        head_dim: int,
        *,
        clamp: int | None = None,
        base: float = 10_000.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_sizes(model_dim, heads, head_dim, clamp, base)
        self.model_dim, self.heads, self.head_dim = model_dim, heads, head_dim
        self.clamp, self.base = clamp, base
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(heads * head_dim, model_dim, **made))
        self.u = nn.Parameter(torch.empty(heads, head_dim, **made))
        self.v = nn.Parameter(torch.empty(heads, head_dim, **made))
        self.reset_parameters()

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        _check_queries(self, q)
        return (q + self.u[:, None]).to(q.dtype)

    def score_bias(self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
        _check_queries(self, q)
        wide = torch.promote_types(q.dtype, torch.float32)
        q = q.to(wide) - self.u.to(wide)[:, None]  # u came with the query
        w = self._project(q) * self.head_dim**-0.5
        if self.clamp is not None:
            return _look_up(w, qpos, kpos, self.clamp, self.base)
        last = kpos[:, -1:]  # positions count from here, so that angles stay small
        back = last - kpos
        back = back[:1] if kpos.stride(0) == 0 else back  # all sequences share one row
        return _meet(self._turn(w, qpos - last), back, self.base)  # (B, H, Lq, Lk)

    def widen(self, q: Tensor, k: Tensor, plan: Plan, scale: float) -> Pair | None:
        """Queries and keys whose plain product is the whole score.

        q' = [q + u ; (q + v) W rotated by i] and k' = [k ; R_(-j)]. No matrix of biases
        exists. A pair costs d + D multiplications instead of d, and a key holds d + D
        channels, D of them the same for all heads. Torch's flash kernel takes up to 256
        channels, and as many in v; its memory-efficient kernel takes more.

        Args:
            q: (B, H, Lq, d), after `query`.
            k: (B, Hk, Lk, d), where Hk divides H.
            plan: Where they lie.
            scale: Multiplies the product.

        Returns:
            q', (B, H, Lq, d + D), and k', (B, Hk, Lk, d + D), in the dtypes of q and k;
            None if there is a clamp, since a clamped distance is no product of two
            rotations.

        Example:
            >>> from posenc import Plan, Span, attention
            >>> from torch.nn.functional import scaled_dot_product_attention
            >>> q, k, v = torch.randn(3, 1, 8, 5, 64)
            >>> xl, plan = TransformerXL(512, heads=8, head_dim=64), Plan(Span(0, 5))
            >>> wide = xl.widen(xl.query(q, plan.qpos()), k, plan, 1 / 8)
            >>> z = scaled_dot_product_attention(*wide, v, is_causal=True, scale=1 / 8)
            >>> expected = attention(q, k, v, xl, plan)
            >>> torch.allclose(z, expected, atol=1e-5)
            True
        """
        if self.clamp is not None:
            return None
        _check_queries(self, q)
        qpos, kpos = plan.qpos(q.device), plan.kpos(q.device)
        last, wide = kpos[..., -1:], torch.promote_types(q.dtype, torch.float32)
        w = self._project(q.to(wide) - self.u.to(wide)[:, None])  # u came with q
        turned = self._turn(w, qpos - last) * (self.head_dim**-0.5 / scale)
        back = (last - kpos).to(wide)
        wave = sinusoidal(back, self.model_dim, self.base, layout="half")
        wave = wave.unsqueeze(-3).expand(*k.shape[:3], -1)  # (B, Hk, Lk, D)
        q = torch.cat((q, turned.to(q.dtype)), -1)
        return q, torch.cat((k, wave.to(k.dtype)), -1)

    def by_distance(self, q: Tensor, distance: Tensor) -> Pair:
        """(q + v)/√d and k_Δ, as in the paper: each distance is projected once.

        A pair then costs 2d multiplications, where wide vectors cost d + D. But this is
        for positions that follow one another, and `widen` for any.

        Args:
            q: (B, H, Lq, d), after `query`.
            distance: (n,), whole numbers i - j.

        Returns:
            (B, H, Lq, d) and (H, n, d), whose products are the bias, in float32 at
            least.
        """
        _check_queries(self, q)
        wide = torch.promote_types(q.dtype, torch.float32)
        q = q.to(wide) + (self.v - self.u).to(wide)[:, None]  # u came with the query
        if self.clamp is not None:
            distance = distance.clamp(-self.clamp, self.clamp)
        wave = sinusoidal(distance.to(wide), self.model_dim, self.base, layout="half")
        weight = self.weight.to(wide).unflatten(0, (self.heads, self.head_dim))
        return q * self.head_dim**-0.5, wave @ weight.mT

    def _project(self, q: Tensor) -> Tensor:
        """(q + v) W, what q gives to each wave: (B, H, Lq, d) -> (B, H, Lq, D)."""
        weight = self.weight.to(q.dtype).unflatten(0, (self.heads, self.head_dim))
        q = q + self.v.to(q.dtype)[:, None]
        return torch.einsum("bhid, hdw -> bhiw", q, weight).to(q.dtype)

    def _turn(self, w: Tensor, pos: Tensor) -> Tensor:
        """w · R_(i-j) = (w rotated by i) · R_(-j): w (B, H, Lq, D), pos is i."""
        freq = frequencies(self.model_dim, self.base, dtype=w.dtype, device=w.device)
        return rotate(w, pos, freq, layout="half")

    def reset_parameters(self) -> None:
        """Draws all parameters again, as the authors do: N(0, 0.02²)."""
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02)

    def extra_repr(self) -> str:
        names = ("model_dim", "heads", "head_dim", "clamp", "base")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


def _meet(w: Tensor, back: Tensor, base: float) -> Tensor:
    """w · R_back for every key: w (B, H, Lq, D), back (B or 1, Lk) -> (B, H, Lq, Lk).

    A sine for each key and wave would take longer than the rest of a decoding step.
    Keys that follow one another are therefore met in blocks: the query rotates to each
    block, and all blocks share the sines of one. That is three times as fast for few
    queries on a CPU.
    """
    if _is_step(w, back):
        keys = back.shape[1]
        start = torch.arange(0, keys, BLOCK, device=w.device)
        freq = frequencies(w.shape[-1], base, dtype=w.dtype, device=w.device)
        w = w[..., None, :].expand(*w.shape[:3], len(start), -1)
        w = rotate(w, start, freq, layout="half")  # (B, H, Lq, blocks, D)
        near = torch.arange(BLOCK, dtype=w.dtype, device=w.device)
        wave = sinusoidal(near, w.shape[-1], base, layout="half")
        score = torch.einsum("bhinw, jw -> bhinj", w, wave)
        return score.flatten(-2)[..., :keys].flip(-1)  # the nearest key comes last
    wave = sinusoidal(back.to(w.dtype), w.shape[-1], base, layout="half")  # (B, Lk, D)
    return torch.einsum("bhiw, bjw -> bhij", w, wave)


def _look_up(w: Tensor, qpos: Tensor, kpos: Tensor, clamp: int, base: float) -> Tensor:
    """Products with all distances up to the clamp; each pair takes one of them."""
    _check_integers(qpos, kpos)
    distance = torch.arange(clamp, -clamp - 1, -1, dtype=w.dtype, device=w.device)
    table = w @ sinusoidal(distance, w.shape[-1], base, layout="half").mT
    column = clamp - (qpos.long()[:, :, None] - kpos.long()[:, None])  # (B, Lq, Lk)
    column = column.clamp(0, 2 * clamp)[:, None]
    return table.gather(-1, column.expand(*table.shape[:-1], -1))


def _is_step(w: Tensor, back: Tensor) -> bool:
    """Whether few queries meet keys that follow one another, on a CPU."""
    if torch.compiler.is_compiling() or w.device.type != "cpu" or w.shape[2] > 8:
        return False
    return bool((back.diff() == -1).all())


# Checks of input


def _check_sizes(
    model_dim: int, heads: int, head_dim: int, clamp: int | None, base: float
) -> None:
    """Sinusoids have model_dim channels, and heads have head_dim."""
    require_even(model_dim, "model_dim")
    require_heads(heads)
    require_size(head_dim, "head_dim", "the number of channels of a head")
    require_base(base)
    if clamp is not None and clamp < 0:
        raise ValueError(
            f"clamp is {clamp}, but it is a distance: use the largest one that is distinguished, "
            f"such as 1000, or None to distinguish all"
        )


def _check_queries(encoding: TransformerXL, q: Tensor) -> None:
    """Each head of q has its rows of the weight."""
    if torch.compiler.is_exporting():
        return
    heads, head_dim = q.shape[1], q.shape[-1]
    if (heads, head_dim) != (encoding.heads, encoding.head_dim):
        raise ValueError(
            f"TransformerXL was made for heads={encoding.heads} and head_dim={encoding.head_dim}, and "
            f"q has {heads} heads of {head_dim} channels: make it with "
            f"TransformerXL(model_dim, {heads}, {head_dim})"
        )


def _check_integers(qpos: Tensor, kpos: Tensor) -> None:
    """Clamped distances are looked up in a table."""
    if qpos.is_floating_point() or kpos.is_floating_point():
        raise ValueError(
            f"qpos is {qpos.dtype} and kpos {kpos.dtype}, but with a clamp distances are looked "
            f"up: use integer positions, such as torch.arange(length), or clamp=None"
        )


def _check_columns(x: Tensor, keys: int) -> None:
    """A row has a column for each distance from the last query to the first key."""
    if torch.compiler.is_exporting():
        return
    queries, columns = x.shape[-2:]
    if not (0 < keys <= columns and queries <= columns):
        raise ValueError(
            f"x has {columns} columns for {queries} queries and {keys} keys: use one for each distance "
            f"from {keys - 1} down to 0, and at least as many as queries, or on to {1 - queries} for "
            f"keys of the future"
        )
