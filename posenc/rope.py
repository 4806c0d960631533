"""Rotary position embedding: a position is an angle, a score sees differences (Su et al., 2021)."""

import torch
from torch import Tensor

from posenc import _check
from posenc.encoding import Encoding
from posenc.sinusoidal import frequencies


def rotate(x: Tensor, pos: Tensor, freq: Tensor, *, layout: str = "interleaved") -> Tensor:
    """Turns pair t of channels by pos · freq[t], so that R_m q · R_n k depends on n - m only.

    x (..., L, d), pos (L,) or (B, L), freq (d/2,) in radians per position -> like x. A pair is
    channels 2t and 2t+1 ("interleaved"), or t and t + d/2 ("half"). Angles have freq's precision,
    whatever x has. Raises ValueError if shapes do not match. Su et al. (2021), section 3.2.2.
    """
    _check.rotation(x, pos, freq, layout)
    angle = pos.to(freq.dtype)[..., None] * freq  # (L, d/2) or (B, L, d/2)
    if pos.ndim == 2:
        angle = angle.reshape(pos.shape[0], *[1] * (x.ndim - 3), *angle.shape[1:])  # (B, 1, L, d/2)
    wide = torch.promote_types(x.dtype, torch.float32)
    angle = angle.to(torch.promote_types(freq.dtype, wide))
    cos, sin = angle.cos().to(wide), angle.sin().to(wide)
    if not torch.compiler.is_compiling():
        return _rotate_eagerly(x.to(wide), cos, sin, layout).to(x.dtype)
    pair, axis = ((-1, 2), -1) if layout == "interleaved" else ((2, -1), -2)
    a, b = x.to(wide).unflatten(-1, pair).unbind(axis)  # (..., L, d/2) each
    return torch.stack((a * cos - b * sin, a * sin + b * cos), axis).flatten(-2).to(x.dtype)


def _rotate_eagerly(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """The same numbers in fewer passes over memory, where no compiler fuses the formula."""
    if layout == "half":
        half = x.shape[-1] // 2
        out = x * torch.cat((cos, cos), -1)
        out[..., :half].addcmul_(x[..., half:], sin, value=-1)
        out[..., half:].addcmul_(x[..., :half], sin)
        return out
    if x.storage_offset() % 2 or x.stride(-1) != 1 or any(step % 2 for step in x.stride()[:-1]):
        x = x.clone(memory_format=torch.contiguous_format)  # a pair must lie as a complex number
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))  # (..., L, d/2): a + ib
    return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)


class RoPE(Encoding):
    """q_i ← R_i q_i, k_j ← R_j k_j: scores see positions through j - i only, values not at all.

    `freq`, any (head_dim/2,) tensor in radians per position, replaces frequencies(head_dim, base).
    """

    exact = ("freq",)
    freq: Tensor

    def __init__(
        self,
        head_dim: int,
        base: float = 10_000.0,
        *,
        layout: str = "interleaved",
        freq: Tensor | None = None,
    ) -> None:
        super().__init__()
        _check.layout(layout)
        self.head_dim, self.layout = head_dim, layout
        self.base = base if freq is None else None
        if freq is None:
            freq = frequencies(head_dim, base)
        _check.given_frequencies(freq, head_dim)
        self.register_buffer("freq", freq, persistent=False)

    def query(self, q: Tensor, pos: Tensor) -> Tensor:
        return rotate(q, pos, self.freq, layout=self.layout)

    def key(self, k: Tensor, pos: Tensor) -> Tensor:
        return rotate(k, pos, self.freq, layout=self.layout)

    def reset_parameters(self) -> None:
        if self.base is not None:
            self.freq = frequencies(self.head_dim, self.base, device=self.freq.device)
