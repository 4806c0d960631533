"""Transformer-XL's relative attention: a query meets what a key says, and how far away it is (Dai et al., 2019)."""

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from posenc import _check
from posenc.encoding import Encoding
from posenc.rope import rotate
from posenc.sinusoidal import frequencies, sinusoidal

HALF = 128  # half a block of `sweep`


def relative_shift(x: Tensor, keys: int | None = None) -> Tensor:
    """Row i moves left by Lq - 1 - i, and columns that stood for distances stand for keys.

    Column c of x (..., Lq, N) is for distance Lk - 1 - c, and the last query is at the last key. Column j of
    the result, (..., Lq, Lk), is for key j; Lk is `keys`, or N. Nothing is computed: the same memory is read
    in rows of N - 1 instead of N. With N = Lk, keys after a query get what the next row begins with, to be
    masked; with N = Lk + Lq - 1 or more, distances go on below zero and all keys are right, as in XLNet.
    Raises ValueError if N is less than Lk or Lq. Dai et al. (2019), appendix B.
    """
    queries, columns = x.shape[-2:]
    keys = columns if keys is None else keys
    _check.shifted(x, keys)
    if queries < 2:
        return x[..., :keys]
    return x.flatten(-2)[..., queries - 1 :].unfold(-1, keys, columns - 1)[..., :queries, :]


class TransformerXL(Encoding):
    """√d s_ij = q_i·k_j + q_i·ρ_ij + u·k_j + v·ρ_ij, where ρ_ij = W R_(i-j): four terms, all of them learned.

    Content meets content, and content meets a distance; u likes some content and v some distances, whatever
    the query. R, (model_dim,), is the sinusoid of a distance, W_k,R is `weight`, (heads · head_dim, model_dim),
    and W_k,E is the model's own projection to keys. u enters with the query, as (q + u)·k, and the bias is
    (q + v)·ρ/√d. In R all sines come first, as in the authors' code, whose r_net.weight is this `weight`;
    there, layers share u and v. Distances beyond `clamp`, on either side, count as `clamp`.

    Keys and values know no position, so a cached step needs only the row of its query. x W R is multiplied in
    the order that costs less, once for each distance that occurs. A shift then puts distances before their keys
    if positions rise one by one, and a look-up does otherwise. While compiling, or if positions are fractions or
    lie far apart, `anywhere` takes them as they are.
    Dai et al. (2019), section 3.3.
    """

    freq: Tensor
    wave: Tensor

    def __init__(
        self, model_dim: int, heads: int, head_dim: int, *, clamp: int | None = None, base: float = 10_000.0
    ) -> None:
        super().__init__()
        _check.transformer_xl(model_dim, heads, head_dim, clamp, base)
        self.model_dim, self.heads, self.head_dim = model_dim, heads, head_dim
        self.clamp, self.base = clamp, base
        self.weight = nn.Parameter(torch.empty(heads * head_dim, model_dim))
        self.u = nn.Parameter(torch.empty(heads, head_dim))
        self.v = nn.Parameter(torch.empty(heads, head_dim))
        self.register_buffer("freq", None, persistent=False)
        self.register_buffer("wave", None, persistent=False)
        self._apply(lambda x: x)
        self.reset_parameters()

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        _check.distance_queries(self, q)
        return (q + self.u[:, None]).to(q.dtype)

    def score_bias(self, q: Tensor, k: Tensor, qpos: Tensor, kpos: Tensor) -> Tensor:
        _check.distance_queries(self, q)
        wide = torch.promote_types(q.dtype, torch.float32)
        x = (q + (self.v.to(wide) - self.u.to(wide))[:, None]) * self.head_dim**-0.5  # (q + v)/√d
        x = x.transpose(0, 1).flatten(1, 2)  # (H, B · Lq, d)
        weight = self.weight.to(wide).unflatten(0, (self.heads, self.head_dim))  # (H, d, D)
        kpos = kpos[:1] if kpos.stride(0) == 0 else kpos  # one row for all sequences
        span = _distances(qpos, kpos, self.clamp)
        if span is None:
            return anywhere((x @ weight).to(wide), qpos, kpos, self.base)  # products are narrow under autocast
        if self._few(x.shape[1]):
            table = sweep(x @ weight, span, self.freq.to(wide), self.wave.to(wide))  # (x W) R
        else:
            stop = span.stop - -len(span) % 16  # rows that are whole lines of memory: twice as fast
            distance = torch.arange(span.start, stop, -1, dtype=wide, device=q.device)
            table = x @ (weight @ sinusoidal(distance, self.model_dim, self.base, layout="half").mT)  # x (W R)
        table = table.unflatten(1, qpos.shape).transpose(0, 1)  # (B, H, Lq, N)
        if self.clamp is None and len(span) == qpos.shape[1] + kpos.shape[1] - 1 and _rise(qpos) and _rise(kpos):
            return relative_shift(table, kpos.shape[1])
        column = span.start - (qpos.long()[:, :, None] - kpos.long()[:, None])  # (B, Lq, Lk)
        column = column.clamp(0, len(span) - 1)[:, None].expand(*table.shape[:-1], -1)
        return table.gather(-1, column)

    def _few(self, queries: int) -> bool:
        """Whether (x W) R costs less than x (W R): for a head and distance, D for each query, or D·d and d for each."""
        if torch.compiler.is_compiling():  # a size may be a symbol
            return False
        return queries * (self.model_dim - self.head_dim) < self.model_dim * self.head_dim

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        precise = torch.promote_types(self.weight.dtype, torch.float32)  # tables are made anew, not cast
        self.freq = frequencies(self.model_dim, self.base, dtype=precise, device=self.weight.device)
        angle = self.freq[:, None] * (torch.arange(HALF, dtype=precise, device=self.freq.device) + 0.5)
        self.wave = torch.stack((angle.sin(), angle.cos()))  # (2, D/2, HALF)
        return self

    def reset_parameters(self) -> None:
        """Normal, with standard deviation 0.02, as in the authors' code."""
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02)


def _distances(qpos: Tensor, kpos: Tensor, clamp: int | None) -> range | None:
    """All distances i - j from the largest down to the least, or None if a table of them is not to be had."""
    _check.clamped(clamp, qpos, kpos)
    if clamp is not None:
        return range(clamp, -clamp - 1, -1)
    length = qpos.shape[1] + kpos.shape[1]
    if torch.compiler.is_compiling() or qpos.is_meta or not qpos.numel() or not kpos.numel():
        return None
    (first, last), (oldest, newest) = qpos.aminmax(), kpos.aminmax()
    ends = torch.stack((first - newest, last - oldest))
    low, high = ends.tolist()
    if ends.is_floating_point() or high - low >= 2 * length:
        return None
    return range(high, low - 1, -1)


def _rise(pos: Tensor) -> bool:
    """Whether each position, (B, L), is the next after the one before it."""
    return pos.shape[1] == 1 or bool((pos.diff() == 1).all())


def sweep(w: Tensor, span: range, freq: Tensor, wave: Tensor) -> Tensor:
    """w · R_Δ for all Δ in span, downwards: w turns to the middle of each block, and one table serves all blocks.

    freq (D/2,) is θ, and wave (2, D/2, n) the sines and cosines of ½θ, 1½θ, …, for blocks of 2n distances. Sine
    is odd and cosine even, so both halves of a block share the products, D/2 for each number; turning costs as
    much again. w (H, M, D) -> (H, M, len(span)).
    """
    n = wave.shape[-1]
    blocks = torch.arange(-(-len(span) // (2 * n)), dtype=freq.dtype, device=freq.device)
    angle = (span.start - n + 0.5 - 2 * n * blocks)[:, None] * freq  # (blocks, D/2), at the middle of each
    cos, sin = angle.cos(), angle.sin()
    a, b = w[:, :, None].chunk(2, -1)  # (H, M, 1, D/2) each
    odd = (a * cos).addcmul_(b, sin, value=-1).flatten(0, 2) @ wave[0]  # (H · M · blocks, n)
    even = (a * sin).addcmul_(b, cos).flatten(0, 2) @ wave[1]
    both = torch.cat(((even + odd).flip(-1), even - odd), -1)
    return both.unflatten(0, (*w.shape[:2], len(blocks))).flatten(-2)[..., : len(span)]


def anywhere(w: Tensor, qpos: Tensor, kpos: Tensor, base: float) -> Tensor:
    """w_i · R_(i-j) = (w_i turned by i) · R_(-j): nothing is looked up, so positions may be any numbers.

    w (H, B · Lq, D), qpos (B, Lq), kpos (B, Lk), or (1, Lk) for all sequences, at D products for each pair.
    """
    last = kpos[:, -1:]  # counting starts here: angles are small, and the same if all positions shift
    freq = frequencies(w.shape[-1], base, dtype=w.dtype, device=w.device)
    wave = sinusoidal((last - kpos).to(w.dtype), w.shape[-1], base, layout="half")  # (B, Lk, D)
    w = w.unflatten(1, qpos.shape).transpose(0, 1)  # (B, H, Lq, D)
    turned = rotate(w, qpos - last, freq, layout="half")
    return (turned.flatten(1, 2) @ wave.mT).unflatten(1, turned.shape[1:3])  # (B, H, Lq, Lk)
